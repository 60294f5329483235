"""StagedEstimators against loops written by hand, on frames and arrays; what they refuse; curves, reports, files."""

from io import BytesIO
from zipfile import ZipFile

import numpy as np
import pandas as pd
import polars as pl
import pytest
from certifying import certify
from joblib import parallel_backend
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.cluster import KMeans
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge, RidgeClassifier
from sklearn.metrics import log_loss, r2_score, roc_auc_score
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.neighbors import KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor
from sklearn.utils import get_tags

import budgetline
from budgetline import (
    AnytimeClassifier,
    AnytimeRegressor,
    AnytimeRunner,
    BudgetCurveDisplay,
    FeatureGroups,
    FixedOrder,
    StagedEstimators,
    budget_curve,
    compare,
    cross_val_budget_curve,
    make_report,
    to_onnx,
)
from budgetline.files import decode, encode
from budgetline.runtime import EarlyExit

rng = np.random.default_rng(3)
N = 240
X = rng.normal(size=(N, 6))
y = 3 * X[:, 4] + X[:, 0] * X[:, 1] + 0.5 * X[:, 2] + 0.3 * rng.normal(size=N)
labels = np.where(y > 1, "high", np.where(y > -1, "mid", "low"))
two = y > 0
COLUMNS = {"p": [0, 1], "q": [2], "r": [3, 4], "s": [5]}
GROUPS = FeatureGroups(COLUMNS, [1, 2, 4, 8])
TREE = DecisionTreeRegressor(max_depth=4, random_state=0)
CLASSIFIER = DecisionTreeClassifier(max_depth=3, random_state=0)
FRAME = pd.DataFrame(
    {"a": X[:, 0], "kind": pd.Categorical(rng.choice(["x", "y", "z"], N)), "b": X[:, 2], "n": rng.integers(0, 5, N)}
)
FRAME.loc[::7, "b"] = np.nan
target = np.where(FRAME.kind == "x", 2.0, -1.0) * FRAME.a + FRAME.n + rng.normal(size=N)
BOOSTED = HistGradientBoostingRegressor(max_iter=8, categorical_features="from_dtype", early_stopping=False)


def by_hand(estimator, order, y, test):
    """Fit one clone per prefix, and return the predictions of all on test rows."""
    bought, found = [], []
    for group in order:
        bought = sorted(bought + COLUMNS[group])
        found.append(clone(estimator).fit(X[:160][:, bought], y[:160]).predict(test[:, bought]))
    return found


def test_the_curve_is_that_of_a_loop_written_by_hand():
    order = AnytimeRegressor(GROUPS).fit(X[:160], y[:160])
    model = StagedEstimators(TREE, order).fit(X[:160], y[:160])
    expected = by_hand(TREE, order.sequence_.groups, y, X[160:])
    mean = np.full(80, y[:160].mean())
    assert np.array_equal(list(model.staged_predict(X[160:])), expected)
    curve = budget_curve(model, X[160:], y[160:], metric="r2")
    np.testing.assert_allclose(curve.values, [r2_score(y[160:], p) for p in (mean, *expected)], rtol=1e-12, atol=1e-12)
    assert np.array_equal(
        curve.costs, np.cumsum([0, *(order.feature_groups_.cost_of([g]) for g in order.sequence_.groups)])
    )
    assert curve.groups == ("", *order.sequence_.groups)
    explained = budget_curve(model, X[160:], y[160:]).values
    errors = [np.mean((y[160:] - p) ** 2) for p in (mean, *expected)]
    np.testing.assert_allclose(explained, 1 - np.array(errors) / errors[0], rtol=1e-12, atol=1e-12)


def test_curves_of_a_classifier_are_those_of_a_loop():
    order = AnytimeClassifier(GROUPS, rule="omp").fit(X[:160], two[:160])
    model = StagedEstimators(CLASSIFIER, order).fit(X[:160], two[:160])
    bought, losses, areas = [], [log_loss(two[160:], np.full(80, two[:160].mean()))], [0.5]
    for group in order.sequence_.groups:
        bought = sorted(bought + COLUMNS[group])
        proba = clone(CLASSIFIER).fit(X[:160][:, bought], two[:160]).predict_proba(X[160:][:, bought])
        losses.append(log_loss(two[160:], proba))
        areas.append(roc_auc_score(two[160:], proba[:, 1]))
    np.testing.assert_allclose(budget_curve(model, X[160:], two[160:], metric="log_loss").values, losses, rtol=1e-9)
    np.testing.assert_allclose(budget_curve(model, X[160:], two[160:], metric="roc_auc").values, areas, rtol=1e-12)


