"""Baselines are ordinary sequences: given, cheapest, random and static orders."""

import numpy as np
import pytest
import reference
from set_functions import greedy_sequence
from sklearn.base import clone

from budgetline import AnytimeClassifier, AnytimeRegressor, FixedOrder, budget_curve
from budgetline.sequencing import RandomOrder
from budgetline.sequencing.schedules import CheapestFirst

GROUPS = {"a": [0, 1], "b": [2], "c": [3, 4], "d": [5, 6, 7]}
COSTS = {"a": 3.0, "b": 1.0, "c": 2.0, "d": 1.0}


def problem(seed=0, n=90):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 8)) @ rng.standard_normal((8, 8))
    return X, X @ rng.standard_normal(8) + rng.standard_normal(n)


def order_of(schedule, **kwargs):
    X, y = problem()
    return AnytimeRegressor(GROUPS, COSTS, schedule=schedule, **kwargs).fit(X, y).sequence_.groups


@pytest.mark.parametrize(
    "groups",
    [
        ["c", "a", "d", "b"],
        ("c", "a", "d", "b"),
        np.array(["c", "a", "d", "b"]),
        [2, 0, 3, 1],
        np.array([2, 0, 3, 1]),
        ["c", 0, np.int64(3), np.str_("b")],
    ],
)
def test_a_given_order_by_names_or_positions(groups):
    assert order_of(FixedOrder(groups)) == ("c", "a", "d", "b")
    assert order_of(FixedOrder(groups), cost_sensitive=False, rule="omp") == ("c", "a", "d", "b")


def test_stages_of_a_given_order_are_the_models_of_its_prefixes():
    X, y = problem()
    model = AnytimeRegressor(GROUPS, COSTS, schedule=FixedOrder(["d", "b"]), alpha=0.1).fit(X, y)
    assert model.sequence_.groups == ("d", "b")  # the others are left out
    s = reference.standardise(X, y)
    for j, columns in enumerate([[5, 6, 7], [5, 6, 7, 2]]):
        W = reference.fit(s.Xs, s.Yc, s.w, columns, 0.1)
        np.testing.assert_allclose(model.predict(X, stage=j + 1), (s.Xs @ W + s.y_mean)[:, 0], rtol=1e-9, atol=1e-9)
    assert model.sequence_.gains.sum() == pytest.approx(reference.F(s.Xs, s.Yc, s.w, [2, 5, 6, 7], 0.1), rel=1e-10)


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: FixedOrder("abc"), TypeError, "sequence of group names"),
        (lambda: FixedOrder({"a", "b"}), TypeError, "sequence of group names"),
        (lambda: FixedOrder(3), TypeError, "sequence of group names"),
        (lambda: FixedOrder(["a", "b", "a"]), ValueError, "'a' is listed twice"),
        (lambda: order_of(FixedOrder(["a", 0])), ValueError, "listed twice"),
        (
            lambda: order_of(FixedOrder(["a", "z"])),
            ValueError,
            "no group 'z' for the fixed order; the groups are 'a', ",
        ),
        (lambda: order_of(FixedOrder([0, 4])), ValueError, "no group 4 for the fixed order"),
        (lambda: order_of(FixedOrder([-1])), ValueError, "no group -1 for the fixed order"),
        (lambda: order_of(FixedOrder([1.0])), ValueError, "no group '1.0' for the fixed order"),
        (lambda: order_of(FixedOrder), TypeError, "schedule must be"),
        (lambda: order_of("dearest"), ValueError, "schedule"),
    ],
)
def test_impossible_orders_are_refused(make, error, message):
    with pytest.raises(error, match=message):
        make()


def test_limits_apply_to_a_given_order():
    # 3 for a; c would bring the total to 5 and is passed over; b fits, then nothing does
    assert order_of(FixedOrder(["a", "c", "b", "d"]), max_cost=4) == ("a", "b")
    assert order_of(FixedOrder(["a", "c", "b", "d"]), max_cost=5) == ("a", "c")
    assert order_of(FixedOrder(["c", "a", "b"]), max_groups=2) == ("c", "a")


def test_cheapest_first_breaks_ties_by_score():
    X, y = problem()
    found = order_of("cheapest")
    assert [COSTS[g] for g in found] == [1, 1, 2, 3]
    s = reference.standardise(X, y)
    gain = {g: reference.F(s.Xs, s.Yc, s.w, GROUPS[g], 1e-5) for g in ("b", "d")}
    assert found[0] == max(gain, key=gain.get)
    assert order_of(CheapestFirst(), cost_sensitive=False) == found
    assert order_of("cheapest", max_cost=2) == found[:2]
    free = AnytimeRegressor(GROUPS, {**COSTS, "a": 0}, schedule="cheapest").fit(X, y)
    assert free.sequence_.groups[0] == "a"


