"""What a session shows is what the command line and the report say of the same table."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import KFold, StratifiedKFold

from budgetline import (
    BudgetCurve,
    FixedOrder,
    budget_curve,
    compare,
    cross_val_budget_curve,
    load,
    make_report,
)
from budgetline.cli import main
from budgetline.estimators.cross_validation import unsearched
from budgetline.explore.edits import changed_by, read_edit
from budgetline.explore.fits import estimator_of, fit, learn
from budgetline.explore.results import budget_part, compare_part, effects_part, next_part, order_part, plan_of
from budgetline.explore.session import opening_state
from budgetline.explore.session_data import Data

from .conftest import write_table

EDITS = [
    {"kind": "merge_groups", "groups": ["age", "noise"]},
    {"kind": "set_costs", "costs": {"age": 4, "town": 2.5, "dose": 1.5}},
    {"kind": "choose", "shared": [{"name": "visit", "cost": 2, "groups": ["age", "town"]}]},
    {"kind": "choose", "today": ["town"]},
    {"kind": "choose", "budget": 6},
    {"kind": "choose", "available": ["dose"]},
]


def quiet(*_):
    """Say nothing."""


def state_for(data, target, extra=()):
    given = [{"kind": "set_target", "column": target}, *EDITS, *extra]
    return changed_by(opening_state(data), [read_edit(edit) for edit in given], data)


def learned(data, target, extra=()):
    return learn(data.read(target), state_for(data, target, extra), quiet, quiet, quiet)


def as_the_library(found):
    sample, kind = found.sample, KFold if found.state.task == "regression" else StratifiedKFold
    fitted = fit(estimator_of(found.state, sample), sample)
    return fitted, sample.X, sample.y, kind(5, shuffle=True, random_state=0)


CASES = [
    ("y", ()),
    ("ill", ()),
    ("y", ({"kind": "leave_out", "columns": ["ill", "dose", "town"]},)),
    ("y", ({"kind": "choose", "metric": "r2"},)),
]


@pytest.mark.parametrize(("target", "extra"), CASES)
def test_order_curve_and_comparison_are_those_of_the_library(data, target, extra):
    found = learned(data, target, extra)
    model, X, y, folds = as_the_library(found)
    part = order_part(found, None)
    assert tuple(step["group"] for step in part["steps"]) == model.sequence_.groups
    np.testing.assert_allclose(found.model.stages.coef_path, model.model_.stages.coef_path, rtol=1e-6, atol=1e-9)
    assert found.model.alpha == pytest.approx(model.model_.alpha)
    plain = unsearched(model)
    curve = cross_val_budget_curve(plain, X, y, metric=found.state.metric, cv=folds)
    assert part["curve"]["costs"] == tuple(curve.costs.tolist())
    np.testing.assert_allclose(part["curve"]["values"], curve.values, atol=1e-9)
    np.testing.assert_allclose(part["curve"]["errors"], curve.errors, atol=1e-9)
    others = {
        "this order": plain,
        "cheapest first": clone(plain).set_params(schedule="cheapest"),
        "costs ignored": clone(plain).set_params(cost_sensitive=False),
    }
    if len(set(found.state.feature_groups.costs.tolist())) == 1 and not found.state.feature_groups.shared:
        del others["cheapest first"]
    methods = {method["name"]: method for method in compare_part(found, quiet, quiet)["methods"]}
    if found.state.today:
        others["today's order"] = clone(plain).set_params(schedule=FixedOrder(methods["today's order"]["order"]))
    assert list(methods) == list(others)
    summary = compare(others, X, y, metric=found.state.metric, cv=folds).summary()
    for name, row in summary.items():
        assert methods[name]["mean"] == pytest.approx(row["timeliness"], abs=1e-9)
        assert methods[name]["mean_error"] == pytest.approx(row["error"], abs=1e-9)


def test_every_free_group_has_its_own_held_out_value(data):
    free = {"kind": "set_costs", "costs": {"age": 0, "town": 0, "dose": 0}}
    found = learned(data, "y", [{"kind": "choose", "shared": []}, free])
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
    assert part["plan"]["order_explained"] == pytest.approx(part["prefix_explained"], abs=1e-9)
    assert part["plan"]["proven"] == ("proven best" if target == "y" else "the best found")
    assert part["prefix"]["value"] == pytest.approx(BudgetCurve.mean(found.folds).at(part["prefix"]["cost"]))
    ranking = model.next_groups(["dose"])
    shown = next_part(found)
    assert tuple(row["group"] for row in shown["rows"]) == ranking.groups
    np.testing.assert_allclose([row["gain"] for row in shown["rows"]], ranking.gains, atol=1e-9)
    effects = effects_part(found)
    assert {effect["group"] for effect in effects["effects"]} <= set(part["prefix"]["groups"])
    assert effects["stage"] == len(part["prefix"]["groups"])
    assert all(("means class yes" in effect["caption"]) == (target == "ill") for effect in effects["effects"])
    assert all(effect["picture"].startswith("<svg ") for effect in effects["effects"])


def test_how_far_groups_moved_since_another_order(data):
    found = learned(data, "y")
    now = found.model.sequence.groups
    assert {step["moved"] for step in order_part(found, now)["steps"]} == {0}
    swapped = order_part(found, (now[1], now[0], *now[2:]))
    assert [step["moved"] for step in swapped["steps"]][:3] == [1, -1, 0]
    assert order_part(found, now[1:])["steps"][0]["moved"] is None


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("target", ["y", "ill"])
def test_other_tables_give_what_the_library_gives(tmp_path, seed, target):
    found = learned(Data(str(write_table(tmp_path / "t.csv", seed=seed + 1))), target)
    model, X, y, folds = as_the_library(found)
    assert found.model.sequence.groups == model.sequence_.groups
    curve = cross_val_budget_curve(unsearched(model), X, y, metric=found.state.metric, cv=folds)
    np.testing.assert_allclose(BudgetCurve.mean(found.folds).values, curve.values, atol=1e-9)


@pytest.mark.parametrize("target", ["y", "ill"])
def test_a_first_order_is_shown_before_settings_are_chosen(data, target):
    told, state = [], state_for(data, target)
    found = learn(data.read(target), state, quiet, lambda text, *_: told.append(text), told.append)
    (first,) = (entry for entry in told if not isinstance(entry, str))
    texts = list(dict.fromkeys(entry for entry in told if isinstance(entry, str)))
    before = ["learning a first order", "choosing settings on folds"]
    assert texts == before + [f"fold {k} of 5" for k in range(1, 6)]
    assert told.index(first) < told.index(texts[1])
    plain = estimator_of(state, found.sample, search=False)
    assert not hasattr(plain, "cv")
    assert first.sequence.groups == plain.fit(found.sample.X, found.sample.y).sequence_.groups


def test_steps_that_are_told_are_never_more_than_there_are(data):
    told = []
    learn(data.read("y"), state_for(data, "y"), quiet, lambda _, *at: told.append(at), quiet)
    assert all(0 <= done < total for done, total in told)
    assert told[0][0] == 0


def test_an_error_of_the_check_ends_a_fit_at_its_next_step(data):
    class Ended(Exception):
        pass

    steps = []

    def check():
        steps.append(1)
        if len(steps) == 3:
            raise Ended

    state = changed_by(opening_state(data), [read_edit({"kind": "set_target", "column": "y"})], data)
    with pytest.raises(Ended):
        learn(data.read("y"), state, check, quiet, quiet)


@pytest.mark.parametrize("target", ["y", "ill"])
def test_the_command_line_and_the_report_say_the_same(data, table_path, tmp_path, target):
    given = [{"kind": "set_target", "column": target}, *EDITS[:3]]
    state = changed_by(opening_state(data), [read_edit(edit) for edit in given], data)
    found = learn(data.read(target), state, quiet, quiet, quiet)
    groups, file = tmp_path / "groups.yaml", tmp_path / "m.budgetline"
    groups.write_text(state.feature_groups.to_yaml(), encoding="utf-8")
    assert main(["fit", str(table_path), "-t", target, "-g", str(groups), "-o", str(file), "--quiet"]) == 0
    model = load(file)
    assert model.sequence_.groups == found.model.sequence.groups
    assert model.model_.alpha == found.model.alpha
    assert model.correction_ == found.estimator.correction_
    np.testing.assert_allclose(model.coef_path_, found.estimator.coef_path_, rtol=1e-9)
    np.testing.assert_allclose(model.held_out_, found.estimator.held_out_, atol=1e-9)
    report = make_report(model, found.sample.X, found.sample.y, metric=state.metric, baselines=False)
    shown = order_part(found, None)
    assert shown["curve"]["costs"] == report.main_curve.costs
    np.testing.assert_allclose(shown["curve"]["values"], report.main_curve.values, atol=1e-9)
    assert shown["headline"] == report.headline
