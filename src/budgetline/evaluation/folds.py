"""Folds for tables in any order: shuffled, with equal shares of classes; and how they were made, in words."""

from __future__ import annotations

from sklearn.model_selection import GroupKFold, KFold, StratifiedGroupKFold, StratifiedKFold

from budgetline.evaluation.splits import grouped_folds, number_in
from budgetline.messages import shown


def make_folds(
    cv: object, stratified: bool, *, shuffle: bool = True, random_state: int = 0, grouped: bool = False
) -> object:
    """Return a splitter for a number of folds, None: 5; a splitter or a list of splits is returned as it is.

    Rows are often in order of time or class: contiguous folds would then be of other times or classes than the rows
    that a model learns from. Folds of ``grouped`` rows keep groups together.
    """
    number = number_in(cv)
    if number is None:
        return cv
    if grouped:
        return grouped_folds(number, stratified, shuffle=shuffle, random_state=random_state)
    kind = StratifiedKFold if stratified else KFold
    return kind(number, shuffle=shuffle, random_state=random_state if shuffle else None)


def folds_in_words(cv: object) -> str:
    """Return how folds were made, such as "rows shuffled with seed 0, classes in equal shares"."""
    if type(cv) not in (KFold, StratifiedKFold, GroupKFold, StratifiedGroupKFold):
        return f"made by {type(cv).__name__}" if hasattr(cv, "split") else "as given"
    seed, what = getattr(cv, "random_state", None), "groups of rows" if "Group" in type(cv).__name__ else "rows"
    shuffled = f"{what} shuffled" if seed is None else f"{what} shuffled with seed {shown(seed)}"
    rows = shuffled if getattr(cv, "shuffle", False) else f"{what} in their order"
    return f"{rows}, classes in equal shares" if "Stratified" in type(cv).__name__ else rows
