"""Models of any groups of a GLM, fitted to what it keeps of the training rows: compared with refits, and from files."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression, LogisticRegressionCV, PoissonRegressor
from sklearn.metrics import log_loss, mean_poisson_deviance
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

from budgetline import AnytimeClassifier, AnytimeRegressor, Encoding, FeatureGroups, load, open_data, save
from budgetline.datasets import load_heart
from budgetline.glm import ConvexLoss
from budgetline.model.population import (
    ABOVE,
    CELL_ROWS,
    LIKELIER,
    SMALLER,
    WIDEST_LOG_ODDS,
    PopulationRisk,
    cells_of,
    factor_of,
)

COLUMNS = {"p": [0], "q": [1, 2], "r": [3, 4], "s": [5], "t": [6]}
SUBSETS = [["q", "t"], ["p"], ["r", "s"], ["s", "p", "t"], ["q", "r", "s", "t"]]


def table(seed=0, n=400):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 7)) @ (np.eye(7) + 0.3 * rng.normal(size=(7, 7)))
    return X, X @ rng.normal(size=7), rng


def classes_of(score, rng, classes=2):
    noisy = score / score.std() * 1.5 + rng.logistic(size=len(score))
    return np.digitize(noisy, np.quantile(noisy, np.arange(1, classes) / classes))


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("subset", SUBSETS)
def test_close_to_a_refit(classes, weighted, subset):
    X, score, rng = table(1)
    y = classes_of(score, rng, classes)
    weight = rng.integers(0, 3, size=len(y)) if weighted else np.ones(len(y))
    model = AnytimeClassifier(COLUMNS, alpha=1e-3).fit(X, y, sample_weight=weight)
    found = model.predict_proba(X, available=subset)
    own = X[:, [d for name in subset for d in COLUMNS[name]]]
    scaled = StandardScaler().fit(own, sample_weight=weight).transform(own)
    refit = LogisticRegression(C=1 / (1e-3 * weight.sum())).fit(scaled, y, sample_weight=weight).predict_proba(scaled)
    frequency = np.bincount(y, weight) / weight.sum()
    np.testing.assert_allclose(np.average(found, axis=0, weights=weight), frequency, atol=0.01)
    losses = [log_loss(y, p, sample_weight=weight) for p in (np.tile(frequency, (len(y), 1)), found, refit)]
    assert losses[0] - losses[1] > 0.9 * (losses[0] - losses[2]) - 5e-3  # its ridge is larger


def separable_tables():
    """Yield tables on which the model of all columns is nearly certain of every row."""
    heart = load_heart()
    rng = np.random.default_rng(0)
    leak = heart.target + 0.05 * rng.normal(size=len(heart.target))
    yield "heart and a leak", np.column_stack([heart.data, leak]), heart.target
    cancer = load_breast_cancer()
    yield "cancer", cancer.data, cancer.target
    X, score, _ = table(2)
    yield "by a line", X, (score > 0.3).astype(int)


@pytest.mark.parametrize("case", separable_tables(), ids=lambda case: case[0])
@pytest.mark.parametrize("alpha", [1e-6, "auto"])
def test_separable_classes(case, alpha):
    """On new rows no set of columns is worse than no model, and on average most of what a refit gains is gained."""
    _, X, y = case
    X, X_new, y, y_new = train_test_split(X, y, test_size=0.4, random_state=0, stratify=y)
    model = AnytimeClassifier(alpha=alpha, rule="omp").fit(X, y)
    rng, scaler, gains = np.random.default_rng(1), StandardScaler().fit(X), []
    prior = log_loss(y_new, np.full(len(y_new), y.mean()))
    for size in (1, 2, 2, 3, 4, 5):
        own = np.sort(rng.choice(X.shape[1], size, replace=False))
        found = log_loss(y_new, model.predict_proba(X_new, available=[str(d) for d in own]))
        refit = LogisticRegressionCV(scoring="neg_log_loss", l1_ratios=(0,), use_legacy_attributes=False).fit(
            scaler.transform(X)[:, own], y
        )
        gains.append([prior - found, prior - log_loss(y_new, refit.predict_proba(scaler.transform(X_new)[:, own]))])
        assert found < prior + 0.01
    mean = np.mean(gains, axis=0)
    assert mean[0] > 0.9 * mean[1]


@pytest.mark.parametrize("alpha", [1e-6, "auto"])
def test_three_separable_classes(alpha):
    """Least squares cannot tell the class in the middle from the others and needs far more ridge than classes do."""
    gains = []
    for seed in range(3):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(400, 8)) @ (np.eye(8) + 0.3 * rng.normal(size=(8, 8)))
        score = X[:, 0] + X[:, 1]
        y = np.digitize(score, np.quantile(score, [0.3, 0.7]))
        X, X_new, y, y_new = train_test_split(X, y, test_size=0.5, random_state=0, stratify=y)
        model = AnytimeClassifier(alpha=alpha, rule="omp").fit(X, y)
        prior = log_loss(y_new, np.tile(np.bincount(y) / len(y), (len(y_new), 1)))
        for own in ([0, 1, 2, 5], [0, 1, 7], [1, 0, 3, 4, 6], [1, 3, 4], [2, 5]):
            found = log_loss(y_new, model.predict_proba(X_new, available=[str(d) for d in own]))
            refit = AnytimeClassifier(alpha="auto", rule="omp").fit(X[:, own], y)
            refitted = log_loss(y_new, refit.predict_proba(X_new[:, own]))
            gains.append([prior - found, prior - refitted])
            assert found < max(prior, refitted) + 0.01
    mean = np.mean(gains, axis=0)
    assert mean[0] > 0.9 * mean[1]


@pytest.mark.parametrize("classes", [2, 3])
def test_the_ridge_of_classes_is_the_likeliest_by_dense_determinants(classes):
    smaller = 0
    for seed in range(5):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(150, 5))
        score = 8 * X[:, 0] + 4 * X[:, 1] + rng.normal(size=150)
        y = np.digitize(score, np.quantile(score, np.arange(1, classes) / classes))
        stages = AnytimeClassifier(alpha=1e-6, rule="omp").fit(X, y).model_.stages
        subset, columns = stages.subset, np.isin(stages.columns, [0, 1, 4])
        risk = PopulationRisk.of(subset.population.of_columns(columns), subset.family, 1e-6)
        n, least = subset.population.n_rows, 1 / (subset.population.n_rows * WIDEST_LOG_ODDS**2)

        def model_and_criterion(ridge, risk=risk, n=n):
            each = replace(risk, ridge=ridge)
            found = each.fitted()
            lost = each.at(found.level, each.V.T @ found.coef).risk
            volume = np.linalg.slogdet(each.expansion(found.level, found.coef).H)[1] - each.b.size * np.log(ridge)
            return found, 2 * n * lost + volume if lost > 0 else np.inf

        ridge = risk.regularised().ridge
        found, value = model_and_criterion(ridge)
        while ridge > least and n * ridge * (found.coef**2).sum() > ABOVE * found.coef.size:
            ridge = max(ridge / SMALLER, least)
            following = model_and_criterion(ridge)
            if not following[1] < value - LIKELIER:
                break
            found, value = following
            smaller += 1
        np.testing.assert_allclose(risk.likeliest().coef, found.coef, rtol=1e-2, atol=1e-2)
    assert smaller > 0


def test_counts_are_close_to_refits_and_never_worse_than_their_mean():
    X, score, rng = table(3)
    y = rng.poisson(np.exp(0.5 + score / score.std() * 0.7))
    model = AnytimeRegressor(COLUMNS, loss="poisson", alpha=1e-3).fit(X, y)
    scaled = StandardScaler().fit_transform(X)
    prior = mean_poisson_deviance(y, np.full(len(y), y.mean()))
    for subset in SUBSETS:
        own = [d for name in subset for d in COLUMNS[name]]
        found = prior - mean_poisson_deviance(y, model.predict(X, available=subset))
        refit = PoissonRegressor(alpha=1e-3).fit(scaled[:, own], y)
        assert found > 0.95 * (prior - mean_poisson_deviance(y, refit.predict(scaled[:, own]))) - 1e-3


def test_a_loss_of_ones_own_with_a_bounded_domain():
    """φ(η) = −log(−η), of exponential waiting times, is infinite for η ≥ 0."""
    X, score, rng = table(4)
    y = rng.exponential(1 / (3 + score / np.abs(score).max()))
    own = ConvexLoss(lambda s: np.where(s < 0, -np.log(np.maximum(-s, 1e-300)), np.inf), lambda s: -1 / s, start=-1.0)
    model = AnytimeRegressor(COLUMNS, loss=own, alpha=1e-2).fit(X, y)
    for subset in SUBSETS:
        found = model.predict(X, available=subset)
        assert np.isfinite(found).all()
        assert abs(found.mean() - y.mean()) < 0.2 * y.mean()


def test_noise_is_answered_by_the_frequency():
    X, _, rng = table(5, n=60)
    wide = np.hstack([X, rng.normal(size=(60, 40))])
    model = AnytimeClassifier(alpha=1e-6, rule="omp").fit(wide, rng.random(60) < 0.4)
    new = rng.normal(size=(500, 47))
    for first in (0, 10, 20):
        p = model.predict_proba(new, available=[str(d) for d in range(first, first + 20)])[:, 1]
        assert np.abs(p - 0.4).mean() < 0.25


def test_a_source_has_the_same_population():
    X, score, rng = table(4, 3000)
    y = classes_of(score, rng)
    here = AnytimeClassifier(COLUMNS, rule="score", alpha=1e-3).fit(X, y)
    streamed = AnytimeClassifier(COLUMNS, rule="score", alpha=1e-3).fit(open_data((X, y), chunk_rows=170))
    for names in SUBSETS:
        expected = here.predict_proba(X[:50], available=names)
        np.testing.assert_allclose(streamed.predict_proba(X[:50], available=names), expected, atol=1e-5)


def test_a_file_is_small_and_holds_no_rows(tmp_path):
    X, score, rng = table(6, 800)
    y = classes_of(score, rng)
    model = AnytimeClassifier(COLUMNS, alpha=1e-3).fit(X, y)
    population = model.model_.stages.subset.population
    assert population.factor.shape == (7, 7)
    assert np.all(population.share * 800 >= CELL_ROWS - 1e-9)
    save(model, tmp_path / "m")
    assert (tmp_path / "m").stat().st_size < 20_000
    again = load(tmp_path / "m")
    for names in SUBSETS:
        assert np.array_equal(again.predict_proba(X, available=names), model.predict_proba(X, available=names))


def test_wide_tables_keep_as_many_dimensions_as_rows():
    rng = np.random.default_rng(7)
    X = rng.normal(size=(30, 200))
    y = X[:, 0] + X[:, 1] > 0
    model = AnytimeClassifier(FeatureGroups([list(range(k, k + 20)) for k in range(0, 200, 20)]), rule="omp").fit(X, y)
    assert model.model_.stages.subset.population.factor.shape == (29, 200)
    assert np.isfinite(model.decision_function(X, available=["3", "7"])).all()


def test_constant_and_repeated_columns():
    X, score, rng = table(8)
    X = np.column_stack([X, X[:, :2], np.ones(len(X))])
    model = AnytimeClassifier(alpha=1e-3).fit(X, classes_of(score, rng))
    same = [model.predict_proba(X, available=[name]) for name in ("0", "7")]
    np.testing.assert_allclose(*same, rtol=1e-6)
    assert np.ptp(model.predict_proba(X, available=["9"]), axis=0).max() == 0


@pytest.mark.parametrize("rank", [0, 2, 4])
def test_the_factor_of_a_covariance(rank):
    A = np.random.default_rng(rank).normal(size=(rank, 4))
    G = factor_of(A.T @ A)
    assert G.shape == (rank, 4)
    np.testing.assert_allclose(G.T @ G, A.T @ A, atol=1e-12)


def test_cells_are_split_between_clusters_of_scores():
    rng = np.random.default_rng(9)
    score = np.concatenate([rng.normal(size=30), rng.normal(size=12) + 50])[:, None]
    rows = np.hstack([score, rng.normal(size=(42, 2))])
    share, mean = cells_of(rows, np.full(42, 1 / 42), score)
    assert share.min() >= CELL_ROWS / 42 - 1e-12
    np.testing.assert_allclose(share @ mean, 0, atol=1e-12)
    assert share[mean[:, 0] > 20].sum() == pytest.approx(12 / 42)
    assert len(cells_of(rows[:, 1:], np.full(42, 1 / 42), np.zeros((42, 1)))[0]) == 1


def test_no_mean_of_a_cell_is_a_row_of_large_weight():
    rng = np.random.default_rng(0)
    rows, weight = rng.normal(size=(400, 3)), np.where(np.arange(400) < 40, 1e6, 1.0)
    rows -= weight @ rows / weight.sum()
    _, mean = cells_of(rows, weight, rows[:, :1])
    assert len(mean) > 3
    assert np.abs(rows[:, None] - mean).max(axis=2).min() > 1e-2


def test_a_pair_needs_only_its_own_groups():
    """What the groups of a pair require in turn may be missing from a row."""
    rng = np.random.default_rng(10)
    X = pd.DataFrame(rng.normal(size=(300, 3)), columns=["a", "b", "c"])
    y = expit(3 * X["a"] * X["b"] + X["c"]) > rng.random(300)
    groups = FeatureGroups({name: [name] for name in X}, requires={"a": ["c"]})
    model = AnytimeClassifier(groups, encoding=Encoding("linear", interactions=1), alpha=1e-2).fit(X, y)
    assert "a × b" in model.sequence_.groups
    few = X[:20].assign(c=np.nan)
    expected = model.predict_proba(few, available=["a", "b", "a × b"])
    np.testing.assert_allclose(model.predict_proba(few, available="auto"), expected, rtol=1e-9)
