"""Speed of losses over sets of rows, as ratios within one run: ``python benchmarks/sets.py``.

A whole ``omp`` sequence is compared with one fit of all columns by the same Newton's method, that is, by the same
estimator with all columns in one group. Times are processor times. Because the machine may be busy, each is the
smallest of several, taken alternately. The command line is that of ``core.py``.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
from core import Cases, Measurements, main

from budgetline import AnytimeRanker, AnytimeSurvival

ALPHA = 1e-4
Fit = Callable[[AnytimeRanker | AnytimeSurvival], object]


def table(n: int, columns: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Return columns (n, D) that share twenty factors, and scores (n,) that depend on two fifths of the columns."""
    X = rng.normal(size=(n, 20)) @ rng.normal(size=(20, columns)) / 2 + rng.normal(size=(n, columns))
    return X, X @ (0.1 * rng.normal(size=columns) * (rng.random(columns) < 0.4))


def ranking(queries: int = 2_000, documents: int = 100, columns: int = 136) -> tuple[int, Fit]:
    """Return the number of columns, and what fits a ranker to grades 0 to 4."""
    X, scores = table(queries * documents, columns, rng := np.random.default_rng(0))
    merit = scores + rng.gumbel(size=len(X))
    y = np.digitize(merit, np.quantile(merit, [0.6, 0.85, 0.95, 0.99]))
    qid = np.repeat(np.arange(queries), documents)
    return columns, lambda model: model.fit(X, y, qid=qid)


def survival(rows: int = 100_000, columns: int = 100) -> tuple[int, Fit]:
    """Return the number of columns, and what fits a Cox model; nearly a half of the times are censored."""
    X, scores = table(rows, columns, rng := np.random.default_rng(0))
    died, left = rng.exponential(np.exp(-scores)), rng.exponential(2.0, rows)
    return columns, lambda model: model.fit(X, np.minimum(died, left), died <= left)


def case(data: Callable[[], tuple[int, Fit]], kind: type, rounds: int = 3) -> Measurements:
    """Compare sequences of single columns, and of groups of four, with one fit."""
    columns, fit = data()
    all_columns = list(range(columns))
    fours = {str(d): all_columns[d : d + 4] for d in range(0, columns, 4)}
    models = {
        "one fit": kind({"all": all_columns}, rule="omp", alpha=ALPHA),
        "groups of four": kind(fours, rule="omp", alpha=ALPHA),
        "single columns": kind(rule="omp", alpha=ALPHA),
    }
    least = dict.fromkeys(models, np.inf)
    for _ in range(rounds):
        for name, model in models.items():
            start = time.process_time()
            fit(model)
            least[name] = min(least[name], time.process_time() - start)
    one, *others = models.values()
    return {
        "one fit, seconds": least["one fit"],
        "sequence of groups of four / one fit": least["groups of four"] / least["one fit"],
        "sequence of single columns / one fit": least["single columns"] / least["one fit"],
        "largest difference of coefficients": max(float(np.abs(m.coef_ - one.coef_).max()) for m in others),
    }


TARGETS = {f"sequence of {groups} / one fit": 6 for groups in ("groups of four", "single columns")}
CASES: Cases = {
    "ranking": ("softmax in 2,000 queries, 200,000 × 136", lambda: case(ranking, AnytimeRanker), TARGETS),
    "survival": ("Cox, 100,000 × 100", lambda: case(survival, AnytimeSurvival), TARGETS),
}


if __name__ == "__main__":
    main(CASES, "Speed of losses over sets of rows", __file__, __doc__)
