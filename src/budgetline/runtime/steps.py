"""Steps: the groups of a sequence with their costs and extractors; and checks of the arguments of a runner."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

import narwhals as nw
import numpy as np

from budgetline.arrays import Float
from budgetline.encoding.table import Pair
from budgetline.inputs import check_number
from budgetline.messages import did_you_mean, shown, some
from budgetline.model.anytime import AnytimeModel, Staged, as_staged
from budgetline.model.prefixes import PrefixModels
from budgetline.runtime.extractors import Extractor, Extractors, GroupValues, Mode, as_extractor, check_mode, checked
from budgetline.runtime.prediction import Fault
from budgetline.runtime.values import EncodingReader, NumberReader, ObjectReader, Reader


@dataclass(frozen=True)
class Derived:
    """How to compute a pair of columns: from the values of two ``steps``, in which the columns are at ``places``."""

    pair: Pair
    steps: tuple[int, int]
    places: tuple[slice, slice]

    def values(self, of_step: Callable[[int], Float]) -> Float:
        """Return the products (n, width), given the values (n, …) of steps."""
        return self.pair.encode(*(of_step(j)[:, place] for j, place in zip(self.steps, self.places, strict=True)))


@dataclass(frozen=True)
class GroupStep:
    """One group of the sequence."""

    name: str
    cost: float
    """Without shared costs."""
    reader: Reader
    extractor: Extractor | None
    """None: the group is used only if the caller knows it."""
    mode: Mode
    seconds: float
    """How long a call takes; 0 if unknown."""
    shared: tuple[tuple[int, float], ...]
    """Numbers and amounts of its shared costs; the first group that is started pays."""
    requires: tuple[int, ...]
    """Earlier steps that must have arrived before this one starts."""
    derived: Derived | None = None
    """For a pair of columns: it needs no extractor."""
    follows: bool = False
    """Whether it is useless unless all earlier steps have arrived, because only prefixes have a model."""

    def known(self, values: object, n: int | None) -> Float:
        """Return the values that the caller knows for n inputs (None: for a single one), checked."""
        if self.derived is not None:
            raise ValueError(f"group {shown(self.name)} follows from others: it cannot be known by itself")
        read = checked(self.reader, values, n)
        if isinstance(read, GroupValues) and read.faults:
            first = read.faults[min(read.faults)]
            read = Fault(first.kind, first.message, np.array(sorted(read.faults), dtype=np.intp))
        if isinstance(read, Fault):
            raise ValueError(f"known values of group {shown(self.name)}: {read}")
        return read.values.copy()  # the caller may change them while a stream runs


def steps_of(
    model: Staged, extractors: Extractors, mode: Mode, seconds: Mapping[str, float] | None
) -> tuple[GroupStep, ...]:
    """Return the groups of the sequence with their extractors, checked."""
    check_mode(mode)
    prices, order = model.groups.prices, model.sequence.order.tolist()
    check_mapping("extractors", extractors, "function", model.groups.names)
    times = seconds or {}
    check_mapping("seconds", times, "seconds", model.groups.names)
    steps = []
    for g, name in zip(order, model.sequence.groups, strict=True):
        derived = _derived(model, g)
        if derived is None and name not in extractors:
            raise ValueError(
                f"no extractor for group {shown(name)}; pass None if the group is used only when it is known"
            )
        if derived is not None and name in extractors:
            raise ValueError(f"group {shown(name)} follows from others: it needs no extractor")
        extractor = None if derived is not None else as_extractor(name, extractors[name], mode)
        step = GroupStep(
            name,
            float(prices.own[g]),
            _reader(model, g),
            extractor,
            mode if extractor is None or extractor.mode is None else extractor.mode,
            check_number(f"seconds of group {shown(name)}", times.get(name, 0.0), ge=0, finite=True),
            tuple((k, item.cost) for k, item in enumerate(prices.shared) if g in item.members),
            tuple(order.index(h) for h in prices.requires[g]) if prices.requires else (),
            derived,
            isinstance(model, PrefixModels),
        )
        steps.append(step)
    return tuple(steps)


def _reader(model: Staged, g: int) -> Reader:
    """Return what reads the values of a group."""
    if isinstance(model, PrefixModels):
        columns, by_name = model.layout.columns[g], model.layout.names is not None
        return ObjectReader(columns, model.layout.labels(columns), by_name, model.kinds(g))
    assert isinstance(model, AnytimeModel)
    own, names = model.layout.columns[g], model.layout.names
    if model.encoding is None:
        return NumberReader(own, () if names is None else tuple(str(names[d]) for d in own), names is not None)
    raw = model.encoding.source.position[g].tolist()  # none for a pair, whose values are derived
    called, encoders = model.encoding.names, model.encoding.encoders
    by_name = model.source.names is not None
    return EncodingReader(own, tuple(called[k] for k in raw), by_name, tuple(encoders[k] for k in raw), model.watch())


def _derived(model: Staged, g: int) -> Derived | None:
    """Return how to compute a pair; None if the group has columns of its own."""
    if not isinstance(model, AnytimeModel) or model.encoding is None or model.source.columns[g].size:
        return None
    encoding, order = model.encoding, model.sequence.order.tolist()
    pair = encoding.pairs[g - (len(model.groups) - len(encoding.pairs))]
    steps, places = [], []
    for column in pair.columns:
        h = next(h for h, raw in enumerate(model.source.position) if column in raw)
        raw = model.source.position[h].tolist()
        start = sum(encoding.encoders[k].width for k in raw[: raw.index(column)])
        steps.append(order.index(h))
        places.append(slice(start, start + encoding.encoders[column].width))
    return Derived(pair, (steps[0], steps[1]), (places[0], places[1]))


def check_model(fitted: object) -> Staged:
    """Return the model of a fitted estimator; a pipeline is refused: extractors return the columns after it."""
    if hasattr(fitted, "steps") or hasattr(fitted, "best_estimator_"):
        raise TypeError(
            f"a fitted estimator of budgetline is needed, got {type(fitted).__name__}; "
            "fit it on what the extractors return, without a pipeline before it"
        )
    return as_staged(fitted)


def check_raws(raws: Any, name: str = "raws") -> list[object]:
    """Return inputs, at least one, as a list."""
    sequence = hasattr(raws, "__len__") and hasattr(raws, "__getitem__") and not isinstance(raws, str | bytes | Mapping)
    # iterating over a data frame gives its columns, not its rows
    if not sequence or nw.dependencies.is_into_dataframe(raws):
        raise TypeError(f"{name} must be a sequence of inputs (for a table, its rows), got {type(raws).__name__}")
    if len(raws) == 0:
        raise ValueError(f"{name} is empty")
    return list(raws)  # a Series need not have an entry 0


def check_mapping(name: str, given: object, values: str, groups: Collection[str] | None = None) -> None:
    """Raise an error unless this maps groups to ``values``; with ``groups``, its keys must be among them."""
    if not isinstance(given, Mapping):
        raise TypeError(f"{name} must be a mapping group -> {values}, got {type(given).__name__}")
    if groups is not None and (unknown := [key for key in given if key not in groups]):
        what = f"unknown group {shown(unknown[0])}{did_you_mean(unknown[0], groups)} in {name}"
        raise ValueError(f"{what}; the groups are {some(groups)}")
