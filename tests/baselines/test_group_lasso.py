"""The group lasso path: optimal by its own conditions, from data; equal to other solvers; and its staged models."""

import warnings

import numpy as np
import pytest
from paper_shapes import make_agricultural
from scipy.linalg import LinAlgWarning, block_diag
from sklearn.exceptions import ConvergenceWarning

from budgetline import AnytimeRegressor, FeatureGroups, FixedOrder, GroupLassoPath, Moments
from budgetline.baselines import group_penalty
from budgetline.baselines.lasso_path import lasso_path
from budgetline.leastsquares.gram import Gram

pytestmark = pytest.mark.quick_cases(5)

SIZES = [3, 1, 4, 2, 1, 5]
COSTS = np.array([2.0, 0.5, 3.0, 1.0, 0.7, 4.0])


def groups_of(sizes):
    ends = np.cumsum(sizes).tolist()
    return [list(range(end - size, end)) for end, size in zip(ends, sizes, strict=True)]


def make_data(seed=0, n=80, sizes=SIZES, P=None, noise=1.0, shared=0.5):
    rng = np.random.default_rng(seed)
    D = int(np.sum(sizes))
    X = rng.normal(size=(n, D)) + shared * rng.normal(size=(n, 1))
    coef = rng.normal(size=(D, P or 1)) * (rng.random((D, 1)) < 0.5)
    Y = X @ coef + noise * rng.normal(size=(n, P or 1))
    X = X * rng.uniform(0.1, 10, D) + rng.normal(size=D)
    return X, Y if P else Y[:, 0]


def standardised(X, Y, weight=None):
    """Columns and targets whose products are moments: rows carry the square root of their share of the weight."""
    share = np.full(len(X), 1 / len(X)) if weight is None else weight / weight.sum()
    Y = Y.reshape(len(Y), -1)
    X, Y = X - share @ X, Y - share @ Y
    scale = np.sqrt(share @ X**2)
    root = np.sqrt(share)[:, None]
    return root * (X / np.where(scale > 1e-9, scale, np.inf)), root * Y, scale


def kkt_errors(model, X, Y, groups, costs, alpha, weight=None):
    """Errors of the optimality conditions (L, groups), divided by λ·cost, for the coefficients that users see."""
    A, T, scale = standardised(X, Y, weight)
    errors = np.zeros((len(model.lambdas_), len(groups)))
    for k, value in enumerate(model.lambdas_):
        w = (model.path_coef_[k] * scale).reshape(-1, X.shape[1]).T
        r = A.T @ (T - A @ w) - alpha * w
        for g, columns in enumerate(groups):
            kappa, size = value * costs[g], np.linalg.norm(w[columns])
            if size > 0:
                errors[k, g] = np.linalg.norm(r[columns] - kappa * w[columns] / size)
            else:
                errors[k, g] = max(np.linalg.norm(r[columns]) - kappa, 0.0)
            errors[k, g] /= kappa if kappa > 0 else 1.0
    return errors


def fitted(X, Y, sizes=SIZES, costs=COSTS, **settings):
    return GroupLassoPath(groups_of(sizes), costs, **settings).fit(X, Y)


# -- the conditions of optimality, from data -----------------------------------------------------------------


@pytest.mark.parametrize("P", [None, 1, 3])
@pytest.mark.parametrize("alpha", [0.0, 1e-5, 0.3])
@pytest.mark.parametrize("seed", range(3))
def test_every_point_of_the_path_is_optimal(seed, alpha, P):
    X, Y = make_data(seed, P=P)
    model = fitted(X, Y, alpha=alpha)
    assert model.lambdas_.shape == model.dual_gaps_.shape == (100,)
    assert model.path_coef_.shape == ((100, 16) if P is None else (100, P, 16))
    assert kkt_errors(model, X, Y, groups_of(SIZES), COSTS, alpha).max() < 1e-8


