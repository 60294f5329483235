"""From a fitted model, and the data it was fitted to, to the record of its report."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import date
from importlib.metadata import version
from typing import Any

import numpy as np
from sklearn.base import clone, is_classifier
from sklearn.utils.validation import _num_samples

from budgetline.arrays import Float
from budgetline.baselines import GroupLassoPath
from budgetline.budgets import affordable
from budgetline.data import Source
from budgetline.estimators import AnytimeRegressor, StagedEstimators
from budgetline.estimators.base import AnytimeEstimator
from budgetline.estimators.cross_validation import unsearched
from budgetline.evaluation import BudgetCurve, Comparison, budget_curve
from budgetline.evaluation.budget_curves import training_curve
from budgetline.evaluation.comparison import compared
from budgetline.evaluation.metrics import label_of
from budgetline.evaluation.resampling import Samples, folds_in_words, make_folds
from budgetline.inputs import check_number, check_weight
from budgetline.messages import shown
from budgetline.model.anytime import AnytimeModel, as_model, as_staged
from budgetline.model.prefixes import PrefixModels
from budgetline.model.staged import Staged
from budgetline.objectives.families import SquaredError
from budgetline.optimality import Certificate
from budgetline.optimality.certificate import SHOWN
from budgetline.optimality.quadratic import design_groups
from budgetline.progress import Progress
from budgetline.report import content
from budgetline.report.content import BOUND, CROSS_VALIDATED, PLANS, TRAINING
from budgetline.report.effects import effects_in_report, with_rugs
from budgetline.report.plans import PlansOnFolds, budgets_between
from budgetline.report.probabilities import ProbabilitiesOnFolds
from budgetline.report.report import Report
from budgetline.sequencing import RandomOrder
from budgetline.statistics import Moments

OWN = "this model"
SHARES = (0.1, 0.25, 0.5, 1.0)
"""Methods are compared at these shares of the total cost."""
LOSSES = {"squared_error": "squared error", "log_loss": "log loss", "poisson": "Poisson deviance"}
"""What a report calls the losses; others go by their class."""
LONGEST_SETTING = 200
"""Longer settings are cut to this number of characters."""
SAME_DATA = 1e-6
"""Values of R(∅) that differ by less, relatively, are of the same data."""
Orders = dict[str, tuple[str, dict[str, Any]]]
"""Ways to order groups: name -> (description, settings of an estimator)."""


def make_report(
    model: Any,
    X: Any = None,
    y: Any = None,
    *,
    metric: Any = None,
    cv: Any = 5,
    baselines: bool = True,
    sample_weight: Any = None,
    groups: object = None,
    random_state: int = 0,
    title: str | None = None,
    unit: str = "cost units",
    progress: Progress = None,
    certificate: Certificate | None = None,
    plan_seconds: float = 5.0,
) -> Report:
    """Return the report of a fitted model: what each budget buys, and whether the order is worth it.

    Parameters
    ----------
    model : fitted estimator of this library, or a pipeline or search that ends in one
    X, y : the data that the model was fitted to, optional
        With them, the report has cross-validated values and a comparison with other orders; every fold learns its own
        order. Without them, it has the training curve only; :class:`StagedEstimators` need them.
    metric : as in :func:`budget_curve`
        Default: "roc_auc" for two classes, "accuracy" for more, else "explained"; without data always "explained".
    cv : int, splitter or iterable
        The rows of a number of folds are shuffled, classes in equal shares; for others give a splitter.
    baselines, plan_seconds : bool, float
        Whether to compare with other rules and baselines on the same folds, and how long to search in all for what
        budgets buy that are known in advance (0: not at all).
    sample_weight, groups, progress : as in :func:`cross_val_budget_curve`
    random_state : int
        Seed of the folds, and of the baseline that orders the groups at random.
    title, unit : str
        The heading, by default with the name of y if it has one, and the unit of the costs, such as "dollars".
    certificate : Certificate, optional
        The certificate of this model, ``model.certificate()``: the report then shows how close the order is to optimal.

    Examples
    --------
    >>> from budgetline import AnytimeRegressor, make_report
    >>> from budgetline.datasets import load_nhanes
    >>> nhanes = load_nhanes()
    >>> model = AnytimeRegressor(nhanes.feature_groups).fit(nhanes.data, nhanes.target)
    >>> make_report(model, nhanes.data, nhanes.target, baselines=False, unit="points").headline
    '16 of 524 points buy 94 % of the held-out improvement from all 22 groups.'
    """
    found, rows = as_staged(model), Samples(X, y, sample_weight, None, groups)
    title = _title(found, y) if title is None else title
    _check(model, rows, metric, (certificate, plan_seconds), title=title, unit=unit)
    report = _of_model(found, type(model).__name__, title, unit)
    if X is not None:
        orders = other_orders(found, random_state) if baselines else {}
        folds = make_folds(cv, found.classes is not None, random_state=random_state, grouped=groups is not None)
        report = _with_data(report, model, orders, rows, metric, folds, progress, plan_seconds)
    if certificate is not None:
        report = replace(report, certificate=certified_shares(certificate, report.total_cost, report.measure.name))
    return report


def _title(model: Staged, y: object) -> str:
    target, what = getattr(y, "name", None), f"{model.estimator} of {len(model.sequence)} groups"
    return f"{target}: {what}" if isinstance(target, str) and target.strip() else what


def _check(model: object, rows: Samples, metric: object, extras: tuple[object, object], **texts: object) -> None:
    (certificate, plan_seconds), X, y = extras, rows.X, rows.y
    check_number("plan_seconds", plan_seconds, "number of seconds", ge=0)
    if isinstance(X, Moments | Source):
        raise TypeError(f"X must be a table in memory, to draw folds from, not {type(X).__name__}")
    if X is not None and isinstance(model, AnytimeModel | PrefixModels):
        kind = type(model).__name__
        raise TypeError(f"with X and y, give the estimator instead of its {kind}: folds are fitted anew")
    if (X is None) != (y is None):
        raise ValueError("give both X and y, or neither")
    if X is None and not isinstance(as_staged(model), AnytimeModel):
        raise ValueError("the report of StagedEstimators needs X and y, on which its stages are judged")
    for name, given in (("sample_weight", rows.weight), ("groups", rows.groups)):
        if X is None and given is not None:
            raise ValueError(f"{name} needs X and y")
    if X is None and metric not in (None, "explained"):
        raise ValueError(f"metric={shown(metric)} needs X and y: without them, only 'explained' is available")
    for name, text in texts.items():
        if not (isinstance(text, str) and text.strip()):
            raise ValueError(f"{name} must be a non-empty string, got {shown(text)}")
    if certificate is not None:
        check_certificate(certificate, as_model(model))


def _of_model(model: Staged, given: str, title: str, unit: str) -> Report:
    """Return the report without data."""
    groups, sequence, chosen, training = model.groups, model.sequence, set(model.sequence.groups), training_curve(model)
    widths = dict(zip(groups.names, map(len, groups.columns), strict=True))
    kind = "regression" if model.classes is None else "classification"
    loss = LOSSES.get(model.family.loss, type(model.family).__name__)
    moments = model.moments if isinstance(model, AnytimeModel) else None
    rows = None if moments is None else moments.n_samples
    effects, n_effects = effects_in_report(model) if isinstance(model, AnytimeModel) else ((), 0)
    if not isinstance(model, AnytimeModel):  # the gains are those of the model that learned the order
        sequence = replace(sequence, gains=np.full(len(sequence), np.nan))
    return Report(
        title=title,
        version=version("budgetline"),
        date=date.today().isoformat(),
        unit=unit,
        task=content.Task(kind, model.estimator, loss, _labels(model)),
        data=content.Data(rows, model.source.n_features, len(groups), False, _prior(model)),
        settings=_settings(model, given),
        measure=_measure(model, training),
        sequence=tuple(
            content.Stage(step, group, widths[group], cost, spent, _known(gain), _known(training.values[step]), None)
            for step, group, cost, spent, gain, _ in zip(*sequence.to_dict().values(), strict=True)
        ),
        left_out=tuple(name for name in groups.names if name not in chosen),
        curves=(_curve(TRAINING, "this model on its training data", training),),
        comparison=None,
        shared=tuple(content.SharedBy(name, *entry) for name, entry in groups.shared.items()),
        required=tuple(content.Required(name, required) for name, required in groups.requires.items()),
        effects=effects,
        effects_in_all=n_effects,
    )


def _with_data(
    report: Report, model: Any, orders: Orders, rows: Samples, metric: Any, cv: Any, progress: Progress, seconds: float
) -> Report:
    """Add the curves on the data, cross-validated, and other orders and plans on the same folds."""
    rows = Samples.given(rows.X, rows.y, rows.weight, None, rows.groups)
    found, X, y, weight = as_staged(model), rows.X, rows.y, rows.weight
    if metric is None:
        metric = "explained" if found.classes is None else "roc_auc" if found.classes.size == 2 else "accuracy"
    methods = {OWN: unsearched(model)} | {name: reordered(model, settings) for name, (_, settings) in orders.items()}
    splits = rows.splits(cv, found.classes is not None)
    plans = PlansOnFolds(OWN, metric, budgets_between(report.training_curve.costs), seconds / (1 + len(splits)))
    linear, two = isinstance(found, AnytimeModel), found.classes is not None and found.classes.size == 2
    chances = ProbabilitiesOnFolds(OWN, report.training_curve.costs)
    wanted = {plans.watch: seconds > 0 and plans.budgets and linear, chances.watch: linear and two}

    def watch(name: str, fitted: object, held_out: Samples) -> None:
        for each in (each for each, useful in wanted.items() if useful):
            each(name, fitted, held_out)

    judged = compared(methods, rows, metric, splits, progress, (1.0, OWN, (), "step"), watch)
    training, own = budget_curve(model, X, y, metric=metric, sample_weight=weight), judged.curves[OWN]
    curves = (
        _curve(TRAINING, "this model on its training data", training),
        _curve(CROSS_VALIDATED, f"held-out: mean of {len(own.folds)} folds, each with its own order", own),
    )
    explained = curves[0].values[1:] if metric == "explained" else [stage.explained for stage in report.sequence]
    target = _target(found, y, check_weight(weight, _num_samples(X)))
    return replace(
        report,
        data=replace(report.data, rows=_num_samples(X), weighted=weight is not None, target=target),
        measure=_measure(found, training, len(own.folds), folds_in_words(cv)),
        sequence=tuple(
            replace(stage, explained=value, agreement=_agreement(stage, own.folds))
            for stage, value in zip(report.sequence, explained, strict=True)
        ),
        curves=curves,
        comparison=_comparison(judged, orders, report.total_cost) if orders else None,
        effects=with_rugs(report.effects, model, X),
        plans=_plans(plans, model) if plans.curves else None,
        probabilities=chances.counts() if chances.tables else None,
    )


def _plans(found: PlansOnFolds, model: object) -> content.Plans | None:
    """Return what known budgets buy; None if all sets are prefixes of the sequence."""
    sets = found.sets(model)
    label = "held-out, if the budget is fixed beforehand: the best set found for it"
    mean = _curve(PLANS, label, BudgetCurve.mean(found.curves))
    return content.Plans(found.budgets, tuple(content.Purchase(*each) for each in sets), mean) if sets else None


def _labels(model: Staged) -> tuple[str, ...]:
    return () if model.classes is None else tuple(map(str, model.classes.tolist()))


def _target(model: Staged, y: Any, weight: Float | None) -> tuple[content.Amount, ...]:
    """Return the means of the targets, or the frequencies of the classes."""
    means = np.average(model.encode_target(y, _num_samples(y)), axis=0, weights=weight)
    return _amounts(model, np.append(1 - means, means) if len(_labels(model)) == 2 else means)


def _prior(model: Staged) -> tuple[content.Amount, ...]:
    """Return the same as the model without groups predicts them; weights of classes hide their frequencies."""
    if model.settings.get("class_weight") is not None:
        return ()
    method = "predict" if model.classes is None else "predict_proba"
    return _amounts(model, np.ravel(model.null_answer(method)))


def _amounts(model: Staged, means: Float) -> tuple[content.Amount, ...]:
    numbered = ("mean",) if means.size == 1 else tuple(f"{k} mean" for k in range(means.size))
    return tuple(map(content.Amount, _labels(model) or numbered, map(_known, means)))


def _settings(model: Staged, given: str) -> tuple[content.Setting, ...]:
    """Return the settings of the estimator as text; costs are in the sequence."""
    values = {"feature_groups": None} | dict(model.settings) | {"feature_groups": model.groups}
    found = {name: shown(value, LONGEST_SETTING) for name, value in values.items() if name != "costs"}
    if isinstance(model, AnytimeModel) and "alpha_" in model.learned:
        found["alpha_ (chosen)"] = f"{model.alpha:g}"
    if given != model.estimator:
        found["given as"] = given
    return tuple(map(content.Setting, found, found.values()))


def _measure(model: Staged, curve: BudgetCurve, folds: int = 0, made: str = "") -> content.Measure:
    text, style = label_of(curve.metric)
    if curve.metric == "explained":
        text = f"explained {'variance' if isinstance(model.family, SquaredError) else 'deviance'}"
    return content.Measure(curve.metric, text, style, bool(curve.greater_is_better), folds, made)


def _agreement(stage: content.Stage, folds: Sequence[BudgetCurve]) -> int:
    """Return how many folds, each with its own order, bought the group of a stage by its cost."""
    return sum(stage.group in fold.groups[: int(affordable(fold.costs, stage.cumulative_cost))] for fold in folds)


def _curve(kind: str, label: str, curve: BudgetCurve) -> content.Curve:
    values, errors = (() if v is None else tuple(map(_known, v)) for v in (curve.values, curve.errors))
    return content.Curve(kind, label, tuple(curve.costs.tolist()), values, errors)


def _comparison(judged: Comparison, orders: Orders, total: float) -> content.Methods:
    """Return timeliness and values at shares of the total cost of all methods."""
    budgets = tuple(share * total for share in SHARES)
    notes = {OWN: "as fitted; each fold learns its own order"} | {name: note for name, (note, _) in orders.items()}
    found = []
    for name, row in judged.summary().items():
        mean = _curve(name, "", BudgetCurve.mean(judged.curves[name].folds, grid=budgets))
        values, errors = zip(*map(mean.at, budgets), strict=True)
        timely = _known(row["timeliness"]), _known(row["error"])
        found.append(content.Method(name, notes[name], *timely, values, errors))
    return content.Methods(SHARES, budgets, tuple(found))


def _known(value: float) -> float | None:
    """Return a number, None if it is not finite."""
    return float(value) if np.isfinite(value) else None


def other_orders(model: Staged, random_state: int) -> Orders:
    """Return the ways to order groups that differ from a model's own; none if its order is given, not learned."""
    given, squares = model.settings, isinstance(model.family, SquaredError)
    if "order" in given:  # of any estimators
        order = given["order"]
        if not isinstance(order, AnytimeEstimator):
            return {}
        given = order.get_params(deep=False)
        squares = not is_classifier(order) and given.get("loss", "squared_error") == "squared_error"
    greedy = {"rule": given.get("rule", "fr"), "cost_sensitive": True, "schedule": "greedy"}
    fr, omp, score, static = ({**greedy, "rule": rule} for rule in ("fr", "omp", "score", "static"))
    found = {
        "exact gains (fr)": ("largest exact gain per cost first", fr),
        "matching pursuit (omp)": ("largest gradient per cost first", omp),
        "Newton step (score)": ("largest gain of one Newton step per cost first", score),
        "each group alone": ("largest gain on its own per cost first", static),
        "costs ignored": ("largest gain first, whatever the cost", {**greedy, "cost_sensitive": False}),
        "cheapest first": ("lowest cost first, whatever the gain", {**greedy, "schedule": "cheapest"}),
        "random order": (f"drawn with seed {random_state}", {**greedy, "schedule": RandomOrder(random_state)}),
    }
    del found["Newton step (score)" if squares else "matching pursuit (omp)"]
    if not model.groups.shared and len(set(model.groups.costs.tolist())) == 1:
        found = {name: entry for name, entry in found.items() if name not in ("costs ignored", "cheapest first")}
    own = {name: given.get(name) for name in greedy}
    return {name: (note, settings) for name, (note, settings) in found.items() if settings != own}


