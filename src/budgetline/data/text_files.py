"""Text files: CSV, and svmlight with query ids."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from importlib import import_module
from io import BytesIO
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from sklearn.datasets import load_svmlight_file

from budgetline.arrays import Array, Positions, Table
from budgetline.data.marks import FilePartition, Mark, rows_about
from budgetline.data.sources import Chunk, Source
from budgetline.data.tabular import Roles, arrow, guarded
from budgetline.messages import cut, shown

if TYPE_CHECKING:
    import pyarrow as pa

CSV_BLOCK = 1 << 24
"""Bytes of text parsed at once."""
TEXT_BYTES = 1 << 25
"""Bytes of text that make a chunk."""
LARGEST_INDEX = 2**31 - 1
"""The number of features while it is not known."""


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
                yield from roles.chunks([batch], columns, where)

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


@dataclass(frozen=True)
class SvmlightPartition(FilePartition):
    """The lines of a file that begin between two positions."""

    start: int
    stop: int
    n_features: int
    ranked: bool
    zero_based: bool

    @property
    def about_rows(self) -> int | None:
        """Number of rows, estimated from the length of the first lines."""
        return rows_about(self.path, self.stop - self.start)

    @property
    def where(self) -> str:
        """The file and its bytes."""
        return f"{self.path}, bytes {self.start} to {self.stop - 1}"

    def anew(self) -> SvmlightPartition:
        """Return the partition of the file as it is now; it was split by size, so the size must be the same."""
        found = super().anew()
        if found.mark.size != self.mark.size:
            raise ValueError(f"{self.where}: the file has changed since it was opened, and has another size")
        return found

    def chunks(self, columns: Positions | None) -> Iterator[Chunk]:
        """Parse the lines."""
        with self.mark.held(self.where):
            X, y, qid = self._parsed()
        yield Chunk.of(X if columns is None else X[:, columns], y, None, qid if self.ranked else None, self.where)

    def _parsed(self) -> tuple[Table, Array, Array]:
        """Return X (CSR), y and qid."""
        try:
            text = BytesIO(_lines(self.path, self.start, self.stop))
            X, y, qid = load_svmlight_file(text, n_features=self.n_features, zero_based=self.zero_based, query_id=True)
            return X, y, qid
        except (OSError, ValueError, OverflowError) as error:
            raise ValueError(f"{self.where}: {cut(str(error))}") from error


def svmlight_source(paths: list[Path], n_features: int | None, zero_based: bool, ranked: bool) -> Source:
    """Return a source of files of lines ``target [qid:q] index:value …``.

    Without ``n_features`` the files are read once to find the largest index.
    """
    parts: list[SvmlightPartition] = []
    for path in paths:
        size = Mark.of(path).size
        for start in range(0, size, TEXT_BYTES):
            stop = min(start + TEXT_BYTES, size)
            mark = Mark.of(path, start, stop)
            parts.append(SvmlightPartition(mark, start, stop, n_features or LARGEST_INDEX, ranked, zero_based))
    if n_features is None:
        found = (chunk.X.indices.max(initial=-1) for part in parts for chunk in part.chunks(None))
        n_features = 1 + max(map(int, found), default=-1)
        parts = [replace(part, n_features=n_features) for part in parts]
    if n_features < 1:
        raise ValueError(f"{paths[0]} holds no features")
    return Source(parts, n_features, None, ())


def _lines(path: Path, start: int, stop: int) -> bytes:
    """Return the lines that begin between two positions.

    The ``offset`` of scikit-learn's reader would read twice lines that are longer than the distance.
    """
    with path.open("rb") as file:
        if start > 0:
            file.seek(start - 1)
            file.readline()  # the rest of a line that began before
        text = file.read(max(0, stop - file.tell()))
        return text if text.endswith(b"\n") or not text else text + file.readline()
