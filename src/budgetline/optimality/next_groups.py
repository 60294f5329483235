"""What to buy next, from any set of available groups.

Every group that is not available is valued alone, together with what it requires: its gain F(S ∪ A) − F(S), and for
rows of a classifier the chance that it changes the decision. The best value per cost comes first.

The chance comes from the population that the model keeps. In every cell of it the scores before and after a purchase
are jointly normal, and the scores of a row now say in which cells the row may be, and where in them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.special import ndtr, softmax

from budgetline.arrays import Float, Mask, Positions
from budgetline.budgets import SLACK
from budgetline.devices import on_host
from budgetline.glm.families import Family
from budgetline.groups.parsing import places_of, positions_of
from budgetline.inputs import check_number
from budgetline.model.anytime import AnytimeModel, as_model
from budgetline.model.population import Population, normal_nodes
from budgetline.model.stages import LinearModel
from budgetline.model.subsets import GeneralisedSubset
from budgetline.optimality.set_values import known_groups, stored_gains
from budgetline.sequencing.candidates import best_group
from budgetline.tables import Tabular, html_table, text_table

BLOCK = 1 << 21
"""How many later scores of several classes are compared at a time."""
FLAT = 1e-9
"""Scores vary at least by this share of their variance within cells, and this is the least variance: without groups
scores are constant, and only rounding varies."""


@dataclass(frozen=True, eq=False)
class NextGroups(Tabular):
    """Ranking of the groups to buy next, by gain per cost or, if rows were passed, by chance per cost.

    The chance of a group is the probability that buying it changes the decision for a row, averaged over the rows.

    Attributes
    ----------
    available : tuple of str
        The available groups, including the groups that they require.
    groups : tuple of str
        The groups that can be bought next, best first. The arrays below have one entry for each of them.
    along : tuple of tuples of str
        For each group, the required groups that are not available yet. They are bought together with the group, and its
        cost and gain include them.
    costs : float array
        The cost of each purchase, without shared costs that have already been paid.
    gains : float array
        The gain of each purchase on the training data, F(S ∪ A) − F(S), minus the correction of the model if there is
        one. S is the set of available groups, and A is the set of groups that are bought.
    chances : array of shape (groups, n), or None
        For n rows of a classifier, the probability that the purchase changes the decision.
    unknown : tuple of str
        Groups that are neither available nor ranked. Their gains are unknown, because the sequence of the model ends
        before reaching them.

    Examples
    --------
    >>> from budgetline import AnytimeRegressor
    >>> from budgetline.datasets import load_heart
    >>> heart = load_heart()
    >>> model = AnytimeRegressor(heart.feature_groups, alpha=1e-2).fit(heart.data, heart.target)
    >>> print(model.next_groups(["age", "cp"], budget=20))
    group      cost        gain  gain per cost
    sex           1   0.0076375      0.0076375
    trestbps      1    0.001037       0.001037
    ecg        15.5  0.00095087     6.1346e-05
    blood     10.37  0.00021891     2.1109e-05
    """

    available: tuple[str, ...]
    groups: tuple[str, ...]
    along: tuple[tuple[str, ...], ...]
    costs: Float
    gains: Float
    chances: Float | None
    unknown: tuple[str, ...]

    @property
    def gains_per_cost(self) -> Float:
        """The gain per cost, which is infinite for free groups."""
        return _per_cost(self.gains, self.costs)

    @property
    def mean_chances(self) -> Float | None:
        """The expected share of rows whose decision each purchase changes; None if no rows were passed."""
        return None if self.chances is None else self.chances.mean(axis=1)

    def to_dict(self) -> dict[str, Sequence[object]]:
        """Return a dict: group, along, cost, gain, gain_per_cost; with rows, also chance and chance_per_cost."""
        found: dict[str, Sequence[object]] = {
            "group": list(self.groups),
            "along": [list(names) for names in self.along],
            "cost": self.costs.tolist(),
            "gain": self.gains.tolist(),
            "gain_per_cost": self.gains_per_cost.tolist(),
        }
        if (chance := self.mean_chances) is not None:
            found |= {"chance": chance.tolist(), "chance_per_cost": _per_cost(chance, self.costs).tolist()}
        return found

    def __len__(self) -> int:
        return len(self.groups)

    def __str__(self) -> str:
        header, cells = self._cells()
        return text_table(header, cells, left={0, 1} if any(self.along) else {0})

    def __repr__(self) -> str:
        return f"NextGroups({len(self)} groups, {len(self.available)} available)\n{self}"

    def _repr_html_(self) -> str:
        return html_table(*self._cells())

    def _cells(self) -> tuple[list[str], list[list[str]]]:
        """Return the header and the rows of the table; it says what is bought along only if something is."""
        columns: dict[str, Iterable[str]] = {"group": self.groups}
        if any(self.along):
            columns["bought along"] = map(", ".join, self.along)
        columns["cost"] = (f"{cost:.6g}" for cost in self.costs)
        columns["gain"] = (f"{gain:.5g}" for gain in self.gains)
        columns["gain per cost"] = map(_rate, self.gains_per_cost, self.costs)
        if (chance := self.mean_chances) is not None:
            columns["chance"] = (f"{each:.1%}" for each in chance)
            columns["chance per cost"] = map(_rate, _per_cost(chance, self.costs), self.costs)
        return list(columns), [list(row) for row in zip(*columns.values(), strict=True)]


def next_groups(
    fitted: object,
    available: Collection[str] = (),
    *,
    budget: float | None = None,
    X: object = None,
) -> NextGroups:
    """Rank the groups to buy next for a fitted model; parameters as in `budgetline.AnytimeRegressor.next_groups`.

    Examples
    --------
    >>> from budgetline import AnytimeRegressor
    >>> from budgetline.datasets import load_heart
    >>> from budgetline.optimality import next_groups
    >>> heart = load_heart()
    >>> model = AnytimeRegressor(heart.feature_groups).fit(heart.data, heart.target)
    >>> next_groups(model, ["cp", "ecg"], budget=95).groups[:3]
    ('sex', 'age', 'trestbps')
    """
    model = as_model(fitted)
    names, prices = model.groups.names, model.groups.prices
    most = np.inf if budget is None else check_number("budget", budget, "cost", ge=0)
    if X is not None and model.classes is None:
        raise TypeError(f"X is for classifiers, got {model.estimator}")
    # 1. what can be bought, each with what it requires and with the pairs that follow from it
    known, derived = known_groups(model), np.array([own.size == 0 for own in model.source.columns])
    chosen = _complete(model, prices.closure(positions_of("available", available, places_of(names))))
    if unused := [names[g] for g in np.flatnonzero(chosen & ~known & ~derived)]:
        model.stages.steps_of(unused)  # which warns
    costs, left = prices.marginal(chosen), ~chosen & ~derived
    found = np.flatnonzero(left & known & (costs <= most * (1 + SLACK)))
    reached = (_complete(model, chosen | prices.closure([g])) for g in found.tolist())
    added = [np.flatnonzero(after & ~chosen & known) for after in reached]
    # 2. what it is worth
    gains = stored_gains(model, chosen & known, added)
    if model.penalties is not None:
        gains = gains - np.array([model.penalties[A].sum() for A in added])
    chances = None if X is None else _chances(model, chosen & known, added, on_host(X))
    # 3. the best first
    ranked = _ranked(gains, None if chances is None else chances.mean(axis=1), costs[found])
    return NextGroups(
        tuple(names[g] for g in np.flatnonzero(chosen & ~derived)),
        tuple(names[g] for g in found[ranked]),
        tuple(tuple(names[h] for h in prices.missing(g, chosen)[:-1]) for g in found[ranked].tolist()),
        costs[found[ranked]],
        gains[ranked],
        None if chances is None else chances[ranked],
        tuple(names[g] for g in np.flatnonzero(left & ~known)),
    )


def _chances(model: AnytimeModel, chosen: Mask, added: list[Positions], X: object) -> Float:
    """Return the chances (K, n) that purchases change the decisions on X."""
    order, names, subset = model.sequence.order, model.sequence.groups, model.stages.subset
    assert isinstance(subset, GeneralisedSubset)
    assert subset.population is not None
    family, population = subset.family, subset.population
    steps = [chosen[order], *(chosen[order] | np.isin(order, A) for A in added)]
    now, _ = model.scored(X, available=[names[k] for k in np.flatnonzero(steps[0])])
    now = family.internal(now)
    scores = [_Scores.of(population, model, each, family) for each in model.stages.of_patterns(np.array(steps))]
    found = np.array([_changed(scores[0], after, now, family) for after in scores[1:]]).reshape(len(added), len(now))
    return np.where(found * population.n_rows < 1, 0.0, found)  # rarer than one of the rows: nothing is known


def _complete(model: AnytimeModel, chosen: Mask) -> Mask:
    """Add the pairs of columns whose groups are all in a set (J,): they follow from these, at no cost."""
    if model.encoding is None or not model.encoding.pairs:
        return chosen
    required, n_pairs = model.groups.prices.requires, len(model.encoding.pairs)
    found = chosen.copy()
    for g in range(chosen.size - n_pairs, chosen.size):
        found[g] |= chosen[list(required[g])].all()
    return found


def _ranked(gains: Float, chances: Float | None, costs: Float) -> Positions:
    """Return the positions by falling worth per cost, as in a sequence: free ones first, ties to the cheaper.

    Worth is the chance of another decision, or the gain where that chance is 0.
    """
    found = list[int]()
    changing = np.zeros(costs.size, dtype=bool) if chances is None else (chances > 0) | (costs <= 0)
    for worth, left in ((chances, changing), (gains, ~changing)):
        while worth is not None and left.any():
            found.append(best_group(worth, costs, left, cost_sensitive=True))
            left[found[-1]] = False
    return np.array(found, dtype=np.intp)


def _per_cost(values: Float, costs: Float) -> Float:
    """Return values per cost, which may be more than a float holds; infinite at cost 0 if the value is not 0."""
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        return np.where((costs == 0) & (values == 0), 0.0, values / costs)


def _rate(value: float, cost: float) -> str:
    """Return a value per cost as text."""
    return "free" if cost == 0 else f"{value:.5g}"


class _Scores(NamedTuple):
    """The scores of a model: deviations (r, Q) whose products are covariances, and means (M, Q) of the cells."""

    deviation: Float
    mean: Float
    share: Float

    @classmethod
    def of(cls, population: Population, model: AnytimeModel, linear: LinearModel, family: Family) -> _Scores:
        W, level = model.stages.standardised(linear)
        theta = family.internal(np.vstack([level, W.T]))
        mean = theta[0] + population.mean @ theta[1:]
        return cls(population.factor @ theta[1:], mean, population.share)

    def covariance(self, other: _Scores) -> Float:
        """Return the covariance with other scores within cells, shape (Q, Q)."""
        first, second = (each.mean - each.share @ each.mean for each in (self, other))
        return np.asarray(self.deviation.T @ other.deviation - first.T @ (self.share[:, None] * second))


def _changed(before: _Scores, after: _Scores, now: Float, family: Family) -> Float:
    """Return the probability of another decision at internal scores ``now`` (n, Q), shape (n,)."""
    V, Q = before.covariance(before), now.shape[1]
    spread = float(np.trace(before.deviation.T @ before.deviation)) / Q
    V = V + FLAT * max(spread, FLAT) * np.eye(Q)
    slope = np.linalg.solve(V, before.covariance(after))
    rest = after.covariance(after) - before.covariance(after).T @ slope
    off = now[:, None] - before.mean
    cells = softmax(
        np.log(before.share) - np.einsum("njq,njq->nj", off, np.linalg.solve(V, off[..., None])[..., 0]) / 2, axis=1
    )
    expected = after.mean + off @ slope
    if Q == 1:
        side = np.where(now > 0, -1.0, 1.0)
        return np.asarray((cells * ndtr(side * expected[..., 0] / np.sqrt(max(float(rest[0, 0]), 1e-300)))).sum(axis=1))
    values, U = np.linalg.eigh(rest)
    nodes, weight = normal_nodes(Q)
    moved = nodes @ (U * np.sqrt(np.maximum(values, 0.0))).T
    decided, found = family.external(now).argmax(axis=1), np.empty(len(now))
    step = max(1, BLOCK // (cells.shape[1] * moved.size))
    for part in (slice(at, at + step) for at in range(0, len(now), step)):
        later = family.external(expected[part, :, None] + moved).argmax(axis=3)
        found[part] = np.einsum("nj,njg,g->n", cells[part], later != decided[part, None, None], weight)
    return found
