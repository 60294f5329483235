"""The ridge constant from the data, without folds: generalised cross-validation, or approximate leave-one-out.

Both judge the model of all columns. For squared error and the eigenvalues λ_i of X'X/n, of standardised columns,

    GCV(α) = RSS(α)/n / (1 − tr H/n)²,    tr H = 1 + Σ λ_i/(λ_i + α),

summed over the targets, takes one eigendecomposition for all α. For other losses, with H the Hessian of the risk of the
fitted model, the score of row i without that row is, by one Newton step,

    η̃_i = η_i − G_i (I − ∇²φ(η_i) G_i)⁻¹ (y_i − ∇φ(η_i)),    G_i = ω_i Z_i'H⁻¹Z_i  (Q × Q),

and Σ ω_i (φ(η̃_i) − y_i'η̃_i) is minimised by a walk over a grid of α, each model starting from the one before. If H is
large, the scores are treated one by one, each with its own part of H.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from budgetline.arrays import Float
from budgetline.objectives.coefficients import triangular_inverse
from budgetline.objectives.gram import Gram
from budgetline.objectives.newton import DIRECT_SIZE, Fit, factored, minimise
from budgetline.statistics.columns import StandardisedColumns
from budgetline.statistics.engines import Engine

PER_DECADE = 8
GRID = 10.0 ** (np.arange(-8 * PER_DECADE, 3 * PER_DECADE + 1) / PER_DECADE)
"""The constants that can be chosen."""
STRIDE = PER_DECADE // 2
"""Positions of the grid between two models of a walk."""
PLATEAU = 1e-4
"""A walk ends where a step improves the left-out risk by less than this share of it: little is to be gained there."""
EQUAL = 1e-5
"""Values of GCV that differ by less than this share are equal, as on wide tables for all small constants."""
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
    explained : array of shape (r,)
        Variance of the targets that least squares explains along each eigenvector, summed over the targets.
    rest : float
        Variance that it does not explain.
    n_rows : int
        Rows of positive weight, n. Weights are taken for precisions, not for numbers of copies.
    """

    values: Float
    explained: Float
    rest: float
    n_rows: int

    @classmethod
    def of_gram(cls, gram: Gram, n_rows: int) -> Spectrum:
        """Return the spectrum of C, which must be without a ridge and without constant columns."""
        values, V = np.linalg.eigh(gram.C)
        return cls._of(values, (V.T @ gram.b) ** 2, float(gram.target_variance.sum()), n_rows, divide=True)

    @classmethod
    def of_columns(cls, A: StandardisedColumns, targets: Float) -> Spectrum:
        """Return the spectrum from the n × n products of the rows of a wide table."""
        values, U = np.linalg.eigh(row_products(A))
        n_rows = int(np.count_nonzero(A.root))
        return cls._of(values, (U.T @ targets) ** 2, float((targets**2).sum()), n_rows, divide=False)

    @classmethod
    def _of(cls, values: Float, squares: Float, variance: float, n_rows: int, *, divide: bool) -> Spectrum:
        kept = np.argsort(values)[::-1][: max(n_rows - 1, 0)]
        kept = kept[values[kept] > RANK * values.max(initial=0.0)]
        explained = squares[kept].sum(axis=1) / (values[kept] if divide else 1.0)
        # nothing is left where the rows can be interpolated: a rest of rounding would count there
        rest = max(variance - float(explained.sum()), 0.0) if kept.size < n_rows - 1 else 0.0
        return cls(values[kept], explained, rest, n_rows)

    def gcv(self, alphas: Float) -> Float:
        """Return GCV(α) of constants (A,) > 0, shape (A,)."""
        shrunk = alphas[:, None] / (self.values + alphas[:, None])
        left = (self.n_rows - 1 - self.values.size + shrunk.sum(axis=1)) / self.n_rows
        return np.asarray((self.rest + shrunk**2 @ self.explained) / left**2)

    def alpha(self) -> float:
        """Return the largest constant of the grid whose GCV is the smallest, up to the share ``EQUAL``."""
        if not self.values.size or self.n_rows < 3:
            return float(GRID[-1])
        found = self.gcv(GRID)
        return float(GRID[found <= (1 + EQUAL) * found.min()][-1])


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


def left_out_alpha(engine: Engine, level: Float, n_columns: int) -> float:
    """Return the constant of the grid that minimises the left-out risk of the model of all columns of an engine.

    ``level`` (Q,) is a start for the intercepts.
    """
    if engine.y_spread == 0 or n_columns == 0:
        return float(GRID[-1])
    tol, alone, columns = WALK_TOL * engine.y_spread, np.zeros(1, dtype=np.intp), np.arange(1 + n_columns)
    fit = minimise(engine, Fit(alone, level[None], 1.0, engine.at(alone, level[None])), alone, tol)
    curvature = float(np.trace(fit.point.hessian(alone))) / level.size
    fit = fit.widened(columns)

    def risk(position: int) -> float:
        nonlocal fit
        fit = minimise(engine, Fit(columns, fit.theta, float(GRID[position]), fit.point), columns, tol)
        return engine.left_out_risk(fit.theta, _roots(fit)) - engine.saturated

    start = int(np.searchsorted(GRID, curvature * n_columns / engine.n_rows))
    return float(GRID[walk(risk, min(max(start, STRIDE), GRID.size - 1 - STRIDE))])


def _roots(fit: Fit) -> Float:
    """Return R_q (Q, k, kQ) with R_q R_r' the part of H⁻¹ between scores, or (Q, k, k) of each score if H is large."""
    k, Q = fit.theta.shape
    if k * Q > DIRECT_SIZE:
        return np.array([triangular_inverse(factored(fit.hessian(q))) for q in range(Q)])
    return triangular_inverse(factored(fit.hessian())).reshape(k, Q, -1).transpose(1, 0, 2)


def walk(value: Callable[[int], float], start: int) -> int:
    """Return the position of the grid with about the smallest value, found by strides downhill and a parabola.

    Where the values hardly change, the larger constant is taken.
    """
    known = {start: value(start)}
    best = start
    for direction in (-1, 1):
        while 0 <= (following := best + direction * STRIDE) < GRID.size and following not in known:
            known[following] = value(following)
            if known[following] >= known[best] * (1 - PLATEAU):
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
