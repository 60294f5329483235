"""Standard errors are those of other libraries and of posteriors computed from all rows; bands cover what is true."""

import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.stats import t as student

from budgetline import (
    AnytimeClassifier,
    AnytimeRanker,
    AnytimeRegressor,
    AnytimeSurvival,
    FixedOrder,
    GroupLassoPath,
    load,
    save,
)
from budgetline.datasets import load_heart
from budgetline.evaluation import effects_of
from budgetline.fitting import linear
from budgetline.glm.families import ConvexLoss

sys.path.append(str(Path(__file__).parents[2] / "experiments"))
import bands

COLUMNS = ["age", "sex", "trestbps", "thalach"]


@pytest.fixture(scope="module")
def heart():
    found = load_heart(as_frame=True)
    return found.data.assign(target=found.target, cp=found.data[["cp=1", "cp=2", "cp=3"]] @ [1, 2, 2])


def test_standard_errors_without_a_ridge_are_those_of_statsmodels(heart):
    """Made with statsmodels 0.15.0: OLS, GLM (Binomial, Poisson), MNLogit, and PHReg with Efron's ties."""
    X = heart[COLUMNS]
    for model, y, wanted in (
        (AnytimeRegressor(alpha=0), "oldpeak", [0.007810598501, 0.1333189609, 0.0036691893, 0.002955123623]),
        (AnytimeClassifier(alpha=0), "target", [0.01715216069, 0.3177180398, 0.008149511615, 0.007316654978]),
        (
            AnytimeRegressor(alpha=0, loss="poisson"),
            "ca",
            [0.009485638433, 0.162464265, 0.003979816878, 0.003156537301],
        ),
        (
            AnytimeClassifier(alpha=0),
            "cp",
            [
                [0.01288245284, 0.241069462, 0.00565182564, 0.005303794146],
                [0.01984295363, 0.3896053514, 0.008251564005, 0.008258939747],
                [0.01282201201, 0.2375618306, 0.005785343955, 0.005506692617],
            ],
        ),
    ):
        errors = model.fit(X, heart[y]).coef_errors()
        np.testing.assert_allclose(errors, wanted, rtol=1e-6)
        np.testing.assert_allclose(model.fit(X, heart[y], sample_weight=np.full(len(X), 3.0)).coef_errors(), errors)
    cox = AnytimeSurvival(alpha=0).fit(X[COLUMNS[:3]], heart["thalach"], heart["target"])
    np.testing.assert_allclose(cox.coef_errors(), [0.0104977332, 0.2235630308, 0.004923403039], rtol=1e-6)


def table(seed=0, n=250):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 7)) @ np.triu(np.ones((7, 7))) * [1, 2, 3, 1, 1, 1, 0] + 5
    return X, X @ [1, -1, 0.5, 0, 2, 0, 0] + rng.standard_normal(n), rng.integers(1, 4, n).astype(float)


GROUPS = [[3, 0], [1], [5, 4], [2, 6]]


@pytest.mark.parametrize("stage", [1, 3, 4])
@pytest.mark.parametrize("moments", [True, False])  # or from the columns of X
def test_errors_of_least_squares_are_those_of_the_posterior(stage, moments, monkeypatch):
    """The reference is the posterior of all rows, with the trace of the hat matrix."""
    monkeypatch.setattr(linear, "gram_fits", lambda rows, recipe: moments)
    (X, y, weight), alpha = table(), 0.05
    Y = np.column_stack([y, np.cos(X[:, 0])])
    order = FixedOrder(["0", "1", "2", "3"])
    model = AnytimeRegressor(GROUPS, alpha=alpha, schedule=order).fit(X, Y, sample_weight=weight)
    assert (model.model_.moments is None) != moments
    n, share = weight.sum() ** 2 / (weight @ weight), weight / weight.sum()
    columns = [d for group in GROUPS[:stage] for d in group if d != 6]
    Z = X[:, columns] - share @ X[:, columns]
    scale = np.sqrt(share @ Z**2)
    Z = Z / scale
    precision = Z.T @ (share[:, None] * Z) + alpha * np.eye(len(columns))
    centred = Y - share @ Y
    left = centred - Z @ np.linalg.solve(precision, Z.T @ (share[:, None] * centred))
    hat = np.trace(np.linalg.solve(precision, Z.T @ (share[:, None] * Z)))
    noise = share @ left**2 * n / (n - 1 - hat)
    wanted = np.zeros((2, 7))
    wanted[:, columns] = np.sqrt(np.outer(noise / n, np.diag(np.linalg.inv(precision)))) / scale
    np.testing.assert_allclose(model.coef_errors(stage=stage), wanted, rtol=1e-9)


