"""Edits turn one valid state into another, or name what is wrong; undo and redo are exact."""

import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from budgetline import FeatureGroups
from budgetline.cli import main
from budgetline.explore.edits import changed_by, read_edit
from budgetline.explore.session import History, Step, opening_state, read_session, start_session
from budgetline.explore.session_data import Data


def edited(state, data, *edits):
    return changed_by(state, [read_edit(edit) for edit in edits], data)


def target(name="y"):
    return {"kind": "set_target", "column": name}


def test_a_new_session_has_a_group_for_every_column(state):
    assert state.names == ("age", "dose", "noise", "town", "y", "ill")
    assert all(group.cost == 1 and group.columns == (group.name,) for group in state.groups)


@pytest.mark.parametrize(
    ("column", "task", "metric"), [("y", "regression", "explained"), ("ill", "classification", "roc_auc")]
)
def test_the_target_decides_on_task_and_metric(state, data, column, task, metric):
    found = edited(state, data, target(column))
    assert (found.task, found.metric) == (task, metric)
    assert column not in found.names
    back = edited(found, data, target("age"))
    assert column in back.names
    assert edited(found, data, target(None)).task == ""


def test_merging_and_splitting_keep_columns_costs_and_what_names_the_groups(state, data):
    prices = {"kind": "set_costs", "costs": {"age": 2, "dose": 3}}
    shared = {"kind": "choose", "shared": [{"name": "visit", "cost": 5, "groups": ["age", "noise"]}]}
    needs = {"kind": "set_requires", "group": "town", "requires": ["dose"]}
    have = {"kind": "choose", "available": ["age"]}
    before = edited(state, data, target(), prices, shared, needs, have)
    merged = edited(before, data, {"kind": "merge_groups", "groups": ["age", "dose"], "name": "both"})
    assert merged.group("both").columns == ("age", "dose")
    assert merged.group("both").cost == 5
    assert merged.group("town").requires == ("both",)
    assert merged.shared[0].groups == ("both", "noise")
    assert merged.available == ("both",)
    split = edited(merged, data, {"kind": "split_group", "group": "both"})
    assert [split.group(name).cost for name in ("age", "dose")] == [2.5, 2.5]
    assert split.group("town").requires == ("age", "dose")
    assert split.available == ("age", "dose")


def test_a_group_without_columns_vanishes_everywhere(state, data):
    first = edited(state, data, target(), {"kind": "choose", "today": ["age", "dose", "town"]})
    assert first.today == ("age", "dose", "town")
    moved = edited(first, data, {"kind": "move_columns", "columns": ["dose"], "group": "town"})
    assert moved.today == ("age", "town")
    assert moved.group("town").columns == ("town", "dose")
    out = edited(moved, data, {"kind": "leave_out", "columns": ["age", "town"]})
    assert out.today == ("town",)
    assert out.left_out == ("age", "town")
    back = edited(
        out, data, {"kind": "new_group", "columns": ["age"]}, {"kind": "new_group", "columns": ["town", "dose"]}
    )
    assert back.left_out == ()
    assert back.group("town").columns == ("town", "dose")


