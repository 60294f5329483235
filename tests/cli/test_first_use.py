"""What commands say to those who use them for the first time."""

import re
import shlex
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import budgetline
from budgetline import AnytimeClassifier
from budgetline.cli.printing import where_highest

PLAIN = ("--no-cv", "--encoding", "none", "--alpha", "0.01")
SHARED = """
groups:
  a: {columns: [a], cost: 1}
  b c: {columns: [b, c], cost: 2}
  d: {columns: [d], cost: 4}
shared:
  lookup: {cost: 3, groups: [a, b c]}
"""


@pytest.fixture
def table():
    """Write a table with a target y, and groups that share a cost."""
    X = pd.DataFrame(np.random.default_rng(0).normal(size=(120, 4)), columns=list("abcd"))
    made = X.assign(y=X["a"] + X["b"] / 2)
    made.to_csv("data.csv", index=False)
    made.assign(y=np.where(made.y > 0, "yes", "no")).to_csv("classes.csv", index=False)
    Path("groups.yaml").write_text(SHARED)
    return made


@pytest.fixture
def model(table, run):
    """Fit a model of two groups, d left out."""
    given = ("-t", "y", "-g", "groups.yaml", "--max-groups", 2, *PLAIN, "-o", "m")
    found = run("fit", "data.csv", *given)
    assert found.code == 0, found.err
    return found


# -- orders ----------------------------------------------------------------------------------------------------


def test_show_says_how_many_groups_are_bought_and_what_all_cost(model, run):
    assert run("show", "m").out.splitlines()[1] == "4 columns, 2 of 3 groups bought, total cost 6 of 10"


def test_show_leaves_out_the_schedule_of_a_plan(model, run):
    assert run("plan", "m", "-b", 4, "-o", "plan").code == 0
    shown = run("show", "plan").out
    assert "1 of 3 groups bought, total cost 4 of 10" in shown
    assert "FixedOrder" not in shown
    assert "Settings: alpha 0.01, " in shown
    assert "schedule greedy" in run("show", "m").out


def test_fit_says_who_pays_a_shared_cost(model, table, run):
    assert "the first group that needs a shared cost pays it: lookup (3)" in model.out.splitlines()
    assert "shared cost" not in run("fit", "data.csv", "-t", "y", *PLAIN, "-o", "other").out


@pytest.mark.parametrize(
    ("shares", "text"),
    [
        ([0.0, 0.5, 0.6, 0.7], ""),
        ([0.0, 0.5, 0.7, 0.6], "held-out quality is highest at cost 2.5 (70.0 %); the last step does not improve it"),
        ([0.0, 0.7, 0.5, 0.6], "held-out quality is highest at cost 1 (70.0 %); the last 2 steps do not improve it"),
        (
            [0.0, 0.5, 0.7001, 0.7004],
            "held-out quality is highest at cost 2.5 (70.0 %); the last step does not improve it",
        ),
        ([0.0, -0.1, -0.2, -0.3], "no group improves held-out quality"),
    ],
)
def test_where_held_out_quality_is_highest(shares, text):
    assert where_highest([1.0, 2.5, 6.0], shares) == text


def test_no_groups_are_never_said_to_help():
    assert where_highest([], [0.0]) == ""


def test_fit_says_where_held_out_quality_is_highest_in_its_table(run):
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(60, 12))).add_prefix("x")
    X.assign(y=X["x0"] + 0.5 * rng.normal(size=60)).to_csv("d.csv", index=False)
    fit = ("fit", "d.csv", "-t", "y", "--encoding", "none", "--all-groups", "-o", "m")
    lines = run(*fit).out.splitlines()
    (found,) = (line for line in lines if line.startswith("held-out quality is highest at cost "))
    cost, value, later = re.fullmatch(
        r".* at cost (\S+) \((.*) %\); the last (\d+) steps do not improve it", found
    ).groups()
    rows = [line.split() for line in lines[1:13]]
    values = [float(row[-4].replace("−", "-")) for row in rows]
    assert float(value) == max(values)
    best = values.index(max(values))
    assert (rows[best][3], int(later)) == (cost, len(rows) - 1 - best)
    assert "held-out quality" not in run(*fit, "--no-cv").out


# -- files -----------------------------------------------------------------------------------------------------


