"""The report in a real browser: what the slider shows is what the library says, and nothing leaves the page."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from browser import NEEDS_BROWSER, chromium, new_context
from sklearn.base import clone, is_classifier
from sklearn.model_selection import KFold, StratifiedKFold

from budgetline import (
    AnytimeClassifier,
    AnytimeRegressor,
    Encoding,
    budget_curve,
    cross_val_budget_curve,
    make_report,
)
from budgetline.datasets import load_heart, load_nhanes

pytestmark = [NEEDS_BROWSER, pytest.mark.quick_cases(2)]
EVIL = "</script><script>document.title = 'broken'</script><img src=x onerror=\"document.title = 'broken'\">"
SCHEMES = ["light", pytest.param("dark", marks=pytest.mark.slow)]
WIDTHS = {"desktop": (1280, 900), "tablet": (720, 900), "phone": (360, 740)}


@pytest.fixture(scope="module")
def browser():
    with chromium() as browser:
        yield browser


@pytest.fixture
def visit(browser):
    """Return a function that opens a summary's page; at the end nothing may have gone wrong or left the page."""
    trouble, contexts = [], []

    def handle(route):
        if not route.request.url.startswith("file://"):
            trouble.append(f"request {route.request.url}")
            route.abort()
        else:
            route.continue_()

    def open_page(summary, folder, width="desktop", **options):
        path = folder / "report.html"
        summary.write(path)
        context = new_context(browser, *WIDTHS[width], **options)
        contexts.append(context)
        context.route("**/*", handle)
        page = context.new_page()
        page.on("console", lambda message: trouble.append(f"{message.type}: {message.text}"))
        page.on("pageerror", lambda error: trouble.append(f"error: {error}"))
        page.on("request", lambda r: None if r.url == path.as_uri() else trouble.append(f"request {r.url}"))
        page.goto(path.as_uri())
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert trouble == []


class Truth:
    """A model, its data and curves made without the report."""

    def __init__(self, model, data, metric, unit):
        self.model = model.fit(data.data, data.target)
        self.sequence = self.model.sequence_
        folds = (StratifiedKFold if is_classifier(model) else KFold)(5, shuffle=True, random_state=0)
        self.held_out = cross_val_budget_curve(clone(model), data.data, data.target, metric=metric, cv=folds)
        self.fitted = budget_curve(self.model, data.data, data.target, metric=metric)
        self.percent = metric == "explained"
        self.summary = make_report(self.model, data.data, data.target, unit=unit, title="A report")
        self.total = float(self.sequence.costs.sum())

    def number(self, value):
        text = f"{100 * value:.1f}" if self.percent else f"{value:.3f}"
        return text.replace("-", "" if float(text) == 0 else "−") + (" %" if self.percent else "")

    def error(self, budget):
        values = [fold.at(budget) for fold in self.held_out.folds]
        return np.std(values, ddof=1) / np.sqrt(len(values))

    def check(self, page, budget):
        stage = self.sequence.stage_at(budget)
        spent = self.fitted.costs[stage]
        assert page.locator("#quality").text_content() == self.number(self.held_out.at(budget))
        assert page.locator("#quality-error").text_content() == f"± {self.number(self.error(budget))}"
        assert self.number(self.fitted.values[stage]) in page.locator("#quality-training").text_content()
        assert float(page.locator("#spent").text_content().split()[0]) == pytest.approx(spent, rel=1e-5)
        groups = list(self.sequence.groups[:stage])
        assert page.locator("#groups li").all_text_contents() == (groups or ["none"])
        assert page.locator("tr.bought th").all_text_contents() == groups
        assert page.locator("#count").text_content() == f"{stage} of {len(self.sequence)}"
        valuetext = page.locator("#budget").get_attribute("aria-valuetext")
        assert self.number(self.held_out.at(budget)) in valuetext
        assert f"{stage} of {len(self.sequence)} groups" in valuetext
        if stage == len(self.sequence):
            assert page.locator("#next-group").text_content().startswith("none")
        else:
            assert page.locator("#next-group").text_content() == self.sequence.groups[stage]
            what = page.locator("#next-what").text_content()
            assert f"costs {self.sequence.costs[stage]:.6g}," in what
            here = self.held_out.at(spent) if stage else self.held_out.values[0]
            change = self.held_out.at(self.sequence.cumulative_costs[stage]) - here
            shown = self.number(change).replace(" %", " pp")
            assert (shown if shown.startswith("−") else f"+{shown}") in what


