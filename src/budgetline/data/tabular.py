"""Named columns and their roles: Arrow tables and datasets, data frames and polars lazy frames."""

from __future__ import annotations

import re
from base64 import b64decode
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import reduce
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Self, TypeVar

import narwhals as nw
import numpy as np

from budgetline.arrays import Array, DType, Mask, Positions, Table
from budgetline.data.marks import Mark
from budgetline.data.sources import Chunk, Partition, Source, chunk_rows_for, small_chunk_rows
from budgetline.inputs import NotNumbers, check_integer
from budgetline.messages import cut, did_you_mean, shown, some

if TYPE_CHECKING:
    import polars as pl
    import pyarrow as pa

T = TypeVar("T")


class MissingTarget(ValueError):
    """Rows have no target."""


def arrow() -> ModuleType:
    """Import pyarrow, or say how to install it."""
    try:
        return import_module("pyarrow")
    except ImportError as error:
        raise ImportError("this needs pyarrow: pip install 'budgetline[arrow]'") from error


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
        """Names of all target columns."""
        return (self.target,) if isinstance(self.target, str) else self.target

    @property
    def others(self) -> list[str]:
        """Names of the columns that are always read: targets, weight and query."""
        return [*self.targets, *(name for name in (self.weight, self.qid) if name is not None)]

    def lost(self, name: str) -> type[ValueError]:
        """Return the type of the error for a missing value in a target, weight or query."""
        return MissingTarget if name in self.targets else ValueError

    def features_at(self, columns: Positions | None) -> list[str]:
        """Return the names of some features, None: all."""
        return list(self.features) if columns is None else [self.features[d] for d in columns]

    def wanted(self, columns: Positions | None) -> list[str]:
        """Return the names of all columns to read."""
        return self.features_at(columns) + self.others

    def rows_at_once(self, columns: Positions | None) -> int:
        """Return how many rows make a chunk of these columns."""
        return min(self.chunk_rows, small_chunk_rows(len(self.wanted(columns))))

    def source(self, partitions: Iterable[Partition]) -> Source:
        """Return a source of partitions whose columns have these roles."""
        shape = () if isinstance(self.target, str) else (len(self.target),)
        return Source(partitions, len(self.features), self.features, shape)

    def chunk(self, batch: pa.RecordBatch, X: Table, where: str, first: int = 0) -> Chunk:
        """Return a chunk of features X, with targets, weights and queries from a record batch."""
        if self.drop:
            there = np.flatnonzero(~missing_in(batch, self.targets))
            X, batch = X[there], batch.take(arrow().array(there))
        y = [values_of(batch, name, where, first, MissingTarget) for name in self.targets]
        weight, qid = (
            None if name is None else values_of(batch, name, where, first) for name in (self.weight, self.qid)
        )
        none = np.empty((batch.num_rows, 0))
        target = y[0] if isinstance(self.target, str) else np.column_stack(y) if y else none
        return Chunk.of(X, target, weight, qid, where, first)

    def chunks(
        self, batches: Iterable[pa.RecordBatch], columns: Positions | None, where: str, first: int = 0
    ) -> Iterator[Chunk]:
        """Cut record batches that follow each other into chunks, whose rows count from ``first``."""
        names, size = self.features_at(columns), self.rows_at_once(columns)
        for batch in batches:
            numbers = batch.select(names) if self.raw else numbers_of(batch, names, where)
            for start in range(0, batch.num_rows, size):
                part, others = numbers.slice(start, size), batch.slice(start, size)
                X = _frame_of(part) if self.raw and names else matrix_of(part)
                yield self.chunk(others, X, where, first + start)
            first += batch.num_rows
            del batch, numbers  # not held while the next one is read


