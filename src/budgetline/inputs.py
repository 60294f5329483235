"""The one place where user data is checked: tables, targets, weights, and the keywords of ``predict``.

A fit does not check here whether X is finite. The statistics of X are infinite or NaN exactly when X or its square is,
so they are checked instead, and X is read once less. ``raise_not_finite`` then names the column.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from numbers import Integral, Real
from typing import Any

import narwhals as nw
import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.utils import assert_all_finite, check_array, check_consistent_length, column_or_1d
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import validate_data

from budgetline.arrays import Array, Float, Mask, Positions, Table
from budgetline.devices import DeviceTable, on_device, on_host
from budgetline.messages import cut, did_you_mean, shown, some

Frame = nw.DataFrame[Any]
MOST_GRADE = 30
"""Gains of larger grades of relevance would be too far apart."""
MOST_CLASSES = 50
"""Most classes of a target; more are usually numbers or names, and take long to learn."""
BOUNDS = {"ge": ("≥", operator.ge), "gt": (">", operator.gt), "le": ("≤", operator.le), "lt": ("<", operator.lt)}
"""Signs and tests of the bounds of numbers."""
AUTO = "auto"
"""Means, instead of names of available groups: the groups that each row has."""


class RowError(ValueError):
    """An error in a table and the first row that has it. Readers of files name the line instead."""

    def __init__(self, text: str, row: int) -> None:
        super().__init__(text, row)
        self.text, self.row = text, row

    def __str__(self) -> str:
        return f"{self.text}, first in row {self.row}"


class MissingValue(RowError):
    """A value is missing, and only an encoding accepts missing values."""


class NotNumbers(ValueError):
    """A column holds text or other values that only an encoding accepts."""


@dataclass(frozen=True, eq=False)
class NamedArray:
    """A table (n, D) as an array and the names of its columns: a data frame without a library of data frames."""

    values: Array
    names: tuple[str, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        """Number of rows and columns."""
        return self.values.shape

    def __getitem__(self, rows: Positions) -> NamedArray:
        return NamedArray(self.values[rows], self.names)


def column_names(X: object) -> tuple[str, ...] | None:
    """Return the column names of a data frame with string names, None for anything else."""
    if isinstance(X, NamedArray):
        return X.names
    frame = _frame(X)
    if frame is None or not all(isinstance(name, str) for name in frame.columns):
        return None
    return tuple(frame.columns)


@dataclass(frozen=True)
class KnownColumns:
    """The columns of the table that a model was fitted on: their names, or None for arrays, and their number.

    ``group_of`` names the groups of columns, for errors.
    """

    estimator: str
    names: tuple[str, ...] | None
    n_features: int
    group_of: Mapping[str, str] = field(default_factory=dict)

    def labels(self, columns: Positions) -> list[str]:
        """Return what errors call the columns at these positions."""
        return [str(d) if self.names is None else self.names[d] for d in columns.tolist()]

    def find(self, wanted: Sequence[str], names: Sequence[str]) -> Positions:
        """Return the positions of the wanted columns among names; a missing column is an error."""
        position = {name: k for k, name in enumerate(names)}
        if name := next((name for name in wanted if name not in position), None):
            group = f" of group {shown(self.group_of[name])}" if name in self.group_of else ""
            what = f"column {shown(name)}{group} is missing{did_you_mean(name, names)}"
            raise ValueError(f"{what}: {self.estimator} was fitted with it")
        return np.array([position[name] for name in wanted], dtype=np.intp)

    def check(self, names: Sequence[str] | None, n_features: int) -> None:
        """Raise an error unless columns are the known ones; without names, only their number is compared."""
        if n_features != self.n_features:
            raise ValueError(f"there are {n_features} features, but the model was fitted on {self.n_features}")
        if self.names is not None and names is not None and self.names != tuple(names):
            wrong = next((a, b) for a, b in zip(names, self.names, strict=True) if a != b)
            raise ValueError(f"the columns do not match the model: {shown(wrong[0])} instead of {shown(wrong[1])}")

    def stand_in(self) -> BaseEstimator:
        """Return an estimator with the fitted attributes that scikit-learn's checks compare a table with."""
        found = _class_named(self.estimator)()
        found.n_features_in_ = self.n_features
        if self.names is not None:
            found.feature_names_in_ = np.asarray(self.names, dtype=object)
        return found


