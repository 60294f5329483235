"""profile_costs: what extractors cost, measured; and CostProfile, the record of it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from inspect import isawaitable, iscoroutine
from numbers import Integral
from types import TracebackType
from typing import Any

import numpy as np

from budgetline.budgets import number_of
from budgetline.groups.parsing import parse_costs
from budgetline.messages import shown
from budgetline.progress import Progress, counted
from budgetline.runtime.calls import raised
from budgetline.runtime.checks import as_extractor, check_count, check_raws
from budgetline.runtime.clock import Clock
from budgetline.runtime.extractors import Extractor
from budgetline.runtime.lanes import AsyncLane
from budgetline.tables import Backend, frame_of, html_table, text_table

RESOLUTION = time.get_clock_info("perf_counter").resolution
"""What is faster than the clock can tell is taken to last so many seconds."""


@dataclass(frozen=True, slots=True)
class GroupTimes:
    """Seconds of the calls of one extractor.

    Attributes
    ----------
    group : str
    calls : int
        Timed calls with one input.
    median, quantile, fastest : float
        Of these calls.
    batch_size : int
        Inputs of one batch; 1 for functions of one input.
    batch_seconds : float
        Seconds per input in a batch, the median over batches; ``median`` for functions of one input.
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
class CostProfile:
    """What :func:`profile_costs` measured; prints as a table.

    Attributes
    ----------
    times : tuple of GroupTimes
    level : float
        Which quantile ``seconds`` are.
    money : mapping group -> cost, optional
        Costs as the user gave them.
    """

    times: tuple[GroupTimes, ...]
    level: float = 0.95
    money: Mapping[str, float] | None = None

    @property
    def costs(self) -> dict[str, float]:
        """Cost of each group, for ``FeatureGroups(groups, costs=profile.costs)``: money if given, or median seconds.

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
        """Seconds per input where many come at once: per input of a batch, the median for functions of one input."""
        return {t.group: max(t.batch_seconds, RESOLUTION) for t in self.times}

    def to_dict(self) -> dict[str, list[Any]]:
        """Return plain columns: group, cost, calls, median, quantile, min, batch_size, batch_seconds, amortisation."""
        costs = self.costs
        return {
            "group": [t.group for t in self.times],
            "cost": [costs[t.group] for t in self.times],
            "calls": [t.calls for t in self.times],
            "median": [t.median for t in self.times],
            "quantile": [t.quantile for t in self.times],
            "min": [t.fastest for t in self.times],
            "batch_size": [t.batch_size for t in self.times],
            "batch_seconds": [t.batch_seconds for t in self.times],
            "amortisation": [t.amortisation for t in self.times],
        }

    def to_frame(self, backend: Backend = "pandas") -> Any:
        """Return the table as a data frame, times in seconds.

        Parameters
        ----------
        backend : {"pandas", "polars", "pyarrow"}
        """
        return frame_of(self.to_dict(), backend)

    def __len__(self) -> int:
        return len(self.times)

    def __str__(self) -> str:
        return text_table(*self._table(), left={0})

    def __repr__(self) -> str:
        return f"CostProfile({len(self)} groups, {sum(t.calls for t in self.times)} calls)\n{self}"

    def _repr_html_(self) -> str:
        return html_table(*self._table())

    def _table(self) -> tuple[list[str], list[list[str]]]:
        """Return header and cells: the cost only where it is not time, batches only where there are any."""
        batches = any(t.batch_size > 1 for t in self.times)
        header = ["group", *(["cost"] if self.money is not None else [])]
        header += ["median", f"p{100 * self.level:g}", "min", "calls"]
        header += ["batch", "per input", "amortised"] if batches else []
        rows = []
        for t in self.times:
            row = [t.group, *([f"{self.money[t.group]:.6g}"] if self.money is not None else [])]
            row += [_readable(t.median), _readable(t.quantile), _readable(t.fastest), str(t.calls)]
            if batches:
                many = t.batch_size > 1
                row += [str(t.batch_size), _readable(t.batch_seconds), f"{t.amortisation:.1f}×"] if many else [""] * 3
            rows.append(row)
        return header, rows


def profile_costs(
    extractors: Mapping[str, Any],
    sample_inputs: Sequence[Any],
    *,
    costs: Any = None,
    quantile: float = 0.95,
    repeats: int = 3,
    warmup: int = 1,
    batch_size: int | None = None,
    progress: Progress = None,
    clock: Clock | None = None,
) -> CostProfile:
    """Time every extractor on sample inputs; groups take turns, so that a slow moment does not fall on one alone.

    Parameters
    ----------
    extractors : mapping group -> function or Extractor
        As for :class:`AnytimeRunner`; None is left out. Functions are timed by themselves: here (async ones on an event
        loop of their own), without the way to another thread or process, retries and timeouts.
    sample_inputs : sequence of objects
        Inputs like those to come.
    costs : mapping group -> cost, optional
        Money, or whatever else a group costs; times are then for deadlines alone.
    quantile : float
        For ``seconds``, in (0, 1]: at least this share of the calls took no longer.
    repeats : int
        How often every input is timed.
    warmup : int
        Calls of each extractor before, which do not count.
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
    check_raws(sample_inputs, "sample_inputs")
    subjects = _subjects(extractors)
    money = None if costs is None else _money(costs, extractors, subjects)
    level, warmup = _check_level(quantile), _check_warmup(warmup)
    size = _check_batch_size(batch_size, len(sample_inputs), subjects)
    schedule = _schedule(subjects, len(sample_inputs), check_count("repeats", repeats), warmup)
    now = time.perf_counter if clock is None else clock.now
    taken = _timed(schedule, subjects, sample_inputs, size, now, progress)
    return CostProfile(tuple(_summary(name, *taken[name], size, level) for name in subjects), level, money)


