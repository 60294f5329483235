"""The board: workers put results there, and requests wait for newer ones."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from threading import RLock
from time import monotonic

PARTS = ("order", "budget", "next", "effects", "compare")
LONGEST_WAIT, PAUSE = 30.0, 0.03
"""Maximum time that a request waits, and the pause between its checks, in seconds."""


class Board:
    """Parts of the results, each with the serial number of its last change. Thread-safe.

    A part has a key: everything that it depends on. It stays valid for every later state with the same key. Parts are
    kept as JSON text, so that responses are put together quickly.
    """

    def __init__(self) -> None:
        self._lock = RLock()
        self._serial = 0
        self._revision = -1
        self._parts: dict[str, tuple[int, str]] = {}
        self._keys: dict[str, object] = {}
        self._current: dict[str, bool] = dict.fromkeys(PARTS, False)
        self._status: dict[str, object] = {"computing": False, "progress": None}

    def begin(self, revision: int, keys: Mapping[str, object]) -> None:
        """Start a new revision, whose parts have these keys."""
        with self._lock:
            self._revision = revision
            self._current = {name: self._keys.get(name) == keys[name] for name in PARTS}
            self._set_status(revision, computing=True, progress=None)

    def has(self, name: str, key: object) -> bool:
        """Return whether the present part has a key."""
        with self._lock:
            return self._keys.get(name) == key

    def put(self, name: str, revision: int, key: object, part: Mapping[str, object]) -> None:
        """Put a part, unless a newer revision has started; a part with the key None is for this revision only."""
        with self._lock:
            if revision < self._revision:
                return
            content = {"serial": self._serial + 1, "revision": revision, "current": True, **part}
            self._parts[name] = (self._serial + 1, json.dumps(content, allow_nan=False))
            self._keys[name], self._current[name] = key, True
            self._set_status(revision)

    def tell(self, revision: int, text: str, done: int, total: int) -> None:
        """Set the progress of a revision."""
        self._set_status(revision, progress={"text": text, "done": done, "total": total})

    def end(self, revision: int) -> None:
        """End a revision."""
        self._set_status(revision, computing=False, progress=None)

    def _set_status(self, revision: int, **changes: object) -> None:
        """Note that something has changed, unless a newer revision has started."""
        with self._lock:
            if revision < self._revision:
                return
            self._serial += 1
            self._status |= changes

    def news(self, after: int) -> str:
        """Return what is newer than a serial number, as JSON."""
        with self._lock:
            parts = ", ".join(f"{json.dumps(n)}: {text}" for n, (serial, text) in self._parts.items() if serial > after)
            status = {"serial": self._serial, "revision": self._revision, "current": self._current, **self._status}
            return f'{json.dumps(status)[:-1]}, "parts": {{{parts}}}}}'

    async def wait(self, after: int, seconds: float) -> str:
        """Return what is newer than a serial number, as soon as there is anything or the time is over."""
        end = monotonic() + min(max(seconds, 0.0), LONGEST_WAIT)
        while self._serial <= after and monotonic() < end:
            await asyncio.sleep(PAUSE)
        return self.news(after)
