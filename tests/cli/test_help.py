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
    assert "budget  cost  explained, training data  order at this budget  proof        groups, in order" in found
    assert "order at this budget: the explained share of the first groups of the order, as" in found
    assert "correction" not in found
    assert "proven best: No other groups within this budget explain the training rows" in found
    found = run("plan", "classifier", "-b", "3", "--exclude", "thal=7").out
    assert re.search(r"about \d\d.\d % +\d\d.\d %  the best found", found)
    assert "pays for, without --include and --exclude." in " ".join(found.split())
    assert "about: an estimate. A plan made from the training data may break near ties" in " ".join(found.split())
    found = run("plan", "classifier", "heart.csv", "-t", "ill", "-b", "3", "--exclude", "thal=7").out
    assert "about" not in found
    assert "the best found: A short search" in found


def test_classifiers_are_not_certified(models, run):
    for given in (["certify", "classifier"], ["report", "classifier", "--certify", 1, "-o", "new.html"]):
        found = run(*given)
        assert found.code == 2
        assert "certificates exist only for squared error, and this model uses loss 'log_loss'" in found.err


def test_usage_lines_name_arguments_as_people_do(run):
    assert "Usage: budgetline plan [OPTIONS] MODEL [DATA]" in run("plan", "--help").out
