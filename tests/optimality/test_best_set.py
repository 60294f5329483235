"""The best set for a budget, against all sets."""

import numpy as np
import pytest
from best_sets import best_set
from truth import SINGULAR, check_verified, make

from budgetline import Moments

KINDS = ("plain", "targets", "weights", "equal costs", "wide costs", "free", "huge", "tiny", "unrelated", "explained",
         "suppressors", "correlated", "constant", "xor")  # fmt: skip
LONG = 60.0

# Where columns are dependent and alpha is 0, certify warns that digits are lost.
pytestmark = [pytest.mark.filterwarnings("ignore:the moments are ill conditioned"), pytest.mark.quick_cases(4)]


def found_for(problem, budget, **settings):
    moments = Moments.from_data(problem.X, problem.Y, problem.w)
    settings = {"alpha": problem.alpha, "time_limit": LONG, **settings}
    return moments, best_set(moments, problem.feature_groups, problem.priced, budget=budget, **settings)


def check_record(problem, found, budget):
    """Names, cost, value and bound fit together; the budget is kept."""
    chosen = np.isin(problem.names, found.groups)
    assert len(set(found.groups)) == len(found.groups) == chosen.sum()
    index = int(chosen @ 2 ** np.arange(problem.J))
    assert found.cost == pytest.approx(problem.set_costs[index], rel=1e-12)
    assert problem.set_costs[index] <= budget * (1 + 1e-12)
    assert found.value == pytest.approx(problem.values[index], abs=1e-9 * problem.null_value)
    assert found.explained == pytest.approx(found.value / problem.null_value)
    assert found.bound >= problem.values[index] - 1e-12 * problem.null_value
    assert 0 <= found.ratio <= 1
    return problem.values[index]


@pytest.mark.quick_cases(6)
@pytest.mark.parametrize("kind", KINDS)
def test_no_other_set_is_better(kind):
    for seed in range(6):
        alpha = (1e-5, 1e-3, 1e-1)[seed % 3]
        problem = make(seed + 50, kind, J=7 if seed == 5 else None, alpha=alpha)
        rng = np.random.default_rng(seed)
        budget = float(rng.choice(problem.set_costs) if seed % 2 else rng.uniform(0, problem.set_costs[-1]))
        moments, found = found_for(problem, budget)
        value = check_record(problem, found, budget)
        best = problem.best_at(budget)
        assert value >= best - 1e-8 * problem.values[-1], (kind, seed)
        assert found.bound >= best - 1e-12 * problem.null_value
        assert found.optimal
        found.certificate.verify(moments)


@pytest.mark.slow
def test_several_budgets_are_answered_as_one_after_another():
    problem = make(51, "suppressors", J=6, alpha=1e-3)
    budgets = [0.6 * problem.set_costs[-1], 0.0, 0.2 * problem.set_costs[-1], 0.6 * problem.set_costs[-1]]
    for given in (budgets, tuple(budgets), np.array(budgets)):
        moments, several = found_for(problem, given)
        assert isinstance(several, tuple)
        for budget, found in zip(budgets, several, strict=True):
            alone = found_for(problem, budget)[1]
            assert (found.groups, found.value, found.bound) == (alone.groups, alone.value, alone.bound)
            assert check_record(problem, found, budget) >= problem.best_at(budget) - 1e-8 * problem.values[-1]
            assert found.optimal
            found.certificate.verify(moments)
    assert found_for(problem, [])[1] == ()
    with pytest.raises(ValueError, match="more than the budget of 0"):
        found_for(problem, budgets, include=["g0"])


def test_all_budgets_share_the_time():
    problem = make(52, "correlated", J=7, alpha=1e-2)
    _, several = found_for(problem, list(problem.set_costs[:20]), time_limit=0.0)
    for budget, found in zip(problem.set_costs[:20], several, strict=True):
        assert found.bound >= problem.best_at(budget) - 1e-12 * problem.null_value


@pytest.mark.parametrize("kind", ["plain", "correlated", "suppressors"])
def test_more_groups(kind):
    problem = make(77, kind, J=12 if kind == "suppressors" else 9, alpha=1e-2)
    budget = 0.3 * float(problem.set_costs[-1])
    moments, found = found_for(problem, budget)
    assert check_record(problem, found, budget) >= problem.best_at(budget) - 1e-8 * problem.values[-1]
    assert found.optimal
    found.certificate.verify(moments)


