"""best_set: what to buy when the budget is known."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import overload

import numpy as np

from budgetline.arrays import Float, Mask
from budgetline.budgets import SLACK, check_number
from budgetline.groups.parsing import places_of, positions_of
from budgetline.messages import printable, shown
from budgetline.optimality.certificate import Certificate
from budgetline.optimality.certify import SEPARATING
from budgetline.optimality.knapsack import filled
from budgetline.optimality.quadratic import Quadratic
from budgetline.optimality.relaxation import Separation, separate
from budgetline.optimality.search import Search
from budgetline.progress import Progress, TimeLimit
from budgetline.statistics.moments import Moments
from budgetline.tables import rounded_down
from budgetline.threads import one_blas_thread

CLOSED = 1e-9
"""Values that differ by less than this share of what all groups explain are equal."""


@dataclass(frozen=True, eq=False)
class BestSet:
    """A set of groups for one budget, and how close it is to optimal.

    The groups are in the order in which greedy would buy them. ``value`` is F, what they explain on the training data,
    and ``explained`` is F/R(∅). No set within the budget that satisfies ``include`` and ``exclude`` has an F above
    ``bound``, which ``certificate`` proves; ``optimal`` tells whether the bound is reached.
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
        """Value over bound: the certified share of the optimum."""
        return min(1.0, self.value / self.bound) if self.bound > 0 else 1.0

    def __repr__(self) -> str:
        how = "optimal" if self.optimal else f"at least {rounded_down(self.ratio, 4):.2%} of the optimum"
        if condition := self.certificate.condition:
            how += f" of sets {condition}"
        groups = ", ".join(map(printable, self.groups)) or "nothing"
        return f"BestSet({groups}: cost {self.cost:.6g}, explains {self.explained:.1%}, {how})"


