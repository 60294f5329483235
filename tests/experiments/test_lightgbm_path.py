"""LightGBM with group prices, against a loop over trees that is written by hand and against the models' own dumps."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import KFold

from baselines import LightGBMPath
from budgetline import AnytimeRegressor, FeatureGroups, budget_curve, compare
from budgetline.datasets import load_heart

lightgbm = pytest.importorskip("lightgbm")
SETTINGS = {"n_estimators": 12, "num_leaves": 5, "min_child_samples": 5, "random_state": 0, "n_jobs": 1}
SETTINGS |= {"deterministic": True, "force_row_wise": True, "verbose": -1}
GROUPS = {"a": [0, 1], "b": [2], "c": [3, 4, 5], "d": [6]}
COSTS = {"a": 3.0, "b": 1.0, "c": 2.0, "d": 5.0}


def draw(seed=0, n=300):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 7))
    return X, X[:, 0] + np.sin(2 * X[:, 2]) + X[:, 3] * X[:, 4] + 2 * (X[:, 6] > 0) + 0.3 * rng.normal(size=n)


def groups_of(booster):
    """The groups on whose columns a model splits, read from its dump."""

    def columns(node):
        if "split_feature" not in node:
            return set()
        return {node["split_feature"]} | columns(node["left_child"]) | columns(node["right_child"])

    used = set().union(*(columns(tree["tree_structure"]) for tree in booster.dump_model()["tree_info"]))
    return {name for name, own in GROUPS.items() if used & set(own)}


def by_hand(X, y, trade_off):
    """Train tree by tree; every group that was used costs nothing from the next tree on."""
    owner = {column: name for name, own in GROUPS.items() for column in own}
    params = {k: v for k, v in SETTINGS.items() if k not in ("n_estimators", "n_jobs", "random_state")}
    params |= {"num_threads": 1, "seed": 0, "objective": "regression", "cegb_tradeoff": trade_off}

    def prices(bought):
        found = [0.0 if owner[d] in bought else COSTS[owner[d]] for d in range(7)]
        return {"cegb_penalty_feature_coupled": found}

    booster = lightgbm.Booster(params | prices(set()), lightgbm.Dataset(X, y))
    for _ in range(SETTINGS["n_estimators"]):
        booster.update()
        booster.reset_parameter(prices(groups_of(booster)))
    return booster


@pytest.fixture(scope="module")
def path():
    X, y = draw()
    return LightGBMPath(lightgbm.LGBMRegressor(**SETTINGS), GROUPS, COSTS, n_models=10).fit(X, y)


def test_stages_are_the_models_of_a_loop_over_trees(path):
    X, y = draw()
    new = draw(1)[0]
    assert len(path.estimators_) >= 2  # with a penalty and without
    assert (path.trade_offs_[:-1] > 0).all()
    for k, trade_off in enumerate(path.trade_offs_, start=1):
        np.testing.assert_allclose(path.predict(new, stage=k), by_hand(X, y, trade_off).predict(new), rtol=1e-12)


def test_a_stage_costs_what_its_own_splits_cost(path):
    for k, padded in enumerate(path.estimators_):
        used = groups_of(padded.model.booster_)
        assert set(path.sequence_.groups[k].split(", ")) == used
        assert path.sequence_.cumulative_costs[k] == pytest.approx(sum(COSTS[name] for name in used))


def test_a_budget_reads_only_what_it_bought(path):
    new = draw(1)[0]
    for budget in (1.0, 3.0, 6.0, 11.0):
        stage = path.sequence_.stage_at(budget)
        bought = path.sequence_.groups[stage - 1].split(", ") if stage else []
        missing = new.copy()
        missing[:, [d for name, own in GROUPS.items() if name not in bought for d in own]] = np.nan
        np.testing.assert_array_equal(path.predict(missing, budget=budget), path.predict(new, budget=budget))
        np.testing.assert_array_equal(path.predict(new, budget=budget), path.predict(new, stage=stage))
        np.testing.assert_array_equal(path.predict(missing, available=bought), path.predict(new, budget=budget))


def test_dearer_stages_fit_the_training_rows_better(path):
    X, y = draw()
    curve = budget_curve(path, X, y, metric="explained")
    assert (np.diff(curve.costs) > 0).all()
    assert (np.diff(curve.values) > 0).all()
    np.testing.assert_allclose(curve.values[1:], path.sequence_.explained)


def test_the_same_again(path):
    X, y = draw()
    again = clone(path).fit(X, y)
    np.testing.assert_array_equal(again.trade_offs_, path.trade_offs_)
    np.testing.assert_array_equal(again.predict(X), path.predict(X))


def test_frames_are_found_by_name(path):
    pd = pytest.importorskip("pandas")
    X, y = draw()
    names = list("tuvwxyz")
    named = {name: [names[d] for d in own] for name, own in GROUPS.items()}
    frame = pd.DataFrame(X, columns=names)
    found = LightGBMPath(lightgbm.LGBMRegressor(**SETTINGS), named, COSTS, n_models=10).fit(frame, y)
    np.testing.assert_array_equal(found.predict(frame[names[::-1]]), path.predict(X))
    first = [d for name in found.sequence_.groups[0].split(", ") for d in named[name]]
    np.testing.assert_array_equal(found.predict(frame[first], stage=1), path.predict(X, stage=1))


def test_shared_costs_and_requirements_are_paid():
    X, y = draw()
    groups = FeatureGroups(GROUPS, COSTS, shared={"visit": (4.0, ["a", "d"])}, requires={"b": ["c"]})
    path = LightGBMPath(lightgbm.LGBMRegressor(**SETTINGS), groups, n_models=8).fit(X, y)
    for mask, cost in zip(path.model_.masks, path.sequence_.cumulative_costs, strict=True):
        names = [name for name, there in zip(groups.names, mask, strict=True) if there]
        assert "b" not in names or "c" in names
        assert cost == pytest.approx(groups.cost_of(names))


def test_three_classes_weights_and_unused_columns():
    X, y = draw()
    labels = np.array(["low", "mid", "top"])[np.digitize(y, [-0.5, 1.5])]
    groups = FeatureGroups({name: GROUPS[name] for name in "abd"}, [3, 1, 5], remainder="drop")
    trees = lightgbm.LGBMClassifier(**SETTINGS)
    weight = np.linspace(1, 2, len(y))
    path = LightGBMPath(trees, groups, n_models=10).fit(X, labels, sample_weight=weight)
    assert path.classes_.tolist() == ["low", "mid", "top"]
    hidden = X.copy()
    hidden[:, [3, 4, 5]] = np.nan
    np.testing.assert_array_equal(path.predict_proba(hidden), path.predict_proba(X))
    np.testing.assert_allclose(path.predict_proba(X).sum(axis=1), 1)
    losses = budget_curve(path, X, labels, metric="log_loss", sample_weight=weight).values
    assert np.all(np.diff(losses) < 0)  # a model that fits the training rows no better is left out


def test_compare_takes_it_beside_ours():
    X, y = draw()
    methods = {"linear": AnytimeRegressor(GROUPS, COSTS)}
    methods["trees"] = LightGBMPath(lightgbm.LGBMRegressor(**SETTINGS), GROUPS, COSTS, n_models=5)
    folds = list(KFold(2).split(X))
    found = compare(methods, X, y, metric="r2", cv=folds)
    finals = [clone(methods["trees"]).fit(X[train], y[train]).score(X[test], y[test]) for train, test in folds]
    assert found.summary()["trees"]["final"] == pytest.approx(np.mean(finals))


def test_a_target_without_pattern_buys_nothing():
    X, _ = draw(n=40)
    path = LightGBMPath(lightgbm.LGBMRegressor(**SETTINGS), GROUPS, COSTS, n_models=3).fit(X, np.ones(40))
    assert path.sequence_.cumulative_costs.tolist() == [0.0]
    np.testing.assert_allclose(path.predict(X), 1)


def test_other_estimators_are_refused():
    from sklearn.linear_model import LinearRegression

    with pytest.raises(TypeError, match=r"one of lightgbm, got LinearRegression: pip install lightgbm"):
        LightGBMPath(LinearRegression(), GROUPS, COSTS).fit(*draw())
    with pytest.raises(ValueError, match="n_models"):
        LightGBMPath(lightgbm.LGBMRegressor(), GROUPS, COSTS, n_models=0).fit(*draw())


def test_real_prices():
    heart = load_heart()
    path = LightGBMPath(lightgbm.LGBMClassifier(**SETTINGS), heart.feature_groups, n_models=8)
    path.fit(heart.data, heart.target)
    assert path.score(heart.data, heart.target, budget=5) > 0.7
    np.testing.assert_allclose(path.predict_proba(heart.data, budget=0.5)[0, 1], heart.target.mean())
