"""Rows of a table in memory, read a few thousand at a time without a copy of the table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy import sparse

from budgetline.arrays import Array, DType, Float, Positions, Table
from budgetline.devices import DeviceTable
from budgetline.encoding.table import DesignTable
from budgetline.messages import shown

CHUNK_BYTES = 1 << 23
"""Size of one chunk: large enough to keep BLAS busy, small enough to stay in the cache."""
SHIFT_ROWS = 512
"""Rows whose mean is close enough to the mean of all rows."""
EXTENDED_WORK = 10**6
"""With fewer multiplications than this, products use extended precision, if the machine has it."""
DOUBLE = np.dtype(np.float64)


@dataclass(frozen=True)
class Rows:
    """Some rows (n,) and columns (D,) of a table X (N, D'), with targets Y (N, P) and weights (N,), read in chunks.

    X is an array, a sparse matrix, a ``DesignTable`` (then all columns are read) or a ``DeviceTable`` (then blocks are
    copied to the host). None: all rows, all columns, equal weights.
    """

    X: Table
    Y: Float
    weight: Float | None = None
    columns: Positions | None = None
    rows: Positions | None = None

    @property
    def n_rows(self) -> int:
        return int(self.X.shape[0]) if self.rows is None else self.rows.size

    @property
    def n_columns(self) -> int:
        return int(self.X.shape[1]) if self.columns is None else self.columns.size

    @property
    def table(self) -> Table:
        """All rows of X, with the columns read; columns of an encoding are computed now."""
        if isinstance(self.X, DesignTable):
            return self.X[:]
        return self.X if self.columns is None else self.X[:, self.columns]

    @property
    def by_column(self) -> bool:
        X = self.X
        return isinstance(X, DesignTable) or (
            isinstance(X, np.ndarray) and X.flags.f_contiguous and not X.flags.c_contiguous
        )

    @cached_property
    def weights(self) -> Float:
        """Weights of the rows read, shape (n,); ones if they are equal."""
        if self.weight is None:
            return np.ones(self.n_rows)
        return self.weight if self.rows is None else self.weight[self.rows]

    @cached_property
    def total_weight(self) -> float:
        """Σ w_i over the rows read (n for equal weights)."""
        return float(self.n_rows if self.weight is None else self.weights.sum())

    @property
    def effective_size(self) -> float | None:
        """(Σ w)² / Σ w² over the rows read; None for equal weights. Weights must be of order one."""
        positive = self.weights[self.weights > 0] if self.weight is not None else np.ones(1)
        if np.all(positive == positive[0]):
            return None
        return float(np.clip(positive.sum() ** 2 / (positive @ positive), 1.0, positive.size))

    def rescaled(self) -> tuple[Rows, int]:
        """Return the rows with weights over 2**k, the largest between ½ and 1, and k. Nothing is rounded."""
        if self.weight is None:
            return self, 0
        exponent = int(np.frexp(self.weights.max())[1])
        with np.errstate(over="ignore", under="ignore"):  # in rows not read; in rows of negligible weight
            return replace(self, weight=np.ldexp(self.weight, -exponent)), exponent

    def block(self, index: slice | Positions) -> Array:
        """Return rows ``index`` (into the rows read) as a dense array; a view of X where possible."""
        block = self.X[index if self.rows is None else self.rows[index]]
        if self.columns is not None:
            block = block[:, self.columns]
        dense: Array = block.toarray() if sparse.issparse(block) else np.asarray(block)
        return dense

    @property
    def on_device(self) -> DeviceTable | None:
        """The rows and columns read, if X is on a device."""
        if not isinstance(self.X, DeviceTable):
            return None
        table = self.X if self.rows is None else self.X[self.rows]
        return table if self.columns is None else table[:, self.columns]

    def take(self, rows: Positions) -> Rows:
        weight = None if self.weight is None else self.weight[rows]
        return Rows(self.X[rows], self.Y[rows], weight, self.columns)

    def column(self, d: int) -> Array:
        """Return the entries of column ``d`` of [X, Y] (of those read) in rows of positive weight."""
        if d >= self.n_columns:
            column: Table = self.Y[:, [d - self.n_columns]]
        else:
            column = self.X[:, [d if self.columns is None else self.columns[d]]]
        dense = np.asarray(column.toarray() if sparse.issparse(column) else column).ravel()
        if self.rows is not None:
            dense = dense[self.rows]
        return np.asarray(dense if self.weight is None else dense[self.weights > 0])

    def varying(self, columns: Positions) -> Positions:
        """Return which of these columns (of those read) hold more than one value in rows of positive weight."""
        if sparse.issparse(self.X) and columns.size:  # one pass for all columns, which ignores weights
            table = self.table
            columns = columns[(table.max(axis=0) != table.min(axis=0)).toarray().ravel()[columns]]
        values = ((d, self.column(d)) for d in columns.tolist())
        return np.array([d for d, column in values if np.any(column != column[0])], dtype=np.intp)

    def labels(self, names: Sequence[str] | None) -> Sequence[str]:
        """Return labels of the columns read, for errors: their names, or their positions in X."""
        if names is not None:
            return names
        return [str(d) for d in (range(self.n_columns) if self.columns is None else self.columns)]

    def target_of(self, index: slice | Positions) -> Float:
        return self.Y[index if self.rows is None else self.rows[index]]

    def chunk_rows(self, itemsize: int = 8, least: int = 1) -> int:
        """Return the number of rows that make one chunk of about CHUNK_BYTES, but not fewer than ``least``."""
        width = self.n_columns + int(self.Y.shape[1])
        return max(1, min(self.n_rows, max(least, CHUNK_BYTES // (itemsize * width))))

    def slices(self, size: int) -> Iterator[slice]:
        for start in range(0, self.n_rows, size):
            yield slice(start, min(start + size, self.n_rows))

    def heaviest(self, size: int) -> slice | Positions:
        """Return up to ``size`` rows of the largest weights, without those of weight zero."""
        if self.weight is None:
            return slice(0, size)
        if self.n_rows <= size:
            return np.flatnonzero(self.weights > 0)
        found = np.sort(np.argpartition(self.weights, -size)[-size:])
        return found[self.weights[found] > 0]

    def standardised(
        self, mean: Float, scale: Float, y_mean: Float, dtype: DType = DOUBLE, least: int = 1
    ) -> Iterator[tuple[Array, Array, Array]]:
        """Yield chunks of root·(X − mean)/scale, root·(Y − y_mean) and root = √(w/Σw), in a reused buffer.

        Their shapes are (m, D), (m, P) and (m, 1), with m at least ``least`` except for the last.
        """
        size = self.chunk_rows(dtype.itemsize, least)
        buffer = np.empty((size, self.n_columns), dtype)
        total = self.total_weight
        for index in self.slices(size):
            root = np.sqrt(self.weights[index, None].astype(dtype) / total)
            A = np.subtract(self.block(index), mean.astype(dtype), out=buffer[: len(root)], casting="same_kind")
            A /= scale
            A *= root
            yield A, (self.target_of(index).astype(dtype) - y_mean) * root, root


def shift_of(rows: Rows) -> tuple[Float, Float]:
    """Return a point near the mean, (D,) and (P,): the mean of some of the heaviest rows.

    Sums of squares are taken about this point. About a point far from the mean, rows of small weight would lose digits.
    """
    index = rows.heaviest(SHIFT_ROWS)
    weight = None if rows.weight is None else rows.weights[index]
    return mean_of(rows.block(index), weight), mean_of(rows.target_of(index), weight)


def mean_of(values: Array, weight: Float | None) -> Float:
    """Return the weighted mean of rows (n, k), taken about the heaviest of them.

    The mean of a constant column is exact, so that its variance is exactly zero; so is the mean if one row outweighs
    all others.
    """
    centre = values[0 if weight is None else int(np.argmax(weight))].astype(np.float64)
    away = values - centre
    return np.asarray(centre + (away.mean(axis=0) if weight is None else weight @ away / weight.sum()))


def raise_too_small(rows: Rows, variance: Float, labels: Sequence[str]) -> None:
    """Raise an error if squares of a column or target underflow; the variances have shape (D + P,)."""
    D, P = len(labels), variance.size - len(labels)
    least = np.repeat([1e-300, 1e-280], [D, P])  # scores are squares of targets and must still differ
    for d in np.flatnonzero(variance < least).tolist():
        column = rows.column(d).astype(np.float64)
        span = float(np.ptp(column)) if column.size else 0.0
        name = f"column {shown(labels[d])}" if d < D else f"target {d - D} of y" if P > 1 else "y"
        if span > 1e-130 and rows.weight is not None:
            raise ValueError(
                f"sample_weight is too unequal: {name} spans {span:.3g}, but samples other than the heaviest weigh so "
                "little that its variance underflows. Leave out samples, or make the weights less unequal"
            )
        if span > 0:
            raise ValueError(
                f"Input {'X' if d < D else 'y'} contains values too small for float64 products: {name} spans only "
                f"{span:.3g}; rescale it"
            )
