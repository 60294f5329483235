"""The ridge constant from the data, without folds: restricted maximum likelihood (REML) for the model of all columns.

A ridge is the prior w ~ N(0, φ/(nα)) of every coefficient. With the coefficients integrated out, and the intercept too,
the likelihood of α is known. For squared error and the eigenvalues λ_i of X'X/n, of standardised columns, and b = X'y/n
in the basis of their eigenvectors, minus twice its logarithm is, but for a constant,

    (n − 1) log s(α) + Σ log(1 + λ_i/α),    s(α) = ‖y‖²/n − Σ b_i²/(λ_i + α),

summed over the targets, each with a variance φ of its own: one eigendecomposition for all α. For other losses the
integral is Laplace's approximation at the fitted model, with the Hessian H of its risk and s(α) twice the penalised
risk, less that of the saturated model:

    n s(α)/φ + (n − 1) log φ + log det H − D log α.

The dispersion φ is 1 for classes; otherwise the one that fits best, but not below 1. (At that φ both formulas are the
same for squared error.) It is minimised by a walk over a grid of α, each model starting from the one before. If H is
large, only its part of each score is used.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from budgetline.arrays import Float
from budgetline.leastsquares.gram import Gram
from budgetline.glm.newton import DIRECT_SIZE, GlmFit, factored, minimise
from budgetline.moments.columns import StandardisedColumns
from budgetline.glm.engines import Engine

PER_DECADE = 8
GRID = 10.0 ** (np.arange(-8 * PER_DECADE, 3 * PER_DECADE + 1) / PER_DECADE)
"""The constants that can be chosen."""
WIDEST_LOG_ODDS = 20.0
"""A classifier's coefficients have at most this prior deviation: separable classes make ever larger ones likelier."""
STRIDE = PER_DECADE // 2
"""Positions of the grid between two models of a walk."""
EQUAL = 0.02
"""Constants whose criterion differs by less are equally likely: the larger one is taken."""
RANK = 1e-12
"""Eigenvalues below this share of the largest one are rounding noise."""
WALK_TOL = 1e-6
"""Tolerance of the gradient of the models of a walk, in units of the deviation of the targets."""


@dataclass(frozen=True)
class Spectrum:
    """Ridge regression on all columns, in the basis of the eigenvectors of their covariance.

    Attributes
    ----------
    values : array of shape (r,)
        Positive eigenvalues.
    explained : array of shape (r, P)
        Variance of every target that least squares explains along each eigenvector.
    rest : array of shape (P,)
        Variance that it does not explain.
    n_rows : int
        Rows of positive weight, n. Weights are precisions, not numbers of copies.
    """

    values: Float
    explained: Float
    rest: Float
    n_rows: int

    @classmethod
    def of_gram(cls, gram: Gram, n_rows: int) -> Spectrum:
        """Return the spectrum of C, which must be without a ridge and without constant columns."""
        values, V = np.linalg.eigh(gram.C)
        return cls._of(values, (V.T @ gram.b) ** 2, gram.target_variance, n_rows, divide=True)

    @classmethod
    def of_columns(cls, A: StandardisedColumns, targets: Float) -> Spectrum:
        """Return the spectrum from the n × n products of the rows of a wide table."""
        values, U = np.linalg.eigh(row_products(A))
        n_rows = int(np.count_nonzero(A.root))
        return cls._of(values, (U.T @ targets) ** 2, (targets**2).sum(axis=0), n_rows, divide=False)

    @classmethod
    def _of(cls, values: Float, squares: Float, variance: Float, n_rows: int, *, divide: bool) -> Spectrum:
        kept = np.argsort(values)[::-1][: max(n_rows - 1, 0)]
        kept = kept[values[kept] > RANK * values.max(initial=0.0)]
        explained = squares[kept] / (values[kept, None] if divide else 1.0)
        # nothing is left where the rows can be interpolated: a rest of rounding would count there
        rest = np.maximum(variance - explained.sum(axis=0), 0.0) if kept.size < n_rows - 1 else np.zeros_like(variance)
        return cls(values[kept], explained, rest, n_rows)

    def variances(self, alphas: Float) -> Float:
        """Return s(α) of constants (A,) > 0 and every target, shape (A, P)."""
        return np.asarray(self.rest + (alphas[:, None] / (self.values + alphas[:, None])) @ self.explained)

    def reml(self, alphas: Float) -> Float:
        """Return the criterion of constants (A,) > 0, shape (A,)."""
        s = self.variances(alphas)
        s = s[:, s[-1] > 0]
        volume = np.log1p(self.values / alphas[:, None]).sum(axis=1)
        return np.asarray((self.n_rows - 1) * np.log(s).sum(axis=1) + s.shape[1] * volume)

    def alpha(self) -> float:
        """Return the likeliest constant of the grid."""
        if not self.values.size or self.n_rows < 3 or not self.variances(GRID[-1:]).any():
            return float(GRID[-1])
        found = self.reml(GRID)
        return float(GRID[found <= found.min() + EQUAL][-1])

    def parameters(self, alpha: float) -> float:
        """Return the effective number of parameters of a ridge model, without the intercept."""
        return float((self.values / (self.values + alpha)).sum())


