"""Progress: tqdm's bars, where it is installed, on a terminal; or a line from time to time, for logs."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from contextvars import ContextVar
from importlib import import_module
from importlib.util import find_spec
from threading import Event, Thread
from typing import Literal, TypeVar

T = TypeVar("T")
Progress = bool | None | Literal["lines"]
"""False: none; True: a bar; None: a bar on a terminal; "lines": a line on stderr every ten seconds."""
SECONDS_PER_LINE = 10.0
Listener = Callable[[int, int], None]
"""Is called with the number of ordered groups and the number of all groups; if it raises an error, the fit ends."""
_listener: ContextVar[Listener | None] = ContextVar("budgetline_listener", default=None)


@contextmanager
def watching(listener: Listener) -> Iterator[None]:
    """Call a listener at every step of every fit inside this context, also in the threads that fit folds."""
    token = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(token)


def tell_step(done: int, total: int) -> None:
    """Tell the listener, if there is one, how many groups are ordered."""
    if (listener := _listener.get()) is not None:
        listener(done, total)


class Bar(AbstractContextManager["Bar"]):
    """A bar that shows nothing, with the methods of tqdm's bars."""

    n = 0

    def update(self, n: int = 1) -> None:
        """Count ``n`` more."""

    def close(self) -> None:
        """Remove the bar."""

    def __exit__(self, *_: object) -> None:
        self.close()


class Lines(Bar):
    """Prints how much is done, every ten seconds, from a thread of its own: one step may take longer."""

    def __init__(self, unit: str, total: int | None) -> None:
        self.unit, self.total, self.start, self._closed = unit, total, time.monotonic(), Event()
        self._thread = Thread(target=self._print, daemon=True)
        self._thread.start()

    def update(self, n: int = 1) -> None:
        """Count ``n`` more."""
        self.n += n

    def close(self) -> None:
        """Print no more."""
        self._closed.set()
        self._thread.join(1.0)  # it may wait for a reader that does not read

    def line(self) -> str:
        """Return what is done, such as "3 of 25 fits, 40 s"."""
        done = f"{self.n:,} of {self.total:,} {self.unit}" if self.total else f"{self.n:,} {self.unit}"
        return f"{done if self.n or self.total else self.unit}, {time.monotonic() - self.start:.0f} s"

    def _print(self) -> None:
        while not self._closed.wait(SECONDS_PER_LINE):
            if sys.stderr is not None:
                with suppress(OSError, ValueError):  # the reader may be gone
                    print(self.line(), file=sys.stderr, flush=True)


def counted(items: Sequence[T], progress: Progress, unit: str) -> Iterator[T]:
    """Yield the items, with a progress bar as in :func:`make_bar`."""
    with make_bar(progress, unit, len(items)) as bar:
        for item in items:
            yield item
            bar.update()


class TimeLimit:
    """A time limit in seconds, with a bar that fills as the time passes."""

    def __init__(self, limit: float, progress: Progress) -> None:
        self.limit, self.start = limit, time.monotonic()
        self.end = self.start + limit
        self._bar = make_bar(progress, "seconds", None if limit == float("inf") else max(1, round(limit)))

    @property
    def over(self) -> bool:
        """Whether the time is over."""
        return time.monotonic() >= self.end

    def tick(self) -> None:
        """Show how much time has passed."""
        self._bar.update(int(time.monotonic() - self.start) - self._bar.n)

    def __enter__(self) -> TimeLimit:
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.close()


def make_bar(progress: Progress, unit: str, total: int | None) -> Bar:
    """Return a tqdm bar if ``progress`` is true, or None while a terminal watches and tqdm is installed.

    For "lines" return :class:`Lines`.
    """
    if progress == "lines":
        return Lines(unit, total)
    if progress is None:
        # programs without a console have no stderr
        progress = sys.stderr is not None and sys.stderr.isatty() and find_spec("tqdm") is not None
    if not progress:
        return Bar()
    try:
        tqdm = import_module("tqdm")
    except ImportError as error:
        raise ImportError("a progress bar needs tqdm: pip install 'budgetline[progress]'") from error
    bar: Bar = tqdm.tqdm(total=total, unit=f" {unit}", leave=False)
    return bar
