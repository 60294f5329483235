"""``budgetline inspect``: what is in a table, and how its file was understood, before anything is learned."""

from __future__ import annotations

from dataclasses import asdict

from budgetline.cli import options
from budgetline.cli.data import Files
from budgetline.cli.printing import Printer, refusing
from budgetline.data.summary import MOST_LEVELS, ColumnSummary, TextSummary, summarise
from budgetline.messages import cut, name_of, some
from budgetline.report.formatting import count

LONGEST_VALUE = 20
"""Characters of a value in the table."""
MARKS = {",": "comma", ";": "semicolon", "\t": "tab", "|": "bar", " ": "space"}


def inspect(
    data: options.Data,
    target: options.Target = None,
    file_format: options.FileFormat = None,
    delimiter: options.Delimiter = None,
    na: options.Missing = None,
    as_json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Show what is in a table, and how its file was understood: kinds of columns, levels, missing values.

    For example:
    budgetline inspect bank.csv -t y
    budgetline inspect bank.txt --delimiter tab --na -999
    """
    printer = Printer(as_json, quiet)
    files = Files(data, file_format, False, delimiter, na)
    files.check_columns({"--target": target})
    with refusing(), printer.waiting("reading"):
        found = summarise(files.raw, [] if target is None else [target])
    printer.say(f"{data}: {count(found.rows, 'row')}, {count(len(found.columns), 'column')}")
    for line in () if found.text is None else _format(found.text):
        printer.say(line)
    printer.say()
    header = ["column", "kind", "levels", "missing", "values"]
    printer.table(header, (_cells(column, target) for column in found.columns), left={0, 1, 4})
    printer.document({"data": data, "target": target, **asdict(found)})


def _format(text: TextSummary) -> list[str]:
    """Return lines that say how text was understood."""
    mark = "point" if text.decimal == "." else "comma"
    packed = "" if text.compression is None else f", {text.compression}"
    lines = [f"delimiter {MARKS.get(text.delimiter, text.delimiter)}, decimal {mark}{packed}"]
    if text.missing:
        each = some(text.missing.items(), of=lambda item: f"{item[0] or 'empty'} ({item[1]:,})")
        lines.append(f"missing values: {each}")
    if text.left_out:
        lines.append(f"left out: {some(text.left_out, of=name_of)}")
    return lines


def _cells(column: ColumnSummary, target: str | None) -> list[str]:
    name = name_of(column.name) + (" (target)" if column.name == target else "")
    levels = f"> {MOST_LEVELS:,}" if column.levels is None else f"{column.levels:,}"
    if column.low is not None:
        values = f"{_value(column.low)} to {_value(column.high)}"
    else:
        values = ", ".join(map(_value, column.examples)) + (", …" if column.levels != len(column.examples) else "")
    return [name, column.kind, levels, f"{column.missing:,}" if column.missing else "", values]


def _value(value: object) -> str:
    return f"{value:.6g}" if isinstance(value, float) else cut(str(value), LONGEST_VALUE)
