"""What a runner is given, checked."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from math import inf
from numbers import Integral
from typing import Any

import narwhals as nw

from budgetline.budgets import number_of
from budgetline.messages import shown, some
from budgetline.model.anytime import AnytimeModel, as_model


def check_model(fitted: Any) -> AnytimeModel:
    """Return the model of a fitted estimator; a pipeline is refused, because extractors return what comes after it."""
    if hasattr(fitted, "steps") or hasattr(fitted, "best_estimator_"):
        raise TypeError(
            f"a fitted estimator of budgetline is needed, got {type(fitted).__name__}; "
            "fit it on what the extractors return, without a pipeline before it"
        )
    return as_model(fitted)


def check_number(
    name: str, value: object, *, ge: float = -inf, gt: float = -inf, le: float = inf, lt: float = inf
) -> float:
    """Return a number within bounds (≥ ge, > gt, ≤ le, < lt; infinite: no bound), or raise an error that names it."""
    number = number_of(value)
    above, below = number >= ge and (number > gt or gt == -inf), number <= le and (number < lt or lt == inf)
    if not (above and below):
        bounds = {"≥": ge, ">": gt, "≤": le, "<": lt}
        words = " and".join(f" {sign} {bound:g}" for sign, bound in bounds.items() if abs(bound) < inf)
        raise ValueError(f"{name} must be a number{words}, got {shown(value)}")
    return number


def check_integer(name: str, value: object, *, ge: int) -> int:
    """Return an integer that is large enough, or raise an error that names it."""
    if isinstance(value, bool) or not isinstance(value, Integral) or value < ge:
        raise ValueError(f"{name} must be an integer ≥ {ge}, got {shown(value)}")
    return int(value)


def check_raws(raws: Any, name: str = "raws") -> list[Any]:
    """Return inputs, at least one, as a list."""
    sequence = hasattr(raws, "__len__") and hasattr(raws, "__getitem__") and not isinstance(raws, str | bytes | Mapping)
    # iterating over a data frame gives its columns, not its rows
    if not sequence or nw.dependencies.is_into_dataframe(raws):
        raise TypeError(f"{name} must be a sequence of inputs (of a table: its rows), got {type(raws).__name__}")
    if len(raws) == 0:
        raise ValueError(f"{name} is empty")
    return list(raws)  # a Series need not have an entry 0


def check_mapping(name: str, given: Any, values: str, groups: Collection[str] | None = None) -> Mapping[str, Any]:
    """Return a mapping from groups to ``values``; with ``groups``, its keys must be among them."""
    if not isinstance(given, Mapping):
        raise TypeError(f"{name} must be a mapping group -> {values}, got {type(given).__name__}")
    if groups is not None and (unknown := [key for key in given if key not in groups]):
        raise ValueError(f"unknown group {shown(unknown[0])} in {name}; the groups are {some(groups)}")
    return given
