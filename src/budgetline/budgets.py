"""Costs and budgets: what is affordable, and how to read a curve of quality against cost between its points."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike

from budgetline.arrays import Float, Positions
from budgetline.inputs import check_number, floats_of
from budgetline.messages import shown

SLACK = 1e-12
"""Costs that differ by less than this, relatively, are equal: 0.1 + 0.2 must be affordable at 0.3."""
TINY, HUGE = 1e-200, 1e200
"""Rates whose best one is between these are plain floats."""
ENDLESS = 2**20
"""The exponent of an infinite rate, larger than that of any quotient of two floats."""
Interpolation = Literal["step", "linear"]
"""A budget between two points buys the lower one (step), or something between them (linear)."""


def affordable(cumulative_costs: Float, budget: ArrayLike) -> Positions:
    """Return how many of the costs, which do not decrease, are within each budget."""
    return np.searchsorted(cumulative_costs, floats_of(budget) * (1 + SLACK), side="right")


def points_of_stages(stages: Float, costs: Float) -> Positions:
    """Return which point of a curve with costs (K,) belongs to each stage; both start at cost 0 and do not decrease.

    It is the last point that the cost of the stage buys. Of several stages of equal cost, the last gets that point, and
    earlier ones get the points of equal cost before it, if there are any. Stage 0 has no group, not even a free one.
    """
    last = affordable(costs, stages) - 1
    later = affordable(stages, stages) - 1 - np.arange(stages.size)
    first = np.maximum(np.searchsorted(costs, stages * (1 - SLACK)), 1)
    return np.append(0, np.maximum(last - later, np.minimum(first, last))[1:])


def unit_of(cost: float) -> float:
    """Return the largest power of two that is not above a cost > 0: dividing by it rounds nothing."""
    return math.ldexp(1.0, math.frexp(cost)[1] - 1)


@dataclass(frozen=True, eq=False)
class Rates:
    """Values per cost as mantissa·2^exponent: a float may not hold the quotient of a tiny value and a huge cost.

    The sign is −1, 0 or 1. The mantissa has the same sign, and its absolute value is 0 or in [1, 2). At cost 0 the rate
    is infinite. All arrays have shape (n,).
    """

    sign: Float
    exponent: Positions
    mantissa: Float

    @classmethod
    def of(cls, values: Float, costs: Float) -> Rates:
        """Return the rates of values at costs ≥ 0, both of shape (n,)."""
        sign = np.sign(values)
        endless = (costs <= 0) | np.isinf(values)
        above, up = np.frexp(np.where(endless, sign, values))
        below, down = np.frexp(np.where(endless, 1.0, costs))
        quotient = above / below
        small = np.abs(quotient) < 1
        exponent = up.astype(np.intp) - down - small
        return cls(sign, np.where(endless, ENDLESS, exponent), np.where(small, 2 * quotient, quotient))

    def order(self) -> Positions:
        """Return the positions in the order of falling rates; ties keep their order."""
        return np.lexsort((-self.mantissa, -self.sign * self.exponent, -self.sign))

    def relative(self) -> Float:
        """Return the rates as floats, divided by a power of two so that the best is about 1."""
        up, down = self.exponent[self.sign > 0], self.exponent[self.sign < 0]
        unit = up.max() if up.size else down.min(initial=ENDLESS)
        with np.errstate(over="ignore"):
            return np.asarray(np.ldexp(self.mantissa, self.exponent - unit))

    def key(self, k: int) -> tuple[float, float, float]:
        """Return a key that compares as the k-th rate does."""
        return float(self.sign[k]), float(self.sign[k] * self.exponent[k]), float(self.mantissa[k])


def relative_rates(values: Float, costs: Float) -> Float:
    """Return values per cost, (n,), divided by a power of two if floats would not hold the best: see :class:`Rates`."""
    with np.errstate(all="ignore"):
        rates = values / costs
    # dividing by a power of two changes no digit; rates far below the best may become 0
    return rates if TINY < rates.max() < HUGE else Rates.of(values, costs).relative()


def rate(value: float, cost: float) -> tuple[float, float, float]:
    """Return a key that compares as value per cost does, whatever their size."""
    return Rates.of(np.array([value]), np.array([cost])).key(0)


def check_interpolation(interpolation: object) -> None:
    """Raise an error unless ``interpolation`` is "step" or "linear"."""
    if interpolation not in get_args(Interpolation):
        raise ValueError(f"interpolation must be 'step' or 'linear', got {shown(interpolation)}")


def check_stop(stop: object) -> float:
    """Return a stopping cost, a finite number ≥ 0."""
    return check_number("stop", stop, "cost", ge=0, finite=True)


@dataclass(frozen=True, eq=False)
class Demand:
    """The distribution of budgets: uniform from 0 to ``stop``, or a sample.

    ``shares[k]`` is the share of the sample that is at least ``budgets[k]``. The mean over budgets of a curve that
    starts at 0 is Σ gain_j h_j, with h_j the share of the budgets that pay for step j (interpolation "step"), or the
    mean of that share over the step (interpolation "linear").
    """

    stop: float
    budgets: Float
    shares: Float
    interpolation: Interpolation = "step"

    @classmethod
    def of(cls, total: float, stop: object, budgets: object, weights: object, interpolation: Interpolation) -> Demand:
        """Check the arguments of a user; ``total`` is the cost of all groups."""
        check_interpolation(interpolation)
        if budgets is None:
            if weights is not None:
                raise ValueError("weights go with budgets")
            return cls(total if stop is None else check_stop(stop), np.empty(0), np.empty(0), interpolation)
        if stop is not None or interpolation != "step":
            raise ValueError("stop and interpolation='linear' are for budgets that are spread evenly, not for a sample")
        sample = np.atleast_1d(floats_of(budgets))
        counts = np.ones(sample.shape) if weights is None else floats_of(weights)
        if sample.ndim != 1 or not sample.size or not np.isfinite(sample).all() or np.any(sample < 0):
            raise ValueError(f"budgets must be finite and not negative, one at least, got {shown(budgets)}")
        if counts.shape != sample.shape or not np.isfinite(counts).all() or np.any(counts < 0) or not counts.sum() > 0:
            raise ValueError("weights must be finite and not negative, one per budget, and not all 0")
        order = np.argsort(sample, kind="stable")
        shares = np.cumsum((counts / counts.sum())[order][::-1])[::-1]
        return cls(float(sample.max()), sample[order], shares)

    def weights(self, before: ArrayLike, after: ArrayLike) -> Float:
        """Return h for steps from one cost to another."""
        a, b = np.asarray(before, dtype=np.float64), np.asarray(after, dtype=np.float64)
        if self.budgets.size:
            return np.append(self.shares, 0.0)[np.searchsorted(self.budgets * (1 + SLACK), b, side="left")]
        if self.stop == 0:
            return np.where(b == 0, 1.0, 0.0)
        start, end = np.minimum(a, self.stop) / self.stop, np.minimum(b, self.stop) / self.stop
        if self.interpolation == "step":
            return np.asarray(1 - end)
        width = b - a
        with np.errstate(over="ignore"):  # a step far longer than all budgets
            length = width / self.stop
        area = (end - start) * (1 - (start + end) / 2)
        return np.asarray(np.divide(area, length, out=1 - end, where=length > 0))
