"""Metrics of all stages over a source, chunk by chunk."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from budgetline.data.sources import Chunk, Source
from budgetline.evaluation.metrics import Accuracy, Metric, RowMetric
from budgetline.evaluation.stages import Stages
from budgetline.inputs import check_finite
from budgetline.model.anytime import AnytimeModel
from budgetline.statistics.moments import Moments
from budgetline.statistics.passes import ChunkMoments, Passes, located, sum_over

Float = NDArray[np.float64]

GATHER_BYTES = 1 << 31
"""Predictions of all rows and stages are kept, for metrics that need them, up to this size."""


def values_over(model: AnytimeModel, source: Source, metric: Metric) -> Float:
    """Return a metric of every stage of a model over a source of its columns, shape (1 + stages,).

    The data may be others than those that a fit read from the same source, but must not change meanwhile.
    """
    source = source.anew()
    columns = model.last.columns
    # which two values a regressor's y has shows only when all rows are seen
    whole = isinstance(metric, Accuracy) and model.classes is None
    names = source.feature_names
    view = ChunkView(model, tuple(str(d) if names is None else names[d] for d in columns))
    if whole or not isinstance(metric, RowMetric):
        return metric.values(_gathered(view, source, columns))
    if not metric.needs_variance:
        return _finished(metric, sum_over(source, ChunkMeans(view, metric), columns), None)
    passes = Passes(source)
    found = passes.total(ChunkMeans(view, metric), columns)
    targets = passes.total(ChunkMoments((), source.target_shape), np.empty(0, dtype=np.intp))
    return _finished(metric, found, targets)


def _finished(metric: RowMetric, found: Means | None, targets: Moments | None) -> Float:
    """Return the metric from means over rows and, if it needs their variance, the moments of the targets."""
    if found is None:
        raise ValueError("the source holds no rows of positive weight")
    variance = None if targets is None else np.asarray(np.diag(targets.scatter) / targets.weight)
    return metric.finish(found.total / found.weight, variance)


@dataclass(frozen=True)
class ChunkView:
    """How a model sees chunks that hold the columns of its last stage."""

    model: AnytimeModel
    labels: tuple[str, ...]

    def stages(self, chunk: Chunk) -> Stages:
        """Return all stages on a chunk."""
        table = check_finite(chunk.X, self.labels)
        return Stages(self.model, table, chunk.y, table, chunk.weight, chunk.qid)


@dataclass(frozen=True)
class Means:
    """A sum of means over rows, each times its weight."""

    weight: float
    total: Float

    def __add__(self, other: Means) -> Means:
        return Means(self.weight + other.weight, self.total + other.total)


@dataclass(frozen=True)
class ChunkMeans:
    """The statistic from whose sum a metric follows."""

    view: ChunkView
    metric: RowMetric

    def __call__(self, chunk: Chunk) -> Means | None:
        """Return the means of a chunk, None if all its weights are zero."""
        weight = float(chunk.n_rows if chunk.weight is None else chunk.weight.sum())
        if not weight:
            return None
        with located(chunk):
            return Means(weight, weight * self.metric.means(self.view.stages(chunk)))


@dataclass(frozen=True)
class Gathered:
    """Predictions of some rows, in order: scores (m, K, P), targets, weights and queries."""

    parts: tuple[tuple[Float, NDArray[Any], Float | None, NDArray[Any] | None], ...]

    def __add__(self, other: Gathered) -> Gathered:
        both = Gathered(self.parts + other.parts)
        if sum(part[0].nbytes for part in both.parts) > GATHER_BYTES:
            raise MemoryError(
                f"this metric needs the predictions of all rows and stages, more than {GATHER_BYTES >> 30} GB: "
                "judge a part of the rows, or take a metric that is a mean over rows"
            )
        return both


@dataclass(frozen=True)
class ChunkScores:
    """The statistic that keeps all predictions."""

    view: ChunkView

    def __call__(self, chunk: Chunk) -> Gathered:
        """Return the scores of a chunk."""
        with located(chunk):
            stages = self.view.stages(chunk)
            scores = np.stack(list(stages.model.stages.stage_scores(stages.table)), axis=1)
        return Gathered(((scores, chunk.y, chunk.weight, chunk.qid),))


def _gathered(view: ChunkView, source: Source, columns: NDArray[np.intp]) -> Stages:
    """Return stages whose scores are there and whose X is gone."""
    found = sum_over(source, ChunkScores(view), columns)
    if found is None:
        raise ValueError("the source holds no rows")
    scores, y, weight, qid = zip(*found.parts, strict=True)
    marker = np.empty((sum(map(len, y)), 0))  # stands for the X that scorers are given and hand back
    model, found_scores = view.model, np.concatenate(scores)
    return Stages(model, marker, np.concatenate(y), marker, _joined(weight), _joined(qid), model, found_scores)


def _joined(parts: tuple[Any, ...]) -> Any:
    return None if parts[0] is None else np.concatenate(parts)
