"""Parquet files."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, TYPE_CHECKING

import numpy as np

from budgetline.arrays import Array, DType, Positions
from budgetline.data.marks import FilePartition, Mark
from budgetline.data.sources import Chunk
from budgetline.data.tabular import Roles, arrow, guarded, matrix_of
from budgetline.messages import cut, shown, some

if TYPE_CHECKING:
    import pyarrow as pa

READ_BUFFER = 1 << 14
"""Bytes read ahead per column of a row group, so that a large row group is not read in full."""
PAGE_BYTES = 1 << 20
"""Usual size limit that writers set for a page, and for a dictionary, of a column of a row group."""
DECODER_BYTES = 1 << 28
"""A reader of all columns holds a page of each and all dictionaries. Beyond this, a few columns are read at a time."""
COLUMNS_AT_ONCE = 32
"""Columns that are then read together."""


@dataclass(frozen=True)
class ParquetPartition(FilePartition):
    """Adjacent row groups, of ``n_groups`` of a Parquet file."""

    first: int
    last: int
    n_groups: int
    size: int
    roles: Roles

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return self.size

    @property
    def where(self) -> str:
        """The file and its row groups."""
        groups = f"row group {self.first}" if self.first == self.last else f"row groups {self.first} to {self.last}"
        return f"{self.path}, {groups}"

    def fingerprint(self) -> str:
        """Return a text that identifies the contents of the file, and the parts that are read."""
        return f"{self.mark.text(self.where)} {self.first} {self.last} {self.roles}"

    def chunks(self, columns: Positions | None) -> Iterator[Chunk]:
        """Read the row groups, a few rows at a time."""
        wanted = self.roles.wanted(columns)
        with self.mark.held(self.where), _opened(self.path) as file:
            self._check(file, wanted)
            for group in range(self.first, self.last + 1):
                where = f"{self.path}, row group {group}"
                if _decoder_bytes(file.metadata.row_group(group), wanted) > DECODER_BYTES:
                    yield from self._chunks_by_columns(file, group, columns, where)
                else:
                    yield from self.roles.chunks(self._batches(file, group, wanted, where), columns, where)

    def _chunks_by_columns(
        self, file: pa.parquet.ParquetFile, group: int, columns: Positions | None, where: str
    ) -> Iterator[Chunk]:
        """Read a few columns at a time to the end of the row group, write them to a file, and yield the rows."""
        features, schema = self.roles.features_at(columns), file.schema_arrow
        empty = [arrow().array([], schema.field(name).type) for name in features]
        dtype = matrix_of(arrow().RecordBatch.from_arrays(empty, features), features, where).dtype
        with TemporaryFile(prefix="budgetline-") as spilled:
            table = _ColumnFile(spilled, file.metadata.row_group(group).num_rows, len(features), dtype)
            for first in range(0, len(features), COLUMNS_AT_ONCE):
                names, row = features[first : first + COLUMNS_AT_ONCE], 0
                for batch in self._batches(file, group, names, where):
                    table.write(matrix_of(batch, names, where), row, first)
                    row += batch.num_rows
            row = 0
            for batch in self._batches(file, group, self.roles.others, where):
                yield self.roles.chunk(batch, columns, where, row, table.rows(row, row + batch.num_rows))
                row += batch.num_rows

    def _batches(
        self, file: pa.parquet.ParquetFile, group: int, names: list[str], where: str
    ) -> Iterator[pa.RecordBatch]:
        return guarded(file.iter_batches(self.roles.chunk_rows, row_groups=[group], columns=names), where)

    def _check(self, file: pa.parquet.ParquetFile, wanted: list[str]) -> None:
        """Raise an error unless the file has the columns, and is cut into row groups as when it was opened."""
        names, metadata = file.schema_arrow.names, file.metadata
        if missing := [name for name in wanted if name not in names]:
            raise ValueError(f"{self.path}: column {shown(missing[0])} is missing; the columns are {some(names, 10)}")
        groups = range(self.first, self.last + 1)
        same = metadata.num_row_groups == self.n_groups
        if not same or sum(metadata.row_group(k).num_rows for k in groups) != self.n_rows:
            raise ValueError(f"{self.where}: the file has changed since it was opened, and has other row groups")


@dataclass(frozen=True)
class _ColumnFile:
    """A table of one type in a file, column after column: it turns columns into rows outside of memory."""

    file: IO[bytes]
    n_rows: int
    n_columns: int
    dtype: DType

    def write(self, block: Array, row: int, column: int) -> None:
        """Write a block whose first entry belongs into this row and column."""
        for k, values in enumerate(block.T):
            self._seek(row, column + k)
            self.file.write(np.ascontiguousarray(values, dtype=self.dtype).data)

    def rows(self, start: int, stop: int) -> Array:
        """Return some rows of all columns, in column-major order."""
        found = np.empty((self.n_columns, stop - start), self.dtype)
        for k, values in enumerate(found):
            self._seek(start, k)
            if self.file.readinto(values.data) != values.nbytes:  # type: ignore[attr-defined]
                raise OSError("rows that were written to a temporary file cannot be read back")
        return found.T

    def _seek(self, row: int, column: int) -> None:
        self.file.seek((column * self.n_rows + row) * self.dtype.itemsize)


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
                yield ParquetPartition(mark, first, k, len(sizes), rows, roles)
            first, rows = k + 1, 0


def _start(group: pa.parquet.RowGroupMetaData) -> int:
    """Return where the bytes of a row group begin."""
    if group.num_columns == 0:
        return 0
    column = group.column(0)
    pages = [column.data_page_offset, column.dictionary_page_offset if column.has_dictionary_page else None]
    return min(int(page) for page in pages if page is not None)


def _decoder_bytes(group: pa.parquet.RowGroupMetaData, wanted: list[str]) -> int:
    """Estimate the memory needed to decode columns of a row group together, besides the rows."""
    names, total = set(wanted), 0
    for k in range(group.num_columns):
        column = group.column(k)
        if column.path_in_schema in names:
            # a page and a dictionary take two copies each, packed as in the file and unpacked
            total += min(column.total_uncompressed_size, PAGE_BYTES) * (4 if column.has_dictionary_page else 2)
    return total


def parquet_schema(path: Path) -> pa.Schema:
    """Return the Arrow schema of a file."""
    with _opened(path) as file:
        return file.schema_arrow


def _opened(path: Path) -> pa.parquet.ParquetFile:
    """Open a Parquet file so that reading needs memory for a chunk, not for a row group."""
    pa = arrow()
    try:
        return import_module("pyarrow.parquet").ParquetFile(path, pre_buffer=False, buffer_size=READ_BUFFER)
    except (OSError, pa.ArrowException) as error:
        raise ValueError(f"{path} is not a Parquet file, or it is damaged: {cut(str(error))}") from error
