"""profile_costs: time extractors on sample inputs; CostProfile: the times, and a table of them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from inspect import isawaitable, iscoroutine

import numpy as np

from budgetline.groups.parsing import parse_costs
from budgetline.inputs import check_integer, check_number
from budgetline.messages import shown
from budgetline.progress import Progress, counted
from budgetline.runtime.clock import Clock
from budgetline.runtime.extractors import Extractor, Extractors, Function, as_extractor, naming
from budgetline.runtime.lanes import AsyncLane
from budgetline.runtime.steps import check_mapping, check_raws
from budgetline.tables import Tabular, html_table, text_table

RESOLUTION = time.get_clock_info("perf_counter").resolution
"""Shorter times count as this many seconds."""
Planned = tuple[str, int | None, bool]
"""A call: the group, the number of the input (None: a batch), and whether its time counts."""


@dataclass(frozen=True, slots=True)
class GroupTimes:
    """Seconds of the calls of one extractor with one input: median, a high quantile and the fastest.

    ``batch_seconds`` is the median time per input in batches of ``batch_size``; 1 for functions of one input.
    """

    group: str
    calls: int
    median: float
    quantile: float
    fastest: float
    batch_size: int
    batch_seconds: float

    @property
    def amortisation(self) -> float:
        """How many times cheaper an input is in a batch than alone."""
        return max(self.median, RESOLUTION) / max(self.batch_seconds, RESOLUTION)


@dataclass(frozen=True)
class CostProfile(Tabular):
    """What :func:`profile_costs` measured; prints as a table.

    ``level`` is that of the quantile behind ``seconds``; ``money`` are the costs that the user passed, if any.
    """

    times: tuple[GroupTimes, ...]
    level: float = 0.95
    money: Mapping[str, float] | None = None

    @property
    def costs(self) -> dict[str, float]:
        """Cost of each group, for ``FeatureGroups(groups, costs=profile.costs)``: money if passed, else median seconds.

        Median seconds are never 0, even if the clock saw none: a free group would come first in every sequence.
        """
        if self.money is not None:
            return dict(self.money)
        return {t.group: max(t.median, RESOLUTION) for t in self.times}

    @property
    def seconds(self) -> dict[str, float]:
        """High quantile of the seconds of each group, for ``AnytimeRunner(..., seconds=profile.seconds)``."""
        return {t.group: t.quantile for t in self.times}

    @property
    def batch_costs(self) -> dict[str, float]:
        """Seconds per input when inputs come in batches; the median for functions of one input."""
        return {t.group: max(t.batch_seconds, RESOLUTION) for t in self.times}

    def to_dict(self) -> dict[str, list[object]]:
        """Return plain columns, times in seconds.

        They are group, cost, calls, median, quantile, min, batch_size, batch_seconds, amortisation.
        """
        columns: dict[str, list[object]] = {"group": [t.group for t in self.times]}
        columns["cost"] = [self.costs[t.group] for t in self.times]
        for name in ("calls", "median", "quantile", "fastest", "batch_size", "batch_seconds", "amortisation"):
            columns["min" if name == "fastest" else name] = [getattr(t, name) for t in self.times]
        return columns

    def __len__(self) -> int:
        return len(self.times)

    def __str__(self) -> str:
        return text_table(*self._table(), left={0})

    def __repr__(self) -> str:
        return f"CostProfile({len(self)} groups, {sum(t.calls for t in self.times)} calls)\n{self}"

    def _repr_html_(self) -> str:
        return html_table(*self._table())

    def _table(self) -> tuple[list[str], list[list[str]]]:
        """Return header and cells: costs only if they are not times, batches only if an extractor accepts them."""
        columns = {"group": [t.group for t in self.times]}
        if self.money is not None:
            columns["cost"] = [f"{self.money[t.group]:.6g}" for t in self.times]
        for name, attribute in (("median", "median"), (f"p{100 * self.level:g}", "quantile"), ("min", "fastest")):
            columns[name] = [readable(getattr(t, attribute)) for t in self.times]
        columns["calls"] = [str(t.calls) for t in self.times]
        many = [t.batch_size > 1 for t in self.times]
        if any(many):
            pairs = list(zip(self.times, many, strict=True))
            columns["batch"] = [str(t.batch_size) if batch else "" for t, batch in pairs]
            columns["per input"] = [readable(t.batch_seconds) if batch else "" for t, batch in pairs]
            columns["amortised"] = [f"{t.amortisation:.1f}×" if batch else "" for t, batch in pairs]
        return list(columns), [list(row) for row in zip(*columns.values(), strict=True)]


def readable(seconds: float) -> str:
    """Return a time with three digits and its unit."""
    for unit, name in ((1e-9, "ns"), (1e-6, "µs"), (1e-3, "ms"), (1.0, "s")):
        if seconds < 999.5 * unit or name == "s":
            break
    value = seconds / unit
    return f"{value:.{2 if value < 9.995 else 1 if value < 99.95 else 0}f} {name}"


def profile_costs(
    extractors: Extractors,
    sample_inputs: Sequence[object],
    *,
    costs: Mapping[str, float] | None = None,
    quantile: float = 0.95,
    repeats: int = 3,
    warmup: int = 1,
    batch_size: int | None = None,
    progress: Progress = None,
    clock: Clock | None = None,
) -> CostProfile:
    """Time every extractor on sample inputs; groups take turns, so that a slow moment does not hit one alone.

    Parameters
    ----------
    extractors : mapping group -> function or Extractor
        As for :class:`AnytimeRunner`; None is left out. Only the functions are timed, in this thread (async ones on an
        event loop), not the passing of values to another thread or process.
    sample_inputs : sequence of objects
        Typical inputs.
    costs : mapping group -> cost, optional
        Money, or any other cost of the groups; times then serve deadlines alone.
    quantile : float
        For ``seconds``, in (0, 1]: at least this share of the calls took no longer.
    repeats : int
        How often every input is timed.
    warmup : int
        Calls of each extractor before the first that counts.
    batch_size : int, optional
        Extractors with ``batch=True`` are timed with one input at a time and with the first ``batch_size`` inputs at
        once; default all.
    progress : bool or None
        Whether to show a progress bar; None: on a terminal, where tqdm is installed.
    clock : Clock, optional
        Tells the time; for tests.

    Returns
    -------
    CostProfile
        With ``costs``, ``seconds`` and ``batch_costs``, all group -> number. An extractor that raises is an error.

    Examples
    --------
    >>> from budgetline import FeatureGroups, profile_costs
    >>> extractors = {"length": len, "letters": lambda text: [text.count(letter) for letter in "etaoin"]}
    >>> profile = profile_costs(extractors, ["to be", "or not", "to be"], repeats=5)
    >>> groups = FeatureGroups({"length": [0], "letters": [1, 2, 3, 4, 5, 6]}, costs=profile.costs)
    >>> groups.names, [t.calls for t in profile.times]
    (('length', 'letters'), [15, 15])
    """
    inputs = check_raws(sample_inputs, "sample_inputs")
    subjects = _subjects(extractors)
    money = None if costs is None else _money(costs, extractors, subjects)
    level = check_number("quantile", quantile, gt=0, le=1)
    size = len(inputs) if batch_size is None else _check_batch_size(batch_size, len(inputs), subjects)
    repeats, warmup = check_integer("repeats", repeats, ge=1), check_integer("warmup", warmup, ge=0)
    calls = _schedule(subjects, len(inputs), repeats, warmup)
    taken = _timed(calls, subjects, inputs, size, time.perf_counter if clock is None else clock.now, progress)
    return CostProfile(tuple(_summary(name, *taken[name], size, level) for name in subjects), level, money)


def _subjects(extractors: Extractors) -> dict[str, Extractor]:
    check_mapping("extractors", extractors, "function")
    found = {str(name): as_extractor(name, given, "thread") for name, given in extractors.items()}
    subjects = {name: extractor for name, extractor in found.items() if extractor is not None}
    if not subjects:
        raise ValueError("there is no extractor to profile")
    return subjects


def _money(costs: Mapping[str, float], groups: Collection[str], subjects: Collection[str]) -> dict[str, float]:
    check_mapping("costs", costs, "cost")
    # a group without an extractor may have a cost, which FeatureGroups needs
    names = tuple(name for name in map(str, groups) if name in subjects or name in costs)
    return dict(zip(names, parse_costs(costs, names).tolist(), strict=True))


def _check_batch_size(size: int, n: int, subjects: Mapping[str, Extractor]) -> int:
    if not any(extractor.batch for extractor in subjects.values()):
        raise ValueError(f"batch_size={shown(size)}, but no extractor has batch=True")
    if check_integer("batch_size", size, ge=1) > n:
        raise ValueError(f"batch_size={size} needs as many sample inputs, there are {n}")
    return int(size)


def _schedule(subjects: Mapping[str, Extractor], n: int, repeats: int, warmup: int) -> list[Planned]:
    """Return all calls in order: groups take turns, input after input, and batches follow in every round."""
    batches = [name for name, extractor in subjects.items() if extractor.batch]
    calls: list[Planned] = []
    for k in range(warmup):
        calls += [*((name, k % n, False) for name in subjects), *((name, None, False) for name in batches)]
    one_round: list[Planned] = [(name, i, True) for i in range(n) for name in subjects]
    return calls + repeats * [*one_round, *((name, None, True) for name in batches)]


def _timed(
    calls: list[Planned],
    subjects: Mapping[str, Extractor],
    inputs: list[object],
    size: int,
    now: Callable[[], float],
    progress: Progress,
) -> dict[str, tuple[list[float], list[float]]]:
    """Make the calls; return for each group the seconds of calls with one input, and of batches."""
    taken: dict[str, tuple[list[float], list[float]]] = {name: ([], []) for name in subjects}
    lane = AsyncLane(Clock())
    try:
        for name, i, counts in counted(calls, progress, "calls"):
            raws = inputs[:size] if i is None else [inputs[i]]
            where = f"a batch of {size} inputs" if i is None else f"sample_inputs[{i}]"
            with naming(f"group {shown(name)}: the extractor raised on {where}"):
                elapsed = _seconds(subjects[name], raws if subjects[name].batch else raws[0], now, lane)
            if counts:
                taken[name][i is None].append(elapsed)
    finally:
        lane.close(1.0)
    return taken


def _seconds(extractor: Extractor, argument: object, now: Callable[[], float], lane: AsyncLane) -> float:
    if extractor.mode == "async":
        loop = lane.open()
        assert loop is not None
        done = asyncio.run_coroutine_threadsafe(_seconds_async(extractor.function, argument, now), loop)
        try:
            return done.result()
        finally:
            done.cancel()  # has an effect only if we were interrupted
    start = now()
    found = extractor.function(argument)
    elapsed = now() - start
    if isawaitable(found):  # nothing was computed
        if iscoroutine(found):
            found.close()
        raise TypeError("it returned something to await; pass Extractor(function, mode='async')")
    return elapsed


async def _seconds_async(function: Function, argument: object, now: Callable[[], float]) -> float:
    start = now()
    found = function(argument)
    if isawaitable(found):
        await found
    return now() - start


def _summary(group: str, alone: list[float], batches: list[float], size: int, level: float) -> GroupTimes:
    median = float(np.median(alone))
    # a measured time, not one between two
    high = float(np.quantile(alone, level, method="inverted_cdf"))
    per_input = float(np.median(batches)) / size if batches else median
    return GroupTimes(group, len(alone), median, high, min(alone), size if batches else 1, per_input)
