"""Targets as models see them: numbers, or indicators of classes."""

from __future__ import annotations

import numpy as np

from budgetline.arrays import Array, Float, Positions
from budgetline.inputs import check_known, check_target


def encoded_target(y: object, n_samples: int, classes: Array | None, n_targets: int) -> Float:
    """Return y as targets (n, P): numbers, one flag for two classes, or one per class."""
    if classes is not None:
        labels = check_known(y, n_samples, classes)
        return labels[:, None].astype(np.float64) if classes.size == 2 else np.eye(classes.size)[labels]
    Y, _ = check_target(y, n_samples)
    if Y.shape[1] != n_targets:
        raise ValueError(f"y has {Y.shape[1]} columns, the model {n_targets} targets")
    return Y


def codes_of(Y: Float) -> Positions:
    """Return class numbers (n,) of indicators (n, P), or (n, 1) for two classes."""
    return Y[:, 0].astype(np.intp) if Y.shape[1] == 1 else Y.argmax(axis=1)
