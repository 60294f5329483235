"""The paper's protocol on real data with real costs: which of its findings hold.

``python experiments/real.py --write docs/results/real.md`` (about 7 minutes on two cores); ``--quick`` runs a tiny
version. Every sentence about who wins is computed from the numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from matplotlib.figure import Figure
from page import BLACK, GREY, Page, draw_curves, panels, run
from paper_curves import oracle_curve, plateau
from sklearn.model_selection import RepeatedKFold, RepeatedStratifiedKFold
from sklearn.utils import Bunch
from tables import verdict

from budgetline import AnytimeClassifier, AnytimeRegressor, BudgetCurve, FixedOrder, GroupLassoPath, compare, timeliness
from budgetline.datasets import load_heart, load_mfeat, load_nhanes, load_thyroid
from budgetline.sequencing import RandomOrder

RULES: dict[str, dict[str, Any]] = {
    "CS-G-FR": {"rule": "forward"},
    "CS-G-OMP": {"rule": "omp"},
    "Score": {"rule": "score"},
    "No-Whiten": {"rule": "no-whiten"},
    "Single": {"rule": "single"},
    "G-OMP": {"rule": "omp", "cost_sensitive": False},
}
FINDINGS = {
    "FR > OMP": ("CS-G-FR", "CS-G-OMP"),
    "OMP > G-OMP (costs matter)": ("CS-G-OMP", "G-OMP"),
    "OMP > No-Whiten (whitening matters)": ("CS-G-OMP", "No-Whiten"),
    "OMP > Single (the whole group matters)": ("CS-G-OMP", "Single"),
    "OMP > Sparse": ("CS-G-OMP", "Sparse"),
    "FR within 1 % of its Oracle": ("CS-G-FR", "FR Oracle"),
    "FR > cheapest first (beyond the paper)": ("CS-G-FR", "Cheapest first"),
    "FR > random (beyond the paper)": ("CS-G-FR", "Random"),
}
SAYING = {"holds": "holds", "undecided": "is undecided", "does not hold": "does not hold"}
INTERPOLATIONS = {
    "linear": "linear interpolation, up to the stopping cost (as in the paper)",
    "step": "step interpolation, up to the stopping cost",
    "all": "step interpolation, up to the total cost",
}
DRAWN = ("CS-G-FR", "CS-G-OMP", "Single", "No-Whiten", "G-OMP", "Sparse", "Cheapest first")


@dataclass(frozen=True)
class Task:
    """Data, how they are predicted, the ridge constant, and how often they are cut into folds."""

    name: str
    key: str
    load: Callable[[], Bunch]
    classes: bool
    unit: str
    alpha: float = 1e-2
    repeats: int = 4


@dataclass(frozen=True)
class Effort:
    """How much to run: tasks, at most so many repeats, folds, random orders, and every ``thin``-th row."""

    tasks: tuple[str, ...] | None = None
    repeats: int = 10
    folds: int = 5
    orders: int = 5
    thin: int = 1


QUICK = Effort(tasks=("nhanes", "heart", "mfeat"), repeats=1, folds=2, orders=2, thin=8)


def indicators(load: Callable[[], Bunch]) -> Callable[[], Bunch]:
    """Return data whose target is one 0/1 column per class, for squared loss; the classes stay as ``labels``."""

    def loaded() -> Bunch:
        data = load()
        labels = data.target
        return Bunch(**{**data, "target": (labels[:, None] == np.unique(labels)).astype(float), "labels": labels})

    return loaded


def equal_costs() -> Bunch:
    """Return mfeat at a cost of 1 per family."""
    data = indicators(load_mfeat)()
    return Bunch(**{**data, "feature_groups": data.feature_groups.with_costs(np.ones(6))})


TASKS = (
    Task("NHANES", "nhanes", load_nhanes, False, "inconvenience"),
    Task("NHANES without DIQ", "nhanes_without_diq", lambda: load_nhanes(drop=("DIQ",)), False, "inconvenience"),
    Task("heart (logistic)", "heart", load_heart, True, "Canadian dollars", repeats=10),
    Task("heart (squared)", "heart_squared", indicators(load_heart), False, "Canadian dollars", repeats=10),
    Task("thyroid (softmax)", "thyroid", load_thyroid, True, "Canadian dollars", alpha=1e-4, repeats=2),
    Task("thyroid (squared)", "thyroid_squared", indicators(load_thyroid), False, "Canadian dollars", alpha=1e-4),
    Task("mfeat (1 per feature)", "mfeat", indicators(load_mfeat), False, "features"),
    Task("mfeat (1 per family)", "mfeat_equal", equal_costs, False, "families"),
)


class SparseOrder(AnytimeClassifier):
    """Classifiers in the order of a cost-weighted group lasso, by squared error on one indicator per class."""

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Find the order, then fit the model of every prefix."""
        classes = (np.asarray(y)[:, None] == np.unique(y)).astype(float)
        path = GroupLassoPath(self.feature_groups, alpha=self.alpha).fit(X, classes)
        self.schedule = FixedOrder(path.order_)
        return super().fit(X, y, sample_weight)


