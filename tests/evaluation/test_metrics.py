"""Every metric of every stage against a plain loop over ``predict(X, stage=j)`` and scikit-learn's functions."""

import copy
import tracemalloc
from functools import partial

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse
from scipy.linalg import LinAlgWarning
from sklearn import metrics as sk
from sklearn.base import is_classifier, is_regressor
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.validation import check_is_fitted

from budgetline import (
    AnytimeClassifier,
    AnytimeRegressor,
    AnytimeRegressorCV,
    Moments,
    budget_curve,
    compare,
    cross_val_budget_curve,
    open_data,
)
from budgetline.evaluation import ndcg_score
from budgetline.evaluation.metrics import LABELS, METRICS, label_of
from budgetline.model import stages

pytestmark = pytest.mark.quick_cases(10)

GROUPS = {"a": [0, 1], "b": [2], "c": [3, 4], "d": [5]}
COSTS = {"a": 1.0, "b": 0.0, "c": 2.0, "d": 3.0}
NAMES = ["u", "v", "w", "x", "y", "z"]
REGRESSION = ["explained", "gain", "mse", "r2"]


def data(seed=0, n=160, P=None):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 6)) @ rng.standard_normal((6, 6))
    W = rng.standard_normal((6, P or 1))
    Y = X @ W + 3 * rng.standard_normal((n, P or 1)) + 7
    weight = rng.uniform(0, 2, n)
    weight[::9] = 0
    return X, Y if P else Y[:, 0], weight


def fitted(P=None, **kwargs):
    X, Y, _ = data(P=P)
    return AnytimeRegressor(GROUPS, COSTS, **kwargs).fit(X[:80], Y[:80]), X[80:], Y[80:], data()[2][80:]


def labelled(n_classes):
    X, y, weight = data(n=240)
    labels = np.array(["no", "perhaps", "yes"])[[0, 2] if n_classes == 2 else [0, 1, 2]]
    y = labels[np.digitize(y, np.quantile(y, np.arange(1, n_classes) / n_classes))]
    model = AnytimeClassifier(GROUPS, COSTS, alpha=1e-2).fit(X[:120], y[:120])
    return model, X[120:], y[120:], weight[120:]


def loop(model, X, function, method="predict"):
    return np.array([function(getattr(model, method)(X, stage=j)) for j in range(len(model.sequence_) + 1)])


def regression_truth(model, X, Y, weight):
    """Return all metrics of a regressor by the slow way."""
    errors = loop(model, X, lambda p: sk.mean_squared_error(Y, p, sample_weight=weight))
    P = 1 if Y.ndim == 1 else Y.shape[1]
    return {
        "explained": 1 - errors / errors[0],
        "gain": P * (errors[0] - errors) / 2,
        "mse": errors,
        "r2": loop(model, X, lambda p: sk.r2_score(Y, p, sample_weight=weight)),
    }


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("P", [None, 1, 2])
def test_regression(P, weighted):
    model, X, Y, weight = fitted(P)
    weight = weight if weighted else None
    for metric, truth in regression_truth(model, X, Y, weight).items():
        curve = budget_curve(model, X, Y, metric=metric, sample_weight=weight)
        np.testing.assert_allclose(curve.values, truth, rtol=1e-10, atol=1e-12)
        assert curve.metric == metric
        assert curve.greater_is_better == (metric != "mse")
        moments = budget_curve(model, Moments.from_data(X, Y, weight), metric=metric)
        np.testing.assert_allclose(moments.values, truth, rtol=1e-9, atol=1e-11)
        assert moments.costs.tolist() == curve.costs.tolist()


