"""Block-pivoted factorisations of C, one group of columns at a time: from C itself, or from the columns of X.

For the chosen columns S, in order, C_S = U'U with U upper triangular and z = U⁻ᵀ b_S. Choosing a group appends rows to
P = U⁻ᵀ C_{S,·}. `BlockCholesky` takes them from C, `GramSchmidt` from the data.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import qr, solve_triangular
from scipy.linalg.blas import dtrsm

from budgetline.arrays import Float, Mask, Positions
from budgetline.devices import Device, DeviceTable, on_host
from budgetline.leastsquares.gram import EPS, Gram, factor_of_independent
from budgetline.moments.columns import StandardisedColumns

NOISE = 64 * EPS
"""Rounding error of a well-conditioned elimination, with a margin."""
FEW_DIGITS = 1e-4
"""A standardised column with a remainder below this has lost digits: it is orthogonalised again."""


@dataclass(frozen=True)
class Factor:
    """C_S = U'U and z = U⁻ᵀ b_S (k, P) for the chosen columns S (T,), in order, and where each stage ends.

    U (k, T) is upper triangular. A column that depends on earlier ones (λ = 0) adds no row: ``kept`` (T,) is False, and
    ``left`` (T,) is the norm of its remainder, 0 if unknown. The first j stages have ``row_ends[j]`` rows and
    ``column_ends[j]`` columns of U.
    """

    U: Float
    z: Float
    columns: Positions
    kept: Mask
    row_ends: Positions
    column_ends: Positions
    left: Float


class _Chosen:
    """The groups chosen so far, b (D, P) and the variances (P,) of the targets. Columns are in group-major order."""

    def __init__(self, b: Float, target_variance: Float) -> None:
        self.b, self.target_variance = b, target_variance
        self._columns: list[Positions] = []
        self._kept: list[Mask] = []
        self._z: list[Float] = []
        self._lost: list[Float] = []

    def factor(self) -> Factor:
        """Return the factor of everything chosen."""
        columns = np.concatenate([np.empty(0, dtype=np.intp), *self._columns])
        kept = np.concatenate([np.empty(0, dtype=bool), *self._kept])
        z = np.vstack([np.zeros((0, self.b.shape[1])), *self._z])
        row_ends = np.cumsum([len(z) for z in self._z], dtype=np.intp)
        column_ends = np.cumsum([c.size for c in self._columns], dtype=np.intp)
        left = np.concatenate([np.empty(0), *self._lost])
        return Factor(self._triangle(columns), z, columns, kept, row_ends, column_ends, left)

    def _triangle(self, columns: Positions) -> Float:
        """Return U (k, T) of the chosen columns."""
        raise NotImplementedError

    def _note(self, columns: Positions, kept: Mask, z: Float, left: Float) -> None:
        self._columns.append(columns)
        self._kept.append(kept)
        self._z.append(z)
        self._lost.append(left)


class BlockCholesky(_Chosen):
    """Rows of P from C itself: col = C_g· − P_g'P, then P_new = L⁻¹ col.

    Columns are counted among those *in play*: all, until `narrow` leaves out some that have been chosen.
    """

    def __init__(self, gram: Gram) -> None:
        super().__init__(gram.b, gram.target_variance)
        self._gram, self._eps = gram, max(NOISE, gram.eps)
        self._left, self._error = np.diag(gram.C), np.full(len(gram.C), self._eps)
        self._P, self._ids = np.empty(gram.C.shape), np.arange(len(gram.C))
        self._U: list[Float] = []
        self._rank = 0

    def rounding(self) -> Float:
        """Estimate the rounding error of the gradient of every column, shape (D,), for targets of deviation one.

        It is the error of C times the coefficients of y, 1/p, and of column d, √left_d/p, for the pivot p.
        """
        return self._error

    def blocks(self, columns: Positions) -> Float:
        """Return C_g for groups of one size, given their columns (J_s, s): shape (J_s, s, s)."""
        return self._gram.blocks(self._ids[columns])

    def append(self, columns: Positions, r: Float) -> tuple[Float, Float]:
        """Choose adjacent columns, with r the gradient (D, P): return the new rows (m, D) of P and the new z (m, P)."""
        here, k, ids = slice(columns[0], columns[-1] + 1), self._rank, self._ids
        C, P = self._gram.C[ids[columns[0]] : ids[columns[-1]] + 1], self._P[:k, : ids.size]
        col = (C if ids.size == C.shape[1] else C.take(ids, axis=1)) - P[:, here].T @ P
        L, kept = factor_of_independent(col[:, here])
        rows, z = _forward(L, col if kept.all() else col[kept]), _forward(L, r[here][kept])
        p = L.diagonal().min(initial=1.0)
        self._error = np.maximum(self._error, self._eps / p * np.maximum(1.0, np.sqrt(self._left) / p))
        self._left = np.maximum(self._left - np.einsum("kd,kd->d", rows, rows), 0.0)
        self._rank += len(rows)
        self._P[k : self._rank, : ids.size] = rows
        self._U.append(self._P[: self._rank, here].copy())
        self._note(self._ids[here], kept, z, np.zeros(kept.size))
        return rows, z

    def left_over(self, columns: Positions, r: Float) -> tuple[Float, Float]:
        """Return the Schur complement (s, s) of columns A after those chosen, C_A − P_A'P_A, and their gradient (s, P).

        ``r`` (D, P) is the gradient of the columns in play.
        """
        P, ids = self._P[: self._rank, columns], self._ids[columns]
        return self._gram.C[np.ix_(ids, ids)] - P.T @ P, r[columns]

    def narrow(self, stay: Mask) -> None:
        """Keep only some of the columns in play, which ``stay`` (D,) marks; the others must have been chosen."""
        left, k = np.flatnonzero(stay), self._rank
        self._P[:k, : left.size] = self._P[:k].take(left, axis=1)
        self._ids, self._left, self._error = self._ids[left], self._left[left], self._error[left]

    def _triangle(self, columns: Positions) -> Float:
        U, start = np.zeros((self._rank, columns.size)), 0
        for part in self._U:
            U[: len(part), start : start + part.shape[1]] = part
            start += part.shape[1]
        return U


class GramSchmidt(_Chosen):
    """Rows of P from the data, by block Gram–Schmidt with reorthogonalisation.

    The columns of [A; √λ I], with A standardised, are made orthonormal group by group; the new rows are q'A. Nothing of
    size D × D is formed, and the condition number is not squared. The basis Q has the rows of A, and below them those
    of √λ I that belong to chosen columns. It stays where X is, and every step goes there and back twice.

    ``order`` (D,) are the columns of A, group after group, ``targets`` have shape (n, P), and ``noise`` (D,) are norms
    of the rounding errors of the columns of A, see `_spanned`.
    """

    def __init__(self, A: StandardisedColumns, order: Positions, targets: Float, alpha: float, noise: Float) -> None:
        super().__init__(np.ascontiguousarray(A.project(targets).T[order]), (targets**2).sum(axis=0))
        self.A, self.order, self.alpha, self._noise = A, order, alpha, noise[order]
        self._in_order = np.array_equal(order, np.arange(A.scale.size))
        self._target, self._n = np.vstack([targets, np.zeros((order.size, targets.shape[1]))]), len(targets)
        self._T, self._k, self._pivots, self._left = 0, 0, np.empty(0), np.ones(order.size)
        self._worst = 0.0  # noise of a chosen column
        on_device = isinstance(A.X, DeviceTable) and A.X.device.writable
        self._device: Device | None = A.X.device if on_device else None
        self._Q, self._U = self._zeros((self._n, 0)), np.zeros((0, 0), order="F")

    def blocks(self, columns: Positions) -> Float:
        """Return C_g for groups of one size, given their columns (J_s, s): (J_s, s, s); a few groups at a time."""
        blocks, diagonal = self.A.squares(self.order[columns]), np.arange(columns.shape[1])
        blocks[:, diagonal, diagonal] += self.alpha
        return blocks

    def rounding(self) -> Float:
        """Estimate the error of V_d'(y − Xw): a direction of norm p is known to eps/p, times the norm of V_d."""
        return np.asarray(NOISE * np.maximum(1.0, np.sqrt(self._left) / self._pivots.min(initial=1.0)))

    def append(self, columns: Positions, r: Float) -> tuple[Float, Float]:
        """Choose adjacent columns, with r the gradient (D, P): return the new rows (m, D) of P and the new z (m, P)."""
        size, T, k = columns.size, self._T, self._k
        # 1. orthogonalise against what was chosen
        V, above = self._orthogonal(columns)
        # 2. make the remainders orthonormal, and leave out noise
        q, corner, kept, left = self._orthonormal(V, above, self._noise[columns])
        pivots = np.abs(np.diag(corner[:, kept]))
        if k and pivots.min(initial=1.0) < FEW_DIGITS:
            q, corner, above = self._again(q, corner, above)
            pivots = np.abs(np.diag(corner[:, kept]))
        self._pivots = np.append(self._pivots, pivots)
        self._worst = max(self._worst, self._noise[columns].max())
        # 3. the targets lose their part along q
        z = q.T @ self._target[: len(q)]
        self._target[: len(q)] -= q @ z
        # 4. grow Q and U; the new rows of P are q'A
        self._T, self._k = T + size, k + q.shape[1]
        there = q if self._device is None else self._device.put(q)
        self._make_room()
        self._Q[: len(q), k : self._k] = there
        self._U = _grown(self._U, self._k, self._T)
        self._U[:k, T : self._T], self._U[k : self._k, T : self._T] = above, corner
        self._note(columns, kept, z, left)
        rows = self.A.project(there[: self._n, ...])
        rows = rows if self._in_order else rows[:, self.order]
        self._left = np.maximum(self._left - np.einsum("kd,kd->d", rows, rows), 0.0)
        return rows, z

    def residual(self, columns: Positions) -> tuple[Float, Float, Float]:
        """Return V'V, V'Y and ‖V_d‖, 0 if noise, of the remainders (N, s) of columns after those chosen."""
        V, above = self._orthogonal(columns)
        size = np.sqrt((V**2).sum(axis=0))
        self._left[columns] = size**2
        r = V.T @ self._target[: len(V)]
        noise = self._noise[columns]
        doubtful = np.flatnonzero(size <= np.maximum(noise, self._worst) * self._grown(above))
        if doubtful.size:
            along = _back(self._chosen_basis(), above[:, doubtful])
            noise[doubtful] = np.hypot(noise[doubtful], np.linalg.norm(self._basis_noise()[:, None] * along, axis=0))
        return V.T @ V, r, np.where(size > noise, size, 0.0)

    def left_over(self, columns: Positions, r: Float) -> tuple[Float, Float]:
        """Return V'V and V'Y of the remainders of columns, in units of their norms: even tiny remainders count."""
        block, own, size = self.residual(columns)
        unit = np.divide(1.0, size, out=np.zeros_like(size), where=size > 0)
        return block * unit[:, None] * unit, np.where(r[columns] == 0, 0.0, own) * unit[:, None]

    def _orthonormal(self, V: Float, above: Float, noise: Float) -> tuple[Float, Float, Mask, Float]:
        """Return q (N, m) orthonormal, q'V (m, s), which columns of V it spans, and the norms of what it leaves of V.

        ``above`` (k, s) are the parts removed from V (N, s), and ``noise`` (s,) the errors of its columns.
        """
        q, R = qr(V, mode="economic", check_finite=False)
        pivots = np.abs(np.diag(R))
        if np.all(pivots > 0):
            R = np.triu(R)
            grown = np.maximum(self._grown(above), (np.abs(R) / pivots[:, None]).max(axis=0))
            if np.all(pivots > max(noise.max(), self._worst) * grown):
                return q, R, np.ones(V.shape[1], dtype=bool), np.zeros(V.shape[1])
        kept, left = self._spanned(R, above, noise)
        q, _ = qr(V[:, kept], mode="economic", check_finite=False)
        return q, q.T @ V, kept, left

    def _again(self, q: Float, corner: Float, above: Float) -> tuple[Float, Float, Float]:
        """Return q, q'V and the parts removed, with q (N, m) made orthogonal to Q once more.

        If little was left of V, scaling the remainders to norm one has enlarged their rounding errors along Q.
        """
        k, N = self._k, self._n + self._T
        Q, part = self._Q[:N, :k], q[:N] if self._device is None else self._device.put(q[:N])
        h = Q.T @ part
        part, h = (part - Q @ h, h) if self._device is None else (on_host(part - Q @ h), on_host(h))
        q, turn = qr(np.vstack([part, q[N:]]), mode="economic", check_finite=False)
        return q, np.triu(turn) @ corner, above + h @ corner

    def _spanned(self, R: Float, above: Float, noise: Float) -> tuple[Mask, Float]:
        """Mark the columns of V = QR, one after another, whose remainder is more than the error that it inherits.

        A remainder is a combination Σ c_d x_d of its own column and of chosen ones, with errors ε_d. So its error is
        √Σ (c_d ε_d)². Also return the norms of the remainders that are noise.
        """
        chosen, basis_noise, size = self._chosen_basis(), self._basis_noise(), noise.size
        kept, left, basis, T = np.zeros(size, dtype=bool), np.zeros(size), np.empty((len(R), 0)), np.empty((0, 0))
        for j in range(size):
            v, own = R[:, j], np.zeros(basis.shape[1])
            for _ in range(2):
                h = basis.T @ v
                v, own = v - basis @ h, own + h
            c = _back(T, own)
            others = basis_noise * _back(chosen, above[:, j] - above[:, kept] @ c)  # one solution: two would cancel
            error = np.linalg.norm(np.concatenate([[noise[j]], noise[kept] * c, others]))
            left[j] = np.linalg.norm(v)
            if left[j] > error:
                T = np.block([[T, own[:, None]], [np.zeros((1, own.size)), left[j]]])
                basis = np.column_stack([basis, v / left[j]])
                kept[j], left[j] = True, 0.0
        return kept, left

    def _grown(self, above: Float) -> Float:
        """Return by how much (s,) the small pivots of Q enlarge errors of the parts removed."""
        return np.asarray((np.abs(above) / self._pivots[:, None]).max(axis=0, initial=1.0))

    def _chosen_basis(self) -> Float:
        """Return the columns (k, k) of U that belong to the chosen columns that span Q: upper triangular."""
        return self._U[: self._k, : self._T][:, np.concatenate([np.empty(0, dtype=bool), *self._kept])]

    def _basis_noise(self) -> Float:
        chosen = zip(self._columns, self._kept, strict=True)
        return np.concatenate([np.empty(0), *(self._noise[columns[kept]] for columns, kept in chosen)])

    def _orthogonal(self, columns: Positions) -> tuple[Float, Float]:
        """Orthogonalise columns against those chosen, twice: once is not enough if little is left.

        Returns the remainders (n + T + s, s), whose last rows are their own of √λ I, and the coordinates (k, s) of the
        parts removed.
        """
        size, k, N = columns.size, self._k, self._n + self._T
        index, Q = self.order[columns], self._Q[:N, :k]
        V, above = self._zeros((N, size)), self._zeros((k, size))
        V[: self._n, ...] = self.A.columns(index) if self._device is None else self.A.columns_there(index)
        for _ in range(2 if k else 0):
            h = Q.T @ V
            V -= Q @ h
            above += h
        if self._device is not None:  # one copy takes less time than two
            both = on_host(self._device.xp.concat([V, above], axis=0))
            V, above = both[:N], both[N:]
        return np.vstack([V, np.sqrt(self.alpha) * np.eye(size)]), above

    def _zeros(self, shape: tuple[int, int]) -> Float:
        """Return zeros where X is, in column-major order."""
        rows, columns = shape
        return (np.zeros((columns, rows)) if self._device is None else self._device.zeros((columns, rows))).T

    def _make_room(self) -> None:
        """Grow Q to twice the chosen columns, or to all columns if these are fewer."""
        N, room = self._Q.shape
        if room < self._T:
            more = min(2 * self._T, self.order.size)
            larger = self._zeros((self._n + more, more))
            larger[:N, :room] = self._Q
            self._Q = larger

    def _triangle(self, columns: Positions) -> Float:
        return self._U[: self._k, : self._T].copy()


Factorisation = BlockCholesky | GramSchmidt


def _forward(L: Float, B: Float) -> Float:
    """Return L⁻¹B for lower triangular L and row-major B, which is overwritten: as B'L⁻ᵀ, so that nothing is copied."""
    return np.asarray(dtrsm(1.0, L.T, B.T, side=1, overwrite_b=1).T) if L.size else B


def _back(T: Float, B: Float) -> Float:
    return np.asarray(solve_triangular(T, B, check_finite=False)) if T.size else B


def _grown(array: Float, rows: int, columns: int) -> Float:
    """Return the array padded with zeros, unless it already has that many rows and columns."""
    have = array.shape
    room = tuple(h if need <= h else max(need, 2 * h) for need, h in zip((rows, columns), have, strict=True))
    if room == have:
        return array
    larger = np.zeros(room, order="F")
    larger[: have[0], : have[1]] = array
    return larger
