"""Scores: the model of a set of groups, and predictions from the values that have arrived, for one input or for many.

A set of groups is an integer with bit j set for the group at step j of the sequence: prefixes are 2^j − 1.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, partial
from threading import Lock, Thread

import numpy as np

from budgetline.arrays import Array, Float, Positions
from budgetline.model.anytime import AnytimeModel
from budgetline.model.prefixes import PrefixModels, PrefixTable
from budgetline.model.staged import SCORE, Respond
from budgetline.runtime.clock import Clock, Estimate
from budgetline.threads import in_threads, one_blas_thread

CACHE_BYTES = 1 << 26
"""Models of sets other than prefixes are cached up to this size; the least recently used are dropped first."""
QUICK = 1000
"""Up to this number of coefficients, a new runner measures at once how long a solution takes; above it, in a thread."""
PATH_ROWS = 1024
"""RowIndex that are gathered for one product of all stages: few enough to stay in the processor's cache."""

RowIndex = slice | Positions


def leading(groups: int) -> int:
    """Return how many groups from the start of the sequence are all in the set."""
    return (~groups & (groups + 1)).bit_length() - 1


@dataclass(frozen=True, slots=True)
class SubsetModel:
    """Coefficients (P, T) of the columns in sequence order, zero outside the set, and intercepts (P,).

    For a prefix T counts the columns of that prefix alone.
    """

    groups: int
    coef: Float
    intercept: Float


Choose = Callable[[int], SubsetModel]


# -- models of sets ------------------------------------------------------------------------------------------------


