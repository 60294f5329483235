"""Every fault of every extractor in every mode costs its own group only; nothing is lost, wrong, or left behind."""

import asyncio
import gc
import logging
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import weakref
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from runtime_extractors import (
    BESIDE,
    COLUMNS,
    COSTS,
    DEADLY,
    FAULTS,
    HOW,
    MODES,
    ORDER,
    RELEASE,
    Compute,
    ComputeTable,
    FakeClock,
    ask,
    assert_right,
    data,
    extractors,
    is_alive,
    own_threads,
    raw_of,
    regression,
    truth,
    until,
)

from budgetline import AnytimeRunner, Extractor
from budgetline.runtime import processes

X = data()[2]


def log_lines(caplog):
    return [record for record in caplog.records if record.name == "budgetline.runtime"]


def slow_to_recover(mode, how, fault):
    """Another process must be started after these faults; one of them is enough for the quick tests."""
    return mode == "process" and fault in DEADLY and (how, fault) != ("predict", "kills itself")


@pytest.mark.quick_cases(120)
@pytest.mark.parametrize(
    ("mode", "how", "fault"),
    [
        pytest.param(*case, marks=[pytest.mark.slow] if slow_to_recover(*case) else [], id="-".join(case))
        for case in product(MODES, ["predict", "astream"], FAULTS)
    ],
)
def test_a_fault_costs_its_group_and_no_other(served, caplog, monkeypatch, mode, how, fault):
    if fault in DEADLY and mode != "process":
        pytest.skip("it would take the tests with it")
    monkeypatch.setattr(processes, "END_SECONDS", 0.05)  # after it, a process that closed its pipe is killed
    kind = FAULTS[fault][0]
    runner, _ = served(mode)
    caplog.set_level(logging.DEBUG, logger="budgetline.runtime")
    for name in ORDER:
        if fault == "too short" and len(COLUMNS[name]) == 1:
            continue  # the same as empty
        x = X[len(fault) % len(X)]
        caplog.clear()
        answers = ask(runner, how, raw_of(x, **{name: fault}))
        for answer in answers:
            assert_right(answer, x)
        assert answer.groups == tuple(other for other in ORDER if other != name)
        assert answer.reason == "complete"
        assert list(answer.faults) == [name]
        assert answer.faults[name].kind == kind, answer.faults[name]
        assert answer.faults[name].rows is None
        assert answer.faults[name].message
        assert answer.spent == sum(COSTS.values())
        assert set(answer.timings) == set(ORDER)
        (line,) = log_lines(caplog)
        assert line.levelno == logging.WARNING
        assert line.getMessage() == f"group {name!r} is not used: {answer.faults[name]}"
        caplog.clear()
        again = ask(runner, how, raw_of(x))[-1]
        assert again.groups == ORDER
        assert not again.faults
        assert_right(again, x)
        assert not log_lines(caplog)


@pytest.mark.parametrize("mode", BESIDE)
@pytest.mark.parametrize("how", HOW)
def test_what_hangs_is_given_up_at_the_deadline_without_an_alarm(served, caplog, mode, how):
    runner, clock = served(mode)
    caplog.set_level(logging.DEBUG, logger="budgetline.runtime")
    for j, name in enumerate(ORDER):
        caplog.clear()
        clock.script = [True] * j + [False]
        answer = ask(runner, how, raw_of(X[0], **{name: "hangs"}), deadline=1.0)[-1]
        clock.script = []
        assert answer.groups == ORDER[:j]
        assert answer.faults[name].kind == "late"
        (line,) = log_lines(caplog)
        assert line.levelno == logging.DEBUG
        assert repr(name) in line.getMessage()
        assert_right(answer, X[0])
        RELEASE.end_round()
        until(lambda: runner.n_abandoned == 0)
        assert ask(runner, how, raw_of(X[0]))[-1].groups == ORDER


def test_several_faults_at_once(served):
    for mode in MODES:
        runner, _ = served(mode)
        raw = raw_of(X[1], c="raises", a="nan", e="none", b="too long", d="text")
        answer = runner.predict(raw)
        assert (answer.groups, answer.reason, answer.stage) == ((), "complete", 0)
        assert [fault.kind for fault in answer.faults.values()] == ["raised", "not finite", "type", "shape", "type"]
        assert_right(answer, X[1])
        answer = runner.predict(raw_of(X[1], c="raises", b="nan"))
        assert answer.groups == ("a", "e", "d")
        assert_right(answer, X[1])


