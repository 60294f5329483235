"""From a fitted model, and the data it learned from, to the record of its report."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import date
from importlib.metadata import version
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone
from sklearn.utils.validation import _num_samples

from budgetline.budgets import affordable
from budgetline.data import Source
from budgetline.evaluation import BudgetCurve, Comparison, budget_curve, compare
from budgetline.evaluation.metrics import Metric, as_metric
from budgetline.inputs import check_known, check_target, check_weight
from budgetline.messages import shown
from budgetline.model.anytime import AnytimeModel, as_model
from budgetline.objectives.families import SquaredError
from budgetline.optimality import Certificate
from budgetline.progress import Progress
from budgetline.report.baselines import OWN, Baseline, baselines_of, varied
from budgetline.report.content import (
    CROSS_VALIDATED,
    TRAINING,
    Amount,
    Curve,
    Data,
    Measure,
    Method,
    Required,
    Rivals,
    Setting,
    SharedCost,
    Stage,
    Task,
)
from budgetline.report.nearness import check_certificate, nearness_of
from budgetline.report.report import Report
from budgetline.statistics import Moments

Float = NDArray[np.float64]

SHARES = (0.1, 0.25, 0.5, 1.0)
"""Methods are compared at these shares of the whole cost."""
LABELS = {
    "accuracy": ("accuracy", "percent"),
    "roc_auc": ("ROC AUC", "fixed"),
    "r2": ("R²", "fixed"),
    "mse": ("mean squared error", "general"),
    "log_loss": ("log loss", "fixed"),
}
"""How metrics are called in a report, and the style of their numbers."""
LOSSES = {"SquaredError": "squared error", "Logistic": "log loss", "Softmax": "log loss", "Poisson": "Poisson deviance"}
LONGEST_SETTING = 200
"""Settings of more characters are cut."""


@dataclass(frozen=True)
class _Judged:
    """What the data say: the model's curve on them, and its and the baselines' cross-validated ones."""

    fitted: BudgetCurve
    comparison: Comparison
    baselines: tuple[Baseline, ...]

    @property
    def own(self) -> BudgetCurve:
        """The cross-validated curve of the model's own way."""
        return self.comparison.curves[OWN]


def make_report(
    model: Any,
    X: Any = None,
    y: Any = None,
    *,
    metric: Any = None,
    cv: Any = 5,
    baselines: bool = True,
    sample_weight: Any = None,
    random_state: int = 0,
    title: str | None = None,
    unit: str = "cost units",
    progress: Progress = None,
    certificate: Certificate | None = None,
) -> Report:
    """Return the report of a fitted model: what each budget buys, and whether the order is worth it.

    Parameters
    ----------
    model : fitted estimator of this library, or a pipeline or search that ends in one
    X, y : the data that the model was fitted to, optional
        With them the report has cross-validated values and a comparison; every fold learns its own order. Without them
        it has the training curve alone.
    metric : as in :func:`budget_curve`
        Default: "roc_auc" for two classes, "accuracy" for more, else "explained"; without data always "explained".
    cv : int, splitter or iterable
    baselines : bool
        Whether to compare with other rules and baselines on the same folds.
    sample_weight : array of shape (n,), optional
    random_state : int
        Seed of the baseline that orders the groups at random.
    title : str, optional
    unit : str
        What costs are counted in, such as "dollars".
    progress : bool or None
        Whether to show a progress bar; None: on a terminal, where tqdm is installed.
    certificate : Certificate, optional
        That of this model, ``model.certificate()``: the report then tells how near the order comes to the best.

    Examples
    --------
    >>> from budgetline import AnytimeRegressor, make_report
    >>> from budgetline.datasets import load_nhanes
    >>> nhanes = load_nhanes()
    >>> model = AnytimeRegressor(nhanes.feature_groups).fit(nhanes.data, nhanes.target)
    >>> make_report(model, nhanes.data, nhanes.target, baselines=False, unit="points").headline
    '16 of 524 points buy 95 % of what all 22 groups bring.'
    """
    inner = _check(model, X, y, metric, sample_weight, title, unit)
    check_certificate(certificate, inner)
    measure = as_metric(_default_metric(inner, X) if metric is None else metric)
    judged = None
    if X is not None:
        rivals = tuple(baselines_of(inner, _is_squared(inner), random_state)) if baselines else ()
        judged = _judge(model, X, y, measure, cv, rivals, sample_weight, progress)
    given = f"{inner.estimator} of {len(inner.sequence)} groups" if title is None else title
    made = _made(model, _data(inner, X, y, sample_weight), measure, judged, given, unit)
    return made if certificate is None else replace(made, certificate=nearness_of(certificate, made))


