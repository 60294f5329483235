"""Lanes: where extractors run while the caller waits: threads, an event loop, or processes (``processes.py``).

``start(call)`` never blocks, and the call is sent back once, from any thread. ``abandon(call)`` says that its outcome
will not be used. ``close(grace)`` ends everything that can be ended, and waits ``grace`` seconds for the rest.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from queue import SimpleQueue
from threading import Lock, Thread

from budgetline.runtime.clock import Clock
from budgetline.runtime.extractors import Extractor, Outcome, never, raised, run, run_async
from budgetline.runtime.prediction import Fault
from budgetline.runtime.values import Reader

CLOSED = Fault("refused", "the runner is closed")
UNFINISHED = Fault("late", "not done")


@dataclass(eq=False, slots=True)
class Call:
    """One call of the extractor of a step; when it is done, it has an outcome and is sent back."""

    position: int
    extractor: Extractor
    reader: Reader
    raws: list[object]
    started: float
    send: Callable[[Call], None]
    abandoned: bool = False
    outcome: Outcome = UNFINISHED
    finished: float = 0.0
    future: Future[Outcome] | None = None

    def end(self, outcome: Outcome, now: float) -> None:
        """Record the outcome, and send the call back."""
        self.outcome, self.finished = outcome, now
        self.send(self)

    def run(self, stop: Callable[[], bool] = never) -> Outcome:
        """Call the function in this thread."""
        return run(self.extractor, self.reader, self.raws, stop)


class QueueLane:
    """A lane whose threads take calls from one queue."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = Lock()
        self._calls: SimpleQueue[Call | None] = SimpleQueue()
        self._busy: set[Call] = set()
        self._threads: list[Thread] = []
        self._idle = 0
        self._closed = False

    def start(self, call: Call) -> None:
        with self._lock:
            refusal = CLOSED if self._closed else self._prepare()
            if refusal is None:
                self._busy.add(call)
                self._calls.put(call)
        if refusal is not None:
            call.end(refusal, self._clock.now())

    def abandon(self, call: Call) -> None:
        call.abandoned = True  # without the lock: a run may end when Python collects it, in the middle of anything

    def close(self, grace: float) -> None:
        with self._lock:
            self._closed = True
        end = self._clock.now() + grace
        for _ in self._threads:
            self._calls.put(None)
        for thread in self._threads:
            thread.join(max(0.0, end - self._clock.now()))

    def _prepare(self) -> Fault | None:
        """Make sure of a thread for one more call, or return why the call is refused."""
        raise NotImplementedError

    def _work(self, outcome_of: Callable[[Call], Outcome], be_ready: Callable[[], object] = never) -> None:
        """Run calls in this thread; ``be_ready`` is called before each."""
        while True:
            be_ready()
            if (call := self._calls.get()) is None:
                return
            outcome = outcome_of(call)
            finished = self._clock.now()
            with self._lock:
                self._busy.remove(call)
                self._idle += 1
            call.end(outcome, finished)
            del call, outcome  # an idle thread must not keep them alive


class ThreadLane(QueueLane):
    """Threads, started on demand and reused.

    A late function cannot be stopped, so its thread is left alone and counted. While ``most_abandoned`` functions hang,
    no other is started. A dead dependency then costs its groups, but not the memory of the service.
    """

    def __init__(self, clock: Clock, most_abandoned: int) -> None:
        super().__init__(clock)
        self._most = most_abandoned

    @property
    def n_abandoned(self) -> int:
        """Number of abandoned functions that still run."""
        with self._lock:
            return sum(call.abandoned for call in self._busy)

    def _prepare(self) -> Fault | None:
        hanging = sum(call.abandoned for call in self._busy) if len(self._busy) >= self._most else 0
        if hanging >= self._most:
            return Fault("refused", f"{hanging} functions already hang (max_abandoned)")
        if self._idle:
            self._idle -= 1
            return None
        thread = Thread(target=self._work, args=(Call.run,), name="budgetline-extractor", daemon=True)
        try:
            thread.start()
        except RuntimeError as error:  # the system has no more threads to give
            return Fault("refused", str(error))
        self._threads.append(thread)
        return None


class AsyncLane:
    """An event loop that cancels late coroutines: the caller's loop, or a new one in a thread."""

    def __init__(self, clock: Clock, loop: asyncio.AbstractEventLoop | None = None) -> None:
        self._clock, self._loop = clock, loop
        self._own: Thread | None = None
        self._lock = Lock()
        self._grace = 0.0
        self._closed = False

    def start(self, call: Call) -> None:
        coroutine = run_async(call.extractor, call.reader, call.raws)
        try:
            call.future = asyncio.run_coroutine_threadsafe(coroutine, self.open())
        except RuntimeError:  # the loop is closed
            coroutine.close()
            call.end(CLOSED, self._clock.now())
            return

        def done(future: Future[Outcome]) -> None:
            error = asyncio.CancelledError() if future.cancelled() else future.exception()
            call.end(future.result() if error is None else raised(error), self._clock.now())

        call.future.add_done_callback(done)

    def abandon(self, call: Call) -> None:
        call.abandoned = True
        if call.future is not None:
            call.future.cancel()

    def open(self) -> asyncio.AbstractEventLoop:
        """Return the loop, started if need be."""
        with self._lock:
            if self._closed:
                raise RuntimeError("the lane is closed")
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._own = Thread(target=self._serve, args=(self._loop,), name="budgetline-loop", daemon=True)
                self._own.start()
            return self._loop

    def close(self, grace: float) -> None:
        with self._lock:
            again, self._closed, self._grace = self._closed, True, grace
        if self._own is not None and self._loop is not None:
            if not again:
                self._loop.call_soon_threadsafe(self._loop.stop)
            self._own.join(2 * grace)  # a function that blocks the loop ends with the program

    def _serve(self, loop: asyncio.AbstractEventLoop) -> None:
        loop.run_forever()
        tasks = asyncio.all_tasks(loop)
        for task in tasks:
            task.cancel()
        if tasks:
            loop.run_until_complete(asyncio.wait(tasks, timeout=self._grace))
        loop.close()


AnyLane = QueueLane | AsyncLane
