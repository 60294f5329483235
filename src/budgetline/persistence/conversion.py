"""From models to the records of files and back: what a record lacks is derived, and what it has is checked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from importlib.metadata import PackageNotFoundError, version
from typing import Any, cast, get_args

import numpy as np

from budgetline.arrays import Float
from budgetline.baselines import GroupLassoPath
from budgetline.encoding.table import TableEncoding
from budgetline.estimators import AnytimeClassifier, AnytimeClassifierCV, AnytimeRegressor, AnytimeRegressorCV
from budgetline.estimators.base import DEFAULT_ALPHA, AnytimeEstimator
from budgetline.estimators.classifier import BaseClassifier
from budgetline.groups import Layout
from budgetline.groups.record import check_order
from budgetline.inputs import floats_of
from budgetline.messages import shown
from budgetline.model.anytime import AnytimeModel
from budgetline.model.population import Population
from budgetline.model.stages import StagedModel
from budgetline.model.subsets import GeneralisedSubset, LinearSubset
from budgetline.objectives.families import LOSSES, ConvexLoss, Family, Logistic, Softmax, SquaredError
from budgetline.persistence.encoding_record import EncodingArrays, encoding_of, parts_of
from budgetline.persistence.model_record import ModelRecord
from budgetline.persistence.settings import from_plain, to_plain
from budgetline.sequencing.sequence import GroupSequence
from budgetline.statistics.moments import Moments

Model = AnytimeRegressor | AnytimeRegressorCV | AnytimeClassifier | AnytimeClassifierCV | GroupLassoPath
"""What a file holds."""
ESTIMATORS: dict[str, type[AnytimeEstimator]] = {cls.__name__: cls for cls in get_args(Model)}
DEFAULTS = {name: cls().get_params(deep=False) for name, cls in ESTIMATORS.items()}
SEARCH = ("alpha", "cv_scores", "correction_scores", "held_out")
PATH = ("lambdas", "path_coef", "path_intercept", "dual_gaps", "entry_lambdas")
LEARNED = (*SEARCH, "n_passes", *PATH)
"""Fitted attributes that only some estimators have, without their underscore."""
PARTS = tuple("cell_mean" if part.name == "mean" else part.name for part in fields(Population))
"""Names of the parts of a population in a record."""


def record_of_model(model: AnytimeModel) -> ModelRecord:
    """Return the record of a model; ``left_out`` names the settings that have no plain form."""
    if isinstance(model.family, ConvexLoss):
        raise TypeError("loss is a ConvexLoss: its functions cannot be saved, and predictions need them")
    stages, sequence, read = model.stages, model.sequence, model.layout.read
    settings, left_out = _settings_of(model)
    encoding, arrays = parts_of(model.encoding)
    record = ModelRecord(
        estimator=model.estimator,
        version=library_version(),
        settings=settings,
        left_out=left_out,
        feature_groups=model.groups,
        n_features=model.source.n_features,
        feature_names=model.source.names,
        target_shape=model.target_shape,
        family=type(model.family).__name__,
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
        encoding=encoding,
        pairs=() if model.encoding is None else tuple(pair.columns for pair in model.encoding.pairs),
        **vars(arrays),
        **_subset_parts(stages),
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


def _subset_parts(stages: StagedModel) -> dict[str, Any]:
    """Return what predictions from any subset need."""
    subset = stages.subset
    if isinstance(subset, LinearSubset):
        return {"U": subset.U, "z": subset.z, "kept": subset.kept, "variance": None, "n_rows": None}
    if not isinstance(subset, GeneralisedSubset) or subset.population is None:
        raise TypeError(f"a model with a {type(subset).__name__} cannot be saved")
    return dict(zip(PARTS, vars(subset.population).values(), strict=True))


def _learned_parts(model: AnytimeModel) -> dict[str, Any]:
    """Return what only some estimators have: moments, what a search found, the path of the lasso."""
    found = {name.removesuffix("_"): value for name, value in model.learned.items()}
    parts = {name: found.pop(name, None) for name in LEARNED}
    found.pop("correction", None)  # it follows from its scores
    folds = found.pop("fold_moments", ())
    if found:
        raise TypeError(f"{min(found)}_ of {model.estimator} cannot be saved: it is not known here")
    if parts["path_coef"] is not None:
        L, P = parts["lambdas"].size, model.n_targets
        parts["path_coef"] = parts["path_coef"][..., model.layout.read].reshape(L, P, -1)
        parts["path_intercept"] = parts["path_intercept"].reshape(L, P)
    raw = [None if m is None else np.frombuffer(m.to_bytes(), dtype=np.uint8) for m in (model.moments, *folds)]
    return parts | {"moments": raw[0], "fold_moments": tuple(raw[1:])}


def library_version() -> str:
    """Return the version of this library, for files."""
    try:
        return version("budgetline")
    except PackageNotFoundError:  # run from a folder
        return "unknown"


def estimator_of(record: ModelRecord) -> Model:
    """Return the fitted estimator; raise a ValueError if the parts of the record do not fit together."""
    name = record.estimator
    if name not in ESTIMATORS:
        raise ValueError(f"estimator {shown(name)} is not known, only {', '.join(ESTIMATORS)}")
    defaults = DEFAULTS[name]
    given, left_out = set(record.settings), set(record.left_out)
    if given | left_out != set(defaults) or given & left_out:
        raise ValueError(f"the settings are not those of {name}")
    settings = defaults | record.settings
    encoding, family = _encoding(record), _family(record, takes_loss="loss" in settings)
    layout = _source(record) if encoding is None else encoding.layout
    total, *folds = _moments(record, layout, family) or (None,)
    learned = _learned(record, layout, _chosen_by(settings, encoding))
    if "alphas" in settings:
        learned["correction_"] = _correction(learned["correction_scores_"], settings["corrections"])
    learned |= {"fold_moments_": tuple(folds)} if folds else {}
    fixed = DEFAULT_ALPHA if settings.get("alpha") is None else settings["alpha"]
    alpha = float(fixed) if record.alpha is None else record.alpha
    stages, shape, classes = _stages(record, layout, family, alpha), record.target_shape, record.classes
    about = (classes, total, name, settings, learned, encoding, _penalties(record, layout))
    model = AnytimeModel(layout, stages, family, shape, alpha, *about)
    correction = learned.get("correction_", settings.get("correction", 0.0))
    if (model.penalties is None) != (correction == 0):
        raise ValueError(f"group_penalties do not go with a correction of {shown(correction)}")
    return cast(Model, ESTIMATORS[name].from_model(model))


def _encoding(record: ModelRecord) -> TableEncoding | None:
    """Return the encoding, if there is one."""
    arrays = EncodingArrays(*(getattr(record, f.name) for f in fields(EncodingArrays)))
    if record.encoding:
        return encoding_of(record.encoding, record.pairs, arrays, _source(record))
    if record.pairs or any(vars(arrays).values()):
        raise ValueError("encoding is missing, of which pairs, knots, pieces and penalties are parts")
    return None


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


def _family(record: ModelRecord, *, takes_loss: bool) -> Family:
    """Return the family of the loss, if estimator, classes and targets can have it."""
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
        family: Family = Logistic() if labels.size == 2 else Softmax(labels.size)
    elif labels is not None:
        raise ValueError(f"classes are not for {record.estimator}")
    else:
        known = {type(make()).__name__: make for make in LOSSES.values()} if takes_loss and not shape else {}
        family = known.get(record.family, SquaredError)()
    if type(family).__name__ != record.family:
        raise ValueError(f"family {shown(record.family)} does not match {record.estimator} and its targets")
    return family


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
    sequence = GroupSequence(record.order.copy(), names, costs, record.gains.copy(), record.null_value)
    intercept, null_intercept = record.intercept.copy(), record.null_intercept.copy()
    subset = (_generalised if record.U is None else _linear)(record, columns.size, family, alpha)
    parts = (coef, intercept, null_intercept, columns, ends)
    found = StagedModel(sequence, groups.names, *parts, subset, record.mean, record.scale)
    return found.embedded(read, layout.n_features)


def _linear(record: ModelRecord, n_columns: int, family: Family, alpha: float) -> LinearSubset:
    U, z, kept = record.U, record.z, record.kept
    other = any(getattr(record, name) is not None for name in PARTS) or not isinstance(family, SquaredError)
    if U is None or z is None or kept is None or other:
        raise ValueError(f"U, z and kept go together, with squared error and without {', '.join(PARTS)}")
    if kept.size != n_columns or kept.sum() != len(U):
        raise ValueError(f"U and kept do not belong to the {n_columns} columns of the sequence")
    return LinearSubset(U, z, kept, record.null_intercept)


def _generalised(record: ModelRecord, n_columns: int, family: Family, alpha: float) -> GeneralisedSubset:
    parts = [getattr(record, name) for name in PARTS]
    if any(part is None for part in parts) or record.z is not None or record.kept is not None:
        raise ValueError(f"U is missing, or {', '.join(PARTS)} do not go together, without z and kept")
    found = Population(*parts)
    n_scores = record.null_intercept.size - isinstance(family, Softmax)
    if found.slope.shape != (n_columns, n_scores) or found.factor.shape[1] != n_columns:
        raise ValueError(f"factor and slope do not belong to the {n_columns} columns of the sequence")
    if abs(found.share.sum() - 1) > 1e-6 or not found.share.all():
        raise ValueError("share must be positive and sum to one")
    return GeneralisedSubset(found, family, alpha)


def _penalties(record: ModelRecord, layout: Layout) -> Float | None:
    """Return what was subtracted from the gains of the groups, if anything was."""
    found = record.group_penalties
    if found is not None and found.size != len(layout.groups):
        raise ValueError(f"group_penalties has {found.size} entries, not one per group")
    return None if found is None else found.copy()


def _correction(scores: Float, corrections: object) -> float:
    """Return the correction with the best mean score."""
    values = floats_of(corrections)
    if values.shape != scores.shape[:1] or not scores.size:
        raise ValueError(f"correction_scores has {len(scores)} rows, corrections are {shown(corrections)}")
    return float(values[np.argmax(scores.mean(axis=1))])


def _chosen_by(settings: Mapping[str, Any], encoding: TableEncoding | None) -> tuple[str, ...]:
    """Return the parts that an estimator with these settings has because it chooses alpha, and a correction."""
    if "alphas" in settings:
        return SEARCH
    auto = settings["alpha"] == "auto" or (settings["alpha"] is None and encoding is not None)
    return SEARCH[:1] if auto else ()


def _learned(record: ModelRecord, layout: Layout, chosen: tuple[str, ...]) -> dict[str, Any]:
    """Return what only some estimators have."""
    found = {part: value for part in LEARNED if (value := getattr(record, part)) is not None}
    wanted = {*chosen, *(PATH if record.estimator == GroupLassoPath.__name__ else ())}
    if wrong := sorted(wanted ^ (set(found) - {"n_passes"})):
        raise ValueError(f"{wrong[0]} is {'missing for' if wrong[0] in wanted else 'not for'} {record.estimator}")
    found = {part: value.copy() if isinstance(value, np.ndarray) else value for part, value in found.items()}
    if record.held_out is not None:
        costs = record.held_out[:, 0]
        if not costs.size or costs[0] != 0 or not np.isfinite(costs).all() or np.any(np.diff(costs) < 0):
            raise ValueError("the costs of held_out must start at 0 and not decrease")
    if record.lambdas is not None:
        if found["entry_lambdas"].size != len(layout.groups):
            raise ValueError("entry_lambdas must have one entry per group")
        coef = np.zeros((*found["path_intercept"].shape, layout.n_features))
        coef[..., layout.read] = record.path_coef
        single = 0 if not record.target_shape else slice(None)
        found |= {"path_coef": coef[:, single], "path_intercept": found["path_intercept"][:, single]}
    return {f"{part}_": value for part, value in found.items()}


def _moments(record: ModelRecord, layout: Layout, family: Family) -> list[Moments]:
    """Return the moments of all rows, then those of folds, if there are any."""
    stored = [raw for raw in (record.moments, *record.fold_moments) if raw is not None]
    if stored and (record.moments is None or not isinstance(family, SquaredError)):
        raise ValueError(f"moments are missing beside fold_moments, or not for family {record.family}")
    if record.fold_moments and record.cv_scores is None:
        raise ValueError(f"fold_moments are not for {record.estimator}")
    found = [Moments.from_bytes(raw.tobytes(), "moments") for raw in stored]
    for part in found:
        known = part.feature_names in (None, layout.names_read) and part.n_features == layout.read.size
        if not known or part.target_shape != record.target_shape:
            raise ValueError("moments are of other columns or targets than the model")
    return found
