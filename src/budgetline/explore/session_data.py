"""The data of a session: what is in the columns, what they can be used for, and the rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache, cached_property
from hashlib import file_digest, sha256
from pathlib import Path
from typing import TYPE_CHECKING

import narwhals as nw
import numpy as np

from budgetline.arrays import Array
from budgetline.data import open_data
from budgetline.data.description import TableDescription, describe
from budgetline.data.named_files import NamedFiles
from budgetline.data.opening import files_of
from budgetline.data.sources import Source, row_names
from budgetline.data.target_column import as_numbers, check_task, check_values, task_of, too_many_classes
from budgetline.inputs import MOST_CLASSES
from budgetline.messages import shown

if TYPE_CHECKING:
    import pyarrow as pa

NO_COLUMNS = np.empty(0, dtype=np.intp)


@dataclass(frozen=True, eq=False)
class Target:
    """A column as the target: its values ``y`` (n,) in the rows that have one, and the task for them.

    ``dropped`` counts the other rows. ``form`` describes numbers that are written as text, such as "8.90%", or is "".
    """

    name: str
    y: Array
    task: str
    dropped: int
    form: str

    @cached_property
    def classes(self) -> Array:
        """The different values, ascending."""
        return np.unique(self.y)

    def check_task(self, task: str) -> None:
        """Raise an error if the values do not allow a task."""
        check_task(self.y, task, f"column {shown(self.name)} holds")
        if task == "classification" and self.classes.size > MOST_CLASSES:
            raise ValueError(too_many_classes(self.name, self.y[:2].tolist()))
        if self.classes.size < 2:
            raise ValueError(f"column {shown(self.name)} has the same value in every row: there is nothing to learn")


@dataclass(frozen=True)
class Sample:
    """The rows that have a target: the columns of a table, as an Arrow table, and the target (n,)."""

    X: pa.Table
    y: Array

    def of(self, columns: Iterable[str]) -> Sample:
        """Return the same rows of some of the columns."""
        return Sample(self.X.select(list(columns)), self.y)


@dataclass(frozen=True)
class Data:
    """Where rows come from: files that the user named on the command line, and what is known of their format."""

    place: str
    delimiter: str | None = None
    na: tuple[str, ...] = ()

    @cached_property
    def found(self) -> tuple[list[Path], str]:
        """The files, and their format."""
        found = files_of(self.place, None)
        if found[1] == "svmlight":
            raise ValueError(
                f"{self.place}: explore does not support rankings; budgetline fit learns from svmlight files"
            )
        return found

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
    def table(self) -> TableDescription:
        """What is in the files."""
        found = describe(NamedFiles.of(*self.found, self.delimiter, self.na or None))
        if not found.rows:
            raise ValueError(f"{self.place} holds no rows")
        return found

    @cached_property
    def unhelpful(self) -> dict[str, str]:
        """The columns that are left out at first, with reasons."""
        reasons, found = {"empty": "no values", "other": "of a kind that cannot be used"}, {}
        for column in self.table.columns:
            same = "the same value in every row" if column.categories == 1 and not column.missing else None
            if reason := reasons.get(column.kind) or same or self.table.identifiers.get(column.name):
                found[column.name] = reason
        return found

    @cached_property
    def target(self) -> Callable[[str], Target]:
        """Reads a column as the target, as the command line does with ``--drop-missing-target``, once.

        An error says why a column cannot be the target.
        """
        return cache(self._target)

    def _target(self, name: str) -> Target:
        what = f"column {shown(name)}"
        chunks = [c for partition in self._source(name).partitions for c in partition.chunks(NO_COLUMNS) if c.n_rows]
        if not chunks:
            raise ValueError(f"{what} has no values: it cannot be the target")
        text = np.concatenate([chunk.y for chunk in chunks])
        check_values(text, f"{what} holds")
        y, form = as_numbers(text, name, row_names(chunks))
        form_in_words = "" if form is None else f"{form.name}, such as {shown(text[0])} = {y[0]:g}"
        found = Target(name, y, task_of([y], f"{what} holds")[0], self.table.rows - len(y), form_in_words)
        found.check_task(found.task)
        return found

    def _source(self, target: str) -> Source:
        """Return all rows that have a target, and all other columns as they are."""
        names = [column.name for column in self.table.columns if column.name != target and column.kind != "other"]
        paths, kind = self.found
        mark, na = self.delimiter, self.na or None
        source = open_data([*paths], target, features=names, file_format=kind, delimiter=mark, na=na)
        return source.dropping().raw()

    def read(self, target: str) -> Sample:
        """Read all rows that have a target, and all other columns as they are."""
        partitions = self._source(target).partitions
        tables = [chunk.X for partition in partitions for chunk in partition.chunks(None) if chunk.n_rows]
        return Sample(nw.concat(tables).to_native(), self.target(target).y)
