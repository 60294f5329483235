"""The slow truth for generalised linear models: every candidate refitted from scratch by plain Newton.

Nothing here shares code with the library. Softmax is left over-parameterised, one score per class, and every linear
system is solved by a pseudo-inverse, so that neither its spare direction nor duplicate columns are special cases.

Notation: Xs (n, D) standardised features, Y (n, P) targets (indicators for softmax), w (n,) weights that sum to one,
theta (1 + D, P) with the intercepts in row 0. The objective is Σ w_i (φ(η_i) − y_i'η_i) + alpha/2 ‖theta[1:]‖².
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from reference import _spent, best, candidates, standardise

Array = NDArray[np.float64]

RULES = ("omp", "forward", "score", "no-whiten", "single")
ZERO = 1e-13  # a score below this fraction of the null deviance is rounding


class Family(NamedTuple):
    """φ (n,), ∇φ (n, P) and ∇²φ (n, P, P) of scores (n, P), the best possible loss and where to start."""

    phi: Callable[[Array], Array]
    mean: Callable[[Array], Array]
    curvature: Callable[[Array], Array]
    saturated: Callable[[Array], Array]
    start: Callable[[Array], Array]


def _sigmoid(eta: Array) -> Array:
    return np.where(eta >= 0, 1 / (1 + np.exp(-np.abs(eta))), np.exp(-np.abs(eta)) / (1 + np.exp(-np.abs(eta))))


def _softmax(eta: Array) -> Array:
    e = np.exp(eta - eta.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def _log_sum(eta: Array) -> Array:
    top = eta.max(axis=1)
    return top + np.log(np.exp(eta - top[:, None]).sum(axis=1))


def _softmax_curvature(eta: Array) -> Array:
    p = _softmax(eta)
    return p[:, :, None] * np.eye(eta.shape[1]) - p[:, :, None] * p[:, None, :]


FAMILIES = {
    "squared": Family(
        lambda eta: (eta**2).sum(axis=1) / 2,
        lambda eta: eta,
        lambda eta: np.array([np.eye(eta.shape[1])] * len(eta)),
        lambda Y: -(Y**2).sum(axis=1) / 2,
        lambda mean: mean,
    ),
    "logistic": Family(
        lambda eta: np.log1p(np.exp(-np.abs(eta[:, 0]))) + np.maximum(eta[:, 0], 0),
        _sigmoid,
        lambda eta: (_sigmoid(eta) * _sigmoid(-eta))[:, :, None],
        lambda Y: np.zeros(len(Y)),
        lambda mean: np.log(mean / (1 - mean)),
    ),
    "softmax": Family(
        _log_sum,
        _softmax,
        _softmax_curvature,
        lambda Y: np.zeros(len(Y)),
        lambda mean: np.log(mean) - np.log(mean).mean(),
    ),
    "poisson": Family(
        lambda eta: np.exp(eta[:, 0]),
        np.exp,
        lambda eta: np.exp(eta)[:, :, None],
        lambda Y: Y[:, 0] - Y[:, 0] * np.log(np.where(Y[:, 0] > 0, Y[:, 0], 1)),
        np.log,
    ),
}  # fmt: skip


def hessian(Z: Array, curvature: Array, w: Array, alpha: float) -> Array:
    """Return Σ w_i z_i z_i' ⊗ ∇²φ_i + alpha, in the order of theta.ravel(); the intercepts are not penalised."""
    K, P = Z.shape[1], curvature.shape[1]
    H = np.empty((K, P, K, P))
    for p in range(P):
        for q in range(P):
            H[:, p, :, q] = Z.T @ ((w * curvature[:, p, q])[:, None] * Z)
    return H.reshape(K * P, K * P) + np.diag(np.repeat([0.0] + [alpha] * (K - 1), P))


def objective(family: Family, Z: Array, Y: Array, w: Array, theta: Array, alpha: float) -> float:
    eta = Z @ theta
    with np.errstate(over="ignore", invalid="ignore"):
        value = float(w @ (family.phi(eta) - (Y * eta).sum(axis=1))) + alpha / 2 * float((theta[1:] ** 2).sum())
    return value if np.isfinite(value) else np.inf


def fit(family: Family, Xs: Array, Y: Array, w: Array, columns: Iterable[int], alpha: float) -> tuple[Array, float]:
    """Return theta (1 + D, P), zero outside ``columns``, and the risk, by Newton with halving from the null model."""
    columns = sorted(set(columns))
    Z = np.column_stack([np.ones(len(Xs)), Xs[:, columns]])
    theta = np.zeros((Z.shape[1], Y.shape[1]))
    theta[0] = family.start(w @ Y)
    value = objective(family, Z, Y, w, theta, alpha)
    for _ in range(100):
        eta = Z @ theta
        gradient = Z.T @ (w[:, None] * (family.mean(eta) - Y))
        gradient[1:] += alpha * theta[1:]
        if np.abs(gradient).max() < 1e-15:
            break
        H = hessian(Z, family.curvature(eta), w, alpha)
        step = -(np.linalg.pinv(H, rcond=1e-12, hermitian=True) @ gradient.ravel()).reshape(theta.shape)
        length = 1.0
        while objective(family, Z, Y, w, theta + length * step, alpha) > value + 1e-15 * (1 + abs(value)):
            length /= 2
            if length < 1e-10:
                break
        if length < 1e-10:
            break
        theta = theta + length * step
        value = objective(family, Z, Y, w, theta, alpha)
        if np.abs(step).max() < 1e-14 * np.abs(theta).max():
            break
    full = np.zeros((1 + Xs.shape[1], Y.shape[1]))
    full[[0] + [d + 1 for d in columns]] = theta
    return full, value


