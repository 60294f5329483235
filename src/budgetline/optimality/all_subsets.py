"""What every subset of a few groups explains, exactly: one elimination shared by all 2^J subsets.

Each group is either left out or chosen, and the subsets that agree so far share the work. With M the Schur complement
of the columns that are left and r their gradient, kept together as A = [M | r],

    left out:    A ← A without the rows and columns of g
    chosen:      A ← A without them, minus M_·g M_g⁻¹ [M_g· | r_g],    F ← F + ½ tr(r_g' M_g⁻¹ r_g).

Large groups go first, so that the levels with many subsets have few columns left.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from budgetline.objectives.blocks import whiten
from budgetline.objectives.gram import Gram

Float = NDArray[np.float64]

MOST_GROUPS = 18
"""2^18 subsets take seconds; every further group doubles that."""
BATCH_BYTES = 2**22
"""A batch above this is worked off in two halves. A dozen may wait at a time; together they stay below 64 MB."""


def subset_values(gram: Gram, sizes: NDArray[np.intp]) -> Float:
    """Return F(S) = ½ tr(b_S' C_S⁻¹ b_S) of every subset S of the groups.

    Columns that depend on others (λ = 0) bring nothing, as with a pseudo-inverse. Like every value from moments, F is
    resolved to about 1e-13 of a column's variance.

    Parameters
    ----------
    gram : Gram
        C (D, D) and b (D, P), group after group.
    sizes : int array of shape (J,)
        Number of columns of each group, J ≤ 18.

    Returns
    -------
    array of shape (2^J,)
        Bit g of the index says whether group g is in S.

    Examples
    --------
    >>> import numpy as np
    >>> from budgetline.optimality.all_subsets import subset_values
    >>> from budgetline.objectives.gram import Gram
    >>> gram = Gram(np.array([[1.0, 0.5], [0.5, 1.0]]), np.array([[1.0], [0.0]]), np.array([2.0]))
    >>> subset_values(gram, np.array([1, 1])).round(4).tolist()
    [0.0, 0.5, 0.0, 0.6667]
    """
    J, D = sizes.size, len(gram.C)
    if J > MOST_GROUPS:
        raise ValueError(f"there are 2^{J} subsets of {J} groups; an exact search takes at most {MOST_GROUPS} groups")
    if sizes.sum() != D:
        raise ValueError(f"the sizes of the groups add up to {sizes.sum()}, but there are {D} columns")
    turns = np.argsort(-sizes, kind="stable")
    ends = np.cumsum(sizes)
    columns = np.concatenate([np.arange(ends[g] - sizes[g], ends[g]) for g in turns])
    A = np.concatenate([gram.C[np.ix_(columns, columns)], gram.b[columns]], axis=1)
    values = np.empty(2**J)
    waiting = [(0, A[None], np.zeros(1, dtype=np.intp), np.zeros(1))]
    while waiting:
        level, A, subsets, F = waiting.pop()
        if level == J:
            values[subsets] = F
            continue
        g = turns[level]
        A, gain = _eliminate(A, int(sizes[g]))
        subsets, F = np.concatenate([subsets, subsets | (1 << g)]), np.concatenate([F, F + gain])
        whole = A.nbytes <= BATCH_BYTES
        for part in [slice(None)] if whole else [slice(len(A) // 2, None), slice(len(A) // 2)]:
            waiting.append((level + 1, A[part], subsets[part], F[part]))
    return values


def _eliminate(A: Float, size: int) -> tuple[Float, Float]:
    """Leave out, and choose, the first ``size`` columns.

    Parameters
    ----------
    A : array of shape (B, d, d + P)
        [M | r] of B subsets.
    size : int

    Returns
    -------
    array of shape (2B, d − size, d − size + P)
        Left out, then chosen.
    array of shape (B,)
        What choosing them adds to F.
    """
    B, d = A.shape[:2]
    left = d - size
    rows = whiten(A[:, :size, :size], A[:, :size, size:])
    gain = (rows[:, :, left:] ** 2).sum(axis=(1, 2)) / 2
    both = np.empty((2 * B, left, A.shape[2] - size))
    both[:B] = A[:, size:, size:]
    np.matmul(rows[:, :, :left].transpose(0, 2, 1), rows, out=both[B:])
    np.subtract(both[:B], both[B:], out=both[B:])
    return both, gain
