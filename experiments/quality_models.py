"""Quality at equal budget of whole models: trees with group prices, importance per cost, any estimator on the order.

``python experiments/quality_models.py --write docs/results/quality_models.md`` (about 40 minutes of one core,
with ``make peers``); ``--quick`` runs a tiny version. The folds are those of ``quality.py``.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from time import process_time
from typing import Any

import numpy as np
from page import BLACK, BLUE, GREY, ORANGE, RED, Page, panels, run
from quality import SHARES, TASKS, Fold, Result, Task, folds_of, table
from sklearn.linear_model import LogisticRegression, Ridge

from baselines import CatBoostPath, ForwardSelection, ImportanceKnapsack, LightGBMPath
from budgetline import AnytimeClassifier, AnytimeRegressor, StagedEstimators

FR, PLAN, FORWARD, KNAPSACK = "forward, linear", "plan, linear", "forward selection, linear", "importance, linear"
ON_FR, EBM_ON_FR = "LightGBM on forward's order", "EBM on forward's order"
CEGB, CATBOOST, COAI, EBM_COAI = "LightGBM path", "CatBoost path", "importance, LightGBM", "importance, EBM"
DRAWN = {FR: BLACK, PLAN: GREY, ON_FR: BLUE, CEGB: ORANGE, COAI: RED}


@dataclass(frozen=True)
class Effort:
    """How much to run; the fields that ``quality.folds_of`` reads have the meanings that they have there."""

    tasks: tuple[str, ...] = ("heart", "NHANES", "NHANES without DIQ", "thyroid", "mfeat")
    repeats: int = 1
    folds: int = 5
    thin: int = 1
    seconds: float = 1.0
    trees: int = 100
    models: int = 12
    rounds: int = 1000


QUICK = Effort(tasks=("heart",), repeats=1, folds=2, thin=4, seconds=0.1, trees=3, models=3, rounds=3)


# -- one fold --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Learners:
    """The estimators behind the methods for one kind of target; their settings are fixed, not tuned."""

    classes: bool
    effort: Effort

    @property
    def lightgbm(self) -> Any:
        """LightGBM, with results that can be repeated."""
        import lightgbm

        kind = lightgbm.LGBMClassifier if self.classes else lightgbm.LGBMRegressor
        same = {"random_state": 0, "n_jobs": 1, "deterministic": True, "force_row_wise": True, "verbose": -1}
        return kind(n_estimators=self.effort.trees, learning_rate=0.05, num_leaves=15, **same)

    @property
    def catboost(self) -> Any:
        """CatBoost, with half as many trees and twice the learning rate, to save time."""
        import catboost

        kind = catboost.CatBoostClassifier if self.classes else catboost.CatBoostRegressor
        same = {"random_seed": 0, "thread_count": 1, "verbose": False, "allow_writing_files": False}
        return kind(iterations=max(self.effort.trees // 2, 1), learning_rate=0.1, depth=4, **same)

    @property
    def ebm(self) -> Any:
        """An EBM of main effects, one bag, and fewer rounds than its default, to save time."""
        from interpret.glassbox import ExplainableBoostingClassifier, ExplainableBoostingRegressor

        kind = ExplainableBoostingClassifier if self.classes else ExplainableBoostingRegressor
        return kind(interactions=0, outer_bags=1, max_rounds=self.effort.rounds, n_jobs=1, random_state=0)


def linear_choices(fold: Fold, model: Any) -> dict[str, Callable[[], list[list[int]]]]:
    """Return the methods that choose groups, at every budget, for the linear refit of ``quality.py``."""
    train = fold.train
    groups, costs = train.problem.groups, train.costs
    ridge = Ridge(alpha=train.alpha * len(train.y))
    logistic = LogisticRegression(C=1 / (train.alpha * len(train.y)), max_iter=5000)
    full, target = (logistic, train.y) if train.classes else (ridge, train.numbers)

    def bought(sequence: Any) -> list[list[int]]:
        return [list(map(int, sequence.groups[: sequence.stage_at(b)])) for b in train.budgets]

    def planned() -> list[list[int]]:
        data = {"X": train.A, "y": train.y} if train.classes else {}
        plans = model.plans(train.budgets.tolist(), time_limit=train.seconds * train.budgets.size, **data)
        return [list(map(int, plan.groups)) for plan in plans]

    def forward() -> list[list[int]]:
        found = ForwardSelection(ridge, groups, costs, cv=3).fit(train.A, train.numbers)
        return bought(found.sequence_)

    def knapsack() -> list[list[int]]:
        how = {"importance": "contributions", "budgets": train.budgets}
        found = ImportanceKnapsack(full, groups, costs, **how).fit(train.A, target)
        stages = [found.sequence_.stage_at(b) for b in train.budgets]
        return [np.flatnonzero(found.model_.masks[k - 1]).tolist() if k else [] for k in stages]

    return {FR: lambda: bought(model.sequence_), PLAN: planned, FORWARD: forward, KNAPSACK: knapsack}


def whole_models(fold: Fold, model: Any, effort: Effort) -> dict[str, tuple[str, Callable[[], Any]]]:
    """Return the packages and the methods that predict by themselves."""
    train, learners = fold.train, Learners(fold.metric != "R²", effort)
    groups, costs, budgets = train.problem.groups, train.costs, train.budgets
    contributions = {"importance": "contributions", "budgets": budgets}
    return {
        ON_FR: ("lightgbm", lambda: StagedEstimators(learners.lightgbm, model.model_, stages=budgets)),
        EBM_ON_FR: ("interpret", lambda: StagedEstimators(learners.ebm, model.model_, stages=budgets)),
        CEGB: ("lightgbm", lambda: LightGBMPath(learners.lightgbm, groups, costs, n_models=effort.models)),
        CATBOOST: ("catboost", lambda: CatBoostPath(learners.catboost, groups, costs, n_models=effort.models // 2)),
        COAI: ("lightgbm", lambda: ImportanceKnapsack(learners.lightgbm, groups, costs, **contributions)),
        EBM_COAI: ("interpret", lambda: ImportanceKnapsack(learners.ebm, groups, costs, **contributions)),
    }


def evaluated(fold: Fold, effort: Effort) -> Iterator[tuple[str, list[float], float]]:
    """Yield every method, its scores at the budgets on the held-out rows, and the seconds that it took."""
    train = fold.train
    kind = AnytimeClassifier if train.classes else AnytimeRegressor
    model = kind(train.problem.groups, train.costs, alpha=train.alpha)
    model.fit(train.A, train.y if train.classes else train.numbers)
    for name, choose in linear_choices(fold, model).items():
        start = process_time()
        sets = choose()
        yield name, [fold.score(groups) for groups in sets], process_time() - start
    for name, (package, make) in whole_models(fold, model, effort).items():
        if importlib.util.find_spec(package):
            start = process_time()
            fitted = make().fit(train.A, train.y)
            method = "predict" if fold.metric == "R²" else "predict_proba"
            answers = [getattr(fitted, method)(fold.held, budget=float(b)) for b in train.budgets]
            yield name, [fold.evaluate(answer) for answer in answers], process_time() - start


def measure(task: Task, effort: Effort) -> tuple[Result, dict[str, float]]:
    """Score every method on every fold; return also the mean seconds of a fold."""
    folds, data = folds_of(task, effort)
    scores: dict[str, list[list[float]]] = {}
    seconds: dict[str, list[float]] = {}
    for number, fold in enumerate(folds):
        print(f"… {task.name}: fold {number + 1} of {len(folds)}", file=sys.stderr, flush=True)
        for name, row, spent in evaluated(fold, effort):
            scores.setdefault(name, []).append(row)
            seconds.setdefault(name, []).append(spent)
    found = {name: np.array(rows) for name, rows in scores.items()}
    factor = float(np.sqrt(1 / len(folds) + 1 / (effort.folds - 1)))
    return Result(task, data, {}, found, {}, {}, {}, [], factor), {n: float(np.mean(s)) for n, s in seconds.items()}


# -- the report ------------------------------------------------------------------------------------------------

HEAD = """\
# Quality at equal budget: whole models

