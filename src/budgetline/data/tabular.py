"""Named columns and their roles: Arrow tables, data frames and polars lazy frames."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import reduce
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any, Self, TypeVar

import narwhals as nw
import numpy as np

from budgetline.arrays import Array, Mask, Positions, Table
from budgetline.data.sources import Chunk, Partition, Source, small_chunk_rows
from budgetline.inputs import NotNumbers
from budgetline.messages import cut, shown
from budgetline.packages import imported

if TYPE_CHECKING:
    import polars as pl
    import pyarrow as pa

T = TypeVar("T")


class MissingTarget(ValueError):
    """Rows have no target."""


def arrow() -> ModuleType:
    """Import pyarrow, or say how to install it."""
    return imported("pyarrow", "this needs pyarrow", "arrow")


def from_stream(data: T) -> T:
    """Return an object that exports Arrow data, such as a DuckDB relation, as an Arrow table; others stay."""
    if not hasattr(data, "__arrow_c_stream__"):
        return data
    frame: object = nw.from_native(data, pass_through=True, allow_series=True)
    return data if isinstance(frame, nw.DataFrame | nw.Series) else arrow().table(data)


@dataclass(frozen=True)
class Roles:
    """Which named columns are features, targets (a tuple: several), weights and queries; rows to read at once.

    Raw features may hold anything; they are read as data frames. With ``drop``, rows without a target are left out.
    """

    features: tuple[str, ...]
    target: str | tuple[str, ...]
    weight: str | None
    qid: str | None
    chunk_rows: int
    raw: bool = False
    drop: bool = False

    @property
    def targets(self) -> tuple[str, ...]:
        return (self.target,) if isinstance(self.target, str) else self.target

    @property
    def others(self) -> list[str]:
        """Names of the columns that are always read: targets, weight and query."""
        return [*self.targets, *(name for name in (self.weight, self.qid) if name is not None)]

    def features_at(self, columns: Positions | None) -> list[str]:
        """Return the names of some features; None means all."""
        return list(self.features) if columns is None else [self.features[d] for d in columns]

    def wanted(self, columns: Positions | None) -> list[str]:
        """Return the names of all columns to read."""
        return self.features_at(columns) + self.others

    def rows_at_once(self, width: int) -> int:
        """Return how many rows make a chunk with this number of columns."""
        return min(self.chunk_rows, small_chunk_rows(width))

    def source(self, partitions: Iterable[Partition]) -> Source:
        shape = () if isinstance(self.target, str) else (len(self.target),)
        return Source(partitions, len(self.features), self.features, shape)

    def chunks(
        self, batch: pa.RecordBatch, columns: Positions | None, where: str, first: int, name: Callable[[int], str]
    ) -> Iterator[Chunk]:
        """Cut a record batch into chunks. Its rows count from ``first``; errors call them by the function ``name``."""
        names, size = self.features_at(columns), self.rows_at_once(len(self.wanted(columns)))
        features = batch.select(names) if self.raw else numbers_of(batch, names, where)
        for start in range(0, batch.num_rows, size):
            part = features.slice(start, size)
            X = _frame_of(part) if self.raw and names else matrix_of(part)
            yield self._chunk(batch.slice(start, size), X, where, first + start, name)

    def _chunk(self, batch: pa.RecordBatch, X: Table, where: str, first: int, name: Callable[[int], str]) -> Chunk:
        """Return a chunk of features X, with targets, weights and queries from a record batch."""
        rows = first + np.arange(batch.num_rows)
        if self.drop:
            there = np.flatnonzero(~missing_in(batch, self.targets))
            X, batch, rows = X[there], batch.take(arrow().array(there)), rows[there]

        def row_name(row: int) -> str:
            return name(int(rows[row]))

        y = [_values_of(batch, target, where, row_name, MissingTarget) for target in self.targets]
        weight, qid = (
            None if role is None else _values_of(batch, role, where, row_name) for role in (self.weight, self.qid)
        )
        none = np.empty((batch.num_rows, 0))
        target = y[0] if isinstance(self.target, str) else np.column_stack(y) if y else none
        return replace(Chunk.of(X, target, weight, qid, where, first), row_name=row_name)


# -- columns ---------------------------------------------------------------------------------------------------


def with_columns(batch: pa.RecordBatch, columns: Mapping[str, pa.Array]) -> pa.RecordBatch:
    """Return a record batch with other values in some of its columns."""
    given = (columns.get(name, column) for name, column in zip(batch.schema.names, batch.columns, strict=True))
    return arrow().record_batch(list(given), names=batch.schema.names) if columns else batch


def numbers_of(batch: pa.RecordBatch, names: Iterable[str], where: str) -> pa.RecordBatch:
    """Return columns of a record batch as integers and floating-point numbers."""
    pa, types, batch = arrow(), arrow().types, batch.select(list(names))
    columns = {}
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        kind = column.type
        if types.is_boolean(kind) or types.is_null(kind) or types.is_decimal(kind):
            columns[name] = column.cast(pa.float64())
        elif types.is_float16(kind):  # Arrow has few functions for it
            columns[name] = pa.array(column.to_numpy(zero_copy_only=False).astype(np.float32))
        elif not (types.is_floating(kind) or types.is_integer(kind)):
            raised = ValueError if types.is_nested(kind) else NotNumbers
            raise raised(f"{where}: column {shown(name)} holds {cut(str(kind))}, not numbers")
    return with_columns(batch, columns)


def _frame_of(batch: pa.RecordBatch) -> nw.DataFrame[Any]:
    return nw.from_native(arrow().Table.from_batches([batch]), eager_only=True)


def matrix_of(numbers: pa.RecordBatch) -> Array:
    """Return a record batch of numbers as a table (m, D), missing values as NaN.

    Arrow could copy them, but NumPy's memory has large pages, and a fit takes a third less time.
    """
    if not numbers.num_columns:
        return np.empty((numbers.num_rows, 0))
    dtype = numbers.slice(0, 0).to_tensor(null_to_nan=True, row_major=False).to_numpy().dtype
    columns = np.empty((numbers.num_columns, numbers.num_rows), dtype)
    for column, values in zip(columns, numbers.columns, strict=True):
        column[:] = values.to_numpy(zero_copy_only=False)
    return columns.T


def _values_of(
    batch: pa.RecordBatch, name: str, where: str, row_name: Callable[[int], str], lost: type[ValueError] = ValueError
) -> Array:
    """Return one column; a missing value is an error that names its row."""
    column = batch.column(name)
    if count := column.null_count:
        first = row_name(column.is_null().index(True).as_py())
        raised = ValueError if count == len(column) else lost
        raise raised(f"{where}: column {shown(name)} has {count} missing values, the first in {first}")
    if arrow().types.is_dictionary(column.type):
        column = import_module("pyarrow.compute").dictionary_decode(column)
    return np.asarray(column)


def missing_in(batch: pa.RecordBatch, names: Iterable[str]) -> Mask:
    """Return which rows (n,) have no value in one of some columns."""
    missing = (batch.column(name).is_null(nan_is_null=True).to_numpy(False) for name in names)
    return reduce(np.logical_or, missing, np.zeros(batch.num_rows, dtype=bool))


def guarded(batches: Iterable[pa.RecordBatch], where: str) -> Iterator[pa.RecordBatch]:
    """Yield batches; errors of the reader say where."""
    try:
        yield from batches
    except (OSError, arrow().ArrowException) as error:
        raise ValueError(f"{where}: {cut(str(error))}") from error


# -- partitions ------------------------------------------------------------------------------------------------

Batch = tuple["pa.RecordBatch", str, int]
"""A record batch, where it comes from, and the number of its first row there."""


@dataclass(frozen=True)
class NamedPartition(Partition):
    """A partition whose columns have names and roles."""

    roles: Roles

    def raw(self) -> Self:
        return replace(self, roles=replace(self.roles, raw=True))

    def dropping(self) -> Self:
        return replace(self, roles=replace(self.roles, drop=True))

    @abstractmethod
    def batches(self, names: list[str]) -> Iterator[Batch]:
        """Yield some columns, a few rows at a time."""

    def row_name(self, row: int) -> str:
        """Return what errors call a row."""
        return f"row {row}"

    def chunks(self, columns: Positions | None) -> Iterator[Chunk]:
        for batch, where, first in self.batches(self.roles.wanted(columns)):
            yield from self.roles.chunks(batch, columns, where, first, self.row_name)


@dataclass(frozen=True)
class TablePartition(NamedPartition):
    """A data frame or Arrow table in memory, as a narwhals frame."""

    frame: nw.DataFrame[Any]

    @property
    def about_rows(self) -> int:
        return self.frame.shape[0]

    def batches(self, names: list[str]) -> Iterator[Batch]:
        arrow()  # before narwhals imports it, because its error would not name the extra
        table, size = self.frame.select(names).to_arrow(), self.roles.chunk_rows
        for start in range(0, table.num_rows, size):
            [batch] = table.slice(start, size).combine_chunks().to_batches()
            yield batch, f"rows {start} to {start + batch.num_rows - 1}", start


@dataclass(frozen=True)
class LazyFramePartition(NamedPartition):
    """A polars LazyFrame, run by its streaming engine."""

    frame: pl.LazyFrame

    def batches(self, names: list[str]) -> Iterator[Batch]:
        query = self.frame.select(names)
        for k, frame in enumerate(query.collect_batches(chunk_size=self.roles.chunk_rows, engine="streaming")):
            table = TablePartition(self.roles, nw.from_native(frame))
            yield from ((batch, f"batch {k} of the lazy frame", first) for batch, _, first in table.batches(names))
