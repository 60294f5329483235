"""The truth for small problems: the best of all sequences and the best of all sets, from moments."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from budgetline.budgets import Demand, Interpolation, affordable, floats_of, number_of
from budgetline.groups import FeatureGroups, as_feature_groups
from budgetline.messages import shown
from budgetline.model.linear import warn_from_moments
from budgetline.objectives.least_squares import Gram
from budgetline.optimality.all_subsets import subset_values
from budgetline.optimality.exact_order import best_order, sets_by_cost
from budgetline.sequencing.sequence import GroupSequence
from budgetline.statistics.moments import Moments
from budgetline.tables import Backend, frame_of, text_table
from budgetline.threads import one_blas_thread

Float = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class BestSets:
    """The best set of groups at every budget. Entry k is the best from its cost on, until that of entry k + 1.

    Attributes
    ----------
    costs : float array of shape (K,)
        Increasing; the first is the empty set at cost 0.
    values : float array of shape (K,)
        F, what the set explains on the training data; increasing.
    groups : tuple of K tuples of str
        Names of the groups, in the order in which they were given.
    null_value : float
        R(∅), the risk without any group.

    Examples
    --------
    >>> from budgetline import Moments, best_sets
    >>> from budgetline.datasets import load_heart
    >>> heart = load_heart()
    >>> sets = best_sets(Moments.of(heart.data, heart.target), heart.feature_groups)
    >>> value, names = sets.at(budget=12)
    >>> names, round(value, 4)
    (('age', 'sex', 'cp', 'trestbps'), 0.0454)
    """

    costs: Float
    values: Float
    groups: tuple[tuple[str, ...], ...]
    null_value: float

    @property
    def explained(self) -> Float:
        """F/R(∅) of every set: the explained fraction of the training risk (0 if there is none)."""
        return self.values / self.null_value if self.null_value > 0 else np.zeros_like(self.values)

    def at(self, budget: float) -> tuple[float, tuple[str, ...]]:
        """Return F and the groups of the best set that costs no more than ``budget``."""
        if not floats_of(budget) >= 0:
            raise ValueError(f"budget must be ≥ 0, got {shown(budget)}")
        k = int(affordable(self.costs, budget)) - 1
        return float(self.values[k]), self.groups[k]

    def to_dict(self) -> dict[str, list[Any]]:
        """Return the table as plain columns: cost, value, explained, groups."""
        return {
            "cost": self.costs.tolist(),
            "value": self.values.tolist(),
            "explained": self.explained.tolist(),
            "groups": list(self.groups),
        }

    def to_frame(self, backend: Backend = "pandas") -> Any:
        """Return the table as a data frame, the groups of a set joined by commas."""
        return frame_of({**self.to_dict(), "groups": [", ".join(names) for names in self.groups]}, backend)

    def __len__(self) -> int:
        return self.costs.size

    def __str__(self) -> str:
        rows = [
            [f"{cost:.6g}", f"{value:.5g}", f"{explained:.1%}", ", ".join(groups) or "none"]
            for cost, value, explained, groups in zip(*self.to_dict().values(), strict=True)
        ]
        return text_table(["cost", "value", "explained", "groups"], rows, left={3})

    def __repr__(self) -> str:
        return f"BestSets({len(self)} sets, costs from 0 to {self.costs[-1]:.6g})"


def best_sequence(
    moments: Moments,
    feature_groups: Any = None,
    costs: Any = None,
    *,
    alpha: float = 1e-5,
    stop: float | None = None,
    interpolation: Interpolation = "step",
) -> GroupSequence:
    """Return the sequence of the largest area under F against cost, under one interpolation of the curve.

    All 2^J sets are valued and compared by dynamic programming, so there may be at most 18 groups. The models of its
    stages come from ``AnytimeRegressor(groups, schedule=FixedOrder(best.groups)).fit(X, y)``.

    Parameters
    ----------
    moments : Moments
    feature_groups, costs
        As in :class:`budgetline.AnytimeRegressor`.
    alpha : float
        Ridge constant, as there.
    stop : float or None
        The largest budget that counts, in the unit of the costs; None: the total cost.
    interpolation : {"step", "linear"}
        How the curve is read between two stages: it keeps the value of the earlier one, or is a straight line.

    Returns
    -------
    GroupSequence
        Of all groups. Where the area leaves a choice, as beyond ``stop``, the highest gain per cost comes next.

    Examples
    --------
    A sensor and its background, of little use apart, against a proxy that greedy falls for:

    >>> import numpy as np
    >>> from budgetline import AnytimeRegressor, FixedOrder, Moments, best_sequence
    >>> signal, background, noise = np.random.default_rng(0).normal(size=(3, 500))
    >>> X = np.column_stack([signal + 4 * background, background, signal + 1.5 * noise])
    >>> groups = {"sensor": [0], "background": [1], "proxy": [2]}
    >>> AnytimeRegressor(groups).fit(X, signal).sequence_.groups
    ('proxy', 'sensor', 'background')
    >>> best = best_sequence(Moments.of(X, signal), groups)
    >>> best.groups, best.explained.round(2).tolist()
    (('sensor', 'background', 'proxy'), [0.07, 1.0, 1.0])
    >>> model = AnytimeRegressor(groups, schedule=FixedOrder(best.groups)).fit(X, signal)
    >>> bool(np.allclose(model.sequence_.gains, best.gains))
    True
    """
    groups, values, null_value = _values(moments, feature_groups, costs, alpha)
    demand = Demand.of(groups.prices.total, stop, None, None, interpolation)
    order = best_order(values, groups.prices, demand)
    prefixes = np.cumsum(np.concatenate([[0], 1 << order]))
    # a group never takes away from F but for rounding
    gains = np.maximum(np.diff(values[prefixes]), 0.0)
    return GroupSequence(order, tuple(groups.names[g] for g in order), groups.prices.steps(order), gains, null_value)


def best_sets(moments: Moments, feature_groups: Any = None, costs: Any = None, *, alpha: float = 1e-5) -> BestSets:
    """Return the best set of groups at every budget: each explains more than any other that costs no more.

    The sets need not contain each other, so no sequence has to reach them all: they bound what any sequence can. There
    may be at most 18 groups. Every set holds what its groups require, and pays a shared cost once.

    Parameters
    ----------
    moments : Moments
    feature_groups, costs
        As in :class:`budgetline.AnytimeRegressor`.
    alpha : float
        Ridge constant, as there.

    Returns
    -------
    BestSets

    Examples
    --------
    >>> import numpy as np
    >>> from budgetline import Moments, best_sets
    >>> X = np.array([[1.0, 1.0], [1.0, -1.0], [-1.0, 1.0], [-1.0, -1.0]])
    >>> print(best_sets(Moments.of(X, 2 * X[:, 0] + X[:, 1]), {"a": [0], "b": [1]}, {"a": 3, "b": 1}, alpha=0))
    cost  value  explained  groups
       0      0       0.0%  none
       1    0.5      20.0%  b
       3      2      80.0%  a
       4    2.5     100.0%  a, b
    """
    groups, values, null_value = _values(moments, feature_groups, costs, alpha)
    budgets, best, subsets = sets_by_cost(values, groups.prices)
    names = tuple(tuple(name for g, name in enumerate(groups.names) if S >> g & 1) for S in subsets.tolist())
    return BestSets(budgets, best, names, null_value)


def _values(moments: Moments, feature_groups: Any, costs: Any, alpha: float) -> tuple[FeatureGroups, Float, float]:
    """Return the groups, F of all their subsets (2^J,) and R(∅)."""
    if not isinstance(moments, Moments):
        raise TypeError(f"moments must be Moments, got {type(moments).__name__}")
    if not 0 <= number_of(alpha) < np.inf:
        raise ValueError(f"alpha must be a finite number ≥ 0, got {shown(alpha)}")
    groups = as_feature_groups(feature_groups, costs, moments.feature_names, moments.n_features)
    layout = groups.resolve(moments.feature_names, moments.n_features)
    gram = Gram.of(moments, layout.by_group, alpha)
    spectrum = np.linalg.eigvalsh(gram.C)
    doubt = moments.eps * spectrum[-1] / spectrum[0] if spectrum[0] > 0 else 1.0
    warn_from_moments(float(doubt), moments.eps, alpha)
    with one_blas_thread():
        values = subset_values(gram, np.array([c.size for c in layout.columns], dtype=np.intp))
    return groups, values, float(gram.target_variance.sum() / 2)
