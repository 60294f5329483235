"""CSV, Parquet, Excel and svmlight files, as tables of named columns.

Columns of Excel files are named by the first row of the first sheet; those of svmlight files by numbers as text.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

import narwhals as nw

from budgetline.data.parquet_files import parquet_partitions, parquet_schema
from budgetline.data.sources import Mark, chunk_rows_for
from budgetline.data.svmlight_files import svmlight_table
from budgetline.data.tabular import NamedPartition, Roles, TablePartition, arrow
from budgetline.data.text_files import CsvFiles, CsvPartition
from budgetline.encoding.raw import category_text
from budgetline.messages import cut, shown
from budgetline.packages import imported

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
        """Yield columns, a few rows at a time; in ``labels``, texts such as "NA" are no missing values."""
        roles = Roles((), tuple(labels), None, None, chunk_rows_for(len(names)), raw=True)
        for partition in self.partitions(roles):
            yield from (batch.select(names) for batch, _, _ in partition.batches(names))


# -- Excel -----------------------------------------------------------------------------------------------------


def excel_table(path: Path) -> pa.Table:
    """Read a file as an Arrow table: numbers, flags, dates and text."""
    return _read(Mark.of(path))


@lru_cache(maxsize=1)
def _read(mark: Mark) -> pa.Table:
    """Read a file. Its columns and its rows are asked for by separate calls."""
    path = mark.path
    calamine = imported("python_calamine", "Excel files need python-calamine", "excel")
    try:
        [header, *rows] = calamine.CalamineWorkbook.from_path(str(path)).get_sheet_by_index(0).to_python() or [[]]
    except (OSError, calamine.CalamineError) as error:
        raise ValueError(f"{path} cannot be read as an Excel file: {cut(str(error))}") from error
    columns = [[row[k] for row in rows] for k in range(len(header))]
    given = [(category_text(name).strip(), values) for name, values in zip(header, columns, strict=True)]
    known = [(name or f"column {k}", values) for k, (name, values) in enumerate(given, 1) if name or any(values)]
    if not known or not rows:
        raise ValueError(f"{path}: the first sheet holds no table")
    [(name, times)] = Counter(name for name, _ in known).most_common(1)
    if times > 1:
        raise ValueError(f"{path} has two columns {shown(name)}: give them different names")
    return arrow().table({name: _column(values) for name, values in known})


def _column(values: Sequence[object]) -> pa.Array:
    """Return the cells of a column as numbers, flags or dates if all are, else as trimmed text; blanks are missing."""
    trimmed = (cell.strip() if isinstance(cell, str) else cell for cell in values)
    cells = [None if cell == "" else cell for cell in trimmed]
    kinds = {type(cell) for cell in cells if cell is not None}
    if kinds == {date, datetime}:
        cells = [datetime(*cell.timetuple()[:6]) if isinstance(cell, date) else None for cell in cells]
    elif len(kinds) > 1 and not kinds <= {int, float}:
        cells = [None if cell is None else category_text(cell) for cell in cells]
    return arrow().array(cells, from_pandas=True)
