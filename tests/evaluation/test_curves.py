"""Curves, timeliness and stopping costs, against areas computed by hand and by brute force."""

import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from budgetline import (
    AnytimeClassifier,
    AnytimeRegressor,
    BudgetCurve,
    budget_curve,
    cross_val_budget_curve,
    stopping_cost,
    timeliness,
)
from budgetline.baselines import GroupLassoPath
from budgetline.budgets import affordable
from budgetline.evaluation.budget_curves import training_curve

GROUPS = {"a": [0, 1], "b": [2], "c": [3, 4, 5], "d": [6]}
COSTS = {"a": 1.0, "b": 2.5, "c": 4.0, "d": 0.5}


def problem(seed=0, n=80, D=7):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, D)) @ rng.standard_normal((D, D)) + rng.standard_normal(D)
    return X, X @ rng.standard_normal(D) + 2 * rng.standard_normal(n) + 5


@st.composite
def curves(draw, *, distinct=False, n_max=6):
    """Curves whose costs and values are quarters and eighths, so that sums are exact; steps may be free."""
    widths = draw(st.lists(st.integers(1 if distinct else 0, 12), min_size=0, max_size=n_max))
    values = draw(st.lists(st.integers(-16, 16), min_size=len(widths) + 1, max_size=len(widths) + 1))
    return BudgetCurve(np.cumsum([0, *widths]) / 4, np.array(values) / 8)


budgets = st.integers(0, 500).map(lambda b: b / 16)


# ---- the record and the curve of a model


def test_a_curve_starts_with_the_intercept_at_no_cost():
    X, y = problem()
    model = AnytimeRegressor(GROUPS, COSTS).fit(X[:40], y[:40])
    curve = budget_curve(model, X[40:], y[40:], metric="mse")
    assert curve.costs[0] == 0
    assert curve.values[0] == pytest.approx(np.mean((y[40:] - y[:40].mean()) ** 2), rel=1e-12)
    assert curve.groups == ("", *model.sequence_.groups)
    assert len(curve) == 5
    assert np.all(np.diff(curve.costs) > 0)
    assert curve.total_cost == 8.0


TRAINED = {
    "numbers": (AnytimeRegressor(GROUPS, COSTS, alpha=0.1), False),
    "rough": (AnytimeRegressor(GROUPS, COSTS, alpha=0.1, rule="omp", correction=1.0), False),
    "curves": (AnytimeRegressor(encoding="spline", alpha=0.05), False),
    "counts": (AnytimeRegressor(encoding="spline", loss="poisson", alpha=0.05), False),
    "two classes": (AnytimeClassifier(GROUPS, COSTS, alpha=0.05), True),
    "classes by score": (AnytimeClassifier(encoding="spline", rule="score", alpha=0.05), True),
    "group lasso": (GroupLassoPath(GROUPS, COSTS, alpha=0.1), False),
}


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("name", TRAINED)
def test_the_training_curve_needs_no_rows(name, weighted):
    """Explained has one meaning: what fit prints differs from a curve on the same rows by the ridge penalty."""
    model, classes = TRAINED[name]
    X, y = problem(n=150)
    y = y > np.median(y) if classes else np.round(np.abs(y))
    weight = np.random.default_rng(1).integers(1, 4, 150) if weighted else None
    given = {} if weight is None else {"sample_weight": weight}
    model = clone(model).fit(X, y, **given)
    truth = budget_curve(model, X, y, sample_weight=weight)
    found = training_curve(model.model_)
    np.testing.assert_allclose(found.values, truth.values, rtol=1e-7, atol=1e-9)
    np.testing.assert_array_equal(found.costs, truth.costs)
    assert np.all(truth.values[1:] > model.sequence_.explained)


