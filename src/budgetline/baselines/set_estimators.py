"""What paths of sets share: checks, stages in the order of their costs, and the record that holds them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple, Self

import narwhals as nw
import numpy as np
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.utils._param_validation import HasMethods

from budgetline.arrays import Array, Float, Mask
from budgetline.data.sources import Source
from budgetline.estimators import AnytimeRegressor, StagedEstimators
from budgetline.estimators.base import Constraints
from budgetline.evaluation import budget_curve
from budgetline.groups import Layout, as_feature_groups
from budgetline.inputs import check_table, check_weight, column_names
from budgetline.model.prefixes import PrefixTable
from budgetline.model.sets import SetModels, sequence_of_sets
from budgetline.optimality.known_budgets import undominated
from budgetline.progress import Progress


@dataclass(frozen=True, eq=False)
class TrainingRows:
    """Training rows as estimators take them: the table, the target, and the arguments of ``fit`` for weights."""

    layout: Layout
    table: PrefixTable
    target: Array
    weights: dict[str, Float]
    weight: Float | None = None

    def of(self, mask: Mask) -> object:
        """Return the columns of the groups of a mask (J,), as the user's kind of table."""
        return self.table.take(self.layout.columns_of(np.flatnonzero(mask)))


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
    as_numbers: ClassVar[bool] = False
    """Whether the estimators are fitted on arrays of numbers, whatever the table is."""

    def fit(self, X: object, y: object, sample_weight: object = None, *, progress: Progress = None) -> Self:
        """Find the sets and fit their estimators; parameters as in :meth:`StagedEstimators.fit`."""
        self._validate_params()
        if isinstance(X, Source):
            raise TypeError("X must be a table in memory, not a Source")
        if y is None:
            raise ValueError("requires y to be passed, but the target y is None")
        table, names = check_table(X, estimator=self), column_names(X)
        n, D = table.shape
        weight = check_weight(sample_weight, n)
        target, classes, shape = self._target(y, n)
        layout = as_feature_groups(self.feature_groups, self.costs, names, D).resolve(names, D)
        empty = table.head(0) if isinstance(table, nw.DataFrame) and not self.as_numbers else None
        seen = PrefixTable(table, np.arange(D), names, empty)
        null = DummyRegressor() if classes is None else DummyClassifier()
        null.fit(np.zeros((n, 1)), target, sample_weight=weight)
        rows = TrainingRows(layout, seen, target, self._weights(weight), weight)
        found = _by_cost(self._sets(rows, progress), layout)
        masks, ends = tuple(stage.mask for stage in found), tuple(range(1, len(found) + 1))
        unknown = sequence_of_sets(layout.groups, masks, np.full(len(found) + 1, np.nan))
        about = (shape, classes, empty, type(self).__name__, self.get_params(deep=False))
        model = SetModels(layout, unknown, ends, tuple(stage.fitted for stage in found), null, *about, masks)
        judged = sequence_of_sets(layout.groups, masks, _risks(model, X, y, weight))
        self._adopt(replace(model, sequence=judged), None)
        return self

    def _sets(self, rows: TrainingRows, progress: Progress) -> Sequence[Stage]:
        """Return at least one set with its estimator."""
        raise NotImplementedError


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
