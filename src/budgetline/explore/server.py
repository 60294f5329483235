"""The server: from requests to edits, results and files. It needs Starlette, so it is imported late."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from importlib.resources import files
from pathlib import PurePosixPath

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from budgetline.explore.board import Board
from budgetline.explore.downloads import KINDS, NotReady, Wanted, make_file
from budgetline.explore.group_edits import read_edit
from budgetline.explore.lines import GROUPS, groups_yaml, needs_groups_file, python_lines, shell_lines
from budgetline.explore.security import App
from budgetline.explore.session import Session
from budgetline.explore.snapshot import snapshot_of
from budgetline.explore.worker import Worker, sentence_of
from budgetline.messages import shown, some

TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
}
"""Content types of the files of the page."""
SHARED = ("charts.js", "charts.css")
"""Files that the page shares with the report."""
MOST_EDITS = 1000
"""Number of edits in one request."""
STATUS = {
    "malformed": 400,
    "refused": 422,
    "not_ready": 409,
    "not_found": 404,
    "method": 405,
    "failed": 500,
}


class RequestError(Exception):
    """A refused request, with a code for the page and a sentence for the user."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class Explorer:
    """What the requests of one session share. Changes are made one at a time, outside the event loop."""

    def __init__(self, session: Session, worker: Worker, board: Board, stop: Callable[[], None]) -> None:
        self.session, self.worker, self.board, self.stop = session, worker, board, stop
        self.order, self.making = asyncio.Lock(), asyncio.Lock()

    async def state(self, request: Request) -> object:
        """Return the state and the table."""
        async with self.order:
            return snapshot_of(self.session)

    async def edit(self, request: Request) -> object:
        """Make edits as one step."""
        body = await _content(request)
        listed = body.get("edits", [body.get("edit")])
        if ("edits" in body) == ("edit" in body) or not isinstance(listed, list) or not 0 < len(listed) <= MOST_EDITS:
            raise RequestError("malformed", f"send one edit, or a list of at most {MOST_EDITS} edits")
        _known(body, "edit", "edits")
        with _refusing("malformed"):
            edits = [read_edit(each) for each in listed]
        return await self._change(lambda: self.session.edit(edits))

    async def undo(self, request: Request) -> object:
        """Undo the last step."""
        _known(await _content(request))
        return await self._change(lambda: self.session.change(self.session.history.undone()))

    async def redo(self, request: Request) -> object:
        """Redo what was undone last."""
        _known(await _content(request))
        return await self._change(lambda: self.session.change(self.session.history.redone()))

    async def open(self, request: Request) -> object:
        """Open the content of a session file."""
        body = await _content(request)
        _known(body, "content")
        content = body.get("content")
        if not isinstance(content, str):
            raise RequestError("malformed", "content must be the text of a session file")
        return await self._change(lambda: self.session.open(content))

    async def _change(self, change: Callable[[], None]) -> object:
        """Change the session, start computing, and return the new snapshot."""
        async with self.order:
            with _refusing("refused"):
                await asyncio.to_thread(change)
            self.worker.work_on(self.session.state, self.session.history.revision)
            return snapshot_of(self.session)

    async def results(self, request: Request) -> object:
        """Return results that are newer than a serial number, as soon as there are any."""
        try:
            after, wait = int(request.query_params.get("after", "0")), float(request.query_params.get("wait", "0"))
        except ValueError:
            raise RequestError("malformed", "after and wait must be numbers") from None
        return Response(await self.board.wait(after, wait), media_type="application/json")

    async def lines(self, request: Request) -> object:
        """Return the lines that compute what is shown."""
        async with self.order:
            state, data = self.session.state, self.session.data
        if state.target is None or not state.groups:
            raise RequestError("not_ready", "choose a target first")
        with _refusing("refused"):
            files = [{"name": GROUPS, "text": groups_yaml(state)}] if needs_groups_file(state, data) else []
            return {"python": python_lines(state, data), "shell": shell_lines(state, data), "files": files}

    async def download(self, request: Request) -> object:
        """Return a file of the present state."""
        body = await _content(request)
        _known(body, "what")
        what = body.get("what")
        if not isinstance(what, str) or what not in KINDS:
            raise RequestError("malformed", f"what must be one of {some(KINDS)}, got {shown(what)}")
        async with self.order:
            wanted = Wanted(self.session.data, self.session.record)
        async with self.making:  # one at a time: each may keep a processor busy for a while
            with _refusing("refused"):
                return await asyncio.to_thread(make_file, what, wanted)

    async def close(self, request: Request) -> object:
        """End the server."""
        _known(await _content(request))
        self.stop()
        return {"closed": True}


