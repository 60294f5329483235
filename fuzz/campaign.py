"""A campaign: kinds take turns, workers run one kernel of the linear algebra after another, failures are kept."""

from __future__ import annotations

import json
import os
import re
import select
import subprocess
import sys
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any, Self

from budgetline.files import write_atomically
from fuzz import REGRESSIONS, ROOT, trials
from fuzz.trials import Case

SECONDS = 120.0
"""Seconds after which a case counts as hanging."""
STARTING, ENDING = 120.0, 20.0
"""How long a worker may take to start and to end."""
SHRINKING = 60.0
"""Seconds spent on making one failing case smaller."""
ALIKE = 3
"""How many failures with the same text are kept; all are counted."""


class Worker:
    """A process that checks cases with one kernel.

    Attributes
    ----------
    blas : list of str
        The kernels that it really took; empty if it did not start.
    """

    def __init__(self, kernel: str) -> None:
        path = os.pathsep.join(filter(None, [str(ROOT / "src"), str(ROOT), os.environ.get("PYTHONPATH")]))
        environment = os.environ | {
            "OPENBLAS_CORETYPE": kernel, "OPENBLAS_NUM_THREADS": "1", "PYTHONPATH": path, "MPLBACKEND": "Agg",
        }  # fmt: skip
        self.kernel = kernel
        self._process = subprocess.Popen(
            [sys.executable, "-m", "fuzz.worker"], cwd=ROOT, env=environment, stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        self._rest = b""
        self.blas: list[str] = self._line(STARTING).get("blas", [])
        if self.blas and (why := self._line(STARTING)["failed"]):
            raise RuntimeError(f"a worker cannot start: {why}")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Ask the process to end, so that it cleans up; kill it if it does not."""
        try:
            self._process.communicate(timeout=ENDING)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.communicate()

    @property
    def alive(self) -> bool:
        """Whether the process can accept a case."""
        return self._process.poll() is None

    def ask(self, do: str, kind: str, case: Any) -> dict[str, Any]:
        """Return the answer of the process; a crash or a hang counts as a failure and ends the process."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps({"do": do, "kind": kind, "case": case}).encode() + b"\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            return {"failed": "crash: the worker is gone", "at": "worker"}
        return self._line(SECONDS)

    def _line(self, seconds: float) -> dict[str, Any]:
        stream = self._process.stdout
        assert stream is not None
        end = time.monotonic() + seconds
        while b"\n" not in self._rest:
            if not select.select([stream], [], [], max(0.0, end - time.monotonic()))[0]:
                self._process.kill()
                self._process.wait()
                return {"failed": f"hang: no answer after {seconds:.0f} s", "at": "worker"}
            data = os.read(stream.fileno(), 2**16)
            if not data:
                return {"failed": f"crash: the worker ended with {self._process.wait()}", "at": "worker"}
            self._rest += data
        line, self._rest = self._rest.split(b"\n", 1)
        return dict(json.loads(line))


@dataclass
class Finding:
    """Failures that look alike: one text, how many there are, and the files that were kept."""

    kind: str
    text: str
    count: int = 0
    files: list[str] = field(default_factory=list)


@dataclass
class Tally:
    """What has been counted.

    Attributes
    ----------
    cases, failures : Counter
        By (kind, kernel).
    seconds : Counter
        By kind.
    findings : dict
        How a failure looks -> what is known of it.
    took : dict
        Kernel -> the name that the linear algebra gives to what it runs.
    skipped : list of str
        Kernels that the processor cannot run.
    """

    cases: Counter[tuple[str, str]] = field(default_factory=Counter)
    failures: Counter[tuple[str, str]] = field(default_factory=Counter)
    seconds: Counter[str] = field(default_factory=Counter)
    findings: dict[str, Finding] = field(default_factory=dict)
    took: dict[str, str] = field(default_factory=dict)
    skipped: list[str] = field(default_factory=list)


def seed_of(campaign: int, kind: str, k: int) -> int:
    """Return the seed of the k-th case of a kind."""
    return int.from_bytes(sha256(f"{campaign} {kind} {k}".encode()).digest()[:5], "little")


class Campaign:
    """Checks cases until the time is over; the kind that has had the least time is next.

    Parameters
    ----------
    seed : int
        The same seed draws the same cases.
    minutes : float
    kinds, kernels : names
    say : function
        Is told how it goes, in lines.
    folder : Path
        Where cases that fail are kept.
    """

    def __init__(
        self,
        seed: int,
        minutes: float,
        kinds: Sequence[str],
        kernels: Sequence[str],
        say: Callable[[str], None],
        folder: Path = REGRESSIONS,
    ) -> None:
        self.tally = Tally()
        self._seed, self._kinds, self._kernels, self._say, self._folder = seed, kinds, deque(kernels), say, folder
        self._end = time.monotonic() + 60 * minutes
        self._turn = max(10.0, min(120.0, 30 * minutes / len(kernels)))
        self._numbers: Counter[str] = Counter()
        self._lock = threading.Lock()

    def run(self, jobs: int = 1) -> Tally:
        """Run with the given number of workers at a time."""
        with ThreadPoolExecutor(jobs) as pool:
            for future in [pool.submit(self._take_turns) for _ in range(jobs)]:
                future.result()
        return self.tally

    def _take_turns(self) -> None:
        """Run one kernel after another."""
        while time.monotonic() < self._end and (kernel := self._next_kernel()) is not None:
            with Worker(kernel) as worker:
                if not worker.blas:
                    self._leave_out(kernel)
                    continue
                self.tally.took[kernel] = ", ".join(worker.blas)
                until = min(self._end, time.monotonic() + self._turn)
                while worker.alive and time.monotonic() < until:
                    self._one(worker)
            total, failed = (sum(counted.values()) for counted in (self.tally.cases, self.tally.failures))
            self._say(f"{total} cases, {failed} failed, last with {kernel}")

    def _next_kernel(self) -> str | None:
        """Return the kernel whose turn it is; None if none runs here."""
        with self._lock:
            self._kernels.rotate(-1)
            return self._kernels[-1] if self._kernels else None

    def _leave_out(self, kernel: str) -> None:
        """Record that the processor cannot run a kernel."""
        with self._lock:
            if kernel in self._kernels:
                self._kernels.remove(kernel)
                self.tally.skipped.append(kernel)
                self._say(f"{kernel} does not run here")

    def _next(self) -> tuple[str, int]:
        """Return the kind whose turn it is, and the seed of its next case."""
        with self._lock:
            kind = min(self._kinds, key=lambda kind: (self.tally.seconds[kind], self._numbers[kind]))
            self._numbers[kind] += 1
            return kind, seed_of(self._seed, kind, self._numbers[kind])

    def _one(self, worker: Worker) -> None:
        """Check one case, count it, and keep it if it failed."""
        kind, seed = self._next()
        start = time.monotonic()
        case = worker.ask("draw", kind, seed).get("case")
        found = worker.ask("check", kind, case)
        with self._lock:
            self.tally.seconds[kind] += time.monotonic() - start
            self.tally.cases[kind, worker.kernel] += 1
            if found["failed"] is None:
                return
            self.tally.failures[kind, worker.kernel] += 1
            look = f"{kind} {found['at']} {re.sub(r'[^A-Za-z ]+', '#', found['failed'])[:60]}"
            finding = self.tally.findings.setdefault(look, Finding(kind, found["failed"]))
            finding.count += 1
            path = self._folder / f"{kind}-{seed}.json"
            if len(finding.files) == ALIKE:
                return
            finding.files.append(path.name)
        self._say(f"{kind} {seed} failed with {worker.kernel}: {found['failed'][:300]}")
        smallest, text = shrunk(worker, kind, case, found) if worker.alive else (case, found["failed"])
        write_atomically(path, trials.written(kind, smallest, text, worker.kernel).encode())


def shrunk(worker: Worker, kind: str, case: Case, found: dict[str, Any]) -> tuple[Case, str]:
    """Return a simpler case that fails at the same place, and how; the case itself if there is none."""
    end = time.monotonic() + SHRINKING
    text = found["failed"]
    todo = worker.ask("smaller", kind, case)
    kept = todo.get("kept", case)
    waiting = list(todo.get("cases", []))
    while waiting and worker.alive and time.monotonic() < end:
        simpler = waiting.pop(0)
        again = worker.ask("check", kind, simpler)
        if again["failed"] is not None and again["at"] == found["at"]:
            text, todo = again["failed"], worker.ask("smaller", kind, simpler)
            kept, waiting = todo.get("kept", simpler), list(todo.get("cases", []))
    return kept, text
