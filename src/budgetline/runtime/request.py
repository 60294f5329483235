"""One run, in every mode: which group is next, what to wait for, when to stop.

A run is a generator. It yields predictions, and times until which to wait for a call. The driver waits, in a thread or
on an event loop, and puts the call that came back into ``arrived``.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from math import inf
from typing import Any

import numpy as np

from budgetline.arrays import Array, Float, Positions
from budgetline.budgets import SLACK
from budgetline.messages import shown
from budgetline.model.anytime import Staged
from budgetline.runtime.clock import Clock
from budgetline.runtime.early_exit import EarlyExit
from budgetline.runtime.extractors import Mode
from budgetline.runtime.lanes import AnyLane, Call
from budgetline.runtime.prediction import Fault, Prediction, Reason
from budgetline.runtime.scoring import PrefixSets, SubsetModel, SubsetModels, leading
from budgetline.runtime.steps import Derived, GroupStep

log = logging.getLogger("budgetline.runtime")

GRACE = 0.002
"""A prediction may be this many seconds late so that it can use all groups that have arrived."""
ALREADY = -inf
"""A time in the past: do not wait, but take a call that has come back."""


@dataclass(frozen=True)
class Setup:
    """What all runs of a runner share."""

    model: Staged
    steps: tuple[GroupStep, ...]
    models: SubsetModels | PrefixSets
    workers: int
    early_exit: EarlyExit | None
    interval: float | None
    clock: Clock


class Request:
    """The state of one run."""

    def __init__(
        self,
        setup: Setup,
        lanes: Mapping[Mode, AnyLane],
        raws: list[object],
        single: bool,
        deadline: float,
        budget: float,
    ) -> None:
        self._setup, self._raws, self._single = setup, raws, single
        self._clock, self._models = setup.clock, setup.models
        self._start = self._clock.now()
        self._deadline = self._start + deadline
        self._budget = budget * (1 + SLACK)
        self._features = self._models.arrived(len(raws))
        self._next, self._end = 0, len(setup.steps)  # all earlier steps are started, skipped or known; no later ones
        self._running: dict[int, Call] = {}
        self._have = self._ready = 0  # sets of groups: that are here, and whose model was solved while waiting
        self._examined, self._verdict = 0, False  # the groups at the last look at early exit, and what it said
        self._spent = 0.0
        self._paid: set[int] = set()  # shared costs
        self._timings: dict[str, float] = {}
        self._faults: dict[str, Fault] = {}
        self._skipped: list[str] = []
        self._reason: Reason = "running"
        self.lanes = lanes
        self.send: Callable[[Call | None], None] = lambda call: None  # to the driver's mailbox; None only wakes it
        self.arrived: Call | None = None  # by the last wait
        self.interrupted = False  # set from any thread to end the run

    def know(self, position: int, values: Float) -> None:
        """Use values of a group that the caller knows."""
        self._features.put(position, values, [])
        self._have |= 1 << position

    def stop_at(self, stage: int) -> None:
        """Start only the first groups."""
        self._end = stage

    def take_over(self, earlier: Request, inputs: Positions) -> None:
        """Go on after an earlier run, with these of its inputs: no group is tried again, and shared costs stay paid."""
        place = {int(row): k for k, row in enumerate(inputs)}
        for j in range(len(self._setup.steps)):
            if earlier._have >> j & 1:
                lacking = [place[row] for row in earlier._features.lacking.get(j, ()) if row in place]
                if len(lacking) < inputs.size:
                    self._features.put(j, earlier._features.values(j)[inputs], lacking)
                    self._have |= 1 << j
        self._paid |= earlier._paid
        self._next = earlier._next

    def steps(self, stream: bool) -> Iterator[float | Prediction]:
        """Yield times to wait until; a stream also has predictions before the first group and between groups."""
        predicted = self._have
        if stream:
            yield self.prediction()
        while not isinstance(todo := self._what_next(), str):
            if stream and self._have != predicted:
                predicted = self._have
                yield self.prediction()
            elif todo is None:
                yield self._wake()
                self._receive()
            elif todo.mode == "cooperative":
                call = self._call(todo)
                call.outcome = call.run(lambda: self.interrupted or self._clock.now() >= self._deadline)
                call.finished = self._clock.now()
                self._take(call)
            else:
                call = self._call(todo)
                self._running[call.position] = call
                self.lanes[todo.mode].start(call)
        while self._running:  # take what has arrived in the meantime
            yield ALREADY
            if self.arrived is None:
                break
            self._receive()
        self._reason = todo

    def abandon_all(self) -> None:
        """Abandon the running calls: their values will not be used."""
        for call in list(self._running.values()):
            self._abandon(call, "not done when the run ended", logging.DEBUG)  # a deadline is no accident

    # -- what next -------------------------------------------------------------------------------------------

    def _what_next(self) -> GroupStep | Reason | None:
        """Return the group to start now, None to wait for a running one, or the reason to stop."""
        if self.interrupted:
            return "interrupted"
        if self._clock.now() >= self._deadline:
            return "deadline"
        if self._decided():
            return "decided"
        if len(self._running) < self._setup.workers and (step := self._startable()) is not None:
            return step
        if self._running:
            return None
        if self._next < self._end:
            return "budget"
        return "deadline" if self._skipped else "complete"

    def _startable(self) -> GroupStep | None:
        """Skip groups that cannot be computed or would be late; return the next group if it can start now."""
        while self._next < self._end:
            step = self._setup.steps[self._next]
            if step.derived is not None:
                if any(j in self._running for j in step.requires):
                    return None
                self._derive(step, step.derived)
            elif not self._have >> self._next & 1 and step.extractor is not None and not self._lacks(step):
                if self._spent + self._cost(step) > self._budget or any(j in self._running for j in step.requires):
                    return None
                if self._deadline == inf or self._in_time(step):
                    return step
                self._skipped.append(step.name)
            self._next += 1
        return None

    def _derive(self, step: GroupStep, derived: Derived) -> None:
        """Compute the values of a pair from its two groups, for the inputs that have both."""
        if not self._lacks(step):
            lacking = sorted({row for j in step.requires for row in self._features.lacking.get(j, ())})
            self._features.put(self._next, derived.values(self._features.values), lacking)
            self._have |= 1 << self._next

    def _in_time(self, step: GroupStep) -> bool:
        """Return whether the next group, started now, and the model that it needs would be ready at the deadline."""
        assert step.extractor is not None
        calls = 1 if step.extractor.batch else len(self._raws)
        left = self._deadline - self._clock.now() - calls * step.seconds
        groups = self._have | 1 << self._next
        if left >= self._models.seconds(groups):
            return True
        if left >= 0 and self._models.ready(self._have) is not None:
            self._models.solve_in_thread(groups)  # for the next run
        return False

    def _lacks(self, step: GroupStep) -> bool:
        """Return whether a required group will not arrive; if so, record the fault of the step."""
        needed = range(self._next) if step.follows else step.requires
        lost = [self._setup.steps[j].name for j in needed if not self._have >> j & 1 and j not in self._running]
        if not lost:
            return False
        skipped = [name for name in lost if name in self._skipped]
        self._skipped += [step.name] * bool(skipped)
        why = f"it requires {shown((skipped or lost)[0])}, which is missing"
        self._fault(step.name, Fault("required", why), logging.DEBUG)
        return True

    def _cost(self, step: GroupStep) -> float:
        """Return what starting a group costs now: its own cost, and shared costs not paid yet."""
        cost = step.cost
        for k, shared in step.shared:
            if k not in self._paid:
                cost += shared
        return cost

    def _decided(self) -> bool:
        early_exit, stage = self._setup.early_exit, self._have.bit_length()
        if early_exit is None or self._have == self._examined:
            return self._verdict
        self._examined, self._verdict = self._have, False
        if stage < len(self._setup.steps) and leading(self._have) == stage:  # groups remain, and none is missing before
            self._verdict = early_exit.decided(
                stage, self._models.scores(self._features, self._have, self._models.solve)
            )
        return self._verdict

    def _wake(self) -> float:
        """Return how long to wait: until the deadline, or until a running call reaches its timeout."""
        if self._deadline < inf:
            # solve while extractors run, so that the model is ready at the deadline
            needed = self._models.seconds(self._have)
            if needed and self._clock.now() + needed <= self._deadline:
                self._models.solve(self._have)
                self._ready = self._have
        return min([self._deadline, *map(_limit, self._running.values())])

    # -- calls -----------------------------------------------------------------------------------------------

    def _call(self, step: GroupStep) -> Call:
        assert step.extractor is not None
        self._spent += self._cost(step)
        self._paid.update(k for k, _ in step.shared)
        call = Call(self._next, step.extractor, step.reader, self._raws, self._clock.now(), self.send)
        self._next += 1
        return call

    def _receive(self) -> None:
        """Take the call that came back, and abandon calls that have reached their timeout."""
        call = self.arrived
        if call is not None and self._running.get(call.position) is call:
            del self._running[call.position]
            self._take(call)
        now = self._clock.now()
        for call in list(self._running.values()):
            if now >= _limit(call):
                self._abandon(call, f"not done after its timeout of {call.extractor.timeout:g} s")

    def _take(self, call: Call) -> None:
        """Store the values of a group, or record its fault."""
        step, outcome = self._setup.steps[call.position], call.outcome
        self._timings[step.name] = call.finished - call.started
        if isinstance(outcome, Fault):
            self._fault(step.name, outcome)
            return
        faults = {**self._without(step), **outcome.faults}
        lacking = sorted(faults)
        if lacking:
            first = faults[lacking[0]]
            rows = None if len(lacking) == len(self._raws) else np.array(lacking, dtype=np.intp)
            self._fault(step.name, Fault(first.kind, first.message, rows))
        if len(lacking) < len(self._raws):
            self._features.put(call.position, outcome.values, lacking)
            self._have |= 1 << call.position

    def _without(self, step: GroupStep) -> dict[int, Fault]:
        """Return faults for the inputs that lack a required group: they cannot use this group either."""
        found: dict[int, Fault] = {}
        for j in step.requires:
            fault = Fault("required", f"it requires {shown(self._setup.steps[j].name)}, which is missing")
            found |= {row: fault for row in self._features.lacking.get(j, ()) if row not in found}
        return found

    def _abandon(self, call: Call, why: str, level: int = logging.WARNING) -> None:
        if self._running.pop(call.position, None) is None:
            return  # two threads may release a run whose event loop is gone
        step = self._setup.steps[call.position]
        self.lanes[step.mode].abandon(call)
        self._fault(step.name, Fault("late", why), level)

    def _fault(self, name: str, fault: Fault, level: int = logging.WARNING) -> None:
        self._faults[name] = fault
        log.log(level, "group %s is not used: %s", shown(name), fault)

    # -- predictions -----------------------------------------------------------------------------------------

    def _model(self, groups: int) -> SubsetModel:
        """Return the model of the groups, or of the largest subset that is ready if there is no time to solve."""
        now = self._clock.now()
        if now + self._models.seconds(groups) <= max(self._deadline, now) + GRACE:
            return self._models.solve(groups)
        self._models.solve_in_thread(groups)
        prefix = (1 << leading(groups)) - 1
        earlier = self._models.ready(self._ready & groups)
        if earlier is not None and earlier.groups.bit_count() > prefix.bit_count():
            return earlier
        return self._models.solve(prefix)

    def prediction(self) -> Prediction:
        """Return the prediction from the groups that have arrived."""
        used = self._model(self._have).groups
        interval = self._interval(used)
        respond = self._models.respond(self._features, used, self._model)
        value: Any = respond("predict")
        probabilities = respond("predict_proba") if self._models.has_probabilities else None
        if self._single:
            value = _only(value)
            probabilities = None if probabilities is None else probabilities[0]
            interval = None if interval is None else (_only(interval[0]), _only(interval[1]))
        groups = tuple([step.name for j, step in enumerate(self._setup.steps) if used >> j & 1])
        return Prediction(
            value, probabilities, leading(used), groups, self._spent, self._clock.now() - self._start,
            dict(self._timings), self._reason, dict(self._faults), tuple(self._skipped), interval,
        )  # fmt: skip

    def _interval(self, used: int) -> tuple[Any, Any] | None:
        """Return the bounds of the predictions from these groups, if they are asked for."""
        if self._setup.interval is None or not isinstance(self._models, SubsetModels):
            return None
        found = self._models.interval(self._features, used, self._model, self._setup.interval)
        return found[:, 0], found[:, 1]


def _only(values: Array) -> Any:
    """Return the result of the only input."""
    return values.tolist()[0] if values.ndim == 1 else values[0]


def _limit(call: Call) -> float:
    """Return the time at which a call is abandoned."""
    return inf if call.extractor.timeout is None else call.started + call.extractor.timeout
