"""Raw tables: columns of any kind, read one at a time as numbers or as levels."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from functools import cached_property
from numbers import Real
from typing import Any

import narwhals as nw
import numpy as np
from scipy import sparse

from budgetline.arrays import Array, Float, Mask, Positions, Table
from budgetline.devices import on_host
from budgetline.encoding.written import NUMBER, Form, stands_for_missing
from budgetline.inputs import Frame, NamedArray, RowError, check_table, column_names, is_missing, numbers_of
from budgetline.messages import did_you_mean, shown

DAY = 86400.0
"""Dates and times become days since 1970, durations days, times of day parts of a day."""
LARGEST = 1e150
"""Numbers beyond it, whose squares overflow, are errors, as are columns that span less than its inverse."""
EXACT = 1 << 53
"""From here on, not every whole number is a floating-point number: a float does not say which one was meant."""


@dataclass(frozen=True)
class RawColumn:
    """The entries of a column: numbers (n,), NaN where missing, or codes (n,) of levels, −1 where missing.

    Levels are ``text``, without spaces around it, or the names of flags and of other values. They are ``declared`` if
    the table says that they are categories. Some of the missing entries may be ``blank`` texts. ``exact`` (n,) holds
    the numbers as they were given, None where missing, if floating-point numbers cannot tell all of them apart.
    """

    name: str
    numbers: Float | None = None
    codes: Positions | None = None
    levels: tuple[str, ...] = ()
    text: bool = False
    exact: Array | None = None
    declared: bool = False
    blank: bool = False

    def take(self, rows: slice | Positions) -> RawColumn:
        """Return some of the entries."""
        if self.numbers is not None:
            exact = None if self.exact is None else self.exact[rows]
            return replace(self, numbers=self.numbers[rows], exact=exact)
        return replace(self, codes=None if self.codes is None else self.codes[rows])

    @property
    def missing(self) -> Mask:
        """Which entries are missing, a mask of shape (n,)."""
        return np.isnan(self.numbers) if self.numbers is not None else np.asarray(self.codes) < 0

    def as_numbers(self, largest: float = np.finfo(float).max, form: Form | None = None) -> Float:
        """Return the entries as numbers, also flags and text such as "3.5"; larger ones are errors.

        With a form, text is read in it. Other text is missing. Without a form, other text in more than half of the
        rows is an error: the column is another one.
        """
        if self.numbers is not None:
            wrong = np.abs(self.numbers) > largest
            if wrong.any():
                row = int(wrong.argmax())
                value = float(self.numbers[row])
                what = "contains infinity" if np.isinf(value) else f"holds {value:g}, which is too large: rescale it"
                raise RowError(f"column {shown(self.name)} {what}", row)
            return self.numbers
        read, codes = number_in if form is None else form.number_in, np.asarray(self.codes)
        values = [read(level) for level in self.levels]
        other = [k for k, level in enumerate(self.levels) if values[k] is None and not stands_for_missing(level)]
        if other and form is None and 2 * np.isin(codes, other).sum() > codes.size:
            raise ValueError(
                f"column {shown(self.name)} holds text such as {shown(self.levels[other[0]])}, not numbers"
            )
        return replace(self, numbers=_floats([*values, None])[codes]).as_numbers(largest)

    def as_levels(self) -> tuple[Positions, tuple[str, ...]]:
        """Return the entries as codes and levels; different numbers are different levels."""
        return self._as_levels

    @cached_property
    def _as_levels(self) -> tuple[Positions, tuple[str, ...]]:
        if self.exact is not None:
            return _levels(self.exact.tolist(), self.name).as_levels()
        if self.codes is not None:
            return self.codes, self.levels
        assert self.numbers is not None
        values, codes = np.unique(self.numbers, return_inverse=True)  # NaN comes last, once
        codes = np.where(np.isnan(self.numbers), -1, codes).astype(np.intp)
        return codes, tuple(level_text(value) for value in values[~np.isnan(values)].tolist())


@dataclass(frozen=True)
class FrameTable:
    """A data frame; ``positions`` are those of the known columns among its own, −1 where it has none."""

    frame: Frame
    positions: Positions

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return int(self.frame.shape[0])

    def column(self, d: int, name: str) -> RawColumn:
        """Read a column by its type."""
        return series_column(self.frame[:, int(self.positions[d])], name)


@dataclass(frozen=True)
class ArrayTable:
    """A 2-d array of numbers, texts or objects; ``positions`` as in :class:`FrameTable`."""

    values: Array
    positions: Positions

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return int(self.values.shape[0])

    def column(self, d: int, name: str) -> RawColumn:
        """Read a column by its type."""
        values = self.values[:, int(self.positions[d])]
        if values.dtype.kind in "fiu":
            return _number_column(name, values.astype(np.float64), lambda: values.tolist())
        if values.dtype.kind in "mM":  # a list of nanoseconds would be one of whole numbers
            values = values.astype(f"{values.dtype.kind}8[us]")
        return object_column(values.tolist(), name)


GivenTable = FrameTable | ArrayTable
"""A user's table, whose columns are read one at a time."""


