"""The sentences of a report, the same in every rendering."""

from __future__ import annotations

import numpy as np

from budgetline.budgets import affordable
from budgetline.evaluation import BudgetCurve, stopping_cost
from budgetline.report.content import CertifiedOrder, Content, ReportCurve
from budgetline.report.formatting import amount, at_least, change, count, listed, number, with_error

ENOUGH = 0.8
"""The headline is about the first cost that buys this share of the improvement."""
FROM_SHARE = 0.1
"""The sentence about the optimum is about this share of the total cost, or the next at which anything is explained."""
VISIBLE = 5e-4
"""Smaller differences of shares do not show with one decimal of a percentage."""


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
    until = best_stage(content) + 1
    values = [value for value, _ in content.expected[:until]]
    if None in values:
        return None
    better = content.measure.greater_is_better
    curve = BudgetCurve(np.array(content.training_curve.costs[:until]), np.array(values), greater_is_better=better)
    gains = curve.improvement()
    if not gains[-1] > 0:
        return None
    stage = int(affordable(curve.costs, stopping_cost(curve, ENOUGH))) - 1
    return stage, float(gains[stage] / gains[-1])


def bought_after(content: Content, stage: int) -> int:
    """Return how many groups are bought up to a stage; a pair of columns comes for nothing, and is not counted."""
    return sum(step.columns > 0 for step in content.sequence[:stage])


def headline(content: Content) -> str:
    """Return the sentence to remember."""
    total, stages, found = f"{amount(content.total_cost)} {content.unit}", len(content.sequence), enough(content)
    if not stages:
        return "No group was bought: the model uses no features."
    best, rows, label = best_stage(content), content.rows_judged, content.measure.label
    if found is None:
        return f"{total} buy no measurable improvement in {rows} {label}."
    if content.total_cost == 0:
        return "Every group is free: there is nothing to decide."
    stage, part = found
    if stage == stages:
        return f"It takes all {total} to get most of the {rows} improvement."
    cost = f"{amount(content.training_curve.costs[stage])} of {total}"
    if stage == best:
        return f"{cost} buy the best {rows} {label}, then it gets worse."
    bought = f"{100 * part:.0f} % of the {rows} improvement from"
    if part >= 0.995:
        bought = f"at least as much {rows} improvement as"
    n_best = bought_after(content, best)
    whole = f"all {n_best} groups" if best == stages else f"the first {n_best} groups, then it gets worse"
    return f"{cost} buy {bought} {whole}."


def subline(content: Content) -> str:
    """Return the sentence that supports the headline with values of the metric."""
    style, stages, found = content.measure.style, len(content.sequence), enough(content)
    parts = [f"{number(content.expected[0][0], style)} with no groups"]
    if found is not None and found[0] < stages:
        names = [stage.group for stage in content.sequence[: found[0]]]
        parts.append(f"{with_error(*content.expected[found[0]], style)} with {listed(names)}")
    if stages:
        every = bought_after(content, stages)
        after = "its one group" if every == 1 else f"all {every} groups"
        parts.append(f"{with_error(*content.expected[-1], style)} with {after}")
    return f"{content.rows_judged.capitalize()} {content.measure.label} is {', '.join(parts)}."


def warning(content: Content) -> str:
    """Return a sentence if the held-out quality falls with more groups, by more than a standard error; else nothing."""
    best, last, style = best_stage(content), len(content.sequence), content.measure.style
    if best == last:
        return ""
    first, then = (with_error(*content.expected[k], style) for k in (best, last))
    cost = content.training_curve.costs[best]
    enough_money = amount(cost if float(amount(cost)) >= cost else cost * (1 + 1e-5))
    advice = f"Stop at a budget of {enough_money}, or fit again with max_cost={enough_money}" if best else "Buy none"
    label, (few, every) = content.measure.label, (bought_after(content, k) for k in (best, last))
    values = f"held-out {label} is {first} with {count(few, 'group')} and {then} with all {every}"
    return f"More groups make it worse: {values}. {advice}."


def optimality(found: CertifiedOrder) -> str:
    """Return the sentences that say how close the order is to optimal."""
    there = next((each for each in found.budgets if each.share >= FROM_SHARE and each.achieved > 0), None)
    if there is None:
        return "The order explains nothing measurable."
    certified, timely = at_least(there.ratio), at_least(found.timeliness.ratio)
    reached = "is optimal" if certified == at_least(1.0) else f"reaches at least {certified} of the optimum"
    first = f"At {100 * there.share:g} % of the cost, the order {reached} on the training data."
    return f"{first} Averaged over all budgets, it reaches at least {timely} of what the best order could."


