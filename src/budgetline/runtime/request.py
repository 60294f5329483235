"""One run: which group next, what to wait for, when to stop. The logic of every mode, sync and async, is here.

A run is a generator: it yields what it waits for, and is sent the message that came (or None); in between it yields
answers. Whoever drives it decides how to wait. Only the clock tells the time.
"""

from __future__ import annotations

import logging
from asyncio import AbstractEventLoop
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from budgetline.budgets import SLACK
from budgetline.messages import shown
from budgetline.runtime.answer import Answer, Fault, Reason
from budgetline.runtime.calls import run
from budgetline.runtime.clock import Clock, Estimate
from budgetline.runtime.extractors import Columns, Extractor, Mode
from budgetline.runtime.features import ManyRows, OneRow
from budgetline.runtime.lanes import Lane, Message, Task
from budgetline.runtime.models import Model, Models, leading

Float = NDArray[np.float64]
log = logging.getLogger("budgetline.runtime")


class Responder(Protocol):
    """Turns scores (n, P) into predictions, and probabilities where there are any."""

    def __call__(self, scores: Float) -> tuple[NDArray[Any], Float | None]:
        """Return predictions and probabilities."""
        ...


class Exit(Protocol):
    """Tells from the scores of a stage whether the rest would hardly change the decision."""

    def decided(self, stage: int, scores: Float) -> bool:
        """Return whether to stop."""
        ...


@dataclass(frozen=True)
class Step:
    """One group of the sequence: what it costs, and how its values are had (None: only if they are known).

    Attributes
    ----------
    cost : float
        Its own.
    shared : tuple of (int, float)
        Costs that it shares with others: paid by the first of them that is started.
    requires : tuple of int
        Steps that must have been answered before it is started, all of them before it in the sequence.
    """

    name: str
    cost: float
    columns: Columns
    extractor: Extractor | None
    mode: Mode
    seconds: float
    shared: tuple[tuple[int, float], ...] = ()
    requires: tuple[int, ...] = ()


@dataclass(frozen=True)
class Work:
    """What all runs of a runner share."""

    steps: tuple[Step, ...]
    models: Models
    respond: Responder
    workers: int
    early_exit: Exit | None
    clock: Clock
    answering: Estimate


@dataclass(frozen=True, slots=True)
class Wait:
    """The run wants the next message, or to be woken at this time."""

    until: float | None


GRACE = 0.002
"""An answer may be so many seconds late rather than leave out groups that have arrived."""
ALREADY = float("-inf")
"""Wait until this time: take what is there."""


