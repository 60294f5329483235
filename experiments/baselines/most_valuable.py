"""The groups of the largest sum of values that a budget pays for, by branch and bound."""

from __future__ import annotations

import heapq

import numpy as np

from budgetline.arrays import Float, Mask
from budgetline.budgets import SLACK, Rates
from budgetline.groups.prices import Prices
from budgetline.messages import warn
from budgetline.optimality.conditions import Conditions
from budgetline.optimality.knapsack import Knapsack

MOST_NODES = 20_000
"""After this many branches the best set found so far is taken; a few hundred are usual for fifty groups."""
SAME = 1e-12
"""Values that differ by less than this share of the sum of all values are equal."""


def most_valuable(values: Float, prices: Prices, budget: float) -> Mask:
    """Return the groups (J,) of the largest sum of values (J,) ≥ 0 that a budget pays for, with all that they require.

    Branch and bound: the branch of the highest bound, which buys groups in part, is split by the group of the highest
    value per cost that is still free. If that takes too many branches, a warning says that the set is not proven.
    """
    about, limit = Conditions.none(prices), SAME * float(values.sum())
    start = _filled(values, prices, about.included, about.excluded, budget)
    best, most = start, float(values[start].sum())
    nodes, number = [(-np.inf, 0, about.included, about.excluded)], 0
    while nodes and -nodes[0][0] > most + limit:
        _, _, included, excluded = heapq.heappop(nodes)
        fitting = np.flatnonzero(Knapsack(prices, included, excluded).fitting(budget))
        if not fitting.size:
            continue
        if (number := number + 1) > MOST_NODES:
            why = f"the best groups for a budget of {budget:g} are not proven: too many sets are nearly as good"
            warn(why, UserWarning)
            break
        g = int(fitting[Rates.of(values[fitting], prices.marginal(included)[fitting]).order()[0]])
        branches = (about.including(g, included, excluded), about.excluding(g, included, excluded))
        for k, branch in enumerate(branches):
            bound = float(Knapsack(prices, *branch).most(values, np.array([budget]))[0])
            if bound <= most + limit:
                continue
            heapq.heappush(nodes, (-bound, 2 * number + k, *branch))  # no two have the same number
            found = _filled(values, prices, *branch, budget)
            if (value := float(values[found].sum())) > most + limit:
                best, most = found, value
    return best


def _filled(values: Float, prices: Prices, included: Mask, excluded: Mask, budget: float) -> Mask:
    """Return the included groups and, by value per cost, others of value that a budget still pays for."""
    chosen = included.copy()
    for g in Rates.of(values, prices.marginal(included)).order().tolist():
        if values[g] > 0 and not chosen[g] and not excluded[g]:
            more = chosen | prices.closure([g])
            if not (more & excluded).any() and prices.cost(more) <= budget * (1 + SLACK):
                chosen = more
    return chosen
