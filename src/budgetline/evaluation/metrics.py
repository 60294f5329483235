"""Metrics of all stages: those of budgetline, in one pass over the rows, and any of scikit-learn."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal, NamedTuple

import numpy as np
from sklearn.metrics import get_scorer, get_scorer_names, roc_auc_score
from sklearn.utils.validation import column_or_1d

from budgetline.arrays import Float, Mask
from budgetline.evaluation.curve import explained_share
from budgetline.evaluation.held_out import HeldOut, PositiveView, StageView
from budgetline.evaluation.rankings import RANKINGS
from budgetline.evaluation.survival import baseline_of, brier_times, concordance, integrated_brier, survival_of
from budgetline.glm.set_families import Cox, SetFamily
from budgetline.messages import cut, shown
from budgetline.model.anytime import AnytimeModel
from budgetline.model.staged import SCORE, RowFunction
from budgetline.sequencing.candidates import TIE


@dataclass(frozen=True)
class RowMetric:
    """A metric computed from means over rows, so that any number of rows can be read in chunks."""

    name: str
    rows_of: Callable[[HeldOut], RowFunction]
    """Returns, for a model and held-out data, a function of results (m, K, P) and rows; its mean is used."""
    method: str
    """The method of the model that returns the results."""
    finish: Callable[[Float], Float] = np.asarray
    """Turns the means over all rows, shape (K,) or (K, P), into the metric (K,)."""
    greater_is_better: bool = True
    only: str = ""
    """The kind of models that have this metric: "classifiers", "regressors", or "" for all."""
    per_variance: bool = False
    """Whether the means (K, P) are first divided by the variances (P,) of the targets."""
    of_errors: Callable[[Float], Float] | None = None
    """Returns the means from mean squared errors (K, P), if these determine the metric of squared-error models."""

    def values(self, held: HeldOut) -> Float:
        """Return the metric of stages 0, 1, …, shape (1 + stages,)."""
        if isinstance(held.model, AnytimeModel) and isinstance(family := held.model.family, SetFamily):
            if self.rows_of is not _losses or self.only:
                raise ValueError(f"metric {shown(self.name)} is not available for {held.model.estimator}")
            return self.finished(family.excess(held.all_scores, held.targets, held.weights), None)
        return self.finished(self.means(held), held.variance if self.per_variance else None)

    def means(self, held: HeldOut) -> Float:
        """Return means over rows for every stage, shape (K,) or (K, P)."""
        if self.only not in ("", "regressors" if held.model.classes is None else "classifiers"):
            raise ValueError(f"metric {shown(self.name)} is for {self.only}, not for {held.model.estimator}")
        return held.mean_over_rows(self.rows_of(held), self.method)

    def finished(self, means: Float, variance: Float | None) -> Float:
        """Return the metric from the means over all rows and, for ``per_variance``, the variances of the targets."""
        if self.per_variance and variance is not None:
            if np.any(variance <= 0):
                raise ValueError(f"{self.name} is undefined: y is constant on the held-out data")
            means = means / variance
        return np.asarray(self.finish(means))


@dataclass(frozen=True)
class StageMetric:
    """A metric that needs the predictions of all rows at once, one stage after another."""

    name: str
    value: Callable[[StageView], float]
    greater_is_better: bool = True
    accepts_pos_label: bool = True
    """Whether the metric may be about one class."""

    def values(self, held: HeldOut) -> Float:
        """Return the metric of stages 0, 1, …, shape (1 + stages,)."""
        return np.array([self.value(view) for view in held.views()])


Metric = RowMetric | StageMetric


def _losses(held: HeldOut) -> RowFunction:
    """Return the losses minus those of the saturated model."""
    family = held.model.family
    assert not isinstance(family, SetFamily)
    family.check(held.targets)
    return lambda scores, rows: family.excess(scores, held.targets[rows])


def _errors(held: HeldOut) -> RowFunction:
    """Return squared errors, shape (m, K, P)."""
    return lambda predicted, rows: (predicted - held.targets[rows][:, None]) ** 2


def _hits(held: HeldOut) -> RowFunction:
    """Return which labels are right; a regressor predicts the two values of y, with the threshold halfway."""
    if held.model.classes is None:
        upper, threshold = _two_values(held)
        return lambda predicted, rows: (predicted[..., 0] > threshold) == upper[rows][:, None]
    labels = column_or_1d(held.y)  # a label that the model does not know is never predicted
    return lambda predicted, rows: predicted[..., 0] == labels[rows][:, None]


def _area(view: StageView) -> float:
    """Return the area under the ROC curve; for several classes the mean of each against the rest."""
    held, classes = view.held, view.held.model.classes
    several: dict[str, object] = {}
    if classes is None:
        truth, scores = _two_values(held)[0], _ranks(view.respond("predict"))
    elif classes.size == 2:
        truth, scores = held.targets[:, 0] > 0, _ranks(view.respond("decision_function"))
    else:
        truth, scores = held.targets.argmax(axis=1), view.respond("predict_proba")
        several = {"multi_class": "ovr", "labels": np.arange(classes.size)}
    if (count := np.unique(truth).size) < (2 if classes is None else classes.size):
        raise ValueError(f"roc_auc is undefined: y holds only {count} of the classes")
    return float(roc_auc_score(truth, scores, sample_weight=held.weight, **several))


def _concordance(view: StageView) -> float:
    """Return Harrell's concordance; scores that differ by rounding are ties."""
    _, scores = _survival(view, "concordance")
    return concordance(view.held.targets[:, 0], view.held.targets[:, 1], _ranks(scores))


