"""Generalised linear models against brute force, other libraries, and the linear path, by all engines."""

import warnings

import numpy as np
import pytest
import reference
import reference_glm
from engines import ENGINES, engines_for, fit_with
from scipy import sparse
from seeds import seeds
from sklearn.linear_model import LogisticRegression, PoissonRegressor
from sklearn.metrics import log_loss

from budgetline import AnytimeClassifier, AnytimeRegressor, FeatureGroups
from budgetline.datasets import load_heart
from budgetline.glm import ConvexLoss

RULES = ["forward", "omp", "score", "no-whiten", "single"]
FAMILIES = ["logistic", "softmax", "poisson"]
SQUARED = ConvexLoss(lambda eta: eta**2 / 2, lambda eta: eta, np.ones_like)


def random_problem(seed, family, *, n=None):
    """Ragged shuffled groups, correlated columns far from zero, weights, now and then free or equal costs."""
    rng = np.random.default_rng(seed)
    J = int(rng.integers(1, 7))
    sizes = rng.integers(1, 4, J)
    D = int(sizes.sum())
    n = int(rng.integers(D + 20, 80)) if n is None else n
    X = rng.standard_normal((n, D)) @ rng.standard_normal((D, D))
    scores = 1.5 * (X / X.std(axis=0)) @ rng.standard_normal((D, 3)) / np.sqrt(D)
    X += 3 * rng.standard_normal(D)
    groups = [list(map(int, g)) for g in np.split(rng.permutation(D), np.cumsum(sizes)[:-1])]
    costs = rng.choice([0.0, 1, 2, 3, 5.5], J) if seed % 3 == 0 else rng.uniform(0.1, 3, J)
    weight = rng.uniform(0, 2, n) if seed % 2 else None
    if family == "logistic":
        y = (scores[:, 0] + rng.logistic(size=n) > 0).astype(int)
        y[:2] = 0, 1
    elif family == "softmax":
        y = (scores + rng.gumbel(size=scores.shape)).argmax(axis=1)
        y[:3] = 0, 1, 2
    else:
        y = rng.poisson(np.exp(scores[:, 0])).astype(float)
        y[0] += 1
    return X, y, groups, costs, weight


def make(family, *args, **settings):
    if family == "poisson":
        return AnytimeRegressor(*args, loss="poisson", **settings)
    return AnytimeClassifier(*args, **settings)


def paths(model):
    """Return coefficients (stages, P, D) and intercepts (stages, P)."""
    stages = len(model.order_)
    return model.coef_path_.reshape(stages, -1, model.n_features_in_), model.intercept_path_.reshape(stages, -1)


def assert_close(found, truth, digits=1e-8):
    np.testing.assert_allclose(found, truth, rtol=0, atol=digits * max(1.0, np.abs(truth).max()))


# -- the brute-force reference --------------------------------------------------------------------------------


@pytest.mark.quick_cases(6)
@pytest.mark.parametrize("schedule", ["greedy", pytest.param("doubling", marks=pytest.mark.slow)])
@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("portion", seeds(3, 24))
def test_orders_and_stages_equal_the_brute_force_reference(family, rule, schedule, portion):
    for seed in portion:
        X, y, groups, costs, weight = random_problem(seed, family)
        alpha, sensitive = [1e-5, 1e-2, 0.1][seed % 3], seed % 4 != 1
        settings = {"rule": rule, "schedule": schedule, "alpha": alpha, "cost_sensitive": sensitive}
        Y = np.eye(3)[y] if family == "softmax" else y
        truth = reference_glm.sequence(family, X, Y, groups, costs, sample_weight=weight, **settings)
        totals = np.cumsum(truth["gains"])
        for engine in engines_for(rule):
            model = fit_with(engine, make(family, groups, costs, **settings), X, y, weight)
            assert model.order_.tolist() == truth["order"], (engine, seed, truth["margins"])
            coef, intercept = paths(model)
            assert_close(coef, truth["coefs"])
            assert_close(intercept, truth["intercepts"])
            found = np.cumsum(model.sequence_.gains)
            np.testing.assert_allclose(found, totals, rtol=1e-11, atol=1e-13 * truth["null"])
            np.testing.assert_allclose(model.sequence_.explained, totals / truth["null"], rtol=1e-11, atol=1e-13)