def test_several_classes_weights_and_scorers():
    model = StagedEstimators(LogisticRegression(), AnytimeClassifier(GROUPS, rule="omp")).fit(X, labels)
    assert model.classes_.tolist() == ["high", "low", "mid"]
    assert is_classifier(model)
    weight = rng.random(N)
    found = [model.score(X, labels, sample_weight=weight, stage=k) for k in range(5)]
    np.testing.assert_allclose(budget_curve(model, X, labels, metric="accuracy", sample_weight=weight).values, found)
    expected = [-log_loss(labels, model.predict_proba(X, stage=k)) for k in range(5)]
    np.testing.assert_allclose(budget_curve(model, X, labels, metric="neg_log_loss").values, expected)
    np.testing.assert_allclose(budget_curve(model, X, labels, metric="log_loss").values, -np.array(expected), rtol=1e-9)
    assert model.decision_function(X[:2], stage=0).shape == model.decision_function(X[:2]).shape == (2, 3)
    assert [p.shape for p in model.staged_predict_proba(X[:3])] == [(3, 3)] * 4


def test_keywords_choose_the_prefix():
    model = StagedEstimators(TREE, list("pqrs"), [3, 9], GROUPS).fit(X, y)
    assert model.stages_ == (2, 3)
    assert model.sequence_.groups == ("p", "q", "r")
    at = [np.full(N, y.mean()), *by_hand_on_all("pq", "pqr")]
    for keywords, k in [
        ({}, 2), ({"budget": 1}, 0), ({"budget": 3}, 1), ({"budget": 6.9}, 1), ({"budget": np.inf}, 2),
        ({"stage": 1}, 0), ({"stage": 2}, 1), ({"stage": 3}, 2), ({"available": ["q", "p"]}, 1),
        ({"available": ["q", "r", "s"]}, 0), ({"available": iter(["r", "s", "p", "q"])}, 2), ({"available": []}, 0),
    ]:  # fmt: skip
        assert np.array_equal(model.predict(X, **keywords), at[k]), keywords
    staged = list(model.staged_predict(X))
    assert all(np.array_equal(a, b) for a, b in zip(staged, [at[0], at[1], at[2]], strict=True))
    gone = X.copy()
    gone[:, 3:] = np.nan
    assert np.array_equal(model.predict(gone, budget=3), at[1])


def by_hand_on_all(*prefixes):
    columns = [sorted(d for g in prefix for d in COLUMNS[g]) for prefix in prefixes]
    return [clone(TREE).fit(X[:, own], y).predict(X[:, own]) for own in columns]


@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        ({"budget": -1}, "budget must be a cost ≥ 0"),
        ({"stage": 5}, "stage must be between 0 and 4"),
        ({"budget": 1, "stage": 1}, "pass at most one of"),
        ({"available": ["zz"]}, "unknown group 'zz' in available"),
        ({"available": "auto"}, "prefixes only"),
    ],
)
def test_wrong_keywords(keywords, message):
    model = StagedEstimators(Ridge(), list("pqrs"), feature_groups=GROUPS).fit(X, y)
    with pytest.raises(ValueError, match=message):
        model.predict(X, **keywords)


@pytest.mark.parametrize("framed", [FRAME, pl.from_pandas(FRAME)], ids=["pandas", "polars"])
def test_frames_stay_frames_and_columns_are_found_by_name(framed):
    model = StagedEstimators(BOOSTED, ["n", "kind", "a", "b"], costs=[3, 2, 4, 1]).fit(framed, target)
    own = framed[["kind", "n"]]
    expected = clone(BOOSTED).fit(own, target).predict(own)
    assert model.estimators_[1].feature_names_in_.tolist() == ["kind", "n"]
    assert model.estimators_[1].is_categorical_.tolist() == [True, False]
    np.testing.assert_array_equal(model.predict(framed[["n", "b", "kind"]], stage=2), expected)
    with pytest.raises(ValueError, match="column 'a' of group 'a' is missing: StagedEstimators was fitted with it"):
        model.predict(own, stage=3)


