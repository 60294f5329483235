"""The server over HTTP: edits, results, files, and requests that are refused."""

import json
import os
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
from budgetline.explore.group_edits import changed_by, read_edit
from budgetline.explore.lines import python_lines, shell_lines
from budgetline.explore.redirect import Redirect
from budgetline.explore.security import MOST_BODY, TOKEN_HEADER
from budgetline.explore.serving import Address, serve
from budgetline.explore.session import opening_state, start_session
from budgetline.explore.session_data import Data

pytestmark = pytest.mark.quick_cases(10)

TOKEN_NAME = TOKEN_HEADER.decode()
PATIENCE = 240
"""Seconds after which an answer is taken as lost; only a failing test waits so long."""


@pytest.mark.parametrize(
    ("listening", "host", "allowed"),
    [
        ("127.0.0.1", "127.0.0.1:80", True),
        ("127.0.0.1", "localhost:80", True),
        ("127.0.0.1", "127.0.0.1:81", False),
        ("127.0.0.1", "127.0.0.1", False),
        ("127.0.0.1", "192.168.0.5:80", False),
        ("192.168.0.5", "192.168.0.5:80", True),
        ("0.0.0.0", "192.168.0.5:80", True),
        ("0.0.0.0", "evil.example:80", False),
        ("::1", "[::1]:80", True),
        ("::", "[fe80::1]:80", True),
    ],
)
def test_the_host_must_be_this_one(listening, host, allowed):
    assert Address(listening, 80).allows(host, 80) == allowed


@contextmanager
def running(session):
    """Run the real server in a thread; yield its address and token."""
    found, ready = [], threading.Event()

    def told(url):
        found.append(url)
        ready.set()

    def run():
        try:
            serve(session, Address(), told)
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
        return self.ask("/api/edit", {"edit": {"kind": kind, **edit}}, expect)

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


def test_without_a_target_nothing_is_computed(page):
    snapshot = page.ask("/api/state")
    assert snapshot["state"]["target"] is None
    assert [column["kind"] for column in snapshot["table"]["columns"]][:4] == ["number", "number", "number", "text"]
    parts = page.settle(snapshot["revision"])
    assert all(part["empty"] for part in parts.values())
    for path, body in (("/api/lines", None), ("/api/download", {"what": "model"})):
        assert page.ask(path, body, 409)["error"]["code"] == "not_ready"


def test_the_way_from_the_table_to_a_plan(page, data):
    page.edit("set_target", column="y")
    page.edit("merge_groups", groups=["age", "noise"], name="body")
    page.edit("set_costs", costs={"body": 4})
    snapshot = page.edit("set_budget", budget=3)
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
    snapshot = page.edit("set_budget", budget=2)
    parts = page.settle(snapshot["revision"])
    assert parts["order"]["serial"] == before  # another budget needs no new order
    assert parts["budget"]["budget"] == 2


def test_a_classifier_is_judged_and_compared(page):
    snapshot = page.edit("set_target", column="ill")
    parts = page.settle(snapshot["revision"])
    assert not parts["order"]["preliminary"]
    assert parts["order"]["curve"] is not None
    assert parts["compare"]["error"] is None
    budget = page.edit("set_budget", budget=2)
    assert page.settle(budget["revision"])["budget"]["searching"] is False


def test_the_page_is_told_about_the_target(page):
    classes = page.edit("set_target", column="ill")["target"]
    assert classes == {"dropped": 0, "form": "", "classes": ["no", "yes"], "positive": "yes"}
    number = page.edit("set_target", column="dose")["target"]
    assert number == {"dropped": 10, "form": "", "classes": [], "positive": None}
    assert page.edit("set_target", column=None)["target"] is None


