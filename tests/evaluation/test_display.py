"""What is drawn is what the curves say."""

import sys

import matplotlib.pyplot as plt
import numpy as np
import pytest

from budgetline import (
    AnytimeClassifier,
    AnytimeRegressor,
    BudgetCurve,
    BudgetCurveDisplay,
    budget_curve,
    cross_val_budget_curve,
)


@pytest.fixture(autouse=True)
def closed():
    yield
    plt.close("all")


@pytest.fixture(scope="module")
def fitted():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((120, 5))
    y = X @ [3, 2, 1, 0.5, 0] + rng.standard_normal(120)
    costs = [4.0, 1.0, 2.0, 0.5, 3.0]
    models = {rule: AnytimeRegressor(costs=costs, rule=rule).fit(X[:60], y[:60]) for rule in ("forward", "static")}
    return models, X[60:], y[60:]


def labels_of(ax):
    return [text.get_text() for text in ax.get_legend().get_texts()]


def test_a_line_is_the_curve(fitted):
    models, X, y = fitted
    display = BudgetCurveDisplay.from_estimator(models["forward"], X, y, metric="mse")
    curve = budget_curve(models["forward"], X, y, metric="mse")
    (line,) = display.lines_
    np.testing.assert_array_equal(line.get_xdata()[: len(curve)], curve.costs)
    np.testing.assert_array_equal(line.get_ydata()[: len(curve)], curve.values)
    assert line.get_drawstyle() == "steps-post"
    assert (display.ax_.get_xlabel(), display.ax_.get_ylabel()) == ("cost", "mean squared error")
    assert labels_of(display.ax_) == ["AnytimeRegressor"]
    assert display.figure_ is display.ax_.figure
    assert display.bands_ == []
    assert display.plot(drawstyle="default").lines_[0].get_drawstyle() == "default"


def test_several_models_on_one_axis(fitted):
    models, X, y = fitted
    together = BudgetCurveDisplay.from_estimator(models, X, y)
    assert labels_of(together.ax_) == ["forward", "static"]
    first = BudgetCurveDisplay.from_estimator(models["forward"], X, y, name="forward")
    second = BudgetCurveDisplay.from_estimator(models["static"], X, y, name="static", ax=first.ax_, color="red")
    assert second.ax_ is first.ax_
    assert second.lines_[0].get_color() == "red"
    assert labels_of(first.ax_) == ["forward", "static"]
    for one, other in zip(together.ax_.get_lines(), first.ax_.get_lines(), strict=True):
        np.testing.assert_array_equal(one.get_ydata(), other.get_ydata())


def test_axes_grow_with_a_longer_curve_and_start_at_zero():
    first = BudgetCurveDisplay(BudgetCurve([0, 5], [0, 1], label="short")).plot()
    BudgetCurveDisplay(BudgetCurve([0, 50], [0, 1], label="long")).plot(ax=first.ax_)
    left, right = first.ax_.get_xlim()
    assert left == 0
    assert right >= 50


def test_a_shorter_curve_keeps_its_last_value():
    curves = {"short": BudgetCurve([0, 1], [0, 0.5]), "long": BudgetCurve([0, 4], [0, 1])}
    short, _ = BudgetCurveDisplay(curves).plot().lines_
    assert short.get_xdata().tolist() == [0, 1, 4]
    assert short.get_ydata().tolist() == [0, 0.5, 0.5]


def test_bands_are_one_standard_error(fitted):
    _, X, y = fitted
    curve = cross_val_budget_curve(AnytimeRegressor(costs=[4, 1, 2, 0.5, 3]), X, y, cv=3)
    display = BudgetCurveDisplay({"cv": curve}).plot()
    (band,) = display.bands_
    corners = band.get_paths()[0].vertices
    for k in range(len(curve)):
        at = corners[np.isclose(corners[:, 0], curve.costs[k]), 1]
        for edge in (curve.values[k] - curve.errors[k], curve.values[k] + curve.errors[k]):
            assert np.isclose(at, edge).any()
    assert np.allclose(band.get_facecolor()[0][:3], plt.matplotlib.colors.to_rgb(display.lines_[0].get_color()))


def test_labels():
    curve = BudgetCurve([0, 1], [0, 1], "ndcg@5")
    display = BudgetCurveDisplay(curve).plot()
    assert display.ax_.get_ylabel() == "ndcg@5"
    assert display.ax_.get_legend() is None
    expected = {"explained": "explained fraction F/R(∅)", "r2": "R²", "roc_auc": "ROC AUC", "own": "own"}
    for metric, label in expected.items():
        assert BudgetCurveDisplay(BudgetCurve([0], [0], metric)).plot().ax_.get_ylabel() == label