def test_a_table_of_another_kind_is_answered_with_a_warning():
    numbers = FRAME[["a", "n"]]
    model = StagedEstimators(Ridge(), ["n", "a"]).fit(numbers, target)
    with pytest.warns(UserWarning, match="X does not have valid feature names, but StagedEstimators"):
        found = model.predict(numbers.to_numpy())
    np.testing.assert_allclose(found, model.predict(numbers))
    model = StagedEstimators(Ridge(), ["1", "0"]).fit(numbers.to_numpy(), target)
    with pytest.warns(UserWarning, match="X has feature names, but StagedEstimators was fitted without"):
        np.testing.assert_allclose(model.predict(numbers), found)


def test_an_order_learned_with_an_encoding_buys_raw_columns():
    order = AnytimeRegressor(encoding=budgetline.Encoding(interactions=2), costs=[3, 1, 2, 1])
    model = StagedEstimators(BOOSTED, order).fit(FRAME, target)
    assert sorted(model.sequence_.groups) == ["a", "b", "kind", "n"]  # and no pairs
    assert not hasattr(order, "model_")
    groups = model.order_estimator_.sequence_.groups
    assert [g for g in groups if g in FRAME] == list(model.sequence_.groups)
    np.testing.assert_allclose(model.sequence_.explained[-1], model.order_estimator_.sequence_.explained[-1])
    assert model.sequence_.costs.sum() == 7


def test_orders_of_every_kind_are_the_same():
    fitted = AnytimeRegressor(GROUPS).fit(X, y)
    names = list(fitted.sequence_.groups)
    listed = {"feature_groups": GROUPS}
    orders = [(fitted, {}), (fitted.model_, {}), (AnytimeRegressor(GROUPS), {}), (FrozenEstimator(fitted), {})]
    orders += [(names, listed), (FixedOrder(names), listed), (fitted.sequence_, listed), (pd.Series(names), listed)]
    staged = StagedEstimators(TREE, names, feature_groups=GROUPS).fit(X, y)
    orders += [(staged, {}), (staged.model_, {})]
    search = GridSearchCV(AnytimeRegressor(GROUPS), {"alpha": [1e-5]}, cv=2)
    orders += [(search, {}), (clone(search).fit(X, y), {})]
    for order, more in orders:
        model = StagedEstimators(Ridge(), order, **more).fit(X, y)
        assert model.sequence_.groups == fitted.sequence_.groups
        assert np.array_equal(model.sequence_.costs, fitted.sequence_.costs)
        assert hasattr(model, "order_estimator_") == any(order is unfitted for unfitted in (orders[2][0], search))
        copied = clone(model).fit(X, y)
        assert np.array_equal(copied.predict(X), model.predict(X))


def test_shared_costs_and_requirements():
    groups = FeatureGroups(COLUMNS, [1, 2, 4, 0], shared={"draw": (5, ["p", "q"])}, requires={"s": ["q"]})
    model = StagedEstimators(Ridge(), list("pqsr"), feature_groups=groups).fit(X, y)
    assert model.sequence_.costs.tolist() == [6, 2, 0, 4]
    with pytest.raises(ValueError, match="requires 'q', without 'q' before it"):
        StagedEstimators(Ridge(), list("psqr"), feature_groups=groups).fit(X, y)


# -- which prefixes ------------------------------------------------------------------------------------------

MANY = {str(d): [d] for d in range(6)}