def test_messages_name_the_culprit(served):
    for mode in MODES:
        runner, _ = served(mode)
        answer = runner.predict(raw_of(X[1], c="nan", a="missing column", e="raises", b="too long", d="complex"))
        texts = {name: str(fault) for name, fault in answer.faults.items()}
        assert texts["c"] == "not finite: column 'c2' holds nan"
        assert texts["a"] == "shape: no value for column 'c3'"
        assert texts["e"] == "raised: ValueError: no"
        assert texts["b"] == "shape: expected 1 values, got shape (2,)"
        assert texts["d"].startswith("type: expected numbers, got ndarray")


def test_ctrl_c_in_cooperative_mode_is_the_users():
    def pressed(raw):
        raise KeyboardInterrupt

    runner = AnytimeRunner(regression(), {**extractors("cooperative"), "a": pressed})
    with pytest.raises(KeyboardInterrupt):
        runner.predict(raw_of(X[0]))
    with pytest.raises(KeyboardInterrupt):
        runner.predict_many([raw_of(X[0]), raw_of(X[1])])
    assert runner.n_running == 0


def test_a_keyboard_interrupt_elsewhere_is_a_fault():
    def pressed(raw):
        raise KeyboardInterrupt

    async def pressed_async(raw):
        raise KeyboardInterrupt

    for odd in (Extractor(pressed, mode="thread"), pressed_async):
        with AnytimeRunner(regression(), {**extractors("thread"), "a": odd}) as runner:
            answer = runner.predict(raw_of(X[0]))
            assert answer.faults["a"].message == "KeyboardInterrupt"
            assert_right(answer, X[0])


class Unreadable:
    """Can be sent to another process, and not be read there."""

    def __reduce__(self):
        return int, ("no number",)


def test_inputs_that_cannot_be_sent_to_a_process(served):
    runner, _ = served("process")
    for odd, text in ((lambda: 0, "cannot be sent"), (Unreadable(), "cannot be read")):
        answer = runner.predict(raw_of(X[0]) | {"odd": odd})
        assert answer.groups == ()
        assert {fault.kind for fault in answer.faults.values()} == {"type"}
        assert all(text in fault.message for fault in answer.faults.values())
        assert runner.predict(raw_of(X[0])).groups == ORDER


def test_a_process_killed_from_outside_costs_one_group_at_most(served):
    runner, _ = served("process")
    for _ in range(3):
        (pid,) = runner.process_ids
        os.kill(pid, signal.SIGKILL)
        answer = runner.predict(raw_of(X[0]))
        assert len(answer.faults) <= 1
        assert all(fault.kind == "died" for fault in answer.faults.values())
        assert_right(answer, X[0])
        assert runner.predict(raw_of(X[0])).groups == ORDER


@pytest.mark.parametrize("batch", [False, True])
def test_a_buffer_that_is_used_again_does_not_change_what_was_returned(batch):
    """Every thread of the service has its own buffer; two runs share the threads."""
    buffers = threading.local()

    def compute(raw):
        if not hasattr(buffers, "values"):
            buffers.values = np.empty((1, 1))
        buffers.values[0] = (raw[0] if batch else raw)["x"][8]
        return buffers.values

    made = {**extractors("cooperative"), "e": Extractor(compute, mode="thread", batch=batch)}
    clock = FakeClock()
    with AnytimeRunner(regression(), made, clock=clock) as runner:
        first = runner.stream(raw_of(X[0]))
        receive = clock.receive

        def meanwhile(mailbox, until_):
            message = receive(mailbox, until_)
            clock.receive = receive
            runner.predict(raw_of(X[1]))  # the same thread, and its buffer, before the first run looks at it
            return message

        clock.receive = meanwhile
        assert_right(list(first)[-1], X[0])


def test_known_values_that_change_during_a_stream_do_not_change_it():
    runner = AnytimeRunner(regression(), extractors("cooperative"))
    values = X[:, COLUMNS["a"]].copy()
    stream = runner.stream(raw_of(X[0]), known={"a": values[0]})
    next(stream)
    values[:] = 1e6
    assert list(stream)[-1].value == pytest.approx(truth(ORDER, X[0]), rel=1e-9)


# -- too many that hang ----------------------------------------------------------------------------------------


