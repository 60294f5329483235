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
from budgetline.glm.curvature import part_of
from budgetline.glm.engines import Loss
from budgetline.glm.rows_engine import RowsEngine
from budgetline.moments.columns import StandardisedColumns
from budgetline.moments.moments import Moments
from budgetline.moments.passes import targets_of
from budgetline.moments.row_samples import ChunkSample, RowSample
from budgetline.moments.sums import Statistic

NEAR = 1e-7
"""Steps up to this part of the largest coefficient take no pass: the Hessian predicts the gradient to the square of
it, which is below the tolerance of a fit."""
MOST_PARAMETERS = 6000
"""The Hessian of all columns and scores must fit into memory."""


@dataclass(frozen=True)
class _ModelSums:
    """What one pass adds up at θ (1 + D, Q): a point that comes with its Hessian.

    Attributes
    ----------
    theta, descent : arrays of shape (1 + D, Q)
        θ of all columns of Z, and minus the gradient of the risk.
    H : array of shape (1 + D, Q, 1 + D, Q)
    risk, saturated : float
        Risk at θ, and in the first pass that of the saturated model.
    """

    theta: Float
    descent: Float
    H: Float
    risk: float
    saturated: float

    def __add__(self, other: _ModelSums) -> _ModelSums:
        return _ModelSums(
            self.theta,
            self.descent + other.descent,
            self.H + other.H,
            self.risk + other.risk,
            self.saturated + other.saturated,
        )

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
        """Return risk and gradient at a nearby θ (1 + D, Q), as the Hessian predicts them."""
        step = theta - self.theta
        change = np.tensordot(self.H, step, axes=2)
        risk = self.risk + float(np.sum(step * (change / 2 - self.descent)))
        return replace(self, theta=theta, descent=self.descent - change, risk=risk)


@dataclass(frozen=True)
class _ChunkSums:
    """The statistic that sums to the model sums at θ (1 + D, Q), in the order of the columns that are read."""

    loss: Loss
    theta: Float
    mean: Float
    scale: Float
    total_weight: float
    classes: Array | None
    first: bool

    def rows(self, chunk: Chunk) -> RowsEngine:
        """Return the engine of one chunk."""
        with chunk.located():
            Y = targets_of(chunk, self.classes)
            weight = np.ones(len(Y)) if chunk.weight is None else chunk.weight
            if self.first:
                # targets are checked row by row; a chunk in which all are zero is no error
                self.loss.check(np.vstack([Y, np.ones((1, Y.shape[1]))]), np.append(weight, 1.0))
        A = StandardisedColumns(chunk.table, self.mean, self.scale, np.sqrt(weight / self.total_weight))
        return RowsEngine(A, self.loss.internal(Y), np.arange(self.mean.size), self.loss)

    def __call__(self, chunk: Chunk) -> _ModelSums:
        """Return the sums over one chunk, as of rows in memory."""
        rows, every = self.rows(chunk), np.arange(len(self.theta))
        point = rows.at(every, self.theta)
        with np.errstate(over="ignore", invalid="ignore"):
            descent, H = point.gradient(every), point.hessian(every)
            saturated = rows.saturated if self.first else 0.0
            return _ModelSums(self.theta, descent, H.reshape(2 * descent.shape), point.risk, saturated)


class SourceEngine:
    """A source: files, iterators that can be started again, dask.

    Parameters
    ----------
    total : callable
        Makes one pass and returns the sum of a statistic, over the same rows as ``moments``.
    moments : Moments
        Moments of the columns read, from an earlier pass.
    order : int array of shape (D,)
        Positions among the columns read, group after group.
    loss : Loss
    classes : array, or None
        Targets that are labels become indicators of these classes.
    weights : array of shape (D,), or None
        Penalty weights of the columns read.
    """

    eager = True

    def __init__(
        self,
        total: Callable[[Statistic[Any]], Any],
        moments: Moments,
        order: Positions,
        loss: Loss,
        classes: Array | None = None,
        weights: Float | None = None,
    ) -> None:
        self._total, self._moments, self._order, self._loss, self._classes = total, moments, order, loss, classes
        self._last: _ModelSums | None = None
        self.n_rows, self.sample_size, self.saturated = moments.n_samples, moments.sample_size, float("nan")
        self.x_mean, self.x_scale, mean = moments.standardisation(weights)
        loss.check(mean[None], np.ones(1))
        self.y_mean = loss.internal(mean[None])[0]
        if (1 + order.size) * self.y_mean.size > MOST_PARAMETERS:
            raise ValueError(
                f"{order.size} columns and {self.y_mean.size} scores are too many to stream: their Hessian has more "
                f"than {MOST_PARAMETERS} rows. Leave columns out."
            )
        contrasts = loss.internal(np.eye(mean.size))
        scatter = moments.scatter[order.size :, order.size :]
        self.y_spread = float(np.sqrt(np.diag(contrasts.T @ scatter @ contrasts).max() / moments.weight))

    def covariance(self, groups: Positions) -> Float:
        """Return Σ ω zz' of groups of one size, from the moments."""
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

    def sample(self, columns: Positions, most: int) -> RowSample:
        """Make one pass."""
        index = self._order[columns - 1]
        found: RowSample = self._total(ChunkSample(index, most))
        return found.standardised(self.x_mean[index], self.x_scale[index])


def _full(columns: Positions, theta: Float, size: int) -> Float:
    """Return θ of all columns of Z."""
    full = np.zeros((size, theta.shape[1]))
    full[columns] = theta
    return full
