"""From a fitted model and held-out data to a curve, and the same over folds."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any

import numpy as np
from sklearn.base import clone, is_classifier
from sklearn.model_selection import GroupKFold, check_cv
from sklearn.utils import _safe_indexing, indexable
from sklearn.utils.validation import column_or_1d

from budgetline.budgets import Interpolation
from budgetline.data.sources import Source
from budgetline.evaluation.curve import BudgetCurve
from budgetline.evaluation.metrics import as_metric
from budgetline.evaluation.stages import Stages
from budgetline.evaluation.streamed import values_over
from budgetline.inputs import raise_missing
from budgetline.model.anytime import AnytimeModel, as_model
from budgetline.model.stages import StagedModel
from budgetline.progress import Progress, counted
from budgetline.statistics.moments import Moments


def budget_curve(
    model: Any, X: Any, y: Any = None, *, metric: Any = "explained", sample_weight: Any = None, qid: Any = None
) -> BudgetCurve:
    """Return what each budget buys on held-out data: a metric of every stage against its cost.

    Parameters
    ----------
    model : fitted estimator of this library, or a pipeline or search that ends in one
    X : array, sparse matrix, data frame, Moments or Source
        Held-out data. From :class:`Moments` (of X and y) the metrics of squared error need no data; a source is read in
        chunks, and only the predictions are kept, if the metric is no mean over rows.
    y : array of shape (n,) or (n, P)
    metric : str, scorer or function
        - "explained": F/R(∅), the share of the held-out risk of the intercept-only model that is explained, in the
          model's own loss without the penalty (for squared error 1 − MSE/MSE₀, for classes 1 − log loss/log loss₀);
        - "F": R(∅) − R, the same in units of the loss (for squared error ½(MSE₀ − MSE));
        - "mse", "r2", "accuracy", "log_loss", "roc_auc";
        - "ndcg@5" and the like, or ``NDCG(k, empty=…)``: see :func:`budgetline.evaluation.ndcg_score`;
        - the name of any scikit-learn scorer, a scorer, or a function of (y_true, y_pred). A callable is such a
          function if its first argument starts with ``y`` or it takes exactly two, else a scorer: greater is better.
    sample_weight : array of shape (n,), optional
    qid : array of shape (n,), optional
        The query of each row, for NDCG.

    Returns
    -------
    BudgetCurve
        Cost 0, the intercept-only model, comes first.

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
    measure = as_metric(metric)
    if isinstance(X, Moments):
        judged = _judged_alone(model, X, y, sample_weight, qid)
        values = measure.from_moments(_squared_error_model(judged, X), X)
    elif isinstance(X, Source):
        judged = _judged_alone(model, X, y, sample_weight, qid)
        values = values_over(judged, X, measure)
    else:
        stages = Stages.of(model, X, y, sample_weight, qid)
        judged, values = stages.model, measure.values(stages)
    sequence = judged.sequence
    costs = np.concatenate([[0.0], sequence.cumulative_costs])
    return BudgetCurve(costs, values, measure.name, measure.greater_is_better, ("", *sequence.groups))


