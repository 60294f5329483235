"""What a target asks for: numbers written as text become numbers, and values decide on regression or classification."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np

from budgetline.arrays import Array
from budgetline.encoding.written import Form, numbers_in
from budgetline.inputs import MOST_CLASSES
from budgetline.messages import shown, some


def is_text(y: Array) -> bool:
    """Return whether all values of a target are text."""
    return y.dtype.kind in "OUS" and all(isinstance(label, str) for label in y.tolist())


def as_numbers(y: Array, target: object, row_name: Callable[[int], str] | None = None) -> tuple[Array, Form | None]:
    """Return a target (n,) whose text is written numbers, such as "8.90%", as these numbers, and their form.

    Other targets are returned as they are, with the form None. A text without a number is an error that names its row,
    as ``row_name`` does.
    """
    found = numbers_in(y.tolist()) if is_text(y) else None
    if found is None:
        return y, None
    numbers, form = found
    if np.isnan(numbers).any():
        row = int(np.argmax(np.isnan(numbers)))
        where = f"row {row}" if row_name is None else row_name(row)
        what = f"the target {shown(target)} is {form.name} in most rows, and {shown(y[row])} in {where}"
        raise ValueError(f"{what}: correct it, or leave it empty")
    return numbers, form


def task_of(parts: Iterable[Array], what: str) -> tuple[str, str]:
    """Return the task that a target asks for, and which values say so, in words.

    Text, flags and two whole numbers are classes; other numbers are numbers. No more parts are read than it takes to
    decide. ``what`` begins errors.
    """
    seen: set[float] = set()
    for y in parts:
        check_values(y, what)
        text = is_text(y)
        seen |= set() if text else set(np.unique(y)[:3].tolist())
        if len(seen) > 2 or fractions_in(y).size:
            return "regression", "numbers"
        if text or y.dtype.kind == "b":
            break
    return "classification", f"only {' and '.join(f'{label:g}' for label in sorted(seen))}" if seen else "text"


def check_values(y: Array, what: str) -> None:
    """Raise an error, which begins with ``what``, if the values of a target are neither numbers nor labels."""
    if y.dtype.kind not in "biuf" and not is_text(y):
        kinds = " and ".join(sorted({type(value).__name__ for value in y[:1000].tolist()}))
        raise ValueError(f"{what} {'dates or times' if y.dtype.kind in 'mM' else kinds}, neither numbers nor labels")


def check_task(y: Array, task: str, what: str) -> None:
    """Raise an error, which begins with ``what``, if values do not allow a task."""
    check_values(y, what)
    if task == "regression" and is_text(y):
        raise ValueError(f"{what} text, such as {shown(y[0])}, and a regression needs numbers")
    if task == "classification" and (broken := fractions_in(y)).size:
        raise ValueError(f"{what} numbers such as {broken[0]:g}, not labels of classes")


def fractions_in(y: Array) -> Array:
    """Return the values of a target that are numbers, but not whole."""
    return y[y != np.floor(y)] if y.dtype.kind == "f" else y[:0]


def too_many_classes(target: object, examples: Iterable[object]) -> str:
    """Return what to say of a target with more classes than people mean."""
    what = f"the target{'' if target is None else f' {shown(target)}'} holds more than {MOST_CLASSES} classes"
    return f"{what}, such as {some(examples)}: if these are numbers, write them like 1234.5"
