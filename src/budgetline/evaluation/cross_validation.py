"""Curves over folds: rows of the user's data, and the mean of held-out curves."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral, Real

from numpy.typing import ArrayLike
from sklearn.base import clone, is_classifier
from sklearn.model_selection import GroupKFold, check_cv
from sklearn.utils import _safe_indexing, indexable
from sklearn.utils.validation import column_or_1d

from budgetline.arrays import Positions
from budgetline.budgets import Interpolation
from budgetline.evaluation.budget_curves import budget_curve
from budgetline.evaluation.curve import BudgetCurve
from budgetline.inputs import raise_missing
from budgetline.progress import Progress, counted
from budgetline.statistics.folds import Split


def cross_val_budget_curve(
    estimator: object,
    X: object,
    y: object,
    *,
    metric: object = "explained",
    cv: object = None,
    sample_weight: object = None,
    qid: object = None,
    grid: ArrayLike | None = None,
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
    samples = Samples(indexable(X)[0], y, sample_weight, qid)
    splits = samples.splits(cv, is_classifier(estimator))
    curves = []
    for train, test in counted(splits, progress, "folds"):
        model = samples.take(train).fitted(estimator)  # test rows are copied after the training rows are gone
        curves.append(samples.take(test).curve(model, metric))
    return BudgetCurve.mean(curves, grid=grid, interpolation=interpolation)


@dataclass(frozen=True)
class Samples:
    """A user's rows as they were given: table, targets, weights and queries."""

    X: object
    y: object
    weight: object = None
    qid: object = None

    def splits(self, cv: object, stratified: bool) -> list[Split]:
        """Return training and test rows of every fold; those that we make ourselves keep queries together."""
        if self.y is not None:
            raise_missing(self.y)
        queries = self.qid
        if queries is not None:
            raise_missing(queries, name="qid")
            queries = column_or_1d(queries)
            cv = GroupKFold(5 if cv is None else cv) if cv is None or isinstance(cv, Integral) else cv
        return list(check_cv(cv, self.y, classifier=stratified).split(self.X, self.y, queries))

    def take(self, rows: Positions) -> Samples:
        """Return some of the rows; a number as the weight is that of all."""
        return Samples(*(part if part is None or isinstance(part, Real) else _rows(part, rows)
                         for part in (self.X, self.y, self.weight, self.qid)))  # fmt: skip

    def fitted(self, estimator: object) -> object:
        """Return a clone of an estimator, fitted to these rows; a pipeline gets the weights for its last step."""
        weight = {} if self.weight is None else {f"{_last_step(estimator)}sample_weight": self.weight}
        fitted: object = clone(estimator).fit(self.X, self.y, **weight)
        return fitted

    def curve(self, model: object, metric: object) -> BudgetCurve:
        """Return the curve of a fitted model on these rows."""
        return budget_curve(model, self.X, self.y, metric=metric, sample_weight=self.weight, qid=self.qid)


def _rows(table: object, index: Positions) -> object:
    if hasattr(table, "take") and type(table).__module__.startswith("pyarrow"):
        return table.take(index)  # older scikit-learn cannot index its tables
    return _safe_indexing(table, index)


def _last_step(estimator: object) -> str:
    """Return the prefix of the parameters of ``fit`` that go to the last step of pipelines."""
    if hasattr(estimator, "steps"):
        name, last = estimator.steps[-1]
        return f"{name}__{_last_step(last)}"
    return _last_step(estimator.estimator) if hasattr(estimator, "estimator") else ""
