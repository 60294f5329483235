"""AnytimeClassifierCV: the ridge constant by cross-validation over all budgets."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import check_cv

from budgetline.data.rows import Rows
from budgetline.estimators.classification import Classification
from budgetline.estimators.selection import check_alphas, choose_alpha, held_out_losses, mean_explained
from budgetline.messages import shown
from budgetline.model.generalised import fit_generalised
from budgetline.model.recipe import Recipe
from budgetline.objectives.families import Family
from budgetline.statistics.columns import standardised_columns
from budgetline.statistics.rows_engine import RowsEngine

Float = NDArray[np.float64]


class AnytimeClassifierCV(Classification):
    """AnytimeClassifier with ``alpha`` chosen by cross-validation, over all budgets at once.

    The score of a fold is the mean over budgets, spread evenly up to the total cost, of the explained fraction of the
    held-out log loss, 1 − loss/loss(training frequencies).

    Parameters
    ----------
    feature_groups, costs, rule, cost_sensitive, schedule, max_cost, max_groups, min_gain, class_weight, tol
        As in :class:`AnytimeClassifier`.
    alphas : sequence of float
    cv : int, splitter, iterable or None
        As everywhere in scikit-learn; None is 5 stratified folds.
    one_standard_error : bool
        Take the largest ``alpha`` within one standard error of the best mean score.

    Attributes
    ----------
    alpha_ : float
    cv_scores_ : array of shape (n_alphas, n_folds)
    classes_, feature_groups_, sequence_, order_, coef_path_, intercept_path_, coef_, intercept_, staged_model_
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

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **Classification._parameter_constraints,
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
        alphas: Any = (1e-5, 1e-4, 1e-3, 1e-2, 1e-1),
        cv: Any = None,
        one_standard_error: bool = False,
        max_cost: float | None = None,
        max_groups: int | None = None,
        min_gain: float = 0.0,
        class_weight: Any = None,
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

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Choose ``alpha`` and fit on all data.

        Parameters
        ----------
        X : array, sparse matrix or data frame, shape (n, D)
        y : array of shape (n,)
        sample_weight : array of shape (n,), optional

        Returns
        -------
        self
        """
        data, classes, family = self._prepare(X, y, sample_weight, alpha=0.0)
        rows = data.rows
        codes = rows.Y[:, 0].astype(np.intp) if rows.Y.shape[1] == 1 else rows.Y.argmax(axis=1)
        alphas = check_alphas(self.alphas)
        standardised_columns(rows, data.used_names)  # an X that is not finite is refused before any fold is fitted
        splits = list(check_cv(self.cv, codes, classifier=True).split(np.zeros((rows.n_rows, 1)), codes))
        for k, (train, _) in enumerate(splits):
            weight = None if rows.weight is None else rows.weight[train]
            mass = np.bincount(codes[train], weight, classes.size)
            if np.any(mass <= 0):
                missing = classes.tolist()[int(np.argmin(mass))]
                raise ValueError(f"class {shown(missing)} is missing in the training set of fold {k}; use fewer folds")
        recipes = [replace(data.recipe, alpha=float(a)) for a in alphas]
        scores = np.array([[self._held_out(rows, recipe, family, *split) for split in splits] for recipe in recipes])
        best = choose_alpha(alphas, scores, self.one_standard_error)
        engine = RowsEngine.of(rows, data.recipe.by_group, family, data.used_names)
        self._finish(fit_generalised(engine, recipes[best], family, self.tol), data, classes)
        self.cv_scores_, self.alpha_ = scores, float(alphas[best])
        return self

    def _held_out(
        self, rows: Rows, recipe: Recipe, family: Family, train: NDArray[np.intp], test: NDArray[np.intp]
    ) -> float:
        """Fit on the rows ``train``; return the mean over budgets of the explained fraction on ``test``."""
        engine = RowsEngine.of(rows.take(train), recipe.by_group, family)
        model = fit_generalised(engine, recipe, family, self.tol)
        return mean_explained(recipe, model.sequence, held_out_losses(model, family, rows.take(test)))
