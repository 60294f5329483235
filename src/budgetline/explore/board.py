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
    """Parts of the results, each with the serial number of its last change; written by two threads, read by requests.

    A part has a key, all that it depends on: it is right for every state of this key, also for a later one. Parts are
    kept as JSON text, so that answers are put together quickly.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._serial = 0
        self._revision = -1
        self._parts: dict[str, tuple[int, str]] = {}
        self._keys: dict[str, object] = {}
        self._current: dict[str, bool] = dict.fromkeys(PARTS, False)
        self._progress: dict[str, object] | None = None
        self._computing = False
        self._waiting: set[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = set()

    def begin(self, revision: int, keys: Mapping[str, object]) -> None:
        """Say that another state is being worked on, whose parts have these keys."""
        with self._lock:
            self._serial += 1
            self._revision, self._computing, self._progress = revision, True, None
            self._current = {name: self._keys.get(name) == keys[name] for name in PARTS}
        self._ring()

    def has(self, name: str, key: object) -> bool:
        """Return whether the part that is there has a key."""
        with self._lock:
            return self._keys.get(name) == key

    def put(self, name: str, revision: int, key: object, part: Mapping[str, object]) -> None:
        """Put a part of the results of a revision, if there is no newer one; key None: it is for this one only."""
        with self._lock:
            if revision < self._revision:
                return
            self._serial += 1
            content = {"serial": self._serial, "revision": revision, "current": True, **part}
            self._parts[name] = (self._serial, json.dumps(content, allow_nan=False))
            self._keys[name], self._current[name] = key, True
        self._ring()

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
        """Return what is newer than a serial number, as JSON."""
        with self._lock:
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
            news = after < self._serial
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
