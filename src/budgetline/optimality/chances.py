"""How likely further groups change a classifier's decision on rows: by its population, or by a sample of rows."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.special import ndtr, softmax

from budgetline.arrays import Float, Table
from budgetline.glm.families import Family
from budgetline.model.anytime import AnytimeModel
from budgetline.model.changes import ScoreChange
from budgetline.model.population import Population
from budgetline.model.refits import normal_nodes
from budgetline.model.stages import LinearModel
from budgetline.model.subsets import GeneralisedSubset

SAMPLE_ROWS = 2000
"""The most rows of a sample that are used."""
BLOCK = 1 << 21
"""How many later scores of several classes are compared at a time."""
FLAT = 1e-9
"""Scores vary at least by this share of their variance within cells, and this is the least variance: without groups
scores are constant, and only rounding varies."""


def chances_of(model: AnytimeModel, before: LinearModel, after: Sequence[LinearModel], now: Float) -> Float:
    """Return the probability that each of K models decides otherwise on rows with scores ``now`` (n, P): (K, n).

    In every cell of the population the scores of both models are jointly normal. The scores of a row now say in which
    cells it may be, and where in them.
    """
    subset = model.stages.subset
    assert isinstance(subset, GeneralisedSubset)
    assert subset.population is not None
    family = subset.family
    start, *ends = (_Scores.of(subset.population, model, each, family) for each in (before, *after))
    inside = family.internal(now)
    found = np.array([_changed(start, end, inside, family) for end in ends]).reshape(len(ends), len(now))
    return np.where(found * subset.population.n_rows < 1, 0.0, found)  # rarer than one of the rows: nothing is known


def sampled_chances(
    model: AnytimeModel, before: LinearModel, after: Sequence[LinearModel], now: Float, table: Table
) -> Float:
    """Return the same by how the scores of sampled rows change; ``table`` has the columns of the last stage."""
    rows = table[:: -(-table.shape[0] // SAMPLE_ROWS)]

    def scores(of: LinearModel) -> Float:
        return np.asarray(rows @ of.coef[:, model.last.columns].T) + of.intercept

    start = scores(before)
    found = [ScoreChange.learn(start, scores(each)).changed(now) / len(start) for each in after]
    return np.array(found).reshape(len(after), len(now))


class _Scores:
    """The scores of a model: deviations (r, Q) whose products are covariances, and means (M, Q) of the cells."""

    def __init__(self, deviation: Float, mean: Float, share: Float) -> None:
        self.deviation, self.mean, self.share = deviation, mean, share

    @classmethod
    def of(cls, population: Population, model: AnytimeModel, linear: LinearModel, family: Family) -> _Scores:
        W, level = model.stages.standardised(linear)
        theta = family.internal(np.vstack([level, W.T]))
        mean = theta[0] + population.mean @ theta[1:]
        return cls(population.factor @ theta[1:], mean, population.share)

    def covariance(self, other: _Scores) -> Float:
        """Return the covariance with other scores within cells, shape (Q, Q)."""
        first, second = (each.mean - each.share @ each.mean for each in (self, other))
        return np.asarray(self.deviation.T @ other.deviation - first.T @ (self.share[:, None] * second))


def _changed(before: _Scores, after: _Scores, now: Float, family: Family) -> Float:
    """Return the probability of another decision at internal scores ``now`` (n, Q), shape (n,)."""
    V, Q = before.covariance(before), now.shape[1]
    spread = float(np.trace(before.deviation.T @ before.deviation)) / Q
    V = V + FLAT * max(spread, FLAT) * np.eye(Q)
    slope = np.linalg.solve(V, before.covariance(after))
    rest = after.covariance(after) - before.covariance(after).T @ slope
    off = now[:, None] - before.mean
    cells = softmax(
        np.log(before.share) - np.einsum("njq,njq->nj", off, np.linalg.solve(V, off[..., None])[..., 0]) / 2, axis=1
    )
    expected = after.mean + off @ slope
    if Q == 1:
        side = np.where(now > 0, -1.0, 1.0)
        return np.asarray((cells * ndtr(side * expected[..., 0] / np.sqrt(max(float(rest[0, 0]), 1e-300)))).sum(axis=1))
    values, U = np.linalg.eigh(rest)
    nodes, weight = normal_nodes(Q)
    moved = nodes @ (U * np.sqrt(np.maximum(values, 0.0))).T
    decided, found = family.external(now).argmax(axis=1), np.empty(len(now))
    step = max(1, BLOCK // (cells.shape[1] * moved.size))
    for part in (slice(at, at + step) for at in range(0, len(now), step)):
        later = family.external(expected[part, :, None] + moved).argmax(axis=3)
        found[part] = np.einsum("nj,njg,g->n", cells[part], later != decided[part, None, None], weight)
    return found
