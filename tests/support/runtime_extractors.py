"""What the tests of the runtime share: a clock that stands still, and extractors that go wrong when the input says so.

Everything that runs in another process is at the top level, and light: processes import this module.
"""

import asyncio
import itertools
import os
import signal
import threading
import time
from functools import cache
from pathlib import Path
from queue import Empty

import numpy as np
import pandas as pd
import reference
from scipy import sparse

from budgetline import AnytimeRegressor, Extractor, FixedOrder
from budgetline.runtime import Clock

SAFETY = 30.0
"""No test waits this long unless something is lost; then it fails."""

COLUMNS = {"a": [3, 0], "b": [5], "c": [1, 6, 2], "d": [7, 4], "e": [8]}
"""Columns of each group, declared out of order on purpose."""


MODES = ("cooperative", "thread", "process", "async")
BESIDE = ("thread", "process", "async")
"""Modes in which a late extractor can be given up."""


class Release:
    """Functions that hang in a thread come back when their round is over. In another process no round ever ends.

    ``waiting`` counts those that hang now, in this process.
    """

    def __init__(self):
        self.round = self.waiting = 0
        self._changed = threading.Condition()

    def end_round(self):
        with self._changed:
            self.round += 1
            self._changed.notify_all()

    def wait(self, round):
        with self._changed:
            self.waiting += 1
            self._changed.wait_for(lambda: self.round > round)
            self.waiting -= 1


RELEASE = Release()


def raw_of(x, **faults):
    """Return an input: values of all columns, and the faults of some groups."""
    return {"x": np.asarray(x, dtype=float), "faults": faults, "round": RELEASE.round}


def until(condition):
    """Wait for other threads until something is so."""
    end = time.monotonic() + SAFETY
    while not condition():
        assert time.monotonic() < end, "it does not come to be"
        threading.Event().wait(0.001)


def own_threads():
    """Return the threads of the library that run now."""
    return {thread for thread in threading.enumerate() if thread.name.startswith("budgetline-")}


def is_alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


class BrokenText(Exception):
    def __str__(self):
        raise ValueError("no text either")


class DeadlyText(Exception):
    def __str__(self):
        raise SystemExit(3)


class Unsendable(Exception):
    def __init__(self, first, second):
        super().__init__("cannot be sent")
        self.first, self.second = first, lambda: second


class NoArray:
    """Something that cannot be turned into an array, each time for another reason."""

    def __init__(self, error):
        self.error = error

    def __array__(self, dtype=None, copy=None):
        raise self.error


class NoText:
    def __repr__(self):
        raise RuntimeError("no text")


class Wrapped:
    """An array behind NumPy's protocol."""

    def __init__(self, array):
        self.array = array

    def __array__(self, dtype=None, copy=None):
        return self.array


def masked(values):
    """Return an array whose last value is masked."""
    return np.ma.array(values, mask=[False] * (len(values) - 1) + [True])


def throw(error):
    raise error


