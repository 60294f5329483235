"""Smooth curves of a number: natural cubic splines, ordered by how much they bend."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.interpolate import CubicSpline
from scipy.linalg import eigh

from budgetline.arrays import Float

FLOOR = 1e-9
"""Added to the mean squares of curves, relative to their mean: knots without data near them do not matter."""


@dataclass(frozen=True, eq=False)
class Curve:
    """Piecewise cubic functions f_1 … f_m of a number: between knots k_j ≤ t < k_{j+1} they are Σ_p c_jp (t − k_j)^p.

    ``knots`` (K,) ascend. ``pieces`` (K + 1, 4, m) are the coefficients c of the powers 0 to 3. The first piece is for
    t < k_0, about k_0; the last is for t ≥ k_{K−1}.
    """

    knots: Float
    pieces: Float

    @property
    def width(self) -> int:
        return int(self.pieces.shape[2])

    def __call__(self, t: Float) -> Float:
        """Return the functions at numbers (n,), shape (n, m)."""
        piece = np.searchsorted(self.knots, t, side="right")
        away = (t - self.knots[np.maximum(piece - 1, 0)])[:, None]
        c = self.pieces[piece]
        return np.asarray(((c[:, 3] * away + c[:, 2]) * away + c[:, 1]) * away + c[:, 0])


def line(mean: float, scale: float) -> Curve:
    """Return the straight line (t − mean)/scale."""
    pieces = np.zeros((2, 4, 1))
    pieces[:, 1] = 1 / scale
    return Curve(np.array([mean]), pieces)


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


def level_beyond(curve: Curve, low: float, high: float) -> Curve:
    """Return a curve that keeps its end values below ``low`` and above ``high``: it is not extrapolated."""
    inner = curve.knots[(curve.knots > low) & (curve.knots < high)]
    knots = np.unique([low, *inner, high])
    pieces = np.zeros((knots.size + 1, 4, curve.width))
    pieces[[0, -1], 0] = curve(knots[[0, -1]])
    source = np.searchsorted(curve.knots, knots[:-1], side="right")
    away = (knots[:-1] - curve.knots[np.maximum(source - 1, 0)])[:, None]
    c0, c1, c2, c3 = curve.pieces[source].transpose(1, 0, 2)
    pieces[1:-1, 0] = ((c3 * away + c2) * away + c1) * away + c0
    pieces[1:-1, 1] = (3 * c3 * away + 2 * c2) * away + c1
    pieces[1:-1, 2] = 3 * c3 * away + c2
    pieces[1:-1, 3] = c3
    return Curve(knots, pieces)


def smooth_curves(knots: Float, values: Float, weights: Float) -> tuple[Curve, Float]:
    """Return m ≤ K − 1 natural splines that are orthonormal and centred on the data, and their roughness (m,).

    They solve Ω v = λ G v (Demmler and Reinsch), where v'Gv is the variance of a curve over the values (m,) with their
    weights, and v'Ωv = ∫ f''² its bending between the outer knots, in units of their span. The first curve is straight,
    λ = 0; the others bend more and more. All rise at the last knot. Curves that bend only where there are no values
    are left out: the data do not determine them.
    """
    span = knots[-1] - knots[0]
    basis = natural_splines((knots - knots[0]) / span)
    at_values, share = basis((values - knots[0]) / span), weights / weights.sum()
    mean = share @ at_values
    G = ((at_values - mean) * share[:, None]).T @ (at_values - mean)
    floor = FLOOR * np.trace(G) / knots.size
    G[np.diag_indices_from(G)] += floor
    # curves that are zero at the first knot, to leave out the constant
    roughness, inner = eigh(_bending(basis)[1:, 1:], G[1:, 1:])
    known = floor * (inner**2).sum(axis=0) < 0.5
    roughness, inner = roughness[known], inner[:, known]
    v = np.vstack([np.zeros(inner.shape[1]), inner])
    v *= np.where((basis.pieces[-1, 1] @ v) < 0, -1.0, 1.0)
    pieces = basis.pieces @ v
    pieces[:, 0] -= mean @ v
    pieces /= span ** np.arange(4)[:, None]
    return Curve(knots, pieces), np.maximum(roughness, 0.0)


def _bending(curve: Curve) -> Float:
    """Return ∫ f_i'' f_j'' between the first knot and the last, shape (m, m): second derivatives are straight lines."""
    length = np.diff(curve.knots)[:, None, None]
    start, slope = 2 * curve.pieces[1:-1, 2], 6 * curve.pieces[1:-1, 3]
    cross = start[:, :, None] * slope[:, None, :]
    cross = (cross + cross.transpose(0, 2, 1)) / 2
    a, b = start[:, :, None] * start[:, None, :], slope[:, :, None] * slope[:, None, :]
    return np.asarray((a * length + cross * length**2 + b * length**3 / 3).sum(axis=0))
