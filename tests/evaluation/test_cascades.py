"""Cascades rank by levels: what they cost and score by hand, what the search finds, and what the runner does."""

from itertools import pairwise

import numpy as np
import pytest
from runtime_extractors import FakeClock
from set_references import ranking

from budgetline import AnytimeClassifier, AnytimeRanker, AnytimeRegressor, AnytimeRunner, Extractor, FeatureGroups
from budgetline.evaluation import Cascade, cascade, cascades, ndcg_score

GROUPS = FeatureGroups({"a": [0], "b": [1, 2], "c": [3], "d": [4, 5]}, costs={"a": 1, "b": 30, "c": 5, "d": 20})


@pytest.fixture(scope="module")
def learned():
    """Return a model, and other queries."""
    X, y, qid = ranking(60, 20)
    model = AnytimeRanker(GROUPS).fit(X, y, qid=qid)
    return model, *ranking(40, 20, seed=1)


def by_hand(model, X, qid, stages, keep):
    """Return scores and the average cost of a cascade, one query after another."""
    costs = np.append(0, model.sequence_.cumulative_costs)
    final, paid = np.zeros(len(X)), np.zeros(len(X))
    for q in np.unique(qid):
        left = np.flatnonzero(qid == q)
        for level, stage in enumerate(stages):
            scores = model.predict(X[left], stage=stage)
            paid[left] = costs[stage]
            final[left] = 1000 * level + scores
            if level < len(keep):
                left = left[np.argsort(-scores, kind="stable")[: keep[level]]]
    return final, paid.mean()


@pytest.mark.parametrize(("stages", "keep"), [((4,), ()), ((1, 4), (5,)), ((1, 2, 4), (8, 3)), ((0, 3), (4,))])
def test_costs_and_orders_are_those_by_hand(learned, stages, keep):
    model, X, y, qid = learned
    final, paid = by_hand(model, X, qid, stages, keep)
    found = Cascade(stages, keep).evaluate(model, X, y, qid, k=5)
    assert found.cost == pytest.approx(paid)
    assert found.value == pytest.approx(ndcg_score(y, final, qid, k=5))
    scores = Cascade(stages, keep).scores(model, X, qid)
    for q in np.unique(qid):
        own = np.flatnonzero(qid == q)
        assert (
            own[np.argsort(-scores[own], kind="stable")].tolist()
            == own[np.argsort(-final[own], kind="stable")].tolist()
        )


def test_the_search_finds_what_all_cascades_of_two_levels_have_best(learned):
    model, X, y, qid = learned
    front = cascades(model, X, y, qid, k=5, levels=2, keep=[3, 6, 12])
    assert all(a.cost < b.cost and a.value < b.value for a, b in pairwise(front))
    every = [Cascade((s,), ()) for s in range(5)]
    every += [Cascade((s, t), (n,)) for s in range(1, 5) for t in range(s + 1, 5) for n in (3, 6, 12)]
    every = [each.evaluate(model, X, y, qid, k=5) for each in every]
    for budget in (2.0, 10.0, 25.0, 56.0):
        best = max(each.value for each in every if each.cost <= budget)
        found = cascade(model, X, y, qid, budget=budget, k=5, levels=2, keep=[3, 6, 12])
        assert found.cost <= budget
        assert found.value == pytest.approx(best)


def test_a_third_level_is_no_worse(learned):
    model, X, y, qid = learned
    two, three = (cascades(model, X, y, qid, k=5, levels=n) for n in (2, 3))
    for each in two:
        assert max(other.value for other in three if other.cost <= each.cost) >= each.value


def runner(model, clock=None, seconds=0.0, calls=None):
    """Return a runner whose extractors take the columns of a row, and some time."""

    def reader(columns):
        def read(document):
            if clock is not None:
                clock.advance(seconds)
            if calls is not None:
                calls.append(columns)
            return document[list(columns)]

        return read

    extractors = {name: reader(columns) for name, columns in zip(GROUPS.names, GROUPS.columns, strict=True)}
    return AnytimeRunner(model, extractors, clock=clock)


