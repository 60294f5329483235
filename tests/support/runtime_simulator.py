"""A simulation of runs that shares no code with the library, and how real runs are compared with it."""

import heapq
import itertools
import random
from dataclasses import replace
from functools import cache
from unittest.mock import patch

import numpy as np
import pytest
from runtime_extractors import (
    COLUMNS,
    ORDER,
    Compute,
    FakeClock,
    ask,
    assert_right,
    data,
    raw_of,
)

from budgetline import (
    AnytimeRegressor,
    AnytimeRunner,
    Extractor,
    FeatureGroups,
    FixedOrder,
)
from budgetline.model.anytime import as_model
from budgetline.runtime import Fault
from budgetline.runtime.extractors import GroupValues

X0, Y0, X = data()


# -- the simulation --------------------------------------------------------------------------------------------


def needed(scene, name):
    """Return everything that a group requires, directly or not."""
    found, waiting = set(), list(scene.get("requires", {}).get(name, ()))
    while waiting:
        h = waiting.pop()
        if h not in found:
            found.add(h)
            waiting.extend(scene.get("requires", {}).get(h, ()))
    return found


def simulate(scene, cooperative):
    """Play a scene by hand: a list of events in time. Return the expected result."""
    t, k, started = 0.0, 0, []
    have = {name for name in ORDER if name in scene["known"]}
    running, skipped, faults, timings = {}, [], {}, {}
    deadline, workers = scene["deadline"], 1 if cooperative else scene["workers"]

    def spent(names):
        shared = sum(cost for cost, members in scene.get("shared", ()) if set(members) & set(names))
        return sum(scene["costs"][name] for name in names) + shared

    def startable():
        """Move to the next group that can be started now; say whether there is one, or why not."""
        nonlocal k
        while k < len(ORDER):
            name = ORDER[k]
            if name not in scene["known"] and name not in scene["without"]:
                lost = needed(scene, name) - have - set(running)
                if lost:
                    faults[name] = "required"
                    if lost & set(skipped):
                        skipped.append(name)
                elif spent([*started, name]) > scene["budget"] + 1e-9:
                    return "budget"
                elif needed(scene, name) & set(running):
                    return "waiting"
                elif t + scene["seconds"].get(name, 0.0) <= deadline:
                    return None
                else:
                    skipped.append(name)
            k += 1
        return "deadline" if skipped else "complete"

    def arrive(name):
        timings[name] = scene["durations"][name]
        if name in scene["faulty"]:
            faults[name] = "raised"
        else:
            have.add(name)

    while True:
        if t >= deadline:
            reason = "deadline"
            break
        while len(running) < workers and startable() is None:
            started.append(ORDER[k])
            running[ORDER[k]] = t
            k += 1
        if not running:
            reason = startable()
            break
        arrivals = {name: start + scene["durations"][name] for name, start in running.items()}
        limits = {} if cooperative else {n: s + scene["timeouts"].get(n, np.inf) for n, s in running.items()}
        first = min(arrivals, key=lambda name: (arrivals[name], running[name], ORDER.index(name)))
        stop = min([*limits.values(), deadline])
        if cooperative or arrivals[first] <= stop:
            t = arrivals[first]
            del running[first]
            arrive(first)
        else:
            t = stop
        for name in [name for name in running if limits.get(name, np.inf) <= t]:
            del running[name]
            faults[name] = "late"
    # what is there at the very end is taken, too
    for name in sorted(running, key=lambda name: running[name]):
        if running[name] + scene["durations"][name] <= t:
            arrive(name)
        else:
            faults[name] = "late"
    return {
        "groups": tuple(name for name in ORDER if name in have),
        "stage": next((j for j, name in enumerate(ORDER) if name not in have), 5),
        "spent": pytest.approx(spent(started)),
        "skipped": tuple(skipped),
        "reason": reason,
        "elapsed": t,
        "faults": faults,
        "timings": timings,
    }


class ScriptedLane:
    """A lane in which everything takes as long as the scene says, by the fake clock."""

    def __init__(self, clock, scene):
        self.clock, self.scene, self.events, self.count = clock, scene, [], itertools.count()
        self.abandoned = []

    def start(self, call):
        name = ORDER[call.position]
        call.finished = self.clock.time + self.scene["durations"][name]
        values = np.array([[call.raws[0]["x"][d] for d in COLUMNS[name]]])
        call.outcome = Fault("raised", "scripted") if name in self.scene["faulty"] else GroupValues(values, {})
        heapq.heappush(self.events, (call.finished, next(self.count), call))

    def abandon(self, call):
        self.abandoned.append(call)
        call.abandoned = True

    def close(self, grace):
        pass

    def pop(self, until):
        """Return the next call that comes back until then, at its time."""
        while self.events and self.events[0][0] <= until:
            end, _, call = heapq.heappop(self.events)
            if not call.abandoned:
                self.clock.time = max(self.clock.time, end)
                return call
        return None


