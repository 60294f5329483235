"""Pairs of columns that explain more than the sum of both: from an additive model to an encoding with pairs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from budgetline.arrays import Float, Positions
from budgetline.encoding.pairs import MOST_COLUMNS, Bins, CellSums, Screen
from budgetline.encoding.table import TableEncoding
from budgetline.fitting.recipe import Recipe
from budgetline.fitting.rows_training import RowsTraining
from budgetline.fitting.source_training import SourceTraining
from budgetline.fitting.training import Task, Training
from budgetline.glm.set_families import SetFamily
from budgetline.groups.prices import Prices
from budgetline.model.stages import LinearModel
from budgetline.sequencing.loop import Limits
from budgetline.sequencing.schedules import Greedy
from budgetline.threads import one_blas_thread


def add_pairs(training: Training, recipe: Recipe) -> tuple[Training, Recipe]:
    """Return data and recipe with as many pairs of columns as the recipe asks for.

    A search that tries several numbers of pairs adds them itself, and only to rows in memory.
    """
    if not recipe.bins:
        return training, recipe
    if recipe.search is not None and recipe.search.interactions is not None:
        if not isinstance(training, RowsTraining):
            raise ValueError("interactions can only be tried on rows in memory: set interactions=None")
        return training, recipe
    additive = recipe if recipe.search is None else replace(recipe, auto=True)
    assert isinstance(training, RowsTraining | SourceTraining)  # moments have no bins
    if isinstance(training, SourceTraining) and isinstance(training.task.family, SetFamily):
        raise ValueError("for rankings, pairs of columns are searched only in rows in memory: set interactions=0")
    encoding = with_pairs(training, additive, recipe.pairs)
    return training.encoded(encoding), recipe.over(encoding)


def with_pairs(training: RowsTraining | SourceTraining, recipe: Recipe, most: int) -> TableEncoding:
    """Fit the additive model of all groups, look for pairs in its residuals, and add them to the encoding."""
    encoding = recipe.encoding
    assert encoding is not None
    fitted = training.fit(at_once(recipe))
    stages = fitted.stages
    additive = stages.at_stage(stages.n_stages)
    which = _strongest(additive, stages.scale, encoding)
    if isinstance(training, RowsTraining) and isinstance(training.task.family, SetFamily):
        training = training.linearised(additive)
    cells = Cells(training.task, additive, encoding.ends, which, tuple(recipe.bins[k] for k in which))
    sums = training.total(cells).in_rows(len(cells.bins))
    screen = Screen(cells.bins, sums, fitted.recipe.alpha, 1.0)
    if training.task.squared_error:
        screen = replace(screen, dispersion=sums.squares / (sums.rows * sums.residual.shape[0]) or 1.0)
    with one_blas_thread():  # many small factorisations
        best = screen.best(most)
    pairs = [replace(pair, columns=(which[pair.columns[0]], which[pair.columns[1]])) for pair in best]
    return encoding.with_pairs(pairs)


def at_once(recipe: Recipe) -> Recipe:
    """Return the recipe of a model of all groups in one step."""
    whole = (np.arange(recipe.by_group.size),)
    return replace(
        recipe,
        columns=whole,
        names=("all",),
        prices=Prices(np.ones(1)),
        rule="omp",
        schedule=Greedy(),
        limits=Limits(),
        start=(),
    )


def _strongest(additive: LinearModel, scale: Float, encoding: TableEncoding) -> list[int]:
    """Return the columns among which pairs are sought: those with the largest effects, in their order."""
    sizes = np.where(np.isfinite(scale), additive.coef * np.where(np.isfinite(scale), scale, 0.0), 0.0) ** 2
    effects = np.add.reduceat(sizes.sum(axis=0), encoding.ends[:-1])
    found: list[int] = np.sort(np.argsort(-effects, kind="stable")[:MOST_COLUMNS]).tolist()
    return found


@dataclass(frozen=True, eq=False)
class Cells:
    """The statistic that sums to the cells of all pairs of columns.

    Attributes
    ----------
    task : Task
    additive : LinearModel
        Of the design columns.
    ends : int array
        Where the design columns of every column end.
    which : list of int
        The columns among which pairs are sought.
    bins : tuple of Bins
        Theirs.
    """

    task: Task
    additive: LinearModel
    ends: Positions
    which: Sequence[int]
    bins: tuple[Bins, ...]

    def of(self, Z: Float, Y: Float, weight: Float) -> CellSums:
        """Return the sums of rows of design columns (n, D), targets (n, P) and weights (n,)."""
        residual, curvature = self._slopes(Z @ self.additive.coef.T + self.additive.intercept, Y)
        starts = np.cumsum([0, *(len(each.means) for each in self.bins)])
        blocks = (Z[:, self.ends[k] : self.ends[k + 1]] for k in self.which)
        codes = [each.codes(block) + start for each, block, start in zip(self.bins, blocks, starts, strict=False)]
        return CellSums.of(np.array(codes), int(starts[-1]), weight, residual, curvature)

    def _slopes(self, scores: Float, Y: Float) -> tuple[Float, Float]:
        """Return residuals and the second derivative of the loss along each score, both (n, P)."""
        if isinstance(self.task.family, SetFamily):  # the rows are linearised
            return Y[:, :1], Y[:, 1:]
        mean = self.task.family.prediction(scores)
        if self.task.classes is not None:
            return Y - mean, np.asarray(mean * (1 - mean))
        return Y - mean, self.task.family.curvature(scores).scale
