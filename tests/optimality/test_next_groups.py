"""What to buy next: gains against refits on subsets, costs by definition, chances against a count by hand."""

from dataclasses import replace
from itertools import combinations

import numpy as np
import pandas as pd
import pytest
from price_lists import cost_of, random_prices, with_required
from reference import F, standardise
from reference_glm import FAMILIES
from reference_glm import fit as refit
from scipy.stats import spearmanr
from sklearn.datasets import load_wine
from sklearn.linear_model import LinearRegression

from budgetline import (
    AnytimeClassifier,
    AnytimeClassifierCV,
    AnytimeRegressor,
    AnytimeRegressorCV,
    Encoding,
    FeatureGroups,
    GroupLassoPath,
    load,
    save,
)
from budgetline.datasets import load_heart

WIDTHS = (2, 1, 3, 1, 2, 1)
ALPHA = 1e-2


def columns_of(widths):
    ends = np.cumsum(widths)
    return [list(range(end - width, end)) for end, width in zip(ends, widths, strict=True)]


def groups_at(prices, widths=WIDTHS):
    """Return groups "0", "1", … at some prices."""
    shared = {s.name: (s.cost, [str(g) for g in s.members]) for s in prices.shared}
    requires = {str(g): [str(h) for h in needed] for g, needed in enumerate(prices.requires) if needed}
    return FeatureGroups(columns_of(widths), prices.own, shared=shared, requires=requires)


def numbers(rng, n=80, P=1):
    X = rng.normal(size=(n, sum(WIDTHS))) @ (np.eye(sum(WIDTHS)) + 0.3 * rng.normal(size=2 * (sum(WIDTHS),)))
    return X, X @ rng.normal(size=(sum(WIDTHS), P)) + rng.normal(size=(n, P))


def labels(rng, n=240, classes=2):
    X = rng.standard_normal((n, 6))
    scores = X @ rng.standard_normal((6, classes)) * 0.8 + rng.gumbel(size=(n, classes))
    return X, np.array(["a", "b", "c", "d"])[scores.argmax(axis=1)]


def without_moments(estimator):
    return type(estimator).from_model(replace(estimator.model_, moments=None))


# -- squared error ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(12))
def test_gains_costs_and_order_are_those_of_brute_force(seed):
    rng = np.random.default_rng(seed)
    prices = random_prices(rng, len(WIDTHS), seed % 3, seed % 4)
    X, Y = numbers(rng, P=1 + seed % 2)
    weight = rng.uniform(0.5, 2, len(X)) if seed % 3 else None
    model = AnytimeRegressor(groups_at(prices), alpha=ALPHA).fit(X, Y, sample_weight=weight)
    at_hand = set(np.flatnonzero(rng.random(len(WIDTHS)) < 0.4).tolist())
    S = with_required(prices, at_hand)
    Xs, Yc, w, *_ = standardise(X, Y, weight)
    members = columns_of(WIDTHS)

    def value(chosen):
        return F(Xs, Yc, w, [d for g in chosen for d in members[g]], ALPHA)

    for each in (model, without_moments(model)):
        found = each.next_groups([str(g) for g in at_hand])
        assert set(found.available) == {str(g) for g in S}
        assert sorted(found.groups) == sorted(str(g) for g in set(range(len(WIDTHS))) - S)
        for name, along, cost, gain in zip(found.groups, found.along, found.costs, found.gains, strict=True):
            after = with_required(prices, S | {int(name)})
            assert {int(h) for h in along} == after - S - {int(name)}
            np.testing.assert_allclose(cost, cost_of(prices, after) - cost_of(prices, S), atol=1e-12)
            np.testing.assert_allclose(gain, value(after) - value(S), rtol=1e-7, atol=1e-12)
        paid = found.costs > 0
        assert np.all(paid == np.sort(paid))  # what is free comes first
        for part in (found.gains[~paid], found.gains[paid] / found.costs[paid]):
            assert np.all(np.diff(part) <= 1e-9 * np.abs(part[1:]))


