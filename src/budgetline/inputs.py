"""The one place where user data is checked: tables, targets, weights, and the keywords of ``predict``.

Finiteness of X at fit time is *not* checked here: the statistics of X are infinite or NaN exactly when X (or
its square) is, so they are checked instead and X is read once less (:func:`raise_not_finite` then names the
culprit).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from numbers import Integral, Real
from typing import Any

import narwhals as nw
import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.utils.validation import check_array, check_consistent_length, validate_data

Float = NDArray[np.float64]


def column_names(X: Any) -> tuple[str, ...] | None:
    """Return the column names of a data frame with string names, None for anything else."""
    frame = _frame(X)
    if frame is None or not all(isinstance(name, str) for name in frame.columns):
        return None
    return tuple(frame.columns)


def check_table(estimator: Any, X: Any, *, reset: bool) -> Any:
    """Check that X is a table and that its shape and names fit the estimator; convert arrays, leave frames.

    Returns a narwhals DataFrame, a 2-d array or a CSR/CSC matrix. With ``reset`` the estimator learns
    ``n_features_in_`` and ``feature_names_in_``, otherwise they are compared.
    """
    frame = _frame(X)
    if frame is not None:
        validate_data(estimator, X, reset=reset, skip_check_array=True)
        if frame.shape[0] < 1:
            raise ValueError(f"Found array with 0 sample(s) (shape={frame.shape}) while a minimum of 1 is required.")
        return frame
    X = check_array(X, accept_sparse=["csr", "csc"], dtype="numeric", ensure_all_finite=False, input_name="X",
                    estimator=estimator)  # fmt: skip
    validate_data(estimator, X, reset=reset, skip_check_array=True)
    return X


def numbers_of(table: Any, columns: NDArray[np.intp] | None = None) -> Any:
    """Return columns of a checked table as an array (or sparse matrix) of numbers; None means all.

    Arrays are returned as they are when all columns are asked for. Frames are converted column by column, so
    columns that are not asked for may hold anything.
    """
    if not isinstance(table, nw.DataFrame):
        return table if columns is None else table[:, columns]
    names = table.columns if columns is None else [table.columns[d] for d in columns]
    for name in names:
        dtype = table.schema[name]
        if not (dtype.is_numeric() or dtype in (nw.Boolean, nw.Object)):
            raise ValueError(f"column {name!r} holds {dtype}, not numbers: encode it first, or leave it out")
    if not names:
        return np.empty((table.shape[0], 0))
    array = (table if list(names) == table.columns else table.select(names)).to_numpy()
    if array.dtype == object:
        array = np.column_stack([_as_float(table[name].to_numpy(), name) for name in names])
    return array


def check_target(y: Any, n_samples: int) -> tuple[Float, tuple[int, ...]]:
    """Return y as a float array of shape (n, P), and the shape ``()`` or ``(P,)`` of one target."""
    if y is None:
        raise ValueError("requires y to be passed, but the target y is None")
    y = check_array(y, ensure_2d=False, dtype=np.float64, input_name="y", ensure_min_samples=0)
    if y.ndim > 2 or y.ndim == 0:
        raise ValueError(f"y must have shape (n_samples,) or (n_samples, n_targets), got {y.shape}")
    check_consistent_length(y, np.empty(n_samples))
    if y.ndim == 2 and y.shape[1] == 0:
        raise ValueError("y has no columns")
    return y.reshape(n_samples, -1), y.shape[1:]


def check_weight(sample_weight: Any, n_samples: int) -> Float | None:
    """Return weights as a float array of shape (n,), or None when all are equal to one."""
    if sample_weight is None:
        return None
    if isinstance(sample_weight, Real):
        sample_weight = np.full(n_samples, float(sample_weight))
    weight: Float = check_array(sample_weight, ensure_2d=False, dtype=np.float64, input_name="sample_weight")
    if weight.ndim != 1:
        raise ValueError(f"Sample weights must be 1D array or scalar, got {weight.ndim}D array")
    if weight.shape[0] != n_samples:
        raise ValueError(f"sample_weight.shape == {weight.shape}, expected {(n_samples,)}!")
    if np.any(weight < 0):
        raise ValueError(f"sample_weight[{int(np.argmax(weight < 0))}] is negative")
    if not weight.any():
        raise ValueError("sample_weight is zero for every sample")
    return weight


def prediction_table(estimator: Any, X: Any, columns: NDArray[np.intp]) -> Any:
    """Return the ``columns`` of X that a prediction needs, shape (n, len(columns)), checked to be finite.

    The other columns are not looked at: at prediction time the expensive ones may not have been computed, hold
    NaN or, in a data frame, be missing.
    """
    names = column_names(X)
    known = getattr(estimator, "feature_names_in_", None)
    if names is not None and known is not None and len(names) < len(known):
        position = {name: d for d, name in enumerate(known)}
        found = [position.get(name, -1) for name in names]
        in_order = all(a < b for a, b in zip([-1, *found], found, strict=False))
        if in_order and set(columns.tolist()) <= set(found):
            frame = _frame(X)
            where = {d: k for k, d in enumerate(found)}
            return _finite(numbers_of(frame, np.array([where[d] for d in columns.tolist()], dtype=np.intp)),
                           [str(known[d]) for d in columns])  # fmt: skip
    table = check_table(estimator, X, reset=False)
    everything = columns.size == table.shape[1] and bool(np.all(columns == np.arange(columns.size)))
    labels = [str(known[d]) if known is not None else str(d) for d in columns]
    return _finite(numbers_of(table, None if everything else columns), labels)


def raise_not_finite(X: Any, labels: Sequence[str]) -> None:
    """Raise the error for a column of X that is not finite, or too large to square; return if there is none."""
    for d, label in enumerate(labels):
        column = X[:, [d]].toarray().ravel() if sparse.issparse(X) else np.asarray(X[:, d], dtype=np.float64)
        if np.isnan(column).any():
            raise ValueError(f"Input X contains NaN: column {label!r}, first in row {int(np.argmax(np.isnan(column)))}")
        if np.isinf(column).any():
            raise ValueError(f"Input X contains infinity: column {label!r}, first in row "
                             f"{int(np.argmax(np.isinf(column)))}")  # fmt: skip
    for d, label in enumerate(labels):
        largest = float(abs(X[:, [d]]).max())
        if largest > 1e150:
            raise ValueError(f"Input X contains a value too large for float64 products: column {label!r} holds "
                             f"{largest:.3g}; rescale it")  # fmt: skip


def check_choice(budget: Any, stage: Any, available: Any, n_stages: int, names: Sequence[str]) -> None:
    """Check the keywords that say how much of the model a prediction may use."""
    if sum(v is not None for v in (budget, stage, available)) > 1:
        raise ValueError("give at most one of budget, stage and available")
    if budget is not None and (isinstance(budget, bool) or not isinstance(budget, Real) or not float(budget) >= 0):
        raise ValueError(f"budget must be a number ≥ 0 in cost units, got {budget!r}")
    if stage is not None:
        if isinstance(stage, bool) or not isinstance(stage, Integral):
            raise TypeError(f"stage must be an integer, got {stage!r}")
        if not 0 <= int(stage) <= n_stages:
            raise ValueError(f"stage must be between 0 and {n_stages}, got {stage}")
    if available is not None:
        if isinstance(available, str) or not isinstance(available, Iterable):
            raise TypeError(f"available must be a collection of group names, got {available!r}")
        if unknown := [name for name in available if str(name) not in names]:
            raise ValueError(f"unknown group {unknown[0]!r} in available; the groups are {_list(names)}")


def _finite(array: Any, labels: Sequence[str]) -> Any:
    values = array.data if sparse.issparse(array) else array
    if values.dtype.kind == "f" and not np.isfinite(values.sum(dtype=np.float64)):
        raise_not_finite(array, labels)
    return array


def _frame(X: Any) -> nw.DataFrame[Any] | None:
    if isinstance(X, nw.DataFrame):
        return X
    native = nw.from_native(X, pass_through=True)
    if isinstance(native, nw.LazyFrame):
        raise TypeError("X is a lazy frame: call .collect() first")
    return native if isinstance(native, nw.DataFrame) else None


def _as_float(values: NDArray[Any], name: str) -> Float:
    try:
        return np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"column {name!r} does not hold numbers: {error}") from error


def _list(names: Sequence[str], most: int = 20) -> str:
    return ", ".join(map(repr, names[:most])) + (", …" if len(names) > most else "")
