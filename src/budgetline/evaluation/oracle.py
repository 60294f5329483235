"""The paper's Oracle: a curve whose steps are sorted by what they bring per cost."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from budgetline.budgets import Rates
from budgetline.evaluation.curve import BudgetCurve


def oracle_curve(curve: object) -> BudgetCurve:
    """Return the paper's Oracle: the steps of a curve sorted by improvement per cost, as if they could be reordered.

    This is a heuristic, not an upper bound: gains change when groups are reordered, and a better sequence may exist.
    For at most 18 groups :func:`best_sequence` is the truth.

    Parameters
    ----------
    curve : BudgetCurve, GroupSequence or fitted model

    Examples
    --------
    >>> from budgetline import BudgetCurve
    >>> from budgetline.evaluation import oracle_curve
    >>> oracle = oracle_curve(BudgetCurve([0, 2, 3], [0.0, 0.2, 1.0]))
    >>> oracle.costs.tolist(), oracle.values.tolist(), oracle.label
    ([0.0, 1.0, 3.0], [0.0, 0.8, 1.0], 'oracle (heuristic)')
    """
    base = BudgetCurve.of(curve)
    costs = np.diff(base.costs)
    order = Rates.of(np.diff(base.improvement()), costs).order()
    return replace(
        base,
        costs=np.concatenate([[0.0], np.cumsum(costs[order])]),
        values=base.values[0] + np.concatenate([[0.0], np.cumsum(np.diff(base.values)[order])]),
        groups=("", *(base.groups[1 + k] for k in order)) if base.groups else (),
        label=f"{base.label} oracle (heuristic)".strip(),
        folds=(),
        errors=None,
    )
