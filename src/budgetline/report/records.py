"""From plain content, such as that of a JSON file, to records; every entry is checked, and errors name it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from types import UnionType
from typing import Any, get_args, get_origin, get_type_hints

from budgetline.budgets import number_of
from budgetline.messages import shown


def read(kind: Any, value: object, where: str = "") -> Any:
    """Return ``value`` as a type demands: a record, a tuple, a plain value, or None where that is allowed.

    Examples
    --------
    >>> from budgetline.report.records import read
    >>> read(tuple[float | None, ...], [1, None], "values")
    (1.0, None)
    """
    if isinstance(kind, UnionType):
        return None if value is None else read(get_args(kind)[0], value, where)
    if is_dataclass(kind):
        return _record(kind, value, where)
    if get_origin(kind) is tuple:
        if not isinstance(value, list | tuple):
            raise ValueError(f"{where} must be a list, got {shown(value)}")
        return tuple(read(get_args(kind)[0], entry, f"{where}[{k}]") for k, entry in enumerate(value))
    if kind is float:
        if not math.isfinite(number := number_of(value)):
            raise ValueError(f"{where} must be a finite number, got {shown(value)}")
        return number
    if type(value) is not kind:
        raise ValueError(f"{where} must be of type {kind.__name__}, got {shown(value)}")
    return value


def _record(kind: Any, value: object, where: str) -> Any:
    """Return a record from a mapping of its fields; those with a default may be missing."""
    if not isinstance(value, Mapping):
        raise ValueError(f"{where or 'a report'} must be a mapping of names to values, got {shown(value)}")
    hints, prefix = get_type_hints(kind), f"{where}." if where else ""
    if unknown := [name for name in value if name not in hints]:
        raise ValueError(f"{prefix}{unknown[0]} is not a field of a report")
    if missing := [f.name for f in fields(kind) if f.default is MISSING and f.name not in value]:
        raise ValueError(f"{prefix}{missing[0]} is missing")
    found = {name: read(hints[name], entry, prefix + name) for name, entry in value.items()}
    try:
        return kind(**found)
    except ValueError as error:
        raise ValueError(f"{prefix}{error}") from error
