"""What bounds and better sequences are about: the problem and the order, from a fitted model or from moments."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from budgetline.budgets import number_of
from budgetline.groups import FeatureGroups, as_feature_groups
from budgetline.messages import shown
from budgetline.model.anytime import AnytimeModel, as_model
from budgetline.model.linear import LARGEST_GRAM, fit_moments, warn_from_moments
from budgetline.model.recipe import Recipe
from budgetline.model.subsets import LinearSubset
from budgetline.objectives.least_squares import Gram
from budgetline.optimality.quadratic import Quadratic
from budgetline.sequencing.loop import Limits
from budgetline.sequencing.schedules import FixedOrder, Greedy, as_schedule
from budgetline.sequencing.sequence import GroupSequence
from budgetline.statistics.moments import Moments

ALPHA = 1e-5
"""The ridge constant of estimators that are given none."""


def check_time_limit(time_limit: Any) -> float:
    """Return a number of seconds."""
    if not number_of(time_limit) >= 0:
        raise ValueError(f"time_limit must be a number of seconds ≥ 0, got {shown(time_limit)}")
    return float(time_limit)


def fitted_model(subject: Any, **of_moments: Any) -> AnytimeModel:
    """Return a fitted model; nothing may be given that goes with moments."""
    if given := [name for name, value in of_moments.items() if value is not None]:
        raise TypeError(f"{given[0]} goes with moments; a model has its own")
    return as_model(subject)


def problem_of_moments(moments: Moments, feature_groups: Any, costs: Any, alpha: float | None) -> Quadratic:
    """Return what sets of groups explain and cost, from moments."""
    alpha = ALPHA if alpha is None else alpha
    if not 0 <= number_of(alpha) < np.inf:
        raise ValueError(f"alpha must be a finite number ≥ 0, got {shown(alpha)}")
    groups = as_feature_groups(feature_groups, costs, moments.feature_names, moments.n_features)
    layout = groups.resolve(moments.feature_names, moments.n_features)
    return _problem(moments, layout.columns, groups, float(alpha))


def problem_of_model(model: AnytimeModel) -> Quadratic:
    """Return what sets of the groups of a fitted model explain and cost, from its moments or its factor."""
    layout, groups, alpha = model.layout, model.groups, model.alpha
    if model.moments is not None:
        return _problem(model.moments, layout.position, groups, alpha)
    subset = model.stages.subset
    assert isinstance(subset, LinearSubset)
    factor = subset.factor
    if factor.columns.size < layout.read.size or not factor.kept.all():
        raise ValueError(
            "the model does not know the covariance of all groups (it was ended early, or columns are dependent): "
            "give the moments, certify(moments, groups, sequence=model.sequence_)"
        )
    _check_width(layout.read.size)
    place = np.argsort(factor.columns)[np.searchsorted(np.sort(factor.columns), layout.by_group)]
    U = factor.U[:, place]
    sizes = np.array([c.size for c in layout.columns], dtype=np.intp)
    return Quadratic(U.T @ U, U.T @ factor.z, sizes, groups, float(model.sequence.null_value), alpha)


def _problem(moments: Moments, columns: tuple[NDArray[np.intp], ...], groups: FeatureGroups, alpha: float) -> Quadratic:
    _check_width(sum(c.size for c in columns))
    gram = Gram.of(moments, np.concatenate(columns), alpha)
    problem = Quadratic.of(gram, np.array([c.size for c in columns], dtype=np.intp), groups, alpha, moments.eps)
    least, largest = problem.spectrum[[0, -1]]
    warn_from_moments(float(moments.eps * largest / least) if least > 0 else 1.0, moments.eps, alpha)
    return problem


def _check_width(n_columns: int) -> None:
    if n_columns > LARGEST_GRAM:
        raise ValueError(f"{n_columns} columns are too many for a certificate, which takes {LARGEST_GRAM} at most")


def order_of(sequence: GroupSequence | Sequence[str] | None, problem: Quadratic, moments: Moments) -> list[int]:
    """Return a sequence as positions of groups; None: the one that greedy ``fr`` finds."""
    groups = problem.groups
    if isinstance(sequence, str):
        raise TypeError(f"sequence must be a GroupSequence or a list of group names, got the string {shown(sequence)}")
    if sequence is not None:
        names = sequence.groups if isinstance(sequence, GroupSequence) else sequence
        fixed: Any = as_schedule(FixedOrder(tuple(map(str, names))), groups.names, groups.prices)
        return list(fixed.groups)
    layout = groups.resolve(moments.feature_names, moments.n_features)
    recipe = Recipe(layout.columns, groups.names, groups.prices, "fr", Greedy(), Limits(), True, problem.alpha)
    return [int(g) for g in fit_moments(moments, recipe)[0].sequence.order]