@pytest.mark.parametrize("make", [AnytimeRegressor, AnytimeRegressorCV, GroupLassoPath])
def test_after_a_prefix_the_first_is_what_a_greedy_sequence_buys(make):
    rng = np.random.default_rng(0)
    X, y = numbers(rng)
    groups = FeatureGroups(columns_of(WIDTHS), rng.uniform(1, 5, len(WIDTHS)))
    order = AnytimeRegressor(groups, alpha=ALPHA).fit(X, y[:, 0]).sequence_
    options = {"alphas": [ALPHA]} if make is AnytimeRegressorCV else {"alpha": ALPHA}
    model = make(groups, **options).fit(X, y[:, 0])
    for k, (name, gain) in enumerate(zip(order.groups, order.gains, strict=True)):
        found = model.next_groups(order.groups[:k])
        assert found.groups[0] == name
        np.testing.assert_allclose(found.gains[0], gain, rtol=1e-8)


def test_tables_too_wide_for_moments():
    rng = np.random.default_rng(5)
    X, members = rng.normal(size=(40, 1200)), [list(range(k, k + 20)) for k in range(0, 1200, 20)]
    y = X[:, :30].sum(axis=1)
    model = AnytimeRegressor(members, alpha=ALPHA, max_groups=20).fit(X, y)
    assert model.model_.moments is None
    Xs, Yc, w, *_ = standardise(X, y)
    first, *_, last = model.sequence_.groups
    inside = members[int(first)] + members[int(last)]
    found = model.next_groups([first, last])
    assert (len(found), len(found.unknown)) == (18, 40)
    for name, gain in zip(found.groups[:5], found.gains[:5], strict=True):
        expected = F(Xs, Yc, w, inside + members[int(name)], ALPHA) - F(Xs, Yc, w, inside, ALPHA)
        np.testing.assert_allclose(gain, expected, rtol=1e-7)


def test_copies_gain_nothing_and_come_last_cheapest_first():
    x, z = np.random.default_rng(0).normal(size=(2, 60))
    X = np.column_stack([x, x, z, x])
    model = AnytimeRegressor({"x": [0], "copy": [1], "z": [2], "cheap": [3]}, [1, 5, 9, 2], alpha=0).fit(X, x + z)
    found = model.next_groups(["x"])
    assert found.groups == ("z", "cheap", "copy")
    np.testing.assert_allclose(found.gains[1:], 0, atol=1e-12)


def test_a_budget_leaves_out_what_costs_more_now():
    X, y = numbers(np.random.default_rng(1))
    shared = {"draw": (4, ["0", "1"])}
    groups = FeatureGroups(columns_of(WIDTHS), [1, 2, 3, 4, 5, 6], shared=shared, requires={"4": ["3"]})
    model = AnytimeRegressor(groups).fit(X, y)
    assert set(model.next_groups(budget=5).groups) == {"0", "2", "3"}
    assert set(model.next_groups(["0"], budget=5).groups) == {"1", "2", "3"}  # the draw is paid
    found = model.next_groups(budget=9)
    assert "4" in found.groups
    assert found.along[found.groups.index("4")] == ("3",)
    assert model.next_groups(["3"], budget=5).along == ((), (), ())
    assert len(model.next_groups(budget=0)) == 0
    assert model.next_groups(budget=0.3 * 10).groups == model.next_groups(budget=3).groups == ("2",)


def test_what_a_correction_subtracts_is_subtracted():
    X, y = numbers(np.random.default_rng(2))
    groups = FeatureGroups(columns_of(WIDTHS), [1, 2, 3, 4, 5, 6], requires={"4": ["3"]})
    plain = AnytimeRegressor(groups).fit(X, y)
    penalties = np.array([0.1, 0, 0, 0.02, 0.3, 1e6])
    corrected = AnytimeRegressor.from_model(replace(plain.model_, penalties=penalties))
    found = [model.next_groups(["2"]) for model in (plain, corrected)]
    before, after = (dict(zip(each.groups, each.gains, strict=True)) for each in found)
    expected = {"0": 0.1, "1": 0, "3": 0.02, "4": 0.32, "5": 1e6}
    assert set(after) == set(expected)
    for name, penalty in expected.items():
        np.testing.assert_allclose(after[name], before[name] - penalty, rtol=1e-9)
    assert corrected.next_groups(["2"]).groups[-1] == "5"


