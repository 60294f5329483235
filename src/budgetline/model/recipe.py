"""Recipe: what to sequence and how."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from budgetline.arrays import Positions
from budgetline.encoding.pairs import Bins
from budgetline.encoding.table import TableEncoding
from budgetline.groups.prices import Prices
from budgetline.sequencing.loop import Limits
from budgetline.sequencing.schedules import Schedule


@dataclass(frozen=True)
class Recipe:
    """What to sequence and how: the columns, names and prices of the groups and the estimator's settings."""

    columns: tuple[Positions, ...]
    names: tuple[str, ...]
    prices: Prices
    rule: str
    schedule: Schedule
    limits: Limits
    cost_sensitive: bool
    alpha: float
    encoding: TableEncoding | None = None
    bins: tuple[Bins, ...] = ()

    @property
    def by_group(self) -> Positions:
        """Columns of all groups, group after group."""
        return np.concatenate(self.columns)

    @property
    def sizes(self) -> Positions:
        """Number of columns of every group."""
        return np.array([c.size for c in self.columns], dtype=np.intp)
