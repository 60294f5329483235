"""AnytimeRegressorCV and AnytimeClassifierCV: alpha, correction and pairs by cross-validation, over all budgets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from numbers import Integral
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_array, check_is_fitted

from budgetline.arrays import Float, Positions
from budgetline.budgets import folds_that_agree
from budgetline.encoding import Encoding
from budgetline.encoding.settings import as_encoding
from budgetline.estimators.base import AnytimeEstimator
from budgetline.estimators.classifier import AnytimeClassifier, BaseClassifier
from budgetline.estimators.regressor import AnytimeRegressor, BaseRegressor
from budgetline.fitting import FoldSearch, Recipe
from budgetline.fitting.source_training import number_of_folds
from budgetline.inputs import floats_of
from budgetline.messages import shown
from budgetline.progress import Progress

SEARCHED = ("alphas", "corrections", "interactions", "cv", "stop_at_best", "search_rows", "calibration")
"""Parameters that only a search has."""


@dataclass(eq=False, repr=False, kw_only=True)
class HasSearch(AnytimeEstimator):
    """Chooses alpha, the correction and pairs of columns on folds, over all budgets."""

    alphas: ArrayLike = ()
    corrections: ArrayLike = (0.0, 1.0)
    interactions: Sequence[int] | None = None
    cv: object = None
    stop_at_best: bool = False
    search_rows: int | None = None

    alpha_: float = field(init=False)
    correction_: float = field(init=False)
    fold_costs_: Float = field(init=False)

    _plain: ClassVar[Any]
    """The estimator that searches nothing."""

    _parameter_constraints = AnytimeEstimator._parameter_constraints | {
        "alphas": ["array-like"],
        "corrections": ["array-like"],
        "interactions": ["array-like", None],
        "cv": ["cv_object"],
        "stop_at_best": ["boolean"],
        "search_rows": [Interval(Integral, 2, None, closed="left"), None],
    }

    def fit(
        self,
        X: object,
        y: object = None,
        sample_weight: object = None,
        *,
        groups: object = None,
        client: object = None,
        progress: Progress = None,
    ) -> Self:
        """Choose settings by cross-validation, then refit on all rows; other arguments as in ``AnytimeRegressor.fit``.

        Parameters
        ----------
        groups : array-like of shape (n_samples,), optional
            Group labels of the rows (not feature groups), such as patient identifiers. If ``cv`` is an integer or None,
            rows with the same label are kept in the same fold.
        """
        return self._fit(X, y, sample_weight, client, progress, groups)

    def _chosen(self, recipe: Recipe) -> Recipe:
        numbers = None if self.interactions is None else tuple(self._numbers_of_pairs())
        if numbers is not None and max(numbers) > 0 and self.encoding is None:
            raise ValueError("interactions are pairs of raw columns: set encoding, such as encoding='spline'")
        tried = checked_values("alphas", self.alphas), checked_values("corrections", self.corrections)
        search = FoldSearch(*tried, numbers, self.cv, self.stop_at_best, self.search_rows)
        return replace(recipe, search=replace(search, calibrate=self._calibrates()))

    def _calibrates(self) -> bool:
        """Return whether probabilities are calibrated on held-out rows."""
        return False

    @property
    def folds_that_agree_(self) -> Positions:
        """For each group, the number of folds that buy it no later, in cumulative cost, than the final order."""
        check_is_fitted(self)
        return folds_that_agree(self.sequence_.cumulative_costs, self.fold_costs_)

    def _seeks_pairs(self, settings: Encoding) -> bool:
        return super()._seeks_pairs(settings) if self.interactions is None else max(self._numbers_of_pairs()) > 0

    def _n_folds(self) -> int:
        return number_of_folds(self.cv)

    def _numbers_of_pairs(self) -> list[int]:
        """Return the numbers of pairs to try, checked, the smallest first."""
        given = list(self.interactions or ())
        if not given or not all(isinstance(most, Integral) and most >= 0 for most in given):
            raise ValueError(f"interactions must be whole numbers ≥ 0, at least one, got {shown(self.interactions)}")
        return sorted({int(most) for most in given})

    def chosen(self) -> Any:
        """Return an unfitted estimator with the chosen settings; fitting it does not repeat the search."""
        check_is_fitted(self)
        kept = {name: value for name, value in self.get_params(deep=False).items() if name not in SEARCHED}
        settings, encoding = as_encoding(self.encoding), self.model_.encoding
        if settings is not None and encoding is not None:
            kept["encoding"] = replace(settings, interactions=len(encoding.pairs))
        if self.stop_at_best:
            kept["max_cost"] = float(self.model_.sequence.costs.sum())
        return self._plain(**kept, alpha=self.model_.alpha, correction=self.correction_)


def unsearched(estimator: Any) -> Any:
    """Return an unfitted copy of an estimator; one that searches is replaced by what it has chosen."""
    return estimator.chosen() if isinstance(estimator, HasSearch) else clone(estimator)


def checked_values(name: str, given: ArrayLike) -> Float:
    """Check the values that a search tries."""
    kept = {"ensure_2d": False, "ensure_min_samples": 0, "dtype": np.float64}
    values: Float = check_array(floats_of(given), input_name=name, **kept)
    if values.ndim != 1 or not values.size or np.any(values < 0):
        raise ValueError(f"{name} must be numbers ≥ 0, at least one, got {shown(given)}")
    return values


@dataclass(eq=False, repr=False, kw_only=True)
class AnytimeRegressorCV(BaseRegressor, HasSearch):
    """AnytimeRegressor with ``alpha`` and ``correction`` chosen by cross-validation over all budgets.

    The model is then refitted on all data with the best values. The score of a fold is the share of its held-out loss
    that is explained, averaged over all budgets up to the total cost. This share is 1 − MSE/MSE(training mean) for
    squared error. First, ``alpha`` is chosen, using the first of the ``corrections``. Then the correction is chosen,
    using this ``alpha``. For squared error, the moments of every fold are computed in one pass, so the data are not
    read again for each ``alpha``.

    This estimator has the same methods as ``AnytimeRegressor``, except ``fit_moments`` and ``partial_fit``. Rows of a
    source are assigned to folds by a hash of their values.

    Parameters
    ----------
    feature_groups, costs, rule, cost_sensitive, schedule, max_cost, max_groups
        As in ``AnytimeRegressor``.
    min_gain, start, loss, tol, encoding
        As in ``AnytimeRegressor``.
    alphas : sequence of float
        The values of ``alpha`` to try.
    corrections : sequence of float
        The values of ``correction`` to try.
    interactions : sequence of int, or None
        Numbers of column pairs to try as interactions, such as (0, 20). They are tried with the best alpha and
        correction. The pairs that explain most are added if they improve the score on held-out rows by more than the
        standard error of the improvement. At most 20,000 rows are used for this decision. If None, the encoding
        determines how many pairs are added. Pairs need an encoding and data in memory.
    cv : int, cross-validation splitter, iterable or None
        The cross-validation splitting strategy. An integer gives the number of folds, and None means 5 folds.
        Alternatively, pass a scikit-learn splitter, or an iterable that yields (train, test) splits as arrays of
        indices. If a splitter needs groups, pass the list of its splits. For a source, only an integer or None is
        accepted.
    stop_at_best : bool
        Whether to end the sequence at the budget with the best quality on held-out rows, provided that quality falls
        after this budget by more than 0.005 and by more than one standard error. The first group is always bought.
    search_rows : int or None
        Maximum number of rows that are used to choose the settings, if the data are in memory. The rows are drawn at
        random, and the model is still refitted on all rows. If None, all rows are used to choose the settings.

    Attributes
    ----------
    alpha_ : float
        The chosen value of ``alpha``.
    correction_ : float
        The chosen value of ``correction``.
    cv_scores_ : array of shape (n_alphas, n_folds)
        Score of each alpha on each fold, with the first correction.
    correction_scores_ : array of shape (n_corrections, n_folds)
        Score of each correction on each fold, with ``alpha_``.
    held_out_ : array of shape (n_costs, 3)
        One row per cost, with three entries: the cost, the explained share of the held-out loss at this cost (mean over
        folds), and the standard error of this share.
    fold_costs_ : array of shape (n_folds, n_stages)
        The cumulative cost at which each fold, following its own order, buys each group of the final order. It is
        infinity if the fold never buys the group.
    folds_that_agree_ : int array of shape (n_stages,)
        For each group, the number of folds that buy it at the same cumulative cost as the final order, or earlier.
    feature_groups_, sequence_, order_, coef_path_, intercept_path_, coef_, intercept_, moments_, n_passes_, model_
        As in ``AnytimeRegressor``.

    Examples
    --------
    >>> from budgetline import AnytimeRegressorCV
    >>> from budgetline.datasets import load_nhanes
    >>> nhanes = load_nhanes()
    >>> AnytimeRegressorCV(nhanes.feature_groups, alphas=[1e-4, 1e-2, 1]).fit(nhanes.data, nhanes.target).alpha_
    0.01
    """

    alphas: ArrayLike = (1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1.0)

    _parameter_constraints = BaseRegressor._parameter_constraints | HasSearch._parameter_constraints
    _plain: ClassVar = AnytimeRegressor


@dataclass(eq=False, repr=False, kw_only=True)
class AnytimeClassifierCV(BaseClassifier, HasSearch):
    """AnytimeClassifier with ``alpha`` and ``correction`` chosen by cross-validation over all budgets.

    The model is then refitted on all data with the best values. The score of a fold is the share of its held-out log
    loss that is explained, 1 − loss/loss(training frequencies), averaged over all budgets up to the total cost. This
    estimator has all methods of ``AnytimeClassifier``.

    Parameters
    ----------
    feature_groups, costs, rule, cost_sensitive, schedule, max_cost, max_groups
        As in ``AnytimeClassifier``.
    min_gain, start, class_weight, tol, encoding
        As in ``AnytimeClassifier``.
    alphas, corrections, interactions, stop_at_best, search_rows
        As in ``AnytimeRegressorCV``.
    calibration : {"auto", "none"} or None
        With "auto", the probabilities of every stage are calibrated on the held-out rows of the folds if this lowers
        the log loss by more than chance would. Beta calibration is used for two classes, and temperature scaling for
        more. Scores and coefficients do not change. Models that are fitted to a source are not calibrated. With "none"
        or None, the probabilities come from the linear scores alone.
    cv : int, cross-validation splitter, iterable or None
        The cross-validation splitting strategy. An integer gives the number of stratified folds, and None means 5
        stratified folds. Alternatively, pass a scikit-learn splitter, or an iterable that yields (train, test) splits
        as arrays of indices. Rows of a source are assigned to folds by a hash of their values.

    Attributes
    ----------
    alpha_, correction_, cv_scores_, correction_scores_, held_out_, fold_costs_, folds_that_agree_
        As in ``AnytimeRegressorCV``.
    classes_, feature_groups_, sequence_, order_, coef_path_, intercept_path_, coef_, intercept_, n_passes_, model_
        As in ``AnytimeClassifier``.

    Examples
    --------
    >>> from budgetline import AnytimeClassifierCV
    >>> from budgetline.datasets import load_heart
    >>> heart = load_heart()
    >>> search = AnytimeClassifierCV(heart.feature_groups, alphas=[1e-4, 1e-2, 1], rule="omp")
    >>> search.fit(heart.data, heart.target).alpha_
    0.01
    """

    alphas: ArrayLike = (1e-5, 1e-4, 1e-3, 1e-2, 1e-1)
    calibration: str | None = "auto"

    _parameter_constraints = BaseClassifier._parameter_constraints | HasSearch._parameter_constraints
    _parameter_constraints |= {"calibration": [StrOptions({"auto", "none"}), None]}
    _plain: ClassVar = AnytimeClassifier

    def _calibrates(self) -> bool:
        return self.calibration == "auto"
