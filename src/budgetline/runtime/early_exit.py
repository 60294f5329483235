"""Early exit: stop when the remaining groups would hardly change the decision."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import check_random_state

from budgetline.arrays import Float, Positions
from budgetline.inputs import check_integer, check_number
from budgetline.model.anytime import Staged
from budgetline.model.staged import SCORE
from budgetline.runtime.steps import check_model

Seed = int | np.random.RandomState | None
BLOCK = 1 << 20
"""How many later scores of several classes are compared at a time."""


@dataclass(frozen=True, eq=False)
class ScoreChange:
    """The distribution of the scores after groups are added, given the scores s before.

    On a sample of m inputs, the scores after are regressed on those before. The residuals Δ_i show what the added
    groups may bring: the scores after are one of a + Bs + Δ_i. The regression matters: scores spread as groups are
    added, so a score far from the border mostly moves farther away.

    Attributes
    ----------
    intercept, slope : arrays of shape (P,) and (P, P)
        a and B.
    rest : array of shape (m, P)
        Δ; for two classes P is 1 and the entries are sorted.
    """

    intercept: Float
    slope: Float
    rest: Float

    @classmethod
    def learn(cls, before: Float, after: Float) -> ScoreChange:
        """Learn from the scores of a sample before and after, both of shape (m, P)."""
        m = len(before)
        design = np.column_stack([np.ones(m), before])
        solution, _, rank, _ = np.linalg.lstsq(design, after, rcond=None)
        found: Float = np.asarray(solution, dtype=np.float64)
        # fitted residuals are too small: the regression has used degrees of freedom
        rest: Float = (after - design @ found) * np.sqrt(m / max(m - int(rank), 1))
        return cls(found[0], found[1:].T, np.sort(rest, axis=0) if rest.shape[1] == 1 else rest)

    def changed(self, scores: Float) -> Positions:
        """Return for how many i the decision from a + Bs + Δ_i differs from that of scores s (n, P), shape (n,)."""
        expected, rest = self.intercept + scores @ self.slope.T, self.rest
        if scores.shape[1] == 1:
            # the score after is positive where Δ is above minus the expected one
            not_positive = np.searchsorted(rest[:, 0], -expected[:, 0], side="right")
            return np.where(scores[:, 0] > 0, not_positive, len(rest) - not_positive)
        changed = np.empty(len(scores), dtype=np.intp)
        rows = max(1, BLOCK // rest.size)
        for at in (slice(start, start + rows) for start in range(0, len(scores), rows)):
            later = (expected[at, None, :] + rest).argmax(axis=2)
            changed[at] = (later != scores[at].argmax(axis=1)[:, None]).sum(axis=1)
        return changed


@dataclass(frozen=True, eq=False)
class EarlyExit:
    """Rule that stops a run when the remaining groups are unlikely to change the decision.

    For each stage, the scores of the last stage are regressed on the scores s of this stage over a sample of m inputs.
    The fitted values are a + Bs, and the residuals Δ_i show what the remaining groups may add to them. The probability
    that the decision changes is therefore estimated as (1 + #{i : the decision for a + Bs + Δ_i differs from the
    decision for s}) / (1 + m).

    Attributes
    ----------
    changes : tuple of ScoreChange
        The regression of each stage: a, B and Δ.
    threshold : float
        A run stops when the probability that the decision changes is below this value.

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
        """Learn how much the remaining groups add to the scores.

        Parameters
        ----------
        model : fitted classifier of this library, or its AnytimeModel
            The model whose runs may be stopped early.
        X : table of shape (n, D)
            Inputs with all columns. The training data can be used.
        threshold : float in (0, 1)
            A run stops when the probability that the decision changes is below this value. Thresholds up to 1/(1 + m)
            have no effect if m rows are used.
        n_samples : int
            Maximum number of rows of X to use. If X has more rows, a random sample is drawn.
        random_state : int, RandomState or None
            The seed for drawing this sample.
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
        """Return the probability (n,) that the decision changes after ``stage``, given its ``scores`` (n, P)."""
        change = self.changes[stage - 1]
        return np.asarray((1 + change.changed(np.asarray(scores, dtype=np.float64))) / (1 + len(change.rest)))

    def decided(self, stage: int, scores: Float) -> bool:
        """Return whether groups after ``stage`` are unlikely to change any decision, given its ``scores`` (n, P)."""
        return bool((self.chance(stage, scores) < self.threshold).all())

    def check(self, model: Staged) -> None:
        """Raise an error if this was learned from a model of another shape."""
        widths = [change.intercept.size for change in self.changes]
        if model.classes is None or widths != [model.n_targets] * model.n_stages:
            raise ValueError("early_exit was learned from another model")
