"""The command line against the Python API, and against everything a user can get wrong."""

import inspect
import io
import json
import os
import re
import shutil
import tomllib
import warnings
from contextlib import chdir
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import yaml
from sklearn.utils import Bunch

import budgetline
import budgetline.cli.data
import budgetline.cli.learning
import budgetline.data.sources
import budgetline.data.text_files
from budgetline import (
    AnytimeClassifier,
    AnytimeClassifierCV,
    AnytimeRegressor,
    AnytimeRegressorCV,
    FeatureGroups,
    datasets,
    make_report,
    open_data,
)
from budgetline.cli import main
from budgetline.datasets import load_heart
from budgetline.evaluation.budget_curves import training_curve
from budgetline.leastsquares.rules import RULES
from budgetline.model.anytime import AnytimeModel
from budgetline.sequencing.schedules import SCHEDULES

ROOT = Path(__file__).parents[2]
KINDS = ("csv", "parquet")


def heart():
    data = load_heart(as_frame=True)
    return Bunch(X=data.data, y=data.target.rename("ill"), groups=data.feature_groups, alpha=1e-2)


def numbers():
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(400, 6)), columns=["a_1", "a_2", "b_1", "b_2", "c", "d"])
    y = (X["a_1"] + 0.5 * X["b_2"] - 2 * X["c"] + 0.3 * rng.normal(size=400)).rename("target")
    groups = FeatureGroups({"a": ["a_1", "a_2"], "b": ["b_1", "b_2"], "rest": ["c", "d"]}, costs=[1, 2.5, 30])
    return Bunch(X=X, y=y, groups=groups, alpha=1e-3)


def write(data, kind, groups="groups.yaml"):
    """Write data and groups; return the file, the options that name target and groups, and what Python users have."""
    path = Path(f"data.{kind}")
    frame = data.X.assign(**{data.y.name: data.y})
    frame.to_csv(path, index=False) if kind == "csv" else frame.to_parquet(path)
    Path(groups).write_text(data.groups.to_yaml())
    return path, ["--target", data.y.name, "--groups", groups], data.X, data.y, data.groups


PLAIN = ("--no-cv", "--encoding", "none", "--all-groups")
"""Options with which a fit is that of the plain estimator, with its own defaults."""


def close(found, expected):
    np.testing.assert_allclose(np.asarray(found, dtype=float), np.asarray(expected, dtype=float), rtol=1e-9, atol=1e-12)


def same_sequence(found, model):
    expected = model.sequence_.to_dict()
    assert found["group"] == expected["group"]
    for key in ("cost", "cumulative_cost", "gain"):
        close(found[key], expected[key])
    close(found["explained"], training_curve(model.model_).values[1:])


