"""Every example runs: doctests of all modules, and the Python blocks of README.md and of all pages but results."""

import contextlib
import doctest
import importlib
import io
import re
from itertools import zip_longest
from pathlib import Path

import pytest

import budgetline

SOURCE = Path(budgetline.__file__).parent
ROOT = SOURCE.parents[1]
MODULES = sorted(
    ".".join(("budgetline", *path.relative_to(SOURCE).with_suffix("").parts)).removesuffix(".__init__")
    for path in SOURCE.rglob("*.py")
)
RESULTS = ROOT / "docs" / "results"
PAGES = [ROOT / "README.md", *(p for p in sorted((ROOT / "docs").rglob("*.md")) if RESULTS not in p.parents)]
FENCE = re.compile(r"^```(?P<tag>[^\n`]*)\n(?P<code>.*?)^```[ \t]*$", re.MULTILINE | re.DOTALL)


# -- doctests ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", MODULES)
def test_doctests(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    module = importlib.import_module(name)
    tests = doctest.DocTestFinder(exclude_empty=True).find(module, name)
    report = io.StringIO()
    runner = doctest.DocTestRunner(verbose=False)  # neither ELLIPSIS nor NORMALIZE_WHITESPACE
    for test in tests:
        runner.run(test, out=report.write)
    assert runner.summarize(verbose=False).failed == 0, report.getvalue()


def test_doctests_are_found():
    found = [
        test.name
        for name in MODULES
        for test in doctest.DocTestFinder().find(importlib.import_module(name), name)
        if test.examples
    ]
    assert "budgetline.estimators.regressor.AnytimeRegressor" in found
    assert "budgetline.groups.feature_groups.FeatureGroups.from_yaml" in found
    assert len(found) > 20


# -- pages ---------------------------------------------------------------------------------------------------


LONG_PAGES = {
    "boosting.md",
    "evaluating.md",
    "files.md",
    "heart.md",
    "plan.md",
    "plans.md",
    "raw_table.md",
    "report.md",
}


def blocks_of(page):
    """Return (line, code, expected output or None) of every Python block.

    A block tagged ``text`` that follows a ``python`` block with nothing but blank lines between is its output.
    """
    text = page.read_text(encoding="utf-8")
    fences = list(FENCE.finditer(text))
    found = []
    for fence, following in zip_longest(fences, fences[1:]):
        if fence["tag"].strip() != "python":
            continue
        shown = following is not None and following["tag"].strip() == "text"
        shown = shown and not text[fence.end() : following.start()].strip()
        found.append((text[: fence.start()].count("\n") + 2, fence["code"], following["code"] if shown else None))
    return found


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, marks=[pytest.mark.slow] if page.name in LONG_PAGES else [], id=str(page.relative_to(ROOT)))
        for page in PAGES
    ],
)
def test_pages_run(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "agg")
    namespace = {"__name__": "__main__"}
    blocks = blocks_of(page)
    if page.name == "README.md" and page.stat().st_size:
        assert blocks, "README.md has no Python block"
    for line, code, expected in blocks:
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile("\n" * (line - 1) + code, str(page), "exec"), namespace)
        if expected is not None:
            assert printed.getvalue().rstrip() == expected.rstrip(), f"{page.name}, block at line {line}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_fences_are_closed_and_tagged(page):
    text = page.read_text(encoding="utf-8")
    assert len(re.findall(r"^```", text, re.MULTILINE)) == 2 * len(FENCE.findall(text))
    assert [m["tag"] for m in FENCE.finditer(text) if not m["tag"].strip()] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_to_files_lead_somewhere(page):
    targets = re.findall(r"\]\((?!https?://|mailto:|#)([^)#\s]+)", page.read_text(encoding="utf-8"))
    missing = [target for target in targets if not (page.parent / target).exists()]
    assert not missing


def test_the_pages_are_short():
    """Words of prose, without fenced code; results are counted by nobody, and the reference is made from docstrings."""
    words = {page: len(FENCE.sub("", page.read_text(encoding="utf-8")).split()) for page in PAGES[1:]}
    assert 15_000 < sum(words.values()) < 22_000
    assert words[ROOT / "docs" / "quickstart.md"] < 700


def test_the_front_door_says_what_the_gallery_measures():
    """README and the first page open alike, and quote the figures that the code of the gallery prints."""
    (code, printed), *_ = [(code, out) for _, code, out in blocks_of(ROOT / "README.md")]
    assert (code, printed) in [(code, out) for _, code, out in blocks_of(ROOT / "docs/index.md")]
    ((_, _, measured),) = blocks_of(ROOT / "docs/gallery/heart.md")
    at = {line[:15].strip(): dict(re.findall(r"(\d+) \$: ([\d.]+)", line)) for line in measured.splitlines()}
    assert at["learned order"]["3"] == at["prices ignored"]["200"] == "0.84"
    assert round(float(at["learned order"]["100"]) - float(at["cheapest first"]["100"]), 2) == 0.03
    assert round(float(at["cheapest first"]["250"]) - float(at["learned order"]["250"]), 2) == 0.01
    first_screen = (ROOT / "README.md").read_text(encoding="utf-8").splitlines()[:40]
    assert [line.split()[1] for line in first_screen if line.startswith("make ")] == ["demo", "test"]
    for page in (ROOT / "README.md", ROOT / "docs/index.md"):
        text = " ".join(page.read_text(encoding="utf-8").split())
        assert "reaches .84 for 3 dollars" in text
        assert "needs 200 dollars" in text
        assert ".03 AUC behind at 100, and .01 ahead above 220" in text


def test_the_parser_of_pages(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(
        "# T\n\n```python\nprint(1)\n```\n\n```text\n1\n```\n\nwords\n\n```python\nx = 2\n```\nso\n```text\n2\n```\n"
        "```bash\nls\n```\n"
    )
    assert blocks_of(page) == [(4, "print(1)\n", "1\n"), (14, "x = 2\n", None)]
