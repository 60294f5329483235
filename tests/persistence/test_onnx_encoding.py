"""ONNX graphs of models with an encoding: raw columns by name, with the predictions of their models."""

import json
import math
import re
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
    Encoding,
    FeatureGroups,
    GroupLassoPath,
)
from budgetline.persistence.onnx_builder import Graph
from budgetline.persistence.onnx_encoding import asinh

SEED = 0
GROUPS = FeatureGroups(
    {"who": ["job", "age"], "income": ["income"], "day": ["day"], "new": ["new"], "place": ["code", "town"]},
    costs=[3, 4, 0.5, 0, 1],
    remainder="drop",
)
PAIRS = Encoding("spline", interactions=4)
LEVELS = Encoding("linear", columns={"code": "categories"}, max_categories=3)


@cache
def table(n=700):
    rng = np.random.default_rng(SEED)
    age, new = rng.uniform(18, 90, n), rng.random(n) < 0.4
    income = np.where(rng.random(n) < 0.3, 0.0, rng.lognormal(8, 2, n))
    job = rng.choice(["cook", "nurse", "clérk", "pilot"], n, p=[0.5, 0.4, 0.096, 0.004]).astype(object)
    town = rng.choice(["", "Ulm", "Rom"], n, p=[0.3, 0.6, 0.1])  # the empty text is a category
    code = rng.integers(0, 4, n) + 0.5 * (rng.random(n) < 0.3)
    day = pd.Timestamp("1969-01-01") + pd.to_timedelta(rng.integers(0, 9000, n) * 7, unit="h")
    score = np.sin(age / 9) * np.where(new, 2, -1) + (job == "nurse") * (code > 1) + (income == 0) + (town == "")
    score += rng.normal(size=n) / 2
    age[rng.random(n) < 0.2] = np.nan
    job[rng.random(n) < 0.1] = None
    X = pd.DataFrame({"age": age, "job": job, "not used": "?", "income": income, "day": day, "new": new})
    return X.assign(town=town, code=code), score


@cache
def odd():
    """Rows as they were, then rows with missing values, unknown categories and numbers far outside the data."""
    X = table()[0].iloc[:120].astype({"new": object})
    more = X.iloc[:30].copy()
    more["new"] = [None, True, "perhaps"] * 10
    more["job"] = ["pilot", "king", "cook", None, "None"] * 6
    more["town"] = ["", "Bonn", "ulm"] * 10
    more["income"] = [np.nan, -0.0, 1e-300, -1e12, 1e155] * 6
    more["age"] = [1e-9, -1e9, 1e18, 50.0, np.nan, 1e300] * 5
    more["code"] = [7.0, np.nan, 2.0] * 10
    more.loc[more.index[::4], "day"] = pd.NaT
    return pd.concat([X, more], ignore_index=True)


def fed(X, inputs):
    """Return columns as a graph takes them."""
    found = {}
    for put in inputs:
        values = X[put.name]
        if put.type == "tensor(string)":
            texts = ["" if pd.isna(v) else f"{v:g}" if type(v) is float else str(v) for v in values]
            found[put.name] = np.array(texts, dtype=object)[:, None]
        else:
            if put.name == "day":
                values = (values - pd.Timestamp(1970, 1, 1)) / pd.Timedelta(days=1)
            found[put.name] = values.to_numpy(dtype=np.float64)[:, None]
    return found


def labels(n):
    score = table()[1]
    return np.array(["no", "so", "yes"])[np.digitize(score, np.quantile(score, np.arange(1, n) / n))]


def fits():
    X, y = table()
    three = np.column_stack([y, y**2, -y])
    return {
        "spline": lambda: AnytimeRegressor(GROUPS, encoding="spline").fit(X, y),
        "linear": lambda: AnytimeRegressor(GROUPS, encoding="linear").fit(X, y),
        "pairs": lambda: AnytimeRegressor(GROUPS, encoding=PAIRS).fit(X, y),
        "three targets": lambda: AnytimeRegressor(GROUPS, encoding=PAIRS).fit(X, three),
        "numbers as levels": lambda: AnytimeRegressor(GROUPS, encoding=LEVELS).fit(X, y),
        "truncated": lambda: AnytimeRegressor(GROUPS, encoding=PAIRS, max_groups=2).fit(X, y),
        "no stage": lambda: AnytimeRegressor(costs=[1, 1], encoding="spline", max_cost=0.5).fit(X[["age", "job"]], y),
        "poisson": lambda: AnytimeRegressor(GROUPS, encoding="linear", loss="poisson").fit(X, np.floor(np.exp(y / 2))),
        "binary": lambda: AnytimeClassifier(GROUPS, encoding=PAIRS).fit(X, labels(2)),
        "softmax": lambda: AnytimeClassifier(GROUPS, encoding=PAIRS).fit(X, labels(3)),
        "search": lambda: AnytimeRegressorCV(GROUPS, encoding=PAIRS).fit(X, y),
        "many search": lambda: AnytimeClassifierCV(GROUPS, encoding="linear", alphas=[0.01, 1], cv=2).fit(X, labels(3)),
        "lasso": lambda: GroupLassoPath(GROUPS, encoding="spline").fit(X, y),
    }


