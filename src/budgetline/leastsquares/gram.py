"""The normal equations of standardised columns, C = X'X/n + λI and b = X'Y/n, and their blocks, one per group.

Groups are stored one after another ("group-major"): group g owns the columns ``starts[g] : starts[g] + sizes[g]``.
Blocks of one size are handled together.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.linalg.lapack import dpotrf

from budgetline.arrays import Float, Mask, Positions
from budgetline.moments.moments import Moments

EPS = float(np.finfo(np.float64).eps)


@dataclass(frozen=True, eq=False)
class Gram:
    """C (D, D) with the ridge on its diagonal and b (D, P), group after group, and Σ w y²/Σ w of the centred targets.

    ``eps`` is the unit roundoff of C and b: that of float32 if products were taken in float32.
    """

    C: Float
    b: Float
    target_variance: Float
    eps: float = EPS

    @classmethod
    def of(cls, moments: Moments, columns: Positions, alpha: float, weights: Float | None = None) -> Gram:
        """Return C and b for columns of the moments, in the order given; penalty weights are of all columns."""
        D, diagonal = moments.n_features, np.arange(columns.size)
        scale = moments.standardisation(weights)[1][columns]
        in_order = np.array_equal(columns, np.arange(D))
        C = moments.scatter[:D, :D].copy() if in_order else moments.scatter[np.ix_(columns, columns)]
        C /= moments.weight * scale
        C /= scale[:, None]
        # a constant column is zero after standardisation; a one on the diagonal avoids a special case
        C[diagonal, diagonal] += np.where(np.isfinite(scale), 0.0, 1.0) + alpha
        b = moments.scatter[columns, D:] / (moments.weight * scale)[:, None]
        return cls(C, b, np.maximum(np.diag(moments.scatter)[D:], 0.0) / moments.weight, moments.eps)

    @property
    def null_value(self) -> float:
        """R(∅) = ½ Σ_p var(y_p), the most that F can reach."""
        return float(self.target_variance.sum() / 2)

    def scaled(self, size: float) -> Gram:
        """Return the same for targets divided by a size."""
        return replace(self, b=self.b / size, target_variance=self.target_variance / size**2)

    def blocks(self, columns: Positions) -> Float:
        """Return C_g for groups of one size, given their columns (J_s, s): shape (J_s, s, s)."""
        return np.asarray(self.C[columns[:, :, None], columns[:, None, :]])


PIVOT_FLOOR = 1e-13
"""Pivots below this are rounding noise: columns are standardised, so a healthy pivot is of order one."""
MANY = 5
"""More blocks than this times their size squared are eliminated together: fewer calls than one for each block."""
LARGE = 32
"""If some blocks are singular, larger ones are factored one by one, smaller ones are eliminated together."""


@dataclass(frozen=True)
class SizeClass:
    """All groups of one size s: their ids (J_s,), their columns (J_s, s) and a block each (J_s, s, s)."""

    groups: Positions
    columns: Positions
    blocks: Float


def size_classes(sizes: Positions, blocks_of: Callable[[Positions], Float]) -> list[SizeClass]:
    """Sort groups by size; ``blocks_of`` maps columns (J_s, s) to blocks (J_s, s, s)."""
    starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    classes = []
    for size in np.unique(sizes):
        groups = np.flatnonzero(sizes == size)
        columns = starts[groups][:, None] + np.arange(size)
        classes.append(SizeClass(groups, columns, blocks_of(columns)))
    return classes


def columns_of(parts: Sequence[Sequence[int]], starts: Positions) -> tuple[Positions, Positions]:
    """Return the columns of groups, part after part, and the number of columns in the first 1, 2, … parts."""
    columns = [[np.arange(starts[g], starts[g + 1]) for g in part] for part in parts]
    ends = np.cumsum([sum(c.size for c in part) for part in columns], dtype=np.intp)
    return np.concatenate([c for part in columns for c in part]), ends


def whiten(blocks: Float, vectors: Float) -> Float:
    """Return v (J, s, q) with ‖v_g‖² = vectors_g' blocks_g⁺ vectors_g for positive semidefinite blocks (J, s, s).

    v = U⁻ᵀ·vectors with the Cholesky factors U. Of singular blocks, pivots at rounding level are left out, where v is
    zero: exact, as long as the vectors (J, s, q) lie in the range of the blocks, which residual gradients do.
    """
    J, s, q = vectors.shape
    if s == 1:
        return vectors * np.sqrt(np.divide(1.0, blocks, out=np.zeros_like(blocks), where=blocks > PIVOT_FLOOR))
    if q <= s and MANY * s**2 >= J and (v := _factored(blocks, vectors)) is not None:
        return v
    if J > 1 and s > LARGE:
        return np.concatenate([whiten(block[None], own[None]) for block, own in zip(blocks, vectors, strict=True)])
    return _eliminated(blocks, vectors)


def _factored(blocks: Float, vectors: Float) -> Float | None:
    """Factor all blocks in one call, or return None if a pivot of one is rounding noise.

    The upper factor of [B, v; v', tI] is [U, U⁻ᵀv; 0, …], for any t that is large enough.
    """
    J, s, q = vectors.shape
    both = np.zeros((J, s + q, s + q))  # only its upper triangles are read
    both[:, :s, :s], both[:, :s, s:] = blocks, vectors
    np.einsum("jaa->ja", both)[:, s:] = 1e300
    try:
        U = np.linalg.cholesky(both, upper=True)
    except np.linalg.LinAlgError:
        return None
    return U[:, :s, s:] if np.einsum("jaa->ja", U)[:, :s].min() ** 2 > PIVOT_FLOOR else None


def _eliminated(blocks: Float, vectors: Float) -> Float:
    """Eliminate the columns of all blocks together, one after another."""
    # entries of all groups lie one after another, so that every step runs along memory
    both = np.ascontiguousarray(np.concatenate([blocks, vectors], axis=2).transpose(1, 2, 0))
    inverse = np.zeros((blocks.shape[1], len(blocks)))
    for j, row in enumerate(both):
        np.divide(1.0, row[j], out=inverse[j], where=row[j] > PIVOT_FLOOR)
        both[j + 1 :, j + 1 :] -= (row[j + 1 : len(both)] * inverse[j])[:, None] * row[None, j + 1 :]
    v: Float = both[:, len(both) :] * np.sqrt(inverse)[:, None]
    return v.transpose(2, 0, 1)


def nested_squares(v: Float, ends: Positions) -> Float:
    """Return ‖v[:e]‖² for every e of ``ends``, from v of shape (s, P)."""
    return np.asarray(np.cumsum((v**2).sum(axis=1))[ends - 1])


def score_tests(blocks: Float, k: Float, r: Float) -> Float:
    """Return r_g' (H_g − k_g k_g')⁻¹ r_g, shape (J,): twice the gain of a Newton step with each group."""
    return np.asarray((whitened_gradients(blocks, k, r) ** 2).sum(axis=(1, 2)))


def whitened_gradients(blocks: Float, k: Float, r: Float) -> Float:
    """Return v_g, shape (J, s, 1), with ‖v_g‖² = r_g' (H_g − k_g k_g')⁻¹ r_g, and the same for its leading entries.

    ``blocks`` (J, s, s) are the Hessians H_g, ``r`` (J, s) the gradients, and ``k`` (J, s, m) is H_gS L⁻ᵀ with the
    factor L of H_S, for the chosen columns S.
    """
    # pivots are compared with the block's own diagonal: curvature may be small everywhere
    unit = 1 / np.sqrt(np.maximum(np.einsum("jaa->ja", blocks), 1e-300))
    M = (blocks - k @ k.transpose(0, 2, 1)) * unit[:, :, None] * unit[:, None, :]
    return whiten(M, (r * unit)[:, :, None])


def factor_of_independent(block: Float) -> tuple[Float, Mask]:
    """Mark the columns of a positive semidefinite block (s, s) that are not combinations of earlier ones.

    Returns their Cholesky factor, lower triangular, and the mask.
    """
    U, broken = dpotrf(block.T)  # of the lower triangle
    if not broken and (U.diagonal() ** 2).min(initial=1.0) > PIVOT_FLOOR:
        return U.T, np.ones(len(block), dtype=bool)
    M, L = block.copy(), np.zeros_like(block)
    kept = np.zeros(len(block), dtype=bool)
    for j in range(len(block)):
        kept[j] = M[j, j] > PIVOT_FLOOR
        if kept[j]:
            L[j:, j] = M[j:, j] / np.sqrt(M[j, j])
            M[j + 1 :, j + 1 :] -= np.outer(L[j + 1 :, j], L[j + 1 :, j])
    return L[np.ix_(kept, kept)], kept
