"""The most value that a budget can buy, if groups could be bought in part: one sort.

Group g is worth v_g. The cost of a set is at least the sum of its groups' *rests* and of the *hubs* that they need:
a shared cost, or the own cost of a group that others require (of several, the dearest; leaving the others out makes
the set look cheaper, so that the value stays an upper bound). A hub opens with the members that together are worth most
per cost; they are one item, and the other members are items of their own. Items are then taken by value per cost.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from budgetline.budgets import SLACK
from budgetline.groups.prices import Mask, Prices

Float = NDArray[np.float64]


class Knapsack:
    """What budgets can buy beside groups that are in, without those that are out.

    Parameters
    ----------
    prices : Prices
    included, excluded : bool arrays of shape (J,)

    Attributes
    ----------
    spent : float
        The cost of what is in.
    free : bool array of shape (J,)
        Groups that are neither in nor out.
    single : float array of shape (J,)
        c(g | included): what each group costs if nothing else is bought.
    rest : float array of shape (J,)
    hub : int array of shape (J,)
        The hub of each group, −1 for none.
    hub_costs : float array of shape (H,)

    Examples
    --------
    >>> import numpy as np
    >>> from budgetline.groups.prices import Prices
    >>> from budgetline.optimality.knapsack import Knapsack
    >>> none = np.zeros(3, dtype=bool)
    >>> knapsack = Knapsack(Prices.of([1.0, 2.0, 4.0]), none, none)
    >>> knapsack.most(np.array([3.0, 4.0, 4.0]), np.array([2.0, 5.0])).round(6).tolist()
    [5.0, 9.0]
    """

    def __init__(self, prices: Prices, included: Mask, excluded: Mask) -> None:
        self.included = included
        self.spent = prices.cost(included)
        self.free = ~(included | excluded)
        self.single = prices.marginal(included)
        self.rest = prices.own.copy()
        self.hub = np.full(prices.own.size, -1)
        found: list[tuple[float, list[int]]] = []
        for item in prices.shared:
            if not included[list(item.members)].any():
                found.append((item.cost, list(item.members)))
        for h in np.flatnonzero(self.free).tolist() if prices.requires else []:
            needing = [g for g, required in enumerate(prices.requires) if h in required]
            if needing:
                found.append((float(prices.own[h]), [h, *needing]))
                self.rest[h] = 0.0
        found.sort(key=lambda hub: hub[0])  # of several the dearest counts
        for k, (_, members) in enumerate(found):
            self.hub[members] = k
        self.hub_costs = np.array([cost for cost, _ in found])

    def most(self, v: Float, budgets: Float) -> Float:
        """Return the most value at every budget, that of the included groups too; −inf where these cost more.

        Parameters
        ----------
        v : array of shape (J,), not negative
        budgets : array of shape (B,)
        """
        left = budgets * (1 + SLACK) - self.spent
        result = np.full(budgets.shape, -np.inf)
        affordable = left >= -SLACK * max(self.spent, 1.0)
        base = float(v[self.included].sum())
        groups = np.flatnonzero(self.free)
        groups = groups[np.argsort(self.single[groups], kind="stable")]
        # Budgets that can pay for the same groups share one sort.
        within = np.searchsorted(self.single[groups], left, side="right")
        for count in np.unique(within[affordable]).tolist():
            here = affordable & (within == count)
            costs, values = self._items(v, groups[:count])
            order = np.argsort(-_rates(values, costs), kind="stable")
            paid = np.concatenate([[0.0], np.cumsum(costs[order])])
            gained = np.concatenate([[0.0], np.cumsum(values[order])])
            start = int(np.searchsorted(paid, 0.0, side="right")) - 1  # what is free
            result[here] = base + np.interp(np.maximum(left[here], 0.0), paid[start:], gained[start:])
        return result

    def _items(self, v: Float, groups: NDArray[np.intp]) -> tuple[Float, Float]:
        """Return costs and values of the items: groups without a hub, openings of hubs, and their other members."""
        if not self.hub_costs.size:
            return self.rest[groups], v[groups]
        hubs = self.hub[groups]
        costs, values = [self.rest[groups[hubs < 0]]], [v[groups[hubs < 0]]]
        for k in np.unique(hubs[hubs >= 0]).tolist():
            members = groups[hubs == k]
            members = members[np.argsort(-_rates(v[members], self.rest[members]), kind="stable")]
            cost = self.hub_costs[k] + np.cumsum(self.rest[members])
            value = np.cumsum(v[members])
            opening = int(np.argmax(_rates(value, cost)))
            costs += [cost[opening : opening + 1], self.rest[members[opening + 1 :]]]
            values += [value[opening : opening + 1], v[members[opening + 1 :]]]
        return np.concatenate(costs), np.concatenate(values)


def _rates(values: Float, costs: Float) -> Float:
    """Return values per cost, infinite for what is free."""
    return np.asarray(np.divide(values, costs, out=np.full(values.shape, np.inf), where=costs > 0))