# -- measurements ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Result:
    """One task: timeliness (folds,) by interpolation and method, mean curves, α, stopping cost, error factor."""

    task: Task
    shape: tuple[int, int, int]
    draws: dict[str, dict[str, np.ndarray]]
    curves: dict[str, BudgetCurve]
    fraction: float
    stop: float
    factor: float
    folds: int

    def error(self, gap: np.ndarray) -> float:
        """Return the standard error of a mean over folds, corrected for their shared training rows."""
        return float(gap.std(ddof=1) * self.factor)

    def gap(self, interpolation: str, above: str, below: str) -> np.ndarray:
        """Return paired differences, fold by fold."""
        draws = self.draws[interpolation]
        allowed = 0.99 if below == "FR Oracle" else 1.0
        return np.asarray(draws[above] - allowed * draws[below])


def estimators(task: Task, data: Bunch, orders: int) -> dict[str, Any]:
    """Return all methods for one task."""
    kind, sparse = (AnytimeClassifier, SparseOrder) if task.classes else (AnytimeRegressor, GroupLassoPath)
    groups = data.feature_groups
    rules = {m: p for m, p in RULES.items() if task.classes or m != "Score"}
    found: dict[str, Any] = {m: kind(groups, alpha=task.alpha, **p) for m, p in rules.items()}
    found["Sparse"] = (
        sparse(groups, alpha=task.alpha) if not task.classes else sparse(groups, alpha=task.alpha, rule="omp")
    )
    listed = FixedOrder(np.argsort(groups.costs, kind="stable"))  # of equal costs the first listed
    found["Cheapest first"] = kind(groups, alpha=task.alpha, rule="omp", schedule=listed)
    for seed in range(orders):
        found[f"Random {seed}"] = kind(groups, alpha=task.alpha, rule="omp", schedule=RandomOrder(seed))
    return found


