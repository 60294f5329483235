"""The documentation site builds without a warning, is complete, loads nothing from elsewhere, and fits on screens."""

import inspect
import re
import subprocess
import sys
from functools import partial
from html import unescape
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from importlib.util import find_spec
from os.path import normpath
from pathlib import Path
from threading import Thread
from urllib.parse import unquote
from xml.etree import ElementTree

import pytest
from browser import NEEDS_BROWSER, chromium, new_context
from griffe import DocstringSectionAttributes, DocstringSectionParameters
from PIL import Image

import budgetline
import budgetline.datasets

ROOT = Path(__file__).parents[1]
ELSEWHERE = re.compile(r"https?://(?!www\.w3\.org/)")


sys.path.append(str(ROOT / "tools"))
from benchmark_pictures import IMAGES, PICTURES  # noqa: E402
from docstrings import entries_of, undescribed  # noqa: E402
from site_pages import DOWNLOADS, INTERNAL, ROUTING, is_shown, linked, object_of, objects, path_of  # noqa: E402


def test_every_public_name_is_in_the_reference():
    listed = objects()
    expected = {*budgetline.__all__, *(f"datasets.{name}" for name in budgetline.datasets.__all__)}
    assert len(listed) == len(set(listed)) == len({path_of(name).lower() for name in listed})
    assert expected <= set(listed)
    assert not [name for name in listed if "." not in name and name not in expected]


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """Return the folder of the site, built as ``make docs`` does."""
    folder = tmp_path_factory.mktemp("built") / "site"
    run = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", folder],
        cwd=ROOT, capture_output=True, text=True,
        env={"NO_MKDOCS_2_WARNING": "1", "PATH": "/usr/bin:/bin", "PYTHONPATH": str(ROOT / "src")},
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    return folder


def pages_of(site):
    return {p.relative_to(site).as_posix(): p.read_text(encoding="utf-8") for p in sorted(site.rglob("*.html"))}


def test_the_site_is_complete_and_self_contained(site):
    pages = pages_of(site)
    assert {"index.html", "quickstart.html", "when.html", "guide/plans.html", "benchmarks.html"} <= set(pages)
    assert len(pages) > 100
    for name, page in pages.items():
        loaded = re.findall(r'<(?:script|img|link|iframe)[^>]*(?:src|href)="([^"]+)"', page)
        assert not [where for where in loaded if ELSEWHERE.match(where)], name
    rows = {name: (site / name).read_text(encoding="utf-8").count("\n") for name in DOWNLOADS}
    assert (rows["heart.csv"], rows["bank.csv"]) == (304, 1132)
    assert 'href="heart.csv"' in pages["quickstart.html"]
    assert 'href="heart.yaml"' in pages["quickstart.html"]
    assert 'href="../bank.csv"' in pages["gallery/raw_table.html"]


def text_of(html):
    return unescape(re.sub(r"<[^>]+>", "", html))


@pytest.mark.parametrize("name", objects())
def test_the_reference_shows_true_signatures(site, name):
    page = (site / path_of(name)).with_suffix(".html").read_text(encoding="utf-8")
    signature = "".join(text_of(re.search(r'<div class="[^"]*doc-signature.*?</div>', page, re.DOTALL)[0]).split())
    parameters = list(inspect.signature(object_of(name)).parameters.values())
    for parameter in parameters:
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            continue
        shown = re.search(rf"[(,]{parameter.name}(?:=([^=]*?))?(?=,\w+=|,\w+,|,\*|,?\)$|,\w+\))", signature)
        assert shown, f"{parameter.name} is missing from {signature}"
        if isinstance(parameter.default, (bool, int, float, str, type(None))):
            default = repr(parameter.default).replace("'", '"').replace(" ", "")
            assert (shown[1] or "").replace("'", '"') == default, f"{name}({parameter.name}={parameter.default!r})"


