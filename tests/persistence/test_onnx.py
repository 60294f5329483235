"""ONNX graphs against the models they come from, in a runtime that shares no code with them."""

import json
import sys
from dataclasses import replace
from functools import cache

import numpy as np
import onnx
import onnxruntime
import pandas as pd
import pytest
from onnx import checker

import budgetline
from budgetline import (
    AnytimeClassifier,
    AnytimeClassifierCV,
    AnytimeRegressor,
    AnytimeRegressorCV,
    FeatureGroups,
    GroupLassoPath,
)
from budgetline.glm import ConvexLoss
from budgetline.glm.families import Poisson
from budgetline.model.calibration import Calibration
from budgetline.persistence import onnx_graph

GROUPS = FeatureGroups({"a": [4, 0], "b": [1], "c": [2, 5], "d": [6]}, [0.2, 0.1, 3.5, 0.0], remainder="drop")
NAMES = list("pqrstuvw")


@cache
def data():
    rng = np.random.default_rng(7)
    X = rng.normal(size=(90, 8)) * [1, 10, 0.1, 1, 2, 3, 1, 100] + [0, 5, 0, 1, 0, -2, 0, 1e4]
    score = X[:, :6] @ [1.0, 0.1, 5.0, 0.5, -0.3, 0.2] + X[:, 6] + rng.normal(size=90)
    return X, score - score.mean()


def labels(*values):
    _, y = data()
    return np.array(values)[np.digitize(y, np.quantile(y, np.linspace(0, 1, len(values) + 1)[1:-1]))]


def calibrated(model, slopes):
    """Return an estimator whose stages are calibrated in some way."""
    rng, shape = np.random.default_rng(0), (1 + model.model_.n_stages, slopes)
    offsets = rng.normal(size=shape[0]) if slopes == 2 else np.zeros(shape[0])
    model.model_ = replace(model.model_, calibration=Calibration(rng.uniform(0.3, 2, shape), offsets))
    return model


def fits():
    X, y = data()
    Y, frame = np.column_stack([y, y**2, X[:, 0]]), pd.DataFrame(X, columns=NAMES)
    named = FeatureGroups({"ä": ["p", "u"], "b": ["v"]}, [3, 1], remainder="drop")
    counts = np.floor(np.exp(y / 3))
    return {
        "regressor": lambda: AnytimeRegressor(GROUPS).fit(X, y),
        "frame": lambda: AnytimeRegressor(named).fit(frame, y),
        "three targets": lambda: AnytimeRegressor(GROUPS).fit(X, Y),
        "one target": lambda: AnytimeRegressor(GROUPS).fit(X, Y[:, :1]),
        "truncated": lambda: AnytimeRegressor(GROUPS, max_groups=2).fit(X, y),
        "no stage": lambda: AnytimeRegressor(costs=np.ones(8), max_cost=0.5).fit(X, y),
        "search": lambda: AnytimeRegressorCV(GROUPS).fit(X, y),
        "lasso": lambda: GroupLassoPath(GROUPS, refit=False).fit(X, y),
        "poisson": lambda: AnytimeRegressor(GROUPS, loss="poisson", alpha=1e-3).fit(X, counts),
        "binary": lambda: AnytimeClassifier(GROUPS, alpha=1e-2).fit(X, labels(3, 7)),
        "flags": lambda: AnytimeClassifier(GROUPS, alpha=1e-2).fit(X, labels(False, True)),
        "texts": lambda: AnytimeClassifier(GROUPS, alpha=1e-2).fit(X, labels("no", "über")),
        "many": lambda: AnytimeClassifier(GROUPS, alpha=1e-2).fit(X, labels(-1, 2, 5, 9).astype(np.int32)),
        "many texts": lambda: AnytimeClassifier(GROUPS, alpha=1e-2).fit(X, labels("a", "b", "c").astype(object)),
        "many numbers": lambda: AnytimeClassifier(GROUPS, alpha=1e-2).fit(X, labels(1.0, 2.0, 4.0)),
        "many search": lambda: AnytimeClassifierCV(GROUPS, rule="omp", alphas=[0.1, 1], cv=2).fit(X, labels(1, 2, 3)),
        "calibrated": lambda: calibrated(AnytimeClassifier(GROUPS, alpha=1e-2).fit(X, labels(3, 7)), 2),
        "many calibrated": lambda: calibrated(AnytimeClassifier(GROUPS, alpha=1e-2).fit(X, labels(1, 2, 3)), 1),
        "sure": lambda: AnytimeClassifier(GROUPS, alpha=1e-7).fit(X, labels(0, 1, 2)),
    }


