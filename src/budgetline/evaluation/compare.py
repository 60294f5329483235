"""Many sequencers over many folds: one table."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from contextlib import nullcontext, suppress
from dataclasses import dataclass, replace
from time import perf_counter
from typing import Any, Literal

import numpy as np
from scipy.linalg import LinAlgWarning
from sklearn.base import clone, is_classifier
from sklearn.utils import _safe_indexing, indexable

from budgetline.budgets import Interpolation, check_interpolation
from budgetline.data.rows import Rows
from budgetline.evaluation.budget import budget_curve, rows_of, splits_of, weight_of
from budgetline.evaluation.curve import BudgetCurve
from budgetline.evaluation.metrics import Explained, MeanSquaredError, Metric, as_metric
from budgetline.evaluation.timeliness import check_fraction, oracle_curve, plateau, stopping_cost, timeliness
from budgetline.inputs import check_table, check_target, check_weight, column_names, numbers_of
from budgetline.messages import shown, some
from budgetline.model.anytime import as_model
from budgetline.progress import Progress, make_bar
from budgetline.statistics.folds import fold_moments
from budgetline.statistics.moments import Moments
from budgetline.tables import Backend, frame_of, text_table

MOMENTS_BYTES = 1 << 30
"""The moments of all folds are shared if they take no more than this."""


@dataclass(frozen=True, eq=False)
class Comparison:
    """What :func:`compare` found.

    Attributes
    ----------
    rows : tuple of dict
        One per method and fold: method, fold, timeliness, fraction, stop_cost, final (the value at the whole cost),
        fit_seconds.
    curves : dict name -> BudgetCurve
        The mean held-out curve of every method, with its standard error and the folds it is the mean of.
    metric : str
    """

    rows: tuple[dict[str, Any], ...]
    curves: dict[str, BudgetCurve]
    metric: str

    def to_frame(self, backend: Backend = "pandas") -> Any:
        """Return one row per method and fold as a data frame."""
        columns = {key: [row[key] for row in self.rows] for key in self.rows[0]}
        return frame_of(columns, backend)

    def summary(self) -> dict[str, dict[str, float]]:
        """Return, per method, mean and standard error over folds of the timeliness, and the other means.

        Examples
        --------
        >>> from budgetline import AnytimeRegressor, compare
        >>> from budgetline.datasets import load_nhanes
        >>> nhanes = load_nhanes()
        >>> found = compare({"fr": AnytimeRegressor(nhanes.feature_groups)}, nhanes.data, nhanes.target, cv=2)
        >>> sorted(found.summary()["fr"])
        ['error', 'final', 'fit_seconds', 'stop_cost', 'timeliness']
        """
        found = {}
        for method in self.curves:
            mine = [row for row in self.rows if row["method"] == method]
            values = np.array([row["timeliness"] for row in mine])
            means = {key: float(np.mean([row[key] for row in mine])) for key in ("stop_cost", "final", "fit_seconds")}
            error = values.std(ddof=1) / np.sqrt(len(values)) if len(values) > 1 else np.nan
            found[method] = {"timeliness": float(values.mean()), "error": float(error), **means}
        return found

    def __str__(self) -> str:
        header = ["method", "timeliness", "± s.e.", f"final {self.metric}", "stop cost", "fit seconds"]
        rows = []
        for method, row in self.summary().items():
            cells = [
                f"{row['timeliness']:.4f}",
                f"{row['error']:.4f}",
                f"{row['final']:.4f}",
                f"{row['stop_cost']:.6g}",
            ]
            rows.append([method, *cells, "" if np.isnan(row["fit_seconds"]) else f"{row['fit_seconds']:.3g}"])
        heuristic = any("heuristic" in curve.label for curve in self.curves.values())
        note = "\noracle: steps reordered as if their gains stayed the same; a heuristic, not an upper bound"
        return text_table(header, rows, left={0}) + note * heuristic

    def __repr__(self) -> str:
        folds = len(self.rows) // len(self.curves)
        return f"Comparison({len(self.curves)} methods, {folds} folds, {self.metric})\n{self}"


def compare(
    estimators: Mapping[str, Any],
    X: Any,
    y: Any,
    *,
    metric: Any = "explained",
    cv: Any = None,
    fraction: float | Literal["plateau"] = 1.0,
    reference: str | None = None,
    oracles: tuple[str, ...] = (),
    interpolation: Interpolation = "step",
    sample_weight: Any = None,
    qid: Any = None,
    progress: Progress = None,
) -> Comparison:
    """Fit several estimators on the same folds and compare what they are worth over all budgets.

    Estimators of squared error share one pass over the data, and metrics of squared error need no other.

    Parameters
    ----------
    estimators : mapping name -> estimator
        Not fitted; clones are.
    X, y, metric, sample_weight, qid
        As in :func:`budget_curve`.
    cv : int, splitter, iterable or None
        As everywhere in scikit-learn; None is 5 folds. With ``qid`` an int keeps queries together.
    fraction : float in [0, 1], or "plateau"
        Curves are judged up to the α-stopping cost of the reference's training curve, fold by fold; "plateau" finds α
        by the paper's rule. The default, 1, is the whole curve. (Not the ridge constant: estimators have their own.)
    reference : str, optional
        The method whose training curve gives the stopping cost; the paper's is CS-G-OMP. Default: the first.
    oracles : tuple of str
        Methods of which the Oracle curve, a heuristic, is judged too; it is listed as "… oracle".
    interpolation, progress
        As in :func:`timeliness` and :func:`cross_val_budget_curve`.

    Returns
    -------
    Comparison
        ``to_frame()`` has one row per method and fold, ``str()`` is a table. Seconds include a share of the one pass.

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
    judge = _Judge(as_metric(metric), fraction, _check_names(estimators, reference, oracles), oracles, interpolation)
    data = _Data(X := indexable(X)[0], y, sample_weight, qid)
    folds = _folds(data, splits_of(_example(estimators), X, y, cv, qid), estimators)
    bar = make_bar(progress, "fits", len(folds) * len(estimators))
    with nullcontext() if bar is None else bar:
        results = [judge.fold(k, estimators, data, fold, bar) for k, fold in enumerate(folds)]
    curves = {name: BudgetCurve.mean([r[1][name] for r in results]) for name in results[0][1]}
    return Comparison(tuple(row for rows, _ in results for row in rows), curves, judge.metric.name)


