"""Results of a session as plain parts for its page: order, curve, budget, plan, what next, effects, comparison."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

from sklearn.base import clone

from budgetline.evaluation import BudgetCurve
from budgetline.evaluation.resampling import Samples
from budgetline.explore.fits import Check, Learned, Tell, fold_curves
from budgetline.explore.state import State
from budgetline.groups import FeatureGroups
from budgetline.model.anytime import AnytimeModel
from budgetline.model.intervals import interval_of
from budgetline.optimality import Plan
from budgetline.optimality.next_groups import next_groups
from budgetline.report.builders import (
    costs_differ,
    curve_record,
    effects_record,
    groups_with_columns,
    known,
    left_out,
    method_record,
    next_record,
    plan_record,
    prefix_record,
    task_name,
)
from budgetline.report.content import CROSS_VALIDATED
from budgetline.report.formatting import listed
from budgetline.sequencing import FixedOrder

Part = dict[str, object]


# -- order -----------------------------------------------------------------------------------------------------


def preliminary_part(model: AnytimeModel, before: Sequence[str] | None) -> Part:
    """Return the order alone, before it is evaluated on folds, and how far groups moved since another order."""
    place, sequence = {name: k for k, name in enumerate(before or (), start=1)}, model.sequence
    widths = groups_with_columns(model)
    costs = zip(sequence.groups, sequence.costs.tolist(), sequence.cumulative_costs.tolist(), strict=True)
    steps = [
        {
            "step": step, "group": group, "columns": widths.get(group, 0), "cost": cost, "cumulative_cost": spent,
            "point": None, "value": None, "agreement": None, "folds": 0,
            "moved": place[group] - step if group in place else None,
        }
        for step, (group, cost, spent) in enumerate(costs, start=1)
    ]  # fmt: skip
    return {
        "preliminary": True,
        "error": None,
        "steps": steps,
        "left_out_of_order": left_out(model),
        "total_cost": float(sequence.costs.sum()),
        **dict.fromkeys(("measure", "curve", "training")),
    }


def order_part(found: Learned, before: Sequence[str] | None) -> Part:
    """Return the order, its curve on held-out folds, and how far groups have moved since the last order."""
    part, report = preliminary_part(found.model, before), found.content
    steps = part["steps"]
    assert isinstance(steps, list)
    for step, point, told in zip(steps, report.points[1:], report.sequence, strict=True):
        step["point"], step["value"] = point, report.main_curve.values[point]
        step["agreement"], step["folds"] = told.agreement, told.folds
    return part | {
        "preliminary": False,
        "headline": report.headline,
        "measure": asdict(report.measure),
        "curve": asdict(report.main_curve),
        "training": asdict(report.training_curve),
        "usual_errors": usual_errors(found.model),
        "warnings": found.notes,
    }


def usual_errors(model: AnytimeModel) -> list[tuple[float | None, ...]] | None:
    """Return from where to where 90 % of the targets are around the mean prediction, at every stage.

    None if no errors were held out, or targets are classes, ranks or several.
    """
    if model.errors is None or task_name(model) != "regression" or model.target_shape:
        return None
    mean = model.stages.null_intercept[None]
    ends = (interval_of(model, mean, stage, 0.9) for stage in range(1 + model.n_stages))
    return [tuple(known(bound[0] - model.results(mean, "predict")[0]) for bound in each) for each in ends]


# -- budget ----------------------------------------------------------------------------------------------------


def budget_part(found: Learned, plan: Plan | None = None, *, searching: bool = False) -> Part:
    """Return what the budget buys: the prefix of the order, and the plan, once it is known.

    ``searching`` says that it, or a better one, may still be found.
    """
    state, report = found.state, found.content
    if state.budget is None:
        return {"error": None, "empty": True}
    stage = report.stage_at(state.budget)
    return {
        "error": None,
        "budget": state.budget,
        "prefix": prefix_record(report, state.budget),
        "prefix_explained": report.sequence[stage - 1].explained if stage else 0.0,
        "plan": None if plan is None else plan_record(plan, found.model, state.budget),
        "searching": searching,
    }


def plan_of(found: Learned, seconds: float) -> Plan | None:
    """Return the plan for the budget, None without one; for classes, it is fitted to the data."""
    if found.state.budget is None:
        return None
    rows = {} if found.model.squared_error else {"X": found.sample.X, "y": found.sample.y}
    return found.estimator.plan(found.state.budget, time_limit=seconds, progress=False, **rows)


def next_part(found: Learned) -> Part:
    """Return what to buy next, from the available groups."""
    part = next_record(found.model, next_groups(found.model, found.state.available))
    ranked = part.pop("next")
    assert isinstance(ranked, dict)
    rows = zip(ranked["group"], ranked["along"], ranked["cost"], ranked["gain"], strict=True)
    named = [{"group": g, "along": along, "cost": cost, "gain": known(gain)} for g, along, cost, gain in rows]
    return {"error": None, **part, "available": found.state.available, "rows": named}


def effects_part(found: Learned) -> Part:
    """Return the effects of columns at the stage that the budget buys, or at the last one."""
    return {"error": None, **effects_record(found.model, found.state.budget)}


# -- comparison ------------------------------------------------------------------------------------------------


def todays_order(state: State, groups: FeatureGroups) -> tuple[str, ...]:
    """Return the order in use today as a whole: what it does not name follows, the cheapest first.

    Groups that others require are moved before them.
    """
    place, costs = {name: g for g, name in enumerate(groups.names)}, dict(zip(groups.names, groups.costs, strict=True))
    rest = sorted((name for name in groups.names if name not in state.today), key=costs.__getitem__)
    return tuple(groups.names[g] for g in groups.prices.completed(place[name] for name in (*state.today, *rest)))


def compare_part(found: Learned, check: Check, tell: Tell) -> Part:
    """Return the mean over all budgets of this order and of others, on the same folds, with the same settings."""
    state, total = found.state, float(found.model.sequence.costs.sum())
    others: dict[str, tuple[str, dict[str, object]]] = {
        "cheapest first": ("lowest cost first, whatever the gain", {"schedule": "cheapest"}),
        "costs ignored": ("largest gain first, whatever the cost", {"cost_sensitive": False}),
    }
    if not costs_differ(state.feature_groups):
        del others["cheapest first"]  # ties would decide it
    if state.today:
        order = FixedOrder(todays_order(state, state.feature_groups))
        others["today's order"] = (f"as given: {listed(state.today)}", {"schedule": order})
    methods = [_method("this order", "learned on every fold", found.uncalibrated, found.model, total)]
    for name, (note, settings) in others.items():
        estimator = clone(found.plain).set_params(**settings)
        folds, _ = fold_curves(estimator, found.sample, state, check, tell, f"comparing with {name}: ")
        model = Samples(found.sample.X, found.sample.y).fitted(estimator).model_  # type: ignore[attr-defined]
        methods.append(_method(name, note, folds, model, total))
    return {"error": None, "methods": methods}


def _method(name: str, note: str, folds: Sequence[BudgetCurve], model: AnytimeModel, total: float) -> Part:
    held_out = method_record(name, note, folds, total)
    means = {"mean": held_out.timeliness, "mean_error": held_out.timeliness_error}
    curve = asdict(curve_record(CROSS_VALIDATED, name, BudgetCurve.mean(folds)))
    return {"name": name, "note": note, **means, "curve": curve, "order": model.sequence.groups}