@pytest.mark.parametrize(
    "case",
    [
        {"n": 12, "alpha": 0.0},
        {"sizes": [1] * 16, "costs": 10 ** np.linspace(-1, 1, 16), "n": 10, "alpha": 0.0, "noise": 0.0},
        {"shared": 30.0, "alpha": 1e-5},
        {"sizes": [16], "costs": [3.0]},
        {"sizes": [1], "costs": [3.0]},
        {"costs": 10.0 ** np.arange(-3, 3)},
        {"P": 5, "n": 10, "alpha": 0.0, "noise": 0.0},
    ],
    ids=["n < D", "lasso, n < D", "nearly one factor", "one group", "one feature", "costs", "targets"],
)
def test_hard_data(case):
    case = {"sizes": SIZES, "costs": COSTS, "alpha": 1e-5} | case
    costs, alpha, sizes = case.pop("costs"), case.pop("alpha"), case["sizes"]
    for seed in range(3):
        X, Y = make_data(seed, **case)
        model = fitted(X, Y, sizes, costs, alpha=alpha, lambda_ratio=1e-4)
        assert kkt_errors(model, X, Y, groups_of(sizes), np.asarray(costs), alpha).max() < 1e-8


def test_a_group_that_blocks_the_others():
    """More nonzero groups than rows along the way: Newton's steps are cut short by groups that must leave."""
    rng = np.random.default_rng(0)
    X = np.sqrt(0.1) * rng.normal(size=(50, 150)) + np.sqrt(0.9) * rng.normal(size=(50, 1))
    y = X @ (rng.normal(size=150) * (rng.random(150) < 0.1))
    costs = 10 ** rng.uniform(-1, 1, 150)
    model = GroupLassoPath(costs=costs, alpha=0.0, lambda_ratio=1e-4).fit(X, y)
    assert kkt_errors(model, X, y, groups_of([1] * 150), costs, 0.0).max() < 1e-8


def test_agricultural():
    field = make_agricultural(1_000, random_state=0)
    model = GroupLassoPath(field.feature_groups, n_lambdas=30).fit(field.data, field.target)
    groups = [list(c) for c in field.feature_groups.resolve(None, 328).columns]
    errors = kkt_errors(model, field.data, field.target.astype(float), groups, field.feature_groups.costs, 1e-5)
    assert errors.max() < 1e-8


@pytest.mark.parametrize("P", [None, 2])
def test_gaps_are_those_of_the_data(P):
    X, Y = make_data(1, P=P)
    alpha, groups = 0.01, groups_of(SIZES)
    model = fitted(X, Y, alpha=alpha, tol=0.05, n_lambdas=40)  # loose, so that there is a gap to see
    A, T, scale = standardised(X, Y)
    D, P = X.shape[1], T.shape[1]
    A, T = np.vstack([A, np.sqrt(alpha) * np.eye(D)]), np.vstack([T, np.zeros((D, P))])
    for k, value in enumerate(model.lambdas_):
        w = (model.path_coef_[k] * scale).reshape(P, D).T
        residual = T - A @ w
        penalty = value * sum(c * np.linalg.norm(w[g]) for c, g in zip(COSTS, groups, strict=True))
        primal = (residual**2).sum() / 2 + penalty
        limits = [value * c / np.linalg.norm((A.T @ residual)[g]) for c, g in zip(COSTS, groups, strict=True)]
        point = min(1.0, *limits) * residual
        dual = (T**2).sum() / 2 - ((T - point) ** 2).sum() / 2
        np.testing.assert_allclose(model.dual_gaps_[k], primal - dual, atol=1e-13)
    assert 1e-6 < model.dual_gaps_.max() < 0.05 * (T**2).sum() / 2
    assert fitted(X, Y, alpha=alpha).dual_gaps_.max() < 1e-9 * (T**2).sum() / 2


# -- other solvers -------------------------------------------------------------------------------------------


def augmented(X, Y, alpha):
    """Data for solvers of 1/(2n)‖y − Xw‖² + penalty without a ridge: it becomes rows."""
    A, T, scale = standardised(X, Y)
    n, D = len(X) + X.shape[1], X.shape[1]
    A = np.asfortranarray(np.sqrt(n) * np.vstack([A, np.sqrt(alpha) * np.eye(D)]))
    return A, np.sqrt(n) * np.vstack([T, np.zeros((D, T.shape[1]))])[:, 0], scale


@pytest.mark.parametrize("alpha", [0.0, 0.1])
def test_celer_agrees(alpha):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from celer import GroupLasso
    X, y = make_data(3)
    model = fitted(X, y, alpha=alpha, n_lambdas=8, lambda_ratio=0.01)
    A, t, scale = augmented(X, y, alpha)
    for value, coef in zip(model.lambdas_[1:], model.path_coef_[1:], strict=True):
        theirs = GroupLasso(groups_of(SIZES), alpha=value, weights=COSTS, fit_intercept=False, tol=1e-13)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it says that it cannot get below rounding
            theirs.fit(A, t)
        np.testing.assert_allclose(coef * scale, theirs.coef_, atol=1e-9)


