"""Early exit: stop when the remaining groups would hardly change the decision."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import is_classifier
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

Float = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class EarlyExit:
    """Stop a run when the probability that the remaining groups change the decision is below a threshold.

    The remaining contribution of a stage is the last stage's score minus its own. Its distribution is that of a sample
    of inputs, whatever the score so far: P(change) = (1 + #{i : the decision from s + Δ_i differs}) / (1 + m).

    Attributes
    ----------
    remaining : array of shape (stages, m, P)
        Δ for every stage and input of the sample; for two classes P is 1 and the entries are sorted.
    below : float
        The threshold.

    Examples
    --------
    >>> from budgetline import AnytimeClassifier, EarlyExit
    >>> from budgetline.datasets import load_heart
    >>> heart = load_heart()
    >>> model = AnytimeClassifier(heart.feature_groups, alpha=1e-2).fit(heart.data, heart.target)
    >>> early_exit = EarlyExit.learn(model, heart.data, below=0.05)
    >>> early_exit.chance(4, [[0.1], [4.0]]).round(2).tolist()  # after four groups, at these log odds
    [0.49, 0.0]
    """

    remaining: Float
    below: float

    @classmethod
    def learn(
        cls, model: Any, X: Any, *, below: float = 0.01, n_samples: int = 2000, random_state: Any = 0
    ) -> EarlyExit:
        """Learn what the remaining groups contribute.

        Parameters
        ----------
        model : fitted classifier of this library
        X : table of shape (n, D)
            Inputs with all columns, the training data or, better, others.
        below : float in (0, 1)
            Stop when the probability of another decision is below this. It must be larger than 1/(1 + n) to have any
            effect.
        n_samples : int
            At most so many rows of X are used, drawn at random.
        random_state : int, RandomState or None
        """
        check_is_fitted(model)
        if not is_classifier(model):
            raise TypeError(f"early exit is for classifiers, got {type(model).__name__}")
        if isinstance(below, bool) or not isinstance(below, Real) or not 0 < float(below) < 1:
            raise ValueError(f"below must be between 0 and 1, got {below!r}")
        if isinstance(n_samples, bool) or not isinstance(n_samples, Integral) or n_samples < 1:
            raise ValueError(f"n_samples must be an integer ≥ 1, got {n_samples!r}")
        scores = np.stack([s.reshape(len(s), -1) for s in model.staged_decision_function(X)])
        if scores.shape[1] > n_samples:
            rng = check_random_state(random_state)
            scores = scores[:, rng.choice(scores.shape[1], int(n_samples), replace=False)]
        remaining = scores[-1] - scores
        if remaining.shape[2] == 1:
            remaining.sort(axis=1)
        return cls(remaining, float(below))

    def chance(self, stage: int, scores: Any) -> Float:
        """Return the probability that the decision changes after a stage, shape (n,), at scores (n, P)."""
        scores = np.asarray(scores, dtype=np.float64)
        left = self.remaining[stage - 1]
        if scores.shape[1] == 1:
            # the final score s + Δ is positive where Δ > −s
            not_positive = np.searchsorted(left[:, 0], -scores[:, 0], side="right")
            changed = np.where(scores[:, 0] > 0, not_positive, len(left) - not_positive)
        else:
            finals = (scores[:, None, :] + left).argmax(axis=2)
            changed = (finals != scores.argmax(axis=1)[:, None]).sum(axis=1)
        return np.asarray((1 + changed) / (1 + len(left)))

    def decided(self, stage: int, scores: Float) -> bool:
        """Return whether all decisions, from scores (n, P), are as good as made."""
        return bool((self.chance(stage, scores) < self.below).all())

    def check(self, model: Any) -> None:
        """Raise an error unless this was learned from a model of the same shape."""
        staged = model.staged_model_
        if not is_classifier(model) or (self.remaining.shape[0], self.remaining.shape[2]) != (
            staged.n_stages,
            staged.null_intercept.size,
        ):
            raise ValueError("early_exit was learned from another model")
