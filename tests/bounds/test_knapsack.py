"""Bought in fractions, groups are never worth less than the best whole set, whatever costs are shared or required."""

from itertools import product

import numpy as np
import pytest
from price_lists import cost_of, mask_of, random_conditions, random_prices, with_required

from budgetline.bounds.problem import Conditions
from budgetline.bounds.relaxation import Knapsack
from budgetline.groups.prices import Prices, SharedCost


@pytest.mark.parametrize(("n_shared", "n_required"), [(0, 0), (1, 0), (3, 0), (0, 2), (0, 5), (2, 3), (4, 6)])
def test_no_set_is_worth_more(n_shared, n_required):
    rng = np.random.default_rng([n_shared, n_required])
    met = 0
    for _ in range(60):
        J = int(rng.integers(2, 8))
        prices = random_prices(rng, J, n_shared, n_required)
        included, excluded = random_conditions(rng, prices, J)
        v = rng.exponential(size=J) * rng.choice([0.0, 1.0, 1e3], size=J, p=[0.2, 0.6, 0.2])
        sets = [frozenset(g for g in range(J) if bits[g]) for bits in product([0, 1], repeat=J)]
        # a set that may be bought holds what it requires: nothing is worth less for that
        sets = [S for S in sets if included <= S and not (with_required(prices, S) & excluded)]
        costs = np.array([cost_of(prices, S) for S in sets])
        worth = np.array([v[sorted(S)].sum() for S in sets])
        budgets = np.unique(np.concatenate([costs, costs * (1 - 1e-9), rng.uniform(0, 1.2 * costs.max() + 1, size=5)]))
        most = Knapsack(Conditions(prices, mask_of(included, J), mask_of(excluded, J))).most(v, budgets)
        for budget, bound in zip(budgets, most, strict=True):
            within = costs <= budget * (1 + 1e-12)
            if within.any():
                assert bound >= worth[within].max() * (1 - 1e-12)
                met += bound <= worth[within].max() * (1 + 1e-6)
            assert bound <= v[~mask_of(excluded, J)].sum() * (1 + 1e-12)
    assert met > 100  # the bound is not just everything


def test_without_the_included_groups_nothing_can_be_bought():
    prices = Prices(np.array([2.0, 1.0]), (SharedCost("s", 3.0, (0,)),))
    most = Knapsack(Conditions(prices, np.array([True, False]), np.array([False, False]))).most(
        np.array([1.0, 1.0]), np.array([4.9, 5.0, 6.0])
    )
    np.testing.assert_allclose(most, [-np.inf, 1.0, 2.0])


def test_additive_costs_are_bought_by_value_per_cost():
    rng = np.random.default_rng(0)
    for _ in range(100):
        J = int(rng.integers(1, 9))
        c, v = rng.exponential(size=J) * (rng.random(J) < 0.8), rng.exponential(size=J)
        budget = rng.uniform(0, c.sum() + 0.1)
        fits = np.flatnonzero(c <= budget)
        left, expected = budget, 0.0
        for g in sorted(fits, key=lambda g: -v[g] / c[g] if c[g] else -np.inf):
            share = 1.0 if c[g] <= left else left / c[g]
            expected, left = expected + share * v[g], left - share * c[g]
        found = Knapsack(Conditions.none(Prices(np.asarray(c, dtype=float)))).most(v, np.array([budget]))[0]
        assert found == pytest.approx(expected, rel=1e-9)


def test_a_group_that_no_budget_can_pay_for_does_not_count():
    knapsack = Knapsack(Conditions.none(Prices(np.array([1.0, 10.0]))))
    np.testing.assert_allclose(knapsack.most(np.array([1.0, 1e6]), np.array([1.0, 9.99, 10.0])), [1.0, 1.0, 1e6])
