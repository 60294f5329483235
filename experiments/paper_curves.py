"""Quantities of a curve that only the paper uses: the Oracle and the plateau."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from budgetline import BudgetCurve, stopping_cost
from budgetline.budgets import SLACK, rates_of

PLATEAUS = (0.95, 0.96, 0.97, 0.98, 0.99)
PLATEAU_COST = 0.2
"""A plateau begins where the next percent of the objective costs more than this share of the total cost."""


def oracle_curve(curve: object) -> BudgetCurve:
    """Return the paper's Oracle: the steps of a curve sorted by improvement per cost, as if they could be reordered.

    This is a heuristic, not an upper bound: gains change when groups are reordered, and a better sequence may exist.
    `budgetline.certify` proves a bound.

    Examples
    --------
    >>> from budgetline import BudgetCurve
    >>> from paper_curves import oracle_curve
    >>> oracle = oracle_curve(BudgetCurve([0, 2, 3], [0.0, 0.2, 1.0]))
    >>> oracle.costs.tolist(), oracle.values.tolist(), oracle.label
    ([0.0, 1.0, 3.0], [0.0, 0.8, 1.0], 'oracle (heuristic)')
    """
    base = BudgetCurve.of(curve)
    order = np.argsort(-rates_of(np.diff(base.improvement()), np.diff(base.costs)), kind="stable")
    costs, gains = (np.append(0.0, np.cumsum(np.diff(each)[order])) for each in (base.costs, base.values))
    groups = ("", *(base.groups[1 + k] for k in order)) if base.groups else ()
    label = f"{base.label} oracle (heuristic)".strip()
    return replace(base, costs=costs, values=base.values[0] + gains, groups=groups, label=label, folds=(), errors=None)


def plateau(curve: object) -> float:
    """Return the fraction α of its improvement at which a curve has reached its plateau.

    Let cost(α) be the `stopping_cost`. The plateau begins at the smallest α of 0.95, 0.96, …, 0.99 for which
    cost(α + 0.01) − cost(α) is above 20 % of the total cost, or at 1. The paper uses the training curve of CS-G-OMP.

    Examples
    --------
    >>> from budgetline import BudgetCurve
    >>> from paper_curves import plateau
    >>> plateau(BudgetCurve([0, 1, 2, 5], [0.0, 0.5, 0.975, 1.0]))
    0.97
    """
    curve = BudgetCurve.of(curve)
    costs = [stopping_cost(curve, fraction) for fraction in (*PLATEAUS, 1.0)]
    steps = np.diff(costs) > PLATEAU_COST * curve.total_cost * (1 + SLACK)
    return PLATEAUS[int(np.argmax(steps))] if steps.any() else 1.0
