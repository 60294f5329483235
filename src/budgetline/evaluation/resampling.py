"""Rows as a user passes them, and the folds of a cross-validation."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Real

from sklearn.base import clone
from sklearn.model_selection import GroupKFold, KFold, StratifiedGroupKFold, StratifiedKFold
from sklearn.utils import _safe_indexing, indexable
from sklearn.utils.validation import _num_samples, has_fit_parameter

from budgetline.arrays import Positions
from budgetline.devices import on_host
from budgetline.evaluation.budget_curves import budget_curve
from budgetline.evaluation.curve import BudgetCurve
from budgetline.evaluation.splits import grouped_folds, number_in, splits_of
from budgetline.inputs import check_weight, raise_missing
from budgetline.messages import shown
from budgetline.moments.fold_moments import Split


@dataclass(frozen=True)
class Samples:
    """A user's rows: table, targets, weights, queries, and groups that folds keep together."""

    X: object
    y: object
    weight: object = None
    qid: object = None
    groups: object = None

    @classmethod
    def given(cls, X: object, y: object, weight: object = None, qid: object = None, groups: object = None) -> Samples:
        """Return rows that can be indexed; arrays of other libraries are copied to the host."""
        if qid is not None and groups is not None:
            raise ValueError("folds keep queries together or groups: pass one of qid and groups")
        X, y, weight, qid, groups = map(on_host, (X, y, weight, qid, groups))
        return cls(indexable(X)[0], y, weight, qid, groups)

    def splits(self, cv: object, stratified: bool) -> list[Split]:
        """Return training and test rows of every fold; a number of folds keeps queries and groups together."""
        if self.y is not None:
            raise_missing(self.y)
        check_weight(self.weight, _num_samples(self.X))
        if self.qid is not None:
            raise_missing(self.qid, name="qid")
            cv = GroupKFold(number) if (number := number_in(cv)) else cv
        groups = self.qid if self.groups is None else self.groups
        return splits_of(cv, self.y, groups, classifier=stratified, X=self.X)

    def take(self, rows: Positions) -> Samples:
        """Return some of the rows; a weight that is one number stays."""
        return Samples(*(_rows(part, rows) for part in (self.X, self.y, self.weight, self.qid, self.groups)))

    def fitted(self, estimator: object) -> object:
        """Return a clone of an estimator, fitted to these rows.

        Weights, and groups if ``fit`` accepts them, are passed to the last step of a pipeline.
        """
        prefix, last = _last_step(estimator)
        given = {} if self.weight is None else {f"{prefix}sample_weight": self.weight}
        if self.groups is not None and has_fit_parameter(last, "groups"):
            given[f"{prefix}groups"] = self.groups
        fitted: object = clone(estimator).fit(self.X, self.y, **given)
        return fitted

    def curve(self, model: object, metric: object) -> BudgetCurve:
        """Return the curve of a fitted model on these rows."""
        return budget_curve(model, self.X, self.y, metric=metric, sample_weight=self.weight, qid=self.qid)


def _rows(table: object, index: Positions) -> object:
    if table is None or isinstance(table, Real):
        return table
    if hasattr(table, "take") and type(table).__module__.startswith("pyarrow"):
        return table.take(index)  # older scikit-learn cannot index its tables
    return _safe_indexing(table, index)


def _last_step(estimator: object) -> tuple[str, object]:
    """Return the last step of nested pipelines, and the prefix of its parameters of ``fit``."""
    if has_fit_parameter(estimator, "sample_weight"):
        return "", estimator
    if hasattr(estimator, "steps"):
        name, last = estimator.steps[-1]
        prefix, found = _last_step(last)
        return f"{name}__{prefix}", found
    return _last_step(estimator.estimator) if hasattr(estimator, "estimator") else ("", estimator)


def make_folds(
    cv: object, stratified: bool, *, shuffle: bool = True, random_state: int = 0, grouped: bool = False
) -> object:
    """Return a splitter for a number of folds, None: 5; a splitter or a list of splits is returned unchanged.

    Rows are often sorted by time or class, so that contiguous folds would differ from the training rows: they are
    shuffled. Folds of ``grouped`` rows keep groups together.
    """
    number = number_in(cv)
    if number is None:
        return cv
    if grouped:
        return grouped_folds(number, stratified, shuffle=shuffle, random_state=random_state)
    kind = StratifiedKFold if stratified else KFold
    return kind(number, shuffle=shuffle, random_state=random_state if shuffle else None)


def folds_in_words(cv: object) -> str:
    """Describe folds, such as "rows shuffled with seed 0, classes in equal shares"."""
    if type(cv) not in (KFold, StratifiedKFold, GroupKFold, StratifiedGroupKFold):
        return f"made by {type(cv).__name__}" if hasattr(cv, "split") else "as given"
    seed, what = getattr(cv, "random_state", None), "groups of rows" if "Group" in type(cv).__name__ else "rows"
    shuffled = f"{what} shuffled" if seed is None else f"{what} shuffled with seed {shown(seed)}"
    rows = shuffled if getattr(cv, "shuffle", False) else f"{what} in their order"
    return f"{rows}, classes in equal shares" if "Stratified" in type(cv).__name__ else rows