def scores(
    family: Family, Xs: Array, Y: Array, w: Array, groups: Sequence[Sequence[int]], chosen: Iterable[int], rule: str,
    alpha: float, left: Iterable[int],
) -> dict[int, float]:  # fmt: skip
    """Score of every group in ``left`` after ``chosen``, not divided by cost."""
    S = [d for g in chosen for d in groups[g]]
    theta, risk = fit(family, Xs, Y, w, S, alpha)
    eta = theta[0] + Xs @ theta[1:]
    r = Xs.T @ (w[:, None] * (Y - family.mean(eta)))
    P = Y.shape[1]
    out = {}
    for g in left:
        own = list(groups[g])
        if rule == "forward":
            out[g] = 2 * (risk - fit(family, Xs, Y, w, S + own, alpha)[1])
        elif rule == "omp":
            C = (Xs[:, own] * w[:, None]).T @ Xs[:, own] + alpha * np.eye(len(own))
            out[g] = float(np.sum(r[own] * (np.linalg.pinv(C, rcond=1e-11, hermitian=True) @ r[own])))
        elif rule == "score":
            Z = np.column_stack([np.ones(len(Xs)), Xs[:, S + own]])
            H = hessian(Z, family.curvature(eta), w, alpha)
            k = (1 + len(S)) * P
            M = H[k:, k:] - H[k:, :k] @ np.linalg.pinv(H[:k, :k], rcond=1e-12, hermitian=True) @ H[:k, k:]
            v = r[own].ravel()
            out[g] = float(v @ np.linalg.pinv(M, rcond=1e-10, hermitian=True) @ v)
        elif rule == "no-whiten":
            out[g] = float(np.sum(r[own] ** 2))
        elif rule == "single":
            out[g] = float(np.max(np.sum(r[own] ** 2, axis=1)))
        else:
            raise ValueError(f"unknown rule {rule!r}")
    return out


def sequence(
    family: str,
    X: ArrayLike,
    Y: ArrayLike,
    groups: Sequence[Sequence[int]],
    costs: ArrayLike,
    *,
    rule: str = "forward",
    cost_sensitive: bool = True,
    schedule: str = "greedy",
    alpha: float = 1e-5,
    sample_weight: ArrayLike | None = None,
) -> dict[str, Any]:
    """Order the groups.

    Returns
    -------
    dict
        ``order``, ``gains``, ``null`` (half the null deviance per sample), ``margins`` (how far the runner-up's rate
        was behind, relatively), and in the user's units ``coefs`` (stages, P, D) and ``intercepts`` (stages, P).
    """
    phi = FAMILIES[family]
    data = standardise(X, Y, sample_weight)
    Xs, w = data.Xs, data.w / data.w.sum()
    targets = data.Yc + data.y_mean
    price = [float(c) for c in np.asarray(costs)]
    null_risk = fit(phi, Xs, targets, w, (), alpha)[1]
    null = null_risk - float(w @ phi.saturated(targets))

    order: list[int] = []
    gains, coefs, intercepts, margins = [], [], [], []
    before = null_risk
    while len(order) < len(groups):
        left = [g for g in range(len(groups)) if g not in order]
        allowed = candidates(left, price, _spent(order, price), schedule, None, None)
        if not allowed:
            break
        score = scores(phi, Xs, targets, w, groups, order, rule, alpha, allowed)
        g = best(allowed, score, price, cost_sensitive, ZERO * null)
        margins.append(_margin(score, price, g, allowed, cost_sensitive))
        order.append(g)
        theta, risk = fit(phi, Xs, targets, w, [d for g in order for d in groups[g]], alpha)
        gains.append(before - risk)
        before = risk
        coefs.append(theta[1:].T / data.x_scale)
        intercepts.append(theta[0] - coefs[-1] @ data.x_mean)
    return {
        "order": order, "gains": gains, "null": null, "margins": margins, "coefs": np.array(coefs),
        "intercepts": np.array(intercepts),
    }  # fmt: skip


def _margin(score: dict[int, float], price: list[float], g: int, allowed: list[int], cost_sensitive: bool) -> float:
    """Return how much lower the best other rate is, relatively: small margins are decided by rounding."""
    free = [h for h in allowed if cost_sensitive and price[h] == 0]
    rate = {h: score[h] / (price[h] if cost_sensitive and not free else 1.0) for h in free or allowed}
    others = [rate[h] for h in rate if h != g]
    return 1 - max(others) / rate[g] if others and rate[g] > 0 else 1.0