@pytest.fixture(scope="module")
def heart():
    data = load_heart()
    return Truth(AnytimeClassifier(data.feature_groups, alpha=1e-2), data, "roc_auc", "dollars")


@pytest.fixture(scope="module")
def nhanes():
    data = load_nhanes()
    return Truth(AnytimeRegressor(data.feature_groups, alpha=1e-2), data, "explained", "points")


@pytest.fixture(params=["heart", "nhanes"])
def truth(request):
    return request.getfixturevalue(request.param)


@pytest.mark.quick_cases(1)
def test_the_slider_by_filling_it(truth, visit, tmp_path):
    page = visit(truth.summary, tmp_path)
    for share in (0, 0.003, 0.011, 0.2, 0.37, 0.61, 0.83, 1):
        budget = share * truth.total
        page.locator("#budget").fill(repr(budget))
        truth.check(page, budget)
        assert float(page.locator("#budget-number").input_value()) == pytest.approx(budget)


def test_the_slider_by_keyboard_reaches_every_stage(truth, visit, tmp_path):
    page = visit(truth.summary, tmp_path)
    slider = page.locator("#budget")
    slider.focus()
    page.keyboard.press("Home")
    truth.check(page, 0.0)
    for k, cost in enumerate(truth.sequence.cumulative_costs):
        page.keyboard.press("ArrowRight" if k % 2 else "ArrowUp")
        assert float(slider.input_value()) == cost
        truth.check(page, cost)
    page.keyboard.press("ArrowRight")
    assert float(slider.input_value()) == truth.total
    page.keyboard.press("ArrowLeft")
    truth.check(page, truth.sequence.cumulative_costs[-2])
    page.keyboard.press("PageDown")
    truth.check(page, truth.sequence.cumulative_costs[-2] - truth.total / 10)
    page.keyboard.press("End")
    truth.check(page, truth.total)
    assert page.locator("#next").is_disabled()


def test_the_number_and_the_buttons(heart, visit, tmp_path):
    page = visit(heart.summary, tmp_path)
    field, slider = page.locator("#budget-number"), page.locator("#budget")
    field.fill("100")
    heart.check(page, 100.0)
    assert float(slider.input_value()) == 100
    assert page.locator("#left").text_content().startswith("6.7 left, too little")
    page.get_by_role("button", name="Next stage").click()
    heart.check(page, heart.sequence.cumulative_costs[5])
    for _ in range(2):
        page.get_by_role("button", name="Previous stage").click()
    heart.check(page, heart.sequence.cumulative_costs[3])
    field.fill("1e9")
    field.blur()
    heart.check(page, heart.total)
    assert float(field.input_value()) == pytest.approx(heart.total)
    field.fill("-3")
    heart.check(page, 0.0)
    field.fill("")
    heart.check(page, 0.0)
    assert page.locator("#previous").is_disabled()
    assert page.get_by_label("Budget in dollars", exact=True).get_attribute("type") == "range"


def test_it_opens_at_the_headline(heart, visit, tmp_path):
    page = visit(heart.summary, tmp_path)
    spent = float(heart.summary.headline.split()[0])
    assert float(page.locator("#budget").input_value()) == spent
    heart.check(page, spent)
    assert page.locator(".headline").text_content().replace("\xa0", " ") == heart.summary.headline


