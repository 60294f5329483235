"""One number for a whole curve, and where to stop it: the paper's evaluation, §6.2."""

from __future__ import annotations

import numpy as np

from budgetline.budgets import SLACK, Demand, Interpolation, check_number
from budgetline.evaluation.curve import BudgetCurve

PLATEAUS = (0.95, 0.96, 0.97, 0.98, 0.99)
PLATEAU_COST = 0.2
"""A plateau begins where the next percent of the objective takes more than this share of the total cost."""


def timeliness(
    curve: object, stop: float | None = None, *, fraction: float | None = None, interpolation: Interpolation = "step"
) -> float:
    """Return the mean of a curve over budgets spread evenly from 0 to a stopping cost.

    For a curve of the explained fraction F/R(∅) this is the paper's timeliness: the area under F against cost up to the
    stopping cost T, divided by T·R(∅),

        (1/T) ∫₀ᵀ v(B) dB.

    Beyond the last point the curve stays at its last value. For T = 0 it is v(0), what free groups bring.

    Parameters
    ----------
    curve : BudgetCurve, GroupSequence or fitted model
        Of a sequence or model, the training curve.
    stop : float, optional
        The stopping cost T; default: the cost of the whole curve. To compare methods, give all of them the same. (A
        certificate's default is the cost of all groups, which is the same unless the sequence ended early.)
    fraction : float in [0, 1], optional
        Instead of ``stop``: stop at the :func:`stopping_cost` of this curve, the paper's α-stopping cost.
    interpolation : {"step", "linear"}
        "step" counts a group once it has been paid for; "linear" joins the points by straight lines, as in the paper's
        tables.

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
            raise ValueError("give at most one of stop and fraction")
        stop = stopping_cost(curve, fraction)
    demand = Demand.of(curve.total_cost, stop, None, None, interpolation)
    if curve.folds:
        return float(np.mean([timeliness(fold, demand.stop, interpolation=interpolation) for fold in curve.folds]))
    paid = demand.weights(curve.costs[:-1], curve.costs[1:])  # the share of the budgets that pay for each step
    shares = -np.diff(np.concatenate([[1.0], paid, [0.0]]))
    return float(curve.values[shares > 0] @ shares[shares > 0])


def stopping_cost(curve: object, fraction: float) -> float:
    """Return the first cost at which a curve has made a fraction of its whole improvement: the α-stopping cost.

    The paper takes it from the training curve of CS-G-OMP (``rule="omp"``) and applies it to every method. For fraction
    1 it is the cost of the whole curve.

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
    check_number("fraction", fraction, ge=0, le=1)
    if fraction == 1:
        return float(curve.total_cost)
    gain = curve.improvement()
    if not np.isfinite(gain).all():
        raise ValueError(f"the curve has values that are not finite: {curve.metric} has no stopping cost")
    needed = float(fraction) * gain[-1]
    return float(curve.costs[np.argmax(gain >= needed - SLACK * abs(needed))])


def plateau(curve: object) -> float:
    """Return the fraction α of its improvement at which a curve has reached its plateau.

    The smallest α of 0.95, 0.96, …, 0.99 for which the next percent takes more than 20 % of the total cost,

        cost(α + 0.01) − cost(α) > 0.2 · total cost,

    with ``cost(α)`` the :func:`stopping_cost`; 1 if there is none.

    Parameters
    ----------
    curve : BudgetCurve, GroupSequence or fitted model
        The paper's rule looks at the training curve of CS-G-OMP.

    Examples
    --------
    >>> from budgetline import BudgetCurve
    >>> from budgetline.evaluation import plateau
    >>> plateau(BudgetCurve([0, 1, 2, 5], [0.0, 0.5, 0.975, 1.0]))
    0.97
    """
    curve = BudgetCurve.of(curve)
    costs = [stopping_cost(curve, fraction) for fraction in (*PLATEAUS, 1.0)]
    steps = np.diff(costs) > PLATEAU_COST * curve.total_cost * (1 + SLACK)
    return PLATEAUS[int(np.argmax(steps))] if steps.any() else 1.0
