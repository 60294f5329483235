"""Choices that hold on new rows: the correction for noise and held-out gains, compared with the paper's choice.

``python experiments/correction.py --write docs/results/correction.md`` (about ten minutes); ``--quick`` runs a tiny
version.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context

import numpy as np
from page import Page, run
from set_functions import greedy_sequence
from sklearn.datasets import load_diabetes
from sklearn.model_selection import KFold, RepeatedKFold
from sklearn.utils import Bunch

from budgetline import AnytimeRegressor, AnytimeRegressorCV, FeatureGroups, FixedOrder, Moments, budget_curve
from budgetline.datasets import load_heart, load_mfeat, load_nhanes, load_thyroid
from budgetline.evaluation import timeliness

SHARES = (0.05, 0.10, 0.25, 0.50)
PAPER, FOLDS, CV = "gain on the training rows", "gain on 5 held-out folds", "correction by CV"
CORRECTIONS = (0.5, 1.0, 2.0)


def diabetes() -> Bunch:
    """Return the diabetes data of scikit-learn with a price for the blood serum."""
    data = load_diabetes()
    groups = {name: [k] for k, name in enumerate(data.feature_names)}
    costs = {name: 5.0 if name.startswith("s") and name != "sex" else 1.0 for name in groups}
    return Bunch(data=data.data, target=data.target, feature_groups=FeatureGroups(groups, costs))


def thinned(load: Callable[[], Bunch], rows: int) -> Callable[[], Bunch]:
    """Return a loader of some rows."""

    def some() -> Bunch:
        data = load()
        kept = np.random.default_rng(0).permutation(len(data.target))[:rows]
        return Bunch(data=data.data[kept], target=data.target[kept], feature_groups=data.feature_groups)

    return some


TASKS: dict[str, tuple[Callable[[], Bunch], float]] = {
    "NHANES": (load_nhanes, 1e-2),
    "NHANES without DIQ": (lambda: load_nhanes(drop=("DIQ",)), 1e-2),
    "NHANES without DIQ, 1,500 rows": (thinned(lambda: load_nhanes(drop=("DIQ",)), 1500), 1e-2),
    "heart": (load_heart, 1e-2),
    "thyroid": (load_thyroid, 1e-4),
    "diabetes": (diabetes, 1e-4),
    "mfeat": (load_mfeat, 1e-2),
}


@dataclass(frozen=True)
class Effort:
    """Names of the data, and how they are split."""

    tasks: tuple[str, ...] = tuple(TASKS)
    folds: int = 10
    repeats: int = 2


QUICK = Effort(("diabetes",), 2, 1)


def numbers_of(target: np.ndarray) -> np.ndarray:
    """Return the target as numbers (n, P): itself, or indicators of its classes."""
    values = np.unique(target)
    if target.dtype.kind == "f" or values.size > 20:
        return np.asarray(target, dtype=float)[:, None]
    return (target[:, None] == (values[1:] if values.size == 2 else values)).astype(float)


class HeldOutGain:
    """F(S) on held-out rows: the mean over folds of R(∅) − R of the model fitted on the other folds, from moments."""

    def __init__(self, X: np.ndarray, Y: np.ndarray, groups: FeatureGroups, alpha: float) -> None:
        parts = [Moments.from_data(X[held], Y[held]) for _, held in KFold(5, shuffle=True, random_state=0).split(X)]
        layout = groups.resolve(None, X.shape[1])
        self.columns = dict(zip(groups.names, layout.columns, strict=True))
        self.folds = []
        for k, held in enumerate(parts):
            train = sum(part for j, part in enumerate(parts) if j != k)
            D = train.n_features
            deviation = np.sqrt(np.maximum(np.diag(train.scatter)[:D] / train.weight, 1e-300))
            unit = np.append(np.where(deviation > 1e-12, 1 / deviation, 0.0), np.ones(Y.shape[1]))
            S = unit[:, None] * train.scatter * unit / train.weight
            step = held.mean - train.mean
            T = unit[:, None] * (held.scatter / held.weight + np.outer(step, step)) * unit
            self.folds.append((S[:D, :D] + alpha * np.eye(D), S[:D, D:], T[:D, :D], T[:D, D:]))

    def __call__(self, chosen: frozenset[str]) -> float:
        """Return F of a set of groups."""
        if not chosen:
            return 0.0
        c = np.concatenate([self.columns[name] for name in sorted(chosen)])
        total = 0.0
        for C, b, T, t in self.folds:
            w = np.linalg.solve(C[np.ix_(c, c)], b[c])
            total += float(np.sum(w * t[c]) - np.sum(w * (T[np.ix_(c, c)] @ w)) / 2)
        return total / len(self.folds)


def orders(X: np.ndarray, Y: np.ndarray, groups: FeatureGroups, alpha: float) -> dict[str, AnytimeRegressor]:
    """Return a model for every way to choose groups, all with the same ridge constant."""
    found = {PAPER: AnytimeRegressor(groups, alpha=alpha).fit(X, Y)}
    for correction in CORRECTIONS:
        found[f"correction {correction:g}"] = AnytimeRegressor(groups, alpha=alpha, correction=correction).fit(X, Y)
    costs = dict(zip(groups.names, groups.costs, strict=True))
    by_folds = FixedOrder(greedy_sequence(HeldOutGain(X, Y, groups, alpha), costs).groups)
    found[FOLDS] = AnytimeRegressor(groups, alpha=alpha, schedule=by_folds).fit(X, Y)
    found[CV] = AnytimeRegressorCV(groups, alphas=[alpha]).fit(X, Y)
    return found


@dataclass(frozen=True)
class Result:
    """R² on new rows by choice: means over budgets (folds,), and values at some budgets (folds, budgets)."""

    means: dict[str, np.ndarray]
    at: dict[str, np.ndarray]
    plans: dict[str, np.ndarray]
    factor: float

    def gap(self, name: str) -> tuple[float, float]:
        """Return the difference of the mean over budgets from the paper's choice, and its standard error."""
        gaps = self.means[name] - self.means[PAPER]
        return float(gaps.mean()), float(gaps.std(ddof=1) * self.factor)


