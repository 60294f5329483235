"""The engine of rows in memory, on the host or on a device: scores and residuals of all rows are kept at every point.

All sums are those of `Design`, so this module is written once for arrays of any library. D × D matrices are copied to
the host.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from operator import add

import numpy as np
from scipy import sparse

from budgetline.arrays import Float, Positions
from budgetline.data.rows import Rows
from budgetline.devices import library_of, on_host
from budgetline.glm.engines import Curvature, Loss, Point, target_level
from budgetline.glm.partial_hessian import KeptHessian, updated_hessian
from budgetline.glm.row_blocks import ALONE_ROWS, FEWEST_ROWS, Design, RowBlocks, leading, small_product
from budgetline.moments.columns import StandardisedColumns, standardised_columns
from budgetline.moments.tallies import RowSample, sample_of
from budgetline.threads import map_in_threads, stripes_of

TOGETHER = 48
"""Groups are multiplied together with their neighbours, about this many columns at a time: BLAS is slow on small
matrices."""


def engine_of_rows(
    rows: Rows,
    order: Positions,
    loss: Loss,
    names: Sequence[str] | None = None,
    weights: Float | None = None,
    *,
    alone: bool = False,
) -> RowsEngine:
    """Check and standardise rows, with penalty weights (D,); ``alone``: one thread does the work of small tables."""
    A, _, _ = standardised_columns(rows, names, weights)
    loss.check(rows.Y)
    return RowsEngine(A, loss.internal(rows.Y), order, loss, ALONE_ROWS if alone else FEWEST_ROWS)


class RowsEngine:
    """Rows in memory, dense or sparse, or on a device.

    ``targets`` (n, Q) are those of the internal scores, ``order`` (D,) are the columns of A, group after group, and
    blocks have ``fewest`` rows or more.
    """

    few: float = 48  # 39 columns on 2 cores, 200 on 16
    stale = np.inf  # with 0.1, two logistic sequences took a tenth longer: their Hessians are updated in part anyway

    def __init__(
        self, A: StandardisedColumns, targets: Float, order: Positions, loss: Loss, fewest: int = FEWEST_ROWS
    ) -> None:
        self.A, self.targets, self.order, self.loss = A, targets, order, loss
        self.n_rows, self.x_mean, self.x_scale, self.weight = len(targets), A.mean, A.scale, A.root**2
        self.y_mean, self.y_spread = target_level(targets, self.weight)
        self.design = design = Design(A, order, fewest)
        self.local_targets, self.local_weight = design.put(targets.T), design.put(self.weight)
        self.kept: KeptHessian | None = None

    @property
    def sample_size(self) -> float:
        return float(self.weight.sum() ** 2 / (self.weight @ self.weight))

    @cached_property
    def saturated(self) -> float:
        return float(self.weight @ self.loss.saturated(self.targets))

    def covariance(self, groups: Positions) -> Float:
        whole = Curvature(self.local_weight[:, None])
        return blocks_of(self.design, groups, 1, lambda Z, k: self.products(Z, Z, whole, (k, 1, k, 1)))

    def at(self, columns: Positions, theta: Float) -> RowsPoint:
        Z, right = self.design.of(columns), self.design.put(theta.T)

        def of(s: slice) -> tuple[Float, Float, Float]:
            block = Z(s)
            eta = right @ block
            residual = (self.local_targets[:, s] - self.loss.mean(eta.T).T) * self.local_weight[s]
            return eta, residual, small_product(block, residual.T)

        scores, residuals, descents = zip(*self.design.each(of), strict=True)
        xp = library_of(scores[0])
        eta, residual = (parts[0] if len(parts) == 1 else xp.concat(parts, axis=1) for parts in (scores, residuals))
        return RowsPoint(self, eta, residual, columns, on_host(reduce(add, descents)))

    def drift(self, point: Point) -> float:
        assert isinstance(point, RowsPoint)
        if self.kept is None:
            return np.inf
        now, before = point.curvature.scale[:, 0], self.kept.curvature
        return float(np.abs(now - before * (now.sum() / before.sum())).sum() / now.sum())

    def over(self, A: StandardisedColumns) -> RowsEngine:
        """Return the engine of other columns of the same rows."""
        return RowsEngine(A, self.targets, np.arange(A.scale.size), self.loss)

    def products(
        self, Z: RowBlocks, A: RowBlocks | None, curvature: Curvature, shape: tuple[int, int, int, int]
    ) -> Float:
        """Return Σ curvature ⊗ za', shape (k, Q, m, Q), for blocks Z (k, …) and A (m, …); None: of all columns of X."""
        k, Q, m, _ = shape
        if curvature.contrasts is not None and k * m < Q * Q:
            return self._by_columns(Z, self.design.plain(None) if A is None else A, curvature, shape)
        H = np.empty(shape)
        for q in range(Q):
            for r in range(q + 1):
                H[:, q, :, r] = H[:, r, :, q] = self._weighted(Z, A, curvature.between(q, r), k, q == r)
        return H

    def _weighted(self, Z: RowBlocks, A: RowBlocks | None, weight: Float, k: int, positive: bool) -> Float:
        if A is None:
            return self.design.project(lambda s: Z(s) * weight[s], k)
        return self.design.square(Z, weight, positive) if Z is A else self.design.cross(Z, A, weight)

    def _by_columns(self, Z: RowBlocks, A: RowBlocks, curvature: Curvature, shape: tuple[int, int, int, int]) -> Float:
        """Return the same for few columns and many scores, from a matrix of scores for each pair of columns."""
        k, Q, m, _ = shape

        def of(s: slice) -> Float:
            left, right, part = Z(s), A(s), curvature.rows(s)
            pairs = [part.total(left[i, :] * right[j, :]) for i in range(k) for j in range(m)]
            found: Float = library_of(left).stack(pairs, axis=0)
            return found

        return self.design.summed(of).reshape(k, m, Q, Q).transpose(0, 2, 1, 3)

    def sample(self, columns: Positions, most: int) -> RowSample:
        X, index = self.A.X, self.order[columns - 1]
        whole = sparse.issparse(X) or self.design.table is not None
        stripes = [[slice(0, self.n_rows)]] if whole else stripes_of(self.design.slices)

        def of(stripe: list[slice]) -> RowSample:
            return reduce(add, (sample_of(X[s], self.weight[s], index, most) for s in stripe))

        return reduce(add, map_in_threads(of, stripes)).standardised(self.x_mean[index], self.x_scale[index])


