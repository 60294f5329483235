"""Regularised least squares as an objective of the greedy loop: one block-pivoted factorisation does everything.

With standardised X and centred Y (weights in every mean),

    C = X'X/n + λI        b = X'Y/n        F(S) = ½ tr(b_S' C_S⁻¹ b_S)        r = b − C_{·S} w(S).

For the chosen columns S, in order, C_S = U'U with U upper triangular and z = U⁻ᵀ b_S, so F(S) = ½‖z‖². Choosing a
group appends rows [U_gg, P] to the factor, P = L⁻¹ C_{S,·}, after which

    r ← r − P_new' z_new,    Schur blocks ← Schur blocks − P_new,h' P_new,h,    F ← F + ½‖z_new‖².

The new rows come from a *source*: :class:`Gram` when C is at hand, :class:`Columns` when only the columns of X are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import qr, solve_triangular

from budgetline.data.rows import CHUNK_BYTES
from budgetline.objectives.blocks import SizeClass, independent, size_classes
from budgetline.objectives.rules import RULES, ForwardRegression
from budgetline.statistics.columns import StandardisedColumns
from budgetline.statistics.moments import Moments

Float = NDArray[np.float64]

EPS = float(np.finfo(np.float64).eps)

NOISE = 64 * EPS
"""Rounding error of a well-conditioned elimination, with a margin."""
RENEW = 1e-6
"""A Schur block that has shrunk to this share of its columns' variance has few digits left."""


@dataclass(frozen=True)
class Factor:
    """C_S = U'U and z = U⁻ᵀ b_S for the chosen columns S, and where each stage ends.

    Attributes
    ----------
    U : array of shape (k, T)
        Upper triangular; fewer rows than columns where columns depend on earlier ones (then λ = 0).
    z : array of shape (k, P)
    columns : int array of shape (T,)
        The chosen columns, in order.
    kept : bool array of shape (T,)
        Whether a column added a row to U; the others depend on those before them.
    row_ends, column_ends : int arrays of shape (stages,)
        Rows and columns of U that belong to the first j stages.
    """

    U: Float
    z: Float
    columns: NDArray[np.intp]
    kept: NDArray[np.bool_]
    row_ends: NDArray[np.intp]
    column_ends: NDArray[np.intp]


class Source(Protocol):
    """Where rows of the factor come from. Columns are in group-major order."""

    gradient: Float
    """b, the gradient at the empty set, shape (D, P)."""
    target_variance: Float
    """Σ w y²/Σ w of each centred target, shape (P,)."""

    def rounding(self) -> Float:
        """Estimate the rounding error of the gradient of every column, shape (D,), for targets of deviation one."""
        ...

    def blocks(self, columns: NDArray[np.intp]) -> Float:
        """Return C_g for columns (J_s, s), shape (J_s, s, s)."""
        ...

    def append(self, columns: NDArray[np.intp], r: Float) -> tuple[Float, Float]:
        """Choose adjacent ``columns``: return the new rows (m, D) of P and the new z (m, P)."""
        ...

    def left_over(self, columns: NDArray[np.intp], r: Float) -> tuple[Float, Float]:
        """Return the Schur complement (s, s) of any columns after those chosen, and their gradient (s, P).

        ``r`` (D, P) is the gradient of all columns. What is returned may be in units of what is left of each column.
        """
        ...

    def factor(self) -> tuple[Float, Float, NDArray[np.bool_]]:
        """Return U (k, T), z (k, P) and the mask of columns kept (T,) of all that was chosen."""
        ...


