"""Commands on a model file: ``budgetline show``, ``certify``, ``predict`` and ``export``."""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterable, Iterator
from importlib import import_module
from io import TextIOWrapper
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, BinaryIO, NamedTuple, TextIO

import numpy as np
from typer import Option

from budgetline.arrays import Array, Float
from budgetline.cli import options
from budgetline.cli.data import Files, check_output, writing
from budgetline.cli.printing import Printer, Refused, bought_at, in_line, refusing
from budgetline.data.tabular import arrow
from budgetline.evaluation.budget_curves import training_curve
from budgetline.files import replacing
from budgetline.inputs import NamedArray
from budgetline.messages import printable, shown
from budgetline.model.anytime import AnytimeModel
from budgetline.model.gaps import absent_columns, with_gaps
from budgetline.model.stages import LinearModel
from budgetline.optimality.certificate import SHOWN
from budgetline.persistence import to_onnx
from budgetline.persistence.model_file import load_linear
from budgetline.report.builders import (
    certified_at,
    class_names,
    groups_with_columns,
    how_chosen,
    model_record,
    setting_texts,
)
from budgetline.report.content import CertifiedShare
from budgetline.report.formatting import amount, at_least, count, listed, share

if TYPE_CHECKING:
    import pyarrow as pa

TRIVIAL = "Below the cost of all groups this bound is trivial: the order may be much closer to optimal than it says."
"""What to make of the only bound for losses other than squared error."""
AvailableGroups = Annotated[
    list[str] | None,
    Option(
        "--available", metavar="A,B,…", help="Use exactly these groups; repeatable. auto: the groups that each row has."
    ),
]
Keep = Annotated[
    list[str] | None, Option("--keep", metavar="A,B,…", help="Columns of DATA to copy to the output; repeatable.")
]


def show(model: options.ModelFile, as_json: options.Json = False, quiet: options.Quiet = False) -> None:
    """Show a model: its sequence, what each budget buys, its curve and its settings.

    For example:
    budgetline show heart.budgetline
    budgetline show heart.budgetline --json
    """
    printer = Printer(as_json, quiet)
    found = load_linear(model).model_
    curve, record = training_curve(found), model_record(found)
    labels = in_line(class_names(found))
    printer.say(f"{model}: {found.estimator}, {record['task']}" + (f" ({labels})" if 0 < len(labels) < 40 else ""))
    total, groups = amount(curve.total_cost), groups_with_columns(found)
    printer.say(f"{found.source.n_features} columns in {count(len(groups), 'group')}, total cost {total}\n")
    printer.sequence(found)
    for name, (cost, members) in found.groups.shared.items():
        printer.say(f"shared: {shown(name)} {amount(cost)}, by {in_line(members)}")
    for name in groups:
        if required := found.groups.requires.get(name):
            printer.say(f"{printable(name)} requires {in_line(required)}")
    printer.say("\nWhat each budget buys, on the training data:\n")
    printer.budgets(curve)
    printer.say()
    printer.paragraph("Settings: " + ", ".join(f"{each.name} {each.value}" for each in setting_texts(found)))
    if chosen := how_chosen(found):
        printer.say(chosen)
    printer.document({"model": str(model), **record, "budgets": bought_at(curve)})


