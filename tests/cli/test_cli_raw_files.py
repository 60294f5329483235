"""Commands on raw files: found formats, missing values, text, labels; detected types are printed."""

import io
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import yaml
from sklearn import metrics as sk

import budgetline
from budgetline import AnytimeClassifier
from budgetline.cli.data import Files
from budgetline.cli.printing import Printer

pytestmark = pytest.mark.quick_cases(2)


def people(n=300, seed=0):
    rng = np.random.default_rng(seed)
    age, income = rng.integers(20, 80, n), rng.normal(3000, 500, n).round(2)
    job = rng.choice(["clerk", "cook", "pilot"], n)
    buys = np.where(age / 60 + income / 3000 + (job == "cook") + rng.normal(size=n) > 2.2, "yes", "no")
    frame = pd.DataFrame({"age": age, "income": income, "job": job, "member": age % 2 == 0, "buys": buys})
    return frame.sort_values("buys", ignore_index=True)  # as files often are


STYLES = {
    "plain.csv": {},
    "semicolons.csv": {"sep": ";", "decimal": ","},
    "tabs.tsv": {"sep": "\t"},
    "text.txt": {"sep": "|"},
    "packed.csv.gz": {},
    "bom.csv": {"encoding": "utf-8-sig"},
}


@pytest.mark.quick_cases(2)
@pytest.mark.parametrize("name", STYLES)
def test_all_commands_take_all_styles(name, run, done):
    people().to_csv(name, index=False, **STYLES[name])
    X = people().drop(columns="buys")
    X[["income", "job", "age", "member"]].assign(more="?").to_csv("new.csv", index=False)
    X[["member", "job"]].to_csv("some.csv", index=False)
    fitted = run("fit", name, "-t", "buys", "-o", "m", "--no-cv")
    assert fitted.code == 0, fitted.err
    assert f"{name}: 300 rows, 4 columns; budgetline inspect shows them" in fitted.err
    assert "encoding: spline; --encoding none uses only the numbers" in fitted.err
    model = AnytimeClassifier(encoding="spline").fit(X, people()["buys"])
    assert budgetline.load("m").sequence_.groups == model.sequence_.groups
    for data in (name, "new.csv"):
        found = pd.read_csv(io.StringIO(run("predict", "m", data, "--proba").out))["p(yes)"]
        np.testing.assert_allclose(found, model.predict_proba(X)[:, 1], rtol=1e-9)
    found = pd.read_csv(io.StringIO(run("predict", "m", "some.csv", "--available", "job,member", "--proba").out))
    np.testing.assert_allclose(
        found["p(yes)"], budgetline.load("m").predict_proba(X, available=["job", "member"])[:, 1], rtol=1e-9
    )
    gaps = X.mask(np.random.default_rng(0).random(X.shape) < 0.3)
    gaps.to_csv("gaps.csv", index=False)
    found = pd.read_csv(io.StringIO(run("predict", "m", "gaps.csv", "--available", "auto", "--proba").out))
    np.testing.assert_allclose(
        found["p(yes)"], budgetline.load("m").predict_proba(gaps, available="auto")[:, 1], rtol=1e-9
    )
    told = run("predict", "m", "some.csv").err
    assert "error: column 'age', which the model needs, is not in some.csv; --available auto uses " in told
    assert done("report", "m", name, "-t", "buys", "--cv", 2, "--no-baselines")["measure"]["folds"] == 2
    groups = run("groups", name, "-t", "buys").out
    assert list(yaml.safe_load(groups)["groups"]) == ["age", "income", "job", "member"]


def test_one_question_mark_is_a_gap_with_its_line(run):
    data = people().astype({"age": object})
    data.loc[83, "age"] = "?"
    data.to_csv("data.csv", index=False)
    for more in ([], ["--stream"]):
        assert run("fit", "data.csv", "-t", "buys", "-o", "m", *more).code == 0
        assert run("predict", "m", "data.csv", "-o", "p.csv").code == 0
        found = run("fit", "data.csv", "-t", "buys", "-o", "m", "--encoding", "none", *more)
        assert (found.code, found.out) == (2, "")
        what = "error: data.csv, block 0: Input X contains NaN: column 'age', first in line 85"
        assert found.err.endswith(f"{what}; encoding='spline' accepts text and missing values\n")
    Path("g.yaml").write_text("groups: {income: {columns: [income]}}\nremainder: drop\n")
    assert run("fit", "data.csv", "-t", "buys", "-g", "g.yaml", "-o", "m").code == 0  # the missing value is in no group
    assert run("report", "m", "data.csv", "-t", "buys", "--no-baselines").code == 0


