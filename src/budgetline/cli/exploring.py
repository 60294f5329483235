"""``budgetline explore``: price groups and plan budgets in a browser."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

from typer import Option

from budgetline.cli import options
from budgetline.cli.data import DELIMITERS, check_output
from budgetline.cli.learning_data import read_groups
from budgetline.cli.printing import Printer, refusing
from budgetline.explore.edits import adopted, choose, set_target
from budgetline.explore.serving import browser_at, serve
from budgetline.explore.session import Session, start_session
from budgetline.explore.session_data import Data
from budgetline.explore.takeaway import SUFFIX


def explore(
    data: options.DataFiles,
    target: options.TargetName = None,
    groups: options.Groups = None,
    unit: Annotated[str | None, Option(help="Unit of the costs, such as dollars or seconds.")] = None,
    session: Annotated[
        Path | None,
        Option(
            "--session",
            metavar="FILE",
            help=f"File in which the session is saved. Default: DATA{SUFFIX} in the folder of the data.",
        ),
    ] = None,
    new: Annotated[bool, Option("--reset", help="Start a new session even if one exists for these data.")] = False,
    port: Annotated[int, Option(min=0, max=65535, help="Port of the server; 0 means any free port.")] = 0,
    browser: Annotated[bool, Option("--open/--no-open", help="Whether to open the browser.")] = True,
    delimiter: options.Delimiter = None,
    na: options.Missing = None,
    quiet: options.Quiet = False,
) -> None:
    """Set prices, see how the order changes and plan a budget in a browser. Only this machine can connect.

    Example: budgetline explore heart.csv -t disease -g heart.yaml --unit dollars
    """
    printer = Printer(False, quiet)
    opened = _session(Data(data, DELIMITERS.get(delimiter or "", delimiter), tuple(na or ())), session, new, printer)
    begin = {"--target": target, "--groups": groups, "--unit": unit}
    if not opened.history.revision:
        with refusing():
            _begin(opened, target, groups, unit)
        if opened.problem:
            printer.warn(f"not saved: {opened.problem}")
    elif left := [name for name, value in begin.items() if value is not None]:
        printer.warn(
            f"ignored, because the session {opened.path} continues (--reset starts a new one): {', '.join(left)}"
        )
    _serve(opened, port, browser, printer)


def _serve(session: Session, port: int, browser: bool, printer: Printer) -> None:
    """Serve a session, and open a browser if asked to."""

    def ready(url: str) -> None:
        print(url, flush=True)
        printer.note(f"session: {session.path}; stop with Ctrl-C")
        if browser:
            printer.note("if the browser does not show the page, open the address above")
            pages.enter_context(browser_at(url))

    with ExitStack() as pages, refusing():
        serve(session, port, ready)


def _session(data: Data, path: Path | None, new: bool, printer: Printer) -> Session:
    """Return the session of data, which is kept in their folder unless a file is named."""
    with refusing():
        folder = data.found[0][0].parent
    name = data.name if Path(data.place).exists() else "data"  # a glob is no name of a file
    path = folder / f"{name}{SUFFIX}" if path is None else path
    check_output(path, inputs=data.found[0])
    with refusing(), printer.waiting("reading"):
        return start_session(data, path, new=new)


def _begin(session: Session, target: str | None, groups: Path | None, unit: str | None) -> None:
    """Begin a new session with the options of the command line; they cannot be undone."""
    state, data = session.state, session.data
    if target is not None:
        state = set_target(state, data, target)
    if groups is not None:
        state = adopted(state, read_groups(groups), data)
    if unit is not None:
        state = choose(state, data, unit=unit)
    session.begin(state)
