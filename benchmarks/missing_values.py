"""Rows with missing values, predicted by pattern: ``python benchmarks/missing_values.py``.

Every row lacks some groups; rows that lack the same ones are predicted together. Times are compared with one plain
prediction of the same rows, and with one prediction per pattern from the names of its groups.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from core import print_report

from budgetline import AnytimeClassifier, AnytimeRegressor


@dataclass(frozen=True)
class Effort:
    """Rows, patterns, groups, columns of each group, and how many patterns are also predicted alone."""

    rows: int = 12_000
    patterns: int = 1_000
    groups: int = 40
    widths: tuple[int, ...] = (2, 10)
    alone: int = 30


QUICK = Effort(rows=400, patterns=30, groups=5, widths=(2,), alone=3)


def report(effort: Effort) -> list[str]:
    """Return the table, as lines."""
    head = f"{effort.rows:,} rows, {effort.patterns:,} patterns of missing values, {effort.groups} groups"
    names = ["model", "columns", "plain, s", "by pattern, s", "ratio", "per pattern, ms", "alone, ms", "difference"]
    lines = [head, "", f"| {' | '.join(names)} |", "|---" * len(names) + "|"]
    for width in effort.widths:
        lines += [_row(make, width, effort) for make in (_classifier, _regressor)]
    return [*lines, ""]


def _classifier(groups: list[list[int]]) -> Any:
    return AnytimeClassifier(groups, rule="omp", alpha=1e-3)


def _regressor(groups: list[list[int]]) -> Any:
    return AnytimeRegressor(groups, rule="omp", alpha=1e-3)


def _row(make: Callable[[list[list[int]]], Any], width: int, effort: Effort) -> str:
    rng = np.random.default_rng(0)
    groups = [list(range(j * width, (j + 1) * width)) for j in range(effort.groups)]
    X = rng.normal(size=(effort.rows, width * effort.groups))
    model = make(groups).fit(X, X @ rng.normal(size=X.shape[1]) + 5 * rng.normal(size=len(X)) > 8)
    predict = model.decision_function if hasattr(model, "decision_function") else model.predict
    lacking = rng.random((effort.patterns, effort.groups)) < 0.3
    of_row = rng.integers(effort.patterns, size=effort.rows)
    gappy = np.where(np.repeat(lacking[of_row], width, axis=1), np.nan, X)
    plain, _ = _timed(lambda: predict(X))
    by_pattern, found = _timed(lambda: predict(gappy, available="auto"))
    some = np.unique(of_row)[: effort.alone]
    rows = [np.flatnonzero(of_row == k) for k in some]
    alone, each = _timed(
        lambda: [
            predict(X[r], available=np.flatnonzero(~lacking[k]).astype(str)) for k, r in zip(some, rows, strict=True)
        ]
    )
    worst = max(float(np.abs(a - found[r]).max()) for a, r in zip(each, rows, strict=True))
    count = np.unique(of_row).size
    return (
        f"| {type(model).__name__} | {X.shape[1]} | {plain:.4f} | {by_pattern:.2f} | {by_pattern / plain:.0f} "
        f"| {1e3 * by_pattern / count:.2f} | {1e3 * alone / some.size:.2f} | {worst:.1e} |"
    )


def _timed(work: Callable[[], Any]) -> tuple[float, Any]:
    start = time.perf_counter()
    found = work()
    return time.perf_counter() - start, found


if __name__ == "__main__":
    print_report(report, Effort(), QUICK, __doc__)
