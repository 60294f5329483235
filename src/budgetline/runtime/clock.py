"""The clock tells the time and waits. Tests replace it, so that they never sleep."""

from __future__ import annotations

import asyncio
import math
import time
from queue import Empty, SimpleQueue
from threading import TIMEOUT_MAX
from typing import TypeVar

T = TypeVar("T")


class Clock:
    """The monotonic clock of the machine; ``AnytimeRunner(clock=)`` accepts another."""

    def now(self) -> float:
        """Return the time in seconds since some fixed point."""
        return time.monotonic()

    def receive(self, mailbox: SimpleQueue[T | None], until: float) -> T | None:
        """Return the next message, or None if the time ``until`` (which may be infinite) comes or None was sent."""
        left = until - self.now()
        try:
            if left > 0:
                return mailbox.get(timeout=min(left, TIMEOUT_MAX))
            while (message := mailbox.get_nowait()) is None:
                pass
            return message
        except Empty:
            return None

    async def receive_async(self, mailbox: asyncio.Queue[T | None], until: float) -> T | None:
        """Do the same without blocking the event loop."""
        left = until - self.now()
        if left == math.inf:
            return await mailbox.get()
        if left > 0:
            alarm = asyncio.get_running_loop().call_later(left, mailbox.put_nowait, None)
            try:
                return await mailbox.get()
            finally:
                alarm.cancel()
        await asyncio.sleep(0)  # the loop puts what has arrived into the mailbox
        while not mailbox.empty():
            if (message := mailbox.get_nowait()) is not None:
                return message
        return None
