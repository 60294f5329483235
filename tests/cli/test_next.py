"""``budgetline next`` against the Python API, and its errors."""

import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

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
        same(done("next", name, "--available", "age,cp"), model.next_groups(HAVE))
        same(
            done("next", name, "--available", "age", "--available", "cp", "--budget", 20),
            model.next_groups(HAVE, budget=20),
        )
        same(done("next", name), model.next_groups())
    found = run("next", "linear", "--available", "age,cp", "--budget", 20)
    expected = budgetline.load("linear").next_groups(HAVE, budget=20)
    assert found.out == f"available: age, cp; cost 2\n\n{expected}\n"
    assert run("next", "linear", "--budget", 0).out.endswith("\nnothing is left to buy within the budget\n")
    everything = ",".join(load_heart().feature_groups.names)
    assert run("next", "linear", "--available", everything).out.endswith("\nnothing is left to buy\n")


def test_estimates_and_chances_are_explained(heart, run):
    estimates, chance = "\ngains are estimates: ", "\nchance: the chance that the group changes the decision"
    for arguments, both in (
        (["linear"], (False, False)),
        (["model"], (True, False)),
        (["model", "patients.csv", "--available", "age,cp"], (True, True)),
        (["model", "--budget", 0], (False, False)),  # there is no table
    ):
        said = run("next", *arguments).out
        assert (estimates in said, chance in said) == both


def test_rows_are_ranked_by_chance(heart, done):
    model, patients = budgetline.load("model"), heart[:2]
    same(done("next", "model", "patients.csv", "--available", "age,cp"), model.next_groups(HAVE, X=patients))


def test_raw_files_with_text_and_gaps(done):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": rng.normal(size=200), "kind": rng.choice(["x", "y"], 200), "b": rng.normal(size=200)})
    frame.loc[::7, "a"] = np.nan
    y = np.where(frame["a"].fillna(0) * frame["b"] + (frame["kind"] == "x") > 0.4, "yes", "no")
    frame.to_csv("all.csv", index=False)
    frame[["kind", "a"]][:3].to_csv("some.csv", index=False)
    model = AnytimeClassifier(encoding=Encoding(interactions=1)).fit(frame, y)
    budgetline.save(model, "m")
    found = done("next", "m", "some.csv", "--available", "a,kind")
    same(found, model.next_groups(["a", "kind"], X=frame[:3]))
    assert found["next"]["group"] == ["b"]


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
        found = run("next", "m", "--available", "c")
    assert found.code == 0
    assert "warning: group 'c' is not used" in found.err


ERRORS = {
    "group": (["linear", "--available", "age,nope"], "--available: there is no group 'nope'"),
    "twice": (["linear", "--available", "age,age"], "--available: group 'age' is listed twice"),
    "budget": (["linear", "--budget", "-1"], "--budget"),
    "no model": (["nope"], "nope: no such file"),
    "regression": (
        ["linear", "patients.csv", "--available", "age"],
        "DATA is for classification, but linear is a regression",
    ),
    "nothing available": (["model", "patients.csv"], "name the groups whose values DATA has: --available A,B"),
    "column": (
        ["model", "patients.csv", "--available", "sex"],
        "column 'sex', which the model needs, is not in patients",
    ),
    "no file": (["model", "nope.csv", "--available", "age"], "nope.csv does not exist"),
    "no values": (["model", "gaps.csv", "--available", "age"], "NaN: column 'age', first in line 3"),
}


@pytest.mark.usefixtures("heart")
def test_every_mistake_is_one_line(run):
    Path("gaps.csv").write_text('age,sex\n50,1\n"",0\n')
    for arguments, text in ERRORS.values():
        found = run("next", *arguments)
        assert (found.code, found.out) == (2, ""), found.err
        assert text in found.err.splitlines()[-1]
