"""``budgetline demo``: the whole way on real data."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from shlex import quote
from typing import Annotated

from sklearn.model_selection import train_test_split
from typer import Option

from budgetline.cli import options
from budgetline.cli.errors import Refused
from budgetline.cli.outputs import write_text, writing
from budgetline.cli.printing import Printer, bought_at, command_name
from budgetline.cli.showing import model_record
from budgetline.datasets import load_nhanes
from budgetline.estimators import AnytimeRegressor, AnytimeRegressorCV
from budgetline.evaluation import BudgetCurve, budget_curve
from budgetline.groups import FeatureGroups
from budgetline.inputs import NamedArray
from budgetline.model.anytime import AnytimeModel
from budgetline.persistence import save
from budgetline.report import Report, make_report
from budgetline.report.formatting import number, with_error


def demo(
    output: Annotated[Path, Option("-o", "--output", metavar="FOLDER", help="Where to write.")] = Path(
        "budgetline-demo"
    ),
    as_json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Go the whole way on real data: what to ask and measure first to predict long-term blood sugar.

    For example:
    budgetline demo
    """
    printer = Printer(as_json, quiet)
    try:
        output.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise Refused(f"cannot write to {output}: {error.strerror or error}") from error
    nhanes = load_nhanes()
    X, X_test, y, y_test = train_test_split(nhanes.data, nhanes.target, test_size=0.2, random_state=0)
    names, members = nhanes.feature_names, zip(nhanes.feature_groups.names, nhanes.feature_groups.columns, strict=True)
    columns = {nhanes.group_titles[name]: [names[d] for d in positions] for name, positions in members}
    groups = FeatureGroups(columns, nhanes.feature_groups.costs)
    printer.note(f"NHANES 2017-2018: {len(y):,} adults, {len(names)} columns in {len(groups)} groups. Learning …")
    table = NamedArray(X, tuple(names))
    alpha = AnytimeRegressorCV(groups).fit(table, y).alpha_
    model = AnytimeRegressor(groups, alpha=alpha).fit(table, y)
    curve = budget_curve(model, NamedArray(X_test, tuple(names)), y_test, metric="r2")
    printer.note("Comparing it with other ways to order the groups, on 5 folds …")
    title = "What to ask and measure first to predict long-term blood sugar"
    report = make_report(model, table, y, title=title, unit="points", progress=printer.progress)
    files = {name: output / name for name in ("model.budgetline", "report.html", "groups.yaml", "people.csv")}
    people = io.StringIO(newline="")
    rows = ([*row, target] for row, target in zip(X_test.tolist(), y_test.tolist(), strict=True))
    csv.writer(people, lineterminator="\n").writerows([[*names, "HbA1c"], *rows])
    with writing(files["model.budgetline"]):
        save(model, files["model.budgetline"])
    with writing(files["report.html"]):
        report.write(files["report.html"])
    write_text(files["groups.yaml"], groups.to_yaml())
    write_text(files["people.csv"], people.getvalue())
    _print(model.model_, curve, report, len(y_test), files, printer)
    paths = {name: str(path) for name, path in files.items()}
    printer.document({**model_record(model.model_), "held_out_r2": bought_at(curve), "written": paths})


def _print(
    model: AnytimeModel, curve: BudgetCurve, report: Report, held_out: int, files: dict[str, Path], printer: Printer
) -> None:
    printer.say("The order in which to ask and measure, to predict long-term blood sugar (HbA1c):\n")
    printer.sequence(model.sequence, model.groups.names)
    printer.say(f"\nalpha {model.alpha:g} was chosen by cross-validation")
    printer.say(f"\nWhat each budget buys: R² on {held_out:,} people who were held out\n")
    printer.budgets(curve)
    printer.say()
    printer.curve(curve)
    if report.comparison is not None:
        printer.say(f"\nIs the order worth it? Mean {report.measure.label} over all budgets, 5 folds:\n")
        style, methods, tenth = report.measure.style, report.comparison.methods, report.comparison.shares.index(0.1)
        worth = (with_error(method.timeliness, method.timeliness_error, style) for method in methods)
        early = (number(method.values[tenth], style) for method in methods)
        cells = zip((method.name for method in methods), worth, early, strict=True)
        printer.table(["method", "mean over budgets", "at a tenth of the cost"], cells, left={0})
    printer.say(f"\n{report.headline}")
    printer.say(f"\nmodel:  {files['model.budgetline']}\nreport: {files['report.html']}   (open it in a browser)")
    printer.say(f"groups: {files['groups.yaml']}\ndata:   {files['people.csv']}   (the people held out)")
    command, model_file, people = command_name(), *(quote(str(files[n])) for n in ("model.budgetline", "people.csv"))
    printer.say(f"\nnext: {command} show {model_file}")
    printer.say(f"      {command} predict {model_file} {people} --budget 30")
