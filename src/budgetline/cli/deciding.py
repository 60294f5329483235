"""``budgetline plan``, ``next`` and ``certify``: what to buy, and how close the order is to optimal."""

from __future__ import annotations

from pathlib import Path
from shlex import quote
from typing import Annotated, Any

import numpy as np
from typer import Argument, Option

from budgetline.arrays import Positions
from budgetline.bounds.certificate import SHOWN
from budgetline.cli import options
from budgetline.cli.data import Files, check_output, evaluation_rows, writing
from budgetline.cli.options import FileOptions, TargetOptions
from budgetline.cli.printing import Printer, Refused, in_line, refusing
from budgetline.groups.parsing import places_of, positions_of
from budgetline.model.anytime import AnytimeModel
from budgetline.optimality.next_groups import next_groups
from budgetline.persistence import save
from budgetline.persistence.model_file import load_linear
from budgetline.report.builders import (
    certified_at,
    groups_with_columns,
    next_record,
    pairs_bought,
    plan_record,
    task_name,
)
from budgetline.report.content import CertifiedShare
from budgetline.report.formatting import PAIRS, amount, at_least, share

HEADER = ("budget", "cost", "explained, training data", "order at this budget", "proof", "groups, in order")
ORDER = "order at this budget: the explained share of the first groups of the order, as many as the budget pays for"
ESTIMATED_GAINS = "gains are estimates: the order, whose gains come from fits, may rank these groups differently"
CHANCE = "chance: the chance that the group changes the decision, on average over the rows of DATA"
ESTIMATED = (
    "about: an estimate. A plan made from the training data may break near ties differently. To plan from the training "
    "data, which may select other groups, run: {}"
)


def plan(
    model: options.ModelFile,
    data: Annotated[
        str | None,
        Argument(metavar="[DATA]", help="Training data of the model, used to find and refit the plans."),
    ] = None,
    *,
    budget: Annotated[list[float], Option("--budget", "-b", metavar="B", min=0, help="Budget; repeatable.")],
    include: Annotated[
        list[str] | None, Option(metavar="A,B,…", help="Groups that the plan must buy; repeatable.")
    ] = None,
    exclude: Annotated[
        list[str] | None,
        Option(metavar="A,B,…", help="Groups that the plan must not buy; repeatable.", rich_help_panel="Options"),
    ] = None,
    time_limit: options.TimeLimitSeconds = 5.0,
    output: Annotated[
        Path | None, Option("-o", "--output", metavar="MODEL", help="File to write the plan to, as a model.")
    ] = None,
    target: TargetOptions,
    reading: FileOptions,
    printer: Printer,
) -> None:
    """Search for the best groups within a known budget. -o writes the plan as a model that all other commands accept.

    Example: budgetline plan heart.budgetline -b 50 --exclude ecg -o plan.budgetline
    """
    files = None if data is None else Files(data, reading, target.drop_missing_target)
    check_output(output, inputs=[model, *(files.paths if files else ())])
    if output is not None and len(budget) > 1:
        raise Refused("a file holds one plan: use one --budget, or no --output")
    found, rows = load_linear(model), {}
    if files is not None:
        table, _ = evaluation_rows(found.model_, files, target, printer, "a plan")
        rows = {"X": table.X, "y": table.y, "sample_weight": table.weight}
    elif target != TargetOptions():
        raise Refused("--target, --sample-weight, --qid and --event name columns of DATA: add DATA")
    known = found.model_.groups.names
    inside, outside = options.group_names("--include", include, known), options.group_names("--exclude", exclude, known)
    with refusing():
        plans = found.plans(
            budget, include=inside, exclude=outside, time_limit=time_limit,
            progress=printer.progress, **rows,
        )  # fmt: skip
    pairs = zip(budget, plans, strict=True)
    records = [{"budget": each, **plan_record(plan, found.model_, each)} for each, plan in pairs]
    again = f"budgetline plan {quote(str(model))} DATA -t TARGET" + "".join(f" -b {amount(each)}" for each in budget)
    _print_plans(records, ORDER + ", without --include and --exclude" * bool(inside or outside), again, printer)
    if any(pairs_bought(each.model_) for each in plans):
        printer.say(PAIRS)
    if output is not None:
        with writing(output) as written_to:
            save(plans[0], output)
        printer.note(f"wrote {written_to}: a model of this plan")
    written = {} if output is None else {"written": str(output)}
    printer.document({"model": str(model), "loss": found.model_.family.loss, "plans": records, **written})


def _print_plans(records: list[dict[str, Any]], order: str, again: str, printer: Printer) -> None:
    cells, meanings = [], dict.fromkeys([f"{order}."])
    for row in records:
        estimated = row["ratio"] is None and not row["refitted"]
        meanings |= dict.fromkeys([f"{row['proven']}: {row['meaning']}"] + [ESTIMATED.format(again)] * estimated)
        explained = "about " * estimated + share(row["explained"])
        names = in_line(row["groups"]) or "none"
        of_order = share(row["order_explained"])
        cells.append([amount(row["budget"]), amount(row["cost"]), explained, of_order, row["proven"], names])
    printer.table(HEADER, cells, left={4, 5})
    printer.say()
    for meaning in meanings:
        printer.paragraph(meaning)


