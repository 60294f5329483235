"""profile_costs: time extractors on sample inputs; CostProfile: the times, and a table of them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from inspect import isawaitable, iscoroutine

import numpy as np

from budgetline.inputs import check_integer, check_number
from budgetline.messages import shown
from budgetline.progress import Progress, counted
from budgetline.runtime.clock import Clock
from budgetline.runtime.extractors import Extractor, Extractors, Function, as_extractor, raised
from budgetline.runtime.lanes import AsyncLane
from budgetline.runtime.steps import check_mapping, check_raws
from budgetline.tables import Tabular, html_table, text_table

RESOLUTION = time.get_clock_info("perf_counter").resolution
"""Shorter times count as this many seconds."""


@dataclass(frozen=True, slots=True)
class GroupTimes:
    """Seconds of the calls of one extractor: median, a high quantile and the fastest; inputs per call."""

    group: str
    calls: int
    median: float
    quantile: float
    fastest: float
    batch_size: int = 1


@dataclass(frozen=True)
class CostProfile(Tabular):
    """The result of `profile_costs`, which prints as a table; ``level`` is the level of the quantile in ``seconds``."""

    times: tuple[GroupTimes, ...]
    level: float = 0.95

    @property
    def costs(self) -> dict[str, float]:
        """Median seconds per input of each group, for ``FeatureGroups(groups, costs=profile.costs)``.

        They are never 0, even if the clock measured 0, because a free group would come first in every sequence.
        """
        return {t.group: max(t.median / t.batch_size, RESOLUTION) for t in self.times}

    @property
    def seconds(self) -> dict[str, float]:
        """A high quantile of the seconds per call, for ``AnytimeRunner(..., seconds=profile.seconds)``."""
        return {t.group: t.quantile for t in self.times}

    def to_dict(self) -> dict[str, list[object]]:
        """Return a dict of columns: group, cost, calls, batch_size; and median, quantile and min seconds per call."""
        columns: dict[str, list[object]] = {"group": [t.group for t in self.times]}
        columns["cost"] = [self.costs[t.group] for t in self.times]
        for name in ("calls", "batch_size", "median", "quantile", "fastest"):
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
        """Return header and cells."""
        columns = {"group": [t.group for t in self.times]}
        for name, attribute in (("median", "median"), (f"p{100 * self.level:g}", "quantile"), ("min", "fastest")):
            columns[name] = [readable(getattr(t, attribute)) for t in self.times]
        columns["calls"] = [str(t.calls) for t in self.times]
        if any(t.batch_size > 1 for t in self.times):
            columns["inputs per call"] = [str(t.batch_size) for t in self.times]
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
    quantile: float = 0.95,
    repeats: int = 3,
    warmup: int = 1,
    batch_size: int = 1,
    progress: Progress = None,
    clock: Clock | None = None,
) -> CostProfile:
    """Time extractors on sample inputs. The extractors take turns, so that a temporary slowdown affects all.

    Parameters
    ----------
    extractors : mapping group -> function or Extractor
        As for `AnytimeRunner`. Entries that are None are skipped. Functions are timed in this thread, or on an event
        loop if they are async. The time to pass values to other threads or processes is not included.
    sample_inputs : sequence of objects
        Typical inputs.
    quantile : float
        Quantile of the call times to report as ``seconds``, in (0, 1]. At least this share of calls was no slower.
    repeats, warmup : int
        Every input is timed ``repeats`` times. Before that, each extractor is called ``warmup`` times without timing.
    batch_size : int
        The number of inputs that an extractor with ``batch=True`` receives per call.
    progress : bool or None
        Whether to show a progress bar. If None, it is shown on a terminal.
    clock : Clock, optional
        The clock that is used to measure time. Only tests need to set it.

    Returns
    -------
    CostProfile
        The ``costs`` per input and the ``seconds`` per call. If an extractor fails, a ValueError names it.

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
    check_mapping("extractors", extractors, "function")
    made = {str(name): as_extractor(name, given, "thread") for name, given in extractors.items()}
    subjects = {name: extractor for name, extractor in made.items() if extractor is not None}
    if not subjects:
        raise ValueError("there is no extractor to profile")
    level = check_number("quantile", quantile, gt=0, le=1)
    repeats, warmup = check_integer("repeats", repeats, ge=1), check_integer("warmup", warmup, ge=0)
    size = check_integer("batch_size", batch_size, ge=1)
    if size > len(inputs):
        raise ValueError(f"batch_size={size} needs as many sample inputs, but there are {len(inputs)}")
    now = time.perf_counter if clock is None else clock.now
    taken = _timed(subjects, inputs, size, repeats, warmup, now, progress)
    sizes = {name: size if extractor.batch else 1 for name, extractor in subjects.items()}
    return CostProfile(tuple(_summary(name, taken[name], level, sizes[name]) for name in subjects), level)


def _timed(
    subjects: Mapping[str, Extractor],
    inputs: list[object],
    size: int,
    repeats: int,
    warmup: int,
    now: Callable[[], float],
    progress: Progress,
) -> dict[str, list[float]]:
    """Make the calls, and return the seconds of those after the warm-up: groups take turns, input after input."""
    batches = [inputs[i : i + size] for i in range(0, len(inputs) - size + 1, size)]
    arguments = {name: batches if extractor.batch else inputs for name, extractor in subjects.items()}
    first = [(name, k % len(given)) for k in range(warmup) for name, given in arguments.items()]
    longest = max(map(len, arguments.values()))
    one_round = [(name, i) for i in range(longest) for name, given in arguments.items() if i < len(given)]
    taken: dict[str, list[float]] = {name: [] for name in subjects}
    lane = AsyncLane(Clock())
    try:
        for number, (name, i) in enumerate(counted(first + repeats * one_round, progress, "calls")):
            try:
                elapsed = _seconds(subjects[name], arguments[name][i], now, lane)
            except Exception as error:
                where = f"batch {i}" if subjects[name].batch else f"sample_inputs[{i}]"
                what = f"group {shown(name)}: the extractor raised on {where}: {raised(error).message}"
                raise ValueError(what) from error
            if number >= len(first):
                taken[name].append(elapsed)
    finally:
        lane.close(1.0)
    return taken


def _seconds(extractor: Extractor, argument: object, now: Callable[[], float], lane: AsyncLane) -> float:
    if extractor.mode == "async":
        done = asyncio.run_coroutine_threadsafe(_seconds_async(extractor.function, argument, now), lane.open())
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
        raise TypeError("it returned an awaitable; pass Extractor(function, mode='async')")
    return elapsed


async def _seconds_async(function: Function, argument: object, now: Callable[[], float]) -> float:
    start = now()
    found = function(argument)
    if isawaitable(found):
        await found
    return now() - start


def _summary(group: str, seconds: list[float], level: float, batch_size: int) -> GroupTimes:
    high = float(np.quantile(seconds, level, method="inverted_cdf"))  # a measured time, not one between two
    return GroupTimes(group, len(seconds), float(np.median(seconds)), high, min(seconds), batch_size)