def test_groups_come_from_yaml_and_go_back_to_it(state, data):
    text = "groups:\n  a: {columns: [age, town], cost: 2.5}\n  b: {columns: [dose], cost: 1, requires: [a]}\n"
    text += "shared:\n  visit: {cost: 3, groups: [a, b]}\nremainder: drop\n"
    found = edited(state, data, target(), {"kind": "import_groups", "yaml": text})
    assert found.left_out == ("noise", "ill")
    again = edited(state, data, target(), {"kind": "import_groups", "yaml": found.feature_groups.to_yaml()})
    assert again == found
    assert isinstance(found.feature_groups, FeatureGroups)


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        ({"kind": "paint"}, "there is no edit 'paint'"),
        ({"kind": "set_costs"}, "set_costs.costs is missing"),
        ({"kind": "set_costs", "costs": {"age": "x"}}, "must be a finite number"),
        ({"kind": "set_costs", "costs": {"age": -1}}, "'age' must be finite and not negative"),
        ({"kind": "set_costs", "costs": {"nobody": 1}}, "no group 'nobody'"),
        ({"kind": "rename_group", "group": "age", "name": "dose"}, "there is already a group 'dose'"),
        ({"kind": "rename_group", "group": "age", "name": " "}, "must not be empty"),
        ({"kind": "rename_group", "group": "age", "name": "x" * 300}, "at most 200 characters"),
        ({"kind": "merge_groups", "groups": ["age"]}, "two or more groups"),
        ({"kind": "split_group", "group": "age"}, "only one column"),
        ({"kind": "set_requires", "group": "age", "requires": ["age"]}, "requires itself"),
        ({"kind": "leave_out", "columns": ["y"]}, "'y' is the target"),
        ({"kind": "leave_out", "columns": ["z"]}, "no column 'z'"),
        ({"kind": "choose", "task": "magic"}, "task must be one of"),
        ({"kind": "choose", "task": "classification"}, "not labels of classes"),
        ({"kind": "choose", "metric": "roc_auc"}, "metric must be one of"),
        ({"kind": "choose", "budget": -1}, "budget"),
        ({"kind": "choose", "budget": 1, "extra": 2}, "extra is not a field"),
        ({"kind": "choose", "today": ["age", "age"]}, "listed twice"),
        ({"kind": "choose", "available": ["nobody"]}, "no group 'nobody'"),
        ({"kind": "import_groups", "yaml": "groups: ["}, "not valid YAML"),
        ({"kind": "import_groups", "yaml": "groups: {a: {columns: [y]}}"}, "'y' is the target"),
        ({"kind": "choose", "shared": 2 * [{"name": "v", "cost": 1, "groups": ["age"]}]}, "already a shared cost 'v'"),
        ({"kind": "choose", "shared": [{"name": "v", "cost": 1, "groups": []}]}, "has no groups"),
    ],
)
def test_errors_name_what_is_wrong(state, data, edit, message):
    first = edited(state, data, target())
    with pytest.raises((ValueError, TypeError), match=message):
        edited(first, data, edit)


def table_of(path, columns):
    lines = [",".join(columns), *(",".join(map(str, row)) for row in zip(*columns.values(), strict=True))]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return Data(str(path))


def test_columns_that_do_not_help_are_left_out_as_on_the_command_line(tmp_path, capfd):
    n = 60
    columns = {"PassengerId": range(1, n + 1), "same": ["x"] * n, "a": [k % 7 for k in range(n)]}
    columns |= {"empty": [""] * n, "partly": ["" if k % 2 else "x" for k in range(n)], "y": [k % 5 for k in range(n)]}
    data = table_of(tmp_path / "t.csv", columns)
    state = opening_state(data)
    assert state.left_out == ("PassengerId", "same", "empty")
    assert data.unhelpful["same"] == "the same value in every row"
    assert main(["fit", data.place, "-t", "y", "--no-cv", "-o", str(tmp_path / "m.budgetline")]) == 0
    assert f"PassengerId ({data.unhelpful['PassengerId']}); identifiers and free text" in capfd.readouterr().err
    back = edited(state, data, {"kind": "new_group", "columns": ["same"]})
    assert back.left_out == ("PassengerId", "empty")
    switched = edited(state, data, target("PassengerId"), target("y"))
    assert switched.left_out == ("PassengerId", "same", "empty")


def test_rows_without_a_target_are_dropped(state, data):
    found = edited(state, data, target("dose"))
    assert found.task == "regression"
    assert data.target("dose").dropped == 10
    sample = data.read("dose")
    assert len(sample.y) == len(sample.X) == 150
    assert np.isfinite(sample.y).all()


