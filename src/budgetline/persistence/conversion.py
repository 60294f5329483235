"""From models to the records of files and back: what a record lacks is derived, and what it has is checked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any, TypeVar, cast, get_args

import numpy as np

from budgetline.baselines import GroupLassoPath
from budgetline.estimators import AnytimeClassifier, AnytimeClassifierCV, AnytimeRegressor, AnytimeRegressorCV
from budgetline.estimators.base import DEFAULT_ALPHA, AnytimeEstimator
from budgetline.estimators.classifier import BaseClassifier
from budgetline.glm.families import LOSSES, ConvexLoss, Family, Logistic, Softmax, SquaredError
from budgetline.groups import Layout
from budgetline.groups.record import check_order
from budgetline.inputs import floats_of
from budgetline.messages import shown
from budgetline.model.anytime import AnytimeModel
from budgetline.model.population import Population
from budgetline.model.stages import StagedModel
from budgetline.model.subsets import GeneralisedSubset, LinearSubset, Subset
from budgetline.moments.moments import Moments
from budgetline.persistence.encoding_record import encoding_of, record_of_encoding
from budgetline.persistence.model_record import (
    LeastSquaresRecord,
    ModelRecord,
    PathRecord,
    PopulationRecord,
    SearchRecord,
    library_version,
)
from budgetline.persistence.plain_settings import from_plain, to_plain
from budgetline.sequencing.sequence import GroupSequence

R = TypeVar("R")
LinearEstimator = AnytimeRegressor | AnytimeRegressorCV | AnytimeClassifier | AnytimeClassifierCV | GroupLassoPath
"""The estimators whose stages are linear models."""
ESTIMATORS: dict[str, type[AnytimeEstimator]] = {cls.__name__: cls for cls in get_args(LinearEstimator)}
DEFAULTS = {name: cls().get_params(deep=False) for name, cls in ESTIMATORS.items()}


def record_of_model(model: AnytimeModel) -> ModelRecord:
    """Return the record of a model; ``left_out`` names the settings that have no plain form."""
    if isinstance(model.family, ConvexLoss):
        raise TypeError("loss is a ConvexLoss: its functions cannot be saved, and predictions need them")
    stages, sequence, read = model.stages, model.sequence, model.layout.read
    settings, left_out = _settings_of(model)
    least_squares, population = _parts_of_subset(stages.subset)
    record = ModelRecord(
        estimator=model.estimator,
        version=library_version(),
        settings=settings,
        left_out=left_out,
        feature_groups=model.groups,
        n_features=model.source.n_features,
        feature_names=model.source.names,
        target_shape=model.target_shape,
        null_value=sequence.null_value,
        classes=model.classes,
        order=sequence.order,
        gains=sequence.gains,
        coef=stages.coef_path[..., stages.columns],
        intercept=stages.intercept_path,
        null_intercept=stages.null_intercept,
        mean=stages.mean[read],
        scale=stages.scale[read],
        group_penalties=model.penalties,
        least_squares=least_squares,
        population=population,
        encoding=None if model.encoding is None else record_of_encoding(model.encoding),
        **_learned_parts(model),
    )
    # where a few of very many columns are used, all are stored
    return replace(record, coef=stages.coef_path) if record.unfolds_too_far else record


def _settings_of(model: AnytimeModel) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Return the settings that have a plain form, and the names of those that have none."""
    kept, left_out = {}, []
    for name, value in model.settings.items():
        try:
            from_plain(to_plain(value), name)
            kept[name] = value
        except (TypeError, ValueError, RecursionError):
            left_out.append(name)
    if {"feature_groups", "costs"} & set(left_out):
        # the groups as they were used say the same, and a later fit needs them
        kept |= {"feature_groups": model.groups, "costs": None}
    return kept, tuple(name for name in left_out if name not in kept)


def _parts_of_subset(subset: Subset) -> tuple[LeastSquaresRecord | None, PopulationRecord | None]:
    """Return what predictions from any subset of the groups need."""
    if isinstance(subset, LinearSubset):
        return LeastSquaresRecord(subset.U, subset.z, subset.kept), None
    if subset.population is None:
        raise TypeError("a model that was fitted without subsets cannot be saved")
    return None, PopulationRecord(**vars(subset.population))


def _learned_parts(model: AnytimeModel) -> dict[str, Any]:
    """Return what only some estimators have: moments, the scores of a search, the path of a group lasso."""
    found = {name.removesuffix("_"): value for name, value in model.learned.items()}
    found.pop("correction", None)  # it follows from its scores
    if "path_coef" in found:
        shape = (found["lambdas"].size, model.n_targets)
        found["path_coef"] = found["path_coef"][..., model.layout.read].reshape(*shape, -1)
        found["path_intercept"] = found["path_intercept"].reshape(shape)
    moments, *folds = (None if m is None else _bytes_of(m) for m in (model.moments, *found.pop("fold_moments", ())))
    parts = {
        "alpha": found.pop("alpha", None),
        "n_passes": found.pop("n_passes", None),
        "search": _taken(SearchRecord, found),
        "path": _taken(PathRecord, found),
        "moments": moments,
        "fold_moments": tuple(folds),
    }
    if found:
        raise TypeError(f"{min(found)}_ of {model.estimator} cannot be saved: it is not known here")
    return parts


