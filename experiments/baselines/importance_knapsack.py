"""ImportanceKnapsack."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils._param_validation import Interval, StrOptions

from budgetline.arrays import Float, Mask
from budgetline.estimators.base import Constraints
from budgetline.estimators.clones import TrainingRows
from budgetline.groups import Layout
from budgetline.inputs import check_number
from budgetline.messages import shown
from budgetline.progress import Progress

from .importance import Importance, contributed, given, permuted
from .most_valuable import most_valuable
from .set_estimators import SetEstimators, Stage


class ImportanceKnapsack(SetEstimators):
    """Groups by their importance to a model of all columns: at each budget the set of the largest sum (CoAI's idea).

    A clone of the estimator is fitted on all columns, and every group gets an importance. For each budget a knapsack is
    solved, exactly, also with shared costs and requirements, and a clone is fitted on the groups that it holds. The
    importances are of the full model: groups that carry the same information are bought together, or share their
    importance and are not bought at all.

    Parameters
    ----------
    estimator : estimator
        A classifier or regressor of any kind. It is cloned.
    feature_groups, costs
        As in :class:`budgetline.AnytimeRegressor`.
    importance : {"permutation", "contributions"} or callable
        - "permutation": by how much the loss on the training rows grows if the columns of a group are shuffled, all
          together. Works with any estimator. It knows what is lost, but from rows that do not exist, and a model that
          overfits looks more reliant than it is.
        - "contributions": the mean absolute contribution to the score, summed over the columns of a group before
          taking absolute values. This is what CoAI takes, mean |SHAP|: exact for trees of LightGBM and CatBoost; the
          terms of an EBM and of linear models, whose columns are taken to be independent. It says how much the score
          moves, not whether it gets better.
        - a function of the fitted model, its table and its target that returns one number ≥ 0 per column; they are
          summed over groups. Of a forest: ``lambda model, X, y: model.feature_importances_``.
    budgets : int or array
        Budgets, or how many: these have evenly spread square roots, up to the cost of all groups.
    n_repeats : int
        How often groups are shuffled.
    random_state : int, RandomState or None
        For shuffling. Those of the estimator are its own.
    n_jobs : int, optional
        How many clones are fitted at once.

    Attributes
    ----------
    importances_ : array of shape (J,)
        Of the groups, in the order in which they were given.
    sequence_ : GroupSequence
        One row per stage; the names are those of a whole set.
    model_ : SetModels
        ``masks`` are the sets.
    estimators_, feature_groups_, classes_, n_features_in_, feature_names_in_
        As in :class:`budgetline.StagedEstimators`.

    Notes
    -----
    Erion, Janizek, Hudelson, Utarnachitt, McCoy, Sayre, White and Lee, *A cost-aware framework for the development of
    AI models for healthcare applications*, Nature Biomedical Engineering 2022 (CoAI).

    Examples
    --------
    >>> from sklearn.linear_model import LogisticRegression
    >>> from baselines import ImportanceKnapsack
    >>> from budgetline.datasets import load_heart
    >>> heart = load_heart()
    >>> logistic = LogisticRegression(max_iter=5000)
    >>> model = ImportanceKnapsack(logistic, heart.feature_groups, importance="contributions", budgets=[4, 110])
    >>> model.fit(heart.data, heart.target).sequence_.groups
    ('age, sex, cp, trestbps', 'age, sex, cp, trestbps, ecg, exercise')
    """

    _parameter_constraints: ClassVar[Constraints] = {
        **SetEstimators._parameter_constraints,
        "importance": [StrOptions({"permutation", "contributions"}), callable],
        "budgets": [Interval(Integral, 1, None, closed="left"), "array-like"],
        "n_repeats": [Interval(Integral, 1, None, closed="left")],
        "random_state": ["random_state"],
        "n_jobs": [Integral, None],
    }

    def __init__(
        self,
        estimator: object,
        feature_groups: object = None,
        costs: object = None,
        *,
        importance: str | Importance = "permutation",
        budgets: int | ArrayLike = 20,
        n_repeats: int = 5,
        random_state: object = None,
        n_jobs: int | None = None,
    ) -> None:
        self.estimator = estimator
        self.feature_groups = feature_groups
        self.costs = costs
        self.importance = importance
        self.budgets = budgets
        self.n_repeats = n_repeats
        self.random_state = random_state
        self.n_jobs = n_jobs

    def _sets(self, rows: TrainingRows, layout: Layout, progress: Progress) -> Sequence[Stage]:
        (full,) = rows.clones(self.estimator, [layout.read])
        self.importances_ = values = self._importances(full, rows, layout)
        prices = layout.groups.prices
        found = [most_valuable(values, prices, budget) for budget in self._budgets(prices.total)]
        masks = _different(found)
        if values.any() and not masks:
            raise ValueError(f"no budget in budgets buys a group of any importance, got {shown(self.budgets)}")
        masks = masks or [np.ones(len(layout.groups), dtype=bool)]  # nothing is of importance: one model of everything
        columns = [layout.columns_of(np.flatnonzero(mask)) for mask in masks]
        fitted = rows.clones(self.estimator, columns, self.n_jobs, progress)
        worth = [float(values[mask].sum()) for mask in masks]
        return [Stage(*each) for each in zip(masks, fitted, worth, strict=True)]

    def _importances(self, full: object, rows: TrainingRows, layout: Layout) -> Float:
        if callable(self.importance):
            return given(self.importance, full, rows, layout)
        if self.importance == "contributions":
            return contributed(full, rows, layout)
        return permuted(full, rows, layout, self.n_repeats, self.random_state)

    def _budgets(self, total: float) -> list[float]:
        if isinstance(self.budgets, Integral):
            count = int(self.budgets)
            return [total * (k / count) ** 2 for k in range(1, count + 1)]
        budgets = [check_number("a budget", budget, "cost", ge=0) for budget in np.ravel(self.budgets).tolist()]
        if not budgets:
            raise ValueError("budgets must not be empty")
        return budgets


def _different(masks: list[Mask]) -> list[Mask]:
    """Return the sets that are not empty, each once."""
    return list({mask.tobytes(): mask for mask in masks if mask.any()}.values())
