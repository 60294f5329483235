"""The search for the best sets of groups: a local search, and branch and bound at many budgets at once.

Branch and bound splits the sets of groups at each budget into *leaves*: some groups are in, some are out, the rest is
free. The bound of a leaf comes from one dual; the bound at the budget is that of its worst leaf, and no more than at
larger budgets. The budget with the largest gap between its bound and the best set known is worked on: first its
relaxation is solved, then its worst leaf is split by a group that the relaxation buys in part. Whenever the time is
over, every bound is valid.

For a plan, a good set is found
first. Greedy forward regression fills the budget, once by gain per cost and once by gain.
Each of the two sets is improved: one group is exchanged for another, and the budget filled up again, as long as that
raises the value. With penalties a group may also be added or removed.
"""

from __future__ import annotations

import heapq
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import chain, count

import numpy as np
from numpy.typing import ArrayLike

from budgetline.arrays import Array, Float, Mask
from budgetline.bounds.certificate import Certificate, no_proof
from budgetline.bounds.problem import Allowed, Conditions, Quadratic
from budgetline.bounds.relaxation import Dual, Knapsack, Relaxation, Separation, separate
from budgetline.budgets import SLACK, affordable
from budgetline.progress import Progress, TimeLimit
from budgetline.threads import one_blas_thread

ROOT_ROUNDS, LEAF_ROUNDS = 40, 15
QUICK = 500
"""Up to this many columns a dual takes almost no time."""
MOST_PREFIXES = 64
"""The models of this many prefixes are tried as duals."""
SEPARATING, EXCHANGING = 0.5, 0.5
"""The share of the time for the search for Δ, and then for a good set; the rest is for its proof."""
SAME_VALUE = 1e-9
"""Values that differ by less than this share of what all groups explain are equal."""


@dataclass(frozen=True, eq=False)
class Leaf:
    """Sets that meet some conditions, the dual that bounds them at one budget, and the weights of the relaxation."""

    conditions: Conditions
    dual: Dual
    bound: float
    z: Float