def test_what_cannot_be_drawn_is_refused():
    with pytest.raises(ValueError, match="no curves"):
        BudgetCurveDisplay({})
    with pytest.raises(ValueError, match="cannot share an axis: mse, r2"):
        BudgetCurveDisplay({"a": BudgetCurve([0], [0], "r2"), "b": BudgetCurve([0], [0], "mse")})


def test_a_classifier(fitted):
    _, X, y = fitted
    model = AnytimeClassifier(alpha=0.1).fit(X, y > 0)
    display = BudgetCurveDisplay.from_estimator(model, X, y > 0, metric="roc_auc")
    assert display.lines_[0].get_ydata()[0] == 0.5


def test_without_matplotlib_the_extra_is_named(monkeypatch):
    for name in [n for n in sys.modules if n.split(".")[0] == "matplotlib"]:
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ImportError, match=r"\.\[plot\]"):
        BudgetCurveDisplay(BudgetCurve([0, 1], [0, 1])).plot()


def test_a_name_is_for_one_estimator():
    X = np.random.default_rng(0).normal(size=(20, 2))
    model = AnytimeRegressor().fit(X, X[:, 0])
    with pytest.raises(ValueError, match="a mapping has its own names"):
        BudgetCurveDisplay.from_estimator({"a": model}, X, X[:, 0], name="b")


# -- bounds --------------------------------------------------------------------------------------------------------


def test_a_bound_is_drawn_as_steps_with_the_region_above(fitted):
    models, _, _ = fitted
    certificate = models["forward"].certificate(time_limit=60)
    bound = certificate.curve()
    training = BudgetCurve.of(models["forward"])
    display = BudgetCurveDisplay(training).plot(bound=bound)
    np.testing.assert_array_equal(display.bound_.get_xdata()[:-1], bound.costs)
    np.testing.assert_array_equal(display.bound_.get_ydata()[:-1], bound.values)
    assert (display.bound_.get_drawstyle(), display.bound_.get_linestyle()) == ("steps-post", "--")
    assert labels_of(display.ax_) == ["training", "bound: no set of groups can be above"]
    assert len(display.lines_) == 1
    region = display.beyond_.get_paths()[0]
    bottom, top = display.ax_.get_ylim()
    assert top < 1.2  # the region does not move the axes
    total = training.total_cost
    for cost in np.linspace(0, total, 203)[1:-1]:
        found = certificate.at(cost)
        here = found.bound / certificate.null_value
        assert region.contains_point((cost, here + 1e-6))
        assert region.contains_point((cost, top))
        assert not region.contains_point((cost, here - 1e-6))
    assert not region.contains_point((total * 1.01, top))
    assert bottom < 0


@pytest.mark.parametrize(
    ("names", "label"),
    [
        (["training"], "bound: no set of groups can be above"),
        (["ours, training"], "bound: no set of groups can be above"),
        (["training", "held out"], "bound: no set of groups can be above (training data)"),
        (["ours"], "bound: no set of groups can be above (training data)"),
    ],
)
def test_the_label_says_which_data_a_bound_is_about(names, label):
    curve, bound = BudgetCurve([0, 1], [0, 0.5]), BudgetCurve([0, 1], [0.2, 0.6], label="bound")
    display = BudgetCurveDisplay(dict.fromkeys(names, curve)).plot(bound=bound)
    assert labels_of(display.ax_) == [*names, label]


def test_a_bound_beyond_the_curves(fitted):
    models, X, y = fitted
    bound = BudgetCurve([0, 5, 20], [0.2, 0.5, 0.9])
    display = BudgetCurveDisplay.from_estimator(models["forward"], X, y, bound=bound)
    assert display.lines_[0].get_xdata()[-1] == 20
    assert display.bound_.get_xdata()[-1] == 20
    display.figure_.canvas.draw()
    again = display.plot(ax=display.ax_)
    assert again.bound_ is None
    assert again.beyond_ is None


def test_bounds_on_other_metrics_are_refused(fitted):
    models, X, y = fitted
    bound = models["forward"].certificate(time_limit=0).curve()
    for metric in ("mse", "r2", "gain"):
        with pytest.raises(ValueError, match=f"a bound applies to metric 'explained', not to '{metric}'"):
            BudgetCurveDisplay.from_estimator(models["forward"], X, y, metric=metric, bound=bound)
    with pytest.raises(ValueError, match="not to 'r2'"):
        BudgetCurveDisplay(BudgetCurve([0], [0])).plot(bound=BudgetCurve([0], [0], "r2"))
    with pytest.raises(TypeError, match=r"bound must be a BudgetCurve, .* not Certificate"):
        BudgetCurveDisplay(BudgetCurve([0], [0])).plot(bound=models["forward"].certificate(time_limit=0))
    assert not plt.get_fignums()  # nothing is drawn before it is checked
