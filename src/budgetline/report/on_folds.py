"""What a report does on every fold: other orders to compare with, and counted probabilities."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.base import clone, is_classifier
from sklearn.utils.validation import _num_samples

from budgetline.arrays import Float, Mask, Positions
from budgetline.baselines import GroupLassoPath
from budgetline.budgets import affordable, points_of_stages
from budgetline.estimators import AnytimeRegressor, StagedEstimators
from budgetline.estimators.base import AnytimeEstimator
from budgetline.estimators.cross_validation import unsearched
from budgetline.evaluation.curve import BudgetCurve
from budgetline.evaluation.held_out import HeldOut
from budgetline.evaluation.resampling import Samples
from budgetline.evaluation.survival import baseline_of, kaplan_meier, survival_of
from budgetline.glm.families import SquaredError
from budgetline.glm.set_families import Cox
from budgetline.inputs import check_survival
from budgetline.model.anytime import AnytimeModel, Staged, as_model, model_and_table
from budgetline.report.builders import costs_differ
from budgetline.report.content import Intervals, Probabilities, RiskGroup, RiskGroups, StageCounts, StageInterval
from budgetline.sequencing import RandomOrder

OWN = "this model"
RISKS, N_TIMES = ("low", "middle", "high"), 25
RiskRows = tuple[Float, Mask, Positions, Float]
Orders = dict[str, tuple[str, dict[str, Any]]]
"""Ways to order groups: name -> (description, settings of an estimator)."""
COVERAGE = 0.9
"""Share of the targets that intervals should contain."""
MOST_STAGES = 40
"""Maximum number of stages, evenly spread, at which probabilities are counted and intervals are measured."""
FINE = (0.001, 0.002, 0.003, 0.005, 0.007)
"""Thresholds below 1 %, mirrored above 99 %, because rare classes have small probabilities."""
THRESHOLDS = np.array([*FINE, *np.arange(1, 100) / 100, *(1 - np.array(FINE[::-1]))]).round(3)


# -- other orders ----------------------------------------------------------------------------------------------


def other_orders(model: Staged, random_state: int) -> Orders:
    """Return the ways to order groups that differ from the model's own; none if its order was given, not learned."""
    given, squares = model.settings, isinstance(model.family, SquaredError)
    if "order" in given:  # of any estimators
        order = given["order"]
        if not isinstance(order, AnytimeEstimator):
            return {}
        given = order.get_params(deep=False)
        squares = not is_classifier(order) and given.get("loss", "squared_error") == "squared_error"
    greedy = {"rule": given.get("rule", "forward"), "cost_sensitive": True, "schedule": "greedy"}
    found = {
        "exact gains (forward)": ("largest exact gain per cost first", {**greedy, "rule": "forward"}),
        "matching pursuit (omp)": ("largest gradient per cost first", {**greedy, "rule": "omp"}),
        "Newton step (score)": ("largest gain of one Newton step per cost first", {**greedy, "rule": "score"}),
        "each group alone": ("largest gain on its own per cost first", {**greedy, "rule": "static"}),
        "costs ignored": ("largest gain first, whatever the cost", {**greedy, "cost_sensitive": False}),
        "cheapest first": ("lowest cost first, whatever the gain", {**greedy, "schedule": "cheapest"}),
        "random order": (f"drawn with seed {random_state}", {**greedy, "schedule": RandomOrder(random_state)}),
    }
    del found["Newton step (score)" if squares else "matching pursuit (omp)"]
    if not costs_differ(model.groups):
        del found["costs ignored"], found["cheapest first"]
    own = {name: given.get(name) for name in greedy}
    return {name: (note, settings) for name, (note, settings) in found.items() if settings != own}


def methods_of(model: Any, orders: Orders) -> dict[str, Any]:
    """Return the model itself, first, and copies with other orders; none is fitted, and none repeats a search."""
    return {OWN: unsearched(model)} | {name: _reordered(model, settings) for name, (_, settings) in orders.items()}


