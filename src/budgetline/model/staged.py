"""What models with stages share: the types of their methods, and how they see targets."""

from __future__ import annotations

from collections.abc import Callable, Collection

import numpy as np

from budgetline.arrays import Array, Float, Positions
from budgetline.inputs import check_known, check_target

RowFunction = Callable[[Array, slice], Array]
"""Returns a value (m, K) or (m, K, P) for the results (m, K, P) of K stages on some rows."""
Respond = Callable[[str], Array]
"""Returns the result of the method of this name, on rows that are known."""
Available = Collection[str] | None
"""Names of the groups that a prediction may use, or "auto": those that each row has; None: another choice is made."""
SCORE = "score"
"""The name of what losses are computed from: numbers, or log odds. Every other name is that of a method."""


def encoded_target(y: object, n_samples: int, classes: Array | None, n_targets: int) -> Float:
    """Return y as targets (n, P): numbers, or indicators of classes."""
    if classes is not None:
        return indicators(check_known(y, n_samples, classes), classes.size)
    Y, _ = check_target(y, n_samples)
    if Y.shape[1] != n_targets:
        raise ValueError(f"y has {Y.shape[1]} columns, but the model has {n_targets} targets")
    return Y


def indicators(codes: Positions, n_classes: int) -> Float:
    """Return indicators (n, P) of class numbers (n,); of two classes only that of the second, (n, 1)."""
    return codes[:, None].astype(np.float64) if n_classes == 2 else np.eye(n_classes)[codes]


def codes_of(Y: Float) -> Positions:
    """Return class numbers (n,) of indicators (n, P), or (n, 1) for two classes."""
    return Y[:, 0].astype(np.intp) if Y.shape[1] == 1 else Y.argmax(axis=1)