@overload
def best_set(
    moments: Moments, feature_groups: object = ..., costs: object = ..., *, budget: float, include: Iterable[str] = ...,
    exclude: Iterable[str] = ..., alpha: float = ..., time_limit: float = ..., progress: Progress = ...,
) -> BestSet: ...  # fmt: skip
@overload
def best_set(
    moments: Moments, feature_groups: object = ..., costs: object = ..., *, budget: Sequence[float] | Float,
    include: Iterable[str] = ..., exclude: Iterable[str] = ..., alpha: float = ..., time_limit: float = ...,
    progress: Progress = ...,
) -> tuple[BestSet, ...]: ...  # fmt: skip
def best_set(
    moments: Moments,
    feature_groups: object = None,
    costs: object = None,
    *,
    budget: float | Sequence[float] | Float,
    include: Iterable[str] = (),
    exclude: Iterable[str] = (),
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
    feature_groups, costs
        As in :class:`budgetline.AnytimeRegressor`.
    budget : float or sequence of floats
    include, exclude : names of groups
        Groups that must be in the set (with those that they require), or must not be (nor those that require them).
    alpha : float
        Ridge constant, as there.
    time_limit : float
        Seconds, for all budgets together.
    progress : bool or None
        Whether to show a progress bar; None: on a terminal, where tqdm is installed.

    Returns
    -------
    BestSet, or a tuple of BestSet in the order of the budgets

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
    limit = check_number("time_limit", time_limit, "number of seconds", ge=0)
    problem = Quadratic.of_moments(moments, feature_groups, costs, alpha)
    conditions = _conditions(problem, include, exclude)
    amounts = [check_number("budget", each, ge=0, finite=True) for each in np.atleast_1d(given).tolist()]
    searches = [_SetSearch(problem, *conditions, amount) for amount in amounts]
    found = []
    with one_blas_thread(), TimeLimit(limit, progress) as clock:
        separation = separate(problem, clock.start + SEPARATING * clock.limit)
        for k, search in enumerate(searches):
            now = time.monotonic()
            found.append(search.solve(separation, now + (clock.end - now) / (len(searches) - k), clock))
    return tuple(found) if given.ndim else found[0]


def _conditions(problem: Quadratic, include: Iterable[str], exclude: Iterable[str]) -> tuple[Mask, Mask]:
    """Return the masks of the included and excluded groups, with all that follows from requirements."""
    names, prices = problem.groups.names, problem.prices
    place = places_of(names)
    included = prices.closure(positions_of("include", include, place))
    excluded = np.zeros(len(names), dtype=bool)
    for g in positions_of("exclude", exclude, place):
        excluded[[g, *prices.dependents.get(g, ())]] = True
    if both := np.flatnonzero(included & excluded).tolist():
        raise ValueError(f"group {shown(names[both[0]])} must be both in and out: see include, exclude and requires")
    return included, excluded


@dataclass(frozen=True)
class _OnlyAllowed:
    """A schedule: included groups come first, excluded groups never."""

    included: Mask
    excluded: Mask

    def allowed(self, costs: Float, remaining: Mask, spent: float) -> Mask:
        first = remaining & self.included
        return first if first.any() else remaining & ~self.excluded


@dataclass(frozen=True, eq=False)
class _SetSearch:
    """The search for the best set for one budget, with some groups included and others excluded."""

    problem: Quadratic
    included: Mask
    excluded: Mask
    budget: float

    def __post_init__(self) -> None:
        if (cost := self.problem.prices.cost(self.included)) > self.budget * (1 + SLACK):
            raise ValueError(f"the groups that must be in cost {cost:.6g}, more than the budget of {self.budget:.6g}")

    def solve(self, separation: Separation, deadline: float, clock: TimeLimit) -> BestSet:
        """Start from the set that greedy steps and exchanges find, and prove it optimal or find a better one."""
        problem = self.problem
        search = Search(problem, np.array([self.budget]), self.included, self.excluded, separation)
        for cost_sensitive in (True, False):
            schedule = _OnlyAllowed(self.included, self.excluded)
            start = np.zeros_like(self.included)
            start[problem.greedy(schedule, self.budget, cost_sensitive=cost_sensitive)] = True
            search.know(self._exchanged(start, deadline))
        search.run(deadline, CLOSED * search.everything, clock.tick)
        chosen = search.sets[0]
        assert chosen is not None
        certificate = search.certificate(problem.greedy(_OnlyAllowed(np.zeros_like(chosen), ~chosen)))
        value, bound = float(search.values[0]), float(certificate.bounds[0])
        optimal = bound <= value + (CLOSED + 2 * (problem.rounding or 0.0)) * search.everything
        explained = value / problem.gram.null_value if problem.gram.null_value > 0 else 0.0
        names = tuple(problem.groups.names[g] for g in certificate.order)
        return BestSet(names, problem.prices.cost(chosen), value, explained, bound, optimal, certificate)

    def _exchanged(self, chosen: Mask, deadline: float) -> Mask:
        """Exchange one group for another, and fill up, as long as that explains more."""
        value = self.problem.value(chosen)
        while time.monotonic() < deadline:
            for tried in self._neighbours(chosen):
                if time.monotonic() >= deadline:
                    return chosen
                if (found := self.problem.value(tried)) > value * (1 + CLOSED):
                    chosen, value = tried, found
                    break
            else:
                break
        return chosen

    def _neighbours(self, chosen: Mask) -> Iterator[Mask]:
        """Yield the sets with one group exchanged for another, filled up with the cheapest groups that fit."""
        prices = self.problem.prices
        for out in np.flatnonzero(chosen & ~self.included).tolist():
            for new in np.flatnonzero(~chosen & ~self.excluded).tolist():
                tried = chosen.copy()
                tried[[out, *prices.dependents.get(out, ())]] = False
                tried |= prices.closure([new])
                if not (tried[out] or (tried & self.excluded).any() or prices.cost(tried) > self.budget * (1 + SLACK)):
                    cheapest = np.argsort(prices.marginal(tried), kind="stable").tolist()
                    yield filled(prices, tried, self.excluded, self.budget, cheapest)
