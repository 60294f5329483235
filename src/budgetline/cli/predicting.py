"""``budgetline predict`` and ``export``: models at work, here or elsewhere."""

from __future__ import annotations

import csv
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from importlib import import_module
from io import TextIOWrapper
from pathlib import Path
from typing import Annotated, Any, BinaryIO

import numpy as np
import typer
from numpy.typing import NDArray

from budgetline.cli import options
from budgetline.cli.data import Files, chunks_of, frame_of
from budgetline.cli.errors import Refused, refusing
from budgetline.cli.judging import check_kind
from budgetline.cli.screens import Screen
from budgetline.cli.writing import check_output, saying
from budgetline.data.sources import Chunk
from budgetline.data.tabular import arrow
from budgetline.files import replacing
from budgetline.messages import shown, some
from budgetline.persistence import load, to_onnx
from budgetline.progress import make_bar
from budgetline.report.formatting import amount, listed

Block = NDArray[Any]
"""Predictions of some rows: (m,) or (m, P)."""


def predict(
    model: options.Model,
    data: options.Data,
    budget: Annotated[float | None, typer.Option("--budget", "-b", min=0, help="Spend no more than this.")] = None,
    stage: Annotated[int | None, typer.Option(min=0, help="Use the first so many groups.")] = None,
    available: Annotated[
        list[str] | None, typer.Option(metavar="A,B,…", help="Use exactly these groups; may be repeated.")
    ] = None,
    proba: Annotated[bool, typer.Option("--proba", help="Probabilities of the classes instead of labels.")] = False,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", metavar="FILE", help=".csv or .parquet. Default: CSV on stdout.")
    ] = None,
    file_format: options.FileFormat = None,
    zero_based: options.ZeroBased = False,
    as_json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Predict, one line per row of DATA, with what a budget buys. Only columns that are needed must be there."""
    screen = Screen(as_json, quiet)
    files = Files(data, file_format, zero_based)
    if output is not None:
        check_output(output, ".csv", ".parquet", inputs=[model, *files.found[0]])
    found = load(model)
    if proba and not hasattr(found, "classes_"):
        raise Refused(f"--proba is for classification, and {model} is a regression")
    choice = _choice(found, budget, stage, available)
    with refusing():
        chosen = found.model_.stages.choose(**choice)
    header = _header(found, proba)
    blocks = _blocks(found, files, chosen.columns, choice, proba, screen)
    record = {"model": str(model), **_spent(found, choice, screen), "columns": header}
    if as_json and output is None:
        values = [row for block in blocks for row in block.tolist()]
        screen.document({**record, "predictions": values})
        return
    rows = _write_csv(sys.stdout, header, blocks) if output is None else _write_file(output, header, blocks)
    if output is not None:
        screen.note(f"wrote {output}: {rows:,} rows")
        screen.document({**record, "rows": rows, "written": str(output)})


def export(
    model: options.Model,
    output: Annotated[Path, typer.Option("-o", "--output", metavar="FILE", help="Where to write: model.onnx.")],
    as_json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Write a model as an ONNX graph: inputs X and stage or budget."""
    screen = Screen(as_json, quiet)
    check_output(output, ".onnx", inputs=[model])
    found = load(model)
    with refusing(), saying(output):
        graph = to_onnx(found, output)
    names = {"inputs": [put.name for put in graph.graph.input], "outputs": [put.name for put in graph.graph.output]}
    screen.note(f"wrote {output}")
    screen.say(f"inputs: {', '.join(names['inputs'])}; outputs: {', '.join(names['outputs'])}")
    screen.document({"written": str(output), **names})


def _choice(model: Any, budget: float | None, stage: int | None, available: list[str] | None) -> dict[str, Any]:
    """Return the keywords of ``predict``; a group's name may hold commas itself."""
    if sum(option is not None for option in (budget, stage, available or None)) > 1:
        raise Refused("give at most one of --budget, --stage and --available")
    wanted: list[str] | None = None
    if available:
        known, wanted = set(model.feature_groups_.names), []
        for text in available:
            wanted += [text] if text in known else [name.strip() for name in text.split(",") if name.strip()]
        if unknown := [name for name in wanted if name not in known]:
            names = some(model.feature_groups_.names)
            raise Refused(f"--available: there is no group {shown(unknown[0])}; the groups are {names}")
    return {"budget": budget, "stage": stage, "available": wanted}


