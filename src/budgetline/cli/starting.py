"""``budgetline demo``, ``inspect`` and ``groups``: a table to begin with, what it holds, and a draft of its groups."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from shlex import quote
from typing import Annotated, Literal
from warnings import catch_warnings, simplefilter

from sklearn.utils import Bunch
from typer import Option

from budgetline import datasets
from budgetline.cli import options
from budgetline.cli.data import Files, check_output, write_text
from budgetline.cli.learning_data import described, other_columns, without_identifiers
from budgetline.cli.options import FileOptions
from budgetline.cli.printing import Printer, Refused
from budgetline.data.description import MOST_DISTINCT, ColumnDescription
from budgetline.groups import FeatureGroups
from budgetline.messages import cut, name_of, printable, shown
from budgetline.report.formatting import count

HEADER, LEFT = ("column", "kind", "distinct", "missing", "values"), (0, 1, 4)
"""Header of the table of columns, and the positions of its left-aligned columns."""
LONGEST_VALUE = 20
"""Maximum length of a value in the table, in characters."""
WITH_COSTS: dict[str, Callable[[], Bunch]] = {
    "heart": datasets.load_heart,
    "nhanes": datasets.load_nhanes,
    "thyroid": datasets.load_thyroid,
}
"""Data sets that ``demo`` can write."""


def inspect(
    data: options.DataFiles, *, target: options.TargetName = None, reading: FileOptions, printer: Printer
) -> None:
    """Show the detected file format, and the kind, the values and the missing values of every column.

    Example: budgetline inspect heart.csv -t disease
    """
    files = Files(data, reading)
    files.check_columns({"--target": target})
    found = described(files, target, printer)
    printer.say(f"{data}: {count(found.rows, 'row')}, {count(len(found.columns), 'column')}")
    for line in found.format:
        printer.say(line)
    printer.say()
    printer.table(HEADER, (_cells_of(column, target) for column in found.columns), LEFT)
    for name, reason in found.identifiers.items():
        if name != target:
            what = f"{name_of(name)} does not help to predict new rows: {reason}"
            printer.say(f"{what}; fit leaves it out unless you add --keep-ids")
    printer.document({"data": data, "target": target, **asdict(found)})


def _cells_of(column: ColumnDescription, target: str | None) -> list[str]:
    """Return the row of a column in a table with the header ``HEADER``."""
    name = name_of(column.name) + (" (target)" if column.name == target else "")
    categories = f"> {MOST_DISTINCT:,}" if column.categories is None else f"{column.categories:,}"
    if column.form:
        values = column.form
    elif column.low is not None:
        values = f"{_value(column.low)} to {_value(column.high)}"
    else:
        values = ", ".join(map(_value, column.examples)) + (", …" if column.categories != len(column.examples) else "")
    return [name, column.kind, categories, f"{column.missing:,}" if column.missing else "", values]


def _value(value: object) -> str:
    return f"{value:.6g}" if isinstance(value, float) else cut(str(value), LONGEST_VALUE)


def demo(
    data: Annotated[
        Path, Option(metavar="FILE", help=f"File to write: {', '.join(f'{name}.csv' for name in WITH_COSTS)}.")
    ] = Path("heart.csv"),
    quiet: options.Quiet = False,
) -> None:
    """Write a real data set and the costs of its groups, and print the commands to run next.

    Example: budgetline demo
    """
    printer = Printer(False, quiet)
    if data.stem not in WITH_COSTS or data.suffix != ".csv":
        known = ", ".join(f"{name}.csv" for name in WITH_COSTS)
        raise Refused(f"--data: there is no data set for {data}; the known files are {known}")
    found, prices = WITH_COSTS[data.stem](), data.with_suffix(".yaml")
    text = io.StringIO(newline="")
    rows = ([*row, target] for row, target in zip(found.data.tolist(), found.target.tolist(), strict=True))
    csv.writer(text, lineterminator="\n").writerows([[*found.feature_names, found.target_name], *rows])
    named = {
        name: [found.feature_names[d] for d in columns]
        for name, columns in zip(found.feature_groups.names, found.feature_groups.columns, strict=True)
    }
    table_written = write_text(data, text.getvalue())
    prices_written = write_text(prices, FeatureGroups(named, found.feature_groups.costs).to_yaml())
    printer.say(f"wrote {table_written}, with the target {found.target_name}, and {prices_written}")
    table, model = quote(str(data)), f"{data.stem}.budgetline"
    printer.note(f"next: budgetline fit {table} -t {found.target_name} -g {quote(str(prices))}")
    printer.note(f"      budgetline report {model} {table} -t {found.target_name}")


# -- groups -------------------------------------------------------------------------------------------------


def groups(
    data: options.DataFiles,
    *,
    target: options.TargetName = None,
    by: Annotated[Literal["prefix", "column"], Option(help="How to group the columns.")] = "column",
    keep_ids: options.KeepIds = False,
    sep: Annotated[str, Option(help="Separator for --by prefix; names are split at its first occurrence.")] = "_",
    output: Annotated[
        Path | None, Option("-o", "--output", metavar="FILE", help="File to write. Default: stdout.")
    ] = None,
    reading: FileOptions,
    printer: Printer,
) -> None:
    """Write a groups file to edit, with one group per column or per column-name prefix. Every group costs 1.

    Example: budgetline groups heart.csv --target disease -o groups.yaml
    """
    files = Files(data, reading)
    check_output(output, inputs=files.paths)
    if not sep:
        raise Refused("--sep must not be empty")
    files.check_columns({"--target": target})
    if target is None:
        printer.note("no --target: remove the column that you want to predict from the groups file")
    columns, what = other_columns(files, [] if target is None else [target]), "one for each column"
    if not keep_ids:
        columns = without_identifiers(files, columns, described(files, target, printer, columns), printer)
    if by == "column":
        made = FeatureGroups({column: [column] for column in columns}, remainder="drop")
    else:
        what = f"by the part of the name before {shown(sep)}"
        with catch_warnings():  # the user chose prefixes, and reads the file
            simplefilter("ignore", UserWarning)
            made = FeatureGroups.from_prefix(columns, sep, remainder="drop")
    printer.note(f"{len(columns)} columns in {len(made)} groups, {what}")
    text = _commented(made, files, target, what)
    if output is not None:
        name = "TARGET" if target is None else quote(target)
        command = f"budgetline fit {quote(data)} -t {name} -g {quote(str(output))}"
        printer.note(f"wrote {write_text(output, text)}: set the costs in it, then run {command}")
    elif not printer.as_json:
        print(text, end="")
    entries = dict(zip(made.names, made.columns, strict=True))
    written = None if output is None else str(output)
    printer.document({"by": by, "groups": entries, "target": target, "written": written})


def _commented(made: FeatureGroups, files: Files, target: str | None, what: str) -> str:
    """Return the text of the file, with comments on what to edit."""
    lines = [
        f"Groups of {files.place}, {what}.",
        "To edit: group the columns that are computed, asked for or bought together, and set the cost of every group,",
        "all in one unit (seconds, dollars, …). A group with cost 0 is free. A cost that several groups share is paid",
        "once: 'shared: {draw: {cost: 2.1, groups: [a, b]}}'. If a group needs other groups first, add 'requires: [a]'",
        "to it. A column may be in at most one group; columns that are in no group are left out ('remainder: drop').",
    ]
    if target is not None:
        lines.append(f"The target {shown(target)} must not be in a group.")
    return "".join(f"# {printable(' '.join(line.split()))}\n" for line in lines) + made.to_yaml()