@dataclass(frozen=True)
class Asked:
    """The arguments of ``open_source``, None for those that were not given."""

    target: str | Iterable[str] | None
    weight: str | None
    qid: str | None
    features: Iterable[str] | None
    chunk_rows: int | None
    file_format: str | None
    n_features: int | None
    zero_based: bool | None
    delimiter: str | None
    na: str | Iterable[str] | None

    def __post_init__(self) -> None:
        if self.chunk_rows is not None:
            check_integer("chunk_rows", self.chunk_rows, ge=1)

    def refuse(self, why: str, *names: str) -> None:
        """Raise an error if one of these arguments was given: it would be ignored."""
        for name in names:
            if getattr(self, name) is not None:
                raise ValueError(f"{name}={shown(getattr(self, name))} {why}")

    def refuse_names(self, *roles: str) -> None:
        """Raise an error if one of these arguments was given: the columns of the data have no names."""
        if given := [role for role in roles if getattr(self, role) is not None]:
            raise ValueError(f"{given[0]} names a column, but the columns of these data have no names")

    def roles(self, names: Iterable[str]) -> Roles:
        """Give every column its role; features default to all columns but target, weight and query."""
        if self.target is None:
            raise ValueError("say which column is the target: target='…'")
        known = Counter(names)
        target = self.target if isinstance(self.target, str) else tuple(self.target)
        named = [("target", name) for name in ((target,) if isinstance(target, str) else target)]
        named += [(role, name) for role, name in (("weight", self.weight), ("qid", self.qid)) if name is not None]
        roles = {name: role for role, name in reversed(named)}
        for role, name in named:
            if roles[name] != role:
                raise ValueError(f"column {shown(name)} cannot be both {roles[name]} and {role}")
        # pandas keeps the labels of rows in such columns
        plain = (name for name in known if name not in roles and not re.fullmatch(r"__index_level_\d+__", name))
        features = tuple(plain if self.features is None else self.features)
        for name in (*roles, *features):
            if known[name] > 1:
                raise ValueError(f"the data have {known[name]} columns {shown(name)}")
            if name not in known:
                what = f"column {shown(name)} is not in the data{did_you_mean(name, known)}"
                raise ValueError(f"{what}; the columns are {some(known, 10)}")
        if taken := sorted(roles.keys() & set(features)):
            raise ValueError(f"column {shown(taken[0])} cannot be a feature and something else")
        chunk_rows = self.chunk_rows or chunk_rows_for(len(features) + 1)
        return Roles(features, target, self.weight, self.qid, chunk_rows)


def numbers_of(batch: pa.RecordBatch, names: Iterable[str], where: str) -> pa.RecordBatch:
    """Return columns of a record batch as integers and floating-point numbers."""
    pa, types = arrow(), arrow().types
    columns = {}
    for name in names:
        column = batch.column(name)
        kind = column.type
        if types.is_boolean(kind) or types.is_null(kind) or types.is_decimal(kind):
            column = column.cast(pa.float64())
        elif types.is_float16(kind):  # Arrow has few functions for it
            column = pa.array(column.to_numpy(zero_copy_only=False).astype(np.float32))
        elif not (types.is_floating(kind) or types.is_integer(kind)):
            raised = ValueError if types.is_nested(kind) else NotNumbers
            raise raised(f"{where}: column {shown(name)} holds {cut(str(kind))}, not numbers")
        columns[name] = column
    return pa.record_batch(columns) if columns else batch.select([])


def declared_categories(metadata: Mapping[bytes, bytes] | None, schema: pa.Schema) -> pa.Schema:
    """Return the schema of a Parquet file with the categories that it was written with.

    Parquet itself has only categories of text. Arrow stores the types that it was given as metadata.
    """
    pa, given = arrow(), (metadata or {}).get(b"ARROW:schema")
    if given is None:
        return schema
    written = pa.ipc.read_schema(pa.BufferReader(b64decode(given)))
    types = {field.name: field.type for field in written if pa.types.is_dictionary(field.type)}
    known = (field.with_type(types[field.name]) if _lost(field, types) else field for field in schema)
    return pa.schema(list(known), schema.metadata)


def _lost(field: pa.Field, types: Mapping[str, pa.DataType]) -> bool:
    """Tell whether a column was categories of this type when it was written, and is no longer."""
    return field.name in types and types[field.name].value_type == field.type


