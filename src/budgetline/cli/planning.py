"""``budgetline plan``: what to buy for a budget that is known."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from budgetline.cli import options
from budgetline.cli.data import DropMissingTarget, Files, check_output, writing
from budgetline.cli.evaluating import source_for
from budgetline.cli.printing import Printer, Refused, in_line, refusing
from budgetline.optimality import Plan
from budgetline.persistence import save
from budgetline.persistence.model_file import load_linear
from budgetline.report.formatting import amount, share
from budgetline.report.plans import proven

PROVEN = {
    "optimal": "no set within the budget explains more of the training data, with the ridge penalty.",
    "%": "the set explains at least this share of what the best one could; a longer --time-limit may prove more.",
    "exact fit": "nothing is proven for this loss; the models of the set are exact.",
    "estimate": "nothing is proven for this loss, and what the set explains is an estimate; give DATA, the data that "
    "the model learned from, to refit the plan.",
}
"""What is proven of a plan, and what that means."""
CORRECTED = "The sets maximise what they explain less the correction of the model; the proofs are about that, too."


def plan(
    model: options.Model,
    budget: Annotated[list[float], Option("--budget", "-b", metavar="B", min=0, help="Budget, repeatable.")],
    data: Annotated[
        str | None, Argument(metavar="[DATA]", help="The data that the model learned from, to refit the plan.")
    ] = None,
    target: options.Target = None,
    include: Annotated[list[str] | None, Option(metavar="A,B,…", help="Groups to buy; repeatable.")] = None,
    exclude: Annotated[list[str] | None, Option(metavar="A,B,…", help="Groups not to buy; repeatable.")] = None,
    at_most_one: Annotated[list[str] | None, Option(metavar="A,B,…", help="Buy one at most; repeatable.")] = None,
    time_limit: Annotated[float, Option(metavar="SECONDS", min=0, help="How long to search, in all.")] = 5.0,
    output: Annotated[
        Path | None, Option("-o", "--output", metavar="MODEL", help="Where to write the plan, as a model.")
    ] = None,
    weight: options.Weight = None,
    drop_missing_target: DropMissingTarget = False,
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
    records = [_record(*each) for each in zip(budget, plans, strict=True)]
    written = {} if output is None else {"written": str(output)}
    printer.document({"model": str(model), "loss": found.model_.family.loss, "plans": records, **written})


def _print(budgets: list[float], plans: tuple[Plan, ...], printer: Printer) -> None:
    cells = [
        [amount(budget), amount(each.cost), share(each.explained), proven(each), in_line(each.groups) or "none"]
        for budget, each in zip(budgets, plans, strict=True)
    ]
    printer.table(["budget", "cost", "explained", "proven", "groups, in order"], cells, left={3, 4})
    printer.say()
    for word, meaning in PROVEN.items():
        if any(word in row[3] for row in cells):
            printer.paragraph(f"{word}: {meaning}")
    if plans[0].model_.penalties is not None:
        printer.paragraph(CORRECTED)


def _record(budget: float, plan: Plan) -> dict[str, object]:
    """Return what a plan says, as plain values."""
    return {
        "budget": budget,
        "groups": plan.groups,
        "cost": plan.cost,
        "explained": plan.explained,
        "value": plan.value,
        "bound": plan.bound,
        "ratio": plan.ratio,
        "optimal": plan.optimal,
        "refitted": plan.refitted,
    }