def certify(
    model: options.ModelFile,
    time_limit: Annotated[
        float, Option(metavar="SECONDS", min=0, help="How long to tighten the bounds, which are valid at any time.")
    ] = 5.0,
    budget: Annotated[
        list[float] | None, Option(metavar="B", min=0, help="Budget to show, repeatable. Default: shares of all costs.")
    ] = None,
    as_json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Prove how close the order is to optimal at every budget, on the training data.

    For example:
    budgetline certify heart.budgetline
    budgetline certify heart.budgetline --time-limit 60 --budget 20 --budget 100
    """
    printer = Printer(as_json, quiet)
    found = load_linear(model)
    with refusing():
        certificate = found.certificate(budget, time_limit=time_limit, progress=printer.progress)
    budgets = budget or [part * certificate.total_cost for part in SHOWN]
    proven = certified_at(certificate, budgets, certificate.total_cost)
    mean = CertifiedShare(*map(float, certificate.timeliness()))
    printer.say(f"{model}: {len(certificate.order)} of {len(certificate.feature_groups)} groups in order\n")
    trivial = certificate.loss != "squared_error"
    if trivial:
        printer.paragraph(f"{certificate.notes[0]} {TRIVIAL}")
        printer.say()
    pairs = zip([*map(amount, budgets), "mean over budgets"], [*proven, mean], strict=True)
    cells = ([label, share(each.achieved), share(each.bound), at_least(each.ratio)] for label, each in pairs)
    printer.table(["budget", "explained", "bound on any set", "certified share of the optimum"], cells)
    printer.say()
    printer.paragraph(
        "All values are about the training data, with the ridge penalty. Every budget has its own best set: no single "
        "order needs to reach all of them. The mean is over budgets from 0 to the cost of all groups (timeliness)."
    )
    for note in () if trivial else certificate.notes:
        printer.paragraph(note)
    about = {"loss": certificate.loss, "alpha": certificate.alpha, "total_cost": certificate.total_cost}
    *rows, last = ({"explained": each.achieved, "bound": each.bound, "ratio": each.ratio} for each in (*proven, mean))
    rows = [{"budget": each, **row} for each, row in zip(budgets, rows, strict=True)]
    printer.document({"model": str(model), **about, "budgets": rows, "timeliness": last, "notes": certificate.notes})


def predict(
    model: options.ModelFile,
    data: options.DataFiles,
    budget: Annotated[float | None, Option("--budget", "-b", min=0, help="Spend at most this.")] = None,
    stage: Annotated[int | None, Option(metavar="N", min=0, help="Use the first N groups.")] = None,
    available: AvailableGroups = None,
    plan: Annotated[
        float | None, Option(metavar="B", min=0, help="Use the best groups for this budget, as 'budgetline plan' does.")
    ] = None,
    proba: Annotated[bool, Option("--proba", help="Probabilities of the classes instead of labels.")] = False,
    keep: Keep = None,
    output: Annotated[
        Path | None, Option("-o", "--output", metavar="FILE", help=".csv or .parquet. Default: CSV on stdout.")
    ] = None,
    file_format: options.FileFormat = None,
    delimiter: options.Delimiter = None,
    na: options.Missing = None,
    zero_based: options.ZeroBased = False,
    as_json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Predict every row of DATA with the groups that a budget buys. DATA needs only the columns of these groups.

    For example:
    budgetline predict heart.budgetline new.csv --budget 20 --proba
    budgetline predict heart.budgetline new.csv --available age,sex -o out.csv
    budgetline predict heart.budgetline new.csv --plan 50
    budgetline predict heart.budgetline gaps.csv --available auto --keep patient
    """
    printer, files = Printer(as_json, quiet), Files(data, file_format, zero_based, delimiter, na)
    if output is not None:
        check_output(output, ".csv", ".parquet", inputs=[model, *files.paths])
    fitted = load_linear(model)
    found, total = fitted.model_, float(fitted.model_.sequence.costs.sum())
    if proba and found.classes is None:
        raise Refused(f"--proba is for classification, and {model} is a regression")
    if plan is not None and (budget is not None or stage is not None or available):
        raise Refused("give at most one of --plan, --budget, --stage and --available")
    if plan is not None:
        with refusing():
            found = (planned := fitted.plan(plan, progress=printer.progress)).model_
        printer.note(str(planned))
    chosen = _choose(found, budget, stage, available)
    cost = found.groups.cost_of(chosen.names)
    used, most = ("groups used where they are available", "at most ") if chosen.by_row else ("groups used", "")
    printer.note(f"{used}: {listed(chosen.names) or 'none'}; cost {most}{amount(cost)} of {amount(total)}")
    header = _header(found, proba)
    kept = _kept(files, keep, header)
    scores = _scores(found, chosen, files, printer)
    blocks = (found.respond(block, "predict_proba" if proba else "predict") for block in scores)
    record = {"model": str(model), "groups": chosen.names, "cost": cost, "columns": header}
    if output is not None:
        rows = _write_file(output, _tables(header, blocks, files, kept))
        printer.note(f"wrote {output}: {rows:,} rows")
        printer.document({**record, "rows": rows, "written": str(output)})
    elif as_json:
        copies = {"kept": _columns(kept, files.values(kept))} if kept else {}
        printer.document({**record, **copies, "predictions": [row for block in blocks for row in block.tolist()]})
    else:
        _write_csv(sys.stdout, _tables(header, blocks, files, kept))


def export(
    model: options.ModelFile,
    output: Annotated[Path, Option("-o", "--output", metavar="FILE", help="Where to write: model.onnx.")],
    as_json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Write a model as an ONNX graph with the inputs X (with an encoding: the columns by name) and stage or budget.

    For example:
    budgetline export heart.budgetline -o heart.onnx
    """
    printer = Printer(as_json, quiet)
    check_output(output, ".onnx", inputs=[model])
    found = load_linear(model)
    with refusing(), writing(output):
        graph = to_onnx(found, output).graph
    names = {"inputs": [put.name for put in graph.input], "outputs": [put.name for put in graph.output]}
    printer.note(f"wrote {output}")
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
    wanted = None if by_row or not available else options.names_of(available, model.groups.names)
    with refusing():
        linear = model.stages.choose(budget, stage, wanted)
        last = model.stages.last_stage(budget, stage, wanted)
    names = [name for name in model.sequence.groups[:last] if wanted is None or name in wanted]
    return ChosenGroups(names, linear, by_row)


def _scores(model: AnytimeModel, chosen: ChosenGroups, files: Files, printer: Printer) -> Iterator[Float]:
    """Yield scores (m, P), chunk by chunk. Only columns of the groups are read; with ``by_row`` they may be absent."""
    names, linear, by_row = chosen
    needed = model.labels_of(len(names)) if by_row and files.named else ()
    with refusing(files.place):
        absent, text = absent_columns(model.columns, needed, files.numeric if needed else ())
    if text:
        printer.warn(f"{files.place}: {text}")
    source, watch = files.source_for(model, (), linear.columns, absent=absent), model.watch()
    columns = source.feature_names
    gaps = [name for name in needed if name not in (columns or ())]
    for chunk in files.chunks(source, printer):
        if not linear.columns.size:
            yield np.tile(linear.intercept, (chunk.n_rows, 1))
            continue
        X = chunk.X if columns is None or not isinstance(chunk.X, np.ndarray) else NamedArray(chunk.X, columns)
        with refusing(), chunk.located():
            if by_row:
                yield model.scores(with_gaps(X, gaps), stage=len(names), available="auto", watch=watch)
            else:
                yield model.scores(X, available=names, watch=watch)
    if unknown := watch.new():
        printer.warn(unknown)


def _header(model: AnytimeModel, proba: bool) -> list[str]:
    if proba and model.classes is not None:
        return [f"p({label})" for label in model.classes.tolist()]
    several = model.target_shape if model.classes is None else ()
    return [f"prediction_{k}" for k in range(several[0])] if several else ["prediction"]


def _kept(files: Files, keep: list[str] | None, header: list[str]) -> list[str]:
    """Return the columns to copy to the output, which must not be in the header already."""
    names = options.names_of(keep, files.numeric) if keep else []
    files.check_columns({"--keep": names})
    if twice := [name for name in names if name in header or names.count(name) > 1]:
        raise Refused(f"--keep: the output would have two columns {shown(twice[0])}")
    return names


def _columns(names: list[str], rows: Iterable[tuple[object, ...]]) -> dict[str, list[object]]:
    """Return rows as columns for a JSON document: dates and the like as text."""
    plain = ([v if isinstance(v, str | int | float | None) else str(v) for v in row] for row in rows)
    return dict(zip(names, map(list, zip(*plain, strict=True)), strict=True))


def _tables(header: list[str], blocks: Iterator[Array], files: Files, kept: list[str]) -> Iterator[pa.Table]:
    """Yield predictions as Arrow tables, as they come, with columns of the data before them."""
    array, copies = arrow().array, files.values(kept)
    types = {name: arrow().string() if files.raw.csv else files.raw.schema.field(name).type for name in kept}
    for block in blocks:
        rows = zip(*islice(copies, len(block)), strict=True) if kept else ()
        columns = {name: array(values, types[name]) for name, values in zip(kept, rows, strict=True)}
        values = block.reshape(len(block), -1).T.tolist()
        yield arrow().table(columns | dict(zip(header, values, strict=True)))


def _write_csv(file: TextIO, tables: Iterator[pa.Table]) -> int:
    """Write predictions as they come; numbers keep all their digits."""
    writer, rows = csv.writer(file, lineterminator="\n"), 0
    for table in tables:
        if not rows:  # not before the first block: an error then leaves stdout empty
            writer.writerow(table.column_names)
        writer.writerows(zip(*(column.to_pylist() for column in table.columns), strict=True))
        rows += table.num_rows
    return rows


def _write_file(path: Path, tables: Iterator[pa.Table]) -> int:
    with writing(path), replacing(path) as file:
        if path.suffix.lower() != ".csv":
            return _write_parquet(file, tables)
        text = TextIOWrapper(file, encoding="utf-8", newline="")
        rows = _write_csv(text, tables)
        text.detach()
    return rows


def _write_parquet(file: BinaryIO, tables: Iterator[pa.Table]) -> int:
    first, rows = next(tables), 0
    with import_module("pyarrow.parquet").ParquetWriter(file, first.schema) as writer:
        for table in chain([first], tables):
            writer.write_table(table)
            rows += table.num_rows
    return rows
