"""What encodings of raw tables gain on new rows: AUC (NHANES: R²) by the number of columns that are bought.

``python experiments/raw_tables.py --write docs/results/raw_tables.md``; ``--quick`` runs a tiny version. Spam,
physionet and bank are read from the folder that the variable FIELD_DATA names, by default ../shared/data/field, and
left out without it. LightGBM is fitted on the columns that the last model has bought, if it is installed. The
reference is made with scikit-learn's encoders: cubic B-splines and one-hot categories, alpha from an inner split.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from importlib.util import find_spec
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from sklearn.metrics import f1_score, r2_score, roc_auc_score
from sklearn.model_selection import KFold, StratifiedKFold
from sklearn.preprocessing import OneHotEncoder, SplineTransformer
from sklearn.utils import Bunch

from budgetline import AnytimeClassifier, AnytimeRegressor, Encoding, FeatureGroups
from budgetline.datasets import load_heart, load_mfeat, load_nhanes, load_thyroid

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
INSIDE = {"heart": load_heart, "thyroid": load_thyroid, "NHANES": load_nhanes, "mfeat": load_mfeat}
"""Data that the package holds."""
REFERENCE = "reference: scikit-learn's encoders"
KNOTS, ALPHAS = 7, (1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1)
"""Of the reference."""


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
    if name in INSIDE:
        data = INSIDE[name]()
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
    return Problem(table, (y == "yes").astype(int) if name.startswith("bank") else y, True)


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
        if not pd.api.types.is_numeric_dtype(X[name]):
            X[name] = X[name].astype("category")
    rng = np.random.default_rng(0)
    held = rng.random(train.size) < 0.2
    model = LGBMClassifier(n_estimators=2000, learning_rate=0.03, num_leaves=15, subsample=0.8, verbose=-1, n_jobs=1)
    own, other = train[~held], train[held]
    evaluated, stop = (X.iloc[other], problem.y[other]), early_stopping(50, verbose=False)
    model.fit(X.iloc[own], problem.y[own], eval_set=[evaluated], callbacks=[stop])
    return score(problem, test, model.predict_proba(X.iloc[test]))


def reference(problem: Problem, train: np.ndarray, test: np.ndarray, budgets: tuple[float, ...]) -> list[float]:
    """Return the scores of a model on columns from scikit-learn's encoders, its alpha chosen on a part of the rows."""
    Z, groups = reference_columns(problem.X, train)
    held = np.random.default_rng(0).random(train.size) < 0.2

    def scores(alpha: float, own: np.ndarray, other: np.ndarray) -> list[float]:
        model = AnytimeClassifier(groups, rule="score", alpha=alpha).fit(Z[own], problem.y[own])
        return [score(problem, other, model.predict_proba(Z[other], budget=k)) for k in budgets]

    inner = [np.mean(scores(alpha, train[~held], train[held])[:-1]) for alpha in ALPHAS]
    return scores(ALPHAS[int(np.argmax(inner))], train, test)


def reference_columns(X: pd.DataFrame, train: np.ndarray) -> tuple[np.ndarray, dict[str, list[int]]]:
    """Return columns from encoders of each column, fitted on training rows, and which of them each column becomes."""
    blocks = [_reference_block(X[[name]], train) for name in X.columns]
    ends = np.cumsum([0, *(block.shape[1] for block in blocks)])
    groups = {name: list(range(a, b)) for name, a, b in zip(X.columns, ends, ends[1:], strict=False)}
    return np.hstack(blocks), groups


def _reference_block(column: pd.DataFrame, train: np.ndarray) -> np.ndarray:
    """Encode a column: categories one-hot, numbers by splines with knots at quantiles of their distinct values."""
    if not pd.api.types.is_numeric_dtype(column.iloc[:, 0]):
        levels = OneHotEncoder(handle_unknown="ignore", sparse_output=False).fit(column.iloc[train])
        return np.asarray(levels.transform(column))
    x = column.to_numpy(dtype=float)
    gaps = np.isnan(x)
    known = x[train][~gaps[train]]
    x = np.where(gaps, known.mean(), x)
    knots = np.unique(np.quantile(np.unique(known), np.linspace(0, 1, KNOTS)))
    if knots.size < 2:  # one value, or none
        return gaps.astype(float)
    splines = SplineTransformer(degree=3, knots=knots[:, None], extrapolation="linear", include_bias=False)
    return np.hstack([splines.fit(x[train]).transform(x), gaps[:, gaps[train].any(axis=0)]])


