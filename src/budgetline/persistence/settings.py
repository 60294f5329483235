"""Settings as plain JSON and back: numbers, texts, lists, mappings, arrays, groups and schedules. Nothing is run."""

from __future__ import annotations

import json
import math
from dataclasses import fields as dataclass_fields
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from budgetline.groups import FeatureGroups
from budgetline.groups.plain import groups_of, plain_groups
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


def to_plain(value: Any, depth: int = 0) -> Any:
    """Return a value as JSON; whatever JSON does not have is a mapping of one key that says what it is.

    Examples
    --------
    >>> from budgetline.persistence.settings import from_plain, to_plain
    >>> to_plain({1: (0.5, float("inf"))})
    {'dict': [[1, {'tuple': [0.5, {'float': 'inf'}]}]]}
    >>> from_plain(to_plain({1: (0.5, float("inf"))}))
    {1: (0.5, inf)}
    """
    if depth > DEEPEST:
        raise NotPlainError("nested too deep")
    if value is None or type(value) in (bool, int, str):
        return value
    if type(value) is float:
        return value if math.isfinite(value) else {"float": repr(value)}
    if type(value) is list:
        return [to_plain(entry, depth + 1) for entry in value]
    if type(value) is tuple:
        return {"tuple": [to_plain(entry, depth + 1) for entry in value]}
    if type(value) is dict:
        return {"dict": [[to_plain(key, depth + 1), to_plain(entry, depth + 1)] for key, entry in value.items()]}
    if isinstance(value, np.generic):
        return {"scalar": _plain_array(np.asarray(value), depth)}
    if type(value) is np.ndarray:
        return {"array": _plain_array(value, depth)}
    if type(value) is FeatureGroups:
        return {"FeatureGroups": plain_groups(value)}
    if type(value) in SCHEDULES.values():
        entries = {f.name: to_plain(getattr(value, f.name), depth + 1) for f in dataclass_fields(value)}
        return {"schedule": [type(value).__name__, entries]}
    raise NotPlainError(f"{type(value).__name__} has no plain form")


def from_plain(plain: Any) -> Any:
    """Return the value of :func:`to_plain`; raise a ValueError for anything that it does not write."""
    try:
        value = _value(plain, 0)
        same = json.dumps(to_plain(value), sort_keys=True) == json.dumps(plain, sort_keys=True)
    except (TypeError, KeyError, OverflowError, RecursionError) as error:
        raise ValueError(f"a setting cannot be read: {shown(error, 300)}") from error
    if not same:  # numbers out of range, keys given twice, and the like
        raise ValueError("a setting is not in the form in which it is written")
    return value


def _value(plain: Any, depth: int) -> Any:
    """Return the value of one entry, of any kind."""
    if depth > DEEPEST:
        raise ValueError("a setting is nested too deep")
    if isinstance(plain, list):
        return [_value(entry, depth + 1) for entry in plain]
    if not isinstance(plain, dict):
        return plain
    if len(plain) != 1:
        raise ValueError(f"a setting has the keys {sorted(plain)}, one is expected")
    ((kind, content),) = plain.items()
    if kind == "float" and content in ("inf", "-inf", "nan"):
        return float(content)
    if kind == "tuple":
        return tuple(_value(entry, depth + 1) for entry in content)
    if kind == "dict":
        return {_value(key, depth + 1): _value(entry, depth + 1) for key, entry in content}
    if kind in ("array", "scalar"):
        array = _array(content, depth)
        return array if kind == "array" else array[()]
    if kind == "FeatureGroups":
        return groups_of(content)
    if kind == "schedule":
        name, entries = content
        return _schedule(name, entries, depth)
    raise ValueError(f"a setting of the unknown kind {shown(kind)}")


def _schedule(name: str, entries: dict[str, Any], depth: int) -> Any:
    """Return a schedule of ours; its own constructor checks what it is given."""
    if not isinstance(entries, dict) or name not in SCHEDULES:
        raise ValueError(f"a schedule of the unknown kind {shown(name)}")
    values = {key: _value(entry, depth + 1) for key, entry in entries.items()}
    if not isinstance(values.get("literal", False), bool | np.bool_):
        raise ValueError("literal of a schedule must be true or false")
    if not isinstance(values.get("c_min", 0.0), Real | None):
        raise ValueError("c_min of a schedule must be a number")
    return SCHEDULES[name](**values)


def _plain_array(array: NDArray[Any], depth: int) -> dict[str, Any]:
    kind = array.dtype.kind
    if kind == "U":
        dtype, width = "str", array.dtype.itemsize // 4
        if width > WIDEST:
            width = max(map(len, array.ravel().tolist()), default=1)
    elif kind == "O" or array.dtype.name in DTYPES:
        dtype, width = array.dtype.name, 0
    else:
        raise NotPlainError(f"arrays of {array.dtype} have no plain form")
    values = [to_plain(entry, depth + 1) for entry in array.ravel().tolist()]
    return {"dtype": dtype, "width": width, "shape": list(array.shape), "values": values}


def _array(plain: dict[str, Any], depth: int) -> NDArray[Any]:
    """Return an array of :func:`_plain_array`; its size is that of the values, whatever the shape says."""
    shape, dtype, width = plain["shape"], plain["dtype"], plain["width"]
    values = [_value(entry, depth + 1) for entry in plain["values"]]
    if not all(type(k) is int and k >= 0 for k in shape) or math.prod(shape) != len(values):
        raise ValueError(f"an array of shape {shown(shape)} does not have {len(values)} entries")
    if dtype == "str":
        longest = max(map(len, values), default=1)
        if type(width) is not int or not longest <= width <= max(longest, WIDEST):
            raise ValueError(f"texts of width {shown(width)}")
        dtype = f"<U{width}"
    elif dtype not in (*DTYPES, "object"):
        raise ValueError(f"an array of type {shown(dtype)}")
    flat = np.empty(len(values), dtype=dtype)
    with np.errstate(all="ignore"):  # what does not fit is found when the array is compared with the file
        flat[:] = values
    return flat.reshape(shape)
