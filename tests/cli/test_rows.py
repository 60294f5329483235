"""Rows on the command line: kept together in folds, and left out without a target."""

import numpy as np
import pandas as pd
import pytest

from budgetline import AnytimeRegressor, cross_val_budget_curve
from budgetline.cli.data import Files
from budgetline.cli.printing import Printer

pytestmark = pytest.mark.quick_cases(3)


def visits(n=200, seed=0):
    rng = np.random.default_rng(seed)
    patient = rng.integers(0, 25, n)
    X = rng.normal(size=(25, 2))[patient] + 0.1 * rng.normal(size=(n, 2))
    y = np.round(rng.normal(size=25)[patient] + X[:, 0], 3)
    names = {"patient": [f"P{k}" for k in patient], "a": X[:, 0].round(3), "b": X[:, 1].round(3), "y": y}
    return pd.DataFrame(names)


# -- rows of one patient ---------------------------------------------------------------------------------------


def test_reports_by_patient(run, done):
    data = visits()
    data.to_csv("visits.csv", index=False)
    data.drop(columns="patient").to_csv("train.csv", index=False)
    assert run("fit", "train.csv", "-t", "y", "-o", "m", "--no-cv", "--encoding", "none").code == 0
    model = AnytimeRegressor()
    expected = cross_val_budget_curve(model, data[["a", "b"]], data["y"], cv=4, groups=data["patient"])
    report = ("report", "m", "visits.csv", "--cv", 4, "--fold-by", "patient", "--no-baselines")
    found = done(*report)
    curves = {curve["kind"]: curve for curve in found["curves"]}
    np.testing.assert_allclose(curves["cross-validated"]["values"][-1], expected.values[-1], rtol=1e-6)
    assert found["measure"]["folds_made"] == "groups of rows shuffled with seed 0"
    assert "the target is 'y', the only" in run(*report).err  # it is found although there is a column of patients


def test_wrong_uses_of_fold_by(run):
    visits().to_csv("visits.csv", index=False)
    visits().drop(columns="patient").to_csv("train.csv", index=False)
    assert run("fit", "train.csv", "-t", "y", "-o", "m", "--no-cv", "--encoding", "none").code == 0
    report = ("report", "m", "visits.csv", "-t", "y")
    assert "--fold-by: column 'Patient' is not in visits.csv (did you mean 'patient'?)" in (
        run(*report, "--cv", 3, "--fold-by", "Patient").err
    )
    assert "the rows belong to 25 groups, too few for 40 folds: use 25 or fewer" in (
        run(*report, "--cv", 40, "--fold-by", "patient").err
    )
    assert "--fold-by name columns of DATA: add DATA" in run("report", "m", "--fold-by", "patient").err


# -- rows without a target -------------------------------------------------------------------------------------

LABELS = {"numbers": lambda y: y, "text": lambda y: pd.Series(np.where(y > 0, "ill", "well"), index=y.index)}


def with_gaps(kind, suffix):
    data = visits().drop(columns="patient")
    data["y"] = LABELS[kind](data["y"])
    gaps = data.copy()
    gaps.loc[gaps.index % 9 == 2, "y"] = None
    name = f"gaps.{suffix}"
    getattr(gaps, f"to_{suffix}")(name, index=False)
    return name, gaps.dropna()


