"""Rows in memory: blocks that fit into the cache are split among threads, and added up in a fixed order."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy import sparse

from budgetline.arrays import Float
from budgetline.data.rows import CHUNK_BYTES
from budgetline.statistics.columns import StandardisedColumns
from budgetline.statistics.curvature import Curvature
from budgetline.statistics.design_blocks import Blocks, DesignBlocks
from budgetline.statistics.engines import Ints, Loss, target_level
from budgetline.threads import STRIPES, added, blas_threads, in_threads, product, sum_in_threads

BLOCK_BYTES, FEWEST_ROWS, MOST_ROWS = 1 << 24, 1024, 1 << 14
"""A block of rows: a pass reads it twice, the second time from the cache."""
ALONE_ROWS = 1 << 12
"""Rows of a block where one thread does all the work."""
THREAD_BYTES = 1 << 24
"""There is a thread for so many bytes of the data: on 16 cores, six threads were faster than 16 on 131 MB."""
FEW_THREADS = 4
"""Up to this many threads do not hinder each other when they take short steps."""
TOGETHER = 48
"""Columns of groups that are not chosen are multiplied by about so many others."""


class RowSums:
    """Rows in memory, dense or sparse, in blocks of rows: the sums over them.

    Parameters
    ----------
    A : StandardisedColumns, shape (n, D)
        With ``root`` = √ω.
    targets : array of shape (n, Q)
        For the internal scores of the loss.
    order : int array of shape (D,)
        Columns of A, group after group.
    loss : Loss
    design : array of shape (n, 1 + D), optional
        All columns of Z, if available.
    fewest : int
        Rows of a block, if there are as many: small blocks keep several threads busy, large ones take less time.
    """

    def __init__(
        self,
        A: StandardisedColumns,
        targets: Float,
        order: Ints,
        loss: Loss,
        design: Float | None = None,
        fewest: int = FEWEST_ROWS,
    ) -> None:
        self.A, self.targets, self.order, self.loss = A, np.ascontiguousarray(targets.T), order, loss
        self.n_rows, self.x_mean, self.x_scale, self.weight = len(targets), A.mean, A.scale, A.root**2
        self.y_mean, self.y_spread = target_level(targets, self.weight)
        blocks = STRIPES * -(-8 * self.n_rows * (1 + order.size) // (STRIPES * BLOCK_BYTES))
        rows = min(max(fewest, min(-(-self.n_rows // blocks), MOST_ROWS)), self.n_rows)
        self.slices = [slice(start, min(start + rows, self.n_rows)) for start in range(0, self.n_rows, rows)]
        self.most = self.threads_for(1 + order.size)
        Z = DesignBlocks(A, order, self.slices, self.most, design)
        self.design, self.rest, self.picked, self.plain = Z.of, Z.rest, Z.picked, Z.plain

    def threads_for(self, n_columns: int) -> int:
        """Return how many threads, at most, a pass over so many columns of Z keeps busy."""
        return max(2, 8 * self.n_rows * n_columns // THREAD_BYTES)

    def has_few_threads(self) -> bool:
        """Return whether threads may take short steps: many would wait for Python between them."""
        return blas_threads() <= FEW_THREADS

    def short_steps(self, work: Callable[[slice], None]) -> None:
        """Call ``work`` with all blocks of rows: in threads, if they are few."""

        def of(stripe: list[slice]) -> None:
            with np.errstate(over="ignore", invalid="ignore"):
                each(work, stripe)

        if len(self.slices) > 1 and self.has_few_threads():
            in_threads(of, self.slices, self.most)
        else:
            of(self.slices)

    def summed(self, of: Blocks) -> Float:
        """Return the sum over all blocks of rows."""
        return sum_in_threads(lambda stripe: added(of, stripe), self.slices, self.most)

    def risk(self, eta: Float) -> float:
        """Return the risk of scores (Q, n)."""
        loss = np.empty(self.n_rows)

        def compare(s: slice) -> None:
            np.einsum("qn,qn->n", self.targets[:, s], eta[:, s], out=loss[s])
            np.subtract(self.loss.value(eta[:, s].T), loss[s], out=loss[s])

        self.short_steps(compare)
        with np.errstate(over="ignore", invalid="ignore"):
            return float(self.weight @ loss)

    def project(self, V: Blocks, rows: int, columns: Ints | None) -> Float:
        """Return V·Z of some columns of X or all, shape (rows, m), for blocks of V (rows, …)."""
        A, index = self.A, self.order if columns is None else self.order[columns - 1]
        if sparse.issparse(A.X):
            whole = np.empty((self.n_rows, rows))
            for s in self.slices:
                whole[s] = V(s).T
            sums, products = whole.sum(axis=0), (A.X[:, index].T @ whole).T
        else:

            def of(s: slice) -> Float:
                block, X = V(s), A.X[s] if columns is None else A.X[s][:, index]
                return np.column_stack([block.sum(axis=1), product(block, X.astype(np.float64, copy=False))])

            total = self.summed(of)
            sums, products = total[:, 0], total[:, 1:] if columns is not None else total[:, 1 + index]
        return np.asarray((products - np.outer(sums, A.mean[index])) / A.scale[index])

    def covariance(self, groups: Ints) -> Float:
        """Return Σ ω zz' of groups of one size."""
        return self.blocks(groups, lambda s: Curvature(self.weight[s, None]))

    def blocks(self, groups: Ints, curvature: Callable[[slice], Curvature]) -> Float:
        """Return Σ curvature ⊗ zz' of groups (J, s) of one size, a few columns at a time, shape (J, sQ, sQ)."""
        rows = self.n_rows if sparse.issparse(self.A.X) else self.slices[0].stop
        batch = max(1, CHUNK_BYTES // (8 * groups.shape[1] * rows))
        starts = range(0, len(groups), batch)
        return np.concatenate([self._some_blocks(groups[start : start + batch], curvature) for start in starts])

    def _some_blocks(self, groups: Ints, curvature: Callable[[slice], Curvature]) -> Float:
        plain, (count, size) = self.plain(groups.ravel()), groups.shape
        at_once = max(1, TOGETHER // size)

        def of(s: slice) -> Float:
            weight = curvature(s)
            if weight.scale.shape[1] > 1:
                A = np.ascontiguousarray(plain(s)).reshape(*groups.shape, -1)
                return weight.cross(A, A)
            A, found = plain(s).T * np.sqrt(weight.scale), np.empty((count, size, size))
            for first in range(0, count, at_once):  # groups side by side: BLAS is slow on small matrices
                few = A[:, first * size : (first + at_once) * size]
                both = (few.T @ few).reshape(-1, size, few.shape[1] // size, size)
                found[first : first + at_once] = np.einsum("jajb->jab", both)
            return found

        return self.summed(of)


def each(work: Callable[[slice], None], stripe: list[slice]) -> None:
    """Call ``work`` with every slice of a stripe."""
    for s in stripe:
        work(s)
