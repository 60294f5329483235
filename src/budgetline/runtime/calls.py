"""Running users' functions so that whatever they do costs only their own group.

This is the only module that catches every exception: an extractor is other people's code, and its failure is a result.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from inspect import isawaitable
from threading import current_thread, main_thread
from typing import TypeVar

import numpy as np

from budgetline.arrays import Float
from budgetline.messages import shown
from budgetline.runtime.answer import Fault
from budgetline.runtime.extractors import Extractor
from budgetline.runtime.values import ColumnReader

A = TypeVar("A")
T = TypeVar("T")
LATE = Fault("late", "the deadline came before its turn")


@dataclass(frozen=True, slots=True)
class Result:
    """Values of one group for n inputs, shape (n, width), and the faults of some inputs, whose rows are zero."""

    values: Float
    faults: dict[int, Fault]


def never() -> bool:
    """Return False: do not stop between inputs, whoever waits for the call ends it."""
    return False


def run(
    extractor: Extractor, reader: ColumnReader, raws: list[object], stop: Callable[[], bool] = never
) -> Result | Fault:
    """Call an extractor on inputs. Between inputs, and before another try, ``stop`` is asked whether to stop."""

    def tried(argument: object, n: int | None) -> Result | Fault:
        for _ in range(1 + extractor.retries):
            found = checked(reader, attempt(extractor.function, argument), n)
            if _is_whole(found) or stop():
                break
        return found

    if extractor.batch:
        return tried(raws, len(raws))
    return _stacked([LATE if k and stop() else tried(raw, None) for k, raw in enumerate(raws)], reader.width)


async def run_async(extractor: Extractor, reader: ColumnReader, raws: list[object]) -> Result | Fault:
    """Do the same for async functions: all inputs at once. Late calls are cancelled from outside."""

    async def tried(argument: object, n: int | None) -> Result | Fault:
        for _ in range(1 + extractor.retries):
            found = checked(reader, await _attempt_async(extractor.function, argument), n)
            if _is_whole(found):
                break
        return found

    if extractor.batch:
        return await tried(raws, len(raws))
    if len(raws) == 1:
        return _stacked([await tried(raws[0], None)], reader.width)
    return _stacked(await asyncio.gather(*(tried(raw, None) for raw in raws)), reader.width)


def attempt(function: Callable[[A], T], argument: A) -> T | Fault:
    """Return what a function returns, or a Fault if it raises."""
    try:
        return function(argument)
    except BaseException as error:  # also SystemExit: a library that exits must not take the service with it
        return _raised_or_pressed(error)


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
        return raised(error)  # the function itself cancelled something: that costs this input alone
    except BaseException as error:
        return _raised_or_pressed(error)


def _raised_or_pressed(error: BaseException) -> Fault:
    if isinstance(error, KeyboardInterrupt) and current_thread() is main_thread():
        raise error  # Ctrl-C, which arrives in the main thread only
    return raised(error)


def raised(error: BaseException) -> Fault:
    """Return the fault of a function that raised this."""
    try:
        text = str(error)
    except BaseException as second:  # the text of an exception is users' code, too
        text = f"(its text raises {type(second).__name__})"
    return Fault("raised", f"{type(error).__name__}: {text}" if text else type(error).__name__)


@contextmanager
def naming(what: str) -> Iterator[None]:
    """Raise exceptions from inside again as a ValueError that says what raised them."""
    try:
        yield
    except Exception as error:
        raise ValueError(f"{what}: {raised(error).message}") from error


def checked(reader: ColumnReader, value: object, n: int | None) -> Result | Fault:
    """Return the values of n inputs (None: of a single one), with a fault for every row that is not finite."""
    try:
        values = value if isinstance(value, Fault) else reader.read(value, n)
    except BaseException as error:  # conversions are users' code, too: __array__, __getitem__
        return _raised_or_pressed(error)
    if isinstance(values, Fault):
        return values
    if _all_finite(values):
        return Result(values, {})
    bad = np.flatnonzero(~np.isfinite(values).all(axis=1)).tolist()
    faults = {i: _not_finite(reader, values[i]) for i in bad}
    if n is None:
        return faults[0]
    values = values.copy()
    values[bad] = 0.0
    return Result(values, faults)


def _all_finite(values: Float) -> bool:
    if len(values) > 1:
        with np.errstate(over="ignore", invalid="ignore"):
            if np.isfinite(values.sum()):  # faster than a look at each value
                return True
    return bool(np.isfinite(values).all())


def _not_finite(reader: ColumnReader, row: Float) -> Fault:
    d = int(np.argmin(np.isfinite(row)))
    column = d if reader.names is None else shown(reader.names[d])
    return Fault("not finite", f"column {column} holds {row[d]}")


def _is_whole(found: Result | Fault) -> bool:
    return isinstance(found, Result) and not found.faults


def _stacked(rows: Sequence[Result | Fault], width: int) -> Result | Fault:
    """Put the outcomes of single inputs together."""
    if len(rows) == 1:
        # a copy: a function may use its array again before this one is read
        return rows[0] if isinstance(rows[0], Fault) else Result(rows[0].values.copy(), {})
    values = np.zeros((len(rows), width))
    for i, row in enumerate(rows):
        if isinstance(row, Result):
            values[i] = row.values
    return Result(values, {i: row for i, row in enumerate(rows) if isinstance(row, Fault)})
