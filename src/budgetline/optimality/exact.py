"""best_sequence: the optimal order of up to 18 groups; and the exact frontier, the best set at every budget."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from budgetline.budgets import Demand, Interpolation, affordable, floats_of
from budgetline.messages import shown
from budgetline.optimality.all_subsets import best_order, best_subsets, subset_values
from budgetline.optimality.quadratic import Quadratic
from budgetline.sequencing.sequence import GroupSequence
from budgetline.statistics.moments import Moments
from budgetline.threads import one_blas_thread

Float = NDArray[np.float64]


def best_sequence(
    subject: Any,
    feature_groups: Any = None,
    costs: Any = None,
    *,
    alpha: float | None = None,
    stop: float | None = None,
    budgets: Any = None,
    weights: Any = None,
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
        goes with ``stop``.

    Returns
    -------
    GroupSequence
        Of all groups. Where the budgets leave a choice, as beyond ``stop``, the highest gain per cost comes next. Fit
        the models of its stages with ``AnytimeRegressor(groups, schedule=FixedOrder(best.groups)).fit(X, y)``.

    Examples
    --------
    A sensor and its background, of little use apart, against a proxy that greedy falls for:

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


@dataclass(frozen=True, eq=False)
class Frontier:
    """The best set of groups at every budget: entry k is the best from its cost up to that of entry k + 1.

    Attributes
    ----------
    costs, values : float arrays of shape (K,)
        Both increase; the first entry is the empty set at cost 0. ``values`` are F on the training data.
    groups : tuple of K tuples of str
        Names of the groups, in the order in which they were given.
    null_value : float
        R(∅), the risk without any group.
    """

    costs: Float
    values: Float
    groups: tuple[tuple[str, ...], ...]
    null_value: float

    def at(self, budget: float) -> tuple[float, tuple[str, ...]]:
        """Return F and the groups of the best set that costs no more than ``budget``."""
        if not floats_of(budget) >= 0:
            raise ValueError(f"budget must be ≥ 0, got {shown(budget)}")
        k = int(affordable(self.costs, budget)) - 1
        return float(self.values[k]), self.groups[k]


def exact_frontier(moments: Moments, feature_groups: Any = None, costs: Any = None, *, alpha: float = 1e-5) -> Frontier:
    """Return the best sets of at most 18 groups at every budget; parameters as in :func:`best_sequence`.

    The sets need not contain each other, so no sequence has to reach them all: they bound what any sequence can.

    Examples
    --------
    >>> from budgetline import Moments
    >>> from budgetline.optimality.exact import exact_frontier
    >>> moments = Moments.of([[1, 1], [1, -1], [-1, 1], [-1, -1.0]], [3, 1, -1, -3.0])
    >>> sets = exact_frontier(moments, {"a": [0], "b": [1]}, {"a": 3, "b": 1}, alpha=0)
    >>> sets.costs.tolist(), sets.values.round(6).tolist(), sets.at(3.5)[1]
    ([0.0, 1.0, 3.0, 4.0], [0.0, 0.5, 2.0, 2.5], ('a',))
    """
    problem = Quadratic.of_moments(moments, feature_groups, costs, alpha)
    values = _all_values(problem)
    budgets, subsets = best_subsets(values, problem.prices)
    names = tuple(tuple(name for g, name in enumerate(problem.groups.names) if S >> g & 1) for S in subsets.tolist())
    return Frontier(budgets, values[subsets], names, problem.null_value)


def _sequence(problem: Quadratic, values: Float, order: NDArray[np.intp]) -> GroupSequence:
    names, costs = tuple(problem.groups.names[g] for g in order), problem.prices.steps(order)
    F = values[np.cumsum(np.concatenate([[0], 1 << order]))]
    gains = np.maximum(np.diff(F), 0.0)  # a group reduces F by rounding only
    return GroupSequence(order, names, costs, gains, problem.null_value)


def _all_values(problem: Quadratic) -> Float:
    with one_blas_thread():
        return subset_values(problem.gram, problem.sizes)
