"""``alpha="auto"``: the criterion against explicit likelihoods; the same constant wherever the data are."""

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import log_loss
from sklearn.preprocessing import SplineTransformer

import budgetline
from budgetline import (
    AnytimeClassifier,
    AnytimeRegressor,
    AnytimeRegressorCV,
    Moments,
    make_report,
    open_data,
)
from budgetline.data.rows import Rows
from budgetline.datasets import load_heart
from budgetline.fitting import open_settings
from budgetline.glm.families import Logistic, Poisson, Softmax, SquaredError
from budgetline.glm.laplace import STRIDE, laplace, likeliest_alpha, walk
from budgetline.glm.newton import GlmFit
from budgetline.glm.rows_engine import RowsEngine, engine_of_rows
from budgetline.glm.source_engine import SourceEngine
from budgetline.leastsquares.ridge import GRID, Spectrum, rotated
from budgetline.moments.columns import standardised_columns
from budgetline.moments.passes import Passes


def regression(seed, n, D, P=1):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, D)) @ (np.eye(D) + rng.normal(size=(D, D)) / np.sqrt(D)) + rng.normal(size=D)
    Y = X[:, :3] @ rng.normal(size=(3, P)) + 3 * rng.normal(size=(n, P))
    weight = rng.uniform(0.2, 2, n)
    weight[:2] = 0.0
    return X, Y if P > 1 else Y[:, 0], weight


def restricted(X, Y, weight, alpha):
    """Return −2 log of the restricted likelihood of y = β + Zw + ε, w ~ N(0, φ/(nα)), ε ~ N(0, φ/(nω)), n rows."""
    X, Y, weight = X[weight > 0], Y.reshape(len(Y), -1)[weight > 0], weight[weight > 0]
    share, n = weight / weight.sum(), len(X)
    Z = X - share @ X
    Z /= np.sqrt(share @ Z**2)
    V = np.diag(1 / (n * share)) + Z @ Z.T / (n * alpha)
    one = np.ones((n, 1))
    precision = np.linalg.inv(V)
    inner = one.T @ precision @ one
    P = precision - precision @ one @ one.T @ precision / inner
    volume = np.linalg.slogdet(V)[1] + np.log(inner[0, 0])
    return sum((n - 1) * np.log(y @ P @ y) + volume for y in Y.T)


@pytest.mark.parametrize(("n", "D", "P"), [(60, 8, 1), (60, 40, 2), (40, 60, 1), (30, 1100, 1)])
@pytest.mark.parametrize("seed", range(3))
def test_restricted_likelihood(seed, n, D, P):
    """The chosen constant is the likeliest of the grid, on tall and on wide tables."""
    X, Y, weight = regression(seed, n, D, P)
    model = AnytimeRegressor(alpha="auto", max_groups=2, rule="omp").fit(X, Y, weight)
    best = min(restricted(X, Y, weight, alpha) for alpha in GRID[40::4])
    assert restricted(X, Y, weight, model.alpha_) <= best + 0.03


@pytest.mark.parametrize(("n", "D", "P"), [(60, 8, 1), (60, 40, 2), (25, 40, 1)])
def test_the_criterion_is_the_likelihood(n, D, P):
    X, Y, weight = regression(5, n, D, P)
    A, targets, _ = standardised_columns(Rows(X, Y.reshape(n, -1), weight))
    alphas = np.array([1e-3, 0.1, 10.0])
    found = Spectrum.of_columns(A, targets).reml(alphas)
    expected = [restricted(X, Y, weight, alpha) for alpha in alphas]
    np.testing.assert_allclose(np.diff(found), np.diff(expected), rtol=1e-7)


def data_of(family, n=60, D=5):
    rng = np.random.default_rng(3)
    X, score = rng.normal(size=(n, D)), rng.normal(size=n)
    score += X[:, 0]
    weight = rng.uniform(0.5, 2, n)
    if isinstance(family, Softmax):
        return X, np.digitize(score, [-1, 1]), weight
    if isinstance(family, Logistic):
        return X, (score > 0).astype(int), weight
    return X, np.round(np.exp(score / 2)) if isinstance(family, Poisson) else score, weight