@pytest.mark.quick_cases(2)
@pytest.mark.parametrize("schedule", ["greedy", pytest.param("doubling", marks=pytest.mark.slow)])
@pytest.mark.parametrize("rule", RULES)
def test_squared_error_as_a_family_equals_the_brute_force_reference(rule, schedule):
    """There ``score`` is ``forward``."""
    for seed in range(12):
        X, y, groups, costs, weight = random_problem(seed, "poisson")
        settings = {"rule": rule, "schedule": schedule, "alpha": 1e-2}
        truth = reference_glm.sequence("squared", X, y, groups, costs, sample_weight=weight, **settings)
        for engine in engines_for(rule):
            model = fit_with(engine, AnytimeRegressor(groups, costs, loss=SQUARED, **settings), X, y, weight)
            assert model.order_.tolist() == truth["order"]
            assert_close(paths(model)[0], truth["coefs"], 1e-10)


def test_the_two_references_agree_on_squared_error():
    for seed in range(6):
        X, y, groups, costs, weight = random_problem(seed, "poisson")
        for rule in ("forward", "omp", "no-whiten", "single"):
            glm = reference_glm.sequence("squared", X, y, groups, costs, rule=rule, alpha=1e-2, sample_weight=weight)
            linear = reference.sequence(X, y, groups, costs, rule=rule, alpha=1e-2, sample_weight=weight)
            assert glm["order"] == linear["order"]
            assert_close(glm["coefs"][:, 0], linear["coefs"], 1e-11)
            np.testing.assert_allclose(glm["null"], linear["R0"], rtol=1e-12)


def heavy_tailed(seed, n=200):
    """A column that separates the classes with a few huge values, and an ordinary good one.

    The huge values make the curvature large and the step of one Newton iteration short, so that its gain says little
    of the exact one.
    """
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 2, n)
    sign = 2 * y - 1
    return np.column_stack([0.8 * sign + rng.standard_normal(n), sign * np.exp(3 * rng.standard_normal(n))]), y


@pytest.mark.parametrize("seed", range(20))
def test_forward_regression_is_exact_for_heavy_tailed_columns(seed):
    X, y = heavy_tailed(seed)
    model = AnytimeClassifier(max_groups=1).fit(X, y)
    alone = [AnytimeClassifier().fit(X[:, [d]], y).sequence_.gains[0] for d in range(2)]
    assert model.order_[0] == np.argmax(alone), alone


def test_forward_regression_with_free_groups_and_a_large_deviance():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((100, 4))
    y = rng.poisson(np.exp(3 + 1.5 * X[:, 1])).astype(float)
    assert AnytimeRegressor(None, [0, 0, 1, 2], loss="poisson").fit(X, y).order_[0] == 1


@pytest.mark.quick_cases(4)
@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("family", FAMILIES)
def test_ties_go_to_the_cheaper_and_then_to_the_first(family, rule):
    for seed in range(1, 8, 3):
        X, y, groups, _, weight = random_problem(seed, family)
        J, D = len(groups), X.shape[1]
        twice = groups + [[d + D for d in g] for g in groups]
        costs = np.concatenate([np.full(J, 2.0), np.where(np.arange(J) % 2, 1.0, 2.0)])
        for engine in engines_for(rule):
            model = fit_with(engine, make(family, twice, costs, rule=rule, alpha=0.1), np.hstack([X, X]), y, weight)
            place = np.argsort(model.order_)
            for g in range(J):
                assert (place[g] < place[g + J]) == (g % 2 == 0)


# -- other libraries ------------------------------------------------------------------------------------------


