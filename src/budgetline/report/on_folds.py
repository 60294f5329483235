"""What a report learns from the models of the folds: their sets for known budgets, and their probabilities."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from itertools import pairwise

import numpy as np

from budgetline.arrays import Float
from budgetline.budgets import affordable
from budgetline.evaluation import BudgetCurve
from budgetline.evaluation.held_out import HeldOut
from budgetline.evaluation.resampling import Samples
from budgetline.model.anytime import as_model
from budgetline.optimality.known_budgets import known_sets
from budgetline.report.builders import curve_record
from budgetline.report.content import PLANS, KnownBudgets, Purchase
from budgetline.report.thresholds import Probabilities, StageCounts

N_BUDGETS = 10
"""Sets are searched for this many budgets."""
BELOW = 1 - 1e-9
MOST_STAGES = 40
"""Probabilities are counted at this number of stages at most, evenly spread."""
FINE = (0.001, 0.002, 0.003, 0.005, 0.007)
"""Thresholds below 1 %, and above 99 % mirrored: rare classes have small probabilities."""
THRESHOLDS = np.array([*FINE, *np.arange(1, 100) / 100, *(1 - np.array(FINE[::-1]))]).round(3)


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
    """Searches the models of the folds for good sets at some budgets, and judges the sets on the held-out rows."""

    metric: object
    budgets: tuple[float, ...]
    seconds: float
    curves: list[BudgetCurve] = field(default_factory=list)

    def watch(self, fitted: object, rows: Samples) -> None:
        """Look at the model of a fold."""
        found = known_sets(as_model(fitted), self.budgets, self.seconds)
        self.curves.append(found.curve(fitted, rows.X, rows.y, self.metric, rows.weight))

    def record(self, fitted: object) -> KnownBudgets | None:
        """Return the sets of the model itself and their curve; None if all sets are prefixes of its sequence."""
        model = as_model(fitted)
        found = known_sets(model, self.budgets, self.seconds)
        if all(groups == model.sequence.groups[: len(groups)] for groups in found.groups):
            return None
        label = "held-out, if the budget is fixed beforehand: the best set found for it"
        mean = curve_record(PLANS, label, BudgetCurve.mean(self.curves))
        return KnownBudgets(self.budgets, tuple(map(Purchase, found.groups, found.costs.tolist())), mean)


@dataclass(frozen=True)
class ProbabilitiesOnFolds:
    """Counts held-out rows of each class by the probability that the model of their fold predicts for the second class.

    ``costs`` are those of the stages of the model, from 0 on. At each, a fold buys what it can in its own order.
    """

    costs: tuple[float, ...]
    tables: list[Float] = field(default_factory=list)

    @property
    def stages(self) -> list[int]:
        """The stages that are counted."""
        last = len(self.costs) - 1
        return sorted({round(k) for k in np.linspace(0, last, min(last + 1, MOST_STAGES)).tolist()})

    def watch(self, fitted: object, rows: Samples) -> None:
        """Look at the model of a fold: add counts of shape (stages, 2 classes, bins)."""
        held = HeldOut.of(fitted, rows.X, rows.y, rows.weight)
        after = affordable(held.model.sequence.cumulative_costs, np.array([self.costs[k] for k in self.stages]))
        after[0] = 0  # not even free groups
        positive = held.targets[:, 0] > 0.5
        weight = np.ones(positive.size) if held.weight is None else held.weight
        found = np.zeros((after.size, 2, THRESHOLDS.size + 1))
        for stage, view in enumerate(held.views()):
            if not (here := np.flatnonzero(after == stage)).size:
                continue
            bins = np.searchsorted(THRESHOLDS, view.respond("predict_proba")[:, 1], side="right")
            for k, members in enumerate((~positive, positive)):
                found[here, k] = np.bincount(bins[members], weight[members], THRESHOLDS.size + 1)
        self.tables.append(found)

    def record(self) -> Probabilities:
        """Return the counts over all folds, to six digits."""
        total = [[[float(f"{n:.6g}") for n in row] for row in table] for table in np.sum(self.tables, axis=0).tolist()]
        stages = (StageCounts(k, *map(tuple, table)) for k, table in zip(self.stages, total, strict=True))
        return Probabilities(tuple(THRESHOLDS.tolist()), tuple(stages))
