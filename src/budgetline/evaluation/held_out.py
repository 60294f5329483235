"""HeldOut: a fitted model and held-out data; StageView: the model at one stage, for scorers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_consistent_length, column_or_1d

from budgetline.arrays import Array, Float, Table
from budgetline.devices import on_host
from budgetline.evaluation.survival import has_baseline
from budgetline.glm.set_families import Cox
from budgetline.inputs import as_vector, check_weight, numbered, raise_missing
from budgetline.messages import shown, some
from budgetline.model.anytime import AnytimeModel, Staged, model_and_table
from budgetline.model.staged import Respond, RowFunction


@dataclass(frozen=True)
class HeldOut:
    """A fitted model and held-out data.

    X and y are the user's; ``table`` (n, D') has the columns of X that any stage uses; ``fitted`` is the model, or the
    user's estimator, pipeline or search that holds it. ``scores`` (n, 1 + stages, P) are set if they are known.
    """

    model: Staged
    X: object
    y: object
    table: Table
    weight: Float | None = None
    qid: Array | None = None
    fitted: object = None
    scores: Float | None = None

    @classmethod
    def of(cls, fitted: object, X: object, y: object, sample_weight: object = None, qid: object = None) -> HeldOut:
        """Check a model and data; arrays of other libraries are copied to the host."""
        X, y, qid = on_host(X), on_host(as_vector(y)), on_host(qid)
        model, seen = model_and_table(fitted, X)
        table = model.table(seen)
        n = table.shape[0]
        if y is not None:
            raise_missing(y)
        _check_sets(model, qid)
        queries = None
        if qid is not None:
            labels, number = numbered(qid, "qid")
            queries = labels[number]
            check_consistent_length(queries, np.empty(n))
        return cls(model, X, y, table, check_weight(sample_weight, n), queries, fitted)

    @cached_property
    def targets(self) -> Float:
        """The targets as the model sees them, shape (n, P)."""
        n = self.table.shape[0]
        if isinstance(self.model, AnytimeModel):
            return self.model.encode_target(self.y, n, self.qid, self.weight)
        return self.model.encode_target(self.y, n)

    @property
    def weighted(self) -> dict[str, Float]:
        """The argument ``sample_weight``, if there are weights."""
        return {} if self.weight is None else {"sample_weight": self.weight}

    @property
    def variance(self) -> Float:
        """The variances (P,) of the targets, exactly zero for constant targets."""
        counted = slice(None) if self.weight is None else self.weight > 0
        Y, weight = self.targets[counted], None if self.weight is None else self.weight[counted]
        Y = Y - Y[0]
        return np.asarray(np.average((Y - np.average(Y, 0, weight)) ** 2, 0, weight))

    def mean_over_rows(self, rows_of: RowFunction, method: str) -> Float:
        """Return the weighted mean over rows of ``rows_of(results (m, K, P), rows)``, shape (K, …)."""
        if self.scores is None:
            return self.model.mean_over_rows(self.table, self.weight, rows_of, method)
        assert isinstance(self.model, AnytimeModel)
        results = self.model.results_of_stages(self.scores, method)
        return np.asarray(np.average(rows_of(results, slice(None)), axis=0, weights=self.weight))

    @property
    def weights(self) -> Float:
        """Weights of the rows, by default ones."""
        return np.ones(self.table.shape[0]) if self.weight is None else self.weight

    @property
    def all_scores(self) -> Float:
        """Scores (n, 1 + stages) of a model of one score."""
        assert isinstance(self.model, AnytimeModel)
        if self.scores is not None:
            return self.scores[..., 0]
        return np.column_stack([scores[:, 0] for scores in self.model.stages.stage_scores(self.table)])

    def views(self) -> Iterator[StageView]:
        """Yield a view of the model at each stage, from stage 0 on."""
        if self.scores is None:
            known = self.model.stage_results(self.table)
        else:
            assert isinstance(self.model, AnytimeModel)
            each = enumerate(np.moveaxis(self.scores, 1, 0))
            known = (partial(self.model.respond, scores, stage=stage) for stage, scores in each)
        view = RegressorView if self.model.classes is None else ClassifierView
        return (view(self, stage, respond) for stage, respond in enumerate(known))


def _check_sets(model: Staged, qid: object) -> None:
    """Raise an error unless rows of survival times are compared as they were in ``fit``."""
    if isinstance(model, AnytimeModel) and isinstance(model.family, Cox):
        if qid is not None:
            raise ValueError(f"qid is for rankings, not for {model.estimator}")
        if not has_baseline(model):
            what = f"this {model.estimator} was fitted with strata, and would be evaluated without them"
            raise ValueError(f"{what}: use score(X, y, strata=…, stage=…)")


class StageView:
    """A fitted model at one stage, as the estimator that scikit-learn's scorers expect.

    Predictions for the held-out X are known; any other X is predicted. Other attributes are those of ``held.fitted``.
    """

    def __init__(self, held: HeldOut, stage: int, known: Respond) -> None:
        self.held, self.stage, self.known = held, stage, known

    def respond(self, method: str, X: object = None) -> Array:
        """Return the result of a method at this stage; None is the held-out X."""
        if X is None or X is self.held.X:
            return self.known(method)
        _, seen = model_and_table(self.held.fitted, X)
        return self.held.model.result(seen, method, stage=self.stage)

    def predict(self, X: object) -> Array:
        return self.respond("predict", X)

    def __getattr__(self, name: str) -> Any:
        if name == "held":  # of a copy without attributes yet
            raise AttributeError(name)
        return getattr(self.held.fitted, name)

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def __sklearn_tags__(self) -> Tags:
        return BaseEstimator().__sklearn_tags__()


class RegressorView(RegressorMixin, StageView):  # type: ignore[misc]
    """A regressor at one stage."""


class ClassifierView(ClassifierMixin, StageView):  # type: ignore[misc]
    """A classifier at one stage."""

    @property
    def classes_(self) -> Array | None:
        return self.held.model.classes

    def predict_proba(self, X: object) -> Float:
        return self.respond("predict_proba", X)

    def predict_log_proba(self, X: object) -> Float:
        return self.respond("predict_log_proba", X)

    def decision_function(self, X: object) -> Float:
        return self.respond("decision_function", X)


class PositiveView(ClassifierView):
    """A classifier of two classes at one stage; the labels are 1 for the positive class and 0."""

    def __init__(self, view: StageView, label: object) -> None:
        classes = [] if view.held.model.classes is None else view.held.model.classes.tolist()
        # on the command line labels are text
        place = next((k for k, known in enumerate(classes) if known == label or str(known) == label), None)
        if len(classes) != 2 or place is None:
            known = f"the classes are {some(classes)}" if classes else "this is a regression"
            raise ValueError(f"the positive class must be one of two classes, not {shown(label)}: {known}")
        self.view, self.place, self.label = view, place, classes[place]
        truth = (column_or_1d(view.held.y) == self.label).astype(np.intp)
        super().__init__(replace(view.held, y=truth), view.stage, view.known)

    @property
    def classes_(self) -> Array:
        return np.array([0, 1])

    def respond(self, method: str, X: object = None) -> Array:
        found = self.view.respond(method, X)
        if method == "predict":
            return np.asarray(found == self.label).astype(np.intp)
        if self.place == 1:
            return found
        return -found if method == "decision_function" else found[:, ::-1]
