"""Importance per cost: importances by hand, knapsacks by enumeration, models by refitting."""

from itertools import combinations

import numpy as np
import pytest
from scipy import sparse
from sklearn.linear_model import LinearRegression, LogisticRegression, RidgeClassifier
from sklearn.metrics import log_loss
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from baselines import ImportanceKnapsack
from budgetline import FeatureGroups, compare

GROUPS = {"a": [0, 4], "b": [2], "c": [1, 3], "d": [5], "e": [6]}
COSTS = {"a": 3.0, "b": 1.0, "c": 2.0, "d": 5.0, "e": 2.5}


def draw(seed=0, n=200):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 7))
    return X, X @ [1.0, 0.5, -0.7, 0.1, 0.3, 2.0, 0.0] + 0.3 * rng.normal(size=n)


def best_sum(values, budget):
    """The largest sum of importances that a budget pays for, of all sets."""
    sets = (chosen for size in range(6) for chosen in combinations(GROUPS, size))
    paid = [chosen for chosen in sets if sum(COSTS[name] for name in chosen) <= budget]
    return max(sum(values[name] for name in chosen) for chosen in paid)


@pytest.mark.parametrize("importance", ["permutation", "contributions"])
def test_stages_are_refits_on_the_best_sets(importance):
    X, y = draw()
    budgets = [1, 3.2, 6, 9, 13.5]
    model = ImportanceKnapsack(
        LinearRegression(), GROUPS, COSTS, importance=importance, budgets=budgets, random_state=0
    ).fit(X, y)
    values = dict(zip(GROUPS, model.importances_, strict=True))
    for budget in budgets:
        stage = model.sequence_.stage_at(budget)
        names = model.sequence_.groups[stage - 1].split(", ")
        assert sum(values[name] for name in names) == pytest.approx(best_sum(values, budget))
        columns = sorted(d for name in names for d in GROUPS[name])
        truth = LinearRegression().fit(X[:, columns], y).predict(X[:, columns])
        np.testing.assert_allclose(model.predict(X, budget=budget), truth)


def test_permutation_is_the_loss_of_shuffled_groups():
    X, y = draw()
    y = y > 0
    model = ImportanceKnapsack(LogisticRegression(), GROUPS, COSTS, n_repeats=2, random_state=7, budgets=2).fit(X, y)
    full, rng, found = LogisticRegression().fit(X, y), np.random.RandomState(7), []
    for own in GROUPS.values():
        losses = []
        for _ in range(2):
            order, other = rng.permutation(len(X)), X.copy()
            for d in own:
                other[:, d] = X[order, d]
            losses.append(log_loss(y, full.predict_proba(other)) - log_loss(y, full.predict_proba(X)))
        found.append(max(np.mean(losses), 0))
    np.testing.assert_allclose(model.importances_, found, rtol=1e-9, atol=1e-12)


def test_contributions_of_a_linear_model_are_those_of_its_columns():
    X, y = draw()
    weight = np.linspace(1, 3, len(y))
    model = ImportanceKnapsack(LinearRegression(), GROUPS, COSTS, importance="contributions", budgets=2)
    model.fit(X, y, sample_weight=weight)
    coef, centred = LinearRegression().fit(X, y, weight).coef_, X - X.mean(axis=0)
    truth = [np.average(np.abs(centred[:, own] @ coef[own]), weights=weight) for own in GROUPS.values()]
    np.testing.assert_allclose(model.importances_, truth)


def test_a_function_of_ones_own():
    X, y = draw()
    tree = DecisionTreeRegressor(max_depth=4, random_state=0)
    model = ImportanceKnapsack(
        tree, GROUPS, COSTS, importance=lambda model, X, y: model.feature_importances_, budgets=3
    )
    truth = tree.fit(X, y).feature_importances_
    np.testing.assert_allclose(model.fit(X, y).importances_, [truth[own].sum() for own in GROUPS.values()])
    with pytest.raises(ValueError, match="one finite number ≥ 0 for each of the 7 columns"):
        model.set_params(importance=lambda model, X, y: [1.0]).fit(X, y)
    with pytest.raises(TypeError, match="not of DecisionTreeRegressor"):
        model.set_params(importance="contributions").fit(X, y)


def test_contributions_of_lightgbm_are_its_shap_values():
    lightgbm = pytest.importorskip("lightgbm")
    X, y = draw()
    labels = np.digitize(y, [-1, 1])
    trees = lightgbm.LGBMClassifier(n_estimators=3, n_jobs=1, random_state=0, verbose=-1)
    model = ImportanceKnapsack(trees, GROUPS, COSTS, importance="contributions", budgets=2).fit(X, labels)
    shap = trees.fit(X, labels).predict(X, pred_contrib=True)  # one block of 7 columns and a base per class
    of_class = [shap[:, 8 * k : 8 * k + 7] for k in range(3)]
    truth = [sum(np.abs(each[:, own].sum(axis=1)).mean() for each in of_class) for own in GROUPS.values()]
    np.testing.assert_allclose(model.importances_, truth)


