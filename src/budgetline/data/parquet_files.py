"""Parquet files."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, Self

from budgetline.arrays import DType, Positions
from budgetline.data.column_blocks import Blocks, HeldBlocks, SpilledBlocks, rows_cut
from budgetline.data.marks import FilePartition, Mark
from budgetline.data.sources import SOURCE_BYTES, Chunk
from budgetline.data.tabular import (
    Roles,
    WithRoles,
    arrow,
    as_declared,
    declared_categories,
    guarded,
    numbers_of,
    type_of,
)
from budgetline.messages import cut, shown, some
from budgetline.threads import share_out

if TYPE_CHECKING:
    import pyarrow as pa

READ_BUFFER = 1 << 14
"""Bytes read ahead per column of a row group, so that a large row group is not read in full."""
HELD_BYTES = 1 << 29
"""Size of a row group that is held in memory, decoded."""
PAGE_BYTES = 1 << 20
"""Usual size limit that writers set for a page, and for a dictionary, of a column of a row group."""
DECODER_BYTES = 1 << 28
"""A reader of all columns holds a page and a dictionary of each. Beyond this, large row groups go through a file."""
BLOCK_ROWS, BLOCK_BYTES = 1 << 14, 1 << 18
"""Rows and size of what a thread decodes at once: few columns, which stay in its cache with their dictionaries.

