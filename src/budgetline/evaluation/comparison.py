"""Many sequencers over many folds: one table."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from contextlib import nullcontext, suppress
from dataclasses import dataclass, replace
from time import perf_counter
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgWarning
from sklearn.base import clone, is_classifier
from sklearn.utils import indexable

from budgetline.budgets import Interpolation, check_interpolation
from budgetline.data.rows import Rows
from budgetline.evaluation.budget_curves import budget_curve
from budgetline.evaluation.cross_validation import Samples
from budgetline.evaluation.curve import BudgetCurve
from budgetline.evaluation.metrics import Metric, RowMetric, as_metric
from budgetline.evaluation.oracle import oracle_curve
from budgetline.evaluation.timeliness import check_fraction, plateau, stopping_cost, timeliness
from budgetline.inputs import check_table, check_target, check_weight, column_names, numbers_of
from budgetline.messages import shown, some
from budgetline.model.anytime import AnytimeModel, as_model
from budgetline.progress import Progress, make_bar
from budgetline.statistics.folds import fold_moments
from budgetline.statistics.moments import Moments
from budgetline.tables import Backend, frame_of, text_table

MOMENTS_BYTES = 1 << 30
"""The moments of all folds are shared if they take no more than this."""
MEANS = ("timeliness", "stop_cost", "final", "fit_seconds")
"""What the summary of a comparison takes the means of."""


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
    samples = Samples(indexable(X)[0], y, sample_weight, qid)
    splits = samples.splits(cv, any(map(is_classifier, estimators.values())))
    folds = [_Fold(samples, *split) for split in splits]
    if any(map(_takes_moments, estimators.values())):
        folds = _with_moments(folds, samples)
    bar = make_bar(progress, "fits", len(folds) * len(estimators))
    with nullcontext() if bar is None else bar:
        results = [judge.fold(k, estimators, fold, bar) for k, fold in enumerate(folds)]
    curves = {name: BudgetCurve.mean([mine[name] for _, mine in results]) for name in results[0][1]}
    return Comparison(tuple(row for rows, _ in results for row in rows), curves, judge.metric.name)


@dataclass(frozen=True)
class _Judge:
    """How to judge: by which metric, up to which cost, and what budgets between points buy."""

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
        self, number: int, estimators: Mapping[str, Any], fold: _Fold, bar: Any
    ) -> tuple[list[dict[str, Any]], dict[str, BudgetCurve]]:
        """Fit all methods on one fold; return their rows of the table and their curves."""
        models, curves, seconds = {}, {}, {}
        for name, estimator in estimators.items():
            fitted, seconds[name] = fold.fit(estimator)
            models[name], curves[name] = as_model(fitted), fold.curve(fitted, self.metric)
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

    def _check_losses(self, models: Mapping[str, AnytimeModel]) -> None:
        """Raise an error if what is explained is measured in different losses."""
        losses = {name: type(model.family).__name__ for name, model in models.items()}
        if self.metric.name in ("explained", "F") and len(set(losses.values())) > 1:
            each = some(losses.items(), of=lambda item: f"{shown(item[0])} {item[1]}")
            raise ValueError(
                f"{shown(self.metric.name)} is in the loss of each model ({each}): take a metric they share"
            )


@dataclass(frozen=True)
class _Fold:
    """Training and test rows; their moments, where all methods share them, and the seconds that these took."""

    samples: Samples
    train: NDArray[np.intp]
    test: NDArray[np.intp]
    moments: tuple[Moments, Moments] | None = None
    seconds: float = 0.0

    def fit(self, estimator: Any) -> tuple[Any, float]:
        """Return a fitted clone and the seconds that it took."""
        if self.moments is not None and _takes_moments(estimator):
            start = perf_counter()
            with suppress(LinAlgWarning), warnings.catch_warnings():
                warnings.simplefilter("error", LinAlgWarning)  # too ill conditioned for moments: fit from the rows
                return clone(estimator).fit_moments(self.moments[0]), perf_counter() - start + self.seconds
        rows = self.samples.take(self.train)
        start = perf_counter()
        return rows.fitted(estimator), perf_counter() - start

    def curve(self, model: Any, metric: Metric) -> BudgetCurve:
        """Return the held-out curve."""
        determined = isinstance(metric, RowMetric) and metric.of_errors is not None
        if self.moments is not None and determined and _takes_moments(model):
            with suppress(LinAlgWarning), warnings.catch_warnings():
                warnings.simplefilter("error", LinAlgWarning)
                return budget_curve(model, self.moments[1], metric=metric)
        return self.samples.take(self.test).curve(model, metric)


def _takes_moments(estimator: Any) -> bool:
    """Return whether an estimator learns from the moments of all rows: those with folds of their own do not."""
    squares = getattr(estimator, "loss", "squared_error") == "squared_error"
    return squares and hasattr(estimator, "fit_moments") and not hasattr(estimator, "cv")


def _with_moments(folds: list[_Fold], samples: Samples) -> list[_Fold]:
    """Return the folds with their moments, unless these are too large or the table has none.

    Columns that no group uses may hold text or missing values; each estimator then reads what it needs by itself.
    """
    table = check_table(samples.X)
    n, D = table.shape
    if n < D or 16 * D**2 * len(folds) > MOMENTS_BYTES:
        return folds
    Y, shape = check_target(samples.y, n)
    weight = check_weight(samples.weight, n)
    start = perf_counter()
    try:
        rows, _ = Rows(numbers_of(table), Y, weight).rescaled()
        found = list(fold_moments(rows, [(fold.train, fold.test) for fold in folds], column_names(samples.X)))
    except ValueError:
        return folds
    seconds = (perf_counter() - start) / len(folds)
    shaped = ((replace(train, target_shape=shape), replace(test, target_shape=shape)) for train, test in found)
    return [replace(fold, moments=both, seconds=seconds) for fold, both in zip(folds, shaped, strict=True)]


def _check_names(estimators: Mapping[str, Any], reference: str | None, oracles: tuple[str, ...]) -> str:
    """Check the names of methods; return that of the reference."""
    if not isinstance(estimators, Mapping):
        raise TypeError(f"estimators must be a mapping name -> estimator, got {type(estimators).__name__}")
    if isinstance(oracles, str):
        raise TypeError(f"oracles must be several names: give ({shown(oracles)},)")
    if not estimators:
        raise ValueError("there are no estimators to compare")
    for name in (*([] if reference is None else [reference]), *oracles):
        if name not in estimators:
            raise ValueError(f"{shown(name)} is not one of the estimators: {some(estimators)}")
    for name in oracles:
        if (taken := f"{name} oracle") in estimators:
            raise ValueError(f"{shown(taken)} is the name of the Oracle of {shown(name)}: rename the estimator")
    return next(iter(estimators)) if reference is None else reference
