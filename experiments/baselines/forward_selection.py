"""ForwardSelection."""

from __future__ import annotations

from numbers import Integral
from typing import ClassVar

import numpy as np
from sklearn.base import clone, is_classifier
from sklearn.model_selection import check_cv, cross_val_score
from sklearn.utils._param_validation import HasMethods, Interval

from budgetline.arrays import Mask
from budgetline.estimators import AnytimeRegressor, StagedEstimators
from budgetline.estimators.base import Constraints
from budgetline.estimators.clones import TrainingRows
from budgetline.estimators.stage_choice import Order, given_order
from budgetline.groups import as_feature_groups
from budgetline.groups.prices import Prices


class ForwardSelection(StagedEstimators):
    """Forward selection of whole groups by cross-validation, costs ignored, and one clone per prefix of that order.

    What scikit-learn's ``SequentialFeatureSelector`` does, for groups: the next group is the one whose addition gives
    the best mean score over folds; of equal ones the first. Costs decide what a budget buys, not the order. Groups that
    a group requires come with it.

    Parameters
    ----------
    estimator : estimator
        A classifier or regressor of any kind. It is cloned, J(J + 1)/2 times per fold for all of J groups.
    feature_groups, costs
        As in :class:`budgetline.AnytimeRegressor`.
    max_groups : int or None
        The order ends after so many groups.
    scoring : str, callable or None
        A scorer of scikit-learn; None: the estimator's ``score``.
    cv : int, splitter, iterable or None
        Folds, as everywhere in scikit-learn.
    n_jobs : int, optional
        How many folds or clones are fitted at once.

    Attributes
    ----------
    scores_ : array of shape (stages,)
        The mean score over folds after each step of the selection. Where a step buys several groups, they share it.
    estimators_, stages_, sequence_, feature_groups_, classes_, model_, n_features_in_, feature_names_in_
        As in :class:`budgetline.StagedEstimators`.

    Notes
    -----
    Sample weights are used to fit, not to score folds.

    Examples
    --------
    >>> from sklearn.linear_model import LogisticRegression
    >>> from baselines import ForwardSelection
    >>> from budgetline.datasets import load_heart
    >>> heart = load_heart()
    >>> logistic = LogisticRegression(max_iter=5000)
    >>> model = ForwardSelection(logistic, heart.feature_groups, max_groups=3, cv=3).fit(heart.data, heart.target)
    >>> model.sequence_.groups
    ('cp', 'thallium', 'fluoroscopy')
    """

    _parameter_constraints: ClassVar[Constraints] = {
        "estimator": [HasMethods(["fit", "predict"])],
        "feature_groups": AnytimeRegressor._parameter_constraints["feature_groups"],
        "costs": AnytimeRegressor._parameter_constraints["costs"],
        "max_groups": [Interval(Integral, 1, None, closed="left"), None],
        "scoring": [str, callable, None],
        "cv": ["cv_object"],
        "n_jobs": [Integral, None],
    }

    # The order is found in ``fit``, and every prefix gets a clone.
    order = ()
    stages = None

    def __init__(
        self,
        estimator: object,
        feature_groups: object = None,
        costs: object = None,
        *,
        max_groups: int | None = None,
        scoring: object = None,
        cv: object = None,
        n_jobs: int | None = None,
    ) -> None:
        self.estimator = estimator
        self.feature_groups = feature_groups
        self.costs = costs
        self.max_groups = max_groups
        self.scoring = scoring
        self.cv = cv
        self.n_jobs = n_jobs

    def _order(self, X: object, rows: TrainingRows) -> Order:
        groups = as_feature_groups(self.feature_groups, self.costs, rows.names, rows.n_features)
        layout, y = groups.resolve(rows.names, rows.n_features), rows.target
        splits = list(check_cv(self.cv, y, classifier=is_classifier(self.estimator)).split(np.zeros((len(y), 1)), y))
        chosen = np.zeros(len(groups), dtype=bool)

        def mean_score(step: list[int]) -> float:
            taken = rows.table.take(layout.columns_of(np.append(np.flatnonzero(chosen), step)))
            how = {"cv": splits, "scoring": self.scoring, "n_jobs": self.n_jobs, "error_score": "raise"}
            return float(np.mean(cross_val_score(clone(self.estimator), taken, y, params=rows.weights, **how)))

        order, scores = list[int](), list[float]()
        most = len(groups) if self.max_groups is None else self.max_groups
        while steps := _steps(groups.prices, chosen, most):
            means = [mean_score(step) for step in steps]
            best = int(np.argmax(means))
            order += steps[best]
            scores += [means[best]] * len(steps[best])
            chosen[steps[best]] = True
        self.scores_ = np.array(scores)
        return given_order([groups.names[g] for g in order], groups, None, rows.names, rows.n_features)


def _steps(prices: Prices, chosen: Mask, most: int) -> list[list[int]]:
    """Return what may be bought next, each group with those that it requires, for sets of at most so many groups."""
    steps = [prices.missing(g, chosen) for g in np.flatnonzero(~chosen).tolist()]
    return [step for step in steps if chosen.sum() + len(step) <= most]
