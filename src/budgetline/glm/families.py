"""Families of generalised linear models: a convex φ, its gradient and its Hessian.

The risk of scores η_i = c + V x_i is Σ ω_i (φ(η_i) − y_i'η_i), with weights ω_i that sum to one, and the prediction is
E[y | x] = ∇φ(η). Each family works in Q internal scores; shapes below are for n samples.

=============  ===  ====================================  =======================  =======================
family         Q    φ(η)                                  ∇φ(η)                    ∇²φ(η)
=============  ===  ====================================  =======================  =======================
SquaredError   P    ½‖η‖²                                 η                        I
Logistic       1    log(1 + e^η)                          p = 1/(1 + e^−η)         p(1 − p)
Softmax        P−1  log Σ_k e^{(Bη)_k}                    B'p, p = softmax(Bη)     B'(diag p − pp')B
Poisson        1    e^η                                   e^η                      e^η
ConvexLoss     1    given                                 given                    given, or by differences
=============  ===  ====================================  =======================  =======================

Softmax over P classes has one direction too many: adding a constant to all scores changes nothing. B, P × (P−1) with
orthonormal columns that sum to zero, removes it without changing ‖W‖² = ‖V‖² of W = BV, so the problem stays the
ridge problem in W and its solution is unique.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit, xlogy

from budgetline.arrays import Float
from budgetline.devices import largest, library_of, on_host, with_values
from budgetline.glm.engines import Curvature, Loss


class Family(Loss, Protocol):
    """What the objective and the model need from a loss."""

    loss: str
    """Name of the loss."""

    def external(self, V: Float) -> Float:
        """Turn internal coefficients or levels (…, Q) into those of the user's scores (…, P)."""

    def start(self, mean: Float) -> Float:
        """Return the levels (Q,) of the intercept-only model from mean internal targets (Q,)."""

    def excess(self, scores: Float, Y: Float) -> Float:
        """Return the loss of the user's scores (n, K, P) of K models less the saturated one's for y (n, P): (n, K)."""

    def prediction(self, scores: Float) -> Float:
        """Return E[y | x] from the user's scores (n, P)."""


class _Plain:
    """A family whose internal scores are the user's, for any targets; a certain prediction costs nothing."""

    value: Callable[[Float], Float]
    mean: Callable[[Float], Float]

    def saturated(self, Y: Float) -> Float:
        return np.zeros(len(Y))

    def excess(self, scores: Float, Y: Float) -> Float:
        phi = self.value(scores.reshape(-1, scores.shape[2])).reshape(scores.shape[:2])
        return np.asarray(phi - np.einsum("np,nkp->nk", Y, scores) - self.saturated(Y)[:, None])

    def check(self, Y: Float) -> None:
        """Accept any targets."""

    def internal(self, Y: Float) -> Float:
        return Y

    def external(self, V: Float) -> Float:
        return V

    def prediction(self, scores: Float) -> Float:
        return self.mean(scores)


def _check_single(Y: Float) -> None:
    if Y.shape[1] != 1:
        raise ValueError(f"this loss is for one target, y has {Y.shape[1]} columns")


class SquaredError(_Plain):
    """φ(η) = ½‖η‖²."""

    loss = "squared_error"

    def start(self, mean: Float) -> Float:
        return mean

    def value(self, eta: Float) -> Float:
        found: Float = library_of(eta).sum(eta**2, axis=1) / 2
        return found

    def mean(self, eta: Float) -> Float:
        return eta

    def curvature(self, eta: Float) -> Curvature:
        return Curvature(library_of(eta).ones_like(eta))

    def saturated(self, Y: Float) -> Float:
        """Return −½‖y‖²."""
        return np.asarray(-(Y**2).sum(axis=1) / 2)

    def excess(self, scores: Float, Y: Float) -> Float:
        """Return ½‖y − η‖², without the cancellation that the difference of losses would bring."""
        return np.asarray(((scores - Y[:, None]) ** 2).sum(axis=2) / 2)


