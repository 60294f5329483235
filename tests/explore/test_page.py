"""The page of ``budgetline explore`` in Chromium: what it shows is what the library says, by keyboard and by mouse."""

import io
import re
import subprocess
import sys
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from browser import NEEDS_BROWSER, chromium, new_context
from explore_browser import Explorer, served
from sklearn.utils import shuffle

from budgetline import AnytimeClassifierCV, AnytimeRegressorCV
from budgetline.datasets import load_bank
from budgetline.explore.serving import browser_at

pytestmark = [
    NEEDS_BROWSER,
    *(
        pytest.mark.skipif(find_spec(name) is None, reason=f"no {name} here: pip install {name}")
        for name in ("starlette", "uvicorn", "yaml")
    ),
]
EVIL = "<img src=x onerror=\"document.title='broken'\">"


@pytest.fixture(scope="module")
def browser():
    with chromium() as found:
        yield found


@pytest.fixture
def visit(browser):
    """Return a function that explores a file; at the end nothing may have gone wrong on the page."""

    @contextmanager
    def explore(folder, *arguments, width=1300, **options):
        with served(folder, *arguments, "--reset") as address:
            explorer = Explorer(browser, address, width, **options)
            try:
                yield explorer
            finally:
                explorer.context.close()
            assert explorer.trouble == []

    return explore


def small_table(seed=0):
    """A raw table with a clear order: text, numbers and missing values."""
    rng = np.random.default_rng(seed)
    n = 240
    table = pd.DataFrame({name: rng.standard_normal(n) for name in ("weight", "pulse", "height", "noise")})
    table["colour"] = rng.choice(["red", "green", "blue"], n)
    table["y"] = 3 * table["weight"] + 2 * table["pulse"] + table["height"] + 1.5 * (table["colour"] == "red")
    table["y"] += 0.3 * rng.standard_normal(n)
    table.loc[::17, "noise"] = np.nan
    return table.round(6)


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    folder = tmp_path_factory.mktemp("explore")
    small_table().to_csv(folder / "small.csv", index=False)
    return folder


def library(frame, target, groups, classify=False):
    """Fit what the table of groups shows, as ``budgetline fit`` does, with the library alone."""
    kind = AnytimeClassifierCV if classify else AnytimeRegressorCV
    columns = {name: found for name, (found, _) in groups.items()}
    costs = {name: cost for name, (_, cost) in groups.items()}
    search = kind(columns, costs, encoding="spline", interactions=(0, 20), min_gain=0.01 / len(frame), cv=5)
    return search.fit(*shuffle(frame.drop(columns=target), frame[target], random_state=0))


def command_line(*arguments, folder):
    command = [sys.executable, "-m", "budgetline", *map(str, arguments)]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


# -- one session, from the file to the prediction ------------------------------------------------------------------


@pytest.mark.slow
def test_a_session_from_the_file_to_the_prediction(small, visit, tmp_path):
    frame = pd.read_csv(small / "small.csv")
    with visit(small, "small.csv") as explorer:
        page = explorer.page
        assert page.get_by_role("heading", level=1).text_content() == "What do you want to predict?"
        assert page.locator("#workplace").is_hidden()
        assert "token" not in page.url
        explorer.predict("y")
        assert explorer.order() == list(library(frame, "y", explorer.groups()).sequence_.groups)
        explorer.select("weight", "pulse")
        explorer.button("Merge").click()
        explorer.settled()
        assert explorer.groups()["weight"] == (["weight", "pulse"], 2)
        before = explorer.order()
        explorer.price("weight", 40)
        explorer.settled()
        model = library(frame, "y", explorer.groups())
        assert explorer.order() == list(model.sequence_.groups) != before
        assert page.locator("#steps tr[data-group=weight] .fell").is_visible()
        explorer.field("Budget in cost units, as a number").fill("3")
        explorer.settled("order", "plan")
        assert page.locator("#bought li").all_text_contents() == list(
            model.sequence_.groups[: model.sequence_.stage_at(3)]
        )
        assert page.locator("#plan-proof").text_content() == "proven best"
        assert set(page.locator("#plan-groups li").all_text_contents()) == set(model.plan(3).groups)
        path = explorer.download("Model", tmp_path)
    said = command_line("predict", path, small / "small.csv", "--budget", 3, folder=tmp_path)
    predicted = pd.read_csv(io.StringIO(said)).iloc[:, -1]
    np.testing.assert_allclose(predicted, model.predict(frame.drop(columns="y"), budget=3), rtol=1e-9)