FAULTS = {
    "raises": ("raised", lambda values: throw(ValueError("no"))),
    "raises without text": ("raised", lambda values: throw(KeyError())),
    "exits": ("raised", lambda values: throw(SystemExit(1))),
    "is cancelled": ("raised", lambda values: throw(asyncio.CancelledError())),
    "ends a generator": ("raised", lambda values: throw(GeneratorExit())),
    "stops an iteration": ("raised", lambda values: throw(StopIteration())),
    "times out": ("raised", lambda values: throw(TimeoutError("of its own"))),
    "breaks a pipe": ("raised", lambda values: throw(BrokenPipeError("of its own"))),
    "broken text": ("raised", lambda values: throw(BrokenText())),
    "deadly text": ("raised", lambda values: throw(DeadlyText())),
    "unsendable error": ("raised", lambda values: throw(Unsendable(1, 2))),
    "recursion": ("raised", lambda values: FAULTS["recursion"][1](values)),
    "nan": ("not finite", lambda values: [*values[:-1], np.nan]),
    "inf": ("not finite", lambda values: [-np.inf, *values[1:]]),
    "masked": ("not finite", lambda values: masked(values)),
    "masked integers": ("not finite", lambda values: masked(np.ones(len(values), dtype=int))),
    "masked row in a list": ("not finite", lambda values: [masked(values)]),
    "masked number in a list": ("not finite", lambda values: [*values[:-1], np.ma.masked]),
    "masked by name": ("not finite", lambda values: {f"c{d}": np.ma.array(1.0, mask=True) for d in range(9)}),
    "masked behind __array__": ("not finite", lambda values: Wrapped(masked(values))),
    "missing in a frame": ("not finite", lambda values: pd.DataFrame({f"c{d}": [np.nan] for d in range(9)})),
    "too long": ("shape", lambda values: [*values, 1.0]),
    "too short": ("shape", lambda values: values[:-1]),
    "empty": ("shape", lambda values: []),
    "two rows": ("shape", lambda values: np.array([values, values])),
    "a column": ("shape", lambda values: np.ones((len(values) + 1, 1))),
    "ragged": ("shape", lambda values: [[1.0], [1.0, 2.0]]),
    "missing column": ("shape", lambda values: {"c99": 1.0}),
    "none": ("type", lambda values: None),
    "text": ("type", lambda values: "1.5"),
    "texts": ("type", lambda values: ["1.5"] * len(values)),
    "bytes": ("type", lambda values: b"123"),
    "object": ("type", lambda values: object()),
    "objects": ("type", lambda values: [object()] * len(values)),
    "sparse": ("type", lambda values: sparse.csr_array([values])),
    "masked texts": ("type", lambda values: np.ma.array(["1.5"] * len(values), mask=True)),
    "missing of pandas": ("type", lambda values: [pd.NA] * len(values)),
    "complex": ("type", lambda values: np.asarray(values) + 1j),
    "dates": ("type", lambda values: np.zeros(len(values), dtype="M8[s]")),
    "generator": ("type", lambda values: (v for v in values)),
    "endless generator": ("type", lambda values: itertools.count()),
    "unsendable result": ("type", lambda values: lambda: values),
    "huge integer": ("type", lambda values: [10**400] * len(values)),
    "some none": ("type", lambda values: [None] * len(values)),
    "no array": ("raised", lambda values: NoArray(RuntimeError("no array"))),
    "deadly array": ("raised", lambda values: NoArray(SystemExit(4))),
    "no text": ("type", lambda values: NoText()),
    "exits at once": ("died", lambda values: os._exit(7)),
    "kills itself": ("died", lambda values: os.kill(os.getpid(), signal.SIGKILL)),
    "closes its pipe": ("died", lambda values: (os.closerange(3, 256), threading.Event().wait())),
}
DEADLY = ("exits at once", "kills itself", "closes its pipe")
"""These take the whole process with them: for process mode alone."""


class Compute:
    """Returns the values of a group from the input, unless the input says what goes wrong."""

    def __init__(self, group, clock=None, seconds=0.0):
        self.group, self.clock, self.seconds = group, clock, seconds

    def values(self, raw):
        return [float(raw["x"][d]) for d in COLUMNS[self.group]]

    def __call__(self, raw):
        if self.clock is not None:
            self.clock.advance(self.seconds)
        fault = raw["faults"].get(self.group)
        if fault is None:
            return self.values(raw)
        if "begun" in raw:
            Path(raw["begun"]).write_bytes(b"!")
        if fault == "hangs":
            RELEASE.wait(raw["round"])
            return self.values(raw)
        return FAULTS[fault][1](self.values(raw))


class ComputeAsync(Compute):
    """The same on an event loop."""

    async def __call__(self, raw):
        await asyncio.sleep(0)
        if raw["faults"].get(self.group) == "hangs":
            await asyncio.Event().wait()
        return super().__call__(raw)


class ComputeTable(Compute):
    """The same for many inputs at once."""

    def __call__(self, raws):
        return np.array([super(ComputeTable, self).__call__(raw) for raw in raws])


