"""What StagedEstimators add to their clones: ``python benchmarks/staged.py --write docs/results/staged.md``.

One clone per prefix of a given order is fitted by ``StagedEstimators`` and by a loop written by hand, in turns. Seconds
are CPU time, medians; the ratio is the median of the ratios of turns. The last columns are one row, predicted at a
stage in the middle: by the clone alone, by ``StagedEstimators``, and by a linear model of ours.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from core import print_report
from sklearn.base import clone
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.linear_model import Ridge
from sklearn.tree import DecisionTreeRegressor

from budgetline import AnytimeRegressor, StagedEstimators


@dataclass(frozen=True)
class Effort:
    """Rows, groups of four columns, trees of a boosted model, and turns."""

    rows: int = 5_000
    groups: int = 5
    trees: int = 20
    turns: int = 7
    answers: int = 50


QUICK = Effort(rows=300, groups=3, trees=2, turns=2, answers=3)


def report(effort: Effort) -> list[str]:
    """Return the table, as lines."""
    head = f"{effort.rows:,} rows, {effort.groups} groups of 4 columns, one clone per prefix; {effort.turns} turns."
    title = [
        "# What any estimator behind a budget costs",
        "",
        "Made by `python benchmarks/staged.py --write docs/results/staged.md`.",
    ]
    names = [
        "estimator",
        "table",
        "loop, s",
        "StagedEstimators, s",
        "ratio",
        "clone, one row, µs",
        "staged, µs",
        "linear, µs",
    ]
    estimators = {
        "Ridge": Ridge(),
        "decision tree": DecisionTreeRegressor(max_depth=8, random_state=0),
        "gradient boosting": HistGradientBoostingRegressor(max_iter=effort.trees, early_stopping=False),
    }
    lines = [*title, "", head, "", f"| {' | '.join(names)} |", "|---" * len(names) + "|"]
    for label, estimator in estimators.items():
        lines += [_row(label, estimator, framed, effort) for framed in (False, True)]
    note = (
        "`Ridge` hides least of what is added: checks of the table, and stage 0. Run it with `OMP_NUM_THREADS=1`, so "
        "that threads do not wait for each other."
    )
    return [*lines, "", note, ""]


def _row(label: str, estimator: Any, framed: bool, effort: Effort) -> str:
    rng = np.random.default_rng(0)
    width = 4 * effort.groups
    X: Any = rng.normal(size=(effort.rows, width))
    y = X[:, 0] * X[:, 5] + X @ rng.normal(size=width) + rng.normal(size=len(X))
    names = [f"x{d}" for d in range(width)]
    X = pd.DataFrame(X, columns=names) if framed else X
    groups = {f"g{j}": [4 * j + k for k in range(4)] for j in range(effort.groups)}
    staged = StagedEstimators(estimator, list(groups), feature_groups=groups)

    def by_hand() -> list[Any]:
        prefixes = [list(range(4 * (j + 1))) for j in range(effort.groups)]
        return [clone(estimator).fit(X.iloc[:, own] if framed else X[:, own], y) for own in prefixes]

    loops, fits = [], []
    for turn in range(effort.turns):
        both = [(by_hand, loops), (lambda: clone(staged).fit(X, y), fits)]
        for work, seconds in both if turn % 2 else both[::-1]:
            seconds.append(_cpu(work))
    ratio = float(np.median(np.array(fits) / np.array(loops)))
    model, linear = staged.fit(X, y), AnytimeRegressor(groups, max_groups=effort.groups).fit(X, y)
    middle = effort.groups // 2
    row, own = X[:1], X.iloc[:1, : 4 * middle] if framed else X[:1, : 4 * middle]
    alone = _each(lambda: model.estimators_[middle - 1].predict(own), effort.answers)
    answer = _each(lambda: model.predict(row, stage=middle), effort.answers)
    plain = _each(lambda: linear.predict(row, stage=middle), effort.answers)
    table = "frame" if framed else "array"
    numbers = f"{np.median(loops):.3f} | {np.median(fits):.3f} | {ratio:.3f}"
    return f"| {label} | {table} | {numbers} | {1e6 * alone:.0f} | {1e6 * answer:.0f} | {1e6 * plain:.0f} |"


def _cpu(work: Callable[[], object]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


def _each(work: Callable[[], object], count: int) -> float:
    return float(np.median([_cpu(work) for _ in range(count)]))


if __name__ == "__main__":
    print_report(report, Effort(), QUICK, __doc__)
