"""Moments of training and held-out sets, from one pass over the data."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import compress

import numpy as np

from budgetline.arrays import Array, Mask, Positions
from budgetline.data.rows import Rows
from budgetline.moments.moments import Moments, moments_of
from budgetline.moments.sums import add_up

Split = tuple[Positions, Positions]


def fold_moments(
    rows: Rows, splits: Sequence[Split], names: Sequence[str] | None = None
) -> Iterator[tuple[Moments, Moments]]:
    """Yield the moments of the training and the held-out rows of every split.

    Rows that are on the same side in every split form a cell (for K-fold, a fold); the moments of the cells are
    computed in one pass and added up. Nothing is subtracted, so nothing cancels. Splits with too many cells, or
    with repeated rows, are read one by one.
    """
    sides = [[_positions(index) for index in split] for split in splits]
    cells = _cells(rows, sides)
    if cells is None:
        sums: Iterator[list[Moments | None]] = ([_moments(rows, index, names) for index in split] for split in sides)
    else:
        patterns, members = cells
        parts = [_moments(rows, index, names) for index in members]
        sums = ([add_up(compress(parts, patterns[:, 2 * k + s])) for s in range(2)] for k in range(len(splits)))
    for k, (train, test) in enumerate(sums):
        for which, moments in (("training", train), ("held-out", test)):
            if moments is None:
                raise ValueError(f"the {which} set of fold {k} has no sample of positive weight")
        assert train is not None
        assert test is not None
        yield train, test


def _positions(index: Array) -> Positions:
    index = np.asarray(index)
    return np.flatnonzero(index) if index.dtype == bool else index


def _cells(rows: Rows, sides: list[list[Positions]]) -> tuple[Mask, list[Positions]] | None:
    """Return which sides each cell is on, and its rows; None if cells would not save time."""
    side = np.zeros((rows.n_rows, 2 * len(sides)), dtype=bool)
    for k, split in enumerate(sides):
        for s, index in enumerate(split):
            side[index, 2 * k + s] = True
            if np.count_nonzero(side[:, 2 * k + s]) < index.size:
                return None  # a bootstrap: rows count more than once
    patterns, cell = np.unique(side, axis=0, return_inverse=True)
    if len(patterns) > min(4 * len(sides), 100):
        return None
    return patterns, [np.flatnonzero(cell.ravel() == c) for c in range(len(patterns))]


def _moments(rows: Rows, index: Positions, names: Sequence[str] | None) -> Moments | None:
    if index.size == 0 or (rows.weight is not None and not rows.weight[index].any()):
        return None
    return moments_of(replace(rows, rows=index), (rows.Y.shape[1],), names)
