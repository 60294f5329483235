"""``alpha="auto"``: the criterion against explicit hat matrices and refits; the same constant wherever the data are."""

import numpy as np
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
    open_source,
)
from budgetline.data.rows import Rows
from budgetline.datasets import load_heart
from budgetline.model import ridge_choice
from budgetline.objectives.families import Logistic, Poisson, Softmax, SquaredError
from budgetline.objectives.newton import Fit
from budgetline.objectives.ridge import GRID, STRIDE, left_out_alpha, rotated, walk
from budgetline.statistics.columns import standardised_columns
from budgetline.statistics.device_engine import engine_of_rows
from budgetline.statistics.passes import Passes
from budgetline.statistics.rows_engine import RowsEngine
from budgetline.statistics.source_engine import SourceEngine


def regression(seed, n, D, P=1):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, D)) @ (np.eye(D) + rng.normal(size=(D, D)) / np.sqrt(D)) + rng.normal(size=D)
    Y = X[:, :3] @ rng.normal(size=(3, P)) + 3 * rng.normal(size=(n, P))
    weight = rng.uniform(0.2, 2, n)
    weight[:2] = 0.0
    return X, Y if P > 1 else Y[:, 0], weight


def gcv(X, Y, weight, alpha):
    """Return n·RSS/(n − tr H)² from the hat matrix H, with n the rows of positive weight."""
    X, Y, weight = X[weight > 0], Y.reshape(len(Y), -1)[weight > 0], weight[weight > 0]
    share, n = weight / weight.sum(), len(X)
    Z = X - share @ X
    Z /= np.sqrt(share @ Z**2)
    A, centre = np.sqrt(share)[:, None] * Z, np.eye(n) - np.sqrt(np.outer(share, share))
    # I − H = α(AA' + αI)⁻¹ without the mean: nothing cancels if the model nearly interpolates
    left = np.linalg.solve(A @ A.T + alpha * np.eye(n), alpha * centre)
    errors = left @ (np.sqrt(share)[:, None] * Y)
    return n**2 * float((errors**2).sum()) / np.trace(left) ** 2


@pytest.mark.parametrize(("n", "D", "P"), [(60, 8, 1), (60, 40, 2), (40, 60, 1), (30, 1100, 1)])
@pytest.mark.parametrize("seed", range(3))
def test_generalised_cross_validation(seed, n, D, P):
    """The chosen constant has the smallest GCV of the grid, nearly, on tall and on wide tables."""
    X, Y, weight = regression(seed, n, D, P)
    model = AnytimeRegressor(alpha="auto", max_groups=2, rule="omp").fit(X, Y, weight)
    best = min(gcv(X, Y, weight, alpha) for alpha in GRID[::4])
    assert gcv(X, Y, weight, model.alpha_) <= best * (1 + 1.1e-5)


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
    passes = Passes(open_source((X, y, weight), chunk_rows=25))
    moments = Moments.of(X, Y, weight)
    return SourceEngine(lambda statistic: passes.total(statistic, None), moments, order, family, classes)


def roots_of(H, k, Q):
    return np.linalg.inv(np.linalg.cholesky(H)).T.reshape(k, Q, -1).transpose(1, 0, 2)


@pytest.mark.parametrize("source", [False, True], ids=["rows", "source"])
@pytest.mark.parametrize("family", [Logistic(), Softmax(3), Poisson(), SquaredError()], ids=lambda f: type(f).__name__)
def test_left_out_risk(family, source):
    """Every row is taken out of gradient and Hessian, and one Newton step follows: exact for squared error."""
    X, y, weight = data_of(family)
    engine = engine_of(family, X, y, weight, source)
    Q, k, alpha = engine.y_mean.size, 6, 0.05
    columns, rng = np.arange(k), np.random.default_rng(0)
    theta = 0.3 * rng.normal(size=(k, Q))
    share = weight / weight.sum()
    Z = X - share @ X
    Z = np.hstack([np.ones((len(X), 1)), (Z / np.sqrt(share @ Z**2))[:, [3, 0, 1, 4, 2]]])
    Y = family.internal(np.eye(3)[y] if isinstance(family, Softmax) else y[:, None].astype(float))
    penalty = alpha * np.repeat([0.0] + [1.0] * (k - 1), Q)
    for _ in range(30):  # left-out scores are those of a fitted model
        fit = Fit(columns, theta, alpha, engine.at(columns, theta))
        theta = theta - np.linalg.solve(fit.hessian(), fit.gradient.ravel()).reshape(k, Q)
    H = Fit(columns, theta, alpha, engine.at(columns, theta)).hessian()
    found = engine.left_out_risk(theta, roots_of(H, k, Q))

    eta, step = Z @ theta, 1e-6
    expected = 0.0
    for i in range(len(X)):
        own = np.kron(Z[i][:, None], np.eye(Q))
        moved = eta[i] + step * np.vstack([np.eye(Q), -np.eye(Q)])
        means = family.mean(moved)
        second = (means[:Q] - means[Q:]) / (2 * step)
        slope = share[i] * own @ (family.mean(eta[i : i + 1])[0] - Y[i])
        total = slope_of(family, Z, Y, share, theta) + penalty * theta.ravel()
        without = H - share[i] * own @ second @ own.T
        new = theta.ravel() - np.linalg.solve(without, total - slope)
        score = Z[i] @ new.reshape(k, Q)
        expected += share[i] * float(family.value(score[None])[0] - Y[i] @ score)
    assert found == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("n", [1300, 20_000])
