"""All commands, their help, and their exit codes."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable, Sequence
from importlib.metadata import version
from inspect import getdoc
from typing import Annotated, Any, cast

import typer

from budgetline.cli.deciding import certify, next_, plan
from budgetline.cli.evaluating import curve, report, show
from budgetline.cli.exploring import explore
from budgetline.cli.learning import fit
from budgetline.cli.options import PANELS, flattened
from budgetline.cli.predicting import export, predict
from budgetline.cli.printing import EXPECTED, line_of, tell
from budgetline.cli.starting import demo, groups, inspect
from budgetline.messages import cut, printable, shown

USAGE_ERROR = cast(type[typer.BadParameter], typer.BadParameter.__base__)
"""The exception that typer raises for wrong options; its module depends on the version of typer."""
LONGEST_LINE = 2000
"""Maximum length of an error message, in characters."""
EXIT_CODES = (
    "Exit codes: 0 for success; 1 for a bug in budgetline (with a traceback); 2 for wrong options, files or data (the "
    "last line on stderr describes the error, and nothing is written); 130 if interrupted (no file is half-written)."
)
PLAIN = {"bool": "", "str": "TEXT", "path": "FILE", **dict.fromkeys(("int", "int range"), "N")}
PLAIN |= dict.fromkeys(("float", "float range"), "X")
"""Names of option values in the help, by typer's names for their types."""
NO_NUMBERS = {"float_parsing": "number", "int_parsing": "whole number"}
"""Errors of values that are no numbers, by their names in pydantic, which reads the values for typer."""
COMMANDS: tuple[Callable[..., None], ...] = (
    demo, inspect, groups, fit, show, curve, predict, plan, next_, report, explore, certify, export
)  # fmt: skip


def _version(wanted: bool) -> None:
    if wanted:
        print(f"budgetline {version('budgetline')}")
        raise typer.Exit


def _start(
    context: typer.Context,
    shown: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Learn the order in which to compute costly feature groups, and predict at any budget."""
    if context.invoked_subcommand is None:
        print(context.get_help())


def _command_line() -> Any:
    """Return the program with all its commands; the last line of a command's docstring is an example."""
    app = typer.Typer(name="budgetline", rich_markup_mode="rich", pretty_exceptions_enable=False)
    first = "Examples: budgetline demo; budgetline fit data.csv -t y; budgetline COMMAND --help"
    app.callback(invoke_without_command=True, epilog=f"{first}\n\n{EXIT_CODES}")(_start)
    for function in COMMANDS:
        text, _, example = (getdoc(function) or "").partition("\n\nExample: ")
        app.command(function.__name__.rstrip("_"), help=text, epilog=f"Example:\n\n{example}")(flattened(function))
    program = typer.main.get_command(app)
    for command in (program, *program.commands.values()):  # type: ignore[attr-defined]
        _arrange(command, PANELS if command is not program else {})
    return program


def _arrange(command: Any, panels: dict[str, tuple[str, ...]]) -> None:
    """Sort options into panels, and name values as people do: typer writes <bool> or <float range>."""
    panel_of, order = {name: panel for panel, names in panels.items() for name in names}, list(panels)
    context = typer.Context(command)
    for param in (*command.params, command.get_help_option(context)):
        if param.param_type_name == "argument":
            param.display_type_rich = lambda ctx: None
            param.get_usage_pieces = lambda ctx, name=param.metavar: [name]  # typer writes {MODEL} and [[DATA]]
            continue
        if param.rich_help_panel is None:
            param.rich_help_panel = panel_of.get(param.name)
        if param.metavar is None and hasattr(param, "display_type"):
            label = param.display_type(context).strip("<>")
            param.metavar = PLAIN.get(label, label)
    command.params.sort(key=lambda param: order.index(panel) if (panel := param.rich_help_panel) in order else -1)


def run(arguments: Sequence[str]) -> int:
    """Run a command; return its exit code. Any error that the user can fix is one line on stderr."""
    if sys.stdout is None:
        return _refused("stdout is closed: there is nowhere to print the result")
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")  # an old terminal must not stop a result
    code = _run(arguments)
    try:
        sys.stdout.flush()
    except OSError as error:
        # Python would try to write the rest again when it ends, and complain
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if code == 0:
            broken = isinstance(error, BrokenPipeError)  # the reader has seen enough
            code = 1 if broken else _refused(f"cannot print to stdout: {error.strerror or error}")
    return code


def _run(arguments: Sequence[str]) -> int:
    """Run a command; warnings are printed as notes."""
    with warnings.catch_warnings():
        warnings.showwarning = lambda message, *_, **__: tell(f"warning: {line_of(message)}")
        try:
            code = _command_line().main(args=list(arguments), prog_name="budgetline", standalone_mode=False)
        except USAGE_ERROR as error:
            return _refused(_usage_text(error))
        except BrokenPipeError:  # the reader of stdout has seen enough
            return 1
        except EXPECTED as error:
            return _refused(line_of(error))
        except (KeyboardInterrupt, typer.Abort):
            return 130
    return code if isinstance(code, int) else 0


def _usage_text(error: typer.BadParameter) -> str:
    """Return what is wrong with the options; typer does not name a value that is no number, or out of range."""
    found: list[dict[str, Any]] = getattr(error.__cause__, "errors", list)()
    if not found or found[0]["type"] == "value_error" or error.param is None:
        return error.format_message().replace("Value error, ", "")
    name, kind, value = max(error.param.opts, key=len), found[0]["type"], shown(found[0]["input"])
    if kind in NO_NUMBERS:
        return f"{name}: {value} is not a {NO_NUMBERS[kind]}"
    return f"{name}: {found[0]['msg'].replace('Input should', 'must')}, not {value}"


def _refused(text: str) -> int:
    tell(f"error: {cut(printable(' '.join(text.split())), LONGEST_LINE)}")
    return 2
