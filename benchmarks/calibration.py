"""What calibration and held-out errors cost, as ratios of times in one run: ``python benchmarks/calibration.py``.

Times are processor times, measured in turns; ratios are medians over rounds. A search with calibration and held-out
errors is compared with the same search without them (its out-of-fold step is replaced by one that returns nothing).
Predictions of a model whose stages are all calibrated are compared with predictions of the same model without
calibration.
``--write FILE`` also writes the table as Markdown.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from time import process_time
from unittest.mock import patch

import numpy as np
from core import Measurements, main

from budgetline import AnytimeClassifierCV, AnytimeRegressorCV
from budgetline.datasets import load_heart, load_nhanes
from budgetline.fitting.out_of_fold import OutOfFold
from budgetline.model.calibration import Calibration

NOTHING = {"reached": lambda *_: np.zeros((0, 0)), "certainty": lambda *_: (None, None)}


def in_turns(works: dict[str, Callable[[], object]], rounds: int) -> dict[str, np.ndarray]:
    """Return processor times of works, (rounds,) each."""
    times: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(rounds):
        for name, work in works.items():
            start = process_time()
            work()
            times[name].append(process_time() - start)
    return {name: np.array(each) for name, each in times.items()}


def generated(n: int, D: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, D))
    return X, X @ rng.normal(size=D) / D**0.5 + rng.normal(size=n)


def fit_ratio(fit: Callable[[], object], rounds: int) -> Measurements:
    """Return the median ratio of fit times, with calibration and held-out errors over without."""

    def without() -> None:
        with patch.multiple(OutOfFold, **NOTHING):
            fit()

    times = in_turns({"without": without, "with": fit}, rounds)
    return {"seconds": float(np.median(times["with"])), "ratio": float(np.median(times["with"] / times["without"]))}


def classes_case() -> Measurements:
    X, y = generated(20_000, 30)
    return fit_ratio(lambda: AnytimeClassifierCV(rule="omp").fit(X, y > 0), 5)


def heart_case() -> Measurements:
    heart = load_heart()
    return fit_ratio(lambda: AnytimeClassifierCV(heart.feature_groups).fit(heart.data, heart.target), 7)


def nhanes_case() -> Measurements:
    nhanes = load_nhanes()
    return fit_ratio(lambda: AnytimeRegressorCV(nhanes.feature_groups).fit(nhanes.data, nhanes.target), 9)


def numbers_case() -> Measurements:
    X, y = generated(100_000, 100)
    return fit_ratio(lambda: AnytimeRegressorCV([list(range(k, k + 5)) for k in range(0, 100, 5)]).fit(X, y), 5)


def predict_case() -> Measurements:
    X, y = generated(20_000, 30)
    model = AnytimeClassifierCV(rule="omp", alphas=[0.01], corrections=[0.0]).fit(X[:2000], y[:2000] > 0)
    plain, K = replace(model.model_, calibration=None), 1 + model.model_.n_stages
    own = replace(plain, calibration=Calibration(np.tile([0.8, 1.2], (K, 1)), np.full(K, 0.1)))
    found = {}
    for method in ("predict", "predict_proba"):
        works = {"plain": partial(plain.result, X, method), "calibrated": partial(own.result, X, method)}
        times = in_turns(works, 501)
        found[f"{method}, ratio, 20,000 rows"] = float(np.median(times["calibrated"] / times["plain"]))
    return found


CASES = {
    "fit": ("Fit, 20,000 × 30, two classes, omp", classes_case, {"ratio": 1.1}),
    "heart": ("Fit, heart, two classes", heart_case, {"ratio": 1.1}),
    "nhanes": ("Fit, NHANES, squared error", nhanes_case, {"ratio": 1.1}),
    "numbers": ("Fit, 100,000 × 100, squared error", numbers_case, {"ratio": 1.1}),
    "predict": (
        "Predictions, calibrated",
        predict_case,
        {f"{method}, ratio, 20,000 rows": 1.05 for method in ("predict", "predict_proba")},
    ),
}

if __name__ == "__main__":
    main(CASES, "What calibration and held-out errors cost", __file__, __doc__)
