"""Models in the formats of search engines and scoring services, read by readers that share no code with the writer."""

import json
import re
from functools import cache
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pytest
from set_references import ranking, survival

from budgetline import (
    AnytimeClassifier,
    AnytimeRanker,
    AnytimeRegressor,
    AnytimeSurvival,
    FeatureGroups,
    StagedEstimators,
    to_linear_format,
)
from budgetline.glm import ConvexLoss

NAMES = ["price", "bm25(title)", "Größe_2", "fieldMatch(title, x).proximity", "a", "x1"]
GROUPS = FeatureGroups({"a": [4, 0], "b": [1], "c": [2, 5], "d": [3]}, [0.2, 0.1, 3.5, 1.0])
NS = {"p": "http://www.dmg.org/PMML-4_4"}


@cache
def fitted(kind, names=None):
    """Return a model of columns of very different scales, and other rows."""
    rng = np.random.default_rng(7)
    units = np.array([1, 10, 0.1, 1e3, 2, 1e-4])
    frame = (lambda Z: Z * units + 5 * units) if names is None else lambda Z: pd.DataFrame(Z * units, columns=names)
    if kind == "ranker":
        X, y, qid = ranking()
        return AnytimeRanker(GROUPS).fit(frame(X), y, qid=qid), frame(rng.normal(size=(50, 6)))
    if kind == "survival":
        X, time, event = survival()
        return AnytimeSurvival(GROUPS).fit(frame(X), time, event), frame(rng.normal(size=(50, 6)))
    Z, Z_new = rng.normal(size=(200, 6)), rng.normal(size=(50, 6))
    score = Z @ [1.0, 0.1, 0.7, -0.5, 0.3, 0.2] + rng.normal(size=200)
    if kind == "regressor":
        model = AnytimeRegressor(GROUPS).fit(frame(Z), 100 + score)
    elif kind == "poisson":
        model = AnytimeRegressor(GROUPS, loss="poisson", alpha=1e-3).fit(frame(Z), rng.poisson(np.exp(score / 3)))
    else:
        labels = np.array(["no", "perhaps", "<yes> & 'more'"])[: int(kind[0])]
        cuts = np.quantile(score, np.linspace(0, 1, len(labels) + 1)[1:-1])
        model = AnytimeClassifier(GROUPS, alpha=1e-3).fit(frame(Z), labels[np.digitize(score, cuts)])
    return model, frame(Z_new)


KINDS = ["ranker", "survival", "regressor", "poisson", "2 classes"]
RANKS = ("ranker", "survival")


def columns_of(X, names):
    """Return the values of named columns, of x0, x1, … by position; the constant is 1."""
    if isinstance(X, pd.DataFrame):
        return {name: np.ones(len(X)) if name == "constant" else X[name].to_numpy() for name in names}
    return {name: np.ones(len(X)) if name == "constant" else X[:, int(name[1:])] for name in names}


def scores_of(model, X, stage):
    if model.model_.family.loss == "poisson":
        return np.log(model.predict(X, stage=stage))
    return model.decision_function(X, stage=stage) if hasattr(model, "classes_") else model.predict(X, stage=stage)


def weighted(X, weights):
    values = columns_of(X, weights)
    return sum(weight * values[name] for name, weight in weights.items())


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("named", [False, True])
def test_solr_and_elasticsearch_score_as_the_model_does(kind, named):
    model, X = fitted(kind, tuple(NAMES) if named else None)
    for stage in range(1, 5):
        solr = json.loads(to_linear_format(model, format="solr", stage=stage))
        assert solr["class"] == "org.apache.solr.ltr.model.LinearModel"
        assert solr["name"] == f"budgetline_stage_{stage}"
        weights = solr["params"]["weights"]
        assert [each["name"] for each in solr["features"]] == list(weights)
        text = to_linear_format(model, format="elasticsearch", stage=stage)
        assert text == to_linear_format(model, format="opensearch", stage=stage)
        body = json.loads(text)["model"]
        assert body["name"] == solr["name"]
        assert body["model"]["type"] == "model/linear"
        assert json.loads(body["model"]["definition"]) == weights
        assert all(isinstance(each, float) for each in weights.values())
        assert ("constant" in weights) == (kind not in RANKS)
        shift = model.intercept_path_[stage - 1] if kind in RANKS else 0.0
        np.testing.assert_allclose(weighted(X, weights) + shift, scores_of(model, X, stage), atol=1e-9)


