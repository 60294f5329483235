"""The example service: right responses, clear refusals, and no work for a client that has hung up."""

import asyncio
import json
import subprocess
import sys
from pathlib import Path

import httpx
import numpy as np
import pytest
from example_modules import example_module

from budgetline import AnytimeClassifier, AnytimeRunner
from budgetline.datasets import load_heart
from budgetline.datasets.loaders import read_archive

ROOT = Path(__file__).parents[1]
FOREVER = 60_000  # milliseconds; no test waits for it
SCOPE = {
    "type": "http", "asgi": {"version": "3.0", "spec_version": "2.3"}, "http_version": "1.1", "method": "POST",
    "scheme": "http", "path": "/stream", "raw_path": b"/stream", "query_string": b"", "root_path": "",
    "headers": [(b"content-type", b"application/json")], "server": ("test", 80), "client": ("test", 1),
}  # fmt: skip


@pytest.fixture(scope="module")
def service():
    for module in example_module("service"):
        # the same sources without their delays; the real ones run in test_quick_load
        slow = {group: module.ask(group, 0.0) for group in ("blood", "ecg", "thallium", "fluoroscopy")}
        module.EXTRACTORS |= slow | {"exercise": module.on_record("exercise")}
        yield module


@pytest.fixture(scope="module")
def patients():
    """Records as UCI has them, the library's own encoding of them, and a model."""
    archive = read_archive("heart")
    table = archive["values"][archive["site"] == "cleveland"]
    names = archive["columns"].tolist()
    records = [{n: None if np.isnan(v) else v for n, v in zip(names, row, strict=True) if n != "num"} for row in table]
    heart = load_heart()
    return records, heart.data, AnytimeClassifier(heart.feature_groups, alpha=1e-2).fit(heart.data, heart.target)


def served(service, talk):
    """Run a coroutine function with a client of the application, inside its lifespan."""

    async def main():
        transport = httpx.ASGITransport(service.app)
        async with (
            service.lifespan(service.app),
            httpx.AsyncClient(transport=transport, base_url="http://test") as client,
        ):
            return await talk(client)

    return asyncio.run(main())


def asked(service, *bodies, path="/predict", **options):
    async def talk(client):
        return [await client.post(path, json=body, **options) for body in bodies]

    return served(service, talk)


def expected(patients, row, groups):
    _, X, model = patients
    return model.predict_proba(X[[row]], available=groups)[0, 1]


def test_answers_are_those_of_the_model(service, patients):
    records, X, model = patients
    lacking = [i for i, record in enumerate(records) if None in (record["thal"], record["ca"])]
    rows = [*range(20), *lacking]
    assert lacking  # what the model has learned about missing values is asked for, too
    for row, response in zip(
        rows, asked(service, *({"patient": records[i], "deadline_ms": FOREVER} for i in rows)), strict=True
    ):
        answer = response.json()
        assert response.status_code == 200
        assert (answer["stage"], answer["reason"], answer["faults"]) == (9, "complete", {})
        assert answer["probability"] == pytest.approx(model.predict_proba(X[[row]])[0, 1], rel=1e-9)
        assert answer["value"] == model.predict(X[[row]])[0]
        assert answer["spent"] == pytest.approx(323.97)
        assert set(answer["timings_ms"]) == set(answer["groups"]) == set(model.sequence_.groups)


def test_a_deadline_that_has_passed(service, patients):
    records, X, model = patients
    answer = asked(service, {"patient": records[0], "deadline_ms": 0})[0].json()
    assert (answer["stage"], answer["groups"], answer["reason"], answer["spent"]) == (0, [], "deadline", 0.0)
    assert answer["probability"] == pytest.approx(model.predict_proba(X[[0]], stage=0)[0, 1])


def test_the_header_goes_before_the_body(service, patients):
    body = {"patient": patients[0][0], "deadline_ms": FOREVER}
    answer = asked(service, body, headers={"X-Deadline-Ms": "0"})[0].json()
    assert answer["reason"] == "deadline"
    answer = asked(service, body | {"deadline_ms": 0}, headers={"X-Deadline-Ms": str(FOREVER)})[0].json()
    assert answer["reason"] == "complete"


