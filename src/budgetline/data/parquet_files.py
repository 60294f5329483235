"""Parquet files, read by row groups, a few rows at a time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from budgetline.data.sources import FilePartition, Mark
from budgetline.data.tabular import Batch, NamedPartition, Roles, arrow, guarded
from budgetline.messages import cut, shown, some

if TYPE_CHECKING:
    import pyarrow as pa

READ_BUFFER = 1 << 14
"""Bytes read ahead per column of a row group, so that a large row group is not read in full."""


@dataclass(frozen=True)
class ParquetPartition(NamedPartition, FilePartition):
    """Adjacent row groups of a Parquet file."""

    first: int
    last: int
    n_rows: int

    @property
    def about_rows(self) -> int:
        return self.n_rows

    @property
    def where(self) -> str:
        groups = f"row group {self.first}" if self.first == self.last else f"row groups {self.first} to {self.last}"
        return f"{self.path}, {groups}"

    def batches(self, names: list[str]) -> Iterator[Batch]:
        with self.mark.held(self.where), _opened(self.mark) as file:
            known = dict.fromkeys(file.schema_arrow.names)  # the first file names the columns of all
            if missing := [name for name in names if name not in known]:
                columns = some(known, 10)
                raise ValueError(f"{self.path}: column {shown(missing[0])} is missing; the columns are {columns}")
            for group in range(self.first, self.last + 1):
                where, first = f"{self.path}, row group {group}", 0
                rows = self.roles.rows_at_once(len(names))
                batches = file.iter_batches(rows, row_groups=[group], columns=names)
                for batch in guarded(batches, where):
                    yield batch, where, first
                    first += batch.num_rows


def parquet_partitions(path: Path, roles: Roles) -> Iterator[ParquetPartition]:
    """Cut a file into partitions of whole row groups, small ones together up to the size of a chunk."""
    mark = Mark.of(path)
    with _opened(mark) as file:
        sizes = [file.metadata.row_group(k).num_rows for k in range(file.num_row_groups)]
    first, rows = 0, 0
    for k, size in enumerate(sizes):
        rows += size
        if rows >= roles.chunk_rows or k == len(sizes) - 1:
            if rows:
                yield ParquetPartition(mark, roles, first, k, rows)
            first, rows = k + 1, 0


def parquet_schema(path: Path) -> pa.Schema:
    """Return the Arrow schema of a file."""
    with _opened(Mark.of(path)) as file:
        return file.schema_arrow


def _opened(mark: Mark) -> pa.parquet.ParquetFile:
    """Open a Parquet file so that reading needs memory for a chunk, not for a row group."""
    pa, parquet = arrow(), import_module("pyarrow.parquet")
    try:
        return parquet.ParquetFile(mark.path, metadata=_metadata(mark), pre_buffer=False, buffer_size=READ_BUFFER)
    except (OSError, pa.ArrowException) as error:
        raise ValueError(f"{mark.path} is not a Parquet file, or it is damaged: {cut(str(error))}") from error


@lru_cache(maxsize=1)
def _metadata(mark: Mark) -> pa.parquet.FileMetaData:
    """Return metadata; the partitions of a file, which follow each other, share them, as parsing takes milliseconds."""
    return import_module("pyarrow.parquet").read_metadata(mark.path)
