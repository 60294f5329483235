"""Settings and labels as plain JSON and back: numbers, texts, lists, mappings, arrays, groups and schedules."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np

from budgetline.arrays import Array
from budgetline.codec import As, read_as, write_as
from budgetline.encoding import Encoding
from budgetline.groups.feature_groups import FeatureGroups, StoredGroups
from budgetline.messages import shown
from budgetline.sequencing.schedules import CheapestFirst, Doubling, FixedOrder, Greedy, RandomOrder

DEEPEST = 16
"""Settings are not nested deeper than this."""
ENTRIES = "biufUO"
"""Kinds of arrays that have a plain form: flags, numbers, texts and objects."""
SCHEDULES = {cls.__name__: cls for cls in (Greedy, Doubling, FixedOrder, CheapestFirst, RandomOrder)}


def to_plain(value: object) -> object:
    """Return a value as JSON. What JSON does not have is a mapping with one key, which says what it is.

    Functions, splitters and other objects of the user's have no plain form: a TypeError.
    """
    if value is None or type(value) in (bool, int, str) or (type(value) is float and math.isfinite(value)):
        return value
    if type(value) is list:
        return value if {str, int}.issuperset(map(type, value)) else [to_plain(entry) for entry in value]
    scalar = "scalar" if isinstance(value, np.generic) else None
    name = next((name for name, (types, *_) in KINDS.items() if type(value) in types), scalar)
    if name is None:
        raise TypeError(f"{type(value).__name__} has no plain form")
    _, hint, content, _ = KINDS[name]
    return {name: write_as(hint, content(value))}


def from_plain(content: object, where: str) -> object:
    """Return the value of `to_plain`, if ``content`` can be one."""
    if not isinstance(content, list | dict):
        return content
    if where.count("[") >= DEEPEST:
        raise ValueError(f"{where} is nested too deep")
    if isinstance(content, list):
        if {str, int}.issuperset(map(type, content)):
            return list(content)
        return [from_plain(entry, f"{where}[{k}]") for k, entry in enumerate(content)]
    if len(content) != 1 or (name := next(iter(content))) not in KINDS:
        raise ValueError(f"{where} must be of a known kind, got {shown(content)}")
    _, hint, _, make = KINDS[name]
    return make(read_as(hint, content[name], where))


PlainSetting = Annotated[Any, As(to_plain, from_plain)]
"""The type of a setting in a record."""


@dataclass(frozen=True)
class ArrayRecord:
    """An array among the settings."""

    dtype: str
    shape: tuple[int, ...]
    values: tuple[PlainSetting, ...]


def _record(given: object) -> ArrayRecord:
    array = np.asarray(given)
    if array.dtype.kind not in ENTRIES:
        raise TypeError(f"arrays of {array.dtype} have no plain form")
    return ArrayRecord(array.dtype.str, array.shape, tuple(array.ravel().tolist()))


def _array(record: ArrayRecord) -> Array:
    """Return the array; its size is that of the values, whatever the shape says."""
    dtype = np.dtype(record.dtype)
    if dtype.kind not in ENTRIES:
        raise ValueError(f"an array of type {shown(record.dtype)} is not known here")
    flat = np.empty(len(record.values), dtype=dtype)
    flat[:] = record.values
    return flat.reshape(record.shape)


KINDS: dict[str, tuple[tuple[type, ...], Any, Callable[[Any], object], Callable[[Any], object]]] = {
    "float": ((float,), str, repr, float),
    "tuple": ((tuple,), tuple[PlainSetting, ...], tuple, tuple),
    "dict": ((dict,), tuple[tuple[PlainSetting, PlainSetting], ...], lambda given: tuple(given.items()), dict),
    "array": ((np.ndarray,), ArrayRecord, _record, _array),
    "scalar": ((), ArrayRecord, _record, lambda record: _array(record)[()]),
    "FeatureGroups": ((FeatureGroups,), StoredGroups, lambda groups: groups, lambda groups: groups),
    "Encoding": ((Encoding,), dict[str, PlainSetting], vars, lambda settings: Encoding(**settings)),
    "schedule": (
        tuple(SCHEDULES.values()),
        tuple[str, dict[str, PlainSetting]],
        lambda schedule: (type(schedule).__name__, vars(schedule)),
        lambda named: SCHEDULES[named[0]](**named[1]),
    ),
}
"""Types that JSON does not have; the type hint of their content; from the type to its content, and back."""
