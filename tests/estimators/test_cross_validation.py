"""AnytimeRegressorCV against refits, fold by fold."""

import numpy as np
import pytest
from sklearn.model_selection import KFold, ShuffleSplit

from budgetline import AnytimeRegressor, AnytimeRegressorCV, budget_curve, timeliness
from budgetline.data.rows import Rows

ALPHAS, CORRECTIONS = [1e-4, 1e-1, 1.0], [0.0, 1.0, 4.0]


def mean_over_budgets(costs, values, total=None):
    """Mean of a step curve, budget interval by budget interval."""
    ends = [0.0, *costs, costs[-1] if total is None else total]
    return sum(v * (ends[k + 1] - ends[k]) for k, v in enumerate(values)) / ends[-1]


def problem(P=None, n=80, D=9):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, D)) + 4
    y = X @ rng.standard_normal(D if P is None else (D, P)) + 2 * rng.standard_normal(n if P is None else (n, P))
    return X, y, [[0, 1, 2], [3, 4], [5, 6, 7], [8]], [1.0, 2.0, 0.5, 3.0]


@pytest.mark.parametrize("cv", [None, KFold(4, shuffle=True, random_state=1), ShuffleSplit(3, random_state=2)])
@pytest.mark.parametrize(("P", "weighted"), [(None, False), (2, True)])
def test_scores_are_those_of_refits(cv, P, weighted):
    X, y, groups, costs = problem(P)
    w = np.random.default_rng(1).uniform(0, 2, len(X)) if weighted else None
    search = AnytimeRegressorCV(groups, costs, alphas=ALPHAS, corrections=CORRECTIONS, cv=cv, rule="omp")
    search.fit(X, y, sample_weight=w)
    splits = list((cv or KFold(5)).split(X))
    assert search.cv_scores_.shape == (len(ALPHAS), len(splits))
    assert search.correction_scores_.shape == (len(CORRECTIONS), len(splits))

    def score(train, test, alpha, correction):
        w_train, w_test = (None, None) if w is None else (w[train], w[test])
        model = AnytimeRegressor(groups, costs, alpha=alpha, correction=correction, rule="omp")
        model.fit(X[train], y[train], w_train)
        errors = [np.average((y[test] - p) ** 2, axis=0, weights=w_test).sum() for p in model.staged_predict(X[test])]
        null = np.average((y[test] - model.predict(X[test], stage=0)) ** 2, axis=0, weights=w_test).sum()
        return mean_over_budgets(model.sequence_.cumulative_costs, [0, *(1 - np.array(errors) / null)])

    for k, split in enumerate(splits):
        for a, alpha in enumerate(ALPHAS):
            assert search.cv_scores_[a, k] == pytest.approx(score(*split, alpha, CORRECTIONS[0]), rel=1e-9)
        for c, correction in enumerate(CORRECTIONS):
            truth = score(*split, search.alpha_, correction)
            assert search.correction_scores_[c, k] == pytest.approx(truth, rel=1e-9)
    assert search.alpha_ == ALPHAS[int(np.argmax(search.cv_scores_.mean(axis=1)))]
    assert search.correction_ == CORRECTIONS[int(np.argmax(search.correction_scores_.mean(axis=1)))]
    settings = {"alpha": search.alpha_, "correction": search.correction_}
    refit = AnytimeRegressor(groups, costs, rule="omp", **settings).fit(X, y, sample_weight=w)
    np.testing.assert_allclose(search.coef_path_, refit.coef_path_, rtol=1e-12)
    np.testing.assert_allclose(search.predict(X, budget=2), refit.predict(X, budget=2))


def bootstrap(n):
    rng = np.random.default_rng(0)
    for _ in range(3):
        train = rng.integers(0, n, n)
        yield train, np.setdiff1d(np.arange(n), train)


def masks(n, k=12):
    rng = np.random.default_rng(0)
    for _ in range(k):
        test = rng.uniform(size=n) < 0.3
        yield ~test, test


@pytest.mark.parametrize("splits", [bootstrap, masks, lambda n: masks(n, 2)], ids=["bootstrap", "masks", "few masks"])
def test_splits_may_repeat_rows_or_be_masks(splits):
    X, y, groups, costs = problem()
    search = AnytimeRegressorCV(groups, costs, alphas=[1e-3], cv=list(splits(len(X)))).fit(X, y)
    for score, (train, test) in zip(search.cv_scores_[0], splits(len(X)), strict=True):
        model = AnytimeRegressor(groups, costs, alpha=1e-3).fit(X[train], y[train])
        null = np.mean((y[test] - y[train].mean()) ** 2)
        explained = [1 - np.mean((y[test] - p) ** 2) / null for p in model.staged_predict(X[test])]
        assert score == pytest.approx(mean_over_budgets(model.sequence_.cumulative_costs, [0, *explained]), rel=1e-8)


def test_wide_tables_are_cross_validated_without_square_matrices(monkeypatch):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((40, 1200))
    y = X[:, 5] + 0.1 * rng.standard_normal(40)
    monkeypatch.setattr("budgetline.fitting.rows_training.fold_moments", None)
    search = AnytimeRegressorCV(alphas=[1e-3, 1e-1], max_groups=3).fit(X, y)
    assert search.sequence_.groups[0] == "5"
    assert search.cv_scores_.shape == (2, 5)
    train, test = next(KFold(5).split(X))
    model = AnytimeRegressor(alpha=1e-3, max_groups=3).fit(X[train], y[train])
    null = np.mean((y[test] - y[train].mean()) ** 2)
    explained = [1 - np.mean((y[test] - p) ** 2) / null for p in model.staged_predict(X[test])]
    truth = mean_over_budgets(model.sequence_.cumulative_costs, [0, *explained], 1200)
    assert search.cv_scores_[0, 0] == pytest.approx(truth, rel=1e-8)


