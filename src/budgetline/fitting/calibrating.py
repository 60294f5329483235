"""Learning from held-out scores how to calibrate them: beta calibration for two classes, a temperature for more.

The fit minimises the weighted log loss, with slopes ≥ 0 and a ridge of 1/n towards "as it is": without the ridge, few
rows of classes that are nearly separable would make probabilities far too sure. Fitted parameters look better than they
are, by half a unit of log likelihood each, and cost as much on new rows. So a stage is calibrated only if n times the
fall of the mean loss exceeds the number of parameters (Akaike).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit, logsumexp

from budgetline.arrays import Float
from budgetline.model.calibration import Calibration

ENOUGH = {"ftol": 1e-10, "gtol": 1e-8}
"""Relative fall of the loss, and entry of its gradient, at which a calibration counts as fitted."""


def calibration_of(scores: Float, Y: Float, weight: Float, n_rows: float) -> Calibration | None:
    """Return the calibration of held-out scores (n, 1 + stages, P) of classes; None if no stage needs one.

    Y are indicators (n, P), or (n, 1) for two classes; ``n_rows`` is the effective number of different rows.
    """
    share = weight / weight.sum()
    K, several = scores.shape[1], scores.shape[2] > 1
    slopes, offsets = np.ones((K, 1 if several else 2)), np.zeros(K)
    for stage in range(1, K):
        own = scores[:, stage]
        found, fall = temperature(own, Y, share, n_rows) if several else beta(own[:, 0], Y[:, 0], share, n_rows)
        if n_rows * fall > found.size:
            slopes[stage] = found[: slopes.shape[1]]
            offsets[stage] = found[slopes.shape[1] :].sum()
    calibration = Calibration(slopes, offsets)
    return calibration if calibration.calibrated.size else None


def beta(eta: Float, y: Float, share: Float, n_rows: float) -> tuple[Float, float]:
    """Return a, b ≥ 0 and c of log odds (n,) for y of 0 and 1, and by how much the mean loss falls."""
    small = np.log1p(np.exp(-np.abs(eta)))
    design = np.column_stack([np.minimum(eta, 0) - small, np.maximum(eta, 0) + small, np.ones_like(eta)])

    def loss(theta: Float) -> tuple[float, Float]:
        scores = design @ theta
        value = np.maximum(scores, 0) + np.log1p(np.exp(-np.abs(scores))) - y * scores
        return float(share @ value), design.T @ (share * (expit(scores) - y))

    return _minimum(loss, np.array([1.0, 1.0, 0.0]), n_rows)


def temperature(eta: Float, Y: Float, share: Float, n_rows: float) -> tuple[Float, float]:
    """Return the slope s ≥ 0 of scores (n, P), for indicators Y, and by how much the mean loss falls."""
    own = np.einsum("np,np->n", Y, eta)

    def loss(theta: Float) -> tuple[float, Float]:
        scaled = theta[0] * eta
        total = logsumexp(scaled, axis=1)
        mean = np.einsum("np,np->n", np.exp(scaled - total[:, None]), eta)
        return float(share @ (total - theta[0] * own)), np.array([share @ (mean - own)])

    return _minimum(loss, np.ones(1), n_rows)


def _minimum(loss: Callable[[Float], tuple[float, Float]], start: Float, n_rows: float) -> tuple[Float, float]:
    """Return the parameters of least loss, all but an offset ≥ 0, with the ridge towards the start; and the fall."""

    def penalised(theta: Float) -> tuple[float, Float]:
        (value, gradient), off = loss(theta), (theta - start) / n_rows
        return value + n_rows / 2 * float(off @ off), gradient + off

    bounds = [(0.0 if one else None, None) for one in start.tolist()]
    found = minimize(penalised, start, jac=True, method="L-BFGS-B", bounds=bounds, options=ENOUGH).x
    return found, loss(start)[0] - loss(found)[0]
