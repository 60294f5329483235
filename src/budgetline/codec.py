"""One codec for all records: typed fields as plain JSON and named arrays, and back, with every part checked.

The types of a record's fields drive both directions. A field holds a text, a flag, a number, a tuple, a mapping by
name, another record, or None where its type allows it. Arrays belong to the outermost record: one array, an array or
None, or a tuple of arrays, which are numbered. ``Annotated`` adds what a type does not say: :class:`AtLeast`,
:class:`Shape`, :class:`As`. Nothing in a file is ever run.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, fields, is_dataclass
from functools import cache
from itertools import count, takewhile
from types import NoneType, UnionType
from typing import Any, NamedTuple, TypeVar, Union, get_args, get_origin, get_type_hints

import numpy as np
from numpy.typing import NDArray

from budgetline.files import decode, encode
from budgetline.messages import cut, name_of, shown

Arrays = dict[str, NDArray[Any]]
R = TypeVar("R")
T = TypeVar("T")

PLAIN: dict[type, tuple[type, ...]] = {str: (str,), bool: (bool,), int: (int,), float: (int, float)}
"""The types by which JSON stands for ours."""


@dataclass(frozen=True)
class AtLeast:
    """The least value of a number, or of every number of an array."""

    least: float


@dataclass(frozen=True)
class Shape:
    """The lengths of an array, by name: equal names are equal lengths throughout a record, ``*`` is any length."""

    lengths: str
    finite: bool = True


@dataclass(frozen=True)
class As:
    """How to write a value as plain JSON, and how to read it; errors of ``read`` name the place that it is given."""

    write: Callable[[Any], Any]
    read: Callable[[Any, str], Any]


class _Kind(NamedTuple):
    """A type hint taken apart: the type, or several plain ones; its annotations; whether None is allowed."""

    type: Any
    notes: dict[type, Any]
    optional: bool

    @property
    def is_array(self) -> bool:
        kind = _kind(get_args(self.type)[0]).type if get_origin(self.type) is tuple else self.type
        return get_origin(kind) is np.ndarray


@cache
def _kind(hint: Any) -> _Kind:
    options = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
    kinds = tuple(option for option in options if option is not NoneType)
    if len(kinds) > 1:
        return _Kind(kinds, {}, optional=len(kinds) < len(options))
    notes = {type(note): note for note in getattr(kinds[0], "__metadata__", ())}
    return _Kind(getattr(kinds[0], "__origin__", kinds[0]) if notes else kinds[0], notes, len(options) > 1)


@cache
def _fields_of(cls: type) -> dict[str, tuple[Any, object]]:
    """Return the type hint and the default of every field of a record."""
    hints = get_type_hints(cls, include_extras=True)
    return {field.name: (hints[field.name], field.default) for field in fields(cls)}


# -- plain JSON ------------------------------------------------------------------------------------------------


def plain_of(record: object) -> dict[str, Any]:
    """Return a record as plain JSON, without its arrays. Empty tuples that are also the default are left out.

    Examples
    --------
    >>> from dataclasses import dataclass
    >>> from budgetline.codec import plain_of, record_of
    >>> @dataclass(frozen=True)
    ... class Point:
    ...     name: str
    ...     at: tuple[float, ...]
    >>> plain_of(Point("a", (1.0, 2.5)))
    {'name': 'a', 'at': [1.0, 2.5]}
    >>> record_of(Point, {"name": "a", "at": [1, 2.5]})
    Point(name='a', at=(1.0, 2.5))
    """
    found = {}
    for name, (hint, default) in _fields_of(type(record)).items():
        value = getattr(record, name)
        if not _kind(hint).is_array and not (default == () and value == ()):
            found[name] = _plain(hint, value, name)
    return found


def _plain(hint: Any, value: Any, where: str) -> Any:
    kind, notes, _ = _kind(hint)
    if As in notes:
        try:
            return notes[As].write(value)
        except TypeError as error:
            raise TypeError(f"{where} cannot be saved: {error}") from error
    if value is None:
        return None
    if is_dataclass(kind):
        return plain_of(value)
    if get_origin(kind) is tuple:
        return [_plain(inner, entry, where) for inner, entry in zip(_entry_hints(kind, value), value, strict=True)]
    if get_origin(kind) is dict:
        return {name: _plain(get_args(kind)[1], entry, where) for name, entry in value.items()}
    return value if isinstance(kind, tuple) else kind(value)  # numbers and texts of NumPy's, too


def record_of(cls: type[R], plain: Any, where: str = "", arrays: Mapping[str, Any] | None = None) -> R:
    """Return a record from plain JSON, and from arrays that were read before.

    Raises
    ------
    ValueError
        That names the entry which is missing, not known, or not what it should be.
    """
    if not isinstance(plain, Mapping):
        raise ValueError(f"{where or 'a record'} must be a mapping of names to values, got {shown(plain)}")
    prefix, found = f"{where}." if where else "", dict(arrays or {})
    known = {name: part for name, part in _fields_of(cls).items() if name not in found}
    if unknown := [name for name in plain if name not in known]:
        raise ValueError(f"{prefix}{name_of(str(unknown[0]))} is not a field known here")
    for name, (hint, default) in known.items():
        if name in plain:
            found[name] = _read(hint, plain[name], prefix + name)
        elif default is MISSING:
            raise ValueError(f"{prefix}{name} is missing")
    try:
        return cls(**found)
    except ValueError as error:
        raise ValueError(f"{prefix}{error}") from error


def _read(hint: Any, plain: Any, where: str) -> Any:
    """Return the value that a type asks for."""
    kind, notes, optional = _kind(hint)
    if plain is None and optional:
        return None
    if As in notes:
        return notes[As].read(plain, where)
    if is_dataclass(kind):
        return record_of(kind, plain, where)  # type: ignore[arg-type]
    if get_origin(kind) is tuple:
        if not isinstance(plain, list | tuple):
            raise ValueError(f"{where} must be a list, got {shown(plain)}")
        inner = _entry_hints(kind, plain)
        if len(inner) != len(plain):
            raise ValueError(f"{where} must have {len(inner)} entries, got {shown(plain)}")
        return tuple(_read(inner[k], entry, f"{where}[{k}]") for k, entry in enumerate(plain))
    if get_origin(kind) is dict:
        if not isinstance(plain, Mapping):
            raise ValueError(f"{where} must be a mapping of names to values, got {shown(plain)}")
        return {name: _read(get_args(kind)[1], entry, f"{where}.{name_of(name)}") for name, entry in plain.items()}
    return _number_or_text(kind if isinstance(kind, tuple) else (kind,), notes, plain, where)


def _entry_hints(kind: Any, entries: Any) -> tuple[Any, ...]:
    """Return the type hint of every entry of a tuple."""
    hints = get_args(kind)
    return (hints[0],) * len(entries) if hints[-1] is Ellipsis else hints


def _number_or_text(kinds: tuple[type, ...], notes: dict[type, Any], plain: Any, where: str) -> Any:
    if not any(type(plain) in PLAIN[kind] for kind in kinds):
        raise ValueError(f"{where} must be of type {' or '.join(k.__name__ for k in kinds)}, got {shown(plain)}")
    if kinds == (float,):
        try:
            plain = float(plain)
        except OverflowError as error:
            raise ValueError(f"{where} is too large a number") from error
        if not math.isfinite(plain):
            raise ValueError(f"{where} must be finite, got {shown(plain)}: what is unknown is null")
    if AtLeast in notes and not plain >= notes[AtLeast].least:
        raise ValueError(f"{where} must be ≥ {notes[AtLeast].least}, got {shown(plain)}")
    return plain


# -- arrays ----------------------------------------------------------------------------------------------------


def arrays_of(record: object) -> Arrays:
    """Return the arrays of a record as a file holds them."""
    found: Arrays = {}
    for name, (hint, _) in _fields_of(type(record)).items():
        value = getattr(record, name)
        if not _kind(hint).is_array or value is None:
            continue
        if isinstance(value, tuple):
            inner = get_args(_kind(hint).type)[0]
            found |= {f"{name}{k}": np.asarray(entry, dtype=_dtype(inner)) for k, entry in enumerate(value)}
        else:
            found[name] = np.asarray(value, dtype=_dtype(hint))
    return found


def _dtype(hint: Any) -> np.dtype[Any]:
    """Return the type of the entries in a file: that of the type hint, little-endian."""
    (entry,) = get_args(get_args(_kind(hint).type)[1])
    return np.dtype(entry).newbyteorder("<")


def _read_array(hint: Any, name: str, arrays: Arrays, lengths: dict[str, tuple[int, str]]) -> Any:
    """Return an array of a file, None where there may be none, or a tuple of numbered ones; ``lengths`` by name."""
    kind, notes, optional = _kind(hint)
    if get_origin(kind) is tuple:
        names = takewhile(arrays.__contains__, (f"{name}{k}" for k in count()))
        return tuple(_read_array(get_args(kind)[0], each, arrays, lengths) for each in names)
    if name not in arrays:
        if optional:
            return None
        raise ValueError(f"{name} is missing")
    found, shape = arrays[name], notes[Shape]
    wanted = shape.lengths.split()
    if found.dtype != _dtype(hint) or found.ndim != len(wanted):
        raise ValueError(
            f"{name} is an array of {found.dtype} and shape {found.shape}, "
            f"not of {_dtype(hint)} and {len(wanted)} dimensions"
        )
    for length, n in zip(wanted, found.shape, strict=True):
        known, owner = lengths.setdefault(length, (n, name)) if length != "*" else (n, name)
        if n != known:
            raise ValueError(f"{name} has the shape {found.shape}, which does not go with {owner}: {length} is {known}")
    if found.dtype.kind == "f" and shape.finite and not np.isfinite(found).all():
        raise ValueError(f"{name} holds numbers that are not finite")
    if found.dtype.kind == "b" and np.any(found.view(np.uint8) > 1):
        raise ValueError(f"{name} holds flags that are neither true nor false")
    if AtLeast in notes and np.any(found < notes[AtLeast].least):
        raise ValueError(f"{name} holds numbers below {notes[AtLeast].least}")
    return found


# -- files -----------------------------------------------------------------------------------------------------


def from_parts(cls: type[R], plain: dict[str, Any], arrays: Arrays) -> R:
    """Return a record from the fields and arrays of a file, which must be in the very form in which they are written.

    Arrays are views of the file's bytes: they cannot be written to.
    """
    lengths: dict[str, tuple[int, str]] = {}
    hints = {name: hint for name, (hint, _) in _fields_of(cls).items() if _kind(hint).is_array}
    found = record_of(cls, plain, "", {name: _read_array(hint, name, arrays, lengths) for name, hint in hints.items()})
    if unknown := sorted(set(arrays) - set(arrays_of(found))):
        raise ValueError(f"{name_of(unknown[0])} is not a field known here")
    again = plain_of(found)
    for name, value in plain.items():  # finds names given twice, numbers of other types, numbers out of range, …
        if name not in again or json.dumps(value, sort_keys=True) != json.dumps(again[name], sort_keys=True):
            raise ValueError(f"{name} is not in the form in which it is written")
    return found


def to_bytes(kind: str, record: object) -> bytes:
    """Return a record as the bytes of a file."""
    return encode(kind, arrays_of(record), plain_of(record))


def from_bytes(kind: str, cls: type[R], data: bytes, where: str, make: Callable[[R], T]) -> T:
    """Return what ``make`` makes of the record in a file; errors name the file, what is wrong, and what to do."""
    arrays, plain = decode(data, kind, where)
    try:
        return make(from_parts(cls, plain, arrays))
    except (ValueError, TypeError, KeyError, OverflowError, RecursionError) as error:
        what = kind if kind.endswith("s") else f"a {kind}"
        problem = cut(str(error)).rstrip(".")
        raise ValueError(f"{where} does not hold {what}, it is damaged: {problem}. Copy or save it again") from error
