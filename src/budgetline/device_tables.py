"""Tables on a device: multiplied there a chunk of rows at a time, in smaller chunks if memory runs out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from operator import iadd
from typing import TypeVar

import numpy as np

from budgetline.arrays import Array, DType, Float, Positions
from budgetline.devices import DOUBLE, SINGLE, Device, device_of, on_host

SMALL_BYTES = 1 << 18
"""Tables of at most this many bytes are copied to the host: starting work on a device takes longer."""
CHUNK_BYTES = 1 << 28
"""Size of the rows that are multiplied at once: large enough for any device, and small compared with its memory."""
LEAST_ROWS = 256
"""Chunks are not made smaller than this when memory runs out."""
Index = slice | Positions | list[int]
ChunkResult = TypeVar("ChunkResult")


@dataclass(frozen=True, eq=False)
class DeviceTable:
    """A table (n, D) on a device, indexed like an array: ``[rows]`` or ``[rows, columns]``, without a copy for slices.

    NumPy's functions, and ``numpy.asarray``, copy it to the host. None: all columns of the array.
    """

    array: Float
    device: Device
    columns: Positions | None = None
    ndim = 2

    @cached_property
    def dtype(self) -> DType:
        """The type of the numbers, as NumPy calls it."""
        name = str(self.array.dtype).rpartition(".")[2]
        try:
            found = np.dtype(name)
        except TypeError:
            raise ValueError(f"X holds {name} numbers: convert them to float32 or float64") from None
        if found.kind == "c":
            raise ValueError("Complex data not supported: X holds complex numbers")
        return found

    @property
    def shape(self) -> tuple[int, int]:
        """Shape (n, D)."""
        n, D = self.array.shape
        return int(n), int(D) if self.columns is None else self.columns.size

    @cached_property
    def _index(self) -> Float | None:
        """The columns, on the device."""
        return None if self.columns is None else self.device.positions(self.columns)

    @property
    def plain(self) -> bool:
        """Whether all columns of the array are read, and are doubles: blocks are then views."""
        return self.columns is None and self.dtype == DOUBLE

    def block(self, rows: slice, dtype: DType = DOUBLE, columns: Float | None = None) -> Float:
        """Return rows on the device, with numbers of this type; ``columns`` are positions on the device."""
        found = self.array[rows, ...]
        for index in (self._index, columns):
            found = found if index is None else self.device.take(found, index, 1)
        return self.device.cast(found, dtype)

    def __getitem__(self, index: Index | tuple[Index, Index]) -> DeviceTable:
        rows, columns = index if isinstance(index, tuple) else (index, slice(None))
        table = self
        if isinstance(rows, slice):
            if rows != slice(None):
                table = replace(table, array=table.array[slice(*rows.indices(self.shape[0])), ...])
        else:
            places = self.device.positions(_places(rows))
            table = replace(table, array=self.device.take(table.array, places, 0))
        if isinstance(columns, slice) and self.columns is None:
            return table if columns == slice(None) else replace(table, array=table.array[:, columns])
        known = np.arange(self.array.shape[1]) if self.columns is None else self.columns
        return replace(table, columns=known[columns if isinstance(columns, slice) else _places(columns)])

    def __array__(self, dtype: DType | None = None, copy: bool | None = None) -> Array:
        found = self.array if self._index is None else self.device.take(self.array, self._index, 1)
        return np.array(on_host(found), dtype=dtype, copy=copy)

    def __matmul__(self, W: Float) -> Float:
        """Return the product with W (D, m), computed on the device, on the host."""
        right = self.device.put(np.ascontiguousarray(W, dtype=np.float64))
        return on_host(self.joined(lambda s: self.block(s) @ right, at_once=True))

    def sum(self, dtype: DType) -> float:
        """Return the sum of all numbers, in numbers of this type."""
        total = self.summed(lambda s: self.device.xp.sum(self.block(s, np.dtype(dtype)), axis=0))
        with np.errstate(invalid="ignore"):
            return float(on_host(total).sum())

    def __abs__(self) -> Array:
        return np.asarray(np.abs(np.asarray(self)))

    @property
    def chunk_bytes(self) -> int:
        """Size of the rows that are multiplied at once: also small compared with the table."""
        n, D = self.shape
        return min(CHUNK_BYTES, max(1 << 20, n * D))

    @property
    def chunk_rows(self) -> int:
        """Number of rows of a chunk."""
        return max(LEAST_ROWS, self.chunk_bytes // (8 * max(self.shape[1], 1)))

    def summed(self, work: Callable[[slice], Float], *, at_once: bool = False) -> Float:
        """Return the sum of what ``work`` returns for chunks of rows, on the device.

        ``at_once``: the work makes no large arrays. If blocks are views, too, all rows are one chunk.
        """
        return reduce(iadd, self._over_chunks(work, at_once))

    def mapped(self, work: Callable[[slice], ChunkResult], *, at_once: bool = False) -> list[ChunkResult]:
        """Return the results of ``work`` for chunks of rows, in order; as above."""
        return list(self._over_chunks(work, at_once))

    def joined(self, work: Callable[[slice], Float], *, at_once: bool = False) -> Float:
        """Return what ``work`` returns for chunks of rows (m, …), one after another, on the device; as above."""
        parts = self.mapped(work, at_once=at_once)
        joined: Float = parts[0] if len(parts) == 1 else self.device.xp.concat(parts, axis=0)
        return joined

    def _over_chunks(self, work: Callable[[slice], ChunkResult], at_once: bool) -> Iterator[ChunkResult]:
        """Yield the work on chunks of rows; they are made smaller if memory runs out."""
        n, start = self.shape[0], 0
        size = n if at_once and self.plain else self.chunk_rows
        while start < n:
            rows = slice(start, min(start + size, n))
            found = self._attempt(work, rows)
            if found is not None:
                yield found
                start = rows.stop
            elif (tried := rows.stop - rows.start) < 2 * LEAST_ROWS:
                what = f"has no memory left for {tried} rows of {self.shape[1]} columns, in addition to the table"
                raise MemoryError(
                    f"{self.device} {what}: fit on fewer rows, or stream them, open_data(..., device=...)"
                )
            else:
                size = min(tried // 2, self.chunk_rows)

    def _attempt(self, work: Callable[[slice], ChunkResult], rows: slice) -> ChunkResult | None:
        """Return the work on some rows, None if there is not enough memory for it."""
        try:
            return work(rows)
        except (RuntimeError, MemoryError) as error:
            if not out_of_memory(error):
                raise
        self.device.release()
        return None


def on_device(given: object) -> object:
    """Return an array of another library as a table on its device; anything else as it is.

    A small table, or one on a device without double precision, is copied to the host.
    """
    device = device_of(given)
    if device is None:
        return given
    array: Float = given.detach() if device.library == "torch" else given  # type: ignore[attr-defined, assignment]
    if len(array.shape) != 2 or not device.double:
        return on_host(array)
    table = DeviceTable(array, device)
    return on_host(array) if table.dtype.itemsize * table.shape[0] * table.shape[1] <= SMALL_BYTES else table


def moved(table: Array, device: Device) -> Array | DeviceTable:
    """Return a copy of a table on a device; small tables, sparse matrices and device tables stay."""
    if not isinstance(table, np.ndarray) or table.nbytes <= SMALL_BYTES:
        return table
    numbers = table if table.dtype in (DOUBLE, SINGLE) else table.astype(DOUBLE)
    return DeviceTable(device.put(numbers), device)


def out_of_memory(error: Exception) -> bool:
    """Return whether an error of a library says that there is not enough memory."""
    text = f"{type(error).__name__} {error}"
    return isinstance(error, MemoryError) or "OutOfMemory" in text or "RESOURCE_EXHAUSTED" in text


def _places(index: Positions | list[int]) -> Positions:
    places = np.asarray(index)
    return np.flatnonzero(places) if places.dtype == bool else places.astype(np.intp)
