"""How scores change when groups are added, learned from a sample of inputs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from budgetline.arrays import Float, Positions

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
