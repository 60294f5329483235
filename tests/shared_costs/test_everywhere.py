"""Shared costs and requirements beyond the loop: groups, their files, exact search, models, reports, command line."""

import copy
import json
import pickle
from itertools import combinations, pairwise, permutations

import numpy as np
import onnxruntime
import pandas as pd
import pytest
import yaml
from best_sets import best_set
from exact_search import best_sequence, best_values, complete_subsets, subset_costs
from reference_shared import Shop, arguments, linear_score, random_shop, steps_of
from set_functions import greedy_sequence

import budgetline
from budgetline import (
    AnytimeClassifier,
    AnytimeRegressor,
    FeatureGroups,
    GroupLassoPath,
    Moments,
    budget_curve,
    compare,
    load,
    make_report,
    profile_costs,
    save,
    timeliness,
    to_onnx,
)
from budgetline.cli import main
from budgetline.datasets import load_heart, load_thyroid
from budgetline.files import decode, encode
from budgetline.groups.prices import Prices, SharedCost

pytestmark = pytest.mark.quick_cases(5)

NAMES = ["TSH", "T3", "TT4", "T4U", "FTI"]
DRAW = {"blood draw": (2.10, ["TSH", "T3", "TT4", "T4U"])}
INDEX = {"FTI": ["TT4", "T4U"]}


def blood(**changes):
    given = {"costs": [20.68, 9.31, 12.41, 9.31, 0], "shared": DRAW, "requires": INDEX}
    return FeatureGroups({name: [name] for name in NAMES}, **{**given, **changes})


# -- groups --------------------------------------------------------------------------------------------------


def test_groups_say_what_they_share_and_require():
    groups = blood()
    assert groups.costs.tolist() == [20.68, 9.31, 12.41, 9.31, 0]
    assert groups.shared == {"blood draw": (2.10, ("TSH", "T3", "TT4", "T4U"))}
    assert groups.requires == {"FTI": ("TT4", "T4U")}
    assert repr(groups) == "FeatureGroups(5 groups, 5 columns, total cost 53.81)"
    assert groups.prices.total == pytest.approx(53.81)
    assert groups.cost_of([]) == 0
    assert groups.cost_of("TSH") == pytest.approx(22.78)
    assert groups.cost_of(["FTI"]) == groups.cost_of({"TT4", "T4U"}) == pytest.approx(23.82)
    assert groups.cost_of(NAMES) == pytest.approx(53.81)
    plain = FeatureGroups({name: [name] for name in NAMES})
    assert (plain.shared, plain.requires, plain.prices.additive) == ({}, {}, True)


