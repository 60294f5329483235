"""Exact sequences and sets against brute force that shares no code: refits from the data, permutations, itertools."""

from itertools import pairwise, permutations

import exact_search
import numpy as np
import pytest
import reference
from exact_search import Demand, best_sequence, best_values, subset_values
from hypothesis import given, settings
from hypothesis import strategies as st

from budgetline import AnytimeRegressor, FeatureGroups, FixedOrder, Moments
from budgetline.datasets import load_heart
from budgetline.groups.prices import Prices
from budgetline.leastsquares.gram import Gram
from budgetline.sequencing import Doubling

INTERPOLATIONS = ("step", "linear")


def best_order(values, costs, stop=None, interpolation="step"):
    demand = Demand.of(float(np.sum(costs)), stop, None, None, interpolation)
    return exact_search.best_order(np.asarray(values, dtype=float), Prices(np.asarray(costs, dtype=float)), demand)


def additive(gains):
    """The table of a sum of gains."""
    return exact_search.subset_costs(Prices(np.asarray(gains, dtype=float)))


def mean_over_budgets(costs, values, stop, interpolation):
    return Demand.of(1.0, stop, None, None, interpolation).weights(costs[:-1], costs[1:]) @ np.diff(values)


# -- values of all subsets -----------------------------------------------------------------------------------


def problem(rng, groups, P=1, n=60):
    D = sum(map(len, groups))
    X = rng.normal(size=(n, D)) @ rng.normal(size=(D, D)) + 5
    return X, X @ rng.normal(size=(D, P)) + rng.normal(size=(n, P))


def values_of(X, Y, groups, alpha, weight=None):
    gram = Gram.of(Moments.from_data(X, Y, weight), np.concatenate(groups), alpha)
    return subset_values(gram, np.array([len(g) for g in groups]))


def refitted(X, Y, groups, alpha, weight=None):
    """F of every subset by a least-squares fit of its own."""
    data = reference.standardise(X, Y, weight)
    values = []
    for S in range(2 ** len(groups)):
        columns = [d for g, members in enumerate(groups) if S >> g & 1 for d in members]
        values.append(reference.F(data.Xs, data.Yc, data.w, columns, alpha))
    return np.array(values)


LAYOUTS = {
    "singletons": [[0], [1], [2], [3], [4], [5]],
    "unequal": [[0], [4, 1, 2], [3], [5, 6, 7, 8], [9, 10]],
    "one group": [[1, 0, 2]],
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("P", [1, 3])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("alpha", [0.0, 1e-5, 0.3])
def test_values_are_those_of_refits(layout, P, weighted, alpha):
    rng = np.random.default_rng(0)
    groups = LAYOUTS[layout]
    X, Y = problem(rng, groups, P)
    weight = rng.uniform(0, 2, size=len(X)) if weighted else None
    truth = refitted(X, Y, groups, alpha, weight)
    np.testing.assert_allclose(values_of(X, Y, groups, alpha, weight), truth, rtol=1e-8, atol=1e-10 * truth.max())


@pytest.mark.parametrize("alpha", [0.0, 1e-3])
def test_copies_and_constants_add_nothing_new(alpha):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(40, 9))
    X[:, 3] = X[:, 0]  # in another group
    X[:, 5] = 2 * X[:, 4] - 1  # in the same group
    X[:, 6] = X[:, 0] + X[:, 1]
    X[:, 7] = 8.0
    Y = X[:, [0, 4, 8]] @ rng.normal(size=(3, 1)) + rng.normal(size=(40, 1))
    groups = [[0, 1], [2, 3], [4, 5], [6], [7], [8]]
    values = values_of(X, Y, groups, alpha)
    np.testing.assert_allclose(values, refitted(X, Y, groups, alpha), rtol=1e-9, atol=1e-13)
    if alpha == 0:
        assert values[0b001001] == pytest.approx(values[0b000001], rel=1e-13)


def test_fewer_rows_than_columns():
    rng = np.random.default_rng(2)
    groups = [[0, 1, 2], [3, 4, 5], [6, 7], [8, 9]]
    X, Y = rng.normal(size=(6, 10)), rng.normal(size=(6, 2))
    np.testing.assert_allclose(values_of(X, Y, groups, 0.0), refitted(X, Y, groups, 0.0), rtol=1e-9, atol=1e-13)