@cache
def model_of(name):
    return fits()[name]()


@cache
def session_of(name):
    graph = budgetline.to_onnx(model_of(name))
    checker.check_model(graph, full_check=True)
    quiet = onnxruntime.SessionOptions()
    quiet.log_severity_level = 4  # it warns that inputs with defaults are no constants
    return onnxruntime.InferenceSession(graph.SerializeToString(), quiet, providers=["CPUExecutionProvider"])


def run(name, X, **choice):
    session = session_of(name)
    fed = {key: np.array(value, dtype=np.int64 if key == "stage" else np.float64) for key, value in choice.items()}
    return dict(zip([o.name for o in session.get_outputs()], session.run(None, {"X": X, **fed}), strict=True))


def assert_close(found, expected):
    assert found.dtype == expected.dtype == np.float64
    assert found.shape == expected.shape
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12 * max(1.0, np.abs(expected).max()))


def assert_equal_to_ours(name, X, chosen, **choice):
    """Compare all outputs; ``chosen`` are the keywords of ours, ``choice`` the inputs of the graph."""
    model, found = model_of(name), run(name, X, **choice)
    X = pd.DataFrame(X, columns=NAMES) if name == "frame" else X
    if hasattr(model, "classes_"):
        assert set(found) == {"label", "probabilities", "scores"}
        assert_close(found["scores"], model.decision_function(X, **chosen))
        assert_close(found["probabilities"], model.predict_proba(X, **chosen))
        assert found["label"].tolist() == model.predict(X, **chosen).tolist()
    else:
        assert set(found) == {"prediction"}
        assert_close(found["prediction"], model.predict(X, **chosen))


@pytest.mark.quick_cases(6)
@pytest.mark.parametrize("name", fits())
def test_every_stage_and_budget_is_ours(name):
    X, _ = data()
    model = model_of(name)
    K, costs = len(model.sequence_), model.sequence_.cumulative_costs
    assert_equal_to_ours(name, X, {})
    for stage in range(K + 1):
        assert_equal_to_ours(name, X, {"stage": stage}, stage=stage)
        assert_equal_to_ours(name, X, {"stage": stage}, stage=stage, budget=0.0)  # the stage wins
    exact = [0.0, 0.3, 0.1 + 0.2, 1e9, np.inf, *costs]
    near = [c * (1 + e) for c in costs for e in (-1e-3, -1e-11, -1e-13, 1e-13, 1e-3)]
    for budget in [*exact, *near, *np.linspace(0, 1.1 * costs.sum() + 0.1, 40)]:
        assert_equal_to_ours(name, X, {"budget": float(budget)}, budget=budget)
    assert_equal_to_ours(name, X, {"budget": 0.3}, stage=-1, budget=0.3)
    assert_equal_to_ours(name, X[:1], {})


@pytest.mark.parametrize("name", fits())
@pytest.mark.parametrize("hole", [np.nan, np.inf, -np.inf])
def test_columns_that_were_not_bought_do_not_count(name, hole):
    X, _ = data()
    model = model_of(name)
    for stage in range(len(model.sequence_) + 1):
        unread = np.setdiff1d(np.arange(8), model.model_.stages.at_stage(stage).columns)
        holes = X.copy()
        holes[:, unread] = hole
        for key, value in run(name, holes, stage=stage).items():
            assert unread.size
            expected = run(name, X, stage=stage)[key]
            assert value.tolist() == expected.tolist()
            assert value.dtype == object or np.isfinite(value).all()
        assert_equal_to_ours(name, holes, {"stage": stage}, stage=stage)


