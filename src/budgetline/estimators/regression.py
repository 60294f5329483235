"""Predictions of the regressors."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import MultiOutputMixin, RegressorMixin

from budgetline.estimators.base import SequenceEstimator
from budgetline.objectives.families import Family, SquaredError

Float = NDArray[np.float64]


class Regression(MultiOutputMixin, RegressorMixin, SequenceEstimator):  # type: ignore[misc]
    """Predictions E[y | x] = ∇φ(score), for squared error the score itself."""

    _family: Family = SquaredError()

    def predict(
        self,
        X: Any,
        *,
        budget: float | None = None,
        stage: int | None = None,
        available: Collection[str] | None = None,
    ) -> Float:
        """Predict with the whole sequence, or with what a budget, a stage or the available groups allow.

        Only the columns that the chosen model uses are read: the others may be NaN, or missing from a data frame.

        Parameters
        ----------
        X : array, sparse matrix or data frame, shape (n, D)
        budget : float, optional
            Use the longest prefix of the sequence that costs no more.
        stage : int, optional
            Use the first ``stage`` groups; 0 is the training mean.
        available : collection of group names, optional
            Use exactly these groups, in or out of order. For squared error this is the least-squares model on them,
            exact for every subset; for other losses the prefixes are exact, and any other subset is answered from a
            quadratic model of the risk around a fitted stage. Groups that are not in the sequence add nothing.

        Returns
        -------
        array of shape (n,) or (n, P)
        """
        return self._respond(self._scores(X, budget, stage, available), "predict")

    def staged_predict(self, X: Any) -> Iterator[Float]:
        """Predict after each group.

        Parameters
        ----------
        X : array, sparse matrix or data frame, shape (n, D)

        Yields
        ------
        array of shape (n,) or (n, P)
            Stages 1, 2, …, in order.
        """
        for scores in self._staged_scores(X):
            yield self._respond(scores, "predict")

    def _respond(self, scores: Float, method: str) -> Float:
        return self._shaped(self._family.prediction(scores))
