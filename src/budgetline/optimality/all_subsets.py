"""Values and costs of all 2^J subsets of J ≤ 18 groups, and the best of all orders.

A subset is an integer whose bit g says whether group g is in it; tables have one entry per subset, in this order.

The values F come from one elimination that all subsets share. Each group is either left out or chosen, and the subsets
that agree so far share the work. With M the Schur complement of the columns that are left and r their gradient, kept
together as A = [M | r],

    left out:    A ← A without the rows and columns of g
    chosen:      A ← A without them, minus M_·g M_g⁻¹ [M_g· | r_g],    F ← F + ½ tr(r_g' M_g⁻¹ r_g).

Large groups go first, so that the levels with many subsets have few columns left.
"""

from __future__ import annotations

import numpy as np

from budgetline.arrays import Float, Mask, Positions
from budgetline.budgets import Demand
from budgetline.groups.prices import Prices
from budgetline.objectives.blocks import whiten
from budgetline.objectives.gram import Gram
from budgetline.sequencing.candidates import TIE, best_group

Ints = Positions

MOST_GROUPS = 18
"""2^18 subsets take seconds; each additional group doubles the time."""
BATCH_BYTES = 2**22
"""A larger batch is split into halves. About a dozen wait at a time; together they stay below 64 MB."""


