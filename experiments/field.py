"""Published figures of other methods under their protocols, and linear, spline and tree models.

``python experiments/field.py --write docs/results/field.md``; ``--quick`` runs a tiny version. Scores of every split
are kept next to the page in ``field.json``: ``--draw`` writes page and figures from it without fitting, ``--only
NAME ...`` fits these data again and keeps the rest. Spam, physionet and bank are read from the folder that the
variable FIELD_DATA names, by default ../shared/data/field, and left out without it; trees need LightGBM.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pandas as pd
from field_page import FAMILIES, IMPORTANCE, LINEAR, NETWORK, PAIRS, PLAN, REFIT, SPLINE, TREES, page_of
from page import Page
from raw_tables import Problem, problem_of
from sklearn.metrics import accuracy_score, f1_score, r2_score, roc_auc_score
from sklearn.model_selection import RepeatedKFold, RepeatedStratifiedKFold
from sklearn.pipeline import Pipeline, make_pipeline

from budgetline import AnytimeClassifier, AnytimeRegressor, Encoding, StagedEstimators
from budgetline.files import write_atomically

sys.path.append(str(Path(__file__).resolve().parents[1] / "benchmarks"))
from core import conditions

ENCODINGS = {LINEAR: Encoding("linear"), SPLINE: Encoding("spline"), PAIRS: Encoding("spline", interactions=20)}
TREE = {"n_estimators": 200, "learning_rate": 0.05, "num_leaves": 15, "n_jobs": 1, "verbose": -1, "random_state": 0}
"""The same for all data, not tuned."""
MANY = 5
"""With more classes the models use squared error on indicators, and classes are evaluated by accuracy alone."""

Rows = np.ndarray
Split = tuple[Rows, Rows, Rows]
"""Training, validation and test rows."""
Answer = Callable[[Rows, float], np.ndarray]
"""Predictions for rows at a budget: probabilities of classes, or numbers."""
Scores = dict[str, dict[str, list[float]]]
"""By part ("validation", "test") and metric, at every budget."""


@dataclass(frozen=True)
class Task:
    """Budgets (numbers of columns, or shares of the total cost), the first metric, and the splits."""

    budgets: tuple[float, ...]
    metric: str
    splits: Callable[[Problem], Iterator[Split]]
    published: bool = False
    """Whether others have published a protocol: plans and baselines are run as well."""
    pairs: bool = True
    """Whether pairs of columns are tried; of hundreds of columns that takes minutes."""
    compared: bool = False
    """Whether there are figures to compare with: the chosen model is also fitted on training and validation rows."""


def covert(problem: Problem, seeds: int = 5) -> Iterator[Split]:
    """Yield the splits of Covert et al.: theirs is the first, the others follow their recipe with other seeds."""
    n = len(problem.y)
    for seed in range(seeds):
        rows = np.arange(n)
        np.random.default_rng(seed).shuffle(rows)
        part = int(0.2 * n)
        yield rows[2 * part :], rows[part : 2 * part], rows[:part]


def afa(problem: Problem, seeds: int = 5) -> Iterator[Split]:
    """Yield the splits of the AFA benchmark: seeds 42 to 46."""
    n = len(problem.y)
    for seed in range(42, 42 + seeds):
        rows = list(range(n))
        random.Random(seed).shuffle(rows)
        own, end = int(0.6 * n), int(0.6 * n) + int(0.2 * n)
        yield np.array(rows[:own]), np.array(rows[own:end]), np.array(rows[end:])


def folds(repeats: int, parts: int = 5) -> Callable[[Problem], Iterator[Split]]:
    """Return shuffled folds, stratified for classes; a quarter of the other rows are for validation."""

    def split(problem: Problem) -> Iterator[Split]:
        kind = RepeatedStratifiedKFold if problem.classes else RepeatedKFold
        for rest, test in kind(n_splits=parts, n_repeats=repeats, random_state=1).split(problem.X, problem.y):
            rest = np.random.default_rng(0).permutation(rest)
            yield rest[rest.size // 4 :], rest[: rest.size // 4], test

    return split


TASKS = {
    "spam": Task((*range(1, 11), 15, 20, 25), "AUC", covert, published=True, compared=True),
    "physionet": Task((5, 10, 15, 16, 29), "AUC", afa, published=True, compared=True),
    "bank": Task((2, 4, 7), "AUC", afa, published=True),
    "bank without duration": Task((2, 4, 7), "AUC", afa, published=True),
    "NHANES": Task((0.1, 0.25, 0.5), "R²", folds(1)),
    "heart": Task((0.25, 0.5, 1.0), "AUC", folds(4)),
    "thyroid": Task((0.8, 0.9, 1.0), "AUC", folds(1)),
    "mfeat": Task((0.1, 0.25, 0.5), "accuracy", folds(1), pairs=False),
}
QUICK = {"heart": Task((0.25, 0.5, 1.0), "AUC", folds(1, 2))}


# -- fits ------------------------------------------------------------------------------------------------------


def fitted(problem: Problem, family: str, rows: Rows) -> AnytimeClassifier | AnytimeRegressor:
    """Fit a model of budgetline; its ridge constant is chosen from these rows."""
    y = problem.y[rows]
    if problem.classes and np.ptp(problem.y) < MANY:
        return AnytimeClassifier(problem.groups, encoding=ENCODINGS[family], rule="score").fit(problem.X.iloc[rows], y)
    if problem.classes:
        y = np.eye(np.ptp(problem.y) + 1)[y]
    return AnytimeRegressor(problem.groups, encoding=ENCODINGS[family]).fit(problem.X.iloc[rows], y)


def answers(problem: Problem, model: AnytimeClassifier | AnytimeRegressor | StagedEstimators) -> Answer:
    """Return a function that predicts rows of the problem at a budget."""
    predict = getattr(model, "predict_proba", None) or model.predict
    return lambda rows, budget: np.asarray(predict(problem.X.iloc[rows], budget=budget))


def trees(problem: Problem, order: object, rows: Rows, budgets: list[float]) -> Answer:
    """Return LightGBM fitted on the columns that an order has bought at each budget."""
    from lightgbm import LGBMClassifier, LGBMRegressor

    table = categories(problem)
    model = StagedEstimators((LGBMClassifier if problem.classes else LGBMRegressor)(**TREE), order, stages=budgets)
    return answers(table, model.fit(table.X.iloc[rows], table.y[rows]))


def importance_order(problem: Problem, rows: Rows) -> list[str]:
    """Return the columns by their gain in LightGBM on all columns."""
    from lightgbm import LGBMClassifier

    table = categories(problem)
    model = LGBMClassifier(**TREE, importance_type="gain").fit(table.X.iloc[rows], table.y[rows])
    return [str(table.X.columns[k]) for k in np.argsort(-model.feature_importances_, kind="stable")]


def categories(problem: Problem) -> Problem:
    """Return the problem with text as categories, as LightGBM requires."""
    text = [name for name in problem.X if not pd.api.types.is_numeric_dtype(problem.X[name])]
    return Problem(problem.X.astype(dict.fromkeys(text, "category")), problem.y, problem.classes, problem.groups)


def plans(problem: Problem, model: AnytimeClassifier, rows: Rows, budgets: list[float]) -> Answer:
    """Return the predictions of a model's plans: each budget has its own set of columns."""
    found = model.plans(budgets, X=problem.X.iloc[rows], y=problem.y[rows], time_limit=5)
    by_budget = dict(zip(budgets, found, strict=True))
    return lambda rows, budget: by_budget[budget].predict_proba(problem.X.iloc[rows])