def test_the_runner_ranks_as_the_cascade_does(learned):
    model, X, _, qid = learned
    own, calls = np.flatnonzero(qid == qid[0]), []
    cut = Cascade((1, 3, 4), (8, 3))
    with runner(model, calls=calls) as running:
        found = running.rank(list(X[own]), cut)
    final, _ = by_hand(model, X[own], qid[own], cut.stages, cut.keep)
    np.testing.assert_array_equal(found.order, np.argsort(-final, kind="stable"))
    assert np.bincount(found.levels).tolist() == [0, 12, 5, 3]
    assert len(calls) == 20 + 8 * 2 + 3
    _, paid = by_hand(model, X[own], qid[own], cut.stages, cut.keep)
    assert found.spent == pytest.approx(paid)
    assert found.reason == "complete"


def test_a_deadline_keeps_the_ranking_of_the_groups_that_arrived(learned):
    model, X, _, qid = learned
    own, clock = np.flatnonzero(qid == qid[0]), FakeClock()
    with runner(model, clock, seconds=1.0) as running:
        found = running.rank(list(X[own]), Cascade((1, 4), (8,)), deadline=25.0)
    assert found.reason == "deadline"
    first = model.predict(X[own], stage=1)
    kept = np.sort(np.argsort(-first, kind="stable")[:8])
    there = np.full((8, X.shape[1]), np.nan)  # the second group arrived for five documents
    order = [GROUPS.names.index(name) for name in model.sequence_.groups]
    there[:, list(GROUPS.columns[order[0]])] = X[own][kept][:, list(GROUPS.columns[order[0]])]
    there[:5, list(GROUPS.columns[order[1]])] = X[own][kept][:5, list(GROUPS.columns[order[1]])]
    final = first - 1000
    final[kept] = model.predict(there, available="auto")
    np.testing.assert_array_equal(found.order, np.argsort(-final, kind="stable"))
    assert np.bincount(found.levels).tolist() == [0, 12, 8]


def test_a_cascade_needs_queries_and_one_score(learned):
    model, X, y, qid = learned
    with pytest.raises(ValueError, match="needs qid"):
        cascade(model, X, y, None, budget=5)
    with pytest.raises(ValueError, match="needs y, the grade of every row"):
        cascade(model, X, None, qid, budget=5)
    with runner(model) as running, pytest.raises(TypeError, match="cascade must be a Cascade, such as"):
        running.rank(list(X[:3]), ((1, 3), (10,)))
    with pytest.raises(ValueError, match="stage must be an integer"):
        Cascade((9,), ()).evaluate(model, X, y, qid)


def test_a_group_that_fails_is_not_tried_again_and_no_other_takes_its_money(learned):
    model, X, _, qid = learned
    own, calls = np.flatnonzero(qid == qid[0]), []
    first, second, third, _ = model.sequence_.groups

    def reader(name):
        columns = list(GROUPS.columns[GROUPS.names.index(name)])

        def read(document):
            calls.append(name)
            if name == first:
                raise OSError("out of order")
            return document[columns]

        return read

    with AnytimeRunner(model, {name: reader(name) for name in GROUPS.names}) as running:
        found = running.rank(list(X[own]), Cascade((1, 3), (8,)))
    assert calls == [first] * 20 + [second] * 8 + [third] * 8
    assert str(found.faults.get(first, "")) in ("", "raised: OSError: out of order")
    there = np.full((8, X.shape[1]), np.nan)
    for name in (second, third):
        there[:, list(GROUPS.columns[GROUPS.names.index(name)])] = X[own][:8][
            :, list(GROUPS.columns[GROUPS.names.index(name)])
        ]
    order = np.argsort(-model.predict(there, available="auto"), kind="stable")
    np.testing.assert_array_equal(found.order[:8], order)  # the first level knew nothing: the first documents went on
    assert found.reason == "complete"


@pytest.mark.parametrize("mode", ["cooperative", "thread"])
def test_shared_costs_and_batches_are_paid_as_the_cascade_says(mode):
    X, y, qid = ranking(40, 10)
    shared = {"visit": (7.0, ("a", "b", "d"))}
    groups = FeatureGroups(dict(zip(GROUPS.names, GROUPS.columns, strict=True)), [1, 30, 5, 20], shared=shared)
    model = AnytimeRanker(groups).fit(X, y, qid=qid)
    own = np.flatnonzero(qid == 0)

    def reader(columns):
        return Extractor(lambda documents: np.array(documents)[:, list(columns)], batch=True)

    extractors = {name: reader(columns) for name, columns in zip(groups.names, groups.columns, strict=True)}
    with AnytimeRunner(model, extractors, mode=mode, workers=2) as running:
        for cut in (Cascade((1, 3), (4,)), Cascade((0, 2, 4), (6, 2)), Cascade((4,), ())):
            found = running.rank(list(X[own]), cut)
            assert found.spent == pytest.approx(cut.evaluate(model, X[own], y[own] + 1, qid[own]).cost)
            scores = cut.scores(model, X[own], qid[own])
            np.testing.assert_array_equal(found.order, np.argsort(-scores, kind="stable"))


