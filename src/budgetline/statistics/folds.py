"""Moments of training and held-out sets, from one pass over the data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import reduce
from operator import add
from typing import Any

import numpy as np
from numpy.typing import NDArray

from budgetline.statistics.chunks import Rows
from budgetline.statistics.moments import Moments, moments_of

Split = tuple[NDArray[np.intp], NDArray[np.intp]]


def fold_moments(
    rows: Rows, splits: Sequence[Split], names: Sequence[str] | None = None
) -> list[tuple[Moments, Moments]]:
    """Return the moments of the training and the held-out rows of every split.

    Rows that are on the same side in every split form a cell (for K-fold, a fold); the moments of the cells are
    computed in one pass and added up. Nothing is ever subtracted, so nothing cancels. Splits with so many cells that
    this does not pay (repeated shuffles) are read one by one.
    """
    side = np.zeros((rows.n_rows, 2 * len(splits)), dtype=bool)
    for k, split in enumerate(splits):
        for s, index in enumerate(split):
            side[index, 2 * k + s] = True
    patterns, cell = np.unique(side, axis=0, return_inverse=True)
    if len(patterns) <= 4 * len(splits):
        cells = [_moments(rows, np.flatnonzero(cell.ravel() == c), names) for c in range(len(patterns))]
        sets = [[m for m, p in zip(cells, patterns, strict=True) if p[column] and m] for column in range(side.shape[1])]
        sums = [reduce(add, parts) if parts else None for parts in sets]
    else:
        sums = [_moments(rows, np.asarray(index), names) for split in splits for index in split]
    for k, total in enumerate(sums):
        if total is None:
            raise ValueError(
                f"the {('training', 'held-out')[k % 2]} set of fold {k // 2} has no sample of positive weight"
            )
    return list(zip(sums[::2], sums[1::2], strict=True))  # type: ignore[arg-type]


def _moments(rows: Rows, index: NDArray[Any], names: Sequence[str] | None) -> Moments | None:
    if index.size == 0 or (rows.weight is not None and not rows.weight[index].any()):
        return None
    return moments_of(replace(rows, rows=index), (rows.Y.shape[1],), names)
