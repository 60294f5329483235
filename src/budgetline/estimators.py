"""Estimators with scikit-learn's interface: thin façades over statistics, the loop and staged models."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, MultiOutputMixin, RegressorMixin
from sklearn.model_selection import check_cv
from sklearn.utils._param_validation import HasMethods, Interval, StrOptions
from sklearn.utils.validation import check_array, check_is_fitted

from budgetline.evaluation.timeliness import mean_over_budgets
from budgetline.groups import FeatureGroups, Layout, as_feature_groups
from budgetline.inputs import (
    check_table,
    check_target,
    check_weight,
    column_names,
    numbers_of,
    prediction_table,
)
from budgetline.linear import Plan, fit_moments, fit_rows, warn_from_moments
from budgetline.objectives.rules import RULES
from budgetline.sequencing.loop import Limits
from budgetline.sequencing.schedules import SCHEDULES, as_schedule
from budgetline.sequencing.sequence import Sequence
from budgetline.staged import LinearModel, StagedModel
from budgetline.statistics.chunks import Rows
from budgetline.statistics.folds import fold_moments
from budgetline.statistics.moments import Moments

Float = NDArray[np.float64]

STAGES_AT_ONCE = 16
"""Stages predicted by one matrix product in the staged generators."""


class _LinearSequence(MultiOutputMixin, RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """What the linear estimators share: groups, settings, predictions."""

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "feature_groups": [FeatureGroups, dict, "array-like", None],
        "costs": [dict, "array-like", None],
        "rule": [StrOptions(set(RULES))],
        "cost_sensitive": ["boolean"],
        "schedule": [StrOptions(set(SCHEDULES)), HasMethods("allowed")],
        "max_cost": [Interval(Real, 0, None, closed="left"), None],
        "max_groups": [Interval(Integral, 1, None, closed="left"), None],
        "min_gain": [Interval(Real, 0, 1, closed="both")],
    }

    feature_groups: Any
    costs: Any
    rule: str
    cost_sensitive: bool
    schedule: Any
    max_cost: float | None
    max_groups: int | None
    min_gain: float

    def predict(
        self,
        X: Any,
        *,
        budget: float | None = None,
        stage: int | None = None,
        available: Collection[str] | None = None,
    ) -> Float:
        """Predict with the whole sequence, or with what a budget, a stage or the available groups allow.

        Only the columns that the chosen model uses are read: the others may be NaN, or missing from a data frame.

        Parameters
        ----------
        X : array, sparse matrix or data frame, shape (n, D)
        budget : float, optional
            Use the longest prefix of the sequence that costs no more.
        stage : int, optional
            Use the first ``stage`` groups; 0 is the training mean.
        available : collection of group names, optional
            Use exactly these groups, in or out of order: the least-squares model on them, solved from the factor that
            the fit left. Groups that are not in the sequence (see ``max_cost``) add nothing.

        Returns
        -------
        array of shape (n,) or (n, P)
        """
        check_is_fitted(self)
        model = self.staged_model_.choose(budget, stage, available)
        return self._shaped(_predict(prediction_table(self, X, model.columns), model))

    def staged_predict(self, X: Any) -> Iterator[Float]:
        """Predict after each group.

        Parameters
        ----------
        X : array, sparse matrix or data frame, shape (n, D)

        Yields
        ------
        array of shape (n,) or (n, P)
            Stages 1, 2, …, in order.
        """
        check_is_fitted(self)
        staged = self.staged_model_
        last = staged.at_stage(staged.n_stages)
        table = prediction_table(self, X, last.columns)
        P = staged.null_intercept.size
        for start in range(0, staged.n_stages, STAGES_AT_ONCE):
            coef = staged.coef_path[start : start + STAGES_AT_ONCE][..., last.columns]
            scores = np.asarray(table @ coef.reshape(-1, last.columns.size).T).reshape(-1, len(coef), P)
            for j in range(len(coef)):
                yield self._shaped(scores[:, j] + staged.intercept_path[start + j])

    def _shaped(self, scores: Float) -> Float:
        return scores if self._target_shape else scores[:, 0]

    def _plan(self, names: tuple[str, ...] | None, n_features: int, alpha: float) -> tuple[Plan, Layout]:
        """Resolve groups against a table; the plan counts columns among those that are used."""
        groups = as_feature_groups(self.feature_groups, self.costs, names, n_features)
        layout = groups.resolve(names, n_features)
        used = np.sort(layout.used)
        columns = tuple(np.searchsorted(used, c) for c in layout.columns)
        limits = Limits(self.max_cost, self.max_groups, self.min_gain)
        schedule = as_schedule(self.schedule)
        plan = Plan(columns, groups.names, groups.costs, self.rule, schedule, limits, self.cost_sensitive, alpha)
        return plan, layout

    def _read(self, X: Any, y: Any, sample_weight: Any, layout: Layout, names: tuple[str, ...] | None) -> Rows:
        """Check y and the weights, and read the grouped columns of a checked table."""
        Y, self._target_shape = check_target(y, X.shape[0])
        weight = check_weight(sample_weight, X.shape[0])
        used = np.sort(layout.used)
        every = used.size == layout.n_features
        if names is None:
            return Rows(numbers_of(X), Y, weight, None if every else used)
        return Rows(numbers_of(X, None if every else used), Y, weight)

    def _keep(self, model: StagedModel, layout: Layout) -> None:
        """Copy a fitted model into the attributes that users read."""
        model = model.embedded(np.sort(layout.used), layout.n_features)
        self.staged_model_ = model
        self.sequence_: Sequence = model.sequence
        self.order_ = model.sequence.order
        single = not self._target_shape
        self.coef_path_ = model.coef_path[:, 0] if single else model.coef_path
        self.intercept_path_ = model.intercept_path[:, 0] if single else model.intercept_path
        last = model.at_stage(model.n_stages)
        self.coef_ = last.coef[0] if single else last.coef
        self.intercept_ = float(last.intercept[0]) if single else last.intercept

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


class AnytimeRegressor(_LinearSequence):
    """Linear regression whose feature groups are computed one after another, best value for money first.

    Learns an order of the groups and one ridge model per prefix of it,

        min_w 1/(2n) ‖y − Xw‖² + alpha/2 ‖w‖²    on standardised X and centred y,

    so that a prediction is at hand at every budget. See ``docs/design.md`` for the mathematics.

    Parameters
    ----------
    feature_groups : FeatureGroups, mapping, list of column lists, labels, or None
        None: every column is a group.
    costs : mapping name -> cost, sequence, or None
        Costs of the groups; None: those of ``feature_groups``, else 1 each.
    rule : {"fr", "omp", "no-whiten", "single"}
        How a group's merit is measured: by its exact gain (forward regression), or by its gradient, whitened within the
        group (orthogonal matching pursuit), plain, or of its best column. The last two are for comparison.
    cost_sensitive : bool
        Whether merit is divided by cost.
    schedule : {"greedy", "doubling"} or a schedule such as ``Doubling(c_min=2)``
        "doubling" never lets the next group cost more than all before it, which gives a guarantee at every budget.
    alpha : float
        Ridge constant, with the meaning it has in ``sklearn.linear_model.ElasticNet(l1_ratio=0)`` on standardised data:
        ``Ridge`` would call it ``alpha · n``.
    max_cost : float or None
        Leave out groups that would bring the total cost above this.
    max_groups : int or None
        Stop after so many groups.
    min_gain : float
        Stop when no group would explain at least this fraction of the variance more.

    Attributes
    ----------
    sequence_ : Sequence
        ``groups``, ``costs``, ``cumulative_costs``, ``gains``, ``explained``, ``to_frame()``.
    order_ : int array
        Positions of the chosen groups, in order.
    coef_path_ : array of shape (stages, D) or (stages, P, D)
        Coefficients after each stage, in the units of X and y.
    intercept_path_ : array of shape (stages,) or (stages, P)
    coef_, intercept_
        Those of the last stage.
    staged_model_ : StagedModel
    n_features_in_, feature_names_in_
        As everywhere in scikit-learn.

    Examples
    --------
    >>> from budgetline import AnytimeRegressor
    >>> from budgetline.datasets import load_nhanes
    >>> nhanes = load_nhanes()
    >>> model = AnytimeRegressor(nhanes.feature_groups).fit(nhanes.data, nhanes.target)
    >>> model.sequence_.groups[:3]
    ('DIQ', 'HSQ', 'BMX')
    >>> model.predict(nhanes.data[:2], budget=30).round(2).tolist()
    [5.7, 5.51]
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **_LinearSequence._parameter_constraints,
        "alpha": [Interval(Real, 0, None, closed="left")],
    }

    def __init__(
        self,
        feature_groups: Any = None,
        costs: Any = None,
        *,
        rule: str = "fr",
        cost_sensitive: bool = True,
        schedule: Any = "greedy",
        alpha: float = 1e-5,
        max_cost: float | None = None,
        max_groups: int | None = None,
        min_gain: float = 0.0,
    ) -> None:
        self.feature_groups = feature_groups
        self.costs = costs
        self.rule = rule
        self.cost_sensitive = cost_sensitive
        self.schedule = schedule
        self.alpha = alpha
        self.max_cost = max_cost
        self.max_groups = max_groups
        self.min_gain = min_gain

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn the sequence and the model of every prefix.

        Parameters
        ----------
        X : array, sparse matrix or data frame, shape (n, D)
            pandas, polars and pyarrow frames are welcome. Not copied.
        y : array of shape (n,) or (n, P)
        sample_weight : array of shape (n,), optional

        Returns
        -------
        self
        """
        self._validate_params()
        table = check_table(self, X, reset=True)
        names = column_names(X)
        plan, layout = self._plan(names, table.shape[1], self.alpha)
        rows = self._read(table, y, sample_weight, layout, names)
        self._keep(fit_rows(rows, plan, _used_names(names, layout)), layout)
        return self

    def fit_moments(self, moments: Moments) -> Self:
        """Learn the same from moments alone, which may have been merged from many places.

        Parameters
        ----------
        moments : Moments

        Returns
        -------
        self

        Examples
        --------
        >>> import numpy as np
        >>> from budgetline import AnytimeRegressor, Moments
        >>> X, y = np.random.default_rng(0).normal(size=(50, 3)), np.arange(50.0)
        >>> merged = Moments.of(X[:20], y[:20]) + Moments.of(X[20:], y[20:])
        >>> AnytimeRegressor().fit_moments(merged).coef_.shape
        (3,)
        """
        self._validate_params()
        if not isinstance(moments, Moments):
            raise TypeError(f"moments must be Moments, got {type(moments).__name__}")
        plan, layout = self._plan(moments.feature_names, moments.n_features, self.alpha)
        self._target_shape = moments.target_shape
        _remember_columns(self, moments.feature_names, moments.n_features)
        model, doubt = fit_moments(moments.select(np.sort(layout.used)), plan)
        warn_from_moments(doubt, moments.eps, self.alpha)
        self._keep(model, layout)
        return self


class AnytimeRegressorCV(_LinearSequence):
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
        As everywhere in scikit-learn; None is 5 folds.
    one_standard_error : bool
        Take the largest ``alpha`` within one standard error of the best mean score.

    Attributes
    ----------
    alpha_ : float
        The chosen value.
    cv_scores_ : array of shape (n_alphas, n_folds)
    sequence_, order_, coef_path_, intercept_path_, coef_, intercept_, staged_model_
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
        **_LinearSequence._parameter_constraints,
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
        self._validate_params()
        alphas = check_array(self.alphas, ensure_2d=False, dtype=np.float64, input_name="alphas")
        if alphas.ndim != 1 or np.any(alphas < 0):
            raise ValueError(f"alphas must be numbers ≥ 0, got {self.alphas!r}")
        table = check_table(self, X, reset=True)
        names = column_names(X)
        plan, layout = self._plan(names, table.shape[1], float(alphas[0]))
        rows = self._read(table, y, sample_weight, layout, names)
        used_names = _used_names(names, layout)
        splits = list(check_cv(self.cv, rows.Y).split(np.empty((rows.n_rows, 1)), rows.Y))
        folds = fold_moments(rows, splits, used_names)
        scores = [[_held_out(replace(plan, alpha=float(a)), *fold) for fold in folds] for a in alphas]
        self.cv_scores_ = np.array(scores)
        self.alpha_ = _choose_alpha(alphas, self.cv_scores_, self.one_standard_error)
        self._keep(fit_rows(rows, replace(plan, alpha=self.alpha_), used_names), layout)
        return self


def _held_out(plan: Plan, train: Moments, test: Moments) -> float:
    """Fit on ``train``; return the mean over budgets of the explained fraction on ``test``."""
    model, _ = fit_moments(train, plan)
    P, D = model.null_intercept.size, train.n_features
    null = float(test.mean_squared_error(np.zeros((1, P, D)), model.null_intercept[None])[0])
    errors = test.mean_squared_error(model.coef_path, model.intercept_path)
    explained = 1 - errors / null if null > 0 else np.zeros(errors.size)
    total = float(plan.costs.sum())
    if plan.limits.max_cost is not None:
        total = max(min(total, plan.limits.max_cost), float(model.sequence.costs.sum()))
    return mean_over_budgets(model.sequence.cumulative_costs, [0.0, *explained], total)


def _choose_alpha(alphas: Float, scores: Float, one_standard_error: bool) -> float:
    """Return the alpha of the best mean score, or the largest one within a standard error of it."""
    means = scores.mean(axis=1)
    best = int(np.argmax(means))
    if not one_standard_error or scores.shape[1] < 2:
        return float(alphas[best])
    error = scores[best].std(ddof=1) / np.sqrt(scores.shape[1])
    return float(alphas[means >= means[best] - error].max())


def _used_names(names: tuple[str, ...] | None, layout: Layout) -> tuple[str, ...] | None:
    return None if names is None else tuple(names[d] for d in np.sort(layout.used))


def _remember_columns(estimator: Any, names: tuple[str, ...] | None, n_features: int) -> None:
    """Set what scikit-learn would have learned from X."""
    estimator.n_features_in_ = n_features
    if names is not None:
        estimator.feature_names_in_ = np.asarray(names, dtype=object)
    elif hasattr(estimator, "feature_names_in_"):
        del estimator.feature_names_in_


def _predict(table: Any, model: LinearModel) -> Float:
    """Return X·coef' + intercept, shape (n, P), for a table that holds just the model's columns."""
    scores: Float = np.asarray(table @ model.coef[:, model.columns].T)
    return scores + model.intercept
