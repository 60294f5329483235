"""What a runner is given, checked."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import narwhals as nw

from budgetline.messages import shown, some
from budgetline.model.anytime import AnytimeModel, as_model


def check_model(fitted: object) -> AnytimeModel:
    """Return the model of a fitted estimator; a pipeline is refused, because extractors return what comes after it."""
    if hasattr(fitted, "steps") or hasattr(fitted, "best_estimator_"):
        raise TypeError(
            f"a fitted estimator of budgetline is needed, got {type(fitted).__name__}; "
            "fit it on what the extractors return, without a pipeline before it"
        )
    return as_model(fitted)


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
