"""The engine of sources: every point takes one pass, which sums risk, gradient and Hessian of all columns.

So the last pass of a refit also scores the next group and starts its refit. A last, small step takes no pass. Memory
does not depend on the number of rows. A cluster runs the same passes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from budgetline.arrays import Array, Float, Positions
from budgetline.data.sources import Chunk
from budgetline.glm.engines import Loss, Point, part_of
from budgetline.glm.rows_engine import RowsEngine
from budgetline.glm.set_families import SetFamily
from budgetline.glm.sets_engine import SetsEngine, check_comparable
from budgetline.messages import shown
from budgetline.moments.columns import StandardisedColumns
from budgetline.moments.moments import Moments
from budgetline.moments.passes import targets_of
from budgetline.moments.sums import Statistic
from budgetline.moments.tallies import ChunkSample, RowSample

NEAR = 1e-7
"""Steps up to this part of the largest coefficient take no pass: the Hessian predicts the gradient to the square of
it, which is below the tolerance of a fit."""
MOST_PARAMETERS = 6000
"""The Hessian of all columns and scores must fit into memory."""


@dataclass(frozen=True)
class _ModelSums:
    """What one pass adds up at θ (1 + D, Q): a point with minus the gradient (1 + D, Q) and H (1 + D, Q, 1 + D, Q).

    ``saturated`` is the risk of the saturated model, ``spread`` the square of ``y_spread`` of losses over sets, and
    ``queries`` are those of the rows, all in the first pass.
    """

    theta: Float
    descent: Float
    H: Float
    risk: float
    saturated: float
    spread: float = 0.0
    queries: Array | None = None

    def __add__(self, other: _ModelSums) -> _ModelSums:
        risk, saturated, spread = self.risk + other.risk, self.saturated + other.saturated, self.spread + other.spread
        queries = _joined(self.queries, other.queries)
        descent, H = self.descent + other.descent, self.H + other.H
        return _ModelSums(self.theta, descent, H, risk, saturated, spread, queries)

    def gradient(self, columns: Positions | None) -> Float:
        return self.descent[slice(1, None) if columns is None else columns]

    def hessian(self, columns: Positions, score: int | None = None, within: float = 0.0) -> Float:
        return part_of(self.H, columns, columns, score)

    def cross(self, columns: Positions, others: Positions | None) -> Float:
        return part_of(self.H, columns, others)

    def blocks(self, groups: Positions) -> Float:
        return np.array([self.hessian(group) for group in groups])

    def product(self, columns: Positions, V: Float) -> Float:
        return np.asarray(self.hessian(columns) @ V.ravel()).reshape(V.shape)

    def moved(self, theta: Float) -> _ModelSums:
        """Predict risk and gradient at a nearby θ (1 + D, Q) from the Hessian."""
        step = theta - self.theta
        change = np.tensordot(self.H, step, axes=2)
        risk = self.risk + float(np.sum(step * (change / 2 - self.descent)))
        return replace(self, theta=theta, descent=self.descent - change, risk=risk)


def _joined(queries: Array | None, others: Array | None) -> Array | None:
    """Join two lists of queries; a query in both is an error."""
    if queries is None or others is None:
        return None
    if (both := np.intersect1d(queries, others)).size:
        raise ValueError(
            f"query {shown(both.tolist()[0])} lies in several chunks, and its rows are ranked together: sort "
            "the rows by query, and read a file at once (chunk_rows=None) or cut files and row groups between queries"
        )
    return np.concatenate([queries, others])


@dataclass(frozen=True)
class _ChunkSums:
    """The statistic that sums to the model sums at θ (1 + D, Q), in the order of the columns that are read."""

    loss: Loss | SetFamily
    theta: Float
    mean: Float
    scale: Float
    total_weight: float
    classes: Array | None
    first: bool

    def rows(self, chunk: Chunk) -> RowsEngine:
        weight = np.ones(chunk.n_rows) if chunk.weight is None else chunk.weight
        share = weight / self.total_weight
        with chunk.located():
            if isinstance(self.loss, SetFamily):
                sets = self.loss.sets(self.loss.encode(chunk.y, chunk.qid, chunk.n_rows, weight), share)
                root = np.sqrt(share[sets.order])
                A = StandardisedColumns(chunk.table[sets.order], self.mean, self.scale, root)
                return SetsEngine(A, sets, np.arange(self.mean.size))
            Y = targets_of(chunk, self.classes)
            if self.first:
                self.loss.check(Y)
        A = StandardisedColumns(chunk.table, self.mean, self.scale, np.sqrt(share))
        return RowsEngine(A, self.loss.internal(Y), np.arange(self.mean.size), self.loss)

    def __call__(self, chunk: Chunk) -> _ModelSums | None:
        if isinstance(self.loss, SetFamily) and chunk.weight is not None and not chunk.weight.any():
            return None
        rows, every = self.rows(chunk), np.arange(len(self.theta))
        point = rows.at(every, self.theta)
        with np.errstate(over="ignore", invalid="ignore"):
            descent, H = point.gradient(every), point.hessian(every)
            saturated = rows.saturated if self.first else 0.0
            sums = _ModelSums(self.theta, descent, H.reshape(2 * descent.shape), point.risk, saturated)
        if self.first and isinstance(rows, SetsEngine) and chunk.qid is not None:
            return replace(sums, spread=rows.y_spread**2, queries=np.unique(chunk.qid))
        return sums


class SourceEngine:
    """A source: files, iterators that can be started again, dask.

    ``total`` makes one pass and returns the sum of a statistic, over the same rows as ``moments``, which are from an
    earlier pass. ``order`` (D,) are positions among the columns read, group after group, ``weights`` (D,) their penalty
    weights. Targets that are labels become indicators of ``classes``.
    """

    few = stale = np.inf

    def __init__(
        self,
        total: Callable[[Statistic[Any]], Any],
        moments: Moments,
        order: Positions,
        loss: Loss | SetFamily,
        classes: Array | None = None,
        weights: Float | None = None,
    ) -> None:
        self._total, self._moments, self._order, self._loss, self._classes = total, moments, order, loss, classes
        self._last: _ModelSums | None = None
        self.n_rows, self.sample_size, self.saturated = moments.n_samples, moments.sample_size, float("nan")
        self.x_mean, self.x_scale, mean = moments.standardisation(weights)
        self.y_mean = np.zeros(1) if isinstance(loss, SetFamily) else loss.internal(mean[None])[0]
        if (1 + order.size) * self.y_mean.size > MOST_PARAMETERS:
            raise ValueError(
                f"{order.size} columns and {self.y_mean.size} scores are too many to stream: their Hessian has more "
                f"than {MOST_PARAMETERS} rows. Leave columns out."
            )
        if isinstance(loss, SetFamily):
            self._null = self.at(np.zeros(1, dtype=np.intp), np.zeros((1, 1)))
            self.y_spread = float(np.sqrt(self._null.spread))
            check_comparable(self.y_spread, loss.loss)
            return
        contrasts = loss.internal(np.eye(mean.size))
        scatter = moments.scatter[order.size :, order.size :]
        self.y_spread = float(np.sqrt(np.diag(contrasts.T @ scatter @ contrasts).max() / moments.weight))

    def covariance(self, groups: Positions) -> Float:
        """Return Σ ω zz' of groups of one size, from the moments; over sets, the Hessian where scores are zero."""
        if isinstance(self._loss, SetFamily):
            return self._null.blocks(groups)
        columns = self._order[groups - 1]
        unit = 1 / self.x_scale[columns]
        blocks = self._moments.scatter[columns[:, :, None], columns[:, None, :]] / self._moments.weight
        return np.asarray(blocks * unit[:, :, None] * unit[:, None, :])

    def at(self, columns: Positions, theta: Float) -> _ModelSums:
        """Make one pass, unless θ is so near that of the last pass that its Hessian predicts the rest."""
        full = _full(columns, theta, 1 + self._order.size)
        if self._last is not None and np.abs(full - self._last.theta).max() <= NEAR * np.abs(full).max():
            return self._last.moved(full)
        place, first = np.concatenate([[0], 1 + self._order]), self._last is None
        there = _full(place, full, len(full))  # in the order of [1, columns read]
        settings = (self.x_mean, self.x_scale, self._moments.weight, self._classes, first)
        found: _ModelSums = self._total(_ChunkSums(self._loss, there, *settings))
        if first:
            self.saturated = found.saturated
        H = found.H[place][:, :, place]
        self._last = replace(found, theta=full, descent=found.descent[place], H=H)
        return self._last

    def drift(self, point: Point) -> float:
        return np.inf  # every pass computes a Hessian

    def sample(self, columns: Positions, most: int) -> RowSample:
        index = self._order[columns - 1]
        found: RowSample = self._total(ChunkSample(index, most))
        return found.standardised(self.x_mean[index], self.x_scale[index])


def _full(columns: Positions, theta: Float, size: int) -> Float:
    full = np.zeros((size, theta.shape[1]))
    full[columns] = theta
    return full
