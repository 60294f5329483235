"""All stages of a fitted model on held-out data, ready to be judged."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, wraps
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import accuracy_score, r2_score
from sklearn.utils.validation import check_consistent_length, column_or_1d

from budgetline.inputs import check_weight, raise_missing
from budgetline.model.anytime import AnytimeModel, model_and_table
from budgetline.model.stages import RowFunction

Float = NDArray[np.float64]

RESPONSES = ("predict", "predict_proba", "predict_log_proba", "decision_function")


@dataclass(frozen=True)
class Stages:
    """A fitted model and held-out data: scores of its stages, a chunk of rows or a few stages at a time.

    Attributes
    ----------
    model : AnytimeModel
    X : the user's table
    y : the user's targets
    table : array or sparse matrix of shape (n, D')
        The columns of X that any stage uses.
    weight : array of shape (n,), or None
    qid : array of shape (n,), or None
    fitted : what the user gave: the model, or an estimator, pipeline or search that holds it
    scores : array of shape (n, 1 + stages, P), or None
        Of all stages, where they are there already.
    """

    model: AnytimeModel
    X: Any
    y: Any
    table: Any
    weight: Float | None = None
    qid: NDArray[Any] | None = None
    fitted: Any = None
    scores: Float | None = None

    @classmethod
    def of(cls, fitted: Any, X: Any, y: Any, sample_weight: Any = None, qid: Any = None) -> Stages:
        """Check a model and data."""
        model, seen = model_and_table(fitted, X)
        table = model.table(seen)
        n = table.shape[0]
        if y is not None:
            raise_missing(y)
        if qid is not None:
            raise_missing(qid, name="qid")
            qid = column_or_1d(qid)
            check_consistent_length(qid, np.empty(n))
        return cls(model, X, y, table, check_weight(sample_weight, n), qid, fitted)

    @cached_property
    def targets(self) -> Float:
        """The targets as the model sees them, shape (n, P)."""
        return self.model.encode_target(self.y, self.table.shape[0])

    def mean_of_rows(self, rows_of: RowFunction) -> Float:
        """Return the weighted mean over rows of what ``rows_of(scores (m, K, P), rows)`` returns, shape (K, …)."""
        if self.scores is not None:
            return np.asarray(np.average(rows_of(self.scores, slice(None)), axis=0, weights=self.weight))
        return self.model.stages.mean_over_rows(self.table, self.weight, rows_of)

    def excess(self) -> Float:
        """Return the mean loss of every stage less that of the saturated model, shape (1 + stages,)."""
        return self.mean_of_rows(lambda scores, rows: self.model.family.excess(scores, self.targets[rows]))

    def views(self) -> Iterator[StageView]:
        """Yield the model held at each stage, from stage 0 on."""
        known = self.scores
        found = self.model.stages.stage_scores(self.table) if known is None else np.moveaxis(known, 1, 0)
        for stage, scores in enumerate(found):
            yield StageView(self, stage, scores)


class StageView:
    """A fitted model held at one stage, as scikit-learn's scorers want to see it.

    Its responses to the held-out X come from scores that are already there; any other X is predicted.
    """

    def __init__(self, stages: Stages, stage: int, scores: Float) -> None:
        self._stages, self._stage, self._scores = stages, stage, scores

    def respond(self, method: str, X: Any = None) -> Any:
        """Return what a method of the model answers at this stage; None is the held-out X."""
        stages = self._stages
        if X is None or X is stages.X:
            return stages.model.respond(self._scores, method)
        model, seen = model_and_table(stages.fitted, X)
        return model.respond(model.scores(seen, stage=self._stage), method)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return R² of a regressor, the accuracy of a classifier, at this stage."""
        metric = r2_score if self._stages.model.classes is None else accuracy_score
        return float(metric(y, self.respond("predict", X), sample_weight=sample_weight))

    def __getattr__(self, name: str) -> Any:
        if name in ("_stages", "_stage", "_scores"):  # a copy that has not been filled yet
            raise AttributeError(name)
        found = getattr(self._stages.fitted, name)  # an AttributeError where the model has none
        if name not in RESPONSES:
            return found

        @wraps(found)  # scorers look at the name of the method
        def answer(X: Any) -> Any:
            return self.respond(name, X)

        return answer

    def __sklearn_tags__(self) -> Any:
        return self._stages.fitted.__sklearn_tags__()


def explained_share(risks: Float) -> Float:
    """Return 1 − R/R(∅) for risks of stages 0, 1, …; where R(∅) = 0, zero for no risk and NaN for some."""
    return 1 - risks / risks[0] if risks[0] > 0 else np.where(risks > 0, np.nan, 0.0)
