"""``budgetline inspect``, ``show`` and ``demo``: what a table or a model holds, and all steps on real data."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from shlex import quote
from typing import Annotated, Any

from sklearn.model_selection import train_test_split
from sklearn.utils import Bunch
from typer import Option

from budgetline import datasets
from budgetline.arrays import Array
from budgetline.budgets import affordable
from budgetline.cli import options
from budgetline.cli.data import Files, write_text
from budgetline.cli.evaluating import curve, report
from budgetline.cli.learning import fit
from budgetline.cli.learning_data import described
from budgetline.cli.options import FileOptions, FoldOptions, LearningOptions, MetricOptions, TargetOptions
from budgetline.cli.printing import Printer, Refused, in_line
from budgetline.data.description import MOST_LEVELS, ColumnDescription
from budgetline.evaluation import BudgetCurve
from budgetline.evaluation.budget_curves import training_curve
from budgetline.evaluation.metrics import label_of
from budgetline.groups import FeatureGroups
from budgetline.messages import cut, name_of, printable, shown
from budgetline.persistence.model_file import load_linear
from budgetline.report.builders import class_names, groups_with_columns, how_chosen, model_record, setting_texts
from budgetline.report.formatting import amount, count, number

HEADER, LEFT = ("column", "kind", "distinct", "missing", "values"), (0, 1, 4)
"""Header of the table of columns, and which of its columns are aligned to the left."""
LONGEST_VALUE = 20
"""Characters of a value in the table."""
SHARES = (0.0, 0.05, 0.1, 0.25, 0.5, 0.75)
"""Budgets in tables, as shares of the total cost, before rounding; the total cost comes last."""
WITH_COSTS: dict[str, Callable[[], Bunch]] = {
    "heart": datasets.load_heart,
    "nhanes": datasets.load_nhanes,
    "thyroid": datasets.load_thyroid,
}
"""Data sets that ``demo --data`` writes."""


def inspect(
    data: options.DataFiles, *, target: options.TargetName = None, reading: FileOptions, printer: Printer
) -> None:
    """Show the format that was found, and the kinds, categories and missing values of the columns.

    Example: budgetline inspect heart.csv -t disease
    """
    files = Files(data, reading)
    files.check_columns({"--target": target})
    found = described(files, target, printer)
    printer.say(f"{data}: {count(found.rows, 'row')}, {count(len(found.columns), 'column')}")
    for line in found.format:
        printer.say(line)
    printer.say()
    printer.table(HEADER, (_cells_of(column, target) for column in found.columns), LEFT)
    for name, reason in found.identifiers.items():
        if name != target:
            printer.say(f"{name_of(name)} tells nothing about new rows: {reason}; fit leaves it out, unless --keep-ids")
    printer.document({"data": data, "target": target, **asdict(found)})


def _cells_of(column: ColumnDescription, target: str | None) -> list[str]:
    """Return the row of a column in a table with the header ``HEADER``."""
    name = name_of(column.name) + (" (target)" if column.name == target else "")
    levels = f"> {MOST_LEVELS:,}" if column.levels is None else f"{column.levels:,}"
    if column.form:
        values = column.form
    elif column.low is not None:
        values = f"{_value(column.low)} to {_value(column.high)}"
    else:
        values = ", ".join(map(_value, column.examples)) + (", …" if column.levels != len(column.examples) else "")
    return [name, column.kind, levels, f"{column.missing:,}" if column.missing else "", values]


def _value(value: object) -> str:
    return f"{value:.6g}" if isinstance(value, float) else cut(str(value), LONGEST_VALUE)


def show(model: options.ModelFile, *, printer: Printer) -> None:
    """Show a model: its sequence, what each budget buys, its curve and its settings.

    Example: budgetline show heart.budgetline
    """
    found = load_linear(model).model_
    explained, record = training_curve(found), model_record(found)
    labels = in_line(class_names(found))
    printer.say(f"{model}: {found.estimator}, {record['task']}" + (f" ({labels})" if 0 < len(labels) < 40 else ""))
    total, groups = amount(explained.total_cost), groups_with_columns(found)
    printer.say(f"{found.source.n_features} columns in {count(len(groups), 'group')}, total cost {total}\n")
    printer.sequence(found)
    for name, (cost, members) in found.groups.shared.items():
        printer.say(f"shared: {shown(name)} {amount(cost)}, by {in_line(members)}")
    for name in groups:
        if required := found.groups.requires.get(name):
            printer.say(f"{printable(name)} requires {in_line(required)}")
    printer.say("\nWhat each budget buys, on the training data:\n")
    style, bought = label_of(explained.metric).style, _bought_at(explained)
    cells = (
        [amount(row["budget"]), amount(row["spent"]), str(row["groups"]), number(row["value"], style), row["last"]]
        for row in bought
    )
    header = ["budget", "spent", "groups", explained.metric, "last group bought"]
    printer.table(header, ([*row[:-1], row[-1] or "none"] for row in cells), left={4})
    printer.say()
    printer.paragraph("Settings: " + ", ".join(f"{name} {value}" for name, value in setting_texts(found).items()))
    if chosen := how_chosen(found):
        printer.say(chosen)
    printer.document({"model": str(model), **record, "budgets": bought})


def _bought_at(curve: BudgetCurve) -> list[dict[str, Any]]:
    """Return what budgets between 0 and the total cost buy: cost and number of the groups, value, last group."""
    total = curve.total_cost
    rounded = [min(float(f"{share * total:.2g}"), total) for share in SHARES]
    stages = {budget: int(affordable(curve.costs, budget)) - 1 for budget in (*rounded, total)}
    costs, values = curve.costs.tolist(), curve.values.tolist()
    return [
        {"budget": budget, "spent": costs[k], "groups": k, "value": values[k], "last": curve.groups[k]}
        for budget, k in stages.items()
    ]


def demo(
    output: Annotated[Path, Option("-o", "--output", metavar="FOLDER", help="Where to write.")] = Path(
        "budgetline-demo"
    ),
    data: Annotated[
        Path | None,
        Option(metavar="FILE", help=f"Only write data and groups: {', '.join(f'{name}.csv' for name in WITH_COSTS)}."),
    ] = None,
    quiet: options.Quiet = False,
) -> None:
    """Run all steps on real data: what to ask and measure first to predict long-term blood sugar.

    Example: budgetline demo
    """
    printer = Printer(False, quiet)
    if data is not None:
        _write_data(data, printer)
        return
    try:
        output.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise Refused(f"cannot write to {output}: {error.strerror or error}") from error
    # With the questionnaire about diabetes, no other question would be worth its cost.
    nhanes = datasets.load_nhanes(drop="DIQ")
    X, X_new, y, y_new = train_test_split(nhanes.data, nhanes.target, test_size=0.2, random_state=0)
    names = ("people.csv", "new.csv", "groups.yaml", "model.budgetline", "report.html")
    people, new, prices, model, page = (output / name for name in names)
    target, header = "HbA1c", [*nhanes.feature_names, "HbA1c"]
    write_text(people, _csv(header, X, y))
    write_text(new, _csv(header, X_new, y_new))
    write_text(prices, _named_groups(nhanes, nhanes.group_titles).to_yaml())
    printer.say(f"NHANES 2017-2018: {people} and {new} hold {len(y):,} and {len(y_new):,} adults, {prices} the costs.")
    steps: dict[tuple[object, ...], Callable[..., None]] = {
        ("fit", people, "-g", prices, "--encoding", "none", "-o", model): partial(
            fit,
            str(people),
            output=model,
            learning=LearningOptions(groups=prices, encoding="none"),
            folds=FoldOptions(),
        ),
        ("curve", model, new, "-m", "r2"): partial(curve, model, str(new), measure=MetricOptions("r2")),
        ("report", model, people, "-o", page, "--unit", "points"): partial(
            report, model, str(people), output=page, unit="points", measure=MetricOptions(), folds=FoldOptions()
        ),
    }
    for command, run in steps.items():
        line = " ".join(quote(str(word)) for word in (*command, "-t", target))
        printer.say(f"\n$ budgetline {line}\n")
        run(target=TargetOptions(target), reading=FileOptions(), printer=printer)


def _write_data(path: Path, printer: Printer) -> None:
    """Write a data set, found by the name of the file, and its groups and costs."""
    if path.stem not in WITH_COSTS or path.suffix != ".csv":
        raise Refused(f"--data: there is no data set for {path}; known are {', '.join(WITH_COSTS)}, such as heart.csv")
    found, groups = WITH_COSTS[path.stem](), path.with_suffix(".yaml")
    write_text(path, _csv([*found.feature_names, found.target_name], found.data, found.target))
    write_text(groups, _named_groups(found).to_yaml())
    printer.say(f"wrote {path}, with the target {found.target_name}, and {groups}")


def _named_groups(found: Bunch, titles: dict[str, str] | None = None) -> FeatureGroups:
    """Return the groups of a data set, with names of columns."""
    groups: FeatureGroups = found.feature_groups
    named = {
        (titles or {}).get(name, name): [found.feature_names[d] for d in columns]
        for name, columns in zip(groups.names, groups.columns, strict=True)
    }
    return FeatureGroups(named, groups.costs)


def _csv(header: Sequence[str], X: Array, y: Array) -> str:
    text = io.StringIO(newline="")
    rows = ([*row, target] for row, target in zip(X.tolist(), y.tolist(), strict=True))
    csv.writer(text, lineterminator="\n").writerows([header, *rows])
    return text.getvalue()
