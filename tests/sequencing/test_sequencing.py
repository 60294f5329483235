"""Every rule and schedule against the brute-force reference, and the semantics of the loop."""

import numpy as np
import pytest
import reference
from seeds import seeds
from set_functions import greedy_sequence

from budgetline import AnytimeClassifier, AnytimeRegressor
from budgetline.groups.prices import Prices, SharedCost
from budgetline.sequencing import Doubling, FixedOrder
from budgetline.sequencing.loop import Limits, greedy_order

RULES = ["forward", "omp", "no-whiten", "single"]
SCHEDULES = {"greedy": "greedy", "doubling": "doubling", "doubling-literal": Doubling(literal=True)}


def random_problem(seed, *, n=None, ties=False):
    """Ragged shuffled groups, correlated columns, several targets, weights, now and then free or equal costs."""
    rng = np.random.default_rng(seed)
    J = int(rng.integers(1, 9))
    sizes = rng.integers(1, 5, J)
    D, P = int(sizes.sum()), int(rng.integers(1, 4))
    n = int(rng.integers(D + 3, 70)) if n is None else n
    X = rng.standard_normal((n, D)) @ rng.standard_normal((D, D)) + 3 * rng.standard_normal(D)
    Y = X @ rng.standard_normal((D, P)) * rng.standard_normal(P) + rng.standard_normal((n, P))
    groups = [list(map(int, g)) for g in np.split(rng.permutation(D), np.cumsum(sizes)[:-1])]
    if ties:  # a copy of every group at the same or a higher cost, and equal costs
        X = np.hstack([X, X])
        groups = groups + [[d + D for d in g] for g in groups]
        costs = np.concatenate([np.ones(J), rng.integers(1, 3, J)])
    else:
        costs = rng.choice([0.0, 1, 2, 3, 5.5], J) if seed % 3 == 0 else rng.uniform(0.1, 3, J)
    weight = rng.uniform(0, 2, n) if seed % 2 else None
    return X, Y[:, 0] if seed % 5 == 0 else Y, groups, costs, weight


def check_against_reference(seed, rule, cost_sensitive, schedule, alpha, *, ties=False):
    X, Y, groups, costs, weight = random_problem(seed, ties=ties)
    truth = reference.sequence(
        X, Y, groups, costs, rule=rule, cost_sensitive=cost_sensitive, schedule=schedule, alpha=alpha,
        sample_weight=weight,
    )  # fmt: skip
    model = AnytimeRegressor(
        groups, costs, rule=rule, cost_sensitive=cost_sensitive, schedule=SCHEDULES[schedule], alpha=alpha
    ).fit(X, Y, sample_weight=weight)
    assert model.order_.tolist() == list(truth["order"])
    np.testing.assert_allclose(
        np.cumsum(model.sequence_.gains), np.cumsum(truth["gains"]), rtol=1e-11, atol=1e-14 * truth["R0"]
    )
    scale = np.abs(truth["coefs"]).max(initial=1.0)
    np.testing.assert_allclose(model.coef_path_, truth["coefs"], rtol=0, atol=1e-8 * scale)
    np.testing.assert_allclose(model.intercept_path_, truth["intercepts"], rtol=1e-8, atol=1e-8 * scale)


@pytest.mark.quick_cases(16)
@pytest.mark.parametrize("alpha", [0.0, 1e-5, 1e-2, 1.0])
@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("portion", seeds(4, 12))
def test_orders_equal_the_brute_force_reference(rule, schedule, alpha, portion):
    for seed in portion:
        for cost_sensitive in (True, False):
            check_against_reference(seed, rule, cost_sensitive, schedule, alpha)


@pytest.mark.parametrize("rule", RULES)
def test_ties_go_to_the_cheaper_and_then_to_the_first(rule):
    for seed in range(12):
        check_against_reference(seed, rule, True, "greedy", 1.0, ties=True)


@pytest.mark.parametrize("rule", RULES)
def test_explained_objective_to_twelve_digits(rule):
    """F of every prefix agrees with a QR-based value to 1e-12 for cond(X) up to 1e3, cond(C) up to 1e6."""
    for seed in range(20):
        rng = np.random.default_rng(seed)
        n, D = 80, 12
        left, right = np.linalg.qr(rng.standard_normal((n, D)))[0], np.linalg.qr(rng.standard_normal((D, D)))[0]
        X = left * np.geomspace(1, 1e-3, D) @ right
        y = rng.standard_normal(n)
        groups = [[0, 1, 2], [3], [4, 5], [6, 7, 8, 9], [10, 11]]
        model = AnytimeRegressor(groups, [1, 2, 3, 4, 5], rule=rule, alpha=0.0).fit(X, y)
        Xs = reference.standardise(X, y)
        chosen = []
        for g, total in zip(model.order_, np.cumsum(model.sequence_.gains), strict=True):
            chosen += groups[g]
            truth = reference.F(Xs.Xs, Xs.Yc, Xs.w, chosen, 0.0)
            assert total == pytest.approx(truth, rel=1e-12)


