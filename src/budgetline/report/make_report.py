"""From a fitted model, and the data it was fitted to, to its report."""

from __future__ import annotations

from dataclasses import replace

from budgetline.arrays import Float
from budgetline.evaluation.budget_curves import budget_curve, training_curve
from budgetline.evaluation.comparison import fits_on_folds
from budgetline.evaluation.curve import BudgetCurve
from budgetline.evaluation.metrics import as_metric
from budgetline.evaluation.pictures import ScoreEffect
from budgetline.evaluation.resampling import Samples, folds_in_words, make_folds
from budgetline.messages import shown
from budgetline.model.anytime import AnytimeModel, Staged, as_model, as_staged
from budgetline.optimality import Certificate
from budgetline.progress import Progress
from budgetline.report.builders import (
    USUAL_METRICS,
    certified_order,
    check_certificate,
    class_names,
    describe,
    method_record,
    task_name,
)
from budgetline.report.content import ComparedMethods
from budgetline.report.effect_records import effect_records, with_rugs
from budgetline.report.formatting import COST_UNITS, warning_once
from budgetline.report.on_folds import (
    OWN,
    Orders,
    RiskRows,
    calibrated_curve,
    counts_on_fold,
    errors_on_fold,
    intervals,
    methods_of,
    other_orders,
    probabilities,
    risk_groups,
    risk_times,
    risks_on_fold,
)
from budgetline.report.other_data import other_data
from budgetline.report.report import Report

SHARES = (0.1, 0.25, 0.5, 1.0)
"""Methods are compared at these shares of the total cost."""


def make_report(
    model: object,
    X: object = None,
    y: object = None,
    *,
    metric: object = None,
    pos_label: object = None,
    cv: object = 5,
    baselines: bool = True,
    sample_weight: object = None,
    qid: object = None,
    groups: object = None,
    random_state: int = 0,
    title: str | None = None,
    unit: str = COST_UNITS,
    progress: Progress = None,
    certificate: Certificate | None = None,
) -> Report:
    """Return a report on a fitted model: what each budget buys, and how its order compares with other orders.

    ``title`` is the heading, and ``unit`` is the unit of the costs, such as "dollars". With a ``certificate``, the
    report also states how close the order is to optimal. ``random_state`` seeds the folds and the random order.

    Parameters
    ----------
    model : fitted estimator of this library, or a pipeline or search that ends in one
        The model on which to report.
    X, y : the data that the model was fitted to, optional
        If passed, the report also shows cross-validated values and, with ``baselines``, a comparison with other orders.
    metric : str, scorer or function
        As in `budget_curve`. Default by task: "roc_auc", "accuracy", "ndcg@10", "concordance" or "explained".
    cv : int, splitter or iterable
        If an integer, the number of shuffled folds, stratified for a classifier. For other folds, pass a splitter.
    baselines : bool
        Whether to compare the model with other orders on the same folds.
    pos_label, sample_weight, qid, groups, progress
        As in `cross_val_budget_curve`.

    Examples
    --------
    >>> from budgetline import AnytimeRegressor, datasets, make_report
    >>> nhanes = datasets.load_nhanes()
    >>> model = AnytimeRegressor(nhanes.feature_groups).fit(nhanes.data, nhanes.target)
    >>> make_report(model, nhanes.data, nhanes.target, baselines=False, unit="points").headline
    '16 of 524 points buy 94 % of the held-out improvement in explained variance from all 22 groups.'
    """
    metric = metric if pos_label is None else as_metric(metric, pos_label)
    found, rows = as_staged(model), Samples(X, y, sample_weight, qid, groups)
    _check_arguments(model, rows, metric, certificate, title="-" if title is None else title, unit=unit)
    if X is None:
        report = describe(found, training_curve(found))
    else:
        orders = other_orders(found, random_state) if baselines else {}
        folds = make_folds(cv, found.classes is not None, random_state=random_state, grouped=rows.together is not None)
        with warning_once():
            report = _with_data(model, orders, rows, metric, folds, progress)
    effects, in_all = _effects(found, model, X)
    proven = None if certificate is None else certified_order(certificate, report.total_cost, report.measure.name)
    title = _target_name(y) + report.title if title is None else title
    return replace(report, title=title, unit=unit, effects=effects, effects_in_all=in_all, certificate=proven)