def subset_values(gram: Gram, sizes: Ints) -> Float:
    """Return F(S) = ½ tr(b_S' C_S⁻¹ b_S) of every subset S of the groups, shape (2^J,).

    Columns that depend on others (λ = 0) add nothing, as with a pseudo-inverse. Like every value from moments, F is
    resolved to about 1e-13 of a column's variance.

    Parameters
    ----------
    gram : Gram
        Columns group after group.
    sizes : int array of shape (J,)
        Number of columns of each group.

    Examples
    --------
    >>> import numpy as np
    >>> from budgetline.optimality.all_subsets import subset_values
    >>> from budgetline.objectives.gram import Gram
    >>> gram = Gram(np.array([[1.0, 0.5], [0.5, 1.0]]), np.array([[1.0], [0.0]]), np.array([2.0]))
    >>> subset_values(gram, np.array([1, 1])).round(4).tolist()
    [0.0, 0.5, 0.0, 0.6667]
    """
    J, ends = sizes.size, np.cumsum(sizes)
    if J > MOST_GROUPS:
        raise ValueError(
            f"an exact search values all 2^{J} sets of {J} groups; it takes at most {MOST_GROUPS} groups. For more, "
            "order them greedily (AnytimeRegressor) and prove with certify how close the order is to optimal"
        )
    turns = np.argsort(-sizes, kind="stable")
    columns = np.concatenate([np.arange(ends[g] - sizes[g], ends[g]) for g in turns])
    A = np.concatenate([gram.C[np.ix_(columns, columns)], gram.b[columns]], axis=1)
    values = np.empty(2**J)
    waiting = [(0, A[None], np.zeros(1, dtype=np.intp), np.zeros(1))]
    while waiting:
        level, A, subsets, F = waiting.pop()
        if level == J:
            values[subsets] = F
            continue
        g = turns[level]
        A, gain = _eliminate(A, int(sizes[g]))
        subsets, F = np.concatenate([subsets, subsets | (1 << g)]), np.concatenate([F, F + gain])
        whole = A.nbytes <= BATCH_BYTES
        for part in [slice(None)] if whole else [slice(len(A) // 2, None), slice(len(A) // 2)]:
            waiting.append((level + 1, A[part], subsets[part], F[part]))
    return values


def _eliminate(A: Float, size: int) -> tuple[Float, Float]:
    """Leave out, and choose, the first ``size`` columns of A = [M | r] of B subsets, shape (B, d, d + P).

    Returns A without them, left out and then chosen, shape (2B, d − size, d − size + P), and the increase of F if
    they are chosen, shape (B,).
    """
    B, d = A.shape[:2]
    left = d - size
    rows = whiten(A[:, :size, :size], A[:, :size, size:])
    gain = (rows[:, :, left:] ** 2).sum(axis=(1, 2)) / 2
    both = np.empty((2 * B, left, A.shape[2] - size))
    both[:B] = A[:, size:, size:]
    np.matmul(rows[:, :, :left].transpose(0, 2, 1), rows, out=both[B:])
    np.subtract(both[:B], both[B:], out=both[B:])
    return both, gain


def subset_costs(prices: Prices) -> Float:
    """Return the cost of every subset, shape (2^J,), without required groups that it lacks."""
    total = np.zeros(1)
    for cost in prices.own:
        total = np.concatenate([total, total + cost])
    for item in prices.shared:
        total[np.arange(total.size) & sum(1 << g for g in item.members) != 0] += item.cost
    return total


def complete_subsets(prices: Prices) -> Mask:
    """Return which subsets contain all groups that they require, shape (2^J,)."""
    subsets = np.arange(2**prices.own.size)
    complete = np.ones(subsets.size, dtype=bool)
    for g, required in enumerate(prices.requires):
        needed = sum(1 << h for h in required)
        complete &= (subsets & (1 << g) == 0) | (subsets & needed == needed)
    return complete


def best_order(values: Float, prices: Prices, demand: Demand) -> Ints:
    """Return the order (J,) with the largest mean of F over the budgets that are expected.

    The mean is a sum over steps, Σ gain_j h_j. Each term depends on the sets S and S ∪ g only, not on how S was
    reached, so

        A(S) = max_g  (F(S ∪ g) − F(S)) h(c(S), c(S ∪ g)) + A(S ∪ g),    A(everything) = 0,

    is solved by dynamic programming over subsets, O(J 2^J), all subsets of one size at a time. Only sets that contain
    all groups that they require are visited.

    Where several groups lead to the same mean (to 1e-12 of max |F|), as all do beyond the largest budget, the one with
    the highest gain per cost comes first; free groups before others, then the cheaper, then the first.

    Parameters
    ----------
    values : array of shape (2^J,)
        F of every subset; it need not be monotone.
    prices : Prices
    demand : Demand
        The expected budgets, and how the curve is interpolated.

    Examples
    --------
    Alone, group 0 has the best gain per cost, 2/1; but 1 and 2 together bring 10 for 2:

    >>> import numpy as np
    >>> from budgetline.budgets import Demand
    >>> from budgetline.groups.prices import Prices
    >>> from budgetline.optimality.all_subsets import best_order
    >>> evenly = Demand.of(3.0, None, None, None, "step")
    >>> best_order(np.array([0, 2, 0, 2, 0, 2, 10, 12.0]), Prices.of([1, 1, 1]), evenly).tolist()
    [1, 2, 0]
    """
    total = subset_costs(prices)
    best = _best_means(values, total, demand, complete_subsets(prices))
    slack = TIE * np.abs(values).max()
    bits = 1 << np.arange(prices.own.size)
    order: list[int] = []
    S = 0
    while len(order) < prices.own.size:
        T = S | bits
        means = (values[T] - values[S]) * demand.weights(total[S], total[T]) + best[T]
        tied = (T != S) & (means >= best[S] - slack)
        price = prices.own if prices.additive else prices.marginal(T == S)
        order.append(best_group(values[T] - values[S], price, tied, cost_sensitive=True))
        S |= 1 << order[-1]
    return np.array(order, dtype=np.intp)


def _best_means(values: Float, total: Float, demand: Demand, complete: Mask) -> Float:
    """Return A(S), the largest sum of gains from S on, for every subset; −∞ if S lacks a required group."""
    best = np.full(values.size, -np.inf)
    best[-1] = 0.0
    everything = np.arange(values.size)
    count = np.bitwise_count(everything)
    for size in range(int(count[-1]) - 1, -1, -1):
        level = everything[count == size]
        for bit in (1 << np.arange(int(count[-1]))).tolist():
            S = level[level & bit == 0]
            T = S | bit
            gained = (values[T] - values[S]) * demand.weights(total[S], total[T])
            best[S] = np.maximum(best[S], gained + best[T])
        best[level[~complete[level]]] = -np.inf
    return best
