"""The documentation site builds without a warning, is complete, and loads nothing from elsewhere."""

import re
import subprocess
import sys
from pathlib import Path

import budgetline
import budgetline.datasets

ROOT = Path(__file__).parents[1]
SPECIAL = (
    "data.Source",
    "evaluation.Effects",
    "evaluation.effects.Effect",
    "evaluation.oracle_curve",
    "evaluation.plateau",
    "evaluation.with_positive",
    "objectives.ConvexLoss",
    "optimality.NextGroups",
    "optimality.Plan",
    "optimality.plan_curve",
    "runtime.EarlyExit",
    "sequencing.Doubling",
    "sequencing.GroupSequence",
    "sequencing.RandomOrder",
    "sequencing.greedy_sequence",
)
ELSEWHERE = re.compile(r"https?://(?!www\.w3\.org/)")


def test_every_public_name_is_in_the_reference():
    text = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    listed = re.findall(r"^::: (\S+)$", text, re.MULTILINE)
    expected = {f"budgetline.{n}" for n in budgetline.__all__} | {
        f"budgetline.datasets.{n}" for n in budgetline.datasets.__all__
    }
    # what only specialists need is imported from its package
    special = {f"budgetline.{n}" for n in SPECIAL}
    assert set(listed) == expected | special
    assert len(listed) == len(expected | special)


def test_the_site_builds_and_is_self_contained(tmp_path):
    run = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", tmp_path / "site"],
        cwd=ROOT, capture_output=True, text=True, env={"NO_MKDOCS_2_WARNING": "1", "PATH": "/usr/bin:/bin"},
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    pages = {path.name: path.read_text(encoding="utf-8") for path in (tmp_path / "site").glob("*.html")}
    assert {"index.html", "tutorial.html", "guide.html", "cli.html", "runtime.html", "api.html", "faq.html"} <= set(
        pages
    )
    assert "AnytimeRunner" in pages["api.html"]
    for name, page in pages.items():
        loaded = re.findall(r'<(?:script|img|link|iframe)[^>]*(?:src|href)="([^"]+)"', page)
        assert not [where for where in loaded if ELSEWHERE.match(where)], name
