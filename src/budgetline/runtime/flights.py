"""The runs of a runner that are under way, and how those are let go that nobody drives any more."""

from __future__ import annotations

from asyncio import AbstractEventLoop
from collections.abc import Iterator
from contextlib import contextmanager
from weakref import ref

from budgetline.runtime.request import Request


class Flights:
    """Runs under way.

    They are not kept alive here: a run of an event loop that was dropped ends when Python collects it. That may happen
    in any thread, in the middle of anything, so there is no lock: every change is one operation on a set.
    """

    def __init__(self) -> None:
        self._runs: set[ref[Request]] = set()
        self._loops: set[ref[AbstractEventLoop]] = set()

    def __len__(self) -> int:
        return len(self._runs)

    def __iter__(self) -> Iterator[Request]:
        return iter([run for known in list(self._runs) if (run := known()) is not None])

    @contextmanager
    def holding(self, request: Request, loop: AbstractEventLoop | None = None) -> Iterator[None]:
        """Count a run among those under way; ``loop`` is what drives it, if not this thread."""
        self.release_lost()
        request.loop = loop
        if loop is not None:
            self._loops.add(ref(loop, self._loops.discard))
        known = ref(request, self._runs.discard)
        self._runs.add(known)
        try:
            yield
        finally:
            self._runs.discard(known)

    def release_lost(self) -> None:
        """Let go of the runs whose event loop was closed while they waited: nothing will drive them again."""
        closed = [known for known in list(self._loops) if (loop := known()) is not None and loop.is_closed()]
        if not closed:
            return
        for request in self:
            if request.loop is not None and request.loop.is_closed():
                self._runs.discard(ref(request))
                request.release()
        self._loops.difference_update(closed)
