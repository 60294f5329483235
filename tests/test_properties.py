"""What must not matter does not, and what must scale does (Hypothesis)."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from budgetline import AnytimeRegressor

rules = st.sampled_from(["forward", "omp", "no-whiten", "single"])
schedules = st.sampled_from(["greedy", "doubling"])
seeds = st.integers(0, 10**6)


def problem(seed):
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 4, rng.integers(2, 7))
    D = int(sizes.sum())
    X = rng.standard_normal((D + 20, D)) @ rng.standard_normal((D, D)) + rng.standard_normal(D)
    y = X @ rng.standard_normal(D) + rng.standard_normal(D + 20)
    groups = [list(map(int, g)) for g in np.split(np.arange(D), np.cumsum(sizes)[:-1])]
    return rng, X, y, groups, rng.uniform(0.5, 3, len(groups))


@settings(max_examples=40, deadline=None)
@given(seed=seeds, rule=rules, schedule=schedules)
def test_order_of_columns_and_of_groups_does_not_matter(seed, rule, schedule):
    rng, X, y, groups, costs = problem(seed)
    model = AnytimeRegressor(groups, costs, rule=rule, schedule=schedule).fit(X, y)
    columns, names = rng.permutation(X.shape[1]), rng.permutation(len(groups))
    where = np.argsort(columns)
    shuffled = [[int(where[d]) for d in groups[g]] for g in names]
    other = AnytimeRegressor(shuffled, costs[names], rule=rule, schedule=schedule).fit(X[:, columns], y)
    assert names[other.order_].tolist() == model.order_.tolist()
    np.testing.assert_allclose(other.coef_path_, model.coef_path_[:, columns], rtol=1e-7, atol=1e-9)


@settings(max_examples=40, deadline=None)
@given(seed=seeds, rule=rules, schedule=schedules, factor=st.floats(1e-6, 1e6))
def test_unit_of_cost_does_not_matter(seed, rule, schedule, factor):
    _, X, y, groups, costs = problem(seed)
    model, other = (AnytimeRegressor(groups, costs * f, rule=rule, schedule=schedule).fit(X, y) for f in (1.0, factor))
    assert other.order_.tolist() == model.order_.tolist()
    np.testing.assert_allclose(other.sequence_.cumulative_costs, factor * model.sequence_.cumulative_costs)


@settings(max_examples=40, deadline=None)
@given(seed=seeds, rule=rules)
def test_units_of_x_and_y_do_not_matter(seed, rule):
    rng, X, y, groups, costs = problem(seed)
    scale, shift = 10.0 ** rng.uniform(-4, 4, X.shape[1]), rng.uniform(-50, 50, X.shape[1])
    model = AnytimeRegressor(groups, costs, rule=rule).fit(X, y)
    other = AnytimeRegressor(groups, costs, rule=rule).fit(X * scale + shift, 7 * y - 3)
    assert other.order_.tolist() == model.order_.tolist()
    np.testing.assert_allclose(other.sequence_.explained, model.sequence_.explained, rtol=1e-9)
    for j in range(len(groups) + 1):
        ours, theirs = other.predict(X * scale + shift, stage=j), model.predict(X, stage=j)
        np.testing.assert_allclose(ours, 7 * theirs - 3, rtol=1e-6, atol=1e-6)


@settings(max_examples=40, deadline=None)
@given(seed=seeds, rule=st.sampled_from(["forward", "omp"]))
def test_mixing_the_columns_of_a_group_does_not_matter_without_ridge(seed, rule):
    """Only what a group spans counts for `forward` and for the whitened gradient."""
    rng, X, y, groups, costs = problem(seed)
    mixed = X.copy()
    for g in groups:
        rotation = np.linalg.qr(rng.standard_normal((len(g), len(g))))[0]
        mixed[:, g] = X[:, g] / X[:, g].std(axis=0) @ (rotation * rng.uniform(0.5, 2, len(g)))
    model, other = (AnytimeRegressor(groups, costs, rule=rule, alpha=0.0).fit(T, y) for T in (X, mixed))
    assert other.order_.tolist() == model.order_.tolist()
    np.testing.assert_allclose(other.predict(mixed), model.predict(X), rtol=1e-6, atol=1e-6)


@settings(max_examples=40, deadline=None)
@given(seed=seeds, rule=rules, schedule=schedules, alpha=st.sampled_from([0.0, 1e-5, 0.1]))
def test_every_sequence_is_complete_and_never_loses(seed, rule, schedule, alpha):
    _, X, y, groups, costs = problem(seed)
    model = AnytimeRegressor(groups, costs, rule=rule, schedule=schedule, alpha=alpha).fit(X, y)
    assert sorted(model.order_.tolist()) == list(range(len(groups)))
    assert np.all(model.sequence_.gains >= -1e-15)
    assert model.sequence_.explained[-1] <= 1 + 1e-12
    residuals = [np.sum((y - p) ** 2) for p in model.staged_predict(X)]
    assert np.all(np.diff([np.sum((y - y.mean()) ** 2), *residuals]) <= 1e-9 * residuals[0] + alpha * np.sum(y**2))


@settings(max_examples=30, deadline=None)
@given(seed=seeds, alpha=st.sampled_from([0.0, 1e-5, 0.1]), data=st.data())
def test_any_available_subset_is_the_model_fitted_on_it(seed, alpha, data):
    _, X, y, groups, costs = problem(seed)
    model = AnytimeRegressor(groups, costs, alpha=alpha).fit(X, y)
    subset = data.draw(st.sets(st.integers(0, len(groups) - 1), min_size=1))
    columns = [d for g in subset for d in groups[g]]
    alone = AnytimeRegressor([list(range(len(columns)))], alpha=alpha).fit(X[:, columns], y)
    hidden = X.copy()
    hidden[:, [d for d in range(X.shape[1]) if d not in columns]] = np.nan
    found = model.predict(hidden, available={str(g) for g in subset})
    np.testing.assert_allclose(found, alone.predict(X[:, columns]), rtol=1e-7, atol=1e-7)
