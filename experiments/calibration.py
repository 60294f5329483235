"""Probabilities at every stage, with and without calibration on the held-out rows of the folds.

``python experiments/calibration.py --write docs/results/calibration.md``; ``--quick`` runs a tiny version. Tables are
read from the folder in the variable SHARED_DATA, by default ../shared/data, and from the package. For every
table and split, AnytimeClassifierCV is fitted to the training rows. On the held-out rows, four ways to calibrate are
compared with no calibration at every stage. All of them learn from out-of-fold scores of the training rows. The first
is what the library does. The second and third are beta calibration and Platt scaling (vector scaling and temperature
scaling for more than two classes) at every stage, whether it helps or not. The fourth is isotonic regression. With few
rows, part of the expected calibration error is due to chance: "over chance" is the difference between this error and
its mean for labels that are drawn from the predicted probabilities.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.special import softmax
from sklearn.isotonic import IsotonicRegression
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold, StratifiedShuffleSplit

from budgetline import AnytimeClassifierCV, FeatureGroups
from budgetline.budgets import points_of_stages
from budgetline.datasets import load_heart, load_mfeat, load_thyroid

ROOT = Path(__file__).resolve().parents[1]
sys.path.append(str(ROOT / "benchmarks"))
from core import print_report  # noqa: E402

SHARED = Path(os.environ.get("SHARED_DATA", ROOT.parent / "shared" / "data"))
FILES = {
    "titanic": ("zoo/titanic.csv", "Survived", ("PassengerId", "Name", "Ticket", "Cabin")),
    "hmeq": ("zoo/hmeq.csv", "BAD", ()),
    "telco": ("zoo/telco.csv", "Churn", ("customerID",)),
    "horse": ("zoo/horse.csv", "outcome", ("hospital_number",)),
    "spam": ("field/spam.csv.gz", "Outcome", ()),
    "physionet": ("field/physionet.csv.gz", "Outcome", ()),
    "bank": ("field/bank.csv.gz", "y", ("duration",)),
}
"""File, target, and columns that are left out: row names, and values that are known only afterwards."""
BINS = 15
TINY = 1e-15
ISOTONIC = 1e-3
"""Probabilities from isotonic regression stay this far from 0 and 1, so that the log loss is finite."""
METHODS = ("none", "library", "beta", "Platt", "isotonic")
METRICS = ("log loss", "Brier", "ECE", "ECE over chance")
DRAWS = 10
"""How often labels are drawn from the predicted probabilities, for the error of a perfect model."""


@dataclass(frozen=True)
class Effort:
    """Names of the tables, numbers of splits, most training rows, and whether every column is encoded.

    ``more`` splits are for tables under 1,000 rows.
    """

    tables: tuple[str, ...]
    splits: int
    more: int
    rows: int
    encoding: str | None = "spline"


FULL = Effort(
    ("heart", "titanic", "hmeq", "telco", "spam", "physionet", "bank", "thyroid", "horse", "mfeat"), 5, 20, 2000
)
QUICK = Effort(("heart",), 2, 2, 200, None)


def load(name: str) -> tuple[object, np.ndarray, object]:
    """Return a table, its labels and its groups; None: every column costs 1."""
    if name in FILES:
        file, target, left_out = FILES[name]
        table = pd.read_csv(SHARED / file).dropna(subset=[target])
        return table.drop(columns=[target, *left_out]), table[target].to_numpy(), None
    data = {"heart": load_heart, "thyroid": load_thyroid, "mfeat": load_mfeat}[name]()
    return data.data, np.asarray(data.target), data.feature_groups


def measures(P: np.ndarray, codes: np.ndarray) -> tuple[float, float, float]:
    """Return log loss, Brier score (half the sum over classes) and expected calibration error of probabilities."""
    n = len(codes)
    truth = np.eye(P.shape[1])[codes]
    loss = -np.log(np.maximum(P[np.arange(n), codes], TINY)).mean()
    brier = ((P - truth) ** 2).sum(axis=1).mean() / 2
    eces = []
    for k in range(1 if P.shape[1] == 2 else 0, P.shape[1]):
        bins = np.minimum((P[:, k] * BINS).astype(int), BINS - 1)
        gap = np.bincount(bins, P[:, k] - truth[:, k], BINS)
        eces.append(np.abs(gap).sum() / n)
    return loss, brier, float(np.mean(eces))


def chance_of(P: np.ndarray) -> float:
    """Return the mean expected calibration error of labels that are drawn from the probabilities."""
    rng, last = np.random.default_rng(0), P.shape[1] - 1
    edges = np.cumsum(P, axis=1)[:, :last]
    draws = ((rng.random((len(P), 1)) > edges).sum(axis=1) for _ in range(DRAWS))
    return float(np.mean([measures(P, codes)[2] for codes in draws]))


def probabilities(scores: np.ndarray) -> np.ndarray:
    """Return the probabilities of scores (n,) or (n, P)."""
    return softmax(np.column_stack([np.zeros_like(scores), scores]) if scores.ndim == 1 else scores, axis=1)


def with_beta(scores: np.ndarray, codes: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
    """Beta calibration of log odds; vector scaling of the scores of several classes."""
    if scores.ndim > 1:
        return _logistic(lambda s: s, scores, codes)
    free, logs = [0, 1], lambda s: np.column_stack([-np.logaddexp(0, -s), np.logaddexp(0, s)])
    while True:
        model = LogisticRegression(C=1e6, max_iter=2000).fit(logs(scores)[:, free], codes)
        if model.coef_.min() >= 0 or len(free) == 1:
            return lambda s: model.predict_proba(logs(s)[:, free])
        free.pop(int(model.coef_[0].argmin()))


def with_platt(scores: np.ndarray, codes: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
    """Platt scaling of log odds; a temperature for the scores of several classes."""
    if scores.ndim == 1:
        return _logistic(lambda s: s[:, None], scores, codes)
    slopes = np.geomspace(0.2, 5, 200)
    best = min(slopes, key=lambda slope: measures(probabilities(slope * scores), codes)[0])
    return lambda s: probabilities(best * s)


def _logistic(
    design: Callable[[np.ndarray], np.ndarray], scores: np.ndarray, codes: np.ndarray
) -> Callable[[np.ndarray], np.ndarray]:
    model = LogisticRegression(C=1e6, max_iter=2000).fit(design(scores), codes)
    return lambda s: model.predict_proba(design(s))


def with_isotonic(scores: np.ndarray, codes: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
    """Isotonic regression, of each class against the others, divided by their sum."""
    P = probabilities(scores)
    own = [IsotonicRegression(out_of_bounds="clip").fit(P[:, k], codes == k) for k in range(P.shape[1])]

    def calibrated(s: np.ndarray) -> np.ndarray:
        P = probabilities(s)
        found = np.column_stack([each.predict(P[:, k]) for k, each in enumerate(own)])
        found = np.clip(found, ISOTONIC, 1 - ISOTONIC)
        return found / found.sum(axis=1, keepdims=True)

    return calibrated


def one_split(table: object, y: np.ndarray, groups: object, train: np.ndarray, test: np.ndarray, effort: Effort):
    """Return the measures (methods, stages, 4) on held-out rows, and which stages the library calibrates."""
    rows = (lambda t, k: t.iloc[k]) if hasattr(table, "iloc") else (lambda t, k: t[k])
    raw = effort.encoding if hasattr(table, "iloc") else None
    groups = groups if groups is not None else FeatureGroups({name: [name] for name in table.columns})
    model = AnytimeClassifierCV(groups, rule="omp", encoding=raw, alphas=[1e-4, 1e-3, 1e-2, 1e-1])
    X, labels = rows(table, train), y[train]
    model.fit(X, labels)
    codes, held = np.searchsorted(model.classes_, labels), np.searchsorted(model.classes_, y[test])
    costs = np.append(0.0, model.sequence_.cumulative_costs)
    parts, order = [], []
    for fit, out in StratifiedKFold(5).split(np.zeros(len(labels)), labels):
        fold = model.chosen().fit(rows(X, fit), labels[fit])
        at = points_of_stages(costs, np.append(0.0, fold.sequence_.cumulative_costs))
        scores = [fold.decision_function(rows(X, out), stage=0), *fold.staged_decision_function(rows(X, out))]
        parts.append(np.stack(scores)[at])
        order.append(out)
    known, codes = np.concatenate(parts, axis=1), codes[np.concatenate(order)]
    new = [model.decision_function(rows(table, test), stage=0), *model.staged_decision_function(rows(table, test))]
    own = [model.predict_proba(rows(table, test), stage=0), *model.staged_predict_proba(rows(table, test))]
    found = np.empty((len(METHODS), costs.size - 1, len(METRICS)))
    for stage in range(1, costs.size):
        plain = probabilities(new[stage])
        learned = [each(known[stage], codes)(new[stage]) for each in (with_beta, with_platt, with_isotonic)]
        for k, P in enumerate([plain, own[stage], *learned]):
            own_measures = measures(P, held)
            found[k, stage - 1] = (*own_measures, own_measures[2] - chance_of(P))
    calibrated = 0 if model.model_.calibration is None else model.model_.calibration.calibrated.size
    return found, calibrated / (costs.size - 1)


def of_table(name: str, effort: Effort) -> tuple[np.ndarray, float]:
    """Return measures (splits, methods, points, 4) at ten points of the order, and the share of calibrated stages."""
    table, y, groups = load(name)
    size = min(effort.rows, int(0.7 * len(y)))
    number = effort.more if len(y) < 1000 else effort.splits
    splits = StratifiedShuffleSplit(number, train_size=size, test_size=min(5000, len(y) - size), random_state=0)
    results = [one_split(table, y, groups, *split, effort) for split in splits.split(np.zeros(len(y)), y)]
    points = np.linspace(0, 1, 10)
    at = [np.round(points * (found.shape[1] - 1)).astype(int) for found, _ in results]
    return np.stack([r[0][:, k] for r, k in zip(results, at, strict=True)]), float(np.mean([r[1] for r in results]))


def report(effort: Effort) -> list[str]:
    """Return the page."""
    measured = {}
    for name in effort.tables:
        measured[name] = of_table(name, effort)
        print(
            name, measured[name][0].mean(axis=(0, 2)).round(4).tolist(), measured[name][1], file=sys.stderr, flush=True
        )
    return page(measured, effort)


def page(measured: dict[str, tuple[np.ndarray, float]], effort: Effort) -> list[str]:
    """Return the lines of the page."""
    worse, better, halved, off, total, above, less = [], 0, 0, 0, 0, 0, 0
    for name, (each, _) in measured.items():
        change = each[:, 1] - each[:, 0]
        error = change.std(axis=0, ddof=1) / np.sqrt(len(each))
        mean = change.mean(axis=0)
        worse += [
            f"| {name} | {k + 1} | {METRICS[m]} | {mean[k, m]:+.4f} ± {error[k, m]:.4f} |"
            for k, m in np.argwhere(mean[:, :2] > error[:, :2] + 1e-12).tolist()
        ]
        better += int((mean[:, 0] < -error[:, 0]).sum())
        total += len(mean)
        was = each[:, 0, :, 2].mean(axis=0)
        off += int((was > 0.03).sum())
        halved += int((each[:, 1, :, 2].mean(axis=0)[was > 0.03] <= was[was > 0.03] / 2).sum())
        over, now = (each[:, k, :, 3].mean(axis=0) for k in (0, 1))
        above += int((over > 0.01).sum())
        less += int((now[over > 0.01] <= over[over > 0.01] / 2).sum())
    losses = {
        m: [np.mean([e[0][:, k, :, j].mean() for e in measured.values()]) for k in range(5)]
        for j, m in enumerate(METRICS)
    }
    lines = [
        "# Calibrated probabilities at every stage",
        "",
        f"Averaged over {len(measured)} tables, the log loss is {losses['log loss'][0]:.4f} without calibration and "
        f"{losses['log loss'][1]:.4f} with calibration on the folds of the hyperparameter search. Calibration lowers "
        f"the log loss by more than a standard error at {better} of {total} points (ten points along the order of "
        f"each table). It raises the log loss or the Brier score by more than a standard error in {len(worse)} cases.",
        "",
        f"At {off} points, the expected calibration error is above 0.03 without calibration, and calibration halves "
        f"it at {halved or 'none'} of them. Most of this error is due to chance, because on a finite number of rows, "
        "even a perfect model has a positive calibration error. On average, the part of the error that is not due to "
        f"chance is {losses['ECE over chance'][0]:.4f} without calibration and {losses['ECE over chance'][1]:.4f} "
        f"with it. This part is above 0.01 at {above} points without calibration, and calibration halves it at "
        f"{less or 'none'} of them.",
        "",
        "Made by `python experiments/calibration.py --write docs/results/calibration.md`.",
        "",
        f"Each table is split {effort.splits} times into training and test rows ({effort.more} times if it has fewer "
        f"than 1,000 rows), with at most {effort.rows:,} training rows. Raw tables are encoded with splines. Values "
        "are means over ten points of the order, evenly spaced from the first stage to the last.",
        "",
        '*library* is `calibration="auto"`; the three columns to its right show methods that calibrate every stage. '
        "With more than two classes, *beta* is vector scaling and *Platt* is temperature scaling. The mean log loss "
        f"with these three methods is {losses['log loss'][2]:.4f} (beta), {losses['log loss'][3]:.4f} (Platt) and "
        f"{losses['log loss'][4]:.4f} (isotonic). *ECE* is the expected calibration error. *ECE over chance* is the "
        "ECE minus the mean ECE for labels that are drawn from the predicted probabilities.",
        "",
    ]
    for j, metric in enumerate(METRICS):
        lines += [f"## {metric}", "", "| table | " + " | ".join(METHODS) + " | library − none | stages calibrated |"]
        lines += ["|---|" + "---|" * (len(METHODS) + 2)]
        for name, (each, share) in measured.items():
            mean = each[..., j].mean(axis=(0, 2))
            change = (each[:, 1, :, j] - each[:, 0, :, j]).mean(axis=1)
            error = change.std(ddof=1) / np.sqrt(len(change))
            cells = [f"{value:.4f}" for value in mean] + [f"{change.mean():+.4f} ± {error:.4f}", f"{share:.0%}"]
            lines.append(f"| {name} | " + " | ".join(cells) + " |")
        lines.append("")
    lines += ["## Points at which calibration is worse by more than a standard error", ""]
    head = ["| table | point | measure | library − none |", "|---|---|---|---|"]
    lines += [*head, *worse] if worse else ["There are none."]
    return [*lines, ""]


if __name__ == "__main__":
    print_report(report, FULL, QUICK, __doc__)