def test_nothing_everything_and_wrong_groups():
    X, y = numbers(np.random.default_rng(3))
    model = AnytimeRegressor(columns_of(WIDTHS)).fit(X, y)
    assert len(model.next_groups()) == len(WIDTHS)
    everything = model.next_groups(model.sequence_.groups)
    assert (len(everything), everything.groups, everything.unknown) == (0, (), ())
    assert str(everything) == "group  cost  gain  gain per cost"
    assert model.next_groups("3").available == ("3",)
    with pytest.raises(ValueError, match="available: there is no group 'nope'"):
        model.next_groups(["0", "nope"])
    with pytest.raises(TypeError, match="available: a list of groups is expected"):
        model.next_groups(3.5)
    for budget in (-1, np.nan, "5", True):
        with pytest.raises(ValueError, match="budget must be a cost ≥ 0"):
            model.next_groups(budget=budget)
    with pytest.raises(TypeError, match="X is for classifiers, got AnytimeRegressor"):
        model.next_groups(X=X)


def test_groups_beyond_the_end_of_the_sequence():
    X, y = numbers(np.random.default_rng(4))
    short = AnytimeRegressor(columns_of(WIDTHS), max_groups=3, alpha=ALPHA).fit(X, y)
    full = AnytimeRegressor(columns_of(WIDTHS), alpha=ALPHA).fit(X, y)
    beyond = [str(g) for g in range(len(WIDTHS)) if str(g) not in short.sequence_.groups]
    # moments know all groups
    np.testing.assert_allclose(short.next_groups([beyond[0]]).gains, full.next_groups([beyond[0]]).gains, rtol=1e-9)
    assert short.next_groups().unknown == ()
    bare = without_moments(short)
    assert set(bare.next_groups().groups) == set(short.sequence_.groups)
    assert bare.next_groups().unknown == tuple(beyond)
    with pytest.warns(UserWarning, match=f"group '{beyond[0]}' is not used"):
        found = bare.next_groups([beyond[0]])
    np.testing.assert_allclose(found.gains, bare.next_groups().gains)
    assert found.unknown == tuple(beyond[1:])


def test_a_model_without_groups_knows_none():
    X, y = labels(np.random.default_rng(0))
    model = AnytimeClassifier(max_cost=0).fit(X, y)
    assert (len(model.next_groups()), len(model.next_groups().unknown)) == (0, 6)


# -- other losses -------------------------------------------------------------------------------------------------


def refitted(family, X, Y, members, alpha=ALPHA):
    """Return a function that refits any set of groups and returns its risk."""
    Xs, *_ = standardise(X, Y)
    known = {}

    def risk(groups):
        groups = tuple(sorted(groups))
        if groups not in known:
            columns = [d for g in groups for d in members[g]]
            known[groups] = refit(FAMILIES[family], Xs, Y, np.full(len(X), 1 / len(X)), columns, alpha)[1]
        return known[groups]

    return risk


def compared(model, risk, sets):
    """Return found and true gains of every set, as pairs of arrays."""
    names = model.feature_groups_.names
    for S in sets:
        found = model.next_groups([names[g] for g in S])
        ids = [names.index(name) for name in found.groups]
        yield found.gains, np.array([risk(S) - risk((*S, g)) for g in ids])


@pytest.fixture(scope="module")
def heart():
    data = load_heart()
    members = data.feature_groups.resolve(data.feature_names, data.data.shape[1]).columns
    model = AnytimeClassifier(data.feature_groups, alpha=ALPHA).fit(data.data, data.target)
    return model, data, refitted("logistic", data.data, data.target[:, None].astype(float), members)


def test_gains_of_a_classifier_are_near_those_of_refits(heart):
    model, _, risk = heart
    sets = [S for size in (0, 2, 5) for S in combinations(range(9), size)][::5]
    pairs = list(compared(model, risk, sets))
    ranks = [spearmanr(found, true).statistic for found, true in pairs]
    ratios = np.concatenate([found / true for found, true in pairs])
    assert np.mean(ranks) > 0.98
    assert abs(np.median(ratios) - 1) < 0.05
    assert np.mean([true[found.argmax()] / true.max() for found, true in pairs]) > 0.999


