"""Data that a recipe can be fitted on: rows in memory, moments, or a source; and their folds for cross-validation."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial, reduce
from operator import add
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol

import numpy as np
from sklearn.model_selection import check_cv

from budgetline.arrays import Array, Float, Positions
from budgetline.data.rows import Rows
from budgetline.encoding.design import DesignTable
from budgetline.encoding.table import TableEncoding
from budgetline.files import PathName
from budgetline.fitting.agreement import warn_if_apart
from budgetline.fitting.generalised import fit_generalised
from budgetline.fitting.linear import fit_moments, fit_rows, gram_fits
from budgetline.fitting.penalties import with_penalties_of_engine, with_penalties_of_moments
from budgetline.fitting.recipe import Recipe
from budgetline.fitting.ridge_choice import with_alpha_of_engine, with_alpha_of_moments
from budgetline.fitting.stage_losses import StageLosses, losses_on
from budgetline.glm.families import Family, SquaredError
from budgetline.glm.rows_engine import engine_of_rows
from budgetline.glm.source_engine import SourceEngine
from budgetline.groups import Layout
from budgetline.inputs import check_integer
from budgetline.messages import shown
from budgetline.model.stages import StagedModel
from budgetline.model.targets import codes_of
from budgetline.moments.columns import standardised_columns
from budgetline.moments.fold_moments import Split, fold_moments
from budgetline.moments.moments import Moments, moments_of
from budgetline.moments.passes import ChunkMoments, InFold, MomentsOfFolds, Passes, not_empty, sum_over
from budgetline.moments.sums import Statistic, add_up

SMALL = 1 << 26
"""Folds of tables of at most this many bytes are fitted side by side."""


class Fitted(NamedTuple):
    """Staged models, the data that they were fitted on, and the moments of these data, if there are any.

    ``alpha`` is the ridge constant, chosen or given. ``doubt`` estimates the relative error of the coefficients. It is
    zero if the data were available, so that the coefficients are as accurate as the data allow. ``learned`` are further
    fitted attributes of the estimator, by name. ``penalties`` (J,) were subtracted from the gains of the groups.
    """

    stages: StagedModel
    data: Rows | Moments
    alpha: float
    moments: Moments | None = None
    doubt: float = 0.0
    learned: Mapping[str, object] = MappingProxyType({})
    penalties: Float | None = None


class Fold(NamedTuple):
    """Training data of a fold, and the mean held-out losses (1 + stages,) of models fitted on them.

    ``held`` are the moments of the held-out rows, if there are any.
    """

    training: Training
    losses: Callable[[Fitted], Float]
    held: Moments | None = None


class Training(Protocol):
    """Data that a recipe can be fitted on: the columns that a layout reads, targets, and the loss to minimise."""

    @property
    def layout(self) -> Layout: ...  # noqa: D102

    @property
    def family(self) -> Family: ...  # noqa: D102

    @property
    def target_shape(self) -> tuple[int, ...]: ...  # noqa: D102

    @property
    def classes(self) -> Array | None: ...  # noqa: D102

    @property
    def small(self) -> bool:
        """Whether folds are better fitted side by side than one after another."""
        ...

    @property
    def in_memory(self) -> bool:
        """Whether all rows are in memory, so that folds can be encoded in other ways."""
        ...

    def encoded(self, encoding: TableEncoding) -> Training:
        """Return the data with the design columns of another encoding, which has pairs of columns."""
        ...

    def gathered(self) -> Training:
        """Return the moments, if the loss needs nothing else and the rows have not been reduced to them yet."""
        ...

    def fit(self, recipe: Recipe) -> Fitted:
        """Learn the sequence and the model of every prefix."""
        ...

    def fixed(self, cv: object) -> object:
        """Return a description of folds that gives the same folds every time; ``cv`` may draw them at random."""
        ...

    def folds(self, recipe: Recipe, cv: object) -> Iterator[Fold]:
        """Yield the folds of a cross-validation."""
        ...


@dataclass(frozen=True)
class RowsTraining:
    """Rows in memory.

    Attributes
    ----------
    rows : Rows
        Of the columns that the layout reads.
    layout : Layout
    family : Family
    tol : float
        Tolerance of the gradient, for losses other than squared error.
    target_shape : () or (P,)
    classes : array, or None
        Classes of a classifier; the targets of the rows are their indicators.
    fold : bool
        Whether these are rows of a fold, whose models only answer prefixes.
    """

    rows: Rows
    layout: Layout
    family: Family
    tol: float
    target_shape: tuple[int, ...]
    classes: Array | None = None
    fold: bool = False
    in_memory = True

    @property
    def small(self) -> bool:
        """Whether the copies that folds make of the rows take little memory."""
        return not isinstance(self.family, SquaredError) and 8 * self.rows.n_rows * self.rows.n_columns <= SMALL

    def encoded(self, encoding: TableEncoding) -> RowsTraining:
        """Return the rows with the products of the pairs of an encoding."""
        X = self.rows.X
        wider = replace(X, encoding=encoding) if isinstance(X, DesignTable) else encoding.with_products(X)
        rows = replace(self.rows, X=wider)
        return replace(self, rows=rows, layout=encoding.layout)

    def gathered(self) -> Training:
        """Return the rows: moments may not suffice."""
        return self

    def fit(self, recipe: Recipe) -> Fitted:
        """Fit from the data, by moments where these suffice."""
        if isinstance(self.family, SquaredError):
            stages, moments, settled, clear = fit_rows(self.rows, recipe, self.layout.names_read)
            moments = None if moments is None else replace(moments, target_shape=self.target_shape)
            self.check_claims(stages, settled.alpha, clear)
            return Fitted(stages, self.rows, settled.alpha, moments, penalties=settled.penalties)
        settings = (recipe.by_group, self.family, self.layout.names_read, recipe.weights)
        engine = engine_of_rows(self.rows, *settings, alone=self.fold)
        recipe = with_penalties_of_engine(with_alpha_of_engine(recipe, engine, self.family), engine, self.family)
        stages = fit_generalised(engine, recipe, self.family, self.tol, subsets=not self.fold)
        self.check_claims(stages, recipe.alpha, clear=True)
        return Fitted(stages, self.rows, recipe.alpha, penalties=recipe.penalties)

    def check_claims(self, stages: StagedModel, alpha: float, clear: bool) -> None:
        """Warn if predictions on the rows do not explain what a model claims; see :func:`warn_if_apart`."""
        if not self.fold:
            losses, labels = partial(losses_on, self.rows, self.family), self.layout.labels(self.layout.read)
            warn_if_apart(stages, alpha, self.family, losses, labels, self.rows.n_rows, clear)

    def fixed(self, cv: object) -> list[Split]:
        """Return the splits of ``check_cv``."""
        labels = self.rows.Y if self.classes is None else codes_of(self.rows.Y)
        splitter = check_cv(cv, labels, classifier=self.classes is not None)
        return list(splitter.split(np.zeros((self.rows.n_rows, 1)), labels))

    def folds(self, recipe: Recipe, cv: object) -> Iterator[Fold]:
        """Yield the folds of ``check_cv``; those of squared error share one pass over the data."""
        (rows, exponent), splits = self.rows.rescaled(), self.fixed(cv)
        if not isinstance(self.family, SquaredError):
            standardised_columns(rows, self.layout.names_read)  # refuse an X that is not finite before any fold
        self._check_classes(rows, splits)
        if not (isinstance(self.family, SquaredError) and gram_fits(rows, recipe)):
            yield from (self._fold(rows, split) for split in splits)
            return
        moments = fold_moments(rows, splits, self.layout.names_read)
        for split, (train, test) in zip(splits, moments, strict=True):
            held = replace(test.scaled(exponent), target_shape=self.target_shape)
            by_rows = cache(partial(self._fold, rows, split))  # copies the rows: only if the moments do not suffice
            yield Fold(MomentsTraining(self.layout, (train,), by_rows), held_out(test, by_rows), held)

    def _fold(self, rows: Rows, split: Split) -> Fold:
        train, test = split
        for which, part in (("training", train), ("held-out", test)):
            if rows.weight is not None and not rows.weight[part].any():
                raise ValueError(f"a {which} set has no sample of positive weight")

        def losses(fitted: Fitted) -> Float:
            return losses_on(rows.take(test), self.family, fitted.stages)

        return Fold(replace(self, rows=rows.take(train), fold=True), losses)

    def sampled(self, most: int, splits: Sequence[Split]) -> tuple[RowsTraining, list[Split]]:
        """Return some of the rows, drawn at random, always the same ones; and splits of them."""
        kept = np.sort(np.random.default_rng(0).permutation(self.rows.n_rows)[:most])
        part = replace(self, rows=self.rows.take(kept), fold=True)
        return part, [
            (np.flatnonzero(np.isin(kept, train)), np.flatnonzero(np.isin(kept, test))) for train, test in splits
        ]

    def fold_of(self, split: Split) -> tuple[RowsTraining, Callable[[Fitted, TableEncoding], Float]]:
        """Return the training rows of a split, and the losses of models of another encoding on its held-out rows."""
        train, test = split
        part = replace(self, rows=self.rows.take(train), fold=True)

        def losses(fitted: Fitted, encoding: TableEncoding) -> Float:
            held = replace(self, rows=self.rows.take(test)).encoded(encoding).rows
            return losses_on(held, self.family, fitted.stages)

        return part, losses

    def _check_classes(self, rows: Rows, splits: Sequence[Split]) -> None:
        if self.classes is None:
            return
        codes = codes_of(rows.Y)
        for k, (train, _) in enumerate(splits):
            weight = None if rows.weight is None else rows.weight[train]
            _check_mass(np.bincount(codes[train], weight, self.classes.size), self.classes, k)


@dataclass(frozen=True)
class AddedRows(RowsTraining):
    """Rows in memory that are added to earlier rows. Only the moments of the earlier rows are known.

    Attributes
    ----------
    known : tuple of Moments, or None
        Moments of the earlier rows; one per fold, if there are folds. None before the first call.
    cv : object
        How the rows are dealt to folds; None: they are not.
    """

    known: tuple[Moments, ...] | None = None
    cv: object = None
    in_memory = False

    def gathered(self) -> MomentsTraining:
        """Return the sums of the moments of earlier rows and of these."""
        layout = self.layout
        more = [
            moments_of(part, self.target_shape, layout.names_read, single=False) if part.total_weight else None
            for part in self._dealt()
        ]
        parts = [add_up(pair) for pair in zip(self.known or [None] * len(more), more, strict=True)]
        return MomentsTraining(layout, no_empty_fold(parts))

    def _dealt(self) -> list[Rows]:
        """Return the rows as parts: one, or one per fold."""
        if self.cv is None:
            return [self.rows]
        splits = check_cv(self.cv, self.rows.Y).split(np.zeros((self.rows.n_rows, 1)), self.rows.Y)
        return [replace(self.rows, rows=held) for _, held in splits]


@dataclass(frozen=True)
class MomentsTraining:
    """Moments, which determine a model of squared error; of folds, if there are several.

    Attributes
    ----------
    layout : Layout
    parts : tuple of Moments
        Moments of the columns that the layout reads.
    by_rows : function, or None
        Returns the fold with the rows of the moments, if available: used if the moments are too ill conditioned.
    n_passes : int or None
        Number of passes over a source for the moments.
    """

    layout: Layout
    parts: tuple[Moments, ...]
    by_rows: Callable[[], Fold] | None = None
    n_passes: int | None = None
    family: Family = field(default_factory=SquaredError)
    classes: None = None
    small = False
    in_memory = False

    @property
    def target_shape(self) -> tuple[int, ...]:
        """Shape of one target."""
        return self.parts[0].target_shape

    def encoded(self, encoding: TableEncoding) -> MomentsTraining:
        """Raise an error: products of columns cannot be computed from moments."""
        raise ValueError("moments do not determine pairs of columns: fit from rows, or from a source")

    def gathered(self) -> MomentsTraining:
        """Return the moments."""
        return self

    @property
    def total(self) -> Moments:
        """The moments of all rows."""
        return reduce(add, self.parts)

    def fit(self, recipe: Recipe) -> Fitted:
        """Fit from the sum of the moments."""
        total = self.total
        recipe = with_penalties_of_moments(with_alpha_of_moments(recipe, total), total)
        stages, doubt = fit_moments(total, recipe)
        if self.by_rows is not None and doubt > total.eps**0.5:
            return self.by_rows().training.fit(recipe)
        return Fitted(stages, total, recipe.alpha, total, doubt, self.learned, recipe.penalties)

    @property
    def learned(self) -> dict[str, object]:
        """What a fit keeps besides the model: the number of passes."""
        return {} if self.n_passes is None else {"n_passes_": self.n_passes}

    def fixed(self, cv: object) -> object:
        """Return cv: the parts are the folds."""
        return cv

    def folds(self, recipe: Recipe, cv: object) -> Iterator[Fold]:
        """Hold out one part after another."""
        for k, test in enumerate(self.parts):
            yield Fold(replace(self, parts=self.parts[:k] + self.parts[k + 1 :]), held_out(test), test)


@dataclass(frozen=True)
class SourceTraining:
    """A source: read once for squared error, in several passes for losses that moments do not determine.

    Attributes
    ----------
    passes : Passes
    layout : Layout
    family : Family
    tol : float
    target_shape : () or (P,)
    classes : array, or None
    fold : (number of folds, fold), or None
        Learn from the rows that are not in this fold.
    n_folds : int or None
        Number of folds that moments are needed of.
    checkpoint : path or None
        A folder for the moments of partitions.
    """

    passes: Passes
    layout: Layout
    family: Family
    tol: float
    target_shape: tuple[int, ...]
    classes: Array | None = None
    fold: tuple[int, int] | None = None
    n_folds: int | None = None
    checkpoint: PathName | None = None
    small = False
    in_memory = False

    def gathered(self) -> Training:
        """Return the moments, of all rows or of folds, from one pass; losses other than squared error need all rows."""
        if not isinstance(self.family, SquaredError):
            return self
        return source_moments(self.passes, self.layout, self.n_folds, self.checkpoint)

    def encoded(self, encoding: TableEncoding) -> SourceTraining:
        """Return the source of the design columns of another encoding of the same raw columns."""
        passes = self.passes
        wider = Passes(passes.source.encoded(encoding), passes.client, passes.progress, passes.count)
        return replace(self, passes=wider, layout=encoding.layout)

    def fit(self, recipe: Recipe) -> Fitted:
        """Fit by a few passes per stage."""
        found: Moments = self.total(ChunkMoments(self.layout.names_read, self.target_shape, self.classes))
        if self.classes is not None and self.fold is not None:
            y_mean = found.standardisation()[2]
            mass = np.array([1 - y_mean[0], y_mean[0]]) if self.classes.size == 2 else y_mean
            _check_mass(mass, self.classes, self.fold[1])
        engine = SourceEngine(self.total, found, recipe.by_group, self.family, self.classes, recipe.weights)
        recipe = with_penalties_of_engine(with_alpha_of_engine(recipe, engine, self.family), engine, self.family)
        stages = fit_generalised(engine, recipe, self.family, self.tol, subsets=self.fold is None)
        if self.fold is None:
            labels = self.layout.labels(self.layout.read)
            warn_if_apart(stages, recipe.alpha, self.family, self._losses, labels, found.n_samples, clear=True)
        return Fitted(stages, found, recipe.alpha, None, 0.0, {"n_passes_": self.passes.count}, recipe.penalties)

    def fixed(self, cv: object) -> object:
        """Return cv, a number of folds: the values of a row decide on its fold."""
        return cv

    def folds(self, recipe: Recipe, cv: object) -> Iterator[Fold]:
        """Assign the rows to folds by a hash of their values."""
        n_folds = number_of_folds(cv)
        for k in range(n_folds):
            training = replace(self, fold=(n_folds, k))
            yield Fold(training, training._held_out_losses)

    def _stage_losses(self, stages: StagedModel) -> StageLosses:
        return StageLosses(stages, self.family, self.classes, self.layout.labels(self.layout.read))

    def _losses(self, stages: StagedModel) -> Float:
        return np.asarray(self.total(self._stage_losses(stages)).mean)

    def _held_out_losses(self, fitted: Fitted) -> Float:
        assert self.fold is not None
        statistic, where = self._stage_losses(fitted.stages), f"fold {self.fold[1]} of {self.fold[0]}"
        mine = InFold(statistic, *self.fold, held=True)
        return self.passes.total(mine, columns_read(self.layout), where).mean

    def total(self, statistic: Statistic[Any]) -> Any:
        """Make a pass over the rows, and return the sum of a statistic."""
        if self.fold is None:
            return self.passes.total(statistic, columns_read(self.layout))
        mine, where = InFold(statistic, *self.fold, held=False), f"the training set of fold {self.fold[1]}"
        return self.passes.total(mine, columns_read(self.layout), where)


def source_moments(passes: Passes, layout: Layout, n_folds: int | None, checkpoint: PathName | None) -> MomentsTraining:
    """Return the moments of a source, or of its folds, from one pass."""
    source, client, progress = passes.source, passes.client, passes.progress
    names, shape, count = layout.names_read, source.target_shape, passes.count + 1
    columns = columns_read(layout)
    if n_folds is None:
        statistic = ChunkMoments(names, shape)
        total = sum_over(source, statistic, columns, client=client, progress=progress, checkpoint=checkpoint)
        return MomentsTraining(layout, (not_empty(total),), n_passes=count)
    if checkpoint is not None:
        raise ValueError("a checkpoint keeps moments of all rows, not of the folds of a cross-validation")
    by_fold = MomentsOfFolds(names, shape, n_folds)
    found = not_empty(sum_over(source, by_fold, columns, client=client, progress=progress))
    return MomentsTraining(layout, no_empty_fold(found.parts), n_passes=count)


def no_empty_fold(parts: Sequence[Moments | None]) -> tuple[Moments, ...]:
    """Return the moments of folds, if every fold has some."""
    if None in parts:
        raise ValueError(f"fold {parts.index(None)} of {len(parts)} has no row of positive weight: take fewer folds")
    return tuple(part for part in parts if part is not None)


def held_out(test: Moments, by_rows: Callable[[], Fold] | None = None) -> Callable[[Fitted], Float]:
    """Return the function that gives mean squared errors (1 + stages,) on the sample of the moments.

    Models that were fitted on rows, because moments do not determine them, are judged on rows.
    """

    def losses(fitted: Fitted) -> Float:
        if by_rows is not None and isinstance(fitted.data, Rows):
            return by_rows().losses(fitted)
        return np.asarray(fitted.stages.mean_squared_errors(test).sum(axis=1))

    return losses


def number_of_folds(cv: object) -> int:
    """Return the number of folds for rows of sources and of ``partial_fit``; None is 5."""
    return 5 if cv is None else check_integer("cv, the number of folds for sources and partial_fit,", cv, ge=2)


def columns_read(layout: Layout) -> Positions | None:
    """Return the columns of a source that a fit reads; None is all of them."""
    return None if layout.reads_all else layout.read


def _check_mass(mass: Array, classes: Array, fold: int) -> None:
    if np.any(mass <= 0):
        missing = shown(classes.tolist()[int(np.argmin(mass))])
        raise ValueError(f"class {missing} is missing in the training set of fold {fold}; use fewer folds")