@cache
def _class_named(name: str) -> type[BaseEstimator]:
    return type(name, (BaseEstimator,), {})


def check_table(X: object, known: KnownColumns | None = None, estimator: object = None) -> Table | Frame:
    """Check that X is a table, with the known columns if there are any.

    Returns a narwhals DataFrame, 2-d array, CSR/CSC matrix or ``DeviceTable``. Errors name the estimator, if given.
    """
    if isinstance(X, NamedArray):
        if known is not None:
            known.check(X.names, X.shape[1])
        return _array(X.values, estimator)
    frame = _frame(X)
    table = _array(on_device(X), estimator) if frame is None else X
    against = BaseEstimator() if known is None else known.stand_in()
    validate_data(against, table, reset=known is None, skip_check_array=True)
    return table if frame is None else _not_empty(frame)


def _array(X: object, estimator: object) -> Table:
    """Return a 2-d array or CSR/CSC matrix of numbers, which need not be finite; a table on a device as it is."""
    if isinstance(X, DeviceTable):
        return X
    _refuse_masked(X, "X")
    try:
        found = check_array(
            X, accept_sparse=("csr", "csc"), ensure_all_finite=False, input_name="X", estimator=estimator
        )
    except (ValueError, OverflowError) as error:
        text = "bytes/strings" in str(error)
        if "convert" not in str(error) and not text:
            raise
        found = np.asarray(X, dtype=object)
        for d, column in enumerate(found.T if text else ()):
            _as_float(column, d)
        if text:
            raise
    # objects are text, or whole numbers too large for NumPy's integers: errors name the column
    return np.column_stack([_as_float(x, d) for d, x in enumerate(found.T)]) if found.dtype == object else found


def numbers_of(table: Table | Frame, columns: Positions | None = None) -> Table:
    """Return columns of a checked table as an array (or sparse matrix) of numbers; None means all.

    Arrays are returned as they are if all columns are wanted. Of frames only the wanted columns are converted: others
    may hold anything.
    """
    if not isinstance(table, nw.DataFrame):
        return table if columns is None else table[:, columns]
    if columns is not None:
        if columns.size == 0:
            return np.empty((table.shape[0], 0))
        table = table.select(nw.nth(*columns.tolist()))
    schema = list(table.schema.items())
    for name, dtype in schema:
        if not (dtype.is_numeric() or dtype in (nw.Boolean, nw.Object)):
            kind = ValueError if dtype.is_nested() else NotNumbers
            raise kind(f"column {shown(name)} holds {cut(str(dtype))}, not numbers")
    if any(dtype == nw.Boolean for _, dtype in schema):
        flags = [nw.nth(k).cast(nw.Float64) for k, (_, dtype) in enumerate(schema) if dtype == nw.Boolean]
        table = table.with_columns(*flags)  # so that a missing flag is NaN
    array = table.to_numpy()
    if array.dtype == object:
        array = np.column_stack([_as_float(array[:, k], name) for k, (name, _) in enumerate(schema)])
    return array


def _refuse_masked(values: object, name: str) -> None:
    """Raise an error if values are masked: NumPy would use the values under the mask."""
    for part in values if isinstance(values, list | tuple) else [values]:
        if isinstance(part, np.ma.MaskedArray) and np.ma.is_masked(part):
            raise ValueError(f"{name} is a masked array with masked values: fill them first")


