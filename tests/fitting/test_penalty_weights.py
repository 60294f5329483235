"""A penalty weight per column is explicit ridge regression with a diagonal penalty, wherever the data are."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import minimize

import budgetline
from budgetline import AnytimeClassifier, AnytimeRegressor, Certificate, GroupLassoPath, Moments, open_data
from budgetline.estimators.base import AnytimeEstimator
from budgetline.model import AnytimeModel

ALPHA = 0.03


@pytest.fixture
def weigh(monkeypatch):
    """Return a function that gives all recipes penalty weights, as an encoding would."""
    plain = AnytimeEstimator._recipe

    def use(weights):
        def recipe(self, columns):
            return replace(plain(self, columns), weights=weights[columns.layout.read])

        monkeypatch.setattr(AnytimeEstimator, "_recipe", recipe)
        monkeypatch.setattr(AnytimeModel, "weights", property(lambda model: weights[model.layout.read]))

    return use


def problem(seed=0, n=80, D=6):
    """Return rows with a constant column, groups of two, weights of columns and of rows."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, D)) @ (np.eye(D) + 0.3 * rng.normal(size=(D, D))) * rng.uniform(0.1, 9, D) + 3
    X[:, 3] = 7.0
    score = (X - X.mean(axis=0)) @ rng.normal(size=D) / X.std(axis=0).max()
    return X, score + rng.normal(size=n), 10.0 ** rng.uniform(-2, 2, D), rng.uniform(0.5, 2, n)


def standardised(X, weight):
    share = weight / weight.sum()
    mean = share @ X
    scale = np.sqrt(share @ (X - mean) ** 2)
    varies = scale > 1e-9
    return np.where(varies, (X - mean) / np.where(varies, scale, 1.0), 0.0), mean, np.where(varies, scale, np.inf)


def reference(X, y, omega, weight, columns):
    """Return a function that predicts with ridge regression on some columns, penalty ALPHA/2 Σ ω_d w_d²."""
    Z, mean, scale = standardised(X, weight)
    share, A = weight / weight.sum(), Z[:, columns]
    C = (A * share[:, None]).T @ A + ALPHA * np.diag(omega[columns])
    level = share @ y
    w = np.linalg.solve(C, (A * share[:, None]).T @ (y - level))
    return lambda new: level + ((new - mean) / scale)[:, columns] @ w


def columns_of(groups):
    return [d for g in groups for d in (2 * g, 2 * g + 1)]


