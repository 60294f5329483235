"""What a session shows is what the library says for the same input."""

import numpy as np
import pytest
from sklearn.model_selection import KFold, StratifiedKFold

from budgetline import AnytimeRegressor, Encoding, FixedOrder, budget_curve, compare, cross_val_budget_curve
from budgetline.explore.fits import Setting, estimator_of, prepare
from budgetline.explore.group_edits import changed_by, read_edit
from budgetline.explore.known_model import state_of_model
from budgetline.explore.results import budget_part, compare_part, effects_part, learn, next_part, order_part, plan_of
from budgetline.explore.session import opening_state
from budgetline.explore.table import Data

from .conftest import write_table

EDITS = [
    {"kind": "merge_groups", "groups": ["age", "noise"]},
    {"kind": "set_costs", "costs": {"age": 4, "town": 2.5, "dose": 1.5}},
    {"kind": "set_shared", "name": "visit", "cost": 2, "groups": ["age", "town"]},
    {"kind": "set_today", "groups": ["town"]},
    {"kind": "set_budget", "budget": 6},
    {"kind": "set_available", "groups": ["dose"]},
]


def quiet(*_):
    """Say nothing."""


def learned(data, target, extra=()):
    given = [{"kind": "set_target", "column": target}, *EDITS, *extra]
    state = changed_by(opening_state(data.table), [read_edit(edit) for edit in given], data.table)
    prepared = prepare(data.read(target), state.used, Setting.of(state), quiet, quiet)
    return learn(prepared, state, quiet, quiet, quiet)


def as_the_library(found):
    sample = found.prepared.sample
    X = sample.X.select(list(found.state.used))
    kind = KFold if found.state.task == "regression" else StratifiedKFold
    return estimator_of(found.state).fit(X, sample.y), X, sample.y, kind(5, shuffle=True, random_state=0)


CASES = [
    ("y", ()),
    ("ill", ()),
    ("y", ({"kind": "leave_out", "columns": ["ill", "dose", "town"]}, {"kind": "set_encoding", "encoding": "none"})),
    ("y", ({"kind": "set_encoding", "encoding": "linear"}, {"kind": "set_alpha", "alpha": 0.1})),
    ("y", ({"kind": "set_start", "groups": ["dose"]}, {"kind": "set_metric", "metric": "r2"})),
]


@pytest.mark.parametrize(("target", "extra"), CASES)
def test_order_curve_and_comparison_are_those_of_the_library(data, target, extra):
    found = learned(data, target, extra)
    model, X, y, folds = as_the_library(found)
    part = order_part(found, None)
    assert tuple(step["group"] for step in part["steps"]) == model.sequence_.groups
    np.testing.assert_allclose(found.model.stages.coef_path, model.model_.stages.coef_path, rtol=1e-6, atol=1e-9)
    assert found.model.alpha == pytest.approx(model.model_.alpha)
    curve = cross_val_budget_curve(model, X, y, metric=found.state.metric, cv=folds)
    assert part["curve"]["costs"] == tuple(curve.costs.tolist())
    np.testing.assert_allclose(part["curve"]["values"], curve.values, atol=1e-9)
    np.testing.assert_allclose(part["curve"]["errors"], curve.errors, atol=1e-9)
    others = {
        "this order": estimator_of(found.state),
        "cheapest first": estimator_of(found.state, schedule="cheapest"),
        "costs ignored": estimator_of(found.state, cost_sensitive=False),
    }
    methods = {method["name"]: method for method in compare_part(found, quiet, quiet)["methods"]}
    if found.state.today:
        others["today's order"] = estimator_of(found.state, schedule=FixedOrder(methods["today's order"]["order"]))
    assert list(methods) == list(others)
    summary = compare(others, X, y, metric=found.state.metric, cv=folds, reference="this order").summary()
    for name, row in summary.items():
        assert methods[name]["mean"] == pytest.approx(row["timeliness"], abs=1e-9)
        assert methods[name]["mean_error"] == pytest.approx(row["error"], abs=1e-9)


def test_every_free_group_has_its_own_held_out_value(data):
    free = {"kind": "set_costs", "costs": {"age": 0, "town": 0, "dose": 0}}
    found = learned(data, "y", [{"kind": "set_shared", "name": "visit", "cost": 0, "groups": ["age", "town"]}, free])
    part = order_part(found, None)
    truth = np.mean([fold.values[:4] for fold in found.folds], axis=0)
    assert np.ptp(truth[1:]) > 1e-3
    np.testing.assert_allclose([step["value"] for step in part["steps"][:3]], truth[1:])
    assert [step["point"] for step in part["steps"][:3]] == [1, 2, 3]