def test_gains_of_prefixes_are_those_of_the_sequence(heart):
    model, *_ = heart
    order = model.sequence_
    for k in range(len(order)):
        found = model.next_groups(order.groups[:k])
        gain = found.gains[found.groups.index(order.groups[k])]
        np.testing.assert_allclose(gain, order.gains[k], rtol=1e-9)


def test_gains_are_at_most_what_all_groups_are_worth():
    """Hardly any ridge, and classes that are separable: a population promises more than rows can give."""
    X, y = load_wine(return_X_y=True)
    rows = np.random.default_rng(0).permutation(len(y))[:90]
    model = AnytimeClassifier(rule="omp", alpha=1e-6).fit(X[rows], y[rows])
    names, values = model.sequence_.groups, np.append(0, np.cumsum(model.sequence_.gains))
    for at_hand in [(0, 1), (0, 3), (0, 7), (1, 2), (2, 9)]:
        found = model.next_groups([names[k] for k in at_hand])
        inside = {(0, 1): 2, (1, 2): 0, (2, 9): 0}.get(at_hand, 1)  # the longest prefix among the available groups
        around = [max(*at_hand, names.index(name)) + 1 for name in found.groups]
        assert np.all(found.gains <= values[around] - values[inside] + 1e-12)


def test_gains_of_several_classes():
    X, y = labels(np.random.default_rng(5), classes=3)
    members = [[0, 1], [2], [3, 4], [5]]
    model = AnytimeClassifier(members, alpha=ALPHA).fit(X, y)
    Y = (y[:, None] == model.classes_).astype(float)
    sets = [(), (0,), (2,), (1, 3), (0, 2)]
    pairs = list(compared(model, refitted("softmax", X, Y, members), sets))
    np.testing.assert_allclose(*np.hstack(pairs), rtol=0.1, atol=2e-3)


def test_gains_of_counts():
    rng = np.random.default_rng(6)
    X = rng.normal(size=(300, 4))
    y = rng.poisson(np.exp(X @ [0.4, -0.3, 0.2, 0.1]))
    members = [[0], [1], [2], [3]]
    model = AnytimeRegressor(members, loss="poisson", alpha=ALPHA).fit(X, y)
    pairs = compared(model, refitted("poisson", X, y[:, None].astype(float), members), [(), (0,), (3,), (1, 2)])
    for found, true in pairs:
        np.testing.assert_allclose(found, true, rtol=0.4, atol=5e-3)
    with pytest.raises(TypeError, match="X is for classifiers"):
        model.next_groups(X=X)


# -- the chance of another decision -------------------------------------------------------------------------------

GROUPS = FeatureGroups({"a": [0, 1], "b": [2], "c": [3, 4], "d": [5]}, [3, 1, 2, 4], requires={"d": ["b"]})


def decision(score):
    return int(score[0] > 0) if len(score) == 1 else int(np.argmax(score))


def counted(before, after, scores):
    """Regress with scikit-learn, then count one by one: the share of changed decisions, for every row of scores."""
    n = len(before)
    regressors = before if before.shape[1] == 1 else before[:, :-1]  # scores of classes add up to zero
    regression = LinearRegression().fit(regressors, after)
    used_up = 1 + np.linalg.matrix_rank(regressors - regressors.mean(axis=0), tol=1e-9)
    left = (after - regression.predict(regressors)) * np.sqrt(n / (n - used_up))
    expected = regression.predict(scores[:, : regressors.shape[1]])
    pairs = zip(expected, scores, strict=True)
    return np.array([np.mean([decision(one) != decision(score) for one in own + left]) for own, score in pairs])


def scores_of(model, X, groups):
    return model.decision_function(X, available=groups).reshape(len(X), -1)


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("at_hand", [(), ("a",), ("b", "c")])
def test_chances_are_near_a_count_on_the_training_rows(classes, at_hand):
    X, y = labels(np.random.default_rng(classes), n=2000, classes=classes)
    model = AnytimeClassifier(GROUPS, alpha=ALPHA).fit(X, y)
    before = scores_of(model, X, at_hand)
    found = model.next_groups(at_hand, X=X[:100])
    assert found.chances.shape == (len(found), 100)
    for name, along, chances in zip(found.groups, found.along, found.chances, strict=True):
        after = scores_of(model, X, [*at_hand, *along, name])
        assert np.abs(chances - counted(before, after, before[:100])).mean() < 0.03
    table = found.to_dict()
    np.testing.assert_allclose(table["chance"], found.chances.mean(axis=1))
    np.testing.assert_allclose(table["chance_per_cost"], found.chances.mean(axis=1) / found.costs)
    likely = found.mean_chances > 0
    assert np.all(np.diff(np.array(table["chance_per_cost"])[likely]) <= 1e-12)
    np.testing.assert_allclose(sorted(found.gains), sorted(model.next_groups(at_hand).gains))


