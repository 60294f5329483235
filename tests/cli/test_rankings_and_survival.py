"""Rankings and survival times from files, by the command line: as in Python, and what makes no sense is refused."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from set_references import ranking, survival
from sklearn.datasets import dump_svmlight_file

import budgetline
from budgetline import AnytimeRanker, AnytimeSurvival, budget_curve, make_report, to_linear_format
from budgetline.evaluation import ndcg_score

NAMES = list("abcdef")
PLAIN = ("--no-cv", "--encoding", "none", "--all-groups", "--alpha", "0.001")


@pytest.fixture
def searches():
    """Write queries as svmlight and CSV files; return them."""
    X, y, qid = ranking()
    order = np.argsort(qid, kind="stable")
    X, y, qid = X[order].round(6), y[order], qid[order]
    for k, rows in enumerate((slice(0, 240), slice(240, None))):
        Path("parts").mkdir(exist_ok=True)
        dump_svmlight_file(X[rows], y[rows], f"parts/{k}.svm", zero_based=False, query_id=qid[rows])
    dump_svmlight_file(X, y, "train.svm", zero_based=False, query_id=qid)
    pd.DataFrame(X, columns=NAMES).assign(grade=y, query=[f"q{k}" for k in qid]).to_csv("train.csv", index=False)
    return X, y, qid


@pytest.fixture
def patients():
    """Write patients as a CSV file; return them."""
    X, time, event = survival()
    X = X.round(6)
    frame = pd.DataFrame(X, columns=NAMES).assign(months=time, died=event)
    frame.to_csv("patients.csv", index=False)
    return X, time, event


SEARCH = ("--qid", "query", "-t", "grade")
PATIENT = ("--time", "months", "--event", "died")


@pytest.mark.parametrize("place", ["train.svm", "parts", "train.csv"])
def test_a_ranking_is_that_of_python(place, searches, run, done):
    X, y, qid = searches
    given = SEARCH if place == "train.csv" else ()
    model = AnytimeRanker(alpha=1e-3).fit(X, y, qid=qid)
    fitted = done("fit", place, "--task", "ranking", *given, *PLAIN, "-o", "m.budgetline")
    assert fitted["task"] == "ranking"
    names = NAMES if place == "train.csv" else list("123456")
    assert fitted["column_names"] == names
    assert fitted["sequence"]["group"] == [names[int(group)] for group in model.sequence_.groups]
    loaded = budgetline.load("m.budgetline")
    np.testing.assert_allclose(loaded.coef_path_, model.coef_path_, rtol=1e-9, atol=1e-12)
    assert "AnytimeRanker, ranking" in run("show", "m.budgetline").out
    curve = done("curve", "m.budgetline", place, *given)
    assert curve["metric"] == "ndcg@10"
    want = [ndcg_score(y, model.predict(X, stage=stage), qid, k=10) for stage in range(7)]
    np.testing.assert_allclose(curve["value"], want)
    mean = done("curve", "m.budgetline", place, *given, "--metric", "map")["value"]
    np.testing.assert_allclose(mean, budget_curve(model, X, y, metric="map", qid=qid).values)
    found = done("predict", "m.budgetline", place, "--budget", 2)
    np.testing.assert_allclose(found["predictions"], model.predict(X, budget=2), rtol=1e-9, atol=1e-12)


def test_survival_times_are_those_of_python(patients, run, done):
    X, time, event = patients
    model = AnytimeSurvival(alpha=1e-3).fit(X, time, event)
    fitted = done("fit", "patients.csv", "--task", "survival", *PATIENT, *PLAIN, "-o", "m.budgetline")
    assert fitted["task"] == "survival"
    assert fitted["sequence"]["group"] == [NAMES[int(group)] for group in model.sequence_.groups]
    np.testing.assert_allclose(budgetline.load("m.budgetline").cumulative_hazards_, model.cumulative_hazards_)
    for metric in ("concordance", "brier", "explained"):
        want = budget_curve(model, X, (time, event), metric=metric).values
        asked = ("-m", metric) if metric != "concordance" else ()
        np.testing.assert_allclose(done("curve", "m.budgetline", "patients.csv", *PATIENT, *asked)["value"], want)
    assert "partial likelihood" in run("report", "m.budgetline", "patients.csv", *PATIENT, "-o", "r.md").err + (
        Path("r.md").read_text()
    )


@pytest.mark.parametrize("kind", ["ranking", "survival"])
def test_by_default_folds_choose_and_reports_follow(kind, searches, patients, run, done):
    place, given = ("train.csv", SEARCH) if kind == "ranking" else ("patients.csv", PATIENT)
    found = run("fit", place, *given, "-o", "m.budgetline")
    assert found.code == 0, found.err
    assert "explained (held out)" in found.out
    hint = next(line for line in found.err.splitlines() if "budgetline report" in line)
    record = done("report", *hint.split("budgetline report ")[1].split(), "-o", "r.html")
    assert record["task"]["kind"] == kind
    assert record["measure"]["name"] == ("ndcg@10" if kind == "ranking" else "concordance")
    assert len(record["curves"]) == 2
    assert len(record["comparison"]["methods"]) > 2
    page = Path("r.html").read_text(encoding="utf-8")
    if kind == "ranking":
        assert type(budgetline.load("m.budgetline")).__name__ == "AnytimeRankerCV"
        assert record["risks"] is None
    else:
        assert {group["name"] for group in record["risks"]["groups"]} == {"low", "middle", "high"}
        assert "Who is at risk" in page
    for command in (["show", "m.budgetline"], ["plan", "m.budgetline", "-b", 2], ["next", "m.budgetline"]):
        assert run(*command).code == 0


def test_exports_are_those_of_python(searches, run, done):
    done("fit", "train.svm", *PLAIN, "-o", "m.budgetline")
    model = budgetline.load("m.budgetline")
    for to, name in (("solr", "m.json"), ("opensearch", "m.json"), ("pmml", "m.xml")):
        assert done("export", "m.budgetline", "--to", to, "-o", name) == {"written": name, "format": to}
        assert Path(name).read_text(encoding="utf-8") == to_linear_format(model, format=to)
    done("export", "m.budgetline", "--to", "solr", "--stage", 2, "--name", "mine", "-o", "m.json")
    assert json.loads(Path("m.json").read_text())["name"] == "mine_stage_2"
    done("export", "m.budgetline", "--to", "solr", "--budget", 2.5, "-o", "m.json")
    assert json.loads(Path("m.json").read_text())["name"] == "budgetline_stage_2"
    done("export", "m.budgetline", "--to", "solr", "--all-stages", "-o", "m.json")
    assert len(json.loads(Path("m.json").read_text())) == 6
    found = run("export", "m.budgetline", "--to", "vespa", "-o", "m.profile")
    assert (found.code, found.out) == (2, "")
    assert "column '1' has a name that format 'vespa' cannot hold: rename it" in found.err
    assert not Path("m.profile").exists()
    done("fit", "train.csv", *SEARCH, *PLAIN, "-o", "m.budgetline")
    done("export", "m.budgetline", "--to", "vespa", "--all-stages", "-o", "m.profile")
    text = to_linear_format(budgetline.load("m.budgetline"), format="vespa", all_stages=True)
    assert Path("m.profile").read_text() == text
    assert "outputs: prediction" in run("export", "m.budgetline", "-o", "m.onnx").out


def test_the_task_follows_from_the_columns_or_is_asked_for(searches, run, done):
    found = run("fit", "train.svm", *PLAIN, "-o", "m")
    assert "ranking: the file has queries (to override: --task regression)" in found.err
    assert done("fit", "train.svm", "--task", "regression", *PLAIN, "-o", "r")["task"] == "regression"
    assert budgetline.load("r").feature_names_in_.tolist() == list("123456")  # the query is no feature
    found = done("curve", "r", "train.svm", "-m", "ndcg@5")
    X, y, qid = searches
    scores = budgetline.load("r").predict(pd.DataFrame(X, columns=list("123456")))
    assert found["value"][-1] == pytest.approx(ndcg_score(y, scores, qid, k=5))
    Path("groups.yaml").write_text(
        "remainder: drop\ngroups:\n  first: {columns: ['1', '2'], cost: 3}\n  rest: {columns: ['4'], cost: 1}\n"
    )
    assert set(done("fit", "train.svm", "-g", "groups.yaml", *PLAIN, "-o", "g")["sequence"]["group"]) == {
        "first",
        "rest",
    }


def test_reports_in_python_have_the_same_parts(patients):
    X, time, event = patients
    model = AnytimeSurvival(alpha=1e-3).fit(X, time, event)
    report = make_report(model, X, (time, event), baselines=False)
    assert report.measure.name == "concordance"
    assert sum(group.rows for group in report.risks.groups if group.budget == report.total_cost) == 300
    last = [group for group in report.risks.groups if group.budget == report.total_cost]
    assert last[0].observed[-1] > last[1].observed[-1] > last[2].observed[-1]
    for group in last:
        assert abs(group.observed[12] - group.predicted[12]) < 0.15
        assert group.observed[0] == group.predicted[0] == 1
    assert report.to_html().count("<polyline") >= 6 * len({group.budget for group in report.risks.groups})
    strata = AnytimeSurvival(alpha=1e-3).fit(X, time, event, strata=X[:, 0] > 0)
    with pytest.raises(ValueError, match="without strata"):
        make_report(strata, X, (time, event))


REFUSED = {
    "no queries": (
        ["fit", "train.csv", "-t", "grade", "--task", "ranking"],
        "needs queries: name their column with --qid NAME",
    ),
    "no events": (["fit", "patients.csv", "-t", "months", "--task", "survival"], "--time NAME --event NAME"),
    "qid of a regression": (["fit", "train.csv", *SEARCH, "--task", "regression"], "--qid is for --task ranking"),
    "event of classes": (["fit", "patients.csv", *PATIENT, "--task", "classification"], "--event is for --task surv"),
    "both": (["fit", "train.csv", *SEARCH, "--event", "a"], "use either --qid, for rankings, or --event, for"),
    "unknown query": (["fit", "train.csv", "-t", "grade", "--qid", "nope"], "--qid: column 'nope' is not in train.csv"),
    "unknown event": (["fit", "patients.csv", "-t", "months", "--event", "dead"], "--event: column 'dead' is not in"),
    "loss": (
        ["fit", "train.csv", *SEARCH, "--loss", "poisson"],
        "--loss poisson is for regression, but",
    ),
    "stream": (
        ["fit", "train.csv", *SEARCH, "--stream"],
        "--stream does not work with --task ranking, which needs chunks",
    ),
    "time alone": (["fit", "patients.csv", "--time", "months"], "--time needs --event NAME"),
    "folds": (["fit", "train.csv", *SEARCH, "--fold-by", "a"], "use either --fold-by or --qid"),
    "folds of patients": (["fit", "patients.csv", *PATIENT, "--fold-by", "a"], "--fold-by is for regression and class"),
    "text as grades": (
        ["fit", "train.csv", "--qid", "grade", "-t", "query"],
        "column 'query' of train.csv does not hold",
    ),
    "text as events": (["fit", "text.csv", *PATIENT], "column 'died' of text.csv does not hold numbers: grades"),
    "numbers as events": (["fit", "patients.csv", "-t", "months", "--event", "a"], "events must be true or false"),
    "negative grades": (["fit", "train.csv", "-t", "a", "--qid", "query"], "grades of relevance from 0 to 30"),
    "negative times": (["fit", "patients.csv", "-t", "a", "--event", "died"], "times must not be negative"),
    "curve without queries": (["curve", "m", "train.csv", "-t", "grade"], "the model needs queries: name their column"),
    "curve without events": (
        ["curve", "s", "patients.csv", "-t", "months"],
        "name their columns with --time NAME --event",
    ),
    "metric": (
        ["curve", "m", "train.csv", *SEARCH, "-m", "roc_auc"],
        "accuracy and roc_auc are not available for AnytimeRanker",
    ),
    "metric of times": (["curve", "s", "patients.csv", *PATIENT, "-m", "r2"], "is not available for AnytimeSurvival"),
    "metric and qid": (["curve", "r", "train.csv", *SEARCH, "-m", "r2"], "--qid is for ranking metrics"),
    "event of a regression": (
        ["curve", "r", "train.csv", "-t", "grade", "--event", "a"],
        "--event is for survival times, but",
    ),
    "report": (["report", "m", "--qid", "query"], "--qid, --event and --fold-by name columns of DATA"),
    "report without queries": (["report", "m", "train.csv", "-t", "grade"], "needs queries: name their column"),
    "probabilities": (["predict", "m", "train.csv", "--proba"], "--proba is for classification, but m is a ranking"),
    "rows to decide": (["next", "s", "patients.csv", "--available", "a"], "is for classification, but s is a survival"),
    "plan refitted": (["plan", "m", "train.csv", *SEARCH, "-b", "2"], "plans of AnytimeRanker are not refitted"),
    "format": (["export", "m", "--to", "lucene", "-o", "m.json"], "lucene"),
    "suffix": (["export", "m", "--to", "solr", "-o", "m.onnx"], "its name must end in .json"),
    "stage of onnx": (
        ["export", "m", "--stage", "1", "-o", "m.onnx"],
        "an ONNX graph holds all stages: leave out --stage",
    ),
    "all of pmml": (["export", "m", "--to", "pmml", "--all-stages", "-o", "m.pmml"], "a PMML file holds one stage"),
    "encoding": (["export", "e", "--to", "solr", "-o", "m.json"], "format 'solr' cannot hold the encoding"),
    "explore": (["explore", "train.svm", "--no-open"], "explore does not support rankings"),
    "no query in a line": (["fit", "holes.svm", "-t", "target"], "holes.svm: 1 lines have no qid"),
    "no svmlight": (["fit", "broken.svm", "-t", "target"], "broken.svm: "),
}


@pytest.fixture
def mistakes(searches, patients, run):
    pd.DataFrame({"months": [1.0, 2.0], "died": ["no", "yes"], "a": [1.0, 2.0]}).to_csv("text.csv", index=False)
    lines = Path("train.svm").read_text().splitlines()
    Path("holes.svm").write_text("\n".join([lines[0].replace("qid:0 ", ""), *lines[1:]]) + "\n")
    Path("broken.svm").write_text("1 qid:1 one\n")
    run("fit", "train.csv", *SEARCH, *PLAIN, "-o", "m")
    run("fit", "patients.csv", *PATIENT, *PLAIN, "-o", "s")
    run("fit", "train.csv", *SEARCH, "--no-cv", "--encoding", "linear", "-o", "e")
    run("fit", "train.csv", "-t", "grade", "--exclude", "query", *PLAIN, "-o", "r")


@pytest.mark.parametrize("name", REFUSED)
@pytest.mark.usefixtures("mistakes")
def test_what_makes_no_sense_is_one_line(name, run):
    arguments, text = REFUSED[name]
    found = run(*arguments)
    assert (found.code, found.out) == (2, ""), found.err
    last = found.err.splitlines()[-1]
    assert last.startswith("error: ")
    assert text in last
