"""The server over HTTP: edits, results, files, and requests that are refused."""

import json
import os
import shlex
import socket
import subprocess
import sys
import threading
from contextlib import contextmanager
from http.client import HTTPConnection

import httpx
import numpy as np
import pytest
from explore_browser import served

from budgetline import load
from budgetline.cli import main
from budgetline.explore.edits import changed_by, read_edit
from budgetline.explore.server import MOST_BODY, TOKEN_HEADER
from budgetline.explore.serving import browser_at, serve
from budgetline.explore.session import opening_state, start_session
from budgetline.explore.session_data import Data
from budgetline.explore.takeaway import shell_lines

pytestmark = pytest.mark.quick_cases(10)

TOKEN_NAME = TOKEN_HEADER
PATIENCE = 240
"""Seconds after which an answer is taken as lost; only a failing test waits so long."""


@contextmanager
def running(session):
    """Run the real server in a thread; yield its address and token."""
    found, ready = [], threading.Event()

    def told(url):
        found.append(url)
        ready.set()

    def run():
        try:
            serve(session, 0, told)
        finally:
            ready.set()

    thread = threading.Thread(target=run)
    thread.start()
    ready.wait()
    address, token = found[0].removeprefix("http://").split("/#token=")
    try:
        yield address, token
    finally:
        assert ask(address, token, "/api/close", {}) == (200, {"closed": True})
        thread.join()


def ask(address, token, path, body=None):
    connection = HTTPConnection(address, timeout=PATIENCE)
    headers = {TOKEN_NAME: token, "Content-Type": "application/json"}
    connection.request("GET" if body is None else "POST", path, None if body is None else json.dumps(body), headers)
    answer = connection.getresponse()
    content = answer.read()
    connection.close()
    return answer.status, json.loads(content)


class Page:
    """What a page does, without a browser."""

    def __init__(self, client):
        self.client, self.serial, self.parts = client, 0, {}

    def ask(self, path, body=None, expect=200):
        sent = {"content": json.dumps(body), "headers": {"content-type": "application/json"}}
        answer = self.client.get(path) if body is None else self.client.post(path, **sent)
        assert answer.status_code == expect, answer.text
        return answer.json()

    def edit(self, kind, expect=200, **edit):
        return self.ask("/api/edit", {"edits": [{"kind": kind, **edit}]}, expect)

    def settle(self, revision):
        """Wait for all results of a revision."""
        while True:
            news = self.ask(f"/api/results?after={self.serial}&wait=30")
            self.serial = news["serial"]
            self.parts |= news["parts"]
            if news["revision"] >= revision and not news["computing"]:
                return self.parts


@contextmanager
def page_of(session):
    with running(session) as (address, token), httpx.Client(base_url=f"http://{address}", timeout=PATIENCE) as client:
        client.headers[TOKEN_NAME] = token
        page = Page(client)
        page.address = address
        yield page


@pytest.fixture
def page(data):
    with page_of(start_session(data, None)) as found:
        yield found


@pytest.fixture(scope="module")
def untouched(data):
    """A page for tests whose requests must change nothing."""
    with page_of(start_session(data, None)) as found:
        yield found


def test_without_a_target_nothing_is_computed(page):
    snapshot = page.ask("/api/state")
    assert snapshot["state"]["target"] is None
    assert [column["kind"] for column in snapshot["table"]["columns"]][:4] == ["number", "number", "number", "text"]
    parts = page.settle(snapshot["revision"])
    assert all(part["empty"] for part in parts.values())
    assert snapshot["lines"] == ""
    assert page.ask("/api/download", {"what": "model"}, 422)["error"]["message"] == "choose a target first"


