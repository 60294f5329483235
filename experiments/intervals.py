"""Coverage and width of 90 % intervals, and coverage and size of 90 % sets of labels, at every budget.

``python experiments/intervals.py --write docs/results/intervals.md``; ``--quick`` runs a tiny version. Tables are read
from the folder that the variable SHARED_DATA names, by default ../shared/data, and from the package; "generated" is
y = 3x_1 + 2x_2 + x_3 + (0.2 + |x_1|)·ε in 8 columns. AnytimeRegressorCV and AnytimeClassifierCV learn from the training
rows of random splits. They are compared with split conformal prediction of scikit-learn's histogram gradient boosting
on all columns: a quarter of the training rows calibrates it.
"""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import OrdinalEncoder

from budgetline import AnytimeClassifierCV, AnytimeRegressorCV, FeatureGroups
from budgetline.datasets import load_heart, load_nhanes, load_thyroid

ROOT = Path(__file__).resolve().parents[1]
sys.path.append(str(ROOT / "benchmarks"))
from core import print_report  # noqa: E402

SHARED = Path(os.environ.get("SHARED_DATA", ROOT.parent / "shared" / "data"))
FILES = {
    "bikes": ("zoo/bikes_rent.csv", "cnt", ()),
    "ames": ("zoo/ames.csv", "SalePrice", ("Order", "PID")),
    "telco": ("zoo/telco.csv", "Churn", ("customerID",)),
    "spam": ("field/spam.csv.gz", "Outcome", ()),
}
"""File, target, and columns left out: names of rows."""
COVERAGE = 0.9
WITHIN = (0.88, 0.92)
BOOSTED = 4
"""Gradient boosting, which takes longest, learns on the first splits only."""
POINTS = 8
"""Stages that are evaluated, from the first to the last, and stage 0."""
WHEN = {0: "before the first purchase", 1: "after the first purchase"}


@dataclass(frozen=True)
class Effort:
    """Numbers of splits by table, for numbers and for classes, and most training rows."""

    numbers: dict[str, int]
    classes: dict[str, int]
    rows: int


FULL = Effort(
    {"bikes": 10, "generated": 200, "nhanes": 4, "ames": 4}, {"heart": 20, "thyroid": 5, "telco": 4, "spam": 4}, 2500
)
QUICK = Effort({"generated": 3}, {"heart": 2}, 200)


def load(name: str, seed: int) -> tuple[object, np.ndarray, object]:
    """Return a table, its targets and its groups."""
    if name == "generated":
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(2000, 8))
        y = X[:, :3] @ [3, 2, 1] + (0.2 + np.abs(X[:, 0])) * rng.normal(size=2000)
        return X, y, None
    if name in FILES:
        file, target, left_out = FILES[name]
        table = pd.read_csv(SHARED / file, encoding="utf-8-sig").dropna(subset=[target])
        X = table.drop(columns=[target, *left_out])
        return X, table[target].to_numpy(), FeatureGroups({column: [column] for column in X.columns})
    data = {"heart": load_heart, "thyroid": load_thyroid, "nhanes": load_nhanes}[name]()
    return data.data, np.asarray(data.target), data.feature_groups


def numbers_of(table: object) -> np.ndarray:
    """Return a table as numbers for gradient boosting."""
    if not isinstance(table, pd.DataFrame):
        return np.asarray(table)
    text = table.select_dtypes(exclude="number")
    codes = (
        OrdinalEncoder(encoded_missing_value=-1).fit_transform(text.astype(str))
        if text.shape[1]
        else np.empty((len(table), 0))
    )
    return np.hstack([table.select_dtypes("number").to_numpy(float), codes])


def boosted(Z: np.ndarray, y: np.ndarray, train: np.ndarray, test: np.ndarray, *, classes: bool) -> tuple[float, float]:
    """Return coverage, and mean width or set size, of split conformal prediction."""
    fit, calibrate = train_test_split(train, test_size=0.25, random_state=0, stratify=y[train] if classes else None)
    rank = int(np.ceil((len(calibrate) + 1) * COVERAGE)) - 1
    if classes:
        model = HistGradientBoostingClassifier(random_state=0).fit(Z[fit], y[fit])
        codes = np.searchsorted(model.classes_, y)
        P = model.predict_proba(Z)
        most = np.sort(1 - P[calibrate, codes[calibrate]])[rank]
        members = 1 - P[test] <= most
        return float(members[np.arange(len(test)), codes[test]].mean()), float(members.sum(axis=1).mean())
    model = HistGradientBoostingRegressor(random_state=0).fit(Z[fit], y[fit])
    most = np.sort(np.abs(y - model.predict(Z))[calibrate])[rank]
    return float((np.abs(y - model.predict(Z))[test] <= most).mean()), float(2 * most)