def test_more_groups_never_explain_less():
    rng = np.random.default_rng(3)
    groups = [[d] for d in range(10)]
    X, Y = problem(rng, groups)
    X[:, 9] = X[:, :3] @ [1.0, 2.0, 3.0]
    values = values_of(X, Y, groups, 0.0)
    S = np.arange(values.size)
    for g in range(10):
        assert np.all(values[S | 1 << g] >= values * (1 - 1e-12))


@pytest.mark.parametrize("limit", [0, 500, 20_000])
def test_splitting_changes_nothing(limit, monkeypatch):
    groups = LAYOUTS["unequal"]
    X, Y = problem(np.random.default_rng(4), groups, 2)
    plain = values_of(X, Y, groups, 1e-4)
    monkeypatch.setattr(exact_search, "BATCH_BYTES", limit)
    np.testing.assert_allclose(values_of(X, Y, groups, 1e-4), plain, rtol=1e-14)


def test_large_groups_and_a_column_order():
    rng = np.random.default_rng(5)
    groups = [list(range(40, 45)), list(range(40)), [46, 45]]
    X, Y = problem(rng, groups, n=200)
    np.testing.assert_allclose(values_of(X, Y, groups, 1e-3), refitted(X, Y, groups, 1e-3), rtol=1e-9, atol=1e-12)


# -- the best order ------------------------------------------------------------------------------------------


def area_of(order, values, costs, stop, interpolation):
    """Integrate the curve piece by piece between its corners and ``stop``; what follows the last stage is flat."""
    points = [(0.0, values[0])]
    S = 0
    for g in order:
        S |= 1 << g
        points.append((points[-1][0] + costs[g], values[S]))
    points.append((max(stop, points[-1][0]), values[-1]))
    area = 0.0
    for (x0, v0), (x1, v1) in pairwise(points):
        end = min(x1, stop)
        if end > x0:
            at_end = v0 if interpolation == "step" or x1 == x0 else v0 + (v1 - v0) * (end - x0) / (x1 - x0)
            area += (end - x0) * (v0 + at_end) / 2
    return area


def table(rng, J, monotone=True):
    """A set function that is neither sub- nor supermodular."""
    values = rng.normal(size=2**J) ** 2
    values[0] = 0.0
    if monotone:
        S = np.arange(2**J)
        for g in range(J):
            values = np.maximum(values, values[S & ~(1 << g)])
    return values


def assert_best(values, costs, stop, interpolation):
    order = best_order(values, costs, stop, interpolation)
    J, end = len(costs), float(sum(costs)) if stop is None else stop
    assert sorted(order.tolist()) == list(range(J))
    most = max(area_of(p, values, costs, end, interpolation) for p in permutations(range(J)))
    assert area_of(order, values, costs, end, interpolation) == pytest.approx(most, rel=1e-10, abs=1e-12)


COSTS = {
    "distinct": [3.0, 1.5, 0.7, 2.2, 5.0],
    "equal": [1.0] * 5,
    "free": [0.0, 2.0, 0.0, 1.0, 4.0],
    "all free": [0.0] * 5,
    "far apart": [1e-3, 1.0, 1e3, 0.1, 10.0],
}


@pytest.mark.parametrize("interpolation", INTERPOLATIONS)
@pytest.mark.parametrize("costs", COSTS)
@pytest.mark.parametrize("share", [None, 0.0, 0.13, 0.5, 0.9, 1.0, 1.7])
def test_no_permutation_has_a_larger_area(interpolation, costs, share):
    rng = np.random.default_rng(6)
    price = np.array(COSTS[costs])
    stop = None if share is None else share * price.sum()
    for monotone in (True, True, False):
        assert_best(table(rng, 5, monotone), price, stop, interpolation)


@pytest.mark.parametrize("interpolation", INTERPOLATIONS)
@pytest.mark.parametrize("stop", [None, 9.0])
def test_seven_groups(interpolation, stop):
    rng = np.random.default_rng(7)
    assert_best(table(rng, 7), rng.uniform(0, 5, size=7), stop, interpolation)


@settings(max_examples=40)
@given(st.integers(1, 4), st.integers(0, 10**6), st.sampled_from(INTERPOLATIONS), st.floats(0, 12))
def test_no_permutation_has_a_larger_area_on_random_tables(J, seed, interpolation, stop):
    rng = np.random.default_rng(seed)
    assert_best(
        rng.integers(0, 4, size=2**J).astype(float), rng.integers(0, 4, size=J).astype(float), stop, interpolation
    )


