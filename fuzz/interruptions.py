"""Saves and commands that are killed, interrupted or run out of disk: the old file or the new one is whole.

What is interrupted runs in a process of its own, which counts the calls of functions that it makes. It is run once in
full, then again with an end after a share of these calls: a random moment, but the same one when a case is replayed.
"""

from __future__ import annotations

import multiprocessing
import os
import resource
import shutil
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from functools import cache
from multiprocessing.connection import Connection
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np

import budgetline
import budgetline.cli.app  # now, so that interruptions fall into the work
from budgetline import AnytimeRegressor, Certificate, Moments, certify
from budgetline.cli import main
from fuzz.commands import contents, template
from fuzz.trials import Case

LIMIT = 60.0
"""Seconds within which every process here ends."""
ENDS = ("kill", "kill", "interrupt", "full disk")
COMMANDS = (
    ("fit", "good.csv", "-t", "y", "-g", "groups.yaml", "-o", "out"),
    ("fit", "labels.csv", "-t", "label", "-g", "groups.yaml", "-o", "classes"),
    ("fit", "days", "-t", "y", "--stream", "-o", "model"),
    ("predict", "model", "good.parquet", "-o", "out.csv"),
    ("predict", "model", "good.csv", "-o", "out.parquet"),
    ("groups", "good.csv", "-t", "y", "-o", "out.yaml"),
    ("report", "model", "-o", "out.html"),
    ("certify", "model", "--time-limit", "0"),
)


def draw(seed: int) -> Case:
    """Return an action, and when and how it is interrupted."""
    rng = Random(seed)
    act = rng.choice(["save", "save", "command"])
    case = {"seed": seed, "act": act, "end": rng.choice(ENDS), "moments": [rng.random()]}
    if act == "save":
        return {**case, "subject": rng.choice(list(SAVED))}
    return {**case, "command": list(rng.choice(COMMANDS))}


def smaller(case: Case) -> Iterator[Case]:
    """Yield no simpler cases: each case has a single interruption."""
    return iter(())


def check(case: Case) -> None:
    """Run the action in full, run it again with an interruption, and check the files that are left."""
    with TemporaryDirectory(prefix="fuzz-") as parent:
        whole, cut = Path(parent) / "whole", Path(parent) / "cut"
        PREPARED[case["act"]](case, whole)
        shutil.copytree(whole, cut, symlinks=True)
        before = contents(whole)
        full = run_aside(case, whole, None)
        assert full.code == 0, f"it fails without an interruption: exit code {full.code}, {full.err[-500:]}"
        after = contents(whole)
        for moment in case["moments"]:
            ended = run_aside(case, cut, full.calls if case["end"] == "full disk" else int(moment * full.calls), moment)
            _check_end(case, ended)
            _check_left(before, after, contents(cut), clean=case["end"] != "kill")


def _check_end(case: Case, ended: Ended) -> None:
    if case["end"] == "kill":
        assert ended.code in (-signal.SIGKILL, 0), f"exit code {ended.code}: {ended.err[-500:]}"
        return
    codes = (0, 130) if case["end"] == "interrupt" else (0, 2)
    assert ended.code in codes, f"exit code {ended.code}: {ended.err[-800:]}"
    assert "Traceback" not in ended.err or "Exception ignored" in ended.err, ended.err[-800:]


def _check_left(before: dict[str, Any], after: dict[str, Any], left: dict[str, Any], clean: bool) -> None:
    """Raise an error unless every file is there as before or as after; files aside may be left by a kill alone."""
    for name in before.keys() | after.keys() | left.keys():
        if name in before or name in after:
            possible = [state[name] for state in (before, after) if name in state]
            missing = name not in left and (name not in before or name not in after)
            assert missing or left.get(name) in possible, f"{name} is neither the old file nor the new one"
        elif clean:
            raise AssertionError(f"{name} was left behind")
        else:
            assert Path(name).name.startswith("."), f"{name} is not whole, and its name does not say so"


# -- in another process ----------------------------------------------------------------------------------------


class Ended(NamedTuple):
    """How a process ended: its exit code, the calls of functions it made, and what it wrote to stderr."""

    code: int
    calls: int
    err: str


