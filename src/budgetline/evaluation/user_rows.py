"""Rows as a user gave them, and their parts in the folds of a cross-validation."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Real

from sklearn.base import clone
from sklearn.model_selection import GroupKFold
from sklearn.utils import _safe_indexing, indexable
from sklearn.utils.validation import _num_samples, has_fit_parameter

from budgetline.arrays import Positions
from budgetline.devices import on_host
from budgetline.evaluation.budget_curves import budget_curve
from budgetline.evaluation.curve import BudgetCurve
from budgetline.evaluation.splits import number_in, splits_of
from budgetline.inputs import check_weight, raise_missing
from budgetline.statistics.folds import Split


@dataclass(frozen=True)
class Samples:
    """A user's rows as they were given: table, targets, weights, queries, and groups that folds keep together."""

    X: object
    y: object
    weight: object = None
    qid: object = None
    groups: object = None

    @classmethod
    def given(cls, X: object, y: object, weight: object = None, qid: object = None, groups: object = None) -> Samples:
        """Return rows that can be indexed; arrays of a device are copied to the host."""
        if qid is not None and groups is not None:
            raise ValueError("folds keep queries together or groups: give one of qid and groups")
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
        """Return some of the rows; a number as the weight is that of all."""
        return Samples(*(_rows(part, rows) for part in (self.X, self.y, self.weight, self.qid, self.groups)))

    def fitted(self, estimator: object) -> object:
        """Return a clone of an estimator, fitted to these rows; a pipeline gets the weights for its last step.

        An estimator with folds of its own gets the groups for them.
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
    """Return the prefix of the parameters of ``fit`` that go to the last step of pipelines, and this step."""
    if has_fit_parameter(estimator, "sample_weight"):
        return "", estimator
    if hasattr(estimator, "steps"):
        name, last = estimator.steps[-1]
        prefix, found = _last_step(last)
        return f"{name}__{prefix}", found
    return _last_step(estimator.estimator) if hasattr(estimator, "estimator") else ("", estimator)
