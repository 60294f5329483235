"""A calibrated model: probabilities, labels and losses are calibrated everywhere, scores nowhere."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import expit, softmax
from sklearn.metrics import accuracy_score, log_loss

from budgetline import AnytimeClassifier, AnytimeClassifierCV, AnytimeRegressorCV, budget_curve, load, save
from budgetline.model.calibration import Calibration
from budgetline.model.stages import SAME_GAIN

COSTS = [1, 2, 4, 8]


def table(n_classes, seed=0, n=400):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4))
    scores = X @ rng.normal(size=(4, n_classes)) + rng.gumbel(size=(n, n_classes))
    return X, np.array(["a", "b", "c"])[scores.argmax(axis=1)]


def calibrated(n_classes, seed=0):
    """Return a fitted estimator with a made-up calibration, and the data."""
    X, y = table(n_classes, seed)
    model = AnytimeClassifier(costs=COSTS, alpha=0.01).fit(X, y)
    rng = np.random.default_rng(1)
    slopes = rng.uniform(0.3, 2, (5, 2 if n_classes == 2 else 1))
    offsets = rng.normal(size=5) if n_classes == 2 else np.zeros(5)
    slopes[0], offsets[0] = 1, 0
    model.model_ = replace(model.model_, calibration=Calibration(slopes, offsets))
    return model, X, y


def expected(model, X, stage):
    """Return probabilities by the textbook's formula."""
    scores, known = model.decision_function(X, stage=stage), model.model_.calibration
    slopes, offsets = known.slopes, known.offsets
    if len(model.classes_) == 3:
        return softmax(slopes[stage] * scores, axis=1)
    p = expit(scores)
    q = expit(slopes[stage, 0] * np.log(p) - slopes[stage, 1] * np.log(1 - p) + offsets[stage])
    return np.column_stack([1 - q, q])


@pytest.mark.parametrize("n_classes", [2, 3])
def test_every_way_to_probabilities_is_calibrated(n_classes, tmp_path):
    model, X, y = calibrated(n_classes)
    plain = AnytimeClassifier(costs=COSTS, alpha=0.01).fit(X, y)
    save(model, tmp_path / "model")
    curves = {name: budget_curve(model, X, y, metric=name).values for name in ("log_loss", "accuracy", "neg_log_loss")}
    for known in (model, load(tmp_path / "model")):
        staged = zip(
            known.staged_predict_proba(X), known.staged_predict(X), known.staged_predict_log_proba(X), strict=True
        )
        for stage, (proba, labels, logs) in enumerate(staged, 1):
            P = expected(model, X, stage)
            np.testing.assert_allclose(proba, P, rtol=1e-9)
            np.testing.assert_allclose(known.predict_proba(X, stage=stage), P, rtol=1e-9)
            np.testing.assert_allclose(np.exp(logs), P, rtol=1e-9)
            np.testing.assert_array_equal(labels, model.classes_[P.argmax(axis=1)])
            assert (
                known.score(X, y, stage=stage) == accuracy_score(y, labels) == pytest.approx(curves["accuracy"][stage])
            )
            assert (
                curves["log_loss"][stage]
                == pytest.approx(log_loss(y, P))
                == pytest.approx(-curves["neg_log_loss"][stage])
            )
            np.testing.assert_array_equal(
                known.decision_function(X, stage=stage), plain.decision_function(X, stage=stage)
            )
        groups = model.sequence_.groups
        np.testing.assert_allclose(known.predict_proba(X, available=groups[:2]), expected(model, X, 2), rtol=1e-9)
        some = X.copy()
        some[:100, 3], some[100:200, 0] = np.nan, np.nan
        by_row = known.predict_proba(some, available="auto")
        for rows, missing in ((slice(0, 100), "3"), (slice(100, 200), "0"), (slice(200, 400), "")):
            left = [name for name in groups if name != missing]
            np.testing.assert_allclose(by_row[rows], known.predict_proba(X[rows], available=left), rtol=1e-7)


