"""The engine of rows in memory: scores are kept, and blocks of rows that fit into the cache are split among threads."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, reduce
from itertools import pairwise
from operator import add

import numpy as np
from scipy import sparse

from budgetline.arrays import Float
from budgetline.data.rows import CHUNK_BYTES
from budgetline.statistics.columns import StandardisedColumns
from budgetline.statistics.curvature import Curvature, part_of, weighted_square
from budgetline.statistics.design_blocks import Blocks, DesignBlocks
from budgetline.statistics.engines import Ints, Loss, target_level
from budgetline.statistics.lagged import MOST_ROWS as MOST_CHANGED
from budgetline.statistics.lagged import LaggedHessian, changed
from budgetline.statistics.left_out import left_out_loss, pairs_of
from budgetline.statistics.samples import RowSample, sample_of
from budgetline.threads import (
    STRIPES,
    added,
    blas_threads,
    in_threads,
    map_in_threads,
    product,
    stripes_of,
    sum_in_threads,
)

BLOCK_BYTES, FEWEST_ROWS, MOST_ROWS = 1 << 23, 1024, 1 << 14
"""A block of rows: a pass reads it twice, the second time from the cache."""
ALONE_ROWS = 1 << 12
"""Rows of a block where one thread does all the work."""
PIECE = 512
"""Rows whose left-out scores are computed at a time."""
THREAD_BYTES = 1 << 24
"""There is a thread for so many bytes of the data: on 16 cores, six threads were faster than 16 on 131 MB."""
FEW_THREADS = 4
"""Up to this many threads do not hinder each other when they take short steps."""
FEW = 64
"""Up to this many columns are standardised before a product; the products of more are corrected afterwards."""
EXTRA = 400
"""Groups are scored from the Hessian of all D columns if D ≤ 2k + EXTRA, with k chosen; otherwise from its parts."""
TOGETHER, CHOSEN = 48, -1
"""Columns of groups that are not chosen are multiplied by about so many others; the part of columns that are."""
WHOLE = 1500
"""Hessians of several scores with more rows than this are summed score by score, to save memory."""


class RowsEngine:
    """Rows in memory, dense or sparse.

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

    eager = False

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
        self.most = max(2, 8 * self.n_rows * (1 + order.size) // THREAD_BYTES)
        Z = DesignBlocks(A, order, self.slices, self.most, design)
        self.design, self.picked, self.plain = Z.of, Z.picked, Z.plain

    @property
    def sample_size(self) -> float:
        """The effective number of rows, (Σ w)² / Σ w²."""
        return float(self.weight.sum() ** 2 / (self.weight @ self.weight))

    @property
    def saturated(self) -> float:
        """The risk of the saturated model."""
        return float(self.weight @ self.loss.saturated(self.targets.T))

    def covariance(self, groups: Ints) -> Float:
        """Return Σ ω zz' of groups of one size."""
        return self.blocks(groups, lambda s: Curvature(self.weight[s, None]))

    def at(self, columns: Ints, theta: Float) -> _RowsPoint:
        """Return the point at θ: risk and gradient in one pass."""
        Z, eta = self.design(columns), np.empty((theta.shape[1], self.n_rows))
        loss, residual = np.empty(self.n_rows), np.empty_like(eta)

        def score(stripe: list[slice]) -> None:
            for s in stripe:
                np.matmul(theta.T, Z(s), out=eta[:, s])

        def compare(stripe: list[slice]) -> None:
            with np.errstate(over="ignore", invalid="ignore"):
                for s in stripe:
                    value, mean = self.loss.value_and_mean(eta[:, s].T)
                    loss[s] = value - (self.targets[:, s] * eta[:, s]).sum(axis=0)
                    residual[:, s] = self.weight[s] * (self.targets[:, s] - mean.T)

        def project(stripe: list[slice]) -> Float:
            return added(lambda s: product(Z(s), residual[:, s].T), stripe)

        def all_steps(stripe: list[slice]) -> Float:
            total = np.zeros((columns.size, len(eta)))
            for s in stripe:
                score([s])
                compare([s])
                total += project([s])
            return total

        if blas_threads() <= FEW_THREADS:
            descent = sum_in_threads(all_steps, self.slices, self.most)
        else:  # the same numbers, without many threads that each wait for Python between short steps
            in_threads(score, self.slices, self.most)
            compare(self.slices)
            descent = sum_in_threads(project, self.slices, self.most)
        with np.errstate(over="ignore", invalid="ignore"):
            return _RowsPoint(self, eta, residual, float(self.weight @ loss), columns, descent)

    def left_out_risk(self, theta: Float, roots: Float) -> float:
        """Return the risk at θ (1 + D, Q) if every row is left out in turn, from roots (Q, 1 + D, m) of H⁻¹."""
        Z, loss, Q, pairs = self.design(np.arange(len(theta))), self.loss, len(roots), pairs_of(roots)

        def part(block: Float, s: slice) -> Float:
            y, weight = self.targets[:, s], self.weight[s]
            eta = (theta.T @ block).T
            with np.errstate(over="ignore", invalid="ignore"):
                T, G = block.T @ roots, np.zeros((len(eta), Q, Q))
                for q, r in pairs:
                    G[:, q, r] = weight * np.einsum("nm,nm->n", T[q], T[r])
                return np.array([left_out_loss(loss, y.T, weight, eta, G, pairs)])

        def of(s: slice) -> Float:  # a few rows of a block at a time: several scores take memory
            block, starts = Z(s), range(s.start, s.stop, PIECE)
            pieces = [slice(i, min(i + PIECE, s.stop)) for i in starts]
            return sum((part(block[:, p.start - s.start : p.stop - s.start], p) for p in pieces), np.zeros(1))

        return float(self.summed(of)[0])

    def sample(self, columns: Ints, most: int) -> RowSample:
        """Return a sample of rows."""
        X, index = self.A.X, self.order[columns - 1]
        stripes = [[slice(None)]] if sparse.issparse(X) else stripes_of(self.slices)

        def of(stripe: list[slice]) -> RowSample:
            return reduce(add, (sample_of(X[s], self.weight[s], index, most) for s in stripe))

        return reduce(add, map_in_threads(of, stripes)).standardised(self.x_mean[index], self.x_scale[index])

    def blocks(self, groups: Ints, curvature: Callable[[slice], Curvature]) -> Float:
        """Return Σ curvature ⊗ zz' of groups (J, s) of one size, a few columns at a time, shape (J, sQ, sQ)."""
        batch = max(1, CHUNK_BYTES // (8 * groups.shape[1] * self.n_rows))
        starts = range(0, len(groups), batch)
        return np.concatenate([self._some_blocks(groups[start : start + batch], curvature) for start in starts])

    def _some_blocks(self, groups: Ints, curvature: Callable[[slice], Curvature]) -> Float:
        plain = self.plain(groups.ravel())

        def of(s: slice) -> Float:
            A = np.ascontiguousarray(plain(s)).reshape(*groups.shape, -1)
            return curvature(s).cross(A, A)

        return self.summed(of)

    def summed(self, of: Blocks) -> Float:
        """Return the sum over all blocks of rows."""
        return sum_in_threads(lambda stripe: added(of, stripe), self.slices, self.most)

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


@dataclass(frozen=True)
class _RowsPoint:
    """Scores η and residuals ω(y − ∇φ(η)) (Q, n), the risk, and minus the gradient (k, Q) for columns of the model."""

    engine: RowsEngine
    eta: Float
    residual: Float
    risk: float
    own: Ints
    descent: Float

    def curvature(self, s: slice) -> Curvature:
        """Return ω∇²φ(η) of some rows."""
        return self.engine.loss.curvature(self.eta[:, s].T).weighted(self.engine.weight[s])

    def gradient(self, columns: Ints | None) -> Float:
        engine = self.engine
        if columns is None:
            return engine.project(lambda s: self.residual[:, s], len(self.eta), None).T
        known = self.own.size
        if columns.size < known or np.any(columns[:known] != self.own):
            known = 0
        if columns.size == known:
            return self.descent.copy()
        Z = engine.design(columns)
        more = engine.summed(lambda s: product(Z(s)[known:], self.residual[:, s].T))
        return np.vstack([self.descent[:known], more])

    def hessian(self, columns: Ints, score: int | None = None) -> Float:
        Z, Q = self.engine.design(columns), len(self.eta)
        if score is not None:
            return self._between(Z, score, score)
        if columns.size * Q <= WHOLE:
            return self.engine.summed(lambda s: self._square(Z(s), s))
        H = np.empty((columns.size, Q, columns.size, Q))
        for q in range(Q):
            for r in range(q + 1):
                H[:, q, :, r] = self._between(Z, q, r)
                H[:, r, :, q] = H[:, q, :, r]
        return H.reshape(columns.size * Q, -1)

    def outdated(self, past: LaggedHessian) -> float:
        return 1.0 if past.curvature is None else float(changed(past.curvature, self._curvatures).mean())

    def renewed(self, columns: Ints, past: LaggedHessian | None) -> LaggedHessian:
        if len(self.eta) > 1:
            return LaggedHessian(columns, self.hessian(columns))
        if past is None or past.curvature is None or not past.begins(columns):
            return LaggedHessian(columns, self.hessian(columns), self._curvatures)
        before, now, known = past.curvature, self._curvatures, past.columns.size
        rows = changed(before, now)
        if not 0 < rows.mean() <= MOST_CHANGED:
            return LaggedHessian(columns, self.hessian(columns), now)
        H, Z = np.empty((columns.size, columns.size)), self.engine.design(columns)
        H[:known, :known] = past.H
        if known < columns.size:
            H[:, known:] = self.engine.summed(lambda s: Curvature(before[s, None]).cross(Z(s), Z(s)[known:]))
            H[known:] = H[:, known:].T
        for sign in (1.0, -1.0):
            index = np.flatnonzero(rows & (sign * (now - before) > 0))
            if index.size:
                H += sign * self._square_of(columns, index, np.abs(now - before)[index])
        return LaggedHessian(columns, H, np.where(rows, now, before))

    @cached_property
    def _curvatures(self) -> Float:
        """ω∇²φ(η) of one score, shape (n,)."""
        return self.curvature(slice(None)).scale[:, 0]

    def _square_of(self, columns: Ints, rows: Ints, weight: Float) -> Float:
        """Return Σ weight zz' of some rows."""
        pieces = [slice(i, min(i + FEWEST_ROWS, rows.size)) for i in range(0, rows.size, FEWEST_ROWS)]

        def of(s: slice) -> Float:
            return weighted_square(self.engine.picked(columns, rows[s]), weight[s], True)

        return sum_in_threads(lambda stripe: added(of, stripe), pieces)

    def _between(self, Z: Blocks, q: int, r: int) -> Float:
        """Return the entries of H between two scores, shape (k, k)."""

        def of(s: slice) -> Float:
            return weighted_square(Z(s), self.curvature(s).between(q, r), q == r)

        return self.engine.summed(of)

    def _square(self, Z: Float, s: slice) -> Float:
        return self.curvature(s).cross(Z, Z)

    def cross(self, columns: Ints, others: Ints | None) -> Float:
        engine, Z = self.engine, self.engine.design(columns)
        if len(self.eta) == 1 and (others is None or others.size > FEW):
            return engine.project(lambda s: Z(s) * self.curvature(s).scale[:, 0], columns.size, others)
        others = np.arange(1, 1 + engine.order.size) if others is None else others
        last = np.array_equal(columns[-others.size :], others)
        A: Blocks = (lambda s: Z(s)[-others.size :]) if last else engine.plain(others)
        return self.engine.summed(lambda s: self.curvature(s).cross(Z(s), A(s)))

    def blocks(self, groups: Ints) -> Float:
        return self.engine.blocks(groups, self.curvature)

    def product(self, columns: Ints, V: Float) -> Float:
        Z = self.engine.design(columns)
        return self.engine.summed(lambda s: product(Z(s), self.curvature(s).product((V.T @ Z(s)).T)))

    def curvature_range(self) -> tuple[float, float]:
        trace = self.engine.loss.curvature(self.eta.T).trace()[self.engine.weight > 0]
        return float(trace.min(initial=np.inf)), float(trace.max(initial=0.0))

    def complete(self, columns: Ints, starts: Ints) -> _RowsPoint:
        k, D, Q = columns.size, self.engine.order.size, len(self.eta)
        if sparse.issparse(self.engine.A.X) or 2 * k + EXTRA < D or (Q > 1 and Q * (1 + D) > WHOLE):
            return self
        A, place = self.engine.A, np.concatenate([[0], 1 + self.engine.order])
        if Q == 1:
            return self._with_products(columns, starts)
        unit = np.concatenate([[1.0], 1 / A.scale])[:, None]
        H = self.engine.summed(lambda s: self._square(A.centred(s).T, s)).reshape(1 + D, Q, 1 + D, Q)
        H = (H * unit * unit[..., None, None])[place][:, :, place]
        return self._completed(H, np.full(1 + D, CHOSEN), self.gradient(None))

    def _completed(self, H: Float, part: Ints, slopes: Float) -> _CompletePoint:
        return _CompletePoint(self.engine, self.eta, self.residual, self.risk, self.own, self.descent, H, part, slopes)

    def _with_products(self, columns: Ints, starts: Ints) -> _CompletePoint:
        """Complete the point of one score, without the products between groups that are not chosen."""
        A, Z, k = self.engine.A, self.engine.design(columns), columns.size
        others = np.setdiff1d(np.arange(1 + self.engine.order.size), columns)
        index, firsts = self.engine.order[others - 1], np.searchsorted(others, np.intersect1d(starts, others))
        # groups that lie side by side share a product of about so many columns: BLAS is slow on small matrices
        cuts = firsts[np.diff(firsts // TOGETHER, prepend=-1) > 0].tolist()
        pieces = [slice(*ends) for ends in pairwise([*cuts, others.size])]

        def of(s: slice) -> Float:  # chosen columns, then others, which are centred only; the last column is the slope
            root = np.sqrt(self.curvature(s).scale)
            chosen = Z(s) * root[:, 0]
            rest = np.subtract(A.X[s].take(index, axis=1), A.mean[index], dtype=np.float64)
            found = np.zeros((k + others.size, k + others.size + 1))
            found[k:, -1] = product(self.residual[:, s], rest)[0]
            rest *= root
            found[:k, :k], found[:k, k:-1] = chosen @ chosen.T, chosen @ rest
            for p in pieces:
                found[k:, k:-1][p, p] = rest[:, p].T @ rest[:, p]
            return found

        total, place = self.engine.summed(of), np.concatenate([columns, others])
        total[:, k:-1] /= A.scale[index]
        total[k:] /= A.scale[index, None]
        total[k:, :k], total[:k, -1] = total[:k, k:-1].T, self.gradient(columns)[:, 0]
        back = np.argsort(place)
        part = np.concatenate([np.full(k, CHOSEN), *(np.full(p.stop - p.start, p.start) for p in pieces)])[back]
        return self._completed(total[np.ix_(back, back)][:, None, :, None], part, total[back[1:], -1:])

    def near(self, columns: Ints, theta: Float) -> _RowsPoint:
        return self.engine.at(columns, theta)


@dataclass(frozen=True)
class _CompletePoint(_RowsPoint):
    """A point with the gradient of all columns at hand, and with what the scores of groups need of their Hessian.

    ``H`` (1 + D, Q, 1 + D, Q) has no entries between columns of different parts, other than ``CHOSEN``; those are
    computed when they are asked for.
    """

    H: Float
    part: Ints
    slopes: Float

    def _has(self, columns: Ints, others: Ints | None) -> bool:
        parts = [self.part[c] for c in (columns, slice(1, None) if others is None else others)]
        ours, theirs = (np.unique(part[part != CHOSEN]) for part in parts)
        return not ours.size or not theirs.size or (ours.size == theirs.size == 1 and ours[0] == theirs[0])

    def gradient(self, columns: Ints | None) -> Float:
        return self.slopes.copy() if columns is None else super().gradient(columns)

    def hessian(self, columns: Ints, score: int | None = None) -> Float:
        has = self._has(columns, columns)
        return part_of(self.H, columns, columns, score) if has else super().hessian(columns, score)

    def cross(self, columns: Ints, others: Ints | None) -> Float:
        return part_of(self.H, columns, others) if self._has(columns, others) else super().cross(columns, others)

    def blocks(self, groups: Ints) -> Float:
        if not all(self._has(group, group) for group in groups):
            return super().blocks(groups)
        return np.array([part_of(self.H, group, group) for group in groups])
