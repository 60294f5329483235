"""One codec for all records: typed fields become plain JSON and named arrays, and are checked when they are read.

The types of a record's fields drive both directions. A field holds a text, a flag, a number, a tuple, a mapping by
name, another record, or None where its type allows it. ``Annotated`` adds what a type does not say: :class:`AtLeast`,
:class:`As`, and for arrays :class:`Shape`. An array has the name of its field, after the names of the records that hold
it: ``population.share``. Arrays in a tuple are numbered. Nothing in a file is ever run.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from itertools import count, cycle, takewhile
from types import NoneType, UnionType
from typing import Any, NamedTuple, TypeAlias, TypeVar, Union, get_args, get_origin, get_type_hints

import numpy as np

from budgetline.arrays import Array, DType
from budgetline.files import decode, encode
from budgetline.messages import cut, name_of, shown
from budgetline.packing import packed, unpacked

R = TypeVar("R")
T = TypeVar("T")
Hint: TypeAlias = Any
"""A type hint: a type, a union or an annotated type."""
TypedFields = dict[str, tuple[Hint, object]]
"""Type hints and defaults of fields, by name."""
as_text = json.JSONEncoder(sort_keys=True).encode


class AtLeast(NamedTuple):
    """The least value of a number, or of every number of an array."""

    least: float


class Shape(NamedTuple):
    """The lengths of an array, by name: equal names are equal lengths throughout a record, ``*`` is any length."""

    lengths: str
    finite: bool = True


class As(NamedTuple):
    """How to write a value as plain JSON, and how to read it at a place, which errors name."""

    write: Callable[[Any], object]
    read: Callable[[Any, str], Any]


class HintParts(NamedTuple):
    """A type hint taken apart: its form, the types that it allows, whether it allows None, and its annotations.

    The form is As, tuple, dict, "record", or None for numbers, texts and flags.
    """

    form: object
    types: tuple[Any, ...]
    optional: bool
    notes: dict[type, Any]


@cache
def _kind(hint: Hint) -> HintParts:
    notes = {type(note): note for note in getattr(hint, "__metadata__", ())}
    bare = hint.__origin__ if notes else hint
    options = get_args(bare) if get_origin(bare) in (Union, UnionType) else (bare,)
    types = tuple(option for option in options if option is not NoneType)
    form = As if As in notes else "record" if is_dataclass(types[0]) else get_origin(types[0])
    return HintParts(form, types, NoneType in options, notes)


def _split(cls: Hint) -> tuple[TypedFields, TypedFields]:
    hints = get_type_hints(cls, include_extras=True)
    found = {field.name: (hints[field.name], field.default) for field in fields(cls)}
    arrays = {name: each for name, each in found.items() if Shape in _kind(each[0]).notes}
    return {name: each for name, each in found.items() if name not in arrays}, arrays


_fields_of: Callable[[Hint], tuple[TypedFields, TypedFields]] = cache(_split)
"""The plain fields of a record, and its arrays."""


class StoredArrays:
    """The arrays of a file, by name, and their named lengths so far: equal names must be equal lengths."""

    def __init__(self, arrays: Mapping[str, Array]) -> None:
        self.arrays = arrays
        self.lengths: dict[str, tuple[int, str]] = {}

    def read(self, hint: Hint, name: str) -> object:
        """Return an array, a tuple of numbered ones, or None where there may be none."""
        kind = _kind(hint)
        if kind.form is tuple:
            names = takewhile(self.arrays.__contains__, (f"{name}{k}" for k in count()))
            return tuple(self._checked(hint, each) for each in names)
        if name in self.arrays:
            return self._checked(hint, name)
        if kind.optional:
            return None
        raise ValueError(f"{name} is missing")

    def _checked(self, hint: Hint, name: str) -> Array:
        """Return a copy of an array if its type, shape and entries are as they should be."""
        found, notes, dtype = self.arrays[name], _kind(hint).notes, _dtype(hint)
        wanted = notes[Shape].lengths.split()
        if found.dtype != dtype or found.ndim != len(wanted):
            what, but = f"{found.ndim} dimensions of {found.dtype}", f"{len(wanted)} of {dtype}"
            raise ValueError(f"{name} is an array of {what}, not {but}")
        for length, n in zip(wanted, found.shape, strict=True):
            known, owner = (n, name) if length == "*" else self.lengths.setdefault(length, (n, name))
            if n != known:
                raise ValueError(f"{name} of shape {found.shape} does not match {owner}: {length} is {known}")
        if found.dtype.kind == "f" and notes[Shape].finite and not np.isfinite(found).all():
            raise ValueError(f"{name} holds numbers that are not finite")
        if found.dtype.kind == "b" and np.any(found.view(np.uint8) > 1):
            raise ValueError(f"{name} holds flags that are neither true nor false")
        if AtLeast in notes and np.any(found < notes[AtLeast].least):
            raise ValueError(f"{name} holds numbers below {notes[AtLeast].least}")
        return found.copy()


def plain_of(record: object) -> dict[str, object]:
    """Return a record as plain JSON, without its arrays. Empty tuples that are also the default are left out."""
    found = {}
    for name, (hint, default) in _fields_of(type(record))[0].items():
        value = getattr(record, name)
        if not (default == () and value == ()):
            try:
                found[name] = write_as(hint, value)
            except TypeError as error:
                raise TypeError(f"{name} cannot be saved: {error}") from error
    return found


def read_record(cls: type[R], plain: object, where: str = "", stored: StoredArrays | None = None) -> R:
    """Return a record from plain JSON and from the arrays of its file; fields with a default may be missing."""
    prefix, stored, (known, arrays) = f"{where}." if where else "", stored or StoredArrays({}), _fields_of(cls)
    entries = _mapping(plain, where or "a record")
    if unknown := [name for name in entries if name not in known]:
        raise ValueError(f"{prefix}{name_of(str(unknown[0]))} is not a field known here")
    found = {name: stored.read(hint, prefix + name) for name, (hint, _) in arrays.items()}
    for name, (hint, default) in known.items():
        if name in entries:
            found[name] = read_as(hint, entries[name], prefix + name, stored)
        elif default is MISSING:
            raise ValueError(f"{prefix}{name} is missing")
    try:
        return cls(**found)
    except ValueError as error:
        raise ValueError(f"{prefix}{error}") from error


def _mapping(plain: object, where: str) -> Mapping[str, object]:
    if not isinstance(plain, Mapping):
        raise ValueError(f"{where} must be a mapping of names to values, got {shown(plain)}")
    return plain


def write_as(hint: Hint, value: Any) -> object:
    """Return a value of a type as plain JSON."""
    form, types, _, notes = _kind(hint)
    if value is None:
        return None
    if form is As:
        return notes[As].write(value)
    if form == "record":
        return plain_of(value)
    if form is tuple:
        hints, _, unchanged = _entries(types[0])
        if unchanged.issuperset(map(type, value)):
            return list(value)
        return [write_as(own, entry) for own, entry in zip(cycle(hints), value, strict=False)]
    if form is dict:
        return {name: write_as(get_args(types[0])[1], entry) for name, entry in value.items()}
    return value if len(types) > 1 else types[0](value)


def read_as(hint: Hint, plain: Any, where: str, stored: StoredArrays | None = None) -> Any:
    """Return the value that :func:`write_as` wrote; a ValueError names the entry that is not as it should be."""
    form, types, optional, notes = _kind(hint)
    if plain is None and optional:
        return None
    if form is As:
        return notes[As].read(plain, where)
    if form == "record":
        return read_record(types[0], plain, where, stored)
    if form is tuple:
        return _read_tuple(types[0], plain, where)
    if form is dict:
        own, entries = get_args(types[0])[1], _mapping(plain, where).items()
        return {name: read_as(own, entry, f"{where}.{name_of(name)}") for name, entry in entries}
    return _read_leaf(hint, plain, where)


@cache
def _entries(kind: Hint) -> tuple[tuple[Hint, ...], bool, set[type]]:
    """Return the type hints of the entries of a tuple, whether it has any length, and the types that stay unchanged.

    Most long tuples hold texts or whole numbers, which are plain.
    """
    hints = get_args(kind)
    if hints[-1] is not Ellipsis:
        return hints, False, set()
    own = _kind(hints[0])
    return hints[:1], True, set() if own.notes else {str, int}.intersection(own.types)


def _read_tuple(kind: Hint, plain: object, where: str) -> tuple[object, ...]:
    hints, of_any_length, unchanged = _entries(kind)
    if not isinstance(plain, list | tuple):
        raise ValueError(f"{where} must be a list, got {shown(plain)}")
    if not of_any_length and len(plain) != len(hints):
        raise ValueError(f"{where} must have {len(hints)} entries, got {shown(plain)}")
    if unchanged.issuperset(map(type, plain)):
        return tuple(plain)
    entries = enumerate(zip(cycle(hints), plain, strict=False))
    return tuple([read_as(own, entry, f"{where}[{k}]") for k, (own, entry) in entries])


def _read_leaf(hint: Hint, plain: Any, where: str) -> object:
    """Return a number, a text or a flag."""
    _, kinds, _, notes = _kind(hint)
    if kinds == (float,):
        if type(plain) not in (int, float) or not abs(plain) <= sys.float_info.max:
            raise ValueError(f"{where} must be a finite number, got {shown(plain)}")
        plain = float(plain)
    elif type(plain) not in kinds:
        raise ValueError(f"{where} must be of type {' or '.join(k.__name__ for k in kinds)}, got {shown(plain)}")
    if AtLeast in notes and plain < notes[AtLeast].least:
        raise ValueError(f"{where} must be ≥ {notes[AtLeast].least}, got {shown(plain)}")
    return plain


def arrays_of(record: object, prefix: str = "") -> dict[str, Array]:
    """Return the arrays of a record as a file holds them."""
    found: dict[str, Array] = {}
    plain, arrays = _fields_of(type(record))
    for name, (hint, _) in arrays.items():
        value, name = getattr(record, name), prefix + name
        entries = {f"{name}{k}": e for k, e in enumerate(value)} if isinstance(value, tuple) else {name: value}
        found |= {key: np.asarray(entry, dtype=_dtype(hint)) for key, entry in entries.items() if entry is not None}
    for name, (hint, _) in plain.items():
        if _kind(hint).form == "record" and (value := getattr(record, name)) is not None:
            found |= arrays_of(value, f"{prefix}{name}.")
    return found


@cache
def _dtype(hint: Hint) -> DType:
    """Return the type of an array's entries in a file, little-endian; its type hint is NDArray[type]."""
    form, (kind, *_), _, _ = _kind(hint)
    array = get_args(kind)[0] if form is tuple else kind
    parts = get_args(array)  # the type alone, or, before NumPy 2.5, a shape and the dtype
    found: DType = np.dtype(parts[0] if len(parts) == 1 else get_args(parts[1])[0]).newbyteorder("<")
    return found