def test_costs_of_sets_against_sets():
    for seed in range(100):
        rng = np.random.default_rng(seed)
        J = int(rng.integers(1, 7))
        shop = random_shop(rng, J)
        groups = FeatureGroups([[d] for d in range(J)], **arguments(shop))
        prices = groups.prices
        order = rng.permutation(J).tolist()
        complete = prices.completed(order)
        assert sorted(complete) == sorted(order)
        for k, g in enumerate(complete):
            assert shop.closed([g]) <= set(complete[: k + 1])
        assert (prices.out_of_order(order) is None) == (complete == order)
        np.testing.assert_allclose(prices.steps(complete), steps_of(shop, complete), atol=1e-12)
        for k in range(J + 1):
            S = frozenset(complete[:k])
            chosen = np.isin(np.arange(J), list(S))
            truth = [0.0 if g in S else shop.cost(S | {g}) - shop.cost(S) for g in range(J)]
            np.testing.assert_allclose(prices.marginal(chosen), truth, atol=1e-12)
            assert prices.cost(chosen) == pytest.approx(shop.cost(S))
        some = rng.choice(J, int(rng.integers(0, J + 1)), replace=False)
        assert groups.cost_of(some) == pytest.approx(shop.cost(some.tolist()))


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"shared": [1]}, TypeError, r"shared must be a mapping name -> \(cost, groups\), got \[1\]"),
        ({"shared": {"draw": 3}}, ValueError, r"shared cost 'draw' must be given as \(cost, groups\), got 3"),
        ({"shared": {"draw": (1, ["T3"], 2)}}, ValueError, r"shared cost 'draw' must be given as \(cost, groups\)"),
        ({"shared": {"draw": ("x", ["T3"])}}, ValueError, "shared cost 'draw' is not a number: 'x'"),
        ({"shared": {"draw": (None, ["T3"])}}, ValueError, "shared cost 'draw' is not a number: None"),
        ({"shared": {"draw": (-1, ["T3"])}}, ValueError, "shared cost 'draw' must be finite and not negative, got -1"),
        ({"shared": {"draw": (np.nan, ["T3"])}}, ValueError, "shared cost 'draw' must be finite"),
        ({"shared": {"draw": (np.inf, ["T3"])}}, ValueError, "shared cost 'draw' must be finite"),
        ({"shared": {"draw": (1, ["T3", "T9"])}}, ValueError, "shared cost 'draw': there is no group 'T9'"),
        ({"shared": {"draw": (1, ["T3", "T3"])}}, ValueError, "shared cost 'draw': group 'T3' is listed twice"),
        ({"shared": {"draw": (1, [])}}, ValueError, "shared cost 'draw' has no groups"),
        ({"shared": {"draw": (1, None)}}, TypeError, "shared cost 'draw': a list of groups is expected, got None"),
        ({"shared": {1: (1, "T3"), "1": (1, "T3")}}, ValueError, "duplicate shared name '1'"),
        ({"requires": ["FTI"]}, TypeError, r"requires must be a mapping group -> groups, got \['FTI'\]"),
        ({"requires": {"X": ["T3"]}}, ValueError, "requires: there is no group 'X'"),
        ({"requires": {"FTI": ["X"]}}, ValueError, "what group 'FTI' requires: there is no group 'X'"),
        ({"requires": {"FTI": ["T3", "T3"]}}, ValueError, "what group 'FTI' requires: group 'T3' is listed twice"),
        ({"requires": {"FTI": {"T3": 1}}}, TypeError, "what group 'FTI' requires: a list of groups is expected"),
        ({"requires": {"FTI": ["T3", "FTI"]}}, ValueError, "group 'FTI' requires itself"),
        (
            {"requires": {"FTI": "T3", "T3": ["TT4", "TSH"], "TSH": "FTI"}},
            ValueError,
            "groups require each other in a cycle: 'TSH' -> 'FTI' -> 'T3' -> 'TSH'",
        ),
    ],
)
def test_mistakes_name_the_culprit(changes, error, message):
    with pytest.raises(error, match=message):
        blood(**changes)


def test_groups_given_twice_and_unknown_ones():
    with pytest.raises(ValueError, match="duplicate requires name '0'"):
        FeatureGroups([[0], [1]], requires={0: [1], "0": [1]})
    with pytest.raises(ValueError, match="groups: there is no group 'X'"):
        blood().cost_of(["X"])
    with pytest.raises(ValueError, match="groups: group 'T3' is listed twice"):
        blood().cost_of(["T3", "T3"])
    chain = FeatureGroups.singletons(2000, requires={g: [g - 1] for g in range(1, 2000)})
    assert chain.cost_of(["1999"]) == 2000


def test_equality_copies_and_other_costs():
    groups = blood()
    same = blood(shared={"blood draw": (2.1, {"T4U", "TT4", "T3", "TSH"})}, requires={"FTI": ("T4U", "TT4")})
    assert groups == same
    assert hash(groups) == hash(same)
    for other in (blood(shared=None), blood(requires=None), blood(shared={"x": DRAW["blood draw"]})):
        assert groups != other
    for twin in (pickle.loads(pickle.dumps(groups)), copy.deepcopy(groups), copy.copy(groups)):
        assert twin == groups
        assert twin.cost_of(["FTI"]) == groups.cost_of(["FTI"])
    raised = groups.with_costs([1, 1, 1, 1, 1])
    assert (raised.shared, raised.requires) == (groups.shared, groups.requires)
    assert raised.cost_of(["FTI"]) == pytest.approx(5.1)
    assert blood(requires={"FTI": []}) == blood(requires=None)
    frame = pd.DataFrame(np.random.default_rng(0).normal(size=(30, 5)), columns=NAMES)
    model = AnytimeRegressor(groups, costs=dict.fromkeys(NAMES, 1.0)).fit(frame, frame["FTI"])
    assert model.sequence_.groups[2] == "FTI"
    assert model.sequence_.costs.tolist() == [3.1, 1.0, 1.0, 1.0, 1.0]
    prefixed = FeatureGroups.from_prefix(
        ["a_1", "a_2", "b"], prefixes=["a"], costs=[1, 2], shared={"s": (3, ["a", "b"])}
    )
    assert prefixed.cost_of(["a"]) == 4


