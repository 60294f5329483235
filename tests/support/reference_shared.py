"""The slow truth where costs are shared and groups require others: sets, dictionaries, and costs added up from scratch.

Nothing here shares code with the library. A set of groups is a frozenset; its cost is that of everything it needs. The
greedy order takes ``score(S, A)``, the merit of buying A when S is there, as a function: by least squares, by refitting
a generalised linear model, or of a user's set function.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import reference
import reference_glm

CLOSE = 1e-9  # rates and costs that differ by less than this, relatively, are equal
EQUAL = 1e-13  # rates that differ by more than this may be told apart by others, so that the decision was near


class Shop(NamedTuple):
    """Own costs, shared costs (cost, members), and what each group requires directly."""

    own: Sequence[float]
    shared: Sequence[tuple[float, frozenset[int]]]
    requires: Mapping[int, frozenset[int]]

    def closed(self, groups: Iterable[int]) -> frozenset[int]:
        """Return the groups and everything they require."""
        found: set[int] = set()
        waiting = list(groups)
        while waiting:
            g = waiting.pop()
            if g not in found:
                found.add(g)
                waiting.extend(self.requires.get(g, ()))
        return frozenset(found)

    def cost(self, groups: Iterable[int]) -> float:
        """Return what the groups and everything they require cost together."""
        closed = self.closed(groups)
        return sum(self.own[g] for g in closed) + sum(cost for cost, members in self.shared if members & closed)

    def extra(self, A: Iterable[int], S: frozenset[int]) -> float:
        """Return the cost of A when S is there; what is below rounding is nothing."""
        extra = self.cost(S | frozenset(A)) - self.cost(S)
        return 0.0 if abs(extra) <= 1e-12 * max(1.0, self.cost(S)) else extra


def anything(costs: Mapping[int, float], spent: float) -> set[int]:
    """Allow every group."""
    return set(costs)


def doubling(costs: Mapping[int, float], spent: float) -> set[int]:
    """Allow groups that cost no more than what is spent, or else the cheapest."""
    cheap = {g for g, cost in costs.items() if cost <= spent * (1 + CLOSE)}
    return cheap or {g for g, cost in costs.items() if cost <= min(costs.values()) * (1 + CLOSE)}


class Found(NamedTuple):
    """The order, and by how much, relatively, the closest decision was made."""

    order: list[int]
    margin: float


def _rate(score: float, cost: float, cost_sensitive: bool) -> tuple[bool, float]:
    """Free ones are above all others, but below them if they do harm."""
    if not cost_sensitive:
        return False, score
    if cost == 0:
        return score >= 0, score if score >= 0 else -np.inf
    return False, score / cost


def _near(a: tuple[bool, float], b: tuple[bool, float]) -> bool:
    if np.isinf(a[1]) or np.isinf(b[1]):
        return a == b
    return a[0] == b[0] and abs(a[1] - b[1]) <= CLOSE * max(abs(a[1]), abs(b[1]))


def _best(offers: list[tuple[frozenset[int], float, float]], cost_sensitive: bool) -> tuple[frozenset[int], float]:
    """Return the best of (groups, score, cost), and the relative distance to the next that is not exactly equal."""
    rates = [_rate(score, cost, cost_sensitive) for _, score, cost in offers]
    top = max(rates)
    tied = [k for k, rate in enumerate(rates) if _near(rate, top)]
    lowest = min(offers[k][2] for k in tied)
    winner = next(k for k in tied if offers[k][2] <= lowest * (1 + CLOSE))
    others = [rate[1] for rate in rates if rate[0] == top[0] and rate[1] < top[1] - EQUAL * abs(top[1])]
    margin = 1.0 if not others or top[1] in (0, -np.inf) else (top[1] - max(others)) / abs(top[1])
    return offers[winner][0], margin


def greedy(
    shop: Shop,
    score: Callable[[frozenset[int], frozenset[int]], float],
    *,
    cost_sensitive: bool = True,
    allowed: Callable[[Mapping[int, float], float], set[int]] = anything,
    max_cost: float = np.inf,
    max_groups: int | None = None,
) -> Found:
    """Order the groups: singles with what they require, bundles around hubs, and whole bundles bought at once."""
    J = len(shop.own)
    most = J if max_groups is None else max_groups
    order: list[int] = []
    margin = 1.0
    while len(order) < most:
        S = frozenset(order)
        spent = shop.cost(S)
        single = {g: shop.closed([g]) - S for g in range(J) if g not in S}
        price = {g: shop.extra(A, S) for g, A in single.items()}

        def fits(A, S=S):
            return shop.cost(S | A) <= max_cost * (1 + 1e-12) and len(S | A) <= most

        inside = {g: price[g] for g in single if fits(single[g])}
        if not inside or not (may := allowed(inside, spent)):
            break
        scores = {g: score(S, single[g]) for g in sorted(may)}
        offers = [(single[g], scores[g], price[g]) for g in sorted(may)]
        if cost_sensitive:
            for A, last in bundles(shop, S, single, scores):
                cost = shop.extra(A, S)
                if fits(A) and last in allowed({**inside, last: cost}, spent):
                    offers.append((A, score(S, A), cost))
        bought, near = _best(offers, cost_sensitive)
        margin = min(margin, near)
        while bought:
            S = frozenset(order)
            ready = sorted(g for g in bought if shop.requires.get(g, frozenset()) <= S)
            one = [(frozenset([g]), score(S, frozenset([g])), shop.extra([g], S)) for g in ready]
            first, near = _best(one, cost_sensitive)
            margin = min(margin, near)
            order += first
            bought -= first
    return Found(order, margin)


def bundles(shop, S, single, scores):
    """Yield the nested unions of two or more singles around every hub, each with the group that came last."""
    for cost, members in shop.shared:
        if not members & S:
            needing = [g for g in scores if shop.closed([g]) & members]
            yield from _nested(needing, single, scores, {g: _zero(shop.extra(single[g], S) - cost) for g in needing})
    for h in single:
        needing = [g for g in scores if g != h and h in shop.closed([g])]
        paid = S | shop.closed([h])
        yield from _nested(needing, single, scores, {g: shop.extra([g], paid) for g in needing})


def _zero(cost: float) -> float:
    return 0.0 if abs(cost) < 1e-10 else cost


def _nested(needing, single, scores, costs):
    left, union = list(needing), frozenset()
    while left:
        rates = {g: _rate(scores[g], costs[g], True) for g in left}
        top = max(rates.values())
        g = min(g for g in left if _near(rates[g], top))
        left.remove(g)
        if union and not single[g] <= union:
            yield union | single[g], g
        union |= single[g]


# -- merits --------------------------------------------------------------------------------------------------


def linear_score(X, Y, groups, rule, alpha, weight):
    """Return score(S, A) by least squares: A is one merged group."""
    data = reference.standardise(X, Y, weight)

    def columns(A):
        return [d for g in sorted(A) for d in groups[g]]

    def score(S, A):
        return reference.scores(data.Xs, data.Yc, data.w, [columns(S), columns(A)], [0], rule, alpha)[1]

    def gain(S, A):
        arrays = data.Xs, data.Yc, data.w
        return reference.F(*arrays, columns(S | A), alpha) - reference.F(*arrays, columns(S), alpha)

    return score, gain


def glm_score(family, X, Y, groups, rule, alpha, weight):
    """Return score(S, A) by plain Newton: A is one merged group."""
    phi = reference_glm.FAMILIES[family]
    data = reference.standardise(X, Y, weight)
    Xs, w, targets = data.Xs, data.w / data.w.sum(), data.Yc + data.y_mean

    def columns(A):
        return [d for g in sorted(A) for d in groups[g]]

    def score(S, A):
        merged = [columns(S), columns(A)]
        return reference_glm.scores(phi, Xs, targets, w, merged, [0], rule, alpha, [1])[1]

    def gain(S, A):
        before, after = (reference_glm.fit(phi, Xs, targets, w, columns(T), alpha)[1] for T in (S, S | A))
        return before - after

    return score, gain


# -- instances -----------------------------------------------------------------------------------------------


def random_shop(rng, J, *, free=0.2, most_shared=4):
    """Draw own costs, some of them zero, shared costs that may overlap, and requirements without a circle."""
    own = np.where(rng.random(J) < free, 0.0, rng.uniform(0.1, 3.0, J)).tolist()
    shared = []
    for _ in range(int(rng.integers(0, most_shared))):
        members = rng.choice(J, int(rng.integers(1, J + 1)), replace=False)
        shared.append((float(rng.uniform(0.1, 6.0)), frozenset(members.tolist())))
    rank = rng.permutation(J)  # a group requires only those of lower rank
    requires = {}
    for g in range(J):
        lower = [h for h in range(J) if rank[h] < rank[g]]
        if lower and rng.random() < 0.35:
            chosen = rng.choice(lower, int(rng.integers(1, min(3, len(lower)) + 1)), replace=False)
            requires[g] = frozenset(chosen.tolist())
    return Shop(own, shared, requires)


def arguments(shop):
    """Return costs, shared and requires as FeatureGroups takes them, for groups named "0", "1", …"""
    return {
        "costs": list(shop.own),
        "shared": {f"s{k}": (cost, sorted(members)) for k, (cost, members) in enumerate(shop.shared)},
        "requires": {g: sorted(required) for g, required in shop.requires.items()},
    }


def steps_of(shop, order):
    """Return what each step costs."""
    return [shop.cost(order[: k + 1]) - shop.cost(order[:k]) for k in range(len(order))]
