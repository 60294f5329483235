"""Costs and budgets: what is affordable, and how a curve of quality against cost is read between its points."""

from __future__ import annotations

from numbers import Real
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

SLACK = 1e-12
"""Costs that differ by less than this, relatively, are equal: 0.1 + 0.2 must be affordable at 0.3."""
Reading = Literal["step", "linear"]
"""A budget between two points buys the lower one (step), or something between them (linear)."""


def affordable(cumulative_costs: NDArray[np.float64], budget: ArrayLike) -> NDArray[np.intp]:
    """Return how many of the costs, which do not decrease, are within each budget.

    Examples
    --------
    >>> import numpy as np
    >>> from budgetline.budgets import affordable
    >>> affordable(np.array([0.1, 0.1 + 0.2]), [0.0, 0.2, 0.3]).tolist()
    [0, 1, 2]
    """
    return np.searchsorted(cumulative_costs, np.asarray(budget, dtype=np.float64) * (1 + SLACK), side="right")


def check_reading(reading: Any) -> None:
    """Raise an error unless ``reading`` is one of the two ways to read a curve."""
    if reading not in get_args(Reading):
        raise ValueError(f"reading must be 'step' or 'linear', got {reading!r}")


def check_stop(stop: Any) -> float:
    """Return a stopping cost, a finite number ≥ 0."""
    if isinstance(stop, bool) or not isinstance(stop, Real) or not 0 <= float(stop) < np.inf:
        raise ValueError(f"stop must be a finite cost ≥ 0, got {stop!r}")
    return float(stop)
