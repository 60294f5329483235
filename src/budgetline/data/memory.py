"""Memory for the rows of one chunk after another."""

from __future__ import annotations

from ctypes import c_char
from math import prod
from weakref import WeakValueDictionary, finalize

import numpy as np

from budgetline.arrays import Array, DType

LARGE = 1 << 22
"""Size of arrays for which it matters."""


class _Spare:
    """Pieces of memory of one size that no array needs; only arrays that need such pieces hold it."""

    def __init__(self) -> None:
        self._pieces: list[memoryview] = []

    def take(self, size: int) -> memoryview:
        """Return a piece."""
        try:
            return self._pieces.pop()
        except IndexError:
            return np.empty(size, np.uint8).data

    def give_back(self, piece: memoryview) -> None:
        """Keep a piece for the next array."""
        self._pieces.append(piece)


_spares: WeakValueDictionary[int, _Spare] = WeakValueDictionary()


def lent(shape: tuple[int, int], dtype: DType) -> Array:
    """Return an array whose entries are arbitrary, in memory that an earlier one no longer needs, if there is some.

    The system takes time to provide fresh memory. What no array needs is kept while there are
    others of about the same size, and freed with the last of them.
    """
    size = prod(shape) * dtype.itemsize
    if size < LARGE:
        return np.empty(shape, dtype)
    step = 1 << (size.bit_length() - 4)
    size = -(-size // step) * step
    spare = _spares.setdefault(size, _Spare())
    piece = spare.take(size)
    # whatever refers to the memory holds the object that exports it: views need not hold the array
    exporter = (c_char * size).from_buffer(piece)
    finalize(exporter, spare.give_back, piece).atexit = False
    return np.frombuffer(memoryview(exporter), dtype, prod(shape)).reshape(shape)


class Room:
    """Memory for a table (m, D) in column-major order, and for ``beside`` columns or a few more next to it.

    Whoever multiplies the table may write there: so targets and ones are multiplied together with it, without a copy.
    """

    def __init__(self, shape: tuple[int, int], dtype: DType, beside: int) -> None:
        self._shape = n, D = shape
        self._whole = lent((whole_width(D + beside), n), dtype)

    @property
    def columns(self) -> Array:
        """The columns of the table, (D, m), to be filled."""
        return self._whole[: self._shape[1]]

    @property
    def table(self) -> Array:
        """The table."""
        return self.columns.T

    def around(self, table: object, width: int) -> Array | None:
        """Return the table and the columns next to it, ``width`` or a few more; None for too many, or another table."""
        own = self.table
        same = isinstance(table, np.ndarray) and table.__array_interface__ == own.__array_interface__
        return self._whole.T if same and width <= len(self._whole) else None


def whole_width(width: int) -> int:
    """Return the least number of columns that suits the vector units."""
    return -(-width // 8) * 8
