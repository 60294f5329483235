"""Gains that can be expected on new rows: penalties are subtracted before the loop compares groups."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from budgetline.arrays import Float, Mask
from budgetline.sequencing.loop import Objective


class Corrected:
    """An objective with penalties (J,) subtracted from its gains.

    Scores are ``unit`` times twice a gain; gains that have been realised are reported as they are.
    """

    def __init__(self, objective: Objective, penalties: Float, unit: float = 1.0) -> None:
        self._objective, self._penalties, self._unit = objective, penalties, unit

    @property
    def null_value(self) -> float:
        """The scale of F."""
        return self._objective.null_value

    def scores(self, allowed: Mask, costs: Float) -> Float:
        """Return the merit of every group on new rows, shape (J,); negative where noise is expected to gain more."""
        return self._objective.scores(allowed, costs) - 2 * self._unit * self._penalties

    def joint_scores(self, parts: Sequence[Sequence[int]]) -> Float:
        """Return the merit of the unions of the first 1, 2, … parts."""
        own = np.cumsum([sum(self._penalties[g] for g in part) for part in parts])
        return self._objective.joint_scores(parts) - 2 * self._unit * own

    def gains(self) -> Float:
        """Return the gains to expect on new rows, shape (J,)."""
        return self._objective.gains() - self._penalties

    def choose(self, g: int) -> float:
        """Add group g, return its gain in F."""
        return self._objective.choose(g)
