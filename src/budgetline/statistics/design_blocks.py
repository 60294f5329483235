"""The chosen columns of Z in blocks of rows: standardised once, contiguous, and kept while columns are added."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import numpy as np
from scipy import sparse

from budgetline.arrays import Float, Positions
from budgetline.statistics.columns import StandardisedColumns
from budgetline.threads import in_threads

LARGEST_BUFFER = 1 << 32
"""Memory for all columns is reserved at once if it takes at most this many bytes."""

Blocks = Callable[[slice], Float]
"""Maps rows to an array."""


class DesignBlocks:
    """Columns of Z = [1, X standardised], numbered from 0 as in ``statistics/engines.py``.

    Parameters
    ----------
    A : StandardisedColumns, shape (n, D)
    order : int array of shape (D,)
        Columns of A, group after group.
    slices : list of slices
        Blocks of rows, all but the last of the same size.
    threads : int
        How many write columns, at most.
    given : array of shape (n, 1 + D), optional
        All columns of Z, if available.
    """

    def __init__(
        self, A: StandardisedColumns, order: Positions, slices: list[slice], threads: int, given: Float | None = None
    ) -> None:
        self._threads = threads
        self._A, self._order, self._slices, self._given, self._held = A, order, slices, given, np.arange(0)
        self._rows = slices[0].stop
        # columns of a block lie one after another; those not written yet take no memory
        self._all_fit = 8 * slices[-1].stop * order.size <= LARGEST_BUFFER
        room = order.size + 1 if self._all_fit else 1
        self._Z = np.empty((len(slices), 0 if given is not None else room, self._rows))

    def of(self, columns: Positions) -> Blocks:
        """Return blocks (k, m) of columns, the first being 0; leading columns made earlier are reused."""
        if self._given is not None:
            given = self._given
            return lambda s: given[s, columns].T if columns.size < given.shape[1] else given[s].T
        common = min(columns.size, self._held.size)
        same = columns[:common] == self._held[:common]
        first = common if same.all() else int(np.argmin(same))
        if first < columns.size and self._held.size == 1 + self._order.size:
            self._rearrange(self._swapped(columns, first))
        elif first < columns.size:
            self._write(columns, first)
        k = columns.size
        return lambda s: self._Z[s.start // self._rows, :k, : s.stop - s.start]

    def rest(self, columns: Positions) -> tuple[Positions, Blocks]:
        """Return the columns other than these, in ascending order, and blocks (m', m) of them.

        If there is room, all columns are kept from then on, and change places when others are chosen.
        """
        given, k, every = self._given, columns.size, np.arange(1 + self._order.size)
        others = every[~np.isin(every, columns)]
        if given is not None:
            return others, lambda s: given[s, others].T
        if not self._all_fit:
            return others, self.plain(others)
        self.of(columns)
        if not np.array_equal(self._held, (order := np.concatenate([columns, others]))):
            if self._held.size == every.size:
                self._rearrange(order)
            else:
                self._write(order, k)
        return others, lambda s: self._Z[s.start // self._rows, k:, : s.stop - s.start]

    def picked(self, columns: Positions, rows: Positions) -> Float:
        """Return some rows (m,), in ascending order, of columns, the first being 0, shape (k, m)."""
        self.of(columns)
        if self._given is not None:
            return self._given[np.ix_(rows, columns)].T
        ends = np.searchsorted(rows, [s.stop for s in self._slices]).tolist()
        kept = [(b, rows[i:j] - b * self._rows) for b, (i, j) in enumerate(pairwise([0, *ends])) if i < j]
        return np.hstack([self._Z[b, : columns.size].take(index, axis=1) for b, index in kept])

    def plain(self, columns: Positions) -> Blocks:
        """Return blocks (k, m) of columns other than the intercept, made for this call."""
        A, index = self._A, self._order[columns - 1]
        if sparse.issparse(A.X):
            dense = A.plain(index)
            return lambda s: dense[s].T
        return lambda s: A.plain(index, s).T

    def _swapped(self, columns: Positions, first: int) -> Positions:
        """Return all columns, beginning with these, of which some are in place; those displaced take their places."""
        order, place = self._held.copy(), np.argsort(self._held)
        for k, column in enumerate(columns[first:].tolist(), first):
            other, there = order[k], place[column]
            order[[k, there]], place[[column, other]] = [column, other], [k, there]
        return order

    def _rearrange(self, columns: Positions) -> None:
        """Put all columns into another order; those that keep their places are not touched."""
        moved = np.flatnonzero(self._held != columns)
        sources = np.argsort(self._held)[columns[moved]]

        def move(stripe: list[slice]) -> None:
            for s in stripe:
                block = self._Z[s.start // self._rows]
                block[moved] = block[sources]

        in_threads(move, self._slices, self._threads)
        self._held = columns

    def _write(self, columns: Positions, first: int) -> None:
        if columns.size > self._Z.shape[1]:
            wider = np.empty((len(self._slices), max(columns.size, 2 * self._Z.shape[1]), self._rows))
            wider[:, :first] = self._Z[:, :first]
            self._Z = wider
        begin = max(first, 1)
        plain = self.plain(columns[begin:])

        def write(stripe: list[slice]) -> None:
            for s in stripe:
                block = self._Z[s.start // self._rows, : columns.size, : s.stop - s.start]
                block[:1] = 1.0
                block[begin:] = plain(s)

        in_threads(write, self._slices, self._threads)
        self._held = columns
