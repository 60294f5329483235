"""``budgetline inspect``: the detected format, column types and missing values; and the encoding that they need."""

from __future__ import annotations

from dataclasses import asdict

from budgetline.cli import options
from budgetline.cli.data import Features, Files, columns_of_numbers
from budgetline.cli.printing import Printer, Refused, refusing
from budgetline.data.description import MOST_LEVELS, ColumnDescription, TableDescription, describe
from budgetline.encoding import Encoding
from budgetline.messages import cut, name_of, some
from budgetline.report.formatting import count
from budgetline.tables import text_table

HEADER, LEFT = ("column", "kind", "levels", "missing", "values"), (0, 1, 4)
"""Header of the table of columns, and which of its columns are aligned to the left."""
SHORT = 20
"""Columns that the table shows before a fit."""
LONGEST_VALUE = 20
"""Characters of a value in the table."""


def inspect(
    data: options.DataFiles,
    target: options.TargetName = None,
    file_format: options.FileFormat = None,
    delimiter: options.Delimiter = None,
    na: options.Missing = None,
    as_json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Show the format that was found, and the kinds, categories and missing values of the columns.

    For example:
    budgetline inspect bank.csv -t y
    budgetline inspect bank.txt --delimiter tab --na -999
    """
    printer = Printer(as_json, quiet)
    files = Files(data, file_format, False, delimiter, na)
    files.check_columns({"--target": target})
    with refusing(), printer.waiting("reading"):
        found = describe(files.raw, [] if target is None else [target])
    printer.say(f"{data}: {count(found.rows, 'row')}, {count(len(found.columns), 'column')}")
    for line in () if found.text is None else found.text.in_words:
        printer.say(line)
    printer.say()
    printer.table(HEADER, (_cells(column, target) for column in found.columns), LEFT)
    for name, reason in found.identifiers.items():
        if name != target:
            printer.say(f"{name_of(name)} tells nothing about new rows: {reason}; fit leaves it out, unless --keep-ids")
    printer.document({"data": data, "target": target, **asdict(found)})


def encoded_columns(
    files: Files,
    features: Features,
    target: str | None,
    asked: tuple[options.EncodingKind, int],
    printer: Printer,
    keep_ids: bool = False,
) -> tuple[list[str] | None, Encoding | str | None]:
    """Return the columns to learn from and their encoding (None: plain numbers); print the detected columns.

    ``asked`` are the kind of encoding and the number of pairs; "auto" is a spline if columns have names. Identifiers
    and free text are left out, unless a groups file names the columns, or ``keep_ids`` is set.
    """
    (names, groups), (kind, interactions) = features, asked
    plain = kind == "none" or (kind == "auto" and not files.named)
    if interactions and plain:
        raise Refused("--interactions needs an encoding: --encoding spline or linear")
    if names is None or not files.named:
        if not plain:
            raise Refused(f"--encoding {kind} is for CSV and Parquet files, whose columns have names")
        return names, None
    if plain and groups is None:  # text in a group is an error
        names = columns_of_numbers(files, names, printer)
    found = _understood(files, names, target, printer, table=not plain)
    if groups is None and not keep_ids:
        names = _without_identifiers(files, names, found, printer)
    if plain:
        return names, None
    why = _why(files, [column for column in found.columns if column.name in names])
    kind, reason = ("spline" if kind == "auto" else kind), f" ({', '.join(why)})" if why else ""
    printer.note(f"encoding: {kind}{reason}; --encoding none uses the numbers only")
    return names, Encoding(kind, interactions=interactions) if interactions else kind


def _without_identifiers(files: Files, names: list[str], found: TableDescription, printer: Printer) -> list[str]:
    """Return the columns that are no identifiers or free text; there must be some. A warning names the others."""
    left_out = {name: reason for name, reason in found.identifiers.items() if name in names}
    if left_out:
        each = some(left_out.items(), of=lambda item: f"{name_of(item[0])} ({item[1]})")
        printer.warn(
            f"left out, as identifiers and free text tell nothing about new rows: {each}; --keep-ids keeps them"
        )
    if len(left_out) == len(names):
        raise Refused(f"{files.place} has only columns of identifiers and free text: --keep-ids learns from them")
    return [name for name in names if name not in left_out]


def _understood(files: Files, names: list[str], target: str | None, printer: Printer, table: bool) -> TableDescription:
    """Describe some columns and the target; print the description if ``table``."""
    labels = [] if target is None else [target]
    with refusing(), printer.waiting("reading"):
        found = describe(files.raw, labels, [*names, *labels])
    if not table:
        return found
    printer.note(f"{files.place}: {count(found.rows, 'row')}, {count(len(found.columns), 'column')}")
    cells = [_cells(column, target) for column in found.columns]
    shorter = cells if len(cells) <= SHORT else [*cells[: SHORT - 2], *cells[-1:]]
    for line in text_table(HEADER, shorter, LEFT).splitlines():
        printer.note(line)
    if len(shorter) < len(cells):
        printer.note(f"… and {len(cells) - len(shorter)} more: budgetline inspect shows them all")
    return found


def _why(files: Files, columns: list[ColumnDescription]) -> list[str]:
    """Return the reasons why columns cannot be used as plain numbers, in words."""
    others = [column for column in columns if not files.numeric[column.name] and column.kind != "empty"]
    texts = sum(column.kind in ("text", "category") for column in others)
    dates = sum(column.kind == "date" for column in others)
    gaps = sum(column.missing > 0 for column in columns)
    parts = (
        (texts, "of text"),
        (dates, "of dates"),
        (len(others) - texts - dates, "of other kinds"),
        (gaps, "with missing values"),
    )
    return [f"{count(number, 'column')} {what}" for number, what in parts if number]


def _cells(column: ColumnDescription, target: str | None) -> list[str]:
    name = name_of(column.name) + (" (target)" if column.name == target else "")
    levels = f"> {MOST_LEVELS:,}" if column.levels is None else f"{column.levels:,}"
    if column.form:
        values = column.form
    elif column.low is not None:
        values = f"{_value(column.low)} to {_value(column.high)}"
    else:
        values = ", ".join(map(_value, column.examples)) + (", …" if column.levels != len(column.examples) else "")
    return [name, column.kind, levels, f"{column.missing:,}" if column.missing else "", values]


def _value(value: object) -> str:
    return f"{value:.6g}" if isinstance(value, float) else cut(str(value), LONGEST_VALUE)
