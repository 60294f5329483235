"""Orders of any set function: the greedy loop of the library, without a model."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from budgetline.arrays import Float, Mask
from budgetline.groups.parsing import all_required, parse_costs, parse_requires, parse_shared
from budgetline.groups.prices import Prices
from budgetline.messages import shown
from budgetline.sequencing import GroupSequence
from budgetline.sequencing.loop import Limits, greedy_order
from budgetline.sequencing.schedules import as_schedule

Elements = frozenset[Any]


class _SetFunction:
    """A set function as an objective of the greedy loop: every score is a difference of two values."""

    def __init__(self, F: Callable[[Elements], float], elements: list[Any]) -> None:
        self._F = F
        self._elements = elements
        self._chosen: Elements = frozenset()
        self._value = self._evaluate(self._chosen)
        self._known: dict[int, float] = {}
        self.null_value = self._evaluate(frozenset(elements)) - self._value

    def scores(self, allowed: Mask, costs: Float) -> Float:
        scores = np.full(len(self._elements), -np.inf)
        for g in np.flatnonzero(allowed).tolist():
            if self._elements[g] not in self._chosen:
                scores[g] = self._with(g) - self._value
        return scores

    def joint_scores(self, parts: Sequence[Sequence[int]]) -> Float:
        found, reached = [], self._chosen
        for part in parts:
            reached |= {self._elements[g] for g in part}
            found.append(self._evaluate(reached) - self._value)
        return np.array(found)

    def gains(self) -> Float:
        return self.scores(np.ones(len(self._elements), dtype=bool), np.ones(len(self._elements)))

    def choose(self, g: int) -> float:
        before, self._value = self._value, self._with(g)
        self._chosen |= {self._elements[g]}
        self._known = {}
        return self._value - before

    def _with(self, g: int) -> float:
        if g not in self._known:
            self._known[g] = self._evaluate(self._chosen | {self._elements[g]})
        return self._known[g]

    def _evaluate(self, S: Elements) -> float:
        value = float(self._F(S))
        if not np.isfinite(value):
            raise ValueError(f"the objective is {value} on {set(S) or 'the empty set'}")
        return value


def greedy_sequence(
    objective: Callable[[Elements], float],
    costs: Mapping[Hashable, float],
    *,
    shared: Mapping[Any, tuple[float, Iterable[Any]]] | None = None,
    requires: Mapping[Any, Iterable[Any]] | None = None,
    schedule: Any = "greedy",
    cost_sensitive: bool = True,
    max_cost: float | None = None,
    max_groups: int | None = None,
    min_gain: float = 0.0,
) -> GroupSequence:
    """Order elements by marginal gain per cost of any set function.

    Parameters
    ----------
    objective : callable
        F(S) for a frozenset S of elements. About J²/2 evaluations are made.
    costs : mapping element -> cost
    shared : mapping name -> (cost, elements), optional
        Costs that several elements share: paid once, by the first of them.
    requires : mapping element -> elements, optional
        Elements that must come before an element.
    schedule : {"greedy", "doubling"} or a schedule such as ``Doubling(c_min=2)``
    cost_sensitive : bool
        False: order by marginal gain alone.
    max_cost, max_groups, min_gain
        As in `AnytimeRegressor`, but ``min_gain`` is relative to F(everything) − F(∅).

    Returns
    -------
    GroupSequence
        Its costs are those actually paid at each step; ``explained`` is relative to F(everything) − F(∅).

    Examples
    --------
    >>> from set_functions import greedy_sequence
    >>> covers = {"a": {1, 2}, "b": {2, 3, 4}, "c": {4}}
    >>> greedy_sequence(lambda S: len(set().union(*(covers[x] for x in S))), {"a": 1, "b": 2, "c": 3}).groups
    ('a', 'b', 'c')
    """
    elements = list(costs)
    names = tuple(map(str, elements))
    if (shared or requires) and len(set(names)) < len(names):
        raise ValueError(f"element {shown(next(n for n in names if names.count(n) > 1))} is listed twice, as text")
    required = all_required(parse_requires(requires, names), names)
    prices = Prices(parse_costs(list(costs.values()), names), parse_shared(shared, names), required)
    F = _SetFunction(objective, elements)
    if min_gain > 0 and F.null_value <= 0:
        raise ValueError("min_gain is relative to F(everything) − F(∅), which is not positive")
    limits = Limits(max_cost, max_groups, min_gain)
    timing = as_schedule(schedule, tuple(e if isinstance(e, int) else str(e) for e in elements), prices)
    order, gains = greedy_order(F, prices, timing, limits, cost_sensitive=cost_sensitive)
    return GroupSequence(order, tuple(elements[g] for g in order), prices.steps(order), gains, F.null_value)
