"""Losses over sets of rows are those of the formulas, summed set by set; so are the engine's sums."""

import numpy as np
import pytest
from scipy import sparse
from scipy.optimize import minimize
from set_references import listwise, partial_likelihood

from budgetline.glm.row_sets import query_sets, risk_sets
from budgetline.glm.sets_engine import SetsEngine
from budgetline.moments.columns import StandardisedColumns

KINDS = ["queries", "times", "breslow", "strata"]


def problem(kind, seed, n=40):
    """Return the sets of random rows, and the risk of scores in the order of the table, summed set by set."""
    rng = np.random.default_rng(seed)
    weight = rng.uniform(0.2, 2.0, n) * (rng.random(n) > 0.1)
    if kind == "queries":
        query, relevance = rng.integers(0, n // 6, n), rng.integers(0, 3, n).astype(float)
        weight = np.append(rng.uniform(0.2, 2.0, n // 6 - 1), 0.0)[query]
        weight /= weight.sum()
        return query_sets(relevance, query, weight), lambda eta: listwise(eta, relevance, query, weight), weight
    time, event = rng.integers(1, 12, n).astype(float), rng.random(n) < 0.6
    stratum, efron = rng.integers(0, 3 if kind == "strata" else 1, n), kind != "breslow"
    weight /= weight.sum()
    sets = risk_sets(time, event, stratum, weight, efron=efron)
    return sets, lambda eta: partial_likelihood(eta, time, event, stratum, weight, efron), weight


def differences(function, at, step=1e-5):
    """Return central differences of a function, one row per entry of its argument."""
    unit = step * np.eye(at.size)
    return np.array([(function(at + e) - function(at - e)) / (2 * step) for e in unit])


def hessian_in_scores(sets, point):
    """Return diag c less the products of the sets' means, (n, n), from masks of the rows of every set."""
    n, S = len(sets.order), len(sets.firsts)
    added = np.repeat(np.arange(S), np.diff(sets.firsts, append=n))
    segment = np.repeat(np.arange(len(sets.segments) - 1), np.diff(sets.segments))
    held = (segment[added][:, None] == segment) & (added[:, None] <= np.arange(S))
    tied = (added[:, None] == np.arange(S)) & sets.tied[:, None]
    share = point.share[:, None]
    means = np.hstack([share * (held - point.less * tied) * point.root, share * tied * point.rest])
    return np.diag(point.weight) - means @ means.T


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("kind", KINDS)
def test_risk_gradient_and_hessian_are_those_of_the_sets(kind, seed):
    sets, risk, weight = problem(kind, seed)
    eta = np.random.default_rng(seed).normal(size=weight.size)
    point = sets.at(eta[sets.order])
    assert point.risk == pytest.approx(risk(eta), abs=1e-12)
    slope = differences(risk, eta)
    np.testing.assert_allclose(-point.residual, slope[sets.order], atol=1e-8)
    assert not slope[weight == 0].any()
    H = differences(lambda e: -sets.at(e).residual, eta[sets.order])
    np.testing.assert_allclose(hessian_in_scores(sets, point), H, atol=1e-8)


@pytest.mark.parametrize("kind", KINDS)
def test_the_saturated_risk_is_the_least_of_any_scores(kind):
    sets, _, _ = problem(kind, 0)
    found = minimize(
        lambda e: sets.at(e).risk,
        np.zeros(len(sets.order)),
        jac=lambda e: -sets.at(e).residual,
        method="L-BFGS-B",
        options={"maxiter": 10_000, "ftol": 1e-16, "gtol": 1e-10},
    )
    assert found.fun >= sets.saturated - 1e-12
    assert found.fun == pytest.approx(sets.saturated, abs=1e-7)


@pytest.mark.parametrize("kind", KINDS)
def test_scores_far_apart_lose_no_set(kind):
    sets, _, _ = problem(kind, 1)
    eta = 2000.0 * np.random.default_rng(1).normal(size=len(sets.order))
    point = sets.at(eta)
    assert np.isfinite(point.risk)
    assert point.risk > sets.saturated
    assert point.residual.sum() == pytest.approx(0.0, abs=1e-9)
    for found in (point.weight, point.share, point.root, point.less, point.rest):
        assert np.isfinite(found).all()


@pytest.mark.parametrize("storage", ["dense", "sparse"])
@pytest.mark.parametrize("fewest", [8, 1024])
@pytest.mark.parametrize("kind", KINDS)
def test_the_engine_sums_what_the_formulas_say(kind, fewest, storage):
    rng, n = np.random.default_rng(3), 300
    sets, _, weight = problem(kind, 3, n)
    X, order = rng.normal(size=(n, 6)) + 3, rng.permutation(6)
    mean, scale, root = X.mean(axis=0), X.std(axis=0), np.sqrt(weight[sets.order])
    rows = sparse.csc_array(X[sets.order]) if storage == "sparse" else X[sets.order]
    engine = SetsEngine(StandardisedColumns(rows, mean, scale, root), sets, order, fewest)
    assert (len(engine.design.slices) > 10) == (fewest == 8)
    Z = np.hstack([np.ones((len(sets.order), 1)), ((X - mean) / scale)[sets.order][:, order]])
    columns, more = np.array([0, 2, 5, 1]), np.array([0, 2, 5, 1, 3])
    theta = rng.normal(size=(4, 1))
    point = engine.at(columns, theta)
    want = sets.at(Z[:, columns] @ theta[:, 0])
    H = Z.T @ hessian_in_scores(sets, want) @ Z
    H[0, 0] += 1.0
    slope = Z.T @ want.residual
    slope[0] -= theta[0, 0]
    assert point.risk == pytest.approx(want.risk + theta[0, 0] ** 2 / 2, abs=1e-12)
    close = {"rtol": 0, "atol": 1e-12}
    for which in (columns, more):
        np.testing.assert_allclose(point.gradient(which)[:, 0], slope[which], **close)
    np.testing.assert_allclose(point.gradient(None)[:, 0], slope[1:], **close)
    np.testing.assert_allclose(point.hessian(columns), H[np.ix_(columns, columns)], **close)
    np.testing.assert_allclose(point.cross(columns, None), H[columns][:, 1:], **close)
    np.testing.assert_allclose(point.cross(columns, columns[2:]), H[np.ix_(columns, columns[2:])], **close)
    V = rng.normal(size=(4, 1))
    np.testing.assert_allclose(point.product(columns, V), H[np.ix_(columns, columns)] @ V, **close)
    groups = np.array([[1, 2], [3, 4], [6, 5]])
    np.testing.assert_allclose(point.blocks(groups), [H[np.ix_(g, g)] for g in groups], **close)
    null = Z.T @ hessian_in_scores(sets, sets.at(np.zeros(len(sets.order)))) @ Z
    np.testing.assert_allclose(engine.covariance(groups), [null[np.ix_(g, g)] for g in groups], **close)
