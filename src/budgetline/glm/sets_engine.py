"""The engine of losses over sets of rows (``glm/row_sets.py``): rows in memory, in the order of the segments.

Sets have no intercept: adding a constant to all scores of a set changes nothing. So that one exists for the other
modules, the risk gets the term ½c² of the intercept c, which keeps it at zero (a chunk its share of that).

A Hessian is a Gram matrix of rows less one of means of sets. Blocks of rows end where a set ends, so a block's means
need only its own rows and, where sets are nested, the sums of the rows before it in its segment.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from budgetline.arrays import Float, Positions
from budgetline.data.rows import Rows
from budgetline.glm.engines import Loss, Point
from budgetline.glm.row_blocks import ALONE_ROWS, FEWEST_ROWS, Design, RowBlocks, weighted_square
from budgetline.glm.row_sets import RowSets, SetPoint
from budgetline.glm.rows_engine import RowsEngine, RowsPoint, blocks_of, engine_of_rows
from budgetline.glm.set_families import SetFamily
from budgetline.messages import shown
from budgetline.moments.columns import StandardisedColumns, standardised_columns


def engine_for(
    rows: Rows,
    order: Positions,
    family: Loss | SetFamily,
    names: Sequence[str] | None = None,
    weights: Float | None = None,
    *,
    alone: bool = False,
) -> RowsEngine:
    """Return the engine of rows in memory for a loss; parameters as of ``engine_of_rows``."""
    if not isinstance(family, SetFamily):
        return engine_of_rows(rows, order, family, names, weights, alone=alone)
    if rows.on_device is not None:
        raise TypeError(f"loss {shown(family.loss)} is computed on the host: pass a NumPy array, not one on a device")
    A, _, _ = standardised_columns(rows, names, weights)
    sets = family.sets(rows.Y, A.root**2)
    A = replace(A, X=A.X[sets.order], root=A.root[sets.order])
    engine = SetsEngine(A, sets, order, ALONE_ROWS if alone else FEWEST_ROWS)
    check_comparable(engine.y_spread, family.loss, some=bool(sets.target.any()))
    return engine


def check_comparable(spread: float, loss: str, *, some: bool = True) -> None:
    """Raise an error if nothing can be learned from the targets: there are none, or no scores are better than equal."""
    if spread < ROUNDING:
        none, equal = NOTHING[loss]
        raise ValueError(equal if some else none)


ROUNDING = 1e-9
NOTHING = {
    "listwise": (
        "no query of positive weight has a relevant document: y must be above zero somewhere",
        "no query has documents of different grades: nothing says which comes first",
    ),
    "cox": (
        "no row of positive weight has an event: nothing can be learned from times of censoring alone",
        "no event comes before that of another row of its stratum: nothing says who is at risk",
    ),
}
"""Errors about targets from which nothing can be learned, by loss."""


FEW = 2
"""Products with columns at least this many times fewer than the others need no means of the others."""


class SetsEngine(RowsEngine):
    """Rows of sets, dense or sparse; ``A`` holds them in the order of the sets, ``order`` (D,) are its columns."""

    few = 0  # means of sets make a Hessian expensive
    stale = 0.05  # a sequence of 136 columns took 541 passes; 793 without this, 630 with 0.1, 517 with 0.03

    def __init__(self, A: StandardisedColumns, sets: RowSets, order: Positions, fewest: int = FEWEST_ROWS) -> None:
        self.A, self.sets, self.order = A, sets, order
        self.n_rows, self.x_mean, self.x_scale, self.weight = len(sets.order), A.mean, A.scale, A.root**2
        self.design = Design(A, order, fewest, sets.firsts)
        self.y_mean, self.saturated, self.share = np.zeros(1), sets.saturated, float(self.weight.sum())
        null = sets.at(np.zeros(self.n_rows))
        self.y_spread = float(np.sqrt(np.sum(null.residual**2 / self.weight)))
        self.parts = {s.start: BlockSets.of(s, sets) for s in self.design.slices}
        self.last: Float | None = None

    def over(self, A: StandardisedColumns) -> SetsEngine:
        """Return the engine of other columns of the same rows."""
        return SetsEngine(A, self.sets, np.arange(A.scale.size))

    def drift(self, point: Point) -> float:
        assert isinstance(point, SetsPoint)
        now = point.sets.weight
        return np.inf if self.last is None else float(np.abs(now - self.last).sum() / now.sum())

    @cached_property
    def null(self) -> SetsPoint:
        """The point where all scores are zero."""
        return self.at(np.zeros(1, dtype=np.intp), np.zeros((1, 1)))

    def covariance(self, groups: Positions) -> Float:
        """Return the Hessian of groups of one size where all scores are zero: the covariance within sets."""
        return self.null.blocks(groups)

    def at(self, columns: Positions, theta: Float) -> SetsPoint:
        """Return the point at θ: a pass for the scores, and one for the gradient."""
        Z = self.design.of(columns)
        eta = np.concatenate(self.design.each(lambda s: theta.T @ Z(s)), axis=1)
        point = self.sets.at(eta[0])
        descent = self.design.summed(lambda s: Z(s) @ point.residual[s, None])
        descent[0] -= self.share * theta[0]
        return SetsPoint(self, eta, point.residual[None], columns, descent, point, float(theta[0, 0]))


@dataclass(frozen=True)
class BlockSets:
    """The sets of a block of rows: a slice of all sets, and the first and last row of each, counted from the block's.

    ``begins`` are the positions, among the sets of the block, of the first set of each one's segment; 0 if that is in
    an earlier block. ``goes_on``: the first segment began in an earlier block. ``last``: the row with which the last
    segment begins.
    """

    sets: slice
    firsts: Positions
    lasts: Positions
    begins: Positions
    goes_on: bool
    last: int

    @classmethod
    def of(cls, s: slice, sets: RowSets) -> BlockSets:
        """Return the sets of a block, which begins and ends with a set."""
        own = slice(*np.searchsorted(sets.firsts, [s.start, s.stop]).tolist())
        numbers = np.arange(own.start, own.stop)
        segment = sets.segments[np.searchsorted(sets.segments, numbers, side="right") - 1]
        begins = np.maximum(segment - own.start, 0)
        last = sets.firsts[own.start + begins[-1]] - s.start
        firsts = sets.firsts[own] - s.start
        lasts = np.append(firsts[1:], s.stop - s.start) - 1
        return cls(own, firsts, lasts, begins, bool(segment[0] < own.start), int(last))


@dataclass(frozen=True)
class SetsPoint(RowsPoint):
    """A point of rows with the loss over sets at their scores, and the intercept ``level``."""

    engine: SetsEngine
    sets: SetPoint
    level: float

    @property
    def risk(self) -> float:
        return self.sets.risk + self.engine.share * self.level**2 / 2

    def hessian(self, columns: Positions, score: int | None = None, within: float = 0.0) -> Float:
        """Return H, always exact."""
        engine, Z = self.engine, self.engine.design.of(columns)
        if columns.size == 1:  # a constant in all scores changes nothing but the term of the intercept
            return np.full((1, 1), engine.share)
        engine.last, H = self.sets.weight, self._products(Z, Z)
        H[0, 0] += engine.share
        return H

    def cross(self, columns: Positions, others: Positions | None) -> Float:
        design = self.engine.design
        Z, A = design.of(columns), design.beyond(columns, others)
        if others is not None and FEW * others.size <= columns.size:
            return self._times(Z, A)
        return self._products(Z, A)

    def blocks(self, groups: Positions) -> Float:
        return blocks_of(self.engine.design, groups, 1, lambda Z, _: self._products(Z, Z))

    def product(self, columns: Positions, V: Float) -> Float:
        Z = self.engine.design.of(columns)
        found = self._times(Z, lambda s: V.T @ Z(s))
        found[0] += self.engine.share * V[0]
        return found

    def _times(self, Z: RowBlocks, A: RowBlocks) -> Float:
        """Return what ``_products`` does, for few a: no means of z are needed if those of a are spread over the rows.

        Σ_s d_s m_s(z) m_s(a)' is Σ_j z_j share_j v_j', where v_j is the sum of root·mean of a over the sets with j.
        """
        engine, point, sets = self.engine, self.sets, self.engine.sets
        a = np.concatenate(engine.design.each(A), axis=1)
        raised = a * point.share
        means = point.root * sets.accumulated(raised)
        spread = point.weight * a
        if point.rest.any():
            tied = np.add.reduceat(raised * sets.tied, sets.firsts, axis=1)
            means -= point.root * point.less * tied
            own = point.rest**2 * tied - point.less * point.root * means
            spread -= point.share * sets.tied * sets.repeated(own)
        spread -= point.share * sets.spread(point.root * means)
        return engine.design.summed(lambda s: Z(s) @ spread[:, s].T)

    def _products(self, Z: RowBlocks, A: RowBlocks) -> Float:
        """Return Σ_j c_j z_j a_j' − Σ_s d_s m_s(z) m_s(a)', shape (k, m)."""
        engine, weight, same = self.engine, self.sets.weight, A is Z
        before_Z = self._before(Z)
        before_A = before_Z if same else self._before(A)

        def of(s: slice) -> Float:
            left = Z(s)
            means = self._means(left, s, before_Z)
            if same:
                return weighted_square(left, weight[s]) - means @ means.T
            right = A(s)
            found: Float = (left * weight[s]) @ right.T - means @ self._means(right, s, before_A).T
            return found

        return engine.design.summed(of)

    def _before(self, Z: RowBlocks) -> dict[int, Float]:
        """Return Σ share·z of the rows before each block, in the segment that goes on there; by first rows."""
        parts, share = self.engine.parts, self.sets.share
        if not self.engine.sets.nested:
            return {}

        def of(s: slice) -> Float:
            last = slice(s.start + parts[s.start].last, s.stop)
            found: Float = Z(s)[:, last.start - s.start :] @ share[last]
            return found

        sums, found = self.engine.design.each(of), dict[int, Float]()
        total: Float = np.zeros(1)
        for s, own in zip(self.engine.design.slices, sums, strict=True):
            found[s.start] = total
            total = total + own if parts[s.start].last == 0 and parts[s.start].goes_on else own
        return found

    def _means(self, Z: Float, s: slice, before: dict[int, Float]) -> Float:
        """Return means of the sets that end in a block Z (k, m), times √d; two of sets with tied events."""
        part, sets = self.engine.parts[s.start], self.engine.sets
        own, raised = part.sets, Z * self.sets.share[s]
        if sets.nested:
            sums = np.cumsum(raised, axis=1)[:, part.lasts]
            if part.begins.any():
                sums -= np.concatenate([np.zeros((len(Z), 1)), sums], axis=1)[:, part.begins]
            if part.goes_on:
                sums[:, part.begins == 0] += before[s.start][:, None]
        else:
            sums = np.add.reduceat(raised, part.firsts, axis=1)
        root, rest = self.sets.root[own], self.sets.rest[own]
        if not rest.any():
            sums *= root
            return sums
        tied = np.add.reduceat(raised * sets.tied[s], part.firsts, axis=1)
        return np.hstack([(sums - self.sets.less[own] * tied) * root, (tied * rest)[:, rest > 0]])
