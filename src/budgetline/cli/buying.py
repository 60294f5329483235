"""``budgetline plan`` and ``next``: what to buy for a known budget, and what to buy next."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from typer import Argument, Option

from budgetline.arrays import Positions
from budgetline.cli import options
from budgetline.cli.data import Files, check_output, writing
from budgetline.cli.evaluating import source_for
from budgetline.cli.printing import Printer, Refused, in_line, refusing
from budgetline.groups.parsing import places_of, positions_of
from budgetline.model.anytime import AnytimeModel
from budgetline.optimality import Plan
from budgetline.optimality.next_groups import next_groups
from budgetline.persistence import save
from budgetline.persistence.model_file import load_linear
from budgetline.report.builders import next_record, plan_explained, plan_record
from budgetline.report.formatting import amount, at_least, share

HEADER = ("budget", "cost", "explained, training data", "share of the optimum", "groups, in order")
WORDS = {
    "optimal": "it is proven that no set within the budget explains more of the training data, with the ridge penalty.",
    "≥": "the proven share of what the best set explains; a longer --time-limit may prove more.",
    "not known": "for this loss, no useful bound on what other sets explain is known.",
    "about": "an estimate; give DATA, the data that the model learned from, to refit the plan.",
}
"""Words in the table of plans, and their meaning."""
CORRECTED = "The sets maximise what they explain less the correction of the model; the proofs are about that, too."


def plan(
    model: options.ModelFile,
    budget: Annotated[list[float], Option("--budget", "-b", metavar="B", min=0, help="Budget, repeatable.")],
    data: Annotated[
        str | None, Argument(metavar="[DATA]", help="The data that the model learned from, to refit the plan.")
    ] = None,
    target: options.TargetName = None,
    include: Annotated[list[str] | None, Option(metavar="A,B,…", help="Groups to buy; repeatable.")] = None,
    exclude: Annotated[
        list[str] | None, Option(metavar="A,B,…", help="Groups not to buy; repeatable.", rich_help_panel="Options")
    ] = None,
    at_most_one: Annotated[list[str] | None, Option(metavar="A,B,…", help="Buy one at most; repeatable.")] = None,
    time_limit: Annotated[float, Option(metavar="SECONDS", min=0, help="How long to search, in all.")] = 5.0,
    output: Annotated[
        Path | None, Option("-o", "--output", metavar="MODEL", help="Where to write the plan, as a model.")
    ] = None,
    weight: options.Weight = None,
    drop_missing_target: options.DropMissingTarget = False,
    file_format: options.FileFormat = None,
    delimiter: options.Delimiter = None,
    na: options.Missing = None,
    zero_based: options.ZeroBased = False,
    as_json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Find the best groups for a budget that is known. The plan is written as a model, for all other commands.

    For example:
    budgetline plan heart.budgetline --budget 50 -o plan.budgetline
    budgetline plan heart.budgetline heart.csv -t ill -b 50 -b 100 --exclude age --at-most-one ecg,thallium
    """
    printer = Printer(as_json, quiet)
    files = None if data is None else Files(data, file_format, zero_based, delimiter, na, drop_missing_target)
    check_output(output, inputs=[model, *(files.paths if files else ())])
    if output is not None and len(budget) > 1:
        raise Refused("a file holds one plan: give one --budget, or no --output")
    found, X, y, sample_weight = load_linear(model), None, None, None
    if files is not None:
        source = source_for(found.model_, files, target, printer, weight)
        table = files.read_all(source, printer, "a plan", found.model_.source.read)
        X, y, sample_weight = table.X, table.y, table.weight
    elif target is not None or weight is not None:
        raise Refused("--target and --weight are columns of DATA: give it, too")
    known = found.model_.groups.names
    inside, outside = options.names_of(include, known), options.names_of(exclude, known)
    rivals = [options.names_of([text], known) for text in at_most_one or ()]
    with refusing():
        plans = found.plans(
            budget, include=inside, exclude=outside, at_most_one=rivals, time_limit=time_limit, X=X, y=y,
            sample_weight=sample_weight, progress=printer.progress,
        )  # fmt: skip
    _print(budget, plans, printer)
    if output is not None:
        with writing(output):
            save(plans[0], output)
        printer.note(f"wrote {output}: a model of this plan")
    records = [{"budget": each, **plan_record(plan)} for each, plan in zip(budget, plans, strict=True)]
    written = {} if output is None else {"written": str(output)}
    printer.document({"model": str(model), "loss": found.model_.family.loss, "plans": records, **written})


