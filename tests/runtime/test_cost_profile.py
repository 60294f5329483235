"""Costs of extractors are measured with a clock that only the extractors move: nothing sleeps, all times are exact."""

import asyncio
import re
import statistics
import threading
import time

import numpy as np
import pytest

from budgetline import AnytimeRegressor, AnytimeRunner, Extractor, FeatureGroups, profile_costs
from budgetline.runtime import Clock, CostProfile
from budgetline.runtime.profiling import RESOLUTION, GroupTimes, readable


class Hand(Clock):
    """A clock that stands still until it is moved."""

    def __init__(self):
        self.time = 0.0

    def now(self):
        return self.time


class Work:
    """A function that takes the seconds written on its input, times a factor; a batch has overhead once."""

    def __init__(self, clock, factor=1.0, overhead=0.0, calls=None, name=""):
        self.clock, self.factor, self.overhead, self.calls, self.name = clock, factor, overhead, calls, name

    def __call__(self, raw):
        if self.calls is not None:
            self.calls.append((self.name, raw if not isinstance(raw, list) else tuple(raw)))
        self.clock.time += self.overhead + self.factor * (sum(raw) if isinstance(raw, list) else raw)
        return [0.0] * (len(raw) if isinstance(raw, list) else 1)


class AsyncWork(Work):
    async def __call__(self, raw):
        await asyncio.sleep(0)
        return Work.__call__(self, raw)


@pytest.fixture
def clock():
    return Hand()


INPUTS = [1.0, 2.0, 4.0, 8.0, 16.0]


def quantile_by_counting(times, level):
    return min(t for t in times if sum(s <= t for s in times) >= level * len(times))


@pytest.mark.parametrize("work", [Work, AsyncWork])
@pytest.mark.parametrize("level", [0.5, 0.8, 0.81, 1.0])
def test_times_are_those_of_the_calls(clock, work, level):
    profile = profile_costs({"a": work(clock), "b": work(clock, 10)}, INPUTS, repeats=3, quantile=level, clock=clock)
    for times, factor in zip(profile.times, (1, 10), strict=True):
        spent = [factor * raw for raw in INPUTS for _ in range(3)]
        assert times.calls == 15
        assert times.median == pytest.approx(statistics.median(spent))
        assert times.quantile == pytest.approx(quantile_by_counting(spent, level))
        assert times.fastest == pytest.approx(min(spent))
        assert times.batch_size == 1
    assert profile.costs == pytest.approx({"a": 4, "b": 40})
    assert profile.seconds == {"a": profile.times[0].quantile, "b": profile.times[1].quantile}


def test_groups_take_turns_and_the_first_calls_do_not_count(clock):
    calls = []
    extractors = {name: Work(clock, calls=calls, name=name) for name in "ab"}
    profile = profile_costs(extractors, [1.0, 2.0], repeats=2, warmup=3, clock=clock)
    warm = [("a", 1.0), ("b", 1.0), ("a", 2.0), ("b", 2.0), ("a", 1.0), ("b", 1.0)]
    assert calls == warm + [("a", 1.0), ("b", 1.0), ("a", 2.0), ("b", 2.0)] * 2
    assert [t.calls for t in profile.times] == [4, 4]


def test_a_slow_first_call_is_left_out(clock):
    def slow_at_first(raw, cold=[True]):  # noqa: B006
        clock.time += 100.0 if cold else raw
        cold.clear()

    assert profile_costs({"a": slow_at_first}, [1.0], clock=clock).seconds == {"a": 1.0}


@pytest.mark.parametrize("work", [Work, AsyncWork])
@pytest.mark.parametrize("size", [1, 2, 5])
def test_batches(clock, work, size):
    calls = []
    extractors = {"many": Extractor(work(clock, 0.5, 10.0, calls), batch=True), "one": work(clock)}
    profile = profile_costs(extractors, INPUTS, repeats=2, warmup=1, batch_size=size, clock=clock)
    many, one = profile.times
    batches = [tuple(INPUTS[i : i + size]) for i in range(0, 5 - size + 1, size)]  # full ones only
    assert (many.batch_size, one.batch_size) == (size, 1)
    assert many.median == pytest.approx(statistics.median(10 + 0.5 * sum(batch) for batch in batches))
    assert profile.costs == pytest.approx({"many": many.median / size, "one": 4})
    assert profile.seconds == pytest.approx({"many": many.quantile, "one": 16})
    assert [raw for _, raw in calls] == [batches[0], *batches, *batches]


def test_async_functions_inside_a_running_loop(clock):
    """As in a notebook: a loop already runs in this thread."""

    async def notebook():
        return profile_costs({"a": AsyncWork(clock), "b": Work(clock)}, INPUTS, clock=clock)

    assert asyncio.run(notebook()).costs == {"a": 4.0, "b": 4.0}


