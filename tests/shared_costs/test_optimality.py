"""Certificates, best sets and better sequences where costs are shared and groups require others, against all sets."""

from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
from best_sets import best_set
from certifying import certify
from exact_search import best_sequence
from reference_shared import Shop
from seeds import seeds
from shops import CASES, bundled, draw_shop, named, singles
from truth import best_by_programming

from budgetline import FeatureGroups, Moments
from budgetline.datasets import load_heart, load_thyroid

pytestmark = pytest.mark.quick_cases(3)

LONG = 60.0  # every search ends by itself long before
ROUNDING = 1e-13  # of R(∅): what the reference itself is off by


def moments_of(problem):
    return Moments.from_data(problem.X, problem.Y, problem.w)


def names_of(groups):
    return [f"g{g}" for g in groups]


def certificate_of(problem, time_limit, **settings):
    moments = moments_of(problem)
    return moments, certify(moments, problem.bundle, alpha=problem.alpha, time_limit=time_limit, **settings)


def best_of_all(problem, certificate):
    return np.array([problem.best_at(budget) for budget in certificate.budgets])


def check_statements(problem, certificate):
    """What is achieved is that of prefixes at the costs that they were paid for; the theorems are silent."""
    order = tuple(certificate.order.tolist())
    assert len(order) == problem.J
    assert problem.is_valid(order)
    costs, values = problem.curve(order)
    assert certificate.total_cost == pytest.approx(problem.set_costs[-1], rel=1e-12)
    assert np.all(np.diff(certificate.bounds) >= 0)
    assert np.abs(costs[:, None] - certificate.budgets).min(axis=1).max() <= 1e-12 * costs[-1]  # all are certified
    at = np.array([values[np.flatnonzero(costs <= b * (1 + 1e-12))[-1]] for b in certificate.budgets])
    np.testing.assert_allclose(certificate.achieved, at, atol=1e-8 * problem.null_value)
    np.testing.assert_allclose(certificate.values, values[1:], atol=1e-8 * problem.null_value)
    for budget in np.random.default_rng(0).uniform(0, 1.1 * costs[-1], size=3).tolist():
        found = certificate.at(budget)
        assert found.bound >= problem.best_at(budget) - ROUNDING * problem.null_value
        bought = values[np.flatnonzero(costs <= budget)[-1]]
        assert found.achieved == pytest.approx(bought, abs=1e-8 * problem.null_value)
    if problem.shop.shared or any(problem.shop.requires.values()):
        assert certificate.greedy_promise is None
        assert "guarantees" not in str(certificate)
    else:
        assert certificate.greedy_promise > 0


# -- bounds ----------------------------------------------------------------------------------------------------


def sizes(seed):
    """4 to 8 groups, large ones less often: all their sets are fitted."""
    return (4, 5, 4, 6, 4, 5, 4, 7, 4, 5, 4, 6, 4, 5, 4, 6, 4, 5, 4, 8)[seed]


@pytest.mark.quick_cases(3)
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("portion", seeds(10, 20))
def test_no_set_is_better_than_the_bound(case, portion):
    for seed in portion:
        problem = bundled(seed, case, J=sizes(seed))
        # any order that holds what is required, or that of greedy
        by_depth = sorted(range(problem.J), key=lambda g, shop=problem.shop: len(shop.closed([g])))
        order = {"sequence": names_of(by_depth)} if seed % 2 else {}
        limit = {7: 0.1, 13: 0.02, 19: 0.01}.get(seed, (0.0, 0.0, 0.002)[seed % 3])
        moments, certificate = certificate_of(problem, limit, **order)
        above = (best_of_all(problem, certificate) - certificate.bounds) / problem.null_value
        assert above.max() <= ROUNDING, seed
        check_statements(problem, certificate)
        if seed % 5 == 0 or seed in (7, 13, 19):
            certificate.verify(moments)


@pytest.mark.parametrize("case", CASES)
def test_in_the_end_the_bound_is_the_optimum(case):
    problem = bundled(300, case, J=4)
    moments, certificate = certificate_of(problem, LONG)
    gaps = (certificate.bounds - best_of_all(problem, certificate)) / problem.values[-1]
    assert gaps.min() >= -ROUNDING * problem.null_value / problem.values[-1]
    assert gaps.max() <= 1e-3
    certificate.verify(moments)