@pytest.mark.parametrize(
    ("stages", "costs", "expected"),
    [
        (None, [1, 1, 1, 1, 1, 1], (1, 2, 3, 4, 5, 6)),
        (1, [1, 1, 1, 1, 1, 1], (6,)),
        (2, [1, 3, 5, 7, 9, 11], (3, 6)),  # costs are squares: evenly spread in their roots
        (3, [1, 3, 5, 7, 9, 11], (2, 4, 6)),
        (9, [1, 1, 1, 1, 1, 1], (1, 2, 3, 4, 5, 6)),
        (2, [0, 0, 5, 0, 0, 0], (2, 6)),  # the longest of prefixes of equal cost
        (5, [0, 0, 5, 0, 0, 0], (2, 6)),
        ([3, 2.5, 100, 0.5], [1, 1, 1, 1, 1, 1], (2, 3, 6)),
        (np.array([1.0]), [1, 1, 1, 1, 1, 1], (1,)),
        (range(2, 4), [1, 1, 1, 1, 1, 1], (2, 3)),
    ],
)
def test_which_prefixes_get_a_clone(stages, costs, expected):
    model = StagedEstimators(Ridge(), list(MANY), stages, FeatureGroups(MANY, costs)).fit(X, y)
    assert model.stages_ == expected
    assert len(model.estimators_) == len(expected)


@pytest.mark.parametrize(
    ("changed", "error", "message"),
    [
        ({"stages": "best"}, TypeError, "stages must be None"),
        ({"stages": 0}, ValueError, "stages must be an integer ≥ 1"),
        ({"stages": [0.5]}, ValueError, "no budget in stages buys a group: the first costs 1"),
        ({"stages": [-1]}, ValueError, "a budget in stages must be a cost ≥ 0"),
        ({"order": []}, ValueError, "order has no groups"),
        ({"order": ["p", "zz"]}, ValueError, "no group 'zz' for the fixed order"),
        ({"order": AnytimeRegressor()}, ValueError, "feature_groups is for an order that is a list"),
        ({"order": make_pipeline(StandardScaler(), AnytimeRegressor()), "feature_groups": None}, TypeError, "pipeline"),
        ({"order": Ridge(), "feature_groups": None}, TypeError, "Ridge has no stages"),
        ({"order": 3}, ValueError, "order"),
        ({"order": {"p", "q"}}, TypeError, "order must be a model or a list of groups, got {"),
        (
            {"order": AnytimeClassifier(), "feature_groups": None},
            TypeError,
            "order is the classifier AnytimeClassifier",
        ),
        ({"estimator": KMeans()}, TypeError, "must be a classifier or a regressor, KMeans is a clusterer"),
        ({"estimator": StandardScaler()}, ValueError, "estimator"),
    ],
)
def test_wrong_settings(changed, error, message):
    model = StagedEstimators(Ridge(), ["p", "q"], feature_groups=GROUPS).set_params(**changed)
    with pytest.raises(error, match=message):
        model.fit(X, y)
    assert not hasattr(model, "model_")


# -- scikit-learn --------------------------------------------------------------------------------------------


def test_weights_reach_the_clones_and_the_order():
    weight = rng.integers(0, 3, N).astype(float)
    rows = np.repeat(np.arange(N), weight.astype(int))
    for estimator in (LinearRegression(), make_pipeline(StandardScaler(with_std=False), LinearRegression())):
        model = StagedEstimators(estimator, AnytimeRegressor(GROUPS)).fit(X, y, sample_weight=weight)
        repeated = StagedEstimators(estimator, AnytimeRegressor(GROUPS)).fit(X[rows], y[rows])
        assert model.sequence_.groups == repeated.sequence_.groups
        np.testing.assert_allclose(
            list(model.staged_predict(X)), list(repeated.staged_predict(X)), rtol=1e-8, atol=1e-8
        )
        np.testing.assert_allclose(model.predict(X[:1], stage=0), np.average(y, weights=weight))
    with pytest.raises(ValueError, match="KNeighborsRegressor accepts no sample_weight"):
        StagedEstimators(KNeighborsRegressor(), AnytimeRegressor(GROUPS)).fit(X, y, sample_weight=weight)


def test_labels_that_are_text_need_an_order_of_classes():
    with pytest.raises(TypeError, match="order is the regressor AnytimeRegressor, but y holds labels"):
        StagedEstimators(CLASSIFIER, AnytimeRegressor(GROUPS)).fit(X, labels)