def test_by_default_folds_choose_and_held_out_quality_is_shown(run, done):
    """Nothing but data and target: the model file has the name of the data, and the printed shares are those of it."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(300, 3)), columns=["a", "b", "c"]).assign(junk=rng.normal(size=300))
    X.assign(y=X.a + X.a * X.b + 0.1 * rng.normal(size=300)).to_csv("data.csv", index=False)
    found = run("fit", "data.csv", "-t", "y", "--exclude", "junk")
    assert found.code == 0, found.err
    model = budgetline.load("data.budgetline")
    assert type(model).__name__ == "AnytimeRegressorCV"
    assert set(model.feature_names_in_) == {"a", "b", "c"}
    assert model.model_.encoding.pairs  # a × b explains half of y
    assert "chosen by cross-validation: ridge constant" in found.err
    header, *rows = found.out.splitlines()
    assert header.split()[-4:] == ["(training)", "explained", "(held", "out)"]
    assert "not bought: c" in rows  # which only adds noise
    last = model.held_out_[np.argmax(model.held_out_[:, 1])]
    assert rows[len(model.sequence_) - 1].endswith(f"{100 * last[1]:.1f} ± {100 * last[2]:.1f} %")
    shown = run("show", "data.budgetline").out
    assert header in shown
    assert "a × b is the interaction of two columns" in shown
    prices = "every column costs 1; to set prices, run budgetline groups data.csv -t y -o data.yaml,"
    assert prices in found.err
    assert run("groups", "data.csv", "-t", "y", "-o", "data.yaml").code == 0
    assert prices not in run("fit", "data.csv", "-t", "y", "-g", "data.yaml", "--no-cv", "-o", "priced").err
    assert run("plan", "data.budgetline", "-b", "1", "-o", "plan").code == 0
    assert "(held out)" not in run("show", "plan").out  # which would be about the order, not the plan
    plain = done("fit", "data.csv", "-t", "y", "--no-cv", "-o", "plain")
    assert "correction_" not in plain


# -- the same numbers as in Python ---------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["csv", *(pytest.param(kind, marks=pytest.mark.slow) for kind in KINDS[1:])])
@pytest.mark.parametrize("make", [heart, numbers])
def test_fit_show_predict_report_are_the_python_api(make, kind, run, done):
    data = make()
    path, given, X, y, groups = write(data, kind)
    classes = make is heart
    model = (AnytimeClassifier if classes else AnytimeRegressor)(groups, alpha=data.alpha).fit(X, y)
    fitted = done("fit", path, *given, *PLAIN, "--alpha", data.alpha, "-o", "m.budgetline")
    assert fitted["task"] == ("classification" if classes else "regression")
    same_sequence(fitted["sequence"], model)
    shown = done("show", "m.budgetline")
    same_sequence(shown["sequence"], model)
    budget = float(model.sequence_.cumulative_costs[1])
    predicted = run("predict", "m.budgetline", path, "--budget", budget)
    found = pd.read_csv(io.StringIO(predicted.out))["prediction"]
    close(found, model.predict(X, budget=budget))
    if classes:
        table = pd.read_csv(io.StringIO(run("predict", "m.budgetline", path, "--stage", 2, "--proba").out))
        assert list(table) == [f"p({label})" for label in model.classes_.tolist()]
        close(table, model.predict_proba(X, stage=2))
    names = groups.names[:2]
    any_groups = done("predict", "m.budgetline", path, "--available", ",".join(names))
    close(any_groups["predictions"], model.predict(X, available=names))
    record = done("report", "m.budgetline", path, "-t", y.name, "--cv", 3, "--unit", "dollars")
    expected = json.loads(make_report(model, X, y, cv=3, unit="dollars").to_json())
    assert record.keys() == expected.keys()
    assert record["unit"] == "dollars"
    for found, wanted in zip(record["curves"], expected["curves"], strict=True):
        close(found["costs"], wanted["costs"])
        close(found["values"], wanted["values"])
    for found, wanted in zip(record["comparison"]["methods"], expected["comparison"]["methods"], strict=True):
        close(found["timeliness"], wanted["timeliness"])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("make", [heart, numbers])
def test_streamed_fits_are_those_of_a_source(make, kind, run):
    data = make()
    path, given, *_, groups = write(data, kind)
    settings = {"alpha": 1e-2, "rule": "score"} if make is heart else {"alpha": 1e-2}
    estimator = (AnytimeClassifier if make is heart else AnytimeRegressor)(groups, **settings)
    model = estimator.fit(open_data(str(path), data.y.name))
    found = run("fit", path, *given, *PLAIN, "--stream", "--alpha", "0.01", "-o", "m.budgetline")
    assert found.code == 0
    assert "in chunks" in found.err
    assert ("using the rule score" in found.err) == (make is heart)
    np.testing.assert_array_equal(budgetline.load("m.budgetline").coef_path_, model.coef_path_)


def test_data_that_do_not_fit_into_memory_are_streamed(run, monkeypatch):
    path, given, *_ = write(numbers(), "parquet")
    assert "in memory" in run("fit", path, *given, *PLAIN, "-o", "m").err
    monkeypatch.setattr(budgetline.cli.data, "memory_left", lambda: 1000)
    assert "in chunks" in run("fit", path, *given, *PLAIN, "-o", "m").err
    assert "needs all rows in memory" in run("report", "m", path).err


def test_settings_reach_the_estimator(done):
    data = numbers()
    data.y = pd.Series(np.random.default_rng(1).poisson(np.exp(data.y / 4)), name="n")
    weight = np.random.default_rng(2).uniform(1, 2, size=len(data.y))
    path, given, X, y, groups = write(data, "parquet")
    X.assign(n=y, w=weight).to_parquet(path)
    found = done(
        "fit",
        path,
        *given,
        *PLAIN,
        "--loss",
        "poisson",
        "--sample-weight",
        "w",
        "--alpha",
        "0.1",
        "--rule",
        "omp",
        "-o",
        "m",
    )
    same_sequence(
        found["sequence"],
        AnytimeRegressor(groups, loss="poisson", alpha=0.1, rule="omp").fit(X, y, sample_weight=weight),
    )
    found = done(
        "fit",
        path,
        *given,
        "--encoding",
        "none",
        "--sample-weight",
        "w",
        "--cv",
        3,
        "--schedule",
        "doubling",
        "-o",
        "m",
    )
    drawn = np.random.default_rng(0).permutation(len(y))
    at_random = {"X": X.iloc[drawn], "y": y.iloc[drawn], "sample_weight": np.asarray(weight)[drawn]}
    search = AnytimeRegressorCV(groups, cv=3, schedule="doubling").fit(**at_random)
    same_sequence(found["sequence"], search)
    assert found["alpha_"] == search.alpha_
    found = done("fit", path, *given, *PLAIN, "--sample-weight", "w", "--max-groups", 2, "-o", "m")
    assert len(found["sequence"]["group"]) == 2
    assert len(found["not_in_sequence"]) == 1
    found = done("fit", path, *given, *PLAIN, "--sample-weight", "w", "--max-cost", 3.5, "-o", "m")
    assert sorted(found["sequence"]["group"]) == ["a", "b"]


def test_curve_is_the_python_api(done):
    data = heart()
    path, given, X, y, groups = write(data, "csv")
    done("fit", path, *given, *PLAIN, "--alpha", "0.01", "-o", "m")
    model = AnytimeClassifier(groups, alpha=1e-2).fit(X, y)
    expected = budgetline.budget_curve(model, X, y, metric="roc_auc")
    found = done("curve", "m", path, "--metric", "roc_auc")
    close(found["value"], expected.values)
    assert tuple(found["group"]) == expected.groups


def test_certify_is_the_python_api(run, done):
    data = numbers()
    path, given, X, y, groups = write(data, "csv")
    done("fit", path, *given, *PLAIN, "--alpha", data.alpha, "-o", "m")
    model = AnytimeRegressor(groups, alpha=data.alpha).fit(X, y)
    truth = model.certificate(time_limit=60)
    found = done("certify", "m", "--time-limit", 60)
    assert [row["budget"] for row in found["budgets"]] == pytest.approx(
        [share * groups.costs.sum() for share in (0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1)]
    )
    for row in found["budgets"]:
        there = truth.at(row["budget"])
        close([row["explained"], row["bound"]], np.array([there.achieved, there.bound]) / truth.null_value)
        close(row["ratio"], there.ratio)
    close(list(found["timeliness"].values()), truth.timeliness())
    assert found["alpha"] == data.alpha
    assert found["notes"] == list(truth.notes)
    asked = done("certify", "m", "--time-limit", 60, "--budget", 0, "--budget", 3.3)["budgets"]
    exact = model.certificate([0, 3.3], time_limit=60).at(3.3)
    assert [row["budget"] for row in asked] == [0, 3.3]
    close([row["ratio"] for row in asked], [truth.at(0).ratio, exact.ratio])
    printed = run("certify", "m", "--budget", 3.3)
    assert (printed.code, printed.err) == (0, "")
    lines = printed.out.splitlines()
    header, line, mean = lines[(k := next(k for k, text in enumerate(lines) if "bound on any set" in text)) : k + 3]
    assert header.split("  ")[-1].strip() == "certified share of the optimum"
    assert line.split()[0] == "3.3"
    shown = [float(number) / 100 for number in line.split()[1::2]]
    close(shown[:2], np.round(np.array([exact.achieved, exact.bound]) / truth.null_value, 3))
    assert exact.ratio - 1e-3 < shown[2] <= exact.ratio + 1e-7
    assert mean.startswith("mean over budgets")
    assert " ".join(truth.notes[0].split()) in " ".join(printed.out.split())
    assert all(len(line) <= 80 for line in printed.out.splitlines())


@pytest.mark.parametrize("make", [pytest.param(heart, marks=pytest.mark.slow), numbers])
def test_alpha_is_chosen_by_folds_of_a_stream(make, done):
    data = make()
    path, given, _, _, groups = write(data, "csv")
    found = done("fit", path, *given, "--encoding", "none", "--cv", 3, "--stream", "-o", "m")
    source = open_data(path, given[1])
    search = AnytimeClassifierCV(groups, cv=3, rule="score") if make is heart else AnytimeRegressorCV(groups, cv=3)
    search.fit(source)
    same_sequence(found["sequence"], search)
    assert found["alpha_"] == search.alpha_


def test_rows_are_answered_from_the_groups_that_they_have(run, done):
    data = numbers()
    path, given, X, y, groups = write(data, "csv")
    done("fit", path, *given, *PLAIN, "--alpha", data.alpha, "-o", "m")
    model = AnytimeRegressor(groups, alpha=data.alpha).fit(X, y)
    holes = X.copy()
    for k, columns in enumerate(groups.columns):
        holes.loc[holes.index % (k + 2) == 0, list(columns)] = np.nan
    holes.to_csv("holes.csv", index=False)
    for options, keywords in (((), {}), (("--stage", 2), {"stage": 2}), (("--stage", 0), {"stage": 0})):
        found = done("predict", "m", "holes.csv", "--available", "auto", *options)
        close(found["predictions"], model.predict(holes, available="auto", **keywords))
    assert "groups used where they are available: " in run("predict", "m", "holes.csv", "--available", "auto").err


def test_reports_with_a_certificate(run, done):
    data = numbers()
    path, given, X, y, groups = write(data, "csv")
    done("fit", path, *given, *PLAIN, "--alpha", data.alpha, "-o", "m")
    model = AnytimeRegressor(groups, alpha=data.alpha).fit(X, y)
    expected = make_report(model, certificate=model.certificate(time_limit=60)).certificate
    found = done("report", "m", "--certify", 60)["certificate"]
    for row, each in zip(found["budgets"], expected.budgets, strict=True):
        close([row[key] for key in vars(each)], list(vars(each).values()))
    close(found["curve"]["values"], expected.curve.values)
    assert (
        run("report", "m", path, "-t", "target", "--cv", 2, "--no-baselines", "--certify", 1, "-o", "r.html").code == 0
    )
    assert "How close to optimal?" in Path("r.html").read_text(encoding="utf-8")
    assert done("report", "m")["certificate"] is None


def test_plan_is_the_python_api(run, done):
    path, given, X, y, *_ = write(numbers(), "csv")
    assert run("fit", path, *given, *PLAIN, "-o", "m").code == 0
    model = budgetline.load("m")
    found = done("plan", "m", "-b", 3, "-b", 31, "--exclude", "b", "--time-limit", 60)["plans"]
    for row, plan in zip(found, model.plans([3, 31], exclude=["b"], time_limit=60), strict=True):
        assert (tuple(row["groups"]), row["optimal"], row["refitted"]) == (plan.groups, plan.optimal, True)
        close([row["cost"], row["value"], row["ratio"]], [plan.cost, plan.value, plan.ratio])
        close(row["explained"], budgetline.budget_curve(plan, X, y).values[-1])
        close(row["order_explained"], budgetline.budget_curve(model, X, y).at(row["budget"]))
    (only,) = done("plan", "m", "-b", 33, "--exclude", "a", "--include", "rest", "--time-limit", 60)["plans"]
    assert set(only["groups"]) == {"b", "rest"}
    assert "proven best: No other groups within" in " ".join(run("plan", "m", "-b", 31).out.split())
    assert "of the best: Other groups within" in " ".join(run("plan", "m", "-b", 31, "--time-limit", 0).out.split())
    assert done("plan", "m", "-b", 31, "-o", "p")["written"] == "p"
    plan = model.plan(31)
    answered = done("predict", "p", path)
    assert answered["groups"] == list(plan.groups)
    close(answered["predictions"], plan.predict(X))
    assert done("show", "p")["sequence"]["group"] == list(plan.groups)


def test_plans_of_classes_are_estimates_or_refitted(run, done):
    path, given, X, y, _ = write(heart(), "csv")
    assert run("fit", path, *given, *PLAIN, "--alpha", "0.01", "-o", "m").code == 0
    model = budgetline.load("m")
    for data, exact in (((), {}), ((path, "-t", "ill"), {"X": X, "y": y})):
        (row,) = done("plan", "m", *data, "-b", 50, "--time-limit", 60)["plans"]
        plan = model.plan(50, time_limit=60, **exact)
        assert (tuple(row["groups"]), row["ratio"], row["refitted"]) == (plan.groups, None, bool(exact))
        close(row["value"], plan.value)
        close(row["explained"], training_curve(plan.model_).values[-1])
        close(row["order_explained"], budgetline.budget_curve(model, X, y).at(50))
        if exact:
            close(row["explained"], budgetline.budget_curve(plan, X, y).values[-1])
    said = " ".join(run("plan", "m", "-b", 50).out.split())
    assert "which may select other groups, run: budgetline plan m DATA -t TARGET -b 50" in said
    refitted = run("plan", "m", path, "-t", "ill", "-b", 50).out
    assert "the best found: A short search" in refitted
    assert "estimate" not in refitted


def test_plans_say_what_they_maximise_and_what_the_order_explains(run, done):
    path, given, X, y, _ = write(heart(), "csv")
    assert run("fit", path, *given, *PLAIN, "--alpha", "0.01", "--correction", 1, "-o", "m").code == 0
    model = budgetline.load("m")
    rows, curve = (
        done("plan", "m", path, "-t", "ill", "-b", 50, "-b", 200)["plans"],
        budgetline.budget_curve(model, X, y),
    )
    said = run("plan", "m", path, "-t", "ill", "-b", 50, "-b", 200).out
    for row, line in zip(rows, said.splitlines()[1:], strict=False):
        close(row["order_explained"], curve.at(row["budget"]))
        assert line.split()[2:5:2] == [f"{100 * row[name]:.1f}" for name in ("explained", "order_explained")]
    assert (
        "A plan maximises the explained share less the correction for noise; so a plan may explain less of the "
        "training data than the order." in " ".join(said.split())
    )


def test_correction_and_start_reach_the_estimator(run, done):
    path, given, X, y, groups = write(numbers(), "csv")
    fitted = done("fit", path, *given, *PLAIN, "--correction", 2, "--start", "b", "-o", "m")
    assert (fitted["settings"]["correction"], fitted["sequence"]["group"][0]) == (2.0, "b")
    same_sequence(fitted["sequence"], AnytimeRegressor(groups, correction=2.0, start=["b"]).fit(X, y))
    searched = done("fit", path, *given, "--encoding", "none", "--cv", 3, "-o", "m")
    assert {"alpha_", "correction_"} <= searched.keys()
    correction = searched["correction_"]
    noise = f"correction for noise {correction:g}" if correction else "no correction for noise"
    chosen = f"chosen by cross-validation: ridge constant {searched['alpha_']:g}, {noise}"
    assert chosen in run("show", "m").out


def test_models_that_know_too_little_are_not_certified(run):
    path, given, *_ = write(heart(), "csv")
    run("fit", path, *given, *PLAIN, "--max-groups", 2, "-o", "m")
    for arguments in (["certify", "m"], ["report", "m", "--certify", 1, "-o", "new.html"]):
        found = run(*arguments)
        assert (found.code, found.out) == (2, "")
        assert found.err.startswith("error: certificates exist only for squared error")
        assert len(found.err.splitlines()) == 1
    assert not Path("new.html").exists()


def test_folders_and_globs(done):
    data = numbers()
    frame = data.X.assign(target=data.y)
    Path("days").mkdir()
    for k in range(4):
        frame[k * 100 : (k + 1) * 100].to_parquet(f"days/{k}.parquet")
    model = AnytimeRegressor().fit(data.X, data.y)
    for place in ("days", "days/*.parquet"):
        same_sequence(done("fit", place, *PLAIN, "-t", "target", "-o", "m")["sequence"], model)


def test_columns_that_are_not_grouped_or_hold_text_do_not_matter(run, done):
    data = numbers()
    data.X.assign(city="x", target=data.y).to_csv("data.csv", index=False)
    found = run("fit", "data.csv", "-t", "target", "-o", "m", "--encoding", "none")
    assert "left out because they do not hold numbers: city" in found.err
    Path("g.yaml").write_text("groups:\n  c: {columns: [c], cost: 2}\n  b: {columns: [b_1, b_2]}\nremainder: drop\n")
    groups = FeatureGroups.from_yaml("g.yaml")
    same_sequence(
        done("fit", "data.csv", *PLAIN, "-t", "target", "-g", "g.yaml", "-o", "m")["sequence"],
        AnytimeRegressor(groups).fit(data.X, data.y),
    )
    Path("g.yaml").write_text("groups:\n  c: {columns: [c], cost: 2}\n")
    assert (
        "are in no group: add them to a group, or leave them out with remainder 'drop'"
        in run("fit", "data.csv", "-t", "target", "-g", "g.yaml", "-o", "m").err
    )


@pytest.mark.parametrize(
    ("values", "task"),
    [
        (["well", "ill"], "classification"),
        ([True, False], "classification"),
        ([0, 1], "classification"),
        ([-1.0, 1.0], "classification"),
        ([0, 1, 2], "regression"),
        ([0.5, 1.0], "regression"),
    ],
)
@pytest.mark.parametrize("stream", ["--stream", "--in-memory"])
def test_the_task_follows_from_the_target(values, task, stream, run):
    X = np.random.default_rng(0).normal(size=(60, 2))
    y = np.resize(np.array(values), 60)
    pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "y": y}).to_parquet("data.parquet")
    found = run("fit", "data.parquet", "-t", "y", "--alpha", "0.1", "-o", "m", stream)
    assert found.code == 0, found.err
    assert f"{task}: the target 'y' holds" in found.err
    model = budgetline.load("m")
    assert hasattr(model, "classes_") == (task == "classification")
    if task == "classification":
        assert set(model.classes_.tolist()) == set(values)


# -- groups --------------------------------------------------------------------------------------------------------


def test_a_groups_file_loads_back_and_fits(run):
    write(numbers(), "csv")
    found = run("groups", "data.csv", "-t", "target", "--by", "prefix", "-o", "g.yaml")
    assert found.code == 0
    assert "6 columns in 4 groups" in found.err
    groups = FeatureGroups.from_yaml("g.yaml")
    assert groups == FeatureGroups({"a": ["a_1", "a_2"], "b": ["b_1", "b_2"], "c": ["c"], "d": ["d"]}, remainder="drop")
    assert Path("g.yaml").read_text().startswith("# Groups of data.csv")
    assert run("fit", "data.csv", "-t", "target", "-g", "g.yaml", "-o", "m").code == 0
    printed = run("groups", "data.csv", "-t", "target").out
    assert list(yaml.safe_load(printed)["groups"]) == ["a_1", "a_2", "b_1", "b_2", "c", "d"]


NASTY = [
    "yes",
    "1",
    "1.5",
    "a: b",
    "#x",
    "na\u00efve",
    "[x]",
    "2020-01-01",
    "~",
    " lead",
    "it's",
    '"q"',
    "{a}",
    "!t",
    "null",
]


def test_names_that_need_quotes_are_quoted(run):
    rng = np.random.default_rng(0)
    pd.DataFrame({name: rng.normal(size=20) for name in [*NASTY, "y"]}).to_parquet("d.parquet")
    assert run("groups", "d.parquet", "-t", "y", "--by", "column", "-o", "g.yaml").code == 0
    assert FeatureGroups.from_yaml("g.yaml").columns == tuple((name,) for name in NASTY)
    found = run("fit", "d.parquet", "-t", "y", "-g", "g.yaml", "-o", "m", "--no-cv", "--alpha", "auto")
    assert found.code == 0
    assert all(name.strip() in found.out for name in NASTY)  # none of them is taken for markup


# -- predictions ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_predictions_in_chunks_are_those_of_the_whole(kind, run, monkeypatch):
    data = numbers()
    path, given, X, y, _ = write(data, kind)
    if kind == "parquet":
        X.assign(target=y).to_parquet(path, row_group_size=50)
    run("fit", path, *given, *PLAIN, "-o", "m")
    expected = budgetline.load("m").predict(X, stage=2)
    monkeypatch.setattr(budgetline.data.sources, "SOURCE_BYTES", 2000)
    monkeypatch.setattr(budgetline.data.text_files, "CSV_BLOCK", 4000)
    sizes = []
    respond = AnytimeModel.respond

    def spy(model, scores, *given):
        sizes.append(len(scores))
        return respond(model, scores, *given)

    monkeypatch.setattr(AnytimeModel, "respond", spy)
    assert run("predict", "m", path, "--stage", 2, "-o", "out.csv").code == 0
    close(pd.read_csv("out.csv")["prediction"], expected)
    assert len(sizes) > 4
    assert sum(sizes) == len(y)


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_only_the_columns_that_are_needed_must_be_there(kind, run):
    path, given, X, y, groups = write(numbers(), kind)
    run("fit", path, *given, *PLAIN, "-o", "m")
    model = budgetline.load("m")
    first = model.sequence_.groups[0]
    columns = list(groups.columns[groups.names.index(first)])
    part = pd.DataFrame({"id": ["x"] * len(y)}).join(X[columns[::-1]])
    part.to_csv("part.csv", index=False) if kind == "csv" else part.to_parquet("part.parquet")
    found = run("predict", "m", f"part.{kind}", "--stage", 1)
    close(pd.read_csv(io.StringIO(found.out))["prediction"], model.predict(X, stage=1))
    nothing = run("predict", "m", f"part.{kind}", "--budget", 0)
    close(pd.read_csv(io.StringIO(nothing.out))["prediction"], np.full(len(y), y.mean()))
    assert "which the model needs, is not in" in run("predict", "m", f"part.{kind}").err


def test_an_output_is_replaced_in_full_or_not_at_all(run, monkeypatch):
    path, given, X, y, _ = write(numbers(), "csv")
    run("fit", path, *given, *PLAIN, "-o", "m")
    X.loc[390, "c"] = np.nan
    X.assign(target=y).to_csv("late.csv", index=False)
    monkeypatch.setattr(budgetline.data.text_files, "CSV_BLOCK", 4000)
    Path("out.csv").write_text("old")
    before = sorted(os.listdir())
    found = run("predict", "m", "late.csv", "-o", "out.csv")
    assert (found.code, found.out) == (2, "")
    assert "Input X contains NaN: column 'c'" in found.err
    assert sorted(os.listdir()) == before
    assert Path("out.csv").read_text() == "old"
    assert run("predict", "m", path, "-o", "out.csv").code == 0
    assert len(pd.read_csv("out.csv")) == len(y)


@pytest.mark.parametrize("command", ["fit", "predict", "report", "export", "groups"])
def test_a_full_disk_is_one_line(command, run, monkeypatch):
    path, given, *_ = write(numbers(), "csv")
    run("fit", path, *given, *PLAIN, "-o", "m")
    call = {
        "fit": ["fit", path, *given, *PLAIN, "-o", "new.out"],
        "predict": ["predict", "m", path, "-o", "new.csv"],
        "report": ["report", "m", "-o", "new.html"],
        "export": ["export", "m", "-o", "new.onnx"],
        "groups": ["groups", path, "-o", "new.yaml"],
    }[command]
    before = sorted(os.listdir())

    def full(source, target):
        raise OSError(28, "No space left on device", str(source))

    monkeypatch.setattr(os, "replace", full)
    found = run(*call)
    assert found.code == 2
    assert found.err.splitlines()[-1] == f"error: cannot write {call[-1]}: No space left on device"
    assert sorted(os.listdir()) == before


@pytest.mark.parametrize("command", ["fit", "predict"])
def test_an_interruption_leaves_nothing_behind(command, run, monkeypatch):
    path, given, *_ = write(numbers(), "csv")
    run("fit", path, *given, *PLAIN, "-o", "m")
    before = sorted(os.listdir())

    def interrupted(*_):
        raise KeyboardInterrupt

    place, name, call = {
        "fit": (budgetline.cli.learning, "save", ["fit", path, *given, *PLAIN, "-o", "new"]),
        "predict": (AnytimeModel, "respond", ["predict", "m", path, "-o", "new.csv"]),
    }[command]
    monkeypatch.setattr(place, name, interrupted)
    found = run(*call)
    assert found.code == 130
    assert "Traceback" not in found.err
    assert sorted(os.listdir()) == before


# -- errors --------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def good_and_bad(tmp_path_factory):
    """Write good and bad files of all kinds into a folder, once."""
    with chdir(tmp_path_factory.mktemp("mistakes")):
        write_mistakes()
        return Path.cwd()


@pytest.fixture
def mistakes(good_and_bad, folder):
    """Work in a copy of the folder."""
    shutil.copytree(good_and_bad, folder, dirs_exist_ok=True)


def write_mistakes():
    data = numbers()
    frame = data.X.assign(target=data.y, label=np.resize(["x", "y"], len(data.y)), day=pd.Timestamp("2020-01-01"))
    frame.drop(columns="day").to_csv("good.csv", index=False)
    frame.to_parquet("good.parquet")
    Path("good.svm").write_text("1 1:2\n")
    text = data.groups.to_yaml() + "remainder: drop\n"
    Path("g.yaml").write_text(text)
    Path("broken.yaml").write_text("groups: [a\n b: {")
    Path("binary.yaml").write_bytes(b"\xff\xfe\x00")
    Path("list.yaml").write_text("- a\n")
    Path("cost.yaml").write_text(text.replace("30", "dear"))
    Path("type.yaml").write_text("groups: {a: {columns: 1.5}}")
    Path("with_target.yaml").write_text(text.replace("[c, d]", "[c, target]"))
    Path("unknown.yaml").write_text(text.replace("[c, d]", "[c, nope]"))
    Path("text.yaml").write_text(text.replace("[c, d]", "[c, label]"))
    Path("empty.csv").write_text("")
    Path("bad.parquet").write_text("nonsense")
    Path("header.csv").write_text("a_1,a_2,b_1,b_2,c,d,target\n")
    Path("file").write_text("")
    missing = frame.drop(columns="day")
    missing.loc[3, "c"] = np.nan
    missing.to_csv("nan.csv", index=False)
    missing.assign(target=missing["c"]).to_csv("nan_target.csv", index=False)
    frame.drop(columns="day").assign(label=frame["label"].mask(frame.index == 3)).to_csv("no_label.csv", index=False)
    assert main(["fit", "good.csv", *PLAIN, "-t", "target", "-g", "g.yaml", "-o", "m"]) == 0
    budgetline.save(AnytimeRegressor().fit(data.X.to_numpy(), data.y), "unnamed")
    Path("cut").write_bytes(Path("m").read_bytes()[:-100])


FIT = ["fit", "good.csv", "-t", "target", "-o", "new"]
ERRORS = {
    "missing data": (["fit", "nope.csv", "-t", "target", "-o", "new"], "nope.csv does not exist"),
    "missing groups": ([*FIT, "-g", "nope.yaml"], "nope.yaml: no such file"),
    "missing model": (["show", "nope"], "nope: no such file"),
    "broken YAML": ([*FIT, "-g", "broken.yaml"], "broken.yaml: not valid YAML"),
    "binary YAML": ([*FIT, "-g", "binary.yaml"], "binary.yaml: "),
    "other YAML": ([*FIT, "-g", "list.yaml"], "list.yaml: expected a mapping with the key 'groups'"),
    "cost": ([*FIT, "-g", "cost.yaml"], "cost.yaml: the cost of group 'rest' is not a number: 'dear'"),
    "column type": ([*FIT, "-g", "type.yaml"], "type.yaml: group 'a': column '1.5' is not in the data"),
    "target in a group": (
        [*FIT, "-g", "with_target.yaml"],
        "column 'target' is in group 'rest', but --target also names it",
    ),
    "unknown column": ([*FIT, "-g", "unknown.yaml"], "unknown.yaml: group 'rest': column 'nope' is not in the data"),
    "unknown target": (["fit", "good.csv", "-t", "nope", "-o", "new"], "--target: column 'nope' is not in good.csv"),
    "unknown weight": ([*FIT, "--sample-weight", "nope"], "--sample-weight: column 'nope' is not in good.csv"),
    "no target": (["fit", "good.csv", "-o", "new"], "say which column is the target: --target NAME"),
    "svmlight": (["fit", "good.svm", "-t", "y", "-o", "new"], "column 'y' is not in good.svm"),
    "text as numbers": (
        ["fit", "good.csv", "-t", "label", "-o", "new", "--task", "regression"],
        "the target 'label' holds text, such as 'x', and a regression needs numbers",
    ),
    "numbers as labels": ([*FIT, "--task", "classification"], "not labels of classes"),
    "dates": (["fit", "good.parquet", "-t", "day", "-o", "new"], "the target 'day' holds dates or times"),
    "weights that are text": (
        [*FIT, "--sample-weight", "label", "-g", "g.yaml"],
        "column 'label' of good.csv does not hold numbers: --sample-weight needs",
    ),
    "text in a group": (
        [*FIT, "-g", "text.yaml", "--encoding", "none"],
        "column 'label' of good.csv does not hold numbers",
    ),
    "NaN": (
        ["fit", "nan.csv", "-t", "target", "-o", "new", "--encoding", "none"],
        "Input X contains NaN: column 'c', first in line 5",
    ),
    "NaN, streamed": (
        ["fit", "nan.csv", "-t", "target", "-o", "new", "--stream", "--encoding", "none"],
        "NaN: column 'c', first in line 5",
    ),
    "pairs of plain numbers": ([*FIT, "--encoding", "none", "--interactions", "2"], "--interactions needs an encoding"),
    "encoding": ([*FIT, "--encoding", "nope"], "'nope' is not one of 'none', 'linear', 'spline'"),
    "NaN in target": (
        ["fit", "nan_target.csv", "-t", "target", "-o", "new"],
        "column 'target' has 1 missing values, the first in line 5",
    ),
    "no label": (
        ["fit", "no_label.csv", "-t", "label", "-o", "new"],
        "column 'label' has 1 missing values, the first in line 5",
    ),
    "no label, streamed": (
        ["fit", "no_label.csv", "-t", "label", "-o", "new", "--stream"],
        "column 'label' has 1 missing values, the first in line 5",
    ),
    "empty CSV": (["fit", "empty.csv", "-t", "target", "-o", "new"], "empty.csv cannot be read as CSV"),
    "bad Parquet": (["fit", "bad.parquet", "-t", "y", "-o", "new"], "bad.parquet is not a Parquet file"),
    "no rows": (["fit", "header.csv", "-t", "target", "-o", "new"], "header.csv holds no rows"),
    "unknown kind of file": (["fit", "file", "-t", "y", "-o", "new"], "pass its format: parquet, csv, excel"),
    "no folder": ([*FIT[:-1], "nope/new"], "cannot write nope/new: there is no folder nope"),
    "file as folder": ([*FIT[:-1], "file/new"], "cannot write file/new: there is no folder file"),
    "output is a folder": ([*FIT[:-1], "."], "it is a folder"),
    "rule": ([*FIT, "--rule", "nope"], "'nope' is not one of"),
    "alpha": ([*FIT, "--alpha", "-1"], "--alpha"),
    "alpha is no number": ([*FIT, "--alpha", "much"], "--alpha"),
    "folds by a column, streamed": ([*FIT, "--stream", "--fold-by", "label"], "--fold-by needs all rows in memory"),
    "too many folds": (["fit", "good.csv", "-t", "target", "-o", "new", "--cv", "401"], "401"),
    "loss of classes": (["fit", "good.csv", "-t", "label", "-o", "new", "--loss", "poisson"], "--loss poisson is for"),
    "forward streamed": (
        ["fit", "good.csv", "-t", "label", "-o", "new", "--stream", "--rule", "forward"],
        "use rule='score' or 'omp'",
    ),
    "poisson of negative numbers": ([*FIT, "--loss", "poisson"], "negative"),
    "folds and none": ([*FIT, "--cv", "3", "--no-cv"], "use either --cv or --no-cv, not both"),
    "calibration without folds": ([*FIT, "--no-cv", "--calibration", "none"], "classification with folds"),
    "alpha from the data and folds": (
        [*FIT, "--alpha", "auto"],
        "--alpha auto chooses alpha without folds, so add --no-cv",
    ),
    "an excluded column that is not there": (
        [*FIT, "--exclude", "c,nope"],
        "--exclude: column 'nope' is not in good.csv",
    ),
    "unknown option": ([*FIT, "--nope"], "--nope"),
    "unknown command": (["nope"], "nope"),
    "no argument": (["show"], "MODEL"),
    "no model": (["show", "good.csv"], "good.csv is not a model, or it is damaged: MODEL must be a file written by"),
    "damaged model": (["show", "cut"], "damaged"),
    "damaged model, predict": (["predict", "cut", "good.csv"], "damaged"),
    "positions and names": (["predict", "unnamed", "good.csv"], "the model knows its columns by position"),
    "no rows to predict": (["predict", "m", "header.csv"], "header.csv holds no rows"),
    "no rows to predict into a file": (["predict", "m", "header.csv", "-o", "new.csv"], "header.csv holds no rows"),
    "no such group": (
        ["predict", "m", "good.csv", "--available", "a,nope"],
        "--available: there is no group 'nope'; the groups are 'a', 'b', 'rest'",
    ),
    "no such stage": (["predict", "m", "good.csv", "--stage", "9"], "stage must be between 0 and 3, got 9"),
    "two choices": (["predict", "m", "good.csv", "--stage", "1", "--budget", "1"], "pass at most one of"),
    "a plan without a budget": (["plan", "m"], "--budget"),
    "two plans in a file": (["plan", "m", "-b", "1", "-b", "2", "-o", "new"], "a file holds one plan"),
    "a plan in its model": (["plan", "m", "-b", "1", "-o", "m"], "the same file as the input"),
    "a plan for nan": (["plan", "m", "-b", "nan"], "--budget"),
    "a plan without its groups": (["plan", "m", "-b", "1", "--include", "nope"], "--include: there is no group 'nope'"),
    "a plan that is too expensive": (["plan", "m", "-b", "1", "--include", "rest"], "more than the budget of 1"),
    "a plan in and out": (["plan", "m", "-b", "9", "--include", "a", "--exclude", "a"], "both in and out"),
    "a target without data": (["plan", "m", "-b", "1", "-t", "target"], "columns of DATA"),
    "an unknown start": (
        [*FIT, "-g", "g.yaml", "--start", "nope"],
        "--start: there is no group 'nope'; the groups are",
    ),
    "negative budget": (["predict", "m", "good.csv", "--budget", "-1"], "--budget"),
    "probabilities of numbers": (["predict", "m", "good.csv", "--proba"], "--proba is for classification"),
    "an interval without folds": (["predict", "m", "good.csv", "--interval", "0.9"], "fit AnytimeRegressorCV"),
    "an interval that is certain": (["predict", "m", "good.csv", "--interval", "1"], "coverage must be"),
    "suffix": (["predict", "m", "good.csv", "-o", "new.txt"], "its name must end in .csv"),
    "NaN in predict": (["predict", "m", "nan.csv", "-o", "new.csv"], "NaN: column 'c', first in line 5"),
    "metric": (["curve", "m", "good.csv", "-t", "target", "-m", "nope"], "unknown metric 'nope'"),
    "which model": (["curve", "unnamed", "good.csv", "-t", "target"], "the model knows its columns by position"),
    "target of curve": (["curve", "m", "good.parquet"], "say which column of good.parquet is the target"),
    "report suffix": (["report", "m", "-o", "new.pdf"], "its name must end in .html or .md or .json"),
    "report target": (["report", "m", "-t", "target", "-o", "new.html"], "name columns of DATA"),
    "report of other data": (["report", "m", "empty.csv", "-o", "new.html"], "empty.csv cannot be read as CSV"),
    "certify no model": (["certify", "nope"], "nope: no such file"),
    "certify damaged": (["certify", "cut"], "damaged"),
    "certify time": (["certify", "m", "--time-limit", "-1"], "--time-limit"),
    "certify no time": (["certify", "m", "--time-limit", "nan"], "--time-limit"),
    "certify budget": (["certify", "m", "--budget", "-1"], "--budget"),
    "certify endless budget": (["certify", "m", "--budget", "inf"], "budgets must be finite"),
    "certified report": (["report", "m", "--certify", "-1", "-o", "new.html"], "--certify"),
    "export suffix": (["export", "m", "-o", "new.txt"], "its name must end in .onnx"),
    "separator": (["groups", "good.csv", "--sep", "", "-o", "new"], "--sep must not be empty"),
    "demo": (["demo", "--data", "file/heart.csv"], "cannot write file/heart.csv: Not a directory"),
}


@pytest.mark.quick_cases(25)
@pytest.mark.usefixtures("mistakes")
@pytest.mark.parametrize("name", ERRORS)
@pytest.mark.parametrize("more", [[], pytest.param(["--json"], marks=pytest.mark.slow)])
def test_every_mistake_is_one_line(name, more, run):
    arguments, text = ERRORS[name]
    before = sorted(os.listdir())
    found = run(*arguments, *(more if arguments[0] not in ("nope", "demo") else []))
    assert (found.code, found.out) == (2, ""), found.err
    *notes, last = found.err.splitlines()
    assert last.startswith("error: ")
    assert text in last
    assert not any(line.startswith(("error: ", "Traceback")) for line in notes)
    assert sorted(os.listdir()) == before


@pytest.mark.usefixtures("mistakes")
def test_a_folder_that_may_not_be_written_to_is_one_line(run, monkeypatch):
    monkeypatch.setattr(os, "access", lambda *_: False)  # whoever runs the tests may be allowed everything
    assert run(*FIT).err == "error: cannot write new: the folder . is not writable\n"


def test_a_bug_is_not_hidden(run, monkeypatch):
    write(numbers(), "csv")

    def broken(*_):
        raise AttributeError("a bug")

    monkeypatch.setattr(budgetline.cli.learning, "save", broken)
    with pytest.raises(AttributeError, match="a bug"):
        run("fit", "data.csv", "-t", "target", "-o", "new")


# -- what is seen --------------------------------------------------------------------------------------------------


def test_results_go_to_stdout_and_notes_to_stderr(run):
    path, given, *_ = write(heart(), "csv")
    found = run("fit", path, *given, *PLAIN, "-o", "m")
    lines = found.out.splitlines()
    assert lines[0].split() == ["step", "group", "cost", "cumulative", "gain", "explained", "(training)"]
    assert len(lines) == 12
    assert lines[-2] == "gain: how much a group lowers the training loss, with the ridge penalty"
    assert lines[-1] == "explained: the share of the log loss that the groups remove"
    assert "wrote m: AnytimeClassifier, 9 groups, total cost 323.97" in found.err
    for arguments in (["fit", path, *given, *PLAIN, "-o", "m"], ["predict", "m", path], ["report", "m"]):
        assert run(*arguments, "--quiet").err == ""
    assert Path("report.html").exists()
    shown = run("show", "m")
    assert "exercise" in shown.out
    assert all(len(line) <= 80 for line in shown.out.splitlines())


def test_warnings_are_notes(run):
    path, given, *_ = write(heart(), "csv")
    run("fit", path, *given, *PLAIN, "--max-groups", 2, "-o", "m")
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        found = run("predict", "m", path, "--available", "sex", "--available", "ecg")
    assert found.code == 0
    assert "\nwarning: group 'ecg' is not used" in f"\n{found.err}"
    assert ".py" not in found.err


def test_group_names_may_hold_commas(done):
    data = numbers()
    data.groups = FeatureGroups({"a, b": ["a_1", "a_2", "b_1", "b_2"], "rest": ["c", "d"]})
    path, given, X, y, groups = write(data, "csv")
    done("fit", path, *given, *PLAIN, "-o", "m")
    found = done("predict", "m", path, "--available", "a, b")
    close(found["predictions"], AnytimeRegressor(groups).fit(X, y).predict(X, available=["a, b"]))


def test_reports_and_exports_are_written(run):
    path, given, *_ = write(heart(), "parquet")
    run("fit", path, *given, *PLAIN, "--alpha", "0.01", "-o", "m")
    for name in ("r.html", "r.md", "r.json"):
        assert run("report", "m", path, "-t", "ill", "--cv", 2, "--no-baselines", "-o", name).code == 0
    summary = json.loads(Path("r.json").read_text())
    printed = run("report", "m", path, "-t", "ill", "--cv", 2, "--no-baselines")
    headline, values = printed.out.splitlines()
    assert headline == summary["headline"]
    assert values.startswith("Held-out ROC AUC is 0.500 with no groups, ")
    assert values in Path("r.md").read_text().replace("\\", "")
    assert summary["title"] == f"ill in {Path(path).name}"
    assert "<!doctype html>" in Path("r.html").read_text(encoding="utf-8").lower()
    assert run("export", "m", "-o", "m.onnx").out == "inputs: X, stage, budget; outputs: scores, label, probabilities\n"


def test_reports_say_what_is_predicted_and_when_to_stop(run):
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.standard_normal((60, 30)), columns=[f"x{k}" for k in range(30)])
    table["price"] = table["x0"] + 0.5 * rng.standard_normal(60)
    table.to_csv("homes.csv", index=False)
    run("fit", "homes.csv", "-t", "price", "--alpha", "0", "--no-cv", "--all-groups", "-o", "m")
    printed = run("report", "m", "homes.csv", "--no-baselines", "-o", "r.json")
    summary = json.loads(Path("r.json").read_text())
    assert summary["title"] == "price in homes.csv"
    assert "more groups make it worse" in printed.out
    assert f"warning: {summary['warning']}" in printed.err
    run("report", "m", "-o", "r.json")
    assert json.loads(Path("r.json").read_text())["title"] == "m"
    run("report", "m", "--title", "Homes", "-o", "r.json")
    assert json.loads(Path("r.json").read_text())["title"] == "Homes"


def test_groups_that_make_predictions_of_new_rows_worse_are_not_bought(run):
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.standard_normal((60, 30)), columns=[f"x{k}" for k in range(30)])
    table["price"] = table["x0"] + 0.5 * rng.standard_normal(60)
    table.to_csv("homes.csv", index=False)
    for encoding in ("none", "spline"):
        fit = ("fit", "homes.csv", "-t", "price", "--encoding", encoding, "--alpha", "1e-6", "-o", "m")
        assert run(*fit, "--all-groups").code == 0
        bought = len(budgetline.load("m").sequence_)
        assert run(*fit).code == 0
        assert 1 <= len(budgetline.load("m").sequence_) < bought / 2


def test_spaces_around_labels_make_no_other_class(run):
    path, given, *_ = write(heart(), "csv")
    table = pd.read_csv(path)
    target = given[given.index("-t") + 1] if "-t" in given else "ill"
    table[target] = [
        f" {label}" if k % 2 else f"{label} " for k, label in enumerate(table[target].map({0: "no", 1: "yes"}))
    ]
    table.to_csv("padded.csv", index=False)
    run("fit", "padded.csv", "-t", target, "--no-cv", "--alpha", "0.01", "-o", "m")
    assert budgetline.load("m").classes_.tolist() == ["no", "yes"]


def test_explained_is_labelled_and_means_the_same_everywhere(run):
    """The table of fit said 27.2 % where curve, on the same rows, said 28.4 %: fit subtracted the ridge penalty."""
    path, given, *_ = write(heart(), "csv")
    shares = []
    for printed in (
        run("fit", path, *given, "--alpha", "0.01", "--no-cv", "-o", "m"),
        run("show", "m"),
        run("curve", "m", path, "-t", "ill"),
    ):
        shares.append(re.findall(r"(?:fluoroscopy|thallium) .* ([\d.]+) %", printed.out)[:2])
    assert shares[0] == shares[1] == shares[2]
    assert "explained (training)" in run("show", "m").out
    assert "explained, these rows" in printed.out


def test_a_model_with_an_encoding_is_exported_with_its_columns_as_inputs(run):
    X = pd.DataFrame({"age": [20, 35, None, 60] * 5, "town": ["Ulm", "Bonn", "Ulm", None] * 5})
    budgetline.save(AnytimeRegressor(encoding="linear").fit(X, np.arange(20)), "m")
    assert run("export", "m", "-o", "m.onnx").out == "inputs: age, town, stage, budget; outputs: prediction\n"
    budgetline.save(AnytimeRegressor(encoding="linear").fit(X.rename(columns={"age": "stage"}), np.arange(20)), "m")
    refused = run("export", "m", "-o", "other.onnx")
    assert refused.code == 2
    assert "column 'stage' cannot be exported" in refused.err
    assert not Path("other.onnx").exists()


@pytest.mark.parametrize(("name", "groups"), [("heart", 9), ("nhanes", 22), ("thyroid", 17)])
def test_the_demo_writes_data_and_groups(name, groups, run):
    told = run("demo", "--data", f"{name}.csv")
    found, loaded = pd.read_csv(f"{name}.csv"), getattr(datasets, f"load_{name}")(as_frame=True)
    pd.testing.assert_frame_equal(found, loaded.frame)
    assert f"with the target {loaded.target.name}, " in told.out
    assert f"next: budgetline fit {name}.csv -t {loaded.target.name} -g {name}.yaml\n" in told.err
    assert len(FeatureGroups.from_yaml(f"{name}.yaml")) == groups
    assert "the known files are heart.csv" in run("demo", "--data", "bank.csv").err


@pytest.mark.parametrize(("option", "names"), [("--rule", RULES), ("--schedule", SCHEDULES)])
def test_the_options_are_those_of_the_library(option, names, run, done):
    path, given, X, y, groups = write(numbers(), "csv")
    for name in names:
        model = AnytimeRegressor(groups, **{option[2:]: name}).fit(X, y)
        same_sequence(done("fit", path, *given, *PLAIN, option, name, "-o", "m")["sequence"], model)
    assert (
        f"is not one of {', '.join(map(repr, names))}" in run("fit", path, *given, *PLAIN, option, "x", "-o", "m").err
    )


# -- as a process --------------------------------------------------------------------------------------------------


COMMANDS = [
    "demo",
    "groups",
    "fit",
    "show",
    "curve",
    "predict",
    "next",
    "report",
    "certify",
    "export",
]


@pytest.mark.slow
def test_python_m_budgetline(process):
    helped = process("-m", "budgetline", "--help")
    assert helped.returncode == 0
    assert "Exit codes: 0 for success" in helped.stdout
    for name in COMMANDS:
        assert f" {name} " in helped.stdout
    wrong = process("-m", "budgetline", "fit", "nope.csv", "-t", "y", "-o", "m")
    assert (wrong.returncode, wrong.stdout, wrong.stderr) == (2, "", "error: nope.csv does not exist\n")


def test_every_command_has_an_example(run):
    for name in COMMANDS:
        found = run(name, "--help")
        assert found.code == 0
        assert f"budgetline {name}" in found.out.split("Example:")[1]


def test_the_console_script(process):
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["scripts"] == {"budgetline": "budgetline.cli:main"}
    found = process("-c", "import sys; from budgetline.cli import main; sys.exit(main())", "--version")
    assert (found.returncode, found.stdout) == (0, f"budgetline {budgetline.__version__}\n")


@pytest.mark.slow
def test_a_plain_terminal_is_enough(process):
    path, given, *_ = write(heart(), "csv")
    assert process("-m", "budgetline", "fit", str(path), *given, "-o", "m").returncode == 0
    found = process("-m", "budgetline", "show", "m", PYTHONIOENCODING="ascii")
    assert (found.returncode, found.stderr) == (0, "")
    assert found.stdout.isascii()


def test_without_its_packages_it_says_what_to_install(process):
    block = """
