"""Predictions of classifiers from any groups, and what further groups gain: compared with refits on the same columns.

``python experiments/subsets.py --write docs/results/subsets.md``; ``--quick`` runs a tiny version. Titanic, hmeq,
telco, horse and loans are read from the folder that the variable ZOO_DATA names, by default ../shared/data/zoo, and
left out without it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.stats import spearmanr
from sklearn.datasets import load_breast_cancer
from sklearn.metrics import log_loss
from sklearn.model_selection import StratifiedKFold, train_test_split

from budgetline import AnytimeClassifier
from budgetline.datasets import load_bank, load_heart

ROOT = Path(__file__).resolve().parents[1]
sys.path.append(str(ROOT / "benchmarks"))
from core import print_report  # noqa: E402

ZOO = Path(os.environ.get("ZOO_DATA", ROOT.parent / "shared" / "data" / "zoo"))
TARGETS = {
    "titanic": ("Survived", ["PassengerId", "Name", "Ticket"]),
    "hmeq": ("BAD", []),
    "telco": ("Churn", ["customerID"]),
    "horse": ("outcome", ["hospital_number"]),
    "loans": ("Interest.Rate", []),
}
"""Targets of the raw tables, and columns that are names or numbers of rows."""
SMALL, WORTH, MISSED = 1e-6, 0.02, 0.1
"""An alpha that hardly regularises; the least gain of a refit that counts; the share of it below which it is missed."""

Data = tuple[pd.DataFrame, np.ndarray]


@dataclass(frozen=True)
class Effort:
    """Names of the tables, sets of columns to predict from, sets to rank further columns from, folds, rows at most."""

    names: tuple[str, ...]
    subsets: int
    starts: int
    folds: int
    rows: int


def _zoo(name: str) -> Data | None:
    """Return a raw table, None if it is not on this machine."""
    path, (target, ids) = ZOO / f"{name}.csv", TARGETS[name]
    if not path.exists():
        return None
    table = pd.read_csv(path, na_values=[" "]).drop(columns=ids)
    table = table[table[target].notna()]
    y = table.pop(target).to_numpy()
    if name == "loans":  # above the median or not
        rate = np.array([float(text.rstrip("%")) for text in y])
        return table, (rate > np.median(rate)).astype(int)
    return table, y


def _inside(load: Callable[[], object]) -> Data:
    data = load()
    return pd.DataFrame(data.data, columns=[str(name) for name in data.feature_names]), np.asarray(data.target)


def _line() -> Data:
    """Return a table whose classes are separated by a line."""
    rng = np.random.default_rng(2)
    X = rng.normal(size=(600, 8)) @ (np.eye(8) + 0.3 * rng.normal(size=(8, 8)))
    return pd.DataFrame(X, columns=[f"x{d}" for d in range(8)]), (X @ rng.normal(size=8) > 0.3).astype(int)


def _kidney() -> Data:
    """Return a table like that of chronic kidney disease: some columns nearly tell the classes, values are missing."""
    rng = np.random.default_rng(3)
    y = (rng.random(400) < 0.6).astype(int)
    columns: dict[str, np.ndarray] = {}
    for d, shift in enumerate([4, 3, 2.5, 2, 1.5, 1, 0.7, 0.4, 0.2, 0, 0]):
        columns[f"lab{d}"] = np.exp((shift * y + rng.normal(size=400)) / 2)
    for d, chance in enumerate([0.8, 0.6, 0.4, 0.3, 0.1]):
        columns[f"sign{d}"] = np.where((rng.random(400) < chance) & (y == 1), "yes", "no").astype(object)
    table = pd.DataFrame(columns)
    return table.mask(rng.random(table.shape) < 0.15), y


INSIDE: dict[str, Callable[[], Data]] = {
    "breast cancer": lambda: _inside(load_breast_cancer),
    "heart": lambda: _inside(load_heart),
    "bank": lambda: _inside(load_bank),
    "separated by a line": _line,
    "like kidney disease": _kidney,
}
FULL = Effort((*TARGETS, *INSIDE), 16, 4, 5, 3000)
QUICK = Effort(("heart", "separated by a line"), 2, 1, 2, 300)


@dataclass(frozen=True)
class Measured:
    """What was measured on one table with one alpha.

    Attributes
    ----------
    losses : array of shape (subsets, 3)
        Log loss on new rows: of the class frequencies, of the prediction from a set of columns, of a refit on them.
    gains : list of arrays of shape (columns, 2)
        For every set available: what further columns gain by ``next_groups`` and by refits.
    """

    losses: np.ndarray
    gains: list[np.ndarray]


def fitted(columns: object, X: pd.DataFrame, y: np.ndarray, alpha: float | str) -> AnytimeClassifier:
    """Fit a classifier of groups of columns; None: one group per column."""
    return AnytimeClassifier(columns, encoding="linear", rule="omp", alpha=alpha).fit(X, y)


def measured(data: Data, alpha: float | str, effort: Effort) -> Measured:
    """Compare random sets of columns with refits."""
    X, y = data
    if len(X) > effort.rows:
        X, _, y, _ = train_test_split(X, y, train_size=effort.rows, random_state=0, stratify=y)
    rng, names = np.random.default_rng(0), list(X.columns)
    sizes = [1 + round((len(names) - 2) * k / (effort.subsets - 1)) for k in range(effort.subsets)]
    subsets = [sorted(rng.choice(names, size, replace=False)) for size in sizes]
    folds = StratifiedKFold(effort.folds, shuffle=True, random_state=0).split(X, y)
    losses = [losses_on((X.iloc[a], y[a]), (X.iloc[b], y[b]), subsets, alpha) for a, b in folds]
    starts = [
        sorted(rng.choice(names, len(names) * k // (2 * effort.starts), replace=False)) for k in range(effort.starts)
    ]
    model = fitted(None, X, y, alpha)
    return Measured(np.mean(losses, axis=0), [gains_from(model, own, X, y) for own in starts])


def losses_on(train: Data, test: Data, subsets: list[list[str]], alpha: float | str) -> np.ndarray:
    """Return log losses on new rows, shape (subsets, 3): of the class frequencies, of predictions, of refits."""
    (X, y), (X_new, y_new), model = train, test, fitted(None, *train, alpha)
    classes, counts = np.unique(y, return_counts=True)

    def loss(found: AnytimeClassifier, **choice: object) -> float:
        return float(log_loss(y_new, found.predict_proba(X_new, **choice), labels=classes))

    prior = log_loss(y_new, np.tile(counts / len(y), (len(y_new), 1)), labels=classes)
    return np.array(
        [[prior, loss(model, available=own), loss(fitted({"all": own}, X[own], y, "auto"))] for own in subsets]
    )


def gains_from(model: AnytimeClassifier, own: list[str], X: pd.DataFrame, y: np.ndarray) -> np.ndarray:
    """Return gains of all other columns, shape (columns, 2): by ``next_groups``, and by refits with the same alpha."""
    found = model.next_groups(own)
    alpha = model.model_.alpha

    def value(columns: list[str]) -> float:
        return float(fitted({"all": columns}, X[columns], y, alpha).sequence_.gains.sum()) if columns else 0.0

    before = value(own)
    return np.column_stack([found.gains, [value([*own, name]) - before for name in found.groups]])


def row_of(name: str, alpha: str, found: Measured) -> list[str]:
    """Return the cells of one table."""
    prior, any_set, refit = found.losses.T
    gains = np.vstack(found.gains)
    worth = gains[gains[:, 1] > WORTH]
    missed = np.sum(worth[:, 0] < MISSED * worth[:, 1])
    ratio = f"{np.median(worth[:, 0] / worth[:, 1]):.2f}" if len(worth) else "–"
    ranks = np.mean([spearmanr(*each.T).statistic for each in found.gains])
    return [
        name,
        alpha,
        f"{prior[0]:.3f}",
        f"{np.mean(any_set):.3f}",
        f"{np.mean(refit):.3f}",
        f"{np.max(any_set - prior):+.4f}",
        f"{np.max(refit - prior):+.4f}",
        f"{share_of(found):.1%}",
        f"{ranks:.2f}",
        ratio,
        f"{missed} of {len(worth)}",
    ]


def share_of(found: Measured) -> float:
    """Return the share of what refits gain over the frequencies that predictions from the same sets gain."""
    prior, any_set, refit = found.losses.mean(axis=0)
    return float((prior - any_set) / (prior - refit))


def report(effort: Effort) -> list[str]:
    """Return the page."""
    rows, all_found, shares = [], [], []
    for name in effort.names:
        data = INSIDE[name]() if name in INSIDE else _zoo(name)
        for alpha in () if data is None else ("auto", SMALL):
            found = measured(data, alpha, effort)
            rows.append(row_of(name, f"{alpha}", found))
            print(*rows[-1], sep=" | ", file=sys.stderr, flush=True)
            all_found.append(found)
            shares.append(share_of(found))
    return page(rows, all_found, np.array(shares), effort)


def page(rows: list[list[str]], found: list[Measured], shares: np.ndarray, effort: Effort) -> list[str]:
    """Return the lines of the page: what can be quoted, then the table."""
    over, over_refit = np.max([(each.losses[:, 1:] - each.losses[:, :1]).max(axis=0) for each in found], axis=0)
    gains = np.vstack([each for one in found for each in one.gains])
    worth = gains[gains[:, 1] > WORTH]
    ratio = worth[:, 0] / worth[:, 1]
    head = [
        "data", "alpha", "frequencies", "any set", "refit", "worst over frequencies", "refit: worst", "share of gain",
        "rank correlation", "ratio", "missed",
    ]  # fmt: skip
    return [
        "# Predictions from any groups",
        "",
        "Made by `python experiments/subsets.py --write docs/results/subsets.md`.",
        "",
        "The gain of a refit on a set of columns is the log loss of the class frequencies on new rows minus the log "
        f"loss of the refitted model. Predictions from the same set achieve {shares.mean():.1%} of this gain on "
        f"average over {len(rows) // 2} tables, each with two values of alpha, and at least {shares.min():.1%} on "
        f"every table. In the worst case, the log loss exceeds the log loss of the class frequencies by {over:.4f} for "
        f"predictions and by {over_refit:.4f} for refits.",
        "",
        f"In {len(ratio)} cases, the gain of a refit with one more column is above {WORTH}. In these cases, the ratio "
        f"of the gain that `next_groups` estimates to the gain of the refit has a median of {np.median(ratio):.2f}, "
        f"and it is below a tenth in {int(np.sum(ratio < MISSED)) or 'none'} of them.",
        "",
        f"On each table, a classifier (linear encoding, rule `omp`) is fitted to at most {effort.rows:,} rows. Its "
        f"alpha is either chosen from the data or set to {SMALL}, which hardly regularises the model. The classifier "
        f"then predicts from {effort.subsets} random sets of columns of all sizes (with `available=`). For "
        "comparison, a classifier is refitted on each set and chooses its own alpha.",
        "",
        f"- *frequencies*, *any set* and *refit* are the log losses on new rows ({effort.folds} folds) of the class "
        "frequencies, the predictions and the refits, averaged over the sets.",
        "- *worst over frequencies* and *refit: worst* are the log loss of the worst set minus the log loss of the "
        "class frequencies, for predictions and for refits.",
        "- *share of gain* is the gain of the predictions over the class frequencies, divided by the gain of the "
        "refits.",
        "- *rank correlation* is the correlation between the gains estimated by `next_groups` and the gains of refits "
        f"with the same alpha, averaged over {effort.starts} sets of available columns, the first of which is empty.",
        "- *ratio* is the median of the gain estimated by `next_groups` divided by the gain of the refit, over the "
        f"columns for which the gain of the refit is above {WORTH}.",
        "- *missed* is the number of these columns for which `next_groups` estimates less than a tenth of the "
        "refit's gain.",
        "",
        f"| {' | '.join(head)} |",
        "|" + "---|" * len(head),
        *(f"| {' | '.join(row)} |" for row in rows),
        "",
    ]


if __name__ == "__main__":
    print_report(report, FULL, QUICK, __doc__)