class Logistic(_Plain):
    """φ(η) = log(1 + e^η), targets 0 and 1."""

    loss = "log_loss"

    def start(self, mean: Float) -> Float:
        return np.log(mean) - np.log1p(-mean)

    def value(self, eta: Float) -> Float:
        xp, scores = library_of(eta), eta[:, 0]
        size = xp.abs(scores)
        found: Float = xp.log1p(xp.exp(-size)) + 0.5 * (size + scores)
        return found

    def mean(self, eta: Float) -> Float:
        """Return the probability, (1 + tanh(η/2))/2: exact to roundings of one, which is what a gradient needs."""
        p: Float = library_of(eta).tanh(0.5 * eta)
        p *= 0.5
        p += 0.5
        return p

    def prediction(self, scores: Float) -> Float:
        """Return the probability; small ones have all digits."""
        return np.asarray(expit(scores))

    def curvature(self, eta: Float) -> Curvature:
        xp = library_of(eta)
        small = xp.exp(-xp.abs(eta))
        return Curvature(small / (1.0 + small) ** 2)


class Softmax(_Plain):
    """φ(η) = log Σ_k e^{(Bη)_k}; targets are indicators of P classes."""

    loss = "log_loss"

    def __init__(self, n_classes: int) -> None:
        raw = np.tril(np.ones((n_classes, n_classes)), -1)[:, : n_classes - 1]
        raw[np.arange(n_classes - 1), np.arange(n_classes - 1)] = -np.arange(n_classes - 1, 0, -1.0)
        self.B = raw / np.linalg.norm(raw, axis=0)

    def internal(self, Y: Float) -> Float:
        return np.asarray(Y @ self.B)

    def excess(self, scores: Float, Y: Float) -> Float:
        return np.asarray(_log_sum_exp(scores) - np.einsum("np,nkp->nk", Y, scores))

    def external(self, V: Float) -> Float:
        return np.asarray(V @ self.B.T)

    def start(self, mean: Float) -> Float:
        """Return the centred log frequencies; the mean indicators are 1/P + B·mean."""
        frequencies = 1 / len(self.B) + self.B @ mean
        return np.asarray(self.B.T @ np.log(frequencies))

    def value(self, eta: Float) -> Float:
        return _log_sum_exp(eta @ with_values(eta, self.B).T)

    def mean(self, eta: Float) -> Float:
        B = with_values(eta, self.B)
        return _softmax(eta @ B.T) @ B

    def curvature(self, eta: Float) -> Curvature:
        B = with_values(eta, self.B)
        p = _softmax(eta @ B.T)
        return Curvature(p, B, p @ B)

    def prediction(self, scores: Float) -> Float:
        return _softmax(scores)


class Poisson(_Plain):
    """φ(η) = e^η, targets are counts (any numbers ≥ 0)."""

    loss = "poisson"

    def check(self, Y: Float) -> None:
        _check_single(Y)
        if np.any(Y < 0):
            raise ValueError(f"y must not be negative with loss='poisson', got {Y.min():g}")

    def start(self, mean: Float) -> Float:
        if not mean.any():
            raise ValueError("y is zero everywhere: a Poisson model has no finite intercept")
        return np.log(mean)

    def value(self, eta: Float) -> Float:
        return self.mean(eta)[:, 0]

    def mean(self, eta: Float) -> Float:
        found: Float = library_of(eta).exp(eta)
        return found

    def curvature(self, eta: Float) -> Curvature:
        return Curvature(self.mean(eta))

    def saturated(self, Y: Float) -> Float:
        return np.asarray(Y[:, 0] - xlogy(Y[:, 0], Y[:, 0]))


