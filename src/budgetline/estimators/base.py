"""What all estimators share: parameters, the way from a table to a fitted model, and the attributes of that model.

A kind of estimator adds what its targets are: `_target` checks those of a table, `_source_task` those of a source.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, replace
from numbers import Integral, Real
from typing import Any, ClassVar, Self, TypeAlias

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import metadata_routing
from sklearn.utils._param_validation import HasMethods, Interval, InvalidParameterError, StrOptions

from budgetline.data.tabular import from_stream
from budgetline.encoding.settings import Encoding, as_encoding
from budgetline.estimators.model_methods import ModelMethods
from budgetline.estimators.reading import (
    CheckedTarget,
    Columns,
    ColumnSettings,
    advising,
    read_source,
    read_table,
    source_of,
)
from budgetline.fitting import Recipe, RowsTraining, SourceTraining, Task, Training, fit_model
from budgetline.groups import FeatureGroups
from budgetline.inputs import number_of
from budgetline.leastsquares.rules import RULES
from budgetline.messages import cut, shown
from budgetline.model.anytime import AnytimeModel
from budgetline.moments.passes import Passes
from budgetline.progress import Progress
from budgetline.sequencing.loop import Limits
from budgetline.sequencing.schedules import SCHEDULES, Schedule

DEFAULT_ALPHA = 1e-5
NO_METADATA = dict.fromkeys(("client", "progress"), metadata_routing.UNUSED)
"""For estimators whose ``fit`` has options for reading a source, which are not sample metadata."""
Constraints: TypeAlias = dict[str, list[Any]]
"""Constraints that scikit-learn checks the parameters of an estimator against."""


@dataclass(eq=False, repr=False)
class AnytimeEstimator(ModelMethods, BaseEstimator):  # type: ignore[misc]
    """Checks parameters and data, learns a model, and keeps it. The fields are the parameters."""

    feature_groups: object = None
    costs: object = None
    _: KW_ONLY
    rule: str = "forward"
    cost_sensitive: bool = True
    schedule: str | Schedule = "greedy"
    max_cost: float | None = None
    max_groups: int | None = None
    min_gain: float = 0.0
    start: Sequence[str] = ()
    encoding: str | Encoding | None = None

    _parameter_constraints: ClassVar[Constraints] = {
        "feature_groups": [FeatureGroups, dict, "array-like", None],
        "costs": [dict, "array-like", None],
        "rule": [StrOptions(set(RULES))],
        "cost_sensitive": ["boolean"],
        "schedule": [StrOptions(set(SCHEDULES)), HasMethods("allowed")],
        "max_cost": [Interval(Real, 0, None, closed="both"), None],
        "max_groups": [Interval(Integral, 1, None, closed="left"), None],
        "min_gain": [Interval(Real, 0, 1, closed="both")],
        "start": ["array-like"],
        "encoding": [StrOptions({"linear", "spline"}), Encoding, None],
    }

    @classmethod
    def from_model(cls, model: AnytimeModel) -> Self:
        """Return a fitted estimator that wraps ``model`` and has the parameters that the model was fitted with."""
        found = cls(**model.settings)
        found._validate_params()
        found._adopt(model)
        return found

    def fit(
        self,
        X: object,
        y: object = None,
        sample_weight: object = None,
        *,
        client: object = None,
        progress: Progress = None,
    ) -> Self:
        """Learn the order of the groups, and fit a model for every prefix of this order.

        If the data come from a source, squared error needs one pass over them, and memory for one chunk and for the
        moments (a D × D matrix for D features). Other losses need a few passes per stage; ``n_passes_`` is the total
        number of passes. Only columns that belong to a group are read.

        Parameters
        ----------
        X : array-like, sparse matrix, data frame or Source
            The training data. A table (an array, a sparse matrix, or a data frame of pandas, polars or pyarrow) has
            shape (n_samples, n_features) and is not copied. A source is created by ``budgetline.open_data`` and
            contains its own targets.
        y : array-like of shape (n_samples,) or (n_samples, n_targets)
            The target values. Class labels can be of any type.
        sample_weight : array-like of shape (n_samples,), optional
            Sample weights.
        client : dask.distributed.Client, optional
            Dask client whose workers read the partitions of a source. Dask data frames use the default client if there
            is one.
        progress : bool or None
            Whether to show a progress bar when fitting to a source. If None, it is shown only in a terminal.

        Examples
        --------
        >>> import numpy as np
        >>> from budgetline import AnytimeRegressor, open_data
        >>> X = np.random.default_rng(0).normal(size=(1000, 3))
        >>> AnytimeRegressor().fit(open_data((X, X[:, 1]), chunk_rows=100)).coef_.round(3).tolist()
        [-0.0, 1.0, -0.0]
        """
        return self._fit(X, y, sample_weight, client, progress)

    def _fit(
        self,
        X: object,
        y: object,
        sample_weight: object,
        client: object,
        progress: Progress,
        groups: object = None,
    ) -> Self:
        """Learn from a table or a source; ``groups`` are labels of rows that stay together in the folds of a search."""
        self._validate_params()
        source = source_of(X, y, sample_weight, client)
        with advising(self.encoding):
            if source is None:
                training, recipe = self._from_table(X, y, sample_weight)
                return self._learn(training, recipe.grouped(groups))
            if groups is not None:
                raise ValueError(
                    "groups are labels of rows in memory, and a source is read in chunks: leave groups out"
                )
            return self._learn(*self._from_source(Passes(source, client, progress)))

    def _from_table(
        self, X: object, y: object, sample_weight: object, known: AnytimeModel | None = None
    ) -> tuple[RowsTraining, Recipe]:
        """Check data in memory; return them and what to learn from them. The encoding of a known model is kept."""

        def target(n_rows: int) -> CheckedTarget:
            return self._target(y, sample_weight, n_rows)

        training, columns = read_table(from_stream(X), self._column_settings, target, known)
        return training, self._recipe(columns)

    def _from_source(self, passes: Passes) -> tuple[Training, Recipe]:
        """Find out what a source holds; return it and what to learn from it."""
        self._check_source(passes)
        passes, columns = read_source(passes, self._column_settings)
        task = self._source_task(passes)
        training = SourceTraining(passes, columns.layout, task, n_folds=self._n_folds())
        return training, self._recipe(columns)

    def _learn(self, training: Training, recipe: Recipe) -> Self:
        """Learn a model and keep it, with the name and the parameters of this estimator."""
        model = fit_model(training, recipe)
        self._adopt(replace(model, estimator=type(self).__name__, settings=self.get_params(deep=False)))
        return self

    # -- what kinds of estimators add ----------------------------------------------------------------------------

    def _target(self, y: object, sample_weight: object, n_rows: int) -> CheckedTarget:
        """Check the targets and weights of a table in memory."""
        raise NotImplementedError

    def _check_source(self, passes: Passes) -> None:
        """Raise an error, before the first pass, if a model of many passes cannot be learned from a source."""
        if self.rule == "forward":
            raise ValueError(
                "rule='forward' refits every candidate, each a pass over the source: use rule='score' or 'omp'"
            )
        if passes.source.once:
            raise ValueError("an iterator allows only one pass, but several are needed: pass a function that makes one")

    def _source_task(self, passes: Passes) -> Task:
        """Return what is learned from a source, whose targets are checked as they are read."""
        raise NotImplementedError

    def _chosen(self, recipe: Recipe) -> Recipe:
        """Return the recipe with alpha and correction, or with the search for them."""
        raise NotImplementedError

    def _n_folds(self) -> int | None:
        """Return the number of folds that a search needs moments of; None without a search."""
        return None

    def _seeks_pairs(self, settings: Encoding) -> bool:
        """Return whether pairs of columns are sought."""
        return settings.interactions > 0

    # -- parameters and attributes -------------------------------------------------------------------------------

    @property
    def _column_settings(self) -> ColumnSettings:
        encoding = as_encoding(self.encoding)
        pairs = encoding is not None and self._seeks_pairs(encoding)
        return ColumnSettings(self.feature_groups, self.costs, encoding, pairs, self)

    def _recipe(self, columns: Columns) -> Recipe:
        """Return what to learn; the recipe numbers the columns that are read."""
        settings = as_encoding(self.encoding)
        recipe = Recipe.of(
            columns.layout,
            columns.encoding,
            bins=columns.bins,
            rule=self.rule,
            schedule=self.schedule,
            limits=Limits(self.max_cost, self.max_groups, self.min_gain),
            cost_sensitive=self.cost_sensitive,
            alpha=0.0,
            pairs=0 if settings is None else settings.interactions,
            start=self.start,
        )
        return self._chosen(recipe)

    def _adopt(self, model: AnytimeModel) -> None:
        """Keep a model, copy it into the attributes that users read, and remove those of an earlier fit."""
        earlier = self.model_.learned if hasattr(self, "model_") else ()
        for name in ("feature_names_in_", "feature_names_out_", "classes_", "moments_", *earlier):
            if name in vars(self):
                delattr(self, name)
        single, last = not model.target_shape, model.last
        self.model_ = model
        self.n_features_in_ = model.source.n_features
        if model.source.names is not None:
            self.feature_names_in_ = np.asarray(model.source.names, dtype=object)
        if model.layout.names is not None:
            self.feature_names_out_ = np.asarray(model.layout.names, dtype=object)
        self.feature_groups_, self.sequence_, self.order_ = model.groups, model.sequence, model.sequence.order
        self.coef_path_ = model.stages.coef_path[:, 0] if single else model.stages.coef_path
        self.intercept_path_ = model.stages.intercept_path[:, 0] if single else model.stages.intercept_path
        self.coef_ = last.coef[0] if single else last.coef
        self.intercept_ = float(last.intercept[0]) if single else last.intercept
        if model.classes is not None:
            self.classes_ = model.classes
        if model.moments is not None:
            self.moments_ = model.moments
        for name, value in model.learned.items():
            setattr(self, name, value)

    def _validate_params(self) -> None:
        try:
            super()._validate_params()
        except InvalidParameterError as error:  # it holds the whole value
            raise InvalidParameterError(cut(str(error))) from None
        for name, value in vars(self).items():
            if isinstance(value, Integral) and not isinstance(value, bool) and np.isnan(number_of(value)):
                raise ValueError(f"the parameter {shown(name)} of {type(self).__name__} is too large for a float")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.array_api_support = True
        return tags


@dataclass(eq=False, repr=False, kw_only=True)
class HasAlpha(AnytimeEstimator):
    """An estimator that is given alpha and the correction, instead of choosing them on folds."""

    correction: float = 0.0
    alpha: float | str | None = None

    _parameter_constraints = AnytimeEstimator._parameter_constraints | {
        "correction": [Interval(Real, 0, None, closed="left")],
        "alpha": [Interval(Real, 0, None, closed="left"), StrOptions({"auto"}), None],
    }

    def _chosen(self, recipe: Recipe) -> Recipe:
        recipe = replace(recipe, correction=float(self.correction))
        if self.alpha == "auto" or (self.alpha is None and recipe.encoding is not None):
            return replace(recipe, auto=True)
        return replace(recipe, alpha=DEFAULT_ALPHA if self.alpha is None else float(self.alpha))
