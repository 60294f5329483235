"""The one greedy loop, which makes every sequence in the library, whatever its objective."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from budgetline.arrays import Float, Mask, Positions
from budgetline.budgets import SLACK
from budgetline.groups.parsing import all_required, parse_costs, parse_requires, parse_shared
from budgetline.groups.prices import Prices
from budgetline.inputs import check_number
from budgetline.messages import shown
from budgetline.progress import announce
from budgetline.sequencing.candidates import Bundle, best_group, bundles, nested_candidates
from budgetline.sequencing.schedules import Schedule, as_schedule
from budgetline.sequencing.sequence import GroupSequence

Elements = frozenset[Any]


class Objective(Protocol):
    """What the loop needs of an objective. Group ids are positions in the prices."""

    @property
    def null_value(self) -> float:
        """The scale of F: for models R(∅), the risk without any group."""
        ...

    def scores(self, allowed: Mask, costs: Float) -> Float:
        """Return the merit of every group, shape (J,); entries of groups that are not allowed are ignored.

        ``costs`` (J,) are the divisors of the scores, all ones if costs do not count; objectives may ignore them.
        """
        ...

    def joint_scores(self, parts: Sequence[Sequence[int]]) -> Float:
        """Return the merit of ``parts[0]``, of ``parts[0]`` and ``parts[1]``, …, each as one merged group.

        Only called where costs are shared or groups require others. Shape (len(parts),).
        """
        ...

    def gains(self) -> Float:
        """Return F(S ∪ g) − F(S) of every group, shape (J,); only called when ``min_gain`` > 0."""
        ...

    def choose(self, g: int) -> float:
        """Add group g, return its gain in F."""
        ...


@dataclass(frozen=True)
class Limits:
    """When to stop: when no group that fits ``max_cost`` and ``max_groups`` gains ``min_gain · R(∅)`` or more.

    With ``min_gain`` > 0 a group that gains nothing is not bought, unless another group requires it. If it gains
    something later, together with the groups bought since, it may still be bought.
    """

    max_cost: float | None = None
    max_groups: int | None = None
    min_gain: float = 0.0

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if value is not None:
                check_number(name, value, ge=0)
        if self.max_groups is not None and int(self.max_groups) != self.max_groups:
            raise ValueError(f"max_groups must be a whole number, got {shown(self.max_groups)}")


def greedy_order(
    objective: Objective,
    prices: Prices,
    schedule: Schedule,
    limits: Limits,
    *,
    cost_sensitive: bool = True,
    start: Iterable[int] = (),
) -> tuple[Positions, Float]:
    """Choose groups one after another, each time the group with the highest score per current cost.

    The groups of ``start``, with those that they require, come before all others, whatever the schedule and whatever
    they gain.

    Where costs are shared or groups require others, several groups may be chosen at once (``candidates``); they are
    then bought one after another, the highest score per cost first. Returns the order, in which no group comes before
    one that it requires, and the gains, both of shape (stages,).
    """
    loop, first = _Loop(objective, prices, schedule, limits, cost_sensitive), prices.closure(start)
    _check_start(first, prices, limits)
    while loop.left > 0:
        announce("group", len(loop.order) + 1, len(loop.order) + loop.left)
        # 1. which groups may come next
        costs = loop.costs()
        fits = loop.fitting(costs)
        if not fits.any():
            break
        starting = fits & first
        # 2. pass over groups that gain nothing; stop if no remaining group gains enough
        if limits.min_gain > 0 and not starting.any():
            enough, gains = limits.min_gain * objective.null_value, objective.gains()
            if enough <= 0 or gains[fits].max() < enough:
                break
            fits &= gains > 0
        allowed = starting if starting.any() else schedule.allowed(costs, fits, loop.spent)
        if not allowed.any():
            break
        # 3. take the best
        if loop.additive:
            loop.take(loop.best(allowed, costs), costs)
        else:
            loop.take_all(loop.best_candidate(allowed, fits, costs))
    return np.array(loop.order, dtype=np.intp), np.array(loop.gains, dtype=np.float64)


def _check_start(first: Mask, prices: Prices, limits: Limits) -> None:
    """Raise an error if the groups that come first do not fit the limits."""
    cost, count = prices.cost(first), int(first.sum())
    if limits.max_cost is not None and cost > limits.max_cost * (1 + SLACK):
        raise ValueError(f"the groups of start cost {cost:.6g}, more than max_cost={shown(limits.max_cost)}")
    if limits.max_groups is not None and count > limits.max_groups:
        raise ValueError(f"start has {count} groups, with those that they require; max_groups is {limits.max_groups}")


class _Loop:
    """The state of one run: the groups bought, the cost spent, and the search for the next candidate."""

    def __init__(
        self, objective: Objective, prices: Prices, schedule: Schedule, limits: Limits, cost_sensitive: bool
    ) -> None:
        self._objective, self._prices, self._schedule, self._limits = objective, prices, schedule, limits
        self._cost_sensitive, self.additive = cost_sensitive, prices.additive
        self._chosen, self._ones = np.zeros(prices.own.size, dtype=bool), np.ones(prices.own.size)
        self.order: list[int] = []
        self.gains: list[float] = []
        self.spent = 0.0

    @property
    def left(self) -> int:
        """How many groups may still be bought."""
        most = self._ones.size if self._limits.max_groups is None else self._limits.max_groups
        return min(most, self._ones.size) - len(self.order)

    def costs(self) -> Float:
        """Return the current cost of every group with the groups that it requires, shape (J,)."""
        return self._prices.own if self.additive else self._prices.marginal(self._chosen)

    def fitting(self, costs: Float) -> Mask:
        """Return the remaining groups that fit the limits, together with those that they require."""
        fits = ~self._chosen
        if self._limits.max_cost is not None:
            fits &= self.spent + costs <= self._limits.max_cost * (1 + SLACK)
        if self._limits.max_groups is not None:
            for g in self._prices.demanding:
                fits[g] &= len(self._prices.missing(g, self._chosen)) <= self.left
        return fits

    def best(self, allowed: Mask, costs: Float) -> int:
        """Return the best allowed group, each taken on its own."""
        if allowed.sum() == 1:  # no choice, as in a fixed order: scores would cost more than the models
            return int(np.argmax(allowed))
        scores = self._objective.scores(allowed, costs if self._cost_sensitive else self._ones)
        return best_group(scores, costs, allowed, cost_sensitive=self._cost_sensitive)

    def best_candidate(self, allowed: Mask, fits: Mask, costs: Float) -> list[int]:
        """Return the groups of the best candidate: a group with those that it requires, or a bundle."""
        if allowed.sum() == 1:
            return self._prices.missing(int(np.argmax(allowed)), self._chosen)
        scores = single = self._single_scores(allowed, costs)
        every, prices, found = allowed, costs, list[list[int]]()
        if self._cost_sensitive and getattr(self._schedule, "bundles", True):
            for bundle in bundles(self._prices, self._chosen, allowed, single, costs):
                kept = [k for k in bundle.several if self._allows(bundle, k, fits, costs)]
                if kept:
                    scores = np.append(scores, self._objective.joint_scores(bundle.parts[: kept[-1] + 1])[kept])
                    prices = np.append(prices, [bundle.costs[k] for k in kept])
                    every = np.append(every, np.ones(len(kept), dtype=bool))
                    found += [bundle.union(k) for k in kept]
        # costs of the same groups may have been summed in another order, hence the slack
        best = best_group(scores, prices, every, cost_sensitive=self._cost_sensitive, slack=SLACK)
        return self._prices.missing(best, self._chosen) if best < costs.size else found[best - costs.size]

    def _single_scores(self, allowed: Mask, costs: Float) -> Float:
        """Return the scores of the allowed groups, each merged with those that it requires and S lacks, shape (J,)."""
        missing = {g: self._prices.missing(g, self._chosen) for g in self._prices.demanding if allowed[g]}
        together = {g: groups for g, groups in missing.items() if len(groups) > 1}
        alone = allowed.copy()
        alone[list(together)] = False
        scores = np.zeros(costs.size)
        if alone.any():
            scores[alone] = self._objective.scores(alone, costs if self._cost_sensitive else self._ones)[alone]
        # along a chain of requirements the candidates are nested: the longest gives the others
        for g in sorted(together, key=lambda g: -len(together[g])):
            if g in together:
                ends, parts = nested_candidates(together[g], together)
                scores[ends] = self._objective.joint_scores(parts)
                for end in ends:
                    del together[end]
        return scores

    def _allows(self, bundle: Bundle, k: int, fits: Mask, costs: Float) -> bool:
        """Return whether union k of a bundle fits the limits, and its last group is allowed at the price of the union.

        Each member may come next on its own, so a schedule is asked again only at the price of the union.
        """
        cost, last = bundle.costs[k], bundle.last[k]
        if sum(map(len, bundle.parts[: k + 1])) > self.left:
            return False
        if self._limits.max_cost is not None and self.spent + cost > self._limits.max_cost * (1 + SLACK):
            return False
        instead = costs.copy()
        instead[last] = cost
        return bool(self._schedule.allowed(instead, fits, self.spent)[last])

    def take_all(self, groups: list[int]) -> None:
        """Buy groups one after another, always the best of those whose requirements are met."""
        pending = np.zeros_like(self._chosen)
        pending[groups] = True
        while pending.any():
            costs = self.costs()
            ready = pending.copy()
            if len(groups) > 1:
                for g in np.flatnonzero(pending).tolist():
                    ready[g] = len(self._prices.missing(g, self._chosen)) == 1
            g = self.best(ready, costs)
            self.take(g, costs)
            pending[g] = False

    def take(self, g: int, costs: Float) -> None:
        """Buy one group."""
        self.gains.append(self._objective.choose(g))
        self.order.append(g)
        self._chosen[g] = True
        self.spent += float(costs[g])


class SetFunction:
    """A set function as an objective of the greedy loop: every score is a difference of two values."""

    def __init__(self, F: Callable[[Elements], float], elements: list[Any]) -> None:
        self._F = F
        self._elements = elements
        self._chosen: Elements = frozenset()
        self._value = self._evaluate(self._chosen)
        self._known: dict[int, float] = {}
        self.null_value = self._evaluate(frozenset(elements)) - self._value

    def scores(self, allowed: Mask, costs: Float) -> Float:
        """Return F(S ∪ {x}) − F(S) of the allowed elements."""
        scores = np.full(len(self._elements), -np.inf)
        for g in np.flatnonzero(allowed).tolist():
            if self._elements[g] not in self._chosen:
                scores[g] = self._with(g) - self._value
        return scores

    def joint_scores(self, parts: Sequence[Sequence[int]]) -> Float:
        """Return F(S ∪ A) − F(S) of the unions A of the first 1, 2, … parts."""
        found, reached = [], self._chosen
        for part in parts:
            reached |= {self._elements[g] for g in part}
            found.append(self._evaluate(reached) - self._value)
        return np.array(found)

    def gains(self) -> Float:
        """Return F(S ∪ {x}) − F(S) of every element."""
        return self.scores(np.ones(len(self._elements), dtype=bool), np.ones(len(self._elements)))

    def choose(self, g: int) -> float:
        """Add element g, return its gain."""
        before, self._value = self._value, self._with(g)
        self._chosen |= {self._elements[g]}
        self._known = {}
        return self._value - before

    def _with(self, g: int) -> float:
        """Return F(S ∪ {x}) for element g, evaluated once."""
        if g not in self._known:
            self._known[g] = self._evaluate(self._chosen | {self._elements[g]})
        return self._known[g]

    def _evaluate(self, S: Elements) -> float:
        value = float(self._F(S))
        if not np.isfinite(value):
            raise ValueError(f"the objective is {value} on {set(S) or 'the empty set'}")
        return value


def greedy_sequence(
    objective: Callable[[Elements], float],
    costs: Mapping[Hashable, float],
    *,
    shared: Mapping[Any, tuple[float, Iterable[Any]]] | None = None,
    requires: Mapping[Any, Iterable[Any]] | None = None,
    schedule: Any = "greedy",
    cost_sensitive: bool = True,
    max_cost: float | None = None,
    max_groups: int | None = None,
    min_gain: float = 0.0,
) -> GroupSequence:
    """Order elements by marginal gain per cost of any set function.

    Parameters
    ----------
    objective : callable
        F(S) for a frozenset S of elements. About J²/2 evaluations are made.
    costs : mapping element -> cost
    shared : mapping name -> (cost, elements), optional
        Costs that several elements share: paid once, by the first of them.
    requires : mapping element -> elements, optional
        Elements that must come before an element.
    schedule : {"greedy", "doubling"} or a schedule such as ``Doubling(c_min=2)``
    cost_sensitive : bool
        False: order by marginal gain alone.
    max_cost, max_groups, min_gain
        When to stop, as in :class:`budgetline.AnytimeRegressor`; ``min_gain`` is relative to
        F(everything) − F(∅).

    Returns
    -------
    GroupSequence
        Its costs are those actually paid at each step; ``explained`` is relative to F(everything) − F(∅).

    Examples
    --------
    >>> from budgetline.sequencing import greedy_sequence
    >>> covers = {"a": {1, 2}, "b": {2, 3, 4}, "c": {4}}
    >>> greedy_sequence(lambda S: len(set().union(*(covers[x] for x in S))), {"a": 1, "b": 2, "c": 3}).groups
    ('a', 'b', 'c')
    """
    elements = list(costs)
    names = tuple(map(str, elements))
    if (shared or requires) and len(set(names)) < len(names):
        raise ValueError(f"element {shown(next(n for n in names if names.count(n) > 1))} is listed twice, as text")
    required = all_required(parse_requires(requires, names), names)
    prices = Prices(parse_costs(list(costs.values()), names), parse_shared(shared, names), required)
    F = SetFunction(objective, elements)
    if min_gain > 0 and F.null_value <= 0:
        raise ValueError("min_gain is relative to F(everything) − F(∅), which is not positive")
    limits = Limits(max_cost, max_groups, min_gain)
    timing = as_schedule(schedule, tuple(e if isinstance(e, int) else str(e) for e in elements), prices)
    order, gains = greedy_order(F, prices, timing, limits, cost_sensitive=cost_sensitive)
    return GroupSequence(order, tuple(elements[g] for g in order), prices.steps(order), gains, F.null_value)
