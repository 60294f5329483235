"""The user's files: data, as a source or all rows at once; and outputs, which are checked before the work."""

from __future__ import annotations

import os
import stat
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import narwhals as nw
import numpy as np

from budgetline.arrays import Positions
from budgetline.cli.options import FileOptions, TargetOptions
from budgetline.cli.printing import Printer, Refused, refusing
from budgetline.data import Source, open_data
from budgetline.data.named_files import NamedFiles
from budgetline.data.opening import files_of
from budgetline.data.sources import Chunk, ahead, row_names
from budgetline.data.svmlight_files import svmlight_table
from budgetline.data.tabular import arrow
from budgetline.data.target_column import as_numbers
from budgetline.estimators.reading import advising
from budgetline.files import target_of, write_atomically
from budgetline.inputs import NamedArray, as_vector, check_finite
from budgetline.messages import did_you_mean, shown, some
from budgetline.model.anytime import AnytimeModel
from budgetline.progress import make_bar
from budgetline.report.builders import task_name

DELIMITERS = {"tab": "\t", "\\t": "\t", "space": " "}
COPIES, ENCODED = 4, 8
"""Rows are read into memory if this many copies of them fit, because joining, standardising and fitting make copies.

With an encoding, a column becomes about ``ENCODED`` columns.
"""


@dataclass(frozen=True)
class Files:
    """The data of a command: a file, a folder or a glob. With ``drop``, rows without a target are left out."""

    place: str
    options: FileOptions = field(default_factory=FileOptions)
    drop: bool = False

    @cached_property
    def found(self) -> tuple[list[Path], str]:
        """The files and their format."""
        with refusing():
            return files_of(self.place, self.options.file_format)

    @property
    def paths(self) -> list[Path]:
        """The files."""
        return self.found[0]

    @property
    def text(self) -> dict[str, Any]:
        """The delimiter of CSV files and the texts that stand for missing values, if the user sets them."""
        mark = self.options.delimiter
        return {"delimiter": None if mark is None else DELIMITERS.get(mark, mark), "na": self.options.na or None}

    @cached_property
    def raw(self) -> NamedFiles:
        """The files, with columns of any type."""
        with refusing():
            return NamedFiles.of(*self.found, **self.text)

    @cached_property
    def numeric(self) -> dict[str, bool]:
        """The names of all columns, and whether each contains numbers."""
        types = arrow().types
        tests = (types.is_integer, types.is_floating, types.is_decimal, types.is_boolean, types.is_null)
        return {column.name: any(test(column.type) for test in tests) for column in self.raw.schema}

    def check_columns(self, names: Mapping[str, str | Iterable[str] | None]) -> None:
        """Raise an error if a column is missing; the keys are the options that name the columns."""
        for option, given in names.items():
            for name in [given] if isinstance(given, str) else given or ():
                if name not in self.numeric:
                    what = f"column {shown(name)} is not in {self.place}{did_you_mean(name, self.numeric)}"
                    raise Refused(f"{option}: {what}; its columns are {some(self.numeric, 8)}")

    def check_numbers(self, names: Iterable[str], advice: str) -> None:
        """Raise an error if a column does not hold numbers."""
        if wrong := [name for name in names if not self.numeric[name]]:
            raise Refused(f"column {shown(wrong[0])} of {self.place} does not hold numbers: {advice}")

    def values(self, names: Sequence[str]) -> Iterator[tuple[object, ...]]:
        """Yield the values of some columns, row by row; values of CSV files are text, as written in the file."""
        raw = self.raw
        if raw.csv is not None:
            raw = replace(raw, csv=raw.csv.literally(names))
        for batch in raw.batches(list(names)) if names else ():
            yield from zip(*(column.to_pylist() for column in batch.columns), strict=True)

    def source(
        self,
        target: str | list[str] | None,
        names: Sequence[str],
        weight: str | None = None,
        qid: str | None = None,
        raw: bool = False,
    ) -> Source:
        """Open the files with features by name; raw features may hold anything, others must be numbers."""
        self.check_columns({"--target": target, "--sample-weight": weight})
        self.check_numbers(() if raw else names, "--encoding spline accepts text")
        self.check_numbers(() if weight is None else [weight], "--sample-weight needs a column of numbers")
        paths, kind = self.found
        label, plain = [] if target is None else target, kind == "svmlight"
        data, text = (svmlight_table(paths), {}) if plain else ([*paths], {"file_format": kind, **self.text})
        source = open_data(data, label, weight=weight, qid=qid, features=names, **text)
        source = source.dropping() if self.drop else source
        return source.raw() if raw else source

    def source_for(
        self,
        model: AnytimeModel,
        target: str | list[str] | None,
        only: Positions | None = None,
        weight: str | None = None,
        qid: str | None = None,
        absent: Collection[str] = (),
        advice: str = "",
    ) -> Source:
        """Open the files with the columns of a model, or with those that ``only`` some columns of its design need.

        Columns that are known to be ``absent`` are left out. ``advice`` says what to do if another column is missing.
        """
        names, encoding = model.source.names, model.encoding
        if names is None:
            raise Refused(f"the model knows its columns by position, but the columns of {self.place} have names")
        read = only if encoding is None or only is None else encoding.read_for(only)
        wanted = names if read is None else [names[d] for d in read]
        needed = [name for name in wanted if name not in absent]
        if missing := [name for name in needed if name not in self.numeric]:
            where = f"{self.place}{did_you_mean(missing[0], self.numeric)}"
            raise Refused(f"column {shown(missing[0])}, which the model needs, is not in {where}{advice}")
        self.check_numbers(needed if encoding is None else (), "the model was fitted with numbers")
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
            raise Refused(f"{self.place} holds no rows" + " with a target" * self.drop)

    def read_all(self, source: Source, printer: Printer, purpose: str = "", used: Positions | None = None) -> Chunk:
        """Read all rows: X is an array with names, or, for raw columns, an Arrow table.

        If they do not fit into memory, the error names the purpose. Columns ``used`` (None: all) must have values in
        every row, unless they are raw.
        """
        if purpose and not fits_into_memory(source):
            size = bytes_in_memory(source) / 1e9
            raise Refused(f"{purpose} needs all rows in memory, about {size:.1f} GB: use fewer rows")
        names, chunks = source.feature_names or (), []
        columns = slice(None) if used is None else used
        for chunk in self.chunks(source, printer):
            if not isinstance(chunk.X, nw.DataFrame):
                with refusing(), advising(None), chunk.located():
                    check_finite(chunk.X[:, columns], np.array(names, dtype=object)[columns].tolist())
            chunks.append(chunk)
        tables: list[Any] = [chunk.X for chunk in chunks]
        raw = isinstance(tables[0], nw.DataFrame)
        X = nw.concat(tables).to_native() if raw else NamedArray(np.concatenate(tables), tuple(names))
        weights = [chunk.weight for chunk in chunks if chunk.weight is not None]
        queries = [chunk.qid for chunk in chunks if chunk.qid is not None]
        weight, qid = (np.concatenate(parts) if parts else None for parts in (weights, queries))
        return Chunk(X, np.concatenate([chunk.y for chunk in chunks]), weight, qid, self.place, row_names(chunks))


