"""The user's files: data, as a source or all rows at once; groups; and outputs, which are checked before the work."""

from __future__ import annotations

import os
import stat
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import narwhals as nw
import numpy as np
from scipy import sparse

from budgetline.arrays import Mask, Positions, Table
from budgetline.cli import options
from budgetline.cli.printing import Printer, Refused, refusing
from budgetline.data import Source, open_source
from budgetline.data.opening import files_of
from budgetline.data.raw_files import RawFiles
from budgetline.data.sources import Chunk, ahead, row_names
from budgetline.data.tabular import arrow, missing_in
from budgetline.data.target_column import as_numbers, too_many_classes
from budgetline.estimators.advice import advising
from budgetline.files import target_of, write_atomically
from budgetline.groups import FeatureGroups
from budgetline.inputs import MOST_CLASSES, NamedArray, check_finite
from budgetline.messages import did_you_mean, name_of, shown, some
from budgetline.model.anytime import AnytimeModel
from budgetline.progress import make_bar

TargetColumn = str | tuple[()] | None
"""The name of the target; (): no target; None: the target of svmlight files."""
Features = tuple[list[str] | None, FeatureGroups | None]
"""Columns to learn from (None: all) and their groups (None: one for each column)."""
COPIES, ENCODED = 4, 8
"""Rows are read into memory if this many copies fit: they are joined, standardised and worked with.

With an encoding, a column becomes about ``ENCODED`` columns.
"""


