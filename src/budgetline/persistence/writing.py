"""From a fitted model to the fields and arrays of a file."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray

from budgetline.baselines import GroupLassoPath
from budgetline.estimators import (
    AnytimeClassifier,
    AnytimeClassifierCV,
    AnytimeRegressor,
    AnytimeRegressorCV,
)
from budgetline.estimators.base import AnytimeEstimator
from budgetline.groups.plain import plain_groups
from budgetline.model.anytime import AnytimeModel
from budgetline.model.stages import StagedModel
from budgetline.model.subsets import LinearSubset, QuadraticSubset
from budgetline.objectives.families import ConvexLoss
from budgetline.persistence.settings import NotPlainError, to_plain

KIND = "model"
"""Kind of the files."""
Model = AnytimeRegressor | AnytimeRegressorCV | AnytimeClassifier | AnytimeClassifierCV | GroupLassoPath
"""What a file holds."""
ESTIMATORS: dict[str, type[AnytimeEstimator]] = {cls.__name__: cls for cls in get_args(Model)}
SMALL, LARGEST_RATIO = 1 << 26, 1000
"""A file may unfold into so many bytes, or into so many times its own size: its columns are counted, not stored."""

Arrays = dict[str, NDArray[Any]]


def unfolded(n_features: int, n_targets: int, stages: int, lambdas: int) -> int:
    """Return the bytes of a loaded model that grow with the number of columns of X."""
    return 8 * n_features * (n_targets * (1 + stages + lambdas) + 2)


def parts_of(model: AnytimeModel) -> tuple[dict[str, Any], Arrays]:
    """Return the fields and arrays that make up a fitted model; ``left_out`` names the settings without a plain form.

    Everything that follows from something else is left out: costs and columns of the sequence follow from the groups
    and the order. Coefficients are those of the columns of the sequence, in its order.
    """
    if isinstance(model.family, ConvexLoss):
        raise TypeError("loss is a ConvexLoss: its functions cannot be saved, and predictions need them")
    staged = model.stages
    columns = staged.subset.columns
    settings, left_out = _settings(model)
    names = model.layout.names
    fields = {
        "estimator": model.estimator,
        "version": _version(),
        "settings": settings,
        "left_out": left_out,
        "feature_groups": plain_groups(model.groups),
        "n_features": int(model.layout.n_features),
        "feature_names": None if names is None else [str(name) for name in names],
        "target_shape": [int(p) for p in model.target_shape],
        "family": type(model.family).__name__,
        "null_value": float(staged.sequence.null_value),
        "n_passes": model.learned.get("n_passes_"),
        "alpha": model.learned.get("alpha_"),
        "classes": _plain_classes(model),
    }
    arrays: Arrays = {
        "order": staged.sequence.order.astype("<i8"),
        "gains": staged.sequence.gains,
        "coef": staged.coef_path[..., columns],
        "intercept": staged.intercept_path,
        "null_intercept": staged.null_intercept,
        "mean": staged.mean[model.layout.read],
        "scale": staged.scale[model.layout.read],
    }
    more, subset = _subset_parts(staged)
    fields["subset"] = subset
    arrays |= more | _learned(model)
    arrays = {name: _little_endian(array) for name, array in arrays.items()}
    _keep_in_proportion(model, fields, arrays)
    return fields, arrays


def _settings(model: AnytimeModel) -> tuple[dict[str, Any], list[str]]:
    """Return the settings that have a plain form, and the names of those that have none."""
    values = model.settings
    plain, left_out = {}, []
    for name, value in values.items():
        try:
            plain[name] = to_plain(value)
        except NotPlainError:
            left_out.append(name)
    if {"feature_groups", "costs"} & set(left_out):
        # the groups as they were used say the same, and a later fit needs them
        plain |= {"feature_groups": to_plain(model.groups), "costs": None}
        left_out = [name for name in left_out if name not in ("feature_groups", "costs")]
    return plain, left_out


def _plain_classes(model: AnytimeModel) -> Any:
    classes = model.classes
    try:
        return to_plain(classes)
    except NotPlainError as error:
        raise TypeError(f"classes_ cannot be saved: {error}") from error


def _subset_parts(staged: StagedModel) -> tuple[Arrays, dict[str, Any]]:
    """Return what predictions from any subset need."""
    subset = staged.subset
    if isinstance(subset, LinearSubset):
        return {"U": subset.factor.U, "z": subset.factor.z, "kept": subset.factor.kept}, {"stages": [], "by_column": []}
    if not isinstance(subset, QuadraticSubset):
        raise TypeError(f"a model with a {type(subset).__name__} cannot be saved")
    arrays: Arrays = {}
    by_column = []
    for k, expansion in enumerate(subset.expansions):
        # sums are taken in the order of memory: to the last bit, products depend on it
        by_column.append(bool(expansion.H.flags.f_contiguous and not expansion.H.flags.c_contiguous))
        arrays[f"H{k}"] = expansion.H.T if by_column[-1] else expansion.H
        arrays[f"theta{k}"], arrays[f"gradient{k}"] = expansion.theta, expansion.gradient
    return arrays, {"stages": [int(e.stage) for e in subset.expansions], "by_column": by_column}


def _learned(model: AnytimeModel) -> Arrays:
    """Return what only some estimators have: moments, the scores of folds, the path of the lasso."""
    found: Arrays = {}
    learned = model.learned
    if model.moments is not None:
        found["moments"] = np.frombuffer(model.moments.to_bytes(), dtype=np.uint8)
    if "cv_scores_" in learned:
        found["cv_scores"] = learned["cv_scores_"]
    if "lambdas_" in learned:
        path = learned["path_coef_"][..., model.layout.read]
        found |= {
            "lambdas": learned["lambdas_"],
            "path_coef": path.reshape(len(path), model.n_targets, -1),
            "path_intercept": learned["path_intercept_"].reshape(len(path), model.n_targets),
            "dual_gaps": learned["dual_gaps_"],
            "entry_lambdas": learned["entry_lambdas_"],
        }
    return found


def _keep_in_proportion(model: AnytimeModel, fields: dict[str, Any], arrays: Arrays) -> None:
    """Store all columns where a few of very many would make a file that unfolds into far more than its own size."""
    stages, P = arrays["intercept"].shape
    lambdas = len(arrays.get("lambdas", ()))
    most = max(SMALL, LARGEST_RATIO * sum(array.nbytes for array in arrays.values()))
    if unfolded(fields["n_features"], P, stages, lambdas) > most:
        arrays["coef"] = model.stages.coef_path


def _little_endian(array: NDArray[Any]) -> NDArray[Any]:
    return array.astype(array.dtype.newbyteorder("<"), copy=False)


def _version() -> str:
    try:
        return version("budgetline")
    except PackageNotFoundError:  # run from a folder
        return "unknown"
