"""Reading the user's files: as a source, or all rows at once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from budgetline.arrays import Array, Float, Positions
from budgetline.cli.errors import Refused, refusing
from budgetline.cli.printing import Printer
from budgetline.data import Source, open_source
from budgetline.data.opening import files_of
from budgetline.data.parquet_files import parquet_schema
from budgetline.data.sources import Chunk, ahead
from budgetline.data.tabular import arrow
from budgetline.data.text_files import csv_schema
from budgetline.groups import FeatureGroups
from budgetline.messages import name_of, shown, some
from budgetline.progress import make_bar

COPIES = 4
"""Rows are read into memory if this many copies fit: they are joined, standardised and worked with."""
NONE = np.empty(0, dtype=np.intp)


@dataclass(frozen=True)
class Files:
    """The data as the user named them: a file, a folder or a glob; indices of svmlight files may start at 0."""

    place: str
    file_format: str | None
    zero_based: bool

    @cached_property
    def found(self) -> tuple[list[Path], str]:
        """The files, and their format."""
        with refusing():
            return files_of(self.place, self.file_format)

    @property
    def paths(self) -> list[Path]:
        """The files."""
        return self.found[0]

    @property
    def named(self) -> bool:
        """Whether the columns have names."""
        return self.found[1] != "svmlight"

    @cached_property
    def numeric(self) -> dict[str, bool]:
        """The names of all columns, and whether they hold numbers."""
        schema = csv_schema(self.paths[0]) if self.found[1] == "csv" else parquet_schema(self.paths[0])
        types = arrow().types
        tests = (types.is_integer, types.is_floating, types.is_boolean, types.is_null)
        return {field.name: any(test(field.type) for test in tests) for field in schema}

    def check_columns(self, names: Mapping[str, str | None]) -> None:
        """Raise an error if a column is missing; ``names`` are by the options that gave them."""
        for option, name in names.items():
            if name is not None and self.named and name not in self.numeric:
                columns = some(self.numeric, 8)
                raise Refused(f"{option}: column {shown(name)} is not in {self.place}; its columns are {columns}")

    def source(
        self,
        target: str | tuple[()] | None,
        *,
        features: Sequence[str] | None = None,
        n_features: int | None = None,
        weight: str | None = None,
        qid: str | None = None,
    ) -> Source:
        """Open the files. The target () stands for none; ``n_features`` is for svmlight files."""
        if self.named:
            self.check_columns({"--target": target or None, "--weight": weight, "--qid": qid})
            for name in (*(features or ()), weight):
                if name is not None and not self.numeric.get(name, True):
                    what = f"column {shown(name)} of {self.place}"
                    raise Refused(f"{what} does not hold numbers: encode it first, or leave it out")
        elif target == ():
            target = None
        paths, kind = self.found
        return open_source(
            paths, target, weight=weight, qid=qid, features=features, file_format=kind, n_features=n_features,
            zero_based=self.zero_based,
        )  # fmt: skip

    def chunks(self, source: Source, printer: Printer, columns: Positions | None = None) -> Iterator[Chunk]:
        """Yield all chunks that have rows, with a progress bar; the next chunk is read meanwhile."""
        every = (chunk for partition in source.partitions for chunk in partition.chunks(columns))
        rows = 0
        with make_bar(printer.progress, "rows", source.about_rows) as bar:
            for chunk in ahead(every):
                if chunk.n_rows:
                    yield chunk
                rows += chunk.n_rows
                bar.update(chunk.n_rows)
        if not rows:
            raise Refused(f"{self.place} holds no rows")

    def bytes_in_memory(self, source: Source) -> int:
        """Return about how much memory all rows take."""
        if self.named:
            return (source.about_rows or 0) * (source.n_features + 1) * 8
        return 2 * sum(path.stat().st_size for path in self.paths)  # numbers and indices, about as long as their text

    def fit_into_memory(self, source: Source) -> bool:
        """Return whether all rows, and the work on them, fit into memory."""
        return COPIES * self.bytes_in_memory(source) <= memory_left()


def memory_left() -> int:
    """Return about how many bytes of memory this process may still use."""
    left, limits = 4 << 30, Path("/sys/fs/cgroup")
    with suppress(OSError, KeyError, ValueError):
        lines = dict(line.split(":", 1) for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines())
        left = int(lines["MemAvailable"].split()[0]) << 10
    with suppress(OSError, ValueError):
        left = min(left, int((limits / "memory.max").read_text()) - int((limits / "memory.current").read_text()))
    return max(0, left)


# -- all rows at once ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Table:
    """All rows in memory: X as an Arrow table or CSR matrix, targets, weights, queries."""

    X: Any
    y: Any
    weight: Float | None
    qid: Array | None


def read_all(files: Files, source: Source, printer: Printer, purpose: str = "") -> Table:
    """Read all rows; if they do not fit into memory, say what they are needed for."""
    if purpose and not files.fit_into_memory(source):
        size = files.bytes_in_memory(source) / 1e9
        raise Refused(f"{purpose} needs all rows in memory, about {size:.1f} GB: give a part of the rows")
    chunks = list(files.chunks(source, printer))
    y, weight, qid = (
        np.concatenate(parts) if parts[0] is not None else None
        for parts in zip(*((chunk.y, chunk.weight, chunk.qid) for chunk in chunks), strict=True)
    )
    if source.feature_names is None:
        return Table(sparse.vstack([chunk.X for chunk in chunks], format="csr"), y, weight, qid)
    return Table(named_table(np.hstack([chunk.X.T for chunk in chunks]), source.feature_names), y, weight, qid)


def named_table(columns: Array, names: Sequence[str]) -> Any:
    """Return an array of columns, shape (D, n), as an Arrow table, which names them without a copy."""
    return arrow().Table.from_arrays([arrow().array(column) for column in columns], list(names))


# -- groups ----------------------------------------------------------------------------------------------------


def features_of(
    files: Files, path: Path | None, others: Mapping[str, str | None], printer: Printer
) -> tuple[Sequence[str] | None, FeatureGroups | None]:
    """Return the columns to read, None: all, and the groups that a file puts them in, None: one group per column.

    ``others`` are the columns that are no features, by the options that name them.
    """
    groups = None if path is None else read_groups(path)
    if not files.named:
        return None, groups
    files.check_columns(others)
    taken = {name: option for option, name in others.items() if name is not None}
    if groups is None:
        return numeric_columns(files, taken, printer), None
    for group, columns in zip(groups.names, groups.columns, strict=True):
        if wrong := [str(column) for column in columns if column in taken]:
            where = f"{path}: column {shown(wrong[0])} is in group {shown(group)}"
            raise Refused(f"{where}, and {taken[wrong[0]]} names it")
    names = [name for name in files.numeric if name not in taken]
    with refusing(str(path)):
        layout = groups.resolve(names, len(names))
    members = {group: [names[d] for d in columns] for group, columns in zip(groups.names, layout.columns, strict=True)}
    named = FeatureGroups(members, groups.costs, shared=groups.shared, requires=groups.requires)
    return [names[d] for d in layout.read], named


def numeric_columns(files: Files, taken: Iterable[str], printer: Printer) -> list[str]:
    """Return the columns of numbers beside those that are taken; say which other ones are left out."""
    names = [name for name in files.numeric if name not in taken]
    if left_out := [name for name in names if not files.numeric[name]]:
        printer.warn(f"left out, as they do not hold numbers: {some(left_out, of=name_of)}")
    if len(left_out) == len(names):
        raise Refused(f"{files.place} has no column of numbers" + (f" beside {some(taken)}" if taken else ""))
    return [name for name in names if files.numeric[name]]


def read_groups(path: Path) -> FeatureGroups:
    """Read a groups file; every error names it."""
    with refusing(str(path)):
        return FeatureGroups.from_yaml(path)
