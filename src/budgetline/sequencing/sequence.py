"""The record of a sequence: which group comes at which step, what it costs and what it gains."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from budgetline.arrays import Float, Positions
from budgetline.budgets import affordable, folds_that_agree
from budgetline.tables import Tabular, html_table, text_table

HEADER = ("step", "group", "cost", "cumulative", "gain", "explained")


@dataclass(frozen=True, eq=False)
class GroupSequence(Tabular):
    """The groups in the chosen order, with costs and gains. Each array has one entry per stage.

    Attributes
    ----------
    order : int array
        Position of each chosen group among all groups.
    groups : tuple of str
        Names of the groups.
    costs : float array
        Cost actually paid at each stage. A shared cost is paid by the first group that needs it.
    gains : float array
        Gain of each group, F(S ∪ g) − F(S), on the training data. S is the set of groups before g, and F(S) is the
        reduction of the training risk by the groups S. The risk is the mean loss plus the ridge penalty.
    null_value : float
        R(∅), the risk without any group.
    fold_costs : array of shape (n_folds, n_stages), or None
        The cumulative cost at which each fold of a cross-validation, following its own order, buys each group. It is
        infinity if the fold never buys the group.

    Examples
    --------
    >>> from budgetline import AnytimeRegressor
    >>> from budgetline.datasets import load_nhanes
    >>> nhanes = load_nhanes()
    >>> print(AnytimeRegressor(nhanes.feature_groups, max_groups=2).fit(nhanes.data, nhanes.target).sequence_)
    step  group  cost  cumulative       gain  explained
       1  DIQ      16          16    0.25923      42.8%
       2  TCHOL     9          25  0.0067015      43.9%
    """

    order: Positions
    groups: tuple[str, ...]
    costs: Float
    gains: Float
    null_value: float
    fold_costs: Float | None = None

    @property
    def folds_that_agree(self) -> Positions | None:
        """Number of folds that buy each group no later, in cumulative cost, than this order; None without folds."""
        return None if self.fold_costs is None else folds_that_agree(self.cumulative_costs, self.fold_costs)

    @property
    def cumulative_costs(self) -> Float:
        """Total cost after each stage."""
        return np.cumsum(self.costs)

    @property
    def explained(self) -> Float:
        """The explained fraction of the training risk after each stage, F/R(∅); 0 if R(∅) is 0.

        The ridge penalty is part of the risk and makes this fraction smaller. A budget curve of "explained" leaves the
        penalty out, so it is higher on the same rows.
        """
        total = np.cumsum(self.gains)
        return total / self.null_value if self.null_value > 0 else np.zeros_like(total)

    def stage_at(self, budget: float) -> int:
        """Return the last stage that ``budget`` pays for, or 0 if it does not pay for the first group."""
        return int(affordable(self.cumulative_costs, budget))

    def to_dict(self) -> dict[str, list[Any]]:
        """Return a dict of lists: step, group, cost, cumulative_cost, gain, explained, folds_that_agree (if known)."""
        agree = self.folds_that_agree
        return {
            "step": list(range(1, len(self) + 1)),
            "group": list(self.groups),
            "cost": self.costs.tolist(),
            "cumulative_cost": self.cumulative_costs.tolist(),
            "gain": self.gains.tolist(),
            "explained": self.explained.tolist(),
            **({} if agree is None else {"folds_that_agree": agree.tolist()}),
        }

    def __len__(self) -> int:
        return self.order.size

    def __str__(self) -> str:
        return text_table(self._header, self._cells(), left={1})

    def __repr__(self) -> str:
        return f"GroupSequence({len(self)} stages, total cost {self.costs.sum():.6g})\n{self}"

    def to_html(self) -> str:
        """Return the table as HTML, as it is shown in notebooks."""
        return html_table(self._header, self._cells())

    _repr_html_ = to_html

    @property
    def _header(self) -> tuple[str, ...]:
        return HEADER if self.fold_costs is None else (*HEADER, f"of {len(self.fold_costs)} folds")

    def _cells(self) -> list[list[str]]:
        return [
            [str(step), str(group), f"{cost:.6g}", f"{total:.6g}", f"{gain:.5g}", f"{explained:.1%}", *map(str, agree)]
            for step, group, cost, total, gain, explained, *agree in zip(*self.to_dict().values(), strict=True)
        ]
