"""The tables of a report as plain cells, the same in every rendering."""

from __future__ import annotations

from dataclasses import dataclass

from budgetline.report.content import Content
from budgetline.report.words import amount, at_least, change, nearest, number, share, with_error


@dataclass(frozen=True)
class Table:
    """A table: cells are text; the columns ``left`` are words, the others numbers."""

    title: str
    intro: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    left: frozenset[int]


def order_table(content: Content) -> Table:
    """Return the sequence: step, group, columns, cost, cumulative cost, gain, explained, and how many folds agree."""
    folds = content.measure.folds
    header = ("step", "group", "columns", "cost", "cumulative cost", "gain", "explained")
    rows = []
    for stage in content.sequence:
        gain = "–" if stage.gain is None else f"{stage.gain:.5g}"
        cells = (str(stage.step), stage.group, str(stage.columns), amount(stage.cost), amount(stage.cumulative_cost))
        agreement = () if stage.agreement is None else (f"{stage.agreement} of {folds}",)
        rows.append((*cells, gain, share(stage.explained), *agreement))
    intro = "The groups in the order in which the model computes them; the gain is what each adds to those before it."
    return Table("The order", intro, (*header, "folds that agree") if folds else header, tuple(rows), frozenset({1}))


def budget_table(content: Content) -> Table:
    """Return, for every stage, what is computed, what to expect, and what comes next at which cost."""
    training, style, label = content.training_curve, content.measure.style, content.measure.label
    judged = content.main_curve is not training
    header = ("budget from", "groups computed", *((f"{label}, cross-validated",) if judged else ()))
    rows = []
    for k, cost in enumerate(training.costs):
        added = "none" if k == 0 else content.sequence[k - 1].group + (f" and {k - 1} before it" if k > 1 else "")
        expected = (with_error(*content.at_stage(k), style),) if judged else ()
        following = ("none", "–", "–")
        if k < len(content.sequence):
            stage = content.sequence[k]
            following = (stage.group, amount(stage.cost), change(content.brings(k), style))
        rows.append((amount(cost), added, *expected, number(training.values[k], style), *following))
    names = (f"{label}, training", "next group", "its cost", "it brings")
    intro = f"What to expect at every stage, and what the next group would cost and bring, in {content.unit}."
    return Table(
        "What each budget buys",
        intro,
        (*header, *names),
        tuple(rows),
        frozenset({1, len(header) + 1}),
    )


def comparison_table(content: Content) -> Table | None:
    """Return the methods with their timeliness and their values at shares of the whole cost."""
    if (found := content.comparison) is None:
        return None
    style = content.measure.style
    budgets = zip(found.shares, found.budgets, strict=True)
    header = ("method", "timeliness", *(f"at {100 * s:g} % ({amount(b)})" for s, b in budgets), "what it does")
    rows = []
    for method in found.methods:
        values = (with_error(v, e, style) for v, e in zip(method.values, method.errors, strict=True))
        timeliness = with_error(method.timeliness, method.timeliness_error, style)
        rows.append((method.name, timeliness, *values, method.note))
    intro = (
        f"Cross-validated {content.measure.label} of this model's way and of other ways to order the same groups, over"
        " all budgets and at shares of the whole cost."
    )
    return Table("Is the order worth it?", intro, header, tuple(rows), frozenset({0, len(header) - 1}))


def best_table(content: Content) -> Table | None:
    """Return what the order explains at shares of the whole cost, and the most that any set of groups could."""
    if (found := content.certificate) is None:
        return None
    rows = [(f"{100 * part:g} % ({amount(budget)})", there) for part, budget, there in found.rows]
    rows.append(("all, on average (timeliness)", found.timeliness))
    names = ("the order explains", "bound on any set of groups", "of the best, at least")
    header = (f"budget, of {amount(content.total_cost)} {content.unit}", *names)
    cells = ((where, share(known.achieved), share(known.bound), at_least(known.ratio)) for where, known in rows)
    return Table("How near to the best?", nearest(content), header, tuple(cells), frozenset({0}))


def facts(content: Content) -> list[tuple[str, str]]:
    """Return the figures at the head of a report."""
    data = content.data
    rows = [] if data.rows is None else [("rows", f"{data.rows:,}")]
    cost = (f"whole cost in {content.unit}", amount(content.total_cost))
    return [*rows, ("columns", f"{data.columns:,}"), ("groups", f"{data.groups:,}"), cost]


def details_table(content: Content) -> Table:
    """Return what was predicted, from what, and the settings."""
    task, data = content.task, content.data
    target = "frequency of class" if task.kind == "classification" else "target"
    rows = [
        ("task", f"{task.kind}, {len(task.classes)} classes" if task.classes else task.kind),
        ("loss", task.loss),
        ("rows", "not known" if data.rows is None else f"{data.rows:,}" + (" (weighted)" if data.weighted else "")),
        *((f"{target} {entry.name}", _general(entry.value)) for entry in data.target),
        ("estimator", task.estimator),
        *((setting.name, setting.value) for setting in content.settings),
        ("budgetline", f"{content.version}, {content.date}"),
    ]
    return Table("Data and settings", "", ("what", "value"), tuple(rows), frozenset({0, 1}))


def _general(value: float | None) -> str:
    return number(value, "general")
