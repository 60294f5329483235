"""Turn raw features with missing values into numeric columns."""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np

from budgetline.arrays import Float

Kind = Literal["numeric", "binary", "categorical"]


class Column(NamedTuple):
    """One numeric column of a design matrix."""

    name: str
    values: Float


def encode_feature(name: str, values: Float, kind: Kind) -> list[Column]:
    """Impute one raw feature and code it as numeric columns.

    A missing value becomes the median (numeric) or the most frequent value (binary, categorical), and a 0/1
    column ``name=missing`` says where. A categorical feature becomes one 0/1 column ``name=level`` for every
    level but the most frequent. ``values``, of shape (n_samples,), are NaN where they are missing.
    """
    missing = np.isnan(values)
    levels, counts = np.unique(values[~missing], return_counts=True)
    mode = levels[np.argmax(counts)]
    centre = np.median(values[~missing]) if kind == "numeric" else mode
    filled = np.where(missing, centre, values)
    if kind == "categorical":
        columns = [Column(f"{name}={level:g}", (filled == level).astype(float)) for level in levels if level != mode]
    else:
        columns = [Column(name, filled)]
    if missing.any():
        columns.append(Column(f"{name}=missing", missing.astype(float)))
    return columns


def drop_redundant(columns: list[Column]) -> list[Column]:
    """Leave out the columns of one group that are constant or repeat an earlier one exactly."""
    kept: list[Column] = []
    for column in columns:
        constant = np.ptp(column.values) == 0
        repeated = any(np.array_equal(column.values, other.values) for other in kept)
        if not constant and not repeated:
            kept.append(column)
    return kept
