"""Recovering from the data the digits that the Gram matrix has lost.

Solving with C loses digits in proportion to cond(C) = cond(X)². Corrected seminormal equations (Björck 1987) recover
them with residuals computed from the data, as long as cond(C)·eps is well below one; beyond that the data are reduced
to a triangle by QR, which does not square the condition number.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.linalg import qr

from budgetline.arrays import Float
from budgetline.data.rows import EXTENDED_WORK, Rows
from budgetline.leastsquares.coefficients import solve_normal
from budgetline.leastsquares.factors import Factor
from budgetline.moments.columns import StandardisedColumns


def refine(
    factor: Factor, W: Float, rows: Rows, mean: Float, scale: Float, y_mean: Float, alpha: float
) -> tuple[Float, Float]:
    """Correct all stages by residuals from the data until the corrections stop shrinking.

    Parameters
    ----------
    factor : Factor
        Square; ``factor.columns`` are columns of ``rows``.
    W : array of shape (stages, P, T)
    mean, scale, y_mean : standardisation of ``rows``

    Returns
    -------
    W : array of shape (stages, P, T)
    offset : array of shape (stages, P)
        Correction of the intercepts, because ``mean`` itself is rounded.
    """
    stages, P, T = W.shape
    dtype: Any = np.longdouble if rows.n_rows * T * stages * P <= EXTENDED_WORK else np.float64
    offset = np.zeros((stages, P))
    previous = np.inf
    for _ in range(5):
        # 1. gradient A'e − λw and mean of the residuals e = y − c − Aw of every stage, in one pass
        G, level = np.zeros((T, stages * P), dtype), np.zeros(stages * P, dtype)
        flat = np.ascontiguousarray(W.reshape(-1, T).T).astype(dtype)
        for A, Y, root in rows.standardised(mean, scale, y_mean, np.dtype(dtype)):
            A = A[:, factor.columns]
            e = np.tile(Y, stages) - root * offset.reshape(1, -1) - A @ flat
            G += A.T @ e
            level += (root * e).sum(axis=0)
        G -= alpha * flat
        # 2. correct each stage on its own columns
        correction = np.zeros_like(W)
        for j, end in enumerate(factor.column_ends):
            step = solve_normal(factor.U[:end, :end], G[:end, j * P : (j + 1) * P].astype(np.float64))
            correction[j, :, :end] = step.T
        size = float(np.abs(correction).max(initial=0.0))
        if not size < previous / 2:
            break
        W, offset = W + correction, offset + level.reshape(stages, P).astype(np.float64)
        previous = size
    return W, offset


def triangle(rows: Rows, mean: Float, scale: Float, y_mean: Float, alpha: float) -> tuple[StandardisedColumns, Float]:
    """Reduce [A, Y; √λ I, 0] to its triangular factor by QR, chunk after chunk.

    The triangle replaces the data: products of its columns with each other and with the targets are the same, and it
    has only D + P rows. The roots of the weights come first. This removes what the rounding of ``mean`` has
    left of the other columns' means, which would look like one more direction and hide that columns are dependent.
    """
    D = rows.n_columns
    R = np.zeros((0, 1 + D + rows.Y.shape[1]))
    for chunk, Y, root in rows.standardised(mean, scale, y_mean, least=4 * D):
        R = qr(np.vstack([R, np.hstack([root, chunk, Y])]), mode="r", check_finite=False)[0][: R.shape[1]]
    R = R[1:, 1:]
    if alpha > 0:
        ridge = np.hstack([np.sqrt(alpha) * np.eye(D), np.zeros((D, rows.Y.shape[1]))])
        R = qr(np.vstack([R, ridge]), mode="r", check_finite=False)[0][: R.shape[1]]
    A = StandardisedColumns(np.asfortranarray(R[:, :D]), np.zeros(D), np.ones(D), np.ones(len(R)))
    return A, np.ascontiguousarray(R[:, D:])
