"""The server: from requests to edits, results and files. It needs Starlette, so it is imported late.

Every request must name this host, come from this page, and be small; requests to ``/api`` must carry the token. The
page has it from the fragment of its address, which browsers send to no server, and keeps it for its own origin; a
cookie would also be sent to other ports of this machine.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Collection, Iterator
from contextlib import contextmanager
from hmac import compare_digest
from importlib.resources import files
from pathlib import PurePosixPath

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from budgetline.explore.board import Board
from budgetline.explore.edits import read_edit
from budgetline.explore.session import Session, snapshot_of
from budgetline.explore.takeaway import KINDS, make_file, name_of_file
from budgetline.explore.worker import Worker, sentence_of
from budgetline.messages import shown, some

TOKEN_HEADER = "x-budgetline-token"
MOST_BODY = 2 << 20
"""Maximum size of a request body, in bytes."""
HEADERS = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; "
    "connect-src 'self'; font-src 'self'; form-action 'none'; base-uri 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), microphone=(), geolocation=()",
    "cache-control": "no-store",
}
TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
}
"""Content types of the page's files."""
SHARED = ("charts.js", "charts.css")
"""Files that the page shares with the report."""
STATUS = {
    "malformed": 400, "token": 403, "origin": 403, "not_found": 404, "method": 405, "too_large": 413, "host": 421,
    "refused": 422, "failed": 500,
}  # fmt: skip


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
        listed = (await _content(request)).get("edits")
        if not isinstance(listed, list) or not listed:
            raise RequestError("malformed", "send a list of edits")
        with _refusing("malformed"):
            edits = [read_edit(each) for each in listed]
        return await self._change(lambda: self.session.edit(edits))

    async def undo(self, request: Request) -> object:
        """Undo the last step."""
        return await self._change(lambda: self.session.change(self.session.history.moved(-1)))

    async def redo(self, request: Request) -> object:
        """Redo what was undone last."""
        return await self._change(lambda: self.session.change(self.session.history.moved(1)))

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
        return _response(await self.board.wait(after, wait))

    async def download(self, request: Request) -> object:
        """Return a file of the present state."""
        what = (await _content(request)).get("what")
        if not isinstance(what, str) or what not in KINDS:
            raise RequestError("malformed", f"what must be one of {some(KINDS)}, got {shown(what)}")
        async with self.order:
            data, state, content = self.session.data, self.session.state, self.session.record.to_json().encode()
        if what != "session":
            async with self.making:  # one at a time: each may keep a processor busy for a while
                with _refusing("refused"):
                    content = await asyncio.to_thread(make_file, what, data, state)
        name = "".join(c if c.isascii() and (c.isalnum() or c in "-_.") else "_" for c in name_of_file(what, data))
        found = _response(content, KINDS[what][1])
        found.headers["content-disposition"] = f'attachment; filename="{name}"'
        return found

    async def close(self, request: Request) -> object:
        """End the server."""
        self.stop()
        return {"closed": True}


@contextmanager
def _refusing(code: str) -> Iterator[None]:
    """Turn errors of the library into refused requests."""
    try:
        yield
    except (ValueError, TypeError, RecursionError, ImportError) as error:
        raise RequestError(code, sentence_of(error)) from error


async def _content(request: Request) -> dict[str, object]:
    """Return the JSON object that a request holds."""

    def refuse(text: str) -> float:
        raise ValueError(f"{text} is not a number")

    body = bytearray()
    async for part in request.stream():
        body += part
        if len(body) > MOST_BODY:
            raise RequestError("too_large", f"a request may have at most {MOST_BODY >> 20} MB")
    with _refusing("malformed"):
        found = json.loads(body, parse_constant=refuse)
    if not isinstance(found, dict):
        raise RequestError("malformed", "the request must be a JSON object")
    return found


def _response(content: str | bytes, kind: str = "application/json", status: int = 200) -> Response:
    return Response(content, status, HEADERS, kind)


def _failed(code: str, message: str) -> Response:
    return _response(json.dumps({"error": {"code": code, "message": message}}), status=STATUS[code])


# -- access ----------------------------------------------------------------------------------------------------


def _check(request: Request, token: str, hosts: Collection[str]) -> None:
    """Raise an error for a request that does not come from the page, before its body is read.

    A page of another site whose name was made to point here, by DNS rebinding, has another host.
    """
    headers, path = request.headers, request.scope["path"]
    host, site = headers.get("host", "").lower(), headers.get("sec-fetch-site", "same-origin")
    if host not in hosts:
        raise RequestError("host", "this server accepts only its own address")
    opened = (headers.get("sec-fetch-mode"), headers.get("sec-fetch-dest")) == ("navigate", "document") and path == "/"
    strange = any(origin.lower() != f"http://{host}" for origin in headers.getlist("origin"))
    if strange or (site not in ("same-origin", "none") and not opened):
        raise RequestError("origin", "requests from other sites are refused")
    if path.startswith("/api"):
        if not compare_digest(headers.get(TOKEN_HEADER, "").encode("latin-1"), token.encode()):
            raise RequestError("token", "open the address that budgetline explore printed: it contains the token")
        kind = headers.get("content-type", "").split(";")[0].strip()
        if request.method == "POST" and kind != "application/json":
            raise RequestError("malformed", "the content must be application/json")


async def _page(request: Request) -> Response:
    """Return a file of the page. Its name is looked up in a list, so that no request can name a path."""
    name = str(request.path_params.get("name", "index.html"))
    report = files("budgetline.report")
    folder = (files("budgetline.explore") / "static").iterdir()
    known = {each.name: each for each in (*folder, *(report / shared for shared in SHARED))}
    if name not in known:
        raise RequestError("not_found", "there is no such file")
    return _response(known[name].read_bytes(), TYPES[PurePosixPath(name).suffix])


def make_app(
    session: Session, token: str, hosts: Collection[str], stop: Callable[[], None]
) -> tuple[Starlette, Worker]:
    """Return the application of a session, and its worker; ``hosts`` are the headers Host that name this server."""
    board = Board()
    worker = Worker(session.data, board)
    explorer = Explorer(session, worker, board, stop)

    def endpoint_of(method: Callable[[Request], Awaitable[object]]) -> Callable[[Request], Awaitable[Response]]:
        async def endpoint(request: Request) -> Response:
            try:
                _check(request, token, hosts)
                found = await method(request)
            except RequestError as error:
                return _failed(error.code, str(error))
            # in ASCII: the name of a file may not be valid Unicode
            return found if isinstance(found, Response) else _response(json.dumps(found, allow_nan=False))

        return endpoint

    async def failed(request: Request, error: Exception) -> Response:
        codes = {404: "not_found", 405: "method"}
        return _failed(codes.get(getattr(error, "status_code", 500), "failed"), sentence_of(error))

    asked = (explorer.state, explorer.results)
    told = (explorer.edit, explorer.undo, explorer.redo, explorer.download, explorer.close)
    routes = [Route(path, endpoint_of(_page)) for path in ("/", "/static/{name}")]
    routes += [Route(f"/api/{method.__name__}", endpoint_of(method)) for method in asked]
    routes += [Route(f"/api/{method.__name__}", endpoint_of(method), methods=["POST"]) for method in told]
    worker.work_on(session.state, session.history.revision)
    return Starlette(routes=routes, exception_handlers=dict.fromkeys((404, 405, 500), failed)), worker
