"""The group lasso of wide tables, from columns, against the same path from moments."""

import tracemalloc

import numpy as np
import pytest
from scipy import sparse

from budgetline import AnytimeRegressor, FeatureGroups, FixedOrder, GroupLassoPath, load, save
from budgetline.baselines import group_lasso, lasso_path
from budgetline.fitting import linear

pytestmark = pytest.mark.quick_cases(3)

SIZES = [3, 1, 7, 2, 1, 5, 4, 1, 6, 2] * 4


def groups_of(sizes):
    return [list(map(int, g)) for g in np.split(np.arange(sum(sizes)), np.cumsum(sizes)[:-1])]


GROUPS = groups_of(SIZES)
COSTS = np.random.default_rng(0).uniform(0.5, 2, len(SIZES))


def make_data(seed, n=60, P=None, noise=1.0, shared=0.5):
    rng = np.random.default_rng(seed)
    D = sum(SIZES)
    X = (rng.normal(size=(n, D)) + shared * rng.normal(size=(n, 1))) * rng.uniform(0.1, 10, D) + rng.normal(size=D)
    Y = X @ (rng.normal(size=(D, P or 1)) * (rng.random((D, 1)) < 0.1)) + noise * rng.normal(size=(n, P or 1))
    return X, Y if P else Y[:, 0]


def both(monkeypatch, X, Y, weight=None, groups=GROUPS, costs=COSTS, **settings):
    """Fit from moments and from columns, whatever the shape."""
    found = []
    for fits in (True, False):
        for module in (group_lasso, linear):
            monkeypatch.setattr(module, "gram_fits", lambda rows, recipe, fits=fits: fits)
        settings = {"max_groups": len(groups), "n_lambdas": 40, "lambda_ratio": 0.01} | settings
        found.append(GroupLassoPath(groups, costs, **settings).fit(X, Y, sample_weight=weight))
    assert hasattr(found[0], "moments_")
    assert not hasattr(found[1], "moments_")
    return found