def test_free_groups_at_the_start_share_cost_zero():
    X, y = problem()
    model = AnytimeRegressor(GROUPS, {**COSTS, "b": 0, "d": 0}).fit(X, y)
    curve = budget_curve(model, X, y)
    assert curve.costs.tolist() == [0, 0, 0, *np.cumsum(model.sequence_.costs[2:])]
    assert curve.values[0] == 0
    # a budget of nothing buys all that is free, as predict(budget=0) does
    errors = [np.mean((y - model.predict(X, stage=j)) ** 2) for j in (0, 2)]
    assert np.array_equal(model.predict(X, budget=0), model.predict(X, stage=2))
    assert curve.at(0) == pytest.approx(1 - errors[1] / errors[0], rel=1e-10)
    # an area with no width: the free groups' value is v(0)
    assert timeliness(curve, 0, interpolation="linear") == curve.at(0)


def test_a_free_group_may_come_late_when_costs_are_ignored():
    rng = np.random.default_rng(3)
    X = rng.standard_normal((200, 2))
    y = 3 * X[:, 0] + X[:, 1]
    model = AnytimeRegressor([[0], [1]], [2.0, 0.0], cost_sensitive=False).fit(X, y)
    curve = budget_curve(model, X, y)
    assert curve.costs.tolist() == [0, 2, 2]
    assert curve.at(2) == curve.values[2]
    assert curve.at(1.999) == 0
    # the straight line arrives at the value before the free group: ½·2·v₁/2
    assert timeliness(curve, interpolation="linear") == pytest.approx(curve.values[1] / 2, rel=1e-12)
    assert timeliness(curve, 4, interpolation="linear") == pytest.approx(
        (curve.values[1] + 2 * curve.values[2]) / 4, rel=1e-12
    )


def test_one_group_and_truncated_sequences():
    X, y = problem()
    one = budget_curve(AnytimeRegressor([list(range(7))], [3.0]).fit(X, y), X, y, metric="r2")
    assert one.costs.tolist() == [0, 3]
    assert timeliness(one, interpolation="linear") == pytest.approx(one.values[1] / 2)
    few = AnytimeRegressor(GROUPS, COSTS, max_groups=2).fit(X, y)
    assert len(budget_curve(few, X, y)) == 3
    cheap = AnytimeRegressor(GROUPS, COSTS, max_cost=3.6).fit(X, y)
    curve = budget_curve(cheap, X, y)
    assert curve.total_cost <= 3.6
    assert curve.at(1e9) == curve.values[-1]
    assert curve.at(np.inf, interpolation="linear") == curve.values[-1]


def test_steps_and_straight_lines():
    curve = BudgetCurve([0, 1, 4], [0.0, 0.5, 1.0])
    assert curve.at([0, 0.5, 1, 3.99, 4, 5]).tolist() == [0, 0, 0.5, 0.5, 1, 1]
    assert curve.at([0, 0.5, 1, 2.5, 4, 5], interpolation="linear").tolist() == [0, 0.25, 0.5, 0.75, 1, 1]
    assert curve.at(np.int64(1)) == curve.at(1) == curve.at(np.float32(1)) == 0.5
    assert curve.at([[0, 4]]).tolist() == [[0, 1]]
    assert BudgetCurve([0, 0.1, 0.1 + 0.2], [0, 1, 2]).at(0.3) == 2


@given(curves(), budgets)
def test_a_step_reading_is_the_last_affordable_point(curve, budget):
    affordable = [v for c, v in zip(curve.costs, curve.values, strict=True) if c <= budget]
    assert curve.at(budget) == affordable[-1]


