"""Identifiers and free text: columns whose values are nearly all different, so that new rows have other values.

What decides is counted over rows, adds up over chunks, and takes little memory. A column that is overlooked costs
little. A good column must not be taken for an identifier, so a doubt counts as no.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

from budgetline.arrays import Array, Float
from budgetline.encoding.raw import RawColumn
from budgetline.encoding.written import find_written
from budgetline.messages import name_of, shown, some, warn

Hashes = NDArray[np.uint64]

MOST = 1 << 14
"""Different values that are counted exactly; more are estimated, to one percent."""
ROWS = 50
"""Fewer rows say nothing: their values may all differ by chance."""
DIFFERENT, MOSTLY, UNIQUE = 0.9, 0.5, 0.98
"""Least share of different values: of identifiers, of free text and web addresses, and of numberings."""
WORDS, CHARACTERS = 4, 25
"""Least mean number of words and of characters of free text."""
SPARSE, LATEST, UNSORTED = 2.0, 0.05, 0.01
"""Numberings: largest span and first number, relative to the rows, and largest share of numbers that fall."""
KEYS = {"id", "ids", "pid", "uid", "uuid", "guid", "ssn", "isbn", "sku", "vin"}
"""Words that make a name that of an identifier, first or last; the next ones only last, after another word."""
LAST_KEYS = {"number", "no", "nr", "num", "key"}
FUSED = re.compile(
    "(user|customer|client|account|order|item|product|patient|person|record|row|case|session|transaction|member|"
    "employee|student|passenger|subject|sample|device|loan|policy|invoice)(id|no|nr|num|number|key)"
)
MEANT = {"date", "time", "year", "quarter", "month", "week", "day", "hour", "minute", "second", "season", "period"}
MEANT |= {"trend", "age", "rank", "score", "count"}
MEANT |= {f"{word}s" for word in MEANT} | set("xyzt")
"""Words in names of columns that mean something, though all values may differ."""
WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
URL = re.compile(r"\s*(https?://|www\.)", re.IGNORECASE)


@dataclass(frozen=True, eq=False)
class Values:
    """Counts over the rows of a column in which it is not missing; ``+`` adds those of other rows.

    ``hashes`` are the ``MOST`` least hashes of the values, ascending. Numbers: ``fractions`` are not whole, ``falls``
    are less than the one before. ``texts``: ``written`` are numbers or dates, ``urls`` are web addresses.
    """

    rows: int = 0
    hashes: Hashes = field(default_factory=lambda: np.empty(0, dtype=np.uint64))
    fractions: int = 0
    falls: int = 0
    texts: int = 0
    written: int = 0
    urls: int = 0
    words: int = 0
    characters: int = 0
    low: float = np.inf
    high: float = -np.inf

    @classmethod
    def of(cls, column: RawColumn) -> Values:
        """Count the values of a column."""
        if column.numbers is not None:
            return _of_numbers(column.numbers[~np.isnan(column.numbers)])
        codes, levels = column.as_levels
        count = np.bincount(codes + 1, minlength=len(levels) + 1)[1:]
        there = {level: times for level, times in zip(levels, count.tolist(), strict=True) if times}
        rows, hashes = int(count.sum()), _least(np.array([text_hash(level) for level in there], dtype=np.uint64))
        if not column.text:
            return cls(rows, hashes)
        digits = sum(times for level, times in there.items() if level.isdigit())
        written = rows if digits < DIFFERENT * rows and find_written(there) is not None else 0
        urls = sum(times for level, times in there.items() if URL.match(level))
        words = sum(times * len(level.split()) for level, times in there.items())
        characters = sum(times * len(level) for level, times in there.items())
        return cls(rows, hashes, 0, 0, rows, written, urls, words, characters)

    def __add__(self, other: Values) -> Values:
        mine, theirs = vars(self), vars(other)
        found = {name: mine[name] + theirs[name] for name in mine if name not in ("hashes", "low", "high")}
        hashes = _least(np.concatenate([self.hashes, other.hashes]))
        return Values(**found, hashes=hashes, low=min(self.low, other.low), high=max(self.high, other.high))

    @property
    def different(self) -> int:
        """The number of different values, estimated if there are more than are counted."""
        if self.hashes.size < MOST:
            return int(self.hashes.size)
        return min(self.rows, round((MOST - 1) * 2.0**64 / float(self.hashes[-1])))


def identifiers(columns: Mapping[str, Values]) -> dict[str, str]:
    """Return the columns that are identifiers or free text, each with the reason in words.

    Examples
    --------
    >>> import numpy as np
    >>> from budgetline.encoding.identifiers import Values, identifiers
    >>> from budgetline.encoding.raw import RawColumn
    >>> identifiers({"PassengerId": Values.of(RawColumn("PassengerId", np.arange(1.0, 892.0)))})
    {'PassengerId': '891 different values in 891 rows'}
    """
    return {name: reason for name, values in columns.items() if (reason := _reason(name, values))}


def values_of(table: Array, names: Sequence[str]) -> dict[str, Values]:
    """Count the values of the columns of an array of numbers whose names say that they are identifiers."""
    keys = [(d, name) for d, name in enumerate(names) if _says_key(_words(name))]
    return {name: Values.of(RawColumn(name, np.asarray(table[:, d], dtype=np.float64))) for d, name in keys}


def warn_of_identifiers(columns: Mapping[str, Values], *, encoded: bool) -> None:
    """Warn, once, if some columns are identifiers or free text, and say what to do."""
    if not (found := identifiers(columns)):
        return
    each = some(found.items(), 5, lambda item: f"{name_of(item[0])} ({item[1]})")
    first = next(iter(found))
    kind = "categories" if columns[first].texts else "spline"
    keep = f". encoding=Encoding(columns={{{shown(first)}: '{kind}'}}) keeps a column without this warning"
    warn(
        f"identifiers and free text tell nothing about new rows, whose values are others: {each}. Leave them out, as "
        f"X.drop(columns={shown(list(found))}) does{keep if encoded else ''}",
        UserWarning,
    )


def _reason(name: str, values: Values) -> str:
    """Return why a column is an identifier, "" if it is not one."""
    rows, share, words = values.rows, values.different / max(values.rows, 1), _words(name)
    if rows < ROWS or values.fractions or share < MOSTLY:
        return ""
    exact = values.hashes.size < MOST
    different = f"{values.different:,}" if exact else f"about {float(f'{values.different:.2g}'):,.0f}"
    if values.texts:
        count = f"{different} different texts in {rows:,} rows"
        if values.urls >= DIFFERENT * rows:
            return f"web addresses, {count}"
        if values.written >= DIFFERENT * rows or MEANT.intersection(words):
            return ""
        long = values.words >= WORDS * rows and values.characters >= CHARACTERS * rows
        return count if share >= DIFFERENT else f"free text, {count}" if long else ""
    if share < DIFFERENT:
        return ""
    if not np.isfinite(values.low) or _says_key(words):
        return f"{different} different values in {rows:,} rows"
    begins = share >= UNIQUE and 0 <= values.low <= max(1.0, LATEST * rows)
    counts = begins and values.high - values.low < SPARSE * rows and values.falls <= UNSORTED * rows
    if counts and not MEANT.intersection(words):
        return f"numbers the rows, {values.low:,.0f} to {values.high:,.0f}"
    return ""


def _words(name: str) -> list[str]:
    return [word.lower() for word in WORD.findall(name)]


def _says_key(words: Sequence[str]) -> bool:
    """Return whether the words of a name say that the column is an identifier."""
    if not words:
        return False
    last = words[-1] in LAST_KEYS and len(words) > 1
    return last or bool({words[0], words[-1]} & KEYS) or FUSED.fullmatch(words[-1]) is not None


def _of_numbers(numbers: Float) -> Values:
    """Count numbers; a fraction settles it, and nothing else is counted."""
    if not numbers.size or not np.isfinite(numbers).all():
        return Values(numbers.size)
    if fractions := int(np.count_nonzero(numbers != np.floor(numbers))):
        return Values(numbers.size, fractions=fractions)
    z = (numbers + 0.0).view(np.uint64) + np.uint64(0x9E3779B97F4A7C15)  # hashed by splitmix64
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    falls = int(np.count_nonzero(np.diff(numbers) < 0))
    low, high = float(numbers.min()), float(numbers.max())
    return Values(numbers.size, _least(z ^ (z >> np.uint64(31))), falls=falls, low=low, high=high)


def text_hash(text: str) -> int:
    """Return a random number of 64 bits that is the same for the same text everywhere."""
    return int.from_bytes(blake2b(text.encode(errors="surrogatepass"), digest_size=8).digest(), "little")


def _least(hashes: Hashes) -> Hashes:
    return np.unique(hashes)[:MOST]
