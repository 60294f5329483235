"""Cross-validated curves: their mean over folds, and a table that compares methods."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import groupby, product
from time import perf_counter
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import LinAlgWarning
from sklearn.base import clone, is_classifier

from budgetline.arrays import Positions
from budgetline.budgets import Interpolation, check_interpolation
from budgetline.data.rows import Rows
from budgetline.evaluation.budget_curves import budget_curve, oracle_curve
from budgetline.evaluation.curve import BudgetCurve, plateau, stopping_cost, timeliness
from budgetline.evaluation.metrics import Metric, RowMetric, as_metric
from budgetline.evaluation.resampling import Samples
from budgetline.inputs import check_number, check_table, check_target, check_weight, column_names, numbers_of
from budgetline.messages import shown, some
from budgetline.model.anytime import as_staged
from budgetline.moments.fold_moments import fold_moments
from budgetline.moments.moments import Moments
from budgetline.progress import Progress, counted
from budgetline.tables import Backend, frame_of, text_table

MOMENTS_BYTES = 1 << 30
"""Moments of all folds are computed once if they need no more memory than this."""
COLUMNS = ("method", "fold", "timeliness", "fraction", "stop_cost", "final", "fit_seconds")
MEANS = ("timeliness", "stop_cost", "final", "fit_seconds")
"""The columns whose means are in a summary."""
Row = dict[str, str | float]


def cross_val_budget_curve(
    estimator: object,
    X: object,
    y: object,
    *,
    metric: object = "explained",
    cv: object = None,
    sample_weight: object = None,
    qid: object = None,
    groups: object = None,
    grid: ArrayLike | None = None,
    interpolation: Interpolation = "step",
    progress: Progress = None,
) -> BudgetCurve:
    """Return the mean of held-out curves over folds, with its standard error in ``errors`` and the curves in ``folds``.

    Parameters
    ----------
    estimator : estimator
        Not fitted; a clone is fitted to each training set.
    X, y, metric, sample_weight, qid
        As in :func:`budget_curve`.
    cv : int, splitter, iterable or None
        As everywhere in scikit-learn; None is 5 folds. With ``qid`` an int keeps queries together.
    groups : array of shape (n,), optional
        Labels of rows that belong together, such as patients. An int then makes shuffled folds that keep them together,
        for a classifier with about equal shares of classes. They are passed to estimators whose ``fit`` accepts them.
    grid : array of costs, optional
        Where to compute the mean; default: every cost at which a fold has a point.
    interpolation : {"step", "linear"}
    progress : bool, None or "lines"
        Whether to show a progress bar; None: on a terminal if tqdm is installed. "lines": a line on stderr every ten
        seconds, for logs.

    Examples
    --------
    >>> from budgetline import AnytimeRegressor, cross_val_budget_curve
    >>> from budgetline.datasets import load_nhanes
    >>> nhanes = load_nhanes()
    >>> curve = cross_val_budget_curve(AnytimeRegressor(nhanes.feature_groups), nhanes.data, nhanes.target, metric="r2")
    >>> len(curve.folds), curve.at(30) > 0.3
    (5, True)
    """
    samples = Samples.given(X, y, sample_weight, qid, groups)
    splits = samples.splits(cv, is_classifier(estimator))
    curves = []
    for train, test in counted(splits, progress, "folds"):
        model = samples.take(train).fitted(estimator)  # training rows are freed before test rows are copied
        curves.append(samples.take(test).curve(model, metric))
    return BudgetCurve.mean(curves, grid=grid, interpolation=interpolation)


AfterFit = Callable[[str, object, Samples], None]
"""Called with a method, its fitted clone and the held-out rows of a fold."""


@dataclass(frozen=True, eq=False)
class Comparison:
    """What :func:`compare` found.

    ``rows`` has one entry per method and fold: method, fold, timeliness, fraction, stop_cost, final (the value at the
    whole cost), fit_seconds. ``curves`` are the mean held-out curves of the methods, with standard errors and folds.
    """

    rows: tuple[Row, ...]
    curves: dict[str, BudgetCurve]
    metric: str

    def to_frame(self, backend: Backend = "pandas") -> Any:
        """Return one row per method and fold as a data frame."""
        return frame_of({key: [row[key] for row in self.rows] for key in COLUMNS}, backend)

    def summary(self) -> dict[str, dict[str, float]]:
        """Return means over folds by method: timeliness, its standard error "error", stop_cost, final, fit_seconds."""
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
            seconds = "" if np.isnan(row["fit_seconds"]) else f"{row['fit_seconds']:.3g}"
            rows.append([method, *fixed, f"{row['stop_cost']:.6g}", seconds])
        heuristic = any("heuristic" in curve.label for curve in self.curves.values())
        note = "\noracle: steps reordered as if their gains stayed the same; a heuristic, not an upper bound"
        return text_table(header, rows, left={0}) + note * heuristic

    def __repr__(self) -> str:
        folds = len(self.rows) // len(self.curves)
        return f"Comparison({len(self.curves)} methods, {folds} folds, {self.metric})\n{self}"


def compare(
    estimators: Mapping[str, object],
    X: object,
    y: object,
    *,
    metric: object = "explained",
    cv: object = None,
    fraction: float | Literal["plateau"] = 1.0,
    reference: str | None = None,
    oracles: tuple[str, ...] = (),
    interpolation: Interpolation = "step",
    sample_weight: object = None,
    qid: object = None,
    groups: object = None,
    progress: Progress = None,
) -> Comparison:
    """Fit several estimators on the same folds and compare their held-out curves over all budgets.

    Estimators of squared error share one pass over the data; the seconds of each include a part of it. Metrics of
    squared error need no other pass. ``to_frame()`` of the result has one row per method and fold, ``str()`` a table.

    Parameters
    ----------
    estimators : mapping name -> estimator, whose clones are fitted
    X, y, metric, sample_weight, qid
        As in :func:`budget_curve`.
    cv : int, splitter, iterable or None
        As everywhere in scikit-learn; None is 5 folds. With ``qid`` an int keeps queries together.
    groups : array of shape (n,), optional
        As in :func:`cross_val_budget_curve`.
    fraction : float in [0, 1], or "plateau"
        Curves are evaluated up to the stopping cost of the reference's training curve, fold by fold; "plateau" finds
        the fraction by the paper's rule. The default, 1, is the whole curve.
    reference : str, optional
        The method whose training curve sets the stopping cost, CS-G-OMP in the paper. Default: the first.
    oracles : tuple of str
        Methods whose :func:`oracle_curve` is evaluated, too, as "… oracle".
    interpolation, progress
        As in :func:`timeliness` and :func:`cross_val_budget_curve`.

    Examples
    --------
    >>> from budgetline import AnytimeRegressor, compare
    >>> from budgetline.datasets import load_nhanes
    >>> data = load_nhanes()
    >>> methods = {how: AnytimeRegressor(data.feature_groups, schedule=how) for how in ("greedy", "cheapest")}
    >>> found = compare(methods, data.data, data.target, fraction="plateau").summary()
    >>> found["greedy"]["timeliness"] > found["cheapest"]["timeliness"]
    True
    """
    check_interpolation(interpolation)
    check_number("fraction", 1 if fraction == "plateau" else fraction, ge=0, le=1)
    reference = _check_names(estimators, reference, oracles)
    samples = Samples.given(X, y, sample_weight, qid, groups)
    how = (fraction, reference, oracles, interpolation)
    return compared(estimators, samples, metric, cv, progress, how)


def compared(
    estimators: Mapping[str, object],
    samples: Samples,
    metric: object,
    cv: object,
    progress: Progress,
    how: tuple[float | str, str, tuple[str, ...], Interpolation],
    after_fit: AfterFit | None = None,
) -> Comparison:
    """Compare as :func:`compare` does; ``after_fit(name, fitted, held-out rows)`` is called after each fit.

    ``how`` are fraction, reference, oracles and interpolation.
    """
    measure, fits = as_metric(metric), list[_FoldFit]()
    folds = _folds(samples, cv, estimators)
    for fold, name in counted(list(product(folds, estimators)), progress, "fits"):
        fits.append(fold.fit(name, estimators[name], measure, after_fit))
        _check_losses(fits, measure)
    rows, curves = _evaluated(fits, *how)
    return Comparison(rows, {name: BudgetCurve.mean(each) for name, each in curves.items()}, measure.name)


@dataclass(frozen=True)
class _FoldFit:
    """A method on a fold: its loss, its curves on training and test rows, and the seconds of the fit."""

    fold: int
    method: str
    loss: str
    training: BudgetCurve
    test: BudgetCurve
    seconds: float


def _evaluated(
    fits: list[_FoldFit], fraction: float | str, reference: str, oracles: tuple[str, ...], interpolation: Interpolation
) -> tuple[tuple[Row, ...], dict[str, list[BudgetCurve]]]:
    """Evaluate the fits of every fold up to the stopping cost of the reference on that fold."""
    rows: list[Row] = []
    curves: dict[str, list[BudgetCurve]] = {}
    for k, fold in groupby(fits, key=lambda fit: fit.fold):
        found = {fit.method: fit for fit in fold}
        leader = found[reference].training
        share = plateau(leader) if fraction == "plateau" else float(fraction)
        stop = stopping_cost(leader, share)
        found_curves = {name: (fit.test, fit.seconds) for name, fit in found.items()}
        found_curves |= {f"{name} oracle": (oracle_curve(found[name].test), np.nan) for name in oracles}
        for name, (curve, seconds) in found_curves.items():
            mean = timeliness(curve, stop, interpolation=interpolation)
            values = (name, k, mean, share, stop, float(curve.values[-1]), seconds)
            rows.append(dict(zip(COLUMNS, values, strict=True)))
            curves.setdefault(name, []).append(curve)
    return tuple(rows), curves


def _check_losses(fits: list[_FoldFit], metric: Metric) -> None:
    """Raise an error if the methods explain different losses."""
    losses = {fit.method: fit.loss for fit in fits}
    if metric.name in ("explained", "F") and len(set(losses.values())) > 1:
        each = some(losses.items(), of=lambda item: f"{shown(item[0])} {item[1]}")
        raise ValueError(f"{shown(metric.name)} is in the loss of each model ({each}): choose a metric they share")


@dataclass(frozen=True)
class _FoldRows:
    """Training and test rows; their moments if methods share them, and the seconds of the moments."""

    number: int
    samples: Samples
    train: Positions
    test: Positions
    moments: tuple[Moments, Moments] | None = None
    seconds: float = 0.0

    def fit(self, name: str, estimator: object, metric: Metric, after_fit: AfterFit | None) -> _FoldFit:
        """Fit a clone of an estimator and evaluate it."""
        fitted, seconds = self._fitted(estimator)
        if after_fit is not None:
            after_fit(name, fitted, self.samples.take(self.test))
        loss = type(as_staged(fitted).family).__name__
        return _FoldFit(self.number, name, loss, BudgetCurve.of(fitted), self._curve(fitted, metric), seconds)

    def _fitted(self, estimator: object) -> tuple[object, float]:
        if self.moments is not None and _takes_moments(estimator):
            start = perf_counter()
            with suppress(LinAlgWarning), warnings.catch_warnings():
                warnings.simplefilter("error", LinAlgWarning)  # too ill conditioned for moments: fit the rows
                return clone(estimator).fit_moments(self.moments[0]), perf_counter() - start + self.seconds
        rows = self.samples.take(self.train)
        start = perf_counter()
        return rows.fitted(estimator), perf_counter() - start

    def _curve(self, fitted: object, metric: Metric) -> BudgetCurve:
        determined = isinstance(metric, RowMetric) and metric.of_errors is not None
        if self.moments is not None and determined and _takes_moments(fitted):
            with suppress(LinAlgWarning), warnings.catch_warnings():
                warnings.simplefilter("error", LinAlgWarning)
                return budget_curve(fitted, self.moments[1], metric=metric)
        return self.samples.take(self.test).curve(fitted, metric)


def _takes_moments(estimator: object) -> bool:
    """Return whether an estimator can be fitted to the moments of all rows: not if it makes folds itself."""
    squares = getattr(estimator, "loss", "squared_error") == "squared_error"
    return squares and hasattr(estimator, "fit_moments") and not hasattr(estimator, "cv")


def _folds(samples: Samples, cv: object, estimators: Mapping[str, object]) -> list[_FoldRows]:
    """Return the folds, with moments if a method can use them, they are small and the whole table is numeric.

    Columns that no group uses may hold text or missing values: each estimator then reads only what it needs.
    """
    splits = samples.splits(cv, any(map(is_classifier, estimators.values())))
    plain = [_FoldRows(k, samples, *split) for k, split in enumerate(splits)]
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
    shaped = ((replace(train, target_shape=shape), replace(test, target_shape=shape)) for train, test in found)
    return [replace(fold, moments=both, seconds=seconds) for fold, both in zip(plain, shaped, strict=True)]


def _check_names(estimators: Mapping[str, object], reference: str | None, oracles: tuple[str, ...]) -> str:
    """Check the names of methods, and return that of the reference."""
    if not isinstance(estimators, Mapping):
        raise TypeError(f"estimators must be a mapping name -> estimator, got {type(estimators).__name__}")
    if isinstance(oracles, str):
        raise TypeError(f"oracles must be several names: pass ({shown(oracles)},)")
    if not estimators:
        raise ValueError("there are no estimators to compare")
    for name in (reference, *oracles):
        if name is not None and name not in estimators:
            raise ValueError(f"{shown(name)} is not one of the estimators: {some(estimators)}")
    for name in oracles:
        if (taken := f"{name} oracle") in estimators:
            raise ValueError(f"{shown(taken)} is the name of the Oracle of {shown(name)}: rename the estimator")
    return next(iter(estimators)) if reference is None else reference