# -- what is asked for ---------------------------------------------------------------------------------------


def _subjects(extractors: Any) -> dict[str, Extractor]:
    if not isinstance(extractors, Mapping):
        raise TypeError(f"extractors must be a mapping group -> function, got {type(extractors).__name__}")
    found = {str(name): as_extractor(name, given, "thread") for name, given in extractors.items()}
    subjects = {name: extractor for name, extractor in found.items() if extractor is not None}
    if not subjects:
        raise ValueError("there is no extractor to profile")
    return subjects


def _money(costs: Any, extractors: Mapping[str, Any], subjects: Mapping[str, Extractor]) -> dict[str, float]:
    if not isinstance(costs, Mapping):
        raise TypeError(f"costs must be a mapping group -> cost, got {type(costs).__name__}")
    # a group that cannot be computed may have a cost, so that FeatureGroups finds it here
    names = tuple(name for name in map(str, extractors) if name in subjects or name in costs)
    return dict(zip(names, parse_costs(costs, names).tolist(), strict=True))


def _check_level(quantile: Any) -> float:
    if not 0 < number_of(quantile) <= 1:
        raise ValueError(f"quantile must be a number in (0, 1], got {shown(quantile)}")
    return float(quantile)


def _check_warmup(warmup: Any) -> int:
    if isinstance(warmup, bool) or not isinstance(warmup, Integral) or warmup < 0:
        raise ValueError(f"warmup must be an integer ≥ 0, got {shown(warmup)}")
    return int(warmup)


def _check_batch_size(size: Any, n: int, subjects: Mapping[str, Extractor]) -> int:
    if size is None:
        return n
    if not any(extractor.batch for extractor in subjects.values()):
        raise ValueError(f"batch_size={shown(size)}, but no extractor has batch=True")
    if check_count("batch_size", size) > n:
        raise ValueError(f"batch_size={size} needs as many sample inputs, there are {n}")
    return int(size)