def test_the_curve_is_drawn_and_read_out(heart, visit, tmp_path):
    page = visit(heart.summary, tmp_path)
    dots = page.locator("#curve .dot")
    assert dots.count() == 1 + len(heart.sequence)
    assert page.locator("#curve .band").count() == 1
    ys = [float(dots.nth(k).get_attribute("cy")) for k in range(dots.count())]
    costs = [0.0, *heart.sequence.cumulative_costs]
    values = [heart.held_out.values[0], *heart.held_out.at(heart.sequence.cumulative_costs)]
    slope, _ = np.polyfit(values, ys, 1)
    np.testing.assert_allclose(np.diff(ys), slope * np.diff(values), atol=1e-6)
    assert slope < 0
    xs = [float(dots.nth(k).get_attribute("cx")) for k in range(dots.count())]
    shares = np.sqrt(np.array(costs) / heart.total)  # most of the improvement is cheap: 3 of 324 dollars
    np.testing.assert_allclose((np.array(xs) - xs[0]) / (xs[-1] - xs[0]), shares, atol=1e-9)
    assert "(square-root scale)" in page.locator("#curve svg").text_content()
    dots.nth(0).focus()
    page.keyboard.press("ArrowRight")
    tip = page.locator("#curve .tip")
    assert tip.is_visible()
    assert heart.sequence.groups[0] in tip.text_content()
    assert heart.number(values[1]) in tip.text_content()
    page.keyboard.press("Enter")
    heart.check(page, costs[1])
    box = page.locator("#curve svg").bounding_box()
    page.mouse.move(box["x"] + box["width"] * 0.8, box["y"] + box["height"] / 2)
    tip.filter(has_not_text=heart.sequence.groups[0]).wait_for()  # of the mouse, not of the focus
    page.mouse.click(box["x"] + box["width"] * 0.8, box["y"] + box["height"] / 2)
    heart.check(page, float(page.locator("#budget").input_value()))
    assert page.locator("#scatter .dot").count() == len(heart.sequence)
    assert page.locator("#methods .dot").count() == len(heart.summary.comparison.methods)


def test_every_free_group_has_its_own_dot_and_value(visit, tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 3))
    y = X @ [2.0, 1.0, 0.5] + rng.normal(size=200)
    model = AnytimeRegressor(costs=[0.0, 0.0, 1.0]).fit(X, y)
    summary = make_report(model, X, y, baselines=False)
    page = visit(summary, tmp_path)
    dots = page.locator("#curve .dot")
    assert dots.count() == 4
    values = [value for value, _ in summary.expected]
    ys = [float(dots.nth(k).get_attribute("cy")) for k in range(4)]
    slope, _ = np.polyfit(values[1:], ys[1:], 1)
    np.testing.assert_allclose(np.diff(ys[1:]), slope * np.diff(values[1:]), atol=1e-6)
    # the value without groups is far below the others, which use the space
    assert max(ys) - min(ys[1:]) > 4 / 3 * (max(ys[1:]) - min(ys[1:])) - 60
    assert "0.0 % with no groups, beyond this axis" in page.locator("#curve svg").text_content().replace("−", "")
    dots.nth(0).focus()
    for value, _ in summary.expected[1:]:
        page.keyboard.press("ArrowRight")
        assert f"{100 * value:.1f}" in page.locator("#curve .tip").text_content()
    page.locator("#budget").fill("0")
    assert page.locator("#quality").text_content() == f"{100 * values[2]:.1f} %"
    assert page.locator("#count").text_content() == "2 of 3"


@pytest.mark.quick_cases(4)
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("scheme", SCHEMES)
def test_every_width_and_scheme(truth, width, scheme, visit, tmp_path):
    page = visit(truth.summary, tmp_path, width, color_scheme=scheme)
    page.locator("#budget").fill(repr(truth.total))
    scroll, inner = page.evaluate("[document.documentElement.scrollWidth, innerWidth]")
    assert scroll <= inner
    # the text of the read-out stays inside the page as well
    right = page.evaluate(
        "Math.max(...[...document.querySelectorAll('p, h1, h2, dl')].map(e => e.getBoundingClientRect().right))"
    )
    assert right <= inner
    page.screenshot(path=tmp_path / f"{width}_{scheme}.png", full_page=True)
    assert (tmp_path / f"{width}_{scheme}.png").stat().st_size > 10_000
    for selector in ("body", ".eyebrow", ".hint", "#quality", "td", "thead th"):
        assert contrast(page, selector) >= 4.5, selector


