"""Selection rules: r_g' M_g⁻¹ r_g for every group, where only M_g differs.

A rule is made from the groups' diagonal blocks C_g, updated after every choice (``absorb``), and asked for scores. To
add one, subclass `Rule` and enter it in `RULES`.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from budgetline.arrays import Float, Mask, Positions
from budgetline.leastsquares.gram import SizeClass, nested_squares, whiten

BOUGHT = 1e100
"""Diagonal of the blocks that replace those of chosen groups: their scores become tiny."""


class Rule:
    """Scores of all groups from the gradient r, shape (D, P), in group-major order."""

    def __init__(self, classes: list[SizeClass]) -> None:
        self.n_groups = sum(c.groups.size for c in classes)
        self._set(classes)

    def _set(self, classes: list[SizeClass]) -> None:
        self.classes, self._class_of = classes, np.zeros(self.n_groups, dtype=np.intp)
        for k, c in enumerate(classes):
            self._class_of[c.groups] = k

    def _place(self, g: int) -> tuple[int, int]:
        """Return the class of a group, and where in it the group is."""
        k = int(self._class_of[g])
        return k, int(np.searchsorted(self.classes[k].groups, g))

    def begin(self, gradient: Callable[[], Float]) -> None:
        """Prepare for a sequence; ``gradient`` returns r of the empty set, shape (D, P)."""

    def absorb(self, rows: Float) -> None:
        """Update after a choice that appended ``rows``, shape (m, D), to the factor P."""

    def forget(self, g: int) -> None:
        """Note that group g has been chosen: its score does not matter any more."""

    def narrow(self, groups: Mask, columns: Mask) -> None:
        """Keep only the groups of a mask (J,); rows and gradients will have only the columns of a mask (D,)."""
        place = np.cumsum(columns) - 1
        stays = {k: stay for k, c in enumerate(self.classes) if (stay := groups[c.groups]).any()}
        parts = [(self.classes[k], stay) for k, stay in stays.items()]
        self._set([SizeClass(c.groups[stay], place[c.columns[stay]], c.blocks[stay]) for c, stay in parts])
        self._narrow(stays, columns)

    def _narrow(self, stays: dict[int, Mask], columns: Mask) -> None:
        """Keep only the classes of ``stays``, and of each the groups that a mask (J_s,) marks."""

    def scores(self, r: Float) -> Float:
        """Return one score per group, shape (J,)."""
        scores = np.zeros(self.n_groups)
        for k, c in enumerate(self.classes):
            scores[c.groups] = self._class_scores(k, r[c.columns])
        return scores

    def joint_scores(self, columns: Positions, ends: Positions, r: Float, block: Callable[[], Float]) -> Float:
        """Return the scores of the first ``ends[k]`` of some columns (s,) as one group, for every k.

        ``r`` has shape (D, P); ``block`` returns C, or for ``forward`` the Schur complement, of these columns (s, s).
        """
        M, own = block(), r[columns]
        merged = [SizeClass(np.zeros(1, dtype=np.intp), np.arange(e)[None], M[None, :e, :e]) for e in ends.tolist()]
        return np.array([float(type(self)([c]).scores(own)[0]) for c in merged])

    def _class_scores(self, k: int, r: Float) -> Float:
        """Score the groups of one size; ``r`` has shape (J_s, s, P)."""
        raise NotImplementedError


class _Whitened(Rule):
    """Rules of the gradient whitened by a matrix M_g."""

    def joint_scores(self, columns: Positions, ends: Positions, r: Float, block: Callable[[], Float]) -> Float:
        """Return nested scores: the leading part of one factorisation is that of the leading columns."""
        return nested_squares(whiten(block()[None], r[columns][None])[0], ends)


class ForwardRegression(_Whitened):
    """``forward``: M_g is the Schur complement C_g − C_gS C_S⁻¹ C_Sg, so that half the score is the exact gain."""

    def __init__(self, classes: list[SizeClass]) -> None:
        super().__init__(classes)
        # Replaced blocks are scored in units of their own columns, even if little is left of them.
        self.unit = [np.ones(c.columns.shape) for c in classes]
        self.replaced = [False for _ in classes]
        self.schur = [c.blocks.copy() for c in classes]

    def _narrow(self, stays: dict[int, Mask], columns: Mask) -> None:
        self.unit = [self.unit[k][stay] for k, stay in stays.items()]
        self.replaced = [self.replaced[k] for k in stays]
        self.schur = [self.schur[k][stay] for k, stay in stays.items()]

    def forget(self, g: int) -> None:
        """Replace the block of a group if only rounding noise is left of it: a singular block would slow down all."""
        k, i = self._place(g)
        self.schur[k][i], self.unit[k][i] = BOUGHT * np.eye(len(self.unit[k][i])), 1.0

    def absorb(self, rows: Float) -> None:
        for c, schur in zip(self.classes, self.schur, strict=True):
            new = rows[:, c.columns].transpose(1, 0, 2)
            schur -= new.transpose(0, 2, 1) @ new

    def faded(self, share: float) -> Positions:
        """Return the groups with a column that has shrunk below ``share`` of its variance."""
        least = [np.einsum("jaa->ja", schur).min(axis=1) for schur in self.schur]
        return np.concatenate([c.groups[low < share] for c, low in zip(self.classes, least, strict=True)])

    def replace(self, g: int, block: Float, spread: Float) -> None:
        """Replace the Schur block (s, s) of one group; ``spread`` (s,) are its columns' norms, 0 for those left out."""
        k, i = self._place(g)
        self.schur[k][i], self.replaced[k] = block, True
        self.unit[k][i] = np.divide(1.0, spread, out=np.zeros_like(spread), where=spread > 0)

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

    def _narrow(self, stays: dict[int, Mask], columns: Mask) -> None:
        self.whiteners = [self.whiteners[k][stay] for k, stay in stays.items()]

    def _class_scores(self, k: int, r: Float) -> Float:
        return np.asarray(((self.whiteners[k] @ r) ** 2).sum(axis=(1, 2)))


class Static(OrthogonalMatchingPursuit):
    """``static``: the gain of every group on its own, b_g' C_g⁻¹ b_g, whatever has been chosen before."""

    _start: Float
    _first: Float

    def begin(self, gradient: Callable[[], Float]) -> None:
        self._start = gradient()
        self._first = super().scores(self._start)

    def scores(self, r: Float) -> Float:
        return self._first

    def joint_scores(self, columns: Positions, ends: Positions, r: Float, block: Callable[[], Float]) -> Float:
        return super().joint_scores(columns, ends, self._start, block)

    def _narrow(self, stays: dict[int, Mask], columns: Mask) -> None:
        super()._narrow(stays, columns)
        self._start = self._start[columns]


class NoWhiten(Rule):
    """``no-whiten``: M_g = I."""

    def _class_scores(self, k: int, r: Float) -> Float:
        return np.asarray((r**2).sum(axis=(1, 2)))


class Single(Rule):
    """``single``: the best single column, max_d ‖r_d‖²."""

    def _class_scores(self, k: int, r: Float) -> Float:
        return np.asarray((r**2).sum(axis=2).max(axis=1))


# One Newton step is exact for least squares, so there ``score`` is ``forward``.
RULES: dict[str, type[Rule]] = {
    "forward": ForwardRegression,
    "omp": OrthogonalMatchingPursuit,
    "score": ForwardRegression,
    "no-whiten": NoWhiten,
    "single": Single,
    "static": Static,
}


def _identities(blocks: Float) -> Float:
    return np.broadcast_to(np.eye(blocks.shape[1]), blocks.shape).copy()