def test_skglm_agrees(monkeypatch):
    monkeypatch.setattr("numba.config.DISABLE_JIT", True)  # compiling takes far longer than running
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from skglm.datafits import QuadraticGroup
        from skglm.penalties import WeightedGroupL2
        from skglm.solvers import GroupBCD
        from skglm.utils.data import grp_converter
    X, y = make_data(4)
    model = fitted(X, y, alpha=0.1, n_lambdas=4, lambda_ratio=0.05)
    A, t, scale = augmented(X, y, 0.1)
    indices, pointers = grp_converter(groups_of(SIZES), A.shape[1])
    for value, coef in zip(model.lambdas_[1:], model.path_coef_[1:], strict=True):
        penalty = WeightedGroupL2(value, COSTS, pointers, indices)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            theirs = GroupBCD(tol=1e-12, max_iter=2000).solve(A, t, QuadraticGroup(pointers, indices), penalty)[0]
        np.testing.assert_allclose(coef * scale, theirs, atol=1e-11)


@pytest.mark.parametrize("P", [None, 2])
def test_proximal_gradient_agrees(P):
    X, Y = make_data(5, P=P)
    model = fitted(X, Y, alpha=0.05, n_lambdas=5, lambda_ratio=0.03)
    A, T, scale = standardised(X, Y)
    C, b = A.T @ A + 0.05 * np.eye(16), A.T @ T
    step = 1 / np.linalg.eigvalsh(C)[-1]
    w = np.zeros_like(b)
    for value, coef in zip(model.lambdas_, model.path_coef_, strict=True):
        for _ in range(1000):
            w = w + step * (b - C @ w)
            for g, columns in enumerate(groups_of(SIZES)):
                size = np.linalg.norm(w[columns])
                w[columns] *= max(0.0, 1 - step * value * COSTS[g] / size) if size else 0.0
        np.testing.assert_allclose((coef * scale).reshape(-1, 16).T, w, atol=1e-9)


def test_orthonormal_columns_have_a_closed_form():
    rng = np.random.default_rng(0)
    Q = np.linalg.qr(np.column_stack([np.ones(64), rng.normal(size=(64, 16))]))[0][:, 1:] * 8
    y = Q @ rng.normal(size=16) + rng.normal(size=64)
    model = fitted(Q, y, alpha=0.25)
    b = Q.T @ (y - y.mean()) / 64
    sizes = np.array([np.linalg.norm(b[g]) for g in groups_of(SIZES)])
    np.testing.assert_allclose(model.lambdas_[0], (sizes / COSTS).max())
    shrink = np.maximum(1 - model.lambdas_[:, None] * COSTS / sizes, 0.0)
    np.testing.assert_allclose(model.path_coef_, np.repeat(shrink, SIZES, axis=1) * b / 1.25, atol=1e-9)
    assert model.order_.tolist() == np.argsort(-sizes / COSTS).tolist()


# -- special cases -------------------------------------------------------------------------------------------


