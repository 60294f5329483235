"""A report of other rows than those of the fit says so; a report of the same rows never does."""

import numpy as np
import pandas as pd
import pytest
from set_references import ranking, survival
from sklearn.linear_model import Ridge

from budgetline import (
    AnytimeClassifier,
    AnytimeClassifierCV,
    AnytimeRanker,
    AnytimeRegressor,
    AnytimeRegressorCV,
    AnytimeSurvival,
    GroupLassoPath,
    StagedEstimators,
    load,
    make_report,
    save,
)

N = 240


def rows():
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"x": rng.normal(size=N), "z": rng.lognormal(size=N), "town": rng.choice(["a", "b", "c"], N)})
    X.loc[::7, "z"] = np.nan
    return X, X["x"] + 2 * (X["town"] == "a") + rng.normal(size=N), rng.integers(1, 4, N).astype(float)


def warning(model, *data, **kept):
    return make_report(model, *data, cv=2, baselines=False, **kept).other_data


MODELS = {
    "squares": AnytimeRegressor(encoding="spline"),
    "search": AnytimeRegressorCV(encoding="linear", cv=2, search_rows=60),
    "group lasso": GroupLassoPath(encoding="linear"),
    "classes": AnytimeClassifier(encoding="linear"),
    "calibrated": AnytimeClassifierCV(encoding="linear", cv=2, rule="score", search_rows=100),
}


@pytest.mark.parametrize("name", MODELS)
def test_rows_are_counted(name, tmp_path):
    X, y, weight = rows()
    y = y > 1 if name in ("classes", "calibrated") else y
    save(MODELS[name].fit(X, y), tmp_path / "m")
    model = load(tmp_path / "m")
    assert not warning(model, X, y)
    report = make_report(model, X[:90], y[:90], cv=2, baselines=False)
    assert report.warning.startswith("These are 90 rows, but the model learned from 240: ")
    assert report.other_data in report.to_html()
    assert report.training_curve.label == "this model on these rows"
    assert "on the rows on which it was trained" not in report.to_markdown()
    weighted = MODELS[name].fit(X, y, sample_weight=weight)
    assert not warning(weighted, X, y, sample_weight=weight)
    assert "other weights" in warning(weighted, X[:90], y[:90], sample_weight=weight[:90])


def test_class_weights_are_no_other_rows():
    X, y, _ = rows()
    label = np.where(y > 2, "many", "few")
    model = AnytimeClassifier(encoding="linear", class_weight="balanced").fit(X, label)
    assert not warning(model, X, label)
    assert warning(model, X[:90], label[:90])


def test_where_no_number_is_known_the_loss_tells():
    X, grade, query = ranking()
    model = AnytimeRanker().fit(X, grade, qid=query)
    assert not warning(model, X, grade, qid=query)
    few = query < 12
    assert "other rows" in warning(model, X[few], grade[few], qid=query[few])
    X, time, event = survival()
    y = np.array(list(zip(event, time, strict=True)), dtype=[("event", bool), ("time", float)])
    model = AnytimeSurvival().fit(X, y)
    assert not warning(model, X, y)
    assert "other rows" in warning(model, X[:150], y[:150])


def test_other_estimators_know_no_number():
    X, y, _ = rows()
    model = StagedEstimators(Ridge(), AnytimeRegressor()).fit(X[["x"]], y)
    assert not warning(model, X[["x"]][:90], y[:90])
