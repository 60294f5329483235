"""Runs where costs are shared and groups require others, against a simulation that shares no code with them."""

import random

import numpy as np
import pytest
from runtime_extractors import COLUMNS, ORDER, Compute, ComputeTable, data, raw_of
from runtime_simulator import ScriptedClock, last_answers, model_with
from runtime_simulator import scenario as plain_scenario

from budgetline import AnytimeRunner, Extractor

X = data()[2]


def scenario(seed):
    """Return a scene in which costs are shared and groups require others before them."""
    rng = random.Random(-seed - 1)

    def some(chance):
        return {name for name in ORDER if rng.random() < chance}

    requires = {name: sorted(some(0.35) & set(ORDER[:k])) for k, name in enumerate(ORDER)}
    shared = [(rng.choice([0.5, 1.0, 4.0]), sorted(some(0.5))) for _ in range(rng.choice([1, 2, 3]))]
    return {
        **plain_scenario(seed),
        "shared": [(cost, members) for cost, members in shared if members],
        "requires": {name: required for name, required in requires.items() if required},
    }


@pytest.mark.parametrize("cooperative", [False, True], ids=["beside", "cooperative"])
@pytest.mark.parametrize("block", range(3))
def test_runs_agree_with_the_simulation(block, cooperative):
    answers = last_answers(scenario, range(100 * block, 100 * (block + 1)), cooperative)
    assert {answer.reason for answer in answers} == {"complete", "deadline", "budget"}
    assert {fault.kind for answer in answers for fault in answer.faults.values()} >= {"required", "raised"}


def test_a_budget_buys_the_same_prefix_as_predict():
    for seed in range(20):
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
        assert answer.faults["c"].kind == "raised"
        assert str(answer.faults["e"]) == "required: it requires 'c', which is missing"
        assert "it requires" in str(answer.faults["d"])
        assert answer.skipped == ()
        assert answer.reason == "complete"
    with AnytimeRunner(model_with(SCENE), {**made, "c": None}) as runner:
        answer = runner.predict(raw_of(X[0]))
        assert str(answer.faults["e"]) == "required: it requires 'c', which is missing"
        assert answer.spent == 15.0
    clock = ScriptedClock()
    with AnytimeRunner(model_with(SCENE), made, seconds={"c": 2.0}, clock=clock) as runner:
        answer = runner.predict(raw_of(X[0]), deadline=1.0)
        assert answer.skipped == ("c", "e", "d")
        assert str(answer.faults["e"]) == "required: it requires 'c', which is missing"
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
