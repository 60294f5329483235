"""Do the bands on effects cover the true effects? Tested on generated additive data, with groups in a fixed order.

``python experiments/bands.py --write docs/results/bands.md``; ``--quick`` runs a tiny version. A 90 % band is
pointwise: over the places where the data are, and over many draws of the rows, it should cover the true effect in 90 %
of the cases.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd

from budgetline import AnytimeClassifier, AnytimeRegressor, Encoding, FixedOrder
from budgetline.evaluation.effects import Effect

ROOT = Path(__file__).resolve().parents[1]
sys.path.append(str(ROOT / "benchmarks"))
from core import print_report  # noqa: E402

Model = AnytimeRegressor | AnytimeClassifier
TOWNS = {"north": -1.0, "east": -0.3, "south": 0.2, "west": 0.8}
TRUE: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "sine": lambda x: 2 * np.sin(np.pi * x),
    "exponential": lambda x: np.exp(2 * x),
    "two hills": lambda x: 0.2 * x**11 * (10 * (1 - x)) ** 6 + 10 * (10 * x) ** 3 * (1 - x) ** 10,
    "nothing": lambda x: 0.0 * x,
    "town": lambda x: np.array([TOWNS[name] for name in x]),
}
"""The numbers are the four effects of Gu and Wahba (1991), by which bands of additive models are usually evaluated."""
NOISE, SIZES = 2.0, {"regression": 1.0, "classes": 0.4, "counts": 0.2}
"""Deviation of the noise of a regression, and the size of the effects of each task."""
SHARES = (np.arange(200) + 0.5) / 200
"""The quantiles of a number at which its effect is evaluated."""


def drawn(rng: np.random.Generator, n: int) -> pd.DataFrame:
    """Return rows."""
    numbers = {name: rng.random(n) for name in TRUE if name != "town"}
    return pd.DataFrame({**numbers, "town": rng.choice(list(TOWNS), n, p=[0.4, 0.3, 0.2, 0.1])})


def model_of(task: str, seed: int, n: int, knots: int | None) -> tuple[Model, pd.DataFrame]:
    """Return a model of rows that are drawn with a seed, and the rows."""
    rng = np.random.default_rng(seed)
    X = drawn(rng, n)
    score = SIZES[task] * (sum(true(X[name].to_numpy()) for name, true in TRUE.items()) - 7.0)
    settings = {"encoding": Encoding("spline", knots=knots), "alpha": "auto", "schedule": FixedOrder(list(TRUE))}
    if task == "regression":
        return AnytimeRegressor(**settings).fit(X, score + NOISE * rng.standard_normal(n)), X
    if task == "counts":
        return AnytimeRegressor(loss="poisson", **settings).fit(X, rng.poisson(np.exp(score))), X
    return AnytimeClassifier(**settings).fit(X, score + rng.logistic(size=n) > 0), X


def covered(effect: Effect, values: pd.Series, size: float, coverage: float) -> float:
    """Return the share of points at which the band covers the true effect, centred on the rows."""
    true, (axis,), margins = TRUE[effect.name], effect.axes, effect.margins(coverage)
    centre = size * float(true(values.to_numpy()).mean())
    if axis.categories:
        places = [axis.categories.index(name) for name in values]
        apart = effect.values[places] - (size * true(values.to_numpy()) - centre)
        return float((np.abs(apart) <= margins[places]).mean())
    at = np.quantile(values, SHARES)
    found, reach = (np.interp(at, axis.numbers, part) for part in (effect.values, margins))
    return float((np.abs(found - (size * true(at) - centre)) <= reach).mean())


def coverages(task: str, seeds: range, n: int, knots: int | None = None, coverage: float = 0.9) -> np.ndarray:
    """Return the share of covered places of every seed and effect."""
    found = []
    for seed in seeds:
        model, X = model_of(task, seed, n, knots)
        found.append([covered(effect, X[effect.name], SIZES[task], coverage) for effect in model.effects()])
    return np.array(found)


def report(effort: tuple[range, tuple[int, ...]]) -> list[str]:
    """Return the page."""
    seeds, sizes = effort
    lines = [
        "# Bands on effects",
        "",
        "With twelve knots, 90 % bands on effects meet the goal: averaged over all effects, they cover the true",
        "effect at 85 to 95 % of the data points. With the default number of knots, they miss this goal in most cases.",
        "By default, the number of knots decreases with the number of rows, and a curve with few knots cannot",
        'represent an effect with two peaks (the column "two hills" below). A band accounts for the noise in the data,',
        "but not for shapes that a curve with these knots cannot represent. If an effect may have several peaks, use",
        'more knots: `encoding=Encoding("spline", knots=12)`.',
        "",
        "Made by `python experiments/bands.py --write docs/results/bands.md`.",
        "",
        f"The table shows the coverage (mean over {len(seeds)} draws ± standard error) for all effects together and",
        "for each effect separately. The data are generated from an additive model with five effects: *nothing* is",
        "zero everywhere, and *town* is categorical. The groups and their order are fixed in advance, the encoding is",
        '`spline`, and `alpha` is `"auto"`.',
        "",
        f"| task | rows | knots | all effects | {' | '.join(TRUE)} |",
        "|---" * (4 + len(TRUE)) + "|",
    ]
    for task, n, knots in product(SIZES, sizes, (None, 12)):
        found = coverages(task, seeds, n, knots)
        error = found.mean(axis=1).std(ddof=1) / np.sqrt(len(found))
        cells = " | ".join(f"{100 * share:.0f} %" for share in found.mean(axis=0))
        mean = f"{100 * found.mean():.1f} ± {100 * error:.1f} %"
        lines.append(f"| {task} | {n:,} | {knots or 'default'} | {mean} | {cells} |")
    return [*lines, ""]


if __name__ == "__main__":
    print_report(report, (range(30), (500, 2000)), (range(3), (300,)), __doc__)