def reordered(estimator: Any, settings: dict[str, Any]) -> Any:
    """Return an unfitted copy with other settings of the estimator at the end of pipelines and searches."""
    if hasattr(estimator, "steps"):
        name, last = estimator.steps[-1]
        return clone(estimator).set_params(**{name: reordered(last, settings)})
    if isinstance(estimator, StagedEstimators):
        return clone(estimator).set_params(order=reordered(estimator.order, settings))
    if hasattr(estimator, "estimator"):
        return clone(estimator).set_params(estimator=reordered(estimator.estimator, settings))
    if isinstance(estimator, GroupLassoPath):  # it has no rules: compare with a greedy model on the same groups
        return AnytimeRegressor(estimator.feature_groups, estimator.costs, alpha=estimator.alpha, **settings)
    return unsearched(estimator).set_params(**settings)


def check_certificate(certificate: object, model: AnytimeModel) -> None:
    """Raise an error unless a certificate is about the sequence of a model."""
    if not isinstance(certificate, Certificate):
        raise TypeError(f"certificate must be a Certificate, such as model.certificate(), not {shown(certificate)}")
    theirs, ours, null_value = certificate.feature_groups, design_groups(model), model.sequence.null_value
    shared = (theirs.shared, theirs.requires) != (ours.shared, ours.requires)
    differences = {
        f"is about sets {certificate.condition} only": bool(certificate.condition),
        "is about what groups explain less a correction": certificate.penalties is not None,
        "has other groups": theirs.names != ours.names or theirs.columns != ours.columns,
        "has other costs": shared or not np.array_equal(theirs.costs, ours.costs),
        "has another order": not np.array_equal(certificate.order, model.sequence.order),
        f"has alpha={certificate.alpha:g}, the model {model.alpha:g}": certificate.alpha != model.alpha,
        f"is about loss {shown(certificate.loss)}": (certificate.loss == "squared_error") != model.squared_error,
        "is about other data": not abs(certificate.null_value - null_value) <= SAME_DATA * null_value,
    }
    if found := [name for name, differs in differences.items() if differs]:
        raise ValueError(f"the certificate is not of this model: it {found[0]}")


