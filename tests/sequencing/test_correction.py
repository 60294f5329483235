"""Gains that can be expected on new rows, and groups that come first, against references that share no code."""

import numpy as np
import pytest
import reference
from reference_shared import Shop, arguments, glm_score, greedy, linear_score, random_shop
from set_functions import greedy_sequence

import budgetline
from budgetline import AnytimeClassifier, AnytimeRegressor, FeatureGroups, Moments, open_data
from budgetline.datasets import load_heart

DECIDED = 1e-6
RULES = ("forward", "omp", "no-whiten", "single")


def problem(seed, *, P=1, additive=False):
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 4, int(rng.integers(3, 7)))
    D, n = int(sizes.sum()), 70
    X = rng.standard_normal((n, D)) @ (np.eye(D) + 0.4 * rng.standard_normal((D, D))) + rng.standard_normal(D)
    Y = X @ (rng.standard_normal((D, P)) * (rng.random((D, 1)) < 0.3)) + 2 * rng.standard_normal((n, P))
    groups = [list(map(int, g)) for g in np.split(rng.permutation(D), np.cumsum(sizes)[:-1])]
    shop = Shop(rng.uniform(0.1, 3.0, sizes.size).tolist(), [], {}) if additive else random_shop(rng, sizes.size)
    weight = rng.uniform(0.1, 2, n) if seed % 2 else None
    return X, Y[:, 0] if P == 1 else Y, groups, shop, weight


