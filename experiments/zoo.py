"""The plain command on raw tables as people have them: ``budgetline fit FILE -t TARGET``, and nothing else.

``python experiments/zoo.py --write docs/results/zoo.md``; ``--quick`` runs a tiny version. The tables are read from the
folder that the variable ZOO_DATA names, by default ../shared/data/zoo. For every table the command runs on the whole
file, where its processor time is measured, and on the training rows of 5 shuffled folds. Models predict the held-out
rows at a few budgets and with all that was bought. Two others learn from the raw columns that were bought, untuned: a
linear pipeline (one-hot categories, standardised numbers, Ridge or LogisticRegression) and HistGradientBoosting. For
them numbers with signs were made numbers by hand.
"""

from __future__ import annotations

import os
import sys
import time
import warnings
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from io import StringIO
from itertools import combinations
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import r2_score, roc_auc_score
from sklearn.model_selection import KFold, StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from budgetline import load
from budgetline.cli import main

ROOT = Path(__file__).resolve().parents[1]
sys.path.append(str(ROOT / "benchmarks"))
from core import print_report  # noqa: E402

ZOO = Path(os.environ.get("ZOO_DATA", ROOT.parent / "shared" / "data" / "zoo"))
SEED = int(os.environ.get("ZOO_SEED", "0"))
"""The seed of the folds."""


@dataclass(frozen=True)
class Table:
    """A file, its target, the budgets in columns, and the options that a user must pass."""

    file: str
    target: str
    budgets: tuple[int, ...]
    classes: bool = False
    before: tuple[float, ...] = ()
    """Scores of splines without cross-validation on 2026-11-17, by SOURCE.txt."""
    options: tuple[str, ...] = field(default=())


TABLES = {
    "ames": Table("ames.csv", "SalePrice", (3, 10, 30), before=(0.821, 0.627, 0.567)),
    "horse": Table("horse.csv", "outcome", (2, 5, 12), classes=True, before=(0.742, 0.820, 0.814)),
    "titanic": Table("titanic.csv", "Survived", (2, 4, 7), classes=True, before=(0.833, 0.853, 0.848)),
    "hmeq": Table("hmeq.csv", "BAD", (2, 5, 10), classes=True, before=(0.874, 0.916, 0.929)),
    "telco": Table("telco.csv", "Churn", (2, 5, 10), classes=True, before=(0.801, 0.841, 0.849)),
    "loans": Table("loans.csv", "Interest.Rate", (2, 4, 8), before=(0.720, 0.800, 0.818)),
    "googleplay": Table("googleplay.csv", "Rating", (2, 4, 8), options=("--drop-missing-target",)),
    "bikes": Table("bikes_rent.csv", "cnt", (2, 4, 8), before=(0.739, 0.841, 0.878)),
    "students": Table("student-mat.csv", "G3", (2, 5, 12), before=(0.145, 0.138, 0.120)),
    "golub": Table("golub.csv.gz", "label", (2, 5, 12), classes=True),
}


@dataclass(frozen=True)
class Effort:
    """Names of the tables and the number of folds."""

    names: tuple[str, ...] = tuple(TABLES)
    folds: int = 5


QUICK = Effort(("titanic",), 2)


@dataclass(frozen=True)
class Outcome:
    """Scores on held-out rows, (folds, budgets and all): the command's, linear pipelines', boosting's.

    ``pairs`` counts the folds that chose pairs of columns; ``seconds`` is the processor time of the command on the
    whole table, all threads together: on two idle cores a clock shows no more.
    """

    name: str
    scores: np.ndarray
    linear: np.ndarray
    boosted: np.ndarray
    pairs: int
    bought: float
    seconds: float


def read(table: Table) -> pd.DataFrame:
    """Return a table as text, without the rows whose target is missing."""
    frame = pd.read_csv(ZOO / table.file, dtype=str, keep_default_na=False, encoding="utf-8-sig")
    frame = frame[~frame[table.target].isin(["", "NA", "NaN"])].reset_index(drop=True)
    return frame.drop(columns=["G1", "G2"], errors="ignore")  # grades before G3 would tell it


def plain(texts: pd.Series) -> pd.Series:
    """Return a column of numbers with signs as numbers, by hand; other columns as they are."""
    stripped = texts.str.strip().str.replace(r"[%$+, ]|months$", "", regex=True).replace("", np.nan)
    numbers = pd.to_numeric(stripped, errors="coerce")
    return numbers if numbers.notna().sum() >= 0.95 * stripped.notna().sum() else texts.replace("", np.nan)


def command(*arguments: object) -> None:
    """Run the command line, in this process: starting another takes longer than most predictions."""
    with redirect_stdout(StringIO()), redirect_stderr(StringIO()) as said:
        code = main([str(argument) for argument in arguments])
    if code:
        raise RuntimeError(f"budgetline {' '.join(map(str, arguments))}: {said.getvalue().strip()}")