def check_target(y: object, n_samples: int) -> tuple[Float, tuple[int, ...]]:
    """Return y as a float array of shape (n, P), and the shape ``()`` or ``(P,)`` of one target."""
    y = on_host(y)
    if getattr(getattr(y, "dtype", None), "kind", "f") in "mM":
        raise ValueError("y holds dates or times, not numbers")
    raise_missing(y)
    Y = finite_floats("y", y, 0)
    if Y.ndim > 2 or Y.ndim == 0:
        raise ValueError(f"y must have shape (n_samples,) or (n_samples, n_targets), got {Y.shape}")
    check_consistent_length(Y, np.empty(n_samples))
    if Y.ndim == 2 and Y.shape[1] == 0:
        raise ValueError("y has no columns")
    return Y.reshape(n_samples, -1), Y.shape[1:]


def raise_missing(y: object, first: int = 0, name: str = "y") -> None:
    """Raise an error that names the first row in which y is missing: None, NaN, NaT, NA, or masked.

    An empty text is a label like any other. Rows count from ``first``.
    """
    if y is None:
        raise ValueError(f"requires {name} to be passed, but the target {name} is None")
    y, listed = on_host(y), isinstance(y, list | tuple)
    if listed:
        _refuse_masked(y, name)
    array = np.array(y, dtype=object) if listed else np.asarray(y)  # in a list with text, NumPy makes NaN a text
    masked = np.ma.getmaskarray(y) if isinstance(y, np.ma.MaskedArray) else np.zeros(array.shape, dtype=bool)
    missing = masked | _missing(array)
    if missing.ndim and missing.any():
        where = np.unravel_index(int(missing.argmax()), missing.shape)
        what = "NaN" if isinstance(array[where], float | np.floating) else str(array[where])
        what = "a masked value" if masked[where] else what
        raise RowError(f"Input {name} contains {what}", first + int(where[0]))


def _missing(array: Array) -> Mask:
    """Return which entries are missing."""
    if array.dtype.kind in "fcmM":
        return np.asarray(array != array)  # NaN and NaT alone differ from themselves
    flat = array.ravel().tolist() if array.dtype.kind == "O" else []
    if set(map(type, flat)) <= {str}:  # the usual case
        return np.zeros(array.shape, dtype=bool)
    return np.fromiter(map(is_missing, flat), dtype=bool, count=array.size).reshape(array.shape)


def is_missing(value: object) -> bool:
    """Return whether an entry is None, NaN, NaT or NA."""
    if value is None or type(value).__name__ in ("NAType", "NaTType"):  # of pandas, which may not be installed
        return True
    return isinstance(value, float | np.floating | np.datetime64 | np.timedelta64) and bool(value != value)


def check_labels(y: object, n_samples: int) -> tuple[Array, Positions]:
    """Return the classes, sorted, and the class number of every sample, shape (n,)."""
    labels = _labels(y, n_samples)
    assert_all_finite(labels, input_name="y")
    classes, codes = numbered(labels, "y")
    check_classification_targets(labels)
    if classes.size < 2:
        only = shown(classes.tolist()[0])
        raise ValueError(f"y has only one class, {only}: there is nothing to tell apart (1 class)")
    return classes, codes


def check_known(y: object, n_samples: int, classes: Array) -> Positions:
    """Return the number of every label among known classes, shape (n,); a label that is not known is an error."""
    labels = _labels(y, n_samples).tolist()
    number = {label: k for k, label in enumerate(classes.tolist())}
    if unknown := [label for label in labels if label not in number]:
        raise ValueError(f"label {shown(unknown[0])} in y is not a class of the model, which knows {some(number)}")
    return np.array([number[label] for label in labels], dtype=np.intp)


def _labels(y: object, n_samples: int) -> Array:
    """Return labels as an array of shape (n,), none of them missing."""
    raise_missing(y)
    labels = column_or_1d(on_host(y), warn=True)
    check_consistent_length(labels, np.empty(n_samples))
    return np.asarray(labels)


