"""AnytimeRunner: extractors in the order of a sequence, under a deadline, with an answer at any time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from queue import SimpleQueue
from typing import Any, Self
from weakref import ref

import numpy as np
from numpy.typing import NDArray

from budgetline.runtime.answer import Answer
from budgetline.runtime.checks import (
    check_budget,
    check_count,
    check_deadline,
    check_known,
    check_model,
    check_raws,
    known_values,
    steps_of,
)
from budgetline.runtime.clock import Clock, Estimate
from budgetline.runtime.early_exit import EarlyExit
from budgetline.runtime.extractors import Mode
from budgetline.runtime.flights import Flights
from budgetline.runtime.lanes import AsyncLane, Lane, Message, ThreadLane, call_in
from budgetline.runtime.models import Models
from budgetline.runtime.processes import ProcessLane
from budgetline.runtime.request import Request, Wait, Work

Float = NDArray[np.float64]


class AnytimeRunner:
    """Computes groups in the order of a sequence, and predicts from what is there when the time is up.

    Parameters
    ----------
    model : fitted AnytimeRegressor, AnytimeClassifier, their CV versions, or GroupLassoPath
    extractors : mapping group -> function or Extractor
        One for every group of the sequence: ``function(raw)`` gives the values of the group's columns; async functions
        and, in an :class:`Extractor`, functions of many inputs will do, too. None for a group that cannot be computed
        and counts only when it is ``known``.
    mode : {"cooperative", "thread", "process"}
        Where plain functions run, unless their Extractor says otherwise. ``"cooperative"``: in the caller's thread; the
        deadline is looked at between groups. ``"thread"``: in a thread, which is left alone when it is late.
        ``"process"``: in another process, which is killed when it is late. Async functions are cancelled.
    seconds : mapping group -> float, optional
        Time that a group needs, a high quantile rather than the mean (``profile_costs(...).seconds``): one that would
        not be in time is skipped in favour of the next that is. Missing groups are always tried. For many inputs the
        time counts once for each, unless the function takes them all at once.
    workers : int
        How many groups one run computes at once. They are started in the order of the sequence, a group that requires
        others when these have been answered.
    early_exit : EarlyExit, optional
        For classifiers: stop when the remaining groups would hardly change the decision.
    max_abandoned : int
        So many late functions may hang in threads; while they do, no further ones are started in threads.
    processes : int, optional
        Number of processes for extractors of mode ``"process"``, shared by all runs; default ``workers``.
    clock : Clock, optional
        Tells the time; for tests.

    Notes
    -----
    Use it as a context manager, or call :meth:`start` before the first request and :meth:`close` after the last. One
    runner serves many threads and tasks at the same time.

    Examples
    --------
    >>> from budgetline import AnytimeRunner, AnytimeRegressor
    >>> from sklearn.datasets import load_diabetes
    >>> data = load_diabetes(as_frame=True)
    >>> groups = {"body": ["age", "sex", "bmi", "bp"], "blood": ["s1", "s2", "s3", "s4", "s5", "s6"]}
    >>> model = AnytimeRegressor(groups, costs=[1, 20]).fit(data.data, data.target)
    >>> def body(patient):
    ...     return patient[["age", "sex", "bmi", "bp"]]
    >>> def blood(patient):
    ...     raise TimeoutError("the laboratory does not answer")
    >>> with AnytimeRunner(model, {"body": body, "blood": blood}) as runner:
    ...     answer = runner.predict(data.data.iloc[0], deadline=0.5)
    >>> answer.groups, answer.reason, str(answer.faults["blood"])
    (('body',), 'complete', 'raised: TimeoutError: the laboratory does not answer')
    """

    def __init__(
        self,
        model: Any,
        extractors: Mapping[str, Any],
        *,
        mode: Mode = "cooperative",
        seconds: Mapping[str, float] | None = None,
        workers: int = 1,
        early_exit: EarlyExit | None = None,
        max_abandoned: int = 8,
        processes: int | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._model = check_model(model)
        self._clock = Clock() if clock is None else clock
        workers = check_count("workers", workers)
        steps = steps_of(self._model, extractors, mode, seconds)
        models = Models(self._model.stages, [step.columns.positions for step in steps], self._clock)
        if early_exit is not None:
            early_exit.check(self._model)
        self._work = Work(steps, models, self._respond, workers, early_exit, self._clock, Estimate())
        self._positions = {step.name: j for j, step in enumerate(steps)}
        self._threads = ThreadLane(self._clock, check_count("max_abandoned", max_abandoned))
        sent = {j: (s.extractor, s.columns) for j, s in enumerate(steps) if s.extractor and s.mode == "process"}
        size = workers if processes is None else check_count("processes", processes)
        self._processes = ProcessLane(self._clock, sent, size if sent else 0)
        self._loop = AsyncLane(self._clock)
        self._lanes: dict[Mode, Lane] = {"thread": self._threads, "process": self._processes, "async": self._loop}
        self._requests = Flights()
        self._closed = False

    # -- one input -------------------------------------------------------------------------------------------

    def predict(
        self,
        raw: Any,
        *,
        deadline: float | None = None,
        budget: float | None = None,
        known: Mapping[str, Any] | None = None,
    ) -> Answer:
        """Compute groups in order until the deadline, and predict.

        Parameters
        ----------
        raw : object
            Whatever the extractors take.
        deadline : float, optional
            Seconds from now. The instant is fixed at once; if it has passed already, the answer is that of the known
            groups.
        budget : float, optional
            Groups are started as long as their cost, added to what is spent, stays within it.
        known : mapping group -> values, optional
            Values that are there already; they are free, pay no shared costs, and other groups may require them.

        Returns
        -------
        Answer
        """
        *_, answer = self._drive(self._request([raw], True, deadline, budget, known), stream=False)
        return answer

    def stream(
        self,
        raw: Any,
        *,
        deadline: float | None = None,
        budget: float | None = None,
        known: Mapping[str, Any] | None = None,
    ) -> Iterator[Answer]:
        """Yield an answer before the first group and after each; the last one tells why it stopped.

        Parameters as in :meth:`predict`. The time goes on between the answers.
        """
        return self._drive(self._request([raw], True, deadline, budget, known), stream=True)

    async def apredict(
        self,
        raw: Any,
        *,
        deadline: float | None = None,
        budget: float | None = None,
        known: Mapping[str, Any] | None = None,
    ) -> Answer:
        """Do what :meth:`predict` does without blocking the event loop, on which async extractors run.

        Extractors in cooperative mode do block it: give plain functions mode ``"thread"`` or ``"process"``.
        """
        request = self._request([raw], True, deadline, budget, known)
        return [answer async for answer in self._drive_async(request, stream=False)][-1]

    def astream(
        self,
        raw: Any,
        *,
        deadline: float | None = None,
        budget: float | None = None,
        known: Mapping[str, Any] | None = None,
    ) -> AsyncGenerator[Answer, None]:
        """Do what :meth:`stream` does without blocking the event loop: ``async for answer in runner.astream(raw)``."""
        return self._drive_async(self._request([raw], True, deadline, budget, known), stream=True)

    # -- many inputs -----------------------------------------------------------------------------------------

    def predict_many(
        self,
        raws: Sequence[Any],
        *,
        deadline: float | None = None,
        budget: float | None = None,
        known: Mapping[str, Any] | None = None,
        path: bool = False,
    ) -> Answer:
        """Compute each group for all inputs, in order, until the deadline, and predict.

        Parameters
        ----------
        raws : sequence of objects
            Extractors with ``batch=True`` get all of them at once, others one after the other.
        deadline : float, optional
            Seconds from now, for the whole batch.
        budget : float, optional
            Cost per input.
        known : mapping group -> values, optional
            One row per input.
        path : bool
            Whether the answer holds the predictions after every group, too.

        Returns
        -------
        Answer
            Its ``value`` has one entry (or row) per input. An input that lacks a group is answered from those it has.
        """
        request = self._request(check_raws(raws), False, deadline, budget, known)
        *_, answer = self._drive(request, stream=False, path=path)
        return answer

    def stream_many(
        self,
        raws: Sequence[Any],
        *,
        deadline: float | None = None,
        budget: float | None = None,
        known: Mapping[str, Any] | None = None,
    ) -> Iterator[Answer]:
        """Yield answers for all inputs before the first group and after each; parameters as in :meth:`predict_many`."""
        return self._drive(self._request(check_raws(raws), False, deadline, budget, known), stream=True)

    # -- life ------------------------------------------------------------------------------------------------

    def interrupt(self) -> None:
        """Stop all runs at once: each returns what it has. May be called from any thread.

        A function in cooperative mode is waited for: nothing can stop it.
        """
        self._requests.release_lost()
        for request in self._requests:
            request.interrupted = True
            request.send(None)

    @property
    def n_abandoned(self) -> int:
        """Number of late functions that still run in threads."""
        return self._threads.n_abandoned

    def start(self) -> Self:
        """Start processes and wait until they are ready, so that the first request finds them so."""
        if self._closed:
            raise RuntimeError("the runner is closed")
        self._processes.wait()
        return self

    def close(self, grace: float = 1.0) -> None:
        """Interrupt all runs, end processes and threads; late functions in threads get ``grace`` seconds."""
        self._closed = True
        self.interrupt()
        for lane in self._lanes.values():
            lane.close(grace)
        self._work.models.close()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- inside ----------------------------------------------------------------------------------------------

    def _request(
        self, raws: list[Any], single: bool, deadline: Any, budget: Any, known: Mapping[str, Any] | None
    ) -> Request:
        if self._closed:
            raise RuntimeError("the runner is closed")
        limits = check_deadline(deadline), check_budget(budget)
        request = Request(self._work, self._lanes, raws, single, *limits)
        for name, values in check_known(known, self._model.groups.names).items():
            if name not in self._positions:
                continue  # the sequence ended before it
            columns = self._work.steps[self._positions[name]].columns
            read = known_values(name, columns, values, None if single else len(raws))
            request.know(self._positions[name], read)
        return request

    def _drive(self, request: Request, stream: bool, path: bool = False) -> Iterator[Answer]:
        """Run a request, waiting in this thread."""
        mailbox: SimpleQueue[Message | None] = SimpleQueue()
        request.send = mailbox.put
        steps = request.steps(stream, path)
        with self._requests.holding(request):
            request.interrupted = request.interrupted or self._closed  # closed since it was checked
            try:
                step = next(steps)
                while True:
                    if isinstance(step, Wait):
                        step = steps.send(self._clock.receive(mailbox, step.until))
                    else:
                        yield step
                        step = next(steps)
            except StopIteration as end:
                answer = end.value
            finally:
                steps.close()
        yield answer

    async def _drive_async(self, request: Request, stream: bool) -> AsyncGenerator[Answer, None]:
        """Run a request, waiting on the event loop of the caller; async extractors run there, too."""
        loop = asyncio.get_running_loop()
        mailbox: asyncio.Queue[Message | None] = asyncio.Queue()
        box = ref(mailbox)  # a function that hangs must not keep alive whoever waits for it

        def send(message: Message | None) -> None:
            if (found := box()) is not None:
                call_in(loop, found.put_nowait, message)  # a loop that is closed waits for nothing

        request.send = send
        request.use_lane("async", AsyncLane(self._clock, loop))
        steps = request.steps(stream)
        with self._requests.holding(request, loop):
            request.interrupted = request.interrupted or self._closed
            try:
                step = next(steps)
                while True:
                    if isinstance(step, Wait):
                        step = steps.send(await self._clock.receive_async(mailbox, step.until))
                    else:
                        yield step
                        step = next(steps)
            except StopIteration as end:
                answer = end.value
            finally:
                steps.close()
        yield answer

    def _respond(self, scores: Float) -> tuple[NDArray[Any], Float | None]:
        value = self._model.respond(scores, "predict")
        return value, self._model.respond(scores, "predict_proba") if self._model.classes is not None else None