def test_no_thread_is_left(clock):
    before = set(threading.enumerate())
    profile_costs({"a": AsyncWork(clock)}, INPUTS, clock=clock)
    assert set(threading.enumerate()) <= before


def test_a_plain_function_in_mode_async_runs_on_the_loop(clock):
    def which(raw):
        asyncio.get_running_loop()
        clock.time += raw

    assert profile_costs({"a": Extractor(which, mode="async")}, [3.0], clock=clock).costs == {"a": 3.0}


def test_without_a_clock_the_finest_one_of_the_machine_is_used(clock, monkeypatch):
    monkeypatch.setattr(time, "perf_counter", clock.now)
    assert profile_costs({"a": Work(clock)}, INPUTS).costs == {"a": 4.0}


# -- costs ---------------------------------------------------------------------------------------------------


def test_what_the_clock_cannot_see_is_not_free():
    profile = profile_costs({"a": len}, ["x"], clock=Hand())
    assert profile.times[0].median == 0
    assert profile.costs == {"a": RESOLUTION}
    assert RESOLUTION > 0
    assert profile.seconds == {"a": 0.0}


def test_groups_without_a_function_are_left_out(clock):
    assert profile_costs({"a": Work(clock), "known": None}, INPUTS, clock=clock).costs == {"a": 4.0}


def test_costs_and_seconds_go_where_they_are_made_for(clock):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(50, 2))
    # ten times as costly for the same gain, so later
    profile = profile_costs({"costly": Work(clock, 10), "cheap": Work(clock)}, INPUTS, clock=clock)
    groups = FeatureGroups({"costly": [0], "cheap": [1]}, costs=profile.costs)
    assert groups == FeatureGroups({"costly": [0], "cheap": [1]}).with_costs(profile.costs)
    model = AnytimeRegressor(groups).fit(X, X.sum(axis=1))
    assert model.sequence_.groups == ("cheap", "costly")
    extractors = {"costly": Work(clock, 10), "cheap": Work(clock)}
    with AnytimeRunner(model, extractors, seconds=profile.seconds, clock=clock) as runner:
        answer = runner.predict(1.0, deadline=20.0)
    assert (answer.groups, answer.skipped) == (("cheap",), ("costly",))


# -- faults --------------------------------------------------------------------------------------------------


def fails_on(bad, is_async=False):
    def function(raw):
        if raw == bad:
            raise KeyError("glucose")

    async def later(raw):
        function(raw)

    return later if is_async else function


@pytest.mark.parametrize("is_async", [False, True])
def test_an_extractor_that_raises_is_named_with_its_input(is_async):
    extractors = {"a": len, "blood": fails_on("z", is_async)}
    with pytest.raises(
        ValueError, match=r"group 'blood': .* raised on sample_inputs\[2\]: KeyError: 'glucose'"
    ) as found:
        profile_costs(extractors, ["x", "y", "z"])
    assert isinstance(found.value.__cause__, KeyError)


def test_a_batch_that_raises_is_named():
    extractors = {"a": Extractor(fails_on(["x", "y"]), batch=True)}
    with pytest.raises(ValueError, match=r"group 'a': .* raised on batch 0: KeyError"):
        profile_costs(extractors, ["x", "y", "z"], batch_size=2)


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
def test_ctrl_c_is_no_fault_of_the_extractor(error):
    def stop(raw):
        raise error

    with pytest.raises(error):
        profile_costs({"a": stop}, ["x"])


def test_a_coroutine_that_nobody_awaits_is_not_timed(clock):
    with pytest.raises(ValueError, match=r"group 'a': .*mode='async'"):
        profile_costs({"a": lambda raw: AsyncWork(clock)(raw)}, [1.0])


def test_values_do_not_matter():
    profile = profile_costs({"a": lambda raw: None, "b": lambda raw: float("nan"), "c": str}, [1.0])
    assert len(profile) == 3


