"""CSV, Parquet and Excel files, whose columns have names; those of svmlight files are numbers as text."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import narwhals as nw

from budgetline.data.excel_files import excel_table
from budgetline.data.parquet_files import parquet_partitions, parquet_schema
from budgetline.data.sources import Mark, chunk_rows_for
from budgetline.data.svmlight_files import svmlight_table
from budgetline.data.tabular import NamedPartition, Roles, TablePartition
from budgetline.data.text_files import CsvFiles, CsvPartition

if TYPE_CHECKING:
    import pyarrow as pa

TABLES: Mapping[str, Callable[[Sequence[Path]], pa.Table]] = {
    "excel": lambda paths: excel_table(paths[0]),
    "svmlight": svmlight_table,
}
"""Kinds of files that are read as a whole: one Excel file, or all svmlight files."""


@dataclass(frozen=True)
class NamedFiles:
    """Files of a kind, such as "csv" or "parquet"; the first one determines names and types of the columns."""

    paths: tuple[Path, ...]
    kind: str
    schema: pa.Schema
    csv: CsvFiles | None

    @classmethod
    def of(
        cls, paths: Sequence[Path], kind: str, delimiter: str | None = None, na: str | Iterable[str] | None = None
    ) -> NamedFiles:
        """Find the columns; ``delimiter`` and ``na`` are for CSV files."""
        if kind != "csv" and (delimiter is not None or na):
            raise ValueError(f"a delimiter and texts of missing values are for CSV files, and {paths[0]} is {kind}")
        csv = CsvFiles.of(paths, delimiter, na) if kind == "csv" else None
        if kind in TABLES:
            return cls(tuple(paths), kind, TABLES[kind](paths).schema, None)
        return cls(tuple(paths), kind, csv.schema if csv else parquet_schema(paths[0]), csv)

    def partitions(self, roles: Roles) -> list[NamedPartition]:
        """Return the rows, with columns in these roles."""
        if self.csv is not None:
            return [CsvPartition(Mark.of(path), roles, self.csv) for path in self.paths]
        if self.kind in TABLES:
            several = [self.paths] if self.kind == "svmlight" else [[path] for path in self.paths]
            tables = [TABLES[self.kind](paths) for paths in several]
            return [TablePartition(roles, nw.from_native(table, eager_only=True)) for table in tables]
        return [part for path in self.paths for part in parquet_partitions(path, roles)]

    def batches(self, names: list[str], labels: Collection[str] = ()) -> Iterator[pa.RecordBatch]:
        """Yield columns with their types, a few rows at a time.

        Numbers of CSV files are floating-point numbers. Texts such as "NA" become missing values, except in the columns
        ``labels``: targets and queries.
        """
        roles = Roles((), tuple(labels), None, None, chunk_rows_for(len(names)), raw=True)
        for partition in self.partitions(roles):
            yield from (batch.select(names) for batch, _, _ in partition.batches(names))