class ConvexLoss(_Plain):
    """A generalised linear model for one target, defined by a convex function φ of your own.

    For scores η, the risk is the mean of φ(η) − y·η and the prediction is φ'(η).

    Parameters
    ----------
    phi, derivative : callable
        Functions that evaluate φ and φ' elementwise on an array of scores.
    second : callable, optional
        Function that evaluates φ''. By default, finite differences of φ' are used; this takes a few more iterations but
        does not reduce the accuracy.
    start : float
        A score at which φ and φ' are finite.

    Examples
    --------
    >>> import numpy as np
    >>> from budgetline import AnytimeRegressor
    >>> from budgetline.glm import ConvexLoss
    >>> X, y = np.array([[0.0], [1.0], [2.0], [3.0]]), np.array([1.0, 2.0, 4.0, 9.0])
    >>> own = AnytimeRegressor(loss=ConvexLoss(np.exp, np.exp), alpha=0).fit(X, y)
    >>> bool(np.allclose(own.coef_, AnytimeRegressor(loss="poisson", alpha=0).fit(X, y).coef_))
    True
    """

    loss = "convex"

    def __init__(
        self,
        phi: Callable[[Float], ArrayLike],
        derivative: Callable[[Float], ArrayLike],
        second: Callable[[Float], ArrayLike] | None = None,
        start: float = 0.0,
    ) -> None:
        self.phi, self.derivative, self.second, self.at = phi, derivative, second, float(start)

    def check(self, Y: Float) -> None:
        """Refuse several targets."""
        _check_single(Y)

    def start(self, mean: Float) -> Float:
        """Return the starting score."""
        return np.full(mean.shape, self.at)

    def value(self, eta: Float) -> Float:
        """Return φ."""
        return _computed(self.phi, eta[:, 0])

    def mean(self, eta: Float) -> Float:
        """Return φ'."""
        return _computed(self.derivative, eta)

    def curvature(self, eta: Float) -> Curvature:
        """Return φ''."""

        def slope(scores: Float) -> ArrayLike:
            if self.second is not None:
                return self.second(scores)
            step = 1e-5 * (1 + np.abs(scores))
            change = np.asarray(self.derivative(scores + step)) - np.asarray(self.derivative(scores - step))
            return np.asarray(change / (2 * step))

        return Curvature(_computed(lambda scores: np.maximum(slope(scores), 0.0), eta))

    def saturated(self, Y: Float) -> Float:
        """Return min_η φ(η) − yη, by bisection of φ'(η) = y."""
        y, low, high = Y[:, 0], np.full(len(Y), self.at - 1e3), np.full(len(Y), self.at + 1e3)
        with np.errstate(all="ignore"):
            for _ in range(100):
                middle = (low + high) / 2
                outside = ~np.isfinite(np.asarray(self.phi(middle), dtype=np.float64))  # φ may have a bounded domain
                below = np.where(outside, middle < self.at, np.asarray(self.derivative(middle)) < y)
                low, high = np.where(below, middle, low), np.where(below, high, middle)
            return np.asarray(self.value(low[:, None]) - y * low)


LOSSES: dict[str, Callable[[], Family]] = {"squared_error": SquaredError, "poisson": Poisson}
"""Losses that can be given to the regressor by name."""


def _computed(function: Callable[[Float], ArrayLike], scores: Float) -> Float:
    """Return a function of NumPy arrays at scores that may be on a device, and where they are."""
    with np.errstate(over="ignore", invalid="ignore"):
        return with_values(scores, np.asarray(function(on_host(scores)), dtype=np.float64))


def _log_sum_exp(scores: Float) -> Float:
    """Return log Σ e^s over the last axis; SciPy's general one takes a hundred times as long on a few rows."""
    xp, top = library_of(scores), largest(scores, -1)
    found: Float = top + xp.log(xp.sum(xp.exp(scores - top[..., None]), axis=-1))
    return found


def _softmax(scores: Float) -> Float:
    """Return e^s / Σ e^s over the last axis."""
    xp = library_of(scores)
    raised = xp.exp(scores - largest(scores, -1)[..., None])
    found: Float = raised / xp.sum(raised, axis=-1)[..., None]
    return found