@pytest.mark.parametrize("kind", LABELS)
@pytest.mark.parametrize("suffix", ["csv", "parquet"])
@pytest.mark.parametrize("encoding", ["none", "spline"])
def test_rows_without_a_target_are_left_out(kind, suffix, encoding, run, done):
    name, rest = with_gaps(kind, suffix)
    rest.to_csv("rest.csv", index=False)
    assert run("fit", "rest.csv", "-t", "y", "-o", "m", "--encoding", encoding).code == 0
    command = ("curve", "m", name, "-t", "y")
    refused = run(*command)
    assert refused.code == 2
    assert refused.err.endswith("; --drop-missing-target leaves these rows out\n")
    found = run(*command, "--drop-missing-target")
    assert found.code == 0, found.err
    same = done("curve", "m", "rest.csv", "-t", "y")
    np.testing.assert_allclose(done(*command, "--drop-missing-target")["value"], same["value"], rtol=1e-9)
    fit = ("-t", "y", "--encoding", encoding, "-o", "n")
    found, same = (done("fit", *each, *fit)["sequence"] for each in ((name, "--drop-missing-target"), ("rest.csv",)))
    assert found["group"] == same["group"]
    np.testing.assert_allclose(found["gain"], same["gain"], rtol=1e-9)
    report = done("report", "m", name, "-t", "y", "--cv", 3, "--no-baselines", "--drop-missing-target")
    assert report["data"]["rows"] == len(rest)
    assert run("plan", "m", name, "-t", "y", "-b", 1, "--drop-missing-target").code == 0


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_models_fitted_to_such_sources_are_those_of_the_other_rows(suffix):
    name, rest = with_gaps("numbers", suffix)
    files = Files(name, drop=True)
    for raw, settings in ((False, {}), (True, {"encoding": "spline"})):
        source = files.source("y", ["a", "b"], raw=raw)
        model = AnytimeRegressor(**settings).fit(source)
        same = AnytimeRegressor(**settings).fit(rest[["a", "b"]], rest["y"])
        np.testing.assert_allclose(model.predict(rest), same.predict(rest), rtol=1e-8)
        chunk = files.read_all(source, Printer(False, True))
        np.testing.assert_allclose(chunk.y, rest["y"])


def test_lines_are_those_of_the_file_though_rows_are_left_out(run):
    _, rest = with_gaps("numbers", "csv")
    rest.to_csv("rest.csv", index=False)
    assert run("fit", "rest.csv", "-t", "y", "-o", "m", "--no-cv", "--encoding", "none").code == 0
    gaps = pd.read_csv("gaps.csv")
    gaps.loc[100, "a"] = None
    gaps.to_csv("gaps.csv", index=False)
    found = run("report", "m", "gaps.csv", "-t", "y", "--drop-missing-target")
    assert "Input X contains NaN: column 'a', first in line 102" in found.err


def test_a_target_without_any_value(run):
    data = visits().drop(columns="patient").assign(y=None)
    data.to_csv("gaps.csv", index=False)
    found = run("fit", "gaps.csv", "-t", "y", "--drop-missing-target")
    assert found.err.endswith("error: gaps.csv holds no rows with a target\n")


def test_weights_that_are_missing_are_no_targets(run):
    data = visits().drop(columns="patient").assign(w=1.0)
    data.loc[3, "w"] = None
    data.to_csv("gaps.csv", index=False)
    found = run("fit", "gaps.csv", "-t", "y", "--sample-weight", "w", "--drop-missing-target")
    assert found.err.endswith("column 'w' has 1 missing values, the first in line 5\n")


# -- too many classes ------------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("default")
def test_many_classes_are_refused_with_advice_that_works(run, done):
    data = visits(600).drop(columns="patient")
    data["y"] = [f"A{k % 60}" for k in range(len(data))]
    data.to_csv("prices.csv", index=False)
    found = run("fit", "prices.csv", "-t", "y", "--encoding", "none")
    assert found.err.endswith(
        "the target 'y' holds more than 50 classes, such as 'A0', 'A1': if these are numbers, write them like 1234.5; "
        "--task classification learns all of them, but slowly\n"
    )
    learned = ("--schedule", "cheapest", "--cv", 2, "--encoding", "none", "--alpha", 1)
    found = run("fit", "prices.csv", "-t", "y", *learned, "--task", "classification")
    assert found.code == 0
    assert "warning: y has 60 classes, such as 'A0', 'A1'" in found.err
    assert "for numbers use AnytimeRegressor (--task regression)\n" in found.err
    data["y"] = data["y"].str[1:]
    data.to_csv("prices.csv", index=False)
    assert "regression: the target 'y' holds numbers" in run("fit", "prices.csv", "-t", "y", *learned).err
    data["y"] = [f"A{k % 50}" for k in range(len(data))]
    data.to_csv("prices.csv", index=False)
    assert run("fit", "prices.csv", "-t", "y", *learned).code == 0