@given(curves(distinct=True), budgets)
def test_a_linear_reading_is_interpolation(curve, budget):
    assert curve.at(budget, interpolation="linear") == pytest.approx(
        np.interp(budget, curve.costs, curve.values), abs=1e-12
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([], []), "equal length"),
        (([0, 1], [0.0]), "equal length"),
        (([[0, 1]], [[0, 1]]), "equal length"),
        (([1, 2], [0.0, 1.0]), "start at cost 0"),
        (([0, 2, 1], [0.0, 1.0, 2.0]), "not decrease"),
        (([0, np.nan], [0.0, 1.0]), "finite"),
        (([0, np.inf], [0.0, 1.0]), "finite"),
        (([0, 1], [0.0, 1.0], "mse", False, ("a",)), "groups must have one entry per point"),
        (([0, 1], [0.0, 1.0], "mse", False, (), "", (), np.ones(3)), "errors must have one entry per point"),
    ],
)
def test_impossible_curves_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        BudgetCurve(*arguments)


@pytest.mark.parametrize("budget", [-1, np.nan, [1, -2], "much"])
def test_impossible_budgets_are_refused(budget):
    with pytest.raises(ValueError, match=r"budgets must be|could not convert"):
        BudgetCurve([0, 1], [0, 1]).at(budget)


def test_an_unknown_reading_is_refused():
    curve = BudgetCurve([0, 1], [0, 1])
    for call in (lambda: curve.at(1, interpolation="spline"), lambda: timeliness(curve, interpolation="spline")):
        with pytest.raises(ValueError, match="'step' or 'linear'"):
            call()


def test_tables_and_text():
    curve = BudgetCurve([0, 1, 4], [3.0, 2.0, 1.0], "mse", False, ("", "a", "b"))
    assert curve.to_dict() == {"group": ["", "a", "b"], "cost": [0, 1, 4], "mse": [3, 2, 1]}
    for backend in ("pandas", "polars"):
        assert list(curve.to_frame(backend).columns) == ["group", "cost", "mse"]
    assert "3 points" in repr(curve)
    both = BudgetCurve.mean([curve, curve])
    assert both.to_frame()["standard_error"].tolist() == [0, 0, 0]


def test_a_curve_of_anything_else_is_refused():
    X, y = problem()
    for source in (3, None, AnytimeRegressor(), AnytimeRegressor, [0, 1], X):
        with pytest.raises(TypeError, match="a BudgetCurve, a GroupSequence or a fitted model"):
            BudgetCurve.of(source)
    model = AnytimeRegressor(GROUPS, COSTS).fit(X, y)
    assert BudgetCurve.of(model).values.tolist() == [0, *model.sequence_.explained]
    assert BudgetCurve.of(model.sequence_).costs.tolist() == [0, *model.sequence_.cumulative_costs]


def test_the_training_curve_is_found_inside_pipelines_and_searches():
    X, y = problem()
    direct = AnytimeRegressor(GROUPS, COSTS).fit(X, y)
    pipe = make_pipeline(StandardScaler(), AnytimeRegressor(GROUPS, COSTS)).fit(X, y)
    search = GridSearchCV(AnytimeRegressor(GROUPS, COSTS), {"alpha": [1e-5]}).fit(X, y)
    for model in (pipe, search):
        assert timeliness(model, interpolation="linear") == pytest.approx(
            timeliness(direct, interpolation="linear"), rel=1e-9
        )
        assert stopping_cost(model, 0.9) == stopping_cost(direct, 0.9)


# ---- means over folds


@given(st.lists(curves(), min_size=1, max_size=4), st.lists(budgets, min_size=1, max_size=6))
def test_the_mean_of_steps_is_exact_at_every_budget(folds, where):
    mean = BudgetCurve.mean(folds)
    np.testing.assert_allclose(mean.at(where), np.mean([c.at(where) for c in folds], axis=0), atol=1e-14)
    assert mean.values[0] == pytest.approx(np.mean([c.values[0] for c in folds]), abs=1e-14)
    assert mean.folds == tuple(folds)


@given(st.lists(curves(distinct=True), min_size=1, max_size=4), st.lists(budgets, min_size=1, max_size=6))
def test_the_mean_of_straight_lines_is_exact_at_every_budget(folds, where):
    mean = BudgetCurve.mean(folds)
    expected = np.mean([c.at(where, interpolation="linear") for c in folds], axis=0)
    np.testing.assert_allclose(mean.at(where, interpolation="linear"), expected, atol=1e-12)