@pytest.mark.parametrize("seed", range(6))
def test_several_classes_with_no_group_available(seed):
    """Scores without groups are constant: only rounding varies, and nothing may be divided by it."""
    rng = np.random.default_rng(seed)
    X, y = labels(rng, n=60, classes=4)
    model = AnytimeClassifier(GROUPS, alpha=ALPHA).fit(X, y)
    found = model.next_groups(X=X[:2])
    for name, along, chances in zip(found.groups, found.along, found.chances, strict=True):
        assert np.ptp(chances) < 1e-6
        share = np.mean(model.predict(X, available=[*along, name]) != model.predict(X, stage=0))
        assert abs(chances[0] - share) < 0.25


def test_a_classifier_of_one_group_ranks_it_for_rows():
    X, y = labels(np.random.default_rng(3))
    model = AnytimeClassifier({"all": range(6)}, alpha=ALPHA).fit(X, y)
    found = model.next_groups(X=X[:3])
    assert found.groups == ("all",)
    share = np.mean(model.predict(X) != model.predict(X, stage=0))
    assert abs(found.mean_chances[0] - share) < 0.05


def test_what_cannot_change_a_decision_is_ranked_by_gain(heart):
    model, data, _ = heart
    doubt = np.abs(model.decision_function(data.data, available=["age", "cp"]))
    found = model.next_groups(["age", "cp"], X=data.data[[doubt.argmax()]])
    likely = found.chances[:, 0] > 0
    assert np.all(likely == np.sort(likely)[::-1])
    assert (~likely).sum() > 2
    assert np.all(np.diff(found.gains_per_cost[~likely]) < 0)
    assert set(found.groups) == set(model.next_groups(["age", "cp"]).groups)


def test_on_new_rows_as_many_decisions_change_as_expected():
    rng = np.random.default_rng(7)
    X, y = labels(rng, n=6000)
    model = AnytimeClassifier(GROUPS, alpha=1e-3).fit(X[:2000], y[:2000])
    new = X[2000:]
    found = model.next_groups(["a"], X=new)
    for name, along, expected in zip(found.groups, found.along, found.mean_chances, strict=True):
        changed = model.predict(new, available=["a"]) != model.predict(new, available=["a", *along, name])
        assert abs(changed.mean() - expected) < 0.03


def test_only_the_columns_at_hand_are_read():
    X, y = labels(np.random.default_rng(8))
    model = AnytimeClassifier(GROUPS, alpha=ALPHA).fit(X, y)
    row = X[:1].copy()
    expected = model.next_groups(["c"], X=row)
    row[:, [0, 1, 2, 5]] = np.nan
    np.testing.assert_array_equal(model.next_groups(["c"], X=row).chances, expected.chances)
    with pytest.raises(ValueError, match="NaN"):
        model.next_groups(["a"], X=row)


def test_models_from_files(tmp_path):
    X, y = labels(np.random.default_rng(9))
    model = AnytimeClassifierCV(GROUPS, alphas=[ALPHA], cv=2).fit(X, y)
    save(model, tmp_path / "model")
    again = load(tmp_path / "model")
    for options in ({}, {"X": X[:2]}, {"budget": 2}):
        expected, found = (each.next_groups(["c"], **options) for each in (model, again))
        assert found.groups == expected.groups
        np.testing.assert_array_equal(found.gains, expected.gains)
        if "X" in options:
            np.testing.assert_array_equal(found.chances, expected.chances)