def assert_same(narrow, wide, tol=1e-7):
    """Compare paths, sequences and stages."""
    size = np.abs(narrow.path_coef_).max()
    np.testing.assert_allclose(wide.lambdas_, narrow.lambdas_, rtol=1e-12)
    np.testing.assert_allclose(wide.path_coef_, narrow.path_coef_, atol=tol * size)
    np.testing.assert_allclose(wide.path_intercept_, narrow.path_intercept_, rtol=1e-6, atol=10 * tol * size)
    np.testing.assert_allclose(wide.entry_lambdas_, narrow.entry_lambdas_, rtol=1e-12)
    assert wide.order_.tolist() == narrow.order_.tolist()
    np.testing.assert_allclose(wide.sequence_.gains, narrow.sequence_.gains, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(wide.sequence_.costs, narrow.sequence_.costs)
    np.testing.assert_allclose(
        wide.coef_path_, narrow.coef_path_, rtol=1e-5, atol=tol * np.abs(narrow.coef_path_).max()
    )


@pytest.mark.quick_cases(4)
@pytest.mark.parametrize("refit", [True, False])
@pytest.mark.parametrize("P", [None, 1, 3])
@pytest.mark.parametrize("alpha", [1e-3, 0.3])
def test_columns_give_the_path_of_moments(monkeypatch, alpha, P, refit):
    assert_same(*both(monkeypatch, *make_data(0, P=P), alpha=alpha, refit=refit))


def kkt_errors(model, X, Y, alpha, weight=None):
    """Largest error of the optimality conditions at each λ, divided by λ·cost, from the coefficients that users see."""
    share = np.full(len(X), 1 / len(X)) if weight is None else weight / weight.sum()
    Y = Y.reshape(len(Y), -1)
    A, T = X - share @ X, Y - share @ Y
    scale = np.sqrt(share @ A**2)
    A = A / np.where(scale > 1e-9, scale, np.inf)
    worst = []
    for value, coef in zip(model.lambdas_, model.path_coef_, strict=True):
        w = (coef * scale).reshape(-1, X.shape[1]).T
        r = A.T @ (share[:, None] * (T - A @ w)) - alpha * w
        errors = [0.0]
        for columns, cost in zip(GROUPS, COSTS, strict=True):
            size = np.linalg.norm(w[columns])
            pull = value * cost * w[columns] / size if size else 0.0
            left = np.linalg.norm(r[columns] - pull)
            errors.append((left if size else left - value * cost) / (value * cost))
        worst.append(max(errors))
    return np.array(worst)


@pytest.mark.filterwarnings("ignore:alpha=0.001 fits the noise")  # of so few rows
@pytest.mark.quick_cases(2)
@pytest.mark.parametrize("kind", [sparse.csr_array, sparse.csc_array, sparse.csr_matrix])
@pytest.mark.parametrize("P", [None, 2])
def test_sparse_tables(monkeypatch, kind, P):
    rng = np.random.default_rng(1)
    X, Y = make_data(1, P=P)
    X = X * (rng.random(X.shape) < 0.2)
    narrow, wide = both(monkeypatch, kind(X), Y, alpha=1e-3, refit=False)
    assert_same(narrow, wide)
    assert kkt_errors(wide, X, Y, 1e-3).max() < 1e-7


@pytest.mark.parametrize("refit", [True, False])
def test_weights(monkeypatch, refit):
    X, y = make_data(2)
    weight = np.random.default_rng(0).integers(0, 4, len(y)) * 1e-200
    narrow, wide = both(monkeypatch, X, y, weight, alpha=1e-3, refit=refit)
    assert_same(narrow, wide)
    repeated = np.repeat(np.arange(len(y)), np.round(weight * 1e200).astype(int))
    assert_same(both(monkeypatch, X[repeated], y[repeated], alpha=1e-3, refit=refit)[0], wide)
    assert kkt_errors(wide, X, y, 1e-3, weight * 1e200).max() < 1e-7


def test_free_groups(monkeypatch):
    costs = np.where(np.arange(len(SIZES)) % 9 == 2, 0.0, COSTS)
    for seed, P in ((3, None), (4, 2)):
        narrow, wide = both(monkeypatch, *make_data(seed, P=P), costs=costs, alpha=1e-2, refit=False)
        assert_same(narrow, wide)
        assert np.isinf(wide.entry_lambdas_[2::9]).all()
        assert sorted(wide.order_[:5].tolist()) == list(range(2, 40, 9))
    narrow, wide = both(monkeypatch, *make_data(5), costs=np.zeros(len(SIZES)), alpha=1e-2, n_lambdas=3)
    assert_same(narrow, wide)


def test_dependent_columns(monkeypatch):
    """Copies of groups, constant columns, more columns than rows and no ridge: the solution need not be unique."""
    X, y = make_data(6, n=30)
    X[:, GROUPS[12]] = 2 * X[:, GROUPS[2]] - 1
    X[:, GROUPS[5][0]] = X[:, GROUPS[6][0]]
    X[:, [0, 3, 40]] = 7.0
    narrow, wide = both(monkeypatch, X, y, alpha=0.0, max_groups=8)
    assert kkt_errors(wide, X, y, 0.0).max() < 1e-7
    assert (wide.path_coef_[:, [0, 3, 40]] == 0).all()
    fitted = [m.path_coef_ @ X.T + m.path_intercept_[:, None] for m in (narrow, wide)]
    np.testing.assert_allclose(*fitted, atol=1e-6)
    assert len(wide.lambdas_) == len(narrow.lambdas_) < 40
    _, wide = both(monkeypatch, X, y, alpha=0.0, max_groups=3, lambda_ratio=1e-3, n_lambdas=100)
    assert kkt_errors(wide, X, y, 0.0).max() < 1e-7


def test_columns_far_from_zero(monkeypatch):
    X, y = make_data(14)
    X += 1e6 * np.random.default_rng(0).normal(size=X.shape[1])
    narrow, wide = both(monkeypatch, X, y, alpha=1e-2, refit=False)
    np.testing.assert_allclose(wide.path_coef_, narrow.path_coef_, atol=1e-7 * np.abs(narrow.path_coef_).max())
    assert kkt_errors(wide, X, y, 1e-2).max() < 1e-7


def test_float32_tables_are_solved_as_exactly_as_their_products_allow(monkeypatch):
    X, y = make_data(7)
    X = X.astype(np.float32)
    _, wide = both(monkeypatch, X, y, alpha=1e-2, refit=False)
    _, exact = both(monkeypatch, X.astype(float), y, alpha=1e-2, refit=False)
    np.testing.assert_allclose(wide.path_coef_, exact.path_coef_, atol=1e-6 * np.abs(exact.path_coef_).max())
    assert kkt_errors(wide, X.astype(float), y, 1e-2).max() < 1e-5


@pytest.mark.parametrize("P", [None, 2])
def test_few_values_of_lambda_let_many_groups_in_at_once(monkeypatch, P):
    monkeypatch.setattr(lasso_path, "FEWEST_ADDED", 1)
    X, Y = make_data(8, P=P)
    for n_lambdas in (1, 2, 4):
        assert_same(*both(monkeypatch, X, Y, alpha=1e-2, n_lambdas=n_lambdas, refit=False))
    loose = both(monkeypatch, X, Y, alpha=1e-2, n_lambdas=4, tol=0.1)
    assert all(model.dual_gaps_.max() < 0.1 * Y.var(axis=0).sum() / 2 for model in loose)


def test_nothing_to_explain(monkeypatch):
    X, _ = make_data(9)
    assert_same(*both(monkeypatch, X, np.full(len(X), 3.5)))
    wide = GroupLassoPath(GROUPS, COSTS, refit=False).fit(X, np.full(len(X), 3.5))
    assert (wide.path_coef_ == 0).all()
    assert len(wide.order_) == 1
    np.testing.assert_allclose(wide.predict(X), 3.5)


@pytest.mark.parametrize("refit", [True, False])
def test_the_sequence_ends_after_the_most_groups(monkeypatch, refit):
    X, y = make_data(10)
    whole = both(monkeypatch, X, y, alpha=1e-2, refit=refit)[0]
    for most in (1, 4, 9):
        narrow, wide = both(monkeypatch, X, y, alpha=1e-2, refit=refit, max_groups=most)
        assert_same(narrow, wide)
        L = len(wide.lambdas_)
        entered = np.sum(whole.entry_lambdas_ >= whole.lambdas_[L - 1])
        assert np.sum(whole.entry_lambdas_ >= whole.lambdas_[L - 2]) <= most < entered
        assert wide.order_.tolist() == whole.order_[:most].tolist()
        np.testing.assert_allclose(wide.path_coef_, whole.path_coef_[:L], atol=1e-7)
        np.testing.assert_allclose(wide.coef_path_, whole.coef_path_[:most], atol=1e-7)
        others = [d for g in whole.order_[most:] for d in GROUPS[g]]
        assert (wide.coef_path_[:, others] == 0).all()


def test_by_default_the_sequence_of_wide_data_ends_with_the_groups_that_enter(monkeypatch):
    X, y = make_data(11)
    narrow, wide = both(monkeypatch, X, y, alpha=1e-2, max_groups=None)
    entered = np.count_nonzero(np.isfinite(narrow.entry_lambdas_))
    assert narrow.order_.size == len(SIZES) > entered
    assert wide.order_.tolist() == narrow.order_[:entered].tolist()
    np.testing.assert_allclose(wide.entry_lambdas_, narrow.entry_lambdas_, rtol=1e-12)


def test_refitted_stages_of_wide_data_answer_for_any_groups(monkeypatch):
    X, y = make_data(12)
    _, wide = both(monkeypatch, X, y, alpha=1e-2, max_groups=6)
    same = AnytimeRegressor(GROUPS, COSTS, schedule=FixedOrder(wide.order_.tolist()), alpha=1e-2).fit(X, y)
    assert wide.sequence_.groups == same.sequence_.groups
    groups = wide.sequence_.groups
    for keywords in ({"budget": 3.0}, {"stage": 0}, {"stage": 4}, {"available": groups[1:5:2]}, {}):
        np.testing.assert_allclose(wide.predict(X, **keywords), same.predict(X, **keywords), rtol=1e-7)
    with pytest.warns(UserWarning, match="is not used"):
        wide.predict(X, available=[*groups[:2], str(int(np.setdiff1d(np.arange(40), wide.order_)[0]))])


@pytest.mark.parametrize("refit", [True, False])
def test_wide_models_are_saved(monkeypatch, tmp_path, refit):
    X, y = make_data(15)
    _, wide = both(monkeypatch, X, y, alpha=1e-2, max_groups=5, refit=refit)
    save(wide, tmp_path / "wide.budgetline")
    again = load(tmp_path / "wide.budgetline")
    assert again.max_groups == 5
    assert again.sequence_.groups == wide.sequence_.groups
    for name in ("coef_path_", "path_coef_", "lambdas_", "entry_lambdas_"):
        np.testing.assert_array_equal(getattr(again, name), getattr(wide, name))
    available = wide.sequence_.groups[1:4]
    np.testing.assert_array_equal(again.predict(X, available=available), wide.predict(X, available=available))


def test_shared_costs_requirements_and_columns_outside_all_groups(monkeypatch):
    X, y = make_data(13)
    named = {f"g{g}": columns for g, columns in enumerate(GROUPS[:30])}
    groups = FeatureGroups(
        named,
        dict(zip(named, COSTS, strict=False)),
        shared={"draw": (3.0, ["g2", "g5", "g8"])},
        requires={"g12": ["g13", "g1"]},
        remainder="drop",
    )
    for most in (30, 7):
        narrow, wide = both(monkeypatch, X, y, groups=groups, costs=None, alpha=1e-2, refit=False, max_groups=most)
        assert_same(narrow, wide)
        np.testing.assert_allclose(wide.predict(X), narrow.predict(X), rtol=1e-6)


def test_wide_data_need_no_matrix_of_all_columns():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 6000))
    y = X[:, ::500] @ rng.normal(size=12) + rng.normal(size=60)
    tracemalloc.start()
    model = GroupLassoPath(np.arange(6000) // 3, max_groups=20).fit(X, y)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert model.order_.size == 20
    assert peak < 6000 * 6000 * 8 / 10
    table = sparse.csc_array(X)
    np.testing.assert_allclose(GroupLassoPath(np.arange(6000) // 3, max_groups=20).fit(table, y).coef_, model.coef_)
    X[3, 4000] = np.nan
    with pytest.raises(ValueError, match="4000"):
        GroupLassoPath(max_groups=3).fit(X, y)