def blocks_of(design: Design, groups: Positions, n_scores: int, square: Callable[[RowBlocks, int], Float]) -> Float:
    """Return the blocks (J, sQ, sQ) of groups (J, s) of one size, from ``square``, the products of k columns."""
    size, found = groups.shape[1], []
    at_once = max(1, TOGETHER // size)
    for start in range(0, len(groups), at_once):
        part = groups[start : start + at_once]
        H = square(design.plain(part.ravel()), part.size)
        own = np.einsum("jsqjtr->jsqtr", H.reshape(len(part), size, n_scores, len(part), size, n_scores))
        found.append(own.reshape(len(part), size * n_scores, size * n_scores))  # the blocks on the diagonal
    return np.concatenate([np.empty((0, size * n_scores, size * n_scores)), *found])


@dataclass(frozen=True)
class RowsPoint:
    """Scores η and residuals ω(y − ∇φ(η)) (Q, n) where the rows are, and minus the gradient (k, Q) for own columns."""

    engine: RowsEngine
    eta: Float
    residual: Float
    own: Positions
    descent: Float

    @cached_property
    def risk(self) -> float:
        engine, xp = self.engine, library_of(self.eta)
        with np.errstate(over="ignore", invalid="ignore"):
            loss = engine.loss.value(self.eta.T) - xp.sum(engine.local_targets * self.eta, axis=0)
            return float(xp.sum(engine.local_weight * loss, axis=0))

    @cached_property
    def curvature(self) -> Curvature:
        """ω∇²φ(η), where the rows are."""
        with np.errstate(over="ignore", invalid="ignore"):
            return self.engine.loss.curvature(self.eta.T).weighted(self.engine.local_weight)

    def gradient(self, columns: Positions | None) -> Float:
        design = self.engine.design
        if columns is None:
            return design.project(lambda s: self.residual[:, s], len(self.descent[0])).T
        known = leading(columns, self.own)  # at least the intercept
        if known == columns.size:
            return self.descent[:known].copy()
        Z = design.beyond(columns, columns[known:])
        more = design.summed(lambda s: small_product(Z(s), self.residual[:, s].T))
        return np.vstack([self.descent[:known], more])

    def hessian(self, columns: Positions, score: int | None = None, within: float = 0.0) -> Float:
        engine, k, Q = self.engine, columns.size, self.descent.shape[1]
        Z = engine.design.of(columns)
        if score is not None:
            return engine.design.square(Z, self.curvature.between(score, score))
        if Q > 1 or engine.design.table is not None:
            return engine.products(Z, Z, self.curvature, (k, Q, k, Q)).reshape(k * Q, k * Q)
        engine.kept = updated_hessian(engine.design, columns, self.curvature.scale[:, 0], engine.kept, within)
        return engine.kept.K.copy()

    def cross(self, columns: Positions, others: Positions | None) -> Float:
        design, k, Q = self.engine.design, columns.size, self.descent.shape[1]
        m = design.order.size if others is None else others.size
        A = None if others is None else design.beyond(columns, others)
        return self.engine.products(design.of(columns), A, self.curvature, (k, Q, m, Q)).reshape(k * Q, m * Q)

    def blocks(self, groups: Positions) -> Float:
        engine, Q = self.engine, self.descent.shape[1]
        return blocks_of(engine.design, groups, Q, lambda Z, k: engine.products(Z, Z, self.curvature, (k, Q, k, Q)))

    def product(self, columns: Positions, V: Float) -> Float:
        Z, right = self.engine.design.of(columns), self.engine.design.put(V.T)

        def of(s: slice) -> Float:
            block = Z(s)
            return small_product(block, self.curvature.rows(s).product((right @ block).T))

        return self.engine.design.summed(of)
