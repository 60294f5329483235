"""What a session gives away: files to download, and the commands that compute what it shows."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from shlex import quote
from tempfile import TemporaryDirectory

from budgetline.explore.fits import estimator_of, fit
from budgetline.explore.session_data import Data
from budgetline.explore.state import State
from budgetline.files import model_path_for
from budgetline.messages import hold_warnings
from budgetline.persistence import save
from budgetline.report import make_report

SUFFIX = ".explore"
"""Suffix of session files."""
KINDS: Mapping[str, tuple[str, str]] = {
    "model": (".budgetline", "application/octet-stream"),
    "report": (".html", "text/html; charset=utf-8"),
    "groups": (".yaml", "application/yaml; charset=utf-8"),
    "session": (SUFFIX, "application/json"),
}
"""Files to download: suffix and content type."""


def name_of_file(what: str, data: Data) -> str:
    """Return the name of a file to download, such as people.yaml."""
    return model_path_for(data.place).with_suffix(KINDS[what][0]).name


def make_file(what: str, data: Data, state: State) -> bytes:
    """Return the content of the model, the report or the groups, without warnings."""
    if not state.groups or (state.target is None and what != "groups"):
        raise ValueError("choose a target first" if state.groups else "there is no group")
    if what == "groups":
        return state.feature_groups.to_yaml().encode()
    with hold_warnings(), TemporaryDirectory() as folder:
        path = Path(folder, name_of_file(what, data))
        rows = data.read(str(state.target)).of(state.used)
        model = fit(estimator_of(state, rows), rows)
        if what == "model":
            save(model, path)
        else:
            make_report(
                model, rows.X, rows.y, metric=state.metric, title=state.title or None, unit=state.unit, progress=False
            ).write(path)
        return path.read_bytes()


def shell_lines(state: State, data: Data) -> str:
    """Return commands that learn the order from the data and the file of groups, and make the report and the plan."""
    if state.target is None or not state.groups:
        return ""
    place, model, target = quote(data.place), quote(name_of_file("model", data)), data.target(state.target)
    reading = [] if data.delimiter is None else [f"--delimiter {quote(data.delimiter)}"]
    reading += [f"--na {quote(text)}" for text in data.na]
    given = [place, f"-t {quote(state.target)}", *reading, *["--drop-missing-target"] * bool(target.dropped)]
    options = [f"-g {quote(name_of_file('groups', data))}", *["--task " + state.task] * (state.task != target.task)]
    lines = [["fit", *given, *options], ["report", model, *given, f"--metric {state.metric}"]]
    if state.budget is not None:
        budget = f"--budget {state.budget}"
        lines.append(["plan", model, *([] if state.task == "regression" else given), budget])
        lines.append(["predict", model, place, *reading, budget])
    if state.available:
        lines.append(["next", model, *(f"--available {quote(name)}" for name in state.available)])
    return "".join(f"budgetline {' '.join(line)}\n" for line in lines)
