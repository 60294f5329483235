"""Predictions of the classifiers."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import replace
from functools import cache
from numbers import Real
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.class_weight import compute_sample_weight

from budgetline.estimators.base import Checked, SequenceEstimator
from budgetline.inputs import check_known, check_labels
from budgetline.messages import shown
from budgetline.model.stages import StagedModel
from budgetline.objectives.families import Family, Logistic, Softmax

Float = NDArray[np.float64]


class Classification(ClassifierMixin, SequenceEstimator):  # type: ignore[misc]
    """Labels, probabilities and decisions: logistic for two classes, softmax for more."""

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **SequenceEstimator._parameter_constraints,
        "class_weight": [dict, StrOptions({"balanced"}), None],
        "tol": [Interval(Real, 0, None, closed="neither")],
    }

    class_weight: Any
    tol: float

    def decision_function(
        self,
        X: Any,
        *,
        budget: float | None = None,
        stage: int | None = None,
        available: Collection[str] | None = None,
    ) -> Float:
        """Return scores: log odds of the second class, or one score per class, softmax of which is the probability.

        Parameters
        ----------
        X : array, sparse matrix or data frame, shape (n, D)
            Only the columns that the chosen model uses are read.
        budget : float, optional
            Use the longest prefix of the sequence that costs no more.
        stage : int, optional
            Use the first ``stage`` groups; 0 is the model of the class frequencies alone.
        available : collection of group names, optional
            Use exactly these groups. If they are a prefix of the sequence, the model fitted on them; otherwise the
            minimiser of a quadratic model of the risk around a fitted stage.

        Returns
        -------
        array of shape (n,) for two classes, (n, P) for more
        """
        return self._respond(self._scores(X, budget, stage, available), "decision_function")

    def predict_proba(
        self,
        X: Any,
        *,
        budget: float | None = None,
        stage: int | None = None,
        available: Collection[str] | None = None,
    ) -> Float:
        """Return probabilities of the classes, shape (n, P); keywords as in :meth:`decision_function`."""
        return self._respond(self._scores(X, budget, stage, available), "predict_proba")

    def predict_log_proba(
        self,
        X: Any,
        *,
        budget: float | None = None,
        stage: int | None = None,
        available: Collection[str] | None = None,
    ) -> Float:
        """Return log probabilities of the classes, shape (n, P); keywords as in :meth:`decision_function`."""
        return self._respond(self._scores(X, budget, stage, available), "predict_log_proba")

    def predict(
        self,
        X: Any,
        *,
        budget: float | None = None,
        stage: int | None = None,
        available: Collection[str] | None = None,
    ) -> NDArray[Any]:
        """Return the most probable class, shape (n,); keywords as in :meth:`decision_function`."""
        return self._respond(self._scores(X, budget, stage, available), "predict")

    def staged_decision_function(self, X: Any) -> Iterator[Float]:
        """Yield the scores after each group."""
        yield from (self._respond(scores, "decision_function") for scores in self._staged_scores(X))

    def staged_predict_proba(self, X: Any) -> Iterator[Float]:
        """Yield the probabilities after each group."""
        yield from (self._respond(scores, "predict_proba") for scores in self._staged_scores(X))

    def staged_predict_log_proba(self, X: Any) -> Iterator[Float]:
        """Yield the log probabilities after each group."""
        yield from (self._respond(scores, "predict_log_proba") for scores in self._staged_scores(X))

    def staged_predict(self, X: Any) -> Iterator[NDArray[Any]]:
        """Yield the most probable classes after each group."""
        yield from (self._respond(scores, "predict") for scores in self._staged_scores(X))

    def _respond(self, scores: Float, method: str) -> NDArray[Any]:
        answers: dict[str, Callable[[Float], NDArray[Any]]] = {
            "decision_function": self._shaped,
            "predict_proba": self._probabilities,
            "predict_log_proba": _log_probabilities,
            "predict": self._labels,
        }
        return answers[method](scores)

    def _encoded(self, y: Any, n_samples: int) -> Float:
        labels = check_known(y, n_samples, self.classes_)
        return labels[:, None].astype(np.float64) if self.classes_.size == 2 else np.eye(self.classes_.size)[labels]

    def _probabilities(self, scores: Float) -> Float:
        return self._family.prediction(np.hstack([-scores, scores]) if scores.shape[1] == 1 else scores)

    def _labels(self, scores: Float) -> NDArray[Any]:
        numbers = (scores[:, 0] > 0).astype(np.intp) if scores.shape[1] == 1 else scores.argmax(axis=1)
        return np.asarray(self.classes_[numbers])

    @property
    def _family(self) -> Family:
        return family_of(self.classes_.size)

    def _target(self, y: Any, n_samples: int) -> tuple[Float, tuple[int, ...]]:
        classes, codes = check_labels(y, n_samples)
        if classes.size == 2:
            return codes[:, None].astype(np.float64), ()
        return np.eye(classes.size)[codes], (classes.size,)

    def _prepare(self, X: Any, y: Any, sample_weight: Any, alpha: float) -> tuple[Checked, NDArray[Any], Family]:
        """Check everything; fold the class weights into the sample weights."""
        data = self._check(X, y, sample_weight, alpha)
        classes, codes = check_labels(y, data.rows.n_rows)
        if isinstance(self.class_weight, dict):
            for label, value in self.class_weight.items():
                if not 0 <= value < np.inf:
                    raise ValueError(
                        f"class_weight of class {shown(label)} must be finite and not negative, got {shown(value)}"
                    )
        if self.class_weight is not None:
            by_class = compute_sample_weight(self.class_weight, classes[codes])
            weight = by_class if data.rows.weight is None else by_class * data.rows.weight
            data = replace(data, rows=replace(data.rows, weight=weight))
        mass = np.bincount(codes, data.rows.weight, classes.size)
        if np.any(mass <= 0):
            raise ValueError(f"class {shown(classes.tolist()[int(np.argmin(mass))])} has no sample of positive weight")
        return data, classes, family_of(classes.size)

    def _finish(self, model: StagedModel, data: Checked, classes: NDArray[Any]) -> None:
        self._warn_if_rounded(model, data.rows, data.layout, data.names)
        self._keep(model, data.layout, data.names, data.target_shape)
        self.classes_ = classes


@cache
def family_of(n_classes: int) -> Family:
    """Return the family; the same object every time, as the runtime asks for it with every answer."""
    return Logistic() if n_classes == 2 else Softmax(n_classes)


def _log_probabilities(scores: Float) -> Float:
    """Return log probabilities (n, P) from scores, one for two classes."""
    if scores.shape[1] == 1:
        return -np.logaddexp(0, np.hstack([scores, -scores]))
    return np.asarray(scores - np.logaddexp.reduce(scores, axis=1, keepdims=True))
