"""The normal equations of wide tables: C of the columns that are asked for only, gradients by one pass over X."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from scipy import sparse

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
    targets : array of shape (n, P)
    b : array of shape (D, P)
    target_variance : array of shape (P,)
    """

    A: StandardisedColumns
    order: Positions
    alpha: float
    targets: Float
    b: Float
    target_variance: Float

    @classmethod
    def of(cls, A: StandardisedColumns, targets: Float, order: Positions, alpha: float) -> WideGram:
        """Return b of columns in an order, for targets (n, P)."""
        return cls(A, order, alpha, targets, A.project(targets).T[order], (targets**2).sum(axis=0))

    def gradient(self, coef: Float) -> Float:
        """Return b − A'A·coef, without the ridge, shape (D, P)."""
        used = np.flatnonzero(coef.any(axis=1))
        columns = self.order[used]
        w = coef[used] / self.A.scale[columns, None]
        fitted = self.A.X[:, columns] @ w - self.A.mean[columns] @ w
        return np.asarray(self.b - self.A.project(self.A.root[:, None] * fitted).T[self.order])

    def grown(self, known: Gram, columns: Positions) -> Gram:
        """Return C and b of columns (K,), of which those of the first are known."""
        A, taken, first = self.A, self.order[columns], len(known.b)
        product: Callable[[Float], Float]
        if sparse.issparse(A.X):
            product = replace(A, X=A.X[:, taken].astype(np.float64), mean=A.mean[taken], scale=A.scale[taken]).project
        else:  # centred before they are multiplied: exact also for columns far from zero
            held = A.columns(taken)
            product = lambda some: some.T @ held  # noqa: E731
        C, b = np.empty((columns.size, columns.size)), np.empty((columns.size, self.b.shape[1]))
        C[:first, :first], b[:first] = known.C, known.b
        step = max(1, CHUNK_BYTES // (8 * A.root.size))
        for start in range(first, columns.size, step):
            here = slice(start, start + step)
            some = A.columns(taken[here])
            C[here], b[here] = product(some), some.T @ self.targets
        C[:first, first:] = C[first:, :first].T
        new = np.arange(first, columns.size)
        C[new, new] += np.where(np.isfinite(A.scale[taken[first:]]), 0.0, 1.0) + self.alpha  # as in Gram.of
        return Gram(C, b, self.target_variance)