@pytest.mark.parametrize("interpolation", INTERPOLATIONS)
def test_one_group(interpolation):
    assert best_order([0.0, 1.0], [2.0], None, interpolation).tolist() == [0]


def test_by_hand():
    # costs 1, 2, 3; a and b alone bring 4 and 6, c brings 3 with a and 12 without it
    values, costs = np.array([0, 4, 6, 10, 12, 7, 12, 12.0]), [1.0, 2.0, 3.0]
    # step: [0, 1, 2] has 4·2 + 10·3 = 38, [1, 0, 2] 6·1 + 10·3 = 36, [2, 0, 1] 12·1 + 7·2 = 26
    assert best_order(values, costs).tolist() == [0, 1, 2]
    # linear, to 3: [2, …] is the line to 12 at 3, area 18; [0, 1, 2] is 2 + 7·2 = 16
    assert best_order(values, costs, 3.0, "linear").tolist()[0] == 2
    # step, to 2: only a can be had before 2
    assert best_order(values, costs, 2.0).tolist()[0] == 0


def test_ties_are_broken_as_documented():
    # nothing can be had before 0.5: greedy by gain per cost
    assert best_order(additive([2.0, 9.0, 4.0]), [1.0, 3.0, 1.0], 0.5).tolist() == [2, 1, 0]
    # equal in everything: the first; worthless: the cheaper; free: first
    assert best_order(additive(np.ones(3)), np.ones(3)).tolist() == [0, 1, 2]
    assert best_order(np.zeros(8), [3.0, 1.0, 2.0]).tolist() == [1, 2, 0]
    assert best_order(additive([5.0, 0.0]), [1.0, 0.0]).tolist() == [1, 0]
    # greedy would take the first element first
    assert best_order([0, 2, 0, 2, 0, 2, 10, 12], [1.0, 1.0, 1.0], 100.0).tolist() == [1, 2, 0]


def test_greedy_cannot_be_improved_by_swapping_neighbours():
    # step interpolation, up to the total cost: the change is c(g)·c(h) times the difference of the two rates
    rng = np.random.default_rng(12)
    for _ in range(20):
        values, costs = table(rng, 6), rng.uniform(0.1, 5, size=6)
        order, S = [], 0
        while len(order) < 6:
            order.append(max(set(range(6)) - set(order), key=lambda g: (values[S | 1 << g] - values[S]) / costs[g]))
            S |= 1 << order[-1]
        greedy = area_of(order, values, costs, costs.sum(), "step")
        for k in range(5):
            swapped = [*order[:k], order[k + 1], order[k], *order[k + 2 :]]
            assert area_of(swapped, values, costs, costs.sum(), "step") <= greedy * (1 + 1e-12)


def test_gains_times_shares_add_up_to_the_area():
    rng = np.random.default_rng(8)
    values, costs, order = table(rng, 5), np.array(COSTS["free"]), [3, 0, 4, 2, 1]
    S = np.cumsum([0, *(1 << g for g in order)])
    total = additive(costs)[S]
    for interpolation in INTERPOLATIONS:
        for stop in (0.5, 3.0, 7.0):
            mean = mean_over_budgets(total, values[S], stop, interpolation)
            assert mean * stop == pytest.approx(area_of(order, values, costs, stop, interpolation))


# -- from moments --------------------------------------------------------------------------------------------

RIVALS = [
    {"rule": "forward"},
    {"rule": "omp"},
    {"rule": "static"},
    {"cost_sensitive": False},
    {"schedule": "doubling"},
    {"schedule": "cheapest"},
    {"schedule": "random"},
]


def curve_area(sequence, stop, interpolation):
    values = np.concatenate([[0.0], np.cumsum(sequence.gains)])
    costs = np.concatenate([[0.0], np.cumsum(sequence.costs)])
    return stop * mean_over_budgets(costs, values, stop, interpolation)


@pytest.mark.quick_cases(6)
@pytest.mark.parametrize("interpolation", INTERPOLATIONS)
@pytest.mark.parametrize("share", [0.2, 1.0])
@pytest.mark.parametrize("seed", range(4))
def test_greedy_never_beats_it(interpolation, share, seed):
    rng = np.random.default_rng(seed)
    groups = [[0, 1], [2], [3, 4, 5], [6], [7, 8], [9]]
    X, Y = problem(rng, groups)
    costs = np.exp(rng.uniform(0, 4, size=6))
    stop = share * costs.sum()
    best = best_sequence(Moments.from_data(X, Y), groups, costs, stop=stop, interpolation=interpolation)
    for rival in RIVALS:
        sequence = AnytimeRegressor(groups, costs, **rival).fit(X, Y).sequence_
        assert curve_area(sequence, stop, interpolation) <= curve_area(best, stop, interpolation) * (1 + 1e-9)
        most = best_values(Moments.from_data(X, Y), groups, costs, budgets=sequence.cumulative_costs)
        assert np.all(np.cumsum(sequence.gains) <= most * (1 + 1e-9))


