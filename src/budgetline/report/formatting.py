"""Numbers and names as text, the same in reports and on the command line."""

from __future__ import annotations

from collections.abc import Sequence

from budgetline.tables import rounded_down

MOST_LISTED = 6
"""Longer lists of names in a sentence are replaced by their number."""


def amount(cost: float) -> str:
    """Return a cost to six digits, without an exponent."""
    return repr(float(f"{cost:.6g}")).removesuffix(".0")


def number(value: float | None, style: str) -> str:
    """Return a value of a metric in its style: "percent", "fixed" (three decimals) or "general" (four digits)."""
    if value is None:
        return "–"
    if style == "percent":
        return _signed(f"{100 * value:.1f}") + " %"
    return _signed(f"{value:.3f}" if style == "fixed" else repr(float(f"{value:.4g}")).removesuffix(".0"))


def _signed(text: str) -> str:
    """Return a number with a true minus sign, and zero without a sign."""
    return text.replace("-", "" if float(text) == 0 else "−", 1)


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