def pipeline(classes: bool) -> BaseEstimator:
    """Return a linear pipeline, untuned."""
    numbers = make_pipeline(SimpleImputer(add_indicator=True), StandardScaler())
    words = OneHotEncoder(handle_unknown="ignore", min_frequency=5)
    columns = make_column_transformer(
        (numbers, make_column_selector(dtype_include=np.number)), (words, make_column_selector(dtype_exclude=np.number))
    )
    last = LogisticRegression(max_iter=1000) if classes else Ridge()
    return make_pipeline(columns, last)


def boosting(classes: bool) -> BaseEstimator:
    """Return gradient boosting with its defaults."""
    kind = HistGradientBoostingClassifier if classes else HistGradientBoostingRegressor
    return kind(categorical_features="from_dtype", random_state=0)


def score(table: Table, y: np.ndarray, predicted: np.ndarray) -> float:
    """Return AUC (one against the rest for several classes) or R²."""
    if not table.classes:
        return float(r2_score(y, predicted))
    if predicted.shape[1] == 2:
        return float(roc_auc_score(y, predicted[:, 1]))
    return float(roc_auc_score(y, predicted, multi_class="ovr"))


def evaluated(table: Table, estimator: BaseEstimator, X: pd.DataFrame, y: np.ndarray, split: object) -> float:
    """Fit another estimator on the training rows of some columns, and score it on the others."""
    train, test = split
    if not X.shape[1]:
        return float("nan")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fitted = estimator.fit(X.iloc[train], y[train])
    found = (fitted.predict_proba if table.classes else fitted.predict)(X.iloc[test])
    return score(table, y[test], found)


