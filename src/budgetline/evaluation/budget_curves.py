"""Budget curves of a fitted model on held-out data: a table, moments or a source."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from scipy.linalg import LinAlgWarning

from budgetline.arrays import Array, Float
from budgetline.data.rows import Rows
from budgetline.data.sources import Chunk, Source
from budgetline.evaluation.curve import BudgetCurve
from budgetline.evaluation.held_out import HeldOut
from budgetline.evaluation.metrics import METRICS, Metric, RowMetric, as_metric
from budgetline.glm.set_families import SetFamily
from budgetline.inputs import check_finite
from budgetline.messages import shown, warn
from budgetline.model.anytime import AnytimeModel, Staged, as_model
from budgetline.moments.moments import Moments, moments_of
from budgetline.moments.passes import not_empty, sum_over
from budgetline.moments.sums import RowSums

GATHER_BYTES = 1 << 31
"""Most memory for the scores of all rows and stages, which some metrics need."""


def budget_curve(
    model: object,
    X: object,
    y: object = None,
    *,
    metric: object = "explained",
    pos_label: object = None,
    sample_weight: object = None,
    qid: object = None,
) -> BudgetCurve:
    """Return the budget curve of a model on held-out data: the cost and the value of a metric at every stage.

    The curve starts at cost 0, before any group is bought.

    Parameters
    ----------
    model : fitted estimator of this library, or a pipeline or search that ends in one
        The model to evaluate.
    X : array, sparse matrix, data frame, Moments or Source
        Held-out data. `Moments` of X and y are enough for the metrics of squared error. A source is read in chunks.
        The predictions of all rows are kept in memory only if the metric is not a mean over rows.
    y : array of shape (n,) or (n, P)
        The true target values.
    metric : str, scorer or function
        - "explained": the share by which the model reduces the held-out loss of the intercept-only model, which is 1 −
          MSE/MSE₀ for squared error and 1 − log loss/log loss₀ for classification (without the ridge penalty);
        - "gain": the same reduction in units of the loss, which is ½(MSE₀ − MSE) for squared error;
        - "mse", "r2" (means over targets), "log_loss", "accuracy", "roc_auc" (for several classes, the mean over
          one-vs-rest curves). The last two also accept a regressor if y has two values. In this case, "accuracy" uses
          the threshold halfway between the two values;
        - for rankings, "ndcg@5", "map" and similar names: see `budgetline.evaluation.ndcg_score`;
        - for survival times, with y in the form that ``AnytimeSurvival.score`` accepts: "concordance", and "brier",
          which is the integrated Brier score;
        - the name of any scikit-learn scorer, a scorer, or a function of (y_true, y_pred). A callable is treated as a
          function of (y_true, y_pred) if it has exactly two arguments or if the name of its first argument starts with
          ``y``. Otherwise it is treated as a scorer, and greater is better.
    pos_label : label, optional
        The label of the positive class, for binary metrics such as "f1", "precision", "recall" and "average_precision".
    sample_weight : array of shape (n,), optional
        Sample weights.
    qid : array of shape (n,), optional
        The query ID of each row, for rankings.

    Examples
    --------
    >>> from budgetline import AnytimeClassifier, budget_curve
    >>> from budgetline.datasets import load_heart
    >>> heart = load_heart()
    >>> model = AnytimeClassifier(heart.feature_groups, alpha=1e-2).fit(heart.data[::2], heart.target[::2])
    >>> curve = budget_curve(model, heart.data[1::2], heart.target[1::2], metric="roc_auc")
    >>> curve.costs[:4].tolist(), curve.values[:4].round(3).tolist()
    ([0.0, 1.0, 2.0, 3.0], [0.5, 0.747, 0.76, 0.813])
    """
    measure = as_metric(metric, pos_label)
    if isinstance(X, Moments | Source):
        return _curve(*_without_table(model, X, measure, y, sample_weight, qid), measure)
    held = HeldOut.of(model, X, y, sample_weight, qid)
    return _curve(held.model, measure.values(held), measure)


def _curve(model: Staged, values: Float, measure: Metric) -> BudgetCurve:
    costs = np.concatenate([[0.0], model.sequence.cumulative_costs])
    return BudgetCurve(costs, values, measure.name, measure.greater_is_better, ("", *model.sequence.groups))


def training_curve(model: Staged) -> BudgetCurve:
    """Return the "explained" curve of `budget_curve` on the training rows, without reading them.

    The gains of a sequence subtract the ridge penalty, λ/2 ‖w‖² of standardised columns; it is added here.
    """
    curve = BudgetCurve.of(model)
    if not isinstance(model, AnytimeModel) or not model.sequence.null_value > 0:
        return curve
    scale = model.stages.scale
    W = model.stages.coef_path * np.where(np.isfinite(scale), scale, 0.0)
    penalty = model.alpha / 2 * np.einsum("spd,spd->s", W, W)
    return replace(curve, values=curve.values + np.append(0.0, penalty) / model.sequence.null_value)


def _without_table(
    fitted: object, held: Moments | Source, metric: Metric, *given: object
) -> tuple[AnytimeModel, Float]:
    """Return the model and its metric of every stage, from moments or a source."""
    what = "moments" if isinstance(held, Moments) else "sources"
    if any(part is not None for part in given):
        raise ValueError(f"{what} hold y, weights and queries: do not pass them again")
    model = as_model(fitted)
    inner = getattr(fitted, "best_estimator_", fitted)
    if hasattr(inner, "steps"):
        kind = type(inner).__name__
        raise TypeError(f"{what} can evaluate only an estimator of budgetline, not {kind}, which would transform them")
    model.columns.check(held.feature_names, held.n_features)
    if isinstance(held, Moments):
        return model, _from_moments(model, held, metric)
    source = held if model.encoding is None else held.raw().encoded(model.encoding)
    return model, _over_source(model, source, metric, fitted)


def _from_moments(model: AnytimeModel, moments: Moments, metric: Metric) -> Float:
    """Return the metric of every stage from moments of held-out data; warn if huge coefficients cancel."""
    if not model.squared_error:
        raise ValueError(f"moments evaluate models of squared error only, not {model.estimator}")
    if moments.n_targets != model.n_targets:
        raise ValueError(f"the moments have {moments.n_targets} targets, but the model has {model.n_targets}")
    if not isinstance(metric, RowMetric) or metric.of_errors is None:
        raise ValueError(f"metric {shown(metric.name)} needs the data: moments do not determine it")
    errors, D = model.stages.mean_squared_errors(moments), moments.n_features
    variance = np.diag(moments.scatter) / moments.weight
    sd = np.sqrt(variance)
    sizes = np.abs(model.stages.coef_path) @ sd[:D] + sd[D:]
    if np.any(moments.eps * sizes**2 > 1e-6 * (errors[:1] + errors[1:])):
        text = "the coefficients are so large that moments do not determine the errors: evaluate the model on the data"
        warn(text, LinAlgWarning)
    return metric.finished(metric.of_errors(errors), variance[D:])


def _over_source(model: AnytimeModel, source: Source, metric: Metric, fitted: object) -> Float:
    """Return the metric of every stage over a source, shape (1 + stages,); scorers see ``fitted``."""
    columns, names = model.last.columns, source.feature_names
    labels = tuple(str(d) if names is None else names[d] for d in columns)
    # the two values of a regressor's y, and sets of rows, are known only after the last row
    whole = isinstance(model.family, SetFamily) or (metric is METRICS["accuracy"] and model.classes is None)
    if whole or not isinstance(metric, RowMetric):
        gathered = not_empty(sum_over(source, partial(_chunk_scores, model, labels), columns))
        return metric.values(gathered.held_out(model, fitted))
    sums = not_empty(sum_over(source, partial(_chunk_sums, model, labels, metric), columns))
    return metric.finished(sums.mean, sums.variance)


def _chunk_sums(model: AnytimeModel, labels: tuple[str, ...], metric: RowMetric, chunk: Chunk) -> RowSums | None:
    """Return the sums over a chunk, None if all weights are zero; errors name columns by ``labels``."""
    weight = float(chunk.n_rows if chunk.weight is None else chunk.weight.sum())
    if not weight:
        return None
    with chunk.located():
        table, targets = check_finite(chunk.X, labels), None
        held = HeldOut(model, table, chunk.y, table, chunk.weight)
        means = metric.means(held)
        if metric.per_variance:
            alone = Rows(np.empty((chunk.n_rows, 0)), held.targets, chunk.weight)
            targets = moments_of(alone, (model.n_targets,), single=False)
    return RowSums(weight, weight * means, targets)


@dataclass(frozen=True)
class _Gathered:
    """Chunks whose X are scores (m, 1 + stages, P), in order."""

    chunks: tuple[Chunk, ...]

    def __add__(self, other: _Gathered) -> _Gathered:
        both = _Gathered(self.chunks + other.chunks)
        if sum(chunk.X.nbytes for chunk in both.chunks) > GATHER_BYTES:
            needs = f"this metric needs the predictions of all rows and stages, more than {GATHER_BYTES >> 30} GB"
            raise MemoryError(f"{needs}: evaluate some of the rows, or choose a metric that is a mean over rows")
        return both

    def held_out(self, model: AnytimeModel, fitted: object) -> HeldOut:
        """Return all rows with their scores, but without X."""
        scores, y, weight, qid = map(_joined, zip(*((c.X, c.y, c.weight, c.qid) for c in self.chunks), strict=True))
        nothing = np.empty((len(y), 0))  # scorers pass it on to predict
        return HeldOut(model, nothing, y, nothing, weight, qid, fitted, scores)


def _joined(parts: Iterable[Array | None]) -> Any:
    """Return the arrays of all chunks as one array; None if no chunk has one."""
    known = [part for part in parts if part is not None]
    return np.concatenate(known) if known else None


def _chunk_scores(model: AnytimeModel, labels: tuple[str, ...], chunk: Chunk) -> _Gathered:
    """Return the scores of a chunk; errors name columns by ``labels``."""
    with chunk.located():
        table = check_finite(chunk.X, labels)
    return _Gathered((replace(chunk, X=np.stack(list(model.stages.stage_scores(table)), axis=1)),))