def test_a_budget(service, patients):
    records, _, model = patients
    answer = asked(service, {"patient": records[3], "deadline_ms": FOREVER, "budget": 4.5})[0].json()
    assert answer["groups"] == list(model.sequence_.groups[:4])
    assert (answer["spent"], answer["reason"]) == (4.0, "budget")
    assert answer["probability"] == pytest.approx(expected(patients, 3, answer["groups"]))


def test_known_groups_are_free(service, patients):
    body = {"patient": patients[0][3], "deadline_ms": 0, "known": ["blood", "age"]}
    answer = asked(service, body)[0].json()
    assert (set(answer["groups"]) <= {"blood", "age"}, answer["spent"]) == (True, 0.0)
    answer = asked(service, body | {"deadline_ms": FOREVER})[0].json()
    assert answer["spent"] == pytest.approx(323.97 - 10.37 - 1)
    assert answer["probability"] == pytest.approx(expected(patients, 3, answer["groups"]))


def test_what_is_not_on_record_costs_its_group_only(service, patients):
    record = {name: value for name, value in patients[0][5].items() if name not in ("chol", "slope")}
    answer = asked(service, {"patient": record, "deadline_ms": FOREVER})[0].json()
    assert answer["faults"] == {
        "blood": "raised: LookupError: no chol on record",
        "exercise": "raised: LookupError: no slope on record",
    }
    assert len(answer["groups"]) == 7
    assert answer["probability"] == pytest.approx(expected(patients, 5, answer["groups"]))


@pytest.mark.parametrize(
    ("change", "where"),
    [
        ({"patient": None}, ["body", "patient"]),
        ({"patient": {"age": -1}}, ["body", "patient", "age"]),
        ({"patient": {"age": "old"}}, ["body", "patient", "age"]),
        ({"patient": {"cp": 5}}, ["body", "patient", "cp"]),
        ({"patient": {"colour": 1}}, ["body", "patient", "colour"]),
        ({"deadline_ms": -1}, ["body", "deadline_ms"]),
        ({"deadline_ms": 1e9}, ["body", "deadline_ms"]),
        ({"budget": -1}, ["body", "budget"]),
        ({"known": ["liver"]}, ["body", "known", 0]),
        ({"deadline": 5}, ["body", "deadline"]),
    ],
)
@pytest.mark.parametrize("path", ["/predict", "/stream"])
def test_bad_questions_are_refused(service, change, where, path):
    response = asked(service, {"patient": {}} | change, path=path)[0]
    assert response.status_code == 422
    assert [error["loc"] for error in response.json()["detail"]] == [where]


def test_more_that_is_refused(service):
    response = asked(service, {"patient": {}, "known": ["blood"]})[0]
    assert (response.status_code, response.json()["detail"]) == (422, "known: no chol on record")
    response = asked(service, {"patient": {}}, headers={"X-Deadline-Ms": "soon"})[0]
    assert (response.status_code, response.json()["detail"][0]["loc"]) == (422, ["header", "x-deadline-ms"])

    async def not_a_number(client):
        headers = {"Content-Type": "application/json"}
        return await client.post("/predict", content='{"patient": {"age": NaN}}', headers=headers)

    response = served(service, not_a_number)
    assert (response.status_code, response.json()["detail"][0]["loc"]) == (422, ["body", "patient", "age"])


def test_stream(service, patients):
    response = asked(service, {"patient": patients[0][7], "deadline_ms": FOREVER}, path="/stream")[0]
    answers = [json.loads(line) for line in response.text.splitlines()]
    assert response.headers["content-type"] == "application/x-ndjson"
    assert (answers[0]["stage"], answers[-1]["stage"]) == (0, 9)
    assert {answer["reason"] for answer in answers[:-1]} == {"running"}
    assert answers[-1]["reason"] == "complete"
    for answer in answers:
        assert answer["probability"] == pytest.approx(expected(patients, 7, answer["groups"]))


def test_a_client_that_hangs_up_ends_its_run(service, patients):
    records, _, model = patients
    cancelled = []

    async def hangs(record):
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.append(True)

    async def main():
        sent, gone = [], asyncio.Event()
        body = json.dumps({"patient": records[0], "deadline_ms": FOREVER}).encode()
        question = iter([{"type": "http.request", "body": body, "more_body": False}])

        async def receive():
            for message in question:
                return message
            await gone.wait()
            return {"type": "http.disconnect"}

        async def send(message):
            sent.append(message)
            if len(sent) == 2:  # the head, and the response before any group
                gone.set()

        extractors = dict.fromkeys(model.sequence_.groups, hangs)
        async with service.lifespan(service.app):
            with AnytimeRunner(model, extractors, workers=2) as service.app.state.runner:
                await service.app(SCOPE, receive, send)  # would take a minute
                for _ in range(10):  # rounds of the event loop, for the cancelled to notice
                    await asyncio.sleep(0)
        return sent

    sent = asyncio.run(main())
    assert sent[0]["status"] == 200
    assert json.loads(sent[1]["body"])["stage"] == 0
    assert cancelled == [True, True]


