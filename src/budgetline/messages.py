"""Values from outside in messages: short ones in full, long ones cut to a line or two.

A value can hold a billion entries, an extractor can raise an error with ten megabytes of text, and a name can hold
codes that clear a terminal. The functions here make such values harmless; all messages use them.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from difflib import get_close_matches
from inspect import currentframe
from itertools import islice
from reprlib import Repr
from typing import TypeVar

T = TypeVar("T")
MOST_CHARACTERS = 100
"""Length of a value in a message."""
MOST_OF_A_TEXT = 1000
"""Length of a text from elsewhere, such as that of an exception."""
MOST_NAMES = 20
"""Names in a list; an ellipsis replaces the rest."""
CONTROLS = re.compile("[\x00-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
"""Characters that move the cursor, end a line, change the direction of writing, or cannot be printed."""
MOST_KNOWN = 10_000
"""Names that a misspelt one is compared with."""


def _short_repr() -> Repr:
    """Return a repr that reads little of a long or deep value."""
    short = Repr()
    short.maxlevel, short.fillvalue = 4, "…"
    short.maxlist = short.maxtuple = short.maxdict = short.maxset = short.maxfrozenset = MOST_NAMES
    short.maxstring = short.maxlong = short.maxother = MOST_CHARACTERS
    return short


SHORT = _short_repr()


def shown(value: object, most: int = MOST_CHARACTERS) -> str:
    """Return the repr of a value on one line, cut if it is long."""
    try:
        text = SHORT.repr(value)
    except Exception as error:  # the repr is other people's code
        text = f"<a {type(value).__name__} whose repr raises {type(error).__name__}>"
    return cut(printable(re.sub(r"\s*\n\s*", " ", text)), most)


def cut(text: str, most: int = MOST_OF_A_TEXT) -> str:
    """Return a text, or its beginning and an ellipsis, with at most ``most`` characters."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


def some(values: Iterable[T], most: int = MOST_NAMES, of: Callable[[T], str] = shown) -> str:
    """Return the first few of many values, separated by commas."""
    first = list(islice(values, most + 1))
    return ", ".join(map(of, first[:most])) + (", …" if len(first) > most else "")


def did_you_mean(name: object, known: Iterable[object]) -> str:
    """Return " (did you mean 'Churn'?)" if a name is close to a known one, else ""; case does not matter."""
    if not isinstance(name, str) or len(name) > MOST_CHARACTERS:
        return ""
    names = {other.casefold(): other for other in islice(known, MOST_KNOWN) if isinstance(other, str)}
    close = get_close_matches(name.casefold(), names, 1)
    return f" (did you mean {shown(names[close[0]])}?)" if close else ""


def printable(text: str) -> str:
    """Return a text for a terminal, with control characters escaped as in Python."""
    return CONTROLS.sub(lambda found: repr(found[0])[1:-1], text)


def is_unicode(text: str) -> bool:
    """Return whether a text can be written as UTF-8: not if it has half of a character (a lone surrogate)."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def name_of(text: str) -> str:
    """Return a name without quotes, for a list of names in a note."""
    return cut(printable(text), MOST_CHARACTERS)


Held = tuple[str, type[Warning]]
_held: ContextVar[list[Held] | None] = ContextVar("budgetline_held_warnings", default=None)


@contextmanager
def hold_warnings() -> Iterator[list[Held]]:
    """Collect the warnings of this thread instead of showing them: the user's line is not on its stack."""
    found: list[Held] = []
    token = _held.set(found)
    try:
        yield found
    finally:
        _held.reset(token)


def warn(text: str, category: type[Warning]) -> None:
    """Warn at the user's line that called this library: Python shows a warning once per line."""
    held = _held.get()
    if held is not None:
        held.append((text, category))
        return
    frame, level = currentframe(), 1
    while frame is not None and str(frame.f_globals.get("__name__")).startswith("budgetline."):
        frame, level = frame.f_back, level + 1
    warnings.warn(text, category, stacklevel=level)
