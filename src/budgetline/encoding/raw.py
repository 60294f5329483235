"""Raw tables: columns of any kind, read one at a time as numbers or as categories."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
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
from budgetline.encoding.written import EXACT, NUMBER, Form, stands_for_missing
from budgetline.groups import Layout
from budgetline.inputs import Frame, NamedArray, RowError, check_table, column_names, is_missing, numbers_of
from budgetline.messages import did_you_mean, shown

DAY = 86400.0
"""Dates and times become days since 1970, durations days, times of day parts of a day."""


@dataclass(frozen=True)
class RawColumn:
    """The entries of a column: numbers (n,), NaN where missing, or codes (n,) of categories, −1 where missing.

    ``categories`` are ``text`` without spaces around it, or the names of flags and of other values. They
    are ``declared`` if the table says that they are categories. Some of the missing entries may be ``blank`` texts.
    """

    name: str
    numbers: Float | None = None
    codes: Positions | None = None
    categories: tuple[str, ...] = ()
    text: bool = False
    declared: bool = False
    blank: bool = False

    def take(self, rows: slice | Positions) -> RawColumn:
        if self.numbers is not None:
            return replace(self, numbers=self.numbers[rows])
        return replace(self, codes=np.asarray(self.codes)[rows])

    @property
    def missing(self) -> Mask:
        """Which entries are missing, a mask of shape (n,)."""
        return np.isnan(self.numbers) if self.numbers is not None else np.asarray(self.codes) < 0

    def as_numbers(self, largest: float = np.finfo(float).max, form: Form | None = None) -> Float:
        """Return the entries as numbers, including flags and text such as "3.5"; too large numbers are errors.

        With a form, text is read in it. Other text is missing. Without a form, other text in more than half of the
        rows is an error: the column is another one.
        """
        numbers: Float = self._read(form) if self.numbers is None else self.numbers
        wrong = np.abs(numbers) > largest
        if wrong.any():
            row = int(wrong.argmax())
            value = float(numbers[row])
            what = "contains infinity" if np.isinf(value) else f"holds {value:g}, which is too large: rescale it"
            raise RowError(f"column {shown(self.name)} {what}", row)
        return numbers

    def _read(self, form: Form | None) -> Float:
        codes, values = np.asarray(self.codes), [read_number(category, form) for category in self.categories]
        other = [
            k for k, category in enumerate(self.categories) if values[k] is None and not stands_for_missing(category)
        ]
        if other and form is None and 2 * np.isin(codes, other).sum() > codes.size:
            text = shown(self.categories[other[0]])
            raise ValueError(f"column {shown(self.name)} holds text such as {text}, not numbers")
        return np.asarray(_floats([*values, None])[codes])

    @cached_property
    def as_categories(self) -> tuple[Positions, tuple[str, ...]]:
        """The entries as codes and categories; different numbers are different categories."""
        if self.numbers is None:
            return np.asarray(self.codes), self.categories
        values, codes = np.unique(self.numbers, return_inverse=True)  # NaN comes last, once
        values, codes = values[~np.isnan(values)], np.where(np.isnan(self.numbers), -1, codes).astype(np.intp)
        if (large := values[np.abs(values) >= EXACT]).size:
            what = f"holds {large[0]:g}: numbers from 2^53 on are rounded"
            raise ValueError(f"column {shown(self.name)} {what}, make them text to use them as categories")
        return codes, tuple(map(category_text, values.tolist()))


@dataclass(frozen=True)
class RawTable:
    """Columns that have been read, by their positions in the user's table."""

    columns: Mapping[int, RawColumn]
    n_rows: int

    @classmethod
    def of(cls, data: Frame | Array, source: Layout, read: Positions, places: Positions | None = None) -> RawTable:
        """Read the columns ``read`` of the user's table, which are at other ``places`` of some data."""
        at = zip(read.tolist(), (read if places is None else places).tolist(), source.labels(read), strict=True)
        return cls({d: column_of(data, place, name) for d, place, name in at}, int(data.shape[0]))

    def take(self, rows: slice | Positions) -> RawTable:
        n_rows = len(range(self.n_rows)[rows]) if isinstance(rows, slice) else len(rows)
        return RawTable({d: column.take(rows) for d, column in self.columns.items()}, n_rows)


def raw_data(X: object) -> tuple[Frame | Array, tuple[str, ...] | None]:
    """Return a table of any kind as a data frame or an array, and the names of its columns, if it has any."""
    if sparse.issparse(X):
        raise TypeError("X is a sparse matrix, which holds numbers that need no encoding: pass encoding=None")
    X = on_host(X)
    names, frame = column_names(X), nw.from_native(X, pass_through=True)
    if isinstance(frame, nw.DataFrame):
        check_table(X)
        return frame, names
    listed = object if isinstance(X, list | tuple) else None
    values = X.values if isinstance(X, NamedArray) else np.asarray(X, dtype=listed)
    if values.ndim != 2 or 0 in values.shape:
        raise ValueError(f"X must be a table with rows and columns, got an array of shape {values.shape}")
    return values, names


