"""Shared costs and requirements in the greedy loop, against brute force that shares no code."""

from itertools import combinations

import numpy as np
import pytest
from reference_shared import (
    Shop,
    arguments,
    doubling,
    glm_score,
    greedy,
    linear_score,
    random_shop,
    steps_of,
)
from scipy import sparse
from set_functions import greedy_sequence

from budgetline import (
    AnytimeClassifier,
    AnytimeRegressor,
    AnytimeRegressorCV,
    FeatureGroups,
    FixedOrder,
    GroupLassoPath,
    Moments,
    open_data,
)
from budgetline.datasets import load_heart
from budgetline.sequencing import Doubling, RandomOrder

pytestmark = pytest.mark.quick_cases(6)

DECIDED = 1e-6  # decisions that were closer than this are left to rounding


def random_problem(seed, *, n=None):
    rng = np.random.default_rng(seed)
    J = int(rng.integers(2, 7))
    sizes = rng.integers(1, 4, J)
    D = int(sizes.sum())
    n = D + 25 if n is None else n
    X = rng.standard_normal((n, D)) @ (np.eye(D) + 0.5 * rng.standard_normal((D, D)))
    P = int(rng.integers(1, 3))
    Y = X @ rng.standard_normal((D, P)) * rng.uniform(0, 1, P) + 2 * rng.standard_normal((n, P))
    X = 3 * rng.standard_normal(D) + X * rng.uniform(0.1, 10, D)
    groups = [list(map(int, g)) for g in np.split(rng.permutation(D), np.cumsum(sizes)[:-1])]
    weight = rng.uniform(0.1, 2, n) if seed % 2 else None
    return rng, X, Y[:, 0] if P == 1 else Y, groups, random_shop(rng, J), weight


def groups_of(groups, shop):
    return FeatureGroups(groups, **arguments(shop))


