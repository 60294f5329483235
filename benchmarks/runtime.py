"""Overhead of the runtime, with extractors that do nothing: ``python benchmarks/runtime.py``.

The command line and the measurements work as in ``core.py``. The overhead per group is the median time of a whole
request divided by the number of groups. The batched cases are compared with a single matrix product, X @ W for all
stages.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from core import Cases, Measurements, in_turns, main

from budgetline import AnytimeClassifier, AnytimeRegressor, AnytimeRunner, Extractor
from budgetline.runtime.clock import Clock
from budgetline.runtime.scoring import SubsetModels


def constant(_: Any, values: np.ndarray) -> np.ndarray:
    return values


async def constant_async(_: Any, values: np.ndarray) -> np.ndarray:
    return values


def fitted(J: int, width: int, classes: bool) -> tuple[Any, np.ndarray, list[list[int]]]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(4_000, J * width))
    y = X @ rng.normal(size=J * width) + rng.normal(size=len(X))
    groups = [list(range(j * width, (j + 1) * width)) for j in range(J)]
    if classes:
        return AnytimeClassifier(groups, rule="omp", alpha=1e-2).fit(X, y > 0), X, groups
    return AnytimeRegressor(groups).fit(X, y), X, groups


def microseconds(work: Callable[[], object], repeats: int = 300) -> float:
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return float(np.median(times)) * 1e6


def single_case(J: int, width: int, classes: bool) -> Measurements:
    model, X, groups = fitted(J, width, classes)
    values = {str(j): X[0, groups[j]] for j in range(J)}
    plain = {name: partial(constant, values=v) for name, v in values.items()}
    found: Measurements = {}
    runner = AnytimeRunner(model, plain)
    found["cooperative, µs per group"] = microseconds(lambda: runner.predict(None)) / J
    found["cooperative with a deadline, µs per group"] = microseconds(lambda: runner.predict(None, deadline=60.0)) / J
    found["stream, a prediction after every group, µs per group"] = (
        microseconds(lambda: list(runner.stream(None)), 100) / J
    )
    found["prediction without any group, µs"] = microseconds(lambda: runner.predict(None, deadline=0))
    for mode in ("thread", "process", "async"):
        functions = (
            {name: partial(constant_async, values=v) for name, v in values.items()} if mode == "async" else plain
        )
        extractors = {name: Extractor(function, mode=mode) for name, function in functions.items()}
        with AnytimeRunner(model, extractors) as other:
            other.predict(None)
            found[f"{mode}, µs per group"] = microseconds(partial(other.predict, None), 30) / J
    found |= algebra(model, X, J)
    found["load average of the machine"] = os.getloadavg()[0]
    return found


def algebra(model: Any, X: np.ndarray, J: int) -> Measurements:
    columns = [model.model_.layout.columns[g] for g in model.order_]
    models = SubsetModels(model.model_, columns, Clock())
    row = models.arrived(1)
    for j in range(J):
        row.put(j, X[:1, columns[j]], [])
    per_stage = [microseconds(partial(models.scores, row, (1 << j) - 1, models.solve), 50) for j in range(1, J + 1)]
    without = []
    for j in range(1, min(J, 20)):
        start = time.perf_counter()
        models.solve(((1 << J) - 1) & ~(1 << j))
        without.append(time.perf_counter() - start)
    return {
        "linear algebra per stage, µs": float(np.median(per_stage)),
        "linear algebra of the slowest stage, µs": max(per_stage),
        "model of a new set of groups, solved once, ms": float(np.median(without)) * 1e3,
    }


def batch_case(rounds: int = 9) -> Measurements:
    J, width, n = 57, 6, 100_000
    model, _, groups = fitted(J, width, False)
    X = np.random.default_rng(1).normal(size=(n, J * width))
    tables = {str(j): np.ascontiguousarray(X[:, groups[j]]) for j in range(J)}
    runner = AnytimeRunner(
        model, {name: Extractor(partial(constant, values=table), batch=True) for name, table in tables.items()}
    )
    raws = range(n)
    coef = np.ascontiguousarray(model.coef_path_.T)
    times = in_turns(
        {
            "product": lambda: X @ coef,
            "last": lambda: runner.predict_many(raws),
        },
        rounds,
    )
    last = X @ coef[:, -1] + model.intercept_path_[-1]
    difference = np.abs(runner.predict_many(raws).value - last).max()
    return {
        "X @ W of all stages, seconds": float(np.median(times["product"])),
        "last stage alone / X @ W": float(np.median(times["last"] / times["product"])),
        "largest difference": float(difference),
        "load average of the machine": os.getloadavg()[0],
    }


SINGLE = {
    "cooperative, µs per group": 30.0,
    "cooperative with a deadline, µs per group": 30.0,
    "linear algebra per stage, µs": 10.0,
    "linear algebra of the slowest stage, µs": 10.0,
}
CASES: Cases = {
    "narrow": ("one input, 57 groups, D = 342, regression", lambda: single_case(57, 6, False), SINGLE),
    "wide": ("one input, 50 groups, D = 500, regression", lambda: single_case(50, 10, False), SINGLE),
    "classes": ("one input, 50 groups, D = 500, two classes", lambda: single_case(50, 10, True), SINGLE),
    "batch": (
        "100,000 inputs, 57 groups, D = 342",
        batch_case,
        {"last stage alone / X @ W": 1.5, "largest difference": 1e-9},
    ),
}

if __name__ == "__main__":
    main(CASES, "Overhead of the runtime", __file__, __doc__)
