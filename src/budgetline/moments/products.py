"""The one expensive step of a fit: products of the columns of [X, Y], summed over all rows."""

from __future__ import annotations

import numpy as np
from scipy import sparse

from budgetline.arrays import Array, DType, Float
from budgetline.data.rows import Rows, mean_of, shift_of
from budgetline.devices import DeviceTable, on_host
from budgetline.threads import sum_in_threads

WIDE = 1024
"""Wider products keep all BLAS threads busy on their own."""


def dense_scatter(rows: Rows, dtype: DType) -> tuple[Float, Float, Float]:
    """Return mean (D + P,), its rounding error, and scatter (D + P, D + P) of [X, Y] from products of dense chunks.

    The products are taken about a point near the data, in the precision of ``dtype``, so weights must be of order one;
    they are added up in float64. Narrow products are spread over threads by rows, with one BLAS thread each, so that
    buffers are filled in parallel, too.
    """
    shift = np.concatenate([s.astype(dtype) for s in shift_of(rows)])
    table = rows.on_device
    if table is not None and dtype.name in ("float32", "float64"):
        return _centred(rows, shift, _device_products(rows, table, shift))
    slices = _slices(rows, dtype)
    if shift.size > WIDE:
        return _centred(rows, shift, _products(rows, slices, shift))
    return _centred(rows, shift, sum_in_threads(lambda stripe: _products(rows, stripe, shift), slices))


def _slices(rows: Rows, dtype: DType) -> list[slice]:
    """Cut the rows into slices of about one size: a product of few rows takes long, too."""
    count = max(1, round(rows.n_rows / rows.chunk_rows(dtype.itemsize, least=rows.n_columns + rows.Y.shape[1])))
    return list(rows.slices(-(-rows.n_rows // count)))


def _centred(rows: Rows, shift: Array, total: Float) -> tuple[Float, Float, Float]:
    """Return mean, its rounding error and scatter from sums of products of [X − shift, Y − shift, 1]."""
    k = shift.size
    offset = total[:k, k] / rows.total_weight
    scatter = np.outer(offset * -rows.total_weight, offset)
    scatter += total[:k, :k]
    return *rounded_sum(shift, offset), scatter


def _device_products(rows: Rows, table: DeviceTable, shift: Array) -> Float:
    """Return the sums of products of √w·[X − shift, Y − shift, 1]; those with X are multiplied on its device."""
    device, xp, dtype, D, k = table.device, table.device.xp, shift.dtype, rows.n_columns, shift.size + 1
    centre, low = device.put(shift[:D]), device.put(shift[D:])
    Y, weight = device.put(rows.target_of(slice(None))), None if rows.weight is None else device.put(rows.weights)

    def of(s: slice) -> Float:
        block, right = table.block(s, dtype) - centre, device.cast(Y[s, ...], dtype) - low
        root = xp.ones_like(right[:, :1]) if weight is None else device.cast(xp.sqrt(weight[s])[:, None], dtype)
        right = xp.concat([right * root, root], axis=1)
        if weight is not None:
            block *= root
        products = (block.T @ block, block.T @ right, right.T @ right)
        flat: Float = xp.concat([xp.reshape(part, (-1,)) for part in products], axis=0)
        return device.cast(flat, np.dtype(np.float64))

    found, total = on_host(table.summed(of)), np.empty((k, k))
    own, cross, rest = np.split(found, [D * D, D * k])
    total[:D, :D], total[:D, D:], total[D:, D:] = own.reshape(D, D), cross.reshape(D, -1), rest.reshape(k - D, -1)
    total[D:, :D] = total[:D, D:].T
    return total


def _products(rows: Rows, slices: list[slice], shift: Array) -> Float:
    """Sum the products of some chunks, each written into a buffer as √w·[X − shift, Y − shift, 1]; the rest is zero."""
    D, k, dtype = rows.n_columns, shift.size, shift.dtype
    width = -(-(k + 1) // 8) * 8
    # filled fastest in the order of the data: columns that Arrow decoded lie one after another
    buffer = np.zeros((slices[0].stop - slices[0].start, width), dtype, order="F" if rows.by_column else "C")
    part, total = np.empty((width, width), dtype), np.zeros((width, width))
    with np.errstate(all="ignore"):  # values that are not finite show up in the result
        for index in slices:
            chunk = buffer[: index.stop - index.start]
            np.subtract(rows.block(index), shift[:D], out=chunk[:, :D], casting="same_kind")
            np.subtract(rows.target_of(index), shift[D:], out=chunk[:, D:k], casting="same_kind")
            chunk[:, k] = 1
            if rows.weight is not None:
                chunk *= np.sqrt(rows.weights[index])[:, None].astype(dtype)
            total += np.matmul(chunk.T, chunk, out=part)
    return total


def rounded_sum(a: Array, b: Array) -> tuple[Float, Float]:
    """Return a + b in float64 and the rounding error of it (Knuth's two-sum)."""
    total = (a + b).astype(np.float64)
    part = total - a
    return total, ((a - (total - part)) + (b - part)).astype(np.float64)


def sparse_scatter(rows: Rows) -> tuple[Float, Float, Float] | None:
    """Return mean and scatter from sparse products; None if centring would cancel too many digits."""
    X = (rows.table if rows.rows is None else rows.table[rows.rows]).tocsr().astype(np.float64)
    Y = rows.target_of(slice(None))
    w = rows.weights
    total, y_mean = rows.total_weight, mean_of(Y, w)
    weighted = sparse.diags_array(w) @ X
    mean, cross = weighted.sum(axis=0) / total, weighted.T @ (Y - y_mean)
    gram = (weighted.T @ X).toarray()
    raw = np.diag(gram).copy()
    gram -= np.outer(mean * total, mean)
    constant = (X.max(axis=0).toarray() == X.min(axis=0).toarray()).ravel()
    gram[constant, :] = gram[:, constant] = cross[constant] = 0.0
    if np.any((np.diag(gram) < 1e-4 * raw) & ~constant):
        return None
    inner = (Y - y_mean).T @ ((Y - y_mean) * w[:, None])
    means = np.concatenate([np.ravel(mean), y_mean])
    return means, np.zeros_like(means), np.block([[gram, cross], [cross.T, inner]])