def test_conditions():
    """Groups that must be in, and that must not, against all sets that meet the conditions."""
    for seed in range(40):
        problem = make(seed + 150, KINDS[seed % len(KINDS)], J=2 + seed % 5, alpha=1e-3)
        rng = np.random.default_rng(seed)
        draw = rng.random(problem.J)
        included, excluded = np.flatnonzero(draw < 0.25), np.flatnonzero(draw > 0.75)
        least = float(problem.costs[included].sum())
        budget = least + float(rng.choice([0.0, rng.uniform(0, problem.costs.sum())]))
        moments, found = found_for(
            problem, budget, include=[f"g{g}" for g in included], exclude=[f"g{g}" for g in excluded]
        )
        value = check_record(problem, found, budget)
        assert set(found.groups) >= {f"g{g}" for g in included}
        assert not set(found.groups) & {f"g{g}" for g in excluded}
        allowed = problem.between(tuple(included), tuple(excluded))
        assert value >= problem.best_at(budget, allowed) - 1e-8 * problem.values[-1], seed
        assert found.bound >= problem.best_at(budget, allowed) - 1e-12 * problem.null_value
        assert found.optimal
        found.certificate.verify(moments)


@pytest.mark.parametrize("kind", SINGULAR)
def test_where_columns_are_dependent_the_bound_still_holds(kind):
    """There is no proof but the trivial one; the set is a good one all the same."""
    for seed in range(8):
        problem = make(seed, kind, alpha=0.0)
        budget = 0.6 * float(problem.set_costs[-1])
        moments, found = found_for(problem, budget, time_limit=0.05)
        assert found.bound >= problem.best_at(budget) - 1e-9 * problem.null_value
        assert found.cost <= budget * (1 + 1e-12)
        if found.optimal:
            assert found.value >= problem.best_at(budget) - 1e-6 * problem.null_value
        check_verified(found.certificate, moments)


@pytest.mark.parametrize("time_limit", [0.0, 0.001, 0.01])
def test_whatever_the_time_the_set_is_within_budget_and_the_bound_holds(time_limit):
    for seed, kind in enumerate(KINDS):
        problem = make(seed + 250, kind, J=6, alpha=1e-3)
        budget = 0.4 * float(problem.set_costs[-1])
        moments, found = found_for(problem, budget, time_limit=time_limit)
        value = check_record(problem, found, budget)
        best = problem.best_at(budget)
        assert found.bound >= best - 1e-12 * problem.null_value
        if found.optimal:
            assert value >= best - 1e-8 * problem.values[-1]
        found.certificate.verify(moments)


def test_edges():
    problem = make(3, "plain", J=4, alpha=1e-3)
    _, nothing = found_for(problem, 0.0)
    assert nothing.groups == ()
    assert nothing.value == 0
    assert nothing.optimal
    assert nothing.ratio == 1
    assert "nothing" in repr(nothing)
    assert "optimal" in repr(nothing)
    _, everything = found_for(problem, 1e9)
    assert set(everything.groups) == set(problem.names)
    assert everything.optimal
    _, exact = found_for(problem, float(problem.costs[0] + problem.costs[1]), include=["g0", "g1"])
    assert set(exact.groups) == {"g0", "g1"}
    _, none_left = found_for(problem, 5.0, exclude=problem.names)
    assert none_left.groups == ()
    assert none_left.optimal
    _, given = found_for(problem, 1e9, include=problem.names)
    assert set(given.groups) == set(problem.names)


def test_a_budget_of_tenths_pays_for_tenths():
    problem = make(4, "equal costs", J=5, alpha=1e-3)  # 0.1 each
    _, found = found_for(problem, 0.3)
    assert len(found.groups) == 3


def test_a_target_that_is_constant():
    problem = make(5, "plain", J=3, alpha=1e-3)
    moments = Moments.from_data(problem.X, np.ones(len(problem.X)))
    found = best_set(moments, problem.feature_groups, problem.priced, budget=1.0)
    assert found.value == 0
    assert found.explained == 0
    assert found.optimal
    assert found.ratio == 1
    found.certificate.verify(moments)


def test_errors():
    problem = make(6, "plain", J=3, alpha=1e-3)
    for wrong in (-1, np.nan, np.inf, True, "3", None, [-1], [1, "3"], [[1]]):
        with pytest.raises(ValueError, match="budget must be"):
            found_for(problem, wrong)
    for wrong in (-1, np.nan, True, "3", None):
        with pytest.raises(ValueError, match="time_limit"):
            found_for(problem, 1.0, time_limit=wrong)
    for wrong in (-1, np.nan, np.inf, "3"):
        with pytest.raises(ValueError, match="alpha"):
            found_for(problem, 1.0, alpha=wrong)
    for argument in ("include", "exclude"):
        with pytest.raises(ValueError, match=f"{argument}: there is no group 'q'"):
            found_for(problem, 1.0, **{argument: ["g0", "q"]})
        with pytest.raises(TypeError, match=f"{argument}: a list of groups is expected, got 1.5"):
            found_for(problem, 1.0, **{argument: 1.5})
        one, listed = (found_for(problem, 100.0, **{argument: given})[1] for given in ("g0", ["g0"]))
        assert one.groups == listed.groups
    with pytest.raises(ValueError, match="'g1' must be both in and out"):
        found_for(problem, 100.0, include=["g0", "g1"], exclude=["g1"])
    with pytest.raises(ValueError, match=r"must be in cost .*more than the budget of"):
        found_for(problem, 0.0, include=["g0"])
