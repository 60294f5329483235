"""A sample of rows that can be added up over chunks: those with the smallest hashes of their values.

Without copies of rows, it depends neither on the order of the rows nor on the chunks. The k-th copy of a row in a chunk
has a hash of its own, so that a frequent row is as frequent in the sample.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy import sparse

from budgetline.arrays import Float, Positions, Table
from budgetline.data.sources import Chunk
from budgetline.device_tables import DeviceTable
from budgetline.moments.tallies import RowHashes, device_hashes, mixed, table_hashes


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
    hashes = device_hashes(chosen) if isinstance(chosen, DeviceTable) else table_hashes(chosen)
    key, order = _keys(hashes)
    first = np.argpartition(key, most)[:most] if key.size > most else np.arange(key.size)
    first = first[np.argsort(key[first], kind="stable")]
    rows = chosen[order[first]]
    values = rows.toarray() if sparse.issparse(rows) else np.asarray(rows)
    return RowSample(key[first], np.asarray(values, dtype=np.float64), weight[there][order[first]], most)


def _keys(hashes: RowHashes) -> tuple[RowHashes, Positions]:
    """Return keys of rows, and which rows they are of; copies of a row have keys of their own."""
    ascending = np.sort(hashes)
    if np.all(ascending[1:] > ascending[:-1]):  # usual, and much faster than sorting the rows
        return mixed(hashes), np.arange(hashes.size)
    order = np.argsort(hashes, kind="stable")
    same = np.concatenate([[False], hashes[order][1:] == hashes[order][:-1]])
    copy = np.arange(order.size) - np.maximum.accumulate(np.where(same, 0, np.arange(order.size)))
    return mixed(hashes[order] + copy.astype(np.uint64)), order


@dataclass(frozen=True)
class ChunkSample:
    """The statistic that sums to a sample of some columns."""

    columns: Positions
    most: int

    def __call__(self, chunk: Chunk) -> RowSample:
        """Return the sample of one chunk."""
        weight = np.ones(chunk.n_rows) if chunk.weight is None else chunk.weight
        return sample_of(chunk.X, weight, self.columns, self.most)
