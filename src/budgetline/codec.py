"""One codec for all records: typed fields become plain JSON and named arrays, and are checked when they are read.

The types of a record's fields drive both directions. A field holds a text, a flag, a number, an array, a tuple, a
mapping by name, a record (one of several, if its type is a union), or None where its type allows it. ``Annotated`` adds
what a type does not say: `AtLeast`, `As`, and for arrays `Shape`. In JSON an array is the word "array"; its entries are
in the array that has the name of its place, such as ``subset.share`` or ``fold_moments[0].scatter``. Small arrays
inside tuples are lists in JSON: there may be thousands. Nothing in a file is ever run.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from itertools import cycle
from types import NoneType, UnionType
from typing import Any, NamedTuple, TypeAlias, TypeVar, Union, get_args, get_origin, get_type_hints

import numpy as np
from numpy.typing import NDArray

from budgetline.arrays import Array, DType
from budgetline.files import decode, encode
from budgetline.messages import cut, name_of, shown, some

R = TypeVar("R")
T = TypeVar("T")
Hint: TypeAlias = Any
"""A type hint: a type, a union or an annotated type."""
ARRAY = "array"
"""Stands for an array in JSON."""
SMALL = 32
"""Arrays inside tuples are lists in JSON up to this number of entries."""
DAMAGED = (ValueError, TypeError, LookupError, AttributeError, OverflowError, RecursionError, MemoryError)
"""What the parts of a file may raise that do not fit together."""


class AtLeast(NamedTuple):
    """The least value of a number, or of every number of an array."""

    least: float


class Shape(NamedTuple):
    """The lengths of an array, by name: equal names are equal lengths throughout a record, ``*`` is any length.

    None: an array of any shape.
    """

    lengths: str | None
    finite: bool = True


class As(NamedTuple):
    """How to write a value as plain JSON, and how to read it at a place, which errors name."""

    write: Callable[[Any], object]
    read: Callable[[Any, str], Any]


class HintParts(NamedTuple):
    """A type hint taken apart; the form is As, tuple, dict, np.ndarray, "record", or None for numbers and texts."""

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
    origin = get_origin(types[0])
    form = np.ndarray if origin == NDArray else origin  # since NumPy 2.5, NDArray is a name of its own
    form = As if As in notes else "record" if is_dataclass(types[0]) else form
    return HintParts(form, types, NoneType in options, notes)


@cache
def _dtype(hint: Hint) -> DType:
    """Return the type of an array's entries in a file, little-endian; its type hint is NDArray[type]."""
    parts = get_args(_kind(hint).types[0])  # the type alone, or, before NumPy 2.5, a shape and the dtype
    found: DType = np.dtype(parts[0] if len(parts) == 1 else get_args(parts[1])[0]).newbyteorder("<")
    return found


def _hints_of(cls: Hint) -> dict[str, tuple[Hint, object]]:
    hints = get_type_hints(cls, include_extras=True)
    return {field.name: (hints[field.name], field.default) for field in fields(cls)}


_fields_of: Callable[[Hint], dict[str, tuple[Hint, object]]] = cache(_hints_of)
"""Type hints and defaults of the fields of a record, by name."""


@cache
def _unchanged(hint: Hint) -> set[type]:
    """Return the types of entries that are plain JSON already: most long tuples hold texts or whole numbers."""
    own = _kind(hint)
    return set() if own.notes else {str, int}.intersection(own.types)


# -- writing -------------------------------------------------------------------------------------------------------


def plain_of(record: object, arrays: dict[str, Array] | None = None, where: str = "") -> dict[str, object]:
    """Return a record as plain JSON, and put its arrays into ``arrays``. Empty tuples that are also the default go."""
    found, prefix = {}, f"{where}." if where else ""
    for name, (hint, default) in _fields_of(type(record)).items():
        value = getattr(record, name)
        if not (default == () and value == ()):
            try:
                found[name] = write_as(hint, value, arrays, prefix + name)
            except TypeError as error:
                raise TypeError(f"{name} cannot be saved: {error}") from error
    return found


def write_as(hint: Hint, value: Any, arrays: dict[str, Array] | None = None, where: str = "") -> object:
    """Return a value of a type as plain JSON."""
    form, types, _, notes = _kind(hint)
    if value is None:
        return None
    if form is As:
        return notes[As].write(value)
    if form is np.ndarray and arrays is not None:
        array = np.asarray(value, dtype=_dtype(hint))
        if "[" in where and 0 < array.size <= SMALL:
            return array.tolist()
        arrays[where] = array
        return ARRAY
    if form == "record":
        plain = plain_of(value, arrays, where)
        return plain if len(types) == 1 else {type(value).__name__: plain}
    if form is tuple:
        hints = [own for own in get_args(types[0]) if own is not Ellipsis]
        if _unchanged(hints[0]).issuperset(map(type, value)):
            return list(value)
        entries = enumerate(zip(cycle(hints), value, strict=False))
        return [write_as(own, entry, arrays, f"{where}[{k}]") for k, (own, entry) in entries]
    if form is dict:
        own = get_args(types[0])[1]
        return {name: write_as(own, entry, arrays, f"{where}.{name}") for name, entry in value.items()}
    return value if len(types) > 1 else types[0](value)


def to_bytes(kind: str, record: object) -> bytes:
    """Return a record as the bytes of a file."""
    arrays: dict[str, Array] = {}
    plain = plain_of(record, arrays)
    return encode(kind, arrays, plain)


# -- reading -------------------------------------------------------------------------------------------------------


