"""Running users' functions so that whatever they do costs only their own group.

The one place that catches every exception: an extractor is other people's code, and its failure is a result.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from inspect import isawaitable
from threading import current_thread, main_thread
from typing import Any

import numpy as np
from numpy.typing import NDArray

from budgetline.messages import shown
from budgetline.runtime.answer import Fault
from budgetline.runtime.extractors import Columns, Extractor

Float = NDArray[np.float64]
Stop = Callable[[], bool]


@dataclass(frozen=True, slots=True)
class Result:
    """Values of one group for n inputs, shape (n, width), and what was wrong with some (or all) of them.

    Rows with a fault are zero.
    """

    values: Float
    faults: dict[int, Fault]


def never() -> bool:
    """Do not stop between inputs: whoever waits for the call ends it."""
    return False


def run(extractor: Extractor, columns: Columns, raws: list[Any], stop: Stop = never) -> Result | Fault:
    """Call an extractor on inputs; between inputs and before another try it may be told to stop."""
    if extractor.batch:
        for _ in range(1 + extractor.retries):
            found = checked_rows(columns, attempt(extractor.function, raws), len(raws))
            if (isinstance(found, Result) and not found.faults) or stop():
                break
        return found
    rows: list[Float | Fault] = []
    for raw in raws:
        if rows and stop():
            rows.append(Fault("late", "the deadline came before its turn"))
            continue
        for _ in range(1 + extractor.retries):
            row = checked_row(columns, attempt(extractor.function, raw))
            if not isinstance(row, Fault) or stop():
                break
        rows.append(row)
    return _stacked(rows, columns.width)


async def run_async(extractor: Extractor, columns: Columns, raws: list[Any]) -> Result | Fault:
    """Do the same for async functions: all inputs at once, and late ones are cancelled from outside."""
    if extractor.batch:
        for _ in range(1 + extractor.retries):
            found = checked_rows(columns, await _attempt_async(extractor.function, raws), len(raws))
            if isinstance(found, Result) and not found.faults:
                break
        return found

    async def row_of(raw: Any) -> Float | Fault:
        for _ in range(1 + extractor.retries):
            row = checked_row(columns, await _attempt_async(extractor.function, raw))
            if not isinstance(row, Fault):
                break
        return row

    if len(raws) == 1:
        return _stacked([await row_of(raws[0])], columns.width)
    return _stacked(await asyncio.gather(*map(row_of, raws)), columns.width)


def attempt(function: Callable[[Any], Any], argument: Any) -> Any:
    """Return what a function returns, or a Fault if it raises."""
    try:
        return function(argument)
    except BaseException as error:  # also SystemExit: a library that exits must not take the service with it
        return _raised_or_pressed(error)


async def _attempt_async(function: Callable[[Any], Any], argument: Any) -> Any:
    try:
        found = function(argument)
        return await found if isawaitable(found) else found
    except GeneratorExit:
        raise
    except asyncio.CancelledError as error:
        task = asyncio.current_task()
        if task is None or task.cancelling():
            raise
        return raised(error)  # not we, but the function cancelled something: it costs this input alone
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
        text = f"(its text cannot be had: {type(second).__name__})"
    return Fault("raised", f"{type(error).__name__}: {text}" if text else type(error).__name__)


def checked_row(columns: Columns, value: Any) -> Float | Fault:
    """Return the values of one input as an array of shape (1, width), if they are finite numbers."""
    try:
        row = value if isinstance(value, Fault) else columns.row(value)
    except BaseException as error:  # conversions are users' code, too: __array__, __getitem__
        return _raised_or_pressed(error)
    if isinstance(row, Fault) or np.isfinite(row).all():
        return row
    return Fault("not finite", f"column {_culprit(columns, row)} holds {row[~np.isfinite(row)][0]}")


def checked_rows(columns: Columns, value: Any, n: int) -> Result | Fault:
    """Return the values of n inputs, with a fault for every row that is not finite."""
    try:
        values = value if isinstance(value, Fault) else columns.rows(value, n)
    except BaseException as error:
        return _raised_or_pressed(error)
    if isinstance(values, Fault):
        return values
    with np.errstate(over="ignore", invalid="ignore"):
        if np.isfinite(values.sum()):  # faster than looking at each
            return Result(values, {})
    bad = np.flatnonzero(~np.isfinite(values).all(axis=1)).tolist()
    if not bad:
        return Result(values, {})
    faults = {i: Fault("not finite", f"column {_culprit(columns, values[[i]])} is not finite") for i in bad}
    values = values.copy()
    values[bad] = 0.0
    return Result(values, faults)


def _stacked(rows: Sequence[Float | Fault], width: int) -> Result | Fault:
    if len(rows) == 1:
        # a copy: a function may use its array again before this one is read
        return rows[0] if isinstance(rows[0], Fault) else Result(rows[0].copy(), {})
    faults = {i: row for i, row in enumerate(rows) if isinstance(row, Fault)}
    values = np.zeros((len(rows), width))
    for i, row in enumerate(rows):
        if not isinstance(row, Fault):
            values[i] = row
    return Result(values, faults)


def _culprit(columns: Columns, row: Float) -> str:
    where = int(np.argmin(np.isfinite(row[0])))
    return shown(columns.names[where]) if columns.names is not None else str(where)
