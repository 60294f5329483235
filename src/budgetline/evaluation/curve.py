"""BudgetCurve, and the paper's summaries of a curve (§6.2): timeliness and stopping cost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.exceptions import NotFittedError

from budgetline.arrays import Float
from budgetline.budgets import SLACK, Interpolation, affordable, check_interpolation, check_stop, share_of_budgets
from budgetline.inputs import check_number, floats_of
from budgetline.messages import shown
from budgetline.model.anytime import as_staged
from budgetline.sequencing.sequence import GroupSequence
from budgetline.tables import Tabular, html_table, text_table


@dataclass(frozen=True, eq=False)
class BudgetCurve(Tabular):
    """Quality against cost: the value of a metric before any group is bought and after each group is added.

    Between two costs, the curve keeps the value at the lower cost ("step"). The paper connects the points with straight
    lines ("linear"), which gives credit for a group before it has been paid for in full.

    Attributes
    ----------
    costs : array of shape (K,)
        The cost of each point. Costs start at 0 and never decrease; a free group leaves the cost unchanged.
    values : array of shape (K,)
        The metric at each point. ``values[0]`` is the value before any group is bought.
    metric : str
        The name of the metric.
    label : str
        The name of the curve in plots.
    greater_is_better : bool
        Whether larger values are better.
    groups : tuple of str
        The group that each point adds, with ``""`` for the first point. Empty if the points do not belong to groups.
    folds : tuple of BudgetCurve
        For a mean over folds, the curves of the folds.
    errors : array of shape (K,), or None
        For a mean over folds, the standard error at each point.

    Examples
    --------
    >>> from budgetline import BudgetCurve
    >>> curve = BudgetCurve([0, 1, 4], [0.0, 0.5, 1.0])
    >>> curve.at(2.5), curve.at(2.5, interpolation="linear")
    (0.5, 0.75)
    """

    costs: Float
    values: Float
    metric: str = "explained"
    greater_is_better: bool = True
    groups: tuple[str, ...] = ()
    label: str = ""
    folds: tuple[BudgetCurve, ...] = ()
    errors: Float | None = None

    def __post_init__(self) -> None:
        for name in ("costs", "values", "errors"):
            if (given := getattr(self, name)) is not None:
                object.__setattr__(self, name, np.array(given, dtype=np.float64))
        costs, values = self.costs, self.values
        if costs.ndim != 1 or costs.shape != values.shape or not costs.size:
            raise ValueError(f"costs and values must be vectors of equal length, got {costs.shape} and {values.shape}")
        if costs[0] != 0:
            raise ValueError(f"a curve must start at cost 0, before any group, but its first cost is {costs[0]:g}")
        if not np.isfinite(costs).all() or np.any(np.diff(costs) < 0):
            raise ValueError("the costs of a curve must be finite and must not decrease")
        for name, entries in (("groups", self.groups), ("errors", () if self.errors is None else self.errors)):
            if len(entries) not in (0, costs.size):
                raise ValueError(f"{name} must have one entry per point, got {len(entries)} for {costs.size} points")

    @classmethod
    def of(cls, source: object) -> BudgetCurve:
        """Return the training curve of ``source``, a sequence or a fitted model; a curve is returned unchanged.

        The values are the explained shares F/R(∅). For `StagedEstimators`, this is the curve of the model that chose
        the order. Its values are NaN if the order was not chosen by a model.
        """
        if isinstance(source, BudgetCurve):
            return source
        try:
            sequence = source if isinstance(source, GroupSequence) else as_staged(source).sequence
        except (TypeError, NotFittedError) as error:
            what = type(source).__name__
            raise TypeError(f"a BudgetCurve, a GroupSequence or a fitted model is needed, got {what}") from error
        costs, values = (np.concatenate([[0.0], each]) for each in (sequence.cumulative_costs, sequence.explained))
        return cls(costs, values, groups=("", *map(str, sequence.groups)), label="training")

    @classmethod
    def mean(cls, curves: Sequence[BudgetCurve]) -> BudgetCurve:
        """Return the mean of several curves with its standard error, at every cost at which any of them has a point.

        If curves have several points at the same cost, as with free groups, their first points are averaged, then their
        second points, and so on.
        """
        curves = tuple(curves)
        if not curves:
            raise ValueError("there are no curves to take the mean of")
        if len(metrics := {c.metric for c in curves}) > 1:
            raise ValueError(f"curves of different metrics have no mean: {', '.join(sorted(metrics))}")
        costs, table = _every_point(curves)
        spread = table.std(axis=0, ddof=1) / np.sqrt(len(table)) if len(table) > 1 else None
        return replace(curves[0], costs=costs, values=table.mean(axis=0), groups=(), folds=curves, errors=spread)

    @property
    def total_cost(self) -> float:
        """The cost of the last point."""
        return float(self.costs[-1])

    def at(self, budget: ArrayLike, *, interpolation: Interpolation = "step") -> Any:
        """Return the value at one or more budgets.

        ``budget`` is a number or an array. With ``interpolation="step"``, the value is taken from the last affordable
        point. With "linear", it is interpolated linearly between this point and the next.
        """
        check_interpolation(interpolation)
        budgets = floats_of(budget)
        if np.isnan(budgets).any() or np.any(budgets < 0):
            raise ValueError(f"budgets must be ≥ 0, got {shown(budget)}")
        if self.folds:  # exact for both interpolations
            mean = np.mean([fold.at(budgets, interpolation=interpolation) for fold in self.folds], axis=0)
            return mean if budgets.ndim else float(mean)
        last = affordable(self.costs, budgets) - 1
        found = self.values[last]
        if interpolation == "linear":
            following = np.minimum(last + 1, self.costs.size - 1)
            width = self.costs[following] - self.costs[last]
            share = np.divide(budgets - self.costs[last], width, out=np.zeros(width.shape), where=width > 0)
            found = found + np.clip(share, 0, 1) * (self.values[following] - found)
        return found if budgets.ndim else float(found)

    def improvement(self) -> Float:
        """Return the improvement of each point over the first point, shape (K,); positive values mean better."""
        return np.asarray((self.values - self.values[0]) * (1.0 if self.greater_is_better else -1.0) + 0.0)

    def to_dict(self) -> dict[str, list[str | float]]:
        """Return a dict of columns: group (if known), cost, the metric, and standard_error (if known)."""
        table: dict[str, list[str | float]] = {"cost": self.costs.tolist(), self.metric: self.values.tolist()}
        if self.groups:
            table = {"group": list(self.groups), **table}
        if self.errors is not None:
            table["standard_error"] = self.errors.tolist()
        return table

    def __len__(self) -> int:
        return self.costs.size

    def __str__(self) -> str:
        return text_table(list(self.to_dict()), self._cells(), left={0} if self.groups else ())

    def __repr__(self) -> str:
        change = f"{self.metric} {self.values[0]:.4g} → {self.values[-1]:.4g}"
        return f"BudgetCurve({len(self)} points, {change} at cost {self.total_cost:.6g})"

    def _repr_html_(self) -> str:
        return html_table(list(self.to_dict()), self._cells())

    def _cells(self) -> list[list[str]]:
        rows = zip(*self.to_dict().values(), strict=True)
        return [[cell if isinstance(cell, str) else f"{cell:.6g}" for cell in row] for row in rows]


def _every_point(curves: Sequence[BudgetCurve]) -> tuple[Float, Float]:
    """Return the costs (K,) of all points of n curves, and the values (n, K) of the curves there.

    Costs that differ by rounding are one cost. It has as many points as the curve with the most points there has; the
    other curves stay at their last point.
    """
    every = np.unique(np.concatenate([curve.costs for curve in curves]))
    starts = np.flatnonzero(np.append(True, every[1:] > every[:-1] * (1 + SLACK)))
    low, high = every[starts], every[np.append(starts[1:], every.size) - 1]
    first = np.array([np.searchsorted(curve.costs, low, "left") for curve in curves])
    stop = np.array([np.searchsorted(curve.costs, high, "right") for curve in curves])
    most = (stop - first).max(axis=0)
    cost = np.repeat(np.arange(most.size), most)
    rank = np.arange(cost.size) - np.repeat(np.cumsum(most) - most, most)
    costs, values = np.zeros(cost.size), list[Float]()
    for curve, begin, end in zip(curves, first[:, cost], stop[:, cost], strict=True):
        point, there = np.minimum(begin + rank, end - 1), end > begin
        costs = np.maximum(costs, np.where(there, curve.costs[point], 0.0))
        values.append(np.where(there, curve.values[point], curve.at(high[cost])))
    return costs, np.array(values)


def explained_share(risks: Float) -> Float:
    """Return 1 − R/R(∅) for risks of stages 0, 1, …; if R(∅) = 0, zero for risks of 0 and NaN for others."""
    return 1 - risks / risks[0] if risks[0] > 0 else np.where(risks > 0, np.nan, 0.0)


def timeliness(
    curve: object, stop: float | None = None, *, fraction: float | None = None, interpolation: Interpolation = "step"
) -> float:
    """Return the mean of a curve over all budgets from 0 to a stopping cost T: (1/T) ∫₀ᵀ v(B) dB.

    For a training curve (F/R(∅)), this is the timeliness that the paper defines. Beyond its last point, a curve keeps
    its last value. If T is 0, the result is v(0), the value after all free groups.

    Parameters
    ----------
    curve : BudgetCurve, GroupSequence or fitted model
        The curve to average. For a sequence or a model, the training curve is used.
    stop : float, optional
        The stopping cost T. By default, it is the cost of the whole curve. To compare methods, use the same T for all
        of them.
    fraction : float in [0, 1], optional
        An alternative to ``stop``: T is the cost at which this curve reaches this fraction of its total improvement.
        The paper calls it the α-stopping cost; see `stopping_cost`.
    interpolation : {"step", "linear"}
        With "step", a group counts only once it has been paid for in full. With "linear", the points are connected with
        straight lines, as in the paper's tables.

    Examples
    --------
    >>> from budgetline import BudgetCurve, timeliness
    >>> curve = BudgetCurve([0, 1, 4], [0.0, 0.5, 1.0])
    >>> timeliness(curve), timeliness(curve, interpolation="linear"), timeliness(curve, stop=2)
    (0.375, 0.625, 0.25)
    """
    curve = BudgetCurve.of(curve)
    if fraction is not None:
        if stop is not None:
            raise ValueError("pass at most one of stop and fraction")
        stop = stopping_cost(curve, fraction)
    check_interpolation(interpolation)
    stop = curve.total_cost if stop is None else check_stop(stop)
    if curve.folds:
        return float(np.mean([timeliness(fold, stop, interpolation=interpolation) for fold in curve.folds]))
    paid = share_of_budgets(curve.costs[:-1], curve.costs[1:], stop, interpolation)
    shares = -np.diff(np.concatenate([[1.0], paid, [0.0]]))
    return float(curve.values[shares > 0] @ shares[shares > 0])


def stopping_cost(curve: object, fraction: float) -> float:
    """Return the first cost at which a curve reaches a fraction of its total improvement: the α-stopping cost.

    If the fraction is 1, the result is the cost of the whole curve. To compare methods, the paper uses the same
    stopping cost for all of them, which is taken from the training curve of CS-G-OMP (``rule="omp"``).

    Examples
    --------
    >>> from budgetline import BudgetCurve, stopping_cost
    >>> stopping_cost(BudgetCurve([0, 1, 4, 9], [0.0, 0.5, 0.9, 1.0]), 0.9)
    4.0
    """
    curve = BudgetCurve.of(curve)
    check_number("fraction", fraction, ge=0, le=1)
    if fraction == 1:
        return float(curve.total_cost)
    gain = curve.improvement()
    if not np.isfinite(gain).all():
        raise ValueError(f"the curve has values that are not finite: {curve.metric} has no stopping cost")
    needed = float(fraction) * gain[-1]
    return float(curve.costs[np.argmax(gain >= needed - SLACK * abs(needed))])
