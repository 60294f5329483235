"""The report: its figures against curves and comparisons made here, its renderings, and text that attacks them."""

import base64
import hashlib
import json
import re
import warnings
from dataclasses import replace
from html.parser import HTMLParser
from itertools import combinations

import numpy as np
import pandas as pd
import pytest
from certifying import certify
from scipy.special import expit
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, GroupKFold, KFold, StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from budgetline import (
    AnytimeClassifier,
    AnytimeRegressor,
    AnytimeRegressorCV,
    Encoding,
    FeatureGroups,
    FixedOrder,
    GroupLassoPath,
    Moments,
    budget_curve,
    compare,
    cross_val_budget_curve,
    files,
    make_report,
    open_data,
    timeliness,
)
from budgetline.datasets import load_heart, load_nhanes, load_thyroid
from budgetline.messages import warn
from budgetline.model.calibration import Calibration
from budgetline.sequencing import RandomOrder

pytestmark = pytest.mark.quick_cases(2)

GROUPS = {"a": [0, 1], "b": [2], "c": [3, 4], "d": [5]}
COSTS = {"a": 1.0, "b": 0.5, "c": 4.0, "d": 3.0}
EVIL = "</script><script>alert(1)</script>"
NASTY = [EVIL, "<!--<script>{{ 7 * 7 }}", "a\u2028b\u2029c{% raw %}", 'it\'s "q" & <b>|`*_[x](y)#\n$title']


def regression_data(seed=0, n=120):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 6)) @ rng.standard_normal((6, 6)) + 3
    return X, X @ rng.standard_normal(6) + 2 * rng.standard_normal(n)


def class_data(classes, seed=0, n=150):
    X, score = regression_data(seed, n)
    return X, np.array(["no", "yes", "perhaps", "never"])[
        np.digitize(score, np.quantile(score, np.arange(1, classes) / classes))
    ]


@pytest.fixture(scope="module")
def heart():
    return load_heart()


@pytest.fixture(scope="module")
def heart_model(heart):
    return AnytimeClassifier(heart.feature_groups, alpha=1e-2).fit(heart.data, heart.target)


@pytest.fixture(scope="module")
def heart_report(heart, heart_model):
    return make_report(heart_model, heart.data, heart.target, unit="dollars", title="Heart")


@pytest.fixture(scope="module")
def regression():
    X, y = regression_data()
    model = AnytimeRegressor(GROUPS, COSTS, alpha=1e-3).fit(X, y)
    return model, X, y


def curve_of(summary, kind):
    (found,) = [curve for curve in summary.curves if curve.kind == kind]
    return found


# -- the figures -------------------------------------------------------------------------------------------------


def test_the_sequence_is_the_models(heart_model, heart_report, heart):
    sequence = heart_model.sequence_
    assert [s.group for s in heart_report.sequence] == list(sequence.groups)
    for field in ("cost", "cumulative_cost", "gain"):
        assert [getattr(s, field) for s in heart_report.sequence] == sequence.to_dict()[field]
    truth = budget_curve(heart_model, heart.data, heart.target).values[1:]
    np.testing.assert_allclose([s.explained for s in heart_report.sequence], truth, rtol=1e-9)
    widths = dict(zip(heart.feature_groups.names, map(len, heart.feature_groups.columns), strict=True))
    assert [s.columns for s in heart_report.sequence] == [widths[name] for name in sequence.groups]
    assert heart_report.total_cost == pytest.approx(323.97)
    assert heart_report.data.rows == 303
    assert heart_report.data.columns == 20
    assert list(heart_report.data.target) == ["0", "1"]
    np.testing.assert_allclose(list(heart_report.data.target.values()), np.bincount(heart.target) / 303)


def shuffled(folds, classes=False):
    """The folds of a report."""
    return (StratifiedKFold if classes else KFold)(folds, shuffle=True, random_state=0)


@pytest.mark.parametrize(
    ("cv", "text"),
    [
        (3, "3 folds (rows shuffled with seed 7, stratified by class)"),
        (None, "5 folds (rows shuffled with seed 7, stratified by class)"),
        (KFold(4), "4 folds (rows in their original order)"),
        (KFold(4, shuffle=True, random_state=None), "4 folds (rows shuffled)"),
        (GroupKFold(2), "2 folds (groups of rows in their original order)"),
        ([(np.arange(0, 303, 2), np.arange(1, 303, 2))] * 2, "2 folds (as given)"),
    ],
)
def test_the_page_says_how_the_folds_were_made(heart, heart_model, cv, text, monkeypatch):
    if isinstance(cv, GroupKFold):  # of rows by turns
        monkeypatch.setattr(GroupKFold, "split", lambda *_: iter([(np.arange(0, 303, 2), np.arange(1, 303, 2))] * 2))
    summary = make_report(heart_model, heart.data, heart.target, cv=cv, baselines=False, random_state=7)
    assert text in summary.to_markdown()
    assert text in summary.to_html()
    assert json.loads(summary.to_json())["title"] == summary.title


def test_rows_in_order_of_the_target_do_not_spoil_the_folds():
    rng = np.random.default_rng(0)
    y = np.sort(rng.normal(size=300))
    X = y[:, None] + rng.normal(size=(300, 4))
    model = AnytimeRegressor().fit(X, y)
    by_default = make_report(model, X, y, metric="r2", baselines=False)
    in_order = make_report(model, X, y, metric="r2", baselines=False, cv=KFold(5))
    assert by_default.expected[-1][0] > 0.7
    assert in_order.expected[-1][0] < 0


def test_the_curves_are_those_of_the_library(heart, heart_model, heart_report):
    assert heart_report.measure.name == "roc_auc"
    fitted = budget_curve(heart_model, heart.data, heart.target, metric="roc_auc")
    training = curve_of(heart_report, "training")
    np.testing.assert_array_equal(training.costs, fitted.costs)
    np.testing.assert_array_equal(training.values, fitted.values)
    truth = cross_val_budget_curve(
        clone(heart_model), heart.data, heart.target, metric="roc_auc", cv=shuffled(5, classes=True)
    )
    found = curve_of(heart_report, "cross-validated")
    np.testing.assert_allclose(found.costs, truth.costs)
    np.testing.assert_allclose(found.values, truth.values)
    np.testing.assert_allclose(found.errors, truth.errors, atol=1e-15)
    for budget in (0, 0.5, 3, 17, 93.3, 150, 323.97, 1e9):
        assert found.at(budget)[0] == pytest.approx(truth.at(budget))
    for stage, entry in enumerate(heart_report.sequence, start=1):
        assert heart_report.expected[stage][0] == pytest.approx(truth.at(entry.cumulative_cost))
        agree = [
            entry.group in fold.groups[1:][: np.sum(fold.costs[1:] <= entry.cumulative_cost + 1e-9)]
            for fold in truth.folds
        ]
        assert entry.agreement == sum(agree)


def test_the_comparison_is_that_of_the_library(heart, heart_model, heart_report):
    own = {name: getattr(heart_model, name) for name in ("feature_groups", "alpha")}
    methods = {
        "this model": AnytimeClassifier(**own),
        "Newton step (score)": AnytimeClassifier(**own, rule="score"),
        "each group alone": AnytimeClassifier(**own, rule="static"),
        "costs ignored": AnytimeClassifier(**own, cost_sensitive=False),
        "cheapest first": AnytimeClassifier(**own, schedule="cheapest"),
        "random order": AnytimeClassifier(**own, schedule=RandomOrder(0)),
    }
    truth = compare(
        methods, heart.data, heart.target, metric="roc_auc", cv=shuffled(5, classes=True), interpolation="step"
    )
    found = heart_report.comparison
    assert [m.name for m in found.methods] == list(methods)
    assert found.shares == (0.1, 0.25, 0.5, 1.0)
    np.testing.assert_allclose(found.budgets, np.array(found.shares) * 323.97)
    for method in found.methods:
        row, curve = truth.summary()[method.name], truth.curves[method.name]
        assert (method.timeliness, method.timeliness_error) == pytest.approx((row["timeliness"], row["error"]))
        by_hand = np.array([[fold.at(budget) for budget in found.budgets] for fold in curve.folds])
        np.testing.assert_allclose(method.values, by_hand.mean(axis=0))
        np.testing.assert_allclose(method.errors, by_hand.std(axis=0, ddof=1) / np.sqrt(5), atol=1e-15)
        assert method.timeliness == pytest.approx(
            np.mean([timeliness(f, 323.97, interpolation="step") for f in curve.folds])
        )


# -- budgets that are known in advance ---------------------------------------------------------------------------


def test_the_headline_is_computed(heart_report):
    spent, total, share = map(
        float, re.match(r"([\d.]+) of ([\d.]+) dollars buy (\d+) %", heart_report.headline).groups()
    )
    curve = curve_of(heart_report, "cross-validated")
    improvement = [curve.at(stage.cumulative_cost)[0] - 0.5 for stage in heart_report.sequence]
    shares = np.array(improvement) / improvement[-1]
    first = int(np.argmax(shares >= 0.8))
    assert spent == heart_report.sequence[first].cumulative_cost
    assert total == 323.97
    assert share == round(100 * shares[first])


@pytest.mark.slow
def test_the_report_says_when_more_is_not_better():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 30))
    y = X[:, 0] + 0.5 * rng.standard_normal(60)
    model = AnytimeRegressor(alpha=0).fit(X, y)
    summary = make_report(model, X, y, baselines=False)
    truth = cross_val_budget_curve(clone(model), X, y)
    best = truth.costs[np.argmax(truth.values)]
    assert truth.values.max() > truth.values[-1] + truth.errors[-1]
    assert re.search(rf"with {best:.0f} groups? and .* with all 30\. Stop at a budget of {best:.0f}", summary.warning)
    assert summary.warning in re.sub(r"\\(.)", r"\1", summary.to_markdown())
    assert re.match(r"\d+ of 30 cost units buy .*held-out .*; more groups make it worse\.$", summary.headline)
    again = clone(model).set_params(max_cost=float(re.search(r"max_cost=([\d.]+)\.$", summary.warning)[1])).fit(X, y)
    assert len(again.sequence_) == best


def test_the_warning_is_not_there_without_need(heart_report):
    assert heart_report.warning == ""
    assert "Warning" not in heart_report.to_markdown()


def falling(values, errors, costs=None, better=True):
    """Return a report whose held-out values are these, at costs of a third."""
    model = AnytimeRegressor(alpha=1e-3).fit(np.eye(40)[:, : len(values) - 1] + 0.0, np.arange(40.0))
    report = make_report(model)
    costs = (0.0, *np.cumsum(costs or np.ones(len(values) - 1)).tolist())
    stages = tuple(replace(s, cumulative_cost=c) for s, c in zip(report.sequence, costs[1:], strict=True))
    training = replace(report.curves[0], costs=costs)
    held_out = replace(training, kind="cross-validated", values=tuple(values), errors=tuple(errors))
    measure = replace(report.measure, folds=5, greater_is_better=better)
    return replace(report, sequence=stages, curves=(training, held_out), measure=measure)


def test_headlines_are_about_held_out_values():
    none = [0.0] * 5
    assert falling([0, 0.85, 0.9, 0.95, 1], none).headline == (
        "1 of 4 cost units buy 85 % of the held-out improvement in explained variance from all 4 groups."
    )
    worse = falling([0, 0.85, 1, 0.2, 0.1], none)  # all groups together are worth little
    assert (
        worse.headline
        == "1 of 4 cost units buy 85 % of the held-out improvement in explained variance from the first 2 groups;"
        " more groups make it worse."
    )
    assert worse.warning == (
        "More groups make predictions worse: held-out explained variance is 100.0 ± 0.0 % with 2 groups and 10.0 ±"
        " 0.0 % with all 4. Stop at a budget of 2, or fit again with max_cost=2."
    )
    best = falling([0, 0.5, 1, 0.2, 0.1], none)
    assert best.headline == "2 of 4 cost units buy the best held-out explained variance; more groups make it worse."
    noisy = falling([0, 0.85, 1, 0.95, 0.9], [0.2] * 5)
    assert (noisy.warning, "worse" in noisy.headline) == ("", False)
    losses = falling([1, 0.3, 0.2, 0.5, 0.6], none, better=False)
    assert "the first 2 groups; more groups make it worse" in losses.headline
    free = falling([0, 0.85, 0.9, 0.95, 1], none, [0, 1, 2, 3])
    assert free.headline == (
        "The free groups alone give 85 % of the held-out improvement in explained variance from all 4 groups,"
        " which cost 6 cost units."
    )
    assert "the smallest budget that buys at least 80 % of the improvement" in free.to_markdown()
    useless = falling([0, -1, -1, -1, -2], none)
    assert "no measurable improvement in held-out" in useless.headline
    assert useless.warning.endswith("Buy none.")
    assert falling([0, 0.9, 0.5], [0.0] * 3, [1 / 3 + 1e-7, 1]).warning.endswith("max_cost=0.333337.")


def test_titles_have_the_target(regression):
    model, X, y = regression
    report = make_report(model, X, pd.Series(y, name="price"), cv=2, baselines=False)
    assert report.title == "price: AnytimeRegressor of 4 groups"
    assert make_report(model).title == "AnytimeRegressor of 4 groups"


def test_equal_costs_have_no_chart_of_costs_and_no_orders_by_cost(regression):
    _, X, y = regression
    equal, other = (AnytimeRegressor(GROUPS, costs).fit(X, y) for costs in (dict.fromkeys(GROUPS, 2.0), COSTS))
    reports = [make_report(model, X, y, cv=2) for model in (equal, other)]
    for report, same in zip(reports, (True, False), strict=True):
        assert ('<section class="absent" aria-labelledby="scatter-title">' in report.to_html()) == same
        names = {method.name for method in report.comparison.methods}
        assert names & {"costs ignored", "cheapest first"} == (set() if same else {"costs ignored", "cheapest first"})
    assert replace(
        reports[0], sequence=(replace(reports[0].sequence[0], cost=0.0), *reports[0].sequence[1:])
    ).equal_costs


@pytest.mark.parametrize(("weighted", "offset"), [(False, 0.0), (True, 0.0), (False, 0.7)])
def test_thresholds_are_those_of_held_out_rows(heart, weighted, offset):
    model = AnytimeClassifier(heart.feature_groups, alpha=1e-2).fit(heart.data, heart.target)
    if offset:  # folds are calibrated as the whole model
        calibration = Calibration(np.ones((10, 2)), np.full(10, offset))
        model.model_ = replace(model.model_, calibration=calibration)
    weight = np.random.default_rng(0).integers(1, 4, 303) if weighted else np.ones(303)
    given = {"sample_weight": weight} if weighted else {}
    report = make_report(model, heart.data, heart.target, cv=3, baselines=False, **given)
    found, y = report.probabilities, heart.target
    assert [each.stage for each in found.stages] == list(range(10))
    chance = np.empty((10, 303))
    for train, test in shuffled(3, StratifiedKFold).split(heart.data, y):
        part = {"sample_weight": weight[train]} if weighted else {}
        fold = clone(model).fit(heart.data[train], y[train], **part)
        for k, cost in enumerate([0.0, *model.sequence_.cumulative_costs]):
            stage = fold.sequence_.stage_at(cost) if k else 0
            chance[k, test] = expit(fold.decision_function(heart.data[test], stage=stage) + offset)
    for stage in (0, 4, 9):
        for k in (3, 20, 54, 90):
            called = chance[stage] >= found.thresholds[k]
            if np.abs(chance[stage] - found.thresholds[k]).min() < 1e-9:
                continue
            counts = [[weight[(called == c) & (y == t)].sum() for t in (0, 1)] for c in (False, True)]
            (spared, missed), (wrong, right) = counts
            called, sensitivity, specificity, positive_value, negative_value = found.called(stage, k)
            assert called == pytest.approx((wrong + right) / weight.sum())
            assert sensitivity == pytest.approx(right / (right + missed))
            assert specificity == pytest.approx(spared / (spared + wrong))
            for value, part, rest in ((positive_value, right, wrong), (negative_value, spared, missed)):
                assert value is None if part + rest == 0 else value == pytest.approx(part / (part + rest))
    middle = found.called(9, found.thresholds.index(0.5))
    row = next(row for row in markdown_rows(report.to_markdown()) if row[0] == "50 %")
    assert row[2:4] == [f"{100 * value:.1f} %" for value in middle[1:3]]


def test_other_tasks_have_no_thresholds(regression):
    model, X, y = regression
    assert make_report(model, X, y, cv=2, baselines=False).probabilities is None
    X, y = class_data(3)
    report = make_report(AnytimeClassifier().fit(X, y), X, y, cv=2, baselines=False)
    assert report.probabilities is None
    assert "Choose a threshold" not in report.to_markdown()


def test_many_stages_are_counted_evenly():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(100, 60))
    model = AnytimeClassifier(alpha=1.0, rule="score").fit(X, X[:, 0] > 0)
    report = make_report(model, X, X[:, 0] > 0, cv=2, baselines=False)
    stages = [each.stage for each in report.probabilities.stages]
    assert (len(stages), stages[0], stages[-1]) == (40, 0, 60)
    assert report.probabilities.at(59).stage == stages[-2]
    assert {sum(each.first) + sum(each.second) for each in report.probabilities.stages} == {100.0}


def test_regression_with_weights_and_another_metric(regression):
    model, X, y = regression
    w = np.random.default_rng(1).uniform(0.5, 2, len(y))
    cv = KFold(4, shuffle=True, random_state=1)
    summary = make_report(model, X, y, metric="mse", cv=cv, sample_weight=w, baselines=False)
    truth = cross_val_budget_curve(clone(model), X, y, metric="mse", cv=cv, sample_weight=w)
    np.testing.assert_allclose(curve_of(summary, "cross-validated").values, truth.values, rtol=1e-8)
    np.testing.assert_allclose(curve_of(summary, "cross-validated").errors, truth.errors, rtol=1e-6)
    assert summary.comparison is None
    assert not summary.measure.greater_is_better
    assert summary.measure.folds == 4
    assert summary.data.weighted
    assert summary.data.target["mean"] == pytest.approx(np.average(y, weights=w))
    assert "lower is better" in summary.to_markdown()
    assert " buy " in summary.headline


def test_classes(regression):
    X, y = class_data(3)
    model = AnytimeClassifier(GROUPS, COSTS, alpha=1e-2).fit(X, y)
    summary = make_report(model, X, y, cv=3)
    assert (summary.measure.name, summary.task.kind, summary.task.loss) == ("accuracy", "classification", "log loss")
    assert summary.task.classes == ("no", "perhaps", "yes")
    truth = cross_val_budget_curve(clone(model), X, y, metric="accuracy", cv=shuffled(3, classes=True))
    np.testing.assert_allclose(curve_of(summary, "cross-validated").values, truth.values)
    plain = make_report(model)
    frequency = {label: np.mean(y == label) for label in model.classes_}
    for source in (summary, plain):
        np.testing.assert_allclose(
            list(source.data.target.values()), [frequency[name] for name in source.data.target], rtol=1e-6
        )


def test_without_data(regression):
    model, X, y = regression
    summary = make_report(model)
    assert [curve.kind for curve in summary.curves] == ["training"]
    np.testing.assert_allclose(summary.curves[0].values, budget_curve(model, X, y).values, rtol=1e-9, atol=1e-12)
    assert "training improvement" in summary.headline
    assert (summary.comparison, summary.measure.folds, summary.data.rows) == (None, 0, 120)
    assert summary.data.target["mean"] == pytest.approx(y.mean())
    assert "All values are optimistic" in summary.to_markdown()
    assert summary.settings["alpha"] == "0.001"


@pytest.mark.parametrize(
    "make",
    [
        lambda: make_pipeline(StandardScaler(), AnytimeRegressor(GROUPS, COSTS)),
        lambda: GridSearchCV(AnytimeRegressor(GROUPS, COSTS), {"alpha": [1e-3, 1e-1]}, cv=3),
        lambda: AnytimeRegressorCV(GROUPS, COSTS, cv=3),
        lambda: GroupLassoPath(GROUPS, COSTS),
        lambda: AnytimeRegressor(GROUPS, COSTS, rule="omp", schedule="doubling"),
        lambda: AnytimeRegressor(GROUPS, COSTS, max_groups=2),
    ],
)
def test_every_kind_of_model(make):
    X, y = regression_data()
    model = make().fit(X, y)
    summary = make_report(model, X, y, cv=3)
    learned = model.chosen() if hasattr(model, "chosen") else make()  # a search is not repeated in the folds
    truth = cross_val_budget_curve(learned, X, y, cv=shuffled(3))
    np.testing.assert_allclose(curve_of(summary, "cross-validated").values, truth.values, rtol=1e-6, atol=1e-10)
    assert len(summary.comparison.methods) >= 5
    assert json.loads(summary.to_json())["title"] == summary.title
    assert summary.to_html().endswith("</html>\n")


def test_a_model_of_counts():
    X, y = regression_data()
    model = AnytimeRegressor(GROUPS, COSTS, loss="poisson", alpha=1e-2).fit(
        X, np.random.default_rng(0).poisson(2, len(y))
    )
    summary = make_report(model)
    assert summary.task.loss == "Poisson deviance"
    assert summary.measure.label == "explained deviance"


def test_groups_left_out_are_named(regression):
    _, X, y = regression
    summary = make_report(AnytimeRegressor(GROUPS, COSTS, max_groups=2).fit(X, y))
    assert set(summary.left_out) == set(GROUPS) - {stage.group for stage in summary.sequence}
    assert ", ".join(summary.left_out) in summary.to_markdown()


def test_free_groups(regression):
    _, X, y = regression
    model = AnytimeRegressor(GROUPS, {**COSTS, "a": 0.0}).fit(X, y)
    summary = make_report(model, X, y, cv=3, baselines=False)
    truth = cross_val_budget_curve(clone(model), X, y, cv=shuffled(3))
    assert summary.expected[0][0] == pytest.approx(0)
    assert summary.expected[1][0] == pytest.approx(truth.at(0)) != 0
    free = make_report(AnytimeRegressor(GROUPS, dict.fromkeys(GROUPS, 0.0)).fit(X, y), X, y, cv=3)
    assert free.headline == "Every group is free: there is nothing to decide."
    assert json.loads(free.to_json())["title"] == free.title
    assert free.to_html()


@pytest.mark.parametrize("free", [("a", "b"), ("b", "c"), ("a", "b", "c")])
def test_every_free_group_has_its_own_held_out_value(regression, free):
    _, X, y = regression
    model = AnytimeRegressor(GROUPS, {**COSTS, **dict.fromkeys(free, 0.0)}).fit(X, y)
    summary = make_report(model, X, y, cv=3, baselines=False)
    folds = cross_val_budget_curve(clone(model), X, y, cv=shuffled(3)).folds
    truth = np.mean([fold.values[: len(free) + 1] for fold in folds], axis=0)
    assert np.ptp(truth[1:]) > 1e-3
    np.testing.assert_allclose([value for value, _ in summary.expected[: len(free) + 1]], truth)
    # without data, the values are those of the training data, each of its own stage
    training = make_report(model)
    truth = budget_curve(model, X, y).values
    np.testing.assert_allclose([value for value, _ in training.expected], truth, rtol=1e-9, atol=1e-12)


def test_free_groups_come_with_the_group_before_them(regression):
    _, X, y = regression
    model = AnytimeRegressor(GROUPS, {**COSTS, "c": 0.0}, schedule=FixedOrder(("a", "c", "b", "d"))).fit(X, y)
    summary = make_report(model, X, y, cv=3, baselines=False)
    rows = [row for row in markdown_rows(summary.to_markdown()) if len(row) == 7][1:]
    assert [row[:2] for row in rows] == [
        ["0", "none"], ["1", "a, c"], ["1.5", "b and 2 earlier groups"], ["4.5", "d and 3 earlier groups"]
    ]  # fmt: skip
    (first, _), _, (third, _), *_ = summary.expected
    assert rows[0][-3:] == ["a", "1", f"{100 * (third - first):+.1f} pp"]


def test_pairs_of_columns_are_no_groups():
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.uniform(size=(300, 3)), columns=["a", "b", "c"])
    y = X["a"] + X["b"] + 4 * X["a"] * X["b"]
    model = AnytimeRegressor(encoding=Encoding(interactions=1), max_groups=3).fit(X, y)
    summary = make_report(model)
    assert (summary.data.groups, summary.data.pairs, summary.required) == (3, 1, {})
    assert all("×" not in name for name in summary.left_out)
    text = summary.to_markdown()
    assert "groups: 3, 2 in the order, pairs of columns: 1, total cost: " in text
    assert "a × b is the interaction of two columns. It costs nothing once both are bought." in text


def test_warnings_that_differ_in_numbers_are_given_once(regression):
    model, X, y = regression

    def score(y_true, y_pred):
        warn(f"{len(y_true):,} rows were judged, a mean of {y_pred.mean():.3f}", UserWarning)
        warn("all is well", RuntimeWarning)
        return -np.mean((y_true - y_pred) ** 2)

    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        make_report(model, X, y, cv=3, metric=score)
    assert [each.category for each in found] == [UserWarning, RuntimeWarning]
    assert re.match(r"40 rows were judged", str(found[0].message))


def test_curves_may_have_one_value_for_all_free_groups(regression):
    _, X, y = regression
    model = AnytimeRegressor(GROUPS, {**COSTS, "a": 0.0, "b": 0.0}).fit(X, y)
    summary = make_report(model, X, y, cv=3, baselines=False)
    training, judged = summary.curves
    kept = [k for k, cost in enumerate(judged.costs) if cost or k in (0, 2)]
    fewer = {name: tuple(getattr(judged, name)[k] for k in kept) for name in ("costs", "values", "errors")}
    joined = replace(judged, **fewer)
    earlier = replace(summary, curves=(training, joined))
    assert earlier.expected[0] == summary.expected[0]
    assert earlier.expected[1] == earlier.expected[2] == summary.expected[2]
    assert earlier.expected[3:] == summary.expected[3:]


def share_of_spread(y_true, y_pred):
    """Unknown before any group on the folds, and infinite on all the data."""
    if np.ptp(y_pred) == 0:
        return np.inf if len(y_true) == 120 else np.nan
    return np.ptp(y_pred) / np.ptp(y_true)


def test_what_is_not_finite_is_unknown(regression):
    model, X, y = regression
    summary = make_report(model, X, y, metric=share_of_spread, cv=KFold(3))
    for kind in ("training", "cross-validated"):
        curve = curve_of(summary, kind)
        assert {value is None for cost, value in zip(curve.costs, curve.values, strict=True) if cost == 0} == {True}
        assert None not in curve.values[2:]
    assert "no measurable improvement" in summary.headline
    record = re.search(r'id="record">(.*?)<', summary.to_html())[1]
    for text in (summary.to_json(), summary.to_markdown(), record):
        assert not re.search(r"\b(NaN|nan|Infinity|inf)\b", text)
    assert json.loads(summary.to_json())["title"] == summary.title


def test_a_constant_target(regression):
    _, X, y = regression
    summary = make_report(AnytimeRegressor(GROUPS, COSTS).fit(X, np.ones(len(y))))
    assert "no measurable improvement" in summary.headline
    assert summary.to_html()


# -- arguments ---------------------------------------------------------------------------------------------------


def test_arguments_are_checked(regression):
    model, X, y = regression
    for arguments, message in (
        ({"X": X}, "both X and y, or neither"),
        ({"sample_weight": y}, "sample_weight needs X and y"),
        ({"metric": "r2"}, "metric='r2' needs X and y"),
        ({"unit": ""}, "unit must be a non-empty string"),
        ({"title": 3}, "title must be a non-empty string"),
        ({"X": X, "y": y, "random_state": -1}, "random_state must be"),
        ({"X": X, "y": y, "metric": "nonsense"}, "unknown metric"),
    ):
        with pytest.raises(ValueError, match=message):
            make_report(model, **arguments)
    with pytest.raises(TypeError, match="StandardScaler has no stages"):
        make_report(StandardScaler().fit(X))
    with pytest.raises(TypeError, match="pass the estimator instead of its AnytimeModel"):
        make_report(model.model_, X, y)
    assert make_report(model.model_).sequence == make_report(model).sequence
    for data in (Moments.from_data(X, y), open_data((X, y))):
        with pytest.raises(TypeError, match="X must be a table in memory"):
            make_report(model, data, y)


# -- the record --------------------------------------------------------------------------------------------------


def test_a_report_is_plain_json(heart_report, regression):
    for summary in (heart_report, make_report(regression[0])):
        found = json.loads(summary.to_json())
        assert (found["headline"], found["total_cost"]) == (summary.headline, summary.total_cost)
        assert found == json.loads(json.dumps(summary.to_dict()))
        assert tuple(found["curves"][0]["values"]) == summary.curves[0].values


def test_writing(heart_report, tmp_path, monkeypatch):
    for suffix, render in ((".html", "to_html"), (".md", "to_markdown"), (".json", "to_json"), (".HTML", "to_html")):
        path = tmp_path / f"report{suffix}"
        heart_report.write(path)
        assert path.read_text(encoding="utf-8") == getattr(heart_report, render)()
    with pytest.raises(ValueError, match=r"written as \.html, \.md, \.json, not as .*report\.pdf"):
        heart_report.write(tmp_path / "report.pdf")
    before = (tmp_path / "report.html").read_bytes()

    def fail(*_):
        raise OSError("the disk is full")

    monkeypatch.setattr(files.os, "replace", fail)
    with pytest.raises(OSError, match="disk is full"):
        replace(heart_report, title="other").write(tmp_path / "report.html")
    assert (tmp_path / "report.html").read_bytes() == before
    assert {p.name for p in tmp_path.iterdir()} == {"report.html", "report.md", "report.json", "report.HTML"}


# -- renderings --------------------------------------------------------------------------------------------------


class Reader(HTMLParser):
    """Collects tags, the text of scripts and the rows of tables."""

    def __init__(self):
        super().__init__()
        self.tags, self.scripts, self.rows, self.attributes, self.open = [], [], [], [], []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs
        self.open.append(tag)
        if tag == "script":
            self.scripts.append("")
        elif tag == "tr":
            self.rows.append([])
        elif tag in ("td", "th"):
            self.rows[-1].append("")

    def handle_endtag(self, tag):
        while self.open and self.open.pop() != tag:
            pass

    def handle_data(self, data):
        if self.open and self.open[-1] == "script":
            self.scripts[-1] += data
        elif self.open and self.open[-1] in ("td", "th"):
            self.rows[-1][-1] += data


def page_of(summary):
    reader = Reader()
    reader.feed(summary.to_html())
    return reader


def test_the_page_needs_nothing_else(heart_report):
    page = heart_report.to_html()
    assert not re.search(r"https?:|url\(|@import|//[a-z]", page, re.IGNORECASE)
    reader = page_of(heart_report)
    assert not {"link", "img", "iframe", "object", "embed", "base"} & set(reader.tags)
    assert not {"src", "href", "srcset", "style"} & {name for name, _ in reader.attributes}
    assert not [name for name, _ in reader.attributes if name.startswith("on")]
    assert len(page.encode()) < 120_000


def test_the_page_embeds_the_record(heart_report):
    reader = page_of(heart_report)
    assert len(reader.scripts) == 2
    embedded = json.loads(reader.scripts[0])
    assert tuple(embedded.pop("points")) == heart_report.points
    assert embedded == json.loads(heart_report.to_json())


def markdown_rows(text):
    lines = [line for line in text.splitlines() if line.startswith("| ") and not line.startswith(("| ---", "| ---:"))]
    return [[re.sub(r"\\(.)", r"\1", cell.strip()) for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines]


def test_markdown_and_page_have_the_same_tables(heart_report):
    rows = page_of(heart_report).rows
    assert rows == markdown_rows(heart_report.to_markdown())
    assert len(rows) > 1 + 9 + 1 + 10 + 1 + 6


def test_the_tables_have_the_figures(heart_report):
    text = heart_report.to_markdown()
    rows = markdown_rows(text)
    curve = curve_of(heart_report, "cross-validated")
    for stage in heart_report.sequence:
        (order,) = [row for row in rows if len(row) == 8 and row[:2] == [str(stage.step), stage.group]]
        assert float(order[3]) == stage.cost
        assert float(order[4]) == pytest.approx(stage.cumulative_cost)
        before = heart_report.sequence[stage.step - 2].explained if stage.step > 1 else 0.0
        assert order[5] == f"{100 * (stage.explained - before):+.1f} pp".replace("-", "−")
        assert float(order[6].removesuffix(" %")) / 100 == pytest.approx(stage.explained, abs=5.1e-4)
        value, error = curve.at(stage.cumulative_cost)
        bought = [row for row in rows if len(row) == 7 and row[1].split(" and ")[0] == stage.group]
        assert bought[0][2] == f"{value:.3f} ± {error:.3f}"
    for method in heart_report.comparison.methods:
        (row,) = [row for row in rows if row[0] == method.name]
        assert row[1] == f"{method.timeliness:.3f} ± {method.timeliness_error:.3f}"
        assert row[2:6] == [f"{v:.3f} ± {e:.3f}" for v, e in zip(method.values, method.errors, strict=True)]
    assert heart_report.headline in text


@pytest.fixture(scope="module")
def attacked():
    X, y = class_data(2)
    X = np.column_stack([X, X[:, 0] ** 2])[:, :4]
    y = np.where(y == "yes", EVIL, "<!-- no")
    model = AnytimeClassifier(FeatureGroups({name: [k] for k, name in enumerate(NASTY)}), alpha=1e-2).fit(X, y)
    return make_report(model, X, y, cv=3, title=EVIL, unit="<img src=x onerror=alert(1)>")


def test_names_cannot_break_out(attacked, heart_report):
    page, plain = page_of(attacked), page_of(heart_report)
    assert set(page.tags) <= set(plain.tags)
    page, plain = (page_of(replace(report, effects=())) for report in (attacked, heart_report))
    # one row more or less per group or class is all that may differ
    rows = {"tr", "td", "th"}
    assert [t for t in page.tags if t not in rows] == [t for t in plain.tags if t not in rows]
    embedded = json.loads(page_of(attacked).scripts[0])
    assert embedded == {**json.loads(attacked.to_json()), "points": list(attacked.points)}
    assert page.scripts[1] == plain.scripts[1]
    raw = re.search(r'id="record">(.*?)</script>', attacked.to_html(), re.DOTALL)[1]
    assert not re.search(r"[<>&\u2028\u2029]", raw)
    assert [name for name in NASTY if all(name not in row for row in page.rows)] == []
    assert json.loads(attacked.to_json())["title"] == attacked.title


def test_names_stay_in_their_cells_of_markdown(attacked):
    text = attacked.to_markdown()
    assert not re.search(r"(?<!\\)<", text)
    header = markdown_rows(text)[0]
    assert {len(row) for row in markdown_rows(text)[1 : 1 + len(NASTY)]} == {len(header)}
    assert " ".join(NASTY[3].split()) in {row[1] for row in markdown_rows(text)}


def test_lone_surrogates_are_written(attacked, tmp_path):
    strange = replace(attacked, title="half \ud800 a pair")
    for suffix in (".html", ".md", ".json"):
        strange.write(tmp_path / f"r{suffix}")
    assert json.loads((tmp_path / "r.json").read_text())["title"] == strange.title


def test_the_policy_allows_only_our_script(heart_report):
    reader = page_of(heart_report)
    policy = next(value for name, value in reader.attributes if name == "content" and "default-src" in value)
    digest = base64.b64encode(hashlib.sha256(reader.scripts[1].encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}';" in policy
    assert "unsafe" not in policy
    assert policy.startswith("default-src 'none';")


def test_the_notes_say_what_the_band_means(heart_report):
    for text in (heart_report.to_markdown(), heart_report.to_html()):
        assert "In each fold, an order is learned" in text
        assert "the band is ± one standard error" in text


@pytest.mark.slow
def test_nhanes_at_full_size():
    nhanes = load_nhanes()
    model = AnytimeRegressor(nhanes.feature_groups, alpha=1e-2).fit(nhanes.data, nhanes.target)
    summary = make_report(model, nhanes.data, nhanes.target)
    truth = cross_val_budget_curve(clone(model), nhanes.data, nhanes.target, cv=shuffled(5))
    for budget in (0, 16, 30, 131, 524):
        assert curve_of(summary, "cross-validated").at(budget)[0] == pytest.approx(truth.at(budget), rel=1e-6, abs=1e-9)
    assert len(summary.to_html().encode()) < 200_000


# -- the certificate ---------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def certified(regression):
    model, X, y = regression
    certificate = model.certificate(time_limit=60)
    return certificate, make_report(model, X, y, cv=3, baselines=False, certificate=certificate)


def explained_by(X, y, names, alpha):
    """Return F/R(∅) of a set of groups, from its definition."""
    columns = [column for name in names for column in GROUPS[name]]
    Z, t = (X - X.mean(axis=0)) / X.std(axis=0), y - y.mean()
    Z = Z[:, columns]
    w = np.linalg.solve(Z.T @ Z / len(y) + alpha * np.eye(len(columns)), Z.T @ t / len(y)) if columns else np.zeros(0)
    return 1 - (np.mean((t - Z @ w) ** 2) + alpha * w @ w) / np.mean(t**2)


def test_the_certificate_says_what_it_said(certified):
    certificate, summary = certified
    found = summary.certificate
    shares = [0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0]
    assert [each.share for each in found.budgets] == pytest.approx(shares, rel=1e-12)
    np.testing.assert_allclose([each.budget for each in found.budgets], 8.5 * np.array(shares))
    for each in found.budgets:
        achieved, bound, ratio = certificate.at(each.budget)
        scale = certificate.null_value
        entries = [each.achieved, each.bound, each.ratio]
        assert entries == pytest.approx([achieved / scale, bound / scale, ratio], rel=1e-12)
    timely = found.timeliness
    assert (timely.achieved, timely.bound, timely.ratio) == pytest.approx(certificate.timeliness(), rel=1e-12)
    assert found.notes == certificate.notes
    bound = certificate.curve()
    assert found.curve.kind == "bound"
    assert found.curve.costs[-1] == summary.total_cost
    np.testing.assert_array_equal(found.curve.costs, bound.costs)
    np.testing.assert_array_equal(found.curve.values[:-1], bound.values[:-1])
    assert [curve.kind for curve in summary.curves] == ["training", "cross-validated"]


def test_no_set_of_groups_is_above_the_bound_of_the_report(certified, regression):
    _, X, y = regression
    found = certified[1].certificate
    for size in range(5):
        for names in combinations(GROUPS, size):
            cost, value = sum(COSTS[name] for name in names), explained_by(X, y, names, 1e-3)
            for each in found.budgets:
                assert cost > each.budget or value <= each.bound + 1e-9
            held = [v for c, v in zip(found.curve.costs, found.curve.values, strict=True) if c < cost]
            assert value <= (held or found.curve.values)[-1 if held else 0] + 1e-9
    bought = [stage.group for stage in certified[1].sequence if stage.cumulative_cost <= found.budgets[-2].budget]
    assert found.budgets[-2].achieved == pytest.approx(explained_by(X, y, bought, 1e-3))
    assert found.budgets[-1].ratio == pytest.approx(1)


def test_the_table_never_promises_more_than_is_proven(certified):
    summary = certified[1]
    text = summary.to_markdown()
    rows = [row for row in markdown_rows(text) if len(row) == 4]
    assert rows[0][0] == "budget, of 8.5 cost units"
    assert [row[0] for row in rows[1:]] == [
        "1 % (0.085)", "2 % (0.17)", "5 % (0.425)", "10 % (0.85)", "25 % (2.125)", "50 % (4.25)", "100 % (8.5)",
        "mean over budgets (timeliness)",
    ]  # fmt: skip
    for row, each in zip(rows[1:-1], summary.certificate.budgets, strict=True):
        assert -1e-3 < float(row[3].removesuffix(" %")) / 100 - each.ratio <= 1e-7
        assert float(row[2].removesuffix(" %")) / 100 == pytest.approx(each.bound, abs=5.1e-4)
    assert float(rows[-1][3].removesuffix(" %")) / 100 <= summary.certificate.timeliness.ratio
    assert "## How close to optimal?" in text
    assert rows[0][3] == "certified share of the optimum"
    assert page_of(summary).rows == markdown_rows(text)
    for words in (
        "proven for the training data, minus the ridge penalty",
        "even the best order may stay below some bounds",
        "Theorem 3.2",
    ):
        assert words in text
        assert words in summary.to_html()


def proven_of(summary, shares, achieved, bounds, timely=0.5):
    """Return a summary with other figures in its certificate."""
    found = summary.certificate
    make, budgets = type(found.budgets[0]), []
    for share, a, b in zip(shares, achieved, bounds, strict=True):
        budgets.append(make(a, b, a / b if b else 1.0, share, share * summary.total_cost))
    timeliness = type(found.timeliness)(timely, 1.0, timely)
    return replace(summary, certificate=replace(found, budgets=tuple(budgets), timeliness=timeliness))


@pytest.mark.parametrize(
    ("achieved", "bounds", "sentence"),
    [
        (
            (0.2, 0.3, 0.4),
            (0.2, 0.3129, 0.4),
            "At 10 % of the cost, the order reaches at least 95.8 % of the optimum on the training data.",
        ),
        (
            (0.0, 0.0, 0.4),
            (0.2, 0.3, 0.5),
            "At 100 % of the cost, the order reaches at least 80.0 % of the optimum on the training data.",
        ),
        ((0.2, 0.3, 0.4), (0.2, 0.3, 0.4), "At 10 % of the cost, the order is optimal on the training"),
        ((0.2, 0.99996, 1.0), (0.2, 1.0, 1.0), "reaches at least 99.9 % of the optimum"),
        ((0.0, 0.0, 0.0), (0.0, 0.0, 0.0), "The order explains no measurable share of the loss."),
    ],
)
def test_the_sentence(certified, achieved, bounds, sentence):
    assert sentence in proven_of(certified[1], (0.01, 0.1, 1.0), achieved, bounds).to_markdown()


def test_a_training_curve_above_the_bound_is_not_clipped(regression):
    _, X, y = regression
    model = AnytimeRegressor(GROUPS, COSTS, alpha=1.0).fit(X, y)
    certificate = model.certificate(time_limit=60)
    summary = make_report(model, X, y, cv=3, baselines=False, certificate=certificate)
    fitted = budget_curve(model, X, y)
    above = [
        v - certificate.at(c).bound / certificate.null_value for c, v in zip(fitted.costs, fitted.values, strict=True)
    ]
    assert max(above) > 0.01
    assert "so it can exceed the bound, which includes it." in summary.to_markdown()
    np.testing.assert_array_equal(curve_of(summary, "training").values, fitted.values)
    np.testing.assert_array_equal(summary.certificate.curve.values[:-1], certificate.curve().values[:-1])


def test_a_bound_is_drawn_for_explained_alone(regression, certified):
    model, X, y = regression
    other = make_report(model, X, y, metric="mse", cv=3, baselines=False, certificate=certified[0])
    assert other.certificate.curve is None
    assert other.certificate.budgets == certified[1].certificate.budgets


def test_a_certificate_of_a_sequence_that_was_ended(regression):
    _, X, y = regression
    model = AnytimeRegressor(GROUPS, COSTS, alpha=1e-3, max_groups=2).fit(X, y)
    certificate = model.certificate(time_limit=60)
    summary = make_report(model, certificate=certificate)
    total = model.sequence_.cumulative_costs[-1]
    assert total < certificate.total_cost
    assert summary.certificate.budgets[-1].budget == summary.certificate.curve.costs[-1] == total
    assert summary.certificate.curve.values[-1] * certificate.null_value == pytest.approx(certificate.at(total).bound)
    assert summary.certificate.timeliness.ratio == pytest.approx(certificate.timeliness(total).ratio)
    assert "also apply to sets that contain groups outside the sequence" in summary.to_markdown()


@pytest.mark.parametrize("costs", [dict.fromkeys(GROUPS, 0.0), {**COSTS, "a": 0.0}, {**COSTS, "c": 1e9}])
def test_certificates_with_strange_costs(regression, costs):
    _, X, y = regression
    for target in (y, np.ones(len(y))):
        model = AnytimeRegressor(GROUPS, costs, alpha=1e-3).fit(X, target)
        summary = make_report(model, X, target, cv=3, baselines=False, certificate=model.certificate(time_limit=60))
        assert json.loads(summary.to_json())["title"] == summary.title
        assert summary.certificate.budgets[-1].ratio == pytest.approx(1)
        assert summary.to_html()


@pytest.mark.parametrize("costs", [[3.0, 0.0], [1e-9, 3.0], [0.0, 0.0]])
def test_certificates_where_hardly_any_budget_buys_anything(regression, costs):
    _, X, y = regression
    for groups, prices in (([[0, 1]], costs[:1]), ([[0], [1]], costs)):
        model = AnytimeRegressor(groups, prices).fit(X[:, :2], y)
        summary = make_report(model, certificate=model.certificate(time_limit=1))
        assert summary.certificate.timeliness.ratio == model.certificate(time_limit=1).timeliness().ratio
        assert json.loads(summary.to_json())["title"] == summary.title


def test_certificates_of_pipelines_and_searches(regression):
    _, X, y = regression
    for model in (
        make_pipeline(StandardScaler(), AnytimeRegressor(GROUPS, COSTS)),
        GridSearchCV(AnytimeRegressor(GROUPS, COSTS), {"alpha": [1e-3, 1e-1]}, cv=3),
        AnytimeRegressorCV(GROUPS, COSTS, cv=3),
    ):
        certificate = certify(model.fit(X, y), time_limit=60)
        found = make_report(model, certificate=certificate).certificate
        assert found.budgets[-2].ratio == certificate.at(found.budgets[-2].budget).ratio


def test_a_certificate_of_another_model_is_refused(regression, certified):
    model, X, y = regression
    same = {"schedule": FixedOrder(model.sequence_.groups), "alpha": 1e-3}
    backwards = {**same, "schedule": FixedOrder(model.sequence_.groups[::-1])}
    others = {
        "other groups": (AnytimeRegressor({**GROUPS, "a": [0], "b": [1, 2]}, COSTS, **same), y),
        "other costs": (AnytimeRegressor(GROUPS, {**COSTS, "c": 4.5}, **same), y),
        "another order": (AnytimeRegressor(GROUPS, COSTS, **backwards), y),
        "alpha": (AnytimeRegressor(GROUPS, COSTS, **{**same, "alpha": 2e-3}), y),
        "other data": (AnytimeRegressor(GROUPS, COSTS, **same), 2 * y),
    }
    for message, (other, target) in others.items():
        with pytest.raises(ValueError, match=f"not belong to this model: it is about .*{message.split()[-1]}"):
            make_report(model, certificate=other.fit(X, target).certificate(time_limit=0))
    poisson = AnytimeRegressor(GROUPS, COSTS, loss="poisson", **same).fit(X, np.abs(y))
    with pytest.raises(ValueError, match=r"is about other .*loss"):
        make_report(poisson, certificate=certified[0])
    without = replace(certified[0], excluded=np.array([True, False, False, False]))
    with pytest.raises(ValueError, match="is about other conditions"):
        make_report(model, certificate=without)
    with pytest.raises(TypeError, match="certificate must be a Certificate"):
        make_report(model, certificate=certified[0].to_dict())


def test_certificates_are_read_again(heart_report, certified):
    assert heart_report.certificate is None
    assert "How close" not in heart_report.to_markdown() + heart_report.to_html()
    summary = certified[1]
    assert json.loads(summary.to_json())["title"] == summary.title


def test_notes_of_a_certificate_are_escaped(certified):
    summary = certified[1]
    attacked = replace(summary, certificate=replace(summary.certificate, notes=(EVIL,)))
    assert (
        page_of(attacked).tags == page_of(replace(summary, certificate=replace(summary.certificate, notes=("x",)))).tags
    )
    assert not re.search(r"(?<!\\)<", attacked.to_markdown())


def test_costs_that_are_shared_are_told():
    thyroid = load_thyroid(tests="single")
    model = AnytimeRegressor(thyroid.feature_groups, alpha=1e-2).fit(thyroid.data, thyroid.target.astype(float))
    summary = make_report(model, unit="dollars")
    text = summary.to_markdown()
    assert "blood draw (2.1 dollars) is paid once, by the first of TSH, T3, TT4 and T4U" in text
    assert "FTI requires TT4 and T4U." in text
    assert summary.sequence[-1].cumulative_cost == pytest.approx(69.81)
    assert json.loads(summary.to_json())["title"] == summary.title
    assert (
        "is paid once"
        not in make_report(AnytimeRegressor().fit(thyroid.data, thyroid.target.astype(float))).to_markdown()
    )
