"""A curve from predictions alone, whatever model made them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.metrics import accuracy_score, log_loss, mean_squared_error, r2_score, roc_auc_score

from budgetline.evaluation.curve import BudgetCurve, explained_share
from budgetline.evaluation.metrics import LOSSES, METRICS, NDCG, as_metric, name_of
from budgetline.inputs import raise_missing
from budgetline.messages import shown

OF_PREDICTIONS: dict[str, Callable[..., float]] = {
    "explained": mean_squared_error,
    "F": mean_squared_error,
    "mse": mean_squared_error,
    "r2": r2_score,
    "accuracy": accuracy_score,
    "roc_auc": partial(roc_auc_score, multi_class="ovr"),
    "log_loss": log_loss,
}
"""Functions of (y_true, y_pred) behind the names."""


def curve_of_predictions(
    y_true: Any,
    predictions: Sequence[Any],
    costs: ArrayLike,
    *,
    metric: Any = "explained",
    sample_weight: Any = None,
    qid: Any = None,
) -> BudgetCurve:
    """Return the curve of predictions made at increasing costs.

    Parameters
    ----------
    y_true : array of shape (n,) or (n, P)
    predictions : sequence of K arrays
        Numbers for "explained", "F", "mse" and "r2", labels for "accuracy", scores for "roc_auc" and "ndcg@k",
        probabilities for "log_loss".
    costs : array of shape (K,)
        From 0, before any group, on.
    metric : str or function of (y_true, y_pred)
        A function is to be minimised if its name ends in error, loss or deviance.
    sample_weight : array of shape (n,), optional
    qid : array of shape (n,), optional

    Examples
    --------
    >>> from budgetline.evaluation import curve_of_predictions
    >>> curve_of_predictions([0.0, 2.0], [[1.0, 1.0], [0.5, 1.5]], [0, 3]).values.tolist()
    [0.0, 0.75]
    """
    predictions = list(predictions)
    if len(predictions) != np.size(costs):
        raise ValueError(f"{len(predictions)} predictions do not belong to {np.size(costs)} costs")
    raise_missing(y_true)
    name, function, greater = _function_of(metric, qid)
    extra = {} if sample_weight is None else {"sample_weight": sample_weight}
    values = np.array([float(function(y_true, predicted, **extra)) for predicted in predictions])
    if metric in ("explained", "F"):
        risks = values * (np.size(predictions[0]) // len(predictions[0])) / 2  # half the sum over targets
        values = explained_share(risks) if metric == "explained" else risks[0] - risks
    return BudgetCurve(np.asarray(costs, dtype=np.float64), values, name, greater)


def _function_of(metric: Any, qid: Any) -> tuple[str, Callable[..., float], bool]:
    """Return the name of a metric, its function of (y_true, y_pred), and whether greater is better."""
    if hasattr(metric, "_score_func"):
        raise ValueError(f"{shown(metric)} is a scorer of estimators: give its function of (y_true, y_pred)")
    if callable(metric):
        name = name_of(metric)
        return name, metric, not name.endswith(LOSSES)
    if isinstance(metric, str) and metric in OF_PREDICTIONS:
        return metric, OF_PREDICTIONS[metric], METRICS[metric].greater_is_better
    ndcg = as_metric(metric) if isinstance(metric, NDCG) or str(metric).startswith("ndcg") else None
    if isinstance(ndcg, NDCG):
        return ndcg.name, lambda y, scores, sample_weight=None: ndcg.of_scores(y, scores, qid, sample_weight), True
    raise ValueError(f"unknown metric {shown(metric)}; known are {', '.join(OF_PREDICTIONS)}, ndcg@k, or a function")
