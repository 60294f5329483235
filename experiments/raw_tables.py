"""What encodings of raw tables gain on new rows: AUC (NHANES: R²) by the number of columns that are bought.

``python experiments/raw_tables.py --write docs/results/raw_tables.md``; ``--quick`` runs a tiny version. Spam,
physionet and bank are read from the folder that the variable FIELD_DATA names, by default ../shared/data/field, and
left out without it. LightGBM is fitted on the columns that the last model has bought, if it is installed.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.metrics import f1_score, r2_score, roc_auc_score
from sklearn.model_selection import KFold, StratifiedKFold
from sklearn.utils import Bunch

from budgetline import AnytimeClassifier, AnytimeRegressor, Encoding, FeatureGroups
from budgetline.datasets import load_heart, load_nhanes, load_thyroid

ROOT = Path(__file__).resolve().parents[1]
sys.path.append(str(ROOT / "benchmarks"))
from core import print_report  # noqa: E402

FIELD = Path(os.environ.get("FIELD_DATA", ROOT.parent / "shared" / "data" / "field"))
ENCODINGS = {
    "linear": Encoding("linear"),
    "spline": Encoding("spline"),
    "spline, 20 pairs": Encoding("spline", interactions=20),
}
BUDGETS = {
    "spam": (1, 5, 10, 25),
    "physionet": (5, 16, 29),
    "bank": (2, 4, 7),
    "bank without duration": (2, 4, 7),
    "heart": (0.25, 0.5),
    "thyroid": (0.25, 0.5),
    "NHANES": (0.25, 0.5),
}
"""Numbers of columns, or shares of the total cost."""
SCRIPT = {
    "spam": (0.830, 0.958, 0.977, 0.983),
    "physionet": (0.809, 0.841, 0.848),
    "bank": (0.858, 0.901, 0.910),
    "bank without duration": (np.nan, 0.755, 0.766),
}
"""What splines of another script reached, on other folds (SOURCE.txt in the folder of the data)."""


@dataclass(frozen=True)
class Effort:
    """Names of the data and the number of folds."""

    names: tuple[str, ...] = tuple(BUDGETS)
    folds: int = 5


QUICK = Effort(("heart",), 2)


@dataclass(frozen=True)
class Problem:
    """A raw table and its target."""

    X: pd.DataFrame
    y: np.ndarray
    classes: bool
    groups: FeatureGroups | None = None

    def splits(self, folds: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield shuffled folds, stratified for classes."""
        kind = StratifiedKFold if self.classes else KFold
        return kind(folds, shuffle=True, random_state=1).split(self.X, self.y)


def problem_of(name: str) -> Problem | None:
    """Return the data, None if they are not on this machine."""
    if name in ("heart", "thyroid", "NHANES"):
        data = {"heart": load_heart, "thyroid": load_thyroid, "NHANES": load_nhanes}[name]()
        X = pd.DataFrame(data.data, columns=[str(d) for d in range(data.data.shape[1])])
        groups = data.feature_groups
        named = {g: [str(c) for c in layout] for g, layout in zip(groups.names, _positions(data), strict=True)}
        costs = {"shared": groups.shared, "requires": groups.requires, "remainder": "drop"}
        return Problem(X, np.asarray(data.target), name != "NHANES", FeatureGroups(named, groups.costs, **costs))
    path = FIELD / f"{name.split()[0]}.csv.gz"
    if not path.exists():
        return None
    table = pd.read_csv(path)
    y = table.pop("y" if name.startswith("bank") else "Outcome").to_numpy()
    if name == "bank without duration":
        del table["duration"]
    return Problem(table, (y == "yes").astype(int) if y.dtype == object else y, True)


def _positions(data: Bunch) -> list[list[int]]:
    names = list(data.feature_names)
    return [[names.index(c) if isinstance(c, str) else c for c in own] for own in data.feature_groups.columns]


def score(problem: Problem, rows: np.ndarray, predicted: np.ndarray) -> float:
    """Return AUC (one against the rest, weighted, for several classes) or R²."""
    y = problem.y[rows]
    if not problem.classes:
        return float(r2_score(y, predicted))
    if predicted.shape[1] == 2:
        return float(roc_auc_score(y, predicted[:, 1]))
    return float(roc_auc_score(y, predicted, multi_class="ovr", average="weighted"))


def best_f1(y: np.ndarray, predicted: np.ndarray) -> float:
    """Return the threshold with the best F1 on training rows."""
    grid = np.quantile(predicted, np.linspace(0.5, 0.99, 100))
    return float(grid[np.argmax([f1_score(y, predicted >= t) for t in grid])])


