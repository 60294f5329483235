"""Displays hold what a slow count of the rows finds."""

import matplotlib.pyplot as plt
import numpy as np
import pytest
from sklearn.calibration import calibration_curve
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from budgetline import (
    AnytimeClassifier,
    AnytimeClassifierCV,
    AnytimeRegressor,
    AnytimeRegressorCV,
    CoverageDisplay,
    ReliabilityDisplay,
)
from budgetline.evaluation.reliability import wilson


@pytest.fixture(autouse=True)
def closed():
    yield
    plt.close("all")


def table(n=300):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, 4))
    return X, X @ [1, 0.5, 0.2, 0] + rng.standard_normal(n)


def test_bins_are_those_of_scikit_learn():
    rng = np.random.default_rng(1)
    p = rng.random(500)
    y = rng.random(500) < p**2
    (curve,) = ReliabilityDisplay.from_predictions(y, p, n_bins=10).curves.values()
    observed, predicted = calibration_curve(y, p, n_bins=10, strategy="quantile")
    np.testing.assert_allclose((curve.observed, curve.predicted), (observed, predicted))
    assert curve.rows.tolist() == [50] * 10
    assert curve.ece == pytest.approx(np.abs(observed - predicted).mean())


def test_weights_count_rows_and_equal_probabilities_share_a_bin():
    p = np.repeat([0.1, 0.1, 0.7, 0.9], 5)
    y = np.arange(20) % 3 == 0
    weight = np.arange(20) % 4 + 1.0
    weighted = ReliabilityDisplay.from_predictions(y, p, n_bins=4, sample_weight=weight).curves["predictions"]
    rows = np.repeat(np.arange(20), weight.astype(int))
    repeated = ReliabilityDisplay.from_predictions(y[rows], p[rows], n_bins=4).curves["predictions"]
    np.testing.assert_allclose(weighted.predicted, repeated.predicted)
    np.testing.assert_allclose(weighted.observed, repeated.observed)
    assert weighted.predicted.tolist() == pytest.approx([0.1, 0.7, 0.9])


def test_a_model_is_shown_at_budgets():
    X, y = table()
    model = make_pipeline(StandardScaler(), AnytimeClassifier(costs=[1, 2, 3, 4])).fit(X, y > 0)
    display = ReliabilityDisplay.from_estimator(model, X, y > 0, budgets=[0, 3, 100], n_bins=5)
    assert list(display.curves) == ["budget 0", "budget 3", "budget 100"]
    given = {
        name: model[-1].predict_proba(model[0].transform(X), budget=float(name[7:]))[:, 1] for name in display.curves
    }
    again = ReliabilityDisplay.from_predictions(y > 0, given, n_bins=5)
    for name, curve in display.curves.items():
        np.testing.assert_allclose(curve.observed, again.curves[name].observed)
    assert len(display.lines_) == 3
    assert display.plot(ax=display.ax_).figure_ is display.figure_
    assert list(ReliabilityDisplay.from_estimator(model, X, y > 0).curves) == ["budget 10"]


def test_one_class_of_several():
    X, y = table()
    target = np.array(["low", "middle", "high"])[np.digitize(y, [-0.5, 0.5])]
    model = AnytimeClassifier().fit(X, target)
    (curve,) = ReliabilityDisplay.from_estimator(model, X, target, pos_label="low", n_bins=4).curves.values()
    k = model.classes_.tolist().index("low")
    observed, _ = calibration_curve(target == "low", model.predict_proba(X)[:, k], n_bins=4, strategy="quantile")
    np.testing.assert_allclose(curve.observed, observed)
    with pytest.raises(ValueError, match="pos_label is needed: the classes are 'high', 'low'"):
        ReliabilityDisplay.from_estimator(model, X, target)
    with pytest.raises(ValueError, match="pos_label 'x' is not a class"):
        ReliabilityDisplay.from_estimator(model, X, target, pos_label="x")


