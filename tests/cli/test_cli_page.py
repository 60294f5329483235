"""The page of the command line tells the truth: its commands run, and print what it shows."""

import re
import shlex
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest

from budgetline import FeatureGroups
from budgetline.datasets import load_heart

PAGE = (Path(__file__).parents[2] / "docs" / "without_code" / "command_line.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(sh|yaml|text)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module")
def printed(tmp_path_factory):
    """Run the shell blocks on the heart data, with the real groups in place of the draft; return what they print."""
    folder = tmp_path_factory.mktemp("heart")
    heart = load_heart(as_frame=True)
    heart.data.assign(ill=heart.target).to_csv(folder / "heart.csv", index=False)
    heart.data[:5].to_csv(folder / "new.csv", index=False)
    shell = "".join(text for kind, text in BLOCKS if kind == "sh")
    found = defaultdict(str)
    for line in shell.splitlines():
        command, *arguments = shlex.split(line, comments=True)
        assert command == "budgetline"
        run = subprocess.run(
            [sys.executable, "-m", "budgetline", *arguments], cwd=folder, capture_output=True, text=True, check=False
        )
        assert run.returncode == 0, run.stderr
        found[arguments[0]] += run.stdout
        if arguments[0] == "groups":  # "edit the groups and their costs"
            assert FeatureGroups.from_yaml(folder / "groups.yaml").names
            (folder / "groups.yaml").write_text(heart.feature_groups.to_yaml())
    assert len((folder / "predictions.csv").read_text().splitlines()) == 6
    assert (folder / "report.html").stat().st_size > 10_000
    return found


@pytest.mark.slow
def test_the_commands_print_what_the_page_shows(printed):
    sequence, ranked, proven, plans = (text for kind, text in BLOCKS if kind == "text")
    assert sequence.strip() in printed["fit"]
    assert sequence.strip() in printed["show"]
    assert ranked.strip() in printed["next"]
    assert "chance per cost" in printed["next"]
    assert proven.strip() in "\n".join(line.rstrip() for line in printed["certify"].splitlines())
    assert plans.strip() in "\n".join(line.rstrip() for line in printed["plan"].splitlines())
    headline = re.search(r"prints its headline: `(.*?)`", PAGE)[1]
    assert headline in printed["report"]


def test_the_groups_file_on_the_page_can_be_read(tmp_path):
    first, second = (text for kind, text in BLOCKS if kind == "yaml")
    (tmp_path / "groups.yaml").write_text(first)
    assert FeatureGroups.from_yaml(tmp_path / "groups.yaml").names == ("age", "blood")
    (tmp_path / "groups.yaml").write_text(second)
    assert round(FeatureGroups.from_yaml(tmp_path / "groups.yaml").cost_of(["ratio"]), 2) == 10.37