@pytest.mark.parametrize(
    ("values", "task", "form"),
    [
        ([f"{k % 9}.90%" for k in range(60)], "regression", "percent, such as '0.90%' = 0.9"),
        (["36 months" if k % 3 else "60 months" for k in range(60)], "classification", ""),
        ([f"{k % 2}.0" for k in range(60)], "classification", ""),
        ([f"c{k % 9}" for k in range(100)], "classification", ""),
        (["true" if k % 3 else "false" for k in range(60)], "classification", ""),
        ([k % 3 for k in range(60)], "regression", ""),
    ],
)
def test_the_task_is_that_of_the_command_line(tmp_path, capfd, values, task, form):
    data = table_of(tmp_path / "t.csv", {"a": [k % 7 for k in range(len(values))], "y": values})
    assert edited(opening_state(data), data, target()).task == task
    assert data.target("y").form.startswith(form)
    assert bool(data.target("y").form) == bool(form)
    assert main(["fit", data.place, "-t", "y", "--no-cv", "--json", "-o", str(tmp_path / "m.budgetline")]) == 0
    told = json.loads(capfd.readouterr().out)
    assert told["estimator"] == ("AnytimeRegressor" if task == "regression" else "AnytimeClassifier")
    if task == "classification":
        assert told["classes"] == data.target("y").classes.tolist()


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([f"c{k}" for k in range(60)], "the target 'y' holds more than 50 classes, such as 'c0', 'c1': if these are"),
        (
            [f"{k % 9}.9%" for k in range(59)] + ["much"],
            "the target 'y' is percent in most rows, and 'much' in line 61",
        ),
        (
            [f"2020-01-{k % 28 + 1:02}" for k in range(60)],
            "column 'y' holds dates or times, neither numbers nor labels",
        ),
        (["5"] * 60, "the same value in every row"),
        ([""] * 60, "it cannot be the target"),
    ],
)
def test_a_column_that_cannot_be_the_target_says_why(tmp_path, values, message):
    data = table_of(tmp_path / "t.csv", {"a": [k % 7 for k in range(len(values))], "y": values})
    with pytest.raises(ValueError, match=message):
        edited(opening_state(data), data, target())


NAMES = ["age", "dose", "noise", "town", "y", "ill", "g", "h"]
SOME = st.lists(st.sampled_from(NAMES), max_size=3)
NAME = st.sampled_from(NAMES)
COST = st.floats(-1, 5, allow_nan=False)
SHARED = st.fixed_dictionaries({"name": NAME, "cost": COST, "groups": SOME})
RANDOM_EDITS = st.one_of(
    st.fixed_dictionaries({"kind": st.just("set_target"), "column": st.one_of(st.none(), NAME)}),
    st.fixed_dictionaries({"kind": st.sampled_from(["leave_out", "new_group"]), "columns": SOME}),
    st.fixed_dictionaries({"kind": st.just("rename_group"), "group": NAME, "name": NAME}),
    st.fixed_dictionaries({"kind": st.just("merge_groups"), "groups": SOME, "name": NAME}),
    st.fixed_dictionaries({"kind": st.just("split_group"), "group": NAME}),
    st.fixed_dictionaries({"kind": st.just("move_columns"), "columns": SOME, "group": NAME}),
    st.fixed_dictionaries({"kind": st.just("new_group"), "columns": SOME, "name": NAME, "cost": COST}),
    st.fixed_dictionaries({"kind": st.just("set_costs"), "costs": st.dictionaries(NAME, COST, max_size=3)}),
    st.fixed_dictionaries({"kind": st.just("choose"), "shared": st.lists(SHARED, max_size=2)}),
    st.fixed_dictionaries({"kind": st.just("set_requires"), "group": NAME, "requires": SOME}),
    st.fixed_dictionaries({"kind": st.just("choose"), "available": SOME, "today": SOME}),
)


@given(st.lists(RANDOM_EDITS, max_size=25))
def test_any_edits_leave_a_state_that_can_be_saved_and_undone(data, edits):
    session = start_session(data, None)
    seen = [session.state]
    for plain in edits:
        try:
            session.edit([read_edit(plain)])
        except (ValueError, TypeError):
            continue
        state = session.state
        placed = sorted([*state.left_out, *state.used, *([] if state.target is None else [state.target])])
        assert placed == sorted(state.columns)
        assert len(state.names) == len(set(state.names))
        assert read_session(session.record.to_json(), "it").state == state
        if state != seen[-1]:
            seen.append(state)
    for state in reversed(seen[:-1]):
        session.change(session.history.moved(-1))
        assert session.state == state
    for state in seen[1:]:
        session.change(session.history.moved(1))
        assert session.state == state