def check_weight(sample_weight: object, n_samples: int, *, may_be_zero: bool = False) -> Float | None:
    """Return weights as a float array of shape (n,), or None when all are equal to one.

    The weights of a chunk may all be zero, unlike those of a whole table.
    """
    if sample_weight is None:
        return None
    if isinstance(sample_weight, Real):
        sample_weight = np.full(n_samples, floats_of(sample_weight))
    sample_weight = on_host(sample_weight)
    _refuse_masked(sample_weight, "sample_weight")
    weight = finite_floats("sample_weight", sample_weight, 0 if may_be_zero else 1)
    if weight.ndim != 1:
        raise ValueError(f"Sample weights must be 1D array or scalar, got {weight.ndim}D array")
    if weight.shape[0] != n_samples:
        raise ValueError(f"sample_weight.shape == {weight.shape}, expected {(n_samples,)}!")
    if np.any(weight < 0):
        raise ValueError(f"sample_weight[{int(np.argmax(weight < 0))}] is negative")
    if not (may_be_zero or weight.any()):
        raise ValueError("sample_weight is zero for every sample")
    with np.errstate(over="ignore"):
        if not np.isfinite(weight.sum()):
            raise ValueError("sample_weight is too large: its sum is infinite")
    return weight


def prediction_table(known: KnownColumns, X: object, columns: Positions, *, missing: bool = False) -> Table:
    """Return the ``columns`` of X that a prediction needs, shape (n, len(columns)), checked to be finite.

    Columns of a frame are found by their names, in any order. The other columns are not read: expensive ones may not
    have been computed, hold NaN, or be missing from a frame. With ``missing``, values may be NaN.
    """
    labels, names = known.labels(columns), column_names(X)
    if known.names is None or names is None:
        table = check_table(X, known)
    else:
        columns = known.find(labels, names)
        table = check_table(X)
    everything = np.array_equal(columns, np.arange(table.shape[1]))
    numbers = numbers_of(table, None if everything else columns)
    return numbers if missing else check_finite(numbers, labels)


def raise_not_finite(X: Table, labels: Sequence[str]) -> None:
    """Raise an error that names a column of X that is not finite, or too large to square, if there is one."""
    for d, label in enumerate(labels):
        column = X[:, [d]].toarray() if sparse.issparse(X) else np.asarray(X[:, [d]], dtype=np.float64)
        lost = RowError if sparse.issparse(X) else MissingValue  # no encoding accepts a sparse matrix
        for kind, what, found in ((lost, "NaN", np.isnan(column)), (RowError, "infinity", np.isinf(column))):
            if found.any():
                raise kind(f"Input X contains {what}: column {shown(label)}", int(np.argmax(found)))
    for d, label in enumerate(labels):
        if (largest := float(abs(X[:, [d]]).max())) > 1e150:
            raise ValueError(
                f"Input X contains a value too large for float64 products: column {shown(label)} holds {largest:.3g}; "
                "rescale it"
            )


def check_choice(budget: object, stage: object, available: object, n_stages: int, names: Sequence[str]) -> None:
    """Check the keywords of a prediction: budget, stage and available groups."""
    by_row = isinstance(available, str) and available == AUTO
    if sum(v is not None for v in (budget, stage, None if by_row else available)) > 1:
        raise ValueError("pass at most one of budget, stage and available")
    if budget is not None:
        check_number("budget", budget, "cost", ge=0)
    if stage is not None:
        if isinstance(stage, bool) or not isinstance(stage, Integral):
            raise TypeError(f"stage must be an integer, got {shown(stage)}")
        if not 0 <= int(stage) <= n_stages:
            raise ValueError(f"stage must be between 0 and {n_stages}, got {stage}")
    if available is not None and not by_row:
        if isinstance(available, str) or not isinstance(available, Iterable):
            raise TypeError(f"available must be a collection of group names or 'auto', got {shown(available)}")
        known = set(names)
        if unknown := [name for name in available if str(name) not in known]:
            what = f"unknown group {shown(unknown[0])}{did_you_mean(unknown[0], names)} in available"
            raise ValueError(f"{what}; the groups are {some(names)}")