class Request:
    """The state of one run."""

    def __init__(
        self,
        work: Work,
        lanes: Mapping[Mode, Lane],
        raws: list[Any],
        single: bool,
        deadline: float | None,
        budget: float,
    ) -> None:
        self._work, self._lanes, self._raws, self._single = work, lanes, raws, single
        self._start = work.clock.now()
        self._deadline = None if deadline is None else self._start + deadline
        self._budget = budget * (1 + SLACK)
        self._features = OneRow(work.models.ends) if single else ManyRows(work.models.ends, len(raws))
        self._next = 0  # the steps before it are done with
        self._running: dict[int, Task] = {}
        self._have = self._ready = self._known = 0
        self._judged = 0  # before the first group nothing is decided
        self._verdict = False
        self._spent = 0.0
        self._paid: set[int] = set()  # shared costs
        self._timings: dict[str, float] = {}
        self._faults: dict[str, Fault] = {}
        self._skipped: list[str] = []
        self.send: Callable[[Message | None], None] = lambda message: None
        self.interrupted = False
        self.loop: AbstractEventLoop | None = None

    def use_lane(self, mode: Mode, lane: Lane) -> None:
        """Run the extractors of a mode in a lane of this run's own."""
        self._lanes = {**self._lanes, mode: lane}

    def release(self) -> None:
        """Give up what is being computed: nobody waits for it any more."""
        self.interrupted = True
        self._abandon_all()

    def know(self, position: int, values: Float) -> None:
        """Take the values of a group that is known already."""
        self._features.put(position, values, [])
        self._have |= 1 << position
        self._known |= 1 << position

    def steps(self, stream: bool, path: bool = False) -> Generator[Wait | Answer, Message | None, Answer]:
        """Run; with ``stream`` an answer is yielded before the first group and after each."""
        try:
            if stream:
                yield self._answer("running")
            while (reason := self._reason()) is None:
                before = self._have
                step = self._choose()
                if step is None:
                    self._receive((yield Wait(self._wake())))
                elif step.mode == "cooperative":
                    self._run_here(step)
                else:
                    self._begin(step)
                if stream and self._have != before and self._reason() is None:
                    yield self._answer("running")
            while self._running and (message := (yield Wait(ALREADY))) is not None:
                self._receive(message)  # what came while we looked elsewhere
        finally:
            self._abandon_all()
        return self._answer(reason, path)

    # -- what next -------------------------------------------------------------------------------------------

    def _reason(self) -> Reason | None:
        """Return why to stop now, None to go on."""
        if self.interrupted:
            return "interrupted"
        if self._deadline is not None and self._work.clock.now() >= self._deadline:
            return "deadline"
        if self._decided():
            return "decided"
        if self._running:
            return None
        self._pass_over()
        if self._next == len(self._work.steps):
            return "deadline" if self._skipped else "complete"
        return None if self._affordable() else "budget"

    def _pass_over(self) -> None:
        """Go to the next group that is not known, has an extractor and what it requires, and would be in time."""
        steps = self._work.steps
        while self._next < len(steps):
            step, bit = steps[self._next], 1 << self._next
            if not (self._known & bit) and step.extractor is not None and not self._lacks(step):
                if self._deadline is None or not self._affordable() or self._waits(step):
                    return
                solving = self._work.models.seconds(self._have | bit)
                if (left := self._left_after(step)) >= solving:
                    return
                if left >= 0 and self._work.models.at_hand(self._have) is not None:
                    self._work.models.solve_aside(self._have | bit)  # so that the next run can use it
                self._skipped.append(step.name)
            self._next += 1

    def _left_after(self, step: Step) -> float:
        """Return the seconds between the end of a group, if started now, and when the answer must be begun."""
        assert self._deadline is not None
        assert step.extractor is not None
        calls = 1 if step.extractor.batch else len(self._raws)
        answering = self._work.answering.seconds if self._single else 0.0
        return self._deadline - self._work.clock.now() - calls * step.seconds - answering

    def _waits(self, step: Step) -> bool:
        """Return whether a group that the step requires is still being computed."""
        return any(j in self._running for j in step.requires)

    def _lacks(self, step: Step) -> bool:
        """Return whether a group that the step requires will not come; say which, and that the step goes with it."""
        lost = [j for j in step.requires if not self._have >> j & 1 and j not in self._running]
        if not lost:
            return False
        names = [self._work.steps[j].name for j in lost]
        name = next((name for name in names if name in self._skipped), names[0])
        if name in self._skipped:
            self._skipped.append(step.name)
            why = "was skipped"
        elif name in self._faults:
            why = f"is not there ({self._faults[name].kind})"
        else:
            why = "is not known and has no extractor"
        self._fault(step.name, Fault("required", f"it requires {shown(name)}, which {why}"), logging.DEBUG)
        return True

    def _cost(self, step: Step) -> float:
        """Return what starting a group costs now: its own cost and the shared ones that are not paid."""
        cost = step.cost
        for k, shared in step.shared:
            if k not in self._paid:
                cost += shared
        return cost

    def _affordable(self) -> bool:
        return self._spent + self._cost(self._work.steps[self._next]) <= self._budget

    def _choose(self) -> Step | None:
        """Return the next group to start now, None to wait for one that runs."""
        if len(self._running) >= self._work.workers:
            return None
        self._pass_over()
        if self._next == len(self._work.steps) or not self._affordable() or self._waits(self._work.steps[self._next]):
            return None
        return self._work.steps[self._next]

    def _decided(self) -> bool:
        early_exit, stage = self._work.early_exit, self._have.bit_length()
        if early_exit is None or self._have == self._judged:
            return self._verdict
        self._judged, self._verdict = self._have, False
        if stage < len(self._work.steps) and leading(self._have) == stage:  # something remains, nothing is missing
            self._verdict = early_exit.decided(stage, self._features.scores(self._have, self._work.models.solve))
        return self._verdict

    def _wake(self) -> float | None:
        """Return when to look again: at the deadline, or when a running call has had its time."""
        if self._deadline is not None:
            # while others work: so that the answer is ready when the deadline comes
            needed = self._work.models.seconds(self._have)
            if needed and self._work.clock.now() + needed <= self._deadline:
                self._work.models.solve(self._have)
                self._ready = self._have
        limits = [] if self._deadline is None else [self._deadline]
        for task in self._running.values():
            if task.extractor.timeout is not None:
                limits.append(task.started + task.extractor.timeout)
        return min(limits, default=None)

    # -- calls -----------------------------------------------------------------------------------------------

    def _task(self, step: Step) -> Task:
        assert step.extractor is not None
        self._spent += self._cost(step)
        self._paid.update(k for k, _ in step.shared)
        task = Task(self._next, step.extractor, step.columns, self._raws, self._work.clock.now(), self.send)
        self._next += 1
        return task

    def _run_here(self, step: Step) -> None:
        task = self._task(step)
        outcome = run(task.extractor, task.columns, task.raws, self._is_over)
        self._take(Message(task, outcome, self._work.clock.now()))

    def _is_over(self) -> bool:
        return self.interrupted or (self._deadline is not None and self._work.clock.now() >= self._deadline)

    def _begin(self, step: Step) -> None:
        task = self._task(step)
        self._running[task.position] = task
        self._lanes[step.mode].start(task)

    def _receive(self, message: Message | None) -> None:
        if message is not None and self._running.get(message.task.position) is message.task:
            del self._running[message.task.position]
            self._take(message)
        now = self._work.clock.now()
        for task in list(self._running.values()):
            if task.extractor.timeout is not None and now >= task.started + task.extractor.timeout:
                self._abandon(task, f"not done after its timeout of {task.extractor.timeout:g} s")

    def _take(self, message: Message) -> None:
        """Keep the values of a group, or note why there are none."""
        step, outcome = self._work.steps[message.task.position], message.outcome
        self._timings[step.name] = message.finished - message.task.started
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
            self._features.put(message.task.position, outcome.values, lacking)
            self._have |= 1 << message.task.position

    def _without(self, step: Step) -> dict[int, Fault]:
        """Return the inputs that lack a group which the step requires: they do not have the step either."""
        found: dict[int, Fault] = {}
        for j in step.requires:
            name = self._work.steps[j].name
            fault = Fault("required", f"it requires {shown(name)}, which is not there")
            found |= {row: fault for row in self._features.lacking(j) if row not in found}
        return found

    def _abandon(self, task: Task, why: str, level: int = logging.WARNING) -> None:
        if self._running.pop(task.position, None) is None:
            return  # two threads may let go of a run that nobody drives
        step = self._work.steps[task.position]
        self._lanes[step.mode].abandon(task)
        self._fault(step.name, Fault("late", why), level)

    def _abandon_all(self) -> None:
        for task in list(self._running.values()):
            self._abandon(task, "not done when the run ended", logging.DEBUG)  # a deadline is no accident

    def _fault(self, name: str, fault: Fault, level: int = logging.WARNING) -> None:
        self._faults[name] = fault
        log.log(level, "group %s is not used: %s", shown(name), fault)

    # -- answers ---------------------------------------------------------------------------------------------

    def _model(self, groups: int) -> Model:
        """Return the model of the groups, or of the best set of them that there is still time for."""
        models = self._work.models
        limit = None if self._deadline is None else max(self._deadline, self._work.clock.now()) + GRACE
        if limit is None or self._work.clock.now() + models.seconds(groups) <= limit:
            return models.solve(groups)
        model = models.at_hand(groups)
        if model is not None:
            return model
        models.solve_aside(groups)
        prefix = (1 << leading(groups)) - 1
        earlier = models.at_hand(self._ready & groups)
        if earlier is not None and earlier.groups.bit_count() > prefix.bit_count():
            return earlier
        return models.solve(prefix)

    def _answer(self, reason: Reason, path: bool = False) -> Answer:
        used = self._model(self._have).groups
        begun = self._work.clock.now()
        along = None
        if path and isinstance(self._features, ManyRows):
            every = self._features.path(used, self._work.models.solve)
            values, _ = self._work.respond(every.reshape(-1, every.shape[-1]))
            along = values.reshape(*every.shape[:2], *values.shape[1:])
            scores = every[-1]
        else:
            scores = self._features.scores(used, self._model)
        value, probabilities = self._work.respond(scores)
        if self._single:
            value = value.tolist()[0] if value.ndim == 1 else value[0]
            probabilities = None if probabilities is None else probabilities[0]
        steps = self._work.steps
        groups = tuple([steps[j].name for j in range(used.bit_length()) if used >> j & 1])
        now = self._work.clock.now()
        if self._single:
            self._work.answering.update(now - begun)
        return Answer(
            value, probabilities, leading(used), groups, self._spent, now - self._start,
            dict(self._timings), reason, dict(self._faults), tuple(self._skipped), along,
        )  # fmt: skip
