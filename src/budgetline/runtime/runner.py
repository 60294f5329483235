"""AnytimeRunner: run extractors in the order of a sequence under a deadline, with an answer at any time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from math import inf
from queue import SimpleQueue
from typing import Self
from weakref import ref

from budgetline.inputs import check_integer, check_number
from budgetline.model.anytime import AnytimeModel
from budgetline.model.prefixes import PrefixModels
from budgetline.runtime.answer import Answer
from budgetline.runtime.clock import Clock, Estimate
from budgetline.runtime.early_exit import EarlyExit
from budgetline.runtime.extractors import Extractors, Mode
from budgetline.runtime.lanes import AnyLane, AsyncLane, Call, ThreadLane, call_in
from budgetline.runtime.processes import ProcessLane
from budgetline.runtime.request import Request, Setup
from budgetline.runtime.scoring import PrefixSets, SubsetModels
from budgetline.runtime.steps import check_mapping, check_model, check_raws, steps_of

Limit = float | None
Known = Mapping[str, object] | None


class AnytimeRunner:
    """Computes groups in the order of a sequence, and predicts from those that have arrived when the time is up.

    Parameters
    ----------
    model : fitted AnytimeRegressor, AnytimeClassifier, their CV versions, GroupLassoPath, or an AnytimeModel
        Or :class:`StagedEstimators`: a missing group ends the run, because only prefixes have an estimator.
    extractors : mapping group -> function or Extractor
        One for every group of the sequence: ``function(raw)`` returns the values of the group's columns. Functions may
        be async and, in an :class:`Extractor`, accept many inputs. None: the group is used only when it is ``known``.
    mode : {"cooperative", "thread", "process"}
        Where plain functions run, unless their Extractor says otherwise. ``"cooperative"``: in the caller's thread; the
        deadline is checked between groups, so the answer waits for a function that hangs. ``"thread"``: in a thread,
        which is left alone when it is late. ``"process"``: in another process, which is killed when it is late. Late
        async functions are cancelled.
    seconds : mapping group -> float, optional
        How long a call takes: a high quantile rather than the mean (``profile_costs(...).seconds``). A group that would
        be late is skipped. Groups without a time are always tried.
    workers : int
        How many groups one run computes at once. They are started in sequence order; a group that requires others
        starts when these have arrived.
    early_exit : EarlyExit, optional
        For classifiers: stop when the remaining groups would hardly change the decision.
    max_abandoned : int
        While this many late functions hang in threads, no other function is started in a thread.
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
        model: object,
        extractors: Extractors,
        *,
        mode: Mode = "cooperative",
        seconds: Mapping[str, float] | None = None,
        workers: int = 1,
        early_exit: EarlyExit | None = None,
        max_abandoned: int = 8,
        processes: int | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._clock = Clock() if clock is None else clock
        found = check_model(model)
        workers = check_integer("workers", workers, ge=1)
        steps = steps_of(found, extractors, mode, seconds)
        if isinstance(found, AnytimeModel):
            columns = [step.reader.positions for step in steps]
            models: SubsetModels | PrefixSets = SubsetModels(found, columns, self._clock)
        else:
            assert isinstance(found, PrefixModels)
            models = PrefixSets(found)
        if early_exit is not None:
            early_exit.check(found)
        self._setup = Setup(found, steps, models, workers, early_exit, self._clock, Estimate())
        self._threads = ThreadLane(self._clock, check_integer("max_abandoned", max_abandoned, ge=1))
        sent = {j: (s.extractor, s.reader) for j, s in enumerate(steps) if s.extractor and s.mode == "process"}
        size = workers if processes is None else check_integer("processes", processes, ge=1)
        self._processes = ProcessLane(self._clock, sent, size if sent else 0)
        self._lanes: dict[Mode, AnyLane] = {
            "thread": self._threads, "process": self._processes, "async": AsyncLane(self._clock),
        }  # fmt: skip
        self._active = _Active()

    # -- one input -------------------------------------------------------------------------------------------

    def predict(self, raw: object, *, deadline: Limit = None, budget: Limit = None, known: Known = None) -> Answer:
        """Compute groups in order until the deadline, and predict.

        Parameters
        ----------
        raw : object
            The argument of the extractors.
        deadline : float, optional
            Seconds from now; 0: predict from the known groups. In cooperative mode, the default, the answer waits for
            the function that is running.
        budget : float, optional
            A group is started only if the cost of all started groups stays within it.
        known : mapping group -> values, optional
            Values that are known already. They are free, pay no shared costs, and satisfy requirements.
        """
        *_, answer = self._drive(self._request([raw], True, deadline, budget, known), stream=False)
        return answer

    def stream(
        self, raw: object, *, deadline: Limit = None, budget: Limit = None, known: Known = None
    ) -> Iterator[Answer]:
        """Yield an answer before the first group and after each; the last one says why the run stopped.

        Parameters as in :meth:`predict`. The clock runs on between the answers.
        """
        return self._drive(self._request([raw], True, deadline, budget, known), stream=True)

    async def apredict(
        self, raw: object, *, deadline: Limit = None, budget: Limit = None, known: Known = None
    ) -> Answer:
        """Do what :meth:`predict` does without blocking the event loop; async extractors run on it.

        Extractors in cooperative mode block the loop: set mode ``"thread"`` or ``"process"`` for plain functions.
        """
        request = self._request([raw], True, deadline, budget, known)
        return [answer async for answer in self._drive_async(request, stream=False)][-1]

    def astream(
        self, raw: object, *, deadline: Limit = None, budget: Limit = None, known: Known = None
    ) -> AsyncGenerator[Answer, None]:
        """Do what :meth:`stream` does without blocking the event loop: ``async for answer in runner.astream(raw)``."""
        return self._drive_async(self._request([raw], True, deadline, budget, known), stream=True)

    # -- many inputs -----------------------------------------------------------------------------------------

    def predict_many(
        self,
        raws: Sequence[object],
        *,
        deadline: Limit = None,
        budget: Limit = None,
        known: Known = None,
        path: bool = False,
    ) -> Answer:
        """Compute each group for all inputs, in order, until the deadline, and predict, one entry or row per input.

        An input that lacks a group is predicted from its other groups.

        Parameters
        ----------
        raws : sequence of objects
            Extractors with ``batch=True`` get all of them at once, others one after the other.
        deadline, budget, known
            As in :meth:`predict`: one deadline for the whole batch, a budget per input, one known row per input.
        path : bool
            Whether to return the predictions after every group, too.
        """
        request = self._request(check_raws(raws), False, deadline, budget, known)
        *_, answer = self._drive(request, stream=False, path=path)
        return answer

    def stream_many(
        self, raws: Sequence[object], *, deadline: Limit = None, budget: Limit = None, known: Known = None
    ) -> Iterator[Answer]:
        """Yield answers for all inputs before the first group and after each; parameters as in :meth:`predict_many`."""
        return self._drive(self._request(check_raws(raws), False, deadline, budget, known), stream=True)

    # -- life ------------------------------------------------------------------------------------------------

    @property
    def n_running(self) -> int:
        """Number of requests that are running."""
        return len(self._active)

    @property
    def n_abandoned(self) -> int:
        """Number of late functions that still run in threads."""
        return self._threads.n_abandoned

    @property
    def process_ids(self) -> tuple[int, ...]:
        """Ids of the processes that run extractors now."""
        return self._processes.ids

    def interrupt(self) -> None:
        """Make all runs return what they have at once; may be called from any thread.

        In cooperative mode a run first waits for its function.
        """
        self._active.interrupt()

    def start(self) -> Self:
        """Start the processes and wait until they are ready; otherwise the first request waits."""
        self._check_open()
        self._processes.open()
        return self

    def close(self, grace: float = 1.0) -> None:
        """Interrupt all runs, end processes and threads; late functions in threads get ``grace`` seconds."""
        self._active.closed = True
        self._active.interrupt()
        for lane in self._lanes.values():
            lane.close(grace)
        self._setup.models.close()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- inside ----------------------------------------------------------------------------------------------

    def _check_open(self) -> None:
        if self._active.closed:
            raise RuntimeError("the runner is closed")

    def _request(self, raws: list[object], single: bool, deadline: Limit, budget: Limit, known: Known) -> Request:
        self._check_open()
        seconds = inf if deadline is None else check_number("deadline", deadline, "number of seconds")
        cost = inf if budget is None else check_number("budget", budget, "cost", ge=0)
        request = Request(self._setup, self._lanes, raws, single, seconds, cost)
        if known is not None:
            check_mapping("known", known, "values", self._setup.model.groups.names)
            for j, step in enumerate(self._setup.steps):  # the sequence may lack a group
                if step.name in known:
                    request.know(j, step.known(known[step.name], None if single else len(raws)))
        return request

    def _drive(self, request: Request, stream: bool, path: bool = False) -> Iterator[Answer]:
        """Run a request, waiting in this thread."""
        mailbox: SimpleQueue[Call | None] = SimpleQueue()
        request.send = mailbox.put
        with self._active.holding(request):
            for step in request.steps(stream):
                if isinstance(step, Answer):
                    yield step
                else:
                    request.arrived = self._clock.receive(mailbox, step)
        yield request.answer(path)

    async def _drive_async(self, request: Request, stream: bool) -> AsyncGenerator[Answer, None]:
        """Run a request, waiting on the event loop of the caller; async extractors run on it."""
        loop = asyncio.get_running_loop()
        mailbox: asyncio.Queue[Call | None] = asyncio.Queue()
        box = ref(mailbox)  # a function that hangs must not keep the waiting task alive

        def send(call: Call | None) -> None:
            if (found := box()) is not None:
                call_in(loop, found.put_nowait, call)  # does nothing if the loop is closed

        request.send = send
        request.lanes = {**self._lanes, "async": AsyncLane(self._clock, loop)}
        with self._active.holding(request, loop):
            for step in request.steps(stream):
                if isinstance(step, Answer):
                    yield step
                else:
                    request.arrived = await self._clock.receive_async(mailbox, step)
        yield request.answer()


