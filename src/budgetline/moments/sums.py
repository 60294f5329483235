"""Sums of a statistic over chunks and partitions."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, is_dataclass, replace
from typing import Any, Protocol, Self, TypeVar

import numpy as np
from scipy import sparse

from budgetline.arrays import Float, Positions
from budgetline.data.dask import Client, DaskFrame, DaskPartition
from budgetline.data.sources import SOURCE_BYTES, ArrayPartition, Chunk, Partition, Source
from budgetline.moments.moments import Moments
from budgetline.packages import imported
from budgetline.threads import blas_threads, one_blas_thread


class Addable(Protocol):
    """A type whose values can be added."""

    def __add__(self, other: Self, /) -> Self: ...


S = TypeVar("S", bound=Addable)
T = TypeVar("T")
R = TypeVar("R")
Statistic = Callable[[Chunk], S | None]
"""Maps a chunk to what it adds to a sum; None for nothing."""


def in_order(work: Callable[[T], R], items: Iterable[T]) -> Iterator[R]:
    """Yield the results of items in their order.

    Threads work on items of ``SOURCE_BYTES`` together with their results, or on one. Meanwhile this thread reads the
    next item: reading may run code of the caller. Small items leave BLAS one thread each.
    """
    largest = -1
    waiting: deque[tuple[Future[R], int]] = deque()
    with ExitStack() as stack:
        pool = ThreadPoolExecutor(blas_threads())
        stack.callback(pool.shutdown, cancel_futures=True)
        for item in items:
            size = bytes_of(item)
            # the first is alone: it tells how large the results are
            while waiting and (
                largest < 0 or sum(max(b, largest) for _, b in [*waiting, (None, size)]) >= SOURCE_BYTES
            ):
                result = waiting.popleft()[0].result()
                largest = max(largest, bytes_of(result))
                yield result
            if largest < 0 and 2 * size <= SOURCE_BYTES:
                stack.enter_context(one_blas_thread())
            waiting.append((pool.submit(work, item), size))
            del item
        while waiting:
            yield waiting.popleft()[0].result()


def bytes_of(value: Any) -> int:
    """Return the size of the arrays of a chunk, or of a sum."""
    if isinstance(value, np.ndarray) or sparse.issparse(value):
        return int(value.size * value.dtype.itemsize)
    parts = value if isinstance(value, tuple) else vars(value).values() if is_dataclass(value) else ()
    return sum(map(bytes_of, parts))


def add_up(parts: Iterable[S | None]) -> S | None:
    """Return the sum from left to right; None is skipped."""
    total: S | None = None
    for part in parts:
        total = part if total is None else total if part is None else total + part
    return total


def tree_sum(parts: Iterable[S | None]) -> S | None:
    """Return the sum as a balanced tree, keeping only one partial sum per level."""
    sums: list[tuple[int, S | None]] = []  # of 2^level parts each, the level falls
    for part in parts:
        level = 0
        while sums and sums[-1][0] == level:
            part = add_up([sums.pop()[1], part])
            level += 1
        sums.append((level, part))
    total = None
    while sums:
        total = add_up([sums.pop()[1], total])
    return total


@dataclass(frozen=True)
class RowSums:
    """Sums over rows of weights and weighted values, and the moments of the targets for metrics that need them."""

    weight: float
    total: Float
    targets: Moments | None = None

    def __add__(self, other: RowSums) -> RowSums:
        return RowSums(self.weight + other.weight, self.total + other.total, add_up([self.targets, other.targets]))

    @property
    def mean(self) -> Float:
        """The weighted means of the values."""
        return np.asarray(self.total / self.weight)

    @property
    def variance(self) -> Float | None:
        """The variances of the targets, if their moments are known."""
        return None if self.targets is None else np.asarray(np.diag(self.targets.scatter) / self.targets.weight)


def sum_with_dask(source: Source, statistic: Statistic[S], columns: Positions | None, client: Client) -> S | None:
    """Return the sum over all partitions, computed by tasks; a lost task is run again, with the same result."""
    dask = imported("dask", "this needs dask", "dask")
    if source.once:
        raise ValueError("tasks cannot read an iterator: pass files, arrays or dask data")
    leaf, add = dask.delayed(_leaf, pure=True), dask.delayed(_add, pure=True)
    sums = []
    parts = source.partitions
    for partition in parts.reading(columns) if isinstance(parts, DaskFrame) else parts:
        # marks of files are parts of their partitions, and so of the tasks: results of changed files are not reused
        data = None
        if isinstance(partition, DaskPartition):
            partition, data = replace(partition, data=None), partition.data
        elif isinstance(partition, ArrayPartition):
            partition = partition.alone()
        sums.append(leaf(partition, data, statistic, columns))
    while len(sums) > 1:
        pairs = [add(*sums[k : k + 2]) for k in range(0, len(sums) - 1, 2)]
        sums = pairs + sums[2 * len(pairs) :]
    if not sums:
        return None
    found: S | None = dask.compute(sums[0])[0] if client is None else client.compute(sums[0]).result()
    return found


def _leaf(partition: Partition, data: object, statistic: Statistic[S], columns: Positions | None) -> S | None:
    """Return the sum over one partition; a dask partition holds ``data``."""
    whole = replace(partition, data=data) if isinstance(partition, DaskPartition) else partition
    return add_up(statistic(chunk) for chunk in whole.chunks(columns) if chunk.n_rows)


def _add(a: S | None, b: S | None) -> S | None:
    return add_up([a, b])
