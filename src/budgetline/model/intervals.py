"""Prediction intervals and sets of labels of a model, at any budget, from its held-out errors."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from budgetline.arrays import Float, Mask, Positions
from budgetline.glm.families import Poisson
from budgetline.glm.set_families import SetFamily
from budgetline.inputs import check_number
from budgetline.model.anytime import AnytimeModel
from budgetline.model.calibration import Stages
from budgetline.model.held_out_errors import HeldOutErrors, PredictionInterval
from budgetline.model.staged import Available


def predict_interval(
    model: AnytimeModel, X: object, coverage: float, budget: float | None, stage: int | None, available: Available
) -> PredictionInterval:
    """Return bounds of the targets of rows: what ``predict_interval`` of estimators returns."""
    check_intervals(model, coverage)
    return interval_of(model, *_scored(model, X, budget, stage, available), coverage)


def predict_set(
    model: AnytimeModel, X: object, coverage: float, budget: float | None, stage: int | None, available: Available
) -> Mask:
    """Return sets of labels of rows: what ``predict_set`` of estimators returns."""
    errors = _errors_of(model, coverage, "sets of labels")
    scores, like = _scored(model, X, budget, stage, available)
    probabilities = model.respond(scores, "predict_proba", like)
    found = np.empty(probabilities.shape, dtype=bool)
    for at, rows in _by_stage(like, len(scores)):
        later = at if available is None else min(at + 1, model.n_stages)  # other sets lie between two stages
        found[rows] = errors.members(probabilities[rows], (at, later), coverage)
    return found


def check_intervals(model: AnytimeModel, coverage: object) -> HeldOutErrors:
    """Return the held-out errors of a regression; raise an error if a model cannot give intervals."""
    if model.classes is not None or isinstance(model.family, SetFamily):
        advice = "use predict_set, in Python" if model.classes is not None else "its scores have no unit"
        raise TypeError(f"intervals are for regression, but this is an {model.estimator}: {advice}")
    return _errors_of(model, coverage, "intervals")


def interval_of(model: AnytimeModel, scores: Float, like: Stages, coverage: float) -> PredictionInterval:
    """Return bounds of the targets of rows with these scores (n, P), at a stage or at the stage of each row."""
    errors = check_intervals(model, coverage)
    predicted = np.asarray(model.results(scores, "predict")).reshape(scores.shape)
    bounds = np.empty((2, *scores.shape))
    for at, rows in _by_stage(like, len(scores)):
        bounds[:, rows] = errors.interval(predicted[rows], at, coverage)
    if isinstance(model.family, Poisson):
        bounds = np.maximum(bounds, 0.0)
    return PredictionInterval(*(bounds if model.target_shape else bounds[..., 0]))


def _scored(
    model: AnytimeModel, X: object, budget: float | None, stage: int | None, available: Available
) -> tuple[Float, Stages]:
    watch = model.watch()
    found = model.scored(X, budget=budget, stage=stage, available=available, watch=watch)
    watch.warn()
    return found


def _by_stage(like: Stages, n_rows: int) -> Iterator[tuple[int, Positions]]:
    """Yield the stages of rows, and the rows of each."""
    each = np.broadcast_to(like, n_rows)
    for at in np.unique(each).tolist():
        yield at, np.flatnonzero(each == at)


def _errors_of(model: AnytimeModel, coverage: object, what: str) -> HeldOutErrors:
    check_number("coverage", coverage, gt=0, lt=1)
    if model.errors is not None:
        return model.errors
    advice = "AnytimeRegressorCV" if model.classes is None else "AnytimeClassifierCV"
    if "cv_scores_" in model.learned:
        raise ValueError(f"{what} need held-out rows in memory, and this {model.estimator} learned from a source")
    raise ValueError(f"{what} need held-out errors, which {model.estimator} does not have: fit {advice}")