def evaluated(name: str, rows: np.ndarray, held: np.ndarray) -> dict[str, dict[str, list[float]]]:
    """Choose on the training rows; for each way, return the mean over budgets and the scores of prefixes and plans."""
    load, alpha = TASKS[name]
    data = load()
    X, Y, groups = np.asarray(data.data, dtype=float), numbers_of(data.target), data.feature_groups
    total = groups.prices.total
    budgets = [share * total for share in SHARES]
    found: dict[str, dict[str, list[float]]] = {"means": {}, "at": {}, "plans": {}}
    for way, model in orders(X[rows], Y[rows], groups, alpha).items():
        curve = budget_curve(model, X[held], Y[held], metric="explained")
        found["means"][way] = [timeliness(curve, total)]
        found["at"][way] = [float(curve.at(b)) for b in budgets]
        if way in (PAPER, "correction 1", CV):
            plans = model.plans(budgets, time_limit=8.0)
            scores = [budget_curve(plan, X[held], Y[held], metric="explained").values[-1] for plan in plans]
            found["plans"][way] = [float(score) for score in scores]
    print(f"… {name}", file=sys.stderr, flush=True)
    return found


def measure(effort: Effort, pool: ProcessPoolExecutor) -> dict[str, Result]:
    """Choose on every training set, and evaluate on the held-out rows; the folds run in parallel processes."""
    jobs = {}
    for name in effort.tasks:
        folds = RepeatedKFold(n_splits=effort.folds, n_repeats=effort.repeats, random_state=0)
        splits = folds.split(np.zeros(len(TASKS[name][0]().target)))
        jobs[name] = [pool.submit(evaluated, name, rows, held) for rows, held in splits]
    factor = float(np.sqrt(1 / (effort.folds * effort.repeats) + 1 / (effort.folds - 1)))
    results = {}
    for name, submitted in jobs.items():
        folds_found = [job.result() for job in submitted]
        parts = {
            kind: {way: np.array([found[kind][way] for found in folds_found]) for way in folds_found[0][kind]}
            for kind in folds_found[0]
        }
        means = {way: values[:, 0] for way, values in parts["means"].items()}
        results[name] = Result(means, parts["at"], parts["plans"], factor)
    return results


HEAD = """\
# Choices that hold on new rows

Made by `python experiments/correction.py --write docs/results/correction.md`.

All numbers are R² on new rows, from two repeats of 10-fold cross-validation. The loss is squared error, and classes
are coded as 0/1 indicators.

Four ways to choose groups are compared. *gain on the training rows* is the paper's choice (`correction=0`).
*correction c* subtracts c·σ̂²d/n from the gain of a group of d columns. *gain on 5 held-out folds* orders groups by
their gain on held-out folds of the training rows. *correction by CV* is `AnytimeRegressorCV` with the same ridge
constant; it chooses between a correction of 0 and 1 by cross-validation.

*mean* is the mean R² over all budgets. *difference* is the mean paired difference from the paper's choice, with a
standard error that is corrected for the overlap of the training rows between folds. The other columns show R² at
budgets of 5 to 50 % of the total cost, for prefixes of one order and for plans. The first table lists the data sets on
which a choice is better or worse than the paper's choice by more than a standard error.
"""


def table(result: Result) -> list[str]:
    """Return the scores of every way to choose."""
    heads = [f"{share:.0%}" for share in SHARES]
    lines = [f"| choice | mean | difference | {' | '.join(heads)} |", "|---" * (3 + len(heads)) + "|"]
    for way, values in result.means.items():
        gap, error = result.gap(way)
        cells = [f"{values.mean():.4f}", "" if way == PAPER else f"{gap:+.4f} ± {error:.4f}"]
        lines.append(f"| {way} | {' | '.join(cells + [f'{v:.4f}' for v in result.at[way].mean(axis=0)])} |")
    for way, values in result.plans.items():
        lines.append(f"| plans, {way} | | | {' | '.join(f'{v:.4f}' for v in values.mean(axis=0))} |")
    return [*lines, ""]


def verdicts(results: dict[str, Result]) -> list[str]:
    """Return the data on which each choice is better or worse than the paper's by more than a standard error."""
    lines = ["| choice | better on | worse on |", "|---|---|---|"]
    for way in next(iter(results.values())).means:
        if way != PAPER:
            gaps = {name: result.gap(way) for name, result in results.items()}
            better = [name for name, (gap, error) in gaps.items() if gap > error]
            worse = [name for name, (gap, error) in gaps.items() if gap < -error]
            lines.append(f"| {way} | {'; '.join(better) or 'none'} | {'; '.join(worse) or 'none'} |")
    return [*lines, ""]


def report(effort: Effort) -> Page:
    """Run everything and return the page."""
    with ProcessPoolExecutor(max_workers=os.cpu_count(), mp_context=get_context("spawn")) as pool:
        results = measure(effort, pool)
    page = Page([HEAD])
    page.add(*verdicts(results))
    for name, result in results.items():
        page.add(f"## {name}", "", *table(result))
    return page


if __name__ == "__main__":
    run(report, Effort(), QUICK, __doc__)
