"""Progress bars: tqdm's, where it is installed, on a terminal only."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import Any, TypeVar

T = TypeVar("T")
Progress = bool | None


def counted(items: Sequence[T], progress: Progress, unit: str) -> Iterator[T]:
    """Yield the items, with a bar if ``progress`` is true, or is None and a terminal watches and tqdm is there."""
    bar = make_bar(progress, unit, len(items))
    if bar is None:
        yield from items
        return
    with bar:
        for item in items:
            yield item
            bar.update()


class TimeLimit:
    """A time limit in seconds, with a bar that fills as the time passes.

    Attributes
    ----------
    start, end : float
        By ``time.monotonic``.
    limit : float
    """

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
        if self._bar is not None:
            self._bar.update(int(time.monotonic() - self.start) - self._bar.n)

    def __enter__(self) -> TimeLimit:
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.close()


def make_bar(progress: Progress, unit: str, total: int | None) -> Any:
    """Return a tqdm bar, or None where none is wanted."""
    if progress is None:
        # programs without a console have no stderr
        progress = sys.stderr is not None and sys.stderr.isatty() and find_spec("tqdm") is not None
    if not progress:
        return None
    try:
        tqdm = import_module("tqdm")
    except ImportError as error:
        raise ImportError("a progress bar needs tqdm: pip install 'budgetline[progress]'") from error
    return tqdm.tqdm(total=total, unit=f" {unit}", leave=False)