def next_(
    model: options.ModelFile,
    data: Annotated[
        str | None,
        Argument(metavar="[DATA]", help="Rows about which to decide, with the columns of the available groups."),
    ] = None,
    *,
    available: Annotated[
        list[str] | None, Option(metavar="A,B,…", help="Groups that are already available; repeatable. Default: none.")
    ] = None,
    budget: Annotated[float | None, Option("--budget", "-b", min=0, help="Leave out groups that cost more.")] = None,
    reading: FileOptions,
    printer: Printer,
) -> None:
    """Rank what to buy next by gain per cost or, for rows of DATA, by the chance per cost that the decision changes.

    Example: budgetline next heart.budgetline patient.csv --available age,cp
    """
    found = load_linear(model).model_
    have = options.group_names("--available", available, found.groups.names)
    if data is not None and found.classes is None:
        raise Refused(f"DATA is for classification, but {model} is a {task_name(found)} model")
    with refusing():
        columns = _columns_of(found, have)
        X = None if data is None else _rows(Files(data, reading), found, columns, printer)
        ranking = next_groups(found, have, budget=budget, X=X)
    cost = found.groups.cost_of(ranking.available)
    printer.say(f"available: {in_line(ranking.available) or 'nothing'}; cost {amount(cost)}\n")
    nothing = "nothing is left to buy" + " within the budget" * (budget is not None)
    printer.say(str(ranking) if len(ranking) else nothing)
    if len(ranking) and not found.squared_error:
        printer.say(ESTIMATED_GAINS)
    if len(ranking) and X is not None:
        printer.say(CHANCE)
    if ranking.unknown:
        printer.say(f"not ranked, because the sequence ended before them: {in_line(ranking.unknown)}")
    printer.document({"model": str(model), **next_record(found, ranking)})


def _columns_of(model: AnytimeModel, available: list[str]) -> Positions:
    """Return the columns of the available groups that the sequence holds; with an encoding, columns of the design."""
    there = model.groups.prices.closure(positions_of("--available", available, places_of(model.groups.names)))
    parts = (model.layout.columns[g] for g in model.sequence.order.tolist() if there[g])
    return np.sort(np.concatenate([np.empty(0, dtype=np.intp), *parts]))


def _rows(files: Files, model: AnytimeModel, columns: Positions, printer: Printer) -> object:
    """Read columns of all rows; with an encoding, the raw columns of these columns."""
    if not columns.size:
        raise Refused("to rank groups for the rows of DATA, name the groups whose values DATA has: --available A,B")
    return files.read_all(files.source_for(model, None, columns), printer, f"a ranking for {files.place}").X


def certify(
    model: options.ModelFile,
    *,
    time_limit: options.TimeLimitSeconds = 5.0,
    budget: Annotated[
        list[float] | None,
        Option(metavar="B", min=0, help="Budget to show; repeatable. Default: shares of the total cost."),
    ] = None,
    printer: Printer,
) -> None:
    """Prove how close the order is to optimal at every budget, on the training data.

    Example: budgetline certify heart.budgetline --time-limit 60
    """
    found = load_linear(model)
    with refusing():
        certificate = found.certificate(budget, time_limit=time_limit, progress=printer.progress)
    budgets = budget or [part * certificate.total_cost for part in SHOWN]
    proven = certified_at(certificate, budgets, certificate.total_cost)
    mean = CertifiedShare(*map(float, certificate.timeliness()))
    known = groups_with_columns(found.model_)
    bought = sum(name in known for name in found.model_.sequence.groups)
    printer.say(f"{model}: {bought} of {len(known)} groups in order\n")
    pairs = zip([*map(amount, budgets), "mean over budgets"], [*proven, mean], strict=True)
    cells = ([label, share(each.achieved), share(each.bound), at_least(each.ratio)] for label, each in pairs)
    printer.table(["budget", "explained", "bound on any set", "certified share of the optimum"], cells)
    printer.say()
    printer.paragraph(
        "All values are computed on the training data, with the ridge penalty. Every budget has its own best set, so "
        "even the best order may stay below some bounds. The mean over budgets (timeliness) covers all budgets from 0 "
        "to the cost of all groups."
    )
    for note in certificate.notes:
        printer.paragraph(note)
    about = {"alpha": certificate.alpha, "total_cost": certificate.total_cost}
    *rows, last = ({"explained": each.achieved, "bound": each.bound, "ratio": each.ratio} for each in (*proven, mean))
    rows = [{"budget": each, **row} for each, row in zip(budgets, rows, strict=True)]
    printer.document({"model": str(model), **about, "budgets": rows, "timeliness": last, "notes": certificate.notes})