@pytest.mark.parametrize("target", ["y", "ill"])
def test_budget_plan_next_groups_and_effects_are_those_of_the_library(data, target):
    found = learned(data, target)
    model, X, y, _ = as_the_library(found)
    rows = {} if target == "y" else {"X": X, "y": y}
    plan = model.plan(6, **rows)
    part = budget_part(found, plan_of(found, 5.0))
    assert part["prefix"]["groups"] == model.sequence_.groups[: len(part["prefix"]["groups"])]
    assert part["prefix"]["cost"] <= 6
    assert set(part["plan"]["groups"]) == set(plan.groups)
    # what the plan and the order explain is what their curves say of the same rows
    assert part["plan"]["explained"] == pytest.approx(budget_curve(plan, X, y).values[-1], abs=1e-9)
    stage = len(part["prefix"]["groups"])
    assert part["prefix_explained"] == pytest.approx(budget_curve(model, X, y).values[stage], abs=1e-9)
    assert part["plan"]["proven"] == ("proven best" if target == "y" else "the best found")
    assert part["prefix"]["value"] == pytest.approx(found.mean.at(part["prefix"]["cost"]))
    ranking = model.next_groups(["dose"])
    shown = next_part(found)
    assert tuple(row["group"] for row in shown["rows"]) == ranking.groups
    np.testing.assert_allclose([row["gain"] for row in shown["rows"]], ranking.gains, atol=1e-9)
    effects = effects_part(found)
    assert {effect["group"] for effect in effects["effects"]} <= set(part["prefix"]["groups"])
    assert effects["stage"] == len(part["prefix"]["groups"])
    assert all(("up means class yes" in effect["caption"]) == (target == "ill") for effect in effects["effects"])
    assert all(effect["picture"].startswith("<svg ") for effect in effects["effects"])


def test_what_moved_is_counted_among_the_groups_that_stayed(data):
    found = learned(data, "y")
    now = found.model.sequence.groups
    same = order_part(found, now)["moved"]
    assert same["sentence"] == "The order is the same."
    swapped = order_part(found, (now[1], now[0], "gone", *now[2:]))
    assert swapped["moved"]["risen"] == [now[0]]
    assert swapped["moved"]["fallen"] == [now[1]]
    assert swapped["moved"]["gone"] == ["gone"]
    assert swapped["steps"][0]["moved"] == 1


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("target", ["y", "ill"])
def test_other_tables_give_what_the_library_gives(tmp_path, seed, target):
    found = learned(Data(str(write_table(tmp_path / "t.csv", seed=seed + 1))), target)
    model, X, y, folds = as_the_library(found)
    assert found.model.sequence.groups == model.sequence_.groups
    curve = cross_val_budget_curve(model, X, y, metric=found.state.metric, cv=folds)
    np.testing.assert_allclose(found.mean.values, curve.values, atol=1e-9)


@pytest.mark.parametrize("target", ["y", "ill"])
def test_a_model_is_opened_as_it_was_learned(data, target):
    found = learned(
        data, target, [{"kind": "set_start", "groups": ["dose"]}, {"kind": "leave_out", "columns": ["noise"]}]
    )
    model, *_ = as_the_library(found)
    again = state_of_model(model.model_, opening_state(data.table), data.table, target)
    assert estimator_of(again).get_params(deep=False) == estimator_of(found.state).get_params(deep=False)
    for name in ("target", "task", "loss", "left_out", "encoding"):
        assert getattr(again, name) == getattr(found.state, name)
    with pytest.raises(ValueError, match="name the target"):
        state_of_model(model.model_, opening_state(data.table), data.table, None)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"max_cost": 3}, "max_cost=3"),
        ({"correction": 1.0}, "correction=1.0"),
        ({"schedule": "doubling"}, "schedule='doubling'"),
        ({"encoding": Encoding("spline", knots=4)}, "plain encodings only"),
        ({"encoding": Encoding("spline", interactions=2)}, "pairs of columns"),
    ],
)
def test_a_model_with_other_settings_is_refused_by_their_name(data, settings, message):
    sample = data.read("y")
    model = AnytimeRegressor(**{"encoding": "spline", **settings}).fit(sample.X, sample.y)
    with pytest.raises(ValueError, match=message):
        state_of_model(model.model_, opening_state(data.table), data.table, "y")


@pytest.mark.parametrize(("target", "shown"), [("ill", True), ("y", False)])
def test_an_order_that_takes_long_is_shown_before_it_is_judged(data, target, shown):
    state = changed_by(opening_state(data.table), [read_edit({"kind": "set_target", "column": target})], data.table)
    prepared = prepare(data.read(target), state.used, Setting.of(state), quiet, quiet)
    told = []
    found = learn(prepared, state, quiet, lambda text, *_: told.append(text), lambda model: told.append(model))
    assert told == (["learning the order", found.model, *(f"fold {k} of 5" for k in range(1, 6))] if shown else [])
