"""What a generalised linear model needs from the data, wherever they are.

Z = [1, X standardised], n × (1 + D), holds the intercept as column 0 and then the columns of X, group after group. An
*engine* holds the data. For parameters θ (k, Q) of some columns of Z, and scores η = Zθ, it makes a *point* with

    risk = Σ ω (φ(η) − y'η),    gradient = Z'ω(y − ∇φ(η)),    H = Σ ω ∇²φ(η) ⊗ zz'.

Weights ω sum to one; there is no ridge. Rows of H are ordered as ``θ.ravel()``. ``None`` in place of columns means all
columns of X, without the intercept. A gradient is needed at every point, a Hessian only at some, so an engine may
defer expensive work.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np

from budgetline.arrays import Float, Positions
from budgetline.glm.curvature import Curvature
from budgetline.moments.row_samples import RowSample


class Loss(Protocol):
    """A convex φ of Q scores, and the targets it accepts.

    ``portable`` says whether ``value``, ``mean`` and ``curvature`` accept arrays of any library.
    """

    portable: bool

    def check(self, Y: Float, weight: Float) -> None:
        """Raise an error if targets (n, P) with weights (n,) are not of this family."""

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
        """Return H, shape (kQ, kQ), or only the part (k, k) of one score; a new array.

        With ``within`` the result may lie between H/(1 + within) and (1 + within) H, if that takes less time.
        """

    def cross(self, columns: Positions, others: Positions | None) -> Float:
        """Return the entries of H between columns and others (m,), shape (kQ, mQ)."""

    def blocks(self, groups: Positions) -> Float:
        """Return H of every row of columns (J, s) without the intercept, shape (J, sQ, sQ); a new array."""

    def product(self, columns: Positions, V: Float) -> Float:
        """Return ``hessian(columns)`` times V, both of the shape (k, Q) of θ; a new array."""


class Engine(Protocol):
    """The data behind the points.

    Attributes
    ----------
    eager : bool
        Whether every point comes with its Hessian; otherwise computing a Hessian takes extra time.
    n_rows : int
    x_mean, x_scale : arrays of shape (D,)
        Standardisation of X, in the order of the table.
    y_mean, y_spread : array of shape (Q,), float
        Mean internal targets, and the largest deviation of one: 0 if all are constant.
    """

    eager: bool
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

    def sample(self, columns: Positions, most: int) -> RowSample:
        """Return at most ``most`` rows of columns of Z without the intercept, standardised."""


def target_level(targets: Float, weight: Float) -> tuple[Float, float]:
    """Return the mean (Q,) of targets (n, Q), and the largest deviation of one: 0 if all are constant."""
    mean, counted = np.asarray(weight @ targets), targets[weight > 0]
    varies = bool(np.any(counted != counted[:1]))
    return mean, float(np.sqrt(weight @ (targets - mean) ** 2).max()) if varies else 0.0
