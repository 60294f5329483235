"""Lanes: where extractors run, and how a late one is given up. Each takes tasks and delivers their outcome once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from queue import SimpleQueue
from threading import Lock, Thread
from typing import Any, Protocol

from budgetline.runtime.answer import Fault
from budgetline.runtime.calls import Result, run, run_async
from budgetline.runtime.clock import Clock
from budgetline.runtime.extractors import Columns, Extractor


@dataclass(eq=False, slots=True)
class Task:
    """One call of one extractor: what to run, and where its outcome goes."""

    position: int
    extractor: Extractor
    columns: Columns
    raws: Sequence[Any]
    started: float
    send: Callable[[Message], None]
    abandoned: bool = False
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
                worker = self._idle.pop() if self._idle else _Worker()
                self._busy[task] = worker
        if refusal is not None:
            task.send(Message(task, Fault("refused", refusal), self._clock.now()))
            return
        worker.inbox.put(task)
        if worker.thread is None:
            worker.thread = Thread(target=self._work, args=(worker,), name="budgetline-extractor", daemon=True)
            worker.thread.start()

    def abandon(self, task: Task) -> None:
        """Count the task among those that hang, until it is done."""
        with self._lock:
            task.abandoned = True

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
        self._closed = False

    def start(self, task: Task) -> None:
        """Let the loop begin the task."""
        loop = self.open()
        if loop is None:
            task.send(Message(task, Fault("refused", "the runner is closed"), self._clock.now()))
        else:
            loop.call_soon_threadsafe(self._begin, loop, task)

    def abandon(self, task: Task) -> None:
        """Cancel the task."""
        task.abandoned = True
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._cancel, task)

    def open(self) -> asyncio.AbstractEventLoop | None:
        """Return the loop, started if need be; None once closed."""
        with self._lock:
            if self._closed:
                return None
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._own = Thread(target=self._loop.run_forever, name="budgetline-loop", daemon=True)
                self._own.start()
            return self._loop

    def close(self, grace: float) -> None:
        """Cancel everything, and end a loop of our own."""
        with self._lock:
            self._closed = True
        if self._own is None or self._loop is None or self._loop.is_closed():
            return
        asyncio.run_coroutine_threadsafe(self._cancel_all(grace), self._loop).add_done_callback(self._stop)
        self._own.join(grace)
        if not self._own.is_alive():  # otherwise a function blocks it, and it ends with the process
            self._loop.close()

    def _begin(self, loop: asyncio.AbstractEventLoop, task: Task) -> None:
        if task.abandoned:
            return
        task.handle = loop.create_task(run_async(task.extractor, task.columns, task.raws))
        self._tasks.add(task.handle)  # the loop itself keeps weak references only

        def done(handle: asyncio.Task[Result | Fault]) -> None:
            self._tasks.discard(handle)
            outcome = Fault("raised", "CancelledError") if handle.cancelled() else handle.result()
            task.send(Message(task, outcome, self._clock.now()))

        task.handle.add_done_callback(done)

    def _cancel(self, task: Task) -> None:
        if task.handle is not None:
            task.handle.cancel()

    async def _cancel_all(self, grace: float) -> None:
        for handle in self._tasks:
            handle.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=grace)

    def _stop(self, _: Any) -> None:
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._loop.stop)