def _brier(view: StageView) -> float:
    """Return the integrated Brier score of survival functions."""
    model, scores = _survival(view, "brier")
    time, event = view.held.targets[:, 0], view.held.targets[:, 1] > 0
    times, (known, hazards) = brier_times(time, event), baseline_of(model)
    return integrated_brier(time, event, survival_of(scores, known, hazards[view.stage], times), times)


def _survival(view: StageView, name: str) -> tuple[AnytimeModel, Float]:
    """Return the model and its scores, if it is one of survival times."""
    model, held = view.held.model, view.held
    if not isinstance(model, AnytimeModel) or not isinstance(model.family, Cox):
        raise ValueError(f"metric {shown(name)} is for survival times, not for {model.estimator}")
    if held.weight is not None:
        raise ValueError(f"metric {shown(name)} accepts no sample_weight")
    return model, view.respond("predict")


def _ranking(view: StageView, name: str, measure: str, k: int | None) -> float:
    """Return the mean of a measure of rankings over the queries of the held-out rows."""
    held = view.held
    if held.model.n_targets > 1:
        raise ValueError(f"metric {shown(name)} ranks by one score, but the model has several")
    if held.qid is None:
        raise ValueError(f"metric {shown(name)} needs qid, the query of each row")
    if held.weight is not None:
        raise ValueError(f"metric {shown(name)} accepts no sample_weight: it is a mean over queries")
    method = "predict" if held.model.classes is None else "decision_function"
    return RANKINGS[measure](np.asarray(held.y), _ranks(view.respond(method)), held.qid, k=k)


def _two_values(held: HeldOut) -> tuple[Mask, float]:
    """Return which rows have the larger of the two values of y, and the point halfway between them."""
    if isinstance(held.model.family, SetFamily):
        raise ValueError(f"accuracy and roc_auc are not available for {held.model.estimator}")
    values = np.unique(held.targets)
    if held.targets.shape[1] > 1 or values.size != 2:
        raise ValueError(f"accuracy and roc_auc of a regressor need a y with two values, but y has {values.size}")
    return held.targets[:, 0] == values[1], float(values.mean())


def _ranks(scores: Float) -> Float:
    """Return the ranks of scores (n,); scores that differ by rounding are ties."""
    scores = scores.ravel()
    order = np.argsort(scores, kind="stable")
    rises = np.diff(scores[order], prepend=scores[order[0]]) > TIE * np.abs(scores).max()
    ranks = np.empty(scores.size)
    ranks[order] = np.cumsum(rises)
    return ranks


_OWN: tuple[RowMetric | StageMetric, ...] = (
    RowMetric("explained", _losses, SCORE, explained_share, of_errors=lambda errors: errors.sum(axis=1) / 2),
    RowMetric("gain", _losses, SCORE, lambda risks: risks[0] - risks, of_errors=lambda errors: errors.sum(axis=1) / 2),
    RowMetric("mse", _errors, "predict", lambda errors: errors.mean(axis=1), False, "regressors", of_errors=np.asarray),
    RowMetric("r2", _errors, "predict", lambda shares: (1 - shares).mean(axis=1), True, "regressors", True, np.asarray),
    RowMetric("accuracy", _hits, "predict"),
    RowMetric("log_loss", _losses, SCORE, greater_is_better=False, only="classifiers"),
    StageMetric("roc_auc", _area, accepts_pos_label=False),
    StageMetric("concordance", _concordance, accepts_pos_label=False),
    StageMetric("brier", _brier, greater_is_better=False, accepts_pos_label=False),
)
METRICS = {metric.name: metric for metric in _OWN}
"""Metrics by name; also known are ``ndcg@k``, ``map@k`` and the scorers of scikit-learn. See `budget_curve`."""
LOSSES = ("error", "loss", "deviance")
"""Endings of the names of functions that are better if smaller."""


