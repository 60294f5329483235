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
from typing import Any, TypeVar

import numpy as np

T = TypeVar("T")
MOST_CHARACTERS = 100
"""Length of a value in a message."""
MOST_OF_A_TEXT = 1000
"""Length of a text from elsewhere, such as that of an exception."""
MOST_NAMES = 20
"""Names in a list; an ellipsis replaces the rest."""
CONTROLS = re.compile("[\x00-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
"""Characters that move the cursor, end a line, change the direction of writing, or cannot be printed."""
MOST_BITS = 10_000
"""Size of an integer that is written in full: Python refuses larger ones."""
MOST_KNOWN = 10_000
"""Names that a misspelt one is compared with."""
BRACKETS: dict[type, str] = {list: "[]", tuple: "()", dict: "{}", set: "{}", frozenset: "{}"}


def shown(value: object, most: int = MOST_CHARACTERS) -> str:
    """Return the repr of a value, or its beginning. Only the part that is shown is read."""
    text = ""
    for piece in _pieces(value, most):
        text += piece
        if len(text) > most:
            break
    return cut(text, most)


def cut(text: str, most: int = MOST_OF_A_TEXT) -> str:
    """Return a text, or its beginning and an ellipsis, with at most ``most`` characters."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


def some(values: Iterable[T], most: int = MOST_NAMES, of: Callable[[T], str] = shown) -> str:
    """Return the first of many values, with commas between them."""
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


def _pieces(value: object, most: int) -> Iterator[str]:
    """Yield the repr of a value piece by piece, so that the caller can stop early.

    Every level of nesting yields a character before the next level is entered. So values that hold themselves, or each
    other many times, take no longer than others.
    """
    kind = next((base for base in BRACKETS if issubclass(type(value), base)), None)
    if kind is not None:
        yield from _entries(value, kind, most)
    elif isinstance(value, np.ndarray) and value.dtype == object and value.ndim:
        yield "array("
        yield from _pieces(value.tolist(), most)
        yield ", dtype=object)"
    elif isinstance(value, str | bytes) and type(value) in (str, bytes):
        yield repr(value[: most + 1])
    else:
        yield _own_words(value)


def _entries(value: Any, kind: Any, most: int) -> Iterator[str]:
    opening, closing = BRACKETS[kind][0], BRACKETS[kind][1]
    size = kind.__len__(value)
    plain = type(value) in (list, tuple, dict) or (type(value) is set and size > 0)
    if not plain:
        yield f"{type(value).__name__}("
    if plain or size:
        yield opening
        entries = dict.items(value) if kind is dict else kind.__iter__(value)
        for k, entry in enumerate(entries):
            yield ", " if k else ""
            if kind is dict:
                yield from _pieces(entry[0], most)
                yield ": "
            yield from _pieces(entry[1] if kind is dict else entry, most)
        yield f",{closing}" if kind is tuple and size == 1 else closing
    yield "" if plain else ")"


def _own_words(value: object) -> str:
    if isinstance(value, int) and value.bit_length() > MOST_BITS:
        return f"<an integer of {value.bit_length()} bits>"
    try:
        return printable(" ".join(repr(value).split()))
    except Exception as error:  # the repr is other people's code
        return f"<a {type(value).__name__} whose repr raises {type(error).__name__}>"


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
