"""AnytimeModel: the record of a fitted model. `as_model` finds it inside estimators, pipelines and searches."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import islice
from typing import Any

import narwhals as nw
import numpy as np
from scipy import sparse
from sklearn.utils.validation import check_is_fitted

from budgetline.arrays import Array, Float, Mask, Positions, Table
from budgetline.data.tabular import from_stream
from budgetline.devices import on_host
from budgetline.encoding.table import TableEncoding
from budgetline.encoding.unknown import Watch
from budgetline.glm.families import Family, SquaredError
from budgetline.glm.set_families import SetFamily
from budgetline.groups import FeatureGroups, Layout
from budgetline.inputs import KnownColumns, NamedArray, check_finite, column_names, prediction_table, raise_not_finite
from budgetline.messages import did_you_mean, shown, some, warn
from budgetline.model.calibration import Calibration, Stages
from budgetline.model.held_out_errors import HeldOutErrors
from budgetline.model.prefixes import PrefixModels
from budgetline.model.staged import SCORE, Available, Respond, RowFunction, encoded_target
from budgetline.model.stages import LinearModel, StagedModel
from budgetline.moments.moments import Moments
from budgetline.sequencing.sequence import GroupSequence


@dataclass(frozen=True, eq=False)
class AnytimeModel:
    """A fitted anytime model: the order of the groups and one linear model per prefix, in the units of the data.

    Fitted estimators store it as ``model_``. It contains everything that evaluation, certificates, the runtime, files
    and reports need.

    Attributes
    ----------
    layout : Layout
        The groups with their prices, and their columns in the user's table.
    stages : StagedModel
        The sequence, the coefficients and intercepts of every stage, and the solver for other subsets of groups.
    family : Family or SetFamily
        The loss that was minimised.
    target_shape : () or (P,)
        Shape of the target of one row; (P,) for a classifier with P > 2 classes.
    alpha : float
        The ridge constant.
    classes : array of shape (P,), or None
        The class labels of a classifier.
    moments : Moments, or None
        For squared error, the moments from which the model was learned. Their columns are ``layout.read``, the columns
        that belong to groups.
    estimator : str
        Name of the estimator's class.
    settings : mapping
        The parameters of the estimator.
    learned : mapping
        Further fitted attributes of the estimator, by name: ``cv_scores_``, ``n_passes_``, and others.
    encoding : TableEncoding, or None
        How the columns of the user's table are encoded. With an encoding, ``layout`` and ``stages`` refer to design
        columns.
    penalties : array of shape (J,), or None
        The amount that was subtracted from the gain of each group when the order was chosen, in the same units as the
        gains. None means that nothing was subtracted.
    calibration : Calibration, or None
        How class scores are turned into probabilities at every stage. If None, the loss alone determines the
        probabilities.
    errors : HeldOutErrors, or None
        Held-out errors of every stage, for prediction intervals and prediction sets. None means that no rows were held
        out.

    Examples
    --------
    >>> from budgetline import AnytimeClassifier
    >>> from budgetline.datasets import load_heart
    >>> heart = load_heart()
    >>> model = AnytimeClassifier(heart.feature_groups, alpha=1e-2).fit(heart.data, heart.target).model_
    >>> model.sequence.groups[:2], model.result(heart.data[:2], "predict", stage=2).tolist()
    (('cp', 'sex'), [0, 1])
    """

    layout: Layout
    stages: StagedModel
    family: Family | SetFamily
    target_shape: tuple[int, ...]
    alpha: float
    classes: Array | None = None
    moments: Moments | None = None
    estimator: str = "AnytimeModel"
    settings: Mapping[str, Any] = field(default_factory=dict)
    learned: Mapping[str, Any] = field(default_factory=dict)
    encoding: TableEncoding | None = None
    penalties: Float | None = None
    calibration: Calibration | None = None
    errors: HeldOutErrors | None = None

    @property
    def groups(self) -> FeatureGroups:
        """The groups that the model was fitted with, and their costs."""
        return self.layout.groups

    @property
    def sequence(self) -> GroupSequence:
        """The order of the groups, with costs and gains."""
        return self.stages.sequence

    @property
    def n_stages(self) -> int:
        """Number of stages, not counting stage 0."""
        return self.stages.n_stages

    @property
    def n_targets(self) -> int:
        """Number of scores per row, P."""
        return self.stages.null_intercept.size

    @property
    def squared_error(self) -> bool:
        """Whether the loss is squared error."""
        return isinstance(self.family, SquaredError)

    @property
    def weights(self) -> Float | None:
        """Penalty weights of the columns that belong to groups (``layout.read``), or None if all weights are 1."""
        return None if self.encoding is None else self.encoding.weights

    @cached_property
    def columns(self) -> KnownColumns:
        """The columns of the table on which the model was fitted."""
        return self.source.known(self.estimator)

    @property
    def source(self) -> Layout:
        """The groups, and their columns in the user's table."""
        return self.layout if self.encoding is None else self.encoding.source

    @cached_property
    def last(self) -> LinearModel:
        """The model of the last stage."""
        return self.stages.at_stage(self.n_stages)

    def labels_of(self, stage: int) -> tuple[str, ...]:
        """Return the names that errors use for the columns of the first groups in the user's table."""
        return self.source.labels(self.source.columns_of(self.sequence.order[:stage]))

    def watch(self) -> Watch:
        """Return a counter of the categories in a table that the model does not know."""
        return Watch({}) if self.encoding is None else self.encoding.watch(self.stages.mean)

    def scored(
        self,
        X: object,
        *,
        budget: float | None = None,
        stage: int | None = None,
        available: Available = None,
        watch: Watch | None = None,
    ) -> tuple[Float, Stages]:
        """Return scores X·coef' + intercept, (n, P), and the stage that their model is or is like: one, or one per row.

        With ``available="auto"``, each row is scored from the groups that it has, among those that the budget or stage
        allows. A watch counts unknown categories. Scores are linear: they are not calibrated.
        """
        if isinstance(available, str):
            return self._scored_by_row(X, self.stages.last_stage(budget, stage, available), watch)
        model = self.stages.choose(budget, stage, available)
        table = self.table(X, model.columns, watch)
        return np.asarray(table @ model.coef[:, model.columns].T) + model.intercept, model.stage

    def result(
        self,
        X: object,
        method: str,
        *,
        budget: float | None = None,
        stage: int | None = None,
        available: Available = None,
    ) -> Array:
        """Return the result of the estimator's method of this name, and warn about values that the model does not know.

        The rows of ``X`` are predicted from the groups that a ``budget`` or a ``stage`` allows, or from the
        ``available`` groups.
        """
        watch = self.watch()
        scores, like = self.scored(X, budget=budget, stage=stage, available=available, watch=watch)
        watch.warn()
        return self.respond(scores, method, like)

    def staged(self, X: object, method: str) -> Iterator[Array]:
        """Yield the result of a method after each group, and warn about values that the model does not know."""
        watch = self.watch()
        table = self.table(X, watch=watch)
        watch.warn()
        return (respond(method) for respond in islice(self.stage_results(table), 1, None))

    def null_result(self, method: str) -> Array:
        """Return the result of a method for one row at stage 0."""
        return self.respond(self.stages.null_intercept[None], method, 0)

    def stage_results(self, table: Table) -> Iterator[Respond]:
        """Yield, for stages 0, 1, …, a function that returns the result of a method on the rows of a table."""
        each = enumerate(self.stages.stage_scores(table))
        return (partial(self.respond, scores, stage=stage) for stage, scores in each)

    def mean_over_rows(self, table: Table, weight: Float | None, rows_of: RowFunction, method: str) -> Float:
        """Return the weighted mean over rows of what ``rows_of(results (m, K, P), rows)`` returns for all K stages."""
        return self.stages.mean_over_rows(
            table, weight, lambda scores, rows: rows_of(self.results_of_stages(scores, method), rows)
        )

    def results_of_stages(self, scores: Float, method: str) -> Array:
        """Turn the scores (m, K, P) of all K stages into the results of a method such as "predict", (m, K, …)."""
        m, K, P = scores.shape
        return self.respond(scores.reshape(m * K, P), method, np.tile(np.arange(K), m)).reshape(m, K, -1)

    def table(self, X: object, columns: Positions | None = None, watch: Watch | None = None) -> Table:
        """Return some columns of X, checked or encoded; None means those that any stage uses, ``last.columns``."""
        X, columns = from_stream(X), self.last.columns if columns is None else columns
        if self.encoding is not None:
            return self.encoding.table(X, columns, watch)
        return prediction_table(self.columns, X, columns)

    def respond(self, scores: Float, method: str, stage: Stages) -> Array:
        """Turn scores (n, P) at a stage into the result of the estimator's method of this name."""
        return self.results(self.calibrated(scores, stage, method), method)

    def calibrated(self, scores: Float, stage: Stages, method: str = SCORE) -> Float:
        """Return the scores (n, P) of a stage, calibrated if the method needs calibrated scores."""
        if self.calibration is None or method == "decision_function":
            return scores
        return (self.calibration.decide if method == "predict" else self.calibration.apply)(scores, stage)

    def results(self, scores: Float, method: str) -> Array:
        """Turn calibrated scores (n, P) into the result of the estimator's method of this name."""
        if method == SCORE:
            return scores
        if self.classes is None:
            return self._shaped(self.family.prediction(scores))
        found: dict[str, Callable[[Float], Array]] = {
            "decision_function": self._shaped,
            "predict_proba": self._probabilities,
            "predict_log_proba": _log_probabilities,
            "predict": self._labels,
        }
        return found[method](scores)

    def with_stages(self, stages: StagedModel, like: Positions) -> AnytimeModel:
        """Return this model with new ``stages``; ``like`` are the old stages whose calibration and errors are kept."""
        calibration = None if self.calibration is None else self.calibration.at(like)
        errors = None if self.errors is None else self.errors.at(like)
        of_order = ("fold_costs_", "held_out_")
        learned = {name: value for name, value in self.learned.items() if name not in of_order}
        return replace(self, stages=stages, calibration=calibration, errors=errors, learned=learned)

    def encode_target(self, y: object, n_samples: int, of: object = None, weight: Float | None = None) -> Float:
        """Return y as the targets of the model, (n, …).

        Losses over sets of rows need queries or strata ``of`` the rows; a query must have one weight (n,).
        """
        if isinstance(self.family, SetFamily):
            return self.family.encode(y, of, n_samples, weight)
        return encoded_target(y, n_samples, self.classes, self.n_targets)

    def __repr__(self) -> str:
        return f"AnytimeModel({self.estimator}, {self.n_stages} of {len(self.groups)} groups)"

    def _scored_by_row(self, X: object, stage: int, watch: Watch | None) -> tuple[Float, Positions]:
        """Return the scores of every row from those of the first groups that it has, and the stages they are like."""
        columns, starts = self.stages.in_order(stage)
        X = _with_absent(from_stream(X), self.columns, self.labels_of(stage))
        if self.encoding is not None:
            there = self.encoding.groups_there(X, self.sequence.order[:stage])
            design = self.encoding.table(X, np.sort(columns), watch)[:, np.argsort(np.argsort(columns))]
            return self.stages.pattern_scores(design, there), self.stages.stages_like(there)
        table = prediction_table(self.columns, on_host(X), columns, missing=True)
        there = _groups_there(table, self.columns.labels(columns), starts)
        return self.stages.pattern_scores(table, there), self.stages.stages_like(there)

    def _shaped(self, scores: Float) -> Float:
        return scores if self.target_shape else scores[:, 0]

    def _probabilities(self, scores: Float) -> Float:
        return self.family.prediction(np.hstack([-scores, scores]) if scores.shape[1] == 1 else scores)

    def _labels(self, scores: Float) -> Array:
        assert self.classes is not None
        numbers = (scores[:, 0] > 0).astype(np.intp) if scores.shape[1] == 1 else scores.argmax(axis=1)
        return np.asarray(self.classes[numbers])


