"""What a report says, as plain records: numbers, strings and tuples of them. Unknown values are None."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from budgetline.budgets import affordable, points_of_stages
from budgetline.evaluation.pictures import ScoreEffect, pictures, survival_picture

TRAINING, CROSS_VALIDATED, BOUND = "training", "cross-validated", "bound"

Figures = tuple[float | None, ...]


@dataclass(frozen=True)
class TaskSummary:
    """What is predicted; ``kind`` is "regression" or "classification"."""

    kind: str
    estimator: str
    loss: str
    classes: tuple[str, ...]


@dataclass(frozen=True)
class DataSummary:
    """The training data. ``rows`` is None if unknown; ``groups`` does not count ``pairs`` of columns.

    ``target`` has means of targets or frequencies of classes, by name.
    """

    rows: int | None
    columns: int
    groups: int
    pairs: int
    weighted: bool
    target: dict[str, float | None]


@dataclass(frozen=True)
class Measure:
    """The metric of the curves; ``style`` is "percent", "fixed" or "general"; ``folds`` is 0 without data.

    ``folds_made`` says how the rows were divided into folds.
    """

    name: str
    label: str
    style: str
    greater_is_better: bool
    folds: int
    folds_made: str


@dataclass(frozen=True)
class OrderStep:
    """One step of the order; in ``agreement`` of ``folds`` folds the group was bought by this cost."""

    step: int
    group: str
    columns: int
    cost: float
    cumulative_cost: float
    gain: float | None
    explained: float | None
    agreement: int | None
    folds: int


@dataclass(frozen=True)
class ReportCurve:
    """Values of the metric against cost, a step function; the first point is the model without groups.

    The kind is "training" (a point per stage), "cross-validated" (a point at every cost of any fold), or
    "bound", which holds up to and including the next cost. ``errors`` may be empty.
    """

    kind: str
    label: str
    costs: tuple[float, ...]
    values: Figures
    errors: Figures

    def at(self, budget: float) -> tuple[float | None, float | None]:
        """Return the value at a budget, and its standard error: those of the last affordable point."""
        return self.point(int(affordable(np.array(self.costs), budget)) - 1)

    def point(self, k: int) -> tuple[float | None, float | None]:
        """Return the value of a point, and its standard error."""
        return self.values[k], self.errors[k] if self.errors else None


@dataclass(frozen=True)
class ComparedMethod:
    """A way to order the groups, cross-validated, with its values at the budgets of the comparison."""

    name: str
    note: str
    timeliness: float | None
    timeliness_error: float | None
    values: Figures
    errors: Figures


@dataclass(frozen=True)
class ComparedMethods:
    """The model's own way to order the groups, first, and others, at shares of the total cost."""

    shares: tuple[float, ...]
    budgets: tuple[float, ...]
    methods: tuple[ComparedMethod, ...]


@dataclass(frozen=True)
class CertifiedShare:
    """What was achieved, a bound on what can be achieved, and their ratio; 1 where nothing can be achieved."""

    achieved: float
    bound: float
    ratio: float


@dataclass(frozen=True)
class CertifiedBudget(CertifiedShare):
    """What is certified at a budget, a share of the total cost."""

    share: float
    budget: float


@dataclass(frozen=True)
class CertifiedOrder:
    """How close the order is to optimal: F/R(∅) of the training data, with the ridge penalty.

    ``timeliness`` averages over all budgets; its bound is for every order. ``curve`` is the bound at every budget,
    None where the curves show another metric, or where the only bound is that of all groups.
    """

    budgets: tuple[CertifiedBudget, ...]
    timeliness: CertifiedShare
    notes: tuple[str, ...]
    curve: ReportCurve | None


@dataclass(frozen=True)
class StageCounts:
    """Held-out rows of the first and the second class after a stage, by bins of probability; weighted if rows are."""

    stage: int
    first: tuple[float, ...]
    second: tuple[float, ...]


@dataclass(frozen=True)
class Probabilities:
    """Held-out probabilities of the second of two classes, in bins between ``thresholds``, at some stages."""

    thresholds: tuple[float, ...]
    stages: tuple[StageCounts, ...]

    def at(self, stage: int) -> StageCounts:
        """Return the counts at the last stage that is not later."""
        return [each for each in self.stages if each.stage <= stage][-1]

    def called(self, stage: int, k: int) -> Figures:
        """Return what the k-th threshold does after a stage, as shares, None where there are no rows.

        They are the rows called the second class, sensitivity, specificity, and the two predictive values.
        """
        counts = self.at(stage)
        wrong, right = sum(counts.first[k + 1 :]), sum(counts.second[k + 1 :])
        spared, missed = sum(counts.first[: k + 1]), sum(counts.second[: k + 1])
        pairs = ((wrong + right, spared + missed), (right, missed), (spared, wrong), (right, wrong), (spared, missed))
        return tuple(a / (a + b) if a + b > 0 else None for a, b in pairs)


