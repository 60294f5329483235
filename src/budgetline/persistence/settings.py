"""Settings and labels as plain JSON and back: numbers, texts, lists, mappings, arrays, groups and schedules."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from budgetline.codec import As, AtLeast, read
from budgetline.groups import FeatureGroups
from budgetline.groups.record import StoredGroups, plain_groups
from budgetline.messages import shown
from budgetline.sequencing.schedules import CheapestFirst, Doubling, FixedOrder, Greedy, RandomOrder

DEEPEST = 16
"""Settings are not nested deeper than this."""
WIDEST = 1024
"""Arrays of text keep their width up to this; a wider one is as wide as its longest entry."""
DTYPES = ("bool", *(f"{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64)), "float32", "float64")
SCHEDULES = {cls.__name__: cls for cls in (Greedy, Doubling, FixedOrder, CheapestFirst, RandomOrder)}


class NotPlainError(TypeError):
    """A value that has no plain form: a function, a splitter, an object of the user's."""


def to_plain(value: object, depth: int = 0) -> object:
    """Return a value as JSON. What JSON does not have is a mapping with one key, which says what it is.

    Examples
    --------
    >>> from budgetline.persistence.settings import from_plain, to_plain
    >>> to_plain({1: (0.5, float("inf"))})
    {'dict': [[1, {'tuple': [0.5, {'float': 'inf'}]}]]}
    >>> from_plain(to_plain({1: (0.5, float("inf"))}), "value")
    {1: (0.5, inf)}
    """
    if depth > DEEPEST:
        raise NotPlainError("nested too deep")

    def inner(entries: Iterable[object]) -> list[object]:
        return [to_plain(entry, depth + 1) for entry in entries]

    if value is None or type(value) in (bool, int, str):
        return value
    if type(value) is float:
        return value if math.isfinite(value) else {"float": repr(value)}
    if type(value) is list:
        return inner(value)
    if type(value) is tuple:
        return {"tuple": inner(value)}
    if type(value) is dict:
        return {"dict": [inner(item) for item in value.items()]}
    if isinstance(value, np.generic) or type(value) is np.ndarray:
        array = np.asarray(value)
        (dtype, width), values = _type_of(array), inner(array.ravel().tolist())
        content = {"dtype": dtype, "width": width, "shape": list(array.shape), "values": values}
        return {"array" if type(value) is np.ndarray else "scalar": content}
    if type(value) is FeatureGroups:
        return {"FeatureGroups": plain_groups(value)}
    if type(value) in SCHEDULES.values():
        return {"schedule": [type(value).__name__, dict(zip(vars(value), inner(vars(value).values()), strict=True))]}
    raise NotPlainError(f"{type(value).__name__} has no plain form")


def from_plain(plain: object, where: str) -> object:
    """Return the value of :func:`to_plain`, if ``plain`` can be one: write it again to see whether it is."""
    if isinstance(plain, list):
        return [from_plain(entry, where) for entry in plain]
    if not isinstance(plain, dict):
        return plain
    if len(plain) != 1 or (kind := next(iter(plain))) not in KINDS:
        raise ValueError(f"{where} must be of a known kind, got {shown(plain)}")
    hint, make = KINDS[kind]
    return make(read(hint, plain[kind], where))


Setting = Annotated[Any, As(to_plain, from_plain)]
"""The type of a setting in a record."""


@dataclass(frozen=True)
class ArrayRecord:
    """An array among the settings; ``width`` is that of texts."""

    dtype: str
    width: int
    shape: tuple[Annotated[int, AtLeast(0)], ...]
    values: tuple[Setting, ...]


def _type_of(array: NDArray[Any]) -> tuple[str, int]:
    """Return the name of the type of the entries, and the width of texts."""
    if array.dtype.kind == "U":
        width = array.dtype.itemsize // 4
        return "str", width if width <= WIDEST else max(map(len, array.ravel().tolist()), default=1)
    if array.dtype.kind == "O" or array.dtype.name in DTYPES:
        return array.dtype.name, 0
    raise NotPlainError(f"arrays of {array.dtype} have no plain form")


def _array(record: ArrayRecord) -> NDArray[Any]:
    """Return the array; its size is that of the values, whatever the shape says."""
    dtype, values = record.dtype, record.values
    if math.prod(record.shape) != len(values):
        raise ValueError(f"an array of shape {shown(record.shape)} does not have {len(values)} entries")
    if dtype == "str" and record.width <= max(WIDEST, *map(len, values)):
        dtype = f"<U{record.width}"
    elif dtype not in (*DTYPES, "object"):
        raise ValueError(f"an array of type {shown(dtype)} and width {shown(record.width)} is not known here")
    flat = np.empty(len(values), dtype=dtype)
    with np.errstate(all="ignore"):  # what does not fit is found when the array is written again
        flat[:] = values
    return flat.reshape(record.shape)


def _schedule(named: tuple[str, dict[str, Any]]) -> object:
    """Return a schedule of ours; its own constructor checks what it is given."""
    name, entries = named
    if name not in SCHEDULES:
        raise ValueError(f"the schedule {shown(name)} is not known here")
    return SCHEDULES[name](**entries)


KINDS: dict[str, tuple[Any, Callable[[Any], Any]]] = {
    "float": (str, float),
    "tuple": (tuple[Setting, ...], tuple),
    "dict": (tuple[tuple[Setting, Setting], ...], dict),
    "array": (ArrayRecord, _array),
    "scalar": (ArrayRecord, lambda record: _array(record)[()]),
    "FeatureGroups": (StoredGroups, lambda groups: groups),
    "schedule": (tuple[str, dict[str, Setting]], _schedule),
}
"""What JSON does not have: how its content is read, and what is made of it."""
