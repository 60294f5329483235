"""Quality at equal budget: budgetline and what people would use instead, on real data with real costs.

``python experiments/quality.py --write docs/results/quality.md`` takes more than 20 minutes with all the peers of
``make peers``; ``--quick`` runs a tiny version. Every sentence about which method is better is computed from the
numbers.
"""

from __future__ import annotations

import importlib.util
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from page import BLUE, GREY, ORANGE, RED, Page, panels, run
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import RepeatedKFold, RepeatedStratifiedKFold
from sklearn.utils import Bunch

from budgetline.datasets import load_heart, load_mfeat, load_nhanes, load_thyroid

sys.path.append(str(Path(__file__).resolve().parents[1] / "benchmarks"))
from peers.choices import ORDERS, SETS, SINGLE_TARGET, Training, boosted, filled, prefix, shuffled

SHARES = (0.10, 0.25, 0.50)
RANDOM, TREES = "random", "LightGBM CEGB"
PAPER, ORDER, PLAN, LIMITED, BEST = "forward", "forward, by CV", "plan, by CV", "forward with max_cost", "best set"
OURS = (PAPER, ORDER, "omp", "score", PLAN, LIMITED, BEST)


@dataclass(frozen=True)
class Task:
    """Data, the metric, whether the model is logistic (else ridge), the ridge constant, and repeats of the folds."""

    name: str
    load: Callable[[], Bunch]
    metric: str
    classes: bool
    alpha: float
    repeats: int


# The ridge constants are those of real.py and classification.py: fixed, not tuned.
TASKS = (
    Task("NHANES", load_nhanes, "R²", False, 1e-2, 2),
    Task("NHANES without DIQ", lambda: load_nhanes(drop=("DIQ",)), "R²", False, 1e-2, 2),
    Task("heart", load_heart, "AUC", True, 1e-2, 10),
    Task("thyroid", load_thyroid, "AUC", True, 1e-4, 2),
    Task("mfeat", load_mfeat, "accuracy", False, 1e-2, 2),
)


@dataclass(frozen=True)
class Effort:
    """How much to run: at most so many repeats, folds, random orders; trees; every ``thin``-th row; seconds."""

    tasks: tuple[str, ...] = tuple(task.name for task in TASKS)
    repeats: int = 10
    folds: int = 5
    orders: int = 10
    tradeoffs: int = 5
    rounds: int = 50
    thin: int = 1
    seconds: float = 3.0


QUICK = Effort(
    tasks=("NHANES without DIQ", "heart"), repeats=1, folds=2, orders=2, tradeoffs=2, rounds=3, thin=8, seconds=0.2
)


# -- one fold --------------------------------------------------------------------------------------------------


