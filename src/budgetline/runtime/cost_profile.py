"""CostProfile: the record of what extractors cost, and the table that it prints."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass

from budgetline.tables import Tabular, html_table, text_table

RESOLUTION = time.get_clock_info("perf_counter").resolution
"""What is faster than the clock can tell is taken to last this many seconds."""


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
class CostProfile(Tabular):
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
        """Seconds per input when inputs come in batches; the median for functions of one input."""
        return {t.group: max(t.batch_seconds, RESOLUTION) for t in self.times}

    def to_dict(self) -> dict[str, list[object]]:
        """Return plain columns, times in seconds.

        They are group, cost, calls, median, quantile, min, batch_size, batch_seconds, amortisation.
        """
        costs = self.costs
        columns: dict[str, list[object]] = {"group": [t.group for t in self.times]}
        columns["cost"] = [costs[t.group] for t in self.times]
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
        """Return header and cells: the cost only where it is not time, batches only where there are any."""
        batches = any(t.batch_size > 1 for t in self.times)
        header = ["group", *(["cost"] if self.money is not None else [])]
        header += ["median", f"p{100 * self.level:g}", "min", "calls"]
        header += ["batch", "per input", "amortised"] if batches else []
        rows = []
        for t in self.times:
            row = [t.group, *([f"{self.money[t.group]:.6g}"] if self.money is not None else [])]
            row += [readable(t.median), readable(t.quantile), readable(t.fastest), str(t.calls)]
            if batches:
                many = t.batch_size > 1
                row += [str(t.batch_size), readable(t.batch_seconds), f"{t.amortisation:.1f}×"] if many else [""] * 3
            rows.append(row)
        return header, rows


def readable(seconds: float) -> str:
    """Return a time with three digits and its unit."""
    for unit, name in ((1e-9, "ns"), (1e-6, "µs"), (1e-3, "ms"), (1.0, "s")):
        if seconds < 999.5 * unit or name == "s":
            break
    value = seconds / unit
    return f"{value:.{2 if value < 9.995 else 1 if value < 99.95 else 0}f} {name}"
