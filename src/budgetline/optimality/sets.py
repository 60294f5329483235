"""Find the best set of groups for a known budget."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import overload

import numpy as np

from budgetline.arrays import Float, Mask
from budgetline.budgets import SLACK
from budgetline.inputs import check_number
from budgetline.messages import printable
from budgetline.optimality.certificate import Certificate
from budgetline.optimality.certify import SEPARATING
from budgetline.optimality.conditions import Allowed, Conditions, Names
from budgetline.optimality.quadratic import Quadratic
from budgetline.optimality.relaxation import Separation, separate
from budgetline.optimality.search import Search, filled
from budgetline.progress import Progress, TimeLimit
from budgetline.statistics.moments import Moments
from budgetline.tables import rounded_down
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

    @property
    def ratio(self) -> float:
        """Value over bound: the certified share of the optimum; without a positive bound 1 if optimal, otherwise 0."""
        return max(0.0, min(1.0, self.value / self.bound)) if self.bound > 0 else float(self.optimal)

    def __repr__(self) -> str:
        how = "optimal" if self.optimal else f"at least {rounded_down(self.ratio, 4):.2%} of the optimum"
        if condition := self.certificate.condition:
            how += f" of sets {condition}"
        groups = ", ".join(map(printable, self.groups)) or "nothing"
        return f"BestSet({groups}: cost {self.cost:.6g}, explains {self.explained:.1%}, {how})"


@overload
def best_set(
    moments: Moments, feature_groups: object = ..., costs: object = ..., *, budget: float, include: Names = ...,
    exclude: Names = ..., at_most_one: Iterable[Names] = ..., alpha: float = ..., time_limit: float = ...,
    progress: Progress = ...,
) -> BestSet: ...  # fmt: skip
@overload
def best_set(
    moments: Moments, feature_groups: object = ..., costs: object = ..., *, budget: Sequence[float] | Float,
    include: Names = ..., exclude: Names = ..., at_most_one: Iterable[Names] = ..., alpha: float = ...,
    time_limit: float = ..., progress: Progress = ...,
) -> tuple[BestSet, ...]: ...  # fmt: skip
def best_set(
    moments: Moments,
    feature_groups: object = None,
    costs: object = None,
    *,
    budget: float | Sequence[float] | Float,
    include: Names = (),
    exclude: Names = (),
    at_most_one: Iterable[Names] = (),
    alpha: float = 1e-5,
    time_limit: float = 5.0,
    progress: Progress = None,
) -> BestSet | tuple[BestSet, ...]:
    """Find the set of groups that explains most for a known budget, such as the best tests for 200 dollars.

    If the budget is known, a set is better than a prefix of a sequence. Greedy sets are filled up with groups that
    still fit, groups are exchanged, and branch and bound runs until the set is proven optimal or the time is over.

    Parameters
    ----------
    moments : Moments
    feature_groups, costs, alpha
        As in :class:`budgetline.AnytimeRegressor`.
    budget : float or sequence of floats
        For a sequence the result is a tuple, one BestSet per budget.
    include, exclude : names of groups
        Groups that must be in the set (with those that they require), or must not be (nor those that require them).
    at_most_one : lists of names of groups
        Of each list at most one group may be in the set: ``[["mri", "ct"]]``.
    time_limit, progress
        As in :func:`certify`; the limit is for all budgets together.

    Examples
    --------
    >>> from budgetline import Moments, best_set
    >>> from budgetline.datasets import load_heart
    >>> heart = load_heart()
    >>> moments = Moments.of(heart.data, heart.target)
    >>> best_set(moments, heart.feature_groups, budget=200)
    BestSet(cp, sex, age, trestbps, exercise, fluoroscopy: cost 194.2, explains 52.0%, optimal)
    >>> [len(found.groups) for found in best_set(moments, heart.feature_groups, budget=[20, 200])]
    [5, 6]
    """
    given = np.asarray(budget, dtype=object)
    problem = Quadratic.of_moments(moments, feature_groups, costs, alpha)
    conditions = Conditions.of(problem.groups, include, exclude, at_most_one)
    found = best_sets(problem, conditions, np.atleast_1d(given).tolist(), time_limit, progress)
    return found if given.ndim else found[0]


def best_sets(
    problem: Quadratic, conditions: Conditions, budgets: Iterable[float], time_limit: float, progress: Progress
) -> tuple[BestSet, ...]:
    """Return the best set for every budget; they share Δ and the time."""
    limit = check_number("time_limit", time_limit, "number of seconds", ge=0)
    amounts = [check_number("budget", each, ge=0, finite=True) for each in budgets]
    searches = [SetSearch(problem, conditions, amount) for amount in amounts]
    found = []
    with one_blas_thread(), TimeLimit(limit, progress) as clock:
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