def test_delimiter_and_gaps_can_be_given(run, done):
    people().replace({"job": {"cook": "-"}}).to_csv("data.csv", sep=":", index=False)
    found = done("inspect", "data.csv", "--delimiter", ":", "--na", "-", "--na", "pilot")
    job = next(column for column in found["columns"] if column["name"] == "job")
    assert (job["categories"], job["missing"]) == (1, (people()["job"] != "clerk").sum())
    people().to_csv("tabs.csv", sep="\t", index=False)
    for mark in ("tab", "\\t", "\t"):
        assert run("fit", "tabs.csv", "-t", "buys", "--delimiter", mark, "-o", "m").code == 0
    people().to_parquet("data.parquet")
    refused = run("fit", "data.parquet", "-t", "buys", "--na", "x", "-o", "m")
    assert refused.err.endswith("texts of missing values are for CSV files, and data.parquet is parquet\n")
    assert "error: the delimiter must be one character" in run("inspect", "tabs.csv", "--delimiter", "::").err


def test_inspect_shows_what_was_understood(run):
    data = people().astype({"income": object}).assign(day="2020-01-02", note=[f"text {k}" * 9 for k in range(300)])
    data.loc[[3, 5], "income"], data.loc[7, "job"] = "?", None
    data.to_csv("data.csv.gz", sep=";")
    found = run("inspect", "data.csv.gz", "-t", "buys")
    assert (found.code, found.err) == (0, "")
    lines = found.out.splitlines()
    assert lines[:3] == [
        "data.csv.gz: 300 rows, 7 columns",
        "delimiter semicolon, decimal point, gzip",
        "left out: (row names)",
    ]
    assert lines[-1] == (
        "note does not help to predict new rows: 300 different texts in 300 rows; fit leaves it out unless you add"
        " --keep-ids"
    )
    draft = run("groups", "data.csv.gz", "-t", "buys")
    assert "note" not in yaml.safe_load(draft.out)["groups"]
    assert "note (300 different texts in 300 rows); identifiers and free text do not help" in draft.err
    kept = run("groups", "data.csv.gz", "-t", "buys", "--keep-ids")
    assert ("note" in yaml.safe_load(kept.out)["groups"], "left out: note" in kept.err) == (True, False)
    cells = {line.split()[0]: line for line in lines[4:-1]}
    assert cells["column"].split() == ["column", "kind", "distinct", "missing", "values"]
    kinds = {"age": "integer", "income": "number", "job": "text", "member": "boolean", "day": "date", "note": "text"}
    for name, kind in kinds.items():
        assert f" {kind} " in cells[name]
    assert cells["buys"].startswith("buys (target)  text")
    low, high = data["age"].min(), data["age"].max()
    assert cells["age"].endswith(f"{low} to {high}")
    assert cells["member"].endswith(("True, False", "False, True"))
    assert cells["income"].split()[3] == "2"
    assert max(map(len, lines)) < 120


def test_inspect_of_other_files(run, done):
    people().astype({"job": "category"}).to_parquet("data.parquet")
    found = done("inspect", "data.parquet")
    assert found["rows"] == 300
    assert found["format"] == []
    assert [column["kind"] for column in found["columns"]] == ["integer", "number", "category", "boolean", "text"]
    Path("data.svm").write_text("1 qid:7 1:2\n0 qid:7 3:1.5\n")
    assert [column["name"] for column in done("inspect", "data.svm")["columns"]] == ["target", "qid", "1", "2", "3"]
    assert "--target: column 'nope' is not in data.parquet" in run("inspect", "data.parquet", "-t", "nope").err
    Path("ragged.csv").write_text("a,b\n1,2\n3\n")
    assert run("inspect", "ragged.csv").err == "error: ragged.csv, line 3: 1 field instead of 2\n"


@pytest.mark.filterwarnings("ignore:.*ill-defined")
@pytest.mark.parametrize("metric", ["f1", "precision", "recall", "average_precision"])
def test_the_positive_class(metric, run, done):
    people().to_csv("data.csv", index=False)
    fitted = run("fit", "data.csv", "-t", "buys", "--alpha", "0.01", "--encoding", "none", "-o", "m")
    assert "warning: left out because they do not hold numbers: job" in fitted.err
    model, X, y = budgetline.load("m"), people()[["age", "income", "member"]].astype(float), people()["buys"]
    found = done("curve", "m", "data.csv", "-t", "buys", "-m", metric, "--pos-label", "no")
    score = getattr(sk, f"{metric}_score")
    responses = -model.decision_function(X) if metric == "average_precision" else model.predict(X)
    assert found["value"][-1] == pytest.approx(score(y, responses, pos_label="no"))
    assert found["metric"] == metric
    refused = run("curve", "m", "data.csv", "-t", "buys", "-m", metric)
    assert refused.code == 2
    assert "--pos-label LABEL" in refused.err
    report = done("report", "m", "data.csv", "-t", "buys", "-m", metric, "--pos-label", "yes", "--no-baselines")
    assert report["measure"]["name"] == metric
    curve = ("curve", "m", "data.csv", "-t", "buys")
    assert "not 'maybe': the classes are 'no', 'yes'" in run(*curve, "-m", metric, "--pos-label", "maybe").err
    assert "--pos-label is for metrics of one class" in run(*curve, "--pos-label", "yes").err


