"""Extractors: the functions that compute groups, and how they are called.

This is the only module that catches every exception: an extractor is the user's code, and its failure costs only its
own group.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from inspect import isawaitable, iscoroutinefunction
from multiprocessing.reduction import ForkingPickler
from threading import current_thread, main_thread
from typing import Any, Literal, TypeVar, get_args

import numpy as np

from budgetline.arrays import Array
from budgetline.inputs import check_number
from budgetline.messages import shown, some
from budgetline.runtime.prediction import Fault
from budgetline.runtime.values import Reader, Unusable

A = TypeVar("A")
T = TypeVar("T")
Mode = Literal["cooperative", "thread", "process", "async"]
Function = Callable[[Any], Any]
LATE = Fault("late", "the deadline came before its turn")


@dataclass(frozen=True)
class Extractor:
    """A function that computes the values of one group, and how to run it.

    Parameters
    ----------
    function : callable
        ``function(raw)`` returns the values of the group's columns: a sequence of numbers in the order of the group,
        a single number if the group has one column, or a mapping column name -> number. With ``batch=True``, the
        function receives the list of raw inputs, which it must not change. It then returns a table with one row per
        input (an array, a data frame or a mapping of columns). Masked values count as NaN.
    mode : {"cooperative", "thread", "process", "async"}, optional
        Where the function runs, and what happens when it is late. By default, an async function has the mode
        ``"async"``, and any other function has the mode of the runner.
    batch : bool
        Whether the function accepts many inputs at once.
    timeout : float, optional
        The number of seconds after which a call is abandoned, even before the deadline. It is not available in
        cooperative mode, because that mode cannot stop a function.

    Examples
    --------
    >>> from budgetline import Extractor
    >>> Extractor(len, mode="thread", timeout=0.1).mode
    'thread'
    """

    function: Function
    mode: Mode | None = None
    batch: bool = False
    timeout: float | None = None

    def __post_init__(self) -> None:
        if not callable(self.function):
            raise TypeError(f"an extractor needs a function, got {shown(self.function)}")
        if self.mode is not None:
            check_mode(self.mode)
            if self.mode != "async" and _is_async(self.function):
                raise ValueError(f"an async function runs in mode 'async', not {shown(self.mode)}")
        if self.timeout is not None:
            check_number("timeout", self.timeout, "number of seconds", gt=0)


Extractors = Mapping[str, Extractor | Function | None]
"""One per group: a function, an Extractor, or None for a group that cannot be computed."""


def check_mode(mode: object) -> None:
    """Raise an error unless this is one of the modes."""
    if mode not in get_args(Mode):
        raise ValueError(f"mode must be one of {some(get_args(Mode))}, got {shown(mode)}")


def _is_async(function: object) -> bool:
    """Return whether calling the function returns a coroutine; for a callable object its class decides."""
    return iscoroutinefunction(function) or iscoroutinefunction(type(function).__call__)


def as_extractor(name: str, given: Extractor | Function | None, mode: Mode) -> Extractor | None:
    """Return the extractor of a group with its mode; ``mode`` is the default."""
    if given is None:
        return None
    try:
        extractor = given if isinstance(given, Extractor) else Extractor(given)
    except (TypeError, ValueError) as error:
        raise type(error)(f"group {shown(name)}: {error}") from error
    if extractor.mode is None:
        extractor = replace(extractor, mode="async" if _is_async(extractor.function) else mode)
    if extractor.mode == "cooperative" and extractor.timeout is not None:
        why = "a timeout needs mode 'thread', 'process' or 'async': mode 'cooperative' cannot stop a function"
        raise ValueError(f"group {shown(name)}: {why}")
    if extractor.mode == "process" and isinstance(fault := attempt(ForkingPickler.dumps, extractor), Fault):
        raise ValueError(
            f"the extractor of group {shown(name)} cannot run in another process ({fault.message}): "
            "define its function at the top level of a module"
        )
    return extractor


@dataclass(frozen=True, slots=True)
class GroupValues:
    """Values of one group for n inputs, shape (n, width), and the faults of some inputs, whose rows are zero."""

    values: Array
    faults: dict[int, Fault]


Outcome = GroupValues | Fault
"""What comes of a call."""


def never() -> bool:
    """Return False: the call does not stop between inputs."""
    return False


def run(extractor: Extractor, reader: Reader, raws: list[object], stop: Callable[[], bool] = never) -> Outcome:
    """Call an extractor on inputs; ``stop()`` is checked between them."""

    def called(argument: object, n: int | None) -> Outcome:
        return checked(reader, attempt(extractor.function, argument), n)

    if extractor.batch:
        return _copied(called(raws, len(raws)))
    return _stacked([LATE if k and stop() else called(raw, None) for k, raw in enumerate(raws)], reader.width)


async def run_async(extractor: Extractor, reader: Reader, raws: list[object]) -> Outcome:
    """Call an async extractor on all inputs at once; the event loop cancels late calls."""

    async def called(argument: object, n: int | None) -> Outcome:
        return checked(reader, await _attempt_async(extractor.function, argument), n)

    if extractor.batch:
        return _copied(await called(raws, len(raws)))
    if len(raws) == 1:  # without another task
        return _stacked([await called(raws[0], None)], reader.width)
    return _stacked(await asyncio.gather(*(called(raw, None) for raw in raws)), reader.width)


def attempt(function: Callable[[A], T], argument: A) -> T | Fault:
    """Return what a function returns, or a Fault if it raises."""
    try:
        return function(argument)
    except BaseException as error:  # also SystemExit: a library that exits must not end the service
        return _fault_of(error)


async def _attempt_async(function: Callable[[A], object], argument: A) -> object:
    try:
        found = function(argument)
        return await found if isawaitable(found) else found
    except GeneratorExit:
        raise
    except asyncio.CancelledError as error:
        task = asyncio.current_task()
        if task is None or task.cancelling():
            raise
        return raised(error)  # the function itself cancelled something: only this input fails
    except BaseException as error:
        return _fault_of(error)


def _fault_of(error: BaseException) -> Fault:
    if isinstance(error, KeyboardInterrupt) and current_thread() is main_thread():
        raise error  # Ctrl-C, which arrives in the main thread only
    return raised(error)


def raised(error: BaseException) -> Fault:
    """Return the fault of a function that raised this."""
    try:
        text = str(error)
    except BaseException as second:  # str() of an exception is users' code, too
        text = f"(its text raises {type(second).__name__})"
    return Fault("raised", f"{type(error).__name__}: {text}" if text else type(error).__name__)


def checked(reader: Reader, value: object, n: int | None) -> Outcome:
    """Return the values of n inputs (None: of a single one), with a fault for every row that cannot be used."""
    if isinstance(value, Fault):
        return value
    try:
        values = reader.read(value, n)
    except Unusable as error:
        return error.fault
    except BaseException as error:  # conversions are users' code, too: __array__, __getitem__
        return _fault_of(error)
    faults = reader.faults(values)
    if not faults:
        return GroupValues(values, {})
    if n is None:
        return faults[0]
    values = values.copy()
    values[list(faults)] = 0.0
    return GroupValues(values, faults)


def _copied(found: Outcome) -> Outcome:
    """Copy the values: a function may reuse its array before they are read."""
    return found if isinstance(found, Fault) else GroupValues(found.values.copy(), found.faults)


def _stacked(rows: Sequence[Outcome], width: int) -> Outcome:
    """Combine the outcomes of single inputs."""
    if len(rows) == 1:
        return _copied(rows[0])
    kept = any(isinstance(row, GroupValues) and row.values.dtype == object for row in rows)
    values = np.zeros((len(rows), width), dtype=object if kept else np.float64)
    for i, row in enumerate(rows):
        if isinstance(row, GroupValues):
            values[i] = row.values
    return GroupValues(values, {i: row for i, row in enumerate(rows) if isinstance(row, Fault)})