def test_contributions_of_catboost_are_its_shap_values():
    catboost = pytest.importorskip("catboost")
    X, y = draw()
    trees = catboost.CatBoostRegressor(
        iterations=5, thread_count=1, random_seed=0, verbose=False, allow_writing_files=False
    )
    model = ImportanceKnapsack(trees, GROUPS, COSTS, importance="contributions", budgets=2).fit(X, y)
    shap = trees.fit(X, y).get_feature_importance(catboost.Pool(X), type="ShapValues")
    truth = [np.abs(shap[:, own].sum(axis=1)).mean() for own in GROUPS.values()]
    np.testing.assert_allclose(model.importances_, truth)


def test_contributions_of_an_ebm_are_its_terms():
    glassbox = pytest.importorskip("interpret.glassbox")
    X, y = draw()
    ebm = glassbox.ExplainableBoostingRegressor(interactions=1, outer_bags=1, max_rounds=20, n_jobs=1, random_state=0)
    model = ImportanceKnapsack(ebm, GROUPS, COSTS, importance="contributions", budgets=2).fit(X, y)
    terms = ebm.fit(X, y).eval_terms(X)
    pair = ebm.term_features_[7]
    assert ebm.term_features_[:7] == [(d,) for d in range(7)]
    assert len(pair) == 2
    halves = {name: sum(d in pair for d in own) / 2 for name, own in GROUPS.items()}
    each = (terms[:, own].sum(axis=1) + halves[name] * terms[:, 7] for name, own in GROUPS.items())
    truth = [np.abs(group).mean() for group in each]
    np.testing.assert_allclose(model.importances_, truth)


@pytest.mark.parametrize("kind", ["pandas", "polars", "sparse"])
def test_kinds_of_tables(kind):
    X, y = draw()
    X[np.abs(X) < 0.3] = 0
    names = list("tuvwxyz")
    if kind == "sparse":
        table, groups = sparse.csr_array(X), GROUPS
    else:
        table = pytest.importorskip(kind).DataFrame(dict(zip(names, X.T, strict=True)))
        groups = {name: [names[d] for d in own] for name, own in GROUPS.items()}
    settings = {"budgets": 4, "random_state": 0}
    plain = ImportanceKnapsack(LinearRegression(), GROUPS, COSTS, **settings).fit(X, y)
    found = ImportanceKnapsack(LinearRegression(), groups, COSTS, **settings).fit(table, y)
    np.testing.assert_allclose(found.importances_, plain.importances_, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(found.predict(table, budget=6), plain.predict(X, budget=6), atol=1e-4)


def test_sets_hold_what_they_require():
    X, y = draw()
    groups = FeatureGroups(GROUPS, COSTS, requires={"d": ["e"]}, shared={"visit": (2.0, ["a", "b"])})
    model = ImportanceKnapsack(LinearRegression(), groups, random_state=0).fit(X, y)
    assert model.sequence_.cumulative_costs[-1] <= groups.prices.total
    for mask, cost in zip(model.model_.masks, model.sequence_.cumulative_costs, strict=True):
        names = [name for name, there in zip(GROUPS, mask, strict=True) if there]
        assert "d" not in names or "e" in names
        assert cost == pytest.approx(groups.cost_of(names))


def test_available_is_answered_by_the_dearest_set_inside():
    X, y = draw()
    model = ImportanceKnapsack(LinearRegression(), GROUPS, COSTS, budgets=[1, 6, 13.5], random_state=0).fit(X, y)
    first, second = (names.split(", ") for names in model.sequence_.groups[:2])
    np.testing.assert_array_equal(model.predict(X, available=second), model.predict(X, stage=2))
    np.testing.assert_array_equal(model.predict(X, available=first), model.predict(X, stage=1))
    np.testing.assert_allclose(model.predict(X, available=[]), y.mean())
    with pytest.raises(ValueError, match="auto"):
        model.predict(X, available="auto")


def test_compare_and_what_is_worth_nothing():
    X, y = draw()
    tree = DecisionTreeClassifier(max_depth=2, random_state=0)
    found = compare({"tree": ImportanceKnapsack(tree, GROUPS, COSTS, random_state=0)}, X, y > 0, cv=2, metric="roc_auc")
    assert found.summary()["tree"]["final"] > 0.7
    nothing = ImportanceKnapsack(tree, GROUPS, COSTS, importance=lambda model, X, y: np.zeros(X.shape[1])).fit(X, y > 0)
    assert nothing.sequence_.groups == (", ".join(GROUPS),)


@pytest.mark.parametrize(("budgets", "match"), [([], "empty"), ([-1], "a budget"), (0, "budgets"), ([0.01], "buys")])
def test_bad_budgets(budgets, match):
    with pytest.raises(ValueError, match=match):
        ImportanceKnapsack(LinearRegression(), GROUPS, COSTS, budgets=budgets).fit(*draw())


def test_shuffling_needs_probabilities():
    X, y = draw()
    with pytest.raises(TypeError, match="RidgeClassifier has no predict_proba: take importance='contributions'"):
        ImportanceKnapsack(RidgeClassifier(), GROUPS, COSTS).fit(X, y > 0)