def test_yaml_both_ways(tmp_path):
    path = tmp_path / "groups.yaml"
    for groups in (blood(), blood(shared=None), blood(requires=None), FeatureGroups([[0], [1]], requires={1: 0})):
        path.write_text(groups.to_yaml())
        again = FeatureGroups.from_yaml(path)
        assert again.to_yaml() == groups.to_yaml()
        assert (again.shared, again.requires) == (groups.shared, groups.requires)
    written = yaml.safe_load(blood().to_yaml())
    assert written["shared"] == {"blood draw": {"cost": 2.1, "groups": ["TSH", "T3", "TT4", "T4U"]}}
    assert written["groups"]["FTI"] == {"columns": ["FTI"], "cost": 0, "requires": ["TT4", "T4U"]}
    path.write_text(
        "shared: {blood draw: {cost: 2.10, groups: [TSH, T3]}}\n"
        "groups:\n  TSH: {columns: [TSH], cost: 20.68}\n  T3: {columns: [T3], cost: 9.31, requires: [TSH]}\n"
    )
    assert FeatureGroups.from_yaml(path).cost_of(["T3"]) == pytest.approx(32.09)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ("shared: [1]", "'shared' must be a mapping"),
        ("shared: {draw: 2}", r"shared cost 'draw' needs 'cost', 'groups'"),
        ("shared: {draw: {cost: 2}}", "shared cost 'draw' needs"),
        ("shared: {draw: {cost: 2, groups: [a], unit: s}}", "shared cost 'draw' has the unknown key 'unit'"),
        ("shared: {draw: {cost: -2, groups: [a]}}", "shared cost 'draw' must be finite and not negative"),
        ("shared: {draw: {cost: 2, groups: [c]}}", "shared cost 'draw': there is no group 'c'"),
        ("share: {}", "unknown key 'share'; the known keys are 'groups', 'remainder', 'shared'"),
    ],
)
def test_mistakes_in_yaml_name_the_file(more, message, tmp_path):
    path = tmp_path / "groups.yaml"
    path.write_text(f"groups:\n  a: {{columns: [x]}}\n  b: {{columns: [y], requires: [a]}}\n{more}\n")
    with pytest.raises(ValueError, match=message) as error:
        FeatureGroups.from_yaml(path)
    assert str(error.value).startswith(str(path))


def test_a_requirement_in_yaml_that_leads_nowhere(tmp_path):
    path = tmp_path / "groups.yaml"
    for entry in ("[c]", "", "[b]"):
        path.write_text(f"groups:\n  a: {{columns: [x]}}\n  b:\n    columns: [y]\n    requires: {entry}\n")
        with pytest.raises(ValueError, match="group 'b' requires"):
            FeatureGroups.from_yaml(path)


# -- data sets -----------------------------------------------------------------------------------------------


def test_single_tests_cost_what_the_panels_cost():
    thyroid, panel = load_thyroid(tests="single"), load_thyroid()
    groups = thyroid.feature_groups
    assert groups.prices.total == pytest.approx(69.81)
    assert panel.feature_groups.costs.sum() == pytest.approx(69.81)
    np.testing.assert_array_equal(thyroid.data, panel.data)
    assert len(groups) == 21
    assert groups.shared == {"blood draw": (2.10, ("TSH", "T3", "TT4", "T4U"))}
    assert groups.requires == {"FTI": ("TT4", "T4U")}
    assert groups.cost_of(["TSH", "T3", "TT4", "T4U", "FTI"]) == pytest.approx(53.81)
    heart = load_heart(tests="single", as_frame=True)
    groups = heart.feature_groups
    assert groups.prices.total == pytest.approx(323.97)
    assert groups.cost_of(["chol", "fbs"]) == pytest.approx(10.37)
    assert groups.cost_of(["thalach", "thal"]) == pytest.approx(103.90)
    assert groups.cost_of(["exang", "oldpeak", "slope"]) == pytest.approx(89.30)
    # Turney's price of the first test of a procedure
    first = {"chol": 7.27, "fbs": 5.20, "thalach": 102.90, "thal": 102.90, "exang": 87.30, "slope": 87.30}
    for name, cost in first.items():
        assert groups.cost_of([name]) == pytest.approx(cost)
    assert sorted(heart.feature_names) == sorted(load_heart().feature_names)
    for loader in (load_heart, load_thyroid):
        with pytest.raises(ValueError, match="tests must be 'panel' or 'single', got 'all'"):
            loader(tests="all")
    assert load_heart(sites="all", tests="single").data.shape[0] == 920