def test_an_order_that_is_not_final_is_called_so(small, visit):
    def as_first(route):
        answer = route.fetch()
        found = answer.json()
        if "steps" in found["parts"].get("order", {}):
            unknown = dict.fromkeys(("measure", "curve", "training"))
            found["parts"]["order"] |= {"preliminary": True, "headline": "", **unknown}
        route.fulfill(response=answer, json=found)

    with visit(small, "small.csv") as explorer:
        page = explorer.page
        page.route("**/api/results*", as_first)
        explorer.button("Predict y").click()
        page.get_by_text("This is a preliminary order. It may still change").wait_for()
        assert page.locator("#order-result").get_attribute("data-fresh") == "false"
        assert page.locator("#order-curve").is_hidden()
        assert explorer.order()[0] == "weight"
        page.unroute_all(behavior="ignoreErrors")


@pytest.mark.slow
def test_the_bank_by_keyboard_alone(visit, tmp_path):
    frame = load_bank().frame.iloc[::3].reset_index(drop=True)
    frame.to_csv(tmp_path / "bank.csv", sep=";", index=False)
    with visit(tmp_path, "bank.csv") as explorer:
        page = explorer.page

        def press(node, *keys):
            """Walk to an element with the tab key, then press keys."""
            wanted = node.element_handle()
            for _ in range(600):
                if page.evaluate("node => document.activeElement === node", wanted):
                    break
                page.keyboard.press("Tab")
            else:
                raise AssertionError(f"{node} cannot be reached with the tab key")
            for key in keys:
                page.keyboard.press(key)

        press(explorer.button("Predict y"), "Enter")
        explorer.settled()
        truth = library(frame, "y", explorer.groups(), classify=True)
        assert explorer.order() == list(truth.sequence_.groups)
        press(explorer.field("Select duration"), "Space")
        press(explorer.field("Select campaign"), "Space")
        press(explorer.button("Merge"), "Enter")
        explorer.settled()
        merged = next(name for name, (columns, _) in explorer.groups().items() if len(columns) == 2)
        page.keyboard.type("the call")
        page.keyboard.press("Enter")
        explorer.settled()
        assert sorted(explorer.groups()["the call"][0]) == ["campaign", "duration"]
        assert merged not in explorer.groups()
        press(explorer.field("Cost of the call"), "Control+a", *"30", "Enter")
        explorer.settled()
        model = library(frame, "y", explorer.groups(), classify=True)
        assert explorer.groups()["the call"][1] == 30
        assert explorer.order() == list(model.sequence_.groups)
        assert explorer.order()[0] != "the call"
        press(explorer.field("Budget in cost units"), "Home", "ArrowRight", "ArrowRight", "ArrowRight")
        explorer.settled("order", "plan")
        budget = float(page.locator("#budget-number").input_value())
        order = model.sequence_
        assert budget == pytest.approx(np.unique(order.cumulative_costs)[2])
        stage = order.stage_at(budget)
        assert page.locator("#bought li").all_text_contents() == list(order.groups[:stage])
        # a longer search may find a better set, but none that is worse than the order
        planned = page.locator("#plan-groups li").all_text_contents()
        assert sum(cost for name, (_, cost) in explorer.groups().items() if name in planned) <= budget
        said = re.findall(r"explain ([\d.]+)\s%", page.locator("#plan-what").text_content())
        assert float(said[0]) >= float(said[-1])
        assert float(said[0]) >= 100 * order.explained[stage - 1] - 0.1
        with page.expect_download() as found:
            press(page.locator("#downloads button").first, "Enter")
        found.value.save_as(tmp_path / "bank.budgetline")
    said = command_line("predict", "bank.budgetline", "bank.csv", "--budget", budget, "--proba", folder=tmp_path)
    predicted = pd.read_csv(io.StringIO(said)).iloc[:, -1]
    truth = model.predict_proba(frame.drop(columns="y"), budget=budget)[:, 1]
    np.testing.assert_allclose(predicted, truth, rtol=1e-6)


# -- groups ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def session(small, visit):
    """A page with a target, of a new session."""
    with visit(small, "small.csv", "-t", "y") as explorer:
        explorer.settled()
        yield explorer


