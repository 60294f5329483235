"""The documentation site builds without a warning, is complete, loads nothing from elsewhere, and fits on screens."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from browser import NEEDS_BROWSER, chromium, new_context

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
    "glm.ConvexLoss",
    "optimality.NextGroups",
    "optimality.Plan",
    "optimality.next_groups",
    "optimality.plan",
    "optimality.plans",
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


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """Return the folder of the site, built as ``make docs`` does."""
    folder = tmp_path_factory.mktemp("built") / "site"
    run = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", folder],
        cwd=ROOT, capture_output=True, text=True, env={"NO_MKDOCS_2_WARNING": "1", "PATH": "/usr/bin:/bin"},
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    return folder


def test_the_site_is_complete_and_self_contained(site):
    pages = {path.name: path.read_text(encoding="utf-8") for path in site.glob("*.html")}
    assert {"index.html", "tutorial.html", "guide.html", "cli.html", "runtime.html", "api.html", "faq.html"} <= set(
        pages
    )
    assert "AnytimeRunner" in pages["api.html"]
    for name, page in pages.items():
        loaded = re.findall(r'<(?:script|img|link|iframe)[^>]*(?:src|href)="([^"]+)"', page)
        assert not [where for where in loaded if ELSEWHERE.match(where)], name


# -- on screens ------------------------------------------------------------------------------------------------

LAPTOP, PHONE = 1300, 400
CUT_OFF = """() => {
  const root = document.documentElement
  const scrolled = [...document.querySelectorAll(".md-content *")].filter((e) =>
    e.clientWidth && getComputedStyle(e).overflowX !== "visible" && e.scrollWidth > e.clientWidth + 1)
  const found = scrolled.map((e) => `${e.tagName}.${e.className}: ${e.textContent.trim().slice(0, 60)}`)
  return root.scrollWidth > root.clientWidth ? ["the page", ...found] : found
}"""
TABLES_WRAPPED = """() => [...document.querySelectorAll(".md-typeset table:not([class])")].every(
  (e) => e.closest(".md-typeset__scrollwrap"))"""
TABLE = "DIV.md-typeset__scrollwrap"


@pytest.fixture(scope="module")
def cut_off(site):
    """Return a function that tells what of a page does not fit the width of a screen."""
    with chromium() as browser:
        pages = {width: new_context(browser, width, 900).new_page() for width in (LAPTOP, PHONE)}

        def look(name, width, style=""):
            pages[width].goto((site / name).as_uri())
            pages[width].wait_for_function(TABLES_WRAPPED)  # by a script of the theme
            if style:
                pages[width].add_style_tag(content=style)
            return pages[width].evaluate(CUT_OFF)

        yield look


@NEEDS_BROWSER
@pytest.mark.slow
@pytest.mark.parametrize("width", [LAPTOP, PHONE])
@pytest.mark.parametrize("name", ["index.html", "tutorial.html", "raw_tables.html", "cli.html"])
def test_nothing_is_cut_off(cut_off, name, width):
    assert cut_off(name, width) == []


@NEEDS_BROWSER
@pytest.mark.slow
def test_what_is_cut_off_is_seen(cut_off):
    assert cut_off("tutorial.html", PHONE, ".md-typeset pre > code { white-space: pre !important }")
    assert "the page" in cut_off("tutorial.html", PHONE, ".md-content { min-width: 500px }")


@NEEDS_BROWSER
@pytest.mark.slow
def test_nothing_is_cut_off_on_any_page(site, cut_off):
    names = [path.relative_to(site).as_posix() for path in site.rglob("*.html")]
    assert len(names) > 30
    assert {name: found for name in names if (found := cut_off(name, LAPTOP))} == {}
    # tables of many columns may be scrolled on a phone
    narrow = {name: [what for what in cut_off(name, PHONE) if not what.startswith(TABLE)] for name in names}
    assert {name: found for name, found in narrow.items() if found} == {}
