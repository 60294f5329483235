"""What the folds of a search say about the final model: calibrations, held-out errors, and how sure the order is.

Every fold has models of its own, with an order of its own. What the final model predicts at a stage is compared with
what the folds predict on their held-out rows for the same money: budgets match, not numbers of groups.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from scipy.special import expit

from budgetline.arrays import Float
from budgetline.budgets import fold_costs, points_of_stages
from budgetline.encoding.table import TableEncoding
from budgetline.fitting.calibrating import calibration_of
from budgetline.fitting.moments_training import MomentsTraining
from budgetline.fitting.recipe import Recipe
from budgetline.fitting.rows_training import RowsTraining
from budgetline.fitting.training import Training
from budgetline.glm.set_families import SetFamily
from budgetline.model.calibration import Calibration
from budgetline.model.held_out_errors import MOST_RANKS, HeldOutErrors, ranks_of
from budgetline.model.stages import StagedModel
from budgetline.moments.moments import Split
from budgetline.sequencing.sequence import GroupSequence

MOST_ROWS = 10_000
"""At most this many held-out rows are used, drawn at random: enough for three parameters and for tails."""
BIN_ROWS, MOST_BINS = 100, 10
"""Fewest rows of a bin in which the size of errors is measured, and most bins."""
NARROWER = 0.98
"""Errors are divided by their size by prediction if 90 % intervals are narrower than this share of the others."""


class FoldModel(NamedTuple):
    """The models of a fold: ``stages`` None if they are too large to keep, and ``encoding`` if it has its own pairs."""

    sequence: GroupSequence
    stages: StagedModel | None
    encoding: TableEncoding | None = None

    @property
    def costs(self) -> Float:
        """The costs of its stages, from 0 on."""
        return np.append(0.0, self.sequence.cumulative_costs)


@dataclass(frozen=True)
class OutOfFold:
    """The folds of the chosen settings, and the data that they were cut from.

    Attributes
    ----------
    training : Training
    cv : object
        What ``training.fixed`` has returned: for rows the splits.
    recipe : Recipe
        The chosen settings.
    folds : sequence of FoldModel
    calibrate : bool
        Whether to calibrate the scores of classes.
    """

    training: Training
    cv: object
    recipe: Recipe
    folds: Sequence[FoldModel]
    calibrate: bool

    def reached(self, sequence: GroupSequence) -> Float:
        """Return what every fold has spent when it has bought each group of a sequence, (folds, stages); inf: never."""
        return fold_costs(sequence.groups, [(f.sequence.groups, f.sequence.cumulative_costs) for f in self.folds])

    def certainty(self, sequence: GroupSequence) -> tuple[Calibration | None, HeldOutErrors | None]:
        """Return the calibration and the held-out errors of a model with this sequence."""
        costs = np.append(0.0, sequence.cumulative_costs)
        if isinstance(self.training, MomentsTraining):
            return None, self._normal(self.training, costs)
        if not isinstance(self.training, RowsTraining) or isinstance(self.training.task.family, SetFamily):
            return None, None
        scores, Y, weight, n_rows = self._held_out(self.training, costs)
        if self.training.task.classes is None:
            flat = self.training.task.family.prediction(scores.reshape(-1, scores.shape[2]))
            return None, residual_errors(flat.reshape(scores.shape), Y, weight, n_rows)
        calibration = calibration_of(scores, Y, weight, n_rows) if self.calibrate else None
        if calibration is not None:
            scores = calibration.apply(scores, np.arange(scores.shape[1]))
        return calibration, label_errors(scores, Y, weight, n_rows)

    def _held_out(self, training: RowsTraining, costs: Float) -> tuple[Float, Float, Float, float]:
        """Return scores (n, 1 + stages, P), targets and weights of held-out rows, and the number of different rows.

        A row that several folds hold out counts once. A fold whose models were too large to keep is fitted again.
        """
        assert isinstance(self.cv, list)
        every = np.arange(training.rows.n_rows)
        splits: list[Split] = [(every[train], every[test]) for train, test in self.cv]  # they may be masks
        training = replace(training, rows=training.rows.rescaled()[0])
        random, copies = np.random.default_rng(0), np.bincount(np.concatenate([test for _, test in splits]))
        share = MOST_ROWS / copies.sum()
        parts = []
        for (train, test), fold in zip(splits, self.folds, strict=True):
            if share < 1:
                test = np.sort(random.permutation(test)[: int(np.ceil(test.size * share))])
            held = test
            rows, stages, encoding = training.rows, fold.stages, fold.encoding
            if stages is None:
                again, recipe = training.part(train), self.recipe
                if encoding is not None:
                    again, recipe = again.encoded(encoding), recipe.over(encoding)
                stages = again.fit(recipe).stages
            if encoding is not None:
                rows, test = training.part(test).encoded(encoding).rows, np.arange(test.size)
            table = rows.block(test)[:, stages.at_stage(stages.n_stages).columns]
            scores = np.stack(list(stages.stage_scores(table)), axis=1)[:, points_of_stages(costs, fold.costs)]
            counted = rows.weights[test] > 0
            weight = rows.weights[test] / copies[held]
            parts.append([each[counted] for each in (scores, rows.Y[test], weight, held)])
        scores, Y, weight, held = map(np.concatenate, zip(*parts, strict=True))
        return scores, Y, weight, effective_number(np.bincount(held, weight).astype(np.float64))

    def _normal(self, training: MomentsTraining, costs: Float) -> HeldOutErrors | None:
        """Return normal errors with the mean squared errors on the moments of held-out folds."""
        found, weights = [], [part.weight for part in training.parts]
        for fold, test in zip(self.folds, training.parts, strict=True):
            if fold.stages is None:
                return None
            found.append(fold.stages.mean_squared_errors(test)[points_of_stages(costs, fold.costs)])
        deviation = np.sqrt(np.maximum(np.average(found, axis=0, weights=weights), 0.0))
        return HeldOutErrors.normal(deviation, float(sum(part.n_samples for part in training.parts)))


def effective_number(weight: Float) -> float:
    """Return how many rows of equal weight are worth as much as rows of these weights."""
    return max(float(weight.sum() ** 2 / (weight @ weight)), 1.0)


def label_errors(scores: Float, Y: Float, weight: Float, n_rows: float) -> HeldOutErrors:
    """Return 1 − p_y of calibrated scores (n, K, P) of classes."""
    if scores.shape[2] == 1:
        found = expit(np.where(Y[:, None, 0] > 0, -scores[..., 0], scores[..., 0]))
    else:
        own = np.einsum("np,nkp->nk", Y, scores)
        found = -np.expm1(own - np.logaddexp.reduce(scores, axis=2))
    K = scores.shape[1]
    values = _order_statistics(found.T[:, None], weight, n_rows)
    return HeldOutErrors(values, n_rows, np.zeros((K, 1, 1)), np.ones((K, 1, 1)))


def residual_errors(predicted: Float, Y: Float, weight: Float, n_rows: float) -> HeldOutErrors:
    """Return the errors y − ŷ of predictions (n, K, P), divided by their size by prediction where that is narrower."""
    predicted = predicted.transpose(1, 2, 0)
    errors = Y.T - predicted
    plain = _order_statistics(errors, weight, n_rows)
    bins = int(np.clip(n_rows // BIN_ROWS, 1, MOST_BINS))
    K, P, _ = errors.shape
    centres, scales = np.zeros((K, P, bins)), np.ones((K, P, bins))
    if bins == 1:
        return HeldOutErrors(plain, n_rows, centres, scales)
    for k, p in np.ndindex(K, P):
        own, size = _size_by_prediction(predicted[k, p], np.abs(errors[k, p]), weight, bins)
        at = np.interp(predicted[k, p], own, size)
        if at.min() <= 0:
            continue
        divided = _order_statistics(errors[k, p] / at, weight, n_rows)
        if _width(divided, n_rows) * np.average(at, weights=weight) < NARROWER * _width(plain[k, p], n_rows):
            plain[k, p], centres[k, p], scales[k, p] = divided, own, size
    if np.all(scales == 1):
        centres, scales = centres[..., :1], scales[..., :1]
    return HeldOutErrors(plain, n_rows, centres, scales)


def _size_by_prediction(predicted: Float, size: Float, weight: Float, bins: int) -> tuple[Float, Float]:
    """Return mean predictions and mean sizes of errors (bins,) in bins of equally many rows."""
    order = np.argsort(predicted, kind="stable")
    starts = np.linspace(0, predicted.size, bins, endpoint=False).astype(np.intp)
    total = np.add.reduceat(weight[order], starts)
    mean = [np.add.reduceat((weight * each)[order], starts) / total for each in (predicted, size)]
    return mean[0], mean[1]


def _width(values: Float, n_rows: float) -> float:
    """Return the width of a 90 % interval of order statistics."""
    low, high = np.interp([0.05 * n_rows, 0.95 * n_rows], ranks_of(n_rows, values.size), values)
    return float(high - low)


def _order_statistics(errors: Float, weight: Float, n_rows: float) -> Float:
    """Return order statistics (…, m) of errors (…, n) of this many rows."""
    n, total = errors.shape[-1], weight.sum()
    order, at = np.argsort(errors, axis=-1).reshape(-1, n), ranks_of(n_rows, min(n, MOST_RANKS))
    flat = zip(order, errors.reshape(-1, n), strict=True)
    found = [np.interp(at, n_rows * np.cumsum(weight[by]) / total, own[by]) for by, own in flat]
    return np.reshape(found, (*errors.shape[:-1], at.size))
