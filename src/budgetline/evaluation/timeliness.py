"""One number for a whole curve of quality against cost."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike


def mean_over_budgets(cumulative_costs: ArrayLike, values: ArrayLike, total: float | None = None) -> float:
    """Mean of a step curve over budgets spread evenly from 0 to ``total``.

    With the value v_j from cost c_j on, v_0 from c_0 = 0 on, and c_{J+1} = T the total,

        (1/T) Σ_j v_j (c_{j+1} − c_j).

    If everything is free (T = 0), the last value.

    Parameters
    ----------
    cumulative_costs : array of shape (J,)
        Total cost after each stage, not decreasing.
    values : array of shape (J + 1,)
        Value before any group, then after each stage.
    total : float, optional
        The largest budget, at least the last cost; None: the last cost.

    Examples
    --------
    >>> from budgetline.evaluation import mean_over_budgets
    >>> mean_over_budgets([1.0, 4.0], [0.0, 0.5, 1.0])
    0.375
    """
    ends = np.asarray(cumulative_costs, dtype=np.float64)
    levels = np.asarray(values, dtype=np.float64)
    if levels.size != ends.size + 1:
        raise ValueError(f"{ends.size} costs need {ends.size + 1} values, got {levels.size}")
    last = float(ends[-1]) if ends.size else 0.0
    total = last if total is None else float(total)
    if total < last * (1 - 1e-12):
        raise ValueError(f"total must be at least the last cost {last:g}, got {total:g}")
    if total == 0:
        return float(levels[-1])
    widths = np.diff(ends, prepend=0.0, append=total)
    return float(levels @ widths / total)
