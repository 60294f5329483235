"""Digits: NIST's certified problems, rank deficiency, refinement, and warnings where digits run out."""

import json
import warnings
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from pathlib import Path

import mpmath
import numpy as np
import pytest
import reference
from scipy import sparse
from scipy.linalg import LinAlgWarning
from threadpoolctl import threadpool_limits

import budgetline.fitting.linear
from budgetline import AnytimeClassifier, AnytimeRegressor, AnytimeRegressorCV, GroupLassoPath, Moments, open_data
from budgetline.datasets import load_nhanes
from budgetline.leastsquares.coefficients import condition_number
from budgetline.threads import blas_threads

NIST = Path(__file__).parents[1] / "support" / "nist_strd"
DEGREE = {"Norris": 1, "Pontius": 2, "Filip": 10} | {f"Wampler{k}": 5 for k in range(1, 6)}
DIGITS = {
    "Norris": 12, "Pontius": 12, "Longley": 12, "Filip": 7,
    "Wampler1": 9, "Wampler2": 12, "Wampler3": 9, "Wampler4": 8, "Wampler5": 7,
}  # fmt: skip


def nist(name):
    table = np.loadtxt(NIST / f"{name}.csv", delimiter=",", skiprows=1)
    y, x = table[:, 0], table[:, 1:]
    X = x if name == "Longley" else x ** np.arange(1, DEGREE[name] + 1)
    return X, y, np.array(json.loads((NIST / "certified.json").read_text())[name]["beta"])


def correct_digits(model, beta):
    found = np.r_[model.intercept_, model.coef_]
    return float(-np.log10(np.abs(found - beta).max(where=beta == 0, initial=1e-16)
                           + (np.abs(found - beta) / np.abs(np.where(beta == 0, 1, beta))).max()))  # fmt: skip


