"""Really sleeping extractors under real deadlines; prints figures as JSON. Run by tests/runtime/test_threads.py.

Processes import this script when they start, again and again as they are killed: it imports little by itself.
"""

import asyncio
import json
import random
import sys
import threading
import time
from pathlib import Path

if __name__ == "__main__":
    import numpy as np
    from runtime_extractors import COLUMNS, ORDER, data, regression, warm_up

    from budgetline import AnytimeRunner, Extractor

DONE = []
"""(request, group, when it was computed), from threads and coroutines; list.append is atomic."""


class Sleepy:
    """Sleeps as long as the input says, and notes when it is done."""

    def __init__(self, group, columns):
        self.group, self.columns = group, columns

    def values(self, raw):
        DONE.append((raw["id"], self.group, time.monotonic()))
        if raw["log"]:
            with open(raw["log"], "a", encoding="utf-8") as log:  # one short line: written at once
                log.write(f"{raw['id']} {self.group} {time.monotonic()!r}\n")
        return [raw["x"][d] for d in self.columns]

    def __call__(self, raw):
        time.sleep(raw["delays"][self.group])
        return self.values(raw)


class SleepyAsync(Sleepy):
    async def __call__(self, raw):
        await asyncio.sleep(raw["delays"][self.group])
        return self.values(raw)


def inputs(n, seed, log):
    rng, X = random.Random(seed), data()[2]
    for i in range(n):
        delays = {name: 0.006 * rng.random() for name in ORDER}
        if rng.random() < 0.2:
            delays[rng.choice(ORDER)] = 0.05 + 0.15 * rng.random()
        # a process that is killed takes a while to start again, and takes it from the others on a small machine
        deadline = rng.uniform(0.015, 0.06) if log else rng.uniform(0.003, 0.03)
        row = i % len(X)
        yield {"id": f"{seed}-{i}", "x": X[row], "row": row, "delays": delays, "deadline": deadline, "log": log}


def outcome(raw, start, end, answer):
    return {
        "id": raw["id"],
        "x": raw["x"],
        "answer": answer,
        "late": end - start - raw["deadline"],
        "answered": end,
        "deadline": start + raw["deadline"],
        "groups": answer.groups,
        "reason": answer.reason,
        "started": [*answer.groups, *answer.faults],
    }


def sync_part(runner, raws, at_once):
    raws, found, lock = list(raws), [], threading.Lock()

    def client():
        while True:
            with lock:
                if not raws:
                    return
                raw = raws.pop()
            start = time.monotonic()
            answer = runner.predict(raw, deadline=raw["deadline"])
            found.append(outcome(raw, start, time.monotonic(), answer))

    threads = [threading.Thread(target=client) for _ in range(at_once)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found


async def async_part(runner, raws, at_once):
    raws, found = list(raws), []

    async def client():
        while raws:
            raw = raws.pop()
            start = time.monotonic()
            answer = await runner.apredict(raw, deadline=raw["deadline"])
            found.append(outcome(raw, start, time.monotonic(), answer))

    await asyncio.gather(*(client() for _ in range(at_once)))
    return found


class Witness:
    """A thread that only sleeps: how late it wakes is the fault of the machine, not of the runner."""

    def __init__(self):
        self.late, self.over = [], threading.Event()
        self.start = time.monotonic()
        self.thread = threading.Thread(target=self._sleep)
        self.thread.start()

    def _sleep(self):
        while not self.over.is_set():
            start = time.monotonic()
            time.sleep(0.001)
            self.late.append(time.monotonic() - start - 0.001)

    def noise(self):
        """Return the ms by which something due at a random moment is late, in 99 of 100 cases."""
        self.over.set()
        self.thread.join()
        late, allowed = np.array(self.late), 0.01 * (time.monotonic() - self.start)
        return next(ms for ms in range(10**6) if np.maximum(late - ms / 1000, 0).sum() <= allowed)


def main(log):
    found = {}
    model = regression()
    for seed, mode in enumerate(("thread", "process", "async")):
        kind = SleepyAsync if mode == "async" else Sleepy
        made = {name: Extractor(kind(name, columns), mode=mode) for name, columns in COLUMNS.items()}
        path = log if mode == "process" else ""
        limit = {"processes": 4} if mode == "process" else {}
        with AnytimeRunner(model, made, workers=2, max_abandoned=200, **limit) as runner:
            warm_up(runner)
            runner.predict(next(inputs(1, 99, "")))  # imports, first threads
            witness, at_once = Witness(), 1 if mode == "process" else 2
            answers = sync_part(runner, inputs(170, seed, path), at_once)
            answers += asyncio.run(async_part(runner, inputs(165, 10 + seed, path), at_once))
            found[mode] = answers, witness.noise()
    lines = Path(log).read_text(encoding="utf-8").splitlines()
    DONE.extend((i, group, float(when)) for i, group, when in map(str.split, lines))
    return found


def judge(answers, when):
    """Return how many ms after the deadline answers come, and how many lack a group computed 2 ms before it."""
    from runtime_extractors import ORDER, assert_right

    missed = 0
    for answer in answers:
        assert_right(answer["answer"], answer["x"])
        for group in answer["groups"]:
            assert when[answer["id"], group] <= answer["answered"], (
                f"{group} was reported before it was there: {answer}"
            )
        in_time = min(answer["deadline"], answer["answered"]) - 0.002
        missed += any(
            when.get((answer["id"], g), np.inf) < in_time for g in answer["started"] if g not in answer["groups"]
        )
        expected = "complete" if len(answer["groups"]) == len(ORDER) else "deadline"
        assert answer["reason"] in (expected, "deadline"), answer
    late = np.sort([1000 * answer["late"] for answer in answers])
    figures = {"p50": np.median(late), "p90": np.quantile(late, 0.9), "p99": np.quantile(late, 0.99), "max": late[-1]}
    groups = sum(len(answer["groups"]) for answer in answers) / len(answers)
    return {"n": len(answers), **{k: round(v, 3) for k, v in figures.items()}, "missed": missed, "groups": groups}


if __name__ == "__main__":
    found = main(sys.argv[1])
    when = {(i, group): t for i, group, t in DONE}
    print(json.dumps({mode: judge(answers, when) | {"noise": noise} for mode, (answers, noise) in found.items()}))
