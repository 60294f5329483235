"""``budgetline profile``: measure what extractors cost."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

from typer import Argument, Option

from budgetline.cli import options
from budgetline.cli.data import read_groups
from budgetline.cli.errors import Refused, refusing
from budgetline.cli.outputs import check_distinct, check_output, write_text
from budgetline.cli.printing import Printer
from budgetline.messages import shown, some
from budgetline.runtime import profile_costs


def profile(
    extractors: Annotated[str, Argument(metavar="MODULE:NAME", help="A mapping group -> function in a Python module.")],
    sample: Annotated[
        Path, Argument(metavar="SAMPLE", help="Inputs: a .json list, .jsonl, or any text, one input per line.")
    ],
    groups: options.Groups = None,
    output: Annotated[
        Path | None, Option("-o", "--output", metavar="FILE", help="With --groups: the groups at the measured costs.")
    ] = None,
    quantile: Annotated[float, Option(min=0, max=1, help="Quantile to show beside the median.")] = 0.95,
    repeats: Annotated[int, Option(min=1, help="How often every input is timed.")] = 3,
    warmup: Annotated[int, Option(min=0, help="Calls before the measurement.")] = 1,
    batch_size: Annotated[int | None, Option(min=1, help="Batch size of extractors that take batches.")] = None,
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
    """Import the mapping; modules in the current folder are found, as by ``python -m``."""
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