def orthogonal(b, n=64):
    """Orthonormal columns with X'y/n = b after standardising."""
    rng = np.random.default_rng(0)
    Q = np.linalg.qr(np.column_stack([np.ones(n), rng.standard_normal((n, len(b)))]))[0][:, 1:] * np.sqrt(n)
    return Q, Q @ np.asarray(b, dtype=float)


def test_free_groups_come_first_and_useless_ones_last():
    X, y = orthogonal([1.0, 3.0, 0.0, 2.0, 0.0, 0.0])
    model = AnytimeRegressor(None, [1, 1, 0, 5, 4, 2], alpha=0.0).fit(X, y)
    # free; by rate 9/1, 1/1, 4/5; then those without any gain, cheapest first
    assert model.order_.tolist() == [2, 1, 0, 3, 5, 4]


def test_limits():
    X, y = orthogonal([4.0, 3.0, 2.0, 1.0])
    costs = [10, 1, 1, 1]

    def order(**limits):
        return AnytimeRegressor(None, costs, alpha=0.0, **limits).fit(X, y).order_.tolist()

    assert order() == [1, 2, 0, 3]
    assert order(max_groups=2) == [1, 2]
    # group 0 no longer fits under 5, group 3 does: the money that is left is not wasted
    assert order(max_cost=5) == [1, 2, 3]
    assert order(max_cost=0.5) == []
    # group 3 explains 1/30 of the variance, group 0 16/30, although its rate comes third
    assert order(min_gain=0.05) == [1, 2, 0]
    assert order(min_gain=0.9) == []


@pytest.mark.parametrize("schedule", ["greedy", "cheapest", FixedOrder(["copy", "constant", "a", "b", "free"])])
@pytest.mark.parametrize("make", [AnytimeRegressor, AnytimeClassifier])
def test_groups_that_gain_nothing_are_passed_over_if_min_gain_is_positive(make, schedule):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, 3))
    y = (X[:, 0] + X[:, 1] + 0.1 * rng.standard_normal(200) > 0).astype(int)
    X = np.column_stack([X[:, :2], np.full(200, 3.0), np.zeros(200), np.zeros(200)])
    groups, costs = {"a": [0], "b": [1], "constant": [2], "free": [3], "copy": [4]}, [3.0, 2.0, 1.0, 0.0, 0.5]
    settings = {"schedule": schedule, "alpha": 1e-3, "rule": "omp"}
    assert len(make(groups, costs, **settings).fit(X, y).sequence_) == 5
    found = make(groups, costs, **settings, min_gain=1e-9).fit(X, y).sequence_
    assert set(found.groups) == {"a", "b"}
    assert (found.gains > 0).all()
    assert "constant" in make(groups, costs, **settings, min_gain=1e-9, start=["constant"]).fit(X, y).sequence_.groups


def test_a_group_that_gains_nothing_alone_is_bought_for_one_that_requires_it():
    worth = {
        frozenset("ab"): 3.0,
        frozenset("b"): 3.0,
        frozenset("abc"): 4.0,
        frozenset("c"): 1.0,
        frozenset("ac"): 1.0,
    }
    F = lambda S: worth.get(frozenset(S), 4.0 if {"b", "c"} <= set(S) else 0.0)  # noqa: E731
    given = {"costs": {"a": 1.0, "b": 1.0, "c": 1.0, "d": 0.0}, "requires": {"b": ["a"]}, "min_gain": 1e-9}
    assert greedy_sequence(F, **given).groups == ("a", "b", "c")
    assert greedy_sequence(F, **given | {"requires": {}}).groups == ("b", "c")


def test_a_group_that_gains_something_later_is_bought_later():
    F = lambda S: len(set(S) & {"a"}) + 2.0 * ({"a", "b"} <= set(S))  # noqa: E731
    assert greedy_sequence(F, {"b": 0.0, "a": 1.0}, min_gain=1e-9).groups == ("a", "b")


@pytest.mark.parametrize("rule", RULES)
def test_min_gain_means_the_exact_gain_under_every_rule(rule):
    X, Y, groups, costs, weight = random_problem(4)
    model = AnytimeRegressor(groups, costs, rule=rule, min_gain=0.02).fit(X, Y, sample_weight=weight)
    full = AnytimeRegressor(groups, costs, rule=rule).fit(X, Y, sample_weight=weight)
    k = len(model.order_)
    assert 0 < k < len(groups)
    assert full.order_[:k].tolist() == model.order_.tolist()
    one_more = [
        AnytimeRegressor([[d for i in [*model.order_, g] for d in groups[i]]], alpha=1e-5, max_groups=1)
        for g in range(len(groups)) if g not in model.order_
    ]  # fmt: skip
    for candidate in one_more:
        columns = candidate.feature_groups[0]
        gain = candidate.set_params(feature_groups=[list(range(len(columns)))]).fit(
            X[:, columns], Y, sample_weight=weight
        )
        assert gain.sequence_.explained[-1] - model.sequence_.explained[-1] < 0.02 + 1e-12


