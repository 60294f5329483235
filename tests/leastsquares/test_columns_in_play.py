"""Least squares leaves out the columns of chosen groups as it goes, and factors many blocks in one call."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from scipy.linalg import solve_triangular

from budgetline import AnytimeRegressor, FeatureGroups, Moments
from budgetline.budgets import rates_of
from budgetline.leastsquares import coefficients, gram, least_squares
from budgetline.leastsquares.factors import Factor

BUNDLES = FACTORS = 0
SIZES = np.array([10, 1, 3, 10, 7, 1, 12, 10, 3, 40, 10, 5, 1, 10, 9, 8, 10, 10])


def table(n=800, targets=2, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, SIZES.sum()))
    starts = np.concatenate([[0], np.cumsum(SIZES)])
    for a, b in pairwise(starts):
        X[:, a:b] += rng.standard_normal((n, 1))
    Y = X @ rng.standard_normal((SIZES.sum(), targets)) + rng.standard_normal((n, targets))
    return X, Y, [list(range(a, b)) for a, b in pairwise(starts)]


@pytest.mark.filterwarnings("ignore:the moments are ill conditioned")
@pytest.mark.parametrize("alpha", [0.0, 1e-5, 0.1])
@pytest.mark.parametrize("rule", ["forward", "omp", "no-whiten", "single", "static"])
@pytest.mark.parametrize("shared", [False, True])
def test_leaving_out_chosen_columns_changes_nothing(rule, shared, alpha, monkeypatch):
    X, Y, columns = table()
    if alpha == 0.0:  # copies of columns, within a group and between two
        X[:, 41], X[:, 3] = X[:, 40], X[:, 60]
    names = [f"g{k}" for k in range(SIZES.size)]
    given = dict(zip(names, columns, strict=True))
    extra = {"shared": {"lab": (5.0, names[2:9])}, "requires": {"g9": ["g3"], "g12": ["g9"]}} if shared else {}
    groups = FeatureGroups(given, dict(zip(names, 1.0 + np.arange(SIZES.size) % 4, strict=True)), **extra)
    moments = Moments.from_data(X, Y)
    fit = AnytimeRegressor(groups, rule=rule, alpha=alpha, min_gain=1e-9).fit_moments
    with np.errstate(all="raise", under="ignore"):
        found = fit(moments)
    monkeypatch.setattr(least_squares, "FEW", np.inf)
    wanted = fit(moments)
    assert found.sequence_.groups == wanted.sequence_.groups
    np.testing.assert_allclose(found.sequence_.gains, wanted.sequence_.gains, rtol=1e-9, atol=1e-13)
    scale = np.abs(wanted.coef_path_).max()
    np.testing.assert_allclose(found.coef_path_, wanted.coef_path_, rtol=0, atol=1e-9 * scale)
    some = [names[k] for k in (0, 4, 9, 13) if names[k] in found.sequence_.groups]
    np.testing.assert_allclose(
        found.predict(X[:5], available=some), wanted.predict(X[:5], available=some), rtol=1e-8, atol=1e-8
    )


@pytest.mark.parametrize("singular", [False, True])
@pytest.mark.parametrize(
    ("J", "s", "q"), [(1, 4, 1), (6, 1, 2), (6, 4, 1), (30, 4, 3), (30, 4, 6), (200, 4, 1), (5, 40, 2)]
)
def test_whitening_many_blocks_is_whitening_each(J, s, q, singular):
    rng = np.random.default_rng(J)
    A = rng.standard_normal((J, s, s + 3))
    if singular:
        A[0], A[-1, -1] = 0.0, 2 * A[-1, 0] if s > 1 else 0.0
    M, r = A @ A.transpose(0, 2, 1), A @ rng.standard_normal((J, s + 3, q))
    v = gram.whiten(M, r)
    for g in range(J):
        exact = r[g].T @ np.linalg.pinv(M[g], rcond=1e-12) @ r[g]
        np.testing.assert_allclose(v[g].T @ v[g], exact, rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize(("P", "widths"), [(1, [3, 5, 4]), (2, [1] * 8), (1, [9, 1]), (3, [2, 7, 1, 6])])
def test_stages_solve_their_triangles(P, widths):
    rng = np.random.default_rng(0)
    ends, k = np.cumsum(widths), sum(widths)
    U = np.triu(rng.standard_normal((k, k))) - 3 * np.eye(k)  # the factor of data may have negative pivots
    z = rng.standard_normal((k, P))
    found = coefficients.stage_coefficients(Factor(U, z, np.arange(k), np.ones(k, dtype=bool), ends, ends, np.zeros(k)))
    assert found.shape == (len(widths), P, k)
    for w, e in zip(found, ends, strict=True):
        np.testing.assert_allclose(w[:, :e].T, solve_triangular(U[:e, :e], z[:e]), rtol=1e-11, atol=1e-13)
        assert not w[:, e:].any()
        assert not np.signbit(w[:, e:]).any()


@pytest.mark.parametrize("unit", [1.0, 1e-250, 1e250])
def test_rates_of_any_size(unit):
    values, costs = np.array([3.0, 1.0, -2.0, 0.5, 0.0]), np.array([2.0, 3.0, 1.0, 0.25, 7.0])
    wanted = values / costs
    with np.errstate(all="raise", under="ignore"):
        found = rates_of(values, costs * unit)
        np.testing.assert_allclose(found / found.max(), wanted / wanted.max(), rtol=1e-15)
        assert rates_of(np.append(values, -1.0), np.append(costs, 0.0)).argmax() == 3  # a free group that harms
        assert rates_of(np.append(values, 1.0), np.append(costs, 0.0)).argmax() == 5
        assert rates_of(np.append(values, 1e-300), np.append(costs, 1e300)).argmax() == 3


@pytest.mark.parametrize("rule", ["forward", "omp", "no-whiten", "single", "static"])
def test_bundles_are_those_of_all_columns(rule, monkeypatch):
    names = [f"g{j}" for j in range(30)]
    groups = {name: list(range(10 * j, 10 * j + 10)) for j, name in enumerate(names)}
    parts = FeatureGroups(groups, dict.fromkeys(names, 1.0), shared={"lab": (5.0, names[12:])})
    for seed in range(BUNDLES, BUNDLES + 4):
        rng = np.random.default_rng(seed)
        X = rng.standard_normal((2000, 300)) + rng.standard_normal((2000, 1)) * np.linspace(0, 2, 300)
        moments = Moments.from_data(X, X @ rng.standard_normal(300) + rng.standard_normal(2000))
        orders = []
        for few in (least_squares.FEW, np.inf):  # columns leave play, or stay
            with monkeypatch.context() as patch:
                patch.setattr(least_squares, "FEW", few)
                orders.append(AnytimeRegressor(parts, rule=rule, alpha=1e-4).fit_moments(moments).sequence_.groups)
        assert orders[0] == orders[1]


def test_singular_blocks_are_factored_without_the_columns_that_depend_on_others():
    for seed in range(FACTORS, FACTORS + 500):
        rng = np.random.default_rng(seed)
        size = int(rng.integers(2, 9))
        A = rng.normal(size=(size, int(rng.integers(1, size)))) * 10.0 ** rng.uniform(-6, 0, size)[:, None]
        block = A @ A.T
        L, kept = gram.factor_of_independent(block)
        assert np.array_equal(L, np.tril(L))
        np.testing.assert_allclose(L @ L.T, block[np.ix_(kept, kept)], atol=1e-11 * block.max())


@pytest.mark.filterwarnings("ignore")  # of digits, as it should be
@pytest.mark.parametrize("seed", [58, 94, 102, 105])
def test_bundles_that_the_chosen_columns_span_are_no_error(seed):
    rng = np.random.default_rng(seed)
    sizes = rng.choice([1, 3, 9, 12, 33], size=int(rng.integers(8, 16)))
    D, ends = int(sizes.sum()), np.cumsum(sizes)
    X = rng.standard_normal((D // 2 + 5, D))
    for d in range(D):
        if rng.random() < 0.15:
            X[:, d] = X[:, rng.integers(D)]
    X[:, rng.random(D) < 0.03] += 1e4
    Y = X @ rng.standard_normal((D, 2)) + rng.standard_normal((len(X), 2))
    names = [f"g{k}" for k in range(sizes.size)]
    columns = {name: list(range(end - size, end)) for name, size, end in zip(names, sizes, ends, strict=True)}
    groups = FeatureGroups(columns, dict.fromkeys(names, 1.0), shared={"lab": (5.0, names[1 : sizes.size // 2])})
    model = AnytimeRegressor(groups, rule="forward", alpha=0.0).fit_moments(Moments.from_data(X, Y))
    assert model.sequence_.explained[-1] == pytest.approx(1.0, abs=1e-3)
