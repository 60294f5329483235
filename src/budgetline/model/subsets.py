"""Models of any subset of the chosen columns, without the data."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.linalg import cho_solve

from budgetline.arrays import Float, Mask, Positions
from budgetline.objectives.coefficients import subset_coefficients
from budgetline.objectives.factors import Factor
from budgetline.objectives.families import Family
from budgetline.objectives.glm import Expansion
from budgetline.objectives.newton import factored


@dataclass(frozen=True)
class LinearSubset:
    """Least squares: exact for every subset."""

    factor: Factor
    level: Float

    @property
    def columns(self) -> Positions:
        """The chosen columns."""
        return self.factor.columns

    @property
    def column_ends(self) -> Positions:
        """Where the stages end."""
        return self.factor.column_ends

    def solve(self, chosen: Mask) -> tuple[Float, Float]:
        """Solve U_A w ≈ z."""
        return subset_coefficients(self.factor, chosen), self.level

    def renamed(self, columns: Positions) -> LinearSubset:
        """Return the same for columns of another table."""
        return replace(self, factor=replace(self.factor, columns=columns))


@dataclass(frozen=True)
class QuadraticSubset:
    """A GLM: the minimiser, over the subset, of a quadratic model of the risk around a fitted stage.

    Two models are tried: one removes groups from the last stage, the other adds groups to the longest kept prefix that
    the subset contains. The one with the shorter step in the metric of its Hessian is used. It is exact for the whole
    sequence and for squared error, otherwise an approximation.
    """

    expansions: tuple[Expansion, ...]
    n_scores: int
    columns: Positions
    column_ends: Positions
    family: Family

    def solve(self, chosen: Mask) -> tuple[Float, Float]:
        """Solve for the subset and the intercept, which is always in."""
        free = np.repeat(np.concatenate([[True], chosen]), self.n_scores)
        ends = np.concatenate([[0], self.column_ends])
        *prefixes, last = self.expansions
        contained = [e for e in prefixes if chosen[: ends[e.stage]].all()]
        theta, _ = min((_minimum(e, free) for e in (last, *contained[-1:])), key=lambda found: found[1])
        external = self.family.external(theta.reshape(-1, self.n_scores))
        return external[1:].T, external[0]

    def renamed(self, columns: Positions) -> QuadraticSubset:
        """Return the same for columns of another table."""
        return replace(self, columns=columns)


Subset = LinearSubset | QuadraticSubset


def _minimum(around: Expansion, free: Mask) -> tuple[Float, float]:
    """Return the minimiser over θ that are zero outside ``free``, and how far it is from θ*: ½ δ'Hδ."""
    theta = np.zeros_like(around.theta)
    target = around.H[free] @ around.theta - around.gradient[free]
    theta[free] = cho_solve(factored(around.H[np.ix_(free, free)]), target, check_finite=False)
    step = theta - around.theta
    return theta, float(step @ around.H @ step / 2)