class Search:
    """Bounds at increasing budgets (B,) on the value of sets that meet the conditions.

    ``most`` is F of all groups that are not excluded, or R(∅) if C is too nearly singular to compute it. No bound is
    above ``everything``, which is ``most`` less the penalties of the included groups; without blocks it is the only
    bound. ``sets`` are the best masks known at every budget, ``values`` their values: F less the penalties.
    """

    def __init__(self, problem: Quadratic, budgets: Float, conditions: Conditions, separation: Separation) -> None:
        self._problem, self._grid, self._conditions, self._separation = problem, budgets, conditions, separation
        included = conditions.included
        self.most = problem.gram.null_value if problem.rounding is None else problem.explained(~conditions.excluded)
        self.everything = self.most - problem.penalty(included)
        self.sets = [included] * budgets.size
        self.values = np.full(budgets.size, -np.inf)
        self.know(included)
        self._knapsack = Knapsack(conditions)
        self._turn, self._solved = count(), np.zeros(budgets.size, dtype=bool)
        # the leaves of every budget, as a heap with the worst first
        self._leaves: list[list[tuple[float, int, Leaf]]] = []
        if separation.blocks:
            self._relaxation = Relaxation(problem, separation.blocks)
            first = self._relaxation.from_solution(problem.solution(included))
            z = np.zeros(problem.sizes.size)
            for k, bound in enumerate(first.bounds(self._knapsack, budgets).tolist()):
                self._leaves.append([])
                self._push(k, Leaf(conditions, first, bound, z))

    def bounds(self) -> Float:
        """Return the bound at every budget: at most that of any larger budget, and of all groups."""
        if not self._leaves:
            return np.full(self._grid.size, self.everything)
        own = np.array([self._worst(k).bound for k in range(self._grid.size)])
        return np.minimum(np.minimum.accumulate(own[::-1])[::-1], self.everything)

    def follow(self, order: list[int], deadline: float) -> None:
        """Use an order: the sets of its prefixes and, while there is time, the duals of their models."""
        prefix = np.zeros(self._problem.sizes.size, dtype=bool)
        for g, value in zip(order, self._problem.prefix_values(order).tolist(), strict=True):
            prefix = prefix | (np.arange(prefix.size) == g)
            self.know(prefix, value)
        if self._leaves and order:
            # if there are many, some are enough: neighbours give nearly the same bounds
            stages = np.unique(np.linspace(1, len(order), min(len(order), MOST_PREFIXES)).round().astype(int)).tolist()
            for w in self._problem.prefix_solutions(order, stages):
                self._offer(self._relaxation.from_solution(w))
                if time.monotonic() > deadline and len(w) > QUICK:
                    break

    def know(self, chosen: Mask, value: float | None = None) -> None:
        """Remember a set at every budget that can pay for it and has no better one."""
        cost = self._problem.prices.cost(chosen)
        found = self._problem.value(chosen) if value is None else value
        for k in np.flatnonzero((cost <= self._grid * (1 + SLACK)) & (found > self.values)):
            self.sets[k], self.values[k] = chosen, found

    def run(self, deadline: float, gap: float, tick: Callable[[], object] = lambda: None) -> None:
        """Work on the budget with the largest gap until all are below ``gap``, or until ``deadline``."""
        closed = np.zeros(self._grid.size, dtype=bool)  # budgets whose remaining gap is rounding
        while self._leaves and time.monotonic() < deadline:
            tick()
            gaps = np.where(closed, -np.inf, self.bounds() - self.values)
            k = int(np.argmax(gaps))
            if gaps[k] <= gap:
                return
            if not self._solved[k]:
                self._solve_root(k, gap)
            elif not self._split(k, gap):
                closed[k] = True

    def certificate(self, order: list[int]) -> Certificate:
        """Return what is known now about an order."""
        problem, grid, about = self._problem, self._grid, self._conditions
        values, spent = problem.prefix_values(order), np.cumsum(problem.prices.steps(order))
        achieved = np.concatenate([[0.0], values])[affordable(spent, grid)]
        return Certificate(
            problem.groups, np.array(order, dtype=np.intp), values, problem.alpha, grid, achieved,
            self._raised(self.bounds()), float(self._raised(self.everything)), problem.gram.null_value,
            self._separation.gamma, about.included, about.excluded, **self._proof(), weights=problem.weights,
            penalties=problem.penalties,
        )  # fmt: skip

    def _proof(self) -> dict[str, Array]:
        """Return Δ, the leaves of all budgets, and the duals that they use."""
        if not self._leaves:
            return no_proof(self._problem.sizes.size)
        leaves = [(k, leaf) for k, heap in enumerate(self._leaves) for _, _, leaf in heap]
        used = {id(leaf.dual): leaf.dual for _, leaf in leaves}
        number = {key: k for k, key in enumerate(used)}
        return {
            "blocks": np.concatenate([block.ravel() for block in self._separation.blocks]),
            "duals": np.array([self._relaxation.outside(dual) for dual in used.values()]),
            "leaf_budget": np.array([k for k, _ in leaves], dtype=np.intp),
            "leaf_dual": np.array([number[id(leaf.dual)] for _, leaf in leaves], dtype=np.intp),
            "leaf_included": np.array([leaf.conditions.included for _, leaf in leaves], dtype=bool),
            "leaf_excluded": np.array([leaf.conditions.excluded for _, leaf in leaves], dtype=bool),
        }

    def _raised(self, bounds: ArrayLike) -> Float:
        """Return bounds that hold in spite of rounding, which may change F of any set by a share."""
        found = np.asarray(bounds, dtype=np.float64)
        F = np.minimum(found + self._problem.penalty(~self._conditions.excluded), self.most)
        return found + (self._problem.rounding or 0.0) * F

    def _push(self, k: int, leaf: Leaf) -> None:
        heapq.heappush(self._leaves[k], (-leaf.bound, next(self._turn), leaf))

    def _worst(self, k: int) -> Leaf:
        """Return the leaf with the largest bound, which is the bound at budget k."""
        return self._leaves[k][0][2]

    def _offer(self, dual: Dual) -> None:
        """Use a dual at the budgets that are not split yet, where it is better than theirs."""
        for k, bound in enumerate(dual.bounds(self._knapsack, self._grid).tolist()):
            if len(self._leaves[k]) == 1 and bound < (old := self._worst(k)).bound:
                self._leaves[k] = []
                self._push(k, replace(old, dual=dual, bound=bound))

    def _solve_root(self, k: int, gap: float) -> None:
        """Solve the relaxation of a budget, starting from the nearest one that is solved, and offer its dual to all."""
        amount = float(self._grid[k])
        solved = [j for j in np.flatnonzero(self._solved).tolist() if len(self._leaves[j]) == 1]
        nearest = min(solved, key=lambda j: abs(self._grid[j] - amount), default=None)
        start = None if nearest is None else self._worst(nearest).z
        self._solved[k] = True
        dual, z = self._relaxation.solve(self._knapsack, amount, start, rounds=ROOT_ROUNDS, enough=-np.inf, gap=gap / 4)
        self._offer(dual)
        bound, turn, leaf = self._leaves[k][0]
        self._leaves[k][0] = (bound, turn, replace(leaf, z=z))
        self._round(dual, z, amount, self._conditions)

    def _split(self, k: int, gap: float) -> bool:
        """Split the worst leaf of a budget; return whether that was possible."""
        leaf, amount, grid = self._worst(k), float(self._grid[k]), self._grid[k : k + 1]
        # by the affordable free group that matters most and is bought in part, else any
        free = np.flatnonzero(Knapsack(leaf.conditions).fitting(amount))
        if not free.size:
            return False
        undecided = leaf.dual.v[free] * np.minimum(leaf.z[free], 1 - leaf.z[free])
        g = int(free[np.argmax(undecided if undecided.max() > 0 else leaf.dual.v[free])])
        heapq.heappop(self._leaves[k])
        for part in (leaf.conditions.including(g), leaf.conditions.excluding(g)):
            knapsack = Knapsack(part)
            if (part.included & part.excluded).any() or knapsack.spent > amount * (1 + SLACK):
                continue
            enough = float(self.values[k]) + gap / 2
            dual, z = self._relaxation.solve(knapsack, amount, leaf.z, rounds=LEAF_ROUNDS, enough=enough, gap=gap / 4)
            bound, inherited = (float(d.bounds(knapsack, grid)[0]) for d in (dual, leaf.dual))
            if inherited < bound:
                dual, bound = leaf.dual, inherited
            self._push(k, Leaf(part, dual, bound, z))
            if bound > self.values[k]:
                self._round(dual, z, amount, part)
        return True

    def _round(self, dual: Dual, z: Float, amount: float, conditions: Conditions) -> None:
        """Buy groups that are worth their penalty, in the order of their weights, while they fit; remember the set."""
        order = [g for g in np.argsort(-z, kind="stable").tolist() if dual.worth[g] >= 0]
        self.know(conditions.filled(amount, order))