def contrast(page, selector):
    """Return the ratio of luminances of the first such element and what is behind it (WCAG 2)."""
    colours = page.evaluate(
        """selector => {
            let node = document.querySelector(selector);
            const text = getComputedStyle(node).color;
            while (node && getComputedStyle(node).backgroundColor === "rgba(0, 0, 0, 0)") node = node.parentElement;
            return [text, getComputedStyle(node).backgroundColor];
        }""",
        selector,
    )
    light = []
    for colour in colours:
        channels = np.array([int(c) for c in colour.removeprefix("rgb(").removesuffix(")").split(",")]) / 255
        linear = np.where(channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)
        light.append(linear @ [0.2126, 0.7152, 0.0722])
    return (max(light) + 0.05) / (min(light) + 0.05)


@pytest.mark.quick_cases(3)
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("scripts", [True, False])
def test_the_effects_stay_inside_their_pictures(width, scripts, visit, tmp_path):
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"job": rng.choice(list("abc"), 300), "a rather long name": rng.lognormal(size=300)})
    y = X["a rather long name"] * np.where(X["job"] == "a", 1, -1) + rng.normal(size=300)
    X.loc[rng.random(300) < 0.2] = None
    report = make_report(AnytimeRegressor(encoding=Encoding("spline", interactions=1)).fit(X, y))
    page = visit(report, tmp_path, width, java_script_enabled=scripts)
    assert page.locator(".effect svg").count() == len(report.effects) == 3
    assert [page.locator(f".effect {kind}").count() > 0 for kind in ("polyline", ".rug", "rect", "path")] == [True] * 4
    for picture in page.locator(".effect svg").all():
        outer = picture.bounding_box()
        for text in picture.locator("text").all():
            inner = text.bounding_box()
            assert outer["x"] - 4 <= inner["x"]
            assert inner["x"] + inner["width"] <= min(outer["x"] + outer["width"], WIDTHS[width][0]) + 4
            assert inner["y"] + inner["height"] <= outer["y"] + outer["height"] + 2


def test_resizing_redraws(heart, visit, tmp_path):
    page = visit(heart.summary, tmp_path)
    before = page.locator("#curve svg").get_attribute("viewBox")
    page.set_viewport_size({"width": 360, "height": 740})
    page.wait_for_function(
        "before => document.querySelector('#curve svg').getAttribute('viewBox') !== before", arg=before
    )
    assert page.evaluate("document.documentElement.scrollWidth") <= 360


def test_printing(heart, visit, tmp_path):
    page = visit(heart.summary, tmp_path, color_scheme="dark")
    page.emulate_media(media="print")
    assert not page.locator("#budget").is_visible()
    assert page.locator("#curve svg").is_visible()
    assert page.locator(".buys tbody tr").count() == 1 + len(heart.sequence)
    clipped = page.evaluate(
        "[...document.querySelectorAll('.scroll')].filter(e => getComputedStyle(e).overflow !== 'visible').length"
    )
    assert clipped == 0
    assert contrast(page, "td") > 10  # ink on paper, whatever the screen
    assert page.pdf(path=tmp_path / "report.pdf").startswith(b"%PDF")


def test_without_scripts_the_tables_are_there(heart, visit, tmp_path):
    page = visit(heart.summary, tmp_path, java_script_enabled=False)
    assert not page.locator("#budget").is_visible()
    assert page.locator("noscript").count() == 1
    assert page.locator("noscript p").is_visible()
    for name in ("order", "buys", "comparison", "details"):
        assert page.locator(f".{name} .scroll table").is_visible()


def test_names_do_not_run(visit, tmp_path):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 3))
    names = [EVIL, "<!--<script>", "a\u2028b"]
    model = AnytimeRegressor({name: [k] for k, name in enumerate(names)}).fit(X, X @ [3.0, 2.0, 1.0])
    page = visit(make_report(model, X, X @ [3.0, 2.0, 1.0], cv=3, title=EVIL, unit=EVIL), tmp_path)
    page.locator("#budget").fill("3")
    assert page.title() == " ".join(EVIL.split())
    assert page.locator("#groups li").all_text_contents() == names
    assert page.locator("img").count() == 0


