"""``budgetline show`` and ``certify``: what a model holds, and how close its order is to optimal."""

from __future__ import annotations

from typing import Annotated

from typer import Option

from budgetline.cli import options
from budgetline.cli.errors import refusing
from budgetline.cli.printing import Printer, bought_at, in_line
from budgetline.evaluation import BudgetCurve
from budgetline.messages import printable, shown
from budgetline.model.anytime import AnytimeModel
from budgetline.optimality.certificate import SHOWN
from budgetline.persistence import load
from budgetline.report.formatting import amount, at_least, share

LONGEST_SETTING = 1000
"""Characters of a setting."""


def show(model: options.Model, as_json: options.Json = False, quiet: options.Quiet = False) -> None:
    """Show what a model holds: its sequence, what each budget buys, its curve and its settings.

    For example:
    budgetline show heart.budgetline
    budgetline show heart.budgetline --json
    """
    printer = Printer(as_json, quiet)
    found = load(model).model_
    curve, record = BudgetCurve.of(found), model_record(found)
    labels = in_line(map(str, () if found.classes is None else found.classes.tolist()))
    task = f"{record['task']} ({labels})" if 0 < len(labels) < 40 else record["task"]
    printer.say(f"{model}: {found.estimator}, {task}")
    total = amount(float(found.sequence.costs.sum()))
    printer.say(f"{found.layout.n_features} columns in {len(found.groups)} groups, total cost {total}\n")
    printer.sequence(found.sequence, found.groups.names)
    for name, (cost, groups) in found.groups.shared.items():
        printer.say(f"shared: {shown(name)} {amount(cost)}, by {in_line(groups)}")
    for name, required in found.groups.requires.items():
        printer.say(f"{printable(name)} requires {in_line(required)}")
    printer.say("\nWhat each budget buys, on the training data:\n")
    printer.budgets(curve)
    printer.say("\nExplained, against cost:\n")
    printer.curve(curve)
    printer.say()
    printer.paragraph("Settings: " + ", ".join(f"{k} {v}" for k, v in settings_of(found).items() if v is not None))
    if "alpha_" in found.learned:
        printer.say(f"alpha {found.alpha:g} was chosen by cross-validation")
    printer.document({"model": str(model), **record, "budgets": bought_at(curve)})


def certify(
    model: options.Model,
    time_limit: Annotated[
        float, Option(metavar="SECONDS", min=0, help="How long to tighten the bounds; they are always valid.")
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
    found = load(model)
    with refusing():
        certificate = found.certificate(budget, time_limit=time_limit, progress=printer.progress)
    scale = certificate.null_value if certificate.null_value > 0 else 1.0
    rows = []
    for each in budget or [part * certificate.total_cost for part in SHOWN]:
        there = certificate.at(each)
        rows.append({"budget": each, **_shares(there.achieved / scale, there.bound / scale, there.ratio)})
    mean = _shares(*certificate.timeliness())
    printer.say(f"{model}: {len(certificate.order)} of {len(certificate.feature_groups)} groups in order\n")
    cells = [[amount(row["budget"]), *_cells(row)] for row in rows]
    header = ["budget", "explained", "bound on any set", "certified share of the optimum"]
    printer.table(header, [*cells, ["mean over budgets", *_cells(mean)]])
    printer.say()
    printer.paragraph(
        "All values are about the training data, with the ridge penalty. Every budget has its own best set: no single "
        "order needs to reach all of them. The mean is over budgets from 0 to the cost of all groups (timeliness)."
    )
    for note in certificate.notes:
        printer.paragraph(note)
    about = {"loss": certificate.loss, "alpha": certificate.alpha, "total_cost": certificate.total_cost}
    printer.document({"model": str(model), **about, "budgets": rows, "timeliness": mean, "notes": certificate.notes})


def model_record(model: AnytimeModel) -> dict[str, object]:
    """Return what a model is, as plain values."""
    sequence, groups, names = model.sequence, model.groups, model.layout.names
    return {
        "estimator": model.estimator,
        "task": "regression" if model.classes is None else "classification",
        **({} if model.classes is None else {"classes": model.classes}),
        "columns": model.layout.n_features,
        "column_names": names,
        "sequence": sequence.to_dict(),
        "total_cost": float(sequence.costs.sum()),
        "shared": {name: {"cost": cost, "groups": members} for name, (cost, members) in groups.shared.items()},
        "requires": groups.requires,
        "not_in_sequence": [name for name in groups.names if name not in sequence.groups],
        "settings": settings_of(model),
        **({"alpha_": model.alpha} if "alpha_" in model.learned else {}),
    }


def settings_of(model: AnytimeModel) -> dict[str, str | int | float | None]:
    """Return the settings of the estimator but for groups and costs; objects as text."""
    return {
        name: value if isinstance(value, str | int | float | None) else shown(value, LONGEST_SETTING)
        for name, value in model.settings.items()
        if name not in ("feature_groups", "costs")
    }


def _shares(explained: float, bound: float, ratio: float) -> dict[str, float]:
    """Return what is proven: explained and bound as shares F/R(∅), and their ratio."""
    return {"explained": explained, "bound": bound, "ratio": ratio}


def _cells(known: dict[str, float]) -> tuple[str, ...]:
    return share(known["explained"]), share(known["bound"]), at_least(known["ratio"])