def standardised(X, weight):
    data = reference.standardise(X, np.zeros(len(X)), weight)
    return data.Xs, data.x_mean, data.x_scale


def prefixes(model, groups):
    for j in range(len(model.order_)):
        yield j, np.concatenate([groups[g] for g in model.order_[: j + 1]])


def in_user_units(coef, intercept, columns, mean, scale, D):
    full = np.zeros((*np.shape(coef)[:-1], D))
    full[..., columns] = coef / scale[columns]
    return full, intercept - full @ mean


@pytest.mark.parametrize("solver", ["newton-cholesky", "lbfgs"])
@pytest.mark.parametrize("family", ["logistic", "softmax"])
def test_every_stage_equals_scikit_learns_logistic_regression(family, solver):
    """C = 1/(alpha·Σw) on standardised data; its lbfgs ends 1e-7 to 1e-6 away, so it is held to 5e-6."""
    for seed in range(3):
        X, y, groups, costs, weight = random_problem(seed, family)
        total = len(X) if weight is None else weight.sum()
        model = AnytimeClassifier(groups, costs, rule="omp", alpha=1e-2).fit(X, y, sample_weight=weight)
        Xs, mean, scale = standardised(X, weight)
        coefs, intercepts = paths(model)
        for j, columns in prefixes(model, groups):
            other = LogisticRegression(C=1 / (1e-2 * total), solver=solver, tol=1e-14, max_iter=5000)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # that the tolerance is out of reach
                other.fit(Xs[:, columns], y, sample_weight=weight)
            truth = in_user_units(other.coef_, other.intercept_, columns, mean, scale, X.shape[1])
            centred = truth[1] - truth[1].mean() if family == "softmax" else truth[1]
            own = intercepts[j] - intercepts[j].mean() if family == "softmax" else intercepts[j]
            digits = 1e-8 if solver == "newton-cholesky" else 5e-6
            assert_close(coefs[j], truth[0] - (truth[0].mean(axis=0) if family == "softmax" else 0), digits)
            assert_close(own, centred, digits)


def test_every_stage_equals_scikit_learns_poisson_regression():
    """The same objective and the same alpha: 1/(2Σw) Σ w·deviance + alpha/2 ‖w‖²."""
    for seed in range(4):
        X, y, groups, costs, weight = random_problem(seed, "poisson")
        model = AnytimeRegressor(groups, costs, rule="omp", alpha=1e-2, loss="poisson").fit(X, y, sample_weight=weight)
        Xs, mean, scale = standardised(X, weight)
        coefs, intercepts = paths(model)
        for j, columns in prefixes(model, groups):
            other = PoissonRegressor(alpha=1e-2, solver="newton-cholesky", tol=1e-14, max_iter=1000)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                other.fit(Xs[:, columns], y, sample_weight=weight)
            coef, intercept = in_user_units(other.coef_, other.intercept_, columns, mean, scale, X.shape[1])
            assert_close(coefs[j, 0], coef)
            assert_close(intercepts[j, 0], intercept)


@pytest.mark.parametrize(("family", "name"), [("logistic", "binomial"), ("poisson", "poisson")])
def test_every_stage_equals_glum(family, name):
    glum = pytest.importorskip("glum")
    for seed in range(3):
        X, y, groups, costs, weight = random_problem(seed, family)
        model = make(family, groups, costs, rule="score", alpha=1e-2).fit(X, y, sample_weight=weight)
        Xs, mean, scale = standardised(X, weight)
        coefs, intercepts = paths(model)
        for j, columns in prefixes(model, groups):
            other = glum.GeneralizedLinearRegressor(
                family=name, alpha=1e-2, l1_ratio=0, solver="irls-ls", gradient_tol=1e-13, max_iter=1000
            )
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                other.fit(Xs[:, columns], y.astype(float), sample_weight=weight)
            coef, intercept = in_user_units(other.coef_, other.intercept_, columns, mean, scale, X.shape[1])
            assert_close(coefs[j, 0], coef)
            assert_close(intercepts[j, 0], intercept)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("family", FAMILIES)