@pytest.mark.parametrize("groups", ["singletons", "one group", "pairs"])
@pytest.mark.parametrize("name", DIGITS)
def test_nist_from_data(name, groups):
    X, y, beta = nist(name)
    D = X.shape[1]
    layout = {"singletons": None, "one group": [list(range(D))], "pairs": [d // 2 for d in range(D)]}[groups]
    model = AnytimeRegressor(layout, alpha=0.0).fit(X, y)
    assert correct_digits(model, beta) >= DIGITS[name]


@pytest.mark.parametrize("name", DIGITS)
def test_nist_from_moments_is_right_to_six_digits_or_warns(name):
    X, y, beta = nist(name)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = AnytimeRegressor(alpha=0.0).fit_moments(Moments.from_data(X, y))
    assert np.isfinite(model.coef_path_).all()
    warned = [w for w in caught if issubclass(w.category, LinAlgWarning)]
    assert correct_digits(model, beta) >= 6 or warned
    assert bool(warned) == (name == "Filip")
    for w in warned:
        assert "raise alpha" in str(w.message)


def deficient(kind, rng, n=60):
    if kind == "copies":
        X = rng.standard_normal((n, 4))
        return np.column_stack([X, X[:, 1], 3 * X[:, 0] - 7, X[:, :2].sum(axis=1)])
    if kind == "fewer rows than columns":
        return rng.standard_normal((8, 15))
    if kind == "constant":
        return np.column_stack([rng.standard_normal((n, 3)), np.full(n, 7.1), np.zeros(n)])
    if kind == "far from zero":
        X = rng.standard_normal((n, 3)) + 1e5
        return np.column_stack([X, 2 * X[:, 0] + 3])
    raise ValueError(kind)


@pytest.mark.parametrize("route", ["gram", "columns"])
@pytest.mark.parametrize("rule", ["forward", "omp", "no-whiten", "single"])
@pytest.mark.parametrize("kind", ["copies", "fewer rows than columns", "constant", "far from zero"])
def test_without_ridge_and_rank_every_stage_is_the_pseudo_inverse(monkeypatch, kind, rule, route):
    rng = np.random.default_rng(0)
    X = deficient(kind, rng)
    n, D = X.shape
    Y = rng.standard_normal((n, 2))
    if route == "columns":
        monkeypatch.setattr(budgetline.fitting.linear, "gram_fits", lambda rows, plan: False)
    groups = [list(range(s, min(s + 2, D))) for s in range(0, D, 2)]
    model = AnytimeRegressor(groups, rule=rule, alpha=0.0).fit(X, Y)
    assert np.isfinite(model.coef_path_).all()
    mean, scale = X.mean(axis=0), X.std(axis=0)
    constant = np.ptp(X, axis=0) == 0
    Xs = np.where(constant, 0.0, (X - mean) / np.where(constant, 1, scale))
    new = mean + rng.standard_normal((5, D))
    new_s = np.where(constant, 0.0, (new - mean) / np.where(constant, 1, scale))
    chosen = []
    for j, g in enumerate(model.order_):
        chosen += groups[g]
        w = np.linalg.pinv(Xs[:, chosen], rcond=1e-9) @ (Y - Y.mean(axis=0))
        truth = Y.mean(axis=0) + new_s[:, chosen] @ w
        np.testing.assert_allclose(model.predict(new, stage=j + 1), truth, rtol=1e-6, atol=1e-6)
    # any subset, too
    w = np.linalg.pinv(Xs[:, groups[-1] + groups[0]], rcond=1e-9) @ (Y - Y.mean(axis=0))
    truth = Y.mean(axis=0) + new_s[:, groups[-1] + groups[0]] @ w
    subset = {str(len(groups) - 1), "0"}
    np.testing.assert_allclose(model.predict(new, available=subset), truth, rtol=1e-6, atol=1e-6)


def test_no_ridge_is_the_limit_of_little_ridge():
    X = deficient("copies", np.random.default_rng(1))
    y = np.random.default_rng(2).standard_normal(len(X))
    exact, limit = (AnytimeRegressor(alpha=a, rule="omp").fit(X, y) for a in (0.0, 1e-9))
    np.testing.assert_allclose(exact.coef_, limit.coef_, atol=1e-6)


def test_nhanes_without_ridge_has_the_rank_of_the_data():
    nhanes = load_nhanes()
    model = AnytimeRegressor(nhanes.feature_groups, alpha=0.0).fit(nhanes.data, nhanes.target)
    Xs = (nhanes.data - nhanes.data.mean(axis=0)) / nhanes.data.std(axis=0)
    fitted = Xs @ np.linalg.lstsq(Xs, nhanes.target - nhanes.target.mean(), rcond=1e-10)[0] + nhanes.target.mean()
    np.testing.assert_allclose(model.predict(nhanes.data), fitted, atol=1e-7)
    assert model.model_.stages.subset.U.shape[0] == np.linalg.matrix_rank(Xs, tol=1e-8 * np.sqrt(len(Xs)))
    assert np.abs(model.coef_).max() < 100


def ill_conditioned(cond, n=400, D=10):
    rng = np.random.default_rng(0)
    left = np.linalg.qr(rng.standard_normal((n, D)))[0]
    right = np.linalg.qr(rng.standard_normal((D, D)))[0]
    X = left * np.geomspace(1, 1 / cond, D) @ right.T
    return X, X @ rng.standard_normal(D) * 10 + 0.1 * rng.standard_normal(n)


@pytest.mark.parametrize("cond", [1e2, 1e4, 1e5, 1e7])
def test_digits_from_data_at_every_conditioning(monkeypatch, cond):
    """Refinement, then QR, take over as the Gram matrix loses its digits; also without extended precision."""
    X, y = ill_conditioned(cond)
    for module in ("budgetline.leastsquares.coefficients", "budgetline.moments.moments"):
        monkeypatch.setattr(f"{module}.EXTENDED_WORK", 0)
    model = AnytimeRegressor(alpha=0.0).fit(X, y)
    truth = np.linalg.lstsq(np.column_stack([X, np.ones(len(X))]), y, rcond=None)[0][:-1]
    assert np.abs(model.coef_ - truth).max() < 1e-15 * 200 * cond * np.abs(truth).max()


def test_well_conditioned_data_are_read_once(monkeypatch):
    monkeypatch.setattr(budgetline.fitting.linear, "refine", None)
    monkeypatch.setattr(budgetline.fitting.linear, "triangle", None)
    monkeypatch.setattr(budgetline.fitting.linear, "FREE_REFINEMENT", 0)
    rng = np.random.default_rng(0)
    X = rng.standard_normal((500, 6))
    model = AnytimeRegressor().fit(X, X @ np.arange(6.0))
    np.testing.assert_allclose(model.coef_, np.arange(6.0), atol=1e-3)


def test_hopeless_data_warn():
    X, y = ill_conditioned(10**12.3)
    with pytest.warns(LinAlgWarning, match="Raise alpha"):
        AnytimeRegressor(alpha=0.0).fit(X, y)


@pytest.mark.parametrize("cond", [1.0, 1e3, 1e6, 1e12])
def test_condition_number(cond):
    rng = np.random.default_rng(0)
    right = np.linalg.qr(rng.standard_normal((30, 30)))[0]
    U = np.linalg.qr(np.sqrt(np.geomspace(1, cond, 30))[:, None] * right)[1]
    for scale in (1.0, 1e154, 1e-150):
        assert cond / 2 < condition_number(U * scale) < 2 * cond
    assert condition_number(np.diag([1.0, 0.0])) == np.inf
    assert condition_number(np.zeros((0, 0))) == 1


def test_float32_with_near_copies_is_solved_in_double_precision():
    """Means of float32 products are off by 1e-7 of a deviation: too much to standardise near copies with."""
    rng = np.random.default_rng(0)
    B = rng.standard_normal((4000, 10)).astype(np.float32)
    X = np.hstack([B, 3 * B + 1, rng.standard_normal((4000, 4))]).astype(np.float32)
    y = B @ np.geomspace(1, 1e-2, 10) + 0.3 * rng.standard_normal(4000)
    model = AnytimeRegressor(alpha=0.0).fit(X, y)
    Xs = (X.astype(float) - X.astype(float).mean(axis=0)) / X.astype(float).std(axis=0)
    fitted = np.column_stack([np.ones(4000), Xs]) @ np.linalg.lstsq(np.column_stack([np.ones(4000), Xs]), y)[0]
    np.testing.assert_allclose(model.predict(X.astype(float)), fitted, atol=1e-6)


def near_copies(distance, other_coef, seed=0):
    rng = np.random.default_rng(seed)
    B, noise, other = rng.standard_normal((60, 2)), rng.standard_normal((60, 2)), rng.standard_normal((60, 3))
    y = B[:, 0] + noise @ [1.0, 1.0] + other @ other_coef
    return np.hstack([B, B + distance * noise, other]), y, [[0, 1], [2, 3], [4], [5], [6]]


@pytest.mark.parametrize("route", ["gram", "columns"])
@pytest.mark.parametrize("distance", [1e-3, 1e-5, 1e-7])
def test_forward_regression_tells_near_copies_apart(monkeypatch, distance, route):
    """y lies along the difference of a group and its near copy: the copy's gain is known from the data alone."""
    if route == "columns":
        monkeypatch.setattr(budgetline.fitting.linear, "gram_fits", lambda rows, plan: False)
    X, y, groups = near_copies(distance, [0.3, 0.2, 0.1])  # every group gains, far from a tie
    model = AnytimeRegressor(groups, alpha=0.0).fit(X, y)
    truth = reference.sequence(X, y, groups, np.ones(5), alpha=0.0)
    assert model.order_.tolist() == truth["order"]
    np.testing.assert_allclose(model.sequence_.gains, truth["gains"], rtol=1e-5, atol=1e-9)


@pytest.mark.parametrize("rule", ["forward", "omp"])
@pytest.mark.parametrize("route", ["gram", "columns", "moments"])
@pytest.mark.parametrize("distance", [1e-3, 1e-5])
def test_what_brings_nothing_comes_cheapest_first_after_near_copies(monkeypatch, distance, route, rule):
    """The first three groups explain y. The gradient of the others is rounding error, and near copies magnify it."""
    if route == "columns":
        monkeypatch.setattr(budgetline.fitting.linear, "gram_fits", lambda rows, plan: False)
    for seed in range(5):
        X, y, groups = near_copies(distance, [0.3, 0.0, 0.0], seed)
        for costs, last in (([0, 0, 1, 3, 2], [4, 3]), ([0, 0, 1, 2, 3], [3, 4])):
            model = AnytimeRegressor(groups, costs, alpha=0.0, rule=rule)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", LinAlgWarning)  # moments of near copies
                model = model.fit_moments(Moments.from_data(X, y)) if route == "moments" else model.fit(X, y)
            assert model.order_[3:].tolist() == last


@pytest.mark.parametrize("scale", [1e-80, 1e-46, 1e-10, 1e60])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_unit_of_weights_does_not_matter(dtype, scale):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((3000, 20)).astype(dtype)
    y, weight = X @ np.arange(20.0) + rng.standard_normal(3000), rng.uniform(0.5, 2, 3000)
    plain, scaled = (AnytimeRegressor().fit(X, y, sample_weight=w) for w in (weight, weight * scale))
    np.testing.assert_allclose(scaled.coef_path_, plain.coef_path_, rtol=1e-5, atol=1e-5)


def exact_value(X, y, weight, alpha):
    """F of all columns, in 80 digits."""
    with mpmath.workdps(80):
        w = mpmath.matrix([float(v) for v in weight])
        V = mpmath.matrix(np.column_stack([X, y]).tolist())
        n, k = V.rows, V.cols
        share = w / sum(w)
        mean = share.T * V
        S = mpmath.matrix(k, k)
        for a, b in np.ndindex(k, k):
            S[a, b] = mpmath.fsum(share[i] * (V[i, a] - mean[a]) * (V[i, b] - mean[b]) for i in range(n))
        D = k - 1
        C = mpmath.matrix(D, D)
        for a, b in np.ndindex(D, D):
            C[a, b] = S[a, b] / mpmath.sqrt(S[a, a] * S[b, b]) + (alpha if a == b else 0)
        r = mpmath.matrix([S[a, D] / mpmath.sqrt(S[a, a]) for a in range(D)])
        return float((r.T * mpmath.lu_solve(C, r))[0] / 2)


def unequal(kind, exponent, rng, n):
    if kind == "one sample":
        weight = np.ones(n)
        weight[rng.integers(n)] = 10.0**exponent
        return weight
    return 10.0 ** rng.uniform(-exponent / 2, exponent / 2, n)


ROUTES = {
    "data": lambda X, y, w: AnytimeRegressor().fit(X, y, sample_weight=w),
    "columns": lambda X, y, w: AnytimeRegressor().fit(X, y, sample_weight=w),
    "moments": lambda X, y, w: AnytimeRegressor().fit_moments(Moments.from_data(X, y, w)),
    "merged": lambda X, y, w: AnytimeRegressor().fit_moments(
        sum(Moments.from_data(X[s], y[s], w[s]) for s in (slice(0, 1), slice(1, 8), slice(8, 15), slice(15, 20)))
    ),
    "batches": lambda X, y, w: (
        AnytimeRegressor().partial_fit(X[:9], y[:9], w[:9]).partial_fit(X[9:], y[9:], w[9:])
    ),
    "source": lambda X, y, w: AnytimeRegressor().fit(open_data((X, y, w), chunk_rows=7)),
    "lasso": lambda X, y, w: GroupLassoPath().fit(X, y, sample_weight=w),
    "cross-validation": lambda X, y, w: AnytimeRegressorCV(alphas=[1e-5]).fit(X, y, sample_weight=w),
}  # fmt: skip


@pytest.mark.parametrize("kind", ["one sample", "all"])
@pytest.mark.parametrize("exponent", [12, 17, 24])
@pytest.mark.parametrize("route", ROUTES)
def test_unequal_weights_cost_no_digits(monkeypatch, route, exponent, kind):
    if route == "columns":
        monkeypatch.setattr(budgetline.fitting.linear, "gram_fits", lambda rows, plan: False)
    rng = np.random.default_rng(0)
    X = rng.standard_normal((20, 3)) + 1
    y, weight = X @ [1.0, 2.0, 3.0] + rng.standard_normal(20), unequal(kind, exponent, rng, 20)
    gains = ROUTES[route](X, y, weight).sequence_.gains
    assert gains.sum() == pytest.approx(exact_value(X, y, weight, 1e-5), rel=1e-10, abs=0)


@pytest.mark.parametrize("unit", [5e-324, 1e-310, 1e-300, 1e-200, 1e200, 1e300])
@pytest.mark.parametrize("route", ROUTES)
def test_weights_of_any_unit_are_right_or_said_to_be_wrong(route, unit):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((20, 3)) + 1
    y = X @ [1.0, 2.0, 3.0] + rng.standard_normal(20)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = ROUTES[route](X, y, np.full(20, unit))
    error = abs(model.sequence_.gains.sum() / exact_value(X, y, np.ones(20), 1e-5) - 1)
    assert error < 1e-12 or any("digits" in str(w.message) for w in caught)
    if route in ("data", "columns", "lasso", "cross-validation") or unit >= 1e-300:
        assert error < 1e-12
        assert not caught


def test_moments_know_of_weights_too_small_for_their_digits():
    X, y = np.random.default_rng(0).standard_normal((20, 3)), np.arange(20.0)
    plain, tiny = Moments.from_data(X, y), Moments.from_data(X, y, np.full(20, 2.0**-1060))
    assert plain.eps < 1e-15 < tiny.eps < 1e-2
    assert plain.scaled(-1060).eps == tiny.eps


def test_weights_that_are_too_unequal_are_blamed_and_not_the_table():
    rng = np.random.default_rng(0)
    X, y, weight = rng.standard_normal((30, 3)), rng.standard_normal(30), np.ones(30)
    weight[4] = 1e305
    for fit in (AnytimeRegressor().fit, AnytimeRegressor(loss="poisson").fit, Moments.from_data):
        with pytest.raises(ValueError, match=r"^sample_weight is too unequal: .* spans"):
            fit(X, np.abs(y), weight)


def test_weights_too_large_to_add_up_are_blamed_and_not_the_table():
    X, y = np.random.default_rng(0).standard_normal((3, 2)) * 1e10, np.arange(3.0)
    with pytest.raises(ValueError, match=r"^sample_weight is too large: the weights add up to 9e\+307"):
        Moments.from_data(X, y, np.full(3, 3e307))
    part = Moments.from_data(X / 1e10, y, np.full(3, 3e307))
    with pytest.raises(ValueError, match=r"^moments of weights 9e\+307 and 9e\+307 add up"):
        part + part


def test_taking_a_dominating_part_away_is_known_to_cost_digits():
    X, y = np.random.default_rng(0).standard_normal((30, 3)), np.arange(30.0)
    heavy = Moments.from_data(X[:1], y[:1], [1e13])
    left = heavy + Moments.from_data(X[1:], y[1:]) - heavy
    assert left.eps > 1e-5


@pytest.mark.parametrize("fit", ["data", "source"])
@pytest.mark.parametrize("loss", ["poisson", "logistic"])
def test_gains_that_drown_in_the_risk_of_a_dominating_sample_are_reported(loss, fit):
    rng = np.random.default_rng(0)
    X, weight = rng.standard_normal((40, 2)), np.ones(40)
    y = rng.poisson(2.0, 40).astype(float) if loss == "poisson" else (np.arange(40) % 2).astype(float)
    model = AnytimeRegressor(loss="poisson", rule="omp", alpha=1e-3) if loss == "poisson" else (
        AnytimeClassifier(rule="omp", alpha=1e-3)
    )  # fmt: skip
    for weight[7], silent in ((1e4, True), (1e12, False)):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            if fit == "data":
                model.fit(X, y, sample_weight=weight)
            else:
                model.fit(open_data((X, y, weight), chunk_rows=15))
        assert ("digits of the gains can be trusted" in " ".join(str(w.message) for w in caught)) != silent


@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_a_dominating_weight_costs_a_generalised_model_no_digits(kind):
    """Rows of one dominating weight pin the model there; scales of columns are those of the others, seen from it."""
    rng = np.random.default_rng(0)
    X = np.where(rng.random((40, 3)) < 0.6, rng.standard_normal((40, 3)), 0.0)
    X[7] = [1.0, 2.0, 3.0]
    y, weight = rng.poisson(2.0, 40).astype(float), np.ones(40)
    weight[7] = 1e17
    table = sparse.csr_array(X) if kind == "sparse" else X
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the gains drown in the risk
        model = AnytimeRegressor(loss="poisson", alpha=1e-3).fit(table, y, sample_weight=weight)
    spread = np.sqrt(((X - X[7]) ** 2).sum(axis=0) / weight.sum())
    np.testing.assert_allclose(model.model_.stages.scale, spread, rtol=1e-9)


@pytest.mark.parametrize("seed", range(8))
def test_sparse_columns_far_from_zero_cost_a_generalised_model_no_digits(seed):
    """A column that stores all its rows has no zeros: the rounding of the weights must not count as some."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((60, 3)) + 1e4 * rng.standard_normal(3)
    y, weight = rng.poisson(np.exp(0.5 * (X[:, 0] - X[:, 0].mean()))).astype(float), rng.uniform(0.1, 2, 60)
    model = AnytimeRegressor(loss="poisson", rule="omp", alpha=1.0)
    scales, gains = [], []
    for table in (X, sparse.csr_array(X)):
        model.fit(table, y, sample_weight=weight)
        scales.append(model.model_.stages.scale)
        gains.append(np.cumsum(model.sequence_.gains))
    np.testing.assert_allclose(scales, [_exact_deviation(X, weight)] * 2, rtol=1e-13)
    np.testing.assert_allclose(gains[1], gains[0], rtol=1e-11)


def _exact_deviation(X, weight):
    total = sum(map(Fraction, weight))
    deviations = []
    for column in X.T:
        pairs = [(Fraction(w), Fraction(x)) for w, x in zip(weight, column, strict=True)]
        mean = sum(w * x for w, x in pairs) / total
        deviations.append(float(sum(w * (x - mean) ** 2 for w, x in pairs) / total) ** 0.5)
    return deviations


def test_a_constant_sparse_column_is_constant_however_many_rows_there_are():
    rng = np.random.default_rng(0)
    X = np.column_stack([np.full(20_000, 0.1), rng.random(20_000) < 0.3])
    y = rng.poisson(1 + X[:, 1]).astype(float)
    model = AnytimeRegressor(loss="poisson", rule="omp", alpha=0.0).fit(sparse.csr_array(X), y)
    assert np.isinf(model.model_.stages.scale[0])
    assert (model.coef_path_[:, 0] == 0).all()


@pytest.mark.parametrize("seed", range(6))
def test_rounded_means_do_not_hide_that_columns_are_dependent(seed):
    """Eight rows that count span seven directions; the rounding of a far mean must not look like an eighth."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((14, 9)) * 10.0 ** rng.uniform(-7, 3, 9) + 1
    y, weight = rng.standard_normal(14), np.where(np.arange(14) < 8, 1.0, 0.0)
    model = AnytimeRegressor(alpha=0.0).fit(X, y, sample_weight=weight)
    data = reference.standardise(X, y, weight)
    expected = data.y_mean + data.Xs @ reference.fit(data.Xs, data.Yc, data.w, range(9), 0.0)
    np.testing.assert_allclose(model.predict(X), expected[:, 0], atol=1e-5 * np.abs(expected).max())


def test_fits_in_many_threads_leave_blas_as_it_was():
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((200, 8)), rng.standard_normal(200)
    with threadpool_limits(2, user_api="blas"), ThreadPoolExecutor(4) as pool:
        before = blas_threads()
        models = list(pool.map(lambda _: AnytimeRegressor().fit(X, y), range(40)))
        assert blas_threads() == before
    assert all(np.array_equal(m.coef_, models[0].coef_) for m in models)