def test_every_case_is_what_its_name_says():
    """The random problems do hold what they are meant to hold."""
    met = set()
    for case in CASES:
        for seed in range(20):
            own, shared, requires = bundled(seed, case, J=sizes(seed)).shop
            sharing = [who for _, who in shared]
            needed = frozenset().union(*requires.values()) if requires else frozenset()
            met |= {"nothing"} if any(cost == 0 for cost, _ in shared) else set()
            met |= {"overlap"} if any(a & b for a, b in combinations(sharing, 2)) else set()
            met |= {"only"} if any(own[g] == 0 for cost, who in shared for g in who if cost) else set()
            met |= {"required"} if any(needed & who for who in sharing) else set()
            met |= {"chain"} if any(h in requires for h in needed) else set()
            apart = set(range(len(own))) - frozenset().union(*sharing, requires)
            met |= {"free"} if any(own[g] == 0 for g in apart) else set()
    assert met == {"nothing", "overlap", "only", "required", "chain", "free"}


def test_no_order_is_timelier_than_the_bound():
    for seed, case in enumerate(CASES * 3):
        problem = bundled(seed + 400, case, J=4 + seed % 2)
        _, certificate = certificate_of(problem, 0.02 if seed % 3 == 0 else 0.0)
        order, total, scale = tuple(certificate.order.tolist()), problem.set_costs[-1], problem.null_value
        for stop in (0.15 * total, 0.6 * total, total):
            found = certificate.timeliness(stop)
            assert found.bound >= problem.best_timeliness(stop, "step") / scale - 1e-12
            assert found.achieved == pytest.approx(problem.timeliness(order, stop, "step") / scale, abs=1e-8)
            assert 0 <= found.ratio <= 1


def test_a_free_step_is_a_jump_of_the_curve():
    """The line goes up to F of the group that costs something; what the free one adds comes at once."""
    problem = bundled(0, "random", J=4)
    free_after = replace(problem, shop=Shop([1.0, 0.0, 2.0, 0.0], (), {1: frozenset({0}), 3: frozenset({2})}))
    _, certificate = certificate_of(free_after, LONG)
    own = free_after.timeliness(tuple(certificate.order.tolist()), 3.0, "step") / problem.null_value
    assert certificate.timeliness(3.0).achieved == pytest.approx(own, abs=1e-8)


def test_a_given_order_is_paid_for_as_it_comes():
    for seed, case in enumerate(CASES):
        problem = bundled(seed + 500, case, J=5)
        order = problem.orders[np.random.default_rng(seed).integers(len(problem.orders))][: 5 - seed % 3]
        moments, certificate = certificate_of(problem, 0.0, sequence=names_of(order))
        assert certificate.order.tolist() == list(order)
        costs, values = problem.curve(order)
        for cost, value in zip(costs, values, strict=True):
            bought = values[np.flatnonzero(costs <= cost * (1 + 1e-12))[-1]]  # a free group comes with the one before
            assert certificate.at(float(cost)).achieved == pytest.approx(bought, abs=1e-8 * problem.null_value)
            assert bought >= value
        certificate.verify(moments)


def test_an_order_that_breaks_a_requirement_is_refused():
    problem = bundled(0, "chain", J=5)
    g, required = next(iter(problem.shop.requires.items()))
    wrong = names_of([g, *(h for h in range(5) if h != g)])
    with pytest.raises(ValueError, match=f"'g{g}', which requires 'g{min(required)}'"):
        certify(moments_of(problem), problem.bundle, sequence=wrong)


@pytest.mark.parametrize("seed", range(3))
def test_fourteen_groups(seed):
    """Additive, shared, and both shared and required."""
    rng = np.random.default_rng(seed)
    shop = None if seed == 0 else draw_shop(rng, 14, ("overlapping", "required and shared")[seed - 1])
    problem = singles(seed, 14, shop)
    moments, certificate = certificate_of(problem, 0.15)
    above = (best_of_all(problem, certificate) - certificate.bounds) / problem.null_value
    assert above.max() <= 1e-12
    check_statements(problem, certificate)
    certificate.verify(moments)


# -- best sets -------------------------------------------------------------------------------------------------


