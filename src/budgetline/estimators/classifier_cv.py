"""AnytimeClassifierCV."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from numpy.typing import ArrayLike

from budgetline.estimators.base import Constraints
from budgetline.estimators.classifier import AnytimeClassifier
from budgetline.estimators.selection import ChoosesAlpha
from budgetline.sequencing.schedules import Schedule


class AnytimeClassifierCV(ChoosesAlpha, AnytimeClassifier):
    """AnytimeClassifier with ``alpha`` chosen by cross-validation, over all budgets at once.

    The score of a fold is the mean over budgets, spread evenly up to the total cost, of the explained fraction of the
    held-out log loss, 1 − loss/loss(training frequencies). Has all methods of :class:`AnytimeClassifier`.

    Parameters
    ----------
    feature_groups, costs, rule, cost_sensitive, schedule, max_cost, max_groups, min_gain, class_weight, tol
        As in :class:`AnytimeClassifier`.
    alphas : sequence of float
    cv : int, splitter, iterable or None
        As everywhere in scikit-learn; None is 5 stratified folds. The rows of a source are assigned to folds by a
        hash of their values.
    one_standard_error : bool
        Take the largest ``alpha`` within one standard error of the best mean score.

    Attributes
    ----------
    alpha_ : float
    cv_scores_ : array of shape (n_alphas, n_folds)
    classes_, feature_groups_, sequence_, order_, coef_path_, intercept_path_, coef_, intercept_, n_passes_, model_
        Of the model fitted on all data with ``alpha_``.

    Examples
    --------
    >>> from budgetline import AnytimeClassifierCV
    >>> from budgetline.datasets import load_heart
    >>> heart = load_heart()
    >>> search = AnytimeClassifierCV(heart.feature_groups, alphas=[1e-4, 1e-2, 1], rule="omp")
    >>> search.fit(heart.data, heart.target).alpha_
    0.01
    """

    _parameter_constraints: ClassVar[Constraints] = {
        **{name: kinds for name, kinds in AnytimeClassifier._parameter_constraints.items() if name != "alpha"},
        **ChoosesAlpha._parameter_constraints,
    }

    def __init__(
        self,
        feature_groups: object = None,
        costs: object = None,
        *,
        rule: str = "fr",
        cost_sensitive: bool = True,
        schedule: str | Schedule = "greedy",
        alphas: ArrayLike = (1e-5, 1e-4, 1e-3, 1e-2, 1e-1),
        cv: object = None,
        one_standard_error: bool = False,
        max_cost: float | None = None,
        max_groups: int | None = None,
        min_gain: float = 0.0,
        class_weight: Mapping[Any, float] | str | None = None,
        tol: float = 1e-10,
    ) -> None:
        self.feature_groups = feature_groups
        self.costs = costs
        self.rule = rule
        self.cost_sensitive = cost_sensitive
        self.schedule = schedule
        self.alphas = alphas
        self.cv = cv
        self.one_standard_error = one_standard_error
        self.max_cost = max_cost
        self.max_groups = max_groups
        self.min_gain = min_gain
        self.class_weight = class_weight
        self.tol = tol
