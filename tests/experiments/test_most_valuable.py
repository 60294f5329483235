"""The most valuable groups that a budget pays for, against all sets."""

from itertools import combinations

import numpy as np
import pytest
from baselines.most_valuable import most_valuable

from baselines import most_valuable as knapsack
from budgetline import FeatureGroups
from budgetline.budgets import SLACK


def problem(seed, priced):
    rng = np.random.default_rng(seed)
    J = int(rng.integers(1, 9))
    names = [f"g{k}" for k in range(J)]
    costs = np.where(rng.random(J) < 0.15, 0.0, rng.integers(1, 12, J) / 4)
    values = np.where(rng.random(J) < 0.2, 0.0, rng.random(J))
    more = {}
    if priced:
        members = [name for name in names if rng.random() < 0.5] or names[:1]
        requires = {names[k]: [names[int(rng.integers(k))]] for k in range(1, J) if rng.random() < 0.3}
        more = {"shared": {"visit": (2.0, members)}, "requires": requires}
    return FeatureGroups.singletons(names, costs, **more), values


def best_by_enumeration(groups, values, budget):
    """The largest value of any set of names whose cost, with all that they require, is within the budget."""
    most = 0.0
    for size in range(len(groups) + 1):
        for names in combinations(groups.names, size):
            closed = {*names, *(h for g in names for h in required(groups, g))}
            if groups.cost_of(closed) <= budget * (1 + SLACK):
                most = max(most, sum(values[groups.names.index(g)] for g in closed))
    return most


def required(groups, name):
    direct = groups.requires.get(name, ())
    return {*direct, *(h for g in direct for h in required(groups, g))}


@pytest.mark.parametrize("priced", [False, True])
@pytest.mark.parametrize("seed", range(8))
def test_no_set_within_the_budget_is_worth_more(seed, priced):
    groups, values = problem(seed, priced)
    for share in (0.0, 0.2, 0.5, 0.8, 1.0):
        budget = share * groups.prices.total
        chosen = most_valuable(values, groups.prices, budget)
        names = [groups.names[g] for g in np.flatnonzero(chosen)]
        assert groups.cost_of(names) <= budget * (1 + SLACK)
        assert {h for g in names for h in required(groups, g)} <= set(names)
        assert values[chosen].sum() == pytest.approx(best_by_enumeration(groups, values, budget), abs=1e-9)


def test_what_is_worth_nothing_is_not_bought():
    groups = FeatureGroups.singletons(["a", "b"], [1, 1])
    assert most_valuable(np.array([0.0, 0.5]), groups.prices, 2.0).tolist() == [False, True]
    assert not most_valuable(np.zeros(2), groups.prices, 2.0).any()


def test_fifty_groups_take_few_branches():
    rng = np.random.default_rng(0)
    groups = FeatureGroups.singletons([f"g{k}" for k in range(50)], rng.integers(1, 100, 50))
    assert most_valuable(rng.random(50), groups.prices, 600.0).sum() > 10


def test_a_search_that_is_cut_short_says_so(monkeypatch):
    monkeypatch.setattr(knapsack, "MOST_NODES", 0)
    groups = FeatureGroups.singletons(["a", "b", "c", "d"], [5.0, 4.0, 3.0, 3.0])
    with pytest.warns(UserWarning, match="not proven"):
        most_valuable(np.array([5.1, 3.9, 2.9, 2.8]), groups.prices, 7.0)
