"""Dask arrays and data frames as sources; each partition is read on the worker that has it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from importlib import import_module
from typing import Any, TypeAlias

import narwhals as nw
import numpy as np

from budgetline.arrays import Positions
from budgetline.data.iterators import GivenPartition
from budgetline.data.sources import NO_TARGET, Chunk, Partition, Source
from budgetline.data.tabular import Roles, TablePartition
from budgetline.inputs import raise_missing

Collection: TypeAlias = Any
"""A dask array, data frame or series; dask is imported only if it is used."""
Client: TypeAlias = Any
"""A dask.distributed.Client."""


def is_dask(data: object) -> bool:
    """Tell whether something is a dask collection, without importing dask."""
    return hasattr(data, "__dask_graph__") and hasattr(data, "to_delayed")


def is_distributed(source: Source) -> bool:
    """Tell whether a source has dask partitions."""
    parts = source.partitions
    return isinstance(parts, DaskFrame) or (
        isinstance(parts, list) and any(isinstance(part, DaskPartition) for part in parts)
    )


@dataclass(frozen=True)
class DaskPartition(Partition):
    """A partition of dask collections, (X, y, weight) or a frame with ``roles``, loaded where its task runs."""

    data: Collection
    number: int
    names: tuple[str, ...] | None
    n_features: int
    roles: Roles | None = None
    as_is: bool = False

    def raw(self) -> DaskPartition:
        return replace(self, as_is=True, roles=None if self.roles is None else replace(self.roles, raw=True))

    def chunks(self, columns: Positions | None) -> Iterator[Chunk]:
        where = f"partition {self.number}"
        if self.roles is None:
            given = self.data if self.data[2] is not None else self.data[:2]
            yield from GivenPartition(given, where, self.names, self.n_features, self.as_is).chunks(columns)
            return
        frame = nw.from_native(self.data, eager_only=True)
        yield from (replace(chunk, where=where) for chunk in TablePartition(self.roles, frame).chunks(columns))


@dataclass(frozen=True)
class DaskFrame:
    """The partitions of a dask data frame; a pass reads only the columns that it needs."""

    frame: Collection
    roles: Roles

    def reading(self, columns: Positions | None) -> list[DaskPartition]:
        """Return partitions that hold these features, the targets and the weights."""
        parts = self.frame[self.roles.wanted(columns)].to_delayed()
        names = self.roles.features
        return [DaskPartition(part, k, names, len(names), self.roles) for k, part in enumerate(parts)]

    def raw(self) -> DaskFrame:
        return replace(self, roles=replace(self.roles, raw=True))

    def __iter__(self) -> Iterator[DaskPartition]:
        return iter(self.reading(None))


def dask_source(X: Collection, y: Collection, weight: Collection = None) -> Source:
    """Return a source of a dask array or data frame X (n, D), and y (n,) or (n, P) and weights like it."""
    if y is None:
        raise ValueError(NO_TARGET)
    names: tuple[str, ...] | None = None
    if hasattr(X, "columns"):
        names = tuple(X.columns) if all(isinstance(name, str) for name in X.columns) else None
        parts = [_delayed_like(X, X, "X"), _delayed_like(X, y, "y"), _delayed_like(X, weight, "weight")]
        shape: tuple[int, ...] = () if y.ndim == 1 else (len(y.columns),)
    else:
        if any(np.isnan(size) for size in X.chunks[0]):
            raise ValueError("X has chunks of unknown sizes: call X.compute_chunk_sizes() first")
        X = X.rechunk({1: -1})
        parts = [X.to_delayed().ravel(), _chunked_like(X, y, "y"), _chunked_like(X, weight, "weight")]
        shape = tuple(np.shape(y)[1:])
    D = int(X.shape[1])
    given = [DaskPartition(rows, k, names, D) for k, rows in enumerate(zip(*parts, strict=True))]
    return Source(given, D, names, shape)


def _delayed_like(X: Collection, part: Collection, name: str) -> list[Collection]:
    """Return the partitions of a dask series or frame that belong to those of X."""
    if part is None:
        return [None] * X.npartitions
    if not is_dask(part) or part.npartitions != X.npartitions:
        raise ValueError(f"{name} must be a dask collection with the {X.npartitions} partitions of X")
    # optimised separately, collections from the same files could be split differently
    return list(part.to_delayed(optimize_graph=False))


def _chunked_like(X: Collection, part: Collection, name: str) -> list[Collection]:
    """Return the rows of an array that belong to the chunks of X."""
    if part is None:
        return [None] * len(X.chunks[0])
    if not is_dask(part):
        if name == "y":
            raise_missing(part)
        part = import_module("dask.array").from_array(np.asarray(part))
    if part.shape[0] != X.shape[0]:
        raise ValueError(f"{name} has {part.shape[0]} rows, X has {X.shape[0]}")
    return list(part.rechunk({0: X.chunks[0], **({1: -1} if part.ndim == 2 else {})}).to_delayed().ravel())