def test_the_sequence_is_an_ordinary_one():
    heart = load_heart()
    moments = Moments.from_data(heart.data, heart.target)
    best = best_sequence(moments, heart.feature_groups)
    model = AnytimeRegressor(heart.feature_groups, schedule=FixedOrder(best.groups)).fit(heart.data, heart.target)
    assert model.sequence_.groups == best.groups
    np.testing.assert_array_equal(model.order_, best.order)
    np.testing.assert_allclose(model.sequence_.gains, best.gains, rtol=1e-9)
    np.testing.assert_array_equal(model.sequence_.costs, best.costs)
    assert model.sequence_.null_value == pytest.approx(best.null_value, rel=1e-12)
    # greedy finds it here
    assert AnytimeRegressor(heart.feature_groups).fit_moments(moments).sequence_.groups == best.groups


def test_doubling_is_not_the_best():
    # it has to take three cheap groups of little use before the expensive one
    rng = np.random.default_rng(10)
    X = rng.normal(size=(300, 4))
    y = X[:, 3] + 0.05 * X[:, 0]
    groups, costs = FeatureGroups.singletons(4), [1.0, 1.0, 1.0, 50.0]
    doubling = AnytimeRegressor(groups, costs, schedule=Doubling()).fit(X, y).sequence_
    best = best_sequence(Moments.from_data(X, y), groups, costs)
    assert curve_area(best, 53.0, "step") > curve_area(doubling, 53.0, "step")


def test_columns_in_no_group_and_names():
    import pandas as pd

    rng = np.random.default_rng(11)
    X = pd.DataFrame(rng.normal(size=(50, 4)), columns=list("abcd"))
    y = X.to_numpy() @ [1.0, 2.0, 3.0, 4.0]
    groups = FeatureGroups({"late": ["d"], "early": ["b", "a"]}, costs={"late": 5, "early": 1}, remainder="drop")
    best = best_sequence(Moments.from_data(X, y), groups, alpha=0)
    truth = reference.sequence(X.to_numpy(), y, [[3], [1, 0]], [5, 1], alpha=0)
    assert best.groups == ("early", "late")
    np.testing.assert_allclose(best.gains, truth["gains"], rtol=1e-9)
    swapped = best_values(Moments.from_data(X, y), groups, {"late": 1, "early": 5}, budgets=[0.9, 1, 5.9, 6], alpha=0)
    late = reference.sequence(X.to_numpy(), y, [[3], [1, 0]], [1, 5], alpha=0)["gains"]
    # of y, d explains more than a and b together
    np.testing.assert_allclose(swapped, [0, late[0], late[0], sum(late)], rtol=1e-9)


@pytest.mark.parametrize("alpha", [1e-5, 0.1])
def test_best_values_are_those_of_all_sets(alpha):
    rng = np.random.default_rng(9)
    groups = LAYOUTS["unequal"]
    X, Y = problem(rng, groups, P=2)
    costs = np.array([0.1, 0.2, 0.0, 0.3, 2.0])  # 0.1 + 0.2 is more than 0.3 in binary
    truth = refitted(X, Y, groups, alpha)
    spent = np.array([sum(costs[g] for g in range(5) if S >> g & 1) for S in range(32)])
    budgets = [0.0, 0.3, *spent, *rng.uniform(0, 3, size=20)]
    found = best_values(Moments.from_data(X, Y), groups, costs, budgets=budgets, alpha=alpha)
    np.testing.assert_allclose(found, [truth[spent <= budget + 1e-9].max() for budget in budgets], rtol=1e-8)
    with pytest.raises(ValueError, match="budgets must not be negative"):
        best_values(Moments.from_data(X, Y), groups, costs, budgets=[1, -1])


def test_a_constant_target_explains_nothing():
    moments = Moments.from_data(np.eye(3), np.ones(3))
    assert best_sequence(moments).explained.tolist() == [0.0, 0.0, 0.0]
    assert best_values(moments, budgets=[0, 3]).tolist() == [0.0, 0.0]
