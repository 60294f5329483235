"""Candidates for the next purchase if costs are shared or groups require others: single groups and bundles.

A candidate is a set A of groups whose requirements are in S ∪ A. It is scored as one merged group and costs
c(S ∪ A) − c(S). There are two kinds:

- *singles*: a remaining group with its missing requirements;
- *bundles*: groups that share an unpaid cost, or require the same missing group (the *hub*). One of them may be too
  expensive alone. They are sorted by score per cost once the hub is paid, and the unions A_1 ⊂ A_2 ⊂ … of their singles
  are candidates.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from budgetline.arrays import Float, Mask, Positions
from budgetline.budgets import SLACK, rates_of
from budgetline.groups.prices import Prices

TIE = 1e-12
"""Rates that differ by less than this, relatively, are equal."""


@dataclass(frozen=True)
class Bundle:
    """Unions A_k of singles that share a hub: ``parts[0]`` is the best single, part k holds the groups that A_k adds.

    ``costs[k]`` is c(S ∪ A_k) − c(S), ``last[k]`` the group whose single ends part k. For k in ``several``, A_k is
    larger than that single.
    """

    parts: list[list[int]]
    costs: list[float]
    last: list[int]
    several: list[int]

    def union(self, k: int) -> list[int]:
        """Return A_k, the groups of the first k + 1 parts."""
        return [g for part in self.parts[: k + 1] for g in part]


def nested_candidates(groups: list[int], singles: dict[int, list[int]]) -> tuple[list[int], list[list[int]]]:
    """Split a single where its first groups are a single: return the last group of every part, and the parts."""
    ends: list[int] = []
    parts: list[list[int]] = [[]]
    for k, g in enumerate(groups, 1):
        parts[-1].append(g)
        if singles.get(g) == groups[:k]:
            ends.append(g)
            parts.append([])
    return ends, parts[:-1]


def bundles(prices: Prices, chosen: Mask, allowed: Mask, scores: Float, costs: Float) -> Iterator[Bundle]:
    """Yield one bundle per hub that at least two allowed groups need; scores and costs (J,) are those of singles."""
    for k in prices.unpaid(chosen):
        members = prices.needers[k][allowed[prices.needers[k]]]
        if members.size > 1:
            rest = costs[members] - prices.shared[k].cost
            yield _bundle(prices, chosen, _ranked(members, scores[members], rest))
    for h, others in prices.dependents.items():
        members = others[allowed[others]]
        if not chosen[h] and members.size > 1:
            paid = chosen | prices.closure([h])
            rest = np.array([prices.added(prices.missing(g, paid), paid) for g in members.tolist()])
            yield _bundle(prices, chosen, _ranked(members, scores[members], rest))


def _bundle(prices: Prices, chosen: Mask, ranked: list[int]) -> Bundle:
    reached = chosen.copy()
    found = Bundle([], [], [], [])
    cost, size = 0.0, 0
    for g in ranked:
        if reached[g]:
            continue  # an earlier one requires it
        part = prices.missing(g, reached)
        cost += prices.added(part, reached)
        size += len(part)
        if size > len(prices.missing(g, chosen)):
            found.several.append(len(found.parts))
        reached[part] = True
        found.parts.append(part)
        found.costs.append(cost)
        found.last.append(g)
    return found


def _ranked(members: Positions, scores: Float, costs: Float) -> list[int]:
    """Sort groups by score per cost, free ones first; ties go to the lower id. All of shape (m,)."""
    found: list[int] = []
    left = np.ones(members.size, dtype=bool)
    while left.any():
        tied = _best(scores, costs, left, cost_sensitive=True)
        found += sorted(members[tied].tolist())
        left[tied] = False
    return found


def best_group(scores: Float, costs: Float, allowed: Mask, *, cost_sensitive: bool) -> int:
    """Return the allowed group with the highest score per cost; ties go to the cheaper, then to the lower id.

    Free groups come first, or last if their score is negative.
    """
    tied = _best(scores, costs, allowed, cost_sensitive=cost_sensitive)
    if tied.size == 1:
        return int(tied[0])
    # costs of the same groups may have been summed in another order, hence the slack
    return int(tied[np.argmax(costs[tied] <= costs[tied].min() * (1 + SLACK))])


def _best(scores: Float, costs: Float, allowed: Mask, *, cost_sensitive: bool) -> Positions:
    """Return the allowed groups that tie for the highest score per cost; if some are free, for their highest score."""
    candidates = np.flatnonzero(allowed)
    rates = scores[candidates]
    if cost_sensitive:
        prices = costs[candidates]
        free = (prices <= 0) & ~(rates < 0)
        if free.any():
            candidates, rates = candidates[free], rates[free]
        else:
            rates = rates_of(rates, prices)
    top = float(rates.max())
    if math.isnan(top):
        raise ValueError("the objective returned a score that is not a number")
    tied = rates >= top - TIE * abs(top) if math.isfinite(top) else rates == top
    return np.asarray(candidates[tied])
