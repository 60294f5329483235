"""Numbers and sentences of a report, the same in every rendering."""

from __future__ import annotations

import numpy as np

from budgetline.evaluation import BudgetCurve, stopping_cost
from budgetline.report.content import CROSS_VALIDATED, Content
from budgetline.tables import rounded_down

UNKNOWN = "–"
ENOUGH = 0.8
"""The headline tells the first cost at which this share of the whole improvement is reached."""
SHOWN = 0.1
"""The share of the whole cost that the sentence about the best is about, or the next at which anything is bought."""
VISIBLE = 5e-4
"""Shares that differ by less look the same, with one decimal of a percentage."""
FEW = 6
"""So many names are listed in a sentence; of more, the number is given."""


def amount(cost: float) -> str:
    """Return a cost to six digits, without an exponent.

    Examples
    --------
    >>> from budgetline.report.words import amount
    >>> amount(323.97), amount(4.0), amount(1234567.0)
    ('323.97', '4', '1234570')
    """
    return repr(float(f"{cost:.6g}")).removesuffix(".0")


def number(value: float | None, style: str) -> str:
    """Return a value of the metric in its style: "percent", "fixed" (three decimals) or "general" (four digits).

    Examples
    --------
    >>> from budgetline.report.words import number
    >>> number(-0.1234, "percent"), number(-1e-9, "fixed"), number(1234567.0, "general")
    ('−12.3 %', '0.000', '1235000')
    """
    if value is None:
        return UNKNOWN
    if style == "general":
        return signed(repr(float(f"{value:.4g}")).removesuffix(".0"))
    return signed(f"{100 * value:.1f}") + " %" if style == "percent" else signed(f"{value:.3f}")


def signed(text: str) -> str:
    """Return a number with a true minus sign, and zero with none."""
    return text.replace("-", "" if float(text) == 0 else "−", 1)


def change(value: float | None, style: str) -> str:
    """Return a difference of two values, with its sign; one of percentages is in percentage points."""
    text = number(value, style).replace(" %", " pp")
    return text if value is None or text.startswith("−") else f"+{text}"


def with_error(value: float | None, error: float | None, style: str) -> str:
    """Return "value ± standard error"."""
    text = number(value, style)
    if value is None or error is None:
        return text
    return f"{text.removesuffix(' %')} ± {number(error, style)}"


def share(value: float | None) -> str:
    """Return a share of the training risk in percent, with one decimal."""
    return number(value, "percent")


def at_least(value: float) -> str:
    """Return a share in percent, rounded down: what is proven is not made more.

    Examples
    --------
    >>> from budgetline.report.words import at_least
    >>> at_least(0.97799), at_least(0.978), at_least(1.0)
    ('97.7 %', '97.8 %', '100.0 %')
    """
    return share(rounded_down(value))


def count(n: int, noun: str) -> str:
    """Return "1 group", "2 groups"."""
    return f"{n:,} {noun}{'' if n == 1 else 's'}"


def listed(names: list[str]) -> str:
    """Return names as a list in a sentence, or how many they are."""
    if len(names) > FEW:
        return count(len(names), "group")
    return " and ".join([", ".join(names[:-1]), names[-1]]) if len(names) > 1 else "".join(names)


def enough(content: Content) -> int | None:
    """Return the first stage with most of the improvement, None where the whole sequence improves nothing."""
    values = [content.at_stage(stage)[0] for stage in range(len(content.sequence) + 1)]
    known = [value for value in values if value is not None]
    if len(known) < len(values):
        return None
    costs = content.training_curve.costs
    curve = BudgetCurve(np.array(costs), np.array(known), greater_is_better=content.measure.greater_is_better)
    if not curve.improvement()[-1] > 0:
        return None
    return max(stage for stage, cost in enumerate(costs) if cost <= stopping_cost(curve, ENOUGH))


def improvement_share(content: Content, stage: int) -> float:
    """Return the improvement of a stage as a share of that of the last."""
    first, here, last = (content.at_stage(k)[0] or 0.0 for k in (0, stage, len(content.sequence)))
    return (here - first) / (last - first)


def headline(content: Content) -> str:
    """Return the sentence that a reader should remember."""
    total, unit, stage = amount(content.total_cost), content.unit, enough(content)
    groups, verb = (
        ("its one group", "brings") if len(content.sequence) == 1 else (f"all {len(content.sequence)} groups", "bring")
    )
    if not content.sequence:
        return "No group was bought: the model is the one before any group."
    if stage is None:
        return f"{total} {unit} buy no improvement in {content.measure.label} that could be measured."
    spent = content.training_curve.costs[stage]
    if content.total_cost == 0:
        return "Every group is free: there is nothing to decide."
    if spent == content.total_cost and stage == len(content.sequence):
        return f"It takes the whole {total} {unit} to get most of what {groups} {verb}."
    part = improvement_share(content, stage)
    bought = f"{100 * part:.0f} % of what {groups} {verb}" if part < 0.995 else f"at least as much as {groups}"
    return f"{amount(spent)} of {total} {unit} buy {bought}."


