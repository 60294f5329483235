"""Reading the user's files: as a source, or in full."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from budgetline.cli.errors import Refused, refusing
from budgetline.cli.screens import Screen
from budgetline.data import Source, open_source
from budgetline.data.csv_files import csv_schema
from budgetline.data.opening import files_of
from budgetline.data.parquet_files import parquet_schema
from budgetline.data.sources import Chunk
from budgetline.data.tabular import arrow
from budgetline.groups import FeatureGroups
from budgetline.messages import name_of, shown, some
from budgetline.progress import make_bar
from budgetline.statistics.passes import ahead

COPIES = 4
"""A table in memory must leave room for so many copies of it: it is joined, standardised and worked with."""
NONE = np.empty(0, dtype=np.intp)


@dataclass(frozen=True)
class Files:
    """The data as the user named them: a file, a folder or a glob.

    Attributes
    ----------
    place : str
    file_format : str or None
    zero_based : bool
        Whether the indices of svmlight files start at 0.
    """

    place: str
    file_format: str | None = None
    zero_based: bool = False

    @cached_property
    def found(self) -> tuple[list[Path], str]:
        """The files, and what they hold."""
        with refusing():
            return files_of(self.place, self.file_format)

    @property
    def named(self) -> bool:
        """Whether the columns have names."""
        return self.found[1] != "svmlight"

    @cached_property
    def numeric(self) -> dict[str, bool]:
        """The names of all columns, and whether they hold numbers."""
        paths, kind = self.found
        schema = csv_schema(paths[0]) if kind == "csv" else parquet_schema(paths[0])
        types = arrow().types
        tests = (types.is_integer, types.is_floating, types.is_boolean, types.is_null)
        return {field.name: any(test(field.type) for test in tests) for field in schema}

    @property
    def bytes(self) -> int:
        """Their size."""
        return sum(path.stat().st_size for path in self.found[0])

    def check_column(self, name: str | None, option: str) -> None:
        """Raise an error if a column that an option names is not there."""
        if name is not None and self.named and name not in self.numeric:
            raise Refused(
                f"{option}: column {shown(name)} is not in {self.place}; its columns are {some(self.numeric, 8)}"
            )

    def source(self, target: Any = None, features: Any = None, n_features: int | None = None, **names: Any) -> Source:
        """Open them; ``names`` are weight and qid. An empty target means that there is none."""
        paths, kind = self.found
        if not self.named:
            names = {name: value for name, value in names.items() if value is not None}
            target = None if target == [] else target
            return open_source(
                paths, target, file_format=kind, n_features=n_features, zero_based=self.zero_based, **names
            )
        if target is None:
            raise Refused("say which column is the target: --target NAME")
        for option, name in (("--target", target or None), *((f"--{key}", value) for key, value in names.items())):
            self.check_column(name, option)
        for name in (*(features or ()), *([names["weight"]] if names.get("weight") else ())):
            if not self.numeric.get(name, True):
                raise Refused(
                    f"column {shown(name)} of {self.place} does not hold numbers: encode it first, or leave it out"
                )
        return open_source(
            paths, target, features=features, file_format=kind, zero_based=self.zero_based or False, **names
        )


@dataclass(frozen=True)
class Table:
    """All rows in memory: X as an Arrow table or CSR matrix, targets, weights, queries."""

    X: Any
    y: NDArray[Any]
    weight: NDArray[np.float64] | None
    qid: NDArray[Any] | None


def frame_of(X: NDArray[Any], names: Any) -> Any:
    """Return an array (n, D) as an Arrow table."""
    pa = arrow()
    return pa.Table.from_arrays([pa.array(X[:, d]) for d in range(X.shape[1])], names=list(names))


def chunks_of(source: Source, columns: NDArray[np.intp] | None = None) -> Iterator[Chunk]:
    """Yield all chunks that have rows, the next one being read meanwhile."""
    every = (chunk for partition in source.partitions for chunk in partition.chunks(columns))
    return (chunk for chunk in ahead(every) if chunk.n_rows)


def gathered(files: Files, source: Source, screen: Screen) -> Table:
    """Read everything."""
    chunks = []
    bar = make_bar(screen.progress, "rows", source.about_rows)
    try:
        for chunk in chunks_of(source):
            chunks.append(chunk)
            if bar is not None:
                bar.update(chunk.n_rows)
    finally:
        if bar is not None:
            bar.close()
    if not chunks:
        raise Refused(f"{files.place} holds no rows")
    y = np.concatenate([chunk.y for chunk in chunks])
    weight = None if chunks[0].weight is None else np.concatenate([chunk.weight for chunk in chunks])
    qid = None if chunks[0].qid is None else np.concatenate([chunk.qid for chunk in chunks])
    parts = [chunk.X for chunk in chunks]
    if source.feature_names is None:
        return Table(sparse.vstack(parts, format="csr"), y, weight, qid)
    return Table(frame_of(np.concatenate(parts), source.feature_names), y, weight, qid)


def size_in_memory(files: Files, source: Source) -> int:
    """Return about how many bytes all rows take."""
    if not files.named:
        return 2 * files.bytes  # a number and its index, about as long as their text
    return (source.about_rows or 0) * (source.n_features + 1) * 8


def memory_left() -> int:
    """Return about how many bytes of memory this process may still take."""
    try:
        with open("/proc/meminfo", encoding="ascii") as file:
            lines = dict(line.split(":", 1) for line in file)
        left = int(lines["MemAvailable"].split()[0]) << 10
    except (OSError, KeyError, ValueError):
        left = 4 << 30
    try:
        limit = int(Path("/sys/fs/cgroup/memory.max").read_text()) - int(
            Path("/sys/fs/cgroup/memory.current").read_text()
        )
    except (OSError, ValueError):
        return left
    return max(0, min(left, limit))


def fits(files: Files, source: Source) -> bool:
    """Return whether all rows, and the work on them, fit into memory."""
    return COPIES * size_in_memory(files, source) <= memory_left()


def in_memory(files: Files, source: Source, screen: Screen, purpose: str) -> Table:
    """Read everything, if it fits."""
    if not fits(files, source):
        size = size_in_memory(files, source) / 1e9
        raise Refused(f"{purpose} needs all rows in memory, about {size:.1f} GB: give a part of the rows")
    return gathered(files, source, screen)


# -- groups ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Features:
    """Which columns to read, and their groups; None: all columns, and one group per column."""

    names: tuple[str, ...] | None
    groups: FeatureGroups | None


def features_of(files: Files, path: Path | None, others: dict[str, str | None], screen: Screen) -> Features:
    """Read the groups file, and find its columns in the data.

    ``others`` are columns that are no features, by the option that names them.
    """
    groups = None if path is None else read_groups(path)
    if not files.named:
        return Features(None, groups)
    for option, name in others.items():
        files.check_column(name, option)
    taken = {name: option for option, name in others.items() if name is not None}
    names = [name for name in files.numeric if name not in taken]
    if groups is None:
        left_out = [name for name in names if not files.numeric[name]]
        if left_out:
            screen.warn(f"left out, as they do not hold numbers: {some(left_out, of=name_of)}")
        names = [name for name in names if files.numeric[name]]
        if not names:
            raise Refused(f"{files.place} has no column of numbers beside {some(taken)}")
        return Features(tuple(names), None)
    for group, columns in zip(groups.names, groups.columns, strict=True):
        for column in columns:
            if column in taken:
                where = f"{path}: column {shown(column)} is in group {shown(group)}"
                raise Refused(f"{where}, and {taken[str(column)]} names it")
    with refusing(str(path)):
        layout = groups.resolve(names, len(names))
    members = [[names[d] for d in columns.tolist()] for columns in layout.columns]
    used = tuple(names[d] for d in layout.read.tolist())
    shared, requires = groups.shared, groups.requires
    named = FeatureGroups(dict(zip(groups.names, members, strict=True)), groups.costs, shared=shared, requires=requires)
    return Features(used, named)


def read_groups(path: Path) -> FeatureGroups:
    """Read a groups file; every error names it."""
    with refusing(str(path)):
        return FeatureGroups.from_yaml(path)
