"""Sums of a statistic over chunks and partitions, and a folder that remembers them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from budgetline.files import write_atomically
from budgetline.statistics.moments import Moments
from budgetline.statistics.sources import Chunk, Partition, Positions

Statistic = Callable[[Chunk], Any]
"""What a chunk adds to a sum; None for nothing."""


@dataclass(frozen=True)
class Checkpoint:
    """A folder that remembers the moments of partitions, one file each."""

    folder: Path

    def load(self, name: str | None) -> Moments | None:
        """Return what is remembered under a name."""
        path = None if name is None else self._path(name)
        return Moments.load(path) if path is not None and path.exists() else None

    def save(self, name: str | None, moments: Moments | None) -> None:
        """Remember moments, in full or not at all."""
        if name is not None and moments is not None:
            self.folder.mkdir(parents=True, exist_ok=True)
            write_atomically(self._path(name), moments.to_bytes())

    def _path(self, name: str) -> Path:
        return self.folder / f"{name}.moments"


def sum_of_partition(
    partition: Partition, statistic: Statistic, columns: Positions | None, memory: Any, name: Any
) -> Any:
    """Return the sum over one partition, from memory if it is there."""
    found = None if memory is None else memory.load(name)
    if found is None:
        found = add_up(statistic(chunk) for chunk in partition.chunks(columns) if chunk.n_rows)
        if memory is not None:
            memory.save(name, found)
    return found


def add_up(parts: Iterable[Any]) -> Any:
    """Return the sum from left to right, without what is None."""
    total = None
    for part in parts:
        total = part if total is None else total if part is None else total + part
    return total


def tree_sum(parts: Iterable[Any]) -> Any:
    """Return the sum as a balanced tree, keeping only one partial sum per level."""
    levels: list[Any] = []  # levels[k] is a sum of 2^k parts, or nothing
    for part in parts:
        carry, k = (part,), 0
        while k < len(levels) and levels[k] is not None:
            carry, levels[k] = (add_up([levels[k][0], carry[0]]),), None
            k += 1
        levels[k : k + 1] = [carry]
    return add_up_from_right([level[0] for level in reversed(levels) if level is not None])


def add_up_from_right(parts: list[Any]) -> Any:
    """Return a + (b + (c + …)): the unfinished branches of a tree, the largest first."""
    total = None
    for part in reversed(parts):
        total = add_up([part, total])
    return total