def test_raw_rows_are_handed_over():
    data = people().astype({"income": object})
    data.loc[3, "income"], data.loc[5, "job"] = "?", "NA"
    data.to_csv("data.csv", index=False)
    files, quiet = Files("data.csv"), Printer(False, True)
    table = files.read_all(files.source("buys", ["age", "income", "job", "member"], raw=True), quiet)
    assert table.X.column_names == ["age", "income", "job", "member"]
    assert table.y.tolist() == people()["buys"].tolist()
    assert table.row_name(3) == "line 5"
    found = table.X.to_pandas()
    expected = pd.read_csv("data.csv", na_values=["?"])
    for name in ("age", "income", "member"):
        np.testing.assert_array_equal(found[name].astype(float), expected[name].astype(float))
    assert found["job"].isna().to_numpy().nonzero()[0].tolist() == [5]
    some = files.read_all(files.source("job", ["member"], weight="age", raw=True), quiet)
    assert some.y[5] == "NA"  # a label
    assert (some.X.column_names, some.weight.tolist()) == (["member"], people()["age"].tolist())
    assert some.take(np.array([5, 0])).X.column("member").to_pylist() == people()["member"][[5, 0]].tolist()


def test_levels_that_look_like_numbers_stay_levels(run):
    rng = np.random.default_rng(0)
    code, flag = rng.choice(["01", "1", "1e1", "x"], 400), rng.choice(["true", "false", ""], 400)
    y = (code == "01") * 2.0 + (flag == "true") + rng.normal(size=400)
    data = pd.DataFrame({"code": code, "flag": flag, "y": y})
    data.to_csv("data.csv", index=False)
    assert run("fit", "data.csv", "-t", "y", "-o", "m").code == 0
    data.assign(found=[float(row) for row in run("predict", "m", "data.csv").out.split()[1:]]).to_csv("all.csv")
    for chosen in (data["code"] != "x", data["code"] == "01", (data["flag"] == "true") & (data["code"] != "x")):
        data[chosen].to_csv("some.csv", index=False)  # now all codes are numbers
        found = [float(row) for row in run("predict", "m", "some.csv").out.split()[1:]]
        assert found == pd.read_csv("all.csv")["found"][chosen].tolist()
    data.assign(flag="maybe").to_csv("some.csv", index=False)
    told = run("predict", "m", "some.csv").err
    assert told.endswith("error: some.csv, line 2: column 'flag' holds 'maybe', not true or false\n")


@pytest.mark.slow
def test_long_work_is_told_in_lines(run, monkeypatch):
    made = []

    class Recorded(budgetline.progress.Bar):
        def __init__(self, unit, total, rewritten=False):
            made.append((unit, total))

    monkeypatch.setattr(budgetline.progress, "Lines", Recorded)
    people().to_csv("data.csv", index=False)
    commands = {
        ("fit", "data.csv", "-t", "buys", "--cv", 2, "-o", "m"): ("learning", None),
        ("report", "m", "data.csv", "-t", "buys", "--cv", 2, "--no-baselines"): ("fits", 2),
        ("curve", "m", "data.csv", "-t", "buys"): ("evaluating", None),
        ("inspect", "data.csv"): ("reading", None),
    }
    for command, expected in commands.items():
        made.clear()
        assert run(*command).code == 0
        assert expected in made
        made.clear()
        assert run(*command, "--quiet").code == 0
        assert not made
    assert Printer(False, False).progress == "lines"  # stderr is no terminal here


def test_the_cross_validation_of_a_search_is_shuffled(done):
    people().to_csv("data.csv", index=False)
    found = done("fit", "data.csv", "-t", "buys", "--cv", 3, "-o", "m")
    assert found["alpha_"] in budgetline.AnytimeClassifierCV().alphas


def test_unknown_categories_are_told_after_predictions(run):
    people().to_csv("people.csv", index=False)
    people().assign(job="Cook").to_csv("other.csv", index=False)
    assert run("fit", "people.csv", "-t", "buys", "-o", "m").code == 0
    assert "warning: column 'job': 300 of 300 values ('Cook') are unknown" in run("predict", "m", "other.csv").err
    people().assign(job="Cook")[:1].to_csv("other.csv", index=False)
    assert "warning: column 'job': 1 of 1 values ('Cook') are unknown" in run("predict", "m", "other.csv").err
    assert "warning" not in run("predict", "m", "people.csv").err


def test_a_report_of_other_rows_says_so(run):
    people().to_csv("people.csv", index=False)
    people()[:200].to_csv("other.csv", index=False)
    assert run("fit", "people.csv", "-t", "buys", "-o", "m").code == 0
    told, fine = (run("report", "m", name, "-t", "buys", "--no-baselines").err for name in ("other.csv", "people.csv"))
    assert "warning: These are 200 rows, but the model learned from 300:" in told
    assert "learned from" not in fine
