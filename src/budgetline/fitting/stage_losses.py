"""Losses of all stages of a model: on rows in memory, and as a statistic of the chunks of a source."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from budgetline.arrays import Array, Float
from budgetline.data.rows import Rows
from budgetline.data.sources import Chunk
from budgetline.glm.families import Family
from budgetline.inputs import check_finite
from budgetline.model.stages import StagedModel
from budgetline.moments.passes import targets_of
from budgetline.moments.sums import RowSums


def losses_on(rows: Rows, family: Family, stages: StagedModel) -> Float:
    """Return the mean losses (1 + stages,) on rows, less those of the saturated model; a chunk of rows at a time."""
    rows, _ = rows.rescaled()
    columns, total = stages.at_stage(stages.n_stages).columns, np.zeros(1 + stages.n_stages)
    for index in rows.slices(rows.chunk_rows()):
        weight, Y = rows.weights[index], rows.target_of(index)
        if weight.any():
            mean = stages.mean_over_rows(rows.block(index)[:, columns], weight, _excess(family, Y))
            total += weight.sum() * mean
    return total / rows.total_weight


def _excess(family: Family, Y: Float) -> Callable[[Float, slice], Float]:
    return lambda scores, part: family.excess(scores, Y[part])


@dataclass(frozen=True)
class StageLosses:
    """The statistic that sums to the losses of all stages, less those of the saturated model.

    Errors call the columns of chunks by ``labels``.
    """

    stages: StagedModel
    family: Family
    classes: Array | None
    labels: tuple[str, ...]

    def __call__(self, chunk: Chunk) -> RowSums | None:
        """Return the losses on a chunk, None if all its weights are zero."""
        weight = float(chunk.n_rows if chunk.weight is None else chunk.weight.sum())
        if not weight:
            return None
        with chunk.located():
            Y = targets_of(chunk, self.classes)
            check_finite(chunk.X, self.labels)
        table = chunk.X[:, self.stages.at_stage(self.stages.n_stages).columns]
        mean = self.stages.mean_over_rows(table, chunk.weight, lambda s, rows: self.family.excess(s, Y[rows]))
        return RowSums(weight, weight * mean)
