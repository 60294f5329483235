"""Small square blocks, one per group, handled together by size.

Groups are stored one after another ("group-major"): group g owns the columns ``starts[g] : starts[g] + sizes[g]``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.linalg import solve_triangular
from scipy.linalg.lapack import dpotrf, dtrtrs

from budgetline.arrays import Float, Mask, Positions

PIVOT_FLOOR = 1e-13
"""Pivots below this are rounding noise: columns are standardised, so a healthy pivot is of order one."""
LARGE = 32
"""Blocks that are larger are factored one by one."""
MANY = 5
"""More blocks than this times their size squared are eliminated together: fewer calls than one for each block."""
STRIP = 2048
"""Rows of blocks are eliminated together if there are fewer groups than this: short rows cost more calls than time."""


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
    """Return v with ‖v_g‖² = vectors_g' blocks_g⁺ vectors_g for positive semidefinite blocks.

    A Cholesky factorisation that leaves out pivots at rounding level: exact for singular blocks too, as long as
    the vectors lie in their range, which residual gradients do.

    Parameters
    ----------
    blocks : array of shape (J, s, s)
        Only their upper triangles are read, if s ≤ ``LARGE``.
    vectors : array of shape (J, s, q)

    Returns
    -------
    array of shape (J, s, q)
        Zero in the rows of the pivots left out.
    """
    J, s, q = vectors.shape
    if s == 1:
        return vectors * np.sqrt(np.divide(1.0, blocks, out=np.zeros_like(blocks), where=blocks > PIVOT_FLOOR))
    if q <= s and 1 < J <= MANY * s**2 and (v := _factored(blocks, vectors)) is not None:
        return v
    if s > LARGE or 2 * (s - 1) >= J:  # one call for each block is faster than one for each column of all blocks
        return _whiten_each(blocks, vectors)
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
    """Eliminate the columns of all blocks together, one after another; only their upper triangles are read."""
    # entries of all groups lie one after another, so that every step runs along memory
    count, size, q = vectors.shape
    both, inverse = np.empty((size, size + q, count)), np.zeros((size, count))
    both[:, :size], both[:, size:] = blocks.transpose(1, 2, 0), vectors.transpose(1, 2, 0)
    rows = max(1, STRIP // count)
    for j in range(size):
        np.divide(1.0, both[j, j], out=inverse[j], where=both[j, j] > PIVOT_FLOOR)
        factor = both[j, :size] * inverse[j]
        for i in range(j + 1, size, rows):
            both[i : i + rows, i:] -= factor[i : i + rows, None] * both[j, None, i:]
    v: Float = both[:, size:] * np.sqrt(inverse)[:, None]
    return v.transpose(2, 0, 1)


def nested_squares(v: Float, ends: Positions) -> Float:
    """Return ‖v[:e]‖² for every e of ``ends``, from v of shape (s, P)."""
    return np.asarray(np.cumsum((v**2).sum(axis=1))[ends - 1])


def score_tests(blocks: Float, k: Float, r: Float) -> Float:
    """Return r_g' (H_g − k_g k_g')⁻¹ r_g, shape (J,): twice the gain of a Newton step with each group; see below."""
    return np.asarray((whitened_gradients(blocks, k, r) ** 2).sum(axis=(1, 2)))


def whitened_gradients(blocks: Float, k: Float, r: Float) -> Float:
    """Return v_g, shape (J, s, 1), with ‖v_g‖² = r_g' (H_g − k_g k_g')⁻¹ r_g, and the same for its leading entries.

    Parameters
    ----------
    blocks : array of shape (J, s, s)
        H_g, the Hessian of each group.
    k : array of shape (J, s, m)
        H_gS L⁻ᵀ for the factor L of H_S: what the chosen columns S explain of it.
    r : array of shape (J, s)
        Gradients.
    """
    # pivots are judged against the block's own diagonal: curvature may be small everywhere
    unit = 1 / np.sqrt(np.maximum(np.einsum("jaa->ja", blocks), 1e-300))
    M = (blocks - k @ k.transpose(0, 2, 1)) * unit[:, :, None] * unit[:, None, :]
    return whiten(M, (r * unit)[:, :, None])


def _whiten_each(blocks: Float, vectors: Float) -> Float:
    """LAPACK, one block at a time; singular ones are reduced to their independent columns, if they are large."""
    v = np.zeros_like(vectors)
    for g, block in enumerate(blocks):
        if block.diagonal().max() <= PIVOT_FLOOR:  # of a group that is bought, nothing is left
            continue
        U, broken = dpotrf(block)
        if not broken and (U.diagonal() ** 2).min() > PIVOT_FLOOR:
            v[g] = dtrtrs(U, vectors[g], trans=1)[0]
        elif len(block) <= LARGE:
            v[g] = _eliminated(block[None], vectors[g : g + 1])[0]
        else:
            L, kept = factor_of_independent(block)
            v[g, kept] = solve_triangular(L, vectors[g, kept], lower=True, check_finite=False)
    return v


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