class FakeClock(Clock):
    """A clock that moves only when it is told to.

    ``script`` says for each wait whether a message must come (it is really waited for, and if it does not come the test
    fails) or the time jumps to the end of the wait. After the script, and for waits without end, a message must come.
    """

    def __init__(self):
        self.time = 0.0
        self.script = []
        self.on_message = self.before_jump = None

    def now(self):
        return self.time

    def advance(self, seconds):
        self.time += seconds

    def _jumps(self, until):
        comes = self.script.pop(0) if self.script else True
        if comes:
            return False
        assert until < np.inf, "the run waits without end for something that does not come"
        if self.before_jump is not None:
            self.before_jump()
        self.time = max(self.time, until)
        return True

    def _came(self, message):
        if message is not None and self.on_message is not None:
            self.on_message()
        return message

    def receive(self, mailbox, until):
        if until == -np.inf:
            return super().receive(mailbox, until)
        if self._jumps(until):
            return None
        try:
            return self._came(mailbox.get(timeout=SAFETY))
        except Empty:
            raise AssertionError("a message is lost") from None

    async def receive_async(self, mailbox, until):
        if until == -np.inf:
            return await super().receive_async(mailbox, until)
        if self._jumps(until):
            return None
        try:
            return self._came(await asyncio.wait_for(mailbox.get(), SAFETY))
        except TimeoutError:
            raise AssertionError("a message is lost") from None


async def _collect(answers):
    return [answer async for answer in answers]


async def _one(answer):
    return [await answer]


HOW = ("predict", "stream", "apredict", "astream")
"""The four ways to ask for one prediction."""


def ask(runner, how, raw, **limits):
    """Return all results of a run, the final one last."""
    if how == "predict":
        return [runner.predict(raw, **limits)]
    if how == "stream":
        return list(runner.stream(raw, **limits))

    async def go():
        return await (
            _one(runner.apredict(raw, **limits)) if how == "apredict" else _collect(runner.astream(raw, **limits))
        )

    return asyncio.run(go())


ORDER = ("c", "a", "e", "b", "d")
COSTS = {"a": 1.0, "b": 2.0, "c": 4.0, "d": 0.5, "e": 1.5}
ALPHA = 1e-2


@cache
def data():
    """Return X (80, 9), y, and inputs to predict (12, 9)."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(92, 9)) @ (np.eye(9) + 0.3 * rng.normal(size=(9, 9))) + 1.0
    y = X @ rng.normal(size=9) + rng.normal(size=92)
    return X[:80], y[:80], X[80:]


@cache
def regression():
    """Return a regression whose sequence is ORDER."""
    X, y, _ = data()
    names = [f"c{d}" for d in range(9)]
    groups = {name: [f"c{d}" for d in columns] for name, columns in COLUMNS.items()}
    model = AnytimeRegressor(groups, costs=COSTS, schedule=FixedOrder(ORDER), alpha=ALPHA)
    return model.fit(pd.DataFrame(X, columns=names), y)


@cache
def _weights(groups):
    X, y, _ = data()
    found = reference.standardise(X, y)
    columns = [d for name in groups for d in COLUMNS[name]]
    return found, reference.fit(found.Xs, found.Yc, found.w, columns, ALPHA)[:, 0]


def truth(groups, x):
    """Return what a ridge regression on the columns of these groups predicts: solved from the data, on its own."""
    found, weights = _weights(frozenset(groups))
    return float(found.y_mean[0] + (np.asarray(x) - found.x_mean) / found.x_scale @ weights)


def extractors(mode, clock=None, seconds=None, **settings):
    """Return one extractor per group, all in one mode; with a clock each moves it by its seconds."""
    kind = ComputeAsync if mode == "async" else Compute
    return {
        name: Extractor(kind(name, clock, (seconds or {}).get(name, 0.0)), mode=mode, **settings) for name in COLUMNS
    }


def warm_up(runner):
    """Let a runner have the models of all sets of groups ready, as after a while of service."""
    x = data()[2][0]
    for names in itertools.chain.from_iterable(itertools.combinations(ORDER, k) for k in range(6)):
        answer = runner.predict(None, known={name: x[COLUMNS[name]] for name in names}, budget=0)
        assert answer.groups == names


def assert_right(answer, x):
    """Check everything in a result that follows from its groups."""
    assert set(answer.groups) <= set(ORDER)
    assert list(answer.groups) == [name for name in ORDER if name in answer.groups]
    assert answer.stage == next((j for j, name in enumerate(ORDER) if name not in answer.groups), len(ORDER))
    assert not set(answer.groups) & set(answer.faults)
    assert not set(answer.groups) & set(answer.skipped)
    np.testing.assert_allclose(answer.value, truth(answer.groups, x), rtol=1e-9)
    assert answer.probabilities is None
