"""Numbers and sentences of a report, the same in every rendering."""

from __future__ import annotations

import numpy as np

from budgetline.evaluation import BudgetCurve, stopping_cost
from budgetline.report.content import CROSS_VALIDATED, Content

UNKNOWN = "–"
ENOUGH = 0.8
"""The headline tells the first cost at which this share of the whole improvement is reached."""
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
    if measure.style == "percent":
        found.append("Differences of percentages are in percentage points (pp).")
    if content.left_out:
        found.append(f"Not in the sequence, as its limits ended it before them: {', '.join(content.left_out)}.")
    return found
