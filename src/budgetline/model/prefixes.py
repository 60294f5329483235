"""PrefixModels: one fitted estimator of any kind per prefix of a sequence, on the columns bought so far."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property
from itertools import islice

import narwhals as nw
import numpy as np
from sklearn.utils import get_tags

from budgetline.arrays import Array, Float, Positions, Table
from budgetline.glm.families import Family, Logistic, Softmax, SquaredError
from budgetline.groups import FeatureGroups, Layout
from budgetline.inputs import AUTO, Frame, KnownColumns, check_choice, check_table, column_names, numbers_of
from budgetline.messages import shown
from budgetline.model.staged import SCORE, Available, Respond, RowFunction, encoded_target
from budgetline.sequencing.sequence import GroupSequence


@dataclass(frozen=True, eq=False)
class PrefixTable:
    """A user's table, checked, and where the known columns are in it.

    ``positions`` (D,) are −1 for columns that are not there. ``empty`` is a frame without rows, of the kind and types
    that the estimators were fitted on; None: they were fitted on arrays.
    """

    values: Table | Frame
    positions: Positions
    names: tuple[str, ...] | None = None
    empty: Frame | None = None

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows and known columns."""
        return int(self.values.shape[0]), self.positions.size

    def take(self, columns: Positions) -> object:
        """Return columns, as the kind of table that the estimators were fitted on."""
        places = self.positions[columns]
        if isinstance(self.values, nw.DataFrame):
            if self.empty is None:
                return numbers_of(self.values, places)
            return self.values[:, places.tolist()].to_native()  # quicker than select, which reads column by column
        block = self.values if np.array_equal(places, np.arange(self.values.shape[1])) else self.values[:, places]
        if self.empty is None or self.names is None:
            return block
        block = block.toarray() if hasattr(block, "toarray") else block
        return framed(self.empty, {self.names[d]: block[:, k] for k, d in enumerate(columns.tolist())})


def framed(empty: Frame, columns: Mapping[str, Array | list[object]]) -> object:
    """Return columns as a native frame, of the kind and with the types of an empty one; numbers are floats."""
    kinds, native = empty.schema, empty.to_native()
    numbers = {name: np.asarray(own, dtype=np.float64) for name, own in columns.items() if kinds[name].is_numeric()}
    others = {name: list(own) for name, own in columns.items() if name not in numbers}
    found = nw.from_dict({name: (numbers | others)[name] for name in columns}, backend=empty.implementation)
    if empty.implementation.is_pandas_like():  # whose categories narwhals does not know
        return found.to_native().astype({name: native[name].dtype for name in others})
    return found.with_columns(nw.col(name).cast(kinds[name]) for name in others).to_native()


