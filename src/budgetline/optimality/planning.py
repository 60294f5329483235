"""From a fitted model and budgets to plans.

For squared error a plan is the best set of the quadratic problem that the moments, or the factor of the model, hold.
For other losses there is such a problem around every stage. With θ* the stage, g and H the derivatives of the risk of
the population that the model keeps, and t = Hθ* − g, the risk is about t'θ − ½θ'Hθ below a constant; without the
intercepts 0, which every set has,

    C = H_xx − H_x0 H_00⁻¹ H_0x,    b = t_x − H_x0 H_00⁻¹ t_0.

The problems of up to three stages are searched: the first, the last one that the budget buys, and the last. Together
with the sequence itself, filled up, they give a few candidates; the best of them is the plan.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial

import numpy as np

from budgetline.arrays import Float, Mask
from budgetline.inputs import check_number
from budgetline.messages import shown
from budgetline.model.anytime import AnytimeModel
from budgetline.model.planned import known_columns, planned_approximately, planned_from_gram
from budgetline.model.subsets import GeneralisedSubset, LinearSubset
from budgetline.objectives.gram import Gram
from budgetline.optimality.conditions import Conditions
from budgetline.optimality.gains import estimated_value
from budgetline.optimality.plan import Plan
from budgetline.optimality.quadratic import Quadratic, design_groups, sizes_of
from budgetline.optimality.search import filled
from budgetline.optimality.sets import best_sets
from budgetline.progress import Progress

Refit = Callable[[tuple[str, ...]], AnytimeModel]
"""Fits the models of groups in this order, on data."""


def plans_of(
    model: AnytimeModel,
    budgets: Iterable[object],
    conditions: Conditions,
    *,
    time_limit: float,
    progress: Progress,
    refit: Refit | None,
) -> tuple[Plan, ...]:
    """Return the plan for every budget; they share the time."""
    limit = check_number("time_limit", time_limit, "number of seconds", ge=0)
    amounts = [check_number("budget", budget, ge=0, finite=True) for budget in budgets]
    make = _exact_plans if model.squared_error else _approximate_plans
    return make(model, amounts, conditions, limit, progress, refit)


def conditions_of(model: AnytimeModel) -> Conditions:
    """Return the conditions that sets of a model meet: groups that are always bought, none after the sequence's end."""
    always = model.settings.get("start", ())
    return _known(model, Conditions.of(model.groups, (), (), (), always))


def problems_of(model: AnytimeModel, budget: float) -> list[Quadratic]:
    """Return the problems to search for sets within a budget, from what the stages of a model hold."""
    subset = model.stages.subset
    if isinstance(subset, LinearSubset):
        problems = [_of_stages(model, subset.U.T @ subset.U, subset.U.T @ subset.z, 1)]
    else:
        problems = [_around(model, subset, stage) for stage in sorted(_searches(model, [budget]))[-2:]]
    return [replace(problem, penalties=model.penalties) for problem in problems]


def _exact_plans(
    model: AnytimeModel,
    budgets: list[float],
    conditions: Conditions,
    time_limit: float,
    progress: Progress,
    refit: Refit | None,
) -> tuple[Plan, ...]:
    """Return the plans of a model of squared error."""
    if model.moments is not None:
        problem = Quadratic.of_model(model)
    else:
        subset = model.stages.subset
        assert isinstance(subset, LinearSubset)
        problem = _of_stages(model, subset.U.T @ subset.U, subset.U.T @ subset.z, 1)
        conditions = _known(model, conditions)
    problem = replace(problem, penalties=model.penalties)
    plans, unit = [], problem.gram.null_value or 1.0
    for found in best_sets(problem, conditions, budgets, time_limit, progress):
        order = found.certificate.order.tolist()
        own = planned_from_gram(model, problem.gram, order) if refit is None else refit(found.groups)
        explained = found.explained if refit is None else _explained(own)
        shares = explained, found.value / unit, found.bound / unit
        plans.append(Plan(found.groups, found.cost, *shares, found.optimal, found.certificate, True, own))
    return tuple(plans)


