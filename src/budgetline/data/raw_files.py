"""Files with named columns of any kind: text, categories, dates, missing values."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from budgetline.data.excel_files import excel_table
from budgetline.data.parquet_files import parquet_batches, parquet_schema
from budgetline.data.text_files import CsvFiles, Texts

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True)
class RawFiles:
    """CSV, Parquet or Excel files; the first one determines names and types of the columns."""

    paths: tuple[Path, ...]
    schema: pa.Schema
    csv: CsvFiles | None
    excel: bool = False

    @classmethod
    def of(cls, paths: Sequence[Path], kind: str, delimiter: str | None = None, na: Texts = None) -> RawFiles:
        """Open files of a kind, "csv", "parquet" or "excel"."""
        if kind == "excel":
            return cls(tuple(paths), excel_table(paths[0]).schema, None, excel=True)
        csv = CsvFiles.of(paths, delimiter, na) if kind == "csv" else None
        return cls(tuple(paths), parquet_schema(paths[0]) if csv is None else csv.schema, csv)

    def batches(self, names: list[str], labels: Collection[str] = ()) -> Iterator[pa.RecordBatch]:
        """Yield columns, block after block, file after file.

        Numbers of CSV files are floating-point numbers. Texts such as "NA" become missing values, except in the columns
        ``labels``: targets and queries.
        """
        for path in self.paths:
            if self.excel:
                yield from excel_table(path).select(names).to_batches()
                continue
            if self.csv is None:
                yield from parquet_batches(path, names)
                continue
            csv = self.csv
            numbers = csv.as_numbers(name for name in names if name not in labels)
            for batch in csv.batches(path, names, numbers):
                yield csv.with_gaps(batch, labels)
