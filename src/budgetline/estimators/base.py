"""What all estimators share: groups, settings, scores at a stage, a budget, or from available groups."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from itertools import islice
from numbers import Integral, Real
from typing import Any, ClassVar

import narwhals as nw
import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils._param_validation import HasMethods, Interval, InvalidParameterError, StrOptions
from sklearn.utils.validation import check_is_fitted

from budgetline.budgets import number_of
from budgetline.data.rows import Rows
from budgetline.groups import FeatureGroups, Layout, as_feature_groups
from budgetline.inputs import (
    check_table,
    check_target,
    check_weight,
    column_names,
    numbers_of,
    prediction_table,
    remember_columns,
)
from budgetline.messages import cut, shown, some
from budgetline.model.recipe import Recipe
from budgetline.model.stages import StagedModel
from budgetline.objectives.rules import RULES
from budgetline.optimality import Certificate, certify
from budgetline.progress import Progress
from budgetline.sequencing.loop import Limits
from budgetline.sequencing.schedules import SCHEDULES, as_schedule
from budgetline.sequencing.sequence import GroupSequence
from budgetline.statistics.moments import Moments

Float = NDArray[np.float64]


@dataclass(frozen=True)
class Checked:
    """What a fit starts from, all of it checked."""

    rows: Rows
    recipe: Recipe
    layout: Layout
    names: tuple[str, ...] | None
    target_shape: tuple[int, ...]

    @property
    def used_names(self) -> tuple[str, ...] | None:
        """Names of the grouped columns, in the order of X."""
        return None if self.names is None else tuple(self.names[d] for d in np.sort(self.layout.used))


class SequenceEstimator(BaseEstimator):  # type: ignore[misc]
    """Checks data and settings, keeps a fitted model, and computes its scores."""

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "feature_groups": [FeatureGroups, dict, "array-like", None],
        "costs": [dict, "array-like", None],
        "rule": [StrOptions(set(RULES))],
        "cost_sensitive": ["boolean"],
        "schedule": [StrOptions(set(SCHEDULES)), HasMethods("allowed")],
        "max_cost": [Interval(Real, 0, None, closed="both"), None],
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

    def _scores(self, X: Any, budget: float | None, stage: int | None, available: Collection[str] | None) -> Float:
        """Return scores X·coef' + intercept, shape (n, P), of the model that the keywords ask for."""
        check_is_fitted(self)
        model = self.staged_model_.choose(budget, stage, available)
        table = prediction_table(self, X, model.columns)
        scores: Float = np.asarray(table @ model.coef[:, model.columns].T)
        return scores + model.intercept

    def _staged_scores(self, X: Any) -> Iterator[Float]:
        """Yield the scores (n, P) after each group."""
        check_is_fitted(self)
        staged = self.staged_model_
        table = prediction_table(self, X, staged.at_stage(staged.n_stages).columns)
        yield from islice(staged.stage_scores(table), 1, None)

    def _respond(self, scores: Float, method: str) -> NDArray[Any]:
        """Turn scores (n, P) into what the method of this name would have returned."""
        raise NotImplementedError

    def _encoded(self, y: Any, n_samples: int) -> Float:
        """Return y as targets (n, P) of the fitted model."""
        Y, _ = check_target(y, n_samples)
        if Y.shape[1] != self.staged_model_.null_intercept.size:
            raise ValueError(f"y has {Y.shape[1]} columns, the model {self.staged_model_.null_intercept.size} targets")
        return Y

    def _shaped(self, scores: Float) -> Float:
        return scores if self._target_shape else scores[:, 0]

    def _recipe(self, names: tuple[str, ...] | None, n_features: int, alpha: float) -> tuple[Recipe, Layout]:
        """Resolve groups against a table; the recipe counts columns among those that are used."""
        groups = as_feature_groups(self.feature_groups, self.costs, names, n_features)
        layout = groups.resolve(names, n_features)
        used = np.sort(layout.used)
        columns = tuple(np.searchsorted(used, c) for c in layout.columns)
        limits = Limits(self.max_cost, self.max_groups, self.min_gain)
        schedule = as_schedule(self.schedule, groups.names, groups.prices)
        recipe = Recipe(columns, groups.names, groups.prices, self.rule, schedule, limits, self.cost_sensitive, alpha)
        return recipe, layout

    def _target(self, y: Any, n_samples: int) -> tuple[Float, tuple[int, ...]]:
        """Return y as (n, P) and the shape of one target; classifiers read labels instead."""
        return check_target(y, n_samples)

    def _validate_params(self) -> None:
        try:
            super()._validate_params()
        except InvalidParameterError as error:  # it holds the whole value
            raise InvalidParameterError(cut(str(error))) from None
        for name, value in self.get_params(deep=False).items():
            if isinstance(value, Integral) and not isinstance(value, bool) and np.isnan(number_of(value)):
                raise ValueError(f"the parameter {shown(name)} of {type(self).__name__} is too large for a float")

    def _check(self, X: Any, y: Any, sample_weight: Any, alpha: float) -> Checked:
        """Check parameters and data, and read the grouped columns; nothing of the estimator is changed."""
        self._validate_params()
        table = check_table(self, X, reset=True)
        names = column_names(X)
        recipe, layout = self._recipe(names, table.shape[1], alpha)
        Y, target_shape = self._target(y, table.shape[0])
        weight = check_weight(sample_weight, table.shape[0])
        used = None if layout.used.size == layout.n_features else np.sort(layout.used)
        if isinstance(table, nw.DataFrame):
            rows = Rows(numbers_of(table, used), Y, weight)
        else:
            rows = Rows(numbers_of(table), Y, weight, used)
        return Checked(rows, recipe, layout, names, target_shape)

    def _keep(
        self, model: StagedModel, layout: Layout, names: tuple[str, ...] | None, target_shape: tuple[int, ...]
    ) -> None:
        """Copy a fitted model into the attributes that users read."""
        model = model.embedded(np.sort(layout.used), layout.n_features)
        remember_columns(self, names, layout.n_features)
        self._target_shape, self._columns_read = target_shape, np.sort(layout.used)
        self.staged_model_ = model
        self.feature_groups_: FeatureGroups = layout.groups
        self.sequence_: GroupSequence = model.sequence
        self.order_ = model.sequence.order
        single = not target_shape
        self.coef_path_ = model.coef_path[:, 0] if single else model.coef_path
        self.intercept_path_ = model.intercept_path[:, 0] if single else model.intercept_path
        last = model.at_stage(model.n_stages)
        self.coef_ = last.coef[0] if single else last.coef
        self.intercept_ = float(last.intercept[0]) if single else last.intercept

    def _warn_if_rounded(
        self, model: StagedModel, data: Rows | Moments, layout: Layout, names: tuple[str, ...] | None
    ) -> None:
        """Warn of columns that count as constant in a model, though their values in the data differ."""
        used = np.sort(layout.used)
        found = used[data.varying(np.flatnonzero(np.isinf(model.scale)))].tolist()
        if not found:
            return
        named = some((str(d) if names is None else names[d] for d in found), most=5)
        warnings.warn(
            f"{len(found)} of the columns differ by less than the rounding error of their means and count as constant: "
            f"{named}. Subtract a value near the mean before they are stored as "
            "float64. If a few samples outweigh all others, make the weights less unequal.",
            UserWarning,
            stacklevel=3,
        )

    def certificate(self, budgets: Any = None, *, time_limit: float = 5.0, progress: Progress = None) -> Certificate:
        """Prove how near the sequence comes to the best that any budget could buy, on the training data.

        Parameters
        ----------
        budgets : array, optional
            Further budgets of interest; every prefix and an even grid are always certified.
        time_limit : float
            Seconds. The bounds are valid whenever it ends.
        progress : bool or None
            Whether to show a progress bar; None: on a terminal, where tqdm is installed.

        Returns
        -------
        Certificate
            See :func:`budgetline.certify`.
        """
        check_is_fitted(self)
        return certify(self, budgets=budgets, time_limit=time_limit, progress=progress)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags
