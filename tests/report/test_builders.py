"""Results of a model: report, command line and explore take the same figures from the same builders."""

import numpy as np
import pytest

from budgetline import (
    AnytimeClassifier,
    AnytimeRegressor,
    FeatureGroups,
    budget_curve,
    cross_val_budget_curve,
    make_report,
)
from budgetline.datasets import load_heart
from budgetline.optimality.next_groups import next_groups
from budgetline.report.builders import (
    costs_differ,
    describe,
    effects_record,
    left_out,
    method_record,
    model_record,
    next_record,
    plan_record,
    prefix_record,
)


@pytest.fixture(scope="module", params=[AnytimeClassifier, AnytimeRegressor])
def fitted(request):
    heart = load_heart()
    model = request.param(heart.feature_groups, alpha=0.1).fit(heart.data, heart.target)
    return model, heart.data, heart.target


def test_explained_is_what_a_curve_says(fitted):
    model, X, y = fitted
    truth = budget_curve(model, X, y).values
    assert np.abs(truth[1:] - model.sequence_.explained).max() > 1e-3  # which subtracts the penalty
    report, record = make_report(model), model_record(model.model_)
    np.testing.assert_allclose([step.explained for step in report.sequence], truth[1:], rtol=1e-9)
    np.testing.assert_allclose(record["sequence"]["explained"], truth[1:], rtol=1e-9)
    total = float(model.sequence_.costs.sum())
    everything = plan_record(model.plan(total), model.model_, total)
    assert set(everything["groups"]) == set(model.sequence_.groups)
    assert everything["explained"] == pytest.approx(truth[-1], rel=1e-6)
    assert everything["order_explained"] == pytest.approx(truth[-1], rel=1e-9)
    assert record["total_cost"] == report.total_cost


def test_a_budget_buys_the_same_everywhere(fitted):
    model, X, y = fitted
    judged = cross_val_budget_curve(model, X, y, cv=3)
    report = describe(model.model_, budget_curve(model, X, y), judged, unit="dollars")
    for budget in (0, 3, 100, 1e6):
        bought = prefix_record(report, budget)
        stage = model.sequence_.stage_at(budget)
        assert bought["groups"] == model.sequence_.groups[:stage]
        assert bought["cost"] == pytest.approx(model.sequence_.costs[:stage].sum())
        assert bought["value"] == pytest.approx(judged.at(budget))
        effects = effects_record(model.model_, budget)
        assert effects["stage"] == stage
        assert {each["group"] for each in effects["effects"]} == set(bought["groups"])
    captions = [each["caption"] for each in effects["effects"]]
    assert captions == [each.caption for each in make_report(model).effects]


def test_what_comes_next(fitted):
    model = fitted[0].model_
    record = next_record(model, next_groups(model, ["age", "cp"]))
    assert record["available"] == ("age", "cp")
    assert record["cost"] == pytest.approx(2.0)
    assert set(record["next"]["group"]) == set(model.sequence.groups) - {"age", "cp"}
    assert left_out(model) == record["not_ranked"] == ()


def test_a_method_is_judged_up_to_the_same_cost_on_all_folds(fitted):
    model, X, y = fitted
    folds = cross_val_budget_curve(model, X, y, cv=3).folds
    found = method_record("m", "as it is", folds, 50.0, (10.0, 50.0))
    grid = (np.arange(100_000) + 0.5) / 2000  # from 0 to 50
    means = [fold.at(grid).mean() for fold in folds]
    assert found.timeliness == pytest.approx(np.mean(means), abs=1e-4)
    assert found.timeliness_error == pytest.approx(np.std(means, ddof=1) / np.sqrt(3), abs=1e-4)
    at = np.array([[fold.at(10.0), fold.at(50.0)] for fold in folds])
    np.testing.assert_allclose(found.values, at.mean(axis=0))
    np.testing.assert_allclose(found.errors, at.std(axis=0, ddof=1) / np.sqrt(3))
    alone = method_record("m", "", folds[:1], 50.0, (10.0,))
    assert (alone.timeliness_error, alone.errors) == (None, (None,))


def test_pairs_which_are_free_make_no_difference_of_costs():
    equal = FeatureGroups({"a": [0], "b": [1]}, [2, 2])
    assert not costs_differ(equal.with_free({"a × b": ["a", "b"]}))
    assert costs_differ(equal.with_costs([2, 0]))
    assert costs_differ(FeatureGroups({"a": [0], "b": [1]}, [2, 2], shared={"visit": (1, ["a", "b"])}))
