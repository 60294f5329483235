"""What StagedEstimators adds to its clones: ``python benchmarks/staged.py --write docs/results/staged.md``.

``StagedEstimators`` and a hand-written loop fit one clone per prefix of a given order, alternately. CPU time inside and
outside the clones' ``fit`` is counted separately, because the former varies by more than the whole latter. The ratio
compares the sums of both, with the same median time inside. The last columns are the times to predict one row at a
middle stage with the clone alone, with ``StagedEstimators``, and with a linear model of the library.
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

INSIDE = [0.0]
"""CPU seconds in the ``fit`` of clones so far."""
MOST_TURNS = 50


@dataclass(frozen=True)
class Effort:
    """Rows, groups of four columns, trees of a boosted model, turns at least, seconds of turns, and predictions."""

    rows: int = 10_000
    groups: int = 5
    trees: int = 40
    turns: int = 3
    seconds: float = 2.0
    answers: int = 40


QUICK = Effort(rows=300, groups=3, trees=2, turns=2, seconds=0.0, answers=3)


class TimedRidge(Ridge):  # type: ignore[misc]
    def fit(self, X: Any, y: Any) -> Any:
        return _inside(super().fit, X, y)


class TimedTree(DecisionTreeRegressor):  # type: ignore[misc]
    def fit(self, X: Any, y: Any) -> Any:
        return _inside(super().fit, X, y)


class TimedBoosting(HistGradientBoostingRegressor):  # type: ignore[misc]
    def fit(self, X: Any, y: Any) -> Any:
        return _inside(super().fit, X, y)


def _inside(fit: Callable[..., Any], X: Any, y: Any) -> Any:
    start = time.process_time()
    found = fit(X, y)
    INSIDE[0] += time.process_time() - start
    return found


def report(effort: Effort) -> list[str]:
    """Return the table, as lines."""
    title = "# The time that `StagedEstimators` add"
    made = "Made by `OMP_NUM_THREADS=1 python benchmarks/staged.py --write docs/results/staged.md`."
    head = (
        f"The data have {effort.rows:,} rows and {effort.groups} groups of 4 columns. `StagedEstimators` and a "
        f"hand-written loop fit one clone per prefix, in {effort.turns} to {MOST_TURNS} alternating runs each."
    )
    names = ["estimator", "table", "clones, s", "loop adds, ms", "`StagedEstimators` adds, ms", "ratio of fits"]
    names += ["one row: clone, µs", "staged, µs", "linear, µs"]
    estimators = {
        "Ridge": TimedRidge(),
        "decision tree": TimedTree(max_depth=8, random_state=0),
        "gradient boosting": TimedBoosting(max_iter=effort.trees, early_stopping=False),
    }
    lines = [title, "", made, "", head, "", f"| {' | '.join(names)} |", "|---" * len(names) + "|"]
    for label, estimator in estimators.items():
        lines += [_row(label, estimator, framed, effort) for framed in (False, True)]
    note = (
        "The added time hardly depends on the estimator. It is spent on checking the table, selecting columns and "
        "fitting stage 0, and in joblib, which runs the fits. It matters only if the clones are fitted in milliseconds."
    )
    return [*lines, "", note, ""]


def _row(label: str, estimator: Any, framed: bool, effort: Effort) -> str:
    rng = np.random.default_rng(0)
    width = 4 * effort.groups
    X: Any = rng.normal(size=(effort.rows, width))
    y = X[:, 0] * X[:, 5] + X @ rng.normal(size=width) + rng.normal(size=len(X))
    X = pd.DataFrame(X, columns=[f"x{d}" for d in range(width)]) if framed else X
    groups = {f"g{j}": [4 * j + k for k in range(4)] for j in range(effort.groups)}
    staged = StagedEstimators(estimator, list(groups), feature_groups=groups)

    def by_hand() -> list[Any]:
        prefixes = [list(range(4 * (j + 1))) for j in range(effort.groups)]
        return [clone(estimator).fit(X.iloc[:, own] if framed else X[:, own], y) for own in prefixes]

    measured: dict[str, list[tuple[float, float]]] = {"loop": [], "staged": []}
    both: list[tuple[str, Callable[[], object]]] = [("loop", by_hand), ("staged", lambda: clone(staged).fit(X, y))]
    once = sum(sum(_apart(work)) for _, work in both)  # not counted: imports, and memory that is new
    for turn in range(max(effort.turns, min(int(effort.seconds / once), MOST_TURNS))):
        for name, work in both if turn % 2 else both[::-1]:
            measured[name].append(_apart(work))
    inside = float(np.median([seconds for turns in measured.values() for seconds, _ in turns]))
    loop, ours = (float(np.median([outside for _, outside in measured[name]])) for name in ("loop", "staged"))
    fits = f"{inside:.3f} | {1e3 * loop:.1f} | {1e3 * ours:.1f} | {(inside + ours) / (inside + loop):.3f}"
    return f"| {label} | {'frame' if framed else 'array'} | {fits} | {_answers(staged, groups, X, y, framed, effort)} |"


def _answers(staged: Any, groups: dict[str, list[int]], X: Any, y: Any, framed: bool, effort: Effort) -> str:
    model, linear = staged.fit(X, y), AnytimeRegressor(groups).fit(X, y)
    middle = effort.groups // 2
    row, own = X[:1], X.iloc[:1, : 4 * middle] if framed else X[:1, : 4 * middle]
    works: list[Callable[[], object]] = [
        lambda: model.estimators_[middle - 1].predict(own),
        lambda: model.predict(row, stage=middle),
        lambda: linear.predict(row, stage=middle),
    ]
    found = [np.median([sum(_apart(work)) for _ in range(effort.answers)]) for work in works]
    return " | ".join(f"{1e6 * seconds:.0f}" for seconds in found)


def _apart(work: Callable[[], object]) -> tuple[float, float]:
    """Return the CPU seconds inside and outside of the clones' ``fit``."""
    before, start = INSIDE[0], time.process_time()
    work()
    total, inside = time.process_time() - start, INSIDE[0] - before
    return inside, total - inside


if __name__ == "__main__":
    print_report(report, Effort(), QUICK, __doc__)
