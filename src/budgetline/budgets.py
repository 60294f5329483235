"""Costs and budgets: what is affordable, and how to read a curve of quality against cost between its points."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike

from budgetline.arrays import Float, Positions
from budgetline.inputs import check_number, floats_of
from budgetline.messages import shown

SLACK = 1e-12
"""Costs that differ by less than this, relatively, are equal: 0.1 + 0.2 must be affordable at 0.3."""
Interpolation = Literal["step", "linear"]
"""A budget between two points buys the lower one (step), or something between them (linear)."""


def affordable(cumulative_costs: Float, budget: ArrayLike) -> Positions:
    """Return how many of the costs, which do not decrease, are within each budget."""
    return np.searchsorted(cumulative_costs, floats_of(budget) * (1 + SLACK), side="right")


def fold_costs(names: Sequence[str], folds: Iterable[tuple[Sequence[str], Float]]) -> Float:
    """Return what every fold has spent when it has bought each group, shape (folds, names); infinite if never.

    ``folds`` are groups and what is spent with each, as columns of the same length.
    """
    spent = [dict(zip(groups, costs.tolist(), strict=True)) for groups, costs in folds]
    return np.array([[own.get(name, np.inf) for name in names] for own in spent])


def folds_that_agree(costs: Float, fold_costs: Float) -> Positions:
    """Return in how many folds (folds, stages) each group is bought by the cost at which an order buys it (stages,)."""
    return np.asarray((fold_costs <= costs * (1 + SLACK)).sum(axis=0))


def points_of_stages(stages: Float, costs: Float) -> Positions:
    """Return which point of a curve with costs (K,) belongs to each stage; both start at cost 0 and do not decrease.

    It is the last point that the cost of the stage buys. Of several stages of equal cost, the last gets that point, and
    earlier ones get the points of equal cost before it, if there are any. Stage 0 has no group, not even a free one.
    """
    last = affordable(costs, stages) - 1
    later = affordable(stages, stages) - 1 - np.arange(stages.size)
    first = np.maximum(np.searchsorted(costs, stages * (1 - SLACK)), 1)
    return np.append(0, np.maximum(last - later, np.minimum(first, last))[1:])


def unit_of(number: float) -> float:
    """Return the largest power of two that is not above a number > 0: dividing by it rounds nothing."""
    return math.ldexp(1.0, math.frexp(number)[1] - 1)


def rates_of(values: Float, costs: Float) -> Float:
    """Return values per cost, (n,), divided by a power of two so that floats hold them; infinite at cost 0."""
    unit = unit_of(float(np.abs(values).max(initial=0.0)))
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        return np.where(values == 0, 0.0, values / unit / costs)


def check_interpolation(interpolation: object) -> None:
    """Raise an error unless ``interpolation`` is "step" or "linear"."""
    if interpolation not in get_args(Interpolation):
        raise ValueError(f"interpolation must be 'step' or 'linear', got {shown(interpolation)}")


def check_stop(stop: object) -> float:
    """Return a stopping cost, a finite number ≥ 0."""
    return check_number("stop", stop, "cost", ge=0, finite=True)


def share_of_budgets(before: ArrayLike, after: ArrayLike, stop: float, interpolation: Interpolation) -> Float:
    """Return the share of the budgets between 0 and ``stop`` that pay for steps from one cost to another.

    With "linear", a part of a step counts, too: it is the mean of that share over the step. So the mean over budgets of
    a curve that starts at 0 is Σ gain_j share_j.
    """
    a, b = np.asarray(before, dtype=np.float64), np.asarray(after, dtype=np.float64)
    if stop == 0:
        return np.where(b == 0, 1.0, 0.0)
    start, end = np.minimum(a, stop) / stop, np.minimum(b, stop) / stop
    if interpolation == "step":
        return np.asarray(1 - end)
    with np.errstate(over="ignore"):  # a step far longer than all budgets
        length = (b - a) / stop
    area = (end - start) * (1 - (start + end) / 2)
    return np.asarray(np.divide(area, length, out=1 - end, where=length > 0))
