"""The sentences at the top of a report, and the notes on all of it, the same in every rendering."""

from __future__ import annotations

import numpy as np

from budgetline.budgets import affordable
from budgetline.evaluation import BudgetCurve, stopping_cost
from budgetline.report.content import Content
from budgetline.report.formatting import amount, count, listed, number, with_error

ENOUGH = 0.8
"""The headline names the first cost that buys this share of the improvement."""
HEADLINE = (
    f"The headline names the smallest budget that buys at least {100 * ENOUGH:.0f} % of the improvement that all groups"
    " of the order bring, or that the best budget brings if more groups make predictions worse."
)
ON_CURVES = (
    "The held-out curve is the mean {label}{better} over {folds} folds{made}; the band is ± one standard error."
    " In each fold, an order is learned from the training rows and evaluated on the other rows. The curve therefore"
    " describes the whole procedure, including the choice of the order, rather than this one order.",
    "Settings that were chosen by cross-validation are the same in every fold. The held-out values of that"
    " cross-validation, such as `budgetline fit` prints, differ a little: its folds may hold other rows, and share one"
    " encoding of the columns, whereas here each fold learns its own.",
    "Standard errors over folds are approximate, because the folds share training rows.",
    "The training curve evaluates this model on the rows on which it was trained, so its {label} is optimistic.",
)
NO_DATA = (
    "All values are optimistic: they refer to the training data, because no data were provided for cross-validation."
)


def best_stage(content: Content) -> int:
    """Return the best held-out stage if the last is worse by more than its standard error, else the last."""
    sign = 1.0 if content.measure.greater_is_better else -1.0
    known = {k: sign * value for k, (value, _) in enumerate(content.expected) if value is not None}
    last, error = len(content.sequence), content.expected[-1][1]
    if last not in known or error is None:
        return last
    best = max(known, key=lambda k: known[k])
    return best if known[best] > known[last] + error else last


def enough(content: Content) -> tuple[int, float] | None:
    """Return the first stage with most of the improvement that the best one brings, and its share of it.

    None if nothing improves.
    """
    until, better = best_stage(content) + 1, content.measure.greater_is_better
    values = [value for value, _ in content.expected[:until]]
    if None in values:
        return None
    curve = BudgetCurve(np.array(content.training_curve.costs[:until]), np.array(values), greater_is_better=better)
    gains = curve.improvement()
    if not gains[-1] > 0:
        return None
    stage = int(affordable(curve.costs, stopping_cost(curve, ENOUGH))) - 1
    return stage, float(gains[stage] / gains[-1])


def _every_group(content: Content) -> str:
    """Return words for all groups of the order, which may end before some groups."""
    every = content.bought_after(len(content.sequence))
    return ("its one group" if every == 1 else f"all {every} groups") + " of the order" * bool(content.left_out)


def headline(content: Content) -> str:
    """Return the sentence to remember."""
    total, stages, found = f"{amount(content.total_cost)} {content.unit}", len(content.sequence), enough(content)
    if not stages:
        return "No group was bought: the model uses no features."
    best, rows, label = best_stage(content), content.rows_evaluated, content.measure.label
    if found is None:
        return f"{total} buy no measurable improvement in {rows} {label}."
    if content.total_cost == 0:
        return "Every group is free: there is nothing to decide."
    stage, part = found
    if stage == stages:
        return f"It takes all {total} to get most of the {rows} improvement in {label}."
    cost = content.training_curve.costs[stage]
    bought = f"{amount(cost)} of {total} buy" if cost else "The free groups alone give"
    if stage == best:
        return f"{bought} the best {rows} {label}; more groups make it worse."
    much = f"{100 * part:.0f} % of the {rows} improvement in {label} from"
    if part >= 0.995:
        much = f"at least as much {rows} improvement in {label} as"
    first = f"the first {count(content.bought_after(best), 'group')}; more groups make it worse"
    every = _every_group(content) + f", which cost {total}" * (not cost)
    return f"{bought} {much} {every if best == stages else first}."


def subline(content: Content) -> str:
    """Return the sentence that supports the headline with values of the metric."""
    style, stages, found = content.measure.style, len(content.sequence), enough(content)
    parts = [f"{number(content.expected[0][0], style)} with no groups"]
    if found is not None and found[0] < stages:
        names = [stage.group for stage in content.sequence[: found[0]]]
        parts.append(f"{with_error(*content.expected[found[0]], style)} with {listed(names)}")
    if stages:
        parts.append(f"{with_error(*content.expected[-1], style)} with {_every_group(content)}")
    *first, last = parts
    values = f"{', '.join(first)}, and {last}" if first else last
    return f"{content.rows_evaluated.capitalize()} {content.measure.label} is {values}."


def warning(content: Content) -> str:
    """Return what is wrong with the data or with the last groups, "" if nothing is."""
    return " ".join(filter(None, (content.other_data, _worse_with_more(content))))


def _worse_with_more(content: Content) -> str:
    """Return a sentence if the held-out quality falls with more groups, by more than a standard error; else nothing."""
    best, last, style = best_stage(content), len(content.sequence), content.measure.style
    if best == last:
        return ""
    first, then = (with_error(*content.expected[k], style) for k in (best, last))
    cost = content.training_curve.costs[best]
    enough_money = amount(cost if float(amount(cost)) >= cost else cost * (1 + 1e-5))
    advice = f"Stop at a budget of {enough_money}, or fit again with max_cost={enough_money}" if best else "Buy none"
    label, (few, every) = content.measure.label, map(content.bought_after, (best, last))
    values = f"held-out {label} is {first} with {count(few, 'group')} and {then} with all {every}"
    return f"More groups make predictions worse: {values}. {advice}."


def notes(content: Content) -> list[str]:
    """Return what a reader needs to know to read the figures, besides the notes of the sections."""
    measure = content.measure
    found = [
        "A group counts only once the budget pays for it in full, so all curves are step functions.",
        f"“Explained” is the share of the {content.task.loss} that the groups remove, compared with the model without"
        " groups. It does not include the ridge penalty of the fit.",
    ]
    if content.total_cost and enough(content):
        found.append(HEADLINE)
    if measure.style == "percent":
        found.append("Differences between percentages are in percentage points (pp).")
    if not measure.folds:
        return [*found, NO_DATA]
    better = "" if measure.greater_is_better else " (lower is better)"
    made = f" ({measure.folds_made})" if measure.folds_made else ""
    named = {"label": measure.label, "better": better, "folds": measure.folds, "made": made}
    true = ON_CURVES[:-1] if content.other_data else ON_CURVES
    return [*found, *(text.format(**named) for text in true)]
