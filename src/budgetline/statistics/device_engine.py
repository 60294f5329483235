"""The engine of rows on a device: scores, gradients and Hessians are summed there; what is D × D comes to the host.

The table is multiplied as it is, and the means are subtracted from the products. Where a mean is large beside the
standard deviation that would cost digits: then chunks of rows are centred first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from budgetline.arrays import Float
from budgetline.data.rows import Rows
from budgetline.device_tables import DeviceTable
from budgetline.devices import on_host
from budgetline.statistics.columns import StandardisedColumns, standardised_columns
from budgetline.statistics.curvature import Curvature, part_of
from budgetline.statistics.engines import Engine, Ints, Loss, target_level
from budgetline.statistics.lagged import WholeHessians
from budgetline.statistics.row_sums import ALONE_ROWS, FEWEST_ROWS
from budgetline.statistics.rows_engine import EXTRA, WHOLE, RowsEngine
from budgetline.statistics.samples import RowSample, sample_of

FAR = 8.0
"""Products of columns whose mean is at most this many standard deviations from zero are centred afterwards."""
TILE = 256
"""Groups are multiplied together with others, about so many columns at a time."""


def engine_of_rows(
    rows: Rows,
    order: Ints,
    loss: Loss,
    names: Sequence[str] | None = None,
    weights: Float | None = None,
    *,
    alone: bool = False,
) -> Engine:
    """Check and standardise rows in memory or on a device, with penalty weights (D,); ``names`` are for errors.

    ``alone`` says that one thread does all the work of small tables.
    """
    A, _, _ = standardised_columns(rows, names, weights)
    loss.check(rows.Y, A.root**2)
    if isinstance(A.X, DeviceTable):
        return DeviceEngine(A, loss.internal(rows.Y), order, loss)
    return RowsEngine(A, loss.internal(rows.Y), order, loss, fewest=ALONE_ROWS if alone else FEWEST_ROWS)


class DeviceEngine:
    """Rows on a device.

    Parameters
    ----------
    A : StandardisedColumns, shape (n, D)
        Of a ``DeviceTable``, with ``root`` = √ω.
    targets : array of shape (n, Q)
        For the internal scores of the loss.
    order : int array of shape (D,)
        Columns of A, group after group.
    loss : Loss
    """

    eager = False

    def __init__(self, A: StandardisedColumns, targets: Float, order: Ints, loss: Loss) -> None:
        self.A, self.order, self.loss = A, order, loss
        self.table: DeviceTable = A.X
        self.device = self.table.device
        self.n_rows, self.x_mean, self.x_scale, self.weight = len(targets), A.mean, A.scale, A.root**2
        self.y_mean, self.y_spread = target_level(targets, self.weight)
        self.host_targets = targets
        self.targets, self.shares = self.device.put(targets), self.device.put(self.weight[:, None])
        self._portable = bool(getattr(loss, "portable", False))
        centred = bool(np.any(np.abs(A.mean) > FAR * A.scale))
        self._shift = self.device.put(A.mean) if centred else None
        self.rest = np.zeros_like(A.mean) if centred else A.mean

    @property
    def sample_size(self) -> float:
        """The effective number of rows, (Σ w)² / Σ w²."""
        return float(self.weight.sum() ** 2 / (self.weight @ self.weight))

    @cached_property
    def saturated(self) -> float:
        """The risk of the saturated model."""
        return float(self.weight @ self.loss.saturated(self.host_targets))

    def covariance(self, groups: Ints) -> Float:
        """Return Σ ω zz' of groups of one size."""
        return self.tiles(groups, Curvature(self.shares))

    def at(self, columns: Ints, theta: Float) -> _DevicePoint:
        """Return the point at θ: risk and gradient of all columns in one pass, which reads the table twice."""
        xp, eta = self.device.xp, self.scores(columns, theta)
        value, mean = self.value_and_mean(eta)
        loss = value - xp.sum(self.targets * eta, axis=1)
        residual = self.shares * (self.targets - mean)
        risk, descent = self.project(residual, xp.sum(self.shares[:, 0] * loss, axis=0))
        return _DevicePoint(self, eta, risk, descent)

    def value_and_mean(self, eta: Float) -> tuple[Float, Float]:
        """Return φ (n,) and ∇φ (n, Q) of scores; a user's own loss is computed on the host."""
        if self._portable:
            return self.loss.value_and_mean(eta)
        with np.errstate(over="ignore", invalid="ignore"):
            value, mean = self.loss.value_and_mean(on_host(eta))
        return self.device.put(value), self.device.put(mean)

    def curvature(self, eta: Float) -> Curvature:
        """Return ∇²φ(η)."""
        if self._portable:
            return self.loss.curvature(eta)
        with np.errstate(over="ignore", invalid="ignore"):
            found = self.loss.curvature(on_host(eta))
        parts = (part if part is None else self.device.put(part) for part in (found.contrasts, found.along))
        return Curvature(self.device.put(found.scale), *parts)

    def block(self, s: slice, index: Float | None = None) -> Float:
        """Return some rows, and columns at positions on the device, less their shift."""
        block = self.table.block(s, columns=index)
        if self._shift is None:
            return block
        shift = self._shift if index is None else self.device.take(self._shift, index, 0)
        centred: Float = block - shift
        return centred

    def scores(self, columns: Ints, theta: Float) -> Float:
        """Return Zθ of columns, the first being 0, on the device, shape (n, Q)."""
        V, index = np.zeros((self.order.size, theta.shape[1])), self.order[columns[1:] - 1]
        V[index] = theta[1:] / self.x_scale[index, None]
        right, level = self.device.put(V), self.device.put(theta[:1] - (self.rest @ V)[None])
        found = self.table.joined(lambda s: self.block(s) @ right, at_once=self._shift is None)
        found += level
        return found

    def project(self, R: Float, value: Float) -> tuple[float, Float]:
        """Return a number (a scalar array) and Z'R of all columns, shape (1 + D, Q), for R (n, Q) on the device."""
        xp = self.device.xp
        total = self.table.summed(lambda s: self.block(s).T @ R[s, ...], at_once=self._shift is None)
        parts = [xp.reshape(part, (-1,)) for part in (value, xp.sum(R, axis=0), total)]
        found, Q = on_host(xp.concat(parts, axis=0)), int(R.shape[1])  # in one copy
        sums, products = found[1 : 1 + Q], found[1 + Q :].reshape(-1, Q)
        with np.errstate(over="ignore", invalid="ignore"):
            centred = (products - np.outer(self.rest, sums)) / self.x_scale[:, None]
        return float(found[0]), np.vstack([sums, centred[self.order]])

    def square(self, columns: Ints, weight: Float, positive: bool) -> Float:
        """Return Z diag(weight) Z' of columns, the first being 0, shape (k, k), for a weight (n,) on the device."""
        device, index = self.device, self.order[columns[1:] - 1]
        place = None if np.array_equal(index, np.arange(self.order.size)) else device.positions(index)
        view = place is None and self._shift is None and self.table.plain
        column = (device.xp.sqrt(weight) if positive else weight)[:, None]

        def of(s: slice) -> Float:
            left, own = self.block(s, place), column[s, ...]
            if positive and not view:
                left *= own
            elif positive:
                left = left * own
            right = left if positive else left * own
            both: Float = device.xp.concat([left.T @ right, left.T @ own], axis=1)
            return both

        total = float(device.xp.sum(weight))
        return self._centred(on_host(self.table.summed(of)) if index.size else np.zeros((0, 1)), index, total)

    def _centred(self, found: Float, index: Ints, total: float) -> Float:
        """Return the products of [1, Z] from those of X with X and with 1, and the sum of the weights."""
        G, sums, rest = found[:, :-1], found[:, -1], self.rest[index]
        H = np.empty((1 + index.size, 1 + index.size))
        centred = sums - rest * total
        H[0, 0], H[0, 1:] = total, centred / self.x_scale[index]
        H[1:, 0] = H[0, 1:]
        H[1:, 1:] = (G - np.outer(rest, sums) - np.outer(centred, rest)) / self.x_scale[index, None]
        H[1:, 1:] /= self.x_scale[index]
        return H

    def between(self, columns: Ints, others: Ints, weight: Float) -> Float:
        """Return Z diag(weight) Z' between columns, the first being 0, and others, without it: shape (k, m)."""
        device, here, there = self.device, self.order[columns[1:] - 1], self.order[others - 1]
        xp, left, right = device.xp, device.positions(here), device.positions(there)

        def of(s: slice) -> Float:
            own = weight[s][:, None]
            A, B = self.block(s, left), self.block(s, right) * own
            level = xp.concat([xp.sum(B, axis=0)[None, :], xp.sum(own, axis=0)[None, :]], axis=1)
            both: Float = xp.concat([xp.concat([A.T @ B, A.T @ own], axis=1), level], axis=0)
            return both

        found = on_host(self.table.summed(of))
        G = found[:, :-1] - np.outer(found[:, -1], self.rest[there])
        G[:-1] -= np.outer(self.rest[here], G[-1])
        G[:-1] /= self.x_scale[here, None]
        return np.asarray(np.vstack([G[-1:], G[:-1]]) / self.x_scale[there])

    def whole(self, columns: Ints, curvature: Curvature) -> Float:
        """Return H of columns, the first being 0, shape (k, Q, k, Q)."""
        Q = curvature.scale.shape[1] if curvature.contrasts is None else curvature.contrasts.shape[1]
        H = np.empty((columns.size, Q, columns.size, Q))
        for q in range(Q):
            for r in range(q + 1):
                H[:, q, :, r] = self.square(columns, curvature.between(q, r), q == r)
                H[:, r, :, q] = H[:, q, :, r]
        return H

    def tiles(self, groups: Ints, curvature: Curvature) -> Float:
        """Return H of groups (J, s) of one size without the intercept, shape (J, sQ, sQ)."""
        at_once, found = max(1, TILE // groups.shape[1]), []
        for start in range(0, len(groups), at_once):
            part = groups[start : start + at_once]
            H = self.whole(np.concatenate([[0], part.ravel()]), curvature)
            places = 1 + np.arange(part.size).reshape(part.shape)
            found += [part_of(H, place, place) for place in places]
        return np.array(found)

    def sample(self, columns: Ints, most: int) -> RowSample:
        """Return a sample of rows."""
        index = self.order[columns - 1]
        return sample_of(self.table, self.weight, index, most).standardised(self.x_mean[index], self.x_scale[index])


@dataclass(frozen=True)
class _DevicePoint(WholeHessians):
    """Scores η (n, Q) on the device; on the host the risk, minus the gradient (1 + D, Q), and perhaps H of all."""

    engine: DeviceEngine
    eta: Float
    risk: float
    descent: Float
    H: Float | None = None

    @cached_property
    def curvature(self) -> Curvature:
        """ω∇²φ(η), on the device."""
        return self.engine.curvature(self.eta).weighted(self.engine.shares[:, 0])

    def gradient(self, columns: Ints | None) -> Float:
        return self.descent[1:].copy() if columns is None else self.descent[columns]

    def hessian(self, columns: Ints, score: int | None = None) -> Float:
        if self.H is not None:
            return part_of(self.H, columns, columns, score)
        if score is not None:
            return self.engine.square(columns, self.curvature.between(score, score), True)
        H = self.engine.whole(columns, self.curvature)
        return H.reshape(columns.size * H.shape[1], -1)

    def cross(self, columns: Ints, others: Ints | None) -> Float:
        if self.H is not None:
            return part_of(self.H, columns, others)
        others, Q = np.arange(1, len(self.descent)) if others is None else others, self.descent.shape[1]
        H = np.empty((columns.size, Q, others.size, Q))
        for q in range(Q):
            for r in range(q + 1):
                H[:, q, :, r] = self.engine.between(columns, others, self.curvature.between(q, r))
                H[:, r, :, q] = H[:, q, :, r]
        return H.reshape(columns.size * Q, -1)

    def blocks(self, groups: Ints) -> Float:
        if self.H is not None:
            return np.array([part_of(self.H, group, group) for group in groups])
        return self.engine.tiles(groups, self.curvature)

    def product(self, columns: Ints, V: Float) -> Float:
        T, Q = self.engine.scores(columns, V), V.shape[1]
        xp = self.engine.device.xp
        rows = [sum(self.curvature.between(q, r) * T[:, r] for r in range(Q)) for q in range(Q)]
        U = xp.stack(rows, axis=1)
        return self.engine.project(U, xp.sum(U))[1][columns]

    def curvature_range(self) -> tuple[float, float]:
        trace = on_host(self.engine.curvature(self.eta).trace())[self.engine.weight > 0]
        return float(trace.min(initial=np.inf)), float(trace.max(initial=0.0))

    def complete(self, columns: Ints, starts: Ints) -> _DevicePoint:
        D, Q = self.engine.order.size, self.descent.shape[1]
        if self.H is not None or 2 * columns.size + EXTRA < D or (Q > 1 and Q * (1 + D) > WHOLE):
            return self
        return replace(self, H=self.engine.whole(np.arange(1 + D), self.curvature))

    def near(self, columns: Ints, theta: Float) -> _DevicePoint:
        return self.engine.at(columns, theta)
