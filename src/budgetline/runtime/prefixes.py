"""Answers of estimators of any kind: every prefix has a model or is answered by a shorter one, other sets have none."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import numpy as np

from budgetline.arrays import Array, Float
from budgetline.model.prefixes import PrefixModels, PrefixTable
from budgetline.model.staged import SCORE, Respond
from budgetline.runtime.scoring import Choose, Rows, SubsetModel, leading, patterns_of

NOTHING = np.empty((0, 0))


class PrefixSets:
    """Which prefix answers for a set of groups: always at hand."""

    def __init__(self, model: PrefixModels) -> None:
        self._model = model
        self.has_probabilities = model.classes is not None and hasattr(model.fitted[-1], "predict_proba")

    def features(self, n: int | None) -> PrefixRows:
        """Return what takes the values of n inputs; None: of a single one."""
        return PrefixRows(self._model, n or 1)

    def at_hand(self, groups: int) -> SubsetModel:
        """Return the longest prefix inside a set that has an estimator."""
        return SubsetModel((1 << self._model.end_at(leading(groups))) - 1, NOTHING, NOTHING)

    def seconds(self, groups: int) -> float:
        """Return how long it takes to have the model of a set."""
        return 0.0

    def solve(self, groups: int) -> SubsetModel:
        """Return the same as :meth:`at_hand`."""
        return self.at_hand(groups)

    def solve_in_thread(self, groups: int) -> None:
        """Do nothing: there is nothing to solve."""

    def close(self) -> None:
        """Do nothing: there is no thread."""


class PrefixRows:
    """The values for some inputs as they arrived, and which rows lack which group."""

    def __init__(self, model: PrefixModels, n: int) -> None:
        self._model, self._n = model, n
        self._tables: dict[int, Array] = {}
        self.lacking: dict[int, list[int]] = {}

    def put(self, position: int, values: Array, lacking: list[int]) -> None:
        """Take the entries (n, width) of the group at this step; the rows ``lacking`` do not have it."""
        self._tables[position] = values
        if lacking:
            self.lacking[position] = lacking

    def values(self, position: int) -> Array:
        """Return the entries (n, width) of the group at this step."""
        return self._tables[position]

    def scores(self, groups: int, choose: Choose) -> Float:
        """Return the scores (n, P) of the longest prefix that each row has."""
        return self._result(groups, SCORE)

    def answers(self, groups: int, choose: Choose, path: bool) -> tuple[Respond, Array | None]:
        """Return the results of methods and, with ``path``, the predictions after 0, 1, … groups."""
        stages = range(self._model.n_stages + 1) if path else ()
        along = [self._result(groups & ((1 << stage) - 1), "predict") for stage in stages]
        return cache(lambda method: self._result(groups, method)), np.stack(along) if along else None

    def _result(self, groups: int, method: str) -> Array:
        """Return the result of a method; each row is answered by the longest prefix that it has."""
        found: Array | None = None
        for own, rows in patterns_of(self.lacking, self._n, groups):
            part = self._model.respond(stage := leading(own), self._table(stage, rows), method)
            if found is None:
                found = np.empty((self._n, *part.shape[1:]), dtype=part.dtype)
            found[rows] = part
        assert found is not None
        return found

    def _table(self, stage: int, rows: Rows) -> PrefixTable:
        """Return the values of the first groups as a table of all known columns."""
        model = self._model
        entries = np.full((self._n, model.layout.n_features), None, dtype=object)
        for step, g in enumerate(self._order(model.end_at(stage))):
            entries[:, model.layout.columns[g]] = self._tables[step]
        values = entries[rows] if model.empty is not None else entries[rows].astype(np.float64)
        return PrefixTable(values, np.arange(model.layout.n_features), model.layout.names, model.empty)

    def _order(self, end: int) -> Sequence[int]:
        order: list[int] = self._model.sequence.order[:end].tolist()
        return order
