"""Schedules: which groups may come next, given what has been spent."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol, cast

import numpy as np
from numpy.typing import NDArray


class Schedule(Protocol):
    """Says which of the remaining groups may be chosen next."""

    def allowed(self, costs: NDArray[np.float64], remaining: NDArray[np.bool_], spent: float) -> NDArray[np.bool_]:
        """Return a mask of shape (J,), a subset of ``remaining``; all False ends the sequence."""
        ...


@dataclass(frozen=True)
class Greedy:
    """Any remaining group may come next.

    Examples
    --------
    >>> from budgetline import greedy_sequence
    >>> greedy_sequence(len, {"a": 2.0, "b": 1.0}, schedule="greedy").groups
    ('b', 'a')
    """

    def allowed(self, costs: NDArray[np.float64], remaining: NDArray[np.bool_], spent: float) -> NDArray[np.bool_]:
        """Return all remaining groups."""
        return remaining


@dataclass(frozen=True)
class Doubling:
    """The next group may not cost more than all spent so far, so that the total at most doubles (Algorithm 2).

    As printed the algorithm stops as soon as no remaining group is affordable, with distinct costs at the second
    step already. This version then takes the cheapest remaining group, and goes on; for it, for every C0 > 4, every
    budget B and every set S, under the rules ``fr`` and ``omp``,

        F(G_B) ≥ (1 − exp(−γ (C0/2 − 2))) F(S_{B/C0}),    γ = λ_min(Δ^{-1/2} C Δ^{-1/2}),  Δ = blockdiag(C_g).

    Parameters
    ----------
    c_min : float or None
        The most the first group may cost; None: the lowest cost there is.
    literal : bool
        Stop when nothing is affordable, as in the paper.

    Examples
    --------
    The paper's hard instance, F(S) = Σ_{x ∈ S} eˣ with cost x:

    >>> from math import exp
    >>> from budgetline import Doubling, greedy_sequence
    >>> F = lambda S: sum(exp(int(x)) for x in S)
    >>> greedy_sequence(F, {x: x for x in range(1, 13)}, schedule=Doubling(c_min=2), max_groups=5).groups
    (2, 1, 3, 6, 12)
    """

    c_min: float | None = None
    literal: bool = False

    def __post_init__(self) -> None:
        if self.c_min is not None and not 0 < float(self.c_min) < np.inf:
            raise ValueError(f"c_min must be a positive number, got {self.c_min!r}")

    def allowed(self, costs: NDArray[np.float64], remaining: NDArray[np.bool_], spent: float) -> NDArray[np.bool_]:
        """Return the affordable groups; if there are none, the cheapest (or, as printed, nothing)."""
        limit = spent
        if spent == 0:
            limit = self.c_min if self.c_min is not None else float(costs.min()) if self.literal else 0.0
        affordable = remaining & (costs <= limit * (1 + 1e-12))
        if affordable.any() or self.literal:
            return affordable
        return np.asarray(remaining & (costs == costs[remaining].min()))


SCHEDULES = {"greedy": Greedy, "doubling": Doubling}


def as_schedule(schedule: Any) -> Schedule:
    """Turn ``"greedy"``, ``"doubling"`` or a schedule object into a schedule object."""
    if isinstance(schedule, str):
        if schedule not in SCHEDULES:
            raise ValueError(f"unknown schedule {schedule!r}; known are {', '.join(map(repr, SCHEDULES))}")
        return cast(Schedule, SCHEDULES[schedule]())
    if isinstance(schedule, type) or not callable(getattr(schedule, "allowed", None)):
        raise TypeError(f"schedule must be a name or an object with a method 'allowed', got {schedule!r}")
    return cast(Schedule, schedule)