@pytest.mark.parametrize("costs", [[0.0, 0.0, 0.0], [0.0, 2.0, 0.0], [1e-7, 1e9, 3.0]])
def test_strange_costs(costs, visit, tmp_path):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 3))
    model = AnytimeRegressor([[0], [1], [2]], costs).fit(X, X @ [3.0, 2.0, 1.0] + rng.standard_normal(60))
    page = visit(make_report(model), tmp_path)
    page.locator("#budget").focus()
    page.keyboard.press("End")
    assert page.locator("#count").text_content() == "3 of 3"
    assert page.locator("#quality").text_content() == f"{100 * model.sequence_.explained[-1]:.1f} %"
    page.keyboard.press("Home")
    assert page.locator("#count").text_content() == f"{costs.count(0.0)} of 3"
    assert "NaN" not in page.content()


def test_rounding_does_not_take_a_group_away(visit, tmp_path):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 3))
    model = AnytimeRegressor([[0], [1], [2]], [0.1, 0.2, 5.0]).fit(X, X @ [3.0, 2.0, 1.0])
    assert model.sequence_.cumulative_costs[1] > 0.3  # by rounding alone
    page = visit(make_report(model), tmp_path)
    page.locator("#budget-number").fill("0.3")
    assert page.locator("#count").text_content() == "2 of 3"
    page.locator("#next").click()
    assert page.locator("#count").text_content() == "3 of 3"


# -- the bound of a certificate ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def bounded(nhanes):
    """Return the certificate of a model and its report without data."""
    certificate = nhanes.model.certificate(time_limit=1)
    return certificate, make_report(nhanes.model, unit="points", certificate=certificate)


def corners(page, selector):
    """Return the corners of a path, shape (n, 2), y downwards."""
    text = page.locator(selector).get_attribute("d")
    return np.array([[float(v) for v in pair.split()] for pair in text.strip("MZ").replace("M", "L").split("L")])


def height_at(points, x):
    """Return how high (smallest y) a line of steps is at x; upright parts are not counted."""
    found = [a[1] for a, b in pairwise(points) if a[1] == b[1] and a[0] < x < b[0]]
    return min(found, default=None)


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("scheme", SCHEMES)
def test_the_bound_is_drawn_above_the_training_line(nhanes, bounded, width, scheme, visit, tmp_path):
    certificate, summary = bounded
    page = visit(summary, tmp_path, width, color_scheme=scheme)
    line, training = corners(page, "#curve .line-bound"), corners(page, "#curve .line-main")
    left, right = training[0, 0], training[-1, 0]
    assert (line[0, 0], line[-1, 0]) == (left, right)
    curve = nhanes.fitted  # without the penalty, which the bound includes
    slope, start = np.polyfit([curve.values[1], curve.values[-1]], [training[2, 1], training[-1, 1]], 1)
    seen = 0
    for x in np.linspace(left, right, 400)[1:-1] + 0.003:
        above, below = height_at(line, x), height_at(training, x)
        if above is None or below is None:
            continue
        seen += 1
        budget = ((x - left) / (right - left)) ** 2 * nhanes.total
        if budget < curve.costs[1]:  # the value without groups is at the edge
            continue
        found = certificate.at(budget)
        achieved = start + slope * found.achieved / certificate.null_value
        assert above <= achieved + 0.02  # of a pixel: coordinates have two decimals
        assert above == pytest.approx(start + slope * found.bound / certificate.null_value, abs=0.1)
        assert below == pytest.approx(start + slope * curve.at(budget), abs=0.1)
    assert seen > 300
    region = corners(page, "#curve .beyond")
    np.testing.assert_array_equal(region[:-2], line)
    assert region[-1, 1] == region[-2, 1] < line[:, 1].min()
    assert page.locator("#curve-legend .l-bound").text_content().startswith("upper bound on any set of groups")
    assert page.locator("#curve-legend .l-bound").is_visible()
    scroll, inner = page.evaluate("[document.documentElement.scrollWidth, innerWidth]")
    assert scroll <= inner
    assert page.evaluate("document.querySelector('#curve-legend').getBoundingClientRect().right") <= inner
    for name in ("stroke", "fill"):
        colour = page.evaluate(
            "([s, n]) => getComputedStyle(document.querySelector(s))[n]",
            ["#curve .line-bound" if name == "stroke" else "#curve .beyond", name],
        )
        assert colour == {"light": "rgb(123, 63, 152)", "dark": "rgb(215, 166, 238)"}[scheme]
    # the table is seen whole, also on a phone
    assert page.evaluate("(e => e.scrollWidth <= e.clientWidth)(document.querySelector('.optimality .scroll'))")
    rows = page.locator(".optimality tbody tr")
    assert rows.count() == 8
    for row, share in enumerate((0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0)):
        found = certificate.at(share * nhanes.total)
        cells = rows.nth(row).locator("td").all_text_contents()
        assert cells[:2] == [nhanes.number(v / certificate.null_value) for v in (found.achieved, found.bound)]
    page.screenshot(path=tmp_path / f"bound_{width}_{scheme}.png", full_page=True)


