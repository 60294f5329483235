"""AnytimeRegressorCV and AnytimeClassifierCV: alpha, correction and pairs by cross-validation, over all budgets."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from itertools import product
from numbers import Integral
from operator import add
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone
from sklearn.model_selection import check_cv
from sklearn.utils.validation import check_array, check_is_fitted

from budgetline.arrays import Float
from budgetline.data.rows import Rows
from budgetline.encoding import Encoding
from budgetline.encoding.settings import as_encoding
from budgetline.encoding.table import TableEncoding
from budgetline.estimators.base import AnytimeEstimator, Constraints
from budgetline.estimators.classifier import AnytimeClassifier
from budgetline.estimators.regressor import AnytimeRegressor
from budgetline.evaluation.curve import BudgetCurve, explained_share, timeliness
from budgetline.inputs import floats_of
from budgetline.messages import shown
from budgetline.model.interactions import with_pairs
from budgetline.model.recipe import Recipe
from budgetline.model.splits import splits_of
from budgetline.model.targets import codes_of
from budgetline.model.training import Fold, RowsTraining, Training, number_of_folds
from budgetline.progress import announced
from budgetline.statistics.folds import Split
from budgetline.statistics.moments import Moments
from budgetline.threads import map_in_threads

PAIR_ROWS = 20_000
"""Whether pairs of columns help is tried on at most this many rows: fits with pairs take many times as long."""
SEARCHED = ("alphas", "corrections", "interactions", "cv", "one_standard_error")
"""Parameters that only a search has."""
FOLDS_FIRST = 2
"""Pairs that do not help in the first folds are not tried in the others."""


def searching(cls: type[AnytimeEstimator]) -> Constraints:
    """Return the constraints on the parameters of an estimator that chooses alpha and correction."""
    others = {name: kinds for name, kinds in cls._parameter_constraints.items() if name not in ("alpha", "correction")}
    return {
        **others,
        "alphas": ["array-like"],
        "corrections": ["array-like"],
        "interactions": ["array-like", None],
        "cv": ["cv_object"],
        "one_standard_error": ["boolean"],
    }


class Judged(NamedTuple):
    """How good models of a fold are on held-out rows: the mean over all budgets, and the explained share by budget."""

    score: float
    curve: BudgetCurve


class Searches(AnytimeEstimator):
    """Tries ridge constants, corrections and pairs, one after the other, on folds; takes the best over all budgets."""

    alphas: ArrayLike
    corrections: ArrayLike
    interactions: Sequence[int] | None
    cv: object
    one_standard_error: bool
    correction_: float

    def fit(
        self, X: object, y: object = None, sample_weight: object = None, *, groups: object = None, **options: Any
    ) -> Self:
        """Choose on folds, then learn from all rows.

        Arguments are those of :meth:`AnytimeRegressor.fit`, or of :meth:`AnytimeClassifier.fit`, and ``groups``: one
        label per row, such as a patient. Rows with the same label are in the same fold, if ``cv`` is a number or None.
        """
        self._groups = groups
        try:
            found: Self = super().fit(X, y, sample_weight, **options)
            return found
        finally:
            del self._groups

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

    def _chosen(self, training: Training, recipe: Recipe) -> tuple[Training, Recipe, dict[str, object]]:
        """Choose alpha, then the correction, then whether to add pairs."""
        if self.interactions is None:
            training, recipe = self._paired(training, recipe)
        alphas, corrections = _tried("alphas", self.alphas), _tried("corrections", self.corrections)
        recipe = replace(recipe, correction=float(corrections[0]))
        groups = getattr(self, "_groups", None)
        cv = training.fixed(self.cv) if groups is None else self._splits(training, groups)
        judged, held = held_out(training, cv, [replace(recipe, alpha=float(alpha)) for alpha in alphas])
        table = scores_of(judged)
        best = choose_alpha(alphas, table, self.one_standard_error)
        recipe, judged = replace(recipe, alpha=float(alphas[best])), judged[best : best + 1]
        if corrections.size > 1:
            judged += held_out(training, cv, [replace(recipe, correction=float(c)) for c in corrections[1:]])[0]
        correction = int(np.argmax(scores_of(judged).mean(axis=1)))
        recipe = replace(recipe, correction=float(corrections[correction]))
        learned: dict[str, object] = {
            "alpha_": recipe.alpha,
            "cv_scores_": table,
            "correction_": recipe.correction,
            "correction_scores_": scores_of(judged),
        }
        paired, recipe, folds = self._with_best_pairs(training, recipe, cv, judged[correction])
        learned["held_out_"] = _mean_curve(folds)
        once = isinstance(self.cv, int | np.integer | None) and None not in held  # every row is held out once
        if once and groups is None and paired is training:  # moments of pairs are not known
            learned["fold_moments_"] = tuple(held)
        return paired, recipe, learned

    def _splits(self, training: Training, groups: object) -> list[Split]:
        """Return folds that keep the rows of a group together."""
        if not isinstance(training, RowsTraining):
            raise ValueError("groups are labels of rows in memory, and a source is read in chunks: leave groups out")
        classes = training.classes is not None
        return splits_of(self.cv, codes_of(training.rows.Y) if classes else training.rows.Y, groups, classifier=classes)

    def chosen(self) -> AnytimeEstimator:
        """Return an estimator, not fitted, that learns with what this search has chosen, and searches nothing."""
        check_is_fitted(self)
        kept = {name: value for name, value in self.get_params(deep=False).items() if name not in SEARCHED}
        settings, encoding = as_encoding(self.encoding), self.model_.encoding
        if settings is not None and encoding is not None:
            kept["encoding"] = replace(settings, interactions=len(encoding.pairs))
        plain = AnytimeClassifier if isinstance(self, AnytimeClassifier) else AnytimeRegressor
        return plain(**kept, alpha=self.model_.alpha, correction=self.correction_)

    def _paired(self, training: Training, recipe: Recipe) -> tuple[Training, Recipe]:
        if self.interactions is not None and recipe.bins:
            raise ValueError("interactions can only be tried on rows in memory: set interactions=None")
        return super()._paired(training, recipe)

    def _seeks_pairs(self, settings: Encoding) -> bool:
        return super()._seeks_pairs(settings) if self.interactions is None else max(self._numbers_of_pairs()) > 0

    def _numbers_of_pairs(self) -> list[int]:
        """Return the numbers of pairs to try, checked, the smallest first."""
        given = list(self.interactions or ())
        if not given or not all(isinstance(most, Integral) and most >= 0 for most in given):
            raise ValueError(f"interactions must be whole numbers ≥ 0, at least one, got {shown(self.interactions)}")
        return sorted({int(most) for most in given})

    def _with_best_pairs(
        self, training: Training, recipe: Recipe, cv: object, without: list[Judged]
    ) -> tuple[Training, Recipe, list[Judged]]:
        """Add the best number of pairs, if that is better on held-out rows by more than its standard error.

        Every fold looks for pairs in its own training rows. ``without`` are the folds of the recipe without pairs.
        """
        if self.interactions is None:
            return training, recipe, without
        most, numbers = 0, self._numbers_of_pairs()
        if self.encoding is None and numbers != [0]:
            raise ValueError("interactions are of raw columns: set encoding, such as encoding='spline'")
        if numbers == [0] or not recipe.bins:
            return training, recipe, without
        if not isinstance(training, RowsTraining):
            return *self._paired(training, recipe), without
        sample, splits = training, training.fixed(cv)
        if training.rows.n_rows > PAIR_ROWS:
            sample, splits = training.sampled(PAIR_ROWS, splits)
            without = held_out(sample, splits, [recipe])[0][0]
        best = without if numbers[0] == 0 else []
        for number in (number for number in numbers if number):
            found = self._with_pairs_in(sample, recipe, splits[:FOLDS_FIRST], number)
            if not best or _gain(found, best)[0] > 0:
                found += self._with_pairs_in(sample, recipe, splits[FOLDS_FIRST:], number)
            gain, error = _gain(found, best)
            if not best or (len(found) == len(best) and gain > error):
                most, best = number, found
        if not most:
            return training, recipe, without
        encoding = with_pairs(training, recipe, most)
        return training.encoded(encoding), self._like(recipe, encoding), best

    def _with_pairs_in(
        self, training: RowsTraining, recipe: Recipe, splits: Sequence[Split], most: int
    ) -> list[Judged]:
        """Look for pairs in the training rows of every split, and judge models with them on the held-out rows."""

        def judged(split: Split) -> Judged:
            part, losses = training.fold_of(split)
            encoding = with_pairs(part, recipe, most)
            fold = Fold(part.encoded(encoding), lambda fitted: losses(fitted, encoding))
            return judged_on(self._like(recipe, encoding), fold)

        if training.small:
            return map_in_threads(judged, splits, "fold fit")
        return [judged(split) for split in announced(splits, "fold fit")]

    def _like(self, recipe: Recipe, encoding: TableEncoding) -> Recipe:
        """Return the recipe for an encoding with pairs."""
        wider = self._recipe(encoding.layout, encoding)
        return replace(wider, alpha=recipe.alpha, correction=recipe.correction)


def unsearched(estimator: Any) -> Any:
    """Return an unfitted copy of an estimator; one that searches is replaced by what it has chosen."""
    return estimator.chosen() if isinstance(estimator, Searches) else clone(estimator)


def _gain(found: list[Judged], before: list[Judged]) -> tuple[float, float]:
    """Return the mean difference of the scores of the same folds, and its standard error."""
    both = zip(found, before, strict=False)
    differences = np.array([new.score - old.score for new, old in both] or [0.0])
    error = differences.std(ddof=1) / np.sqrt(differences.size) if differences.size > 1 else 0.0
    return float(differences.mean()), float(error)


def _mean_curve(folds: list[Judged]) -> Float:
    """Return costs, the mean over folds of the explained share there, and its standard error, shape (K, 3)."""
    mean = BudgetCurve.mean([fold.curve for fold in folds])
    errors = np.full(len(mean), np.nan) if mean.errors is None else mean.errors
    return np.column_stack([mean.costs, mean.values, errors])


def _tried(name: str, given: ArrayLike) -> Float:
    """Return the values to try, checked."""
    kept = {"ensure_2d": False, "ensure_min_samples": 0, "dtype": np.float64}
    values: Float = check_array(floats_of(given), input_name=name, **kept)
    if values.ndim != 1 or not values.size or np.any(values < 0):
        raise ValueError(f"{name} must be numbers ≥ 0, at least one, got {shown(given)}")
    return values


def held_out(training: Training, cv: object, recipes: list[Recipe]) -> tuple[list[list[Judged]], list[Moments | None]]:
    """Return how good each recipe is on each fold, and the moments of the held-out rows."""
    folds: Iterable[Fold] = training.folds(recipes[0], cv)
    if training.small:  # every fit keeps one thread busy; the threads of larger ones share their rows
        folds = list(folds)
        found = map_in_threads(lambda job: judged_on(*job), list(product(recipes, folds)), "fold fit")
        n = len(folds)
        return [found[k : k + n] for k in range(0, len(found), n)], [fold.held for fold in folds]
    tried = [
        ([judged_on(recipe, fold) for recipe in announced(recipes, "setting")], fold.held)
        for fold in announced(folds, "fold")
    ]
    return [list(each) for each in zip(*(row for row, _ in tried), strict=True)], [held for _, held in tried]


def scores_of(judged: list[list[Judged]]) -> Float:
    """Return the scores (recipes, folds)."""
    return np.array([[fold.score for fold in folds] for folds in judged])


def judged_on(recipe: Recipe, fold: Fold) -> Judged:
    """Fit on a fold; return the explained share of the held-out loss by budget, and its mean over budgets.

    Sequences that end early keep their last value up to the largest budget considered.
    """
    fitted = fold.training.fit(recipe)
    sequence, total = fitted.stages.sequence, recipe.prices.total
    if recipe.limits.max_cost is not None:
        total = max(min(total, recipe.limits.max_cost), float(sequence.costs.sum()))
    explained = np.nan_to_num(explained_share(fold.losses(fitted)))
    curve = BudgetCurve(np.append(0.0, sequence.cumulative_costs), explained)
    return Judged(timeliness(curve, total), curve)


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
    interactions : sequence of int, or None
        Numbers K of pairs of columns to try, such as (0, 20), with the best alpha and correction. The K pairs that
        explain most are added if that is better on held-out rows by more than its standard error. At most 20,000
        rows are used to decide. None: as many pairs as the encoding says. Needs an encoding, and rows in memory.
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
    held_out_ : array of shape (K, 3)
        Costs, the mean over folds of the explained share of the held-out loss at these costs, and its standard error.
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
    interactions: Sequence[int] | None = None
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
    interactions : sequence of int, or None
        Numbers K of pairs of columns to try, such as (0, 20), with the best alpha and correction. The K pairs that
        explain most are added if that is better on held-out rows by more than its standard error. At most 20,000
        rows are used to decide. None: as many pairs as the encoding says. Needs an encoding, and rows in memory.
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
    held_out_ : array of shape (K, 3)
        Costs, the mean over folds of the explained share of the held-out loss at these costs, and its standard error.
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
    interactions: Sequence[int] | None = None
    cv: object = None
    one_standard_error: bool = False

    _parameter_constraints: ClassVar[Constraints] = searching(AnytimeClassifier)