Made by `python experiments/quality_models.py --write docs/results/quality_models.md`, after `make peers`.

This page compares budgetline with alternatives at 10, 25 and 50 % of the cost of all groups, on the folds of [the page
on choices](quality.md).

- *forward, linear*: the prefix of budgetline's order that the budget pays for, with a linear model. The ridge constant
  is fixed.
- *plan, linear*: the set that `plan` buys for the budget, with a linear model.
- *forward selection, linear*: `ForwardSelection`, which adds whole groups by cross-validated ridge regression (3 folds;
  for classification, the targets are 0/1 indicators of the classes). It ignores costs. A budget buys the longest prefix
  that it pays for.
- *importance, …*: `ImportanceKnapsack`, which follows the idea of CoAI. The importance of a group is its mean absolute
  contribution in a model of all columns. A knapsack solver chooses the groups for the budget, and the model is refitted
  on these groups.
- *LightGBM on forward's order*, *EBM on forward's order*: `StagedEstimators`, which refits the model on the prefix that
  the budget pays for.
- *LightGBM path*, *CatBoost path*: `LightGBMPath` and `CatBoostPath`, which penalise groups, over a range of trade-offs
  between loss and cost.

Only prefixes work without knowing the budget in advance. Plans, importance and paths are made for a known budget.

