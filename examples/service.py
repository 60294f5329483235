"""An HTTP service that answers by a deadline: the risk of heart disease from the tests that are back in time.

``python examples/service.py`` serves on 127.0.0.1:8000 (``pip install fastapi uvicorn pandas``). Ask it ::

    curl -H 'Content-Type: application/json' localhost:8000/predict \
        -d '{"patient": {"age": 63, "sex": 1, "cp": 1, "trestbps": 145, "chol": 233, "fbs": 1}, "deadline_ms": 50}'

Every group of features has a source of its own. They are simulated: values come from the record that is sent, delays
are random. Environment variables set their means (LABORATORY_MS, IMAGING_MS), the work of EXERCISE_MS, SEED and PORT.
"""

import asyncio
import json
import os
import random
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Annotated, Any, Literal

from fastapi import FastAPI, Header, HTTPException, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, StreamingResponse
from pydantic import BaseModel, Field, NonNegativeFloat, PositiveFloat
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from budgetline import AnytimeClassifier, AnytimeRunner, Extractor
from budgetline.datasets import load_heart
from budgetline.runtime import Prediction

LABORATORY_MS, IMAGING_MS = float(os.environ.get("LABORATORY_MS", "8")), float(os.environ.get("IMAGING_MS", "15"))
EXERCISE_MS = float(os.environ.get("EXERCISE_MS", "4"))
BODY_BYTES, BODY_SECONDS = 16_384, 5.0
"""A body that is larger, or takes longer to arrive, is refused."""
delays = random.Random(os.environ.get("SEED"))

FEATURES = {
    "age": ["age"], "sex": ["sex"], "cp": ["cp"], "trestbps": ["trestbps"], "blood": ["chol", "fbs"],
    "ecg": ["restecg"], "thallium": ["thalach", "thal"], "exercise": ["exang", "oldpeak", "slope"],
    "fluoroscopy": ["ca"],
}  # fmt: skip
CATEGORIES = {"cp": (1, 2, 3), "restecg": (1, 2), "thal": (6, 7), "slope": (2, 3)}
Record = dict[str, float | None]
Milliseconds = Annotated[float, Field(ge=0, le=60_000)]
Limit = Annotated[Milliseconds | None, Header()]


class Patient(BaseModel, extra="forbid", allow_inf_nan=False):
    """A record. If a value is missing, its group fails, and the prediction uses the other groups."""

    age: NonNegativeFloat | None = None
    sex: Literal[0, 1] | None = None
    cp: Literal[1, 2, 3, 4] | None = None
    trestbps: PositiveFloat | None = None
    chol: PositiveFloat | None = None
    fbs: Literal[0, 1] | None = None
    restecg: Literal[0, 1, 2] | None = None
    thalach: PositiveFloat | None = None
    thal: Literal[3, 6, 7] | None = None
    exang: Literal[0, 1] | None = None
    oldpeak: float | None = None
    slope: Literal[1, 2, 3] | None = None
    ca: Literal[0, 1, 2, 3] | None = None


class Question(BaseModel, extra="forbid", allow_inf_nan=False):
    """A patient, the deadline, the budget, and the groups that are already known."""

    patient: Patient
    deadline_ms: Milliseconds = 50.0
    budget: NonNegativeFloat | None = None
    known: list[Literal[tuple(FEATURES)]] = []  # type: ignore[valid-type]


# -- the sources ---------------------------------------------------------------------------------------------------


def encoded(group: str, record: Record) -> dict[str, float]:
    """Return the columns that the model was fitted on: numbers, and 0/1 for the categories."""
    columns: dict[str, float] = {}
    for name in FEATURES[group]:
        value = record[name]
        if value is None and name not in ("thal", "ca"):  # the model has learned the missing values of these two
            raise LookupError(f"no {name} on record")
        columns |= {name: value or 0.0, f"{name}=missing": float(value is None)}
        columns |= {f"{name}={level}": float(value == level) for level in CATEGORIES.get(name, ())}
    return columns


def on_record(group: str) -> Callable[[Record], dict[str, float]]:
    """Read the record, in microseconds: cooperative, on the event loop itself."""
    return lambda record: encoded(group, record)


def blood_pressure(record: Record) -> dict[str, float]:
    """Block, as drivers do: in a thread."""
    time.sleep(0.001)
    return encoded("trestbps", record)


def exercise(record: Record) -> dict[str, float]:
    """Keep a processor busy: in a process, which is killed when it is late."""
    until = time.process_time() + EXERCISE_MS / 1e3
    while time.process_time() < until:
        pass
    return encoded("exercise", record)


def ask(group: str, mean_ms: float) -> Callable[[Record], Any]:
    """Await another service: cancelled when it is late."""

    async def result(record: Record) -> dict[str, float]:
        await asyncio.sleep(delays.expovariate(1.0) * mean_ms / 1e3)
        return encoded(group, record)

    return result


