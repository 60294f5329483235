"""Recipe: what to learn and how, without the data."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from budgetline.arrays import Float, Positions
from budgetline.encoding.pairs import Bins
from budgetline.encoding.table import TableEncoding
from budgetline.groups import Layout
from budgetline.groups.parsing import places_of, positions_of
from budgetline.groups.prices import Prices
from budgetline.sequencing.loop import Limits, Objective, greedy_order
from budgetline.sequencing.schedules import Schedule, as_schedule


@dataclass(frozen=True)
class FoldSearch:
    """What a search on folds tries: ridge constants, corrections and numbers of pairs of columns.

    ``interactions`` None: the recipe says how many pairs to add. ``cv`` is a number of folds, a splitter, or splits.
    Rows with the same label in ``groups`` (n,) are in the same fold. With ``stop_at_best``, no group is bought beyond
    the budget that is best on held-out rows, if quality falls afterwards. At most ``rows`` rows are used, None: all.
    ``calibrate``: calibrate the scores of classes on held-out rows.
    """

    alphas: Float
    corrections: Float
    interactions: tuple[int, ...] | None = None
    cv: object = None
    stop_at_best: bool = False
    rows: int | None = None
    groups: object = None
    calibrate: bool = False


@dataclass(frozen=True)
class Recipe:
    """What to learn and how: columns, names and prices of the groups, and settings.

    Attributes
    ----------
    columns : tuple of int arrays
        Columns of every group, among those that are read.
    names : tuple of str
    prices : Prices
    rule : str
    schedule : str or Schedule
    limits : Limits
    cost_sensitive : bool
    alpha : float
        The ridge constant; ``auto``: choose it from the data.
    weights : array of shape (D,), or None
        Weights ω_d > 0 of the columns that are read: the ridge is alpha/2 Σ ω_d w_d², None: all 1.
    encoding : TableEncoding or None
        What the columns of the user's table become.
    bins : tuple of Bins
        Bins of every column, if pairs are sought.
    pairs : int
        Number of pairs of columns to add.
    correction : float
        The multiple of what noise explains that is subtracted from gains. ``penalties`` (J,) are the amounts, once
        known; scores are ``unit`` times twice a gain.
    start : names of groups
        Groups that come first.
    search : FoldSearch or None
        Choose alpha, correction and pairs on folds.
    """

    columns: tuple[Positions, ...]
    names: tuple[str, ...]
    prices: Prices
    rule: str
    schedule: str | Schedule
    limits: Limits
    cost_sensitive: bool
    alpha: float
    weights: Float | None = None
    auto: bool = False
    encoding: TableEncoding | None = None
    bins: tuple[Bins, ...] = ()
    pairs: int = 0
    correction: float = 0.0
    penalties: Float | None = None
    unit: float = 1.0
    start: object = ()
    search: FoldSearch | None = None

    def __post_init__(self) -> None:
        as_schedule(self.schedule, self.names, self.prices)  # raise errors before any data are read
        positions_of("start", self.start, places_of(self.names))

    @classmethod
    def of(cls, layout: Layout, encoding: TableEncoding | None = None, **settings: Any) -> Recipe:
        """Return the recipe for the groups of a layout, or of the design columns of an encoding."""
        weights = None if encoding is None else encoding.weights
        groups = layout.groups
        return cls(layout.position, groups.names, groups.prices, **settings, weights=weights, encoding=encoding)

    def over(self, encoding: TableEncoding) -> Recipe:
        """Return the recipe for the design columns of an encoding with pairs."""
        layout = encoding.layout
        return replace(
            self,
            columns=layout.position,
            names=layout.groups.names,
            prices=layout.groups.prices,
            weights=encoding.weights,
            encoding=encoding,
            bins=(),
        )

    def grouped(self, groups: object) -> Recipe:
        """Return the recipe with labels of rows, which stay together in the folds of its search."""
        return self if self.search is None else replace(self, search=replace(self.search, groups=groups))

    def with_order(self, order: Schedule, alpha: float) -> Recipe:
        """Return the recipe of a given order: nothing is chosen, and nothing is left out."""
        given = replace(self.with_alpha(alpha), schedule=order, limits=Limits(), start=(), correction=0.0)
        return replace(given, bins=(), search=None)

    def up_to(self, cost: float) -> Recipe:
        """Return the recipe that spends at most this, or what the groups that come first cost."""
        first = self.prices.closure(positions_of("start", self.start, places_of(self.names)))
        return replace(self, limits=replace(self.limits, max_cost=max(cost, self.prices.cost(first))))

    def with_alpha(self, alpha: float) -> Recipe:
        """Return the recipe with a ridge constant that has been chosen."""
        return replace(self, alpha=alpha, auto=False)

    def order(self, objective: Objective) -> tuple[Positions, Float]:
        """Run the greedy loop; the penalties are subtracted from gains before they are compared."""
        return greedy_order(
            objective,
            self.prices,
            as_schedule(self.schedule, self.names, self.prices),
            self.limits,
            cost_sensitive=self.cost_sensitive,
            start=positions_of("start", self.start, places_of(self.names)),
            penalties=self.penalties,
            unit=self.unit,
        )

    @property
    def by_group(self) -> Positions:
        """Columns of all groups, group after group."""
        return np.concatenate(self.columns)

    @property
    def sizes(self) -> Positions:
        """Number of columns of every group."""
        return np.array([c.size for c in self.columns], dtype=np.intp)
