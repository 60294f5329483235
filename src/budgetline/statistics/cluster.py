"""The same pass on a cluster, by dask: one task per partition, and the same tree of sums."""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module
from typing import Any

from budgetline.data.dask import DaskFrame, DaskPartition
from budgetline.data.sources import ArrayPartition, Positions, Source
from budgetline.statistics.sums import add_up, sum_of_partition


def sum_with_dask(source: Source, statistic: Any, columns: Positions | None, client: Any, memory: Any) -> Any:
    """Return the sum over all partitions, computed by tasks; a task that is lost is run again, with the same result."""
    dask = _dask()
    if source.once:
        raise ValueError("an iterator can be read here only, not by tasks: give files, arrays or dask data")
    leaf, add = dask.delayed(_leaf, pure=True), dask.delayed(_add, pure=True)
    sums = []
    parts = source.partitions
    for partition in parts.reading(columns) if isinstance(parts, DaskFrame) else parts:
        # marks of files are parts of their partitions, and so of the tasks: of changed files, no result is reused
        name = None if memory is None else source.fingerprint(partition, columns, statistic)
        if isinstance(partition, DaskPartition):
            sums.append(leaf(replace(partition, data=None), partition.data, statistic, columns, memory, name))
        elif isinstance(partition, ArrayPartition):
            sums.append(leaf(partition.alone(), None, statistic, columns, memory, name))
        else:
            sums.append(leaf(partition, None, statistic, columns, memory, name))
    while len(sums) > 1:
        pairs = [add(*sums[k : k + 2]) for k in range(0, len(sums) - 1, 2)]
        sums = pairs + sums[2 * len(pairs) :]
    if not sums:
        return None
    if client is not None:
        return client.compute(sums[0]).result()
    return dask.compute(sums[0])[0]


def _leaf(partition: Any, data: Any, statistic: Any, columns: Any, memory: Any, name: Any) -> Any:
    found = replace(partition, data=data) if isinstance(partition, DaskPartition) else partition
    return sum_of_partition(found, statistic, columns, memory, name)


def _add(a: Any, b: Any) -> Any:
    return add_up([a, b])


def _dask() -> Any:
    try:
        return import_module("dask")
    except ImportError as error:
        raise ImportError("this needs dask: pip install 'budgetline[dask]'") from error
