"""AnytimeRunner: run extractors in the order of a sequence under a deadline, with a prediction at any time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from math import inf
from queue import SimpleQueue
from typing import Self
from weakref import ref

import numpy as np

from budgetline.evaluation.cascades import Cascade, check_ranks, within_level
from budgetline.inputs import check_integer, check_number
from budgetline.messages import shown
from budgetline.model.anytime import AnytimeModel, as_model
from budgetline.model.intervals import check_intervals
from budgetline.model.prefixes import PrefixModels
from budgetline.runtime.clock import Clock
from budgetline.runtime.early_exit import EarlyExit
from budgetline.runtime.extractors import Extractors, Mode
from budgetline.runtime.lanes import AnyLane, AsyncLane, Call, ThreadLane
from budgetline.runtime.prediction import Prediction, Ranking
from budgetline.runtime.processes import ProcessLane
from budgetline.runtime.request import Request, Setup
from budgetline.runtime.scoring import PrefixSets, SubsetModels
from budgetline.runtime.steps import check_mapping, check_model, check_raws, steps_of

Limit = float | None
Known = Mapping[str, object] | None


class AnytimeRunner:
    """Runner that computes groups in order and, when the time is up, predicts from the groups that have arrived.

    Parameters
    ----------
    model : fitted AnytimeRegressor, AnytimeRanker or another estimator that save accepts, or an AnytimeModel
        The fitted model. `StagedEstimators` are also accepted. With them, a missing group ends the run, because only
        prefixes of the order have an estimator.
    extractors : mapping group -> function or Extractor
        One function for every group of the sequence. ``function(raw)`` returns the values of the group's columns.
        Functions may be async. Functions that are wrapped in an `Extractor` with ``batch=True`` receive many inputs in
        one call. A group whose entry is None is used only if its values are passed as ``known``.
    mode : {"cooperative", "thread", "process"}
        Where functions run, unless they are async or their `Extractor` sets another mode. ``"cooperative"`` runs them
        in the caller's thread. The deadline is checked between groups, so a function that hangs delays the prediction.
        ``"thread"`` runs each function in a thread, which is abandoned when the function is late. ``"process"`` runs it
        in another process, which is killed when the function is late. Late async functions are cancelled.
    seconds : mapping group -> float, optional
        The number of seconds that a call to each group's extractor takes. Pass a high quantile, such as
        ``profile_costs(...).seconds``, rather than the mean. A group that would be late is skipped. Groups without a
        time are always tried.
    workers : int
        The number of groups that one run computes at the same time. They are started in sequence order. A group that
        requires others is started only after those have arrived.
    early_exit : EarlyExit, optional
        For classifiers, the rule that stops a run when the remaining groups are unlikely to change the decision.
    interval : float in (0, 1), optional
        For regression: if passed, each prediction also contains a prediction interval with this coverage, computed as
        in ``predict_interval``.
    max_abandoned : int
        No new function is started in a thread while this many late functions are still running in threads.
    processes : int, optional
        The number of processes for extractors of mode ``"process"``, which all runs share. By default, it is
        ``workers``.
    clock : Clock, optional
        The clock that is used to measure time. Only tests need to set it.

    Notes
    -----
    Use a runner as a context manager, or call `start` before the first request and `close` after the last one. One
    runner can serve many threads and tasks at the same time.

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
    ...     raise TimeoutError("the laboratory is closed")
    >>> with AnytimeRunner(model, {"body": body, "blood": blood}) as runner:
    ...     result = runner.predict(data.data.iloc[0], deadline=0.5)
    >>> result.groups, result.reason, str(result.faults["blood"])
    (('body',), 'complete', 'raised: TimeoutError: the laboratory is closed')
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
        interval: float | None = None,
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
        if interval is not None:
            check_intervals(as_model(found), interval)
        self._setup = Setup(found, steps, models, workers, early_exit, interval, self._clock)
        self._threads = ThreadLane(self._clock, check_integer("max_abandoned", max_abandoned, ge=1))
        sent = {j: (s.extractor, s.reader) for j, s in enumerate(steps) if s.extractor and s.mode == "process"}
        size = workers if processes is None else check_integer("processes", processes, ge=1)
        self._processes = ProcessLane(self._clock, sent, size if sent else 0)
        self._lanes: dict[Mode, AnyLane] = {
            "thread": self._threads, "process": self._processes, "async": AsyncLane(self._clock),
        }  # fmt: skip
        # weak: a run whose event loop was dropped ends when Python collects it, in any thread, so there is no lock
        self._active: set[ref[Request]] = set()
        self._closed = False

    # -- one input -------------------------------------------------------------------------------------------

    def predict(self, raw: object, *, deadline: Limit = None, budget: Limit = None, known: Known = None) -> Prediction:
        """Compute groups in order until the deadline, and predict.

        Parameters
        ----------
        raw : object
            The input that is passed to the extractors.
        deadline : float, optional
            Seconds from now. With 0, the prediction uses only the known groups. In cooperative mode, which is the
            default, the prediction waits until the function that is running has finished.
        budget : float, optional
            A group is started only if the cost of all started groups stays within this budget.
        known : mapping group -> values, optional
            Values that are already known. Known groups are free and satisfy requirements, but they do not cover shared
            costs.
        """
        *_, last = self._drive(self._request([raw], True, deadline, budget, known), stream=False)
        return last

    def stream(
        self, raw: object, *, deadline: Limit = None, budget: Limit = None, known: Known = None
    ) -> Iterator[Prediction]:
        """Yield a prediction before the first group and after each group; parameters as in `predict`.

        The last prediction contains the reason why the run stopped. The clock keeps running between predictions.
        """
        return self._drive(self._request([raw], True, deadline, budget, known), stream=True)

    async def apredict(
        self, raw: object, *, deadline: Limit = None, budget: Limit = None, known: Known = None
    ) -> Prediction:
        """Predict as `predict` does, without blocking the event loop; parameters as in `predict`.

        Async extractors run on the event loop. Extractors in cooperative mode block it, so use the mode ``"thread"`` or
        ``"process"`` for plain functions.
        """
        request = self._request([raw], True, deadline, budget, known)
        return [prediction async for prediction in self._drive_async(request, stream=False)][-1]

    def astream(
        self, raw: object, *, deadline: Limit = None, budget: Limit = None, known: Known = None
    ) -> AsyncGenerator[Prediction, None]:
        """Yield the predictions of `stream`, without blocking the event loop; parameters as in `predict`.

        Use it as ``async for prediction in runner.astream(raw)``.
        """
        return self._drive_async(self._request([raw], True, deadline, budget, known), stream=True)

    # -- many inputs -----------------------------------------------------------------------------------------

    def predict_many(
        self, raws: Sequence[object], *, deadline: Limit = None, budget: Limit = None, known: Known = None
    ) -> Prediction:
        """Compute the groups in order for all inputs until the deadline, and predict.

        The prediction has one entry or row per input. An input that lacks a group is predicted from its other groups.

        Parameters
        ----------
        raws : sequence of objects
            The inputs. Extractors with ``batch=True`` receive all inputs in one call, and other extractors receive them
            one by one.
        deadline
            As in `predict`. It applies to the whole batch.
        budget, known
            As in `predict`.
        """
        *_, last = self._drive(self._request(check_raws(raws), False, deadline, budget, known), stream=False)
        return last

    def rank(self, raws: Sequence[object], cascade: Cascade, *, deadline: Limit = None) -> Ranking:
        """Rank the documents of one query with a cascade: each level computes more groups for the best documents.

        Parameters
        ----------
        raws : sequence of objects
            The documents, which are passed to the extractors like the inputs of `predict_many`.
        cascade : Cascade
            The cascade, for example from ``budgetline.evaluation.cascade``.
        deadline : float, optional
            Seconds from now. If the deadline passes before the last level is finished, the ranking uses the groups that
            have arrived.
        """
        if not isinstance(cascade, Cascade):
            raise TypeError(f"cascade must be a Cascade, such as Cascade((1, 3), (10,)), got {shown(cascade)}")
        documents, start = check_raws(raws), self._clock.now()
        last_stage = check_ranks(self._setup.model).n_stages
        check_integer("the last stage of a cascade", cascade.stages[-1], le=last_stage)
        limit = inf if deadline is None else check_number("deadline", deadline, "number of seconds")
        left, scores = np.arange(len(documents)), np.zeros(len(documents))
        levels, spent = np.zeros(len(documents), dtype=np.intp), 0.0
        earlier: Request | None = None
        chosen = left
        for level, stage in enumerate(cascade.stages):
            seconds = limit - (self._clock.now() - start)
            request = self._request([documents[i] for i in left], False, seconds, None, None)
            request.stop_at(stage)
            if earlier is not None:
                request.take_over(earlier, chosen)
            *_, last = self._drive(request, stream=False)
            scores[left] = level + within_level(np.asarray(last.value, dtype=np.float64))
            levels[left] = level + 1
            spent, earlier = spent + last.spent * left.size, request
            late = last.reason in ("deadline", "interrupted")
            if late or level == len(cascade.keep):
                break
            chosen = np.sort(np.argsort(-scores[left], kind="stable")[: cascade.keep[level]])
            left = left[chosen]
        return Ranking(
            np.argsort(-scores, kind="stable"), scores, levels, spent / len(documents), self._clock.now() - start,
            last.reason if late else "complete", last.faults,
        )  # fmt: skip

    # -- life ------------------------------------------------------------------------------------------------

    @property
    def n_running(self) -> int:
        """The number of requests that are running."""
        return len(self._active)

    @property
    def n_abandoned(self) -> int:
        """The number of late functions that are still running in threads."""
        return self._threads.n_abandoned

    @property
    def process_ids(self) -> tuple[int, ...]:
        """The ids of the processes that currently run extractors."""
        return self._processes.ids

    def interrupt(self) -> None:
        """Make all runs return immediately with the groups that have arrived; may be called from any thread.

        In cooperative mode, a run first waits for the function that is running.
        """
        for known in list(self._active):
            if (request := known()) is not None:
                request.interrupted = True
                request.send(None)

    def start(self) -> Self:
        """Start the processes and wait until they are ready, so that the first request does not have to wait."""
        self._check_open()
        self._processes.open()
        return self

    def close(self, grace: float = 1.0) -> None:
        """Interrupt all runs, and end processes and threads; late functions in threads get ``grace`` more seconds."""
        self._closed = True
        self.interrupt()
        for lane in self._lanes.values():
            lane.close(grace)
        self._setup.models.close()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- inside ----------------------------------------------------------------------------------------------

    def _check_open(self) -> None:
        if self._closed:
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

    @contextmanager
    def _holding(self, request: Request) -> Iterator[None]:
        """Count a request as running, and release what it has started at the end."""
        known = ref(request, self._active.discard)
        self._active.add(known)
        try:
            request.interrupted = request.interrupted or self._closed
            yield
        finally:
            self._active.discard(known)
            request.abandon_all()

    def _drive(self, request: Request, stream: bool) -> Iterator[Prediction]:
        """Run a request, waiting in this thread."""
        mailbox: SimpleQueue[Call | None] = SimpleQueue()
        request.send = mailbox.put
        with self._holding(request):
            for step in request.steps(stream):
                if isinstance(step, Prediction):
                    yield step
                else:
                    request.arrived = self._clock.receive(mailbox, step)
        yield request.prediction()

    async def _drive_async(self, request: Request, stream: bool) -> AsyncGenerator[Prediction, None]:
        """Run a request, waiting on the event loop of the caller; async extractors run on it."""
        loop = asyncio.get_running_loop()
        mailbox: asyncio.Queue[Call | None] = asyncio.Queue()
        box = ref(mailbox)  # a function that hangs must not keep the waiting task alive

        def send(call: Call | None) -> None:
            if (found := box()) is not None:
                with suppress(RuntimeError):  # the loop is closed
                    loop.call_soon_threadsafe(found.put_nowait, call)

        request.send = send
        request.lanes = {**self._lanes, "async": AsyncLane(self._clock, loop)}
        with self._holding(request):
            for step in request.steps(stream):
                if isinstance(step, Prediction):
                    yield step
                else:
                    request.arrived = await self._clock.receive_async(mailbox, step)
        yield request.prediction()
