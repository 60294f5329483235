"""Checked training rows for estimators of any kind, and clones that are fitted on some of the columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import narwhals as nw
import numpy as np
from sklearn.base import clone, is_classifier
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.utils import get_tags
from sklearn.utils.parallel import Parallel, delayed
from sklearn.utils.validation import has_fit_parameter

from budgetline.arrays import Array, Float, Positions
from budgetline.data.sources import Source
from budgetline.inputs import check_labels, check_table, check_target, check_weight, column_names
from budgetline.messages import some
from budgetline.model.prefixes import PrefixTable
from budgetline.progress import Progress, counted


@dataclass(frozen=True, eq=False)
class TrainingRows:
    """Checked training rows: columns, targets or labels, and weights.

    ``target_shape`` is that of one target, () or (P,); (P,) also for a classifier of more than two classes. ``weights``
    are keywords of ``fit``, by the name that the estimator gives them.
    """

    table: PrefixTable
    target: Array
    target_shape: tuple[int, ...]
    classes: Array | None
    weight: Float | None
    weights: dict[str, Float]

    @property
    def names(self) -> tuple[str, ...] | None:
        """Names of the columns, None for arrays."""
        return self.table.names

    @property
    def n_features(self) -> int:
        """Number of columns, D."""
        return self.table.shape[1]

    def null(self) -> object:
        """Return the model of stage 0: the mean, or the frequencies of the classes."""
        kind = DummyRegressor if self.classes is None else DummyClassifier
        found: object = kind().fit(np.zeros((len(self.target), 1)), self.target, sample_weight=self.weight)
        return found

    def clones(
        self, estimator: object, columns: Sequence[Positions], n_jobs: int | None = None, progress: Progress = False
    ) -> tuple[object, ...]:
        """Return one fitted clone of an estimator for each set of columns."""
        sets = counted(columns, progress, "clones")
        return tuple(Parallel(n_jobs=n_jobs)(delayed(_fitted)(clone(estimator), self, own) for own in sets))


def training_rows(estimator: object, X: object, y: object, sample_weight: object, owner: object) -> TrainingRows:
    """Check the data that clones of an estimator are fitted on; errors name the ``owner`` of the clones."""
    if isinstance(X, Source):
        raise TypeError("X must be a table in memory, not a Source")
    table, names = check_table(X, estimator=owner), column_names(X)
    n, D = table.shape
    weight = check_weight(sample_weight, n)
    seen = PrefixTable(table, np.arange(D), names, table.head(0) if isinstance(table, nw.DataFrame) else None)
    return TrainingRows(seen, *_target(estimator, y, n), weight, _fit_weights(estimator, weight))


def _target(estimator: object, y: object, n: int) -> tuple[Array, tuple[int, ...], Array | None]:
    """Return y as the clones see it, the shape of one target, and the classes."""
    if (kind := get_tags(estimator).estimator_type) not in (None, "classifier", "regressor"):
        raise TypeError(f"estimator must be a classifier or a regressor, {type(estimator).__name__} is a {kind}")
    if is_classifier(estimator):
        classes, codes = check_labels(y, n)
        return classes[codes], () if classes.size == 2 else (classes.size,), classes
    Y, shape = check_target(y, n)
    return (Y if shape else Y[:, 0]), shape, None


def _fit_weights(estimator: object, weight: Float | None) -> dict[str, Float]:
    """Return weights as keywords of ``fit``; those of a pipeline go to its last step."""
    if weight is None:
        return {}
    prefix, last = "", estimator
    while hasattr(last, "steps"):
        step, last = last.steps[-1]
        prefix += f"{step}__"
    if not has_fit_parameter(last, "sample_weight"):
        raise ValueError(f"{type(last).__name__} accepts no sample_weight: leave it out, or choose another estimator")
    return {f"{prefix}sample_weight": weight}


def _fitted(estimator: object, rows: TrainingRows, columns: Positions) -> object:
    """Fit a clone, maybe in another process. Its columns are copied here, to be in memory only while it is fitted."""
    try:
        found: object = estimator.fit(rows.table.take(columns), rows.target, **rows.weights)  # type: ignore[attr-defined]
    except Exception as error:
        names = columns.tolist() if rows.names is None else [rows.names[d] for d in columns.tolist()]
        error.add_note(f"This is from the clone that is fitted on columns {some(names)}.")
        raise
    return found
