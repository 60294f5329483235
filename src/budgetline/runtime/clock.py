"""Time, and waiting: the one thing that tests replace, so that they never sleep."""

from __future__ import annotations

import asyncio
import math
import time
from queue import Empty, SimpleQueue
from threading import TIMEOUT_MAX
from typing import Any


class Clock:
    """The monotonic clock of the machine.

    Another clock may be given to a runner: it tells the time in seconds, and waits for a message until a time comes.
    """

    def now(self) -> float:
        """Return the time in seconds since some fixed point."""
        return time.monotonic()

    def receive(self, mailbox: SimpleQueue[Any], until: float | None) -> Any:
        """Return the next message, or None when there is none until then (or somebody sent None to wake us)."""
        left = None if until is None else until - self.now()
        try:
            if left is None or left > 0:
                return mailbox.get(timeout=left if left is None else min(left, TIMEOUT_MAX))
            while (message := mailbox.get_nowait()) is None:
                pass
            return message
        except Empty:
            return None

    async def receive_async(self, mailbox: asyncio.Queue[Any], until: float | None) -> Any:
        """Do the same without blocking the event loop."""
        left = None if until is None else until - self.now()
        if left is None:
            return await mailbox.get()
        if left > 0:
            alarm = asyncio.get_running_loop().call_later(left, mailbox.put_nowait, None)
            try:
                return await mailbox.get()
            finally:
                alarm.cancel()
        await asyncio.sleep(0)  # so that what has arrived can be put into the box
        while not mailbox.empty():
            if (message := mailbox.get_nowait()) is not None:
                return message
        return None


class Estimate:
    """How long something takes at most, nearly always: a running 95 % quantile of its times.

    Up by a fifth when a time is above it, down by a hundredth when not: in balance where one in twenty is above.
    """

    def __init__(self, seconds: float = 0.0) -> None:
        self.seconds = seconds

    def update(self, seconds: float) -> None:
        """Take note of one more time."""
        if 0 < self.seconds < math.inf:
            self.seconds *= 1.2 if seconds > self.seconds else 0.99
        else:
            self.seconds = seconds
