"""What a classifier of two classes predicts for held-out rows: counts by probability, at the stages of a report."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from budgetline.arrays import Float
from budgetline.budgets import affordable
from budgetline.evaluation.held_out import HeldOut
from budgetline.evaluation.resampling import Samples
from budgetline.report.thresholds import Probabilities, StageCounts

MOST_STAGES = 40
"""Stages of which a report keeps counts, evenly spread."""
FINE = (0.001, 0.002, 0.003, 0.005, 0.007)
"""Thresholds below 1 %, and above 99 % mirrored: rare classes have small probabilities."""
THRESHOLDS = np.array([*FINE, *np.arange(1, 100) / 100, *(1 - np.array(FINE[::-1]))]).round(3)


@dataclass(frozen=True)
class ProbabilitiesOnFolds:
    """Counts held-out rows of each class by the probability that the model of their fold predicts for the second class.

    ``costs`` are those of the stages of the model, from 0 on. At each, a fold buys what it can in its own order.
    """

    method: str
    costs: tuple[float, ...]
    tables: list[Float] = field(default_factory=list)

    @property
    def stages(self) -> list[int]:
        """The stages that are counted."""
        last = len(self.costs) - 1
        return sorted({round(k) for k in np.linspace(0, last, min(last + 1, MOST_STAGES)).tolist()})

    def watch(self, name: str, fitted: object, rows: Samples) -> None:
        """Look at a method that was fitted to a fold: counts of shape (stages, 2 classes, bins)."""
        if name != self.method:
            return
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

    def counts(self) -> Probabilities:
        """Return the counts over all folds."""
        total = np.sum(self.tables, axis=0)
        stages = (StageCounts(k, *map(_short, table)) for k, table in zip(self.stages, total, strict=True))
        return Probabilities(tuple(THRESHOLDS.tolist()), tuple(stages))


def _short(counts: Float) -> tuple[float, ...]:
    return tuple(float(f"{count:.6g}") for count in counts.tolist())
