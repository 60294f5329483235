"""Models in one file each: saved and loaded without pickle."""

from __future__ import annotations

import os
import warnings
from typing import Any

from budgetline.files import decode, encode, read, write_atomically
from budgetline.messages import cut, shown
from budgetline.model.anytime import AnytimeModel, as_model
from budgetline.persistence.parts import Parts
from budgetline.persistence.reading import model_of
from budgetline.persistence.writing import ESTIMATORS, KIND, Model, parts_of


def check_model(model: Any, purpose: str) -> AnytimeModel:
    """Return the model of a fitted estimator of ours, or raise an error."""
    if type(model) not in ESTIMATORS.values():
        what = f"the class {model.__name__}" if isinstance(model, type) else type(model).__name__
        raise TypeError(f"{purpose} takes a fitted {', '.join(ESTIMATORS)}, got {what}")
    return as_model(model)


def save(model: Any, path: str | os.PathLike[str]) -> None:
    """Write a fitted model to one file, in full or not at all.

    The file holds settings, groups, the sequence, the models of all stages, and what predictions from any groups and
    ``partial_fit`` need. It holds no code.

    Parameters
    ----------
    model : AnytimeRegressor, AnytimeRegressorCV, AnytimeClassifier, AnytimeClassifierCV or GroupLassoPath
        Fitted. A setting that has no plain form and that predictions do not need, such as a splitter or a schedule of
        your own, is left out with a warning. A :class:`ConvexLoss` is refused: predictions need its functions.
    path : path

    Raises
    ------
    TypeError
        If this is not a model that can be saved.
    sklearn.exceptions.NotFittedError
        If it is not fitted.
    OSError
        If the file cannot be written; what was there before is still there.

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
    fields, arrays = parts_of(check_model(model, "save"))
    try:
        model_of(Parts(fields, arrays))  # what could not be read back is not written
    except ValueError as error:
        raise ValueError(f"this {type(model).__name__} cannot be saved: {error}") from error
    data = encode(KIND, arrays, fields)
    for name in fields["left_out"]:
        warnings.warn(
            f"the setting {name}={shown(getattr(model, name))} cannot be saved and is left out: a loaded model has the "
            "default. Predictions do not need it",
            UserWarning,
            stacklevel=2,
        )
    write_atomically(path, data)


def load(path: str | os.PathLike[str]) -> Model:
    """Read a model from a file; loading never runs code.

    Parameters
    ----------
    path : path

    Returns
    -------
    AnytimeRegressor, AnytimeRegressorCV, AnytimeClassifier, AnytimeClassifierCV or GroupLassoPath
        Of the class that was saved, fitted. Its predictions are those of the model that was saved, to the last bit on
        the same machine.

    Raises
    ------
    ValueError
        If the file is not a model, is damaged, or was written by a newer version.
    OSError
        If the file cannot be read.

    Examples
    --------
    >>> import numpy as np
    >>> import budgetline
    >>> X = np.random.default_rng(0).normal(size=(50, 3))
    >>> budgetline.save(budgetline.AnytimeRegressor(costs=[1, 2, 5]).fit(X, X[:, 2]), "model.budgetline")
    >>> budgetline.load("model.budgetline").sequence_.groups
    ('2', '0', '1')
    """
    where = str(path)
    arrays, fields = decode(read(path), KIND, where)
    try:
        return model_of(Parts(fields, arrays))
    except (ValueError, TypeError, OverflowError, RecursionError) as error:
        raise ValueError(
            f"{where} does not hold a model that fits together, it is damaged: {cut(str(error))}"
        ) from error
