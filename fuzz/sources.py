"""The ways in which data reach an estimator; each must lead to the same model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import pairwise
from operator import add
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

import dask.dataframe as dd
import numpy as np
import pandas as pd
import polars as pl
from scipy import sparse

import budgetline.fitting.linear
from budgetline import Moments, open_data


@dataclass(frozen=True)
class Data:
    """Training data: X (n, D), y, weights or None, and where rows or columns are cut."""

    X: np.ndarray
    y: np.ndarray
    w: np.ndarray | None
    cuts: Sequence[int] = ()

    def parts(self) -> list[Data]:
        """Return the rows between the cuts."""
        ends = [0, *sorted(self.cuts), len(self.X)]
        pairs = [slice(a, b) for a, b in pairwise(ends) if a < b]
        return [Data(self.X[k], self.y[k], None if self.w is None else self.w[k]) for k in pairs]

    @property
    def given(self) -> tuple[np.ndarray, ...]:
        """Return X, y and, if there are any, weights."""
        return (self.X, self.y) if self.w is None else (self.X, self.y, self.w)

    def frame(self) -> pd.DataFrame:
        """Return one table, with columns x0, x1, …, y (or y0, y1, …) and w."""
        columns = {f"x{d}": self.X[:, d] for d in range(self.X.shape[1])}
        targets = {"y": self.y} if self.y.ndim == 1 else {f"y{p}": self.y[:, p] for p in range(self.y.shape[1])}
        return pd.DataFrame(columns | targets | ({} if self.w is None else {"w": self.w}))

    def roles(self) -> dict[str, Any]:
        """Return which columns of the table are target and weight."""
        target = "y" if self.y.ndim == 1 else [f"y{p}" for p in range(self.y.shape[1])]
        return {"target": target, "weight": None if self.w is None else "w"}


Fit = Callable[[Any, Data, Path], Any]


def _memory(of: Callable[[np.ndarray], Any]) -> Fit:
    return lambda model, data, folder: model.fit(of(data.X), data.y, sample_weight=data.w)


def _on_demand(model: Any, data: Data, folder: Path) -> Any:
    with patch.object(budgetline.fitting.linear, "gram_fits", lambda rows, plan: False):
        return model.fit(data.X, data.y, sample_weight=data.w)


def _merged(model: Any, data: Data, folder: Path) -> Any:
    return model.fit_moments(reduce(add, [Moments.from_data(*part.given) for part in with_mass(data)]))


def _in_steps(model: Any, data: Data, folder: Path) -> Any:
    for part in with_mass(data):
        model.partial_fit(*part.given)
    return model


def with_mass(data: Data) -> list[Data]:
    """Return the parts that have a row of positive weight; others have no moments."""
    return [part for part in data.parts() if part.w is None or part.w.any()]


def _chunks(model: Any, data: Data, folder: Path) -> Any:
    rows = max(1, min([*data.cuts, len(data.X)]))
    return model.fit(open_data(data.given, chunk_rows=rows))


def _iterator(model: Any, data: Data, folder: Path) -> Any:
    return model.fit(open_data(lambda: (part.given for part in data.parts())))


def _csv(model: Any, data: Data, folder: Path) -> Any:
    for k, part in enumerate(data.parts()):
        part.frame().to_csv(folder / f"{k}.csv", index=False)
    return model.fit(open_data(folder, file_format="csv", **data.roles()))


def _parquet(model: Any, data: Data, folder: Path) -> Any:
    for k, part in enumerate(data.parts()):
        part.frame().to_parquet(folder / f"{k}.parquet", row_group_size=7)
    return model.fit(open_data(f"{folder}/*.parquet", chunk_rows=5, **data.roles()))


def _svmlight(model: Any, data: Data, folder: Path) -> Any:
    for k, part in enumerate(data.parts()):
        rows = zip(part.X.tolist(), part.y.tolist(), strict=True)
        text = [" ".join([repr(y), *(f"{d + 1}:{v!r}" for d, v in enumerate(x) if v)]) for x, y in rows]
        (folder / f"{k}.svm").write_text("\n".join(text) + "\n")
    return model.fit(open_data(folder, file_format="svmlight", n_features=data.X.shape[1]))


def _dask(model: Any, data: Data, folder: Path) -> Any:
    return model.fit(open_data(dd.from_pandas(data.frame(), npartitions=3, sort=False), **data.roles()))


IN_MEMORY: dict[str, Fit] = {
    "array": _memory(np.asarray),
    "fortran": _memory(np.asfortranarray),
    "strided": _memory(lambda X: np.repeat(X, 2, axis=1)[:, ::2]),
    "float32": _memory(lambda X: X.astype(np.float32)),
    "csr": _memory(sparse.csr_array),
    "csc": _memory(sparse.csc_matrix),
    "frame": _memory(lambda X: pd.DataFrame(X, columns=[f"x{d}" for d in range(X.shape[1])])),
    "polars": _memory(lambda X: pl.DataFrame({f"x{d}": X[:, d] for d in range(X.shape[1])})),
    "on demand": _on_demand,
}
FROM_MOMENTS: dict[str, Fit] = {
    "moments": lambda model, data, folder: model.fit_moments(Moments.from_data(*data.given)),
    "merged": _merged,
    "partial_fit": _in_steps,
}
STREAMED: dict[str, Fit] = {
    "chunks": _chunks,
    "iterator": _iterator,
    "csv": _csv,
    "parquet": _parquet,
    "svmlight": _svmlight,
    "dask": _dask,
}
SOURCES = IN_MEMORY | FROM_MOMENTS | STREAMED


def fit_from(source: str, model: Any, data: Data) -> Any:
    """Fit a model from the data, passed in one of the ways."""
    with TemporaryDirectory(prefix="fuzz-") as folder:
        return SOURCES[source](model, data, Path(folder))
