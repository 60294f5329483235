"""Which sets of groups are allowed: groups that must be in or out, and rivals, one of which may be in."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from budgetline.arrays import Float, Mask
from budgetline.budgets import SLACK
from budgetline.groups import FeatureGroups
from budgetline.groups.parsing import places_of, positions_of
from budgetline.groups.prices import Prices
from budgetline.messages import shown
from budgetline.model.anytime import AnytimeModel

GroupNames = Iterable[str]


@dataclass(frozen=True, eq=False)
class Conditions:
    """Sets that contain ``included`` (J,), nothing of ``excluded`` (J,), and at most one of each of the ``rivals``.

    What the included groups require is included too. What requires an excluded group, or cannot be in a set with the
    included ones, is excluded.
    """

    prices: Prices
    included: Mask
    excluded: Mask
    rivals: tuple[tuple[int, ...], ...] = ()

    @classmethod
    def none(cls, prices: Prices) -> Conditions:
        """Return the conditions that every set meets."""
        nothing = np.zeros(prices.own.size, dtype=bool)
        return cls(prices, nothing, nothing)

    @classmethod
    def of(
        cls,
        groups: FeatureGroups,
        include: GroupNames,
        exclude: GroupNames,
        at_most_one: Iterable[GroupNames],
        always: GroupNames = (),
    ) -> Conditions:
        """Return the conditions that a user gives by names, with all that follows from them.

        The groups ``always`` are in, too.
        """
        names, prices = groups.names, groups.prices
        place = places_of(names)
        several = list(at_most_one) if isinstance(at_most_one, Iterable) else [""]
        if any(isinstance(each, str) for each in several):
            raise TypeError(f"at_most_one must be a list of lists of groups, got {shown(at_most_one)}")
        rivals = tuple(positions_of("at_most_one", each, place) for each in several)
        given = (*positions_of("include", include, place), *positions_of("start", always, place))
        included = prices.closure(given)
        excluded = np.zeros(len(names), dtype=bool)
        for g in positions_of("exclude", exclude, place):
            excluded[[g, *prices.dependents.get(g, ())]] = True
        if both := np.flatnonzero(included & excluded).tolist():
            raise ValueError(
                f"group {shown(names[both[0]])} must be both in and out: see include, exclude and requires"
            )
        for each in rivals:
            if len(two := [shown(names[g]) for g in each if included[g]]) > 1:
                raise ValueError(
                    f"groups {two[0]} and {two[1]} must both be in, but at most one of them may: see include, "
                    "at_most_one and requires"
                )
        found = cls(prices, included, excluded, rivals)
        return cls(prices, included, excluded | found.barred(included) | np.diag(found.conflicts), rivals)

    @cached_property
    def conflicts(self) -> Mask:
        """Which groups cannot be in one set, (J, J): they, or groups that they require, are rivals.

        On the diagonal: groups that are in no set, because they require two rivals.
        """
        J = self.prices.own.size
        found = np.zeros((J, J), dtype=bool)
        for each in self.rivals:
            # needed[g, r]: whether a set with g holds the rival r
            needed = np.array([self.prices.closure([g])[list(each)] for g in range(J)]).astype(np.intp)
            count = needed.sum(axis=1)
            found |= count[:, None] + count - needed @ needed.T > 1
        return found

    def barred(self, chosen: Mask) -> Mask:
        """Return the groups (J,) that cannot be in a set with any of these, because of rivals."""
        if not self.rivals:
            return np.zeros_like(chosen)
        return np.asarray(self.conflicts[chosen].any(axis=0))

    def agree(self, chosen: Mask) -> bool:
        """Return whether a set has at most one of each of the rivals."""
        return not (self.rivals and self.conflicts[np.ix_(chosen, chosen)].any())

    def including(self, g: int, included: Mask, excluded: Mask) -> tuple[Mask, Mask]:
        """Return what is in and what is out if group g is in, too."""
        inside = included | self.prices.closure([g])
        return inside, excluded | self.barred(inside)

    def excluding(self, g: int, included: Mask, excluded: Mask) -> tuple[Mask, Mask]:
        """Return what is in and what is out if group g is out, too."""
        outside = excluded.copy()
        outside[[g, *self.prices.dependents.get(g, ())]] = True
        return included, outside

    def without(self, missing: Mask) -> Conditions:
        """Return the conditions with further groups excluded, and all that require them."""
        excluded = self.excluded.copy()
        for g in np.flatnonzero(missing).tolist():
            _, excluded = self.excluding(g, self.included, excluded)
        return Conditions(self.prices, self.included, excluded, self.rivals)

    def within(self, model: AnytimeModel) -> Conditions:
        """Return the conditions without the groups that a model knows nothing of: its sequence ended before them."""
        missing = np.ones(len(model.groups), dtype=bool)
        missing[model.sequence.order] = False
        if wrong := np.flatnonzero(missing & self.included).tolist():
            name = shown(model.groups.names[wrong[0]])
            raise ValueError(
                f"group {name} must be in, but the model knows nothing of it: its sequence ended before it"
            )
        return self.without(missing)

    def only(self, chosen: Mask) -> Conditions:
        """Return the conditions that only subsets of a set meet."""
        return Conditions(self.prices, np.zeros_like(chosen), ~chosen)


@dataclass(frozen=True)
class Allowed:
    """A schedule that buys an allowed set within a budget: the included groups first, no excluded ones."""

    conditions: Conditions
    budget: float = np.inf

    @property
    def bundles(self) -> bool:
        """Whether several groups may be bought at once: they might be rivals."""
        return not self.conditions.rivals

    def allowed(self, costs: Float, remaining: Mask, spent: float) -> Mask:
        """Return the included groups that remain, or else all allowed groups that the budget can pay for."""
        first = remaining & self.conditions.included
        if first.any():
            return first
        fits = spent + costs <= self.budget * (1 + SLACK)
        return np.asarray(remaining & fits & ~self.conditions.excluded & ~self.conditions.barred(~remaining))
