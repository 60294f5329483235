"""The models that a run may need: every prefix at hand, other sets of groups solved when needed and kept.

A set of groups is an integer with bit j set for the group at step j of the sequence: prefixes are 2^j − 1.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from threading import Lock, Thread

import numpy as np

from budgetline.arrays import Float, Positions
from budgetline.model.stages import StagedModel
from budgetline.runtime.clock import Clock, Estimate
from budgetline.threads import one_blas_thread

CACHE_BYTES = 1 << 26
"""Models of sets that are no prefix are kept up to this size; the least recently used are dropped first."""
QUICK = 1000
"""Up to this number of coefficients, a new runner measures at once how long a solution takes; above it, in a thread."""


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


class SubsetModels:
    """Models by set of groups.

    Parameters
    ----------
    staged : StagedModel
    columns : sequence of int arrays
        Columns of X of every group in the sequence, in the order in which its values come.
    clock : Clock
    """

    def __init__(self, staged: StagedModel, columns: Sequence[Positions], clock: Clock) -> None:
        self._staged, self._clock = staged, clock
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
        self.solving = Estimate()
        if staged.n_stages > 1:
            example = self._stages[-1].groups - 1  # all but the first group: how long does one take?
            if n_coef <= QUICK:
                self.solve(example)
            else:
                self.solving = Estimate(math.inf)
                self.solve_aside(example)

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
        return 0.0 if self.at_hand(groups) is not None else self.solving.seconds

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
            self.solving.update(self._clock.now() - start)
            self._solved[groups] = model
            while len(self._solved) > self._most:
                self._solved.popitem(last=False)
        return model

    def solve_aside(self, groups: int) -> None:
        """Solve for a set in a thread, for the next run that needs it; one at a time, others are not queued."""
        with self._lock:
            if self._thread is None or not self._thread.is_alive():
                self._thread = Thread(target=self.solve, args=(groups,), name="budgetline-solve", daemon=True)
                self._thread.start()

    def close(self) -> None:
        """Wait for the thread."""
        if self._thread is not None:
            self._thread.join()