@dataclass(frozen=True)
class ReadTable:
    """Columns that have been read once, by their positions."""

    columns: Mapping[int, RawColumn]
    n_rows: int

    @classmethod
    def of(cls, table: GivenTable, names: Mapping[int, str]) -> ReadTable:
        """Read the columns at some positions, with their names."""
        return cls({d: table.column(d, name) for d, name in names.items()}, table.n_rows)

    def column(self, d: int, name: str) -> RawColumn:
        """Return a column."""
        return self.columns[d]

    def take(self, rows: slice | Positions) -> ReadTable:
        """Return some of the rows."""
        n_rows = len(range(self.n_rows)[rows]) if isinstance(rows, slice) else len(rows)
        return ReadTable({d: column.take(rows) for d, column in self.columns.items()}, n_rows)


RawTable = GivenTable | ReadTable


def raw_table(X: object) -> tuple[GivenTable, tuple[str, ...] | None, int]:
    """Return a table of any kind, the names of its columns, if it has any, and their number."""
    if sparse.issparse(X):
        raise TypeError("X is a sparse matrix, which holds numbers that need no encoding: give encoding=None")
    X = on_host(X)
    names = column_names(X)
    frame = nw.from_native(X, pass_through=True)
    if isinstance(frame, nw.DataFrame):
        check_table(X)
        D = frame.shape[1]
        return FrameTable(frame, np.arange(D)), names, D
    values = X.values if isinstance(X, NamedArray) else np.asarray(X, dtype=object if _listed(X) else None)
    if values.ndim != 2 or 0 in values.shape:
        raise ValueError(f"X must be a table with rows and columns, got an array of shape {values.shape}")
    return ArrayTable(values, np.arange(values.shape[1])), names, int(values.shape[1])


def known_table(X: object, known: tuple[str, ...] | None, n_features: int, needed: Iterable[int]) -> GivenTable:
    """Return a table whose columns are at the known positions; data frames are matched by name.

    A frame may have its columns in any order, may have more, and must have those that are needed.
    """
    table, names, D = raw_table(X)
    if known is None or names is None:
        if n_features != D:
            raise ValueError(f"X has {D} features, the model was fitted on {n_features}")
        return table
    place = {name: d for d, name in enumerate(names)}
    positions = np.array([place.get(name, -1) for name in known], dtype=np.intp)
    if absent := [known[d] for d in needed if positions[d] < 0]:
        close = did_you_mean(absent[0], names)
        raise ValueError(f"X has no column {shown(absent[0])}, which this prediction needs{close}")
    return replace(table, positions=positions)


def raw_part(X: object, columns: Positions | None) -> Table:
    """Return columns of a table as they are, None: all, as a data frame or an array."""
    table, _, D = raw_table(X)
    columns = np.arange(D) if columns is None else columns
    if isinstance(table, FrameTable):
        return table.frame.select(nw.nth(*columns.tolist())) if columns.size else np.empty((table.n_rows, 0))
    return table.values[:, columns]


def partial_table(X: object, read: Positions) -> GivenTable:
    """Return a table of which only the columns at the positions ``read``, ascending, are there."""
    table, _, _ = raw_table(X)
    positions = np.full(int(read[-1]) + 1, -1)
    positions[read] = np.arange(read.size)
    return replace(table, positions=positions)


def _listed(X: object) -> bool:
    return isinstance(X, list | tuple)


def series_column(series: nw.Series[Any], name: str) -> RawColumn:
    """Read a column of a data frame by its type."""
    dtype = series.dtype
    if dtype.is_numeric():
        return _number_column(name, _numbers(series.to_frame()), series.to_list)
    if dtype in (nw.Categorical, nw.Enum):
        return replace(
            _levels([None if is_missing(value) else value for value in series.to_list()], name), declared=True
        )
    if dtype == nw.Datetime or dtype == nw.Date:
        moments = series.cast(nw.Datetime("us")) if dtype == nw.Date else series
        return RawColumn(name, _numbers(moments.dt.timestamp("us").to_frame()) / (1e6 * DAY))
    if dtype == nw.Duration:
        return RawColumn(name, _numbers(series.dt.total_microseconds().to_frame()) / (1e6 * DAY))
    return object_column(series.to_list(), name)


