"""Folds for tables in any order: shuffled, with equal shares of classes; and how they were made, in words."""

from __future__ import annotations

from numbers import Integral

from sklearn.model_selection import KFold, StratifiedKFold

from budgetline.messages import shown


def make_folds(cv: object, stratified: bool, *, shuffle: bool = True, random_state: int = 0) -> object:
    """Return a splitter for a number of folds, None: 5; a splitter or a list of splits is returned as it is.

    Rows are often in order of time or class: contiguous folds would then be of other times or classes than the rows
    that a model learns from.
    """
    if cv is not None and (not isinstance(cv, Integral) or isinstance(cv, bool)):
        return cv
    kind = StratifiedKFold if stratified else KFold
    return kind(5 if cv is None else int(cv), shuffle=shuffle, random_state=random_state if shuffle else None)


def folds_in_words(cv: object) -> str:
    """Return how folds were made, such as "rows shuffled with seed 0, classes in equal shares"."""
    if type(cv) not in (KFold, StratifiedKFold):
        return f"made by {type(cv).__name__}" if hasattr(cv, "split") else "as given"
    seed = getattr(cv, "random_state", None)
    shuffled = "rows shuffled" if seed is None else f"rows shuffled with seed {shown(seed)}"
    rows = shuffled if getattr(cv, "shuffle", False) else "rows in their order"
    return f"{rows}, classes in equal shares" if isinstance(cv, StratifiedKFold) else rows
