"""Forward selection of groups, against scikit-learn's of columns and against a loop that is written by hand."""

import numpy as np
import pytest
from sklearn.feature_selection import SequentialFeatureSelector
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.model_selection import KFold
from sklearn.tree import DecisionTreeRegressor

from baselines import ForwardSelection
from budgetline import FeatureGroups, StagedEstimators, compare, load, save

GROUPS = {"a": [0, 4], "b": [2], "c": [1, 3], "d": [5], "e": [6]}
COSTS = {"a": 3.0, "b": 1.0, "c": 2.0, "d": 5.0, "e": 2.5}


def draw(seed=0, n=150):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 7))
    return X, X @ [1.0, 0.5, -0.7, 0.1, 0.3, 2.0, 0.2] + rng.normal(size=n)


@pytest.mark.parametrize("seed", range(2))
def test_of_columns_it_is_that_of_scikit_learn(seed):
    X, y = draw(seed)
    X = X[:, :5]
    order = [int(name) for name in ForwardSelection(LinearRegression(), cv=2).fit(X, y).sequence_.groups]
    for count in range(1, 5):
        selector = SequentialFeatureSelector(LinearRegression(), n_features_to_select=count, cv=2).fit(X, y)
        assert sorted(order[:count]) == np.flatnonzero(selector.get_support()).tolist()


@pytest.mark.parametrize("seed", range(3))
def test_of_groups_it_is_a_loop_over_folds(seed):
    X, y = draw(seed)
    folds = list(KFold(3).split(X))
    left, order, scores = set(GROUPS), [], []
    while left:
        found = {}
        for name in sorted(left):
            columns = sorted(d for each in (*order, name) for d in GROUPS[each])
            shares = []
            for train, test in folds:
                tree = DecisionTreeRegressor(max_depth=3, random_state=0).fit(X[np.ix_(train, columns)], y[train])
                errors = y[test] - tree.predict(X[np.ix_(test, columns)])
                shares.append(1 - (errors**2).sum() / ((y[test] - y[test].mean()) ** 2).sum())
            found[name] = np.mean(shares)
        best = max(found, key=found.get)
        order.append(best)
        scores.append(found[best])
        left.remove(best)
    model = ForwardSelection(DecisionTreeRegressor(max_depth=3, random_state=0), GROUPS, COSTS, cv=folds).fit(X, y)
    assert model.sequence_.groups == tuple(order)
    np.testing.assert_allclose(model.scores_, scores)


def test_prefixes_are_those_of_staged_estimators():
    X, y = draw()
    model = ForwardSelection(LinearRegression(), GROUPS, COSTS, max_groups=3).fit(X, y)
    assert len(model.sequence_) == len(model.scores_) == 3
    staged = StagedEstimators(LinearRegression(), model.sequence_.groups, feature_groups=GROUPS, costs=COSTS).fit(X, y)
    for budget in (0, 3, 6, 20):
        np.testing.assert_allclose(model.predict(X, budget=budget), staged.predict(X, budget=budget))


def test_costs_do_not_change_the_order():
    X, y = draw()
    orders = {
        ForwardSelection(LinearRegression(), GROUPS, costs, cv=2).fit(X, y).sequence_.groups
        for costs in (None, [100, 1, 0, 2, 3])
    }
    assert len(orders) == 1


def test_required_groups_come_first():
    X, y = draw()
    groups = FeatureGroups(GROUPS, COSTS, requires={"d": ["e"]})
    model = ForwardSelection(LinearRegression(), groups).fit(X, y)
    assert model.sequence_.groups[:2] == ("e", "d")
    assert model.scores_[0] == model.scores_[1]
    short = ForwardSelection(LinearRegression(), groups, max_groups=1).fit(X, y)
    assert short.sequence_.groups[0] != "d"


def test_scoring_weights_and_compare():
    X, y = draw()
    logistic = ForwardSelection(LogisticRegression(), GROUPS, COSTS, scoring="neg_log_loss", max_groups=2, cv=2)
    logistic.fit(X, y > 0, sample_weight=np.linspace(1, 2, len(y)))
    assert logistic.scores_[-1] < 0
    found = compare({"forward": ForwardSelection(LinearRegression(), GROUPS, COSTS, cv=2)}, X, y, cv=2, metric="r2")
    assert found.summary()["forward"]["final"] > 0.7


def test_frames_stay_frames():
    pd = pytest.importorskip("pandas")
    X, y = draw()
    names = list("tuvwxyz")
    named = {name: [names[d] for d in own] for name, own in GROUPS.items()}
    frame = pd.DataFrame(X, columns=names)
    found = ForwardSelection(LinearRegression(), named, COSTS, cv=2, max_groups=2).fit(frame, y)
    plain = ForwardSelection(LinearRegression(), GROUPS, COSTS, cv=2, max_groups=2).fit(X, y)
    assert found.sequence_.groups == plain.sequence_.groups
    assert found.estimators_[0].feature_names_in_.tolist() == sorted(named[found.sequence_.groups[0]])
    np.testing.assert_allclose(found.predict(frame[names[::-1]], stage=2), plain.predict(X, stage=2))


def test_bad_parameters():
    with pytest.raises(ValueError, match="max_groups"):
        ForwardSelection(LinearRegression(), GROUPS, max_groups=0).fit(*draw())
    with pytest.raises(ValueError, match="no cost for group 'b'"):
        ForwardSelection(LinearRegression(), GROUPS, {"a": 1}).fit(*draw())


def test_a_file_holds_the_order_and_the_clones(tmp_path):
    pytest.importorskip("skops")
    X, y = draw()
    model = ForwardSelection(LinearRegression(), GROUPS, COSTS, cv=2, max_groups=2).fit(X, y)
    save(model, tmp_path / "forward")
    loaded = load(tmp_path / "forward")
    assert loaded.sequence_.groups == model.sequence_.groups
    np.testing.assert_allclose(loaded.predict(X, stage=1), model.predict(X, stage=1))