def _made(model: Any, data: Data, measure: Metric, judged: _Judged | None, title: str, unit: str) -> Report:
    """Put all parts together."""
    inner = as_model(model)
    chosen = set(inner.sequence.groups)
    return Report(
        title=title,
        version=version("budgetline"),
        date=date.today().isoformat(),
        unit=unit,
        task=_task(inner),
        data=data,
        settings=_settings(model, inner),
        measure=_measure(inner, measure, judged),
        sequence=_stages(inner, judged),
        left_out=tuple(name for name in inner.groups.names if name not in chosen),
        curves=_curves(inner, judged),
        comparison=None if judged is None or not judged.baselines else _rivals(inner, judged),
        shared=tuple(SharedCost(name, *entry) for name, entry in inner.groups.shared.items()),
        required=tuple(Required(name, groups) for name, groups in inner.groups.requires.items()),
    )


def _check(model: Any, X: Any, y: Any, metric: Any, sample_weight: Any, title: Any, unit: Any) -> AnytimeModel:
    """Check what was given; return the model."""
    inner = as_model(model)
    if isinstance(X, Moments | Source):
        raise TypeError(f"X must be a table in memory, from which folds are drawn, not {type(X).__name__}")
    if (X is None) != (y is None):
        raise ValueError("give both of X and y, or none")
    if X is None and sample_weight is not None:
        raise ValueError("sample_weight belongs to X and y: give them, too")
    if X is None and metric not in (None, "explained"):
        raise ValueError(f"metric={shown(metric)} needs X and y: without them only 'explained' is known")
    for name, value in (("title", title), ("unit", unit)):
        if not (isinstance(value, str) and value.strip()) and (name, value) != ("title", None):
            raise ValueError(f"{name} must be a text, got {shown(value)}")
    return inner


def _default_metric(inner: AnytimeModel, X: Any) -> str:
    if X is None or inner.classes is None:
        return "explained"
    return "roc_auc" if inner.classes.size == 2 else "accuracy"


def _is_squared(inner: AnytimeModel) -> bool:
    return isinstance(inner.family, SquaredError)


def _judge(
    model: Any, X: Any, y: Any, measure: Metric, cv: Any, baselines: tuple[Baseline, ...], weight: Any, progress: Any
) -> _Judged:
    """Fit the model's way and the baselines on the same folds, and judge the fitted model on the data itself."""
    estimators = {OWN: clone(model)} | {baseline.name: varied(model, baseline.settings) for baseline in baselines}
    found = compare(
        estimators, X, y, metric=measure, cv=cv, interpolation="step", sample_weight=weight, progress=progress
    )
    return _Judged(budget_curve(model, X, y, metric=measure, sample_weight=weight), found, baselines)


def _task(inner: AnytimeModel) -> Task:
    classes = tuple(map(str, inner.classes.tolist())) if inner.classes is not None else ()
    family = type(inner.family).__name__
    kind = "classification" if classes else "regression"
    return Task(kind, inner.estimator, LOSSES.get(family, str(getattr(inner.family, "name", family))), classes)


def _data(inner: AnytimeModel, X: Any, y: Any, sample_weight: Any) -> Data:
    columns, groups = inner.layout.n_features, len(inner.groups)
    if X is None:
        rows = None if inner.moments is None else int(inner.moments.n_samples)
        return Data(rows, columns, groups, False, _training_target(inner))
    n = int(_num_samples(X))
    return Data(n, columns, groups, sample_weight is not None, _target(inner, y, check_weight(sample_weight, n)))


def _target(inner: AnytimeModel, y: Any, weight: Float | None) -> tuple[Amount, ...]:
    """Return the means of the targets, or the frequencies of the classes."""
    if inner.classes is not None:
        mass = np.bincount(check_known(y, _num_samples(y), inner.classes), weight, inner.classes.size)
        return _amounts(inner, mass / mass.sum())
    return _amounts(inner, np.average(check_target(y, _num_samples(y))[0], axis=0, weights=weight))


def _training_target(inner: AnytimeModel) -> tuple[Amount, ...]:
    """Return the same as the model before any group knows it; weights of classes hide their frequencies."""
    if inner.settings.get("class_weight") is not None:
        return ()
    method = "predict_proba" if inner.classes is not None else "predict"
    return _amounts(inner, np.ravel(inner.respond(inner.stages.null_intercept[None], method)))