def _print(budgets: list[float], plans: tuple[Plan, ...], printer: Printer) -> None:
    cells = [
        [amount(budget), amount(each.cost), _explained(each), _share(each), in_line(each.groups) or "none"]
        for budget, each in zip(budgets, plans, strict=True)
    ]
    printer.table(HEADER, cells, left={3, 4})
    printer.say()
    for word, meaning in WORDS.items():
        if any(word in cell for row in cells for cell in row[2:4]):
            printer.paragraph(f"{word}: {meaning}")
    if plans[0].model_.penalties is not None:
        printer.paragraph(CORRECTED)


def _explained(plan: Plan) -> str:
    """Return the explained share of a plan as text."""
    estimated = plan.ratio is None and not plan.refitted
    explained = share(plan_explained(plan))
    return f"about {explained}" if estimated else explained


def _share(plan: Plan) -> str:
    """Return the proven share of the optimum as text."""
    if plan.ratio is None:
        return "not known"
    return "optimal" if plan.optimal else f"≥ {at_least(plan.ratio)}"


def next_(
    model: options.ModelFile,
    data: Annotated[
        str | None, Argument(metavar="[DATA]", help="Rows to decide, with the columns of the available groups.")
    ] = None,
    have: Annotated[
        list[str] | None, Option(metavar="A,B,…", help="The groups that are available; repeatable. Default: none.")
    ] = None,
    budget: Annotated[float | None, Option("--budget", "-b", min=0, help="Leave out groups that cost more.")] = None,
    row: Annotated[int | None, Option(metavar="N", min=1, help="Only row N of DATA. Default: all of them.")] = None,
    sample: Annotated[
        str | None,
        Option(
            metavar="DATA",
            help="Rows with all columns, to learn how scores change. Default: from the model.",
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
    available = options.names_of(have, found.groups.names)
    if row is not None and data is None:
        raise Refused("--row is for DATA")
    for what, given in (("DATA", data), ("--sample", sample)):
        if given is not None and found.classes is None:
            raise Refused(f"{what} is for classification, and {model} is a regression")
    if sample is not None and data is None:
        raise Refused("--sample is for DATA: it tells how the scores of these rows change")
    with refusing():
        columns = _columns_of(found, available)
        if data is not None and not columns.size:
            raise Refused("DATA needs available groups that the model uses: name them, --have A,B")
        opened = partial(Files, file_format=file_format, zero_based=zero_based, delimiter=delimiter, na=na)
        X = None if data is None else _one_row(_rows(opened(data), found, columns, printer), row, data)
        rows = None if sample is None else _rows(opened(sample), found, found.last.columns, printer)
        ranking = next_groups(found, available, budget=budget, X=X, sample=rows)
    cost = found.groups.cost_of(ranking.available)
    printer.say(f"available: {in_line(ranking.available) or 'nothing'}; cost {amount(cost)}\n")
    printer.say(
        str(ranking) if len(ranking) else "nothing is left to buy" + " within the budget" * (budget is not None)
    )
    if ranking.unknown:
        printer.say(f"not ranked, because the sequence ended before them: {in_line(ranking.unknown)}")
    printer.document({"model": str(model), **next_record(found, ranking)})


def _columns_of(model: AnytimeModel, available: list[str]) -> Positions:
    """Return the columns of the available groups that the sequence holds; with an encoding, columns of the design."""
    there = model.groups.prices.closure(positions_of("--have", available, places_of(model.groups.names)))
    parts = (model.layout.columns[g] for g in model.sequence.order.tolist() if there[g])
    return np.sort(np.concatenate([np.empty(0, dtype=np.intp), *parts]))


def _rows(files: Files, model: AnytimeModel, columns: Positions, printer: Printer) -> Any:
    """Read columns of all rows; with an encoding, the raw columns of these columns of the design."""
    used = columns if model.source.names is None else None
    return files.read_all(files.source_for(model, (), columns), printer, f"a ranking for {files.place}", used).X


def _one_row(X: Any, row: int | None, place: str) -> Any:
    """Return a row of a table, counted from 1; None: all of them."""
    if row is None:
        return X
    if row > X.shape[0]:
        raise Refused(f"--row: {place} has {X.shape[0]:,} rows, there is no row {row}")
    return X[row - 1 : row]