@given(st.lists(curves(), min_size=1, max_size=4))
def test_the_step_timeliness_of_a_mean_is_the_mean_timeliness(folds):
    end = max(c.total_cost for c in folds) + 1
    expected = np.mean([timeliness(c, end, interpolation="step") for c in folds])
    assert timeliness(BudgetCurve.mean(folds), end, interpolation="step") == pytest.approx(expected, abs=1e-12)


def test_free_groups_in_some_folds_only():
    free = BudgetCurve([0, 0, 2], [0.0, 0.4, 1.0])
    paid = BudgetCurve([0, 1], [0.2, 0.6])
    mean = BudgetCurve.mean([free, paid])
    assert mean.costs.tolist() == [0, 0, 1, 2]
    np.testing.assert_allclose(mean.values, [0.1, 0.3, 0.5, 0.8])
    # standard error of two numbers: half their difference
    np.testing.assert_allclose(mean.errors, [0.1, 0.1, 0.1, 0.2])


def test_every_free_group_has_a_point_in_the_mean():
    first = BudgetCurve([0, 0, 0, 2, 2], [0.0, 0.4, 0.6, 0.7, 1.0])
    second = BudgetCurve([0, 0, 0, 1], [0.2, 0.6, 0.8, 0.9])
    mean = BudgetCurve.mean([first, second])
    assert mean.costs.tolist() == [0, 0, 0, 1, 2, 2]
    np.testing.assert_allclose(mean.values, [0.1, 0.5, 0.7, 0.75, 0.8, 0.95])
    assert mean.at(0) == pytest.approx(0.7)
    assert mean.at(1, interpolation="linear") == pytest.approx((0.65 + 0.9) / 2)


def test_costs_that_differ_by_rounding_are_one_cost_of_the_mean():
    # one fold buys 0.1 + 0.2, the other 0.3; then a cost of 1 that is lost, or nearly, next to 1e13
    near = 0.1 + 0.2
    mean = BudgetCurve.mean([BudgetCurve([0, near], [0, 1]), BudgetCurve([0, 0.3], [0, 3])])
    assert mean.costs.tolist() == [0, near]
    assert mean.values.tolist() == [0, 2]
    for large in (1e13, 1e17):
        curve = BudgetCurve([0, large, large + 1], [0, 1, 2])
        mean = BudgetCurve.mean([curve, curve])
        assert mean.costs.tolist() == curve.costs.tolist()
        assert mean.values.tolist() == [0, 1, 2]


@given(st.lists(curves(), min_size=1, max_size=4))
def test_the_last_point_at_a_cost_is_what_the_cost_buys(folds):
    mean = BudgetCurve.mean(folds)
    assert np.all(np.diff(mean.costs) >= 0)
    last = affordable(mean.costs, mean.costs) - 1
    np.testing.assert_allclose(mean.values[last], mean.at(mean.costs), atol=1e-14)
    assert len(mean) <= sum(map(len, folds))


def test_standard_errors():
    values = np.array([[0, 1.0], [0, 3.0], [0, 8.0]])
    mean = BudgetCurve.mean([BudgetCurve([0, 1], v) for v in values])
    assert mean.errors[1] == pytest.approx(np.sqrt(((1 - 4) ** 2 + 1 + 16) / 2 / 3))
    assert BudgetCurve.mean([BudgetCurve([0, 1], [0, 1])]).errors is None
    with pytest.raises(ValueError, match="no curves"):
        BudgetCurve.mean([])
    with pytest.raises(ValueError, match="different metrics have no mean: explained, mse"):
        BudgetCurve.mean([BudgetCurve([0], [0]), BudgetCurve([0], [0], "mse")])


