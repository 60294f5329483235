"""The engine of rows in memory: scores are kept, and rows are dealt to threads."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from budgetline.arrays import Float
from budgetline.data.rows import CHUNK_BYTES, Rows
from budgetline.statistics.columns import StandardisedColumns, standardised_columns
from budgetline.statistics.engines import Ints, Loss
from budgetline.threads import in_threads

LARGEST_BUFFER = 1 << 32
"""Bytes up to which room for all columns is set aside at once."""


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
        All columns of Z, if they are at hand.
    """

    eager = False

    def __init__(
        self, A: StandardisedColumns, targets: Float, order: Ints, loss: Loss, design: Float | None = None
    ) -> None:
        self.A, self.targets, self.order, self.loss = A, targets, order, loss
        self.n_rows, self.x_mean, self.x_scale, self.weight = len(targets), A.mean, A.scale, A.root**2
        self.y_mean, counted = np.asarray(self.weight @ targets), targets[self.weight > 0]
        varies = bool(np.any(counted != counted[:1]))
        self.y_spread = float(np.sqrt(self.weight @ (targets - self.y_mean) ** 2).max()) if varies else 0.0
        if design is not None:
            self._Z, self._held = design, np.arange(design.shape[1])
            return
        # Columns that are not written yet take no memory, and a buffer that need not grow is never copied.
        room = order.size + 1 if 8 * self.n_rows * order.size <= LARGEST_BUFFER else 1
        self._Z = np.empty((self.n_rows, room), order="F")
        self._Z[:, 0] = 1.0
        self._held = np.zeros(1, dtype=np.intp)

    @classmethod
    def of(cls, rows: Rows, order: Ints, loss: Loss, names: Sequence[str] | None = None) -> RowsEngine:
        """Check and standardise a table; ``names`` are for errors."""
        A, _, _ = standardised_columns(rows, names)
        loss.check(rows.Y, A.root**2)
        return cls(A, loss.internal(rows.Y), order, loss)

    @property
    def saturated(self) -> float:
        """The risk of the saturated model."""
        return float(self.weight @ self.loss.saturated(self.targets))

    def covariance(self, groups: Ints) -> Float:
        """Return Σ ω zz' of groups of one size."""
        return self.blocks(groups, self.weight[:, None, None])

    def blocks(self, groups: Ints, curvature: Float) -> Float:
        """Return Σ curvature ⊗ zz' of groups (J, s) of one size, a few columns at a time, shape (J, sQ, sQ)."""
        batch = max(1, CHUNK_BYTES // (8 * groups.shape[1] * self.n_rows))
        starts = range(0, len(groups), batch)
        return np.concatenate([self._some_blocks(groups[start : start + batch], curvature) for start in starts])

    def _some_blocks(self, groups: Ints, curvature: Float) -> Float:
        A = np.ascontiguousarray(self.plain(groups.ravel()).T).reshape(*groups.shape, -1)
        shape = (*groups.shape, groups.shape[1])
        return _by_scores(lambda weight: (A * weight) @ A.transpose(0, 2, 1), curvature, shape)

    def at(self, columns: Ints, theta: Float) -> _RowsPoint:
        """Return the point at θ."""
        eta = product(self.design(columns), theta)
        with np.errstate(over="ignore", invalid="ignore"):
            loss = self.loss.value(eta) - np.einsum("nq,nq->n", self.targets, eta)
            return _RowsPoint(self, eta, float(self.weight @ loss))

    def design(self, columns: Ints) -> Float:
        """Return columns of Z (n, k), the first being 0; leading ones that were asked for before are not made again."""
        if columns is self._held:
            return self._Z[:, : columns.size]
        common = min(columns.size, self._held.size)
        same = columns[:common] == self._held[:common]
        first = common if same.all() else int(np.argmin(same))
        if first < columns.size:
            if columns.size > self._Z.shape[1]:
                wider = np.empty((self.n_rows, max(columns.size, 2 * self._Z.shape[1])), order="F")
                wider[:, :first] = self._Z[:, :first]
                self._Z = wider
            self._Z[:, first : columns.size] = self.plain(columns[first:])
            self._held = columns
        return self._Z[:, : columns.size]

    def plain(self, columns: Ints) -> Float:
        """Return columns of Z other than the intercept, made for this call."""
        return self.A.plain(self.order[columns - 1])

    def project(self, V: Float, weight: Float) -> Float:
        """Return V' diag(weight) Z, shape (m, D), for all columns of X; weights are zero where ω is."""
        root = self.A.root
        part = np.divide(weight, root, out=np.zeros_like(root), where=root > 0)
        return self.A.project(part[:, None] * V)[:, self.order]


@dataclass(frozen=True)
class _RowsPoint:
    """Scores η (n, Q) and their risk."""

    engine: RowsEngine
    eta: Float
    risk: float

    @cached_property
    def curvature(self) -> Float:
        """ω∇²φ(η), shape (n, Q, Q)."""
        return np.asarray(self.engine.weight[:, None, None] * self.engine.loss.curvature(self.eta))

    def gradient(self, columns: Ints | None) -> Float:
        engine = self.engine
        E = engine.targets - engine.loss.mean(self.eta)
        if columns is None:
            return engine.project(E, engine.weight).T
        return transposed_product(engine.design(columns), engine.weight[:, None] * E)

    def hessian(self, columns: Ints, score: int | None = None) -> Float:
        scores = slice(None) if score is None else slice(score, score + 1)
        Z, curvature = self.engine.design(columns), self.curvature[:, scores, scores]
        return _by_scores(lambda weight: weighted_square(Z, weight), curvature, (columns.size, columns.size))

    def cross(self, columns: Ints, others: Ints | None) -> Float:
        engine, Z = self.engine, self.engine.design(columns)
        if others is None:
            shape = columns.size, engine.order.size
            return _by_scores(lambda weight: engine.project(Z, weight), self.curvature, shape)
        A = engine.plain(others)
        return _by_scores(lambda weight: Z.T @ (weight[:, None] * A), self.curvature, (columns.size, others.size))

    def blocks(self, groups: Ints) -> Float:
        return self.engine.blocks(groups, self.curvature)

    def product(self, columns: Ints, V: Float) -> Float:
        Z = self.engine.design(columns)
        return transposed_product(Z, np.einsum("nqr,nr->nq", self.curvature, product(Z, V)))

    def curvature_range(self) -> tuple[float, float]:
        trace = np.einsum("nqq->n", self.engine.loss.curvature(self.eta))[self.engine.weight > 0]
        return float(trace.min(initial=np.inf)), float(trace.max(initial=0.0))

    def near(self, columns: Ints, theta: Float) -> _RowsPoint:
        return self.engine.at(columns, theta)


def _by_scores(of: Callable[[Float], Float], curvature: Float, shape: tuple[int, ...]) -> Float:
    """Return ``of`` every pair of scores, arrays (…, k, m) from weights (n,), as one array (…, kQ, mQ)."""
    (*batch, k, m), Q = shape, curvature.shape[1]
    H = np.empty((*batch, k, Q, m, Q))
    for q in range(Q):
        for r in range(q + 1):
            H[..., q, :, r] = H[..., r, :, q] = of(curvature[:, q, r])
    return H.reshape(*batch, k * Q, m * Q)


def product(Z: Float, V: Float) -> Float:
    """Return Z·V, rows dealt to threads."""
    out = np.empty((len(Z), V.shape[1]))

    def lane(slices: list[slice]) -> None:
        for s in slices:
            np.matmul(Z[s], V, out=out[s])

    in_threads(lane, _slices(Z))
    return out


def transposed_product(Z: Float, E: Float) -> Float:
    """Return Z'·E, rows dealt to threads."""
    return np.asarray(sum(in_threads(lambda slices: sum(Z[s].T @ E[s] for s in slices), _slices(Z))))


def weighted_square(Z: Float, weight: Float) -> Float:
    """Return Z' diag(weight) Z, rows dealt to threads; weights may be of either sign."""
    positive = bool(np.all(weight >= 0))

    def lane(slices: list[slice]) -> Float:
        total = np.zeros((Z.shape[1], Z.shape[1]))
        for s in slices:
            if positive:
                block = np.ascontiguousarray(Z[s]) * np.sqrt(weight[s])[:, None]
                total += block.T @ block
            else:
                total += Z[s].T @ (weight[s][:, None] * Z[s])
        return total

    return np.asarray(sum(in_threads(lane, _slices(Z))))


def _slices(Z: Float) -> list[slice]:
    size = max(Z.shape[1], CHUNK_BYTES // (8 * Z.shape[1]))
    return [slice(start, start + size) for start in range(0, len(Z), size)]
