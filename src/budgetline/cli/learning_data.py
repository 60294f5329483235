"""What ``fit`` learns from: which columns, in which groups and encoding, and for which task."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from budgetline.cli.data import Files, columns_for, fits_into_memory, with_numbers
from budgetline.cli.options import LearningOptions, TargetOptions, names_of
from budgetline.cli.printing import Printer, Refused, refusing
from budgetline.data import Source
from budgetline.data.description import TableDescription, describe
from budgetline.data.sources import Chunk
from budgetline.data.target_column import check_task, task_of, too_many_classes
from budgetline.encoding import Encoding
from budgetline.groups import FeatureGroups
from budgetline.inputs import MOST_CLASSES
from budgetline.messages import name_of, shown, some
from budgetline.report.formatting import count

NO_COLUMNS = np.empty(0, dtype=np.intp)


class LearningData(NamedTuple):
    """Data to learn from; ``table`` None: rows are read in chunks; ``groups`` None: each column is a group."""

    source: Source
    table: Chunk | None
    columns: list[str]
    groups: FeatureGroups | None
    encoding: Encoding | str | None
    task: str

    @property
    def classes(self) -> bool:
        """Whether the task is classification."""
        return self.task == "classification"

    @property
    def group_names(self) -> Sequence[str]:
        """Names of the groups."""
        return self.columns if self.groups is None else self.groups.names


def learning_data(
    files: Files,
    options: TargetOptions,
    learning: LearningOptions,
    fold_by: str | None,
    printer: Printer,
    stream: bool | None,
) -> LearningData:
    """Open the data, and read all rows unless they are streamed; ``stream`` None: if they fit into memory."""
    options, task = _task(files, options, learning.task, fold_by, printer)
    sets = task in ("ranking", "survival")
    if (target := options.target) is None:
        raise Refused("say which column is the target: --target NAME")
    names, groups = _columns_and_groups(files, learning, {**options.roles, "--fold-by": fold_by})
    if task == "ranking":
        learning = replace(learning, encoding=learning.encoding or "none")
    columns, encoding = _encoded(files, names, groups, target, learning, printer)
    qid = options.qid if task == "ranking" else fold_by
    source = files.source(options.columns, columns, weight=options.weight, qid=qid, raw=encoding is not None)
    streamed = not (sets or fits_into_memory(source, encoding is not None)) if stream is None else stream
    if sets and streamed:
        why = "needs chunks of whole queries: use open_data in Python" if task == "ranking" else "compares all rows"
        raise Refused(f"--stream does not work with --task {task}, which {why}")
    table = None if streamed else files.read_all(source, printer, f"a {task} task" * sets)
    if table is not None and task != "classification":
        table = with_numbers(table, target, printer)
    read = (lambda: files.chunks(source, printer, NO_COLUMNS)) if table is None else (lambda: [table])
    if not sets:
        task = "classification" if _learns_classes(read, task, target, printer) else "regression"
    return LearningData(source, table, columns, groups, encoding, task)


def _task(
    files: Files, options: TargetOptions, wanted: str, fold_by: str | None, printer: Printer
) -> tuple[TargetOptions, str]:
    """Return the columns that are no features, and the task: queries ask for a ranking, and events for survival."""
    for option, given, task in (("--qid", options.qid, "ranking"), ("--event", options.event, "survival")):
        if given is not None and wanted not in ("auto", task):
            raise Refused(f"{option} is for --task {task}, but the task is --task {wanted}")
    if options.time is not None and options.event is None:
        raise Refused("--time needs --event NAME, the column of events; without events, pass the times as --target")
    asked = "survival" if options.event is not None else "ranking" if options.qid is not None else wanted
    options = columns_for(asked, files, options, fold_by, f"--task {asked}")
    if asked == "auto" and options.qid is not None:
        printer.note("ranking: the file has queries (to override: --task regression)")
        asked = "ranking"
    if fold_by is not None and asked == "survival":
        raise Refused("--fold-by is for regression and classification")
    return options, asked


# -- columns and groups ----------------------------------------------------------------------------------------


def _columns_and_groups(
    files: Files, options: LearningOptions, roles: Mapping[str, str | None]
) -> tuple[list[str], FeatureGroups | None]:
    """Return the columns to read and their groups from a file; ``roles`` are columns that are no features.

    A column in a group that has another role is an error.
    """
    groups = None if options.groups is None else read_groups(options.groups)
    excluded = names_of(options.exclude, files.numeric)
    files.check_columns({**roles, "--exclude": excluded})
    taken = {name: option for option, name in roles.items() if name is not None} | dict.fromkeys(excluded, "--exclude")
    if groups is None:
        return other_columns(files, taken), None
    for group, columns in zip(groups.names, groups.columns, strict=True):
        if wrong := [str(column) for column in columns if column in taken]:
            where = f"{options.groups}: column {shown(wrong[0])} is in group {shown(group)}"
            raise Refused(f"{where}, but {taken[wrong[0]]} also names it")
    names = [name for name in files.numeric if name not in taken]
    with refusing(str(options.groups)):
        layout = groups.resolve(names, len(names))
    members = {group: [names[d] for d in columns] for group, columns in zip(groups.names, layout.columns, strict=True)}
    named = FeatureGroups(members, groups.costs, shared=groups.shared, requires=groups.requires)
    return [names[d] for d in layout.read], named


def other_columns(files: Files, taken: Collection[str]) -> list[str]:
    """Return the columns that are not taken; there must be some."""
    names = [name for name in files.numeric if name not in taken]
    if not names:
        raise Refused(f"{files.place} has no columns" + (f" except {some(taken)}" if taken else ""))
    return names


def read_groups(path: Path) -> FeatureGroups:
    """Read a groups file; every error names it."""
    with refusing(str(path)):
        return FeatureGroups.from_yaml(path)


# -- the encoding ----------------------------------------------------------------------------------------------


def _encoded(
    files: Files,
    names: list[str],
    groups: FeatureGroups | None,
    target: str,
    options: LearningOptions,
    printer: Printer,
) -> tuple[list[str], Encoding | str | None]:
    """Return the columns to learn from and their encoding (None: plain numbers); print the detected columns.

    Identifiers and free text are left out, unless a groups file names the columns, or the user keeps them. Without an
    encoding, all columns that do not hold numbers are left out; in a group they are an error.
    """
    kind, pairs = options.encoding or "spline", options.interactions
    plain = kind == "none"
    if pairs and plain:
        raise Refused("--interactions needs an encoding: --encoding spline or linear")
    if plain and groups is None:
        if texts := [name for name in names if not files.numeric[name]]:
            printer.warn(f"left out because they do not hold numbers: {some(texts, of=name_of)}")
        if len(texts) == len(names):
            raise Refused(f"{files.place} has no numeric columns to learn from")
        names = [name for name in names if files.numeric[name]]
    found = described(files, target, printer, names)
    if groups is None and not options.keep_ids:
        names = without_identifiers(files, names, found, printer)
    if plain:
        return names, None
    size = f"{count(found.rows, 'row')}, {count(len(names), 'column')}"
    printer.note(f"{files.place}: {size}; budgetline inspect shows them")
    printer.note(f"encoding: {kind}; --encoding none uses only the numbers")
    return names, Encoding(str(kind), interactions=pairs) if pairs else kind


def without_identifiers(files: Files, names: list[str], found: TableDescription, printer: Printer) -> list[str]:
    """Return the columns that are no identifiers or free text; there must be some. A warning names the others."""
    left_out = {name: reason for name, reason in found.identifiers.items() if name in names}
    if left_out:
        each = some(left_out.items(), of=lambda item: f"{name_of(item[0])} ({item[1]})")
        printer.warn(
            f"left out: {each}; identifiers and free text do not help to predict new rows (--keep-ids keeps them)"
        )
    if len(left_out) == len(names):
        raise Refused(f"{files.place} has only identifiers and free text: add --keep-ids to learn from them")
    return [name for name in names if name not in left_out]


# -- columns in words ------------------------------------------------------------------------------------------


def described(
    files: Files, target: str | None, printer: Printer, names: Sequence[str] | None = None
) -> TableDescription:
    """Describe the target and the named columns, or all columns."""
    labels = [] if target is None else [target]
    with refusing(), printer.waiting("reading"):
        return describe(files.raw, labels, None if names is None else [*names, *labels])


# -- the task --------------------------------------------------------------------------------------------------


def _learns_classes(read: Callable[[], Iterable[Chunk]], wanted: str, target: str, printer: Printer) -> bool:
    """Return whether to learn classes: as the user wants, or as the target asks for, with a note why.

    ``read`` starts to read the rows again; reading stops as soon as the task is known.
    """
    what = f"the target {shown(target)} holds"
    with refusing():
        if wanted != "auto":
            check_task(next(iter(read())).y, wanted, what)
            return wanted == "classification"
        task, why = task_of((chunk.y for chunk in read()), what)
    other = "classification" if task == "regression" else "regression"
    printer.note(f"{task}: {what} {why} (to override: --task {other})")
    if task == "regression":
        return False
    found = set[object]()
    for chunk in read():
        found.update(chunk.y.tolist())
        if len(found) > MOST_CLASSES:
            advice = "--task classification learns all of them, but slowly"
            raise Refused(f"{too_many_classes(target, chunk.y[:2].tolist())}; {advice}")
    return True
