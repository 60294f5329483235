"""Functions and programs that fork: nothing outlives its worker, and a fork does not end the workers of its parent."""

import ctypes
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from runtime_extractors import (
    COLUMNS,
    ORDER,
    Compute,
    FakeClock,
    assert_right,
    data,
    is_alive,
    raw_of,
    regression,
    until,
)

from budgetline import AnytimeRunner, Extractor

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="no fork there")

X = data()[2]
WAYS = ("by Python", "by a C library")


def fork(way):
    """Fork; a C library does not tell Python of it."""
    return os.fork() if way == "by Python" else ctypes.PyDLL(None).fork()


class Forks(Compute):
    """Forks a process that waits for ever, writes down its id, and then does what the input says."""

    def __call__(self, raw):
        then = raw["faults"].get(self.group)
        if then is None:
            return self.values(raw)
        if (pid := fork(raw["way"])) == 0:
            if then == "goes on twice":
                return [value + 1.0 for value in self.values(raw)]
            while True:
                signal.pause()
        with Path(raw["file"]).open("a") as file:
            file.write(f"{pid}\n")
        if then == "hangs":
            threading.Event().wait()
        if then == "dies":
            os._exit(7)
        if then == "goes on twice":
            os.waitpid(pid, 0)
        return self.values(raw)


def forking():
    return {name: Extractor(Forks(name), mode="process") for name in COLUMNS}


def ids_in(file):
    """Return the ids that were written in full."""
    return [int(line) for line in file.read_text().splitlines(keepends=True) if line.endswith("\n")]


def runs(pid):
    """Return whether a process runs; in a container nobody may collect those that have ended."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return sys.platform != "linux" and is_alive(pid)
    return state != "Z"


@pytest.fixture
def asked(tmp_path):
    """Return a runner of functions that fork, its clock, and a function that makes their inputs."""
    clock, file = FakeClock(), tmp_path / "ids"
    file.touch()
    with AnytimeRunner(regression(), forking(), clock=clock) as runner:
        yield runner, clock, file, lambda way, **then: raw_of(X[0], **then) | {"way": way, "file": str(file)}
    found = ids_in(file)
    assert found
    until(lambda: not any(map(runs, found)))


@pytest.mark.parametrize("way", WAYS)
def test_a_function_that_forks_and_hangs_costs_its_group_only(asked, way):
    runner, clock, file, raw = asked
    for n in (1, 2):
        clock.script, clock.before_jump = [False], lambda n=n: until(lambda: len(ids_in(file)) == n)
        answer = runner.predict(raw(way, c="hangs"), deadline=1.0)
        clock.script, clock.before_jump = [], None
        assert answer.faults["c"].kind == "late"
        answer = runner.predict(raw(way))
        assert answer.groups == ORDER
        assert_right(answer, X[0])
    until(lambda: not any(map(runs, ids_in(file))))  # killed with their worker, not at the end


@pytest.mark.parametrize("way", WAYS)
def test_a_function_that_forks_and_dies_costs_its_group_only(asked, way):
    runner, _, _, raw = asked
    answer = runner.predict(raw(way, a="dies"))
    assert str(answer.faults["a"]) == "died: its process ended with exit code 7"
    assert answer.groups == ("c", "e", "b", "d")
    assert runner.predict(raw(way)).groups == ORDER


@pytest.mark.parametrize("way", WAYS)
def test_a_worker_that_is_killed_while_its_fork_lives(asked, way):
    runner, _, file, raw = asked
    assert runner.predict(raw(way, e="returns")).groups == ORDER
    (worker,) = runner.process_ids
    os.kill(worker, signal.SIGKILL)
    answer = runner.predict(raw(way))
    assert len(answer.faults) <= 1
    assert runner.predict(raw(way)).groups == ORDER
    until(lambda: not any(map(runs, ids_in(file))))


@pytest.mark.parametrize("way", WAYS)
def test_a_fork_that_returns_from_the_function_sends_no_values(asked, way):
    runner, _, _, raw = asked
    for _ in range(2):
        answer = runner.predict(raw(way, c="goes on twice", e="goes on twice"))
        assert answer.groups == ORDER
        assert_right(answer, X[0])


PROGRAM = """
import os, signal, sys
sys.path[:0] = {paths!r}
from test_forks import X, forking
from runtime_extractors import ORDER, raw_of, regression
from budgetline import AnytimeRunner

if __name__ == "__main__":
    runner = AnytimeRunner(regression(), forking()).start()
    raw = raw_of(X[0], c="returns") | {{"way": "by Python", "file": {file!r}}}
    assert runner.predict(raw).groups == ORDER
    (worker,) = before = runner.process_ids
    for leave in (sys.exit, runner.close):
        if (pid := os.fork()) == 0:
            assert runner.process_ids == ()
            leave()
            sys.exit()
        assert os.waitpid(pid, 0)[1] == 0
        assert runner.process_ids == before
        assert runner.predict(raw_of(X[0])).groups == ORDER
        assert runner.process_ids == before
    print(worker, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.slow  # two interpreters start
def test_workers_end_with_their_parent_and_not_with_its_forks(tmp_path):
    script, file = tmp_path / "program.py", tmp_path / "ids"
    here = Path(__file__).parent
    script.write_text(PROGRAM.format(paths=[str(here), str(here.parent / "support")], file=str(file)))
    found = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=200, check=False)
    assert found.returncode == -signal.SIGKILL, found.stderr
    assert "Traceback" not in found.stderr, found.stderr
    until(lambda: not any(map(runs, [int(found.stdout), *ids_in(file)])))
