"""CSV files."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from budgetline.arrays import Positions
from budgetline.data.marks import FilePartition, rows_about
from budgetline.data.sources import Chunk
from budgetline.data.tabular import Roles, arrow, guarded
from budgetline.messages import cut, shown

if TYPE_CHECKING:
    import pyarrow as pa

CSV_BLOCK = 1 << 24
"""Bytes of text parsed at once."""


@dataclass(frozen=True)
class CsvPartition(FilePartition):
    """A CSV file, read from start to end. Features must be numbers; the first block decides the type of the targets.

    An empty field is missing, also in a column of text.
    """

    roles: Roles

    @property
    def about_rows(self) -> int | None:
        """Number of rows, estimated from the length of the first lines."""
        return rows_about(self.path)

    def fingerprint(self) -> str:
        """Return a text that identifies the contents of the file, and the parts that are read."""
        return f"{self.mark.text(self.where)} {self.roles}"

    def chunks(self, columns: Positions | None) -> Iterator[Chunk]:
        """Parse the file, a block of text at a time."""
        roles = self.roles
        numbers = roles.features_at(columns) + ([] if roles.weight is None else [roles.weight])
        rows = 0
        with self.mark.held(self.where), _reader(self.path, roles.wanted(columns), numbers) as reader:
            for k, batch in enumerate(guarded(reader, self.where)):
                where = f"{self.where}, block {k}"
                self._check_missing(batch, rows, where)
                rows += batch.num_rows
                slices = (batch.slice(s, roles.chunk_rows) for s in range(0, batch.num_rows, roles.chunk_rows))
                yield from roles.chunks(slices, columns, where)

    def _check_missing(self, batch: pa.RecordBatch, rows: int, where: str) -> None:
        """Raise an error that names the line if a target, weight or query is missing; ``rows`` came before."""
        for name in self.roles.others:
            column = batch.column(name)
            missing = column.is_null().to_numpy(zero_copy_only=False)
            if arrow().types.is_string(column.type):
                missing = missing | (column.to_numpy(zero_copy_only=False) == "")
            if missing.any():
                line = _line(self.path, rows + int(missing.argmax()))
                count = int(missing.sum())
                raise ValueError(f"{where}: column {shown(name)} has {count} missing values, the first in line {line}")


def csv_schema(path: Path) -> pa.Schema:
    """Return the Arrow schema of a file: the names in its first line, with types from its first block."""
    with _reader(path, None, []) as reader:
        return reader.schema


def _line(path: Path, row: int) -> int:
    """Return the line number of a row: lines count from 1, empty lines are skipped, the first line holds the names."""
    with path.open("rb") as file:
        filled = (number for number, line in enumerate(file, start=1) if line.strip(b"\r\n"))
        return next(islice(filled, row + 1, None))


def _reader(path: Path, wanted: list[str] | None, numbers: list[str]) -> pa.csv.CSVStreamingReader:
    pa = arrow()
    csv = import_module("pyarrow.csv")
    convert = csv.ConvertOptions(include_columns=wanted, column_types=dict.fromkeys(numbers, pa.float64()))
    try:
        return csv.open_csv(path, csv.ReadOptions(block_size=CSV_BLOCK), convert_options=convert)
    except (OSError, KeyError, pa.ArrowException) as error:
        raise ValueError(f"{path} cannot be read as CSV: {cut(str(error))}") from error
