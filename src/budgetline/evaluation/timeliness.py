"""One number for a whole curve, and where to stop it: the paper's evaluation, §6.2."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from budgetline.budgets import SLACK, Interpolation, Rates, check_interpolation, check_stop, number_of, unit_of
from budgetline.evaluation.curve import BudgetCurve
from budgetline.messages import shown

PLATEAUS = (0.95, 0.96, 0.97, 0.98, 0.99)
PLATEAU_COST = 0.2
"""A plateau begins where the next percent of the objective takes more than this share of the total cost."""


def timeliness(
    curve: Any, stop: float | None = None, *, fraction: float | None = None, interpolation: Interpolation = "step"
) -> float:
    """Return the mean of a curve over budgets spread evenly from 0 to a stopping cost.

    For a curve of the explained fraction F/R(∅) this is the paper's timeliness: the area under F against cost up to the
    stopping cost T, divided by T·R(∅),

        (1/T) ∫₀ᵀ v(B) dB.

    Beyond the last point the curve stays at its last value. For T = 0 it is what free groups bring, v(0).

    Parameters
    ----------
    curve : BudgetCurve, GroupSequence or fitted model
        Of a sequence or model, the training curve.
    stop : float, optional
        The stopping cost T; default: the cost of the whole curve. To compare methods, give all of them the same.
    fraction : float in [0, 1], optional
        Instead of ``stop``: the α-stopping cost of this curve, see :func:`stopping_cost`.
    interpolation : {"step", "linear"}
        "step" counts a group from the cost on at which it has been paid for; "linear" joins the points by straight
        lines, as in the paper's tables.

    Examples
    --------
    >>> from budgetline import BudgetCurve, timeliness
    >>> curve = BudgetCurve([0, 1, 4], [0.0, 0.5, 1.0])
    >>> timeliness(curve), timeliness(curve, interpolation="linear"), timeliness(curve, stop=2)
    (0.375, 0.625, 0.25)
    """
    check_interpolation(interpolation)
    curve = BudgetCurve.of(curve)
    if fraction is not None:
        if stop is not None:
            raise ValueError("give at most one of stop and fraction")
        stop = stopping_cost(curve, fraction)
    T = curve.total_cost if stop is None else check_stop(stop)
    if curve.folds:
        return float(np.mean([timeliness(fold, T, interpolation=interpolation) for fold in curve.folds]))
    if T == 0:
        return float(curve.at(0.0))
    inside = curve.costs < T
    unit = unit_of(T)  # values may be as large or small as costs
    widths, length = np.diff(np.append(curve.costs[inside], T) / unit), T / unit
    if interpolation == "step":
        return float(curve.values[inside] @ widths / length)
    values = np.append(curve.values[inside], _left_limit(curve, T))
    return float((values[1:] + values[:-1]) @ widths / (2 * length))


def stopping_cost(curve: Any, fraction: float) -> float:
    """Return the α-stopping cost: the first cost at which a curve has made α of its whole improvement.

    The paper takes it from the training curve of CS-G-OMP (``rule="omp"``) and applies it to every method. α = 1 is the
    cost of the whole curve.

    Parameters
    ----------
    curve : BudgetCurve, GroupSequence or fitted model
    fraction : float in [0, 1]

    Examples
    --------
    >>> from budgetline import BudgetCurve, stopping_cost
    >>> stopping_cost(BudgetCurve([0, 1, 4, 9], [0.0, 0.5, 0.9, 1.0]), 0.9)
    4.0
    """
    curve = BudgetCurve.of(curve)
    check_fraction(fraction)
    if fraction == 1:
        return float(curve.total_cost)
    gain = curve.improvement()
    if not np.isfinite(gain).all():
        raise ValueError(f"the curve has values that are not finite: {curve.metric} has no stopping cost")
    needed = float(fraction) * gain[-1]
    return float(curve.costs[np.argmax(gain >= needed - SLACK * abs(needed))])


def plateau(curve: Any) -> float:
    """Return the α at which a curve has reached its plateau.

    The smallest α of 0.95, 0.96, …, 0.99 for which the next percent takes more than 20 % of the total cost,

        cost(α + 0.01) − cost(α) > 0.2 · total cost,

    with ``cost(α)`` the :func:`stopping_cost`; 1 if there is none.

    Parameters
    ----------
    curve : BudgetCurve, GroupSequence or fitted model
        The paper's rule looks at the training curve of CS-G-OMP.

    Examples
    --------
    >>> from budgetline import BudgetCurve, plateau
    >>> plateau(BudgetCurve([0, 1, 2, 5], [0.0, 0.5, 0.975, 1.0]))
    0.97
    """
    curve = BudgetCurve.of(curve)
    costs = [stopping_cost(curve, fraction) for fraction in (*PLATEAUS, 1.0)]
    steps = np.diff(costs) > PLATEAU_COST * curve.total_cost * (1 + SLACK)
    return PLATEAUS[int(np.argmax(steps))] if steps.any() else 1.0


def oracle_curve(curve: Any) -> BudgetCurve:
    """Return the paper's Oracle: the steps of a curve sorted by improvement per cost, as if they could be reordered.

    This is a heuristic, not an upper bound: gains change when groups are reordered, and a better sequence may exist.
    For at most 18 groups :func:`best_sequence` is the truth.

    Parameters
    ----------
    curve : BudgetCurve, GroupSequence or fitted model

    Examples
    --------
    >>> from budgetline import BudgetCurve, oracle_curve
    >>> oracle = oracle_curve(BudgetCurve([0, 2, 3], [0.0, 0.2, 1.0]))
    >>> oracle.costs.tolist(), oracle.values.tolist(), oracle.label
    ([0.0, 1.0, 3.0], [0.0, 0.8, 1.0], 'oracle (heuristic)')
    """
    base = BudgetCurve.of(curve)
    gains, costs = np.diff(base.improvement()), np.diff(base.costs)
    order = Rates.of(gains, costs).order()
    steps = np.diff(base.values)[order]
    groups = ("", *(base.groups[1 + k] for k in order)) if base.groups else ()
    return replace(
        base,
        costs=np.concatenate([[0.0], np.cumsum(costs[order])]),
        values=base.values[0] + np.concatenate([[0.0], np.cumsum(steps)]),
        groups=groups,
        label=f"{base.label} oracle (heuristic)".strip(),
        folds=(),
        errors=None,
    )


def check_fraction(fraction: Any) -> None:
    """Raise an error unless α is a share of the improvement."""
    if not 0 <= number_of(fraction) <= 1:
        raise ValueError(f"fraction must be a number from 0 to 1, got {shown(fraction)}")


def _left_limit(curve: BudgetCurve, T: float) -> float:
    """Return the value of the straight line that arrives at T > 0; what is free at T itself has no width."""
    k = int(np.searchsorted(curve.costs, T, side="left"))
    if k == curve.costs.size:
        return float(curve.values[-1])
    left, right = curve.costs[k - 1], curve.costs[k]
    return float(curve.values[k - 1] + (T - left) / (right - left) * (curve.values[k] - curve.values[k - 1]))
