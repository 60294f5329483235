"""Sums of a statistic over chunks and partitions, and a folder that remembers them."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from budgetline.data.sources import Chunk, Partition, Positions
from budgetline.files import decode, encode, read, write_atomically
from budgetline.statistics.moments import Moments

Statistic = Callable[[Chunk], Any]
"""What a chunk adds to a sum; None for nothing."""


@dataclass(frozen=True)
class Checkpoint:
    """A folder that remembers the moments of partitions, one file each, which holds its name, too."""

    folder: Path

    def load(self, name: str | None) -> Moments | None:
        """Return what is remembered under a name; a file that is damaged counts for nothing, with a warning."""
        if name is None or not (path := self._path(name)).exists():
            return None
        try:
            arrays, fields = decode(read(path), "checkpoint", str(path))
            if fields.get("name") != name or "moments" not in arrays:
                raise ValueError(f"{path} is a checkpoint of something else")
            return Moments.from_bytes(arrays["moments"].tobytes())
        except ValueError as error:
            warnings.warn(f"{error}; the data are read again", UserWarning, stacklevel=2)
            return None

    def save(self, name: str | None, moments: Moments | None) -> None:
        """Remember moments, in full or not at all."""
        if name is not None and moments is not None:
            self.folder.mkdir(parents=True, exist_ok=True)
            arrays = {"moments": np.frombuffer(moments.to_bytes(), dtype=np.uint8)}
            write_atomically(self._path(name), encode("checkpoint", arrays, {"name": name}))

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