def test_the_reference_has_no_source_markup(site):
    pages = {name: text_of(page) for name, page in pages_of(site).items() if name.startswith("api/")}
    assert len(pages) > 40
    markup = re.compile(r":(?:class|func|meth|mod|attr|doc|ref):|::\s*$|\.\. \w+::", re.MULTILINE)
    assert {name: found for name, page in pages.items() if (found := markup.findall(page))} == {}


def test_every_public_member_of_a_class_is_on_its_page(site):
    """As Python lists them, whatever kind of descriptor they are: a rule of the site may leave out only names."""
    count = 0
    for name in filter(lambda name: inspect.isclass(object_of(name)), objects()):
        cls, page = object_of(name), (site / path_of(name)).with_suffix(".html").read_text(encoding="utf-8")
        left_out = INTERNAL.get(cls.__name__, ())
        members = {} if left_out == "all" else dict(inspect.getmembers(cls, callable))
        assert left_out == "all" or all(hasattr(cls, m) for m in left_out), name
        ours = [m for m, found in members.items() if "budgetline." in f"{getattr(found, '__module__', None)}"]
        wanted = [m for m in ours if not m.startswith("_") and m not in left_out and not ROUTING.fullmatch(m)]
        assert [m for m in wanted if not re.search(rf'id="[\w.]+\.{m}"', page)] == [], name
        count += len(wanted)
    assert count > 150
    classifier = (site / "api" / "AnytimeClassifier.html").read_text(encoding="utf-8")
    assert all(f"AnytimeClassifier.{m}" in classifier for m in ("predict_proba", "staged_decision_function", "plan"))
    assert "__dict__" not in (site / "api" / "glm.ConvexLoss.html").read_text(encoding="utf-8")


ENTRY = re.compile(r'<li class="doc-section-item.*?</li>', re.DOTALL)


def test_parameters_are_described_where_they_are_used(site):
    html = {name: page for name, page in pages_of(site).items() if name.startswith("api/")}
    entries = [(name, text_of(item)) for name, page in html.items() for item in ENTRY.findall(page)]
    assert len(entries) > 1000
    assert [(name, text) for name, text in entries if not text.partition("–")[2].strip()] == []
    pages = {name: text_of(page) for name, page in html.items()}
    sources = ["predict", "plan", "the constructor", *(name for name in objects() if name[0].isupper())]
    pointers = re.compile(rf"\bas in\s+(?:{'|'.join(sources)})\b", re.IGNORECASE)
    assert {name: found for name, page in pages.items() if (found := pointers.findall(page))} == {}
    classes = [(name, object_of(name)) for name in objects() if inspect.isclass(object_of(name))]
    methods = [(f"{name}.{m}", getattr(cls, m), cls) for name, cls in classes for m in dir(cls) if is_shown(cls, m)]
    all_of_them = [*((name, object_of(name), None) for name in objects()), *methods]
    found = {name: undescribed(value, owner) for name, value, owner in all_of_them if callable(value)}
    assert len(found) > 200
    assert {name: parameters for name, parameters in found.items() if parameters} == {}


def test_what_is_said_of_one_parameter_is_said_of_it_only():
    attributes = entries_of(budgetline.AnytimeClassifier, DocstringSectionAttributes)
    assert [name for name, entry in attributes.items() if "log odds" in entry.description] == ["coef_path_"]
    parameters = entries_of(budgetline.AnytimeClassifier, DocstringSectionParameters)
    assert [name for name, entry in parameters.items() if "LogisticRegression" in entry.description] == ["alpha"]
    assert "classes_" not in entries_of(budgetline.AnytimeRanker, DocstringSectionAttributes)

    def unclear():
        """Learn.

        Parameters
        ----------
        alpha, correction : float
            As in ``AnytimeRegressor``. Only one of them.
        """

    with pytest.raises(ValueError, match=r"alpha, correction: which of them is .* an entry of its own"):
        entries_of(unclear, DocstringSectionParameters)


