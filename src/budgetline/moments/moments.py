"""Moments: means and products of the columns of a table and its targets, which can be added up."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import compress
from typing import Annotated, Any

import numpy as np
from scipy import sparse

from budgetline.arrays import Array, DType, Float, Mask, Positions
from budgetline.codec import AtLeast, Shape, from_bytes, to_bytes
from budgetline.data.rows import EXTENDED_WORK, Rows, raise_too_small
from budgetline.files import PathName, read, write_atomically
from budgetline.inputs import check_table, check_target, check_weight, column_names, numbers_of, raise_not_finite
from budgetline.messages import shown
from budgetline.moments.columns import scale_of
from budgetline.moments.products import dense_scatter, rounded_sum, sparse_scatter

TINY = float(np.finfo(np.float64).smallest_subnormal)
SPARSE_DENSITY = 0.05
"""Below this share of non-zeros, sparse products beat dense ones on chunks."""


@dataclass(frozen=True, eq=False)
class Moments:
    """Weighted means and scatter of V = [X, Y]: all that is needed from the data to learn a sequence of linear models.

    With weights w_i (1 by default) and v_i = (x_i, y_i),

        weight = Σ w_i,    mean = Σ w_i v_i / weight,    scatter = Σ w_i (v_i − mean)(v_i − mean)'.

    ``a + b`` gives the moments of both samples together (Chan, Golub & LeVeque 1983). The sum is exact up to rounding,
    whatever the means are. The moments of parts of the data can therefore be computed anywhere and merged in any order.

    Attributes
    ----------
    n_samples : int
        Number of rows with positive weight.
    weight : float
        Total weight of the rows.
    mean, mean_low : arrays of shape (D + P,)
        The mean, and the rounding error made by storing it in float64, which is kept so that merging parts does not
        lose digits.
    scatter : array of shape (D + P, D + P)
        Weighted sums over the rows of the products of centred columns and targets.
    target_shape : () for one target given as a vector, (P,) for P targets
        Shape of the target of one row.
    feature_names : tuple of str, or None
        Names of the columns, if they have any.
    eps : float
        Unit roundoff of the products. It is the unit roundoff of float32 if any part was accumulated in float32. It is
        larger if digits were lost by subtraction or because weights are near the smallest float64 number.
    effective_samples : float or None
        (Σ w_i)² / Σ w_i², the number of equally weighted rows that would give an equally precise mean. None means that
        all weights are equal.

    Examples
    --------
    >>> import numpy as np
    >>> from budgetline import Moments
    >>> X, y = np.arange(8.0).reshape(4, 2), np.array([1.0, 2.0, 3.0, 5.0])
    >>> together = Moments.from_data(X[:1], y[:1]) + Moments.from_data(X[1:], y[1:])
    >>> bool(np.allclose(together.scatter, Moments.from_data(X, y).scatter))
    True
    """

    n_samples: Annotated[int, AtLeast(1)]
    weight: float
    mean: Annotated[Float, Shape("entries")]
    mean_low: Annotated[Float, Shape("entries")]
    scatter: Annotated[Float, Shape("entries entries")]
    target_shape: tuple[int, ...]
    feature_names: tuple[str, ...] | None = None
    eps: float = float(np.finfo(np.float64).eps)
    effective_samples: Annotated[float | None, AtLeast(1)] = None

    @classmethod
    def from_data(cls, X: Any, y: Any, sample_weight: Any = None) -> Moments:
        """Compute the moments of a table, in one pass and without copying it.

        Parameters
        ----------
        X : array-like, sparse matrix or data frame of shape (n_samples, n_features)
            The input samples.
        y : array-like of shape (n_samples,) or (n_samples, n_targets)
            The target values.
        sample_weight : array-like of shape (n_samples,), optional
            Sample weights.

        Examples
        --------
        >>> from budgetline import Moments
        >>> Moments.from_data([[1.0], [3.0]], [0.0, 1.0]).mean.tolist()
        [2.0, 0.5]
        """
        names = column_names(X)
        table = numbers_of(check_table(X))
        Y, target_shape = check_target(y, table.shape[0])
        rows = Rows(table, Y, check_weight(sample_weight, table.shape[0]))
        return moments_of(rows, target_shape, names)

    @property
    def n_targets(self) -> int:
        """Number of targets, P."""
        return int(np.prod(self.target_shape, dtype=int))

    @property
    def n_features(self) -> int:
        """Number of features, D."""
        return self.mean.size - self.n_targets

    @property
    def sample_size(self) -> float:
        """The effective number of samples, which is ``n_samples`` if all weights are equal."""
        return float(self.n_samples) if self.effective_samples is None else self.effective_samples

    def __add__(self, other: Moments) -> Moments:
        if not isinstance(other, Moments):
            return NotImplemented
        self._check_compatible(other)
        weight, step = self.weight + other.weight, (other.mean - self.mean) + (other.mean_low - self.mean_low)
        share = other.weight / weight
        with np.errstate(over="ignore", invalid="ignore"):
            scatter = self.scatter + other.scatter
            scatter += np.outer(step * (self.weight * share), step)
        if not (np.isfinite(weight) and np.isfinite(scatter).all()):
            raise ValueError(
                f"moments of weights {self.weight:.3g} and {other.weight:.3g} add up beyond the range of float64: "
                "divide the weights of all samples by the same number"
            )
        n_samples, eps = self.n_samples + other.n_samples, max(self.eps, other.eps)
        mean = rounded_sum(self.mean, self.mean_low + step * share)
        effective = self._effective_with(other, n_samples, share)
        return Moments(n_samples, weight, *mean, scatter, self.target_shape, self.feature_names, eps, effective)

    def __radd__(self, other: object) -> Moments:
        return self if other == 0 else NotImplemented

    def __sub__(self, other: Moments) -> Moments:
        """Remove a part of the sample that was added before, such as a day that leaves a window.

        Digits cancel if little is left of a column. Then ``eps`` grows accordingly, so that fits account for the loss.
        """
        if not isinstance(other, Moments):
            return NotImplemented
        self._check_compatible(other)
        n_samples, weight = self.n_samples - other.n_samples, self.weight - other.weight
        if n_samples < 1 or weight <= 0:
            raise ValueError(f"cannot remove {other.n_samples} of {self.n_samples} samples: nothing would be left")
        step = (other.mean - self.mean) + (other.mean_low - self.mean_low)
        shift = step * (other.weight / weight)
        scatter = self.scatter - other.scatter
        scatter -= np.outer(shift * self.weight, step)
        left, total = np.diag(scatter), np.diag(self.scatter)
        constant = left <= 64 * self.eps * total  # rounding noise
        scatter[constant], scatter[:, constant] = 0.0, 0.0
        lost = np.max(total[~constant] / left[~constant], initial=self.weight / weight)
        eps = max(self.eps, other.eps) * float(lost)
        mean = rounded_sum(self.mean, self.mean_low - shift)
        effective = self._effective_with(other, n_samples, -other.weight / weight)
        return Moments(n_samples, weight, *mean, scatter, self.target_shape, self.feature_names, eps, effective)

    def scaled(self, exponent: int) -> Moments:
        """Return the moments with all weights multiplied by 2**exponent.

        The result is exact within the range of float64. Underflow loses digits, which ``eps`` records, and overflow is
        an error.
        """
        with np.errstate(over="ignore", under="ignore"):
            weight, scatter = float(np.ldexp(self.weight, exponent)), np.ldexp(self.scatter, exponent)
        if not (np.isfinite(weight) and np.isfinite(scatter).all()):
            raise ValueError(
                f"sample_weight is too large: the weights add up to {weight:.3g}, and times the squares of X or y to "
                "more than float64 holds. Divide them by a number: their unit does not matter."
            )
        varies = np.diag(self.scatter) > 0
        least = max(min(weight, np.diag(scatter).min(where=varies, initial=np.inf)), TINY)
        return replace(self, weight=weight, scatter=scatter, eps=max(self.eps, TINY / least))

    def to_bytes(self) -> bytes:
        """Return the moments as bytes, in the format of `save`, for example to send them to another machine."""
        return to_bytes("moments", self)

    @classmethod
    def from_bytes(cls, data: bytes, where: str = "data") -> Moments:
        """Return the moments from ``data``, the output of `to_bytes`; error messages call them ``where``.

        Examples
        --------
        >>> from budgetline import Moments
        >>> Moments.from_bytes(Moments.from_data([[1.0], [3.0]], [0.0, 1.0]).to_bytes())
        Moments(2 samples, 1 features, 1 targets)
        """
        return from_bytes("moments", cls, data, where, whole_moments)

    def save(self, path: PathName) -> None:
        """Write the moments to a file at ``path``, in full or not at all.

        Examples
        --------
        >>> from budgetline import Moments
        >>> Moments.from_data([[1.0], [3.0]], [0.0, 1.0]).save("monday.moments")
        >>> Moments.load("monday.moments").n_samples
        2
        """
        write_atomically(path, self.to_bytes())

    @classmethod
    def load(cls, path: PathName) -> Moments:
        """Read moments from the file at ``path``; this never executes code."""
        return cls.from_bytes(read(path), str(path))

    def select(self, columns: Positions) -> Moments:
        """Return the moments of some ``columns``, in this order."""
        kept = np.concatenate([columns, np.arange(self.n_features, self.mean.size)])
        names = None if self.feature_names is None else tuple(self.feature_names[d] for d in columns)
        mean, mean_low, scatter = self.mean[kept], self.mean_low[kept], self.scatter[np.ix_(kept, kept)]
        return replace(self, mean=mean, mean_low=mean_low, scatter=scatter, feature_names=names)

    def standardisation(self, weights: Float | None = None) -> tuple[Float, Float, Float]:
        """Return the means and scales (D,) of the features (see `scale_of`), and the means (P,) of the targets."""
        D = self.n_features
        variance = np.diag(self.scatter)[:D] / self.weight
        return self.mean[:D], scale_of(self.mean[:D], variance, weights), self.mean[D:]

    def varying(self, columns: Positions) -> Positions:
        """Return the ``columns`` that have more than one value."""
        return columns[np.diag(self.scatter)[columns] > 0]

    def mean_squared_error(self, coef: Float, intercept: Float) -> Float:
        """Return the mean squared errors (K, P) of K linear models: ``coef`` (K, P, D) and ``intercept`` (K, P)."""
        D = self.n_features
        Sxx, Sxy, Syy = self.scatter[:D, :D], self.scatter[:D, D:], self.scatter[D:, D:]
        bias = self.mean[D:] - intercept - coef @ self.mean[:D]
        fitted = np.einsum("kpd,kpd->kp", coef @ Sxx, coef) - 2 * np.einsum("kpd,dp->kp", coef, Sxy)
        spread = np.maximum(np.diag(Syy) + fitted, 0.0) / self.weight
        return np.asarray(spread + bias**2)

    def _effective_with(self, other: Moments, n_samples: int, share: float) -> float | None:
        """Return the effective number of samples if ``other``, a share of the weight of the result, joins or leaves."""
        each, others = self.weight / self.n_samples, other.weight / other.n_samples
        if self.effective_samples is None and other.effective_samples is None and each == others:
            return None
        squares = (1 - share) ** 2 / self.sample_size + np.sign(share) * share**2 / other.sample_size
        return float(np.clip(1 / squares, 1.0, n_samples)) if squares > 0 else float(n_samples)

    def _check_compatible(self, other: Moments) -> None:
        if self.target_shape != other.target_shape or self.n_features != other.n_features:
            raise ValueError(
                f"moments of {self.n_features} features and target shape {self.target_shape} do not match "
                f"moments of {other.n_features} features and target shape {other.target_shape}"
            )
        if self.feature_names != other.feature_names:
            a, b = self.feature_names or (None,), other.feature_names or (None,)
            left, right = next((p, q) for p, q in zip(a, b, strict=False) if p != q)
            raise ValueError(f"moments have different columns: {shown(left)} and {shown(right)}")

    def __repr__(self) -> str:
        return f"Moments({self.n_samples} samples, {self.n_features} features, {self.n_targets} targets)"


def whole_moments(found: Moments) -> Moments:
    """Return moments from a file, if they fit together."""
    shape, names = found.target_shape, found.feature_names
    if not (found.weight > 0 and found.eps > 0):
        raise ValueError("weight and eps must be positive")
    if found.sample_size > found.n_samples:
        raise ValueError(f"effective_samples is {found.sample_size:g}, more than n_samples, {found.n_samples}")
    if len(shape) > 1 or not all(0 < p <= found.mean.size for p in shape) or found.n_features < 0:
        raise ValueError(f"target_shape {shape} does not match mean, which has {found.mean.size} entries")
    if names is not None and len(names) != found.n_features:
        raise ValueError(f"feature_names has {len(names)} entries, there are {found.n_features} features")
    return found


def moments_of(
    rows: Rows, target_shape: tuple[int, ...], names: Sequence[str] | None = None, *, single: bool = True
) -> Moments:
    """Compute the moments of checked data; raise an error that names the column if X is not finite.

    ``single`` allows products of float32 data in float32, for callers that keep the data and can refine.
    """
    n_samples = rows.n_rows if rows.weight is None else int(np.count_nonzero(rows.weights))
    rows, exponent = rows.rescaled()
    with np.errstate(all="ignore"):  # values that are not finite show up in the result
        dtype = _product_dtype(rows, single)
        light = sparse.issparse(rows.X) and rows.X.nnz < SPARSE_DENSITY * np.prod(rows.X.shape)
        mean, mean_low, scatter = (sparse_scatter(rows) if light else None) or dense_scatter(rows, dtype)
        if dtype == np.float32 and not np.isfinite(scatter).all():
            dtype = np.dtype(np.float64)  # squares overflow float32 from 1.8e19 on
            mean, mean_low, scatter = dense_scatter(rows, dtype)
    if not np.isfinite(scatter).all():
        raise_not_finite(rows.table, rows.labels(names))
        raise ValueError("X or y holds values too large for float64 products; rescale them")
    raise_too_small(rows, np.diag(scatter) / rows.total_weight, rows.labels(names))
    eps = float(np.finfo(np.float32 if dtype == np.float32 else np.float64).eps)
    labels = tuple(names) if names else None
    size = rows.effective_size
    found = Moments(n_samples, rows.total_weight, mean, mean_low, scatter, target_shape, labels, eps, size)
    return found.scaled(exponent) if exponent else found


def _product_dtype(rows: Rows, single: bool) -> DType:
    """Return the precision of products: that of float32 data, extended if that is cheap."""
    if rows.n_rows * (rows.n_columns + rows.Y.shape[1]) ** 2 <= EXTENDED_WORK:
        return np.dtype(np.longdouble)
    if not single or rows.X.dtype != np.float32:
        return np.dtype(np.float64)
    if rows.weight is not None and rows.weights.min(where=rows.weights > 0, initial=np.inf) < 1e-6 * rows.weights.max():
        return np.dtype(np.float64)  # rows of small weight would lose digits in float32
    return np.dtype(np.float32)


Split = tuple[Positions, Positions]


def fold_moments(
    rows: Rows, splits: Sequence[Split], names: Sequence[str] | None = None
) -> Iterator[tuple[Moments, Moments]]:
    """Yield the moments of the training and the held-out rows of every split.

    Rows that are on the same side in every split form a cell (for K-fold, a fold); the moments of cells are computed in
    one pass and added up, so nothing cancels. Splits with too many cells, or repeated rows, are read one by one.
    """
    sides = [[_positions(index) for index in split] for split in splits]
    cells = _cells(rows, sides)
    if cells is None:
        sums: Iterator[list[Moments | None]] = ([_moments(rows, index, names) for index in split] for split in sides)
    else:
        patterns, members = cells
        parts = [_moments(rows, index, names) for index in members]
        sums = ([_together(compress(parts, patterns[:, 2 * k + s])) for s in range(2)] for k in range(len(splits)))
    for k, (train, test) in enumerate(sums):
        for which, moments in (("training", train), ("held-out", test)):
            if moments is None:
                raise ValueError(f"the {which} set of fold {k} has no sample of positive weight")
        assert train is not None
        assert test is not None
        yield train, test


def _together(parts: Iterable[Moments | None]) -> Moments | None:
    present = [part for part in parts if part is not None]
    return sum(present[1:], present[0]) if present else None


def _positions(index: Array) -> Positions:
    index = np.asarray(index)
    return np.flatnonzero(index) if index.dtype == bool else index


def _cells(rows: Rows, sides: list[list[Positions]]) -> tuple[Mask, list[Positions]] | None:
    """Return which sides each cell is on, and its rows; None if cells would not save time."""
    side = np.zeros((rows.n_rows, 2 * len(sides)), dtype=bool)
    for k, split in enumerate(sides):
        for s, index in enumerate(split):
            side[index, 2 * k + s] = True
            if np.count_nonzero(side[:, 2 * k + s]) < index.size:
                return None  # a bootstrap: rows count more than once
    patterns, cell = np.unique(side, axis=0, return_inverse=True)
    if len(patterns) > min(4 * len(sides), 100):
        return None
    return patterns, [np.flatnonzero(cell.ravel() == c) for c in range(len(patterns))]


def _moments(rows: Rows, index: Positions, names: Sequence[str] | None) -> Moments | None:
    if index.size == 0 or (rows.weight is not None and not rows.weight[index].any()):
        return None
    return moments_of(replace(rows, rows=index), (rows.Y.shape[1],), names)