class Gram:
    """Rows of the factor from C itself, by block Cholesky: col = C_g· − P_g'P, then P_new = L⁻¹ col."""

    def __init__(self, C: Float, b: Float, target_variance: Float, eps: float = EPS) -> None:
        self.C, self.gradient, self.target_variance = C, b, target_variance
        self._left, self._eps, self._error = np.diag(C), max(NOISE, eps), np.full(len(C), max(NOISE, eps))
        self._P = np.empty(C.shape)
        self._z = np.empty(b.shape)
        self._rank = 0
        self._chosen: list[NDArray[np.intp]] = []
        self._kept: list[NDArray[np.bool_]] = [np.empty(0, dtype=bool)]

    @classmethod
    def of(cls, moments: Moments, order: NDArray[np.intp], alpha: float) -> Gram:
        """Return C, b and the variances of the targets for columns in the given order, standardised."""
        D = moments.n_features
        scale = moments.standardisation()[1][order]
        C = moments.scatter[np.ix_(order, order)]
        C /= moments.weight * scale
        C /= scale[:, None]
        # A constant column is zero after standardisation; on the diagonal it gets a one, so that it is no special case.
        C[np.arange(order.size), np.arange(order.size)] += np.where(np.isfinite(scale), 0.0, 1.0) + alpha
        b = moments.scatter[order, D:] / (moments.weight * scale)[:, None]
        return cls(C, b, np.maximum(np.diag(moments.scatter)[D:], 0.0) / moments.weight, moments.eps)

    def rounding(self) -> Float:
        """Return the error of C times the coefficients of y, 1/p, and of column d, √left_d/p, where p was the pivot."""
        return self._error

    def blocks(self, columns: NDArray[np.intp]) -> Float:
        """Return C_g of groups of one size."""
        return np.asarray(self.C[columns[:, :, None], columns[:, None, :]])

    def append(self, columns: NDArray[np.intp], r: Float) -> tuple[Float, Float]:
        """Choose columns: return the new rows of P and the new z."""
        here, k = slice(columns[0], columns[-1] + 1), self._rank
        col = self.C[here] - self._P[:k, here].T @ self._P[:k]
        kept = independent(col[:, here])
        L = np.linalg.cholesky(col[kept][:, here][:, kept])
        rows = solve_triangular(L, col[kept], lower=True, check_finite=False)
        z = solve_triangular(L, r[here][kept], lower=True, check_finite=False)
        p = np.diag(L).min(initial=1.0)
        self._error = np.maximum(self._error, self._eps / p * np.maximum(1.0, np.sqrt(self._left) / p))
        self._left = np.maximum(self._left - (rows**2).sum(axis=0), 0.0)
        self._rank += len(rows)
        self._P[k : self._rank], self._z[k : self._rank] = rows, z
        self._chosen.append(columns)
        self._kept.append(kept)
        return rows, z

    def left_over(self, columns: NDArray[np.intp], r: Float) -> tuple[Float, Float]:
        """Return C_A − P_A'P_A and r_A of columns A."""
        P = self._P[: self._rank, columns]
        return self.C[np.ix_(columns, columns)] - P.T @ P, r[columns]

    def factor(self) -> tuple[Float, Float, NDArray[np.bool_]]:
        """Return U, z and the columns kept of all that was chosen."""
        chosen = np.concatenate(self._chosen) if self._chosen else np.empty(0, dtype=np.intp)
        return self._P[: self._rank, chosen], self._z[: self._rank].copy(), np.concatenate(self._kept)