@dataclass(frozen=True, eq=False)
class PrefixModels:
    """A fitted model whose stages are estimators of any kind, each fitted on the columns of a prefix.

    Attributes
    ----------
    layout : Layout
        The groups with their prices, and which columns of the user's table they are.
    sequence : GroupSequence
        The order of the groups up to the last prefix that has an estimator; gains are those of the model that the order
        comes from, NaN if they are not known.
    ends : tuple of int
        How many groups each estimator has bought, ascending. The lower one predicts at a stage between two of them.
    fitted : tuple of estimators
        One per entry of ``ends``.
    null : estimator
        Predicts at stage 0: the mean, or the frequencies of the classes.
    target_shape : () or (P,)
        Shape of one target; (P,) for a classifier of more than two classes.
    classes : array of shape (P,), or None
    empty : frame without rows, or None
        The kind and the types of the frame that the estimators were fitted on.
    estimator, settings : str, mapping
        Name and parameters of the estimator that holds this.
    """

    layout: Layout
    sequence: GroupSequence
    ends: tuple[int, ...]
    fitted: tuple[object, ...]
    null: object
    target_shape: tuple[int, ...]
    classes: Array | None = None
    empty: Frame | None = None
    estimator: str = "StagedEstimators"
    settings: Mapping[str, object] = field(default_factory=dict)

    @property
    def groups(self) -> FeatureGroups:
        """The groups with their costs."""
        return self.layout.groups

    @property
    def source(self) -> Layout:
        """The groups, and which columns of the user's table they are."""
        return self.layout

    @property
    def n_stages(self) -> int:
        """Number of stages, not counting stage 0."""
        return len(self.sequence)

    @property
    def n_targets(self) -> int:
        """Number of scores per row, P."""
        return self.target_shape[0] if self.target_shape else 1

    @cached_property
    def family(self) -> Family:
        """Squared error for regressors, log loss for classifiers."""
        if self.classes is None:
            return SquaredError()
        return Logistic() if self.classes.size == 2 else Softmax(self.classes.size)

    @cached_property
    def columns(self) -> KnownColumns:
        """The columns of the table that the model was fitted on."""
        return self.layout.known(self.estimator)

    def kinds(self, g: int) -> tuple[tuple[bool, bool], ...]:
        """Return which columns of a group hold numbers, and which may have missing values: a flag has none."""
        columns, names = self.layout.columns[g].tolist(), self.layout.names
        missing = bool(get_tags(self.fitted[-1]).input_tags.allow_nan)
        if self.empty is None or names is None:
            return ((True, missing),) * len(columns)
        dtypes = [self.empty.schema[names[d]] for d in columns]
        return tuple((dtype.is_numeric(), missing and dtype != nw.Boolean) for dtype in dtypes)

    def columns_at(self, stage: int) -> Positions:
        """Return the columns of X, ascending, that the estimator of a stage reads."""
        return self.layout.columns_of(self.sequence.order[: self.end_at(stage)])

    def end_at(self, stage: int) -> int:
        """Return how many groups the estimator that predicts at a stage has bought."""
        k = bisect_right(self.ends, stage)
        return self.ends[k - 1] if k else 0

    def last_stage(self, budget: float | None, stage: int | None, available: Available) -> int:
        """Check the keywords of ``predict`` and return the stage that they choose; without any, the last."""
        if isinstance(available, Iterator):
            available = list(available)  # an iterator can be read only once
        check_choice(budget, stage, available, self.n_stages, self.groups.names)
        if isinstance(available, str):
            raise ValueError(
                f"available={shown(AUTO)} needs a model of any set of groups: {self.estimator} has prefixes only, "
                "pass the names of groups"
            )
        if available is not None:
            return self.last_inside({str(name) for name in available})
        if budget is not None:
            return self.sequence.stage_at(float(budget))
        return self.n_stages if stage is None else int(stage)

    def last_inside(self, groups: Collection[str]) -> int:
        """Return the last stage whose groups are all among these."""
        return next((j for j, name in enumerate(self.sequence.groups) if name not in groups), self.n_stages)

    def result(
        self,
        X: object,
        method: str,
        *,
        budget: float | None = None,
        stage: int | None = None,
        available: Available = None,
    ) -> Array:
        """Return the result of a method at a budget, at a stage, or from available groups."""
        chosen = self.last_stage(budget, stage, available)
        return self.respond(chosen, self._table(X, self.columns_at(chosen)), method)

    def staged(self, X: object, method: str) -> Iterator[Array]:
        """Yield the result of a method after each group; a stage without an estimator repeats the one before."""
        return (respond(method) for respond in islice(self.stage_results(self.table(X)), 1, None))

    def null_result(self, method: str) -> Array:
        """Return the result of a method for one row at stage 0; its decisions are the log odds of the classes."""
        if method == "decision_function":
            log_proba = self.null_result("predict_log_proba")
            return log_proba[:, 1] - log_proba[:, 0] if log_proba.shape[1] == 2 else log_proba
        return np.asarray(getattr(self.null, method)(np.zeros((1, 1))))

    def table(self, X: object) -> PrefixTable:
        """Return X, checked to have the columns that any stage reads."""
        return self._table(X, self.columns_at(self.n_stages))

    def respond(self, stage: int, table: PrefixTable, method: str) -> Array:
        """Return the result of a method at a stage, on the rows of a table; "score" is predictions, or log odds."""
        if method == SCORE:
            return self._scores(stage, table)
        if not self.end_at(stage):
            return np.repeat(self.null_result(method), table.shape[0], axis=0)
        model = self.fitted[bisect_right(self.ends, stage) - 1]
        if method == "decision_function" and not hasattr(model, method):  # what ranks rows instead
            proba = self.respond(stage, table, "predict_proba")
            return proba[:, 1] if proba.shape[1] == 2 else proba
        return np.asarray(getattr(model, method)(table.take(self.columns_at(stage))))

    def stage_results(self, table: PrefixTable) -> Iterator[Respond]:
        """Yield, for stages 0, 1, …, a function that returns the result of a method on the rows of a table.

        Stages with the same estimator share the function, which keeps its results.
        """
        for end, following in zip((0, *self.ends), (*self.ends, self.n_stages + 1), strict=True):
            respond = cache(lambda method, end=end: self.respond(end, table, method))
            for _ in range(following - end):
                yield respond

    def mean_over_rows(self, table: PrefixTable, weight: Float | None, rows_of: RowFunction, method: str) -> Float:
        """Return the weighted mean over rows of what ``rows_of(results (m, 1, P), rows)`` returns, for all stages."""
        means: list[Float] = []
        before: Respond | None = None
        for respond in self.stage_results(table):
            if respond is not before:
                results = respond(method).reshape(table.shape[0], 1, -1)
                mean = np.average(rows_of(results, slice(None)), axis=0, weights=weight)[0]
                before = respond
            means.append(mean)
        return np.array(means)

    def encode_target(self, y: object, n_samples: int) -> Float:
        """Return y as the targets (n, P) of the model: numbers, or indicators of classes."""
        return encoded_target(y, n_samples, self.classes, self.n_targets)

    def __repr__(self) -> str:
        return f"PrefixModels({self.estimator}, {len(self.fitted)} estimators, {self.n_stages} groups)"

    def _table(self, X: object, columns: Positions) -> PrefixTable:
        return checked_table(self.columns, X, columns, self.empty)

    def _scores(self, stage: int, table: PrefixTable) -> Float:
        """Return predictions (n, P), or log odds of probabilities kept as far from 0 as log loss keeps them."""
        n = table.shape[0]
        if self.classes is None:
            return np.asarray(self.respond(stage, table, "predict"), dtype=np.float64).reshape(n, -1)
        if self.fitted and not hasattr(self.fitted[-1], "predict_proba"):
            kind = type(self.fitted[-1]).__name__
            raise ValueError(f"{kind} has no predict_proba, which this needs; metrics such as 'accuracy' do not")
        given = self.respond(stage, table, "predict_proba")
        eps = np.finfo(given.dtype if given.dtype.kind == "f" else np.float64).eps
        proba = np.clip(given.astype(np.float64), eps, 1 - eps)
        log_proba: Float = np.log(proba / proba.sum(axis=1, keepdims=True))
        return log_proba[:, 1:] - log_proba[:, :1] if proba.shape[1] == 2 else log_proba


def checked_table(known: KnownColumns, X: object, needed: Positions, empty: Frame | None) -> PrefixTable:
    """Return a table that has the needed columns: of a frame by name, in any order; of an array all columns."""
    names = column_names(X)
    if known.names is None or names is None:
        return PrefixTable(check_table(X, known), np.arange(known.n_features), known.names, empty)
    positions = np.full(known.n_features, -1, dtype=np.intp)
    positions[needed] = known.find(known.labels(needed), names)
    return PrefixTable(check_table(X), positions, known.names, empty)