def test_no_more_threads_than_allowed_hang():
    clock = FakeClock()
    runner = AnytimeRunner(regression(), extractors("thread"), max_abandoned=3, clock=clock)
    before = own_threads()
    for k in range(3):
        clock.script = [False]
        answer = runner.predict(raw_of(X[0], c="hangs"), deadline=1.0)
        assert answer.faults["c"].kind == "late"
        assert runner.n_abandoned == k + 1
    for _ in range(5):
        answer = runner.predict(raw_of(X[0]), deadline=1.0)
        assert answer.groups == ()
        assert {fault.kind for fault in answer.faults.values()} == {"refused"}
        assert "3 functions already hang" in answer.faults["c"].message
        assert_right(answer, X[0])
    started = own_threads() - before
    assert len(started) == 3
    RELEASE.end_round()
    until(lambda: runner.n_abandoned == 0)
    assert runner.predict(raw_of(X[0])).groups == ORDER
    assert own_threads() - before == started, "threads are used again"
    runner.close()
    until(lambda: not own_threads() - before)


def test_a_system_without_threads_still_answers(monkeypatch):
    with AnytimeRunner(regression(), extractors("thread")) as runner:
        with monkeypatch.context() as patched:
            patched.setattr(threading.Thread, "start", lambda self: (_ for _ in ()).throw(RuntimeError("no threads")))
            answer = runner.predict(raw_of(X[0]))
        assert {str(fault) for fault in answer.faults.values()} == {"refused: no threads"}
        assert_right(answer, X[0])
        assert runner.predict(raw_of(X[0])).groups == ORDER
        assert runner.n_abandoned == 0


# -- many inputs -----------------------------------------------------------------------------------------------


def many(**faults_of):
    """Return inputs for all rows of X; ``c={2: "nan"}`` spoils group c of input 2."""
    return [raw_of(x, **{name: f[i] for name, f in faults_of.items() if i in f}) for i, x in enumerate(X)]


SPOILED = {
    "c": {0: "nan", 3: "raises"},
    "e": {3: "none", 4: "too long", 11: "inf"},
    "d": dict.fromkeys(range(12), "is cancelled"),
}


@pytest.mark.parametrize("mode", MODES)
def test_rows_with_faults_are_answered_from_what_they_have(served, mode):
    runner, _ = served(mode)
    raws = many(**SPOILED)
    answer = runner.predict_many(raws)
    assert answer.groups == ("c", "a", "e", "b")
    assert answer.stage == 4  # d brings nothing new
    assert answer.faults["c"].rows.tolist() == [0, 3]
    assert answer.faults["e"].rows.tolist() == [3, 4, 11]
    assert answer.faults["d"].rows is None
    assert answer.faults["c"].kind == "not finite"
    for i, x in enumerate(X):
        own = [name for name in answer.groups if i not in SPOILED.get(name, {})]
        assert answer.value[i] == pytest.approx(truth(own, x), rel=1e-9)
    clean = runner.predict_many(many())
    assert clean.groups == ORDER
    assert not clean.faults


@pytest.mark.parametrize("mode", ["cooperative", "thread", "process"])
def test_batch_functions_get_all_inputs_at_once(mode):
    made = {name: Extractor(ComputeTable(name), mode=mode, batch=True) for name in COLUMNS}
    with AnytimeRunner(regression(), made) as runner:
        answer = runner.predict_many(many())
        np.testing.assert_allclose(answer.value, [truth(ORDER, x) for x in X], rtol=1e-9)
        answer = runner.predict_many(many(a={1: "nan", 5: "inf"}))
        for i, x in enumerate(X):
            own = [name for name in ORDER if name != "a" or i not in (1, 5)]
            assert answer.value[i] == pytest.approx(truth(own, x), rel=1e-9)
        assert answer.faults["a"].rows.tolist() == [1, 5]
        answer = runner.predict_many(many(a={1: "raises"}))
        assert answer.groups == ("c", "e", "b", "d")
        assert answer.faults["a"].rows is None
        single = runner.predict(raw_of(X[3], e="nan"))
        assert single.faults["e"].kind == "not finite"
        assert single.faults["e"].rows is None
        assert_right(single, X[3])


