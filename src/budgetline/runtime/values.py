"""Readers: they turn what an extractor returns (numbers, tables, values by column name) into the columns of a group."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np

from budgetline.arrays import Array, Float, Positions
from budgetline.encoding.encoders import Encoder
from budgetline.encoding.raw import object_column
from budgetline.encoding.unknown import Watch
from budgetline.inputs import column_names, is_missing, number_of
from budgetline.messages import shown
from budgetline.runtime.answer import Fault

SINGLE = frozenset({str, bool, int, float, type(None), np.float64, np.int64, np.bool_})
"""Common types of one value."""
UNNAMED = SINGLE | {np.ndarray, list, tuple}
"""Common types of values without column names; a look at the type saves time."""


@dataclass(frozen=True)
class Reader:
    """Reads returned values as the columns of one group.

    Attributes
    ----------
    positions : int array of shape (width,)
        The columns of the design matrix.
    names : tuple of str
        The columns that an extractor returns; without ``by_name`` what errors call them.
    by_name : bool
        Whether the model knows columns by name.
    """

    positions: Positions
    names: tuple[str, ...]
    by_name: bool

    @property
    def width(self) -> int:
        """Number of columns of the design matrix."""
        return self.positions.size

    def read(self, value: object, n: int | None) -> Array | Fault:
        """Return the values of n inputs (None: of a single one) as an array of shape (n, width), not yet checked."""
        raise NotImplementedError

    def faults(self, values: Array) -> dict[int, Fault]:
        """Return a fault for every row of values that cannot be used."""
        if _all_finite(values):
            return {}
        found = {}
        for i in np.flatnonzero(~np.isfinite(values).all(axis=1)).tolist():
            d = int(np.argmin(np.isfinite(values[i])))
            found[i] = Fault("not finite", f"column {self.label(d)} holds {values[i, d]}")
        return found

    def label(self, d: int) -> str:
        """Return what errors call column ``d`` of the group."""
        return shown(self.names[d])

    def _keys(self, value: Any, n: int | None) -> tuple[Sequence[str] | None, int | None]:
        """Return the names in a mapping, a Series or a frame (None: it has none), and n: 1 if a frame is one input."""
        if type(value) in UNNAMED:
            return None, n
        if not isinstance(value, Mapping) and (names := column_names(value)) is not None:
            return names, n or 1
        keys = list(value.keys()) if callable(getattr(value, "keys", None)) else []
        named = isinstance(value, Mapping) or (keys and all(isinstance(key, str) for key in keys))
        return keys if named else None, n

    def _unknown(self, keys: Sequence[str]) -> Fault | None:
        """Return why values with these names cannot be read."""
        if not self.by_name:
            return Fault("type", "values by name, but the model was fitted without column names")
        missing = [name for name in self.names if name not in keys]
        return Fault("shape", f"no value for column {shown(missing[0])}") if missing else None


class NumberReader(Reader):
    """Reads numbers for a model without encoding."""

    def read(self, value: object, n: int | None) -> Float | Fault:
        """Return numbers of shape (n, width), finite or not."""
        keys, n = self._keys(value, n)
        if keys is not None:
            value = self._unknown(keys) or self._in_order(value, n)
            if isinstance(value, Fault):
                return value
        return self._table(value, n or 1)

    def label(self, d: int) -> str:
        """Return what errors call column ``d`` of the group."""
        return shown(self.names[d]) if self.by_name else str(d)

    def _table(self, value: object, n: int) -> Float | Fault:
        array = _numbers(value)
        if isinstance(array, Fault):
            return array
        shape = (n, self.width)
        flat = array.ndim <= 1 and 1 in shape and array.size == n * self.width
        if array.shape != shape and not flat:
            expected = f"{self.width} values" if n == 1 else f"a table of shape {shape}"
            return Fault("shape", f"expected {expected}, got shape {array.shape}")
        with np.errstate(over="ignore"):  # a number that is too large becomes infinite, which is a fault
            return array.reshape(shape).astype(np.float64, copy=False)

    def _in_order(self, value: Any, n: int | None) -> list[object] | Array | Fault:
        """Return the entries of a mapping or frame in the order of the columns; columns of n numbers as a table."""
        if n is None:
            return [value[name] for name in self.names]
        columns = []
        for name in self.names:
            column = _numbers(value[name], f"column {shown(name)}: ")
            if isinstance(column, Fault):
                return column
            if column.shape != (n,):
                return Fault("shape", f"column {shown(name)}: expected {n} values, got shape {column.shape}")
            columns.append(column)
        return np.stack(columns, axis=1)


class RawReader(Reader):
    """Reads raw values, column by column."""

    def _entries(self, value: Any, n: int | None) -> list[list[object]] | Fault:
        """Return the entries of every raw column."""
        if n is None and len(self.names) == 1 and type(value) in SINGLE:
            return [[value]]
        keys, n = self._keys(value, n)
        if keys is None:
            return self._side_by_side(value, n)
        if (fault := self._unknown(keys)) is not None:
            return fault
        columns = [[value[name]] if n is None else list(value[name]) for name in self.names]
        if wrong := [len(entries) for entries in columns if len(entries) != (n or 1)]:
            return Fault("shape", f"expected {n or 1} values, got {wrong[0]}")
        return columns

    def _side_by_side(self, value: object, n: int | None) -> list[list[object]] | Fault:
        """Return the columns of a value, a list of values, or a table."""
        k = len(self.names)
        entries: Any = _listed(value)
        if n is None and not isinstance(entries, list):
            entries = [entries]
        if not isinstance(entries, list):
            return Fault("shape", f"expected a table of {n} rows, got {shown(value, 40)}")
        nested = bool(entries) and all(isinstance(entry, list | tuple) for entry in entries)
        rows = entries if nested else [entries] if n is None else [[entry] for entry in entries]
        if len(rows) != (n or 1) or any(len(row) != k for row in rows):
            expected = f"{k} values" if n is None else f"a table of shape {(n, k)}"
            return Fault("shape", f"expected {expected}, got {shown(value, 40)}")
        return [list(column) for column in zip(*rows, strict=True)]


@dataclass(frozen=True)
class EncodingReader(RawReader):
    """Reads raw values and encodes them, one encoder per raw column; ``watch`` counts unknown categories."""

    encoders: tuple[Encoder, ...]
    watch: Watch

    def read(self, value: object, n: int | None) -> Float | Fault:
        """Return the design columns (n, width); a missing value is a value."""
        columns = self._entries(value, n)
        if isinstance(columns, Fault):
            return columns
        try:
            raw = [object_column(entries, name) for entries, name in zip(columns, self.names, strict=True)]
            blocks = [encoder.encode(column) for encoder, column in zip(self.encoders, raw, strict=True)]
            for name, encoder, column in zip(self.names, self.encoders, raw, strict=True):
                self.watch.note(name, encoder, column)
            self.watch.warn()
        except ValueError as error:
            return Fault("type", str(error))
        return np.hstack(blocks) if len(blocks) > 1 else blocks[0]

    def label(self, d: int) -> str:
        """Return what errors call the raw column of design column ``d`` of the group."""
        ends = np.cumsum([encoder.width for encoder in self.encoders])
        return shown(self.names[int(np.searchsorted(ends, d, side="right"))])


@dataclass(frozen=True)
class ObjectReader(RawReader):
    """Reads raw values as they are; ``kinds``: which columns hold numbers, and which may have missing values."""

    kinds: tuple[tuple[bool, bool], ...]

    def read(self, value: object, n: int | None) -> Array | Fault:
        """Return the entries (n, width) as objects, None where a value is missing."""
        columns = self._entries(value, n)
        if isinstance(columns, Fault):
            return columns
        found = np.empty((n or 1, self.width), dtype=object)
        for d, (entries, (number, _)) in enumerate(zip(columns, self.kinds, strict=True)):
            found[:, d] = [None if is_missing(entry) else entry for entry in entries]
            for entry in found[:, d] if number else ():
                if entry is not None and not np.isfinite(number_of(entry)):
                    return Fault("type", f"column {self.label(d)} holds {shown(entry, 40)}, not a finite number")
        return found

    def faults(self, values: Array) -> dict[int, Fault]:
        """Return a fault for every row that lacks a value which may not be missing."""
        needed = ~np.array([may_miss for _, may_miss in self.kinds])
        gaps = np.array([[entry is None for entry in row] for row in values.tolist()]) & needed
        return {
            i: Fault("not finite", f"column {self.label(int(np.argmax(gaps[i])))} is missing")
            for i in np.flatnonzero(gaps.any(axis=1)).tolist()
        }


def _all_finite(values: Float) -> bool:
    if len(values) > 1:
        with np.errstate(over="ignore", invalid="ignore"):
            if np.isfinite(values.sum()):  # faster than a look at each value
                return True
    return bool(np.isfinite(values).all())


def _listed(value: object) -> object:
    """Return arrays and series as lists, masked entries as None."""
    if isinstance(value, np.ma.MaskedArray):
        return np.ma.filled(value.astype(object), None).tolist()
    if hasattr(value, "tolist"):
        return value.tolist()
    if hasattr(value, "to_list"):
        return value.to_list()
    return list(value) if isinstance(value, tuple | deque) else value


def _numbers(value: object, where: str = "") -> Array | Fault:
    """Return numbers as an array, with NaN where they are masked."""
    try:
        array: Array = np.asanyarray(_unmasked(value))
    except (ValueError, TypeError) as error:
        return Fault("shape", f"not a table of numbers: {error}")
    if type(array) is not np.ndarray:  # an object's __array__ may return a masked array, too
        array = np.asarray(_unmasked(array))
    if array.dtype.kind in "fiub":
        return array
    return Fault("type", f"{where}expected numbers, got {_described(value, array)}")


def _unmasked(value: object) -> object:
    """Put NaN where numbers are masked: NumPy drops the mask of an array in a list, and warns of a masked number."""
    if isinstance(value, np.ma.MaskedArray):
        hidden = value.dtype.kind in "fiub" and np.ma.is_masked(value)
        return np.ma.filled(value.astype(np.float64), np.nan) if hidden else value.data
    if isinstance(value, list | tuple | deque):
        kinds = set(map(type, value))
        if any(issubclass(kind, np.ma.MaskedArray | list | tuple | deque) for kind in kinds):
            return [_unmasked(entry) for entry in value]
    return value


def _described(value: object, array: Array) -> str:
    if value is None:
        return "None"
    if array.dtype == object and array.size and not isinstance(value, str):
        value = next((entry for entry in array.ravel().tolist() if not isinstance(entry, Real)), value)
    return f"{type(value).__name__} {shown(value, 40)}"