@pytest.mark.slow
def test_columns_move_by_mouse_and_by_keyboard(session):
    page = session.page
    start = session.groups()
    page.locator("tr[data-group=pulse] .chip").drag_to(page.locator("#group-rows tr[data-group=height]"))
    session.settled()
    assert session.groups()["height"][0] == ["height", "pulse"]
    assert "pulse" not in session.groups()
    session.button("Move pulse").press("Enter")
    page.get_by_label("Move to").select_option("a new group")
    session.field("Name of the new group").fill("heart")
    session.field("Its cost").fill("2.5")
    page.keyboard.press("Enter")
    session.settled()
    assert session.groups()["heart"] == (["pulse"], 2.5)
    page.locator("tr[data-group=noise] .chip").drag_to(page.locator("#unused"))
    session.settled()
    assert "noise" not in session.groups()
    assert page.locator("#unused .chip").all_text_contents() == ["noise"]
    for _ in range(3):
        page.keyboard.press("Control+z")
    session.settled()
    assert session.groups() == start
    for _ in range(3):
        page.keyboard.press("Control+Shift+z")
    session.settled()
    assert session.groups()["heart"] == (["pulse"], 2.5)
    assert sorted(session.order()) == ["colour", "heart", "height", "weight"]


@pytest.mark.slow
def test_split_shared_costs_and_needs(session):
    page = session.page
    session.select("weight", "pulse")
    session.button("Merge").click()
    session.settled()
    session.select("weight")
    session.button("Split").click()
    session.settled()
    assert session.groups()["pulse"] == (["pulse"], 1)
    session.button("weight needs nothing first. Change").click()
    page.locator("#dialog").get_by_label("height").check()
    session.button("Save").click()
    session.settled()
    assert session.order().index("height") < session.order().index("weight")
    session.button("Add a shared cost…").click()
    dialog = page.locator("#dialog")
    dialog.get_by_label("Name").fill("visit")
    dialog.get_by_label("Cost", exact=True).fill("5")
    for name in ("weight", "height"):
        dialog.get_by_label(name).check()
    session.button("Save").click()
    session.settled()
    assert "visit costs 5, shared by weight, height" in page.locator("#shared").text_content()
    with page.expect_download() as found:
        session.button("Export groups").click()
    text = Path(found.value.path()).read_text(encoding="utf-8")
    session.button("Undo").click()
    session.settled()
    assert page.locator("#shared li").count() == 0
    page.locator("#import-file").set_input_files({"name": "g.yaml", "mimeType": "text/yaml", "buffer": text.encode()})
    session.settled()
    assert page.locator("#shared li").count() == 1


@pytest.mark.slow
def test_what_the_page_says_of_the_target_and_of_columns_that_do_not_help(visit, tmp_path):
    frame = small_table().assign(patient_id=np.arange(240) + 1, site="Ulm")
    frame["ill"] = np.where(frame["y"] > 0, "yes", "no")
    frame.loc[:4, "ill"] = None
    frame.to_csv(tmp_path / "ill.csv", index=False)
    with visit(tmp_path, "ill.csv") as explorer:
        page = explorer.page
        explorer.predict("ill")
        assert page.evaluate("scrollY") == 0
        lead = page.locator("#table-lead").text_content()
        assert lead.startswith(
            "From 6 other columns of ill.csv (240 rows). 5 rows without a value of ill are not used."
        )
        assert "Predicted probabilities are for ill = yes (the other class is no)." in lead
        out = page.locator("#left-out").text_content()
        assert "patient_id (240 different values in 240 rows), site (the same value in every row)" in out
        assert "patient_id" not in explorer.groups()
        explorer.settled("effects")
        assert all("means class yes" in text for text in page.locator("#effects figcaption").all_text_contents())
        explorer.button("Use them anyway").click()
        explorer.settled()
        assert {"patient_id", "site"} <= set(explorer.groups())
        assert page.locator("#left-out").is_hidden()
        steps = page.evaluate(
            """[...document.querySelectorAll("main h1, main h2")].filter(node => node.checkVisibility())
                .map(node => [getComputedStyle(node, "::before").content, node.textContent])"""
        )
        assert [text for _, text in steps] == [
            "Predict ill", "Groups and prices", "Order and curve", "Budget", "Compare", "Take away"
        ]  # fmt: skip
        assert all("step" in content for content, _ in steps)