def test_without_ridge_every_stage_equals_statsmodels(family, engine):
    api = pytest.importorskip("statsmodels.api")
    rng = np.random.default_rng(0)
    X = rng.standard_normal((150, 5)) * [1, 2, 3, 4, 5] + 10
    _, y, *_ = random_problem(1, family, n=150)
    groups = [[3, 0], [1], [4, 2]]
    model = fit_with(engine, make(family, groups, [1, 2, 3], rule="omp", alpha=0.0), X, y)
    coefs, intercepts = paths(model)
    for j, columns in prefixes(model, groups):
        Z = api.add_constant(X[:, columns] - 10)
        if family == "softmax":
            found = np.asarray(api.MNLogit(y, Z).fit(method="newton", disp=0, maxiter=100, tol=1e-14).params).T
            slopes, levels = (coefs[j] - coefs[j][0])[1:], (intercepts[j] - intercepts[j][0])[1:]
        else:
            links = api.families.Binomial() if family == "logistic" else api.families.Poisson()
            found = np.asarray(api.GLM(y, Z, family=links).fit(tol=1e-14, maxiter=200).params)[None]
            slopes, levels = coefs[j], intercepts[j]
        assert_close(slopes[:, columns], found[:, 1:])
        assert_close(levels + 10 * slopes.sum(axis=1), found[:, 0])


# -- the linear path ------------------------------------------------------------------------------------------


@pytest.mark.quick_cases(3)
@pytest.mark.parametrize("loss", [SQUARED, ConvexLoss(lambda eta: eta**2 / 2, lambda eta: eta)])
@pytest.mark.parametrize("rule", RULES)
def test_squared_error_as_a_family_equals_the_linear_path(rule, loss):
    for seed in range(12):
        X, y, groups, costs, weight = random_problem(seed, "poisson")
        settings = {"rule": rule, "alpha": [0.0, 1e-5, 1e-1][seed % 3]}
        linear = AnytimeRegressor(groups, costs, **settings).fit(X, y, sample_weight=weight)
        family = AnytimeRegressor(groups, costs, loss=loss, **settings).fit(X, y, sample_weight=weight)
        assert family.order_.tolist() == linear.order_.tolist()
        assert_close(family.coef_path_, linear.coef_path_, 1e-10)
        assert_close(family.intercept_path_, linear.intercept_path_, 1e-10)
        np.testing.assert_allclose(family.sequence_.explained, linear.sequence_.explained, atol=1e-11)
        rng = np.random.default_rng(seed)
        for _ in range(4):  # squared error is exact for every subset
            subset = [str(g) for g in range(len(groups)) if rng.random() < 0.5]
            assert_close(family.predict(X, available=subset), linear.predict(X, available=subset), 1e-9)


@pytest.mark.quick_cases(3)
@pytest.mark.parametrize("second", [np.exp, None], ids=["second derivative", "differences"])
@pytest.mark.parametrize("rule", RULES)
def test_poisson_as_a_convex_loss_equals_poisson_by_name(rule, second):
    for seed in range(8):
        X, y, groups, costs, weight = random_problem(seed, "poisson")
        named = AnytimeRegressor(groups, costs, rule=rule, alpha=1e-2, loss="poisson").fit(X, y, sample_weight=weight)
        loss = ConvexLoss(np.exp, np.exp, second)
        own = AnytimeRegressor(groups, costs, rule=rule, alpha=1e-2, loss=loss).fit(X, y, sample_weight=weight)
        assert own.order_.tolist() == named.order_.tolist()
        assert_close(own.coef_path_, named.coef_path_)
        assert_close(own.predict(X), named.predict(X))
        np.testing.assert_allclose(own.sequence_.explained, named.sequence_.explained, atol=1e-10)


