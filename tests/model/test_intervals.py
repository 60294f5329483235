"""Intervals and sets are those of the textbook's order statistics, of models that a test fits on its own folds."""

import numpy as np
import pytest
from scipy.stats import norm
from sklearn.model_selection import KFold, RepeatedKFold, StratifiedKFold

from budgetline import (
    AnytimeClassifier,
    AnytimeClassifierCV,
    AnytimeRegressor,
    AnytimeRegressorCV,
    AnytimeSurvivalCV,
    load,
    open_data,
    save,
)
from budgetline.fitting.out_of_fold import effective_number, residual_errors
from budgetline.model.held_out_errors import MOST_RANKS, HeldOutErrors
from budgetline.model.intervals import predict_interval

COSTS = [1.0, 2, 4, 8]
COEF = np.array([1.0, -2, 0.5, 3])


def table(seed=0, n=150):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4))
    return X, X @ COEF + rng.standard_t(4, size=n)


def own_out_of_fold(plain, X, y, cv, costs, method):
    """Return held-out results (stages, n, …) of every row, each at the last stage of its fold within these costs."""
    found = None
    for train, test in cv.split(X, y):
        fold = plain().fit(X[train], y[train])
        spent = np.append(0.0, fold.sequence_.cumulative_costs)
        for stage, cost in enumerate(costs):
            at = np.flatnonzero(spent <= cost + 1e-9)[-1]
            part = getattr(fold, method)(X[test], stage=int(at))
            if found is None:
                found = np.empty((len(costs), len(y), *part.shape[1:]))
            found[stage, test] = part
    return found


def costs_of(model):
    return np.append(0.0, model.sequence_.cumulative_costs)


@pytest.mark.parametrize(("seed", "coverage"), [(0, 0.9), (1, 0.5), (2, 0.8)])
def test_intervals_are_order_statistics_of_the_residuals_of_folds(seed, coverage, tmp_path):
    X, y = table(seed)
    cv = KFold(5)
    model = AnytimeRegressorCV(costs=COSTS, alphas=[0.1], corrections=[0.0], cv=5).fit(X, y)
    held = own_out_of_fold(lambda: AnytimeRegressor(costs=COSTS, alpha=0.1), X, y, cv, costs_of(model), "predict")
    save(model, tmp_path / "model")
    loaded = load(tmp_path / "model")
    for stage, predicted in enumerate(held):
        errors, n = np.sort(y - predicted), len(y)
        low = errors[int(np.floor((n + 1) * (1 - coverage) / 2 + 1e-9)) - 1]
        high = errors[int(np.ceil((n + 1) * (1 + coverage) / 2 - 1e-9)) - 1]
        found = model.predict_interval(X, coverage, stage=stage)
        np.testing.assert_allclose(found.lower, model.predict(X, stage=stage) + low, rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(found.upper, model.predict(X, stage=stage) + high, rtol=1e-9, atol=1e-9)
        budget = costs_of(model)[stage] + 0.5
        for same in (
            model.predict_interval(X, coverage, budget=budget),
            loaded.predict_interval(X, coverage, stage=stage),
        ):
            np.testing.assert_array_equal(same, found)
        names = model.sequence_.groups[:stage]
        np.testing.assert_array_equal(model.predict_interval(X, coverage, available=names), found)


def test_rows_have_the_errors_of_what_they_have():
    X, y = table()
    model = AnytimeRegressorCV(costs=COSTS, alphas=[0.1], corrections=[0.0]).fit(X, y)
    some, first = X.copy(), int(model.sequence_.groups[0])
    some[::2, first] = np.nan
    found = model.predict_interval(some, available="auto")
    left = [name for name in model.sequence_.groups if name != str(first)]
    without = model.predict_interval(X, available=left)
    full = model.predict_interval(X)
    np.testing.assert_allclose(np.array(found)[:, ::2], np.array(without)[:, ::2])
    np.testing.assert_allclose(np.array(found)[:, 1::2], np.array(full)[:, 1::2])
    assert (without.upper - without.lower).mean() > (full.upper - full.lower).mean()


def test_too_few_rows_for_a_coverage_give_infinite_bounds():
    X, y = table(n=30)
    model = AnytimeRegressorCV(costs=COSTS, alphas=[0.1], corrections=[0.0]).fit(X, y)
    assert np.isfinite(model.predict_interval(X, 0.9)).all()
    lower, upper = model.predict_interval(X, 0.95)
    assert (lower == -np.inf).all()
    assert (upper == np.inf).all()


def test_several_targets_have_intervals_each():
    X, y = table()
    Y = np.column_stack([y, -10 * y + X[:, 0]])
    cv, settings = KFold(4), {"costs": COSTS, "alphas": [0.1], "corrections": [0.0]}
    both = AnytimeRegressorCV(cv=cv, **settings).fit(X, Y)
    held = own_out_of_fold(lambda: AnytimeRegressor(costs=COSTS, alpha=0.1), X, Y, cv, costs_of(both), "predict")
    lower, upper = both.predict_interval(X, 0.8, stage=2)
    assert lower.shape == upper.shape == (150, 2)
    errors = np.sort(Y - held[2], axis=0)
    np.testing.assert_allclose(lower - both.predict(X, stage=2), np.tile(errors[14], (150, 1)), atol=1e-8)


def test_counts_are_not_negative():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 3))
    y = rng.poisson(np.exp(X[:, 0] - 1))
    model = AnytimeRegressorCV(loss="poisson", alphas=[1e-2], corrections=[0.0]).fit(X, y)
    lower, upper = model.predict_interval(X)
    assert lower.min() == 0
    assert 0.85 < ((lower <= y) & (y <= upper)).mean() < 0.99


