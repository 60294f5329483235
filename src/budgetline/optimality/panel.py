"""best_set: what to buy when the budget is known."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from budgetline.budgets import SLACK, number_of
from budgetline.groups.parsing import places_of, positions_of
from budgetline.groups.prices import Mask
from budgetline.messages import printable, shown
from budgetline.objectives.factors import BlockCholesky
from budgetline.objectives.gram import Gram
from budgetline.objectives.least_squares import LeastSquares
from budgetline.optimality.certificate import Certificate
from budgetline.optimality.certify import SEPARATING
from budgetline.optimality.quadratic import Quadratic
from budgetline.optimality.search import Search
from budgetline.optimality.statement import check_time_limit, problem_of_moments
from budgetline.progress import Progress, TimeLimit
from budgetline.sequencing.loop import Limits, greedy_order
from budgetline.statistics.moments import Moments
from budgetline.tables import rounded_down
from budgetline.threads import one_blas_thread

CLOSED = 1e-9
"""Values that differ by less than this share of what all groups explain are equal."""


@dataclass(frozen=True, eq=False)
class BestSet:
    """A set of groups for one budget, and how near it is to the best.

    Attributes
    ----------
    groups : tuple of str
        In the order in which greedy would buy them.
    cost : float
    value : float
        F, what the set explains on the training data.
    explained : float
        F/R(∅).
    bound : float
        No set within the budget, with what must be in and without what must not, has a larger F.
    optimal : bool
        Whether the bound is reached.
    certificate : Certificate
        The proof of the bound.
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
        """Value over bound: at least this share of the optimum is reached."""
        return min(1.0, self.value / self.bound) if self.bound > 0 else 1.0

    def __repr__(self) -> str:
        how = "optimal" if self.optimal else f"at least {rounded_down(self.ratio, 4):.2%} of the optimum"
        if condition := self.certificate.condition:
            how += f" of sets {condition}"
        groups = ", ".join(map(printable, self.groups)) or "nothing"
        return f"BestSet({groups}: cost {self.cost:.6g}, explains {self.explained:.1%}, {how})"


def best_set(
    moments: Moments,
    feature_groups: Any = None,
    costs: Any = None,
    *,
    budget: float,
    include: Iterable[str] = (),
    exclude: Iterable[str] = (),
    alpha: float = 1e-5,
    time_limit: float = 5.0,
    progress: Progress = None,
) -> BestSet:
    """Choose the groups that explain most for a budget that is known: which tests for 200 dollars.

    Where the budget is known, a set is better than a prefix of a sequence. Greedy orders are filled up with what still
    fits, groups are exchanged, and branch and bound goes on until the set is proven the best, or the time is over.

    Parameters
    ----------
    moments : Moments
    feature_groups, costs
        As in :class:`budgetline.AnytimeRegressor`.
    budget : float
    include, exclude : names of groups
        Groups that must be in (with what they require), or must not be (nor what requires them).
    alpha : float
        Ridge constant, as there.
    time_limit : float
        Seconds.
    progress : bool or None

    Returns
    -------
    BestSet

    Examples
    --------
    >>> from budgetline import Moments, best_set
    >>> from budgetline.datasets import load_heart
    >>> heart = load_heart()
    >>> best_set(Moments.of(heart.data, heart.target), heart.feature_groups, budget=200)
    BestSet(cp, sex, age, trestbps, exercise, fluoroscopy: cost 194.2, explains 52.0%, optimal)
    """
    if not 0 <= number_of(budget) < np.inf:
        raise ValueError(f"budget must be a finite number ≥ 0, got {shown(budget)}")
    limit = check_time_limit(time_limit)
    if not isinstance(moments, Moments):
        raise TypeError(f"moments must be Moments, got {type(moments).__name__}")
    problem = problem_of_moments(moments, feature_groups, costs, alpha)
    included, excluded = _conditions(problem, include, exclude, float(budget))
    with one_blas_thread(), TimeLimit(limit, progress) as clock:
        return _searched(problem, included, excluded, float(budget), clock)