@pytest.mark.parametrize(("limit", "total"), [({"max_groups": 1}, 6.5), ({"max_cost": 2.0}, 2.0)])
def test_truncated_sequences_are_scored_over_the_same_budgets(limit, total):
    """Sequences that end early keep their last value up to the largest budget anyone could have."""
    X, y, groups, costs = problem()
    search = AnytimeRegressorCV(groups, costs, alphas=[1e-3], **limit).fit(X, y)
    assert search.sequence_.costs.sum() < total
    for score, (train, test) in zip(search.cv_scores_[0], KFold(5).split(X), strict=True):
        model = AnytimeRegressor(groups, costs, alpha=1e-3, **limit).fit(X[train], y[train])
        null = np.mean((y[test] - y[train].mean()) ** 2)
        explained = [1 - np.mean((y[test] - p) ** 2) / null for p in model.staged_predict(X[test])]
        truth = mean_over_budgets(model.sequence_.cumulative_costs, [0, *explained], total)
        assert score == pytest.approx(truth, rel=1e-9)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [({"alphas": [-1.0]}, "alphas"), ({"alphas": []}, "alphas.*at least one"), ({"alphas": [[1.0]]}, "alphas"),
     ({"corrections": []}, "corrections.*at least one"), ({"corrections": [-1.0]}, "corrections"),
     ({"cv": 200}, "n_splits=200"), ({"alphas": [np.nan]}, "alphas")],
)  # fmt: skip
def test_errors(parameters, message):
    X, y, groups, costs = problem()
    with pytest.raises(ValueError, match=message):
        AnytimeRegressorCV(groups, costs, **parameters).fit(X, y)


def test_rows_are_not_copied_where_moments_suffice(monkeypatch):
    def take(*_):
        raise AssertionError("rows were copied")

    monkeypatch.setattr(Rows, "take", take)
    X = np.random.default_rng(0).normal(size=(100, 4))
    assert AnytimeRegressorCV(cv=3).fit(X, X[:, 0]).cv_scores_.shape == (7, 3)


def test_ill_conditioned_folds_are_fitted_and_judged_on_rows():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 4))
    X[:, 1] = X[:, 0] + 1e-7 * X[:, 1]
    y = 1e7 * (X[:, 1] - X[:, 0]) + 1e-2 * X[:, 2] + 1e-3 * rng.normal(size=200)
    search = AnytimeRegressorCV([[0, 1], [2], [3]], alphas=[0.0], cv=4).fit(X, y)
    for k, (train, test) in enumerate(KFold(4).split(X)):
        model = AnytimeRegressor([[0, 1], [2], [3]], alpha=0.0).fit(X[train], y[train])
        worth = timeliness(budget_curve(model, X[test], y[test]))
        assert search.cv_scores_[0, k] == pytest.approx(worth, abs=1e-9)


def noise(seed, n=100, D=40):
    """Return a table of which only column 0 tells something."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, D))
    return X, 2 * X[:, 0] + rng.standard_normal(n)


def test_a_sequence_ends_where_held_out_quality_falls():
    """On 200 x 400 columns of which two tell something, 23 were bought, and quality fell from 39 % to 22 %."""
    X, y = noise(0)
    every = AnytimeRegressorCV().fit(X, y)
    ended = AnytimeRegressorCV(stop_at_best=True).fit(X, y)
    np.testing.assert_array_equal(ended.held_out_, every.held_out_)
    costs, values, _ = every.held_out_[1:].T
    assert len(every.sequence_) == 40
    assert ended.sequence_.costs.sum() == costs[np.argmax(values)] < 10
    assert ended.sequence_.groups == every.sequence_.groups[: len(ended.sequence_)]
    again = ended.chosen().fit(X, y)
    assert again.sequence_.groups == ended.sequence_.groups


def test_a_sequence_does_not_end_without_a_fall_or_before_its_start():
    X, y, groups, costs = problem(n=2000)
    assert len(AnytimeRegressorCV(groups, costs, stop_at_best=True).fit(X, y).sequence_) == len(groups)
    X, y = noise(0)
    start = [f"{k}" for k in range(20, 30)]
    first = AnytimeRegressorCV({f"{k}": [k] for k in range(40)}, start=start, stop_at_best=True).fit(X, y)
    assert set(first.sequence_.groups[:10]) == set(start)


def test_settings_are_chosen_on_few_rows_and_all_rows_are_learned_from():
    X, y, groups, costs = problem(n=600)
    few = AnytimeRegressorCV(groups, costs, search_rows=100).fit(X, y)
    every = AnytimeRegressorCV(groups, costs, search_rows=600).fit(X, y)
    assert not np.allclose(few.cv_scores_, every.cv_scores_)
    np.testing.assert_array_equal(every.cv_scores_, AnytimeRegressorCV(groups, costs).fit(X, y).cv_scores_)
    assert few.cv_scores_.shape == every.cv_scores_.shape
    same = AnytimeRegressor(groups, costs, alpha=few.alpha_, correction=few.correction_).fit(X, y)
    np.testing.assert_allclose(few.coef_path_, same.coef_path_, rtol=1e-12)