@pytest.mark.parametrize("name", ["binary", "many", "sure", "poisson"])
def test_extreme_scores_are_ours(name):
    X, _ = data()
    for scale in (1e-3, 30, 1e3):
        far = X.copy()
        far[:, [0, 1, 2, 4, 5, 6]] *= scale
        if name != "poisson" or scale < 1e3:
            assert_equal_to_ours(name, far, {})


def test_a_stage_that_does_not_exist_is_an_error():
    X, _ = data()
    with pytest.raises(Exception, match="out of data bounds"):
        run("regressor", X, stage=5)


def test_the_inputs_say_what_they_are():
    session = session_of("regressor")
    assert [(i.name, i.type, i.shape) for i in session.get_inputs()] == [("X", "tensor(double)", ["N", 8])]
    optional = {(i.name, i.type, tuple(i.shape)) for i in session.get_overridable_initializers()}
    assert optional == {("stage", "tensor(int64)", ()), ("budget", "tensor(double)", ())}


def test_the_metadata_say_what_to_buy():
    meta = {key: json.loads(value) for key, value in session_of("texts").get_modelmeta().custom_metadata_map.items()}
    model = model_of("texts")
    prices, columns = {"a": 0.2, "b": 0.1, "c": 3.5, "d": 0.0}, {"a": [4, 0], "b": [1], "c": [2, 5], "d": [6]}
    assert meta["budgetline.estimator"] == "AnytimeClassifier"
    assert meta["budgetline.order"] == list(model.sequence_.groups)
    assert meta["budgetline.costs"] == [prices[g] for g in model.sequence_.groups]
    np.testing.assert_allclose(meta["budgetline.cumulative_costs"], np.cumsum(meta["budgetline.costs"]))
    assert meta["budgetline.columns"] == [columns[g] for g in model.sequence_.groups]
    assert meta["budgetline.classes"] == ["no", "über"]
    assert meta["budgetline.feature_names"] is None
    named = {p.key: json.loads(p.value) for p in budgetline.to_onnx(model_of("frame")).metadata_props}
    assert named["budgetline.feature_names"] == NAMES
    assert sorted(named["budgetline.columns"]) == [[0, 5], [6]]


def test_a_graph_of_a_loaded_model_is_the_same(tmp_path):
    budgetline.save(model_of("many texts"), tmp_path / "model")
    graph = budgetline.to_onnx(budgetline.load(tmp_path / "model"), tmp_path / "model.onnx")
    assert graph == budgetline.to_onnx(model_of("many texts"))
    assert onnx.load(tmp_path / "model.onnx") == graph
    assert sorted(p.name for p in tmp_path.iterdir()) == ["model", "model.onnx"]


def test_what_cannot_be_exported_is_refused():
    X, y = data()
    loss = ConvexLoss(np.cosh, np.sinh, np.cosh)
    with pytest.raises(TypeError, match="loss is a ConvexLoss"):
        budgetline.to_onnx(AnytimeRegressor(GROUPS, loss=loss, alpha=0.1).fit(X, y / 10))
    with pytest.raises(TypeError, match=r"to_onnx accepts a fitted .* got str"):
        budgetline.to_onnx("model")
    with pytest.raises(ValueError, match="not fitted"):
        budgetline.to_onnx(AnytimeRegressor())


def test_without_onnx_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(ImportError, match=r"pip install '.\[onnx\]'"):
        budgetline.to_onnx(model_of("regressor"))


def test_a_loss_without_a_node_for_its_mean_is_refused(monkeypatch):
    """A new loss must not be exported as its bare scores."""
    monkeypatch.delitem(onnx_graph.MEANS, Poisson)
    X = np.random.default_rng(0).normal(size=(60, 2))
    model = AnytimeRegressor(loss="poisson").fit(X, np.floor(np.exp(X[:, 0])))
    with pytest.raises(TypeError, match="loss 'poisson' cannot be exported"):
        budgetline.to_onnx(model)
