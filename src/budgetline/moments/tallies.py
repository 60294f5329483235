"""Tallies: a record of the data that a pass saw, to compare with later passes.

Every row has a hash of its features, target and weight; a tally adds them up modulo 2⁶⁴. The sum is exact and depends
neither on the order of the rows nor on the chunks. So every change between two passes is noticed, whatever the source:
a function that starts another iterator, a query, a recomputed task, or an array mapped from a file.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Any, Generic

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from budgetline.arrays import Array, Float, Positions, Table
from budgetline.data.sources import Chunk
from budgetline.moments.sums import S, Statistic, add_up

RowHashes = NDArray[np.uint64]


@dataclass(frozen=True)
class Tallied(Generic[S]):
    """The sum of a statistic, and of hashes of the rows that a pass saw.

    ``seen`` (3,) holds the number of rows, and sums modulo 2⁶⁴ of hashes of y and weight, and of whole rows. ``whole``
    says whether the rows had features.
    """

    seen: RowHashes
    whole: bool
    value: S | None

    def __add__(self, other: Tallied[S]) -> Tallied[S]:
        return Tallied(self.seen + other.seen, self.whole and other.whole, add_up([self.value, other.value]))

    def check(self, now: Tallied[Any], number: int) -> None:
        """Raise an error if a later pass, by its number, saw other data."""
        known = 3 if self.whole and now.whole else 2
        if not np.array_equal(self.seen[:known], now.seen[:known]):
            rows = f"other rows than pass 1 ({now.seen[0]} and {self.seen[0]})"
            raise ValueError(f"pass {number} read {rows}: the data must not change while they are read")


@dataclass(frozen=True)
class WithTally(Generic[S]):
    """A statistic with a tally of the rows it sees."""

    statistic: Statistic[S]

    def __call__(self, chunk: Chunk) -> Tallied[S]:
        value = self.statistic(chunk)  # its checks come first
        targets = _target_hashes(chunk)
        sums = [chunk.n_rows, _total(targets), _total(mixed(targets + table_hashes(chunk.X)))]
        return Tallied(np.array(sums, dtype=np.uint64), chunk.X.shape[1] > 0, value)


def row_hashes(chunk: Chunk) -> RowHashes:
    """Return a hash of every row of a chunk: its features, targets and weight."""
    return mixed(_target_hashes(chunk) + table_hashes(chunk.X))


def _target_hashes(chunk: Chunk) -> RowHashes:
    targets = table_hashes(chunk.y.reshape(chunk.n_rows, -1))
    return targets if chunk.weight is None else mixed(targets + chunk.weight.view(np.uint64))


def table_hashes(table: Table) -> RowHashes:
    """Return a hash of every row of an array, sparse matrix or device table of numbers, or of labels."""
    factors = mixed(np.arange(1, table.shape[1] + 1, dtype=np.uint64)) | np.uint64(1)
    if sparse.issparse(table):
        table = table.tocsr()
        rows = np.repeat(np.arange(table.shape[0]), np.diff(table.indptr))
        found = np.zeros(table.shape[0], dtype=np.uint64)
        np.add.at(found, rows, _bits(table.data) * factors[table.indices])
        return mixed(found)
    table = np.asarray(table)
    numbers = _bits(table) if table.dtype.kind in "biuf" else _label_hashes(table)
    return mixed(np.einsum("nd,d->n", numbers, factors))


def _bits(numbers: Array) -> RowHashes:
    """Return the bits of numbers as doubles, of either order without a copy."""
    numbers = np.asarray(numbers, dtype=np.float64)
    if numbers.flags.f_contiguous:
        return numbers.T.view(np.uint64).T
    return np.ascontiguousarray(numbers).view(np.uint64)


def _label_hashes(labels: Array) -> RowHashes:
    flat = labels.ravel().tolist()
    known = {label: int.from_bytes(sha256(repr(label).encode()).digest()[:8], "little") for label in set(flat)}
    return np.fromiter(map(known.__getitem__, flat), dtype=np.uint64, count=len(flat)).reshape(labels.shape)


def mixed(values: RowHashes) -> RowHashes:
    """Return hashes in which every bit depends on every bit of the values (multiply, shift, multiply, shift)."""
    values = values * np.uint64(0x9E3779B97F4A7C15)
    values = (values ^ (values >> np.uint64(32))) * np.uint64(0xD6E8FEB86659FD93)
    return values ^ (values >> np.uint64(32))


def _total(hashes: RowHashes) -> int:
    return int(hashes.sum(dtype=np.uint64))


@dataclass(frozen=True)
class RowSample:
    """At most ``most`` rows: their keys (m,), ascending, values (m, T) and weights (m,)."""

    key: RowHashes
    values: Float
    weight: Float
    most: int

    def __add__(self, other: RowSample) -> RowSample:
        key = np.concatenate([self.key, other.key])
        first = np.argsort(key, kind="stable")[: self.most]
        values, weight = np.concatenate([self.values, other.values]), np.concatenate([self.weight, other.weight])
        return RowSample(key[first], values[first], weight[first], self.most)

    def standardised(self, mean: Float, scale: Float) -> RowSample:
        """Return the sample of (x − mean)/scale, with weights that sum to one."""
        return replace(self, values=(self.values - mean) / scale, weight=self.weight / self.weight.sum())


def sample_of(X: Table, weight: Float, columns: Positions, most: int) -> RowSample:
    """Return the sample of these columns of X; rows without weight are left out."""
    there = np.flatnonzero(weight > 0)
    chosen = X[:, columns] if there.size == len(weight) else X[there][:, columns]
    key = _keys(table_hashes(chosen))
    first = np.argsort(key, kind="stable")[:most]
    rows = chosen[first]
    values = rows.toarray() if sparse.issparse(rows) else np.asarray(rows)
    return RowSample(key[first], np.asarray(values, dtype=np.float64), weight[there][first], most)


def _keys(hashes: RowHashes) -> RowHashes:
    """Return keys of rows; copies of a row have keys of their own."""
    order, places = np.argsort(hashes, kind="stable"), np.arange(hashes.size)
    same = np.concatenate([[False], hashes[order][1:] == hashes[order][:-1]])
    copies = np.empty_like(hashes)
    copies[order] = places - np.maximum.accumulate(np.where(same, 0, places))
    return mixed(hashes + copies)


@dataclass(frozen=True)
class ChunkSample:
    """A sample of some columns."""

    columns: Positions
    most: int

    def __call__(self, chunk: Chunk) -> RowSample:
        weight = np.ones(chunk.n_rows) if chunk.weight is None else chunk.weight
        return sample_of(chunk.X, weight, self.columns, self.most)
