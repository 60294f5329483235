"""Choosing the ridge constant by cross-validation, over all budgets at once."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_array

from budgetline.arrays import Float
from budgetline.budgets import floats_of
from budgetline.estimators.base import AnytimeEstimator, Constraints
from budgetline.evaluation.curve import BudgetCurve, explained_share, timeliness
from budgetline.messages import shown
from budgetline.model.recipe import Recipe
from budgetline.model.training import Fold, Training
from budgetline.sequencing.sequence import GroupSequence
from budgetline.statistics.moments import Moments
from budgetline.threads import map_in_threads

ALPHAS = (1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1.0)
"""Values to try by default."""


class ChoosesAlpha(AnytimeEstimator):
    """Tries several ridge constants on folds, and takes the one with the best mean score over all budgets."""

    _parameter_constraints: ClassVar[Constraints] = {
        "alphas": ["array-like"],
        "cv": ["cv_object"],
        "one_standard_error": ["boolean"],
    }

    alphas: ArrayLike
    cv: object
    one_standard_error: bool

    def _with_alpha(self, training: Training, recipe: Recipe) -> tuple[Recipe, dict[str, object]]:
        alphas = check_alphas(self.alphas)
        recipes = [replace(recipe, alpha=float(alpha)) for alpha in alphas]
        folds = training.folds(recipe, self.cv)

        def tried(fold: Fold) -> tuple[list[float], Moments | None]:
            return [held_out_score(recipe, fold) for recipe in recipes], fold.held

        # small folds keep one thread each busy; the threads of larger ones share their rows
        scores, held = zip(*(map_in_threads(tried, list(folds)) if training.small else map(tried, folds)), strict=True)
        table = np.array(scores).T
        best = choose_alpha(alphas, table, self.one_standard_error)
        learned: dict[str, object] = {"alpha_": recipes[best].alpha, "cv_scores_": table}
        if isinstance(self.cv, int | np.integer | None) and None not in held:  # every row is held out once
            learned["fold_moments_"] = tuple(held)
        return recipes[best], learned


def held_out_score(recipe: Recipe, fold: Fold) -> float:
    """Fit on a fold; return the mean over budgets of the explained fraction of the held-out loss."""
    fitted = fold.training.fit(recipe)
    return mean_explained(recipe, fitted.stages.sequence, fold.losses(fitted))


def check_alphas(alphas: ArrayLike) -> Float:
    """Return the values to try, shape (n_alphas,)."""
    values: Float = check_array(floats_of(alphas), ensure_2d=False, dtype=np.float64, input_name="alphas")
    if values.ndim != 1 or np.any(values < 0):
        raise ValueError(f"alphas must be numbers ≥ 0, got {shown(alphas)}")
    return values


def mean_explained(recipe: Recipe, sequence: GroupSequence, losses: Float) -> float:
    """Return the mean over budgets of 1 − loss/loss_0, for held-out losses (1 + stages,) from stage 0 on.

    Sequences that end early keep their last value up to the largest budget considered.
    """
    total = recipe.prices.total
    if recipe.limits.max_cost is not None:
        total = max(min(total, recipe.limits.max_cost), float(sequence.costs.sum()))
    curve = BudgetCurve(np.concatenate([[0.0], sequence.cumulative_costs]), np.nan_to_num(explained_share(losses)))
    return timeliness(curve, total)


def choose_alpha(alphas: Float, scores: Float, one_standard_error: bool) -> int:
    """Return the position of the alpha with the best mean score, or of the largest within one standard error of it."""
    means = scores.mean(axis=1)
    best = int(np.argmax(means))
    if not one_standard_error or scores.shape[1] < 2:
        return best
    error = scores[best].std(ddof=1) / np.sqrt(scores.shape[1])
    return int(np.argmax(np.where(means >= means[best] - error, alphas, -np.inf)))
