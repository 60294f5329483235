"""The problem that certificates and plans solve: what sets of groups explain, what they cost, and which are allowed.

    maximise  F(S) = ½ tr(b_S' C_S⁻¹ b_S), less penalties of the groups of S,    subject to  cost(S) ≤ budget

C and b come from moments, or from what a fitted model keeps.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy.linalg import solve_triangular

from budgetline.arrays import Float, Mask, Positions
from budgetline.budgets import SLACK
from budgetline.fitting.linear import LARGEST_GRAM, warn_from_moments
from budgetline.groups import FeatureGroups
from budgetline.groups.parsing import places_of, positions_of
from budgetline.groups.prices import Prices
from budgetline.leastsquares.factors import BlockCholesky
from budgetline.leastsquares.gram import EPS, Gram
from budgetline.leastsquares.least_squares import LeastSquares
from budgetline.messages import shown
from budgetline.sequencing.loop import Limits, greedy_order
from budgetline.sequencing.schedules import Schedule
from budgetline.threads import one_blas_thread

GroupNames = Iterable[str]
RANK = 1e-13
"""Eigenvalues of C_S below this are rounding noise: columns are standardised."""
ROUNDINGS = 16
"""C is off by at most this many roundings of its entries, times its width."""
LEAST_ROUNDING, MOST_ROUNDING = 1e-9, 1e-2
"""Bounds are raised by at least the first share; if more than the second were needed, C is too inaccurate."""


@dataclass(frozen=True, eq=False)
class Quadratic:
    """F of every set of groups, and what it costs: C and b, group after group, and the columns of each group (J,).

    ``weights`` (D,) are penalty weights of columns, group after group; None: all 1. ``penalties`` (J,) ≥ 0 are
    subtracted from F: the *value* of a set is F(S) − Σ_{g ∈ S} penalties_g; None: nothing is.
    """

    gram: Gram
    sizes: Positions
    groups: FeatureGroups
    alpha: float
    weights: Float | None = None
    penalties: Float | None = None

    def warned(self) -> Quadratic:
        """Return the problem; warn if the moments that it comes from do not determine the coefficients."""
        least, largest = self.spectrum[[0, -1]]
        eps = self.gram.eps
        warn_from_moments(float(eps * largest / least) if least > 0 else 1.0, eps, self.alpha)
        return self

    @property
    def prices(self) -> Prices:
        """What sets of groups cost."""
        return self.groups.prices

    @property
    def parts(self) -> list[slice]:
        """The columns of every group."""
        return [slice(int(end - size), int(end)) for end, size in zip(np.cumsum(self.sizes), self.sizes, strict=True)]

    @property
    def labels(self) -> Positions:
        """The group of every column."""
        return np.repeat(np.arange(self.sizes.size), self.sizes)

    @cached_property
    def spectrum(self) -> Float:
        """Eigenvalues of C, increasing."""
        if (number := len(self.gram.C)) > LARGEST_GRAM:
            raise ValueError(f"{number} columns are too many for a certificate or a plan; the limit is {LARGEST_GRAM}")
        return np.asarray(np.linalg.eigvalsh(self.gram.C), dtype=np.float64)

    @cached_property
    def rounding(self) -> float | None:
        """The share by which rounding may change F of any set; None if that is more than a percent.

        An error of E in C changes F by ½ tr w'Ew ≤ ‖E‖ F/λ_min(C).
        """
        least = float(self.spectrum[0])
        noise = ROUNDINGS * max(self.gram.eps, EPS) * len(self.gram.C)
        return max(LEAST_ROUNDING, noise / least) if least * MOST_ROUNDING > noise else None

    def solution(self, mask: Mask) -> Float:
        """Return w(S) = C_S⁻¹b_S, or C_S⁺b_S where C_S is singular, shape (D, P): zero outside the mask (J,)."""
        w = np.zeros_like(self.gram.b)
        if (columns := np.flatnonzero(mask[self.labels])).size:
            w[columns] = _solve(self.gram.C[np.ix_(columns, columns)], self.gram.b[columns])
        return w

    def explained(self, mask: Mask) -> float:
        """Return F(S) of the groups of a mask (J,)."""
        return float(np.sum(self.gram.b * self.solution(mask)) / 2)

    def value(self, mask: Mask) -> float:
        """Return F(S) less the penalties of the groups of a mask (J,)."""
        return self.explained(mask) - self.penalty(mask)

    def penalty(self, mask: Mask) -> float:
        """Return the sum of the penalties of the groups of a mask (J,)."""
        return 0.0 if self.penalties is None else float(self.penalties[mask].sum())

    def gains(self, chosen: Mask, added: Sequence[Positions]) -> Float:
        """Return F(S ∪ A) − F(S), shape (K,), for the groups S of a mask (J,) and K sets A of other groups."""
        with one_blas_thread():
            objective = LeastSquares(BlockCholesky(self.gram), self.sizes, "forward")
            for g in np.flatnonzero(chosen).tolist():
                objective.choose(g)
            single = objective.gains()
            return np.array(
                [single[A[0]] if len(A) == 1 else objective.joint_scores([A.tolist()])[0] / 2 for A in added]
            )

    def greedy(self, schedule: Schedule, *, cost_sensitive: bool = True) -> list[int]:
        """Return the groups that greedy ``forward`` buys, in order; penalties do not count."""
        objective = LeastSquares(BlockCholesky(self.gram), self.sizes, "forward")
        order, _ = greedy_order(objective, self.prices, schedule, Limits(), cost_sensitive=cost_sensitive)
        return [int(g) for g in order]

    def prefix_values(self, order: list[int]) -> Float:
        """Return the value of every prefix of an order, without the empty one, from one factorisation."""
        lost = 0.0 if self.penalties is None else np.cumsum(self.penalties[order])
        try:
            _, z, _, ends = self._factored(order)
        except np.linalg.LinAlgError:
            masks = np.tri(len(order), dtype=bool)
            return np.array([self.value(np.isin(np.arange(self.sizes.size), np.array(order)[m])) for m in masks])
        return np.asarray(np.cumsum((z**2).sum(axis=1))[ends - 1] / 2 - lost)

    def prefix_solutions(self, order: list[int], stages: list[int]) -> Iterator[Float]:
        """Yield w(G_j), shape (D, P), for some stages of an order, from one factorisation; C must not be singular."""
        L, z, columns, ends = self._factored(order)
        for stage in stages:
            k = ends[stage - 1]
            w = np.zeros_like(self.gram.b)
            w[columns[:k]] = solve_triangular(L[:k, :k], z[:k], lower=True, trans=1, check_finite=False)
            yield w

    def _factored(self, order: list[int]) -> tuple[Float, Float, Positions, Positions]:
        """Return L with LL' = C and z = L⁻¹b of the columns of an order, these columns, and where each group ends."""
        parts, every = self.parts, np.arange(len(self.gram.C))
        columns = np.concatenate([every[:0], *(every[parts[g]] for g in order)])
        L = np.linalg.cholesky(self.gram.C[np.ix_(columns, columns)])
        z = solve_triangular(L, self.gram.b[columns], lower=True, check_finite=False)
        return L, z, columns, np.cumsum(self.sizes[order])


