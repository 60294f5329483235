"""Sums over rows that a fit needs besides moments, such as the losses of all stages.

A statistic of rows has a method ``of``. It is summed over rows in memory a chunk at a time, or over a source in a pass.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import Generic, Protocol, TypeVar

import numpy as np

from budgetline.arrays import Array, Float, Table
from budgetline.data.rows import Rows
from budgetline.data.sources import Chunk
from budgetline.glm.families import Family
from budgetline.inputs import check_finite
from budgetline.model.stages import StagedModel
from budgetline.moments.passes import targets_of
from budgetline.moments.sums import RowSums

Sums = TypeVar("Sums", covariant=True)


class RowStatistic(Protocol[Sums]):
    """What is summed over rows."""

    def of(self, X: Table, Y: Float, weight: Float) -> Sums:
        """Return the sums of rows of columns (m, D), targets (m, P) and weights (m,), some of which are positive."""


def sum_over_rows(rows: Rows, statistic: RowStatistic[Sums]) -> Sums:
    """Sum a statistic over rows in memory, whose weights are multiplied by a power of two."""
    rows, _ = rows.rescaled()
    parts = [part for part in rows.slices(rows.chunk_rows()) if rows.weights[part].any()]
    sums = (statistic.of(rows.block(part), rows.target_of(part), rows.weights[part]) for part in parts)
    return reduce(add, sums)


@dataclass(frozen=True)
class OfChunk(Generic[Sums]):
    """A statistic of rows as one of the chunks of a source; errors call the columns by ``labels``."""

    statistic: RowStatistic[Sums]
    classes: Array | None
    labels: tuple[str, ...]

    def __call__(self, chunk: Chunk) -> Sums | None:
        """Return the sums of a chunk, None if all its weights are zero."""
        weight = np.ones(chunk.n_rows) if chunk.weight is None else chunk.weight
        if not weight.any():
            return None
        with chunk.located():
            Y = targets_of(chunk, self.classes)
            check_finite(chunk.X, self.labels)
        return self.statistic.of(chunk.X, Y, weight)


@dataclass(frozen=True)
class StageLosses:
    """Losses of all stages, less those of the saturated model, summed over rows."""

    stages: StagedModel
    family: Family

    def of(self, X: Table, Y: Float, weight: Float) -> RowSums:
        """Return the losses (1 + stages,)."""
        table = X[:, self.stages.at_stage(self.stages.n_stages).columns]
        mean = self.stages.mean_over_rows(table, weight, lambda scores, rows: self.family.excess(scores, Y[rows]))
        return RowSums(float(weight.sum()), weight.sum() * mean)


def scores_on(rows: Rows, stages: StagedModel) -> Float:
    """Return the scores (n, 1 + stages) of all stages, for losses that are no sums over rows."""
    columns = stages.at_stage(stages.n_stages).columns
    parts = (rows.block(part)[:, columns] for part in rows.slices(rows.chunk_rows()))
    return np.concatenate([np.column_stack([s[:, 0] for s in stages.stage_scores(part)]) for part in parts])
