"""What known budgets buy, judged on data: the curve of plans, and good sets for many budgets within a short time."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from budgetline.arrays import Float, Mask
from budgetline.budgets import SLACK
from budgetline.evaluation import BudgetCurve, budget_curve
from budgetline.evaluation.budget_curves import curve_of_sets
from budgetline.evaluation.held_out import HeldOut
from budgetline.inputs import check_number
from budgetline.model.anytime import AnytimeModel
from budgetline.model.planned import with_sets
from budgetline.optimality.conditions import Conditions
from budgetline.optimality.gains import estimated_value
from budgetline.optimality.plan import Plan
from budgetline.optimality.planning import conditions_of, problems_of
from budgetline.optimality.quadratic import Quadratic
from budgetline.optimality.search import filled
from budgetline.optimality.sets import SAME_VALUE, SetSearch
from budgetline.threads import one_blas_thread

KNOWN_BUDGET = "a known budget"
"""The label of such curves."""
MOST_PARAMETERS = 2000
"""In larger models one set takes too long for a search of many."""


def plan_curve(
    plans: Iterable[Plan],
    X: object,
    y: object = None,
    *,
    metric: object = "explained",
    sample_weight: object = None,
    qid: object = None,
) -> BudgetCurve:
    """Return what budgets buy on held-out data if they are known in advance.

    Every point is a plan, at its cost. A budget between two points buys what the lower one does. Plans that explain no
    more of the training data, less the correction, than a cheaper one are left out.

    Parameters
    ----------
    plans : Plans of one model
        For several budgets: ``model.plans([10, 20, 50])``.
    X, y, metric, sample_weight, qid
        As in :func:`budget_curve`; ``X`` is the table that the estimator itself takes.

    Examples
    --------
    >>> from budgetline import AnytimeRegressor
    >>> from budgetline.datasets import load_heart
    >>> from budgetline.optimality import plan_curve
    >>> heart = load_heart()
    >>> model = AnytimeRegressor(heart.feature_groups).fit(heart.data[::2], heart.target[::2])
    >>> plans = model.plans([10, 30, 100, 200], time_limit=60)
    >>> known = plan_curve(plans, heart.data[1::2], heart.target[1::2])
    >>> known.costs.round(2).tolist(), known.values.round(2).tolist()
    ([0.0, 4.0, 29.87, 93.3, 197.2], [0.0, 0.31, 0.29, 0.42, 0.45])
    """
    found = tuple(plans)
    for plan in found:
        if not isinstance(plan, Plan):
            raise TypeError(f"plans must be Plans, such as model.plans([10, 20]), not {type(plan).__name__}")
        if plan.model_.layout is not found[0].model_.layout:
            raise ValueError("the plans must be of one model: their groups or columns differ")
    if not found:
        raise ValueError("there are no plans to judge")
    costs, values = np.array([plan.cost for plan in found]), np.array([plan.value for plan in found])
    kept = [found[k] for k in undominated(costs, values)]
    named = tuple(", ".join(plan.groups) for plan in kept)
    judged = with_sets(found[0].model_, [plan.model_.last for plan in kept], named, [plan.cost for plan in kept])
    curve = budget_curve(judged, X, y, metric=metric, sample_weight=sample_weight, qid=qid)
    return replace(curve, label=KNOWN_BUDGET)


@dataclass(frozen=True, eq=False)
class KnownSets:
    """Sets of groups of a model, each worth more than all cheaper ones: masks (K, stages), costs (K,), values (K,).

    The masks are over the steps of the sequence; values are F less the correction, on the training data.
    """

    model: AnytimeModel
    steps: Mask
    costs: Float
    values: Float

    @property
    def groups(self) -> tuple[tuple[str, ...], ...]:
        """The groups of every set, in the order of the sequence."""
        names = np.array(self.model.sequence.groups, dtype=object)
        return tuple(tuple(names[mask].tolist()) for mask in self.steps)

    def curve(
        self, fitted: object, X: object, y: object, metric: object, sample_weight: object = None, qid: object = None
    ) -> BudgetCurve:
        """Return what the sets are worth on data; ``fitted`` is the estimator, or pipeline, that holds the model."""
        named = tuple(", ".join(groups) for groups in self.groups)
        judged = with_sets(self.model, list(self.model.stages.of_patterns(self.steps)), named, self.costs)
        held = HeldOut.of(fitted, X, y, sample_weight, qid)
        return replace(curve_of_sets(judged, held, metric), label=KNOWN_BUDGET)


def known_sets(model: AnytimeModel, budgets: Iterable[float], time_limit: float) -> KnownSets:
    """Return good sets for budgets, and the prefixes of the sequence where no set is better; nothing is proven.

    Two sets are filled up for every budget, in the order of the sequence and by what groups explain alone. Then groups
    are exchanged. When the time is over, the other budgets are left out.
    """
    end = time.monotonic() + check_number("time_limit", time_limit, "number of seconds", ge=0)
    stages, prices, order = model.n_stages, model.groups.prices, model.sequence.order
    masks = np.zeros((stages, len(model.groups)), dtype=bool)
    masks[:, order] = np.tri(stages, dtype=bool)
    if stages and model.stages.columns.size * model.n_targets <= MOST_PARAMETERS:
        amounts = sorted(budgets)
        with one_blas_thread():
            for k, amount in enumerate(amounts):
                if (left := end - time.monotonic()) > 0:
                    deadline = time.monotonic() + left / (len(amounts) - k)
                    masks = np.vstack([masks, *_good_sets(model, amount, deadline)])
    masks = np.unique(masks[masks.any(axis=1)], axis=0)
    costs = np.array([prices.cost(mask) for mask in masks])
    values = _values(model, masks)
    kept = undominated(costs, values)
    return KnownSets(model, masks[kept][:, order], costs[kept], values[kept])


def undominated(costs: Float, values: Float) -> list[int]:
    """Return the positions of sets that are worth more than all that cost no more, by cost; rounding does not count."""
    kept, rounding = list[int](), SAME_VALUE * np.abs(values).max(initial=0.0)
    for k in np.lexsort((-values, costs)).tolist():
        if not kept or values[k] > values[kept[-1]] + rounding:
            kept.append(k)
    return kept


def _good_sets(model: AnytimeModel, budget: float, deadline: float) -> list[Mask]:
    """Return good sets (J,) for a budget, one or two for each problem."""
    about = conditions_of(model)
    if about.prices.cost(about.included) > budget * (1 + SLACK):
        return []
    found, problems = list[Mask](), problems_of(model, budget)
    for k, problem in enumerate(problems):
        search, starts = SetSearch(problem, about, budget), []
        for order in (model.sequence.order.tolist(), _best_alone_first(problem)):
            chosen = filled(about, about.included, about.excluded, budget, order)
            starts.append(_best_prefix(problem, chosen, about, order))
        if problem.penalties is not None or np.array_equal(starts[0], starts[1]):
            starts = [max(starts, key=problem.value)]  # with penalties many exchanges are possible: one start must do
        for left, start in zip((2, 1), starts, strict=False):
            share = (deadline - time.monotonic()) / left / (len(problems) - k)
            found.append(search.exchanged(start, time.monotonic() + share))
    return found


def _values(model: AnytimeModel, masks: Mask) -> Float:
    """Return F of sets (K, J) less their correction; an estimate where the loss is not squared error."""
    if model.squared_error:
        (problem,) = problems_of(model, 0.0)
        return np.array([problem.value(mask) for mask in masks])
    lost = np.zeros(len(masks)) if model.penalties is None else masks @ model.penalties
    return np.array([estimated_value(model, mask[model.sequence.order]) for mask in masks]) - lost


def _best_prefix(problem: Quadratic, chosen: Mask, about: Conditions, order: list[int]) -> Mask:
    """Return the groups of a set up to where more of them, in an order, are worth less than their correction."""
    if problem.penalties is None:
        return chosen
    own = [g for g in order if chosen[g]]
    last = int(np.argmax(np.append(0.0, problem.prefix_values(own))))
    return about.included | problem.prices.closure(own[:last])


def _best_alone_first(problem: Quadratic) -> list[int]:
    """Return the groups by their value alone, the largest first."""
    each = np.eye(problem.sizes.size, dtype=bool)
    found: list[int] = np.argsort([-problem.value(mask) for mask in each], kind="stable").tolist()
    return found