def network(problem: Problem, split: Split, budgets: list[float]) -> Answer:
    """Return a static method of Covert et al., in scikit-learn: a network per budget, columns by a permutation test."""
    from sklearn.inspection import permutation_importance
    from sklearn.neural_network import MLPClassifier
    from sklearn.preprocessing import StandardScaler

    train, validation, _ = split
    X, y = problem.X.to_numpy(dtype=float), problem.y

    def net(columns: np.ndarray) -> Pipeline:
        how = MLPClassifier((128, 128), batch_size=128, max_iter=250, early_stopping=True, random_state=0)
        return make_pipeline(StandardScaler(), how).fit(X[train][:, columns], y[train])

    whole = net(np.arange(X.shape[1]))
    found = permutation_importance(whole, X[validation], y[validation], scoring="roc_auc", random_state=0)
    order = np.argsort(-found.importances_mean, kind="stable")
    models = {budget: net(order[: int(budget)]) for budget in budgets}

    return lambda rows, budget: np.asarray(models[budget].predict_proba(X[rows][:, order[: int(budget)]]))


# -- scores ----------------------------------------------------------------------------------------------------


def scores(problem: Problem, split: Split, answer: Answer, budgets: list[float]) -> Scores:
    """Return all metrics on validation and test rows, at every budget."""
    train, validation, test = split
    found: Scores = {"validation": {}, "test": {}}
    for budget in budgets:
        held, new = answer(validation, budget), answer(test, budget)
        prior = float(np.mean(problem.y[train])) if binary(problem) else 0.5
        threshold = best_threshold(problem.y[validation], held[:, 1]) if binary(problem) else 0.5
        for part, rows, predicted in (("validation", validation, held), ("test", test, new)):
            for metric, value in metrics(problem, rows, predicted, prior, threshold).items():
                found[part].setdefault(metric, []).append(round(value, 6))
    return found