@dataclass(frozen=True)
class StageInterval:
    """After a stage, targets lie from ``lower`` to ``upper`` around the prediction; ``covered`` is the measured share.

    ``error`` is its standard error.
    """

    stage: int
    lower: float
    upper: float
    covered: float
    error: float


@dataclass(frozen=True)
class Intervals:
    """Intervals that hold a share of the targets of held-out rows, at some stages."""

    coverage: float
    stages: tuple[StageInterval, ...]


@dataclass(frozen=True)
class RiskGroup:
    """Held-out rows of one third of the risks at a budget; the shares without an event up to some times."""

    budget: float
    name: str
    rows: int
    events: int
    observed: tuple[float, ...]
    predicted: tuple[float, ...]


@dataclass(frozen=True)
class RiskGroups:
    """Thirds of the held-out risks at some budgets: survival as observed (Kaplan-Meier) and predicted, at ``times``."""

    times: tuple[float, ...]
    groups: tuple[RiskGroup, ...]

    @property
    def pictures(self) -> dict[float, str]:
        """Survival functions as SVG, by budget."""
        by_budget: dict[float, list[tuple[str, tuple[float, ...], tuple[float, ...]]]] = {}
        for group in self.groups:
            by_budget.setdefault(group.budget, []).append((group.name, group.observed, group.predicted))
        return {budget: survival_picture(self.times, several) for budget, several in by_budget.items()}


@dataclass(frozen=True)
class Content:
    """Everything that a report says; `budgetline.Report` renders it."""

    title: str
    version: str
    date: str
    unit: str
    task: TaskSummary
    data: DataSummary
    settings: dict[str, str]
    measure: Measure
    sequence: tuple[OrderStep, ...]
    left_out: tuple[str, ...]
    curves: tuple[ReportCurve, ...]
    shared: dict[str, tuple[float, tuple[str, ...]]]
    required: dict[str, tuple[str, ...]]
    comparison: ComparedMethods | None = None
    certificate: CertifiedOrder | None = None
    effects: tuple[ScoreEffect, ...] = ()
    effects_in_all: int = 0
    probabilities: Probabilities | None = None
    risks: RiskGroups | None = None
    intervals: Intervals | None = None
    other_data: str = ""

    @property
    def total_cost(self) -> float:
        """The cost of the whole sequence."""
        return self.training_curve.costs[-1]

    @property
    def training_curve(self) -> ReportCurve:
        """The curve of the fitted model on its training data."""
        return self.curves[0]

    @property
    def main_curve(self) -> ReportCurve:
        """The curve to rely on: the cross-validated curve if there is one, otherwise the training curve."""
        return self.curves[-1]

    @property
    def rows_evaluated(self) -> str:
        """The rows on which the main curve is evaluated: "held-out" or "training"."""
        return "held-out" if self.main_curve.kind == CROSS_VALIDATED else "training"

    @property
    def pictures(self) -> list[str]:
        """The effects as SVG, on common axes."""
        return pictures(self.effects)

    @property
    def equal_costs(self) -> bool:
        """Whether all groups of the sequence have the same cost, apart from free groups."""
        return len({step.cost for step in self.sequence} - {0.0}) <= 1

    def stage_at(self, budget: float) -> int:
        """Return the last stage that a budget pays for."""
        return int(affordable(np.array(self.training_curve.costs[1:]), budget))

    def bought_after(self, stage: int) -> int:
        """Return how many groups are bought up to a stage; pairs of columns are free and are not counted."""
        return sum(step.columns > 0 for step in self.sequence[:stage])

    def prefix(self, stage: int) -> tuple[str, ...]:
        """Return the first ``stage`` groups of the sequence."""
        return tuple(step.group for step in self.sequence[:stage])

    @cached_property
    def points(self) -> tuple[int, ...]:
        """The position of each stage's point in the main curve."""
        stages, costs = np.array(self.training_curve.costs), np.array(self.main_curve.costs)
        return tuple(points_of_stages(stages, costs).tolist())

    @cached_property
    def expected(self) -> tuple[tuple[float | None, float | None], ...]:
        """The value and the standard error of the main curve at every stage."""
        return tuple(map(self.main_curve.point, self.points))