def measure(task: Task, effort: Effort) -> Result:
    """Compare all methods on one task."""
    data = task.load()
    X, y = data.data[:: effort.thin], data.target[:: effort.thin]
    labels = data.get("labels", data.target)[:: effort.thin]
    repeats = min(task.repeats, effort.repeats)
    stratified = task.classes or "labels" in data
    splitter = (RepeatedStratifiedKFold if stratified else RepeatedKFold)(
        n_splits=effort.folds, n_repeats=repeats, random_state=0
    )
    methods = estimators(task, data, effort.orders)
    fraction = plateau(methods["CS-G-OMP"].fit(X, y))
    cv = list(splitter.split(X, labels))
    reference = {"CS-G-OMP": methods["CS-G-OMP"]}  # it sets the stopping costs
    found = compare(reference | methods, X, y, cv=cv, fraction=fraction, interpolation="linear")
    stops = np.array([row["stop_cost"] for row in found.rows if row["method"] == "CS-G-FR"])
    curves = {m: c for m, c in found.curves.items() if not m.startswith("Random")}
    curves["FR Oracle"] = BudgetCurve.mean([oracle_curve(curve) for curve in curves["CS-G-FR"].folds])
    draws: dict[str, dict[str, np.ndarray]] = {interpolation: {} for interpolation in INTERPOLATIONS}
    for name, curve in (*curves.items(), *((m, c) for m, c in found.curves.items() if m.startswith("Random"))):
        evaluated = list(zip(curve.folds, stops, strict=True))
        draws["linear"][name] = np.array([timeliness(c, stop, interpolation="linear") for c, stop in evaluated])
        draws["step"][name] = np.array([timeliness(c, stop, interpolation="step") for c, stop in evaluated])
        draws["all"][name] = np.array([timeliness(c, interpolation="step") for c in curve.folds])
    for by_method in draws.values():
        by_method["Random"] = np.mean([by_method.pop(f"Random {seed}") for seed in range(effort.orders)], axis=0)
    shape = (*X.shape, len(data.feature_groups))
    factor = float(np.sqrt(1 / len(cv) + 1 / (effort.folds - 1)))
    return Result(task, shape, draws, curves, fraction, float(stops.mean()), factor, len(cv))


# -- the page ----------------------------------------------------------------------------------------------------


def figure(result: Result) -> Figure:
    """Draw curves, and the timeliness of all methods relative to FR."""
    picture, (left, right) = panels(2, height=3.5)
    curves = {m: result.curves[m] for m in DRAWN}
    # standard errors of curves would hide the curves; the right panel has errors
    plain = {m: BudgetCurve(c.costs, c.values) for m, c in curves.items()}
    draw_curves(left, plain, float(next(iter(curves.values())).total_cost), steps=True)
    left.axvline(result.stop, color=GREY, linewidth=0.8)
    left.set(title=result.task.name, xlabel=f"cost ({result.task.unit})", ylabel="explained, held-out, F/R(∅)")
    low = min(0.0, *(float(np.quantile(c.values, 0.02)) for c in plain.values()))
    left.set_ylim(low, None)
    left.legend(loc="best", ncols=2, fontsize=8)
    draws = result.draws["linear"]
    names = [m for m in draws if m != "CS-G-FR"][::-1]
    for k, name in enumerate(names):
        gap = draws[name] - draws["CS-G-FR"]
        right.errorbar(gap.mean(), k, xerr=2 * result.error(gap), fmt="o", markersize=4, color=BLACK, capsize=2)
    right.axvline(0, color=GREY, linewidth=0.8)
    right.set_yticks(range(len(names)), names)
    right.set(
        title="Timeliness against CS-G-FR, ± 2 s.e.", xlabel=f"difference, up to the {result.fraction:g}-stopping cost"
    )
    return picture


def method_table(result: Result) -> list[str]:
    """Return timeliness with all interpolations and stops."""
    lines = [f"| method | {' | '.join(INTERPOLATIONS.values())} |", "|---" * (1 + len(INTERPOLATIONS)) + "|"]
    for name in result.draws["linear"]:
        cells = [f"{d[name].mean():.4f} ± {result.error(d[name]):.4f}" for d in result.draws.values()]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return lines


def finding_table(results: list[Result], interpolation: str) -> list[str]:
    """Return a verdict per finding and data set."""
    lines = [f"| finding | {' | '.join(r.task.name for r in results)} |", "|---" * (1 + len(results)) + "|"]
    for finding, (above, below) in FINDINGS.items():
        gaps = [(r, r.gap(interpolation, above, below)) for r in results]
        lines.append(f"| {finding} | {' | '.join(verdict(gap, r.error(gap)) for r, gap in gaps)} |")
    return lines


