"""Learning from rows in memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial

import numpy as np

from budgetline.arrays import Float, Positions
from budgetline.data.rows import Rows
from budgetline.encoding.table import DesignTable, TableEncoding
from budgetline.evaluation.resampling import splits_by_query, splits_of
from budgetline.fitting.agreement import warn_if_apart
from budgetline.fitting.generalised import fit_generalised
from budgetline.fitting.linear import fit_rows, gram_fits
from budgetline.fitting.moments_training import MomentsTraining, held_out_errors
from budgetline.fitting.recipe import Recipe
from budgetline.fitting.stage_losses import RowStatistic, StageLosses, Sums, scores_on, sum_over_rows
from budgetline.fitting.training import Fitted, Fold, Task, Training, check_mass
from budgetline.glm.set_families import Cox, Listwise, SetFamily
from budgetline.glm.sets_engine import engine_for
from budgetline.groups import Layout
from budgetline.model.staged import codes_of
from budgetline.model.stages import LinearModel, StagedModel
from budgetline.moments.columns import standardised_columns
from budgetline.moments.moments import Moments, Split, fold_moments, moments_of

SMALL = 1 << 26
"""Folds of tables of at most this many bytes are fitted side by side."""

MANY_TIMES, RISE = 5000, 1e-3
"""With more times of events, baseline hazards are kept only at times by which some stage's has risen by this share. So
no hazard is off by a larger share, and no survival exp(−H e^score) by more than 4e-4, whatever the score is."""


@dataclass(frozen=True)
class RowsTraining:
    """Rows in memory.

    Attributes
    ----------
    rows : Rows
        Of the columns that the layout reads.
    layout : Layout
    task : Task
    fold : bool
        Whether these are rows of a fold: its models predict only from prefixes, and nobody is warned.
    """

    rows: Rows
    layout: Layout
    task: Task
    fold: bool = False

    @property
    def small(self) -> bool:
        """Whether the copies that folds make of the rows take little memory."""
        return not self.task.squared_error and 8 * self.rows.n_rows * self.rows.n_columns <= SMALL

    def encoded(self, encoding: TableEncoding) -> RowsTraining:
        """Return the rows with the products of the pairs of an encoding."""
        X = self.rows.X
        wider = replace(X, encoding=encoding) if isinstance(X, DesignTable) else encoding.with_products(X)
        return replace(self, rows=replace(self.rows, X=wider), layout=encoding.layout)

    def gathered(self) -> Training:
        """Return the rows: moments may not suffice."""
        return self

    def fit(self, recipe: Recipe) -> Fitted:
        """Fit from the data, by moments where these suffice."""
        task = self.task
        if task.squared_error:
            stages, moments, recipe, clear = fit_rows(self.rows, recipe, self.layout.names_read)
            moments = None if moments is None else replace(moments, target_shape=task.target_shape)
        else:
            moments, clear = None, True
            names, weights = self.layout.names_read, recipe.weights
            engine = engine_for(self.rows, recipe.by_group, task.family, names, weights, alone=self.fold)
            stages, recipe = fit_generalised(engine, recipe, task.family, task.tol, subsets=not self.fold)
        hazards = self._hazards(stages, task.family) if isinstance(task.family, Cox) and not self.fold else {}
        fitted = Fitted(stages, self.rows, recipe, moments, learned=hazards)
        self.check_claims(fitted, clear)
        return fitted

    def _hazards(self, stages: StagedModel, family: Cox) -> dict[str, object]:
        """Return the cumulative baseline hazards of all stages at times of events, as fitted attributes."""
        rows, _ = self.rows.rescaled()
        if rows.Y[:, 2].any():
            return {}  # strata have hazards of their own
        happened = (rows.Y[:, 1] > 0) & (rows.weights > 0)
        times = np.unique(rows.Y[happened, 0])
        hazards = family.hazards(scores_on(rows, stages), rows.Y, rows.weights, times)
        kept = np.arange(times.size) if times.size <= MANY_TIMES else risen(hazards)
        return {"event_times_": times[kept], "cumulative_hazards_": hazards[:, kept]}

    def check_claims(self, fitted: Fitted, clear: bool) -> None:
        """Warn if predictions on the rows do not explain what a model claims; see ``warn_if_apart``."""
        if not self.fold:
            warn_if_apart(fitted, self.task.family, self.losses, self.layout.labels(self.layout.read), clear)

    def fixed(self, cv: object, groups: object = None) -> list[Split]:
        """Return the training and held-out rows of every fold."""
        labels, family = self.rows.Y if self.task.classes is None else codes_of(self.rows.Y), self.task.family
        events = (self.rows.Y[:, 1] > 0) & (self.rows.weights > 0) if isinstance(family, Cox) else None
        if isinstance(family, Listwise) and groups is not None:
            return splits_by_query(cv, labels, groups)
        return splits_of(cv, labels, groups, classifier=self.task.classes is not None, events=events)

    def folds(self, recipe: Recipe, cv: object) -> Iterator[Fold]:
        """Yield the folds of ``fixed``; those of squared error share one pass over the data."""
        (rows, _), splits = self.rows.rescaled(), self.fixed(cv)
        if not self.task.squared_error:
            standardised_columns(rows, self.layout.names_read)  # refuse an X that is not finite before any fold
        whole = replace(self, rows=rows)
        whole._check_classes(splits)
        if not (self.task.squared_error and gram_fits(rows, recipe)):
            yield from map(whole._fold, splits)
            return
        moments = fold_moments(rows, splits, self.layout.names_read)
        for split, (train, test) in zip(splits, moments, strict=True):
            by_rows = cache(partial(whole._fold, split))  # copies the rows: only if the moments do not suffice
            yield Fold(MomentsTraining(self.layout, (train,), by_rows), held_out_errors(test, by_rows))

    def _fold(self, split: Split) -> Fold:
        train, test = split
        for which, part in (("training", train), ("held-out", test)):
            if self.rows.weight is not None and not self.rows.weight[part].any():
                raise ValueError(f"a {which} set has no sample of positive weight")
        return Fold(self.part(train), lambda fitted: self.part(test).losses(fitted))

    def part(self, rows: Positions) -> RowsTraining:
        """Return some of the rows, as those of a fold."""
        return replace(self, rows=self.rows.take(rows), fold=True)

    def linearised(self, model: LinearModel) -> RowsTraining:
        """Return the rows with residuals and second derivatives of a loss over sets, at a model, as their targets."""
        assert isinstance(self.task.family, SetFamily)
        rows, _ = self.rows.rescaled()
        parts = (rows.block(part) @ model.coef[0] for part in rows.slices(rows.chunk_rows()))
        slopes = self.task.family.slopes(np.concatenate(list(parts)), rows.Y, rows.weights)
        return replace(self, rows=replace(rows, Y=slopes))

    def total(self, statistic: RowStatistic[Sums]) -> Sums:
        """Return the sum of a statistic over the rows."""
        return sum_over_rows(self.rows, statistic)

    def losses(self, fitted: Fitted) -> Float:
        """Return the mean losses (1 + stages,) of a fitted model on the rows."""
        family = self.task.family
        if isinstance(family, SetFamily):
            rows, _ = self.rows.rescaled()
            return family.excess(scores_on(rows, fitted.stages), rows.Y, rows.weights)
        return self.total(StageLosses(fitted.stages, family)).mean

    def sampled(self, most: int, splits: Sequence[Split]) -> tuple[RowsTraining, list[Split]]:
        """Return some of the rows, drawn at random, always the same ones; and splits of them."""
        rng = np.random.default_rng(0)
        kept = np.sort(rng.permutation(self.rows.n_rows)[:most])
        if isinstance(self.task.family, Listwise):  # whole queries, at least one
            query = np.unique(self.rows.Y[:, 1], return_inverse=True)[1]
            sizes = np.bincount(query)
            drawn = np.argsort(rng.permutation(sizes.size))
            count = int(np.searchsorted(np.cumsum(sizes[drawn]), most, side="right"))
            kept = np.flatnonzero(np.isin(query, drawn[: max(count, 1)]))
        inside = [[np.flatnonzero(np.isin(kept, part)) for part in split] for split in splits]
        return self.part(kept), [(train, test) for train, test in inside]

    def added_to(self, known: Moments | None) -> AddedRows:
        """Return these rows, to be added to earlier ones."""
        return AddedRows(**vars(self), known=known)

    def _check_classes(self, splits: Sequence[Split]) -> None:
        if (classes := self.task.classes) is None:
            return
        codes = codes_of(self.rows.Y)
        for k, (train, _) in enumerate(splits):
            weight = None if self.rows.weight is None else self.rows.weight[train]
            check_mass(np.bincount(codes[train], weight, classes.size), classes, k)


def risen(hazards: Float) -> Positions:
    """Return the positions in cumulative hazards (K, T) that differ from the one before by ``RISE`` at some stage."""
    with np.errstate(divide="ignore", invalid="ignore"):
        rises = np.nan_to_num(np.diff(np.log(hazards), axis=1).max(axis=0)).clip(0, 1)  # the logarithm of zero is −∞
    level = np.floor(np.append(0.0, np.cumsum(rises)) / RISE)
    return np.unique(level, return_index=True)[1]


@dataclass(frozen=True)
class AddedRows(RowsTraining):
    """Rows in memory that are added to earlier ones; ``known`` are the moments of those, None if there are none."""

    known: Moments | None = None

    def gathered(self) -> MomentsTraining:
        """Return the moments of earlier rows and of these."""
        more = moments_of(self.rows, self.task.target_shape, self.layout.names_read, single=False)
        return MomentsTraining(self.layout, (more if self.known is None else self.known + more,))
