"""Better sequences: as good as the best of all orders, and never worse than what was given."""

from functools import cache
from itertools import permutations

import numpy as np
import pytest
from truth import best_by_programming, make

from budgetline import AnytimeClassifier, AnytimeRegressor, Moments, best_sequence, improve

ADVERSARIAL = ("suppressors", "xor", "wide costs", "correlated", "plain", "equal costs", "free", "targets",
               "duplicates", "weights")  # fmt: skip
LONG = 60.0  # the search ends by itself long before

# Where columns are dependent and alpha is 0, certify warns that digits are lost.
pytestmark = pytest.mark.filterwarnings("ignore:the moments are ill conditioned")


@pytest.fixture
def few_tries(monkeypatch):
    """A quarter of the tries that improve makes before it gives up: small problems need no more, and it is quick."""
    monkeypatch.setattr("budgetline.optimality.improving.PATIENCE", 10)


def moments_of(problem):
    return Moments.of(problem.X, problem.Y, problem.w)


def improved(problem, start=None, **settings):
    """The order of groups that improve returns, which must be one of all groups."""
    names = problem.names if start is None else [problem.names[g] for g in start]
    settings = {"alpha": problem.alpha, "time_limit": LONG, "exact": False, **settings}
    found = improve(names, moments_of(problem), problem.feature_groups, problem.priced, **settings)
    assert sorted(found.groups) == sorted(names)
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
    sequence = best_sequence(moments_of(problem), problem.feature_groups, problem.priced, alpha=1e-3)
    assert problem.timeliness(tuple(sequence.order.tolist()), stop, "step") == pytest.approx(best, rel=1e-9)


@pytest.mark.usefixtures("few_tries")
@pytest.mark.parametrize("kind", ADVERSARIAL)
def test_moves_reach_the_best_of_all_orders(kind):
    for seed in range(4):
        problem = make(seed + 500, kind, J=(4, 5, 4, 6)[seed])
        stop = (1.0, 0.5)[seed % 2] * problem.set_costs[-1]
        start = tuple(np.random.default_rng(seed).permutation(problem.J).tolist())
        best = best_by_programming(problem, stop)
        found = problem.timeliness(improved(problem, start, stop=stop), stop, "step")
        assert found >= 0.999 * best, (kind, seed)
        assert found >= problem.timeliness(start, stop, "step") * (1 - 1e-12)


# Of 2,281 random problems these are among the 34 on which climbing alone ended below 99.9 % of the best; on the last
# one twenty shakes did not help either.
HARD = [(440, "xor", 7, 0.3), (720, "xor", 8, 0.5), (531, "suppressors", 8, 0.5)]


@pytest.mark.parametrize(("seed", "kind", "J", "share"), HARD)
def test_shaking_leaves_local_optima(seed, kind, J, share):
    problem = make(seed + 5000, kind, J=J, alpha=1e-3)
    stop = share * problem.set_costs[-1]
    start = tuple(np.random.default_rng(seed).permutation(J).tolist())
    found = problem.timeliness(improved(problem, start, stop=stop), stop, "step")
    assert found >= 0.999 * best_by_programming(problem, stop)


@pytest.mark.usefixtures("few_tries")
@pytest.mark.parametrize(("kind", "J"), [("suppressors", 12), ("xor", 9)])
def test_moves_reach_the_best_of_more_groups(kind, J):
    problem = make(601, kind, J=J, alpha=1e-3)
    stop = float(problem.set_costs[-1])
    best = best_by_programming(problem, stop)
    assert problem.timeliness(improved(problem), stop, "step") >= 0.999 * best


@pytest.mark.usefixtures("few_tries")
@pytest.mark.parametrize("exact", [True, False])
@pytest.mark.parametrize("interpolation", ["step", "linear"])
def test_either_reading_and_any_stop(exact, interpolation):
    for seed in range(6 if exact else 2):
        problem = make(seed + 700, ADVERSARIAL[seed % len(ADVERSARIAL)], J=5 if exact else 4)
        total = problem.set_costs[-1]
        for share in (0.0, 0.2, 0.7, 1.5):
            best = problem.best_timeliness(share * total, interpolation)
            order = improved(problem, exact=exact, interpolation=interpolation, stop=share * total)
            assert problem.timeliness(order, share * total, interpolation) >= (0.999 if not exact else 1 - 1e-9) * best


