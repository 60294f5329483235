"""Calibration: from the scores of every stage to log odds whose probabilities hold on new rows.

For two classes, beta calibration (Kull, Silva Filho and Flach 2017): with p the probability of the linear score η,

    η' = a·log p − b·log(1 − p) + c = a·min(η, 0) + b·max(η, 0) + (b − a)·log(1 + e^−|η|) + c,    a, b ≥ 0,

which is logistic regression on log p and −log(1 − p), and never decreases in η. For more classes, η'_k = s·η_k: one
temperature 1/s per stage. What it learns is in `fitting.calibrating`; scores and coefficients stay linear.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Annotated

import numpy as np

from budgetline.arrays import Float, Positions
from budgetline.codec import AtLeast, Shape

Stages = int | Positions
"""A stage for all rows, or the stage of each row."""
FAR, HALVINGS = 1e9, 90
"""Thresholds are looked for between these scores, so many times in the half that holds them."""


@dataclass(frozen=True, eq=False)
class Calibration:
    """How the scores of every stage are calibrated.

    Attributes
    ----------
    slopes : array of shape (1 + stages, 2) or (1 + stages, 1)
        a and b for two classes, s for more; 1 where a stage is not calibrated.
    offsets : array of shape (1 + stages,)
        c; 0 for more than two classes.
    """

    slopes: Annotated[Float, Shape("all_stages slopes"), AtLeast(0)]
    offsets: Annotated[Float, Shape("all_stages")]

    @property
    def calibrated(self) -> Positions:
        """The stages whose scores are changed."""
        return np.flatnonzero((self.slopes != 1).any(axis=1) | (self.offsets != 0))

    def at(self, stages: Positions) -> Calibration:
        """Return the calibration of a model whose stages 0, 1, … are like these."""
        return replace(self, slopes=self.slopes[stages], offsets=self.offsets[stages])

    def apply(self, scores: Float, stage: Stages) -> Float:
        """Return calibrated scores of scores (n, P) at a stage, or (…, K, P) at K stages."""
        slopes, offset = self.slopes[stage], self.offsets[stage]
        if self.slopes.shape[1] == 1:
            return np.asarray(scores * slopes)
        eta, below, above = scores[..., 0], slopes[..., 0], slopes[..., 1]
        bent = np.abs(eta)  # becomes log(1 + e^η) in place: rows are many
        np.exp(np.negative(bent, out=bent), out=bent)
        bent += 1
        np.log(bent, out=bent)
        bent += np.maximum(eta, 0)
        bent *= above - below
        bent += below * eta
        bent += offset
        return bent[..., None]

    def decide(self, scores: Float, stage: Stages) -> Float:
        """Return scores with the labels of calibrated ones: for two classes η less the threshold of the stage."""
        if self.slopes.shape[1] == 1:
            return scores if np.all(self.slopes[stage] > 0) else self.apply(scores, stage)
        return np.asarray(scores - self._thresholds[stage][..., None])

    @cached_property
    def _thresholds(self) -> Float:
        """The scores (stages,) above which calibrated ones are positive, by bisection; they may be infinite."""
        every, low, high = np.arange(self.offsets.size), *(np.full(self.offsets.size, end) for end in (-FAR, FAR))
        for _ in range(HALVINGS):
            middle = low + (high - low) / 2
            positive = self.apply(middle[:, None], every)[:, 0] > 0
            low, high = np.where(positive, low, middle), np.where(positive, middle, high)
        return np.where(low == -FAR, -np.inf, np.where(high == FAR, np.inf, low))
