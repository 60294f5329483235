"""Rows as a user passes them, and folds of them; rows of a group, such as a patient, stay together."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from numbers import Integral, Real

import numpy as np
from sklearn.base import clone
from sklearn.model_selection import GroupKFold, KFold, StratifiedGroupKFold, StratifiedKFold, check_cv
from sklearn.utils import _safe_indexing, indexable
from sklearn.utils.validation import _num_samples, check_consistent_length, has_fit_parameter

from budgetline.arrays import Mask, Positions
from budgetline.devices import on_host
from budgetline.evaluation.budget_curves import budget_curve
from budgetline.evaluation.curve import BudgetCurve
from budgetline.inputs import as_vector, check_survival, check_weight, numbered, raise_missing
from budgetline.messages import shown
from budgetline.moments.moments import Split


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
            raise ValueError("folds keep either queries or groups together: pass only one of qid and groups")
        X, y, weight, qid, groups = map(on_host, (X, as_vector(y), weight, qid, groups))
        if qid is not None and _events_in(y) is not None:
            raise ValueError("qid is for rankings: pass groups for rows of survival times that belong together")
        return cls(indexable(X)[0], y, weight, qid, groups)

    def splits(self, cv: object, stratified: bool) -> list[Split]:
        """Return training and test rows of every fold; a number of folds keeps queries and groups together."""
        if self.y is not None:
            raise_missing(self.y)
        check_weight(self.weight, _num_samples(self.X))
        if self.qid is None:
            events = _events_in(self.y)
            return splits_of(cv, self.y, self.groups, classifier=stratified, X=self.X, events=events)
        cv = GroupKFold(number) if (number := _number_in(cv)) else cv
        return splits_by_query(cv, self.y, self.qid, classifier=stratified, X=self.X)

    @property
    def together(self) -> object:
        """Labels of rows that folds keep together, if there are any."""
        return self.qid if self.groups is None else self.groups

    def take(self, rows: Positions) -> Samples:
        """Return some of the rows; a weight that is a single number is kept."""
        return Samples(*(_rows(part, rows) for part in (self.X, self.y, self.weight, self.qid, self.groups)))

    def fitted(self, estimator: object) -> object:
        """Return a clone of an estimator, fitted to these rows.

        Weights, and groups or queries if ``fit`` accepts them, are passed to the last step of a pipeline.
        """
        prefix, last = _last_step(estimator)
        given = {} if self.weight is None else {f"{prefix}sample_weight": self.weight}
        for name, labels in (("groups", self.groups), ("qid", self.qid)):
            if labels is not None and has_fit_parameter(last, name):
                given[f"{prefix}{name}"] = labels
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


def splits_of(
    cv: object,
    y: object,
    groups: object = None,
    *,
    classifier: bool = False,
    X: object = None,
    events: Mask | None = None,
) -> list[Split]:
    """Return the training and held-out rows of every fold, as scikit-learn makes them.

    With ``groups``, one label per row, a number of folds (None: 5) keeps the rows of a group together. Splitters and
    lists of splits decide for themselves; some splitters need X. For survival times, pass the ``events`` (n,): every
    fold must hold some on both sides, and a number of folds shuffles the rows and spreads events evenly.
    """
    table = np.zeros((_num_samples(y), 1)) if X is None else X
    if events is not None:
        y, number = events, _number_in(cv)
        if number is not None and (happened := int(events.sum())) < number:
            raise ValueError(f"{happened} rows have an event, too few for {number} folds: every fold needs one")
        classifier = number is not None and int((~events).sum()) >= number
        cv = make_folds(cv, classifier, grouped=groups is not None)
    if groups is not None:
        labels, place = numbered(groups, "groups")
        groups, known = labels[place], labels.size
        check_consistent_length(groups, table)
        cv = make_folds(cv, classifier, grouped=True)
        if isinstance(cv, GroupKFold | StratifiedGroupKFold) and known < cv.n_splits:
            advice = f"use {known} or fewer" if known > 1 else "folds that keep groups together need two or more"
            raise ValueError(f"the rows belong to {known} groups, too few for {cv.n_splits} folds: {advice}")
    splits = list(check_cv(cv, y, classifier=classifier).split(table, y, groups))
    for k, split in enumerate(splits):
        for which, rows in zip(("training", "held-out"), split, strict=True):
            if events is not None and not events[rows].any():
                raise ValueError(f"no row of the {which} set of fold {k} has an event: use fewer folds")
    return splits


def _events_in(y: object) -> Mask | None:
    """Return the events (n,) of survival times, None if y holds other targets."""
    structured = getattr(getattr(y, "dtype", None), "names", None) is not None
    return check_survival(y, _num_samples(y))[1] if structured else None


def splits_by_query(cv: object, y: object, qid: object, *, classifier: bool = False, X: object = None) -> list[Split]:
    """Return the same for rows of queries. A query on both sides would flatter a model, so it is an error."""
    labels, number = numbered(qid, "qid")
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The groups parameter is ignored")
        splits = splits_of(cv, y, labels[number], classifier=classifier, X=X)
    for k, (train, test) in enumerate(splits):
        if (both := np.intersect1d(number[train], number[test])).size:
            what = f"fold {k} splits query {shown(labels[both].tolist()[0])} between training and held-out rows"
            raise ValueError(f"{what}: pass a number of folds, or a splitter that uses groups, such as GroupKFold")
    return splits


def make_folds(cv: object, stratified: bool, *, random_state: int = 0, grouped: bool = False) -> object:
    """Return a splitter for a number of folds, None: 5; a splitter or a list of splits is returned unchanged.

    Rows are shuffled, because they are often sorted by time or class. Folds of ``grouped`` rows keep groups together.
    """
    number = _number_in(cv)
    if number is None:
        return cv
    kinds = (GroupKFold, StratifiedGroupKFold) if grouped else (KFold, StratifiedKFold)
    return kinds[stratified](number, shuffle=True, random_state=random_state)


def _number_in(cv: object) -> int | None:
    """Return the number of folds that ``cv`` is, 5 for None; None for splitters and lists of splits."""
    if cv is None:
        return 5
    return int(cv) if isinstance(cv, Integral) and not isinstance(cv, bool) else None


def folds_in_words(cv: object) -> str:
    """Describe folds, such as "rows shuffled with seed 0, stratified by class"."""
    if type(cv) not in (KFold, StratifiedKFold, GroupKFold, StratifiedGroupKFold):
        return f"made by {type(cv).__name__}" if hasattr(cv, "split") else "as given"
    seed, what = getattr(cv, "random_state", None), "groups of rows" if "Group" in type(cv).__name__ else "rows"
    shuffled = f"{what} shuffled" if seed is None else f"{what} shuffled with seed {shown(seed)}"
    rows = shuffled if getattr(cv, "shuffle", False) else f"{what} in their original order"
    return f"{rows}, stratified by class" if "Stratified" in type(cv).__name__ else rows