def _approximate_plans(
    model: AnytimeModel,
    budgets: list[float],
    conditions: Conditions,
    time_limit: float,
    progress: Progress,
    refit: Refit | None,
) -> tuple[Plan, ...]:
    """Return the plans of a model of another loss: the best of a few candidates each."""
    about, subset = _known(model, conditions), model.stages.subset
    assert isinstance(subset, GeneralisedSubset)
    searches = _searches(model, budgets)
    share = time_limit / max(1, sum(map(len, searches.values())))
    candidates: list[list[Mask]] = [
        [filled(about, about.included, about.excluded, budget, model.sequence.order.tolist())] for budget in budgets
    ]
    for stage, asked in searches.items():
        problem = replace(_around(model, subset, stage), penalties=model.penalties)
        found = best_sets(problem, about, [budgets[k] for k in asked], share * len(asked), progress)
        for k, each in zip(asked, found, strict=True):
            candidates[k].append(np.isin(model.groups.names, each.groups))
    plans = []
    for several in candidates:
        different = {each.tobytes(): each for each in several}.values()
        plans.append(max((_plan(model, about, each, refit) for each in different), key=lambda plan: plan.value))
    return tuple(plans)


def _plan(model: AnytimeModel, about: Conditions, chosen: Mask, refit: Refit | None) -> Plan:
    """Return the plan of a set, fitted if there are data."""
    steps = chosen[model.sequence.order]
    groups = tuple(np.array(model.sequence.groups, dtype=object)[steps].tolist())
    own = refit(groups) if refit is not None else planned_approximately(model, steps, partial(estimated_value, model))
    explained = _explained(own)
    lost = 0.0 if model.penalties is None else float(model.penalties[chosen].sum()) / (own.sequence.null_value or 1.0)
    exact = refit is not None or bool(steps[: len(groups)].all())  # prefixes of the sequence have been fitted
    cost = about.prices.cost(chosen)
    return Plan(groups, cost, explained, explained - lost, None, False, None, exact, own)


def _explained(model: AnytimeModel) -> float:
    """Return F/R(∅) of all groups of a sequence."""
    return float(np.append(0.0, model.sequence.explained)[-1])


def _known(model: AnytimeModel, conditions: Conditions) -> Conditions:
    """Return the conditions without the groups of which the model knows nothing: its sequence ended before them."""
    missing = np.ones(len(model.groups), dtype=bool)
    missing[model.sequence.order] = False
    if wrong := np.flatnonzero(missing & conditions.included).tolist():
        name = shown(model.groups.names[wrong[0]])
        raise ValueError(f"group {name} must be in, but the model knows nothing of it: its sequence ended before it")
    return conditions.without(missing)


def _searches(model: AnytimeModel, budgets: list[float]) -> dict[int, list[int]]:
    """Return which budgets to search for around which stages: the first, the one that the budget buys, the last."""
    searches: dict[int, list[int]] = {}
    for k, budget in enumerate(budgets):
        for stage in sorted({0, model.sequence.stage_at(budget), model.n_stages}):
            searches.setdefault(stage, []).append(k)
    return searches


def _around(model: AnytimeModel, subset: GeneralisedSubset, stage: int) -> Quadratic:
    """Return the problem of the quadratic model around a stage, in which the intercepts have been eliminated."""
    expansion = subset.expansion(*model.stages.standardised(model.stages.at_stage(stage)))
    H, t, Q = expansion.H, (expansion.H @ expansion.theta - expansion.gradient)[:, None], expansion.n_scores
    level = np.linalg.solve(H[:Q, :Q], np.hstack([H[:Q, Q:], t[:Q]]))
    C = H[Q:, Q:] - H[Q:, :Q] @ level[:, :-1]
    return _of_stages(model, C / 2 + C.T / 2, t[Q:] - H[Q:, :Q] @ level[:, -1:], Q)


def _of_stages(model: AnytimeModel, C: Float, b: Float, Q: int) -> Quadratic:
    """Return the problem with C and b of the columns of the sequence, in its order, with Q parameters per column.

    One column stands for each group after the end of the sequence, with an identity and zeros: it explains nothing.
    """
    layout, known = model.layout, known_columns(model)
    sizes = sizes_of([np.repeat(own, Q) for own in known])
    place = np.empty(layout.n_features, dtype=np.intp)
    place[layout.read[np.concatenate(known)]] = np.arange(sizes.sum() // Q)
    at = (place[model.stages.columns][:, None] * Q + np.arange(Q)).ravel()
    whole, right = np.eye(int(sizes.sum())), np.zeros((int(sizes.sum()), b.shape[1]))
    whole[np.ix_(at, at)], right[at] = C, b
    gram = Gram(whole, right, np.array([2 * model.sequence.null_value]))
    weights = None if model.weights is None or Q > 1 else model.weights[np.concatenate(known)]
    return Quadratic(gram, sizes, design_groups(model), model.alpha, weights)
