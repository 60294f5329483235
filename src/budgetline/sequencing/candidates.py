"""What may be bought next where costs are shared or groups require others: single groups, and bundles.

A candidate is a set A of groups that with S holds everything it requires. It is scored as if it were one merged group,
and costs c(S ∪ A) − c(S). There are two kinds:

- *singles*: every remaining group, together with the groups that it requires and S lacks;
- *bundles*, so that a cost that many share does not hide how good they are together. For every *hub* — a shared cost
  that no group in S has paid, or a group outside S that others require — the groups that need it are sorted by score
  per cost once the hub is paid, and the unions A_1 ⊂ A_2 ⊂ … of their singles are candidates.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from budgetline.budgets import Rates
from budgetline.groups.prices import Prices

Float = NDArray[np.float64]
Mask = NDArray[np.bool_]

TIE = 1e-12
"""Rates that differ by less than this, relatively, are equal."""


@dataclass(frozen=True)
class Bundle:
    """Unions of singles that share a hub: ``parts[0]`` is the best single, every further part what the next one adds.

    Attributes
    ----------
    parts : list of lists of int
    costs : list of float
        c(S ∪ A_k) − c(S) of the union A_k of the first k + 1 parts.
    last : list of int
        The group whose single ends each part.
    several : list of int
        The k for which A_k is more than the single of its last group.
    """

    parts: list[list[int]]
    costs: list[float]
    last: list[int]
    several: list[int]

    def union(self, k: int) -> list[int]:
        """Return A_k, the groups of the first k + 1 parts."""
        return [g for part in self.parts[: k + 1] for g in part]


def nested_candidates(groups: list[int], singles: dict[int, list[int]]) -> tuple[list[int], list[list[int]]]:
    """Cut the groups of a single where they are those of another one, too.

    Returns
    -------
    ends : list of int
        The groups whose singles are the unions of the first 1, 2, … parts.
    parts : list of lists of int

    Examples
    --------
    >>> from budgetline.sequencing.candidates import nested_candidates
    >>> nested_candidates([3, 5, 8, 9], {8: [3, 5, 8], 9: [3, 5, 8, 9]})
    ([8, 9], [[3, 5, 8], [9]])
    """
    ends: list[int] = []
    parts: list[list[int]] = [[]]
    for k, g in enumerate(groups, 1):
        parts[-1].append(g)
        if singles.get(g) == groups[:k]:
            ends.append(g)
            parts.append([])
    return ends, parts[:-1]


def bundles(prices: Prices, chosen: Mask, allowed: Mask, scores: Float, costs: Float) -> Iterator[Bundle]:
    """Yield one bundle per hub that two or more of the allowed groups need.

    ``scores`` and ``costs`` (J,) are those of their singles.
    """
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


def _ranked(members: NDArray[np.intp], scores: Float, costs: Float) -> list[int]:
    """Sort groups by score per cost, free ones first; of equal ones the lower id comes first. All of shape (m,)."""
    found: list[int] = []
    for free in (True, False):
        here = np.flatnonzero((costs <= 0) == free)
        rates = Rates.of(scores[here], np.ones(here.size) if free else costs[here])
        by_rate = rates.order()
        falling = [rates.key(k) for k in by_rate.tolist()]
        start = 0
        while start < here.size:
            end = start + 1
            while end < here.size and _tied(falling[start], falling[end]):
                end += 1
            found += sorted(members[here[by_rate[start:end]]].tolist())
            start = end
    return found


def _tied(best: tuple[float, float, float], other: tuple[float, float, float]) -> bool:
    """Tell whether a rate is as good as one that is not less."""
    (sign, exponent, mantissa), (other_sign, other_exponent, other_mantissa) = best, other
    if other_sign != sign or exponent - other_exponent > 1:
        return False
    lower = math.ldexp(other_mantissa, int(sign * (other_exponent - exponent)))
    return lower >= mantissa - TIE * abs(mantissa)


def best_group(scores: Float, costs: Float, allowed: Mask, *, cost_sensitive: bool, slack: float = 0.0) -> int:
    """Return the allowed group of the best score per cost; free ones first, ties to the cheaper, then the lower id.

    Costs that differ by no more than ``slack``, relatively, are equal when a tie is decided.
    """
    candidates = np.flatnonzero(allowed)
    if cost_sensitive:
        if np.any(free := costs[candidates] == 0):
            candidates = candidates[free]
            rates = scores[candidates]
        else:
            rates = Rates.of(scores[candidates], costs[candidates]).relative()
    else:
        rates = scores[candidates]
    top = rates.max()
    if np.isnan(top):
        raise ValueError("the objective gave a score that is not a number")
    tied = candidates[rates >= top - TIE * abs(top)] if np.isfinite(top) else candidates[rates == top]
    return int(tied[np.argmax(costs[tied] <= costs[tied].min() * (1 + slack))])