def check_squared(model, X, y, omega, weight):
    """Every prefix and every subset is the explicit solution."""
    order = model.order_.tolist()
    for stage in range(1, len(order) + 1):
        expected = reference(X, y, omega, weight, columns_of(order[:stage]))(X)
        np.testing.assert_allclose(model.predict(X, stage=stage), expected, rtol=1e-7, atol=1e-9)
    some = [model.feature_groups_.names[g] for g in order[1:]]
    expected = reference(X, y, omega, weight, columns_of(order[1:]))(X)
    np.testing.assert_allclose(model.predict(X, available=some), expected, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("rule", ["forward", "omp"])
@pytest.mark.parametrize("how", ["rows", "moments", "source", "parts", "lasso"])
def test_squared_error(how, rule, weigh):
    X, y, omega, weight = problem()
    weigh(omega)
    model = AnytimeRegressor([[0, 1], [2, 3], [4, 5]], alpha=ALPHA, rule=rule)
    if how == "rows":
        model.fit(X, y, sample_weight=weight)
    elif how == "moments":
        model.fit_moments(Moments.from_data(X, y, weight))
    elif how == "source":
        model.fit(open_data((X, y, weight), chunk_rows=30))
    elif how == "parts":
        model.partial_fit(X[:40], y[:40], weight[:40]).partial_fit(X[40:], y[40:], weight[40:])
    else:
        model = GroupLassoPath([[0, 1], [2, 3], [4, 5]], alpha=ALPHA).fit(X, y, sample_weight=weight)
    check_squared(model, X, y, omega, weight)


def test_columns_that_nearly_repeat_others(weigh):
    """Where the covariance has too few digits, the model is computed from the rows."""
    X, y, omega, weight = problem()
    X[:, 4] = X[:, 0] + 1e-7 * X[:, 4]
    weigh(omega)
    model = AnytimeRegressor([[0, 1], [2, 3], [4, 5]], alpha=ALPHA).fit(X, y, sample_weight=weight)
    check_squared(model, X, y, omega, weight)


@pytest.mark.parametrize("make", [AnytimeRegressor, GroupLassoPath])
def test_wide_table(make, weigh):
    rng = np.random.default_rng(1)
    X, omega = rng.normal(size=(50, 1200)), 10.0 ** rng.uniform(-1, 1, 1200)
    y = X[:, 0] + 0.5 * X[:, 700] + 0.1 * rng.normal(size=50)
    weigh(omega)
    model = make(alpha=ALPHA, max_groups=4).fit(X, y)
    expected = reference(X, y, omega, np.ones(50), model.order_.tolist())(X)
    np.testing.assert_allclose(model.predict(X), expected, rtol=1e-7, atol=1e-9)


def scores_of(kind, X, y, omega, weight):
    """Minimise the penalised risk by a general method; return the scores."""
    Z, _, _ = standardised(X, weight)
    share, Y = weight / weight.sum(), np.eye(y.max() + 1)[y] if kind == "softmax" else y[:, None].astype(float)
    P = Y.shape[1]

    def risk(flat):
        theta = flat.reshape(-1, P)
        eta = theta[0] + Z @ theta[1:]
        if kind == "softmax":
            phi = np.log(np.exp(eta).sum(axis=1))
            mean = np.exp(eta) / np.exp(eta).sum(axis=1, keepdims=True)
        elif kind == "logistic":
            phi, mean = np.logaddexp(0, eta[:, 0]), 1 / (1 + np.exp(-eta))
        else:
            phi, mean = np.exp(eta[:, 0]), np.exp(eta)
        slope = share[:, None] * (mean - Y)
        gradient = np.vstack([slope.sum(axis=0), Z.T @ slope + ALPHA * omega[:, None] * theta[1:]])
        value = share @ (phi - (Y * eta).sum(axis=1)) + ALPHA / 2 * float(omega @ (theta[1:] ** 2).sum(axis=1))
        return value, gradient.ravel()

    found = minimize(risk, np.zeros(P * (1 + Z.shape[1])), jac=True, method="BFGS", options={"gtol": 1e-9})
    theta = found.x.reshape(-1, P)
    eta = theta[0] + Z @ theta[1:]
    return eta - eta.mean(axis=1, keepdims=True) if P > 1 else eta[:, 0]


@pytest.mark.parametrize("source", [False, True], ids=["rows", "source"])
@pytest.mark.parametrize("kind", ["logistic", "softmax", "poisson"])
def test_other_losses(kind, source, weigh):
    X, score, omega, weight = problem(n=150)
    omega = np.sqrt(omega)  # BFGS must reach the optimum
    edges = {"logistic": [0.0], "softmax": [-1.0, 1.0], "poisson": [-1.0, 0.0, 1.0, 2.0]}[kind]
    y = np.digitize(score, edges)
    weigh(omega)
    groups = [[0, 1], [2, 3], [4, 5]]
    if kind == "poisson":
        model = AnytimeRegressor(groups, alpha=ALPHA, rule="score", loss="poisson")
    else:
        model = AnytimeClassifier(groups, alpha=ALPHA, rule="score")
    data = (open_data((X, y, weight), chunk_rows=40),) if source else (X, y, weight)
    model.fit(*data)
    found = np.log(model.predict(X)) if kind == "poisson" else model.decision_function(X)
    np.testing.assert_allclose(found, scores_of(kind, X, y, omega, weight), rtol=1e-5, atol=1e-5)


def test_weights_of_one_change_nothing(weigh):
    X, y, _, weight = problem()
    plain = AnytimeRegressor([[0, 1], [2, 3], [4, 5]]).fit(X, y, weight)
    weigh(np.ones(6))
    np.testing.assert_array_equal(
        AnytimeRegressor([[0, 1], [2, 3], [4, 5]]).fit(X, y, weight).coef_path_, plain.coef_path_
    )


def test_files_and_certificates(weigh, tmp_path):
    """Weights travel with the model, and bounds are about the weighted ridge: the verifier knows them."""
    X, y, omega, weight = problem()
    weigh(omega)
    model = AnytimeRegressor([[0, 1], [2, 3], [4, 5]], alpha=ALPHA).fit(X, y, weight)
    budgetline.save(model, tmp_path / "model")
    loaded = budgetline.load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.model_.weights, omega)
    certificate = loaded.certificate(time_limit=20)
    np.testing.assert_allclose(certificate.values, np.cumsum(model.sequence_.gains), rtol=1e-9)
    certificate.save(tmp_path / "certificate")
    found = Certificate.load(tmp_path / "certificate")
    found.verify(model.moments_)
    with pytest.raises(ValueError, match="does not hold"):
        replace(found, weights=None).verify(model.moments_)
    with pytest.raises(ValueError, match="weights"):
        replace(found, weights=-omega).verify(model.moments_)
