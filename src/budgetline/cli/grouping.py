"""``budgetline groups``: write a groups file to start from."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal
from warnings import catch_warnings, simplefilter

from typer import Option

from budgetline.cli import options
from budgetline.cli.data import Files, check_output, write_text
from budgetline.cli.learning_data import other_columns
from budgetline.cli.options import FileOptions
from budgetline.cli.printing import Printer, Refused
from budgetline.groups import FeatureGroups
from budgetline.messages import printable, shown


def groups(
    data: options.DataFiles,
    *,
    target: options.TargetName = None,
    by: Annotated[Literal["prefix", "column"], Option(help="How to group.")] = "column",
    sep: Annotated[str, Option(help="With --by prefix: names are cut at the first SEP.")] = "_",
    output: Annotated[Path | None, Option("-o", "--output", metavar="FILE", help="Default: stdout.")] = None,
    reading: FileOptions,
    printer: Printer,
) -> None:
    """Write a groups file to edit: each column a group at cost 1, or columns with a common prefix together.

    Example: budgetline groups heart.csv --target disease -o groups.yaml
    """
    files = Files(data, reading)
    check_output(output, inputs=files.paths)
    if not sep:
        raise Refused("--sep must not be empty")
    files.check_columns({"--target": target})
    if target is None:
        printer.note("no --target: remove the column that you want to predict from the file")
    columns, what = other_columns(files, [] if target is None else [target]), "one for each column"
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
        write_text(output, text)
        printer.note(f"wrote {output}: set the costs there, then: budgetline fit {data} --groups {output} …")
    elif not printer.as_json:
        print(text, end="")
    entries = dict(zip(made.names, made.columns, strict=True))
    written = None if output is None else str(output)
    printer.document({"by": by, "groups": entries, "target": target, "written": written})


def _commented(made: FeatureGroups, files: Files, target: str | None, what: str) -> str:
    """Return the text of the file, with comments on what to edit."""
    lines = [
        f"Groups of {files.place}, {what}.",
        "Edit: group the columns that are computed, asked or bought together, and give every group its cost,",
        "all in one unit (seconds, dollars, …). A group of cost 0 is free. A cost that groups share is paid once:",
        "'shared: {draw: {cost: 2.1, groups: [a, b]}}'. A group that needs others first: 'requires: [a]' in it.",
        "A column is in at most one group; columns in no group are left out ('remainder: drop').",
    ]
    if target is not None:
        lines.append(f"The target {shown(target)} must be in no group.")
    return "".join(f"# {printable(' '.join(line.split()))}\n" for line in lines) + made.to_yaml()
