"""What commands say of themselves, and of what their tables hold."""

import re

import pytest

from budgetline.cli.app import COMMANDS
from budgetline.datasets import load_heart


@pytest.mark.parametrize("command", ["", *(function.__name__.rstrip("_") for function in COMMANDS)])
def test_help_names_values_as_people_do(command, run, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    found = run(*filter(None, [command]), "--help")
    assert found.code == 0
    assert not re.search(r"<[a-z]|BOOLEAN", found.out)
    assert "--help" in found.out


def test_help_still_says_what_values_are_allowed(run, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    text = run("fit", "--help").out
    assert "auto|regression|classification" in text
    assert re.search(r"--max-cost +X \[x>=0\]", text)
    assert "DATA" in text


@pytest.fixture
def models(run):
    heart = load_heart(as_frame=True)
    heart.data.assign(ill=heart.target).to_csv("heart.csv", index=False)
    assert (
        run(
            "fit",
            "heart.csv",
            "-t",
            "ill",
            "-o",
            "classifier",
            "--no-cv",
            "--all-groups",
            "--encoding",
            "none",
            "--alpha",
            "0.01",
        ).code
        == 0
    )
    regression = ("--no-cv", "--all-groups", "--task", "regression", "--encoding", "none", "--alpha", "0.01")
    assert run("fit", "heart.csv", "-t", "ill", "-o", "linear", *regression).code == 0


def test_plans_say_what_their_columns_hold(models, run):
    found = run("plan", "linear", "-b", "3").out
    assert "budget  cost  explained, training data  share of the optimum  groups, in order" in found
    assert "optimal: it is proven that no set within the budget explains more" in found
    found = run("plan", "classifier", "-b", "3", "--exclude", "thal=7").out
    assert re.search(r"about \d\d.\d %  not known", found)
    assert "about: an estimate; add DATA" in found
    found = run("plan", "classifier", "heart.csv", "-t", "ill", "-b", "3", "--exclude", "thal=7").out
    assert "about" not in found
    assert "not known: for this loss" in found


def test_certificates_of_classifiers_begin_with_their_limits(models, run, done):
    lines = run("certify", "classifier", "--time-limit", "0").out.split("\n")
    assert lines[2].startswith("For loss 'log_loss' the only known bound is what all groups explain.")
    text = "\n".join(lines)
    assert text.index("trivial") < text.index("bound on any set")
    assert text.count("the only known bound") == 1
    assert done("certify", "classifier", "--time-limit", "0")["notes"]
    assert "trivial" not in run("certify", "linear", "--time-limit", "0").out
    few = ("-t", "ill", "-o", "few", "--no-cv", "--encoding", "none", "--max-groups", 3)
    assert run("fit", "heart.csv", *few).code == 0
    assert "is not known: fit with all groups" in run("certify", "few").err