@cache
def _context() -> Any:
    """Return a fork server that has imported everything and has no threads."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["fuzz.interruptions"])
    return context


def prepare() -> None:
    """Start the server, and wait until it has imported everything."""
    process = _context().Process(target=os.getpid)
    process.start()
    process.join()


def run_aside(case: Case, folder: Path, calls: int | None, share: float = 0.0) -> Ended:
    """Run the action in another process that ends itself after the given number of calls; None: never."""
    mine, theirs = _context().Pipe(duplex=False)
    err = folder.with_name(f"{folder.name}.err")
    process = _context().Process(target=_do, args=(case, str(folder), calls, share, str(err), theirs))
    process.start()
    theirs.close()
    try:
        counted = mine.recv() if mine.poll(LIMIT) else None
    except EOFError:
        counted = 0
    process.join(LIMIT)
    if process.exitcode is None or counted is None:
        process.kill()
        process.join()
        raise AssertionError(f"it hangs: {case['act']} with {case['end']}")
    return Ended(process.exitcode, counted, err.read_text(errors="replace") if err.exists() else "")


def _do(case: Case, folder: str, calls: int | None, share: float, err: str, report: Connection) -> None:
    """Run the action, count calls, and end at the given one; return the exit code of the command line."""
    os.chdir(folder)
    descriptor = os.open(err, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(descriptor, 2)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    act = PREPARED_ACTS[case["act"]](case, Path(folder))
    signal.signal(signal.SIGINT, signal.default_int_handler)
    counter = _Counter(None if case["end"] == "full disk" else calls, case["end"])
    if calls is not None and case["end"] == "full disk":
        most = 1 + int(share * LARGEST)
        resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
    code = 1
    try:
        counter.start()
        code = act()
    except KeyboardInterrupt:
        code = 130
    except OSError:
        code = 2
    finally:
        counter.stop()
    report.send(counter.calls)
    sys.stderr.flush()
    os._exit(code)


LARGEST = 12_000
"""Approximate size of the largest file written here, in bytes."""


class _Counter:
    """Counts calls of functions in all threads, and ends the process, or interrupts it, at one of them."""

    def __init__(self, last: int | None, end: str) -> None:
        self.calls, self._last = 0, last
        self._signal = signal.SIGINT if end == "interrupt" else signal.SIGKILL

    def _count(self, frame: Any, event: str, argument: Any) -> None:
        self.calls += 1
        if self._last is not None and self.calls == self._last:
            os.kill(os.getpid(), self._signal)

    def start(self) -> None:
        threading.setprofile(self._count)
        sys.setprofile(self._count)

    def stop(self) -> None:
        sys.setprofile(None)
        threading.setprofile(None)


# -- what is done ----------------------------------------------------------------------------------------------


def _data(rows: int = 60) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(3)
    X = rng.standard_normal((rows, 6))
    return X, X @ np.arange(6.0) + rng.standard_normal(rows)


def _model(alpha: float) -> AnytimeRegressor:
    return AnytimeRegressor(alpha=alpha).fit(*_data())


def _certificate(alpha: float) -> Certificate:
    return certify(AnytimeRegressor(alpha=alpha).fit_moments(Moments.from_data(*_data())), time_limit=0.0)


SAVED: dict[str, tuple[Callable[[float], Any], Callable[[Any, Path], None]]] = {
    "model": (_model, budgetline.save),
    "moments": (lambda alpha: Moments.from_data(_data()[0], _data()[1] * alpha), Moments.save),
    "certificate": (_certificate, Certificate.save),
}


def _prepare_save(case: Case, folder: Path) -> None:
    folder.mkdir()
    make, save = SAVED[case["subject"]]
    save(make(1e-3), folder / "file")


def _save(case: Case, folder: Path) -> Callable[[], int]:
    make, save = SAVED[case["subject"]]
    new = make(0.1)

    def act() -> int:
        save(new, folder / "file")
        return 0

    return act


def _prepare_command(case: Case, folder: Path) -> None:
    shutil.copytree(template(), folder, symlinks=True)


def _command(case: Case, folder: Path) -> Callable[[], int]:
    return lambda: main(case["command"])


PREPARED = {"save": _prepare_save, "command": _prepare_command}
PREPARED_ACTS = {"save": _save, "command": _command}
