"""Identifiers and free text: columns whose values are nearly all different, so that new rows have other values.

The first rows of a file decide. A column that is overlooked costs little. A good column must not be taken for an
identifier, so a doubt counts as no.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from budgetline.arrays import Float
from budgetline.encoding.raw import RawColumn
from budgetline.encoding.written import find_written

MOST = 1 << 14
"""Rows that are looked at."""
ROWS = 50
"""Fewer rows say nothing: their values may all differ by chance."""
DIFFERENT, UNIQUE = 0.9, 0.98
"""Least share of different values: of identifiers and free text, and of numberings."""
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


def identifier(column: RawColumn) -> str:
    """Return why a column is an identifier or free text, in words, or "" for all other columns.

    Examples
    --------
    >>> import numpy as np
    >>> from budgetline.data.identifiers import identifier
    >>> from budgetline.encoding.raw import RawColumn
    >>> identifier(RawColumn("PassengerId", np.arange(1.0, 892.0)))
    '891 different values in 891 rows'
    """
    words = [word.lower() for word in WORD.findall(column.name)]
    if column.numbers is not None:
        return _of_numbers(column.numbers[~np.isnan(column.numbers)], words)
    codes, categories = column.as_categories
    count = np.bincount(codes + 1, minlength=len(categories) + 1)[1:]
    rows, different = int(count.sum()), np.count_nonzero(count)
    if rows < ROWS or different < DIFFERENT * rows:
        return ""
    if not column.text:
        return f"{different:,} different values in {rows:,} rows"
    there = {category: times for category, times in zip(categories, count.tolist(), strict=True) if times}
    digits = sum(times for category, times in there.items() if category.isdigit())
    written = digits < DIFFERENT * rows and find_written(there) is not None
    return "" if written or MEANT.intersection(words) else f"{different:,} different texts in {rows:,} rows"


def _of_numbers(numbers: Float, words: Sequence[str]) -> str:
    rows, different = numbers.size, np.unique(numbers).size
    if rows < ROWS or different < DIFFERENT * rows or np.any(numbers != np.floor(numbers)):
        return ""
    if _says_key(words):
        return f"{different:,} different values in {rows:,} rows"
    low, high = float(numbers.min()), float(numbers.max())
    begins = different >= UNIQUE * rows and 0 <= low <= max(1.0, LATEST * rows)
    falls = np.count_nonzero(np.diff(numbers) < 0)
    counts = begins and high - low < SPARSE * rows and falls <= UNSORTED * rows
    return f"numbers the rows, {low:,.0f} to {high:,.0f}" if counts and not MEANT.intersection(words) else ""


def _says_key(words: Sequence[str]) -> bool:
    """Return whether the words of a name say that the column is an identifier."""
    if not words:
        return False
    last = words[-1] in LAST_KEYS and len(words) > 1
    return last or bool({words[0], words[-1]} & KEYS) or FUSED.fullmatch(words[-1]) is not None