def boosted(problem: Problem, train: np.ndarray, test: np.ndarray, columns: list[str]) -> float:
    """Return the score of LightGBM on some columns, stopped early on a part of the training rows."""
    from lightgbm import LGBMClassifier, early_stopping

    X = problem.X[columns].copy()
    for name in columns:
        if X[name].dtype == object:
            X[name] = X[name].astype("category")
    rng = np.random.default_rng(0)
    held = rng.random(train.size) < 0.2
    model = LGBMClassifier(n_estimators=2000, learning_rate=0.03, num_leaves=15, subsample=0.8, verbose=-1, n_jobs=2)
    own, other = train[~held], train[held]
    judged, stop = (X.iloc[other], problem.y[other]), early_stopping(50, verbose=False)
    model.fit(X.iloc[own], problem.y[own], eval_set=[judged], callbacks=[stop])
    return score(problem, test, model.predict_proba(X.iloc[test]))


def rows_of(name: str, effort: Effort) -> list[str]:
    """Return the rows of the table of one data set."""
    problem = problem_of(name)
    if problem is None:
        return []
    total = problem.X.shape[1] if problem.groups is None else problem.groups.prices.total
    budgets = (*(total * b if b < 1 else b for b in BUDGETS[name]), total)
    found: dict[str, list[list[float]]] = {}
    f1: list[list[float]] = []
    for train, test in problem.splits(effort.folds):
        for kind, encoding in ENCODINGS.items():
            if problem.classes:
                model = AnytimeClassifier(problem.groups, encoding=encoding, rule="score").fit(
                    problem.X.iloc[train], problem.y[train]
                )
                predict = model.predict_proba
            else:
                model = AnytimeRegressor(problem.groups, encoding=encoding).fit(problem.X.iloc[train], problem.y[train])
                predict = model.predict
            scores = [score(problem, test, predict(problem.X.iloc[test], budget=k)) for k in budgets]
            found.setdefault(kind, []).append(scores)
        if name == "physionet":
            f1.append([_f1(problem, model, train, test, k) for k in budgets])
        if find_spec("lightgbm") and problem.groups is None:
            bought = [g for g in model.sequence_.groups if g in problem.X.columns]
            scores = [boosted(problem, train, test, bought[:k]) for k in budgets]
            found.setdefault("LightGBM, same columns", []).append(scores)
    lines = [_line(name, kind, budgets, np.array(values)) for kind, values in found.items()]
    if f1:
        lines.append(_line(name, "F1, spline, 20 pairs", budgets, np.array(f1)))
    return lines


def _f1(problem: Problem, model: AnytimeClassifier, train: np.ndarray, test: np.ndarray, k: float) -> float:
    inside, outside = (model.predict_proba(problem.X.iloc[rows], budget=k)[:, 1] for rows in (train, test))
    return float(f1_score(problem.y[test], outside >= best_f1(problem.y[train], inside)))


def _line(name: str, kind: str, budgets: tuple[float, ...], values: np.ndarray) -> str:
    means, errors = values.mean(axis=0), values.std(axis=0, ddof=1) / np.sqrt(len(values))
    cells = [f"{k:.3g}: {m:.4f} ± {e:.4f}" for k, m, e in zip(budgets, means, errors, strict=True)]
    known = SCRIPT.get(name, ()) if kind == "spline" else ()
    note = ", ".join(f"{m - s:+.4f}" for m, s in zip(means, known, strict=False) if np.isfinite(s))
    return f"| {name} | {kind} | {' · '.join(cells)} | {note} |"


def report(effort: Effort) -> list[str]:
    """Return the page."""
    lines = [
        "# Raw tables: what encodings gain",
        "",
        "Made by `python experiments/raw_tables.py --write docs/results/raw_tables.md`.",
        "",
        f"Scores on new rows, {effort.folds} shuffled folds, ± standard error: AUC, NHANES R². Every column of spam, "
        "physionet and bank is a group of cost 1, the others have groups and prices; *k: score* is at a budget of k, "
        "the last k is the cost of all. `alpha` is chosen from the "
        "training rows of each fold, the order by rule `score` (NHANES `fr`). LightGBM (15 leaves, stopped early on a "
        "fifth of the training rows) is fitted on the first k columns that the model with pairs buys. *against a "
        "script*: splines less those of an earlier script, which had other folds.",
        "",
        "| data | encoding | score at budgets | against a script |",
        "|---|---|---|---|",
    ]
    for name in effort.names:
        found = rows_of(name, effort)
        print(*found, sep="\n", file=sys.stderr, flush=True)
        lines += found
    return [*lines, ""]


if __name__ == "__main__":
    print_report(report, Effort(), QUICK, __doc__)
