"""The lines of Python and of the command line that compute what a session shows."""

from __future__ import annotations

from shlex import quote

from budgetline.arrays import Array
from budgetline.data.description import TextDescription
from budgetline.data.text_format import ROW_NAMES
from budgetline.data.text_streams import UTF8
from budgetline.estimators.unattended import (
    FEW_PAIRS,
    FOLDS,
    MOST_PAIRS,
    NOTHING,
    search_rows,
    takes_long,
    usual_folds,
)
from budgetline.explore.results import todays_order
from budgetline.explore.session_data import Data
from budgetline.explore.state import State
from budgetline.files import model_path_for

GROUPS = "groups.yaml"
"""Name of the groups file in the lines."""
ESTIMATORS = {
    "regression": ("AnytimeRegressorCV", "KFold"),
    "classification": ("AnytimeClassifierCV", "StratifiedKFold"),
}
"""Estimator and folds, by task."""
PANDAS_MISSING = {"", "#N/A", "N/A", "NA", "NULL", "NaN", "None", "n/a", "nan", "null"}
"""Texts that pandas takes as missing by itself."""


def groups_yaml(state: State) -> str:
    """Return the groups as the text of a file that the library reads; always known groups cost nothing there."""
    return state.feature_groups.to_yaml()


def needs_groups_file(state: State, data: Data) -> bool:
    """Return whether the groups are others than those that the command line makes of the same columns."""
    plain = all(g.columns == (g.name,) and g.cost == 1 and not g.requires for g in state.groups)
    kept = [name for name in data.table.unhelpful if name in state.names]
    return not plain or bool(state.shared or state.start or kept)


# -- Python ----------------------------------------------------------------------------------------------------


def python_lines(state: State, data: Data) -> str:
    """Return Python that learns the order from the data, and computes the curve, the comparison and the plan."""
    assert state.target is not None
    kind, splitter = ESTIMATORS[state.task]
    target, written = data.target(state.target), needs_groups_file(state, data)
    names = [kind, "FeatureGroups" if written else "", "FixedOrder" if state.today else ""]
    names += ["compare", "cross_val_budget_curve", "save"]
    y, metric = f"df[{code(state.target)}]", code(state.metric)
    order = list(todays_order(state, state.feature_groups))
    rows = "" if state.loss == "squared_error" else ", X=X, y=y"
    lines = [
        "import pandas as pd",
        "from sklearn.base import clone",
        f"from sklearn.model_selection import {splitter}",
        "from sklearn.utils import shuffle",
        "",
        f"from budgetline import {', '.join(filter(None, names))}",
        "from budgetline.data.target_column import as_numbers" if target.form else None,
        "",
        f"df = {_reading(state, data)}",
        f"df = df.dropna(subset=[{code(state.target)}])" if target.dropped else None,
        _features(state),
        f"y = pd.Series(as_numbers({y}.to_numpy(), {code(state.target)})[0])" if target.form else f"y = {y}",
        f"groups = FeatureGroups.from_yaml({code(GROUPS)})" if written else None,
        "",
        f"search = {kind}({', '.join(_settings(state, written, target.y))})",
        "search.fit(*shuffle(X, y, random_state=0))",
        "print(search.sequence_)",
        f"save(search, {code(str(model_path_for(data.place)))})",
        "",
        f"folds = {splitter}({FOLDS}, shuffle=True, random_state=0)",
        "model = search.chosen()  # learns with what the search chose",
        f"curve = cross_val_budget_curve(model, X, y, metric={metric}, cv=folds)",
        "print(curve.to_dict())",
        "",
        "others = {",
        '    "this order": model,',
        '    "cheapest first": clone(model).set_params(schedule="cheapest"),',
        '    "costs ignored": clone(model).set_params(cost_sensitive=False),',
        f'    "today\'s order": clone(model).set_params(schedule=FixedOrder({code(order)})),' if state.today else None,
        "}",
        f"print(compare(others, X, y, metric={metric}, cv=folds))",
        None if state.budget is None else f"print(search.plan({code(state.budget)}{rows}))",
        f"print(search.next_groups({code(list(state.available))}))" if state.available else None,
    ]
    return "".join(f"{line}\n" for line in lines if line is not None)


