"""What the paths of LightGBM and CatBoost share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from numbers import Integral
from typing import ClassVar, Self

import numpy as np
from sklearn.base import is_classifier
from sklearn.utils._param_validation import Interval

from budgetline.arrays import Float
from budgetline.estimators.base import Constraints
from budgetline.estimators.clones import TrainingRows
from budgetline.groups import Layout
from budgetline.model.prefixes import PrefixModels
from budgetline.progress import Progress, counted

from .importance import training_loss
from .set_estimators import SetEstimators, Stage
from .trade_offs import Bought, Columns, Padded, PaddedClassifier, dense, start_of, trade_off_path


class BoostedPath(SetEstimators):
    """Boosted trees with a penalty for the groups that they use, one model per trade-off."""

    _parameter_constraints: ClassVar[Constraints] = {
        **SetEstimators._parameter_constraints,
        "n_models": [Interval(Integral, 1, None, closed="left")],
    }
    library: ClassVar[str]
    """The package that the estimator must come from."""
    power: ClassVar[float]
    """Gains of splits are in units of n times the loss, to this power."""

    def __init__(
        self, estimator: object, feature_groups: object = None, costs: object = None, *, n_models: int = 20
    ) -> None:
        self.estimator = estimator
        self.feature_groups = feature_groups
        self.costs = costs
        self.n_models = n_models

    def fit(self, X: object, y: object, sample_weight: object = None, *, progress: Progress = None) -> Self:
        """Fit the models; parameters as in :meth:`budgetline.StagedEstimators.fit`."""
        super().fit(X, y, sample_weight, progress=progress)
        self.trade_offs_ = np.array([each.trade_off for each in self.estimators_ if isinstance(each, Padded)])
        return self

    def _learned(self, X: object, y: object, rows: TrainingRows, progress: Progress) -> tuple[PrefixModels, object]:
        as_arrays = replace(rows, table=replace(rows.table, empty=None))  # penalties are of columns of numbers
        return super()._learned(X, y, as_arrays, progress)

    def _sets(self, rows: TrainingRows, layout: Layout, progress: Progress) -> Sequence[Stage]:
        if type(self.estimator).__module__.split(".")[0] != self.library:
            kind = type(self.estimator).__name__
            raise TypeError(f"estimator must be one of {self.library}, got {kind}: pip install {self.library}")
        columns, prices = Columns.of(layout), layout.groups.prices
        X = dense(rows.table.take(layout.read))
        steps = iter(counted(range(self.n_models), progress, "models"))

        def fit(trade_off: float) -> Bought:
            next(steps, None)
            return self._bought(X, rows, columns, trade_off)

        start = start_of(rows.target, self.power, prices)
        found = trade_off_path(fit, prices, start, self.n_models)
        return [self._stage(X, rows, layout, each) for each in [each for each in found if each.mask.any()] or found[:1]]

    def _stage(self, X: Float, rows: TrainingRows, layout: Layout, bought: Bought) -> Stage:
        kind = PaddedClassifier if is_classifier(self.estimator) else Padded
        places = np.searchsorted(layout.read, layout.columns_of(np.flatnonzero(bought.mask)))
        padded = kind(bought.fitted, places, X.shape[1], bought.trade_off)
        return Stage(bought.mask, padded, -training_loss(rows, bought.fitted, X))

    def _bought(self, X: Float, rows: TrainingRows, columns: Columns, trade_off: float) -> Bought:
        """Fit one model."""
        raise NotImplementedError
