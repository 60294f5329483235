"""Encoders: what one raw column becomes. Small immutable records; a value always becomes the same row."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from itertools import chain, count

import numpy as np

from budgetline.arrays import Float
from budgetline.encoding.curves import Curve
from budgetline.encoding.raw import RawColumn, is_number_text, read_number
from budgetline.encoding.written import Form, stands_for_missing

TIE = 1e-9
"""Numbers whose warped values differ by no more are the same, but for rounding."""
MOST_SHOWN = 12
"""Effects of a column with this number of different values or fewer are shown at these values alone."""
FARTHEST = float(np.finfo(float).max)
"""Numbers in units of a warp's scale that are larger count as this one."""
ROWS = 4096
"""Rows that are encoded at once: few enough for their polynomials to stay in the cache."""


@dataclass(frozen=True)
class Warp:
    """t = asinh((x − middle) / scale): nearly straight in the middle, a logarithm in the tails."""

    middle: float
    scale: float

    def __call__(self, x: Float) -> Float:
        """Return t, shape (n,), finite wherever x is: a ratio that overflows counts as the largest number."""
        with np.errstate(over="ignore"):
            ratio = (x - self.middle) / self.scale
        return np.asarray(np.arcsinh(np.clip(ratio, -FARTHEST, FARTHEST)))

    def tie(self, x: Float) -> Float:
        """Return how much t may differ between numbers that are x but for rounding, shape (n,)."""
        return np.asarray(TIE + 4 * np.finfo(float).eps * np.abs(x) / self.scale)


@dataclass(frozen=True, eq=False)
class NumberEncoder:
    """A number becomes the values of curves of t, flags of values that are very frequent, and a flag if it is missing.

    Where such a flag is set, the curves are 0, their mean. The ridge counts the squares of the coefficients of
    standardised design columns with ``weights`` (width,). Text is read in the ``form`` of the training data, if it was
    text; other text is missing. ``values`` are the different numbers of the training data, ascending, if there are at
    most ``MOST_SHOWN``; they only say where effects are shown.
    """

    warp: Warp
    curve: Curve
    weights: Float
    spikes: tuple[float, ...] = ()
    missing: bool = False
    form: Form | None = None
    values: tuple[float, ...] = ()

    @property
    def kind(self) -> str | None:
        """As what a text file must be read: "text" if numbers have a form, None if they are plain."""
        return None if self.form is None else "text"

    @property
    def width(self) -> int:
        return self.curve.width + len(self.spikes) + self.missing

    @property
    def spikes_and_ties(self) -> list[tuple[float, float]]:
        """The spikes in units of t, and how near numbers have to be to count as one."""
        spikes = np.array(self.spikes)
        return list(zip(self.warp(spikes).tolist(), self.warp.tie(spikes).tolist(), strict=True))

    def labels(self, name: str) -> list[str]:
        """Return names of the design columns."""
        m = self.curve.width
        curves = [name] if m == 1 else [f"{name}~{k + 1}" for k in range(m)]
        return [*curves, *(f"{name}={spike:.6g}" for spike in self.spikes), *[f"{name}=(missing)"] * self.missing]

    def encode(self, column: RawColumn) -> Float:
        """Return the design columns (n, width) of a raw column."""
        x, m = column.as_numbers(form=self.form), self.curve.width
        t, aside, found = self.warp(x), np.isnan(x), np.zeros((x.size, self.width))
        if self.missing:
            found[:, -1] = aside
        for k, (spike, tie) in enumerate(self.spikes_and_ties, m):
            found[:, k] = here = np.abs(t - spike) <= tie
            aside |= here
        rows = np.flatnonzero(~aside)
        for start in range(0, rows.size, ROWS):
            part = rows[start : start + ROWS]
            found[part, :m] = self.curve(t[part])
        return found

    def known(self, column: RawColumn) -> list[str | None]:
        """Return the texts of a raw column, None for those that cannot be read as numbers."""
        categories = column.categories if column.numbers is None else ()
        return [x if read_number(x, self.form) is not None or stands_for_missing(x) else None for x in categories]


@dataclass(frozen=True, eq=False)
class CategoryEncoder:
    """A category becomes a flag of its own; rare and unknown ones share a flag, missing ones have another.

    Categories without a flag (``reference``, the first of two, and unknown ones where none was rare) are zeros.
    ``weights`` as in `NumberEncoder`. The ``categories`` were ``text``, or they are the names of numbers or
    flags. A column that had no value has no kind yet: it becomes the flag of missing ones alone, which says nothing,
    whatever comes later.
    """

    categories: tuple[str, ...]
    weights: Float
    rare: bool = False
    missing: bool = False
    reference: str | None = None
    text: bool = True

    @property
    def width(self) -> int:
        return len(self.categories) + self.rare + self.missing

    @property
    def flags(self) -> tuple[str, ...]:
        """Names of the flags: categories, "(rare)" and "(missing)", numbered where a category has that name."""
        extra = ("(rare)",) * self.rare + ("(missing)",) * self.missing
        return (*self.categories, *(unused(label, self.categories) for label in extra))

    @property
    def empty(self) -> bool:
        return not self.categories and not self.rare

    @property
    def kind(self) -> str | None:
        """As what a text file must be read to find the categories: "text", "flag", or None: they look like numbers."""
        known = self._place.keys()
        if known and not self.rare and known <= {"True", "False"}:
            return "flag"
        return None if known and all(map(is_number_text, known)) else "text"

    def labels(self, name: str) -> list[str]:
        return [f"{name}={flag}" for flag in self.flags]

    def encode(self, column: RawColumn) -> Float:
        codes, _ = column.as_categories
        other = len(self.categories) if self.rare else -1
        missing = self.width - 1 if self.missing else other
        places = (other if category is None else self._place[category] for category in self.known(column))
        flags = np.array([*places, missing], dtype=np.intp)[codes]
        found = np.zeros((codes.size, self.width))
        rows = np.flatnonzero(flags >= 0)
        found[rows, flags[rows]] = 1.0
        return found

    def known(self, column: RawColumn) -> list[str | None]:
        """Return which of the known categories each category of a raw column is, None for those that are unknown.

        If only one of two values is text, they may still be the same category: 7001 is "07001", 1 is "1.0" or True.
        This needs a category without another one of the same value. Between texts the name alone counts:
        "1.1" is not "1.10".
        """
        _, categories = column.as_categories
        if column.text and self.text:
            return [name if name in self._place else None for name in categories]
        return [name if name in self._place else self._by_value.get(read_number(name)) for name in categories]

    @cached_property
    def _place(self) -> dict[str, int]:
        reference = {} if self.reference is None else {self.reference: -1}
        return {category: k for k, category in enumerate(self.categories)} | reference

    @cached_property
    def _by_value(self) -> dict[Decimal | float | None, str | None]:
        """Categories by their number, None where several have it."""
        found: dict[Decimal | float | None, str | None] = {}
        for category in self._place:
            value = read_number(category)
            found[value] = None if value in found else category
        return found | {None: None}


Encoder = NumberEncoder | CategoryEncoder


def unused(name: str, taken: Collection[str]) -> str:
    """Return a name, with a number if it is taken."""
    numbered = (f"{name} ({k})" for k in count(2))
    return next(each for each in chain([name], numbered) if each not in taken)
