"""``budgetline next``: what to buy next, from the groups at hand."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any

import numpy as np
from typer import Argument, Option

from budgetline.arrays import Positions
from budgetline.cli import options
from budgetline.cli.data import Files
from budgetline.cli.printing import Printer, Refused, in_line, refusing
from budgetline.groups.parsing import places_of, positions_of
from budgetline.model.anytime import AnytimeModel
from budgetline.optimality.next_groups import next_groups
from budgetline.persistence.model_file import load_linear
from budgetline.report.builders import next_record
from budgetline.report.formatting import amount


def next_(
    model: options.Model,
    data: Annotated[
        str | None, Argument(metavar="[DATA]", help="Rows to decide, with the columns of the groups at hand.")
    ] = None,
    have: Annotated[
        list[str] | None, Option(metavar="A,B,…", help="The groups at hand; may be repeated. Default: none.")
    ] = None,
    budget: Annotated[float | None, Option("--budget", "-b", min=0, help="Leave out what costs more now.")] = None,
    row: Annotated[int | None, Option(metavar="N", min=1, help="Only row N of DATA. Default: all of them.")] = None,
    sample: Annotated[
        str | None,
        Option(
            metavar="DATA",
            help="Rows with all columns from which to learn how scores change. Default: the model knows.",
        ),
    ] = None,
    file_format: options.FileFormat = None,
    delimiter: options.Delimiter = None,
    na: options.Missing = None,
    zero_based: options.ZeroBased = False,
    as_json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Rank what to buy next: by gain per cost, or for rows of DATA by the chance of another decision per cost.

    For example:
    budgetline next heart.budgetline --have age,cp --budget 50
    budgetline next heart.budgetline patient.csv --have age,cp
    """
    printer = Printer(as_json, quiet)
    found = load_linear(model).model_
    at_hand = options.names_of(have, found.groups.names)
    if row is not None and data is None:
        raise Refused("--row is for DATA")
    for what, given in (("DATA", data), ("--sample", sample)):
        if given is not None and found.classes is None:
            raise Refused(f"{what} is for classification, and {model} is a regression")
    if sample is not None and data is None:
        raise Refused("--sample is for DATA: it says how the scores of these rows change")
    with refusing():
        columns = _columns_of(found, at_hand)
        if data is not None and not columns.size:
            raise Refused("DATA is about groups at hand that the model uses: name them, --have A,B")
        opened = partial(Files, file_format=file_format, zero_based=zero_based, delimiter=delimiter, na=na)
        X = None if data is None else _one_row(_rows(opened(data), found, columns, printer), row, data)
        rows = None if sample is None else _rows(opened(sample), found, found.last.columns, printer)
        ranking = next_groups(found, at_hand, budget=budget, X=X, sample=rows)
    cost = found.groups.cost_of(ranking.available)
    printer.say(f"at hand: {in_line(ranking.available) or 'nothing'}; cost {amount(cost)}\n")
    printer.say(
        str(ranking) if len(ranking) else "nothing is left to buy" + " within the budget" * (budget is not None)
    )
    if ranking.unknown:
        printer.say(f"not ranked, because the sequence ended before them: {in_line(ranking.unknown)}")
    printer.document({"model": str(model), **next_record(found, ranking)})


def _columns_of(model: AnytimeModel, at_hand: list[str]) -> Positions:
    """Return the columns, of the design if there is an encoding, of the groups at hand that the sequence holds."""
    there = model.groups.prices.closure(positions_of("--have", at_hand, places_of(model.groups.names)))
    parts = (model.layout.columns[g] for g in model.sequence.order.tolist() if there[g])
    return np.sort(np.concatenate([np.empty(0, dtype=np.intp), *parts]))


def _rows(files: Files, model: AnytimeModel, columns: Positions, printer: Printer) -> Any:
    """Read columns of all rows, or what these columns, of the design, come from."""
    used = columns if model.source.names is None else None
    return files.read_all(files.source_for(model, (), columns), printer, f"a ranking for {files.place}", used).X


def _one_row(X: Any, row: int | None, place: str) -> Any:
    """Return a row of a table, counted from 1; None: all of them."""
    if row is None:
        return X
    if row > X.shape[0]:
        raise Refused(f"--row: {place} has {X.shape[0]:,} rows, there is no row {row}")
    return X[row - 1 : row]
