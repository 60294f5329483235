"""What a report says about budgets that are known in advance: good sets, judged on the folds of the curve."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from budgetline.evaluation import BudgetCurve
from budgetline.evaluation.comparison import Samples
from budgetline.model.anytime import as_model
from budgetline.optimality.known_budgets import known_sets

N_BUDGETS = 12
"""Sets are searched for this many budgets, which are close to each other where budgets are small."""


@dataclass(frozen=True)
class PlansOnFolds:
    """Searches each fold's model of a method for good sets, and judges them on the held-out rows."""

    method: str
    metric: Any
    total: float
    seconds: float
    curves: list[BudgetCurve] = field(default_factory=list)

    @property
    def budgets(self) -> tuple[float, ...]:
        """The budgets that are searched."""
        shares = (np.arange(1, N_BUDGETS + 1) / (N_BUDGETS + 1)) ** 2
        return tuple((self.total * shares).tolist())

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