def test_a_training_line_above_the_bound_is_not_clipped(visit, tmp_path):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 3))
    y = X @ [3.0, 2.0, 1.0]
    model = AnytimeRegressor([[0], [1], [2]], [1.0, 2.0, 3.0], alpha=1.0).fit(X, y)
    summary = make_report(model, X, y, cv=3, baselines=False, certificate=model.certificate(time_limit=60))
    page = visit(summary, tmp_path)
    line, training = corners(page, "#curve .line-bound"), corners(page, "#curve .line-training")
    assert training[-1, 1] < line[-1, 1] - 10
    frame = page.locator("#curve svg").bounding_box()
    assert 0 < training[:, 1].min() < frame["height"]
    assert "so it can exceed the bound" in page.locator(".notes").text_content()


def test_no_line_where_there_is_nothing_to_draw(nhanes, visit, tmp_path):
    page = visit(nhanes.summary, tmp_path)
    assert page.locator("#curve .line-bound, #curve .beyond, .l-bound").count() == 0
    assert page.locator("#optimality").count() == 0
    assert page.locator("#curve .line-main").count() == 1


def test_the_bound_on_paper_and_without_scripts(bounded, visit, tmp_path):
    page = visit(bounded[1], tmp_path, color_scheme="dark")
    page.emulate_media(media="print")
    stroke = "getComputedStyle(document.querySelector('#curve .line-bound')).stroke"
    assert page.evaluate(stroke) == "rgb(123, 63, 152)"
    assert page.locator("#curve .line-bound").is_visible()
    assert page.locator("#curve-legend .l-bound").is_visible()
    plain = visit(bounded[1], tmp_path, java_script_enabled=False)
    assert plain.locator(".optimality table").is_visible()


@pytest.mark.parametrize("costs", [[0.0, 0.0, 0.0], [0.0, 2.0, 0.0], [1e-7, 1e9, 3.0]])
def test_bounds_with_strange_costs(costs, visit, tmp_path):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 3))
    model = AnytimeRegressor([[0], [1], [2]], costs).fit(X, X @ [3.0, 2.0, 1.0] + rng.standard_normal(60))
    page = visit(make_report(model, certificate=model.certificate(time_limit=60)), tmp_path)
    assert np.isfinite(corners(page, "#curve .line-bound")).all()
    assert "NaN" not in page.content()


# -- thresholds, warnings, equal costs -----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def churn():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 4))
    y = np.where(2 * X[:, 0] + X[:, 1] + rng.normal(size=600) > 1, f"x {EVIL}", "stays")
    return make_report(AnytimeClassifier(alpha=1e-3).fit(X, y), X, y, cv=3, baselines=False)


def percent(value):
    return "–" if value is None else f"{100 * value:.1f} %"