def _features(state: State) -> str:
    """Return the line that takes the columns to learn from."""
    if len(state.left_out) < len(state.used):
        return f"X = df.drop(columns={code([state.target, *state.left_out])})"
    return f"X = df[{code(list(state.used))}]"


def _settings(state: State, written: bool, y: Array) -> list[str]:
    """Return the arguments of the estimator, those that are not its defaults."""
    found, refits = ["groups"] if written else [], state.task == "classification" or state.loss == "poisson"
    long = refits and takes_long(len(state.groups), y.size)
    if state.encoding != "none":
        found += [f"encoding={code(state.encoding)}", f"interactions=(0, {FEW_PAIRS if long else MOST_PAIRS})"]
    rule = "score" if state.rule == "fr" and long else state.rule
    found += [] if rule == "fr" else [f"rule={code(rule)}"]
    found += [f"search_rows={search_rows(len(state.groups))}"] if long else []
    found += ['loss="poisson"'] if state.loss == "poisson" else []
    found += [f"start={code(list(state.start))}"] if state.start else []
    found += [] if state.alpha is None else [f"alphas=[{code(state.alpha)}]"]
    found += ["max_groups=len(X)"] if len(state.groups) > y.size else []
    folds = usual_folds(y, classes=state.task == "classification")
    return [*found, f"min_gain={NOTHING:g} / len(X)", f"cv={folds}", "stop_at_best=True"]


def _reading(state: State, data: Data) -> str:
    """Return how pandas reads the files."""
    (first, *more), kind = data.found
    dates = [column.name for column in data.table.columns if column.kind == "date" and column.name in state.used]
    text = data.table.text
    options = "" if text is None else "".join(f", {name}={code(v)}" for name, v in _text_options(text, dates).items())
    read = {"csv": "read_csv", "parquet": "read_parquet", "excel": "read_excel"}[kind]
    if not more:
        return f"pd.{read}({code(str(first))}{options})"
    return f"pd.concat([pd.{read}(path{options}) for path in {code([str(path) for path in data.found[0]])}])"


def _text_options(text: TextDescription, dates: list[str]) -> dict[str, object]:
    """Return what pandas must be told about CSV files."""
    missing = [each for each in text.missing if each not in PANDAS_MISSING]
    found: dict[str, object] = {} if text.delimiter == "," else {"sep": text.delimiter}
    found |= {} if text.decimal == "." else {"decimal": text.decimal}
    found |= {"na_values": missing} if missing else {}
    found |= {} if text.encoding == UTF8 else {"encoding": text.encoding}
    found |= {"index_col": 0} if ROW_NAMES in text.left_out else {}
    return found | ({"parse_dates": dates} if dates else {})


def code(value: object) -> str:
    """Return a plain value as Python writes it."""
    return repr(value)


# -- the command line ------------------------------------------------------------------------------------------


def shell_lines(state: State, data: Data) -> str:
    """Return commands that learn the order from the data, and compute the curve, the report and the plan.

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
    options += [f"--rule {state.rule}"] if state.rule != "fr" else []
    options += [f"--start {quote(name)}" for name in state.start]
    options += [] if state.alpha is None else [f"--alpha {code(state.alpha)}"]
    metric = [] if state.metric == "explained" else [f"--metric {state.metric}"]
    lines = [
        ["fit", *given, *options],
        ["show", model],
        ["curve", model, *given, f"--cv {FOLDS}", *metric],
        ["report", model, *given, *metric],
    ]
    if state.budget is not None:
        budget = f"--budget {code(state.budget)}"
        lines.append(["plan", model, *([] if state.loss == "squared_error" else given), budget])
        lines.append(["predict", model, place, *reading, budget])
    if state.available:
        lines.append(["next", model, *(f"--have {quote(name)}" for name in state.available)])
    return "".join(f"budgetline {' '.join(line)}\n" for line in lines)


def _columns(state: State, data: Data) -> list[str]:
    """Return the options that name groups, or columns to leave out."""
    if needs_groups_file(state, data):
        return [f"-g {GROUPS}"]
    others = [name for name in state.left_out if name not in data.table.unhelpful]
    return [f"--exclude {quote(','.join(others))}"] if others else []
