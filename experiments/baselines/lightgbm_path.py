"""LightGBMPath."""

from __future__ import annotations

from typing import ClassVar, Protocol

import numpy as np
from sklearn.base import clone

from budgetline.arrays import Array, Float, Mask
from budgetline.estimators.clones import TrainingRows

from .boosted_path import BoostedPath
from .trade_offs import Bought, Columns


class LightGBMPath(BoostedPath):
    """LightGBM with a penalty for the groups that its trees use (CEGB), one model per trade-off of gain and cost.

    A split on a column of a group that is not bought must gain more than trade-off × cost. LightGBM knows penalties of
    single columns (``cegb_penalty_feature_coupled``), not of groups: every column has the price of its whole group, and
    after each tree the groups that are bought by then become free. So groups are shared exactly from tree to tree; only
    inside the tree that buys a group are its other columns priced again. Shared costs and requirements count likewise:
    a column costs what its group costs in addition to the bought groups.

    The trade-offs are found: the first model has no penalty, the others spread the costs of what is bought evenly. A
    model costs what the groups of its own splits cost, and reads nothing else. The stages need not contain one another;
    a budget buys the most expensive model that it pays for, and a model that fits the training rows no better than a
    cheaper one is left out.

    Parameters
    ----------
    estimator : LGBMRegressor or LGBMClassifier
        Its settings are kept. For results that can be repeated give it ``random_state=0, n_jobs=1, deterministic=True,
        force_row_wise=True``; ``verbose=-1`` makes it quiet.
    feature_groups, costs
        As in :class:`budgetline.AnytimeRegressor`.
    n_models : int
        How many models are fitted at most.

    Attributes
    ----------
    trade_offs_ : array of shape (stages,)
        The ``cegb_tradeoff`` of each stage.
    sequence_ : GroupSequence
        One row per stage; the names are those of a whole set.
    model_ : SetModels
        ``masks`` are the sets.
    estimators_, feature_groups_, classes_, n_features_in_, feature_names_in_
        As in :class:`budgetline.StagedEstimators`.

    Notes
    -----
    The table must hold numbers; missing ones are LightGBM's business. ``pip install lightgbm``. Peter,
    Diego, Hamprecht and Nadler, *Cost efficient gradient boosting*, NeurIPS 2017.

    Examples
    --------
    >>> from lightgbm import LGBMClassifier
    >>> from baselines import LightGBMPath
    >>> from budgetline.datasets import load_heart
    >>> heart = load_heart()
    >>> trees = LGBMClassifier(n_estimators=20, random_state=0, n_jobs=1, deterministic=True, verbose=-1)
    >>> path = LightGBMPath(trees, heart.feature_groups, n_models=8).fit(heart.data, heart.target)
    >>> path.sequence_.groups[0], bool(path.score(heart.data, heart.target, budget=20) > 0.7)
    ('age, sex, cp', True)
    """

    library: ClassVar[str] = "lightgbm"
    power: ClassVar[float] = 1.0

    def _bought(self, X: Float, rows: TrainingRows, columns: Columns, trade_off: float) -> Bought:
        nothing = np.zeros(len(columns.layout.groups), dtype=bool)
        penalties = {"cegb_tradeoff": trade_off, "cegb_penalty_feature_coupled": columns.penalties(nothing)}
        keeper = _FreesGroups(columns, nothing)
        fitted = clone(self.estimator).set_params(**penalties)
        fitted.fit(X, rows.target, callbacks=[keeper] if trade_off else None, **rows.weights)
        return Bought(trade_off, fitted, columns.groups(np.flatnonzero(fitted.booster_.feature_importance("split"))))


class _Booster(Protocol):
    def feature_importance(self, importance_type: str) -> Array: ...

    def reset_parameter(self, params: dict[str, object]) -> object: ...


class _Iteration(Protocol):
    @property
    def model(self) -> _Booster: ...


class _FreesGroups:
    """Called after every tree: what the trees have bought by then costs no more."""

    def __init__(self, columns: Columns, bought: Mask) -> None:
        self.columns, self.bought = columns, bought

    def __call__(self, iteration: _Iteration) -> None:
        bought = self.columns.groups(np.flatnonzero(iteration.model.feature_importance("split")))
        if (bought & ~self.bought).any():
            self.bought = bought
            iteration.model.reset_parameter({"cegb_penalty_feature_coupled": self.columns.penalties(bought)})
