"""Moments: merging, weights, precision, sparse tables, folds."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.model_selection import KFold, RepeatedKFold, ShuffleSplit, TimeSeriesSplit
from threadpoolctl import threadpool_limits

from budgetline import AnytimeRegressor, Moments
from budgetline.data.rows import Rows
from budgetline.moments.moments import fold_moments, moments_of


def direct(X, y, w=None):
    V = np.column_stack([X, y])
    w = np.ones(len(V)) if w is None else np.asarray(w, float)
    mean = np.average(V, axis=0, weights=w)
    return mean, ((V - mean) * w[:, None]).T @ (V - mean)


def assert_same(a, b, rtol=1e-11):
    assert a.n_samples == b.n_samples
    assert a.weight == pytest.approx(b.weight, rel=1e-13)
    size = np.sqrt(np.outer(np.diag(b.scatter), np.diag(b.scatter))) + 1e-300
    np.testing.assert_allclose(a.mean, b.mean, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(a.scatter / size, b.scatter / size, atol=rtol)


@settings(max_examples=60, deadline=None)
@given(data=st.data(), seed=st.integers(0, 10**6))
def test_any_split_in_any_order_merges_to_the_whole(data, seed):
    rng = np.random.default_rng(seed)
    n, D, P = data.draw(st.integers(2, 60)), data.draw(st.integers(1, 6)), data.draw(st.integers(1, 3))
    X = rng.standard_normal((n, D)) * 10.0 ** rng.integers(-3, 4, D) + 10.0 ** rng.integers(-2, 5, D)
    y = rng.standard_normal((n, P)) + 100
    w = rng.uniform(0.1, 2, n) if data.draw(st.booleans()) else None
    part = np.array(data.draw(st.lists(st.integers(0, 4), min_size=n, max_size=n)))
    pieces = [
        Moments.from_data(X[part == k], y[part == k], None if w is None else w[part == k]) for k in np.unique(part)
    ]
    order = data.draw(st.permutations(range(len(pieces))))
    total = pieces[order[0]]
    for k in order[1:]:
        total = total + pieces[k]
    assert_same(total, Moments.from_data(X, y, w))


@pytest.mark.parametrize("ratio", [1.0, 1e4, 1e8, 1e12])
def test_digits_do_not_depend_on_the_mean(ratio):
    """Against exact rational arithmetic: naive sums of squares lose 2·log10(mean/std) digits."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((300, 2)) + ratio
    y = rng.standard_normal(300)
    parts = [
        Moments.from_data(X[:17], y[:17]),
        Moments.from_data(X[17:190], y[17:190]),
        Moments.from_data(X[190:], y[190:]),
    ]
    whole, merged = Moments.from_data(X, y), parts[0] + (parts[1] + parts[2])
    column = [Fraction(v) for v in X[:, 0].tolist()]
    mean = sum(column) / len(column)
    exact = float(sum((v - mean) ** 2 for v in column))
    assert whole.scatter[0, 0] == pytest.approx(exact, rel=1e-14)
    assert merged.scatter[0, 0] == pytest.approx(exact, rel=1e-14)


def test_long_tables_are_the_sum_of_their_chunks():
    rng = np.random.default_rng(0)
    X, y, w = rng.standard_normal((70_000, 40)) + 100, rng.standard_normal(70_000), rng.uniform(0, 2, 70_000)
    mean, scatter = direct(X, y, w)
    moments = Moments.from_data(X, y, w)
    np.testing.assert_allclose(moments.mean, mean, rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(moments.scatter, scatter, rtol=1e-11, atol=1e-7)


def test_the_number_of_threads_does_not_change_a_bit():
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((60_000, 30)), rng.standard_normal(60_000)
    results = []
    for threads in (1, 2, 3):
        with threadpool_limits(threads, user_api="blas"):
            results.append(Moments.from_data(X, y).scatter)
    assert np.array_equal(results[0], results[1])
    assert np.array_equal(results[0], results[2])


def near_zero(seed=0, n=6_000, D=30):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, D)) * 10.0 ** rng.integers(-8, 8, D)
    return X + 0.4 * X.std(axis=0), rng.standard_normal((n, 1)) + 1e6


