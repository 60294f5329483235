"""The engine of rows in memory: scores are kept, and rows are dealt to threads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from budgetline.data.rows import CHUNK_BYTES, Rows
from budgetline.statistics.columns import StandardisedColumns, standardised_columns
from budgetline.statistics.engines import Float, Ints, Loss
from budgetline.threads import in_lanes

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
    """

    eager = False

    def __init__(self, A: StandardisedColumns, targets: Float, order: Ints, loss: Loss) -> None:
        self.A, self.targets, self.order, self.loss = A, targets, order, loss
        self.n_rows, self.x_mean, self.x_scale, self.weight = len(targets), A.mean, A.scale, A.root**2
        self.y_mean, counted = np.asarray(self.weight @ targets), targets[self.weight > 0]
        varies = bool(np.any(counted != counted[:1]))
        self.y_spread = float(np.sqrt(self.weight @ (targets - self.y_mean) ** 2).max()) if varies else 0.0
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
        return _RowsHessian(self, self.weight[:, None, None]).blocks(groups)

    def at(self, columns: Ints, theta: Float) -> _RowsPoint:
        """Return the point at θ."""
        eta = product(self.design(columns), theta)
        with np.errstate(over="ignore", invalid="ignore"):
            loss = self.loss.value(eta) - np.einsum("nq,nq->n", self.targets, eta)
            return _RowsPoint(self, eta, float(self.weight @ loss))

    def design(self, columns: Ints) -> Float:
        """Return columns of Z (n, k), the first being 0; leading ones that were asked for before are not made again."""
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

    def project(self, V: Float) -> Float:
        """Return V'Z (m, D) for all columns of X."""
        root = self.A.root[:, None]
        return self.A.project(np.divide(V, root, out=np.zeros_like(V), where=root > 0))[:, self.order]


@dataclass(frozen=True)
class _RowsPoint:
    """Scores η (n, Q) and their risk."""

    engine: RowsEngine
    eta: Float
    risk: float

    def gradient(self, columns: Ints | None) -> Float:
        engine = self.engine
        E = engine.weight[:, None] * (engine.targets - engine.loss.mean(self.eta))
        return engine.project(E).T if columns is None else transposed_product(engine.design(columns), E)

    def hessian(self) -> _RowsHessian:
        return _RowsHessian(self.engine, self.engine.weight[:, None, None] * self.engine.loss.curvature(self.eta))

    def curvature_range(self) -> tuple[float, float]:
        curvature = np.einsum("nqq->n", self.engine.loss.curvature(self.eta))[self.engine.weight > 0]
        return float(curvature.min(initial=np.inf)), float(curvature.max(initial=0.0))

    def near(self, columns: Ints, theta: Float) -> _RowsPoint:
        return self.engine.at(columns, theta)


@dataclass(frozen=True)
class _RowsHessian:
    """Products of the rows with ω∇²φ(η), shape (n, Q, Q)."""

    engine: RowsEngine
    curvature: Float

    def square(self, columns: Ints, score: int | None = None) -> Float:
        chosen = slice(None) if score is None else slice(score, score + 1)
        return weighted_squares(self.engine.design(columns), self.curvature[:, chosen, chosen])

    def cross(self, columns: Ints, others: Ints | None) -> Float:
        Z, Q = self.engine.design(columns), self.curvature.shape[1]
        A = None if others is None else self.engine.plain(others)
        H = np.empty((columns.size, Q, self.engine.order.size if A is None else A.shape[1], Q))
        for q in range(Q):
            for s in range(q + 1):
                weight = self.curvature[:, q, s, None]
                H[:, q, :, s] = H[:, s, :, q] = self.engine.project(weight * Z) if A is None else Z.T @ (weight * A)
        return H.reshape(columns.size * Q, -1)

    def blocks(self, groups: Ints) -> Float:
        (count, size), Q = groups.shape, self.curvature.shape[1]
        H = np.empty((count, size, Q, size, Q))
        batch = max(1, CHUNK_BYTES // (8 * size * self.engine.n_rows))
        for start in range(0, count, batch):
            part = groups[start : start + batch]
            A = np.ascontiguousarray(self.engine.plain(part.ravel()).T).reshape(len(part), size, -1)
            H_part = H[start : start + batch]
            for q in range(Q):
                for s in range(q + 1):
                    H_part[:, :, q, :, s] = (A * self.curvature[:, q, s]) @ A.transpose(0, 2, 1)
                    H_part[:, :, s, :, q] = H_part[:, :, q, :, s]
        return H.reshape(count, size * Q, size * Q)

    def multiply(self, columns: Ints, V: Float) -> Float:
        Z = self.engine.design(columns)
        return transposed_product(Z, np.einsum("nqr,nr->nq", self.curvature, product(Z, V)))


def product(Z: Float, V: Float) -> Float:
    """Return Z·V, rows dealt to threads."""
    out = np.empty((len(Z), V.shape[1]))

    def lane(slices: list[slice]) -> None:
        for s in slices:
            np.matmul(Z[s], V, out=out[s])

    in_lanes(lane, _slices(Z))
    return out


def transposed_product(Z: Float, E: Float) -> Float:
    """Return Z'·E, rows dealt to threads."""
    return np.asarray(sum(in_lanes(lambda slices: sum(Z[s].T @ E[s] for s in slices), _slices(Z))))


def weighted_squares(Z: Float, curvature: Float) -> Float:
    """Return Σ curvature_i ⊗ z_i z_i' for Z (n, k) and curvature (n, Q, Q), shape (kQ, kQ)."""
    k, Q = Z.shape[1], curvature.shape[1]
    H = np.empty((k, Q, k, Q))
    for q in range(Q):
        for r in range(q + 1):
            H[:, q, :, r] = H[:, r, :, q] = _weighted_square(Z, curvature[:, q, r])
    return H.reshape(k * Q, k * Q)


def _weighted_square(Z: Float, weight: Float) -> Float:
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

    return np.asarray(sum(in_lanes(lane, _slices(Z))))


def _slices(Z: Float) -> list[slice]:
    size = max(Z.shape[1], CHUNK_BYTES // (8 * Z.shape[1]))
    return [slice(start, start + size) for start in range(0, len(Z), size)]
