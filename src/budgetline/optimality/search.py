"""Branch and bound at many budgets at once, within a time limit; whenever it stops, every bound is valid.

At each budget the sets of groups are split into *leaves*: some groups are in, some are out, the rest is free. The bound
of a leaf comes from one dual; the bound at the budget is that of its worst leaf, and no more than at larger budgets.
The budget with the largest gap between its bound and the best set known is worked on: first its relaxation is solved,
then its worst leaf is split by a group that the relaxation buys in part.
"""

from __future__ import annotations

import heapq
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from itertools import count

import numpy as np
from numpy.typing import ArrayLike

from budgetline.arrays import Float, Mask
from budgetline.budgets import SLACK, affordable
from budgetline.optimality.certificate import Certificate
from budgetline.optimality.conditions import Conditions
from budgetline.optimality.knapsack import Knapsack
from budgetline.optimality.proof import Proof
from budgetline.optimality.quadratic import Quadratic
from budgetline.optimality.relaxation import Dual, Relaxation, Separation

ROOT_ROUNDS, LEAF_ROUNDS = 40, 15
QUICK = 500
"""Up to this many columns a dual takes almost no time."""
MOST_PREFIXES = 64
"""The models of this many prefixes are tried as duals."""


@dataclass(frozen=True, eq=False)
class Leaf:
    """Sets that contain ``included`` and nothing of ``excluded``, and the dual that bounds them at one budget."""

    included: Mask
    excluded: Mask
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
        included, excluded = conditions.included, conditions.excluded
        self.most = problem.gram.null_value if problem.rounding is None else problem.explained(~excluded)
        self.everything = self.most - problem.penalty(included)
        self.sets = [included] * budgets.size
        self.values = np.full(budgets.size, -np.inf)
        self.know(included)
        self._knapsack = Knapsack(problem.prices, included, excluded)
        self._turn, self._solved = count(), np.zeros(budgets.size, dtype=bool)
        # the leaves of every budget, as a heap with the worst first
        self._leaves: list[list[tuple[float, int, Leaf]]] = []
        if separation.blocks:
            self._relaxation = Relaxation(problem, separation.blocks)
            first = self._relaxation.from_solution(problem.solution(included))
            z = np.zeros(problem.sizes.size)
            for k, bound in enumerate(first.bounds(self._knapsack, budgets).tolist()):
                self._leaves.append([])
                self._push(k, Leaf(included, excluded, first, bound, z))

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
        problem, grid = self._problem, self._grid
        values, spent = problem.prefix_values(order), np.cumsum(problem.prices.steps(order))
        achieved = np.concatenate([[0.0], values])[affordable(spent, grid)]
        null_value, about = problem.gram.null_value, self._conditions
        return Certificate(
            problem.groups, np.array(order, dtype=np.intp), values, problem.alpha, "squared_error", grid, achieved,
            self._raised(self.bounds()), float(self._raised(self.everything)), null_value, self._separation.gamma,
            about.included, about.excluded, self._proof(), weights=problem.weights, penalties=problem.penalties,
            rivals=about.rivals,
        )  # fmt: skip

    def _raised(self, bounds: ArrayLike) -> Float:
        """Return bounds that hold in spite of rounding, which may change F of any set by a share."""
        found = np.asarray(bounds, dtype=np.float64)
        F = np.minimum(found + self._problem.penalty(~self._conditions.excluded), self.most)
        return found + (self._problem.rounding or 0.0) * F

    def _proof(self) -> Proof:
        """Return Δ, the leaves of all budgets, and the duals that they use."""
        if not self._leaves:
            return Proof.trivial(self._problem.sizes.size)
        leaves = [(k, leaf) for k, heap in enumerate(self._leaves) for _, _, leaf in heap]
        used = {id(leaf.dual): leaf.dual for _, leaf in leaves}
        number = {key: k for k, key in enumerate(used)}
        return Proof(
            self._separation.blocks,
            np.array([self._relaxation.outside(dual) for dual in used.values()]),
            np.array([k for k, _ in leaves], dtype=np.intp),
            np.array([number[id(leaf.dual)] for _, leaf in leaves], dtype=np.intp),
            np.array([leaf.included for _, leaf in leaves], dtype=bool),
            np.array([leaf.excluded for _, leaf in leaves], dtype=bool),
        )

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
                self._push(k, Leaf(old.included, old.excluded, dual, bound, old.z))

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
        self._round(dual, z, amount, self._conditions.included, self._conditions.excluded)

    def _split(self, k: int, gap: float) -> bool:
        """Split the worst leaf of a budget; return whether that was possible."""
        leaf, amount, grid = self._worst(k), float(self._grid[k]), self._grid[k : k + 1]
        g = self._group_to_split(leaf, amount)
        if g is None:
            return False
        heapq.heappop(self._leaves[k])
        for part in (self._conditions.including, self._conditions.excluding):
            included, excluded = part(g, leaf.included, leaf.excluded)
            knapsack = Knapsack(self._problem.prices, included, excluded)
            if (included & excluded).any() or knapsack.spent > amount * (1 + SLACK):
                continue
            enough = float(self.values[k]) + gap / 2
            dual, z = self._relaxation.solve(knapsack, amount, leaf.z, rounds=LEAF_ROUNDS, enough=enough, gap=gap / 4)
            bound, inherited = (float(d.bounds(knapsack, grid)[0]) for d in (dual, leaf.dual))
            if inherited < bound:
                dual, bound = leaf.dual, inherited
            self._push(k, Leaf(included, excluded, dual, bound, z))
            if bound > self.values[k]:
                self._round(dual, z, amount, included, excluded)
        return True

    def _group_to_split(self, leaf: Leaf, amount: float) -> int | None:
        """Return the affordable free group that matters most and is undecided, else any; None if no group is free.

        A group is undecided if it is bought in part, or together with a rival.
        """
        free = np.flatnonzero(Knapsack(self._problem.prices, leaf.included, leaf.excluded).fitting(amount))
        if not free.size:
            return None
        rest = 1 - leaf.z[free]
        if self._conditions.rivals:
            others = self._conditions.conflicts[np.ix_(free, free)] & ~np.eye(free.size, dtype=bool)
            rest = np.maximum(rest, (others * leaf.z[free]).max(axis=1))
        undecided = leaf.dual.v[free] * np.minimum(leaf.z[free], rest)
        return int(free[np.argmax(undecided if undecided.max() > 0 else leaf.dual.v[free])])

    def _round(self, dual: Dual, z: Float, amount: float, included: Mask, excluded: Mask) -> None:
        """Buy groups that are worth their penalty, in the order of their weights, while they fit; remember the set."""
        order = [g for g in np.argsort(-z, kind="stable").tolist() if dual.worth[g] >= 0]
        self.know(filled(self._conditions, included, excluded, amount, order))


def filled(conditions: Conditions, chosen: Mask, excluded: Mask, budget: float, order: Iterable[int]) -> Mask:
    """Add groups to a set, in the order given, each with what it requires, as long as they fit the budget."""
    prices = conditions.prices
    for g in order:
        if not (chosen[g] or excluded[g]):
            tried = chosen | prices.closure([g])
            fits = not (tried & excluded).any() and prices.cost(tried) <= budget * (1 + SLACK)
            if fits and conditions.agree(tried):
                chosen = tried
    return chosen
