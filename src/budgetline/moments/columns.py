"""Standardised columns on demand: used for wide and sparse tables instead of a D × D matrix."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy import sparse

from budgetline.arrays import Array, Float, Positions, Table
from budgetline.data.rows import CHUNK_BYTES, Rows, mean_of, raise_too_small, shift_of
from budgetline.devices import DeviceTable, device_of, library_of, on_host
from budgetline.inputs import raise_not_finite


@dataclass(frozen=True)
class StandardisedColumns:
    """The matrix A = diag(root) (X − 1·mean') diag(1/scale), never formed; ``root`` (n,) is √(w_i/Σw).

    X is a dense array, a CSC matrix or a DeviceTable, shape (n, D).

    Examples
    --------
    >>> import numpy as np
    >>> from budgetline.moments import StandardisedColumns
    >>> A = StandardisedColumns(np.eye(2), mean=np.zeros(2), scale=np.ones(2), root=np.ones(2))
    >>> A.project(np.array([[3.0], [4.0]])).tolist()
    [[3.0, 4.0]]
    """

    X: Table
    mean: Float
    scale: Float
    root: Float

    def columns(self, index: Positions) -> Float:
        """Return the columns ``index`` of A, dense, shape (n, len(index))."""
        A = self.plain(index)
        A *= self.root[:, None]
        return A

    def plain(self, index: Positions, rows: slice | None = None) -> Float:
        """Return the columns ``index`` without the weights, (X − mean)/scale, of all rows or some."""
        block = (self.X if rows is None else self.X[rows])[:, _adjacent(index)]
        dense = block.toarray() if sparse.issparse(block) else np.asarray(block)
        A: Float = np.subtract(dense, self.mean[index], dtype=np.float64)
        A /= self.scale[index]
        return A

    def squares(self, groups: Positions) -> Float:
        """Return A_g'A_g for groups of one size, given their columns (J, s): (J, s, s); a few groups at a time."""
        (count, size), on_device = groups.shape, isinstance(self.X, DeviceTable)
        most = self.X.chunk_bytes // 2 if on_device else CHUNK_BYTES  # there, products take two more copies
        batch = max(1, most // (8 * size * self.root.size))
        return np.concatenate([self._squares(groups[start : start + batch]) for start in range(0, count, batch)])

    def _squares(self, groups: Positions) -> Float:
        on_device, index = isinstance(self.X, DeviceTable), groups.ravel()
        A, turn = (
            (self.columns_there(index), self.X.device.permuted) if on_device else (self.columns(index), np.transpose)
        )
        by_group = library_of(A).reshape(A.T, (*groups.shape, -1))  # contiguous, so that BLAS computes the product
        return on_host(by_group @ turn(by_group, (0, 2, 1)))

    def columns_there(self, index: Positions) -> Float:
        """Return the columns ``index`` of A on the device of X."""
        block = self.plain_there(index, slice(0, self.root.size))
        block *= self._there[2]
        return block

    def plain_there(self, index: Positions, rows: slice) -> Float:
        """Return the columns ``index`` of some rows without the weights, on the device of X."""
        device, (mean, inverse, _), place = self.X.device, self._there, _adjacent(index)
        if isinstance(place, slice):
            mean, inverse = mean[place], inverse[place]
        else:
            there = device.positions(place)
            mean, inverse = device.take(mean, there, 0), device.take(inverse, there, 0)
        block: Float = self.X[:, place].block(rows) - mean
        block *= inverse
        return block

    @cached_property
    def _there(self) -> tuple[Float, Float, Float]:
        """Mean, 1/scale and root (n, 1) on the device of X."""
        device = self.X.device
        return device.put(self.mean), device.put(1 / self.scale), device.put(self.root[:, None])

    def project(self, q: Float) -> Float:
        """Return q'A, shape (m, D), for q of shape (n, m), which may be where X is."""
        if isinstance(self.X, DeviceTable):
            return self._project_there(q)
        v = q * self.root[:, None]
        products = (self.X.T @ v).T if sparse.issparse(self.X) else v.T.astype(self.X.dtype, copy=False) @ self.X
        return np.asarray((products - np.outer(v.sum(axis=0), self.mean)) / self.scale)

    def _project_there(self, q: Float) -> Float:
        table: DeviceTable = self.X
        device, (mean, inverse, root) = table.device, self._there
        v = (q if device_of(q) else device.put(np.ascontiguousarray(q))) * root
        products = table.summed(lambda s: v[s, ...].T @ table.block(s), at_once=True)
        products -= device.xp.sum(v, axis=0)[:, None] * mean
        products *= inverse
        return on_host(products)


def _adjacent(index: Positions) -> slice | Positions:
    """Return columns one after another as a slice: they are a view, not a copy."""
    return slice(int(index[0]), int(index[-1]) + 1) if index.size and np.all(np.diff(index) == 1) else index


def standardised_columns(
    rows: Rows, names: Sequence[str] | None = None, weights: Float | None = None
) -> tuple[StandardisedColumns, Float, Float]:
    """Return standardised columns, targets √(w/Σw)·(Y − mean) (n, P), and the means (P,) of Y.

    Penalty weights (D,) are part of the scales, see `scale_of`.
    """
    table = rows.on_device
    X: Table = rows.table if table is None else table
    if table is None and X.dtype not in (np.float32, np.float64):
        X = X.astype(np.float64)
    rows, _ = rows.rescaled()
    total, weight = rows.total_weight, rows.weights
    with np.errstate(all="ignore"):  # values that are not finite show up in the result
        if sparse.issparse(X):
            X = X.tocsc()
            mean, variance = _sparse_mean_variance(X, weight, total)
        else:
            mean, variance = _dense_mean_variance(rows, table, weight, total)
        y_mean = mean_of(rows.Y, rows.weight)
        y_variance = np.average((rows.Y - y_mean) ** 2, axis=0, weights=rows.weight)
    if not (np.isfinite(y_variance).all() and np.isfinite(variance).all()):
        raise_not_finite(X, rows.labels(names))
        raise ValueError("X or y holds values too large for float64 products; rescale them")
    raise_too_small(rows, np.concatenate([variance, y_variance]), rows.labels(names))
    root = np.sqrt(weight / total)
    A = StandardisedColumns(X, mean, scale_of(mean, variance, weights), root)
    return A, (rows.Y - y_mean) * root[:, None], y_mean


def scale_of(mean: Float, variance: Float, weights: Float | None = None) -> Float:
    """Return standard deviations, times √ω for penalty weights ω (D,), so that ‖w‖² becomes Σ ω_d w_d².

    It is inf for columns whose spread is only the rounding of their mean: dividing by it makes an exact zero.
    """
    noise = 10 * np.finfo(np.float64).eps * np.abs(mean)
    scale = np.where(variance > noise**2, np.sqrt(np.maximum(variance, 0.0)), np.inf)
    return scale if weights is None else scale * np.sqrt(weights)


def _dense_mean_variance(rows: Rows, table: DeviceTable | None, weight: Float, total: float) -> tuple[Float, Float]:
    shift, _ = shift_of(rows)
    if table is None:
        found = np.zeros((2, shift.size))
        for index in rows.slices(rows.chunk_rows()):
            block = rows.block(index) - shift
            found[0] += weight[index] @ block
            found[1] += weight[index] @ np.square(block, out=block)
    else:
        device, centre, shares = table.device, table.device.put(shift), table.device.put(weight[None])

        def of(s: slice) -> Float:
            block, own = table.block(s) - centre, shares[:, s]
            both: Float = device.xp.concat([own @ block, own @ (block * block)], axis=0)
            return both

        found = on_host(table.summed(of))
    offset = found[0] / total
    return shift + offset, found[1] / total - offset**2


def _sparse_mean_variance(X: Table, weight: Float, total: float) -> tuple[Float, Float]:
    """Three passes over the non-zeros; the zeros of a column contribute (Σw − Σ_nonzero w)·mean²."""
    entry_weight = weight[X.indices]
    column = np.repeat(np.arange(X.shape[1]), np.diff(X.indptr))
    width = X.shape[1]
    mean = np.bincount(column, X.data * entry_weight, width) / total
    zeros = _weight_of_zeros(X, weight, total, np.bincount(column, entry_weight, width))
    # a long sum is rounded many times: its error is summed about it
    offset = np.bincount(column, entry_weight * (X.data - mean[column]), width) - zeros * mean
    mean = mean + offset / total
    variance = np.bincount(column, entry_weight * (X.data - mean[column]) ** 2, width)
    return mean, (variance + zeros * mean**2) / total


def _weight_of_zeros(X: Table, weight: Float, total: float, stored: Array) -> Float:
    """Return the weight of the rows that a column does not store (D,), an exact zero where it stores all of them."""
    count = np.diff(X.indptr)
    zeros = np.where(count < X.shape[0], np.maximum(total - stored, 0.0), 0.0)
    for d in np.flatnonzero((zeros < 1e-4 * total) & (count < X.shape[0])).tolist():
        empty = np.ones(X.shape[0], dtype=bool)  # little is left of the total: add up the weights of the zeros instead
        empty[X.indices[X.indptr[d] : X.indptr[d + 1]]] = False
        zeros[d] = weight[empty].sum()
    return np.asarray(zeros)
