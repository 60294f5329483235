"""``budgetline predict`` and ``export``: use a model, here or elsewhere."""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterator
from importlib import import_module
from io import TextIOWrapper
from itertools import chain
from pathlib import Path
from typing import Annotated, BinaryIO, TextIO

import numpy as np
from typer import Option

from budgetline.arrays import Array
from budgetline.cli import options
from budgetline.cli.data import Files
from budgetline.cli.errors import Refused, refusing
from budgetline.cli.evaluating import check_kind
from budgetline.cli.outputs import check_output, writing
from budgetline.cli.printing import Printer
from budgetline.data.tabular import arrow
from budgetline.files import replacing
from budgetline.inputs import check_finite
from budgetline.messages import shown, some
from budgetline.model.anytime import AnytimeModel
from budgetline.model.stages import LinearModel
from budgetline.persistence import load, to_onnx
from budgetline.report.formatting import amount, listed

Block = Array
"""Predictions of some rows: (m,) or (m, P)."""


def predict(
    model: options.Model,
    data: options.Data,
    budget: Annotated[float | None, Option("--budget", "-b", min=0, help="Spend at most this.")] = None,
    stage: Annotated[int | None, Option(metavar="N", min=0, help="Use the first N groups.")] = None,
    available: Annotated[
        list[str] | None, Option(metavar="A,B,…", help="Use exactly these groups; may be repeated.")
    ] = None,
    proba: Annotated[bool, Option("--proba", help="Probabilities of the classes instead of labels.")] = False,
    output: Annotated[
        Path | None, Option("-o", "--output", metavar="FILE", help=".csv or .parquet. Default: CSV on stdout.")
    ] = None,
    file_format: options.FileFormat = None,
    zero_based: options.ZeroBased = False,
    as_json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Predict every row of DATA with the groups that a budget buys. DATA needs only the columns of these groups.

    For example:
    budgetline predict heart.budgetline new.csv --budget 20 --proba
    budgetline predict heart.budgetline new.csv --available age,sex -o out.csv
    """
    printer = Printer(as_json, quiet)
    files = Files(data, file_format, zero_based)
    if output is not None:
        check_output(output, ".csv", ".parquet", inputs=[model, *files.paths])
    found = load(model).model_
    if proba and found.classes is None:
        raise Refused(f"--proba is for classification, and {model} is a regression")
    chosen, names = _choose(found, budget, stage, available)
    cost, total = found.groups.cost_of(names), float(found.sequence.costs.sum())
    printer.note(f"groups used: {listed(names) or 'none'}; cost {amount(cost)} of {amount(total)}")
    header = _header(found, proba)
    blocks = _blocks(found, chosen, files, "predict_proba" if proba else "predict", printer)
    record = {"model": str(model), "groups": names, "cost": cost, "columns": header}
    if output is not None:
        rows = _write_file(output, header, blocks)
        printer.note(f"wrote {output}: {rows:,} rows")
        printer.document({**record, "rows": rows, "written": str(output)})
    elif as_json:
        printer.document({**record, "predictions": [row for block in blocks for row in block.tolist()]})
    else:
        _write_csv(sys.stdout, header, blocks)


def export(
    model: options.Model,
    output: Annotated[Path, Option("-o", "--output", metavar="FILE", help="Where to write: model.onnx.")],
    as_json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Write a model as an ONNX graph with the inputs X and stage or budget.

    For example:
    budgetline export heart.budgetline -o heart.onnx
    """
    printer = Printer(as_json, quiet)
    check_output(output, ".onnx", inputs=[model])
    found = load(model)
    with refusing(), writing(output):
        graph = to_onnx(found, output).graph
    names = {"inputs": [put.name for put in graph.input], "outputs": [put.name for put in graph.output]}
    printer.note(f"wrote {output}")
    printer.say(f"inputs: {', '.join(names['inputs'])}; outputs: {', '.join(names['outputs'])}")
    printer.document({"written": str(output), **names})


def _choose(
    model: AnytimeModel, budget: float | None, stage: int | None, available: list[str] | None
) -> tuple[LinearModel, list[str]]:
    """Return the model that the options ask for, and its groups; the name of a group may itself hold commas."""
    if sum(option is not None for option in (budget, stage, available or None)) > 1:
        raise Refused("give at most one of --budget, --stage and --available")
    known, wanted = model.groups.names, list[str]()
    for text in available or ():
        wanted += [text] if text in known else [name.strip() for name in text.split(",") if name.strip()]
    if unknown := [name for name in wanted if name not in known]:
        raise Refused(f"--available: there is no group {shown(unknown[0])}; the groups are {some(known)}")
    with refusing():
        chosen = model.stages.choose(budget, stage, wanted if available else None)
    order = model.sequence
    if available:
        return chosen, [name for name in order.groups if name in wanted]
    last = order.stage_at(budget) if budget is not None else len(order) if stage is None else stage
    return chosen, list(order.groups[:last])


def _blocks(model: AnytimeModel, chosen: LinearModel, files: Files, method: str, printer: Printer) -> Iterator[Block]:
    """Yield predictions chunk by chunk; only the columns that are needed are read."""
    check_kind(model, files)
    names, columns = model.layout.names, chosen.columns
    labels = [str(d) if names is None else names[d] for d in columns]
    if names is None:
        source = files.source((), n_features=model.layout.n_features)
    else:
        if missing := [name for name in labels if name not in files.numeric]:
            raise Refused(f"column {shown(missing[0])}, which the model needs here, is not in {files.place}")
        source = files.source((), features=labels)
    for chunk in files.chunks(source, printer, columns if names is None else None):
        with refusing(chunk.where):
            scores = np.asarray(check_finite(chunk.X, labels) @ chosen.coef[:, columns].T) + chosen.intercept
        yield model.respond(scores, method)


def _header(model: AnytimeModel, proba: bool) -> list[str]:
    if proba and model.classes is not None:
        return [f"p({label})" for label in model.classes.tolist()]
    several = model.target_shape if model.classes is None else ()
    return [f"prediction_{k}" for k in range(several[0])] if several else ["prediction"]


def _write_csv(file: TextIO, header: list[str], blocks: Iterator[Block]) -> int:
    """Write predictions as they come; numbers keep all their digits."""
    writer, rows = csv.writer(file, lineterminator="\n"), 0
    for block in blocks:
        if not rows:  # not before the first block: an error then leaves stdout empty
            writer.writerow(header)
        writer.writerows(block.reshape(len(block), -1).tolist())
        rows += len(block)
    return rows


def _write_file(path: Path, header: list[str], blocks: Iterator[Block]) -> int:
    with writing(path), replacing(path) as file:
        if path.suffix.lower() != ".csv":
            return _write_parquet(file, header, blocks)
        text = TextIOWrapper(file, encoding="utf-8", newline="")
        rows = _write_csv(text, header, blocks)
        text.detach()
    return rows


def _write_parquet(file: BinaryIO, header: list[str], blocks: Iterator[Block]) -> int:
    columns = (block.reshape(len(block), -1).T.tolist() for block in blocks)
    tables = (arrow().table(dict(zip(header, values, strict=True))) for values in columns)
    first, rows = next(tables), 0
    with import_module("pyarrow.parquet").ParquetWriter(file, first.schema) as writer:
        for table in chain([first], tables):
            writer.write_table(table)
            rows += table.num_rows
    return rows
