"""What all estimators share: settings, checks of the data, and the fitted model that they hold."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from numbers import Integral, Real
from typing import Any, ClassVar, Self, TypeAlias

import narwhals as nw
import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator
from sklearn.utils import metadata_routing
from sklearn.utils._param_validation import HasMethods, Interval, InvalidParameterError, StrOptions
from sklearn.utils.validation import check_is_fitted

from budgetline.arrays import Array, Float
from budgetline.data.dask import dask_source, is_dask
from budgetline.data.rows import Rows
from budgetline.data.sources import Source
from budgetline.data.tabular import from_stream
from budgetline.devices import like
from budgetline.encoding import Encoding
from budgetline.encoding.design import design_of
from budgetline.encoding.fitting import encoding_from, summary_of
from budgetline.encoding.identifiers import values_of, warn_of_identifiers
from budgetline.encoding.pairs import Bins, bins_of
from budgetline.encoding.raw import ReadTable, known_table, raw_table
from budgetline.encoding.settings import as_encoding
from budgetline.encoding.table import TableEncoding
from budgetline.estimators.plans import MakesPlans
from budgetline.evaluation.effects import Effects, effects_of
from budgetline.files import PathName
from budgetline.fitting import Recipe, fit_model
from budgetline.fitting.training import Training
from budgetline.groups import FeatureGroups, Layout, as_feature_groups
from budgetline.inputs import check_table, check_target, check_weight, column_names, number_of, numbers_of
from budgetline.leastsquares.rules import RULES
from budgetline.messages import cut, shown
from budgetline.model.anytime import AnytimeModel
from budgetline.model.staged import Available
from budgetline.moments.passes import ChunkSummary, Passes, not_empty, sum_over
from budgetline.optimality import Certificate, NextGroups, certify
from budgetline.optimality.next_groups import next_groups
from budgetline.progress import Progress
from budgetline.sequencing.loop import Limits
from budgetline.sequencing.schedules import SCHEDULES, Schedule

DEFAULT_ALPHA = 1e-5
Constraints: TypeAlias = dict[str, list[Any]]
"""Constraints that scikit-learn checks the parameters of an estimator against."""


@dataclass(eq=False, repr=False)
class AnytimeEstimator(MakesPlans, BaseEstimator):  # type: ignore[misc]
    """Checks settings and data, learns a model, and predicts with it. The fields are the parameters."""

    feature_groups: object = None
    costs: object = None
    _: KW_ONLY
    rule: str = "fr"
    cost_sensitive: bool = True
    schedule: str | Schedule = "greedy"
    max_cost: float | None = None
    max_groups: int | None = None
    min_gain: float = 0.0
    start: Sequence[str] = ()
    encoding: str | Encoding | None = None

    model_: AnytimeModel = field(init=False)

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
    # Options for reading a source are not sample metadata.
    __metadata_request__fit: ClassVar = dict.fromkeys(("client", "progress", "checkpoint"), metadata_routing.UNUSED)

    @classmethod
    def from_model(cls, model: AnytimeModel) -> Self:
        """Return a fitted estimator that holds a model, with the settings that the model was learned with."""
        found = cls(**model.settings)
        found._validate_params()
        found._adopt(model)
        return found

    def certificate(
        self, budgets: ArrayLike | None = None, *, time_limit: float = 5.0, progress: Progress = None
    ) -> Certificate:
        """Prove how close the order is to optimal at every budget, on the training data.

        The parameters are those of :func:`budgetline.certify`. Every prefix and an even grid of budgets are always
        certified; the bounds are valid whenever the time ends.
        """
        check_is_fitted(self)
        return certify(self, budgets=budgets, time_limit=time_limit, progress=progress)

    def next_groups(
        self, available: Collection[str] = (), *, budget: float | None = None, X: object = None, sample: object = None
    ) -> NextGroups:
        """Rank what to buy next, given any available groups: by gain per cost, free groups first.

        For squared error the gains are exact, on the training data. For other losses they are estimated from the
        distribution of the training rows that the model keeps as a few numbers: close to those of refits, and in about
        their order. Groups are evaluated one by one, each with the groups that it requires: two that share a cost may
        be worth more together.

        Parameters
        ----------
        available : collection of group names
            The available groups, in or out of order. Groups that they require count as available, too.
        budget : float, optional
            Leave out what costs more than this now.
        X : table of shape (n, D), optional
            For classifiers, rows with the columns of the available groups: rank by the chance that a purchase changes
            the decision, per cost; what cannot change it follows, by gain. Of several rows the chance is the mean, the
            share of decisions that are expected to change.
        sample : table of shape (m, D), optional
            With X: rows with all columns, from which to learn how scores change, as in
            :class:`budgetline.runtime.EarlyExit`. At most 2,000 are used. Default: what the model knows of its
            training rows.

        Returns
        -------
        NextGroups
            A table with ``groups``, ``along``, ``costs``, ``gains``, ``chances`` and ``to_frame()``. Groups that the
            sequence does not hold are in it only if the model has moments.
        """
        check_is_fitted(self)
        return next_groups(self.model_, available, budget=budget, X=X, sample=sample)

    def effects(self, *, stage: int | None = None, budget: float | None = None) -> Effects:
        """Return what every column does to the score at a stage, or at a budget; without both at the last stage.

        Numbers have a curve, levels a value each, pairs of columns a table. The score is that of ``decision_function``,
        for regression that of ``predict`` (before the exponential of ``loss="poisson"``).
        """
        check_is_fitted(self)
        return effects_of(self.model_, stage=stage, budget=budget)

    def _answer(self, method: str, X: object, budget: float | None, stage: int | None, available: Available) -> Array:
        """Return the result of a method at a budget, at a stage, or from available groups."""
        check_is_fitted(self)
        watch = self.model_.watch()
        scores = self.model_.scores(X, budget=budget, stage=stage, available=available, watch=watch)
        watch.warn()
        return like(X, self.model_.respond(scores, method))

    def _staged(self, method: str, X: object) -> Iterator[Array]:
        """Yield the result of a method after each group."""
        check_is_fitted(self)
        watch = self.model_.watch()
        staged = self.model_.staged_scores(X, watch)
        watch.warn()
        yield from (like(X, self.model_.respond(scores, method)) for scores in staged)

    def _learn(self, training: Training, recipe: Recipe) -> Self:
        """Learn a model and keep it, with the name and the parameters of this estimator."""
        model = fit_model(training, recipe)
        self._adopt(replace(model, estimator=type(self).__name__, settings=self.get_params(deep=False)))
        return self

    def _chosen(self, recipe: Recipe) -> Recipe:
        """Return the recipe with alpha and correction, or with the search for them."""
        raise NotImplementedError

    def _seeks_pairs(self, settings: Encoding) -> bool:
        """Return whether pairs of columns are looked for."""
        return settings.interactions > 0

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

    def _source_layout(self, names: tuple[str, ...] | None, n_features: int) -> Layout:
        """Resolve the groups against the user's table."""
        groups = as_feature_groups(self.feature_groups, self.costs, names, n_features)
        layout = groups.resolve(names, n_features)
        if empty := [name for name, own in zip(groups.names, layout.columns, strict=True) if not own.size]:
            raise ValueError(f"group {shown(empty[0])} has no columns")
        return layout

    def _recipe(self, layout: Layout, encoding: TableEncoding | None = None) -> Recipe:
        """Return what to learn; the recipe numbers the columns that are read."""
        settings = as_encoding(self.encoding)
        recipe = Recipe.of(
            layout,
            encoding,
            rule=self.rule,
            schedule=self.schedule,
            limits=Limits(self.max_cost, self.max_groups, self.min_gain),
            cost_sensitive=self.cost_sensitive,
            alpha=0.0,
            pairs=0 if settings is None else settings.interactions,
            start=self.start,
        )
        return self._chosen(recipe)

    def _check(
        self, X: object, y: object, sample_weight: object, known: TableEncoding | None = None
    ) -> tuple[Rows, Recipe, Layout, tuple[int, ...]]:
        """Check the data and read the grouped columns; the estimator is not changed.

        Raw columns are encoded, as they were before if the encoding is known.
        """
        X, settings = from_stream(X), as_encoding(self.encoding)
        if settings is not None:
            return self._encoded(settings, X, y, sample_weight, known)
        table = check_table(X, estimator=self)
        layout = self._source_layout(column_names(X), table.shape[1])
        Y, target_shape = self._target(y, table.shape[0])
        weight = self._weight(y, sample_weight, table.shape[0])
        read = None if layout.reads_all else layout.read
        if isinstance(table, nw.DataFrame):
            rows = Rows(numbers_of(table, read), Y, weight)
            warn_of_identifiers(values_of(rows.X, layout.labels(layout.read)), encoded=False)
        else:
            rows = Rows(numbers_of(table), Y, weight, read)
        return rows, self._recipe(layout), layout, target_shape

    def _encoded(
        self, settings: Encoding, X: object, y: object, sample_weight: object, known: TableEncoding | None
    ) -> tuple[Rows, Recipe, Layout, tuple[int, ...]]:
        """Check raw data and encode the grouped columns."""
        if known is None:
            raw, names, n_features = raw_table(X)
            settings.check_columns(names, n_features)
        else:
            names, n_features = known.source.names, known.source.n_features
            raw = known_table(X, names, n_features, known.source.read.tolist())
        Y, target_shape = self._target(y, raw.n_rows)
        weight = self._weight(y, sample_weight, raw.n_rows)
        bins: tuple[Bins, ...] = ()
        source = self._source_layout(names, n_features) if known is None else known.source
        table = ReadTable.of(raw, dict(zip(source.read.tolist(), source.labels(source.read), strict=True)))
        if known is not None and hasattr(self, "model_"):  # more rows for an encoding that stays as it is
            watch = self.model_.watch()
            known.note(table, watch)
            watch.warn()
        if known is None:
            summary = summary_of(table, source, settings, weight)
            warn_of_identifiers(summary.values, encoded=True)
            known = encoding_from(summary, source, settings)
            bins = bins_of(summary, known.encoders) if self._seeks_pairs(settings) else ()
        recipe = replace(self._recipe(known.layout, known), bins=bins)
        design = design_of(table, known, at_once=not self._moments_suffice)
        return Rows(design, Y, weight), recipe, known.layout, target_shape

    @property
    def _moments_suffice(self) -> bool:
        """Whether a fit needs moments of the rows, and the rows themselves only if these are ill conditioned."""
        return False

    def _laid_out(self, passes: Passes) -> tuple[Passes, Recipe, Layout]:
        """Resolve the groups against a source; an encoding takes a pass, and later passes read design columns."""
        source, settings = passes.source, as_encoding(self.encoding)
        layout = self._source_layout(source.feature_names, source.n_features)
        if settings is None:
            return passes, self._recipe(layout), layout
        settings.check_columns(source.feature_names, source.n_features)
        raw = source.raw().reading(dict.fromkeys(settings.as_levels, "text"))
        summary = ChunkSummary(layout, settings)
        found = not_empty(sum_over(raw, summary, layout.read, client=passes.client, progress=passes.progress))
        warn_of_identifiers(found.values, encoded=True)
        encoding = encoding_from(found, layout, settings)
        passes = Passes(raw.encoded(encoding), passes.client, passes.progress, passes.count + 1)
        bins = bins_of(found, encoding.encoders) if self._seeks_pairs(settings) else ()
        return passes, replace(self._recipe(encoding.layout, encoding), bins=bins), encoding.layout

    def _target(self, y: object, n_samples: int) -> tuple[Float, tuple[int, ...]]:
        """Return y as (n, P) and the shape of one target; classifiers read labels instead."""
        return check_target(y, n_samples)

    def _weight(self, y: object, sample_weight: object, n_samples: int) -> Float | None:
        """Return the weights of the rows (n,); classifiers multiply those of the classes."""
        return check_weight(sample_weight, n_samples)

    def _source_of(
        self, X: object, y: object, sample_weight: object, client: object, checkpoint: PathName | None
    ) -> Source | None:
        """Return X as a source if it is one or a dask collection; None for tables, which take no source options."""
        if isinstance(X, Source):
            if y is not None or sample_weight is not None:
                raise ValueError("a source holds its own targets and weights: give neither y nor sample_weight")
            return X
        if is_dask(X):
            return dask_source(X, y, sample_weight)
        if y is None:
            raise ValueError("requires y to be passed, but the target y is None; sources hold it (open_source)")
        if client is not None or checkpoint is not None:
            raise ValueError("client and checkpoint are for sources: open_source makes one from a table")
        return None

    def _check_many_passes(self, source: Source) -> None:
        """Raise an error, before the first pass, if a source cannot be read several times, or would be too often."""
        if self.rule == "fr":
            raise ValueError("rule='fr' refits every candidate, each a pass over the source: use rule='score' or 'omp'")
        if source.once:
            raise ValueError("several passes are needed, an iterator allows one: give a function that starts one")

    def _validate_params(self) -> None:
        try:
            super()._validate_params()
        except InvalidParameterError as error:  # it holds the whole value
            raise InvalidParameterError(cut(str(error))) from None
        for name, value in vars(self).items():
            if isinstance(value, Integral) and not isinstance(value, bool) and np.isnan(number_of(value)):
                raise ValueError(f"the parameter {shown(name)} of {type(self).__name__} is too large for a float")

    def _repr_html_inner(self) -> str:
        return str(super()._repr_html_inner()) + self._order_in_html()

    def _repr_mimebundle_(self, **kwargs: object) -> dict[str, str]:
        bundle: dict[str, str] = super()._repr_mimebundle_(**kwargs)
        return {kind: text + self._order_in_html() * (kind == "text/html") for kind, text in bundle.items()}

    def _order_in_html(self) -> str:
        """Return the sequence of a fitted model, for notebooks, below scikit-learn's diagram."""
        return self.model_.sequence.to_html() if hasattr(self, "model_") else ""

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.array_api_support = True
        return tags


def refuse_groups(groups: object) -> None:
    """Raise an error if labels of rows are given for a source."""
    if groups is not None:
        raise ValueError("groups are labels of rows in memory, and a source is read in chunks: leave groups out")


@dataclass(eq=False, repr=False, kw_only=True)
class HasAlpha(AnytimeEstimator):
    """An estimator that is given alpha and the correction, instead of choosing them on folds."""

    correction: float = 0.0
    alpha: float | str | None = None

    _parameter_constraints: ClassVar[Constraints] = {
        **AnytimeEstimator._parameter_constraints,
        "correction": [Interval(Real, 0, None, closed="left")],
        "alpha": [Interval(Real, 0, None, closed="left"), StrOptions({"auto"}), None],
    }

    def _chosen(self, recipe: Recipe) -> Recipe:
        recipe = replace(recipe, correction=float(self.correction))
        if self.alpha == "auto" or (self.alpha is None and recipe.encoding is not None):
            return replace(recipe, auto=True)
        return replace(recipe, alpha=DEFAULT_ALPHA if self.alpha is None else float(self.alpha))
