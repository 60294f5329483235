"""Alternatives side by side: wall clock, CPU and peak memory, with the time of budgetline as 1.

Run ``make peers`` and then ``python benchmarks/compare_peers.py --write docs/results/peers.md``; ``--quick`` runs tiny
shapes, and ``--shapes`` and ``--peers`` select some of them. Packages that are missing, fail or do not finish within
``--limit`` seconds (``--logistic-limit`` for logistic models) are listed with the reason. Every peer runs in its own
process (``one_peer.py``), with the same number of threads and, if necessary, in its own environment. The adapters are
in ``peers/``.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import logistic_data
import numpy as np
from core import opened
from peers.problem import THREADS, Peer, Problem
from peers.registry import MODULE_OF, PEERS
from peers_page import DISTRIBUTIONS, REFERENCES, Measured, Section, page

sys.path.append(str(Path(__file__).resolve().parents[1] / "experiments"))
from paper_shapes import make_agricultural, make_yahoo

ROOT = Path(__file__).resolve().parents[1]
THREAD_SETTINGS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")
QUICK_ROWS = 1_000


# -- the shapes ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Shape:
    """Data to compare on. Of wide data everyone takes a first part of the path only."""

    title: str
    make: Callable[[], Problem]
    quick: Callable[[], Problem]
    tall: bool = True
    loss: str = "squared"


def in_order(X: np.ndarray, y: np.ndarray, columns: list[np.ndarray], costs: np.ndarray) -> Problem:
    """Make the columns of a group neighbours, as some peers require."""
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


def classes(problem: Problem, above: float) -> Problem:
    """Return the same data with two classes and, as in all logistic data, groups of equal cost."""
    return replace(problem, y=(problem.y > above).astype(float), costs=np.ones(problem.sizes.size))


def logistic_problem(make: Callable[..., logistic_data.Data], *rows: int) -> Problem:
    X, y, groups = make(*rows)
    return in_order(X, y, [np.array(g) for g in groups], np.ones(len(groups)))


LOGISTIC = {
    f"logistic-{name}": Shape(
        f"Logistic, {title}", partial(logistic_problem, make), partial(logistic_problem, make, QUICK_ROWS),
        loss="logistic",
    )
    for name, (title, make) in logistic_data.DATA.items()
}  # fmt: skip
SHAPES = {
    "agricultural": Shape("Agricultural shape", agricultural, lambda: drawn(300, 40)),
    "yahoo": Shape("Yahoo shape", yahoo, lambda: drawn(400, 60)),
    "wide": Shape("Wide", lambda: drawn(2_000, 20_000, 100), lambda: drawn(60, 120, 5), tall=False),
    **LOGISTIC,
    # A third of the pages are of grade 2 or better.
    "logistic-yahoo": Shape(
        "Logistic, Yahoo shape", lambda: classes(yahoo(), 1), lambda: classes(drawn(400, 60), 0), loss="logistic"
    ),
    "logistic-wide": Shape(
        "Logistic, wide", lambda: classes(drawn(2_000, 20_000, 100), 0), lambda: classes(drawn(60, 120, 5), 0),
        tall=False, loss="logistic",
    ),
}  # fmt: skip


# -- one peer, in its own process ------------------------------------------------------------------------------


def interpreter(peer: Peer) -> Path:
    """Return the Python that has the peer."""
    return ROOT / peer.environment / "bin" / "python" if peer.environment else Path(sys.executable)


def installed(peer: Peer) -> bool:
    return interpreter(peer).exists() if peer.environment else importlib.util.find_spec(peer.package) is not None


def measure(name: str, folder: Path, limit: float) -> Measured:
    """Run a peer in its own process; return its measurements, or why there are none."""
    peer = PEERS[name]
    if not installed(peer):
        return {"failed": f"not installed: {DISTRIBUTIONS.get(peer.package, peer.package)} (`make peers`)"}
    script = Path(__file__).with_name("one_peer.py")
    command = [str(interpreter(peer)), str(script), MODULE_OF[name], name, str(folder), str(limit)]
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
    reached: Measured = {k: last[k] for k in ("models", "of", "groups") if k in last}
    why = f"> {limit:g} s" if process.returncode == -signal.SIGALRM else reason(process.returncode, trouble)
    return {"failed": why, "peak_mb": usage.ru_maxrss / 1024, **reached}


def facts_in(printed: str) -> list[Measured]:
    """Return what ``one_peer.say`` printed; some packages print lines of their own."""
    return [json.loads(line) for line in printed.splitlines() if line.startswith("{") and line.endswith("}")]


def reason(code: int, trouble: str) -> str:
    last = trouble.splitlines()[-1] if trouble else "no message"
    return f"failed ({signal.Signals(-code).name if code < 0 else f'exit {code}'}): {last[:120]}"


# -- all of them -----------------------------------------------------------------------------------------------


def compare(shape: str, quick: bool, limit: float, names: list[str]) -> Section:
    """Measure all peers on a shape, budgetline first and once more at the end."""
    ours = REFERENCES[SHAPES[shape].loss]
    with tempfile.TemporaryDirectory() as kept:
        folder = Path(kept)
        # In a process of its own: what this one has resident would count as the peak of its children.
        command = [sys.executable, __file__, "--make", shape, "--folder", kept, *(["--quick"] if quick else [])]
        subprocess.run(command, check=True)
        results: dict[str, Measured] = {}
        for name in [*names, ours]:
            print(f"… {shape}: {name}", file=sys.stderr, flush=True)
            key = "ours, again" if name in results else name
            results[key] = measure(name, folder, limit)
            print(f"  {results[key]}", file=sys.stderr, flush=True)
        sizes = np.load(folder / "X.npy", mmap_mode="r").shape
        most = int(np.load(folder / "most.npy")) or None
        few = Problem(np.broadcast_to(0.0, sizes), np.empty(sizes[0]), np.load(folder / "sizes.npy"),
                      np.load(folder / "costs.npy"), most)  # fmt: skip
    return Section(SHAPES[shape].title, SHAPES[shape].loss, few, results, limit)


def names_for(shape: Shape, wanted: list[str]) -> list[str]:
    """Return the peers that are measured on a shape, budgetline first."""
    ours = REFERENCES[shape.loss]
    fit = [n for n in wanted if PEERS[n].loss == shape.loss and (shape.tall or not PEERS[n].tall)]
    return [ours, *(n for n in fit if n != ours)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="tiny shapes, for the test suite")
    parser.add_argument("--write", type=Path)
    parser.add_argument("--limit", type=float, default=25, help="seconds that one run of a peer may take")
    parser.add_argument("--logistic-limit", type=float, default=300, help="the same for logistic models")
    parser.add_argument("--shapes", nargs="+", choices=SHAPES, default=list(SHAPES))
    parser.add_argument("--peers", nargs="+", choices=PEERS, default=list(PEERS))
    parser.add_argument("--make", choices=SHAPES, help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.make:
        shape = SHAPES[args.make]
        (shape.quick() if args.quick else shape.make()).save(args.folder)
        return
    load = os.getloadavg()[0]
    limits = {"squared": args.limit, "logistic": args.logistic_limit}
    found = [
        compare(name, args.quick, limits[SHAPES[name].loss], names_for(SHAPES[name], args.peers))
        for name in args.shapes
    ]
    text = page(found, load, {peer.package: interpreter(peer) for peer in PEERS.values() if installed(peer)})
    print(text)
    if args.write:
        args.write.parent.mkdir(parents=True, exist_ok=True)
        args.write.write_text(opened(text, args.write))


if __name__ == "__main__":
    main()
