"""Regularised least squares as an objective of the greedy loop: one block-pivoted factorisation does everything.

With standardised X and centred Y (weights in every mean),

    C = X'X/n + λI        b = X'Y/n        F(S) = ½ tr(b_S' C_S⁻¹ b_S)        r = b − C_{·S} w(S).

For the chosen columns S, in order, C_S = U'U with U upper triangular and z = U⁻ᵀ b_S, so F(S) = ½‖z‖². Choosing a
group appends rows to P = U⁻ᵀ C_{S,·} (``factors``), after which

    r ← r − P_new' z_new,    Schur blocks ← Schur blocks − P_new,h' P_new,h,    F ← F + ½‖z_new‖².
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from budgetline.arrays import Float, Mask, Positions
from budgetline.leastsquares.factors import BlockCholesky, Factor, Factorisation, GramSchmidt
from budgetline.leastsquares.gram import columns_of, size_classes
from budgetline.leastsquares.rules import RULES, ForwardRegression

RENEW = 1e-6
"""A Schur block that has shrunk to this share of its columns' variance has few accurate digits."""
FEW = 64
"""So few columns are not worth leaving out: that takes copies."""


class LeastSquares:
    """State of a least-squares sequence for the greedy loop: scores, gains, and updates after a choice.

    ``sizes`` (J,) are the numbers of columns of the groups, which are adjacent, in order; ``track_gains`` says whether
    `gains` will be called.
    """

    def __init__(self, factorisation: Factorisation, sizes: Positions, rule: str, *, track_gains: bool = False) -> None:
        self._factorisation, self._sizes = factorisation, sizes
        self._starts = np.concatenate([[0], np.cumsum(sizes)])
        self._r = factorisation.b.copy()
        self._deviation = np.sqrt(factorisation.target_variance)
        classes = size_classes(sizes, factorisation.blocks)
        self._rule = RULES[rule](classes)
        self._rule.begin(self._gradient)
        self._forward: ForwardRegression | None = None
        if isinstance(self._rule, ForwardRegression):
            self._forward = self._rule
        elif track_gains:
            self._forward = ForwardRegression(classes)
        self._idle = 0  # columns of chosen groups that are still updated
        self._rules = [self._rule] if self._forward in (None, self._rule) else [self._rule, self._forward]
        self._chosen, self._dependent = np.zeros((2, sizes.size), dtype=bool)

    @property
    def null_value(self) -> float:
        return float(self._factorisation.target_variance.sum() / 2)

    def scores(self, allowed: Mask, costs: Float) -> Float:
        """Return r_g' M_g⁻¹ r_g of every group, shape (J,); meaningless for groups already chosen."""
        return self._rule.scores(self._gradient())

    def joint_scores(self, parts: Sequence[Sequence[int]]) -> Float:
        """Return r_A' M_A⁻¹ r_A of the unions A of the first 1, 2, … parts."""
        columns, ends = columns_of(parts, self._starts)
        r = self._gradient()
        if isinstance(self._rule, ForwardRegression):
            M, own = self._factorisation.left_over(columns, r)
            return self._rule.joint_scores(np.arange(columns.size), ends, own, lambda: M)
        return self._rule.joint_scores(columns, ends, r, lambda: self._factorisation.blocks(columns[None])[0])

    def gains(self) -> Float:
        assert self._forward is not None
        return self._forward.scores(self._gradient()) / 2

    def choose(self, g: int) -> float:
        rows, z = self._factorisation.append(np.arange(self._starts[g], self._starts[g + 1]), self._r)
        self._r -= rows.T @ z
        for rule in self._rules:
            rule.absorb(rows)
            rule.forget(g)
        self._chosen[g] = self._dependent[g] = True
        self._narrow(g)
        self._renew()
        return float((z**2).sum() / 2)

    def factor(self) -> Factor:
        """Return the factor of everything chosen."""
        return self._factorisation.factor()

    def _narrow(self, g: int) -> None:
        """Go on with the columns of remaining groups only, once many others are idle; g has just been chosen."""
        if not isinstance(self._factorisation, BlockCholesky):  # wide data are read as a whole at every step
            return
        self._idle += int(self._sizes[g])
        if self._idle < max(FEW, len(self._r) / 4):
            return
        left = np.where(self._chosen, 0, self._sizes)
        columns = np.repeat(~self._chosen, np.diff(self._starts))
        for rule in self._rules:
            rule.narrow(~self._chosen, columns)
        self._factorisation.narrow(columns)
        self._r, self._starts, self._idle = self._r[columns], np.concatenate([[0], np.cumsum(left)]), 0

    def _renew(self) -> None:
        """Recompute from the data, if they are available, the Schur blocks that subtraction has left with few digits.

        A group that turns out to be spanned by the chosen ones is not recomputed again.
        """
        if self._forward is None or not isinstance(self._factorisation, GramSchmidt):
            return
        for g in self._forward.faded(RENEW):
            if not self._dependent[g]:
                columns = np.arange(self._starts[g], self._starts[g + 1])
                block, self._r[columns], spread = self._factorisation.residual(columns)
                self._forward.replace(int(g), block, spread)
                self._dependent[g] = not spread.any()

    def _gradient(self) -> Float:
        # gradients below their own rounding error are zero
        rounding = np.outer(self._factorisation.rounding(), self._deviation)
        return np.where(np.abs(self._r) <= rounding, 0.0, self._r)
