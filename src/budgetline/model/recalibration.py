"""Level and scale of approximate classifiers, corrected on a sample of the training rows."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from budgetline.arrays import Array, Float
from budgetline.objectives.families import Family
from budgetline.objectives.glm import Expansion

STEPS, LARGEST_STEP, LARGEST_FACTOR = 20, 1.0, 20.0
ENOUGH = 1e-8
"""Newton's method ends when no entry of the gradient exceeds this: probabilities have no more digits in a sample."""


@dataclass(frozen=True, eq=False)
class Recalibration:
    """A sample of the training rows, on which level c and scale s of scores c + sWz are corrected.

    The quadratic model around a fitted stage θ* gets the direction W of a subset's model about right, but not how far
    to go: dropping groups makes the scores spread less, and with them the mean probability changes. The gradient of
    the risk at θ* is known exactly; elsewhere it is

        ∇R(θ*) + Σ ω (∇φ(c + sWz) − ∇φ(θ*z)) ⊗ (1, z) + λ(0, sW − W*).

    The sum is taken over the sample. Both of its terms are of the same rows, so little noise is left, and none near θ*.
    Newton's method finds the c (Q,) and s for which the gradient vanishes along both.

    Attributes
    ----------
    rows : float32 array of shape (m, T)
        The chosen columns, standardised, of m training rows; no targets.
    weight : array of shape (m,)
        Sums to one.
    alpha : float
        The ridge constant λ.
    """

    rows: Array
    weight: Float
    alpha: float

    @cached_property
    def _at_stage(self) -> dict[int, Float]:
        """Means at fitted stages, as they are needed."""
        return {}

    def corrected(self, theta: Float, around: Expansion, family: Family) -> Float:
        """Return θ (1 + T, Q) with another level and scale; as it is if there is no optimum nearby."""
        W, before = theta[1:], self._means(around, family)
        start, slope = (a.reshape(theta.shape) for a in (around.theta, around.gradient))
        U, square = self._scores(W), float(np.vdot(W, W))
        fixed = np.append(slope[0], np.vdot(slope[1:] - self.alpha * start[1:], W))
        at = np.append(theta[0], 1.0)
        for _ in range(STEPS):
            eta = at[:-1] + at[-1] * U
            change = self.weight[:, None] * (family.mean(eta) - before)
            gradient = fixed + np.append(change.sum(axis=0), np.vdot(change, U) + self.alpha * square * at[-1])
            if np.abs(gradient).max() <= ENOUGH:
                return np.vstack([at[:-1], at[-1] * W])
            H = self._hessian(eta, U, family)
            H[-1, -1] += self.alpha * square
            step = np.linalg.solve(H + 1e-12 * np.trace(H) * np.eye(len(H)), gradient)
            at = at - step / max(1.0, float(np.abs(step).max()) / LARGEST_STEP)
            if not 1 / LARGEST_FACTOR < at[-1] < LARGEST_FACTOR:
                break
        return theta

    def _scores(self, W: Float) -> Float:
        return (self.rows @ W.astype(np.float32)).astype(np.float64)

    def _means(self, around: Expansion, family: Family) -> Float:
        """Return ∇φ of the sample at a fitted stage, shape (m, Q)."""
        if around.stage not in self._at_stage:
            theta = around.theta.reshape(1 + self.rows.shape[1], -1)
            self._at_stage[around.stage] = family.mean(theta[0] + self._scores(theta[1:]))
        return self._at_stage[around.stage]

    def _hessian(self, eta: Float, U: Float, family: Family) -> Float:
        """Return the second derivatives of the sample's risk along level and scale, shape (Q + 1, Q + 1)."""
        curvature, Q = family.curvature(eta).weighted(self.weight), U.shape[1]
        along = curvature.product(U)
        H = np.empty((Q + 1, Q + 1))
        H[:Q, :Q] = [[curvature.between(q, r).sum() for r in range(Q)] for q in range(Q)]
        H[Q, :Q] = H[:Q, Q] = along.sum(axis=0)
        H[Q, Q] = np.vdot(along, U)
        return H