def test_the_way_from_the_table_to_a_plan(page, data):
    page.edit("set_target", column="y")
    page.edit("merge_groups", groups=["age", "noise"], name="body")
    page.edit("set_costs", costs={"body": 4})
    snapshot = page.edit("choose", budget=3)
    parts = page.settle(snapshot["revision"])
    order = [step["group"] for step in parts["order"]["steps"]]
    assert sorted(order) == ["body", "dose", "ill", "town"]
    assert not parts["order"]["preliminary"]
    assert len(parts["order"]["curve"]["costs"]) == len(parts["order"]["curve"]["values"])
    assert parts["budget"]["plan"]["proven"] == "proven best"
    assert parts["budget"]["plan"]["cost"] <= 3
    assert {method["name"] for method in parts["compare"]["methods"]} == {
        "this order",
        "cheapest first",
        "costs ignored",
    }
    assert parts["order"]["measure"]["folds"] == 5
    before = parts["order"]["serial"]
    snapshot = page.edit("choose", budget=2)
    parts = page.settle(snapshot["revision"])
    assert parts["order"]["serial"] == before  # another budget needs no new order
    assert parts["budget"]["budget"] == 2


def test_a_classifier_is_judged_and_compared(page):
    snapshot = page.edit("set_target", column="ill")
    parts = page.settle(snapshot["revision"])
    assert not parts["order"]["preliminary"]
    assert parts["order"]["curve"] is not None
    assert parts["compare"]["error"] is None
    budget = page.edit("choose", budget=2)
    assert page.settle(budget["revision"])["budget"]["searching"] is False


def test_the_page_is_told_about_the_target(page):
    classes = page.edit("set_target", column="ill")["target"]
    assert classes == {"dropped": 0, "form": "", "classes": ["no", "yes"], "positive": "yes"}
    number = page.edit("set_target", column="dose")["target"]
    assert number == {"dropped": 10, "form": "", "classes": [], "positive": None}
    assert page.edit("set_target", column=None)["target"] is None


def test_many_quick_edits_end_in_the_last_state(page):
    page.edit("set_target", column="y")
    for k in range(100):
        snapshot = page.edit("set_costs", costs={"age": k + 1, "town": 100 - k})
    parts = page.settle(snapshot["revision"])
    assert snapshot["revision"] == 101
    assert parts["order"]["revision"] == 101
    assert {s["group"]: s["cost"] for s in parts["order"]["steps"]} == {
        "age": 100,
        "town": 1,
        "dose": 1,
        "noise": 1,
        "ill": 1,
    }


def test_undo_redo_and_batches(page):
    first = page.edit("set_target", column="y")
    both = page.ask(
        "/api/edit",
        {"edits": [{"kind": "set_costs", "costs": {"age": 9}}, {"kind": "choose", "unit": "euros"}]},
    )
    assert both["undo_label"] == "2 changes"
    assert both["state"]["unit"] == "euros"
    undone = page.ask("/api/undo", {})
    assert undone["state"] == first["state"]
    assert undone["redo_label"] == "2 changes"
    assert page.ask("/api/redo", {})["state"] == both["state"]
    assert page.ask("/api/redo", {}, 422)["error"]["message"] == "there is nothing to redo"
    wrong = [{"kind": "set_costs", "costs": {"age": 1}}, {"kind": "split_group", "group": "age"}]
    page.ask("/api/edit", {"edits": wrong}, 422)
    assert page.ask("/api/state")["state"] == both["state"]  # all or none


def test_a_session_is_kept_in_its_file_and_opened_again(data, tmp_path):
    path = tmp_path / "people.explore"
    with page_of(start_session(data, path)) as page:
        page.edit("set_target", column="y")
        kept = page.edit("set_costs", costs={"age": 3.5})
        assert kept["session"] == {"file": "people.explore", "problem": ""}
        assert page.client.post("/api/download", json={"what": "session"}).text == path.read_text()
    with page_of(start_session(data, path)) as page:
        again = page.ask("/api/state")
        assert again["state"] == kept["state"]
        assert again["revision"] == kept["revision"]


