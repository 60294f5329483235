"""The lines of Python and of the command line that compute what a session shows."""

from __future__ import annotations

from shlex import quote

from budgetline.estimators.base import AnytimeEstimator
from budgetline.estimators.unattended import FOLDS, estimator_for
from budgetline.explore.results import todays_order
from budgetline.explore.state import State
from budgetline.explore.table import Data

GROUPS, MODEL = "groups.yaml", "model.budgetline"
"""Names of the files in the lines."""


def groups_yaml(state: State) -> str:
    """Return the groups as the text of a file that the library reads."""
    return state.feature_groups.to_yaml()


def python_lines(state: State, data: Data) -> str:
    """Return Python that learns the order from the data, and computes the curve, the comparison and the plan."""
    assert state.target is not None
    classes, loss = state.task == "classification", None if state.task == "classification" else state.loss
    encoding = None if state.encoding == "none" else state.encoding
    given = {"rule": state.rule, "start": list(state.start), "alpha": state.alpha, "encoding": encoding, "loss": loss}
    estimator = estimator_for(state.feature_groups, classes=classes, **given)
    kind, splitter = type(estimator).__name__, "StratifiedKFold" if classes else "KFold"
    settings = _settings(estimator)
    reading = "".join(f", {name}={code(value)}" for name, value in _reading(data).items())
    text = f"""\
import narwhals as nw
import numpy as np
from sklearn.model_selection import {splitter}

from budgetline import {kind}, FeatureGroups, FixedOrder, compare, cross_val_budget_curve, open_source, save

groups = FeatureGroups.from_yaml({code(GROUPS)})
source = open_source({code(data.place)}, {code(state.target)}{reading}).raw()
chunks = [chunk for partition in source.partitions for chunk in partition.chunks(None)]
table = nw.concat([chunk.X for chunk in chunks]).to_native()
used = {{column for columns in groups.columns for column in columns}}
X = table.select([name for name in table.column_names if name in used])
y = np.concatenate([chunk.y for chunk in chunks])

model = {kind}(groups{settings}).fit(X, y)
print(model.sequence_)
save(model, {code(MODEL)})

folds = {splitter}({FOLDS}, shuffle=True, random_state=0)
curve = cross_val_budget_curve(model, X, y, metric={code(state.metric)}, cv=folds)
print(curve.to_dict())

others = {{
    "this order": {kind}(groups{settings}),
    "cheapest first": {kind}(groups{settings}, schedule="cheapest"),
    "costs ignored": {kind}(groups{settings}, cost_sensitive=False),
"""
    if state.today:
        order = list(todays_order(state, state.feature_groups))
        text += f'    "today\'s order": {kind}(groups{settings}, schedule=FixedOrder({code(order)})),\n'
    text += f'}}\nprint(compare(others, X, y, metric={code(state.metric)}, cv=folds, reference="this order"))\n'
    if state.budget is not None:
        rows = "" if state.loss == "squared_error" else ", X=X, y=y"
        text += f"\nprint(model.plan({code(state.budget)}{rows}))\n"
    if state.available:
        text += f"print(model.next_groups({code(list(state.available))}))\n"
    return text


def shell_lines(state: State, data: Data) -> str:
    """Return commands that learn the order from the data, and compute the curve and the plan."""
    assert state.target is not None
    place, target = quote(data.place), quote(state.target)
    reading = [f" --delimiter {quote(data.delimiter)}" if data.delimiter is not None else ""]
    reading += [f" --na {quote(text)}" for text in data.na]
    given = f"{place} -t {target}{''.join(reading)}"
    options = [f"--task {state.task}", f"--rule {state.rule}", f"--encoding {state.encoding}", "--in-memory"]
    options += ["--no-cv", "--all-groups"]
    options += ["--loss poisson"] if state.loss == "poisson" else []
    options += [] if state.alpha is None else [f"--alpha {code(state.alpha)}"]
    options += [f"--start {quote(name)}" for name in state.start]
    lines = [
        f"budgetline fit {given} -g {GROUPS} {' '.join(options)} -o {MODEL}",
        f"budgetline show {MODEL}",
        f"budgetline curve {MODEL} {given} --cv {FOLDS} --metric {state.metric}",
    ]
    if state.budget is not None:
        rows = "" if state.loss == "squared_error" else f" {given}"
        lines.append(f"budgetline plan {MODEL}{rows} --budget {code(state.budget)}")
        lines.append(f"budgetline predict {MODEL} {place}{''.join(reading)} --budget {code(state.budget)}")
    if state.available:
        lines.append(f"budgetline next {MODEL} {' '.join(f'--have {quote(name)}' for name in state.available)}")
    return "\n".join(lines) + "\n"


def _settings(estimator: AnytimeEstimator) -> str:
    """Return the settings of an estimator that are not the default, as arguments."""
    default = type(estimator)()
    found = ""
    for name in ("rule", "loss", "start", "alpha", "encoding"):
        value = getattr(estimator, name, None)
        if value != getattr(default, name, None) and value != []:
            found += f", {name}={code(value)}"
    return found


def _reading(data: Data) -> dict[str, object]:
    """Return what was said of the format of the files."""
    found: dict[str, object] = {} if data.delimiter is None else {"delimiter": data.delimiter}
    return found | ({"na": list(data.na)} if data.na else {})


def code(value: object) -> str:
    """Return a plain value as Python writes it."""
    return repr(value)