@dataclass
class Fold:
    """One split: standardised columns with groups as neighbours, and the scores of sets of groups, kept."""

    train: Training
    held: np.ndarray
    truth: np.ndarray
    metric: str
    known: dict[frozenset[int], tuple[float, float]] = field(default_factory=dict)

    def score(self, groups: list[int]) -> float:
        """Refit on these groups, the same way for every method, and score it on the held-out rows."""
        return self.scores(groups)[0]

    def scores(self, groups: list[int]) -> tuple[float, float]:
        """Return the metric on the held-out rows and on the training rows."""
        key = frozenset(groups)
        if key not in self.known:
            columns = np.flatnonzero(np.isin(self.train.problem.labels, list(key)))
            found = self.predict(columns, self.held), self.predict(columns, self.train.A)
            self.known[key] = self.evaluate(found[0]), self.evaluate(found[1], self.train.y)
        return self.known[key]

    def predict(self, columns: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """Return numbers, or probabilities of the classes."""
        train, held = self.train, rows[:, columns]
        A, y = train.A[:, columns], train.y
        if train.classes:
            if not columns.size:
                return np.tile(np.unique(y, return_counts=True)[1] / len(y), (len(held), 1))
            # C as in the objective: the mean loss plus alpha/2 ‖w‖².
            model = LogisticRegression(C=1 / (train.alpha * len(y)), tol=1e-6, max_iter=5000).fit(A, y)
            return np.asarray(model.predict_proba(held))
        T = train.numbers
        w = np.linalg.solve(A.T @ A / len(y) + train.alpha * np.eye(columns.size), A.T @ T / len(y))
        return np.asarray(held @ w + self.means)

    @property
    def means(self) -> np.ndarray:
        """Means of the columns of numbers that encode the target."""
        y = self.train.y
        return np.array([y.mean()]) if y.dtype.kind == "f" else np.unique(y, return_counts=True)[1] / len(y)

    def evaluate(self, predicted: np.ndarray, truth: np.ndarray | None = None) -> float:
        """Return the metric of predictions, for the held-out rows unless ``truth`` is given."""
        y = self.truth if truth is None else truth
        if self.metric == "R²":
            return float(1 - np.mean((y - predicted.ravel()) ** 2) / y.var())
        classes = np.unique(self.train.y)
        if self.metric == "accuracy":
            return float(np.mean(classes[predicted.argmax(axis=1)] == y))
        if classes.size == 2:
            return float(roc_auc_score(y, predicted[:, 1]))
        return float(roc_auc_score(y, predicted, multi_class="ovr", labels=classes))


def folds_of(task: Task, effort: Effort) -> tuple[list[Fold], Bunch]:
    """Cut the data; every method sees the same folds, and columns standardised on the training rows."""
    data = task.load()
    X, y, groups = data.data[:: effort.thin], data.target[:: effort.thin], data.feature_groups
    y = y.astype(float) if task.metric == "R²" else y
    layout = groups.resolve(None, X.shape[1])
    X = X[:, np.concatenate(layout.columns)]
    sizes, costs = np.array([c.size for c in layout.columns]), np.array(groups.costs)
    kind = RepeatedKFold if task.metric == "R²" else RepeatedStratifiedKFold
    cv = kind(n_splits=effort.folds, n_repeats=min(task.repeats, effort.repeats), random_state=0)
    found = []
    for rows, held in cv.split(X, y):
        mean, scale = X[rows].mean(axis=0), X[rows].std(axis=0)
        scale = np.where(scale > 1e-12, scale, np.inf)  # what is constant here tells nothing
        A, B = (X[rows] - mean) / scale, (X[held] - mean) / scale
        train = Training(A, y[rows], sizes, costs, costs.sum() * np.array(SHARES), task.alpha, task.classes,
                         effort.seconds)  # fmt: skip
        found.append(Fold(train, B, y[held], task.metric))
    return found, data


# -- all folds -------------------------------------------------------------------------------------------------

Scores = dict[str, np.ndarray]


@dataclass(frozen=True)
class Result:
    """Scores (folds, budgets) of every method, for prefixes, fixed budgets and trees, and what was bought."""

    task: Task
    data: Bunch
    anytime: Scores
    fixed: Scores
    trees: Scores
    bought: dict[tuple[str, str], list[list[frozenset[int]]]]
    training: dict[tuple[str, str], np.ndarray]
    missing: list[str]
    factor: float

    def error(self, gap: np.ndarray) -> np.ndarray:
        """Return the standard error of means over folds, corrected for their shared training rows."""
        return np.asarray(gap.std(axis=0, ddof=1) * self.factor)


def available(package: str) -> bool:
    """Tell whether a peer is installed."""
    return importlib.util.find_spec(package) is not None


def methods_for(task: Task, fold: Fold) -> tuple[dict[str, Any], dict[str, Any], list[str]]:
    """Return the orders and the sets that this task takes and this machine has, and those it has not."""
    orders = {
        name: method
        for name, method in ORDERS.items()
        if (name != "score" or task.classes) and (name not in SINGLE_TARGET or fold.train.single)
    }
    missing = [name for name, (package, _) in {**orders, **SETS}.items() if not available(package)]
    return (
        {name: method for name, (package, method) in orders.items() if available(package)},
        {name: method for name, (package, method) in SETS.items() if available(package)},
        missing,
    )


def measure(task: Task, effort: Effort) -> Result:
    """Let every method choose on every fold, and score what it bought."""
    folds, data = folds_of(task, effort)
    orders, sets, missing = methods_for(task, folds[0])
    scores: dict[tuple[str, str], list[list[float]]] = {}
    bought: dict[tuple[str, str], list[list[frozenset[int]]]] = {}
    training: dict[tuple[str, str], list[list[float]]] = {}

    def keep(reading: str, name: str, fold: Fold, chosen: list[list[int]]) -> None:
        scores.setdefault((reading, name), []).append([fold.score(groups) for groups in chosen])
        training.setdefault((reading, name), []).append([fold.scores(groups)[1] for groups in chosen])
        bought.setdefault((reading, name), []).append([frozenset(groups) for groups in chosen])

    for number, fold in enumerate(folds):
        print(f"… {task.name}: fold {number + 1} of {len(folds)}", file=sys.stderr, flush=True)
        costs, budgets = fold.train.costs, fold.train.budgets
        for name, method in orders.items():
            order = method(fold.train)
            keep("anytime", name, fold, [prefix(order, costs, b) for b in budgets])
            keep("fixed", name, fold, [filled(order, costs, b) for b in budgets])
        for name, method in sets.items():
            keep("fixed", name, fold, method(fold.train))
        for reading, buy in (("anytime", prefix), ("fixed", filled)):
            draws = [shuffled(seed)(fold.train) for seed in range(effort.orders)]
            drawn = [[fold.score(buy(order, costs, b)) for b in budgets] for order in draws]
            scores.setdefault((reading, RANDOM), []).append(np.mean(drawn, axis=0).tolist())
        if available("lightgbm"):
            found = boosted(fold.train, fold.held, effort.tradeoffs, effort.rounds)
            row = [fold.score([]) if p is None else fold.evaluate(as_probabilities(p, fold)) for p, _ in found]
            scores.setdefault(("trees", TREES), []).append(row)
    missing += [] if available("lightgbm") else [TREES]
    read = {r: {n: np.array(s) for (k, n), s in scores.items() if k == r} for r in ("anytime", "fixed", "trees")}
    factor = float(np.sqrt(1 / len(folds) + 1 / (effort.folds - 1)))
    fits = {key: np.array(values) for key, values in training.items()}
    return Result(task, data, read["anytime"], read["fixed"], read["trees"], bought, fits, missing, factor)


def as_probabilities(predicted: np.ndarray, fold: Fold) -> np.ndarray:
    """Give two classes two columns."""
    binary = predicted.ndim == 1 and fold.metric != "R²"
    return np.column_stack([1 - predicted, predicted]) if binary else predicted


# -- the report ------------------------------------------------------------------------------------------------

HEAD = """\
# Quality at equal budget

Made by `python experiments/quality.py --write docs/results/quality.md`, after `make peers`.

This page compares methods by their quality on held-out rows, at 10, 25 and 50 % of the cost of all groups. The methods
only *choose* groups. The same kind of model is then fitted to each choice: ridge regression (on NHANES, and on mfeat
with 0/1 indicators of the classes as targets) or logistic regression (on heart and thyroid), with columns standardised
on the training rows. Only the choices therefore differ. LightGBM is nonlinear and makes its own predictions, so it is
listed separately. With three classes, the AUC is the mean of the one-vs-rest AUCs.

In the *anytime* setting, the order is learned before the budget is known, and a budget buys the longest prefix that it
pays for. In the *fixed budget* setting, the budget is known in advance. A group that does not fit into the budget is
skipped, and cheaper groups may follow.

These are budgetline's methods. *forward* is the paper's order, which is learned from the gains on the training rows.
*forward, by CV* is the order of `AnytimeRegressorCV` or `AnytimeClassifierCV` with their defaults, which choose the
ridge constant and the correction for noise on 5 folds of the training rows. *plan, by CV* is the set that the `plan`
method of the same model buys for the budget. *forward with max_cost* is an order learned for the given budget. *best
set* is the set with the largest gain on the training rows, for squared error and without a correction.

The peers are used as follows:

- The *group lasso* is weighted by cost, and groups are bought in the order in which they enter the path. celer supports
  only a single target; budgetline also supports several. For classification, the targets are 0/1 indicators of the
  classes, and the loss is squared error. skglm solves the same problem as celer, so it is not shown.
- *Orthogonal matching pursuit, LassoLars, forward selection and fastcan* choose single columns and ignore costs. A
  group is bought when the first of its columns is chosen for any class.
- *abess* finds the best set of each size and ignores costs. Among the sets that fit the budget, the one with the
  smallest training loss is used.
- For *LightGBM*, the cost of a group is spread over its columns. Several trade-offs between loss and cost are tried.
  Among the models whose groups fit the budget, the one with the smallest training loss is used.
- *Random* is the mean over random orders.

Three settings were chosen after a first look at the results. LassoLars has the same ridge constant as the other
methods, because without one it stops early on collinear columns. LightGBM has only 50 trees and 5 trade-offs, to save
time. skglm's logistic group lasso is left out, because it fails with a division by zero on these data.

Values are means over folds ± standard error, and differences are paired by fold. Standard errors are corrected, because
the folds share training rows (Nadeau and Bengio).

The tables of exceptions show the metric on the training rows and the mean cost, first for budgetline and then for the
peer. If budgetline fits the training rows better, its choice may have overfitted. If the peer fits them better, there
are two possible reasons: buying the group with the best gain per cost at each step was not the best use of that budget,
or the prefix left money unspent.
"""


def table(result: Result, scores: Scores, own: str) -> list[str]:
    """Return scores, and the difference of one method to each."""
    heads = [f"{share:.0%}" for share in SHARES]
    cells = [*(f"at {h}" for h in heads), *(f"{own} − method, {h}" for h in heads)]
    lines = [f"| method | {' | '.join(cells)} |", "|---" * (len(cells) + 1) + "|"]
    for name, values in scores.items():
        gap = scores[own] - values if own in scores else np.zeros_like(values)
        row = [f"{m:.3f} ± {e:.3f}" for m, e in zip(values.mean(axis=0), result.error(values), strict=True)]
        if name != own:
            row += [f"{m:+.3f} ± {e:.3f}" for m, e in zip(gap.mean(axis=0), result.error(gap), strict=True)]
        lines.append(f"| {name} | {' | '.join(row + [''] * (len(cells) - len(row)))} |")
    return [*lines, ""]


def rivals(scores: Scores) -> list[str]:
    """Return the peers; budgetline's group lasso only where celer's, which is the same, cannot be used."""
    same = {"group lasso, budgetline"} if "group lasso, celer" in scores else set()
    return [name for name in scores if name not in OURS and name not in same]


def exceptions(result: Result, reading: str, own: str) -> list[str]:
    """Return a row for every peer that is better by more than one standard error, with what both bought and paid."""
    scores: Scores = getattr(result, reading)
    rows = []
    for name in rivals(scores):
        gap = scores[own] - scores[name]
        for b, share in enumerate(SHARES):
            mean, error = float(gap[:, b].mean()), float(result.error(gap)[b])
            if mean < -max(error, 1e-9):
                cells = [usual(result, reading, n, b) for n in (own, name)] + cause(result, reading, own, name, b)
                rows.append(f"| {share * 100:.0f} % | {name} | {-mean:.3f} ± {error:.3f} | {' | '.join(cells)} |")
    return rows


def cause(result: Result, reading: str, own: str, name: str, b: int) -> list[str]:
    """Return how both fit the training rows and what they spent, which is what an explanation starts from."""
    if (reading, name) not in result.training:
        return ["", ""]
    mine, theirs = (float(result.training[reading, n][:, b].mean()) for n in (own, name))
    budget = SHARES[b] * float(np.sum(result.data.feature_groups.costs))
    costs = np.array(result.data.feature_groups.costs)
    spent = [float(np.mean([costs[list(f[b])].sum() for f in result.bought[reading, n]])) for n in (own, name)]
    return [f"{mine:.3f}, {theirs:.3f}", f"{spent[0]:.1f}, {spent[1]:.1f} of {budget:.1f}"]


def usual(result: Result, reading: str, name: str, b: int) -> str:
    """Return what a method buys most often at a budget."""
    if (reading, name) not in result.bought:
        return "random groups"
    sets = Counter(fold[b] for fold in result.bought[reading, name])
    chosen, count = sets.most_common(1)[0]
    groups = result.data.feature_groups
    names = ", ".join(groups.names[g] for g in sorted(chosen)) or "nothing"
    cost = sum(float(groups.costs[g]) for g in chosen)
    return f"{names} (cost {cost:g}, in {count} of {sum(sets.values())} folds)"


def held(result: Result, reading: str, own: str) -> tuple[str, list[str]]:
    """Return in how many comparisons a method is as good as its peers within one standard error, and the exceptions."""
    rows = exceptions(result, reading, own)
    total = len(rivals(getattr(result, reading))) * len(SHARES)
    return f"{total - len(rows)} of {total}", rows


def claim(result: Result, reading: str, own: str) -> list[str]:
    """Return whether a method is at least as good as every linear peer, and a table of the exceptions."""
    count, rows = held(result, reading, own)
    text = f"In {count} comparisons, `{own}` is at least as good as the peer, within one standard error."
    if not rows:
        return [text, ""]
    head = ["budget", "better", "by", f"`{own}` buys", "the peer buys", "training metric", "mean cost, budget"]
    return [text + " These are the exceptions:", "", f"| {' | '.join(head)} |", "|---" * len(head) + "|", *rows, ""]


def short_claims(result: Result, reading: str, *names: str) -> list[str]:
    """Return the same counts for other sequences and sets of budgetline, without the exceptions."""
    first, *others = [(name, held(result, reading, name)[0]) for name in names]
    counts = [f"`{first[0]}` is at least as good in {first[1]} comparisons"]
    return [f"{', and '.join(counts + [f'`{name}` in {count}' for name, count in others])}.", ""]


def summary(results: list[Result]) -> list[str]:
    """Return, for every task, in how many comparisons order and plan are as good within one standard error."""
    lines = ["| data | order, anytime | plan, fixed budget |", "|---|---|---|"]
    for result in results:
        cells = []
        for reading, own in (("anytime", ORDER), ("fixed", PLAN)):
            count, _ = held(result, reading, own)
            good, total = map(int, count.split(" of "))
            cells.append(f"{count} ({good / total:.0%})")
        lines.append(f"| {result.task.name} | {' | '.join(cells)} |")
    return [*lines, ""]


def overview(results: list[Result]) -> Any:
    """Draw the paired differences of the order to every peer, at every budget."""
    figure, axes = panels(len(results), width=9.6, height=3.6)
    peers = list(dict.fromkeys(n for result in results for n in rivals(result.anytime) if n != RANDOM))
    for ax, result in zip(axes, results, strict=True):
        for b, (share, colour) in enumerate(zip(SHARES, (ORANGE, BLUE, RED), strict=True)):
            there = [k for k, n in enumerate(peers) if n in result.anytime]
            gaps = np.column_stack([(result.anytime[ORDER] - result.anytime[peers[k]])[:, b] for k in there])
            style = {"color": colour, "label": f"{share:.0%} of the cost", "markersize": 4, "elinewidth": 1}
            ax.errorbar(
                gaps.mean(axis=0), np.array(there) + 0.22 * (b - 1), xerr=result.error(gaps), fmt="os^"[b], **style
            )
        ax.axvline(0, color=GREY, linewidth=0.8)
        ax.set_xscale("symlog", linthresh=0.02)
        ax.set_xticks([-0.2, -0.02, 0, 0.02, 0.2], ["−.2", "", "0", "", ".2"])
        ax.set_xlim(-0.5, 0.5)
        ax.set_yticks(range(len(peers)), peers if ax is axes[0] else [""] * len(peers), fontsize=8)
        ax.set_ylim(len(peers) - 0.5, -0.5)
        ax.set_title(result.task.name, fontsize=9)
        ax.set_xlabel(f"{result.task.metric}:\n{ORDER} − it", fontsize=8)
        ax.tick_params(axis="x", labelsize=8)
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
    return figure


def section(result: Result) -> list[str]:
    """Return everything about one task."""
    groups, task = result.data.feature_groups, result.task
    n, D = result.data.data.shape
    count = len(next(iter(result.anytime.values())))
    lines = [
        f"## {task.name}: {task.metric}",
        "",
        f"The data have {n:,} rows and {D} columns, in {len(groups.names)} groups with a total cost of "
        f"{float(np.sum(groups.costs)):g}. There are {count} folds, and the ridge constant is {task.alpha:g}.",
        "",
        "### Anytime: prefixes of one order",
        "",
        *table(result, result.anytime, ORDER),
        *claim(result, "anytime", ORDER),
        *short_claims(result, "anytime", PAPER),
        "",
        "### Fixed budget",
        "",
        *table(result, result.fixed, PLAN),
        *claim(result, "fixed", PLAN),
        *short_claims(result, "fixed", LIMITED, BEST),
    ]
    if result.trees:
        lines += [
            "The next table compares LightGBM, which is nonlinear, with the plan:",
            "",
            *table(result, {**result.trees, PLAN: result.fixed[PLAN]}, PLAN),
        ]
    return lines + ([f"These methods are not installed: {', '.join(result.missing)}.", ""] if result.missing else [])


def report(effort: Effort) -> Page:
    """Run everything and return the page."""
    results = [measure(task, effort) for task in TASKS if task.name in effort.tasks]
    page = Page([HEAD])
    page.add(
        "The table counts the comparisons in which budgetline is at least as good as a linear peer, within one "
        "standard error:",
        "",
    )
    page.add(*summary(results))
    shown = f"differences between {ORDER} and every peer at three budgets, with standard errors"
    page.show("quality", overview(results), shown)
    page.add("To the right of 0, budgetline is better. The scale is logarithmic beyond ±0.02.", "")
    for result in results:
        page.add(*section(result))
    return page


if __name__ == "__main__":
    run(report, Effort(), QUICK, __doc__)
