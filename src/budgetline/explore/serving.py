"""Serving a session on an address of this machine, and opening a browser there."""

from __future__ import annotations

import socket
import sys
import webbrowser
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from html import escape
from pathlib import Path
from secrets import token_urlsafe
from tempfile import TemporaryDirectory
from warnings import catch_warnings, simplefilter

from budgetline.explore.session import Session
from budgetline.packages import imported

HOST = "127.0.0.1"
"""The loopback address of this machine: no other machine can connect."""
SWITCH_SECONDS = 1e-3
"""Maximum time for which a computing thread keeps requests waiting."""
REDIRECT = '<!doctype html><meta name="referrer" content="no-referrer"><meta http-equiv="refresh" content="0;url={}">\n'


@contextmanager
def browser_at(url: str) -> Iterator[None]:
    """Open a browser by way of a private file: every local user can read command lines, and the token is in the URL."""
    with TemporaryDirectory(prefix="budgetline-", ignore_cleanup_errors=True) as folder:  # for the owner alone
        page = Path(folder, "open.html")
        page.write_text(REDIRECT.format(escape(url)), encoding="utf-8")
        webbrowser.open(page.as_uri())
        yield


def serve(session: Session, port: int, ready: Callable[[str], None]) -> None:
    """Serve a session until it is closed or interrupted; ``ready`` is called with the address. Port 0: any free one."""
    for package in ("starlette", "uvicorn"):
        uvicorn = imported(package, "exploring needs Starlette and uvicorn", "explore")
    from budgetline.explore.server import make_app

    # with its protocol: only then asyncio sends results at once, not 40 ms later (Nagle's algorithm)
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP) as listening:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listening.bind((HOST, port))
        except OSError as error:
            raise ValueError(f"cannot listen on {HOST}, port {port}: {error.strerror}") from error
        listening.listen(1024)  # clients may connect as soon as they know the address
        token, port = token_urlsafe(32), listening.getsockname()[1]

        def stop() -> None:
            server.should_exit = True

        app, worker = make_app(session, token, {f"{name}:{port}" for name in (HOST, "localhost")}, stop)
        config = uvicorn.Config(
            app, log_level="critical", access_log=False, timeout_keep_alive=30,
            server_header=False, date_header=False, lifespan="off", ws="none", h11_max_incomplete_event_size=1 << 14,
            timeout_graceful_shutdown=2, http="h11", loop="asyncio",
        )  # fmt: skip
        server, interval = uvicorn.Server(config), sys.getswitchinterval()
        sys.setswitchinterval(SWITCH_SECONDS)
        try:
            with catch_warnings():
                simplefilter("ignore")  # for all threads at once: filters belong to the process
                ready(f"http://{HOST}:{port}/#token={token}")
                server.run(sockets=[listening])
        finally:
            sys.setswitchinterval(interval)
            worker.close()