def test_left_out_risk_of_many_rows(n):
    """However the rows are cut into blocks, and these into parts, the sum is that of a formula for all rows."""
    X, y, weight = data_of(Logistic(), n)
    engine, theta = engine_of(Logistic(), X, y, weight, False), np.linspace(-0.5, 0.5, 6)[:, None]
    H = Fit(np.arange(6), theta, 0.05, engine.at(np.arange(6), theta)).hessian()
    share = weight / weight.sum()
    Z = X - share @ X
    Z = np.hstack([np.ones((n, 1)), (Z / np.sqrt(share @ Z**2))[:, [3, 0, 1, 4, 2]]])
    eta = (Z @ theta)[:, 0]
    p = 1 / (1 + np.exp(-eta))
    G = share * np.einsum("nk,nk->n", Z @ np.linalg.inv(H), Z)
    eta -= G * (y - p) / (1 - p * (1 - p) * G)
    expected = share @ (np.logaddexp(0, eta) - y * eta)
    assert engine.left_out_risk(theta, roots_of(H, 6, 1)) == pytest.approx(expected, rel=1e-9)


def test_left_out_risk_of_many_blocks():
    """Rows are read in blocks of any size: the risk is the sum over parts of the rows."""
    rng = np.random.default_rng(0)
    X, y, family = rng.normal(size=(20001, 3)), rng.integers(0, 2, (20001, 1)).astype(float), Logistic()
    A, _, _ = standardised_columns(Rows(X, y))
    theta, roots = rng.normal(size=(4, 1)), rng.normal(size=(1, 4, 4))
    blocks = RowsEngine(A, y, np.arange(3), family)
    assert blocks.slices[0].stop % 512
    whole = RowsEngine(A, y, np.arange(3), family, A.with_intercept())
    assert blocks.left_out_risk(theta, roots) == pytest.approx(whole.left_out_risk(theta, roots), rel=1e-12)


def slope_of(family, Z, Y, share, theta):
    return (Z.T @ (share[:, None] * (family.mean(Z @ theta) - Y))).ravel()


def test_wide_tables_are_turned():
    """Turned to n columns, the models and their left-out risks are those of all columns."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 70))
    A, _, _ = standardised_columns(Rows(X, np.zeros((40, 1))))
    y = (X[:, 0] + X[:, 1] + 0.5 * rng.normal(size=40) > 0)[:, None].astype(float)
    family, turned = Logistic(), rotated(A)
    assert turned.X.shape == (40, 39)
    engines = [RowsEngine(each, y, np.arange(each.scale.size), family) for each in (A, turned)]
    chosen = [left_out_alpha(e, family.start(e.y_mean), e.order.size) for e in engines]
    steps = np.abs(np.diff(np.log10(chosen)))
    assert steps[0] <= 1.01  # the walks start at different places
    assert AnytimeClassifier(alpha="auto", max_groups=2, rule="omp").fit(X, y[:, 0]).alpha_ == chosen[1]


def test_the_same_constant_wherever_the_data_are():
    heart = load_heart()
    X, y = np.asarray(heart.data, dtype=float), np.asarray(heart.target)
    by_rows = AnytimeClassifier(alpha="auto", rule="score", max_groups=3).fit(X, y)
    by_source = AnytimeClassifier(alpha="auto", rule="score", max_groups=3).fit(open_source((X, y), chunk_rows=70))
    assert by_rows.alpha_ == by_source.alpha_
    np.testing.assert_allclose(by_rows.coef_, by_source.coef_, atol=1e-7)
    # the unit of weights does not matter, and rows of weight zero are not there
    more = np.vstack([X, 100 + X[:5]])
    weight = np.append(np.full(len(X), 3.0), np.zeros(5))
    weighted = AnytimeClassifier(alpha="auto", rule="score", max_groups=3).fit(more, np.append(y, y[:5]), weight)
    assert weighted.alpha_ == by_rows.alpha_

    linear = AnytimeRegressor(alpha="auto").fit(X, y)
    others = [
        AnytimeRegressor(alpha="auto").fit_moments(Moments.of(X, y)),
        AnytimeRegressor(alpha="auto").fit(open_source((X, y), chunk_rows=70)),
        AnytimeRegressor(alpha="auto").partial_fit(X[:100], y[:100]).partial_fit(X[100:], y[100:]),
        AnytimeRegressor(alpha="auto").fit(more, np.append(y, y[:5]), weight),
    ]
    assert {other.alpha_ for other in others} == {linear.alpha_}
    np.testing.assert_array_equal(AnytimeRegressor(alpha=linear.alpha_).fit(X, y).coef_path_, linear.coef_path_)


def test_dask():
    dask = pytest.importorskip("dask.array")
    heart = load_heart()
    X, y = np.asarray(heart.data, dtype=float), np.asarray(heart.target)
    model = AnytimeClassifier(alpha="auto", rule="score", max_groups=2)
    found = model.fit(dask.from_array(X, chunks=(100, -1)), dask.from_array(y, chunks=100)).alpha_
    assert found == AnytimeClassifier(alpha="auto", rule="score", max_groups=2).fit(X, y).alpha_


def test_a_constant_that_is_far_off_is_told():
    """Where the default fits the noise of nearly as many columns as rows, a warning names a better constant."""
    X, y, _ = regression(0, 40, 36)
    with pytest.warns(
        UserWarning, match=r"alpha=1e-05 fits the noise: .* times that with alpha=(\d|\.)+, which"
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
    assert {s.name: s.value for s in report.settings}["alpha_ (chosen)"] == f"{model.alpha_:g}"
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
    monkeypatch.setattr(ridge_choice, "MOST_SQUARED", 3)
    monkeypatch.setattr(ridge_choice, "MOST_SCORES", 3)
    X = np.random.default_rng(0).normal(size=(20, 4))
    for model in (AnytimeRegressor(alpha="auto"), AnytimeClassifier(alpha="auto")):
        with pytest.raises(ValueError, match=r"all 4 columns.*Give alpha a number"):
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
