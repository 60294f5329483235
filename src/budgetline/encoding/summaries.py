"""What one pass over a raw column adds up: counts of categories, and a sketch of the distribution of numbers.

Both are sums over rows, weighted, in bounded memory. They are exact up to ``MOST_VALUES`` different numbers and
``MOST_CATEGORIES`` categories.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import blake2b

import numpy as np

from budgetline.arrays import Float
from budgetline.encoding.raw import RawColumn, RawTable
from budgetline.encoding.settings import Encoding
from budgetline.encoding.written import LARGEST, Undecided, Written, find_written
from budgetline.groups import Layout
from budgetline.messages import shown

MOST_VALUES = 1 << 14
"""Different numbers that a sketch keeps."""
MOST_CATEGORIES = 1 << 17
"""Different categories that are counted."""
ROUNDING = 1e-6
"""Parts of a step of a sketch that count as rounding."""
BITS = 36
"""Bits of weights whose mean is 1: five rows that weigh .1 each count as exactly five rows."""


def rounded(weights: Float | float) -> Float:
    """Return weights without the bits that the rounding of sums may change."""
    mantissa, exponent = np.frexp(weights)
    return np.asarray(np.ldexp(np.rint(np.ldexp(mantissa, BITS)), exponent - BITS))


@dataclass(frozen=True)
class NumberSummary:
    """Different numbers, ascending, and their weights, both (m,); total weight of missing entries.

    ``error`` bounds by how much the weight of the entries up to a value may be off: each time that a sketch of weight W
    is thinned out, 4 W / MOST_VALUES are added.
    """

    values: Float
    weights: Float
    missing: float = 0.0
    error: float = 0.0

    @classmethod
    def of(cls, numbers: Float, weight: Float | None, error: float = 0.0) -> NumberSummary:
        """Summarise entries (n,), NaN where they are missing."""
        weight = np.ones(numbers.size) if weight is None else weight
        missing = np.isnan(numbers)
        there = ~missing & (weight > 0)
        values, which = np.unique(numbers[there], return_inverse=True)
        weights = np.bincount(which, weight[there], values.size).astype(np.float64)
        found = cls(values, weights, float(weight[missing].sum()), error)
        return found if values.size <= MOST_VALUES else found._thinned()

    @property
    def total(self) -> float:
        """Weight of the entries that are not missing."""
        return float(self.weights.sum())

    def __add__(self, other: NumberSummary) -> NumberSummary:
        values, weights = np.concatenate([self.values, other.values]), np.concatenate([self.weights, other.weights])
        return replace(self.of(values, weights, self.error + other.error), missing=self.missing + other.missing)

    def _thinned(self) -> NumberSummary:
        """Move the weight of neighbours onto one of them; heavy values, the least and the largest stay."""
        step = 2 * self.total / MOST_VALUES
        ends = np.cumsum(self.weights)
        # the same in every unit of the weights: rounding must not decide where a step ends
        last = np.flatnonzero(np.diff(np.floor(ends / step + ROUNDING), append=np.inf) > 0)
        heavy = np.flatnonzero(self.weights > step * (1 + ROUNDING))
        keep = np.unique(np.concatenate([[0], last, heavy, np.maximum(heavy - 1, 0)]))
        weights = np.diff(ends[keep], prepend=0.0)  # exact up to each value that is kept
        return NumberSummary(self.values[keep], weights, self.missing, self.error + 2 * step)

    def scaled(self, factor: float) -> NumberSummary:
        """Multiply all weights, and round them."""
        weights, missing = rounded(factor * self.weights), float(rounded(factor * self.missing))
        return NumberSummary(self.values, weights, missing, factor * self.error)

    def quantiles(self, shares: Float | Iterable[float]) -> Float:
        """Return weighted quantiles: the smallest values with at least these shares of the weight at or below them."""
        ends = np.cumsum(self.weights)
        where = np.searchsorted(ends, np.asarray(shares) * ends[-1] * (1 - 1e-10))
        return np.asarray(self.values[np.minimum(where, ends.size - 1)])


@dataclass(frozen=True)
class CategorySummary:
    """Weights of the categories and of missing values; ``lost`` is the weight of categories that are no longer counted.

    ``text``, ``declared`` and ``blank`` as in `RawColumn`.
    """

    weights: dict[str, float]
    missing: float = 0.0
    lost: float = 0.0
    text: bool = True
    declared: bool = False
    blank: bool = False

    @classmethod
    def of(cls, column: RawColumn, weight: Float | None) -> CategorySummary:
        codes, categories = column.as_categories
        weight = np.ones(codes.size) if weight is None else weight
        missing, *mass = np.bincount(codes + 1, weight, len(categories) + 1).tolist()
        known = {k: w for k, w in zip(categories, mass, strict=True) if w > 0}
        return cls(known, missing, 0.0, column.text, column.declared, column.blank)._bounded()

    @property
    def total(self) -> float:
        return sum(self.weights.values()) + self.lost

    def __add__(self, other: CategorySummary) -> CategorySummary:
        both = dict(self.weights)
        for category, weight in other.weights.items():
            both[category] = both.get(category, 0.0) + weight
        missing, lost = self.missing + other.missing, self.lost + other.lost
        text, declared, blank = self.text or other.text, self.declared or other.declared, self.blank or other.blank
        return CategorySummary(both, missing, lost, text, declared, blank)._bounded()

    def scaled(self, factor: float) -> CategorySummary:
        given = np.array([*self.weights.values(), self.missing, self.lost])
        *weights, missing, lost = rounded(factor * given).tolist()
        return replace(self, weights=dict(zip(self.weights, weights, strict=True)), missing=missing, lost=lost)

    def ranked(self) -> list[tuple[str, float]]:
        """Return categories and weights, the heaviest first."""
        return sorted(self.weights.items(), key=lambda item: (-item[1], item[0]))

    def _bounded(self) -> CategorySummary:
        return self if len(self.weights) <= MOST_CATEGORIES else self._halved()

    def _halved(self) -> CategorySummary:
        """Keep the heaviest categories; among equally heavy ones, a random sample: numbers in text may all differ."""
        ranked = sorted(self.weights, key=lambda category: (-self.weights[category], text_hash(category)))
        kept = {category: self.weights[category] for category in ranked[: MOST_CATEGORIES // 2]}
        return replace(self, weights=kept, lost=self.total - sum(kept.values()))

    @cached_property
    def written(self) -> Written | Undecided | None:
        """How numbers in text are written; None for other text, and for plain numbers alone."""
        if not self.text or self.declared:
            return None
        found = find_written(self.weights | ({"": self.missing} if self.blank else {}))
        return None if isinstance(found, Written) and found.plain else found

    @cached_property
    def numbers(self) -> NumberSummary | None:
        """The summary of the numbers that are written, if there are; other text is missing."""
        if not isinstance(self.written, Written):
            return None
        kept = self._halved() if self.lost else self  # without those that came after the last sample
        values = np.array([self.written.numbers.get(category, np.nan) for category in kept.weights])
        found = NumberSummary.of(values, np.array([*kept.weights.values()])).scaled(
            self.total / (self.total - kept.lost)
        )
        return replace(found, missing=found.missing + self.missing, error=found.error + kept.lost)


def text_hash(text: str) -> int:
    """Return a random number of 64 bits that is the same for the same text everywhere."""
    return int.from_bytes(blake2b(text.encode(errors="surrogatepass"), digest_size=8).digest(), "little")


Summary = NumberSummary | CategorySummary


def summary_of_column(column: RawColumn, weight: Float | None, as_categories: bool) -> Summary:
    """Summarise a column as what it is, or numbers as categories; one without values has numbers without a value."""
    if not (column.numbers is None or as_categories) or column.missing.all():
        numbers = np.full(column.missing.size, np.nan) if column.numbers is None else column.as_numbers(LARGEST)
        return NumberSummary.of(numbers, weight)
    return CategorySummary.of(column, weight)


def _sum(name: str, a: Summary, b: Summary) -> Summary:
    for one, other in ((a, b), (b, a)):
        if isinstance(one, NumberSummary) and not one.values.size:
            return replace(other, missing=one.missing + other.missing)
    if isinstance(a, NumberSummary) and isinstance(b, NumberSummary):
        return a + b
    if isinstance(a, CategorySummary) and isinstance(b, CategorySummary):
        return a + b
    raise ValueError(f"column {shown(name)} holds numbers in some rows and text in others")


@dataclass(frozen=True)
class TableSummary:
    """Summaries of columns by name, the number of rows of positive weight, and the sum of their weights."""

    columns: dict[str, Summary]
    rows: int
    weight: float

    @classmethod
    def of(cls, table: RawTable, source: Layout, settings: Encoding, weight: Float | None) -> TableSummary:
        columns = dict[str, Summary]()
        for d, name in zip(source.read.tolist(), source.labels(source.read), strict=True):
            own, column = settings.of(d, None if source.names is None else name), table.columns[d]
            columns[name] = summary_of_column(column, weight, own.numbers == "categories")
        weight = np.ones(table.n_rows) if weight is None else weight
        return cls(columns, int(np.count_nonzero(weight)), float(weight.sum()))

    def __add__(self, other: TableSummary) -> TableSummary:
        columns = {name: _sum(name, own, other.columns[name]) for name, own in self.columns.items()}
        return TableSummary(columns, self.rows + other.rows, self.weight + other.weight)

    @cached_property
    def in_rows(self) -> dict[str, Summary]:
        """The columns with weights whose mean is 1, rounded: an encoding counts rows, in any unit of the weights."""
        return {name: column.scaled(self.rows / self.weight) for name, column in self.columns.items()}
