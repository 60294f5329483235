"""The best sequence and the best sets, exactly, from the values of all 2^J subsets of J ≤ 18 elements.

A subset is an integer whose bit g says whether element g is in it; a *table* holds F of every subset, in this order.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from budgetline.budgets import Reading, check_reading, check_stop
from budgetline.objectives.all_subsets import MOST_GROUPS
from budgetline.sequencing.loop import TIE, best_group

Float = NDArray[np.float64]
Ints = NDArray[np.intp]


def best_order(values: ArrayLike, costs: ArrayLike, stop: float | None = None, reading: Reading = "step") -> Ints:
    """Return the order whose curve of F against cost has the largest area from 0 to ``stop``.

    The area is a sum over steps that depends on the sets S and S ∪ g only, not on how S was reached, so

        A(S) = max_g  area(S → S ∪ g) + A(S ∪ g),    A(everything) = 0,

    is solved by dynamic programming over subsets, O(J 2^J), all subsets of one size at a time.

    Parameters
    ----------
    values : array of shape (2^J,)
        F of every subset, J ≤ 18; need not be monotone.
    costs : array of shape (J,)
        Not negative; a free element is a vertical jump of the curve.
    stop : float or None
        The largest budget that counts; None: the total cost. Beyond the total cost the last value holds, whatever the
        order, so that a larger ``stop`` changes nothing.
    reading : {"step", "linear"}
        Between two stages the curve keeps the value of the earlier one ("step"), or is a straight line ("linear").

    Returns
    -------
    int array of shape (J,)
        Where several elements lead to the same area (to 1e-12 of max |F| · stop), as all do beyond ``stop``, the one of
        the highest gain per cost comes first; free ones before others, then the cheaper, then the first.

    Examples
    --------
    Alone, element 0 has the best gain per cost, 2/1; but 1 and 2 together bring 10 for 2:

    >>> from budgetline.sequencing.exact import best_order
    >>> best_order([0, 2, 0, 2, 0, 2, 10, 12], [1, 1, 1]).tolist()
    [1, 2, 0]
    """
    table, price = _check(values, costs)
    total = subset_costs(price)
    horizon = float(total[-1]) if stop is None else min(check_stop(stop), float(total[-1]))
    check_reading(reading)
    best = _best_areas(table, total, horizon, reading)
    slack = TIE * np.abs(table).max() * horizon
    bits = 1 << np.arange(price.size)
    order: list[int] = []
    S = 0
    while len(order) < price.size:
        T = S | bits
        areas = step_area(table[S], table[T], total[S], total[T], horizon, reading) + best[T]
        tied = (T != S) & (areas >= best[S] - slack)
        order.append(best_group(table[T] - table[S], price, tied, cost_sensitive=True))
        S |= 1 << order[-1]
    return np.array(order, dtype=np.intp)


def _best_areas(table: Float, total: Float, stop: float, reading: Reading) -> Float:
    """Return A(S), the largest area that can be had from S on, for every subset; shapes (2^J,)."""
    best = np.full(table.size, -np.inf)
    best[-1] = 0.0
    everything = np.arange(table.size)
    count = np.bitwise_count(everything)
    for size in range(int(count[-1]) - 1, -1, -1):
        level = everything[count == size]
        for bit in (1 << np.arange(int(count[-1]))).tolist():
            S = level[level & bit == 0]
            T = S | bit
            best[S] = np.maximum(best[S], step_area(table[S], table[T], total[S], total[T], stop, reading) + best[T])
    return best


def step_area(
    value: ArrayLike, next_value: ArrayLike, cost: ArrayLike, next_cost: ArrayLike, stop: float, reading: Reading
) -> Float:
    """Return the area under one step of a curve, from (cost, value) to (next_cost, next_value), left of ``stop``.

    With w = min(next_cost, stop) − min(cost, stop), the area is w · value for the reading "step", and for "linear"
    w · value + ½ w² (next_value − value)/(next_cost − cost). All arguments broadcast.

    Examples
    --------
    >>> from budgetline.sequencing.exact import step_area
    >>> [float(step_area(1.0, 3.0, 0.0, 2.0, stop, reading)) for stop in (1, 9) for reading in ("step", "linear")]
    [1.0, 1.5, 2.0, 4.0]
    """
    before, after = np.asarray(cost, dtype=np.float64), np.asarray(next_cost, dtype=np.float64)
    start = np.asarray(value, dtype=np.float64)
    width = np.minimum(after, stop) - np.minimum(before, stop)
    if reading == "step":
        return np.asarray(width * start)
    rise = np.asarray(next_value, dtype=np.float64) - start
    length = after - before
    share = np.divide(width, length, out=np.zeros(np.broadcast_shapes(width.shape, length.shape)), where=length > 0)
    return np.asarray(width * (start + rise * share / 2))


def best_sets(values: ArrayLike, costs: ArrayLike) -> tuple[Float, Float, Ints]:
    """Return the best subset at every budget: those that are better than all others that cost no more.

    Better means by more than 1e-12 of max |F|, and costs within 1e-12 are equal. Of several sets as good at the same
    cost, the one of the fewest elements counts, then the lowest integer.

    Parameters
    ----------
    values : array of shape (2^J,)
        F of every subset, J ≤ 18.
    costs : array of shape (J,)

    Returns
    -------
    costs, values : arrays of shape (K,)
        Both increase. The empty set at cost 0 is always the first, even where free elements improve on it.
    subsets : int array of shape (K,)

    Examples
    --------
    >>> from budgetline.sequencing.exact import best_sets
    >>> [column.tolist() for column in best_sets([0, 2, 1, 3], [1.0, 2.0])]
    [[0.0, 1.0, 3.0], [0.0, 2.0, 3.0], [0, 1, 3]]
    """
    table, price = _check(values, costs)
    total = subset_costs(price)
    subsets = np.arange(table.size)
    subsets = subsets[np.lexsort((np.bitwise_count(subsets), total))]
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
    >>> from budgetline.sequencing.exact import subset_costs
    >>> subset_costs(np.array([1.0, 2.0])).tolist()
    [0.0, 1.0, 2.0, 3.0]
    """
    total = np.zeros(1)
    for cost in costs:
        total = np.concatenate([total, total + cost])
    return total


def _check(values: ArrayLike, costs: ArrayLike) -> tuple[Float, Float]:
    """Return both as float arrays, after checking that they belong together and that everything is a number."""
    table, price = np.asarray(values, dtype=np.float64), np.asarray(costs, dtype=np.float64)
    if price.ndim != 1 or not 1 <= price.size <= MOST_GROUPS:
        raise ValueError(f"an exact search takes 1 to {MOST_GROUPS} elements, got costs of shape {price.shape}")
    if table.shape != (2**price.size,):
        raise ValueError(f"{price.size} costs need {2**price.size} values, got an array of shape {table.shape}")
    if (bad := np.flatnonzero(~np.isfinite(table))).size:
        raise ValueError(f"the value of subset {bad[0]} is {table[bad[0]]}")
    if (bad := np.flatnonzero(~(np.isfinite(price) & (price >= 0)))).size:
        raise ValueError(f"the cost of element {bad[0]} must be finite and not negative, got {price[bad[0]]}")
    return table, price
