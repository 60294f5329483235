"""What a generalised linear model needs from the data, wherever they are.

Z = [1, X standardised], n × (1 + D), holds the intercept as column 0 and then the columns of X, group after group. An
*engine* holds the data. For parameters θ (k, Q) of some columns of Z, and scores η = Zθ, it makes a *point* with

    risk = Σ ω (φ(η) − y'η),    gradient = Z'ω(y − ∇φ(η)),    H = Σ ω ∇²φ(η) ⊗ zz'.

Weights ω sum to one; there is no ridge. Rows of H are ordered as ``θ.ravel()``. ``None`` in place of columns means all
columns of X, without the intercept. A gradient is needed at every point, a Hessian only at some, so an engine may
defer expensive work.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from budgetline.arrays import Float, Positions
from budgetline.devices import library_of
from budgetline.moments.tallies import RowSample


@dataclass(frozen=True)
class Curvature:
    """∇²φ = Σ_c scale_c b_c b_c' − along along' of n rows, without n × Q × Q numbers, for any array library.

    ``scale`` (n, P) ≥ 0; the b_c are the rows of ``contrasts`` (P, Q), unit vectors if None; ``along`` (n, Q) or None.
    """

    scale: Float
    contrasts: Float | None = None
    along: Float | None = None

    def weighted(self, weight: Float) -> Curvature:
        """Return the curvature times weights (n,)."""
        along = None if self.along is None else library_of(weight).sqrt(weight)[:, None] * self.along
        return Curvature(weight[:, None] * self.scale, self.contrasts, along)

    def rows(self, s: slice) -> Curvature:
        """Return the curvature of some rows."""
        return Curvature(self.scale[s, ...], self.contrasts, None if self.along is None else self.along[s, ...])

    def between(self, q: int, r: int) -> Float:
        """Return the entries between two scores, shape (n,)."""
        if self.contrasts is None:
            found = self.scale[:, q] if q == r else 0.0 * self.scale[:, q]
        else:
            found = self.scale @ (self.contrasts[:, q] * self.contrasts[:, r])
        found = found if self.along is None else found - self.along[:, q] * self.along[:, r]
        return _positive(found) if q == r else found

    def total(self, weight: Float) -> Float:
        """Return Σ weight ∇²φ over the rows, shape (Q, Q); only for curvatures with contrasts."""
        B: Float = self.contrasts  # type: ignore[assignment]
        found: Float = (B.T * (weight @ self.scale)) @ B
        return found if self.along is None else found - (self.along.T * weight) @ self.along

    def trace(self) -> Float:
        """Return the sum of the diagonal, shape (n,)."""
        xp = library_of(self.scale)
        each = 1.0 if self.contrasts is None else xp.sum(self.contrasts**2, axis=1)
        found: Float = xp.sum(self.scale * each, axis=1)
        return found if self.along is None else _positive(found - xp.sum(self.along**2, axis=1))

    def product(self, T: Float) -> Float:
        """Return ∇²φ times a vector per row, both of shape (n, Q)."""
        B = self.contrasts
        found = self.scale * T if B is None else (self.scale * (T @ B.T)) @ B
        if self.along is not None:
            found = found - self.along * library_of(T).sum(self.along * T, axis=1)[:, None]
        return found


def _positive(values: Float) -> Float:
    xp = library_of(values)
    found: Float = np.maximum(values, 0.0) if xp is np else xp.where(values > 0, values, 0.0 * values)
    return found


def part_of(H: Float, columns: Positions, others: Positions | None, score: int | None = None) -> Float:
    """Return the entries of H (1 + D, Q, 1 + D, Q) between columns and others, or all but the intercept, (kQ, mQ)."""
    part = H[columns][:, :, slice(1, None) if others is None else others]
    if score is not None:
        return part[:, score, :, score].copy()
    return part.reshape(columns.size * H.shape[1], -1)


class Loss(Protocol):
    """A convex φ of Q scores, which may be arrays of any library, and the targets it accepts."""

    def check(self, Y: Float) -> None:
        """Raise an error if a row of the targets (n, P) is not of this family."""

    def internal(self, Y: Float) -> Float:
        """Return targets (n, Q) for the internal scores."""

    def value(self, eta: Float) -> Float:
        """Return φ of scores (n, Q), shape (n,)."""

    def mean(self, eta: Float) -> Float:
        """Return ∇φ, shape (n, Q)."""

    def curvature(self, eta: Float) -> Curvature:
        """Return ∇²φ."""

    def saturated(self, Y: Float) -> Float:
        """Return inf_η φ(η) − y'η for internal targets (n, Q), shape (n,): the loss of the saturated model."""


class Point(Protocol):
    """What is known at one θ. The first of ``columns`` (k,) is always 0, the intercept."""

    @property
    def risk(self) -> float:
        """The risk."""

    def gradient(self, columns: Positions | None) -> Float:
        """Return minus the gradient of the risk, shape (k, Q)."""

    def hessian(self, columns: Positions, score: int | None = None, within: float = 0.0) -> Float:
        """Return H (kQ, kQ), or the part (k, k) of one score; it may lie between H/(1 + within) and (1 + within) H."""

    def cross(self, columns: Positions, others: Positions | None) -> Float:
        """Return the entries of H between columns and others (m,), shape (kQ, mQ)."""

    def blocks(self, groups: Positions) -> Float:
        """Return H of every row of columns (J, s) without the intercept, shape (J, sQ, sQ); a new array."""

    def product(self, columns: Positions, V: Float) -> Float:
        """Return ``hessian(columns)`` times V, both of the shape (k, Q) of θ; a new array."""


class Engine(Protocol):
    """The data behind the points.

    Up to ``few`` parameters, a Hessian takes no longer than a pass: infinite if every pass computes one. A refit begins
    with a new Hessian if the drift of its point exceeds ``stale``. ``x_mean`` and ``x_scale`` (D,) are the
    standardisation of X, in the order of the table, ``y_mean`` (Q,) the mean internal targets, and ``y_spread`` the
    largest deviation of one: 0 if all are constant.
    """

    few: float
    stale: float
    n_rows: int
    x_mean: Float
    x_scale: Float
    y_mean: Float
    y_spread: float

    @property
    def sample_size(self) -> float:
        """The effective number of rows, (Σ w)² / Σ w²."""

    @property
    def saturated(self) -> float:
        """The risk of the saturated model; known once there is a point."""

    def covariance(self, groups: Positions) -> Float:
        """Return Σ ω zz' of every row of columns (J, s) without the intercept, shape (J, s, s); a new array."""

    def at(self, columns: Positions, theta: Float) -> Point:
        """Return the point at θ (k, Q) for columns (k,). The first column is 0, the intercept."""

    def drift(self, point: Point) -> float:
        """Return the mean relative change of curvatures since the last Hessian, less one factor; inf if unknown."""

    def sample(self, columns: Positions, most: int) -> RowSample:
        """Return at most ``most`` rows of columns of Z without the intercept, standardised."""


def target_level(targets: Float, weight: Float) -> tuple[Float, float]:
    """Return the mean (Q,) of targets (n, Q), and the largest deviation of one: 0 if all are constant."""
    mean, counted = np.asarray(weight @ targets), targets[weight > 0]
    varies = bool(np.any(counted != counted[:1]))
    return mean, float(np.sqrt(weight @ (targets - mean) ** 2).max()) if varies else 0.0
