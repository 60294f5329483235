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
from budgetline.data.sources import Chunk, ahead
from budgetline.data.tabular import Roles, WithRoles, arrow, guarded, matrix_of, numbers_of
from budgetline.messages import cut, shown, some

if TYPE_CHECKING:
    import pyarrow as pa

READ_BUFFER = 1 << 14
"""Bytes read ahead per column of a row group, so that a large row group is not read in full."""
PAGE_BYTES = 1 << 20
"""Usual size limit that writers set for a page, and for a dictionary, of a column of a row group."""
DECODER_BYTES = 1 << 28
"""A reader of all columns holds a page of each and all dictionaries. Beyond this, a few columns are read at a time."""
BLOCK_BYTES = 1 << 24
"""Size of the columns that are then read together."""
LEAST_COLUMNS = 4
"""Their least number: each is decoded by a thread of its own."""
RAW_ROWS = 1 << 16
"""Rows that are read at once when columns are read as they are."""


@dataclass(frozen=True)
class ParquetPartition(WithRoles, FilePartition):
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

    def chunks(self, columns: Positions | None) -> Iterator[Chunk]:
        """Read the row groups, a few rows at a time."""
        roles, wanted = self.roles, self.roles.wanted(columns)
        with self.mark.held(self.where), _opened(self.path) as file:
            self._check(file, wanted)
            for number in range(self.first, self.last + 1):
                group = _RowGroup(file, number, f"{self.path}, row group {number}")
                if roles.raw or group.decoder_bytes(wanted) <= DECODER_BYTES:
                    yield from roles.chunks(group.batches(wanted, roles.chunk_rows), columns, group.where)
                    continue
                # a few columns after another are decoded and written to a file, from which the rows are read
                others = group.batches(roles.others, roles.rows_at_once(columns))
                with TemporaryFile(prefix="budgetline-") as spilled:
                    table, row = group.spill(roles.features_at(columns), spilled), 0
                    for batch in others:
                        yield roles.chunk(batch, table.rows(row, row + batch.num_rows), group.where, row)
                        row += batch.num_rows

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
class _RowGroup:
    """A row group of an open file."""

    file: pa.parquet.ParquetFile
    number: int
    where: str

    def batches(self, names: list[str], size: int) -> Iterator[pa.RecordBatch]:
        return guarded(self.file.iter_batches(size, row_groups=[self.number], columns=names), self.where)

    def decoder_bytes(self, wanted: list[str]) -> int:
        """Estimate the memory needed to decode columns together, besides the rows."""
        metadata, names, total = self.file.metadata.row_group(self.number), set(wanted), 0
        for column in map(metadata.column, range(metadata.num_columns)):
            if column.path_in_schema in names:
                # an unpacked page; a dictionary is held twice, as a page and as values
                total += min(column.total_uncompressed_size, PAGE_BYTES) * (3 if column.has_dictionary_page else 1)
        return total

    def spill(self, names: list[str], file: IO[bytes]) -> _ColumnFile:
        """Write columns to a file; while some are written, the next ones are decoded."""
        n_rows, schema = self.file.metadata.row_group(self.number).num_rows, self.file.schema_arrow
        empty = arrow().record_batch({name: arrow().array([], schema.field(name).type) for name in names})
        table = _ColumnFile(file, n_rows, len(names), matrix_of(numbers_of(empty, names, self.where)).dtype)
        width = max(LEAST_COLUMNS, BLOCK_BYTES // (8 * max(n_rows, 1)))

        def blocks() -> Iterator[tuple[Array, int, int]]:
            for first in range(0, len(names), width):
                few, row = names[first : first + width], 0
                for batch in self.batches(few, max(1, BLOCK_BYTES // (8 * width))):
                    yield matrix_of(numbers_of(batch, few, self.where)), row, first
                    row += batch.num_rows

        for block, row, first in ahead(blocks()):
            table.write(block, row, first)
        return table


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


def parquet_schema(path: Path) -> pa.Schema:
    """Return the Arrow schema of a file."""
    with _opened(path) as file:
        return file.schema_arrow


def parquet_batches(path: Path, names: list[str]) -> Iterator[pa.RecordBatch]:
    """Yield columns of a file as they are, some rows at a time."""
    with _opened(path) as file:
        yield from guarded(file.iter_batches(RAW_ROWS, columns=names), str(path))


def _opened(path: Path) -> pa.parquet.ParquetFile:
    """Open a Parquet file so that reading needs memory for a chunk, not for a row group."""
    pa = arrow()
    try:
        return import_module("pyarrow.parquet").ParquetFile(path, pre_buffer=False, buffer_size=READ_BUFFER)
    except (OSError, pa.ArrowException) as error:
        raise ValueError(f"{path} is not a Parquet file, or it is damaged: {cut(str(error))}") from error