# -- bodies that are too large or too slow ---------------------------------------------------------------------------

QUESTION = json.dumps({"patient": {"age": 63}, "deadline_ms": 0}).encode()
HEAD = {"Content-Type": "application/json"}


async def in_chunks(body, size=7):
    """Send a body in pieces: without a Content-Length."""
    for start in range(0, len(body), size):
        yield body[start : start + size]


@pytest.mark.parametrize("path", ["/predict", "/stream"])
@pytest.mark.parametrize("chunked", [False, True])
def test_a_body_that_is_too_large_is_refused(service, monkeypatch, path, chunked):
    async def talk(client, room):
        monkeypatch.setattr(service, "BODY_BYTES", len(QUESTION) + room)
        return await client.post(path, content=in_chunks(QUESTION) if chunked else QUESTION, headers=HEAD)

    assert served(service, lambda client: talk(client, 0)).status_code == 200
    response = served(service, lambda client: talk(client, -1))
    assert response.status_code == 413
    assert response.json() == {"detail": f"the body is larger than {len(QUESTION) - 1} bytes"}
    assert response.headers["connection"] == "close"


def test_no_more_of_a_large_body_is_read_than_the_limit(service, monkeypatch):
    monkeypatch.setattr(service, "BODY_BYTES", 100)
    read = []

    async def endless():
        while True:
            read.append(True)
            yield b" " * 30

    response = served(service, lambda client: client.post("/predict", content=endless(), headers=HEAD))
    assert response.status_code == 413
    assert len(read) == 4


def spoken(service, messages, path="/predict"):
    """Return what the application sends to a client that sends these messages, and nothing after them."""

    async def main():
        sent, question = [], iter(messages)

        async def receive():
            message = next(question, None)
            if message is None:
                await asyncio.Event().wait()
            return message

        async def send(message):
            sent.append(message)

        async with service.lifespan(service.app):
            await service.app(SCOPE | {"path": path, "raw_path": path.encode()}, receive, send)
        return sent

    return asyncio.run(main())


@pytest.mark.parametrize("path", ["/predict", "/stream"])
@pytest.mark.parametrize("arrived", [b"", QUESTION[:10]])
def test_a_body_that_is_too_slow_is_refused_and_its_connection_closed(service, monkeypatch, path, arrived):
    monkeypatch.setattr(service, "BODY_SECONDS", 0.001)
    sent = spoken(service, [{"type": "http.request", "body": arrived, "more_body": True}] if arrived else [], path)
    assert sent[0]["status"] == 408
    assert (b"connection", b"close") in sent[0]["headers"]
    assert json.loads(sent[1]["body"]) == {"detail": "the body did not arrive within 0.001 s"}


def test_a_client_that_hangs_up_in_the_middle_of_its_body_is_not_answered(service):
    half = {"type": "http.request", "body": QUESTION[:10], "more_body": True}
    assert spoken(service, [half, {"type": "http.disconnect"}]) == []


def test_health_and_sequence(service, patients):
    async def talk(client):
        return (await client.get("/health")).json(), (await client.get("/sequence")).json()

    health, sequence = served(service, talk)
    assert health == {"status": "ok", "hanging": 0}
    assert [step["group"] for step in sequence] == list(patients[2].sequence_.groups)
    assert [step["cost"] for step in sequence] == list(patients[2].sequence_.costs)


@pytest.mark.slow
def test_quick_load():
    """Start the service as users do, with all its modes, and compare every response with the model's."""
    done = subprocess.run(
        [sys.executable, "-W", "error", str(ROOT / "benchmarks" / "service.py"), "--quick"],
        capture_output=True, text=True, check=False, cwd=ROOT,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "| load |" in done.stdout
    assert "Of 20 responses, 0 were wrong" in done.stdout
