"""Advice in errors about text and missing values: use an encoding."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from budgetline.inputs import MissingValue, NotNumbers


@contextmanager
def advising(encoding: object) -> Iterator[None]:
    """Add to errors about text and missing values that an encoding accepts them, unless there is one."""
    try:
        yield
    except ValueError as error:
        found = error if isinstance(error, MissingValue | NotNumbers) else error.__cause__
        if encoding is not None or not isinstance(found, MissingValue | NotNumbers):
            raise
        raise ValueError(f"{error}; encoding='spline' takes text and missing values") from error