def _solve(C: Float, b: Float) -> Float:
    """Return C⁻¹b, or C⁺b where C is singular."""
    try:
        L = np.linalg.cholesky(C)
        if np.diag(L).min() ** 2 > RANK:
            z = solve_triangular(L, b, lower=True, check_finite=False)
            return np.asarray(solve_triangular(L, z, lower=True, trans=1, check_finite=False))
    except np.linalg.LinAlgError:
        pass
    spectrum, V = np.linalg.eigh(C)
    inverse = np.divide(1.0, spectrum, out=np.zeros_like(spectrum), where=spectrum > RANK * spectrum[-1])
    return np.asarray((V * inverse) @ (V.T @ b))


@dataclass(frozen=True, eq=False)
class Conditions:
    """Which sets are allowed: those that contain ``included`` (J,) and nothing of ``excluded`` (J,).

    What the included groups require is included, too; what requires an excluded group is excluded.
    """

    prices: Prices
    included: Mask
    excluded: Mask

    @classmethod
    def none(cls, prices: Prices) -> Conditions:
        """Return the conditions that every set meets."""
        nothing = np.zeros(prices.own.size, dtype=bool)
        return cls(prices, nothing, nothing)

    @classmethod
    def of(cls, groups: FeatureGroups, include: GroupNames, exclude: GroupNames, always: GroupNames = ()) -> Conditions:
        """Return the conditions that a user gives by names. The groups ``always`` are in, too."""
        place = places_of(groups.names)
        inside = (*positions_of("include", include, place), *positions_of("start", always, place))
        found = cls.none(groups.prices).including(*inside).excluding(*positions_of("exclude", exclude, place))
        if both := np.flatnonzero(found.included & found.excluded).tolist():
            name = shown(groups.names[both[0]])
            raise ValueError(f"group {name} must be both in and out: see include, exclude and requires")
        return found

    def including(self, *groups: int) -> Conditions:
        """Return the conditions with further groups included, and all that they require."""
        return replace(self, included=self.included | self.prices.closure(groups))

    def excluding(self, *groups: int) -> Conditions:
        """Return the conditions with further groups excluded, and all that require them."""
        excluded = self.excluded.copy()
        for g in groups:
            excluded[[g, *self.prices.dependents.get(g, ())]] = True
        return replace(self, excluded=excluded)

    def among(self, known: Mask, names: tuple[str, ...]) -> Conditions:
        """Return the conditions without the groups that are not known (J,): the sequence ended before them."""
        if (wrong := np.flatnonzero(self.included & ~known)).size:
            name = shown(names[wrong[0]])
            raise ValueError(f"group {name} must be in, but it is unknown to the model: the sequence ended before it")
        return self.excluding(*np.flatnonzero(~known).tolist())

    def filled(self, budget: float, order: Iterable[int], chosen: Mask | None = None) -> Mask:
        """Add groups to a set, by default the included ones, in the order given, as long as they fit the budget.

        Each comes with what it requires.
        """
        chosen = self.included if chosen is None else chosen
        for g in order:
            if not (chosen[g] or self.excluded[g]):
                tried = chosen | self.prices.closure([g])
                if not (tried & self.excluded).any() and self.prices.cost(tried) <= budget * (1 + SLACK):
                    chosen = tried
        return chosen


@dataclass(frozen=True)
class Allowed:
    """A schedule that buys an allowed set within a budget, the included groups first."""

    conditions: Conditions
    budget: float = np.inf

    def allowed(self, costs: Float, remaining: Mask, spent: float) -> Mask:
        """Return the included groups that remain, or else all allowed groups that the budget can pay for."""
        first = remaining & self.conditions.included
        if first.any():
            return first
        return np.asarray(remaining & (spent + costs <= self.budget * (1 + SLACK)) & ~self.conditions.excluded)
