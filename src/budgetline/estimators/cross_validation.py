"""AnytimeRegressorCV and AnytimeClassifierCV: alpha and correction by cross-validation, over all budgets at once."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import reduce
from itertools import product
from operator import add
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike
from sklearn.model_selection import check_cv
from sklearn.utils.validation import check_array

from budgetline.arrays import Float
from budgetline.budgets import floats_of
from budgetline.data.rows import Rows
from budgetline.estimators.base import AnytimeEstimator, Constraints
from budgetline.estimators.classifier import AnytimeClassifier
from budgetline.estimators.regressor import AnytimeRegressor
from budgetline.evaluation.curve import BudgetCurve, explained_share, timeliness
from budgetline.messages import shown
from budgetline.model.recipe import Recipe
from budgetline.model.training import Fold, Training, number_of_folds
from budgetline.statistics.moments import Moments
from budgetline.threads import map_in_threads


def searching(cls: type[AnytimeEstimator]) -> Constraints:
    """Return the constraints on the parameters of an estimator that chooses alpha and correction."""
    others = {name: kinds for name, kinds in cls._parameter_constraints.items() if name not in ("alpha", "correction")}
    return {
        **others,
        "alphas": ["array-like"],
        "corrections": ["array-like"],
        "cv": ["cv_object"],
        "one_standard_error": ["boolean"],
    }


class Searches(AnytimeEstimator):
    """Tries ridge constants, then corrections, on folds; takes those with the best mean score over all budgets."""

    alphas: ArrayLike
    corrections: ArrayLike
    cv: object
    one_standard_error: bool

    @property
    def alpha(self) -> float:  # type: ignore[override]
        """Not a parameter of a search, which has ``alphas`` and ``alpha_``."""
        raise AttributeError(f"{type(self).__name__} has alphas, and alpha_ once it is fitted, but no alpha")

    @property
    def correction(self) -> float:  # type: ignore[override]
        """Not a parameter of a search, which has ``corrections`` and ``correction_``."""
        raise AttributeError(
            f"{type(self).__name__} has corrections, and correction_ once it is fitted, but no correction"
        )

    def _with_alpha(self, training: Training, recipe: Recipe) -> tuple[Recipe, dict[str, object]]:
        alphas, corrections = _tried("alphas", self.alphas), _tried("corrections", self.corrections)
        recipe = replace(recipe, correction=float(corrections[0]))
        cv = training.fixed(self.cv)
        table, held = held_out_scores(training, cv, [replace(recipe, alpha=float(alpha)) for alpha in alphas])
        best = choose_alpha(alphas, table, self.one_standard_error)
        recipe = replace(recipe, alpha=float(alphas[best]))
        judged = table[best : best + 1]
        if corrections.size > 1:
            others = [replace(recipe, correction=float(correction)) for correction in corrections[1:]]
            judged = np.vstack([judged, held_out_scores(training, cv, others)[0]])
        recipe = replace(recipe, correction=float(corrections[np.argmax(judged.mean(axis=1))]))
        learned: dict[str, object] = {
            "alpha_": recipe.alpha,
            "cv_scores_": table,
            "correction_": recipe.correction,
            "correction_scores_": judged,
        }
        if isinstance(self.cv, int | np.integer | None) and None not in held:  # every row is held out once
            learned["fold_moments_"] = tuple(held)
        return recipe, learned


def _tried(name: str, given: ArrayLike) -> Float:
    """Return the values to try, checked."""
    kept = {"ensure_2d": False, "ensure_min_samples": 0, "dtype": np.float64}
    values: Float = check_array(floats_of(given), input_name=name, **kept)
    if values.ndim != 1 or not values.size or np.any(values < 0):
        raise ValueError(f"{name} must be numbers ≥ 0, at least one, got {shown(given)}")
    return values


def held_out_scores(training: Training, cv: object, recipes: list[Recipe]) -> tuple[Float, list[Moments | None]]:
    """Return the scores (recipes, folds) of :func:`held_out_score`, and the moments of the held-out rows."""
    folds: Iterable[Fold] = training.folds(recipes[0], cv)
    if training.small:  # every fit keeps one thread busy; the threads of larger ones share their rows
        folds = list(folds)
        found = map_in_threads(lambda job: held_out_score(*job), list(product(recipes, folds)))
        return np.reshape(found, (len(recipes), -1)), [fold.held for fold in folds]
    tried = [([held_out_score(recipe, fold) for recipe in recipes], fold.held) for fold in folds]
    return np.array([scores for scores, _ in tried]).T, [held for _, held in tried]


def held_out_score(recipe: Recipe, fold: Fold) -> float:
    """Fit on a fold; return the mean over budgets of the explained fraction of the held-out loss.

    Sequences that end early keep their last value up to the largest budget considered.
    """
    fitted = fold.training.fit(recipe)
    sequence, total = fitted.stages.sequence, recipe.prices.total
    if recipe.limits.max_cost is not None:
        total = max(min(total, recipe.limits.max_cost), float(sequence.costs.sum()))
    explained = np.nan_to_num(explained_share(fold.losses(fitted)))
    return timeliness(BudgetCurve(np.append(0.0, sequence.cumulative_costs), explained), total)


def choose_alpha(alphas: Float, scores: Float, one_standard_error: bool) -> int:
    """Return the position of the alpha with the best mean score, or of the largest within one standard error of it."""
    means = scores.mean(axis=1)
    best = int(np.argmax(means))
    if not one_standard_error or scores.shape[1] < 2:
        return best
    error = scores[best].std(ddof=1) / np.sqrt(scores.shape[1])
    return int(np.argmax(np.where(means >= means[best] - error, alphas, -np.inf)))


@dataclass(eq=False, repr=False, kw_only=True)
class AnytimeRegressorCV(Searches, AnytimeRegressor):
    """AnytimeRegressor with ``alpha`` and ``correction`` chosen by cross-validation, over all budgets at once.

    The score of a fold is the mean over budgets, spread evenly up to the total cost, of the explained fraction of the
    held-out loss, for squared error 1 − MSE/MSE(training mean). For squared error the moments of every fold are
    computed in one pass over the data; each training set is a sum of folds and each held-out error is a function of
    the moments, so trying another ``alpha`` never touches the data. ``alpha`` is chosen with the first of the
    ``corrections``, then the correction with that ``alpha``.

    Has all methods of :class:`AnytimeRegressor`. The rows of a source are assigned to ``cv`` folds by a hash of their
    values; ``fit_moments`` takes a list of moments, one per fold; ``partial_fit`` splits the rows of every call into
    ``cv`` folds.

    Parameters
    ----------
    feature_groups, costs, rule, cost_sensitive, schedule, max_cost, max_groups, min_gain, start, loss, tol,
    encoding
        As in :class:`AnytimeRegressor`.
    alphas, corrections : sequences of float
        The values to try.
    cv : int, splitter, iterable or None
        As everywhere in scikit-learn; None is 5 folds. If a splitter needs groups, pass the list of
        its splits. For sources, moments and ``partial_fit``, a number of folds or None.
    one_standard_error : bool
        Take the largest ``alpha`` within one standard error of the best mean score.

    Attributes
    ----------
    alpha_, correction_ : float
    cv_scores_ : array of shape (n_alphas, n_folds)
        Scores of the alphas, with the first correction.
    correction_scores_ : array of shape (n_corrections, n_folds)
        Scores of the corrections, with ``alpha_``.
    feature_groups_, sequence_, order_, coef_path_, intercept_path_, coef_, intercept_, moments_, n_passes_, model_
        Of the model fitted on all data with ``alpha_`` and ``correction_``, as in :class:`AnytimeRegressor`.
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

    alpha: float = field(init=False)
    correction: float = field(init=False)
    alphas: ArrayLike = (1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1.0)
    corrections: ArrayLike = (0.0, 1.0)
    cv: object = None
    one_standard_error: bool = False

    _parameter_constraints: ClassVar[Constraints] = searching(AnytimeRegressor)

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