def _amounts(inner: AnytimeModel, values: Float) -> tuple[Amount, ...]:
    if inner.classes is not None:
        names = [str(label) for label in inner.classes.tolist()]
    else:
        names = ["mean"] if values.size == 1 else [f"{k} mean" for k in range(values.size)]
    return tuple(map(Amount, names, _known(values)))


def _settings(model: Any, inner: AnytimeModel) -> tuple[Setting, ...]:
    """Return the settings of the estimator as text; groups and costs are in the sequence."""
    found = {"feature_groups": None} | dict(inner.settings) | {"feature_groups": inner.groups}
    found = {name: shown(value, LONGEST_SETTING) for name, value in found.items()}
    found.pop("costs", None)
    if "alpha_" in inner.learned:
        found["alpha_ (chosen)"] = f"{inner.alpha:g}"
    if hasattr(model, "steps") or hasattr(model, "best_estimator_"):
        found["inside of"] = type(model).__name__
    return tuple(Setting(name, text) for name, text in found.items())


def _measure(inner: AnytimeModel, measure: Metric, judged: _Judged | None) -> Measure:
    label, style = LABELS.get(measure.name, (measure.name, "general"))
    if measure.name == "explained":
        label, style = f"explained {'variance' if _is_squared(inner) else 'deviance'}", "percent"
    folds = 0 if judged is None else len(judged.own.folds)
    return Measure(measure.name, label, style, bool(measure.greater_is_better), folds)


def _stages(inner: AnytimeModel, judged: _Judged | None) -> tuple[Stage, ...]:
    sequence = inner.sequence
    widths = dict(zip(inner.groups.names, map(len, inner.groups.columns), strict=True))
    gains, explained = _known(sequence.gains), _known(sequence.explained)
    found = []
    for k, (group, cost, spent) in enumerate(
        zip(sequence.groups, sequence.costs.tolist(), sequence.cumulative_costs.tolist(), strict=True)
    ):
        agreement = None if judged is None else sum(_buys(fold, group, spent) for fold in judged.own.folds)
        found.append(Stage(k + 1, group, widths[group], cost, spent, gains[k], explained[k], agreement))
    return tuple(found)


def _buys(fold: BudgetCurve, group: str, budget: float) -> bool:
    """Return whether a fold's own sequence has bought a group at a budget."""
    return group in fold.groups[: int(affordable(fold.costs, budget))]


def _curves(inner: AnytimeModel, judged: _Judged | None) -> tuple[Curve, ...]:
    fitted = BudgetCurve.of(inner) if judged is None else judged.fitted
    costs = tuple(fitted.costs.tolist())
    curves = [Curve(TRAINING, "this model on the data it learned from", costs, _known(fitted.values), ())]
    if judged is not None:
        own = judged.own
        errors = () if own.errors is None else _known(own.errors)
        label = f"mean of {len(own.folds)} folds, each with its own order"
        curves.append(Curve(CROSS_VALIDATED, label, tuple(own.costs.tolist()), _known(own.values), errors))
    return tuple(curves)


def _rivals(inner: AnytimeModel, judged: _Judged) -> Rivals:
    """Return timeliness and values at shares of the whole cost, of the model's own way first."""
    total = float(inner.sequence.costs.sum())
    budgets = tuple(share * total for share in SHARES)
    notes = {OWN: "as it was fitted; every fold learns its own order"} | {b.name: b.note for b in judged.baselines}
    found = []
    for name, row in judged.comparison.summary().items():
        values, errors = _at(judged.comparison.curves[name], budgets)
        timeliness, error = _known([row["timeliness"], row["error"]])
        found.append(Method(name, notes[name], timeliness, error, values, errors or (None,) * len(values)))
    return Rivals(SHARES, budgets, tuple(found))


def _at(curve: BudgetCurve, budgets: ArrayLike) -> tuple[tuple[float | None, ...], tuple[float | None, ...]]:
    """Return the mean over folds at each budget, and its standard error, nothing where there is but one fold."""
    mean = BudgetCurve.mean(curve.folds, grid=budgets)
    where = affordable(mean.costs, budgets) - 1
    return _known(mean.values[where]), () if mean.errors is None else _known(mean.errors[where])


def _known(values: ArrayLike) -> tuple[float | None, ...]:
    """Return numbers as plain floats, None for those that are not finite."""
    return tuple(value if np.isfinite(value) else None for value in np.asarray(values, dtype=np.float64).tolist())
