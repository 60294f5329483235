"""The process lane: extractors in worker processes, which are killed when they are late.

pebble is no replacement (``docs/developers/notebook.md``): what a killed worker has started lives on, a late worker in
C code blocks the next prediction for 3 s, and a pool is broken when the system kills an idle worker.
"""

from __future__ import annotations

import atexit
import multiprocessing
import os
import signal
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from math import inf
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkServerContext, SpawnContext
from multiprocessing.process import BaseProcess
from multiprocessing.reduction import ForkingPickler
from threading import Event, Lock, Thread
from types import FunctionType, ModuleType
from typing import Any
from weakref import WeakSet

from budgetline.messages import cut
from budgetline.runtime.clock import Clock
from budgetline.runtime.extractors import Extractor, Outcome, attempt, run
from budgetline.runtime.lanes import UNFINISHED, Call, QueueLane
from budgetline.runtime.prediction import Fault
from budgetline.runtime.values import Reader

Functions = Mapping[int, tuple[Extractor, Reader]]

START_SECONDS = 60.0
"""A process that is not ready after this time is given up; first it imports what the extractors need."""
PATIENCE = 0.25
"""A late function gets as long as a process takes to start, at most this long: the first start is slow."""
LOOK_SECONDS = 0.02
"""How often a running call is checked: it may have been abandoned."""
END_SECONDS = 1.0
"""A process that still runs this long after its pipe was closed is killed."""


class ProcessLane(QueueLane):
    """A few processes, each watched by a thread; calls wait for a free one.

    A late function is killed with its process, and its thread starts another process. First the function gets as long
    as such a start takes: killing at once would make a busy machine, on which functions are a little late, busier. A
    process has a process group of its own, which is killed with it: nothing that a function started outlives it.
    """

    def __init__(self, clock: Clock, functions: Functions, size: int) -> None:
        super().__init__(clock)
        self._slots = [_Slot(functions) for _ in range(size)]
        _LANES.add(self)

    @property
    def ids(self) -> tuple[int, ...]:
        """Ids of the processes that run now."""
        processes = [slot.process for slot in self._slots]
        return tuple(process.pid for process in processes if process and process.is_alive() and process.pid)

    def open(self) -> None:
        """Start the processes unless they run, and wait until each is ready or could not be started."""
        with self._lock:
            if not self._closed:
                self._prepare()
        for slot in self._slots[: len(self._threads)]:
            slot.ready.wait()

    def close(self, grace: float) -> None:
        with self._lock:
            self._closed = True
        for slot in self._slots:
            slot.end(for_good=True)
        super().close(grace)

    def forget(self) -> None:
        """Leave the processes to the parent: this process is a fork of it, and must not end them when it exits."""
        for slot in self._slots:
            getattr(multiprocessing.process, "_children", set()).discard(slot.process)
            slot.lock, slot.pipe, slot.process = Lock(), None, None

    def _prepare(self) -> None:
        for slot in () if self._threads else self._slots:
            self._threads.append(Thread(target=self._watch, args=(slot,), name="budgetline-process", daemon=True))
            self._threads[-1].start()

    def _watch(self, slot: _Slot) -> None:
        self._work(slot.outcome, slot.be_ready)
        slot.drop()


_LANES: WeakSet[ProcessLane] = WeakSet()


@atexit.register  # runs before that of multiprocessing, which registered earlier
def _close_all() -> None:
    """Close the open lanes; else multiprocessing would kill their processes, and the lanes start others."""
    for lane in list(_LANES):
        lane.close(1.0)


def _forget_all() -> None:
    for lane in list(_LANES):
        lane.forget()
    _LANES.clear()


if sys.platform != "win32":
    os.register_at_fork(after_in_child=_forget_all)


