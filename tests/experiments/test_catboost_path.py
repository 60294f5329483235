"""CatBoost with group prices, against a loop that trains one tree at a time."""

import numpy as np
import pytest

from baselines import CatBoostPath
from budgetline import compare

catboost = pytest.importorskip("catboost")
SETTINGS = {"learning_rate": 0.2, "depth": 2, "random_seed": 0, "thread_count": 1, "bootstrap_type": "No"}
SETTINGS |= {"random_strength": 0, "verbose": False, "allow_writing_files": False}
TREES = 10
GROUPS = {"a": [0, 1], "b": [2], "c": [3, 4, 5], "d": [6]}
COSTS = {"a": 3.0, "b": 1.0, "c": 2.0, "d": 5.0}


def draw(seed=0, n=200):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 7))
    X[:, 5] = 1.0  # tells nothing
    return X, X[:, 0] + np.sin(2 * X[:, 2]) + X[:, 3] * X[:, 4] + 2 * (X[:, 6] > 0) + 0.3 * rng.normal(size=n)


def by_hand(X, y, trade_off):
    """Train one tree after another; every group that was used costs nothing from the next tree on."""
    owner, bought, model = {d: name for name, own in GROUPS.items() for d in own}, set(), None
    for _ in range(TREES):
        prices = [0.0 if owner[d] in bought else COSTS[owner[d]] for d in range(7)]
        penalties = {"penalties_coefficient": trade_off, "first_feature_use_penalties": prices}
        model = catboost.CatBoostRegressor(**SETTINGS, iterations=1, **penalties).fit(X, y, init_model=model)
        used = np.flatnonzero(model.get_feature_importance(type="PredictionValuesChange") > 0)
        bought |= {owner[d] for d in used.tolist()}
    return model, bought


@pytest.fixture(scope="module")
def path():
    X, y = draw()
    trees = catboost.CatBoostRegressor(**SETTINGS, iterations=TREES)
    return CatBoostPath(trees, GROUPS, COSTS, n_models=10).fit(X, y)


def test_stages_are_the_models_of_a_loop_over_trees(path):
    X, y = draw()
    new = draw(1)[0]
    assert len(path.estimators_) >= 2  # with a penalty and without
    for k, trade_off in enumerate(path.trade_offs_, start=1):
        model, bought = by_hand(X, y, trade_off)
        assert set(path.sequence_.groups[k - 1].split(", ")) == bought
        assert path.sequence_.cumulative_costs[k - 1] == pytest.approx(sum(COSTS[name] for name in bought))
        np.testing.assert_allclose(path.predict(new, stage=k), model.predict(new), rtol=1e-9)


def test_a_budget_reads_only_what_it_bought(path):
    new = draw(1)[0]
    for stage, names in enumerate(path.sequence_.groups, start=1):
        missing = new.copy()
        missing[:, [d for name, own in GROUPS.items() if name not in names.split(", ") for d in own]] = np.nan
        np.testing.assert_array_equal(path.predict(missing, stage=stage), path.predict(new, stage=stage))


def test_three_classes_in_compare():
    X, y = draw()
    labels = np.array(["low", "mid", "top"])[np.digitize(y, [-0.5, 1.5])]
    # without a learning rate CatBoost chooses one by the number of trees
    settings = {name: value for name, value in SETTINGS.items() if name != "learning_rate"}
    trees = catboost.CatBoostClassifier(**settings, iterations=TREES)
    path = CatBoostPath(trees, [[0, 1], [2], [3]], [1, 2, 3], n_models=6)
    found = compare({"trees": path}, X[:, [0, 1, 2, 6]], labels, cv=2)
    assert found.summary()["trees"]["final"] > 0.05


def test_other_estimators_are_refused():
    from sklearn.linear_model import LinearRegression

    with pytest.raises(TypeError, match="one of catboost, got LinearRegression"):
        CatBoostPath(LinearRegression()).fit(*draw())
    with pytest.raises(ValueError, match="grow_policy='SymmetricTree' only, got 'Depthwise'"):
        CatBoostPath(catboost.CatBoostRegressor(**SETTINGS, grow_policy="Depthwise")).fit(*draw())
