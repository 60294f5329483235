"""The normal equations of wide tables: C of the columns that are asked for only, gradients by one pass over X."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from budgetline.arrays import Float, Positions
from budgetline.data.rows import CHUNK_BYTES
from budgetline.objectives.gram import Gram
from budgetline.statistics.columns import StandardisedColumns


@dataclass(frozen=True, eq=False)
class WideGram:
    """b of standardised columns and centred targets, group after group, and C where it is wanted.

    Attributes
    ----------
    A : StandardisedColumns
    order : int array of shape (D,)
        Columns of A, group after group.
    alpha : float
        Ridge constant.
    b : array of shape (D, P)
    target_variance : array of shape (P,)
    """

    A: StandardisedColumns
    order: Positions
    alpha: float
    b: Float
    target_variance: Float

    @classmethod
    def of(cls, A: StandardisedColumns, targets: Float, order: Positions, alpha: float) -> WideGram:
        """Return b of columns in an order, for targets (n, P)."""
        return cls(A, order, alpha, A.project(targets).T[order], (targets**2).sum(axis=0))

    def gradient(self, coef: Float) -> Float:
        """Return b − A'A·coef, without the ridge, shape (D, P)."""
        used = np.flatnonzero(coef.any(axis=1))
        columns = self.order[used]
        w = coef[used] / self.A.scale[columns, None]
        fitted = self.A.X[:, columns] @ w - self.A.mean[columns] @ w
        return np.asarray(self.b - self.A.project(self.A.root[:, None] * fitted).T[self.order])

    def grown(self, known: Gram, columns: Positions) -> Gram:
        """Return C and b of columns (K,), of which C of the first is known."""
        taken, new = self.order[columns], self.order[columns[len(known.b) :]]
        A = replace(self.A, X=self.A.X[:, taken].astype(np.float64), mean=self.A.mean[taken], scale=self.A.scale[taken])
        C = np.empty((columns.size, columns.size))
        first = len(known.b)
        C[:first, :first] = known.C
        step = max(1, CHUNK_BYTES // (8 * self.A.root.size))
        for start in range(0, new.size, step):
            C[first + start : first + start + step] = A.project(self.A.columns(new[start : start + step]))
        C[:first, first:] = C[first:, :first].T
        # as in Gram.of, a constant column gets a one
        added = np.arange(first, columns.size)
        C[added, added] += np.where(np.isfinite(self.A.scale[new]), 0.0, 1.0) + self.alpha
        return Gram(C, self.b[columns], self.target_variance)
