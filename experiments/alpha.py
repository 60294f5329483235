"""Held-out loss of ``alpha="auto"`` compared with a five-fold cross-validation and with the default.

``python experiments/alpha.py --write docs/results/alpha.md``; ``--quick`` runs a tiny version. Spam, physionet and bank
are read from the folder in the variable FIELD_DATA (by default ../shared/data/field), and are left out if missing.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import pandas as pd
from sklearn.compose import make_column_transformer
from sklearn.impute import SimpleImputer
from sklearn.metrics import log_loss, mean_squared_error
from sklearn.model_selection import KFold, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, SplineTransformer

from budgetline import AnytimeClassifier, AnytimeRegressor, budget_curve, timeliness
from budgetline.datasets import load_heart, load_nhanes, load_thyroid

ROOT = Path(__file__).resolve().parents[1]
sys.path.append(str(ROOT / "benchmarks"))
from core import print_report  # noqa: E402

FIELD = Path(os.environ.get("FIELD_DATA", ROOT.parent / "shared" / "data" / "field"))
DEFAULT = 1e-5


@dataclass(frozen=True)
class Effort:
    """Names of the data, the number of splits of each, and the constants that cross-validation tries."""

    names: tuple[str, ...] = (
        "heart", "heart, splines", "thyroid", "NHANES", "NHANES, 500 rows", "spam", "spam, splines",
        "spam, splines, 800 rows", "physionet", "bank",
    )  # fmt: skip
    splits: int = 3
    alphas: tuple[float, ...] = tuple((10.0 ** np.arange(-5, 0.6, 0.5)).tolist())


QUICK = Effort(("heart", "NHANES, 500 rows"), 1, (1e-3, 1e-2, 1e-1))


@dataclass(frozen=True)
class Problem:
    """A table, its target, an encoder or None, and whether the target is a class."""

    X: Any
    y: np.ndarray
    encoder: Any
    classes: bool

    def loss(self, model: Any, X: np.ndarray, y: np.ndarray) -> float:
        """Return the log loss, or the mean squared error, of the model of all groups."""
        if self.classes:
            return float(log_loss(y, model.predict_proba(X), labels=model.classes_))
        return float(mean_squared_error(y, model.predict(X)))

    def estimator(self, groups: Any = None, alpha: float | str = DEFAULT) -> Any:
        """Return an estimator with groups, or of all columns as one group."""
        make = AnytimeClassifier if self.classes else AnytimeRegressor
        return make(groups, rule="omp", alpha=alpha)


def splines() -> SplineTransformer:
    """Return cubic splines with quantile knots."""
    return SplineTransformer(n_knots=7, degree=3, knots="quantile", extrapolation="constant")


def bunch(load: Callable[[], Any], classes: bool) -> tuple[Any, np.ndarray, Any, bool]:
    """Return the table and target of data that the library ships."""
    data = load()
    return np.asarray(data.data, dtype=float), np.asarray(data.target), None, classes


def field(name: str, target: str, encoder: Callable[[pd.DataFrame], Any]) -> tuple[Any, np.ndarray, Any, bool]:
    """Return the table and target of a file in the folder of field data."""
    frame = pd.read_csv(FIELD / f"{name}.csv.gz")
    y = frame.pop(target).to_numpy()
    return frame, y, encoder(frame), True


def bank_encoder(frame: pd.DataFrame, numbers: Any) -> Any:
    """Return an encoder of the numbers, and of the other columns by their categories."""
    numeric = frame.select_dtypes("number").columns.tolist()
    levels = OneHotEncoder(handle_unknown="ignore", sparse_output=False)
    return make_column_transformer((numbers, numeric), (levels, [c for c in frame if c not in numeric]))


def problem(name: str) -> Problem | None:
    """Return one of the problems; None if its file is missing."""
    base, curved = name.split(",")[0], "splines" in name
    if base in ("spam", "physionet", "bank") and not (FIELD / f"{base}.csv.gz").exists():
        return None
    if base == "spam":
        X, y, encoder, classes = field(base, "Outcome", lambda _: splines() if curved else None)
    elif base == "physionet":
        impute = SimpleImputer()
        X, y, encoder, classes = field(
            base, "Outcome", lambda _: make_pipeline(impute, splines()) if curved else impute
        )
    elif base == "bank":
        X, y, encoder, classes = field(base, "y", lambda f: bank_encoder(f, splines() if curved else "passthrough"))
    else:
        loaders = {"heart": load_heart, "thyroid": load_thyroid, "NHANES": load_nhanes}
        X, y, encoder, classes = bunch(loaders[base], base != "NHANES")
        encoder = splines() if curved else None
    if name.endswith("rows"):
        some = np.random.default_rng(0).permutation(len(y))[: int(name.split()[-2])]
        X, y = (X.iloc[some] if isinstance(X, pd.DataFrame) else X[some]), y[some]
    return Problem(X, y, encoder, classes)


def split(given: Problem, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return encoded training and test rows; the encoder has seen the training rows only."""
    labels = given.y if given.classes else None
    X, X_test, y, y_test = train_test_split(given.X, given.y, test_size=0.25, random_state=seed, stratify=labels)
    if given.encoder is not None:
        X, X_test = given.encoder.fit_transform(X), given.encoder.transform(X_test)
    return np.asarray(X, dtype=float), np.asarray(X_test, dtype=float), y, y_test


