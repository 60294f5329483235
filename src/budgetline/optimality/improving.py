"""improve: a better sequence than greedy, with the seconds that are to spare."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular

from budgetline.budgets import Demand, Interpolation, rate
from budgetline.objectives.blocks import whiten
from budgetline.objectives.least_squares import Gram
from budgetline.optimality.all_subsets import MOST_GROUPS, subset_values
from budgetline.optimality.exact_order import best_order
from budgetline.optimality.quadratic import Quadratic
from budgetline.optimality.statement import (
    check_time_limit,
    fitted_model,
    order_of,
    problem_of_model,
    problem_of_moments,
)
from budgetline.progress import Progress, TimeLimit
from budgetline.sequencing.candidates import TIE
from budgetline.sequencing.sequence import GroupSequence
from budgetline.statistics.moments import Moments
from budgetline.threads import one_blas_thread

Float = NDArray[np.float64]

LONGEST_SEGMENT = 3
"""Up to so many neighbours are moved together."""
SHAKEN = (2, 7)
"""When nothing helps any more, 2 to 6 groups are moved at random, and the search starts again."""
PATIENCE = 40
"""After so many shakes in a row without a better sequence the search ends."""
EXACT_WIDTH = 400
"""Up to so many columns, and 18 groups, all sets are valued."""


def improve(
    sequence: Any,
    moments: Moments | None = None,
    feature_groups: Any = None,
    costs: Any = None,
    *,
    alpha: float | None = None,
    stop: float | None = None,
    budgets: Any = None,
    weights: Any = None,
    interpolation: Interpolation = "step",
    exact: bool = True,
    time_limit: float = 5.0,
    progress: Progress = None,
    random_state: int = 0,
) -> GroupSequence:
    """Return a sequence that explains more, on the mean over budgets, than the one given; never less.

    What is maximised is the mean of F on the training data over the budgets that you expect. Up to 18 groups the best
    of all sequences is found by dynamic programming. Beyond, groups and runs of neighbours are moved and groups
    exchanged until nothing helps; then a few are moved at random and it starts again, until 40 tries found nothing.

    Parameters
    ----------
    sequence : fitted model of squared error, GroupSequence, or group names in order
    moments, feature_groups, costs, alpha
        Where a sequence or names are given: as in :func:`certify`.
    stop : float, optional
        The largest budget that counts; default: the cost of all groups. Up to it budgets are spread evenly.
    budgets, weights : arrays of shape (K,), optional
        Instead of ``stop``: a sample of the budgets that there will be, and how much each counts.
    interpolation : {"step", "linear"}
        As in :func:`timeliness`; "linear" goes with ``stop``.
    exact : bool
        Whether to use dynamic programming where it can be.
    time_limit : float
        Seconds, for the search by moves.
    progress : bool or None
    random_state : int

    Returns
    -------
    GroupSequence
        Fit its models with ``AnytimeRegressor(groups, schedule=FixedOrder(better.groups))``.

    Examples
    --------
    >>> from budgetline import Moments, improve
    >>> from budgetline.datasets import load_heart
    >>> heart = load_heart()
    >>> improve(heart.feature_groups.names, Moments.of(heart.data, heart.target), heart.feature_groups).groups[:5]
    ('cp', 'sex', 'age', 'trestbps', 'exercise')
    """
    limit = check_time_limit(time_limit)
    problem, order = _stated(sequence, moments, feature_groups, costs, alpha)
    demand = Demand.of(problem.prices.total, stop, budgets, weights, interpolation)
    with one_blas_thread(), TimeLimit(limit, progress) as clock:
        search = Moves(problem, demand, order, clock, np.random.default_rng(random_state))
        search.enumerate() if exact and search.can_enumerate else search.run()
    return search.sequence()


def _stated(
    sequence: Any, moments: Moments | None, feature_groups: Any, costs: Any, alpha: float | None
) -> tuple[Quadratic, list[int]]:
    """Return the problem and the order to start from."""
    if moments is not None:
        problem = problem_of_moments(moments, feature_groups, costs, alpha)
        return problem, order_of(sequence, problem, moments)
    model = fitted_model(sequence, feature_groups=feature_groups, costs=costs, alpha=alpha)
    if not model.squared_error:
        raise ValueError("improve works with squared error: for other losses F of another order takes a refit")
    return problem_of_model(model), model.sequence.order.tolist()


class Moves:
    """A local search over orders; ``order`` is the best one so far."""

    def __init__(
        self, problem: Quadratic, demand: Demand, order: list[int], clock: TimeLimit, rng: np.random.Generator
    ) -> None:
        self._problem, self._demand, self._clock, self._rng = problem, demand, clock, rng
        self.order, self.merit = order, self._merit(order)

    def consider(self, order: list[int]) -> bool:
        """Keep an order if it is better."""
        merit = self._merit(order)
        if merit <= self.merit + TIE * abs(self.merit):
            return False
        self.order, self.merit = order, merit
        return True

    @property
    def can_enumerate(self) -> bool:
        """Whether all sets can be valued: there are few groups, and all of them are in the order."""
        J, D = self._problem.sizes.size, self._problem.sizes.sum()
        return len(self.order) == J <= MOST_GROUPS and D <= EXACT_WIDTH

    def enumerate(self) -> None:
        """Find the best of all orders."""
        problem, demand = self._problem, self._demand
        values = subset_values(Gram(problem.C, problem.b, np.full(1, 2 * problem.null_value)), problem.sizes)
        self.consider(best_order(values, problem.prices, demand).tolist())

    def sequence(self) -> GroupSequence:
        """Return the best order as a sequence."""
        problem, order = self._problem, np.array(self.order, dtype=np.intp)
        gains = np.maximum(np.diff(problem.prefix_values(self.order), prepend=0.0), 0.0)
        names = tuple(problem.groups.names[g] for g in self.order)
        return GroupSequence(order, names, problem.prices.steps(order), gains, problem.null_value)

    def run(self) -> None:
        """Search until the time is over, or shaking no longer helps."""
        starts = [self._climb(order) for order in (self.order, *self._backward())]
        best, merit = max(starts, key=lambda found: found[1])
        failures = 0
        while failures < PATIENCE and not self._clock.over:
            found, value = self._climb(self._shaken(best))
            failures = 0 if value > merit * (1 + TIE) else failures + 1
            if value > merit:
                best, merit = found, value
        self.consider(best)

    def _backward(self) -> Iterator[list[int]]:
        """Yield the order in which groups are left when those that are missed least per cost go first.

        It keeps groups that are of use only together, which is where a search from a greedy order gets stuck.
        """
        problem, prices = self._problem, self._problem.prices
        left, order = list(self.order), []
        try:
            while left:
                columns = problem.columns(left)
                inverse = np.linalg.inv(problem.C[np.ix_(columns, columns)])
                w = inverse @ problem.b[columns]
                ends = np.cumsum(problem.sizes[left])
                rates = {}
                for k, (g, end) in enumerate(zip(left, ends.tolist(), strict=True)):
                    if prices.requires and any(g in prices.requires[h] for h in left):
                        continue
                    own = slice(end - problem.sizes[g], end)
                    missed = float(np.sum(w[own] * np.linalg.solve(inverse[own, own], w[own]))) / 2
                    saved = prices.cost(prices.closure(left)) - prices.cost(prices.closure(h for h in left if h != g))
                    rates[k] = rate(missed, saved)
                order.append(left.pop(min(rates, key=rates.__getitem__)))
                if self._clock.over:
                    return
        except np.linalg.LinAlgError:
            return
        yield order[::-1]

    def _merit(self, order: list[int]) -> float:
        values = np.concatenate([[0.0], self._problem.prefix_values(order)])
        spent = np.concatenate([[0.0], np.cumsum(self._problem.prices.steps(order))])
        return self._demand.mean(spent, values)

    def _climb(self, order: list[int]) -> tuple[list[int], float]:
        """Move groups while that helps, then runs of groups and pairs."""
        merit = self._merit(order)
        while not self._clock.over:
            self._clock.tick()
            found, value = self._insertions(order, merit)
            if value > merit * (1 + TIE):
                order, merit = found, value
                continue
            for tried in self._neighbours(order):
                value = self._merit(tried)
                if value > merit * (1 + TIE):
                    order, merit = tried, value
                    break
                if self._clock.over:
                    return order, merit
            else:
                return order, merit
        return order, merit

    def _insertions(self, order: list[int], merit: float) -> tuple[list[int], float]:
        """Move every group once to where it does most good."""
        for g in list(order):
            if self._clock.over:
                break
            others = [h for h in order if h != g]
            merits = self._places(others, g)
            k = int(np.argmax(merits))
            if merits[k] > merit * (1 + TIE):
                order, merit = [*others[:k], g, *others[k:]], float(merits[k])
        return order, merit

    def _places(self, others: list[int], g: int) -> Float:
        """Return the merit of group g at every place among the others, −inf where a requirement is broken."""
        before, gains = self._gains_along(others, g)
        spent, price = self._costs_along(others, g)
        values = np.concatenate([[0.0], before])
        without = self._demand.weights(spent[:-1], spent[1:]) * np.diff(values)
        after = self._demand.weights((spent + price)[:-1], (spent + price)[1:]) * np.diff(values + gains)
        own = self._demand.weights(spent, spent + price) * gains
        head = np.concatenate([[0.0], np.cumsum(without)])
        tail = np.concatenate([np.cumsum(after[::-1])[::-1], [0.0]])
        merits = head + own + tail
        requires = self._problem.prices.requires
        if requires:
            first = max((others.index(h) + 1 for h in requires[g] if h in others), default=0)
            last = min((k for k, h in enumerate(others) if g in requires[h]), default=len(others))
            merits[:first], merits[last + 1 :] = -np.inf, -np.inf
        return np.asarray(merits)

    def _gains_along(self, others: list[int], g: int) -> tuple[Float, Float]:
        """Return F of the prefixes of ``others``, and what g adds to the empty set and to each of them."""
        problem = self._problem
        columns, own = problem.columns(others), problem.columns([g])
        try:
            L = np.linalg.cholesky(problem.C[np.ix_(columns, columns)])
        except np.linalg.LinAlgError:
            return self._slow_gains_along(others, g)
        sides = np.hstack([problem.b[columns], problem.C[np.ix_(columns, own)]])
        solved = solve_triangular(L, sides, lower=True, check_finite=False)
        P = problem.b.shape[1]
        z, V = solved[:, :P], solved[:, P:]
        starts = np.cumsum(problem.sizes[others]) - problem.sizes[others]
        values = np.cumsum(np.add.reduceat((z**2).sum(axis=1), starts)) / 2
        lost = np.add.reduceat(V[:, :, None] * solved[:, None, :], starts, axis=0).cumsum(axis=0)
        lost = np.concatenate([np.zeros((1, own.size, lost.shape[2])), lost])
        r = problem.b[own] - lost[:, :, :P]
        schur = problem.C[np.ix_(own, own)] - lost[:, :, P:]
        return values, (whiten(schur, r) ** 2).sum(axis=(1, 2)) / 2

    def _slow_gains_along(self, others: list[int], g: int) -> tuple[Float, Float]:
        """Return the same where columns are dependent, set by set."""
        values = self._problem.prefix_values(others)
        mask = np.zeros(self._problem.sizes.size, dtype=bool)
        mask[g] = True
        joint = [self._problem.value(mask)]
        for h in others:
            mask[h] = True
            joint.append(self._problem.value(mask))
        return values, np.array(joint) - np.concatenate([[0.0], values])

    def _costs_along(self, others: list[int], g: int) -> tuple[Float, Float]:
        """Return what the prefixes of ``others`` cost, and what g costs beside each of them."""
        prices = self._problem.prices
        spent = np.concatenate([[0.0], np.cumsum(prices.steps(others))])
        price = np.full(spent.size, prices.own[g])
        for item in prices.shared:
            if g in item.members:
                paid = np.concatenate([[False], np.isin(others, item.members)])
                price += np.where(np.logical_or.accumulate(paid), 0.0, item.cost)
        # what is shared with g is paid by g: those after it no longer pay
        return spent, price

    def _neighbours(self, order: list[int]) -> Iterator[list[int]]:
        """Yield the orders with a run of groups moved, or two groups exchanged."""
        n = len(order)
        for length in range(2, LONGEST_SEGMENT + 1):
            for a in range(n - length + 1):
                run, others = order[a : a + length], order[:a] + order[a + length :]
                for place in range(n - length + 1):
                    if place != a:
                        yield from self._kept([*others[:place], *run, *others[place:]])
        for a in range(n):
            for b in range(a + 2, n):
                tried = order.copy()
                tried[a], tried[b] = order[b], order[a]
                yield from self._kept(tried)

    def _kept(self, order: list[int]) -> Iterator[list[int]]:
        """Yield an order if no group comes before one that it requires."""
        requires = self._problem.prices.requires
        if requires:
            place = {g: k for k, g in enumerate(order)}
            if any(place[h] > place[g] for g in order for h in requires[g] if h in place):
                return
        yield order

    def _shaken(self, order: list[int]) -> list[int]:
        """Return an order in which a few groups, chosen at random, stand elsewhere."""
        for _ in range(100):
            tried = order.copy()
            count = min(int(self._rng.integers(*SHAKEN)), len(order))
            for g in self._rng.permutation(order)[:count].tolist():
                tried.remove(g)
                tried.insert(int(self._rng.integers(len(tried) + 1)), g)
            if kept := next(self._kept(tried), None):
                return kept
        return order