@pytest.mark.slow
def test_errors_name_the_thing_and_change_nothing(session):
    page = session.page
    session.expected.append("422")  # the browser notes every answer of 400 and above
    start = session.groups()
    session.field("Cost of pulse").fill("-3")
    page.keyboard.press("Enter")
    page.get_by_role("alert").filter(has_text="The cost of pulse must be 0 or a positive number").wait_for()
    page.keyboard.press("Escape")
    session.field("Name of group pulse").fill("weight")
    page.keyboard.press("Enter")
    page.get_by_role("alert").filter(has_text="weight").wait_for()
    session.settled()
    assert session.groups() == start
    session.button("Close").click()
    assert page.locator("#alert").is_hidden()


@pytest.mark.slow
def test_a_hundred_quick_edits_leave_the_right_state(session):
    rng = np.random.default_rng(0)
    names = list(session.groups())
    last = {}
    for _ in range(100):
        name, cost = str(rng.choice(names)), int(rng.integers(1, 50))
        session.price(name, cost, key="Tab")
        last[name] = cost
    session.settled()
    shown = session.groups()
    assert {name: cost for name, (_, cost) in shown.items()} == {name: last.get(name, 1) for name in names}
    frame = small_table()
    assert session.order() == list(library(frame, "y", shown).sequence_.groups)
    session.page.reload()
    session.settled()
    assert session.groups() == shown
    # edits that are made at once, without waiting for any answer: only the last ticks count
    ticks = session.page.locator("#available input")
    for k in [*range(ticks.count()), *range(0, ticks.count(), 2)]:
        ticks.nth(k).click()
    session.settled("order", "next")
    assert [ticks.nth(k).is_checked() for k in range(ticks.count())] == [k % 2 == 1 for k in range(ticks.count())]


@pytest.mark.slow
def test_a_lost_connection_comes_back_by_itself(session):
    page = session.page
    session.expected.append("ERR_FAILED")
    session.context.route("**/api/**", lambda route: route.abort())
    session.price("pulse", 9)
    page.wait_for_selector("#lost:not([hidden])")
    session.price("height", 4)
    session.context.unroute_all()
    page.wait_for_selector("#lost[hidden]", state="attached")
    session.settled()
    assert (session.groups()["pulse"][1], session.groups()["height"][1]) == (9, 4)


@pytest.mark.slow
def test_another_tab_follows_and_stopping_is_told(session):
    page, other = session.page, session.context.new_page()
    address, token = page.url, page.evaluate("sessionStorage.getItem('token')")
    other.goto(f"{address}#token={token}")
    other.wait_for_selector("tr[data-group=pulse]")
    session.price("pulse", 12)
    session.settled()
    revision = page.locator("body").get_attribute("data-revision")
    other.wait_for_selector(f"body[data-revision='{revision}'] #order-result[data-fresh=true]")
    assert other.get_by_label("Cost of pulse", exact=True).input_value() == "12"
    assert other.locator("#steps th").all_text_contents() == session.order()
    other.close()
    session.expected.append("net::ERR")  # the request that waits for news ends with the server
    session.button("Stop budgetline").click()
    page.get_by_role("status").filter(has_text="budgetline has stopped").wait_for()


@pytest.mark.slow
def test_the_page_says_that_another_program_changed_the_session(small, browser, tmp_path):
    path = tmp_path / "mine.explore"
    with served(small, "small.csv", "-t", "y", "--session", str(path)) as address:
        explorer = Explorer(browser, address)
        explorer.settled()
        assert explorer.page.locator("#unsaved").is_hidden()
        path.write_text(theirs := path.read_text().replace('"title": ""', '"title": "theirs"'))
        explorer.price("pulse", 9)
        explorer.settled()
        told = explorer.page.locator("#unsaved").text_content()
        assert told.startswith("Not saved: mine.explore was changed by another program.")
        assert path.read_text() == theirs
        kept = explorer.download("Session", tmp_path)  # as the page advises
        explorer.expected.append("net::ERR")
        explorer.button("Stop budgetline").click()
        explorer.page.get_by_role("status").filter(has_text="Your last changes were not saved").wait_for()
        explorer.context.close()
        assert explorer.trouble == []
    assert '"cost": 9.0' in kept.read_text()


