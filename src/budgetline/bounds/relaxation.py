"""Upper bounds on what any set of groups within a budget explains.

For any u (D, P), and any Δ = blockdiag(Δ_g) ≻ 0 with M = C − Δ ⪰ 0,

    max_{c(S) ≤ K} F(S)  ≤  ½ tr u'Mu + max_{c(S) ≤ K} Σ_{g ∈ S} v_g,    v_g = ½ tr q_g' Δ_g⁻¹ q_g,   q = b − Mu,

because −½ w'Mw ≤ ½ u'Mu − u'Mw. If penalties p_g are subtracted from F, v_g − p_g takes the place of v_g. The best u
solves a concave problem, the perspective relaxation: with weights z ∈ [0, 1]^J that a budget can buy, φ(z) = ½ tr b'w,
w = (M + Δ/z)⁻¹ b, has the gradient v at u = w. φ(z) − p'z is climbed by z_g ← z_g (v_g / (p_g + μ c_g))^0.85, with μ
such that the budget is spent, or 0 where it is not. Every u on the way gives a valid bound.

Coordinates are those in which Δ = I. The second maximum is a knapsack, whose groups may be bought in part: an upper
bound, from one sort.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.linalg import block_diag, cho_factor, cho_solve, solve_triangular
from scipy.optimize import brentq

from budgetline.arrays import Array, Float, Mask, Positions
from budgetline.bounds.problem import Conditions, Quadratic
from budgetline.budgets import SLACK, rates_of
from budgetline.leastsquares.gram import EPS

BARRIERS = (1.0, 0.1, 0.01, 0.001)
MOST_ROUNDS = 60
STEPS = tuple(2.0**-k for k in range(11))
MARGINS = (1e-7, 1e-4, 0.1)
"""Δ is reduced by the first of these shares at which M ⪰ 0 survives rounding."""
WORST_BLOCK = 1e10
"""A Δ_g with a larger condition number counts as singular."""
SINGULAR = 1e-10
"""Below this smallest eigenvalue of the whitened C no useful Δ exists."""
LEAST_WEIGHT = 1e-3
"""Weights start at least at this: zero weights stay zero, and small ones grow slowly."""
POWER = 0.85
"""½ climbs at every step; powers up to 1 are faster and, as the best dual is kept, as safe."""
NEGLIGIBLE, PRECISION = 40.0, 1e-9
"""A price that is smaller than others by the first, as a logarithm, does not count; prices are found to the second."""


class Separation(NamedTuple):
    """Blocks Δ_g with C − blockdiag(Δ_g) ≻ 0, none if there is no useful Δ; and γ, as far as it is known."""

    blocks: tuple[Float, ...]
    gamma: float


def separate(problem: Quadratic, deadline: float) -> Separation:
    """Return blocks Δ_g as large as they get by ``deadline``, a time of ``time.monotonic``, and γ.

    Maximises Σ log det Δ_g + τ log det(C − Δ) for decreasing τ, in coordinates in which C_g = I. At the maximum
    Δ_g⁻¹ = τ [(C − Δ)⁻¹]_g; every step goes to the geometric mean of both sides, or part of the way. Without a positive
    smallest eigenvalue γ there is no Δ.
    """
    if problem.rounding is None:
        return Separation((), 0.0)
    parts, C = problem.parts, problem.gram.C.copy()
    roots = [np.linalg.cholesky(C[part, part]) for part in parts]
    for part, L in zip(parts, roots, strict=True):
        C[part] = _solved(L, C[part])
        C[:, part] = _solved(L, C[:, part].T).T
    C = (C + C.T) / 2
    gamma = float(np.linalg.eigvalsh(C)[0])
    if gamma < SINGULAR:
        return Separation((), max(gamma, 0.0))
    blocks = _climb(C, [np.eye(s) * gamma / 2 for s in problem.sizes], parts, deadline)
    outside = [L @ block @ L.T for L, block in zip(roots, blocks, strict=True)]
    if any(np.linalg.cond(block) > WORST_BLOCK for block in outside):
        return Separation((), gamma)
    for share in MARGINS:  # C − Δ ⪰ 0 by more than rounding of eigenvalues
        shrunk = tuple((1 - share) * (block / 2 + block.T / 2) for block in outside)
        if np.linalg.eigvalsh(problem.gram.C - block_diag(*shrunk))[0] >= 8 * len(C) * EPS * problem.spectrum[-1]:
            return Separation(shrunk, gamma)
    return Separation((), gamma)


def _climb(C: Float, blocks: list[Float], parts: list[slice], deadline: float) -> list[Float]:
    """Return the blocks that maximise the barrier objective, or those reached by ``deadline``."""
    for tau in BARRIERS:
        now, inverse = _barrier(C, blocks, tau)
        for _ in range(MOST_ROUNDS):
            if time.monotonic() > deadline:
                return blocks
            goals = [_mean_with_inverse(D, tau * inverse[p, p]) for D, p in zip(blocks, parts, strict=True)]
            for step in STEPS:
                tried = [D + step * (goal - D) for D, goal in zip(blocks, goals, strict=True)]
                value, found = _barrier(C, tried, tau)
                if value > now:
                    break
            if value <= now:
                break
            gain, blocks, now, inverse = value - now, tried, value, found
            if gain < 1e-3 * tau * len(blocks):
                break
    return blocks


def _barrier(C: Float, blocks: list[Float], tau: float) -> tuple[float, Float]:
    """Return Σ log det Δ_g + τ log det(C − Δ), −inf outside, and (C − Δ)⁻¹."""
    M = C - block_diag(*blocks)
    try:
        L = np.linalg.cholesky(M)
    except np.linalg.LinAlgError:
        return -np.inf, M
    inverse = cho_solve((L, True), np.eye(len(M)), check_finite=False)
    value = sum(float(np.linalg.slogdet(block)[1]) for block in blocks)
    return value + 2 * tau * float(np.log(np.diag(L)).sum()), inverse


def _mean_with_inverse(D: Float, X: Float) -> Float:
    """Return the geometric mean of D and X⁻¹."""
    L = np.linalg.cholesky(D)
    spectrum, V = np.linalg.eigh(L.T @ X @ L)
    LV = L @ V
    return np.asarray((LV / np.sqrt(spectrum)) @ LV.T)


class Knapsack:
    """The largest value of the sets that meet some conditions and that budgets can buy.

    Group g is worth v_g and may be bought in part. The cost of a set is at least the sum of its groups' *rests* and of
    the *hubs* that they need: a shared cost, or the own cost of a group that others require (of several, the most
    expensive; leaving the others out makes the set look cheaper, so that the value stays an upper bound). A hub opens
    with the members that together have the highest value per cost, as one item; the other members are items of their
    own. Items are then taken by value per cost: one sort.

    ``spent`` is the cost of the included groups; ``free`` (J,) marks those that are neither; ``single`` (J,) is
    c(g | included), what a group costs if nothing else is bought; ``hub`` (J,) is the hub of each group, −1 for none.
    """

    def __init__(self, conditions: Conditions) -> None:
        prices, included = conditions.prices, conditions.included
        self.included, self.free = included, ~(included | conditions.excluded)
        self.spent, self.single = prices.cost(included), prices.marginal(included)
        self.rest, self.hub = prices.own.copy(), np.full(prices.own.size, -1)
        found = [(s.cost, list(s.members)) for s in prices.shared if not included[list(s.members)].any()]
        for h, needing in prices.dependents.items():
            if self.free[h]:
                found.append((float(prices.own[h]), [h, *needing.tolist()]))
                self.rest[h] = 0.0
        found.sort(key=lambda hub: hub[0])  # the most expensive one counts
        for k, (_, members) in enumerate(found):
            self.hub[members] = k
        self.hub_costs = np.array([cost for cost, _ in found])

    def left(self, budgets: Float) -> Float:
        """Return the part of each budget that is left for the free groups."""
        return np.asarray(budgets * (1 + SLACK) - self.spent)

    def fitting(self, budget: float) -> Mask:
        """Return the free groups that a budget can pay for, each on its own, shape (J,)."""
        return np.asarray(self.free & (self.single <= self.left(np.array([budget]))[0]))

    def most(self, v: Float, budgets: Float) -> Float:
        """Return the largest value at every budget (B,), for v (J,); −inf if the included groups cost more.

        Free groups of negative value are not bought, also if others require them: that only raises the value.
        """
        left = self.left(budgets)
        result = np.full(budgets.shape, -np.inf)
        affordable = left >= -SLACK * budgets
        base, v = float(v[self.included].sum()), np.maximum(v, 0.0)
        groups = np.flatnonzero(self.free)
        groups = groups[np.argsort(self.single[groups], kind="stable")]
        # budgets that can pay for the same groups share one sort.
        within = np.searchsorted(self.single[groups], left, side="right")
        for count in np.unique(within[affordable]).tolist():
            here = affordable & (within == count)
            costs, values = self._items(v, groups[:count])
            order = np.argsort(-rates_of(values, costs), kind="stable")
            result[here] = base + _bought(costs[order], values[order], np.maximum(left[here], 0.0))
        return result

    def _items(self, v: Float, groups: Positions) -> tuple[Float, Float]:
        """Return costs and values of the items: groups without a hub, openings of hubs, and their other members."""
        if not self.hub_costs.size:
            return self.rest[groups], v[groups]
        hubs = self.hub[groups]
        costs, values = [self.rest[groups[hubs < 0]]], [v[groups[hubs < 0]]]
        for k in np.unique(hubs[hubs >= 0]).tolist():
            members = groups[hubs == k]
            members = members[np.argsort(-rates_of(v[members], self.rest[members]), kind="stable")]
            cost, value = self.hub_costs[k] + np.cumsum(self.rest[members]), np.cumsum(v[members])
            opening = int(np.argmax(rates_of(value, cost)))
            costs += [cost[opening : opening + 1], self.rest[members[opening + 1 :]]]
            values += [value[opening : opening + 1], v[members[opening + 1 :]]]
        return np.concatenate(costs), np.concatenate(values)


def _bought(costs: Float, values: Float, left: Float) -> Float:
    """Return the value of the items that each budget buys, one after another, the last of them in part."""
    paid = np.concatenate([[0.0], np.cumsum(costs)])
    gained = np.concatenate([[0.0], np.cumsum(values)])
    k = np.searchsorted(paid, left, side="right") - 1
    # a share is at most 1; a value per cost may overflow a float
    following, cost = np.append(values, 0.0)[k], np.append(costs, 0.0)[k]
    share = np.divide(left - paid[k], cost, out=np.zeros(k.shape), where=cost > 0)
    return np.asarray(gained[k] + np.minimum(share, 1.0) * following)


@dataclass(frozen=True, eq=False)
class Dual:
    """One u, and its bound for all budgets: ``constant`` + the knapsack of what groups are worth.

    w (D, P) is u where Δ = I; v (J,) is as above, and ``worth`` (J,) is v less the penalties.
    """

    w: Float
    constant: float
    v: Float
    worth: Float

    def bounds(self, knapsack: Knapsack, budgets: Float) -> Float:
        """Return the bound at every budget for the sets of a knapsack."""
        return self.constant + knapsack.most(self.worth, budgets)


class Relaxation:
    """The perspective relaxation for one Δ."""

    def __init__(self, problem: Quadratic, blocks: tuple[Float, ...]) -> None:
        self._parts, self._labels, self._penalties = problem.parts, problem.labels, problem.penalties
        self._starts = [part.start for part in self._parts]
        self._roots = [np.linalg.cholesky(block) for block in blocks]
        self.M = self._by_group(_solved, self._by_group(_solved, problem.gram.C - block_diag(*blocks)).T)
        self.b = self._by_group(_solved, problem.gram.b)

    def _by_group(self, of: Callable[[Array, Float], Float], A: Float) -> Float:
        """Return of(L_g, A_g) for every group, with Δ_g = L_g L_g'."""
        result = np.empty_like(A)
        for part, L in zip(self._parts, self._roots, strict=True):
            result[part] = of(L, A[part])
        return result

    def dual_at(self, w: Float) -> Dual:
        """Return the dual of u = w, in the coordinates in which Δ = I."""
        Mw = self.M @ w
        v = np.add.reduceat(((self.b - Mw) ** 2).sum(axis=1), self._starts) / 2
        return Dual(w, float(np.sum(w * Mw) / 2), v, v if self._penalties is None else v - self._penalties)

    def outside(self, dual: Dual) -> Float:
        """Return u in the coordinates of C and b."""
        return self._by_group(lambda L, w: solve_triangular(L, w, lower=True, trans=1, check_finite=False), dual.w)

    def from_solution(self, w: Float) -> Dual:
        """Return the dual of u = w(S), given in the coordinates of C and b."""
        return self.dual_at(self._by_group(lambda L, own: L.T @ own, w))

    def weighted(self, z: Float) -> tuple[Float, float]:
        """Return w = (M + I/z)⁻¹ b and φ(z); groups of weight 0 are out."""
        s = np.sqrt(z[self._labels])
        active = np.flatnonzero(s)
        w = np.zeros_like(self.b)
        root = s[active]
        A = self.M[np.ix_(active, active)] * root[:, None] * root
        A[np.diag_indices(active.size)] += 1.0
        if active.size:
            factor = cho_factor(A, lower=True, overwrite_a=True, check_finite=False)
            w[active] = root[:, None] * cho_solve(factor, root[:, None] * self.b[active], check_finite=False)
        return w, float(np.sum(self.b * w) / 2)

    def solve(
        self, knapsack: Knapsack, budget: float, start: Float | None, *, rounds: int, enough: float, gap: float
    ) -> tuple[Dual, Float]:
        """Return the best dual found for a budget, and its weights z (J,).

        Ends when the bound is at most ``enough``, within ``gap`` of the relaxation's value, or after ``rounds``.
        """
        grid = np.array([budget])
        left, may = float(knapsack.left(grid)[0]), knapsack.fitting(budget)
        z = np.where(may, 0.5 if start is None else np.clip(start, LEAST_WEIGHT, 1.0), 0.0)
        z[knapsack.included] = 1.0
        z, lost = _spend(z, z, knapsack, may, left), self._penalties
        tried = []
        for _ in range(rounds):
            w, value = self.weighted(z)
            dual = self.dual_at(w)
            value -= 0.0 if lost is None else float(lost @ z)
            bound = float(dual.bounds(knapsack, grid)[0])
            tried.append((bound, dual, z))
            if bound <= enough or bound - value <= gap:
                break
            z = _spend(z, dual.v, knapsack, may, left, lost)
        _, best, weights = min(tried, key=lambda each: each[0])
        return best, weights


