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
from functools import cache, partial
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
    """How to write a value as plain JSON, and how to read it; errors of ``read`` name the place that it is given."""

    write: Callable[[Any], object]
    read: Callable[[Any, str], Any]


@cache
def _kind(hint: Hint) -> tuple[tuple[Any, ...], bool, dict[type, Any]]:
    """Take a type hint apart: the type, or the plain types it allows; whether it allows None; its annotations."""
    notes = {type(note): note for note in getattr(hint, "__metadata__", ())}
    bare = hint.__origin__ if notes else hint
    options = get_args(bare) if get_origin(bare) in (Union, UnionType) else (bare,)
    return tuple(option for option in options if option is not NoneType), NoneType in options, notes


def _split(cls: Hint) -> tuple[TypedFields, TypedFields]:
    hints = get_type_hints(cls, include_extras=True)
    found = {field.name: (hints[field.name], field.default) for field in fields(cls)}
    arrays = {name: each for name, each in found.items() if Shape in _kind(each[0])[2]}
    return {name: each for name, each in found.items() if name not in arrays}, arrays


_fields_of: Callable[[Hint], tuple[TypedFields, TypedFields]] = cache(_split)
"""The plain fields of a record, and its arrays."""


def _record_in(hint: Hint) -> Hint | None:
    """Return the type of record that a field holds, None if it holds something else."""
    (kind, *_), _, notes = _kind(hint)
    return kind if is_dataclass(kind) and As not in notes else None


class StoredArrays:
    """The arrays of a file, by name, and their named lengths so far: equal names must be equal lengths."""

    def __init__(self, arrays: Mapping[str, Array]) -> None:
        self.arrays = arrays
        self.lengths: dict[str, tuple[int, str]] = {}

    def read(self, hint: Hint, name: str) -> object:
        """Return an array, a tuple of numbered ones, or None where there may be none."""
        (kind, *_), optional, _ = _kind(hint)
        if get_origin(kind) is tuple:
            names = takewhile(self.arrays.__contains__, (f"{name}{k}" for k in count()))
            return tuple(self._checked(hint, each) for each in names)
        if name in self.arrays:
            return self._checked(hint, name)
        if optional:
            return None
        raise ValueError(f"{name} is missing")

    def _checked(self, hint: Hint, name: str) -> Array:
        """Return a copy of an array if its type, shape and entries are as they should be."""
        found, notes, dtype = self.arrays[name], _kind(hint)[2], _dtype(hint)
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
                found[name] = codec_of(hint).write(value)
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
        own = _record_in(hint)
        if name not in entries:
            if default is MISSING:
                raise ValueError(f"{prefix}{name} is missing")
        elif own is not None and entries[name] is not None:
            found[name] = read_record(own, entries[name], prefix + name, stored)
        else:
            found[name] = codec_of(hint).read(entries[name], prefix + name)
    try:
        return cls(**found)
    except ValueError as error:
        raise ValueError(f"{prefix}{error}") from error


def _mapping(plain: object, where: str) -> Mapping[str, object]:
    if not isinstance(plain, Mapping):
        raise ValueError(f"{where} must be a mapping of names to values, got {shown(plain)}")
    return plain


@cache
def codec_of(hint: Hint) -> As:
    """Return how a type is written and read. A ValueError of ``read`` names the entry that is not as it should be."""
    (kind, *_), optional, notes = _kind(hint)
    if As in notes:
        found: As = notes[As]
    elif is_dataclass(kind):
        found = As(plain_of, partial(read_record, kind))  # type: ignore[arg-type]
    elif get_origin(kind) is tuple:
        found = _tuples(get_args(kind))
    elif get_origin(kind) is dict:
        found = _mappings(codec_of(get_args(kind)[1]))
    else:
        found = _leaves(hint)
    if not optional:
        return found
    return As(
        lambda value: None if value is None else found.write(value),
        lambda plain, where: None if plain is None else found.read(plain, where),
    )


def _tuples(hints: tuple[Hint, ...]) -> As:
    """Return the codec of tuples. Most long ones hold texts or whole numbers, which stay as they are."""
    (kinds, _, notes), of_any_length = _kind(hints[0]), hints[-1] is Ellipsis
    codecs = [codec_of(hint) for hint in hints if hint is not Ellipsis]
    unchanged = {str, int}.intersection(kinds) if of_any_length and not notes else set()

    def write(value: Any) -> object:
        if unchanged.issuperset(map(type, value)):
            return list(value)
        return [codec.write(entry) for codec, entry in zip(cycle(codecs), value, strict=False)]

    def read(plain: object, where: str) -> object:
        if not isinstance(plain, list | tuple):
            raise ValueError(f"{where} must be a list, got {shown(plain)}")
        if not of_any_length and len(plain) != len(codecs):
            raise ValueError(f"{where} must have {len(codecs)} entries, got {shown(plain)}")
        if unchanged.issuperset(map(type, plain)):
            return tuple(plain)
        pairs = enumerate(zip(cycle(codecs), plain, strict=False))
        return tuple([codec.read(entry, f"{where}[{k}]") for k, (codec, entry) in pairs])

    return As(write, read)


def _mappings(each: As) -> As:
    def read(plain: object, where: str) -> object:
        entries = _mapping(plain, where).items()
        return {name: each.read(entry, f"{where}.{name_of(name)}") for name, entry in entries}

    return As(lambda value: {name: each.write(entry) for name, entry in value.items()}, read)


def _leaves(hint: Hint) -> As:
    """Return the codec of numbers and texts, maybe NumPy's."""
    kinds, _, notes = _kind(hint)

    def read(plain: Any, where: str) -> object:
        if kinds == (float,):
            if type(plain) not in (int, float) or not abs(plain) <= sys.float_info.max:
                raise ValueError(f"{where} must be a finite number, got {shown(plain)}")
            plain = float(plain)
        elif type(plain) not in kinds:
            raise ValueError(f"{where} must be of type {' or '.join(k.__name__ for k in kinds)}, got {shown(plain)}")
        if AtLeast in notes and plain < notes[AtLeast].least:
            raise ValueError(f"{where} must be ≥ {notes[AtLeast].least}, got {shown(plain)}")
        return plain

    return As(kinds[0] if len(kinds) == 1 else lambda value: value, read)


def arrays_of(record: object, prefix: str = "") -> dict[str, Array]:
    """Return the arrays of a record as a file holds them."""
    found: dict[str, Array] = {}
    plain, arrays = _fields_of(type(record))
    for name, (hint, _) in arrays.items():
        value, name = getattr(record, name), prefix + name
        entries = {f"{name}{k}": e for k, e in enumerate(value)} if isinstance(value, tuple) else {name: value}
        found |= {key: np.asarray(entry, dtype=_dtype(hint)) for key, entry in entries.items() if entry is not None}
    for name, (hint, _) in plain.items():
        if _record_in(hint) is not None and (value := getattr(record, name)) is not None:
            found |= arrays_of(value, f"{prefix}{name}.")
    return found


@cache
def _dtype(hint: Hint) -> DType:
    """Return the type of an array's entries in a file, little-endian; its type hint is NDArray[type]."""
    kind = _kind(hint)[0][0]
    array = get_args(kind)[0] if get_origin(kind) is tuple else kind
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
