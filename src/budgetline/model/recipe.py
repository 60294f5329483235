"""Recipe: what to sequence and how."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from budgetline.arrays import Float, Positions
from budgetline.encoding.pairs import Bins
from budgetline.encoding.table import TableEncoding
from budgetline.groups.prices import Prices
from budgetline.sequencing.correction import Corrected
from budgetline.sequencing.loop import Limits, Objective, greedy_order
from budgetline.sequencing.schedules import Schedule


@dataclass(frozen=True)
class Recipe:
    """What to sequence and how: the columns, names and prices of the groups and the estimator's settings.

    ``weights`` (D,) are penalty weights ω_d > 0 of the columns that are read: the ridge is alpha/2 Σ ω_d w_d² for
    coefficients w of standardised columns. None: all 1. ``auto``: alpha is to be chosen from the data. ``correction``
    is the multiple of what noise explains that is subtracted from gains; ``penalties`` (J,) is what that comes to, once
    it is known; scores are ``unit`` times twice a gain. The groups of ``start`` come first.
    """

    columns: tuple[Positions, ...]
    names: tuple[str, ...]
    prices: Prices
    rule: str
    schedule: Schedule
    limits: Limits
    cost_sensitive: bool
    alpha: float
    weights: Float | None = None
    auto: bool = False
    encoding: TableEncoding | None = None
    bins: tuple[Bins, ...] = ()
    correction: float = 0.0
    penalties: Float | None = None
    unit: float = 1.0
    start: tuple[int, ...] = ()

    def with_alpha(self, alpha: float) -> Recipe:
        """Return the recipe with a ridge constant that has been chosen."""
        return replace(self, alpha=alpha, auto=False)

    def order(self, objective: Objective) -> tuple[Positions, Float]:
        """Run the greedy loop; the penalties are subtracted from gains before they are compared."""
        if self.penalties is not None:
            objective = Corrected(objective, self.penalties, self.unit)
        how = (self.prices, self.schedule, self.limits)
        return greedy_order(objective, *how, cost_sensitive=self.cost_sensitive, start=self.start)

    @property
    def by_group(self) -> Positions:
        """Columns of all groups, group after group."""
        return np.concatenate(self.columns)

    @property
    def sizes(self) -> Positions:
        """Number of columns of every group."""
        return np.array([c.size for c in self.columns], dtype=np.intp)
