"""The values that have arrived, for one input or for many, and scores from them."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from budgetline.runtime.models import Model
from budgetline.threads import in_threads

Float = NDArray[np.float64]
Choose = Callable[[int], Model]

PATH_ROWS = 1024
"""Rows are gathered for one product of all stages so many at a time: they stay in the processor's cache."""


class OneRow:
    """The values for one input, side by side in sequence order; zero where nothing has arrived."""

    def __init__(self, ends: list[int]) -> None:
        self._ends = ends
        self._x = np.zeros((1, ends[-1]))

    def put(self, position: int, values: Float, lacking: list[int]) -> None:
        """Take the values (1, width) of the group at this step."""
        self._x[:, self._ends[position] : self._ends[position + 1]] = values

    def lacking(self, position: int) -> list[int]:
        """Return the rows that lack a group which has arrived: there is but one."""
        return []

    def scores(self, groups: int, choose: Choose) -> Float:
        """Return the scores (1, P) of the model for these groups."""
        model = choose(groups)
        return self._x[:, : model.coef.shape[1]] @ model.coef.T + model.intercept


class ManyRows:
    """The tables for many inputs as they came, without a copy, and which rows lack which group."""

    def __init__(self, ends: list[int], n: int) -> None:
        self._ends, self._n = ends, n
        self._tables: dict[int, Float] = {}
        self._lacking: dict[int, list[int]] = {}

    def put(self, position: int, values: Float, lacking: list[int]) -> None:
        """Take the table (n, width) of the group at this step, which is not there for the rows ``lacking``."""
        self._tables[position] = values
        if lacking:
            self._lacking[position] = lacking

    def lacking(self, position: int) -> list[int]:
        """Return the rows that lack a group which has arrived."""
        return self._lacking.get(position, [])

    def scores(self, groups: int, choose: Choose) -> Float:
        """Return the scores (n, P), of every row from the groups that it has."""
        found: Float | None = None
        for own, rows in self._patterns(groups):
            model = choose(own)
            part = np.tile(model.intercept, (self._n if rows is None else rows.size, 1))
            for j in self._steps(model.groups):
                table = self._tables[j] if rows is None else self._tables[j][rows]
                part += table @ model.coef[:, self._ends[j] : self._ends[j + 1]].T
            if rows is None:
                return part
            found = np.empty((self._n, part.shape[1])) if found is None else found
            found[rows] = part
        assert found is not None
        return found

    def path(self, groups: int, choose: Choose) -> Float:
        """Return the scores (1 + stages, n, P) from the first 0, 1, … groups of the sequence that each row has."""
        stages = len(self._ends) - 1
        P = choose(0).intercept.size
        found = np.empty((1 + stages, self._n, P))
        for own, rows in self._patterns(groups):
            models = [choose(own & ((1 << j) - 1)) for j in range(1 + stages)]
            coef = np.zeros((1 + stages, P, self._ends[-1]))
            for j, model in enumerate(models):
                coef[j, :, : model.coef.shape[1]] = model.coef
            intercept = np.stack([model.intercept for model in models])
            self._multiply(own, rows, coef, intercept, found)
        return found

    def _multiply(self, groups: int, rows: NDArray[np.intp] | None, coef: Float, intercept: Float, out: Float) -> None:
        """Write X·coef' + intercept of all stages into the rows of ``out``, a few of them at a time."""
        n = self._n if rows is None else rows.size
        steps = list(self._steps(groups))
        flat = coef.reshape(-1, self._ends[-1])

        def work(lane: list[slice]) -> None:
            gathered = np.zeros((self._ends[-1], PATH_ROWS))  # transposed: columns come one after the other
            for part in lane:
                where = part if rows is None else rows[part]
                X = gathered[:, : part.stop - part.start]
                for j in steps:
                    X[self._ends[j] : self._ends[j + 1]] = self._tables[j][where].T
                scores = (flat @ X).reshape(*intercept.shape, -1).transpose(0, 2, 1)
                if rows is None:
                    np.add(scores, intercept[:, None, :], out=out[:, part])
                else:
                    out[:, where] = scores + intercept[:, None, :]

        in_threads(work, [slice(a, min(a + PATH_ROWS, n)) for a in range(0, n, PATH_ROWS)])

    def _steps(self, groups: int) -> Iterator[int]:
        return (j for j in self._tables if groups >> j & 1)

    def _patterns(self, groups: int) -> Iterator[tuple[int, NDArray[np.intp] | None]]:
        """Yield sets of groups and the rows that have exactly these; None means all rows."""
        partial = [j for j in self._lacking if groups >> j & 1]
        if not partial:
            yield groups, None
            return
        lacks = np.zeros((self._n, len(partial)), dtype=bool)
        for k, j in enumerate(partial):
            lacks[self._lacking[j], k] = True
        patterns, which = np.unique(lacks, axis=0, return_inverse=True)
        for k, pattern in enumerate(patterns):
            without = sum(1 << j for j, lacking in zip(partial, pattern, strict=True) if lacking)
            yield groups & ~without, np.flatnonzero(which.ravel() == k)
