"""Calibration: from the scores of every stage to log odds whose probabilities hold on new rows.

For two classes, beta calibration (Kull, Silva Filho and Flach 2017): with p the probability of the linear score η,

    η' = a·log p − b·log(1 − p) + c = a·min(η, 0) + b·max(η, 0) + (b − a)·log(1 + e^−|η|) + c,    a, b ≥ 0,

which is logistic regression on log p and −log(1 − p), and never decreases in η. For more classes, η'_k = s·η_k: one
temperature 1/s per stage. What it learns is in `fitting.calibrating`; scores and coefficients stay linear.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated

import numpy as np

from budgetline.arrays import Float, Positions
from budgetline.codec import AtLeast, Shape

Stages = int | Positions
"""A stage for all rows, or the stage of each row."""


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
        if np.all(below == above):
            return np.asarray(above * eta + offset)[..., None]
        size = np.abs(eta)
        bent = size / 2 + np.log(1 + np.exp(-size))  # quicker than log1p, and as exact in this sum
        return np.asarray((above + below) / 2 * eta + (above - below) * bent + offset)[..., None]