@pytest.mark.parametrize("table", [X, pd.DataFrame(X, columns=list("abcdef"))], ids=["array", "frame"])
def test_an_error_of_a_clone_says_which(table):
    order, gaps = list("prqs"), table.copy()
    gaps["c" if table is not X else (slice(None), 2)] = np.nan
    with pytest.raises(ValueError, match="contains NaN") as error:
        StagedEstimators(Ridge(), order, feature_groups=GROUPS).fit(gaps, y)
    names = "0, 1, 2, 3, 4" if table is X else "'a', 'b', 'c', 'd', 'e'"
    assert error.value.__notes__ == [f"This is from the clone that is fitted on columns {names}."]


def test_parameters_are_nested_and_searched():
    model = StagedEstimators(clone(TREE), AnytimeRegressor(GROUPS))
    assert model.get_params()["estimator__max_depth"] == 4
    model.set_params(estimator__max_depth=2, order__alpha=0.1)
    assert (model.estimator.max_depth, model.order.alpha) == (2, 0.1)
    search = GridSearchCV(model, {"estimator__max_depth": [1, 4], "order__rule": ["forward", "omp"]}, cv=2).fit(X, y)
    assert search.best_params_["estimator__max_depth"] == 4
    assert np.isfinite(budget_curve(search, X, y).values).all()


def test_methods_are_those_of_the_estimator():
    regressor = StagedEstimators(Ridge(), AnytimeRegressor())
    assert is_regressor(regressor)
    assert not hasattr(regressor, "predict_proba")
    without = StagedEstimators(RidgeClassifier(), AnytimeClassifier(GROUPS, rule="omp"))
    assert not hasattr(without, "predict_proba")
    assert hasattr(without, "decision_function")
    model = without.fit(X, two)
    assert np.isfinite(budget_curve(model, X, two, metric="roc_auc").values).all()
    with pytest.raises(ValueError, match="RidgeClassifier has no predict_proba"):
        budget_curve(model, X, two)
    assert not get_tags(StagedEstimators(HistGradientBoostingClassifier(), AnytimeClassifier())).input_tags.allow_nan
    assert get_tags(StagedEstimators(HistGradientBoostingClassifier(), ["0"])).input_tags.allow_nan


def test_several_targets():
    Y = np.column_stack([y, -2 * y + X[:, 3]])
    model = StagedEstimators(Ridge(), AnytimeRegressor(GROUPS)).fit(X, Y)
    assert model.predict(X, stage=0).shape == model.predict(X).shape == (N, 2)
    found = budget_curve(model, X, Y, metric="r2").values[-1]
    np.testing.assert_allclose(found, r2_score(Y, model.predict(X)))


def test_jobs_and_progress_change_nothing(capsys):
    model = StagedEstimators(TREE, AnytimeRegressor(GROUPS)).fit(X, y, progress=True)
    assert " of 4 " in capsys.readouterr().err
    with parallel_backend("threading"):  # quicker to start than processes
        parallel = StagedEstimators(TREE, AnytimeRegressor(GROUPS), n_jobs=2).fit(X, y, progress=False)
    assert np.array_equal(list(model.staged_predict(X)), list(parallel.staged_predict(X)))


def test_an_estimator_of_ours_can_be_cloned():
    inner = AnytimeRegressor(encoding="spline")
    model = StagedEstimators(inner, ["n", "kind", "a", "b"]).fit(FRAME, target)
    own = FRAME[["kind", "n"]]
    np.testing.assert_array_equal(model.predict(FRAME, stage=2), clone(inner).fit(own, target).predict(own))


# -- with the rest of the library ----------------------------------------------------------------------------


def test_comparison_display_and_cross_validation():
    pytest.importorskip("matplotlib")
    methods = {"linear": AnytimeRegressor(GROUPS), "tree": StagedEstimators(TREE, AnytimeRegressor(GROUPS))}
    folds = list(KFold(3).split(X))
    weight = rng.random(N) + 0.1
    found = compare(methods, X, y, metric="r2", cv=folds, fraction=0.9, sample_weight=weight)
    by_fold = []
    for train, test in folds:
        model = clone(methods["tree"]).fit(X[train], y[train], sample_weight=weight[train])
        by_fold.append(budget_curve(model, X[test], y[test], metric="r2", sample_weight=weight[test]).values[-1])
    np.testing.assert_allclose(found.curves["tree"].values[-1], np.mean(by_fold))
    curve = cross_val_budget_curve(methods["tree"], X, y, metric="r2", cv=folds, sample_weight=weight)
    np.testing.assert_array_equal(curve.values, found.curves["tree"].values)
    assert compare(methods, X, y, cv=2).curves.keys() == methods.keys()  # both explain variance
    display = BudgetCurveDisplay.from_estimator(methods["tree"].fit(X, y), X, y)
    assert list(display.curves) == ["StagedEstimators"]