def conditions(problem, rng, k):
    """Groups to include and to exclude: one that requires others, one that others require, any, or none."""
    requires = problem.shop.requires
    if k == 0 and requires:
        return [int(rng.choice(sorted(requires)))], []
    if k == 1 and requires:
        return [], [int(rng.choice(sorted(frozenset().union(*requires.values()))))]
    if k == 2:
        first, second = rng.permutation(problem.J)[:2].tolist()
        return ([first], []) if second in problem.shop.closed([first]) else ([first], [second])
    return [], []


def check_best(problem, moments, found, budget, allowed):
    bought = [int(name[1:]) for name in found.groups]
    index = sum(1 << g for g in bought)
    assert problem.is_valid(tuple(bought))
    assert (problem.complete & allowed)[index]
    assert found.cost == pytest.approx(problem.set_costs[index], rel=1e-12)
    assert found.cost <= budget * (1 + 1e-12)
    assert found.value == pytest.approx(problem.values[index], abs=1e-9 * problem.null_value)
    best = problem.best_at(budget, allowed)
    assert problem.values[index] >= best - 1e-8 * problem.values[-1]
    assert found.bound >= best - 1e-12 * problem.null_value
    assert found.optimal
    found.certificate.verify(moments)


@pytest.mark.quick_cases(3)
@pytest.mark.parametrize("case", CASES)
def test_no_other_set_is_better(case):
    for seed in range(10):
        problem, rng = bundled(seed + 600, case, J=(4, 5, 4, 6)[seed % 4]), np.random.default_rng(seed)
        included, excluded = conditions(problem, rng, seed % 4)
        allowed = problem.between(tuple(problem.shop.closed(included)), tuple(excluded))
        costs = problem.set_costs[problem.complete & allowed]
        budget = float(rng.choice(costs) if seed % 2 else rng.uniform(costs.min(), costs.max()))
        found = best_set(
            moments_of(problem), problem.bundle, budget=budget, include=names_of(included), exclude=names_of(excluded),
            alpha=problem.alpha, time_limit=LONG,
        )  # fmt: skip
        check_best(problem, moments_of(problem), found, budget, allowed)


@pytest.mark.parametrize("time_limit", [0.0, 0.01])
def test_whatever_the_time_the_set_may_be_bought(time_limit):
    for seed, case in enumerate(CASES):
        problem = bundled(seed + 700, case, J=7)
        budget, moments = 0.4 * float(problem.set_costs[-1]), moments_of(problem)
        found = best_set(moments, problem.bundle, budget=budget, alpha=problem.alpha, time_limit=time_limit)
        bought = [int(name[1:]) for name in found.groups]
        assert problem.is_valid(tuple(bought))
        assert found.cost == pytest.approx(problem.shop.cost(bought), rel=1e-12)
        assert found.cost <= budget * (1 + 1e-12)
        assert found.bound >= problem.best_at(budget) - 1e-12 * problem.null_value
        found.certificate.verify(moments)


@pytest.mark.parametrize("seed", range(3))
def test_fifteen_groups(seed):
    rng = np.random.default_rng(seed)
    shop = None if seed == 0 else draw_shop(rng, 15, ("overlapping", "required and shared")[seed - 1])
    problem, everything = singles(seed, 15, shop), np.full(2**15, True)
    budget = 0.3 * float(problem.set_costs[-1])
    found = best_set(moments_of(problem), problem.bundle, budget=budget, alpha=problem.alpha, time_limit=LONG)
    check_best(problem, moments_of(problem), found, budget, everything)


