"""Curves of a number: straight with tamed tails, or smooth ones ordered by how much they bend."""

from __future__ import annotations

import numpy as np
from scipy.interpolate import CubicSpline
from scipy.linalg import eigh

from budgetline.arrays import Float
from budgetline.encoding.encoders import Curve


def line(low: float, high: float) -> Curve:
    """Return the function that is x between two numbers and constant beyond them."""
    pieces = np.zeros((3, 4, 1))
    pieces[:, 0, 0] = low, low, high
    pieces[1, 1, 0] = 1.0
    return Curve(np.array([low, high]), pieces)


def natural_splines(knots: Float) -> Curve:
    """Return the natural cubic splines (K,) that are 1 at one of K ≥ 2 knots and 0 at the others, straight beyond."""
    K = knots.size
    spline = CubicSpline(knots, np.eye(K), bc_type="natural")
    pieces = np.zeros((K + 1, 4, K))
    pieces[1:K] = spline.c[::-1].transpose(1, 0, 2)
    ends = knots[[0, -1]]
    for piece, value, slope in zip((0, K), spline(ends), spline(ends, 1), strict=True):
        pieces[piece, 0], pieces[piece, 1] = value, slope
    return Curve(knots, pieces)


def smooth_curves(knots: Float, values: Float, weights: Float) -> tuple[Curve, Float]:
    """Return K − 1 natural splines that are orthonormal and centred on the data, and their roughness (K − 1,).

    They solve Ω v = λ G v (Demmler and Reinsch), where v'Gv is the mean square of a curve over the values (m,) with
    their weights, and v'Ωv its mean squared second derivative ∫ f''², in units of the span of the knots. The constant
    is left out. The first curve is straight, λ = 0; the others bend more and more.
    """
    unit = (knots - knots[0]) / (knots[-1] - knots[0])
    basis = natural_splines(unit)
    at_values = basis((values - knots[0]) / (knots[-1] - knots[0]))
    share = weights / weights.sum()
    mean = share @ at_values
    G = (at_values * share[:, None]).T @ at_values - np.outer(mean, mean)
    directions = _beside_the_constant(knots.size)
    roughness, v = eigh(directions.T @ _bending(basis) @ directions, directions.T @ G @ directions)
    v = directions @ v
    pieces = basis.pieces @ v
    pieces[:, 0] -= mean @ v
    pieces /= (knots[-1] - knots[0]) ** np.arange(4)[:, None]
    return Curve(knots, pieces), np.maximum(roughness, 0.0)


def _beside_the_constant(K: int) -> Float:
    """Return a basis (K, K − 1) of the cardinal coefficients that are zero at the first knot."""
    return np.eye(K)[:, 1:]


def _bending(curve: Curve) -> Float:
    """Return ∫ f_i'' f_j'' between the first knot and the last, shape (m, m): second derivatives are straight lines."""
    length = np.diff(curve.knots)[:, None, None]
    start, slope = 2 * curve.pieces[1:-1, 2], 6 * curve.pieces[1:-1, 3]
    a, b = start[:, :, None] * start[:, None, :], slope[:, :, None] * slope[:, None, :]
    cross = start[:, :, None] * slope[:, None, :]
    cross = (cross + cross.transpose(0, 2, 1)) / 2
    return np.asarray((a * length + cross * length**2 + b * length**3 / 3).sum(axis=0))
