"""Results of a model as plain records, for reports, the command line and `budgetline explore`.

All three take their figures from here, so what they say of one model agrees.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import date
from importlib.metadata import version

import numpy as np
from sklearn.utils.validation import _num_samples

from budgetline.bounds.certificate import SHOWN
from budgetline.budgets import fold_costs
from budgetline.evaluation import BudgetCurve, timeliness
from budgetline.evaluation.budget_curves import training_curve
from budgetline.evaluation.metrics import label_of
from budgetline.evaluation.pictures import pictures
from budgetline.glm.families import SquaredError
from budgetline.glm.set_families import SetFamily
from budgetline.groups import FeatureGroups
from budgetline.inputs import check_weight
from budgetline.messages import cut, shown
from budgetline.model.anytime import AnytimeModel, Staged
from budgetline.optimality import Certificate, Plan
from budgetline.optimality.next_groups import NextGroups
from budgetline.optimality.set_values import design_groups
from budgetline.report import content
from budgetline.report.content import BOUND, CROSS_VALIDATED, TRAINING, Content
from budgetline.report.effect_records import effect_records
from budgetline.report.formatting import COST_UNITS, at_least
from budgetline.report.report import Report

Record = dict[str, object]
LOSSES = {"squared_error": "squared error", "log_loss": "log loss", "poisson": "Poisson deviance"}
LOSSES |= {"listwise": "softmax loss of queries", "cox": "partial likelihood"}
"""Names of losses in texts. Other losses are named after their class."""
TASKS = {"listwise": "ranking", "cox": "survival"}
"""Tasks by loss; with other losses, the task depends on whether there are classes."""
USUAL_METRICS = {"ranking": "ndcg@10", "survival": "concordance"}
LONGEST_SETTING, LONGEST_IN_REPORT = 1000, 200
"""Settings are truncated to these lengths, in characters."""
SAME_DATA = 1e-6
"""If the relative difference between two values of R(∅) is below this threshold, they are assumed to come from the same
data."""


def known(value: float) -> float | None:
    """Return a number, None if it is not finite."""
    return float(value) if np.isfinite(value) else None


# -- the model and its order -----------------------------------------------------------------------------------


def describe(
    model: Staged,
    training: BudgetCurve,
    held_out: BudgetCurve | None = None,
    *,
    title: str = "",
    unit: str = COST_UNITS,
    y: object = None,
    weight: object = None,
    folds_made: str = "",
) -> Report:
    """Return the report of an order and its curves: ``training`` on the training rows, ``held_out`` on folds.

    ``held_out`` is the mean over folds, which holds the curves of the folds; ``folds_made`` says how they were made. y
    and weight are those of the training rows, if they are known.
    """
    folds = () if held_out is None else held_out.folds
    (label, style), better = label_of(training.metric), bool(training.greater_is_better)
    if training.metric == "explained":
        label = f"explained {'variance' if isinstance(model.family, SquaredError) else 'deviance'}"
    curves = [curve_record(TRAINING, "this model on its training data", training)]
    if held_out is not None:
        legend = f"held-out: mean of {len(folds)} folds, each with its own order"
        legend += "" if getattr(model, "calibration", None) is None else ", calibrated like the whole model"
        curves.append(curve_record(CROSS_VALIDATED, legend, held_out))
    linear = model if isinstance(model, AnytimeModel) else None
    chosen = how_chosen(linear) if linear else ""
    moments = linear.moments if linear else None
    rows = _num_samples(y) if y is not None else None if moments is None else moments.n_samples
    groups, bought = model.groups, groups_with_columns(model)
    counts = (rows, model.source.n_features, len(bought), len(groups) - len(bought), weight is not None)
    task = task_name(model)
    return Report(
        title=title or f"{model.estimator} of {sum(name in bought for name in model.sequence.groups)} groups",
        version=version("budgetline"),
        date=date.today().isoformat(),
        unit=unit,
        task=content.TaskSummary(task, model.estimator, loss_name(model), class_names(model)),
        data=content.DataSummary(*counts, target_amounts(model, y, weight)),
        settings=setting_texts(model) | ({"what was chosen": chosen} if chosen else {}),
        measure=content.Measure(training.metric, label, style, better, len(folds), folds_made),
        sequence=_order_steps(model, training if training.metric == "explained" else training_curve(model), folds),
        left_out=left_out(model),
        curves=tuple(curves),
        shared=dict(groups.shared),
        required={name: required for name, required in groups.requires.items() if name in bought},
    )


def task_name(model: Staged) -> str:
    """Return what a model predicts: "regression", "classification", "ranking" or "survival"."""
    return "classification" if model.classes is not None else TASKS.get(model.family.loss, "regression")


def loss_name(model: Staged) -> str:
    """Return the loss of a model in words."""
    return LOSSES.get(model.family.loss, type(model.family).__name__)


def class_names(model: Staged) -> tuple[str, ...]:
    """Return the classes as text; nothing for a regression."""
    return () if model.classes is None else tuple(map(str, model.classes.tolist()))


def groups_with_columns(model: Staged) -> dict[str, int]:
    """Return the groups that can be bought and their numbers of columns; a pair of columns has no column of its own."""
    widths = zip(model.groups.names, map(len, model.groups.columns), strict=True)
    return {name: width for name, width in widths if width}


def costs_differ(groups: FeatureGroups) -> bool:
    """Return whether costs can decide an order: not if all groups cost the same, apart from pairs, which are free."""
    costs = zip(groups.costs.tolist(), groups.columns, strict=True)
    return bool(groups.shared) or len({cost for cost, columns in costs if cost or len(columns)}) > 1


def pairs_bought(model: Staged) -> bool:
    """Return whether pairs of columns are in the sequence."""
    return not groups_with_columns(model).keys() >= set(model.sequence.groups)


def left_out(model: Staged) -> tuple[str, ...]:
    """Return the groups that are not in the sequence."""
    return tuple(name for name in groups_with_columns(model) if name not in model.sequence.groups)


def order_columns(model: Staged, explained: BudgetCurve) -> dict[str, list[float]]:
    """Return the sequence as columns, with what curves call explained: a sequence subtracts the ridge penalty."""
    return {**model.sequence.to_dict(), "explained": explained.values[1:].tolist()}


def _order_steps(model: Staged, explained: BudgetCurve, folds: Sequence[BudgetCurve]) -> tuple[content.OrderStep, ...]:
    widths, linear, found = groups_with_columns(model), isinstance(model, AnytimeModel), []
    sequence = model.sequence
    if folds and sequence.fold_costs is None:  # those of the search that learned the order come first
        reached = fold_costs(sequence.groups, [(fold.groups, fold.costs) for fold in folds])
        sequence = replace(sequence, fold_costs=reached)
    n_folds, known_of = 0 if sequence.fold_costs is None else len(sequence.fold_costs), sequence.to_dict()
    agree = known_of.pop("folds_that_agree", [None] * len(sequence))
    known_of["explained"] = explained.values[1:].tolist()
    for step, group, cost, spent, gain, part, agreement in zip(*known_of.values(), agree, strict=True):
        name = str(group)
        own = known(gain) if linear else None  # else, gains are those of the model that learned the order
        about = (widths.get(name, 0), cost, spent, own, known(part), agreement, n_folds)
        found.append(content.OrderStep(int(step), name, *about))
    return tuple(found)


def curve_record(kind: str, label: str, curve: BudgetCurve) -> content.ReportCurve:
    """Return a curve as a plain record."""
    values, errors = (() if v is None else tuple(map(known, v)) for v in (curve.values, curve.errors))
    return content.ReportCurve(kind, label, tuple(curve.costs.tolist()), values, errors)


def model_record(model: AnytimeModel) -> Record:
    """Return what a model is: task, columns, sequence, costs and settings."""
    groups = model.groups
    return {
        "estimator": model.estimator,
        "task": task_name(model),
        **({} if model.classes is None else {"classes": model.classes}),
        "columns": model.source.n_features,
        "column_names": model.source.names,
        "sequence": order_columns(model, training_curve(model)),
        "total_cost": float(model.sequence.costs.sum()),
        "shared": {name: {"cost": cost, "groups": members} for name, (cost, members) in groups.shared.items()},
        "requires": groups.requires,
        "not_in_sequence": left_out(model),
        "settings": settings_of(model),
        **{name: model.learned[name] for name in ("alpha_", "correction_") if name in model.learned},
    }


def settings_of(model: Staged) -> dict[str, str | int | float | None]:
    """Return the settings of the estimator without groups and costs; objects as text."""
    return {
        name: value if isinstance(value, str | int | float | None) else shown(value, LONGEST_SETTING)
        for name, value in model.settings.items()
        if name not in ("feature_groups", "costs")
    }


def setting_texts(model: Staged) -> dict[str, str]:
    """Return the settings that are not empty as text."""
    found = {name: value for name, value in settings_of(model).items() if value not in (None, "()")}
    texts = {name: f"{value:g}" if isinstance(value, float) else str(value) for name, value in found.items()}
    return {name: cut(text, LONGEST_IN_REPORT) for name, text in texts.items()}


def how_chosen(model: AnytimeModel) -> str:
    """Return how the ridge constant, the correction and the pairs of a model were chosen; "" if they were given."""
    if "alpha_" not in model.learned:
        return ""
    if "cv_scores_" not in model.learned:
        return f"ridge constant {model.alpha:g} was chosen from the data"
    correction = model.learned["correction_"]
    noise = f"correction for noise {correction:g}" if correction else "no correction for noise"
    found = [f"ridge constant {model.alpha:g}", noise]
    if model.settings.get("interactions") is not None:
        pairs = 0 if model.encoding is None else len(model.encoding.pairs)
        found.append(f"{pairs or 'no'} pair{'' if pairs == 1 else 's'} of columns")
    return f"chosen by cross-validation: {', '.join(found)}"


def target_amounts(model: Staged, y: object = None, weight: object = None) -> dict[str, float | None]:
    """Return the means of the targets, or the frequencies of the classes: of rows, or as the model predicts them."""
    names = class_names(model)
    if isinstance(model.family, SetFamily):  # which is about the order of rows
        return {}
    if y is not None:
        n = _num_samples(y)
        means = np.average(model.encode_target(y, n), axis=0, weights=check_weight(weight, n))
        means = np.append(1 - means, means) if len(names) == 2 else means
    elif model.settings.get("class_weight") is not None:  # which hides the frequencies
        return {}
    else:
        means = np.ravel(model.null_result("predict_proba" if names else "predict"))
    numbered = ("mean",) if means.size == 1 else tuple(f"{k} mean" for k in range(means.size))
    return dict(zip(names or numbered, map(known, means), strict=True))


# -- a budget ----------------------------------------------------------------------------------------------------


def prefix_record(report: Content, budget: float) -> Record:
    """Return what a budget buys in the order, and what to expect of it."""
    stage = report.stage_at(budget)
    value, error = report.expected[stage]
    return {"groups": report.prefix(stage), "cost": report.training_curve.costs[stage], "value": value, "error": error}


def plan_record(plan: Plan, model: AnytimeModel, budget: float) -> Record:
    """Return the plan of a model for a budget, and what is proven of it, as numbers and in words.

    The value and its bound subtract the ridge penalty and the correction; ``explained``, as in `order_columns`, does
    not. ``order_explained`` is the same of what the budget buys in the order of the model.
    """
    corrected = plan.model_.penalties is not None
    if plan.optimal:
        after = " after the correction for noise" * corrected
        proof, meaning = "proven best", f"No other groups within this budget explain the training rows better{after}."
    elif plan.ratio is not None:
        proof = f"at least {at_least(plan.ratio)} of the best"
        meaning = "Other groups within this budget may explain the training rows a little better, up to this limit."
    else:
        proof = "the best found"
        meaning = "A short search found nothing better within this budget. The plan is not proven to be optimal."
    if corrected:
        meaning += " A plan maximises the explained share less the correction for noise; so a plan may explain less of"
        meaning += " the training data than the order."
    names = ("groups", "cost", "value", "bound", "ratio", "optimal", "refitted")
    numbers = {name: getattr(plan, name) for name in names}
    explained, of_order = float(training_curve(plan.model_).values[-1]), float(training_curve(model).at(budget))
    return {**numbers, "explained": explained, "order_explained": of_order, "proven": proof, "meaning": meaning}


def next_record(model: AnytimeModel, ranking: NextGroups) -> Record:
    """Return what to buy next as columns, what is available, and the groups that are not ranked."""
    return {
        "available": ranking.available,
        "cost": model.groups.cost_of(ranking.available),
        "next": ranking.to_dict(),
        "not_ranked": ranking.unknown,
    }


def effects_record(model: AnytimeModel, budget: float | None = None) -> Record:
    """Return the effects of columns at the stage that a budget buys, None: at the last stage, as pictures."""
    effects, in_all = effect_records(model, budget)
    stage = len(model.sequence) if budget is None else model.sequence.stage_at(budget)
    drawn = [
        {"group": each.group, "caption": each.caption, "picture": picture}
        for each, picture in zip(effects, pictures(effects), strict=True)
    ]
    bands = any(each.margins for each in effects)
    return {"stage": stage, "effects": drawn, "in_all": in_all, "bands": bands}


# -- comparisons and proofs --------------------------------------------------------------------------------------


def method_record(
    name: str, note: str, folds: Sequence[BudgetCurve], total: float, budgets: Sequence[float] = ()
) -> content.ComparedMethod:
    """Return the mean over all budgets up to a total cost, and values at budgets, each with its standard error."""
    table = np.array([[timeliness(fold, total), *fold.at(budgets)] for fold in folds])
    spread = table.std(axis=0, ddof=1) / np.sqrt(len(table)) if len(table) > 1 else np.full(table.shape[1], np.nan)
    (mean, *values), (error, *errors) = (map(known, each.tolist()) for each in (table.mean(axis=0), spread))
    return content.ComparedMethod(name, note, mean, error, tuple(values), tuple(errors))


def check_certificate(certificate: object, model: AnytimeModel) -> None:
    """Raise an error unless a certificate is about the sequence of a model, without conditions."""
    if not isinstance(certificate, Certificate):
        raise TypeError(f"certificate must be a Certificate, such as model.certificate(), not {shown(certificate)}")
    theirs, ours, null_value = certificate.feature_groups, design_groups(model), model.sequence.null_value
    about = f"conditions (sets {certificate.condition})" if certificate.condition else "conditions"
    same = {
        about: not certificate.condition and certificate.penalties is None,
        "groups": (theirs.names, theirs.columns, theirs.requires) == (ours.names, ours.columns, ours.requires),
        "costs": theirs.shared == ours.shared and np.array_equal(theirs.costs, ours.costs),
        "order": np.array_equal(certificate.order, model.sequence.order),
        "alpha": certificate.alpha == model.alpha,
        "loss": model.squared_error,
        "data": abs(certificate.null_value - null_value) <= SAME_DATA * null_value,
    }
    if others := [name for name, equal in same.items() if not equal]:
        raise ValueError(f"the certificate does not belong to this model: it is about other {', '.join(others)}")


def certified_at(certificate: Certificate, budgets: Iterable[float], total: float) -> list[content.CertifiedBudget]:
    """Return what is certified at budgets, as shares of R(∅)."""
    scale, found = certificate.null_value if certificate.null_value > 0 else 1.0, []
    for budget in budgets:
        achieved, bound, ratio = map(float, certificate.at(budget))
        share = budget / total if total > 0 else 1.0
        found.append(content.CertifiedBudget(achieved / scale, bound / scale, ratio, share, budget))
    return found


def certified_order(certificate: Certificate, total: float, metric: str) -> content.CertifiedOrder:
    """Return what is certified up to a total cost, with the curve of the bound if it is on the metric."""
    budgets = [share * total for share in SHOWN] if total > 0 else [0.0]
    curve = None
    if metric == "explained" and certificate.blocks.size:
        bound = certificate.curve()
        costs, values = bound.costs.tolist(), bound.values.tolist()
        kept = 1 + sum(cost < total for cost in costs[1:])
        end = [total] * (total > 0)  # there is no next budget, so the last value is repeated
        values = [*values[:kept], *values[kept - 1 : kept] * len(end)]
        label = "upper bound on any set of groups, training data"
        curve = content.ReportCurve(BOUND, label, (*costs[:kept], *end), tuple(values), ())
    timely = content.CertifiedShare(*map(float, certificate.timeliness(total)))
    return content.CertifiedOrder(tuple(certified_at(certificate, budgets, total)), timely, certificate.notes, curve)