def as_declared(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return a batch whose columns are categories where a schema says so."""
    is_dictionary, columns = arrow().types.is_dictionary, dict(zip(batch.schema.names, batch.columns, strict=True))
    for name, column in columns.items():
        if is_dictionary(schema.field(name).type) and not is_dictionary(column.type):
            columns[name] = column.dictionary_encode()
    return arrow().record_batch(columns) if columns else batch


def _frame_of(batch: pa.RecordBatch) -> nw.DataFrame[Any]:
    return nw.from_native(arrow().Table.from_batches([batch]), eager_only=True)


def matrix_of(numbers: pa.RecordBatch) -> Array:
    """Return a record batch of numbers as a table (m, D), missing values as NaN."""
    columns = np.empty((numbers.num_columns, numbers.num_rows), type_of(numbers))
    fill(columns, numbers)
    return columns.T


def type_of(numbers: pa.RecordBatch) -> DType:
    """Return the type of the array that holds all columns of a record batch of numbers, and NaN."""
    if not numbers.num_columns:
        return np.dtype(np.float64)
    found: DType = numbers.slice(0, 0).to_tensor(null_to_nan=True, row_major=False).to_numpy().dtype
    return found


def fill(columns: Array, numbers: pa.RecordBatch) -> None:
    """Copy a record batch of numbers into an array (D, m).

    Arrow could make the array itself, but NumPy's memory has large pages, which the system provides faster.
    """
    for column, values in zip(columns, numbers.columns, strict=True):
        column[:] = values.to_numpy(zero_copy_only=False)


def values_of(
    batch: pa.RecordBatch | pa.Table, name: str, where: str, first: int = 0, lost: type[ValueError] = ValueError
) -> Array:
    """Return one column; a missing value is an error that names its row, counted from ``first``."""
    column = batch.column(name)
    if column.null_count:
        row = first + column.is_null().index(True).as_py()
        count = column.null_count
        what = f"column {shown(name)} has {count} missing values"
        raise (ValueError if count == len(column) else lost)(f"{where}: {what}, the first in row {row}")
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


class WithRoles:
    """A partition whose columns have roles."""

    roles: Roles

    def raw(self) -> Self:
        """Return the partition of raw columns."""
        return replace(self, roles=replace(self.roles, raw=True))  # type: ignore[type-var]

    def dropping(self) -> Self:
        """Return the partition without the rows that have no target."""
        return replace(self, roles=replace(self.roles, drop=True))  # type: ignore[type-var]


@dataclass(frozen=True)
class TablePartition(WithRoles, Partition):
    """A data frame or Arrow table in memory, as a narwhals frame."""

    frame: nw.DataFrame[Any]
    roles: Roles

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return self.frame.shape[0]

    def chunks(self, columns: Positions | None) -> Iterator[Chunk]:
        """Yield slices of the table."""
        arrow()  # before narwhals imports it, because its error would not name the extra
        table = self.frame.select(self.roles.wanted(columns)).to_arrow()
        for start in range(0, table.num_rows, self.roles.chunk_rows):
            [batch] = table.slice(start, self.roles.chunk_rows).combine_chunks().to_batches()
            yield from self.roles.chunks([batch], columns, f"rows {start} to {start + batch.num_rows - 1}", start)


@dataclass(frozen=True)
class FragmentPartition(WithRoles, Partition):
    """One fragment of an Arrow dataset, with its mark if it is a local file."""

    fragment: pa.dataset.Fragment
    schema: pa.Schema
    roles: Roles
    mark: Mark | None

    @classmethod
    def of(cls, fragment: pa.dataset.Fragment, schema: pa.Schema, roles: Roles) -> FragmentPartition:
        """Return the partition of a fragment."""
        local = type(getattr(fragment, "filesystem", None)).__name__ == "LocalFileSystem"
        return cls(fragment, schema, roles, Mark.of(Path(fragment.path)) if local else None)

    def reopened(self) -> FragmentPartition:
        """Return the partition of the file as it is now."""
        return self if self.mark is None else replace(self, mark=self.mark.renewed())

    def chunks(self, columns: Positions | None) -> Iterator[Chunk]:
        """Read the fragment with little read ahead: the defaults let memory grow with the data."""
        where = str(getattr(self.fragment, "path", None) or "fragment in memory")
        batches = self.fragment.to_batches(
            schema=self.schema,
            columns=self.roles.wanted(columns),
            batch_size=self.roles.chunk_rows,
            batch_readahead=1,
            fragment_readahead=1,
        )
        metadata = getattr(getattr(self.fragment, "metadata", None), "metadata", None)
        declared = declared_categories(metadata, self.schema)
        with nullcontext() if self.mark is None else self.mark.held(where):
            for k, batch in enumerate(guarded(batches, where)):
                if self.roles.raw:
                    batch = as_declared(batch, declared)
                yield from self.roles.chunks([batch], columns, f"{where}, batch {k}")


@dataclass(frozen=True)
class LazyFramePartition(WithRoles, Partition):
    """A polars LazyFrame, run by its streaming engine."""

    frame: pl.LazyFrame
    roles: Roles

    def chunks(self, columns: Positions | None) -> Iterator[Chunk]:
        """Run the query and yield its batches."""
        query = self.frame.select(self.roles.wanted(columns))
        for k, frame in enumerate(query.collect_batches(chunk_size=self.roles.chunk_rows, engine="streaming")):
            for chunk in TablePartition(nw.from_native(frame), self.roles).chunks(columns):
                yield replace(chunk, where=f"batch {k} of the lazy frame")
