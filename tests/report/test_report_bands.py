"""What a report says of how sure it is: intervals as counted slowly on the folds, and bands as of the model."""

import re

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import KFold

from budgetline import (
    AnytimeClassifier,
    AnytimeClassifierCV,
    AnytimeRegressor,
    AnytimeRegressorCV,
    budget_curve,
    load,
    make_report,
    save,
    timeliness,
)
from budgetline.explore.results import usual_errors
from budgetline.glm.families import ConvexLoss
from budgetline.report.builders import effects_record
from budgetline.report.effect_records import effect_records, with_rugs


def table(n=120):
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.standard_normal((n, 3)), rng.integers(0, 3, n)])
    return X, X @ [2, 1, 0.5, 1] + rng.standard_normal(n)


def test_intervals_are_those_of_the_errors_on_folds():
    X, y = table()
    model = AnytimeRegressor(costs=[1, 2, 3, 4]).fit(X, y)
    report, folds = make_report(model, X, y, baselines=False), list(KFold(5, shuffle=True, random_state=0).split(X))
    for each in report.intervals.stages:
        budget, errors = model.sequence_.cumulative_costs[: each.stage].max(initial=0.0), np.empty(len(y))
        for train, test in folds:
            fitted = clone(model).fit(X[train], y[train])
            errors[test] = y[test] - fitted.predict(X[test], budget=budget)
        inside = np.empty(len(y), dtype=bool)
        for train, test in folds:
            ascending = np.sort(errors[train])
            ends = np.interp(np.array([0.05, 0.95]) * (len(train) + 1), np.arange(1, len(train) + 1), ascending)
            inside[test] = (ends[0] <= errors[test]) & (errors[test] <= ends[1])
        whole = np.interp(np.array([0.05, 0.95]) * (len(y) + 1), np.arange(1, len(y) + 1), np.sort(errors))
        np.testing.assert_allclose([each.lower, each.upper], whole, atol=1e-9)
        assert each.covered == pytest.approx(inside.mean())
    assert [each.stage for each in report.intervals.stages] == [0, 1, 2, 3, 4]
    assert "How far off are predictions?" in report.to_markdown()
    assert 'id="interval"' in report.to_html()


def test_classes_weights_and_several_targets_have_no_intervals():
    X, y = table()
    for model, target, weight in (
        (AnytimeClassifier(), y > 0, None),
        (AnytimeRegressor(), np.column_stack([y, -y]), None),
        (AnytimeRegressor(), y, np.arange(len(y)) % 2 + 1.0),
    ):
        report = make_report(model.fit(X, target), X, target, baselines=False, sample_weight=weight, cv=3)
        assert report.intervals is None
        assert ("not measured, because the rows have weights" in report.to_markdown()) == (weight is not None)


def test_bands_are_in_the_pictures_and_in_the_table():
    X, y = table()
    model = AnytimeRegressor().fit(X, y)
    report = make_report(model, X, y, baselines=False, cv=3)
    assert "pointwise 90 % bands" in report.to_markdown()
    for effect in report.effects:
        whole = model.effects()[effect.name]
        assert max(effect.margins) == pytest.approx(whole.margins().max(), rel=1e-3) or effect.name == "3"
        assert ('class="band"' in effect.picture) == bool(effect.axes[0].numbers)
        assert ('class="margin"' in effect.picture) == (not effect.axes[0].numbers)
    assert effects_record(model.model_)["bands"]
    own = AnytimeRegressor(loss=ConvexLoss(lambda s: s**2 / 2, lambda s: s)).fit(X, y)
    report = make_report(own, X, y, baselines=False, cv=3)
    assert "There are no bands" in report.to_markdown()
    assert not re.search('class="(margin|band)"', "".join(effect.picture for effect in report.effects))
    assert not effects_record(own.model_)["bands"]


def test_the_margins_of_bars_are_those_of_their_line():
    X, y = table()
    model = AnytimeRegressor().fit(X, y)
    (bars,) = (effect for effect in with_rugs(effect_records(model.model_)[0], model, X) if effect.name == "3")
    far = np.array(bars.axes[0].spikes) - X[:, 3].mean()
    np.testing.assert_allclose(bars.values, model.coef_[3] * far, rtol=2e-3)
    margin = model.coef_errors()[3] * model.effects()["3"].margins().max() / model.effects()["3"].errors.max()
    np.testing.assert_allclose(bars.margins, margin * np.abs(far), rtol=2e-3)


