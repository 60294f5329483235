"""The generators: the paper's numbers, determinism, correlation, memory."""

import tracemalloc

import numpy as np
import pytest
from paper_shapes import CHUNK, make_agricultural, make_yahoo, random_by_cost

pytestmark = pytest.mark.quick_cases(1)

GENERATORS = [make_agricultural, make_yahoo]
SEEDS = [0, 1, 2]


@pytest.fixture(scope="module")
def field():
    return make_agricultural(20_000, random_state=0)


@pytest.fixture(scope="module")
def web():
    return make_yahoo(20_000, random_state=0)


def initial_risk(target):
    return 0.5 * np.var(target)


def explained(data, target):
    """Share of the variance that least squares on all columns explains."""
    data, target = data - data.mean(axis=0), target - target.mean()
    residual = target - data @ np.linalg.lstsq(data, target, rcond=None)[0]
    return 1 - residual @ residual / (target @ target)


@pytest.mark.parametrize("make", GENERATORS)
def test_same_seed_same_data(make):
    first, again, other = make(300, random_state=7), make(300, random_state=7), make(300, random_state=8)
    np.testing.assert_array_equal(first.data, again.data)
    np.testing.assert_array_equal(first.target, again.target)
    assert first.feature_groups.columns == again.feature_groups.columns
    np.testing.assert_array_equal(first.feature_groups.costs, again.feature_groups.costs)
    assert not np.array_equal(first.data, other.data)
    assert first.feature_groups.columns != other.feature_groups.columns


@pytest.mark.parametrize("make", GENERATORS)
def test_random_state_object_is_accepted(make):
    state = np.random.RandomState(3)
    first, second = make(50, random_state=state), make(50, random_state=state)
    assert not np.array_equal(first.data, second.data)
    np.testing.assert_array_equal(first.data, make(50, random_state=np.random.RandomState(3)).data)


@pytest.mark.parametrize("make", GENERATORS)
@pytest.mark.parametrize("n_samples", [1, CHUNK, CHUNK + 1])
def test_any_number_of_rows(make, n_samples):
    bunch = make(n_samples, random_state=0)
    assert len(bunch.data) == len(bunch.target) == n_samples
    assert np.isfinite(bunch.data).all()


@pytest.mark.parametrize("make", GENERATORS)
@pytest.mark.parametrize("n_samples", [0, -3, 2.5, "many", True])
def test_number_of_rows_must_be_a_positive_integer(make, n_samples):
    with pytest.raises(ValueError, match="n_samples must be an integer ≥ 1"):
        make(n_samples)


@pytest.mark.parametrize("make", GENERATORS)
def test_every_column_is_in_exactly_one_group(make):
    bunch = make(10, random_state=0)
    members = [column for group in bunch.feature_groups.columns for column in group]
    assert sorted(members) == list(range(bunch.data.shape[1]))
    assert len(set(bunch.feature_names)) == bunch.data.shape[1]
    assert bunch.data.dtype == np.float64
    assert "synthetic" in bunch.DESCR.lower()


@pytest.mark.parametrize("make", GENERATORS)
def test_peak_memory_is_about_the_data(make):
    make(10, random_state=0)  # imports and caches
    tracemalloc.start()
    bunch = make(12 * CHUNK, random_state=0)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 1.5 * bunch.data.nbytes


# -- Agricultural ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", SEEDS)
def test_agricultural_group_sizes_and_costs(seed):
    bunch = make_agricultural(10, random_state=seed)
    sizes = np.array([len(columns) for columns in bunch.feature_groups.columns])
    assert bunch.data.shape == (10, 328)
    assert len(sizes) == 57
    assert (sizes == 32).sum() == 6
    small = sizes[sizes != 32]
    assert (small.min(), small.max(), small.sum()) == (1, 6, 136)
    costs = bunch.feature_groups.costs
    assert (costs.min(), costs.max()) == (0.0005, 0.0088)
    assert np.round(costs * 1e6).sum() == 111_000
    assert costs.sum() == pytest.approx(0.111, abs=1e-15)


@pytest.mark.parametrize("seed", SEEDS)
def test_agricultural_labels_have_the_papers_initial_risk(seed):
    target = make_agricultural(20_000, random_state=seed).target
    assert set(target.tolist()) == {1, 2}
    assert initial_risk(target) == pytest.approx(0.091, abs=0.003)


def test_agricultural_features_correlate_within_groups(field):
    correlation = np.abs(np.corrcoef(field.data, rowvar=False))
    group = np.repeat(np.arange(57), [len(columns) for columns in field.feature_groups.columns])
    same = (group[:, None] == group) & ~np.eye(len(group), dtype=bool)
    assert correlation[same].mean() > 0.4
    assert correlation[group[:, None] != group].mean() < 0.2


def test_agricultural_signal_is_spread_but_a_few_groups_hold_most(field):
    whole = explained(field.data, field.target)
    assert 0.4 < whole < 0.6
    alone = sorted(
        (explained(field.data[:, list(columns)], field.target) for columns in field.feature_groups.columns),
        reverse=True,
    )
    assert alone[0] < 0.7 * whole  # no group suffices
    assert np.median(alone) < 0.2 * whole


