"""Numbers and dates that are written in text: "8.90%", "$4.99", "10 000+", "19M", "36 months", "735-739", "7-Jan-18".

A column has a form if nearly all its values are written in it. The form is chosen once, when a model is fitted.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from budgetline.arrays import Float
from budgetline.messages import shown, some

NUMBER = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)(e[-+]?\d{1,5})?", re.ASCII)
"""A number that is written in lower case."""
ENOUGH, MOST, FREQUENT = 0.95, 0.5, 20
"""Share of the values that must have the form; if one text is that frequent, in rows, it is left out of the count."""
MARKED = 0.01
"""Least share of the values that must have the mark of the form, such as "$", if some are bare numbers."""
SCREENED, CHOSEN = 500, 5000
"""Values by which forms are screened, and the form is chosen: the most frequent ones, and as many of the others."""
WORDS = {"", "na", "n/a", "nan", "null", "none", "?", ".", "#n/a", "-", "--", "<na>", "nat"}
"""Texts that stand for a missing value beside numbers, in lower case."""
LARGEST, EXACT = 1e150, 1 << 53
"""Written numbers are smaller. Whole ones beyond the second are identifiers: floats do not tell them apart."""
CURRENCY = r"us\$|[$€£¥₹₽₩₺]|usd|eur|gbp|chf|jpy|cad|aud|inr|cny|sek|nok|dkk"
SIZES = {"": 1.0, "k": 1e3, "m": 1e6, "mn": 1e6, "g": 1e9, "b": 1e9, "bn": 1e9, "t": 1e12}
BYTES = {"": 1.0, "b": 1.0, "byte": 1.0, "bytes": 1.0, "k": 1e3, "m": 1e6, "g": 1e9, "t": 1e12}
BYTES |= {f"{letter}b": 1e3**k for k, letter in enumerate("kmgt", 1)}
BYTES |= {f"{letter}ib": 1024.0**k for k, letter in enumerate("kmgt", 1)}
SPANS = {"second": 1, "minute": 60, "hour": 3600, "day": 86400, "week": 604800, "month": 2629800, "year": 31557600}
"""Durations in seconds; a year has 365.25 days."""
SHORT = {"s": "second", "h": "hour", "d": "day", "w": "week", "y": "year", "sec": "second", "min": "minute"}
SHORT |= {"hr": "hour", "wk": "week", "mo": "month", "mth": "month", "yr": "year"}
MONTHS = ["january", "february", "march", "april", "may", "june"]
MONTHS += ["july", "august", "september", "october", "november", "december"]
GROUPS = {".": ",", ",": "."}
"""What may stand between thousands, besides spaces and apostrophes, by decimal mark."""
TIME = r"(?:(?:\s*,)?\s+|t)(?P<h>\d\d?):(?P<min>\d\d)(?::(?P<sec>\d\d(?:\.\d+)?))?\s*(?P<half>[ap]m)?\s*"
TIME += r"(?P<zone>z|utc|[-+]\d\d:?\d\d)?"
NAMED = r"(?P<m>[a-z]{3,9})\.?"
YEAR = r"(?P<y>\d{4}|(?<!\.)\d\d)"
DATES = {
    "date": (
        r"(?P<y>\d{4})(?P<s>[-/.])(?P<m>\d\d?)(?P=s)(?P<d>\d\d?)",
        rf"(?P<d>\d\d?)(?:st|nd|rd|th)?[-/ .]*{NAMED}[-/ ,]*{YEAR}",
        rf"{NAMED}[- ]*(?P<d>\d\d?)(?:st|nd|rd|th)?[-, ]+(?P<y>\d{{4}})",
        rf"{NAMED}[-/, ]+(?P<y>\d{{4}})",
    ),
    "date, day first": (rf"(?P<d>\d\d?)(?P<s>[-/.])(?P<m>\d\d?)(?P=s){YEAR}",),
    "date, month first": (rf"(?P<m>\d\d?)(?P<s>[-/.])(?P<d>\d\d?)(?P=s){YEAR}",),
}
"""Dates in lower case; the first are allowed beside the others."""
KINDS = {"number": "numbers", "percent": "percentages", "currency": "amounts of money", "size": "sizes"}
KINDS |= {"bytes": "sizes"} | {f"duration in {unit}s": "durations" for unit in SPANS} | dict.fromkeys(DATES, "dates")
"""All kinds of forms, and what their values are called."""


class Quantity(NamedTuple):
    """A number with what stands before and after it."""

    value: float
    before: str
    unit: str


@dataclass(frozen=True)
class Form:
    """How numbers are written: one of ``KINDS``, and the decimal mark."""

    kind: str
    decimal: str = "."

    @property
    def name(self) -> str:
        """The form in words, as files keep it."""
        return self.kind if self.decimal == "." else f"{self.kind}, decimal comma"

    def number_in(self, text: str) -> float | None:
        """Return the number that a text stands for, None if it does not have the form; of dates, days since 1970.

        "1–3" is 2, "< 1" is a half, "10+" is 10.
        """
        if self.kind in DATES:
            return _days(text, self.kind)
        found = _quantity(text, self.decimal)
        scale = None if found is None else self._scale(found)
        return None if found is None or scale is None else found.value * scale

    def marks(self, text: str) -> bool:
        """Return whether a text that has the form is no bare number."""
        found = None if self.kind in DATES else _quantity(text, self.decimal)
        return found is None or bool(found.before or found.unit)

    def _scale(self, found: Quantity) -> float | None:
        """Return the factor of the unit, None if it is another kind of unit; 0 needs none."""
        kind, before, unit = self.kind, found.before, found.unit
        if kind == "currency":
            after = bool(unit) and re.fullmatch(CURRENCY, unit) is not None
            return 1.0 if after and not before else SIZES.get(unit) if before else 1.0 if not unit else None
        if before:
            return None
        if kind in ("size", "bytes"):
            return (SIZES if kind == "size" else BYTES).get(unit)
        if kind in ("number", "percent"):
            own = ("",) if kind == "number" else ("%", "percent")
            return 1.0 if unit in own or (found.value == 0 and not unit) else None
        span = _span(unit)
        if span is None:
            return 1.0 if found.value == 0 and not unit else None
        return SPANS[span] / SPANS[kind.removeprefix("duration in ").removesuffix("s")]


FORMS = {form.name: form for kind in KINDS for mark in ("." if kind in DATES else ".,") if (form := Form(kind, mark))}
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
        moment = datetime(1970, 1, 1) + timedelta(value if self.form.kind in DATES else 0)
        number = f"{moment:%Y-%m-%d %H:%M}".removesuffix(" 00:00") if self.form.kind in DATES else f"{value:,.12g}"
        return f"{self.form.name}, such as {shown(self.example)} = {number}"

    def note(self, column: str) -> str:
        """Return what to say of the values that have no number, "" if there are none."""
        if not self.others:
            return ""
        blank = self.others.get("", 0.0)
        texts = sorted(((text, n) for text, n in self.others.items() if text), key=lambda each: (-each[1], each[0]))
        such = "" if self.form.kind == "number" else f" such as {shown(self.example)}"
        known = f"{self.total - sum(self.others.values()):,.0f} of {self.total:,.0f} values are {KINDS[self.form.kind]}"
        parts = [f"{_are(blank)} blank"] if blank else []
        if texts:
            named = some(texts, 3, of=lambda each: f"{shown(each[0])} ({each[1]:,.0f})")
            parts.append(f"{_are(sum(n for _, n in texts))} not: {named}")
        return f"column {shown(column)}: {known}{such}; {', '.join(parts)}. They count as missing"


@dataclass(frozen=True)
class Undecided:
    """A column whose values can be read in two ways."""

    example: str
    ways: str

    def note(self, column: str) -> str:
        """Return what to say of it."""
        return f"column {shown(column)} stays text: {shown(self.example)} may be {self.ways}"


def stands_for_missing(text: str) -> bool:
    """Return whether a text stands for a missing value beside numbers, such as "n/a"."""
    return text.strip().lower() in WORDS


def _are(number: float) -> str:
    return f"{number:,.0f} {'is' if round(number) == 1 else 'are'}"


def find_written(weights: Mapping[str, float]) -> Written | Undecided | None:
    """Return how a column is written, from the weights of its texts, in rows; None if it has no form."""
    texts: Counter[str] = Counter()
    for text, weight in weights.items():
        texts[text.strip()] += weight  # type: ignore[assignment]
    values = {text: float(n) for text, n in texts.most_common() if not stands_for_missing(text) and n > 0}
    seen = _some_of(values, CHOSEN)
    best, form = 0.0, None
    for likely in _likely(_some_of(values, SCREENED)):
        covered, marked = _covered(likely, seen)
        enough = likely.kind == "number" or marked >= MARKED * sum(seen.values())
        if enough and covered > best:
            best, form = covered, likely
    if form is None:
        return None
    found = _written(form, values, texts)
    if not _enough(found, values) or len(set(found.numbers.values())) < 2:
        return None
    return _doubt(form, seen, best) or found


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


def _some_of(values: Mapping[str, float], most: int) -> Mapping[str, float]:
    """Return the most frequent values, and as many of the others."""
    texts = list(values)
    return {text: values[text] for text in [*texts[:most], *texts[most :: len(texts) // most or 1]]}


def _likely(values: Mapping[str, float]) -> list[Form]:
    """Return the forms that some values suggest; a span of time stands for all."""
    if 2 * sum(any(map(str.isdigit, text)) for text in values) < max(1, len(values)):
        return []
    found = []
    for form in FORMS.values():
        if not form.kind.startswith("duration") or form.kind == "duration in days":
            covered, marked = _covered(form, values)
            if 3 * covered >= sum(values.values()) and (marked or form.kind == "number"):
                found.append(form)
    return found


def _covered(form: Form, values: Mapping[str, float]) -> tuple[float, float]:
    """Return the weights of the values that have a form, and of those with its mark."""
    covered = [text for text in values if form.number_in(text) is not None]
    return sum(values[text] for text in covered), sum(values[text] for text in covered if form.marks(text))


def _enough(found: Written, values: Mapping[str, float]) -> bool:
    """Return whether nearly all values have the form, or all but one frequent word; "007" shows that they are codes.

    A text with digits, such as "under $11k" beside "$11-$25k", is no such word: it is a value that would be lost.
    """
    total, others = sum(values.values()), {text: n for text, n in values.items() if text not in found.numbers}
    covered = total - sum(others.values())
    codes = sum(n for text, n in others.items() if NUMBER.fullmatch(text.lower()))
    other = max((n for text, n in others.items() if not any(map(str.isdigit, text))), default=0.0)
    left = total - other if other >= FREQUENT else total
    return covered >= ENOUGH * left and covered >= MOST * total and codes < MARKED * total


def _doubt(form: Form, values: Mapping[str, float], covered: float) -> Undecided | None:
    """Return what is undecided: the order of day and month, or the meaning of the point in an amount of money."""
    if form.kind == "date, day first":
        rival, ways = Form("date, month first"), "day or month first: write dates like 2013-05-27"
    elif form == Form("currency"):
        rival, ways = Form("currency", ","), "thousands or decimals: write 1200 or 1.20"
    else:
        return None
    if _covered(rival, values)[0] < covered:
        return None
    differ = (text for text in values if form.number_in(text) != rival.number_in(text))
    example = next((text for text in differ if form.kind != "currency" or "." in text), None)
    return None if example is None else Undecided(example, ways)


def _written(form: Form, values: Mapping[str, float], texts: Mapping[str, float]) -> Written:
    if form.kind.startswith("duration"):
        units = Counter[str]()
        for text, weight in _some_of(values, CHOSEN).items():
            if (found := _quantity(text, form.decimal)) and (span := _span(found.unit)):
                units[span] += weight  # type: ignore[assignment]
        form = Form(f"duration in {units.most_common(1)[0][0]}s", form.decimal)
    numbers = {text: number for text in values if (number := form.number_in(text)) is not None}
    others = {text: float(n) for text, n in texts.items() if text not in numbers}
    odd = (text for text in numbers if form.marks(text) and not NUMBER.fullmatch(text.lower()))
    example = next(odd, None) or next((text for text in numbers if not NUMBER.fullmatch(text.lower())), None)
    return Written(form, numbers, others, float(sum(texts.values())), example or next(iter(numbers)))


# -- quantities ------------------------------------------------------------------------------------------------


def _quantity_pattern(decimal: str) -> re.Pattern[str]:
    point = re.escape(decimal)
    grouped = rf"[1-9]\d{{0,2}}(?P<g>[{GROUPS[decimal]} '’])\d{{3}}(?:(?P=g)\d{{3}})*(?:{point}\d+)?"
    body = rf"{grouped}|(?!0\d)\d+(?:{point}\d*)?(?:e[-+]?\d{{1,3}})?|{point}\d+"
    ends = rf"\s*\+?\s*(?P<unit>%|{CURRENCY}|[a-z]+)?\s*\+?"
    starts = rf"(?P<bound>[<>≤≥]=?)?\s*(?P<sign>[-+−])?\s*(?P<before>{CURRENCY})?\s*"
    return re.compile(rf"{starts}(?P<body>{body}){ends}", re.ASCII)


PLAIN = {mark: str.maketrans(mark, ".", f"{group} '’") for mark, group in GROUPS.items()}
QUANTITY = {mark: _quantity_pattern(mark) for mark in GROUPS}
BETWEEN = re.compile(r"(?<=[\w%+$€£])\s*(?:[-–—]|\bto\b)\s*(?=[$€£.\d])")


@lru_cache(maxsize=1 << 14)
def _quantity(text: str, decimal: str) -> Quantity | None:
    """Return the quantity in a text, of an interval its middle."""
    text = " ".join(text.lower().split())
    single = _single(text, decimal)
    if single is not None or len(BETWEEN.findall(text)) != 1:
        return single
    low, high = (_single(part, decimal) for part in BETWEEN.split(text))
    if low is None or high is None or low.value > high.value or not {low.unit, high.unit} <= {"", high.unit}:
        return None
    return Quantity((low.value + high.value) / 2, low.before or high.before, high.unit)


def _single(text: str, decimal: str) -> Quantity | None:
    found = QUANTITY[decimal].fullmatch(text)
    if found is None:
        return None
    body = found["body"].translate(PLAIN[decimal])
    value = float(body)
    if value > LARGEST or (value >= EXACT and body.isdigit()):
        return None
    half = 0.5 if (found["bound"] or "").startswith(("<", "≤")) else 1.0
    sign = -half if found["sign"] in ("-", "−") else half
    return Quantity(sign * value, found["before"] or "", found["unit"] or "")


def _span(unit: str) -> str | None:
    """Return the span of time that a unit stands for."""
    for name in (unit, unit.removesuffix("s")):
        if name in SPANS or name in SHORT:
            return SHORT.get(name, name)
    return None


# -- dates -----------------------------------------------------------------------------------------------------

PATTERNS = {kind: [re.compile(rf"{date}(?:{TIME})?", re.ASCII) for date in own] for kind, own in DATES.items()}


@lru_cache(maxsize=1 << 14)
def _days(text: str, kind: str) -> float | None:
    """Return the days since 1970 of a date, with its time."""
    text = " ".join(text.lower().split())
    patterns = PATTERNS["date"] if kind == "date" else [*PATTERNS[kind], *PATTERNS["date"]]
    found = next((match for pattern in patterns if (match := pattern.fullmatch(text))), None)
    if found is None:
        return None
    parts = {"d": "1", "h": "0", "min": "0", "sec": "0"} | {k: part for k, part in found.groupdict().items() if part}
    month, year, hour = _month(parts["m"]), int(parts["y"]), int(parts["h"])
    if len(parts["y"]) == 2:
        year += 1900 if year >= 69 else 2000  # as in POSIX
    if half := parts.get("half"):
        hour = hour % 12 + 12 * (half == "pm") if 1 <= hour <= 12 else 24
    try:
        moment = datetime(year, month, int(parts["d"]), hour, int(parts["min"]))
        moment += timedelta(seconds=float(parts["sec"])) - _offset(parts.get("zone", "z"))
    except (ValueError, OverflowError):
        return None
    return (moment - datetime(1970, 1, 1)) / timedelta(1)


def _month(text: str) -> int:
    """Return the number of a month, 0 if there is none of this name."""
    if text.isdigit():
        return int(text)
    return next((k for k, name in enumerate(MONTHS, 1) if name.startswith(text)), 0)


def _offset(zone: str) -> timedelta:
    if zone in ("z", "utc"):
        return timedelta()
    sign = -1 if zone[0] == "-" else 1
    return sign * timedelta(hours=int(zone[1:3]), minutes=int(zone[-2:]))
