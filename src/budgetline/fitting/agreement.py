"""Whether predictions explain what a model claims: gains against losses on the training rows.

The gains of a sequence come from a factorisation or from Newton's method, predictions from coefficients in the user's
units. Nearly dependent columns have large coefficients, and columns with a large mean lose digits in ``x @ coef``. So
gains and predictions can disagree; then a warning says so.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from scipy.linalg import LinAlgWarning

from budgetline.arrays import Float
from budgetline.data.rows import Rows
from budgetline.fitting.training import Fitted
from budgetline.glm.families import Family, SquaredError
from budgetline.glm.set_families import SetFamily
from budgetline.groups import Layout
from budgetline.leastsquares.gram import EPS
from budgetline.messages import shown, some, warn
from budgetline.model.stages import LinearModel, StagedModel
from budgetline.moments.moments import Moments

AGREE = 1e-3
"""Share of R(∅) by which claims and predictions may differ."""
SUSPECT = 1e-4
"""Estimated rounding error of scores, in deviations of the targets, above which losses are measured."""
ROUGH = 1e-2
"""Estimated rounding error of scores above which predictions from moments are not trusted."""


def warn_if_apart(
    fitted: Fitted, family: Family | SetFamily, losses: Callable[[Fitted], Float], labels: Sequence[str], clear: bool
) -> None:
    """Warn if the claims of a model and its predictions on the training rows differ; measure only if they might.

    They might if predictions are rounded much, or if the gains come from nearly dependent columns.

    Parameters
    ----------
    fitted : Fitted
    family : Family
    losses : callable
        Returns the mean losses (1 + stages,) on the training rows.
    labels : sequence of str
        Names of the columns.
    clear : bool
        Whether the gains are accurate: those of squared error are if the columns are far from dependent.
    """
    stages, alpha = fitted.stages, fitted.recipe.alpha
    null, rounding = stages.sequence.null_value, _rounding(stages, family)
    if not null > 0 or (clear and rounding.max(initial=0.0) <= SUSPECT):
        return
    with np.errstate(over="ignore", invalid="ignore"):
        found = losses(fitted)
        models = [stages.at_stage(k + 1) for k in range(stages.n_stages)]
        penalty = np.array([(stages.standardised(model)[0] ** 2).sum() for model in models])
        shares = (found[0] - found[1:] - alpha / 2 * penalty) / null
    apart = np.abs(shares - stages.sequence.explained)
    if np.all(apart <= AGREE):
        return
    k = int(np.argmax(np.where(np.isnan(apart), np.inf, apart)))
    warn(
        f"predictions do not explain what the model claims: up to group {shown(stages.sequence.groups[k])}, it claims "
        f"{stages.sequence.explained[k]:.4g} of the risk, but its predictions explain {shares[k]:.4g} on the training "
        "rows. " + _advice(models[k], stages, labels, alpha),
        LinAlgWarning,
    )


def warn_if_rounded(stages: StagedModel, alpha: float, labels: Sequence[str]) -> None:
    """Warn if the predictions of a model of squared error are rounded too much, where there are no rows to measure."""
    rounding = _rounding(stages, SquaredError())
    if stages.sequence.null_value > 0 and rounding.max(initial=0.0) > ROUGH:
        last = stages.at_stage(int(np.argmax(rounding)) + 1)
        warn("predictions lose most of their digits. " + _advice(last, stages, labels, alpha), LinAlgWarning)


def _rounding(stages: StagedModel, family: Family | SetFamily) -> Float:
    """Estimate the rounding error of the scores of every stage (stages,), in deviations of the targets.

    Scores of other losses than squared error have no such unit: one is a large change of a probability or a rate.
    """
    unit = np.sqrt(2 * stages.sequence.null_value)
    unit = unit if isinstance(family, SquaredError) else min(unit, 1.0)
    terms = np.linalg.norm(stages.coef_path[..., stages.columns] * stages.mean[stages.columns], axis=(1, 2))
    return np.asarray(EPS * terms / unit if unit > 0 else np.zeros_like(terms))


def _advice(model: LinearModel, stages: StagedModel, labels: Sequence[str], alpha: float) -> str:
    """Say what to do about the predictions of a model: about columns of a large mean, or about dependent columns."""
    terms = EPS * np.abs(model.coef * stages.mean).sum(axis=0) / np.sqrt(2 * stages.sequence.null_value)
    far = np.flatnonzero(terms > max(SUSPECT, terms.max() / 10))
    if not far.size:
        return f"The columns are nearly dependent (alpha={alpha:g}): raise alpha, or leave out redundant columns."
    named = some((labels[d] for d in far[np.argsort(-terms[far], kind="stable")]), most=5)
    return (
        f"The means of these columns are so much larger than their deviations that digits are lost: {named}. Subtract "
        "a value near the mean before they are stored as float64, or raise alpha."
    )


def warn_of_lost_columns(data: Rows | Moments, scale: Float, layout: Layout) -> None:
    """Warn about columns that count as constant in a model (scale ∞) although their values in the data differ."""
    found = layout.read[data.varying(np.flatnonzero(np.isinf(scale)))]
    if not found.size:
        return
    warn(
        f"{len(found)} of the columns differ by less than the rounding error of their means and count as constant: "
        f"{some(layout.labels(found), most=5)}. Subtract a value near the mean before they are stored as "
        "float64. If a few samples outweigh all others, make the weights less unequal.",
        UserWarning,
    )
