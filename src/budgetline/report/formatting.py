"""Numbers and names as text, the same in reports and on the command line."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

from budgetline.messages import Held, hold_warnings, warn
from budgetline.tables import rounded_down

COST_UNITS = "cost units"
"""The default unit of costs."""
PAIRS = "a × b is the interaction of two columns. It costs nothing once both are bought."
"""Explanation of groups that have no columns of their own."""
MOST_LISTED = 6
"""In sentences, longer lists of names are replaced by a count."""
COUNT = re.compile(r"(?P<quoted>'[^']*')|\d[\d.,]*")
"""A number in a warning; numbers in quoted names are not counts."""


def amount(cost: float) -> str:
    """Return a cost to six digits, without an exponent."""
    return repr(float(f"{cost:.6g}")).removesuffix(".0")


def number(value: float | None, style: str) -> str:
    """Return a value of a metric in its style: "percent", "fixed" (three decimals) or "general" (four digits).

    Zero has no sign, and negative numbers have a true minus sign.
    """
    if value is None:
        return "–"
    percent = style == "percent"
    if style == "general":
        text = repr(float(f"{value:.4g}")).removesuffix(".0")
    else:
        text = f"{100 * value:.1f}" if percent else f"{value:.3f}"
    return text.replace("-", "" if float(text) == 0 else "−", 1) + " %" * percent


def change(value: float | None, style: str) -> str:
    """Return a difference of two values with its sign; differences of percentages are in percentage points."""
    text = number(value, style).replace(" %", " pp")
    return text if value is None or text.startswith("−") else f"+{text}"


def with_error(value: float | None, error: float | None, style: str) -> str:
    """Return "value ± standard error"."""
    text = number(value, style)
    if value is None or error is None:
        return text
    return f"{text.removesuffix(' %')} ± {number(error, style)}"


def share(value: float | None) -> str:
    """Return a share in percent, with one decimal."""
    return number(value, "percent")


def at_least(value: float) -> str:
    """Return a proven share in percent, rounded down."""
    return share(rounded_down(value))


def count(n: int, noun: str) -> str:
    """Return "1 group", "2 groups"."""
    return f"{n:,} {noun}{'' if n == 1 else 's'}"


def listed(names: Sequence[str]) -> str:
    """Return names of groups as a list in a sentence, or how many they are."""
    if len(names) > MOST_LISTED:
        return count(len(names), "group")
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def said_once(warnings: Iterable[Held]) -> list[Held]:
    """Return the first of the warnings that differ only in their counts: every fold of every method may give them."""
    found: dict[Held, Held] = {}
    for text, category in warnings:
        kind = COUNT.sub(lambda match: match["quoted"] or "", text)
        found.setdefault((kind, category), (text, category))
    return list(found.values())


@contextmanager
def warning_once() -> Iterator[None]:
    """Hold the warnings of a block, and give each of them once at its end."""
    with hold_warnings() as held:
        yield
    for text, category in said_once(held):
        warn(text, category)