class Columns:
    """Rows of the factor from the data, by block Gram–Schmidt with reorthogonalisation.

    The columns of [A; √λ I], with A standardised, are made orthonormal group by group; the new rows are q'A. Nothing of
    size D × D is formed, and the condition number is not squared. ``Q`` is kept in two parts, over the rows of A and
    over the rows of √λ I that belong to chosen columns.

    Parameters
    ----------
    A : StandardisedColumns, shape (n, D)
    order : int array of shape (D,)
        Columns of A, group after group.
    targets : array of shape (n, P)
    alpha : float
    noise : array of shape (D,)
        What is left of a column of A after orthogonalisation is rounding noise if its norm is below this.
    """

    def __init__(
        self, A: StandardisedColumns, order: NDArray[np.intp], targets: Float, alpha: float, noise: Float
    ) -> None:
        self.A, self.order, self.alpha, self._noise = A, order, alpha, noise[order]
        self._target = targets.copy()
        self._lower_target = np.zeros((0, targets.shape[1]))
        self._T, self._k, self._pivots, self._left = 0, 0, np.empty(0), np.ones(order.size)
        self._Q = np.zeros((targets.shape[0], 0), order="F")
        self._lower = np.zeros((0, 0), order="F")
        self._U = np.zeros((0, 0), order="F")
        self._z: list[Float] = []
        self._kept: list[NDArray[np.bool_]] = [np.empty(0, dtype=bool)]
        self.gradient = np.ascontiguousarray(A.project(targets).T[order])
        self.target_variance = (targets**2).sum(axis=0)

    def blocks(self, columns: NDArray[np.intp]) -> Float:
        """Return C_g of groups of one size, from a few columns at a time."""
        return diagonal_blocks(self.A, self.order, columns, self.alpha)

    def rounding(self) -> Float:
        """Return the error of V_d'(y − Xw): a direction of norm p is known to eps/p, as far as V_d reaches."""
        return np.asarray(NOISE * np.maximum(1.0, np.sqrt(self._left) / self._pivots.min(initial=1.0)))

    def append(self, columns: NDArray[np.intp], r: Float) -> tuple[Float, Float]:
        """Choose columns: return the new rows of P and the new z."""
        size, T, k = columns.size, self._T, self._k
        # 1. orthogonalise against what was chosen
        upper, lower, above = self._orthogonal(columns)
        # 2. make what is left orthonormal, without the columns that are only noise
        q, corner, kept = _orthonormal(np.vstack([upper, lower]), self._noise_of(columns, above))
        self._pivots = np.append(self._pivots, np.abs(np.diag(corner[:, kept])))
        q_upper, q_lower = q[: len(upper)], q[len(upper) :]
        # 3. the targets lose their part along q
        self._lower_target = np.vstack([self._lower_target, np.zeros((size, self._target.shape[1]))])
        z = q_upper.T @ self._target + q_lower.T @ self._lower_target
        self._target -= q_upper @ z
        self._lower_target -= q_lower @ z
        # 4. grow Q and U; the new rows of P are q'A
        self._T, self._k = T + size, k + q.shape[1]
        self._Q = grown(self._Q, len(upper), self._k)
        self._lower = grown(self._lower, self._T, self._k)
        self._U = grown(self._U, self._k, self._T)
        self._Q[:, k : self._k] = q_upper
        self._lower[: self._T, k : self._k] = q_lower
        self._U[:k, T : self._T], self._U[k : self._k, T : self._T] = above, corner
        self._z.append(z)
        self._kept.append(kept)
        rows = self.A.project(q_upper)[:, self.order]
        self._left = np.maximum(self._left - (rows**2).sum(axis=0), 0.0)
        return rows, z

    def residual(self, columns: NDArray[np.intp]) -> tuple[Float, Float, Float]:
        """Return V'V (s, s), V'Y (s, P) and ‖V_d‖ (s,), 0 if noise, of what is left of columns after those chosen."""
        upper, lower, above = self._orthogonal(columns)
        size = np.sqrt((upper**2).sum(axis=0) + (lower**2).sum(axis=0))
        r = upper.T @ self._target + lower[: self._T].T @ self._lower_target
        self._left[columns] = size**2
        return upper.T @ upper + lower.T @ lower, r, np.where(size > self._noise_of(columns, above), size, 0.0)

    def left_over(self, columns: NDArray[np.intp], r: Float) -> tuple[Float, Float]:
        """Return V'V and V'Y of what is left of columns, in units of its size: however little it is, it counts."""
        block, own, size = self.residual(columns)
        unit = np.divide(1.0, size, out=np.zeros_like(size), where=size > 0)
        return block * unit[:, None] * unit, np.where(r[columns] == 0, 0.0, own) * unit[:, None]

    def _noise_of(self, columns: NDArray[np.intp], above: Float) -> Float:
        """Return the norms below which what is left of columns is noise, given what was taken away, ``above`` (k, s).

        A direction of norm p is known to eps/p, so a component u along it leaves an error of u·eps/p.
        """
        return np.asarray(self._noise[columns] * (np.abs(above) / self._pivots[:, None]).max(axis=0, initial=1.0))

    def _orthogonal(self, columns: NDArray[np.intp]) -> tuple[Float, Float, Float]:
        """Orthogonalise columns against those chosen, twice: once is not enough when little is left.

        Returns what is left, over the rows of A and of √λ I, and the coordinates (k, s) of what was taken away.
        """
        size, T, k = columns.size, self._T, self._k
        Q, Q_lower = self._Q[:, :k], self._lower[:T, :k]
        upper = self.A.columns(self.order[columns])
        lower = np.vstack([np.zeros((T, size)), np.sqrt(self.alpha) * np.eye(size)])
        above = np.zeros((k, size))
        for _ in range(2):
            h = Q.T @ upper + Q_lower.T @ lower[:T]
            upper -= Q @ h
            lower[:T] -= Q_lower @ h
            above += h
        return upper, lower, above

    def factor(self) -> tuple[Float, Float, NDArray[np.bool_]]:
        """Return U, z and the columns kept of all that was chosen."""
        z = np.vstack([np.zeros((0, self._target.shape[1])), *self._z])
        return self._U[: self._k, : self._T].copy(), z, np.concatenate(self._kept)


