"""Staged: what evaluation, reports and the runtime ask of a fitted model, whatever is behind its stages."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Protocol

from budgetline.arrays import Array, Float, Table
from budgetline.glm.families import Family
from budgetline.groups import FeatureGroups, Layout
from budgetline.inputs import KnownColumns
from budgetline.sequencing.sequence import GroupSequence

RowFunction = Callable[[Array, slice], Array]
"""Returns a value (m, K) or (m, K, P) for the answers (m, K, P) of K stages on some rows."""
Respond = Callable[[str], Array]
"""Returns the result of the method of this name, on rows that are known."""
Available = Collection[str] | None
"""Names of the groups that a prediction may use, or "auto": those that each row has; None: another choice is made."""
SCORE = "score"
"""The answer that a loss is of: numbers, or log odds; every other answer is the result of a method."""


class Staged(Protocol):
    """A fitted model with one stage per group of its sequence, and stage 0, which has bought nothing.

    Targets are (n, P): numbers, one flag for two classes, or one per class.
    """

    @property
    def estimator(self) -> str:
        """Name of the class of the estimator."""

    @property
    def settings(self) -> Mapping[str, object]:
        """The parameters of the estimator."""

    @property
    def classes(self) -> Array | None:
        """The labels of a classifier."""

    @property
    def family(self) -> Family:
        """The loss that "explained" is about."""

    @property
    def target_shape(self) -> tuple[int, ...]:
        """Shape of one target."""

    @property
    def n_targets(self) -> int:
        """Number of scores per row, P."""

    @property
    def n_stages(self) -> int:
        """Number of stages, not counting stage 0."""

    @property
    def sequence(self) -> GroupSequence:
        """The order of the groups, with costs and gains."""

    @property
    def groups(self) -> FeatureGroups:
        """The groups with their costs."""

    @property
    def source(self) -> Layout:
        """The groups, and which columns of the user's table they are."""

    @property
    def columns(self) -> KnownColumns:
        """The columns of the table that the model was fitted on."""

    def table(self, X: object) -> Table:
        """Return what all stages need of X, checked; it has a shape."""

    def answer(
        self,
        X: object,
        method: str,
        *,
        budget: float | None = None,
        stage: int | None = None,
        available: Available = None,
    ) -> Array:
        """Return the result of the estimator's method of this name; for "score" the scores (n, P)."""

    def null_answer(self, method: str) -> Array:
        """Return the result of a method for one row at stage 0."""

    def stage_answers(self, table: Table) -> Iterator[Respond]:
        """Yield, for stages 0, 1, …, a function that returns the result of a method on the rows of a table."""

    def mean_over_rows(self, table: Table, weight: Float | None, rows_of: RowFunction, method: str) -> Float:
        """Return the weighted mean over rows of what ``rows_of(answers (m, K, P), rows)`` returns for all K stages."""

    def encode_target(self, y: object, n_samples: int) -> Float:
        """Return y as the targets (n, P) of the model."""
