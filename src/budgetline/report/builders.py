"""Results of a model as plain records, for reports, the command line and ``budgetline explore``.

All three take their figures from here, so what they say of one model agrees.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import date
from importlib.metadata import version

import numpy as np
from sklearn.utils.validation import _num_samples

from budgetline.budgets import affordable
from budgetline.evaluation import BudgetCurve, timeliness
from budgetline.evaluation.budget_curves import training_curve
from budgetline.evaluation.metrics import label_of
from budgetline.glm.families import SquaredError
from budgetline.inputs import check_weight
from budgetline.messages import cut, shown
from budgetline.model.anytime import AnytimeModel
from budgetline.model.staged import Staged
from budgetline.optimality import Certificate, Plan
from budgetline.optimality.certificate import SHOWN
from budgetline.optimality.next_groups import NextGroups
from budgetline.report import content
from budgetline.report.content import BOUND, CROSS_VALIDATED, TRAINING, Amount, Content
from budgetline.report.effect_records import caption_of, effect_records, picture_of
from budgetline.report.formatting import at_least
from budgetline.report.report import Report
from budgetline.report.sections import COST_UNITS

Record = dict[str, object]
LOSSES = {"squared_error": "squared error", "log_loss": "log loss", "poisson": "Poisson deviance"}
"""What people call the losses; others go by their class."""
LONGEST_SETTING, LONGEST_IN_REPORT = 1000, 200
"""Longer settings are cut to these numbers of characters."""


def known(value: float) -> float | None:
    """Return a number, None if it is not finite."""
    return float(value) if np.isfinite(value) else None


# -- the model and its order -----------------------------------------------------------------------------------


def describe(
    model: Staged,
    training: BudgetCurve,
    judged: BudgetCurve | None = None,
    *,
    title: str = "",
    unit: str = COST_UNITS,
    rows: int | None = None,
    folds_made: str = "",
) -> Report:
    """Return the report of the order and the curves of a model: ``training`` on its training rows, ``judged`` on folds.

    ``judged`` is the mean over folds of the same metric, which holds the curves of the folds, and ``folds_made`` says
    how the folds were made. The title is by default the estimator and the number of groups.
    """
    groups, folds = model.groups, () if judged is None else judged.folds
    text, style = label_of(training.metric)
    if training.metric == "explained":
        text = f"explained {'variance' if isinstance(model.family, SquaredError) else 'deviance'}"
    curves = [curve_record(TRAINING, "this model on its training data", training)]
    if judged is not None:
        label = f"held-out: mean of {len(folds)} folds, each with its own order"
        curves.append(curve_record(CROSS_VALIDATED, label, judged))
    bought = groups_with_columns(model)
    requires = ((name, required) for name, required in groups.requires.items() if name in bought)
    task = "regression" if model.classes is None else "classification"
    loss = LOSSES.get(model.family.loss, type(model.family).__name__)
    return Report(
        title=title or f"{model.estimator} of {len(model.sequence)} groups",
        version=version("budgetline"),
        date=date.today().isoformat(),
        unit=unit,
        task=content.TaskSummary(task, model.estimator, loss, class_names(model)),
        data=content.DataSummary(rows, model.source.n_features, len(bought), len(groups) - len(bought), False, ()),
        settings=(),
        measure=content.Measure(training.metric, text, style, bool(training.greater_is_better), len(folds), folds_made),
        sequence=_order_steps(model, training if training.metric == "explained" else training_curve(model), folds),
        left_out=left_out(model),
        curves=tuple(curves),
        comparison=None,
        certificate=None,
        shared=tuple(content.SharedBy(name, *entry) for name, entry in groups.shared.items()),
        required=tuple(content.RequiredGroups(*entry) for entry in requires),
        effects=(),
        effects_in_all=0,
        plans=None,
        probabilities=None,
    )


def class_names(model: Staged) -> tuple[str, ...]:
    """Return the classes as text; nothing for a regression."""
    return () if model.classes is None else tuple(map(str, model.classes.tolist()))


def groups_with_columns(model: Staged) -> dict[str, int]:
    """Return the groups that can be bought and their numbers of columns; a pair of columns has no column of its own."""
    widths = zip(model.groups.names, map(len, model.groups.columns), strict=True)
    return {name: width for name, width in widths if width}


def left_out(model: Staged) -> tuple[str, ...]:
    """Return the groups that are not in the sequence."""
    return tuple(name for name in groups_with_columns(model) if name not in model.sequence.groups)


def order_columns(model: Staged, explained: BudgetCurve) -> dict[str, list[float]]:
    """Return the sequence as columns, with what curves call explained: a sequence subtracts the ridge penalty."""
    return {**model.sequence.to_dict(), "explained": explained.values[1:].tolist()}


def _order_steps(model: Staged, explained: BudgetCurve, folds: Sequence[BudgetCurve]) -> tuple[content.OrderStep, ...]:
    widths, linear, found = groups_with_columns(model), isinstance(model, AnytimeModel), []
    for step, group, cost, spent, gain, part in zip(*order_columns(model, explained).values(), strict=True):
        name = str(group)
        agreement = sum(name in fold.groups[: int(affordable(fold.costs, spent))] for fold in folds) if folds else None
        own = known(gain) if linear else None  # else, gains are those of the model that learned the order
        found.append(content.OrderStep(int(step), name, widths.get(name, 0), cost, spent, own, known(part), agreement))
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
        **({"task": "regression"} if model.classes is None else {"task": "classification", "classes": model.classes}),
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


def setting_texts(model: Staged, given: str = "") -> tuple[content.SettingText, ...]:
    """Return the settings that are not empty as text, and ``given``, if that is not the estimator itself."""
    found = {name: value for name, value in settings_of(model).items() if value not in (None, "()")}
    found |= {"given as": given} if given not in ("", model.estimator) else {}
    texts = (f"{value:g}" if isinstance(value, float) else str(value) for value in found.values())
    return tuple(
        content.SettingText(name, cut(text, LONGEST_IN_REPORT)) for name, text in zip(found, texts, strict=True)
    )


def how_chosen(model: AnytimeModel) -> str:
    """Return how the ridge constant, the correction and the pairs of a model were chosen; "" if they were given."""
    if "alpha_" not in model.learned:
        return ""
    if "cv_scores_" not in model.learned:
        return f"alpha {model.alpha:g} was chosen from the data"
    found = [f"alpha {model.alpha:g}", f"correction {model.learned.get('correction_'):g}"]
    if model.settings.get("interactions") is not None:
        pairs = 0 if model.encoding is None else len(model.encoding.pairs)
        found.append(f"{pairs or 'no'} pair{'' if pairs == 1 else 's'} of columns")
    return f"chosen by cross-validation: {', '.join(found)}"


def target_amounts(model: Staged, y: object = None, weight: object = None) -> tuple[Amount, ...]:
    """Return the means of the targets, or the frequencies of the classes: of rows, or as the model predicts them."""
    names = class_names(model)
    if y is not None:
        n = _num_samples(y)
        means = np.average(model.encode_target(y, n), axis=0, weights=check_weight(weight, n))
        means = np.append(1 - means, means) if len(names) == 2 else means
    elif model.settings.get("class_weight") is not None:  # which hides the frequencies
        return ()
    else:
        means = np.ravel(model.null_answer("predict_proba" if names else "predict"))
    numbered = ("mean",) if means.size == 1 else tuple(f"{k} mean" for k in range(means.size))
    return tuple(map(Amount, names or numbered, map(known, means)))


# -- a budget ----------------------------------------------------------------------------------------------------


def prefix_record(report: Content, budget: float) -> Record:
    """Return what a budget buys in the order, and what to expect of it."""
    stage = report.stage_at(budget)
    value, error = report.expected[stage]
    return {"groups": report.prefix(stage), "cost": report.training_curve.costs[stage], "value": value, "error": error}


def plan_explained(plan: Plan) -> float:
    """Return the share of the training loss that a plan removes, as :func:`order_columns` counts it."""
    return float(training_curve(plan.model_).values[-1])


def plan_record(plan: Plan) -> Record:
    """Return a plan, and what is proven of it, as numbers and in words.

    The value and its bound subtract the ridge penalty and the correction; ``explained`` does not.
    """
    if plan.optimal:
        proof, meaning = "proven best", "No other groups within this budget explain the known rows better."
    elif plan.ratio is not None:
        proof = f"at least {at_least(plan.ratio)} of the best"
        meaning = "Other groups within this budget may explain the known rows a little better, but not more than that."
    else:
        proof = "the best found"
        meaning = "A short search found nothing better within this budget. That there is nothing better is not proven."
    return {
        "groups": plan.groups,
        "cost": plan.cost,
        "explained": plan_explained(plan),
        "value": plan.value,
        "bound": plan.bound,
        "ratio": plan.ratio,
        "optimal": plan.optimal,
        "refitted": plan.refitted,
        "proven": proof,
        "meaning": meaning,
    }


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
        {"group": each.group, "caption": caption_of(each, model.classes is not None), "picture": picture_of(each)}
        for each in effects
    ]
    return {"stage": stage, "effects": drawn, "in_all": in_all}


# -- comparisons and proofs --------------------------------------------------------------------------------------


def method_record(
    name: str, note: str, folds: Sequence[BudgetCurve], total: float, budgets: Sequence[float] = ()
) -> content.ComparedMethod:
    """Return the mean over all budgets up to a total cost, and values at budgets, each with its standard error."""
    table = np.array([[timeliness(fold, total), *fold.at(budgets)] for fold in folds])
    spread = table.std(axis=0, ddof=1) / np.sqrt(len(table)) if len(table) > 1 else np.full(table.shape[1], np.nan)
    (mean, *values), (error, *errors) = (map(known, each.tolist()) for each in (table.mean(axis=0), spread))
    return content.ComparedMethod(name, note, mean, error, tuple(values), tuple(errors))


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
    return content.CertifiedOrder(
        tuple(certified_at(certificate, budgets, total)),
        content.CertifiedShare(*map(float, certificate.timeliness(total))),
        certificate.notes,
        _bound(certificate, total) if metric == "explained" and certificate.proof.blocks else None,
    )


def _bound(certificate: Certificate, total: float) -> content.ReportCurve:
    """Return the bound up to the total cost; at its end there is no next budget, so the last value is repeated."""
    bound = certificate.curve()
    inside = bound.costs < total
    inside[0] = True
    costs, values = bound.costs[inside].tolist(), bound.values[inside].tolist()
    if total > 0:
        costs, values = [*costs, total], [*values, values[-1]]
    return content.ReportCurve(
        BOUND, "upper bound on any set of groups, training data", tuple(costs), tuple(values), ()
    )
