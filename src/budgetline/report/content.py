"""What a report says, as plain records: numbers, strings and tuples of them. Whatever is unknown is None."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from budgetline.budgets import affordable
from budgetline.messages import shown

SCHEMA = 1
"""Version of the record; files of a newer one are refused."""
TRAINING = "training"
CROSS_VALIDATED = "cross-validated"
BOUND = "bound"
ROUNDING = 1e-6
"""Numbers of a certificate that follow from each other agree to this much."""


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
    fold has one; or it is the "bound" of a certificate, which holds up to the next cost, that cost included.
    ``errors`` is empty where there are none.
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
                raise ValueError(f"methods: {shown(method.name)} must have one value and one error per share")


@dataclass(frozen=True)
class Bounded:
    """What was achieved, the most that anything could achieve, and their ratio, 1 where the bound is 0."""

    achieved: float
    bound: float
    ratio: float

    def __post_init__(self) -> None:
        if not -ROUNDING <= self.achieved <= self.bound + ROUNDING:
            raise ValueError(f"achieved must be between 0 and the bound, got {self.achieved:g} for {self.bound:g}")
        expected = min(max(self.achieved / self.bound, 0.0), 1.0) if self.bound > 0 else 1.0
        if abs(self.ratio - expected) > ROUNDING:
            raise ValueError(f"ratio must be achieved over bound, {expected:g}, got {self.ratio:g}")


@dataclass(frozen=True)
class Nearness:
    """How near the order comes to the best, proven: F/R(∅) of the training data, with the ridge penalty.

    ``budgets`` are shares of the whole cost. ``timeliness`` is about all budgets up to it, and the bound there about
    every order. ``curve`` is the bound at every budget, None where the report's curves are of another measure or the
    only bound is that of all groups.
    """

    shares: tuple[float, ...]
    budgets: tuple[float, ...]
    achieved: tuple[float, ...]
    bounds: tuple[float, ...]
    ratios: tuple[float, ...]
    timeliness: Bounded
    notes: tuple[str, ...]
    curve: Curve | None

    def __post_init__(self) -> None:
        if not self.shares:
            raise ValueError("shares must not be empty")
        for name in ("budgets", "achieved", "bounds", "ratios"):
            if len(getattr(self, name)) != len(self.shares):
                raise ValueError(f"{name} must have one entry per share, got {len(getattr(self, name))}")
        for k, entries in enumerate(zip(self.achieved, self.bounds, self.ratios, strict=True)):
            try:
                Bounded(*entries)
            except ValueError as error:
                raise ValueError(f"ratios[{k}]: {error}") from error
        if self.curve is not None:
            values = [value for value in self.curve.values if value is not None]
            if self.curve.kind != BOUND or len(values) < len(self.curve.values) or self.curve.errors:
                raise ValueError(f"curve must be of kind {shown(BOUND)}, with all values known and no errors")
            if any(b < a for a, b in pairwise(values)):
                raise ValueError("curve: a bound must not decrease")

    @property
    def rows(self) -> tuple[tuple[float, float, Bounded], ...]:
        """Share, budget, and what is known there."""
        found = map(Bounded, self.achieved, self.bounds, self.ratios)
        return tuple(zip(self.shares, self.budgets, found, strict=True))


@dataclass(frozen=True)
class SharedCost:
    """A cost that several groups share: the first of them pays it."""

    name: str
    cost: float
    groups: tuple[str, ...]


@dataclass(frozen=True)
class Required:
    """A group, and those that must be bought before it."""

    group: str
    groups: tuple[str, ...]


@dataclass(frozen=True)
class Content:
    """All that a report says. See :class:`budgetline.Report`, which renders it."""

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
    certificate: Nearness | None = None
    shared: tuple[SharedCost, ...] = ()
    required: tuple[Required, ...] = ()

    def __post_init__(self) -> None:
        kinds = [curve.kind for curve in self.curves]
        if TRAINING not in kinds:
            raise ValueError(f"curves must hold one of kind {shown(TRAINING)}")
        if len(set(kinds)) < len(kinds):
            raise ValueError("curves must be of different kinds")
        costs = (0.0, *(stage.cumulative_cost for stage in self.sequence))
        if self.training_curve.costs != costs:
            raise ValueError(f"curves: the {TRAINING} one must have the costs of the sequence")
        if [stage.step for stage in self.sequence] != list(range(1, len(self.sequence) + 1)):
            raise ValueError("sequence must have the steps 1, 2, …, in order")
        if self.certificate is not None:
            self._check_certificate(self.certificate)

    def _check_certificate(self, found: Nearness) -> None:
        total = self.total_cost
        for share, budget in zip(found.shares, found.budgets, strict=True):
            if not 0 <= share <= 1 or abs(budget - share * total) > ROUNDING * total:
                raise ValueError(f"certificate: budgets must be shares of the whole cost, got {budget:g}")
        if found.curve is not None and self.measure.name != "explained":
            raise ValueError(f"certificate: there is no curve of a bound on {shown(self.measure.name)}")
        if found.curve is not None and abs(found.curve.costs[-1] - total) > ROUNDING * total:
            raise ValueError("certificate: the curve must end at the whole cost")

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
