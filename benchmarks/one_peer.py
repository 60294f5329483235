"""Run one peer and print what was measured: ``python one_peer.py MODULE NAME FOLDER LIMIT``, for ``compare_peers.py``.

It imports NumPy and the adapter only, so that it runs in the environment of a peer that cannot share this one.
"""

from __future__ import annotations

import importlib
import json
import resource
import signal
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from peers.problem import Peer, Problem, explained

MOST_MEMORY = 16 << 30
PREPARATION_LIMIT = 600


def cpu_seconds() -> float:
    usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(u.ru_utime + u.ru_stime for u in usages)


def peak_mb() -> float:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(float(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024


def say(**facts: Any) -> None:
    print(json.dumps(facts), flush=True)


def run(peer: Peer, problem: Problem, limit: float) -> None:
    """Measure a peer and print the results; an alarm of the system ends the process at its limit."""
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.alarm(PREPARATION_LIMIT)
    resource.setrlimit(resource.RLIMIT_DATA, (MOST_MEMORY, MOST_MEMORY))
    if peer.compiles:
        few = problem.head(min(200, len(problem.y)))
        peer.run(few, peer.prepare(few), lambda **_: None)
    start = time.perf_counter()
    prepared = peer.prepare(problem)
    preparation = time.perf_counter() - start
    times: list[tuple[float, float]] = []
    # Three runs, or as many as fit into five seconds: short ones are noisy.
    while not times or (len(times) < 3 and sum(t for t, _ in times) < 5):
        signal.setitimer(signal.ITIMER_REAL, limit)
        start, before = time.perf_counter(), cpu_seconds()
        answer = peer.run(problem, prepared, say)
        times.append((time.perf_counter() - start, cpu_seconds() - before))
        signal.alarm(PREPARATION_LIMIT)
    peak = peak_mb()
    wall, cpu = np.median(times, axis=0)
    say(
        wall=float(wall), cpu=float(cpu), preparation=preparation, peak_mb=peak, models=answer.models,
        groups=answer.groups, columns=answer.columns, explained=explained(problem.y, answer.fitted(), peer.loss),
        **answer.checks(),
    )  # fmt: skip


if __name__ == "__main__":
    module, name, folder, limit = sys.argv[1:]
    run(importlib.import_module(module).PEERS[name], Problem.load(Path(folder)), float(limit))