def test_always_known_groups_cost_nothing_in_order_curve_and_plan(page):
    page.edit("set_target", column="y")
    page.edit("set_costs", costs={"age": 3, "town": 2})
    page.edit("set_start", groups=["age"])
    snapshot = page.edit("set_budget", budget=2)
    parts = page.settle(snapshot["revision"])
    assert snapshot["total_cost"] == 5
    assert parts["order"]["steps"][0] | {"group": "age", "cost": 0, "cumulative_cost": 0} == parts["order"]["steps"][0]
    assert parts["order"]["curve"]["costs"][-1] == 5
    assert {"age", "town"} <= set(parts["budget"]["plan"]["groups"])
    assert parts["budget"]["plan"]["cost"] <= 2


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
        {"edits": [{"kind": "set_costs", "costs": {"age": 9}}, {"kind": "set_labels", "unit": "euros"}]},
    )
    assert both["undo_label"] == "2 changes"
    assert both["state"]["unit"] == "euros"
    undone = page.ask("/api/undo", {})
    assert undone["state"] == first["state"]
    assert undone["can_redo"]
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
        assert kept["session"] == {"file": "people.explore", "saved": True, "problem": ""}
        content = page.client.post("/api/download", json={"what": "session"}).text
    with page_of(start_session(data, path)) as page:
        again = page.ask("/api/state")
        assert again["state"] == kept["state"]
        assert again["revision"] == kept["revision"]
        page.edit("set_costs", costs={"age": 1})
        assert page.ask("/api/session", {"content": content})["state"] == kept["state"]
        other = content.replace(data.digest, "0" * 64)
        assert "other data" in page.ask("/api/session", {"content": other}, 422)["error"]["message"]
        page.ask("/api/session", {"content": "[]"}, 422)


def test_text_that_is_not_unicode_is_refused_and_the_page_goes_on(data, tmp_path):
    with page_of(start_session(data, tmp_path / "it.explore")) as page:
        page.edit("set_target", column="y")
        for edit in ({"title": "\ud800"}, {"unit": "\udfff"}):
            assert "not valid Unicode" in page.edit("set_labels", 422, **edit)["error"]["message"]
        page.edit("rename_group", 422, group="age", name="\ud800")
        page.edit("set_available", 422, groups=["\ud800"])
        page.edit("\ud800", 400)
        assert page.ask("/api/state")["state"]["title"] == ""


@pytest.mark.skipif(sys.platform == "win32", reason="names of files are Unicode there")
def test_a_file_whose_name_is_not_utf_8_can_be_explored(tmp_path):
    path = tmp_path / os.fsdecode(b"caf\xe9.csv")
    path.write_text("a,b,y\n" + "\n".join(f"{k % 5},{k * 7 % 11},{k % 3}" for k in range(40)) + "\n")
    with page_of(start_session(Data(str(path)), path.with_suffix(".explore"))) as page:
        snapshot = page.edit("set_target", column="y")
        assert snapshot["session"]["saved"]
        assert page.settle(snapshot["revision"])["order"]["error"] is None
        page.ask("/api/lines")
        assert page.client.post("/api/download", json={"what": "session"}).status_code == 200


def test_a_fit_that_fails_is_told_and_the_page_goes_on(tmp_path):
    path = tmp_path / "odd.csv"
    path.write_text("a,b,y\n" + "\n".join(f"{k % 5},{1e200 if k == 3 else k},{k % 7}" for k in range(40)) + "\n")
    with page_of(start_session(Data(str(path)), None)) as page:
        page.edit("set_target", column="y")
        snapshot = page.edit("set_encoding", encoding="spline")
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
    ("a form", {"content-type": "application/x-www-form-urlencoded"}, 415, "malformed"),
    ("plain text, which needs no preflight", {"content-type": "text/plain"}, 415, "malformed"),
]


@pytest.mark.parametrize(("headers", "status", "code"), [case[1:] for case in REQUESTS], ids=[c[0] for c in REQUESTS])
def test_requests_of_others_are_refused(page, headers, status, code):
    body = json.dumps({"edit": {"kind": "set_target", "column": "y"}})
    here = {
        name: text.replace("HERE", page.address) if isinstance(text, str) else text for name, text in headers.items()
    }
    answer = page.client.post("/api/edit", content=body, headers={"content-type": "application/json", **here})
    assert answer.status_code == status
    assert answer.json()["error"]["code"] == code
    assert page.ask("/api/state")["revision"] == 0


BODIES = [
    (b"", "malformed"),
    (b"{", "malformed"),
    (b"[]", "malformed"),
    (b"\xff\xfe", "malformed"),
    (b"[" * 100_000, "malformed"),
    (b'{"edit": ' + b'{"a": ' * 50_000 + b"1" + b"}" * 50_001, "malformed"),
    (b'{"edit": {"kind": "set_budget", "budget": NaN}}', "malformed"),
    (b'{"edit": {"kind": "set_budget", "budget": 1e999}}', "malformed"),
    (b'{"edit": {"kind": "set_budget", "budget": ' + b"9" * 5000 + b"}}", "malformed"),
    (b'{"edit": {"kind": ["set_budget"]}}', "malformed"),
    (b'{"edit": {"kind": "set_budget", "budget": true}}', "malformed"),
    (b'{"edits": []}', "malformed"),
    (b'{"edit": null, "edits": null}', "malformed"),
    (b'{"edit": {"kind": "set_budget", "budget": 1}, "path": "/etc/passwd"}', "malformed"),
    (b'{"edit": {"kind": "import_groups", "yaml": "a: &a [*a]"}}', "refused"),
    (b'{"edit": {"kind": "import_groups", "yaml": "!!python/object/apply:os.system [ls]"}}', "refused"),
]