def by_folds(given: Problem, X: np.ndarray, y: np.ndarray, alphas: tuple[float, ...]) -> float:
    """Return the constant with the smallest loss of the model of all columns over five folds."""
    together, losses = [list(range(X.shape[1]))], np.zeros(len(alphas))
    for train, test in KFold(5, shuffle=True, random_state=0).split(X):
        for k, alpha in enumerate(alphas):
            model = given.estimator(together, alpha).fit(X[train], y[train])
            losses[k] += len(test) * given.loss(model, X[test], y[test])
    return alphas[int(np.argmin(losses))]


def measured(given: Problem, seed: int, alphas: tuple[float, ...]) -> dict[str, float]:
    """Return constants, losses, means over budgets (every column costs 1) and seconds of one split."""
    X, X_test, y, y_test = split(given, seed)
    together = [list(range(X.shape[1]))]
    begin = perf_counter()
    auto = given.estimator(together, "auto").fit(X, y)
    between = perf_counter()
    chosen = by_folds(given, X, y, alphas)
    found = {"columns": X.shape[1], "seconds": between - begin, "CV seconds": perf_counter() - between}
    found |= {"auto alpha": auto.alpha_, "CV alpha": chosen}
    constants = {"auto": auto.alpha_, "CV": chosen, "default": DEFAULT}
    for name, alpha in constants.items():
        found[name] = given.loss(given.estimator(together, alpha).fit(X, y), X_test, y_test)
    if X.shape[1] <= 100:
        for name in ("auto", "CV"):
            model = given.estimator(None, constants[name]).fit(X, y)
            found[f"{name} budgets"] = timeliness(budget_curve(model, X_test, y_test))
    return found


def row(name: str, given: Problem, effort: Effort) -> str:
    """Return a line of the table."""
    found = pd.DataFrame([measured(given, seed, effort.alphas) for seed in range(effort.splits)])
    excess = 100 * (found["auto"] / found["CV"] - 1)
    error = excess.std() / np.sqrt(len(excess)) if len(excess) > 1 else 0.0
    mean, middle = found.mean(), found.median()
    budgets = f"{mean['auto budgets']:.4f} / {mean['CV budgets']:.4f}" if "auto budgets" in found else ""
    cells = [
        name,
        f"{int(0.75 * len(given.y)):,} × {int(middle['columns'])}",
        f"{middle['auto alpha']:.1e}",
        f"{middle['CV alpha']:.1e}",
        f"{mean['auto']:.4f}",
        f"{mean['CV']:.4f}",
        f"{mean['default']:.4f}",
        f"{excess.mean():+.1f} ± {error:.1f} %",
        budgets,
        f"{mean['seconds']:.2f} / {mean['CV seconds']:.1f}",
    ]
    print(f"… {' | '.join(cells)}", file=sys.stderr, flush=True)
    return f"| {' | '.join(cells)} |"


def report(effort: Effort) -> list[str]:
    """Return the page."""
    problems = {name: problem(name) for name in effort.names}
    missing = [name for name, given in problems.items() if given is None]
    return [
        '# `alpha="auto"`',
        "",
        "Made by `python experiments/alpha.py --write docs/results/alpha.md`.",
        "",
        "The losses are held-out log losses (for NHANES, mean squared errors) of the model with all columns. They "
        f"are means over {effort.splits} random splits, each of which holds out a quarter of the rows. *auto* is "
        f"`alpha='auto'`, and *CV* is the best of {len(effort.alphas)} constants in five-fold cross-validation on the "
        f"training rows. The third constant is fixed at {DEFAULT:g}. In the table, each constant is the median over "
        "the splits.",
        "",
        "*excess* is the relative difference between the loss with auto and the loss with CV (mean over the splits ± "
        "standard error). *budgets* shows, for each of these two constants, the explained share averaged over all "
        "budgets. It is computed for the rule `omp` with every column as its own group, and only for tables with at "
        "most 100 columns. *seconds* shows the time of the fit with auto and the time of the cross-validation.",
        "",
        "| data | rows × columns | auto | CV | loss, auto | loss, CV | loss, 1e-5 | excess | budgets, auto / CV "
        "| seconds |",
        "|---|---|---|---|---|---|---|---|---|---|",
        *(row(name, given, effort) for name, given in problems.items() if given is not None),
        "",
        *([f"These data are left out because their files are missing: {', '.join(missing)}.", ""] if missing else []),
    ]


if __name__ == "__main__":
    print_report(report, Effort(), QUICK, __doc__)