def test_all_stages_are_a_list():
    model, _ = fitted("ranker")
    for format in ("solr", "elasticsearch"):
        every = json.loads(to_linear_format(model, format=format, all_stages=True))
        assert every == [json.loads(to_linear_format(model, format=format, stage=stage)) for stage in range(1, 5)]


def vespa(text, X):
    """Evaluate a rank profile: the value of every function and of the first phase, by name."""
    assert re.match(r"rank-profile \w+ inherits default \{\n", text)
    assert text.count("{") == text.count("}")
    number, feature = r"-?\d+(?:\.\d+)?(?:e[+-]?\d+)?", r"[A-Za-z_]\w*\([\w., ]+\)(?:\.\w+)*"
    found = {}
    for name, expression in re.findall(r"function (\w+)\(\) \{\n\s*expression: (.*)\n", text):
        constant, *terms = re.split(r" \+ ", expression)
        assert re.fullmatch(number, constant)
        found[name] = float(constant)
        for term in terms:
            weight, of = re.fullmatch(f"({number}) \\* ({feature})", term, re.ASCII).groups()
            name_of = re.sub(r"^attribute\((\w+)\)$", r"\1", of)
            found[name] = found[name] + float(weight) * columns_of(X, [name_of])[name_of]
    return found, re.search(r"first-phase \{\n\s*expression: (\w+)\n", text)[1]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("named", [False, True])
def test_vespa_scores_as_the_model_does(kind, named):
    names = tuple(name.replace("ö", "o").replace("ß", "s") for name in NAMES) if named else None
    model, X = fitted(kind, names)
    found, first = vespa(to_linear_format(model, format="vespa", all_stages=True, name="my_1"), X)
    assert list(found) == [f"my_1_stage_{stage}" for stage in range(1, 5)]
    assert first == "my_1_stage_4"
    for stage, values in enumerate(found.values(), start=1):
        np.testing.assert_allclose(values, scores_of(model, X, stage), atol=1e-9)
        one, _ = vespa(to_linear_format(model, format="vespa", stage=stage), X)
        np.testing.assert_array_equal(one[f"budgetline_stage_{stage}"], values)


def pmml(text, X):
    """Evaluate a RegressionModel by the rules of PMML 4.4."""
    root = ElementTree.fromstring(text)
    assert root.get("version") == "4.4"
    model = root.find("p:RegressionModel", NS)
    fields = {field.get("name"): field for field in root.findall("p:DataDictionary/p:DataField", NS)}
    mining = {field.get("name"): field.get("usageType", "active") for field in model.find("p:MiningSchema", NS)}
    assert mining == {name: "target" if name == "target" else "active" for name in fields}
    assert {field.get("optype") for field in fields.values()} == {"continuous"}
    assert (model.get("functionName"), model.get("normalizationMethod", "none")) == ("regression", "none")
    (table,) = model.findall("p:RegressionTable", NS)
    weights = {each.get("name"): float(each.get("coefficient")) for each in table}
    assert set(weights) == set(fields) - {"target"}
    return float(table.get("intercept")) + weighted(X, weights)


@pytest.mark.parametrize("kind", ["ranker", "survival", "regressor"])
@pytest.mark.parametrize("named", [False, True])
def test_pmml_predicts_as_the_model_does(kind, named):
    model, X = fitted(kind, tuple(NAMES) if named else None)
    for stage in range(1, 5):
        values = pmml(to_linear_format(model, format="pmml", stage=stage), X)
        np.testing.assert_allclose(values, model.predict(X, stage=stage), atol=1e-9)


