"""Models of any subset of the chosen columns, without the data."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.linalg.lapack import dpotrf, dpotri, dpotrs

from budgetline.arrays import Float, Mask, Positions
from budgetline.model.recalibration import Recalibration
from budgetline.objectives.coefficients import subset_coefficients
from budgetline.objectives.families import Family
from budgetline.objectives.glm import Expansion
from budgetline.objectives.newton import factored

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
class QuadraticSubset:
    """A GLM: the minimiser, over the subset, of a quadratic model of the risk around a fitted stage.

    Two models are tried: one removes groups from the last stage, the other adds groups to the longest kept prefix that
    the subset contains. The one with the shorter step in the metric of its Hessian is used. It is exact for the whole
    sequence and for squared error, otherwise an approximation; classifiers are then recalibrated on a sample of rows.
    """

    expansions: tuple[Expansion, ...]
    n_scores: int
    family: Family
    recalibration: Recalibration | None = None

    def solve(self, steps: Mask, widths: Positions) -> tuple[Float, Float]:
        """Return coefficients (P, T) and intercepts (P,) of the groups at these steps; the intercept is always in."""
        return self._answer(*self._nearest(steps, widths, _minimum))

    def solve_many(self, patterns: Mask, widths: Positions) -> Iterator[tuple[Float, Float]]:
        """Yield what :meth:`solve` returns for every row of ``patterns``, up to rounding."""
        shared = dict[int, tuple[_Shared | None, Float]]()

        def minimum(around: Expansion, free: Mask) -> Float:
            if around.stage not in shared:
                target = (around.H @ around.theta - around.gradient)[:, None]
                shared[around.stage] = _shared(around.H) if len(patterns) > MANY else None, target
            solver, target = shared[around.stage]
            if solver is None:
                return _minimum(around, free)
            return solver.minimum(free, target, lambda theta: target - around.H @ theta)[:, 0]

        for steps in patterns:
            yield self._answer(*self._nearest(steps, widths, minimum))

    def expansion(self, steps: Mask, widths: Positions) -> Expansion:
        """Return the quadratic model from which the groups at these steps are answered."""
        return self._nearest(steps, widths, _minimum)[0]

    def change(self, steps: Mask, widths: Positions) -> tuple[int, float]:
        """Return the nearer stage, and how much the risk of the groups at these steps is above its own, by the model.

        The model is the quadratic one, without recalibration.
        """
        around, theta = self._nearest(steps, widths, _minimum)
        return around.stage, float(around.gradient @ (theta - around.theta)) + _distance(around, theta)

    def restricted(self, steps: Mask, widths: Positions) -> QuadraticSubset:
        """Return the solver for subsets of the groups at these steps: around their model, as if it had been fitted."""
        around, theta = self._nearest(steps, widths, _minimum)
        free = self._free(steps, widths)
        own = self._recalibrated(around, theta).ravel()[free]
        expansion = Expansion(int(steps.sum()), around.H[np.ix_(free, free)], own, np.zeros(own.size))
        sample = self.recalibration if expansion.stage > 1 else None
        if sample is not None:
            sample = replace(sample, rows=sample.rows[:, np.repeat(steps, widths)])
        return QuadraticSubset((expansion,), self.n_scores, self.family, sample)

    def _free(self, steps: Mask, widths: Positions) -> Mask:
        """Return the parameters of the groups at these steps, and of the intercepts."""
        return np.repeat(np.concatenate([[True], np.repeat(steps, widths)]), self.n_scores)

    def _nearest(
        self, steps: Mask, widths: Positions, minimum: Callable[[Expansion, Mask], Float]
    ) -> tuple[Expansion, Float]:
        """Return the quadratic model around the nearer stage, and its minimiser."""
        free = self._free(steps, widths)
        *prefixes, last = self.expansions
        contained = [e for e in prefixes if steps[: e.stage].all()]
        found = [(e, minimum(e, free)) for e in (last, *contained[-1:])]
        return min(found, key=lambda pair: _distance(*pair))

    def _recalibrated(self, around: Expansion, theta: Float) -> Float:
        """Return θ (1 + T, Q) with the level and scale that the sample asks for."""
        theta = theta.reshape(-1, self.n_scores)
        return theta if self.recalibration is None else self.recalibration.corrected(theta, around, self.family)

    def _answer(self, around: Expansion, theta: Float) -> tuple[Float, Float]:
        """Return a minimiser, recalibrated, in the user's scores."""
        external = self.family.external(self._recalibrated(around, theta))
        return external[1:].T, external[0]


Subset = LinearSubset | QuadraticSubset


def _minimum(around: Expansion, free: Mask) -> Float:
    """Return the minimiser over θ that are zero outside ``free``."""
    theta = np.zeros_like(around.theta)
    target = around.H[free] @ around.theta - around.gradient[free]
    theta[free] = cho_solve((factored(around.H[np.ix_(free, free)]), False), target, check_finite=False)
    return theta


def _distance(around: Expansion, theta: Float) -> float:
    """Return how far θ is from θ*: ½ δ'Hδ."""
    step = theta - around.theta
    return float(step @ around.H @ step / 2)


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
