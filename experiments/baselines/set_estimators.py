"""What paths of sets share: stages in the order of their costs, and the record that holds them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar, NamedTuple

import numpy as np
from sklearn.utils._param_validation import HasMethods

from budgetline.arrays import Float, Mask
from budgetline.estimators import AnytimeRegressor, StagedEstimators
from budgetline.estimators.base import Constraints
from budgetline.estimators.clones import TrainingRows
from budgetline.evaluation import budget_curve
from budgetline.groups import Layout, as_feature_groups
from budgetline.model.prefixes import PrefixModels
from budgetline.progress import Progress

from .set_models import SetModels, sequence_of_sets


class Stage(NamedTuple):
    """A set of groups (J,), an estimator that reads their columns, and what says whether it beats cheaper ones."""

    mask: Mask
    fitted: object
    worth: float


class SetEstimators(StagedEstimators):
    """Estimators of sets of groups, one per stage. Subclasses find the sets and fit the estimators.

    A budget buys the most expensive set that it pays for. A set that is worth no more than a cheaper one is left out.
    """

    # The sets are found in ``fit``: there is no order of single groups.
    order = ()
    stages = None

    _parameter_constraints: ClassVar[Constraints] = {
        "estimator": [HasMethods(["fit", "predict"])],
        "feature_groups": AnytimeRegressor._parameter_constraints["feature_groups"],
        "costs": AnytimeRegressor._parameter_constraints["costs"],
    }

    def _learned(self, X: object, y: object, rows: TrainingRows, progress: Progress) -> tuple[PrefixModels, object]:
        groups = as_feature_groups(self.feature_groups, self.costs, rows.names, rows.n_features)
        layout = groups.resolve(rows.names, rows.n_features)
        found = _by_cost(self._sets(rows, layout, progress), layout)
        masks, ends = tuple(stage.mask for stage in found), tuple(range(1, len(found) + 1))
        unknown = sequence_of_sets(layout.groups, masks, np.full(len(found) + 1, np.nan))
        about = (rows.target_shape, rows.classes, rows.table.empty, type(self).__name__, self.get_params(deep=False))
        model = SetModels(layout, unknown, ends, tuple(stage.fitted for stage in found), rows.null(), *about, masks)
        evaluated = sequence_of_sets(layout.groups, masks, _risks(model, X, y, rows.weight))
        return replace(model, sequence=evaluated), None

    def _sets(self, rows: TrainingRows, layout: Layout, progress: Progress) -> Sequence[Stage]:
        """Return at least one set with its estimator."""
        raise NotImplementedError


def undominated(costs: Float, values: Float) -> list[int]:
    """Return the positions of sets that are worth more than all that cost no more, by cost; rounding does not count."""
    kept, rounding = list[int](), 1e-9 * np.abs(values).max(initial=0.0)
    for k in np.lexsort((-values, costs)).tolist():
        if not kept or values[k] > values[kept[-1]] + rounding:
            kept.append(k)
    return kept


def _by_cost(stages: Sequence[Stage], layout: Layout) -> list[Stage]:
    """Return the sets that are worth more than all that cost no more, by cost."""
    costs = np.array([layout.groups.prices.cost(stage.mask) for stage in stages])
    return [stages[k] for k in undominated(costs, np.array([stage.worth for stage in stages]))]


def _risks(model: SetModels, X: object, y: object, weight: Float | None) -> Float:
    """Return the risk of every stage on the training rows, stage 0 first: half squared errors, or log losses."""
    if model.classes is None:
        return budget_curve(model, X, y, metric="mse", sample_weight=weight).values * model.n_targets / 2
    if not hasattr(model.fitted[-1], "predict_proba"):
        return np.full(len(model.fitted) + 1, np.nan)
    return budget_curve(model, X, y, metric="log_loss", sample_weight=weight).values