def evaluated(name: str, train: np.ndarray, test: np.ndarray) -> dict[str, list[float]]:
    """Return the scores of one fold at every budget, by what was fitted."""
    problem = problem_of(name)
    assert problem is not None
    budgets, found = budgets_of(name, problem), dict[str, list[float]]()
    rows, y = problem.X.iloc[train], problem.y[train]
    for kind, encoding in ENCODINGS.items():
        if problem.classes:
            model = AnytimeClassifier(problem.groups, encoding=encoding, rule="score").fit(rows, y)
            predict = model.predict_proba
        else:
            model = AnytimeRegressor(problem.groups, encoding=encoding).fit(rows, y)
            predict = model.predict
        found[kind] = [score(problem, test, predict(problem.X.iloc[test], budget=k)) for k in budgets]
    if problem.groups is None:
        found[REFERENCE] = reference(problem, train, test, budgets)
    if find_spec("lightgbm") and problem.groups is None:
        bought = [g for g in model.sequence_.groups if g in problem.X.columns]
        found["LightGBM, same columns"] = [boosted(problem, train, test, bought[: int(k)]) for k in budgets]
    if name == "physionet":
        found["F1, spline, 20 pairs"] = [_f1(problem, model, train, test, k) for k in budgets]
    return found


def budgets_of(name: str, problem: Problem) -> tuple[float, ...]:
    """Return the budgets of a data set, the last of which pays for everything."""
    total = problem.X.shape[1] if problem.groups is None else problem.groups.prices.total
    return (*(total * b if b < 1 else b for b in BUDGETS[name]), total)


def rows_of(name: str, problem: Problem, folds: list[dict[str, list[float]]]) -> list[str]:
    """Return the rows of the table of one data set."""
    budgets, values = budgets_of(name, problem), {kind: [fold[kind] for fold in folds] for kind in folds[0]}
    less = np.array(values["spline"]) - np.array(values.get(REFERENCE, values["spline"]))
    beside = {"spline": _cells(budgets, less, "+")} if REFERENCE in values else {}
    return [_line(name, kind, _cells(budgets, each), beside.get(kind, "")) for kind, each in values.items()]


def _f1(problem: Problem, model: AnytimeClassifier, train: np.ndarray, test: np.ndarray, k: float) -> float:
    inside, outside = (model.predict_proba(problem.X.iloc[rows], budget=k)[:, 1] for rows in (train, test))
    return float(f1_score(problem.y[test], outside >= best_f1(problem.y[train], inside)))


def _cells(budgets: tuple[float, ...], values: ArrayLike, sign: str = "") -> str:
    """Write means over folds and their standard errors."""
    values = np.asarray(values)
    means, errors = values.mean(axis=0), values.std(axis=0, ddof=1) / np.sqrt(len(values))
    return " · ".join(f"{k:.3g}: {m:{sign}.4f} ± {e:.4f}" for k, m, e in zip(budgets, means, errors, strict=True))


def _line(name: str, kind: str, scores: str, less: str) -> str:
    return f"| {name} | {kind} | {scores} | {less} |"


def report(effort: Effort) -> list[str]:
    """Return the page."""
    lines = [
        "# Raw tables: what encodings add",
        "",
        "Made by `python experiments/raw_tables.py --write docs/results/raw_tables.md`.",
        "",
        f"Scores are measured on the held-out rows of {effort.folds} shuffled folds and shown with their standard "
        "errors. The metric is AUC, except on NHANES, where it is R². Every column of spam, physionet and bank is a "
        "group of cost 1; the other tables have their own groups and prices. *k: score* means the score at a budget "
        "of k. The last k is the cost of all groups.",
        "",
        "`alpha` is chosen on the training rows of each fold. The rule is `score` (`forward` on NHANES). "
        "LightGBM (15 leaves, early stopping on a fifth of the training rows) is fitted on the first k columns "
        "that the model with pairs buys.",
        "",
        "The reference is the same classifier on columns that are encoded by hand with scikit-learn. Numeric columns "
        f"are expanded into cubic B-splines with {KNOTS} knots at quantiles of the distinct values, extrapolated "
        "linearly beyond the knots. Missing values in numeric columns are replaced by the mean and marked by an "
        "indicator column, and categories are one-hot encoded.",
        "",
        "The reference uses the rule `score`. Its `alpha` is the value with the best AUC on a fifth of the training "
        "rows, averaged over all budgets of the table except the last. *minus the reference* is the paired difference "
        "between the score and the reference's score on the same folds, ± standard error.",
        "",
        "| data | encoding | score at budgets | minus the reference |",
        "|---|---|---|---|",
    ]
    problems = {name: problem for name in effort.names if (problem := problem_of(name)) is not None}
    with ProcessPoolExecutor(max_workers=os.cpu_count(), mp_context=get_context("spawn")) as pool:
        jobs = {
            name: [pool.submit(evaluated, name, *split) for split in problem.splits(effort.folds)]
            for name, problem in problems.items()
        }
        for name, submitted in jobs.items():
            found = rows_of(name, problems[name], [job.result() for job in submitted])
            print(*found, sep="\n", file=sys.stderr, flush=True)
            lines += found
    return [*lines, ""]


if __name__ == "__main__":
    print_report(report, Effort(), QUICK, __doc__)
