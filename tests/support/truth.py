"""The slow truth about sets and orders of groups: every set is fitted from the data, every order is tried.

Nothing here shares code with the library. A problem is data, groups and a cost function c(S) of sets of groups; a set
is a tuple of bools. Costs are sums unless another function is given.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from itertools import permutations
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

Array = NDArray[np.float64]

SLACK = 1e-12  # costs closer than this, relatively, are equal
KINDS = (
    "plain", "targets", "weights", "duplicates", "constant", "dependent", "ill", "equal costs", "wide costs", "free",
    "huge", "tiny", "unrelated", "explained", "few rows", "suppressors", "correlated", "xor",
)  # fmt: skip
SINGULAR = ("duplicates", "constant", "dependent", "few rows")  # may be singular where alpha is 0


@dataclass(frozen=True)
class Problem:
    """Data, groups and costs. ``cost`` maps a mask (J,) to the cost of the set."""

    X: Array
    Y: Array
    w: Array
    groups: tuple[tuple[int, ...], ...]
    costs: Array
    alpha: float
    kind: str = "plain"
    cost: Callable[[NDArray[np.bool_]], float] | None = None

    @property
    def J(self) -> int:
        return len(self.groups)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(f"g{g}" for g in range(self.J))

    @property
    def feature_groups(self) -> dict[str, list[int]]:
        return {name: list(columns) for name, columns in zip(self.names, self.groups, strict=True)}

    @property
    def priced(self) -> dict[str, float]:
        return dict(zip(self.names, self.costs.tolist(), strict=True))

    def cost_of(self, mask: NDArray[np.bool_]) -> float:
        return float(self.costs[mask].sum()) if self.cost is None else self.cost(mask)

    @cached_property
    def sets(self) -> NDArray[np.bool_]:
        """All 2^J sets, (2^J, J); bit g of the row number says whether g is in."""
        return (np.arange(2**self.J)[:, None] >> np.arange(self.J)) % 2 == 1

    @cached_property
    def set_costs(self) -> Array:
        return np.array([self.cost_of(mask) for mask in self.sets])

    @cached_property
    def null_value(self) -> float:
        return float(np.sum(self._triangle[1] ** 2) / 2)

    @cached_property
    def _triangle(self) -> tuple[Array, Array]:
        """A (m, D) and T (m, P) with ½‖T − A W‖² equal to the penalised risk at W, reduced to few rows by QR."""
        share = self.w / self.w.sum()
        counted = self.w > 0
        constant = np.ptp(self.X[counted], axis=0) == 0
        centred = np.where(constant, 0.0, self.X - share @ self.X)
        scale = np.where(constant, 1.0, np.sqrt(share @ centred**2))
        Yc = self.Y - share @ self.Y
        D, P = self.X.shape[1], self.Y.shape[1]
        root = np.sqrt(share)[:, None]
        A = np.vstack([root * centred / scale, np.sqrt(self.alpha) * np.eye(D)])
        T = np.vstack([root * Yc, np.zeros((D, P))])
        R = np.linalg.qr(np.hstack([A, T]), mode="r")
        return R[:, :D], R[:, D:]

    @cached_property
    def values(self) -> Array:
        """F of all sets, by least squares from the data."""
        A, T = self._triangle
        # exact dependence leaves singular values of rounding size; what is meant to be small is far above
        rcond = 1e-11 if self.kind in SINGULAR else 1e-14
        label = np.empty(A.shape[1], dtype=int)
        for g, columns in enumerate(self.groups):
            label[list(columns)] = g
        found = np.zeros(len(self.sets))
        total = np.sum(T**2)
        for k in range(1, len(self.sets)):
            part = A[:, self.sets[k][label]]
            W = np.linalg.lstsq(part, T, rcond=rcond)[0]
            found[k] = (total - np.sum((T - part @ W) ** 2)) / 2
        return found

    def best_at(self, budget: float, allowed: NDArray[np.bool_] | None = None) -> float:
        """The largest F of a set within the budget, of those allowed (2^J,)."""
        if allowed is None:
            costs, best = self._best_so_far
            return float(best[np.searchsorted(costs, budget * (1 + SLACK), side="right") - 1])
        return float(self.values[allowed & (self.set_costs <= budget * (1 + SLACK))].max())

    @cached_property
    def _best_so_far(self) -> tuple[Array, Array]:
        """Costs of all sets, increasing, and the best F up to each."""
        order = np.argsort(self.set_costs, kind="stable")
        return self.set_costs[order], np.maximum.accumulate(self.values[order])

    def between(self, included: tuple[int, ...], excluded: tuple[int, ...]) -> NDArray[np.bool_]:
        """Which sets hold all of the first and none of the second."""
        return self.sets[:, list(included)].all(axis=1) & ~self.sets[:, list(excluded)].any(axis=1)

    def curve(self, order: tuple[int, ...]) -> tuple[Array, Array]:
        """Costs and F of the prefixes of an order, the empty one first."""
        index = np.concatenate([[0], np.cumsum(2 ** np.array(order, dtype=int))]).astype(int)
        return self.set_costs[index], self.values[index]

    def timeliness(self, order: tuple[int, ...], stop: float, interpolation: str) -> float:
        return mean_of_curve(*self.curve(order), stop, interpolation)

    def best_timeliness(self, stop: float, interpolation: str) -> float:
        """The best of all J! orders."""
        return max(self.timeliness(order, stop, interpolation) for order in permutations(range(self.J)))

    def best_sampled(self, budgets: Array, weights: Array) -> float:
        """The best mean over a sample of budgets, of all J! orders."""
        return max(self.sampled(order, budgets, weights) for order in permutations(range(self.J)))

    def sampled(self, order: tuple[int, ...], budgets: Array, weights: Array) -> float:
        costs, values = self.curve(order)
        bought = [values[np.flatnonzero(costs <= budget * (1 + SLACK))[-1]] for budget in budgets]
        return float(weights @ np.array(bought) / weights.sum())


def mean_of_curve(costs: Array, values: Array, stop: float, interpolation: str) -> float:
    """The mean over budgets from 0 to ``stop`` of a curve, by integration of its pieces."""
    if stop == 0:
        return float(values[np.flatnonzero(costs <= 0)[-1]])
    area = 0.0
    for a, b, low, high in zip(costs, [*costs[1:], np.inf], values, [*values[1:], values[-1]], strict=True):
        end = min(b, stop)
        if end <= a:
            continue
        if interpolation == "step" or not np.isfinite(b):
            area += (end - a) * low
        else:
            at_end = low + (high - low) * (end - a) / (b - a)
            area += (end - a) * (low + at_end) / 2
    return area / stop


def best_by_programming(problem: Problem, stop: float) -> float:
    """The best timeliness (step) of all orders by recursion over sets: for J too large for permutations."""
    values, costs, J = problem.values, problem.set_costs, problem.J
    if stop == 0:
        return float(values[costs <= 0].max())
    best = np.full(2**J, -np.inf)
    best[-1] = values[-1] * max(stop - costs[-1], 0.0)
    for S in range(2**J - 2, -1, -1):
        for g in range(J):
            T = S | 1 << g
            if T != S and costs[T] < np.inf:  # what costs that much cannot be bought
                width = max(min(costs[T], stop) - costs[S], 0.0)
                best[S] = max(best[S], width * values[S] + best[T])
    return float(best[0] / stop)


# -- problems ------------------------------------------------------------------------------------------------


def make(seed: int, kind: str, J: int | None = None, alpha: float | None = None) -> Problem:
    """A random problem of one kind, the same for the same arguments."""
    rng = np.random.default_rng([seed, KINDS.index(kind)])
    J = int(rng.integers(1, 7)) if J is None else J
    sizes = rng.integers(1, 5, size=J) if rng.random() < 0.4 else np.ones(J, dtype=int)
    D = int(sizes.sum())
    n = 3 * D + 20
    P = int(rng.integers(2, 4)) if kind == "targets" else 1
    X = rng.standard_normal((n, D)) @ _mixing(rng, D, kind)
    beta = rng.standard_normal((D, P)) * rng.exponential(size=(D, 1))
    Y = X @ beta + rng.exponential() * rng.standard_normal((n, P))
    costs = rng.exponential(size=J) + 0.05
    alpha = float(rng.choice([0.0, 1e-5, 1e-2, 0.3])) if alpha is None else alpha
    w = rng.exponential(size=n) * (rng.random(n) < 0.8) if kind == "weights" else np.ones(n)
    X, Y, costs = _bent(rng, kind, X, Y, costs)
    # groups need not be of neighbouring columns
    where = rng.permutation(D)
    ends = np.cumsum(sizes)
    groups = tuple(tuple(map(int, where[e - s : e])) for e, s in zip(ends, sizes, strict=True))
    return Problem(X + rng.standard_normal(D), Y + 3.0, w[: len(X)], groups, costs, alpha, kind)


def _mixing(rng: np.random.Generator, D: int, kind: str) -> Array:
    if kind == "correlated":
        return rng.standard_normal((D, D)) + 2 * rng.standard_normal((D, 1))
    if kind == "ill":  # the condition of C goes up to 1e12
        Q = np.linalg.qr(rng.standard_normal((D, D)))[0]
        return (Q * np.logspace(0, -rng.uniform(2, 6), D)) @ np.linalg.qr(rng.standard_normal((D, D)))[0]
    return np.eye(D) + 0.3 * rng.standard_normal((D, D))


def _bent(rng: np.random.Generator, kind: str, X: Array, Y: Array, costs: Array) -> tuple[Array, Array, Array]:
    """Change a plain problem to one of its kind."""
    _n, D = X.shape
    if kind == "duplicates":
        X[:, rng.integers(D)] = X[:, rng.integers(D)]
    elif kind == "constant":
        X[:, rng.integers(D)] = 2.0
    elif kind == "dependent" and D > 2:
        X[:, 0] = X[:, 1:] @ rng.integers(-2, 3, size=D - 1)
    elif kind == "equal costs":
        costs = np.full(costs.size, 0.1)
    elif kind == "wide costs":
        costs = 10.0 ** rng.uniform(-3, 3, size=costs.size)
    elif kind == "free":
        costs = costs * (rng.random(costs.size) < 0.5)
    elif kind in ("huge", "tiny"):
        Y = Y * (1e9 if kind == "huge" else 1e-9)
    elif kind == "unrelated":
        Y = rng.standard_normal(Y.shape)
    elif kind == "explained":
        Y = X @ rng.standard_normal((D, 1))
    elif kind == "few rows":
        X, Y = X[: max(D - 1, 3)], Y[: max(D - 1, 3)]
    elif kind in ("suppressors", "xor"):
        Y = _suppressed(rng, X, hidden=kind == "xor")
    return X, Y, costs


def _suppressed(rng: np.random.Generator, X: Array, hidden: bool) -> Array:
    """Make columns pairs that explain something only together, and return the target."""
    n, D = X.shape
    Y = 0.3 * rng.standard_normal((n, 1))
    for a in range(0, D - 1, 2):
        signal, noise = rng.standard_normal(n), rng.standard_normal(n)
        X[:, a] = noise
        X[:, a + 1] = noise + (10.0 ** -rng.uniform(1, 2) if hidden else 0.3) * signal
        Y[:, 0] += rng.exponential() * signal
    return Y


def check_verified(certificate: Any, moments: Any) -> None:
    """Verify a certificate; where columns are dependent, so that the bound is R(∅), it must say that it cannot."""
    if certificate.everything < certificate.null_value or certificate.blocks.size or not certificate.null_value:
        certificate.verify(moments)
    else:
        with pytest.raises(ValueError, match="dependent"):
            certificate.verify(moments)