class SubsetModels:
    """Models by set of groups: every prefix is ready, other sets are solved when needed and cached.

    ``columns`` are the columns of X of every group in the sequence, in the order in which its values come.
    """

    def __init__(self, model: AnytimeModel, columns: Sequence[Positions], clock: Clock) -> None:
        self._model, self._clock = model, clock
        self._staged = staged = model.stages
        self.has_probabilities = model.classes is not None
        self._columns = np.concatenate([np.empty(0, dtype=np.intp), *columns])
        self.ends: list[int] = np.cumsum([0, *(c.size for c in columns)]).tolist()
        path = np.ascontiguousarray(staged.coef_path[..., self._columns])
        n_coef = self._columns.size * staged.null_intercept.size
        self._stages = [SubsetModel(0, np.empty((staged.null_intercept.size, 0)), staged.null_intercept)]
        for j in range(staged.n_stages):
            coef = np.ascontiguousarray(path[j, :, : self.ends[j + 1]])
            self._stages.append(SubsetModel((2 << j) - 1, coef, staged.intercept_path[j]))
        self._lock = Lock()
        self._solved: OrderedDict[int, SubsetModel] = OrderedDict()
        self._most = max(16, CACHE_BYTES // max(8 * n_coef, 1))
        self._thread: Thread | None = None
        self._solving = Estimate()
        if staged.n_stages > 1:
            example = self._stages[-1].groups - 1  # all but the first group: how long does a solution take?
            if n_coef <= QUICK:
                self.solve(example)
            else:
                self._solving = Estimate(math.inf)
                self.solve_in_thread(example)

    def arrived(self, n: int | None) -> OneRow | ManyRows:
        """Return an empty store for the values of n inputs; None: of a single one."""
        return OneRow(self.ends, self._model) if n is None else ManyRows(self.ends, n, self._model)

    def ready(self, groups: int) -> SubsetModel | None:
        """Return the model of a set unless it must be solved first."""
        stage = leading(groups)
        if groups.bit_length() == stage:
            return self._stages[stage]
        with self._lock:
            model = self._solved.get(groups)
            if model is not None:
                self._solved.move_to_end(groups)
        return model

    def seconds(self, groups: int) -> float:
        """Return how long the model of a set may take: 0 if it is ready."""
        return 0.0 if self.ready(groups) is not None else self._solving.seconds

    def solve(self, groups: int) -> SubsetModel:
        """Return the model of a set, solved if need be."""
        model = self.ready(groups)
        if model is not None:
            return model
        start = self._clock.now()
        chosen = np.array([groups >> j & 1 for j in range(self._staged.n_stages)], dtype=bool)
        with one_blas_thread():  # a request should not wait for other threads
            found = self._staged.of_steps(chosen)
        model = SubsetModel(groups, np.ascontiguousarray(found.coef[:, self._columns]), found.intercept)
        with self._lock:
            self._solving.update(self._clock.now() - start)
            self._solved[groups] = model
            while len(self._solved) > self._most:
                self._solved.popitem(last=False)
        return model

    def solve_in_thread(self, groups: int) -> None:
        """Solve for a set in a thread, for the next run that needs it; while one is solved, others are not queued."""
        with self._lock:
            if self._thread is None or not self._thread.is_alive():
                self._thread = Thread(target=self.solve, args=(groups,), name="budgetline-solve", daemon=True)
                self._thread.start()

    def close(self) -> None:
        """Wait for the thread."""
        if self._thread is not None:
            self._thread.join()


class PrefixSets:
    """The same for estimators of any kind: a set of groups is predicted by its longest prefix, which is ready."""

    def __init__(self, model: PrefixModels) -> None:
        self._model = model
        self._none = np.empty((0, 0))
        self.has_probabilities = model.classes is not None and hasattr(model.fitted[-1], "predict_proba")

    def arrived(self, n: int | None) -> PrefixRows:
        """Return an empty store for the values of n inputs; None: of a single one."""
        return PrefixRows(self._model, n or 1)

    def ready(self, groups: int) -> SubsetModel:
        """Return the longest prefix inside a set that has an estimator."""
        return SubsetModel((1 << self._model.end_at(leading(groups))) - 1, self._none, self._none)

    solve = ready

    def seconds(self, groups: int) -> float:
        """Return 0: every prefix is ready."""
        return 0.0

    def solve_in_thread(self, groups: int) -> None:
        """Do nothing: there is nothing to solve."""

    def close(self) -> None:
        """Do nothing: there is no thread."""


# -- values that have arrived --------------------------------------------------------------------------------------


class OneRow:
    """The values of one input, side by side in sequence order; zero where nothing has arrived."""

    def __init__(self, ends: list[int], model: AnytimeModel) -> None:
        self._ends, self._model = ends, model
        self._x = np.zeros((1, ends[-1]))
        self.lacking: dict[int, list[int]] = {}  # stays empty: the only row has every group that has arrived

    def put(self, position: int, values: Float, lacking: list[int]) -> None:
        """Store the values (1, width) of the group at this step."""
        self._x[:, self._ends[position] : self._ends[position + 1]] = values

    def values(self, position: int) -> Float:
        """Return the values (1, width) of the group at this step."""
        return self._x[:, self._ends[position] : self._ends[position + 1]]

    def scores(self, groups: int, choose: Choose) -> Float:
        """Return the scores (1, P) of the model for these groups."""
        model = choose(groups)
        return self._x[:, : model.coef.shape[1]] @ model.coef.T + model.intercept

    def predictions(self, groups: int, choose: Choose, path: bool) -> tuple[Respond, None]:
        """Return a function of the method's name; one input has no path."""
        return partial(self._model.respond, self.scores(groups, choose)), None


class _Tables:
    """The tables of n inputs as they arrived, not copied, and which rows lack which group."""

    def __init__(self, n: int) -> None:
        self._n = n
        self._tables: dict[int, Array] = {}
        self.lacking: dict[int, list[int]] = {}

    def put(self, position: int, values: Array, lacking: list[int]) -> None:
        """Store the table (n, width) of the group at this step; the rows ``lacking`` do not have it."""
        self._tables[position] = values
        if lacking:
            self.lacking[position] = lacking

    def values(self, position: int) -> Array:
        """Return the table (n, width) of the group at this step."""
        return self._tables[position]

    def _patterns(self, groups: int) -> Iterator[tuple[int, RowIndex]]:
        """Yield subsets of the groups, and the rows that have exactly these."""
        incomplete = [j for j in self.lacking if groups >> j & 1]
        if not incomplete:
            yield groups, slice(None)
            return
        lacks = np.zeros((self._n, len(incomplete)), dtype=bool)
        for k, j in enumerate(incomplete):
            lacks[self.lacking[j], k] = True
        patterns, which = np.unique(lacks, axis=0, return_inverse=True)
        for k, pattern in enumerate(patterns):
            without = sum(1 << j for j, absent in zip(incomplete, pattern, strict=True) if absent)
            yield groups & ~without, np.flatnonzero(which.ravel() == k)


class ManyRows(_Tables):
    """Predicts each row from the groups that it has, with an AnytimeModel."""

    def __init__(self, ends: list[int], n: int, model: AnytimeModel) -> None:
        super().__init__(n)
        self._ends, self._model = ends, model

    def scores(self, groups: int, choose: Choose) -> Float:
        """Return the scores (n, P)."""
        found = np.empty((self._n, choose(0).intercept.size))
        for own, rows in self._patterns(groups):
            model, part = choose(own), found[rows]
            part[:] = model.intercept
            for j in (j for j in self._tables if model.groups >> j & 1):
                part += self._tables[j][rows] @ model.coef[:, self._ends[j] : self._ends[j + 1]].T
            found[rows] = part
        return found

    def predictions(self, groups: int, choose: Choose, path: bool) -> tuple[Respond, Array | None]:
        """Return a function of the method's name and, with ``path``, the predictions after 0, 1, … groups."""
        if not path:
            return partial(self._model.respond, self.scores(groups, choose)), None
        every = self._path(groups, choose)
        values = self._model.respond(every.reshape(-1, every.shape[-1]), "predict")
        return partial(self._model.respond, every[-1]), values.reshape(*every.shape[:2], *values.shape[1:])

    def _path(self, groups: int, choose: Choose) -> Float:
        """Return the scores (1 + stages, n, P) from the first 0, 1, … groups of the sequence that each row has."""
        K, P = len(self._ends), choose(0).intercept.size
        found = np.empty((K, self._n, P))
        for own, rows in self._patterns(groups):
            models = [choose(own & ((1 << j) - 1)) for j in range(K)]
            coef = np.zeros((K, P, self._ends[-1]))
            for j, model in enumerate(models):
                coef[j, :, : model.coef.shape[1]] = model.coef
            self._multiply(own, rows, coef, np.stack([model.intercept for model in models]), found)
        return found

    def _multiply(self, groups: int, rows: RowIndex, coef: Float, intercept: Float, out: Float) -> None:
        """Write X·coef' + intercept of all stages into the rows of ``out``, a few of them at a time."""
        n = self._n if isinstance(rows, slice) else rows.size
        steps = [j for j in self._tables if groups >> j & 1]
        flat = coef.reshape(-1, self._ends[-1])

        def work(slices: list[slice]) -> None:
            gathered = np.zeros((self._ends[-1], PATH_ROWS))  # transposed: columns come one after the other
            for part in slices:
                where = part if isinstance(rows, slice) else rows[part]
                X = gathered[:, : part.stop - part.start]
                for j in steps:
                    X[self._ends[j] : self._ends[j + 1]] = self._tables[j][where].T
                scores = (flat @ X).reshape(*intercept.shape, -1).transpose(0, 2, 1)
                out[:, where] = scores + intercept[:, None, :]

        in_threads(work, [slice(a, min(a + PATH_ROWS, n)) for a in range(0, n, PATH_ROWS)])


class PrefixRows(_Tables):
    """Predicts each row from the longest prefix that it has, with the estimator of that prefix."""

    def __init__(self, model: PrefixModels, n: int) -> None:
        super().__init__(n)
        self._model = model

    def scores(self, groups: int, choose: Choose) -> Float:
        """Return the scores (n, P)."""
        return self._result(groups, SCORE)

    def predictions(self, groups: int, choose: Choose, path: bool) -> tuple[Respond, Array | None]:
        """Return a function of the method's name and, with ``path``, the predictions after 0, 1, … groups."""
        stages = range(self._model.n_stages + 1) if path else ()
        along = [self._result(groups & ((1 << stage) - 1), "predict") for stage in stages]
        return cache(partial(self._result, groups)), np.stack(along) if along else None

    def _result(self, groups: int, method: str) -> Array:
        parts = []
        for own, rows in self._patterns(groups):
            stage = leading(own)
            parts.append((rows, self._model.respond(stage, self._table(stage, rows), method)))
        found = np.empty((self._n, *parts[0][1].shape[1:]), dtype=parts[0][1].dtype)
        for rows, part in parts:
            found[rows] = part
        return found

    def _table(self, stage: int, rows: RowIndex) -> PrefixTable:
        """Return the values of the first groups as a table of all known columns."""
        model = self._model
        entries = np.full((self._n, model.layout.n_features), None, dtype=object)
        for step, g in enumerate(model.sequence.order[: model.end_at(stage)].tolist()):
            entries[:, model.layout.columns[g]] = self._tables[step]
        values = entries[rows] if model.empty is not None else entries[rows].astype(np.float64)
        return PrefixTable(values, np.arange(model.layout.n_features), model.layout.names, model.empty)
