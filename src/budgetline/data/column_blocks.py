"""Blocks of rows that are filled by columns: some columns of all blocks, then the next columns.

A file that is stored by columns is decoded fastest a few columns at a time. Chunks of rows need all columns.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import accumulate
from threading import Lock
from typing import IO, TYPE_CHECKING, Protocol

import numpy as np

from budgetline.arrays import DType
from budgetline.data.memory import Room
from budgetline.data.tabular import arrow, fill

if TYPE_CHECKING:
    import pyarrow as pa


class Blocks(Protocol):
    """Blocks of rows of all columns; threads may fill them at the same time."""

    def put(self, number: int, first: int, numbers: pa.RecordBatch) -> None:
        """Store adjacent columns of a block, the first of which is column ``first``."""
        ...

    def taken(self) -> Iterator[Room]:
        """Yield the blocks (m, D). What was yielded is no longer held."""
        ...


class HeldBlocks:
    """Blocks in memory."""

    def __init__(self, sizes: list[int], width: int, dtype: DType, beside: int) -> None:
        self._blocks = [Room((size, width), dtype, beside) for size in sizes]

    def put(self, number: int, first: int, numbers: pa.RecordBatch) -> None:
        """Store columns."""
        fill(self._blocks[number].columns[first : first + numbers.num_columns], numbers)

    def taken(self) -> Iterator[Room]:
        """Yield the blocks."""
        self._blocks.reverse()
        while self._blocks:
            yield self._blocks.pop()


class SpilledBlocks:
    """Blocks in a file, one after another, for more rows than memory may hold."""

    def __init__(self, file: IO[bytes], sizes: list[int], width: int, dtype: DType, beside: int) -> None:
        self._file, self._lock, self._beside = file, Lock(), beside
        self._sizes, self._width, self._dtype = sizes, width, dtype
        self._starts = [0, *accumulate(sizes)]

    def put(self, number: int, first: int, numbers: pa.RecordBatch) -> None:
        """Write columns."""
        values = np.empty((numbers.num_columns, self._sizes[number]), self._dtype)
        fill(values, numbers)
        with self._lock:
            self._seek(self._starts[number] * self._width + first * self._sizes[number])
            self._file.write(values.reshape(-1).data)

    def taken(self) -> Iterator[Room]:
        """Read the blocks."""
        for start, size in zip(self._starts, self._sizes, strict=False):
            found = Room((size, self._width), self._dtype, self._beside)
            self._seek(start * self._width)
            if self._file.readinto(found.columns.reshape(-1).data) != found.columns.nbytes:  # type: ignore[attr-defined]
                raise OSError("rows that were written to a temporary file cannot be read back")
            yield found

    def _seek(self, entry: int) -> None:
        self._file.seek(entry * self._dtype.itemsize)


def rows_cut(batches: Iterable[pa.RecordBatch], sizes: Iterable[int], where: str) -> Iterator[pa.RecordBatch]:
    """Cut record batches that follow each other into batches of these numbers of rows."""
    iterator = iter(batches)
    held: list[pa.RecordBatch] = []
    for size in sizes:
        while sum(batch.num_rows for batch in held) < size:
            batch = next(iterator, None)
            if batch is None:
                raise ValueError(f"{where}: there are fewer rows than the file says")
            held.append(batch)
        [whole] = held if len(held) == 1 else arrow().Table.from_batches(held).combine_chunks().to_batches()
        held = [whole.slice(size)] if whole.num_rows > size else []
        yield whole.slice(0, size) if held else whole