def test_products_have_all_digits():
    X, Y = near_zero()
    found = moments_of(Rows(np.asfortranarray(X), Y), (), single=False)
    V = np.column_stack([X, Y]).astype(np.longdouble)
    exact = (V - V.mean(axis=0)).T @ (V - V.mean(axis=0))
    size = np.sqrt(np.outer(np.diag(exact), np.diag(exact)))
    assert np.abs((found.scatter - exact) / size).max() < 3e-15
    assert np.abs((found.mean - V.mean(axis=0)) / V.std(axis=0)).max() < 1e-9
    assert np.abs((found.mean - V.mean(axis=0))[:-1] / V.std(axis=0)[:-1]).max() < 1e-14
    assert found.eps == np.finfo(float).eps


def test_float32_products_with_float64_sums():
    rng = np.random.default_rng(0)
    X, y = (rng.standard_normal((60_000, 30)) + 50).astype(np.float32), rng.standard_normal(60_000)
    moments = Moments.from_data(X, y)
    mean, scatter = direct(X.astype(float), y)
    size = np.sqrt(np.outer(np.diag(scatter), np.diag(scatter)))
    assert np.abs((moments.scatter - scatter) / size).max() < 2e-6
    assert moments.eps == np.finfo(np.float32).eps
    np.testing.assert_allclose(moments.mean, mean, rtol=1e-6, atol=1e-6)


def test_integer_weights_are_repetitions_and_zero_weights_leave_no_trace():
    rng = np.random.default_rng(0)
    X, y, w = rng.standard_normal((50, 3)), rng.standard_normal(50), rng.integers(0, 4, 50)
    X[:, 1] = np.where(w > 0, 0.1, 17.0)  # constant where it counts
    weighted, repeated = Moments.from_data(X, y, w), Moments.from_data(np.repeat(X, w, axis=0), np.repeat(y, w))
    np.testing.assert_allclose(weighted.scatter, repeated.scatter, rtol=1e-12, atol=1e-12)
    assert weighted.scatter[1, 1] == 0


@pytest.mark.parametrize("density", [0.01, 0.3])
def test_sparse_equals_dense(density):
    rng = np.random.default_rng(0)
    X = sparse.csr_array(rng.uniform(size=(2000, 25)) * (rng.uniform(size=(2000, 25)) < density))
    y, w = rng.standard_normal((2000, 2)), rng.uniform(0, 1, 2000)
    for kind in (sparse.csr_array, sparse.csc_matrix):
        assert_same(Moments.from_data(kind(X), y, w), Moments.from_data(X.toarray(), y, w), rtol=1e-12)


def test_sparse_table_with_a_dense_column_far_from_zero_keeps_its_digits():
    rng = np.random.default_rng(0)
    X = sparse.lil_array(rng.uniform(size=(3000, 60)) * (rng.uniform(size=(3000, 60)) < 0.01))
    X[:, [5]] = sparse.coo_array(1e7 + rng.standard_normal((3000, 1)))
    X[:, [6]] = sparse.coo_array(np.full((3000, 1), 0.1))
    X, y = sparse.csr_array(X), rng.standard_normal(3000)
    assert X.nnz < 0.05 * 3000 * 60
    moments = Moments.from_data(X, y)
    assert_same(moments, Moments.from_data(X.toarray(), y), rtol=1e-9)
    assert moments.scatter[6, 6] == 0


def test_constant_columns_have_no_variance_at_all():
    X = np.column_stack([np.full(1000, 0.1), np.full(1000, 1e9 + 0.3), np.arange(1000.0)])
    moments = Moments.from_data(X, np.arange(1000.0))
    assert moments.scatter[0, 0] == moments.scatter[1, 1] == 0
    merged = Moments.from_data(X[:3], np.arange(3.0)) + Moments.from_data(X[3:], np.arange(3.0, 1000))
    assert merged.scatter[0, 0] == merged.scatter[1, 1] == 0


