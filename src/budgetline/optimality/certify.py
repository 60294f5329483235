"""Prove how close a sequence is to optimal, and find the best set of groups for a known budget."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import overload

import numpy as np
from numpy.typing import ArrayLike

from budgetline.arrays import Float, Mask
from budgetline.budgets import SLACK, affordable, check_number, floats_of
from budgetline.groups import FeatureGroups
from budgetline.groups.parsing import places_of, positions_of
from budgetline.messages import printable, shown
from budgetline.model.anytime import AnytimeModel
from budgetline.optimality.certificate import Certificate
from budgetline.optimality.proof import Proof
from budgetline.optimality.quadratic import Quadratic, model_of
from budgetline.optimality.relaxation import Separation, separate
from budgetline.optimality.search import Search, filled
from budgetline.progress import Progress, TimeLimit
from budgetline.sequencing.schedules import FixedOrder, Greedy
from budgetline.sequencing.sequence import GroupSequence
from budgetline.statistics.moments import Moments
from budgetline.tables import rounded_down
from budgetline.threads import one_blas_thread

GRID = 64
"""This many budgets, evenly spread up to the total cost, are certified in addition to the prefixes."""
JUST_BELOW = 1 - 1e-9
CLOSED = 1e-4
"""A gap below this share of what all groups explain is small enough."""
SAME_VALUE = 1e-9
"""Values that differ by less than this share of what all groups explain are equal."""
SEPARATING = 0.5
"""The share of the time limit for the search for Δ."""


def certify(
    subject: object,
    feature_groups: object = None,
    costs: object = None,
    *,
    sequence: GroupSequence | Sequence[str] | None = None,
    alpha: float | None = None,
    budgets: ArrayLike | None = None,
    time_limit: float = 5.0,
    progress: Progress = None,
) -> Certificate:
    """Prove how close a sequence is to optimal at every budget.

    Bounds on what any set of groups can explain come from the models of the prefixes, from a relaxation and from branch
    and bound, until the gaps are below 1e-4 of what all groups explain or the time is over. They are always valid.
    They are about the training data and squared error: for other losses the only bound is that of all groups.

    Parameters
    ----------
    subject : fitted model or Moments
        A model is certified as it is; for moments, the sequence of ``rule="fr"`` unless another is given.
    feature_groups, costs, alpha
        With moments, as in :class:`budgetline.AnytimeRegressor`.
    sequence : GroupSequence or group names, optional
        With moments: the order to certify.
    budgets : array, optional
        Further budgets of interest; every prefix and an even grid are always certified.
    time_limit : float
        Seconds.
    progress : bool or None
        Whether to show a progress bar; None: on a terminal, where tqdm is installed.

    Examples
    --------
    >>> from budgetline import Moments, certify
    >>> from budgetline.datasets import load_heart
    >>> heart = load_heart()
    >>> certificate = certify(Moments.of(heart.data, heart.target), heart.feature_groups, time_limit=60)
    >>> round(certificate.at(80).ratio, 3), round(certificate.timeliness().ratio, 2)
    (0.974, 0.98)
    """
    limit = check_number("time_limit", time_limit, "number of seconds", ge=0)
    if isinstance(subject, Moments):
        problem = Quadratic.of_moments(subject, feature_groups, costs, alpha)
        order = _order_of(sequence, problem)
    else:
        model = model_of(subject, feature_groups=feature_groups, costs=costs, sequence=sequence, alpha=alpha)
        order = model.sequence.order.tolist()
        if not model.squared_error:
            return _of_other_loss(model, certified_budgets(model.groups, order, budgets))
        problem = Quadratic.of_model(model)
    grid, none = certified_budgets(problem.groups, order, budgets), np.zeros(problem.sizes.size, dtype=bool)
    with one_blas_thread(), TimeLimit(limit, progress) as clock:
        search = Search(problem, grid, none, none, separate(problem, clock.start + SEPARATING * clock.limit))
        search.follow(order, clock.end)
        search.run(clock.end, CLOSED * search.everything, clock.tick)
        return search.certificate(order)


def certified_budgets(groups: FeatureGroups, order: list[int], budgets: ArrayLike | None) -> Float:
    """Return the budgets of a certificate: every prefix, just before it, an even grid, and those asked for."""
    spent = np.cumsum(groups.prices.steps(order))
    even = groups.prices.total * (np.arange(1, GRID + 1) / GRID)
    try:
        asked = np.empty(0) if budgets is None else np.atleast_1d(floats_of(budgets))
    except (TypeError, ValueError):
        raise ValueError(f"budgets must be numbers, got {shown(budgets)}") from None
    if asked.ndim != 1 or not np.isfinite(asked).all() or np.any(asked < 0):
        raise ValueError(f"budgets must be finite and not negative, got {shown(budgets)}")
    return np.asarray(np.unique(np.concatenate([[0.0], spent, spent * JUST_BELOW, even, asked])))


def _order_of(sequence: GroupSequence | Sequence[str] | None, problem: Quadratic) -> list[int]:
    """Return a sequence as positions of groups; None: that of greedy ``fr``."""
    if isinstance(sequence, str):
        raise TypeError(f"sequence must be a GroupSequence or a list of group names, got the string {shown(sequence)}")
    if sequence is None:
        with one_blas_thread():
            return problem.greedy(Greedy())
    names = sequence.groups if isinstance(sequence, GroupSequence) else sequence
    return FixedOrder(tuple(map(str, names))).positions(problem.groups.names, problem.prices)


def _of_other_loss(model: AnytimeModel, grid: Float) -> Certificate:
    """Return the certificate of a generalised linear model: F of all groups is the only bound."""
    sequence, groups = model.sequence, model.groups
    if len(sequence) < len(groups):
        raise ValueError("the sequence ended early, so what all groups explain is not known: fit all of them")
    values, none = np.cumsum(sequence.gains), np.zeros(len(groups), dtype=bool)
    achieved = np.concatenate([[0.0], values])[affordable(sequence.cumulative_costs, grid)]
    return Certificate(
        groups, sequence.order, values, model.alpha, model.family.loss, grid, achieved,
        np.full(grid.size, values[-1]), float(values[-1]), float(sequence.null_value), 0.0, none, none,
        Proof.trivial(len(groups)),
    )  # fmt: skip


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
    feature_groups, costs, alpha
        As in :class:`budgetline.AnytimeRegressor`.
    budget : float or sequence of floats
        For a sequence the result is a tuple, one BestSet per budget.
    include, exclude : names of groups
        Groups that must be in the set (with those that they require), or must not be (nor those that require them).
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
        search.run(deadline, SAME_VALUE * search.everything, clock.tick)
        chosen = search.sets[0]
        certificate = search.certificate(problem.greedy(_OnlyAllowed(np.zeros_like(chosen), ~chosen)))
        value, bound = float(search.values[0]), float(certificate.bounds[0])
        optimal = bound <= value + (SAME_VALUE + 2 * (problem.rounding or 0.0)) * search.everything
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
                if (found := self.problem.value(tried)) > value * (1 + SAME_VALUE):
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
