"""Cross-validated curves: their mean over folds, and a table that compares methods."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from itertools import product
from time import perf_counter
from typing import NamedTuple

import numpy as np
from scipy.linalg import LinAlgWarning
from sklearn.base import clone, is_classifier

from budgetline.arrays import Positions
from budgetline.budgets import Interpolation, check_interpolation
from budgetline.data.rows import Rows
from budgetline.evaluation.budget_curves import budget_curve
from budgetline.evaluation.curve import BudgetCurve, stopping_cost, timeliness
from budgetline.evaluation.metrics import Metric, RowMetric, as_metric
from budgetline.evaluation.resampling import Samples
from budgetline.inputs import check_number, check_table, check_target, check_weight, column_names, numbers_of
from budgetline.messages import shown, some
from budgetline.model.anytime import as_staged
from budgetline.moments.moments import Moments, fold_moments
from budgetline.progress import Progress, counted
from budgetline.tables import Tabular, text_table

MOMENTS_BYTES = 1 << 30
"""Moments of all folds are computed once if they need no more memory than this."""
COLUMNS = ("method", "fold", "timeliness", "stop_cost", "final", "fit_seconds")
MEANS = ("timeliness", "stop_cost", "final", "fit_seconds")
"""The columns whose means are in a summary."""
Row = dict[str, str | float]


def cross_val_budget_curve(
    estimator: object,
    X: object,
    y: object,
    *,
    metric: object = "explained",
    pos_label: object = None,
    cv: object = None,
    sample_weight: object = None,
    qid: object = None,
    groups: object = None,
    progress: Progress = None,
) -> BudgetCurve:
    """Return the mean held-out curve over folds, with standard errors (``errors``) and one curve per fold (``folds``).

    Parameters
    ----------
    estimator : estimator
        The estimator to evaluate, which need not be fitted. A clone of it is fitted to each training set.
    X, y, metric, pos_label, sample_weight, qid
        As in `budget_curve`.
    cv : int, splitter, iterable or None
        The cross-validation splitting strategy, in any form that scikit-learn accepts. None means 5 folds. With
        ``qid``, an integer gives folds that keep each query together.
    groups : array of shape (n,), optional
        Group labels of the rows, such as patient numbers. If ``groups`` is passed and ``cv`` is an integer, the folds
        are shuffled and keep rows with the same label together; for a classifier, they are also stratified. The labels
        are passed on to estimators whose ``fit`` accepts them.
    progress : bool, None or "lines"
        Whether to show progress. If None, progress is shown on a terminal. With "lines", a line is printed to stderr
        every ten seconds, which suits log files.

    Examples
    --------
    >>> from budgetline import AnytimeRegressor, cross_val_budget_curve
    >>> from budgetline.datasets import load_nhanes
    >>> nhanes = load_nhanes()
    >>> curve = cross_val_budget_curve(AnytimeRegressor(nhanes.feature_groups), nhanes.data, nhanes.target, metric="r2")
    >>> len(curve.folds), curve.at(30) > 0.3
    (5, True)
    """
    samples, measure = Samples.given(X, y, sample_weight, qid, groups), as_metric(metric, pos_label)
    splits = samples.splits(cv, is_classifier(estimator))
    curves = []
    for train, test in counted(splits, progress, "folds"):
        model = samples.take(train).fitted(estimator)  # training rows are freed before test rows are copied
        curves.append(samples.take(test).curve(model, measure))
    return BudgetCurve.mean(curves)


@dataclass(frozen=True, eq=False)
class Comparison(Tabular):
    """The result of `compare`.

    ``rows`` has one entry per method and fold, with the fields method, fold, timeliness, stop_cost, final (the value at
    the cost of all groups) and fit_seconds. ``curves`` holds the mean held-out curve of each method, with standard
    errors and folds.
    """

    rows: tuple[Row, ...]
    curves: dict[str, BudgetCurve]
    metric: str

    def to_dict(self) -> dict[str, list[str | float]]:
        """Return a dict of columns, with one row per method and fold."""
        return {key: [row[key] for row in self.rows] for key in COLUMNS}

    def summary(self) -> dict[str, dict[str, float]]:
        """Return the means over folds: timeliness, its standard error as error, stop_cost, final and fit_seconds."""
        found = {}
        for method in self.curves:
            folds = np.array([[row[key] for key in MEANS] for row in self.rows if row["method"] == method])
            value, *others = folds.mean(axis=0).tolist()
            error = float(folds[:, 0].std(ddof=1) / np.sqrt(len(folds))) if len(folds) > 1 else np.nan
            found[method] = {"timeliness": value, "error": error, **dict(zip(MEANS[1:], others, strict=True))}
        return found

    def __str__(self) -> str:
        header = ["method", "timeliness", "± s.e.", f"final {self.metric}", "stop cost", "fit seconds"]
        rows = []
        for method, row in self.summary().items():
            fixed = [f"{row[key]:.4f}" for key in ("timeliness", "error", "final")]
            rows.append([method, *fixed, f"{row['stop_cost']:.6g}", f"{row['fit_seconds']:.3g}"])
        return text_table(header, rows, left={0})

    def __repr__(self) -> str:
        folds = len(self.rows) // len(self.curves)
        return f"Comparison({len(self.curves)} methods, {folds} folds, {self.metric})\n{self}"


def compare(
    estimators: Mapping[str, object],
    X: object,
    y: object,
    *,
    metric: object = "explained",
    pos_label: object = None,
    cv: object = None,
    fraction: float = 1.0,
    interpolation: Interpolation = "step",
    sample_weight: object = None,
    qid: object = None,
    groups: object = None,
    progress: Progress = None,
) -> Comparison:
    """Fit several estimators on the same folds and compare their held-out curves over all budgets.

    Squared-error estimators share one pass over the data. Each fold's share of its time is part of ``fit_seconds``.

    Parameters
    ----------
    estimators : mapping name -> estimator
        The estimators to compare, which need not be fitted. Clones of them are fitted.
    X, y, metric, pos_label, sample_weight, qid
        As in `budget_curve`.
    cv, groups, progress
        As in `cross_val_budget_curve`.
    fraction : float in [0, 1]
        Timeliness is the mean of a curve up to the `stopping_cost` of the first method in the same fold, at which its
        training curve reaches this fraction of its improvement. By default, it is the cost of the whole curve.
    interpolation
        As in `timeliness`.

    Examples
    --------
    >>> from budgetline import AnytimeRegressor, compare
    >>> from budgetline.datasets import load_nhanes
    >>> data = load_nhanes()
    >>> methods = {how: AnytimeRegressor(data.feature_groups, schedule=how) for how in ("greedy", "cheapest")}
    >>> found = compare(methods, data.data, data.target, fraction=0.95).summary()
    >>> found["greedy"]["timeliness"] > found["cheapest"]["timeliness"]
    True
    """
    check_interpolation(interpolation)
    check_number("fraction", fraction, ge=0, le=1)
    if not isinstance(estimators, Mapping):
        raise TypeError(f"estimators must be a mapping name -> estimator, got {type(estimators).__name__}")
    if not estimators:
        raise ValueError("there are no estimators to compare")
    samples, measure = Samples.given(X, y, sample_weight, qid, groups), as_metric(metric, pos_label)
    first = next(iter(estimators))
    rows, curves = list[Row](), {name: list[BudgetCurve]() for name in estimators}
    for fit in fits_on_folds(estimators, samples, measure, cv, progress):
        if fit.method == first:
            stop = stopping_cost(fit.training, fraction)
        mean, final = timeliness(fit.curve, stop, interpolation=interpolation), float(fit.curve.values[-1])
        rows.append(dict(zip(COLUMNS, (fit.method, fit.fold, mean, stop, final, fit.seconds), strict=True)))
        curves[fit.method].append(fit.curve)
    means = {name: BudgetCurve.mean(each) for name, each in curves.items()}
    return Comparison(tuple(rows), means, measure.name)


class Fit(NamedTuple):
    """A method fitted to the training rows of a fold, its curves on these and on the test rows, and the seconds."""

    method: str
    fold: int
    fitted: object
    test: Positions
    training: BudgetCurve
    curve: BudgetCurve
    seconds: float


def fits_on_folds(
    estimators: Mapping[str, object], samples: Samples, metric: object, cv: object, progress: Progress
) -> Iterator[Fit]:
    """Fit every method to every fold; methods of squared error share the moments of the folds."""
    measure, losses = as_metric(metric), dict[str, str]()
    folds = list(enumerate(_folds(samples, cv, estimators)))
    for (k, fold), name in counted(list(product(folds, estimators)), progress, "fits"):
        fitted, seconds = _fitted(fold, estimators[name])
        losses[name] = type(as_staged(fitted).family).__name__
        if measure.name in ("explained", "gain") and len(set(losses.values())) > 1:
            each = some(losses.items(), of=lambda item: f"{shown(item[0])} {item[1]}")
            raise ValueError(f"{shown(measure.name)} uses the loss of each model ({each}): choose a metric they share")
        yield Fit(name, k, fitted, fold.test, BudgetCurve.of(fitted), _test_curve(fold, fitted, measure), seconds)


class _FoldRows(NamedTuple):
    """Training and test rows; their moments if methods share them, and the seconds of the moments."""

    samples: Samples
    train: Positions
    test: Positions
    moments: tuple[Moments, Moments] | None = None
    seconds: float = 0.0


@contextmanager
def _well_conditioned() -> Iterator[None]:
    """Leave the block if moments are too ill conditioned; the caller then reads the rows."""
    with suppress(LinAlgWarning), warnings.catch_warnings():
        warnings.simplefilter("error", LinAlgWarning)
        yield


def _fitted(fold: _FoldRows, estimator: object) -> tuple[object, float]:
    """Return a fitted clone of an estimator, and the seconds of the fit."""
    if fold.moments is not None and _takes_moments(estimator):
        start = perf_counter()
        with _well_conditioned():
            return clone(estimator).fit_moments(fold.moments[0]), perf_counter() - start + fold.seconds
    rows = fold.samples.take(fold.train)
    start = perf_counter()
    return rows.fitted(estimator), perf_counter() - start


def _test_curve(fold: _FoldRows, fitted: object, metric: Metric) -> BudgetCurve:
    """Return the curve of a fitted model on the test rows, from their moments if these determine it."""
    determined = isinstance(metric, RowMetric) and metric.of_errors is not None
    if fold.moments is not None and determined and _takes_moments(fitted):
        with _well_conditioned():
            return budget_curve(fitted, fold.moments[1], metric=metric)
    return fold.samples.take(fold.test).curve(fitted, metric)


def _takes_moments(estimator: object) -> bool:
    """Return whether an estimator can be fitted to the moments of all rows: not if it encodes columns."""
    squares = getattr(estimator, "loss", "squared_error") == "squared_error"
    return squares and hasattr(estimator, "fit_moments") and getattr(estimator, "encoding", None) is None


def _folds(samples: Samples, cv: object, estimators: Mapping[str, object]) -> list[_FoldRows]:
    """Return the folds, with moments if a method can use them, they are small and the table has only numbers.

    Other tables have no moments: each estimator reads only the columns it needs.
    """
    splits = samples.splits(cv, any(map(is_classifier, estimators.values())))
    plain = [_FoldRows(samples, *split) for split in splits]
    if not any(map(_takes_moments, estimators.values())):
        return plain
    table = check_table(samples.X)
    n, D = table.shape
    if n < D or 16 * D**2 * len(splits) > MOMENTS_BYTES:
        return plain
    Y, shape = check_target(samples.y, n)
    weight = check_weight(samples.weight, n)
    start = perf_counter()
    try:
        rows, _ = Rows(numbers_of(table), Y, weight).rescaled()
        found = list(fold_moments(rows, splits, column_names(samples.X)))
    except ValueError:
        return plain
    seconds = (perf_counter() - start) / len(splits)
    shaped = [(replace(train, target_shape=shape), replace(test, target_shape=shape)) for train, test in found]
    return [_FoldRows(samples, *split, both, seconds) for split, both in zip(splits, shaped, strict=True)]
