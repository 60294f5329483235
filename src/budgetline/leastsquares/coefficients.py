"""Coefficients of every stage, and of any subset of columns, from one factor; lost digits are recovered from the data.

Solving with C loses digits in proportion to cond(C) = cond(X)². Corrected seminormal equations (Björck 1987) recover
them with residuals computed from the data (`refine`), as long as cond(C)·eps is well below one. Beyond that the data
are reduced to a triangle by QR (`triangle`), which does not square the condition number.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np
from scipy.linalg import blas, cho_solve, lapack, lstsq, qr, solve_triangular

from budgetline.arrays import Float, Mask, Positions
from budgetline.data.rows import EXTENDED_WORK, Rows
from budgetline.leastsquares.factors import Factor
from budgetline.leastsquares.gram import EPS
from budgetline.moments.columns import StandardisedColumns
from budgetline.threads import one_blas_thread

FELT = 1e-8
"""Share of the explained variance that the noise of dependent columns may change."""
SMALL = 1000
"""Factors of at most this many columns are left to one thread of BLAS."""


def stage_coefficients(factor: Factor) -> Float:
    """Solve C_{S_j} w_j = b_{S_j} for every stage j.

    On the columns B that were kept, U is square and U_B w_j = z, its rows after stage j replaced by 0.
    Columns N that depend on them (λ = 0) are combinations X_N = X_B R, R = U_B⁻¹ U_N, and the solution is not unique.
    Of all solutions (w_B − Rv, v), the one of minimum norm is the limit of λ → 0: (I + R'R) v = R'w_B. Later stages
    only append to R, so one factor serves all. A column that is a combination only up to rounding noise has no
    coefficient where that noise, times v, would be felt.

    Returns
    -------
    array of shape (stages, P, T)
        In the order of ``factor.columns``; zero for the columns of later stages.
    """
    with _few_threads(factor.U):
        return _stage_coefficients(factor)


def _stage_coefficients(factor: Factor) -> Float:
    if factor.kept.all():
        return _nested_solutions(factor.U, factor.z, factor.row_ends)
    kept, dependent = np.flatnonzero(factor.kept), np.flatnonzero(~factor.kept)
    basis = factor.U[:, kept]
    R = solve_triangular(basis, factor.U[:, dependent], check_finite=False) if kept.size else factor.U[:, dependent]
    root = qr(np.vstack([R, np.eye(dependent.size)]), mode="r", check_finite=False)[0]  # its square is I + R'R
    noise = factor.left[dependent] + EPS * np.abs(R).sum(axis=0)
    felt = FELT * np.sqrt((factor.z**2).sum(axis=0))
    W = np.zeros((factor.row_ends.size, factor.z.shape[1], factor.U.shape[1]))
    W[:, :, kept] = _nested_solutions(basis, factor.z, factor.row_ends)
    for w, end in zip(W, factor.column_ends, strict=True):
        if count := int(np.searchsorted(dependent, end)):
            v = cho_solve((root[:count, :count], False), R[:, :count].T @ w[:, kept].T, check_finite=False)
            v[noise[:count, None] * np.abs(v) > felt] = 0.0
            w[:, dependent[:count]] = v.T
            w[:, kept] -= (R[:, :count] @ v).T
    return W


def _nested_solutions(U: Float, z: Float, ends: Positions) -> Float:
    """Return U[:e, :e]⁻¹ z[:e], followed by zeros, for every e of ``ends``: (stages, P, k) for square triangular U."""
    k, P = z.shape
    found = np.zeros((ends.size, P, k))
    for w, stop in zip(found, ends, strict=True):
        w[:, :stop] = z[:stop].T
    if not found.size:
        return found
    solved, info = lapack.dtrtrs(U.T, found.reshape(-1, k).T, lower=1, trans=1, overwrite_b=1)
    if info != 0:
        raise np.linalg.LinAlgError("the factor of the chosen columns is singular")
    return np.asarray(solved.T.reshape(found.shape) + 0.0)  # a zero over a negative pivot is −0


def subset_coefficients(U: Float, z: Float, kept: Mask, chosen: Mask) -> Float:
    """Solve C_A w = b_A for a subset A of a factor's columns, which ``chosen`` (T,) marks: (P, T), zero outside A.

    Least squares in U_A w ≈ z is as accurate as U is; of several solutions it is the one of minimum norm.
    """
    w = np.zeros((U.shape[1], z.shape[1]))
    if not chosen.any() or U.shape[0] == 0:
        return w.T
    if kept.all():
        # the columns before the first missing one are triangular already: solve only for those after it
        first = chosen.size if chosen.all() else int(np.argmin(chosen))
        rest = np.flatnonzero(chosen[first:]) + first
        w[rest], rank = _least_squares(U[first:, rest], z[first:])
        if rank == rest.size:
            w[:first] = solve_triangular(U[:first, :first], z[:first] - U[:first, rest] @ w[rest], check_finite=False)
            return w.T
    w[chosen], _ = _least_squares(U[:, chosen], z)
    return w.T


def _least_squares(A: Float, z: Float) -> tuple[Float, int]:
    if A.shape[1] == 0:
        return np.zeros((0, z.shape[1])), 0
    w, _, rank, _ = lstsq(A, z, cond=1e-13, lapack_driver="gelsy", check_finite=False)
    return w, int(rank)


def condition_number(U: Float) -> float:
    """Estimate the 2-norm condition number of C = U'U for square triangular U, in O(k²).

    A few power iterations for each end of the spectrum: a lower bound, rarely off by more than a factor of two.
    """
    if U.size == 0:
        return 1.0
    if np.any(np.diag(U) == 0):
        return float(np.inf)
    high = low = np.random.default_rng(0).standard_normal(len(U))
    # BLAS would copy another order in every step; a power of two keeps norms of huge and of tiny U within range
    L = np.asfortranarray(U.T) * 2.0 ** -np.frexp(np.abs(np.diag(U)).max())[1]
    with np.errstate(over="ignore", invalid="ignore"), _few_threads(U):
        for _ in range(12):
            high = blas.dtrmv(L, blas.dtrmv(L, high / np.linalg.norm(high), lower=1, trans=1), lower=1)
            low = blas.dtrsv(L, blas.dtrsv(L, low / np.linalg.norm(low), lower=1), lower=1, trans=1)
    product = float(np.linalg.norm(high) * np.linalg.norm(low))
    return product if np.isfinite(product) else float(np.inf)


def solve_normal(U: Float, gradient: Float) -> Float:
    """Solve U'U x = gradient for square triangular U."""
    half = solve_triangular(U, gradient, trans="T", check_finite=False)
    return np.asarray(solve_triangular(U, half, check_finite=False))


def triangular_inverse(U: Float) -> Float:
    """Return the inverse of an upper triangular matrix."""
    if U.size == 0:
        return np.zeros_like(U)
    inverse, info = lapack.dtrtri(U)
    if info != 0:
        raise np.linalg.LinAlgError("the factor of the chosen columns is singular")
    return np.triu(inverse)  # dtrtri leaves the rounding noise below the diagonal of U


def _few_threads(U: Float) -> AbstractContextManager[None]:
    """Keep BLAS to one thread if U is small: several take as long, or far longer if the machine has other work."""
    return one_blas_thread() if U.shape[1] <= SMALL else nullcontext()


def refine(
    factor: Factor, W: Float, rows: Rows, mean: Float, scale: Float, y_mean: Float, alpha: float
) -> tuple[Float, Float]:
    """Correct all stages W (stages, P, T) by residuals from the data until the corrections stop shrinking.

    The factor is square; ``mean``, ``scale`` and ``y_mean`` are the standardisation of ``rows``. Also return
    corrections (stages, P) of the intercepts, because ``mean`` itself is rounded.
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

    The triangle replaces the data: products of its columns with each other and with the targets are the same. The roots
    of the weights come first. That removes what rounding has left of the columns' means, which would look like one more
    direction and hide that columns are dependent.
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
