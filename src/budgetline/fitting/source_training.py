"""Learning from a source: one pass for squared error, several for losses that moments do not determine."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from budgetline.arrays import Float, Positions
from budgetline.encoding.table import TableEncoding
from budgetline.fitting.agreement import warn_if_apart
from budgetline.fitting.generalised import fit_generalised
from budgetline.fitting.moments_training import MomentsTraining, no_empty_fold
from budgetline.fitting.recipe import Recipe
from budgetline.fitting.stage_losses import OfChunk, RowStatistic, StageLosses, Sums
from budgetline.fitting.training import Fitted, Fold, Task, Training, check_mass
from budgetline.glm.set_families import SetFamily
from budgetline.glm.source_engine import SourceEngine
from budgetline.groups import Layout
from budgetline.inputs import check_integer
from budgetline.moments.moments import Moments
from budgetline.moments.passes import ChunkMoments, InFold, MomentsOfFolds, Passes, not_empty, sum_over
from budgetline.moments.sums import Statistic


@dataclass(frozen=True)
class SourceTraining:
    """A source: read once for squared error, in several passes for losses that moments do not determine.

    Attributes
    ----------
    passes : Passes
    layout : Layout
    task : Task
    fold : (number of folds, fold), or None
        Read the rows that are not in this fold, or the rows in it if ``held_out``.
    n_folds : int or None
        Number of folds that moments are needed of.
    """

    passes: Passes
    layout: Layout
    task: Task
    fold: tuple[int, int] | None = None
    held_out: bool = False
    n_folds: int | None = None
    small = False

    def gathered(self) -> Training:
        """Return the moments, of all rows or of folds, from one pass; losses other than squared error need all rows."""
        if not self.task.squared_error:
            return self
        passes, names, shape = self.passes, self.layout.names_read, self.task.target_shape
        where, count = {"client": passes.client, "progress": passes.progress}, passes.count + 1
        columns = columns_read(self.layout)
        if self.n_folds is None:
            statistic = ChunkMoments(names, shape)
            total = sum_over(passes.source, statistic, columns, **where)
            return MomentsTraining(self.layout, (not_empty(total),), n_passes=count)
        found = not_empty(sum_over(passes.source, MomentsOfFolds(names, shape, self.n_folds), columns, **where))
        return MomentsTraining(self.layout, no_empty_fold(found.parts), n_passes=count)

    def encoded(self, encoding: TableEncoding) -> SourceTraining:
        """Return the source of the design columns of another encoding of the same raw columns."""
        passes = self.passes
        wider = Passes(passes.source.encoded(encoding), passes.client, passes.progress, passes.count)
        return replace(self, passes=wider, layout=encoding.layout)

    def fit(self, recipe: Recipe) -> Fitted:
        """Fit by a few passes per stage."""
        family, tol, shape, classes = self.task
        found: Moments = self.pass_over(ChunkMoments(self.layout.names_read, shape, classes))
        if classes is not None and self.fold is not None:
            y_mean = found.standardisation()[2]
            mass = np.array([1 - y_mean[0], y_mean[0]]) if classes.size == 2 else y_mean
            check_mass(mass, classes, self.fold[1])
        engine = SourceEngine(self.pass_over, found, recipe.by_group, family, classes, recipe.weights)
        stages, recipe = fit_generalised(engine, recipe, family, tol, subsets=self.fold is None)
        fitted = Fitted(stages, found, recipe, learned={"n_passes_": self.passes.count})
        if self.fold is None and not isinstance(family, SetFamily):
            warn_if_apart(fitted, family, self.losses, self.layout.labels(self.layout.read), clear=True)
        return fitted

    def fixed(self, cv: object, groups: object = None) -> object:
        """Return cv, a number of folds: the values of a row decide on its fold."""
        return cv

    def folds(self, recipe: Recipe, cv: object) -> Iterator[Fold]:
        """Assign the rows to folds by a hash of their values."""
        n_folds = number_of_folds(cv)
        for k in range(n_folds):
            yield Fold(replace(self, fold=(n_folds, k)), replace(self, fold=(n_folds, k), held_out=True).losses)

    def losses(self, fitted: Fitted) -> Float:
        """Return the mean losses (1 + stages,) of a fitted model on the rows."""
        assert not isinstance(self.task.family, SetFamily)
        return self.total(StageLosses(fitted.stages, self.task.family)).mean

    def total(self, statistic: RowStatistic[Sums]) -> Sums:
        """Return the sum of a statistic over the rows."""
        found: Sums = self.pass_over(OfChunk(statistic, self.task.classes, self.layout.labels(self.layout.read)))
        return found

    def pass_over(self, statistic: Statistic[Any]) -> Any:
        """Make a pass over the rows, and return the sum of a statistic of chunks."""
        if self.fold is None:
            return self.passes.total(statistic, columns_read(self.layout))
        n_folds, fold = self.fold
        where = f"fold {fold} of {n_folds}" if self.held_out else f"the training set of fold {fold}"
        return self.passes.total(InFold(statistic, n_folds, fold, self.held_out), columns_read(self.layout), where)


def number_of_folds(cv: object) -> int:
    """Return the number of folds for rows of sources; None is 5."""
    return 5 if cv is None else check_integer("cv, the number of folds for sources,", cv, ge=2)


def columns_read(layout: Layout) -> Positions | None:
    """Return the columns of a source that a fit reads; None is all of them."""
    return None if layout.reads_all else layout.read
