"""Reading what extractors return: numbers, tables, and values by column name."""

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

BARE = frozenset({np.ndarray, list, tuple, float})
"""Types of values that come without names."""
Columns = list[list[object]]
"""The entries of raw columns."""
SINGLE = frozenset({str, bool, int, type(None), np.float64, np.int64, np.bool_})
"""Further types of raw values without names, which are common."""


@dataclass(frozen=True)
class ColumnReader:
    """Reads returned values as the columns of one group: their positions in X, and their names if it has any."""

    positions: Positions
    names: tuple[str, ...] | None

    @property
    def width(self) -> int:
        """Number of columns."""
        return self.positions.size

    def read(self, value: object, n: int | None) -> Float | Fault:
        """Return the values of n inputs (None: of a single one) as an array of shape (n, width), finite or not."""
        if type(value) not in BARE:
            frame = None if isinstance(value, Mapping) else column_names(value)
            names = _keys(value) if frame is None else frame
            if names is not None:
                # a frame is a table, also for a single input
                value = self._by_name(value, names, 1 if frame is not None and n is None else n)
                if isinstance(value, Fault):
                    return value
        return self._table(value, n or 1)

    def label(self, d: int) -> str:
        """Return what errors call the column ``d`` of the group."""
        return str(d) if self.names is None else shown(self.names[d])

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

    def _by_name(self, value: Any, found: Sequence[str], n: int | None) -> list[object] | Array | Fault:
        """Return the entries of a mapping or frame in the order of the columns; columns of n numbers as a table."""
        if self.names is None:
            return Fault("type", "values by name, but the model was fitted without column names")
        if missing := [name for name in self.names if name not in found]:
            return Fault("shape", f"no value for column {shown(missing[0])}")
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


@dataclass(frozen=True)
class RawReader:
    """Reads returned values as the raw columns of one group, and encodes them.

    Attributes
    ----------
    positions : int array of shape (width,)
        The design columns of the group.
    names : tuple of str
        What errors call the raw columns.
    by_name : bool
        Whether raw columns have names.
    encoders : tuple of Encoder
        One per raw column.
    watch : Watch
        Counts unknown categories over all inputs.
    """

    positions: Positions
    names: tuple[str, ...]
    by_name: bool
    encoders: tuple[Encoder, ...]
    watch: Watch

    @property
    def width(self) -> int:
        """Number of design columns."""
        return self.positions.size

    def read(self, value: object, n: int | None) -> Float | Fault:
        """Return the design columns (n, width) of n inputs (None: of a single one); a missing value is a value."""
        if type(value) in SINGLE and n is None and len(self.names) == 1:
            columns: Columns | Fault = [[value]]
        else:
            columns = self._columns(value, n)
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
        """Return what errors call the raw column of the design column ``d`` of the group."""
        ends = np.cumsum([encoder.width for encoder in self.encoders])
        return shown(self.names[int(np.searchsorted(ends, d, side="right"))])

    def _columns(self, value: object, n: int | None) -> Columns | Fault:
        """Return the entries of every raw column."""
        bare = type(value) in BARE | SINGLE
        frame = None if bare or isinstance(value, Mapping) else column_names(value)
        keys = frame if frame is not None or bare else _keys(value)
        if keys is None:
            return self._side_by_side(value, n)
        return self._by_name(value, keys, 1 if frame is not None and n is None else n)

    def _by_name(self, value: Any, found: Sequence[str], n: int | None) -> Columns | Fault:
        if not self.by_name:
            return Fault("type", "values by name, but the model was fitted without column names")
        if missing := [name for name in self.names if name not in found]:
            return Fault("shape", f"no value for column {shown(missing[0])}")
        columns = [[value[name]] if n is None else list(value[name]) for name in self.names]
        if wrong := [len(entries) for entries in columns if len(entries) != (n or 1)]:
            return Fault("shape", f"expected {n or 1} values, got {wrong[0]}")
        return columns

    def _side_by_side(self, value: object, n: int | None) -> Columns | Fault:
        """Return the columns of a value, a list of values, or a table."""
        k = len(self.names)
        entries: Any = _entries(value)
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
class KeptReader(RawReader):
    """Reads returned values as the raw columns of one group, and keeps them as they are.

    Attributes
    ----------
    kinds : tuple of (bool, bool)
        Which columns hold numbers, and in which a missing value is a value.
    """

    kinds: tuple[tuple[bool, bool], ...]

    def read(self, value: object, n: int | None) -> Array | Fault:
        """Return the entries (n, width) of n inputs (None: of a single one), as objects."""
        single = type(value) in SINGLE and n is None and len(self.names) == 1
        columns = [[value]] if single else self._columns(value, n)
        if isinstance(columns, Fault):
            return columns
        found = np.empty((n or 1, self.width), dtype=object)
        for d, (entries, (number, _)) in enumerate(zip(columns, self.kinds, strict=True)):
            found[:, d] = [None if is_missing(entry) else entry for entry in entries]
            for entry in found[:, d] if number else ():
                if entry is not None and not np.isfinite(number_of(entry)):
                    return Fault("type", f"column {self.label(d)} holds {shown(entry, 40)}, not a finite number")
        return found

    def label(self, d: int) -> str:
        """Return what errors call the column ``d`` of the group."""
        return shown(self.names[d])


Reader = ColumnReader | RawReader


def _entries(value: object) -> object:
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


def _keys(value: object) -> Sequence[str] | None:
    """Return the names in a mapping (or a Series with names), None for anything else."""
    if isinstance(value, Mapping):
        return list(value)
    method = getattr(value, "keys", None)
    keys = list(method()) if callable(method) else []
    return keys if keys and all(isinstance(key, str) for key in keys) else None


def _described(value: object, array: Array) -> str:
    if value is None:
        return "None"
    if array.dtype == object and array.size and not isinstance(value, str):
        value = next((entry for entry in array.ravel().tolist() if not isinstance(entry, Real)), value)
    return f"{type(value).__name__} {shown(value, 40)}"
