"""Random scenes of the runtime: scripted ones against a simulation; real threads, loops and processes with faults."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from random import Random
from typing import Any

import numpy as np
from runtime_extractors import DEADLY, FAULTS, ORDER, ask, assert_right, data, extractors, raw_of
from runtime_extractors import regression as fixed_model
from runtime_simulator import compare, play, simulate

from budgetline import AnytimeRunner
from fuzz.trials import Case

HOW = ("predict", "stream", "apredict", "astream")
MODES = ("thread", "thread", "async", "cooperative", "process")
NOT_CAUGHT = {
    "thread": {"unsendable error", "unsendable result", *DEADLY},
    "async": {"unsendable error", "unsendable result", *DEADLY},
    "cooperative": {"unsendable error", "unsendable result", *DEADLY},
    "process": set(),
}
"""Faults left out in a mode: they are harmless there, or would end this process."""


def draw(seed: int) -> Case:
    """Return a scene in which everything is scripted, or one with real extractors that fail."""
    rng = Random(seed)
    return _real(rng, seed) if rng.random() < 0.25 else _scripted(rng, seed)


def _scripted(rng: Random, seed: int) -> Case:
    def some(chance: float) -> list[str]:
        return [name for name in ORDER if rng.random() < chance]

    def time() -> float:
        return rng.choice([0.0, rng.random(), rng.random(), 3 * rng.random()])

    shared = [[rng.choice([0.5, 1.0, 4.0]), some(0.5)] for _ in range(rng.choice([0, 0, 1, 3]))]
    chance = rng.choice([0.0, 0.0, 0.35])
    requires = {name: [h for h in some(chance) if h in ORDER[:k]] for k, name in enumerate(ORDER)}
    return {
        "seed": seed,
        "real": False,
        "how": rng.choice(HOW),
        "cooperative": rng.random() < 0.5,
        "scene": {
            "durations": {name: time() for name in ORDER},
            "seconds": {name: time() for name in some(rng.choice([0.0, 0.7]))},
            "timeouts": {name: 0.01 + rng.random() for name in some(rng.choice([0.0, 0.5]))},
            "costs": {name: rng.choice([0.0, 0.5, 1.0, 2.0, 3.0]) for name in ORDER},
            "known": some(rng.choice([0.0, 0.3])),
            "without": some(rng.choice([0.0, 0.2])),
            "faulty": some(rng.choice([0.0, 0.3, 0.7])),
            "workers": rng.choice([1, 1, 2, 3, 5]),
            "deadline": rng.choice([None, rng.random(), 2 * rng.random(), 5 * rng.random(), 0.0, -1.0]),
            "budget": rng.choice([None, None, 8 * rng.random(), 3.0]),
            "shared": [[cost, members] for cost, members in shared if members],
            "requires": {name: required for name, required in requires.items() if required},
        },
    }


def _real(rng: Random, seed: int) -> Case:
    mode = rng.choice(MODES) if rng.random() < 0.5 else "thread"
    possible = sorted(set(FAULTS) - NOT_CAUGHT[mode])
    chance = rng.choice([0.2, 0.5])
    return {
        "seed": seed,
        "real": True,
        "mode": mode,
        "how": rng.choice(HOW),
        "workers": rng.choice([1, 2, 5]),
        "budget": rng.choice([None, None, 9 * rng.random()]),
        "inputs": [
            {name: rng.choice(possible) for name in ORDER if rng.random() < chance} for _ in range(rng.randint(1, 3))
        ],
    }


def smaller(case: Case) -> Iterator[Case]:
    """Yield simpler scenes."""
    if case["real"]:
        for k in range(len(case["inputs"])) if len(case["inputs"]) > 1 else ():
            yield {**case, "inputs": [case["inputs"][k]]}
        return
    for key in ("shared", "requires", "known", "without", "faulty", "seconds", "timeouts"):
        if case["scene"][key]:
            yield {**case, "scene": {**case["scene"], key: type(case["scene"][key])()}}


def check(case: Case) -> None:
    """Play a scene, and compare the results with the expected ones."""
    _check_real(case) if case["real"] else _check_scripted(case)


def _check_scripted(case: Case) -> None:
    scene = dict(case["scene"])
    for key in ("deadline", "budget"):
        scene[key] = np.inf if scene[key] is None else scene[key]
    x = data()[2][case["seed"] % 12]
    expected = simulate(scene, case["cooperative"])
    answers = play(scene, case["how"], case["cooperative"], x)
    compare(answers[-1], expected, x)
    _check_course(answers, x)


def _check_course(answers: list[Any], x: np.ndarray) -> None:
    for earlier, later in itertools.pairwise(answers):
        assert earlier.reason == "running"
        assert set(earlier.groups) <= set(later.groups), "a group went away again"
        assert earlier.elapsed <= later.elapsed
        assert earlier.spent <= later.spent
        assert_right(earlier, x)


def _check_real(case: Case) -> None:
    """Run real extractors: each fault has its kind, the others bring their values, and the budget is kept."""
    model = fixed_model()
    made = extractors(case["mode"])
    ends = [0.0, *model.sequence_.cumulative_costs.tolist()]
    budget = {} if case["budget"] is None else {"budget": case["budget"]}
    bought = len(ORDER) if case["budget"] is None else max(k for k, end in enumerate(ends) if end <= case["budget"])
    with AnytimeRunner(model, made, workers=case["workers"], processes=1) as runner:
        for k, faults in enumerate(case["inputs"]):
            x = data()[2][(case["seed"] + k) % 12]
            answers = ask(runner, case["how"], raw_of(x, **faults), **budget)
            last = answers[-1]
            assert_right(last, x)
            _check_course(answers, x)
            started = ORDER[:bought]
            expected = {name: FAULTS[fault][0] for name, fault in faults.items() if name in started}
            assert {name: fault.kind for name, fault in last.faults.items()} == expected, f"input {k}"
            assert last.groups == tuple(name for name in started if name not in faults), f"input {k}"
            assert abs(last.spent - ends[bought]) < 1e-12
            assert all(len(str(fault)) < 10_000 for fault in last.faults.values())
