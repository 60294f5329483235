"""Near copies, large means, a tiny ridge: predictions explain what the model claims, or a warning says what to do."""

import warnings

import numpy as np
import pytest
from scipy import sparse
from scipy.linalg import LinAlgWarning

import budgetline.fitting.linear
from budgetline import AnytimeClassifier, AnytimeRegressor, FixedOrder, GroupLassoPath, Moments, open_data

GROUPS = [[0, 1], [2, 3, 4], [5, 6], [7]]


def near_copies_and_seconds(seed, n=200):
    """Return x and a near copy, seconds since 1970 with another pair of near copies, and plain columns."""
    rng = np.random.default_rng(seed)
    x, z, u = rng.standard_normal((3, n))
    e, f = rng.standard_normal((2, n))
    near, nearer = 10.0 ** -rng.uniform(5, 9, 2)
    plain = rng.standard_normal((n, 3)) @ np.array([[1, 0.5, 0], [0, 1, 1], [0, 0.1, 0.3]])
    seconds = 1.7e9 + 10.0 ** rng.uniform(-3, 4) * u
    X = np.column_stack([x, x + near * e, seconds, z, z + nearer * f, plain])
    y = x + z + rng.uniform(0.5, 2, 3) @ [e, f, u] + plain[:, 1]
    return X, y + 0.15 * y.std() * rng.standard_normal(n)


def far_copy(n=200, ratio=3e11):
    """Return a column, a copy of it with a huge mean, and targets along the rounding of the copy: hopeless digits."""
    rng = np.random.default_rng(0)
    x, other = rng.standard_normal((2, n))
    far = x + ratio
    return np.column_stack([x, far, other]), x + other + 2e4 * ((far - ratio) - x) + 0.3 * rng.standard_normal(n)


def measured(model, X, y, alpha, weight=None):
    """Return the explained shares of the staged predictions on the rows, less the ridge penalty: what F claims."""
    mean = np.average(y, weights=weight)
    variance = np.average((y - mean) ** 2, weights=weight)
    errors = [np.average((y - p) ** 2, weights=weight) for p in model.staged_predict(X)][-len(model.order_) :]
    spread = np.sqrt(np.average((X - np.average(X, axis=0, weights=weight)) ** 2, axis=0, weights=weight))
    penalty = alpha * ((model.coef_path_ * spread) ** 2).sum(axis=1)
    return 1 - (np.array(errors) + penalty) / variance


def explained_by(X, y, columns, alpha):
    """Return the explained share by Gram–Schmidt in extended precision on [X; √(nα) I]: shares no code."""
    A, t = X[:, columns].astype(np.longdouble), y.astype(np.longdouble)
    for _ in range(2):
        A, t = A - A.mean(axis=0), t - t.mean()
    A = A / np.sqrt((A**2).mean(axis=0))
    A = np.vstack([A, np.sqrt(np.longdouble(alpha) * len(t)) * np.eye(len(columns), dtype=np.longdouble)])
    t, total = np.concatenate([t, np.zeros(len(columns))]), t @ t
    for j in range(len(columns)):
        for _ in range(3):
            A[:, j] -= A[:, :j] @ (A[:, :j].T @ A[:, j])
        A[:, j] /= np.sqrt(A[:, j] @ A[:, j])
    return float(((A.T @ t) ** 2).sum() / total)


def no_gram(monkeypatch):
    monkeypatch.setattr(budgetline.fitting.linear, "gram_fits", lambda rows, recipe: False)