Staged = AnytimeModel | PrefixModels
"""A fitted model with one stage per group of its sequence, and stage 0, which has bought nothing.

Both kinds have what evaluation, reports and the runtime need: a sequence, a checked table, results of a method at a
stage, means over rows for all stages, and targets (n, P).
"""


def as_model(fitted: object) -> AnytimeModel:
    """Return the model inside a fitted estimator of this library, or inside a pipeline or search that ends in one."""
    found = as_staged(fitted)
    if isinstance(found, AnytimeModel):
        return found
    raise TypeError(
        f"{found.estimator} has no linear model, which this needs: it has one estimator per prefix. "
        "Pass the model that its order comes from, such as order_estimator_"
    )


def as_staged(fitted: object) -> Staged:
    """Return the same for models whose stages may be estimators of any kind."""
    return model_and_table(fitted, None)[0]


def model_and_table(fitted: Any, X: Any) -> tuple[Staged, Any]:
    """Return the model, and X transformed by the steps of the pipelines around the model."""
    if isinstance(fitted, Staged):
        return fitted, X
    if isinstance(held := getattr(fitted, "model_", None), Staged):
        return held, X
    if hasattr(fitted, "fit"):
        check_is_fitted(fitted)
    if hasattr(fitted, "best_estimator_"):
        return model_and_table(fitted.best_estimator_, X)
    if hasattr(fitted, "steps"):
        return model_and_table(fitted[-1], fitted[:-1].transform(X) if X is not None and len(fitted) > 1 else X)
    raise TypeError(f"{type(fitted).__name__} has no stages: a fitted estimator of budgetline is needed")


