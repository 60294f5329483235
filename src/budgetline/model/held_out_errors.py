"""Held-out errors of every stage: what intervals and sets of labels are made of.

With errors E of n rows that were not learned from, a new row's error is below the k-th smallest with probability at
least k/(n + 1), if rows are exchangeable: split conformal prediction. Here the errors are those of cross-validation, of
folds whose models learned from a little less than the final one (cross-conformal; Vovk 2015).

For numbers E = (y − ŷ)/s(ŷ): s is 1, or where errors grow with the prediction, their mean size by prediction. For
classes E = 1 − p_y, and the set holds all classes with 1 − p_k ≤ q.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, NamedTuple

import numpy as np
from scipy.special import ndtri

from budgetline.arrays import Float, Mask, Positions
from budgetline.codec import AtLeast, Shape

MOST_RANKS, TAIL_RANKS = 500, 100
"""At most this many order statistics are kept of every stage, and this many of either tail."""
EXCHANGEABLE, NORMAL = "exchangeable rows", "normal errors of equal spread"
ROUNDING = 1e-9


class PredictionInterval(NamedTuple):
    """Bounds of prediction intervals, of the shape of the predictions."""

    lower: Float
    upper: Float


@dataclass(frozen=True, eq=False)
class HeldOutErrors:
    """Errors of rows that were held out.

    Attributes
    ----------
    values : array of shape (1 + stages, P, m)
        Order statistics, at the ranks of `ranks_of`. For classes P is 1. Of normal errors, m is 1: the deviations.
    n_rows : float
        Number of rows; with unequal weights the effective number, (Σw)²/Σw².
    centres, scales : arrays of shape (1 + stages, P, B)
        s(ŷ) at B predictions, linear between them and constant outside.
    assumption : str
        What intervals assume: "exchangeable rows", or, if only moments were known, "normal errors of equal spread".
    """

    values: Annotated[Float, Shape("all_stages errors ranks")]
    n_rows: Annotated[float, AtLeast(1)]
    centres: Annotated[Float, Shape("all_stages errors bins")]
    scales: Annotated[Float, Shape("all_stages errors bins"), AtLeast(0)]
    assumption: str = EXCHANGEABLE

    @classmethod
    def normal(cls, deviation: Float, n_rows: float) -> HeldOutErrors:
        """Return normal errors with these deviations (1 + stages, P)."""
        same = np.ones((*deviation.shape, 1))
        return cls(deviation[..., None], n_rows, 0 * same, same, NORMAL)

    def at(self, stages: Positions) -> HeldOutErrors:
        """Return the errors of a model whose stages 0, 1, … are like these."""
        return replace(self, values=self.values[stages], centres=self.centres[stages], scales=self.scales[stages])

    def interval(self, predicted: Float, stage: int, coverage: float) -> PredictionInterval:
        """Return bounds (n, P) for predictions (n, P) at a stage; infinite if the errors are too few."""
        n, miss, scale = self.n_rows, (1 - coverage) / 2, self.scale(predicted, stage)
        if self.assumption == NORMAL:
            reach = self.values[stage, :, 0] * -float(ndtri(miss))
            return PredictionInterval(predicted - reach, predicted + reach)
        below = self._ranked(stage, np.floor((n + 1) * miss + ROUNDING))
        above = self._ranked(stage, np.ceil((n + 1) * (1 - miss) - ROUNDING))
        return PredictionInterval(predicted + scale * below, predicted + scale * above)

    def members(self, probabilities: Float, stages: Sequence[int], coverage: float) -> Mask:
        """Return which classes are in the sets of rows with probabilities (n, P), by the largest of the thresholds."""
        rank = np.ceil((self.n_rows + 1) * coverage - ROUNDING)
        most = max(float(self._ranked(stage, rank)[0]) for stage in stages)
        return np.asarray(1 - probabilities <= most + ROUNDING)

    def scale(self, predicted: Float, stage: int) -> Float:
        """Return what errors were divided by at predictions (n, P), shape (P,) or (n, P)."""
        if self.scales.shape[2] == 1:
            return self.scales[stage, :, 0]
        known = zip(predicted.T, self.centres[stage], self.scales[stage], strict=True)
        return np.column_stack([np.interp(*each) for each in known])

    def _ranked(self, stage: int, rank: float) -> Float:
        """Return the errors (P,) of a rank, infinite outside 1, …, n; between those that are stored, linear."""
        if not 1 - ROUNDING <= rank <= self.n_rows + ROUNDING:
            return np.full(self.values.shape[1], np.inf if rank > 1 else -np.inf)
        ranks = ranks_of(self.n_rows, self.values.shape[2])
        return np.array([np.interp(rank, ranks, own) for own in self.values[stage]])


def ranks_of(n_rows: float, m: int) -> Float:
    """Return the ranks (m,) of order statistics of n rows: every one in the tails, and evenly spaced ones between."""
    if n_rows <= MOST_RANKS or m < MOST_RANKS:
        return np.linspace(1, n_rows, m)
    tail = np.arange(float(TAIL_RANKS))
    between = np.linspace(1 + TAIL_RANKS, n_rows - TAIL_RANKS, m - 2 * TAIL_RANKS)
    return np.concatenate([1 + tail, between, n_rows - tail[::-1]])
