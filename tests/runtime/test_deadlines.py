"""Deadlines, budgets, timeouts and interrupts in every mode and every way to ask, by a clock that nobody waits for."""

import asyncio
import os
import threading
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
import pytest
from runtime_extractors import (
    ALPHA,
    BESIDE,
    COLUMNS,
    COSTS,
    HOW,
    MODES,
    ORDER,
    RELEASE,
    Compute,
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

from budgetline import AnytimeClassifier, AnytimeRegressor, AnytimeRunner, Extractor, FixedOrder
from budgetline.model.anytime import as_model
from budgetline.model.stages import StagedModel

X = data()[2]


every_mode = pytest.mark.parametrize("mode", MODES)
beside = pytest.mark.parametrize("mode", BESIDE)
every_way = pytest.mark.parametrize("how", HOW)


@every_mode
@every_way
def test_without_limits_everything_is_computed(served, mode, how):
    runner, _ = served(mode)
    for x in X[:3]:
        answers = ask(runner, how, raw_of(x))
        for answer in answers:
            assert_right(answer, x)
        assert answers[-1].reason == "complete"
        assert answers[-1].groups == ORDER
        assert answers[-1].spent == sum(COSTS.values())
        assert not answers[-1].faults
        assert set(answers[-1].timings) == set(ORDER)
        if how.endswith("stream"):
            assert [answer.stage for answer in answers] == [0, 1, 2, 3, 4, 5]
            assert [answer.reason for answer in answers] == ["running"] * 5 + ["complete"]


@every_mode
@every_way
@pytest.mark.parametrize("deadline", [0, 0.0, -1.0, -np.inf])
def test_after_the_deadline_there_is_the_intercept(served, mode, how, deadline):
    runner, _ = served(mode)
    answer = ask(runner, how, raw_of(X[0]), deadline=deadline)[-1]
    assert (answer.groups, answer.reason, answer.stage, answer.spent) == ((), "deadline", 0, 0.0)
    assert not answer.faults
    assert_right(answer, X[0])
    assert answer.value == pytest.approx(data()[1].mean())


@every_mode
@every_way
@pytest.mark.parametrize("deadline", [0.5, 1.0, 1.5, 2.0, 4.5, 5.0, 5.5])
def test_the_deadline_comes_between_groups(served, mode, how, deadline):
    """Each group takes one second: cooperative ends the one it is in, others stop waiting."""
    runner, clock = served(mode)
    start = clock.time
    if mode == "cooperative":
        made = extractors("cooperative", clock, dict.fromkeys(ORDER, 1.0))
        runner = AnytimeRunner(regression(), made, clock=clock)
        stage = min(5, int(np.ceil(deadline)))
        elapsed = float(stage)
    else:
        stage = min(5, int(deadline))
        hanging = ORDER[stage : stage + 1]
        clock.on_message = lambda: clock.advance(1.0)
        clock.script = [True] * stage + [False]
        elapsed = min(deadline, 5.0)
    faults = {} if mode == "cooperative" else dict.fromkeys(hanging, "hangs")
    answer = ask(runner, how, raw_of(X[1], **faults), deadline=deadline)[-1]
    assert answer.groups == ORDER[:stage]
    # at 5.0 all are there at the deadline itself, which is the reason
    assert answer.reason == ("deadline" if deadline <= 5 else "complete")
    assert clock.time - start == elapsed
    assert answer.elapsed == pytest.approx(elapsed)
    started = stage if mode == "cooperative" or deadline == stage or stage == 5 else stage + 1
    assert answer.spent == sum(COSTS[name] for name in ORDER[:started])
    assert list(answer.faults) == list(ORDER[stage:started])
    assert all(fault.kind == "late" for fault in answer.faults.values())
    assert_right(answer, X[1])


@beside
@every_way
def test_a_late_extractor_is_given_up_and_the_runner_serves_on(served, mode, how):
    runner, clock = served(mode)
    for j, late in enumerate(ORDER):
        clock.script = [True] * j + [False]
        answer = ask(runner, how, raw_of(X[2], **{late: "hangs"}), deadline=3.0)[-1]
        assert answer.groups == ORDER[:j]
        assert answer.reason == "deadline"
        assert str(answer.faults[late]) == "late: not done when the run ended"
        assert_right(answer, X[2])
        assert runner.n_abandoned == (1 if mode == "thread" else 0)
        RELEASE.end_round()
        until(lambda: runner.n_abandoned == 0)
        again = ask(runner, how, raw_of(X[3]), deadline=3.0)[-1]
        assert again.groups == ORDER
        assert_right(again, X[3])


@pytest.mark.quick_cases(1)
@every_way
def test_a_late_process_is_killed_and_another_one_started(served, how, tmp_path):
    runner, clock = served("process")
    os.mkfifo(tmp_path / "begun")
    for j in range(2):
        (before,) = runner.process_ids
        clock.script = [True] * j + [False]
        clock.before_jump = lambda: (tmp_path / "begun").read_bytes()  # it hangs by then
        raw = raw_of(X[2], **{ORDER[j]: "hangs"}) | {"begun": str(tmp_path / "begun")}
        answer = ask(runner, how, raw, deadline=3.0)[-1]
        clock.before_jump = None
        assert answer.groups == ORDER[:j]
        until(lambda before=before: not is_alive(before))
        assert ask(runner, how, raw_of(X[2]))[-1].groups == ORDER
        assert runner.process_ids != (before,)


@beside
@every_way
def test_several_at_once_start_in_order_and_those_that_came_are_used(served, mode, how):
    runner, clock = served(mode, workers=5)
    clock.script = [True] * 3 + [False]
    answer = ask(runner, how, raw_of(X[4], c="hangs", b="hangs"), deadline=1.0)[-1]
    assert answer.groups == ("a", "e", "d")
    assert answer.stage == 0
    assert answer.spent == sum(COSTS.values())
    assert set(answer.faults) == {"c", "b"}
    assert answer.reason == "deadline"
    assert_right(answer, X[4])

    runner, clock = served(mode, workers=2)
    clock.script = [True] * 2 + [False]
    answer = ask(runner, how, raw_of(X[4], c="hangs", b="hangs"), deadline=1.0)[-1]
    # c holds one worker; a and e come through the other, which b then holds: d is never begun
    assert answer.groups == ("a", "e")
    assert set(answer.faults) == {"c", "b"}
    assert answer.spent == sum(COSTS[name] for name in "caeb")
    assert_right(answer, X[4])


@beside
@every_way
@pytest.mark.parametrize("workers", [1, 5])
def test_a_timeout_ends_one_group_whatever_the_deadline(served, mode, how, workers):
    runner, clock = served(mode, workers=workers, timeout=0.25)
    for j, late in enumerate(ORDER):
        start = clock.time
        clock.script = [True] * (j if workers == 1 else 4) + [False]
        answer = ask(runner, how, raw_of(X[5], **{late: "hangs"}), **({} if j % 2 else {"deadline": 100.0}))[-1]
        assert answer.groups == tuple(name for name in ORDER if name != late)
        assert answer.reason == "complete"
        assert clock.time - start == pytest.approx(0.25)
        assert str(answer.faults[late]) == "late: not done after its timeout of 0.25 s"
        assert late not in answer.timings
        assert_right(answer, X[5])
        RELEASE.end_round()


@every_mode
@every_way
def test_a_group_that_would_not_be_in_time_is_skipped_for_the_next_that_is(mode, how):
    clock = FakeClock()
    seconds = {"c": 5.0, "a": 1.0, "e": 3.0, "b": 1.0, "d": 1.0}
    # beside the run, the clock moves when a message comes: moved by the extractor, the run might see the time first
    made = extractors(mode, clock, seconds) if mode == "cooperative" else extractors(mode)
    with AnytimeRunner(regression(), made, seconds=seconds, clock=clock) as runner:
        if mode != "cooperative":
            clock.on_message = lambda: clock.advance(1.0)
        answer = ask(runner, how, raw_of(X[6]), deadline=3.0)[-1]
        assert answer.skipped == ("c", "e")
        assert answer.groups == ("a", "b", "d")
        assert answer.stage == 0
        assert answer.reason == "deadline"
        assert answer.spent == COSTS["a"] + COSTS["b"] + COSTS["d"]
        assert answer.elapsed == 3.0
        assert not answer.faults
        assert_right(answer, X[6])

        # there is time for nothing: that is no reason to wait
        answer = ask(runner, how, raw_of(X[6]), deadline=0.5)[-1]
        assert answer.skipped == ORDER
        assert (answer.groups, answer.reason, answer.elapsed) == ((), "deadline", 0.0)

        # exactly enough is enough
        clock.time = 0.0
        answer = ask(runner, how, raw_of(X[6]), deadline=5.0)[-1]
        assert "c" in answer.groups


@every_mode
@every_way
def test_a_budget_buys_what_it_buys_in_predict(served, mode, how):
    runner, _ = served(mode)
    model = regression()
    x = X[7]
    frame = [list(x)]
    cumulative = np.cumsum([COSTS[name] for name in ORDER])
    for budget in [0, 0.1, *cumulative, *(cumulative - 1e-9), *(cumulative + 0.1), 1e9, np.inf]:
        answer = ask(runner, how, raw_of(x), budget=budget)[-1]
        stage = int((cumulative <= budget).sum())
        assert answer.groups == ORDER[:stage]
        assert answer.reason == ("complete" if stage == 5 else "budget")
        assert answer.spent == (cumulative[stage - 1] if stage else 0.0)
        assert_right(answer, x)
        table = pd.DataFrame(frame, columns=model.feature_names_in_)
        assert answer.value == pytest.approx(model.predict(table, budget=budget)[0], rel=1e-12)


@every_mode
def test_a_tenth_and_two_tenths_fit_into_three_tenths(mode):
    X0, y, _ = data()
    costs = {"c": 0.1, "a": 0.2, "e": 1.0, "b": 1.0, "d": 1.0}
    model = AnytimeRegressor(COLUMNS, costs=costs, schedule=FixedOrder(ORDER)).fit(X0, y)
    with AnytimeRunner(model, extractors(mode)) as runner:
        assert 0.1 + 0.2 > 0.3
        for how in HOW:
            answer = ask(runner, how, raw_of(X[0]), budget=0.3)[-1]
            assert answer.groups == ("c", "a")
            assert answer.value == pytest.approx(model.predict(X[:1], budget=0.3)[0])
            assert ask(runner, how, raw_of(X[0]), budget=0.29)[-1].groups == ("c",)


@beside
@every_way
def test_interrupt_from_another_thread_stops_at_once(served, mode, how):
    """The other thread interrupts as soon as the run waits for the group that hangs."""
    runner, clock = served(mode)
    waiting = threading.Event()
    count = [0]
    receive, receive_async = clock.receive, clock.receive_async

    def counted(until):
        if until != -np.inf:
            count[0] += 1
            if count[0] == 3:
                waiting.set()

    def watched(mailbox, until):
        counted(until)
        return receive(mailbox, until)

    async def watched_async(mailbox, until):
        counted(until)
        return await receive_async(mailbox, until)

    clock.receive, clock.receive_async = watched, watched_async

    def interrupt():
        assert waiting.wait(60)
        runner.interrupt()

    other = threading.Thread(target=interrupt)
    other.start()
    try:
        answer = ask(runner, how, raw_of(X[8], e="hangs"))[-1]
    finally:
        del clock.receive, clock.receive_async
        other.join()
    assert answer.reason == "interrupted"
    assert answer.groups == ("c", "a")
    assert answer.faults["e"].kind == "late"
    assert_right(answer, X[8])
    RELEASE.end_round()
    assert ask(runner, how, raw_of(X[8]))[-1].reason == "complete", "an interrupt is for the runs of its time"


@every_way
def test_interrupt_in_cooperative_mode_stops_after_the_group(how):
    runner = None

    def interrupts(raw):
        other = threading.Thread(target=runner.interrupt)
        other.start()
        other.join()
        return Compute("a")(raw)

    made = {**extractors("cooperative"), "a": interrupts}
    runner = AnytimeRunner(regression(), made)
    answer = ask(runner, how, raw_of(X[0]))[-1]
    assert (answer.groups, answer.reason) == (("c", "a"), "interrupted")
    assert_right(answer, X[0])


@every_mode
@every_way
def test_known_groups_are_free_and_need_no_order(served, mode, how):
    runner, _ = served(mode)
    x = X[9]
    known = {name: x[COLUMNS[name]] for name in ("d", "a")}
    answers = ask(runner, how, raw_of(x, d="raises", a="raises"), known=known)
    for answer in answers:
        assert_right(answer, x)
        assert {"a", "d"} <= set(answer.groups)
    assert answers[-1].groups == ORDER
    assert answers[-1].spent == COSTS["c"] + COSTS["e"] + COSTS["b"]
    assert set(answers[-1].timings) == {"c", "e", "b"}
    assert not answers[-1].faults

    answer = ask(runner, how, raw_of(x), known=known, budget=COSTS["c"])[-1]
    assert (answer.groups, answer.reason) == (("c", "a", "d"), "budget")
    assert_right(answer, x)
    answer = ask(runner, how, raw_of(x), known=known, deadline=0)[-1]
    assert (answer.groups, answer.reason, answer.spent) == (("a", "d"), "deadline", 0.0)
    assert_right(answer, x)
    answer = ask(runner, how, raw_of(x), known={name: x[COLUMNS[name]] for name in COLUMNS})[-1]
    assert (answer.groups, answer.reason, answer.spent, answer.timings) == (ORDER, "complete", 0.0, {})
    assert_right(answer, x)
    by_name = {"c": {f"c{d}": x[d] for d in reversed(range(9))}}
    answer = ask(runner, how, raw_of(x), known=by_name, budget=0)[-1]
    assert answer.groups == ("c",)
    assert_right(answer, x)


@every_mode
@every_way
def test_a_group_without_an_extractor_counts_only_when_known(mode, how):
    made = {**extractors("cooperative" if mode == "process" else mode), "a": None}
    with AnytimeRunner(regression(), made) as runner:
        answer = ask(runner, how, raw_of(X[0]))[-1]
        assert (answer.groups, answer.reason, answer.skipped) == (("c", "e", "b", "d"), "complete", ())
        assert_right(answer, X[0])
        answer = ask(runner, how, raw_of(X[0]), known={"a": X[0][COLUMNS["a"]]})[-1]
        assert answer.groups == ORDER
        assert_right(answer, X[0])


@dataclass
class FarFromTheBorder:
    """An early exit: decided when the score is far from 0. It is asked once per stage."""

    far: float
    asked: list

    def check(self, model):
        pass

    def decided(self, stage, scores):
        self.asked.append(stage)
        return bool((np.abs(scores) > self.far).all())


@pytest.mark.parametrize("mode", ["cooperative", "thread", "async"])
@every_way
def test_early_exit_stops_at_the_first_stage_that_decides(mode, how):
    X0, y, _ = data()
    labels = np.where(y > np.median(y), "yes", "no")
    model = AnytimeClassifier(COLUMNS, schedule=FixedOrder(ORDER), alpha=ALPHA).fit(X0, labels)
    scores = np.stack(list(model.staged_decision_function(X)))
    seen = set()
    for far in np.quantile(np.abs(scores), [0.3, 0.6, 0.9]):
        exits = FarFromTheBorder(far, [])
        with AnytimeRunner(model, extractors(mode), early_exit=exits) as runner:
            for i, x in enumerate(X):
                exits.asked.clear()
                stop = 1 + next((j for j in range(4) if abs(scores[j, i]) > far), 4)
                answer = ask(runner, how, raw_of(x))[-1]
                assert answer.stage == stop
                assert answer.reason == ("decided" if stop < 5 else "complete")
                assert answer.value == model.predict(X[[i]], stage=stop)[0]
                np.testing.assert_allclose(answer.probabilities, model.predict_proba(X[[i]], stage=stop)[0], rtol=1e-9)
                assert exits.asked == [1, 2, 3, 4][:stop]
                seen.add(stop)
            # a group in between is missing: what the sample knows of stages says nothing
            exits.asked.clear()
            answer = ask(runner, how, raw_of(X[0], c="raises"))[-1]
            assert answer.reason == "complete"
            assert not exits.asked
    assert len(seen) >= 4


@dataclass(frozen=True, kw_only=True)
class SlowStages(StagedModel):
    """Stages that take half a second, by a clock, to solve for a set of groups, and note for which."""

    clock: FakeClock
    solved: list

    def of_steps(self, in_sequence):
        self.solved.append(tuple(np.flatnonzero(in_sequence).tolist()))
        self.clock.advance(0.5)
        return super().of_steps(in_sequence)


def slow_runner(made, clock, **settings):
    """Return a runner that solves slowly, and the list of what it solves."""
    model, solved = as_model(regression()), []
    stages = SlowStages(**vars(model.stages), clock=clock, solved=solved)
    runner = AnytimeRunner(replace(model, stages=stages), made, clock=clock, **settings)
    solved.clear()  # a new runner has measured how long it takes
    return runner, solved


def test_the_time_to_solve_for_a_set_counts():
    """Without c every further group needs a model that is not there yet: 1 s to compute, 0.5 s to solve."""
    clock, seconds = FakeClock(), dict.fromkeys(ORDER, 1.0)
    runner, solved = slow_runner(extractors("cooperative", clock, seconds), clock, seconds=seconds)
    clock.time = 0.0
    raw = raw_of(X[0], c="raises")
    answer = runner.predict(raw, deadline=2.5)
    # c fails at 1.0; a fits (1 + 0.5 to solve); at 2.0 nothing more does, and {a} is solved by 2.5
    assert answer.groups == ("a",)
    assert answer.skipped == ("e", "b", "d")
    assert answer.reason == "deadline"
    assert clock.time == 2.5
    assert_right(answer, X[0])
    assert solved == [(1,)]
    clock.time = 0.0
    assert runner.predict(raw, deadline=2.0).groups == ("a",), "now it is ready and takes no time"
    assert clock.time == 2.0


def test_without_time_to_solve_the_longest_prefix_answers_and_the_next_run_has_it():
    clock, raw = FakeClock(), raw_of(X[0], a="raises")
    made = extractors("cooperative", clock, dict.fromkeys(ORDER, 1.0))
    made["e"] = Extractor(lambda raw: (clock.advance(1.8), Compute("e")(raw))[1])
    late, solved = slow_runner(made, clock)
    clock.time = 0.0
    answer = late.predict(raw, deadline=4.0)
    # c, a and e are over at 3.8: {c, e} would be solved at 4.3
    assert answer.reason == "deadline"
    assert answer.groups == ("c",)
    assert answer.stage == 1
    assert clock.time == pytest.approx(3.8) or clock.time == pytest.approx(4.3)  # solved aside, by the same clock
    np.testing.assert_allclose(answer.value, truth(["c"], X[0]), rtol=1e-9)
    until(lambda: not any(thread.name == "budgetline-solve" for thread in own_threads()))
    assert solved[-1] == (0, 2)
    clock.time = 0.0
    answer = late.predict(raw, deadline=4.0)
    assert answer.groups == ("c", "e")
    assert_right(answer, X[0])
    late.close()


def test_a_run_that_waits_solves_meanwhile():
    """Thread mode: a hangs, e has arrived; {c, e} is solved before the deadline, while there is nothing else to do."""
    clock = FakeClock()
    runner, solved = slow_runner(extractors("thread"), clock, workers=2)
    with runner:
        clock.script = [True] * 4 + [False]
        answer = runner.predict(raw_of(X[0], a="hangs"), deadline=10.0)
        assert answer.groups == ("c", "e", "b", "d")
        assert answer.elapsed == 10.0
        assert solved[-1] == (0, 2, 3, 4)
        assert_right(answer, X[0])
        RELEASE.end_round()


def test_astream_leaves_the_loop_to_others():
    """Two runs on one event loop, each waiting for the other's extractor."""

    async def go():
        met = asyncio.Barrier(2)

        async def meet(raw):
            await met.wait()
            return Compute("c")(raw)

        made = {**extractors("async"), "c": meet}
        with AnytimeRunner(regression(), made) as runner:
            return await asyncio.wait_for(
                asyncio.gather(runner.apredict(raw_of(X[0])), runner.apredict(raw_of(X[1]))), 60
            )

    for x, answer in zip(X, asyncio.run(go()), strict=False):
        assert answer.reason == "complete"
        assert_right(answer, x)


@pytest.mark.parametrize("deadline", [1e12, 1e300, np.inf])
@every_mode
@every_way
def test_a_deadline_far_away_is_none(mode, how, deadline):
    if mode == "process":
        pytest.skip("the waiting is that of threads")
    made = extractors(mode, timeout=None if mode == "cooperative" else deadline)
    with AnytimeRunner(regression(), made) as runner:
        assert ask(runner, how, raw_of(X[0]), deadline=deadline)[-1].groups == ORDER