# -- exact search --------------------------------------------------------------------------------------------


def all_orders(shop, J):
    for order in permutations(range(J)):
        if all(shop.requires.get(g, frozenset()) <= set(order[:k]) for k, g in enumerate(order)):
            yield order


def area(shop, F, order, stop, interpolation):
    costs = [shop.cost(order[:k]) for k in range(len(order) + 1)]
    values = [F[frozenset(order[:k])] for k in range(len(order) + 1)]
    grid = sorted({*costs, stop})
    total = 0.0
    for left, right in pairwise(grid):
        if right > stop + 1e-12:
            break
        k = max(j for j, c in enumerate(costs) if c <= left + 1e-12)
        if interpolation == "step" or k + 1 == len(costs):
            total += values[k] * (right - left)
        else:
            slope = (values[k + 1] - values[k]) / (costs[k + 1] - costs[k])
            total += (right - left) * (values[k] + slope * ((left + right) / 2 - costs[k]))
    return total


@pytest.mark.parametrize("interpolation", ["step", "linear"])
@pytest.mark.parametrize("seed", range(15))
def test_the_best_sequence_is_that_of_enumeration(seed, interpolation):
    rng = np.random.default_rng(seed)
    J = 5
    shop = random_shop(rng, J)
    X = rng.standard_normal((40, J)) @ (np.eye(J) + 0.6 * rng.standard_normal((J, J)))
    y = X @ rng.standard_normal(J) + rng.standard_normal(40)
    groups = FeatureGroups([[d] for d in range(J)], **arguments(shop))
    _, gain = linear_score(X, y, [[d] for d in range(J)], "forward", 0.01, None)
    F = {frozenset(A): gain(frozenset(), frozenset(A)) for k in range(J + 1) for A in combinations(range(J), k)}
    stop = shop.cost(range(J)) * float(rng.uniform(0.3, 1.0))
    best = best_sequence(Moments.from_data(X, y), groups, alpha=0.01, stop=stop, interpolation=interpolation)
    truth = max(area(shop, F, order, stop, interpolation) for order in all_orders(shop, J))
    assert tuple(best.order.tolist()) in set(all_orders(shop, J))
    assert area(shop, F, best.order.tolist(), stop, interpolation) == pytest.approx(truth, rel=1e-9)
    np.testing.assert_allclose(best.costs, steps_of(shop, best.order.tolist()), atol=1e-12)
    again = AnytimeRegressor(groups, schedule=budgetline.FixedOrder(best.groups), alpha=0.01).fit(X, y)
    np.testing.assert_allclose(again.sequence_.gains, best.gains, atol=1e-9)


@pytest.mark.quick_cases(4)
@pytest.mark.parametrize("seed", range(25))
def test_the_best_sets_are_those_of_enumeration(seed):
    rng = np.random.default_rng(seed)
    J = 5
    shop = random_shop(rng, J)
    X = rng.standard_normal((40, J)) @ (np.eye(J) + 0.6 * rng.standard_normal((J, J)))
    y = X @ rng.standard_normal(J) + rng.standard_normal(40)
    _, gain = linear_score(X, y, [[d] for d in range(J)], "forward", 0.01, None)
    moments, groups = Moments.from_data(X, y), FeatureGroups([[d] for d in range(J)], **arguments(shop))
    sets = [frozenset(A) for k in range(J + 1) for A in combinations(range(J), k) if shop.closed(A) == frozenset(A)]
    F = {A: gain(frozenset(), A) for A in sets}
    budgets = np.linspace(0, shop.cost(range(J)) * 1.01, 40)
    most = [max(F[A] for A in sets if shop.cost(A) <= budget * (1 + 1e-12)) for budget in budgets]
    np.testing.assert_allclose(best_values(moments, groups, budgets=budgets, alpha=0.01), most, rtol=1e-9, atol=1e-12)
    for budget, best, found in zip(
        budgets[::4], most[::4], best_set(moments, groups, budget=budgets[::4], alpha=0.01, time_limit=60), strict=True
    ):
        chosen = frozenset(map(int, found.groups))
        assert found.cost == pytest.approx(shop.cost(chosen))
        assert found.cost <= budget * (1 + 1e-12)
        assert found.value == pytest.approx(best, rel=1e-8, abs=1e-9)
        assert found.value == pytest.approx(F[chosen], rel=1e-9, abs=1e-12)