class Label(NamedTuple):
    """What people call a metric, and the style of its numbers."""

    text: str
    style: Literal["percent", "fixed", "general"] = "general"


LABELS = {
    "explained": Label("explained fraction F/R(∅)", "percent"),
    "gain": Label("gain R(∅) − R"),
    "mse": Label("mean squared error"),
    "r2": Label("R²", "fixed"),
    "accuracy": Label("accuracy", "percent"),
    "log_loss": Label("log loss", "fixed"),
    "roc_auc": Label("ROC AUC", "fixed"),
    "concordance": Label("concordance", "fixed"),
    "brier": Label("integrated Brier score", "fixed"),
}


def label_of(metric: str) -> Label:
    """Return the label of a metric; by default its name."""
    return LABELS.get(metric, Label(metric))


def as_metric(metric: object, pos_label: object = None) -> Metric:
    """Turn a name, a scorer or a function of (y_true, y_pred) into a metric, of the class ``pos_label`` if given."""
    if pos_label is not None:
        base = as_metric(metric)
        if not isinstance(base, StageMetric) or not base.accepts_pos_label:
            raise ValueError(f"metric {shown(base.name)} is about all classes: it accepts no pos_label")
        return replace(base, value=lambda view: base.value(PositiveView(view, pos_label)))
    if isinstance(metric, Metric):
        return metric
    if isinstance(metric, str):
        return _metric_named(metric)
    if not callable(metric):
        raise TypeError(f"metric must be a name, a scorer or a function of (y_true, y_pred), got {shown(metric)}")
    if isinstance(metric, type):
        raise TypeError(f"metric is the class {metric.__name__}: pass an instance, {metric.__name__}(…)")
    name = name_of(metric)
    try:
        arguments = list(inspect.signature(metric).parameters)
    except ValueError as error:
        raise TypeError(f"metric {shown(metric)} has no signature that can be read: wrap it in a function") from error
    if len(arguments) != 2 and not "".join(arguments[:1]).startswith("y"):
        return StageMetric(name, partial(_scored, metric))
    if {"y_score", "y_proba", "y_prob", "pred_decision"} & set(arguments[1:2]) or name == "log_loss":
        raise ValueError(f"{name} needs scores, not predictions: pass a name such as 'roc_auc', or use make_scorer")

    def of_predictions(view: StageView) -> float:
        return float(metric(view.held.y, view.respond("predict"), **view.held.weighted))

    return StageMetric(name, of_predictions, not name.endswith(LOSSES))


def _metric_named(name: str) -> Metric:
    if name in METRICS:
        return METRICS[name]
    if match := re.fullmatch(r"(ndcg|map)(?:@([1-9]\d*))?", name):
        rank = partial(_ranking, name=name, measure=match[1], k=int(match[2]) if match[2] else None)
        return StageMetric(name, rank, accepts_pos_label=False)
    if name in get_scorer_names():
        return StageMetric(name, partial(_scored, get_scorer(name)))
    known = f"{', '.join(METRICS)}, ndcg@k, map@k and the names of scikit-learn's scorers"
    raise ValueError(f"unknown metric {shown(name)}; the known metrics are {known}")


def name_of(metric: Callable[..., float]) -> str:
    """Return the name of a function (also inside a partial), or of a scorer as scikit-learn names it."""
    name = str(getattr(getattr(metric, "_score_func", getattr(metric, "func", metric)), "__name__", "score"))
    return f"neg_{name}" if getattr(metric, "_sign", 1) < 0 else name


def _scored(scorer: Callable[..., float], view: StageView) -> float:
    """Return ``scorer(estimator, X, y)``; greater is better, as everywhere in scikit-learn."""
    try:
        return float(scorer(view, view.held.X, view.held.y, **view.held.weighted))
    except ValueError as error:
        if "pos_label" not in str(error):
            raise
        advice = "name the positive class: pos_label=…, or --pos-label LABEL on the command line"
        raise ValueError(f"{cut(str(error))}: {advice}") from error
