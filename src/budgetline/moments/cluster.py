"""The same pass on a cluster, by dask: one task per partition, and the same tree of sums."""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module
from types import ModuleType

from budgetline.arrays import Positions
from budgetline.data.dask import Client, DaskFrame, DaskPartition
from budgetline.data.sources import ArrayPartition, Partition, Source
from budgetline.moments.sums import Checkpoint, S, Statistic, add_up


def sum_with_dask(
    source: Source, statistic: Statistic[S], columns: Positions | None, client: Client, memory: Checkpoint
) -> S | None:
    """Return the sum over all partitions, computed by tasks; a lost task is run again, with the same result."""
    dask = _dask()
    if source.once:
        raise ValueError("tasks cannot read an iterator: give files, arrays or dask data")
    leaf, add = dask.delayed(_leaf, pure=True), dask.delayed(_add, pure=True)
    sums = []
    parts = source.partitions
    for partition in parts.reading(columns) if isinstance(parts, DaskFrame) else parts:
        # marks of files are parts of their partitions, and so of the tasks: results of changed files are not reused
        name, data = memory.name(source, partition, columns, statistic), None
        if isinstance(partition, DaskPartition):
            partition, data = replace(partition, data=None), partition.data
        elif isinstance(partition, ArrayPartition):
            partition = partition.alone()
        sums.append(leaf(partition, data, statistic, columns, memory, name))
    while len(sums) > 1:
        pairs = [add(*sums[k : k + 2]) for k in range(0, len(sums) - 1, 2)]
        sums = pairs + sums[2 * len(pairs) :]
    if not sums:
        return None
    found: S | None = dask.compute(sums[0])[0] if client is None else client.compute(sums[0]).result()
    return found


def _leaf(
    partition: Partition,
    data: object,
    statistic: Statistic[S],
    columns: Positions | None,
    memory: Checkpoint,
    name: str | None,
) -> S | None:
    """Return the sum over one partition; a dask partition holds ``data``."""
    found: S | None = memory.load(name)
    if found is None:
        whole = replace(partition, data=data) if isinstance(partition, DaskPartition) else partition
        found = add_up(statistic(chunk) for chunk in whole.chunks(columns) if chunk.n_rows)
        memory.save(name, found)
    return found


def _add(a: S | None, b: S | None) -> S | None:
    return add_up([a, b])


def _dask() -> ModuleType:
    try:
        return import_module("dask")
    except ImportError as error:
        raise ImportError("this needs dask: pip install 'budgetline[dask]'") from error