def test_errors_that_grow_are_divided_by_their_size():
    rng = np.random.default_rng(0)
    predicted = rng.uniform(0, 10, 4000)
    Y = predicted + predicted * rng.normal(size=4000)
    found = residual_errors(predicted[:, None, None], Y[:, None], np.ones(4000), 4000)
    new = rng.uniform(0, 10, (2000, 1))
    lower, upper = found.interval(new, 0, 0.9)
    width = (upper - lower)[:, 0]
    assert width[new[:, 0] > 8].mean() > 4 * width[new[:, 0] < 2].mean()
    truth = new + new * rng.normal(size=(2000, 1))
    assert 0.88 < ((lower <= truth) & (truth <= upper)).mean() < 0.92
    plain = residual_errors(predicted[:, None, None], (predicted + rng.normal(size=4000))[:, None], np.ones(4000), 4000)
    assert plain.scales.shape[2] == 1


@pytest.mark.parametrize("n", [50, 499, 1200, 3001])
def test_a_few_order_statistics_stand_for_all(n):
    rng = np.random.default_rng(n)
    errors, predicted = rng.normal(size=n), rng.normal(size=n)
    found = residual_errors(predicted[:, None, None], (predicted + errors)[:, None], np.ones(n), n)
    assert found.values.shape == (1, 1, min(n, MOST_RANKS))
    for coverage in (0.5, 0.9, 0.95):
        lower, upper = found.interval(np.zeros((1, 1)), 0, coverage)
        low = int((n + 1) * (1 - coverage) / 2 + 1e-9) - 1
        high = int(np.ceil((n + 1) * (1 + coverage) / 2 - 1e-9)) - 1
        exact = np.sort(errors)[[low, high]]
        np.testing.assert_allclose([lower[0, 0], upper[0, 0]], exact, atol=1e-12 if n <= MOST_RANKS else 0.1)


def test_weights_count_like_copies_of_rows():
    rng = np.random.default_rng(0)
    errors, copies = rng.normal(size=(60, 1)), rng.integers(1, 4, 60).astype(float)
    weighted = residual_errors(np.zeros((60, 1, 1)), errors, copies, effective_number(copies))
    n = int(copies.sum())
    repeated = residual_errors(np.zeros((n, 1, 1)), np.repeat(errors, copies.astype(int), 0), np.ones(n), n)
    assert weighted.n_rows == pytest.approx(copies.sum() ** 2 / (copies @ copies))
    for coverage in (0.3, 0.6, 0.8):
        found, known = (e.interval(np.zeros((1, 1)), 0, coverage) for e in (weighted, repeated))
        np.testing.assert_allclose(found, known, atol=0.35)


def test_sets_hold_the_classes_above_the_threshold_of_the_textbook(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(240, 4))
    y = (X @ rng.normal(size=(4, 3)) + rng.gumbel(size=(240, 3))).argmax(axis=1)
    cv = StratifiedKFold(4)
    settings = {"costs": COSTS, "alphas": [0.05], "corrections": [0.0], "calibration": None}
    model = AnytimeClassifierCV(cv=4, **settings).fit(X, y)
    held = own_out_of_fold(
        lambda: AnytimeClassifier(costs=COSTS, alpha=0.05), X, y, cv, costs_of(model), "predict_proba"
    )
    save(model, tmp_path / "model")
    for stage, P in enumerate(held):
        most = np.sort(1 - P[np.arange(240), y])[int(np.ceil(241 * 0.85)) - 1]
        found = model.predict_set(X, 0.85, stage=stage)
        np.testing.assert_array_equal(found, 1 - model.predict_proba(X, stage=stage) <= most + 1e-9)
        np.testing.assert_array_equal(load(tmp_path / "model").predict_set(X, 0.85, stage=stage), found)


