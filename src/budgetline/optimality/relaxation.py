"""Upper bounds on what any set of groups within a budget explains.

For any u (D, P), and any Δ = blockdiag(Δ_g) ≻ 0 with M = C − Δ ⪰ 0,

    max_{c(S) ≤ K} F(S)  ≤  ½ tr u'Mu + max_{c(S) ≤ K} Σ_{g ∈ S} v_g,    v_g = ½ tr q_g' Δ_g⁻¹ q_g,   q = b − Mu,

because −½ w'Mw ≤ ½ u'Mu − u'Mw. If penalties p_g are subtracted from F, v_g − p_g takes the place of v_g. The best u
solves a concave problem, the perspective relaxation: with weights z ∈ [0, 1]^J that a budget can buy, φ(z) = ½ tr b'w,
w = (M + Δ/z)⁻¹ b, has the gradient v at u = w. φ(z) − p'z is climbed by z_g ← z_g (v_g / (p_g + μ c_g))^0.85, with μ
such that the budget is spent, or 0 where it is not. Every u on the way gives a valid bound.

Coordinates are those in which Δ = I.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.linalg import block_diag, cho_factor, cho_solve, solve_triangular

from budgetline.arrays import Array, Float, Mask
from budgetline.budgets import Rates, unit_of
from budgetline.leastsquares.gram import EPS
from budgetline.optimality.knapsack import Knapsack
from budgetline.optimality.quadratic import Quadratic

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
SECTIONS, SECTIONS_OF = 3, 64
"""A price is found by cutting an interval this often into this many parts."""


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
    """Return z (v/(p + μc))^0.85, at most 1, with μ ≥ 0 such that no more than the budget is spent.

    Hubs are split among their members.
    """
    cost = knapsack.rest.copy()
    weight = np.where(may, z * v, 0.0)
    for k, hub in enumerate(knapsack.hub_costs):
        members = may & (knapsack.hub == k)
        if total := weight[members].sum():
            cost[members] += hub * (weight[members] / total)
    result, priced = z.copy(), may & (cost > 0)
    free = np.full_like(z, np.inf)  # the weights at μ = 0
    if penalties is not None:
        lossy = penalties > 0
        with np.errstate(over="ignore"):
            free[lossy] = z[lossy] * (v[lossy] / penalties[lossy]) ** POWER
    result[may] = np.minimum(1.0, free[may])
    if not priced.any() or cost[priced] @ result[priced] <= left:
        return result
    # Σ c min(1, t·base) = left: sorted by when they reach 1, the first k groups are at 1
    unit = unit_of(float(cost[priced].max()))
    c, left = cost[priced] / unit, left / unit
    base = np.maximum(z[priced] * Rates.of(v[priced], cost[priced]).relative() ** POWER, 1e-300)
    order = np.argsort(-base)
    at_one = np.concatenate([[0.0], np.cumsum(c[order])])
    others = np.concatenate([np.cumsum((base * c)[order][::-1])[::-1], [0.0]])
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        t = (left - at_one[:-1]) / others[:-1]
    k = int(np.argmax(t * base[order] <= 1 + 1e-9))
    spent = np.maximum(t[k], 0.0) * base
    result[priced] = np.minimum(1.0, spent if penalties is None else _between(free[priced], spent, c, left))
    return result


def _between(free: Float, spent: Float, costs: Float, left: float) -> Float:
    """Return weights z (v/(p + μc))^q that spend what is left, from those at μ = 0 and those that spend it if p = 0.

    With 1/q-th powers these are 1/(1/free + s/spent), 0 < s ≤ 1.
    """
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        a, b = free ** (-1 / POWER), spent ** (-1 / POWER)
        low, high = 0.0, 1.0
        for _ in range(SECTIONS):
            s = np.linspace(low, high, SECTIONS_OF + 1)[1:]
            enough = np.minimum(1.0, (a + s[:-1, None] * b) ** -POWER) @ costs <= left
            k = int(np.argmax(np.append(enough, True)))
            low, high = float(s[k - 1]) if k else low, float(s[k])
        return np.asarray((a + high * b) ** -POWER)