def subline(content: Content) -> str:
    """Return the sentence that backs the headline with the values of the metric."""
    style, stage = content.measure.style, enough(content)
    how = "Cross-validated" if content.main_curve.kind == CROSS_VALIDATED else "On the training data,"
    parts = [f"{number(content.at_stage(0)[0], style)} before any group"]
    if stage is not None and 0 < stage < len(content.sequence):
        names = [s.group for s in content.sequence[:stage]]
        parts.append(f"{with_error(*content.at_stage(stage), style)} after {listed(names)}")
    if last := len(content.sequence):
        after = "its one group" if last == 1 else f"all {last} groups"
        parts.append(f"{with_error(*content.at_stage(last), style)} after {after}")
    return f"{how} {content.measure.label} is {', '.join(parts)}.{_warning(content)}"


def _warning(content: Content) -> str:
    """Return a sentence where some stage is better than the last by more than the last one's standard error."""
    last = len(content.sequence)
    sign = 1.0 if content.measure.greater_is_better else -1.0
    known = {k: sign * value for k in range(last + 1) if (value := content.at_stage(k)[0]) is not None}
    best = max(known, key=lambda k: known[k], default=last)
    error = content.at_stage(last)[1]
    if last not in known or error is None or known[best] <= known[last] + error:
        return ""
    text = with_error(*content.at_stage(best), content.measure.style)
    cost = f"{amount(content.training_curve.costs[best])} {content.unit}"
    return f" More is not better here: it is best after {count(best, 'group')} ({cost}), {text}."


def nearest(content: Content) -> str:
    """Return the sentences that say how near the order comes to the best; empty without a certificate."""
    if (found := content.certificate) is None:
        return ""
    rows = [row for row in found.rows if row[0] >= SHOWN and row[2].achieved > 0]
    if not rows:
        return "The order explains nothing that could be measured."
    part, _, there = rows[0]
    best = at_least(there.ratio)
    reached = "as much as any set" if best == at_least(1.0) else f"at least {best} of what any set"
    first = f"At {100 * part:g} % of the cost the order explains {reached} of groups could, on the training data."
    timely = at_least(found.timeliness.ratio)
    return f"{first} On average over all budgets it explains at least {timely} of what any order could."


def above_bound(content: Content) -> float:
    """Return by how much the training curve is above the bound, where it is so most; at most 0 if it is nowhere."""
    if content.certificate is None or (curve := content.certificate.curve) is None:
        return 0.0
    found = [0.0]
    for cost, value in zip(content.training_curve.costs, content.training_curve.values, strict=True):
        # a bound holds up to the next cost, that cost included
        before = [v for c, v in zip(curve.costs, curve.values, strict=True) if c < cost] or [curve.values[0]]
        if value is not None and before[-1] is not None:
            found.append(value - before[-1])
    return max(found)


def _notes_on_the_best(content: Content) -> list[str]:
    """Return what a reader must know to read the certificate."""
    if (found := content.certificate) is None:
        return []
    notes = [
        "“How near to the best?” is proven, about the training data and with the ridge penalty: no set of groups that a"
        " budget pays for explains more than the bound. It is about every budget on its own, with the best set for"
        " each; no single order has to reach it. It says nothing about rows that the model has not seen.",
    ]
    if content.left_out:
        notes.append("The bound counts the groups that are not in the sequence, too.")
    if found.curve is not None and content.measure.folds:
        excess = above_bound(content)
        here = f" Here it is, by up to {change(excess, 'percent').removeprefix('+')}." if excess >= VISIBLE else ""
        notes.append(f"The training curve is without the penalty, so it can be above the bound, which has it.{here}")
    return [*notes, *found.notes]


def notes(content: Content) -> list[str]:
    """Return what a reader must know to read the figures."""
    measure = content.measure
    better = "" if measure.greater_is_better else "; less is better"
    found = [
        "A budget between two stages buys the lower one: a group counts from the cost on at which it is paid for.",
        f"Gain and explained (share of the loss of the model before any group: {content.task.loss}) are those of the"
        " training data.",
    ]
    if measure.folds:
        found += [
            f"The cross-validated curve is the mean {measure.label}{better} over {measure.folds} folds; the band is one"
            " standard error on either side. Each fold learns its own order of the groups from its own training rows"
            " and is judged on rows it has not seen. So the band says what this way of learning is worth at a budget,"
            " the choice of the order included, not what this one order is worth.",
            "“Folds that agree” counts the folds that had bought the same group at the same cost: few mean that the"
            " place of the group in the order is uncertain. Standard errors over folds are rough, as folds share rows.",
            f"The training curve is the fitted model, with its own order, on the data given: its {measure.label} is"
            " too good, as the model has seen these rows.",
        ]
    else:
        found.append("All values are of the training data, so they are too good: no data were given to judge it on.")
    if content.comparison is not None:
        found.append(
            f"Timeliness is the mean {measure.label} over all budgets from 0 to the whole cost, spread evenly. All"
            " methods are judged on the same folds; values are mean ± one standard error."
        )
    found += _notes_on_the_best(content)
    if measure.style == "percent":
        found.append("Differences of percentages are in percentage points (pp).")
    for item in content.shared:
        found.append(
            f"{item.name} ({amount(item.cost)} {content.unit}) is paid once, by the first of"
            f" {listed(list(item.groups))}: the cost of a group is what it costs at its place in the order."
        )
    found += [f"{entry.group} requires {listed(list(entry.groups))}." for entry in content.required]
    if content.left_out:
        found.append(f"Not in the sequence, as its limits ended it before them: {', '.join(content.left_out)}.")
    return found