def test_a_parameter_is_described_by_the_object_that_its_docstring_names():
    alpha = entries_of(budgetline.AnytimeSurvival, DocstringSectionParameters)["alpha"]
    assert alpha.description.startswith("Ridge constant")
    text = "The ``AnytimeClassifier`` and `plan`, `AnytimeClassifier`.\n\n```python\n`AnytimeRegressor`\n```\n"
    assert linked(text) == text.replace("``AnytimeClassifier``", "[`AnytimeClassifier`][budgetline.AnytimeClassifier]")


def test_every_picture_can_be_shown():
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    named = [(page, name) for page in pages for name in re.findall(r"!\[[^\]]*\]\(([^)]+)\)", page.read_text("utf-8"))]
    pictures = {(page.parent / name).resolve() for page, name in named}
    assert len(pictures) > 30
    for picture in pictures:
        if picture.suffix == ".svg":
            root = ElementTree.parse(picture).getroot()
            assert root.tag == "{http://www.w3.org/2000/svg}svg", picture
            assert len(list(root.iter())) > 20, picture
        else:
            with Image.open(picture) as image:
                image.load()
                assert min(image.size) > 100, picture


@pytest.mark.parametrize("name", PICTURES)
def test_the_pictures_of_the_benchmarks_show_what_the_results_say(name):
    assert PICTURES[name]() == (IMAGES / name).read_text(encoding="utf-8"), "python tools/benchmark_pictures.py"
    assert f"(images/{name})" in (ROOT / "docs" / "benchmarks.md").read_text(encoding="utf-8")


def test_links_inside_the_site_lead_somewhere(site):
    pages = pages_of(site)
    ids = {name: set(re.findall(r'\bid="([^"]+)"', page)) for name, page in pages.items()}
    broken = []
    for name, page in pages.items():
        for link in re.findall(r'<a[^>]+href="([^"]+)"', page):
            path, _, anchor = unquote(unescape(link)).partition("#")
            if re.match(r"[a-z]+:", path) or name == "404.html":
                continue
            target = normpath((Path(name).parent / path).as_posix()) if path else name
            if target == "." or (site / target).is_dir():
                target = normpath(f"{target}/index.html")
            if not (site / target).exists() or (anchor and target in ids and anchor not in ids[target]):
                broken.append((name, link))
    assert not broken


# -- on screens ------------------------------------------------------------------------------------------------

LAPTOP, PHONE = 1300, 400
CUT_OFF = """() => {
  const root = document.documentElement
  const scrolled = [...document.querySelectorAll(".md-content *")].filter((e) =>
    e.clientWidth && getComputedStyle(e).overflowX !== "visible" && e.scrollWidth > e.clientWidth + 1)
  const shown = scrolled.filter((e) => !e.closest(".language-text"))  // columns are scrolled
  const found = shown.map((e) => `${e.tagName}.${e.className}: ${e.textContent.trim().slice(0, 60)}`)
  return root.scrollWidth > root.clientWidth ? ["the page", ...found] : found
}"""
TABLES_WRAPPED = """() => [...document.querySelectorAll(".md-typeset table:not([class])")].every(
  (e) => e.closest(".md-typeset__scrollwrap"))"""
TABLE = "DIV.md-typeset__scrollwrap"


@pytest.fixture(scope="module")
def browser():
    """Return the one browser of these tests."""
    with chromium() as found:
        yield found


@pytest.fixture(scope="module")
def cut_off(site, browser):
    """Return a function that tells what of a page does not fit the width of a screen."""
    pages = {width: new_context(browser, width, 900).new_page() for width in (LAPTOP, PHONE)}

    def look(name, width, style=""):
        pages[width].goto((site / name).as_uri())
        pages[width].wait_for_function(TABLES_WRAPPED)  # by a script of the theme
        if style:
            pages[width].add_style_tag(content=style)
        return pages[width].evaluate(CUT_OFF)

    return look


@NEEDS_BROWSER
@pytest.mark.slow
@pytest.mark.parametrize("width", [LAPTOP, PHONE])
@pytest.mark.parametrize(
    "name", ["index.html", "quickstart.html", "guide/raw_tables.html", "api/AnytimeClassifier.html"]
)
def test_nothing_is_cut_off(cut_off, name, width):
    assert cut_off(name, width) == []


