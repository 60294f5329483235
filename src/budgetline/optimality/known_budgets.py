"""Good sets for many budgets within a short time, for reports: the search of a plan without its proof.

Sets that a cheaper one beats are left out. The others are evaluated on held-out rows.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from budgetline.arrays import Float, Mask
from budgetline.bounds.problem import Conditions
from budgetline.bounds.search import SAME_VALUE, SetSearch
from budgetline.budgets import SLACK
from budgetline.evaluation import BudgetCurve
from budgetline.evaluation.budget_curves import curve_of_sets
from budgetline.evaluation.held_out import HeldOut
from budgetline.inputs import check_number
from budgetline.model.anytime import AnytimeModel
from budgetline.optimality.set_values import estimated_value, problem_of, problems_for
from budgetline.sequencing.sequence import GroupSequence
from budgetline.threads import one_blas_thread

KNOWN_BUDGET = "a known budget"
MOST_PARAMETERS = 2000
"""In larger models one set takes too long for a search of many."""


@dataclass(frozen=True, eq=False)
class KnownSets:
    """Sets of groups of a model, each worth more than all cheaper ones: masks (K, stages), costs (K,), values (K,).

    The masks are over the steps of the sequence; values are F less the correction, on the training data.
    """

    model: AnytimeModel
    steps: Mask
    costs: Float
    values: Float

    @property
    def groups(self) -> tuple[tuple[str, ...], ...]:
        """The groups of every set, in the order of the sequence."""
        names = np.array(self.model.sequence.groups, dtype=object)
        return tuple(tuple(names[mask].tolist()) for mask in self.steps)

    def curve(self, fitted: object, X: object, y: object, metric: object, sample_weight: object = None) -> BudgetCurve:
        """Return what the sets are worth on data; ``fitted`` is the estimator, or pipeline, that holds the model."""
        held = HeldOut.of(fitted, X, y, sample_weight)
        return replace(curve_of_sets(self._staged(), held, metric), label=KNOWN_BUDGET)

    def _staged(self) -> AnytimeModel:
        """Return a model whose stages are those of the sets.

        The sets need not contain one another, so every stage reads the columns of all of them, and of the model.
        """
        stages, sets, count = self.model.stages, list(self.model.stages.of_patterns(self.steps)), len(self.costs)
        columns = np.unique(np.concatenate([stages.columns, *(each.columns for each in sets)]))
        named, paid = tuple(", ".join(groups) for groups in self.groups), np.diff(self.costs, prepend=0.0)
        found = replace(
            stages,
            sequence=GroupSequence(np.arange(count), named, paid, np.zeros(count), stages.sequence.null_value),
            coef_path=np.array([each.coef for each in sets]).reshape(count, *stages.coef_path.shape[1:]),
            intercept_path=np.array([each.intercept for each in sets]).reshape(count, stages.null_intercept.size),
            columns=columns,
            column_ends=np.full(count, columns.size, dtype=np.intp),
        )
        return self.model.with_stages(found, np.array([0, *(each.stage for each in sets)]))


def known_sets(model: AnytimeModel, budgets: Iterable[float], time_limit: float) -> KnownSets:
    """Return good sets for budgets, and the prefixes of the sequence where no set is better; nothing is proven.

    When the time is over, the other budgets are left out.
    """
    end = time.monotonic() + check_number("time_limit", time_limit, "number of seconds", ge=0)
    stages, prices, order = model.n_stages, model.groups.prices, model.sequence.order
    masks = np.zeros((stages, len(model.groups)), dtype=bool)
    masks[:, order] = np.tri(stages, dtype=bool)
    if stages and model.layout.read.size * model.n_targets <= MOST_PARAMETERS:
        with one_blas_thread():
            masks = np.vstack([masks, *_good_sets(model, sorted(budgets), end)])
    masks = np.unique(masks[masks.any(axis=1)], axis=0)
    costs = np.array([prices.cost(mask) for mask in masks])
    values = _values(model, masks)
    kept = undominated(costs, values)
    return KnownSets(model, masks[kept][:, order], costs[kept], values[kept])


def undominated(costs: Float, values: Float) -> list[int]:
    """Return the positions of sets that are worth more than all that cost no more, by cost; rounding does not count."""
    kept, rounding = list[int](), SAME_VALUE * np.abs(values).max(initial=0.0)
    for k in np.lexsort((-values, costs)).tolist():
        if not kept or values[k] > values[kept[-1]] + rounding:
            kept.append(k)
    return kept


def _good_sets(model: AnytimeModel, budgets: list[float], end: float) -> Iterator[Mask]:
    """Yield good sets (J,) for budgets, which share the time."""
    known = np.isin(np.arange(len(model.groups)), model.sequence.order)
    about = Conditions.of(model.groups, (), (), model.settings.get("start", ())).among(known, model.groups.names)
    budgets = [budget for budget in budgets if about.prices.cost(about.included) <= budget * (1 + SLACK)]
    searches = [(problem, budgets[k]) for problem, asked in problems_for(model, budgets) for k in asked]
    for k, (problem, budget) in enumerate(searches):
        if (left := end - time.monotonic()) > 0:
            yield from SetSearch(problem, about, budget).good(time.monotonic() + left / (len(searches) - k))


def _values(model: AnytimeModel, masks: Mask) -> Float:
    """Return F of sets (K, J) less their correction; an estimate where the loss is not squared error."""
    if model.squared_error:
        problem = replace(problem_of(model), penalties=model.penalties)
        return np.array([problem.value(mask) for mask in masks])
    lost = np.zeros(len(masks)) if model.penalties is None else masks @ model.penalties
    return np.array([estimated_value(model, mask[model.sequence.order]) for mask in masks]) - lost