import sys

class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("typer", "rich"):
            raise ImportError(name)

sys.meta_path.insert(0, Blocker())
from budgetline.cli import main
sys.exit(main(["demo"]))
"""
    found = process("-c", block)
    assert (found.returncode, found.stdout) == (2, "")
    needs = "the command line needs typer and rich"
    assert found.stderr == f"error: {needs}: in a clone of budgetline, pip install '.[cli]'\n"


@pytest.mark.slow
def test_shells_complete_commands(process):
    script = process("-m", "budgetline", _BUDGETLINE_COMPLETE="source_bash")
    assert "budgetline" in script.stdout
    found = process(
        "-m", "budgetline", _BUDGETLINE_COMPLETE="complete_bash", COMP_WORDS="budgetline pre", COMP_CWORD="1"
    )
    assert found.stdout.split() == ["predict"]


def test_the_entry_point_takes_no_argument():
    assert all(p.default is not p.empty for p in inspect.signature(main).parameters.values())


# -- what comes from outside cannot steer the terminal, nor flood it ---------------------------------------------------

STEERING = ["clear\x1b[2J", "back\rto", "two\nlines", "one\x9bbyte", "turned\u202eround", "bell\x07"]


def controls(text):
    return sorted(set(text) & set("\x1b\r\x9b\u202e\x07"))


@pytest.fixture
def steering():
    """Write data and a model whose groups, columns and classes have names that would steer a terminal."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({name: rng.normal(size=60) for name in STEERING})
    frame["text\x1b[1m"] = "a"
    frame["y\x1b[0m"] = np.where(frame[STEERING[0]] > 0, "ill\x1b[31m", "well\n")
    frame.to_parquet("d.parquet")
    groups = FeatureGroups(
        {name: [name] for name in STEERING},
        shared={"draw\x1b[2J": (1, STEERING[:2])},
        requires={STEERING[2]: [STEERING[3]]},
        remainder="drop",
    )
    Path("g.yaml").write_text(groups.to_yaml(), encoding="utf-8")
    return ["d.parquet", "-t", "y\x1b[0m", "-g", "g.yaml"]


