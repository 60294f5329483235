"""The process lane: extractors in processes of their own, which are killed when they are late."""

from __future__ import annotations

import multiprocessing
import signal
import sys
from collections.abc import Mapping
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from multiprocessing.reduction import ForkingPickler
from queue import SimpleQueue
from threading import Event, Lock, Thread
from typing import Any

from budgetline.runtime.answer import Fault
from budgetline.runtime.calls import Result, attempt_to, run
from budgetline.runtime.clock import Clock
from budgetline.runtime.extractors import Columns, Extractor
from budgetline.runtime.lanes import Message, Task

Functions = Mapping[int, tuple[Extractor, Columns]]

START_SECONDS = 60.0
"""A process that has not come up by then is given up; it imports what the extractors need first."""


def check_sendable(group: str, extractor: Extractor) -> None:
    """Raise an error unless the function can be run in another process."""
    if (fault := attempt_to(ForkingPickler.dumps, extractor)) is not None:
        raise ValueError(
            f"the extractor of group {group!r} cannot run in another process ({fault.message}): "
            "define its function at the top level of a module"
        )


class ProcessLane:
    """A few processes, each watched by a thread; tasks wait for a free one.

    A late function is killed with its process, and the watching thread starts another: nobody waits for that but the
    next task.
    """

    def __init__(self, clock: Clock, functions: Functions, size: int) -> None:
        self._tasks: SimpleQueue[Task | None] = SimpleQueue()
        self._slots = [_Slot(clock, functions, self._tasks) for _ in range(size)]
        self._lock = Lock()
        self._open = self._closed = False

    def open(self) -> None:
        """Start the processes, unless they run."""
        with self._lock:
            if not self._open:
                self._open = True
                for slot in self._slots:
                    slot.thread.start()

    def wait(self) -> None:
        """Return when all processes are ready for work (or could not be started)."""
        self.open()
        for slot in self._slots:
            slot.ready.wait()

    @property
    def processes(self) -> list[BaseProcess]:
        """The processes that run now."""
        return [slot.process for slot in self._slots if slot.process is not None and slot.process.is_alive()]

    def start(self, task: Task) -> None:
        """Queue the task for the next free process."""
        self.open()
        if self._closed:
            task.send(Message(task, Fault("refused", "the runner is closed"), task.started))
        else:
            self._tasks.put(task)

    def abandon(self, task: Task) -> None:
        """Kill the process that works on the task, if one does; otherwise the task is never begun."""
        task.abandoned = True
        for slot in self._slots:
            slot.kill(task)

    def close(self, grace: float) -> None:
        """End the processes."""
        with self._lock:
            self._closed = True
            if not self._open:
                return
        for _ in self._slots:
            self._tasks.put(None)
        for slot in self._slots:
            slot.thread.join(grace)
            slot.end()
            slot.thread.join(grace)


class _Slot:
    """One process, and the thread that feeds it."""

    def __init__(self, clock: Clock, functions: Functions, tasks: SimpleQueue[Task | None]) -> None:
        self._clock, self._functions, self._tasks = clock, functions, tasks
        self._lock = Lock()
        self._current: Task | None = None
        self._pipe: Connection | None = None
        self.process: BaseProcess | None = None
        self.ready = Event()
        self.thread = Thread(target=self._serve, name="budgetline-process", daemon=True)

    def kill(self, task: Task) -> None:
        """Kill the process if it works on this task."""
        with self._lock:
            if self._current is task and self.process is not None:
                self.process.kill()

    def end(self) -> None:
        """Kill the process, whatever it does."""
        with self._lock:
            if self.process is not None:
                self.process.kill()
                self.process.join()

    def _serve(self) -> None:
        self._launch()
        while (task := self._tasks.get()) is not None:
            if task.abandoned:
                continue
            outcome = self._outcome(task)
            task.send(Message(task, outcome, self._clock.now()))
            if self._pipe is None:
                self._launch()
        if self._pipe is not None:
            self._pipe.close()  # the process ends when it reads the end of the pipe
            self._pipe = None
        if self.process is not None:
            self.process.join()

    def _outcome(self, task: Task) -> Result | Fault:
        if self._pipe is None and not self._launch():
            return Fault("died", "its process could not be started")
        assert self._pipe is not None
        assert self.process is not None
        with self._lock:
            self._current = task
        try:
            unsent = attempt_to(self._pipe.send, (task.position, task.raws))
            if unsent is not None and self.process.is_alive():
                return Fault("type", f"the input cannot be sent to a process: {unsent.message}")
            outcome: Result | Fault = self._pipe.recv()
        except (EOFError, OSError):
            self.process.join()
            outcome = Fault("died", f"its process ended with exit code {self.process.exitcode}")
        finally:
            with self._lock:
                self._current = None
        if task.abandoned or (isinstance(outcome, Fault) and outcome.kind == "died"):
            self._pipe.close()  # a process that was killed, or is about to be
            self._pipe = None
            self.process.join()
        return outcome

    def _launch(self) -> bool:
        """Start a process and wait until it is ready."""
        ours, theirs = _context().Pipe()
        process = _context().Process(target=_child, args=(theirs, dict(self._functions)), daemon=True)
        try:
            process.start()
            with self._lock:
                self.process = process
            theirs.close()
            came_up = bool(ours.poll(START_SECONDS) and ours.recv() == "ready")
        except (EOFError, OSError):
            came_up = False
        if came_up:
            self._pipe = ours
        else:
            ours.close()
        self.ready.set()
        return came_up


def _context() -> Any:
    """Return the way to start processes: forked from a server that has imported this module; Windows spawns them."""
    if sys.platform == "win32":
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["__main__", __name__])
    return context


def _child(pipe: Connection, functions: Functions) -> None:
    """Run tasks until the pipe ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent, which ends its processes
    pipe.send("ready")
    while True:
        try:
            position, raws = pipe.recv()
        except EOFError:
            return
        outcome = run(*functions[position], raws)
        if (unsent := attempt_to(pipe.send, outcome)) is not None:
            pipe.send(Fault("type", unsent.message))
