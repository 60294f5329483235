"""Sources of CSV files."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from budgetline.data.marks import Mark, Marked
from budgetline.data.sources import Chunk, Positions, rows_about
from budgetline.data.tabular import Roles, arrow, guarded
from budgetline.messages import cut, shown

CSV_BLOCK = 1 << 24
"""Bytes of text that are parsed at once."""


@dataclass(frozen=True)
class CsvPartition(Marked):
    """A CSV file, read from start to end. Features must be numbers; the first block decides what the targets are.

    A field without text is missing, also where the column holds text.
    """

    path: Path
    roles: Roles
    mark: Mark
    n_rows: None = None

    @property
    def about_rows(self) -> int | None:
        """Number of rows, by the length of the first lines."""
        return rows_about(self.path)

    def fingerprint(self) -> str:
        """Return a name for the contents of the file, and what is read of it."""
        return f"{self.mark.text(str(self.path))} {self.roles}"

    def chunks(self, columns: Positions | None) -> Iterator[Chunk]:
        """Parse the file, a block of text at a time."""
        wanted, pa = self.roles.wanted(columns), arrow()
        features = wanted[: len(wanted) - len(self.roles.wanted(np.empty(0, dtype=np.intp)))]
        weights = [] if self.roles.weight is None else [self.roles.weight]
        numbers = dict.fromkeys([*features, *weights], pa.float64())
        where = str(self.path)
        rows = 0
        with self.mark.held(where), _csv_reader(self.path, wanted, numbers) as reader:
            for k, batch in enumerate(guarded(reader, where)):
                self._check_missing(batch, rows, f"{where}, block {k}")
                rows += batch.num_rows
                for start in range(0, batch.num_rows, self.roles.chunk_rows):
                    part = batch.slice(start, self.roles.chunk_rows)
                    yield self.roles.chunk(part, columns, f"{where}, block {k}")

    def _check_missing(self, batch: Any, rows: int, where: str) -> None:
        """Raise an error that names the line if a target, weight or query is missing; ``rows`` came before."""
        for name in self.roles.wanted(np.empty(0, dtype=np.intp)):
            column = batch.column(name)
            missing = column.is_null().to_numpy(zero_copy_only=False)
            if arrow().types.is_string(column.type):
                missing = missing | (column.to_numpy(zero_copy_only=False) == "")
            if missing.any():
                line = _line(self.path, rows + int(missing.argmax()))
                count = int(missing.sum())
                raise ValueError(f"{where}: column {shown(name)} has {count} missing values, the first in line {line}")


def csv_schema(path: Path) -> Any:
    """Return the Arrow schema of a file: the names in its first line, with types by its first block."""
    with _csv_reader(path, None, {}) as reader:
        return reader.schema


def _line(path: Path, row: int) -> int:
    """Return the line of a row of data, both counted as people do and as the reader does: empty lines are no rows."""
    with path.open("rb") as file:
        filled = (number for number, line in enumerate(file, start=1) if line.strip(b"\r\n"))
        return next(islice(filled, row + 1, None))  # the first one holds the names


def _csv_reader(path: Path, wanted: list[str] | None, types: dict[str, Any]) -> Any:
    pa = arrow()
    csv = import_module("pyarrow.csv")
    convert = csv.ConvertOptions(include_columns=wanted, column_types=types)
    try:
        return csv.open_csv(path, csv.ReadOptions(block_size=CSV_BLOCK), convert_options=convert)
    except FileNotFoundError:
        raise FileNotFoundError(f"{path} does not exist") from None
    except (OSError, KeyError, pa.ArrowException) as error:
        raise ValueError(f"{path} cannot be read as CSV: {cut(str(error))}") from error
