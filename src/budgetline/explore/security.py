"""Security: every request must name this host, come from this page, carry the token, and be small."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from hmac import compare_digest
from typing import TypeAlias

TOKEN_HEADER = b"x-budgetline-token"
MOST_BODY = 2 << 20
"""Bytes of the body of a request."""
MOST_REQUESTS = 64
"""Requests that are served at a time; others are refused."""
LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
"""Names of this machine for itself; no other machine can be reached by them."""
HEADERS = (
    (
        b"content-security-policy",
        b"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; connect-src 'self'; "
        b"font-src 'self'; form-action 'none'; base-uri 'none'; frame-ancestors 'none'",
    ),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"permissions-policy", b"camera=(), microphone=(), geolocation=()"),
    (b"cache-control", b"no-store"),
)
Message: TypeAlias = MutableMapping[str, object]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]
App: TypeAlias = Callable[[Message, Receive, Send], Awaitable[None]]


class Guard:
    """An ASGI application that forwards only allowed requests to another.

    Parameters
    ----------
    app : ASGI application
    token : str
        What every request to ``/api`` must carry in the header ``X-Budgetline-Token``. The page has it from the
        fragment of its address, which browsers send to no server, and keeps it for its own origin; a cookie would
        also be sent to other ports of this machine.
    allows : function
        Says whether a header Host is allowed: a page of another site whose name was made to point here, by DNS
        rebinding, has another one.
    entered : function
        Called when a request carries the token.
    """

    def __init__(self, app: App, token: str, allows: Callable[[str], bool], entered: Callable[[], None]) -> None:
        self.app, self.token, self.allows, self.entered = app, token.encode("ascii"), allows, entered
        self.in_work = 0

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Forward a request, or refuse it."""
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        if scope["type"] != "http":  # there are no web sockets
            raise RuntimeError(f"requests of type {scope['type']} are not served")
        refused = self._refusal(scope)
        if refused is None and not _needs_token(scope):  # files of the page; a body is not read
            await self.app(scope, receive, _with_headers(send))
            return
        if refused is None and self.in_work >= MOST_REQUESTS:
            refused = 503, "busy", "too many requests at once: try again"
        if refused is not None:
            await _answer(send, *refused)
            return
        self.entered()
        self.in_work += 1
        try:
            await self._serve(scope, receive, send)
        finally:
            self.in_work -= 1

    async def _serve(self, scope: Message, receive: Receive, send: Send) -> None:
        """Read the body of a request, and forward it."""
        body = await _body(receive)
        if body is None:
            await _answer(send, 413, "too_large", f"a request may have at most {MOST_BODY >> 20} MB")
            return
        await self.app(scope, _replayed(body, receive), _with_headers(send))

    def _refusal(self, scope: Message) -> tuple[int, str, str] | None:
        """Return why a request is refused, before its body is read; None if it is not."""
        pairs = scope["headers"]
        assert isinstance(pairs, list)
        headers: dict[bytes, bytes] = {}
        for name, value in pairs:
            if name in headers and name in (b"host", b"origin", b"content-length", TOKEN_HEADER):
                return 400, "malformed", f"the header {name.decode('latin-1')} is given twice"
            headers[name] = value
        host = headers.get(b"host", b"").decode("latin-1").lower()
        if not self.allows(host):
            return 421, "host", "this server accepts only its own address"
        origin = headers.get(b"origin")
        if origin is not None and origin.decode("latin-1").lower() != f"http://{host}":
            return 403, "origin", "requests of other sites are refused"
        if headers.get(b"sec-fetch-site", b"same-origin") not in (b"same-origin", b"none") and not _opens(
            scope, headers
        ):
            return 403, "origin", "requests of other sites are refused"
        if not _needs_token(scope):
            return None
        if not compare_digest(headers.get(TOKEN_HEADER, b""), self.token):
            return 403, "token", "open the address that budgetline explore printed: it holds the token"
        length = headers.get(b"content-length", b"0")
        if not length.isdigit() or len(length) > 12:
            return 400, "malformed", "the length of the request is not a number"
        if int(length) > MOST_BODY:
            return 413, "too_large", f"a request may have at most {MOST_BODY >> 20} MB"
        if (
            scope["method"] == "POST"
            and headers.get(b"content-type", b"").split(b";")[0].strip() != b"application/json"
        ):
            return 415, "malformed", "the content must be application/json"
        return None


def _opens(scope: Message, headers: Mapping[bytes, bytes]) -> bool:
    """Return whether a request opens the page from a link, for example in a file on this machine."""
    kind = headers.get(b"sec-fetch-mode"), headers.get(b"sec-fetch-dest")
    return scope["method"] == "GET" and scope["path"] == "/" and kind == (b"navigate", b"document")


def _needs_token(scope: Message) -> bool:
    """Return whether a request is about the session, not for a file of the page."""
    return str(scope["path"]).startswith("/api")


def _with_headers(send: Send) -> Send:
    """Return a function that sends a response with the security headers."""

    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            given = message.get("headers")
            message["headers"] = [*(given if isinstance(given, list) else []), *HEADERS]
        await send(message)

    return sending


async def _body(receive: Receive) -> bytes | None:
    """Return the whole body of a request, None if it is too large."""
    found = bytearray()
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            return bytes(found)
        part = message.get("body", b"")
        assert isinstance(part, bytes)
        found += part
        if len(found) > MOST_BODY:
            return None
        if not message.get("more_body", False):
            return bytes(found)


def _replayed(body: bytes, receive: Receive) -> Receive:
    """Return a function that receives a body that was already read, then further messages."""
    waiting: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def replay() -> Message:
        return waiting.pop() if waiting else await receive()

    return replay


async def _answer(send: Send, status: int, code: str, message: str) -> None:
    body = json.dumps({"error": {"code": code, "message": message}}).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode()), *HEADERS]
    await send({"type": "http.response.start", "status": status, "headers": [*headers, (b"connection", b"close")]})
    await send({"type": "http.response.body", "body": body})