@NEEDS_BROWSER
@pytest.mark.slow
@pytest.mark.parametrize("width", [LAPTOP, PHONE])
def test_the_search_finds_a_page_where_the_site_is_read_from_disk(site, browser, width):
    page = new_context(browser, width, 900).new_page()
    page.goto((site / "guide" / "plans.html").as_uri())
    page.click("label.md-header__button[for=__search]" if width == PHONE else ".md-search__input")
    page.keyboard.type("group lasso")
    page.wait_for_selector(".md-search-result__link")
    links = page.eval_on_selector_all(".md-search-result__link", "all => all.map(link => link.href)")
    page.context.close()
    assert any(link.startswith((site / "results" / "group_lasso.html").as_uri()) for link in links)


@NEEDS_BROWSER
@pytest.mark.slow
def test_what_is_cut_off_is_seen(cut_off):
    assert cut_off("quickstart.html", PHONE, ".md-typeset pre > code { white-space: pre !important }")
    assert "the page" in cut_off("quickstart.html", PHONE, ".md-content { min-width: 500px }")


@NEEDS_BROWSER
@pytest.mark.slow
def test_nothing_is_cut_off_on_any_page(site, cut_off):
    names = [path.relative_to(site).as_posix() for path in site.rglob("*.html")]
    assert len(names) > 30
    assert {name: found for name in names if (found := cut_off(name, LAPTOP))} == {}
    # tables of many columns may be scrolled on a phone
    narrow = {name: [what for what in cut_off(name, PHONE) if not what.startswith(TABLE)] for name in names}
    assert {name: found for name, found in narrow.items() if found} == {}


# -- for everyone ----------------------------------------------------------------------------------------------

SAMPLE = [
    "index.html", "quickstart.html", "benchmarks.html", "when.html", "gallery/index.html", "guide/plans.html",
    "without_code/command_line.html", "api/index.html", "api/AnytimeClassifier.html", "results/quality.html",
    "404.html",
]  # fmt: skip
AXE = "() => axe.run().then(({violations}) => violations.map(v => [v.impact, v.id, v.nodes[0].html.slice(0, 160)]))"


class Quiet(SimpleHTTPRequestHandler):
    """Serves files without a line for each."""

    def log_message(self, *arguments):
        pass


@pytest.fixture
def address(site):
    """Return the address at which the site is served."""
    with ThreadingHTTPServer(("localhost", 0), partial(Quiet, directory=site)) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://localhost:{server.server_port}"
        server.shutdown()


@pytest.fixture
def violations(address, browser):
    """Return a function that tells what axe-core finds on a page."""
    axe = (files("axe_playwright_python") / "axe.min.js").read_text(encoding="utf-8")

    def look(name, width, scheme, spoil=""):
        page = new_context(browser, width, 900, color_scheme=scheme).new_page()
        page.goto(f"{address}/{name}")
        page.wait_for_function(TABLES_WRAPPED)
        page.evaluate(f"() => {{ {spoil} }}")
        page.evaluate(axe)
        found = page.evaluate(AXE)
        page.context.close()
        return [where for impact, *where in found if impact in ("serious", "critical")]

    return look


NEEDS_AXE = pytest.mark.skipif(
    find_spec("axe_playwright_python") is None, reason="needs axe-core (pip install axe-playwright-python)"
)


@NEEDS_BROWSER
@NEEDS_AXE
@pytest.mark.slow
def test_axe_finds_nothing_serious(violations):
    seen = {(name, w, s): violations(name, w, s) for name in SAMPLE for w, s in ((LAPTOP, "light"), (PHONE, "dark"))}
    assert {where: found for where, found in seen.items() if found} == {}


@NEEDS_BROWSER
@NEEDS_AXE
@pytest.mark.slow
def test_axe_finds_a_picture_without_words(violations):
    spoil = "document.querySelector('main img').removeAttribute('alt')"
    assert [rule for rule, html in violations("index.html", LAPTOP, "light", spoil)] == [
        "image-alt",
        "link-name",
    ]  # the picture is a link