@pytest.mark.parametrize(("body", "code"), BODIES)
def test_malformed_bodies_are_refused(page, body, code):
    answer = page.client.post("/api/edit", content=body, headers={"content-type": "application/json"})
    assert answer.status_code in (400, 422)
    assert answer.json()["error"]["code"] == code
    assert page.ask("/api/state")["revision"] == 0


def test_bodies_that_are_too_large_are_refused(page):
    large = b" " * (MOST_BODY + 1)
    given = {"content-type": "application/json"}
    assert page.client.post("/api/edit", content=large, headers=given).status_code == 413

    def parts():
        for _ in range(MOST_BODY // 65536 + 1):
            yield b" " * 65536

    assert page.client.post("/api/edit", content=parts(), headers=given).status_code == 413  # of unknown length


@pytest.mark.parametrize(
    "path",
    ["/static/../server.py", "/static/..%2fserver.py", "/static/%2e%2e/server.py", "/etc/passwd", "/api/nothing"],
)
def test_no_path_is_ever_opened(page, path):
    answer = page.client.get(path)
    assert answer.status_code == 404
    assert answer.json()["error"]["code"] == "not_found"


def test_every_answer_has_strict_headers(page):
    for answer in (
        page.client.get("/"),
        page.client.get("/api/state"),
        page.client.get("/api/state", headers={"host": "x"}),
    ):
        assert "default-src 'none'" in answer.headers["content-security-policy"]
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["cache-control"] == "no-store"
        assert "access-control-allow-origin" not in answer.headers
    assert page.client.get("/api/edit").status_code == 405
    assert page.client.options("/api/edit", headers={"origin": "http://evil.example"}).status_code == 403


@pytest.mark.parametrize(
    ("host", "message"), [("0.0.0.0", "other machines"), ("::", "other machines"), ("x", "address")]
)
def test_other_addresses_need_consent(host, message):
    with pytest.raises(ValueError, match=message):
        Address.checked(host, 0)
    assert Address.checked("localhost", 0).host == "127.0.0.1"
    assert Address.checked("0.0.0.0", 0, consent=True).host == "0.0.0.0"


def test_many_connections_do_not_break_the_real_server(data):
    with running(start_session(data, None)) as (address, token):
        host, port = address.split(":")
        idle = [socket.create_connection((host, int(port)), timeout=PATIENCE) for _ in range(200)]
        for k, each in enumerate(idle):
            each.sendall([b"", b"GET / HT", b"\x00\xff\r\n\r\n", b"POST /api/edit HTTP/1.1\r\nHost: x\r\n\r\n"][k % 4])
        status, snapshot = ask(address, token, "/api/edit", {"edit": {"kind": "set_target", "column": "y"}})
        assert (status, snapshot["revision"]) == (200, 1)
        refused = idle[3].recv(4096)
        assert refused.startswith(b"HTTP/1.1 421")
        assert ask(address, "wrong", "/api/state")[0] == 403
        waiting = [HTTPConnection(address, timeout=PATIENCE) for _ in range(100)]
        for each in waiting:
            each.request("GET", "/api/results?after=999999999&wait=0", headers={TOKEN_NAME: token})
        answers = [each.getresponse() for each in waiting]
        assert {answer.status for answer in answers} <= {200, 503}
        for each in (*idle, *waiting):
            each.close()
        assert ask(address, token, "/api/state")[1]["state"]["target"] == "y"


PRICED = [
    {"kind": "merge_groups", "groups": ["age", "noise"], "name": "a, b's"},
    {"kind": "set_shared", "name": "visit", "cost": 2, "groups": ["a, b's", "town"]},
    {"kind": "set_start", "groups": ["dose"]},
    {"kind": "set_today", "groups": ["town"]},
]
SPLINE = "encoding='spline', interactions=(0, 20)"


def shown_lines(page, target, edits):
    """Return the results and the lines of a session with a target, some edits and a budget."""
    for edit in ({"kind": "set_target", "column": target}, *edits):
        page.ask("/api/edit", {"edit": edit})
    parts = page.settle(page.edit("set_budget", budget=2)["revision"])
    return parts, page.ask("/api/lines")


def run_lines(lines, folder):
    """Run the lines of Python and of the shell; return the order and the curve of each, and the plan of the shell."""
    for file in lines["files"]:
        (folder / file["name"]).write_text(file["text"], encoding="utf-8")
    asked = "\nimport json\nprint(json.dumps([search.sequence_.groups, curve.values.tolist(), curve.costs.tolist()]))\n"
    command = [sys.executable, "-W", "error", "-c", lines["python"] + asked]
    run = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    python = json.loads(run.stdout.splitlines()[-1])
    (folder / "people.budgetline").unlink()
    first, _, third, _, fifth, _ = lines["shell"].splitlines()
    found = []
    for line in (first, third, fifth):
        command = f"{sys.executable} -m {line} --json"
        run = subprocess.run(command, shell=True, cwd=folder, capture_output=True, text=True, check=False)
        assert run.returncode == 0, run.stderr
        found.append(json.loads(run.stdout))
    order = list(load(folder / "people.budgetline").sequence_.groups)
    return python, [order, found[1]["value"], found[1]["cost"]], found[2]["plans"][0]["groups"]


@pytest.mark.slow
@pytest.mark.parametrize("edits", [[], PRICED], ids=["plain", "priced"])
@pytest.mark.parametrize("target", ["y", "ill"])
def test_the_lines_of_python_and_of_the_shell_agree(page, tmp_path, target, edits):
    _, lines = shown_lines(page, target, edits)
    (order, values, costs), (same, others, spent), _ = run_lines(lines, tmp_path)
    assert order == same
    assert costs == spent
    np.testing.assert_allclose(values, others, atol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("target", ["y", "ill"])
def test_the_lines_compute_what_is_shown(page, tmp_path, target):
    parts, lines = shown_lines(page, target, PRICED)
    (order, values, costs), _, plan = run_lines(lines, tmp_path)
    assert order == [step["group"] for step in parts["order"]["steps"]]
    assert costs == parts["order"]["curve"]["costs"]
    np.testing.assert_allclose(values, parts["order"]["curve"]["values"], atol=1e-9)
    assert set(plan) == set(parts["budget"]["plan"]["groups"])


def lines_of(place, *edits, **how):
    data = Data(str(place), **how)
    state = changed_by(opening_state(data.table), [read_edit(edit) for edit in edits], data.table)
    return python_lines(state, data), shell_lines(state, data)


def test_the_lines_are_what_a_person_would_write(data):
    python, shell = lines_of(data.place, {"kind": "set_target", "column": "y"})
    assert f"df = pd.read_csv({data.place!r})\nX = df.drop(columns=['y'])\ny = df['y']\n" in python
    assert f"search = AnytimeRegressorCV({SPLINE}, min_gain=0.01 / len(X), cv=5, stop_at_best=True)\n" in python
    assert "search.fit(*shuffle(X, y, random_state=0))\n" in python
    assert shell.splitlines()[0] == f"budgetline fit {data.place} -t y"
    out = {"kind": "leave_out", "columns": ["age", "noise"]}
    python, shell = lines_of(
        data.place, {"kind": "set_target", "column": "dose"}, out, {"kind": "set_alpha", "alpha": 2}
    )
    assert "df = df.dropna(subset=['dose'])\nX = df.drop(columns=['dose', 'age', 'noise'])" in python
    assert "alphas=[2.0]" in python
    fit, _, curve, *_ = shell.splitlines()
    assert fit == f"budgetline fit {data.place} -t dose --drop-missing-target --exclude age,noise --alpha 2.0"
    assert curve == f"budgetline curve people.budgetline {data.place} -t dose --drop-missing-target --cv 5"


@pytest.mark.filterwarnings("ignore:.*is not UTF-8 text", "ignore:.*the first column has no name")
def test_the_lines_read_a_file_as_it_is_written(tmp_path):
    path = tmp_path / "t.csv"
    rows = [f"{k};{k % 7},5;{'?' if k % 9 == 0 else 'müde'};2020-01-{k % 28 + 1:02};{k % 4},90%" for k in range(60)]
    path.write_bytes("\n".join([";a;b;day;y", *rows]).encode("latin-1"))
    python, _ = lines_of(path, {"kind": "set_target", "column": "y"})
    how = "sep=';', decimal=',', na_values=['?'], encoding='cp1252', index_col=0, parse_dates=['day']"
    assert f"df = pd.read_csv({str(path)!r}, {how})" in python
    assert "y = pd.Series(as_numbers(df['y'].to_numpy(), 'y')[0])" in python
    read = {}
    exec(python[: python.index("search = ")], read)
    assert read["X"].columns.tolist() == ["a", "b", "day"]
    assert read["X"]["a"].iloc[1] == 1.5
    assert read["y"].tolist()[:3] == [0.9, 1.9, 2.9]
    assert read["X"]["b"].isna().sum() == 7


@pytest.mark.slow
def test_the_command_serves_a_session(data, tmp_path):
    command = [
        sys.executable,
        "-m",
        "budgetline",
        "explore",
        data.place,
        "--no-open",
        "-t",
        "y",
        "--exclude",
        "noise,ill",
    ]
    command += ["--session", str(tmp_path / "s.explore")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        address, token = process.stdout.readline().strip().removeprefix("http://").split("/#token=")
        try:
            snapshot = ask(address, token, "/api/state")[1]
            assert snapshot["state"]["target"] == "y"
            assert snapshot["state"]["left_out"] == ["noise", "ill"]
            assert not snapshot["can_undo"]  # what the command line says is where a session begins
            assert ask(address, token, "/api/edit", {"edit": {"kind": "set_budget", "budget": 2}})[0] == 200
            with httpx.Client(base_url=f"http://{address}", headers={TOKEN_NAME: token}, timeout=PATIENCE) as client:
                for what in ("report", "onnx", "plan"):
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
def test_a_link_of_another_site_leads_to_the_page_and_to_nothing_else(page, path, dest, status):
    headers = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate", "sec-fetch-dest": dest}
    assert page.client.get(path, headers=headers).status_code == status


# -- opening a browser, and a second process -----------------------------------------------------------------------

BROWSER = """import pathlib, stat, sys, urllib.parse, urllib.request
page = pathlib.Path(urllib.request.url2pathname(urllib.parse.urlsplit(sys.argv[1]).path))
modes = [oct(stat.S_IMODE(path.stat().st_mode)) for path in (page, page.parent)]
print(sys.argv[1], *modes, page.read_text().replace("\\n", " "), sep="\\n", file=open(sys.argv[2], "w"))
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
            opened, page_mode, folder_mode, page = pipe.read_text().splitlines()  # the browser writes it
            assert opened.startswith("file://")
            assert token not in opened
            assert (page_mode, folder_mode) == ("0o600", "0o700")
            assert f"0;url=http://{address}/#token={token}" in page
            assert list(tmp_path.glob("budgetline-*/open.html"))
            assert ask(address, "x" * 43, "/api/state")[0] == 403
            assert list(tmp_path.glob("budgetline-*/open.html"))
            assert ask(address, token, "/api/state")[0] == 200
            assert not list(tmp_path.glob("budgetline-*"))  # it has been used

            refused = subprocess.run([*command, "--no-open"], capture_output=True, text=True, check=False)
            assert refused.returncode == 2
            assert f"{session} is open in another budgetline explore" in refused.stderr
            copy = tmp_path / "copy.explore"
            copy.write_bytes(session.read_bytes())
            with served(tmp_path, str(copy)) as other:  # the message says so
                address, token = other.removeprefix("http://").split("/#token=")
                assert ask(address, token, "/api/state")[1]["state"]["target"] == "y"
        finally:
            process.kill()  # no lock is left
    with served(tmp_path, str(session)) as again:
        address, token = again.removeprefix("http://").split("/#token=")
        body = {"edit": {"kind": "set_labels", "title": "again"}}
        assert ask(address, token, "/api/edit", body)[1]["session"]["saved"]


def test_a_page_that_is_not_used_is_removed_at_the_end(monkeypatch, tmp_path):
    opened = []
    monkeypatch.setattr("webbrowser.open", lambda url: opened.append(url) or True)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    redirect = Redirect()
    assert redirect.open('http://127.0.0.1:1/#token=a"b')
    assert "#token=a&quot;b" in next(tmp_path.glob("*/open.html")).read_text()
    for _ in range(2):
        redirect.remove()
        assert not list(tmp_path.iterdir())
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "absent"))
    assert not Redirect().open("http://127.0.0.1:1/#token=a")
    assert len(opened) == 1
