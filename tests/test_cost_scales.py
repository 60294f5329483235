"""Sequences, curves and paths do not depend on the unit of the costs, however large or small it is."""

from fractions import Fraction
from itertools import permutations

import numpy as np
import pytest
from exact_search import Demand, best_order
from set_functions import greedy_sequence

from budgetline import (
    AnytimeClassifier,
    AnytimeRegressor,
    BudgetCurve,
    FeatureGroups,
    GroupLassoPath,
    stopping_cost,
    timeliness,
)
from budgetline.budgets import rates_of
from budgetline.groups.prices import Prices
from budgetline.sequencing import Doubling

FACTORS = (2.0**900, 2.0**-900)
UNITS = [(cost, 2.0**power) for cost in FACTORS for power in (-400, 0, 400)]
COLUMNS = {"a": [0], "b": [1, 2], "c": [3], "d": [4, 5], "e": [6]}
COSTS = np.array([1.0, 2.5, 0.3, 4.0, 0.7])


def data(seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(60, 7)) @ (np.eye(7) + 0.3 * rng.normal(size=(7, 7)))
    return X, X @ rng.normal(size=7) + rng.normal(size=60)


def groups_at(factor):
    shared = {"draw": (0.7 * factor, ["a", "b"]), "set": (0.1 * factor, ["c", "e"])}
    return FeatureGroups(COLUMNS, COSTS * factor, shared=shared, requires={"d": ["c"]})


@pytest.mark.parametrize(("cost", "target"), UNITS)
@pytest.mark.parametrize("rule", ["forward", "omp", "no-whiten", "single"])
@pytest.mark.parametrize("plain", [True, False], ids=["additive", "shared"])
def test_a_sequence_does_not_depend_on_the_units(cost, target, rule, plain):
    X, y = data(0)
    one, other = (FeatureGroups(COLUMNS, COSTS * f) if plain else groups_at(f) for f in (1.0, cost))
    for schedule in ("greedy", Doubling()):
        ours = AnytimeRegressor(one, rule=rule, schedule=schedule).fit(X, y).sequence_
        theirs = AnytimeRegressor(other, rule=rule, schedule=schedule).fit(X, y * target).sequence_
        assert theirs.groups == ours.groups
        assert np.array_equal(theirs.costs / cost, ours.costs)
        np.testing.assert_allclose(theirs.explained, ours.explained, rtol=1e-9)


@pytest.mark.parametrize("cost", FACTORS)
@pytest.mark.parametrize("rule", ["forward", "score", "omp"])
def test_the_sequence_of_a_classifier_does_not_depend_on_the_unit_of_costs(cost, rule):
    X, y = data(1)
    ours, theirs = (AnytimeClassifier(groups_at(f), rule=rule, alpha=1e-2).fit(X, y > 0).sequence_ for f in (1.0, cost))
    assert ours.groups == theirs.groups


