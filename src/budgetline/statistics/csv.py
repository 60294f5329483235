"""Sources of CSV files."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from budgetline.messages import cut
from budgetline.statistics.sources import Chunk, Positions, rows_about, stamp
from budgetline.statistics.tabular import Roles, arrow, guarded

CSV_BLOCK = 1 << 24
"""Bytes of text that are parsed at once."""


@dataclass(frozen=True)
class CsvPartition:
    """A CSV file, read from start to end. Features must be numbers; the first block decides what the targets are."""

    path: Path
    roles: Roles
    n_rows: None = None

    @property
    def about_rows(self) -> int | None:
        """Number of rows, by the length of the first lines."""
        return rows_about(self.path)

    def fingerprint(self) -> str:
        """Return the file's place, size and time, and what is read of it."""
        return f"{stamp(self.path)} {self.roles}"

    def chunks(self, columns: Positions | None) -> Iterator[Chunk]:
        """Parse the file, a block of text at a time."""
        wanted, pa = self.roles.wanted(columns), arrow()
        features = wanted[: len(wanted) - len(self.roles.wanted(np.empty(0, dtype=np.intp)))]
        weights = [] if self.roles.weight is None else [self.roles.weight]
        numbers = dict.fromkeys([*features, *weights], pa.float64())
        where = str(self.path)
        with _csv_reader(self.path, wanted, numbers) as reader:
            for k, batch in enumerate(guarded(reader, where)):
                for start in range(0, batch.num_rows, self.roles.chunk_rows):
                    part = batch.slice(start, self.roles.chunk_rows)
                    yield self.roles.chunk(part, columns, f"{where}, block {k}")


def csv_schema(path: Path) -> Any:
    """Return the Arrow schema of a file: the names in its first line, with types by its first block."""
    with _csv_reader(path, None, {}) as reader:
        return reader.schema


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