@pytest.mark.parametrize("route", ["gram", "columns", "sparse"])
@pytest.mark.parametrize("rule", ["forward", "omp"])
@pytest.mark.parametrize("alpha", [0.0, 1e-14, 1e-12, 1e-10])
def test_claims_predictions_and_least_squares_agree(monkeypatch, alpha, rule, route):
    if route != "gram":
        no_gram(monkeypatch)
    for seed in range(10):
        X, y = near_copies_and_seconds(seed)
        table = sparse.csr_array(X) if route == "sparse" else X
        model = AnytimeRegressor(GROUPS, rule=rule, alpha=alpha).fit(table, y)
        chosen = [[d for g in model.order_[: k + 1] for d in GROUPS[g]] for k in range(len(GROUPS))]
        truth = [explained_by(X, y, columns, alpha) for columns in chosen]
        np.testing.assert_allclose(model.sequence_.explained, truth, atol=1e-3)
        np.testing.assert_allclose(measured(model, X, y, alpha), truth, atol=1e-3)


@pytest.mark.parametrize("route", ["gram", "columns"])
def test_near_copies_in_several_groups_keep_the_basis_orthogonal(monkeypatch, route):
    """Rounding leaves more of a tiny remainder along the basis than of a large one."""
    if route == "columns":
        no_gram(monkeypatch)
    groups = [[0, 4], [1, 5], [2, 3], [6], [7]]
    for seed in range(10):
        rng = np.random.default_rng(seed)
        Z, E = rng.standard_normal((2, 300, 4))
        X = np.hstack([Z, Z + 10.0 ** -rng.uniform(8, 11, 4) * E])
        y = Z.sum(axis=1) + E.sum(axis=1) + 0.1 * rng.standard_normal(300)
        model = AnytimeRegressor(groups, alpha=0.0).fit(X, y)
        assert model.sequence_.explained[-1] == pytest.approx(explained_by(X, y, list(range(8)), 0.0), abs=1e-3)
        np.testing.assert_allclose(measured(model, X, y, 0.0), model.sequence_.explained, atol=1e-3)


def test_columns_that_are_dropped_as_noise_do_not_disturb_predictions():
    """The last column is the difference of near copies, known to few digits; an inverse would leave large residuals."""
    for seed in range(10):
        rng = np.random.default_rng(seed)
        x, z = rng.standard_normal((2, 3000))
        e, f, g = rng.standard_normal((3, 3000))
        d, c, b = 10.0 ** -rng.uniform([8, 8, 2], [12, 12, 6])
        X, y = np.column_stack([x, x + d * e, z, z + c * f, e + b * g]), x + z + e + f
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", LinAlgWarning)  # few digits of the coefficients, which is true
            model = AnytimeRegressor([[0, 1], [2, 3], [4]], alpha=0.0).fit(X, y + 0.1 * g)
        np.testing.assert_allclose(measured(model, X, y + 0.1 * g, 0.0), model.sequence_.explained, atol=1e-3)


@pytest.mark.parametrize("route", ["gram", "columns"])
def test_close_copies_after_others_and_a_large_mean_are_not_taken_for_noise(monkeypatch, route):
    """Both columns have large coefficients along the basis, which cancel: their difference has small ones."""
    if route == "columns":
        no_gram(monkeypatch)
    for seed in range(10):
        rng = np.random.default_rng(seed)
        x, z, u = rng.standard_normal((3, 300))
        e, f = rng.standard_normal((2, 300))
        X = np.column_stack([1.7e9 + 1e-4 * u, z, z + 3e-12 * f, x, x + 4e-12 * e])
        y = x + z + u + e + f + 0.3 * rng.standard_normal(300)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", LinAlgWarning)  # few digits of the coefficients, which is true
            model = AnytimeRegressor([[0, 1, 2], [3, 4]], alpha=0.0, schedule=FixedOrder(["0", "1"])).fit(X, y)
        assert model.sequence_.explained[-1] == pytest.approx(explained_by(X, y, list(range(5)), 0.0), abs=1e-3)
        np.testing.assert_allclose(measured(model, X, y, 0.0), model.sequence_.explained, atol=2e-3)


