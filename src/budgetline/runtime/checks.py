"""What a runner is given, checked."""

from __future__ import annotations

import operator
from collections.abc import Collection, Mapping
from math import isinf, isnan
from numbers import Integral
from typing import Any

import narwhals as nw

from budgetline.budgets import number_of
from budgetline.messages import shown, some
from budgetline.model.anytime import AnytimeModel, as_model

BOUNDS = {"ge": ("≥", operator.ge), "gt": (">", operator.gt), "le": ("≤", operator.le), "lt": ("<", operator.lt)}


def check_model(fitted: object) -> AnytimeModel:
    """Return the model of a fitted estimator; a pipeline is refused, because extractors return what comes after it."""
    if hasattr(fitted, "steps") or hasattr(fitted, "best_estimator_"):
        raise TypeError(
            f"a fitted estimator of budgetline is needed, got {type(fitted).__name__}; "
            "fit it on what the extractors return, without a pipeline before it"
        )
    return as_model(fitted)


def check_number(name: str, value: object, *, finite: bool = False, **bounds: float) -> float:
    """Return a number within bounds (ge, gt, le, lt), or raise an error that names the parameter."""
    number = number_of(value)
    if isnan(number) or (finite and isinf(number)) or not _within(number, bounds):
        raise ValueError(f"{name} must be a {'finite ' if finite else ''}number{_words(bounds)}, got {shown(value)}")
    return number


def check_integer(name: str, value: object, **bounds: float) -> int:
    """Return an integer within bounds, or raise an error that names the parameter."""
    if isinstance(value, bool) or not isinstance(value, Integral) or not _within(int(value), bounds):
        raise ValueError(f"{name} must be an integer{_words(bounds)}, got {shown(value)}")
    return int(value)


def _within(number: float, bounds: Mapping[str, float]) -> bool:
    return all(BOUNDS[key][1](number, bound) for key, bound in bounds.items())


def _words(bounds: Mapping[str, float]) -> str:
    return " and".join(f" {BOUNDS[key][0]} {bound}" for key, bound in bounds.items())


def check_raws(raws: Any, name: str = "raws") -> list[object]:
    """Return inputs, at least one, as a list."""
    sequence = hasattr(raws, "__len__") and hasattr(raws, "__getitem__") and not isinstance(raws, str | bytes | Mapping)
    # iterating over a data frame gives its columns, not its rows
    if not sequence or nw.dependencies.is_into_dataframe(raws):
        raise TypeError(f"{name} must be a sequence of inputs (of a table: its rows), got {type(raws).__name__}")
    if len(raws) == 0:
        raise ValueError(f"{name} is empty")
    return list(raws)  # a Series need not have an entry 0


def check_mapping(name: str, given: object, values: str, groups: Collection[str] | None = None) -> None:
    """Raise an error unless this maps groups to ``values``; with ``groups``, its keys must be among them."""
    if not isinstance(given, Mapping):
        raise TypeError(f"{name} must be a mapping group -> {values}, got {type(given).__name__}")
    if groups is not None and (unknown := [key for key in given if key not in groups]):
        raise ValueError(f"unknown group {shown(unknown[0])} in {name}; the groups are {some(groups)}")
