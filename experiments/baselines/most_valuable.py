"""The groups of the largest sum of values that a budget pays for, by branch and bound."""

from __future__ import annotations

import heapq

import numpy as np

from budgetline.arrays import Float, Mask
from budgetline.bounds.problem import Conditions
from budgetline.bounds.relaxation import Knapsack
from budgetline.budgets import rates_of
from budgetline.groups.prices import Prices
from budgetline.messages import warn

MOST_NODES = 20_000
"""After this many branches the best set found so far is taken; a few hundred are usual for fifty groups."""
SAME = 1e-12
"""Values that differ by less than this share of the sum of all values are equal."""


def most_valuable(values: Float, prices: Prices, budget: float) -> Mask:
    """Return the groups (J,) of the largest sum of values (J,) ≥ 0 that a budget pays for, with all that they require.

    Branch and bound: the branch of the highest bound, which buys groups in part, is split by the group of the highest
    value per cost that is still free. If that takes too many branches, a warning says that the set is not proven.
    """
    limit = SAME * float(values.sum())
    best = _filled(values, Conditions.none(prices), budget)
    most = float(values[best].sum())
    nodes, number = [(-np.inf, 0, Conditions.none(prices))], 0
    while nodes and -nodes[0][0] > most + limit:
        _, _, about = heapq.heappop(nodes)
        fitting = np.flatnonzero(Knapsack(about).fitting(budget))
        if not fitting.size:
            continue
        if (number := number + 1) > MOST_NODES:
            why = f"the best groups for a budget of {budget:g} are not proven: too many sets are nearly as good"
            warn(why, UserWarning)
            break
        g = int(fitting[np.argmax(rates_of(values[fitting], prices.marginal(about.included)[fitting]))])
        for k, branch in enumerate((about.including(g), about.excluding(g))):
            bound = float(Knapsack(branch).most(values, np.array([budget]))[0])
            if bound <= most + limit:
                continue
            heapq.heappush(nodes, (-bound, 2 * number + k, branch))  # no two have the same number
            found = _filled(values, branch, budget)
            if (value := float(values[found].sum())) > most + limit:
                best, most = found, value
    return best


def _filled(values: Float, about: Conditions, budget: float) -> Mask:
    """Return the included groups and, by value per cost, others of value that a budget still pays for."""
    order = np.argsort(-rates_of(values, about.prices.marginal(about.included)), kind="stable").tolist()
    return about.filled(budget, [g for g in order if values[g] > 0])
