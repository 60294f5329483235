"""Raw tables: encoding and fit beside the fit on the encoded matrix, and the time of one row in a runner.

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

from budgetline import AnytimeClassifier, FeatureGroups
from budgetline.runtime.steps import steps_of

FIELD = Path(os.environ.get("FIELD_DATA", Path(__file__).resolve().parents[2] / "shared" / "data" / "field"))
ALPHA, ROUNDS, ROWS = 1e-3, 3, 500


def bank() -> tuple[pd.DataFrame, np.ndarray]:
    """Return the bank data, or a table of the same shape."""
    path = FIELD / "bank.csv.gz"
    if path.exists():
        table = pd.read_csv(path)
        return table, table.pop("y").to_numpy()
    rng = np.random.default_rng(0)
    table = pd.DataFrame({f"x{k}": rng.lognormal(size=45_211) for k in range(7)})
    for k in range(9):
        table[f"t{k}"] = rng.choice([f"level {j}" for j in range(3 + k)], len(table))
    return table, np.where(table["x0"] * rng.lognormal(size=len(table)) > 3, "yes", "no")


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


if __name__ == "__main__":
    main()