def absent_columns(known: KnownColumns, needed: Sequence[str], there: Collection[str]) -> tuple[list[str], str]:
    """Return the needed columns that are absent, and a warning that names them, "" if none is.

    A table without any column of the model is an error.
    """
    absent, names = [name for name in needed if name not in there], known.group_of or needed
    if absent and not any(name in there for name in names):
        raise ValueError(f"all columns of this {known.estimator} are missing: it was fitted with {some(names, 8)}")
    each = some(absent, of=lambda name: f"{shown(name)}{did_you_mean(name, there)}")
    return absent, f"missing columns count as missing values: {each}" if absent else ""


def with_missing(X: object, absent: Sequence[str]) -> object:
    """Return a table with columns of missing values appended."""
    if not absent:
        return X
    if isinstance(X, NamedArray):
        missing = np.full((X.shape[0], len(absent)), np.nan)
        return NamedArray(np.hstack([X.values, missing]), (*X.names, *absent))
    frame = nw.from_native(X, pass_through=True)
    assert isinstance(frame, nw.DataFrame)
    return frame.with_columns(nw.lit(np.nan, nw.Float64).alias(name) for name in absent)


def _with_absent(X: object, known: KnownColumns, needed: Sequence[str]) -> object:
    """Append the needed columns that a table lacks, as missing values, and warn of them."""
    names = column_names(X)
    if known.names is None or names is None:
        return X
    absent, text = absent_columns(known, needed, names)
    if text:
        warn(text, UserWarning)
    return with_missing(X, absent)