def test_budgets_that_follow_each_other_are_one_step(state):
    history = History((Step("", state),))
    for budget in (1.0, 2.0, 3.0):
        history = history.after(replace(state, budget=budget), "set budget")
    assert history.revision == 3
    assert history.moved(-1).state == state
    with pytest.raises(ValueError, match="nothing to undo"):
        history.moved(-1).moved(-1)


def test_a_session_is_found_again_and_only_for_its_data(data, tmp_path):
    path = tmp_path / "it.explore"
    session = start_session(data, path)
    session.edit([read_edit(target())])
    session.edit([read_edit({"kind": "set_costs", "costs": {"age": 7}})])
    again = start_session(data, path)
    assert again.state == session.state
    assert again.history.revision == 2
    assert read_session(path.read_text(), "it").digest == data.digest
    with pytest.raises(ValueError, match="another --delimiter"):
        start_session(Data(data.place, ";"), path)
    other = tmp_path / "other.csv"
    other.write_text("age,y\n1,2\n3,4\n5,7\n")
    with pytest.raises(ValueError, match="session for other data"):
        start_session(Data(str(other)), path)
    assert start_session(Data(str(other)), path, new=True).state == opening_state(Data(str(other)))
    path.write_text("{}")
    with pytest.raises(ValueError, match="is not a session"):
        start_session(data, path)


# -- the file of a session -----------------------------------------------------------------------------------------


def test_a_session_that_others_changed_is_not_overwritten(data, tmp_path):
    path = tmp_path / "it.explore"
    session = start_session(data, path)
    session.edit([read_edit(target())])
    theirs = session.record.to_json().replace('"title": ""', '"title": "theirs"')
    path.write_text(theirs)
    for title in ("mine", "mine again"):
        session.edit([read_edit({"kind": "choose", "title": title})])
        assert "it.explore was changed by another program" in session.problem
        assert "download the session under Take away" in session.problem
        assert path.read_text() == theirs
    path.unlink()  # nothing is lost by saving now
    session.edit([read_edit({"kind": "choose", "title": "mine at last"})])
    assert not session.problem
    assert read_session(path.read_bytes(), "it").state.title == "mine at last"


def test_two_new_sessions_do_not_overwrite_each_other(data, tmp_path):
    path = tmp_path / "it.explore"
    first, second = start_session(data, path), start_session(data, path)
    for session in (first, second, first, second):
        session.edit([read_edit({"kind": "choose", "title": session.state.title + "x"})])
        assert bool(session.problem) == (session is second)
    assert read_session(path.read_bytes(), "it").state == first.state


def test_a_session_without_changes_leaves_no_file(data, tmp_path):
    start_session(data, tmp_path / "it.explore")
    assert not list(tmp_path.iterdir())


def test_a_folder_that_cannot_be_written_is_told(data, tmp_path):
    session = start_session(data, tmp_path / "absent" / "it.explore")
    session.edit([read_edit(target())])
    assert session.problem.startswith("it.explore cannot be written: No such file or directory. Your changes are kept")


@pytest.mark.parametrize(
    "edit",
    [
        {"kind": "choose", "title": "a\ud800"},
        {"kind": "choose", "unit": "\udfff"},
        {"kind": "rename_group", "group": "age", "name": "a\udc80"},
        {"kind": "choose", "shared": [{"name": "\ud800 visit", "cost": 1, "groups": ["age"]}]},
    ],
)
def test_text_that_is_not_unicode_is_refused(data, tmp_path, edit):
    session = start_session(data, tmp_path / "it.explore")
    session.edit([read_edit(target())])
    before = session.record
    with pytest.raises(ValueError, match=r"'.*\\ud.*' is not valid Unicode text: type it again"):
        session.edit([read_edit(edit)])
    assert session.record == before
    spoilt = before.to_json().replace('"title": ""', '"title": "\\ud800"')
    with pytest.raises(ValueError, match=r"not a session of budgetline explore: state.*is not valid Unicode"):
        read_session(spoilt, "it")
