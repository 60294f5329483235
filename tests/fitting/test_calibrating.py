"""Calibrations are those of scikit-learn's logistic regression and of a search over a grid."""

import numpy as np
import pytest
from scipy.optimize import minimize, minimize_scalar
from scipy.special import expit, log_softmax, softmax
from sklearn.linear_model import LogisticRegression

from budgetline.fitting.calibrating import beta, calibration_of, temperature


def log_odds(rng, n, *, skewed):
    """Return log odds and outcomes; skewed: their true probabilities are another function of the log odds."""
    eta = rng.normal(0.3, 1.5, n)
    true = 0.9 * np.log(expit(eta)) - 2 * np.log(expit(-eta)) - 1.2 if skewed else eta
    return eta, (rng.random(n) < expit(true)).astype(float)


@pytest.mark.parametrize("seed", range(3))
def test_beta_calibration_is_logistic_regression_on_two_logs(seed):
    rng = np.random.default_rng(seed)
    eta, y = log_odds(rng, 3000, skewed=True)
    weight = rng.uniform(0.5, 2, 3000)
    (a, b, c), fall = beta(eta, y, weight / weight.sum(), 1e9)
    p = expit(eta)
    design = np.column_stack([np.log(p), -np.log(1 - p)])
    known = LogisticRegression(C=np.inf, tol=1e-10, max_iter=10_000).fit(design, y, weight)
    np.testing.assert_allclose([a, b, c], [*known.coef_[0], known.intercept_[0]], rtol=5e-3, atol=5e-3)
    q = known.predict_proba(design)[:, 1]
    losses = [-np.average(y * np.log(each) + (1 - y) * np.log(1 - each), weights=weight) for each in (p, q)]
    assert fall == pytest.approx(losses[0] - losses[1], abs=1e-6)


@pytest.mark.parametrize("seed", range(3))
def test_slopes_are_never_negative(seed):
    rng = np.random.default_rng(seed)
    eta = rng.normal(size=300)
    y = (rng.random(300) < expit(-2 * np.abs(eta) + 1)).astype(float)  # falls above zero, rises below
    found, _ = beta(eta, y, np.full(300, 1 / 300), 1e9)
    assert found[:2].min() == 0
    p = expit(eta)

    def loss(theta):
        scores = theta[0] * np.log(p) - theta[1] * np.log(1 - p) + theta[2]
        return (np.logaddexp(0, scores) - y * scores).mean()

    best = minimize(loss, [0.5, 0.5, 0.0], bounds=[(0, None), (0, None), (None, None)], tol=1e-10)
    assert loss(found) <= best.fun + 1e-5


@pytest.mark.parametrize("seed", range(3))
def test_a_temperature_is_the_best_of_all(seed):
    rng = np.random.default_rng(seed)
    eta = rng.normal(0, 2, (600, 4))
    codes = np.array([rng.choice(4, p=row) for row in softmax(0.6 * eta, axis=1)])
    (slope,), fall = temperature(eta, np.eye(4)[codes], np.full(600, 1 / 600), 1e9)

    def loss(s):
        return -log_softmax(s * eta, axis=1)[np.arange(600), codes].mean()

    best = minimize_scalar(loss, bounds=(0.01, 5), method="bounded", options={"xatol": 1e-9})
    assert slope == pytest.approx(best.x, rel=1e-4)
    assert fall == pytest.approx(loss(1) - loss(slope), abs=1e-9)


def test_only_stages_that_need_it_are_calibrated():
    kept, changed = 0, 0
    for seed in range(40):
        rng = np.random.default_rng(seed)
        (fine, y), (off, z) = log_odds(rng, 500, skewed=False), log_odds(rng, 500, skewed=True)
        good = calibration_of(np.stack([fine, fine], axis=1)[..., None], y[:, None], np.ones(500), 500)
        bad = calibration_of(np.stack([off, off], axis=1)[..., None], z[:, None], np.ones(500), 500)
        kept += good is None
        changed += bad is not None and bad.calibrated.tolist() == [1]  # never stage 0
    assert kept >= 30  # by chance, in one of nine
    assert changed >= 37


def test_equal_scores_and_certain_outcomes_have_finite_parameters():
    eta = np.repeat([-1.0, 1.0], 50)
    for y in (np.repeat([0.0, 1.0], 50), np.repeat([1.0, 0.0], 50), np.zeros(100)):
        for own in (eta, np.zeros(100), 800 * eta):
            found, fall = beta(own, y, np.full(100, 0.01), 100)
            assert np.isfinite(found).all()
            assert fall > -1e-6


def test_the_ridge_is_that_of_one_row():
    rng = np.random.default_rng(0)
    eta, y = log_odds(rng, 200, skewed=True)
    found, _ = beta(eta, y, np.full(200, 1 / 200), 200)
    p = expit(eta)

    def loss(theta):
        scores = theta[0] * np.log(p) - theta[1] * np.log(1 - p) + theta[2]
        return (np.logaddexp(0, scores) - y * scores).sum() + ((theta - [1, 1, 0]) ** 2).sum() / 2

    assert loss(found) <= minimize(loss, [1.0, 1.0, 0.0], tol=1e-10).fun + 1e-5


def test_few_rows_of_separable_classes_do_not_make_probabilities_too_sure():
    """Out-of-fold scores that separate the classes: without a ridge the slopes would be infinite."""
    rng = np.random.default_rng(0)
    y = np.repeat([0.0, 1.0], 20)
    eta = np.where(y > 0, 1.0, -1.0) * rng.uniform(2, 4, 40)
    found, fall = beta(eta, y, np.full(40, 1 / 40), 40)
    assert 0 < fall < 0.1
    assert found[:2].max() < 2