def test_an_interruption_ends_the_cascade(learned):
    model, X, _, qid = learned
    own, calls = np.flatnonzero(qid == qid[0]), []

    def reader(columns):
        def read(document):
            calls.append(columns)
            if len(calls) == 25:
                running.interrupt()
            return document[list(columns)]

        return read

    extractors = {name: reader(columns) for name, columns in zip(GROUPS.names, GROUPS.columns, strict=True)}
    with AnytimeRunner(model, extractors) as running:
        found = running.rank(list(X[own]), Cascade((1, 2, 4), (8, 3)))
        assert found.reason == "interrupted"
        assert len(calls) == 25
        assert np.bincount(found.levels).tolist() == [0, 12, 8]
        assert running.rank(list(X[own]), Cascade((1,), ())).reason == "complete"


def test_no_time_at_all_leaves_the_documents_in_their_order(learned):
    model, X, _, qid = learned
    own = np.flatnonzero(qid == qid[0])
    with runner(model) as running:
        found = running.rank(list(X[own]), Cascade((1, 4), (8,)), deadline=0.0)
    assert found.reason == "deadline"
    assert found.spent == 0
    np.testing.assert_array_equal(found.order, np.arange(20))


BAD_CASCADES = {
    "descending": ((3, 1), (5,)), "equal": ((1, 1), (5,)), "keeps too often": ((1,), (5,)),
    "keeps too rarely": ((1, 3), ()), "no stage": ((), ()), "keeps nothing": ((1, 3), (0,)),
    "no number": (("a",), ()), "below zero": ((-1, 2), (4,)),
}  # fmt: skip


def test_cascades_of_lists_and_arrays_are_equal_to_those_of_tuples():
    assert {Cascade([1, 3], np.array([10])), Cascade((1, 3), (10,), np.nan)} == {Cascade((1, 3), (10,))}


@pytest.mark.parametrize("case", BAD_CASCADES)
def test_cascades_that_are_none_are_refused(case):
    with pytest.raises((ValueError, TypeError), match=r"stage|keep"):
        Cascade(*BAD_CASCADES[case])


def test_models_without_one_score_have_no_cascade(learned):
    model, X, y, qid = learned
    many = AnytimeClassifier(GROUPS, rule="omp").fit(X, y > 0)
    with pytest.raises(TypeError, match="needs a model that predicts one score, which AnytimeClassifier does"):
        cascades(many, X, y, qid)
    extractors = dict.fromkeys(GROUPS.names)
    with AnytimeRunner(many, extractors) as running, pytest.raises(TypeError, match="which AnytimeClassifier does not"):
        running.rank(list(X[:3]), Cascade((1,), ()))
    with runner(model) as running:
        with pytest.raises(ValueError, match="last stage of a cascade"):
            running.rank(list(X[:3]), Cascade((9,), ()))
        with pytest.raises(ValueError, match="raws is empty"):
            running.rank([], Cascade((1,), ()))
        with pytest.raises(ValueError, match="deadline must be a number of seconds"):
            running.rank(list(X[:3]), Cascade((1,), ()), deadline=np.nan)
    squares = AnytimeRegressor(GROUPS).fit(X, y)
    assert cascades(squares, X, y, qid)[0].cost == 0


def test_what_cannot_be_searched_is_refused(learned):
    model, X, y, qid = learned
    for given in ({"levels": 0}, {"keep": [0]}, {"k": 0}):
        with pytest.raises(ValueError, match=f"{next(iter(given))} must be"):
            cascades(model, X, y, qid, **given)
    with pytest.raises(ValueError, match="budget must be"):
        cascade(model, X, y, qid, budget=-1)
    assert cascade(model, X, y, qid, budget=0).cost == 0
