"""Metrics of all stages: our own, computed in one pass, and any of scikit-learn's."""

from __future__ import annotations

import inspect
import re
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgWarning
from sklearn.metrics import get_scorer, get_scorer_names, roc_auc_score
from sklearn.utils.validation import column_or_1d

from budgetline.evaluation.ndcg import ndcg_score
from budgetline.evaluation.stages import Stages, StageView, explained_share
from budgetline.messages import shown
from budgetline.model.stages import StagedModel
from budgetline.sequencing.candidates import TIE
from budgetline.statistics.moments import Moments

Float = NDArray[np.float64]


class Label(NamedTuple):
    """What plots, reports and the command line call a metric, and the style of its numbers."""

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
    """Return the label of a metric; a metric that is not listed goes by its name."""
    return LABELS.get(metric, Label(metric))


class Metric:
    """A number for every stage."""

    name: str
    greater_is_better: bool = True

    def values(self, stages: Stages) -> Float:
        """Return the metric of stages 0, 1, …, shape (1 + stages,)."""
        raise NotImplementedError

    def from_moments(self, model: StagedModel, moments: Moments) -> Float:
        """Return the same from the moments of the held-out data, if they determine it."""
        raise ValueError(f"metric {shown(self.name)} needs the data: moments do not determine it")


class RowMetric(Metric):
    """A metric that follows from means over rows, so that any number of rows can be judged in chunks."""

    needs_variance = False

    def values(self, stages: Stages) -> Float:
        """Return the metric of every stage."""
        means = self.means(stages)
        return self.finish(means, _variance(stages.targets, stages.weight) if self.needs_variance else None)

    def means(self, stages: Stages) -> Float:
        """Return means over rows for every stage, shape (K,) or (K, P)."""
        raise NotImplementedError

    def finish(self, means: Float, variance: Float | None) -> Float:
        """Turn the means over all rows, and if need be the variances (P,) of the targets, into the metric (K,)."""
        return means


class Explained(RowMetric):
    """``explained``: F/R(∅), the share of the held-out risk of the intercept-only model that a stage explains.

    F = R(∅) − R is in the model's own loss, without the penalty: for squared error ½(MSE₀ − MSE).
    """

    name = "explained"

    def means(self, stages: Stages) -> Float:
        """Return the risks."""
        return stages.excess()

    def from_moments(self, model: StagedModel, moments: Moments) -> Float:
        """Return F/R(∅)."""
        return self.finish(_trusted_errors(model, moments).sum(axis=1) / 2, None)

    def finish(self, means: Float, variance: Float | None) -> Float:
        """Return F/R(∅) from the risks."""
        return explained_share(means)


class Gain(Explained):
    """``F``: R(∅) − R, in units of the loss."""

    name = "F"

    def finish(self, means: Float, variance: Float | None) -> Float:
        """Return F from the risks."""
        return np.asarray(means[0] - means)


class MeanSquaredError(RowMetric):
    """``mse``: mean squared error of the predictions, mean over targets."""

    name = "mse"
    greater_is_better = False

    def means(self, stages: Stages) -> Float:
        """Return the mean squared errors of the targets, shape (K, P)."""
        _refuse_classes(self, stages)
        Y, shape = stages.targets, (-1, 1 + stages.model.stages.n_stages, stages.targets.shape[1])

        def rows_of(scores: Float, rows: slice) -> Float:
            predicted = stages.model.family.prediction(scores.reshape(-1, shape[2])).reshape(shape)
            return np.asarray((predicted - Y[rows][:, None]) ** 2)

        return stages.mean_of_rows(rows_of)

    def from_moments(self, model: StagedModel, moments: Moments) -> Float:
        """Return the mean over rows and targets."""
        variance = np.diag(moments.scatter)[moments.n_features :] / moments.weight
        return self.finish(_trusted_errors(model, moments), variance)

    def finish(self, means: Float, variance: Float | None) -> Float:
        """Return the mean over targets."""
        return np.asarray(means.mean(axis=1))


class R2(MeanSquaredError):
    """``r2``: 1 − MSE/variance of the held-out targets, mean over targets.

    Stage 0 is negative where the held-out mean differs from that of the training data.
    """

    name = "r2"
    greater_is_better = True
    needs_variance = True

    def finish(self, means: Float, variance: Float | None) -> Float:
        """Return 1 − MSE/variance, mean over targets."""
        assert variance is not None
        if np.any(variance <= 0):
            raise ValueError("r2 is undefined: y is constant on the held-out data")
        return np.asarray((1 - means / variance).mean(axis=1))