def notes(content: Content) -> list[str]:
    """Return what a reader needs to know to read the figures."""
    found = [
        "A group counts once the budget pays for it in full: all curves are step functions.",
        f"“Explained” is the share of the {content.task.loss} that the groups remove, compared with the model without"
        " groups. It does not count the ridge penalty of the fit.",
        *_notes_on_curves(content),
        *_notes_on_plans(content),
        *_notes_on_bounds(content),
    ]
    if content.measure.style == "percent":
        found.append("Differences between percentages are in percentage points (pp).")
    for item in content.shared:
        cost = f"{amount(item.cost)} {content.unit}"
        found.append(f"{item.name} ({cost}) is paid once, by the first of {listed(item.groups)}.")
    if content.shared:
        found.append("With shared costs, the cost of a group depends on its place in the order.")
    found += [f"{entry.group} requires {listed(entry.groups)}." for entry in content.required]
    if content.data.pairs:
        found.append("A group with × in its name is a pair of columns. It costs nothing once both columns are bought.")
    if content.left_out:
        found.append(f"Not in the order, which ended before them: {', '.join(content.left_out)}.")
    return found


def about_effects(content: Content) -> str:
    """Return what the pictures of effects show."""
    score = "the prediction"
    if len(content.task.classes) == 2:
        score = f"the score (above 0: class {content.task.classes[1]})"
    elif content.task.classes:
        score = "the scores of the classes (the largest wins)"
    elif content.task.loss != "squared error":
        score = "the score that the prediction is computed from"
    found = (
        f"What each column adds to {score} when all groups are bought. Numbers have a curve, with marks where the data"
        " are. Categories have bars, and pairs of columns have shades. Every effect has mean 0 over the training data."
    )
    if len(content.effects) < content.effects_in_all:
        found += f" These are the {len(content.effects)} effects with the largest range, of {content.effects_in_all:,}."
    return found


def about_thresholds(content: Content) -> str:
    """Return how to read a table of thresholds."""
    other, positive = content.task.classes
    return (
        f"The model predicts the probability of class {positive}. Rows at or above the threshold are called {positive},"
        f" the others {other}. Sensitivity is the share of rows of class {positive} that are called {positive};"
        f" specificity is the share of rows of class {other} that are called {other}. The positive predictive value is"
        f" the share of rows called {positive} that are {positive}; the negative predictive value is the share of rows"
        f" called {other} that are {other}. All rows are held-out: the models did not learn from them."
    )


def about_plans(content: Content) -> str:
    """Return what sets for known budgets are, and how to read their table."""
    return (
        "The order suits every budget, because it can stop anywhere. If the budget is fixed before the first group is"
        " computed, another set of groups can be better. These sets explain more of the training data than the groups"
        f" that the order buys for the same {content.unit}. All values are held-out. Each row holds up to the next, or"
        " up to a budget from which the order explains more."
    )


def _notes_on_plans(content: Content) -> list[str]:
    if (found := content.plans) is None:
        return []
    refitted = "" if content.task.loss == "squared error" else " Their models are approximations, not refits."
    return [
        f"Sets for a fixed budget come from a short search at {count(len(found.budgets), 'budget')}, once for the model"
        " of each fold, evaluated on its held-out rows. A budget between two of these buys the set of the lower one, or"
        f" what the order buys.{refitted} Nothing is proven about these sets: model.plan(budget), or budgetline plan,"
        " searches longer."
    ]


def _notes_on_curves(content: Content) -> list[str]:
    measure = content.measure
    if not measure.folds:
        return [
            "All values are optimistic: they are about the training data, because no data were given to validate on."
        ]
    better = "" if measure.greater_is_better else " (lower is better)"
    made = f" ({measure.folds_made})" if measure.folds_made else ""
    found = [
        f"The held-out curve is the mean {measure.label}{better} over {measure.folds} folds{made}; the band"
        " is ± one standard error. Each fold learns its own order from its training rows and is evaluated on the"
        " others. So the curve is about the whole procedure, including the choice of the order, not this one order.",
        "“Folds that agree” counts the folds that bought the group by the same cost. If it is low, the place of the"
        " group in the order is uncertain. Standard errors over folds are approximate, because folds share rows.",
        f"The training curve is this model on the rows it learned from: its {measure.label} is optimistic.",
    ]
    if content.comparison is not None:
        found.append(
            f"Timeliness is the mean {measure.label} over all budgets from 0 to the total cost. All methods use the"
            " same folds. Values are means ± one standard error."
        )
    return found


def _notes_on_bounds(content: Content) -> list[str]:
    if (found := content.certificate) is None:
        return []
    notes = [
        "The bounds in “How close to optimal?” are proven for the training data, less the ridge penalty: no set of"
        " groups within the budget explains more. Each budget has its own best set, so no single order has to reach"
        " all bounds. The bounds are not about new rows."
    ]
    if content.left_out:
        notes.append("The bounds also cover sets with groups that are not in the sequence.")
    if found.curve is not None:
        excess = _above(content.training_curve, found.curve)
        here = f" Here it does, by up to {change(excess, 'percent').removeprefix('+')}." if excess >= VISIBLE else ""
        notes.append(f"The training curve omits the penalty, so it can exceed the bound, which includes it.{here}")
    return [*notes, *found.notes]


def _above(curve: ReportCurve, bound: ReportCurve) -> float:
    """Return how far a curve exceeds a bound at most; 0 if it never does."""
    holding = np.maximum(np.searchsorted(bound.costs, curve.costs, side="left") - 1, 0)  # up to the next cost
    excess = np.array(curve.values, dtype=np.float64) - np.array(bound.values, dtype=np.float64)[holding]
    return float(np.nanmax(excess, initial=0.0))
