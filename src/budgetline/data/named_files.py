"""CSV, Parquet and Excel files, whose columns have names; those of Excel are in the first row of the first sheet."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

import narwhals as nw

from budgetline.data.parquet_files import parquet_partitions, parquet_schema
from budgetline.data.sources import Mark, chunk_rows_for
from budgetline.data.tabular import NamedPartition, Roles, TablePartition, arrow
from budgetline.data.text_files import CsvFiles, CsvPartition
from budgetline.encoding.raw import level_text
from budgetline.messages import cut, shown

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
    try:
        calamine = import_module("python_calamine")
    except ImportError as error:
        raise ImportError("Excel files need python-calamine: pip install 'budgetline[excel]'") from error
    try:
        [header, *rows] = calamine.CalamineWorkbook.from_path(str(path)).get_sheet_by_index(0).to_python() or [[]]
    except (OSError, calamine.CalamineError) as error:
        raise ValueError(f"{path} cannot be read as an Excel file: {cut(str(error))}") from error
    columns = [[row[k] for row in rows] for k in range(len(header))]
    given = [(level_text(name).strip(), values) for name, values in zip(header, columns, strict=True)]
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
        cells = [None if cell is None else level_text(cell) for cell in cells]
    return arrow().array(cells, from_pandas=True)
