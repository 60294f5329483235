"""Every page of results opens with its conclusion, and the figures of the conclusion are on the page."""

import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = [page for page in sorted((ROOT / "docs" / "results").glob("*.md")) if page.name != "README.md"]
FIGURE = re.compile(r"\d*\.?\d[\d,]*(?:\.\d+)?(?:e-?\d+)?")

sys.path.append(str(ROOT / "benchmarks"))
from core import opened  # noqa: E402


def without_links(text):
    return re.sub(r"\]\([^)]*\)", "]", text)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_opens_with_its_conclusion(page):
    title, conclusion, rest = page.read_text(encoding="utf-8").split("\n\n", 2)
    assert re.fullmatch(r"# .+", title)
    if conclusion.startswith("Made by"):
        conclusion, rest = rest.split("\n\n", 1)
    assert not conclusion.startswith(("`python", "|"))
    assert len(re.findall(r"[.:;]\s|\.$", conclusion)) >= 3  # quotable sentences
    if not conclusion.startswith("**In short.** "):  # by the script, from the numbers
        return
    below = rest.replace(",", "")
    figures = {figure.rstrip(",.").replace(",", "") for figure in FIGURE.findall(without_links(conclusion))}
    missing = [
        figure
        for figure in figures
        if len(figure) > 1 and not re.search(rf"(?<![\d.]){re.escape(figure)}(?!\d|\.\d)", below)
    ]
    assert not missing


def test_a_page_that_is_made_again_keeps_its_conclusion(tmp_path):
    page = tmp_path / "page.md"
    assert opened("# New\n\nMade.\n", page) == "# New\n\nMade.\n"
    page.write_text("# Old\n\n**In short.** One.\nTwo.\n\nMade.\n", encoding="utf-8")
    assert opened("# New\n\nMade again.\n", page) == "# New\n\n**In short.** One.\nTwo.\n\nMade again.\n"