def test_text_that_is_not_unicode_is_refused_and_the_page_goes_on(data, tmp_path):
    with page_of(start_session(data, tmp_path / "it.explore")) as page:
        page.edit("set_target", column="y")
        for edit in ({"title": "\ud800"}, {"unit": "\udfff"}):
            assert "not valid Unicode" in page.edit("choose", 422, **edit)["error"]["message"]
        page.edit("rename_group", 422, group="age", name="\ud800")
        page.edit("choose", 422, available=["\ud800"])
        page.edit("\ud800", 400)
        assert page.ask("/api/state")["state"]["title"] == ""


@pytest.mark.skipif(sys.platform == "win32", reason="names of files are Unicode there")
def test_a_file_whose_name_is_not_utf_8_can_be_explored(tmp_path):
    path = tmp_path / os.fsdecode(b"caf\xe9.csv")
    path.write_text("a,b,y\n" + "\n".join(f"{k % 5},{k * 7 % 11},{k % 3}" for k in range(40)) + "\n")
    with page_of(start_session(Data(str(path)), path.with_suffix(".explore"))) as page:
        snapshot = page.edit("set_target", column="y")
        assert snapshot["session"]["problem"] == ""
        assert page.settle(snapshot["revision"])["order"]["error"] is None
        assert page.client.post("/api/download", json={"what": "session"}).status_code == 200


def test_a_fit_that_fails_is_told_and_the_page_goes_on(tmp_path):
    path = tmp_path / "odd.csv"
    path.write_text("a,b,y\n" + "\n".join(f"{k % 5},{1e200 if k == 3 else k},{k % 7}" for k in range(40)) + "\n")
    with page_of(start_session(Data(str(path)), None)) as page:
        page.edit("set_target", column="y")
        snapshot = page.edit("choose", unit="euros")
        parts = page.settle(snapshot["revision"])
        assert "'b'" in parts["order"]["error"]
        snapshot = page.edit("leave_out", columns=["b"])
        assert page.settle(snapshot["revision"])["order"]["error"] is None


def test_the_model_file_predicts_what_the_page_shows(page, data, tmp_path, capfd):
    page.edit("set_target", column="ill")
    snapshot = page.edit("set_costs", costs={"town": 5})
    parts = page.settle(snapshot["revision"])
    answer = page.client.post("/api/download", json={"what": "model"})
    assert answer.headers["content-disposition"] == 'attachment; filename="people.budgetline"'
    path = tmp_path / "m.budgetline"
    path.write_bytes(answer.content)
    model = load(path)
    assert list(model.sequence_.groups) == [step["group"] for step in parts["order"]["steps"]]
    X = data.read("ill").X
    assert main(["predict", str(path), data.place, "--budget", "3", "--quiet"]) == 0
    lines = capfd.readouterr().out.split()
    assert lines[1:] == model.predict(X, budget=3).tolist()
    yaml = page.client.post("/api/download", json={"what": "groups"}).text
    assert page.edit("import_groups", yaml=yaml)["state"] == snapshot["state"]


REQUESTS = [
    ("no token", {TOKEN_NAME: ""}, 403, "token"),
    ("another token", {TOKEN_NAME: "x" * 43}, 403, "token"),
    ("a token that is no text", {TOKEN_NAME: b"\xff\xfe"}, 403, "token"),
    ("another origin", {"origin": "http://evil.example"}, 403, "origin"),
    ("no origin to speak of", {"origin": "null"}, 403, "origin"),
    ("another port", {"origin": "http://127.0.0.1:9999"}, 403, "origin"),
    ("another scheme", {"origin": "https://HERE"}, 403, "origin"),
    ("from another site", {"sec-fetch-site": "cross-site"}, 403, "origin"),
    ("from another port of this machine", {"sec-fetch-site": "same-site"}, 403, "origin"),
    ("another host", {"host": "evil.example"}, 421, "host"),
    ("a name that points here", {"host": "HERE.evil.example"}, 421, "host"),
    ("another port in the host", {"host": "127.0.0.1:80"}, 421, "host"),
    ("a form", {"content-type": "application/x-www-form-urlencoded"}, 400, "malformed"),
    ("plain text, which needs no preflight", {"content-type": "text/plain"}, 400, "malformed"),
]


