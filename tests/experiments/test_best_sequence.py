"""The best sequence, against all orders: for models and moments, any stop, any sample of budgets."""

import numpy as np
import pytest
from exact_search import best_sequence
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from truth import best_by_programming, make

from budgetline import AnytimeClassifier, AnytimeRegressor, Moments

ADVERSARIAL = ("suppressors", "xor", "wide costs", "correlated", "plain", "equal costs", "free", "targets",
               "duplicates", "weights")  # fmt: skip

# Where columns are dependent and alpha is 0, digits are lost, and a warning says so.
pytestmark = pytest.mark.filterwarnings("ignore:the moments are ill conditioned")


def moments_of(problem):
    return Moments.from_data(problem.X, problem.Y, problem.w)


def best_order(problem, **settings):
    """The order of groups that is returned, which must be one of all groups."""
    settings = {"alpha": problem.alpha, **settings}
    found = best_sequence(moments_of(problem), problem.feature_groups, problem.priced, **settings)
    assert sorted(found.groups) == sorted(problem.names)
    assert [problem.names[g] for g in found.order] == list(found.groups)
    costs, values = problem.curve(tuple(found.order.tolist()))
    np.testing.assert_allclose(found.cumulative_costs, costs[1:], rtol=1e-12)
    np.testing.assert_allclose(np.cumsum(found.gains), values[1:], atol=1e-8 * problem.null_value)
    return tuple(found.order.tolist())


def test_the_references_agree():
    for seed in range(4):
        problem = make(seed, "suppressors", J=5, alpha=1e-3)
        for stop in (0.4 * problem.set_costs[-1], problem.set_costs[-1]):
            best = best_by_programming(problem, stop)
            assert best == pytest.approx(problem.best_timeliness(stop, "step"), rel=1e-12)


@pytest.mark.parametrize("kind", ADVERSARIAL)
def test_it_is_the_best_of_all_orders(kind):
    for seed in range(4):
        problem = make(seed + 500, kind, J=(4, 5, 4, 6)[seed])
        stop = (1.0, 0.5)[seed % 2] * problem.set_costs[-1]
        found = problem.timeliness(best_order(problem, stop=stop), stop, "step")
        assert found == pytest.approx(best_by_programming(problem, stop), rel=1e-7), (kind, seed)


@pytest.mark.parametrize(("seed", "kind", "J", "share"), [(440, "xor", 7, 0.3), (531, "suppressors", 8, 0.5)])
def test_more_groups(seed, kind, J, share):
    problem = make(seed + 5000, kind, J=J, alpha=1e-3)
    stop = share * problem.set_costs[-1]
    found = problem.timeliness(best_order(problem, stop=stop), stop, "step")
    assert found == pytest.approx(best_by_programming(problem, stop), rel=1e-9)


@pytest.mark.parametrize("interpolation", ["step", "linear"])
def test_either_interpolation_and_any_stop(interpolation):
    for seed in range(6):
        problem = make(seed + 700, ADVERSARIAL[seed % len(ADVERSARIAL)], J=5)
        total = problem.set_costs[-1]
        for share in (0.0, 0.2, 0.7, 1.5):
            best = problem.best_timeliness(share * total, interpolation)
            order = best_order(problem, interpolation=interpolation, stop=share * total)
            assert problem.timeliness(order, share * total, interpolation) >= (1 - 1e-9) * best


def test_a_sample_of_budgets():
    """Against all orders; with few budgets many orders are equally good."""
    rng = np.random.default_rng(0)
    for seed in range(8):
        problem = make(seed + 800, ADVERSARIAL[seed % len(ADVERSARIAL)], J=5)
        total = problem.set_costs[-1]
        budgets = rng.uniform(0, 1.2 * total, size=1 + seed % 4)
        budgets[0] = problem.set_costs[5]  # exactly the cost of a set
        weights = rng.exponential(size=budgets.size) if seed % 2 else None
        counted = np.ones(budgets.size) if weights is None else weights
        found = problem.sampled(best_order(problem, budgets=budgets, weights=weights), budgets, counted)
        assert found >= (1 - 1e-7) * problem.best_sampled(budgets, counted), seed


def test_models_and_moments_are_the_same():
    problem = make(1001, "correlated", J=5, alpha=1e-3)
    y = problem.Y[:, 0]
    model = AnytimeRegressor(problem.feature_groups, problem.priced, alpha=1e-3).fit(problem.X, y)
    early = AnytimeRegressor(problem.feature_groups, problem.priced, alpha=1e-3, max_groups=2).fit(problem.X, y)
    piped = make_pipeline(StandardScaler(), model).fit(problem.X, y)
    of_moments = best_sequence(moments_of(problem), problem.feature_groups, problem.priced, alpha=1e-3)
    for found in map(best_sequence, (model, early, piped)):  # also of the groups that a model has left out
        assert found.groups == of_moments.groups
        np.testing.assert_allclose(found.gains, of_moments.gains, rtol=1e-9)
    best = problem.best_timeliness(problem.set_costs[-1], "step")
    assert problem.timeliness(tuple(found.order.tolist()), problem.set_costs[-1], "step") == pytest.approx(best)


def test_errors():
    problem = make(1003, "plain", J=3, alpha=1e-3)
    moments, groups = moments_of(problem), problem.feature_groups
    model = AnytimeRegressor(groups, alpha=1e-3).fit(problem.X, problem.Y[:, 0])
    with pytest.raises(TypeError, match="feature_groups is for moments"):
        best_sequence(model, feature_groups=groups)
    with pytest.raises(TypeError, match="ndarray"):
        best_sequence(np.eye(3))
    for wrong, message in (
        ({"stop": -1}, "stop"), ({"stop": np.inf}, "stop"), ({"weights": [1]}, "weights go with budgets"),
        ({"budgets": [1], "stop": 2}, "stop"), ({"budgets": [1], "interpolation": "linear"}, "linear"),
        ({"budgets": [-1]}, "budgets"), ({"budgets": []}, "budgets"), ({"budgets": [np.nan]}, "budgets"),
        ({"budgets": [1, 2], "weights": [1]}, "weights"), ({"budgets": [1], "weights": [-1]}, "weights"),
        ({"budgets": [1], "weights": [0]}, "weights"), ({"interpolation": "cubic"}, "interpolation must be"),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=message):
            best_sequence(model, **wrong)
    with pytest.raises(ValueError, match=r"alpha.*Got -1"):
        best_sequence(moments, groups, alpha=-1)


def test_beyond_18_groups_it_says_what_to_do_instead():
    with pytest.raises(ValueError, match=r"2\^19 sets of 19 groups.*at most 18 groups.*AnytimeRegressor.*certify"):
        best_sequence(Moments.from_data(np.eye(20)[:, :19], np.arange(20.0)), alpha=1.0)


def test_other_losses_are_refused():
    problem = make(1004, "plain", J=3, alpha=1e-2)
    model = AnytimeClassifier(problem.feature_groups, alpha=1e-2).fit(problem.X, problem.Y[:, 0] > 3)
    with pytest.raises(ValueError, match="squared error"):
        best_sequence(model)
