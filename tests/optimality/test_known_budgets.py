"""Good sets for many budgets: affordable, allowed, at least as good as the order, and close to the best of all."""

from itertools import combinations

import numpy as np
import pytest

from budgetline import AnytimeClassifier, AnytimeRegressor, FeatureGroups, GroupLassoPath
from budgetline.optimality import known_budgets
from budgetline.optimality.known_budgets import known_sets, undominated

COSTS = [10.0, 6.0, 5.0, 4.0, 3.0, 8.0]
SHARED = FeatureGroups(
    {f"g{k}": [k] for k in range(6)},
    costs=COSTS,
    shared={"visit": (7.0, ["g1", "g2", "g3"])},
    requires={"g5": ["g4"]},
)


def data(seed=0, n=150):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 6)) @ rng.standard_normal((6, 6))
    return X, X @ rng.standard_normal(6) + rng.standard_normal(n)


def values_by_hand(model, X, y, budget):
    """F/R(∅) less the correction of all allowed sets within a budget, by least squares."""
    groups, centred = model.feature_groups_, y - y.mean()
    lost = np.zeros(6) if model.model_.penalties is None else model.model_.penalties / model.sequence_.null_value
    found = {(): 0.0}
    for size in range(1, 7):
        for chosen in map(list, combinations(range(6), size)):
            names = tuple(groups.names[g] for g in chosen)
            closed = all(set(groups.requires.get(name, ())) <= set(names) for name in names)
            if closed and groups.cost_of(names) <= budget * (1 + 1e-9):
                A = X[:, chosen] - X[:, chosen].mean(axis=0)
                rest = centred - A @ np.linalg.lstsq(A, centred)[0]
                found[names] = 1 - rest @ rest / (centred @ centred) - lost[chosen].sum()
    return found


@pytest.mark.parametrize("settings", [{}, {"correction": 20.0}, {"start": ["g2"]}])
@pytest.mark.parametrize("groups", [FeatureGroups({f"g{k}": [k] for k in range(6)}, costs=COSTS), SHARED])
def test_sets_against_all_subsets(groups, settings):
    X, y = data()
    model = AnytimeRegressor(groups, alpha=1e-9, **settings).fit(X, y)
    budgets = np.arange(4.0, 43.0, 3.0)
    found, shares = known_sets(model.model_, budgets, 60), []
    np.testing.assert_allclose(found.costs, [groups.cost_of(each) for each in found.groups])
    assert (np.diff(found.costs) >= 0).all()
    assert (np.diff(found.values) > 0).all()
    order = model.sequence_.groups
    for budget in budgets:
        known = values_by_hand(model, X, y, budget)
        mine = [each for each, cost in zip(found.groups, found.costs, strict=True) if cost <= budget * (1 + 1e-9)]
        best = tuple(sorted(mine[-1])) if mine else ()
        prefix = tuple(sorted(order[: model.sequence_.stage_at(budget)]))
        assert known[best] >= known[prefix] - 1e-6
        if settings.get("start"):
            known = {each: value for each, value in known.items() if "g2" in each} or {(): 0.0}
        shares.append((known.get(best, 0.0) + 1e-3) / (max(known.values()) + 1e-3))
    assert np.mean(shares) > 0.9
    for each, value in zip(found.groups, found.values, strict=True):
        assert value / model.sequence_.null_value == pytest.approx(values_by_hand(model, X, y, 99)[tuple(sorted(each))])


@pytest.mark.parametrize("metric", ["accuracy", "log_loss"])
def test_sets_of_a_classifier_are_answered_by_its_any_subset_models(metric):
    X, y = data(1)
    model = AnytimeClassifier(costs=COSTS, alpha=1e-2).fit(X[:100], y[:100] > 0)
    found = known_sets(model.model_, [5.0, 12.0, 20.0], 60)
    curve = found.curve(model, X[100:], y[100:] > 0, metric)
    np.testing.assert_array_equal(curve.costs[1:], found.costs)
    for each, value in zip(found.groups, curve.values[1:], strict=True):
        p = model.predict_proba(X[100:], available=each)
        truth = (y[100:] > 0).astype(int)
        judged = {"accuracy": np.mean(p.argmax(axis=1) == truth), "log_loss": -np.log(p[np.arange(50), truth]).mean()}
        assert value == pytest.approx(judged[metric])


@pytest.mark.parametrize("make", [AnytimeRegressor, GroupLassoPath])
def test_only_groups_of_the_sequence_are_bought(make):
    X, y = data(2)
    model = make(costs=COSTS, max_groups=3).fit(X, y)
    found = known_sets(model.model_, [9.0, 15.0], 60)
    assert {name for each in found.groups for name in each} <= set(model.sequence_.groups)


@pytest.mark.parametrize("why", ["no time", "too many parameters"])
def test_the_prefixes_are_left(why, monkeypatch):
    if why != "no time":
        monkeypatch.setattr(known_budgets, "MOST_PARAMETERS", 3)
    X, y = data(3)
    model = AnytimeRegressor(costs=COSTS).fit(X, y)
    found = known_sets(model.model_, [9.0, 15.0], 0.0 if why == "no time" else 60.0)
    assert found.groups == tuple(model.sequence_.groups[:k] for k in range(1, 7))
    np.testing.assert_allclose(found.values, np.cumsum(model.sequence_.gains))


def test_what_is_worth_more_than_all_that_cost_no_more():
    costs, values = np.array([3.0, 1.0, 2.0, 2.0, 5.0]), np.array([4.0, 1.0, 2.0, 3.0, 4.0])
    assert undominated(costs, values) == [1, 3, 0]
    assert undominated(np.array([]), np.array([])) == []
