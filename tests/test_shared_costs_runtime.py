"""Runs where costs are shared and groups require others, against a simulation that shares no code with them."""

import itertools
import random

import numpy as np
import pytest

from budgetline import AnytimeRegressor, AnytimeRunner, Extractor, FeatureGroups, FixedOrder
from runtime_extractors import COLUMNS, ORDER, Compute, ComputeTable, ask, assert_right, data, raw_of
from test_runtime_logic import ScriptedClock, ScriptedLane, compare, moving

X0, Y0, X = data()


def needed(scene, name):
    """Return everything that a group requires, directly or not."""
    found, waiting = set(), list(scene["requires"].get(name, ()))
    while waiting:
        h = waiting.pop()
        if h not in found:
            found.add(h)
            waiting.extend(scene["requires"].get(h, ()))
    return found


def simulate(scene, cooperative):
    """Play a scene by hand: a list of events in time. Return what the answer should say."""
    t, k, started = 0.0, 0, []
    have = {name for name in ORDER if name in scene["known"]}
    running, skipped, faults, timings = {}, [], {}, {}
    deadline, workers = scene["deadline"], 1 if cooperative else scene["workers"]

    def spent(names):
        shared = sum(cost for cost, members in scene["shared"] if set(members) & set(names))
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


def scenario(seed):
    rng = random.Random(seed)

    def some(chance):
        return {name for name in ORDER if rng.random() < chance}

    def time():
        return rng.choice([0.0, rng.random(), rng.random(), 3 * rng.random()])

    requires = {name: sorted(some(0.35) & set(ORDER[:k])) for k, name in enumerate(ORDER)}
    shared = [(rng.choice([0.5, 1.0, 4.0]), sorted(some(0.5))) for _ in range(rng.choice([1, 2, 3]))]
    return {
        "durations": {name: time() for name in ORDER},
        "seconds": {name: time() for name in some(rng.choice([0.0, 0.7]))},
        "timeouts": {name: 0.01 + rng.random() for name in some(rng.choice([0.0, 0.5]))},
        "costs": {name: rng.choice([0.0, 0.5, 1.0, 2.0, 3.0]) for name in ORDER},
        "known": some(rng.choice([0.0, 0.3])),
        "without": some(rng.choice([0.0, 0.2])),
        "faulty": some(rng.choice([0.0, 0.3])),
        "workers": rng.choice([1, 2, 3, 5]),
        "deadline": rng.choice([np.inf, 2 * rng.random(), 5 * rng.random(), 0.0]),
        "budget": rng.choice([np.inf, np.inf, 12 * rng.random(), 4.0]),
        "shared": [(cost, members) for cost, members in shared if members],
        "requires": {name: required for name, required in requires.items() if required},
    }


def model_with(scene):
    shared = {str(k): entry for k, entry in enumerate(scene["shared"])}
    groups = FeatureGroups(COLUMNS, scene["costs"], shared=shared, requires=scene["requires"])
    return AnytimeRegressor(groups, schedule=FixedOrder(ORDER), alpha=1e-2).fit(X0, Y0)


def play(scene, how, cooperative, x):
    clock = ScriptedClock()
    if cooperative:
        made = {name: moving(name, clock, scene) for name in ORDER}
    else:
        made = {name: Extractor(Compute(name), mode="thread", timeout=scene["timeouts"].get(name)) for name in ORDER}
    made |= dict.fromkeys(scene["without"])
    runner = AnytimeRunner(model_with(scene), made, seconds=scene["seconds"], workers=scene["workers"], clock=clock)
    for groups in range(32):
        runner._work.models.solve(groups)
    clock.lane = runner._lanes["thread"] = ScriptedLane(clock, scene)
    limits = {"deadline": None if scene["deadline"] == np.inf else scene["deadline"], "budget": scene["budget"]}
    known = {name: x[COLUMNS[name]] for name in scene["known"]}
    answers = ask(runner, how, raw_of(x), known=known, **limits)
    runner.close()
    return answers


@pytest.mark.parametrize("cooperative", [False, True], ids=["beside", "cooperative"])
@pytest.mark.parametrize("block", range(3))
def test_runs_agree_with_the_simulation(block, cooperative):
    reasons, kinds = set(), set()
    for seed in range(100 * block, 100 * (block + 1)):
        scene = scenario(seed)
        x = X[seed % len(X)]
        expected = simulate(scene, cooperative)
        how = ("predict", "stream", "apredict", "astream")[seed % 4]
        answers = play(scene, how, cooperative, x)
        try:
            compare(answers[-1], expected, x)
        except AssertionError as error:
            raise AssertionError(f"seed {seed}, {how}: {scene}") from error
        for earlier, later in itertools.pairwise(answers):
            assert earlier.spent <= later.spent
            assert_right(earlier, x)
        reasons.add(answers[-1].reason)
        kinds |= {fault.kind for fault in answers[-1].faults.values()}
    assert reasons == {"complete", "deadline", "budget"}
    assert kinds >= {"required", "raised"}