def test_sets_from_other_groups_than_the_first_hold_the_class_as_often():
    """Sets without the first group are like stage 0, whose threshold is the share of a class."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(8000, 4))
    y = rng.random(8000) < 1 / (1 + np.exp(-X @ [2.0, 1, 0.5, 0.2]))
    model = AnytimeClassifierCV(alphas=[1e-2], corrections=[0.0]).fit(X[:1000], y[:1000])
    new, truth = X[1000:], y[1000:].astype(int)
    rest = [name for name in model.sequence_.groups if name != "0"]
    some = new.copy()
    some[:, 0] = np.nan
    for found in (
        *(model.predict_set(new, 0.9, available=rest[:k]) for k in (1, 2, 3)),
        model.predict_set(some, 0.9, available="auto"),
    ):
        assert 0.87 < found[np.arange(7000), truth].mean() < 0.99
    np.testing.assert_array_equal(model.predict_set(new, available=model.sequence_.groups), model.predict_set(new))


def test_rows_of_repeated_folds_count_once():
    X, y = table(n=80)
    settings = {"costs": COSTS, "alphas": [0.1], "corrections": [0.0]}
    again = AnytimeRegressorCV(cv=RepeatedKFold(n_splits=4, n_repeats=5, random_state=0), **settings).fit(X, y)
    assert again.model_.errors.n_rows == pytest.approx(80)
    assert np.isinf(again.predict_interval(X, 0.99).lower).all()  # 80 rows say nothing of one in 200
    twice = [(np.arange(40, 80), np.arange(40)), (np.arange(40), np.arange(40, 80)), (np.arange(40), np.arange(40, 80))]
    once, more = (AnytimeRegressorCV(cv=folds, **settings).fit(X, y) for folds in (twice[:2], twice))
    assert more.model_.errors.n_rows == pytest.approx(80)
    for k in range(5):  # the rows of the repeated fold weigh no more than the others
        found, known = (each.model_.errors.interval(np.zeros((1, 1)), k, 0.8) for each in (more, once))
        np.testing.assert_allclose(found, known, atol=0.5)


def test_tails_are_exact():
    rng = np.random.default_rng(0)
    errors = rng.standard_t(3, 9000)
    found = residual_errors(np.zeros((9000, 1, 1)), errors[:, None], np.ones(9000), 9000)
    for coverage in (0.98, 0.998, 0.9995):
        lower, upper = found.interval(np.zeros((1, 1)), 0, coverage)
        low = int(9001 * (1 - coverage) / 2 + 1e-9) - 1
        np.testing.assert_allclose([lower[0, 0], upper[0, 0]], np.sort(errors)[[low, -1 - low]], rtol=1e-9)


def test_moments_assume_normal_errors_of_equal_spread():
    X, y = table()
    source = open_data((X, y), chunk_rows=40)
    model = AnytimeRegressorCV(costs=COSTS, alphas=[0.1], corrections=[0.0], cv=3).fit(source)
    assert model.model_.errors.assumption == "normal errors of equal spread"
    for stage in range(5):
        deviation = np.mean((y - model.predict(X, stage=stage)) ** 2) ** 0.5
        for coverage in (0.5, 0.9):
            lower, upper = model.predict_interval(X, coverage, stage=stage)
            np.testing.assert_allclose((lower + upper) / 2, model.predict(X, stage=stage), atol=1e-9)
            np.testing.assert_allclose((upper - lower) / 2, norm.ppf((1 + coverage) / 2) * deviation, rtol=0.15)


def test_normal_errors_have_the_quantiles_of_the_normal_distribution():
    deviation = np.array([[1.0, 3.0], [0.5, 0.0]])
    found = HeldOutErrors.normal(deviation, 10_000.0)
    for coverage in (0.5, 0.9, 0.99, 0.9999):
        for stage in (0, 1):
            lower, upper = found.interval(np.full((1, 2), 7.0), stage, coverage)
            half = norm.ppf((1 + coverage) / 2) * deviation[stage]
            np.testing.assert_allclose([7 - lower[0], upper[0] - 7], [half, half], rtol=1e-9)


def test_the_errors_say_what_to_do():
    X, y = table()
    with pytest.raises(ValueError, match="AnytimeRegressor does not have: fit AnytimeRegressorCV"):
        AnytimeRegressor().fit(X, y).predict_interval(X)
    with pytest.raises(ValueError, match="fit AnytimeClassifierCV"):
        AnytimeClassifier().fit(X, y > 0).predict_set(X)
    source = open_data((X, (y > 0).astype(int)), chunk_rows=50)
    learned = AnytimeClassifierCV(rule="omp", alphas=[0.1], corrections=[0.0], cv=2).fit(source)
    with pytest.raises(ValueError, match="learned from a source"):
        learned.predict_set(X)
    model = AnytimeRegressorCV(alphas=[0.1]).fit(X, y)
    with pytest.raises(ValueError, match="coverage"):
        model.predict_interval(X, 1.0)
    for odd in (learned, AnytimeSurvivalCV(alphas=[0.1]).fit(X, np.exp(-X[:, 0]), np.ones(150, dtype=bool))):
        with pytest.raises(TypeError, match="intervals are for regression"):
            predict_interval(odd.model_, X, 0.9, None, None, None)


def test_plans_have_the_errors_of_stages_like_them():
    X, y = table()
    model = AnytimeRegressorCV(costs=COSTS, alphas=[0.1], corrections=[0.0]).fit(X, y)
    plan = model.plan(sum(COSTS), time_limit=60)
    found = predict_interval(plan.model_, X, 0.9, None, None, None)
    np.testing.assert_allclose(found, model.predict_interval(X), rtol=1e-7)
