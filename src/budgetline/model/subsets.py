"""Models of any subset of the chosen columns, without the data."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np
from scipy.linalg import cho_factor
from scipy.linalg.lapack import dpotrf, dpotri, dpotrs

from budgetline.arrays import Float, Mask, Positions
from budgetline.glm.families import Family
from budgetline.leastsquares.coefficients import subset_coefficients
from budgetline.model.population import Population
from budgetline.model.refits import Expansion, PopulationRisk, Refit

MANY = 8
"""For more subsets than this the inverse of the matrix of all columns is computed first."""
CONDITION = 1e10
"""Larger condition numbers would cost the answers of a shared inverse their digits; each subset is solved alone."""


@dataclass(frozen=True)
class LinearSubset:
    """Least squares: exact for every subset. ``U``, ``z`` and ``kept`` are those of a :class:`Factor`."""

    U: Float
    z: Float
    kept: Mask
    level: Float

    def solve(self, steps: Mask, widths: Positions) -> tuple[Float, Float]:
        """Return coefficients (P, T) and levels (P,) of the groups at these steps, from U_A w ≈ z."""
        return subset_coefficients(self.U, self.z, self.kept, np.repeat(steps, widths)), self.level

    def solve_many(self, patterns: Mask, widths: Positions) -> Iterator[tuple[Float, Float]]:
        """Yield what :meth:`solve` returns for every row of ``patterns``, up to rounding."""
        shared = _shared(self.U.T @ self.U) if self.kept.all() and len(patterns) > MANY else None
        target = self.U.T @ self.z
        for steps in patterns:
            if shared is None:
                yield self.solve(steps, widths)
            else:
                free = np.repeat(steps, widths)
                yield shared.minimum(free, target, lambda w: self.U.T @ (self.z - self.U @ w)).T, self.level


@dataclass(frozen=True)
class GeneralisedSubset:
    """A GLM: fitted to the population of the training rows, which is known as a few numbers.

    An approximation, but at the model without columns, where gradient and Hessian are exact. ``population`` is None if
    only stages are needed.
    """

    population: Population | None
    family: Family
    alpha: float

    def solve(self, steps: Mask, widths: Positions) -> tuple[Float, Float]:
        """Return coefficients (P, T) and intercepts (P,) of the groups at these steps; the intercept is always in."""
        columns, whole = np.repeat(steps, widths), self._population
        risk = PopulationRisk.of(whole.of_columns(columns), self.family, self.alpha)
        found = self._predicting(risk)
        W = np.zeros_like(whole.slope)
        W[columns] = found.coef
        return self.family.external(W).T, self.family.external(found.level)

    def _predicting(self, risk: PopulationRisk) -> Refit:
        """Return the model that predicts: with enough ridge for its columns alone."""
        if self.family.loss in ("convex", "squared_error"):
            return risk.fitted()  # a loss of the user's own may be squared error, for which this is the very refit
        return risk.likeliest() if self.family.loss == "log_loss" else risk.regularised().fitted()

    def solve_many(self, patterns: Mask, widths: Positions) -> Iterator[tuple[Float, Float]]:
        """Yield what :meth:`solve` returns for every row of ``patterns``."""
        return (self.solve(steps, widths) for steps in patterns)

    def gain(self, steps: Mask, widths: Positions) -> float:
        """Return by how much the groups at these steps lower the risk with the ridge of the model."""
        own = self._population.of_columns(np.repeat(steps, widths))
        return PopulationRisk.of(own, self.family, self.alpha).fitted().gain

    def expansion(self, W: Float, level: Float) -> Expansion:
        """Return the quadratic model of the risk around coefficients (P, T) and levels (P,)."""
        inside = self.family.internal(np.vstack([level, W.T]))
        return PopulationRisk.of(self._population, self.family, self.alpha).expansion(inside[0], inside[1:])

    def restricted(self, steps: Mask, widths: Positions) -> GeneralisedSubset:
        """Return the solver for subsets of the groups at these steps."""
        return replace(self, population=self._population.of_columns(np.repeat(steps, widths)))

    @property
    def _population(self) -> Population:
        assert self.population is not None, "fitted without subsets"
        return self.population


Subset = LinearSubset | GeneralisedSubset


@dataclass(frozen=True)
class _Shared:
    """Solves H_FF x_F = r_F for many subsets F, x being zero elsewhere, with M = H⁻¹.

    x = Mr − M_·R (M_RR)⁻¹ (Mr)_R for the removed R, if they are fewer than F: a system of their number.
    """

    H: Float
    M: Float

    def minimum(self, free: Mask, target: Float, residual: Callable[[Float], Float]) -> Float:
        """Return x, of the shape (T, P) of the target, with Hx equal to the target in F; refined by its residual."""
        solve = self._by_removing(free) if 2 * free.sum() > free.size else self._alone(free)
        x = np.where(free[:, None], solve(target), 0.0)
        return x + np.where(free[:, None], solve(residual(x)), 0.0)

    def _by_removing(self, free: Mask) -> Callable[[Float], Float]:
        gone = np.flatnonzero(~free)
        columns = self.M[:, gone]
        factor, _ = dpotrf(columns[gone])

        def solve(r: Float) -> Float:
            found = self.M @ np.where(free[:, None], r, 0.0)
            return np.asarray(found - columns @ dpotrs(factor, found[gone])[0])

        return solve

    def _alone(self, free: Mask) -> Callable[[Float], Float]:
        index = np.flatnonzero(free)
        factor, _ = dpotrf(self.H[np.ix_(index, index)])

        def solve(r: Float) -> Float:
            x = np.zeros_like(r)
            x[index] = dpotrs(factor, r[index])[0]
            return x

        return solve


def _shared(H: Float) -> _Shared | None:
    """Return a solver with the inverse of H; None if H is too ill conditioned."""
    try:
        inverse, _ = dpotri(cho_factor(H, check_finite=False)[0])  # only its upper triangle
    except np.linalg.LinAlgError:
        return None
    M = np.triu(inverse) + np.triu(inverse, 1).T
    return _Shared(H, M) if np.trace(H) * np.trace(M) < CONDITION * len(H) else None
