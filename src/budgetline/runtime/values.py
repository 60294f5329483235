"""Readers: they turn what an extractor returns (numbers, tables, values by column name) into the columns of a group."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Real
from typing import Any, cast

import numpy as np

from budgetline.arrays import Array, Float, Positions
from budgetline.encoding.encoders import Encoder
from budgetline.encoding.raw import object_column
from budgetline.encoding.unknown import Watch
from budgetline.inputs import column_names, is_missing, number_of
from budgetline.messages import shown
from budgetline.runtime.prediction import Fault, FaultKind

UNNAMED = frozenset({str, bool, int, float, type(None), np.float64, np.int64, np.bool_, np.ndarray, list, tuple})
"""Common types of values without column names, for which nothing else is looked up."""


class Unusable(Exception):
    """A returned value cannot be read; ``fault`` says why."""

    def __init__(self, kind: FaultKind, message: str) -> None:
        super().__init__(message)
        self.fault = Fault(kind, message)


@dataclass(frozen=True)
class Reader:
    """Reads returned values as the columns of one group.

    ``positions`` are the columns of the design matrix, ``names`` those that an extractor returns. ``by_name``: the
    model knows columns by name.
    """

    positions: Positions
    names: tuple[str, ...]
    by_name: bool

    @property
    def width(self) -> int:
        """Number of columns of the design matrix."""
        return self.positions.size

    def read(self, value: object, n: int | None) -> Array:
        """Return the values (n, width) of n inputs (None: of a single one), finite or not, or raise Unusable."""
        raise NotImplementedError

    def faults(self, values: Array) -> dict[int, Fault]:
        """Return a fault for every row of values that cannot be used."""
        finite = np.isfinite(values)
        rows = [] if finite.all() else np.flatnonzero(~finite.all(axis=1)).tolist()
        first = {i: int(np.argmin(finite[i])) for i in rows}
        return {i: Fault("not finite", f"column {self.label(d)} holds {values[i, d]}") for i, d in first.items()}

    def label(self, d: int) -> str:
        """Return what errors call column ``d`` of the group."""
        return shown(self.names[d])

    def _named(self, value: Any, n: int | None) -> list[Any] | None:
        """Return the columns, by name, of a mapping, Series or frame, and None of other values.

        A column has n entries; None: one. A missing name is a fault.
        """
        keys = None
        if type(value) in UNNAMED:
            return None
        if isinstance(value, Mapping):
            keys = list(value)
        elif (names := column_names(value)) is not None:
            keys, n = list(names), n or 1  # a frame of one row is one input
        elif callable(getattr(value, "keys", None)):
            found = list(value.keys())
            keys = found if found and all(isinstance(key, str) for key in found) else None
        if keys is None:
            return None
        if not self.by_name:
            raise Unusable("type", "values by name, but the model was fitted without column names")
        if missing := [name for name in self.names if name not in keys]:
            raise Unusable("shape", f"no value for column {shown(missing[0])}")
        columns = [[value[name]] if n is None else value[name] for name in self.names]
        for name, column in zip(self.names, columns, strict=True):
            if len(column) != (n or 1):
                raise Unusable("shape", f"column {shown(name)}: expected {n or 1} values, got {len(column)}")
        return columns


class NumberReader(Reader):
    """Reads numbers for a model without encoding."""

    def read(self, value: Any, n: int | None) -> Float:
        if (named := self._named(value, n)) is not None:
            parts = (_numbers(c, f"column {shown(d)}: ") for d, c in zip(self.names, named, strict=True))
            value = np.stack(list(parts), axis=1)
        array, shape = _numbers(value), (n or 1, self.width)
        flat = array.ndim <= 1 and 1 in shape and array.size == math.prod(shape)
        if array.shape != shape and not flat:
            expected = f"{self.width} values" if shape[0] == 1 else f"a table of shape {shape}"
            raise Unusable("shape", f"expected {expected}, got shape {array.shape}")
        with np.errstate(over="ignore"):  # a number that is too large becomes infinite, which is a fault
            return array.reshape(shape).astype(np.float64, copy=False)

    def label(self, d: int) -> str:
        return shown(self.names[d]) if self.by_name else str(d)


class RawReader(Reader):
    """Reads raw values, column by column."""

    def _entries(self, value: object, n: int | None) -> list[list[object]]:
        """Return the entries of every raw column, of a value, a list of values, a table or values by name."""
        if (named := self._named(value, n)) is not None:
            return [list(column) for column in named]
        k = len(self.names)
        entries: Any = _listed(value)
        if n is None and not isinstance(entries, list):
            entries = [entries]
        rows: Any = []
        if isinstance(entries, list):
            nested = bool(entries) and all(isinstance(entry, list | tuple) for entry in entries)
            rows = entries if nested else [entries] if n is None else [[entry] for entry in entries]
        if len(rows) != (n or 1) or any(len(row) != k for row in rows):
            expected = f"{k} values" if n is None else f"a table of shape {(n, k)}"
            raise Unusable("shape", f"expected {expected}, got {shown(value, 40)}")
        return [list(column) for column in zip(*rows, strict=True)]


@dataclass(frozen=True)
class EncodingReader(RawReader):
    """Reads raw values and encodes them, one encoder per raw column; ``watch`` counts unknown categories."""

    encoders: tuple[Encoder, ...]
    watch: Watch

    def read(self, value: object, n: int | None) -> Float:
        """Return the design columns (n, width); missing values are allowed."""
        columns = self._entries(value, n)
        try:
            raw = [object_column(entries, name) for entries, name in zip(columns, self.names, strict=True)]
            blocks = [encoder.encode(column) for encoder, column in zip(self.encoders, raw, strict=True)]
            for name, encoder, column in zip(self.names, self.encoders, raw, strict=True):
                self.watch.note(name, encoder, column)
            self.watch.warn()
        except ValueError as error:
            raise Unusable("type", str(error)) from error
        return np.hstack(blocks) if len(blocks) > 1 else blocks[0]

    def label(self, d: int) -> str:
        ends = np.cumsum([encoder.width for encoder in self.encoders])
        return shown(self.names[int(np.searchsorted(ends, d, side="right"))])


@dataclass(frozen=True)
class ObjectReader(RawReader):
    """Reads raw values as they are; ``kinds``: which columns hold numbers, and which may have missing values."""

    kinds: tuple[tuple[bool, bool], ...]

    def read(self, value: object, n: int | None) -> Array:
        columns = self._entries(value, n)
        found = np.empty((n or 1, self.width), dtype=object)
        for d, (entries, (number, _)) in enumerate(zip(columns, self.kinds, strict=True)):
            found[:, d] = [None if is_missing(entry) else entry for entry in entries]
            for entry in found[:, d] if number else ():
                if entry is not None and not np.isfinite(number_of(entry)):
                    raise Unusable("type", f"column {self.label(d)} holds {shown(entry, 40)}, not a finite number")
        return found

    def faults(self, values: Array) -> dict[int, Fault]:
        needed = [d for d, (_, may_miss) in enumerate(self.kinds) if not may_miss]
        lacking = {i: d for i, row in enumerate(values.tolist()) for d in reversed(needed) if row[d] is None}
        return {i: Fault("not finite", f"column {self.label(d)} is missing") for i, d in lacking.items()}


def _listed(value: object) -> object:
    """Return arrays and series as lists, masked entries as None."""
    if isinstance(value, np.ma.MaskedArray):
        return np.ma.filled(value.astype(object), None).tolist()
    for name in ("tolist", "to_list"):
        if hasattr(value, name):
            return getattr(value, name)()
    return list(value) if isinstance(value, tuple) else value


def _numbers(value: object, where: str = "") -> Array:
    """Return numbers as an array, with NaN where they are masked."""
    try:
        array: Any = np.asanyarray(_unmasked(value))
    except (ValueError, TypeError) as error:
        raise Unusable("shape", f"not a table of numbers: {error}") from error
    if type(array) is not np.ndarray:  # an object's __array__ may return a masked array, too
        array = np.asarray(_unmasked(array))
    if array.dtype.kind in "fiub":
        return cast(Array, array)
    if array.dtype == object and array.size and not isinstance(value, str):
        value = next((entry for entry in array.ravel().tolist() if not isinstance(entry, Real)), value)
    what = "None" if value is None else f"{type(value).__name__} {shown(value, 40)}"
    raise Unusable("type", f"{where}expected numbers, got {what}")


def _unmasked(value: object) -> object:
    """Put NaN where numbers are masked: NumPy drops the mask of an array in a list, and warns of a masked number."""
    if isinstance(value, np.ma.MaskedArray):
        hidden = value.dtype.kind in "fiub" and np.ma.is_masked(value)
        return np.ma.filled(value.astype(np.float64), np.nan) if hidden else value.data
    kinds = set(map(type, value)) if isinstance(value, list | tuple) else ()
    nested = any(issubclass(kind, np.ma.MaskedArray | list | tuple) for kind in kinds)
    return [_unmasked(entry) for entry in cast(list[object], value)] if nested else value
