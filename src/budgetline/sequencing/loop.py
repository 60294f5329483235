"""The greedy loop that makes every sequence of the library, for any objective."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from budgetline.arrays import Float, Mask, Positions
from budgetline.budgets import SLACK
from budgetline.groups.prices import Prices
from budgetline.inputs import check_number
from budgetline.messages import shown
from budgetline.progress import announce
from budgetline.sequencing.candidates import Bundle, best_group, bundles, nested_candidates
from budgetline.sequencing.schedules import Schedule


class Objective(Protocol):
    """What the loop asks of an objective. Groups are positions in the prices."""

    @property
    def null_value(self) -> float:
        """The scale of F: for models R(∅), the risk without any group."""

    def scores(self, allowed: Mask, costs: Float) -> Float:
        """Return the merit of every group, shape (J,); entries of groups that are not allowed are ignored.

        ``costs`` (J,) are the divisors of the scores, all ones if costs do not count; objectives may ignore them.
        """

    def joint_scores(self, parts: Sequence[Sequence[int]]) -> Float:
        """Return the merit of the unions of the first 1, 2, … parts, each as one merged group, shape (len(parts),).

        Only called if costs are shared or groups require others.
        """

    def gains(self) -> Float:
        """Return F(S ∪ g) − F(S) of every group, shape (J,); only called when ``min_gain`` > 0."""

    def choose(self, g: int) -> float:
        """Add group g, return its gain in F."""


@dataclass(frozen=True)
class Limits:
    """Stop when no group that fits ``max_cost`` and ``max_groups`` gains ``min_gain · R(∅)`` or more.

    With ``min_gain`` > 0 a group without a gain waits until it gains something, or until another group requires it.
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
    penalties: Float | None = None,
    unit: float = 1.0,
) -> tuple[Positions, Float]:
    """Choose groups one after another, each time the group with the highest score per current cost.

    The groups of ``start`` and their requirements come before all others. If costs are shared or groups require
    others, several groups may be chosen at once (``candidates``) and are bought one after another.

    ``penalties`` (J,) are subtracted from gains before they are compared, and from scores, which are ``unit`` times
    twice a gain: the rest can be expected on new rows. The gains returned are those on the training rows.

    Returns the order, in which no group comes before one that it requires, and the gains, both of shape (stages,).
    """
    penalties = np.zeros(prices.own.size) if penalties is None else penalties
    subtracted, first = 2 * unit * penalties, prices.closure(start)
    loop = _Loop(objective, prices, schedule, limits, cost_sensitive, subtracted)
    _check_start(first, prices, limits)
    while loop.left > 0:
        announce("group", len(loop.order) + 1, len(loop.order) + loop.left)
        # 1. which groups may come next
        costs = prices.marginal(loop.chosen)
        fits = loop.fitting(costs)
        if not fits.any():
            break
        starting = fits & first
        # 2. pass over groups that gain nothing; stop if no remaining group gains enough
        if limits.min_gain > 0 and not starting.any():
            enough, gains = limits.min_gain * objective.null_value, objective.gains() - penalties
            if enough <= 0 or gains[fits].max() < enough:
                break
            fits &= gains > 0
        allowed = starting if starting.any() else schedule.allowed(costs, fits, loop.spent)
        if not allowed.any():
            break
        # 3. take the best
        loop.take(loop.best_candidate(allowed, fits, costs), costs)
    return np.array(loop.order, dtype=np.intp), np.array(loop.gains, dtype=np.float64)


def _check_start(first: Mask, prices: Prices, limits: Limits) -> None:
    cost, count = prices.cost(first), int(first.sum())
    if limits.max_cost is not None and cost > limits.max_cost * (1 + SLACK):
        raise ValueError(f"the groups of start cost {cost:.6g}, more than max_cost={shown(limits.max_cost)}")
    if limits.max_groups is not None and count > limits.max_groups:
        raise ValueError(f"start has {count} groups, including required ones; max_groups is {limits.max_groups}")


