"""Extractors: the functions that compute groups, and how they are run."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

from budgetline.budgets import check_integer, check_number
from budgetline.messages import shown, some

Mode = Literal["cooperative", "thread", "process", "async"]
Function = Callable[[Any], Any]


@dataclass(frozen=True)
class Extractor:
    """A function that computes one group, and how to run it.

    Parameters
    ----------
    function : callable
        ``function(raw)`` returns the values of the group's columns, in the order of the group: a sequence of numbers,
        one number if there is one column, or a mapping column name -> number. With ``batch=True`` it takes the list
        of raw inputs, which it must not change, and returns a table with one row each (an array, a data frame or a
        mapping of columns). Masked values count as NaN.
    mode : {"cooperative", "thread", "process", "async"}, optional
        Where it runs, and what happens when it is late. Default: ``"async"`` for an async function, otherwise the mode
        of the runner.
    batch : bool
        Whether the function takes many inputs at once.
    retries : int
        How often it is called again after it raised, or returned something unusable.
    timeout : float, optional
        Seconds after which a call counts as hanging, whatever the deadline. Not in cooperative mode, which cannot stop
        a function.

    Examples
    --------
    >>> from budgetline import Extractor
    >>> Extractor(len, mode="thread", timeout=0.1).mode
    'thread'
    """

    function: Function
    mode: Mode | None = None
    batch: bool = False
    retries: int = 0
    timeout: float | None = None

    def __post_init__(self) -> None:
        if not callable(self.function):
            raise TypeError(f"an extractor needs a function, got {shown(self.function)}")
        if self.mode is not None:
            check_mode(self.mode)
            if self.mode != "async" and is_async(self.function):
                raise ValueError(f"an async function runs in mode 'async', not {shown(self.mode)}")
        check_integer("retries", self.retries, ge=0)
        if self.timeout is not None:
            check_number("timeout", self.timeout, "number of seconds", gt=0)


Extractors = Mapping[str, Extractor | Function | None]
"""One per group: a function, an Extractor, or None for a group that cannot be computed."""


def check_mode(mode: object) -> None:
    """Raise an error unless this is one of the modes."""
    if mode not in get_args(Mode):
        raise ValueError(f"mode must be one of {some(get_args(Mode))}, got {shown(mode)}")


def is_async(function: object) -> bool:
    """Return whether calling the function gives a coroutine; for a callable object its class decides."""
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(type(function).__call__)