@pytest.mark.slow
def test_a_private_file_leads_to_the_page(small, browser, tmp_path, monkeypatch):
    opened = []
    monkeypatch.setattr("webbrowser.open", opened.append)
    with served(small, "small.csv", "--reset") as address, browser_at(address):
        context = new_context(browser, 1300, 900)
        page = context.new_page()
        page.goto(opened[0])
        page.wait_for_selector("#columns tr")
        assert page.url == address.split("#")[0]
        context.close()


@pytest.mark.slow
def test_todays_order_and_what_comes_next(session):
    page = session.page
    page.locator("#today").fill("noise, colour\nheight")
    session.button("Compare").click()
    session.settled("order", "compare")
    assert page.locator("#methods tr").count() == 3  # all costs are equal: without cheapest first
    assert page.locator("#compare-plot .line").count() == 3
    assert page.locator("#methods tr").nth(2).locator("td").nth(1).text_content().startswith("noise, colour, height")
    page.locator("#available").get_by_text("weight").click()
    session.settled("order", "next", "effects")
    assert page.locator("#next-rows th").first.text_content() != "weight"
    assert page.locator("#next-rows tr").count() == 4
    assert page.locator("#effects figure").count() > 0
    assert "--available weight" in page.locator("#shell").text_content()


@pytest.mark.slow
def test_every_free_group_has_its_own_dot_and_value(session):
    page = session.page
    session.price("weight", 0)
    session.price("pulse", 0)
    session.settled()
    assert session.order()[:2] == ["weight", "pulse"]
    values = page.locator("#steps tr td:nth-child(6)").all_text_contents()
    heights = [float(dot.get_attribute("cy")) for dot in page.locator("#order-plot .dot").all()]
    assert len(set(values[:2])) == 2
    assert heights[0] > heights[1] + 5 > heights[2] + 10
    dots = page.locator("#order-plot .dot")
    dots.nth(0).focus()
    page.keyboard.press("ArrowRight")
    assert "1. weight" in (tip := page.locator("#order-plot .tip").text_content())
    assert values[0].removesuffix(" %") in tip


@pytest.mark.slow
def test_names_are_text(visit, tmp_path):
    frame = small_table().rename(columns={"pulse": EVIL, "weight": "__proto__", "height": "a'b\"c"})
    frame.to_csv(tmp_path / "evil.csv", index=False)
    with visit(tmp_path, "evil.csv", "-t", "y") as explorer:
        explorer.settled("order", "compare")
        assert EVIL in explorer.order()
        explorer.settled("effects")
        assert EVIL in explorer.page.locator("#effects figcaption").all_text_contents()
        assert explorer.page.locator("#effects figure > svg[aria-label]").count() > 0
        assert explorer.page.locator("img").count() == 0
        assert explorer.page.title() != "broken"
        explorer.price(EVIL, 7)
        explorer.price("__proto__", 3)
        explorer.settled()
        assert explorer.groups()[EVIL][1] == 7
        assert explorer.groups()["__proto__"][1] == 3


@pytest.mark.slow
def test_without_the_token_nothing_is_shown(small, browser):
    with served(small, "small.csv", "--reset") as address:
        page = new_context(browser, 1300, 900).new_page()
        page.goto(address.split("#")[0])
        page.wait_for_selector("#locked:not([hidden])")
        assert page.locator("#columns tr").count() == 0
        page.get_by_label("Key").fill(address.split("token=")[1])
        page.get_by_role("button", name="Open", exact=True).click()
        page.wait_for_selector("#columns tr")
        page.context.close()


# -- looks ----------------------------------------------------------------------------------------------------------

CHECKS = (Path(__file__).parents[1] / "support" / "page_checks.js").read_text(encoding="utf-8")


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1300, 400])
def test_every_width_and_scheme(width, scheme, visit, tmp_path):
    load_bank().frame.to_csv(tmp_path / "bank.csv", index=False)
    with visit(tmp_path, "bank.csv", width=width, color_scheme=scheme) as explorer:
        page = explorer.page
        assert page.evaluate(CHECKS) == []
        explorer.predict("y")
        explorer.field("Budget in cost units, as a number").fill("4")
        explorer.settled("order", "plan", "next", "compare")
        page.evaluate("for (const box of document.querySelectorAll('details')) box.open = true")
        assert page.evaluate(CHECKS) == []
        page.screenshot(path=tmp_path / "page.png", full_page=True)
        page.locator("#new-group").click()
        assert page.evaluate("document.querySelector('dialog').getBoundingClientRect().right") <= width
        assert page.evaluate("document.documentElement.scrollWidth") <= width
