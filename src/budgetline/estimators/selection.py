"""Choosing alpha from held-out scores over all budgets."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_array

from budgetline.budgets import floats_of
from budgetline.data.rows import Rows
from budgetline.evaluation.curve import BudgetCurve
from budgetline.evaluation.stages import explained_share, mean_over_rows
from budgetline.evaluation.timeliness import timeliness
from budgetline.messages import shown
from budgetline.model.recipe import Recipe
from budgetline.model.stages import StagedModel
from budgetline.objectives.families import Family
from budgetline.sequencing.sequence import GroupSequence

Float = NDArray[np.float64]


def check_alphas(alphas: Any) -> Float:
    """Return the values to try, shape (n_alphas,)."""
    values: Float = check_array(floats_of(alphas), ensure_2d=False, dtype=np.float64, input_name="alphas")
    if values.ndim != 1 or np.any(values < 0):
        raise ValueError(f"alphas must be numbers ≥ 0, got {shown(alphas)}")
    return values


def mean_explained(recipe: Recipe, sequence: GroupSequence, losses: Float) -> float:
    """Return the mean over budgets of 1 − loss/loss_0, for held-out losses (1 + stages,) from stage 0 on.

    Sequences that end early keep their last value up to the largest budget anyone could have.
    """
    total = recipe.prices.total
    if recipe.limits.max_cost is not None:
        total = max(min(total, recipe.limits.max_cost), float(sequence.costs.sum()))
    curve = BudgetCurve(np.concatenate([[0.0], sequence.cumulative_costs]), np.nan_to_num(explained_share(losses)))
    return timeliness(curve, total, interpolation="step")


def held_out_losses(model: StagedModel, family: Family, held: Rows) -> Float:
    """Return the mean losses of stages 0, 1, … on held-out rows, less those of a model that knows the targets."""
    if held.weight is not None and not held.weight.any():
        raise ValueError("a held-out set has no sample of positive weight")
    table = held.block(slice(None))[:, model.at_stage(model.n_stages).columns]
    return mean_over_rows(model, table, held.weight, lambda scores, rows: family.excess(scores, held.Y[rows]))


def choose_alpha(alphas: Float, scores: Float, one_standard_error: bool) -> int:
    """Return which alpha has the best mean score (n_alphas, n_folds), or is the largest within one standard error."""
    means = scores.mean(axis=1)
    best = int(np.argmax(means))
    if not one_standard_error or scores.shape[1] < 2:
        return best
    error = scores[best].std(ddof=1) / np.sqrt(scores.shape[1])
    return int(np.argmax(np.where(means >= means[best] - error, alphas, -np.inf)))
