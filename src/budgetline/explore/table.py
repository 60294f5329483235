"""The table of a session: what is in its columns, what they can be used for, and its rows."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from hashlib import file_digest, sha256
from pathlib import Path
from typing import TYPE_CHECKING

import narwhals as nw
import numpy as np

from budgetline.arrays import Array
from budgetline.data import open_source
from budgetline.data.description import ColumnDescription, describe
from budgetline.data.opening import files_of
from budgetline.data.raw_files import RawFiles
from budgetline.explore.state import TASKS
from budgetline.messages import shown, some

if TYPE_CHECKING:
    import pyarrow as pa

NUMBERS = ("number", "integer", "boolean")
"""Kinds of columns that can be used as they are."""
MOST_CLASSES = 50
"""Classes of a target."""
UNUSABLE = ("other", "empty")
"""Kinds of columns that are left out at first: of no use, or of no known one."""


@dataclass(frozen=True)
class Table:
    """What was understood of a table; ``columns`` are as :class:`ColumnDescription` counts them."""

    name: str
    rows: int
    columns: tuple[ColumnDescription, ...]
    notes: tuple[str, ...] = ()

    @cached_property
    def by_name(self) -> dict[str, ColumnDescription]:
        """The columns by name."""
        return {column.name: column for column in self.columns}

    def n_levels(self, column: str) -> int | None:
        """Return the number of different values of a column, None: very many."""
        return self.by_name[column].levels

    def task_of(self, target: str) -> str:
        """Return what a target asks for: text, flags and two whole numbers are classes, other numbers are numbers."""
        found = self.by_name[target]
        if found.missing:
            raise ValueError(f"column {shown(target)} lacks {found.missing:,} values: a target needs all of them")
        if found.kind in ("date", *UNUSABLE):
            raise ValueError(f"column {shown(target)} holds neither numbers nor labels: it cannot be the target")
        few = found.kind == "integer" and found.levels is not None and found.levels <= 2
        task = "regression" if found.kind in ("number", "integer") and not few else "classification"
        self.check_task(target, task)
        return task

    def check_task(self, target: str, task: str) -> None:
        """Raise an error if a target does not allow a task."""
        found = self.by_name[target]
        if task not in TASKS:
            raise ValueError(f"task must be one of {some(TASKS)}, got {shown(task)}")
        if task == "regression" and found.kind in ("text", "category"):
            raise ValueError(f"column {shown(target)} holds text: predict it as a class, not as a number")
        if task == "classification" and found.kind == "number":
            raise ValueError(f"column {shown(target)} holds numbers that are not whole: predict it as a number")
        if task == "classification" and (found.levels is None or found.levels > MOST_CLASSES):
            raise ValueError(
                f"column {shown(target)} has {found.levels or 'very many'} values, and {MOST_CLASSES} is the most"
            )
        if found.levels is not None and found.levels < 2:
            raise ValueError(f"column {shown(target)} has the same value in every row: there is nothing to learn")

    def check_loss(self, target: str, loss: str) -> None:
        """Raise an error if a target does not allow a loss."""
        low = self.by_name[target].low
        if loss == "poisson" and isinstance(low, int | float) and low < 0:
            raise ValueError(f"column {shown(target)} holds {low:g}, and a count cannot be negative")

    def encoding_for(self, columns: Iterable[str]) -> str:
        """Return "none" if the columns are numbers in all rows, else "spline"."""
        return "none" if all(self._plain(column) for column in columns) else "spline"

    def check_encoding(self, encoding: str, columns: Iterable[str]) -> None:
        """Raise an error if columns cannot be used with an encoding."""
        for name in columns:
            found = self.by_name[name]
            if found.kind == "other":
                raise ValueError(f"column {shown(name)} is of a kind that cannot be used")
            if encoding == "none" and not self._plain(name):
                why = f"lacks {found.missing:,} values" if found.missing else f"holds {found.kind}, not numbers"
                raise ValueError(
                    f"column {shown(name)} {why}: leave it out, or use columns as curves (encoding spline)"
                )

    def _plain(self, column: str) -> bool:
        found = self.by_name[column]
        return found.kind in NUMBERS and not found.missing


@dataclass(frozen=True)
class Sample:
    """All rows: the columns of a table, as an Arrow table, and the target (n,)."""

    X: pa.Table
    y: Array


@dataclass(frozen=True)
class Data:
    """Where rows come from: files that the user named on the command line, and what is known of their format."""

    place: str
    delimiter: str | None = None
    na: tuple[str, ...] = ()

    @cached_property
    def found(self) -> tuple[list[Path], str]:
        """The files, and their format."""
        paths, kind = files_of(self.place, None)
        if kind != "csv" and (self.delimiter is not None or self.na):
            raise ValueError(f"a delimiter and texts of missing values are for CSV files, {self.place} is {kind}")
        if kind == "svmlight":
            raise ValueError(f"the columns of {self.place} have no names: this is for CSV and Parquet files")
        return paths, kind

    @property
    def name(self) -> str:
        """The name of the file or folder, without the path."""
        return Path(self.place).name

    @cached_property
    def digest(self) -> str:
        """A text that identifies the content of the files."""
        total = sha256()
        for path in self.found[0]:
            with path.open("rb") as file:
                total.update(file_digest(file, "sha256").digest())
        return total.hexdigest()

    @cached_property
    def table(self) -> Table:
        """What is in the files."""
        paths, kind = self.found
        found = describe(RawFiles.of(paths, kind, self.delimiter, self.na or None))
        if not found.rows:
            raise ValueError(f"{self.place} holds no rows")
        return Table(self.name, found.rows, found.columns, () if found.text is None else tuple(found.text.in_words))

    def read(self, target: str) -> Sample:
        """Read all rows, the columns beside the target as they are."""
        names = [column.name for column in self.table.columns if column.name != target and column.kind != "other"]
        paths, kind = self.found
        mark, na = self.delimiter, self.na or None
        source = open_source([*paths], target, features=names, file_format=kind, delimiter=mark, na=na).raw()
        chunks = [chunk for partition in source.partitions for chunk in partition.chunks(None) if chunk.n_rows]
        return Sample(
            nw.concat([chunk.X for chunk in chunks]).to_native(), np.concatenate([chunk.y for chunk in chunks])
        )
