"""What a file holds of a model: everything that does not follow from the rest (``restored_model``: the way back).

Costs and columns of the sequence follow from the groups and the order. Coefficients are those of the columns of the
sequence, in its order. Subsets, encoders, pairs and moments are stored as they are.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import Annotated, Any

import numpy as np

from budgetline.arrays import Float, Positions
from budgetline.codec import AtLeast, Shape
from budgetline.encoding.encoders import Encoder
from budgetline.encoding.table import Pair
from budgetline.glm.families import ConvexLoss
from budgetline.groups.feature_groups import StoredGroups
from budgetline.model.anytime import AnytimeModel
from budgetline.model.calibration import Calibration
from budgetline.model.held_out_errors import HeldOutErrors
from budgetline.model.population import Population
from budgetline.model.spread import Spread
from budgetline.model.subsets import LinearSubset
from budgetline.moments.moments import Moments
from budgetline.persistence.plain_settings import PlainSetting, from_plain, to_plain


def library_version() -> str:
    """Return the version of this library, for files."""
    try:
        return version("budgetline")
    except PackageNotFoundError:  # run from a folder
        return "unknown"


@dataclass(frozen=True, eq=False)
class ModelRecord:
    """A fitted estimator as a file holds it; ``numbers`` and ``arrays`` are further fitted attributes."""

    estimator: str
    version: str
    settings: dict[str, PlainSetting]
    feature_groups: StoredGroups
    n_features: Annotated[int, AtLeast(1)]
    feature_names: tuple[str, ...] | None
    target_shape: tuple[int, ...]
    null_value: float
    alpha: Annotated[float, AtLeast(0)]
    classes: PlainSetting
    order: Annotated[Positions, Shape("stages")]
    gains: Annotated[Float, Shape("stages")]
    coef: Annotated[Float, Shape("stages targets columns")]
    intercept: Annotated[Float, Shape("stages targets")]
    null_intercept: Annotated[Float, Shape("targets")]
    mean: Annotated[Float, Shape("read")]
    scale: Annotated[Float, Shape("read", finite=False)]
    penalties: Annotated[Float | None, Shape("groups"), AtLeast(0)]
    subset: LinearSubset | Population
    moments: Moments | None
    numbers: dict[str, int | float]
    arrays: dict[str, Annotated[Float, Shape(None, finite=False)]]
    encoders: tuple[Encoder, ...] | None
    pairs: tuple[Pair, ...]
    calibration: Calibration | None
    errors: HeldOutErrors | None
    spread: Spread | None


def record_of_model(model: AnytimeModel) -> tuple[ModelRecord, list[str]]:
    """Return the record of a model, and the settings that are left out because they have no plain form."""
    if isinstance(model.family, ConvexLoss):
        raise TypeError("loss is a ConvexLoss: its functions cannot be saved, and predictions need them")
    stages, sequence, encoding = model.stages, model.sequence, model.encoding
    subset = stages.subset if isinstance(stages.subset, LinearSubset) else stages.subset.population
    if subset is None:
        raise TypeError("a model that was fitted without subsets cannot be saved")
    settings, left_out = _settings_of(model)
    learned = dict(model.learned)
    arrays = {name: learned.pop(name) for name in list(learned) if isinstance(learned[name], np.ndarray)}
    if odd := [name for name, value in learned.items() if not isinstance(value, int | float)]:
        raise TypeError(f"{odd[0]} of {model.estimator} cannot be saved: it is neither a number nor an array")
    record = ModelRecord(
        estimator=model.estimator,
        version=library_version(),
        settings=settings,
        feature_groups=model.groups,
        n_features=model.source.n_features,
        feature_names=model.source.names,
        target_shape=model.target_shape,
        null_value=sequence.null_value,
        alpha=model.alpha,
        classes=model.classes,
        order=sequence.order,
        gains=sequence.gains,
        coef=stages.coef_path[..., stages.columns],
        intercept=stages.intercept_path,
        null_intercept=stages.null_intercept,
        mean=stages.mean[model.layout.read],
        scale=stages.scale[model.layout.read],
        penalties=model.penalties,
        subset=subset,
        moments=model.moments,
        numbers=learned,
        arrays=arrays,
        encoders=None if encoding is None else encoding.encoders,
        pairs=() if encoding is None else encoding.pairs,
        calibration=model.calibration,
        errors=model.errors,
        spread=stages.spread,
    )
    return record, left_out


def _settings_of(model: AnytimeModel) -> tuple[dict[str, Any], list[str]]:
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
    return kept, [name for name in left_out if name not in kept]
