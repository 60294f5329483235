"""Tallies: a record of the data that a pass saw, to compare with later passes.

Every row has a hash of its features, target and weight; a tally adds them up modulo 2⁶⁴. The sum is exact and depends
neither on the order of the rows nor on the chunks. So every change between two passes is noticed, whatever the source:
a function that starts another iterator, a query, a recomputed task, or an array mapped from a file.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Generic, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from budgetline.arrays import Array, Float, Table
from budgetline.data.sources import Chunk
from budgetline.device_tables import DeviceTable
from budgetline.devices import on_host
from budgetline.moments.sums import S, Statistic, add_up

RowHashes = NDArray[np.uint64]
MODULUS = 1 << 64


class Seen(NamedTuple):
    """Some rows: their number, and sums of hashes of y and weight alone, and of whole rows (None: without features)."""

    rows: int
    targets: int
    table: int | None


ADVICE = "the data must not change while they are read"


@dataclass(frozen=True)
class Tallied(Generic[S]):
    """What a pass saw, by the place that errors name, and its other sum (None if there is none)."""

    seen: dict[str, Seen]
    value: S | None

    def __add__(self, other: Tallied[S]) -> Tallied[S]:
        both = dict(self.seen)
        for where, more in other.seen.items():
            both[where] = _sum([both[where], more]) if where in both else more
        return Tallied(both, add_up([self.value, other.value]))

    def check(self, now: Tallied[Any], number: int) -> None:
        """Raise an error if a later pass, by its number, saw other data; the places may differ."""
        a, b = _sum(self.seen.values()), _sum(now.seen.values())
        if a.rows != b.rows:
            raise ValueError(f"{self._place(now)}: pass 1 read {a.rows} rows, pass {number} {b.rows}; {ADVICE}")
        if a.targets != b.targets:
            raise ValueError(f"{self._place(now)}: pass {number} read other targets or weights than pass 1; {ADVICE}")
        if not _alike(a, b):
            raise ValueError(f"{self._place(now)}: pass {number} read other rows than an earlier one; {ADVICE}")

    @property
    def whole(self) -> bool:
        """Whether features were seen, too."""
        return _sum(self.seen.values()).table is not None

    def _place(self, now: Tallied[Any]) -> str:
        """Return the first place that differs."""
        places = (*self.seen, *now.seen)
        return next((p for p in places if not _alike(self.seen.get(p), now.seen.get(p))), "the source")


def _sum(parts: Iterable[Seen]) -> Seen:
    total = Seen(0, 0, 0)
    for part in parts:
        table = None if total.table is None or part.table is None else (total.table + part.table) % MODULUS
        total = Seen(total.rows + part.rows, (total.targets + part.targets) % MODULUS, table)
    return total


def _alike(a: Seen | None, b: Seen | None) -> bool:
    return a is not None and b is not None and a[:2] == b[:2] and (None in (a.table, b.table) or a.table == b.table)


@dataclass(frozen=True)
class WithTally(Generic[S]):
    """A statistic together with a tally of the rows it sees."""

    statistic: Statistic[S]

    def __call__(self, chunk: Chunk) -> Tallied[S]:
        """Return the statistic of a chunk, and its tally."""
        value = self.statistic(chunk)  # its checks come first
        return Tallied({chunk.where: _seen(chunk)}, value)


def _seen(chunk: Chunk) -> Seen:
    """Return the number of rows of a chunk and their hashes."""
    targets = _target_hashes(chunk)
    table = None if chunk.X.shape[1] == 0 else _total(mixed(targets + table_hashes(chunk.X)))
    return Seen(chunk.n_rows, _total(targets), table)


def row_hashes(chunk: Chunk) -> RowHashes:
    """Return a hash of every row of a chunk: its features, targets and weight."""
    return mixed(_target_hashes(chunk) + table_hashes(chunk.X))


def _target_hashes(chunk: Chunk) -> RowHashes:
    targets = table_hashes(chunk.y.reshape(chunk.n_rows, -1))
    return targets if chunk.weight is None else mixed(targets + chunk.weight.view(np.uint64))


def table_hashes(table: Table) -> RowHashes:
    """Return a hash of every row of an array or sparse matrix of numbers, or of labels."""
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


def device_hashes(table: DeviceTable) -> RowHashes:
    """Return the hash of every row of a table on a device, where the numbers are added up; the same as on the host."""
    device, D = table.device, table.shape[1]
    factors = mixed(np.arange(1, D + 1, dtype=np.uint64)) | np.uint64(1)
    if not device.has_bits:
        return table_hashes(np.asarray(table))
    signed = device.put(factors.view(np.int64))

    def of(s: slice) -> Float:  # sums of integers wrap around
        found: Float = device.xp.sum(device.bits(table.block(s)) * signed, axis=1)
        return found

    return mixed(on_host(table.joined(of)).view(np.uint64))


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