def test_cross_validated_curves_equal_a_loop():
    from sklearn.model_selection import KFold

    X, y = problem()
    weight = np.random.default_rng(0).uniform(0.5, 2, len(y))
    estimator = AnytimeRegressor(GROUPS, COSTS, alpha=0.1)
    found = cross_val_budget_curve(estimator, X, y, metric="r2", cv=4, sample_weight=weight)
    curves = []
    for train, test in KFold(4).split(X):
        model = AnytimeRegressor(GROUPS, COSTS, alpha=0.1).fit(X[train], y[train], sample_weight=weight[train])
        curves.append(budget_curve(model, X[test], y[test], metric="r2", sample_weight=weight[test]))
    for mine, truth in zip(found.folds, curves, strict=True):
        np.testing.assert_allclose(mine.values, truth.values, rtol=1e-10)
    table = [c.at(found.costs) for c in curves]
    np.testing.assert_allclose(found.values, np.mean(table, axis=0), rtol=1e-10)
    np.testing.assert_allclose(found.errors, np.std(table, axis=0, ddof=1) / 2, rtol=1e-9, atol=1e-15)
    assert not hasattr(estimator, "sequence_")


@pytest.mark.parametrize("cv", [None, 3, np.int64(3)])
def test_folds_keep_queries_together(cv):
    from budgetline.evaluation.resampling import Samples

    X, y = problem(n=60)
    qid = np.random.default_rng(1).permutation(np.repeat(np.arange(12), 5)).astype(str)
    splits = Samples(X, y, qid=qid).splits(cv, stratified=False)
    assert len(splits) == (5 if cv is None else 3)
    assert all(not set(qid[train]) & set(qid[test]) for train, test in splits)


# ---- timeliness, by hand


def test_areas_by_hand():
    # steps: 0 on [0, 2), 0.4 on [2, 5), 0.7 on [5, 10), 1 at 10: 3·0.4 + 5·0.7 = 4.7
    # lines: 2·0.2 + 3·0.55 + 5·0.85 = 0.4 + 1.65 + 4.25 = 6.3
    curve = BudgetCurve([0, 2, 5, 10], [0, 0.4, 0.7, 1.0])
    assert timeliness(curve, interpolation="step") == pytest.approx(0.47)
    assert timeliness(curve, interpolation="linear") == pytest.approx(0.63)
    # stop at 6, between groups. Steps: 1.2 + 0.7 = 1.9. Lines: 2.05 + the trapezium from 0.7 to 0.76: 0.73
    assert timeliness(curve, 6, interpolation="step") == pytest.approx(1.9 / 6)
    assert timeliness(curve, 6, interpolation="linear") == pytest.approx(2.78 / 6)
    # stop inside the first group: nothing is bought; the line has reached 0.2, its triangle is 0.1
    assert timeliness(curve, 1, interpolation="step") == 0
    assert timeliness(curve, 1, interpolation="linear") == pytest.approx(0.1)
    # stop beyond the end: 10 more at 1
    assert timeliness(curve, 20, interpolation="step") == pytest.approx(14.7 / 20)
    assert timeliness(curve, 20, interpolation="linear") == pytest.approx(16.3 / 20)
    # exactly at a group
    assert timeliness(curve, 5, interpolation="linear") == pytest.approx(2.05 / 5)
    assert timeliness(curve, 5, interpolation="step") == pytest.approx(1.2 / 5)


def test_areas_with_free_steps_by_hand():
    # two free groups at 0 bring 0.5; a free one at 4 brings 0.9 → 1; lines: 4·0.7 + 2·1
    curve = BudgetCurve([0, 0, 0, 4, 4, 6], [0, 0.2, 0.5, 0.9, 1.0, 1.0])
    assert timeliness(curve, interpolation="linear") == pytest.approx(4.8 / 6)
    assert timeliness(curve, interpolation="step") == pytest.approx((4 * 0.5 + 2) / 6)
    assert timeliness(curve, 4, interpolation="linear") == pytest.approx(0.7)
    assert timeliness(curve, 0, interpolation="linear") == 0.5
    # everything is free
    assert timeliness(BudgetCurve([0, 0], [0, 0.8]), interpolation="linear") == 0.8
    assert timeliness(BudgetCurve([0, 0], [0, 0.8]), 3, interpolation="linear") == pytest.approx(0.8)


