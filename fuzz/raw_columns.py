"""Random raw tables: the same model through every door, and the same predictions for the same values in other types."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet

import budgetline
from budgetline import AnytimeRegressor, Encoding, open_data
from fuzz.trials import Case

BIG = 2**53
START = datetime.date(2020, 1, 1)
CATEGORIES: dict[str, list[Any]] = {
    "flag": [True, False],
    "zeros": ["07001", "07002", "12345", "00001"],
    "points": ["1.0", "2.0", "3.5"],
    "ids": [str(BIG + k) for k in (1, 3, 4)],
    "words": ["a", "b", "True story", "1e", ""],
}
NUMBERS: dict[str, Callable[[Random], Any]] = {
    "whole": lambda rng: rng.randint(-3, 40),
    "real": lambda rng: rng.gauss(0, 1),
    "spikes": lambda rng: rng.choice([0.0, 0.0, 1e-15, 0.3, 0.1 + 0.2, rng.gauss(0, 1)]),
    "decimal": lambda rng: Decimal(rng.randint(0, 400)) / 4,
    "date": lambda rng: START + datetime.timedelta(rng.randint(0, 900)),
    "two": lambda rng: rng.choice([5, 6]),
    "constant": lambda rng: 7,
}
KINDS = (*CATEGORIES, *NUMBERS, "codes", "nothing")
DOORS = ("pandas", "arrow", "polars", "objects", "pandas source", "arrow source", "polars source", "parquet")
CLOSE = 1e-7
"""The allowed difference of predictions, in standard deviations of the target: the order of sums differs."""


def draw(seed: int) -> Case:
    """Return the kinds of columns, the number of missing values, and the form of the table."""
    rng = Random(seed)
    kinds = [rng.choice(KINDS) for _ in range(rng.randint(1, 5))]
    without = {"polars", "polars source", "objects", "parquet"} if "codes" in kinds else set[str]()
    return {
        "seed": seed,
        "kinds": kinds,
        "n": rng.choice([30, 80, 200]),
        "missing": rng.choice([0.0, 0.0, 0.1, 0.6]),
        "encoding": rng.choice(["linear", "spline"]),
        "interactions": rng.choice([0, 0, 1]),
        "door": rng.choice([door for door in DOORS if door not in without]),
        "scale": rng.choice([0.5, 3.0, 1e3]),
    }


def smaller(case: Case) -> Iterator[Case]:
    """Yield cases with fewer columns, no missing values and no pairs."""
    kinds = case["kinds"]
    for k in range(len(kinds)) if len(kinds) > 1 else ():
        yield {**case, "kinds": kinds[:k] + kinds[k + 1 :]}
    if case["missing"]:
        yield {**case, "missing": 0.0}
    if case["interactions"]:
        yield {**case, "interactions": 0}


def check(case: Case) -> None:
    """Fit a table through a door, predict from other types, and fit with weights in other units."""
    X, y = table(case)
    expected = fitted(case, X, y)
    answers = expected.predict(X)
    assert np.isfinite(answers).all(), "predictions are not finite"
    close = CLOSE * float(np.std(y))
    with TemporaryDirectory(prefix="fuzz-") as folder:
        other = through(case, X, y, Path(folder))
        budgetline.save(expected, Path(folder) / "m")
        loaded = budgetline.load(Path(folder) / "m")
    _same(other.predict(_positions(X) if case["door"] == "objects" else X), answers, close, f"through {case['door']}")
    for k, changed in enumerate(in_other_types(X, case)):
        _same(loaded.predict(changed), answers, close, f"types {k}: {changed.dtypes.to_dict()}")
    weight = np.array([Random(case["seed"] + k).choice([0.5, 1.0, 2.0]) for k in range(len(y))])
    one, many = (fitted(case, X, y, weight * scale).predict(X) for scale in (1.0, case["scale"]))
    _same(many, one, close, f"weights times {case['scale']}")


def table(case: Case) -> tuple[pd.DataFrame, np.ndarray]:
    """Return the columns, x0, x1, …, and a target that depends on all of them."""
    rng, n = Random(case["seed"]), case["n"]
    columns, score = {}, np.array([rng.gauss(0, 1) for _ in range(n)])
    for d, kind in enumerate(case["kinds"]):
        values = [None if kind == "nothing" else _value(kind, rng) for _ in range(n)]
        effect = {value: rng.gauss(0, 1) for value in dict.fromkeys(values)}
        score += [effect[value] for value in values]
        given = [None if rng.random() < case["missing"] else value for value in values]
        codes = kind == "codes"
        columns[f"x{d}"] = pd.Series(pd.Categorical(given)) if codes else pd.Series(given, dtype=_dtype(kind, given))
    return pd.DataFrame(columns), score


def _value(kind: str, rng: Random) -> Any:
    if kind == "codes":
        return rng.choice([1, 2, 7, 11])
    return rng.choice(CATEGORIES[kind]) if kind in CATEGORIES else NUMBERS[kind](rng)


def _dtype(kind: str, given: list[Any]) -> Any:
    """Return the type that pandas would have: objects where values are missing, text, decimals or dates."""
    if kind in ("real", "spikes"):
        return float
    plain = {"whole": int, "two": int, "constant": int, "flag": bool}
    return plain.get(kind, object) if None not in given else object


def fitted(case: Case, X: Any, y: Any = None, weight: np.ndarray | None = None) -> AnytimeRegressor:
    """Fit a table or a source; no category counts as rare."""
    settings = Encoding(case["encoding"], min_frequency=0, interactions=case["interactions"])
    model = AnytimeRegressor(encoding=settings, alpha=1e-3)
    return model.fit(X) if y is None else model.fit(X, y, sample_weight=weight)


def through(case: Case, X: pd.DataFrame, y: np.ndarray, folder: Path) -> AnytimeRegressor:
    """Fit the table through a door."""
    frame, door = X.assign(target=y), case["door"]
    arrow = pa.Table.from_pandas(frame, preserve_index=False)
    if door == "objects":
        return fitted(case, _positions(X), y)
    if door in ("pandas", "arrow", "polars"):
        return fitted(case, {"pandas": X, "arrow": arrow.drop_columns("target"), "polars": _polars(X)}[door], y)
    if door == "parquet":
        pa.parquet.write_table(arrow, folder / "a.parquet", row_group_size=37)
    sources: dict[str, Callable[[], Any]] = {
        "pandas source": lambda: frame,
        "arrow source": lambda: arrow,
        "polars source": lambda: _polars(frame),
        "parquet": lambda: folder / "a.parquet",
    }
    return fitted(case, open_data(sources[door](), "target"))


def _polars(X: pd.DataFrame) -> pl.DataFrame:
    return pl.from_arrow(pa.Table.from_pandas(X, preserve_index=False))


def _positions(X: pd.DataFrame) -> np.ndarray:
    return X.astype(object).to_numpy()


def in_other_types(X: pd.DataFrame, case: Case) -> Iterator[pd.DataFrame]:
    """Yield the table in types that keep its values."""
    yield X.astype(object)
    for convert in (_as_number, _as_text):
        columns = {
            name: pd.Series([None if pd.isna(value) else convert(value) for value in X[name]], dtype=object)
            for name, kind in zip(X.columns, case["kinds"], strict=True)
            if kind not in ("date", "words", "nothing")
        }
        yield X.assign(**columns)


def _as_number(value: Any) -> Any:
    """Return text and flags as numbers, and numbers as decimals; large numbers as categories are an error."""
    if isinstance(value, str):
        return float(value) if "." in value else int(value) if int(value) < BIG else value
    return int(value) if isinstance(value, bool) else value if isinstance(value, Decimal) else Decimal(str(value))


def _as_text(value: Any) -> str:
    """Return flags and numbers as text."""
    return value if isinstance(value, str) else str(value).lower()


def _same(found: np.ndarray, expected: np.ndarray, close: float, what: str) -> None:
    error = float(np.max(np.abs(found - expected)))
    assert error <= close, f"{what}: predictions differ by {error:.2g}"