def test_doubling_schedules_on_the_hard_instance():
    F = lambda S: sum(np.exp(x) for x in S)  # noqa: E731
    costs = {x: x for x in range(1, 49)}
    assert greedy_sequence(F, costs, schedule=Doubling(c_min=2), max_groups=7).groups == (
        2, 1, 3, 6, 12, 24, 48,
    )  # fmt: skip
    assert greedy_sequence(F, costs, max_groups=2).groups == (48, 47)


def test_hard_instance_as_least_squares():
    n_items = 24
    X, y = orthogonal(np.exp(np.arange(1, n_items + 1) / 2), n=128)
    model = AnytimeRegressor(None, np.arange(1.0, n_items + 1), schedule=Doubling(c_min=2), alpha=0.0).fit(X, y)
    assert (model.order_[:6] + 1).tolist() == [2, 1, 3, 6, 12, 24]
    np.testing.assert_allclose(model.sequence_.gains[:3], np.exp([2, 1, 3]) / 2, rtol=1e-8)


def test_literal_doubling_stops_where_nothing_is_affordable():
    F = len
    assert greedy_sequence(F, {"a": 1, "b": 3, "c": 9}, schedule=Doubling(literal=True)).groups == ("a",)
    assert greedy_sequence(F, {"a": 1, "b": 3, "c": 9}, schedule=Doubling(c_min=0.5, literal=True)).groups == ()
    assert greedy_sequence(F, {"a": 1, "b": 3, "c": 9}, schedule="doubling").groups == ("a", "b", "c")


def test_set_function_agrees_with_the_reference():
    for seed in range(20):
        rng = np.random.default_rng(seed)
        sets = {k: set(rng.integers(0, 12, rng.integers(1, 6)).tolist()) for k in range(7)}
        costs = {k: float(c) for k, c in enumerate(rng.choice([1.0, 2.0, 3.0], 7))}
        F = lambda S, sets=sets: float(len(set().union(*(sets[x] for x in S))))  # noqa: E731
        for schedule in ("greedy", "doubling"):
            truth = reference.set_sequence(F, costs, schedule=schedule)
            ours = greedy_sequence(F, costs, schedule=schedule)
            assert list(ours.groups) == list(truth["order"])
            np.testing.assert_allclose(ours.gains, truth["gains"])


def test_least_squares_as_a_users_own_set_function():
    X, Y, groups, costs, _ = random_problem(7)
    s = reference.standardise(X, Y)
    F = lambda S: reference.F(s.Xs, s.Yc, s.w, [d for g in S for d in groups[g]], 1e-3)  # noqa: E731
    ours = greedy_sequence(F, dict(enumerate(costs)))
    model = AnytimeRegressor(groups, costs, alpha=1e-3).fit(X, Y)
    assert ours.order.tolist() == model.order_.tolist()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: greedy_sequence(lambda S: np.nan if "b" in S else 0.0, {"a": 1, "b": 1}), "objective is nan"),
        (lambda: greedy_sequence(len, {"a": 1}, schedule="triple"), "unknown schedule 'triple'"),
        (lambda: greedy_sequence(len, {"a": 1}, schedule=3), "method 'allowed'"),
        (lambda: greedy_sequence(len, {"a": -1}), "'a'"),
        (lambda: greedy_sequence(len, {"a": 1}, max_cost=-1), "max_cost"),
        (lambda: greedy_sequence(len, {"a": 1}, min_gain=np.nan), "min_gain"),
        (lambda: Doubling(c_min=0), "c_min"),
    ],
)
def test_errors(call, message):
    with pytest.raises((ValueError, TypeError), match=message):
        call()


def test_sequence_record():
    pytest.importorskip("pandas")
    X, y = orthogonal([1.0, 2.0])
    sequence = AnytimeRegressor({"a": [0], "b": [1]}, [1, 2], alpha=0.0).fit(X, y).sequence_
    assert sequence.groups == ("b", "a")
    assert sequence.cumulative_costs.tolist() == [2, 3]
    np.testing.assert_allclose(sequence.explained, [0.8, 1.0])
    for backend in ("pandas", "polars", "pyarrow"):
        frame = sequence.to_frame(backend)
        assert frame.shape == (2, 6)
    assert sequence.to_frame().iloc[0].to_dict() == {
        "step": 1, "group": "b", "cost": 2.0, "cumulative_cost": 2.0, "gain": sequence.gains[0],
        "explained": sequence.explained[0],
    }  # fmt: skip
    assert "cumulative" in str(sequence)
    assert [sequence.stage_at(b) for b in (0, 1.9, 2, 2.9, 3, 99)] == [0, 0, 1, 1, 2, 2]


def test_a_fixed_order_is_not_scored():
    class Unscored:
        null_value = 1.0

        def choose(self, g):
            return 0.1 * g

    shared = Prices(np.ones(4), (SharedCost("visit", 2.0, (0, 3)),))
    for prices in (Prices(np.ones(4)), shared):
        order, gains = greedy_order(Unscored(), prices, FixedOrder([3, 0, 2, 1]), Limits())
        np.testing.assert_array_equal(order, [3, 0, 2, 1])
        np.testing.assert_allclose(gains, [0.3, 0.0, 0.2, 0.1])