def engine_of(family, X, y, weight, source):
    order, classes = np.array([3, 0, 1, 4, 2]), np.unique(y) if isinstance(family, Logistic | Softmax) else None
    Y = np.eye(3)[y] if isinstance(family, Softmax) else y[:, None].astype(float)
    if not source:
        return engine_of_rows(Rows(X, Y, weight), order, family)
    passes = Passes(open_data((X, y, weight), chunk_rows=25))
    moments = Moments.from_data(X, Y, weight)
    return SourceEngine(lambda statistic: passes.total(statistic, None), moments, order, family, classes)


@pytest.mark.parametrize("source", [False, True], ids=["rows", "source"])
@pytest.mark.parametrize("family", [Logistic(), Softmax(3), Poisson(), SquaredError()], ids=lambda f: type(f).__name__)
def test_laplace(family, source):
    """The approximation from numerical derivatives of the penalised risk, with a line of its own for the dispersion."""
    X, y, weight = data_of(family)
    engine = engine_of(family, X, y, weight, source)
    Q, k, alpha = engine.y_mean.size, 6, 0.05
    columns, theta = np.arange(k), np.zeros((k, Q))
    for _ in range(30):
        fit = GlmFit(columns, theta, alpha, engine.at(columns, theta))
        theta = theta - np.linalg.solve(fit.hessian(), fit.gradient.ravel()).reshape(k, Q)
    fit = GlmFit(columns, theta, alpha, engine.at(columns, theta))

    share = weight / weight.sum()
    Z = X - share @ X
    Z = np.hstack([np.ones((len(X), 1)), (Z / np.sqrt(share @ Z**2))[:, [3, 0, 1, 4, 2]]])
    Y = family.internal(np.eye(3)[y] if isinstance(family, Softmax) else y[:, None].astype(float))

    def slope(flat):
        eta = Z @ flat.reshape(k, Q)
        found = Z.T @ (share[:, None] * (family.mean(eta) - Y))
        found[1:] += alpha * flat.reshape(k, Q)[1:]
        return found.ravel()

    step = 1e-5 * np.eye(k * Q)
    H = np.array([(slope(theta.ravel() + e) - slope(theta.ravel() - e)) / 2e-5 for e in step])
    eta = Z @ theta
    s = 2 * (
        share @ (family.value(eta) - (Y * eta).sum(axis=1) - family.saturated(Y)) + alpha / 2 * (theta[1:] ** 2).sum()
    )
    volume = np.linalg.slogdet(H)[1] - (k - 1) * Q * np.log(alpha)
    n = weight.sum() ** 2 / (weight @ weight)
    assert engine.sample_size == pytest.approx(n)
    assert laplace(fit, engine.saturated, n, dispersed=False) == pytest.approx(n * s + volume, rel=1e-6)
    dispersions = np.geomspace(1, 100, 20001)
    expected = (n * s / dispersions + (n - 1) * Q * np.log(dispersions)).min() + volume
    assert laplace(fit, engine.saturated, n, dispersed=True) == pytest.approx(expected, rel=1e-5)


def test_laplace_is_exact_for_squared_error():
    """With the dispersion that fits best, and as many rows as weights say, it is the restricted likelihood."""
    X, y, _ = regression(1, 60, 5)
    engine = engine_of(SquaredError(), X, 10 * y, np.ones(60), False)
    found = []
    for alpha in (0.01, 1.0):
        columns, theta = np.arange(6), np.zeros((6, 1))
        fit = GlmFit(columns, theta, alpha, engine.at(columns, theta))
        theta = theta - np.linalg.solve(fit.hessian(), fit.gradient.ravel())[:, None]
        found.append(
            laplace(GlmFit(columns, theta, alpha, engine.at(columns, theta)), engine.saturated, 60, dispersed=True)
        )
    expected = [restricted(X, y, np.ones(60), alpha) for alpha in (0.01, 1.0)]
    assert found[1] - found[0] == pytest.approx(expected[1] - expected[0], rel=1e-8)


