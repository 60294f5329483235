"""Early exit: stop when the remaining groups would hardly change the decision."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import check_random_state

from budgetline.arrays import Float
from budgetline.inputs import check_integer, check_number
from budgetline.model.anytime import Staged
from budgetline.model.changes import ScoreChange
from budgetline.model.staged import SCORE
from budgetline.runtime.steps import check_model

Seed = int | np.random.RandomState | None


@dataclass(frozen=True, eq=False)
class EarlyExit:
    """Stop a run when the probability that the remaining groups change the decision is below a threshold.

    On a sample of m inputs, the scores of the last stage are regressed on the scores s of this stage. The residuals Δ_i
    are what the remaining groups may add: P(change) = (1 + #{i : a + Bs + Δ_i decides otherwise than s}) / (1 + m).

    Attributes
    ----------
    changes : tuple of ScoreChange
        a, B and Δ of every stage.
    threshold : float
        A run stops when the probability of another decision is below it.

    Examples
    --------
    >>> from budgetline import AnytimeClassifier
    >>> from budgetline.runtime import EarlyExit
    >>> from budgetline.datasets import load_heart
    >>> heart = load_heart()
    >>> model = AnytimeClassifier(heart.feature_groups, alpha=1e-2).fit(heart.data, heart.target)
    >>> early_exit = EarlyExit.fit(model, heart.data, threshold=0.05)
    >>> early_exit.chance(4, [[0.1], [4.0]]).round(2).tolist()  # after four groups, at these log odds
    [0.39, 0.0]
    """

    changes: tuple[ScoreChange, ...]
    threshold: float

    @classmethod
    def fit(
        cls, model: object, X: object, *, threshold: float = 0.01, n_samples: int = 2000, random_state: Seed = 0
    ) -> EarlyExit:
        """Learn what the remaining groups add to the scores.

        Parameters
        ----------
        model : fitted classifier of this library, or its AnytimeModel
            Whose decisions may come early.
        X : table of shape (n, D)
            Inputs with all columns; the training data are fine.
        threshold : float in (0, 1)
            Stop when the probability of another decision is below this. Thresholds up to 1/(1 + n) have no effect.
        n_samples : int
            At most this many rows of X are used, drawn at random.
        random_state : int, RandomState or None
            Seed of the draw.
        """
        found = check_model(model)
        if found.classes is None:
            raise TypeError(f"early exit is for classifiers, got {found.estimator}")
        check_number("threshold", threshold, gt=0, lt=1)
        check_integer("n_samples", n_samples, ge=1)
        scores = np.stack([respond(SCORE) for respond in found.stage_results(found.table(X))][1:])
        if scores.shape[1] > n_samples:
            rng = check_random_state(random_state)
            scores = scores[:, rng.choice(scores.shape[1], int(n_samples), replace=False)]
        return cls(tuple(ScoreChange.learn(own, scores[-1]) for own in scores), float(threshold))

    def chance(self, stage: int, scores: ArrayLike) -> Float:
        """Return the probability that the decision changes after a stage, shape (n,), at its scores (n, P)."""
        change = self.changes[stage - 1]
        return np.asarray((1 + change.changed(np.asarray(scores, dtype=np.float64))) / (1 + len(change.rest)))

    def decided(self, stage: int, scores: Float) -> bool:
        """Return whether the remaining groups would hardly change any decision at ``scores`` (n, P) of a stage."""
        return bool((self.chance(stage, scores) < self.threshold).all())

    def check(self, model: Staged) -> None:
        """Raise an error if this was learned from a model of another shape."""
        widths = [change.intercept.size for change in self.changes]
        if model.classes is None or widths != [model.n_targets] * model.n_stages:
            raise ValueError("early_exit was learned from another model")
