"""Extractors: the functions that compute groups, how they are run, and how their values are read."""

from __future__ import annotations

import inspect
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from budgetline.budgets import number_of
from budgetline.inputs import column_names
from budgetline.messages import shown, some
from budgetline.runtime.answer import Fault

Float = NDArray[np.float64]
Mode = Literal["cooperative", "thread", "process", "async"]


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
        Seconds after which one run of it counts as hanging, whatever the deadline. Not in cooperative mode, which
        cannot stop a function.

    Examples
    --------
    >>> from budgetline import Extractor
    >>> Extractor(len, mode="thread", timeout=0.1).mode
    'thread'
    """

    function: Callable[[Any], Any]
    mode: Mode | None = None
    batch: bool = False
    retries: int = 0
    timeout: float | None = None

    def __post_init__(self) -> None:
        if not callable(self.function):
            raise TypeError(f"an extractor needs a function, got {shown(self.function)}")
        if self.mode is not None and self.mode not in get_args(Mode):
            raise ValueError(f"mode must be one of {some(get_args(Mode))}, got {shown(self.mode)}")
        if self.mode not in (None, "async") and is_async(self.function):
            raise ValueError(f"an async function runs in mode 'async', not {shown(self.mode)}")
        if isinstance(self.retries, bool) or not isinstance(self.retries, Integral) or self.retries < 0:
            raise ValueError(f"retries must be an integer ≥ 0, got {shown(self.retries)}")
        if self.timeout is not None and not number_of(self.timeout) > 0:
            raise ValueError(f"timeout must be a number of seconds > 0, got {shown(self.timeout)}")


def is_async(function: Any) -> bool:
    """Tell whether calling the function gives a coroutine."""
    # a callable object counts by its method
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(type(function).__call__)


BARE = frozenset({np.ndarray, list, tuple, float})
"""Types of values that come without names."""


@dataclass(frozen=True)
class Columns:
    """The columns of one group, by which returned values are read: their places in X, and their names if any."""

    positions: NDArray[np.intp]
    names: tuple[str, ...] | None

    @property
    def width(self) -> int:
        """Number of columns."""
        return self.positions.size

    def row(self, value: Any) -> Float | Fault:
        """Read the values of one input as an array of shape (1, width)."""
        if type(value) in BARE:
            return self._table(value, 1)
        if not isinstance(value, Mapping) and column_names(value) is not None:
            return self.rows(value, 1)
        if (by_name := _entries(value)) is not None:
            value = self._ordered(value, by_name)
            if isinstance(value, Fault):
                return value
        return self._table(value, 1)

    def rows(self, value: Any, n: int) -> Float | Fault:
        """Read the values of n inputs as an array of shape (n, width); they need not be finite."""
        by_name = None if type(value) in BARE else _entries(value) or column_names(value)
        if by_name is not None:
            ordered = self._ordered(value, by_name)
            if isinstance(ordered, Fault):
                return ordered
            columns = []
            for name, given in zip(self.names or (), ordered, strict=True):
                column = _array(given)
                if isinstance(column, Fault):
                    return column
                if column.dtype.kind not in "fiub":
                    return Fault("type", f"column {shown(name)}: expected numbers, got {_described(given, column)}")
                if column.shape != (n,):
                    return Fault("shape", f"column {shown(name)}: expected {n} values, got shape {column.shape}")
                columns.append(column)
            value = np.stack(columns, axis=1)
        return self._table(value, n)

    def _table(self, value: Any, n: int) -> Float | Fault:
        array = _array(value)
        if isinstance(array, Fault):
            return array
        if array.dtype.kind not in "fiub":
            return Fault("type", f"expected numbers, got {_described(value, array)}")
        shape = (n, self.width)
        flat = array.ndim <= 1 and 1 in shape and array.size == n * self.width
        if array.shape != shape and not flat:
            expected = f"{self.width} values" if n == 1 else f"a table of shape {shape}"
            return Fault("shape", f"expected {expected}, got shape {array.shape}")
        with np.errstate(over="ignore"):  # what is too large becomes infinite, and that is seen
            return array.reshape(shape).astype(np.float64, copy=False)

    def _ordered(self, value: Any, found: Sequence[str]) -> list[Any] | Fault:
        if self.names is None:
            return Fault("type", "values by name, but the model was fitted without column names")
        if missing := [name for name in self.names if name not in found]:
            return Fault("shape", f"no value for column {shown(missing[0])}")
        return [value[name] for name in self.names]


def _array(value: Any) -> NDArray[Any] | Fault:
    """Return values as an array, with NaN where they are masked."""
    try:
        array = np.asanyarray(_unmasked(value))
    except (ValueError, TypeError) as error:
        return Fault("shape", f"not a table of numbers: {error}")
    # an object's __array__ may give a masked array, too
    return array if type(array) is np.ndarray else np.asarray(_unmasked(array))


def _unmasked(value: Any) -> Any:
    """Put NaN where numbers are masked: NumPy drops the mask of an array in a list, and warns of a masked number."""
    if isinstance(value, np.ma.MaskedArray):
        hidden = value.dtype.kind in "fiub" and np.ma.is_masked(value)
        return np.ma.filled(value.astype(np.float64), np.nan) if hidden else value.data
    if isinstance(value, list | tuple | deque):
        kinds = set(map(type, value))
        if any(issubclass(kind, np.ma.MaskedArray | list | tuple | deque) for kind in kinds):
            return [_unmasked(entry) for entry in value]
    return value


def _entries(value: Any) -> list[str] | None:
    """Return the names in a mapping (or a Series with names), None for anything else."""
    if not (isinstance(value, Mapping) or callable(getattr(value, "keys", None))):
        return None
    keys = list(value.keys())
    return keys if isinstance(value, Mapping) or (keys and all(isinstance(key, str) for key in keys)) else None


def _described(value: Any, array: NDArray[Any]) -> str:
    if value is None:
        return "None"
    if array.dtype == object and array.size and not isinstance(value, str):
        wrong = next((entry for entry in array.ravel().tolist() if not isinstance(entry, Real)), value)
        return f"{type(wrong).__name__} {shown(wrong, 40)}"
    return f"{type(value).__name__} {shown(value, 40)}"