def assert_is(sequence, found, shop, gain):
    assert sequence.order.tolist() == found.order
    np.testing.assert_allclose(sequence.costs, steps_of(shop, found.order), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(sequence.cumulative_costs[-1:], [shop.cost(found.order)][: len(found.order)], rtol=1e-12)
    truth = [gain(frozenset(found.order[:k]), frozenset(found.order[k : k + 1])) for k in range(len(found.order))]
    np.testing.assert_allclose(sequence.gains, truth, rtol=0, atol=1e-8 * max(1.0, *np.abs(truth)) if truth else 0)


def assert_complete(shop, order):
    """No group comes before one that it requires."""
    for k, g in enumerate(order):
        assert shop.requires.get(g, frozenset()) <= set(order[:k])


# -- the order -----------------------------------------------------------------------------------------------

RULES = ["forward", "omp", "no-whiten", "single"]


@pytest.mark.quick_cases(14)
@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("block", range(10))
def test_the_order_is_that_of_brute_force(rule, block):
    close = 0
    first = 1000 * RULES.index(rule) + 10 * block  # every rule has problems of its own
    for seed in range(first, first + 10):
        _, X, Y, groups, shop, weight = random_problem(seed)
        score, gain = linear_score(X, Y, groups, rule, 0.01, weight)
        found = greedy(shop, score)
        if found.margin < DECIDED:
            close += 1
            continue
        model = AnytimeRegressor(groups_of(groups, shop), rule=rule, alpha=0.01).fit(X, Y, sample_weight=weight)
        assert_is(model.sequence_, found, shop, gain)
        assert_complete(shop, found.order)
        assert sorted(found.order) == list(range(len(groups)))
        assert model.sequence_.costs.sum() == pytest.approx(shop.cost(range(len(groups))))
    assert close <= 1


@pytest.mark.parametrize("seed", range(40))
def test_limits_are_kept(seed):
    rng, X, Y, groups, shop, weight = random_problem(seed)
    total = shop.cost(range(len(groups)))
    score, gain = linear_score(X, Y, groups, "forward", 0.01, weight)
    max_cost, max_groups = float(rng.uniform(0, total)), int(rng.integers(1, len(groups) + 1))
    for limits in (
        {"max_cost": max_cost},
        {"max_groups": max_groups},
        {"max_cost": max_cost, "max_groups": max_groups},
    ):
        found = greedy(shop, score, **limits)
        model = AnytimeRegressor(groups_of(groups, shop), alpha=0.01, **limits).fit(X, Y, sample_weight=weight)
        assert model.sequence_.costs.sum() <= limits.get("max_cost", np.inf) * (1 + 1e-12)
        assert len(model.sequence_) <= limits.get("max_groups", np.inf)
        if found.margin >= DECIDED:
            assert_is(model.sequence_, found, shop, gain)


@pytest.mark.parametrize("seed", range(40))
@pytest.mark.parametrize(
    ("settings", "options"),
    [({"cost_sensitive": False}, {"cost_sensitive": False}), ({"schedule": "doubling"}, {"allowed": doubling})],
    ids=["costs ignored", "doubling"],
)
def test_other_ways_to_choose(seed, settings, options):
    _, X, Y, groups, shop, weight = random_problem(seed)
    score, gain = linear_score(X, Y, groups, "forward", 0.01, weight)
    found = greedy(shop, score, **options)
    model = AnytimeRegressor(groups_of(groups, shop), alpha=0.01, **settings).fit(X, Y, sample_weight=weight)
    assert_complete(shop, model.order_.tolist())
    if found.margin >= DECIDED:
        assert_is(model.sequence_, found, shop, gain)


@pytest.mark.parametrize("rule", ["forward", "omp", "static"])
@pytest.mark.parametrize("seed", range(12))
def test_wide_data_moments_and_folds_agree(rule, seed, monkeypatch):
    """Columns on demand, dense and sparse, choose as moments do."""
    _, X, Y, groups, shop, weight = random_problem(seed)
    made = groups_of(groups, shop)
    one = AnytimeRegressor(made, rule=rule, alpha=0.01).fit(X, Y, sample_weight=weight)
    moments = Moments.from_data(X, Y, sample_weight=weight)
    same = AnytimeRegressor(made, rule=rule, alpha=0.01).fit_moments(moments)
    monkeypatch.setattr("budgetline.fitting.linear.gram_fits", lambda *_: False)
    for table in (X, sparse.csr_array(X)):
        other = AnytimeRegressor(made, rule=rule, alpha=0.01).fit(table, Y, sample_weight=weight)
        assert other.order_.tolist() == one.order_.tolist() == same.order_.tolist()
        np.testing.assert_allclose(other.sequence_.gains, one.sequence_.gains, atol=1e-9)


def test_static_scores_bundles_at_the_start():
    for seed in range(30):
        _, X, Y, groups, shop, weight = random_problem(seed)
        score, gain = linear_score(X, Y, groups, "omp", 0.01, weight)
        found = greedy(shop, lambda _, A, score=score: score(frozenset(), A))
        model = AnytimeRegressor(groups_of(groups, shop), rule="static", alpha=0.01).fit(X, Y, sample_weight=weight)
        if found.margin >= DECIDED:
            assert_is(model.sequence_, found, shop, gain)


@pytest.mark.parametrize("wide", [False, True])
def test_dependent_columns_without_a_ridge(wide, monkeypatch):
    """Copies, sums of other columns, constants: nothing breaks, and what is there twice brings nothing twice."""
    if wide:
        monkeypatch.setattr("budgetline.fitting.linear.gram_fits", lambda *_: False)
    for seed in range(20):
        rng = np.random.default_rng(seed)
        base = rng.standard_normal((40, 5))
        X = np.column_stack([base, base[:, 0], base[:, 1] + base[:, 2], np.ones(40), base[:, 3] * 7 + 2])
        y = base @ rng.standard_normal(5) + 0.1 * rng.standard_normal(40)
        groups = [[0, 5], [1, 2], [6], [3, 7], [8], [4]]
        shop = random_shop(rng, 6)
        model = AnytimeRegressor(groups_of(groups, shop), alpha=0.0).fit(X, y)
        assert_complete(shop, model.order_.tolist())
        assert np.isfinite(model.coef_path_).all()
        assert model.sequence_.costs.sum() == pytest.approx(shop.cost(range(6)))
        score, _ = linear_score(X, y, groups, "forward", 0.0, None)
        assert model.sequence_.gains.sum() == pytest.approx(score(frozenset(), frozenset(range(6))) / 2, rel=1e-8)


def test_the_first_choice_is_the_best_of_all_sets_on_orthogonal_designs():
    """Where gains add up and one cost is shared, no set of groups has a better rate than what is bought first."""
    for seed in range(60):
        rng = np.random.default_rng(seed)
        J = 6
        X = np.linalg.qr(rng.standard_normal((64, J + 1)) - 0)[0]
        X = X - X.mean(axis=0)
        X = np.linalg.qr(X)[0][:, :J]
        y = X @ rng.uniform(0.2, 2.0, J)
        members = frozenset(rng.choice(J, int(rng.integers(2, J + 1)), replace=False).tolist())
        shop = Shop(rng.uniform(0.1, 2, J).tolist(), [(float(rng.uniform(0.5, 5)), members)], {})
        model = AnytimeRegressor(groups_of([[d] for d in range(J)], shop), alpha=0.0).fit(X, y)
        gains = dict(zip(model.order_.tolist(), model.sequence_.gains.tolist(), strict=True))
        rates = {A: sum(gains[g] for g in A) / shop.cost(A) for k in range(1, J + 1) for A in combinations(range(J), k)}
        best = max(rates, key=rates.__getitem__)
        assert sorted(model.order_[: len(best)].tolist()) == sorted(best)


def test_a_hub_that_is_required_makes_a_bundle():
    """The reader is worth nothing; two measurements that need it are. Neither alone beats the plain group."""
    worth = {"reader": 0.0, "a": 3.0, "b": 3.0, "plain": 2.0}
    F = lambda S: sum(worth[x] for x in S)  # noqa: E731
    costs = {"reader": 4.0, "a": 1.0, "b": 1.0, "plain": 2.5}
    found = greedy_sequence(F, costs, requires={"a": ["reader"], "b": ["reader"]})
    # 6/6 for the reader with both, 3/5 with one, 2/2.5 for plain
    assert found.groups == ("reader", "a", "b", "plain")
    assert found.costs.tolist() == [4.0, 1.0, 1.0, 2.5]
    ignored = greedy_sequence(F, costs, requires={"a": ["reader"], "b": ["reader"]}, cost_sensitive=False)
    assert ignored.groups == ("reader", "a", "b", "plain")


def test_a_shared_cost_makes_a_bundle():
    worth = {"a": 3.0, "b": 3.0, "plain": 2.0}
    F = lambda S: sum(worth[x] for x in S)  # noqa: E731
    found = greedy_sequence(F, {"a": 1.0, "b": 1.0, "plain": 2.5}, shared={"draw": (4.0, ["a", "b"])})
    assert found.groups == ("a", "b", "plain")
    assert found.costs.tolist() == [5.0, 1.0, 2.5]
    # without the bundle the plain group would come first: 2/2.5 against 3/5
    assert greedy_sequence(F, {"a": 5.0, "b": 5.0, "plain": 2.5}).groups == ("plain", "a", "b")
    # what does not fit is out: one of the pair, and the bundle
    within = {"shared": {"draw": (4.0, ["a", "b"])}, "costs": {"a": 1.0, "b": 1.0, "plain": 2.5}}
    assert greedy_sequence(F, max_cost=5.9, **within).groups == ("plain",)
    assert greedy_sequence(F, max_cost=6.0, **within).groups == ("a", "b")
    assert greedy_sequence(F, max_groups=1, **within).groups == ("plain",)


def test_a_member_that_does_not_fit_does_not_keep_the_others_from_bundling():
    worth = {"a": 3.0, "b": 3.0, "costly": 999.0, "plain": 2.0}
    F = lambda S: sum(worth[x] for x in S)  # noqa: E731
    costs = {"a": 1.0, "b": 1.0, "costly": 100.0, "plain": 2.5}
    found = greedy_sequence(F, costs, shared={"draw": (4.0, ["a", "b", "costly"])}, max_cost=9.0)
    assert found.groups == ("a", "b", "plain")


def test_ties_go_to_the_cheaper_then_the_earlier_then_to_singles():
    F = lambda S: float(len(S))  # noqa: E731
    costs = {"a": 1.0, "b": 1.0, "c": 2.0}
    assert greedy_sequence(F, costs, requires={"a": ["b"]}).groups == ("b", "a", "c")
    # c with d costs 2 and brings 2, as a alone costs 1 and brings 1: the cheaper comes first
    costs = {"c": 1.0, "d": 1.0, "a": 1.0}
    assert greedy_sequence(F, costs, requires={"c": ["d"]}).groups[0] == "d"
    # x and y with what they share have the rate of z alone and the same cost: the single comes first
    G = lambda S: sum({"x": 1.0, "y": 1.0, "z": 2.0}[e] for e in S)  # noqa: E731
    assert greedy_sequence(G, {"x": 0.5, "y": 0.5, "z": 2.0}, shared={"s": (1.0, ["x", "y"])}).groups[0] == "z"


def test_free_groups_come_first_and_only_if_what_they_need_is_there():
    F = lambda S: float(len(S))  # noqa: E731
    found = greedy_sequence(F, {"index": 0.0, "free": 0.0, "a": 1.0, "b": 9.0}, requires={"index": ["a"]})
    assert found.groups == ("free", "a", "index", "b")
    assert found.costs.tolist() == [0.0, 1.0, 0.0, 9.0]


# -- set functions -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(60))
def test_set_functions(seed):
    rng = np.random.default_rng(seed)
    J = int(rng.integers(2, 8))
    shop = random_shop(rng, J)
    covers = [frozenset(rng.choice(40, int(rng.integers(1, 15)), replace=False).tolist()) for _ in range(J)]
    value = rng.uniform(0.1, 2.0, 40)

    def F(S):
        return float(value[sorted(frozenset().union(*(covers[g] for g in S)))].sum()) if S else 0.0

    given = arguments(shop)
    costs = dict(enumerate(given.pop("costs")))
    found = greedy(shop, lambda S, A: F(S | A) - F(S))
    sequence = greedy_sequence(F, costs, **given)
    assert_complete(shop, list(sequence.groups))
    if found.margin >= DECIDED:
        assert_is(sequence, found, shop, lambda S, A: F(S | A) - F(S))
    total = shop.cost(range(J))
    for share in (0.3, 0.7):
        within = greedy_sequence(F, costs, max_cost=share * total, **given)
        assert within.costs.sum() <= share * total * (1 + 1e-12)


def test_set_functions_refuse_names_that_are_the_same_as_text():
    with pytest.raises(ValueError, match="element '1' is listed twice, as text"):
        greedy_sequence(len, {1: 1.0, "1": 2.0}, shared={"s": (1.0, ["1"])})


# -- generalised linear models -------------------------------------------------------------------------------


def glm_problem(seed, family):
    rng = np.random.default_rng(seed)
    J = int(rng.integers(2, 5))
    sizes = rng.integers(1, 3, J)
    D = int(sizes.sum())
    n = 70
    X = rng.standard_normal((n, D)) @ (np.eye(D) + 0.4 * rng.standard_normal((D, D)))
    scores = X @ rng.standard_normal((D, 3)) / np.sqrt(D)
    groups = [list(map(int, g)) for g in np.split(rng.permutation(D), np.cumsum(sizes)[:-1])]
    if family == "logistic":
        y = (scores[:, 0] + rng.logistic(size=n) > 0).astype(int)
        targets = y[:, None].astype(float)
    else:
        y = (scores + rng.gumbel(size=scores.shape)).argmax(axis=1)
        targets = np.eye(3)[y]
    weight = rng.uniform(0.2, 2, n) if seed % 2 else None
    return X, y, targets, groups, random_shop(rng, J, most_shared=3), weight


@pytest.mark.quick_cases(4)
@pytest.mark.parametrize("rule", ["score", "forward", "omp", "no-whiten", "single"])
@pytest.mark.parametrize(("family", "seeds"), [("logistic", range(12)), ("softmax", range(5))])
def test_classifiers(rule, family, seeds):
    close = 0
    for seed in seeds:
        X, y, targets, groups, shop, weight = glm_problem(seed, family)
        score, gain = glm_score(family, X, targets, groups, rule, 0.05, weight)
        found = greedy(shop, score)
        model = AnytimeClassifier(groups_of(groups, shop), rule=rule, alpha=0.05).fit(X, y, sample_weight=weight)
        assert_complete(shop, model.order_.tolist())
        if found.margin < DECIDED:
            close += 1
        else:
            assert_is(model.sequence_, found, shop, gain)
    assert close <= 1


@pytest.mark.parametrize(
    "rule", ["score", *(pytest.param(rule, marks=pytest.mark.slow) for rule in ("omp", "no-whiten", "single"))]
)
def test_streamed_classifiers_choose_alike(rule):
    for seed in range(8):
        X, y, _, groups, shop, _ = glm_problem(seed, "logistic" if seed % 2 else "softmax")
        settings = {"rule": rule, "alpha": 0.05}
        one = AnytimeClassifier(groups_of(groups, shop), **settings).fit(X, y)
        other = AnytimeClassifier(groups_of(groups, shop), **settings).fit(open_data((X, y), chunk_rows=17))
        assert other.order_.tolist() == one.order_.tolist()
        np.testing.assert_allclose(other.sequence_.gains, one.sequence_.gains, atol=1e-8)


def test_screening_divides_by_the_costs_of_the_moment(monkeypatch):
    """With every refit screened, the order is still that of exact gains per cost as it is then."""
    monkeypatch.setattr("budgetline.glm.generalised_linear.AFFORDABLE", 0)
    monkeypatch.setattr("budgetline.glm.generalised_linear.SCREEN", 1.5)
    for seed in range(12):
        X, y, targets, groups, shop, weight = glm_problem(seed, "logistic")
        score, gain = glm_score("logistic", X, targets, groups, "forward", 0.05, weight)
        found = greedy(shop, score)
        model = AnytimeClassifier(groups_of(groups, shop), alpha=0.05).fit(X, y, sample_weight=weight)
        if found.margin >= 1e-3:
            assert_is(model.sequence_, found, shop, gain)


# -- schedules -----------------------------------------------------------------------------------------------

BLOOD = {"costs": {"a": 1.0, "b": 2.0, "c": 0.5, "d": 3.0}, "requires": {"c": ["d"]}}


def test_baselines_put_required_groups_before():
    assert greedy_sequence(len, schedule="cheapest", **BLOOD).groups == ("a", "b", "d", "c")
    for seed in range(10):
        drawn = greedy_sequence(len, dict.fromkeys("abcd", 1.0), schedule=RandomOrder(seed)).groups
        found = greedy_sequence(len, schedule=RandomOrder(seed), **BLOOD).groups
        moved = [g for g in drawn if g != "d"]
        moved.insert(min(moved.index("c"), drawn.index("d")), "d")
        assert list(found) == moved


def test_the_cheapest_is_that_of_the_moment_and_never_a_bundle():
    worth = {"a": 1.0, "b": 1.0, "c": 1.5}
    F = lambda S: sum(worth[x] for x in S)  # noqa: E731
    # a and b share all they cost, as does the bundle of both; c costs the same and is worth more than either
    found = greedy_sequence(F, {"a": 0.0, "b": 0.0, "c": 5.0}, shared={"s": (5.0, ["a", "b"])}, schedule="cheapest")
    assert found.groups == ("c", "a", "b")
    assert found.costs.tolist() == [5.0, 5.0, 0.0]
    assert greedy_sequence(F, {"a": 0.0, "b": 0.0, "c": 5.0}, shared={"s": (5.0, ["a", "b"])}).groups[-1] == "c"


def test_fixed_orders():
    found = greedy_sequence(len, schedule=FixedOrder(["b", "d", "c"]), **BLOOD)
    assert found.groups == ("b", "d", "c")
    for wrong in (["c", "d"], ["b", "c"]):
        with pytest.raises(
            ValueError, match="the fixed order has group 'c', which requires 'd', without 'd' before it"
        ):
            greedy_sequence(len, schedule=FixedOrder(wrong), **BLOOD)
    X = np.random.default_rng(0).normal(size=(30, 2))
    groups = FeatureGroups({"x": [0], "y": [1]}, requires={"x": "y"})
    with pytest.raises(ValueError, match="has group 'x', which requires 'y'"):
        AnytimeRegressor(groups, schedule=FixedOrder(["x", "y"])).fit(X, X[:, 0])


def test_doubling_counts_a_bundle_at_its_price():
    worth = {"a": 3.0, "b": 3.0, "plain": 2.0}
    F = lambda S: sum(worth[x] for x in S)  # noqa: E731
    given = {"costs": {"a": 1.0, "b": 1.0, "plain": 2.5}, "shared": {"draw": (4.0, ["a", "b"])}}
    # nothing is affordable at first: the cheapest single; then neither 5 nor the bundle of 6 is
    assert greedy_sequence(F, schedule="doubling", **given).groups == ("plain", "a", "b")
    assert greedy_sequence(F, schedule=Doubling(c_min=6), **given).groups == ("a", "b", "plain")
    assert greedy_sequence(F, schedule=Doubling(c_min=5.5), **given).groups == ("plain", "a", "b")


def test_a_schedule_of_ones_own_gets_the_costs_as_they_are():
    seen = []

    class Watching:
        def allowed(self, costs, remaining, spent):
            seen.append((costs[remaining].tolist(), spent))
            return remaining & (costs == costs[remaining].min())

    found = greedy_sequence(
        len, {"a": 1.0, "b": 2.0, "c": 0.0}, shared={"s": (3.0, ["a", "b"])}, requires={"c": ["b"]}, schedule=Watching()
    )
    assert found.groups == ("a", "b", "c")
    assert seen[0] == ([4.0, 5.0, 5.0], 0.0)
    assert ([2.0, 2.0], 4.0) in seen


def test_min_gain_looks_at_single_groups_that_fit():
    worth = {"a": 0.01, "b": 0.01, "c": 5.0}
    F = lambda S: sum(worth[x] for x in S)  # noqa: E731
    given = {"costs": {"a": 1.0, "b": 1.0, "c": 1.0}, "shared": {"s": (1.0, ["a", "b"])}}
    assert greedy_sequence(F, min_gain=0.1, **given).groups == ("c",)
    assert set(greedy_sequence(F, min_gain=0.001, **given).groups) == {"a", "b", "c"}


# -- everything that follows ---------------------------------------------------------------------------------


def test_the_sum_of_own_and_shared_costs_is_what_cross_validation_spreads_budgets_over():
    _, X, Y, groups, shop, _ = random_problem(4)
    y = Y if Y.ndim == 1 else Y[:, 0]
    shop = shop._replace(shared=[(5.0, frozenset(range(len(groups))))])
    made = groups_of(groups, shop)
    search = AnytimeRegressorCV(made, alphas=[0.01], cv=3).fit(X, y)
    total, scores = shop.cost(range(len(groups))), []
    parts = np.array_split(np.arange(len(X)), 3)
    for part in parts:
        train = np.setdiff1d(np.arange(len(X)), part)
        model = AnytimeRegressor(made, alpha=0.01).fit(X[train], y[train])
        null = np.mean((y[part] - y[train].mean()) ** 2)
        share = [0.0, *(1 - np.mean((y[part] - p) ** 2) / null for p in model.staged_predict(X[part]))]
        edges = [0.0, *model.sequence_.cumulative_costs, total]
        scores.append(np.dot(share, np.diff(edges)) / total)
    np.testing.assert_allclose(search.cv_scores_[0], scores, atol=1e-9)


def test_budgets_buy_what_the_steps_cost():
    heart = load_heart(tests="single")
    model = AnytimeClassifier(heart.feature_groups, alpha=1e-2).fit(heart.data, heart.target)
    for stage, cost in enumerate(model.sequence_.cumulative_costs, 1):
        names = model.sequence_.groups[:stage]
        assert heart.feature_groups.cost_of(names) == pytest.approx(cost, rel=1e-12)
        # a free group that follows is bought as well
        bought = int(np.sum(model.sequence_.cumulative_costs <= cost * (1 + 1e-12)))
        at_budget = model.predict_proba(heart.data[:5], budget=float(cost))
        np.testing.assert_array_equal(at_budget, model.predict_proba(heart.data[:5], stage=bought))
    assert model.sequence_.costs.sum() == pytest.approx(323.97)


def test_the_group_lasso_divides_what_is_shared_and_moves_required_groups():
    rng = np.random.default_rng(3)
    X = rng.standard_normal((300, 5))
    y = X @ [3.0, 0.5, 1.5, 0.0, 1.0] + 0.1 * rng.standard_normal(300)
    plain = FeatureGroups.singletons(5, [0.5 + 2, 1 + 2, 2.0, 1.0, 0.7])
    shared = FeatureGroups.singletons(5, [0.5, 1, 2, 1, 0.7], shared={"s": (4.0, ["0", "1"])})
    one, other = GroupLassoPath(plain).fit(X, y), GroupLassoPath(shared).fit(X, y)
    np.testing.assert_array_equal(one.path_coef_, other.path_coef_)
    assert one.order_.tolist() == other.order_.tolist()
    np.testing.assert_allclose(other.sequence_.costs.sum(), 9.2)
    # "3" brings nothing and enters last; "0" requires it
    needy = FeatureGroups.singletons(5, np.ones(5), requires={"0": ["3"]})
    for refit in (True, False):
        model = GroupLassoPath(needy, refit=refit).fit(X, y)
        assert model.order_.tolist()[:2] == [3, 0]
        for stage in range(6):
            later = model.order_[stage:]
            coef = model.coef_path_[stage - 1] if stage else np.zeros(5)
            assert not coef[later].any()
        assert np.all(np.diff([np.mean((y - p) ** 2) for p in model.staged_predict(X)]) < 1e-9)
    # a group that is free but for what it requires is not free
    index = FeatureGroups.singletons(5, [1, 1, 1, 1, 0], requires={"4": ["3"]})
    weighed = FeatureGroups.singletons(5, [1, 1, 1, 1, 0.5])
    np.testing.assert_array_equal(
        GroupLassoPath(index).fit(X, y).path_coef_, GroupLassoPath(weighed).fit(X, y).path_coef_
    )