def known_table(X: object, source: Layout, needed: Positions) -> RawTable:
    """Read the needed columns of a table like the user's; a frame may have its columns in any order, and others."""
    data, names = raw_data(X)
    if source.names is None or names is None:
        if source.n_features != data.shape[1]:
            raise ValueError(f"X has {data.shape[1]} features, but the model was fitted on {source.n_features}")
        return RawTable.of(data, source, needed)
    place = {name: d for d, name in enumerate(names)}
    if absent := [name for name in source.labels(needed) if name not in place]:
        close = did_you_mean(absent[0], names)
        raise ValueError(f"X has no column {shown(absent[0])}, which this prediction needs{close}")
    return RawTable.of(data, source, needed, np.array([place[name] for name in source.labels(needed)], dtype=np.intp))


def raw_part(X: object, columns: Positions | None) -> Table:
    """Return columns of a table as they are, None: all, as a data frame or an array."""
    data, _ = raw_data(X)
    if columns is None or not isinstance(data, nw.DataFrame):
        return data if columns is None else data[:, columns]
    return data.select(nw.nth(*columns.tolist())) if columns.size else np.empty((data.shape[0], 0))


def column_of(data: Frame | Array, d: int, name: str) -> RawColumn:
    """Read a column of a data frame or an array by its type."""
    values = data[:, d]
    if isinstance(values, nw.Series):
        return series_column(values, name)
    if values.dtype.kind in "fiu":
        return RawColumn(name, values.astype(np.float64))
    if values.dtype.kind in "mM":  # a list of nanoseconds would be one of whole numbers
        values = values.astype(f"{values.dtype.kind}8[us]")
    return object_column(values.tolist(), name)


def series_column(series: nw.Series[Any], name: str) -> RawColumn:
    """Read a column of a data frame by its type."""
    dtype = series.dtype
    if dtype in (nw.Categorical, nw.Enum):
        values = [None if is_missing(value) else value for value in series.to_list()]
        return replace(_categories(values, name), declared=True)
    unit = 1.0
    if dtype == nw.Datetime or dtype == nw.Date:
        moments = series.cast(nw.Datetime("us")) if dtype == nw.Date else series
        series, unit = moments.dt.timestamp("us"), 1e6 * DAY
    elif dtype == nw.Duration:
        series, unit = series.dt.total_microseconds(), 1e6 * DAY
    elif not dtype.is_numeric():
        return object_column(series.to_list(), name)
    return RawColumn(name, np.asarray(numbers_of(series.to_frame())[:, 0], dtype=np.float64) / unit)


def object_column(values: Sequence[object], name: str) -> RawColumn:
    """Read Python objects: all of them numbers, dates, or texts and flags, apart from the missing ones."""
    kinds = _kinds(values)
    if not kinds <= {"text"}:
        values = [None if is_missing(value) else value for value in values]
        kinds = _kinds(values)
    if len(kinds) > 1 or "" in kinds:
        odd = " and ".join(sorted({type(value).__name__ for value in values if value is not None}))
        raise ValueError(f"column {shown(name)} holds {odd}: make it numbers or text, or leave it out")
    if kinds == {"number"}:
        try:
            return RawColumn(name, _floats(values))
        except OverflowError as error:
            text = "holds a whole number that is too large for a float: make the column text, or leave it out"
            raise ValueError(f"column {shown(name)} {text}") from error
    if kinds == {"date"}:
        return RawColumn(name, _floats([None if value is None else _days(value) for value in values]))
    return _categories(values, name)


def _kinds(values: Sequence[object]) -> set[str]:
    """Return the kinds of values that are not None, "" for all other objects."""
    types = {"text": str | bool | np.bool_, "number": Real | Decimal}
    types["date"] = date | time | timedelta | np.datetime64 | np.timedelta64
    given = set(map(type, values)) - {type(None)}
    return {next((name for name, own in types.items() if issubclass(kind, own)), "") for kind in given}


def _categories(values: Iterable[object], name: str) -> RawColumn:
    """Return a column of categories; spaces around text do not count, and blank text is missing."""
    number: dict[object, int] = {None: -1}
    codes = np.array([number.setdefault(value, len(number) - 1) for value in values], dtype=np.intp)
    given = [value for value in number if value is not None]
    names = [category_text(value).strip() for value in given]
    categories = tuple(dict.fromkeys(filter(None, names)))
    if len(categories) < len(names):
        place = {category: k for k, category in enumerate(categories)}
        codes = np.array([*(place.get(name, -1) for name in names), -1], dtype=np.intp)[codes]
    text = any(isinstance(value, str) for value in given)
    return RawColumn(name, codes=codes, categories=categories, text=text, blank="" in names)


def category_text(value: object) -> str:
    """Return a value as the name of a category; whole numbers without a decimal point, unless they are rounded."""
    if isinstance(value, Decimal):
        value = int(value) if value == value.to_integral_value() else float(value)
    whole = isinstance(value, float) and value.is_integer() and abs(value) < EXACT
    return str(int(value) if whole else value)  # type: ignore[call-overload]


def read_number(text: str, form: Form | None = None) -> Decimal | float | None:
    """Return the number in a text, of flags 1 and 0, None without one; with a form, text has to have it.

    So "7001", "7001.0" and "07001" are the same, and so are "True", "true" and "1".
    """
    if form is not None:
        return form.number_in(text)
    text = text.strip().lower()
    if text in ("true", "false"):
        return Decimal(text == "true")
    return Decimal(text) if NUMBER.fullmatch(text) else None


def is_number_text(text: str) -> bool:
    """Return whether a text is the name that a number would have as a category; "07" is not."""
    try:
        return category_text(float(text)) == text
    except ValueError:
        return False


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
