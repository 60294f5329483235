"""Selection rules: r_g' M_g⁻¹ r_g for every group, where only M_g differs.

A rule is made from the groups' diagonal blocks C_g, updated after every choice (``absorb``), and asked for scores. To
add one, subclass :class:`Rule` and enter it in :data:`RULES`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce

import numpy as np

from budgetline.arrays import Float, Positions
from budgetline.objectives.blocks import SizeClass, nested_squares, whiten

Ints = Positions

SMALL = 8
"""Blocks of at most this size are updated entry by entry, for all groups together; BLAS updates larger ones faster."""


class Rule:
    """Scores of all groups from the gradient r, shape (D, P), in group-major order."""

    def __init__(self, classes: list[SizeClass]) -> None:
        self.classes = classes
        self.n_groups = sum(c.groups.size for c in classes)

    def absorb(self, rows: Float) -> None:
        """Update after a choice that appended ``rows``, shape (m, D), to the factor P."""

    def scores(self, r: Float) -> Float:
        """Return one score per group, shape (J,)."""
        scores = np.empty(self.n_groups)
        for k, c in enumerate(self.classes):
            scores[c.groups] = self._class_scores(k, r[c.columns])
        return scores

    def joint_scores(self, columns: Ints, ends: Ints, r: Float, block: Callable[[], Float]) -> Float:
        """Return the scores of the first ``ends[k]`` of some columns, for every k, as if they were one group each.

        Parameters
        ----------
        columns : int array of shape (s,)
        ends : int array
            Increasing.
        r : array of shape (D, P)
        block : callable
            Returns C, or for ``fr`` the Schur complement, of these columns, shape (s, s).
        """
        M, own = block(), r[columns]
        merged = [SizeClass(np.zeros(1, dtype=np.intp), np.arange(e)[None], M[None, :e, :e]) for e in ends.tolist()]
        return np.array([float(type(self)([c]).scores(own)[0]) for c in merged])

    def _class_scores(self, k: int, r: Float) -> Float:
        """Score the groups of one size; ``r`` has shape (J_s, s, P)."""
        raise NotImplementedError


class _Whitened(Rule):
    """Rules of the gradient whitened by a matrix M_g."""

    def joint_scores(self, columns: Ints, ends: Ints, r: Float, block: Callable[[], Float]) -> Float:
        """Return nested scores: the leading part of one factorisation is that of the leading columns."""
        return nested_squares(whiten(block()[None], r[columns][None])[0], ends)


class ForwardRegression(_Whitened):
    """``fr``: M_g is the Schur complement C_g − C_gS C_S⁻¹ C_Sg, so that half the score is the exact gain."""

    def __init__(self, classes: list[SizeClass]) -> None:
        super().__init__(classes)
        self.schur = [_along(c.blocks) if c.blocks.shape[1] <= SMALL else c.blocks.copy() for c in classes]
        self.spare = [np.empty_like(schur) for schur in self.schur]  # fresh memory takes longer than the products
        # Replaced blocks are scored in units of their own columns, even if little is left of them.
        self.unit = [np.ones(c.columns.shape) for c in classes]
        self.replaced = [False for _ in classes]
        # columns that lie one after another need not be gathered
        self.adjacent = [bool(np.all(np.diff(c.columns.ravel()) == 1)) for c in classes]

    def absorb(self, rows: Float) -> None:
        """Subtract what the new rows explain of every block; of small ones, only the upper triangle is kept up."""
        for c, schur, spare, adjacent in zip(self.classes, self.schur, self.spare, self.adjacent, strict=True):
            first, (count, size) = c.columns[0, 0], c.columns.shape
            own = rows[:, first : first + count * size] if adjacent else rows[:, c.columns.ravel()]
            if size <= SMALL:
                new = np.ascontiguousarray(own.reshape(-1, count, size).transpose(2, 0, 1))
                for a in range(size):
                    schur[:, a, a:].T[...] -= np.einsum("mj,bmj->bj", new[a], new[a:])
            else:
                new = np.ascontiguousarray(own.T).reshape(count, size, -1)
                schur -= np.matmul(new, new.transpose(0, 2, 1), out=spare)

    def faded(self, share: float) -> Positions:
        """Return the groups with a column that has shrunk below ``share`` of its variance."""
        least = [reduce(np.minimum, np.einsum("jaa->aj", schur)) for schur in self.schur]
        return np.concatenate([c.groups[low < share] for c, low in zip(self.classes, least, strict=True)])

    def replace(self, g: int, block: Float, spread: Float) -> None:
        """Replace the Schur block (s, s) of one group; ``spread`` (s,) are its columns' norms, 0 for those left out."""
        for k, (c, schur, unit) in enumerate(zip(self.classes, self.schur, self.unit, strict=True)):
            if (where := np.flatnonzero(c.groups == g)).size:
                schur[where], self.replaced[k] = block, True
                unit[where] = np.divide(1.0, spread, out=np.zeros_like(spread), where=spread > 0)

    def _class_scores(self, k: int, r: Float) -> Float:
        if not self.replaced[k]:
            return np.asarray((whiten(self.schur[k], r) ** 2).sum(axis=(1, 2)))
        unit = self.unit[k][:, :, None]
        return np.asarray((whiten(self.schur[k] * unit * unit.transpose(0, 2, 1), r * unit) ** 2).sum(axis=(1, 2)))


