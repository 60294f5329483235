"""Sums of a statistic over chunks and partitions, and a folder that stores them."""

from __future__ import annotations

import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, is_dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Protocol, Self, TypeVar

import numpy as np
from scipy import sparse

from budgetline.arrays import Float, Positions
from budgetline.data.sources import SOURCE_BYTES, Chunk, Partition, Source
from budgetline.files import decode, encode, read, write_atomically
from budgetline.moments.moments import Moments
from budgetline.threads import blas_threads, one_blas_thread


class Addable(Protocol):
    """A type whose values can be added."""

    def __add__(self, other: Self, /) -> Self: ...


S = TypeVar("S", bound=Addable)
T = TypeVar("T")
R = TypeVar("R")
Statistic = Callable[[Chunk], S | None]
"""Maps a chunk to what it adds to a sum; None for nothing."""


@dataclass(frozen=True)
class Checkpoint:
    """A folder that stores the moments of partitions, one file each, with its name inside; None: nothing is stored."""

    folder: Path | None

    def name(
        self, source: Source, partition: Partition, columns: Positions | None, statistic: Statistic[Any]
    ) -> str | None:
        """Return the name of a sum; None if it cannot be stored."""
        return None if self.folder is None else source.fingerprint(partition, columns, statistic)

    def load(self, name: str | None) -> Any:
        """Return the moments stored under a name; a damaged file is ignored, with a warning."""
        if name is None or not (path := self._path(name)).exists():
            return None
        try:
            arrays, fields = decode(read(path), "checkpoint", str(path))
            if fields.get("name") != name or "moments" not in arrays:
                raise ValueError(f"{path} is a checkpoint of something else")
            return Moments.from_bytes(arrays["moments"].tobytes())
        except ValueError as error:
            warnings.warn(f"{error}; the data are read again", UserWarning, stacklevel=2)
            return None

    def save(self, name: str | None, moments: Any) -> None:
        """Store moments, in full or not at all."""
        if name is not None and moments is not None:
            path = self._path(name)
            path.parent.mkdir(parents=True, exist_ok=True)
            arrays = {"moments": np.frombuffer(moments.to_bytes(), dtype=np.uint8)}
            write_atomically(path, encode("checkpoint", arrays, {"name": name}))

    def _path(self, name: str) -> Path:
        assert self.folder is not None
        return self.folder / f"{name}.moments"


def in_order(work: Callable[[T], R], items: Iterable[T], *, here: bool = False) -> Iterator[R]:
    """Yield the results of items in their order; if an item cannot be read, all before it come first.

    Threads work on as many as take ``SOURCE_BYTES`` together with their results, and on one at least. The next one is
    read meanwhile: by another thread, or by this one if it must be read ``here``. Small items leave BLAS one thread
    each.
    """
    iterator, largest = iter(items), -1
    waiting: deque[tuple[Future[R], int]] = deque()
    with ThreadPoolExecutor(1) as reader, ExitStack() as stack:
        pool = ThreadPoolExecutor(blas_threads())
        stack.callback(pool.shutdown, cancel_futures=True)
        submit = _done_here if here else reader.submit
        read = submit(list, islice(iterator, 1))
        while read.exception() is None and (found := read.result()):
            size = bytes_of(found[0])
            if largest < 0 and 2 * size <= SOURCE_BYTES:  # set by this thread, which may be the only one that can
                stack.enter_context(one_blas_thread())
            waiting.append((pool.submit(work, found.pop()), size))
            read = submit(list, islice(iterator, 1))
            # the first is alone: it tells how large the results are
            while waiting and (largest < 0 or sum(max(size, largest) for _, size in waiting) >= SOURCE_BYTES):
                result = waiting.popleft()[0].result()
                largest = max(largest, bytes_of(result))
                yield result
        while waiting:
            yield waiting.popleft()[0].result()
        read.result()  # the error, if there was one


def _done_here(function: Callable[[Iterator[T]], list[T]], items: Iterator[T]) -> Future[list[T]]:
    """Call a function in this thread."""
    future: Future[list[T]] = Future()
    try:
        future.set_result(function(items))
    except Exception as error:  # it is raised later, after the results of the items before
        future.set_exception(error)
    return future


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
