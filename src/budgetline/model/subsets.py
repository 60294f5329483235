"""Models of any subset of the chosen columns, without the data."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Annotated

import numpy as np
from scipy.linalg import cho_factor
from scipy.linalg.lapack import dpotrf, dpotri, dpotrs

from budgetline.arrays import Float, Mask, Positions
from budgetline.codec import AtLeast
from budgetline.glm.families import Family
from budgetline.leastsquares.coefficients import subset_coefficients, triangular_inverse
from budgetline.model.population import Expansion, Population, PopulationRisk
from budgetline.model.spread import Errors

MANY = 8
"""For more subsets than this the inverse of the matrix of all columns is computed first."""
CONDITION = 1e10
"""With larger condition numbers a shared inverse would lose digits: each subset is solved alone."""


@dataclass(frozen=True)
class LinearSubset:
    """Least squares: exact for every subset. ``U``, ``z`` and ``kept`` are those of a `Factor`.

    ``variance`` (P,) is that of the targets, and ``n_rows`` the effective number of rows, 0 if it is unknown.
    """

    U: Float
    z: Float
    kept: Mask
    level: Float
    variance: Annotated[Float, AtLeast(0)]
    n_rows: Annotated[float, AtLeast(0)]

    def solve(self, steps: Mask, widths: Positions) -> tuple[Float, Float]:
        """Return coefficients (P, T) and levels (P,) of the groups at these steps, from U_A w ≈ z."""
        return subset_coefficients(self.U, self.z, self.kept, np.repeat(steps, widths)), self.level

    def solve_many(self, patterns: Mask, widths: Positions) -> Iterator[tuple[Float, Float]]:
        """Yield the result of `solve` for every row of ``patterns``, up to rounding."""
        H, target = self.U.T @ self.U, self.U.T @ self.z
        inverse = _inverse(H) if self.kept.all() and len(patterns) > MANY else None
        for steps in patterns:
            if inverse is None:
                yield self.solve(steps, widths)
                continue
            free = np.repeat(steps, widths)
            solve = _by_removing(inverse, ~free) if 2 * free.sum() > free.size else _alone(H, free)
            w = solve(target)
            w += solve(self.U.T @ (self.z - self.U @ w))  # one step of refinement
            yield w.T, self.level

    def gain(self, steps: Mask, widths: Positions) -> float:
        """Return by how much the groups at these steps lower the risk with the ridge of the model."""
        fitted = self.U @ self.solve(steps, widths)[0].T
        return float(np.vdot(fitted, self.z) / 2)

    def errors(self, end: int, alpha: float, varying: Mask) -> tuple[Errors, float] | None:
        """Return standard errors of the model of the first columns, and the degrees of freedom of its dispersion.

        ``varying`` (end,) are the columns that are not constant. None if the dispersion is not known.
        """
        kept = self.kept[:end]
        rank = int(kept.sum())
        U, z = self.U[:rank, :end], self.z[:rank]
        root = triangular_inverse(U) if kept.all() else np.linalg.pinv(U)
        free = self.n_rows - 1 - int((kept & varying).sum()) + alpha * float((root[varying] ** 2).sum())
        if free < 1:
            return None
        left = self.variance - (z**2).sum(axis=0) - alpha * ((root @ z) ** 2).sum(axis=0)
        unit = np.sqrt(np.maximum(left, 0.0) / free)
        return lambda Z, columns: np.linalg.norm(Z @ root[columns], axis=-1)[..., None] * unit, free

    def restricted(self, steps: Mask, widths: Positions) -> LinearSubset:
        """Return the solver for subsets of the groups at these steps, if all columns are kept."""
        Q, R = np.linalg.qr(self.U[:, np.repeat(steps, widths)])
        return LinearSubset(R, Q.T @ self.z, np.ones(len(R), dtype=bool), self.level, self.variance, self.n_rows)


def _by_removing(M: Float, gone: Mask) -> Callable[[Float], Float]:
    """Return the function that solves H_FF x_F = r_F, for few removed columns R and M = H⁻¹.

    x = Mr − M_·R (M_RR)⁻¹ (Mr)_R, for r that is zero in R: a system of the size of R.
    """
    index, free = np.flatnonzero(gone), ~gone[:, None]
    columns = M[:, index]
    factor, _ = dpotrf(columns[index])

    def solve(r: Float) -> Float:
        found = M @ np.where(free, r, 0.0)
        return np.where(free, found - columns @ dpotrs(factor, found[index])[0], 0.0)

    return solve


def _alone(H: Float, free: Mask) -> Callable[[Float], Float]:
    """Return the function that solves H_FF x_F = r_F."""
    index = np.flatnonzero(free)
    factor, _ = dpotrf(H[np.ix_(index, index)])

    def solve(r: Float) -> Float:
        x = np.zeros_like(r)
        x[index] = dpotrs(factor, r[index])[0]
        return x

    return solve


def _inverse(H: Float) -> Float | None:
    """Return the inverse of H; None if H is too ill conditioned."""
    try:
        upper = np.triu(dpotri(cho_factor(H, check_finite=False)[0])[0])
    except np.linalg.LinAlgError:
        return None
    M: Float = upper + np.triu(upper, 1).T
    return M if np.trace(H) * np.trace(M) < CONDITION * len(H) else None


@dataclass(frozen=True)
class GeneralisedSubset:
    """A GLM fitted to the population of the training rows: an approximation, but exact without columns.

    ``population`` is None if only stages are needed.
    """

    population: Population | None
    family: Family
    alpha: float

    def solve(self, steps: Mask, widths: Positions) -> tuple[Float, Float]:
        """Return coefficients (P, T) and intercepts (P,) of the groups at these steps; the intercept is always in."""
        columns, whole = np.repeat(steps, widths), self._population
        risk = PopulationRisk.of(whole.of_columns(columns), self.family, self.alpha)
        if self.family.loss in ("convex", "squared_error"):
            found = risk.fitted()  # a loss of the user's own may be squared error, for which this is exact
        else:
            found = risk.likeliest() if self.family.loss == "log_loss" else risk.regularised().fitted()
        W = np.zeros_like(whole.slope)
        W[columns] = found.coef
        return self.family.external(W).T, self.family.external(found.level)

    def solve_many(self, patterns: Mask, widths: Positions) -> Iterator[tuple[Float, Float]]:
        """Yield the result of `solve` for every row of ``patterns``."""
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