def test_tables_of_prices():
    shop = Shop([1.0, 0.0, 2.5], [(3.0, frozenset({0, 2}))], {1: frozenset({2})})
    prices = Prices(np.array(shop.own), (SharedCost("s", 3.0, (0, 2)),), ((), (2,), ()))
    complete = complete_subsets(prices)
    for S, (cost, is_complete) in enumerate(zip(subset_costs(prices), complete, strict=True)):
        groups = [g for g in range(3) if S >> g & 1]
        assert is_complete == (shop.closed(groups) == set(groups))
        if is_complete:
            assert cost == pytest.approx(shop.cost(groups))


# -- files ---------------------------------------------------------------------------------------------------


def small_data():
    rng = np.random.default_rng(1)
    frame = pd.DataFrame(rng.normal(size=(80, 5)), columns=NAMES)
    return frame, frame @ [1.0, 0.5, 0.2, 0.8, 1.5] + rng.normal(size=80)


MODELS = {
    "regressor": lambda X, y: AnytimeRegressor(blood()).fit(X, y),
    "truncated": lambda X, y: AnytimeRegressor(blood(), max_cost=40).fit(X, y),
    "classifier": lambda X, y: AnytimeClassifier(blood(), alpha=1e-2).fit(X, y > 0),
    "lasso": lambda X, y: GroupLassoPath(blood(), n_lambdas=20).fit(X, y),
}


@pytest.mark.parametrize("name", MODELS)
def test_models_are_the_same_after_the_trip(name, tmp_path):
    X, y = small_data()
    model = MODELS[name](X, y)
    save(model, tmp_path / "model")
    again = load(tmp_path / "model")
    assert again.feature_groups_ == model.feature_groups_ == again.feature_groups
    np.testing.assert_array_equal(again.sequence_.costs, model.sequence_.costs)
    for budget in (0.0, 23.0, 30.0, 60.0):
        np.testing.assert_array_equal(again.predict(X, budget=budget), model.predict(X, budget=budget))
    fields = decode((tmp_path / "model").read_bytes(), "model")[1]
    assert fields["feature_groups"]["requires"] == [["FTI", ["TT4", "T4U"]]]


def test_files_of_additive_models_have_no_fields_for_other_prices(tmp_path):
    X, y = small_data()
    save(AnytimeRegressor(blood(shared=None, requires=None)).fit(X, y), tmp_path / "model")
    fields = decode((tmp_path / "model").read_bytes(), "model")[1]
    assert set(fields["feature_groups"]) == {"names", "columns", "costs", "remainder"}
    assert load(tmp_path / "model").feature_groups_.prices.additive


def forgeries():
    draw = ["blood draw", 2.1, ["TSH", "T3", "TT4", "T4U"]]
    index = ["FTI", ["TT4", "T4U"]]
    yield from (("shared", value) for value in (None, {}, 3, [], [draw, draw], [[*draw, 1]]))
    yield from (("shared", [[draw[0], cost, draw[2]]]) for cost in (-1.0, "2.1", None, True))
    yield from (
        ("shared", [[draw[0], 2.1, members]]) for members in ([], ["X"], ["T3", "TSH"], ["T3", "T3"], "T3", [3])
    )
    yield from (("shared", [[3, 2.1, draw[2]]]), ("shared", [{"name": "x"}]))
    yield from (("requires", value) for value in (None, {}, 3, [], [index, index], [["FTI", []]], [["X", ["T3"]]]))
    yield from (("requires", [["FTI", required]]) for required in (["FTI"], ["T4U", "TT4"], ["X"], "TT4", [2], None))
    yield "requires", [["TT4", ["T4U"]], ["T4U", ["TT4"]]]
    yield "more", 3


