"""``budgetline groups`` and ``profile``: write a groups file to start from, and measure its costs."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any
from warnings import catch_warnings, simplefilter

from typer import Argument, Option

from budgetline.cli import options
from budgetline.cli.data import Files, check_distinct, check_output, other_columns, read_groups, write_text
from budgetline.cli.printing import Printer, Refused, refusing
from budgetline.groups import FeatureGroups
from budgetline.messages import printable, shown, some
from budgetline.runtime import profile_costs

ColumnList = list[str] | list[int]
"""Names or positions."""


def groups(
    data: options.DataFiles,
    target: options.TargetName = None,
    by: Annotated[options.By, Option(help="How to group.")] = "column",
    sep: Annotated[str, Option(help="With --by prefix: names are cut at the first SEP.")] = "_",
    output: Annotated[Path | None, Option("-o", "--output", metavar="FILE", help="Default: stdout.")] = None,
    file_format: options.FileFormat = None,
    delimiter: options.Delimiter = None,
    na: options.Missing = None,
    zero_based: options.ZeroBased = False,
    as_json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Write a groups file to edit: each column a group at cost 1, or columns with a common prefix together.

    For example:
    budgetline groups heart.csv --target ill -o groups.yaml
    budgetline groups heart.csv --target ill --by prefix
    """
    printer = Printer(as_json, quiet)
    files = Files(data, file_format, zero_based, delimiter, na)
    check_output(output, inputs=files.paths)
    if not sep:
        raise Refused("--sep must not be empty")
    columns = _columns(files, target, printer)
    made, what = _by_name(files, columns, by, sep)
    printer.note(f"{len(columns)} columns in {len(made)} groups, {what}")
    if by == "prefix" and len(made) == len(columns) > 1:
        printer.note(f"no two names share a prefix before {shown(sep)}: try another --sep")
    text = _commented(made, files, target, what)
    if output is not None:
        write_text(output, text)
        printer.note(f"wrote {output}: set the costs there, then: budgetline fit {data} --groups {output} …")
    elif not as_json:
        print(text, end="")
    entries = dict(zip(made.names, made.columns, strict=True))
    written = None if output is None else str(output)
    printer.document({"by": by, "groups": entries, "target": target, "written": written})


def _columns(files: Files, target: str | None, printer: Printer) -> ColumnList:
    """Return the columns to group, by name or position."""
    if not files.named:
        if target is not None:
            raise Refused("--target names a column, but the columns of svmlight files have no names")
        return list(range(files.source(()).n_features))
    files.check_columns({"--target": target})
    if target is None:
        printer.note("no --target: remove the column that you want to predict from the file")
    return other_columns(files, [] if target is None else [target])


def _by_name(files: Files, columns: ColumnList, by: options.By, sep: str) -> tuple[FeatureGroups, str]:
    if by == "column":
        return FeatureGroups({str(column): [column] for column in columns}, remainder="drop"), "one for each column"
    if not files.named:
        raise Refused("the columns of svmlight files have no names: use --by column")
    with catch_warnings():  # the user chose prefixes, and reads the file
        simplefilter("ignore", UserWarning)
        found = FeatureGroups.from_prefix(columns, sep, remainder="drop")
    return found, f"by the part of the name before {shown(sep)}"


def _commented(made: FeatureGroups, files: Files, target: str | None, what: str) -> str:
    """Return the text of the file, with comments on what to edit."""
    lines = [
        f"Groups of {files.place}, {what}.",
        "Edit: group the columns that are computed, asked or bought together, and give every group its cost,",
        "all in one unit (seconds, dollars, …). A group of cost 0 is free. A cost that groups share is paid once:",
        "'shared: {draw: {cost: 2.1, groups: [a, b]}}'. A group that needs others first: 'requires: [a]' in it.",
        "A column is in at most one group; columns in no group are left out ('remainder: drop').",
    ]
    if not files.named:
        lines.append("ColumnList are positions, counted from 0: the first feature of the files is 0.")
    if target is not None:
        lines.append(f"The target {shown(target)} must be in no group.")
    return "".join(f"# {printable(' '.join(line.split()))}\n" for line in lines) + made.to_yaml()


def profile(
    extractors: Annotated[str, Argument(metavar="MODULE:NAME", help="A mapping group -> function in a Python module.")],
    sample: Annotated[
        Path, Argument(metavar="SAMPLE", help="Inputs: a .json list, .jsonl, or any text, one input per line.")
    ],
    groups: options.Groups = None,
    output: Annotated[
        Path | None, Option("-o", "--output", metavar="FILE", help="With --groups: the groups at the measured costs.")
    ] = None,
    quantile: Annotated[float, Option(min=0, max=1, help="Quantile to show next to the median.")] = 0.95,
    repeats: Annotated[int, Option(min=1, help="How often every input is timed.")] = 3,
    warmup: Annotated[int, Option(min=0, help="Calls before the measurement.")] = 1,
    batch_size: Annotated[int | None, Option(min=1, help="Batch size of extractors that accept batches.")] = None,
    as_json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Measure what each extractor costs, in seconds per input. This runs the code of MODULE.

    For example:
    budgetline profile extractors:EXTRACTORS texts.txt
    budgetline profile extractors:EXTRACTORS in.jsonl -g in.yaml -o out.yaml
    """
    printer = Printer(as_json, quiet)
    if (groups is None) != (output is None):
        raise Refused("--groups and --output go together: the groups are written again, at the measured costs")
    check_output(output, inputs=[groups, sample])
    known = None if groups is None else read_groups(groups)
    functions, inputs = _mapping(extractors, output), _inputs(sample)
    with refusing():
        found = profile_costs(
            functions, inputs, quantile=quantile, repeats=repeats, warmup=warmup, batch_size=batch_size,
            progress=printer.progress,
        )  # fmt: skip
    printer.say(str(found))
    if known is not None and output is not None:
        with refusing(str(groups)):
            text = known.with_costs(found.costs).to_yaml()
        write_text(output, f"# Costs are seconds per input, measured with {sample}.\n{text}")
        printer.note(f"wrote {output}")
        if known.shared:
            printer.note(f"not measured, kept as they were: the shared costs {some(known.shared)}")
    written = None if output is None else str(output)
    printer.document({"costs": found.costs, "seconds": found.seconds, "quantile": quantile, "written": written})


def _mapping(text: str, output: Path | None) -> Mapping[str, Any]:
    """Import the mapping; modules in the current folder are found, as with ``python -m``."""
    module, _, name = text.partition(":")
    if not module or not name:
        raise Refused(f"{shown(text)} is not MODULE:NAME, such as extractors:EXTRACTORS")
    if "" not in sys.path and str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    with refusing(module):
        imported = import_module(module)
    if output is not None and imported.__file__:
        check_distinct(output, [Path(imported.__file__)])
    found = getattr(imported, name, None)
    if not isinstance(found, Mapping):
        raise Refused(f"{shown(name)} in module {shown(module)} is not a mapping of groups to functions")
    return found


def _inputs(path: Path) -> list[Any]:
    with refusing(str(path)):
        text = path.read_text(encoding="utf-8")
        if path.suffix == ".json":
            inputs = json.loads(text)
            if not isinstance(inputs, list):
                raise Refused("it must hold a list of inputs")
        else:
            lines = [line for line in text.splitlines() if line.strip()]
            inputs = [json.loads(line) for line in lines] if path.suffix == ".jsonl" else lines
        if not inputs:
            raise Refused("it holds no inputs")
    return list(inputs)