@dataclass(frozen=True)
class Files:
    """The data of a command: a file, a folder or a glob, and what the user says about their format.

    ``zero_based`` is for svmlight files, ``delimiter`` and ``na`` are for CSV files. With ``drop``, rows without a
    target are left out.
    """

    place: str
    file_format: str | None
    zero_based: bool
    delimiter: str | None = None
    na: Sequence[str] | None = None
    drop: bool = False

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

    @property
    def text(self) -> dict[str, Any]:
        """The delimiter and the texts of missing values of CSV files, if the user gives them."""
        mark = {"tab": "\t", "\\t": "\t", "space": " "}.get(self.delimiter or "", self.delimiter)
        if self.found[1] != "csv" and (mark is not None or self.na):
            raise Refused(f"--delimiter and --na are for CSV files, and {self.place} is {self.found[1]}")
        return {"delimiter": mark, "na": self.na or None}

    @cached_property
    def raw(self) -> RawFiles:
        """The files with columns of any kind; not for svmlight files."""
        paths, kind = self.found
        if not self.named:
            raise Refused(f"the columns of {self.place} have no names: this is for CSV and Parquet files")
        with refusing():
            return RawFiles.of(paths, kind, **self.text)

    @cached_property
    def numeric(self) -> dict[str, bool]:
        """The names of all columns, and whether they hold numbers."""
        types = arrow().types
        tests = (types.is_integer, types.is_floating, types.is_decimal, types.is_boolean, types.is_null)
        return {field.name: any(test(field.type) for test in tests) for field in self.raw.schema}

    def check_columns(self, names: Mapping[str, str | Iterable[str] | None]) -> None:
        """Raise an error if a column is missing; the keys are the options that name the columns."""
        for option, given in names.items():
            for name in [given] if isinstance(given, str) else given or ():
                if self.named and name not in self.numeric:
                    what = f"column {shown(name)} is not in {self.place}{did_you_mean(name, self.numeric)}"
                    raise Refused(f"{option}: {what}; its columns are {some(self.numeric, 8)}")

    def check_numbers(self, name: str | None, what: str, advice: str) -> None:
        """Raise an error if a column does not hold numbers."""
        if name is not None and not self.numeric.get(name, True):
            raise Refused(f"{what} does not hold numbers: {advice}")

    def values(self, names: Sequence[str]) -> Iterator[tuple[object, ...]]:
        """Yield the values of some columns, row by row; values of CSV files are text, as written in the file."""
        raw = self.raw
        if raw.csv is not None:
            raw = replace(raw, csv=raw.csv.reading(dict.fromkeys(names, "text")))
        for batch in raw.batches(list(names), names) if names else ():
            yield from zip(*(column.to_pylist() for column in batch.columns), strict=True)

    def source(
        self,
        target: TargetColumn,
        names: Sequence[str] | None = None,
        n_features: int | None = None,
        weight: str | None = None,
        qid: str | None = None,
        raw: bool = False,
    ) -> Source:
        """Open the files with features by name, or all of them; ``n_features`` is for svmlight files.

        Raw features may hold anything, others must be numbers.
        """
        if self.named:
            if target is None:
                raise Refused("say which column is the target: --target NAME")
            if self.zero_based:
                raise Refused(f"--zero-based is for svmlight files, and {self.place} is {self.found[1]}")
            self.check_columns({"--target": target or None, "--weight": weight, "--qid": qid})
            for name in () if raw else names or ():
                self.check_numbers(name, f"column {shown(name)} of {self.place}", "--encoding spline accepts text")
            self.check_numbers(weight, f"--weight: column {shown(weight)}", "name a column of numbers")
        elif target == ():
            target = None
        paths, kind = self.found
        source = open_source(
            paths, target, weight=weight, qid=qid, features=names, file_format=kind, n_features=n_features,
            zero_based=self.zero_based, **self.text,
        )  # fmt: skip
        source = source.dropping() if self.drop else source
        return source.raw() if raw else source

    def note_dropped(self, target: str | None, printer: Printer) -> None:
        """Print how many rows are left out because they have no target; svmlight files have no such rows."""
        if not self.drop or target is None or not self.named:
            return
        missing, csv = list[Mask](), self.raw.csv
        with refusing(), printer.waiting("reading"):
            for batch in self.raw.batches([target], [target]):
                missing.append(missing_in(batch, [target]) if csv is None else csv.without_labels(batch, [target]))
        rows, lost = sum(map(len, missing)), sum(int(each.sum()) for each in missing)
        if lost:
            printer.note(f"left out {lost:,} of {rows:,} rows, which have no target {shown(target)}")
        if rows and lost == rows:
            raise Refused(f"column {shown(target)} of {self.place} has no values: it cannot be the target")

    def source_for(
        self,
        model: AnytimeModel,
        target: TargetColumn,
        only: Positions | None = None,
        weight: str | None = None,
        qid: str | None = None,
        absent: Collection[str] = (),
    ) -> Source:
        """Open the files with the columns of a model, or with those that ``only`` some columns of its design need.

        Columns that are known to be ``absent`` are left out. svmlight files are opened with all columns.
        """
        names, encoding = model.source.names, model.encoding
        if names is None:
            if self.named:
                raise Refused(f"the model knows its columns by position: it reads svmlight files, not {self.place}")
            return self.source(target, n_features=model.layout.n_features, weight=weight, qid=qid)
        if not self.named:
            raise Refused(f"the model knows its columns by name, and the columns of {self.place} have no names")
        read = only if encoding is None or only is None else encoding.read_for(only)
        wanted = names if read is None else [names[d] for d in read]
        needed = [name for name in wanted if name not in absent]
        if missing := [name for name in needed if name not in self.numeric]:
            where = f"{self.place}{did_you_mean(missing[0], self.numeric)}"
            raise Refused(f"column {shown(missing[0])}, which the model needs here, is not in {where}")
        for name in needed if encoding is None else ():
            self.check_numbers(name, f"column {shown(name)} of {self.place}", "the model was fitted with numbers")
        source = self.source(target, needed, weight=weight, qid=qid, raw=encoding is not None)
        return source if encoding is None else source.reading(encoding.kinds)

    def chunks(self, source: Source, printer: Printer, columns: Positions | None = None) -> Iterator[Chunk]:
        """Yield all chunks that have rows, with a progress bar, while the next chunk is read."""
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
        """Estimate the memory that all rows need."""
        if self.named:
            return (source.about_rows or 0) * (source.n_features + 1) * 8
        return 2 * sum(path.stat().st_size for path in self.paths)  # numbers and indices, about as long as their text

    def fit_into_memory(self, source: Source, raw: bool = False) -> bool:
        """Return whether all rows, and the work on them, fit into memory."""
        return COPIES * (ENCODED if raw else 1) * self.bytes_in_memory(source) <= memory_left()

    def read_all(self, source: Source, printer: Printer, purpose: str = "", used: Positions | None = None) -> Chunk:
        """Read all rows; if they do not fit into memory, the error names the purpose.

        Columns ``used`` (None: all) must have values in every row.
        """
        if purpose and not self.fit_into_memory(source):
            size = self.bytes_in_memory(source) / 1e9
            raise Refused(f"{purpose} needs all rows in memory, about {size:.1f} GB: give a part of the rows")
        return self.read_rows(source, printer, used)

    def read_rows(self, source: Source, printer: Printer, used: Positions | None) -> Chunk:
        """Read all rows: X is an array with names, a CSR matrix, or, for raw columns, an Arrow table.

        A missing value is an error, except in raw columns.
        """
        chunks, names = [], source.feature_names
        columns = range(source.n_features) if used is None else used.tolist()
        labels = [str(d) if names is None else names[d] for d in columns]
        for chunk in self.chunks(source, printer):
            if not isinstance(chunk.X, nw.DataFrame):
                with refusing(), advising(None), chunk.located():
                    check_finite(chunk.X if used is None else chunk.X[:, used], labels)
            chunks.append(chunk)
        X, y = _joined([chunk.X for chunk in chunks], names), np.concatenate([chunk.y for chunk in chunks])
        weights = [chunk.weight for chunk in chunks if chunk.weight is not None]
        queries = [chunk.qid for chunk in chunks if chunk.qid is not None]
        weight, qid = (np.concatenate(parts) if parts else None for parts in (weights, queries))
        return Chunk(X, y, weight, qid, self.place, row_names(chunks))


def _joined(tables: list[Table], names: Sequence[str] | None) -> Table:
    """Return the rows of all tables."""
    if names is None:
        return sparse.vstack(tables, format="csr")
    if isinstance(tables[0], nw.DataFrame):
        return nw.concat(tables).to_native()
    return NamedArray(np.concatenate(tables), tuple(names))