Columns without dictionaries leave space for twice as much, which takes a tenth less time to read.
"""
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
        return _place(self.path, self.first, self.last)

    def chunks(self, columns: Positions | None) -> Iterator[Chunk]:
        """Read the row groups, a few rows at a time."""
        roles, wanted = self.roles, self.roles.wanted(columns)
        with self.mark.held(self.where), _Readers(self.path) as readers:
            file = readers.first
            self._check(file, wanted)
            declared = _schema(file)
            place = _place(self.path, self.first, self.first)
            numeric = None if roles.raw else _Numeric.of(file.schema_arrow, roles.features_at(columns), place)
            for numbers in self._together(file, len(wanted)):
                groups = _RowGroups(self.path, file.metadata, numbers)
                if numeric is None or groups.are_streamed(wanted):
                    batches = groups.batches(file, wanted, roles.chunk_rows, use_threads=True)
                    if roles.raw:
                        batches = (as_declared(batch, declared) for batch in batches)
                    yield from roles.chunks(batches, columns, groups.where)
                else:
                    yield from groups.chunks(readers, numeric, roles, roles.rows_at_once(columns))

    def _together(self, file: pa.parquet.ParquetFile, width: int) -> list[list[int]]:
        """Return the numbers of row groups that are decoded together: small ones; of raw columns, one at a time."""
        found: list[list[int]] = []
        total = 0
        for number in range(self.first, self.last + 1):
            size = 8 * width * file.metadata.row_group(number).num_rows
            if not found or self.roles.raw or total + size > SOURCE_BYTES:
                found.append([])
                total = 0
            found[-1].append(number)
            total += size
        return found

    def _check(self, file: pa.parquet.ParquetFile, wanted: list[str]) -> None:
        """Raise an error unless the file has the columns, and is cut into row groups as when it was opened."""
        names, metadata = dict.fromkeys(file.schema_arrow.names), file.metadata
        if missing := [name for name in wanted if name not in names]:
            raise ValueError(f"{self.path}: column {shown(missing[0])} is missing; the columns are {some(names, 10)}")
        groups = range(self.first, self.last + 1)
        same = metadata.num_row_groups == self.n_groups
        if not same or sum(metadata.row_group(k).num_rows for k in groups) != self.n_rows:
            raise ValueError(f"{self.where}: the file has changed since it was opened, and has other row groups")


class _Readers:
    """Readers of a file for threads, each of which needs its own; the metadata are read once."""

    def __init__(self, path: Path) -> None:
        self._path, self._open = path, ExitStack()
        self.first = self._open.enter_context(_opened(path))
        self._free = [self.first]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    @contextmanager
    def one(self) -> Iterator[pa.parquet.ParquetFile]:
        """Lend a reader that no other thread uses."""
        try:
            reader = self._free.pop()
        except IndexError:
            reader = self._open.enter_context(_opened(self._path, self.first.metadata))
        yield reader
        self._free.append(reader)


@dataclass(frozen=True)
class _Numeric:
    """Columns of numbers, the type of an array of them, and whether they are stored as such numbers."""

    names: list[str]
    dtype: DType
    as_stored: bool

    @classmethod
    def of(cls, schema: pa.Schema, names: list[str], where: str) -> _Numeric:
        """Check the types of columns."""
        pa, known = arrow(), {field.name: field.type for field in schema}
        types = {known[name]: name for name in reversed(names)}  # the first column of each type
        empty = pa.record_batch({name: pa.array([], kind) for kind, name in types.items()})
        numbers = numbers_of(empty, types.values(), where)
        return cls(names, type_of(numbers), numbers.schema.types == empty.schema.types)


@dataclass(frozen=True)
class _RowGroups:
    """Adjacent row groups of a file, by their numbers."""

    path: Path
    metadata: pa.parquet.FileMetaData
    numbers: list[int]

    @property
    def where(self) -> str:
        return _place(self.path, self.numbers[0], self.numbers[-1])

    def batches(
        self, file: pa.parquet.ParquetFile, names: list[str], size: int, *, use_threads: bool = False
    ) -> Iterator[pa.RecordBatch]:
        found = file.iter_batches(size, row_groups=self.numbers, columns=names, use_threads=use_threads)
        return guarded(found, self.where)

    def are_streamed(self, wanted: list[str]) -> bool:
        """Whether they are too large to be held, and all columns can be decoded at the same time."""
        return not self._fit(len(wanted)) and self._decoder_bytes(wanted) <= DECODER_BYTES

    def chunks(self, readers: _Readers, numeric: _Numeric, roles: Roles, size: int) -> Iterator[Chunk]:
        """Decode a few columns of all rows after another, then yield the rows, up to ``size`` at a time."""
        parts, width = self._parts(size), len(numeric.names)
        sizes = [stop - start for _, start, stop in parts]
        with ExitStack() as stack:
            if self._fit(width):
                blocks: Blocks = HeldBlocks(sizes, width, numeric.dtype, roles.beside)
            else:
                spilled = stack.enter_context(TemporaryFile(prefix="budgetline-"))
                blocks = SpilledBlocks(spilled, sizes, width, numeric.dtype, roles.beside)
            self._decode(blocks, readers, numeric, size, sizes)
            others = rows_cut(self.batches(stack.enter_context(readers.one()), roles.others, size), sizes, self.where)
            for (where, start, _), batch, room in zip(parts, others, blocks.taken(), strict=True):
                chunk = roles.chunk(batch, room.table, where, start)
                yield chunk if roles.drop else replace(chunk, room=room)

    def _decode(self, blocks: Blocks, readers: _Readers, numeric: _Numeric, size: int, sizes: list[int]) -> None:
        """Fill blocks of these sizes, in threads that each decode a few columns."""
        if self._have_dictionaries:
            chunks, space = max(1, BLOCK_ROWS // size), BLOCK_BYTES
        else:
            chunks, space = -(-BLOCK_ROWS // size), 2 * BLOCK_BYTES
        at_once = size * chunks  # whole chunks, so that nothing is joined
        width = max(1, space // (8 * max(1, min(at_once, sum(sizes)))))

        def work(number: int) -> None:
            first = number * width
            few = numeric.names[first : first + width]
            with readers.one() as file:
                for k, batch in enumerate(rows_cut(self.batches(file, few, at_once), sizes, self.where)):
                    blocks.put(k, first, batch if numeric.as_stored else numbers_of(batch, few, self.where))

        share_out(work, -(-len(numeric.names) // width))

    def _parts(self, size: int) -> list[tuple[str, int, int]]:
        """Return the rows of every chunk, within one row group, and where they are."""
        rows = [(number, self.metadata.row_group(number).num_rows) for number in self.numbers]
        return [
            (_place(self.path, number, number), start, min(start + size, n))
            for number, n in rows
            for start in range(0, n, size)
        ]

    def _fit(self, width: int) -> bool:
        """Whether so many columns can be held in memory."""
        rows = sum(int(self.metadata.row_group(number).num_rows) for number in self.numbers)
        return 8 * width * rows <= HELD_BYTES

    @property
    def _have_dictionaries(self) -> bool:
        """Whether a column has a dictionary, as far as the first row group tells."""
        group = self.metadata.row_group(self.numbers[0])
        return any(group.column(k).has_dictionary_page for k in range(group.num_columns))

    def _decoder_bytes(self, wanted: list[str]) -> int:
        """Estimate the memory needed to decode columns together, besides the rows."""
        names, total = set(wanted), 0
        for group in map(self.metadata.row_group, self.numbers):
            for column in map(group.column, range(group.num_columns)):
                if column.path_in_schema in names:
                    # an unpacked page; a dictionary is held twice, as a page and as values
                    total += min(column.total_uncompressed_size, PAGE_BYTES) * (3 if column.has_dictionary_page else 1)
        return total


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
