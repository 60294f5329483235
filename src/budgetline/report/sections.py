"""The figures and tables of a report as plain cells, the same in every rendering."""

from __future__ import annotations

from dataclasses import astuple, dataclass

from budgetline.report.content import CertifiedOrder, ComparedMethods, Content, EffectRecord, KnownBudgets
from budgetline.report.effect_records import caption_of
from budgetline.report.formatting import MOST_LISTED, amount, at_least, change, count, number, share, with_error
from budgetline.report.sentences import about_effects, about_plans, about_thresholds, best_stage, optimality
from budgetline.report.thresholds import Probabilities

COST_UNITS = "cost units"
"""The unit of costs whose unit is not known."""
SHOWN_THRESHOLDS = (0.01, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99)


@dataclass(frozen=True)
class ReportTable:
    """A table of text cells: the columns ``left`` hold words, the others numbers. The first of them names its row."""

    title: str
    intro: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    left: frozenset[int]

    @property
    def named_by(self) -> int:
        """The column that names the rows."""
        return min(self.left)

    def kind(self, column: int) -> str:
        """Return what a column holds: "words" or "num"."""
        return "words" if column in self.left else "num"


def facts(content: Content) -> list[tuple[str, str]]:
    """Return the figures at the top of a report."""
    data = content.data
    counts = {"rows": data.rows, "columns": data.columns, "groups": data.groups, "pairs of columns": data.pairs or None}
    found = [(name, f"{n:,}") for name, n in counts.items() if n is not None]
    unit = "" if content.unit == COST_UNITS else f" in {content.unit}"
    return [*found, (f"total cost{unit}", amount(content.total_cost))]


def tables(content: Content) -> dict[str, ReportTable]:
    """Return the tables by name, in their order."""
    found = {"order": _order(content), "buys": _budgets(content)}
    if content.plans is not None:
        found["plans"] = _plans(content, content.plans)
    if content.probabilities is not None:
        found["thresholds"] = _thresholds(content, content.probabilities)
    if content.effects:
        found["effects"] = _effects(content)
    if content.comparison is not None:
        found["comparison"] = _comparison(content, content.comparison)
    if content.certificate is not None:
        found["optimality"] = _optimality(content, content.certificate)
    return {**found, "details": _details(content)}


def _order(content: Content) -> ReportTable:
    folds = content.measure.folds
    header = ("step", "group", "columns", "cost", "cumulative cost", "added, training", "explained, training")
    rows, before = list[tuple[str, ...]](), 0.0
    for stage in content.sequence:
        cells = (str(stage.step), stage.group, str(stage.columns), amount(stage.cost), amount(stage.cumulative_cost))
        agreement = () if stage.agreement is None else (f"{stage.agreement} of {folds}",)
        added = None if stage.explained is None else stage.explained - before
        rows.append((*cells, change(added, "percent"), share(stage.explained), *agreement))
        before = stage.explained or 0.0
    intro = "The groups in the order in which they are computed, and what each explains in addition to those before it."
    return ReportTable(
        "The order", intro, (*header, "folds that agree") if folds else header, tuple(rows), frozenset({1})
    )


def _budgets(content: Content) -> ReportTable:
    """Return, for every cost, the groups computed, the expected value, and cost and effect of the next group.

    Groups that cost nothing, such as pairs of columns, come with the group before them.
    """
    training, style, label = content.training_curve, content.measure.style, content.measure.label
    judged, rows, last = content.main_curve is not training, list[tuple[str, ...]](), len(content.sequence)
    stages = [0, *(k for k in range(1, last + 1) if k == last or content.sequence[k].cost > 0)]
    for before, k, after in zip([0, *stages], stages, [*stages[1:], last], strict=False):
        earlier = f" and {count(before, 'earlier group')}" if before else ""
        computed = ", ".join(step.group for step in content.sequence[before:k]) + earlier if k else "none"
        expected = (with_error(*content.expected[k], style),) if judged else ()
        following = ("none", "–", "–")
        if k < last:
            step, here, there = content.sequence[k], content.expected[k][0], content.expected[after][0]
            effect = None if here is None or there is None else there - here
            following = (step.group, amount(step.cost), change(effect, style))
        rows.append((amount(training.costs[k]), computed, *expected, number(training.values[k], style), *following))
    header = ("budget from", "groups computed", *((f"{label}, held-out",) if judged else ()))
    names = (f"{label}, training", "next group", "its cost", f"its effect, {content.rows_judged}")
    intro = f"What to expect from each budget in {content.unit}, and what the next group costs and changes."
    left = frozenset({1, len(header) + 1})
    return ReportTable("What each budget buys", intro, (*header, *names), tuple(rows), left)