@pytest.mark.parametrize("where", ["fitted", "setting"])
def test_forged_prices_are_refused(where, tmp_path):
    X, y = small_data()
    path = tmp_path / "model"
    save(AnytimeRegressor(blood()).fit(X, y), path)
    arrays, fields = decode(path.read_bytes(), "model")
    count = 0
    for key, value in forgeries():
        forged = json.loads(json.dumps(fields))
        groups = forged["feature_groups"]
        if where == "setting":
            groups = forged["settings"]["feature_groups"]["FeatureGroups"]
        groups[key] = value
        path.write_bytes(encode("model", arrays, forged))
        with pytest.raises(ValueError, match="damaged"):
            load(path)
        count += 1
    assert count > 25


def test_an_order_against_the_requirements_is_refused(tmp_path):
    X, y = small_data()
    path = tmp_path / "model"
    save(AnytimeRegressor(blood(requires=None), costs=np.ones(5)).fit(X, y), path)
    arrays, fields = decode(path.read_bytes(), "model")
    first, last = (blood().names[g] for g in arrays["order"][[0, -1]])
    fields["feature_groups"]["requires"] = [[first, [last]]]
    path.write_bytes(encode("model", arrays, fields))
    with pytest.raises(ValueError, match="order has a group before one that it requires"):
        load(path)


def test_graphs_buy_what_predict_buys():
    X, y = small_data()
    model = AnytimeRegressor(blood()).fit(X, y)
    graph = to_onnx(model)
    session = onnxruntime.InferenceSession(graph.SerializeToString())
    table = X.to_numpy()
    ends = model.sequence_.cumulative_costs.tolist()
    for budget in [0.0, *ends, *(0.999 * end for end in ends), 100.0]:
        (found,) = session.run(None, {"X": table, "budget": np.array(budget)})
        np.testing.assert_allclose(found, model.predict(X, budget=budget), atol=1e-12)
    assert ends[-1] == pytest.approx(53.81)
    metadata = {prop.key: json.loads(prop.value) for prop in graph.metadata_props}
    np.testing.assert_allclose(metadata["budgetline.costs"], model.sequence_.costs)


# -- evaluation and report -----------------------------------------------------------------------------------


def test_curves_and_reports_have_the_costs_as_paid():
    heart = load_heart(tests="single")
    X, y = heart.data, heart.target
    model = AnytimeClassifier(heart.feature_groups, rule="score", alpha=1e-2).fit(X, y)
    order, groups = model.sequence_.groups, heart.feature_groups
    paid = [groups.cost_of(order[:k]) for k in range(len(order) + 1)]
    curve = budget_curve(model, X, y)
    np.testing.assert_allclose(curve.costs, paid, atol=1e-9)
    step = sum(v * (b - a) for v, a, b in zip(curve.values[:-1], paid, paid[1:], strict=False)) / paid[-1]
    assert timeliness(curve, interpolation="step") == pytest.approx(step)
    summary = make_report(model, X, y, cv=2, baselines=False)
    found = summary.to_dict()
    assert [stage["cumulative_cost"] for stage in found["sequence"]] == pytest.approx(paid[1:])
    assert [stage["cost"] for stage in found["sequence"]] == pytest.approx(np.diff(paid).tolist(), abs=1e-9)
    assert found["curves"][0]["costs"][-1] == pytest.approx(323.97)
    methods = {
        "forward": AnytimeRegressor(groups, alpha=1e-2),
        "cheapest": AnytimeRegressor(groups, alpha=1e-2, schedule="cheapest"),
        "random": AnytimeRegressor(groups, alpha=1e-2, schedule="random"),
        "lasso": GroupLassoPath(groups, alpha=1e-2),
    }
    found = compare(methods, X, y, cv=2)
    assert all(curve.total_cost == pytest.approx(323.97) for curve in found.curves.values())


def test_thyroid_buys_the_index_as_soon_as_it_is_free():
    thyroid = load_thyroid(tests="single")
    train = ~thyroid.is_test
    model = AnytimeClassifier(thyroid.feature_groups, rule="omp", alpha=1e-3).fit(
        thyroid.data[train], thyroid.target[train]
    )
    order = list(model.sequence_.groups)
    assert order.index("FTI") == 1 + max(order.index("TT4"), order.index("T4U"))
    costs = dict(zip(order, model.sequence_.costs.tolist(), strict=True))
    first = min(("TSH", "T3", "TT4", "T4U"), key=order.index)
    own = dict(zip(thyroid.feature_groups.names, thyroid.feature_groups.costs.tolist(), strict=True))
    for name, cost in costs.items():
        assert cost == pytest.approx(own[name] + (2.10 if name == first else 0.0))


