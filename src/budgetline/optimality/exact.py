"""Exact search over at most 18 groups: the best of all orders, and the value of the best set at any budget."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from budgetline.arrays import Float, Positions
from budgetline.budgets import Demand, Interpolation, affordable, floats_of
from budgetline.messages import shown
from budgetline.optimality.all_subsets import best_order, complete_subsets, subset_costs, subset_values
from budgetline.optimality.quadratic import Quadratic
from budgetline.sequencing.sequence import GroupSequence
from budgetline.statistics.moments import Moments
from budgetline.threads import one_blas_thread


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
    (:class:`budgetline.AnytimeRegressor`) and prove with :func:`budgetline.certify` how close that is to optimal.

    Parameters
    ----------
    subject : fitted model of squared error, or Moments
    feature_groups, costs
        With moments, as in :class:`budgetline.AnytimeRegressor`.
    alpha : float, optional
        With moments: the ridge constant; default: 1e-5.
    stop : float, optional
        The largest budget that counts; default: the cost of all groups. Budgets are spread evenly up to it.
    budgets, weights : arrays of shape (K,), optional
        Instead of ``stop``: a sample of the budgets that you expect, and how much each counts.
    interpolation : {"step", "linear"}
        How the curve is read between two stages: it keeps the value of the earlier one, or is a straight line; "linear"
        cannot be combined with ``budgets``.

    Returns
    -------
    GroupSequence
        Of all groups. Where the budgets leave a choice, as beyond ``stop``, the highest gain per cost comes next. Fit
        the models of its stages with ``AnytimeRegressor(groups, schedule=FixedOrder(best.groups)).fit(X, y)``.

    Examples
    --------
    A sensor and its background, of little use separately, and a proxy that greedy prefers:

    >>> import numpy as np
    >>> from budgetline import AnytimeRegressor, FixedOrder, Moments, best_sequence
    >>> signal, background, noise = np.random.default_rng(0).normal(size=(3, 500))
    >>> X = np.column_stack([signal + 4 * background, background, signal + 1.5 * noise])
    >>> groups = {"sensor": [0], "background": [1], "proxy": [2]}
    >>> AnytimeRegressor(groups).fit(X, signal).sequence_.groups
    ('proxy', 'sensor', 'background')
    >>> best = best_sequence(Moments.of(X, signal), groups)
    >>> best.groups, best.explained.round(2).tolist()
    (('sensor', 'background', 'proxy'), [0.07, 1.0, 1.0])
    >>> model = AnytimeRegressor(groups, schedule=FixedOrder(best.groups)).fit(X, signal)
    >>> bool(np.allclose(model.sequence_.gains, best.gains))
    True
    """
    problem = Quadratic.of(subject, feature_groups, costs, alpha)
    demand = Demand.of(problem.prices.total, stop, budgets, weights, interpolation)
    values = _all_values(problem)
    return _sequence(problem, values, best_order(values, problem.prices, demand))


def best_values(
    moments: Moments, feature_groups: object = None, costs: object = None, *, budgets: ArrayLike, alpha: float = 1e-5
) -> Float:
    """Return F of the best set of groups at each budget, from the values of all sets; other parameters as above.

    No sequence has to reach them all, as the best sets need not contain each other.

    Examples
    --------
    >>> from budgetline import Moments
    >>> from budgetline.optimality.exact import best_values
    >>> moments = Moments.of([[1, 1], [1, -1], [-1, 1], [-1, -1.0]], [3, 1, -1, -3.0])
    >>> best_values(moments, {"a": [0], "b": [1]}, {"a": 3, "b": 1}, budgets=[0, 1, 3.5, 4], alpha=0).round(6).tolist()
    [0.0, 0.5, 2.0, 2.5]
    """
    problem = Quadratic.of_moments(moments, feature_groups, costs, alpha)
    if not np.all(floats_of(budgets) >= 0):
        raise ValueError(f"budgets must not be negative, got {shown(budgets)}")
    complete = complete_subsets(problem.prices)
    total, values = subset_costs(problem.prices)[complete], _all_values(problem)[complete]
    order = np.argsort(total)
    return np.asarray(np.maximum.accumulate(values[order])[affordable(total[order], budgets) - 1])


def _sequence(problem: Quadratic, values: Float, order: Positions) -> GroupSequence:
    names, costs = tuple(problem.groups.names[g] for g in order), problem.prices.steps(order)
    F = values[np.cumsum(np.concatenate([[0], 1 << order]))]
    gains = np.maximum(np.diff(F), 0.0)  # a group can reduce F only by rounding
    return GroupSequence(order, names, costs, gains, problem.null_value)


def _all_values(problem: Quadratic) -> Float:
    with one_blas_thread():
        return subset_values(problem.gram, problem.sizes)
