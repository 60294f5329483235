"""Scores from products in single precision: bounds of their errors hold, and the choices are those of exact scores."""

import numpy as np
import pytest

from budgetline import AnytimeClassifier, AnytimeRegressor
from budgetline.objectives import glm
from budgetline.objectives.blocks import score_errors, score_tests

SEED = 0


@pytest.mark.parametrize("correlation", [0.0, 0.9, 0.999])
@pytest.mark.parametrize("seed", range(SEED, SEED + 5))
def test_scores_are_within_their_bounds(correlation, seed):
    rng = np.random.default_rng(seed)
    J, s, k, n = 6, 4, 20, 400
    factor, unit = rng.normal(size=(n, 1)), 10.0 ** rng.uniform(-3, 3, k + J * s)
    A = (np.sqrt(1 - correlation) * rng.normal(size=(n, k + J * s)) + np.sqrt(correlation) * factor) * unit
    H = A.T @ A / n
    size, groups = np.sqrt(np.diag(H)), k + np.arange(J * s).reshape(J, s)
    r = rng.normal(size=(J, s)) * size[groups]
    U = np.linalg.cholesky(H[:k, :k]).T
    spread = float(np.linalg.norm(np.abs(np.linalg.inv(U)).T @ size[:k]))

    def tests(G):
        products = np.linalg.solve(U.T, G[:k])
        return np.array([G[np.ix_(g, g)] for g in groups]), np.array([products[:, g].T for g in groups])

    exact = score_tests(*tests(H), r)
    for error in (1e-7, 1e-5, 1e-3):
        E = error * np.outer(size, size) * rng.choice([-1.0, 1.0], size=H.shape)
        rough = tests(H + np.triu(E) + np.triu(E, 1).T)
        rho = score_errors(*rough, error, spread)
        sure = rho < 1
        assert np.all(score_tests(*rough, r)[sure] <= exact[sure] * (1 + rho[sure]) * (1 + 1e-9))
        assert np.all(score_tests(*rough, r)[sure] >= exact[sure] * (1 - rho[sure]) * (1 - 1e-9))
    if correlation == 0.0:
        assert np.all(score_errors(*tests(H), 1e-5, spread) < 0.01)  # useful, too


def table(seed, correlation, n=3000, columns=40):
    rng = np.random.default_rng(seed)
    X = np.sqrt(1 - correlation) * rng.normal(size=(n, columns)) + np.sqrt(correlation) * rng.normal(size=(n, 1))
    X *= 10.0 ** rng.uniform(-20, 20, columns)
    score = (X / X.std(axis=0)) @ rng.normal(size=columns) / 4
    return X, score, rng


@pytest.mark.parametrize("correlation", [0.0, 0.9, 0.9999])
@pytest.mark.parametrize("kind", ["logistic", "poisson"])
@pytest.mark.parametrize("most", [0.0, 0.25, 1.0])
def test_choices_are_those_of_exact_scores(correlation, kind, most, monkeypatch):
    X, score, rng = table(SEED, correlation)
    X = np.column_stack([X, X[:, :4], X[:, 4:8] * (1 + 1e-9 * rng.normal(size=(len(X), 4)))])  # ties, and nearly so
    groups = {f"g{j}": list(range(4 * j, 4 * j + 4)) for j in range(12)}
    costs = {name: 1.0 + (j % 3) for j, name in enumerate(groups)} | {"g0": 1.0, "g10": 1.0, "g1": 2.0, "g11": 2.0}
    how = {"rule": "score", "alpha": 1e-3}
    if kind == "logistic":
        model, y = AnytimeClassifier(groups, costs, **how), rng.random(len(X)) < 1 / (1 + np.exp(-score))
    else:
        model, y = AnytimeRegressor(groups, costs, loss="poisson", **how), rng.poisson(np.exp(score / 3))
    wanted = model.fit(X, y)
    order, coef = wanted.sequence_.groups, wanted.coef_path_
    decided, inner = [], glm.GeneralisedLinear._decided
    monkeypatch.setattr(glm.GeneralisedLinear, "_decided", lambda *given: decided.append(1) or inner(*given))
    monkeypatch.setattr("budgetline.statistics.rows_engine.WORTHWHILE", 0)
    monkeypatch.setattr("budgetline.objectives.glm.MOST_CONTENDING", most)
    found = model.fit(X, y)
    assert found.sequence_.groups == order
    np.testing.assert_allclose(found.coef_path_ * X.std(axis=0), coef * X.std(axis=0), rtol=1e-7, atol=1e-8)
    assert decided
    if most == 0.0:  # exact from the first stage with several contenders on: those that tie
        assert len(decided) < len(groups) - 1


@pytest.mark.parametrize("limits", [{"min_gain": 1e-3}, {"shared": True}, {"correction": 1.0}])
def test_where_all_scores_matter_they_are_exact(limits, monkeypatch):
    X, score, rng = table(SEED, 0.5)
    y = rng.random(len(X)) < 1 / (1 + np.exp(-score))
    groups = {f"g{j}": list(range(4 * j, 4 * j + 4)) for j in range(10)}
    if limits.pop("shared", False):
        from budgetline import FeatureGroups

        groups = FeatureGroups(groups, shared={"visit": (3.0, ["g1", "g2", "g5"])})
    model = AnytimeClassifier(groups, rule="score", alpha=1e-3, **limits)
    order = model.fit(X, y).sequence_.groups
    monkeypatch.setattr("budgetline.statistics.rows_engine.WORTHWHILE", 0)
    assert model.fit(X, y).sequence_.groups == order