def cross_val_budget_curve(
    estimator: Any,
    X: Any,
    y: Any,
    *,
    metric: Any = "explained",
    cv: Any = None,
    sample_weight: Any = None,
    qid: Any = None,
    grid: Any = None,
    interpolation: Interpolation = "step",
    progress: Progress = None,
) -> BudgetCurve:
    """Return the mean of held-out curves over folds, with its standard error.

    Parameters
    ----------
    estimator : estimator
        Not fitted; a clone is fitted to each training set.
    X, y, metric, sample_weight, qid
        As in :func:`budget_curve`.
    cv : int, splitter, iterable or None
        As everywhere in scikit-learn. With ``qid`` an int (or None, which is 5) keeps queries together.
    grid : array of costs, optional
        Where to take the mean; default: every cost at which a fold has a point.
    interpolation : {"step", "linear"}
    progress : bool or None
        Whether to show a progress bar; None: on a terminal, where tqdm is installed.

    Returns
    -------
    BudgetCurve
        With ``errors``, and the curves of the folds in ``folds``.

    Examples
    --------
    >>> from budgetline import AnytimeRegressor, cross_val_budget_curve
    >>> from budgetline.datasets import load_nhanes
    >>> nhanes = load_nhanes()
    >>> curve = cross_val_budget_curve(AnytimeRegressor(nhanes.feature_groups), nhanes.data, nhanes.target, metric="r2")
    >>> len(curve.folds), curve.at(30) > 0.3
    (5, True)
    """
    curves = []
    X = indexable(X)[0]
    splits = splits_of(estimator, X, y, cv, qid)
    for train, test in counted(splits, progress, "folds"):
        model = clone(estimator).fit(*rows_of(train, X, y), **weight_of(sample_weight, train, estimator))
        query = None if qid is None else _safe_indexing(qid, test)
        curves.append(
            budget_curve(model, *rows_of(test, X, y), metric=metric, qid=query, **weight_of(sample_weight, test))
        )
    return BudgetCurve.mean(curves, grid=grid, interpolation=interpolation)


def splits_of(estimator: Any, X: Any, y: Any, cv: Any, qid: Any) -> list[tuple[Any, Any]]:
    """Return the folds; those that we make ourselves do not take a query apart."""
    if y is not None:
        raise_missing(y)
    if qid is not None:
        raise_missing(qid, name="qid")
        qid = column_or_1d(qid)
        cv = GroupKFold(5 if cv is None else cv) if cv is None or isinstance(cv, Integral) else cv
    return list(check_cv(cv, y, classifier=is_classifier(estimator)).split(X, y, qid))


def rows_of(index: Any, *tables: Any) -> tuple[Any, ...]:
    """Return rows of several tables of any kind."""
    return tuple(_rows(table, index) for table in tables)


def _rows(table: Any, index: Any) -> Any:
    arrow = type(table).__module__.startswith("pyarrow")  # older scikit-learn cannot index its tables
    return table.take(index) if arrow else _safe_indexing(table, index)


def weight_of(sample_weight: Any, index: Any, estimator: Any = None) -> dict[str, Any]:
    """Return the keyword argument for the weights of some rows, nothing if there are none.

    Of ``fit``, if an estimator is given: a pipeline takes them for its last step.
    """
    if sample_weight is None:
        return {}
    prefix = ""
    while hasattr(estimator, "steps") or hasattr(estimator, "estimator"):
        if hasattr(estimator, "steps"):
            name, estimator = estimator.steps[-1]
            prefix += f"{name}__"
        else:
            estimator = estimator.estimator
    rows = sample_weight if isinstance(sample_weight, Real) else _safe_indexing(sample_weight, index)
    return {f"{prefix}sample_weight": rows}


def _judged_alone(fitted: Any, held: Moments | Source, *given: Any) -> AnytimeModel:
    """Return the model that moments or a source judge; they hold all else, and no pipeline can transform them."""
    what = "moments" if isinstance(held, Moments) else "sources"
    if any(part is not None for part in given):
        raise ValueError(f"{what} hold y, weights and queries: give none")
    model = as_model(fitted)
    if hasattr(getattr(fitted, "best_estimator_", fitted), "steps"):
        raise TypeError(f"{what} judge an estimator of budgetline itself, not a pipeline, which would transform them")
    model.columns.check(held.feature_names, held.n_features)
    return model


def _squared_error_model(model: AnytimeModel, moments: Moments) -> StagedModel:
    if not model.squared_error:
        raise ValueError(f"moments judge models of squared error only, not {model.estimator}")
    if moments.n_targets != model.n_targets:
        raise ValueError(f"the moments are of {moments.n_targets} targets, the model has another number")
    return model.stages
