"""Columns put aside on disk: how a row group that is too large for memory is turned from columns into rows."""

from __future__ import annotations

from tempfile import TemporaryFile
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray


class Spill:
    """A table of one type in a temporary file, column after column; the file is gone when this is closed.

    Parameters
    ----------
    n_rows, n_columns : int
    dtype : dtype
    """

    def __init__(self, n_rows: int, n_columns: int, dtype: np.dtype[Any]) -> None:
        self._n_rows, self._n_columns, self._dtype = n_rows, n_columns, dtype
        self._file = TemporaryFile(prefix="budgetline-")  # noqa: SIM115 (closed on leaving this context)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def write(self, block: NDArray[Any], row: int, column: int) -> None:
        """Put a block aside whose first entry belongs into this row and column."""
        for k, values in enumerate(block.T):
            self._seek(row, column + k)
            self._file.write(np.ascontiguousarray(values, dtype=self._dtype).data)

    def rows(self, start: int, stop: int) -> NDArray[Any]:
        """Return some rows of all columns, in column-major order."""
        found = np.empty((self._n_columns, stop - start), self._dtype)
        for k, values in enumerate(found):
            self._seek(start, k)
            if self._file.readinto(values.data) != values.nbytes:
                raise OSError("rows that were put aside on disk cannot be read back")
        return found.T

    def _seek(self, row: int, column: int) -> None:
        self._file.seek((column * self._n_rows + row) * self._dtype.itemsize)