class Accuracy(RowMetric):
    """``accuracy``: share of labels predicted. For a regressor y must hold two values, told apart halfway."""

    name = "accuracy"

    def means(self, stages: Stages) -> Float:
        """Return the share of rows."""
        if stages.model.classes is not None:
            classes, truth = stages.model.classes, column_or_1d(stages.y)  # a label that is not known is just wrong
            return stages.mean_of_rows(lambda s, rows: classes[_labels(s)] == truth[rows][:, None])
        upper, threshold = _two_values(self, stages)

        def rows_of(scores: Float, rows: slice) -> NDArray[np.bool_]:
            return np.asarray((stages.model.family.prediction(scores)[..., 0] > threshold) == upper[rows][:, None])

        return stages.mean_of_rows(rows_of)


class LogLoss(RowMetric):
    """``log_loss``: mean negative log probability of the true class."""

    name = "log_loss"
    greater_is_better = False

    def means(self, stages: Stages) -> Float:
        """Return the mean over rows, in nats."""
        _need_classes(self, stages)
        return stages.excess()


class StageMetric(Metric):
    """A metric that needs the predictions of all rows at once, one stage after another."""

    def values(self, stages: Stages) -> Float:
        """Return the metric of every stage."""
        return np.array([self.value(view, stages) for view in stages.views()])

    def value(self, view: StageView, stages: Stages) -> float:
        """Return the metric of one stage."""
        raise NotImplementedError


class RocAuc(StageMetric):
    """``roc_auc``: area under the ROC curve; of several classes the mean, each against the rest."""

    name = "roc_auc"

    def value(self, view: StageView, stages: Stages) -> float:
        """Return the area."""
        truth, extra = stages.targets[:, 0] > 0, {}
        if stages.model.classes is None:
            truth, scores = _two_values(self, stages)[0], _ranks(view.respond("predict"))
        elif stages.model.classes.size == 2:
            scores = _ranks(view.respond("decision_function"))
        else:
            truth, scores = stages.targets.argmax(axis=1), view.respond("predict_proba")
            extra = {"multi_class": "ovr", "labels": np.arange(stages.model.classes.size)}
        if (count := np.unique(truth).size) < (stages.model.classes.size if stages.model.classes is not None else 2):
            raise ValueError(f"roc_auc is undefined: y holds {count} of the classes only")
        return float(roc_auc_score(truth, scores, sample_weight=stages.weight, **extra))


@dataclass(frozen=True)
class NDCG(StageMetric):
    """``ndcg@k``: mean NDCG@k over queries, see :func:`ndcg_score`; needs ``qid``.

    Examples
    --------
    >>> from budgetline.evaluation import NDCG
    >>> NDCG(k=10, empty=1.0).name
    'ndcg@10'
    """

    k: int | None = 5
    empty: Literal["skip"] | float = "skip"

    @property
    def name(self) -> str:  # type: ignore[override]
        """Name with the rank at which it stops."""
        return "ndcg" if self.k is None else f"ndcg@{self.k}"

    def value(self, view: StageView, stages: Stages) -> float:
        """Return the mean over queries."""
        self.check(stages.qid, stages.weight)
        if stages.model.stages.null_intercept.size > 1:
            raise ValueError(f"metric {shown(self.name)} ranks by one score, the model has several")
        scores = view.respond("decision_function" if stages.model.classes is not None else "predict")
        return ndcg_score(np.asarray(stages.y), _ranks(scores), cast(Any, stages.qid), k=self.k, empty=self.empty)

    def check(self, qid: Any, weight: Any) -> None:
        """Raise an error unless there are queries, and no weights."""
        if qid is None:
            raise ValueError(f"metric {shown(self.name)} needs qid, the query of each row")
        if weight is not None:
            raise ValueError(f"metric {shown(self.name)} takes no sample_weight: it is a mean over queries")


@dataclass(frozen=True)
class Scorer(StageMetric):
    """Any callable ``scorer(estimator, X, y)``; greater is better, as everywhere in scikit-learn."""

    scorer: Callable[..., float]
    name: str

    def value(self, view: StageView, stages: Stages) -> float:
        """Return the score of one stage."""
        extra = {} if stages.weight is None else {"sample_weight": stages.weight}
        return float(self.scorer(view, stages.X, stages.y, **extra))


@dataclass(frozen=True)
class OfPredictions(StageMetric):
    """Any function ``metric(y_true, y_pred)``; less is better where its name ends in error, loss or deviance."""

    function: Callable[..., float]
    name: str
    greater_is_better: bool = True

    def value(self, view: StageView, stages: Stages) -> float:
        """Return the metric of one stage."""
        extra = {} if stages.weight is None else {"sample_weight": stages.weight}
        return float(self.function(stages.y, view.respond("predict"), **extra))


LOSSES = ("error", "loss", "deviance")
"""A function of predictions whose name ends so is to be minimised."""

