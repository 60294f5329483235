"""Serving a session on an address of this machine."""

from __future__ import annotations

import socket
import sys
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from ipaddress import ip_address
from secrets import token_urlsafe
from warnings import catch_warnings, simplefilter

from budgetline.explore.security import LOOPBACK, Guard
from budgetline.explore.session import Session
from budgetline.messages import shown

SWITCH_SECONDS = 1e-3
"""Longest time that a computing thread keeps requests waiting."""


@dataclass(frozen=True)
class Address:
    """Where to listen; port 0 is any free port."""

    host: str = "127.0.0.1"
    port: int = 0

    @classmethod
    def checked(cls, host: str, port: int, consent: bool = False) -> Address:
        """Return an address; it is an error without consent if other machines can reach it."""
        try:
            known = ip_address("127.0.0.1" if host == "localhost" else host)
        except ValueError:
            raise ValueError(f"--host must be an address such as 127.0.0.1, got {shown(host)}") from None
        if not known.is_loopback and not consent:
            raise ValueError(
                f"--host {host} could be reached by other machines, and nothing is encrypted: if they may connect, "
                "say so with --others-may-connect"
            )
        return cls(str(known), port)

    @property
    def family(self) -> socket.AddressFamily:
        """The kind of address."""
        return socket.AF_INET6 if ":" in self.host else socket.AF_INET

    @property
    def name(self) -> str:
        """The address as part of a URL; the loopback address if it stands for all addresses."""
        known = ip_address(self.host)
        if known.is_unspecified:
            return "127.0.0.1" if known.version == 4 else "[::1]"
        return self.host if known.version == 4 else f"[{self.host}]"

    def allows(self, host: str, port: int) -> bool:
        """Return whether a header Host names this server.

        If it listens on all addresses, any address is allowed, but no name: DNS can make names point here.
        """
        name, _, number = host.rpartition(":")
        if number != str(port):
            return False
        if name in (*LOOPBACK, self.name):
            return True
        try:
            return ip_address(self.host).is_unspecified and bool(ip_address(name.strip("[]")))
        except ValueError:
            return False


def serve(
    session: Session, address: Address, ready: Callable[[str], None], entered: Callable[[], None] = lambda: None
) -> None:
    """Serve a session until it is closed or interrupted.

    ``ready`` is called with the address to open, ``entered`` whenever a page asks that has the token.
    """
    try:
        for name in ("uvicorn", "starlette"):
            import_module(name)
    except ImportError as error:
        raise ImportError("exploring needs Starlette and uvicorn: pip install 'budgetline[explore]'") from error
    # with its protocol: only then asyncio sends answers at once, not 40 ms later (Nagle's algorithm)
    with socket.socket(address.family, socket.SOCK_STREAM, socket.IPPROTO_TCP) as listening:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listening.bind((address.host, address.port))
        except OSError as error:
            raise ValueError(f"cannot listen on {address.host}, port {address.port}: {error.strerror}") from error
        listening.listen(1024)  # clients may connect as soon as they know the address
        interval = sys.getswitchinterval()
        sys.setswitchinterval(SWITCH_SECONDS)
        try:
            with catch_warnings():
                simplefilter("ignore")  # for all threads at once: filters belong to the process
                _run(session, address, listening, ready, entered)
        finally:
            sys.setswitchinterval(interval)


def _run(
    session: Session,
    address: Address,
    listening: socket.socket,
    ready: Callable[[str], None],
    entered: Callable[[], None],
) -> None:
    """Serve a session on a socket that listens."""
    from budgetline.explore.server import make_app

    uvicorn, token, port = import_module("uvicorn"), token_urlsafe(32), listening.getsockname()[1]
    stopping: list[Callable[[], None]] = []
    explorer, worker = make_app(session, lambda: stopping[0]())
    app = Guard(explorer, token, lambda host: address.allows(host, port), entered)
    try:
        config = uvicorn.Config(
            app, log_level="critical", access_log=False, timeout_keep_alive=30,
            server_header=False, date_header=False, lifespan="off", ws="none", h11_max_incomplete_event_size=1 << 14,
            timeout_graceful_shutdown=2, http="h11", loop="asyncio",
        )  # fmt: skip
        server = uvicorn.Server(config)
        stopping.append(lambda: setattr(server, "should_exit", True))
        ready(f"http://{address.name}:{port}/#token={token}")
        server.run(sockets=[listening])
    finally:
        worker.close()
        session.close()
