"""What one pass over a raw column adds up: counts of levels, and a sketch of the distribution of numbers.

Both are sums over rows, weighted, in bounded memory. They are exact up to ``MOST_VALUES`` different entries.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from budgetline.arrays import Float
from budgetline.encoding.identifiers import Values
from budgetline.encoding.raw import LARGEST, RawColumn
from budgetline.encoding.written import Form, Undecided, Written, find_written
from budgetline.messages import shown

MOST_VALUES = 1 << 14
"""Different numbers that a sketch keeps."""
MOST_LEVELS = 1 << 17
"""Different levels that are counted."""
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
    def of(cls, numbers: Float, weight: Float | None) -> NumberSummary:
        """Summarise entries (n,), NaN where they are missing."""
        weight = np.ones(numbers.size) if weight is None else weight
        gaps = np.isnan(numbers)
        there = ~gaps & (weight > 0)
        return cls._sorted(numbers[there], weight[there], float(weight[gaps].sum()), 0.0)

    @classmethod
    def _sorted(cls, numbers: Float, weight: Float, missing: float, error: float) -> NumberSummary:
        values, which = np.unique(numbers, return_inverse=True)
        found = cls(values, np.bincount(which, weight, values.size).astype(np.float64), missing, error)
        return found if values.size <= MOST_VALUES else found._thinned()

    @property
    def total(self) -> float:
        """Weight of the entries that are not missing."""
        return float(self.weights.sum())

    def __add__(self, other: NumberSummary) -> NumberSummary:
        values, weights = np.concatenate([self.values, other.values]), np.concatenate([self.weights, other.weights])
        return self._sorted(values, weights, self.missing + other.missing, self.error + other.error)

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

    def quantiles(self, shares: Float) -> Float:
        """Return the least values up to which the entries have at least these shares of the weight."""
        ends = np.cumsum(self.weights)
        where = np.searchsorted(ends, np.asarray(shares) * ends[-1] * (1 - 1e-10))
        return np.asarray(self.values[np.minimum(where, ends.size - 1)])


@dataclass(frozen=True)
class LevelSummary:
    """Weight of every level, and of missing entries; ``lost`` is the weight of levels that are no longer counted.

    Levels are ``text``, or the names of numbers, of flags, or of categories of any type that are declared as such. Some
    of the missing entries may be ``blank`` texts. Lost levels that are written in a ``form`` are in a ``sketch``.
    """

    weights: dict[str, float]
    missing: float = 0.0
    lost: float = 0.0
    text: bool = True
    declared: bool = False
    blank: bool = False
    form: Form | None = None
    sketch: NumberSummary | None = None

    @classmethod
    def of(cls, column: RawColumn, weight: Float | None) -> LevelSummary:
        """Count the levels of a column."""
        codes, levels = column.as_levels()
        weight = np.ones(codes.size) if weight is None else weight
        missing, *mass = np.bincount(codes + 1, weight, len(levels) + 1).tolist()
        known = {k: w for k, w in zip(levels, mass, strict=True) if w > 0}
        return cls(known, missing, text=column.text, declared=column.declared, blank=column.blank)._bounded()

    @property
    def total(self) -> float:
        """Weight of the entries that are not missing."""
        return sum(self.weights.values()) + self.lost

    def __add__(self, other: LevelSummary) -> LevelSummary:
        both = dict(self.weights)
        for level, weight in other.weights.items():
            both[level] = both.get(level, 0.0) + weight
        missing, lost = self.missing + other.missing, self.lost + other.lost
        text, declared, blank = self.text or other.text, self.declared or other.declared, self.blank or other.blank
        sketches = [each for each in (self, other) if each.sketch is not None]
        if not sketches or len({each.form for each in sketches}) > 1:
            return LevelSummary(both, missing, lost, text, declared, blank)._bounded()
        sketch = self.sketch + other.sketch if self.sketch and other.sketch else sketches[0].sketch
        return LevelSummary(both, missing, lost, text, declared, blank, sketches[0].form, sketch)._bounded()

    def scaled(self, factor: float) -> LevelSummary:
        """Multiply all weights, and round them."""
        given = np.array([*self.weights.values(), self.missing, self.lost])
        *weights, missing, lost = rounded(factor * given).tolist()
        sketch = None if self.sketch is None else self.sketch.scaled(factor)
        known = dict(zip(self.weights, weights, strict=True))
        return replace(self, weights=known, missing=missing, lost=lost, sketch=sketch)

    def ranked(self) -> list[tuple[str, float]]:
        """Return levels and weights, the heaviest first."""
        return sorted(self.weights.items(), key=lambda item: (-item[1], item[0]))

    def _bounded(self) -> LevelSummary:
        if len(self.weights) <= MOST_LEVELS:
            return self
        ranked = self.ranked()
        kept, dropped = dict(ranked[: MOST_LEVELS // 2]), dict(ranked[MOST_LEVELS // 2 :])
        lost = self.lost + sum(dropped.values())
        form = self.form or (self.written.form if isinstance(self.written, Written) else None)
        if form is None:
            return replace(self, weights=kept, lost=lost)
        numbers = _numbers(dropped, form.number_in)
        return replace(
            self, weights=kept, lost=lost, form=form, sketch=numbers if self.sketch is None else self.sketch + numbers
        )

    @cached_property
    def written(self) -> Written | Undecided | None:
        """How the levels are written, if they are text that stands for numbers; None for plain numbers alone."""
        if not self.text or self.declared:
            return None
        found = find_written(self.weights | ({"": self.missing} if self.blank else {}))
        return None if isinstance(found, Written) and found.plain else found

    @cached_property
    def numbers(self) -> NumberSummary | None:
        """The summary of the numbers that are written, if there are; other levels are missing."""
        if not isinstance(self.written, Written):
            return None
        found = _numbers(self.weights, self.written.numbers.get)
        if self.sketch is not None and self.form == self.written.form:
            found += self.sketch
        counted = found.total + found.missing
        found = found.scaled(self.total / counted)
        return replace(found, missing=found.missing + self.missing, error=found.error + self.total - counted)


def _numbers(weights: Mapping[str, float], number: Callable[[str], float | None]) -> NumberSummary:
    """Summarise the numbers of levels; those without one are missing."""
    values = [np.nan if (value := number(level)) is None else value for level in weights]
    return NumberSummary.of(np.array(values, dtype=np.float64), np.array([*weights.values()]))


@dataclass(frozen=True)
class ColumnSummary:
    """The summary of a column, as numbers or as levels; None for a column that is missing so far."""

    name: str
    found: NumberSummary | LevelSummary | None
    missing: float

    @classmethod
    def of(cls, column: RawColumn, weight: Float | None, as_levels: bool) -> ColumnSummary:
        """Summarise a column as what it is, or numbers as levels."""
        gaps = column.missing
        if gaps.all():
            return cls(column.name, None, float(gaps.size if weight is None else weight.sum()))
        if column.numbers is None or as_levels:
            counted = LevelSummary.of(column, weight)
            return cls(column.name, counted, counted.missing)
        sketched = NumberSummary.of(column.as_numbers(LARGEST), weight)
        return cls(column.name, sketched, sketched.missing)

    def scaled(self, factor: float) -> ColumnSummary:
        """Multiply all weights, and round them."""
        found = None if self.found is None else self.found.scaled(factor)
        return ColumnSummary(self.name, found, factor * self.missing)

    def __add__(self, other: ColumnSummary) -> ColumnSummary:
        missing = self.missing + other.missing
        if self.found is None or other.found is None:
            found = self.found or other.found  # whose own missing entries are not all
            return ColumnSummary(self.name, None if found is None else replace(found, missing=missing), missing)
        if isinstance(self.found, NumberSummary) and isinstance(other.found, NumberSummary):
            return ColumnSummary(self.name, self.found + other.found, missing)
        if isinstance(self.found, LevelSummary) and isinstance(other.found, LevelSummary):
            return ColumnSummary(self.name, self.found + other.found, missing)
        raise ValueError(f"column {shown(self.name)} holds numbers in some rows and text in others")


@dataclass(frozen=True)
class TableSummary:
    """The summaries of some columns of a table: ``rows`` rows of positive weight, and the sum of their weights.

    ``values`` say which columns are identifiers: those of the columns whose encoding is not set on its own, by name.
    """

    columns: tuple[ColumnSummary, ...]
    rows: int
    weight: float
    values: dict[str, Values] = field(default_factory=dict)

    def __add__(self, other: TableSummary) -> TableSummary:
        columns = tuple(a + b for a, b in zip(self.columns, other.columns, strict=True))
        values = {name: own + other.values[name] for name, own in self.values.items()}
        return TableSummary(columns, self.rows + other.rows, self.weight + other.weight, values)

    @property
    def in_rows(self) -> tuple[ColumnSummary, ...]:
        """The columns with weights whose mean is 1, rounded: an encoding counts rows, in any unit of the weights."""
        factor = self.rows / self.weight
        return tuple(column.scaled(factor) for column in self.columns)
