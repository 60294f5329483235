"""Metrics of all stages over a source, chunk by chunk."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from budgetline.arrays import Float
from budgetline.data.rows import Rows
from budgetline.data.sources import Chunk, Source
from budgetline.evaluation.held_out import HeldOut
from budgetline.evaluation.metrics import METRICS, Metric, RowMetric
from budgetline.inputs import check_finite
from budgetline.model.anytime import AnytimeModel
from budgetline.statistics.moments import moments_of
from budgetline.statistics.passes import not_empty, sum_over
from budgetline.statistics.sums import RowSums

GATHER_BYTES = 1 << 31
"""Scores of all rows and stages are kept, for metrics that need them, up to this size."""


def values_over(model: AnytimeModel, source: Source, metric: Metric, fitted: object) -> Float:
    """Return a metric of every stage of a model over a source of its columns, shape (1 + stages,).

    ``fitted`` is what the user gave, which scorers may look at. The data may differ from those that a fit read from the
    same source.
    """
    source, columns, names = source.anew(), model.last.columns, source.feature_names
    labels = tuple(str(d) if names is None else names[d] for d in columns)
    # which two values a regressor's y has is known only when all rows are seen
    whole = metric is METRICS["accuracy"] and model.classes is None
    if whole or not isinstance(metric, RowMetric):
        gathered = not_empty(sum_over(source, ChunkScores(model, labels), columns))
        return metric.values(gathered.held_out(model, fitted))
    sums = not_empty(sum_over(source, ChunkSums(model, labels, metric), columns))
    return metric.finished(sums.mean, sums.variance)


@dataclass(frozen=True)
class ChunkSums:
    """The statistic for metrics that are means over rows; labels name the columns in errors."""

    model: AnytimeModel
    labels: tuple[str, ...]
    metric: RowMetric

    def __call__(self, chunk: Chunk) -> RowSums | None:
        """Return the sums of a chunk, None if all its weights are zero."""
        weight = float(chunk.n_rows if chunk.weight is None else chunk.weight.sum())
        if not weight:
            return None
        with chunk.located():
            table, targets = check_finite(chunk.X, self.labels), None
            held = HeldOut(self.model, table, chunk.y, table, chunk.weight)
            means = self.metric.means(held)
            if self.metric.per_variance:
                alone = Rows(np.empty((chunk.n_rows, 0)), held.targets, chunk.weight)
                targets = moments_of(alone, (self.model.n_targets,), single=False)
        return RowSums(weight, weight * means, targets)


@dataclass(frozen=True)
class Gathered:
    """Chunks whose X are scores (m, 1 + stages, P), in order."""

    chunks: tuple[Chunk, ...]

    def __add__(self, other: Gathered) -> Gathered:
        both = Gathered(self.chunks + other.chunks)
        if sum(chunk.X.nbytes for chunk in both.chunks) > GATHER_BYTES:
            raise MemoryError(
                f"this metric needs the predictions of all rows and stages, more than {GATHER_BYTES >> 30} GB: "
                "judge a part of the rows, or take a metric that is a mean over rows"
            )
        return both

    def held_out(self, model: AnytimeModel, fitted: object) -> HeldOut:
        """Return all rows, with scores that are known and an X that is gone."""
        scores, y = np.concatenate([c.X for c in self.chunks]), np.concatenate([c.y for c in self.chunks])
        weights = [c.weight for c in self.chunks if c.weight is not None]
        queries = [c.qid for c in self.chunks if c.qid is not None]
        weight, qid = np.concatenate(weights) if weights else None, np.concatenate(queries) if queries else None
        gone = np.empty((len(y), 0))  # scorers are given it and hand it back
        return HeldOut(model, gone, y, gone, weight, qid, fitted, scores)


@dataclass(frozen=True)
class ChunkScores:
    """The statistic that keeps all scores; labels name the columns in errors."""

    model: AnytimeModel
    labels: tuple[str, ...]

    def __call__(self, chunk: Chunk) -> Gathered:
        """Return the scores of a chunk."""
        with chunk.located():
            table = check_finite(chunk.X, self.labels)
        return Gathered((replace(chunk, X=np.stack(list(self.model.stages.stage_scores(table)), axis=1)),))