@pytest.mark.parametrize("rule", ["forward", "omp"])
def test_errors_of_a_stage_are_those_of_a_model_of_its_groups(rule):
    X, y, weight = table()
    order = FixedOrder(["0", "1", "2", "3"])
    for target in (y > 3, np.digitize(y, [-3, 3])):
        whole = AnytimeClassifier(GROUPS, alpha=1e-2, schedule=order, rule=rule).fit(X, target, sample_weight=weight)
        for stage in (1, 2, 3):
            part = AnytimeClassifier(GROUPS, alpha=1e-2, schedule=order, max_groups=stage).fit(X, target, weight)
            np.testing.assert_allclose(whole.coef_errors(stage=stage), part.coef_errors(), rtol=1e-6)


def test_columns_that_depend_on_others_share_the_error():
    X, y, _ = table()
    for model, target, rtol in ((AnytimeRegressor, y, 1e-9), (AnytimeClassifier, y > 3, 1e-3)):
        single = model(alpha=0).fit(X[:, :3], target)
        twice = model([[0, 3], [1], [2]], alpha=0).fit(X[:, [0, 1, 2, 0]], target)
        names = [effect.name for effect in single.effects()]
        others = [twice.effects()[name].errors for name in names if name != "0"]
        wanted = [single.effects()[name].errors for name in names if name != "0"]
        np.testing.assert_allclose(others, wanted, rtol=rtol)


def test_a_band_is_a_quantile_of_student_and_in_the_table():
    X, y, _ = table(n=20)
    model = AnytimeRegressor(alpha=0).fit(X[:, :4], y)
    effect, frame = model.effects()["1"], model.effects().to_frame()
    assert effect.free == pytest.approx(20 - 1 - 4)
    np.testing.assert_allclose(effect.margins(0.95), effect.errors * student.ppf(0.975, 15))
    (part,) = effect.on_scores()
    np.testing.assert_allclose(part.margins, effect.margins(0.9))
    own = frame[frame["column"] == "1"]
    np.testing.assert_allclose(own["upper"] - own["effect"], part.margins)
    np.testing.assert_allclose(own["effect"] - own["lower"], part.margins)
    with pytest.raises(ValueError, match="coverage must be a number between 0 and 1"):
        effect.margins(90)


def test_there_are_no_bands_without_a_dispersion():
    X, y, _ = table()
    huber = ConvexLoss(lambda s: s**2 / 2, lambda s: s, lambda s: np.ones_like(s))
    ranker = AnytimeRanker().fit(X, (y > y.mean()).astype(int), qid=np.repeat(np.arange(25), 10))
    path = GroupLassoPath(GROUPS, refit=False).fit(X, y)
    for model in (AnytimeRegressor(loss=huber).fit(X, y), ranker, path, AnytimeRegressor(alpha=0).fit(X[:7], y[:7])):
        assert all(effect.errors is None and effect.margins() is None for effect in model.effects())
        assert model.effects().to_frame()["lower"].isna().all()
        with pytest.raises(ValueError, match=r"standard errors at stage \d are not known"):
            model.coef_errors()
        assert not model.coef_errors(stage=0).any()


def test_files_and_plans_keep_the_bands(tmp_path):
    rng = np.random.default_rng(0)
    X = bands.drawn(rng, 300)
    for target in (X["sine"] > 0.5, pd.cut(X["sine"] + X["nothing"], 3, labels=list("abc")).astype(str)):
        model = AnytimeClassifier(encoding="spline").fit(X, target)
        save(model, tmp_path / "m.budgetline")
        again = load(tmp_path / "m.budgetline")
        for stage in (1, 3, None):
            pd.testing.assert_frame_equal(again.effects(stage=stage).to_frame(), model.effects(stage=stage).to_frame())
        plan = model.plan(2, X=X, y=target, exclude=[model.sequence_.groups[0]])
        assert not effects_of(plan.model_).to_frame()["lower"].isna().any()
        assert effects_of(model.plan(2, exclude=[model.sequence_.groups[0]]).model_).effects[0].errors is None


def test_a_shifted_scaled_table_has_the_same_bands():
    X, y, _ = table()
    before = AnytimeRegressor(alpha=0.1).fit(X, y).coef_errors()
    after = AnytimeRegressor(alpha=0.1).fit(X * 10 - 3, 5 * y + 1).coef_errors()
    np.testing.assert_allclose(after, before / 2, rtol=1e-9)


@pytest.mark.parametrize("task", ["regression", "classes"])
def test_a_band_covers_what_it_promises(task):
    """The margin of 5 % is that of a mean over ten draws of four effects, which are not independent."""
    found = bands.coverages(task, range(10), 500, knots=12)
    assert 0.83 < found.mean() < 0.96