def certified_shares(certificate: Certificate, total: float, metric: str) -> content.CertifiedShares:
    """Return what is certified up to a total cost, with the curve of the bound if it is on the metric."""
    scale = certificate.null_value if certificate.null_value > 0 else 1.0
    shares = SHOWN if total > 0 else (1.0,)
    budgets = tuple(share * total for share in shares)
    achieved, bounds, ratios = np.transpose([certificate.at(budget) for budget in budgets])
    return content.CertifiedShares(
        shares,
        budgets,
        tuple((achieved / scale).tolist()),
        tuple((bounds / scale).tolist()),
        tuple(ratios.tolist()),
        content.CertifiedShare(*map(float, certificate.timeliness(total))),
        certificate.notes,
        _bound(certificate, total) if metric == "explained" and certificate.proof.blocks else None,
    )


def _bound(certificate: Certificate, total: float) -> content.Curve:
    """Return the bound up to the total cost; at its end there is no next budget, so the last value is repeated."""
    bound = certificate.curve()
    inside = bound.costs < total
    inside[0] = True
    costs, values = bound.costs[inside].tolist(), bound.values[inside].tolist()
    if total > 0:
        costs, values = [*costs, total], [*values, values[-1]]
    return content.Curve(BOUND, "upper bound on any set of groups, training data", tuple(costs), tuple(values), ())