def test_usual_errors_are_those_of_a_row_of_mean_prediction():
    X, y = table()
    model = AnytimeRegressorCV(costs=[1, 2, 3, 4]).fit(X, y)
    found = usual_errors(model.model_)
    middle = X.mean(axis=0)[None]
    for stage in (1, 4):
        lower, upper = model.predict_interval(middle, 0.9, stage=stage)
        predicted = model.predict(middle, stage=stage)
        np.testing.assert_allclose(found[stage], [lower[0] - predicted[0], upper[0] - predicted[0]], atol=1e-9)
    assert usual_errors(AnytimeRegressor().fit(X, y).model_) is None


def needs_calibration():
    """Return a calibrated model and its data: a linear score of few flags, and an interaction."""
    X, _ = table(400)
    X[:, :3] = X[:, :3] > 0
    y = np.random.default_rng(1).random(400) < np.where(X[:, 0] * X[:, 1] > 0, 0.95, 0.05 + 0.1 * X[:, 2])
    model = AnytimeClassifierCV(costs=[1, 2, 3, 4], alphas=[1e-2], corrections=[0.0], cv=5).fit(X, y)
    assert model.model_.calibration is not None
    return model, X, y


def test_held_out_losses_are_those_of_calibrated_probabilities():
    model, X, y = needs_calibration()
    every = np.arange(400)
    for metric in ("log_loss", "explained"):
        report = make_report(model, X, y, metric=metric, cv=[(every, every), (every, every)])
        np.testing.assert_allclose(report.main_curve.values, report.training_curve.values)  # the folds have all rows
        plain = budget_curve(model.chosen().fit(X, y), X, y, metric=metric)
        total = model.sequence_.costs.sum()
        assert report.comparison.methods[0].timeliness == pytest.approx(timeliness(plain, total))
        assert report.comparison.methods[0].timeliness != pytest.approx(
            timeliness(budget_curve(model, X, y, metric=metric), total)
        )
    assert report.main_curve.label.endswith("calibrated like the whole model")


def test_folds_that_agree_are_those_of_the_model(tmp_path):
    model, X, y = needs_calibration()
    save(model, tmp_path / "model")
    for report in (make_report(model, X, y, baselines=False, cv=3), make_report(load(tmp_path / "model"))):
        assert [step.agreement for step in report.sequence] == model.folds_that_agree_.tolist()
        assert {step.folds for step in report.sequence} == {5}
        assert "5 of 5" in report.to_markdown()
    columns = load(tmp_path / "model").sequence_.to_dict()
    assert columns["folds_that_agree"] == model.folds_that_agree_.tolist()
    assert "of 5 folds" in str(model.sequence_)
    assert "of 5 folds" in model.sequence_.to_html()
    plan = model.plan(3)
    save(plan, tmp_path / "plan")
    assert "folds_that_agree" not in load(tmp_path / "plan").sequence_.to_dict()


def test_measured_coverage_is_that_of_errors_by_size():
    rng = np.random.default_rng(0)
    x = rng.uniform(1, 10, 1500)
    y = x * (1 + rng.normal(size=1500) / 4)
    model = AnytimeRegressorCV(alphas=[1e-4], corrections=[0.0]).fit(x[:, None], y)
    assert model.model_.errors.scales.shape[2] > 1
    found = make_report(model, x[:, None], y, baselines=False).intervals.stages[1]
    usual = usual_errors(model.model_)[1]
    np.testing.assert_allclose([found.lower, found.upper], usual, rtol=0.1)
    errors = y - model.predict(x[:, None])
    assert np.mean((errors > found.lower) & (errors < found.upper)) < 0.895  # of one width for all
    assert 0.88 < found.covered < 0.92


def test_thresholds_are_about_calibrated_probabilities():
    model, X, y = needs_calibration()
    found = make_report(model, X, y, baselines=False, cv=[(np.arange(400), np.arange(400))]).probabilities
    for each in found.stages:  # the fold has all rows, so its model is the whole one
        p = model.predict_proba(X, stage=each.stage)[:, 1]
        bins = np.searchsorted(found.thresholds, p, side="right")
        np.testing.assert_array_equal(each.second, np.bincount(bins[y], minlength=len(found.thresholds) + 1))
        np.testing.assert_array_equal(each.first, np.bincount(bins[~y], minlength=len(found.thresholds) + 1))