def test_less_is_better_by_hand():
    # an error that falls 8, 4, 2 at costs 0, 1, 3: lines 6 + 2·3 = 12, steps 8 + 2·4 = 16
    curve = BudgetCurve([0, 1, 3], [8, 4, 2], "mse", greater_is_better=False)
    assert timeliness(curve, interpolation="linear") == pytest.approx(4)
    assert timeliness(curve, interpolation="step") == pytest.approx(16 / 3)
    # improvements 0, 4, 6: two thirds at cost 1
    assert curve.improvement().tolist() == [0, 4, 6]
    assert stopping_cost(curve, 0.66) == 1
    assert stopping_cost(curve, 0.67) == 3


def test_alpha_timeliness():
    curve = BudgetCurve([0, 1, 4, 9], [0.0, 0.5, 0.9, 1.0])
    assert timeliness(curve, fraction=0, interpolation="linear") == 0
    assert timeliness(curve, fraction=1, interpolation="linear") == timeliness(curve, interpolation="linear")
    # α = 0.9 stops at cost 4: 0.25 + 3·0.7 = 2.35
    assert timeliness(curve, fraction=0.9, interpolation="linear") == pytest.approx(2.35 / 4)
    assert timeliness(curve, fraction=0.9, interpolation="linear") == timeliness(curve, 4, interpolation="linear")
    with pytest.raises(ValueError, match="at most one"):
        timeliness(curve, 3, fraction=0.5, interpolation="linear")


def test_timeliness_is_what_a_certificate_says_was_achieved():
    X, y = problem()
    model = AnytimeRegressor(GROUPS, {**COSTS, "d": 0.0}, alpha=0.1).fit(X, y)
    certificate = model.certificate(time_limit=0)
    assert timeliness(model) == pytest.approx(certificate.timeliness().achieved, rel=1e-12)
    assert timeliness(model, 3) == pytest.approx(certificate.timeliness(3).achieved, rel=1e-12)


def test_a_certificate_of_a_short_sequence_counts_the_cost_of_all_groups():
    X, y = problem()
    model = AnytimeRegressor(GROUPS, COSTS, alpha=0.1, max_groups=2).fit(X, y)
    certificate = model.certificate(time_limit=0)
    assert timeliness(model, certificate.total_cost) == pytest.approx(certificate.timeliness().achieved, rel=1e-12)


def test_large_values_before_free_groups_leave_no_trace():
    curve = BudgetCurve([0, 0, 1, 3], [1e20, 8.0, 4.0, 1.0], "mse", greater_is_better=False)
    assert timeliness(curve) == pytest.approx(16 / 3, rel=1e-14)
    assert timeliness(curve, interpolation="linear") == pytest.approx(11 / 3, rel=1e-14)


@pytest.mark.parametrize("stop", [-1, np.nan, np.inf, "x", True, [1]])
def test_impossible_stops_are_refused(stop):
    with pytest.raises(ValueError, match="stop must be a finite cost"):
        timeliness(BudgetCurve([0, 1], [0, 1]), stop, interpolation="linear")


@given(curves(), budgets, st.sampled_from(["step", "linear"]), st.sampled_from([1e-6, 0.1, 3.0, 1e9]))
def test_timeliness_does_not_depend_on_the_unit_of_cost(curve, stop, interpolation, unit):
    scaled = BudgetCurve(curve.costs * unit, curve.values)
    expected = timeliness(curve, stop, interpolation=interpolation)
    assert timeliness(scaled, stop * unit, interpolation=interpolation) == pytest.approx(expected, abs=1e-9)
    assert stopping_cost(scaled, 0.7) == pytest.approx(unit * stopping_cost(curve, 0.7))