METRICS: dict[str, Callable[[], Metric]] = {
    "explained": Explained,
    "F": Gain,
    "mse": MeanSquaredError,
    "r2": R2,
    "accuracy": Accuracy,
    "log_loss": LogLoss,
    "roc_auc": RocAuc,
}
"""Metrics known by name, besides ``ndcg`` and ``ndcg@k`` and the scorers of scikit-learn."""


def as_metric(metric: Any) -> Metric:
    """Turn a name, a scorer or a function of (y_true, y_pred) into a metric."""
    if isinstance(metric, Metric):
        return metric
    if isinstance(metric, str):
        if metric in METRICS:
            return METRICS[metric]()
        if match := re.fullmatch(r"ndcg(?:@([1-9]\d*))?", metric):
            return NDCG(int(match[1]) if match[1] else None)
        if metric in get_scorer_names():
            return Scorer(get_scorer(metric), metric)
        raise ValueError(
            f"unknown metric {shown(metric)}; known are {', '.join(METRICS)}, ndcg@k and the names of "
            "scikit-learn's scorers"
        )
    if not callable(metric):
        raise TypeError(f"metric must be a name, a scorer or a function of (y_true, y_pred), got {shown(metric)}")
    if isinstance(metric, type):
        raise TypeError(f"metric is the class {metric.__name__}: give an object of it, {metric.__name__}(…)")
    name = name_of(metric)
    try:
        arguments = [*inspect.signature(metric).parameters, None, None]
    except ValueError as error:
        raise TypeError(f"metric {shown(metric)} does not say what its arguments are: wrap it in a function") from error
    if not (str(arguments[0]).startswith("y") or len(arguments) == 4):
        return Scorer(metric, name)
    if arguments[1] in ("y_score", "y_proba", "y_prob", "pred_decision") or name == "log_loss":
        raise ValueError(f"{name} is not of predictions but of scores: give a name such as 'roc_auc', or make_scorer")
    return OfPredictions(metric, name, not name.endswith(LOSSES))


def name_of(metric: Callable[..., float]) -> str:
    """Return the name of a function, of that inside a partial one, or of a scorer, as scikit-learn names them."""
    name = str(getattr(getattr(metric, "_score_func", getattr(metric, "func", metric)), "__name__", "score"))
    return f"neg_{name}" if getattr(metric, "_sign", 1) < 0 else name


def _trusted_errors(model: StagedModel, moments: Moments) -> Float:
    """Return mean squared errors (1 + stages, P), with a warning where huge coefficients cancel."""
    errors = model.mean_squared_errors(moments)
    coef = model.coef_path
    sd = np.sqrt(np.diag(moments.scatter) / moments.weight)
    sizes = np.abs(coef) @ sd[: moments.n_features] + sd[moments.n_features :]
    if np.any(moments.eps * sizes**2 > 1e-6 * (errors[:1] + errors[1:])):
        warnings.warn(
            "the coefficients are so large that moments do not determine the errors: judge the model on the data",
            LinAlgWarning,
            stacklevel=4,
        )
    return errors


def _variance(Y: Float, weight: Float | None) -> Float:
    """Return the variances of the targets (n, P), exactly zero for those that are constant."""
    counts = slice(None) if weight is None else weight > 0
    Y, weight = Y[counts] - Y[counts][0], None if weight is None else weight[counts]
    return np.asarray(np.average((Y - np.average(Y, 0, weight)) ** 2, 0, weight))


def _ranks(scores: Float) -> Float:
    """Return ranks that order like scores (n,), in which rounding differences between like rows are ties."""
    scores = scores.ravel()
    order = np.argsort(scores, kind="stable")
    rises = np.diff(scores[order], prepend=scores[order[0]]) > TIE * np.abs(scores).max()
    ranks = np.empty(scores.size)
    ranks[order] = np.cumsum(rises)
    return ranks


def _labels(scores: Float) -> NDArray[np.intp]:
    """Return class numbers (m, K) from scores (m, K, P)."""
    return (scores[..., 0] > 0).astype(np.intp) if scores.shape[2] == 1 else scores.argmax(axis=2)


def _two_values(metric: Metric, stages: Stages) -> tuple[NDArray[np.bool_], float]:
    """Return which rows have the larger of the two values of y, and the point halfway between them."""
    values = np.unique(stages.targets)
    if stages.targets.shape[1] > 1 or values.size != 2:
        raise ValueError(
            f"metric {shown(metric.name)} of a regressor needs a y of two values, this one has {values.size}"
        )
    return stages.targets[:, 0] == values[1], float(values.mean())


def _need_classes(metric: Metric, stages: Stages) -> None:
    if stages.model.classes is None:
        raise ValueError(f"metric {shown(metric.name)} is for classifiers, not for {stages.model.estimator}")


def _refuse_classes(metric: Metric, stages: Stages) -> None:
    if stages.model.classes is not None:
        raise ValueError(f"metric {shown(metric.name)} is for regressors, not for {stages.model.estimator}")