def diagonal_blocks(A: StandardisedColumns, order: NDArray[np.intp], columns: NDArray[np.intp], alpha: float) -> Float:
    """Return A_g'A_g + λI, shape (J_s, s, s), for columns (J_s, s) that count in ``order``; a few columns at a time."""
    count, size = columns.shape
    blocks = np.empty((count, size, size))
    batch = max(1, CHUNK_BYTES // (8 * size * A.root.size))
    for start in range(0, count, batch):
        part = columns[start : start + batch]
        # one contiguous matrix per group, or the product would not be left to BLAS
        chunk = np.ascontiguousarray(A.columns(order[part.ravel()]).T).reshape(len(part), size, -1)
        blocks[start : start + batch] = chunk @ chunk.transpose(0, 2, 1)
    blocks[:, np.arange(size), np.arange(size)] += alpha
    return blocks


def grown(array: Float, rows: int, columns: int) -> Float:
    """Return the array in a larger one of zeros, if it does not hold so many rows and columns already."""
    have = array.shape
    room = tuple(h if need <= h else max(need, 2 * h) for need, h in zip((rows, columns), have, strict=True))
    if room == have:
        return array
    grown = np.zeros(room, order="F")
    grown[: have[0], : have[1]] = array
    return grown


def _orthonormal(V: Float, noise: Float) -> tuple[Float, Float, NDArray[np.bool_]]:
    """Return q (N, m) orthonormal, q'V (m, s) and which columns of V it spans: not those below their noise."""
    q, R = qr(V, mode="economic", check_finite=False)
    kept = np.ones(V.shape[1], dtype=bool)
    pivots = np.abs(np.diag(R))
    if np.all(pivots > 0) and np.all(pivots > noise * (np.abs(np.triu(R)) / pivots[:, None]).max(axis=0)):
        return q, np.triu(R), kept
    _, R, order = qr(V, mode="economic", pivoting=True, check_finite=False)
    kept[order[int(np.sum(np.abs(np.diag(R)) > noise.max())) :]] = False
    q, _ = qr(V[:, kept], mode="economic", check_finite=False)
    return q, q.T @ V, kept


def columns_of(parts: Sequence[Sequence[int]], starts: NDArray[np.intp]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return the columns of groups, part after part, and how many of them belong to the first 1, 2, … parts."""
    columns = [[np.arange(starts[g], starts[g + 1]) for g in part] for part in parts]
    ends = np.cumsum([sum(c.size for c in part) for part in columns], dtype=np.intp)
    return np.concatenate([c for part in columns for c in part]), ends


class LeastSquares:
    """State of a least-squares sequence for the greedy loop: scores, gains, and what a choice changes.

    Parameters
    ----------
    source : Gram or Columns
    sizes : int array of shape (J,)
        Number of columns of each group; groups are adjacent, in order.
    rule : str
        A key of ``RULES``.
    track_gains : bool
        Whether :meth:`gains` will be asked for.
    """

    def __init__(self, source: Source, sizes: NDArray[np.intp], rule: str, *, track_gains: bool = False) -> None:
        self._source = source
        self._starts = np.concatenate([[0], np.cumsum(sizes)])
        self._r = source.gradient.copy()
        self._deviation = np.sqrt(source.target_variance)
        classes: list[SizeClass] = size_classes(sizes, source.blocks)
        self._rule = RULES[rule](classes)
        self._forward: ForwardRegression | None = None
        if isinstance(self._rule, ForwardRegression):
            self._forward = self._rule
        elif track_gains:
            self._forward = ForwardRegression(classes)
        self._ends: list[tuple[int, int]] = []
        self._dependent = np.zeros(sizes.size, dtype=bool)
        self._columns: list[NDArray[np.intp]] = []

    @property
    def null_value(self) -> float:
        """R(∅) = ½ Σ_p var(y_p), the most F can reach."""
        return float(self._source.target_variance.sum() / 2)

    def scores(self, allowed: NDArray[np.bool_], costs: Float) -> Float:
        """Return r_g' M_g⁻¹ r_g of every group, shape (J,); meaningless for groups already chosen."""
        return self._rule.scores(self._gradient())

    def joint_scores(self, parts: Sequence[Sequence[int]]) -> Float:
        """Return r_A' M_A⁻¹ r_A of the unions A of the first 1, 2, … parts."""
        columns, ends = columns_of(parts, self._starts)
        r = self._gradient()
        if isinstance(self._rule, ForwardRegression):
            M, own = self._source.left_over(columns, r)
            return self._rule.joint_scores(np.arange(columns.size), ends, own, lambda: M)
        return self._rule.joint_scores(columns, ends, r, lambda: self._source.blocks(columns[None])[0])

    def gains(self) -> Float:
        """Return F(S ∪ g) − F(S) of every group, shape (J,)."""
        assert self._forward is not None
        return self._forward.scores(self._gradient()) / 2

    def choose(self, g: int) -> float:
        """Add group g and return its gain in F."""
        columns = np.arange(self._starts[g], self._starts[g + 1])
        rows, z = self._source.append(columns, self._r)
        self._r -= rows.T @ z
        self._rule.absorb(rows)
        if self._forward is not None and self._forward is not self._rule:
            self._forward.absorb(rows)
        before = self._ends[-1] if self._ends else (0, 0)
        self._ends.append((before[0] + len(rows), before[1] + columns.size))
        self._columns.append(columns)
        self._dependent[g] = True
        self._renew()
        return float((z**2).sum() / 2)

    def factor(self) -> Factor:
        """Return the factor of everything chosen."""
        U, z, kept = self._source.factor()
        ends = np.array(self._ends, dtype=np.intp).reshape(-1, 2)
        columns = np.concatenate(self._columns) if self._columns else np.empty(0, dtype=np.intp)
        return Factor(U, z, columns, kept, ends[:, 0], ends[:, 1])

    def _renew(self) -> None:
        """Take Schur blocks that subtraction has left few digits of from the data, where they are at hand.

        A group that turns out to be spanned by those chosen stays so, and is not looked at again.
        """
        if self._forward is None or not isinstance(self._source, Columns):
            return
        for g in self._forward.faded(RENEW):
            if not self._dependent[g]:
                columns = np.arange(self._starts[g], self._starts[g + 1])
                block, self._r[columns], spread = self._source.residual(columns)
                self._forward.replace(int(g), block, spread)
                self._dependent[g] = not spread.any()

    def _gradient(self) -> Float:
        # what is below its own rounding error is zero
        return np.where(np.abs(self._r) <= np.outer(self._source.rounding(), self._deviation), 0.0, self._r)
