"""Lanes: where extractors run beside the caller. Each lane takes calls and delivers the outcome of each once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from queue import SimpleQueue
from threading import Lock, Thread
from typing import Any, Protocol

from budgetline.runtime.answer import Fault
from budgetline.runtime.calls import Result, raised, run, run_async
from budgetline.runtime.clock import Clock
from budgetline.runtime.extractors import Extractor
from budgetline.runtime.values import ColumnReader

CLOSED = Fault("refused", "the runner is closed")
UNFINISHED = Fault("late", "not done")


@dataclass(eq=False, slots=True)
class Call:
    """One call of the extractor of a step, where it goes when it is done, and how it ended."""

    position: int
    extractor: Extractor
    reader: ColumnReader
    raws: list[Any]
    started: float
    send: Callable[[Call], None]
    abandoned: bool = False
    outcome: Result | Fault = UNFINISHED
    finished: float = 0.0

    def end(self, outcome: Result | Fault, now: float) -> None:
        """Note the outcome, and send the call back."""
        self.outcome, self.finished = outcome, now
        self.send(self)


class Lane(Protocol):
    """A place where extractors run beside the caller."""

    def start(self, call: Call) -> None:
        """Run a call soon; never block. Its outcome is sent once, from any thread."""
        ...

    def abandon(self, call: Call) -> None:
        """Give up a call: its outcome will not be used. Free what it occupies, where that can be done."""
        ...

    def close(self, grace: float) -> None:
        """End everything that can be ended; wait ``grace`` seconds for the rest."""
        ...


class ThreadLane:
    """Threads, started on demand and used again.

    A late function cannot be stopped, so its thread is left alone and counted. While ``most_abandoned`` functions hang,
    no further ones are started: a dead dependency costs its groups, not the memory of the service.
    """

    def __init__(self, clock: Clock, most_abandoned: int) -> None:
        self._clock, self._most = clock, most_abandoned
        self._lock = Lock()
        self._calls: SimpleQueue[Call | None] = SimpleQueue()
        self._busy: set[Call] = set()
        self._threads: list[Thread] = []
        self._idle = 0
        self._closed = False

    @property
    def n_abandoned(self) -> int:
        """Number of abandoned functions that still run."""
        with self._lock:
            return sum(call.abandoned for call in self._busy)

    def start(self, call: Call) -> None:
        """Hand the call to an idle thread, or to a new one."""
        with self._lock:
            refusal = self._reserve()
            if refusal is None:
                self._busy.add(call)
                self._calls.put(call)
        if refusal is not None:
            call.end(refusal, self._clock.now())

    def abandon(self, call: Call) -> None:
        """Count the call among those that hang, until it is done."""
        call.abandoned = True  # without the lock: a run may end when Python collects it, in the middle of anything

    def close(self, grace: float) -> None:
        """End the threads; those that hang are daemons, and end with their function."""
        with self._lock:
            self._closed = True
        end = self._clock.now() + grace
        for _ in self._threads:
            self._calls.put(None)
        for thread in self._threads:
            thread.join(max(0.0, end - self._clock.now()))

    def _reserve(self) -> Fault | None:
        """Have a thread ready for one more call, or return why there is none."""
        if self._closed:
            return CLOSED
        hanging = sum(call.abandoned for call in self._busy) if len(self._busy) >= self._most else 0
        if hanging >= self._most:
            return Fault("refused", f"{hanging} functions hang already (max_abandoned)")
        if self._idle:
            self._idle -= 1
            return None
        thread = Thread(target=self._work, name="budgetline-extractor", daemon=True)
        try:
            thread.start()
        except RuntimeError as error:  # the system has no more threads to give
            return Fault("refused", str(error))
        self._threads.append(thread)
        return None

    def _work(self) -> None:
        while (call := self._calls.get()) is not None:
            outcome = run(call.extractor, call.reader, call.raws)
            finished = self._clock.now()
            with self._lock:
                self._busy.remove(call)
                self._idle += 1
            call.end(outcome, finished)
            del call, outcome  # an idle thread keeps nothing alive


class AsyncLane:
    """An event loop, on which a late coroutine is cancelled: that of the caller, or one in a thread of its own."""

    def __init__(self, clock: Clock, loop: asyncio.AbstractEventLoop | None = None) -> None:
        self._clock, self._loop = clock, loop
        self._own: Thread | None = None
        self._lock = Lock()
        # also keeps the tasks alive: the loop has weak references only
        self._handles: dict[Call, asyncio.Task[Result | Fault]] = {}
        self._ending: asyncio.Task[None] | None = None
        self._closed = False

    def start(self, call: Call) -> None:
        """Let the loop begin the call."""
        loop = self.open()
        if loop is None or not call_in(loop, self._begin, loop, call):
            call.end(CLOSED, self._clock.now())

    def abandon(self, call: Call) -> None:
        """Cancel the call."""
        call.abandoned = True
        if self._loop is not None:
            call_in(self._loop, self._cancel, call)

    def open(self) -> asyncio.AbstractEventLoop | None:
        """Return the loop, started if need be; None once closed."""
        with self._lock:
            if self._closed:
                return None
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._own = Thread(target=_run_to_the_end, args=(self._loop,), name="budgetline-loop", daemon=True)
                self._own.start()
            return self._loop

    def close(self, grace: float) -> None:
        """Cancel everything, and end a loop of our own."""
        with self._lock:
            self._closed = True
        if self._own is not None and self._loop is not None:
            call_in(self._loop, self._begin_end, self._loop, grace)
            self._own.join(2 * grace)  # a function that blocks the loop ends with the process

    def _begin(self, loop: asyncio.AbstractEventLoop, call: Call) -> None:
        if call.abandoned:
            return
        if self._ending is not None:
            call.end(CLOSED, self._clock.now())
            return

        def done(handle: asyncio.Task[Result | Fault]) -> None:
            del self._handles[call]
            if handle.cancelled():
                outcome: Result | Fault = Fault("raised", "CancelledError")
            else:
                error = handle.exception()
                outcome = handle.result() if error is None else raised(error)
            call.end(outcome, self._clock.now())

        handle = loop.create_task(run_async(call.extractor, call.reader, call.raws))
        self._handles[call] = handle
        handle.add_done_callback(done)

    def _cancel(self, call: Call) -> None:
        if call in self._handles:
            self._handles[call].cancel()

    def _begin_end(self, loop: asyncio.AbstractEventLoop, grace: float) -> None:
        if self._ending is None:
            self._ending = loop.create_task(self._cancel_all(grace))
            self._ending.add_done_callback(lambda _: loop.stop())

    async def _cancel_all(self, grace: float) -> None:
        handles = list(self._handles.values())
        for handle in handles:
            handle.cancel()
        if handles:
            await asyncio.wait(handles, timeout=grace)


def call_in(loop: asyncio.AbstractEventLoop, function: Callable[..., object], *arguments: object) -> bool:
    """Let an event loop call a function, from any thread; return False if the loop is closed."""
    try:
        loop.call_soon_threadsafe(function, *arguments)
    except RuntimeError:
        if loop.is_closed():
            return False
        raise
    return True


def _run_to_the_end(loop: asyncio.AbstractEventLoop) -> None:
    try:
        loop.run_forever()
    finally:
        loop.close()