def test_free_groups_are_not_penalised_and_come_first():
    X, y = make_data(6)
    costs = np.where(np.arange(6) % 3 == 2, 0.0, COSTS)  # groups 2 and 5
    model = fitted(X, y, costs=costs, alpha=1e-3)
    assert kkt_errors(model, X, y, groups_of(SIZES), costs, 1e-3).max() < 1e-8
    assert set(model.order_[:2].tolist()) == {2, 5}
    assert np.isinf(model.entry_lambdas_[[2, 5]]).all()
    alone = [
        AnytimeRegressor(groups_of(SIZES), schedule=FixedOrder([g]), alpha=1e-3).fit(X, y).sequence_.gains[0]
        for g in model.order_[:2]
    ]
    assert alone[0] > alone[1]
    free = AnytimeRegressor(groups_of(SIZES), schedule=FixedOrder([2, 5]), alpha=1e-3).fit(X, y)
    np.testing.assert_allclose(model.path_coef_[0], free.coef_, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("refit", [True, False])
def test_all_groups_free(refit):
    X, y = make_data(7)
    model = fitted(X, y, costs=np.zeros(6), refit=refit)
    expected = AnytimeRegressor(groups_of(SIZES), schedule=FixedOrder(model.order_.tolist())).fit(X, y)
    np.testing.assert_allclose(model.path_coef_, np.tile(expected.coef_, (100, 1)), rtol=1e-8)
    np.testing.assert_allclose(model.coef_path_, expected.coef_path_, rtol=1e-8, atol=1e-12)
    assert (model.lambdas_ == 0).all()
    ignoring = fitted(X, y, costs=np.zeros(6), cost_sensitive=False)
    assert np.isfinite(ignoring.entry_lambdas_).any()


def test_a_copy_of_a_free_group_never_enters():
    X, y = make_data(7, sizes=[2, 3])
    X = np.hstack([X, 2 * X[:, :2] - 1])
    model = fitted(X, y, sizes=[2, 3, 2], costs=[0.0, 1.0, 2.0], alpha=0.0)
    assert model.order_.tolist() == [0, 1, 2]
    assert np.isnan(model.entry_lambdas_[2])
    assert (model.path_coef_[:, 5:] == 0).all()


@pytest.mark.parametrize("copy_cost", [2.0, 5.0])
def test_copies_of_a_group(copy_cost):
    X, y = make_data(8)
    X = np.hstack([X, X[:, :3]])
    costs = np.append(COSTS, copy_cost)  # 2.0: as the original, so the solution is not unique
    sizes = [*SIZES, 3]
    model = fitted(X, y, sizes=sizes, costs=costs, alpha=0.0)
    assert kkt_errors(model, X, y, groups_of(sizes), costs, 0.0).max() < 1e-8
    without = fitted(X[:, :16], y, alpha=0.0)
    np.testing.assert_allclose(
        X @ model.path_coef_.T + model.path_intercept_,
        X[:, :16] @ without.path_coef_.T + without.path_intercept_,
        atol=1e-6,
    )
    if copy_cost > 2:
        assert np.isnan(model.entry_lambdas_[6])
        assert model.order_[-1] == 6


def test_constant_columns_have_no_coefficients():
    X, y = make_data(9)
    X[:, [0, 3, 11]] = 7.0  # 3 is a group of its own
    model = fitted(X, y, alpha=0.0)
    assert (model.path_coef_[:, [0, 3, 11]] == 0).all()
    assert kkt_errors(model, X, y, groups_of(SIZES), COSTS, 0.0).max() < 1e-8
    assert np.isnan(model.entry_lambdas_[1])


@pytest.mark.parametrize("refit", [True, False])
def test_nothing_to_explain(refit):
    X, _ = make_data(10)
    model = fitted(X, np.full(80, 3.5), refit=refit)
    assert (model.lambdas_ == 0).all()
    assert (model.path_coef_ == 0).all()
    assert (model.dual_gaps_ == 0).all()
    assert len(model.order_) == 6
    np.testing.assert_allclose(model.predict(X), 3.5)


def test_one_lambda_is_the_largest():
    X, y = make_data(11)
    model = fitted(X, y, n_lambdas=1, refit=False)
    assert (model.path_coef_ == 0).all()
    assert (model.coef_ == 0).all()
    grid = fitted(X, y, n_lambdas=4, lambda_ratio=1 / 8).lambdas_
    np.testing.assert_allclose(grid / model.lambdas_[0], [1, 1 / 2, 1 / 4, 1 / 8])


def test_no_convergence_is_reported(monkeypatch):
    monkeypatch.setattr(group_penalty, "MAX_ITERATIONS", 1)
    with pytest.warns(ConvergenceWarning, match=r"at lambda=.*duality gap .*Raise alpha"):
        fitted(*make_data(0), n_lambdas=2)


# -- invariance ----------------------------------------------------------------------------------------------


def test_ten_times_the_costs_is_a_tenth_of_lambda():
    X, y = make_data(13)
    one, ten = fitted(X, y), fitted(X, y, costs=10 * COSTS)
    np.testing.assert_allclose(ten.lambdas_, one.lambdas_ / 10)
    np.testing.assert_allclose(ten.path_coef_, one.path_coef_, rtol=1e-7, atol=1e-9)
    assert ten.order_.tolist() == one.order_.tolist()


def test_costs_do_not_count_unless_asked():
    X, y = make_data(14)
    blind = fitted(X, y, cost_sensitive=False)
    np.testing.assert_array_equal(blind.path_coef_, fitted(X, y, costs=np.ones(6)).path_coef_)
    np.testing.assert_array_equal(blind.sequence_.costs, COSTS[blind.order_])


def test_units_do_not_matter():
    X, y = make_data(15)
    rng = np.random.default_rng(0)
    scale, shift = rng.uniform(0.01, 100, 16), rng.normal(size=16)
    one, other = fitted(X, y), fitted(X * scale + shift, 1e-9 * y)
    np.testing.assert_allclose(other.path_coef_ * scale, 1e-9 * one.path_coef_, rtol=1e-6, atol=1e-17)
    np.testing.assert_allclose(other.predict(X * scale + shift), 1e-9 * one.predict(X), rtol=1e-9)


def test_rotation_within_groups_turns_the_coefficients():
    A, T, _ = standardised(*make_data(16))
    rng = np.random.default_rng(0)
    Q = block_diag(*(np.linalg.qr(rng.normal(size=(s, s)))[0] for s in SIZES))
    sizes, grid = np.array(SIZES), (30, 1e-3)
    one = lasso_path(Gram(A.T @ A, A.T @ T, (T**2).sum(axis=0)), sizes, COSTS, grid)
    B = A @ Q
    other = lasso_path(Gram(B.T @ B, B.T @ T, (T**2).sum(axis=0)), sizes, COSTS, grid)
    np.testing.assert_allclose(other.coefs @ Q.T, one.coefs, atol=1e-8)


def test_weights_are_repetitions():
    X, y = make_data(17)
    weight = np.random.default_rng(0).integers(0, 4, 80)
    weighted = GroupLassoPath(groups_of(SIZES), COSTS).fit(X, y, sample_weight=weight)
    repeated = fitted(np.repeat(X, weight, axis=0), np.repeat(y, weight))
    np.testing.assert_allclose(weighted.path_coef_, repeated.path_coef_, rtol=1e-6, atol=1e-9)
    assert weighted.order_.tolist() == repeated.order_.tolist()
    assert kkt_errors(weighted, X, y, groups_of(SIZES), COSTS, 1e-5, weight).max() < 1e-8


def test_moments_are_enough():
    X, Y = make_data(18, P=2)
    for refit in (True, False):
        model = fitted(X, Y, refit=refit)
        merged = Moments.from_data(X[:30], Y[:30]) + Moments.from_data(X[30:], Y[30:])
        again = GroupLassoPath(groups_of(SIZES), COSTS, refit=refit).fit_moments(merged)
        np.testing.assert_allclose(again.path_coef_, model.path_coef_, rtol=1e-6, atol=1e-10)
        np.testing.assert_allclose(again.coef_path_, model.coef_path_, rtol=1e-6, atol=1e-10)
    with pytest.raises(TypeError, match="moments must be Moments, got ndarray"):
        GroupLassoPath().fit_moments(X)


def test_ill_conditioned_moments_are_refitted_from_data():
    X, y = make_data(19)
    X[:, 4] = X[:, 0] + 1e-7 * X[:, 4]
    model = fitted(X, y, alpha=0.0)
    exact = AnytimeRegressor(groups_of(SIZES), COSTS, schedule=FixedOrder(model.order_.tolist()), alpha=0.0).fit(X, y)
    np.testing.assert_array_equal(model.coef_path_, exact.coef_path_)
    with pytest.warns(LinAlgWarning, match="ill conditioned"):
        GroupLassoPath(groups_of(SIZES), COSTS, alpha=0.0).fit_moments(Moments.from_data(X, y))


# -- order and staged models ---------------------------------------------------------------------------------


@pytest.mark.parametrize("n_lambdas", [5, 100])
def test_the_order_is_that_of_first_entry(n_lambdas):
    X, y = make_data(20)
    model = fitted(X, y, n_lambdas=n_lambdas, lambda_ratio=0.05)
    A, T, scale = standardised(X, y)
    inside = np.array([[np.any(coef[g] != 0) for g in groups_of(SIZES)] for coef in model.path_coef_])
    first = np.where(inside.any(axis=0), inside.argmax(axis=0), n_lambdas)
    entry = np.append(model.lambdas_, np.nan)[first]
    np.testing.assert_array_equal(model.entry_lambdas_, entry)
    keys = []
    for g, columns in enumerate(groups_of(SIZES)):
        w = model.path_coef_[first[g] - 1] * scale
        near = np.linalg.norm((A.T @ (T[:, 0] - A @ w) - 1e-5 * w)[columns]) / COSTS[g]
        keys.append((first[g], -near))
    assert model.order_.tolist() == sorted(range(6), key=keys.__getitem__)
    if n_lambdas == 5:
        assert len(set(first.tolist())) < 6, "no two groups enter at once: the test is void"


def test_a_finer_grid_tells_groups_apart_that_enter_at_once():
    X, y = make_data(21)
    fine = fitted(X, y, n_lambdas=1000)
    assert len(set(fine.entry_lambdas_.tolist())) == 6
    assert fitted(X, y, n_lambdas=100).order_.tolist() == fine.order_.tolist()


@pytest.mark.parametrize("P", [None, 2])
def test_refitted_stages_are_least_squares_in_that_order(P):
    X, Y = make_data(22, P=P)
    model = fitted(X, Y, alpha=0.01)
    same = AnytimeRegressor(groups_of(SIZES), COSTS, schedule=FixedOrder(model.order_.tolist()), alpha=0.01).fit(X, Y)
    assert model.sequence_.groups == same.sequence_.groups
    np.testing.assert_allclose(model.coef_path_, same.coef_path_, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(model.intercept_path_, same.intercept_path_, rtol=1e-9)
    np.testing.assert_allclose(model.sequence_.gains, same.sequence_.gains, rtol=1e-9)
    for keywords in ({"budget": 4.0}, {"stage": 2}, {"stage": 0}, {"available": ["1", "4"]}, {}):
        np.testing.assert_allclose(model.predict(X, **keywords), same.predict(X, **keywords), rtol=1e-7)


@pytest.mark.parametrize("n_lambdas", [6, 100])
def test_shrunken_stages_are_points_of_the_path(n_lambdas):
    X, y = make_data(23)
    model = fitted(X, y, refit=False, n_lambdas=n_lambdas, lambda_ratio=0.02)
    groups = groups_of(SIZES)
    for j in range(1, 7):
        later = [d for g in model.order_[j:] for d in groups[g]]
        # the last solution before any later group has been nonzero
        clean = np.cumsum(np.any(model.path_coef_[:, later] != 0, axis=1)) == 0
        k = np.flatnonzero(clean)[-1]
        np.testing.assert_array_equal(model.coef_path_[j - 1], model.path_coef_[k])
        assert model.intercept_path_[j - 1] == model.path_intercept_[k]
        np.testing.assert_allclose(
            model.predict(X, stage=j), X @ model.path_coef_[k] + model.path_intercept_[k], rtol=1e-9
        )
    assert len(list(model.staged_predict(X))) == 6
    refitted = fitted(X, y, n_lambdas=n_lambdas, lambda_ratio=0.02)
    assert model.sequence_.groups == refitted.sequence_.groups
    errors = [np.mean((y - p) ** 2) for p in (np.full_like(y, y.mean()), *model.staged_predict(X))]
    np.testing.assert_allclose(model.sequence_.gains, -np.diff(errors) / 2, atol=1e-10)
    prefix = model.sequence_.groups[:3]
    np.testing.assert_array_equal(model.predict(X, available=prefix), model.predict(X, stage=3))
    other = model.sequence_.groups[1:4]
    np.testing.assert_array_equal(model.predict(X, available=other), refitted.predict(X, available=other))


def test_shrunken_stages_of_free_groups_are_refitted():
    X, y = make_data(24)
    costs = np.where(np.arange(6) % 2 == 0, 0.0, COSTS)
    model, refitted = fitted(X, y, costs=costs, refit=False), fitted(X, y, costs=costs)
    np.testing.assert_array_equal(model.coef_path_[:2], refitted.coef_path_[:2])
    np.testing.assert_array_equal(model.coef_path_[-1], model.path_coef_[-1])
    later = [d for g in model.order_[3:] for d in groups_of(SIZES)[g]]
    assert (model.coef_path_[2][later] == 0).all()


def test_columns_outside_all_groups_have_no_coefficients():
    X, y = make_data(25)
    members = groups_of(SIZES)[1:4]
    model = GroupLassoPath(FeatureGroups(members, remainder="drop"), n_lambdas=10).fit(X, y)
    used = np.isin(np.arange(16), np.concatenate(members))
    assert model.path_coef_.shape == (10, 16)
    assert (model.path_coef_[:, ~used] == 0).all()
    alone = GroupLassoPath([np.arange(1), np.arange(1, 5), np.arange(5, 7)], n_lambdas=10).fit(X[:, used], y)
    np.testing.assert_allclose(model.path_coef_[:, used], alone.path_coef_)
    np.testing.assert_allclose(model.path_intercept_, alone.path_intercept_)
