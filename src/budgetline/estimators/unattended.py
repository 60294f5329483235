"""The defaults of the command line and explore, for tables that nobody has looked at.

Alpha, the correction and pairs of columns are chosen by cross-validation, over all budgets. Groups that gain nothing
on training rows, or come after the best budget on held-out rows, are not bought.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils import shuffle

from budgetline.arrays import Array, Positions
from budgetline.encoding import Encoding
from budgetline.estimators.classifier import AnytimeClassifier, BaseClassifier
from budgetline.estimators.cross_validation import AnytimeClassifierCV, AnytimeRegressorCV
from budgetline.estimators.regressor import AnytimeRegressor, BaseRegressor
from budgetline.estimators.rows_in_sets import (
    AnytimeRanker,
    AnytimeRankerCV,
    AnytimeSurvival,
    AnytimeSurvivalCV,
    SetsEstimator,
)
from budgetline.groups import FeatureGroups

Estimator = BaseRegressor | BaseClassifier | SetsEstimator
KINDS: dict[str, tuple[type[Estimator], type[Estimator]]] = {
    "regression": (AnytimeRegressor, AnytimeRegressorCV),
    "classification": (AnytimeClassifier, AnytimeClassifierCV),
    "ranking": (AnytimeRanker, AnytimeRankerCV),
    "survival": (AnytimeSurvival, AnytimeSurvivalCV),
}
"""Estimators by task, without and with cross-validation."""
FOLDS, MOST_PAIRS, FEW_PAIRS = 5, 20, 5
"""Number of folds, and of pairs of columns to try: many, or few if fits take long."""
NOTHING = 0.01
"""A group gains nothing if it explains less than this share of one row."""
MANY_GROUPS, MUCH_WORK, FEW_ROWS = 200, 200_000, 4_000
"""With more groups, or more rows times groups times scores, a search for losses other than squared error takes long.

Then rule "score" refits no candidate, and settings are chosen on fewer rows, at least ``FEW_ROWS``.
"""


def unattended(
    groups: FeatureGroups | None,
    n_groups: int,
    y: Array | None,
    *,
    task: str,
    encoding: Encoding | str | None,
    folds: int | None,
    pairs: int | None = None,
    all_groups: bool = False,
    alpha: float | str | None = None,
    correction: float | None = None,
    rule: str | None = None,
    loss: str | None = None,
    max_groups: int | None = None,
    **others: Any,
) -> Estimator:
    """Return an unfitted estimator. What is None is chosen here, or on folds, or is the library's default.

    ``task`` is "regression", "classification", "ranking" or "survival". Without ``y`` the rows are read in chunks,
    without ``folds`` nothing is chosen on folds. ``pairs``: none and 20 are tried if there are folds, an encoding and
    rows in memory. ``all_groups``: also buy groups that gain nothing, or come after the budget that is best on held-out
    rows.
    """
    settings: dict[str, Any] = {"rule": rule, "loss": loss, "max_groups": max_groups, "encoding": encoding, **others}
    if y is not None and not all_groups:
        settings["min_gain"] = NOTHING / y.size
        settings["max_groups"] = y.size if max_groups is None and n_groups > y.size else max_groups
    refits = task != "regression" or loss not in (None, "squared_error")
    work = n_groups * (number_of_scores(y) if task == "classification" and y is not None else 1)
    long = refits and y is not None and (n_groups > MANY_GROUPS or work * y.size > MUCH_WORK)
    if rule is None and (long or (refits and y is None)):
        settings["rule"] = "score"
    if folds is None:
        settings |= {"alpha": alpha, "correction": correction}
    else:
        settings |= {"cv": folds, "alphas": None if alpha is None else [alpha], "stop_at_best": not all_groups}
        settings["corrections"] = None if correction is None else [correction]
        settings["search_rows"] = max(FEW_ROWS, MUCH_WORK // work) if long else None
        tried = (0, FEW_PAIRS if long else MOST_PAIRS)
        settings["interactions"] = tried if pairs is None and encoding is not None and y is not None else None
    return estimator_for(groups, task=task, **settings)


def estimator_for(groups: FeatureGroups | None, *, task: str, **settings: Any) -> Estimator:
    """Return an unfitted estimator; settings that are None keep the library's defaults."""
    given = {name: value for name, value in settings.items() if value is not None}
    return KINDS[task]["cv" in given](groups, **given)


def number_of_scores(labels: Array) -> int:
    """Return the number of scores that a classifier fits: one for two classes, else one per class."""
    classes = np.unique(labels).size
    return 1 if classes <= 2 else classes


def usual_folds(y: Array, *, classes: bool) -> int | None:
    """Return the number of folds: 5, fewer if the rows of a class are few, None if there are too few."""
    rows = int(np.unique(y, return_counts=True)[1].min()) if classes else y.size // 2
    folds = min(FOLDS, rows)
    return folds if folds >= 2 else None


def shuffled_rows(n_rows: int) -> Positions:
    """Return the rows in a fixed random order: estimators cut rows into folds in their order."""
    return np.asarray(shuffle(np.arange(n_rows), random_state=0), dtype=np.intp)
