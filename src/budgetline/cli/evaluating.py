"""``budgetline show``, ``curve`` and ``report``: what a model is, and its quality at every budget."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from typer import Argument, Option

from budgetline.cli import options
from budgetline.cli.data import Files, check_output, evaluation_rows, evaluation_source, writing
from budgetline.cli.options import FileOptions, MetricOptions, TargetOptions
from budgetline.cli.printing import Printer, Refused, in_line, refusing
from budgetline.evaluation import budget_curve
from budgetline.evaluation.metrics import label_of
from budgetline.messages import printable, shown
from budgetline.persistence.model_file import load_linear
from budgetline.report import make_report
from budgetline.report.builders import (
    USUAL_METRICS,
    class_names,
    groups_with_columns,
    how_chosen,
    model_record,
    setting_texts,
    task_name,
)
from budgetline.report.formatting import amount, count, number
from budgetline.report.sentences import subline
from budgetline.sequencing.schedules import FixedOrder

RANKS = ("ndcg", "map")
"""Ranking metrics, without their ``@k``."""


def show(model: options.ModelFile, *, printer: Printer) -> None:
    """Show the sequence of a model, what each step buys, and the settings.

    Example: budgetline show heart.budgetline
    """
    found = load_linear(model).model_
    record = model_record(found)
    labels = in_line(class_names(found))
    printer.say(f"{model}: {found.estimator}, {record['task']}" + (f" ({labels})" if 0 < len(labels) < 40 else ""))
    groups, steps = list(groups_with_columns(found)), found.sequence
    bought = f"{sum(name in groups for name in steps.groups)} of {count(len(groups), 'group')} bought"
    costs = f"total cost {amount(float(steps.costs.sum()))} of {amount(found.groups.cost_of(groups))}"
    printer.say(f"{count(found.source.n_features, 'column')}, {bought}, {costs}\n")
    printer.sequence(found)
    for name, (cost, members) in found.groups.shared.items():
        printer.say(f"shared: {shown(name)} {amount(cost)}, by {in_line(members)}")
    for name in groups:
        if required := found.groups.requires.get(name):
            printer.say(f"{printable(name)} requires {in_line(required)}")
    printer.say()
    settings = setting_texts(found)
    if isinstance(found.settings.get("schedule"), FixedOrder):  # the table shows it
        del settings["schedule"]
    printer.paragraph("Settings: " + ", ".join(f"{name} {value}" for name, value in settings.items()))
    if chosen := how_chosen(found):
        printer.say(chosen)
    printer.document({"model": str(model), **record})


def curve(
    model: options.ModelFile,
    data: options.DataFiles,
    *,
    target: TargetOptions,
    measure: MetricOptions,
    reading: FileOptions,
    printer: Printer,
) -> None:
    """Show what each budget buys on new data. For cross-validation on the training data, use report.

    Example: budgetline curve heart.budgetline new.csv --metric roc_auc
    """
    files, found = Files(data, reading, target.drop_missing_target), load_linear(model)
    usual = USUAL_METRICS.get(task_name(found.model_))
    metric, rows = measure.metric or usual or "explained", dict[str, Any]()
    if usual is None and target.qid is not None and not metric.startswith(RANKS):
        raise Refused("--qid is for ranking metrics: add --metric ndcg@10 or map")
    if usual is None:
        rows["X"], _ = evaluation_source(found.model_, files, target, printer)
    else:
        table, _ = evaluation_rows(found.model_, files, target, printer, "a curve")
        rows = {"X": table.X, "y": table.y, "sample_weight": table.weight, "qid": table.qid}
    printer.note("evaluating the model on these rows, which should not be its training rows")
    with refusing(), printer.waiting("evaluating"):
        evaluated = budget_curve(found, **rows, metric=metric, pos_label=measure.pos_label)
    style, costs, values = label_of(evaluated.metric).style, map(amount, evaluated.costs), evaluated.values.tolist()
    names = (group or "(before any group)" for group in evaluated.groups)
    cells = zip(names, costs, (number(value, style) for value in values), strict=True)
    printer.table(["group", "cost", f"{evaluated.metric}, these rows"], cells, left={0})
    columns = {"value" if name == evaluated.metric else name: entries for name, entries in evaluated.to_dict().items()}
    printer.document({"model": str(model), "metric": evaluated.metric, **columns})


def report(
    model: options.ModelFile,
    data: Annotated[str | None, Argument(metavar="[DATA]", help="The training data of the model.")] = None,
    *,
    target: TargetOptions,
    output: Annotated[
        Path | None,
        Option("-o", "--output", metavar="FILE", help="File to write: .html, .md or .json. Default: report.html."),
    ] = None,
    unit: Annotated[str, Option(help="Unit of the costs, such as dollars or seconds.")] = "cost units",
    title: Annotated[str | None, Option(help="Heading of the report.")] = None,
    measure: MetricOptions,
    cv: Annotated[int, Option("--cv", metavar="K", min=2, help="Number of folds.")] = 5,
    fold_by: options.FoldBy = None,
    baselines: Annotated[bool, Option(help="Whether to compare with other orders of the groups.")] = True,
    certify: Annotated[
        float | None,
        Option(metavar="SECONDS", min=0, help="Also prove how close the order is to optimal, within this time limit."),
    ] = None,
    reading: FileOptions,
    printer: Printer,
) -> None:
    """Write a report on a model: what each budget buys, the order, and how it compares with other orders.

    Example: budgetline report heart.budgetline heart.csv --unit dollars
    """
    place = Path("report.html") if output is None and not printer.as_json else output
    files = None if data is None else Files(data, reading, target.drop_missing_target)
    check_output(place, ".html", ".md", ".json", inputs=[model, *(files.paths if files else ())])
    found, rows, name = load_linear(model), dict[str, Any](), target.target
    if files is not None:
        table, name = evaluation_rows(found.model_, files, target, printer, "a report", fold_by)
        rows = {"X": table.X, "y": table.y, "sample_weight": table.weight}
        rows["qid" if fold_by is None else "groups"] = table.qid
    elif target != TargetOptions() or fold_by is not None:
        raise Refused("--target, --sample-weight, --qid, --event and --fold-by name columns of DATA: add DATA")
    title = title or (f"{name} in " if name else "") + Path(data or model).name
    with refusing():
        summary = make_report(
            found, **rows, unit=unit, title=title, baselines=baselines, progress=printer.progress,
            metric=measure.metric, pos_label=measure.pos_label, cv=cv,
            certificate=None if certify is None else found.certificate(time_limit=certify, progress=printer.progress),
        )  # fmt: skip
    if place is not None:
        with writing(place) as written:
            summary.write(place)
        printer.note(f"wrote {written}")
    printer.say(printable(summary.headline))
    printer.say(printable(subline(summary)))
    if summary.warning:
        printer.warn(printable(summary.warning))
    if not summary.measure.folds:
        printer.note("without DATA, the report shows only the training curve; with DATA, it also shows held-out values")
    printer.document(summary.to_dict())
