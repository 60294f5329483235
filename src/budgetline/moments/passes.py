"""One pass over a source: a statistic of every chunk, summed in an order that depends on the partitions alone.

Chunks of a partition are added one after another, partitions as the leaves of a balanced binary tree. The same pass on
a cluster builds the same tree, so results are equal bit by bit wherever they are computed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Generic

import numpy as np
from sklearn.utils import assert_all_finite

from budgetline.arrays import Array, Float, Positions
from budgetline.data.dask import Client, is_distributed
from budgetline.data.rows import Rows
from budgetline.data.sources import Chunk, Source
from budgetline.devices import named_device
from budgetline.encoding import Encoding
from budgetline.encoding.fitting import summary_of
from budgetline.encoding.raw import partial_table
from budgetline.encoding.summaries import TableSummary
from budgetline.encoding.table import TableEncoding
from budgetline.files import PathName
from budgetline.groups import Layout
from budgetline.inputs import check_known, check_labels, check_target
from budgetline.messages import shown, some
from budgetline.moments.cluster import sum_with_dask
from budgetline.moments.moments import Moments, moments_of
from budgetline.moments.sums import Checkpoint, S, Statistic, add_up, in_order, tree_sum
from budgetline.moments.tallies import Tallied, WithTally, row_hashes
from budgetline.progress import Bar, Progress, make_bar


def sum_over(
    source: Source,
    statistic: Statistic[S],
    columns: Positions | None,
    *,
    client: Client = None,
    progress: Progress = None,
    checkpoint: PathName | None = None,
) -> S | None:
    """Return the sum of a statistic over all chunks, with these columns; None if there are no rows.

    Partitions run on the client. Dask data run on the default client, if there is one. ``checkpoint`` is a folder for
    the sums of partitions, if they are moments: a pass that was interrupted continues where it stopped.
    """
    memory = Checkpoint(None if checkpoint is None else Path(checkpoint))
    if source.encoding is not None:
        read, encoding = source.encoding.read_for(columns), source.encoding
        statistic, columns = OfEncoded(statistic, columns, read, encoding.digest, encoding), read
    if source.device is not None:
        statistic = ForDevice(statistic, source.device)
    if client is not None or is_distributed(source):
        return sum_with_dask(source, statistic, columns, client, memory)
    if source.device is not None:
        named_device(source.device)  # an error before anything is read
    with make_bar(progress, "rows", source.about_rows) as bar:
        return tree_sum(_sums(source, statistic, columns, memory, bar))


@dataclass(frozen=True)
class ForDevice(Generic[S]):
    """A statistic of chunks that are to be multiplied on a device; workers of dask have one of this name each."""

    statistic: Statistic[S]
    device: str

    def __call__(self, chunk: Chunk) -> S | None:
        """Return the statistic; its copies and products do not wait for those of other chunks."""
        with named_device(self.device).lane():
            return self.statistic(replace(chunk, device=self.device))


@dataclass(frozen=True)
class OfEncoded(Generic[S]):
    """A statistic of design columns, for chunks of the raw columns ``read``; None: all design columns."""

    statistic: Statistic[S]
    columns: Positions | None
    read: Positions
    digest: str
    encoding: TableEncoding = field(repr=False)

    def __call__(self, chunk: Chunk) -> S | None:
        """Encode the chunk and return its statistic."""
        with chunk.located():
            X = self._encoded(chunk)
        return self.statistic(replace(chunk, X=X))

    def _encoded(self, chunk: Chunk) -> Float:
        if not self.read.size:
            return np.empty((chunk.n_rows, 0))
        return self.encoding.encode(partial_table(chunk.X, self.read), self.columns)


@dataclass(frozen=True)
class ChunkSummary:
    """The statistic that sums to the summaries of raw columns; ``source`` says which are read."""

    source: Layout
    settings: Encoding

    def __call__(self, chunk: Chunk) -> TableSummary | None:
        """Summarise the rows of positive weight of a chunk."""
        if chunk.weight is not None and not chunk.weight.any():
            return None
        with chunk.located():
            return summary_of(partial_table(chunk.X, self.source.read), self.source, self.settings, chunk.weight)


def _sums(
    source: Source, statistic: Statistic[S], columns: Positions | None, memory: Checkpoint, bar: Bar
) -> Iterator[S | None]:
    """Yield the sum of every partition; while some chunks are summed, the next one is read.

    What the caller owns is read in this thread, and copied before the next chunk is read.
    """

    def read() -> Iterator[tuple[str | None, Any]]:
        for partition in source.partitions:
            name = memory.name(source, partition, columns, statistic)
            found = memory.load(name)
            if found is None:
                yield from ((name, chunk) for chunk in partition.chunks(columns))
            yield name, found  # the end of the partition

    def work(item: tuple[str | None, Any]) -> tuple[str | None, Any, int]:
        name, found = item
        if not isinstance(found, Chunk):
            return name, found, -1
        return name, statistic(found) if found.n_rows else None, found.n_rows

    total: S | None = None
    for name, value, rows in in_order(work, read(), here=source.foreign):
        if rows >= 0:
            total = add_up([total, value])
            bar.update(rows)
            continue
        if value is None:
            memory.save(name, total)
        else:
            total = value
            bar.update(value.n_samples)
        yield total
        total = None


def not_empty(found: S | None, where: str = "the source") -> S:
    """Return a sum over a source or a part of it, named by ``where``; raise an error if it has no rows."""
    if found is None:
        raise ValueError(f"{where} holds no rows of positive weight")
    return found


@dataclass
class Passes:
    """Passes over a source, and their number so far; all must see the same data."""

    source: Source
    client: Client = None
    progress: Progress = None
    count: int = 0
    first: Tallied[Any] | None = field(default=None, repr=False)

    def total(self, statistic: Statistic[S], columns: Positions | None, where: str = "the source") -> S:
        """Make a pass and return the sum of a statistic over the rows that ``where`` names."""
        self.count += 1
        found = sum_over(self.source, WithTally(statistic), columns, client=self.client, progress=self.progress)
        found = Tallied({}, None) if found is None else found
        if self.first is not None:
            self.first.check(found, self.count)
        if self.first is None or not self.first.whole:
            self.first = replace(found, value=None)
        return not_empty(found.value, where)


@dataclass(frozen=True)
class ChunkMoments:
    """The statistic that sums to the moments of a source, whose columns have names.

    Targets that are labels become indicators of the classes, one column for two of them.
    """

    names: tuple[str, ...] | None
    target_shape: tuple[int, ...]
    classes: Array | None = None

    def __call__(self, chunk: Chunk) -> Moments | None:
        """Return the moments of a chunk, None if all its weights are zero."""
        if chunk.weight is not None and not chunk.weight.any():
            return None
        with chunk.located():
            rows = Rows(chunk.table, targets_of(chunk, self.classes), chunk.weight)
            if rows.Y.shape[1] != (self.target_shape or (1,))[0]:
                raise ValueError(f"y has {rows.Y.shape[1]} columns, not {(self.target_shape or (1,))[0]} as before")
            return moments_of(rows, self.target_shape, self.names, single=False)


@dataclass(frozen=True)
class InFold(Generic[S]):
    """A statistic of the rows of a chunk that are in a fold, or of the others.

    Rows are assigned to folds by a hash of their values: a row and its copies are always in the same fold, wherever and
    in whatever chunks they are read.
    """

    statistic: Statistic[S]
    n_folds: int
    fold: int
    held: bool

    def __call__(self, chunk: Chunk) -> S | None:
        """Return the statistic of the rows; None without rows."""
        rows = np.flatnonzero((row_hashes(chunk) % np.uint64(self.n_folds) == self.fold) == self.held)
        try:
            return self.statistic(chunk.take(rows)) if rows.size else None
        except ValueError:
            self.statistic(chunk)  # raises the same error, with rows counted as in the chunk
            raise


@dataclass(frozen=True)
class PartsOfFolds:
    """Moments of every fold, None where there are no rows."""

    parts: tuple[Moments | None, ...]

    def __add__(self, other: PartsOfFolds) -> PartsOfFolds:
        return PartsOfFolds(tuple(add_up(pair) for pair in zip(self.parts, other.parts, strict=True)))


@dataclass(frozen=True)
class MomentsOfFolds:
    """The statistic that sums to the moments of every fold."""

    names: tuple[str, ...] | None
    target_shape: tuple[int, ...]
    n_folds: int

    def __call__(self, chunk: Chunk) -> PartsOfFolds:
        """Return the moments of the rows of a chunk, by fold."""
        statistic = ChunkMoments(self.names, self.target_shape)
        folds = range(self.n_folds)
        return PartsOfFolds(tuple(InFold(statistic, self.n_folds, k, held=True)(chunk) for k in folds))


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


class ChunkLabels:
    """The statistic that sums to the labels of a source."""

    def __call__(self, chunk: Chunk) -> Labels:
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