@dataclass(frozen=True)
class _Judge:
    """How to judge: by which metric, up to which cost, and how to read the curves."""

    metric: Metric
    fraction: float | Literal["plateau"]
    reference: str
    oracles: tuple[str, ...]
    interpolation: Interpolation

    def __post_init__(self) -> None:
        check_interpolation(self.interpolation)
        if self.fraction != "plateau":
            check_fraction(self.fraction)

    def fold(
        self, number: int, estimators: Mapping[str, Any], data: _Data, fold: _Fold, bar: Any
    ) -> tuple[list[dict[str, Any]], dict[str, BudgetCurve]]:
        """Fit all methods on one fold; return their rows of the table and their curves."""
        models, curves, seconds = {}, {}, {}
        for name, estimator in estimators.items():
            models[name], seconds[name] = _fit(estimator, data, fold)
            curves[name] = _curve(models[name], data, fold, self.metric)
            if bar is not None:
                bar.update()
        self._check_losses(models)
        curves |= {f"{name} oracle": oracle_curve(curves[name]) for name in self.oracles}
        fraction = plateau(models[self.reference]) if self.fraction == "plateau" else self.fraction
        stop = stopping_cost(models[self.reference], fraction)
        rows = [
            {
                "method": name,
                "fold": number,
                "timeliness": timeliness(curve, stop, interpolation=self.interpolation),
                "fraction": float(fraction),
                "stop_cost": stop,
                "final": float(curve.values[-1]),
                "fit_seconds": seconds.get(name, np.nan),
            }
            for name, curve in curves.items()
        ]
        return rows, curves

    def _check_losses(self, models: Mapping[str, Any]) -> None:
        """Raise an error if what is explained is measured in different losses."""
        losses = {name: type(as_model(model).family).__name__ for name, model in models.items()}
        if isinstance(self.metric, Explained) and len(set(losses.values())) > 1:
            each = some(losses.items(), of=lambda item: f"{shown(item[0])} {item[1]}")
            raise ValueError(
                f"{shown(self.metric.name)} is in the loss of each model ({each}): take a metric they share"
            )