def summary(results: list[Result], interpolation: str) -> list[str]:
    """Return on which data sets each finding holds."""
    lines = []
    for finding, (above, below) in FINDINGS.items():
        names: dict[str, list[str]] = {word: [] for word in (*SAYING, "equal")}
        for r in results:
            gap = r.gap(interpolation, above, below)
            names[verdict(gap, r.error(gap)).split("**")[1]].append(r.task.name)
        said = [f"{SAYING[k]} on {in_words(names[k], 'or' if 'not' in k else 'and')}." for k in SAYING if names[k]]
        equal = f" The two methods are equal on {in_words(names['equal'])}." if names["equal"] else ""
        lines.append(f"- **{finding}** {' It '.join(said)}{equal}")
    return lines


def in_words(names: list[str], word: str = "and") -> str:
    """Write names with commas and an "and" or another word."""
    *most, last = names
    return f"{', '.join(most)} {word} {last}" if most else last


HEAD = """\
# The paper's protocol on real data

Made by `python experiments/real.py --write docs/results/real.md`.

On NHANES, the target is HbA1c, and the costs are published inconvenience scores. The costs of heart and thyroid are
Turney's prices in Canadian dollars. **mfeat has no published costs**: its costs of 1 per feature or 1 per family are
made up and do not reflect real prices.

Timeliness is the mean of the held-out explained fraction F/R(∅) over budgets up to a stopping cost. For classifiers
(logistic, softmax), F/R(∅) is the explained fraction of the deviance. With squared loss, classification targets are
0/1 indicators of the classes, and F/R(∅) is the explained fraction of the variance.

The stopping cost is the cost at which CS-G-OMP has reached a fraction α of its final training objective, where α is the
start of the plateau, found by the paper's rule on all rows. Linear interpolation connects the points of a curve with
straight lines, as in the paper. Step interpolation counts a group only once it has been paid for, as in practice.

Sparse is the cost-weighted group lasso with refitted models; for classifiers, its order comes from squared error.
Cheapest first buys groups in order of increasing cost, and groups of equal cost in the order in which the table lists
them. Random is the mean over several random orders. FR Oracle sorts the steps of FR's held-out curve by gain per cost,
as if they could be reordered. It is not an upper bound, and noise in the held-out curve makes it look too good. The
ridge constant `alpha` is fixed and the same for all methods. Score, the rule based on one Newton step, is not shown for
squared loss, because there it is identical to FR.

Standard errors are corrected for repeated cross-validation, as Nadeau and Bengio propose: they are √(1/m + 1/(k − 1))
times the standard deviation over the m folds of repeated k-fold cross-validation. Because folds share training rows,
the usual standard error would be too small. Differences are paired, fold by fold.

A finding "holds" if the difference in the expected direction exceeds two standard errors, and it "does not hold" if the
difference in the opposite direction does. Otherwise, it is "undecided". Two methods are "equal" if they do not differ
on any fold.
"""


def report(effort: Effort) -> Page:
    """Run everything."""
    results = [measure(task, effort) for task in TASKS if effort.tasks is None or task.key in effort.tasks]
    page = Page([HEAD, "## Which findings hold", "", f"These are the findings with {INTERPOLATIONS['linear']}:", ""])
    page.add(*summary(results, "linear"), "")
    for interpolation, title in INTERPOLATIONS.items():
        page.add(f"### {title[0].upper()}{title[1:]}", "", *finding_table(results, interpolation), "")
    for r in results:
        rows, columns, groups = r.shape
        page.add(
            f"## {r.task.name}",
            "",
            f"There are {rows:,} rows, {columns} columns in {groups} groups, and {r.folds} folds. With α = "
            f"{r.fraction:g}, the mean stopping cost is {r.stop:.4g} out of a total of "
            f"{r.curves['CS-G-FR'].total_cost:.4g} ({r.task.unit}). The ridge constant is {r.task.alpha:g}.",
            "",
        )
        page.show(f"real_{r.task.key}", figure(r), f"{r.task.name}: curves and timeliness")
        page.add(*method_table(r), "")
    return page


if __name__ == "__main__":
    run(report, Effort(), QUICK, __doc__)
