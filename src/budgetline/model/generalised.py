"""From data to a staged generalised linear model."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgWarning

from budgetline.data.rows import Rows
from budgetline.model.recipe import Recipe
from budgetline.model.stages import StagedModel, in_user_units
from budgetline.objectives.families import Family
from budgetline.objectives.glm import GeneralisedLinear
from budgetline.objectives.gram import EPS, Gram
from budgetline.objectives.newton import Problem
from budgetline.objectives.streamed import StreamedGeneralisedLinear, Sums
from budgetline.objectives.subsets import QuadraticSubset
from budgetline.sequencing.loop import greedy_order
from budgetline.sequencing.sequence import GroupSequence
from budgetline.statistics.columns import standardised_columns
from budgetline.statistics.moments import Moments
from budgetline.threads import one_blas_thread

Float = NDArray[np.float64]


def fit_generalised(
    rows: Rows, recipe: Recipe, family: Family, tol: float, names: Sequence[str] | None = None
) -> StagedModel:
    """Run the greedy loop for a family, every stage refitted to a gradient below ``tol`` · deviation of the targets."""
    A, _, _ = standardised_columns(rows, names)
    weight = A.root**2
    family.check(rows.Y, weight)
    targets = family.internal(rows.Y)
    spread = np.sqrt(weight @ ((targets - weight @ targets) ** 2)).max()  # gradients are in units of the targets
    problem = Problem(family, targets, weight, recipe.alpha, tol * spread if spread > 0 else tol)
    with one_blas_thread():
        objective = GeneralisedLinear(A, recipe.by_group, recipe.sizes, problem, recipe.rule)
        order, gains = greedy_order(
            objective, recipe.prices, recipe.schedule, recipe.limits, cost_sensitive=recipe.cost_sensitive
        )
        subset = objective.subset()
    if np.any(np.ptp(targets[weight > 0], axis=0) > 0):
        _warn_if_drowned(objective, weight @ targets)
    return _staged(objective, subset, order, gains, recipe, family, A.mean, A.scale)


def fit_generalised_source(
    evaluate: Callable[[Float, bool, Moments], Sums], moments: Moments, recipe: Recipe, family: Family, tol: float
) -> StagedModel:
    """Do the same over data that are streamed; ``evaluate(θ, first, moments)`` makes one pass over them."""
    mean, scale, y_mean = moments.standardisation()
    family.check(y_mean[None], np.ones(1))
    level = family.start(family.internal(y_mean[None])[0])
    D = moments.n_features
    contrasts = family.internal(np.eye(y_mean.size))
    spread = np.sqrt(np.diag(contrasts.T @ moments.scatter[D:, D:] @ contrasts) / moments.weight).max()
    with one_blas_thread():
        objective = StreamedGeneralisedLinear(
            lambda theta, first: evaluate(theta, first, moments),
            Gram.of(moments, recipe.by_group, recipe.alpha),
            recipe.by_group,
            recipe.sizes,
            family,
            level,
            recipe.alpha,
            tol * spread if spread > 0 else tol,
            recipe.rule,
        )
        order, gains = greedy_order(
            objective, recipe.prices, recipe.schedule, recipe.limits, cost_sensitive=recipe.cost_sensitive
        )
    if np.any(np.diag(moments.scatter)[D:] > 0):
        _warn_if_drowned(objective, family.internal(y_mean[None])[0])
    return _staged(objective, objective.subset(), order, gains, recipe, family, mean, scale)


def _warn_if_drowned(objective: GeneralisedLinear | StreamedGeneralisedLinear, mean: Float) -> None:
    """Warn if there is little to explain beside the terms of the risk, Σω(φ(η) − y'η): its changes are rounding.

    ``mean`` (Q,) are the mean internal targets.
    """
    terms = abs(objective.null_risk) + 2 * float(np.abs(mean) @ np.abs(objective.null_level))
    doubt = 16 * EPS * terms / max(objective.null_value, 1e-300)
    if doubt > 1e-6:
        warnings.warn(
            f"there is little to explain beside the size of the risk: about {max(0, int(-np.log10(doubt)))} digits of "
            "the gains can be trusted. If a few samples outweigh all others, make the weights less unequal.",
            LinAlgWarning,
            stacklevel=4,
        )


def _staged(
    objective: GeneralisedLinear | StreamedGeneralisedLinear,
    subset: QuadraticSubset,
    order: NDArray[np.intp],
    gains: Float,
    recipe: Recipe,
    family: Family,
    mean: Float,
    scale: Float,
) -> StagedModel:
    """Put the stages into the user's scores and units."""
    V, levels = objective.coefficients()
    W = family.external(V.transpose(0, 2, 1)).transpose(0, 2, 1)
    coef, intercept = in_user_units(W, subset.columns, mean, scale, family.external(levels))
    names, costs = tuple(recipe.names[g] for g in order), recipe.prices.steps(order)
    sequence = GroupSequence(order, names, costs, gains, objective.null_value)
    null = family.external(objective.null_level)
    return StagedModel(sequence, recipe.names, coef, intercept, null, subset, mean, scale)