class OrthogonalMatchingPursuit(_Whitened):
    """``omp``: M_g = C_g, the gradient whitened within the group."""

    def __init__(self, classes: list[SizeClass]) -> None:
        super().__init__(classes)
        self.whiteners = [whiten(c.blocks, _identities(c.blocks)) for c in classes]

    def _class_scores(self, k: int, r: Float) -> Float:
        return np.asarray(((self.whiteners[k] @ r) ** 2).sum(axis=(1, 2)))


class Static(OrthogonalMatchingPursuit):
    """``static``: the gain of every group on its own, b_g' C_g⁻¹ b_g, whatever has been chosen before."""

    _start: Float | None = None
    _first: Float | None = None

    def scores(self, r: Float) -> Float:
        """Return the scores at the first gradient seen, which is that of the empty set."""
        if self._first is None:
            self._first = super().scores(self._at_start(r))
        return self._first

    def joint_scores(self, columns: Ints, ends: Ints, r: Float, block: Callable[[], Float]) -> Float:
        """Return nested scores at the first gradient seen."""
        return super().joint_scores(columns, ends, self._at_start(r), block)

    def _at_start(self, r: Float) -> Float:
        if self._start is None:
            self._start = r.copy()
        return self._start


class NoWhiten(Rule):
    """``no-whiten``: M_g = I."""

    def joint_scores(self, columns: Ints, ends: Ints, r: Float, block: Callable[[], Float]) -> Float:
        """Return nested scores: sums over the columns."""
        return nested_squares(r[columns], ends)

    def _class_scores(self, k: int, r: Float) -> Float:
        return np.asarray((r**2).sum(axis=(1, 2)))


class Single(Rule):
    """``single``: the best single column, max_d ‖r_d‖²."""

    def joint_scores(self, columns: Ints, ends: Ints, r: Float, block: Callable[[], Float]) -> Float:
        """Return nested scores: maxima over the columns."""
        return np.asarray(np.maximum.accumulate((r[columns] ** 2).sum(axis=1))[ends - 1])

    def _class_scores(self, k: int, r: Float) -> Float:
        return np.asarray((r**2).sum(axis=2).max(axis=1))


# One Newton step is exact for least squares, so there ``score`` is ``fr``.
RULES: dict[str, type[Rule]] = {
    "fr": ForwardRegression,
    "omp": OrthogonalMatchingPursuit,
    "score": ForwardRegression,
    "no-whiten": NoWhiten,
    "single": Single,
    "static": Static,
}


def _along(blocks: Float) -> Float:
    """Return a copy of blocks (J, s, s) in which the same entries of all groups lie one after another."""
    return np.ascontiguousarray(blocks.transpose(1, 2, 0)).transpose(2, 0, 1)


def _identities(blocks: Float) -> Float:
    return np.broadcast_to(np.eye(blocks.shape[1]), blocks.shape).copy()