def test_logistic_as_a_convex_loss_equals_the_classifier():
    loss = ConvexLoss(lambda eta: np.logaddexp(0, eta), lambda eta: 1 / (1 + np.exp(-np.clip(eta, -700, 700))))
    for seed in range(6):
        X, y, groups, costs, weight = random_problem(seed, "logistic")
        classifier = AnytimeClassifier(groups, costs, alpha=1e-2).fit(X, y, sample_weight=weight)
        own = AnytimeRegressor(groups, costs, alpha=1e-2, loss=loss).fit(X, y, sample_weight=weight)
        assert own.order_.tolist() == classifier.order_.tolist()
        assert_close(own.predict(X), classifier.predict_proba(X)[:, 1])
        np.testing.assert_allclose(own.sequence_.explained, classifier.sequence_.explained, atol=1e-8)


def test_a_convex_loss_that_is_finite_on_a_half_line_only():
    """Exponential targets with the canonical link: φ = −log(−η), η < 0."""
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(200, 2))
    y = rng.exponential(1 / (1 + X[:, 0]))
    loss = ConvexLoss(lambda eta: -np.log(-eta), lambda eta: -1 / eta, lambda eta: eta**-2.0, start=-1.0)
    with np.errstate(invalid="ignore", divide="ignore"):
        model = AnytimeRegressor(loss=loss, alpha=1e-3).fit(X, y)
    eta = X @ model.coef_ + model.intercept_
    assert eta.max() < 0
    np.testing.assert_allclose(model.predict(X), -1 / eta)
    assert abs(np.mean(y + 1 / eta)) < 1e-9
    explained = np.sum(model.sequence_.gains) / np.mean(np.log(np.mean(y)) - np.log(y))  # R(∅) − saturated
    np.testing.assert_allclose(model.sequence_.explained[-1], explained, rtol=1e-9)


# -- kinds of data --------------------------------------------------------------------------------------------


@pytest.mark.quick_cases(5)
@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("family", FAMILIES)
def test_sparse_equals_dense(family, rule):
    for seed in range(3):
        X, y, groups, costs, weight = random_problem(seed, family)
        X = np.where(np.random.default_rng(seed).random(X.shape) < 0.6, 0.0, X)
        dense = make(family, groups, costs, rule=rule, alpha=1e-2).fit(X, y, sample_weight=weight)
        for form in (sparse.csr_matrix, sparse.csc_array):
            model = make(family, groups, costs, rule=rule, alpha=1e-2).fit(form(X), y, sample_weight=weight)
            assert model.order_.tolist() == dense.order_.tolist()
            assert_close(model.coef_path_, dense.coef_path_)
            assert_close(model.predict(form(X), stage=1), dense.predict(X, stage=1))