def test_counts_with_more_noise_than_a_poisson_distribution():
    """Where counts vary far more than their mean, the constant is near the best one on new rows."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3000, 20))
    y = rng.poisson(rng.gamma(2.0, 0.5, 3000) * np.exp(3 + 0.2 * X[:, 0])).astype(float)
    old, new = slice(150), slice(150, None)

    def loss(alpha):
        model = AnytimeRegressor([list(range(20))], loss="poisson", alpha=alpha).fit(X[old], y[old])
        mean = model.predict(X[new])
        return float(np.mean(mean - y[new] * np.log(mean)))

    constants = 10.0 ** np.arange(-4, 4)
    losses = [loss(alpha) for alpha in constants]
    assert loss("auto") - min(losses) < 0.5 * (losses[0] - min(losses))


def test_wide_tables_are_turned():
    """Turned to n columns, the models and their likelihoods are those of all columns."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 70))
    A, _, _ = standardised_columns(Rows(X, np.zeros((40, 1))))
    y = (X[:, 0] + X[:, 1] + 0.5 * rng.normal(size=40) > 0)[:, None].astype(float)
    family, turned = Logistic(), rotated(A)
    assert turned.X.shape == (40, 39)
    engines = [RowsEngine(each, y, np.arange(each.scale.size), family) for each in (A, turned)]
    chosen = [likeliest_alpha(e, family.start(e.y_mean), e.order.size, dispersed=False) for e in engines]
    steps = np.abs(np.diff(np.log10(chosen)))
    assert steps[0] <= 1.01  # the walks start at different places
    assert AnytimeClassifier(alpha="auto", max_groups=2, rule="omp").fit(X, y[:, 0]).alpha_ == chosen[1]


def test_the_same_constant_wherever_the_data_are():
    heart = load_heart()
    X, y = np.asarray(heart.data, dtype=float), np.asarray(heart.target)
    by_rows = AnytimeClassifier(alpha="auto", rule="score", max_groups=3).fit(X, y)
    by_source = AnytimeClassifier(alpha="auto", rule="score", max_groups=3).fit(open_data((X, y), chunk_rows=70))
    assert by_rows.alpha_ == by_source.alpha_
    np.testing.assert_allclose(by_rows.coef_, by_source.coef_, atol=1e-7)
    # the unit of weights does not matter, and rows of weight zero are not there
    more = np.vstack([X, 100 + X[:5]])
    weight = np.append(np.full(len(X), 3.0), np.zeros(5))
    weighted = AnytimeClassifier(alpha="auto", rule="score", max_groups=3).fit(more, np.append(y, y[:5]), weight)
    assert weighted.alpha_ == by_rows.alpha_

    linear = AnytimeRegressor(alpha="auto").fit(X, y)
    others = [
        AnytimeRegressor(alpha="auto").fit_moments(Moments.from_data(X, y)),
        AnytimeRegressor(alpha="auto").fit(open_data((X, y), chunk_rows=70)),
        AnytimeRegressor(alpha="auto").partial_fit(X[:100], y[:100]).partial_fit(X[100:], y[100:]),
        AnytimeRegressor(alpha="auto").fit(more, np.append(y, y[:5]), weight),
    ]
    assert {other.alpha_ for other in others} == {linear.alpha_}
    np.testing.assert_array_equal(AnytimeRegressor(alpha=linear.alpha_).fit(X, y).coef_path_, linear.coef_path_)


def test_dask():
    dd = pytest.importorskip("dask.dataframe")
    heart = load_heart(as_frame=True)
    model = AnytimeClassifier(alpha="auto", rule="score", max_groups=2)
    found = model.fit(open_data(dd.from_pandas(heart.frame, npartitions=4), heart.target_name)).alpha_
    assert found == AnytimeClassifier(alpha="auto", rule="score", max_groups=2).fit(heart.data, heart.target).alpha_


def test_a_constant_that_is_far_off_is_told():
    """Where the default fits the noise of nearly as many columns as rows, a warning names a better constant."""
    X, y, _ = regression(0, 40, 36)
    with pytest.warns(
        UserWarning,
        match=r"alpha=1e-05 fits the noise: .* 36 effective parameters for 40 rows.*'auto' chooses alpha=(\d|\.)+",
    ) as found:
        AnytimeRegressor().fit(X, y)
    assert len(found) == 1
    AnytimeRegressor(alpha="auto").fit(X, y)
    AnytimeRegressor(max_groups=5).fit(X, y)
    AnytimeRegressor().fit(X[:, :10], y)