def test_the_report_has_what_needs_no_linear_model():
    model = StagedEstimators(CLASSIFIER, AnytimeClassifier(GROUPS, rule="omp"), 2).fit(X, two)
    with pytest.raises(ValueError, match="needs X and y"):
        make_report(model)
    report = make_report(model, X, two, cv=2)
    assert report.effects == ()
    assert report.measure.name == "roc_auc"
    assert [stage.gain for stage in report.sequence] == [None] * 4
    methods = [method.name for method in report.comparison.methods]
    assert methods[0] == "this model"
    assert "cheapest first" in methods
    assert "StagedEstimators" in report.to_markdown()
    listed = StagedEstimators(CLASSIFIER, list("pq"), feature_groups=GROUPS).fit(X, two)
    assert make_report(listed, X, two, cv=2).comparison is None


def test_what_needs_a_linear_model_says_so():
    model = StagedEstimators(Ridge(), AnytimeRegressor(GROUPS)).fit(X, y)
    with pytest.raises(TypeError, match="StagedEstimators has no linear model"):
        certify(model)
    with pytest.raises(TypeError, match="to_onnx accepts a fitted AnytimeRegressor"):
        to_onnx(model)
    with pytest.raises(TypeError, match="has no linear model"):
        budget_curve(model, model.order_estimator_.moments_)
    with pytest.raises(TypeError, match="not a Source"):
        StagedEstimators(Ridge(), AnytimeRegressor(GROUPS)).fit(budgetline.open_data((X, y)), y)
    assert certify(model.order_estimator_).budgets.size


def extractors(groups):
    return {name: lambda raw, own=own: [raw[d] for d in own] for name, own in groups.items()}


def test_the_runner_buys_prefixes():
    model = StagedEstimators(CLASSIFIER, AnytimeClassifier(GROUPS, rule="omp"), [3, 100]).fit(X, two)
    with AnytimeRunner(model, extractors(COLUMNS)) as runner:
        for budget in (0, 1, 3, 7, 15):
            answer = runner.predict(X[0], budget=budget)
            assert answer.value == model.predict(X[:1], budget=budget)[0]
            assert np.array_equal(answer.probabilities, model.predict_proba(X[:1], budget=budget)[0])
        many = runner.predict_many(list(X[:9]))
        assert np.array_equal(many.value, model.predict(X[:9]))


def test_a_lost_group_ends_the_run():
    model = StagedEstimators(Ridge(), list("pqrs"), feature_groups=GROUPS).fit(X, y)
    calls = extractors(COLUMNS) | {"q": lambda raw: [None]}
    with AnytimeRunner(model, calls) as runner:
        answer = runner.predict(X[0])
        assert answer.groups == ("p",)
        assert answer.spent == 3
        assert answer.value == model.predict(X[:1], stage=1)[0]
        assert str(answer.faults["q"]) == "not finite: column '2' is missing"
        assert answer.faults["r"].kind == "required"
        some = [list(x) for x in X[:4]]
        calls["q"] = lambda raw: [raw[2]]
        some[1][2] = np.nan
    with AnytimeRunner(model, calls) as runner:
        found = runner.predict_many(some).value
        assert found[1] == model.predict(X[1:2], stage=1)[0]
        assert np.array_equal(found[[0, 2, 3]], model.predict(X[[0, 2, 3]]))


@pytest.mark.parametrize("framed", [FRAME, pl.from_pandas(FRAME)], ids=["pandas", "polars"])
def test_the_runner_makes_frames(framed):
    model = StagedEstimators(BOOSTED, ["n", "kind", "a", "b"]).fit(framed, target)
    rows = FRAME.to_dict("records")[:8]
    with AnytimeRunner(model, {name: lambda raw, name=name: raw[name] for name in FRAME}) as runner:
        np.testing.assert_array_equal(runner.predict_many(rows).value, model.predict(framed[:8]))
        answer = runner.predict({**rows[0], "n": "many"})
        assert str(answer.faults["n"]) == "type: column 'n' holds 'many', not a finite number"
        assert answer.stage == 0


