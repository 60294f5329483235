"""Scores: the models of sets of groups, and the values that have arrived, for one input or for many.

A set of groups is an integer with bit j set for the group at step j of the sequence: prefixes are 2^j − 1.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from threading import Lock, Thread

import numpy as np

from budgetline.arrays import Array, Float, Positions
from budgetline.model.anytime import AnytimeModel
from budgetline.model.staged import Respond
from budgetline.runtime.clock import Clock, Estimate
from budgetline.threads import in_threads, one_blas_thread

CACHE_BYTES = 1 << 26
"""Models of sets that are no prefix are kept up to this size; the least recently used are dropped first."""
QUICK = 1000
"""Up to this number of coefficients, a new runner measures at once how long a solution takes; above it, in a thread."""
PATH_ROWS = 1024
"""How many rows are gathered for one product of all stages: few enough to stay in the processor's cache."""


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


Rows = slice | Positions
Choose = Callable[[int], SubsetModel]


class SubsetModels:
    """Models by set of groups: every prefix at hand, other sets solved when needed and kept.

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
            example = self._stages[-1].groups - 1  # all but the first group: how long does one take?
            if n_coef <= QUICK:
                self.solve(example)
            else:
                self._solving = Estimate(math.inf)
                self.solve_in_thread(example)

    def features(self, n: int | None) -> OneRow | ManyRows:
        """Return what takes the values of n inputs; None: of a single one."""
        return OneRow(self.ends, self._model) if n is None else ManyRows(self.ends, n, self._model)

    def at_hand(self, groups: int) -> SubsetModel | None:
        """Return the model of a set if that takes no time."""
        stage = leading(groups)
        if groups.bit_length() == stage:
            return self._stages[stage]
        with self._lock:
            model = self._solved.get(groups)
            if model is not None:
                self._solved.move_to_end(groups)
        return model

    def seconds(self, groups: int) -> float:
        """Return how long it may take to have the model of a set: 0 if it is at hand."""
        return 0.0 if self.at_hand(groups) is not None else self._solving.seconds

    def solve(self, groups: int) -> SubsetModel:
        """Return the model of a set, solved if need be."""
        model = self.at_hand(groups)
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
        """Solve for a set in a thread, for the next run that needs it; one at a time, others are not queued."""
        with self._lock:
            if self._thread is None or not self._thread.is_alive():
                self._thread = Thread(target=self.solve, args=(groups,), name="budgetline-solve", daemon=True)
                self._thread.start()

    def close(self) -> None:
        """Wait for the thread."""
        if self._thread is not None:
            self._thread.join()


class OneRow:
    """The values for one input, side by side in sequence order; zero where nothing has arrived."""

    def __init__(self, ends: list[int], model: AnytimeModel) -> None:
        self._ends, self._model = ends, model
        self._x = np.zeros((1, ends[-1]))
        self.lacking: dict[int, list[int]] = {}  # none: a group that has arrived is there for the only row

    def put(self, position: int, values: Float, lacking: list[int]) -> None:
        """Take the values (1, width) of the group at this step."""
        self._x[:, self._ends[position] : self._ends[position + 1]] = values

    def values(self, position: int) -> Float:
        """Return the values (1, width) of the group at this step."""
        return self._x[:, self._ends[position] : self._ends[position + 1]]

    def scores(self, groups: int, choose: Choose) -> Float:
        """Return the scores (1, P) of the model for these groups."""
        model = choose(groups)
        return self._x[:, : model.coef.shape[1]] @ model.coef.T + model.intercept

    def answers(self, groups: int, choose: Choose, path: bool) -> tuple[Respond, None]:
        """Return the results of methods; one input has no path."""
        return partial(self._model.respond, self.scores(groups, choose)), None


class ManyRows:
    """The tables for many inputs as they arrived, not copied, and which rows lack which group."""

    def __init__(self, ends: list[int], n: int, model: AnytimeModel) -> None:
        self._ends, self._n, self._model = ends, n, model
        self._tables: dict[int, Float] = {}
        self.lacking: dict[int, list[int]] = {}

    def put(self, position: int, values: Float, lacking: list[int]) -> None:
        """Take the table (n, width) of the group at this step; the rows ``lacking`` do not have it."""
        self._tables[position] = values
        if lacking:
            self.lacking[position] = lacking

    def values(self, position: int) -> Float:
        """Return the table (n, width) of the group at this step."""
        return self._tables[position]

    def scores(self, groups: int, choose: Choose) -> Float:
        """Return the scores (n, P); each row is scored from the groups that it has."""
        found = np.empty((self._n, choose(0).intercept.size))
        for own, rows in self._patterns(groups):
            model, part = choose(own), found[rows]
            part[:] = model.intercept
            for j in (j for j in self._tables if model.groups >> j & 1):
                part += self._tables[j][rows] @ model.coef[:, self._ends[j] : self._ends[j + 1]].T
            found[rows] = part
        return found

    def answers(self, groups: int, choose: Choose, path: bool) -> tuple[Respond, Array | None]:
        """Return the results of methods and, with ``path``, the predictions after 0, 1, … groups."""
        if not path:
            return partial(self._model.respond, self.scores(groups, choose)), None
        every = self.path(groups, choose)
        values = self._model.respond(every.reshape(-1, every.shape[-1]), "predict")
        return partial(self._model.respond, every[-1]), values.reshape(*every.shape[:2], *values.shape[1:])

    def path(self, groups: int, choose: Choose) -> Float:
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

    def _multiply(self, groups: int, rows: Rows, coef: Float, intercept: Float, out: Float) -> None:
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

    def _patterns(self, groups: int) -> Iterator[tuple[int, Rows]]:
        return patterns_of(self.lacking, self._n, groups)


def patterns_of(lacking: Mapping[int, Sequence[int]], n: int, groups: int) -> Iterator[tuple[int, Rows]]:
    """Yield sets of groups and the rows, of n, that have exactly these; some rows lack some groups."""
    incomplete = [j for j in lacking if groups >> j & 1]
    if not incomplete:
        yield groups, slice(None)
        return
    lacks = np.zeros((n, len(incomplete)), dtype=bool)
    for k, j in enumerate(incomplete):
        lacks[lacking[j], k] = True
    patterns, which = np.unique(lacks, axis=0, return_inverse=True)
    for k, pattern in enumerate(patterns):
        without = sum(1 << j for j, absent in zip(incomplete, pattern, strict=True) if absent)
        yield groups & ~without, np.flatnonzero(which.ravel() == k)