def test_random_orders_are_reproducible_permutations():
    for seed in range(5):
        found = order_of(RandomOrder(seed))
        assert sorted(found) == sorted(GROUPS)
        assert found == order_of(RandomOrder(seed)) == order_of(RandomOrder(seed), rule="omp", cost_sensitive=False)
    assert order_of("random") == order_of(RandomOrder(0))
    assert len({order_of(RandomOrder(seed)) for seed in range(20)}) > 8
    # with a limit, the same order less what does not fit
    whole = order_of(RandomOrder(3))
    assert order_of(RandomOrder(3), max_groups=2) == whole[:2]


def test_every_permutation_is_as_likely():
    costs = {"a": 1.0, "b": 2.0, "c": 3.0}
    first = [greedy_sequence(len, costs, schedule=RandomOrder(seed)).groups for seed in range(600)]
    counts = [first.count(order) for order in set(first)]
    assert len(counts) == 6
    assert min(counts) > 60  # 100 expected; five standard deviations are 46


@pytest.mark.parametrize("cost_sensitive", [True, False])
@pytest.mark.parametrize("seed", range(6))
def test_static_sorts_by_the_gain_of_each_group_alone(seed, cost_sensitive):
    X, y = problem(seed)
    s = reference.standardise(X, y)
    gains = {g: reference.F(s.Xs, s.Yc, s.w, c, 0.05) for g, c in GROUPS.items()}
    rate = {g: gain / (COSTS[g] if cost_sensitive else 1) for g, gain in gains.items()}
    model = AnytimeRegressor(GROUPS, COSTS, rule="static", alpha=0.05, cost_sensitive=cost_sensitive).fit(X, y)
    assert list(model.sequence_.groups) == sorted(GROUPS, key=lambda g: -rate[g])
    # the gains of the sequence are those after what came before
    chosen = []
    for g, total in zip(model.sequence_.groups, np.cumsum(model.sequence_.gains), strict=True):
        chosen += GROUPS[g]
        assert total == pytest.approx(reference.F(s.Xs, s.Yc, s.w, chosen, 0.05), rel=1e-9)


def test_static_differs_from_forward_regression_on_copies():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, 3))
    X[:, 1] = X[:, 0] + 0.01 * rng.standard_normal(200)
    y = 2 * X[:, 0] + X[:, 2]
    assert AnytimeRegressor(rule="static").fit(X, y).order_.tolist()[2] == 2
    assert AnytimeRegressor(rule="forward").fit(X, y).order_.tolist()[1] == 2


SCHEDULES = ["greedy", "doubling", "cheapest", "random", FixedOrder(["c", "a", "d", "b"]), RandomOrder(4)]


@pytest.mark.parametrize("schedule", SCHEDULES, ids=str)
@pytest.mark.parametrize("kind", [AnytimeRegressor, AnytimeClassifier])
def test_parameters_of_estimators_with_schedules(kind, schedule):
    estimator = kind(GROUPS, COSTS, schedule=schedule)
    copy = clone(estimator)
    assert copy.get_params()["schedule"] == schedule
    assert clone(kind()).set_params(schedule=schedule).schedule == schedule
    assert repr(copy)


@pytest.mark.parametrize("rule", ["static", "omp"])
@pytest.mark.parametrize("schedule", SCHEDULES, ids=str)
@pytest.mark.parametrize("n_classes", [2, 3])
def test_classifiers_take_every_baseline(n_classes, schedule, rule):
    X, y = problem()
    labels = np.array(["x", "y", "z"])[np.digitize(y, np.quantile(y, np.arange(1, n_classes) / n_classes))]
    model = AnytimeClassifier(GROUPS, COSTS, schedule=schedule, rule=rule, alpha=0.05).fit(X, labels)
    assert sorted(model.sequence_.groups) == sorted(GROUPS)
    if not isinstance(schedule, str) or schedule in ("random",):  # orders that look at no data
        regressor = AnytimeRegressor(GROUPS, COSTS, schedule=schedule).fit(X, y)
        assert model.sequence_.groups == regressor.sequence_.groups
    curve = budget_curve(model, X, labels)
    assert np.all(np.diff(curve.values) > -1e-9)  # on the training data every group helps, but for the penalty


def test_static_of_a_classifier_keeps_its_first_scores():
    X, y = problem(2)
    labels = y > np.median(y)
    model = AnytimeClassifier(GROUPS, COSTS, rule="static", alpha=0.05).fit(X, labels)
    # the gradient of the intercept-only model, whitened by the regularised block
    Xs = (X - X.mean(0)) / X.std(0)
    r = Xs.T @ (labels - labels.mean()) / len(y)
    score = {}
    for g, c in GROUPS.items():
        C = Xs[:, c].T @ Xs[:, c] / len(y) + 0.05 * np.eye(len(c))
        score[g] = r[c] @ np.linalg.solve(C, r[c]) / COSTS[g]
    assert list(model.sequence_.groups) == sorted(GROUPS, key=lambda g: -score[g])
