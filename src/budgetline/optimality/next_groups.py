"""What to buy next, from any set of groups already at hand."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from budgetline.arrays import Float, Mask, Positions
from budgetline.budgets import SLACK, check_number
from budgetline.devices import on_host
from budgetline.groups.parsing import places_of, positions_of
from budgetline.model.anytime import AnytimeModel
from budgetline.model.generalised import SAMPLE_NUMBERS, SAMPLE_ROWS
from budgetline.model.subsets import QuadraticSubset
from budgetline.optimality.gains import Sample, known_groups, sampled_gains, stored_gains
from budgetline.sequencing.candidates import best_group
from budgetline.statistics.samples import sample_of
from budgetline.tables import Tabular, html_table, text_table


@dataclass(frozen=True, eq=False)
class NextGroups(Tabular):
    """What to buy next, best first: by gain per cost, or, for rows, by the chance of another decision per cost.

    Attributes
    ----------
    available : tuple of str
        The groups at hand, with those that they require.
    groups : tuple of str
        The groups that can be bought next, best first. Arrays have one entry for each.
    along : tuple of tuples of str
        What each of them requires and is not at hand: it is bought along, and included in cost and gain.
    costs : float array
        What the purchase costs now: shared costs that are paid already do not count.
    gains : float array
        F(S ∪ A) − F(S) on the training data, less what the model's correction subtracts.
    chances : array of shape (groups, n), or None
        For n rows of a classifier, the probability that the purchase changes the decision: the share of a sample of
        changes of the score that would.
    unknown : tuple of str
        Groups that are not at hand and not ranked: the sequence ended before them, and the model does not know their
        gains.

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
        """Gain per cost; infinite for what is free."""
        return _per_cost(self.gains, self.costs)

    @property
    def mean_chances(self) -> Float | None:
        """The expected share of the rows whose decision the purchase changes; None without rows."""
        return None if self.chances is None else self.chances.mean(axis=1)

    def to_dict(self) -> dict[str, Sequence[object]]:
        """Return plain columns: group, along, cost, gain, gain_per_cost; with rows also chance, chance_per_cost."""
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
        return f"NextGroups({len(self)} groups, {len(self.available)} at hand)\n{self}"

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
    model: AnytimeModel,
    available: Collection[str] = (),
    *,
    budget: float | None = None,
    X: object = None,
    sample: object = None,
) -> NextGroups:
    """Rank what to buy next; parameters as in :meth:`budgetline.AnytimeRegressor.next_groups`."""
    names, prices = model.groups.names, model.groups.prices
    most = np.inf if budget is None else check_number("budget", budget, "cost", ge=0)
    rows = _sample(model, X, sample)
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
    gains, chances = _worth(model, chosen & known, added, X, rows)
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


def _worth(
    model: AnytimeModel, chosen: Mask, added: list[Positions], X: object, rows: Sample | None
) -> tuple[Float, Float | None]:
    """Return the gains of K purchases, corrected, and the chances (K, n) that they change the decisions on X."""
    chances = None
    if rows is None:
        gains = stored_gains(model, chosen, added)
    else:
        inside = chosen[model.sequence.order].tolist()
        at_hand = [name for name, there in zip(model.sequence.groups, inside, strict=True) if there]
        now = None if X is None else model.scores(X, available=at_hand)
        gains, chances = sampled_gains(model, chosen, added, rows, now)
    if model.penalties is not None:
        gains = gains - np.array([model.penalties[A].sum() for A in added])
    return gains, chances


def _complete(model: AnytimeModel, chosen: Mask) -> Mask:
    """Add the pairs of columns whose groups are all in a set (J,): they follow from these, at no cost."""
    if model.encoding is None or not model.encoding.pairs:
        return chosen
    required, n_pairs = model.groups.prices.requires, len(model.encoding.pairs)
    found = chosen.copy()
    for g in range(chosen.size - n_pairs, chosen.size):
        found[g] |= chosen[list(required[g])].all()
    return found


def _sample(model: AnytimeModel, X: object, sample: object) -> Sample | None:
    """Return the rows that the user gives, or those that a classifier keeps; None if there are none and none needed."""
    X, sample = on_host(X), on_host(sample)
    for name, given in (("X", X), ("sample", sample)):
        if given is not None and model.classes is None:
            raise TypeError(f"{name} is for classifiers, got {model.estimator}")
    stages = model.stages
    if sample is not None:
        # the columns of the sequence, in its order
        columns = np.searchsorted(model.last.columns, stages.columns)
        table = model.table(sample)
        most = min(SAMPLE_ROWS, SAMPLE_NUMBERS // max(columns.size, 1) + 1)
        drawn = sample_of(table, np.ones(table.shape[0]), columns, most)
        drawn = drawn.standardised(stages.mean[stages.columns], stages.scale[stages.columns])
        return Sample(drawn.values, drawn.weight)
    kept = stages.subset.recalibration if isinstance(stages.subset, QuadraticSubset) else None
    if kept is not None:
        return Sample(kept.rows.astype(np.float64), kept.weight)
    if X is not None:
        raise ValueError(
            "the model holds no training rows to learn from how scores change: give sample=, a table with all columns, "
            "or keep them in its file with save(..., rows=True)"
        )
    return None


def _ranked(gains: Float, chances: Float | None, costs: Float) -> Positions:
    """Return the positions by falling worth per cost, as in a sequence: free ones first, ties to the cheaper.

    Worth is the chance of another decision; where there is none, the gain.
    """
    found = list[int]()
    changing = np.zeros(costs.size, dtype=bool) if chances is None else (chances > 0) | (costs <= 0)
    for worth, left in ((chances, changing), (gains, ~changing)):
        while worth is not None and left.any():
            found.append(best_group(worth, costs, left, cost_sensitive=True, slack=SLACK))
            left[found[-1]] = False
    return np.array(found, dtype=np.intp)


def _per_cost(values: Float, costs: Float) -> Float:
    """Return values per cost, which may be more than a float holds; infinite at cost 0 if the value is not 0."""
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        return np.where((costs == 0) & (values == 0), 0.0, values / costs)


def _rate(value: float, cost: float) -> str:
    """Return a value per cost as text."""
    return "free" if cost == 0 else f"{value:.5g}"