class StoredArrays:
    """The arrays of a file that are not read yet, and their named lengths so far."""

    def __init__(self, arrays: Mapping[str, Array]) -> None:
        self.left = dict(arrays)
        self.lengths: dict[str, tuple[int, str]] = {}

    def take(self, hint: Hint, plain: object, name: str) -> Array:
        """Return a copy of an array if its type, shape and entries are as they should be."""
        if not isinstance(plain, list) and plain != ARRAY:
            raise ValueError(f"{name} must be an array, got {shown(plain)}")
        if plain == ARRAY and name not in self.left:
            raise ValueError(f"{name} is missing")
        found = self.left.pop(name) if plain == ARRAY else np.asarray(plain)
        notes, dtype = _kind(hint).notes, _dtype(hint)
        lengths, finite = notes.get(Shape, Shape(None))
        wanted = ["*"] * found.ndim if lengths is None else lengths.split()
        if found.dtype != dtype or found.ndim != len(wanted):
            what, but = f"{found.ndim} dimensions of {found.dtype}", f"{len(wanted)} of {dtype}"
            raise ValueError(f"{name} is an array of {what}, not {but}")
        for length, n in zip(wanted, found.shape, strict=True):
            known, owner = (n, name) if length == "*" else self.lengths.setdefault(length, (n, name))
            if n != known:
                raise ValueError(f"{name} of shape {found.shape} does not match {owner}: {length} is {known}")
        if found.dtype.kind == "f" and finite and not np.isfinite(found).all():
            raise ValueError(f"{name} holds numbers that are not finite")
        if found.dtype.kind == "b" and np.any(found.view(np.uint8) > 1):
            raise ValueError(f"{name} holds flags that are neither true nor false")
        if AtLeast in notes and np.any(found < notes[AtLeast].least):
            raise ValueError(f"{name} holds numbers below {notes[AtLeast].least}")
        return found.copy()


def read_record(cls: type[R], plain: object, where: str = "", stored: StoredArrays | None = None) -> R:
    """Return a record from plain JSON and from the arrays of its file; fields with a default may be missing."""
    prefix, known, stored = f"{where}." if where else "", _fields_of(cls), stored or StoredArrays({})
    entries, found = _mapping(plain, where or "a record"), {}
    if unknown := [name for name in entries if name not in known]:
        raise ValueError(f"{prefix}{name_of(str(unknown[0]))} is not a field that this version knows")
    for name, (hint, default) in known.items():
        if name in entries:
            found[name] = read_as(hint, entries[name], prefix + name, stored)
        elif default is MISSING:
            raise ValueError(f"{prefix}{name} is missing")
    try:
        return cls(**found)
    except ValueError as error:
        raise ValueError(f"{prefix}{error}") from error


def read_as(hint: Hint, plain: Any, where: str, stored: StoredArrays | None = None) -> Any:
    """Return the value that `write_as` wrote; a ValueError names the entry that is not as it should be."""
    form, types, optional, notes = _kind(hint)
    stored = stored or StoredArrays({})
    if plain is None and optional:
        return None
    if form is As:
        return notes[As].read(plain, where)
    if form is np.ndarray:
        return stored.take(hint, plain, where)
    if form == "record":
        named = {cls.__name__: cls for cls in types}
        if len(types) == 1:
            return read_record(types[0], plain, where, stored)
        if len(_mapping(plain, where)) != 1 or (name := next(iter(plain))) not in named:
            raise ValueError(f"{where} must be one of {some(named)}, got {shown(plain)}")
        return read_record(named[name], plain[name], where, stored)
    if form is tuple:
        return _read_tuple(get_args(types[0]), plain, where, stored)
    if form is dict:
        own, entries = get_args(types[0])[1], _mapping(plain, where).items()
        return {name: read_as(own, entry, f"{where}.{name_of(name)}", stored) for name, entry in entries}
    return _read_leaf(hint, plain, where)


def _mapping(plain: object, where: str) -> Mapping[str, object]:
    if not isinstance(plain, Mapping):
        raise ValueError(f"{where} must be a mapping of names to values, got {shown(plain)}")
    return plain


def _read_tuple(hints: tuple[Hint, ...], plain: object, where: str, stored: StoredArrays) -> tuple[object, ...]:
    if not isinstance(plain, list | tuple):
        raise ValueError(f"{where} must be a list, got {shown(plain)}")
    if hints[-1] is Ellipsis:
        hints = hints[:1]
        if _unchanged(hints[0]).issuperset(map(type, plain)):
            return tuple(plain)
    elif len(plain) != len(hints):
        raise ValueError(f"{where} must have {len(hints)} entries, got {shown(plain)}")
    entries = enumerate(zip(cycle(hints), plain, strict=False))
    return tuple([read_as(own, entry, f"{where}[{k}]", stored) for k, (own, entry) in entries])


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


def from_parts(cls: type[R], plain: Mapping[str, object], arrays: Mapping[str, Array]) -> R:
    """Return a record from the fields and arrays of a file; none may be left over."""
    stored = StoredArrays(arrays)
    found = read_record(cls, plain, "", stored)
    if stored.left:
        raise ValueError(f"{name_of(min(stored.left))} is not a field that this version knows")
    return found


def from_bytes(kind: str, cls: type[R], data: bytes, where: str, make: Callable[[R], T]) -> T:
    """Return what ``make`` makes of the record in a file; errors name the file, what is wrong, and what to do."""
    arrays, plain = decode(data, kind, where)
    try:
        return make(from_parts(cls, plain, arrays))
    except DAMAGED as error:
        what = kind if kind.endswith("s") else f"a {kind}"
        problem = f"{shown(error.args[0])} is not known" if isinstance(error, KeyError) else cut(str(error)).rstrip(".")
        advice = "Copy it again, or, if another version of budgetline wrote it, make it again"
        raise ValueError(f"{where} does not hold {what}, it is damaged: {problem}. {advice}") from error
