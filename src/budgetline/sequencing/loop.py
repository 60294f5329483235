"""The one greedy loop. Every sequence in the library, whatever its objective, comes from here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from budgetline.sequencing.schedules import Schedule

Float = NDArray[np.float64]

TIE = 1e-12
"""Rates that differ by less than this, relatively, are equal."""


class Objective(Protocol):
    """What the loop needs of an objective. Group ids are positions in ``costs``."""

    @property
    def null_value(self) -> float:
        """The scale of F: for models R(∅), the risk without any group."""
        ...

    def scores(self, allowed: NDArray[np.bool_]) -> Float:
        """Return the merit of every group, shape (J,); entries of groups not allowed are not looked at."""
        ...

    def gains(self) -> Float:
        """Return F(S ∪ g) − F(S) of every group, shape (J,); only asked for when ``min_gain`` > 0."""
        ...

    def choose(self, g: int) -> float:
        """Add group g, return its gain in F."""
        ...


@dataclass(frozen=True)
class Limits:
    """When to stop.

    Attributes
    ----------
    max_cost : float or None
        Groups that would bring the total above it are passed over.
    max_groups : int or None
    min_gain : float
        Stop when no group that still fits gains at least ``min_gain · R(∅)``.
    """

    max_cost: float | None = None
    max_groups: int | None = None
    min_gain: float = 0.0

    def __post_init__(self) -> None:
        for name, value in (
            ("max_cost", self.max_cost),
            ("max_groups", self.max_groups),
            ("min_gain", self.min_gain),
        ):
            if value is not None and not value >= 0:
                raise ValueError(f"{name} must be ≥ 0, got {value!r}")
        if self.max_groups is not None and int(self.max_groups) != self.max_groups:
            raise ValueError(f"max_groups must be a whole number, got {self.max_groups!r}")


def greedy_order(
    objective: Objective, costs: Float, schedule: Schedule, limits: Limits, *, cost_sensitive: bool = True
) -> tuple[NDArray[np.intp], Float]:
    """Choose groups one after another, each time the one of the best score per cost.

    Returns
    -------
    order : int array of shape (stages,)
    gains : array of shape (stages,)
    """
    remaining = np.ones(costs.size, dtype=bool)
    order: list[int] = []
    gains: list[float] = []
    spent = 0.0
    while len(order) < (costs.size if limits.max_groups is None else min(limits.max_groups, costs.size)):
        # 1. which groups may come next
        fits = remaining
        if limits.max_cost is not None:
            fits = remaining & (spent + costs <= limits.max_cost * (1 + 1e-12))
            if not fits.any():
                break
        allowed = schedule.allowed(costs, fits, spent)
        if not allowed.any():
            break
        # 2. stop if nothing that is left brings enough
        if limits.min_gain > 0:
            enough = limits.min_gain * objective.null_value
            if enough <= 0 or objective.gains()[fits].max() < enough:
                break
        # 3. take the best
        g = best_group(objective.scores(allowed), costs, allowed, cost_sensitive=cost_sensitive)
        gains.append(objective.choose(g))
        order.append(g)
        remaining[g] = False
        spent += float(costs[g])
    return np.array(order, dtype=np.intp), np.array(gains, dtype=np.float64)


def best_group(scores: Float, costs: Float, allowed: NDArray[np.bool_], *, cost_sensitive: bool) -> int:
    """Return the allowed group of the best score per cost; free ones first, ties to the cheaper, then the lower id."""
    candidates = np.flatnonzero(allowed)
    if cost_sensitive:
        if np.any(free := costs[candidates] == 0):
            candidates = candidates[free]
            rates = scores[candidates]
        else:
            with np.errstate(over="ignore"):
                rates = scores[candidates] / costs[candidates]
    else:
        rates = scores[candidates]
    top = rates.max()
    if np.isnan(top):
        raise ValueError("the objective gave a score that is not a number")
    tied = candidates[rates >= top - TIE * abs(top)] if np.isfinite(top) else candidates[rates == top]
    return int(tied[np.argmin(costs[tied])])
