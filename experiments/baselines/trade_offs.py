"""A path over the trade-off between what a group gains and what it costs, for boosted trees with penalties."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from budgetline.arrays import Array, Float, Mask, Positions, Table
from budgetline.groups import Layout
from budgetline.groups.prices import Prices

WIDER = 10.0
"""The factor by which the range of trade-offs grows until it is wide enough."""
MOST_WIDER = 8
"""How often it grows at most, on either side."""
CLOSEST = 1.1
"""Trade-offs that differ by less than this factor are not told apart."""


class Bought(NamedTuple):
    """A model at a trade-off, and the groups (J,) whose columns its trees split on, with all that they require."""

    trade_off: float
    fitted: object
    mask: Mask


def trade_off_path(fit: Callable[[float], Bought], prices: Prices, start: float, count: int) -> list[Bought]:
    """Fit ``count`` models at trade-offs that spread the square roots of their costs, the most expensive first.

    The first has no penalty. From ``start`` the range grows until one end buys as much as that and the other nothing
    that costs; then the gap between neighbours that differ most in cost is halved, on a log scale, again and again.
    """
    whole = fit(0.0)
    most = prices.cost(whole.mask)
    found = [fit(start)] if count > 1 else []
    for place, factor in ((-1, WIDER), (0, 1 / WIDER)):
        for _ in range(MOST_WIDER if found else 0):
            cost = prices.cost(found[place].mask)
            if len(found) + 1 >= count or (cost <= 0 if factor > 1 else cost >= most):
                break
            found = sorted([*found, fit(found[place].trade_off * factor)], key=_by_trade_off)
    while len(found) + 1 < count:
        pairs = [(a, b) for a, b in pairwise(found) if b.trade_off > CLOSEST * a.trade_off]
        gaps = np.array([abs(_root(a, prices) - _root(b, prices)) for a, b in pairs])
        if not gaps.any():
            break
        a, b = pairs[int(np.argmax(gaps))]
        found = sorted([*found, fit(float(np.sqrt(a.trade_off * b.trade_off)))], key=_by_trade_off)
    return [whole, *found]


def start_of(target: Array, power: float, prices: Prices) -> float:
    """Return a trade-off to start from, for gains in units of (n·loss)^power."""
    loss = float(np.var(target)) if target.dtype.kind == "f" else 1.0
    return float((len(target) * (loss or 1.0)) ** power / (prices.total or 1.0))


def _root(bought: Bought, prices: Prices) -> float:
    """Return the square root of a cost: at small budgets, where most is gained, costs should differ less."""
    return float(np.sqrt(prices.cost(bought.mask)))


def _by_trade_off(bought: Bought) -> float:
    return bought.trade_off


@dataclass(frozen=True, eq=False)
class Columns:
    """The columns (D',) that are in groups, and the group of each."""

    layout: Layout
    labels: Positions

    @classmethod
    def of(cls, layout: Layout) -> Columns:
        """Return those of a table."""
        labels = np.empty(layout.read.size, dtype=np.intp)
        for g, own in enumerate(layout.position):
            labels[own] = g
        return cls(layout, labels)

    def groups(self, columns: Positions) -> Mask:
        """Return the groups (J,) of columns, with all that they require."""
        return self.layout.groups.prices.closure(np.unique(self.labels[columns]).tolist())

    def penalties(self, bought: Mask) -> list[float]:
        """Return what each column costs when the groups of a mask (J,) are bought: what its group still costs."""
        found: list[float] = self.layout.groups.prices.marginal(bought)[self.labels].tolist()
        return found


def dense(X: Table) -> Float:
    """Return a table of numbers as an array."""
    return np.asarray(X.toarray() if hasattr(X, "toarray") else X, dtype=np.float64)


@dataclass(frozen=True, eq=False)
class Padded:
    """A fitted model of all columns that reads only those it was told: the others are missing, as it never asks.

    ``places`` are where the columns that it is given are among the ``width`` columns of the model.
    """

    model: object
    places: Positions
    width: int
    trade_off: float

    def predict(self, X: Float) -> Array:
        """Return numbers."""
        return np.asarray(self.model.predict(self.whole(X)))  # type: ignore[attr-defined]

    def whole(self, X: Float) -> Float:
        """Return a table of all columns of the model."""
        whole = np.full((X.shape[0], self.width), np.nan)
        whole[:, self.places] = dense(X)
        return whole


class PaddedClassifier(Padded):
    """The same for a classifier."""

    def predict(self, X: Float) -> Array:
        """Return labels."""
        return super().predict(X).ravel()  # CatBoost has a column of them for more than two classes

    def predict_proba(self, X: Float) -> Float:
        """Return probabilities of the classes."""
        return np.asarray(self.model.predict_proba(self.whole(X)))  # type: ignore[attr-defined]