# -- Yahoo! ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("group_size", [5, 10, 15, 20])
def test_yahoo_costs_and_groups(group_size):
    bunch = make_yahoo(10, group_size=group_size, random_state=0)
    assert bunch.data.shape == (10, 501)
    assert set(bunch.feature_costs.tolist()) == {1, 5, 20, 50, 100, 150, 200}
    assert bunch.feature_costs.sum() == pytest.approx(17_000, rel=0.01)
    for cost, columns in zip(bunch.feature_groups.costs, bunch.feature_groups.columns, strict=True):
        members = bunch.feature_costs[list(columns)]
        assert len(columns) <= group_size
        assert len(set(members.tolist())) == 1
        assert cost == members.sum()


def test_yahoo_data_do_not_depend_on_the_group_size():
    np.testing.assert_array_equal(
        make_yahoo(50, group_size=5, random_state=0).data, make_yahoo(50, group_size=20, random_state=0).data
    )


def test_yahoo_group_size_must_be_positive():
    with pytest.raises(ValueError, match="group_size must be an integer ≥ 1, got 0"):
        make_yahoo(10, group_size=0)


@pytest.mark.parametrize("seed", SEEDS)
def test_yahoo_labels_have_the_papers_initial_risk(seed):
    target = make_yahoo(20_000, random_state=seed).target
    frequency = np.bincount(target) / len(target)
    assert len(frequency) == 5
    assert (np.diff(frequency) < 0).all()
    assert frequency[:3].sum() > 0.75
    assert initial_risk(target) == pytest.approx(0.85, abs=0.04)


def test_yahoo_queries_are_ragged_and_contiguous(web):
    sizes = np.bincount(web.qid)
    assert web.qid[0] == 0
    assert set(np.diff(web.qid).tolist()) == {0, 1}
    assert sizes.mean() == pytest.approx(24, abs=2)
    assert sizes.min() < 6
    assert sizes.max() > 60


def test_yahoo_labels_of_a_query_are_alike(web):
    # One-way analysis of variance: without a query effect F is 1 ± 0.05 here.
    sizes = np.bincount(web.qid)
    means = np.bincount(web.qid, web.target) / sizes
    between = sizes @ (means - web.target.mean()) ** 2 / (len(sizes) - 1)
    within = np.sum((web.target - means[web.qid]) ** 2) / (len(web.qid) - len(sizes))
    assert between / within > 1.5


def test_yahoo_features_are_skewed_correlated_and_in_the_unit_interval(web):
    assert web.data.min() >= 0
    assert web.data.max() <= 1
    standard = (web.data - web.data.mean(axis=0)) / web.data.std(axis=0)
    skewness = (standard**3).mean(axis=0)
    assert (skewness > 0.5).mean() > 0.4
    correlation = np.abs(standard.T @ standard / len(standard)) - np.eye(501)
    assert correlation.mean() > 0.05
    assert correlation.max() > 0.5


def test_yahoo_linear_signal(web):
    assert 0.3 < explained(web.data, web.target) < 0.45


def test_random_by_cost_follows_the_protocol():
    costs = np.random.default_rng(0).permutation(np.repeat([1.0, 5.0, 20.0], [23, 7, 10]))
    groups = random_by_cost(costs, size=5, random_state=3)
    assert sorted(c for members in groups.columns for c in members) == list(range(40))
    for members, total in zip(groups.columns, groups.costs, strict=True):
        assert np.unique(costs[list(members)]).size == 1
        assert total == costs[list(members)].sum()
    sizes = {cost: sorted(len(m) for m in groups.columns if costs[m[0]] == cost) for cost in (1.0, 5.0, 20.0)}
    assert sizes == {1.0: [3, 5, 5, 5, 5], 5.0: [2, 5], 20.0: [5, 5]}
    assert groups.costs.sum() == costs.sum()


def test_random_by_cost_is_decided_by_the_seed():
    costs = np.repeat([1.0, 2.0], 30)
    a, b, c = (random_by_cost(costs, 4, random_state=seed) for seed in (0, 0, 1))
    assert a == b
    assert a != c
    assert a.columns != tuple(tuple(range(k, k + 4)) for k in range(0, 60, 4))
    state = np.random.RandomState(0)
    assert random_by_cost(costs, 4, random_state=state) == a


@pytest.mark.parametrize("costs", [[1_000_000, 1_000_001], [0.1 + 0.2, 0.3], [1e-7, 1.0000001e-7]])
def test_random_by_cost_keeps_nearly_equal_costs_apart(costs):
    groups = random_by_cost(costs, size=2, random_state=0)
    assert sorted(groups.costs.tolist()) == sorted(map(float, costs))
    assert len(set(groups.names)) == 2


@pytest.mark.parametrize("size", range(1, 8))
@pytest.mark.parametrize("seed", range(5))
def test_random_groups_partition_the_columns(seed, size):
    rng = np.random.default_rng(seed)
    costs = rng.choice([1.0, 5, 20], rng.integers(1, 40))
    groups = random_by_cost(costs, size, random_state=seed)
    columns = [d for g in groups.columns for d in g]
    assert sorted(columns) == list(range(costs.size))
    assert all(len(g) <= size and len(set(costs[list(g)])) == 1 for g in groups.columns)
    np.testing.assert_allclose(groups.costs, [costs[list(g)].sum() for g in groups.columns])