@pytest.mark.parametrize("width", WIDTHS)
def test_the_threshold_shows_what_the_record_says(churn, width, visit, tmp_path):
    page, found = visit(churn, tmp_path, width), churn.probabilities
    slider = page.locator("#threshold")
    assert slider.get_attribute("aria-valuetext") == "50 %"
    for budget, k in ((4, 20), (4, 54), (1, 54), (0, 10)):
        page.locator("#budget").fill(str(budget))
        slider.fill(str(k))
        _, *values = found.called(budget, k)
        shown = page.locator("#called td.num").all_text_contents()
        assert shown == [percent(value) for value in values]
        assert f"With {budget} of 4 groups" in page.locator("#threshold-what").text_content()
        table = page.locator(".thresholds .scroll table")
        assert table.locator("th").first.text_content() == f"threshold, with {budget} of 4 groups"
        half = table.locator("tbody tr", has_text="50 %").first.locator("td").all_text_contents()
        assert half == [percent(value) for value in found.called(budget, found.thresholds.index(0.5))]
        assert slider.get_attribute("aria-valuetext") == f"{100 * found.thresholds[k]:g} %"
    scroll, inner = page.evaluate("[document.documentElement.scrollWidth, innerWidth]")
    assert scroll <= inner
    slider.focus()
    page.keyboard.press("ArrowRight")
    assert slider.get_attribute("aria-valuetext") == f"{100 * found.thresholds[11]:g} %"


def test_the_reliability_plot_shows_what_happened(churn, visit, tmp_path):
    page = visit(churn, tmp_path)
    page.locator("#budget").fill("4")
    counts = churn.probabilities.at(4)
    dots = page.locator("#reliability .dot")
    places = np.array([[float(dots.nth(k).get_attribute(name)) for name in ("cx", "cy")] for k in range(dots.count())])
    assert 5 <= len(places) <= 10
    line = page.locator("#reliability .diagonal")
    x1, y1, x2, y2 = (float(line.get_attribute(name)) for name in ("x1", "y1", "x2", "y2"))
    said, came = (places[:, 0] - x1) / (x2 - x1), (places[:, 1] - y1) / (y2 - y1)  # of the end of the axes
    end = float(page.locator("#reliability text[text-anchor=end]").all_text_contents()[-2].split()[0]) / 100
    edges = np.array([0.0, *churn.probabilities.thresholds, 1.0])
    rows, expected = np.zeros(3), []
    for k, (low, high) in enumerate(pairwise(edges)):
        here = counts.first[k] + counts.second[k]
        rows += [here, here * (low + high) / 2, counts.second[k]]
        left = sum(counts.first[k + 1 :]) + sum(counts.second[k + 1 :])
        if rows[0] and (left == 0 or (rows[0] >= 60 and left >= 30)):
            expected.append(rows[1:] / rows[0])
            rows[:] = 0
    np.testing.assert_allclose(end * np.column_stack([said, came]), expected, atol=1e-6)


def test_folds_that_buy_more_than_the_model_do_not_leave_the_chart(churn, visit, tmp_path):
    curve = churn.curves[1]
    longer = replace(curve, costs=(*curve.costs, 6.0), values=(*curve.values, 0.1), errors=(*curve.errors, 0.0))
    pages = [visit(replace(churn, curves=(churn.curves[0], each)), tmp_path) for each in (curve, longer)]
    first, second = (page.locator("#curve .line-main").get_attribute("d") for page in pages)
    assert first == second


def test_reports_of_other_tasks_have_no_threshold(nhanes, visit, tmp_path):
    page = visit(nhanes.summary, tmp_path)
    assert page.locator("#threshold").count() == 0


@pytest.mark.parametrize("width", WIDTHS)
def test_equal_costs_and_a_warning(churn, width, visit, tmp_path):
    curve = churn.curves[1]
    worse = replace(curve, values=(*curve.values[:-1], 0.5), errors=(*curve.errors[:-1], 0.0))
    page = visit(replace(churn, curves=(churn.curves[0], worse)), tmp_path, width)
    assert page.locator("#scatter").is_hidden()
    assert page.locator(".warning").text_content().startswith("More groups make predictions worse: held-out ROC AUC is")
    assert "more groups make it worse" in page.locator(".headline").text_content()
    box = page.locator(".warning").bounding_box()
    assert box["x"] + box["width"] <= WIDTHS[width][0]
    page = visit(churn, tmp_path, width)
    assert page.locator(".warning").count() == 0
