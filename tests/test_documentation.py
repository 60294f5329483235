"""Every example runs: doctests of all modules, and the Python blocks of README.md, docs/*.md and docs/developers."""

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
FOLDERS = (ROOT / "docs", ROOT / "docs" / "developers")
PAGES = [ROOT / "README.md", *(path for folder in FOLDERS for path in sorted(folder.glob("*.md")))]
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


LONG_PAGES = {"guide.md", "optimality.md", "sharing.md"}


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
    [pytest.param(page, marks=[pytest.mark.slow] if page.name in LONG_PAGES else [], id=page.name) for page in PAGES],
)
def test_pages_run(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
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


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_fences_are_closed_and_tagged(page):
    text = page.read_text(encoding="utf-8")
    assert len(re.findall(r"^```", text, re.MULTILINE)) == 2 * len(FENCE.findall(text))
    assert [m["tag"] for m in FENCE.finditer(text) if not m["tag"].strip()] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_to_files_lead_somewhere(page):
    targets = re.findall(r"\]\((?!https?://|mailto:|#)([^)#\s]+)", page.read_text(encoding="utf-8"))
    missing = [target for target in targets if not (page.parent / target).exists()]
    assert not missing


@pytest.mark.parametrize("page", ["README.md", "docs/index.md"])
def test_the_front_door_quotes_the_field_page(page):
    text = (ROOT / page).read_text(encoding="utf-8")
    (quoted,) = re.findall(r"higher AUROC at (\d+ of \d+) budgets on its own split,\nat (\d+ of \d+) by the mean", text)
    field = (ROOT / "docs/results/field.md").read_text(encoding="utf-8")
    assert f"on the published split: higher AUROC at {quoted[0]} budgets" in field
    assert f"mean over five splits: higher AUROC at {quoted[1]} budgets" in field


def test_the_parser_of_pages(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(
        "# T\n\n```python\nprint(1)\n```\n\n```text\n1\n```\n\nwords\n\n```python\nx = 2\n```\nso\n```text\n2\n```\n"
        "```bash\nls\n```\n"
    )
    assert blocks_of(page) == [(4, "print(1)\n", "1\n"), (14, "x = 2\n", None)]
