"""Parquet files, read by row groups."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from budgetline.arrays import DType, Positions
from budgetline.data.marks import FilePartition, Mark
from budgetline.data.sources import SOURCE_BYTES, Chunk
from budgetline.data.tabular import (
    Roles,
    WithRoles,
    arrow,
    as_declared,
    declared_categories,
    fill,
    guarded,
    numbers_of,
    type_of,
)
from budgetline.messages import cut, shown, some

if TYPE_CHECKING:
    import pyarrow as pa

READ_BUFFER = 1 << 14
"""Bytes read ahead per column of a row group, so that a large row group is not read in full."""
HELD_BYTES = 1 << 29
"""Row groups up to this size are decoded a few columns at a time and held in memory; larger ones are streamed."""
COLUMN_BYTES = 3 << 20
"""Memory that streaming needs for each column: a page, and a dictionary twice. So wide row groups are held, too."""
BLOCK_BYTES = 1 << 23
"""Size of the columns that are decoded together."""
RAW_ROWS = 1 << 16
"""Rows that are read at once when columns keep their types."""


@dataclass(frozen=True)
class ParquetPartition(WithRoles, FilePartition):
    """Adjacent row groups of a Parquet file that has ``n_groups`` in all."""

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
        return _place(self.path, self.first, self.last)

    def chunks(self, columns: Positions | None) -> Iterator[Chunk]:
        """Read the row groups, a few rows at a time."""
        with self.mark.held(self.where), _opened(self.path) as file:
            self._check(file, self.roles.wanted(columns))
            for numbers in self._together(file, len(self.roles.wanted(columns))):
                yield from self._read(file, numbers, columns)

    def _read(self, file: pa.parquet.ParquetFile, numbers: list[int], columns: Positions | None) -> Iterator[Chunk]:
        """Yield the rows of adjacent row groups."""
        roles, wanted, where = self.roles, self.roles.wanted(columns), _place(self.path, numbers[0], numbers[-1])
        rows = sum(_rows(file, number) for number in numbers)
        if not rows:
            return
        if not roles.raw and 8 * len(wanted) * rows <= max(HELD_BYTES, COLUMN_BYTES * len(wanted)):
            yield from self._read_held(file, numbers, columns, where)
            return
        batches = guarded(file.iter_batches(roles.rows_at_once(columns), row_groups=numbers, columns=wanted), where)
        if roles.raw:
            declared = _schema(file)
            batches = (as_declared(batch, declared) for batch in batches)
        yield from roles.chunks(batches, columns, where)

    def _read_held(
        self, file: pa.parquet.ParquetFile, numbers: list[int], columns: Positions | None, where: str
    ) -> Iterator[Chunk]:
        """Decode a few columns of all rows after another, then yield the rows. No chunk spans two row groups."""
        roles, names, size = self.roles, self.roles.features_at(columns), self.roles.rows_at_once(columns)
        parts = [
            (_place(self.path, number, number), start, min(size, _rows(file, number) - start))
            for number in numbers
            for start in range(0, _rows(file, number), size)
        ]
        dtype = _dtype_of(file.schema_arrow, names, parts[0][0])
        blocks = [np.empty((len(names), m), dtype) for _, _, m in parts]
        width = max(1, BLOCK_BYTES // (8 * sum(m for _, _, m in parts)))
        for k in range(0, len(names), width):
            few = names[k : k + width]
            table, start = numbers_of(_read_columns(file, numbers, few, where), few, where), 0
            for block in blocks:
                fill(block[k : k + width], table.slice(start, block.shape[1]))
                start += block.shape[1]
        others, row = _read_columns(file, numbers, roles.others, where), 0
        blocks.reverse()
        for place, start, m in parts:
            yield roles.chunk(others.slice(row, m), blocks.pop().T, place, start)
            row += m

    def _together(self, file: pa.parquet.ParquetFile, width: int) -> list[list[int]]:
        """Return the numbers of row groups that are decoded together: small ones; of raw columns, one at a time."""
        found: list[list[int]] = []
        total = 0
        for number in range(self.first, self.last + 1):
            size = 8 * width * _rows(file, number)
            if not found or self.roles.raw or total + size > SOURCE_BYTES:
                found.append([])
                total = 0
            found[-1].append(number)
            total += size
        return found

    def _check(self, file: pa.parquet.ParquetFile, wanted: list[str]) -> None:
        """Raise an error unless the file has the columns, and is cut into row groups as when it was opened."""
        names = dict.fromkeys(file.schema_arrow.names)
        if missing := [name for name in wanted if name not in names]:
            raise ValueError(f"{self.path}: column {shown(missing[0])} is missing; the columns are {some(names, 10)}")
        same = file.metadata.num_row_groups == self.n_groups
        if not same or sum(_rows(file, k) for k in range(self.first, self.last + 1)) != self.n_rows:
            raise ValueError(f"{self.where}: the file has changed since it was opened, and has other row groups")


def _rows(file: pa.parquet.ParquetFile, number: int) -> int:
    """Return the number of rows of a row group."""
    return int(file.metadata.row_group(number).num_rows)


def _dtype_of(schema: pa.Schema, names: list[str], where: str) -> DType:
    """Return the type of an array that holds these columns; columns that hold no numbers are an error."""
    types = {schema.field(name).type: name for name in reversed(names)}  # the first column of each type
    empty = {name: arrow().array([], kind) for kind, name in types.items()}
    return type_of(numbers_of(arrow().record_batch(empty), types.values(), where)) if empty else np.dtype(np.float64)


def _read_columns(file: pa.parquet.ParquetFile, numbers: list[int], names: list[str], where: str) -> pa.RecordBatch:
    """Return columns of row groups as one record batch."""
    rows = sum(_rows(file, number) for number in numbers)
    batches = list(guarded(file.iter_batches(rows, row_groups=numbers, columns=names), where))
    if len(batches) > 1:  # a batch of text may end with its row group
        batches = arrow().Table.from_batches(batches).combine_chunks().to_batches()
    return batches[0]


def _place(path: Path, first: int, last: int) -> str:
    """Name row groups of a file."""
    return f"{path}, row group {first}" if first == last else f"{path}, row groups {first} to {last}"


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
        return _schema(file)


def _schema(file: pa.parquet.ParquetFile) -> pa.Schema:
    return declared_categories(file.metadata.metadata, file.schema_arrow)


def parquet_batches(path: Path, names: list[str]) -> Iterator[pa.RecordBatch]:
    """Yield columns of a file as they are, some rows at a time."""
    with _opened(path) as file:
        declared = _schema(file)
        batches = guarded(file.iter_batches(RAW_ROWS, columns=names), str(path))
        yield from (as_declared(batch, declared) for batch in batches)


def _opened(path: Path, metadata: pa.parquet.FileMetaData | None = None) -> pa.parquet.ParquetFile:
    """Open a Parquet file so that reading needs memory for a chunk, not for a row group; its metadata may be known."""
    pa, parquet = arrow(), import_module("pyarrow.parquet")
    try:
        metadata = _parsed(_footer(path)) if metadata is None else metadata
        return parquet.ParquetFile(path, metadata=metadata, pre_buffer=False, buffer_size=READ_BUFFER)
    except UnicodeEncodeError as error:
        raise ValueError(f"pyarrow cannot open {shown(str(path))}, whose name is not UTF-8: rename the file") from error
    except (OSError, pa.ArrowException) as error:
        raise ValueError(f"{path} is not a Parquet file, or it is damaged: {cut(str(error))}") from error


def _footer(path: Path) -> bytes:
    """Return the last bytes of a file: metadata, their length and four letters; without these, less than that."""
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - 8))
        end = file.read()
        if end[4:] == b"PAR1":  # else it may be a large file of another kind
            file.seek(max(0, size - 8 - int.from_bytes(end[:4], "little")))
            end = file.read()
    return end


@lru_cache(maxsize=1)
def _parsed(footer: bytes) -> pa.parquet.FileMetaData:
    """Return metadata; the partitions of a file, which follow each other, share them, as parsing takes milliseconds."""
    return import_module("pyarrow.parquet").read_metadata(arrow().BufferReader(footer))
