"""``budgetline predict`` and ``export``: use a model on new rows, or elsewhere."""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterable, Iterator
from io import TextIOWrapper
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, TextIO

import numpy as np
from typer import Option

from budgetline.arrays import Array, Float
from budgetline.cli import options
from budgetline.cli.data import Files, check_output, writing
from budgetline.cli.options import FileOptions
from budgetline.cli.printing import Printer, Refused, refusing
from budgetline.files import replacing
from budgetline.inputs import NamedArray
from budgetline.messages import shown
from budgetline.model.anytime import AnytimeModel, absent_columns, with_missing
from budgetline.model.calibration import Stages
from budgetline.model.intervals import check_intervals, interval_of
from budgetline.model.stages import LinearModel
from budgetline.persistence import to_linear_format, to_onnx
from budgetline.persistence.model_file import load_linear
from budgetline.report.builders import task_name
from budgetline.report.formatting import amount, listed

ExportFormat = Literal["onnx", "solr", "elasticsearch", "opensearch", "vespa", "pmml"]
SUFFIXES: dict[str, tuple[str, ...]] = {
    "onnx": (".onnx",),
    "solr": (".json",),
    "elasticsearch": (".json",),
    "opensearch": (".json",),
    "vespa": (".profile",),
    "pmml": (".pmml", ".xml"),
}
"""Suffixes of exported files, by format."""


def predict(
    model: options.ModelFile,
    data: options.DataFiles,
    *,
    budget: options.Budget = None,
    stage: Annotated[int | None, Option(metavar="N", min=0, help="Use the first N groups.")] = None,
    available: options.AvailableGroups = None,
    proba: Annotated[bool, Option("--proba", help="Write class probabilities instead of labels.")] = False,
    interval: Annotated[
        float | None,
        Option(metavar="P", min=0, max=1, help="For regression, also write intervals with this coverage, such as 0.9."),
    ] = None,
    keep: Annotated[
        list[str] | None, Option(metavar="A,B,…", help="Columns of DATA to copy to the output; repeatable.")
    ] = None,
    output: Annotated[
        Path | None,
        Option("-o", "--output", metavar="FILE", help="File to write, such as predictions.csv. Default: stdout."),
    ] = None,
    reading: FileOptions,
    printer: Printer,
) -> None:
    """Predict every row of DATA with the groups that a budget buys. DATA needs only the columns of these groups.

    Example: budgetline predict heart.budgetline new.csv --budget 20 --proba -o predictions.csv
    """
    files = Files(data, reading)
    check_output(output, ".csv", inputs=[model, *files.paths])
    found = load_linear(model).model_
    if proba and found.classes is None:
        raise Refused(f"--proba is for classification, but {model} is a {task_name(found)} model")
    if interval is not None:
        if task_name(found) != "regression":
            advice = "" if found.classes is None else "; predict_set, in Python, returns sets of classes"
            raise Refused(f"--interval is for regression, but {model} is a {task_name(found)} model{advice}")
        with refusing():
            check_intervals(found, interval)
    chosen = _choose(found, budget, stage, available)
    cost, total = found.groups.cost_of(chosen.names), float(found.sequence.costs.sum())
    used, most = ("groups used where they are available", "at most ") if chosen.by_row else ("groups used", "")
    printer.note(f"{used}: {listed(chosen.names) or 'none'}; cost {most}{amount(cost)} of {amount(total)}")
    header = _header(found, proba, interval)
    kept = _kept(files, keep, header)
    scored = _scored(found, chosen, files, printer)
    blocks = (_block(found, *each, proba=proba, interval=interval) for each in scored)
    record = {"model": str(model), "groups": chosen.names, "cost": cost, "columns": header}
    columns, copies = [*kept, *header], files.values(kept)
    if output is not None:
        with writing(output) as written, replacing(output) as file:
            text = TextIOWrapper(file, encoding="utf-8", newline="")
            rows = _write_csv(text, columns, blocks, copies)
            text.detach()
        printer.note(f"wrote {written}: {rows:,} rows")
        printer.document({**record, "rows": rows, "written": str(output)})
    elif printer.as_json:
        extra = {"kept": dict(zip(kept, zip(*copies, strict=True), strict=True))} if kept else {}
        printer.document({**record, **extra, "predictions": [row for block in blocks for row in block.tolist()]})
    else:
        _write_csv(sys.stdout, columns, blocks, copies)