def _searched(problem: Quadratic, included: Mask, excluded: Mask, budget: float, clock: TimeLimit) -> BestSet:
    """Start from what greedy and exchanges find, and prove it the best, or find a better one."""
    search = Search(problem, np.array([budget]), included, excluded, clock.start + SEPARATING * clock.limit)
    for cost_sensitive in (True, False):
        start = _greedy(problem, included, excluded, budget, cost_sensitive)
        search.know(_exchanged(problem, start, included, excluded, budget, clock))
    search.run(clock.end, CLOSED * search.everything, clock.tick)
    chosen = search.sets[0]
    assert chosen is not None
    certificate = search.certificate(_ordered(problem, chosen))
    value, bound = float(search.values[0]), float(certificate.bounds[0])
    optimal = bound <= value + (CLOSED + 2 * (problem.rounding or 0.0)) * search.everything
    explained = value / problem.null_value if problem.null_value > 0 else 0.0
    names = tuple(problem.groups.names[g] for g in certificate.order)
    return BestSet(names, problem.prices.cost(chosen), value, explained, bound, optimal, certificate)


def _conditions(problem: Quadratic, include: Iterable[str], exclude: Iterable[str], budget: float) -> tuple[Mask, Mask]:
    """Return the masks of what must be in, and of what must not, with all that follows from requirements."""
    names, prices = problem.groups.names, problem.prices
    place = places_of(names)
    included = prices.closure(positions_of("include", include, place))
    excluded = np.zeros(len(names), dtype=bool)
    excluded[list(positions_of("exclude", exclude, place))] = True
    for g, required in enumerate(prices.requires):
        excluded[g] |= bool(excluded[list(required)].any())
    if both := np.flatnonzero(included & excluded).tolist():
        raise ValueError(f"group {shown(names[both[0]])} must be in and must not: see include, exclude and requires")
    if (cost := prices.cost(included)) > budget * (1 + SLACK):
        raise ValueError(f"the groups that must be in cost {cost:.6g}, more than the budget of {budget:.6g}")
    return included, excluded


@dataclass(frozen=True)
class _Conditional:
    """A schedule: what must be in comes first, what must not be never."""

    included: Mask
    excluded: Mask

    def allowed(self, costs: NDArray[np.float64], remaining: Mask, spent: float) -> Mask:
        first = remaining & self.included
        return first if first.any() else remaining & ~self.excluded


def _greedy(problem: Quadratic, included: Mask, excluded: Mask, budget: float, cost_sensitive: bool) -> Mask:
    """Return the greedy set that fills the budget."""
    gram = Gram(problem.C, problem.b, np.full(1, 2 * problem.null_value))
    order, _ = greedy_order(
        LeastSquares(BlockCholesky(gram), problem.sizes, "fr"),
        problem.prices,
        _Conditional(included, excluded),
        Limits(max_cost=budget),
        cost_sensitive=cost_sensitive,
    )
    chosen = np.zeros(problem.sizes.size, dtype=bool)
    chosen[order] = True
    return chosen


def _exchanged(
    problem: Quadratic, chosen: Mask, included: Mask, excluded: Mask, budget: float, clock: TimeLimit
) -> Mask:
    """Exchange one group for another, and fill up, while that explains more."""
    prices, value = problem.prices, problem.value(chosen)
    better = True
    while better:
        better = False
        for out in np.flatnonzero(chosen & ~included).tolist():
            for new in np.flatnonzero(~chosen & ~excluded).tolist():
                if clock.over:
                    return chosen
                tried = chosen.copy()
                tried[[out, *(g for g, required in enumerate(prices.requires) if out in required)]] = False
                tried |= prices.closure([new])
                if tried[out] or (tried & excluded).any() or prices.cost(tried) > budget * (1 + SLACK):
                    continue
                tried = _filled(problem, tried, excluded, budget)
                if (found := problem.value(tried)) > value * (1 + CLOSED):
                    chosen, value, better = tried, found, True
                    break
            if better:
                break
    return chosen


def _filled(problem: Quadratic, chosen: Mask, excluded: Mask, budget: float) -> Mask:
    """Add groups that still fit, the cheapest first: they cannot harm."""
    prices = problem.prices
    for g in np.argsort(prices.marginal(chosen), kind="stable").tolist():
        tried = chosen | prices.closure([g])
        if not (tried & excluded).any() and prices.cost(tried) <= budget * (1 + SLACK):
            chosen = tried
    return chosen


def _ordered(problem: Quadratic, chosen: Mask) -> list[int]:
    """Return a set in the order in which greedy would buy it."""
    gram = Gram(problem.C, problem.b, np.full(1, 2 * problem.null_value))
    only = _Conditional(np.zeros_like(chosen), ~chosen)
    order, _ = greedy_order(LeastSquares(BlockCholesky(gram), problem.sizes, "fr"), problem.prices, only, Limits())
    return [int(g) for g in order]