def _reordered(estimator: Any, settings: dict[str, Any]) -> Any:
    """Return an unfitted copy with other settings of the estimator at the end of pipelines and searches."""
    if hasattr(estimator, "steps"):
        name, last = estimator.steps[-1]
        return clone(estimator).set_params(**{name: _reordered(last, settings)})
    if isinstance(estimator, StagedEstimators):
        return clone(estimator).set_params(order=_reordered(estimator.order, settings))
    if hasattr(estimator, "estimator"):
        return clone(estimator).set_params(estimator=_reordered(estimator.estimator, settings))
    if isinstance(estimator, GroupLassoPath):  # it has no rules: compare with a greedy model on the same groups
        return AnytimeRegressor(estimator.feature_groups, estimator.costs, alpha=estimator.alpha, **settings)
    return unsearched(estimator).set_params(**settings)


def calibrated_curve(whole: Staged, fitted: object, rows: Samples, metric: object) -> BudgetCurve | None:
    """Return the curve of a fold whose scores are calibrated as the whole model's; None if these are not.

    A stage of the fold is calibrated like the first stage of the whole model that is compared with it, at its cost.
    """
    if not isinstance(whole, AnytimeModel) or whole.calibration is None:
        return None
    model, seen = model_and_table(fitted, rows.X)
    assert isinstance(model, AnytimeModel)
    own, costs = (np.append(0.0, each.sequence.cumulative_costs) for each in (model, whole))
    like = np.searchsorted(points_of_stages(costs, own), np.arange(own.size))
    calibration = whole.calibration.at(np.minimum(like, whole.n_stages))
    return replace(rows, X=seen).curve(replace(model, calibration=calibration), metric)


# -- probabilities ---------------------------------------------------------------------------------------------


def counted_stages(costs: Sequence[float]) -> list[int]:
    """Return the stages at which probabilities are counted."""
    last = len(costs) - 1
    return sorted({round(k) for k in np.linspace(0, last, min(last + 1, MOST_STAGES)).tolist()})


def counts_on_fold(model: AnytimeModel, fitted: object, rows: Samples, costs: Sequence[float]) -> Float:
    """Count held-out rows of two classes by the probability of the second, shape (stages, 2 classes, bins).

    ``costs`` are those of the stages of the whole model, starting at 0. At each, the fold buys what it can in its own
    order. Its scores are calibrated as those of the whole model: a fold has too few rows to hold out more of them.
    """
    points = counted_stages(costs)
    held = HeldOut.of(fitted, rows.X, rows.y, rows.weight)
    after = _bought(held, costs)
    positive = held.targets[:, 0] > 0.5
    weight = np.ones(positive.size) if held.weight is None else held.weight
    found = np.zeros((after.size, 2, THRESHOLDS.size + 1))
    for stage, view in enumerate(held.views()):
        for here in np.flatnonzero(after == stage).tolist():
            scores = view.respond("decision_function")[:, None]
            chances = model.respond(scores, "predict_proba", points[here])[:, 1]
            bins = np.searchsorted(THRESHOLDS, chances, side="right")
            for k, members in enumerate((~positive, positive)):
                found[here, k] = np.bincount(bins[members], weight[members], THRESHOLDS.size + 1)
    return found


def errors_on_fold(whole: Staged, fitted: object, rows: Samples, costs: Sequence[float]) -> Float:
    """Return y less its prediction for held-out rows, shape (stages, n), at the stages that are counted.

    Where the intervals of the whole model grow with the prediction, errors are divided by what its scale there is,
    relative to that at the mean prediction.
    """
    held, found = HeldOut.of(fitted, rows.X, rows.y), []
    predicted = [view.respond("predict")[:, None] for view in held.views()]
    errors, mean = getattr(whole, "errors", None), whole.null_result("predict").reshape(1, 1)
    for stage, own in zip(counted_stages(costs), _bought(held, costs).tolist(), strict=True):
        scale = 1.0 if errors is None else errors.scale(predicted[own], stage) / errors.scale(mean, stage)
        found.append(((held.targets - predicted[own]) / scale)[:, 0])
    return np.array(found)


