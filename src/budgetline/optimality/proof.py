"""The proof of the bounds of a certificate."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from budgetline.arrays import Float, Mask, Positions


@dataclass(frozen=True, eq=False)
class Proof:
    """The blocks, duals and leaves that prove the bounds; see ``docs/design.md``.

    Attributes
    ----------
    blocks : tuple of J arrays of shape (s, s)
        Δ_g, with C − blockdiag(Δ_g) ⪰ 0. Empty: the only bound is F of all groups.
    duals : array of shape (N, D, P)
        u, in standardised columns, group after group.
    leaf_budget, leaf_dual : int arrays of shape (L,)
        The budget that a leaf belongs to, and its dual.
    leaf_included, leaf_excluded : bool arrays of shape (L, J)
        The leaf is about the sets that contain all of the first and none of the second.
    """

    blocks: tuple[Float, ...]
    duals: Float
    leaf_budget: Positions
    leaf_dual: Positions
    leaf_included: Mask
    leaf_excluded: Mask

    @classmethod
    def trivial(cls, J: int) -> Proof:
        """Return a proof that says nothing about J groups."""
        none, nothing = np.empty(0, dtype=np.intp), np.empty((0, J), dtype=bool)
        return cls((), np.empty((0, 0, 0)), none, none, nothing, nothing)
