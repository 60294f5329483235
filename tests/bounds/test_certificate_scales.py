"""The unit of the costs, and that of the target, change no sequence and no proof, however large or small they are."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from best_sets import best_set
from certifying import certify
from exact_search import best_sequence, best_values
from truth import make

from budgetline import FeatureGroups, Moments
from budgetline.bounds.problem import Conditions
from budgetline.bounds.relaxation import Knapsack
from budgetline.groups.prices import Prices, SharedCost

pytestmark = pytest.mark.quick_cases(2)

SEED = 0
FACTORS = (2.0**900, 2.0**-900)
UNITS = [(cost, 2.0**power) for cost in FACTORS for power in (-400, 0, 400)]


def groups_of(problem, factor):
    """Two groups share a cost, and one requires another: all that a cost can be."""
    names = problem.names
    shared = {"draw": (0.7 * factor, names[:2])}
    return FeatureGroups(problem.feature_groups, problem.costs * factor, shared=shared, requires={names[3]: names[2:3]})


def scaled(seed, cost, target):
    problem = make(seed, "plain", J=4, alpha=1e-2)
    return Moments.from_data(problem.X, problem.Y[:, 0] * target), groups_of(problem, cost)


@cache
def plain(seed):
    moments, groups = scaled(seed, 1.0, 1.0)
    return certify(moments, groups, alpha=1e-2, time_limit=60)


@pytest.mark.parametrize(("cost", "target"), UNITS)
def test_a_certificate_does_not_depend_on_the_units(cost, target):
    ours, (moments, groups) = plain(SEED), scaled(SEED, cost, target)
    theirs = certify(moments, groups, alpha=1e-2, time_limit=60)
    assert np.array_equal(ours.order, theirs.order)
    assert np.array_equal(ours.budgets * cost, theirs.budgets)
    np.testing.assert_allclose(theirs.bounds / target**2, ours.bounds, rtol=1e-9)
    np.testing.assert_allclose(theirs.achieved / target**2, ours.achieved, rtol=1e-9)
    stop = 0.4 * ours.total_cost
    np.testing.assert_allclose(theirs.timeliness(stop * cost), ours.timeliness(stop), rtol=1e-9)
    theirs.verify(moments)


@pytest.mark.parametrize(("seed", "target"), [(0, 2.0**400), (3, 1.0), (3, 2.0**400), (5, 2.0**-400)])
def test_no_set_is_above_the_bound_where_costs_are_tiny_and_huge_at_once(seed, target):
    rng = np.random.default_rng(seed)
    costs = 10.0 ** rng.choice([-300.0, -290.0, 0.0, 280.0, 298.0], size=5) * rng.uniform(1, 2, size=5)
    problem = replace(make(seed, "plain", J=5, alpha=1e-2), costs=costs)
    moments, groups = (
        Moments.from_data(problem.X, problem.Y[:, 0] * target),
        FeatureGroups(problem.feature_groups, costs),
    )
    asked = np.unique(problem.set_costs)
    certificate = certify(moments, groups, alpha=1e-2, budgets=asked, time_limit=60)
    best = np.array([problem.best_at(budget) for budget in certificate.budgets])
    assert np.all(certificate.bounds / target**2 >= best * (1 - 1e-9))
    np.testing.assert_allclose(certificate.bounds / target**2, best, atol=2e-4 * best.max())
    certificate.verify(moments)
    for budget in asked[1::8]:
        found = best_set(moments, groups, budget=budget, alpha=1e-2, time_limit=60)
        np.testing.assert_allclose(found.value / target**2, problem.best_at(budget), rtol=1e-8)


@pytest.mark.parametrize(("cost", "target"), UNITS)
def test_best_sets_do_not_depend_on_the_units(cost, target):
    (moments, groups), (other_moments, other_groups) = scaled(SEED, 1.0, 1.0), scaled(SEED, cost, target)
    budgets = np.linspace(0, 1, 50) * groups.prices.total
    ours = best_values(moments, groups, budgets=budgets, alpha=1e-2)
    theirs = best_values(other_moments, other_groups, budgets=budgets * cost, alpha=1e-2)
    np.testing.assert_allclose(theirs / target**2, ours, rtol=1e-9)
    budget = 0.4 * groups.prices.total
    ours = best_set(moments, groups, budget=budget, alpha=1e-2, time_limit=60)
    theirs = best_set(other_moments, other_groups, budget=budget * cost, alpha=1e-2, time_limit=60)
    assert (ours.groups, ours.optimal) == (theirs.groups, theirs.optimal)


@pytest.mark.parametrize(("cost", "target"), UNITS)
@pytest.mark.parametrize("interpolation", ["step", "linear"])
def test_the_best_sequence_does_not_depend_on_the_units(cost, target, interpolation):
    (moments, groups), (other_moments, other_groups) = scaled(SEED, 1.0, 1.0), scaled(SEED, cost, target)
    ours = best_sequence(moments, groups, alpha=1e-2, interpolation=interpolation)
    theirs = best_sequence(other_moments, other_groups, alpha=1e-2, interpolation=interpolation)
    assert ours.groups == theirs.groups


def test_a_knapsack_sorts_values_per_cost_that_no_float_holds():
    """All of the first item is worth more per cost than the second; as floats both rates are 0, or both infinite."""
    for costs, values in (([2e290, 1e290], [1e-40, 9e-41]), ([1e-300, 2e-300], [1e20, 1.5e20])):
        knapsack = Knapsack(Conditions.none(Prices(np.asarray(costs, dtype=float))))
        half = np.array([max(costs)])
        first, second = np.array(values) / np.array([c / costs[0] for c in costs])
        best = values[1] + values[0] / 2 if second > first else values[0] + values[1] / 2
        np.testing.assert_allclose(knapsack.most(np.array(values), half), best, rtol=1e-9)


def test_a_knapsack_opens_a_hub_at_any_scale():
    values, budgets = np.array([3.0, 2.0, 4.0]), np.array([1.0, 2.0, 4.0, 7.0])
    plain = Prices(np.array([1.0, 2.0, 4.0]), (SharedCost("hub", 0.5, (0, 1)),))
    expected = Knapsack(Conditions.none(plain)).most(values, budgets)
    for factor in (2.0**980, 2.0**-1000):
        prices = Prices(plain.own * factor, (SharedCost("hub", 0.5 * factor, (0, 1)),))
        for unit in (2.0**-900, 2.0**900):
            found = Knapsack(Conditions.none(prices)).most(values * unit, budgets * factor)
            np.testing.assert_allclose(found / unit, expected, rtol=1e-12)
