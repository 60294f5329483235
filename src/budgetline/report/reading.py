"""From plain content, such as that of a JSON file, to records: every entry is checked, and errors name it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from types import UnionType
from typing import Any, get_args, get_origin, get_type_hints

from budgetline.messages import shown

PLAIN: dict[type, tuple[type, ...]] = {str: (str,), bool: (bool,), int: (int,), float: (int, float)}


def plain_of(value: Any) -> Any:
    """Return records as dicts and tuples as lists, all the way down.

    Examples
    --------
    >>> from budgetline.report.content import Amount
    >>> from budgetline.report.reading import plain_of
    >>> plain_of((Amount("mean", 1.5),))
    [{'name': 'mean', 'value': 1.5}]
    """
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain_of(getattr(value, field.name)) for field in fields(value)}
    return [plain_of(entry) for entry in value] if isinstance(value, tuple) else value


def read(kind: Any, value: Any, where: str) -> Any:
    """Return ``value`` as what a type asks for: a record, a tuple, a plain value, or None where it may be.

    Examples
    --------
    >>> from budgetline.report.reading import read
    >>> read(tuple[float | None, ...], [1, None], "values")
    (1.0, None)
    """
    if isinstance(kind, UnionType):
        inner = next(option for option in get_args(kind) if option is not type(None))
        return None if value is None else read(inner, value, where)
    if get_origin(kind) is tuple:
        if not isinstance(value, list | tuple):
            raise ValueError(f"{where} must be a list, got {shown(value)}")
        return tuple(read(get_args(kind)[0], entry, f"{where}[{k}]") for k, entry in enumerate(value))
    if is_dataclass(kind):
        return read_record(kind, value, where)
    if type(value) not in PLAIN[kind]:
        raise ValueError(f"{where} must be of type {kind.__name__}, got {shown(value)}")
    return _finite(value, where) if kind is float else value


def read_record(kind: Any, value: Any, where: str) -> Any:
    """Return a record of class ``kind`` from a mapping of its fields; those with a default may be missing."""
    if not isinstance(value, Mapping):
        raise ValueError(f"{where or 'a report'} must be a mapping of names to values, got {shown(value)}")
    hints = get_type_hints(kind)
    known = {field.name: field for field in fields(kind)}
    prefix = f"{where}." if where else ""
    if unknown := [name for name in value if name not in known]:
        raise ValueError(f"{prefix}{unknown[0]} is not a field of a report")
    found = {}
    for name, field in known.items():
        if name in value:
            found[name] = read(hints[name], value[name], prefix + name)
        elif field.default is MISSING:
            raise ValueError(f"{prefix}{name} is missing")
    try:
        return kind(**found)
    except ValueError as error:
        raise ValueError(f"{prefix}{error}") from error


def _finite(value: float, where: str) -> float:
    try:
        number = float(value)
    except OverflowError as error:
        raise ValueError(f"{where} is too large a number") from error
    if not math.isfinite(number):
        raise ValueError(f"{where} must be finite, got {shown(value)}: what is unknown is null")
    return number