def _bytes_of(moments: Moments) -> np.ndarray:
    return np.frombuffer(moments.to_bytes(), dtype=np.uint8)


def _taken(cls: type[R], found: dict[str, Any]) -> R | None:
    """Take the fields of a record out of ``found``; None if none is there."""
    parts = {field.name: found.pop(field.name, None) for field in fields(cls)}  # type: ignore[arg-type]
    return cls(**parts) if any(part is not None for part in parts.values()) else None


def estimator_of(record: ModelRecord) -> LinearEstimator:
    """Return the fitted estimator; raise a ValueError if the parts of the record do not fit together."""
    name = record.estimator
    if name not in ESTIMATORS:
        raise ValueError(f"estimator {shown(name)} is not known, only {', '.join(ESTIMATORS)}")
    given, left_out = set(record.settings), set(record.left_out)
    if given | left_out != set(DEFAULTS[name]) or given & left_out:
        raise ValueError(f"the settings are not those of {name}")
    settings = DEFAULTS[name] | record.settings
    source, family = _source(record), _family(record, settings.get("loss", "squared_error"))
    encoding = None if record.encoding is None else encoding_of(record.encoding, source)
    layout = source if encoding is None else encoding.layout
    total, *folds = _moments(record, layout, family) or (None,)
    learned = _learned(record, layout, settings) | ({"fold_moments_": tuple(folds)} if folds else {})
    fixed = DEFAULT_ALPHA if settings.get("alpha") is None else settings["alpha"]
    alpha = float(fixed) if record.alpha is None else record.alpha
    penalties, correction = record.group_penalties, learned.get("correction_", settings.get("correction", 0.0))
    if (penalties is None) != (correction == 0) or (penalties is not None and penalties.size != len(layout.groups)):
        raise ValueError(f"group_penalties must be one per group, and only with a correction, got {shown(correction)}")
    about = (record.classes, total, name, settings, learned, encoding, penalties)
    model = AnytimeModel(layout, _stages(record, layout, family, alpha), family, record.target_shape, alpha, *about)
    return cast(LinearEstimator, ESTIMATORS[name].from_model(model))


def _source(record: ModelRecord) -> Layout:
    """Find the groups among the columns; refuse numbers of columns that nothing in the file accounts for."""
    groups, D, names = record.feature_groups, record.n_features, record.feature_names
    if names is not None and len(names) != D:
        raise ValueError(f"feature_names has {len(names)} entries, n_features is {D}")
    if record.unfolds_too_far:
        raise ValueError(f"{D} features are too many for arrays of {record.stored_bytes} bytes")
    n_columns = sum(map(len, groups.columns))
    if n_columns > D or (groups.remainder == "error" and n_columns < D):
        raise ValueError(f"the groups have {n_columns} columns, n_features is {D}")
    check_order(record.order, groups)
    return groups.resolve(names, D)


def _family(record: ModelRecord, loss: str) -> Family:
    """Return the family of the loss, if classes and targets can have it."""
    P, labels, shape = record.null_intercept.size, record.classes, record.target_shape
    if P < 1 or shape not in ((P,), () if P == 1 else (P,)):
        raise ValueError(f"target_shape {shape} does not match {P} targets")
    if issubclass(ESTIMATORS[record.estimator], BaseClassifier):
        if not isinstance(labels, np.ndarray) or labels.ndim != 1 or not 2 <= labels.size == len(set(labels.tolist())):
            raise ValueError("classes is not an array of two or more different labels")
        if shape != (() if labels.size == 2 else (labels.size,)):
            raise ValueError(f"{labels.size} classes do not match target_shape {shape}")
        if record.stored_bytes < 8 * (labels.size - 2) ** 2:  # a family is a matrix of them
            raise ValueError(f"{labels.size} classes are too many for the arrays")
        return Logistic() if labels.size == 2 else Softmax(labels.size)
    if labels is not None or loss not in LOSSES or (shape and loss != "squared_error"):
        raise ValueError(f"classes or the loss {shown(loss)} do not match {record.estimator} and its targets")
    return LOSSES[loss]()


