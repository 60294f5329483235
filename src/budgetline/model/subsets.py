"""Models of any subset of the chosen columns, without the data."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import cho_solve

from budgetline.arrays import Float, Mask, Positions
from budgetline.objectives.coefficients import subset_coefficients
from budgetline.objectives.families import Family
from budgetline.objectives.glm import Expansion
from budgetline.objectives.newton import factored


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


@dataclass(frozen=True)
class QuadraticSubset:
    """A GLM: the minimiser, over the subset, of a quadratic model of the risk around a fitted stage.

    Two models are tried: one removes groups from the last stage, the other adds groups to the longest kept prefix that
    the subset contains. The one with the shorter step in the metric of its Hessian is used. It is exact for the whole
    sequence and for squared error, otherwise an approximation.
    """

    expansions: tuple[Expansion, ...]
    n_scores: int
    family: Family

    def solve(self, steps: Mask, widths: Positions) -> tuple[Float, Float]:
        """Return coefficients (P, T) and intercepts (P,) of the groups at these steps; the intercept is always in."""
        free = np.repeat(np.concatenate([[True], np.repeat(steps, widths)]), self.n_scores)
        *prefixes, last = self.expansions
        contained = [e for e in prefixes if steps[: e.stage].all()]
        theta, _ = min((_minimum(e, free) for e in (last, *contained[-1:])), key=lambda found: found[1])
        external = self.family.external(theta.reshape(-1, self.n_scores))
        return external[1:].T, external[0]


Subset = LinearSubset | QuadraticSubset


def _minimum(around: Expansion, free: Mask) -> tuple[Float, float]:
    """Return the minimiser over θ that are zero outside ``free``, and how far it is from θ*: ½ δ'Hδ."""
    theta = np.zeros_like(around.theta)
    target = around.H[free] @ around.theta - around.gradient[free]
    theta[free] = cho_solve(factored(around.H[np.ix_(free, free)]), target, check_finite=False)
    step = theta - around.theta
    return theta, float(step @ around.H @ step / 2)