def test_a_file_holds_what_is_returned_of_the_stage_that_a_budget_buys(tmp_path):
    model, _ = fitted("ranker")
    costs = model.sequence_.cumulative_costs
    text = to_linear_format(model, tmp_path / "m.json", format="solr", budget=(costs[1] + costs[2]) / 2)
    assert (tmp_path / "m.json").read_text(encoding="utf-8") == text
    assert text == to_linear_format(model.model_, format="solr", stage=2)


REFUSED = {
    "format": (
        {"format": "lucene"},
        "format must be one of solr, elasticsearch, opensearch, vespa, pmml, got 'lucene'",
    ),
    "no text": ({"format": ["solr"]}, "format must be one of"),
    "name": ({"name": "my-model"}, "name must be letters, digits and underscores, no digit first, got 'my-model'"),
    "first digit": ({"name": "1a"}, "name must be letters"),
    "no name": ({"name": None}, "name must be letters"),
    "stage": ({"stage": 9}, "stage must be"),
    "both": ({"stage": 1, "budget": 2}, "budget"),
    "all and one": ({"stage": 1, "all_stages": True}, "leave out stage and budget"),
    "all and budget": ({"budget": 1, "all_stages": True}, "leave out stage and budget"),
    "stage 0": ({"budget": 0}, "stage 0 has no columns"),
    "pmml": ({"format": "pmml", "all_stages": True}, "a PMML file holds one stage"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_bad_parameters_are_refused(case):
    given, message = REFUSED[case]
    with pytest.raises(ValueError, match=message):
        to_linear_format(fitted("ranker")[0], **{"format": "solr"} | given)


@pytest.mark.parametrize(
    ("format", "name"),
    [("vespa", "unit price"), ("vespa", "a-b"), ("vespa", "größe"), ("vespa", "f(x) + 1"), ("vespa", "1a"),
     ("solr", "constant"), ("elasticsearch", "constant"), ("pmml", "target"), ("pmml", "a\x00"), ("solr", "a\nb")],
)  # fmt: skip
def test_names_of_columns_that_a_format_cannot_hold_are_refused(format, name):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(50, 2)), columns=["x", name])
    model = AnytimeRegressor().fit(frame, frame[name] + 3)
    with pytest.raises(ValueError, match=r"column .* has .*rename it"):
        to_linear_format(model, format=format)


def test_models_that_are_not_one_linear_function_are_refused():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 2))
    frame = pd.DataFrame({"age": X[:, 0], "kind": np.where(X[:, 1] > 0, "x", "y")})
    with pytest.raises(TypeError, match="cannot hold the encoding that 'age', 'kind' need: use to_onnx"):
        to_linear_format(AnytimeRegressor(encoding="linear").fit(frame, X[:, 0]), format="solr")
    many, _ = fitted("3 classes")
    for format in ("solr", "elasticsearch", "vespa"):
        with pytest.raises(TypeError, match="holds one score, but the model has 3: use to_onnx"):
            to_linear_format(many, format=format)
    with pytest.raises(TypeError, match="holds one score, but the model has 2"):
        to_linear_format(AnytimeRegressor().fit(X, X), format="pmml")
    loss = ConvexLoss(np.exp, np.exp)
    for model in (AnytimeRegressor(loss=loss).fit(X, X[:, 0] ** 2), fitted("2 classes")[0], fitted("poisson")[0]):
        with pytest.raises(TypeError, match="PMML holds only linear predictions, but the loss is"):
            to_linear_format(model, format="pmml")
    with pytest.raises(TypeError, match="accepts a fitted"):
        to_linear_format(StagedEstimators(AnytimeRegressor(), AnytimeRegressor()), format="solr")
