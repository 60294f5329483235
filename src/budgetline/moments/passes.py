"""One pass over a source: a statistic of every chunk, summed in an order that depends on the partitions alone.

Chunks of a partition are added one after another, partitions as the leaves of a balanced binary tree. The same pass on
a cluster builds the same tree, so results are equal bit by bit wherever they are computed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Generic

import numpy as np
from sklearn.utils import assert_all_finite

from budgetline.arrays import Array, Float, Mask, Positions
from budgetline.data.dask import Client, DaskFrame
from budgetline.data.rows import Rows
from budgetline.data.sources import Chunk, Source
from budgetline.devices import named_device
from budgetline.encoding import Encoding
from budgetline.encoding.raw import RawTable, raw_data
from budgetline.encoding.summaries import TableSummary
from budgetline.encoding.table import TableEncoding
from budgetline.groups import Layout
from budgetline.inputs import check_known, check_labels, check_target
from budgetline.messages import shown, some
from budgetline.moments.moments import Moments, moments_of
from budgetline.moments.sums import S, Statistic, add_up, in_order, sum_with_dask, tree_sum
from budgetline.moments.tallies import RowHashes, Tallied, WithTally, row_hashes
from budgetline.progress import Bar, Progress, make_bar


def sum_over(
    source: Source,
    statistic: Statistic[S],
    columns: Positions | None,
    *,
    client: Client = None,
    progress: Progress = None,
) -> S | None:
    """Return the sum of a statistic over all chunks, read here or on a dask client; None if there are no rows."""
    if source.encoding is not None:
        read, encoding = source.encoding.read_for(columns), source.encoding
        statistic, columns = OfEncoded(statistic, columns, read, encoding), read
    if source.device is not None:
        statistic = ForDevice(statistic, source.device)
    if client is not None or isinstance(source.partitions, DaskFrame):
        return sum_with_dask(source, statistic, columns, client)
    if source.device is not None:
        named_device(source.device)  # an error before anything is read
    with make_bar(progress, "rows", source.about_rows) as bar:
        return tree_sum(_sums(source, statistic, columns, bar))


@dataclass(frozen=True)
class ForDevice(Generic[S]):
    """A statistic of chunks that are multiplied on a device; each worker of dask has a device of this name."""

    statistic: Statistic[S]
    device: str

    def __call__(self, chunk: Chunk) -> S | None:
        with named_device(self.device).lane():
            return self.statistic(replace(chunk, device=self.device))


@dataclass(frozen=True)
class OfEncoded(Generic[S]):
    """A statistic of design columns, for chunks of the raw columns ``read``; None: all design columns."""

    statistic: Statistic[S]
    columns: Positions | None
    read: Positions
    encoding: TableEncoding

    def __call__(self, chunk: Chunk) -> S | None:
        X = np.empty((chunk.n_rows, 0))
        if self.read.size:
            with chunk.located():
                X = self.encoding.encode(raw_columns(chunk, self.encoding.source, self.read), self.columns)
        return self.statistic(replace(chunk, X=X))


def raw_columns(chunk: Chunk, source: Layout, read: Positions) -> RawTable:
    """Return the raw columns of a chunk that holds only these."""
    return RawTable.of(raw_data(chunk.X)[0], source, read, np.arange(read.size))


@dataclass(frozen=True)
class ChunkSummary:
    """The summaries of raw columns in rows of positive weight; ``source`` says which are read."""

    source: Layout
    settings: Encoding

    def __call__(self, chunk: Chunk) -> TableSummary | None:
        if chunk.weight is not None and not chunk.weight.any():
            return None
        with chunk.located():
            table = raw_columns(chunk, self.source, self.source.read)
            return TableSummary.of(table, self.source, self.settings, chunk.weight)


def _sums(source: Source, statistic: Statistic[S], columns: Positions | None, bar: Bar) -> Iterator[S | None]:
    """Yield the sum of every partition; while some chunks are summed, the next one is read."""

    def read() -> Iterator[Chunk | None]:
        for partition in source.partitions:
            yield from partition.chunks(columns)
            yield None  # the end of the partition

    def work(chunk: Chunk | None) -> tuple[S | None, int]:
        if chunk is None:
            return None, -1
        return statistic(chunk) if chunk.n_rows else None, chunk.n_rows

    total: S | None = None
    for value, rows in in_order(work, read()):
        if rows < 0:
            yield total
            total = None
        else:
            total = add_up([total, value])
            bar.update(rows)


def not_empty(found: S | None, where: str = "the source") -> S:
    """Return a sum over a source or a part of it, named by ``where``; raise an error if it has no rows."""
    if found is None:
        raise ValueError(f"{where} holds no rows of positive weight")
    return found


@dataclass
class Passes:
    """Passes over a source, counted; all of them must read the same data."""

    source: Source
    client: Client = None
    progress: Progress = None
    count: int = 0
    first: Tallied[Any] | None = field(default=None, repr=False)

    def total(self, statistic: Statistic[S], columns: Positions | None, where: str = "the source") -> S:
        """Make a pass and return the sum of a statistic over the rows that ``where`` names."""
        self.count += 1
        found = sum_over(self.source, WithTally(statistic), columns, client=self.client, progress=self.progress)
        found = found or Tallied(np.zeros(3, dtype=np.uint64), False, None)
        if self.first is not None:
            self.first.check(found, self.count)
        if self.first is None or not self.first.whole:
            self.first = replace(found, value=None)
        return not_empty(found.value, where)


@dataclass(frozen=True)
class ChunkMoments:
    """The moments of a source; labels become indicators of the classes, a single column if there are two."""

    names: tuple[str, ...] | None
    target_shape: tuple[int, ...]
    classes: Array | None = None

    def __call__(self, chunk: Chunk) -> Moments | None:
        if chunk.weight is not None and not chunk.weight.any():
            return None
        with chunk.located():
            rows, before = Rows(chunk.table, targets_of(chunk, self.classes), chunk.weight), self.target_shape or (1,)
            if rows.Y.shape[1:] != before:
                raise ValueError(f"y has {rows.Y.shape[1]} columns, not {before[0]} as before")
            return moments_of(rows, self.target_shape, self.names, single=False)


@dataclass(frozen=True)
class InFold(Generic[S]):
    """A statistic of the rows that are in a fold, or of the others; a hash of its values assigns a row to a fold."""

    statistic: Statistic[S]
    n_folds: int
    fold: int
    held: bool

    def __call__(self, chunk: Chunk) -> S | None:
        return _of_some(self.statistic, chunk, (folds_of(chunk, self.n_folds) == self.fold) == self.held)


def folds_of(chunk: Chunk, n_folds: int) -> RowHashes:
    """Return the fold of every row of a chunk, shape (m,)."""
    return row_hashes(chunk) % np.uint64(n_folds)


def _of_some(statistic: Statistic[S], chunk: Chunk, rows: Mask) -> S | None:
    """Return the statistic of some rows of a chunk."""
    try:
        return statistic(chunk.take(np.flatnonzero(rows))) if rows.any() else None
    except ValueError:
        statistic(chunk)  # raises the same error, with rows counted as in the chunk
        raise


@dataclass(frozen=True)
class PartsOfFolds:
    """Moments of every fold, None where there are no rows."""

    parts: tuple[Moments | None, ...]

    def __add__(self, other: PartsOfFolds) -> PartsOfFolds:
        return PartsOfFolds(tuple(add_up(pair) for pair in zip(self.parts, other.parts, strict=True)))


@dataclass(frozen=True)
class MomentsOfFolds:
    """The moments of every fold, in one pass."""

    names: tuple[str, ...] | None
    target_shape: tuple[int, ...]
    n_folds: int

    def __call__(self, chunk: Chunk) -> PartsOfFolds:
        statistic, fold = ChunkMoments(self.names, self.target_shape), folds_of(chunk, self.n_folds)
        return PartsOfFolds(tuple(_of_some(statistic, chunk, fold == k) for k in range(self.n_folds)))


@dataclass(frozen=True)
class Labels:
    """Labels seen, with the weight of each."""

    mass: dict[Any, float]

    def __add__(self, other: Labels) -> Labels:
        return Labels({k: self.mass.get(k, 0.0) + other.mass.get(k, 0.0) for k in (*self.mass, *other.mass)})

    def classes(self) -> Array:
        """Return the classes, sorted; each must have some weight."""
        kinds = {"text" if isinstance(label, str | bytes) else "numbers" for label in self.mass}
        if len(kinds) > 1:
            raise ValueError(f"y mixes labels that are text with labels that are numbers: {some(self.mass, 5)}")
        classes, _ = check_labels(2 * list(self.mass), 2 * len(self.mass))  # scikit-learn warns of single labels
        for label in classes.tolist():
            if self.mass[label] <= 0:
                raise ValueError(f"class {shown(label)} has no sample of positive weight")
        return classes


def labels_of(chunk: Chunk) -> Labels:
    """Return the labels of a chunk."""
    with chunk.located():
        if chunk.y.ndim != 1:
            raise ValueError(f"labels must be one column, got shape {chunk.y.shape}")
        assert_all_finite(chunk.y, input_name="y")
        labels, codes = np.unique(chunk.y, return_inverse=True)
    mass = np.bincount(codes, chunk.weight, labels.size)
    return Labels(dict(zip(labels.tolist(), mass.tolist(), strict=True)))


def targets_of(chunk: Chunk, classes: Array | None) -> Float:
    """Return the targets (m, P) of a chunk: numbers, or indicators of classes (of the second, if there are two)."""
    if classes is None:
        return check_target(chunk.y, chunk.n_rows)[0]
    numbers = check_known(chunk.y, chunk.n_rows, classes)
    return numbers[:, None].astype(np.float64) if classes.size == 2 else np.eye(classes.size)[numbers]