@dataclass(frozen=True)
class _Data:
    """What the user gave, as it was given."""

    X: Any
    y: Any
    sample_weight: Any
    qid: Any


@dataclass(frozen=True)
class _Fold:
    """Training and test rows; their moments where they can be shared, and the seconds those took."""

    train: Any
    test: Any
    moments: tuple[Moments, Moments] | None = None
    seconds: float = 0.0


def _folds(data: _Data, splits: list[tuple[Any, Any]], estimators: Mapping[str, Any]) -> list[_Fold]:
    """Return the folds, with moments unless nobody takes them, they would be too large, or the table has none.

    Columns that no group uses may hold text or missing values; each estimator then reads what it needs by itself.
    """
    plain = [_Fold(train, test) for train, test in splits]
    if not any(map(_takes_moments, estimators.values())):
        return plain
    table = check_table(data.X)
    n, D = table.shape
    if n < D or 16 * D**2 * len(splits) > MOMENTS_BYTES:
        return plain
    Y, target_shape = check_target(data.y, n)
    weight = check_weight(data.sample_weight, n)
    start = perf_counter()
    try:
        found = list(fold_moments(Rows(numbers_of(table), Y, weight).rescaled()[0], splits, column_names(data.X)))
    except ValueError:
        return plain
    seconds = (perf_counter() - start) / len(splits)
    shaped = [(replace(train, target_shape=target_shape), replace(test, target_shape=target_shape))
              for train, test in found]  # fmt: skip
    return [replace(fold, moments=moments, seconds=seconds) for fold, moments in zip(plain, shaped, strict=True)]


def _takes_moments(estimator: Any) -> bool:
    return hasattr(estimator, "fit_moments") and getattr(estimator, "loss", "squared_error") == "squared_error"


def _example(estimators: Mapping[str, Any]) -> Any:
    """Return an estimator that decides how folds are made: they are stratified if any method is a classifier."""
    return next(filter(is_classifier, estimators.values()), next(iter(estimators.values())))


def _fit(estimator: Any, data: _Data, fold: _Fold) -> tuple[Any, float]:
    """Return a fitted clone and the seconds that took."""
    model = clone(estimator)
    if fold.moments is not None and _takes_moments(estimator):
        start = perf_counter()
        with suppress(LinAlgWarning), warnings.catch_warnings():
            warnings.simplefilter("error", LinAlgWarning)  # too ill conditioned for moments: fit from the rows
            model.fit_moments(fold.moments[0])
            return model, perf_counter() - start + fold.seconds
    X, y = rows_of(fold.train, data.X, data.y)
    start = perf_counter()
    model.fit(X, y, **weight_of(data.sample_weight, fold.train, model))
    return model, perf_counter() - start


def _curve(model: Any, data: _Data, fold: _Fold, metric: Metric) -> BudgetCurve:
    """Return the held-out curve."""
    if fold.moments is not None and _takes_moments(model) and isinstance(metric, Explained | MeanSquaredError):
        with suppress(LinAlgWarning), warnings.catch_warnings():
            warnings.simplefilter("error", LinAlgWarning)
            return budget_curve(model, fold.moments[1], metric=metric)
    X, y = rows_of(fold.test, data.X, data.y)
    qid = None if data.qid is None else _safe_indexing(data.qid, fold.test)
    return budget_curve(model, X, y, metric=metric, qid=qid, **weight_of(data.sample_weight, fold.test))


def _check_names(estimators: Mapping[str, Any], reference: str | None, oracles: tuple[str, ...]) -> str:
    if not isinstance(estimators, Mapping):
        raise TypeError(f"estimators must be a mapping name -> estimator, got {type(estimators).__name__}")
    if isinstance(oracles, str):
        raise TypeError(f"oracles must be several names: give ({shown(oracles)},)")
    if not estimators:
        raise ValueError("there are no estimators to compare")
    if taken := [name for name in oracles if f"{name} oracle" in estimators]:
        raise ValueError(
            f"{shown(taken[0] + ' oracle')} is the name of the Oracle of {shown(taken[0])}: rename the estimator"
        )
    for name in (reference, *oracles):
        if name is not None and name not in estimators:
            raise ValueError(f"{shown(name)} is not one of the estimators: {some(estimators)}")
    return next(iter(estimators)) if reference is None else reference
