"""One runner under sixteen threads; and, in a process of its own, real deadlines and real sleep."""

import asyncio
import itertools
import json
import os
import random
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from runtime_extractors import (
    COLUMNS,
    FAULTS,
    ORDER,
    Compute,
    ComputeAsync,
    data,
    is_alive,
    own_threads,
    raw_of,
    regression,
    truth,
    until,
    warm_up,
)

from budgetline import AnytimeRunner, Extractor

THREADS = 16
REQUESTS = 30
"""Requests of each thread."""
X = data()[2]


@pytest.mark.slow
def test_answers_under_a_real_deadline(tmp_path):
    """1,005 requests with random delays: p99 within 5 ms of the deadline, and exactly what was computed is reported.

    The only test with a stop-watch. It means an idle machine: three attempts, and after the third a thread that only
    sleeps has shown how late this machine wakes anyone (rare stalls of tens of ms here). Stalls are rare, so nine
    answers in ten are held to 5 ms whatever the machine does.
    """
    best = {}
    for attempt in range(3):
        script = Path(__file__).parents[1] / "support" / "runtime_deadline_run.py"
        log = tmp_path / f"done-{attempt}.txt"
        log.touch()
        environment = os.environ | {"OPENBLAS_NUM_THREADS": "1"}
        found = subprocess.run(
            [sys.executable, script, log], capture_output=True, text=True, timeout=120, check=False, env=environment
        )
        assert found.returncode == 0, found.stderr
        figures = json.loads(found.stdout)
        assert set(figures) == {"thread", "process", "async"}
        assert sum(figure["n"] for figure in figures.values()) >= 1000
        for mode, figure in figures.items():
            print(f"attempt {attempt}, {mode}, ms after the deadline:", figure)
            if mode not in best or (figure["p90"] > 5.0, figure["p99"]) < (best[mode]["p90"] > 5.0, best[mode]["p99"]):
                best[mode] = figure
        if all(figure["p99"] <= 5.0 and figure["missed"] <= 3 for figure in best.values()):
            break
    for figure in best.values():
        assert figure["p90"] <= 5.0, best
        assert figure["p99"] <= 5.0 + figure["noise"], best
        assert figure["missed"] <= 3, best
        assert figure["groups"] > 1, best


# -- sixteen threads -------------------------------------------------------------------------------------------

HARMLESS = [
    name for name in FAULTS if FAULTS[name][0] != "died" and name not in ("recursion", "deadly text", "too short")
]
CANDIDATES = [frozenset(s) for k in range(6) for s in itertools.combinations(ORDER, k)]
TRUTH = {(groups, i): truth(groups, x) for groups in CANDIDATES for i, x in enumerate(X)}


class Slow(Compute):
    """Takes its time, if the input says so."""

    def __call__(self, raw):
        threading.Event().wait(raw["wait"])
        return super().__call__(raw)


class SlowAsync(ComputeAsync):
    async def __call__(self, raw):
        await asyncio.sleep(raw["wait"])
        return await super().__call__(raw)


def mixed():
    """Return extractors of all modes."""
    return {
        "c": Extractor(Slow("c"), mode="thread"),
        "a": Extractor(SlowAsync("a"), timeout=600.0),
        "e": Extractor(Compute("e"), mode="cooperative"),
        "b": Extractor(Slow("b"), mode="process"),
        "d": Extractor(Slow("d"), mode="thread"),
    }


class Client:
    """Asks in every way, with every limit, and compares every answer."""

    def __init__(self, runner, seed):
        self.runner, self.rng = runner, random.Random(seed)
        self.count, self.reasons, self.wrong = 0, set(), []

    def limits(self, i):
        rng = self.rng
        limits = {"deadline": rng.choice([None, None, 0.0, 0.001, 0.005, 0.02])}
        limits["budget"] = rng.choice([None, None, 3.0, 8.5])
        names = rng.sample(ORDER, rng.choice([0, 0, 1, 2]))
        limits["known"] = {name: X[i][COLUMNS[name]] for name in names}
        return limits

    def raw(self, i):
        faults = {name: self.rng.choice(HARMLESS) for name in ORDER if self.rng.random() < 0.1}
        return raw_of(X[i], **faults) | {"wait": self.rng.choice([0.0, 0.0, 0.001, 0.01])}

    def judge(self, answer, i, raw, limits, known):
        expected = TRUTH[frozenset(answer.groups), i]
        assert abs(answer.value - expected) <= 1e-9 * max(1.0, abs(expected)), (answer, expected)
        assert answer.stage == next((j for j, name in enumerate(ORDER) if name not in answer.groups), 5)
        assert not set(answer.groups) & (set(raw["faults"]) - set(known)), (answer, raw)
        assert answer.reason in ("complete", "deadline", "budget")
        assert answer.reason != "deadline" or limits["deadline"] is not None
        if answer.reason == "complete":
            usable = (set(ORDER) - set(raw["faults"])) | set(known)
            lost = {name for name, fault in answer.faults.items() if fault.kind in ("late", "refused", "died")}
            assert set(answer.groups) == usable - lost or limits["deadline"] is not None, (answer, raw)
            assert not lost or limits["deadline"] is not None or lost <= {"c", "d", "b"}, answer
        self.count += 1
        self.reasons.add(answer.reason)

    async def asynchronously(self, how, raw, limits):
        if how == "apredict":
            return [await self.runner.apredict(raw, **limits)]
        return [answer async for answer in self.runner.astream(raw, **limits)]

    def once(self):
        i = self.rng.randrange(len(X))
        limits, raw = self.limits(i), self.raw(i)
        how = self.rng.choice(["predict"] * 4 + ["stream", "apredict", "astream", "leave", "many"])
        if how == "many":
            rows = [self.rng.randrange(len(X)) for _ in range(3)]
            answer = self.runner.predict_many([self.raw(j) | {"faults": {}} for j in rows], deadline=limits["deadline"])
            for j, value, k in zip(rows, answer.value, range(3), strict=True):
                lacking = {n for n, f in answer.faults.items() if f.rows is not None and k in f.rows}
                assert value == pytest.approx(TRUTH[frozenset(answer.groups) - lacking, j], rel=1e-9), answer
            return
        if how == "leave":
            stream = self.runner.stream(raw, **limits)
            next(stream)
            stream.close()
            return
        if how == "predict":
            answers = [self.runner.predict(raw, **limits)]
        elif how == "stream":
            answers = list(self.runner.stream(raw, **limits))
        else:
            answers = asyncio.run(self.asynchronously(how, raw, limits))
        self.judge(answers[-1], i, raw, limits, limits["known"])

    def __call__(self):
        try:
            while self.count < REQUESTS:
                self.once()
        except BaseException as error:  # shown by the test, which is in another thread
            self.wrong.append(error)