@pytest.mark.parametrize("weighted", [False, True])
def test_poisson(weighted):
    X, y, weight = data()
    y = np.random.default_rng(0).poisson(np.exp((y - 7) / 10))
    weight = weight[80:] if weighted else None
    model = AnytimeRegressor(GROUPS, COSTS, loss="poisson").fit(X[:80], y[:80])
    X, y = X[80:], y[80:]
    deviances = loop(model, X, lambda p: sk.mean_poisson_deviance(y, p, sample_weight=weight))
    errors = loop(model, X, lambda p: sk.mean_squared_error(y, p, sample_weight=weight))
    found = {m: budget_curve(model, X, y, metric=m, sample_weight=weight).values for m in REGRESSION}
    np.testing.assert_allclose(found["explained"], 1 - deviances / deviances[0], rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(found["gain"], (deviances[0] - deviances) / 2, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(found["mse"], errors, rtol=1e-10)
    truth = loop(model, X, lambda p: sk.r2_score(y, p, sample_weight=weight))
    np.testing.assert_allclose(found["r2"], truth, rtol=1e-9, atol=1e-12)
    with pytest.raises(ValueError, match="squared error only"):
        budget_curve(model, Moments.from_data(X, y))


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_classification(n_classes, weighted):
    model, X, y, weight = labelled(n_classes)
    w = {"sample_weight": weight if weighted else None}
    losses = loop(model, X, lambda p: sk.log_loss(y, p, labels=model.classes_, **w), "predict_proba")
    if n_classes == 2:
        areas = loop(model, X, lambda p: sk.roc_auc_score(y, p, **w), "decision_function")
    else:
        areas = loop(model, X, lambda p: sk.roc_auc_score(y, p, multi_class="ovr", **w), "predict_proba")
    truth = {
        "explained": 1 - losses / losses[0],
        "gain": losses[0] - losses,
        "log_loss": losses,
        "accuracy": loop(model, X, lambda p: sk.accuracy_score(y, p, **w)),
        "roc_auc": areas,
        "neg_log_loss": -losses,
        "balanced_accuracy": loop(model, X, lambda p: sk.balanced_accuracy_score(y, p, **w)),
    }
    for metric, values in truth.items():
        curve = budget_curve(model, X, y, metric=metric, **w)
        np.testing.assert_allclose(curve.values, values, rtol=1e-9, atol=1e-11, err_msg=metric)
        assert curve.greater_is_better == (metric != "log_loss")
    assert truth["roc_auc"][0] == pytest.approx(0.5)


def test_accuracy_and_area_of_a_regressor_on_two_values():
    X, y, weight = data()
    y = np.where(y > np.median(y), 2, 1)
    model = AnytimeRegressor(GROUPS, COSTS).fit(X[:80], y[:80])
    X, y, w = X[80:], y[80:], weight[80:]
    truth = loop(model, X, lambda p: sk.accuracy_score(y, np.where(p > 1.5, 2, 1), sample_weight=w))
    np.testing.assert_allclose(budget_curve(model, X, y, metric="accuracy", sample_weight=w).values, truth)
    area = loop(model, X, lambda p: sk.roc_auc_score(y, p, sample_weight=w))
    np.testing.assert_allclose(budget_curve(model, X, y, metric="roc_auc", sample_weight=w).values, area)


@pytest.mark.parametrize("kind", ["csr", "csc", "coo", "list", "pandas", "polars", "float32"])
def test_kinds_of_tables(kind):
    X, y, _ = data()
    make = {
        "csr": sparse.csr_matrix,
        "csc": sparse.csc_array,
        "coo": sparse.coo_matrix,
        "list": np.ndarray.tolist,
        "pandas": partial(pd.DataFrame, columns=NAMES),
        "polars": lambda X: pl.DataFrame(X, schema=NAMES),
        "float32": lambda X: X.astype(np.float32),
    }[kind]
    groups = {g: [NAMES[d] for d in c] for g, c in GROUPS.items()} if kind in ("pandas", "polars") else GROUPS
    model = AnytimeRegressor(groups, COSTS).fit(make(X[:80]), y[:80])
    truth = regression_truth(model, make(X[80:]), y[80:], None)
    for metric in REGRESSION:
        found = budget_curve(model, make(X[80:]), y[80:], metric=metric).values
        np.testing.assert_allclose(found, truth[metric], rtol=1e-9, atol=1e-10)
    scored = budget_curve(model, make(X[80:]), y[80:], metric="neg_mean_squared_error").values
    np.testing.assert_allclose(scored, -truth["mse"], rtol=1e-9)


def test_columns_that_no_stage_uses_are_not_read():
    X, y, _ = data()
    frame = pd.DataFrame(X, columns=NAMES)
    groups = {g: [NAMES[d] for d in c] for g, c in GROUPS.items()}
    model = AnytimeRegressor(groups, COSTS, max_groups=2).fit(frame[:80], y[:80])
    test = frame[80:].reset_index(drop=True)
    truth = budget_curve(model, test, y[80:], metric="mse").values
    used = [name for g in groups if g in model.sequence_.groups for name in groups[g]]
    missing = test.copy()
    missing[[name for name in NAMES if name not in used]] = np.nan
    text = test.assign(**{name: "text" for name in NAMES if name not in used})
    for other in (missing, text, test[used]):  # as for predict, they may even be absent
        for metric in ("mse", lambda est, X, y: sk.mean_squared_error(y, est.predict(X))):
            np.testing.assert_allclose(budget_curve(model, other, y[80:], metric=metric).values, truth, rtol=1e-12)
    missing[used[0]] = np.nan
    with pytest.raises(ValueError, match=f"NaN: column '{used[0]}'"):
        budget_curve(model, missing, y[80:])


@pytest.mark.parametrize("level", [1e6, -1e9])
def test_large_means_do_not_cancel(level):
    model, X, y, _ = fitted()
    X0, y0, _ = data()
    far = AnytimeRegressor(GROUPS, COSTS).fit(X0[:80], y0[:80] + level)
    for metric in REGRESSION:
        near = budget_curve(model, X, y, metric=metric).values
        atol = 4e-16 * abs(level) * 100
        np.testing.assert_allclose(budget_curve(far, X, y + level, metric=metric).values, near, rtol=0, atol=atol)
        moments = budget_curve(far, Moments.from_data(X, y + level), metric=metric).values
        np.testing.assert_allclose(moments, near, rtol=0, atol=atol)


@pytest.mark.parametrize("size", [1, 200, 5000])
def test_chunks_change_nothing(size, monkeypatch):
    regressor, X, Y, weight = fitted(2)
    classifier, Xc, yc, wc = labelled(3)
    calls = [(regressor, X, Y, weight, m) for m in (*REGRESSION, "neg_mean_absolute_error")]
    calls += [(classifier, Xc, yc, wc, m) for m in ("explained", "accuracy", "log_loss", "roc_auc", "neg_log_loss")]
    whole = [budget_curve(m, X, y, metric=k, sample_weight=w).values for m, X, y, w, k in calls]
    monkeypatch.setattr(stages, "SCORE_BYTES", size)
    parts = [budget_curve(m, X, y, metric=k, sample_weight=w).values for m, X, y, w, k in calls]
    for one, other in zip(whole, parts, strict=True):
        np.testing.assert_allclose(other, one, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("metric", ["mse", "explained", "accuracy"])
def test_memory_is_bounded_by_the_chunk(metric, monkeypatch):
    """All predictions of 41 stages for 200,000 rows would take 66 MB; chunks of 4 MB need a few times 4."""
    monkeypatch.setattr(stages, "SCORE_BYTES", 1 << 22)
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200_000, 40), dtype=np.float32)
    y = X[:, 0] + X[:, 1] if metric != "accuracy" else X[:, 0] > 0
    y = y.astype(float)
    model = AnytimeRegressor().fit(X[:500], y[:500])
    tracemalloc.start()
    try:
        budget_curve(model, X, y, metric=metric)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 200_000 * 41 * 8 / 2


# ---- scorers, functions, wrappers


def test_scorers_by_name():
    model, X, y, weight = fitted()
    for name, function in [
        ("neg_mean_absolute_error", lambda p: -sk.mean_absolute_error(y, p, sample_weight=weight)),
        ("neg_root_mean_squared_error", lambda p: -sk.root_mean_squared_error(y, p, sample_weight=weight)),
        ("explained_variance", lambda p: sk.explained_variance_score(y, p, sample_weight=weight)),
    ]:
        curve = budget_curve(model, X, y, metric=name, sample_weight=weight)
        np.testing.assert_allclose(curve.values, loop(model, X, function), rtol=1e-10, atol=1e-12)
        assert curve.metric == name
        assert curve.greater_is_better


@pytest.mark.parametrize("n_classes", [2, 3])
def test_scorers_made_by_hand(n_classes):
    model, X, y, _ = labelled(n_classes)
    scorer = sk.make_scorer(sk.log_loss, greater_is_better=False, response_method="predict_proba")
    curve = budget_curve(model, X, y, metric=scorer)
    truth = loop(model, X, lambda p: -sk.log_loss(y, p), "predict_proba")
    np.testing.assert_allclose(curve.values, truth, rtol=1e-10)
    assert curve.metric == "neg_log_loss"
    if n_classes == 2:
        scorer = sk.make_scorer(sk.roc_auc_score, response_method=("decision_function", "predict_proba"))
        truth = loop(model, X, lambda p: sk.roc_auc_score(y, p), "decision_function")
        np.testing.assert_allclose(budget_curve(model, X, y, metric=scorer).values, truth)
    kappa = budget_curve(model, X, y, metric=sk.make_scorer(sk.cohen_kappa_score)).values
    np.testing.assert_allclose(kappa, loop(model, X, lambda p: sk.cohen_kappa_score(y, p)))


POSITIVE = {
    "f1": lambda y, view, label, w: sk.f1_score(y, view("predict"), pos_label=label, sample_weight=w),
    "precision": lambda y, view, label, w: sk.precision_score(y, view("predict"), pos_label=label, sample_weight=w),
    "recall": lambda y, view, label, w: sk.recall_score(y, view("predict"), pos_label=label, sample_weight=w),
    "average_precision": lambda y, view, label, w: sk.average_precision_score(
        y, view("decision_function") * (1 if label == max(y) else -1), pos_label=label, sample_weight=w
    ),
    "neg_brier_score": lambda y, view, label, w: (
        -sk.brier_score_loss(y, view("predict_proba")[:, int(label == max(y))], pos_label=label, sample_weight=w)
    ),
}


@pytest.mark.filterwarnings("ignore:.*ill-defined")
@pytest.mark.parametrize("name", POSITIVE)
@pytest.mark.parametrize("labels", [("no", "yes"), (1, 2), (False, True)])
@pytest.mark.parametrize("place", [0, 1])
def test_metrics_about_one_class(name, labels, place):
    X, Y, _ = data()
    y, label, weight = np.array(labels)[(Y > 7).astype(int)], labels[place], np.arange(1.0, 161)
    model = AnytimeClassifier(GROUPS, COSTS, alpha=0.01).fit(X, y)
    expected = [
        POSITIVE[name](y, lambda method, stage=stage: getattr(model, method)(X, stage=stage), label, weight)
        for stage in range(1, 5)
    ]
    for given in (label, str(label)):  # as on the command line
        curve = budget_curve(model, X, y, metric=name, pos_label=given, sample_weight=weight)
        np.testing.assert_allclose(curve.values[1:], expected, rtol=1e-12)
        assert curve.metric == name
    by_source = budget_curve(model, open_data((X, y, weight), chunk_rows=50), metric=name, pos_label=label)
    np.testing.assert_allclose(by_source.values[1:], expected, rtol=1e-12)


def test_what_is_not_about_one_class():
    X, Y, _ = data()
    y = np.where(Y > 7, "yes", "no")
    model = AnytimeClassifier(GROUPS, COSTS).fit(X, y)
    with pytest.raises(ValueError, match=r"pos_label=1 is not a valid label.*pos_label="):
        budget_curve(model, X, y, metric="f1")
    with pytest.raises(ValueError, match="must be one of two classes, not 'maybe': the classes are 'no', 'yes'"):
        budget_curve(model, X, y, metric="f1", pos_label="maybe")
    with pytest.raises(ValueError, match="not 'a': this is a regression"):
        budget_curve(AnytimeRegressor(GROUPS).fit(X, Y), X, Y, metric="f1", pos_label="a")
    for metric in ("accuracy", "roc_auc", "ndcg@5"):
        with pytest.raises(ValueError, match=f"'{metric}' is about all classes: it accepts no pos_label"):
            budget_curve(model, X, y, metric=metric, pos_label="yes")


def test_callables_of_an_estimator():
    model, X, y, _ = labelled(2)

    def first_rows(estimator, X, y):
        assert np.array_equal(estimator.classes_, model.classes_)
        assert estimator.predict_log_proba(X).shape == (len(y), 2)
        return np.mean(estimator.predict(X[:40]) == y[:40])  # another X than the one that was scored already

    curve = budget_curve(model, X, y, metric=first_rows)
    np.testing.assert_allclose(curve.values, loop(model, X, lambda p: np.mean(p[:40] == y[:40])))
    assert curve.metric == "first_rows"


def test_score_is_that_of_the_stage():
    for model, X, y, weight in (fitted(), labelled(3)):
        kind = "r2" if model.__class__ is AnytimeRegressor else "accuracy"
        truth = budget_curve(model, X, y, metric=kind, sample_weight=weight).values

        def by_score(estimator, X, y, sample_weight):
            return estimator.score(X, y, sample_weight=sample_weight)

        found = budget_curve(model, X, y, metric=by_score, sample_weight=weight).values
        np.testing.assert_allclose(found, truth, rtol=1e-10, atol=1e-12)
        passthrough = budget_curve(model, X, y, metric=sk.check_scoring(model)).values
        np.testing.assert_allclose(passthrough, budget_curve(model, X, y, metric=kind).values, atol=1e-12)


def test_scorers_see_an_estimator():
    for model, X, y, _ in (fitted(), labelled(2)):
        seen = []

        def scorer(estimator, X, y, seen=seen):
            check_is_fitted(estimator)
            seen.append((is_classifier(estimator), is_regressor(estimator), hasattr(estimator, "predict_proba")))
            assert hasattr(estimator, "classes_") == is_classifier(estimator)
            assert estimator.sequence_ is model.sequence_  # noqa: B023
            assert copy.copy(estimator).predict(X).shape == (len(y),)
            return 0.0

        budget_curve(model, X, y, metric=scorer)
        classifies = isinstance(model, AnytimeClassifier)
        assert set(seen) == {(classifies, not classifies, classifies)}
        seen.clear()
        budget_curve(model, open_data((X, y), chunk_rows=30), metric=scorer)
        assert set(seen) == {(classifies, not classifies, classifies)}


@pytest.mark.parametrize("metric", ["explained", "accuracy", "roc_auc", "neg_log_loss", sk.accuracy_score])
def test_the_model_inside_an_estimator_is_judged_alike(metric):
    model, X, y, _ = labelled(2)
    truth = budget_curve(model, X, y, metric=metric)
    found = budget_curve(model.model_, X, y, metric=metric)
    np.testing.assert_array_equal(found.values, truth.values)
    assert found.groups == truth.groups


def test_every_metric_known_by_name_has_a_label():
    assert set(METRICS) == set(LABELS)
    assert label_of("r2") == ("R²", "fixed")
    assert label_of("ndcg@5") == ("ndcg@5", "general")


def test_functions_of_predictions():
    model, X, y, weight = fitted()
    curve = budget_curve(model, X, y, metric=sk.median_absolute_error, sample_weight=weight)
    truth = loop(model, X, lambda p: sk.median_absolute_error(y, p, sample_weight=weight))
    np.testing.assert_allclose(curve.values, truth, rtol=1e-10)
    assert (curve.metric, curve.greater_is_better) == ("median_absolute_error", False)
    pinball = budget_curve(model, X, y, metric=partial(sk.mean_pinball_loss, alpha=0.1))
    assert (pinball.metric, pinball.greater_is_better) == ("mean_pinball_loss", False)
    np.testing.assert_allclose(pinball.values, loop(model, X, lambda p: sk.mean_pinball_loss(y, p, alpha=0.1)))

    def agreement(y_true, y_pred):
        return float(np.corrcoef(y_true, y_pred + 1e-9 * np.arange(y_pred.size))[0, 1])

    own = budget_curve(model, X, y, metric=agreement)
    assert own.greater_is_better
    assert own.values[-1] == pytest.approx(np.corrcoef(y, model.predict(X))[0, 1], rel=1e-6)


@pytest.mark.parametrize("metric", ["explained", "neg_mean_absolute_error", "r2"])
def test_pipelines_and_searches_are_seen_through(metric):
    X, y, _ = data()
    groups = AnytimeRegressor(GROUPS, COSTS)
    direct = groups.fit(StandardScaler().fit(X[:80]).transform(X[:80]), y[:80])
    scaled = StandardScaler().fit(X[:80]).transform(X[80:])
    truth = budget_curve(direct, scaled, y[80:], metric=metric)
    pipe = make_pipeline(StandardScaler(), AnytimeRegressor(GROUPS, COSTS))
    grid = {"anytimeregressor__alpha": [1e-5]}
    alone = make_pipeline(StandardScaler(), GridSearchCV(AnytimeRegressor(GROUPS, COSTS), {"alpha": [1e-5]}))
    for model in (pipe.fit(X[:80], y[:80]), GridSearchCV(pipe, grid).fit(X[:80], y[:80]), alone.fit(X[:80], y[:80])):
        found = budget_curve(model, X[80:], y[80:], metric=metric)
        np.testing.assert_allclose(found.values, truth.values, rtol=1e-9, atol=1e-11)
        assert found.groups == truth.groups
    single = Pipeline([("only", AnytimeRegressor(GROUPS, COSTS))]).fit(X[:80], y[:80])
    np.testing.assert_allclose(budget_curve(single, X[80:], y[80:], metric=metric).values, truth.values, atol=1e-9)


def test_moments_judge_searches_but_not_pipelines():
    X, y, _ = data()
    search = GridSearchCV(AnytimeRegressor(GROUPS, COSTS), {"alpha": [0.1]}).fit(X, y)
    np.testing.assert_allclose(
        budget_curve(search, Moments.from_data(X, y)).values, budget_curve(search, X, y).values, rtol=1e-9, atol=1e-12
    )
    with pytest.raises(TypeError, match="not Pipeline"):
        budget_curve(make_pipeline(StandardScaler(), AnytimeRegressor()).fit(X, y), Moments.from_data(X, y))


def test_a_cross_validated_model_has_a_curve():
    X, y, _ = data()
    model = AnytimeRegressorCV(GROUPS, COSTS, alphas=[1e-3, 1e-1]).fit(X[:80], y[:80])
    truth = regression_truth(model, X[80:], y[80:], None)
    np.testing.assert_allclose(budget_curve(model, X[80:], y[80:], metric="mse").values, truth["mse"], rtol=1e-10)


# ---- errors


def test_what_metrics_refuse():
    regressor, X, y, weight = fitted()
    classifier, Xc, yc, _ = labelled(2)
    three, X3, y3, _ = labelled(3)
    two_targets, _, Y, _ = fitted(2)
    qid = np.zeros(len(y))
    for error, message, call in [
        (ValueError, "unknown metric 'msee'; the known", lambda: budget_curve(regressor, X, y, metric="msee")),
        (ValueError, "unknown metric 'ndcg@0'", lambda: budget_curve(regressor, X, y, metric="ndcg@0")),
        (TypeError, "metric must be a name", lambda: budget_curve(regressor, X, y, metric=3)),
        (TypeError, "metric must be a name", lambda: budget_curve(regressor, X, y, metric=["mse"])),
        (TypeError, "wrap it in a function", lambda: budget_curve(regressor, X, y, metric=max)),
        (ValueError, "label 'maybe' in y is not a class", lambda: budget_curve(classifier, Xc[:2], ["yes", "maybe"])),
        (ValueError, "for classifiers, not for Any", lambda: budget_curve(regressor, X, y, metric="log_loss")),
        (ValueError, "for regressors, not for Any", lambda: budget_curve(classifier, Xc, yc, metric="mse")),
        (ValueError, "for regressors, not for Any", lambda: budget_curve(classifier, Xc, yc, metric="r2")),
        (ValueError, "y with two values", lambda: budget_curve(regressor, X[:3], [1, 2, 3], metric="accuracy")),
        (ValueError, "y with two values", lambda: budget_curve(regressor, X[:3], [1, 2, 3], metric="roc_auc")),
        (ValueError, "y with two values", lambda: budget_curve(two_targets, X, Y > 7, metric="accuracy")),
        (ValueError, "1 of the classes", lambda: budget_curve(classifier, Xc[:3], ["yes"] * 3, metric="roc_auc")),
        (ValueError, "2 of the classes", lambda: budget_curve(three, X3[:2], ["yes", "no"], metric="roc_auc")),
        (ValueError, "needs qid", lambda: budget_curve(regressor, X, y, metric="ndcg@5")),
        (ValueError, "no sample_w", lambda: budget_curve(regressor, X, y, metric="ndcg", qid=qid, sample_weight=1)),
        (ValueError, "ranks by one score", lambda: budget_curve(three, X3, y3, metric="ndcg", qid=np.zeros(len(y3)))),
        (ValueError, "inconsistent", lambda: budget_curve(regressor, X, y, metric="ndcg@5", qid=qid[1:])),
        (ValueError, "inconsistent", lambda: budget_curve(regressor, X, y[1:])),
        (ValueError, "inconsistent", lambda: budget_curve(regressor, X, y[1:], metric="neg_max_error")),
        (ValueError, "inconsistent", lambda: budget_curve(classifier, Xc, yc[1:])),
        (ValueError, "sample_weight.shape", lambda: budget_curve(regressor, X, y, sample_weight=weight[1:])),
        (ValueError, "y is None", lambda: budget_curve(regressor, X)),
        (ValueError, "3 features", lambda: budget_curve(regressor, X[:, :3], y)),
        (ValueError, "y has 2 columns", lambda: budget_curve(regressor, X, Y)),
        (NotFittedError, "not fitted yet", lambda: budget_curve(AnytimeRegressor(), X, y)),
        (TypeError, "no stages", lambda: budget_curve(LinearRegression().fit(X, y), X, y)),
        (ValueError, "do not determine", lambda: budget_curve(regressor, Moments.from_data(X, y), metric="accuracy")),
        (ValueError, "do not pass them", lambda: budget_curve(regressor, Moments.from_data(X, y), y)),
        (ValueError, "there are 3 features", lambda: budget_curve(regressor, Moments.from_data(X[:, :3], y))),
        (ValueError, "have 2 targets", lambda: budget_curve(regressor, Moments.from_data(X, Y))),
        (ValueError, "squared error only", lambda: budget_curve(classifier, Moments.from_data(X, y))),
    ]:  # fmt: skip
        with pytest.raises(error, match=message):
            call()


def test_moments_of_other_columns_are_refused():
    X, y, _ = data()
    frame = pd.DataFrame(X, columns=NAMES)
    model = AnytimeRegressor().fit(frame, y)
    with pytest.raises(ValueError, match="'other' instead of 'u'"):
        budget_curve(model, Moments.from_data(frame.rename(columns={"u": "other"}), y))
    assert budget_curve(model, Moments.from_data(frame, y)).values[-1] > 0


@pytest.mark.parametrize("value", [0.0, 0.1, 1e6 + 0.1, -1 / 3])
def test_r2_of_a_constant_is_refused(value):
    """The mean of n equal numbers is often not that number, so the variance must not be trusted to be zero."""
    model, X, _, weight = fitted()
    for n in range(1, 30):
        for w in (None, weight[:n] + 0.01):
            with pytest.raises(ValueError, match="y is constant"):
                budget_curve(model, X[:n], np.full(n, value), metric="r2", sample_weight=w)
            with pytest.raises(ValueError, match="y is constant"):
                budget_curve(model, Moments.from_data(X[:n], np.full(n, value), w), metric="r2")


def test_nothing_to_explain():
    model, X, y, _ = fitted()
    exact = np.full(len(y), model.predict(X, stage=0)[0])
    found = budget_curve(model, X, exact).values
    assert found[0] == 0
    assert np.isnan(found[1:]).all()  # the stages do harm, of which no fraction can be named


def test_errors_that_moments_do_not_determine_are_not_believed():
    rng = np.random.default_rng(0)
    z, d = rng.normal(size=(2000, 3)), rng.normal(size=2000)
    X, y = np.c_[z, z[:, 0] + 3e-8 * d], z.sum(axis=1) + d + 0.1 * rng.normal(size=2000)
    model = AnytimeRegressor(alpha=0).fit(X, y)
    with pytest.warns(LinAlgWarning, match="evaluate the model on the data"):
        budget_curve(model, Moments.from_data(X, y), metric="mse")
    truth = cross_val_budget_curve(AnytimeRegressor(alpha=0), X, y, metric="mse").values[-1]
    assert compare({"forward": AnytimeRegressor(alpha=0)}, X, y, metric="mse").curves["forward"].values[
        -1
    ] == pytest.approx(truth)


def test_rows_that_are_equal_tie_whatever_blas_does():
    rng = np.random.default_rng(20)
    base, n = rng.normal(size=(6, 24)), 203
    X, rel, q = base[rng.integers(0, 6, n)], rng.integers(0, 5, n), np.arange(n) // 8
    model = AnytimeRegressor(alpha=1e-2).fit(X, rel.astype(float))
    found = budget_curve(model, X, rel, metric="ndcg@5", qid=q).values
    truth = [ndcg_score(rel, model.predict(X, stage=j).round(9), q) for j in range(len(found))]
    np.testing.assert_allclose(found, truth, rtol=1e-12)


def test_scorers_see_the_table_that_a_pipeline_was_given():
    rng = np.random.default_rng(0)
    X = 5 * rng.normal(size=(100, 3)) + 3
    pipe = make_pipeline(StandardScaler(), AnytimeRegressor()).fit(X, X[:, 0])

    def scorer(estimator, X, y):
        return float(np.mean(X[:, 0] > 0.5) + estimator.predict(X[:10]).sum())

    assert budget_curve(pipe, X, X[:, 0], metric=scorer).values[-1] == pytest.approx(scorer(pipe, X, X[:, 0]))


def test_an_unknown_label_is_an_error_of_prediction():
    model, X = AnytimeClassifier().fit([[0.0], [1.0], [2.0], [3.0]], ["a", "a", "b", "b"]), [[0.0], [3.0]]
    assert budget_curve(model, X, ["a", "rare"], metric="accuracy").values.tolist() == [0.5, 0.5]
    with pytest.raises(ValueError, match="'rare' in y is not a class"):
        budget_curve(model, X, ["a", "rare"], metric="log_loss")


def test_held_out_targets_that_a_loss_does_not_know_are_refused():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 2))
    model = AnytimeRegressor(loss="poisson", rule="score", alpha=1e-2).fit(X, rng.poisson(np.exp(X[:, 0])))
    with pytest.raises(ValueError, match="y must not be negative with loss='poisson', got -1"):
        budget_curve(model, X, np.full(60, -1.0))
