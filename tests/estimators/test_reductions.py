"""Special cases that other libraries solve too."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.linear_model import ElasticNet, OrthogonalMatchingPursuit, Ridge, orthogonal_mp_gram
from sklearn.preprocessing import StandardScaler

import budgetline.fitting.linear
from budgetline import AnytimeRegressor, Moments


def table(seed=0, n=150, D=12, P=None):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, D)) @ rng.standard_normal((D, D)) + 5 * rng.standard_normal(D)
    y = X @ rng.standard_normal(D if P is None else (D, P)) + 3 * rng.standard_normal(n if P is None else (n, P))
    return X, y


@pytest.mark.parametrize("seed", range(10))
def test_unit_costs_and_single_columns_are_scikit_learns_omp(seed):
    X, y = table(seed)
    Xs = StandardScaler().fit_transform(X)
    model = AnytimeRegressor(rule="omp", alpha=0.0).fit(Xs, y)
    for k in range(1, 7):
        theirs = OrthogonalMatchingPursuit(n_nonzero_coefs=k).fit(Xs, y)
        assert set(np.flatnonzero(theirs.coef_)) == set(model.order_[:k].tolist())
        np.testing.assert_allclose(model.coef_path_[k - 1], theirs.coef_, atol=1e-10 * np.abs(theirs.coef_).max())
    gram = orthogonal_mp_gram(Xs.T @ Xs, Xs.T @ (y - y.mean()), n_nonzero_coefs=4)
    np.testing.assert_allclose(model.coef_path_[3], gram, atol=1e-8 * np.abs(gram).max())


@pytest.mark.parametrize("P", [None, 3])
@pytest.mark.parametrize("alpha", [1e-8, 1e-5, 1e-1])
def test_last_stage_is_ridge_on_standardised_data(alpha, P):
    X, y = table(3, P=P)
    scaler = StandardScaler().fit(X)
    theirs = Ridge(alpha=alpha * len(X), solver="svd").fit(scaler.transform(X), y)
    ours = AnytimeRegressor([[0, 3, 5], [1, 2], [4], list(range(6, 12))], alpha=alpha).fit(X, y)
    np.testing.assert_allclose(ours.coef_, theirs.coef_ / scaler.scale_, rtol=1e-8)
    np.testing.assert_allclose(ours.predict(X), theirs.predict(scaler.transform(X)), rtol=1e-9)


@pytest.mark.filterwarnings("ignore:Objective did not converge")  # older scikit-learn sees no gap without an l1 term
def test_alpha_means_what_it_means_in_elastic_net():
    X, y = table(4)
    scaler = StandardScaler().fit(X)
    theirs = ElasticNet(alpha=0.3, l1_ratio=0.0, tol=1e-12, max_iter=100_000).fit(scaler.transform(X), y)
    ours = AnytimeRegressor(alpha=0.3).fit(X, y)
    np.testing.assert_allclose(ours.coef_, theirs.coef_ / scaler.scale_, rtol=1e-6)


@pytest.mark.parametrize("rule", ["forward", "omp", "no-whiten", "single"])
def test_array_sparse_float32_and_moments_agree(rule):
    X, y = table(5, n=400)
    X[np.abs(X - X.mean(0)) < X.std(0)] = 0
    groups, costs = [[0, 1, 2], [3, 4], [5], [6, 7, 8, 9], [10, 11]], [1, 2, 3, 1, 2]
    model = AnytimeRegressor(groups, costs, rule=rule).fit(X, y)
    others = {
        "csr": AnytimeRegressor(groups, costs, rule=rule).fit(sparse.csr_array(X), y),
        "csc": AnytimeRegressor(groups, costs, rule=rule).fit(sparse.csc_matrix(X), y),
        "fortran": AnytimeRegressor(groups, costs, rule=rule).fit(np.asfortranarray(X), y),
        "moments": AnytimeRegressor(groups, costs, rule=rule).fit_moments(Moments.from_data(X, y)),
        "merged": AnytimeRegressor(groups, costs, rule=rule).fit_moments(
            Moments.from_data(X[:7], y[:7]) + Moments.from_data(X[7:], y[7:])
        ),
    }
    for name, other in others.items():
        assert other.order_.tolist() == model.order_.tolist(), name
        np.testing.assert_allclose(other.coef_path_, model.coef_path_, rtol=1e-8, atol=1e-9, err_msg=name)
    single = AnytimeRegressor(groups, costs, rule=rule).fit(X.astype(np.float32), y)
    assert single.order_.tolist() == model.order_.tolist()
    np.testing.assert_allclose(single.predict(X), model.predict(X), rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("alpha", [0.0, 1e-5, 1e-1])
@pytest.mark.parametrize("kind", ["dense", "sparse", "float32", "weighted", "two targets"])
@pytest.mark.parametrize("rule", ["forward", "omp", "no-whiten", "single"])
def test_columns_on_demand_equal_the_gram_route(monkeypatch, rule, kind, alpha):
    X, y = table(6, n=90, P=2 if kind == "two targets" else None)
    X[np.abs(X - X.mean(0)) < X.std(0)] = 0
    X[:, 7] = 2.5  # a constant column
    weight = np.random.default_rng(0).integers(0, 3, 90) if kind == "weighted" else None
    groups, costs = [[11, 1, 2], [3, 4], [5], [6, 7, 8, 9], [10, 0]], [1, 2, 3, 1, 2]
    table_ = {"sparse": sparse.csr_array(X), "float32": X.astype(np.float32)}.get(kind, X)
    gram = AnytimeRegressor(groups, costs, rule=rule, alpha=alpha).fit(table_, y, sample_weight=weight)
    monkeypatch.setattr(budgetline.fitting.linear, "gram_fits", lambda rows, plan: False)
    demand = AnytimeRegressor(groups, costs, rule=rule, alpha=alpha).fit(table_, y, sample_weight=weight)
    assert demand.order_.tolist() == gram.order_.tolist()
    np.testing.assert_allclose(demand.sequence_.gains, gram.sequence_.gains, rtol=1e-8)
    np.testing.assert_allclose(demand.coef_path_, gram.coef_path_, rtol=1e-6, atol=1e-8)
    subset = {"0", "3"}
    np.testing.assert_allclose(demand.predict(X, available=subset), gram.predict(X, available=subset), rtol=1e-7)


def test_wide_tables_take_the_route_without_a_square_matrix(monkeypatch):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((40, 1500))
    y = X[:, 3] - 2 * X[:, 700] + 0.1 * rng.standard_normal(40)
    monkeypatch.setattr(budgetline.fitting.linear, "moments_of", None)  # must not be needed
    groups = [[d, d + 1, d + 2] for d in range(0, 1500, 3)]
    dense = AnytimeRegressor(groups, max_groups=5).fit(X, y)
    assert {"1", "233"} <= set(dense.sequence_.groups)
    csr = AnytimeRegressor(groups, max_groups=5).fit(sparse.csr_array(X), y)
    assert csr.order_.tolist() == dense.order_.tolist()
    np.testing.assert_allclose(csr.coef_path_, dense.coef_path_, rtol=1e-8, atol=1e-12)