def from_parts(cls: type[R], plain: Mapping[str, object], arrays: Mapping[str, Array]) -> R:
    """Return a record from the fields and arrays of a file, if they are as this record would be written."""
    found = read_record(cls, plain, "", StoredArrays(arrays))
    if unknown := sorted(set(arrays) - set(arrays_of(found))):
        raise ValueError(f"{name_of(unknown[0])} is not a field known here")
    again = {name: value for name, value in plain_of(found).items() if name in plain}
    if as_text(plain) != as_text(again):  # names given twice, numbers of other types or out of range, and the like
        wrong = next(name for name in plain if name not in again or as_text(plain[name]) != as_text(again[name]))
        raise ValueError(f"{wrong} is not in the form in which it is written")
    return found


def to_bytes(kind: str, record: object) -> bytes:
    """Return a record as the bytes of a file."""
    return encode(kind, packed(arrays_of(record)), plain_of(record))


def from_bytes(kind: str, cls: type[R], data: bytes, where: str, make: Callable[[R], T]) -> T:
    """Return what ``make`` makes of the record in a file; errors name the file, what is wrong, and what to do."""
    arrays, plain = decode(data, kind, where)
    try:
        return make(from_parts(cls, plain, unpacked(arrays)))
    except (ValueError, TypeError, KeyError, OverflowError, RecursionError) as error:
        what = kind if kind.endswith("s") else f"a {kind}"
        problem = f"{shown(error.args[0])} is not known" if isinstance(error, KeyError) else cut(str(error)).rstrip(".")
        raise ValueError(f"{where} does not hold {what}, it is damaged: {problem}. Copy or save it again") from error