EXTRACTORS = {
    "age": on_record("age"), "sex": on_record("sex"), "cp": on_record("cp"),
    "trestbps": Extractor(blood_pressure, mode="thread"), "exercise": Extractor(exercise, mode="process"),
    "blood": ask("blood", LABORATORY_MS), "ecg": ask("ecg", LABORATORY_MS),
    "thallium": ask("thallium", IMAGING_MS), "fluoroscopy": ask("fluoroscopy", IMAGING_MS),
}  # fmt: skip


# -- the application -----------------------------------------------------------------------------------------------


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    """Fit the model (or load one), start the runner's processes, and end them after the last request."""
    heart = load_heart(as_frame=True)
    app.state.model = AnytimeClassifier(heart.feature_groups, alpha=1e-2).fit(heart.data, heart.target)
    seconds = {"exercise": 2 * EXERCISE_MS / 1e3}  # with less time left the group is skipped, not started and killed
    with AnytimeRunner(app.state.model, EXTRACTORS, seconds=seconds, workers=3, processes=2) as app.state.runner:
        yield


class TooLarge(Exception):
    """A body has more bytes than are read."""


async def body_of(scope: Scope, receive: Receive) -> bytes | None:
    """Return the body, None if the client hung up before its end."""
    declared = dict(scope["headers"]).get(b"content-length", b"")
    if declared.isdigit() and int(declared) > BODY_BYTES:
        raise TooLarge
    body, more = b"", True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            return None
        body, more = body + message.get("body", b""), message.get("more_body", False)
        if len(body) > BODY_BYTES:  # chunks come without a length
            raise TooLarge
    return body


class Bounded:
    """Read the body before the application does, up to a size and a time; close the connection on one that has more."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or refuse it."""
        if scope["type"] != "http":
            return await self.app(scope, receive, send)
        try:
            async with asyncio.timeout(BODY_SECONDS):
                body = await body_of(scope, receive)
        except (TooLarge, TimeoutError) as error:
            large = isinstance(error, TooLarge)
            told = f"is larger than {BODY_BYTES} bytes" if large else f"did not arrive within {BODY_SECONDS:g} s"
            refusal = JSONResponse({"detail": f"the body {told}"}, 413 if large else 408, {"Connection": "close"})
            return await refusal(scope, receive, send)
        if body is None:
            return None
        whole = iter([{"type": "http.request", "body": body, "more_body": False}])

        async def replay() -> Message:
            for message in whole:
                return message
            return await receive()  # that the client hangs up is still to be told

        return await self.app(scope, replay, send)


app = FastAPI(title="budgetline example", lifespan=lifespan)
app.add_middleware(Bounded)


@app.exception_handler(RequestValidationError)
async def refuse(_: Request, error: RequestValidationError) -> JSONResponse:
    """Say what is wrong where, without sending the record back: it may hold NaN, which JSON does not have."""
    return JSONResponse({"detail": [{"loc": one["loc"], "msg": one["msg"]} for one in error.errors()]}, 422)


def arguments(question: Question, limit: float | None) -> dict[str, Any]:
    """Return what the runner is asked; a deadline in the header goes before that in the body."""
    record = question.patient.model_dump()
    try:
        known = {group: encoded(group, record) for group in question.known}
    except LookupError as error:
        raise HTTPException(422, f"known: {error}") from error
    deadline = (question.deadline_ms if limit is None else limit) / 1e3
    return {"raw": record, "deadline": deadline, "budget": question.budget, "known": known}


def reply(answer: Prediction) -> dict[str, Any]:
    """Return an answer as JSON has it, times in milliseconds."""
    return {
        "value": answer.value, "probability": float(answer.probabilities[1]), "reason": answer.reason,
        "stage": answer.stage, "groups": answer.groups, "skipped": answer.skipped, "spent": answer.spent,
        "faults": {group: str(fault) for group, fault in answer.faults.items()}, "elapsed_ms": 1e3 * answer.elapsed,
        "timings_ms": {group: 1e3 * seconds for group, seconds in answer.timings.items()},
    }  # fmt: skip


@app.post("/predict")
async def predict(question: Question, x_deadline_ms: Limit = None) -> dict[str, Any]:
    """Answer by the deadline."""
    return reply(await app.state.runner.apredict(**arguments(question, x_deadline_ms)))


@app.post("/stream")
async def stream(question: Question, x_deadline_ms: Limit = None) -> StreamingResponse:
    """Answer after every group, a line each. A client that hangs up ends the run and what it had started."""
    answers = app.state.runner.astream(**arguments(question, x_deadline_ms))
    lines = (json.dumps(reply(answer)) + "\n" async for answer in answers)
    return StreamingResponse(lines, media_type="application/x-ndjson")


@app.get("/health")
async def health() -> dict[str, Any]:
    """Tell that it runs, and how many late functions still occupy threads."""
    return {"status": "ok", "hanging": app.state.runner.n_abandoned}


@app.get("/sequence")
async def sequence() -> list[dict[str, Any]]:
    """Return the groups in the order in which they are asked for."""
    found = app.state.model.sequence_
    return [{"group": g, "cost": c} for g, c in zip(found.groups, found.costs.tolist(), strict=True)]


if __name__ == "__main__":
    import uvicorn

    uvicorn.run(app, host="127.0.0.1", port=int(os.environ.get("PORT", "8000")), log_level="warning")