def row_products(A: StandardisedColumns) -> Float:
    """Return A·A' (n, n), a few columns at a time."""
    n, D = A.root.size, A.scale.size
    found = np.zeros((n, n))
    for start in range(0, D, max(1, n)):
        part = A.columns(np.arange(start, min(start + max(1, n), D)))
        found += part @ part.T
    return found


def rotated(A: StandardisedColumns) -> StandardisedColumns:
    """Return n columns or fewer that span those of a wide table: the same ridge models, with the same penalty.

    Rows of weight zero are left out of no product, but they have no influence on a model.
    """
    plain = StandardisedColumns(A.X, A.mean, A.scale, np.ones_like(A.root))
    values, U = np.linalg.eigh(row_products(plain))
    kept = values > RANK * values.max(initial=0.0)
    T = U[:, kept] * np.sqrt(values[kept])
    return StandardisedColumns(T, np.zeros(T.shape[1]), np.ones(T.shape[1]), A.root)


def likeliest_alpha(engine: Engine, level: Float, n_columns: int, *, dispersed: bool) -> float:
    """Return about the likeliest constant of the grid for the model of all columns of an engine.

    ``level`` (Q,) is a start for the intercepts; ``dispersed`` says whether the dispersion is unknown.
    """
    if engine.y_spread == 0 or n_columns == 0:
        return float(GRID[-1])
    tol, alone, columns = WALK_TOL * engine.y_spread, np.zeros(1, dtype=np.intp), np.arange(1 + n_columns)
    fit = minimise(engine, GlmFit(alone, level[None], 1.0, engine.at(alone, level[None])), alone, tol)
    curvature = float(np.trace(fit.point.hessian(alone))) / level.size
    fit, n = fit.widened(columns), engine.sample_size

    def criterion(position: int) -> float:
        nonlocal fit
        alpha = float(GRID[position])
        fit = minimise(engine, GlmFit(columns, fit.theta, alpha, fit.point), columns, tol)
        return laplace(fit, engine.saturated, n, dispersed=dispersed)

    start = int(np.searchsorted(GRID, curvature * n_columns / n))
    found = float(GRID[walk(criterion, min(max(start, STRIDE), GRID.size - 1 - STRIDE))])
    return found if dispersed else max(found, 1 / (n * WIDEST_LOG_ODDS**2))


def laplace(fit: GlmFit, saturated: float, n: float, *, dispersed: bool) -> float:
    """Return the criterion of a fitted model on n rows; ``saturated`` is the risk of the saturated model."""
    k, Q = fit.theta.shape
    parts = [fit.hessian(q) for q in range(Q)] if k * Q > DIRECT_SIZE else [fit.hessian()]
    volume = sum(2 * float(np.log(np.diag(factored(H))).sum()) for H in parts) - (k - 1) * Q * float(np.log(fit.alpha))
    s = 2 * float(fit.risk - saturated)
    dispersion = max(1.0, n * s / ((n - 1) * Q)) if dispersed and n > 1 else 1.0
    return float(n * s / dispersion + (n - 1) * Q * np.log(dispersion) + volume)


def walk(value: Callable[[int], float], start: int) -> int:
    """Return the position of the grid with about the smallest value, found by strides downhill and a parabola.

    Where the values hardly change, the larger constant is taken.
    """
    known = {start: value(start)}
    best = start
    for direction in (-1, 1):
        while 0 <= (following := best + direction * STRIDE) < GRID.size and following not in known:
            known[following] = value(following)
            if known[following] >= known[best] - EQUAL:
                break
            best = following
        if best != start:
            break
    sides = [known.get(best - STRIDE), known[best], known.get(best + STRIDE)]
    if None in sides:
        return best
    low, middle, high = (float(side) for side in sides if side is not None)
    bend = low + high - 2 * middle
    return best + (round(STRIDE * (low - high) / (2 * bend)) if bend > 0 and middle <= min(low, high) else 0)
