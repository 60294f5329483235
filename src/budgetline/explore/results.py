"""Results of a session as plain parts for its page: order, curve, budget, plan, what next, effects, comparison."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from datetime import date
from importlib.metadata import version

import numpy as np
from sklearn.base import clone

from budgetline.budgets import affordable
from budgetline.estimators.unattended import FOLDS
from budgetline.evaluation import BudgetCurve, timeliness
from budgetline.evaluation.metrics import label_of
from budgetline.evaluation.resampling import Samples, folds_in_words, make_folds
from budgetline.explore.fits import Check, Learned, Tell
from budgetline.explore.state import State
from budgetline.groups import FeatureGroups
from budgetline.model.anytime import AnytimeModel
from budgetline.optimality import Plan
from budgetline.optimality.next_groups import next_groups
from budgetline.progress import watching
from budgetline.report import content
from budgetline.report.content import CROSS_VALIDATED, TRAINING
from budgetline.report.effects import effects_in_report, picture_of
from budgetline.report.formatting import at_least, count, listed
from budgetline.report.sections import effect_name
from budgetline.report.sentences import headline
from budgetline.sequencing import FixedOrder

Part = dict[str, object]
MOST_NAMED = 3
"""Groups that a sentence about the change of the order names."""


def content_of(found: Learned) -> content.Content:
    """Return what a report would say of the order and the curves."""
    model, state = found.model, found.state
    sequence, widths = model.sequence, {group.name: len(group.columns) for group in state.groups}
    text, style = label_of(state.metric)
    if state.metric == "explained":
        text = f"explained {'variance' if model.squared_error else 'deviance'}"
    made = folds_in_words(make_folds(FOLDS, model.classes is not None))
    better = bool(found.mean.greater_is_better)
    stages = (
        content.Stage(
            step, group, widths.get(group, 2), cost, spent, known(gain), known(part), _bought(found, group, spent)
        )
        for step, group, cost, spent, gain, part in zip(*sequence.to_dict().values(), strict=True)
    )
    labels = () if model.classes is None else tuple(map(str, model.classes.tolist()))
    return content.Content(
        title=state.title or f"{model.estimator} of {len(sequence)} groups",
        version=version("budgetline"),
        date=date.today().isoformat(),
        unit=state.unit,
        task=content.Task(state.task, model.estimator, model.family.loss, labels),
        data=content.Data(len(found.sample.y), len(state.used), len(state.groups), False, ()),
        settings=(),
        measure=content.Measure(state.metric, text, style, better, len(found.folds), made),
        sequence=tuple(stages),
        left_out=tuple(name for name in state.names if name not in sequence.groups),
        curves=(
            curve_of(TRAINING, "this model on its training data", found.training),
            curve_of(CROSS_VALIDATED, f"mean of {len(found.folds)} folds, each with its own order", found.mean),
        ),
        comparison=None,
    )


def _bought(found: Learned, group: str, spent: float) -> int:
    """Return how many folds, each with its own order, have bought a group when so much is spent."""
    return sum(group in fold.groups[: int(affordable(fold.costs, spent))] for fold in found.folds)


def known(value: float) -> float | None:
    """Return a number, None if it is not finite."""
    return float(value) if np.isfinite(value) else None


def curve_of(kind: str, label: str, curve: BudgetCurve) -> content.Curve:
    """Return a curve as a plain record."""
    values, errors = (() if v is None else tuple(map(known, v)) for v in (curve.values, curve.errors))
    return content.Curve(kind, label, tuple(curve.costs.tolist()), values, errors)


# -- order -----------------------------------------------------------------------------------------------------


def preliminary_part(model: AnytimeModel, state: State, before: Sequence[str] | None) -> Part:
    """Return the order alone, before it is judged on folds."""
    place, sequence = {name: k for k, name in enumerate(before or (), start=1)}, model.sequence
    costs = zip(sequence.groups, sequence.costs.tolist(), sequence.cumulative_costs.tolist(), strict=True)
    steps = [
        {
            "step": step, "group": group, "cost": cost, "cumulative_cost": spent, "point": None, "value": None,
            "place_before": place.get(group), "moved": place[group] - step if group in place else None,
        }
        for step, (group, cost, spent) in enumerate(costs, start=1)
    ]  # fmt: skip
    return {
        "preliminary": True,
        "error": None,
        "steps": steps,
        "left_out_of_order": [name for name in state.names if name not in sequence.groups],
        "moved": _moved(before, sequence.groups),
        "total_cost": float(sequence.costs.sum()),
        "headline": "",
        "measure": None,
        "curve": None,
        "training": None,
    }


def order_part(found: Learned, before: Sequence[str] | None) -> Part:
    """Return the order, its curve on held-out folds, and what moved compared with the order before."""
    part, report = preliminary_part(found.model, found.state, before), content_of(found)
    steps = part["steps"]
    assert isinstance(steps, list)
    for step, point in zip(steps, report.points[1:], strict=True):
        step["point"], step["value"] = point, report.main_curve.values[point]
    training, judged = (asdict(curve) for curve in report.curves)
    return part | {
        "preliminary": False,
        "headline": headline(report),
        "measure": asdict(report.measure),
        "curve": judged,
        "training": training,
        "warnings": found.notes,
    }


def _moved(before: Sequence[str] | None, now: Sequence[str]) -> Part:
    """Return which groups rose and fell, also as a sentence; new groups, and those that are gone, count for nothing."""
    if before is None:
        return {"risen": [], "fallen": [], "new": [], "gone": [], "sentence": ""}
    old = [name for name in before if name in now]
    new = [name for name in now if name in before]
    was, is_ = ({name: k for k, name in enumerate(names, start=1)} for names in (old, new))
    moved = sorted((name for name in new if was[name] != is_[name]), key=lambda name: -abs(was[name] - is_[name]))
    risen, fallen = ([name for name in moved if (is_[name] < was[name]) == up] for up in (True, False))
    first, at = ({name: k for k, name in enumerate(names, start=1)} for names in (before, now))
    words = [
        f"{name} {'rose' if name in risen else 'fell'} from {first[name]} to {at[name]}" for name in moved[:MOST_NAMED]
    ]
    rest = len(moved) - MOST_NAMED
    words += [f"{count(rest, 'other')} moved"] if rest > 0 else []
    sentence = "; ".join(words) + "." if words else "The order is the same."
    added, gone = [name for name in now if name not in before], [name for name in before if name not in now]
    return {"risen": risen, "fallen": fallen, "new": added, "gone": gone, "sentence": sentence}


# -- budget ----------------------------------------------------------------------------------------------------


def budget_part(found: Learned, plan: Plan | None = None, *, searching: bool = False) -> Part:
    """Return what the budget buys: the prefix of the order, and the plan, once it is known.

    ``searching`` says that it, or a better one, may still be found.
    """
    state, report = found.state, content_of(found)
    if state.budget is None:
        return {"error": None, "empty": True}
    groups = report.prefix_at(state.budget)
    value, error = report.expected[len(groups)]
    cost = report.training_curve.costs[len(groups)]
    explained = report.sequence[len(groups) - 1].explained if groups else 0.0
    return {
        "error": None,
        "budget": state.budget,
        "prefix": {"groups": groups, "cost": cost, "value": value, "error": error},
        "prefix_explained": explained,
        "plan": None if plan is None else _plan(plan),
        "searching": searching,
    }


def _plan(plan: Plan) -> Part:
    """Return a plan, and what is proven of it, in plain words."""
    if plan.optimal:
        proof, meaning = "proven best", "No other groups within this budget explain the known rows better."
    elif plan.ratio is not None:
        proof = f"at least {at_least(plan.ratio)} of the best"
        meaning = "Other groups within this budget may explain the known rows a little better, but not more than that."
    else:
        proof = "the best found"
        meaning = "A short search found nothing better within this budget. That there is nothing better is not proven."
    return {"groups": plan.groups, "cost": plan.cost, "explained": plan.explained, "proven": proof, "meaning": meaning}


def plan_of(found: Learned, seconds: float) -> Plan:
    """Return the plan for the budget; for losses that moments do not determine, it is fitted to the data."""
    assert found.state.budget is not None
    rows = {} if found.model.squared_error else {"X": found.sample.X, "y": found.sample.y}
    return found.estimator.plan(found.state.budget, time_limit=seconds, progress=False, **rows)


def next_part(found: Learned) -> Part:
    """Return what to buy next, from the groups at hand."""
    ranking = next_groups(found.model, found.state.available)
    rows = zip(ranking.groups, ranking.along, ranking.costs.tolist(), ranking.gains.tolist(), strict=True)
    return {
        "error": None,
        "available": found.state.available,
        "cost": found.model.groups.cost_of(ranking.available),
        "rows": [{"group": g, "along": along, "cost": cost, "gain": known(gain)} for g, along, cost, gain in rows],
        "not_ranked": ranking.unknown,
    }


def effects_part(found: Learned) -> Part:
    """Return the effects of columns at the stage that the budget buys, or at the last one."""
    effects, n_effects = effects_in_report(found.model, found.state.budget)
    stage = len(found.model.sequence)
    if found.state.budget is not None:
        stage = len(content_of(found).prefix_at(found.state.budget))
    named = [(effect_name(content_of(found), effect), effect) for effect in effects]
    shown = [{"group": each.group, "caption": name, "picture": picture_of(each)} for name, each in named]
    return {"error": None, "stage": stage, "effects": shown, "in_all": n_effects}


# -- comparison ------------------------------------------------------------------------------------------------


def todays_order(state: State, groups: FeatureGroups) -> tuple[str, ...]:
    """Return the order in use today as a whole: what it does not name follows, the cheapest first.

    Groups that others require are moved before them.
    """
    names, costs = groups.names, groups.costs
    place = {name: g for g, name in enumerate(names)}
    rest = sorted((name for name in names if name not in state.today), key=lambda name: costs[place[name]])
    whole = groups.prices.completed(place[name] for name in (*state.today, *rest))
    return tuple(names[g] for g in whole)


def other_orders(state: State) -> dict[str, tuple[str, dict[str, object]]]:
    """Return other ways to order the groups: name -> (description, settings of an estimator)."""
    found: dict[str, tuple[str, dict[str, object]]] = {
        "cheapest first": ("lowest cost first, whatever the gain", {"schedule": "cheapest"}),
        "costs ignored": ("largest gain first, whatever the cost", {"cost_sensitive": False}),
    }
    if state.today:
        order = FixedOrder(todays_order(state, state.feature_groups))
        found["today's order"] = (f"as given: {listed(state.today)}", {"schedule": order})
    return found


def compare_part(found: Learned, check: Check, tell: Tell) -> Part:
    """Return the mean over all budgets of this order and of others, on the same folds, with the same settings."""
    state, rows, total = found.state, Samples(found.sample.X, found.sample.y), float(found.model.sequence.costs.sum())
    methods = [_method("this order", "learned again on every fold", found.folds, found.model, total)]
    others, classes = other_orders(state), state.task == "classification"
    splits = rows.splits(make_folds(FOLDS, classes), classes)
    for number, (name, (note, settings)) in enumerate(others.items()):
        tell(f"comparing with {name}", number * (1 + len(splits)), len(others) * (1 + len(splits)))
        estimator, folds = clone(found.plain).set_params(**settings), []
        with watching(lambda *_: check()):
            model = rows.fitted(estimator).model_  # type: ignore[attr-defined]
            for train, test in splits:
                folds.append(rows.take(test).curve(rows.take(train).fitted(estimator), state.metric))
        methods.append(_method(name, note, folds, model, total))
    return {"error": None, "methods": methods}


def _method(name: str, note: str, folds: Sequence[BudgetCurve], model: AnytimeModel, total: float) -> Part:
    means = np.array([timeliness(fold, total) for fold in folds])
    error = float(means.std(ddof=1) / np.sqrt(means.size)) if means.size > 1 else np.nan
    judged = asdict(curve_of(CROSS_VALIDATED, name, BudgetCurve.mean(folds)))
    return {
        "name": name,
        "note": note,
        "mean": known(float(means.mean())),
        "mean_error": known(error),
        "curve": judged,
        "order": model.sequence.groups,
    }
