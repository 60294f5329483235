"""Which groups the rows of a table have; columns that a table lacks count as missing."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import narwhals as nw
import numpy as np
from scipy import sparse

from budgetline.arrays import Mask, Positions, Table
from budgetline.inputs import KnownColumns, NamedArray, check_finite, column_names, raise_not_finite
from budgetline.messages import did_you_mean, shown, some, warn


def groups_there(table: Table, labels: Sequence[str], starts: Positions) -> Mask:
    """Return which groups each row has, shape (n, k): those whose columns are not missing, that is NaN.

    The columns of ``table`` lie group after group, beginning at ``starts`` (k,). A group of which a row has only a part
    is an error, and so is infinity.
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


def absent_columns(known: KnownColumns, needed: Sequence[str], there: Collection[str]) -> tuple[list[str], str]:
    """Return the needed columns that are not there, and a warning that names them, "" if all are there.

    A table that has no column of the model is another table, which is an error.
    """
    absent, names = [name for name in needed if name not in there], known.group_of or needed
    if absent and not any(name in there for name in names):
        raise ValueError(f"no column of {known.estimator} is there: it was fitted with {some(names, 8)}")
    each = some(absent, of=lambda name: f"{shown(name)}{did_you_mean(name, there)}")
    return absent, f"columns that are not there count as missing: {each}" if absent else ""


def with_absent(X: object, known: KnownColumns, needed: Sequence[str]) -> object:
    """Return a table with columns of missing values for the needed ones that it lacks, and warn of them."""
    names = column_names(X)
    if known.names is None or names is None:
        return X
    absent, text = absent_columns(known, needed, names)
    if text:
        warn(text, UserWarning)
    return with_gaps(X, absent)


def with_gaps(X: object, absent: Sequence[str]) -> object:
    """Return a table with columns of missing values appended."""
    if not absent:
        return X
    if isinstance(X, NamedArray):
        gaps = np.full((X.shape[0], len(absent)), np.nan)
        return NamedArray(np.hstack([X.values, gaps]), (*X.names, *absent))
    frame = nw.from_native(X, pass_through=True)
    assert isinstance(frame, nw.DataFrame)
    return frame.with_columns(nw.lit(np.nan, nw.Float64).alias(name) for name in absent)