# -- the command line ----------------------------------------------------------------------------------------


def run(capsys, *arguments):
    code = main([*map(str, arguments), "--json"])
    captured = capsys.readouterr()
    assert code == 0, captured.err
    return json.loads(captured.out)


def test_the_command_line_from_a_file_of_groups(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    X, y = small_data()
    X.assign(y=y, id=range(len(y))).to_csv("blood.csv", index=False)
    groups = blood(remainder="drop")
    (tmp_path / "groups.yaml").write_text(groups.to_yaml())
    fitted = run(
        capsys,
        "fit",
        "blood.csv",
        "-t",
        "y",
        "-g",
        "groups.yaml",
        "--no-cv",
        "--all-groups",
        "--encoding",
        "none",
        "--alpha",
        "0.01",
        "-o",
        "m",
    )
    model = AnytimeRegressor(groups, alpha=0.01).fit(X, y)
    assert fitted["sequence"]["group"] == list(model.sequence_.groups)
    assert fitted["sequence"]["cost"] == pytest.approx(model.sequence_.costs.tolist())
    assert fitted["total_cost"] == pytest.approx(53.81)
    shown = run(capsys, "show", "m")
    assert shown["total_cost"] == pytest.approx(53.81)
    assert shown["shared"] == {"blood draw": {"cost": 2.1, "groups": ["TSH", "T3", "TT4", "T4U"]}}
    assert shown["requires"] == {"FTI": ["TT4", "T4U"]}
    assert main(["show", "m"]) == 0
    text = capsys.readouterr().out
    assert "shared: 'blood draw' 2.1, by TSH, T3, TT4, T4U" in text
    assert "FTI requires TT4, T4U" in text
    for budget in (23.0, 26.0, 60.0):
        found = run(capsys, "predict", "m", "blood.csv", "--budget", budget, "-o", "p.csv")
        stage = model.sequence_.stage_at(budget)
        assert found["groups"] == list(model.sequence_.groups[:stage])
        assert found["cost"] == pytest.approx(model.sequence_.cumulative_costs[stage - 1] if stage else 0.0)
        predicted = pd.read_csv("p.csv").iloc[:, -1].to_numpy()
        np.testing.assert_allclose(predicted, model.predict(X, budget=budget), atol=1e-9)
    found = run(capsys, "predict", "m", "blood.csv", "--available", "T3,TSH", "-o", "p.csv")
    assert found["cost"] == pytest.approx(20.68 + 9.31 + 2.10)
    assert main(["fit", "blood.csv", "-t", "y", "-g", "groups.yaml", "-o", "m"]) == 0
    assert "total cost 53.81" in capsys.readouterr().err


def test_the_command_line_says_what_is_wrong_with_a_file_of_groups(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    X, y = small_data()
    X.assign(y=y).to_csv("blood.csv", index=False)
    wrong = blood().to_yaml().replace("TT4, T4U]\n", "TT4, FTI]\n")
    (tmp_path / "groups.yaml").write_text(wrong)
    assert main(["fit", "blood.csv", "-t", "y", "-g", "groups.yaml", "-o", "m"]) != 0
    assert "groups.yaml" in (said := capsys.readouterr().err)
    assert "FTI" in said


def test_measured_costs_keep_what_is_shared():
    groups = FeatureGroups({"a": [0], "b": [1]}, shared={"draw": (2, ["a", "b"])}, requires={"b": "a"})
    again = groups.with_costs(profile_costs({"a": len, "b": len}, ["one", "two"]).costs)
    assert (again.shared, again.requires) == (groups.shared, groups.requires)


def test_names_of_elements_in_errors():
    with pytest.raises(ValueError, match="shared cost 's': there is no group 'z'"):
        greedy_sequence(len, {"a": 1.0}, shared={"s": (1.0, ["z"])})
    with pytest.raises(ValueError, match="groups require each other in a cycle: 'a' -> 'b' -> 'a'"):
        greedy_sequence(len, {"a": 1.0, "b": 1.0}, requires={"a": ["b"], "b": ["a"]})