@dataclass(eq=False)
class _Loop:
    """The state of one run: the groups bought, the cost spent, and the search for the next candidate.

    ``subtracted`` (J,) is the part of the scores that is not expected on new rows.
    """

    objective: Objective
    prices: Prices
    schedule: Schedule
    limits: Limits
    cost_sensitive: bool
    subtracted: Float
    order: list[int] = field(default_factory=list)
    gains: list[float] = field(default_factory=list)
    spent: float = 0.0

    def __post_init__(self) -> None:
        self.chosen = np.zeros(self.prices.own.size, dtype=bool)

    @property
    def left(self) -> int:
        J, most = self.chosen.size, self.limits.max_groups
        return (J if most is None else min(most, J)) - len(self.order)

    def fitting(self, costs: Float) -> Mask:
        """Return the remaining groups that fit the limits, together with their requirements."""
        fits = ~self.chosen
        if self.limits.max_cost is not None:
            fits &= self.spent + costs <= self.limits.max_cost * (1 + SLACK)
        if self.limits.max_groups is not None:
            for g in self.prices.demanding:
                fits[g] &= len(self.prices.missing(g, self.chosen)) <= self.left
        return fits

    def best_candidate(self, allowed: Mask, fits: Mask, costs: Float) -> list[int]:
        """Return the groups of the best candidate: a group with its missing requirements, or a bundle."""
        if allowed.sum() == 1:  # no choice, as in a fixed order: scores would cost more than the models
            return self.prices.missing(int(np.argmax(allowed)), self.chosen)
        scores = single = self._single_scores(allowed, costs)
        every, prices, found = allowed, costs, list[list[int]]()
        if self.cost_sensitive and getattr(self.schedule, "bundles", True):
            for bundle in bundles(self.prices, self.chosen, allowed, single, costs):
                kept = [k for k in bundle.several if self._allows(bundle, k, fits, costs)]
                if kept:
                    scores = np.append(scores, self._joint_scores(bundle.parts[: kept[-1] + 1])[kept])
                    prices = np.append(prices, [bundle.costs[k] for k in kept])
                    every = np.append(every, np.ones(len(kept), dtype=bool))
                    found += [bundle.union(k) for k in kept]
        best = best_group(scores, prices, every, cost_sensitive=self.cost_sensitive)
        return self.prices.missing(best, self.chosen) if best < costs.size else found[best - costs.size]

    def _scores(self, allowed: Mask, costs: Float) -> Float:
        """Return the scores of the allowed groups, each on its own, shape (J,)."""
        divisors = costs if self.cost_sensitive else np.ones_like(costs)
        return self.objective.scores(allowed, divisors) - self.subtracted

    def _joint_scores(self, parts: Sequence[Sequence[int]]) -> Float:
        """Return the scores of the unions of the first 1, 2, … parts."""
        own = np.cumsum([self.subtracted[list(part)].sum() for part in parts])
        return np.asarray(self.objective.joint_scores(parts) - own)

    def _single_scores(self, allowed: Mask, costs: Float) -> Float:
        """Return the scores of the allowed groups, each merged with its missing requirements, shape (J,)."""
        if not self.prices.demanding:
            return self._scores(allowed, costs)
        missing = {g: self.prices.missing(g, self.chosen) for g in self.prices.demanding if allowed[g]}
        together = {g: groups for g, groups in missing.items() if len(groups) > 1}
        alone = allowed.copy()
        alone[list(together)] = False
        scores = self._scores(alone, costs) if alone.any() else np.zeros(costs.size)
        # along a chain of requirements the candidates are nested: the longest gives the others
        for g in sorted(together, key=lambda g: -len(together[g])):
            if g in together:
                ends, parts = nested_candidates(together[g], together)
                scores[ends] = self._joint_scores(parts)
                for end in ends:
                    del together[end]
        return scores

    def _allows(self, bundle: Bundle, k: int, fits: Mask, costs: Float) -> bool:
        """Return whether union k of a bundle fits the limits, and its last group is allowed at the union's price."""
        cost, last = bundle.costs[k], bundle.last[k]
        if sum(map(len, bundle.parts[: k + 1])) > self.left:
            return False
        if self.limits.max_cost is not None and self.spent + cost > self.limits.max_cost * (1 + SLACK):
            return False
        instead = costs.copy()
        instead[last] = cost
        return bool(self.schedule.allowed(instead, fits, self.spent)[last])

    def take(self, groups: list[int], costs: Float) -> None:
        """Buy groups one after another, always the best of those whose requirements are met."""
        pending = list(groups)
        while pending:
            g = pending[0]
            if len(pending) > 1:
                ready = np.zeros_like(self.chosen)
                ready[[h for h in pending if len(self.prices.missing(h, self.chosen)) == 1]] = True
                if ready.sum() > 1:
                    g = best_group(self._scores(ready, costs), costs, ready, cost_sensitive=self.cost_sensitive)
            self.gains.append(self.objective.choose(g))
            self.order.append(g)
            self.chosen[g] = True
            self.spent += float(costs[g])
            pending.remove(g)
            costs = self.prices.marginal(self.chosen) if pending else costs