The settings are fixed, not tuned. A path has 12 models with LightGBM and 6 with CatBoost. LightGBM has 100 trees of 15
leaves and a learning rate of 0.05. CatBoost has 50 trees of depth 4 and a learning rate of 0.1. EBM has main effects
only, one bag and at most 1,000 rounds, fewer than by default. The linear models are the same as on the page on choices.
They cannot fit curves, so trees have an advantage on numeric columns; `encoding="spline"` would make the comparison
fairer.

Values are means over folds ± standard error, and differences are paired by fold. Standard errors are corrected, because
the folds share training rows (Nadeau and Bengio). Times are seconds of processor time per fold.
"""


def winners(result: Result) -> list[str]:
    """Return the best method at each budget, and how far plan and forward are from it."""
    lines = [f"| budget | best | score | {PLAN} − best | {FR} − best |", "|---|---|---|---|---|"]
    for b, share in enumerate(SHARES):
        means = {name: float(values[:, b].mean()) for name, values in result.fixed.items()}
        best = max(means, key=lambda name: means[name])
        cells = []
        for own in (PLAN, FR):
            gap = result.fixed[own][:, b] - result.fixed[best][:, b]
            cells.append("" if own == best else f"{gap.mean():+.3f} ± {result.error(gap[:, None])[0]:.3f}")
        lines.append(f"| {share * 100:.0f} % | {best} | {means[best]:.3f} | {' | '.join(cells)} |")
    return lines


def overview(results: list[Result]) -> Any:
    """Draw the scores of some methods at the budgets."""
    figure, axes = panels(len(results), width=9.6, height=3.4)
    for ax, result in zip(axes, results, strict=True):
        for k, (name, colour) in enumerate(DRAWN.items()):
            if name in result.fixed:
                values = result.fixed[name]
                style = {"color": colour, "label": name, "markersize": 4, "linewidth": 1, "elinewidth": 1}
                at = 100 * np.array(SHARES) + 0.6 * (k - 2)
                ax.errorbar(at, values.mean(axis=0), yerr=result.error(values), fmt="o-", **style)
        ax.set_title(result.task.name, fontsize=9)
        ax.set_xlabel("% of the total cost", fontsize=8)
        ax.set_ylabel(result.task.metric, fontsize=8)
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=len(DRAWN))
    return figure


def report(effort: Effort) -> Page:
    """Run everything and return the page."""
    tasks = [task for name in effort.tasks for task in TASKS if task.name == name]
    found = [measure(task, effort) for task in tasks]
    results = [result for result, _ in found]
    page = Page([HEAD])
    page.show("quality_models", overview(results), "scores of five methods at three budgets, with standard errors")
    for result, seconds in found:
        groups, (n, D) = result.data.feature_groups, result.data.data.shape
        count = len(next(iter(result.fixed.values())))
        page.add(
            f"## {result.task.name}: {result.task.metric}",
            "",
            f"The data have {n:,} rows and {D} columns, in {len(groups.names)} groups with a total cost of "
            f"{float(np.sum(groups.costs)):g}. There are {count} folds, and the ridge constant is "
            f"{result.task.alpha:g}.",
            "",
            "This table shows the best method at each budget:",
            "",
            *winners(result),
            "",
            *table(result, result.fixed, PLAN),
            f"| method | {' | '.join(seconds)} |",
            "|---" * (1 + len(seconds)) + "|",
            f"| seconds | {' | '.join(f'{spent:.1f}' for spent in seconds.values())} |",
            "",
        )
    return page


if __name__ == "__main__":
    run(report, Effort(), QUICK, __doc__)