@pytest.mark.slow
def test_sixteen_threads_and_one_runner():
    before = own_threads()
    runner = AnytimeRunner(regression(), mixed(), workers=3, processes=2, max_abandoned=1000).start()
    warm_up(runner)  # so that groups are never left out for want of time to solve
    clients = [Client(runner, seed) for seed in range(THREADS)]
    threads = [threading.Thread(target=client) for client in clients]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert not [thread for thread in threads if thread.is_alive()], "a request is lost"
    for client in clients:
        if client.wrong:
            raise client.wrong[0]
    assert set.union(*(client.reasons for client in clients)) == {"complete", "deadline", "budget"}
    until(lambda: runner.n_abandoned == 0)
    full = runner.predict(raw_of(X[0]) | {"wait": 0.0})
    assert full.groups == ORDER
    pids = runner.process_ids
    assert len(pids) == 2
    runner.close()
    assert runner.n_running == 0
    until(lambda: not any(map(is_alive, pids)))
    assert runner.process_ids == ()
    until(lambda: not own_threads() - before)


def test_closing_while_sixteen_threads_ask():
    """Whatever a request was doing when the runner closed, it answers, or is told that the runner is closed."""
    for round in range(6):
        # every request that closes may leave a thread behind, and no other request may be refused one for that
        runner = AnytimeRunner(regression(), {**mixed(), "b": Compute("b")}, workers=3, max_abandoned=64)
        wrong, answered, closed = [], [], threading.Event()

        def client(seed, runner=runner, wrong=wrong, answered=answered, closed=closed):
            rng = random.Random(seed)
            try:
                while True:
                    i = rng.randrange(len(X))
                    raw = raw_of(X[i]) | {"wait": rng.choice([0.0, 0.001])}
                    answer = runner.predict(raw) if seed % 2 else asyncio.run(runner.apredict(raw))
                    assert abs(answer.value - TRUTH[frozenset(answer.groups), i]) < 1e-8
                    assert answer.reason == "complete" or closed.is_set()
                    assert answer.groups == ORDER or answer.reason == "interrupted", answer
                    answered.append(i)
            except RuntimeError as error:
                if str(error) != "the runner is closed" or not closed.is_set():
                    wrong.append(error)
            except BaseException as error:
                wrong.append(error)

        threads = [threading.Thread(target=client, args=(seed,)) for seed in range(16)]
        for thread in threads:
            thread.start()
        until(lambda: wrong or (runner.n_running and len(answered) >= 8 * round))  # noqa: B023, called at once
        closed.set()
        runner.close()
        for thread in threads:
            thread.join(60)
            assert not thread.is_alive(), "a request is lost"
        if wrong:
            raise wrong[0]
        assert runner.n_running == 0


@pytest.mark.slow
def test_interrupts_while_threads_ask():
    with AnytimeRunner(regression(), {**mixed(), "b": Compute("b")}, workers=2) as runner:
        wrong, stop = [], threading.Event()
        seen = set()

        def client(seed):
            rng = random.Random(seed)
            try:
                while not stop.is_set():
                    i = rng.randrange(len(X))
                    answer = runner.predict(raw_of(X[i]) | {"wait": 0.001})
                    assert abs(answer.value - TRUTH[frozenset(answer.groups), i]) < 1e-8
                    assert answer.reason in ("complete", "interrupted")
                    if answer.reason == "complete":  # a flood of interrupts leaves functions behind: no more are begun
                        kinds = {name: fault.kind for name, fault in answer.faults.items()}
                        assert kinds == dict.fromkeys(set(ORDER) - set(answer.groups), "refused")
                    seen.add(answer.reason)
            except BaseException as error:
                wrong.append(error)

        threads = [threading.Thread(target=client, args=(seed,)) for seed in range(4)]
        for thread in threads:
            thread.start()
        until(lambda: (runner.interrupt(), wrong or seen == {"complete", "interrupted"})[1])
        stop.set()
        for thread in threads:
            thread.join(60)
            assert not thread.is_alive()
        if wrong:
            raise wrong[0]