def object_column(values: Sequence[object], name: str) -> RawColumn:
    """Read Python objects: all of them numbers, dates, or texts and flags, apart from the missing ones."""
    kinds = {_kind(kind) for kind in set(map(type, values)) if kind is not type(None)}
    if kinds <= {"text"}:  # the usual case
        return _levels(values, name)
    values = [None if is_missing(value) else value for value in values]
    kinds = {_kind(kind) for kind in set(map(type, values)) if kind is not type(None)}
    if len(kinds) > 1 or "" in kinds:
        odd = " and ".join(sorted({type(value).__name__ for value in values if value is not None}))
        raise ValueError(f"column {shown(name)} holds {odd}: make it numbers or text, or leave it out")
    if kinds == {"number"}:
        try:
            return _number_column(name, _floats(values), lambda: values)
        except OverflowError as error:
            text = "holds a whole number that is too large for a float: make the column text, or leave it out"
            raise ValueError(f"column {shown(name)} {text}") from error
    if kinds == {"date"}:
        return RawColumn(name, _floats([None if value is None else _days(value) for value in values]))
    return _levels(values, name)


def _kind(kind: type) -> str:
    if issubclass(kind, str | bool | np.bool_):
        return "text"
    if issubclass(kind, Real | Decimal):
        return "number"
    return "date" if issubclass(kind, date | time | timedelta | np.datetime64 | np.timedelta64) else ""


def _levels(values: Iterable[object], name: str) -> RawColumn:
    """Return a column of levels; spaces around text do not count, and blank text is missing."""
    number: dict[object, int] = {None: -1}
    codes = np.array([number.setdefault(value, len(number) - 1) for value in values], dtype=np.intp)
    given = [value for value in number if value is not None]
    names = [level_text(value).strip() for value in given]
    levels = tuple(dict.fromkeys(filter(None, names)))
    if len(levels) < len(names):
        texts = {name for name, value in zip(names, given, strict=True) if isinstance(value, str)}
        if any(level_text(value) in texts for value in given if not isinstance(value, str)):  # True and "True"
            raise ValueError(f"column {shown(name)} holds flags and text: make it one of them, or leave it out")
        place = {level: k for k, level in enumerate(levels)}
        codes = np.array([*(place.get(name, -1) for name in names), -1], dtype=np.intp)[codes]
    text = any(isinstance(value, str) for value in given)
    return RawColumn(name, codes=codes, levels=levels, text=text, blank="" in names)


def _number_column(name: str, numbers: Float, given: Callable[[], Sequence[object]]) -> RawColumn:
    """Return a column of numbers; ``given`` are those of which some may be whole and too large for floats."""
    exact = None
    if np.any(np.abs(numbers) >= EXACT):
        entries = [None if is_missing(value) else value for value in given()]
        if any(not isinstance(value, float) for value in entries if value is not None):
            exact = np.array([*entries, None], dtype=object)[:-1]
    return RawColumn(name, numbers, exact=exact)


def level_text(value: object) -> str:
    """Return a value as the name of a level; whole numbers without a decimal point, unless they are rounded."""
    if isinstance(value, Decimal) and value != value.to_integral_value():
        return str(float(value))
    if isinstance(value, Decimal) or (isinstance(value, float) and value.is_integer() and abs(value) < EXACT):
        return str(int(value))
    return str(value)


def number_in(text: str) -> Decimal | None:
    """Return the number that a text stands for, of flags 1 and 0; None if it stands for none.

    So "7001", "7001.0" and "07001" are the same, and so are "True", "true" and "1".
    """
    text = text.strip().lower()
    if text in ("true", "false"):
        return Decimal(text == "true")
    return Decimal(text) if NUMBER.fullmatch(text) else None


def exact_number_in(text: str) -> Decimal | None:
    """Return the same, None also for a large number with a decimal point or an exponent: it may be a rounded one."""
    number = number_in(text)
    rounded = number is not None and abs(number) >= EXACT and not text.strip().lstrip("+-").isdigit()
    return None if rounded else number


def is_number_text(text: str) -> bool:
    """Return whether a text is the name that a number would have as a level; "07" is not."""
    try:
        return level_text(float(text)) == text
    except ValueError:
        return False


def _numbers(column: Frame) -> Float:
    """Return the only column of a frame, which has a numeric type, NaN where it is missing."""
    return np.asarray(numbers_of(column)[:, 0], dtype=np.float64)


def _floats(values: Iterable[Any]) -> Float:
    return np.array([np.nan if value is None else float(value) for value in values], dtype=np.float64)


def _days(value: Any) -> float:
    """Return a date or time as days since 1970, a duration as days, a time of day as a part of the day."""
    if isinstance(value, np.datetime64 | np.timedelta64):
        return float(value.astype(f"{value.dtype.kind}8[us]").astype(np.int64)) / (1e6 * DAY)
    if isinstance(value, timedelta):
        return value.total_seconds() / DAY
    if isinstance(value, time):
        return (value.hour * 3600 + value.minute * 60 + value.second + value.microsecond / 1e6) / DAY
    moment = value if isinstance(value, datetime) else datetime(value.year, value.month, value.day)
    # the difference first: with its offset, a moment may lie before the year 1
    return (moment.replace(tzinfo=None) - datetime(1970, 1, 1) - (moment.utcoffset() or timedelta())) / timedelta(1)