def test_early_exit():
    model = StagedEstimators(LogisticRegression(), AnytimeClassifier(GROUPS, rule="omp")).fit(X, two)
    early_exit = EarlyExit.fit(model, X, threshold=0.2)
    with AnytimeRunner(model, extractors(COLUMNS), early_exit=early_exit) as runner:
        answers = [runner.predict(x) for x in X[:40]]
    assert "decided" in {answer.reason for answer in answers}
    for k, answer in enumerate(answers):
        assert answer.value == model.predict(X[k : k + 1], stage=answer.stage)[0]


# -- files ---------------------------------------------------------------------------------------------------


def loaded(path):
    """Load a file of types that skops does not know, which the first error lists."""
    with pytest.raises(TypeError, match="types that may run code") as error:
        budgetline.load(path)
    return budgetline.load(path, trusted=str(error.value).split("'")[1::2])


@pytest.mark.parametrize("framed", [FRAME, pl.from_pandas(FRAME), FRAME.to_numpy], ids=["pandas", "polars", "array"])
def test_saved_and_loaded(framed, tmp_path):
    pytest.importorskip("skops")
    table = FRAME[["a", "b", "n"]].to_numpy() if callable(framed) else framed
    order = ["2", "0", "1"] if callable(framed) else ["n", "kind", "a", "b"]
    model = StagedEstimators(TREE if callable(framed) else BOOSTED, order, 2)
    model.fit(table, target)
    budgetline.save(model, tmp_path / "model")
    back = loaded(tmp_path / "model")
    for stage in range(len(order) + 1):
        assert np.array_equal(back.predict(table, stage=stage), model.predict(table, stage=stage))
    assert back.stages_ == model.stages_
    assert back.feature_groups_ == model.feature_groups_
    assert np.array_equal(clone(back).fit(table, target).predict(table), model.predict(table))
    if not callable(framed):
        rows = FRAME.to_dict("records")[:3]
        with AnytimeRunner(back, {name: lambda raw, name=name: raw[name] for name in FRAME}) as runner:
            assert np.array_equal(runner.predict_many(rows).value, model.predict(framed[:3]))


def test_what_is_not_trusted_is_not_loaded(tmp_path):
    pytest.importorskip("skops")
    model = StagedEstimators(HistGradientBoostingClassifier(max_iter=2), list("pq"), feature_groups=GROUPS)
    budgetline.save(model.fit(X, labels), tmp_path / "model")
    with pytest.raises(TypeError, match=r"types that may run code: .*'sklearn.*TreePredictor'.*trusted="):
        budgetline.load(tmp_path / "model")
    linear = AnytimeRegressor(GROUPS).fit(X, y)
    budgetline.save(linear, tmp_path / "linear")
    with pytest.raises(ValueError, match="trusted is for files of StagedEstimators"):
        budgetline.load(tmp_path / "linear", trusted=["a.b"])


def forged(path, change, part="null"):
    """Change a part of a file that skops wrote, or a field, with a checksum that is right."""
    arrays, fields = decode(path.read_bytes(), "staged estimators")
    if part in arrays:
        with ZipFile(BytesIO(arrays[part].tobytes())) as archive:
            entries = {name: archive.read(name) for name in archive.namelist()}
        entries["schema.json"] = change(entries["schema.json"])
        with ZipFile(changed := BytesIO(), "w") as archive:
            for name, content in entries.items():
                archive.writestr(name, content)
        arrays[part] = np.frombuffer(changed.getvalue(), np.uint8)
    else:
        fields[part] = change(fields[part])
    path.write_bytes(encode("staged estimators", arrays, fields))


FORGERIES = {
    "no JSON": lambda schema: b"{",
    "no text": lambda schema: b"\xff" + schema,
    "a list": lambda schema: b"[]",
    "no loader": lambda schema: schema.replace(b"__loader__", b"__none__"),
    "an unknown loader": lambda schema: schema.replace(b"ObjectNode", b"StrangeNode"),
    "an absent file": lambda schema: schema.replace(b".npy", b".absent"),
    "a number": lambda schema: b"7",
    "a mapping": lambda schema: schema.replace(b"ObjectNode", b"DictNode"),
}


