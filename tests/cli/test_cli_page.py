"""The page of the command line tells the truth: its commands run, and print what it shows."""

import re
import shlex
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest

from budgetline import FeatureGroups

PAGE = (Path(__file__).parents[2] / "docs" / "without_code" / "command_line.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(sh|yaml|text)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module")
def printed(tmp_path_factory):
    """Run the shell blocks, which write their data themselves; return what they print."""
    folder = tmp_path_factory.mktemp("heart")
    shell = "".join(text for kind, text in BLOCKS if kind == "sh")
    found = defaultdict(str)
    for line in shell.splitlines():
        command, *arguments = shlex.split(line, comments=True)
        if command == "pip":
            continue
        assert command == "budgetline"
        run = subprocess.run(
            [sys.executable, "-m", "budgetline", *arguments], cwd=folder, capture_output=True, text=True, check=False
        )
        assert run.returncode == 0, run.stderr
        found[arguments[0]] += "\n".join(part.rstrip() for part in run.stdout.splitlines()) + "\n"
    assert len((folder / "predictions.csv").read_text().splitlines()) == 304
    assert (folder / "report.html").stat().st_size > 10_000
    return found


@pytest.mark.slow
def test_the_commands_print_what_the_page_shows(printed):
    sequence, ranked, plans, proven = (text for kind, text in BLOCKS if kind == "text")
    assert sequence.strip() in printed["fit"]
    assert ranked.strip() in printed["next"]
    assert "chance per cost" in printed["next"]
    assert plans.strip() in printed["plan"]
    assert proven.strip() in printed["certify"]
    headline = re.search(r"begins with a sentence:\s`(.*?)`", PAGE)[1]
    assert headline in printed["report"]


def test_the_groups_file_on_the_page_can_be_read(tmp_path):
    first, second = (text for kind, text in BLOCKS if kind == "yaml")
    (tmp_path / "groups.yaml").write_text(first)
    assert FeatureGroups.from_yaml(tmp_path / "groups.yaml").names == ("age", "blood")
    (tmp_path / "groups.yaml").write_text(second)
    assert round(FeatureGroups.from_yaml(tmp_path / "groups.yaml").cost_of(["ratio"]), 2) == 10.37
