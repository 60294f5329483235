"""The ridge constant of a loss other than squared error, by Laplace's approximation of the restricted likelihood.

As in ``leastsquares/ridge.py``, the coefficients are integrated out. The integral is approximated at the fitted model,
with the Hessian H of its risk and s(α) twice the penalised risk, less that of the saturated model:

    n s(α)/φ + (n − 1) log φ + log det H − D log α.

The dispersion φ is 1 for classes; otherwise the one that fits best, but not below 1. (At that φ the criterion is the
exact one for squared error.) It is minimised by a walk over a grid of α, each model starting from the one before. If H
is large, only its part of each score is used.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from budgetline.arrays import Float
from budgetline.glm.engines import Engine
from budgetline.glm.newton import DIRECT_SIZE, GlmFit, factored, minimise
from budgetline.leastsquares.ridge import EQUAL, GRID, PER_DECADE

WIDEST_LOG_ODDS = 20.0
"""A classifier's coefficients have at most this prior deviation: separable classes make ever larger ones likelier."""
STRIDE = PER_DECADE // 2
"""Positions of the grid between two models of a walk."""
WALK_TOL = 1e-6
"""Tolerance of the gradient of the models of a walk, in units of the deviation of the targets."""


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
