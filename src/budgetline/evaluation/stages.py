"""All stages of a fitted model on held-out data, ready to be judged."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, partial, wraps
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_consistent_length, check_is_fitted, column_or_1d

from budgetline.inputs import check_weight, prediction_table, raise_missing
from budgetline.model.stages import StagedModel
from budgetline.objectives.families import Family

Float = NDArray[np.float64]

RESPONSES = ("predict", "predict_proba", "predict_log_proba", "decision_function")


RowFunction = Callable[[Float, slice], NDArray[Any]]


@dataclass(frozen=True)
class Stages:
    """A fitted model and held-out data: scores of its stages, a chunk of rows or a few stages at a time.

    Attributes
    ----------
    model : fitted estimator of this library
    X : the user's table
    y : the user's targets
    table : array or sparse matrix of shape (n, D')
        The columns of X that any stage uses.
    weight : array of shape (n,), or None
    qid : array of shape (n,), or None
    outer : the pipeline or search that the model is inside of, if it is
    scores : array of shape (n, 1 + stages, P), or None
        Of all stages, where they are there already.
    """

    model: Any
    X: Any
    y: Any
    table: Any
    weight: Float | None = None
    qid: NDArray[Any] | None = None
    outer: Any = None
    scores: Float | None = None

    @classmethod
    def of(cls, model: Any, X: Any, y: Any, sample_weight: Any = None, qid: Any = None) -> Stages:
        """Check a model and data, and see through pipelines and searches to the estimator at their end."""
        outer, given = model, X
        model, X = final_step(model, X)
        staged: StagedModel = model.staged_model_
        table = prediction_table(model, X, staged.at_stage(staged.n_stages).columns)
        n = table.shape[0]
        if y is not None:
            raise_missing(y)
        if qid is not None:
            raise_missing(qid, name="qid")
            qid = column_or_1d(qid)
            check_consistent_length(qid, np.empty(n))
        return cls(model, given, y, table, check_weight(sample_weight, n), qid, outer)

    @property
    def staged(self) -> StagedModel:
        """The linear models of all stages."""
        model: StagedModel = self.model.staged_model_
        return model

    @property
    def family(self) -> Family:
        """The family that the model was fitted with."""
        family: Family = self.model._family
        return family

    @property
    def is_classifier(self) -> bool:
        """Whether the targets are classes."""
        return hasattr(self.model, "classes_")

    @cached_property
    def targets(self) -> Float:
        """The targets as the model sees them, shape (n, P)."""
        encoded: Float = self.model._encoded(self.y, self.table.shape[0])
        return encoded

    def mean_of_rows(self, rows_of: RowFunction) -> Float:
        """Return the weighted mean over rows of what ``rows_of(scores (m, K, P), rows)`` returns, shape (K, …)."""
        if self.scores is not None:
            return np.asarray(np.average(rows_of(self.scores, slice(None)), axis=0, weights=self.weight))
        return mean_over_rows(self.staged, self.table, self.weight, rows_of)

    def excess(self) -> Float:
        """Return the mean loss of every stage less that of a model that knows y, shape (1 + stages,)."""
        return self.mean_of_rows(lambda scores, rows: self.family.excess(scores, self.targets[rows]))

    def views(self) -> Iterator[StageView]:
        """Yield the model held at each stage, from stage 0 on."""
        known = self.scores
        found = self.staged.stage_scores(self.table) if known is None else np.moveaxis(known, 1, 0)
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
        model = self._stages.model
        if X is None or X is self._stages.X:
            return model._respond(self._scores, method)
        model, X = final_step(self._stages.outer, X)
        return getattr(model, method)(X, stage=self._stage)

    def __getattr__(self, name: str) -> Any:
        if name in ("_stages", "_stage", "_scores"):  # a copy that has not been filled yet
            raise AttributeError(name)
        found = getattr(self._stages.model, name)  # an AttributeError where the model has none
        if name == "score":
            return partial(type(self._stages.model).score, self)  # of this stage, not of the last
        if name not in RESPONSES:
            return found

        @wraps(found)  # scorers look at the name of the method
        def answer(X: Any) -> Any:
            return self.respond(name, X)

        return answer

    def __sklearn_tags__(self) -> Any:
        return self._stages.model.__sklearn_tags__()


def mean_over_rows(model: StagedModel, table: Any, weight: Float | None, rows_of: RowFunction) -> Float:
    """Return the weighted mean over rows of what ``rows_of(scores (m, K, P), rows)`` returns for all K stages.

    ``table`` holds the columns that the last stage uses. All stages share one product per chunk of rows.
    """
    total: Any = 0.0
    for rows, scores in model.row_scores(table):
        shares = np.ones(rows.stop - rows.start) if weight is None else weight[rows]
        total = total + np.tensordot(shares, rows_of(scores, rows), axes=1)
    return np.asarray(total / (table.shape[0] if weight is None else weight.sum()))


def explained_share(risks: Float) -> Float:
    """Return 1 − R/R(∅) for risks of stages 0, 1, …; where R(∅) = 0, zero for no risk and NaN for some."""
    return 1 - risks / risks[0] if risks[0] > 0 else np.where(risks > 0, np.nan, 0.0)


def innermost(model: Any) -> Any:
    """Return the estimator at the end of pipelines and searches."""
    while True:
        if hasattr(model, "best_estimator_"):
            model = model.best_estimator_
        elif hasattr(model, "steps"):
            model = model[-1]
        else:
            return model


def final_step(model: Any, X: Any) -> tuple[Any, Any]:
    """Return the fitted estimator of this library inside pipelines and searches, and X as it sees it."""
    check_is_fitted(model)
    if hasattr(model, "best_estimator_"):
        return final_step(model.best_estimator_, X)
    if hasattr(model, "steps"):
        return final_step(model[-1], model[:-1].transform(X) if len(model) > 1 else X)
    if not hasattr(model, "staged_model_"):
        raise TypeError(f"{type(model).__name__} has no stages: a fitted estimator of budgetline is needed")
    return model, X