@pytest.mark.parametrize(("headers", "status", "code"), [case[1:] for case in REQUESTS], ids=[c[0] for c in REQUESTS])
def test_requests_of_others_are_refused(untouched, headers, status, code):
    body = json.dumps({"edits": [{"kind": "set_target", "column": "y"}]})
    here = {
        name: text.replace("HERE", untouched.address) if isinstance(text, str) else text
        for name, text in headers.items()
    }
    answer = untouched.client.post("/api/edit", content=body, headers={"content-type": "application/json", **here})
    assert answer.status_code == status
    assert answer.json()["error"]["code"] == code
    assert untouched.ask("/api/state")["revision"] == 0


BODIES = [
    (b"", "malformed"),
    (b"{", "malformed"),
    (b"[]", "malformed"),
    (b"\xff\xfe", "malformed"),
    (b"[" * 100_000, "malformed"),
    (b'{"edits": ' + b'{"a": ' * 50_000 + b"1" + b"}" * 50_001, "malformed"),
    (b'{"edits": [{"kind": "choose", "budget": NaN}]}', "malformed"),
    (b'{"edits": [{"kind": "choose", "budget": 1e999}]}', "malformed"),
    (b'{"edits": [{"kind": "choose", "budget": ' + b"9" * 5000 + b"}]}", "malformed"),
    (b'{"edits": [{"kind": ["choose"]}]}', "malformed"),
    (b'{"edits": [{"kind": "choose", "budget": true}]}', "malformed"),
    (b'{"edits": []}', "malformed"),
    (b'{"edits": null}', "malformed"),
    (b'{"edits": [{"kind": "import_groups", "yaml": "a: &a [*a]"}]}', "refused"),
    (b'{"edits": [{"kind": "import_groups", "yaml": "!!python/object/apply:os.system [ls]"}]}', "refused"),
]


@pytest.mark.parametrize(("body", "code"), BODIES)
def test_malformed_bodies_are_refused(untouched, body, code):
    answer = untouched.client.post("/api/edit", content=body, headers={"content-type": "application/json"})
    assert answer.status_code in (400, 422)
    assert answer.json()["error"]["code"] == code
    assert untouched.ask("/api/state")["revision"] == 0


def test_bodies_that_are_too_large_are_refused(untouched):
    large = b" " * (MOST_BODY + 1)
    given = {"content-type": "application/json"}
    assert untouched.client.post("/api/edit", content=large, headers=given).status_code == 413

    def parts():
        for _ in range(MOST_BODY // 65536 + 1):
            yield b" " * 65536

    assert untouched.client.post("/api/edit", content=parts(), headers=given).status_code == 413  # of unknown length


@pytest.mark.parametrize(
    "path",
    ["/static/../server.py", "/static/..%2fserver.py", "/static/%2e%2e/server.py", "/etc/passwd", "/api/nothing"],
)
def test_no_path_is_ever_opened(untouched, path):
    answer = untouched.client.get(path)
    assert answer.status_code == 404
    assert answer.json()["error"]["code"] == "not_found"


def test_every_answer_has_strict_headers(untouched):
    for answer in (
        untouched.client.get("/"),
        untouched.client.get("/api/state"),
        untouched.client.get("/api/state", headers={"host": "x"}),
    ):
        assert "default-src 'none'" in answer.headers["content-security-policy"]
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["cache-control"] == "no-store"
        assert "access-control-allow-origin" not in answer.headers
    assert untouched.client.get("/api/edit").status_code == 405
    assert untouched.client.options("/api/edit", headers={"origin": "http://evil.example"}).status_code == 405


def test_many_connections_do_not_break_the_real_server(data):
    with running(start_session(data, None)) as (address, token):
        host, port = address.split(":")
        idle = [socket.create_connection((host, int(port)), timeout=PATIENCE) for _ in range(200)]
        for k, each in enumerate(idle):
            each.sendall([b"", b"GET / HT", b"\x00\xff\r\n\r\n", b"POST /api/edit HTTP/1.1\r\nHost: x\r\n\r\n"][k % 4])
        status, snapshot = ask(address, token, "/api/edit", {"edits": [{"kind": "set_target", "column": "y"}]})
        assert (status, snapshot["revision"]) == (200, 1)
        refused = idle[3].recv(4096)
        assert refused.startswith(b"HTTP/1.1 421")
        assert ask(address, "wrong", "/api/state")[0] == 403
        waiting = [HTTPConnection(address, timeout=PATIENCE) for _ in range(100)]
        for each in waiting:
            each.request("GET", "/api/results?after=999999999&wait=0", headers={TOKEN_NAME: token})
        answers = [each.getresponse() for each in waiting]
        assert {answer.status for answer in answers} == {200}
        for each in (*idle, *waiting):
            each.close()
        assert ask(address, token, "/api/state")[1]["state"]["target"] == "y"


PRICED = [
    {"kind": "merge_groups", "groups": ["age", "noise"], "name": "a, b's"},
    {"kind": "choose", "shared": [{"name": "visit", "cost": 2, "groups": ["a, b's", "town"]}]},
    {"kind": "choose", "today": ["town"]},
]


def run_line(line, folder):
    command = [sys.executable, "-m", *shlex.split(line), "--json"]
    run = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout)


