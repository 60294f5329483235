"""AnytimeRegressorCV: the ridge constant by cross-validation over all budgets."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import check_cv

from budgetline.data.rows import Rows
from budgetline.estimators.regression import Regression
from budgetline.estimators.selection import check_alphas, choose_alpha, held_out_losses, mean_explained
from budgetline.evaluation.metrics import mean_squared_errors
from budgetline.model.linear import fit_moments, fit_rows, gram_fits
from budgetline.model.recipe import Recipe
from budgetline.objectives.families import SquaredError
from budgetline.statistics.folds import Split, fold_moments
from budgetline.statistics.moments import Moments

Float = NDArray[np.float64]


class AnytimeRegressorCV(Regression):
    """AnytimeRegressor with ``alpha`` chosen by cross-validation, over all budgets at once.

    The score of a fold is the mean over budgets, spread evenly up to the total cost, of the explained fraction of the
    held-out squared error, 1 − MSE/MSE(training mean). The moments of every fold are computed in one pass over the
    data; each training set is a sum of folds and each held-out error is a function of the moments, so trying another
    ``alpha`` never touches the data.

    Parameters
    ----------
    feature_groups, costs, rule, cost_sensitive, schedule, max_cost, max_groups, min_gain
        As in :class:`AnytimeRegressor`.
    alphas : sequence of float
        Values of ``alpha`` to try.
    cv : int, splitter, iterable or None
        As everywhere in scikit-learn; None is 5 folds. If a splitter needs groups, pass the list of
        its splits.
    one_standard_error : bool
        Take the largest ``alpha`` within one standard error of the best mean score.

    Attributes
    ----------
    alpha_ : float
        The chosen value.
    cv_scores_ : array of shape (n_alphas, n_folds)
    feature_groups_, sequence_, order_, coef_path_, intercept_path_, coef_, intercept_, staged_model_
        Of the model fitted on all data with ``alpha_``, as in :class:`AnytimeRegressor`.

    Examples
    --------
    >>> from budgetline import AnytimeRegressorCV
    >>> from budgetline.datasets import load_nhanes
    >>> nhanes = load_nhanes()
    >>> AnytimeRegressorCV(nhanes.feature_groups, alphas=[1e-4, 1e-2, 1]).fit(nhanes.data, nhanes.target).alpha_
    0.01
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **Regression._parameter_constraints,
        "alphas": ["array-like"],
        "cv": ["cv_object"],
        "one_standard_error": ["boolean"],
    }

    def __init__(
        self,
        feature_groups: Any = None,
        costs: Any = None,
        *,
        rule: str = "fr",
        cost_sensitive: bool = True,
        schedule: Any = "greedy",
        alphas: Any = (1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1.0),
        cv: Any = None,
        one_standard_error: bool = False,
        max_cost: float | None = None,
        max_groups: int | None = None,
        min_gain: float = 0.0,
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

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Choose ``alpha`` and fit on all data.

        Parameters
        ----------
        X : array, sparse matrix or data frame, shape (n, D)
        y : array of shape (n,) or (n, P)
        sample_weight : array of shape (n,), optional

        Returns
        -------
        self
        """
        data = self._check(X, y, sample_weight, alpha=0.0)
        alphas = check_alphas(self.alphas)
        (rows, _), recipes = data.rows.rescaled(), [replace(data.recipe, alpha=float(a)) for a in alphas]
        splits = list(check_cv(self.cv, rows.Y).split(np.zeros((rows.n_rows, 1)), rows.Y))
        if gram_fits(rows, data.recipe):
            folds = fold_moments(rows, splits, data.used_names)
            pairs = zip(splits, folds, strict=True)
            scores = np.array(
                [[_held_out(recipe, rows, split, *fold) for recipe in recipes] for split, fold in pairs]
            ).T
        else:
            scores = np.array([[_held_out_rows(recipe, rows, *split) for recipe in recipes] for split in splits]).T
        best = choose_alpha(alphas, scores, self.one_standard_error)
        model, _ = fit_rows(rows, recipes[best], data.used_names)
        self._warn_if_rounded(model, rows, data.layout, data.names)
        self._keep(model, data.layout, data.names, data.target_shape)
        self.cv_scores_, self.alpha_ = scores, float(alphas[best])
        return self


def _held_out(recipe: Recipe, rows: Rows, split: Split, train: Moments, test: Moments) -> float:
    """Fit on ``train``; return the mean over budgets of the explained fraction on ``test``."""
    model, doubt = fit_moments(train, recipe)
    if doubt > train.eps**0.5:  # too ill conditioned for moments
        return _held_out_rows(recipe, rows, *split)
    return mean_explained(recipe, model.sequence, mean_squared_errors(model, test).sum(axis=1))


def _held_out_rows(recipe: Recipe, rows: Rows, train: NDArray[np.intp], test: NDArray[np.intp]) -> float:
    """Do the same from the data, for tables too wide for moments."""
    (model, _), held = fit_rows(rows.take(train), recipe), rows.take(test)
    return mean_explained(recipe, model.sequence, held_out_losses(model, SquaredError(), held))
