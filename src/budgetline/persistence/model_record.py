"""What a file holds of a model: everything that does not follow from the rest.

Costs and columns of the sequence follow from the groups and the order. Coefficients are those of the columns of the
sequence, in its order.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Annotated

import numpy as np
from numpy.typing import NDArray

from budgetline.arrays import Float, Mask, Positions
from budgetline.codec import AtLeast, Shape, arrays_of
from budgetline.groups.record import StoredGroups
from budgetline.persistence.encoding_record import ColumnRecord
from budgetline.persistence.settings import Setting

SMALL, LARGEST_RATIO = 1 << 26, 1000
"""A file may unfold into this many bytes, or this many times its own size: its columns are counted, not stored."""

Bytes = NDArray[np.uint8]


@dataclass(frozen=True, eq=False)
class ModelRecord:
    """A fitted estimator as a file holds it.

    For predictions from any subset of the groups there are ``U``, ``z`` and ``kept`` of least squares, or the parts of
    a :class:`Population`: ``factor`` to ``n_rows``.
    """

    estimator: str
    version: str
    settings: dict[str, Setting]
    left_out: tuple[str, ...]
    feature_groups: StoredGroups
    n_features: Annotated[int, AtLeast(1)]
    feature_names: tuple[str, ...] | None
    target_shape: tuple[int, ...]
    family: str
    null_value: float
    n_passes: Annotated[int | None, AtLeast(1)]
    alpha: float | None
    classes: Setting
    variance: Annotated[float | None, AtLeast(0)]
    n_rows: Annotated[float | None, AtLeast(1)]
    order: Annotated[Positions, Shape("stages")]
    gains: Annotated[Float, Shape("stages")]
    coef: Annotated[Float, Shape("stages targets *")]
    intercept: Annotated[Float, Shape("stages targets")]
    null_intercept: Annotated[Float, Shape("targets")]
    mean: Annotated[Float, Shape("read")]
    scale: Annotated[Float, Shape("read", finite=False)]
    U: Annotated[Float | None, Shape("rows columns")] = None
    z: Annotated[Float | None, Shape("rows targets")] = None
    kept: Annotated[Mask | None, Shape("columns")] = None
    factor: Annotated[Float | None, Shape("rank columns")] = None
    share: Annotated[Float | None, Shape("cells"), AtLeast(0)] = None
    cell_mean: Annotated[Float | None, Shape("cells columns")] = None
    slope: Annotated[Float | None, Shape("columns scores")] = None
    level: Annotated[Float | None, Shape("scores")] = None
    moments: Annotated[Bytes | None, Shape("*")] = None
    fold_moments: Annotated[tuple[Bytes, ...], Shape("*")] = ()
    cv_scores: Annotated[Float | None, Shape("* *", finite=False)] = None
    correction_scores: Annotated[Float | None, Shape("* *", finite=False)] = None
    held_out: Annotated[Float | None, Shape("* 3", finite=False)] = None
    group_penalties: Annotated[Float | None, Shape("*"), AtLeast(0)] = None
    lambdas: Annotated[Float | None, Shape("lambdas")] = None
    path_coef: Annotated[Float | None, Shape("lambdas targets read")] = None
    path_intercept: Annotated[Float | None, Shape("lambdas targets")] = None
    dual_gaps: Annotated[Float | None, Shape("lambdas")] = None
    entry_lambdas: Annotated[Float | None, Shape("groups", finite=False)] = None
    encoding: tuple[ColumnRecord, ...] = ()
    pairs: tuple[tuple[int, int], ...] = ()
    knots: Annotated[tuple[Float, ...], Shape("*")] = ()
    pieces: Annotated[tuple[Float, ...], Shape("* * *")] = ()
    penalties: Annotated[tuple[Float, ...], Shape("*")] = ()
    terms: Annotated[tuple[Positions, ...], Shape("* *"), AtLeast(0)] = ()
    centres: Annotated[tuple[Float, ...], Shape("* *")] = ()
    pair_penalties: Annotated[tuple[Float, ...], Shape("*")] = ()

    @cached_property
    def stored_bytes(self) -> int:
        """Size of all arrays."""
        return sum(array.nbytes for array in arrays_of(self).values())

    @property
    def unfolds_too_far(self) -> bool:
        """Whether the arrays of a loaded model that grow with the columns of X are out of proportion to the file."""
        stages, P = self.intercept.shape
        lambdas = 0 if self.lambdas is None else self.lambdas.size
        columns = self.mean.size if self.encoding else self.n_features
        unfolded: int = 8 * columns * (P * (1 + stages + lambdas) + 2)
        return unfolded > max(SMALL, LARGEST_RATIO * self.stored_bytes)