@given(curves(), st.lists(budgets, max_size=5), budgets)
def test_points_on_a_step_curve_change_nothing(curve, extra, stop):
    extra = sorted(extra)
    costs, values = np.concatenate([curve.costs, extra]), np.concatenate([curve.values, curve.at(extra)])
    order = np.argsort(costs, kind="stable")
    finer = BudgetCurve(costs[order], values[order])
    expected = timeliness(curve, stop, interpolation="step")
    assert timeliness(finer, stop, interpolation="step") == pytest.approx(expected, abs=1e-12)


@given(curves(), budgets.filter(bool), st.sampled_from(["step", "linear"]))
def test_timeliness_is_the_mean_of_readings(curve, stop, interpolation):
    """Midpoints of pieces as fine as the grid that costs and stops lie on: exact for both readings."""
    n = round(stop * 16)
    middles = (np.arange(n) + 0.5) / 16
    assert timeliness(curve, stop, interpolation=interpolation) == pytest.approx(
        np.mean([curve.at(b, interpolation=interpolation) for b in middles]), abs=1e-12
    )


# ---- stopping costs


def test_stopping_costs():
    curve = BudgetCurve([0, 1, 4, 9, 12], [0.0, 0.5, 0.9, 1.0, 1.0])
    expected = {0: 0, 1e-9: 1, 0.5: 1, 0.51: 4, 0.9: 4, 0.901: 9, 0.9999: 9, 1: 12}
    assert {alpha: stopping_cost(curve, alpha) for alpha in expected} == expected
    # relative to what the curve gains, not to its level
    assert stopping_cost(BudgetCurve([0, 1, 2], [10, 10.5, 11]), 0.5) == 1
    # 0.7·0.1 is more than 0.07 in floating point
    assert stopping_cost(BudgetCurve([0, 1, 2], [0, 0.07, 0.1]), 0.7) == 1
    for alpha in (np.float32(0.5), np.float64(0.5)):
        assert stopping_cost(curve, alpha) == 1
    for alpha in (-0.1, 1.1, np.nan, "plateau", None, True):
        with pytest.raises(ValueError, match="fraction must be a number ≥ 0 and ≤ 1"):
            stopping_cost(curve, alpha)
    with pytest.raises(ValueError, match="not finite"):
        stopping_cost(BudgetCurve([0, 1], [0, np.nan]), 0.5)


def test_stopping_cost_of_a_sequence_a_model_and_a_curve_agree():
    X, y = problem()
    model = AnytimeRegressor(GROUPS, COSTS, rule="omp").fit(X, y)
    for alpha in np.linspace(0, 1, 21):
        first = next(
            (c for c, e in zip(model.sequence_.cumulative_costs, model.sequence_.explained, strict=True)
             if e >= alpha * model.sequence_.explained[-1] - 1e-13),
        ) if 0 < alpha < 1 else (0, model.sequence_.cumulative_costs[-1])[int(alpha)]  # fmt: skip
        found = {stopping_cost(s, alpha) for s in (model, model.sequence_, BudgetCurve.of(model))}
        assert found == {float(first)}


def test_test_rows_are_not_copied_before_a_fold_is_fitted():
    class Watched(AnytimeRegressor):
        def fit(self, X, y=None, sample_weight=None):
            held.append(tracemalloc.get_traced_memory()[0])
            return super().fit(X, y, sample_weight)

    held = []
    X = np.random.default_rng(0).normal(size=(10_000, 50))
    tracemalloc.start()
    try:
        cross_val_budget_curve(Watched(max_groups=2), X, X[:, 0], cv=2)
    finally:
        tracemalloc.stop()
    assert len(held) == 2
    assert max(held) < 0.75 * X.nbytes  # the training rows are half of it