class Frame:
    """Not a data frame of ours; has neither length nor entries."""


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ({"extractors": [len]}, TypeError, "extractors must be a mapping group -> function, got list"),
        ({"extractors": {"a": 3}}, TypeError, "group 'a': an extractor needs a function, got 3"),
        ({"extractors": {}}, ValueError, "no extractor to profile"),
        ({"extractors": {"a": None}}, ValueError, "no extractor to profile"),
        ({"sample_inputs": []}, ValueError, "sample_inputs is empty"),
        ({"sample_inputs": Frame()}, TypeError, "sample_inputs must be a sequence of inputs .*, got Frame"),
        ({"sample_inputs": "text"}, TypeError, "sample_inputs must be .*, got str"),
        ({"sample_inputs": {"x": 1}}, TypeError, "sample_inputs must be .*, got dict"),
        ({"quantile": 0}, ValueError, "quantile must be a number > 0 and ≤ 1, got 0"),
        ({"quantile": 95}, ValueError, r"quantile must be .*, got 95"),
        ({"quantile": float("nan")}, ValueError, r"quantile must be .*, got nan"),
        ({"repeats": 0}, ValueError, "repeats must be an integer ≥ 1, got 0"),
        ({"repeats": 1.5}, ValueError, "repeats must be an integer ≥ 1, got 1.5"),
        ({"warmup": -1}, ValueError, "warmup must be an integer ≥ 0, got -1"),
        ({"warmup": True}, ValueError, "warmup must be an integer ≥ 0, got True"),
        ({"extractors": {"a": Extractor(len, batch=True)}, "batch_size": 3}, ValueError, "batch_size=3 .* there are 2"),
        ({"extractors": {"a": Extractor(len, batch=True)}, "batch_size": 0}, ValueError, "batch_size must be"),
    ],
)
def test_bad_arguments_are_named(given, error, message):
    with pytest.raises(error, match=message):
        profile_costs(**{"extractors": {"a": len}, "sample_inputs": ["x", "y"], **given})


@pytest.mark.parametrize("names", [["x", "y"], [0, 1]])
@pytest.mark.parametrize("module", ["pandas", "polars"])
def test_a_table_is_not_a_sequence_of_inputs(module, names):
    frame = pytest.importorskip(module).DataFrame({str(name): [1, 2] for name in names})
    if module == "pandas":
        frame.columns = names
    with pytest.raises(TypeError, match=r"sample_inputs must be .* its rows.*, got DataFrame"):
        profile_costs({"a": str}, frame)


def test_a_timeout_is_no_obstacle():
    """The mode may be the runner's, which is not known here."""
    assert len(profile_costs({"a": Extractor(len, timeout=1.0)}, ["x"])) == 1


# -- what is shown -------------------------------------------------------------------------------------------

PLAIN = GroupTimes("plain <b>", 6, 2.5e-6, 1.25e-3, 12.5e-9)
MANY = GroupTimes("many", 6, 0.02, 0.0999996, 0.01, 50)


def test_the_text_table():
    assert str(CostProfile((PLAIN, MANY), 0.95)).splitlines() == [
        "group       median      p95      min  calls  inputs per call",
        "plain <b>  2.50 µs  1.25 ms  12.5 ns      6                1",
        "many       20.0 ms   100 ms  10.0 ms      6               50",
    ]
    assert repr(CostProfile((PLAIN,), 0.999)).splitlines() == [
        "CostProfile(1 groups, 6 calls)",
        "group       median    p99.9      min  calls",
        "plain <b>  2.50 µs  1.25 ms  12.5 ns      6",
    ]


def test_the_html_table_is_escaped():
    html = CostProfile((PLAIN, MANY))._repr_html_()
    assert "plain &lt;b&gt;" in html
    assert "<b>" not in html
    assert len(re.findall("<tr>", html)) == 3
    assert len(re.findall("<td>", html)) == 12


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.0, "0.00 ns"), (999.4e-9, "999 ns"), (999.6e-9, "1.00 µs"), (9.994e-6, "9.99 µs"), (9.996e-6, "10.0 µs"),
        (99.96e-6, "100 µs"), (0.9996, "1.00 s"), (12.34, "12.3 s"), (5000.0, "5000 s"),
    ],
)  # fmt: skip
def test_units_are_readable(seconds, text):
    assert readable(seconds) == text


@pytest.mark.parametrize("backend", ["pandas", "polars", "pyarrow"])
def test_frames(backend):
    frame = CostProfile((PLAIN, MANY), 0.95).to_frame(backend)
    found = frame.to_pydict() if backend == "pyarrow" else {name: list(frame[name]) for name in frame.columns}
    assert found == {
        "group": ["plain <b>", "many"], "cost": [2.5e-6, 0.0004], "calls": [6, 6], "batch_size": [1, 50],
        "median": [2.5e-6, 0.02], "quantile": [1.25e-3, 0.0999996], "min": [12.5e-9, 0.01],
    }  # fmt: skip


def test_the_record_is_frozen():
    profile = CostProfile((PLAIN,))
    with pytest.raises(AttributeError):
        profile.level = 0.5
    profile.costs["plain <b>"] = 0.0
    assert profile.costs == {"plain <b>": 2.5e-6}


def test_a_progress_bar_counts_the_calls(capsys):
    profile_costs({"a": len, "b": len}, ["x", "y"], repeats=2, warmup=1, progress=True)
    assert " of 10 " in capsys.readouterr().err
    profile_costs({"a": len}, ["x"], progress=False)
    assert capsys.readouterr().err == ""