def check_finite(array: Table, labels: Sequence[str]) -> Table:
    """Return the table; raise an error that names the column if it is not finite."""
    values = array.data if sparse.issparse(array) else array
    if values.dtype.kind == "f" and not np.isfinite(values.sum(dtype=np.float64)):
        raise_not_finite(array, labels)
    return array


def _not_empty(frame: Frame) -> Frame:
    for axis, what in enumerate(("sample", "feature")):
        if frame.shape[axis] < 1:
            raise ValueError(f"Found array with 0 {what}(s) (shape={frame.shape}) while a minimum of 1 is required.")
    return frame


def _frame(X: object) -> Frame | None:
    if isinstance(X, nw.DataFrame):
        return X
    native = nw.from_native(X, pass_through=True)
    if isinstance(native, nw.LazyFrame):
        raise TypeError("X is a lazy frame: call .collect() first")
    return native if isinstance(native, nw.DataFrame) else None


def _as_float(values: Array, name: object) -> Float:
    try:
        return np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        kind = NotNumbers if "could not convert" in str(error) else ValueError
        raise kind(f"column {shown(name)} does not hold numbers: {cut(str(error))}") from error


def check_number(name: str, value: object, kind: str = "number", *, finite: bool = False, **bounds: float) -> float:
    """Return a number, not a bool, within bounds (ge, gt, le, lt) as a float; an error names it and its ``kind``."""
    number = number_of(value)
    if np.isnan(number) or (finite and np.isinf(number)) or not _within(number, bounds):
        raise ValueError(f"{name} must be a {'finite ' if finite else ''}{kind}{_words(bounds)}, got {shown(value)}")
    return number


def check_integer(name: str, value: object, **bounds: int) -> int:
    """Return an integer, not a bool, within bounds as in ``check_number``, or raise an error."""
    if isinstance(value, bool) or not isinstance(value, Integral) or not _within(int(value), bounds):
        raise ValueError(f"{name} must be an integer{_words(bounds)}, got {shown(value)}")
    return int(value)


def _within(number: float, bounds: Mapping[str, float]) -> bool:
    return all(BOUNDS[key][1](number, bound) for key, bound in bounds.items())


def _words(bounds: Mapping[str, float]) -> str:
    return " and".join(f" {BOUNDS[key][0]} {bound}" for key, bound in bounds.items())


def number_of(value: object) -> float:
    """Return a number as a float; NaN if it is not a number, or too large for a float."""
    if isinstance(value, bool) or not isinstance(value, Real):
        return np.nan
    try:
        return float(value)
    except OverflowError:
        return np.nan


def floats_of(values: object) -> Float:
    """Return numbers as an array of floats; NaN for those that are too large."""
    try:
        return np.asarray(values, dtype=np.float64)
    except OverflowError:
        given = np.asarray(values, dtype=object)
        return np.array([number_of(value) for value in given.ravel()]).reshape(given.shape)


def finite_floats(name: str, values: object, least: int) -> Float:
    """Return targets or weights of at least ``least`` samples as an array of finite floats."""
    try:
        found: Float = check_array(values, ensure_2d=False, dtype=np.float64, input_name=name, ensure_min_samples=least)
    except OverflowError as error:
        raise ValueError(f"Input {name} contains a whole number that is too large for a float") from error
    return found


def check_grades(y: object, n_samples: int) -> Float:
    """Return grades of relevance, shape (n,): numbers from 0 to 30, whose gains are 2^grade − 1."""
    grades, shape = check_target(y, n_samples)
    if shape:
        raise ValueError(f"a ranking needs one grade per document, as a vector, but y has {grades.shape[1]} columns")
    if wrong := grades[(grades < 0) | (grades > MOST_GRADE)].tolist():
        raise ValueError(f"y must hold grades of relevance from 0 to {MOST_GRADE}, got {wrong[0]:g}")
    return grades[:, 0]


