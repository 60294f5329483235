"""Design columns that are encoded when they are read, so that the whole design matrix is never in memory."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from budgetline.arrays import DType, Float, Positions
from budgetline.encoding.encoders import NumberEncoder
from budgetline.encoding.raw import RawColumn, ReadTable
from budgetline.encoding.table import TableEncoding

SMALL = 1 << 26
"""Design matrices of at most this many bytes are made at once: reading them again is faster than encoding again."""


@dataclass(frozen=True, eq=False)
class DesignTable:
    """The design columns (n, D) of a raw table, which is indexed like an array: ``[rows]`` or ``[:, columns]``.

    Columns must ascend. Rows are encoded anew each time, which gives the same numbers.
    """

    table: ReadTable
    encoding: TableEncoding
    dtype: ClassVar[DType] = np.dtype(np.float64)

    @property
    def shape(self) -> tuple[int, int]:
        """Shape (n, D)."""
        return self.table.n_rows, self.encoding.layout.n_features

    def __getitem__(self, index: slice | Positions | tuple[slice, list[int]]) -> Float:
        rows, columns = index if isinstance(index, tuple) else (index, None)
        wanted = None if columns is None else np.asarray(columns, dtype=np.intp)
        return self.encoding.encode(self.table.take(rows), wanted)


def design_of(table: ReadTable, encoding: TableEncoding, *, at_once: bool) -> DesignTable | Float:
    """Return the design columns of a raw table; they are made now if they take little memory, or if ``at_once``.

    Numbers that are written in text are read once.
    """
    columns = dict(table.columns)
    for d, encoder in zip(encoding.source.read.tolist(), encoding.encoders, strict=True):
        if isinstance(encoder, NumberEncoder) and encoder.form is not None:
            columns[d] = RawColumn(columns[d].name, columns[d].as_numbers(form=encoder.form))
    design = DesignTable(replace(table, columns=columns), encoding)
    n, D = design.shape
    return design[:] if at_once or design.dtype.itemsize * n * D <= SMALL else design
