"""``budgetline plan``: what to buy for a budget that is known."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from budgetline.cli import options
from budgetline.cli.data import Files, check_output, writing
from budgetline.cli.evaluating import source_for
from budgetline.cli.printing import Printer, Refused, in_line, refusing
from budgetline.optimality import Plan
from budgetline.persistence import save
from budgetline.persistence.model_file import load_linear
from budgetline.report.builders import plan_explained, plan_record
from budgetline.report.formatting import amount, at_least, share

HEADER = ("budget", "cost", "explained, training data", "share of the optimum", "groups, in order")
WORDS = {
    "optimal": "it is proven that no set within the budget explains more of the training data, with the ridge penalty.",
    "≥": "the proven share of what the best set explains; a longer --time-limit may prove more.",
    "not known": "for this loss, no useful bound on what other sets explain is known.",
    "about": "an estimate; give DATA, the data that the model learned from, to refit the plan.",
}
"""Words in the table of plans, and what they mean."""
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
    """Return what a plan explains, in words."""
    estimated = plan.ratio is None and not plan.refitted
    explained = share(plan_explained(plan))
    return f"about {explained}" if estimated else explained


def _share(plan: Plan) -> str:
    """Return what is proven of a plan, in words."""
    if plan.ratio is None:
        return "not known"
    return "optimal" if plan.optimal else f"≥ {at_least(plan.ratio)}"
