"""All commands, and how they end."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable, Sequence
from importlib.metadata import version
from typing import Annotated, Any, TextIO

import typer

from budgetline.cli.certifying import certify
from budgetline.cli.demo import demo
from budgetline.cli.errors import EXPECTED, line_of
from budgetline.cli.fitting import fit
from budgetline.cli.grouping import groups
from budgetline.cli.judging import compare, curve, report, show
from budgetline.cli.predicting import export, predict
from budgetline.cli.profiling import profile
from budgetline.cli.screens import aside, release, tell
from budgetline.messages import cut, printable

USAGE_ERROR: Any = typer.BadParameter.__base__
"""What typer raises for wrong options; where the class lives depends on its version."""
LONGEST_LINE = 2000
"""Characters of an error."""
EXIT_CODES = (
    "Exit codes: 0 done; 1 a bug in budgetline (with a traceback); 2 wrong use: options, files or data (one line on "
    "stderr, nothing is written); 130 interrupted (nothing half-written)."
)
COMMANDS: tuple[tuple[Callable[..., None], tuple[str, ...]], ...] = (
    (demo, ("budgetline demo",)),
    (
        groups,
        (
            "budgetline groups heart.csv --target ill -o groups.yaml",
            "budgetline groups heart.csv --by correlation --threshold 0.8",
        ),
    ),
    (
        fit,
        (
            "budgetline fit heart.csv -t ill -g groups.yaml -o heart.budgetline",
            "budgetline fit 'days/*.parquet' -t y --cv 5 -o m.budgetline",
        ),
    ),
    (show, ("budgetline show heart.budgetline", "budgetline show heart.budgetline --json")),
    (
        curve,
        (
            "budgetline curve heart.budgetline new.csv -t ill --metric roc_auc",
            "budgetline curve heart.budgetline heart.csv -t ill --cv 5",
        ),
    ),
    (
        compare,
        (
            "budgetline compare heart.csv -t ill -g groups.yaml",
            "budgetline compare heart.csv -t ill --rules fr,cheapest --metric roc_auc",
        ),
    ),
    (
        predict,
        (
            "budgetline predict heart.budgetline new.csv --budget 20 --proba",
            "budgetline predict heart.budgetline new.csv --available age,sex -o out.csv",
        ),
    ),
    (
        report,
        (
            "budgetline report heart.budgetline heart.csv -t ill --unit dollars",
            "budgetline report heart.budgetline -o heart.md",
        ),
    ),
    (
        certify,
        (
            "budgetline certify heart.budgetline",
            "budgetline certify heart.budgetline --time-limit 60 --budget 20 --budget 100",
        ),
    ),
    (export, ("budgetline export heart.budgetline -o heart.onnx",)),
    (
        profile,
        (
            "budgetline profile extractors:EXTRACTORS texts.txt",
            "budgetline profile extractors:EXTRACTORS in.jsonl -g in.yaml -o out.yaml",
        ),
    ),
)
"""Every command with examples of its use."""


def _version(wanted: bool) -> None:
    if wanted:
        print(f"budgetline {version('budgetline')}")
        raise typer.Exit


def _start(
    context: typer.Context,
    shown: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and end.")
    ] = False,
) -> None:
    """Learn the order in which to compute costly feature groups, and predict at any budget."""
    if context.invoked_subcommand is None:
        print(context.get_help())


def _made() -> Any:
    """Return the command with all its subcommands."""
    app = typer.Typer(name="budgetline", rich_markup_mode="rich", pretty_exceptions_enable=False)
    first = "Examples: budgetline demo; budgetline fit data.csv -t y -o m.budgetline; budgetline COMMAND --help"
    app.callback(invoke_without_command=True, epilog=f"{first}\n\n{EXIT_CODES}")(_start)
    for function, examples in COMMANDS:
        app.command(epilog="\n\n".join(["Examples:", *examples]))(function)
    return typer.main.get_command(app)


def run(arguments: Sequence[str]) -> int:
    """Run a command; return its exit code. Whatever the user can mend is one line on stderr."""
    if sys.stdout is None:
        return _ended("stdout is closed: there is nowhere to print the result")
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")  # an old terminal must not stop a result
    code = _run(arguments)
    try:
        sys.stdout.flush()
    except OSError as error:
        # what is left would be tried again, and complained about, when Python ends
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if code == 0:
            broken = isinstance(error, BrokenPipeError)  # the reader has seen enough
            code = 1 if broken else _ended(f"cannot print to stdout: {error.strerror or error}")
    release(code == 0)
    return code


def _run(arguments: Sequence[str]) -> int:
    """Run a command; what it says beside its result is still held back."""
    with warnings.catch_warnings():
        warnings.showwarning = _note
        try:
            release(False)
            code = _made().main(args=list(arguments), prog_name="budgetline", standalone_mode=False)
        except USAGE_ERROR as error:
            return _ended(error.format_message().replace("Value error, ", ""))
        except BrokenPipeError:  # whoever read our output has seen enough
            return 1
        except EXPECTED as error:
            return _ended(line_of(error))
        except (KeyboardInterrupt, typer.Abort):
            return 130
    return code if isinstance(code, int) else 0


def _ended(text: str) -> int:
    tell(f"error: {cut(printable(' '.join(text.split())), LONGEST_LINE)}")
    return 2


def _note(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    """Print a warning of the library as one line."""
    aside(f"warning: {line_of(message) if isinstance(message, Warning) else message}")
