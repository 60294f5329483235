"""The roles of named columns, and how Arrow data become chunks by them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING

import numpy as np

from budgetline.arrays import Array, Positions
from budgetline.data.sources import Chunk, Partition, Source, chunk_rows_for
from budgetline.messages import cut, shown, some

if TYPE_CHECKING:
    import pyarrow as pa


def arrow() -> ModuleType:
    """Import pyarrow, or say how to install it."""
    try:
        return import_module("pyarrow")
    except ImportError as error:
        raise ImportError("this needs pyarrow: pip install 'budgetline[arrow]'") from error


@dataclass(frozen=True)
class Roles:
    """Which named columns are features, targets, weights and queries.

    Attributes
    ----------
    features : tuple of str
    target : str, or tuple of str for several targets
    weight, qid : str or None
    chunk_rows : int
    """

    features: tuple[str, ...]
    target: str | tuple[str, ...]
    weight: str | None
    qid: str | None
    chunk_rows: int

    @classmethod
    def of(
        cls,
        names: Iterable[str],
        target: str | Iterable[str] | None,
        weight: str | None,
        qid: str | None,
        features: Iterable[str] | None,
        chunk_rows: int | None,
    ) -> Roles:
        """Give every column its role; all that are not target, weight or query are features unless named."""
        if target is None:
            raise ValueError("say which column is the target: target='…'")
        known = Counter(names)
        target = target if isinstance(target, str) else tuple(target)
        named = [("target", name) for name in ((target,) if isinstance(target, str) else target)]
        named += [(role, name) for role, name in (("weight", weight), ("qid", qid)) if name is not None]
        roles = {name: role for role, name in reversed(named)}
        for role, name in named:
            if roles[name] != role:
                raise ValueError(f"column {shown(name)} cannot be both {roles[name]} and {role}")
        # pandas keeps the labels of rows in such columns
        plain = (name for name in known if name not in roles and not re.fullmatch(r"__index_level_\d+__", name))
        columns = tuple(plain if features is None else features)
        for name in (*roles, *columns):
            if known[name] > 1:
                raise ValueError(f"the data have {known[name]} columns {shown(name)}")
            if name not in known:
                raise ValueError(f"column {shown(name)} is not in the data; the columns are {some(known, 10)}")
        if taken := sorted(roles.keys() & set(columns)):
            raise ValueError(f"column {shown(taken[0])} cannot be a feature and something else")
        return cls(columns, target, weight, qid, chunk_rows or chunk_rows_for(len(columns) + 1))

    @property
    def targets(self) -> tuple[str, ...]:
        """Names of all target columns."""
        return (self.target,) if isinstance(self.target, str) else self.target

    @property
    def others(self) -> list[str]:
        """Names of the columns that are read whatever the features: targets, weight and query."""
        return [*self.targets, *(name for name in (self.weight, self.qid) if name is not None)]

    def features_at(self, columns: Positions | None) -> list[str]:
        """Return the names of some features, None: all."""
        return list(self.features) if columns is None else [self.features[d] for d in columns]

    def wanted(self, columns: Positions | None) -> list[str]:
        """Return the names of all columns to read."""
        return self.features_at(columns) + self.others

    def source(self, partitions: Iterable[Partition]) -> Source:
        """Return a source of partitions whose columns have these roles."""
        shape = () if isinstance(self.target, str) else (len(self.target),)
        return Source(partitions, len(self.features), self.features, shape)

    def chunk(
        self,
        batch: pa.RecordBatch,
        columns: Positions | None,
        where: str,
        first: int = 0,
        X: Array | None = None,
    ) -> Chunk:
        """Turn a record batch into a chunk, whose rows count from ``first``; X may be given instead of read."""
        X = matrix_of(batch, self.features_at(columns), where) if X is None else X
        y = [_values(batch, name, where, first) for name in self.targets]
        weight, qid = (None if name is None else _values(batch, name, where, first) for name in (self.weight, self.qid))
        none = np.empty((batch.num_rows, 0))
        target = y[0] if isinstance(self.target, str) else np.column_stack(y) if y else none
        return Chunk.of(X, target, weight, qid, where, first)

    def chunks(self, batches: Iterable[pa.RecordBatch], columns: Positions | None, where: str) -> Iterator[Chunk]:
        """Turn record batches that follow each other into chunks."""
        first = 0

        def chunk(batch: pa.RecordBatch) -> Chunk:
            nonlocal first
            first += batch.num_rows
            return self.chunk(batch, columns, where, first - batch.num_rows)

        # unlike a loop, map holds no batch while the next one is read
        return map(chunk, batches)


def matrix_of(batch: pa.RecordBatch, names: Iterable[str], where: str) -> Array:
    """Return columns of a record batch as an array (m, D), missing values as NaN."""
    pa, types = arrow(), arrow().types
    columns = []
    for name in names:
        column = batch.column(name)
        kind = column.type
        if types.is_boolean(kind) or types.is_null(kind):
            column = column.cast(pa.float64())
        elif types.is_float16(kind):  # Arrow hardly computes with it
            column = pa.array(column.to_numpy(zero_copy_only=False).astype(np.float32))
        elif not (types.is_floating(kind) or types.is_integer(kind)):
            raise ValueError(
                f"{where}: column {shown(name)} holds {cut(str(kind))}, not numbers: encode it first, or leave it out"
            )
        columns.append(column)
    if not columns:
        return np.empty((batch.num_rows, 0))
    plain = pa.RecordBatch.from_arrays(columns, names=[str(k) for k in range(len(columns))])
    # row-major order would take ten times as long; products fill their buffers in the order of the data
    array: Array = plain.to_tensor(null_to_nan=True, row_major=False).to_numpy()
    return array


def _values(batch: pa.RecordBatch, name: str, where: str, first: int) -> Array:
    """Return one column; a missing value is an error that names its row, counted from ``first``."""
    column = batch.column(name)
    if column.null_count:
        row = first + column.is_null().index(True).as_py()
        count = column.null_count
        raise ValueError(f"{where}: column {shown(name)} has {count} missing values, the first in row {row}")
    if arrow().types.is_dictionary(column.type):
        column = column.dictionary_decode()
    return np.asarray(column.to_numpy(zero_copy_only=False))


def guarded(batches: Iterable[pa.RecordBatch], where: str) -> Iterator[pa.RecordBatch]:
    """Yield batches; if the reader cannot read them, the error says where."""
    try:
        yield from batches
    except (OSError, arrow().ArrowException) as error:
        raise ValueError(f"{where}: {cut(str(error))}") from error
