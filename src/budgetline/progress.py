"""Progress bars: tqdm's, where it is installed, on a terminal only."""

from __future__ import annotations

import sys
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
