"""Dask data frames as sources; each partition is read on the worker that has it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import narwhals as nw

from budgetline.arrays import Positions
from budgetline.data.sources import Chunk, Partition
from budgetline.data.tabular import Roles, TablePartition

Collection: TypeAlias = Any
"""A dask data frame, or a part of it; dask is imported only if it is used."""
Client: TypeAlias = Any
"""A dask.distributed.Client."""


def is_dask(data: object) -> bool:
    """Tell whether something is a dask collection, without importing dask."""
    return hasattr(data, "__dask_graph__") and hasattr(data, "to_delayed")


def refuse_dask(X: object) -> None:
    """Raise an error if X is a dask collection: rows of several collections may be split in different ways."""
    if is_dask(X):
        raise TypeError("X is a dask collection: make a dask data frame of X and y, open_data(frame, target='…')")


@dataclass(frozen=True)
class DaskPartition(Partition):
    """A partition of a dask data frame whose columns have ``roles``; its data are loaded where its task runs."""

    data: Collection
    number: int
    roles: Roles

    def chunks(self, columns: Positions | None) -> Iterator[Chunk]:
        frame, where = nw.from_native(self.data, eager_only=True), f"partition {self.number}"
        yield from (replace(chunk, where=where) for chunk in TablePartition(self.roles, frame).chunks(columns))


@dataclass(frozen=True)
class DaskFrame:
    """The partitions of a dask data frame; a pass reads only the columns that it needs."""

    frame: Collection
    roles: Roles

    def reading(self, columns: Positions | None) -> list[DaskPartition]:
        """Return partitions that hold these features, the targets and the weights."""
        parts = self.frame[self.roles.wanted(columns)].to_delayed()
        return [DaskPartition(part, k, self.roles) for k, part in enumerate(parts)]

    def raw(self) -> DaskFrame:
        return replace(self, roles=replace(self.roles, raw=True))

    def __iter__(self) -> Iterator[DaskPartition]:
        return iter(self.reading(None))
