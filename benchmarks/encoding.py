"""Raw tables: encoding and fit against the fit on the encoded matrix, the time of one row in a runner, and memory.

``python benchmarks/encoding.py``; bank is read from the folder that the variable FIELD_DATA names, by default
../shared/data/field, and made up without it.
"""

from __future__ import annotations

import os
from pathlib import Path
from statistics import median
from time import process_time

import numpy as np
import pandas as pd
from core import peak_rise_mb

from budgetline import AnytimeClassifier, AnytimeRegressor, AnytimeRegressorCV, Encoding, FeatureGroups
from budgetline.runtime.steps import steps_of

FIELD = Path(os.environ.get("FIELD_DATA", Path(__file__).resolve().parents[2] / "shared" / "data" / "field"))
ALPHA, ROUNDS, ROWS, TALL = 1e-3, 3, 500, 400_000


def bank() -> tuple[pd.DataFrame, np.ndarray]:
    """Return the bank data, or a table of the same shape."""
    path = FIELD / "bank.csv.gz"
    if path.exists():
        table = pd.read_csv(path)
        return table, table.pop("y").to_numpy()
    table, score = made_up(45_211)
    return table, np.where(score > 1, "yes", "no")


def made_up(n: int) -> tuple[pd.DataFrame, np.ndarray]:
    """Return a table of numbers and texts, and a score."""
    rng = np.random.default_rng(0)
    table = pd.DataFrame({f"x{k}": rng.lognormal(size=n) for k in range(7)})
    for k in range(9):
        table[f"t{k}"] = rng.choice([f"level {j}" for j in range(3 + k)], n)
    return table, (np.log(table["x0"]) + rng.normal(size=n)).to_numpy()


def seconds(job: object, *given: object) -> float:
    """Return the processor time of a call."""
    start = process_time()
    job(*given)  # type: ignore[operator]
    return process_time() - start


def main() -> None:
    """Print ratios."""
    X, y = bank()
    for encoding in ("linear", "spline"):
        for rule in ("omp", "score"):
            raw = AnytimeClassifier(encoding=encoding, rule=rule, alpha=ALPHA).fit(X, y)
            model = raw.model_
            assert model.encoding is not None
            Z = model.encoding.table(X, np.arange(model.layout.n_features))
            columns = dict(zip(model.groups.names, (c.tolist() for c in model.layout.columns), strict=True))
            plain = AnytimeClassifier(FeatureGroups(columns), rule=rule, alpha=ALPHA)
            times = [(seconds(raw.fit, X, y), seconds(plain.fit, Z, y)) for _ in range(ROUNDS)]
            ratio = median(a / b for a, b in times)
            print(f"{encoding}, {rule}: {Z.shape[1]} design columns, encoding and fit {ratio:.2f} × the fit on them")
    rows = X.iloc[:ROWS].to_dict("records")
    for step in steps_of(model, dict.fromkeys(X.columns), "cooperative", None):
        each = seconds(lambda step=step: [step.reader.read(row[step.name], None) for row in rows]) / ROWS
        print(f"one value of {step.name}: {1e6 * each:.0f} µs")
    memory()


def memory() -> None:
    """Print the peak memory of squared error fits, and the size of the design matrix that they avoid."""
    X, y = made_up(TALL)
    regressors = {
        "plain": AnytimeRegressor(encoding="spline"),
        "10 pairs": AnytimeRegressor(encoding=Encoding("spline", interactions=10)),
        "CV": AnytimeRegressorCV(encoding="spline", alphas=[1e-4, 1e-2]),
    }
    for name, model in regressors.items():
        peak = peak_rise_mb(lambda model=model: model.fit(X, y))  # type: ignore[misc]
        print(f"{name}: peak {peak:.0f} MB, design matrix {8 * TALL * model.coef_.size / 2**20:.0f} MB")


if __name__ == "__main__":
    main()