def _groups_there(table: Table, labels: Sequence[str], starts: Positions) -> Mask:
    """Return which groups each row has, shape (n, k): those whose columns are not missing (NaN).

    The groups begin at columns ``starts`` (k,). A row with only a part of a group is an error, and so is infinity.
    """
    if sparse.issparse(table) or table.dtype.kind != "f" or not starts.size:
        check_finite(table, labels)
        return np.ones((table.shape[0], starts.size), dtype=bool)
    missing = np.isnan(table)
    count = np.add.reduceat(missing, starts, axis=1, dtype=np.intp)
    widths = np.diff(starts, append=table.shape[1])
    partial = np.repeat((count > 0) & (count < widths), widths, axis=1) & missing
    if partial.any():
        row, d = (int(k[0]) for k in np.nonzero(partial))
        raise ValueError(
            f"Input X contains NaN: column {shown(labels[d])}, first in row {row}, which has other columns of its "
            "group: a group counts as not available only if all its columns are missing"
        )
    if np.isinf(table).any():
        raise_not_finite(np.where(missing, 0.0, table), labels)
    return np.asarray(count == 0)


def _log_probabilities(scores: Float) -> Float:
    """Return log probabilities (n, P) from scores, one for two classes."""
    if scores.shape[1] == 1:
        return -np.logaddexp(0, np.hstack([scores, -scores]))
    return np.asarray(scores - np.logaddexp.reduce(scores, axis=1, keepdims=True))