def noise_penalties(X, Y, groups, weight, alpha):
    """σ̂²d/n by hat matrices: the trace of ridge regression on each group alone, and the residuals of all columns."""
    data = reference.standardise(X, Y, weight)
    w = data.w / data.w.sum()
    n = 1 / (w**2).sum()
    root = np.sqrt(w)[:, None]

    def hat(columns):
        Z = root * data.Xs[:, columns]
        return Z @ np.linalg.solve(Z.T @ Z + alpha * np.eye(Z.shape[1]), Z.T)

    H = hat(list(range(X.shape[1])))
    left = ((root * data.Yc - H @ (root * data.Yc)) ** 2).sum()
    noise = left * n / (n - 1 - np.trace(H))
    return np.array([noise * np.trace(hat(g)) / n for g in groups])


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("alpha", [1e-5, 0.3])
def test_penalties_are_what_noise_explains(seed, alpha):
    X, y, groups, _, weight = problem(seed, P=1 + seed // 4)
    truth = noise_penalties(X, y, groups, weight, alpha)
    model = AnytimeRegressor(groups, alpha=alpha, correction=2.0)
    found = model.fit(X, y, sample_weight=weight).model_.penalties
    np.testing.assert_allclose(found, 2 * truth, rtol=1e-8)
    np.testing.assert_allclose(model.fit_moments(Moments.from_data(X, y, weight)).model_.penalties, found, rtol=1e-9)
    rows = (X, y) if weight is None else (X, y, weight)
    np.testing.assert_allclose(model.fit(open_data(rows, chunk_rows=13)).model_.penalties, found, rtol=1e-9)


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("rule", RULES)
def test_orders_are_those_of_corrected_scores(seed, rule):
    X, y, groups, shop, weight = problem(seed, P=1 + seed % 3 // 2)
    penalties = 1.5 * noise_penalties(X, y, groups, weight, 1e-3)
    score, _ = linear_score(X, y, groups, rule, 1e-3, weight)
    found = greedy(shop, lambda S, A: score(S, A) - 2 * sum(penalties[g] for g in A))
    model = AnytimeRegressor(FeatureGroups(groups, **arguments(shop)), alpha=1e-3, rule=rule, correction=1.5)
    order = model.fit(X, y, sample_weight=weight).order_.tolist()
    assert found.margin < DECIDED or order == found.order


@pytest.mark.quick_cases(12)
@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("rule", ["forward", "score", "omp"])
@pytest.mark.parametrize("family", ["logistic", "softmax", "poisson"])
def test_generalised_orders_are_those_of_corrected_scores(seed, rule, family):
    X, y, groups, shop, weight = problem(seed, P=1, additive=seed % 2 == 0)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    alpha, rng = 0.02, np.random.default_rng(seed)
    w = np.full(len(X), 1 / len(X)) if weight is None else weight / weight.sum()
    if family == "poisson":
        labels = rng.poisson(np.exp(0.3 * (y - y.mean()) / y.std()))
        Y, curvature = labels[:, None].astype(float), np.array([w @ labels])
    else:
        labels = np.digitize(y, np.quantile(y, [0.5] if family == "logistic" else [0.3, 0.7]))
        p = np.array([w[labels == c].sum() for c in range(labels.max() + 1)])
        Y = labels[:, None].astype(float) if family == "logistic" else np.eye(3)[labels]
        curvature = np.array([p[0] * p[1]]) if family == "logistic" else np.linalg.eigvalsh(np.diag(p) - np.outer(p, p))
        curvature = curvature[-1:] if family == "logistic" else curvature[1:]
    data = reference.standardise(X, Y, weight)
    covariances = [(w[:, None] * data.Xs[:, g]).T @ data.Xs[:, g] for g in groups]
    d = [sum((c * m / (c * m + alpha)).sum() for c in curvature) for m in map(np.linalg.eigvalsh, covariances)]
    penalties = np.array(d) * (w**2).sum()
    unit = curvature.mean() if rule == "omp" else 1.0
    score, _ = glm_score(family, X, Y, groups, rule, alpha, weight)
    found = greedy(shop, lambda S, A: score(S, A) - 2 * unit * sum(penalties[g] for g in A))
    cls = AnytimeRegressor if family == "poisson" else AnytimeClassifier
    settings = {"loss": "poisson"} if family == "poisson" else {}
    model = cls(FeatureGroups(groups, **arguments(shop)), alpha=alpha, rule=rule, correction=1.0, **settings)
    model.fit(X, labels, sample_weight=weight)
    np.testing.assert_allclose(model.model_.penalties, penalties, rtol=1e-7)
    assert found.margin < 1e-4 or model.order_.tolist() == found.order


def test_without_a_correction_nothing_is_subtracted():
    X, y, groups, _, _ = problem(0)
    assert AnytimeRegressor(groups).fit(X, y).model_.penalties is None
    with pytest.raises(ValueError, match="'correction' parameter"):
        AnytimeRegressor(groups, correction=-1.0).fit(X, y)


@pytest.mark.parametrize("n_rows", [15, 60])
def test_few_rows_take_the_noise_of_the_restricted_likelihood(n_rows):
    """Where the model of all columns leaves too few degrees of freedom, also with more columns than rows."""
    rng = np.random.default_rng(3)
    X = rng.standard_normal((n_rows, 50))
    y = 2 * X[:, 0] + rng.standard_normal(n_rows)
    Z, t = (X - X.mean(axis=0)) / X.std(axis=0), y - y.mean()
    best = None
    for alpha in 10.0 ** (np.arange(-64, 25) / 8):
        V = np.eye(n_rows) + Z @ Z.T / (n_rows * alpha)
        noise = t @ np.linalg.solve(V, t) / (n_rows - 1)
        value = np.linalg.slogdet(V)[1] + (n_rows - 1) * np.log(noise)
        if best is None or value <= best[0] + 0.02:
            best = min(value, np.inf if best is None else best[0]), noise
    model = AnytimeRegressor(alpha=1e-9, correction=1.0, max_groups=3)
    found = model.fit(X, y).model_.penalties
    np.testing.assert_allclose(found, best[1] / n_rows, rtol=1e-4)
    wide = model.fit(np.hstack([X, np.zeros((n_rows, 1000))]), y)
    np.testing.assert_allclose(wide.model_.penalties[:50], found, rtol=1e-6)
    assert (wide.model_.penalties[50:] == 0).all()


def test_noise_comes_last_also_if_it_is_free():
    rng = np.random.default_rng(5)
    X = rng.standard_normal((400, 6))
    y = X[:, 0] + 0.5 * X[:, 1] + rng.standard_normal(400)
    groups, costs = {"a": [0], "b": [1], "free noise": [2, 3, 4], "noise": [5]}, [2.0, 3.0, 0.0, 1.0]
    plain = AnytimeRegressor(groups, costs).fit(X, y).sequence_
    found = AnytimeRegressor(groups, costs, correction=4.0).fit(X, y).sequence_
    assert plain.groups[0] == "free noise"
    assert found.groups == ("a", "b", "noise", "free noise")
    assert AnytimeRegressor(groups, costs, correction=4.0, min_gain=1e-6).fit(X, y).sequence_.groups == ("a", "b")
    # gains are those on the training rows
    value = reference.F(*reference.standardise(X, y)[:3], [0, 1, 5], 1e-5)
    assert found.gains[:3].sum() == pytest.approx(value, rel=1e-9)


def test_effective_samples_of_weights():
    rng = np.random.default_rng(1)
    X, y, w = rng.standard_normal((30, 2)), rng.standard_normal(30), rng.uniform(0, 5, 30)
    w[3] = 0.0
    truth = w.sum() ** 2 / (w @ w)
    whole = Moments.from_data(X, y, w)
    assert whole.effective_samples == pytest.approx(truth, rel=1e-12)
    parts = [Moments.from_data(X[i], y[i], w[i]) for i in (slice(0, 7), slice(7, 20), slice(20, 30))]
    assert sum(parts).effective_samples == pytest.approx(truth, rel=1e-12)
    assert (sum(parts) - parts[1]).effective_samples == pytest.approx((parts[0] + parts[2]).effective_samples, rel=1e-9)
    assert Moments.from_data(X, y, 1e200 * w).scaled(300).effective_samples == pytest.approx(truth, rel=1e-12)
    equal = Moments.from_data(X[:9], y[:9]) + Moments.from_data(X[9:], y[9:])
    assert equal.effective_samples is None
    assert equal.sample_size == 30
    unequal = Moments.from_data(X[:10], y[:10], np.full(10, 3.0)) + Moments.from_data(X[10:], y[10:])
    assert unequal.effective_samples == pytest.approx(50**2 / 110, rel=1e-12)
    loaded = Moments.from_bytes(whole.to_bytes())
    assert loaded.effective_samples == whole.effective_samples


def test_groups_that_are_always_measured_come_first(tmp_path):
    heart = load_heart()
    model = AnytimeClassifier(heart.feature_groups, alpha=1e-2, start=["ecg", "blood"], correction=1.0)
    model.fit(heart.data, heart.target)
    assert set(model.sequence_.groups[:2]) == {"ecg", "blood"}
    plain = AnytimeClassifier(heart.feature_groups, alpha=1e-2).fit(heart.data, heart.target)
    assert set(plain.sequence_.groups[:2]).isdisjoint({"ecg", "blood"})
    budgetline.save(model, tmp_path / "m")
    loaded = budgetline.load(tmp_path / "m")
    assert loaded.start == ["ecg", "blood"]
    np.testing.assert_array_equal(loaded.model_.penalties, model.model_.penalties)
    for wrong, message in ((["ecgs"], "no group 'ecgs'"), (["ecg", "ecg"], "listed twice")):
        with pytest.raises(ValueError, match=message):
            AnytimeClassifier(heart.feature_groups, start=wrong).fit(heart.data, heart.target)


def test_start_ignores_schedule_and_gains_but_not_limits():
    X, y, groups, _, _ = problem(2)
    last = str(AnytimeRegressor(groups).fit(X, y).sequence_.groups[-1])
    costs = np.arange(1.0, len(groups) + 1)
    named = FeatureGroups(groups, costs)
    for settings in ({"schedule": "doubling"}, {"schedule": "cheapest"}, {"min_gain": 0.9}, {"cost_sensitive": False}):
        assert AnytimeRegressor(named, start=[last], **settings).fit(X, y).sequence_.groups[0] == last
    assert len(AnytimeRegressor(named, start=[last], min_gain=0.999).fit(X, y).sequence_) == 1
    with pytest.raises(ValueError, match="groups of start cost"):
        AnytimeRegressor(named, start=list(named.names), max_cost=2.0).fit(X, y)
    with pytest.raises(ValueError, match="max_groups is 1"):
        AnytimeRegressor(named, start=list(named.names), max_groups=1).fit(X, y)
    chain = FeatureGroups(groups, costs, requires={"1": ["0"]})
    assert AnytimeRegressor(chain, start=["1"]).fit(X, y).sequence_.groups[:2] == ("0", "1")


def test_harmful_free_elements_come_last():
    worth = {"a": 3.0, "b": -1.0, "c": 2.0}
    found = greedy_sequence(lambda S: sum(worth[x] for x in S), {"a": 1.0, "b": 0.0, "c": 1.0})
    assert found.groups == ("a", "c", "b")