def test_a_budget_buys_the_same_prefix_as_predict():
    for seed in range(60):
        scene = scenario(seed)
        model = model_with(scene)
        runner = AnytimeRunner(model, {name: Compute(name) for name in ORDER})
        ends = [0.0, *model.sequence_.cumulative_costs.tolist()]
        for budget in [*ends, *(np.nextafter(end, 0) * (1 - 1e-9) for end in ends), *np.linspace(0, ends[-1] + 1, 7)]:
            answer = runner.predict(raw_of(X[0]), budget=budget)
            assert answer.stage == model.sequence_.stage_at(budget)
            assert answer.spent == ends[answer.stage]
            assert answer.value == pytest.approx(model.predict(X[:1], budget=budget)[0])
        runner.close()


SCENE = {
    "costs": {"c": 1.0, "a": 2.0, "e": 0.0, "b": 3.0, "d": 1.0},
    "shared": [(10.0, ["a", "b"])],
    "requires": {"e": ["c"], "d": ["e"]},
}


def test_the_first_member_that_is_started_pays_and_known_ones_do_not():
    with AnytimeRunner(model_with(SCENE), {name: Compute(name) for name in ORDER}) as runner:
        assert runner.predict(raw_of(X[0])).spent == 17.0
        assert runner.predict(raw_of(X[0]), known={"a": X[0, COLUMNS["a"]]}).spent == 15.0
        assert runner.predict(raw_of(X[0]), known={n: X[0, COLUMNS[n]] for n in "ab"}).spent == 2.0
        # one that fails has paid all the same
        assert runner.predict(raw_of(X[0], a="raises")).spent == 17.0
        # what is required and known satisfies
        answer = runner.predict(raw_of(X[0], c="raises"), known={"c": X[0, COLUMNS["c"]]})
        assert answer.groups == ORDER


def test_the_reason_says_which_group_is_missing():
    made = {name: Compute(name) for name in ORDER}
    with AnytimeRunner(model_with(SCENE), made) as runner:
        answer = runner.predict(raw_of(X[0], c="raises"))
        assert answer.groups == ("a", "b")
        assert str(answer.faults["e"]) == "required: it requires 'c', which is not there (raised)"
        assert "it requires" in str(answer.faults["d"])
        assert answer.skipped == ()
        assert answer.reason == "complete"
    with AnytimeRunner(model_with(SCENE), {**made, "c": None}) as runner:
        answer = runner.predict(raw_of(X[0]))
        assert str(answer.faults["e"]) == "required: it requires 'c', which is not known and has no extractor"
        assert answer.spent == 15.0
    clock = ScriptedClock()
    with AnytimeRunner(model_with(SCENE), made, seconds={"c": 2.0}, clock=clock) as runner:
        answer = runner.predict(raw_of(X[0]), deadline=1.0)
        assert answer.skipped == ("c", "e", "d")
        assert str(answer.faults["e"]) == "required: it requires 'c', which was skipped"
        assert answer.reason == "deadline"


@pytest.mark.parametrize("batch", [False, True])
def test_inputs_that_lack_what_is_required_lack_the_rest_too(batch):
    raws = [raw_of(X[0]), raw_of(X[1], c="nan"), raw_of(X[2], a="nan"), raw_of(X[3], e="nan", c="nan")]
    if batch:
        made = {name: Extractor(ComputeTable(name), batch=True) for name in ORDER}
    else:
        made = {name: Compute(name) for name in ORDER}
    model = model_with(SCENE)
    with AnytimeRunner(model, made) as runner:
        many = runner.predict_many(raws)
    assert many.faults["e"].rows.tolist() == [1, 3]
    assert many.faults["d"].rows.tolist() == [1, 3]
    have = [set(ORDER), {"a", "b"}, set(ORDER) - {"a"}, {"a", "b"}]
    expected = [model.predict(X[k : k + 1], available=groups)[0] for k, groups in enumerate(have)]
    np.testing.assert_allclose(many.value, expected)
    with AnytimeRunner(model, {name: Compute(name) for name in ORDER}) as runner:
        np.testing.assert_allclose([runner.predict(raw).value for raw in raws], expected)


@pytest.mark.parametrize("mode", ["thread", "async"])
def test_in_real_lanes_a_group_starts_after_those_it_requires(mode):
    begun, ended = [], []

    def watching(name):
        compute = Compute(name)

        def function(raw):
            begun.append((name, set(ended)))
            values = compute(raw)
            ended.append(name)
            return values

        async def coroutine(raw):
            return function(raw)

        return Extractor(coroutine if mode == "async" else function, mode=mode)

    with AnytimeRunner(model_with(SCENE), {name: watching(name) for name in ORDER}, workers=5) as runner:
        for _ in range(20):
            begun.clear()
            ended.clear()
            answer = runner.predict(raw_of(X[0]))
            assert answer.groups == ORDER
            before = dict(begun)
            assert "c" in before["e"]
            assert {"c", "e"} <= before["d"]