def bytes_in_memory(source: Source) -> int:
    """Estimate the memory that all rows need."""
    return (source.about_rows or 0) * (source.n_features + 1) * 8


def fits_into_memory(source: Source, raw: bool = False) -> bool:
    """Return whether all rows, and the work on them, fit into memory."""
    return COPIES * (ENCODED if raw else 1) * bytes_in_memory(source) <= memory_left()


def memory_left() -> int:
    """Estimate how many bytes of memory this process may still use."""
    left, limits = 4 << 30, Path("/sys/fs/cgroup")
    with suppress(OSError, KeyError, ValueError):
        lines = dict(line.split(":", 1) for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines())
        left = int(lines["MemAvailable"].split()[0]) << 10
    with suppress(OSError, ValueError):
        left = min(left, int((limits / "memory.max").read_text()) - int((limits / "memory.current").read_text()))
    return max(0, left)


def with_numbers(table: Chunk, target: str, printer: Printer) -> Chunk:
    """Return rows with their times and events, or with the numbers that a target is written as, such as "8.90%"."""
    if table.y.ndim == 2:
        with refusing(f"--time and --event of {table.where}"):
            return replace(table, y=np.asarray(as_vector((table.y[:, 0], table.y[:, 1]))))
    try:
        y, form = as_numbers(table.y, target, table.row_name)
    except ValueError as error:
        raise Refused(f"{error} and add --drop-missing-target") from error
    if form is None:
        return table
    printer.note(f"the target is read as {form.name}, such as {shown(table.y[0])} = {y[0]:g}")
    return replace(table, y=y)


# -- data for a model ------------------------------------------------------------------------------------------


