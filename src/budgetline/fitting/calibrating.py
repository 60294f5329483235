"""Learning from held-out scores how to calibrate them: beta calibration for two classes, a temperature for more.

The fit minimises the weighted log loss by Newton's method. A tiny ridge towards "as it is" makes it unique where few
scores differ. Fitted parameters look better than they are, by half a unit of log likelihood each, and cost as much on
new rows. So a stage is calibrated only if n times the fall of the mean loss exceeds the number of parameters (Akaike).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np
from scipy.special import expit

from budgetline.arrays import Float
from budgetline.model.calibration import Calibration

STEPS, ENOUGH, HALVINGS = 50, 1e-8, 10
"""Most Newton steps, the smallest worthwhile fall of the mean loss, and most halvings of a step."""
TOWARDS = 1e-6
"""The ridge towards no change, per row."""


class Derivatives(NamedTuple):
    """The value of a loss at parameters (K,), its gradient and its Hessian."""

    value: float
    gradient: Float
    hessian: Float


def calibration_of(scores: Float, Y: Float, weight: Float) -> Calibration | None:
    """Return the calibration of held-out scores (n, 1 + stages, P) of classes; None if no stage needs one.

    Y are indicators (n, P), or (n, 1) for two classes.
    """
    share, n = weight / weight.sum(), weight.sum() ** 2 / (weight @ weight)
    K, several = scores.shape[1], scores.shape[2] > 1
    slopes, offsets = np.ones((K, 1 if several else 2)), np.zeros(K)
    for stage in range(1, K):
        own = scores[:, stage]
        found, fall = temperature(own, Y, share) if several else beta(own[:, 0], Y[:, 0], share)
        if n * fall > found.size:
            slopes[stage] = found[: slopes.shape[1]]
            offsets[stage] = found[slopes.shape[1] :].sum()
    calibration = Calibration(slopes, offsets)
    return calibration if calibration.calibrated.size else None


def beta(eta: Float, y: Float, share: Float) -> tuple[Float, float]:
    """Return a, b ≥ 0 and c of log odds (n,) for y of 0 and 1, and by how much the mean loss falls."""
    small = np.log1p(np.exp(-np.abs(eta)))
    design = np.column_stack([np.minimum(eta, 0) - small, np.maximum(eta, 0) + small, np.ones_like(eta)])
    free = [0, 1, 2]
    while True:  # a slope below zero is set to zero, the lowest first
        found = np.zeros(3)
        found[free] = _minimum(partial(_logistic_loss, design[:, free], y, share), np.array([1.0, 1.0, 0.0])[free])
        lowest = int(np.argmin(found[:2]))
        if found[lowest] >= 0:
            return found, _mean_loss(eta, y, share) - _mean_loss(design @ found, y, share)
        free.remove(lowest)


def temperature(eta: Float, Y: Float, share: Float) -> tuple[Float, float]:
    """Return the slope s ≥ 0 of scores (n, P), for indicators Y, and by how much the mean loss falls."""

    def loss(theta: Float) -> Derivatives:
        scaled = theta[0] * eta
        top = scaled.max(axis=1, keepdims=True)
        raised: Float = np.exp(scaled - top)
        p = raised / raised.sum(axis=1, keepdims=True)
        mean = np.einsum("np,np->n", p, eta)
        value = share @ (np.log(raised.sum(axis=1)) + top[:, 0] - np.einsum("np,np->n", Y, scaled))
        slope = share @ (mean - np.einsum("np,np->n", Y, eta))
        curvature = share @ (np.einsum("np,np->n", p, eta**2) - mean**2)
        return Derivatives(float(value), np.array([slope]), np.array([[curvature]]))

    found = np.maximum(_minimum(loss, np.ones(1)), 0.0)
    return found, loss(np.ones(1))[0] - loss(found)[0]


def _mean_loss(eta: Float, y: Float, share: Float) -> float:
    return float(share @ (np.maximum(eta, 0) + np.log1p(np.exp(-np.abs(eta))) - y * eta))


def _logistic_loss(design: Float, y: Float, share: Float, theta: Float) -> Derivatives:
    eta = design @ theta
    p = expit(eta)
    hessian = design.T @ (design * (share * p * (1 - p))[:, None])
    return Derivatives(_mean_loss(eta, y, share), design.T @ (share * (p - y)), hessian)


def _minimum(loss: Callable[[Float], Derivatives], start: Float) -> Float:
    """Return the parameters of least loss, with the ridge towards the start, by Newton steps that are halved."""

    def penalised(theta: Float) -> Derivatives:
        value, gradient, hessian = loss(theta)
        off, unit = theta - start, np.eye(start.size)
        return Derivatives(value + TOWARDS / 2 * float(off @ off), gradient + TOWARDS * off, hessian + TOWARDS * unit)

    theta, here = start, penalised(start)
    for _ in range(STEPS):
        step = np.linalg.solve(here.hessian, here.gradient)
        tried = ((theta - step / 2**k, penalised(theta - step / 2**k)) for k in range(HALVINGS))
        better = next(((at, found) for at, found in tried if found.value < here.value), None)
        if better is None:
            break
        before, (theta, here) = here, better
        if before.value - here.value < ENOUGH:
            break
    return theta
