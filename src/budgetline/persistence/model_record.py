"""What a file holds of a model: everything that does not follow from the rest.

Costs and columns of the sequence follow from the groups and the order. Coefficients are those of the columns of the
sequence, in its order.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import PackageNotFoundError, version
from typing import Annotated

import numpy as np
from numpy.typing import NDArray

from budgetline.arrays import Float, Mask, Positions
from budgetline.codec import AtLeast, Shape, arrays_of
from budgetline.groups.record import StoredGroups
from budgetline.persistence.encoding_record import EncodingRecord
from budgetline.persistence.plain_settings import PlainSetting

SMALL, LARGEST_RATIO = 1 << 26, 1000
"""A file may unfold into this many bytes, or this many times its own size: its columns are counted, not stored."""

Bytes = NDArray[np.uint8]


def library_version() -> str:
    """Return the version of this library, for files."""
    try:
        return version("budgetline")
    except PackageNotFoundError:  # run from a folder
        return "unknown"


@dataclass(frozen=True, eq=False)
class LeastSquaresRecord:
    """What a :class:`LinearSubset` needs to predict from any subset of the groups."""

    U: Annotated[Float, Shape("rows columns")]
    z: Annotated[Float, Shape("rows targets")]
    kept: Annotated[Mask, Shape("columns")]


@dataclass(frozen=True, eq=False)
class PopulationRecord:
    """The fields of a :class:`Population`."""

    factor: Annotated[Float, Shape("rank columns")]
    share: Annotated[Float, Shape("cells"), AtLeast(0)]
    mean: Annotated[Float, Shape("cells columns")]
    slope: Annotated[Float, Shape("columns scores")]
    level: Annotated[Float, Shape("scores")]
    variance: Annotated[float, AtLeast(0)]
    n_rows: Annotated[float, AtLeast(1)]


@dataclass(frozen=True, eq=False)
class SearchRecord:
    """Scores of a cross-validated estimator, without the underscore of its attributes."""

    cv_scores: Annotated[Float, Shape("* *", finite=False)]
    correction_scores: Annotated[Float, Shape("* *", finite=False)]
    held_out: Annotated[Float, Shape("* 3", finite=False)]


@dataclass(frozen=True, eq=False)
class PathRecord:
    """The path of a group lasso, without the underscore of its attributes."""

    lambdas: Annotated[Float, Shape("lambdas")]
    path_coef: Annotated[Float, Shape("lambdas targets read")]
    path_intercept: Annotated[Float, Shape("lambdas targets")]
    dual_gaps: Annotated[Float, Shape("lambdas")]
    entry_lambdas: Annotated[Float, Shape("groups", finite=False)]


@dataclass(frozen=True, eq=False)
class ModelRecord:
    """A fitted estimator as a file holds it. It has either ``least_squares`` or a ``population``."""

    estimator: str
    version: str
    settings: dict[str, PlainSetting]
    left_out: tuple[str, ...]
    feature_groups: StoredGroups
    n_features: Annotated[int, AtLeast(1)]
    feature_names: tuple[str, ...] | None
    target_shape: tuple[int, ...]
    null_value: float
    n_passes: Annotated[int | None, AtLeast(1)]
    alpha: float | None
    classes: PlainSetting
    order: Annotated[Positions, Shape("stages")]
    gains: Annotated[Float, Shape("stages")]
    coef: Annotated[Float, Shape("stages targets *")]
    intercept: Annotated[Float, Shape("stages targets")]
    null_intercept: Annotated[Float, Shape("targets")]
    mean: Annotated[Float, Shape("read")]
    scale: Annotated[Float, Shape("read", finite=False)]
    group_penalties: Annotated[Float | None, Shape("*"), AtLeast(0)]
    moments: Annotated[Bytes | None, Shape("*")]
    fold_moments: Annotated[tuple[Bytes, ...], Shape("*")]
    least_squares: LeastSquaresRecord | None
    population: PopulationRecord | None
    search: SearchRecord | None
    path: PathRecord | None
    encoding: EncodingRecord | None

    @cached_property
    def stored_bytes(self) -> int:
        """Size of all arrays."""
        return sum(array.nbytes for array in arrays_of(self).values())

    @property
    def unfolds_too_far(self) -> bool:
        """Whether the arrays of a loaded model that grow with the columns of X are out of proportion to the file."""
        stages, P = self.intercept.shape
        lambdas = 0 if self.path is None else self.path.lambdas.size
        columns = self.n_features if self.encoding is None else self.mean.size
        unfolded: int = 8 * columns * (P * (1 + stages + lambdas) + 2)
        return unfolded > max(SMALL, LARGEST_RATIO * self.stored_bytes)