def columns_for(
    task: str, files: Files, options: TargetOptions, fold_by: str | None, command: str = "the model"
) -> TargetOptions:
    """Check the columns of a task that are no features, and return them; svmlight files have names for them."""
    if files.found[1] == "svmlight":
        qid = "qid" if fold_by is None and "qid" in files.numeric else None
        options = replace(options, target=options.target or "target", qid=options.qid or qid)
    files.check_columns({**options.roles, "--fold-by": fold_by})
    if options.qid is not None and options.event is not None:
        raise Refused("use either --qid, for rankings, or --event, for survival times")
    if task == "ranking" and options.qid is None:
        raise Refused(f"{command} needs queries: name their column with --qid NAME")
    if task == "survival" and options.event is None:
        raise Refused(f"{command} needs survival times: name their columns with --time NAME --event NAME")
    if task != "survival" and options.event is not None:
        raise Refused(f"--event is for survival times, but {command} is a {task}")
    if task in ("ranking", "survival"):
        known = [name for name in (options.target, options.event) if name is not None]
        files.check_numbers(known, "grades and times must be numbers, and events must be flags or 1 and 0")
    if fold_by is not None and options.qid is not None:
        raise Refused("use either --fold-by or --qid: with --qid, folds keep queries together")
    return options


def evaluation_source(
    model: AnytimeModel, files: Files, options: TargetOptions, printer: Printer, fold_by: str | None = None
) -> tuple[Source, str]:
    """Open data with the columns of a model; return also the target: by default the only column it does not know."""
    options = columns_for(task_name(model), files, options, fold_by)
    for option, name in {**options.roles, "--fold-by": fold_by}.items():
        if name is not None and name in (model.source.names or ()):
            raise Refused(f"{option}: the model uses {shown(name)} as a feature")
    target = options.target
    if target is None:
        taken = {*(model.source.names or ()), *options.roles.values(), fold_by}
        others = [name for name in files.numeric if name not in taken]
        if len(others) != 1:
            raise Refused(f"say which column of {files.place} is the target: --target NAME")
        target = others[0]
        printer.note(f"the target is {shown(target)}, the only column that the model does not know")
        options = replace(options, target=target)
    return files.source_for(model, options.columns, weight=options.weight, qid=fold_by or options.qid), target


def evaluation_rows(
    model: AnytimeModel,
    files: Files,
    options: TargetOptions,
    printer: Printer,
    purpose: str,
    fold_by: str | None = None,
) -> tuple[Chunk, str]:
    """Read all rows with the columns of a model; return them, and the name of the target."""
    source, target = evaluation_source(model, files, options, printer, fold_by)
    table = files.read_all(source, printer, purpose, model.source.read)
    return with_numbers(table, target, printer) if model.classes is None else table, target


# -- outputs ---------------------------------------------------------------------------------------------------


def check_output(path: Path | None, *suffixes: str, inputs: Iterable[Path | None]) -> None:
    """Raise an error, before anything is read, if a file cannot be written or is one of the inputs; None is fine."""
    if path is None:
        return
    if suffixes and path.suffix.lower() not in suffixes:
        raise Refused(f"cannot write {path}: its name must end in {' or '.join(suffixes)}")
    with writing(path):
        target = target_of(path)
    place, what = (path, "it") if target is None else (target.parent, f"the folder {target.parent}")
    if target is not None and not place.is_dir():
        raise Refused(f"cannot write {path}: there is no folder {place}")
    if not os.access(place, os.W_OK):
        raise Refused(f"cannot write {path}: {what} is not writable")
    if not path.exists() or stat.S_ISCHR(path.stat().st_mode):
        return
    for given in inputs:
        if given is not None and given.exists() and path.samefile(given):
            raise Refused(f"cannot write {path}: it is the same file as the input {given}")


@contextmanager
def writing(path: Path) -> Iterator[str]:
    """Name the output file in errors that occur while it is written; yield its name, and whether it is replaced."""
    try:
        target = target_of(path)
        yield f"{path} (replaced)" if target is not None and target.exists() else str(path)
    except OSError as error:
        if error.filename in (None, str(path)):  # errors of reading name their own file
            raise Refused(f"cannot write {path}: {error.strerror or error}") from error
        raise


def write_text(path: Path, text: str) -> str:
    """Write a text file, in full or not at all; return its name, and whether it was replaced."""
    with writing(path) as written:
        write_atomically(path, text.encode("utf-8"))
    return written