def _solved(L: Array, a: Float) -> Float:
    """Return L⁻¹a."""
    return np.asarray(solve_triangular(L, a, lower=True, check_finite=False))


def _spend(z: Float, v: Float, knapsack: Knapsack, may: Mask, left: float, penalties: Float | None = None) -> Float:
    """Return z (v/(p + μc))^0.85, at most 1, with the least μ ≥ 0 that keeps within the budget.

    Hubs are split among their members.
    """
    cost = knapsack.rest.copy()
    weight = np.where(may, z * v, 0.0)
    for k, hub in enumerate(knapsack.hub_costs):
        members = may & (knapsack.hub == k)
        if total := weight[members].sum():
            cost[members] += hub * (weight[members] / total)
    result, priced = z.copy(), may & (cost > 0)
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        root = z ** (-1 / POWER)
        lost = np.zeros_like(z) if penalties is None else np.where(penalties > 0, penalties / v * root, 0.0)
        result[may] = np.minimum(1.0, lost[may] ** -POWER)
        # the weight is (lost + μ share)^−0.85; a float may not hold the share, but its logarithm
        share = np.log(root[priced]) - np.log(v[priced]) + np.log(cost[priced])
    if not priced.any() or cost[priced] @ result[priced] <= left:
        return result
    known = np.isfinite(share)
    result[priced], bought = 0.0, np.flatnonzero(priced)[known]
    if left <= 0 or not bought.size:
        return result
    a, b, c = lost[bought], share[known] - share[known].min(), cost[bought] / left

    def weights(log_price: float) -> Float:
        with np.errstate(over="ignore", divide="ignore"):
            return np.asarray(np.minimum(1.0, (a + np.exp(log_price + b)) ** -POWER))

    low, high = -b.max() - NEGLIGIBLE, max(0.0, np.log(c.sum()) / POWER) + PRECISION
    if c @ weights(low) > 1:
        low = brentq(lambda price: c @ weights(price) - 1, low, high, xtol=PRECISION)
    result[bought] = weights(low)
    return result