def metrics(problem: Problem, rows: Rows, predicted: np.ndarray, prior: float, threshold: float) -> dict[str, float]:
    """Return the metrics that fit the target.

    F1 is that of the rarer class, for probabilities above its share of the training rows, which is what networks
    trained with balanced class weights answer, or above a threshold chosen on validation rows.
    """
    y = problem.y[rows]
    if not problem.classes:
        return {"R²": float(r2_score(y, predicted))}
    values = {"accuracy": float(accuracy_score(y, predicted.argmax(axis=1)))}
    if not binary(problem):
        if np.ptp(problem.y) < MANY:
            values["AUC"] = float(roc_auc_score(y, predicted, multi_class="ovr", average="weighted"))
        return values
    share = predicted[:, 1]
    balanced, tuned = share >= prior, share >= threshold
    values |= {"AUC": float(roc_auc_score(y, share)), "F1": float(f1_score(y, balanced))}
    values |= {"macro F1": float(f1_score(y, balanced, average="macro")), "F1, tuned": float(f1_score(y, tuned))}
    return values


def binary(problem: Problem) -> bool:
    """Return whether there are two classes."""
    return problem.classes and bool(np.ptp(problem.y) == 1)


def best_threshold(y: np.ndarray, share: np.ndarray) -> float:
    """Return the threshold with the best F1."""
    grid = np.unique(np.quantile(share, np.linspace(0.5, 0.99, 100)))
    called = share[:, None] >= grid
    return float(grid[np.argmax(2 * (y @ called) / (y.sum() + called.sum(axis=0)))])


# -- a split ---------------------------------------------------------------------------------------------------


def evaluated(task: Task, problem: Problem, split: Split) -> dict[str, Scores]:
    """Return the scores of everything that is fitted on one split."""
    train, validation, _ = split
    total = problem.X.shape[1] if problem.groups is None else problem.groups.prices.total
    budgets = [total * b if problem.groups is not None else float(b) for b in task.budgets]
    found: dict[str, Scores] = {}

    def add(name: str, answer: Answer) -> None:
        found[name] = scores(problem, split, answer, budgets)

    models = {family: fitted(problem, family, train) for family in ENCODINGS if task.pairs or family != PAIRS}
    for family, model in models.items():
        add(family, answers(problem, model))
    if find_spec("lightgbm"):
        add(TREES, trees(problem, list(models.values())[-1].model_, train, budgets))
    if not task.published:
        return found
    if task.compared:
        add(REFIT, refitted(problem, chosen(found, task.metric), np.concatenate([train, validation]), budgets))
    add(PLAN, plans(problem, models[SPLINE], train, budgets))
    if find_spec("lightgbm"):
        add(IMPORTANCE, trees(problem, importance_order(problem, train), train, budgets))
    if len(problem.y) < 5000:
        add(NETWORK, network(problem, split, budgets))
    return found


def refitted(problem: Problem, family: str, rows: Rows, budgets: list[float]) -> Answer:
    """Return a family fitted on other rows; trees learn their order again."""
    if family == TREES:
        return trees(problem, fitted(problem, PAIRS, rows).model_, rows, budgets)
    return answers(problem, fitted(problem, family, rows))


def chosen(found: dict[str, Scores], metric: str) -> str:
    """Return the family with the best mean over budgets on validation rows."""
    families = [family for family in FAMILIES if family in found]
    return max(families, key=lambda family: float(np.mean(found[family]["validation"][metric])))


# -- the command line ------------------------------------------------------------------------------------------


def measured(tasks: dict[str, Task]) -> Iterator[dict[str, object]]:
    """Yield the scores of each data set, by its name."""
    for name, task in tasks.items():
        problem = problem_of(name)
        if problem is None:
            continue
        start, splits = time.process_time(), []
        for split in task.splits(problem):
            splits.append(evaluated(task, problem, split))
            print(f"{name}: split {len(splits)}, {time.process_time() - start:.0f} s", file=sys.stderr, flush=True)
        about = {"budgets": task.budgets, "metric": task.metric, "seconds": round(time.process_time() - start)}
        yield {name: about | {"measured": conditions(), "splits": splits}}


def main() -> None:
    """Fit, or read what was fitted, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a tiny version, for the test suite")
    parser.add_argument("--write", type=Path, help="write the page here, its figures and scores next to it")
    parser.add_argument("--draw", action="store_true", help="fit nothing: read the scores next to the page")
    parser.add_argument("--only", nargs="+", choices=list(TASKS), default=[], help="fit these again, read the others")
    args = parser.parse_args()
    if (args.draw or args.only) and not args.write:
        parser.error("--draw and --only read the scores next to the page: give --write")
    kept = args.write and args.write.with_suffix(".json")
    known = json.loads(kept.read_text()) if args.draw or args.only else {}
    tasks = {} if args.draw else QUICK if args.quick else {n: TASKS[n] for n in args.only} if args.only else TASKS
    for record in measured(tasks):
        known |= record
        if kept:
            write_atomically(kept, (json.dumps(known) + "\n").encode())
    page: Page = page_of({name: known[name] for name in TASKS if name in known})
    print(page.text())
    if args.write:
        page.write(args.write)


if __name__ == "__main__":
    main()
