"""The process lane: extractors in worker processes, which are killed when they are late.

pebble 5.2.3 was tried instead (2026-11-18, 2 cores). A call takes 1.5 times as long, and processes that a killed worker
has started live on. Behind a late worker in C code, the next answer takes 3 s (here 0.06 to 0.3 s). Behind one that
hangs in Python it takes 0.02 to 0.05 s (here 0.05 to 0.3 s). If the system kills an idle worker, the pool is broken.
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
from weakref import WeakSet

from budgetline.messages import cut
from budgetline.runtime.answer import Fault
from budgetline.runtime.clock import Clock
from budgetline.runtime.extractors import Extractor, Result, attempt, run
from budgetline.runtime.lanes import UNFINISHED, Call, QueueLane
from budgetline.runtime.values import Reader

Functions = Mapping[int, tuple[Extractor, Reader]]

START_SECONDS = 60.0
"""A process that is not ready after this time is given up; first it imports what the extractors need."""
PATIENCE = 0.25
"""A late function gets as long as a process takes to start, at most this long: the first start is slow."""
LOOK_SECONDS = 0.02
"""How often a running call is checked: it may have been abandoned."""
AT_ONCE = 1 << 13
"""Every pipe holds this many bytes that nobody reads; sending more waits for the process to read."""
END_SECONDS = 1.0
"""A process that still runs this long after its pipe was closed is killed."""


class ProcessLane(QueueLane):
    """A few processes, each watched by a thread; calls wait for a free one.

    A late function is killed with its process, and the watching thread starts another process. First the function gets
    as long as that start takes: if it returns by then, no process is lost. Killing at once would make a busy machine,
    on which functions are a little late, busier. A process has a process group of its own, which is killed with it:
    nothing that a function started outlives it.
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
        """End the processes."""
        with self._lock:
            self._closed = True
        for slot in self._slots:
            slot.end(for_good=True)
        super().close(grace)

    def _prepare(self) -> Fault | None:
        if not self._threads:
            for slot in self._slots:
                thread = Thread(target=self._watch, args=(slot,), name="budgetline-process", daemon=True)
                thread.start()
                self._threads.append(thread)
        return None

    def _watch(self, slot: _Slot) -> None:
        self._work(slot.outcome, slot.be_ready)
        slot.drop()

    def forget(self) -> None:
        """Leave the processes to the parent: this process is a fork of it."""
        for slot in self._slots:
            slot.forget()


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
        self._lock = Lock()
        self._patience = PATIENCE
        self._pipe: Connection | None = None
        self._ended = False
        self._trouble = ""
        self.process: BaseProcess | None = None
        self.ready = Event()

    def end(self, for_good: bool = False) -> None:
        """Kill the process and what it started; ``for_good``: start no other."""
        with self._lock:
            self._ended = self._ended or for_good
            if self.process is not None:
                _kill(self.process)

    def forget(self) -> None:
        """Drop the process without ending it; multiprocessing would end it when a fork exits."""
        if self._pipe is not None:
            self._pipe.close()
        getattr(multiprocessing.process, "_children", set()).discard(self.process)
        self._lock, self._pipe, self.process = Lock(), None, None

    def outcome(self, call: Call) -> Result | Fault:
        """Run a call in the process."""
        if call.abandoned:
            return UNFINISHED
        if not self.be_ready():
            return Fault("died", f"its process could not be started{self._trouble}")
        assert self._pipe is not None
        assert self.process is not None
        content = attempt(ForkingPickler.dumps, (call.position, call.raws))
        if isinstance(content, Fault):
            return Fault("type", f"the input cannot be sent to a process: {content.message}")
        kill_at, sending = inf, None
        try:
            if len(content) <= AT_ONCE:
                self._pipe.send_bytes(content)
            else:  # in a thread: a stopped process reads nothing, and must be killed meanwhile
                sent = self._pipe.send_bytes, content
                sending = Thread(target=attempt, args=sent, name="budgetline-sending", daemon=True)
                sending.start()
            while not wait([self._pipe, self.process.sentinel], LOOK_SECONDS):
                if call.abandoned:
                    kill_at = min(kill_at, time.monotonic() + self._patience)
                if time.monotonic() >= kill_at:
                    self.end()
            outcome: Result | Fault = _filled(self._pipe).recv()
        except (EOFError, OSError):
            if sending is not None:
                self.end()  # all that hold the pipe, so that sending ends, too
                sending.join()
            outcome = Fault("died", f"its process ended with exit code {self.drop()}")
        return outcome

    def drop(self) -> int | None:
        """Close the pipe, so that the process ends, kill what is left, and return the exit code."""
        if self._pipe is not None:
            self._pipe.close()
            self._pipe = None
        if self.process is None:
            return None
        self.process.join(END_SECONDS)
        self.end()
        self.process.join()
        code = self.process.exitcode
        with self._lock:
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
        ours, theirs = context.Pipe()
        process = context.Process(target=_child, args=(theirs, dict(self._functions)), daemon=True)
        came_up = False
        try:
            if self._ended:
                return False
            process.start()
            with self._lock:
                self.process = process
                if self._ended:
                    _kill(process)
            theirs.close()
            wait([ours, process.sentinel], START_SECONDS)
            came_up = _filled(ours).recv() == "ready"
            self._patience = min(time.monotonic() - begun, PATIENCE)
        except (EOFError, OSError):
            self._trouble = ""
        except (AssertionError, RuntimeError) as error:  # from multiprocessing, in a daemon or without a main guard
            self._trouble = f": {cut(str(error))}"
        finally:
            self._pipe = ours
            if not came_up:
                self.drop()
            self.ready.set()
        return came_up


def _kill(process: BaseProcess) -> None:
    """Kill a process and its group, which may outlive it."""
    if sys.platform != "win32" and process.pid is not None:
        with suppress(ProcessLookupError, PermissionError):  # it has no group yet, or the group is empty
            os.killpg(process.pid, signal.SIGKILL)
    process.kill()


def _filled(pipe: Connection) -> Connection:
    """Return the pipe if something is in it; else the process is dead or late, though its fork may hold the pipe."""
    if not pipe.poll():
        raise EOFError
    return pipe


def _context(functions: Functions) -> ForkServerContext | SpawnContext:
    """Return how to start processes: forked from a server that has imported this module; spawned on Windows."""
    if sys.platform == "win32":
        return multiprocessing.get_context("spawn")
    # a fork has what the server has imported, so that a killed process is replaced in milliseconds
    found = {"__main__", __name__}
    for function in (extractor.function for extractor, _ in functions.values()):
        found.add(function.__module__ if isinstance(function, FunctionType) else type(function).__module__)
    # Python 3.11 does not preload the main module, and every process runs it again: preload at least its imports
    for value in list(vars(sys.modules["__main__"]).values()):
        if isinstance(value, ModuleType):
            found.add(value.__name__)
        elif isinstance(value, type | FunctionType):
            found.add(value.__module__)
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