MASK = np.arange(12) == 5
MASKED_TABLES = {
    "an array": lambda table: np.ma.array(table, mask=np.column_stack([MASK, MASK])),
    "rows": lambda table: [np.ma.array(row, mask=[hidden, False]) for row, hidden in zip(table, MASK, strict=True)],
    "columns by name": lambda table: {"c0": table[:, 1], "c3": np.ma.array(table[:, 0], mask=MASK)},
    "lists by name": lambda table: {
        "c0": table[:, 1],
        "c3": [np.ma.masked if hidden else value for value, hidden in zip(table[:, 0], MASK, strict=True)],
    },
    "a frame": lambda table: (
        pd.DataFrame(table, columns=["c3", "c0"]).convert_dtypes().mask(np.column_stack([MASK, MASK]))
    ),
}


@pytest.mark.parametrize("kind", MASKED_TABLES)
def test_a_masked_value_in_a_table_costs_its_row(kind):
    def compute(raws):
        return MASKED_TABLES[kind](np.array([raw["x"][COLUMNS["a"]] for raw in raws]))

    runner = AnytimeRunner(regression(), {**extractors("cooperative"), "a": Extractor(compute, batch=True)})
    answer = runner.predict_many(many())
    assert str(answer.faults["a"]) == "not finite: column 'c3' holds nan (1 inputs, the first is number 5)"
    for i, x in enumerate(X):
        own = [name for name in ORDER if name != "a" or i != 5]
        assert answer.value[i] == pytest.approx(truth(own, x), rel=1e-9)
    with pytest.raises(ValueError, match=r"known values of group 'a': not finite: column 'c3'.*number 5"):
        runner.predict_many(many(), known={"a": compute(many())})


def test_an_array_whose_mask_hides_nothing_is_an_array():
    for mask in (np.ma.nomask, False):
        made = {n: (lambda raw, n=n, m=mask: np.ma.array(raw["x"][COLUMNS[n]], mask=m)) for n in COLUMNS}
        answer = AnytimeRunner(regression(), made).predict(raw_of(X[0]))
        assert answer.groups == ORDER
        assert_right(answer, X[0])
        known = {n: made[n](raw_of(X[0])) for n in COLUMNS}
        assert_right(AnytimeRunner(regression(), made).predict(None, known=known), X[0])


AS_VALUES = [name for name, (kind, _) in FAULTS.items() if kind not in ("raised", "died")]


@pytest.mark.parametrize("fault", [*AS_VALUES, "no array", "deadly array"])
def test_what_is_a_fault_of_an_extractor_is_an_error_in_known(served, fault):
    runner, _ = served("cooperative")
    kind, spoil = FAULTS[fault]
    values = spoil(Compute("a").values(raw_of(X[0])))
    with pytest.raises(ValueError, match=f"known values of group 'a': {kind}: "):
        runner.predict(raw_of(X[0]), known={"a": values})


def test_async_rows_run_at_once_and_a_late_group_is_cancelled():
    clock = FakeClock()
    with AnytimeRunner(regression(), extractors("async"), clock=clock) as runner:
        clock.script = [True, False]
        answer = runner.predict_many(many(a={7: "hangs"}), deadline=2.0)
        assert answer.groups == ("c",)
        assert answer.faults["a"].kind == "late"
        np.testing.assert_allclose(answer.value, [truth(["c"], x) for x in X], rtol=1e-9)


def test_a_deadline_in_the_middle_of_the_rows():
    clock = FakeClock()
    made = extractors("cooperative", clock, dict.fromkeys(ORDER, 1.0))
    runner = AnytimeRunner(regression(), made, clock=clock)
    # 12 rows of c, and 5 of a, of which the last one ends at the deadline
    answer = runner.predict_many(many(), deadline=17.0)
    assert answer.groups == ("c", "a")
    assert answer.reason == "deadline"
    assert answer.elapsed == 17.0
    assert answer.faults["a"].kind == "late"
    assert answer.faults["a"].rows.tolist() == list(range(5, 12))
    for i, x in enumerate(X):
        assert answer.value[i] == pytest.approx(truth(["c", "a"] if i < 5 else ["c"], x), rel=1e-9)


