"""The commands that compute what a session shows, and lines of Python that use their model."""

from __future__ import annotations

from shlex import quote

from budgetline.explore.session_data import Data
from budgetline.explore.state import State
from budgetline.files import model_path_for

GROUPS = "groups.yaml"
"""Name of the groups file in the lines."""
code = repr  # a plain value as Python and the command line write it


def needs_groups_file(state: State, data: Data) -> bool:
    """Return whether the groups are others than those that the command line makes of the same columns."""
    plain = all(g.columns == (g.name,) and g.cost == 1 and not g.requires for g in state.groups)
    kept = [name for name in data.unhelpful if name in state.names]
    return not plain or bool(state.shared or state.start or kept)


def python_lines(state: State, data: Data) -> str:
    """Return Python that uses the model of ``budgetline fit``, or the downloaded one."""
    budget = "" if state.budget is None else f", budget={code(state.budget)}"
    lines = [
        "import pandas as pd",
        "",
        "from budgetline import load",
        "",
        f"model = load({code(str(model_path_for(data.place)))})  # from 'budgetline fit', or downloaded here",
        "print(model.sequence_)",
        "new = pd.read_csv('new.csv')  # rows with the same names of columns",
        f"print(model.predict(new{budget}))",
    ]
    return "".join(f"{line}\n" for line in lines)


def shell_lines(state: State, data: Data) -> str:
    """Return commands that learn the order from the data, and make the report and the plan.

    Options that are the command line's own choice are left out.
    """
    assert state.target is not None
    place, model, target = quote(data.place), quote(str(model_path_for(data.place))), data.target(state.target)
    reading = [] if data.delimiter is None else [f"--delimiter {quote(data.delimiter)}"]
    reading += [f"--na {quote(text)}" for text in data.na]
    given = [place, f"-t {quote(state.target)}", *reading]
    given += ["--drop-missing-target"] if target.dropped else []
    options = _columns(state, data)
    options += [f"--task {state.task}"] if state.task != target.task else []
    options += ["--loss poisson"] if state.loss == "poisson" else []
    options += [f"--encoding {state.encoding}"] if state.encoding != "spline" else []
    options += [f"--rule {state.rule}"] if state.rule != "forward" else []
    options += [f"--start {quote(name)}" for name in state.start]
    options += [] if state.alpha is None else [f"--alpha {code(state.alpha)}"]
    lines = [["fit", *given, *options], ["show", model], ["report", model, *given, f"--metric {state.metric}"]]
    if state.budget is not None:
        budget = f"--budget {code(state.budget)}"
        lines.append(["plan", model, *([] if state.loss == "squared_error" else given), budget])
        lines.append(["predict", model, place, *reading, budget])
    if state.available:
        lines.append(["next", model, *(f"--available {quote(name)}" for name in state.available)])
    return "".join(f"budgetline {' '.join(line)}\n" for line in lines)


def _columns(state: State, data: Data) -> list[str]:
    """Return the options that name groups, or columns to leave out."""
    if needs_groups_file(state, data):
        return [f"-g {GROUPS}"]
    others = [name for name in state.left_out if name not in data.unhelpful]
    return [f"--exclude {quote(','.join(others))}"] if others else []
