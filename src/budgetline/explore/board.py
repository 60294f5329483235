"""The board: where results are put as they are found, and where requests wait for newer ones."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from threading import Lock

PARTS = ("order", "budget", "next", "effects", "compare")
LONGEST_WAIT = 30.0
"""Seconds that a request may wait for news."""


class Board:
    """Parts of the results, each with the serial number of its last change; written by one thread, read by requests.

    Parts are kept as JSON text, so that answers are put together quickly.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._serial = 0
        self._revision = 0
        self._parts: dict[str, tuple[int, str]] = {}
        self._current: dict[str, bool] = dict.fromkeys(PARTS, False)
        self._progress: dict[str, object] | None = None
        self._computing = False
        self._waiting: set[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = set()

    def begin(self, revision: int, current: Mapping[str, bool]) -> None:
        """Say that another state is being worked on, and which parts are already right for it."""
        with self._lock:
            self._serial += 1
            self._revision, self._computing, self._progress = revision, True, None
            self._current.update(current)
        self._ring()

    def put(self, name: str, revision: int, part: Mapping[str, object]) -> bool:
        """Put a part of the results of a revision; return False if there is a newer revision, and it is dropped."""
        with self._lock:
            if revision < self._revision:
                return False
            self._serial += 1
            content = {"serial": self._serial, "revision": revision, "current": True, **part}
            self._parts[name] = (self._serial, json.dumps(content, allow_nan=False))
            self._current[name] = True
        self._ring()
        return True

    def tell(self, revision: int, text: str, done: int, total: int) -> None:
        """Say how far the work on a revision has come."""
        with self._lock:
            if revision < self._revision:
                return
            self._serial += 1
            self._progress = {"text": text, "done": done, "total": total}
        self._ring()

    def end(self, revision: int) -> None:
        """Say that all work on a revision is done."""
        with self._lock:
            if revision < self._revision:
                return
            self._serial += 1
            self._computing, self._progress = False, None
        self._ring()

    def answer(self, after: int) -> str:
        """Return what is newer than a serial number, as JSON; everything, if the number is of another server."""
        with self._lock:
            after = 0 if after > self._serial else after
            parts = ", ".join(f"{json.dumps(n)}: {text}" for n, (serial, text) in self._parts.items() if serial > after)
            head = json.dumps(
                {
                    "serial": self._serial,
                    "revision": self._revision,
                    "computing": self._computing,
                    "progress": self._progress,
                    "current": self._current,
                }
            )
        return f'{head[:-1]}, "parts": {{{parts}}}}}'

    async def wait(self, after: int, seconds: float) -> str:
        """Return what is newer than a serial number, as soon as there is anything, or when the time is over."""
        event = asyncio.Event()
        mine = (asyncio.get_running_loop(), event)
        with self._lock:
            news = after != self._serial
            self._waiting.add(mine)
        try:
            if not news:
                await asyncio.wait_for(event.wait(), min(max(seconds, 0.0), LONGEST_WAIT))
        except TimeoutError:
            pass
        finally:
            with self._lock:
                self._waiting.discard(mine)
        return self.answer(after)

    def _ring(self) -> None:
        """Wake the requests that wait."""
        with self._lock:
            waiting = list(self._waiting)
        for loop, event in waiting:
            if not loop.is_closed():
                loop.call_soon_threadsafe(event.set)