def test_groups_prints_a_command_that_fits(table, run):
    table.rename(columns={"y": "is it?"}).to_csv("my data.csv", index=False)
    told = run("groups", "my data.csv", "-t", "is it?", "-o", "my groups.yaml").err
    command = shlex.split(told.strip().partition("then run ")[2])
    assert command == ["budgetline", "fit", "my data.csv", "-t", "is it?", "-g", "my groups.yaml"]
    assert run(*command[1:], *PLAIN).code == 0
    assert run("groups", "data.csv", "-o", "g.yaml").err.endswith("run budgetline fit data.csv -t TARGET -g g.yaml\n")


def test_commands_say_that_they_replace_a_file(model, run):
    commands = {
        "m": ("fit", "data.csv", "-t", "y", *PLAIN, "-o", "m"),
        "p.csv": ("predict", "m", "data.csv", "-o", "p.csv"),
        "g.yaml": ("groups", "data.csv", "-t", "y", "-o", "g.yaml"),
        "report.html": ("report", "m"),
        "m.onnx": ("export", "m", "-o", "m.onnx"),
    }
    Path("m").unlink()
    for name, command in commands.items():
        first, again = (run(*command) for _ in range(2))
        assert (first.code, again.code) == (0, 0)
        assert f"wrote {name}" in first.err
        assert "replaced" not in first.err
        assert f"wrote {name} (replaced)" in again.err
    assert run("demo").out == "wrote heart.csv, with the target disease, and heart.yaml\n"
    Path("heart.csv").unlink()
    assert run("demo").out == "wrote heart.csv, with the target disease, and heart.yaml (replaced)\n"
    assert "replaced" not in run("predict", "m", "data.csv", "-o", "/dev/null").err


# -- mistakes --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "option", "value"),
    [
        (["predict", "m", "data.csv", "--budget", "ten"], "--budget", "ten"),
        (["predict", "m", "data.csv", "--stage", "1.5"], "--stage", "1.5"),
        (["plan", "m", "-b", "1", "-b", "much"], "--budget", "much"),
        (["fit", "data.csv", "--max-cost", "1,5"], "--max-cost", "1,5"),
    ],
)
def test_a_value_that_is_no_number_is_named_with_its_option(arguments, option, value, run):
    told = run(*arguments).err
    assert re.fullmatch(rf"error: .*{option}.*: '{value}' is not a .*\n", told)


def test_a_value_out_of_range_is_named_with_its_option(run):
    assert re.fullmatch(r"error: .*--cv.*: .*\b1\b.*\n", run("fit", "data.csv", "--cv", "1").err)


@pytest.mark.parametrize("command", ["report", "curve"])
def test_a_feature_is_no_target(command, model, run):
    assert run(command, "m", "data.csv", "-t", "b").err == "error: --target: the model uses 'b' as a feature\n"
    told = run(command, "m", "data.csv", "-t", "y", "--sample-weight", "b").err
    assert told == "error: --sample-weight: the model uses 'b' as a feature\n"


def test_data_in_place_of_a_model_are_no_model(model, run):
    expected = "error: data.csv is not a model, or it is damaged: MODEL must be a file written by budgetline fit\n"
    assert run("report", "data.csv", "-t", "y").err == expected
    Path("cut.budgetline").write_bytes(Path("m").read_bytes()[:-100])
    assert run("show", "cut.budgetline").err.endswith("If it was one, copy it again\n")


def test_intervals_are_refused_for_classes(table, run):
    X, y = table[list("abc")], np.where(table["y"] > 0, "yes", "no")
    budgetline.save(AnytimeClassifier().fit(X, y), "m")
    told = run("predict", "m", "data.csv", "--interval", "0.9").err
    assert told.startswith("error: --interval is for regression, but m is a classification model; predict_set")


def test_predictions_without_a_column_lead_to_those_without_its_group(model, table, run):
    table[["a"]].to_csv("some.csv", index=False)
    advice = "is not in some.csv; --available auto uses only the groups that DATA has\n"
    assert run("predict", "m", "some.csv").err.endswith(advice)
    assert run("predict", "m", "some.csv", "--available", "auto").code == 0


def test_prices_that_are_no_numbers_lead_to_numbers(table, run):
    for price in ("1,5", "$1.50"):
        Path("groups.yaml").write_text(SHARED.replace("cost: 1", f'cost: "{price}"'))
        told = run("fit", "data.csv", "-t", "y", "-g", "groups.yaml").err
        assert told.endswith(f"groups.yaml: the cost of group 'a' is not a number: '{price}'; write it like 1.5\n")
