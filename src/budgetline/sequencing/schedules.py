"""Schedules: which groups may come next, given what has been spent so far."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Any, ClassVar, Protocol, cast

import numpy as np

from budgetline.arrays import Float, Mask
from budgetline.budgets import SLACK
from budgetline.groups.prices import Prices
from budgetline.inputs import check_integer, check_number
from budgetline.messages import did_you_mean, shown, some


class Schedule(Protocol):
    """Decides which of the remaining groups may be chosen next.

    A bundle (``candidates``) is allowed if all its members are, the last one at the price of the whole bundle. With
    the attribute ``bundles = False`` there are no bundles.
    """

    def allowed(self, costs: Float, remaining: Mask, spent: float) -> Mask:
        """Return a mask of shape (J,), a subset of ``remaining``; all False ends the sequence.

        ``costs`` are the current costs of the groups, including what each requires and shares.
        """


@dataclass(frozen=True)
class Greedy:
    """Any remaining group may come next."""

    def allowed(self, costs: Float, remaining: Mask, spent: float) -> Mask:
        """Return all remaining groups."""
        return remaining


@dataclass(frozen=True)
class Doubling:
    """No group may cost more than everything bought before it, so the total at most doubles at each step.

    This is Algorithm 2 of the paper with one change. As printed, the algorithm stops as soon as no remaining group is
    affordable. With distinct costs, this happens at the second step. Instead, this version buys the cheapest remaining
    group and continues. With the rules "forward" and "omp", it guarantees for every C0 > 4, every budget B and every
    set S of groups that costs at most B/C0 that

        F(G_B) ≥ (1 − exp(−γ (C0/2 − 2))) F(S),    γ = λ_min(Δ^{-1/2} C Δ^{-1/2}),  Δ = blockdiag(C_g),

    if no costs are shared and no group requires another. Here, G_B is the longest prefix that B pays for, F is the
    reduction of the training risk, C = X'X/n + alpha·I for standardised X, and C_g is the block of C for group g.

    Parameters
    ----------
    c_min : float or None
        Maximum cost of the first group. If None, it is the lowest cost of any group.
    literal : bool
        Whether to stop when no remaining group is affordable, as in the paper.

    Examples
    --------
    >>> from budgetline import AnytimeRegressor
    >>> from budgetline.datasets import load_nhanes
    >>> from budgetline.sequencing import Doubling
    >>> nhanes = load_nhanes()
    >>> model = AnytimeRegressor(nhanes.feature_groups, schedule=Doubling(c_min=2), max_groups=4)
    >>> model.fit(nhanes.data, nhanes.target).sequence_.groups
    ('HSQ', 'HIQ', 'DUQ', 'DIQ')
    """

    c_min: float | None = None
    literal: bool = False

    def __post_init__(self) -> None:
        if self.c_min is not None:
            check_number("c_min", self.c_min, gt=0, finite=True)
        if not isinstance(self.literal, bool | np.bool_):
            raise TypeError(f"literal must be True or False, got {shown(self.literal)}")

    def allowed(self, costs: Float, remaining: Mask, spent: float) -> Mask:
        """Return the affordable groups; if no group is affordable, the cheapest (or nothing, if ``literal``)."""
        limit = spent
        if spent == 0:
            limit = self.c_min if self.c_min is not None else float(costs.min()) if self.literal else 0.0
        affordable = remaining & (costs <= limit * (1 + SLACK))
        if affordable.any() or self.literal:
            return affordable
        return np.asarray(remaining & (costs == costs[remaining].min()))


@dataclass(frozen=True)
class FixedOrder:
    """A fixed order, such as the order of an existing pipeline; only the models of its prefixes are fitted.

    Parameters
    ----------
    groups : sequence of group names or positions
        The groups, in order. Groups that are not listed are left out. Every group must come after the groups that it
        requires.

    Examples
    --------
    >>> from budgetline import AnytimeRegressor, FixedOrder
    >>> from budgetline.datasets import load_nhanes
    >>> nhanes = load_nhanes()
    >>> today = FixedOrder(["DEMO", "BMX", "DIQ"])
    >>> AnytimeRegressor(nhanes.feature_groups, schedule=today).fit(nhanes.data, nhanes.target).sequence_.groups
    ('DEMO', 'BMX', 'DIQ')
    """

    groups: Sequence[str | int]

    def __post_init__(self) -> None:
        if isinstance(self.groups, str) or not isinstance(self.groups, Sequence | np.ndarray):
            raise TypeError(f"groups must be a sequence of group names or positions, got {shown(self.groups)}")
        # NumPy's numbers and strings compare and print like Python's
        groups = tuple(int(g) if isinstance(g, Integral) else str(g) for g in self.groups)
        if len(set(groups)) < len(groups):
            twice = next(g for g in groups if groups.count(g) > 1)
            raise ValueError(f"group {shown(twice)} is listed twice in the order")
        object.__setattr__(self, "groups", groups)

    def positions(self, names: Sequence[str | int], prices: Prices) -> list[int]:
        """Return the order as positions among ``names``, checked against requirements."""
        place = {name: g for g, name in enumerate(names)}
        found: list[int] = []
        for g in self.groups:
            if g not in place and (isinstance(g, str) or not 0 <= g < len(names)):
                hint = f"{did_you_mean(g, names)}; the groups are {some(names)}"
                raise ValueError(f"there is no group {shown(g)} for the fixed order{hint}")
            found.append(place[g] if g in place else int(g))
        if wrong := prices.out_of_order(found):
            g, h = (shown(names[k]) for k in wrong)
            raise ValueError(f"the fixed order has group {g}, which requires {h}, without {h} before it")
        return found

    def allowed(self, costs: Float, remaining: Mask, spent: float) -> Mask:
        """Return the first remaining group of the order."""
        mask = np.zeros(costs.size, dtype=bool)
        following = [g for g in cast(tuple[int, ...], self.groups) if remaining[g]]
        mask[following[:1]] = True
        return mask


@dataclass(frozen=True)
class CheapestFirst:
    """The cheapest remaining group comes next, and ties go to the highest score; a baseline.

    The cost of a group is its current cost, including the groups that it requires, which then come before it.
    """

    bundles: ClassVar[bool] = False

    def allowed(self, costs: Float, remaining: Mask, spent: float) -> Mask:
        """Return the cheapest of the remaining groups."""
        return np.asarray(remaining & (costs == costs[remaining].min(initial=np.inf)))


@dataclass(frozen=True)
class RandomOrder:
    """A random order, as a baseline. The same seed gives the same order in every fold.

    Required groups are moved ahead of the groups that require them.

    Parameters
    ----------
    random_state : int
        Seed for the random order.

    Examples
    --------
    >>> from budgetline import AnytimeRegressor
    >>> from budgetline.datasets import load_nhanes
    >>> from budgetline.sequencing import RandomOrder
    >>> nhanes = load_nhanes()
    >>> model = AnytimeRegressor(nhanes.feature_groups, schedule=RandomOrder(2), max_groups=3)
    >>> model.fit(nhanes.data, nhanes.target).sequence_.groups
    ('TCHOL', 'PBCD', 'SLQ')
    """

    random_state: int = 0

    def __post_init__(self) -> None:
        check_integer("random_state", self.random_state, ge=0)

    def allowed(self, costs: Float, remaining: Mask, spent: float) -> Mask:
        """Return the first remaining group of the order drawn."""
        order = np.random.default_rng(self.random_state).permutation(costs.size)
        return FixedOrder(order.tolist()).allowed(costs, remaining, spent)


SCHEDULES = {"greedy": Greedy, "doubling": Doubling, "cheapest": CheapestFirst, "random": RandomOrder}


def as_schedule(schedule: Any, names: Sequence[str | int], prices: Prices) -> Schedule:
    """Turn a name such as ``"greedy"``, or a schedule object, into a schedule for groups of these names and prices."""
    if isinstance(schedule, str):
        if schedule not in SCHEDULES:
            raise ValueError(f"unknown schedule {shown(schedule)}; the known schedules are {some(SCHEDULES)}")
        return cast(Schedule, SCHEDULES[schedule]())
    if isinstance(schedule, type) or not callable(getattr(schedule, "allowed", None)):
        raise TypeError(f"schedule must be a name or an object with a method 'allowed', got {shown(schedule)}")
    if isinstance(schedule, FixedOrder):
        return FixedOrder(schedule.positions(names, prices))
    return cast(Schedule, schedule)