class _Slot:
    """One process after another, used by the thread that watches them."""

    def __init__(self, functions: Functions) -> None:
        self._functions = functions
        self._patience = PATIENCE
        self._ended = False
        self._trouble = ""
        self.lock = Lock()
        self.pipe: Connection | None = None
        self.process: BaseProcess | None = None
        self.ready = Event()

    def end(self, for_good: bool = False) -> None:
        """Kill the process and what it started; ``for_good``: start no other."""
        with self.lock:
            self._ended = self._ended or for_good
            if self.process is not None:
                _kill(self.process)

    def outcome(self, call: Call) -> Outcome:
        """Run a call in the process."""
        if call.abandoned:
            return UNFINISHED
        if not self.be_ready():
            return Fault("died", f"its process could not be started{self._trouble}")
        assert self.pipe is not None
        assert self.process is not None
        content = attempt(ForkingPickler.dumps, (call.position, call.raws))
        if isinstance(content, Fault):
            return Fault("type", f"the input cannot be sent to a process: {content.message}")
        kill_at = inf
        try:
            self.pipe.send_bytes(content)
            while not wait([self.pipe, self.process.sentinel], LOOK_SECONDS):
                if call.abandoned:
                    kill_at = min(kill_at, time.monotonic() + self._patience)
                if time.monotonic() >= kill_at:
                    self.end()
            outcome: Outcome = self._received()
            return outcome
        except (EOFError, OSError):
            return Fault("died", f"its process ended with exit code {self.drop()}")

    def drop(self) -> int | None:
        """Close the pipe, so that the process ends, kill what is left, and return the exit code."""
        if self.pipe is not None:
            self.pipe.close()
            self.pipe = None
        if self.process is None:
            return None
        self.process.join(END_SECONDS)
        self.end()
        self.process.join()
        code = self.process.exitcode
        with self.lock:
            self.process = None  # another process may get its id
        return code

    def be_ready(self) -> bool:
        """Start a process unless one runs, wait until it is ready, and return whether it is."""
        if self.process is not None:
            if self.process.is_alive():
                return True
            self.drop()
        begun = time.monotonic()
        context = _context(self._functions)
        self.pipe, theirs = context.Pipe()
        process = context.Process(target=_child, args=(theirs, dict(self._functions)), daemon=True)
        came_up, self._trouble = False, ""
        try:
            if self._ended:
                return False
            process.start()
            with self.lock:
                self.process = process
                if self._ended:
                    _kill(process)
            theirs.close()
            wait([self.pipe, process.sentinel], START_SECONDS)
            came_up = self._received() == "ready"
            self._patience = min(time.monotonic() - begun, PATIENCE)
        except (EOFError, OSError):
            pass  # it died, or is late
        except (AssertionError, RuntimeError) as error:  # from multiprocessing, in a daemon or without a main guard
            self._trouble = f": {cut(str(error))}"
        finally:
            if not came_up:
                self.drop()
            self.ready.set()
        return came_up

    def _received(self) -> Any:
        """Return what is in the pipe; if nothing is, the process is dead or late, though its fork may hold the pipe."""
        if self.pipe is None or not self.pipe.poll():
            raise EOFError
        return self.pipe.recv()


def _kill(process: BaseProcess) -> None:
    """Kill a process and its group, which may outlive it."""
    if sys.platform != "win32" and process.pid is not None:
        with suppress(ProcessLookupError, PermissionError):  # it has no group yet, or the group is empty
            os.killpg(process.pid, signal.SIGKILL)
    process.kill()


def _context(functions: Functions) -> ForkServerContext | SpawnContext:
    """Return how to start processes: forked from a server that has imported this module; spawned on Windows."""
    if sys.platform == "win32":
        return multiprocessing.get_context("spawn")
    # a fork has what the server has imported, so a killed process is replaced in milliseconds; Python 3.11 does not
    # preload the main module: preload at least its imports
    found = {"__main__", __name__}
    called = [extractor.function for extractor, _ in functions.values()]
    for value in [*called, *vars(sys.modules["__main__"]).values()]:
        own = value if isinstance(value, ModuleType | type | FunctionType) else type(value)
        found.add(own.__name__ if isinstance(own, ModuleType) else own.__module__)
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(sorted(found & {*sys.modules}))
    return context


def _child(pipe: Connection, functions: Functions) -> None:
    """Run calls until the pipe ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the parent, which ends its processes
    if sys.platform != "win32":
        os.setsid()  # a group of its own, to be killed as a whole
        os.register_at_fork(after_in_child=pipe.close)
    own = os.getpid()
    pipe.send("ready")
    while True:
        try:
            content = pipe.recv_bytes()
        except EOFError:  # the parent is dead
            if sys.platform != "win32":
                os.killpg(own, signal.SIGKILL)
            return
        found = attempt(ForkingPickler.loads, content)
        if isinstance(found, Fault):
            pipe.send(Fault("type", f"the input cannot be read in a process: {found.message}"))
            continue
        position, raws = found
        outcome = run(*functions[position], raws)
        if os.getpid() != own:  # a fork made by the function has returned, too
            os._exit(0)
        pipe.send(outcome)  # numbers and texts: they can be sent