def test_what_is_required_follows_include_and_exclude():
    """By hand: c requires b, which requires a; d is apart. Own costs 1, 2, 4, 8."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((40, 4))
    moments = Moments.from_data(X, X @ [1.0, 2.0, 3.0, 4.0])
    groups = FeatureGroups({name: [k] for k, name in enumerate("abcd")}, [1, 2, 4, 8],
                           requires={"c": ["b"], "b": ["a"]})  # fmt: skip
    found = best_set(moments, groups, budget=7, include=["c"])
    assert found.groups == ("a", "b", "c")
    assert found.cost == 7
    found = best_set(moments, groups, budget=15, exclude=["a"])
    assert found.groups == ("d",)
    assert found.cost == 8
    found = best_set(moments, groups, budget=15, exclude=["b"])
    assert set(found.groups) == {"a", "d"}
    with pytest.raises(ValueError, match=r"must be in cost 7, more than the budget of 6\.99"):
        best_set(moments, groups, budget=6.99, include=["c"])
    with pytest.raises(ValueError, match="must be both in and out"):
        best_set(moments, groups, budget=15, include=["c"], exclude=["a"])


# -- the best sequence -----------------------------------------------------------------------------------------


def best_order(problem, **settings):
    found = best_sequence(moments_of(problem), problem.bundle, alpha=problem.alpha, **settings)
    order = tuple(found.order.tolist())
    assert sorted(order) == list(range(problem.J))
    assert list(found.groups) == names_of(order)
    assert problem.is_valid(order)
    costs, values = problem.curve(order)
    np.testing.assert_allclose(found.cumulative_costs, costs[1:], rtol=1e-12)
    np.testing.assert_allclose(np.cumsum(found.gains), values[1:], atol=1e-8 * problem.null_value)
    return order


@pytest.mark.parametrize("case", CASES)
def test_the_best_sequence_is_the_best_of_all_orders(case):
    for seed in range(5):
        J = (4, 5, 4, 5, 6 if case in CASES[::3] else 4)[seed]
        problem, rng = bundled(seed + 800, case, J=J), np.random.default_rng(seed)
        total = problem.set_costs[-1]
        if seed % 3 == 2:
            budgets = rng.uniform(0, 1.1 * total, size=2 + seed)
            budgets[0] = problem.set_costs[5]  # exactly the cost of a set
            weights = rng.exponential(size=budgets.size)
            best, settings = problem.best_sampled(budgets, weights), {"budgets": budgets, "weights": weights}
            merit = lambda order, p=problem, b=budgets, w=weights: p.sampled(order, b, w)  # noqa: E731
        else:
            stop, interpolation = (1.0, 0.5, 0.2)[seed % 3] * total, ("step", "linear")[seed == 4]
            best, settings = (
                problem.best_timeliness(stop, interpolation),
                {"stop": stop, "interpolation": interpolation},
            )
            merit = lambda order, p=problem, s=stop, r=interpolation: p.timeliness(order, s, r)  # noqa: E731
        assert merit(best_order(problem, **settings)) >= (1 - 1e-9) * best - 1e-12 * problem.null_value


@pytest.mark.parametrize("case", ["overlapping", "required and shared"])
def test_twelve_groups(case):
    problem = singles(3, 12, draw_shop(np.random.default_rng(3), 12, case))
    total = problem.set_costs[-1]
    found = problem.timeliness(best_order(problem), total, "step")
    assert found == pytest.approx(best_by_programming(problem, total), rel=1e-9)


# -- tampering with costs --------------------------------------------------------------------------------------


def tampered_shop(shop, rng):
    """Another cost of something shared, one member fewer or more, or a requirement dropped or made."""
    shared, requires = list(shop.shared), dict(shop.requires)
    way = rng.integers(4)
    if way == 3 and requires:
        g = int(rng.choice(sorted(requires)))
        requires[g] -= {int(rng.choice(sorted(requires[g])))}
        requires = {h: needed for h, needed in requires.items() if needed}
    elif shared:
        k = int(rng.integers(len(shared)))
        cost, who = shared[k]
        if way == 0:
            shared[k] = (cost * float(rng.choice([0.0, 0.5, 0.9, 1.1, 3.0])), who)
        elif way == 1 and len(who) > 1:
            shared[k] = (cost, who - {int(rng.choice(sorted(who)))})
        else:
            del shared[k]
    return Shop(shop.own, shared, requires)


@pytest.mark.parametrize("case", CASES)
def test_other_shared_costs_or_requirements_are_refused_where_they_change_the_claim(case):
    """Whatever is accepted is true of the groups that the certificate names."""
    rng, refused = np.random.default_rng(CASES.index(case)), 0
    for seed in range(2):
        problem = bundled(seed + 1000, case, J=5)
        moments, certificate = certificate_of(problem, (0.0, 0.03)[seed])
        for _ in range(5):
            other = replace(problem, shop=tampered_shop(problem.shop, rng))
            groups = FeatureGroups(problem.feature_groups, problem.costs, **named(other.shop))
            try:
                replace(certificate, feature_groups=groups).verify(moments)
            except ValueError as error:
                assert "the certificate does not hold" in str(error)  # noqa: PT017
                refused += 1
                continue
            assert np.all(certificate.bounds >= best_of_all(other, certificate) - 1e-8 * problem.null_value)
            costs, values = other.curve(tuple(certificate.order.tolist()))
            at = np.array([values[np.flatnonzero(costs <= b * (1 + 1e-12))[-1]] for b in certificate.budgets])
            np.testing.assert_allclose(certificate.achieved, at, atol=2e-8 * problem.null_value)
    assert refused >= 4


def panel(draw=2.0, members=("a", "b", "c"), requires=None):
    """Three tests of one sample, of own cost 1 each; c needs the result of a."""
    requires = {"c": ["a"]} if requires is None else requires
    shared = {"draw": (draw, list(members))}
    return FeatureGroups({"a": [0], "b": [1], "c": [2]}, [1, 1, 1], shared=shared, requires=requires)


def test_tampering_by_hand():
    rng = np.random.default_rng(1)
    X = rng.standard_normal((60, 3))
    moments = Moments.from_data(X, X @ [1.0, 1.5, 2.0] + rng.standard_normal(60))
    for certificate in (
        certify(moments, panel(), alpha=1e-3, time_limit=0.0),
        certify(moments, panel(), alpha=1e-3, time_limit=LONG),
        best_set(moments, panel(), budget=4, include=["c"], alpha=1e-3).certificate,
        best_set(moments, panel(), budget=3.5, alpha=1e-3).certificate,
    ):
        certificate.verify(moments)
    certificate = certify(moments, panel(), alpha=1e-3, time_limit=LONG)
    # c cannot be had without a, which pays for the draw: that c does too says nothing
    replace(certificate, feature_groups=panel(members=("a", "b"))).verify(moments)
    for groups in (panel(1.0), panel(3.0), panel(2.0 + 1e-6), panel(0.0), panel(members=("b", "c")),
                   panel(members=("a", "c")), panel(requires={})):  # fmt: skip
        with pytest.raises(ValueError, match=r"does not hold: .*(bound|achieved|leaves)"):
            replace(certificate, feature_groups=groups).verify(moments)
    # with b required of c too the sets that may be bought are fewer; an order that buys b late breaks it
    more = replace(certificate, feature_groups=panel(requires={"c": ["a", "b"]}), order=np.array([0, 2, 1]))
    with pytest.raises(ValueError, match=r"before one that it requires|achieved"):
        more.verify(moments)


# -- the panels with their prices ------------------------------------------------------------------------------


def explained(X, Y, alpha):
    """F of all columns of X, by the normal equations of standardised columns."""
    Z = (X - X.mean(axis=0)) / X.std(axis=0)
    b = Z.T @ (Y - Y.mean(axis=0)) / len(Z)
    return float(np.sum(b * np.linalg.solve(Z.T @ Z / len(Z) + alpha * np.eye(Z.shape[1]), b)) / 2)


# Canadian dollars: one draw of blood is 2.10, and FTI is computed from TT4 and T4U at no cost.
BLOOD = {
    ("T3",): 2.10 + 9.31,
    ("T4U",): 2.10 + 9.31,
    ("TT4",): 2.10 + 12.41,
    ("TSH",): 2.10 + 20.68,
    ("T3", "T4U"): 2.10 + 9.31 + 9.31,
    ("T3", "TT4"): 2.10 + 9.31 + 12.41,
    ("TT4", "T4U"): 2.10 + 12.41 + 9.31,
    ("TT4", "T4U", "FTI"): 2.10 + 12.41 + 9.31,
    ("TSH", "T3"): 2.10 + 20.68 + 9.31,
    ("TSH", "T4U"): 2.10 + 20.68 + 9.31,
    ("TSH", "TT4"): 2.10 + 20.68 + 12.41,
    ("T3", "TT4", "T4U"): 2.10 + 9.31 + 12.41 + 9.31,
    ("T3", "TT4", "T4U", "FTI"): 2.10 + 9.31 + 12.41 + 9.31,
    ("TSH", "T3", "T4U"): 2.10 + 20.68 + 9.31 + 9.31,
    ("TSH", "T3", "TT4"): 2.10 + 20.68 + 9.31 + 12.41,
    ("TSH", "TT4", "T4U"): 2.10 + 20.68 + 12.41 + 9.31,
    ("TSH", "TT4", "T4U", "FTI"): 2.10 + 20.68 + 12.41 + 9.31,
    ("TSH", "T3", "TT4", "T4U"): 2.10 + 20.68 + 9.31 + 12.41 + 9.31,
    ("TSH", "T3", "TT4", "T4U", "FTI"): 2.10 + 20.68 + 9.31 + 12.41 + 9.31,
}
# How many of these, which stand in the order of the number of tests, each budget pays for.
WITHIN = {
    12: [("T3",), ("T4U",)],
    25: [("T3",), ("T4U",), ("TT4",), ("TSH",), ("T3", "T4U"), ("T3", "TT4"), ("TT4", "T4U"), ("TT4", "T4U", "FTI")],
    36: [*list(BLOOD)[:13]],
    46: [*list(BLOOD)[:17]],
    54: [*BLOOD],
}


def test_the_prices_by_hand():
    assert BLOOD["T3", "T4U"] == pytest.approx(20.72)
    assert BLOOD["TSH", "TT4"] == pytest.approx(35.19)
    assert BLOOD["TT4", "T4U", "FTI"] == pytest.approx(23.82)
    assert BLOOD["TSH", "T3", "TT4"] == pytest.approx(44.50)
    assert BLOOD["TSH", "T3", "TT4", "T4U", "FTI"] == pytest.approx(53.81)
    for budget, sets in WITHIN.items():
        assert max(BLOOD[S] for S in sets) <= budget
        assert all(price > budget for S, price in BLOOD.items() if S not in sets)


def test_thyroid_panel():
    thyroid = load_thyroid(tests="single")
    Y = (thyroid.target[:, None] == [1, 2, 3]).astype(float)
    moments = Moments.from_data(thyroid.data, Y)
    blood = ["TSH", "T3", "TT4", "T4U", "FTI"]
    questions = [name for name in thyroid.feature_groups.names if name not in blood]
    assert len(questions) == 16
    place = thyroid.feature_names.index
    values = {S: explained(thyroid.data[:, [place(name) for name in S]], Y, 1e-2) for S in BLOOD}
    null_value = Y.var(axis=0).sum() / 2
    for budget, sets in WITHIN.items():
        found = best_set(moments, thyroid.feature_groups, budget=budget, exclude=questions, alpha=1e-2, time_limit=LONG)
        best = max(sets, key=values.__getitem__)
        runner_up = max(values[S] for S in sets if best != S)
        assert values[best] > runner_up + 1e-7 * null_value  # there is one best set
        assert set(found.groups) == set(best)
        assert found.cost == pytest.approx(BLOOD[best], rel=1e-12)
        assert found.value == pytest.approx(values[best], rel=1e-9)
        assert found.explained == pytest.approx(values[best] / null_value, rel=1e-9)
        assert found.optimal
        found.certificate.verify(moments)


def test_heart_for_a_hundred_dollars():
    """Neither the thallium scan nor fluoroscopy can be had; blood is drawn once, and the exercise test made once."""
    heart = load_heart(tests="single")
    own = {"age": 1.0, "sex": 1.0, "cp": 1.0, "trestbps": 1.0, "chol": 5.17, "fbs": 3.10, "ecg": 15.50,
           "exang": 1.0, "oldpeak": 1.0, "slope": 1.0}  # fmt: skip
    columns = {
        name: [d for d, label in enumerate(heart.feature_names) if label.split("=")[0] == feature]
        for name, feature in {**{name: name for name in own}, "ecg": "restecg"}.items()
    }
    Y = heart.target[:, None].astype(float)

    def price(S):
        blood, exercise = {"chol", "fbs"} & set(S), {"exang", "oldpeak", "slope"} & set(S)
        return sum(own[name] for name in S) + (2.10 if blood else 0) + (86.30 if exercise else 0)

    best, value = (), 0.0
    for size in range(1, len(own) + 1):
        for S in combinations(own, size):
            if price(S) <= 100:
                found = explained(heart.data[:, [d for name in S for d in columns[name]]], Y, 1e-2)
                best, value = (S, found) if found > value else (best, value)
    found = best_set(Moments.from_data(heart.data, Y), heart.feature_groups, budget=100, alpha=1e-2, time_limit=LONG)
    assert {"oldpeak"} <= set(best)
    assert set(found.groups) == set(best)
    assert found.cost == pytest.approx(price(best), rel=1e-12)
    assert found.value == pytest.approx(value, rel=1e-9)
    assert found.optimal
    found.certificate.verify(Moments.from_data(heart.data, Y))