@pytest.mark.parametrize("family", FAMILIES)
def test_single_precision_is_close(family):
    for seed in range(4):
        X, y, groups, costs, _ = random_problem(seed, family, n=200)
        double = make(family, groups, costs, rule="omp", alpha=1e-2).fit(X.astype(np.float32).astype(float), y)
        single = make(family, groups, costs, rule="omp", alpha=1e-2).fit(X.astype(np.float32), y)
        assert single.order_.tolist() == double.order_.tolist()
        assert single.coef_.dtype == np.float64
        assert_close(single.coef_path_, double.coef_path_, 1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("family", FAMILIES)
def test_wide_data(family, rule):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((30, 48))
    _, y, *_ = random_problem(0, family, n=30)
    groups = np.arange(48).reshape(12, 4).tolist()
    Y = np.eye(3)[y] if family == "softmax" else y
    truth = reference_glm.sequence(family, X, Y, groups, np.ones(12), rule=rule, alpha=1e-2)
    for engine in engines_for(rule):
        model = fit_with(engine, make(family, groups, rule=rule, alpha=1e-2), X, y)
        assert model.order_.tolist() == truth["order"]
        assert_close(paths(model)[0], truth["coefs"])


@pytest.mark.quick_cases(5)
@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("family", FAMILIES)
def test_duplicated_groups_without_ridge_change_no_prediction(family, rule):
    _, y, *_ = random_problem(3, family, n=120)
    X = np.random.default_rng(1).standard_normal((120, 4))
    groups = [[0, 1], [2], [3]]
    plain = make(family, groups, rule=rule, alpha=0.0).fit(X, y)
    more = np.column_stack([X, X[:, :2], 3 * X[:, 2] - 7, X[:, [0, 2]].sum(axis=1), np.full(120, 5.0)])
    score = "predict" if family == "poisson" else "predict_proba"
    for engine in engines_for(rule):
        model = fit_with(engine, make(family, [*groups, [4, 5], [6], [7, 8]], rule=rule, alpha=0.0), more, y)
        assert np.isfinite(model.coef_path_).all()
        assert np.abs(model.coef_).max() < 100
        assert_close(getattr(model, score)(more), getattr(plain, score)(X))
        np.testing.assert_allclose(model.sequence_.explained[-1], plain.sequence_.explained[-1], rtol=1e-9)
        assert np.all(model.sequence_.gains >= -1e-12)
        subset = getattr(model, score)(more, available=["0", "1", "2", "3", "5"])
        assert np.isfinite(subset).all()


@pytest.mark.parametrize("family", FAMILIES)
def test_dependent_columns_inside_a_group(family):
    _, y, *_ = random_problem(3, family, n=100)
    X = np.random.default_rng(1).standard_normal((100, 3))
    more = np.column_stack([X, X[:, 0] + X[:, 1], X[:, 2]])
    for rule in RULES:
        plain = make(family, [[0, 1], [2]], rule=rule, alpha=0.0).fit(X, y)
        model = make(family, [[0, 1, 3], [2, 4]], rule=rule, alpha=0.0).fit(more, y)
        if rule not in ("no-whiten", "single"):
            assert model.order_.tolist() == plain.order_.tolist()
        assert_close(model.predict(more), plain.predict(X)) if family == "poisson" else assert_close(
            model.predict_proba(more), plain.predict_proba(X)
        )


@pytest.mark.quick_cases(5)
@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("family", FAMILIES)
def test_a_huge_offset_changes_nothing(family, rule):
    _, y, *_ = random_problem(3, family, n=100)
    X = np.random.default_rng(1).integers(-50, 50, (100, 4)) / 16.0  # exact after adding 1e8
    near = make(family, rule=rule, alpha=1e-3).fit(X, y)
    score = "predict" if family == "poisson" else "predict_proba"
    for engine in engines_for(rule):
        far = fit_with(engine, make(family, rule=rule, alpha=1e-3), X + 1e8, y)
        assert far.order_.tolist() == near.order_.tolist()
        assert_close(far.coef_path_, near.coef_path_, 1e-7)
        assert_close(getattr(far, score)(X + 1e8), getattr(near, score)(X), 1e-6)


@pytest.mark.parametrize("factor", [1e-6, 1e6])
def test_the_unit_of_poisson_targets_does_not_matter(factor):
    """r(θ) of c·y with ridge c·alpha is c times that of y, up to the intercept: so are all stages."""
    X, y, groups, costs, _ = random_problem(2, "poisson")
    plain = AnytimeRegressor(groups, costs, alpha=1e-2, loss="poisson").fit(X, y)
    other = AnytimeRegressor(groups, costs, alpha=1e-2 * factor, loss="poisson").fit(X, y * factor)
    assert other.order_.tolist() == plain.order_.tolist()
    assert_close(other.coef_path_, plain.coef_path_, 1e-6)


def test_several_counts_at_once_are_an_error():
    X, y, groups, costs, _ = random_problem(2, "poisson")
    with pytest.raises(ValueError, match="one target"):
        AnytimeRegressor(groups, costs, alpha=1e-2, loss="poisson").fit(X, np.column_stack([y, y[::-1]]))


# -- where a sequence stops -----------------------------------------------------------------------------------


@pytest.mark.quick_cases(5)
@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("family", FAMILIES)
def test_limits(family, rule):
    for seed in (1, 2, 4):
        X, y, groups, costs, weight = random_problem(seed, family)
        settings = {"rule": rule, "alpha": 1e-2}
        whole = make(family, groups, costs, **settings).fit(X, y, sample_weight=weight)
        few = make(family, groups, costs, max_groups=2, **settings).fit(X, y, sample_weight=weight)
        assert few.order_.tolist() == whole.order_[:2].tolist()
        assert_close(few.coef_path_, whole.coef_path_[:2])
        limit = 0.6 * costs.sum()
        cheap = make(family, groups, costs, max_cost=limit, **settings).fit(X, y, sample_weight=weight)
        assert cheap.sequence_.costs.sum() <= limit
        left = np.setdiff1d(np.arange(len(groups)), cheap.order_)
        assert all(cheap.sequence_.costs.sum() + costs[g] > limit for g in left)
        nothing = make(family, groups, costs, min_gain=1.0, **settings).fit(X, y, sample_weight=weight)
        assert nothing.order_.size == 0
        assert np.isfinite(nothing.predict(X) if family == "poisson" else nothing.predict_proba(X)).all()


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("family", FAMILIES)
def test_min_gain_stops_when_one_newton_step_of_every_group_gains_less(family, engine):
    rng = np.random.default_rng(0)
    n = 400
    X = rng.standard_normal((n, 6))
    scores = np.column_stack([1.5 * X[:, 2], -1.5 * X[:, 4], np.zeros(n)])
    if family == "poisson":
        y = rng.poisson(np.exp(scores.sum(axis=1) / 2)).astype(float)
    elif family == "softmax":
        y = (scores + rng.gumbel(size=scores.shape)).argmax(axis=1)
    else:
        y = (scores[:, 0] + scores[:, 1] + rng.logistic(size=n) > 0).astype(int)
    model = fit_with(engine, make(family, rule="omp", min_gain=0.02), X, y)
    assert sorted(model.order_.tolist()) == [2, 4]


# -- available groups -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("family", FAMILIES)
def test_available_prefixes_are_exact(family):
    for seed in range(6):
        X, y, groups, costs, weight = random_problem(seed, family)
        model = make(family, groups, costs, alpha=1e-2).fit(X, y, sample_weight=weight)
        for j in range(len(groups) + 1):
            names = set(model.sequence_.groups[:j])
            np.testing.assert_array_equal(model.predict(X, available=names), model.predict(X, stage=j))


def heart_subsets(missing, alpha=1e-2):
    """Yield log losses on heart, over the null's: approximate and exact, for subsets without ``missing`` groups."""
    heart = load_heart()
    X, y, groups = heart.data, heart.target, heart.feature_groups
    model = AnytimeClassifier(groups, alpha=alpha).fit(X, y)
    null = log_loss(y, model.predict_proba(X, stage=0))
    names = list(groups.names)
    columns = dict(zip(names, groups.columns, strict=True))
    for gone in missing(names):
        kept = [name for name in names if name not in gone]
        exact = AnytimeClassifier(FeatureGroups({k: columns[k] for k in kept}, remainder="drop"), alpha=alpha)
        exact.fit(X, y)
        yield log_loss(y, model.predict_proba(X, available=kept)) / null, log_loss(y, exact.predict_proba(X)) / null


def test_any_subset_of_heart_is_answered_nearly_as_well_as_by_a_refit():
    """Measured on training data, as a share of the null model's log loss."""
    found = np.array(list(heart_subsets(lambda names: [{name} for name in names])))
    approximate, exact = found.T
    assert np.all(approximate >= exact - 2e-4)  # a refit has the least loss with the ridge, not without
    assert np.all(approximate < 1)
    excess = approximate - exact
    assert excess.mean() < 0.015  # on training rows: the ridge of predictions from any groups is larger
    assert excess.max() < 0.025