class _Active:
    """The requests that are running.

    The references are weak: a request whose event loop was dropped ends when Python collects it. That may happen in any
    thread, in the middle of anything, so there is no lock: every change is one operation on a set.
    """

    def __init__(self) -> None:
        self._requests: set[ref[Request]] = set()
        self._loops: set[ref[asyncio.AbstractEventLoop]] = set()
        self.closed = False

    def __len__(self) -> int:
        return len(self._requests)

    def __iter__(self) -> Iterator[Request]:
        return iter([request for known in list(self._requests) if (request := known()) is not None])

    @contextmanager
    def holding(self, request: Request, loop: asyncio.AbstractEventLoop | None = None) -> Iterator[None]:
        """Count a request as running, and release it at the end; ``loop`` drives it, None: this thread."""
        self.release_lost()
        request.loop = loop
        if loop is not None:
            self._loops.add(ref(loop, self._loops.discard))
        known = ref(request, self._requests.discard)
        self._requests.add(known)
        try:
            request.interrupted = request.interrupted or self.closed
            yield
        finally:
            self._requests.discard(known)
            request.abandon_all()

    def interrupt(self) -> None:
        """Make every request stop and predict."""
        self.release_lost()
        for request in self:
            request.interrupted = True
            request.send(None)

    def release_lost(self) -> None:
        """Release the requests whose event loop was closed while they waited."""
        closed = [known for known in list(self._loops) if (loop := known()) is not None and loop.is_closed()]
        if not closed:
            return
        for request in self:
            if request.loop is not None and request.loop.is_closed():
                self._requests.discard(ref(request))
                request.interrupted = True
                request.abandon_all()
        self._loops.difference_update(closed)