# -- calls ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Call:
    """One call to make: of which group, on which input (None: on a batch), and whether its time counts."""

    group: str
    place: int | None
    counts: bool


def _schedule(subjects: Mapping[str, Extractor], n: int, repeats: int, warmup: int) -> list[_Call]:
    """Return all calls in order: groups take turns, input after input, and batches follow in every round."""
    batches = [name for name, extractor in subjects.items() if extractor.batch]
    calls = []
    for k in range(warmup):
        calls += [_Call(name, k % n, False) for name in subjects]
        calls += [_Call(name, None, False) for name in batches]
    for _ in range(repeats):
        calls += [_Call(name, i, True) for i in range(n) for name in subjects]
        calls += [_Call(name, None, True) for name in batches]
    return calls


def _timed(
    schedule: list[_Call],
    subjects: Mapping[str, Extractor],
    inputs: Sequence[Any],
    size: int,
    now: Callable[[], float],
    progress: Progress,
) -> dict[str, tuple[list[float], list[float]]]:
    """Make the calls; return for each group the seconds of calls with one input, and of batches."""
    taken: dict[str, tuple[list[float], list[float]]] = {name: ([], []) for name in subjects}
    batch = [inputs[i] for i in range(size)]
    lane = AsyncLane(Clock())
    try:
        for call in counted(schedule, progress, "calls"):
            extractor = subjects[call.group]
            raw = batch if call.place is None else inputs[call.place]
            argument = [raw] if extractor.batch and call.place is not None else raw
            with _Naming(call, size):
                elapsed = _seconds(extractor, argument, now, lane)
            if call.counts:
                taken[call.group][call.place is None].append(elapsed)
    finally:
        lane.close(1.0)
    return taken


class _Naming:
    """What is raised inside is raised again with the group and the input named."""

    def __init__(self, call: _Call, size: int) -> None:
        self._call, self._size = call, size

    def __enter__(self) -> None:
        return

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if isinstance(error, Exception):
            place = self._call.place
            where = f"a batch of {self._size} inputs" if place is None else f"sample_inputs[{place}]"
            raise ValueError(
                f"group {shown(self._call.group)}: the extractor raised on {where}: {raised(error).message}"
            ) from error


def _seconds(extractor: Extractor, argument: Any, now: Callable[[], float], lane: AsyncLane) -> float:
    if extractor.mode != "async":
        start = now()
        found = extractor.function(argument)
        elapsed = now() - start
        if isawaitable(found):  # nothing was computed, so there is nothing to time
            if iscoroutine(found):
                found.close()
            raise TypeError("it returned something to await; give Extractor(function, mode='async')")
        return elapsed
    loop = lane.open()
    assert loop is not None
    done: Future[float] = asyncio.run_coroutine_threadsafe(_seconds_async(extractor.function, argument, now), loop)
    try:
        return done.result()
    finally:
        done.cancel()  # only if we were interrupted while we waited


async def _seconds_async(function: Callable[[Any], Any], argument: Any, now: Callable[[], float]) -> float:
    start = now()
    found = function(argument)
    if isawaitable(found):
        await found
    return now() - start


# -- summary -------------------------------------------------------------------------------------------------


def _summary(group: str, alone: list[float], batches: list[float], size: int, quantile: float) -> GroupTimes:
    median = float(np.median(alone))
    # a time that was seen, not one between two
    high = float(np.quantile(alone, quantile, method="inverted_cdf"))
    per_input = float(np.median(batches)) / size if batches else median
    return GroupTimes(group, len(alone), median, high, min(alone), size if batches else 1, per_input)


def _readable(seconds: float) -> str:
    """Return a time with three digits and its unit."""
    for unit, name in ((1e-9, "ns"), (1e-6, "µs"), (1e-3, "ms"), (1.0, "s")):
        if seconds < 999.5 * unit or name == "s":
            break
    value = seconds / unit
    return f"{value:.{2 if value < 9.995 else 1 if value < 99.95 else 0}f} {name}"
