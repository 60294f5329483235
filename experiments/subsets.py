"""Answers of classifiers from any groups: before and after recalibration, beside refits on the same groups.

``python experiments/subsets.py --write docs/results/subsets.md``; ``--quick`` runs a tiny version. Spam and physionet
are read from the folder that the variable FIELD_DATA names, by default ../shared/data/field, and left out without it.
"""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.metrics import log_loss, roc_auc_score
from sklearn.model_selection import train_test_split

from budgetline import AnytimeClassifier
from budgetline.datasets import load_heart

ROOT = Path(__file__).resolve().parents[1]
sys.path.append(str(ROOT / "benchmarks"))
from core import print_report  # noqa: E402

FIELD = Path(os.environ.get("FIELD_DATA", ROOT.parent / "shared" / "data" / "field"))
SHARES = (0.2, 0.5, 0.8)


@dataclass(frozen=True)
class Effort:
    """Names of the data, and how many subsets of each size."""

    names: tuple[str, ...] = ("heart", "physionet", "spam")
    subsets: int = 6


QUICK = Effort(("heart",), 2)


def data_of(name: str) -> tuple[pd.DataFrame, np.ndarray] | None:
    """Return a table and labels 0 and 1, None if they are not on this machine."""
    if name == "heart":
        heart = load_heart()
        return pd.DataFrame(heart.data, columns=list(heart.feature_names)), np.asarray(heart.target)
    path = FIELD / f"{name}.csv.gz"
    if not path.exists():
        return None
    table = pd.read_csv(path)
    return table, table.pop("Outcome").to_numpy()


def bare(model: AnytimeClassifier) -> AnytimeClassifier:
    """Return the model without recalibration."""
    stages = model.model_.stages
    return AnytimeClassifier.from_model(
        replace(model.model_, stages=replace(stages, subset=replace(stages.subset, recalibration=None)))
    )


def rows_of(name: str, effort: Effort) -> list[str]:
    """Return the rows of the table of one data set."""
    given = data_of(name)
    if given is None:
        return []
    X, X_test, y, y_test = train_test_split(*given, test_size=0.25, random_state=0, stratify=given[1])
    after = AnytimeClassifier(encoding="linear", rule="omp").fit(X, y)
    before, rng, lines = bare(after), np.random.default_rng(0), []
    for share in SHARES:
        found = []
        for _ in range(effort.subsets):
            bought = sorted(rng.choice(X.columns, max(1, round(share * X.shape[1])), replace=False))
            refit = AnytimeClassifier({"all": bought}, encoding="linear", alpha=after.alpha_).fit(X[bought], y)
            answers = [(before, {"available": bought}), (after, {"available": bought}), (refit, {})]
            found.append([judged(model, choice, (X, y), (X_test, y_test)) for model, choice in answers])
        (b, a, r) = np.mean(found, axis=0)
        cells = [
            f"{y.mean():.3f}",
            *(f"{x[0]:.3f}" for x in (b, a, r)),
            *(f"{x[1] - r[1]:.4f}" for x in (b, a)),
            *(f"{x[2] - r[2]:+.4f}" for x in (b, a)),
            *(f"{x[3]:.3f}" for x in (b, a, r)),
        ]
        lines.append(f"| {name} | {share:.0%} | {' | '.join(cells)} |")
    return lines


def judged(model: AnytimeClassifier, choice: dict, train: tuple, test: tuple) -> tuple[float, float, float, float]:
    """Return mean probability and log loss on training rows, log loss and AUC on others."""
    inside, outside = (model.predict_proba(X, **choice)[:, 1] for X, _ in (train, test))
    return inside.mean(), log_loss(train[1], inside), log_loss(test[1], outside), roc_auc_score(test[1], outside)


def report(effort: Effort) -> list[str]:
    """Return the page."""
    lines = [
        "# Answers from any groups",
        "",
        "Made by `python experiments/subsets.py --write docs/results/subsets.md`.",
        "",
        f"A classifier of three quarters of the rows answers from random sets of its columns (`available=`, encoding "
        f"linear), means over {effort.subsets} sets: *before* and *after* recalibration, and a *refit* on the same "
        "columns with the same alpha. *p*: mean probability over the training rows, to be compared with the share of "
        "class 1. *loss*: log loss in excess of the refit's.",
        "",
        "| data | columns | share of 1 | p before | p after | p refit | loss before | loss after "
        "| new rows: loss before | after | AUC before | after | refit |",
        "|---|---|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for name in effort.names:
        found = rows_of(name, effort)
        print(*found, sep="\n", file=sys.stderr, flush=True)
        lines += found
    return [*lines, ""]


if __name__ == "__main__":
    print_report(report, Effort(), QUICK, __doc__)
