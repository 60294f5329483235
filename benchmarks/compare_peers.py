"""What people would use instead, side by side: wall clock, CPU and peak memory, with our time as 1.

``python benchmarks/compare_peers.py --write docs/results/peers.md``; ``--quick`` runs tiny shapes. The packages are
``pip install 'budgetline[peers]'``; one that is missing, fails or does not finish in ``--limit`` seconds is listed as
such. Every peer runs in a process of its own (``--child``), with the same threads; the adapters are in ``peers/``.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import importlib.util
import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from core import conditions
from peers import PEERS, Peer, Problem
from peers.problem import N_LAMBDAS, THREADS

from budgetline.datasets import make_agricultural, make_yahoo

Measured = dict[str, Any]
THREAD_SETTINGS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")
DISTRIBUTIONS = {"sklearn": "scikit-learn", "spams": "spams-bin"}
MOST_MEMORY = 16 << 30
PREPARATION_LIMIT = 600


# -- the shapes ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Shape:
    """Data to compare on. Of wide data everyone takes a first part of the path only."""

    title: str
    make: Callable[[], Problem]
    quick: Callable[[], Problem]
    tall: bool = True


def in_order(X: np.ndarray, y: np.ndarray, columns: list[np.ndarray], costs: np.ndarray) -> Problem:
    """Make the columns of a group neighbours, as some peers want."""
    order = np.concatenate(columns)
    return Problem(np.ascontiguousarray(X[:, order]), y.astype(float), np.array([c.size for c in columns]), costs)


def agricultural() -> Problem:
    field = make_agricultural(100_000, random_state=0)
    layout = field.feature_groups.resolve(None, field.data.shape[1])
    return in_order(field.data, field.target, list(layout.columns), np.array(field.feature_groups.costs))


def yahoo() -> Problem:
    web = make_yahoo(200_000, random_state=0)
    layout = web.feature_groups.resolve(None, web.data.shape[1])
    return in_order(web.data, web.target, list(layout.columns), np.array(web.feature_groups.costs))


def drawn(rows: int, D: int, most: int | None = None) -> Problem:
    """Groups of 5 neighbouring columns, which are correlated; every 20th column carries signal."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((rows, D))
    X[:, 1:] += 0.5 * X[:, :-1]
    y = X[:, ::20] @ rng.standard_normal(X[:, ::20].shape[1]) + rng.standard_normal(rows)
    return Problem(X, y, np.full(D // 5, 5), rng.uniform(0.5, 2, D // 5), most)


SHAPES = {
    "agricultural": Shape("Agricultural shape", agricultural, lambda: drawn(300, 40)),
    "yahoo": Shape("Yahoo shape", yahoo, lambda: drawn(400, 60)),
    "wide": Shape("Wide", lambda: drawn(2_000, 20_000, 100), lambda: drawn(60, 120, 5), tall=False),
}


# -- one peer, in its own process ------------------------------------------------------------------------------


def cpu_seconds() -> float:
    usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(u.ru_utime + u.ru_stime for u in usages)


def peak_mb() -> float:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(float(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024


def say(**facts: Any) -> None:
    print(json.dumps(facts), flush=True)


def child(name: str, folder: Path, limit: float) -> None:
    """Run one peer and print what was measured; the clock of the system ends the process at its limit."""
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.alarm(PREPARATION_LIMIT)
    resource.setrlimit(resource.RLIMIT_DATA, (MOST_MEMORY, MOST_MEMORY))
    peer, problem = PEERS[name], Problem.load(folder)
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
    left = problem.y - answer.fitted()
    wall, cpu = np.median(times, axis=0)
    say(
        wall=float(wall), cpu=float(cpu), preparation=preparation, peak_mb=peak, models=answer.models,
        groups=answer.groups, columns=answer.columns, explained=float(1 - left @ left / len(left) / problem.y.var()),
    )  # fmt: skip


# -- all of them -----------------------------------------------------------------------------------------------


def installed(peer: Peer) -> bool:
    return importlib.util.find_spec(peer.package) is not None


def measure(name: str, folder: Path, limit: float) -> Measured:
    """Run a peer in its own process; return its measurements, or why there are none."""
    peer = PEERS[name]
    if not installed(peer):
        return {"failed": f"not installed: {DISTRIBUTIONS.get(peer.package, peer.package)}"}
    command = [sys.executable, __file__, "--child", name, "--folder", str(folder), "--limit", str(limit)]
    environment = os.environ | dict.fromkeys(THREAD_SETTINGS, str(THREADS))
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen(command, stdout=out, stderr=errors, env=environment)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        errors.seek(0)
        said, trouble = facts_in(out.read()), errors.read().strip()
    last = said[-1] if said else {}
    if process.returncode == 0 and "wall" in last:
        return last
    reached = {k: last[k] for k in ("models", "of", "groups") if k in last}
    why = f"> {limit:g} s" if process.returncode == -signal.SIGALRM else reason(process.returncode, trouble)
    return {"failed": why, "peak_mb": usage.ru_maxrss / 1024, **reached}


def facts_in(printed: str) -> list[Measured]:
    """Return what ``say`` printed; some packages print lines of their own."""
    return [json.loads(line) for line in printed.splitlines() if line.startswith("{") and line.endswith("}")]


def reason(code: int, trouble: str) -> str:
    last = trouble.splitlines()[-1] if trouble else "no message"
    return f"failed ({signal.Signals(-code).name if code < 0 else f'exit {code}'}): {last[:120]}"


def compare(shape: str, quick: bool, limit: float, names: list[str]) -> tuple[Problem, dict[str, Measured]]:
    """Measure all peers on a shape, ours first and once more at the end."""
    with tempfile.TemporaryDirectory() as kept:
        folder = Path(kept)
        # In a process of its own: what this one has resident would count as the peak of its children.
        command = [sys.executable, __file__, "--make", shape, "--folder", kept, *(["--quick"] if quick else [])]
        subprocess.run(command, check=True)
        results: dict[str, Measured] = {}
        for name in [*names, "ours"]:
            print(f"… {shape}: {name}", file=sys.stderr, flush=True)
            key = "ours, again" if name in results else name
            results[key] = measure(name, folder, limit)
            print(f"  {results[key]}", file=sys.stderr, flush=True)
        sizes = np.load(folder / "X.npy", mmap_mode="r").shape
        most = int(np.load(folder / "most.npy")) or None
        few = Problem(np.broadcast_to(0.0, sizes), np.empty(sizes[0]), np.load(folder / "sizes.npy"),
                      np.load(folder / "costs.npy"), most)  # fmt: skip
    return few, results


# -- the report ------------------------------------------------------------------------------------------------

HEAD = """\
# Peers: time and memory

Made by `python benchmarks/compare_peers.py --write docs/results/peers.md`, after `pip install 'budgetline[peers]'`.

Every peer runs in its own process on the same data (float64), with {threads} threads for everything that takes threads.
Reading the data, importing and compiling are not counted, nor is the preparation that a peer wants: all but us, the
algorithms as printed and LightGBM get standardised columns in Fortran order for nothing (its seconds are in the table).
What a peer derives from that, such as the Gram matrix, is counted. Ours starts from the raw table. Times are medians of
three runs, or fewer where these take more than five seconds. Time × is wall clock over ours. Memory is the peak of the
whole process, with the data and the prepared copy. "End" is the share of the variance of the training rows that the
last model explains: the check that a peer solved the problem it was given.

Group lasso paths have {lambdas} λ down to a thousandth of the largest, warm-started, at each package's default
tolerance. "On the triangle of X" is what an expert would do: X'X = R'R is made first, counted, and the package works on
the few rows of R. No package does that by itself.
"""


def cells(name: str, peer: Peer, found: Measured, ours: float) -> list[str]:
    """Return the row of one peer."""
    memory = f"{found['peak_mb']:,.0f}" if "peak_mb" in found else ""
    if "failed" in found:
        reached = (
            f"stopped at {found['models']} of {found['of']} models, {found['groups']} groups" if "of" in found else ""
        )
        times = f"> {float(found['failed'][2:-2]) / ours:,.0f}" if found["failed"].startswith("> ") else ""
        return [peer.title, peer.path, peer.computes, times, found["failed"], "", "", memory, reached, ""]
    size = f"{found['models']} / {found['groups']} / {found['columns']}"
    return [
        peer.title, peer.path, peer.computes, f"{found['wall'] / ours:.3g}", f"{found['wall']:.3g}",
        f"{found['cpu']:.3g}", f"{found['preparation']:.2g}", memory, size, f"{found['explained']:.4f}",
    ]  # fmt: skip


COLUMNS = (
    "peer", "path of", "what it computes", "time ×", "wall, s", "CPU, s", "preparation, s", "memory, MB",
    "models / groups / columns at the end", "end",
)  # fmt: skip


def section(shape: str, problem: Problem, results: dict[str, Measured]) -> list[str]:
    """Return the table of one shape and whether the goal is met."""
    rows, D, J = problem.y.size, problem.X.shape[1], problem.sizes.size
    first, again = results["ours"], results["ours, again"]
    part = f", the first {problem.most} groups or {problem.most_columns} columns of every path" if problem.most else ""
    if "failed" in first or "failed" in again:
        return [f"## {SHAPES[shape].title}", "", f"Ours did not finish: {first} {again}", ""]
    ours = float(np.mean([first["wall"], again["wall"]]))
    lines = [
        f"## {SHAPES[shape].title}: {rows:,} × {D:,}, {J:,} groups, {rows * D * 8 / 1e6:,.0f} MB{part}",
        "",
        f"Ours takes {first['wall']:.3g} s before the others and {again['wall']:.3g} s after them; their mean is 1.",
        "",
        f"| {' | '.join(COLUMNS)} |",
        "|---" * len(COLUMNS) + "|",
    ]
    lines += [
        f"| {' | '.join(cells(name, PEERS[name], found, ours))} |" for name, found in results.items() if name in PEERS
    ]
    return [*lines, "", *(verdict(results, ours) if SHAPES[shape].tall else [])]


def verdict(results: dict[str, Measured], ours: float) -> list[str]:
    """Say whether ours is faster than every peer that computes a path of groups to the end."""
    rivals = {n: f for n, f in results.items() if n in PEERS and PEERS[n].path == "groups"}
    faster = [n for n, f in rivals.items() if "wall" in f and f["wall"] < ours]
    missing = [n for n, f in rivals.items() if "failed" in f and not f["failed"].startswith("> ")]
    done = [f["wall"] / ours for f in rivals.values() if "wall" in f]
    text = f"Goal: faster than every peer that computes a path of groups: **{'MISSED' if faster else 'met'}**"
    text += f" (faster than ours: {', '.join(faster)})" if faster else ""
    text += f"; the fastest of them takes {min(done):.3g} times as long" if done else ""
    return [text + (f"; not measured: {', '.join(missing)}." if missing else "."), ""]


def versions() -> str:
    found = []
    for package in sorted({peer.package for peer in PEERS.values()} - {"budgetline", "sklearn"}):
        name = DISTRIBUTIONS.get(package, package)
        here = importlib.util.find_spec(package) is not None
        found.append(f"{name} {importlib.metadata.version(name)}" if here else f"{name} not installed")
    return "Peers: " + ", ".join(found) + "."


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="tiny shapes, for the test suite")
    parser.add_argument("--write", type=Path)
    parser.add_argument("--limit", type=float, default=25, help="seconds that one run of a peer may take")
    parser.add_argument("--shapes", nargs="+", choices=SHAPES, default=list(SHAPES))
    parser.add_argument("--peers", nargs="+", choices=PEERS, default=list(PEERS))
    parser.add_argument("--make", choices=SHAPES, help=argparse.SUPPRESS)
    parser.add_argument("--child", choices=PEERS, help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        child(args.child, args.folder, args.limit)
        return
    if args.make:
        shape = SHAPES[args.make]
        (shape.quick() if args.quick else shape.make()).save(args.folder)
        return
    load = os.getloadavg()[0]
    names = ["ours", *(name for name in args.peers if name != "ours")]
    # A triangle of wide data is larger than the data.
    of = {shape: [n for n in names if SHAPES[shape].tall or not n.endswith("triangle")] for shape in args.shapes}
    found = {shape: compare(shape, args.quick, args.limit, of[shape]) for shape in args.shapes}
    lines = [HEAD.format(threads=THREADS, lambdas=N_LAMBDAS - 1)]
    for shape, (problem, results) in found.items():
        lines += section(shape, problem, results)
    lines += [f"Time limit of one run: {args.limit:g} s. Load of the machine before the start: {load:.2f}.", ""]
    text = "\n".join([*lines, conditions(), versions(), ""])
    print(text)
    if args.write:
        args.write.parent.mkdir(parents=True, exist_ok=True)
        args.write.write_text(text)


if __name__ == "__main__":
    main()