def test_coverage_of_a_regression_and_of_classes():
    X, y = table()
    model = AnytimeRegressorCV(costs=[1, 2, 3, 4]).fit(X[:200], y[:200])
    display = CoverageDisplay.from_estimator(model, X[200:], y[200:], coverage=0.8)
    for stage, (covered, size) in enumerate(zip(display.covered, display.sizes, strict=True)):
        lower, upper = model.predict_interval(X[200:], 0.8, stage=stage)
        assert covered == pytest.approx(np.mean((lower <= y[200:]) & (y[200:] <= upper)))
        assert size == pytest.approx(np.mean(upper - lower))
    assert display.costs.tolist() == [0, *model.sequence_.cumulative_costs]
    np.testing.assert_array_equal(display.line_.get_ydata(), display.covered)
    target = np.digitize(y, [-0.5, 0.5])
    classifier = AnytimeClassifierCV(cv=3).fit(X[:200], target[:200])
    weight = np.arange(100) % 3 + 1.0
    display = CoverageDisplay.from_estimator(classifier, X[200:], target[200:], sample_weight=weight)
    for stage, (covered, size) in enumerate(zip(display.covered, display.sizes, strict=True)):
        sets = classifier.predict_set(X[200:], stage=stage)
        assert covered == pytest.approx(np.average(sets[np.arange(100), target[200:]], weights=weight))
        assert size == pytest.approx(np.average(sets.sum(axis=1), weights=weight))


def test_errors_say_what_to_do():
    X, y = table()
    regressor = AnytimeRegressor().fit(X, y)
    with pytest.raises(TypeError, match="CoverageDisplay is for regression"):
        ReliabilityDisplay.from_estimator(regressor, X, y)
    with pytest.raises(ValueError, match="fit AnytimeRegressorCV"):
        CoverageDisplay.from_estimator(regressor, X, y)
    with pytest.raises(ValueError, match="one number between 0 and 1 for each of the 2 rows"):
        ReliabilityDisplay.from_predictions([0, 1], [0.2, 1.2])
    with pytest.raises(ValueError, match="there are 1 predictions and 2 costs"):
        CoverageDisplay.from_predictions([1.0], [([0.0], [2.0])], [0.0, 1.0])
    for given in ({"pos_label": "z"}, {"pos_label": 2}):
        with pytest.raises(ValueError, match=r"is not a class: the classes are '0', '1'"):
            ReliabilityDisplay.from_predictions([0, 1], [0.2, 0.8], **given)
    with pytest.raises(ValueError, match=r"predictions have shape \(300,\), but the targets need \(300, 1\)"):
        CoverageDisplay.from_estimator(AnytimeRegressorCV().fit(X, y), X, y[:, None])
    with pytest.raises(ValueError, match="y_true holds 'c', but the classes are 'a', 'b'"):
        CoverageDisplay.from_predictions(["a", "c"], [np.ones((2, 2))], [0.0], classes=["a", "b"])
    with pytest.raises(ValueError, match="no curves"):
        ReliabilityDisplay({})


def test_whiskers_are_wilsons_intervals_of_one_standard_error():
    share, n = np.array([0.0, 0.2, 1.0]), np.array([5.0, 50, 8])
    lower, upper = wilson(share, n)
    for end, rows in ((lower, [1, 2]), (upper, [0, 1])):  # a share is one standard error of the end away from it
        p = end[rows]
        np.testing.assert_allclose(np.abs(p - share[rows]), np.sqrt(p * (1 - p) / n[rows]))
    assert lower[0] == pytest.approx(0, abs=1e-12)
    assert upper[2] == pytest.approx(1)
    assert upper[0] > 0.1
    display = ReliabilityDisplay.from_predictions([0, 0, 0, 1, 1, 1], [0.1, 0.1, 0.1, 0.8, 0.8, 0.8], n_bins=2)
    assert (np.diff(display.curves["predictions"].bounds, axis=0) > 0.2).all()


def test_rows_of_one_class_have_a_diagram():
    X, y = table()
    model = AnytimeClassifier().fit(X, y > 0)
    for label, share in ((None, 0.0), (False, 1.0)):
        (curve,) = ReliabilityDisplay.from_estimator(model, X[y < 0], y[y < 0] > 0, pos_label=label).curves.values()
        assert (curve.observed == share).all()