def test_frames_and_mappings_are_read_by_name():
    def table(kind, name):
        def compute(raws):
            columns = {f"c{d}": [raw["x"][d] for raw in raws] for d in reversed(range(9))}
            return columns if kind is dict else kind(columns)

        return Extractor(compute, batch=True)

    for kind in (dict, pd.DataFrame, pl.DataFrame, pa.table):
        runner = AnytimeRunner(regression(), {name: table(kind, name) for name in COLUMNS})
        answer = runner.predict_many(many())
        assert not answer.faults
        np.testing.assert_allclose(answer.value, [truth(ORDER, x) for x in X], rtol=1e-9)
        if kind is not dict:  # a frame with one row, for one input
            one = {name: (lambda raw, name=name: table(kind, name).function([raw])) for name in COLUMNS}  # noqa: B023
            assert_right(AnytimeRunner(regression(), one).predict(raw_of(X[0])), X[0])
    series = {name: (lambda raw: pd.Series({f"c{d}": raw["x"][d] for d in reversed(range(9))})) for name in COLUMNS}
    assert_right(AnytimeRunner(regression(), series).predict(raw_of(X[0])), X[0])
    unequal = Extractor(lambda raws: {"c5": [1.0] * (len(raws) - 1)}, batch=True)
    deep = Extractor(lambda raws: {"c8": [[1.0], [1.0, 2.0]] * 6}, batch=True)
    dates = Extractor(lambda raws: pd.DataFrame({"c7": np.ones(12), "c4": np.zeros(12, dtype="M8[s]")}), batch=True)
    ragged = Extractor(lambda raws: {"c3": [1.0] * 12, "c0": [1.0] * 11}, batch=True)
    runner = AnytimeRunner(
        regression(), {**{n: table(dict, n) for n in COLUMNS}, "b": unequal, "a": ragged, "e": deep, "d": dates}
    )
    answer = runner.predict_many(many())
    assert answer.faults.pop("e").message.startswith("not a table of numbers: ")
    assert str(answer.faults.pop("d")).startswith("type: column 'c4': expected numbers, got Series")
    assert {name: str(fault) for name, fault in answer.faults.items()} == {
        "a": "shape: column 'c0': expected 12 values, got 11",
        "b": "shape: column 'c5': expected 12 values, got 11",
    }


@pytest.mark.parametrize("mode", MODES)
def test_known_rows(served, mode):
    runner, _ = served(mode)
    known = {"a": X[:, COLUMNS["a"]], "b": X[:, COLUMNS["b"]].ravel()}
    answer = runner.predict_many(many(a={0: "raises"}), known=known, budget=COSTS["c"])
    assert answer.groups == ("c", "a", "b")
    np.testing.assert_allclose(answer.value, [truth(["c", "a", "b"], x) for x in X], rtol=1e-9)


def test_a_series_of_inputs_and_one_input():
    with AnytimeRunner(regression(), extractors("async")) as runner:
        for n in (1, 2):
            answer = runner.predict_many(pd.Series(many()[:n], index=[7, 8][:n]))
            np.testing.assert_allclose(answer.value, [truth(ORDER, x) for x in X[:n]], rtol=1e-9)


# -- the end ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", BESIDE)
@pytest.mark.parametrize("how", HOW)
def test_closing_ends_the_runs_in_flight(mode, how):
    before = own_threads()
    runner = AnytimeRunner(regression(), extractors(mode), workers=2).start()
    found = []
    threads = [
        threading.Thread(target=lambda: found.append(ask(runner, how, raw_of(X[0], e="hangs", b="hangs"))[-1]))
        for _ in range(3)
    ]
    for thread in threads:
        thread.start()
    until(lambda: runner.n_running == 3)
    pids = runner.process_ids
    runner.close(grace=0.0 if mode == "thread" else 1.0)
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
    assert [answer.reason for answer in found] == ["interrupted"] * 3
    for answer in found:
        assert_right(answer, X[0])
    RELEASE.end_round()
    runner.close()
    until(lambda: not own_threads() - before)
    until(lambda: not any(map(is_alive, pids)))
    assert runner.process_ids == ()
    assert runner.n_running == 0


@pytest.mark.parametrize("mode", BESIDE)
def test_a_stream_left_half_way_lets_its_tasks_go(mode):
    clock = FakeClock()
    with AnytimeRunner(regression(), extractors(mode), workers=3, clock=clock) as runner:
        for _ in range(3):
            stream = runner.stream(raw_of(X[0], a="hangs", e="hangs"))
            next(stream)
            assert next(stream).groups == ("c",)
            assert runner.n_running == 1
            stream.close()
            assert runner.n_running == 0
            if mode == "thread":
                assert runner.n_abandoned == 2
            RELEASE.end_round()
            until(lambda: runner.n_abandoned == 0)

        async def leave():
            async for answer in runner.astream(raw_of(X[0], a="hangs", e="hangs")):
                if answer.groups:
                    return answer.groups
            return None

        assert asyncio.run(leave()) == ("c",)
        until(lambda: runner.n_running == 0)
        RELEASE.end_round()
        assert runner.predict(raw_of(X[0])).groups == ORDER


