"""``budgetline next`` against the Python API, and its errors."""

import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import dump_svmlight_file

import budgetline
from budgetline import AnytimeClassifier, AnytimeRegressor, Encoding, FeatureGroups
from budgetline.datasets import load_heart

HAVE = ["age", "cp"]


@pytest.fixture
def heart(run):
    """Write the data, a classifier, a regression, and two patients of whom little is known."""
    data = load_heart(as_frame=True)
    data.data.to_csv("heart.csv", index=False)
    known = [name for name in data.data if name == "age" or name.startswith("cp")]
    data.data[known][:2].to_csv("patients.csv", index=False)
    model = AnytimeClassifier(data.feature_groups, alpha=1e-2).fit(data.data, data.target)
    budgetline.save(model, "model")
    budgetline.save(AnytimeRegressor(data.feature_groups).fit(data.data, data.target), "linear")
    return data.data


def same(found, expected):
    assert found["available"] == list(expected.available)
    assert found["not_ranked"] == list(expected.unknown)
    table = expected.to_dict()
    assert set(found["next"]) == set(table)
    for name, values in table.items():
        if name in ("group", "along"):
            assert found["next"][name] == values
        else:
            np.testing.assert_allclose(found["next"][name], values, rtol=1e-9)


def test_rankings_are_those_of_the_python_api(heart, run, done):
    for name in ("linear", "model"):
        model = budgetline.load(name)
        same(done("next", name, "--have", "age,cp"), model.next_groups(HAVE))
        same(done("next", name, "--have", "age", "--have", "cp", "--budget", 20), model.next_groups(HAVE, budget=20))
        same(done("next", name), model.next_groups())
    found = run("next", "linear", "--have", "age,cp", "--budget", 20)
    expected = budgetline.load("linear").next_groups(HAVE, budget=20)
    assert found.out == f"available: age, cp; cost 2\n\n{expected}\n"
    assert run("next", "linear", "--budget", 0).out.endswith("\nnothing is left to buy within the budget\n")
    everything = ",".join(load_heart().feature_groups.names)
    assert run("next", "linear", "--have", everything).out.endswith("\nnothing is left to buy\n")


def test_rows_are_ranked_by_chance(heart, done):
    model, patients = budgetline.load("model"), heart[:2]
    same(done("next", "model", "patients.csv", "--have", "age,cp"), model.next_groups(HAVE, X=patients))
    found = done("next", "model", "patients.csv", "--have", "age,cp", "--row", 2)
    same(found, model.next_groups(HAVE, X=patients[1:]))
    found = done("next", "model", "patients.csv", "--have", "age,cp", "--sample", "heart.csv")
    same(found, model.next_groups(HAVE, X=patients, sample=heart))


def test_raw_files_with_text_and_gaps(done):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": rng.normal(size=200), "kind": rng.choice(["x", "y"], 200), "b": rng.normal(size=200)})
    frame.loc[::7, "a"] = np.nan
    y = np.where(frame["a"].fillna(0) * frame["b"] + (frame["kind"] == "x") > 0.4, "yes", "no")
    frame.to_csv("all.csv", index=False)
    frame[["kind", "a"]][:3].to_csv("some.csv", index=False)
    model = AnytimeClassifier(encoding=Encoding(interactions=1)).fit(frame, y)
    budgetline.save(model, "m")
    for row in (1, 3):
        found = done("next", "m", "some.csv", "--have", "a,kind", "--row", row)
        same(found, model.next_groups(["a", "kind"], X=frame[row - 1 : row]))
        assert found["next"]["group"] == ["b"]
        found = done("next", "m", "some.csv", "--have", "a,kind", "--row", row, "--sample", "all.csv")
        same(found, model.next_groups(["a", "kind"], X=frame[row - 1 : row], sample=frame))


def test_files_without_names(done):
    X = np.random.default_rng(1).normal(size=(120, 3))
    y = (X[:, 0] + X[:, 1] > 0).astype(int)
    dump_svmlight_file(X, y, "data.svm", zero_based=False)
    model = AnytimeClassifier([[0], [1, 2]], alpha=1e-2).fit(X, y)
    budgetline.save(model, "m")
    same(done("next", "m", "data.svm", "--have", "0", "--row", 5), model.next_groups(["0"], X=X[4:5]))


def test_what_is_bought_along_and_what_is_not_ranked(run):
    rng = np.random.default_rng(2)
    X = rng.normal(size=(100, 3))
    groups = FeatureGroups({"a": [0], "b": [1], "c": [2]}, [1, 2, 50], requires={"b": ["a"]})
    y = (X.sum(axis=1) > 0).astype(int)
    budgetline.save(AnytimeClassifier(groups, max_cost=10).fit(X, y), "m")
    lines = run("next", "m").out.splitlines()
    assert next(line for line in lines if line.startswith("b ")).split()[:3] == ["b", "a", "3"]
    assert lines[-1] == "not ranked, because the sequence ended before them: c"
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        found = run("next", "m", "--have", "c")
    assert found.code == 0
    assert "warning: group 'c' is not used" in found.err


ERRORS = {
    "group": (["linear", "--have", "age,nope"], "--have: there is no group 'nope'"),
    "twice": (["linear", "--have", "age,age"], "--have: group 'age' is listed twice"),
    "budget": (["linear", "--budget", "-1"], "--budget"),
    "no model": (["nope"], "nope: no such file"),
    "sample without rows": (["model", "--have", "age", "--sample", "heart.csv"], "--sample is for DATA"),
    "regression": (
        ["linear", "patients.csv", "--have", "age"],
        "DATA is for classification, and linear is a regression",
    ),
    "sample": (["linear", "--sample", "heart.csv"], "--sample is for classification, and linear is a regression"),
    "row": (["model", "--row", "1"], "--row is for DATA"),
    "beyond": (["model", "patients.csv", "--have", "age", "--row", "3"], "--row: patients.csv has 2 rows"),
    "row 0": (["model", "patients.csv", "--have", "age", "--row", "0"], "--row"),
    "nothing at hand": (["model", "patients.csv"], "DATA needs available groups that the model uses"),
    "column": (
        ["model", "patients.csv", "--have", "sex"],
        "column 'sex', which the model needs here, is not in patients",
    ),
    "sample too narrow": (
        ["model", "patients.csv", "--have", "age", "--sample", "patients.csv"],
        "which the model needs here, is not in patients.csv",
    ),
    "no file": (["model", "nope.csv", "--have", "age"], "nope.csv does not exist"),
    "no values": (["model", "gaps.csv", "--have", "age"], "NaN: column 'age', first in line 3"),
}


@pytest.mark.usefixtures("heart")
def test_every_mistake_is_one_line(run):
    Path("gaps.csv").write_text('age,sex\n50,1\n"",0\n')
    for arguments, text in ERRORS.values():
        found = run("next", *arguments)
        assert (found.code, found.out) == (2, ""), found.err
        assert len(found.err.splitlines()) == 1, found.err
        assert text in found.err
