"""Numbers and dates that are written in text: "8.90%", "$4.99", "10 000+", "19M", "36 months", "735-739", "7-Jan-18".

A column has a form if nearly all its values are written in it. A fit chooses the form, the one of most values; a model
keeps it. ``UNITS`` and ``DATES`` list what each kind of form accepts.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import lru_cache

import numpy as np

from budgetline.arrays import Float
from budgetline.messages import shown, some

NUMBER = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)(e[-+]?\d{1,5})?", re.ASCII)
"""A number that is written in lower case."""
ENOUGH, MOST, FREQUENT = 0.95, 0.5, 20
"""Least share of the values in the form, without and with the most frequent other word, and rows of such a word."""
MARKED = 0.01
"""Least share of the values with the mark of the form, such as "$"; largest share of codes such as "007"."""
CHOSEN = 1000
"""The form is chosen by this number of the most frequent values, and of the others."""
WORDS = {"", "na", "n/a", "nan", "null", "none", "?", ".", "#n/a", "-", "--", "<na>", "nat"}
"""Missing values in a column of numbers, in lower case."""
LARGEST, EXACT = 1e150, 1 << 53
"""Numbers are smaller, or their squares overflow. From the second on, floats do not tell whole numbers apart."""
CURRENCIES = ("us$", *"$€£¥₹₽₩₺", "usd", "eur", "gbp", "chf", "jpy", "cad", "aud", "inr", "cny", "sek", "nok", "dkk")
POWERS = {"k": 1e3, "m": 1e6, "g": 1e9, "t": 1e12}
SPANS = {"second": 1, "minute": 60, "hour": 3600, "day": 86400, "week": 604800, "month": 2629800, "year": 31557600}
"""Durations in seconds; a year has 365.25 days."""
SHORT = {"s": "second", "h": "hour", "d": "day", "w": "week", "y": "year", "sec": "second", "min": "minute"}
SHORT |= {"hr": "hour", "wk": "week", "mo": "month", "mth": "month", "yr": "year"}
SPAN_OF = {name + s: span for name, span in (dict(zip(SPANS, SPANS, strict=True)) | SHORT).items() for s in ("", "s")}
UNITS: dict[str, dict[str, float]] = {
    "number": {"": 1.0},
    "percent": {"%": 1.0, "percent": 1.0},
    "currency": {"": 1.0} | dict.fromkeys(CURRENCIES, 1.0),
    "size": {"": 1.0, **POWERS, "mn": 1e6, "b": 1e9, "bn": 1e9},
    "bytes": {"": 1.0, "b": 1.0, "byte": 1.0, "bytes": 1.0, **POWERS}
    | {f"{letter}b": power for letter, power in POWERS.items()}
    | {f"{letter}ib": 1024.0**k for k, letter in enumerate(POWERS, 1)},
}
"""Units after a number and their factors, by the kind of the form; 0 needs no unit."""
UNITS |= {f"duration in {own}s": {unit: SPANS[span] / SPANS[own] for unit, span in SPAN_OF.items()} for own in SPANS}
MONTHS = ["january", "february", "march", "april", "may", "june"]
MONTHS += ["july", "august", "september", "october", "november", "december"]
TIME = r"(?:(?:\s*,)?\s+|t)(?P<h>\d\d?):(?P<min>\d\d)(?::(?P<sec>\d\d(?:\.\d+)?))?\s*(?P<half>[ap]m)?\s*"
TIME += r"(?P<zone>z|utc|[-+]\d\d:?\d\d)?"
NAMED, YEAR = r"(?P<m>[a-z]{3,9})\.?", r"(?P<y>\d{4}|(?<!\.)\d\d)"
ANY_DATE = (
    r"(?P<y>\d{4})(?P<s>[-/.])(?P<m>\d\d?)(?P=s)(?P<d>\d\d?)",
    rf"(?P<d>\d\d?)(?:st|nd|rd|th)?[-/ .]*{NAMED}[-/ ,]*{YEAR}",
    rf"{NAMED}[- ]*(?P<d>\d\d?)(?:st|nd|rd|th)?[-, ]+(?P<y>\d{{4}})",
    rf"{NAMED}[-/, ]+(?P<y>\d{{4}})",
)
DATES = {
    "date": ANY_DATE,
    "date, day first": (rf"(?P<d>\d\d?)(?P<s>[-/.])(?P<m>\d\d?)(?P=s){YEAR}", *ANY_DATE),
    "date, month first": (rf"(?P<m>\d\d?)(?P<s>[-/.])(?P<d>\d\d?)(?P=s){YEAR}", *ANY_DATE),
}
"""Patterns of dates in lower case."""


@dataclass(frozen=True)
class Form:
    """How numbers are written: a kind of ``UNITS`` or ``DATES``, and the decimal mark."""

    kind: str
    decimal: str = "."

    @property
    def name(self) -> str:
        """The form in words, as files keep it."""
        return self.kind if self.decimal == "." else f"{self.kind}, decimal comma"

    def number_in(self, text: str) -> float | None:
        """Read a text: "1–3" is 2, "< 1" is a half, "10+" is 10, dates are days since 1970; None without the form."""
        if self.kind in DATES:
            return _days(text, self.kind)
        if (found := _quantity(text, self.decimal)) is None:
            return None
        value, before, unit = found
        if before:  # a currency, and perhaps a size
            scale = UNITS["size"].get(unit) if self.kind == "currency" else None
        else:
            scale = UNITS[self.kind].get(unit, None if unit or value else 1.0)
        return None if scale is None else value * scale

    def marks(self, text: str) -> bool:
        """Return whether a text that has the form is more than a number."""
        found = None if self.kind in DATES else _quantity(text, self.decimal)
        return found is None or any(found[1:])


FORMS = {form.name: form for kind in UNITS for mark in ".," if (form := Form(kind, mark))}
FORMS |= {kind: Form(kind) for kind in DATES}
"""All forms by name."""


@dataclass(frozen=True)
class Written:
    """How a column of text is written: its form, the numbers of its values, and the weights of those that have none.

    ``total`` is the weight of all values; ``example`` is a frequent one, if possible with a mark of the form.
    """

    form: Form
    numbers: Mapping[str, float]
    others: Mapping[str, float]
    total: float
    example: str

    @property
    def plain(self) -> bool:
        """Whether all values are plain numbers, which a user who made them text may mean as categories."""
        return not self.others and all(NUMBER.fullmatch(text.lower()) for text in self.numbers)

    @property
    def in_words(self) -> str:
        """The form with an example."""
        value = self.numbers[self.example]
        number = f"{value:,.12g}"
        if self.form.kind in DATES:
            number = f"{datetime(1970, 1, 1) + timedelta(value):%Y-%m-%d %H:%M}".removesuffix(" 00:00")
        return f"{self.form.name}, such as {shown(self.example)} = {number}"

    def note(self, column: str) -> str:
        """Return a sentence about the other values, "" without any."""
        if not self.others:
            return ""
        known = self.total - sum(self.others.values())
        others = sorted(self.others.items(), key=lambda each: (-each[1], each[0]))
        named = some(others, 3, of=lambda each: f"{shown(each[0]) if each[0] else 'blank'} ({each[1]:,.0f})")
        what = f"{known:,.0f} of {self.total:,.0f} values have the form {self.in_words}"
        return f"column {shown(column)}: {what}; others count as missing: {named}"


@dataclass(frozen=True)
class Undecided:
    """A column whose values can be read in two ways."""

    example: str
    ways: str

    def note(self, column: str) -> str:
        return f"column {shown(column)} stays text: {shown(self.example)} may be {self.ways}"


def stands_for_missing(text: str) -> bool:
    """Return whether a text in a column of numbers is a missing value, such as "n/a"."""
    return text.strip().lower() in WORDS


def find_written(weights: Mapping[str, float]) -> Written | Undecided | None:
    """Return how a column is written, from the weights of its texts, in rows; None if it has no form."""
    texts: Counter[str] = Counter()
    for text, weight in weights.items():
        texts[text.strip()] += weight  # type: ignore[assignment]
    values = {text: float(n) for text, n in texts.most_common() if not stands_for_missing(text) and n > 0}
    known = list(values)
    seen = {text: values[text] for text in [*known[:CHOSEN], *known[CHOSEN :: len(known) // CHOSEN or 1]]}
    if (form := _likely(seen)) is None:
        return None
    numbers = {text: number for text in values if (number := form.number_in(text)) is not None}
    if not _enough(numbers, values) or len(set(numbers.values())) < 2:
        return None
    if (doubt := _doubt(form, seen)) is not None:
        return doubt
    others = {text: float(n) for text, n in texts.items() if text not in numbers}
    odd = [text for text in numbers if not NUMBER.fullmatch(text.lower())]
    example = next(filter(form.marks, odd), next(iter([*odd, *numbers])))
    return Written(form, numbers, others, float(sum(texts.values())), example)


def numbers_in(texts: Iterable[str | None]) -> tuple[Float, Form] | None:
    """Return texts (n,) as numbers, NaN where they are missing, and their form; None if they have none.

    For targets: also plain numbers are found, and two numbers are labels, such as "<=50K" and ">50K".
    """
    given = list(texts)
    found = find_written(Counter(text for text in given if text is not None))
    if not isinstance(found, Written) or len(set(found.numbers.values())) < 3:
        return None
    known = ("" if text is None else text.strip() for text in given)
    return np.array([found.numbers.get(text, np.nan) for text in known], dtype=np.float64), found.form


def _likely(values: Mapping[str, float]) -> Form | None:
    """Return the form of most values; a duration is in the unit of most of them."""
    if 2 * sum(any(map(str.isdigit, text)) for text in values) < len(values):
        return None
    best, form = 0.0, None
    for likely in FORMS.values():
        if not likely.kind.startswith("duration") or likely.kind == "duration in days":
            covered, marked = _covered(likely, values)
            if covered > best and (likely.kind == "number" or marked >= MARKED * sum(values.values())):
                best, form = covered, likely
    if form is None or form.kind != "duration in days":
        return form
    spans = Counter[str]()
    for text, weight in values.items():
        if (found := _quantity(text, form.decimal)) and found[2] in SPAN_OF:
            spans[SPAN_OF[found[2]]] += weight  # type: ignore[assignment]
    return Form(f"duration in {spans.most_common(1)[0][0]}s", form.decimal)


def _covered(form: Form, values: Mapping[str, float]) -> tuple[float, float]:
    """Return the weights of the values that have a form, and of those with its mark."""
    covered = [text for text in values if form.number_in(text) is not None]
    return sum(values[text] for text in covered), sum(values[text] for text in covered if form.marks(text))


def _enough(numbers: Mapping[str, float], values: Mapping[str, float]) -> bool:
    """Return whether nearly all values have the form, one frequent word without digits aside; "007" is a code."""
    total, others = sum(values.values()), {text: n for text, n in values.items() if text not in numbers}
    covered = total - sum(others.values())
    codes = sum(n for text, n in others.items() if NUMBER.fullmatch(text.lower()))
    other = max((n for text, n in others.items() if not any(map(str.isdigit, text))), default=0.0)
    left = total - other if other >= FREQUENT else total
    return covered >= ENOUGH * left and covered >= MOST * total and codes < MARKED * total


def _doubt(form: Form, values: Mapping[str, float]) -> Undecided | None:
    """Return what is undecided: the order of day and month, or the meaning of the point in an amount of money."""
    rivals = {
        "date, day first": (Form("date, month first"), "day or month first: write dates like 2013-05-27"),
        "currency": (Form("currency", ","), "thousands or decimals: write 1200 or 1.20"),
    }
    rival, ways = rivals.get(form.name, (form, ""))
    if _covered(rival, values)[0] < _covered(form, values)[0]:
        return None
    pointed = (text for text in values if form.kind != "currency" or "." in text)
    example = next((text for text in pointed if form.number_in(text) != rival.number_in(text)), None)
    return None if example is None else Undecided(example, ways)


# -- quantities ------------------------------------------------------------------------------------------------

GROUPS = {".": ",", ",": "."}
"""Marks between thousands, besides spaces and apostrophes, by decimal mark."""
PLAIN = {mark: str.maketrans(mark, ".", f"{group} '’") for mark, group in GROUPS.items()}
BETWEEN = re.compile(r"(?<=[\w%+$€£])\s*(?:[-–—]|\bto\b)\s*(?=[$€£.\d])")


def _quantity_pattern(decimal: str) -> re.Pattern[str]:
    point, currency = re.escape(decimal), "|".join(map(re.escape, CURRENCIES))
    grouped = rf"[1-9]\d{{0,2}}(?P<g>[{GROUPS[decimal]} '’])\d{{3}}(?:(?P=g)\d{{3}})*(?:{point}\d+)?"
    body = rf"{grouped}|(?!0\d)\d+(?:{point}\d*)?(?:e[-+]?\d{{1,3}})?|{point}\d+"
    ends = rf"\s*\+?\s*(?P<unit>%|{currency}|[a-z]+)?\s*\+?"
    starts = rf"(?P<bound>[<>≤≥]=?)?\s*(?P<sign>[-+−])?\s*(?P<before>{currency})?\s*"
    return re.compile(rf"{starts}(?P<body>{body}){ends}", re.ASCII)


QUANTITY = {mark: _quantity_pattern(mark) for mark in GROUPS}


@lru_cache(maxsize=1 << 14)
def _quantity(text: str, decimal: str) -> tuple[float, str, str] | None:
    """Return the number in a text, of an interval its middle, the currency before it, and the unit after it."""
    text = " ".join(text.lower().split())
    single = _single(text, decimal)
    if single is not None or len(BETWEEN.findall(text)) != 1:
        return single
    low, high = (_single(part, decimal) for part in BETWEEN.split(text))
    if low is None or high is None or low[0] > high[0] or low[2] not in ("", high[2]):
        return None
    return (low[0] + high[0]) / 2, low[1] or high[1], high[2]


def _single(text: str, decimal: str) -> tuple[float, str, str] | None:
    found = QUANTITY[decimal].fullmatch(text)
    if found is None:
        return None
    body = found["body"].translate(PLAIN[decimal])
    value = float(body)
    if value > LARGEST or (value >= EXACT and body.isdigit()):  # large whole numbers are identifiers
        return None
    value *= 0.5 if (found["bound"] or "").startswith(("<", "≤")) else 1.0
    return -value if found["sign"] in ("-", "−") else value, found["before"] or "", found["unit"] or ""


# -- dates -----------------------------------------------------------------------------------------------------

PATTERNS = {kind: [re.compile(rf"{date}(?:{TIME})?", re.ASCII) for date in own] for kind, own in DATES.items()}


@lru_cache(maxsize=1 << 14)
def _days(text: str, kind: str) -> float | None:
    """Return the days since 1970 of a date, with its time."""
    text = " ".join(text.lower().split())
    found = next((match for pattern in PATTERNS[kind] if (match := pattern.fullmatch(text))), None)
    if found is None:
        return None
    parts = {"d": "1", "h": "0", "min": "0", "sec": "0"} | {k: part for k, part in found.groupdict().items() if part}
    month, year, hour, zone = parts["m"], int(parts["y"]), int(parts["h"]), parts.get("zone", "z")
    if not month.isdigit():  # 0, which is an error below, if no month has this name
        month = next((str(k) for k, name in enumerate(MONTHS, 1) if name.startswith(month)), "0")
    if len(parts["y"]) == 2:
        year += 1900 if year >= 69 else 2000  # as in POSIX
    if half := parts.get("half"):
        hour = hour % 12 + 12 * (half == "pm") if 1 <= hour <= 12 else 24
    offset = timedelta() if zone in ("z", "utc") else timedelta(hours=int(zone[1:3]), minutes=int(zone[-2:]))
    try:
        moment = datetime(year, int(month), int(parts["d"]), hour, int(parts["min"]))
        moment += timedelta(seconds=float(parts["sec"])) + (offset if zone[0] == "-" else -offset)
    except (ValueError, OverflowError):
        return None
    return (moment - datetime(1970, 1, 1)) / timedelta(1)