@pytest.mark.parametrize("mode", BESIDE)
def test_a_cancelled_apredict_lets_its_tasks_go(mode):
    with AnytimeRunner(regression(), extractors(mode)) as runner:

        async def go():
            task = asyncio.ensure_future(runner.apredict(raw_of(X[0], c="hangs")))
            while runner.n_running == 0:
                await asyncio.sleep(0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

        asyncio.run(go())
        assert runner.n_running == 0
        RELEASE.end_round()
        until(lambda: runner.n_abandoned == 0)
        assert runner.predict(raw_of(X[0])).groups == ORDER


class Row(dict):
    """An input that can be watched until it is gone."""


async def used(runner, how, raw):
    if how == "apredict":
        return await runner.apredict(raw)
    return [answer async for answer in runner.astream(raw)][-1]


closed_loops = pytest.mark.filterwarnings(
    "ignore::pytest.PytestUnraisableExceptionWarning"  # asyncio's own complaints about what a closed loop leaves
)


@closed_loops
@pytest.mark.parametrize("mode", BESIDE)
def test_a_loop_that_is_dropped_lets_its_tasks_go(mode):
    """Nobody closes the loop, nobody asks again, and the function still hangs: the run ends when it is collected."""
    with AnytimeRunner(regression(), extractors(mode)) as runner:
        loop = asyncio.new_event_loop()
        tasks = [loop.create_task(runner.apredict(raw_of(X[0], c="hangs")))]
        while runner.n_running == 0:
            loop.run_until_complete(asyncio.sleep(0))
        loop.run_until_complete(asyncio.sleep(0))
        tasks.clear()
        until(lambda: (gc.collect(), runner.n_running == 0)[1])
        assert runner.n_abandoned == (mode == "thread")
        RELEASE.end_round()
        loop.close()


@pytest.mark.parametrize("mode", BESIDE)
@pytest.mark.parametrize("how", ["predict", "stream", "predict_many"])
def test_ctrl_c_while_a_run_waits_lets_its_tasks_go(served, monkeypatch, mode, how):
    runner, clock = served(mode)

    def pressed(mailbox, until_):
        raise KeyboardInterrupt

    raw = raw_of(X[0], c="hangs")
    ask_it = getattr(runner, how)
    with monkeypatch.context() as patched:
        patched.setattr(clock, "receive", pressed)
        with pytest.raises(KeyboardInterrupt):
            list(ask_it([raw, raw] if how.endswith("many") else raw))
    assert runner.n_running == 0
    assert runner.n_abandoned == (mode == "thread")
    RELEASE.end_round()
    until(lambda: runner.n_abandoned == 0)
    assert runner.predict(raw_of(X[0])).groups == ORDER


def test_a_closed_stream_is_over():
    with AnytimeRunner(regression(), extractors("thread")) as runner:
        stream = runner.stream(raw_of(X[0]))
        next(stream)
    assert [answer.reason for answer in stream] == ["interrupted"]


def test_a_late_thread_reports_to_a_loop_that_is_gone():
    clock = FakeClock()
    with AnytimeRunner(regression(), extractors("thread"), clock=clock) as runner:
        clock.script = [False]
        ask(runner, "apredict", raw_of(X[0], c="hangs"), deadline=1.0)
        RELEASE.end_round()  # its event loop is closed by now
        until(lambda: runner.n_abandoned == 0)
        assert ask(runner, "apredict", raw_of(X[0]))[-1].groups == ORDER


def test_a_coroutine_that_will_not_be_cancelled():
    stubborn, before = threading.Event(), own_threads()

    async def refuses(raw):
        while not stubborn.is_set():
            try:
                await asyncio.sleep(0)
            except asyncio.CancelledError:
                continue
        return Compute("c")(raw)

    clock = FakeClock()
    runner = AnytimeRunner(regression(), {**extractors("async"), "c": refuses}, clock=clock)
    clock.script = [False]
    answer = runner.predict(raw_of(X[0]), deadline=1.0)
    assert (answer.groups, answer.faults["c"].kind) == ((), "late")
    stubborn.set()
    assert runner.predict(raw_of(X[0]), deadline=1.0).groups == ORDER
    runner.close()
    until(lambda: not own_threads() - before)


def test_idle_threads_keep_nothing_alive():
    for mode in ("thread", "async"):
        with AnytimeRunner(regression(), extractors(mode)) as runner:
            raw = Row(raw_of(X[0]))
            gone = weakref.ref(raw)
            runner.predict(raw)
            del raw
            until(lambda gone=gone: (gc.collect(), gone() is None)[1])


def test_async_functions_may_be_awaitable_otherwise():
    class Later:
        def __init__(self, values):
            self.values = values

        def __await__(self):
            yield from asyncio.sleep(0).__await__()
            return self.values

    made = {**extractors("async"), "c": Extractor(lambda raw: Later(Compute("c")(raw)), mode="async")}
    made["a"] = Extractor(Compute("a"), mode="async")
    with AnytimeRunner(regression(), made) as runner:
        for how in HOW:
            assert ask(runner, how, raw_of(X[0]))[-1].groups == ORDER


FORGETFUL = """
import sys
sys.path.insert(0, {tests!r})
from runtime_extractors import *
from budgetline import AnytimeRunner

def forget():
    x = data()[2][0]
    runners = [AnytimeRunner(regression(), extractors(mode), workers=2) for mode in ("thread", "process", "async")]
    for runner in runners:
        answer = runner.predict(raw_of(x))
        assert answer.groups == ORDER, answer
    print("pids", *runners[1].process_ids)
    streams = [runner.stream(raw_of(x, a="hangs", e="hangs")) for runner in runners]
    for stream in streams:
        next(stream), next(stream)
    return runners, streams

if __name__ == "__main__":
    kept = forget()
    streams = forget()[1]
    print("last line", flush=True)
"""


@pytest.mark.slow  # two interpreters start
def test_a_program_that_forgets_to_close_ends(tmp_path):
    """Functions hang in threads, processes and a loop, streams are half read, and nothing was closed.

    Some runners are kept to the end, of others only their streams.
    """
    script = tmp_path / "forgetful.py"
    script.write_text(FORGETFUL.format(tests=str(Path(__file__).parents[1] / "support")))
    found = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=200, check=False)
    assert found.returncode == 0, found.stderr
    *lines, last = found.stdout.splitlines()
    assert last == "last line"
    assert "Traceback" not in found.stderr, found.stderr
    pids = [int(word) for line in lines for word in line.split()[1:]]
    assert len(pids) == 4
    until(lambda: not any(map(is_alive, pids)))