def test_other_sets_are_like_the_last_stage_that_gains_no_more():
    model, X, _ = calibrated(2)
    stages, gains = model.model_.stages, model.sequence_.gains
    for steps in np.ndindex(2, 2, 2, 2):
        there = np.array(steps, dtype=bool)
        stage = stages.of_steps(there).stage
        if there[: there.sum()].all():
            assert stage == there.sum()
        else:
            reached = [gains[:k].sum() for k in range(5)]
            assert stage == max(k for k in range(5) if reached[k] <= gains[there].sum() + SAME_GAIN * gains.sum())
    like = stages.of_groups(model.sequence_.groups[1:]).stage
    assert like < 4
    scores = model.decision_function(X, available=model.sequence_.groups[1:])
    found = model.predict_proba(X, available=model.sequence_.groups[1:])[:, 1]
    np.testing.assert_allclose(found, expit(model.model_.calibration.apply(scores[:, None], like)[:, 0]))


def test_plans_are_calibrated():
    model, X, _ = calibrated(2)
    plan = model.plan(sum(COSTS))
    assert plan.model_.calibration.slopes.shape == (5, 2)
    np.testing.assert_allclose(plan.predict_proba(X), model.predict_proba(X, available=plan.groups), rtol=1e-6)


@pytest.mark.parametrize(
    ("a", "b", "c"), [(0.3, 2, 0.7), (2, 0.1, -5), (0, 1, -0.4), (0, 1, 0.4), (1, 0, -0.4), (1, 0, 0.4), (0, 0, 1)]
)
def test_labels_need_only_a_threshold(a, b, c):
    calibration = Calibration(np.array([[1.0, 1.0], [a, b]]), np.array([0.0, c]))
    eta = np.random.default_rng(0).normal(0, 4, (2000, 1))
    for stage in (0, 1, np.arange(2000) % 2):
        np.testing.assert_array_equal(calibration.decide(eta, stage) > 0, calibration.apply(eta, stage) > 0)


def overfitted(seed=0):
    """Return few rows, on which a model without ridge is too sure, and many new ones."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(5120, 20))
    y = rng.random(5120) < expit(X[:, :3].sum(axis=1))
    return X[:120], y[:120], X[120:], y[120:]


def test_the_search_calibrates_and_chosen_does_not():
    X, y, new, truth = overfitted()
    search = AnytimeClassifierCV(alphas=[1e-6], corrections=[0]).fit(X, y)
    off = AnytimeClassifierCV(alphas=[1e-6], corrections=[0], calibration=None).fit(X, y)
    assert off.model_.calibration is None
    assert search.model_.calibration.calibrated.size > 10
    np.testing.assert_array_equal(search.coef_path_, off.coef_path_)
    assert log_loss(truth, search.predict_proba(new)) < log_loss(truth, off.predict_proba(new))
    assert "calibration" not in search.chosen().get_params()
    assert search.chosen().fit(X, y).model_.calibration is None


def test_folds_that_agree():
    X, y, _, _ = overfitted()
    search = AnytimeRegressorCV(costs=np.arange(1.0, 21), alphas=[1e-2], corrections=[0.0], cv=4).fit(X, y)
    assert search.fold_costs_.shape == (4, 20)
    agree = [
        sum(own[j] <= spent * (1 + 1e-12) for own in search.fold_costs_)
        for j, spent in enumerate(search.sequence_.cumulative_costs)
    ]
    assert search.folds_that_agree_.tolist() == agree
    assert agree[-1] == 4  # everything is bought in the end


def test_folds_find_their_groups_at_the_costs_of_their_own_orders():
    X, y, _, _ = overfitted()
    search = AnytimeRegressorCV(
        costs=np.arange(1.0, 21), alphas=[1e-2], corrections=[0.0], cv=[(np.arange(60), np.arange(60, 120))]
    )
    search.fit(X, y)
    own = search.chosen().fit(X[:60], y[:60]).sequence_
    spent = dict(zip(own.groups, own.cumulative_costs, strict=True))
    assert search.fold_costs_.tolist() == [[spent[name] for name in search.sequence_.groups]]
