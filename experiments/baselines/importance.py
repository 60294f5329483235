"""How much a fitted model relies on every group: what it loses without the group, or what the group contributes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import cast

import narwhals as nw
import numpy as np
from scipy import sparse
from sklearn.metrics import log_loss, mean_squared_error
from sklearn.utils import check_random_state

from budgetline.arrays import Array, Float, Positions, Table
from budgetline.estimators.clones import TrainingRows
from budgetline.groups import Layout
from budgetline.messages import shown
from budgetline.model.prefixes import PrefixTable

from .trade_offs import dense

Importance = Callable[[object, object, Array], object]
"""Returns one number ≥ 0 per column that is in a group, for a fitted model, its table and its target."""


def training_loss(rows: TrainingRows, fitted: object, X: object) -> float:
    """Return the mean squared error or, for classifiers, the log loss of an estimator that reads the table X."""
    if rows.classes is None:
        predicted = fitted.predict(X)  # type: ignore[attr-defined]
        return float(mean_squared_error(rows.target, predicted, sample_weight=rows.weight))
    proba = fitted.predict_proba(X)  # type: ignore[attr-defined]
    return float(log_loss(rows.target, proba, sample_weight=rows.weight, labels=rows.classes))


def permuted(fitted: object, rows: TrainingRows, layout: Layout, n_repeats: int, random_state: object) -> Float:
    """Return by how much the loss on the training rows grows if the columns of a group are shuffled together, (J,).

    The loss is squared error or, for classifiers, log loss; where it falls instead the importance is 0.
    """
    if rows.classes is not None and not hasattr(fitted, "predict_proba"):
        kind = type(fitted).__name__
        raise TypeError(f"{kind} has no predict_proba: take importance='contributions', or a function")
    rng, read, n = check_random_state(random_state), layout.read, len(rows.target)
    base, found = training_loss(rows, fitted, rows.table.take(read)), np.zeros(len(layout.columns))
    for g, own in enumerate(layout.columns):
        for _ in range(n_repeats):
            found[g] += training_loss(rows, fitted, shuffled(rows.table, own, rng.permutation(n)).take(read)) - base
    return np.maximum(found / n_repeats, 0.0)


def shuffled(table: PrefixTable, columns: Positions, order: Positions) -> PrefixTable:
    """Return a table with the rows of some columns in another order."""
    values, places = table.values, table.positions[columns]
    if isinstance(values, nw.DataFrame):
        part = values.select(nw.nth(*places.tolist()))[order.tolist()]
        return replace(table, values=values.with_columns(*(part.get_column(name) for name in part.columns)))
    inside = np.isin(np.arange(values.shape[1]), places)
    if sparse.issparse(values):
        own, others = (sparse.diags_array(mask.astype(np.float64)) for mask in (inside, ~inside))
        return replace(table, values=sparse.csr_array(values[order] @ own + values @ others))
    return replace(table, values=np.where(inside, values[order], values))


def contributed(fitted: object, rows: TrainingRows, layout: Layout) -> Float:
    """Return the mean absolute contribution of every group to the score, (J,).

    The contribution of a group is the sum of those of its columns: exact SHAP values of trees, which LightGBM and
    CatBoost compute themselves, the terms of an EBM (half of a pair each), or x·coef less its mean of a linear model.
    """
    each = _of_columns(fitted, rows.table.take(layout.read), layout.read.size)
    grouped = np.stack([each[:, own].sum(axis=1) for own in layout.position], axis=1)
    return np.asarray(np.average(np.abs(grouped).sum(axis=2), axis=0, weights=rows.weight))


def _of_columns(fitted: object, X: object, width: int) -> Float:
    """Return the contributions of all D' columns (n, D', K), for K scores."""
    if hasattr(fitted, "booster_"):  # LightGBM
        found = dense(cast(Table, fitted.predict(X, pred_contrib=True)))  # type: ignore[attr-defined]
        return _without_base(found.reshape(len(found), -1, width + 1))
    if type(fitted).__module__.startswith("catboost"):
        from catboost import Pool

        found = np.asarray(fitted.get_feature_importance(Pool(X), type="ShapValues"))  # type: ignore[attr-defined]
        return _without_base(found.reshape(len(found), -1, width + 1))
    if hasattr(fitted, "eval_terms"):  # interpret
        return _of_terms(np.asarray(fitted.eval_terms(X)), fitted.term_features_, width)  # type: ignore[attr-defined]
    if hasattr(fitted, "coef_"):
        values = dense(cast(Table, X))
        coef = np.asarray(fitted.coef_).reshape(-1, values.shape[1])
        return np.asarray((values - values.mean(axis=0))[:, :, None] * coef.T)
    kind = type(fitted).__name__
    raise TypeError(
        f"contributions are known of LightGBM, CatBoost, EBM and linear models, not of {kind}: take "
        "importance='permutation', or a function"
    )


def _without_base(found: Float) -> Float:
    """Turn SHAP values (n, K, D' + 1), the last of them of no column, into (n, D', K)."""
    return np.moveaxis(found[:, :, :-1], 1, 2)


def _of_terms(terms: Float, features: list[tuple[int, ...]], width: int) -> Float:
    """Share the terms (n, T) or (n, T, K) of an EBM among their columns."""
    terms = terms.reshape(*terms.shape[:2], -1)
    found = np.zeros((len(terms), width, terms.shape[2]))
    for k, columns in enumerate(features):
        for d in columns:
            found[:, d] += terms[:, k] / len(columns)
    return found


def given(function: Importance, fitted: object, rows: TrainingRows, layout: Layout) -> Float:
    """Return the sums over groups of what a user's function says of columns, (J,)."""
    values = np.asarray(function(fitted, rows.table.take(layout.read), rows.target), dtype=np.float64)
    read = layout.read.size
    if values.shape != (read,) or not np.isfinite(values).all() or np.any(values < 0):
        raise ValueError(
            f"importance must return one finite number ≥ 0 for each of the {read} columns, got {shown(values)}"
        )
    return np.array([values[own].sum() for own in layout.position])
