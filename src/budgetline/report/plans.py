"""What a report says about budgets that are known in advance: good sets, judged on the folds of the curve."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from itertools import pairwise

import numpy as np

from budgetline.evaluation import BudgetCurve
from budgetline.evaluation.resampling import Samples
from budgetline.model.anytime import as_model
from budgetline.optimality.known_budgets import known_sets

N_BUDGETS = 10
"""Sets are searched for this many budgets."""
BELOW = 1 - 1e-9


def budgets_between(costs: Sequence[float]) -> tuple[float, ...]:
    """Return budgets at which an order leaves much unspent, for the costs of its stages.

    They are just below the costs at the upper ends of the widest gaps, and of the lower halves of such gaps. Gaps are
    measured between square roots, so that small budgets count.
    """
    roots = np.sqrt(costs).tolist()
    gaps = [(low - high, high) for low, high in pairwise([0.0, *roots]) if high > low]  # the widest first
    heapify(gaps)
    found = list[float]()
    while gaps and len(found) < N_BUDGETS:
        width, high = heappop(gaps)
        found.append(BELOW * high**2)
        heappush(gaps, (width / 2, high + width / 2))
    return tuple(sorted(found))


@dataclass(frozen=True)
class PlansOnFolds:
    """Searches each fold's model of a method for good sets, and judges them on the held-out rows."""

    method: str
    metric: object
    budgets: tuple[float, ...]
    seconds: float
    curves: list[BudgetCurve] = field(default_factory=list)

    def watch(self, name: str, fitted: object, rows: Samples) -> None:
        """Look at a method that was fitted to a fold."""
        if name == self.method:
            found = known_sets(as_model(fitted), self.budgets, self.seconds)
            self.curves.append(found.curve(fitted, rows.X, rows.y, self.metric, rows.weight))

    def sets(self, fitted: object) -> tuple[tuple[tuple[str, ...], float], ...]:
        """Return groups and costs of the sets of the model itself; nothing if all are prefixes of its sequence."""
        model = as_model(fitted)
        found = known_sets(model, self.budgets, self.seconds)
        if all(groups == model.sequence.groups[: len(groups)] for groups in found.groups):
            return ()
        return tuple(zip(found.groups, found.costs.tolist(), strict=True))