# -- raw tables ---------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def raw():
    rng = np.random.default_rng(11)
    a, b = rng.normal(size=(2, 400))
    kind = rng.choice(["x", "y", "z"], 400)
    frame = pd.DataFrame({"a": a, "b": b, "kind": kind})
    target = a * b + 0.5 * a + (kind == "x") + 0.3 * rng.normal(size=400)
    groups = FeatureGroups({name: [name] for name in frame}, [2, 3, 1])
    return frame, target, groups


def test_pairs_are_never_bought_but_count_for_what_completes_them(raw):
    frame, target, groups = raw
    model = AnytimeRegressor(groups, encoding=Encoding(interactions=1), alpha=ALPHA).fit(frame, target)
    layout, encoding = model.model_.layout, model.model_.encoding
    assert model.feature_groups_.names == ("a", "b", "kind", "a × b")
    Z = encoding.table(frame, np.arange(layout.n_features))
    Z = (Z - Z.mean(axis=0)) / (Z.std(axis=0) * np.sqrt(encoding.weights))
    centred = target - target.mean()

    def value(*sets):
        own = np.concatenate([np.empty(0, dtype=int), *(layout.columns[g] for g in sets)])
        A = np.vstack([Z[:, own] / 20, np.sqrt(ALPHA) * np.eye(own.size)])  # 400 rows
        b = np.append(centred / 20, np.zeros(own.size))
        return (b @ b - np.sum((b - A @ np.linalg.lstsq(A, b, rcond=None)[0]) ** 2)) / 2

    expected = {
        (): {"a": value(0), "b": value(1), "kind": value(2)},
        ("a",): {"b": value(0, 1, 3) - value(0), "kind": value(0, 2) - value(0)},
        ("a", "b"): {"kind": value(0, 1, 2, 3) - value(0, 1, 3)},
        ("kind", "a", "b"): {},
    }
    for each in (model, without_moments(model)):
        for at_hand, gains in expected.items():
            found = each.next_groups(at_hand)
            assert dict(zip(found.groups, found.gains, strict=True)) == pytest.approx(gains, rel=1e-6)
            assert found.available == tuple(name for name in groups.names if name in at_hand)
            assert not any(found.along)
    assert expected["a",]["b"] > 10 * expected[()]["b"]


def test_decisions_from_raw_rows(raw):
    frame, target, groups = raw
    y = np.where(target > 0.5, "high", "low")
    model = AnytimeClassifier(groups, encoding=Encoding(interactions=1)).fit(frame, y)
    row = frame.iloc[:1]
    found = model.next_groups(["a"], X=row[["a"]])
    assert sorted(found.groups) == ["b", "kind"]
    before = model.decision_function(frame, available=["a"])[:, None]
    for name, extra in (("b", ["a × b"]), ("kind", [])):
        after = model.decision_function(frame, available=["a", name, *extra])[:, None]
        chance = found.chances[found.groups.index(name)]
        np.testing.assert_allclose(chance, counted(before, after, before[:1]), atol=0.1)


# -- the table ----------------------------------------------------------------------------------------------------


def test_the_table_is_printed_shown_and_a_frame():
    X, y = labels(np.random.default_rng(12))
    groups = FeatureGroups({"a<b": [0, 1], "b": [2], "c": [3, 4], "d": [5]}, [3, 0, 2, 4], requires={"d": ["b"]})
    model = AnytimeClassifier(groups, alpha=ALPHA).fit(X, y)
    found = model.next_groups(["c"], X=X[:1])
    lines = str(found).splitlines()
    assert " ".join(lines[0].split()) == "group bought along cost gain gain per cost chance chance per cost"
    assert lines[1].split()[0] == "b"
    assert lines[1].split().count("free") == 2
    assert "%" in lines[1]
    assert repr(found).startswith("NextGroups(3 groups, 1 available)\n")
    assert "a&lt;b" in found._repr_html_()
    for backend in ("pandas", "polars", "pyarrow"):
        frame = found.to_frame(backend)
        names = getattr(frame, "column_names", None) or list(frame.columns)
        assert names == ["group", "along", "cost", "gain", "gain_per_cost", "chance", "chance_per_cost"]
    assert found.to_dict()["along"] == [["b"] if name == "d" else [] for name in found.groups]
    assert np.isposinf(found.gains_per_cost[0])
    assert model.next_groups(["c"]).mean_chances is None
