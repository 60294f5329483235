"""``budgetline certify``: how near the order of a model comes to the best, proven."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from budgetline.cli import options
from budgetline.cli.errors import refusing
from budgetline.cli.screens import Screen
from budgetline.optimality import Certificate
from budgetline.optimality.certificate import SHOWN
from budgetline.persistence import load
from budgetline.report.formatting import amount, at_least, share


def certify(
    model: options.Model,
    time_limit: Annotated[
        float, typer.Option(metavar="SECONDS", min=0, help="How long to look for better bounds; they always hold.")
    ] = 5.0,
    budget: Annotated[
        list[float] | None,
        typer.Option(metavar="B", min=0, help="Show this budget, not shares of the whole cost; more than once: all."),
    ] = None,
    as_json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Prove how near the order of a model comes to the best that any set of groups explains, on its training data."""
    screen = Screen(as_json, quiet)
    found = load(model)
    with refusing():
        certificate = found.certificate(budget, time_limit=time_limit, progress=screen.progress)
    record = _record(certificate, budget or [part * certificate.total_cost for part in SHOWN])
    screen.say(f"{model}: {len(certificate.order)} of {len(certificate.feature_groups)} groups in order\n")
    _print(record, screen)
    screen.document({"model": str(model), **record})


def _record(certificate: Certificate, budgets: list[float]) -> dict[str, Any]:
    """Return what is proven, as plain values; explained and bound are shares F/R(∅)."""
    scale = certificate.null_value if certificate.null_value > 0 else 1.0
    names = ("explained", "bound", "ratio")
    rows = []
    for budget in budgets:
        there = certificate.at(budget)
        values = (there.achieved / scale, there.bound / scale, there.ratio)
        rows.append({"budget": budget, **dict(zip(names, values, strict=True))})
    timeliness = dict(zip(names, certificate.timeliness(), strict=True))
    found = {"loss": certificate.loss, "alpha": certificate.alpha, "total_cost": certificate.total_cost}
    return {**found, "budgets": rows, "timeliness": timeliness, "notes": list(certificate.notes)}


def _print(record: dict[str, Any], screen: Screen) -> None:
    rows = [[amount(row["budget"]), *_cells(row)] for row in record["budgets"]]
    rows.append(["all, on average", *_cells(record["timeliness"])])
    screen.table(["budget", "explained", "bound on any set", "of the best, at least"], rows)
    screen.say()
    screen.paragraph(
        "All is about the training data, with the ridge penalty, and every budget on its own: no single order has to "
        "reach the best set of each. The average is over budgets from 0 to the cost of all groups (timeliness)."
    )
    for note in record["notes"]:
        screen.paragraph(note)


def _cells(known: dict[str, float]) -> tuple[str, ...]:
    return share(known["explained"]), share(known["bound"]), at_least(known["ratio"])
