"""The engine of rows in memory: scores and residuals of all rows are kept at every point."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, cached_property, reduce
from itertools import pairwise
from operator import add

import numpy as np
from scipy import sparse

from budgetline.arrays import Float
from budgetline.statistics.curvature import Curvature, part_of, weighted_square
from budgetline.statistics.design_blocks import Blocks
from budgetline.statistics.engines import Ints
from budgetline.statistics.lagged import MOST_ROWS, LaggedHessian, changed
from budgetline.statistics.row_sums import FEWEST_ROWS, TOGETHER, RowSums, each
from budgetline.statistics.samples import RowSample, sample_of
from budgetline.threads import added, in_threads, map_in_threads, product, stripes_of, sum_in_threads

FEW = 64
"""Up to this many columns are standardised before a product; the products of more are corrected afterwards."""
EXTRA = 400
"""Groups are scored from the Hessian of all D columns if D ≤ 2k + EXTRA, with k chosen; otherwise from its parts."""
CHOSEN = -1
"""The part of columns that are chosen."""
WHOLE = 1500
"""Hessians of several scores with more rows than this are summed score by score, to save memory."""


class RowsEngine(RowSums):
    """Points of rows in memory, from sums over their blocks."""

    eager = False

    @property
    def sample_size(self) -> float:
        """The effective number of rows, (Σ w)² / Σ w²."""
        return float(self.weight.sum() ** 2 / (self.weight @ self.weight))

    @property
    def saturated(self) -> float:
        """The risk of the saturated model."""
        return float(self.weight @ self.loss.saturated(self.targets.T))

    def at(self, columns: Ints, theta: Float) -> _RowsPoint:
        """Return the point at θ, with the gradient from one pass."""
        Z, eta = self.design(columns), np.empty((theta.shape[1], self.n_rows))
        residual, most = np.empty_like(eta), self.threads_for(columns.size)

        def score(s: slice) -> None:
            np.matmul(theta.T, Z(s), out=eta[:, s])

        def compare(s: slice) -> None:
            np.subtract(self.targets[:, s], self.loss.mean(eta[:, s].T).T, out=residual[:, s])
            residual[:, s] *= self.weight[s]

        def project(s: slice) -> Float:
            return product(Z(s), residual[:, s].T)

        def all_steps(s: slice) -> Float:
            score(s)
            with np.errstate(over="ignore", invalid="ignore"):
                compare(s)
            return project(s)

        if self.has_few_threads():
            descent = sum_in_threads(lambda stripe: added(all_steps, stripe), self.slices, most)
        else:  # the same numbers
            in_threads(lambda stripe: each(score, stripe), self.slices, most)
            self.short_steps(compare)
            descent = sum_in_threads(lambda stripe: added(project, stripe), self.slices, most)
        return _RowsPoint(self, eta, residual, columns, descent, cache(lambda: self.risk(eta)))  # often not needed

    def sample(self, columns: Ints, most: int) -> RowSample:
        """Return a sample of rows."""
        X, index = self.A.X, self.order[columns - 1]
        stripes = [[slice(None)]] if sparse.issparse(X) else stripes_of(self.slices)

        def of(stripe: list[slice]) -> RowSample:
            return reduce(add, (sample_of(X[s], self.weight[s], index, most) for s in stripe))

        return reduce(add, map_in_threads(of, stripes)).standardised(self.x_mean[index], self.x_scale[index])


@dataclass(frozen=True)
class _RowsPoint:
    """Scores η and residuals ω(y − ∇φ(η)) (Q, n), and minus the gradient (k, Q) for columns of the model."""

    engine: RowsEngine
    eta: Float
    residual: Float
    own: Ints
    descent: Float
    computed_risk: Callable[[], float]

    @property
    def risk(self) -> float:
        return self.computed_risk()

    @property
    def curvature(self) -> Callable[[slice], Curvature]:
        """ω∇²φ(η) of some rows; those of one score are computed once, before threads ask for them."""
        if len(self.eta) == 1:
            known = self._curvatures[:, None]
            return lambda s: Curvature(known[s])
        loss, eta, weight = self.engine.loss, self.eta, self.engine.weight
        return lambda s: loss.curvature(eta[:, s].T).weighted(weight[s])

    def gradient(self, columns: Ints | None) -> Float:
        engine = self.engine
        if columns is None:
            return engine.project(lambda s: self.residual[:, s], len(self.eta), None).T
        known = self.own.size
        if columns.size < known or np.any(columns[:known] != self.own):
            known = 0
        if columns.size == known:
            return self.descent.copy()
        return np.vstack([self.descent[:known], self._gradient_beyond(columns, known)])

    def _gradient_beyond(self, columns: Ints, known: int) -> Float:
        """Return minus the gradient for all but the first columns."""
        Z = self.engine.design(columns)
        return self.engine.summed(lambda s: product(Z(s)[known:], self.residual[:, s].T))

    def hessian(self, columns: Ints, score: int | None = None) -> Float:
        Z, Q, curvature = self.engine.design(columns), len(self.eta), self.curvature
        if score is not None:
            return self._between(Z, score, score)
        if columns.size * Q <= WHOLE:
            return self.engine.summed(lambda s: curvature(s).square(Z(s)))
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
        if not 0 < rows.mean() <= MOST_ROWS:
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
        engine, found = self.engine, np.empty(self.eta.shape[1])

        def work(s: slice) -> None:
            np.multiply(engine.loss.curvature(self.eta[:, s].T).scale[:, 0], engine.weight[s], out=found[s])

        engine.short_steps(work)
        return found

    def _square_of(self, columns: Ints, rows: Ints, weight: Float) -> Float:
        """Return Σ weight zz' of some rows."""
        pieces = [slice(i, min(i + FEWEST_ROWS, rows.size)) for i in range(0, rows.size, FEWEST_ROWS)]

        def of(s: slice) -> Float:
            return weighted_square(self.engine.picked(columns, rows[s]), weight[s], True)

        return sum_in_threads(lambda stripe: added(of, stripe), pieces)

    def _between(self, Z: Blocks, q: int, r: int) -> Float:
        """Return the entries of H between two scores, shape (k, k)."""
        curvature = self.curvature
        return self.engine.summed(lambda s: weighted_square(Z(s), curvature(s).between(q, r), q == r))

    def cross(self, columns: Ints, others: Ints | None) -> Float:
        engine, Z, curvature = self.engine, self.engine.design(columns), self.curvature
        if len(self.eta) == 1 and (others is None or others.size > FEW):
            return engine.project(lambda s: Z(s) * curvature(s).scale[:, 0], columns.size, others)
        others = np.arange(1, 1 + engine.order.size) if others is None else others
        last = np.array_equal(columns[-others.size :], others)
        A: Blocks = (lambda s: Z(s)[-others.size :]) if last else engine.plain(others)
        return self.engine.summed(lambda s: curvature(s).cross(Z(s), A(s)))

    def blocks(self, groups: Ints) -> Float:
        return self.engine.blocks(groups, self.curvature)

    def product(self, columns: Ints, V: Float) -> Float:
        Z, curvature = self.engine.design(columns), self.curvature
        return self.engine.summed(lambda s: product(Z(s), curvature(s).product((V.T @ Z(s)).T)))

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
        unit, curvature = np.concatenate([[1.0], 1 / A.scale])[:, None], self.curvature
        H = self.engine.summed(lambda s: curvature(s).square(A.centred(s).T)).reshape(1 + D, Q, 1 + D, Q)
        H = (H * unit * unit[..., None, None])[place][:, :, place]
        return self._completed(H, np.full(1 + D, CHOSEN), self.gradient(None))

    def _completed(self, H: Float, part: Ints, slopes: Float) -> _CompletePoint:
        own = (self.engine, self.eta, self.residual, self.own, self.descent, self.computed_risk)
        return _CompletePoint(*own, H, part, slopes)

    def _with_products(self, columns: Ints, starts: Ints) -> _CompletePoint:
        """Complete the point of one score, without the products between groups that are not chosen."""
        k, curvature, Z = columns.size, self.curvature, self.engine.design(columns)
        others, rest = self.engine.rest(columns)
        firsts = np.flatnonzero(np.isin(others, starts))
        # groups that lie side by side share a product of about so many columns: BLAS is slow on small matrices
        cuts = firsts[np.diff(firsts // TOGETHER, prepend=-1) > 0].tolist()
        pieces = [slice(*ends) for ends in pairwise([*cuts, others.size])]

        def of(s: slice) -> Float:  # chosen columns, then others; the last column is the slope
            root, R = np.sqrt(curvature(s).scale[:, 0]), rest(s)
            found = np.zeros((k + others.size, k + others.size + 1))
            chosen = Z(s) * root
            found[:k, :k] = chosen @ chosen.T
            chosen *= root
            found[:k, k:-1], found[k:, -1:] = chosen @ R.T, product(R, self.residual[:, s].T)
            for p in pieces:
                few = R[p] * root
                found[k:, k:-1][p, p] = few @ few.T
            return found

        total, place = self.engine.summed(of), np.concatenate([columns, others])
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

    def _gradient_beyond(self, columns: Ints, known: int) -> Float:
        return self.slopes[columns[known:] - 1] if known else super()._gradient_beyond(columns, known)

    def hessian(self, columns: Ints, score: int | None = None) -> Float:
        has = self._has(columns, columns)
        return part_of(self.H, columns, columns, score) if has else super().hessian(columns, score)

    def cross(self, columns: Ints, others: Ints | None) -> Float:
        return part_of(self.H, columns, others) if self._has(columns, others) else super().cross(columns, others)

    def blocks(self, groups: Ints) -> Float:
        if not all(self._has(group, group) for group in groups):
            return super().blocks(groups)
        return np.array([part_of(self.H, group, group) for group in groups])