@pytest.mark.parametrize("ratio", [1e12, 1e13, 5e13])
def test_a_wide_table_uses_all_columns_of_a_group_with_a_large_mean(ratio):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((150, 1100))
    far, groups = np.arange(0, 50, 10), [list(range(d, d + 10)) for d in range(0, 1100, 10)]
    y = X[:, far].sum(axis=1) + X[:, [1, 15, 405]].sum(axis=1) + 0.3 * rng.standard_normal(150)
    X[:, far] += ratio
    far_apart = np.isin(np.arange(1100), far) * ratio
    centred = AnytimeRegressor(groups, max_groups=12).fit(X - far_apart, y)
    same = FixedOrder([centred.feature_groups_.names[g] for g in centred.order_])  # scores lose digits, gains do not
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LinAlgWarning)
        model = AnytimeRegressor(groups, max_groups=12, schedule=same).fit(X, y)
    np.testing.assert_allclose(model.sequence_.explained, centred.sequence_.explained, atol=1e-3)


# -- the warning -----------------------------------------------------------------------------------------------


def test_predictions_that_lose_digits_warn_and_the_advice_helps():
    X, y = far_copy()
    with pytest.warns(LinAlgWarning, match=r"(?s)do not explain what the model claims.*'1'.*Subtract"):
        model = AnytimeRegressor([[0], [1], [2]], alpha=1e-10).fit(X, y)
    assert np.abs(measured(model, X, y, 1e-10) - model.sequence_.explained).max() > 1e-3
    near = X - [0, 3e11, 0]
    model = AnytimeRegressor([[0], [1], [2]], alpha=1e-10).fit(near, y)  # no warning, which would be an error
    np.testing.assert_allclose(measured(model, near, y, 1e-10), model.sequence_.explained, atol=1e-3)


def test_a_larger_ridge_helps_too():
    X, y = far_copy()
    model = AnytimeRegressor([[0], [1], [2]], alpha=1e-3).fit(X, y)
    np.testing.assert_allclose(measured(model, X, y, 1e-3), model.sequence_.explained, atol=1e-3)


@pytest.mark.parametrize("how", ["moments", "partial_fit", "one pass", "lasso"])
def test_other_ways_to_fit_warn(how):
    X, y = far_copy()
    fits = {
        "moments": lambda m: m.fit_moments(Moments.from_data(X, y)),
        "partial_fit": lambda m: m.partial_fit(X[:90], y[:90]).partial_fit(X[90:], y[90:]),
        "one pass": lambda m: m.fit(open_data(lambda: iter([(X, y)]))),
        "lasso": lambda m: GroupLassoPath([[0], [1], [2]], alpha=1e-10).fit(X, y),
    }
    with pytest.warns(LinAlgWarning):
        fits[how](AnytimeRegressor([[0], [1], [2]], alpha=1e-10))


@pytest.mark.parametrize("loss", ["log_loss", "poisson", "source"])
def test_generalised_models_warn(loss):
    """How far predictions are off is rounding, which is another on every processor: most tables of ten must warn."""
    warned = 0
    for seed in range(10):
        X, y = far_copy(ratio=1e13)
        rng = np.random.default_rng(seed)
        score = (y - y.mean()) / y.std()
        labels, counts = (score + rng.logistic(size=200) > 0).astype(int), rng.poisson(np.exp(score / 2)).astype(float)
        settings = {"rule": "score", "alpha": 1e-10}
        regressor = AnytimeRegressor([[0], [1], [2]], loss="poisson", **settings)
        classifier = AnytimeClassifier([[0], [1], [2]], **settings)
        fits = {
            "log_loss": lambda m=classifier, X=X, y=labels: m.fit(X, y),
            "poisson": lambda m=regressor, X=X, y=counts: m.fit(X, y),
            "source": lambda m=classifier, X=X, y=labels: m.fit(open_data(lambda: iter([(X, y)]))),
        }
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            fits[loss]()
        warned += any("do not explain what the model claims" in str(each.message) for each in caught)
    assert warned >= 5