@dataclass(eq=False, repr=False, kw_only=True)
class AnytimeClassifierCV(Searches, AnytimeClassifier):
    """AnytimeClassifier with ``alpha`` and ``correction`` chosen by cross-validation, over all budgets at once.

    The score of a fold is the mean over budgets, spread evenly up to the total cost, of the explained fraction of the
    held-out log loss, 1 − loss/loss(training frequencies). ``alpha`` is chosen with the first of the ``corrections``,
    then the correction with that ``alpha``. Has all methods of :class:`AnytimeClassifier`.

    Parameters
    ----------
    feature_groups, costs, rule, cost_sensitive, schedule, max_cost, max_groups, min_gain, start, class_weight,
    tol, encoding
        As in :class:`AnytimeClassifier`.
    alphas, corrections : sequences of float
        The values to try.
    cv : int, splitter, iterable or None
        As everywhere in scikit-learn; None is 5 stratified folds. The rows of a source are assigned to folds by a
        hash of their values.
    one_standard_error : bool
        Take the largest ``alpha`` within one standard error of the best mean score.

    Attributes
    ----------
    alpha_, correction_ : float
    cv_scores_ : array of shape (n_alphas, n_folds)
        Scores of the alphas, with the first correction.
    correction_scores_ : array of shape (n_corrections, n_folds)
        Scores of the corrections, with ``alpha_``.
    classes_, feature_groups_, sequence_, order_, coef_path_, intercept_path_, coef_, intercept_, n_passes_, model_
        Of the model fitted on all data with ``alpha_`` and ``correction_``.

    Examples
    --------
    >>> from budgetline import AnytimeClassifierCV
    >>> from budgetline.datasets import load_heart
    >>> heart = load_heart()
    >>> search = AnytimeClassifierCV(heart.feature_groups, alphas=[1e-4, 1e-2, 1], rule="omp")
    >>> search.fit(heart.data, heart.target).alpha_
    0.01
    """

    alpha: float = field(init=False)
    correction: float = field(init=False)
    alphas: ArrayLike = (1e-5, 1e-4, 1e-3, 1e-2, 1e-1)
    corrections: ArrayLike = (0.0, 1.0)
    cv: object = None
    one_standard_error: bool = False

    _parameter_constraints: ClassVar[Constraints] = searching(AnytimeClassifier)
