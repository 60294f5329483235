"""Scores: the model of a set of groups, and predictions from the values that have arrived, for one input or for many.

A set of groups is an integer with bit j set for the group at step j of the sequence: prefixes are 2^j − 1.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from math import inf
from threading import Lock, Thread

import numpy as np

from budgetline.arrays import Array, Float, Positions
from budgetline.model.anytime import AnytimeModel
from budgetline.model.intervals import interval_of
from budgetline.model.prefixes import PrefixModels, PrefixTable
from budgetline.model.staged import SCORE, Respond
from budgetline.runtime.clock import Clock
from budgetline.threads import one_blas_thread

CACHE_BYTES = 1 << 26
"""Models of sets other than prefixes are cached up to this size; the oldest are dropped first."""
QUICK = 1000
"""Up to this number of coefficients, a new runner measures at once how long a solution takes; above it, in a thread."""

RowIndex = slice | Positions


def leading(groups: int) -> int:
    """Return how many groups from the start of the sequence are all in the set."""
    return (~groups & (groups + 1)).bit_length() - 1


@dataclass(frozen=True, slots=True)
class SubsetModel:
    """Coefficients (P, T) of the columns in sequence order, zero outside the set, and intercepts (P,).

    For a prefix T counts the columns of that prefix alone. ``stage`` is the one that the set is, or is like.
    """

    groups: int
    coef: Float
    intercept: Float
    stage: int


Choose = Callable[[int], SubsetModel]


# -- models of sets ------------------------------------------------------------------------------------------------


class SubsetModels:
    """Linear models by set of groups: every prefix is ready, other sets are solved when needed and cached.

    ``columns`` are the columns of X of every group in the sequence, in the order in which its values come.
    """

    def __init__(self, model: AnytimeModel, columns: Sequence[Positions], clock: Clock) -> None:
        self._model, self._clock = model, clock
        self._staged = staged = model.stages
        self.has_probabilities = model.classes is not None
        self._columns = np.concatenate([np.empty(0, dtype=np.intp), *columns])
        self._ends: list[int] = np.cumsum([0, *(c.size for c in columns)]).tolist()
        path = np.ascontiguousarray(staged.coef_path[..., self._columns])
        self._stages = [SubsetModel(0, np.empty((staged.null_intercept.size, 0)), staged.null_intercept, 0)]
        for j in range(staged.n_stages):
            coef = np.ascontiguousarray(path[j, :, : self._ends[j + 1]])
            self._stages.append(SubsetModel((2 << j) - 1, coef, staged.intercept_path[j], j + 1))
        self._lock = Lock()
        self._solved: dict[int, SubsetModel] = {}
        n_coef = self._columns.size * staged.null_intercept.size
        self._most = max(16, CACHE_BYTES // max(8 * n_coef, 1))
        self._thread: Thread | None = None
        self._slowest = 0.0
        if staged.n_stages > 1:
            example = self._stages[-1].groups - 1  # all but the first group: how long does a solution take?
            if n_coef <= QUICK:
                self.solve(example)
            else:
                self._slowest = inf
                self.solve_in_thread(example)

    def arrived(self, n: int) -> ArrivedRows:
        """Return an empty store for the values of n inputs: zeros where nothing has arrived."""
        places = [slice(*ends) for ends in pairwise(self._ends)]
        return ArrivedRows(np.zeros((n, self._ends[-1])), places)

    def ready(self, groups: int) -> SubsetModel | None:
        """Return the model of a set unless it must be solved first."""
        stage = leading(groups)
        return self._stages[stage] if groups.bit_length() == stage else self._solved.get(groups)

    def seconds(self, groups: int) -> float:
        """Return how long the model of a set may take: 0 if it is ready."""
        return 0.0 if self.ready(groups) is not None else self._slowest

    def solve(self, groups: int) -> SubsetModel:
        """Return the model of a set, solved if need be."""
        model = self.ready(groups)
        if model is not None:
            return model
        start = self._clock.now()
        chosen = np.array([groups >> j & 1 for j in range(self._staged.n_stages)], dtype=bool)
        with one_blas_thread():  # a request should not wait for other threads
            found = self._staged.of_steps(chosen)
        coef = np.ascontiguousarray(found.coef[:, self._columns])
        model = SubsetModel(groups, coef, found.intercept, found.stage)
        with self._lock:
            taken, known = self._clock.now() - start, self._slowest
            self._slowest = max(taken, 0.95 * known) if known < inf else taken  # a slow moment is forgotten again
            self._solved[groups] = model
            while len(self._solved) > self._most:
                del self._solved[next(iter(self._solved))]
        return model

    def solve_in_thread(self, groups: int) -> None:
        """Solve for a set in a thread, for the next run that needs it; while one is solved, others are not queued."""
        with self._lock:
            if self._thread is None or not self._thread.is_alive():
                self._thread = Thread(target=self.solve, args=(groups,), name="budgetline-solve", daemon=True)
                self._thread.start()

    def scores(self, arrived: ArrivedRows, groups: int, choose: Choose) -> Float:
        """Return the calibrated scores (n, P) from these groups; ``choose`` returns the model of a set."""

        def result(own: int, rows: RowIndex) -> Float:
            model = choose(own)
            return self._model.calibrated(_linear(model, arrived.cells[rows]), model.stage)

        return arrived.by_pattern(groups, result)

    def interval(self, arrived: ArrivedRows, groups: int, choose: Choose, coverage: float) -> Array:
        """Return the bounds of prediction intervals from these groups, shape (n, 2) or (n, 2, P)."""

        def result(own: int, rows: RowIndex) -> Array:
            model = choose(own)
            scores = _linear(model, arrived.cells[rows])
            return np.stack(interval_of(self._model, scores, model.stage, coverage), axis=1)

        return arrived.by_pattern(groups, result)

    def respond(self, arrived: ArrivedRows, groups: int, choose: Choose) -> Respond:
        """Return a function from the name of a method to its results, as `scores`."""
        return partial(self._model.results, self.scores(arrived, groups, choose))

    def close(self) -> None:
        """Wait for the thread."""
        if self._thread is not None:
            self._thread.join()


def _linear(model: SubsetModel, cells: Float) -> Float:
    """Return the linear scores (n, P) of rows of cells."""
    return np.asarray(cells[:, : model.coef.shape[1]] @ model.coef.T + model.intercept)


class PrefixSets:
    """The same for estimators of any kind: a set of groups is predicted by its longest prefix, which is ready."""

    def __init__(self, model: PrefixModels) -> None:
        self._model = model
        self.has_probabilities = model.classes is not None and hasattr(model.fitted[-1], "predict_proba")

    def arrived(self, n: int) -> ArrivedRows:
        """Return an empty store for the values of n inputs: None where nothing has arrived."""
        layout = self._model.layout
        places = [layout.columns[g] for g in self._model.sequence.order.tolist()]
        return ArrivedRows(np.full((n, layout.n_features), None, dtype=object), places)

    def ready(self, groups: int) -> SubsetModel:
        """Return the longest prefix inside a set that has an estimator."""
        none = np.empty((0, 0))
        stage = self._model.end_at(leading(groups))
        return SubsetModel((1 << stage) - 1, none, none, stage)

    solve = ready

    def seconds(self, groups: int) -> float:
        """Return 0: every prefix is ready."""
        return 0.0

    def solve_in_thread(self, groups: int) -> None:
        """Do nothing: there is nothing to solve."""

    def scores(self, arrived: ArrivedRows, groups: int, choose: Choose) -> Float:
        """Return the scores (n, P) from these groups."""
        return self.respond(arrived, groups, choose)(SCORE)

    def respond(self, arrived: ArrivedRows, groups: int, choose: Choose) -> Respond:
        """Return a function from the name of a method to its results."""

        def results(method: str) -> Array:
            return arrived.by_pattern(
                groups, lambda own, rows: self._results(arrived.cells[rows], leading(own), method)
            )

        return results

    def _results(self, cells: Array, stage: int, method: str) -> Array:
        """Return the results of a method from the values of the first groups, as a table of all known columns."""
        layout, read = self._model.layout, self._model.columns_at(stage)
        values = np.full(cells.shape, None, dtype=object)
        values[:, read] = cells[:, read]
        values = values if self._model.empty is not None else values.astype(np.float64)
        table = PrefixTable(values, np.arange(layout.n_features), layout.names, self._model.empty)
        return self._model.respond(stage, table, method)

    def close(self) -> None:
        """Do nothing: there is no thread."""


# -- values that have arrived --------------------------------------------------------------------------------------


class ArrivedRows:
    """The values of n inputs: ``cells`` (n, D), with the columns ``places`` of each step of the sequence.

    ``lacking`` says which rows lack a group that has arrived.
    """

    def __init__(self, cells: Array, places: Sequence[slice | Positions]) -> None:
        self.cells, self._places = cells, places
        self.lacking: dict[int, list[int]] = {}

    def put(self, position: int, values: Array, lacking: list[int]) -> None:
        """Store the values (n, width) of the group at this step; the rows ``lacking`` do not have it."""
        self.cells[:, self._places[position]] = values
        if lacking:
            self.lacking[position] = lacking

    def values(self, position: int) -> Array:
        """Return the values (n, width) of the group at this step."""
        return self.cells[:, self._places[position]]

    def by_pattern(self, groups: int, result: Callable[[int, RowIndex], Array]) -> Array:
        """Return results (n, …), computed together for the rows that have the same subset of the groups."""
        incomplete = [j for j in self.lacking if groups >> j & 1]
        if not incomplete:
            return result(groups, slice(None))
        lacks = np.zeros((len(self.cells), len(incomplete)), dtype=bool)
        for k, j in enumerate(incomplete):
            lacks[self.lacking[j], k] = True
        patterns, which = np.unique(lacks, axis=0, return_inverse=True)
        parts = []
        for k, pattern in enumerate(patterns):
            without = sum(1 << j for j, absent in zip(incomplete, pattern, strict=True) if absent)
            rows = np.flatnonzero(which.ravel() == k)
            parts.append((rows, result(groups & ~without, rows)))
        found = np.empty((len(self.cells), *parts[0][1].shape[1:]), dtype=parts[0][1].dtype)
        for rows, part in parts:
            found[rows] = part
        return found
