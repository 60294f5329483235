"""Progress: one line of a terminal that is rewritten, or a line from time to time, for logs.

Long work announces its steps, such as "group 14 of 81". Whoever watches in this context, or in a thread that works for
it, is told; announcing costs nothing if nobody watches.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence, Sized
from contextlib import AbstractContextManager, contextmanager, suppress
from contextvars import ContextVar
from shutil import get_terminal_size
from threading import Event, Thread
from typing import Literal, TypeVar

T = TypeVar("T")
Progress = bool | None | Literal["lines"]
"""False: none; True: one line, which is rewritten; None: the same on a terminal; "lines": a line every ten seconds."""
Listener = Callable[[str, int, int | None], None]
"""Is told the unit of the steps, how many have begun or are done, and how many there are, None if that is not known."""
SECONDS_PER_LINE, SECONDS_PER_STATUS = 10.0, 0.5
CLEAR = "\x1b[K"
"""Removes the rest of a line on a terminal."""

_listener: ContextVar[Listener | None] = ContextVar("budgetline_progress", default=None)


@contextmanager
def watching(listener: Listener) -> Iterator[None]:
    """Tell a listener every step that is announced meanwhile, also by the threads that help this one."""
    token = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(token)


def announce(unit: str, number: int, total: int | None) -> None:
    """Tell whoever watches which step begins or is done, and how many there are."""
    listener = _listener.get()
    if listener is not None:
        listener(unit, number, total)


def announced(items: Iterable[T], unit: str) -> Iterator[T]:
    """Yield the items, and announce each before it."""
    total = len(items) if isinstance(items, Sized) else None
    for number, item in enumerate(items, 1):
        announce(unit, number, total)
        yield item


class Bar(AbstractContextManager["Bar"]):
    """A bar that shows nothing."""

    n = 0

    def update(self, n: int = 1) -> None:
        """Count ``n`` more."""
        self.n += n

    def hear(self, unit: str, number: int, total: int | None) -> None:
        """Note a step of the work that was announced."""

    def close(self) -> None:
        """Remove the bar."""

    def __exit__(self, *_: object) -> None:
        self.close()


class Lines(Bar):
    """Prints from time to time how much is done, on new lines or ``rewritten``, from a thread of its own."""

    def __init__(self, unit: str, total: int | None, rewritten: bool = False) -> None:
        self.unit, self.total, self.start, self._closed = unit, total, time.monotonic(), Event()
        self._rewritten, self._steps = rewritten, dict[str, str]()
        if rewritten:  # at once, so that whoever waits sees what for
            self.show()
        self._thread = Thread(target=self._print, daemon=True)
        self._thread.start()

    def hear(self, unit: str, number: int, total: int | None) -> None:
        """Show a step of the work from now on, after those that change less often."""
        self._steps.pop(unit, None)
        self._steps[unit] = f"{unit} {number:,}" + ("" if total is None else f" of {total:,}")

    def close(self) -> None:
        """Print no more."""
        self._closed.set()
        self._thread.join(1.0)  # it may wait for a reader that does not read
        if self._rewritten:
            _write(CLEAR)

    def line(self) -> str:
        """Return what is done, such as "3 of 25 fits, 40 s" or "learning: group 14 of 81, 40 s"."""
        counts = f"{self.n:,} of {self.total:,} " if self.total else f"{self.n:,} " if self.n else ""
        steps = ", ".join(list(self._steps.values()))
        return f"{counts}{self.unit}{': ' * bool(steps)}{steps}, {time.monotonic() - self.start:.0f} s"

    def show(self) -> None:
        """Print the line; text that is printed later overwrites a rewritten line."""
        width = get_terminal_size().columns - 1
        _write(f"{CLEAR}{self.line()[:width]}\r" if self._rewritten else f"{self.line()}\n")

    def _print(self) -> None:
        while not self._closed.wait(SECONDS_PER_STATUS if self._rewritten else SECONDS_PER_LINE):
            self.show()


def _write(text: str) -> None:
    if sys.stderr is not None:
        with suppress(OSError, ValueError):  # the reader may be gone
            print(text, end="", file=sys.stderr, flush=True)


def make_bar(progress: Progress, unit: str, total: int | None) -> Bar:
    """Return a bar that shows progress in this way."""
    if progress is None:
        # programs without a console have no stderr
        progress = sys.stderr is not None and sys.stderr.isatty()
    return Lines(unit, total, rewritten=progress is True) if progress else Bar()


def counted(items: Sequence[T], progress: Progress, unit: str) -> Iterator[T]:
    """Yield the items, with a progress bar."""
    with make_bar(progress, unit, len(items)) as bar:
        for item in items:
            yield item
            bar.update()


class TimeLimit(AbstractContextManager["TimeLimit"]):
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

    def __exit__(self, *_: object) -> None:
        self._bar.close()