def splits(table: Table, y: np.ndarray, folds: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield shuffled folds, stratified for classes."""
    kind = StratifiedKFold if table.classes else KFold
    return kind(folds, shuffle=True, random_state=SEED).split(np.zeros(len(y)), y)


def measure(name: str, folds: int) -> Outcome:
    """Run the command on a table and on its folds."""
    table = TABLES[name]
    frame = read(table)
    others = frame.apply(plain)
    y = others.pop(table.target).to_numpy()
    if table.classes:
        y = y.astype(str)
    words = [column for column in others if not pd.api.types.is_numeric_dtype(others[column])]
    coded = others.assign(**{column: _few(others[column]) for column in words})
    found, pairs, bought = [], 0, []
    with TemporaryDirectory() as folder:
        train_file, test_file, model_file = (Path(folder) / each for each in ("train.csv", "test.csv", "m"))
        start = time.process_time()
        command("fit", ZOO / table.file, "-t", table.target, "-o", model_file, *table.options)
        seconds = time.process_time() - start
        for split in splits(table, y, folds):
            train, test = split
            frame.iloc[train].to_csv(train_file, index=False)
            frame.iloc[test].to_csv(test_file, index=False)
            command("fit", train_file, "-t", table.target, "-o", model_file)
            model = load(model_file)
            pairs += bool(model.model_.encoding is not None and model.model_.encoding.pairs)
            bought.append(sum(cost > 0 for cost in model.sequence_.costs))
            row = []
            for budget in (*table.budgets, None):
                own = predicted(table, model_file, test_file, budget, Path(folder))
                stage = len(model.sequence_) if budget is None else model.sequence_.stage_at(budget)
                columns = [group for group in model.sequence_.groups[:stage] if group in others]
                rival = evaluated(table, pipeline(table.classes), others[columns], y, split)
                trees = evaluated(table, boosting(table.classes), coded[columns], y, split)
                row.append((score(table, y[test], own), rival, trees))
            found.append(row)
    ours, linear, boosted = np.moveaxis(np.array(found), 2, 0)
    return Outcome(name, ours, linear, boosted, pairs, float(np.mean(bought)), seconds)


def _few(words: pd.Series) -> pd.Series:
    """Return words as categories, the 200 most frequent: boosting accepts no more than 255."""
    frequent = words.value_counts().index[:200]
    return words.where(words.isin(frequent)).astype("category")


def predicted(table: Table, model: Path, data: Path, budget: int | None, folder: Path) -> np.ndarray:
    """Return what the command predicts, with probabilities for classes."""
    out = folder / "predicted.csv"
    given = ["--budget", budget] if budget is not None else []
    command("predict", model, data, "-o", out, *given, *(["--proba"] if table.classes else []))
    frame = pd.read_csv(out)
    return frame.to_numpy() if table.classes else frame.iloc[:, 0].to_numpy()


def cell(values: np.ndarray) -> str:
    """Return the means of folds at every budget."""
    return " ".join(f"{value:.3f}" for value in values.mean(axis=0)).replace("0.", ".")


def falls(outcome: Outcome) -> float:
    """Return the largest fall from a stage to a later one, in standard errors of the difference; 0 if none falls."""
    worst = 0.0
    for k, later in combinations(range(outcome.scores.shape[1]), 2):
        change, error = difference(outcome.scores[:, later], outcome.scores[:, k])
        worst = max(worst, -change / error if error > 0 else 0.0)
    return worst


def difference(ours: np.ndarray, other: np.ndarray | float) -> tuple[float, float]:
    """Return the mean difference over folds, and its standard error."""
    change = ours - other
    return float(change.mean()), float(change.std(ddof=1) / np.sqrt(change.size))


def page(outcomes: list[Outcome]) -> list[str]:
    """Return the page."""
    lines = [
        "# Defaults on raw tables",
        "",
        "Made by `python experiments/zoo.py --write docs/results/zoo.md`.",
        "",
        *(f"- {line}" for line in summary(outcomes)),
        "",
        "Models are fitted by `budgetline fit FILE -t TARGET` without further options, on the training rows of 5 "
        "shuffled folds. `budgetline predict --budget B` predicts the held-out rows. Every column costs 1; scores are "
        "AUC (one-vs-rest) for classification and R² for regression.",
        "",
        "*linear* and *boosting* are untuned scikit-learn pipelines on the columns that budgetline bought. *earlier "
        'splines* is `encoding="spline"` as of 2026-11-17, without cross-validation. *largest fall* is the largest '
        "drop in the score from one budget to a larger one, in units of the standard error of the difference. "
        "*seconds* is the processor time of the command on a whole table.",
        "",
        "The smallest penalty for products of columns (`LEAST_PENALTY`) was chosen among five values on these "
        "folds of hmeq and titanic, so the results on these two tables are slightly optimistic. The earlier splines "
        "were measured only once, so the comparison with them uses the standard error of budgetline's own folds.",
        "",
        "| table | budgets | budgetline | earlier splines | linear | boosting | folds with pairs | columns bought | "
        "largest fall | seconds |",
        "|---|---|---|---|---|---|---:|---:|---:|---:|",
    ]
    for o in outcomes:
        table = TABLES[o.name]
        budgets = "/".join(map(str, table.budgets)) + "/all"
        before = " ".join(f"{value:.3f}" for value in table.before).replace("0.", ".")
        cells = (cell(o.scores), before, cell(o.linear), cell(o.boosted), o.pairs, f"{o.bought:.1f}", f"{falls(o):.1f}")
        lines.append(f"| {o.name} | {budgets} | {' | '.join(map(str, cells))} | {o.seconds:.0f} |")
    return lines


def in_words(names: list[str]) -> str:
    """Write names with commas and an "and"."""
    *most, last = names
    return f"{', '.join(most)} and {last}" if most else last


def behind(outcomes: list[Outcome], rival: str, margin: float) -> str:
    """Return how often, and where, the defaults are worse by more than a standard error and a margin."""
    found, cases = [], 0
    for o in outcomes:
        other = np.array(TABLES[o.name].before) if rival == "before" else getattr(o, rival)
        for k, budget in enumerate((*TABLES[o.name].budgets, "all")[: other.shape[-1]]):
            change, error = difference(o.scores[:, k], other[..., k])
            cases += 1
            if change < -max(error, margin):
                found.append(f"{o.name} with {budget} columns ({change:+.3f} ± {error:.3f})")
    where = f": {in_words(found)}" if found else ""
    return f"{len(found)} of {cases} cases{where}"


def summary(outcomes: list[Outcome]) -> list[str]:
    """Return the conclusions: against linear pipelines, earlier splines and boosting; falls; seconds."""
    paired = [o for o in outcomes if o.pairs]
    others = [o.name for o in outcomes if not o.pairs]
    fallen = [f"{o.name} ({falls(o):.1f})" for o in outcomes if falls(o) > 2]
    slowest = max(outcomes, key=lambda o: o.seconds)
    return [
        "Compared with a linear pipeline on the same columns, the defaults are worse by more than one standard error "
        f"in {behind(outcomes, 'linear', 0.0)}.",
        "Compared with the splines of an earlier version, they are worse by more than one standard error in "
        f"{behind([o for o in outcomes if TABLES[o.name].before], 'before', 0.0)}.",
        "Compared with gradient boosting on the same columns, they are worse by more than one standard error and "
        f"more than .01 in {behind(paired, 'boosted', 0.01)}. Only tables on which pairs of columns were "
        "chosen in at least one fold are counted."
        + (f" No pairs were chosen on {' or '.join(others)}." if others else ""),
        "A larger budget lowers the score by more than two standard errors on "
        f"{in_words(fallen) if fallen else 'no table'}.",
        f"Running the command on a whole table takes at most {slowest.seconds:.0f} seconds of processor time "
        f"({slowest.name}).",
    ]


def report(effort: Effort) -> list[str]:
    """Measure the tables, one per two cores at a time, say how it goes, and return the page."""
    found = []
    with ProcessPoolExecutor(max(1, (os.cpu_count() or 2) // 2), get_context("spawn")) as pool:
        for outcome in pool.map(measure, effort.names, [effort.folds] * len(effort.names)):
            found.append(outcome)
            cells = (cell(outcome.scores), "linear", cell(outcome.linear), "boosting", cell(outcome.boosted))
            print(outcome.name, *cells, f"{outcome.seconds:.0f} s", file=sys.stderr, flush=True)
    return [*page(found), ""]


if __name__ == "__main__":
    print_report(report, Effort(), QUICK, __doc__)