@cache
def model_of(name):
    return fits()[name]()


def session_for(model):
    graph = budgetline.to_onnx(model)
    checker.check_model(graph, full_check=True)
    quiet = onnxruntime.SessionOptions()
    quiet.log_severity_level = 4  # it warns that inputs with defaults are no constants
    return onnxruntime.InferenceSession(graph.SerializeToString(), quiet, providers=["CPUExecutionProvider"])


@cache
def session_of(name):
    return session_for(model_of(name))


def run(session, columns, **choice):
    choice = {key: np.array(value, dtype=np.int64 if key == "stage" else np.float64) for key, value in choice.items()}
    return dict(zip([o.name for o in session.get_outputs()], session.run(None, {**columns, **choice}), strict=True))


def assert_close(found, expected):
    assert found.dtype == np.float64
    assert found.shape == expected.shape
    assert np.isfinite(expected).all()
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12 * max(1.0, np.abs(expected).mean()))


def assert_ours(model, session, X, columns, **choice):
    found = run(session, columns, **choice)
    if hasattr(model, "classes_"):
        assert_close(found["scores"], model.decision_function(X, **choice))
        assert_close(found["probabilities"], model.predict_proba(X, **choice))
        assert found["label"].tolist() == model.predict(X, **choice).tolist()
    else:
        assert_close(found["prediction"], model.predict(X, **choice))


@pytest.mark.quick_cases(5)
@pytest.mark.parametrize("name", fits())
def test_every_stage_and_budget_is_ours(name):
    model, session, X = model_of(name), session_of(name), odd()
    columns = fed(X, session.get_inputs())
    assert_ours(model, session, X, columns)
    for stage in range(len(model.sequence_) + 1):
        assert_ours(model, session, X, columns, stage=stage)
    costs = model.sequence_.cumulative_costs
    for budget in [0.0, *costs, *(costs * (1 + 1e-3)), *(costs * (1 - 1e-3)), 1e9]:
        assert_ours(model, session, X, columns, budget=float(budget))
    assert_ours(model, session, X[:1], {key: values[:1] for key, values in columns.items()})


@pytest.mark.parametrize("name", fits())
def test_nonsense_in_columns_that_were_not_bought_does_not_count(name):
    model, session, X = model_of(name), session_of(name), odd()
    columns, columns_of = fed(X, session.get_inputs()), dict(zip(GROUPS.names, GROUPS.columns, strict=True))
    for stage in range(len(model.sequence_) + 1):
        bought = {c for g in model.sequence_.groups[:stage] for c in columns_of.get(g, ())}
        expected = run(session, columns, stage=stage)
        for number, text in ((np.nan, ""), (np.inf, "nonsense"), (-np.inf, "\0"), (1e308, "ü" * 999)):
            nonsense = {"tensor(double)": number, "tensor(string)": text}
            holes = {put.name: np.full_like(columns[put.name], nonsense[put.type]) for put in session.get_inputs()}
            found = run(session, {**holes, **{key: columns[key] for key in bought}}, stage=stage)
            for key, values in expected.items():
                assert found[key].tolist() == values.tolist()


def inputs_of(session):
    return [(put.name, put.type, put.shape) for put in session.get_inputs()]


def test_inputs_are_the_columns_that_a_stage_uses():
    number, text = "tensor(double)", "tensor(string)"
    kinds = {"age": number, "job": text, "income": number, "day": number, "new": text, "town": text, "code": number}
    assert inputs_of(session_of("pairs")) == [(name, kind, ["N", 1]) for name, kind in kinds.items()]
    assert dict(each[:2] for each in inputs_of(session_of("numbers as levels")))["code"] == text
    first = {c for g in model_of("truncated").sequence_.groups for c in GROUPS.columns[GROUPS.names.index(g)]}
    assert {name for name, _, _ in inputs_of(session_of("truncated"))} == first < set(kinds)
    assert inputs_of(session_of("no stage")) == [("age", number, ["N", 1])]  # it tells how many rows there are
    optional = {put.name for put in session_of("pairs").get_overridable_initializers()}
    assert optional == {"stage", "budget"}


def test_the_metadata_say_what_to_feed():
    model, meta = model_of("pairs"), session_of("pairs").get_modelmeta().custom_metadata_map
    meta = {key.removeprefix("budgetline."): json.loads(value) for key, value in meta.items()}
    kinds = {"age": "number", "job": "text", "income": "number", "day": "number", "new": "text", "town": "text"}
    assert meta["inputs"] == {**kinds, "code": "number"}
    assert "days since 1970" in meta["kinds"]["number"]
    assert "'' is missing" in meta["kinds"]["text"]
    names = meta["feature_names"]
    assert names == table()[0].columns.tolist()
    assert meta["order"] == list(model.sequence_.groups)
    assert any(" × " in group for group in meta["order"])
    for group, columns in zip(meta["order"], meta["columns"], strict=True):
        expected = () if " × " in group else GROUPS.columns[GROUPS.names.index(group)]
        assert tuple(names[d] for d in columns) == expected


