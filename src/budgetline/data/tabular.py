"""Sources of named columns: Parquet files, Arrow tables and datasets, polars lazy frames, data frames."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import Any

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

from budgetline.data.marks import Mark, Marked
from budgetline.data.sources import Chunk, Positions, Source, chunk_rows_for
from budgetline.data.spill import Spill
from budgetline.messages import cut, shown, some

READ_BUFFER = 1 << 14
"""Bytes read ahead of a column of a row group, so that a large row group is not read in full."""
PAGE_BYTES = 1 << 20
"""Usual limit of writers for a page, and for the dictionary, of a column of a row group."""
DECODER_BYTES = 1 << 28
"""A reader of all columns holds a page of each and all dictionaries: where that is more, columns are read in turns."""
COLUMNS_AT_ONCE = 32
"""Columns that are read together where they are read in turns."""


def arrow() -> Any:
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

    @property
    def targets(self) -> tuple[str, ...]:
        """Names of all target columns."""
        return (self.target,) if isinstance(self.target, str) else self.target

    def wanted(self, columns: Positions | None) -> list[str]:
        """Return the names of all columns to read."""
        features = self.features if columns is None else [self.features[d] for d in columns]
        return [*features, *self.targets, *(name for name in (self.weight, self.qid) if name is not None)]

    def chunk(
        self, batch: Any, columns: Positions | None, where: str, first: int = 0, X: NDArray[Any] | None = None
    ) -> Chunk:
        """Turn an Arrow record batch into a chunk, whose rows count from ``first``; features may be at hand already."""
        features = self.features if columns is None else [self.features[d] for d in columns]
        y = [_values(batch, name, where, first) for name in self.targets]
        weight, qid = (None if name is None else _values(batch, name, where, first) for name in (self.weight, self.qid))
        none = np.empty((batch.num_rows, 0))
        target = y[0] if isinstance(self.target, str) else np.column_stack(y) if y else none
        return Chunk.of(_matrix(batch, features, where) if X is None else X, target, weight, qid, where, first)

    def chunks(self, batches: Iterable[Any], columns: Positions | None, where: str) -> Iterator[Chunk]:
        """Turn record batches that follow each other into chunks."""
        first = 0

        def chunk(batch: Any) -> Chunk:
            nonlocal first
            first += batch.num_rows
            return self.chunk(batch, columns, where, first - batch.num_rows)

        # unlike a loop, map holds no batch while the next one is read
        return map(chunk, batches)


def roles_of(
    names: Iterable[str],
    target: Any,
    weight: str | None,
    qid: str | None,
    features: Iterable[str] | None,
    chunk_rows: int | None,
) -> Roles:
    """Give every column its role; all that are not target, weight or query are features unless named."""
    known = Counter(names)
    if target is None:
        raise ValueError("say which column is the target: target='…'")
    chosen: str | tuple[str, ...] = target if isinstance(target, str) else tuple(target)
    named = [("target", name) for name in ([chosen] if isinstance(chosen, str) else chosen)]
    named += [(role, name) for role, name in (("weight", weight), ("qid", qid)) if name is not None]
    roles = {name: role for role, name in reversed(named)}
    for role, name in named:
        if roles[name] != role:
            raise ValueError(f"column {shown(name)} cannot be both {roles[name]} and {role}")
    others = set(roles)
    # pandas keeps the labels of rows in such columns
    plain = (name for name in known if name not in others and not re.fullmatch(r"__index_level_\d+__", name))
    columns = tuple(plain) if features is None else tuple(features)
    for name in (*others, *columns):
        if known[name] > 1:
            raise ValueError(f"the data have {known[name]} columns {shown(name)}")
        if name not in known:
            raise ValueError(f"column {shown(name)} is not in the data; the columns are {some(known, 10)}")
    if taken := sorted(others & set(columns)):
        raise ValueError(f"column {shown(taken[0])} cannot be a feature and something else")
    return Roles(columns, chosen, weight, qid, chunk_rows or chunk_rows_for(len(columns) + 1))


def tabular_source(partitions: Iterable[Any], roles: Roles) -> Source:
    """Return a source of partitions that share the roles of their columns."""
    shape = () if isinstance(roles.target, str) else (len(roles.target),)
    return Source(list(partitions), len(roles.features), roles.features, shape)


# -- Parquet -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ParquetPartition(Marked):
    """Adjacent row groups, of ``n_groups`` of a Parquet file."""

    path: Path
    first: int
    last: int
    n_groups: int
    n_rows: int
    roles: Roles
    mark: Mark

    @property
    def where(self) -> str:
        """The file and its row groups."""
        groups = f"row group {self.first}" if self.first == self.last else f"row groups {self.first} to {self.last}"
        return f"{self.path}, {groups}"

    def fingerprint(self) -> str:
        """Return a name for the contents of the file, and what is read of it."""
        return f"{self.mark.text(self.where)} {self.first} {self.last} {self.roles}"

    def chunks(self, columns: Positions | None) -> Iterator[Chunk]:
        """Read the row groups, a few rows at a time."""
        wanted = self.roles.wanted(columns)
        with self.mark.held(self.where), _opened(self.path) as file:
            _same_columns(file.schema_arrow, wanted, str(self.path))
            self._same_rows(file.metadata)
            for group in range(self.first, self.last + 1):
                where = f"{self.path}, row group {group}"
                if _decoder_bytes(file.metadata.row_group(group), wanted) > DECODER_BYTES:
                    yield from self._chunks_in_turns(file, group, columns, where)
                    continue
                yield from self.roles.chunks(self._batches(file, group, wanted, where), columns, where)

    def _chunks_in_turns(self, file: Any, group: int, columns: Positions | None, where: str) -> Iterator[Chunk]:
        """Read a few columns at a time to the end of the row group, put them aside on disk, and yield the rows."""
        wanted, others = self.roles.wanted(columns), self.roles.wanted(np.empty(0, dtype=np.intp))
        features = wanted[: len(wanted) - len(others)]
        schema = file.schema_arrow
        none = arrow().RecordBatch.from_arrays([arrow().array([], schema.field(n).type) for n in features], features)
        dtype = _matrix(none, features, where).dtype
        with Spill(file.metadata.row_group(group).num_rows, len(features), dtype) as aside:
            for first in range(0, len(features), COLUMNS_AT_ONCE):
                names, row = features[first : first + COLUMNS_AT_ONCE], 0
                for batch in self._batches(file, group, names, where):
                    aside.write(_matrix(batch, names, where), row, first)
                    row += batch.num_rows
            row = 0
            for batch in self._batches(file, group, others, where):
                yield self.roles.chunk(batch, columns, where, row, aside.rows(row, row + batch.num_rows))
                row += batch.num_rows

    def _batches(self, file: Any, group: int, names: list[str], where: str) -> Iterator[Any]:
        return guarded(file.iter_batches(self.roles.chunk_rows, row_groups=[group], columns=names), where)

    def _same_rows(self, metadata: Any) -> None:
        same = metadata.num_row_groups == self.n_groups
        groups = range(self.first, self.last + 1)
        if not same or sum(metadata.row_group(k).num_rows for k in groups) != self.n_rows:
            raise ValueError(f"{self.where}: the file has changed since it was opened, and has other row groups")


def parquet_partitions(path: Path, roles: Roles) -> Iterator[ParquetPartition]:
    """Cut a file into partitions of whole row groups, small ones together up to the size of a chunk."""
    with _opened(path) as file:
        groups = [file.metadata.row_group(k) for k in range(file.num_row_groups)]
        sizes, starts = [group.num_rows for group in groups], [*map(_start, groups), None]
    first, rows = 0, 0
    for k, size in enumerate(sizes):
        rows += size
        if rows >= roles.chunk_rows or k == len(sizes) - 1:
            if rows:
                mark = Mark.of(path, starts[first] or 0, starts[k + 1])
                yield ParquetPartition(path, first, k, len(sizes), rows, roles, mark)
            first, rows = k + 1, 0


def _start(group: Any) -> int:
    """Return where the bytes of a row group begin."""
    if group.num_columns == 0:
        return 0
    column = group.column(0)
    pages = [column.data_page_offset, column.dictionary_page_offset if column.has_dictionary_page else None]
    return min(int(page) for page in pages if page is not None)


def _decoder_bytes(group: Any, wanted: list[str]) -> int:
    """Return about how much memory it takes to decode columns of a row group side by side, beside the rows."""
    names, total = set(wanted), 0
    for k in range(group.num_columns):
        column = group.column(k)
        if column.path_in_schema in names:
            # of a page and of a dictionary there are two copies each, as it is in the file and unpacked
            total += min(column.total_uncompressed_size, PAGE_BYTES) * (4 if column.has_dictionary_page else 2)
    return total


def parquet_schema(path: Path) -> Any:
    """Return the Arrow schema of a file."""
    with _opened(path) as file:
        return file.schema_arrow


def _opened(path: Path) -> Any:
    """Open a Parquet file so that reading needs memory for a chunk, not for a row group."""
    parquet = import_module("pyarrow.parquet") if arrow() else None
    try:
        return parquet.ParquetFile(path, pre_buffer=False, buffer_size=READ_BUFFER)  # type: ignore[union-attr]
    except FileNotFoundError:
        raise FileNotFoundError(f"{path} does not exist") from None
    except (OSError, arrow().ArrowException) as error:
        raise ValueError(f"{path} is not a Parquet file, or it is damaged: {cut(str(error))}") from error


# -- Arrow tables, datasets and polars -----------------------------------------------------------------------------


@dataclass(frozen=True)
class TablePartition:
    """A data frame or Arrow table in memory, as a narwhals frame."""

    frame: Any
    roles: Roles

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return int(self.frame.shape[0])

    def fingerprint(self) -> None:
        """Return None: tables in memory have no name."""

    def chunks(self, columns: Positions | None) -> Iterator[Chunk]:
        """Yield slices of the table."""
        pa = arrow()  # before narwhals needs it, whose error names no extra
        table = self.frame.select(self.roles.wanted(columns)).to_arrow()
        for start in range(0, table.num_rows, self.roles.chunk_rows):
            part = table.slice(start, self.roles.chunk_rows).combine_chunks()
            batch = pa.RecordBatch.from_arrays(
                [_joined(part.column(k)) for k in range(part.num_columns)], names=part.column_names
            )
            yield self.roles.chunk(batch, columns, f"rows {start} to {start + part.num_rows - 1}", start)


@dataclass(frozen=True)
class FragmentPartition(Marked):
    """One fragment of an Arrow dataset; if it is a file of this machine, with its mark."""

    fragment: Any
    schema: Any
    roles: Roles
    mark: Mark | None
    n_rows: None = None

    @classmethod
    def of(cls, fragment: Any, schema: Any, roles: Roles) -> FragmentPartition:
        """Mark the file, if there is one."""
        local = type(getattr(fragment, "filesystem", None)).__name__ == "LocalFileSystem"
        return cls(fragment, schema, roles, Mark.of(Path(fragment.path)) if local else None)

    def fingerprint(self) -> None:
        """Return None: a dataset may live anywhere."""

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
        with nullcontext() if self.mark is None else self.mark.held(where):
            for k, batch in enumerate(guarded(batches, where)):
                yield self.roles.chunk(batch, columns, f"{where}, batch {k}")


@dataclass(frozen=True)
class LazyFramePartition:
    """A polars LazyFrame, run by its streaming engine."""

    frame: Any
    roles: Roles
    n_rows: None = None

    def fingerprint(self) -> None:
        """Return None: a query has no name."""

    def chunks(self, columns: Positions | None) -> Iterator[Chunk]:
        """Run the query and yield its batches."""
        query = self.frame.select(self.roles.wanted(columns))
        for k, frame in enumerate(query.collect_batches(chunk_size=self.roles.chunk_rows, engine="streaming")):
            table = TablePartition(nw.from_native(frame), self.roles)
            for chunk in table.chunks(columns):
                yield replace(chunk, where=f"batch {k} of the lazy frame")


# -- conversion ----------------------------------------------------------------------------------------------------


def _matrix(batch: Any, names: Iterable[str], where: str) -> NDArray[Any]:
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
    # in row-major order this takes ten times as long; products fill their buffers in the order of the data
    array: NDArray[Any] = plain.to_tensor(null_to_nan=True, row_major=False).to_numpy()
    return array


def _values(batch: Any, name: str, where: str, first: int) -> NDArray[Any]:
    """Return one column; a missing value is an error that names its row, counted from ``first``."""
    column = batch.column(name)
    if column.null_count:
        row = first + column.is_null().index(True).as_py()
        count = column.null_count
        raise ValueError(f"{where}: column {shown(name)} has {count} missing values, the first in row {row}")
    if arrow().types.is_dictionary(column.type):
        column = column.dictionary_decode()
    return np.asarray(column.to_numpy(zero_copy_only=False))


def _joined(column: Any) -> Any:
    return column.chunk(0) if column.num_chunks == 1 else arrow().concat_arrays(column.chunks)


def guarded(batches: Any, where: str) -> Iterator[Any]:
    """Yield batches; what the reader cannot make sense of is an error that says where."""
    try:
        yield from batches
    except (OSError, arrow().ArrowException) as error:
        raise ValueError(f"{where}: {cut(str(error))}") from error


def _same_columns(schema: Any, wanted: list[str], where: str) -> None:
    if missing := [name for name in wanted if name not in schema.names]:
        raise ValueError(f"{where}: column {shown(missing[0])} is missing; the columns are {some(schema.names, 10)}")
