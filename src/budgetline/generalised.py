"""From data to a staged generalised linear model."""

from __future__ import annotations

from collections.abc import Sequence as Seq

import numpy as np

from budgetline.objectives.families import Family
from budgetline.objectives.glm import GeneralisedLinear
from budgetline.objectives.newton import Problem
from budgetline.plan import Plan
from budgetline.sequencing.loop import greedy_order
from budgetline.sequencing.sequence import Sequence
from budgetline.staged import StagedModel, in_user_units
from budgetline.statistics.chunks import Rows
from budgetline.statistics.columns import standardised_columns
from budgetline.threads import one_blas_thread


def fit_generalised(rows: Rows, plan: Plan, family: Family, tol: float, names: Seq[str] | None = None) -> StagedModel:
    """Run the greedy loop for a family, every stage refitted to a gradient below ``tol`` · deviation of the targets."""
    A, _, _ = standardised_columns(rows, names)
    weight = A.root**2
    family.check(rows.Y, weight)
    targets = family.internal(rows.Y)
    spread = np.sqrt(weight @ ((targets - weight @ targets) ** 2)).max()  # gradients are in units of the targets
    problem = Problem(family, targets, weight, plan.alpha, tol * spread if spread > 0 else tol)
    costs = plan.costs if plan.cost_sensitive else np.ones_like(plan.costs)
    with one_blas_thread():
        objective = GeneralisedLinear(A, plan.order, plan.sizes, problem, plan.rule, costs)
        order, gains = greedy_order(
            objective, plan.costs, plan.schedule, plan.limits, cost_sensitive=plan.cost_sensitive
        )
        subset = objective.subset()
    V, levels = objective.coefficients()
    W = family.external(V.transpose(0, 2, 1)).transpose(0, 2, 1)
    coef, intercept = in_user_units(W, subset.columns, A.mean, A.scale, family.external(levels))
    sequence = Sequence(order, tuple(plan.names[g] for g in order), plan.costs[order], gains, objective.null_value)
    null = family.external(objective.null_level)
    return StagedModel(sequence, plan.names, coef, intercept, null, subset, A.mean, A.scale)
