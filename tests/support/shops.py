"""Problems in which costs are shared and groups require others, and the slow truth about them.

Nothing here shares code with the library but FeatureGroups, which problems are handed to it as. What a set costs is
added up in ``reference_shared.Shop``; what it explains is fitted in ``truth``.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations, pairwise, permutations
from typing import Any

import numpy as np
from numpy.typing import NDArray
from reference_shared import Shop, random_shop
from truth import Array, Problem, make

from budgetline import FeatureGroups

CASES = (
    "random", "shared for nothing", "only shared", "required and shared", "free", "chain", "overlapping", "costly",
)  # fmt: skip
KINDS = ("plain", "correlated", "suppressors", "targets", "xor", "weights", "unrelated")

EMPTY = Shop((), (), {})


@dataclass(frozen=True)
class Bundled(Problem):
    """A problem whose sets cost what a shop says. Only sets that hold what they require count."""

    shop: Shop = EMPTY

    def cost_of(self, mask: NDArray[np.bool_]) -> float:
        return self.shop.cost(np.flatnonzero(mask).tolist())

    @property
    def bundle(self) -> FeatureGroups:
        return FeatureGroups(self.feature_groups, self.shop.own, **named(self.shop))

    @cached_property
    def complete(self) -> NDArray[np.bool_]:
        """Which of the 2^J sets hold what they require."""
        held = [frozenset(np.flatnonzero(mask).tolist()) for mask in self.sets]
        return np.array([self.shop.closed(S) == S for S in held])

    def best_at(self, budget: float, allowed: NDArray[np.bool_] | None = None) -> float:
        return super().best_at(budget, self.complete if allowed is None else self.complete & allowed)

    @cached_property
    def orders(self) -> list[tuple[int, ...]]:
        """All orders in which no group comes before one that it requires."""
        return list(self._orders())

    def _orders(self) -> Iterator[tuple[int, ...]]:
        for order in permutations(range(self.J)):
            place = {g: k for k, g in enumerate(order)}
            if all(place[h] < place[g] for g, required in self.shop.requires.items() for h in required):
                yield order

    def best_timeliness(self, stop: float, interpolation: str) -> float:
        return max(self.timeliness(order, stop, interpolation) for order in self.orders)

    def best_sampled(self, budgets: Array, weights: Array) -> float:
        return max(self.sampled(order, budgets, weights) for order in self.orders)

    def is_valid(self, order: tuple[int, ...]) -> bool:
        before = [set(order[:k]) for k in range(len(order))]
        return all(set(self.shop.requires.get(g, ())) <= early for g, early in zip(order, before, strict=True))


@dataclass(frozen=True)
class Singles(Bundled):
    """Many groups of one column each: F of all sets of one size at once, from the normal equations.

    A set that lacks what it requires is given an infinite cost.
    """

    @cached_property
    def complete(self) -> NDArray[np.bool_]:
        held = np.full(2**self.J, True)
        for g, needed in self.shop.requires.items():
            held &= ~self.sets[:, g] | self.sets[:, sorted(needed)].all(axis=1)
        return held

    @cached_property
    def set_costs(self) -> Array:
        paid = self.sets @ self.costs
        for cost, who in self.shop.shared:
            paid += cost * self.sets[:, sorted(who)].any(axis=1)
        return np.where(self.complete, paid, np.inf)

    @cached_property
    def values(self) -> Array:
        A, T = self._triangle
        columns = [group[0] for group in self.groups]
        C, b = (A.T @ A)[np.ix_(columns, columns)], (A.T @ T)[columns]
        found = np.zeros(2**self.J)
        for size in range(1, self.J + 1):
            sets = np.array(list(combinations(range(self.J), size)))
            w = np.linalg.solve(C[sets[:, :, None], sets[:, None, :]], b[sets])
            found[(1 << sets).sum(axis=1)] = np.sum(b[sets] * w, axis=(1, 2)) / 2
        return found


def named(shop: Shop) -> dict[str, Any]:
    """What groups g0, g1, … share and require, as FeatureGroups takes it."""
    return {
        "shared": {f"s{k}": (cost, [f"g{g}" for g in sorted(who)]) for k, (cost, who) in enumerate(shop.shared)},
        "requires": {f"g{g}": [f"g{h}" for h in sorted(needed)] for g, needed in sorted(shop.requires.items())},
    }


def bundled(seed: int, case: str, J: int, alpha: float | None = None) -> Bundled:
    """A random problem with shared costs and requirements of one case, the same for the same arguments."""
    rng = np.random.default_rng([seed, CASES.index(case), J])
    kind = KINDS[seed % len(KINDS)]
    plain = make(seed + 7000, kind, J=J, alpha=float(rng.choice([1e-5, 1e-2, 0.1])) if alpha is None else alpha)
    return of_plain(plain, draw_shop(rng, J, case))


def of_plain(plain: Problem, shop: Shop) -> Bundled:
    own = np.array(shop.own)
    return Bundled(plain.X, plain.Y, plain.w, plain.groups, own, plain.alpha, plain.kind, None, shop)


def singles(seed: int, J: int, shop: Shop | None = None) -> Singles:
    """Many groups of one column; costs add up unless a shop is given."""
    rng = np.random.default_rng([seed, J])
    X = rng.standard_normal((3 * J + 20, J)) @ (np.eye(J) + 0.3 * rng.standard_normal((J, J)))
    for a in range(0, J - 1, 4):  # some explain something only together
        X[:, a + 1] = X[:, a] + 0.3 * rng.standard_normal(len(X))
    Y = (X @ rng.standard_normal((J, 1))) * 0.3 + (X[:, 1:2] - X[:, :1]) * 3 + rng.standard_normal((len(X), 1))
    shop = Shop((rng.exponential(size=J) + 0.05).tolist(), (), {}) if shop is None else shop
    own = np.array(shop.own)
    return Singles(X, Y, np.ones(len(X)), tuple((g,) for g in range(J)), own, 1e-3, "plain", None, shop)


def draw_shop(rng: np.random.Generator, J: int, case: str) -> Shop:
    shop = random_shop(rng, J)
    own, shared, requires = list(shop.own), list(shop.shared), dict(shop.requires)
    some = rng.permutation(J).tolist()
    if case == "shared for nothing":
        shared += [(0.0, frozenset(some[:2])), (0.0, frozenset(some[1:]))]
    elif case == "only shared":
        own[some[0]] = own[some[1]] = 0.0
        shared.append((float(rng.uniform(0.5, 3)), frozenset(some[:3])))
    elif case == "required and shared":
        requires = {some[1]: frozenset(some[:1]), some[3]: frozenset({some[1], some[2]})}
        shared.append((float(rng.uniform(0.5, 3)), frozenset({some[0], some[2], some[3]})))
    elif case == "free":
        own = [0.0 if g in some[: J // 2] else cost for g, cost in enumerate(own)]
        shared = shared[:1]
    elif case == "chain":
        requires = {b: frozenset({a}) for a, b in pairwise(some[:-1])}
    elif case == "overlapping":
        shared = [(float(rng.uniform(0.5, 4)), frozenset(some[k : k + 1 + J // 2])) for k in range(3)]
    elif case == "costly":
        shared.append((50.0, frozenset(some[: J - 2])))
    return Shop(own, shared, requires)
