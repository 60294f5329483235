"""Whether an order is greedy, evaluated step by step by scores of a reference.

The order of the library is followed: after each of its prefixes the reference scores the groups that are left, and the
group that came next must be as good as any, up to rounding. So a tie that rounding decided is no failure, and what
comes after it is checked all the same.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from reference import _spent, candidates

NEAR = 1e-6
"""Relative difference of rates that rounding may decide."""

Scores = Callable[[list[int], list[int]], dict[int, float]]
"""Scores of the remaining groups (second argument), given the chosen groups (first)."""


@dataclass(frozen=True)
class Limits:
    """The limits of a sequence; ``schedule`` is a name in the reference."""

    schedule: str = "greedy"
    cost_sensitive: bool = True
    max_cost: float | None = None
    max_groups: int | None = None


def check_greedy(order: Sequence[int], scores: Scores, costs: Sequence[float], limits: Limits, rounding: float) -> None:
    """Raise an error if a step is worse than another that was allowed; ``rounding`` is the error of a score."""
    c_min = min(costs) if limits.schedule == "doubling-literal" else None
    J = len(costs)
    assert len(set(order)) == len(order), f"a group comes twice: {list(order)}"
    for k in range(len(order) + 1):
        before = list(order[:k])
        left = [g for g in range(J) if g not in before]
        allowed = candidates(left, costs, _spent(before, costs), limits.schedule, c_min, limits.max_cost)
        if k == len(order):
            full = limits.max_groups is not None and k >= limits.max_groups
            assert full or not allowed, f"it ends after {before} although {allowed} may follow"
            return
        assert order[k] in allowed, f"group {order[k]} may not follow {before}, only {allowed}"
        score = scores(before, allowed)
        worse = better_than(order[k], allowed, score, costs, limits.cost_sensitive, rounding)
        assert worse is None, f"after {before} group {worse} is better than {order[k]}: scores {score}, costs {costs}"


def better_than(
    g: int,
    allowed: Sequence[int],
    score: dict[int, float],
    costs: Sequence[float],
    cost_sensitive: bool,
    rounding: float,
) -> int | None:
    """Return a group that should have come before g, if there is one that is clearly better."""
    free = [h for h in allowed if cost_sensitive and costs[h] == 0]
    if free and g not in free:
        return free[0]

    def rate(h: int, error: float) -> float:
        return (score[h] + error) / (costs[h] if cost_sensitive and not free else 1.0)

    mine = rate(g, rounding) * (1 + NEAR)
    return next((h for h in free or allowed if rate(h, -rounding) > mine), None)


def condition(Xs: np.ndarray, w: np.ndarray, alpha: float) -> float:
    """Return the condition of C, the largest eigenvalue over the smallest one above rounding."""
    values = np.linalg.svd(Xs * np.sqrt(w / w.sum())[:, None], compute_uv=False) ** 2 + alpha
    kept = values[values > 1e-13 * values.max(initial=0.0)]
    return float(kept.max() / kept.min()) if kept.size else 1.0