def test_names_are_printed_without_their_control_characters(steering, run):
    fit = run("fit", *steering, "--max-groups", "4", "-o", "m")
    assert fit.code == 0, fit.err
    runs = {
        "fit": fit,
        "show": run("show", "m"),
        "curve": run("curve", "m", *steering[:3]),
        "report": run("report", "m", "-o", "r.md"),
        "groups": run("groups", *steering[:3]),
        "predict": run("predict", "m", "d.parquet", "--budget", "3", "-o", "p.csv"),
    }
    for command, found in runs.items():
        assert found.code == 0, (command, found.err)
        assert not controls(found.out + found.err), command
    assert "clear\\x1b[2J" in runs["show"].out
    assert "two\\nlines" in runs["show"].out
    assert "two\nlines" not in runs["show"].out
    assert not controls(Path("r.md").read_text(encoding="utf-8"))
    assert json.loads(run("show", "m", "--json").out)["sequence"]["group"][0] in STEERING


@pytest.mark.parametrize(
    "arguments",
    [
        ["show", "no\x1b[2Jthing"],
        ["fit", "d.parquet", "-t", "no\x1b[2Jthing", "-o", "m"],
        ["fit", "d.parquet", "-t", "y\x1b[0m", "--task", "regression", "-o", "m"],
        ["show", "--no\x1b[2Jthing"],
        ["no\x1b[2Jthing"],
    ],
)
def test_errors_are_printed_without_control_characters(steering, run, arguments):
    found = run(*arguments)
    assert found.code == 2
    assert not controls(found.err)
    assert "\\x1b[" in found.err.splitlines()[-1]


