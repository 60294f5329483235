"""A path over the trade-off between what a group gains and what it costs, for boosted trees with penalties."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from budgetline.arrays import Array, Float, Mask, Positions
from budgetline.groups import Layout
from budgetline.groups.prices import Prices

WIDER = 100.0
"""The factor by which the range of trade-offs grows until it is wide enough."""
MOST_WIDER = 8
"""How often it grows at most, on either side."""
CLOSEST = 1.01
"""Trade-offs that differ by less than this factor are not told apart."""


class Bought(NamedTuple):
    """A model at a trade-off, and the groups (J,) whose columns its trees split on, with all that they require."""

    trade_off: float
    fitted: object
    mask: Mask


def trade_off_path(
    fit: Callable[[float], Bought], prices: Prices, start: float, count: int
) -> list[Bought]:
    """Fit ``count`` models at trade-offs that spread the costs of their groups evenly, the most expensive first.

    The first has no penalty. From ``start`` the range grows until one end buys as much as that and the other nothing
    that costs; then the gap between neighbours that differ most in cost is halved, on a log scale, again and again.
    """
    whole = fit(0.0)
    most = prices.cost(whole.mask)
    found = [fit(start)] if count > 1 else []
    for factor, reached in ((WIDER, lambda cost: cost <= 0), (1 / WIDER, lambda cost: cost >= most)):
        for _ in range(MOST_WIDER):
            end = found[-1 if factor > 1 else 0] if found else whole
            if len(found) + 1 >= count or reached(prices.cost(end.mask)):
                break
            found = sorted([*found, fit(end.trade_off * factor)], key=_by_trade_off)
    while len(found) + 1 < count:
        pairs = [(a, b) for a, b in zip(found, found[1:], strict=False) if b.trade_off > CLOSEST * a.trade_off]
        gaps = [prices.cost(a.mask) - prices.cost(b.mask) for a, b in pairs]
        if not gaps or max(map(abs, gaps)) <= 0:
            break
        a, b = pairs[int(np.argmax(np.abs(gaps)))]
        found = sorted([*found, fit(float(np.sqrt(a.trade_off * b.trade_off)))], key=_by_trade_off)
    return [whole, *found]


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


@dataclass(frozen=True, eq=False)
class Padded:
    """A fitted model of all columns that reads only those it was told: the others are missing, as it never asks.

    ``places`` are where the columns that it is given are among the ``width`` columns of the model.
    """

    model: object
    places: Positions
    width: int

    def predict(self, X: Float) -> Array:
        """Return numbers or labels."""
        return np.asarray(self.model.predict(self._whole(X)))  # type: ignore[attr-defined]

    def predict_proba(self, X: Float) -> Float:
        """Return probabilities of the classes."""
        return np.asarray(self.model.predict_proba(self._whole(X)))  # type: ignore[attr-defined]

    def _whole(self, X: Float) -> Float:
        whole = np.full((X.shape[0], self.width), np.nan)
        whole[:, self.places] = X
        return whole