def check_queries(qid: object, n_samples: int, weight: Float | None = None, name: str = "qid") -> Float:
    """Return the number of the query of every row, shape (n,); rows of a query must have one weight (n,)."""
    if qid is None:
        raise ValueError("a ranking needs qid, the query of every row")
    labels, number = numbered(qid, name)
    check_consistent_length(number, np.empty(n_samples))
    if weight is not None:
        least, most = np.full(labels.size, np.inf), np.zeros(labels.size)
        np.minimum.at(least, number, weight)
        np.maximum.at(most, number, weight)
        if odd := labels[least < most].tolist():
            raise ValueError(f"sample_weight differs within query {shown(odd[0])}: weights belong to whole queries")
    return number.astype(np.float64)


def numbered(labels: object, name: str) -> tuple[Array, Positions]:
    """Return the different labels, sorted, and the number of the label of every row, shape (n,)."""
    raise_missing(labels, name=name)
    column = column_or_1d(on_host(labels))
    try:
        known, number = np.unique(column, return_inverse=True)
    except TypeError as error:
        kinds = sorted({type(label).__name__ for label in column.tolist()})
        raise ValueError(f"{name} mixes labels of different types: {', '.join(kinds)}") from error
    return known, number.astype(np.intp)


def as_vector(y: object) -> object:
    """Return a pair of times and events as one structured array, whose rows can be taken; anything else as it is."""
    if not isinstance(y, tuple) or len(y) != 2:
        return y
    time, event = (np.asarray(on_host(part)) for part in y)
    if time.dtype.names is not None:
        raise ValueError("structured times hold their events: leave out event")
    check_consistent_length(time, event)
    if text := [flag for flag in event.ravel().tolist() if isinstance(flag, str)]:
        raise ValueError(f"events must be true or false, or 1 and 0 (0: censored), got {shown(text[0])}")
    happened = _column("event", event)
    if wrong := happened[(happened != 0) & (happened != 1)].tolist():
        raise ValueError(f"events must be true or false, or 1 and 0 (0: censored), got {wrong[0]:g}")
    found = np.empty(len(time), dtype=[("event", np.bool_), ("time", np.float64)])
    found["event"], found["time"] = happened == 1, _column("time", time)
    return found


def _column(name: str, values: Array) -> Float:
    """Return numbers of shape (n,) or (n, 1) as floats (n,)."""
    found, _ = check_target(values, len(values))
    if found.shape[1] > 1:
        raise ValueError(f"{name} must be a vector, got {found.shape[1]} columns")
    return found[:, 0]


def check_survival(y: object, n_samples: int) -> tuple[Float, Mask]:
    """Return times and events, each (n,), of an array with a field of flags and one of numbers, or of a pair."""
    y = as_vector(y)
    names = getattr(getattr(y, "dtype", None), "names", None) or ()
    if len(names) != 2:
        what = "a pair of arrays, or a structured array with one field of flags and one of numbers"
        raise ValueError(f"y must be times and events: {what}, got {type(y).__name__}")
    flags = [name for name in names if y.dtype[name] == np.bool_]  # type: ignore[attr-defined]
    if len(flags) != 1:
        raise ValueError(f"y must have one field of flags, the event, and one of times; its fields are {names}")
    event, time = y[flags[0]], y[names[1 - names.index(flags[0])]]  # type: ignore[index]
    times, happened = _column("time", time), _column("event", event)
    check_consistent_length(times, np.empty(n_samples))
    if wrong := times[times < 0].tolist():
        raise ValueError(f"times must not be negative, got {wrong[0]:g}")
    return times, happened > 0