@pytest.mark.parametrize("value", ["x" * 100_000, "1" * 100_000])
def test_errors_are_short_whatever_is_given(run, value):
    pd.DataFrame({"a": [1.0, 2.0], "y": [1.0, 2.0]}).to_csv("d.csv", index=False)
    Path("g.yaml").write_text(f"groups: {{a: {{columns: [a], cost: {value}}}}}")
    Path("c.yaml").write_text(f"groups: {{a: {{columns: [{value}]}}}}")
    for arguments in (
        ["fit", "d.csv", "-t", value, "-o", "m"],
        ["fit", "d.csv", "-t", "y", "--max-groups", value, "-o", "m"],
        ["fit", "d.csv", "-t", "y", "-g", "g.yaml", "-o", "m"],
        ["fit", "d.csv", "-t", "y", "-g", "c.yaml", "-o", "m"],
    ):
        found = run(*arguments)
        assert found.code == 2, arguments[4]
        assert len(found.err.splitlines()[-1]) < 2100


def test_of_many_groups_that_are_not_bought_the_first_are_named(run):
    X = pd.DataFrame(np.random.default_rng(0).normal(size=(80, 30))).add_prefix("x")
    X.assign(y=X.x3).to_csv("data.csv", index=False)
    found = run("fit", "data.csv", "-t", "y", "--no-cv", "--max-groups", "1")
    assert found.code == 0, found.err
    names = [f"x{k}" for k in range(30) if k != 3]
    assert f"not bought: {', '.join(names[:20])}, …" in found.out.splitlines()


def test_intervals_are_those_of_the_model(run, folder):
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(200, 3)), columns=list("abc"))
    X.assign(y=X["a"] + rng.normal(size=200)).to_csv("d.csv", index=False)
    run("fit", "d.csv", "-t", "y", "-o", "m.budgetline")
    found = pd.read_csv(io.StringIO(run("predict", "m.budgetline", "d.csv", "--budget", 1, "--interval", 0.8).out))
    model = budgetline.load("m.budgetline")
    lower, upper = model.predict_interval(X, 0.8, budget=1)
    assert list(found) == ["prediction", "lower", "upper"]
    close(found["prediction"], model.predict(X, budget=1))
    close(found["lower"], lower)
    close(found["upper"], upper)
