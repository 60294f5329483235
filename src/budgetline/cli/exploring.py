"""``budgetline explore``: price groups and plan budgets in a browser."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from budgetline.cli import options
from budgetline.cli.data import check_output, read_groups
from budgetline.cli.printing import Printer, Refused, refusing
from budgetline.explore.edits import LeaveOut, SetLabels, SetTarget
from budgetline.explore.group_edits import adopted
from budgetline.explore.known_model import state_of_model
from budgetline.explore.redirect import Redirect
from budgetline.explore.serving import Address, serve
from budgetline.explore.session import SUFFIX, History, Session, read_session, start_session
from budgetline.explore.session_data import Data
from budgetline.model.anytime import AnytimeModel
from budgetline.persistence.model_file import load_linear


def explore(
    data: Annotated[
        str,
        Argument(
            metavar="DATA",
            help=f"CSV, Parquet or Excel: a file, a folder or a glob in quotes; or a session, {SUFFIX}; or MODEL.",
        ),
    ],
    learned_from: Annotated[
        str | None, Argument(metavar="[DATA]", help="After MODEL: the data that it was fitted to.")
    ] = None,
    target: options.TargetName = None,
    groups: options.Groups = None,
    exclude: options.Exclude = None,
    unit: Annotated[str | None, Option(help="Unit of the costs: dollars, seconds, …")] = None,
    session: Annotated[
        Path | None,
        Option(
            "--session",
            metavar="FILE",
            help=f"Where to keep the session. Default: DATA{SUFFIX}, in the folder of the data.",
        ),
    ] = None,
    new: Annotated[bool, Option("--new", help="Start again, although these data have a session.")] = False,
    port: Annotated[int, Option(min=0, max=65535, help="0: any free port.")] = 0,
    browser: Annotated[bool, Option("--open/--no-open", help="Whether to open the browser.")] = True,
    host: Annotated[
        str, Option(help="Address to listen on. Other machines can only connect with --others-may-connect.")
    ] = "127.0.0.1",
    consent: Annotated[
        bool, Option("--others-may-connect", help="Allow a --host that other machines can reach. Nothing is encrypted.")
    ] = False,
    delimiter: options.Delimiter = None,
    na: options.Missing = None,
    quiet: options.Quiet = False,
) -> None:
    """Price groups, see the order change and plan a budget in a browser. Only this machine can connect.

    For example:
    budgetline explore bank.csv -t y
    budgetline explore nhanes.csv -t HbA1c -g groups.yaml --unit points
    budgetline explore bank.csv.explore
    budgetline explore bank.budgetline bank.csv
    """
    printer = Printer(False, quiet)
    with refusing():
        address = Address.checked(host, port, consent)
    model = _model(data, learned_from, groups)
    opened = _session(data if learned_from is None else learned_from, session, new, (delimiter, na), printer)
    begin = {"MODEL": model, "--target": target, "--groups": groups, "--exclude": exclude, "--unit": unit}
    with closing(opened):  # a session that does not begin leaves no file
        if not opened.history.revision:
            with refusing():
                _begin(opened, model, target, groups, exclude, unit)
            if opened.problem:
                printer.warn(f"not saved: {opened.problem}")
        elif left := [name for name, value in begin.items() if value is not None]:
            printer.warn(f"not used, because {opened.path} continues (--new starts again): {', '.join(left)}")
        _serve(opened, address, browser, printer)


def _serve(session: Session, address: Address, browser: bool, printer: Printer) -> None:
    """Serve a session, and open a browser if asked to."""
    redirect = Redirect()

    def ready(url: str) -> None:
        print(url, flush=True)
        printer.note(f"session: {session.path}; stop with Ctrl-C")
        if browser:
            printer.note("if the browser does not show the page, open the address above")
            redirect.open(url)

    with refusing():
        try:
            serve(session, address, ready, redirect.remove)
        finally:
            redirect.remove()


def _session(
    place: str, path: Path | None, new: bool, text: tuple[str | None, list[str] | None], printer: Printer
) -> Session:
    """Return the session of a session file, or of data."""
    if Path(place).suffix == SUFFIX and Path(place).is_file():
        if path is not None or new or text != (None, None):
            raise Refused(f"{place} is a session, and takes no --session, --new, --delimiter or --na")
        with refusing():
            path = Path(place)
            data = read_session(path.read_bytes(), place).data
    else:
        mark, na = text
        mark = {"tab": "\t", "\\t": "\t", "space": " "}.get(mark or "", mark)
        data = Data(place, mark, tuple(na or ()))
        with refusing():
            folder = data.found[0][0].parent
        name = data.name if Path(place).exists() else "data"  # a glob is no name of a file
        path = folder / f"{name}{SUFFIX}" if path is None else path
        check_output(path, inputs=data.found[0])
    with refusing(), printer.waiting("reading"):
        return start_session(data, path, new=new)


def _model(place: str, data: str | None, groups: Path | None) -> AnytimeModel | None:
    """Return the model, if MODEL and its data are named."""
    if Path(place).suffix != ".budgetline":
        if data is not None:
            raise Refused(f"two arguments are a model and its data, and {place} is not a .budgetline file")
        return None
    if data is None:
        raise Refused(f"{place} is a model: name the data that it was fitted to, too: explore {place} DATA")
    if groups is not None:
        raise Refused("MODEL has groups: leave out --groups")
    with refusing(place):
        return load_linear(Path(place)).model_


def _begin(
    session: Session,
    model: AnytimeModel | None,
    target: str | None,
    groups: Path | None,
    exclude: list[str] | None,
    unit: str | None,
) -> None:
    """Begin a new session with the options of the command line; they cannot be undone."""
    state, table = session.state, session.table
    if model is not None:
        state = state_of_model(model, state, table, target)
    elif target is not None:
        state = SetTarget(target).apply(state, table)
    if groups is not None:
        state = adopted(state, read_groups(groups), table)
    if exclude:
        state = LeaveOut(tuple(options.names_of(exclude, state.columns))).apply(state, table)
    if unit is not None:
        state = SetLabels(unit=unit).apply(state, table)
    session.change(History(state, revision=1))