@pytest.mark.usefixtures("few_tries")
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
        start = tuple(rng.permutation(5).tolist())
        order = improved(problem, start, exact=bool(seed % 3), budgets=budgets, weights=weights)
        found = problem.sampled(order, budgets, counted)
        assert found >= problem.sampled(start, budgets, counted) - 1e-12 * problem.null_value
        assert found >= 0.999 * problem.best_sampled(budgets, counted), seed


@cache
def best_start(kind, seed):
    problem = make(seed, kind, J=6)
    total = problem.set_costs[-1]
    return max(permutations(range(6)), key=lambda order: problem.timeliness(order, total, "step"))


@pytest.mark.parametrize("time_limit", [0.0, 0.001, 0.02])
@pytest.mark.parametrize("exact", [True, False])
def test_never_worse_whatever_the_time(time_limit, exact):
    for seed, kind in enumerate(ADVERSARIAL[:6]):
        problem = make(seed + 900, kind, J=6)
        total = problem.set_costs[-1]
        for start in (best_start(kind, seed + 900), tuple(np.random.default_rng(seed).permutation(6).tolist())):
            found = improved(problem, start, time_limit=time_limit, exact=exact)
            before, after = (problem.timeliness(order, total, "step") for order in (start, found))
            assert after >= before - 1e-9 * problem.null_value


def test_part_of_the_groups_keeps_its_groups():
    problem = make(1000, "suppressors", J=6, alpha=1e-3)
    start = (4, 1, 3)
    stop = float(problem.costs[list(start)].sum())
    found = improved(problem, start, exact=True, stop=stop)
    best = max(permutations(start), key=lambda order: problem.timeliness(order, stop, "step"))
    assert problem.timeliness(found, stop, "step") == pytest.approx(problem.timeliness(best, stop, "step"), rel=1e-9)


def test_models_sequences_and_names_are_the_same():
    problem = make(1001, "correlated", J=5, alpha=1e-3)
    model = AnytimeRegressor(problem.feature_groups, problem.priced, alpha=1e-3).fit(problem.X, problem.Y[:, 0])
    of_model = improve(model)
    for given in (model.sequence_, list(model.sequence_.groups)):
        found = improve(given, moments_of(problem), problem.feature_groups, problem.priced, alpha=1e-3)
        assert found.groups == of_model.groups
    best = problem.best_timeliness(problem.set_costs[-1], "step")
    assert problem.timeliness(tuple(of_model.order.tolist()), problem.set_costs[-1], "step") == pytest.approx(best)


@pytest.mark.usefixtures("few_tries")
def test_the_same_seed_gives_the_same_sequence():
    problem = make(1002, "suppressors", J=9, alpha=1e-3)
    assert improved(problem, random_state=3) == improved(problem, random_state=3)


def test_errors():
    problem = make(1003, "plain", J=3, alpha=1e-3)
    moments, groups = moments_of(problem), problem.feature_groups
    model = AnytimeRegressor(groups, alpha=1e-3).fit(problem.X, problem.Y[:, 0])
    with pytest.raises(TypeError, match="feature_groups goes with moments"):
        improve(model, feature_groups=groups)
    for wrong, message in (
        ({"stop": -1}, "stop"), ({"stop": np.inf}, "stop"), ({"weights": [1]}, "weights go with budgets"),
        ({"budgets": [1], "stop": 2}, "stop"), ({"budgets": [1], "interpolation": "linear"}, "linear"),
        ({"budgets": [-1]}, "budgets"), ({"budgets": []}, "budgets"), ({"budgets": [np.nan]}, "budgets"),
        ({"budgets": [1, 2], "weights": [1]}, "weights"), ({"budgets": [1], "weights": [-1]}, "weights"),
        ({"budgets": [1], "weights": [0]}, "weights"), ({"interpolation": "cubic"}, "interpolation"),
        ({"time_limit": -1}, "time_limit"), ({"time_limit": np.nan}, "time_limit"),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=message):
            improve(model, **wrong)
    with pytest.raises(ValueError, match="'q'"):
        improve(["q"], moments, groups)
    with pytest.raises(ValueError, match="twice"):
        improve(["g0", "g0"], moments, groups)
    with pytest.raises(ValueError, match="alpha"):
        improve(["g0"], moments, groups, alpha=-1)


def test_other_losses_are_refused():
    problem = make(1004, "plain", J=3, alpha=1e-2)
    model = AnytimeClassifier(problem.feature_groups, alpha=1e-2).fit(problem.X, problem.Y[:, 0] > 3)
    with pytest.raises(ValueError, match="squared error"):
        improve(model)