@contextmanager
def _refusing(code: str) -> Iterator[None]:
    """Turn errors of the library into refused requests."""
    try:
        yield
    except (ValueError, TypeError, RecursionError, ImportError) as error:
        raise RequestError("not_ready" if isinstance(error, NotReady) else code, sentence_of(error)) from error


async def _content(request: Request) -> dict[str, object]:
    """Return the JSON object that a request holds."""

    def refuse(text: str) -> float:
        raise ValueError(f"{text} is not a number")

    try:
        found = json.loads(await request.body(), parse_constant=refuse)
    except (ValueError, RecursionError) as error:
        raise RequestError("malformed", f"the request is not JSON: {sentence_of(error)}") from error
    if not isinstance(found, dict):
        raise RequestError("malformed", "the request must be a JSON object")
    return found


def _known(body: dict[str, object], *names: str) -> None:
    if unknown := [name for name in body if name not in names]:
        raise RequestError("malformed", f"the request has an unknown entry {shown(unknown[0])}")


def _json(found: object, status: int = 200) -> Response:
    """Return plain JSON in ASCII: the name of a file may not be valid Unicode."""
    return Response(json.dumps(found, allow_nan=False), status, media_type="application/json")


def _failed(code: str, message: str) -> Response:
    return _json({"error": {"code": code, "message": message}}, STATUS[code])


def _answering(method: Callable[[Request], Awaitable[object]]) -> Callable[[Request], Awaitable[Response]]:
    """Return an endpoint from a method that returns plain JSON, a file as (name, type, content), or a response."""

    async def endpoint(request: Request) -> Response:
        try:
            found = await method(request)
        except RequestError as error:
            return _failed(error.code, str(error))
        if isinstance(found, tuple):
            name, kind, content = found
            plain = "".join(c if c.isascii() and (c.isalnum() or c in "-_.") else "_" for c in name)
            disposition = {"content-disposition": f'attachment; filename="{plain}"'}
            return Response(content, headers=disposition, media_type=kind)
        return found if isinstance(found, Response) else _json(found)

    return endpoint


async def _page(request: Request) -> Response:
    """Return a file of the page. Its name is looked up in a list, so that no request can name a path."""
    name = str(request.path_params.get("name", "index.html"))
    report = files("budgetline.report")
    folder = (files("budgetline.explore") / "static").iterdir()
    known = {each.name: each for each in (*folder, *(report / shared for shared in SHARED))}
    if name not in known:
        return _failed("not_found", "there is no such file")
    return Response(known[name].read_bytes(), media_type=TYPES[PurePosixPath(name).suffix])


async def _unknown(request: Request, error: Exception) -> Response:
    return _failed("not_found", "there is nothing here")


async def _no_method(request: Request, error: Exception) -> Response:
    return _failed("method", "method not allowed")


async def _bug(request: Request, error: Exception) -> Response:
    return _failed("failed", sentence_of(error))


def make_app(session: Session, stop: Callable[[], None]) -> tuple[App, Worker]:
    """Return the application of a session, without access control, and its worker."""
    board = Board()
    worker = Worker(session.data, board)
    explorer = Explorer(session, worker, board, stop)
    asked = {"state": explorer.state, "results": explorer.results, "lines": explorer.lines}
    told = {
        "edit": explorer.edit,
        "undo": explorer.undo,
        "redo": explorer.redo,
        "session": explorer.open,
        "download": explorer.download,
        "close": explorer.close,
    }
    app = Starlette(
        routes=[
            Route("/", _page),
            Route("/static/{name}", _page),
            *(Route(f"/api/{name}", _answering(method)) for name, method in asked.items()),
            *(Route(f"/api/{name}", _answering(method), methods=["POST"]) for name, method in told.items()),
        ],
        exception_handlers={404: _unknown, 405: _no_method, 500: _bug},
    )
    worker.work_on(session.state, session.history.revision)
    return app, worker
