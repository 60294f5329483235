"""CSV, Parquet and Excel files, whose columns have names."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import narwhals as nw

from budgetline.data.excel_files import excel_table
from budgetline.data.parquet_files import parquet_partitions, parquet_schema
from budgetline.data.sources import Mark, chunk_rows_for
from budgetline.data.tabular import NamedPartition, Roles, TablePartition
from budgetline.data.text_files import CsvFiles, CsvPartition

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True)
class NamedFiles:
    """Files of a kind, "csv", "parquet" or "excel"; the first one determines names and types of the columns."""

    paths: tuple[Path, ...]
    kind: str
    schema: pa.Schema
    csv: CsvFiles | None

    @classmethod
    def of(
        cls, paths: Sequence[Path], kind: str, delimiter: str | None = None, na: str | Iterable[str] | None = None
    ) -> NamedFiles:
        """Find the columns; ``delimiter`` and ``na`` are for CSV files."""
        if kind == "svmlight":
            raise ValueError(f"the columns of {paths[0]} have no names: read svmlight files by open_data, in Python")
        if kind != "csv" and (delimiter is not None or na):
            raise ValueError(f"a delimiter and texts of missing values are for CSV files, and {paths[0]} is {kind}")
        csv = CsvFiles.of(paths, delimiter, na) if kind == "csv" else None
        schema = csv.schema if csv else excel_table(paths[0]).schema if kind == "excel" else parquet_schema(paths[0])
        return cls(tuple(paths), kind, schema, csv)

    def partitions(self, roles: Roles) -> list[NamedPartition]:
        """Return the rows, with columns in these roles."""
        if self.csv is not None:
            return [CsvPartition(Mark.of(path), roles, self.csv) for path in self.paths]
        if self.kind == "excel":
            return [TablePartition(roles, nw.from_native(excel_table(path), eager_only=True)) for path in self.paths]
        return [part for path in self.paths for part in parquet_partitions(path, roles)]

    def batches(self, names: list[str], labels: Collection[str] = ()) -> Iterator[pa.RecordBatch]:
        """Yield columns with their types, a few rows at a time.

        Numbers of CSV files are floating-point numbers. Texts such as "NA" become missing values, except in the columns
        ``labels``: targets and queries.
        """
        roles = Roles((), tuple(labels), None, None, chunk_rows_for(len(names)), raw=True)
        for partition in self.partitions(roles):
            yield from (batch.select(names) for batch, _, _ in partition.batches(names))
