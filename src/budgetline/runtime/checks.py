"""What a runner is given, checked."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from numbers import Integral
from typing import Any, get_args

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

from budgetline.budgets import number_of
from budgetline.messages import shown, some
from budgetline.model.anytime import AnytimeModel, as_model
from budgetline.runtime.answer import Fault
from budgetline.runtime.calls import Result, checked_row, checked_rows
from budgetline.runtime.extractors import Columns, Extractor, Mode, is_async
from budgetline.runtime.processes import check_sendable
from budgetline.runtime.request import Step


def check_model(model: Any) -> AnytimeModel:
    """Return a fitted estimator of a sequence, or raise an error."""
    if hasattr(model, "steps") or hasattr(model, "best_estimator_"):
        raise TypeError(
            f"a runner needs a fitted estimator of budgetline, got {type(model).__name__}; "
            "fit it on what the extractors return, without a pipeline before it"
        )
    return as_model(model)


def steps_of(
    model: AnytimeModel, extractors: Mapping[str, Any], mode: Any, seconds: Mapping[str, float] | None
) -> tuple[Step, ...]:
    """Return the groups of the sequence with their extractors, checked."""
    if mode not in get_args(Mode):
        raise ValueError(f"mode must be one of {some(get_args(Mode))}, got {shown(mode)}")
    if not isinstance(extractors, Mapping):
        raise TypeError(f"extractors must be a mapping group -> function, got {type(extractors).__name__}")
    all_names = model.groups.names
    for what, given in (("extractors", extractors), ("seconds", seconds or {})):
        if unknown := [name for name in given if name not in all_names]:
            raise ValueError(f"unknown group {shown(unknown[0])} in {what}; the groups are {some(all_names)}")
    layout, order = model.layout, model.sequence.order.tolist()
    names, prices, place = layout.names, model.groups.prices, {g: j for j, g in enumerate(order)}
    steps = []
    for g, name in zip(order, model.sequence.groups, strict=True):
        if name not in extractors:
            raise ValueError(
                f"there is no extractor for group {shown(name)}; give None if it counts only when it is known"
            )
        extractor = as_extractor(name, extractors[name], mode)
        own = layout.columns[g]
        columns = Columns(own, None if names is None else tuple(str(names[d]) for d in own))
        time = _check_seconds(name, (seconds or {}).get(name, 0.0))
        shared = tuple((k, item.cost) for k, item in enumerate(prices.shared) if g in item.members)
        required = tuple(place[h] for h in prices.requires[g]) if prices.requires else ()
        settled = (extractor and extractor.mode) or mode
        steps.append(Step(name, float(prices.own[g]), columns, extractor, settled, time, shared, required))
    return tuple(steps)


def as_extractor(name: str, given: Any, mode: Mode) -> Extractor | None:
    """Return an extractor with its mode settled."""
    if given is None:
        return None
    try:
        extractor = given if isinstance(given, Extractor) else Extractor(given)
    except (TypeError, ValueError) as error:
        raise type(error)(f"group {shown(name)}: {error}") from error
    if extractor.mode is None:
        extractor = replace(extractor, mode="async" if is_async(extractor.function) else mode)
    if extractor.mode == "cooperative" and extractor.timeout is not None:
        raise ValueError(
            f"group {shown(name)}: a timeout needs mode 'thread', 'process' or 'async'; cooperative cannot stop"
        )
    if extractor.mode == "process":
        check_sendable(name, extractor)
    return extractor


def _check_seconds(name: str, seconds: Any) -> float:
    if not 0 <= number_of(seconds) < np.inf:
        raise ValueError(f"seconds of group {shown(name)} must be a finite number ≥ 0, got {shown(seconds)}")
    return float(seconds)


def check_deadline(deadline: Any) -> float | None:
    """Return a deadline in seconds from now; None means there is none."""
    if deadline is None:
        return None
    if np.isnan(number_of(deadline)):
        raise ValueError(f"deadline must be a number of seconds, got {shown(deadline)}")
    return None if float(deadline) == np.inf else float(deadline)


def check_budget(budget: Any) -> float:
    """Return a budget in cost units; infinite if there is none."""
    if budget is None:
        return np.inf
    if not number_of(budget) >= 0:
        raise ValueError(f"budget must be a number ≥ 0 in cost units, got {shown(budget)}")
    return float(budget)


def check_count(name: str, value: Any) -> int:
    """Return an integer ≥ 1."""
    if isinstance(value, bool) or not isinstance(value, Integral) or value < 1:
        raise ValueError(f"{name} must be an integer ≥ 1, got {shown(value)}")
    return int(value)


def check_raws(raws: Any, name: str = "raws") -> Any:
    """Return inputs, at least one, as a list."""
    sequence = hasattr(raws, "__len__") and hasattr(raws, "__getitem__") and not isinstance(raws, str | bytes | Mapping)
    # iterating over a data frame gives its columns, not its rows
    if not sequence or nw.dependencies.is_into_dataframe(raws):
        raise TypeError(f"{name} must be a sequence of inputs (of a table: its rows), got {type(raws).__name__}")
    if len(raws) == 0:
        raise ValueError(f"{name} is empty")
    return list(raws)  # a Series has no entry 0 to speak of


def check_known(known: Any, names: Collection[str]) -> Mapping[str, Any]:
    """Return values of known groups by name."""
    if known is None:
        return {}
    if not isinstance(known, Mapping):
        raise TypeError(f"known must be a mapping group -> values, got {type(known).__name__}")
    if unknown := [name for name in known if name not in names]:
        raise ValueError(f"unknown group {shown(unknown[0])} in known; the groups are {some(names)}")
    return known


def known_values(group: str, columns: Columns, values: Any, n: int | None) -> NDArray[np.float64]:
    """Return the values of a known group for n inputs (None: for the only one), or raise an error."""
    read = checked_row(columns, values) if n is None else checked_rows(columns, values, n)
    if isinstance(read, Result):
        if not read.faults:
            return read.values
        rows = np.array(sorted(read.faults), dtype=np.intp)
        first = read.faults[int(rows[0])]
        read = Fault(first.kind, first.message, rows)
    if isinstance(read, Fault):
        raise ValueError(f"known values of group {shown(group)}: {read}")
    return read
