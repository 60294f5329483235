"""The requests of a runner that are running, and how those are released that nobody drives any more."""

from __future__ import annotations

from asyncio import AbstractEventLoop
from collections.abc import Iterator
from contextlib import contextmanager
from weakref import ref

from budgetline.runtime.request import Request


class ActiveRequests:
    """The requests that are running.

    They are not kept alive here: a request of an event loop that was dropped ends when Python collects it. That may
    happen in any thread, in the middle of anything, so there is no lock: every change is one operation on a set.
    """

    def __init__(self) -> None:
        self._requests: set[ref[Request]] = set()
        self._loops: set[ref[AbstractEventLoop]] = set()
        self.closed = False

    def __len__(self) -> int:
        return len(self._requests)

    def __iter__(self) -> Iterator[Request]:
        return iter([request for known in list(self._requests) if (request := known()) is not None])

    @contextmanager
    def holding(self, request: Request, loop: AbstractEventLoop | None = None) -> Iterator[None]:
        """Count a request among those that run, and release it at the end; ``loop`` drives it, or this thread."""
        self.release_lost()
        request.loop = loop
        if loop is not None:
            self._loops.add(ref(loop, self._loops.discard))
        known = ref(request, self._requests.discard)
        self._requests.add(known)
        try:
            request.interrupted = request.interrupted or self.closed
            yield
        finally:
            self._requests.discard(known)
            request.abandon_all()

    def interrupt(self) -> None:
        """Make every request stop and answer."""
        self.release_lost()
        for request in self:
            request.interrupted = True
            request.send(None)

    def release_lost(self) -> None:
        """Release the requests whose event loop was closed while they waited: nothing will drive them again."""
        closed = [known for known in list(self._loops) if (loop := known()) is not None and loop.is_closed()]
        if not closed:
            return
        for request in self:
            if request.loop is not None and request.loop.is_closed():
                self._requests.discard(ref(request))
                request.interrupted = True
                request.abandon_all()
        self._loops.difference_update(closed)
