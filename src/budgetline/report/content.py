"""What a report says, as plain records: numbers, strings and tuples of them. Whatever is unknown is None."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from budgetline.budgets import affordable

SCHEMA = 1
"""Version of the record; files of a newer one are refused."""
TRAINING = "training"
CROSS_VALIDATED = "cross-validated"


@dataclass(frozen=True)
class Task:
    """What is predicted: kind is "regression" or "classification"."""

    kind: str
    estimator: str
    loss: str
    classes: tuple[str, ...]


@dataclass(frozen=True)
class Amount:
    """A number with a name: the mean of a target, or the frequency of a class."""

    name: str
    value: float | None


@dataclass(frozen=True)
class Data:
    """What was learned from; ``rows`` is None where nobody knows."""

    rows: int | None
    columns: int
    groups: int
    weighted: bool
    target: tuple[Amount, ...]


@dataclass(frozen=True)
class Setting:
    """A setting of the estimator, as text."""

    name: str
    value: str


@dataclass(frozen=True)
class Measure:
    """The metric of the curves; ``style`` is "percent", "fixed" or "general"; ``folds`` is 0 without data."""

    name: str
    label: str
    style: str
    greater_is_better: bool
    folds: int


@dataclass(frozen=True)
class Stage:
    """One step of the sequence. ``agreement`` counts the folds that had bought the group at this cost, too."""

    step: int
    group: str
    columns: int
    cost: float
    cumulative_cost: float
    gain: float | None
    explained: float | None
    agreement: int | None


@dataclass(frozen=True)
class Curve:
    """Values of the metric against cost, read as steps; the first point is the model before any group.

    ``kind`` says how it was found: "training", with a point per stage, or "cross-validated", with a point wherever a
    fold has one. ``errors`` is empty where there are none.
    """

    kind: str
    label: str
    costs: tuple[float, ...]
    values: tuple[float | None, ...]
    errors: tuple[float | None, ...]

    def __post_init__(self) -> None:
        if not self.costs or self.costs[0] != 0:
            raise ValueError("costs must start at 0, before any group")
        if any(b < a for a, b in zip(self.costs, self.costs[1:], strict=False)):
            raise ValueError("costs must not decrease")
        if len(self.values) != len(self.costs):
            raise ValueError(f"values must have one entry per cost, got {len(self.values)} for {len(self.costs)}")
        if len(self.errors) not in (0, len(self.costs)):
            raise ValueError(f"errors must have one entry per cost, got {len(self.errors)} for {len(self.costs)}")

    def at(self, budget: float) -> tuple[float | None, float | None]:
        """Return the value at a budget, and its standard error: those of the last point that is affordable."""
        return self.point(int(affordable(self._grid, budget)) - 1)

    @cached_property
    def _grid(self) -> NDArray[np.float64]:
        return np.array(self.costs)

    def point(self, k: int) -> tuple[float | None, float | None]:
        """Return the value of a point and its standard error."""
        return self.values[k], self.errors[k] if self.errors else None


@dataclass(frozen=True)
class Method:
    """One way to order the groups, judged on the folds; ``values`` are those at the budgets of the comparison."""

    name: str
    note: str
    timeliness: float | None
    timeliness_error: float | None
    values: tuple[float | None, ...]
    errors: tuple[float | None, ...]


@dataclass(frozen=True)
class Rivals:
    """The fitted model's way, first, and others, at the same shares of its whole cost."""

    shares: tuple[float, ...]
    budgets: tuple[float, ...]
    methods: tuple[Method, ...]

    def __post_init__(self) -> None:
        if len(self.budgets) != len(self.shares):
            raise ValueError(f"budgets must have one entry per share, got {len(self.budgets)}")
        if not self.methods:
            raise ValueError("methods must not be empty")
        for method in self.methods:
            if not len(method.values) == len(method.errors) == len(self.shares):
                raise ValueError(f"methods: {method.name!r} must have one value and one error per share")


@dataclass(frozen=True)
class Content:
    """All that a report says. See :class:`budgetline.Summary`, which renders it."""

    title: str
    version: str
    date: str
    unit: str
    task: Task
    data: Data
    settings: tuple[Setting, ...]
    measure: Measure
    sequence: tuple[Stage, ...]
    left_out: tuple[str, ...]
    curves: tuple[Curve, ...]
    comparison: Rivals | None

    def __post_init__(self) -> None:
        kinds = [curve.kind for curve in self.curves]
        if TRAINING not in kinds:
            raise ValueError(f"curves must hold one of kind {TRAINING!r}")
        if len(set(kinds)) < len(kinds):
            raise ValueError("curves must be of different kinds")
        costs = (0.0, *(stage.cumulative_cost for stage in self.sequence))
        if self.training_curve.costs != costs:
            raise ValueError(f"curves: the {TRAINING} one must have the costs of the sequence")
        if [stage.step for stage in self.sequence] != list(range(1, len(self.sequence) + 1)):
            raise ValueError("sequence must have the steps 1, 2, …, in order")

    @property
    def total_cost(self) -> float:
        """What the whole sequence costs."""
        return self.training_curve.costs[-1]

    @property
    def main_curve(self) -> Curve:
        """The curve that says what to expect: cross-validated where there is one."""
        found = {curve.kind: curve for curve in self.curves}
        return found.get(CROSS_VALIDATED, found[TRAINING])

    def at_stage(self, stage: int) -> tuple[float | None, float | None]:
        """Return what to expect of a stage, with its standard error; stage 0 is before any group, a free one too."""
        curve = self.main_curve
        return curve.at(self.sequence[stage - 1].cumulative_cost) if stage else curve.point(0)

    def brings(self, stage: int) -> float | None:
        """Return how much the group after a stage changes its value, None where one of the two is unknown."""
        here, there = self.at_stage(stage)[0], self.at_stage(stage + 1)[0]
        return None if here is None or there is None else there - here

    @property
    def training_curve(self) -> Curve:
        """The curve of the fitted model on the data that it learned from."""
        return next(curve for curve in self.curves if curve.kind == TRAINING)