def test_what_a_model_says_of_it(tmp_path):
    heart = load_heart()
    model = AnytimeClassifier(heart.feature_groups, alpha="auto").fit(heart.data, heart.target)
    assert model.alpha == "auto"
    assert "alpha='auto'" in repr(model)
    assert model.model_.alpha == model.alpha_
    budgetline.save(model, tmp_path / "model")
    loaded = budgetline.load(tmp_path / "model")
    assert (loaded.alpha, loaded.alpha_, loaded.model_.alpha) == ("auto", model.alpha_, model.alpha_)
    report = make_report(model, heart.data, heart.target)
    chosen = report.settings["what was chosen"]
    assert chosen == f"ridge constant {model.alpha_:g} was chosen from the data"
    model.set_params(alpha=0.1).fit(heart.data, heart.target)
    assert not hasattr(model, "alpha_")


def test_new_rows_of_a_wide_encoding():
    """Where the default overfits, the choice is near the best constant on new rows."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1500, 12))
    y = (np.sin(2 * X[:, 0]) + X[:, 1] ** 2 + X[:, 2] - 1 + 0.7 * rng.normal(size=1500) > 0).astype(int)
    old, new = slice(400), slice(400, None)
    Z = SplineTransformer(n_knots=8, knots="quantile", extrapolation="constant").fit(X[old]).transform(X)
    groups = [list(range(Z.shape[1]))]

    def loss(alpha):
        model = AnytimeClassifier(groups, alpha=alpha).fit(Z[old], y[old])
        return log_loss(y[new], model.predict_proba(Z[new]))

    auto, best = loss("auto"), min(loss(alpha) for alpha in 10.0 ** np.arange(-4, 1))
    assert auto < 1.05 * best
    assert auto < 0.7 * loss(1e-5)


@pytest.mark.parametrize("y", [np.zeros(5), np.arange(5.0)])
def test_nothing_to_learn_from(y):
    """With no variance in y, or only constant columns, the largest constant is taken."""
    X = np.ones((5, 2)) if y.any() else np.arange(10.0).reshape(5, 2)
    assert AnytimeRegressor(alpha="auto").fit(X, y).alpha_ == GRID[-1]


def test_too_many_columns(monkeypatch):
    monkeypatch.setattr(open_settings, "MOST_SQUARED", 3)
    monkeypatch.setattr(open_settings, "MOST_SCORES", 3)
    X = np.random.default_rng(0).normal(size=(20, 4))
    for model in (AnytimeRegressor(alpha="auto"), AnytimeClassifier(alpha="auto")):
        with pytest.raises(ValueError, match=r"all 4 columns.*Set alpha to a number"):
            model.fit(X, X[:, 0] > 0)


def test_only_auto_is_a_word():
    X = np.eye(3)
    with pytest.raises(ValueError, match="'alpha' parameter of AnytimeRegressor"):
        AnytimeRegressor(alpha="best").fit(X, X[0])
    assert "alpha" not in AnytimeRegressorCV().get_params()


@pytest.mark.parametrize("least", [3, 20, 41, 60, 86])
@pytest.mark.parametrize("start", [STRIDE, 44, GRID.size - 1 - STRIDE])
def test_walk(start, least):
    """A parabola is minimised to the next position of the grid, up to the ends."""
    assert abs(walk(lambda k: 5 + (k - least) ** 2, start) - least) <= STRIDE // 2


def test_a_walk_ends_on_a_plateau():
    asked = []
    walk(lambda k: asked.append(k) or 1 + 1e-6 * k, 40)
    assert len(asked) <= 3


@pytest.mark.parametrize("seed", range(5))
def test_separable_classes(seed):
    """Ever larger coefficients fit separable classes better; the constant says how large is believed."""
    rng = np.random.default_rng(seed)
    X = pd.DataFrame({"a": rng.normal(size=4300), "colour": rng.choice(["red", "green", "blue"], 4300)})
    y = X["a"] + (X["colour"] == "red") > 0.3
    model = AnytimeClassifier(encoding="spline").fit(X[:300], y[:300])
    assert model.alpha_ == pytest.approx(1 / (400 * 300))
    assert log_loss(y[300:], model.predict_proba(X[300:])) < 0.2
