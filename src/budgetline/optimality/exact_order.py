"""The best sequence and the best sets, exactly, from the values of all 2^J subsets of J ≤ 18 elements.

A subset is an integer whose bit g says whether element g is in it; a *table* holds F of every subset, in this order.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from budgetline.budgets import Demand
from budgetline.groups.prices import Prices
from budgetline.optimality.all_subsets import MOST_GROUPS
from budgetline.sequencing.candidates import TIE, best_group

Float = NDArray[np.float64]
Ints = NDArray[np.intp]


def best_order(values: ArrayLike, costs: ArrayLike | Prices, demand: Demand | None = None) -> Ints:
    """Return the order with the largest mean of F over the budgets that there will be.

    The mean is a sum over steps, Σ gain_j h_j, of which each depends on the sets S and S ∪ g only, not on how S was
    reached, so

        A(S) = max_g  (F(S ∪ g) − F(S)) h(c(S), c(S ∪ g)) + A(S ∪ g),    A(everything) = 0,

    is solved by dynamic programming over subsets, O(J 2^J), all subsets of one size at a time. Where elements require
    others, only sets that hold what they require are passed through.

    Parameters
    ----------
    values : array of shape (2^J,)
        F of every subset, J ≤ 18; need not be monotone.
    costs : array of shape (J,) or Prices
        Not negative; a free element is a vertical jump of the curve.
    demand : Demand, optional
        Which budgets count, and how the curve is read; default: all up to the total cost, as steps.

    Returns
    -------
    int array of shape (J,)
        Where several elements lead to the same mean (to 1e-12 of max |F|), as all do beyond the largest budget, the one
        of the highest gain per cost comes first; free ones before others, then the cheaper, then the first.

    Examples
    --------
    Alone, element 0 has the best gain per cost, 2/1; but 1 and 2 together bring 10 for 2:

    >>> from budgetline.optimality.exact_order import best_order
    >>> best_order([0, 2, 0, 2, 0, 2, 10, 12], [1, 1, 1]).tolist()
    [1, 2, 0]
    """
    table, prices = _check(values, costs)
    total = price_table(prices)
    wanted = Demand.of(float(total[-1]), None, None, None, "step") if demand is None else demand
    best = _best_means(table, total, wanted, complete_subsets(prices))
    slack = TIE * np.abs(table).max()
    bits = 1 << np.arange(prices.own.size)
    order: list[int] = []
    S = 0
    while len(order) < prices.own.size:
        T = S | bits
        means = (table[T] - table[S]) * wanted.weights(total[S], total[T]) + best[T]
        tied = (T != S) & (means >= best[S] - slack)
        price = prices.own if prices.additive else prices.marginal(T == S)
        order.append(best_group(table[T] - table[S], price, tied, cost_sensitive=True))
        S |= 1 << order[-1]
    return np.array(order, dtype=np.intp)


def _best_means(table: Float, total: Float, demand: Demand, complete: NDArray[np.bool_]) -> Float:
    """Return A(S), the most that can be had from S on, for every subset; −∞ if it is not complete."""
    best = np.full(table.size, -np.inf)
    best[-1] = 0.0
    everything = np.arange(table.size)
    count = np.bitwise_count(everything)
    for size in range(int(count[-1]) - 1, -1, -1):
        level = everything[count == size]
        for bit in (1 << np.arange(int(count[-1]))).tolist():
            S = level[level & bit == 0]
            T = S | bit
            gained = (table[T] - table[S]) * demand.weights(total[S], total[T])
            best[S] = np.maximum(best[S], gained + best[T])
        best[level[~complete[level]]] = -np.inf
    return best


def sets_by_cost(values: ArrayLike, costs: ArrayLike | Prices) -> tuple[Float, Float, Ints]:
    """Return the best subset at every budget: those that are better than all others that cost no more.

    Better means by more than 1e-12 of max |F|, and costs within 1e-12 are equal. Of several sets as good at the same
    cost, the one of the fewest elements counts, then the lowest integer. Only sets that hold what they require count.

    Parameters
    ----------
    values : array of shape (2^J,)
        F of every subset, J ≤ 18.
    costs : array of shape (J,) or Prices

    Returns
    -------
    costs, values : arrays of shape (K,)
        Both increase. The empty set at cost 0 is always the first, even where free elements improve on it.
    subsets : int array of shape (K,)

    Examples
    --------
    >>> from budgetline.optimality.exact_order import best_sets
    >>> [column.tolist() for column in best_sets([0, 2, 1, 3], [1.0, 2.0])]
    [[0.0, 1.0, 3.0], [0.0, 2.0, 3.0], [0, 1, 3]]
    """
    table, prices = _check(values, costs)
    total = price_table(prices)
    subsets = np.flatnonzero(complete_subsets(prices))
    subsets = subsets[np.lexsort((np.bitwise_count(subsets), total[subsets]))]
    F = table[subsets]
    # 1. those above everything before them; 2. by more than rounding; 3. the last of those that cost the same
    subsets = subsets[np.maximum.accumulate(np.concatenate([[-np.inf], F[:-1]])) < F]
    slack = TIE * np.abs(table).max()
    kept = [0]
    for S in subsets.tolist():
        if table[S] > table[kept[-1]] + slack:
            kept.append(S)
    subsets = np.array(kept, dtype=np.intp)
    dearer = np.append(total[subsets[1:]] > total[subsets[:-1]] * (1 + TIE), True)
    dearer[0] = True
    subsets = subsets[dearer]
    return total[subsets], table[subsets], subsets


def subset_costs(costs: Float) -> Float:
    """Return the cost of every subset, shape (2^J,), from those of the elements, shape (J,).

    Examples
    --------
    >>> import numpy as np
    >>> from budgetline.optimality.exact_order import subset_costs
    >>> subset_costs(np.array([1.0, 2.0])).tolist()
    [0.0, 1.0, 2.0, 3.0]
    """
    total = np.zeros(1)
    for cost in costs:
        total = np.concatenate([total, total + cost])
    return total


def price_table(prices: Prices) -> Float:
    """Return the cost of every subset, shape (2^J,); of use for those that hold what they require.

    Examples
    --------
    >>> import numpy as np
    >>> from budgetline.groups.prices import Prices, SharedCost
    >>> from budgetline.optimality.exact_order import price_table
    >>> price_table(Prices(np.array([1.0, 2.0]), (SharedCost("draw", 5.0, (0, 1)),))).tolist()
    [0.0, 6.0, 7.0, 8.0]
    """
    total = subset_costs(prices.own)
    subsets = np.arange(total.size)
    for item in prices.shared:
        total[subsets & sum(1 << g for g in item.members) != 0] += item.cost
    return total


def complete_subsets(prices: Prices) -> NDArray[np.bool_]:
    """Return which subsets hold what they require, shape (2^J,).

    Examples
    --------
    >>> import numpy as np
    >>> from budgetline.groups.prices import Prices
    >>> from budgetline.optimality.exact_order import complete_subsets
    >>> complete_subsets(Prices(np.array([1.0, 2.0]), (), ((), (0,)))).tolist()
    [True, True, False, True]
    """
    subsets = np.arange(2**prices.own.size)
    complete = np.ones(subsets.size, dtype=bool)
    for g, required in enumerate(prices.requires):
        needed = sum(1 << h for h in required)
        complete &= (subsets & (1 << g) == 0) | (subsets & needed == needed)
    return complete


def _check(values: ArrayLike, costs: ArrayLike | Prices) -> tuple[Float, Prices]:
    """Return F as an array and the prices, after checking that they belong together and that all are numbers."""
    prices = costs if isinstance(costs, Prices) else Prices.of(costs)
    table, price = np.asarray(values, dtype=np.float64), prices.own
    if price.ndim != 1 or not 1 <= price.size <= MOST_GROUPS:
        raise ValueError(f"an exact search takes 1 to {MOST_GROUPS} elements, got costs of shape {price.shape}")
    if table.shape != (2**price.size,):
        raise ValueError(f"{price.size} costs need {2**price.size} values, got an array of shape {table.shape}")
    if (bad := np.flatnonzero(~np.isfinite(table))).size:
        raise ValueError(f"the value of subset {bad[0]} is {table[bad[0]]}")
    if (bad := np.flatnonzero(~(np.isfinite(price) & (price >= 0)))).size:
        raise ValueError(f"the cost of element {bad[0]} must be finite and not negative, got {price[bad[0]]}")
    return table, prices
