"""Training and held-out rows of folds; rows of the same group, such as a patient, stay together."""

from __future__ import annotations

from numbers import Integral

import numpy as np
from sklearn.model_selection import GroupKFold, StratifiedGroupKFold, check_cv
from sklearn.utils.validation import _num_samples, check_consistent_length, column_or_1d

from budgetline.arrays import Array
from budgetline.devices import on_host
from budgetline.inputs import raise_missing
from budgetline.moments.fold_moments import Split


def splits_of(
    cv: object, y: object, groups: object = None, *, classifier: bool = False, X: object = None
) -> list[Split]:
    """Return the training and held-out rows of every fold, as scikit-learn makes them.

    With ``groups``, one label per row, a number of folds (None: 5) keeps the rows of every group together; splitters
    and lists of splits decide for themselves. X is for splitters that look at it.
    """
    table = np.zeros((_num_samples(y), 1)) if X is None else X
    if groups is not None:
        groups = _checked(groups, _num_samples(table))
        cv = grouped_folds(number, classifier) if (number := number_in(cv)) else cv
        if isinstance(cv, GroupKFold | StratifiedGroupKFold):
            _check_number(cv.n_splits, groups)
    return list(check_cv(cv, y, classifier=classifier).split(table, y, groups))


def number_in(cv: object) -> int | None:
    """Return the number of folds that ``cv`` is, 5 for None; None for splitters and lists of splits."""
    if cv is None:
        return 5
    return int(cv) if isinstance(cv, Integral) and not isinstance(cv, bool) else None


def grouped_folds(n_folds: int, stratified: bool, *, shuffle: bool = True, random_state: int = 0) -> object:
    """Return the splitter that keeps groups together; ``stratified``: with about equal shares of classes."""
    kind = StratifiedGroupKFold if stratified else GroupKFold
    return kind(n_folds, shuffle=shuffle, random_state=random_state if shuffle else None)


def _checked(groups: object, n_samples: int) -> Array:
    """Return the labels of all rows; a missing one is an error."""
    groups = on_host(groups)
    raise_missing(groups, name="groups")
    found = np.asarray(column_or_1d(groups))
    check_consistent_length(found, np.empty(n_samples))
    return found


def _check_number(n_folds: int, groups: Array) -> None:
    if (number := np.unique(groups).size) < 2:
        raise ValueError("all rows are of one group: folds that keep groups together need two or more")
    if number < n_folds:
        raise ValueError(f"the rows are of {number} groups, too few for {n_folds} folds: use {number} or fewer")
