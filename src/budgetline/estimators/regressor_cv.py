"""AnytimeRegressorCV."""

from __future__ import annotations

from dataclasses import replace
from functools import reduce
from operator import add
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike
from sklearn.model_selection import check_cv

from budgetline.data.rows import Rows
from budgetline.estimators.base import Constraints
from budgetline.estimators.regressor import AnytimeRegressor
from budgetline.estimators.selection import ALPHAS, ChoosesAlpha
from budgetline.messages import shown
from budgetline.model.training import number_of_folds
from budgetline.objectives.families import ConvexLoss
from budgetline.sequencing.schedules import Schedule
from budgetline.statistics.moments import Moments


class AnytimeRegressorCV(ChoosesAlpha, AnytimeRegressor):
    """AnytimeRegressor with ``alpha`` chosen by cross-validation, over all budgets at once.

    The score of a fold is the mean over budgets, spread evenly up to the total cost, of the explained fraction of the
    held-out loss, for squared error 1 − MSE/MSE(training mean). For squared error the moments of every fold are
    computed in one pass over the data; each training set is a sum of folds and each held-out error is a function of
    the moments, so trying another ``alpha`` never touches the data.

    Has all methods of :class:`AnytimeRegressor`. The rows of a source are assigned to ``cv`` folds by a hash of their
    values; ``fit_moments`` takes a list of moments, one per fold; ``partial_fit`` splits the rows of every call into
    ``cv`` folds.

    Parameters
    ----------
    feature_groups, costs, rule, cost_sensitive, schedule, max_cost, max_groups, min_gain, loss, tol
        As in :class:`AnytimeRegressor`.
    alphas : sequence of float
        Values of ``alpha`` to try.
    cv : int, splitter, iterable or None
        As everywhere in scikit-learn; None is 5 folds. If a splitter needs groups, pass the list of
        its splits. For sources, moments and ``partial_fit``, a number of folds or None.
    one_standard_error : bool
        Take the largest ``alpha`` within one standard error of the best mean score.

    Attributes
    ----------
    alpha_ : float
        The chosen value.
    cv_scores_ : array of shape (n_alphas, n_folds)
    feature_groups_, sequence_, order_, coef_path_, intercept_path_, coef_, intercept_, moments_, n_passes_, model_
        Of the model fitted on all data with ``alpha_``, as in :class:`AnytimeRegressor`.
    fold_moments_ : tuple of Moments
        The moments of every fold, to which ``partial_fit`` adds; only for squared error, and not if X is too wide.

    Examples
    --------
    >>> from budgetline import AnytimeRegressorCV
    >>> from budgetline.datasets import load_nhanes
    >>> nhanes = load_nhanes()
    >>> AnytimeRegressorCV(nhanes.feature_groups, alphas=[1e-4, 1e-2, 1]).fit(nhanes.data, nhanes.target).alpha_
    0.01
    """

    _parameter_constraints: ClassVar[Constraints] = {
        **{name: kinds for name, kinds in AnytimeRegressor._parameter_constraints.items() if name != "alpha"},
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
        alphas: ArrayLike = ALPHAS,
        cv: object = None,
        one_standard_error: bool = False,
        max_cost: float | None = None,
        max_groups: int | None = None,
        min_gain: float = 0.0,
        loss: str | ConvexLoss = "squared_error",
        tol: float | None = None,
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
        self.loss = loss
        self.tol = tol

    def _parts_of(self, moments: Any) -> tuple[Moments, ...]:
        listed = isinstance(moments, list | tuple)
        if not (listed and all(isinstance(part, Moments) for part in moments)):
            raise TypeError("moments must be a list of Moments, one per fold: cross-validation holds out one of them")
        if len(moments) < 2:
            raise ValueError(f"moments of 2 folds or more are needed, got {len(moments)}")
        if self.cv is not None and number_of_folds(self.cv) != len(moments):
            raise ValueError(f"cv is {shown(self.cv)}, moments are of {len(moments)} folds: leave cv out")
        reduce(add, moments)  # raises an error if they are of different columns or targets
        return tuple(moments)

    def _known_parts(self) -> tuple[Moments, ...] | None:
        n_folds = number_of_folds(self.cv)
        if not hasattr(self, "model_"):
            return None
        known: tuple[Moments, ...] | None = self.model_.learned.get("fold_moments_")
        if known is None:
            raise ValueError(
                "X was too wide for moments of folds, or cv or loss were others: start with partial_fit or a source, "
                "which keep them"
            )
        if len(known) != n_folds:
            raise ValueError(f"cv is {n_folds} folds, fold_moments_ are of {len(known)}: fit again from the start")
        return known

    def _dealt(self, rows: Rows) -> list[Rows]:
        splits = check_cv(self.cv, rows.Y).split(np.zeros((rows.n_rows, 1)), rows.Y)
        return [replace(rows, rows=held) for _, held in splits]

    def _n_folds(self) -> int:
        return number_of_folds(self.cv)
