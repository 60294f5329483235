"""What a report says, as plain records: numbers, strings and tuples of them. Unknown values are None."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import prod

import numpy as np

from budgetline.budgets import affordable, points_of_stages
from budgetline.evaluation.pictures import Axis
from budgetline.messages import shown
from budgetline.report.thresholds import Probabilities

SCHEMA = 1
"""Version of the record. Files of other versions are refused."""
TRAINING, CROSS_VALIDATED, BOUND, PLANS = "training", "cross-validated", "bound", "plans"
ROUNDING = 1e-6
"""Figures of a certificate that follow from each other agree to this tolerance."""

Figures = tuple[float | None, ...]


@dataclass(frozen=True)
class TaskSummary:
    """What is predicted; ``kind`` is "regression" or "classification"."""

    kind: str
    estimator: str
    loss: str
    classes: tuple[str, ...]


@dataclass(frozen=True)
class Amount:
    """A named number: the mean of a target, or the frequency of a class."""

    name: str
    value: float | None


@dataclass(frozen=True)
class DataSummary:
    """The training data. ``rows`` is None if unknown; ``groups`` does not count ``pairs`` of columns."""

    rows: int | None
    columns: int
    groups: int
    pairs: int
    weighted: bool
    target: tuple[Amount, ...]


@dataclass(frozen=True)
class SettingText:
    """A setting of the estimator, as text."""

    name: str
    value: str


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
    """One step of the order; ``agreement`` counts the folds that bought the group by this cost."""

    step: int
    group: str
    columns: int
    cost: float
    cumulative_cost: float
    gain: float | None
    explained: float | None
    agreement: int | None


@dataclass(frozen=True)
class ReportCurve:
    """Values of the metric against cost, a step function; the first point is the model without groups.

    The kind is "training" (a point per stage), "cross-validated" (a point at every cost of any fold), "plans", or
    "bound": the bound of a certificate, which holds up to and including the next cost. ``errors`` may be empty.
    """

    kind: str
    label: str
    costs: tuple[float, ...]
    values: Figures
    errors: Figures

    def __post_init__(self) -> None:
        if self.costs[:1] != (0,):
            raise ValueError("costs must start at 0, before any group")
        if list(self.costs) != sorted(self.costs):
            raise ValueError("costs must not decrease")
        _check_length("values", self.values, len(self.costs))
        _check_length("errors", self.errors or self.values, len(self.costs))

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

    def __post_init__(self) -> None:
        _check_length("budgets", self.budgets, len(self.shares))
        if not self.methods:
            raise ValueError("methods must not be empty")
        for k, method in enumerate(self.methods):
            _check_length(f"methods[{k}].values", method.values, len(self.shares))
            _check_length(f"methods[{k}].errors", method.errors, len(self.shares))


@dataclass(frozen=True)
class CertifiedShare:
    """What was achieved, a bound on what can be achieved, and their ratio; 1 where nothing can be achieved."""

    achieved: float
    bound: float
    ratio: float

    def __post_init__(self) -> None:
        if not -ROUNDING <= self.achieved <= self.bound + ROUNDING:
            raise ValueError(f"achieved must be between 0 and the bound, got {self.achieved:g} for {self.bound:g}")
        expected = min(max(self.achieved / self.bound, 0.0), 1.0) if self.bound > ROUNDING else self.ratio
        if not 0 <= self.ratio <= 1 or abs(self.ratio - expected) > ROUNDING:
            raise ValueError(f"ratio must be achieved over bound, {expected:g}, got {self.ratio:g}")


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

    def __post_init__(self) -> None:
        if not self.budgets:
            raise ValueError("budgets must not be empty")
        if self.curve is not None:
            values = [value for value in self.curve.values if value is not None]
            if self.curve.kind != BOUND or len(values) < len(self.curve.values) or self.curve.errors:
                raise ValueError(f"curve must be of kind {shown(BOUND)}, with all values known and no errors")
            if values != sorted(values):
                raise ValueError("curve: a bound must not decrease")


@dataclass(frozen=True)
class Purchase:
    """Groups that are bought together."""

    groups: tuple[str, ...]
    cost: float


@dataclass(frozen=True)
class KnownBudgets:
    """What a budget buys if it is known in advance: the best sets that were found for some budgets.

    ``sets`` are those of the model, the cheapest first; some are prefixes of the order. A budget buys the last set that
    it can pay for. ``curve``, of kind "plans", is what to expect: cross-validated, each fold with its own sets.
    """

    budgets: tuple[float, ...]
    sets: tuple[Purchase, ...]
    curve: ReportCurve

    def __post_init__(self) -> None:
        costs = [each.cost for each in self.sets]
        if not costs or costs != sorted(costs) or costs[0] < 0:
            raise ValueError("sets must not be empty, and their costs must not decrease")
        if self.curve.kind != PLANS:
            raise ValueError(f"curve must be of kind {shown(PLANS)}")

    def at(self, budget: float) -> Purchase | None:
        """Return the set that a budget buys; None if it cannot pay for any."""
        last = int(affordable(np.array([each.cost for each in self.sets]), budget))
        return self.sets[last - 1] if last else None


@dataclass(frozen=True)
class SharedBy:
    """A cost that several groups share; the first of them pays it."""

    name: str
    cost: float
    groups: tuple[str, ...]


@dataclass(frozen=True)
class RequiredGroups:
    """A group, and the groups that must be bought before it."""

    group: str
    groups: tuple[str, ...]


@dataclass(frozen=True)
class EffectRecord:
    """What a column, or a pair of columns, adds to a score at a stage.

    ``output`` names the score, if there are several. ``values`` are those at the points of the column; for a pair,
    those at the points of the second column for each point of the first.
    """

    group: str
    axes: tuple[Axis, ...]
    output: str
    values: tuple[float, ...]

    def __post_init__(self) -> None:
        if len(self.axes) not in (1, 2) or not all(map(len, self.axes)):
            raise ValueError("axes must be one or two columns, each with points")
        _check_length("values", self.values, prod(map(len, self.axes)))

    @property
    def name(self) -> str:
        """The column, or both columns of a pair."""
        return " × ".join(axis.column for axis in self.axes)


@dataclass(frozen=True)
class Content:
    """Everything that a report says; :class:`budgetline.Report` renders it."""

    title: str
    version: str
    date: str
    unit: str
    task: TaskSummary
    data: DataSummary
    settings: tuple[SettingText, ...]
    measure: Measure
    sequence: tuple[OrderStep, ...]
    left_out: tuple[str, ...]
    curves: tuple[ReportCurve, ...]
    comparison: ComparedMethods | None
    certificate: CertifiedOrder | None
    shared: tuple[SharedBy, ...]
    required: tuple[RequiredGroups, ...]
    effects: tuple[EffectRecord, ...]
    effects_in_all: int
    plans: KnownBudgets | None
    probabilities: Probabilities | None

    def __post_init__(self) -> None:
        kinds = [curve.kind for curve in self.curves]
        if TRAINING not in kinds:
            raise ValueError(f"curves must hold one of kind {shown(TRAINING)}")
        if len(set(kinds)) < len(kinds):
            raise ValueError("curves must be of different kinds")
        if self.training_curve.costs != (0.0, *(step.cumulative_cost for step in self.sequence)):
            raise ValueError(f"curves: the {TRAINING} one must have the costs of the sequence")
        if any(step.step != k for k, step in enumerate(self.sequence, start=1)):
            raise ValueError("sequence must have the steps 1, 2, …, in order")
        if self.certificate is not None:
            self._check_certificate(self.certificate)
        if self.plans is not None:
            self._check_plans(self.plans)
        if self.probabilities is not None and (len(self.task.classes) != 2 or not self.measure.folds):
            raise ValueError("probabilities must be null unless there are folds and two classes")

    def _check_certificate(self, found: CertifiedOrder) -> None:
        total = self.total_cost
        for each in found.budgets:
            if not 0 <= each.share <= 1 or abs(each.budget - each.share * total) > ROUNDING * total:
                raise ValueError(f"certificate: budgets must be shares of the total cost, got {each.budget:g}")
        if found.curve is not None and self.measure.name != "explained":
            raise ValueError(f"certificate: there is no curve of a bound on {shown(self.measure.name)}")
        if found.curve is not None and abs(found.curve.costs[-1] - total) > ROUNDING * total:
            raise ValueError("certificate: the curve must end at the total cost")

    def _check_plans(self, found: KnownBudgets) -> None:
        if not self.measure.folds:
            raise ValueError("plans must be null without folds")
        names = {step.group for step in self.sequence}
        if unknown := [name for each in found.sets for name in each.groups if name not in names]:
            raise ValueError(f"plans: group {shown(unknown[0])} is not in the sequence")

    @property
    def total_cost(self) -> float:
        """The cost of the whole sequence."""
        return self.training_curve.costs[-1]

    @property
    def training_curve(self) -> ReportCurve:
        """The fitted model on its training data."""
        return next(curve for curve in self.curves if curve.kind == TRAINING)

    @property
    def main_curve(self) -> ReportCurve:
        """The curve to rely on: cross-validated if there is one."""
        return next((curve for curve in self.curves if curve.kind == CROSS_VALIDATED), self.training_curve)

    @property
    def rows_judged(self) -> str:
        """The rows that the main curve is about: "held-out" or "training"."""
        return "held-out" if self.main_curve.kind == CROSS_VALIDATED else "training"

    @property
    def equal_costs(self) -> bool:
        """Whether all groups of the sequence cost the same, or nothing."""
        return len({step.cost for step in self.sequence} - {0.0}) <= 1

    def stage_at(self, budget: float) -> int:
        """Return how many groups a budget buys in the order of the sequence."""
        return int(affordable(np.array(self.training_curve.costs[1:]), budget))

    def prefix(self, stage: int) -> tuple[str, ...]:
        """Return the first groups of the sequence."""
        return tuple(step.group for step in self.sequence[:stage])

    @cached_property
    def points(self) -> tuple[int, ...]:
        """The point of the main curve that belongs to each stage."""
        stages, costs = np.array(self.training_curve.costs), np.array(self.main_curve.costs)
        return tuple(points_of_stages(stages, costs).tolist())

    @cached_property
    def expected(self) -> tuple[tuple[float | None, float | None], ...]:
        """Value and standard error of the main curve at every stage."""
        return tuple(map(self.main_curve.point, self.points))


def _check_length(name: str, entries: Figures, length: int) -> None:
    if len(entries) != length:
        raise ValueError(f"{name} must have {length} entries, got {len(entries)}")
