"""``budgetline demo``: the whole way on real data."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from shlex import quote
from typing import Annotated, Any

import typer
from sklearn.model_selection import train_test_split

from budgetline.cli import options
from budgetline.cli.data import frame_of
from budgetline.cli.errors import Refused
from budgetline.cli.fitting import model_record
from budgetline.cli.invocation import command_name
from budgetline.cli.screens import Screen, budget_rows
from budgetline.cli.writing import saying, write_text
from budgetline.datasets import load_nhanes
from budgetline.estimators import AnytimeRegressor, AnytimeRegressorCV
from budgetline.evaluation import BudgetCurve, budget_curve
from budgetline.groups import FeatureGroups
from budgetline.persistence import save
from budgetline.report import Report, make_report
from budgetline.report.formatting import number, with_error

TARGET = "HbA1c"


def demo(
    output: Annotated[Path, typer.Option("-o", "--output", metavar="FOLDER", help="Where to write.")] = Path(
        "budgetline-demo"
    ),
    as_json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Go the whole way on real data: what to ask and measure first to predict long-term blood sugar."""
    screen = Screen(as_json, quiet)
    _make_folder(output)
    nhanes = load_nhanes()
    X, X_test, y, y_test = train_test_split(nhanes.data, nhanes.target, test_size=0.2, random_state=0)
    names = nhanes.feature_names
    members = zip(nhanes.feature_groups.names, nhanes.feature_groups.columns, strict=True)
    columns = {nhanes.group_titles[name]: [names[d] for d in positions] for name, positions in members}
    groups = FeatureGroups(columns, nhanes.feature_groups.costs)
    screen.note(f"NHANES 2017-2018: {len(y):,} adults, {len(names)} columns in {len(groups)} groups. Learning …")
    alpha = AnytimeRegressorCV(groups).fit(frame_of(X, names), y).alpha_
    model = AnytimeRegressor(groups, alpha=alpha).fit(frame_of(X, names), y)
    curve = budget_curve(model, frame_of(X_test, names), y_test, metric="r2")
    screen.note("Judging it and other ways to order the groups, on 5 folds …")
    title = "What to ask and measure first to predict long-term blood sugar"
    summary = make_report(model, frame_of(X, names), y, title=title, unit="points", progress=screen.progress)
    files = {name: output / name for name in ("model.budgetline", "report.html", "groups.yaml", "people.csv")}
    for path in files.values():
        with saying(path):
            _write(path, model, summary, groups, (X_test, y_test, names))
    _print(model, curve, summary, len(y_test), files, screen)
    paths = {name: str(path) for name, path in files.items()}
    screen.document({**model_record(model), "held_out_r2": budget_rows(curve), "written": paths})


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise Refused(f"cannot write to {folder}: {error.strerror or error}") from error


def _write(path: Path, model: Any, summary: Report, groups: FeatureGroups, held: tuple[Any, Any, list[str]]) -> None:
    """Write one of the files, by its suffix."""
    if path.suffix == ".budgetline":
        save(model, path)
    elif path.suffix == ".html":
        summary.write(path)
    elif path.suffix == ".yaml":
        write_text(path, groups.to_yaml())
    else:
        X, y, names = held
        text = io.StringIO(newline="")
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow([*names, TARGET])
        writer.writerows([*row, target] for row, target in zip(X.tolist(), y.tolist(), strict=True))
        write_text(path, text.getvalue())


def _print(
    model: Any, curve: BudgetCurve, summary: Report, held_out: int, files: dict[str, Path], screen: Screen
) -> None:
    screen.say("The order in which to ask and measure, to predict long-term blood sugar (HbA1c):\n")
    screen.sequence(model.sequence_)
    screen.say(f"\nalpha {model.alpha:g} was chosen by cross-validation")
    screen.say(f"\nWhat each budget buys: R² of {held_out:,} people that were held out\n")
    screen.budgets(curve)
    screen.say()
    screen.curve(curve)
    if summary.comparison is not None:
        screen.say(f"\nIs the order worth it? Mean {summary.measure.label} over all budgets, 5 folds:\n")
        style = summary.measure.style
        methods = summary.comparison.methods
        tenth = summary.comparison.shares.index(0.1)
        worth = [with_error(method.timeliness, method.timeliness_error, style) for method in methods]
        early = [number(method.values[tenth], style) for method in methods]
        cells = [[method.name, *rest] for method, *rest in zip(methods, worth, early, strict=True)]
        screen.table(["method", "mean over budgets", "at a tenth of the cost"], cells, left={0})
    screen.say(f"\n{summary.headline}")
    screen.say(f"\nmodel:  {files['model.budgetline']}\nreport: {files['report.html']}   (open it in a browser)")
    screen.say(f"groups: {files['groups.yaml']}\ndata:   {files['people.csv']}   (the people held out)")
    command, model_file, people = command_name(), *(quote(str(files[n])) for n in ("model.budgetline", "people.csv"))
    screen.say(f"\nnext: {command} show {model_file}")
    screen.say(f"      {command} predict {model_file} {people} --budget 30")