def test_sum_of_a_list_of_moments():
    X, y = np.random.default_rng(0).standard_normal((30, 2)), np.arange(30.0)
    assert_same(sum([Moments.from_data(X[k::3], y[k::3]) for k in range(3)]), Moments.from_data(X, y))


def test_moments_that_do_not_match():
    pd = pytest.importorskip("pandas")
    a = Moments.from_data(np.eye(3), [1.0, 2, 3])
    with pytest.raises(ValueError, match=r"3 features .* 2 features"):
        a + Moments.from_data(np.eye(3)[:, :2], [1.0, 2, 3])
    frames = [pd.DataFrame(np.eye(3), columns=list(names)) for names in ("abc", "abd")]
    with pytest.raises(ValueError, match="'c' and 'd'"):
        Moments.from_data(frames[0], [1.0, 2, 3]) + Moments.from_data(frames[1], [1.0, 2, 3])
    with pytest.raises(TypeError):
        a + 1
    with pytest.raises(TypeError, match="moments must be Moments"):
        AnytimeRegressor().fit_moments(np.eye(3))


def test_names_travel_with_moments():
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(np.random.default_rng(0).standard_normal((30, 3)), columns=["age", "chol", "id"])
    y = frame["age"].to_numpy() + frame["chol"].to_numpy()
    moments = Moments.from_data(frame, y)
    model = AnytimeRegressor({"history": ["age"], "blood": ["chol", "id"]}).fit_moments(moments)
    assert model.feature_names_in_.tolist() == ["age", "chol", "id"]
    np.testing.assert_allclose(model.predict(frame), y, atol=1e-3)
    with pytest.raises(ValueError, match="'weight'"):
        AnytimeRegressor({"a": ["weight"], "b": ["age", "chol", "id"]}).fit_moments(moments)


def test_mean_squared_error_from_moments():
    rng = np.random.default_rng(0)
    X, Y, w = rng.standard_normal((40, 3)) + 5, rng.standard_normal((40, 2)) - 3, rng.uniform(0, 1, 40)
    coef, intercept = rng.standard_normal((4, 2, 3)), rng.standard_normal((4, 2))
    errors = Moments.from_data(X, Y, w).mean_squared_error(coef, intercept)
    for k in range(4):
        truth = np.average((Y - X @ coef[k].T - intercept[k]) ** 2, axis=0, weights=w)
        np.testing.assert_allclose(errors[k], truth, rtol=1e-10)


@pytest.mark.parametrize(
    "splitter",
    [KFold(5), KFold(3, shuffle=True, random_state=0), ShuffleSplit(4, random_state=0), TimeSeriesSplit(4),
     RepeatedKFold(n_splits=3, n_repeats=3, random_state=0)],
    ids=lambda s: type(s).__name__,
)  # fmt: skip
@pytest.mark.parametrize("weighted", [False, True])
def test_fold_moments_are_those_of_the_rows(splitter, weighted):
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((60, 4)) + 3, rng.standard_normal((60, 1))
    w = rng.integers(0, 3, 60).astype(float) if weighted else None
    splits = list(splitter.split(X))
    for (train, test), moments in zip(splits, fold_moments(Rows(X, y, w), splits), strict=True):
        for index, m in zip((train, test), moments, strict=True):
            assert_same(m, Moments.from_data(X[index], y[index], None if w is None else w[index]))


def test_a_fold_without_weight_is_an_error():
    w = np.r_[np.zeros(10), np.ones(10)]
    rows = Rows(np.random.default_rng(0).standard_normal((20, 2)), np.ones((20, 1)), w)
    with pytest.raises(ValueError, match="held-out set of fold 0"):
        list(fold_moments(rows, list(KFold(2).split(rows.X))))