def test_processes_in_a_daemon_are_refused_not_waited_for(monkeypatch):
    """multiprocessing lets no daemon have children: the runner must say so, and answer without."""
    monkeypatch.setattr(multiprocessing.current_process(), "daemon", True)
    with AnytimeRunner(regression(), extractors("process")) as runner:
        answer = runner.predict(raw_of(X[0]))
    assert answer.groups == ()
    assert str(answer.faults["c"]).startswith("died: its process could not be started: daemonic")


# -- texts of faults -----------------------------------------------------------------------------------------------


def raising_at_length(raw):
    raise ValueError("x" * 10**7)


def returning_at_length(raw):
    return ["y" * 10**7]


async def raising_at_length_later(raw):
    raising_at_length(raw)


@pytest.mark.parametrize(
    ("mode", "function", "kind"),
    [
        ("cooperative", raising_at_length, "raised"),
        ("cooperative", returning_at_length, "type"),
        ("thread", raising_at_length, "raised"),
        ("async", raising_at_length_later, "raised"),
    ],
)
def test_of_long_texts_a_fault_keeps_the_beginning(mode, function, kind, caplog):
    given = {**extractors(mode), ORDER[0]: Extractor(function, mode=mode)}
    with AnytimeRunner(regression(), given) as runner, caplog.at_level(logging.WARNING, "budgetline.runtime"):
        fault = ask(runner, "predict", raw_of(X[0]))[-1].faults[ORDER[0]]
    assert fault.kind == kind
    assert "xxx" in fault.message or "yyy" in fault.message
    assert len(fault.message) <= 1000
    assert max(map(len, caplog.messages)) < 1200