def _plans(content: Content, found: KnownBudgets) -> ReportTable:
    """Return the sets that differ from what the order buys for the same money, and what to expect of both."""
    style, rows = content.measure.style, []
    for each in found.sets:
        prefix = content.prefix(content.stage_at(each.cost))
        if set(each.groups) != set(prefix):
            known, order = found.curve.at(each.cost), content.main_curve.at(each.cost)
            effect = None if known[0] is None or order[0] is None else known[0] - order[0]
            values = (with_error(*known, style), with_error(*order, style), change(effect, style))
            rows.append((amount(each.cost), _in_terms_of(each.groups, prefix), *values))
    label = f"{content.measure.label}, held-out"
    header = ("budget from", "groups to buy", label, "in order", "difference")
    return ReportTable("If the budget is fixed beforehand", about_plans(content), header, tuple(rows), frozenset({1}))


def _in_terms_of(groups: tuple[str, ...], prefix: tuple[str, ...]) -> str:
    """Return the names of the groups; for many groups, how they differ from the first groups of the order."""
    if len(groups) <= MOST_LISTED:
        return ", ".join(groups) or "none"
    without = [name for name in prefix if name not in groups]
    more = [name for name in groups if name not in prefix]
    changes = (f"without {', '.join(without)}" if without else "", f"with {', '.join(more)}" if more else "")
    return f"the first {len(prefix)} of the order, {', '.join(filter(None, changes))}"


def _thresholds(content: Content, found: Probabilities) -> ReportTable:
    """Return what some thresholds do after the best stage."""
    stage = found.at(best_stage(content)).stage
    rows = []
    for k, threshold in enumerate(found.thresholds):
        if threshold in SHOWN_THRESHOLDS:
            rows.append((f"{100 * threshold:g} %", *map(share, astuple(found.called(stage, k)))))
    values = ("sensitivity", "specificity", "positive predictive value", "negative predictive value")
    header = (f"threshold, with {count(stage, 'group')}", f"rows called {content.task.classes[1]}", *values)
    return ReportTable("Choose a threshold", about_thresholds(content), header, tuple(rows), frozenset({0}))


def _effects(content: Content) -> ReportTable:
    """Return, for every effect, its lowest and its highest value, and where they are."""
    rows, two = [], len(content.task.classes) == 2
    for effect in content.effects:
        ends = (effect.values.index(end(effect.values)) for end in (min, max))
        cells = (cell for k in ends for cell in (number(effect.values[k], "general"), _place(effect, k)))
        rows.append((effect.name if two else caption_of(effect, bool(content.task.classes)), effect.group, *cells))
    lowest, highest = (f", towards {name}" for name in content.task.classes) if two else ("", "")
    header = ("column", "group", f"lowest effect{lowest}", "at", f"highest effect{highest}", "at")
    return ReportTable("What each column does", about_effects(content), header, tuple(rows), frozenset({0, 1, 3, 5}))


def _place(effect: EffectRecord, k: int) -> str:
    """Return the point of the k-th value of an effect as text."""
    places = divmod(k, len(effect.axes[1])) if len(effect.axes) == 2 else (k,)
    return ", ".join(axis.short_labels[place] for axis, place in zip(effect.axes, places, strict=True))


def _comparison(content: Content, found: ComparedMethods) -> ReportTable:
    style = content.measure.style
    budgets = zip(found.shares, found.budgets, strict=True)
    header = ("method", "timeliness", *(f"at {100 * s:g} % ({amount(b)})" for s, b in budgets), "order")
    rows = []
    for method in found.methods:
        values = (with_error(v, e, style) for v, e in zip(method.values, method.errors, strict=True))
        timeliness = with_error(method.timeliness, method.timeliness_error, style)
        rows.append((method.name, timeliness, *values, method.note))
    intro = (
        f"Held-out {content.measure.label} of this model, compared with other ways to order the same groups: the mean"
        " over all budgets (timeliness), and the values at shares of the total cost."
    )
    return ReportTable("Is the order worth it?", intro, header, tuple(rows), frozenset({0, len(header) - 1}))


def _optimality(content: Content, found: CertifiedOrder) -> ReportTable:
    labels = (f"{100 * each.share:g} % ({amount(each.budget)})" for each in found.budgets)
    rows = zip((*labels, "mean over budgets (timeliness)"), (*found.budgets, found.timeliness), strict=True)
    total = f"budget, of {amount(content.total_cost)} {content.unit}"
    header = (total, "explained, training, less penalty", "bound on any set", "certified share of the optimum")
    cells = tuple((where, share(row.achieved), share(row.bound), at_least(row.ratio)) for where, row in rows)
    return ReportTable("How close to optimal?", optimality(found), header, cells, frozenset({0}))


def _details(content: Content) -> ReportTable:
    task, data = content.task, content.data
    target = "frequency of class" if task.classes else "target"
    rows = (
        ("task", f"{task.kind}, {len(task.classes)} classes" if task.classes else task.kind),
        ("loss", task.loss),
        ("rows", "unknown" if data.rows is None else f"{data.rows:,}" + (" (weighted)" if data.weighted else "")),
        *((f"{target} {entry.name}", number(entry.value, "general")) for entry in data.target),
        ("estimator", task.estimator),
        *((setting.name, setting.value) for setting in content.settings if setting.name != "loss"),
        ("budgetline", f"{content.version}, {content.date}"),
    )
    return ReportTable("Data and settings", "", ("item", "value"), rows, frozenset({0, 1}))
