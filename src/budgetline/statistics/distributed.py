"""The same pass on a cluster, by dask: one task per partition, and the same tree of sums."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from importlib import import_module
from typing import Any

import numpy as np

from budgetline.statistics.sources import Chunk, Positions, Source
from budgetline.statistics.sums import add_up, sum_of_partition


def is_dask(data: Any) -> bool:
    """Say whether something is a dask collection, without importing dask."""
    return hasattr(data, "__dask_graph__") and hasattr(data, "to_delayed")


def is_distributed(source: Source) -> bool:
    """Say whether the partitions of a source are dask's, to be read where they are."""
    return not source.once and any(isinstance(part, DaskPartition) for part in source.partitions)


@dataclass(frozen=True)
class DaskPartition:
    """A partition of a dask collection. ``data`` is delayed here and there at hand where the task runs.

    ``data`` is (X, y, weight) of arrays, or a data frame whose columns have ``roles``.
    """

    data: Any
    number: int
    roles: Any = None
    n_rows: None = None

    def fingerprint(self) -> None:
        """Return None: what dask computes has no lasting name."""

    def chunks(self, columns: Positions | None) -> Iterator[Chunk]:
        """Yield the rows; only where ``data`` is at hand."""
        where = f"partition {self.number}"
        if self.roles is not None:
            table = import_module("pyarrow").Table.from_pandas(self.data, preserve_index=False)
            for batch in table.combine_chunks().to_batches(max_chunksize=self.roles.chunk_rows):
                yield self.roles.chunk(batch, columns, where)
            return
        X, y, weight = self.data
        yield Chunk.of(X if columns is None else X[:, columns], y, weight, None, where)


def dask_array_source(X: Any, y: Any, weight: Any) -> Source:
    """Return a source of dask arrays X (n, D) and y (n,) or (n, P); rows are chunked as those of X."""
    array = import_module("dask.array")
    if any(np.isnan(size) for size in X.chunks[0]):
        raise ValueError("X has chunks of unknown sizes: call X.compute_chunk_sizes() first")
    X = X.rechunk({1: -1})
    parts = [X.to_delayed().ravel()]
    for name, part in (("y", y), ("weight", weight)):
        if part is None:
            parts.append([None] * len(parts[0]))
            continue
        part = part if is_dask(part) else array.from_array(np.asarray(part))
        if part.shape[0] != X.shape[0]:
            raise ValueError(f"{name} has {part.shape[0]} rows, X has {X.shape[0]}")
        part = part.rechunk({0: X.chunks[0], **({1: -1} if part.ndim == 2 else {})})
        parts.append(part.to_delayed().ravel())
    given = [DaskPartition(rows, k) for k, rows in enumerate(zip(*parts, strict=True))]
    return Source(given, int(X.shape[1]), None, tuple(y.shape[1:]))


def dask_frame_source(frame: Any, roles: Any) -> Source:
    """Return a source of a dask data frame."""
    wanted = frame[roles.wanted(None)]
    shape = () if isinstance(roles.target, str) else (len(roles.target),)
    given = [DaskPartition(part, k, roles) for k, part in enumerate(wanted.to_delayed())]
    return Source(given, len(roles.features), roles.features, shape)


def sum_with_dask(source: Source, statistic: Any, columns: Positions | None, client: Any, memory: Any) -> Any:
    """Return the sum over all partitions, computed by tasks; a task that is lost is run again, with the same result."""
    dask = _dask()
    if source.once:
        raise ValueError("an iterator can be read here only, not by tasks: give files, arrays or dask data")
    leaf, add = dask.delayed(_leaf, pure=True), dask.delayed(_add, pure=True)
    sums = []
    for partition in source.partitions:
        name = None if memory is None else source.fingerprint(partition, columns)
        if isinstance(partition, DaskPartition):
            sums.append(leaf(replace(partition, data=None), partition.data, statistic, columns, memory, name))
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
