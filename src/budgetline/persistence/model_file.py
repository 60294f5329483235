"""Models in one file each: saved and loaded without pickle."""

from __future__ import annotations

import warnings
from collections.abc import Collection
from typing import Any

from budgetline.arrays import Array
from budgetline.codec import from_bytes, from_parts, plain_of, to_bytes
from budgetline.estimators import StagedEstimators
from budgetline.files import PathName, encode, kind_of, read, write_atomically
from budgetline.messages import shown
from budgetline.model.anytime import AnytimeModel, as_model, as_staged
from budgetline.optimality import Plan
from budgetline.persistence.model_record import ModelRecord, record_of_model
from budgetline.persistence.restored_model import ESTIMATORS, LinearEstimator, estimator_of
from budgetline.persistence.staged_record import StagedRecord, record_of_staged, staged_of

KIND, STAGED = "model", "staged estimators"


def check_model(model: Any, purpose: str) -> AnytimeModel:
    """Return the model of a fitted estimator of budgetline, or of a plan; raise an error for anything else."""
    model = model.model_ if isinstance(model, Plan) else model
    known = model.estimator in ESTIMATORS if isinstance(model, AnytimeModel) else type(model) in ESTIMATORS.values()
    if not known:
        what = f"the class {model.__name__}" if isinstance(model, type) else type(model).__name__
        raise TypeError(f"{purpose} accepts a fitted {', '.join(ESTIMATORS)}, got {what}")
    return as_model(model)


def save(model: Any, path: PathName) -> None:
    """Write a fitted model to one file, completely or not at all.

    The file holds the parameters, the groups, the sequence, the models of all stages, and everything that
    ``partial_fit`` and predictions from any available groups need. It holds no code and no training rows.

    Parameters
    ----------
    model : AnytimeRegressor, AnytimeClassifier, AnytimeRanker, AnytimeSurvival, their CV versions, GroupLassoPath
        The fitted model. `StagedEstimators` are also accepted if skops, which writes the fitted clones, is installed.
        Their file contains the resulting order instead of the parameter ``order``. Parameters that cannot be written as
        plain values and that predictions do not need, such as a custom splitter or schedule, are left out with a
        warning. A `ConvexLoss` is rejected, because predictions need its functions.
    path : path
        The file to write. If writing fails, an existing file is left unchanged.

    Examples
    --------
    >>> import budgetline
    >>> from budgetline.datasets import load_heart
    >>> heart = load_heart()
    >>> model = budgetline.AnytimeClassifier(heart.feature_groups, alpha=1e-2).fit(heart.data, heart.target)
    >>> budgetline.save(model, "heart.budgetline")
    >>> budgetline.load("heart.budgetline").predict(heart.data[:2], budget=20).tolist()
    [0, 1]
    """
    if isinstance(model, StagedEstimators):
        as_staged(model)  # which must be fitted
        write_atomically(path, to_bytes(STAGED, record_of_staged(model)))
        return
    fitted = check_model(model, "save")
    record, left_out = record_of_model(fitted)
    arrays: dict[str, Array] = {}
    fields = plain_of(record, arrays)
    try:
        estimator_of(from_parts(ModelRecord, fields, arrays))  # what could not be read back is not written
    except ValueError as error:
        raise ValueError(f"this {fitted.estimator} cannot be saved: {error}") from error
    for name in left_out:
        warnings.warn(
            f"the setting {name}={shown(fitted.settings[name])} cannot be saved and is left out: a loaded model has "
            "the default. Predictions do not need it",
            UserWarning,
            stacklevel=2,
        )
    write_atomically(path, encode(KIND, arrays, fields))


def load(path: PathName, *, trusted: Collection[str] = ()) -> LinearEstimator | StagedEstimators:
    """Load a model from a file, without running any code except from types that you declare as trusted.

    Parameters
    ----------
    path : path
        A file that ``save`` has written.
    trusted : names of types
        For `StagedEstimators`, the types in the file that skops does not know to be safe, such as the types of
        LightGBM. The error message lists them. Pass them only if you trust the source of the file.

    Returns
    -------
    A fitted estimator
        An estimator of the class that was saved. On the same machine, its predictions are bit for bit the same as those
        of the saved model.

    Raises
    ------
    ValueError
        If the file is not a model, is damaged, or was written by a version with another file format.

    Examples
    --------
    >>> import numpy as np
    >>> import budgetline
    >>> X = np.random.default_rng(0).normal(size=(50, 3))
    >>> budgetline.save(budgetline.AnytimeRegressor(costs=[1, 2, 5]).fit(X, X[:, 2]), "model.budgetline")
    >>> budgetline.load("model.budgetline").sequence_.groups
    ('2', '0', '1')
    """
    data, where = read(path), str(path)
    if kind_of(data, where) == STAGED:
        return staged_of(from_bytes(STAGED, StagedRecord, data, where, lambda record: record), trusted, where)
    if trusted:
        raise ValueError(f"trusted is for files of StagedEstimators, but {where} holds another model")
    return from_bytes(KIND, ModelRecord, data, where, estimator_of)


def load_linear(path: PathName) -> LinearEstimator:
    """Read a model whose stages are linear, as `load` does; a file of other estimators is an error."""
    data, where = read(path), str(path)
    if kind_of(data, where) == STAGED:
        raise ValueError(f"{where} holds StagedEstimators, but the command line needs a linear model: use Python")
    return from_bytes(KIND, ModelRecord, data, where, estimator_of)