def export(
    model: options.ModelFile,
    *,
    output: Annotated[Path, Option("-o", "--output", metavar="FILE", help="File to write, such as model.onnx.")],
    to: Annotated[ExportFormat, Option("--to", help="File format; only onnx supports an encoding.")] = "onnx",
    budget: options.Budget = None,
    stage: Annotated[int | None, Option(metavar="N", min=1, help="Write the model of the first N groups.")] = None,
    all_stages: Annotated[bool, Option("--all-stages", help="Write every stage (not for pmml).")] = False,
    name: Annotated[str | None, Option(help="Name of the model. Default: budgetline.")] = None,
    printer: Printer,
) -> None:
    """Export a model for use in other systems.

    An ONNX graph has the inputs X (or, with an encoding, the columns by name), stage and budget. For Solr,
    Elasticsearch, Vespa and PMML, the last stage or the selected stages are written as linear models.

    Example: budgetline export heart.budgetline -o heart.onnx
    """
    check_output(output, *SUFFIXES[to], inputs=[model])
    found = load_linear(model)
    given: dict[str, Any] = {"stage": stage, "budget": budget, "all_stages": all_stages or None, "name": name}
    asked = {option: value for option, value in given.items() if value is not None}
    if to != "onnx":
        with refusing(), writing(output) as written:
            place = {} if name is None else {"name": name}
            to_linear_format(found, output, format=to, stage=stage, budget=budget, all_stages=all_stages, **place)
        printer.note(f"wrote {written}")
        printer.document({"written": str(output), "format": to})
        return
    if asked:
        raise Refused("an ONNX graph holds all stages: leave out --stage, --budget, --all-stages and --name")
    with refusing(), writing(output) as written:
        graph = to_onnx(found, output).graph
    names = {"inputs": [put.name for put in graph.input], "outputs": [put.name for put in graph.output]}
    printer.note(f"wrote {written}")
    printer.say(f"inputs: {', '.join(names['inputs'])}; outputs: {', '.join(names['outputs'])}")
    printer.document({"written": str(output), **names})


class ChosenGroups(NamedTuple):
    """The groups to predict from; ``by_row``: those of them that each row has. ``linear`` is the model of all."""

    names: list[str]
    linear: LinearModel
    by_row: bool


def _choose(model: AnytimeModel, budget: float | None, stage: int | None, available: list[str] | None) -> ChosenGroups:
    """Return the groups that the options ask for."""
    by_row = available == ["auto"] and "auto" not in model.groups.names
    wanted = None if by_row or not available else options.group_names("--available", available, model.groups.names)
    with refusing():
        linear = model.stages.choose(budget, stage, wanted)
        last = model.stages.last_stage(budget, stage, wanted)
    names = [name for name in model.sequence.groups[:last] if wanted is None or name in wanted]
    return ChosenGroups(names, linear, by_row)


def _scored(
    model: AnytimeModel, chosen: ChosenGroups, files: Files, printer: Printer
) -> Iterator[tuple[Float, Stages]]:
    """Yield scores (m, P) and the stages that they are like, chunk by chunk.

    Only columns of the groups are read; with ``by_row`` they may be absent.
    """
    names, linear, by_row = chosen
    needed = model.labels_of(len(names)) if by_row else ()
    with refusing(files.place):
        absent, text = absent_columns(model.columns, needed, files.numeric if needed else ())
    if text:
        printer.warn(f"{files.place}: {text}")
    advice = "" if by_row else "; --available auto uses only the groups that DATA has"
    source, watch = files.source_for(model, None, linear.columns, absent=absent, advice=advice), model.watch()
    columns = source.feature_names or ()
    absent = [name for name in needed if name not in columns]
    for chunk in files.chunks(source, printer):
        if not linear.columns.size:
            yield np.tile(linear.intercept, (chunk.n_rows, 1)), linear.stage
            continue
        X = NamedArray(chunk.X, columns) if isinstance(chunk.X, np.ndarray) else chunk.X
        with refusing(), chunk.located():
            if by_row:
                yield model.scored(with_missing(X, absent), stage=len(names), available="auto", watch=watch)
            else:
                yield model.scored(X, available=names, watch=watch)
    if unknown := watch.new():
        printer.warn(unknown)


def _block(model: AnytimeModel, scores: Float, like: Stages, *, proba: bool, interval: float | None) -> Array:
    """Return the values of the columns of the output, for rows with these scores."""
    found = model.respond(scores, "predict_proba" if proba else "predict", like)
    if interval is None:
        return found
    return np.column_stack([found, *interval_of(model, scores, like, interval)])


def _header(model: AnytimeModel, proba: bool, interval: float | None) -> list[str]:
    if proba and model.classes is not None:
        return [f"p({label})" for label in model.classes.tolist()]
    several = model.target_shape if model.classes is None else ()
    ends = [f"_{k}" for k in range(several[0])] if several else [""]
    return [name + end for name in ("prediction", "lower", "upper")[: 1 if interval is None else 3] for end in ends]


def _kept(files: Files, keep: list[str] | None, header: list[str]) -> list[str]:
    """Return the columns to copy to the output, which must not be in the header already."""
    names = options.names_of(keep, files.numeric) if keep else []
    files.check_columns({"--keep": names})
    if twice := [name for name in names if name in header or names.count(name) > 1]:
        raise Refused(f"--keep: the output would have two columns called {shown(twice[0])}")
    return names


def _write_csv(file: TextIO, header: list[str], blocks: Iterable[Array], copies: Iterator[tuple[object, ...]]) -> int:
    """Write predictions as they come, after copied columns, with all digits; return how many rows there are."""
    writer, rows = csv.writer(file, lineterminator="\n"), 0
    for block in blocks:
        if not rows:  # not before the first block: an error then leaves stdout empty
            writer.writerow(header)
        for values in block.reshape(len(block), -1).tolist():
            writer.writerow([*next(copies, ()), *values])
        rows += len(block)
    return rows
