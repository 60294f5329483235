"""Choosing alpha from held-out scores over all budgets."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_array

from budgetline.evaluation.timeliness import mean_over_budgets
from budgetline.objectives.families import Family
from budgetline.plan import Plan
from budgetline.sequencing.sequence import Sequence
from budgetline.staged import StagedModel
from budgetline.statistics.chunks import Rows

Float = NDArray[np.float64]


def check_alphas(alphas: Any) -> Float:
    """Return the values to try, shape (n_alphas,)."""
    values: Float = check_array(alphas, ensure_2d=False, dtype=np.float64, input_name="alphas")
    if values.ndim != 1 or np.any(values < 0):
        raise ValueError(f"alphas must be numbers ≥ 0, got {alphas!r}")
    return values


def mean_explained(plan: Plan, sequence: Sequence, losses: Float) -> float:
    """Return the mean over budgets of 1 − loss/loss_0, for held-out losses (1 + stages,) from stage 0 on.

    Sequences that end early keep their last value up to the largest budget anyone could have.
    """
    explained = 1 - losses / losses[0] if losses[0] > 0 else np.zeros(losses.size)
    total = float(plan.costs.sum())
    if plan.limits.max_cost is not None:
        total = max(min(total, plan.limits.max_cost), float(sequence.costs.sum()))
    return mean_over_budgets(sequence.cumulative_costs, explained, total)


def held_out_losses(model: StagedModel, family: Family, held: Rows) -> Float:
    """Return the mean losses of stages 0, 1, … on held-out rows, less those of a model that knows the targets."""
    weight = np.ones(held.n_rows) if held.weight is None else held.weight
    if not weight.any():
        raise ValueError("a held-out set has no sample of positive weight")
    table = held.block(slice(None))
    losses = [family.loss(np.tile(model.null_intercept, (held.n_rows, 1)), held.Y)]
    for coef, intercept in zip(model.coef_path, model.intercept_path, strict=True):
        losses.append(family.loss(table @ coef.T + intercept, held.Y))
    known = family.saturated(family.internal(held.Y))
    return np.array([np.average(loss - known, weights=weight) for loss in losses])


def choose_alpha(alphas: Float, scores: Float, one_standard_error: bool) -> int:
    """Return which alpha has the best mean score (n_alphas, n_folds), or is the largest within one standard error."""
    means = scores.mean(axis=1)
    best = int(np.argmax(means))
    if not one_standard_error or scores.shape[1] < 2:
        return best
    error = scores[best].std(ddof=1) / np.sqrt(scores.shape[1])
    return int(np.argmax(np.where(means >= means[best] - error, alphas, -np.inf)))