def test_columns_without_names_are_named_by_position():
    rng = np.random.default_rng(SEED)
    X = np.array(
        [[number, None, text] for number, text in zip(rng.normal(size=60), "abc" * 20, strict=True)], dtype=object
    )
    groups = FeatureGroups({"text": [2], "number": [0]}, remainder="drop")
    model = AnytimeRegressor(groups, encoding="linear").fit(X, X[:, 0] + (X[:, 2] == "b"))
    session = session_for(model)
    columns = {"x0": X[:, :1].astype(float), "x2": X[:, 2:]}
    assert [name for name, _, _ in inputs_of(session)] == ["x0", "x2"]
    for stage in range(3):
        assert_ours(model, session, X, columns, stage=stage)


@pytest.mark.parametrize("encoding", ["linear", "spline"])
def test_numbers_that_lie_close_together_and_far_apart_are_ours(encoding):
    """Curves may be steep near the median, where log(u + √(u² + 1)) would lose all digits of u."""
    rng = np.random.default_rng(SEED)
    x = rng.choice([-1, 1], 400) * 10.0 ** rng.uniform(-14, 3, 400)
    X = pd.DataFrame({"x": x})
    model = AnytimeRegressor(encoding=encoding, alpha=1e-9).fit(X, np.sign(x) * np.abs(x) ** 0.1)
    session = session_for(model)
    far = np.concatenate([x, 10.0 ** np.arange(-300, 308, 7), -(10.0 ** np.arange(-300, 308, 7)), [0.0]])
    assert_ours(model, session, pd.DataFrame({"x": far}), {"x": far[:, None]})


@pytest.mark.parametrize("kind", ["spline", "linear"])
def test_numbers_whose_ratio_to_the_scale_overflows_are_ours(kind):
    x = np.random.default_rng(SEED).normal(size=200) / 1000
    model = AnytimeRegressor(encoding=kind).fit(pd.DataFrame({"x": x}), np.sin(2000 * x))
    far = np.array([-1.7e308, -1e306, 0.0, 1e306, 1.7e308, np.nan])
    assert_ours(model, session_for(model), pd.DataFrame({"x": far}), {"x": far[:, None]})


def test_asinh_is_right_to_the_last_digits():
    graph = Graph(onnx)
    graph.input("u", np.float64, ["N"])
    graph.node("Identity", asinh(graph, "u"), name="t")
    graph.output("t", np.float64, ())
    session = onnxruntime.InferenceSession(graph.model({}).SerializeToString())
    u = np.concatenate([[0.0], 10.0 ** np.linspace(-307, 308, 5000)])
    for sign in (1, -1):
        found = session.run(None, {"u": sign * u})[0]
        np.testing.assert_allclose(found, [sign * math.asinh(each) for each in u], rtol=1e-15, atol=0)


def test_levels_that_are_all_rare_and_flags_are_ours():
    X = pd.DataFrame({"id": [f"id {k}" for k in range(60)], "gap": [None] * 60, "flag": [True, False] * 30})
    X["rare gap"] = [None] * 50 + list("abcdefghij")
    encoding = Encoding(columns={"id": "categories"})  # which it is anyway, but without a warning
    model = AnytimeRegressor(encoding=encoding, alpha=1e-3).fit(X, np.arange(60) % 2 + np.arange(60) / 60)
    session = session_for(model)
    columns = fed(X, session.get_inputs())
    for stage in range(len(model.sequence_) + 1):
        assert_ours(model, session, X, columns, stage=stage)


@pytest.mark.parametrize("name", ["stage", "budget", "prediction", "", "/constant0", "/Sub0"])
def test_a_column_whose_name_is_taken_is_refused(name):
    X = pd.DataFrame({name: [1.0, 2.0, 3.0, 5.0] * 9, "label": list("abca") * 9})
    model = AnytimeRegressor(encoding="linear").fit(X, np.arange(36))
    with pytest.raises(ValueError, match=f"column {re.escape(repr(name))} cannot be exported"):
        budgetline.to_onnx(model)
    with pytest.raises(ValueError, match="column 'label' cannot be exported"):
        budgetline.to_onnx(AnytimeClassifier(encoding="linear").fit(X[["label"]], X["label"]))


def test_levels_that_are_no_text_are_refused():
    X = np.array([["Ulm"], ["\ud800"]] * 20, dtype=object)
    with pytest.raises(ValueError, match="column 'x0' cannot be exported: its categories are not valid text"):
        budgetline.to_onnx(AnytimeRegressor(encoding="linear").fit(X, np.arange(40) % 2))


def test_a_graph_of_a_loaded_model_is_the_same(tmp_path):
    budgetline.save(model_of("softmax"), tmp_path / "model")
    assert budgetline.to_onnx(budgetline.load(tmp_path / "model")) == budgetline.to_onnx(model_of("softmax"))
