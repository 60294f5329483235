"""Z = [1, X standardised] in blocks of rows, on the host or on a device, and the sums over these blocks.

A block is an array (k, m): columns of Z lie one after another. On the host a block fits into the cache, blocks are
split among threads, and results are added up in a fixed order. The chosen columns are standardised once and kept, as
every pass reads them. On a device they are kept only if memory is plentiful; otherwise they are standardised a chunk at
a time in every pass. Other columns are made for each call.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import TypeVar

import numpy as np
from scipy import sparse

from budgetline.arrays import Float, Positions
from budgetline.devices import DeviceTable, library_of, on_host
from budgetline.moments.columns import StandardisedColumns
from budgetline.threads import STRIPES, added, in_threads, product, sum_in_threads

BLOCK_BYTES, FEWEST_ROWS, MOST_ROWS = 1 << 24, 1024, 1 << 14
"""Size of a block with all columns, and the fewest and most rows: a pass reads it twice, then from the cache."""
ALONE_ROWS = 1 << 12
"""Fewest rows of a block if one thread does all the work."""
THREAD_BYTES = 1 << 24
"""There is a thread for this many bytes of the data: on 16 cores, six threads were faster than 16 on 131 MB."""
LARGEST_BUFFER = 1 << 32
"""Memory for all columns is reserved at once if it takes at most this many bytes."""
SPARE = 4
"""Columns are kept on a device if all of them would take at most this part of its free memory."""

RowBlocks = Callable[[slice], Float]
"""Maps rows to an array."""
R = TypeVar("R")


class Design:
    """Columns of Z, numbered from 0 as in ``engines.py``; ``order`` (D,) are the columns of A, group after group.

    ``fewest`` is the fewest rows of a block: small blocks keep several threads busy, large ones take less time. With
    ``cuts``, ascending from 0, blocks begin only at these rows.
    """

    def __init__(
        self, A: StandardisedColumns, order: Positions, fewest: int = FEWEST_ROWS, cuts: Positions | None = None
    ) -> None:
        self.A, self.order, self.n_rows = A, order, A.root.size
        self.table: DeviceTable | None = A.X if isinstance(A.X, DeviceTable) else None
        self._held, need = np.arange(0), 8 * self.n_rows * (1 + order.size)
        count = STRIPES * -(-need // (STRIPES * BLOCK_BYTES))
        rows = min(max(fewest, min(-(-self.n_rows // count), MOST_ROWS)), self.n_rows)
        starts = np.arange(0, self.n_rows, rows)
        if cuts is not None:
            starts = np.unique(cuts[np.searchsorted(cuts, starts, side="right") - 1])
        self.slices = [slice(start, end) for start, end in pairwise([*starts.tolist(), self.n_rows])]
        self._block = {s.start: b for b, s in enumerate(self.slices)}
        self._rows = max(s.stop - s.start for s in self.slices)
        self._threads = max(2, need // THREAD_BYTES)
        self._keeps = self.table is None or SPARE * need <= (self.table.device.free_bytes() or 0)
        if self.table is None:
            room = order.size + 1 if need <= LARGEST_BUFFER else 1
            self._Z = np.empty((len(self.slices), room, self._rows))  # columns not written yet take no memory
        elif self._keeps:
            self._Z = self.table.device.zeros((order.size + 1, self.n_rows))

    def put(self, values: Float) -> Float:
        """Return a small array where the data are."""
        return values if self.table is None else self.table.device.put(np.ascontiguousarray(values))

    def each(self, of: Callable[[slice], R]) -> list[R]:
        """Return the results for all blocks of rows, in order."""
        if self.table is not None:
            return self.table.mapped(of, at_once=self._keeps)
        found: dict[int, R] = {}

        def work(stripe: list[slice]) -> None:
            with np.errstate(over="ignore", invalid="ignore"):
                found.update((s.start, of(s)) for s in stripe)

        in_threads(work, self.slices, self._threads)
        return [found[s.start] for s in self.slices]

    def summed(self, of: RowBlocks) -> Float:
        """Return the sum over all blocks of rows, on the host."""
        if self.table is not None:
            return on_host(self.table.summed(of))
        return sum_in_threads(lambda stripe: added(of, stripe), self.slices, self._threads)

    def of(self, columns: Positions) -> RowBlocks:
        """Return blocks (k, m) of columns, the first being 0; leading columns made earlier are reused."""
        if not self._keeps:
            Z = self.plain(columns[1:])
            return lambda s: self._with_ones(Z(s))
        first = leading(columns, self._held)
        if first < columns.size:
            self._write(columns, first)
        return lambda s: self._kept(s)[: columns.size, :]

    def _kept(self, s: slice) -> Float:
        """Return a block of the columns that are kept, and of those not written yet."""
        return self._Z[:, s] if self.table is not None else self._Z[self._block[s.start], :, : s.stop - s.start]

    def plain(self, columns: Positions | None) -> RowBlocks:
        """Return blocks (k, m) of columns other than the intercept, or of all of them, made for this call."""
        A, index = self.A, self.order if columns is None else self.order[columns - 1]
        if self.table is not None:
            return lambda s: A.plain_there(index, s).T
        if sparse.issparse(A.X):
            dense = A.plain(index)
            return lambda s: dense[s].T
        return lambda s: A.plain(index, s).T

    def picked(self, columns: Positions, rows: Positions) -> Float:
        """Return some rows (m,), in ascending order, of the first k columns, shape (k, m); on the host only."""
        self.of(columns)
        ends = np.searchsorted(rows, [s.stop for s in self.slices]).tolist()
        parts = [(b, rows[i:j] - self.slices[b].start) for b, (i, j) in enumerate(pairwise([0, *ends])) if i < j]
        return np.hstack([self._Z[b, : columns.size].take(index, axis=1) for b, index in parts])

    def beyond(self, columns: Positions, others: Positions | None) -> RowBlocks:
        """Return blocks of others: a part of the blocks of columns, if these end with them."""
        if self._keeps and others is not None and 0 < others.size < columns.size:
            Z, known = self.of(columns), columns.size - others.size
            if np.array_equal(columns[known:], others):
                return lambda s: Z(s)[known:, :]
        return self.plain(others)

    def square(self, Z: RowBlocks, weight: Float, positive: bool = True) -> Float:
        """Return Σ weight zz', shape (k, k)."""
        return self.summed(lambda s: weighted_square(Z(s), weight[s], positive))

    def cross(self, Z: RowBlocks, A: RowBlocks, weight: Float) -> Float:
        """Return Σ weight za', shape (k, m)."""

        def of(s: slice) -> Float:
            left, right = Z(s), A(s)  # the smaller matrix first: BLAS copies the other one otherwise
            small = right.shape[0] < left.shape[0]
            found: Float = ((right * weight[s]) @ left.T).T if small else (left * weight[s]) @ right.T
            return found

        return self.summed(of)

    def project(self, V: RowBlocks, size: int) -> Float:
        """Return V·Z of all columns of X, shape (size, D), for blocks of V (size, …).

        X is multiplied as it is, and the means are subtracted from the products: no block is standardised.
        """
        A, X = self.A, self.A.X
        if sparse.issparse(X):
            whole = np.concatenate([V(s).T for s in self.slices])
            sums, products = whole.sum(axis=0), (X.T @ whole).T
        else:

            def of(s: slice) -> Float:
                block, part = V(s), X[s].astype(np.float64, copy=False) if self.table is None else X.block(s)
                xp = library_of(block)
                found: Float = xp.concat([xp.sum(block, axis=1)[:, None], small_product(block, part)], axis=1)
                return found

            total = self.summed(of)
            sums, products = total[:, 0], total[:, 1:]
        return np.asarray(((products - np.outer(sums, A.mean)) / A.scale)[:, self.order])

    def _write(self, columns: Positions, first: int) -> None:
        """Standardise columns that are not held."""
        k, begin, self._held = columns.size, max(first, 1), columns
        plain = self.plain(columns[begin:])
        if self.table is None and k > self._Z.shape[1]:
            wider = np.empty((len(self.slices), max(k, 2 * self._Z.shape[1]), self._rows))
            wider[:, :first] = self._Z[:, :first]
            self._Z = wider

        def write(s: slice) -> slice:
            block = self._kept(s)
            block[:1, :] = 1.0
            block[begin:k, :] = plain(s)
            return s

        self.each(write)

    def _with_ones(self, Z: Float) -> Float:
        device = self.A.X.device
        both: Float = device.xp.concat([device.zeros((1, Z.shape[1])) + 1.0, Z], axis=0)
        return both


def leading(columns: Positions, held: Positions) -> int:
    """Return how many columns at the beginning are the same."""
    common = min(columns.size, held.size)
    same = columns[:common] == held[:common]
    return common if same.all() else int(np.argmin(same))


def weighted_square(Z: Float, weight: Float, positive: bool = True) -> Float:
    """Return Z diag(weight) Z' for Z (k, m)."""
    if not positive:
        return (Z * weight) @ Z.T
    Z = Z * library_of(weight).sqrt(weight)  # BLAS multiplies a matrix by its own transpose faster
    return Z @ Z.T


def small_product(A: Float, B: Float) -> Float:
    """Return the product of matrices of any library; other threads can go on meanwhile, however small it is."""
    return product(A, B) if isinstance(A, np.ndarray) else A @ B
