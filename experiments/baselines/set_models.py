"""SetModels: one fitted estimator of any kind per set of groups, where the sets need not contain one another."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np

from budgetline.arrays import Float, Mask, Positions
from budgetline.groups import FeatureGroups
from budgetline.model.prefixes import PrefixModels, PrefixTable
from budgetline.sequencing.sequence import GroupSequence


@dataclass(frozen=True, eq=False, repr=False)
class SetModels(PrefixModels):
    """A fitted model whose stages are estimators of sets of groups, at increasing costs.

    Stage k has bought the set k − 1 and nothing else, whatever earlier stages had. The "groups" of the sequence are the
    names of a whole set; its ``order`` counts the sets.

    Attributes
    ----------
    masks : tuple of masks of shape (J,)
        The groups of each stage, with all that they require.
    """

    masks: tuple[Mask, ...] = ()

    def columns_at(self, stage: int) -> Positions:
        """Return the columns of X, ascending, that the estimator of a stage reads."""
        return self.layout.columns_of(np.flatnonzero(self.masks[stage - 1] if stage else ()))

    def last_inside(self, groups: Collection[str]) -> int:
        """Return the last stage whose groups are all among these."""
        there = np.isin(self.groups.names, list(groups))
        return max((k for k, mask in enumerate(self.masks, start=1) if there[mask].all()), default=0)

    def table(self, X: object) -> PrefixTable:
        """Return X, checked to have the columns that any stage reads."""
        return self._table(X, self.layout.columns_of(np.flatnonzero(np.any(self.masks, axis=0))))

    def __repr__(self) -> str:
        return f"SetModels({self.estimator}, {len(self.masks)} sets of {len(self.groups)} groups)"


def sequence_of_sets(groups: FeatureGroups, masks: tuple[Mask, ...], risks: Float) -> GroupSequence:
    """Return the record of sets at increasing costs; ``risks`` (1 + sets,) are on the training rows, R(∅) first."""
    names = tuple(", ".join(groups.names[g] for g in np.flatnonzero(mask).tolist()) for mask in masks)
    costs = np.array([groups.prices.cost(mask) for mask in masks])
    return GroupSequence(np.arange(len(masks)), names, np.diff(costs, prepend=0.0), -np.diff(risks), float(risks[0]))
