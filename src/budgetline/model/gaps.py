"""Which groups the rows of a table have."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy import sparse

from budgetline.arrays import Mask, Positions, Table
from budgetline.inputs import check_finite, raise_not_finite
from budgetline.messages import shown


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
