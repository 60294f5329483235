"""The sections of a report: each is one function, which returns a table and notes on how to read it.

To add a section, write such a function, name it in ``SECTIONS``, and place it in ``page.html``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from budgetline.evaluation.pictures import ScoreEffect
from budgetline.report.content import CertifiedOrder, Content
from budgetline.report.formatting import (
    COST_UNITS,
    PAIRS,
    amount,
    at_least,
    change,
    count,
    listed,
    number,
    share,
    with_error,
)
from budgetline.report.sentences import best_stage

SHOWN_THRESHOLDS = (0.01, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99)
FOLDS_AGREE = (
    "“Folds that agree” counts the folds that bought the group at the same cumulative cost or earlier. If settings were"
    " chosen by cross-validation, its folds are counted. If few folds agree, the group's position in the order is"
    " uncertain."
)
FROM_SHARE = 0.1
"""The sentence about the optimum refers to the first listed budget that is at least this share of the total cost and at
which the order explains anything."""


@dataclass(frozen=True)
class Section:
    """A table of text cells: the columns ``left`` hold words, the others numbers. The first word names the row."""

    title: str
    intro: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    left: frozenset[int]
    notes: tuple[str, ...] = ()


def facts(content: Content) -> list[tuple[str, str]]:
    """Return the figures at the top of a report."""
    data = content.data
    counts = {"rows": data.rows, "columns": data.columns, "groups": data.groups, "pairs of columns": data.pairs or None}
    found = {name: f"{n:,}" for name, n in counts.items() if n is not None}
    if content.left_out:
        found["groups"] += f", {content.bought_after(len(content.sequence)):,} in the order"
    unit = "" if content.unit == COST_UNITS else f" in {content.unit}"
    return [*found.items(), (f"total cost{unit}", amount(content.total_cost))]


def sections(content: Content) -> dict[str, Section]:
    """Return the sections that a report has, by name."""
    found = {name: make(content) for name, make in SECTIONS.items()}
    return {name: section for name, section in found.items() if section is not None}


def _order(content: Content) -> Section:
    folds = content.sequence[0].folds if content.sequence else 0
    header = ["step", "group", "columns", "cost", "cumulative cost", "added, training", "explained, training"]
    rows, before = list[tuple[str, ...]](), 0.0
    for step in content.sequence:
        cells = (str(step.step), step.group, str(step.columns), amount(step.cost), amount(step.cumulative_cost))
        agreement = () if step.agreement is None else (f"{step.agreement} of {step.folds}",)
        added = None if step.explained is None else step.explained - before
        rows.append((*cells, change(added, "percent"), share(step.explained), *agreement))
        before = step.explained or 0.0
    intro = "The groups in the order in which they are computed, and what each one adds to the groups before it."
    header += ["folds that agree"] if folds else []
    notes = (*_notes_on_groups(content), *((FOLDS_AGREE,) if folds else ()))
    return Section("The order", intro, tuple(header), tuple(rows), frozenset({1}), notes)


def _notes_on_groups(content: Content) -> tuple[str, ...]:
    paid = "{} ({} {}) is paid once, by the first of {}."
    shared = content.shared.items()
    found = [paid.format(name, amount(cost), content.unit, listed(groups)) for name, (cost, groups) in shared]
    if content.shared:
        found.append("With shared costs, the cost of a group depends on its position in the order.")
    found += [f"{name} requires {listed(groups)}." for name, groups in content.required.items()]
    if content.data.pairs:
        found.append(PAIRS)
    if content.left_out:
        found.append(f"The order ended before these groups: {', '.join(content.left_out)}.")
    return tuple(found)


def _budgets(content: Content) -> Section:
    """Return, for every cost, the groups computed, the expected value, and cost and effect of the next group.

    Groups that cost nothing, such as pairs of columns, come with the group before them.
    """
    training, style, label = content.training_curve, content.measure.style, content.measure.label
    held_out, rows, last = content.main_curve is not training, list[tuple[str, ...]](), len(content.sequence)
    stages = [0, *(k for k in range(1, last + 1) if k == last or content.sequence[k].cost > 0)]
    for before, k, after in zip([0, *stages], stages, [*stages[1:], last], strict=False):
        earlier = f" and {count(before, 'earlier group')}" if before else ""
        computed = ", ".join(step.group for step in content.sequence[before:k]) + earlier if k else "none"
        expected = (with_error(*content.expected[k], style),) if held_out else ()
        following = ("none", "–", "–")
        if k < last:
            step, here, there = content.sequence[k], content.expected[k][0], content.expected[after][0]
            effect = None if here is None or there is None else there - here
            following = (step.group, amount(step.cost), change(effect, style))
        rows.append((amount(training.costs[k]), computed, *expected, number(training.values[k], style), *following))
    header = ("budget from", "groups computed", *((f"{label}, held-out",) if held_out else ()))
    names = (f"{label}, training", "next group", "its cost", f"its effect, {content.rows_evaluated}")
    intro = f"What to expect from each budget in {content.unit}, and the cost and effect of the next group."
    left = frozenset({1, len(header) + 1})
    return Section("What each budget buys", intro, (*header, *names), tuple(rows), left)


def _thresholds(content: Content) -> Section | None:
    """Return what some thresholds do after the best stage."""
    if (found := content.probabilities) is None:
        return None
    stage, (other, positive) = found.at(best_stage(content)).stage, content.task.classes
    places = {at: k for k, at in enumerate(found.thresholds) if at in SHOWN_THRESHOLDS}
    rows = ((f"{100 * at:g} %", *map(share, found.called(stage, k))) for at, k in places.items())
    values = ("sensitivity", "specificity", "positive predictive value", "negative predictive value")
    bought, every = content.bought_after(stage), content.bought_after(len(content.sequence))
    header = (f"threshold, with {bought} of {every} groups", f"rows called {positive}", *values)
    intro = (
        f"The model predicts the probability of class {positive}. Rows at or above the threshold are called {positive},"
        f" and the others are called {other}. Sensitivity is the share of rows of class {positive} that are called"
        f" {positive}; specificity is the share of rows of class {other} that are called {other}. The positive"
        f" predictive value is the share of rows called {positive} that are {positive}; the negative predictive value"
        f" is the share of rows called {other} that are {other}. All rows are held out: each row is predicted by the"
        " model of a fold that was not trained on it. If the model is calibrated, the models of the folds are"
        " calibrated with the same few parameters per stage, which were learned from all rows."
    )
    return Section("Choose a threshold", intro, header, tuple(rows), frozenset({0}))


def _risks(content: Content) -> Section | None:
    """Return what happened to rows of low, middle and high risk, at times between the first and the last."""
    if (found := content.risks) is None:
        return None
    places = [len(found.times) * k // 4 for k in (1, 2, 3)]
    header = (
        "risk",
        f"budget in {content.unit}",
        "rows",
        "events",
        *(f"no event by {found.times[k]:.4g}" for k in places),
    )
    rows = []
    for group in found.groups:
        cells = (f"{share(group.observed[k])} ({share(group.predicted[k])} predicted)" for k in places)
        rows.append((group.name, amount(group.budget), f"{group.rows:,}", f"{group.events:,}", *cells))
    intro = (
        "For each budget, held-out rows are divided into thirds by their predicted risk. The further apart the curves"
        " of the thirds are, the better this budget separates the risks. Solid lines show observed survival"
        " (Kaplan-Meier), and dashed lines show predicted survival."
    )
    return Section("Who is at risk", intro, header, tuple(rows), frozenset({0}))


def _intervals(content: Content) -> Section | None:
    """Return between which errors most targets are, after some stages."""
    if (found := content.intervals) is None:
        return None
    rows = []
    for each in found.stages:
        ends = (
            change(each.lower, "general"),
            change(each.upper, "general"),
            number(each.upper - each.lower, "general"),
        )
        groups = count(content.bought_after(each.stage), "group")
        cost, covered = content.training_curve.costs[each.stage], with_error(each.covered, each.error, "percent")
        rows.append((amount(cost), groups, *ends, covered))
    header = ("budget from", "groups computed", "from", "to", "width", "measured coverage")
    intro = (
        f"For {100 * found.coverage:g} % of the held-out rows, the target lies within this range around the prediction."
        " Coverage is measured on each fold, with the intervals of the other folds, and shown ± its standard error."
        " If the intervals of predict_interval widen with the prediction, the interval at the mean prediction is shown."
    )
    return Section("How far off are predictions?", intro, header, tuple(rows), frozenset({1}))


def _effects(content: Content) -> Section | None:
    """Return, for every effect, its lowest and its highest value, and where they are."""
    if not content.effects:
        return None
    rows, two = [], len(content.task.classes) == 2
    for effect in content.effects:
        ends, margins = (effect.values.index(end(effect.values)) for end in (min, max)), effect.margins
        values = ((with_error(effect.values[k], margins[k] if margins else None, "general"), k) for k in ends)
        cells = (cell for text, k in values for cell in (text, _place(effect, k)))
        name = f"{effect.name}, class {effect.output}" if effect.of_class else effect.caption
        rows.append((effect.name if two else name, effect.group, *cells))
    lowest, highest = (f", towards {name}" for name in content.task.classes) if two else ("", "")
    header = ("column", "group", f"lowest effect{lowest}", "at", f"highest effect{highest}", "at")
    left = frozenset({0, 1, 3, 5})
    return Section("What each column does", _about_effects(content), header, tuple(rows), left)


def _about_effects(content: Content) -> str:
    score = "the prediction"
    if len(content.task.classes) == 2:
        score = f"the score (above 0 means class {content.task.classes[1]})"
    elif content.task.classes:
        score = "the scores of the classes (the largest wins)"
    elif content.task.loss != "squared error":
        score = "the score from which the prediction is computed"
    found = (
        f"What each column adds to {score} when all groups are bought. Numbers are shown as curves (with marks where"
        " the data are), categories as bars, and pairs of columns as heat maps. The mean of every effect over the"
        " training data is 0."
    )
    if any(
        len(axis) > len(axis.numbers) > 0
        for axis in (effect.axes[0] for effect in content.effects if len(effect.axes) == 1)
    ):
        found += " Separate marks beside a curve are values such as 0 or missing that have their own effect."
    several = len({effect.output for effect in content.effects}) > 1
    found += f" Curves and bars share one scale{' per score' * several}, but heat maps have their own."
    if all(effect.margins for effect in content.effects):
        found += (
            " Light bands, thin lines and ± are pointwise 90 % bands. They show how far noise in the rows may have"
            " moved an effect, taking the choice of the groups as given."
        )
    else:
        found += (
            " There are no bands, because the dispersion of the loss is unknown, there are too few rows to estimate it,"
            " or the model is a plan for a loss other than squared error that was not refitted to the data."
        )
    if len(content.effects) < content.effects_in_all:
        found += f" Of {content.effects_in_all:,} effects, the {len(content.effects)} with the largest range are shown."
    return found


def _place(effect: ScoreEffect, k: int) -> str:
    """Return the point of the k-th value of an effect as text."""
    places = divmod(k, len(effect.axes[1])) if len(effect.axes) == 2 else (k,)
    return ", ".join(axis.short_labels[place] for axis, place in zip(effect.axes, places, strict=True))


def _comparison(content: Content) -> Section | None:
    if (found := content.comparison) is None:
        return None
    style, label = content.measure.style, content.measure.label
    budgets = zip(found.shares, found.budgets, strict=True)
    header = ("method", "timeliness", *(f"at {100 * s:g} % ({amount(b)})" for s, b in budgets), "order")
    rows = []
    for method in found.methods:
        values = (with_error(v, e, style) for v, e in zip(method.values, method.errors, strict=True))
        rows.append((method.name, with_error(method.timeliness, method.timeliness_error, style), *values, method.note))
    intro = (
        f"Held-out {label} of this model, compared with other ways to order the same groups: the mean over all budgets"
        " (timeliness), and the values at several shares of the total cost."
    )
    note = (
        f"Timeliness is the mean {label} over all budgets from 0 to the total cost. All methods use the same folds."
        " Values are means ± one standard error."
    )
    left = frozenset({0, len(header) - 1})
    return Section("Is the order worth it?", intro, header, tuple(rows), left, (note,))


def _optimality(content: Content) -> Section | None:
    if (found := content.certificate) is None:
        return None
    labels = (f"{100 * each.share:g} % ({amount(each.budget)})" for each in found.budgets)
    rows = zip((*labels, "mean over budgets (timeliness)"), (*found.budgets, found.timeliness), strict=True)
    total = f"budget, of {amount(content.total_cost)} {content.unit}"
    header = (total, "explained, training, minus penalty", "bound on any set", "certified share of the optimum")
    cells = tuple((where, share(row.achieved), share(row.bound), at_least(row.ratio)) for where, row in rows)
    notes = [
        "The bounds in “How close to optimal?” are proven for the training data, minus the ridge penalty: no set of"
        " groups within the budget explains more. Each budget has its own best set, so even the best order may stay"
        " below some bounds. The bounds do not apply to new rows."
    ]
    if content.left_out:
        notes.append("The bounds also apply to sets that contain groups outside the sequence.")
    if found.curve:
        notes.append("The training curve omits the penalty, so it can exceed the bound, which includes it.")
    notes += found.notes
    return Section("How close to optimal?", _about_optimum(found), header, cells, frozenset({0}), tuple(notes))


def _about_optimum(found: CertifiedOrder) -> str:
    there = next((each for each in found.budgets if each.share >= FROM_SHARE and each.achieved > 0), None)
    if there is None:
        return "The order explains no measurable share of the loss."
    certified, timely = at_least(there.ratio), at_least(found.timeliness.ratio)
    reached = "is optimal" if certified == at_least(1.0) else f"reaches at least {certified} of the optimum"
    first = f"At {100 * there.share:g} % of the cost, the order {reached} on the training data."
    return f"{first} Averaged over all budgets, it reaches at least {timely} of what the best order could reach."


def _without_intervals(content: Content) -> bool:
    """Return whether intervals are missing only because rows have weights."""
    single = content.task.kind == "regression" and len(content.data.target) == 1
    return content.data.weighted and content.intervals is None and single and content.measure.folds > 0


def _details(content: Content) -> Section:
    task, data = content.task, content.data
    target = "frequency of class" if task.classes else "target"
    rows = (
        ("task", f"{task.kind}, {len(task.classes)} classes" if task.classes else task.kind),
        ("loss", task.loss),
        ("rows", "unknown" if data.rows is None else f"{data.rows:,}" + (" (weighted)" if data.weighted else "")),
        *((f"{target} {name}", number(value, "general")) for name, value in data.target.items()),
        *((("intervals", "not measured, because the rows have weights"),) if _without_intervals(content) else ()),
        ("estimator", task.estimator),
        *(setting for setting in content.settings.items() if setting[0] != "loss"),
        ("budgetline", f"{content.version}, {content.date}"),
    )
    return Section("Data and settings", "", ("item", "value"), rows, frozenset({0, 1}))


SECTIONS: dict[str, Callable[[Content], Section | None]] = {
    "order": _order,
    "buys": _budgets,
    "thresholds": _thresholds,
    "intervals": _intervals,
    "risks": _risks,
    "effects": _effects,
    "comparison": _comparison,
    "optimality": _optimality,
    "details": _details,
}
"""The sections in order. A function returns None if its section would be empty."""