def _spent(model: Any, choice: dict[str, Any], screen: Screen) -> dict[str, Any]:
    """Say which groups are used and what they cost."""
    order = model.sequence_
    if choice["available"] is not None:
        names = [name for name in order.groups if name in set(choice["available"])]
    else:
        budget, stage = choice["budget"], choice["stage"]
        last = len(order) if stage is None else stage
        names = list(order.groups[: order.stage_at(budget) if budget is not None else last])
    cost = model.feature_groups_.cost_of(names)
    screen.note(f"groups used: {listed(names) or 'none'}; cost {amount(cost)} of {amount(float(order.costs.sum()))}")
    return {"groups": names, "cost": cost}


def _blocks(
    model: Any, files: Files, columns: NDArray[np.intp], choice: dict[str, Any], proba: bool, screen: Screen
) -> Iterator[Block]:
    """Yield predictions chunk by chunk, reading only the columns that are needed."""
    check_kind(model, files)
    method = model.predict_proba if proba else model.predict
    if files.named:
        names = [str(model.feature_names_in_[d]) for d in columns]
        if missing := [name for name in names if name not in files.numeric]:
            raise Refused(f"column {shown(missing[0])}, which the model needs here, is not in {files.place}")
        source = files.source([], names)
        table: Callable[[Chunk], Any] = lambda chunk: _frame(model, chunk, names)  # noqa: E731
    else:
        source = files.source(n_features=int(model.n_features_in_))
        table = lambda chunk: chunk.X  # noqa: E731
    bar = make_bar(screen.progress, "rows", source.about_rows)
    with ExitStack() as stack:
        if bar is not None:
            stack.callback(bar.close)
        chunk = None
        for chunk in chunks_of(source):
            with refusing(chunk.where):
                block = np.asarray(method(table(chunk), **choice))
            yield block
            if bar is not None:
                bar.update(chunk.n_rows)
        if chunk is None:
            raise Refused(f"{files.place} holds no rows")


def _frame(model: Any, chunk: Chunk, names: list[str]) -> Any:
    """Return a chunk with names; without any column a missing one stands for the rows."""
    if names:
        return frame_of(chunk.X, names)
    return frame_of(np.full((chunk.n_rows, 1), np.nan), [str(model.feature_names_in_[0])])


def _header(model: Any, proba: bool) -> list[str]:
    if proba:
        return [f"p({label})" for label in model.classes_.tolist()]
    shape = () if hasattr(model, "classes_") else model.model_.target_shape
    return [f"prediction_{k}" for k in range(shape[0])] if shape else ["prediction"]


def _write_csv(file: Any, header: list[str], blocks: Iterator[Block]) -> int:
    """Write predictions as they come; numbers keep all their digits."""
    writer = csv.writer(file, lineterminator="\n")
    rows = 0
    for k, block in enumerate(blocks):
        if k == 0:  # not before the first block: an error then leaves stdout empty
            writer.writerow(header)
        writer.writerows(block.reshape(len(block), -1).tolist())
        rows += len(block)
    return rows


def _write_file(path: Path, header: list[str], blocks: Iterator[Block]) -> int:
    with saying(path), replacing(path) as file:
        if path.suffix.lower() != ".csv":
            return _write_parquet(file, header, blocks)
        text = TextIOWrapper(file, encoding="utf-8", newline="")
        rows = _write_csv(text, header, blocks)
        text.detach()
    return rows


def _write_parquet(file: BinaryIO, header: list[str], blocks: Iterator[Block]) -> int:
    pa, rows = arrow(), 0
    with ExitStack() as stack:
        writer: Any = None
        for block in blocks:
            columns = block.reshape(len(block), -1)
            table = pa.table({name: columns[:, k].tolist() for k, name in enumerate(header)})
            if writer is None:
                writer = stack.enter_context(import_module("pyarrow.parquet").ParquetWriter(file, table.schema))
            writer.write_table(table)
            rows += len(block)
    return rows