def _bought(held: HeldOut, costs: Sequence[float]) -> Positions:
    """Return how many groups the model of a fold buys at the stages that are counted."""
    after = affordable(held.model.sequence.cumulative_costs, np.array([costs[k] for k in counted_stages(costs)]))
    after[0] = 0  # not even free groups
    return np.asarray(after)


def intervals(costs: Sequence[float], folds: Sequence[Float]) -> Intervals:
    """Return intervals from the errors of all folds. To measure a fold, only the errors of the other folds are used."""
    found, ends = [], ((1 - COVERAGE) / 2, (1 + COVERAGE) / 2)
    for k, stage in enumerate(counted_stages(costs)):
        inside = []
        for own, fold in enumerate(folds):
            others = np.concatenate([each[k] for j, each in enumerate(folds) if j != own])
            lower, upper = np.quantile(others, ends, method="weibull")
            inside.append((lower <= fold[k]) & (fold[k] <= upper))
        covered, n = float(np.concatenate(inside).mean()), sum(each.size for each in inside)
        lower, upper = np.quantile(np.concatenate([each[k] for each in folds]), ends, method="weibull").tolist()
        found.append(StageInterval(stage, lower, upper, covered, float(np.sqrt(covered * (1 - covered) / n))))
    return Intervals(COVERAGE, tuple(found))


def risks_on_fold(fitted: object, rows: Samples, budgets: Sequence[float], times: Float) -> list[RiskRows]:
    """Return times, events, thirds of the risks and predicted survival of held-out rows, for every budget."""
    held = HeldOut.of(fitted, rows.X, rows.y)
    (known, hazards), scores = baseline_of(as_model(fitted)), held.all_scores
    found = []
    for stage in (affordable(held.model.sequence.cumulative_costs, np.array(budgets))).tolist():
        risk = scores[:, stage]
        third = np.argsort(np.argsort(risk, kind="stable")) * len(RISKS) // risk.size
        survival = survival_of(risk, known, hazards[stage], times)
        found.append((held.targets[:, 0], held.targets[:, 1] > 0, third, survival))
    return found


def risk_groups(budgets: Sequence[float], times: Float, folds: Sequence[Sequence[RiskRows]]) -> RiskGroups:
    """Return the thirds of the risks at every budget, over all folds."""
    found, of_budgets = [], dict(zip(budgets, zip(*folds, strict=True), strict=True))
    for budget, several in of_budgets.items():
        time, event, third, survival = map(np.concatenate, zip(*several, strict=True))
        for k, name in enumerate(RISKS):
            own = third == k
            observed, predicted = kaplan_meier(time[own], event[own], times), survival[own].mean(axis=0)
            counts = int(own.sum()), int(event[own].sum())
            found.append(RiskGroup(budget, name, *counts, tuple(observed.tolist()), tuple(predicted.tolist())))
    return RiskGroups(tuple(times.tolist()), tuple(found))


def risk_times(model: Staged, y: object) -> Float | None:
    """Return times from 0 to that by which most events have happened; None if the targets are no survival times."""
    if not isinstance(model.family, Cox):
        return None
    baseline_of(as_model(model))  # with strata there is none, and every fold would need one
    time, event = check_survival(y, _num_samples(y))
    return np.linspace(0.0, np.quantile(time[event], 0.9), N_TIMES)


def probabilities(costs: Sequence[float], counts: Sequence[Float]) -> Probabilities:
    """Return the counts over all folds, to six digits."""
    total = [[[float(f"{n:.6g}") for n in row] for row in table] for table in np.sum(counts, axis=0).tolist()]
    stages = (StageCounts(k, *map(tuple, table)) for k, table in zip(counted_stages(costs), total, strict=True))
    return Probabilities(tuple(THRESHOLDS.tolist()), tuple(stages))