@dataclass(frozen=True, eq=False)
class BestSet:
    """A set of groups (J,) for one budget, its value, and whether its certificate proves that no set is better."""

    chosen: Mask
    value: float
    optimal: bool
    certificate: Certificate


def best_sets(
    problem: Quadratic, conditions: Conditions, budgets: Iterable[float], time_limit: float, progress: Progress
) -> tuple[BestSet, ...]:
    """Return the best set for every budget; they share Δ and the time.

    No set is worse than that of a smaller budget.
    """
    searches = [SetSearch(problem, conditions, budget) for budget in budgets]
    rising = sorted(range(len(searches)), key=lambda k: searches[k].budget)
    found, smaller = dict[int, BestSet](), conditions.included
    with one_blas_thread(), TimeLimit(time_limit, progress) as clock:
        separation = separate(problem, clock.start + SEPARATING * clock.limit)
        for done, k in enumerate(rising):
            now = time.monotonic()
            deadline = now + (clock.end - now) / (len(searches) - done)
            found[k] = searches[k].solve(separation, deadline, clock, smaller)
            smaller = found[k].chosen
    return tuple(found[k] for k in range(len(searches)))


@dataclass(frozen=True, eq=False)
class SetSearch:
    """The search for the best of the sets that meet the conditions, for one budget."""

    problem: Quadratic
    conditions: Conditions
    budget: float

    def __post_init__(self) -> None:
        if (cost := self.problem.prices.cost(self.conditions.included)) > self.budget * (1 + SLACK):
            raise ValueError(f"the groups that must be in cost {cost:.6g}, more than the budget of {self.budget:.6g}")

    def good(self, deadline: float) -> list[Mask]:
        """Return two good sets: what greedy buys by gain per cost, and by gain, improved by exchanges."""
        now = time.monotonic()
        ends = now + (deadline - now) / 2, deadline
        return [self._exchanged(self._start(by_cost), end) for by_cost, end in zip((True, False), ends, strict=True)]

    def solve(self, separation: Separation, deadline: float, clock: TimeLimit, smaller: Mask) -> BestSet:
        """Start from good sets and that of a smaller budget, and prove the best optimal or find a better one."""
        problem, now = self.problem, time.monotonic()
        search = Search(problem, np.array([self.budget]), self.conditions, separation)
        for chosen in (*self.good(now + EXCHANGING * (deadline - now)), smaller):
            search.know(chosen)
        search.run(deadline, SAME_VALUE * search.most, clock.tick)
        chosen, value = search.sets[0], float(search.values[0])
        subsets = Conditions(problem.prices, np.zeros_like(chosen), ~chosen)
        certificate = search.certificate(problem.greedy(Allowed(subsets)))
        near = (SAME_VALUE + 2 * (problem.rounding or 0.0)) * search.most
        return BestSet(chosen, value, float(certificate.bounds[0]) <= value + near, certificate)

    def _start(self, cost_sensitive: bool) -> Mask:
        """Return the groups that greedy buys; if there are penalties, the best of its prefixes."""
        included = self.conditions.included
        order = self.problem.greedy(Allowed(self.conditions, self.budget), cost_sensitive=cost_sensitive)
        if self.problem.penalties is not None:
            least = int(included.sum())  # they come first
            values = np.append(0.0, self.problem.prefix_values(order))
            order = order[: least + int(np.argmax(values[least:]))]
        return included | self.problem.prices.closure(order)

    def _exchanged(self, chosen: Mask, deadline: float) -> Mask:
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
        outs = np.flatnonzero(chosen & ~about.included).tolist()
        news = np.flatnonzero(~chosen & ~about.excluded).tolist()
        moves: Iterable[tuple[list[int], list[int]]] = (([out], [new]) for out in outs for new in news)
        if self.problem.penalties is not None:
            moves = chain((([], [new]) for new in news), (([out], []) for out in outs), moves)
        for out, new in moves:
            tried = chosen.copy()
            for g in out:
                tried[[g, *prices.dependents.get(g, ())]] = False
            tried |= prices.closure(new)
            met = not tried[out].any() and not (tried & about.excluded).any() and tried[about.included].all()
            if not met or prices.cost(tried) > self.budget * (1 + SLACK):
                continue
            if self.problem.penalties is None:
                cheapest = np.argsort(prices.marginal(tried), kind="stable").tolist()
                tried = about.filled(self.budget, cheapest, tried)
            yield tried