def one_split(name: str, seed: int, effort: Effort, *, classes: bool) -> np.ndarray:
    """Return coverage and width at the points, then of gradient boosting, shape (2 + POINTS, 2)."""
    table, y, groups = load(name, seed)
    size = min(effort.rows, int(0.7 * len(y)))
    train, test = train_test_split(
        np.arange(len(y)), train_size=size, random_state=seed, stratify=y if classes else None
    )
    test = test[:4000]
    frame = isinstance(table, pd.DataFrame)
    settings = {"encoding": "spline" if frame else None, "alphas": [1e-4, 1e-3, 1e-2, 1e-1]}
    rows = (lambda k: table.iloc[k]) if frame else (lambda k: table[k])
    if classes:
        model = AnytimeClassifierCV(groups, rule="omp", **settings).fit(rows(train), y[train])
        codes = np.searchsorted(model.classes_, y[test])
    else:
        model = AnytimeRegressorCV(groups, **settings).fit(rows(train), y[train])
    found = []
    for stage in [0, *np.round(np.linspace(1, len(model.sequence_), POINTS)).astype(int)]:
        if classes:
            members = model.predict_set(rows(test), COVERAGE, stage=int(stage))
            found.append((members[np.arange(len(test)), codes].mean(), members.sum(axis=1).mean()))
        else:
            lower, upper = model.predict_interval(rows(test), COVERAGE, stage=int(stage))
            found.append((((lower <= y[test]) & (y[test] <= upper)).mean(), (upper - lower).mean()))
    peer = boosted(numbers_of(table), y, train, test, classes=classes) if seed < BOOSTED else (np.nan, np.nan)
    return np.array([*found, peer])


def in_words(names: list[str]) -> str:
    """Write names with commas and an "and"."""
    *most, last = names or ["no table"]
    return f"{', '.join(most)} and {last}" if most else last


def report(effort: Effort) -> list[str]:
    """Return the page."""
    found = {}
    for classes, tables in ((False, effort.numbers), (True, effort.classes)):
        for name, count in tables.items():
            found[name] = np.array([one_split(name, seed, effort, classes=classes) for seed in range(count)])
            print(name, np.nanmean(found[name], axis=0).round(3).tolist(), file=sys.stderr, flush=True)
    inside = {name: [WITHIN[0] <= c <= WITHIN[1] for c in each[:, :-1, 0].mean(axis=0)] for name, each in found.items()}

    def counted(names: list[str]) -> str:
        return f"{sum(sum(inside[n]) for n in names)} of {sum(len(inside[n]) for n in names)}"

    width = [found[n][:BOOSTED, -2, 1].mean() / found[n][:BOOSTED, -1, 1].mean() for n in effort.numbers]
    size = {n: np.nanmean(found[n][:, -2:, 1], axis=0) for n in effort.classes}
    smaller, larger = ([n for n in size if (size[n][0] < size[n][1]) == wanted] for wanted in (True, False))
    lines = [
        "# Intervals and sets at every budget",
        "",
        f"Intervals with a nominal coverage of 90 % cover 88 to 92 % of new rows at {counted(list(effort.numbers))} "
        f"budgets ({POINTS + 1} on each of {len(effort.numbers)} tables). The coverage of label sets is within this "
        f"range at {counted(list(effort.classes))} budgets ({POINTS + 1} on each of {len(effort.classes)} tables). "
        "The sets cover more rows before and just after the first purchase, when the model predicts only a few "
        "distinct probabilities.",
        "",
        "For comparison, split conformal prediction is applied to gradient boosting, with a quarter of the training "
        f"rows held out for calibration. budgetline's intervals based on all groups are {min(width):.2f} to "
        f"{max(width):.2f} times as wide as the intervals from boosting. Its label sets are smaller than the sets "
        f"from boosting on {in_words(smaller)}, and larger on {in_words(larger)}. The intervals from boosting have "
        "the same width for all rows. The width of budgetline's intervals depends on the prediction, but only if "
        "this makes the intervals narrower on average.",
        "",
        "Made by `python experiments/intervals.py --write docs/results/intervals.md`.",
        "",
        "The tables show means over random splits; for coverage, they also show standard errors. At most "
        f"{effort.rows} rows are used for training. Raw tables are encoded with splines. At stage 0, nothing has been "
        f"bought. The other {POINTS} stages are evenly spaced from the first stage to the last. Gradient boosting is "
        f"fitted only on the first {BOOSTED} splits.",
        "",
    ]
    for names, what in ((effort.numbers, "width"), (effort.classes, "classes in a set")):
        heads = ["0", "first", *[""] * (POINTS - 2), "last", "boosting, all columns"]
        for title, k in (("coverage", 0), (what, 1)):
            lines += [f"## {title.capitalize()}" + (" of sets" if what != "width" and k == 0 else ""), ""]
            lines += ["| table | splits | " + " | ".join(heads) + " |", "|---|---|" + "---|" * len(heads)]
            for name, count in names.items():
                values = found[name][:, :, k]
                error = np.nanstd(values, axis=0, ddof=1) / np.sqrt((~np.isnan(values)).sum(axis=0))
                cells = [
                    f"{v:.3f} ± {e:.3f}" if k == 0 else f"{v:.4g}"
                    for v, e in zip(np.nanmean(values, axis=0), error, strict=True)
                ]
                lines.append(f"| {name} | {count} | " + " | ".join(cells) + " |")
            lines.append("")
    outside = [
        f"| {name} | {WHEN.get(k, f'at stage {k} of the {POINTS} shown')} | {found[name][:, k, 0].mean():.3f} |"
        for name, each in inside.items()
        for k, fine in enumerate(each)
        if not fine
    ]
    lines += ["## Outside 88 to 92 %", ""]
    if not outside:
        return [*lines, "The coverage is between 88 and 92 % at every stage shown.", ""]
    said = "At the following stages, the mean coverage is outside the range of 88 to 92 %:"
    return [*lines, said, "", "| table | when | coverage |", "|---|---|---|", *outside, ""]


if __name__ == "__main__":
    print_report(report, FULL, QUICK, __doc__)