@pytest.mark.slow
@pytest.mark.parametrize("edits", [[], PRICED], ids=["plain", "priced"])
@pytest.mark.parametrize("target", ["y", "ill"])
def test_the_lines_compute_what_is_shown(page, tmp_path, target, edits):
    for edit in ({"kind": "set_target", "column": target}, *edits):
        page.ask("/api/edit", {"edits": [edit]})
    snapshot = page.edit("choose", budget=2)
    parts = page.settle(snapshot["revision"])
    groups = page.client.post("/api/download", json={"what": "groups"})
    (tmp_path / "people.yaml").write_bytes(groups.content)
    fit, report, plan, _ = snapshot["lines"].splitlines()
    assert run_line(fit, tmp_path)["sequence"]["group"] == [step["group"] for step in parts["order"]["steps"]]
    curve = next(c for c in run_line(report, tmp_path)["curves"] if c["kind"] == "cross-validated")
    assert curve["costs"] == parts["order"]["curve"]["costs"]
    np.testing.assert_allclose(curve["values"], parts["order"]["curve"]["values"], atol=1e-9)
    assert run_line(plan, tmp_path)["plans"][0]["groups"] == parts["budget"]["plan"]["groups"]


def test_the_lines_are_what_a_person_would_write(data):
    edits = {"kind": "set_target", "column": "dose"}, {"kind": "choose", "budget": 3.5}
    state = changed_by(opening_state(data), [read_edit(edit) for edit in edits], data)
    fit, report, plan, _ = shell_lines(state, data).splitlines()
    given = f"{data.place} -t dose --drop-missing-target"
    assert fit == f"budgetline fit {given} -g people.yaml"
    assert report == f"budgetline report people.budgetline {given} --metric explained"
    assert plan == "budgetline plan people.budgetline --budget 3.5"


