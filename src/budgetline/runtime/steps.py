"""Steps: the groups of a sequence with their prices, their extractors, and how their values are read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from budgetline.arrays import Float
from budgetline.budgets import check_number
from budgetline.messages import shown
from budgetline.model.anytime import AnytimeModel
from budgetline.runtime.answer import Fault
from budgetline.runtime.calls import Result, checked
from budgetline.runtime.checks import check_mapping
from budgetline.runtime.extractors import Extractor, Extractors, Function, Mode, check_mode, is_async
from budgetline.runtime.processes import check_sendable
from budgetline.runtime.values import ColumnReader


@dataclass(frozen=True)
class Step:
    """One group of the sequence.

    Attributes
    ----------
    name : str
    cost : float
        Its own cost, without shared ones.
    reader : ColumnReader
        Reads what the extractor returns.
    extractor : Extractor or None
        None: the group is used only if it is known.
    mode : str
        Where the extractor runs.
    seconds : float
        The time that a call takes; 0 if unknown.
    shared : tuple of (int, float)
        The costs that it shares with other groups, numbered; the first group that is started pays.
    requires : tuple of int
        Earlier steps that must have been answered before this one is started.
    """

    name: str
    cost: float
    reader: ColumnReader
    extractor: Extractor | None
    mode: Mode
    seconds: float
    shared: tuple[tuple[int, float], ...] = ()
    requires: tuple[int, ...] = ()

    def known(self, values: object, n: int | None) -> Float:
        """Return values that the user knows, for n inputs (None: for a single one), or raise an error."""
        read = checked(self.reader, values, n)
        if isinstance(read, Result) and read.faults:
            first = read.faults[min(read.faults)]
            read = Fault(first.kind, first.message, np.array(sorted(read.faults), dtype=np.intp))
        if isinstance(read, Fault):
            raise ValueError(f"known values of group {shown(self.name)}: {read}")
        return read.values


def steps_of(
    model: AnytimeModel, extractors: Extractors, mode: Mode, seconds: Mapping[str, float] | None
) -> tuple[Step, ...]:
    """Return the groups of the sequence with their extractors, checked."""
    check_mode(mode)
    layout, prices, order = model.layout, model.groups.prices, model.sequence.order.tolist()
    check_mapping("extractors", extractors, "function", model.groups.names)
    times = seconds or {}
    check_mapping("seconds", times, "seconds", model.groups.names)
    steps = []
    for g, name in zip(order, model.sequence.groups, strict=True):
        if name not in extractors:
            raise ValueError(f"no extractor for group {shown(name)}; give None if it is used only when it is known")
        extractor = as_extractor(name, extractors[name], mode)
        own = layout.columns[g]
        step = Step(
            name,
            float(prices.own[g]),
            ColumnReader(own, None if layout.names is None else tuple(str(layout.names[d]) for d in own)),
            extractor,
            mode if extractor is None or extractor.mode is None else extractor.mode,
            check_number(f"seconds of group {shown(name)}", times.get(name, 0.0), ge=0, finite=True),
            tuple((k, item.cost) for k, item in enumerate(prices.shared) if g in item.members),
            tuple(order.index(h) for h in prices.requires[g]) if prices.requires else (),
        )
        steps.append(step)
    return tuple(steps)


def as_extractor(name: str, given: Extractor | Function | None, mode: Mode) -> Extractor | None:
    """Return the extractor of a group with its mode settled; ``mode`` is that of functions that do not say."""
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
