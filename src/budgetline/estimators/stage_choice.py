"""The order of StagedEstimators, given or learned, and the prefixes of it that get an estimator."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from numbers import Integral

import numpy as np
from sklearn.base import clone, is_classifier
from sklearn.exceptions import NotFittedError

from budgetline.arrays import Positions
from budgetline.budgets import affordable
from budgetline.estimators.clones import TrainingRows
from budgetline.groups import FeatureGroups, as_feature_groups
from budgetline.inputs import check_integer, check_number
from budgetline.messages import shown
from budgetline.model.anytime import AnytimeModel, Staged, as_staged
from budgetline.model.prefixes import PrefixModels
from budgetline.sequencing.schedules import FixedOrder
from budgetline.sequencing.sequence import GroupSequence


@dataclass(frozen=True)
class Order:
    """Groups and their sequence; ``learned`` is the estimator that was fitted to find it, or None."""

    groups: FeatureGroups
    sequence: GroupSequence
    learned: object = None


def is_model(order: object) -> bool:
    """Return whether an order is a model, fitted or not, instead of a list of groups."""
    return hasattr(order, "fit") or isinstance(order, AnytimeModel | PrefixModels)


def learned_order(order: object, X: object, rows: TrainingRows) -> Order:
    """Return the order of a model, or of an estimator that is cloned and fitted first."""
    inner = getattr(order, "best_estimator_", getattr(order, "estimator", order))
    if hasattr(order, "steps") or hasattr(inner, "steps"):
        raise TypeError("order is a pipeline, whose groups are not raw columns: give an estimator with encoding=")
    try:
        return _of_model(as_staged(order), None)
    except NotFittedError:
        _check_kind(order, rows)
    weight = {} if rows.weight is None else {"sample_weight": rows.weight}
    fitted = clone(order).fit(X, rows.target, **weight)
    return _of_model(as_staged(fitted), fitted)


def _check_kind(order: object, rows: TrainingRows) -> None:
    """Raise an error if an estimator cannot learn the order from the target of the clones."""
    kind = type(order).__name__
    if rows.classes is None and is_classifier(order):
        raise TypeError(f"order is the classifier {kind}, but the estimator is a regressor: give a regressor as order")
    if rows.target.dtype.kind not in "biuf" and not is_classifier(order):
        raise TypeError(f"order is the regressor {kind}, but y holds labels: give a classifier as order")


def given_order(
    order: object, feature_groups: object, costs: object, names: tuple[str, ...] | None, n_features: int
) -> Order:
    """Return an order that a user lists: names of groups, a FixedOrder, or a sequence with its gains."""
    groups = as_feature_groups(feature_groups, costs, names, n_features)
    listed = order.groups if isinstance(order, GroupSequence | FixedOrder) else order
    listed = np.asarray(listed) if hasattr(listed, "__array__") else listed  # such as a column of a frame
    if not isinstance(listed, Sequence | np.ndarray):
        raise TypeError(f"order must be a model or a list of groups, got {shown(order)}")
    found = np.array(FixedOrder(listed).positions(groups.names, groups.prices), dtype=np.intp)  # type: ignore[arg-type]
    if not found.size:
        raise ValueError("order has no groups")
    known = (order.gains, order.null_value) if isinstance(order, GroupSequence) else (np.full(found.size, np.nan), 1.0)
    return Order(groups, _sequence(groups, found, *known))


def _of_model(model: Staged, learned: object) -> Order:
    """Return the order of a model without pairs of columns: the gain of a pair is added to the group before it."""
    groups, keep = model.source.groups, np.array([own.size > 0 for own in model.source.columns])
    if not len(model.sequence):
        raise ValueError("order has no groups: the model that it comes from has bought none")
    if not keep.all():
        given = zip(groups.names, groups.columns, groups.costs.tolist(), strict=True)
        own = {name: (columns, cost) for (name, columns, cost), kept in zip(given, keep, strict=True) if kept}
        groups = FeatureGroups(
            {name: columns for name, (columns, _) in own.items()},
            [cost for _, cost in own.values()],
            remainder=groups.remainder,
            shared=groups.shared,
            requires={name: required for name, required in groups.requires.items() if name in own},
        )
    order, gains = model.sequence.order, model.sequence.gains
    steps = np.flatnonzero(keep[order])
    gains = np.add.reduceat(gains, steps) if steps.size < order.size else gains
    place = np.cumsum(keep) - 1
    return Order(groups, _sequence(groups, place[order[steps]], gains, model.sequence.null_value), learned)


def _sequence(groups: FeatureGroups, order: Positions, gains: np.ndarray, null_value: float) -> GroupSequence:
    names = tuple(groups.names[g] for g in order.tolist())
    return GroupSequence(order, names, groups.prices.steps(order), gains, null_value)


def chosen_stages(stages: object, sequence: GroupSequence) -> tuple[int, ...]:
    """Return how many groups each prefix that gets an estimator has, ascending."""
    costs = sequence.cumulative_costs
    if stages is None:
        return tuple(range(1, len(sequence) + 1))
    if isinstance(stages, Integral):
        return _spread(check_integer("stages", stages, ge=1), costs)
    if isinstance(stages, str) or not isinstance(stages, Iterable):
        raise TypeError(f"stages must be None, a number or budgets, got {shown(stages)}")
    budgets = [check_number("a budget in stages", budget, "cost", ge=0) for budget in stages]
    found = sorted({int(affordable(costs, budget)) for budget in budgets} - {0})
    if not found:
        raise ValueError(f"no budget in stages buys a group: the first costs {costs[0]:g}, got {shown(stages)}")
    return tuple(found)


def _spread(count: int, costs: np.ndarray) -> tuple[int, ...]:
    """Return ``count`` prefixes. The square roots of their costs are spread as evenly as the groups allow."""
    last = np.flatnonzero(np.append(np.diff(costs) > 0, True)) + 1  # of prefixes of equal cost, the longest
    roots, found = np.sqrt(costs[last - 1]), list[int]()
    count = min(count, last.size)
    for k in range(1, count + 1):
        first, end = (found[-1] + 1 if found else 0), last.size - (count - k)
        found.append(first + int(np.argmin(np.abs(roots[first:end] - roots[-1] * k / count))))
    return tuple(last[found].tolist())
