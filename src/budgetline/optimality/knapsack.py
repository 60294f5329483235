"""The value of the groups that a budget buys if groups may be bought in part: an upper bound, from one sort."""

from __future__ import annotations

import numpy as np

from budgetline.arrays import Float, Mask, Positions
from budgetline.budgets import SLACK, Rates
from budgetline.groups.prices import Prices


class Knapsack:
    """The largest value of the groups that budgets can buy, given groups that are included and excluded.

    Group g is worth v_g and may be bought in part. The cost of a set is at least the sum of its groups' *rests* and of
    the *hubs* that they need: a shared cost, or the own cost of a group that others require (of several, the most
    expensive; leaving the others out makes the set look cheaper, so that the value stays an upper bound). A hub opens
    with the members that together have the highest value per cost, as one item; the other members are items of their
    own. Items are then taken by value per cost: one sort.

    ``spent`` is the cost of the included groups; ``free`` (J,) marks those that are neither; ``single`` (J,) is
    c(g | included), what a group costs if nothing else is bought; ``hub`` (J,) is the hub of each group, −1 for none.
    """

    def __init__(self, prices: Prices, included: Mask, excluded: Mask) -> None:
        self.included, self.free = included, ~(included | excluded)
        self.spent, self.single = prices.cost(included), prices.marginal(included)
        self.rest, self.hub = prices.own.copy(), np.full(prices.own.size, -1)
        found = [(s.cost, list(s.members)) for s in prices.shared if not included[list(s.members)].any()]
        for h, needing in prices.dependents.items():
            if self.free[h]:
                found.append((float(prices.own[h]), [h, *needing.tolist()]))
                self.rest[h] = 0.0
        found.sort(key=lambda hub: hub[0])  # the most expensive one counts
        for k, (_, members) in enumerate(found):
            self.hub[members] = k
        self.hub_costs = np.array([cost for cost, _ in found])

    def left(self, budgets: Float) -> Float:
        """Return the part of each budget that is left for the free groups."""
        return np.asarray(budgets * (1 + SLACK) - self.spent)

    def fitting(self, budget: float) -> Mask:
        """Return the free groups that a budget can pay for, each on its own, shape (J,)."""
        return np.asarray(self.free & (self.single <= self.left(np.array([budget]))[0]))

    def most(self, v: Float, budgets: Float) -> Float:
        """Return the largest value at every budget (B,), for v (J,); −inf if the included groups cost more.

        Free groups of negative value are not bought, also if others require them: that only raises the value.
        """
        left = self.left(budgets)
        result = np.full(budgets.shape, -np.inf)
        affordable = left >= -SLACK * budgets
        base, v = float(v[self.included].sum()), np.maximum(v, 0.0)
        groups = np.flatnonzero(self.free)
        groups = groups[np.argsort(self.single[groups], kind="stable")]
        # Budgets that can pay for the same groups share one sort.
        within = np.searchsorted(self.single[groups], left, side="right")
        for count in np.unique(within[affordable]).tolist():
            here = affordable & (within == count)
            costs, values = self._items(v, groups[:count])
            order = Rates.of(values, costs).order()
            result[here] = base + _bought(costs[order], values[order], np.maximum(left[here], 0.0))
        return result

    def _items(self, v: Float, groups: Positions) -> tuple[Float, Float]:
        """Return costs and values of the items: groups without a hub, openings of hubs, and their other members."""
        if not self.hub_costs.size:
            return self.rest[groups], v[groups]
        hubs = self.hub[groups]
        costs, values = [self.rest[groups[hubs < 0]]], [v[groups[hubs < 0]]]
        for k in np.unique(hubs[hubs >= 0]).tolist():
            members = groups[hubs == k]
            members = members[Rates.of(v[members], self.rest[members]).order()]
            cost, value = self.hub_costs[k] + np.cumsum(self.rest[members]), np.cumsum(v[members])
            opening = int(Rates.of(value, cost).order()[0])
            costs += [cost[opening : opening + 1], self.rest[members[opening + 1 :]]]
            values += [value[opening : opening + 1], v[members[opening + 1 :]]]
        return np.concatenate(costs), np.concatenate(values)


def _bought(costs: Float, values: Float, left: Float) -> Float:
    """Return the value of the items that each budget buys, one after another, the last of them in part."""
    paid = np.concatenate([[0.0], np.cumsum(costs)])
    gained = np.concatenate([[0.0], np.cumsum(values)])
    k = np.searchsorted(paid, left, side="right") - 1
    # a share is at most 1; a value per cost may overflow a float
    following, cost = np.append(values, 0.0)[k], np.append(costs, 0.0)[k]
    share = np.divide(left - paid[k], cost, out=np.zeros(k.shape), where=cost > 0)
    return np.asarray(gained[k] + np.minimum(share, 1.0) * following)