def memory_left() -> int:
    """Estimate how many bytes of memory this process may still use."""
    left, limits = 4 << 30, Path("/sys/fs/cgroup")
    with suppress(OSError, KeyError, ValueError):
        lines = dict(line.split(":", 1) for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines())
        left = int(lines["MemAvailable"].split()[0]) << 10
    with suppress(OSError, ValueError):
        left = min(left, int((limits / "memory.max").read_text()) - int((limits / "memory.current").read_text()))
    return max(0, left)


def with_numbers(table: Chunk, target: str | None, printer: Printer) -> Chunk:
    """Return rows whose target is text that stands for numbers, such as "8.90%", with these numbers."""
    try:
        y, form = as_numbers(table.y, target, table.row_name)
    except ValueError as error:
        raise Refused(f"{error} and give --drop-missing-target") from error
    if form is None:
        return table
    printer.note(f"the target is read as {form.name}, such as {shown(table.y[0])} = {y[0]:g}")
    return replace(table, y=y)


def check_classes(chunks: Iterable[Chunk], target: str | None) -> None:
    """Raise an error if a target has more classes than people usually mean; stop reading as soon as it has."""
    found = set[object]()
    for chunk in chunks:
        found.update(chunk.y.tolist())
        if len(found) > MOST_CLASSES:
            advice = "--task classification learns all of them, slowly"
            raise Refused(f"{too_many_classes(target, chunk.y[:2].tolist())}; {advice}")


# -- groups ----------------------------------------------------------------------------------------------------


def features_of(
    files: Files, path: Path | None, others: Mapping[str, str | None], exclude: Iterable[str] | None = None
) -> Features:
    """Return the columns to read (None: all) and their groups from a file (None: one group per column).

    ``others`` are columns that are no features, by the options that name them. ``exclude`` are lists of more such
    columns, such as "a,b".
    """
    groups = None if path is None else read_groups(path)
    if not files.named:
        if exclude:
            raise Refused(f"--exclude names columns, and the columns of {files.place} have no names")
        return None, groups
    files.check_columns(others)
    left_out = options.names_of(exclude, files.numeric)
    files.check_columns({"--exclude": left_out})
    taken = {name: option for option, name in others.items() if name is not None}
    taken |= dict.fromkeys(left_out, "--exclude")
    if groups is None:
        return other_columns(files, taken), None
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


def other_columns(files: Files, taken: Collection[str]) -> list[str]:
    """Return the columns that are not taken; there must be some."""
    names = [name for name in files.numeric if name not in taken]
    if not names:
        raise Refused(f"{files.place} has no column" + (f" except {some(taken)}" if taken else ""))
    return names


def columns_of_numbers(files: Files, names: Sequence[str], printer: Printer) -> list[str]:
    """Return the columns that hold numbers; there must be some. A warning names the others."""
    if left_out := [name for name in names if not files.numeric[name]]:
        printer.warn(f"left out, as they do not hold numbers: {some(left_out, of=name_of)}")
    if len(left_out) == len(names):
        raise Refused(f"{files.place} has no column of numbers to learn from")
    return [name for name in names if files.numeric[name]]


def read_groups(path: Path) -> FeatureGroups:
    """Read a groups file; every error names it."""
    with refusing(str(path)):
        return FeatureGroups.from_yaml(path)


# -- outputs ---------------------------------------------------------------------------------------------------


def check_output(path: Path | None, *suffixes: str, inputs: Iterable[Path | None]) -> None:
    """Raise an error, before anything is read, if a file cannot be written or is one of the inputs; None is fine."""
    if path is None:
        return
    if suffixes and path.suffix.lower() not in suffixes:
        raise Refused(f"cannot write {path}: its name must end in {' or '.join(suffixes)}")
    with writing(path):
        target = target_of(path)
    if target is None:
        if not os.access(path, os.W_OK):
            raise Refused(f"cannot write {path}: it may not be written to")
    elif not target.parent.is_dir():
        raise Refused(f"cannot write {path}: there is no folder {target.parent}")
    elif not os.access(target.parent, os.W_OK):
        raise Refused(f"cannot write {path}: the folder {target.parent} may not be written to")
    check_distinct(path, inputs)


def check_distinct(path: Path, inputs: Iterable[Path | None]) -> None:
    """Raise an error if an output is one of the inputs, under any name; a device, such as a terminal, may be both."""
    if not path.exists() or stat.S_ISCHR(path.stat().st_mode):
        return
    for given in inputs:
        if given is not None and given.exists() and path.samefile(given):
            raise Refused(f"cannot write {path}: it is the same file as the input {given}")


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Str | None the output in errors of writing it."""
    try:
        yield
    except OSError as error:
        if error.filename in (None, str(path)):  # errors of reading name their own file
            raise Refused(f"cannot write {path}: {error.strerror or error}") from error
        raise


def write_text(path: Path, text: str) -> None:
    """Write a text file, in full or not at all."""
    with writing(path):
        write_atomically(path, text.encode("utf-8"))
