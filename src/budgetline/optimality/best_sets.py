"""The best set of groups for a budget that is known: a local search, then branch and bound.

1. Greedy forward regression fills the budget, once by gain per cost and once by gain.
2. Each of the two sets is improved: one group is exchanged for another, and the budget filled up again, as long as that
   raises the value. With penalties a group may also be added or removed.
3. Branch and bound starts from the better set (:mod:`~budgetline.optimality.search`). It ends with a proof that no
   set is better, with a better set, or at the deadline with a bound.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from budgetline.arrays import Mask
from budgetline.budgets import SLACK
from budgetline.optimality.certificate import Certificate
from budgetline.optimality.certify import SEPARATING
from budgetline.optimality.conditions import Allowed, Conditions
from budgetline.optimality.quadratic import Quadratic
from budgetline.optimality.relaxation import Separation, separate
from budgetline.optimality.search import Search, filled
from budgetline.progress import Progress, TimeLimit
from budgetline.threads import one_blas_thread

EXCHANGING = 0.5
"""The share of the time, once Δ is known, for the search for a good set; the rest is for its proof."""
SAME_VALUE = 1e-9
"""Values that differ by less than this share of what all groups explain are equal."""


@dataclass(frozen=True, eq=False)
class BestSet:
    """A set of groups for one budget, and how close it is to optimal.

    The groups are in the order in which greedy would buy them. ``value`` is F, what they explain on the training data,
    less their penalties if the problem has any, and ``explained`` is F/R(∅). No set within the budget that meets the
    conditions has a value above ``bound``, which ``certificate`` proves; ``optimal`` tells whether it is reached.
    """

    groups: tuple[str, ...]
    cost: float
    value: float
    explained: float
    bound: float
    optimal: bool
    certificate: Certificate


def best_sets(
    problem: Quadratic, conditions: Conditions, budgets: Iterable[float], time_limit: float, progress: Progress
) -> tuple[BestSet, ...]:
    """Return the best set for every budget; they share Δ and the time."""
    searches = [SetSearch(problem, conditions, budget) for budget in budgets]
    found = []
    with one_blas_thread(), TimeLimit(time_limit, progress) as clock:
        separation = separate(problem, clock.start + SEPARATING * clock.limit)
        for k, search in enumerate(searches):
            now = time.monotonic()
            found.append(search.solve(separation, now + (clock.end - now) / (len(searches) - k), clock))
    return tuple(found)


@dataclass(frozen=True, eq=False)
class SetSearch:
    """The search for the best of the sets that meet the conditions, for one budget."""

    problem: Quadratic
    conditions: Conditions
    budget: float

    def __post_init__(self) -> None:
        if (cost := self.problem.prices.cost(self.conditions.included)) > self.budget * (1 + SLACK):
            raise ValueError(f"the groups that must be in cost {cost:.6g}, more than the budget of {self.budget:.6g}")

    def solve(self, separation: Separation, deadline: float, clock: TimeLimit) -> BestSet:
        """Start from the set that greedy steps and exchanges find, and prove it optimal or find a better one."""
        problem = self.problem
        search = Search(problem, np.array([self.budget]), self.conditions, separation)
        for k, cost_sensitive in enumerate((True, False)):
            now = time.monotonic()
            until = now + EXCHANGING * (deadline - now) / (2 - k)
            search.know(self.exchanged(self._start(cost_sensitive), until))
        search.run(deadline, SAME_VALUE * search.most, clock.tick)
        chosen = search.sets[0]
        certificate = search.certificate(problem.greedy(Allowed(self.conditions.only(chosen))))
        value, bound = float(search.values[0]), float(certificate.bounds[0])
        optimal = bound <= value + (SAME_VALUE + 2 * (problem.rounding or 0.0)) * search.most
        explained = (value + problem.penalty(chosen)) / (problem.gram.null_value or 1.0)
        names = tuple(problem.groups.names[g] for g in certificate.order)
        return BestSet(names, problem.prices.cost(chosen), value, explained, bound, optimal, certificate)

    def _start(self, cost_sensitive: bool) -> Mask:
        """Return the groups that greedy buys; if there are penalties, the best of its prefixes."""
        order = self.problem.greedy(Allowed(self.conditions, self.budget), cost_sensitive=cost_sensitive)
        if self.problem.penalties is not None:
            least = int(self.conditions.included.sum())  # they come first
            values = np.append(0.0, self.problem.prefix_values(order))
            order = order[: least + int(np.argmax(values[least:]))]
        chosen = self.conditions.included.copy()
        chosen[order] = True
        return chosen | self.problem.prices.closure(order)

    def exchanged(self, chosen: Mask, deadline: float) -> Mask:
        """Exchange one group for another, and fill up, as long as that raises the value."""
        value = self.problem.value(chosen)
        while time.monotonic() < deadline:
            for tried in self._neighbours(chosen):
                if time.monotonic() >= deadline:
                    return chosen
                if (found := self.problem.value(tried)) > value + SAME_VALUE * abs(value):
                    chosen, value = tried, found
                    break
            else:
                break
        return chosen

    def _neighbours(self, chosen: Mask) -> Iterator[Mask]:
        """Yield the sets with one group exchanged for another, filled up with the cheapest groups that fit.

        If there are penalties, more groups may be worth less: then one group is added, removed or exchanged.
        """
        prices, about = self.problem.prices, self.conditions
        for out, new in self._moves(chosen):
            tried = chosen.copy()
            for g in out:
                tried[[g, *prices.dependents.get(g, ())]] = False
            added = prices.closure(new)
            tried = (tried & ~about.barred(added)) | added
            if tried[out].any() or not self._allowed(tried):
                continue
            if self.problem.penalties is None:
                cheapest = np.argsort(prices.marginal(tried), kind="stable").tolist()
                tried = filled(about, tried, about.excluded, self.budget, cheapest)
            yield tried

    def _moves(self, chosen: Mask) -> Iterator[tuple[list[int], list[int]]]:
        """Yield the groups to remove, and to add, one of each at most."""
        outs = np.flatnonzero(chosen & ~self.conditions.included).tolist()
        news = np.flatnonzero(~chosen & ~self.conditions.excluded).tolist()
        if self.problem.penalties is not None:
            yield from (([], [new]) for new in news)
            yield from (([out], []) for out in outs)
        yield from (([out], [new]) for out in outs for new in news)

    def _allowed(self, tried: Mask) -> bool:
        """Return whether a set meets the conditions, but for those about rivals, and fits the budget."""
        about = self.conditions
        if (tried & about.excluded).any() or not tried[about.included].all():
            return False
        return self.problem.prices.cost(tried) <= self.budget * (1 + SLACK)
