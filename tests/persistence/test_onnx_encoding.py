"""ONNX graphs of models with an encoding: raw columns by name, with the answers of the models they come from."""

import json
import math
from functools import cache

import numpy as np
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

SEED = 0
GROUPS = FeatureGroups(
    {"who": ["job", "age"], "income": ["income"], "day": ["day"], "new": ["new"], "place": ["code", "town"]},
    costs=[3, 4, 0.5, 0, 1],
    remainder="drop",
)
PAIRS = Encoding("spline", interactions=4)
LEVELS = Encoding("linear", columns={"code": "levels"}, max_levels=3)


@cache
def table(n=700):
    rng = np.random.default_rng(SEED)
    age, new = rng.uniform(18, 90, n), rng.random(n) < 0.4
    income = np.where(rng.random(n) < 0.3, 0.0, rng.lognormal(8, 2, n))
    job = rng.choice(["cook", "nurse", "clérk", "pilot"], n, p=[0.5, 0.4, 0.096, 0.004]).astype(object)
    town = rng.choice(["", "Ulm", "Rom"], n, p=[0.3, 0.6, 0.1])  # the empty text is a level
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
    """Rows as they were, then rows with gaps, unknown levels and numbers far away where there were none before."""
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
        "no stage": lambda: AnytimeRegressor(GROUPS, encoding="spline", max_groups=1).fit(X[["new"]], y),
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
    columns, encoding = fed(X, session.get_inputs()), model.model_.encoding
    for stage in range(len(model.sequence_) + 1):
        bought = {c for g in model.sequence_.groups[:stage] if g in GROUPS.names for c in GROUPS.columns[GROUPS.names.index(g)]}
        expected = run(session, columns, stage=stage)
        for number, text in ((np.nan, ""), (np.inf, "nonsense"), (-np.inf, "\0"), (1e308, "ü" * 999)):
            nonsense = {"tensor(double)": number, "tensor(string)": text}
            holes = {put.name: np.full_like(columns[put.name], nonsense[put.type]) for put in session.get_inputs()}
            found = run(session, {**holes, **{key: columns[key] for key in bought}}, stage=stage)
            assert {key: values.tolist() for key, values in found.items()} == {k: v.tolist() for k, v in expected.items()}