@pytest.mark.parametrize("change", FORGERIES.values(), ids=FORGERIES)
def test_forged_parts_are_refused_by_the_name_of_the_file(change, tmp_path):
    pytest.importorskip("skops")
    path = tmp_path / "model"
    budgetline.save(StagedEstimators(Ridge(), list("pqrs"), feature_groups=GROUPS).fit(X, y), path)
    forged(path, change, "estimators")
    with pytest.raises(
        (ValueError, TypeError), match=r"model (does not hold staged estimators|holds objects of types)"
    ):
        budgetline.load(path)


def test_parts_that_are_no_estimators_and_damaged_bytes_are_refused(tmp_path):
    io = pytest.importorskip("skops.io")
    path = tmp_path / "model"
    budgetline.save(StagedEstimators(Ridge(), list("pqrs"), feature_groups=GROUPS).fit(X, y), path)
    arrays, fields = decode(path.read_bytes(), "staged estimators")
    whole = arrays["estimators"].tobytes()
    others = [io.dumps(each) for each in ({"a": 1}, np.arange(3), [Ridge()], [Ridge()] * 3, 7)]
    for part in (*others, b"", b"PK", whole[:-40]):
        changed = arrays | {"estimators": np.frombuffer(part, np.uint8)}
        path.write_bytes(encode("staged estimators", changed, fields))
        with pytest.raises(ValueError, match="staged estimators that can be restored here"):
            budgetline.load(path)


def test_a_forged_number_of_columns_takes_no_memory(tmp_path):
    pytest.importorskip("skops")
    path = tmp_path / "model"
    budgetline.save(StagedEstimators(Ridge(), list("pqrs"), feature_groups=GROUPS).fit(X, y), path)
    forged(path, lambda _: 2**40, "n_features")
    with pytest.raises(ValueError, match=r"model.*1099511627770 columns \(6, 7, 8, 9, 10, …\) are in no group"):
        budgetline.load(path)


def test_what_skops_cannot_store_is_not_saved(tmp_path):
    pytest.importorskip("skops")
    odd = make_pipeline(FunctionTransformer(lambda table: table), Ridge())
    model = StagedEstimators(odd, list("pq"), feature_groups=GROUPS).fit(X, y)
    with pytest.raises(TypeError, match="this Pipeline cannot be saved"):
        budgetline.save(model, tmp_path / "model")
    assert not list(tmp_path.iterdir())


def test_without_skops_the_error_names_the_extra(monkeypatch, tmp_path):
    monkeypatch.setitem(__import__("sys").modules, "skops.io", None)
    model = StagedEstimators(Ridge(), list("pq"), feature_groups=GROUPS).fit(X, y)
    with pytest.raises(ImportError, match=r"\.\[skops\]"):
        budgetline.save(model, tmp_path / "model")


@pytest.mark.parametrize("package", ["lightgbm", "catboost", "interpret.glassbox"])
def test_estimators_of_others(package, tmp_path):
    module = pytest.importorskip(package)
    pytest.importorskip("skops")
    estimator = {
        "lightgbm": lambda: module.LGBMClassifier(n_estimators=3, verbose=-1, n_jobs=1),
        "catboost": lambda: module.CatBoostClassifier(
            iterations=3, verbose=0, thread_count=1, allow_writing_files=False
        ),
        "interpret.glassbox": lambda: module.ExplainableBoostingClassifier(
            max_rounds=3, outer_bags=1, interactions=0, n_jobs=1
        ),
    }[package]()
    model = StagedEstimators(estimator, AnytimeClassifier(GROUPS, rule="omp"), 2).fit(X, two.astype(int))
    assert budget_curve(model, X, two.astype(int), metric="roc_auc").values[-1] > 0.7
    budgetline.save(model, tmp_path / "model")
    back = loaded(tmp_path / "model")
    assert np.array_equal(back.predict_proba(X, budget=5), model.predict_proba(X, budget=5))