def _check_arguments(model: object, rows: Samples, metric: object, certificate: object, **texts: object) -> None:
    """Raise an error unless the arguments of a report fit together."""
    if (rows.X is None) != (rows.y is None):
        raise ValueError("pass both X and y, or neither")
    if rows.X is not None and not hasattr(model, "get_params"):
        raise TypeError(f"with X and y, pass the estimator instead of its {type(model).__name__}: every fold is fitted")
    if rows.X is not None and not (hasattr(rows.X, "shape") or hasattr(rows.X, "__len__")):
        raise TypeError(f"X must be a table in memory, because folds are drawn from it, not {type(rows.X).__name__}")
    if rows.X is None:
        if not isinstance(as_staged(model), AnytimeModel):
            raise ValueError("the report of StagedEstimators needs X and y, to evaluate its stages")
        for name, given in (("sample_weight", rows.weight), ("qid", rows.qid), ("groups", rows.groups)):
            if given is not None:
                raise ValueError(f"{name} needs X and y")
        if metric not in (None, "explained"):
            raise ValueError(f"metric={shown(metric)} needs X and y: without them, only 'explained' is available")
    for name, text in texts.items():
        if not (isinstance(text, str) and text.strip()):
            raise ValueError(f"{name} must be a non-empty string, got {shown(text)}")
    if certificate is not None:
        check_certificate(certificate, as_model(model))


def _target_name(y: object) -> str:
    """Return "name: " for targets with a name, as of a series."""
    name = getattr(y, "name", None)
    return f"{name}: " if isinstance(name, str) and name.strip() else ""


def _effects(found: Staged, model: object, X: object) -> tuple[tuple[ScoreEffect, ...], int]:
    """Return the largest effects, with marks where the data are, and the number of all."""
    if not isinstance(found, AnytimeModel):
        return (), 0
    effects, in_all = effect_records(found)
    return effects if X is None else with_rugs(effects, model, X), in_all


def _with_data(
    model: object,
    orders: Orders,
    rows: Samples,
    metric: object,
    cv: object,
    progress: Progress,
) -> Report:
    """Return the report with curves on the data, cross-validated, and other orders on the same folds."""
    found = as_staged(model)
    rows = Samples.given(rows.X, rows.y, rows.weight, rows.qid, rows.groups)
    if metric is None:
        usual = USUAL_METRICS.get(task_name(found), "explained")
        metric = usual if found.classes is None else "roc_auc" if found.classes.size == 2 else "accuracy"
    splits, costs = rows.splits(cv, found.classes is not None), (0.0, *found.sequence.cumulative_costs.tolist())
    # 1. fit every method to every fold, and look at the models of the folds
    two = isinstance(found, AnytimeModel) and len(class_names(found)) == 2
    of_numbers = task_name(found) == "regression" and not found.target_shape and rows.weight is None
    errors, calibrated = list[Float](), list[BudgetCurve | None]()
    at = tuple(share * costs[-1] for share in SHARES)
    bought = tuple(budget for budget in at if found.sequence.stage_at(budget))
    times, risks = risk_times(found, rows.y), list[list[RiskRows]]()
    curves, counts = {name: list[BudgetCurve]() for name in (OWN, *orders)}, list[Float]()
    for fit in fits_on_folds(methods_of(model, orders), rows, metric, splits, progress):
        curves[fit.method].append(fit.curve)
        if fit.method == OWN:
            calibrated.append(calibrated_curve(found, fit.fitted, rows.take(fit.test), metric))
        if fit.method == OWN and two:
            counts.append(counts_on_fold(as_model(found), fit.fitted, rows.take(fit.test), costs))
        if fit.method == OWN and of_numbers:
            errors.append(errors_on_fold(found, fit.fitted, rows.take(fit.test), costs))
        if fit.method == OWN and times is not None:
            risks.append(risks_on_fold(fit.fitted, rows.take(fit.test), bought, times))
    # 2. describe the model and what was found
    training = budget_curve(model, rows.X, rows.y, metric=metric, sample_weight=rows.weight, qid=rows.qid)
    own = [curve for curve in calibrated if curve is not None]
    held_out, made = BudgetCurve.mean(own or curves[OWN]), folds_in_words(cv)
    report = describe(found, training, held_out, y=rows.y, weight=rows.weight, folds_made=made)
    as_fitted = "as fitted" + (", but not calibrated, like the other methods" if own else "")
    notes = {OWN: f"{as_fitted}; each fold learns its own order"} | {name: note for name, (note, _) in orders.items()}
    methods = tuple(method_record(name, note, curves[name], report.total_cost, at) for name, note in notes.items())
    if others := other_data(found, model, rows):
        first = replace(report.training_curve, label="this model on these rows")
        report = replace(report, other_data=others, curves=(first, *report.curves[1:]))
    return replace(
        report,
        comparison=ComparedMethods(SHARES, at, methods) if orders else None,
        probabilities=probabilities(costs, counts) if counts else None,
        intervals=intervals(costs, errors) if len(errors) > 1 else None,
        risks=None if times is None else risk_groups(bought, times, risks),
    )
