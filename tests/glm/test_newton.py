"""Ways to save passes change no result: old factors that grow, conjugate gradients, candidates that are given up."""

from functools import partial

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.model_selection import StratifiedKFold

from budgetline import AnytimeClassifier, AnytimeClassifierCV, AnytimeRegressor, AnytimeSurvival, open_data
from budgetline.glm import newton
from budgetline.glm.families import Logistic, Poisson
from budgetline.glm.row_blocks import Design

SEED = 0


def table(classes=2, n=600, columns=60, seed=SEED, signal=1.0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, columns)) @ (np.eye(columns) + 0.2 * rng.normal(size=(columns, columns)))
    scores = signal * X @ rng.normal(size=(columns, classes)) / 8 + rng.gumbel(size=(n, classes))
    return X, scores.argmax(axis=1)


GROUPS = {f"g{k}": list(range(4 * k, 4 * k + 4)) for k in range(15)}


def settings(monkeypatch, **values):
    for name, value in values.items():
        where = "rows_engine.RowsEngine.few" if name == "few" else f"newton.{name}"
        monkeypatch.setattr(f"budgetline.glm.{where}", value)


@pytest.mark.parametrize("loss", ["logistic", "softmax", "poisson"])
def test_an_old_factor_that_grows_leads_to_the_same_models(loss, monkeypatch):
    X, y = table(3 if loss == "softmax" else 2)
    model = AnytimeRegressor(GROUPS, rule="omp", loss="poisson", alpha=1e-3) if loss == "poisson" else None
    model = AnytimeClassifier(GROUPS, rule="omp", alpha=1e-3) if model is None else model
    settings(monkeypatch, few=10**9)  # a new, exact Hessian at every step
    fresh = model.fit(X, y).coef_path_
    settings(monkeypatch, few=0, PATIENCE=np.inf)  # never a new one
    old = model.fit(X, y).coef_path_
    np.testing.assert_allclose(old, fresh, rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize(
    ("loss", "signal", "alpha"), [("logistic", 1, 1e-3), ("logistic", 8, 1e-4), ("poisson", 1, 1e-3)]
)
@pytest.mark.parametrize("rule", ["omp", "score"])
def test_hessians_that_are_updated_in_part_lead_to_the_same_models(loss, signal, alpha, rule, monkeypatch):
    X, y = table(signal=signal)
    kind = AnytimeClassifier if loss == "logistic" else partial(AnytimeRegressor, loss="poisson")
    model = kind(GROUPS, rule=rule, alpha=alpha)
    settings(monkeypatch, few=0, PATIENCE=1, WITHIN=0.0)  # many Hessians, whole ones
    whole = model.fit(X, y).coef_path_
    parts, picked = [], Design.picked
    monkeypatch.setattr(Design, "picked", lambda *args: parts.append(1) or picked(*args))
    for part in (0.15, 1.0):
        settings(monkeypatch, WITHIN=part)
        np.testing.assert_allclose(model.fit(X, y).coef_path_, whole, rtol=1e-7, atol=1e-8)
        assert parts
        parts.clear()


def test_nearly_separable_classes_take_fewer_hessians_if_each_serves_for_some_steps(monkeypatch):
    X, y = table(signal=8.0)
    hessians, original = [], newton._metric
    monkeypatch.setattr(newton, "_metric", lambda *args: hessians.append(1) or original(*args))
    settings(monkeypatch, few=0)
    model = AnytimeClassifier(GROUPS, rule="omp", alpha=1e-5)
    patient, few = model.fit(X, y).coef_path_, len(hessians)
    settings(monkeypatch, PATIENCE=0)  # a new one at every step
    np.testing.assert_allclose(model.fit(X, y).coef_path_, patient, rtol=1e-6, atol=1e-6)
    assert few < 0.5 * (len(hessians) - few)


@pytest.mark.parametrize("loss", ["logistic", "cox"])
def test_standard_errors_from_the_factor_of_the_last_step_are_nearly_exact(loss, monkeypatch):
    X, y = table()
    if loss == "cox":
        time = np.random.default_rng(SEED).exponential(np.exp(-X[:, :20] @ np.full(20, 0.1)))
        model = AnytimeSurvival(GROUPS, rule="omp", alpha=1e-3)
        fitted = partial(model.fit, X, time, time < np.quantile(time, 0.8))
    else:
        model = AnytimeClassifier(GROUPS, rule="omp", alpha=1e-3)
        fitted = partial(model.fit, X, y)
    monkeypatch.setattr("budgetline.glm.generalised_linear.SMALL", 0)
    nearly = fitted().model_.stages.spread.values
    monkeypatch.setattr("budgetline.glm.generalised_linear.SMALL", np.inf)  # a new Hessian at every stage
    exact = fitted().model_.stages.spread.values
    alone = exact > 0
    error = np.abs(np.sqrt(nearly[alone] / exact[alone]) - 1)
    assert np.quantile(error, 0.9) < 0.05
    assert error.max() < 0.4


@pytest.mark.parametrize("alpha", [1e-1, 1e-4])
def test_conjugate_gradients_lead_to_the_same_models(alpha, monkeypatch):
    X, y = table(4, n=400, columns=24)
    groups = {name: GROUPS[name] for name in list(GROUPS)[:6]}
    model = AnytimeClassifier(groups, rule="omp", alpha=alpha)
    direct = model.fit(X, y).coef_path_
    settings(monkeypatch, DIRECT_SIZE=1)
    np.testing.assert_allclose(model.fit(X, y).coef_path_, direct, rtol=1e-7, atol=1e-8)


@pytest.mark.parametrize("kind", ["correlated", "rare", "separable"])
def test_the_last_stage_is_the_model_of_scikit_learn(kind):
    rng = np.random.default_rng(SEED)
    X, _ = table(n=3000)
    score = X @ rng.normal(size=60) / 8
    noise = 0.0 if kind == "separable" else rng.logistic(size=3000)
    y = (score + noise > (5 if kind == "rare" else 0)).astype(int)
    alpha = 1e-3
    ours = AnytimeClassifier(GROUPS, rule="score", alpha=alpha).fit(X, y)
    Z = (X - X.mean(axis=0)) / X.std(axis=0)
    theirs = LogisticRegression(C=1 / (alpha * len(y)), solver="newton-cholesky", tol=1e-12).fit(Z, y)
    np.testing.assert_allclose(ours.coef_ * X.std(axis=0), theirs.coef_[0], rtol=1e-6, atol=1e-8)


def exact_coefficients(X, y, alpha):
    """Return those of the standardised columns, to about 17 digits: only gradients need more digits than doubles."""
    Z = X.astype(np.longdouble) - X.astype(np.longdouble).mean(axis=0)
    Z = np.column_stack([np.ones(len(y)), Z / np.sqrt((Z**2).mean(axis=0))])
    theta, ridge = np.zeros(Z.shape[1], dtype=np.longdouble), np.r_[0.0, np.full(X.shape[1], alpha)]
    for _ in range(30):
        p = 1 / (1 + np.exp(-(Z @ theta)))
        H = ((Z.T * (p * (1 - p))) @ Z / len(y) + np.diag(ridge)).astype(float)
        theta -= np.linalg.solve(H, (Z.T @ (p - y) / len(y) + ridge * theta).astype(float))
    return theta[1:].astype(float)


@pytest.mark.parametrize("seed", [SEED, SEED + 1])
def test_last_steps_find_coefficients_that_a_small_gradient_leaves_open(seed, monkeypatch):
    rng = np.random.default_rng(seed)
    factors = rng.normal(size=(400, 3))
    X = factors @ rng.normal(size=(3, 40)) + 0.005 * rng.normal(size=(400, 40))  # little curvature in most directions
    y = (factors @ [1.0, -1.0, 0.5] + rng.logistic(size=400) > 0).astype(int)
    model = AnytimeClassifier([list(range(4 * k, 4 * k + 4)) for k in range(10)], rule="omp", alpha=1e-3)
    errors = []
    for close in (np.inf, 1e-11):  # with inf, one last step or none
        settings(monkeypatch, few=0, PATIENCE=20, CLOSE=close)  # the Hessian is out of date
        path = model.fit(X, y).coef_path_
        for found in path[::4] * X.std(axis=0):
            chosen, wanted = np.flatnonzero(found), exact_coefficients(X[:, found != 0], y, 1e-3)
            errors.append(np.abs(found[chosen] - wanted).max() / np.abs(wanted).max())
    before, after = np.reshape(errors, (2, -1)).max(axis=1)
    assert after < 3e-11 < before


@pytest.mark.parametrize("classes", [2, 3])
def test_candidates_are_given_up_only_if_they_lose(classes, monkeypatch):
    X, y = table(classes, n=500, columns=32)
    X[:, ::5] = np.sinh(X[:, ::5])  # some heavy tails
    groups = {name: GROUPS[name] for name in list(GROUPS)[:8]}
    costs = dict(zip(groups, [1.0, 2.0, 1.0, 3.0, 0.5, 1.0, 2.0, 1.0], strict=True))
    model = AnytimeClassifier(groups, costs, rule="forward", alpha=1e-3)
    found = model.fit(X, y).sequence_
    monkeypatch.setattr("budgetline.glm.generalised_linear.SCREEN", 1e300)
    wanted = model.fit(X, y).sequence_
    assert found.groups == wanted.groups
    np.testing.assert_allclose(found.gains, wanted.gains, atol=1e-12)


def test_folds_side_by_side_give_the_same_scores_as_one_after_another(monkeypatch):
    X, y = table(n=300, columns=20)
    groups = {name: GROUPS[name] for name in list(GROUPS)[:5]}
    search = AnytimeClassifierCV(groups, rule="omp", alphas=[1e-3, 1e-1])
    together = search.fit(X, y).cv_scores_
    monkeypatch.setattr("budgetline.fitting.rows_training.SMALL", 0)
    assert np.array_equal(search.fit(X, y).cv_scores_, together)


def test_scores_of_folds_are_those_of_plain_fits():
    X, y = table(n=300, columns=20)
    groups = {name: GROUPS[name] for name in list(GROUPS)[:5]}
    costs = dict(zip(groups, [1.0, 2.0, 0.5, 3.0, 1.0], strict=True))
    alphas, corrections, splits = [1e-3, 1e-1], [0.0, 1.0], list(StratifiedKFold(3).split(X, y))
    settings = {"alphas": alphas, "corrections": corrections, "cv": splits, "rule": "omp"}
    search = AnytimeClassifierCV(groups, costs, **settings).fit(X, y)

    def score(train, test, alpha, correction):
        model = AnytimeClassifier(groups, costs, alpha=alpha, correction=correction, rule="omp").fit(X[train], y[train])
        losses = [log_loss(y[test], model.predict_proba(X[test], stage=stage)) for stage in range(6)]
        explained = 1 - np.array(losses) / losses[0]
        return model.sequence_.costs @ explained[:-1] / sum(costs.values())

    wanted = [[score(*split, alpha, 0.0) for split in splits] for alpha in alphas]
    np.testing.assert_allclose(search.cv_scores_, wanted, atol=1e-9)
    wanted = [[score(*split, search.alpha_, correction) for split in splits] for correction in corrections]
    np.testing.assert_allclose(search.correction_scores_, wanted, atol=1e-9)


def test_every_pass_over_a_source_gives_a_new_hessian(monkeypatch):
    X, y = table(n=400, columns=12)
    hessians = []
    original = newton._metric
    monkeypatch.setattr(newton, "_metric", lambda *args: hessians.append(1) or original(*args))
    search = AnytimeClassifier(rule="omp").fit(open_data((X, y), chunk_rows=90))
    # two passes look at labels and moments; the last point of a stage, predicted by its Hessian, takes none
    assert len(hessians) >= search.n_passes_ - 2


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_tolerance_below_rounding_is_no_obstacle():
    X, y = table(n=300, columns=60)
    wanted, found = (AnytimeClassifier(GROUPS, rule="omp", alpha=1e-2, tol=tol).fit(X, y) for tol in (1e-10, 1e-300))
    np.testing.assert_allclose(found.coef_path_, wanted.coef_path_, rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize("family", [Logistic(), Poisson()])
def test_a_loss_is_computed_only_where_it_decides(family, monkeypatch):
    X, y = table(n=3000)
    kind = AnytimeClassifier if family.loss == "log_loss" else partial(AnytimeRegressor, loss="poisson")
    model = kind(GROUPS, rule="omp", alpha=1e-3)
    calls = {"value": 0, "mean": 0}

    def counted(name, inner):
        def count(*given):
            calls[name] += len(given[1]) == 3000  # of all rows
            return inner(*given)

        return count

    monkeypatch.setattr("budgetline.glm.rows_engine.FEWEST_ROWS", 3000)  # in one block
    for name in calls:
        monkeypatch.setattr(type(family), name, counted(name, getattr(type(family), name)))
    lazy = model.fit(X, y).coef_path_
    assert calls["value"] < 0.7 * calls["mean"]
    inner = newton._falls
    monkeypatch.setattr(
        newton, "_falls", lambda fit, new, least: inner(fit, new, least) and new.risk < fit.risk + 1e-12
    )
    np.testing.assert_allclose(model.fit(X, y).coef_path_, lazy, rtol=1e-8, atol=1e-9)
