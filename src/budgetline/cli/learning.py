"""``budgetline fit``: from data files to a model file."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from shlex import quote
from typing import Annotated, Any

import numpy as np
from typer import Option

from budgetline.arrays import Array
from budgetline.cli import options
from budgetline.cli.data import Files, check_output, writing
from budgetline.cli.learning_data import LearningData, learning_data
from budgetline.cli.options import FileOptions, LearningOptions, TargetOptions
from budgetline.cli.printing import Printer, Refused, refusing
from budgetline.estimators.regressor import BaseRegressor
from budgetline.estimators.unattended import Estimator, shuffled_rows, unattended, usual_folds
from budgetline.files import model_path_for
from budgetline.messages import name_of, some
from budgetline.model.anytime import AnytimeModel
from budgetline.persistence import save
from budgetline.report.builders import groups_with_columns, how_chosen, model_record
from budgetline.report.formatting import amount, count


def fit(
    data: options.DataFiles,
    *,
    output: Annotated[
        Path | None,
        Option(
            "-o", "--output", metavar="MODEL", help="File to write. Default: DATA.budgetline in the current folder."
        ),
    ] = None,
    target: TargetOptions,
    learning: LearningOptions,
    loss: Annotated[options.Loss | None, Option(help="Loss for regression. Default: squared.")] = None,
    rule: Annotated[
        options.Rule | None, Option(help="How to score groups. Default: forward, or score if forward would be slow.")
    ] = None,
    schedule: Annotated[options.Schedule, Option(help="Which groups may come next.")] = "greedy",
    correction: options.Correction = None,
    start: Annotated[
        list[str] | None, Option(metavar="A,B,…", help="Groups that are always bought, before all others; repeatable.")
    ] = None,
    max_cost: Annotated[float | None, Option(min=0, help="Spend at most this much.")] = None,
    max_groups: Annotated[int | None, Option(metavar="N", min=1, help="Stop after N groups.")] = None,
    all_groups: options.AllGroups = False,
    cv: options.NumberOfFolds = None,
    no_cv: Annotated[bool, Option("--no-cv", help="Do not cross-validate; choose alpha from the data.")] = False,
    fold_by: options.FoldBy = None,
    calibration: options.Calibrates = None,
    stream: options.Streams = None,
    reading: FileOptions,
    printer: Printer,
) -> None:
    """Learn the order of the groups and a model for every budget, and write them to one file.

    Most runs need only --target and --groups.

    Example: budgetline fit heart.csv -t disease -g heart.yaml
    """
    files = Files(data, reading, target.drop_missing_target)
    output = model_path_for(data) if output is None else output
    check_output(output, inputs=[*files.paths, learning.groups])
    found = learning_data(files, target, learning, fold_by, printer, stream)
    if loss is not None and found.task != "regression":
        raise Refused(f"--loss {loss} is for regression, but the task is {found.task}")
    settings = {
        "schedule": schedule, "max_cost": max_cost, "max_groups": max_groups, "all_groups": all_groups,
        "alpha": learning.alpha, "correction": correction, "rule": rule, "loss": options.LOSS_NAMES.get(loss or ""),
        "pairs": learning.interactions, "start": options.group_names("--start", start, found.group_names) or None,
        "calibration": calibration,
    }  # fmt: skip
    number = _number_of_folds(cv, no_cv, fold_by, found, learning.alpha, printer)
    model = _fitted(found, number, settings, printer)
    with writing(output) as written:
        save(model, output)
    _print(model.model_, output, written, data, target, printer)
    if learning.groups is None:
        _say_how_to_set_prices(data, output, target, printer)


def _say_how_to_set_prices(data: str, output: Path, target: TargetOptions, printer: Printer) -> None:
    prices, named = quote(f"{output.stem}.yaml"), quote(str(target.target))
    draft = f"budgetline groups {quote(data)} -t {named} -o {prices}"
    printer.note(f"every column costs 1; to set prices, run {draft}, edit the file, and add -g {prices}")


def _number_of_folds(
    cv: int | None, no_cv: bool, fold_by: str | None, found: LearningData, alpha: object, printer: Printer
) -> int | None:
    """Return the number of folds on which settings are chosen, None without any."""
    if found.table is None and fold_by is not None:
        raise Refused(
            "--fold-by needs all rows in memory: in chunks, rows are assigned to folds by a hash of their values"
        )
    if no_cv:
        if cv is not None or fold_by is not None:
            raise Refused(f"use either {'--cv' if fold_by is None else '--fold-by'} or --no-cv, not both")
        return None
    if cv is None and found.table is not None:
        cv = usual_folds(_apart(found), classes=found.classes)
        if cv is None:
            printer.note("too few rows to cross-validate: alpha is chosen from the data, and nothing is held out")
    if cv is not None and alpha == "auto":
        raise Refused("--alpha auto chooses alpha without folds, so add --no-cv")
    return cv


def _apart(found: LearningData) -> Array:
    """Return what folds divide: the targets of rows, or the queries; of survival times those of events."""
    assert found.table is not None
    y, qid = found.table.y, found.table.qid
    if found.task == "ranking" and qid is not None:
        return np.unique(qid)
    return y[y["event"]] if found.task == "survival" else y


def _fitted(found: LearningData, folds: int | None, settings: dict[str, Any], printer: Printer) -> Estimator:
    """Return an estimator, fitted to the rows in memory, or to a source."""
    if settings["calibration"] is not None and (found.task != "classification" or folds is None):
        raise Refused("--calibration is for classification with folds")
    table = found.table
    n_groups, y = len(found.group_names), None if table is None else table.y
    given = {"task": found.task, "encoding": found.encoding, "folds": folds, **settings}
    estimator = unattended(found.groups, n_groups, y, **given)
    if settings["rule"] is None and estimator.rule == "score":
        printer.note("using the rule score, because the rule forward would refit every candidate at every step")
    most = getattr(estimator, "search_rows", None)
    if most is not None and y is not None and most < y.size:
        printer.note(f"to save time, settings are chosen and held-out quality is measured on only {most:,} rows")
    if table is None:
        once = isinstance(estimator, BaseRegressor) and estimator.loss == "squared_error" and found.encoding is None
        printer.note(f"reading the data {'once' if once else 'several times'}, in chunks")
        with refusing():
            streamed: Estimator = estimator.fit(found.source, progress=printer.progress)
        return streamed
    printer.note(f"learning from {table.n_rows:,} rows in memory")
    if folds is not None and table.qid is None:  # the estimator cuts the rows in their order
        table = table.take(shuffled_rows(table.n_rows))
    kept: dict[str, Any] = {} if table.qid is None else {"qid" if found.task == "ranking" else "groups": table.qid}
    located = nullcontext() if found.encoding is None else table.located()
    with refusing(), printer.waiting("learning"), located:
        fitted: Estimator = estimator.fit(table.X, table.y, sample_weight=table.weight, **kept)
    return fitted


def _print(
    model: AnytimeModel, output: Path, written: str, place: str, target: TargetOptions, printer: Printer
) -> None:
    """Print the sequence, what was written, and the next commands."""
    sequence = model.sequence
    printer.sequence(model)
    if shared := model.groups.shared:
        costs = some(shared.items(), of=lambda item: f"{name_of(item[0])} ({amount(item[1][0])})")
        printer.say(f"the first group that needs a shared cost pays it: {costs}")
    if model.encoding is not None and (rare := model.encoding.all_rare):
        what = f"text columns whose values are all too rare to learn from: {some(rare, of=name_of)}"
        printer.warn(
            f"{what}; the model uses only whether a value is missing (if these are numbers, write them like 1234.5)"
        )
    chosen = f", {text}" if (text := how_chosen(model)) else ""
    bought = groups_with_columns(model)
    groups = count(sum(name in bought for name in sequence.groups), "group")  # without pairs of columns
    total = amount(float(sequence.costs.sum()))
    printer.note(f"wrote {written}: {model.estimator}, {groups}, total cost {total}{chosen}")
    budget = amount(float(sequence.cumulative_costs[len(sequence) // 2])) if len(sequence) else "1"
    file, data = quote(str(output)), quote(place)
    columns = {"-t": target.target, "--qid": target.qid, "--event": target.event}
    named = "".join(f" {option} {quote(name)}" for option, name in columns.items() if name is not None)
    named += " --drop-missing-target" * target.drop_missing_target
    printer.note(f"next: budgetline show {file}")
    printer.note(f"      budgetline predict {file} {data} --budget {budget}")
    printer.note(f"      budgetline report {file} {data}{named}")
    printer.document(model_record(model) | {"written": str(output)})
