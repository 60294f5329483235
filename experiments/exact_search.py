"""Exact search over at most 18 groups: the best of all orders, and the value of the best set at any budget.

A subset of J groups is an integer whose bit g says whether group g is in it; tables have one entry per subset, in this
order. The values F of all 2^J subsets come from one elimination that they share. Each group is either left out or
chosen, and the subsets that agree so far share the work. With M the Schur complement of the columns that are left and r
their gradient, kept together as A = [M | r],

    left out:    A ← A without the rows and columns of g
    chosen:      A ← A without them, minus M_·g M_g⁻¹ [M_g· | r_g],    F ← F + ½ tr(r_g' M_g⁻¹ r_g).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from budgetline import AnytimeRegressor
from budgetline.arrays import Float, Mask, Positions
from budgetline.bounds.problem import Quadratic
from budgetline.budgets import SLACK, Interpolation, affordable, check_interpolation, check_stop, share_of_budgets
from budgetline.groups.prices import Prices
from budgetline.inputs import floats_of
from budgetline.leastsquares.gram import Gram, whiten
from budgetline.messages import shown
from budgetline.model.anytime import as_model
from budgetline.moments.moments import Moments
from budgetline.optimality.set_values import problem_of
from budgetline.sequencing.candidates import TIE, best_group
from budgetline.sequencing.sequence import GroupSequence
from budgetline.threads import one_blas_thread

MOST_GROUPS = 18
"""2^18 subsets take seconds; each additional group doubles the time."""
BATCH_BYTES = 2**22
"""A larger batch is split into halves. About a dozen wait at a time; together they stay below 64 MB."""


@dataclass(frozen=True, eq=False)
class Demand:
    """The distribution of budgets: uniform from 0 to ``stop``, or a sample.

    ``shares[k]`` is the share of the sample that is at least ``budgets[k]``. The mean over budgets of a curve that
    starts at 0 is Σ gain_j h_j, with h_j the share of the budgets that pay for step j (interpolation "step"), or the
    mean of that share over the step (interpolation "linear").
    """

    stop: float
    budgets: Float
    shares: Float
    interpolation: Interpolation = "step"

    @classmethod
    def of(cls, total: float, stop: object, budgets: object, weights: object, interpolation: Interpolation) -> Demand:
        """Check the arguments of a user; ``total`` is the cost of all groups."""
        check_interpolation(interpolation)
        if budgets is None:
            if weights is not None:
                raise ValueError("weights go with budgets")
            return cls(total if stop is None else check_stop(stop), np.empty(0), np.empty(0), interpolation)
        if stop is not None or interpolation != "step":
            raise ValueError("stop and interpolation='linear' are for budgets that are spread evenly, not for a sample")
        sample = np.atleast_1d(floats_of(budgets))
        counts = np.ones(sample.shape) if weights is None else floats_of(weights)
        if sample.ndim != 1 or not sample.size or not np.isfinite(sample).all() or np.any(sample < 0):
            raise ValueError(f"budgets must be finite and not negative, one at least, got {shown(budgets)}")
        if counts.shape != sample.shape or not np.isfinite(counts).all() or np.any(counts < 0) or not counts.sum() > 0:
            raise ValueError("weights must be finite and not negative, one per budget, and not all 0")
        order = np.argsort(sample, kind="stable")
        shares = np.cumsum((counts / counts.sum())[order][::-1])[::-1]
        return cls(float(sample.max()), sample[order], shares)

    def weights(self, before: ArrayLike, after: ArrayLike) -> Float:
        """Return h for steps from one cost to another."""
        a, b = np.asarray(before, dtype=np.float64), np.asarray(after, dtype=np.float64)
        if self.budgets.size:
            return np.append(self.shares, 0.0)[np.searchsorted(self.budgets * (1 + SLACK), b, side="left")]
        return share_of_budgets(a, b, self.stop, self.interpolation)


def best_sequence(
    subject: object,
    feature_groups: object = None,
    costs: object = None,
    *,
    alpha: float | None = None,
    stop: float | None = None,
    budgets: ArrayLike | None = None,
    weights: ArrayLike | None = None,
    interpolation: Interpolation = "step",
) -> GroupSequence:
    """Find the order of at most 18 groups that explains most, on average over the budgets that you expect.

    All 2^J sets of groups are valued and all orders compared by dynamic programming: no other order is better on the
    training data, for squared error. Beyond 18 groups there is no exact search: order them greedily
    (:class:`budgetline.AnytimeRegressor`) and prove with :func:`budgetline.certify` how close that is to optimal. Where
    the budgets leave a choice, as beyond ``stop``, the highest gain per cost comes next. The models of its stages are
    fitted by ``AnytimeRegressor(groups, schedule=FixedOrder(best.groups)).fit(X, y)``.

    Parameters
    ----------
    subject : fitted model of squared error, or Moments
    feature_groups, costs, alpha
        With moments, as in :class:`budgetline.AnytimeRegressor`.
    stop : float, optional
        Budgets are spread evenly up to this; default: the cost of all groups.
    budgets, weights : arrays of shape (K,), optional
        Instead of ``stop``: a sample of the budgets that you expect, and how much each counts.
    interpolation : {"step", "linear"}
        How the curve is read between two stages; "linear" cannot be combined with ``budgets``.

    Examples
    --------
    A sensor and its background, of little use separately, and a proxy that greedy prefers:

    >>> import numpy as np
    >>> from budgetline import AnytimeRegressor, Moments
    >>> from exact_search import best_sequence
    >>> signal, background, noise = np.random.default_rng(0).normal(size=(3, 500))
    >>> X = np.column_stack([signal + 4 * background, background, signal + 1.5 * noise])
    >>> groups = {"sensor": [0], "background": [1], "proxy": [2]}
    >>> AnytimeRegressor(groups).fit(X, signal).sequence_.groups
    ('proxy', 'sensor', 'background')
    >>> best = best_sequence(Moments.from_data(X, signal), groups)
    >>> best.groups, best.explained.round(2).tolist()
    (('sensor', 'background', 'proxy'), [0.07, 1.0, 1.0])
    """
    problem = _problem(subject, feature_groups, costs, alpha)
    demand = Demand.of(problem.prices.total, stop, budgets, weights, interpolation)
    values = subset_values(problem.gram, problem.sizes)
    order = best_order(values, problem.prices, demand)
    F = values[np.cumsum(np.concatenate([[0], 1 << order]))]
    gains = np.maximum(np.diff(F), 0.0)  # a group can reduce F only by rounding
    names = tuple(problem.groups.names[g] for g in order)
    return GroupSequence(order, names, problem.prices.steps(order), gains, problem.gram.null_value)


def _problem(subject: object, feature_groups: object, costs: object, alpha: float | None) -> Quadratic:
    """Return the problem of moments, or of a fitted model, which has its own groups, costs and alpha."""
    if isinstance(subject, Moments):
        subject = AnytimeRegressor(feature_groups, costs, alpha=1e-5 if alpha is None else alpha).fit_moments(subject)
        return problem_of(subject.model_)
    given = {"feature_groups": feature_groups, "costs": costs, "alpha": alpha}
    if wrong := [name for name, value in given.items() if value is not None]:
        raise TypeError(f"{wrong[0]} is for moments; a model has its own")
    model = as_model(subject)
    if not model.squared_error:
        raise ValueError("only squared error can be searched exactly: for other losses every set needs a refit")
    return problem_of(model)


def best_values(
    moments: Moments, feature_groups: object = None, costs: object = None, *, budgets: ArrayLike, alpha: float = 1e-5
) -> Float:
    """Return F of the best set of groups at each budget, from the values of all sets; other parameters as above.

    No sequence has to reach them all, as the best sets need not contain each other.
    """
    problem = _problem(moments, feature_groups, costs, alpha)
    if not np.all(floats_of(budgets) >= 0):
        raise ValueError(f"budgets must not be negative, got {shown(budgets)}")
    complete = complete_subsets(problem.prices)
    total, values = subset_costs(problem.prices)[complete], subset_values(problem.gram, problem.sizes)[complete]
    order = np.argsort(total)
    return np.asarray(np.maximum.accumulate(values[order])[affordable(total[order], budgets) - 1])


def subset_values(gram: Gram, sizes: Positions) -> Float:
    """Return F(S) = ½ tr(b_S' C_S⁻¹ b_S) of every subset S of the groups, shape (2^J,); sizes count their columns.

    Columns that depend on others (λ = 0) add nothing, as with a pseudo-inverse. Like every value from moments, F is
    resolved to about 1e-13 of a column's variance.
    """
    J, ends = sizes.size, np.cumsum(sizes)
    if J > MOST_GROUPS:
        raise ValueError(
            f"an exact search values all 2^{J} sets of {J} groups; it takes at most {MOST_GROUPS} groups. For more, "
            "order them greedily (AnytimeRegressor) and prove with certify how close the order is to optimal"
        )
    turns = np.argsort(-sizes, kind="stable")  # large groups first: levels with many subsets have few columns left
    columns = np.concatenate([np.arange(ends[g] - sizes[g], ends[g]) for g in turns])
    A = np.concatenate([gram.C[np.ix_(columns, columns)], gram.b[columns]], axis=1)
    values = np.empty(2**J)
    waiting = [(0, A[None], np.zeros(1, dtype=np.intp), np.zeros(1))]
    with one_blas_thread():
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

    Returns A of both, (2B, d − size, d − size + P), and the increase of F if they are chosen, (B,).
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


def best_order(values: Float, prices: Prices, demand: Demand) -> Positions:
    """Return the order (J,) with the largest mean of F (2^J,), monotone or not, over the budgets that are expected.

    The mean is a sum over steps, Σ gain_j h_j. Each term depends on the sets S and S ∪ g only, not on how S was
    reached, so

        A(S) = max_g  (F(S ∪ g) − F(S)) h(c(S), c(S ∪ g)) + A(S ∪ g),    A(everything) = 0,

    is solved by dynamic programming over subsets, O(J 2^J), all subsets of one size at a time. Only sets that contain
    all groups that they require are visited. Where several groups lead to the same mean (to 1e-12 of max |F|), as all
    do beyond the largest budget, the one with the highest gain per cost comes first; free groups before others, then
    the cheaper, then the first.
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