class ScriptedClock(FakeClock):
    lane = None

    def receive(self, mailbox, until):
        if until == -np.inf:
            return self.lane.pop(self.time)
        call = self.lane.pop(until)
        if call is None:
            assert until < np.inf, "the run waits for ever"
            self.time = max(self.time, until)
        return call

    async def receive_async(self, mailbox, until):
        return self.receive(mailbox, until)


def scenario(seed):
    rng = random.Random(seed)

    def some(chance):
        return {name for name in ORDER if rng.random() < chance}

    def time():
        return rng.choice([0.0, rng.random(), rng.random(), 3 * rng.random()])

    return {
        "durations": {name: time() for name in ORDER},
        "seconds": {name: time() for name in some(rng.choice([0.0, 0.7]))},
        "timeouts": {name: 0.01 + rng.random() for name in some(rng.choice([0.0, 0.5]))},
        "costs": {name: rng.choice([0.0, 0.5, 1.0, 2.0, 3.0]) for name in ORDER},
        "known": some(rng.choice([0.0, 0.3])),
        "without": some(rng.choice([0.0, 0.2])),
        "faulty": some(rng.choice([0.0, 0.3])),
        "workers": rng.choice([1, 1, 2, 3, 5]),
        "deadline": rng.choice([np.inf, rng.random(), 2 * rng.random(), 5 * rng.random(), 0.0, -1.0]),
        "budget": rng.choice([np.inf, np.inf, 8 * rng.random(), 3.0]),
    }


def groups_of(scene):
    shared = {str(k): entry for k, entry in enumerate(scene.get("shared", ()))}
    return FeatureGroups(COLUMNS, scene["costs"], shared=shared, requires=scene.get("requires"))


def model_with(scene):
    return AnytimeRegressor(groups_of(scene), schedule=FixedOrder(ORDER), alpha=1e-2).fit(X0, Y0)


@cache
def fitted():
    """Return a fitted model: the order is fixed, so that prices do not change it."""
    return as_model(model_with({"costs": dict.fromkeys(ORDER, 1.0)}))


def priced(scene):
    """Return the model as if it had been fitted with the prices of a scene."""
    return replace(fitted(), layout=replace(fitted().layout, groups=groups_of(scene)))


def compare(answer, expected, x):
    found = {
        "groups": answer.groups,
        "stage": answer.stage,
        "spent": answer.spent,
        "skipped": answer.skipped,
        "reason": answer.reason,
        "faults": {name: fault.kind for name, fault in answer.faults.items()},
    }
    assert found == {key: expected[key] for key in found}
    assert answer.elapsed == pytest.approx(max(expected["elapsed"], 0.0), abs=1e-12)
    assert answer.timings == pytest.approx(expected["timings"], abs=1e-12)
    assert_right(answer, x)


def play(scene, how, cooperative, x):
    clock = ScriptedClock()
    if cooperative:
        made = {name: moving(name, clock, scene) for name in ORDER}
    else:
        made = {name: Extractor(Compute(name), mode="thread", timeout=scene["timeouts"].get(name)) for name in ORDER}
    made |= dict.fromkeys(scene["without"])
    lane = clock.lane = ScriptedLane(clock, scene)
    with patch("budgetline.runtime.runner.ThreadLane", lambda clock, most_abandoned: lane):
        runner = AnytimeRunner(priced(scene), made, seconds=scene["seconds"], workers=scene["workers"], clock=clock)
    limits = {"deadline": None if scene["deadline"] == np.inf else scene["deadline"], "budget": scene["budget"]}
    known = {name: x[COLUMNS[name]] for name in scene["known"]}
    answers = ask(runner, how, raw_of(x), known=known, **limits)
    assert {ORDER[call.position] for call in lane.abandoned} == {
        name for name, fault in answers[-1].faults.items() if fault.kind == "late"
    }
    runner.close()
    return answers


def moving(name, clock, scene):
    def compute(raw):
        clock.advance(scene["durations"][name])
        if name in scene["faulty"]:
            raise ValueError("scripted")
        return Compute(name)(raw)

    return compute


def last_answers(scenario, seeds, cooperative):
    """Play scenes, check every result, and return the last results."""
    last = []
    for seed in seeds:
        scene, x = scenario(seed), X[seed % len(X)]
        expected = simulate(scene, cooperative)
        how = ("predict", "stream", "apredict", "astream")[seed % 4]
        answers = play(scene, how, cooperative, x)
        try:
            compare(answers[-1], expected, x)
        except AssertionError as error:
            raise AssertionError(f"seed {seed}, {how}: {scene}") from error
        for earlier, later in itertools.pairwise(answers):
            assert earlier.reason == "running"
            assert set(earlier.groups) <= set(later.groups)
            assert earlier.elapsed <= later.elapsed
            assert earlier.spent <= later.spent
            assert_right(earlier, x)
        last.append(answers[-1])
    return last
