"""Runners that serve many tests, because starting processes takes a second."""

import pytest
from runtime_extractors import RELEASE, FakeClock, extractors, is_alive, own_threads, regression, until

from budgetline import AnytimeRunner


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Leave the quick tests one way to ask a runner with processes; the others wait long for the same code."""
    for item in items:
        given = item.callspec.params if hasattr(item, "callspec") else {}
        if given.get("mode") == "process" and given.get("how", "predict") != "predict":
            item.add_marker(pytest.mark.slow)


class Served:
    """A runner and its clock for every mode, number of workers and timeout."""

    def __init__(self):
        self._runners = {}

    def __call__(self, mode, workers=1, timeout=None):
        key = mode, workers, timeout
        if key not in self._runners:
            clock = FakeClock()
            made = extractors(mode, timeout=timeout)
            self._runners[key] = AnytimeRunner(regression(), made, workers=workers, clock=clock).start(), clock
        runner, clock = self._runners[key]
        clock.script, clock.on_message, clock.before_jump = [], None, None
        return runner, clock

    def close(self):
        RELEASE.end_round()
        pids = [pid for runner, _ in self._runners.values() for pid in runner.process_ids]
        for runner, _ in self._runners.values():
            runner.close()
        until(lambda: not any(map(is_alive, pids)))


@pytest.fixture(scope="module")
def served():
    """One set of runners per file; at the end nothing of them may be left."""
    before = own_threads()
    served = Served()
    yield served
    served.close()
    until(lambda: not own_threads() - before)


@pytest.fixture(autouse=True)
def let_go():
    """Whatever still hangs in a thread may go on after the test."""
    yield
    RELEASE.end_round()