@pytest.mark.parametrize(
    ("cost", "target"), [(2.0**900, 2.0**400), (2.0**900, 1.0), (2.0**-900, 1.0), (2.0**-900, 2.0**-400)]
)
def test_the_group_lasso_does_not_depend_on_the_units(cost, target):
    X, y = data(2)
    ours = GroupLassoPath(FeatureGroups(COLUMNS, COSTS), n_lambdas=20).fit(X, y)
    theirs = GroupLassoPath(FeatureGroups(COLUMNS, COSTS * cost), n_lambdas=20).fit(X, y * target)
    assert ours.sequence_.groups == theirs.sequence_.groups
    np.testing.assert_allclose(theirs.lambdas_ * cost / target, ours.lambdas_, rtol=1e-9)
    np.testing.assert_allclose(theirs.path_coef_ / target, ours.path_coef_, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize(("costs", "target"), [(1e-290, 1e60), (1e290, 1e-60)])
def test_penalties_that_no_float_holds_are_an_error(costs, target):
    X, y = data(3)
    with pytest.raises(ValueError, match="unit of the costs"):
        GroupLassoPath(FeatureGroups(COLUMNS, COSTS * costs)).fit(X, y * target)


def test_the_group_lasso_takes_tiny_and_huge_costs_at_once():
    X, y = data(4)
    costs = [1e-280, 1e280, 1e-10, 1.0, 1e10]
    found = GroupLassoPath(FeatureGroups(COLUMNS, costs)).fit(X, y)
    assert found.sequence_.groups == ("a", "c", "d", "e", "b")


def modular(values, costs, best):
    """The sequence of F(S) = Σ values: by value per cost."""
    found = greedy_sequence(lambda S: sum(values[x] for x in S), dict(enumerate(costs)))
    assert found.groups == best


@pytest.mark.parametrize("unit", [2.0**-900, 1.0, 2.0**900])
def test_a_set_function_is_sequenced_by_rates_that_no_float_holds(unit):
    values = [unit * v for v in (3.0, 1.0, 2.0, 5.0)]
    modular(values, [2e299, 1e299, 1e299, 2e299], (3, 2, 0, 1))
    modular(values, [2e-300, 1e-300, 1e-300, 2e-300], (3, 2, 0, 1))
    modular(values, [2e299, 1e-300, 1e299, 2e-300], (3, 1, 2, 0))


@pytest.mark.parametrize("cost", FACTORS)
@pytest.mark.parametrize("unit", [2.0**-900, 2.0**900])
def test_the_best_order_is_the_best_of_all_orders_at_any_scale(cost, unit):
    rng = np.random.default_rng(5)
    gains = rng.uniform(size=(4,))
    table = np.array([np.sqrt(sum(gains[g] for g in range(4) if S >> g & 1)) for S in range(16)])
    costs = rng.uniform(0.5, 2, size=4)

    def area(order):
        sets = np.concatenate([[0], np.cumsum(1 << np.array(order))])
        spent = np.concatenate([[0.0], np.cumsum(costs[list(order)])])
        return sum(table[S] * (b - a) for S, a, b in zip(sets, spent[:-1], spent[1:], strict=False))

    best = max(permutations(range(4)), key=area)
    demand = Demand.of(float(costs.sum()) * cost, None, None, None, "step")
    assert best_order(table * unit, Prices(costs * cost), demand).tolist() == list(best)


@pytest.mark.parametrize("cost", FACTORS)
@pytest.mark.parametrize("unit", [2.0**-900, 2.0**900])
def test_what_is_read_from_a_curve_does_not_depend_on_the_units(cost, unit):
    costs, values = np.array([0, 1, 1, 3, 7.5, 8]), np.array([0.0, 0.3, 0.2, 0.65, 0.9, 1.0])
    ours, theirs = BudgetCurve(costs, values), BudgetCurve(costs * cost, values * unit)
    for interpolation in ("step", "linear"):
        for stop in (0.5, 3, 20):
            assert timeliness(theirs, stop * cost, interpolation=interpolation) == unit * timeliness(
                ours, stop, interpolation=interpolation
            )
    assert stopping_cost(theirs, 0.9) == cost * stopping_cost(ours, 0.9)


@pytest.mark.parametrize("unit", [2.0**-900, 1.0, 2.0**900])
@pytest.mark.parametrize("cost", [2.0**-900, 1.0, 2.0**900])
def test_rates_compare_as_fractions_do(unit, cost):
    rng = np.random.default_rng(6)
    values = rng.choice([-1, 0, 1, 1], size=200) * rng.uniform(1, 2, 200) * 10.0 ** rng.uniform(-15, 15, 200) * unit
    costs = rng.uniform(1, 2, 200) * 10.0 ** rng.uniform(-15, 15, 200) * cost
    order = np.argsort(-rates_of(values, costs), kind="stable")
    exact = [Fraction(values[k]) / Fraction(costs[k]) for k in order]
    assert exact == sorted(exact, reverse=True)


@pytest.mark.parametrize(
    "groups",
    [
        lambda: FeatureGroups([[0], [1]], [1e308, 1e308]),
        lambda: FeatureGroups([[0], [1]], [1e300, 1e299]),
        lambda: FeatureGroups([[0], [1]], [1.0, 1.0], shared={"draw": (1.7e308, ["0", "1"])}),
        lambda: FeatureGroups([[0], [1]]).with_costs([1e308, 1e308]),
        lambda: greedy_sequence(len, {"a": 1e308, "b": 1e308}),
        lambda: Prices(np.array([1e308, 1e308])),
    ],
)
def test_costs_whose_sum_no_float_holds_are_an_error(groups):
    with pytest.raises(ValueError, match=r"the costs of all groups add up to .*, more than 1e\+300"):
        groups()
