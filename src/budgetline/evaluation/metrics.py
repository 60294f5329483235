"""Metrics of all stages: those of budgetline, in one pass over the rows, and any of scikit-learn."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from sklearn.metrics import get_scorer, get_scorer_names, roc_auc_score
from sklearn.utils.validation import column_or_1d

from budgetline.arrays import Array, Float, Mask, Positions
from budgetline.evaluation.curve import explained_share
from budgetline.evaluation.held_out import HeldOut, PositiveView, StageView
from budgetline.inputs import check_integer, check_number
from budgetline.messages import cut, shown
from budgetline.model.staged import SCORE, RowFunction
from budgetline.sequencing.candidates import TIE


class Label(NamedTuple):
    """The name of a metric in plots, reports and on the command line, and the style of its numbers."""

    text: str
    style: Literal["percent", "fixed", "general"] = "general"


LABELS = {
    "explained": Label("explained fraction F/R(∅)", "percent"),
    "F": Label("explained F"),
    "mse": Label("mean squared error"),
    "r2": Label("R²", "fixed"),
    "accuracy": Label("accuracy", "percent"),
    "log_loss": Label("log loss", "fixed"),
    "roc_auc": Label("ROC AUC", "fixed"),
}


def label_of(metric: str) -> Label:
    """Return the label of a metric; by default its name."""
    return LABELS.get(metric, Label(metric))


@dataclass(frozen=True)
class RowMetric:
    """A metric computed from means over rows, so that any number of rows can be read in chunks."""

    name: str
    rows_of: Callable[[HeldOut], RowFunction]
    """Returns, for a model and held-out data, a function of answers (m, K, P) and rows; its mean is used."""
    method: str
    """The method of the model that returns the answers."""
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

    def values(self, held: HeldOut) -> Float:
        """Return the metric of stages 0, 1, …, shape (1 + stages,)."""
        return np.array([self.value(view) for view in held.views()])


@dataclass(frozen=True)
class NDCG:
    """``ndcg@k``: mean NDCG@k over queries, see :func:`ndcg_score`; needs ``qid``."""

    k: int | None = 5
    empty: Literal["skip"] | float = "skip"
    greater_is_better = True

    @property
    def name(self) -> str:
        """The name, with the number of ranks that count."""
        return "ndcg" if self.k is None else f"ndcg@{self.k}"

    def values(self, held: HeldOut) -> Float:
        """Return the mean over queries of stages 0, 1, …, shape (1 + stages,)."""
        if held.model.n_targets > 1:
            raise ValueError(f"metric {shown(self.name)} ranks by one score, the model has several")
        method = "predict" if held.model.classes is None else "decision_function"
        ranks = (_ranks(view.respond(method)) for view in held.views())
        return np.array([self.of_scores(held.y, scores, held.qid, held.weight) for scores in ranks])

    def of_scores(self, y: object, scores: object, qid: object, weight: object) -> float:
        """Return the mean over queries of one ranking."""
        if qid is None:
            raise ValueError(f"metric {shown(self.name)} needs qid, the query of each row")
        if weight is not None:
            raise ValueError(f"metric {shown(self.name)} accepts no sample_weight: it is a mean over queries")
        return ndcg_score(np.asarray(y), np.asarray(scores), np.asarray(qid), k=self.k, empty=self.empty)


Metric = RowMetric | StageMetric | NDCG


def _losses(held: HeldOut) -> RowFunction:
    """Return the losses minus those of the saturated model."""
    return lambda scores, rows: held.model.family.excess(scores, held.targets[rows])


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
        raise ValueError(f"roc_auc is undefined: y holds {count} of the classes only")
    return float(roc_auc_score(truth, scores, sample_weight=held.weight, **several))


def _two_values(held: HeldOut) -> tuple[Mask, float]:
    """Return which rows have the larger of the two values of y, and the point halfway between them."""
    values = np.unique(held.targets)
    if held.targets.shape[1] > 1 or values.size != 2:
        raise ValueError(f"accuracy and roc_auc of a regressor need a y of two values, this one has {values.size}")
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
    RowMetric("F", _losses, SCORE, lambda risks: risks[0] - risks, of_errors=lambda errors: errors.sum(axis=1) / 2),
    RowMetric("mse", _errors, "predict", lambda errors: errors.mean(axis=1), False, "regressors", of_errors=np.asarray),
    RowMetric("r2", _errors, "predict", lambda shares: (1 - shares).mean(axis=1), True, "regressors", True, np.asarray),
    RowMetric("accuracy", _hits, "predict"),
    RowMetric("log_loss", _losses, SCORE, greater_is_better=False, only="classifiers"),
    StageMetric("roc_auc", _area),
)
METRICS = {metric.name: metric for metric in _OWN}
"""Metrics by name; also known are ``ndcg``, ``ndcg@k`` and the scorers of scikit-learn. See :func:`budget_curve`."""
LOSSES = ("error", "loss", "deviance")
"""Smaller is better if the name of a function ends in one of these."""


def as_metric(metric: object) -> Metric:
    """Turn a name, a scorer or a function of (y_true, y_pred) into a metric."""
    if isinstance(metric, Metric):
        return metric
    if isinstance(metric, str):
        return _metric_named(metric)
    if not callable(metric):
        raise TypeError(f"metric must be a name, a scorer or a function of (y_true, y_pred), got {shown(metric)}")
    if isinstance(metric, type):
        raise TypeError(f"metric is the class {metric.__name__}: pass an object of it, {metric.__name__}(…)")
    name = name_of(metric)
    try:
        arguments = list(inspect.signature(metric).parameters)
    except ValueError as error:
        raise TypeError(f"metric {shown(metric)} does not say what its arguments are: wrap it in a function") from error
    if len(arguments) != 2 and not "".join(arguments[:1]).startswith("y"):
        return StageMetric(name, partial(_scored, metric))
    if {"y_score", "y_proba", "y_prob", "pred_decision"} & set(arguments[1:2]) or name == "log_loss":
        raise ValueError(f"{name} needs scores, not predictions: pass a name such as 'roc_auc', or make_scorer")

    def of_predictions(view: StageView) -> float:
        return float(metric(view.held.y, view.respond("predict"), **view.held.weighted))

    return StageMetric(name, of_predictions, not name.endswith(LOSSES))


def with_positive(metric: object, label: object) -> StageMetric:
    """Return a metric of one of two classes: scikit-learn's f1, precision, recall, average_precision, ….

    The metric sees labels 1, for ``label``, and 0.

    Parameters
    ----------
    metric : name of a scorer, scorer, or function of (y_true, y_pred)
    label : the positive class

    Examples
    --------
    >>> from budgetline import AnytimeClassifier, budget_curve
    >>> from budgetline.datasets import load_heart
    >>> from budgetline.evaluation import with_positive
    >>> heart = load_heart()
    >>> ill = ["yes" if target else "no" for target in heart.target]
    >>> model = AnytimeClassifier(heart.feature_groups, alpha=1e-2).fit(heart.data, ill)
    >>> round(float(budget_curve(model, heart.data, ill, metric=with_positive("f1", "yes")).values[-1]), 3)
    0.857
    """
    base = as_metric(metric)
    if not isinstance(base, StageMetric) or base.name == "roc_auc":
        raise ValueError(f"metric {shown(base.name)} is about all classes: it has no positive class")

    return replace(base, value=lambda view: base.value(PositiveView(view, label)))


def _metric_named(name: str) -> Metric:
    if name in METRICS:
        return METRICS[name]
    if match := re.fullmatch(r"ndcg(?:@([1-9]\d*))?", name):
        return NDCG(int(match[1]) if match[1] else None)
    if name in get_scorer_names():
        return StageMetric(name, partial(_scored, get_scorer(name)))
    known = f"{', '.join(METRICS)}, ndcg@k and the names of scikit-learn's scorers"
    raise ValueError(f"unknown metric {shown(name)}; known are {known}")


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
        advice = "name the positive class: with_positive(metric, label), or --positive LABEL on the command line"
        why = f"{cut(str(error))}: {advice}"
        raise ValueError(why) from error


def ndcg_score(
    y_true: ArrayLike, y_score: ArrayLike, qid: ArrayLike, *, k: int | None = 5, empty: Literal["skip"] | float = "skip"
) -> float:
    """Return the mean NDCG@k over queries.

    The documents of a query are ranked by score; with gain 2^rel − 1 and the discount of rank i = 1, 2, …,

        DCG@k = Σ_{i ≤ k} (2^{rel_i} − 1)/log₂(i + 1),      NDCG@k = DCG@k / (DCG@k of the best ranking).

    Documents of equal score share the mean discount of their ranks: the expected value over all orders of them.

    Parameters
    ----------
    y_true, y_score, qid : arrays of shape (n,)
        Grades ≥ 0; scores, the highest first; and the query of each document, in any order.
    k : int or None
        How many ranks count; None: all.
    empty : "skip" or float
        The value of a query without a relevant document, for which the ratio is 0/0: "skip" leaves the query out of the
        mean; usual numbers are 0 and 1.

    Examples
    --------
    >>> from budgetline.evaluation import ndcg_score
    >>> round(ndcg_score([2, 0, 1, 0, 0], [3.0, 2.0, 2.0, 1.0, 5.0], [7, 7, 7, 7, 8], k=2), 4)
    0.9131
    """
    rel, points, queries = np.asarray(y_true, dtype=np.float64), np.asarray(y_score), np.asarray(qid)
    _check_ranking(rel, points, queries, k, empty)
    query, gains = np.unique(queries, return_inverse=True)[1], np.exp2(rel) - 1
    ideal, found = (_dcg(gains, scores, query, k) for scores in (rel, points.astype(np.float64)))
    relevant = ideal > 0
    values = np.divide(found, ideal, out=np.zeros_like(ideal), where=relevant)
    if empty != "skip":
        return float(np.where(relevant, values, float(empty)).mean())
    if not relevant.any():
        raise ValueError("no query has a relevant document: NDCG is undefined; set empty=0 or empty=1")
    return float(values[relevant].mean())


def _dcg(gains: Float, scores: Float, query: Positions, k: int | None) -> Float:
    """Return the DCG of every query, shape (Q,)."""
    order = np.lexsort((-scores, query))
    query, scores, gains = query[order], scores[order], gains[order]
    new_query = np.append(True, query[1:] != query[:-1])
    new_score = new_query | np.append(True, scores[1:] != scores[:-1])
    starts = np.flatnonzero(new_query)
    rank = np.arange(query.size) - np.repeat(starts, np.diff(starts, append=query.size))
    discount = 1 / np.log2(rank + 2)
    if k is not None:
        discount[rank >= k] = 0.0
    # tied documents: the mean of their discounts times the sum of their gains
    ties = np.flatnonzero(new_score)
    counts = np.diff(ties, append=query.size)
    shared = np.add.reduceat(discount, ties) / counts * np.add.reduceat(gains, ties)
    return np.asarray(np.bincount(query[ties], shared, starts.size), dtype=np.float64)


def _check_ranking(rel: Float, scores: Array, qid: Array, k: object, empty: object) -> None:
    if not rel.ndim == scores.ndim == qid.ndim == 1 or not rel.size == scores.size == qid.size > 0:
        shapes = f"{rel.shape}, {scores.shape} and {qid.shape}"
        raise ValueError(f"y_true, y_score and qid must be vectors of one length, got {shapes}")
    if scores.dtype.kind not in "biuf":
        raise ValueError(f"scores must be numbers, got {scores.dtype}")
    if not np.isfinite(scores).all():
        raise ValueError("scores hold NaN or infinity")
    if not np.all(fits := (rel >= 0) & (rel <= 500)):
        raise ValueError(f"y_true must be grades from 0 to 500 (the gain is 2^rel − 1), got {rel[~fits][0]:g}")
    if k is not None:
        check_integer("k", k, ge=1)
    if empty != "skip":
        check_number("empty", empty, "number or 'skip'", finite=True)