def _stages(record: ModelRecord, layout: Layout, family: Family, alpha: float) -> StagedModel:
    groups, order, read = layout.groups, record.order.tolist(), layout.read
    if record.mean.size != read.size or not np.all(record.scale > 0):
        raise ValueError(f"mean and scale must have {read.size} entries, those of scale positive")
    columns = np.concatenate([np.empty(0, dtype=np.intp), *(layout.position[g] for g in order)])
    ends = np.cumsum([layout.columns[g].size for g in order], dtype=np.intp)
    coef = np.zeros((*record.intercept.shape, read.size))
    if record.coef.shape[-1] == columns.size:
        coef[..., columns] = record.coef
    elif record.coef.shape[-1] == layout.n_features:
        coef[...] = record.coef[..., read]
    else:
        raise ValueError(f"coef has {record.coef.shape[-1]} columns, the sequence {columns.size}")
    names, costs = tuple(groups.names[g] for g in order), groups.prices.steps(record.order)
    sequence = GroupSequence(record.order, names, costs, record.gains, record.null_value)
    parts = (coef, record.intercept, record.null_intercept, columns, ends)
    subset = _subset(record, columns.size, family, alpha)
    found = StagedModel(sequence, groups.names, *parts, subset, record.mean, record.scale)
    return found.embedded(read, layout.n_features)


def _subset(record: ModelRecord, n_columns: int, family: Family, alpha: float) -> Subset:
    """Return what predicts from any subset of the groups: by least squares, or from a population."""
    linear, population = record.least_squares, record.population
    if linear is not None and population is None and isinstance(family, SquaredError):
        if linear.kept.size != n_columns or linear.kept.sum() != len(linear.U):
            raise ValueError(f"U and kept of least_squares do not belong to the {n_columns} columns of the sequence")
        return LinearSubset(linear.U, linear.z, linear.kept, record.null_intercept)
    if population is None or linear is not None:
        raise ValueError("a model needs either least_squares, with squared error, or a population")
    n_scores = record.null_intercept.size - isinstance(family, Softmax)
    if population.slope.shape != (n_columns, n_scores) or population.factor.shape[1] != n_columns:
        raise ValueError(f"factor and slope of population do not belong to the {n_columns} columns of the sequence")
    if abs(population.share.sum() - 1) > 1e-6 or not population.share.all():
        raise ValueError("population.share must be positive and sum to one")
    return GeneralisedSubset(Population(**vars(population)), family, alpha)


def _learned(record: ModelRecord, layout: Layout, settings: Mapping[str, object]) -> dict[str, object]:
    """Return the attributes that only some estimators have."""
    searches = "alphas" in settings
    chooses = searches or settings["alpha"] == "auto" or (settings["alpha"] is None and record.encoding is not None)
    wanted = {"alpha": chooses, "search": searches, "path": record.estimator == GroupLassoPath.__name__}
    for name, needed in wanted.items():
        if (getattr(record, name) is None) == needed:
            raise ValueError(f"{name} is {'missing for' if needed else 'not for'} {record.estimator}")
    found: dict[str, object] = {"alpha": record.alpha, "n_passes": record.n_passes}
    found |= {} if record.search is None else _searched(record.search, settings["corrections"])
    found |= {} if record.path is None else _path(record.path, layout, record.target_shape)
    return {f"{name}_": value for name, value in found.items() if value is not None}


def _searched(search: SearchRecord, corrections: object) -> dict[str, object]:
    """Return the scores of a search, and the correction whose mean score is the best."""
    costs, scores, values = search.held_out[:, 0], search.correction_scores, floats_of(corrections)
    if not costs.size or costs[0] != 0 or not np.isfinite(costs).all() or np.any(np.diff(costs) < 0):
        raise ValueError("the costs of search.held_out must start at 0 and not decrease")
    if values.shape != scores.shape[:1] or not scores.size:
        raise ValueError(f"search.correction_scores has {len(scores)} rows, corrections are {shown(corrections)}")
    return vars(search) | {"correction": float(values[np.argmax(scores.mean(axis=1))])}


def _path(path: PathRecord, layout: Layout, target_shape: tuple[int, ...]) -> dict[str, object]:
    """Return the path of a group lasso over all columns of X."""
    if path.entry_lambdas.size != len(layout.groups):
        raise ValueError("path.entry_lambdas must have one entry per group")
    coef, single = np.zeros((*path.path_intercept.shape, layout.n_features)), slice(None) if target_shape else 0
    coef[..., layout.read] = path.path_coef
    return vars(path) | {"path_coef": coef[:, single], "path_intercept": path.path_intercept[:, single]}


def _moments(record: ModelRecord, layout: Layout, family: Family) -> list[Moments]:
    """Return the moments of all rows, then those of folds, if there are any."""
    stored = [raw for raw in (record.moments, *record.fold_moments) if raw is not None]
    if stored and (record.moments is None or not isinstance(family, SquaredError)):
        raise ValueError("moments of all rows are missing, or the loss is not squared error")
    if record.fold_moments and record.search is None:
        raise ValueError(f"fold_moments are not for {record.estimator}")
    found = [Moments.from_bytes(raw.tobytes(), "moments") for raw in stored]
    for part in found:
        known = part.feature_names in (None, layout.names_read) and part.n_features == layout.read.size
        if not known or part.target_shape != record.target_shape:
            raise ValueError("moments are of other columns or targets than the model")
    return found
