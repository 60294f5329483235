"""The normal equations of standardised columns: C = X'X/n + λI and b = X'Y/n, from moments."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from budgetline.arrays import Float, Positions
from budgetline.moments.moments import Moments

EPS = float(np.finfo(np.float64).eps)


@dataclass(frozen=True, eq=False)
class Gram:
    """C and b of standardised columns and centred targets, group after group.

    Attributes
    ----------
    C : array of shape (D, D)
        With the ridge constant on its diagonal.
    b : array of shape (D, P)
    target_variance : array of shape (P,)
        Σ w y²/Σ w of each centred target.
    eps : float
        Unit roundoff of C and b: that of float32 if products were taken in float32.
    """

    C: Float
    b: Float
    target_variance: Float
    eps: float = EPS

    @classmethod
    def of(cls, moments: Moments, columns: Positions, alpha: float, weights: Float | None = None) -> Gram:
        """Return C and b for columns of the moments, in the order given; penalty weights are of all columns."""
        D, diagonal = moments.n_features, np.arange(columns.size)
        scale = moments.standardisation(weights)[1][columns]
        in_order = np.array_equal(columns, np.arange(D))
        C = moments.scatter[:D, :D].copy() if in_order else moments.scatter[np.ix_(columns, columns)]
        C /= moments.weight * scale
        C /= scale[:, None]
        # A constant column is zero after standardisation; a one on the diagonal avoids a special case.
        C[diagonal, diagonal] += np.where(np.isfinite(scale), 0.0, 1.0) + alpha
        b = moments.scatter[columns, D:] / (moments.weight * scale)[:, None]
        return cls(C, b, np.maximum(np.diag(moments.scatter)[D:], 0.0) / moments.weight, moments.eps)

    @property
    def null_value(self) -> float:
        """R(∅) = ½ Σ_p var(y_p), the most that F can reach."""
        return float(self.target_variance.sum() / 2)

    def blocks(self, columns: Positions) -> Float:
        """Return C_g for groups of one size, given their columns (J_s, s): shape (J_s, s, s)."""
        return np.asarray(self.C[columns[:, :, None], columns[:, None, :]])
