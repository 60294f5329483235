"""Lanes: where extractors run, and how a late one is given up. Each takes tasks and delivers their outcome once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from queue import SimpleQueue
from threading import Lock, Thread
from typing import Any, Protocol

from budgetline.runtime.answer import Fault
from budgetline.runtime.calls import Result, raised, run, run_async
from budgetline.runtime.clock import Clock
from budgetline.runtime.extractors import Columns, Extractor


@dataclass(eq=False, slots=True)
class Task:
    """One call of one extractor: what to run, and where its outcome goes."""

    position: int
    extractor: Extractor
    columns: Columns
    raws: list[Any]
    started: float
    send: Callable[[Message], None]
    abandoned: bool = False
    given_up: float = 0.0
    handle: asyncio.Task[Result | Fault] | None = None


@dataclass(slots=True)
class Message:
    """The outcome of a task and when it was there."""

    task: Task
    outcome: Result | Fault
    finished: float


class Lane(Protocol):
    """A place where extractors run beside the caller."""

    def start(self, task: Task) -> None:
        """Run a task, soon; never blocks. Its outcome is sent once, from any thread."""
        ...

    def abandon(self, task: Task) -> None:
        """Give up a task: nothing of it will be used, and what it occupies is freed where that can be done."""
        ...

    def close(self, grace: float) -> None:
        """End everything that can be ended; wait so many seconds for what cannot."""
        ...


@dataclass(eq=False, slots=True)
class _Worker:
    thread: Thread | None = None
    inbox: SimpleQueue[Task | None] = field(default_factory=SimpleQueue)


class ThreadLane:
    """Threads: a late function cannot be stopped, so its thread is left alone and counted, up to a bound.

    Threads are started on demand and used again. Once ``most_abandoned`` functions hang, no further ones are started
    until one of them comes back: a dead dependency costs its groups, not the memory of the service.
    """

    def __init__(self, clock: Clock, most_abandoned: int) -> None:
        self._clock, self._most = clock, most_abandoned
        self._lock = Lock()
        self._idle: list[_Worker] = []
        self._busy: dict[Task, _Worker] = {}
        self._closed = False

    @property
    def n_abandoned(self) -> int:
        """Number of functions that were given up and still run."""
        with self._lock:
            return sum(task.abandoned for task in self._busy)

    def start(self, task: Task) -> None:
        """Hand the task to an idle thread, or to a new one."""
        with self._lock:
            refusal = self._refusal()
            if refusal is None:
                try:
                    worker = self._idle.pop() if self._idle else self._new()
                    self._busy[task] = worker
                    worker.inbox.put(task)
                except RuntimeError as error:  # the system has no more threads to give
                    refusal = str(error)
        if refusal is not None:
            task.send(Message(task, Fault("refused", refusal), self._clock.now()))

    def abandon(self, task: Task) -> None:
        """Count the task among those that hang, until it is done."""
        task.abandoned = True  # without the lock: a run may end when Python collects it, in the middle of anything

    def close(self, grace: float) -> None:
        """End the threads; those that hang are daemons, and end with their function."""
        with self._lock:
            self._closed = True
            workers = [*self._idle, *self._busy.values()]
            self._idle = []
        end = self._clock.now() + grace
        for worker in workers:
            worker.inbox.put(None)
        for worker in workers:
            if worker.thread is not None:
                worker.thread.join(max(0.0, end - self._clock.now()))

    def _new(self) -> _Worker:
        worker = _Worker()
        worker.thread = Thread(target=self._work, args=(worker,), name="budgetline-extractor", daemon=True)
        worker.thread.start()
        return worker

    def _refusal(self) -> str | None:
        if self._closed:
            return "the runner is closed"
        hanging = sum(task.abandoned for task in self._busy) if len(self._busy) >= self._most else 0
        return f"{hanging} functions hang already (max_abandoned)" if hanging >= self._most else None

    def _work(self, worker: _Worker) -> None:
        while (task := worker.inbox.get()) is not None:
            outcome = run(task.extractor, task.columns, task.raws)
            finished = self._clock.now()
            with self._lock:
                del self._busy[task]
                if not self._closed:
                    self._idle.append(worker)
            task.send(Message(task, outcome, finished))
            del task, outcome  # an idle thread keeps nothing alive


class AsyncLane:
    """An event loop: a late coroutine is cancelled.

    Without a loop of its caller it runs one in a thread of its own.
    """

    def __init__(self, clock: Clock, loop: asyncio.AbstractEventLoop | None = None) -> None:
        self._clock, self._loop = clock, loop
        self._own: Thread | None = None
        self._lock = Lock()
        self._tasks: set[asyncio.Task[Any]] = set()
        self._ending: asyncio.Task[None] | None = None
        self._closed = False

    def start(self, task: Task) -> None:
        """Let the loop begin the task."""
        loop = self.open()
        if loop is None or not call_in(loop, self._begin, loop, task):
            task.send(Message(task, Fault("refused", "the runner is closed"), self._clock.now()))

    def abandon(self, task: Task) -> None:
        """Cancel the task."""
        task.abandoned = True
        if self._loop is not None:
            call_in(self._loop, self._cancel, task)

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
        if self._own is None or self._loop is None:
            return
        call_in(self._loop, self._begin_end, self._loop, grace)
        self._own.join(2 * grace)  # a function that blocks the loop ends with the process

    def _begin(self, loop: asyncio.AbstractEventLoop, task: Task) -> None:
        if task.abandoned:
            return
        if self._ending is not None:
            task.send(Message(task, Fault("refused", "the runner is closed"), self._clock.now()))
            return
        task.handle = loop.create_task(run_async(task.extractor, task.columns, task.raws))
        self._tasks.add(task.handle)  # the loop itself keeps weak references only

        def done(handle: asyncio.Task[Result | Fault]) -> None:
            self._tasks.discard(handle)
            if handle.cancelled():
                outcome: Result | Fault = Fault("raised", "CancelledError")
            else:
                error = handle.exception()
                outcome = handle.result() if error is None else raised(error)
            task.send(Message(task, outcome, self._clock.now()))

        task.handle.add_done_callback(done)

    def _cancel(self, task: Task) -> None:
        if task.handle is not None:
            task.handle.cancel()

    def _begin_end(self, loop: asyncio.AbstractEventLoop, grace: float) -> None:
        if self._ending is None:
            self._ending = loop.create_task(self._cancel_all(grace))
            self._ending.add_done_callback(lambda _: loop.stop())

    async def _cancel_all(self, grace: float) -> None:
        for handle in self._tasks:
            handle.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=grace)


def call_in(loop: asyncio.AbstractEventLoop, function: Callable[..., Any], *arguments: Any) -> bool:
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