@pytest.mark.slow
def test_the_command_serves_a_session(data, tmp_path):
    groups = tmp_path / "g.yaml"
    groups.write_text("groups: {a: {columns: [age, dose, town]}}\nremainder: drop\n")
    command = [
        sys.executable,
        "-m",
        "budgetline",
        "explore",
        data.place,
        "--no-open",
        "-t",
        "y",
        "-g",
        str(groups),
    ]
    command += ["--session", str(tmp_path / "s.explore")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        address, token = process.stdout.readline().strip().removeprefix("http://").split("/#token=")
        try:
            snapshot = ask(address, token, "/api/state")[1]
            assert snapshot["state"]["target"] == "y"
            assert snapshot["state"]["left_out"] == ["noise", "ill"]
            assert snapshot["undo_label"] is None  # what the command line says is where a session begins
            assert ask(address, token, "/api/edit", {"edits": [{"kind": "choose", "budget": 2}]})[0] == 200
            with httpx.Client(base_url=f"http://{address}", headers={TOKEN_NAME: token}, timeout=PATIENCE) as client:
                for what in ("report", "model"):
                    answer = client.post("/api/download", json={"what": what})
                    assert answer.status_code == 200
                    assert len(answer.content) > 1000
        finally:
            ask(address, token, "/api/close", {})
        assert process.wait(PATIENCE) == 0


@pytest.mark.slow  # an interpreter starts
def test_a_command_that_is_refused_leaves_no_file(table_path, tmp_path):
    command = [sys.executable, "-m", "budgetline", "explore", str(table_path), "--no-open", "-t", "absent"]
    command += ["--session", str(tmp_path / "s.explore")]
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    assert found.returncode == 2
    assert "there is no column 'absent'" in found.stderr
    assert not (tmp_path / "s.explore").exists()


@pytest.mark.parametrize(
    ("path", "dest", "status"),
    [
        ("/", "document", 200),
        ("/", "iframe", 403),
        ("/static/app.js", "document", 403),
        ("/api/state", "document", 403),
    ],
)
def test_a_link_of_another_site_leads_to_the_page_and_to_nothing_else(untouched, path, dest, status):
    headers = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate", "sec-fetch-dest": dest}
    assert untouched.client.get(path, headers=headers).status_code == status


# -- opening a browser, and a second process -----------------------------------------------------------------------

BROWSER = """import pathlib, stat, sys, urllib.parse, urllib.request
page = pathlib.Path(urllib.request.url2pathname(urllib.parse.urlsplit(sys.argv[1]).path))
mode = oct(stat.S_IMODE(page.parent.stat().st_mode))
print(sys.argv[1], mode, page.read_text().replace("\\n", " "), sep="\\n", file=open(sys.argv[2], "w"))
"""


@pytest.mark.skipif(sys.platform == "win32", reason="there are no such modes and pipes")
def test_the_token_is_on_no_command_line(table_path, tmp_path):
    script, pipe = tmp_path / "browser.py", tmp_path / "pipe"
    script.write_text(BROWSER)
    os.mkfifo(pipe)
    session = tmp_path / "it.explore"
    command = [sys.executable, "-m", "budgetline", "explore", str(table_path), "-t", "y", "--session", str(session)]
    environment = os.environ | {"BROWSER": f"{sys.executable} {script} %s {pipe}", "TMPDIR": str(tmp_path)}
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as process:
        try:
            address, token = process.stdout.readline().strip().removeprefix("http://").split("/#token=")
            opened, folder_mode, page = pipe.read_text().splitlines()  # the browser writes it
            assert opened.startswith("file://")
            assert token not in opened
            assert folder_mode == "0o700"
            assert f"0;url=http://{address}/#token={token}" in page
            assert ask(address, token, "/api/state")[0] == 200

        finally:
            process.kill()
    with served(tmp_path, str(table_path), "--session", str(session)) as again:
        address, token = again.removeprefix("http://").split("/#token=")
        body = {"edits": [{"kind": "choose", "title": "again"}]}
        assert ask(address, token, "/api/edit", body)[1]["session"]["problem"] == ""


def test_the_page_that_leads_to_the_address_is_removed_at_the_end(monkeypatch, tmp_path):
    opened = []
    monkeypatch.setattr("webbrowser.open", lambda url: opened.append(url) or True)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with browser_at('http://127.0.0.1:1/#token=a"b'):
        assert "#token=a&quot;b" in next(tmp_path.glob("*/open.html")).read_text()
    assert not list(tmp_path.iterdir())
    assert len(opened) == 1
