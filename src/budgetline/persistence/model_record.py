"""What a file holds of a model: everything that does not follow from the rest; from models to records and back.

Costs and columns of the sequence follow from the groups and the order. Coefficients are those of the columns of the
sequence, in its order.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from importlib.metadata import PackageNotFoundError, version
from itertools import pairwise
from typing import Annotated, Any, cast, get_args

import numpy as np
from numpy.typing import NDArray

from budgetline.baselines import GroupLassoPath
from budgetline.codec import AtLeast, Shape, arrays_of
from budgetline.estimators import AnytimeClassifier, AnytimeClassifierCV, AnytimeRegressor, AnytimeRegressorCV
from budgetline.estimators.base import AnytimeEstimator
from budgetline.groups import Layout
from budgetline.groups.record import StoredGroups, check_order
from budgetline.messages import shown
from budgetline.model.anytime import AnytimeModel
from budgetline.model.stages import StagedModel
from budgetline.objectives.families import LOSSES, ConvexLoss, Family, Logistic, Softmax, SquaredError
from budgetline.objectives.least_squares import Factor
from budgetline.objectives.subsets import Expansion, LinearSubset, QuadraticSubset
from budgetline.persistence.settings import NotPlainError, Setting, to_plain
from budgetline.sequencing.sequence import GroupSequence
from budgetline.statistics.moments import Moments

Model = AnytimeRegressor | AnytimeRegressorCV | AnytimeClassifier | AnytimeClassifierCV | GroupLassoPath
"""What a file holds."""
ESTIMATORS: dict[str, type[AnytimeEstimator]] = {cls.__name__: cls for cls in get_args(Model)}
LATER_SETTINGS = {"AnytimeRegressorCV": {"loss", "tol"}}
"""Settings that files of version 0.1 do not have; their defaults are what that version did."""
LEARNED = ("alpha", "cv_scores", "n_passes", "lambdas", "path_coef", "path_intercept", "dual_gaps", "entry_lambdas")
"""Fitted attributes of some estimators, without their underscore."""
PATH, SEARCH = LEARNED[3:], LEARNED[:2]
SMALL, LARGEST_RATIO = 1 << 26, 1000
"""A file may unfold into this many bytes, or this many times its own size: its columns are counted, not stored."""

Float = NDArray[np.float64]
Vector = Annotated[Float, Shape("width")]
Bytes = Annotated[NDArray[np.uint8], Shape("*")]


@dataclass(frozen=True)
class Expansions:
    """The stages around which there are quadratic models, and whether the memory of each H goes column by column."""

    stages: tuple[int, ...]
    by_column: tuple[bool, ...]


@dataclass(frozen=True, eq=False)
class ModelRecord:
    """A fitted estimator as a file holds it. ``U``, ``z`` and ``kept``, or ``H``, ``theta`` and ``gradient``, are for
    predictions from any subset of the groups."""

    estimator: str
    version: str
    settings: dict[str, Setting]
    left_out: tuple[str, ...]
    feature_groups: StoredGroups
    n_features: Annotated[int, AtLeast(1)]
    feature_names: tuple[str, ...] | None
    target_shape: tuple[int, ...]
    family: str
    null_value: float
    n_passes: Annotated[int, AtLeast(1)] | None
    alpha: float | None
    classes: Setting
    subset: Expansions
    order: Annotated[NDArray[np.intp], Shape("stages")]
    gains: Annotated[Float, Shape("stages")]
    coef: Annotated[Float, Shape("stages targets *")]
    intercept: Annotated[Float, Shape("stages targets")]
    null_intercept: Annotated[Float, Shape("targets")]
    mean: Annotated[Float, Shape("read")]
    scale: Annotated[Float, Shape("read", finite=False)]
    U: Annotated[Float, Shape("rows columns")] | None = None
    z: Annotated[Float, Shape("rows targets")] | None = None
    kept: Annotated[NDArray[np.bool_], Shape("columns")] | None = None
    H: tuple[Annotated[Float, Shape("width width")], ...] = ()
    theta: tuple[Vector, ...] = ()
    gradient: tuple[Vector, ...] = ()
    moments: Bytes | None = None
    fold_moments: tuple[Bytes, ...] = ()
    cv_scores: Annotated[Float, Shape("* *", finite=False)] | None = None
    lambdas: Annotated[Float, Shape("lambdas")] | None = None
    path_coef: Annotated[Float, Shape("lambdas targets read")] | None = None
    path_intercept: Annotated[Float, Shape("lambdas targets")] | None = None
    dual_gaps: Annotated[Float, Shape("lambdas")] | None = None
    entry_lambdas: Annotated[Float, Shape("groups", finite=False)] | None = None

    @property
    def stored_bytes(self) -> int:
        """Size of all arrays."""
        return sum(array.nbytes for array in arrays_of(self).values())

    @property
    def unfolds_too_far(self) -> bool:
        """Whether the arrays of a loaded model that grow with the columns of X are out of proportion to the file."""
        stages, P = self.intercept.shape
        lambdas = 0 if self.lambdas is None else self.lambdas.size
        unfolded = 8 * self.n_features * (P * (1 + stages + lambdas) + 2)
        return unfolded > max(SMALL, LARGEST_RATIO * self.stored_bytes)


# -- writing ---------------------------------------------------------------------------------------------------


def record_of_model(model: AnytimeModel) -> ModelRecord:
    """Return the record of a model; ``left_out`` names the settings that have no plain form."""
    if isinstance(model.family, ConvexLoss):
        raise TypeError("loss is a ConvexLoss: its functions cannot be saved, and predictions need them")
    stages, sequence, read = model.stages, model.sequence, model.layout.read
    settings, left_out = _settings_of(model)
    record = ModelRecord(
        estimator=model.estimator,
        version=_version(),
        settings=settings,
        left_out=left_out,
        feature_groups=model.groups,
        n_features=model.layout.n_features,
        feature_names=model.layout.names,
        target_shape=model.target_shape,
        family=type(model.family).__name__,
        null_value=sequence.null_value,
        classes=model.classes,
        order=sequence.order,
        gains=sequence.gains,
        coef=stages.coef_path[..., stages.subset.columns],
        intercept=stages.intercept_path,
        null_intercept=stages.null_intercept,
        mean=stages.mean[read],
        scale=stages.scale[read],
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
            to_plain(value)
            kept[name] = value
        except NotPlainError:
            left_out.append(name)
    if {"feature_groups", "costs"} & set(left_out):
        # the groups as they were used say the same, and a later fit needs them
        kept |= {"feature_groups": model.groups, "costs": None}
    return kept, tuple(name for name in left_out if name not in kept)


def _subset_parts(stages: StagedModel) -> dict[str, Any]:
    """Return what predictions from any subset need."""
    subset = stages.subset
    if isinstance(subset, LinearSubset):
        factor = subset.factor
        return {"subset": Expansions((), ()), "U": factor.U, "z": factor.z, "kept": factor.kept}
    assert isinstance(subset, QuadraticSubset)
    around = subset.expansions
    # sums are taken in the order of memory: to the last bit, products depend on it
    by_column = tuple(e.H.flags.f_contiguous and not e.H.flags.c_contiguous for e in around)
    return {
        "subset": Expansions(tuple(e.stage for e in around), by_column),
        "H": tuple(e.H.T if turned else e.H for e, turned in zip(around, by_column, strict=True)),
        "theta": tuple(e.theta for e in around),
        "gradient": tuple(e.gradient for e in around),
    }


def _learned_parts(model: AnytimeModel) -> dict[str, Any]:
    """Return what only some estimators have: moments, what a search found, the path of the lasso."""
    found = {name.removesuffix("_"): value for name, value in model.learned.items()}
    parts = {name: found.pop(name, None) for name in LEARNED}
    folds = found.pop("fold_moments", ())
    if found:
        raise TypeError(f"{min(found)}_ of {model.estimator} cannot be saved: it is not known here")
    if parts["path_coef"] is not None:
        L, P = parts["lambdas"].size, model.n_targets
        parts["path_coef"] = parts["path_coef"][..., model.layout.read].reshape(L, P, -1)
        parts["path_intercept"] = parts["path_intercept"].reshape(L, P)
    raw = [np.frombuffer(m.to_bytes(), dtype=np.uint8) for m in (model.moments, *folds) if m is not None]
    return parts | {"moments": raw[0] if raw else None, "fold_moments": tuple(raw[1:])}


def _version() -> str:
    try:
        return version("budgetline")
    except PackageNotFoundError:  # run from a folder
        return "unknown"


# -- reading ---------------------------------------------------------------------------------------------------


def estimator_of(record: ModelRecord) -> Model:
    """Return the fitted estimator; raise a ValueError if the parts of the record do not fit together."""
    name = record.estimator
    if name not in ESTIMATORS:
        raise ValueError(f"estimator {shown(name)} is not known, only {', '.join(ESTIMATORS)}")
    defaults = ESTIMATORS[name]().get_params(deep=False)
    given, left_out = set(record.settings), set(record.left_out)
    missing = set(defaults) - given - left_out
    if given & left_out or (given | left_out) - set(defaults) or missing - LATER_SETTINGS.get(name, set()):
        raise ValueError(f"the settings are not those of {name}")
    layout = _layout(record)
    family = _family(record, takes_loss="loss" in defaults)
    stages = _stages(record, layout, family)
    moments, learned = _moments(record, layout, family), _learned(record, layout)
    if record.fold_moments:
        learned["fold_moments_"] = tuple(_moments_from(raw, record, layout) for raw in record.fold_moments)
    settings = defaults | record.settings
    alpha = float(settings.get("alpha", 0.0)) if record.alpha is None else record.alpha
    shape, classes = record.target_shape, record.classes
    model = AnytimeModel(layout, stages, family, shape, alpha, classes, moments, name, settings, learned)
    return cast(Model, ESTIMATORS[name].from_model(model))


def _layout(record: ModelRecord) -> Layout:
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
    P, classes, shape = record.null_intercept.size, record.classes, record.target_shape
    if P < 1 or shape not in ((P,), *([()] if P == 1 else [])):
        raise ValueError(f"target_shape {shape} does not go with {P} targets")
    known = {type(make()).__name__: make for make in LOSSES.values()}
    if issubclass(ESTIMATORS[record.estimator], AnytimeClassifier):
        if not isinstance(classes, np.ndarray) or classes.ndim != 1 or len(set(classes.tolist())) < max(2, classes.size):
            raise ValueError("classes is not an array of two or more different labels")
        if shape != (() if classes.size == 2 else (classes.size,)):
            raise ValueError(f"{classes.size} classes do not go with target_shape {shape}")
        if 8 * (classes.size - 2) ** 2 > record.stored_bytes:  # a family is a matrix of them
            raise ValueError(f"{classes.size} classes are too many for the arrays")
        known = {"Logistic": Logistic} if classes.size == 2 else {"Softmax": lambda: Softmax(classes.size)}
    elif classes is not None:
        raise ValueError(f"classes are not for {record.estimator}")
    elif not takes_loss or shape:
        known = {"SquaredError": SquaredError}
    if record.family not in known:
        raise ValueError(f"family {shown(record.family)} does not go with {record.estimator} and its targets")
    return known[record.family]()


def _stages(record: ModelRecord, layout: Layout, family: Family) -> StagedModel:
    groups, order, read = layout.groups, record.order.tolist(), layout.read
    if record.mean.size != read.size:
        raise ValueError(f"mean and scale have {record.mean.size} entries, the groups {read.size} columns")
    if not np.all(record.scale > 0):
        raise ValueError("scale holds numbers that are not positive")
    columns = np.concatenate([np.empty(0, dtype=np.intp), *(layout.position[g] for g in order)])
    ends = np.cumsum([layout.columns[g].size for g in order], dtype=np.intp)
    coef = np.zeros((*record.intercept.shape, read.size))
    if record.coef.shape[-1] == columns.size:
        coef[..., columns] = record.coef
    elif record.coef.shape[-1] == layout.n_features:
        coef[...] = record.coef[..., read]
    else:
        raise ValueError(f"coef has {record.coef.shape[-1]} columns, the sequence {columns.size}")
    names = tuple(groups.names[g] for g in order)
    costs, gains = groups.prices.steps(record.order), record.gains.copy()
    subset = (_linear if record.U is not None else _quadratic)(record, columns, ends, family)
    return StagedModel(
        GroupSequence(record.order.copy(), names, costs, gains, record.null_value),
        groups.names,
        coef,
        record.intercept.copy(),
        record.null_intercept.copy(),
        subset,
        record.mean,
        record.scale,
    ).embedded(read, layout.n_features)


def _linear(record: ModelRecord, columns: NDArray[np.intp], ends: NDArray[np.intp], family: Family) -> LinearSubset:
    U, z, kept = record.U, record.z, record.kept
    if U is None or z is None or kept is None:
        raise ValueError("U, z or kept is missing")
    if not isinstance(family, SquaredError) or record.subset.stages or record.subset.by_column or record.H:
        raise ValueError("U is for squared error alone, without quadratic models")
    if kept.size != columns.size or kept.sum() != len(U):
        raise ValueError(f"U and kept do not belong to the {columns.size} columns of the sequence")
    row_ends = np.concatenate([[0], np.cumsum(kept, dtype=np.intp)])[ends]
    return LinearSubset(Factor(U, z, columns, kept, row_ends, ends), record.null_intercept)


def _quadratic(
    record: ModelRecord, columns: NDArray[np.intp], ends: NDArray[np.intp], family: Family
) -> QuadraticSubset:
    stages, by_column = record.subset.stages, record.subset.by_column
    if record.z is not None or record.kept is not None:
        raise ValueError("U is missing beside z and kept")
    if not stages or stages[-1] != record.order.size or stages[0] < 0 or any(a >= b for a, b in pairwise(stages)):
        raise ValueError("subset: its stages do not increase to the last one")
    if not len(by_column) == len(record.H) == len(record.theta) == len(record.gradient) == len(stages):
        raise ValueError(f"subset has {len(stages)} stages: by_column, H, theta or gradient has more or fewer")
    n_scores = record.null_intercept.size - isinstance(family, Softmax)
    if len(record.theta[0]) != n_scores * (1 + columns.size):
        raise ValueError(f"H, theta and gradient do not belong to the {columns.size} columns of the sequence")
    for k, H in enumerate(record.H):
        with np.errstate(all="ignore"):
            convex = np.all(np.diag(H) >= 0) and np.all(np.abs(H - H.T) <= 1e-6 * np.diag(H).max(initial=0.0))
        if not convex:
            raise ValueError(f"H{k} is not the second derivative of a convex function")
    matrices = (H.T if turned else H for H, turned in zip(record.H, by_column, strict=True))
    around = tuple(map(Expansion, stages, matrices, record.theta, record.gradient))
    return QuadraticSubset(around, n_scores, columns, ends, family)


def _learned(record: ModelRecord, layout: Layout) -> dict[str, Any]:
    """Return what only some estimators have."""
    name = record.estimator
    wanted = {*(SEARCH if "alphas" in record.settings or "alphas" in record.left_out else ())}
    wanted |= {*(PATH if name == GroupLassoPath.__name__ else ())}
    found = {part: value for part in LEARNED if (value := getattr(record, part)) is not None}
    if wrong := sorted(wanted ^ (set(found) - {"n_passes"})):
        raise ValueError(f"{wrong[0]} is {f'missing for {name}' if wrong[0] in wanted else f'not for {name}'}")
    found = {part: value.copy() if isinstance(value, np.ndarray) else value for part, value in found.items()}
    if "path_coef" in found:
        if found["entry_lambdas"].size != len(layout.groups):
            raise ValueError("entry_lambdas must have one entry per group")
        coef = np.zeros((*found["path_intercept"].shape, layout.n_features))
        coef[..., layout.read] = found["path_coef"]
        found |= {"path_coef": coef}
        if not record.target_shape:
            found |= {part: found[part][:, 0] for part in ("path_coef", "path_intercept")}
    return {f"{part}_": value for part, value in found.items()}


def _moments(record: ModelRecord, layout: Layout, family: Family) -> Moments | None:
    if record.moments is None:
        if record.fold_moments:
            raise ValueError("moments is missing beside fold_moments")
        return None
    if not isinstance(family, SquaredError) or (record.fold_moments and record.alpha is None):
        raise ValueError(f"moments or fold_moments is not for {record.estimator} with family {record.family}")
    return _moments_from(record.moments, record, layout)


def _moments_from(raw: NDArray[np.uint8], record: ModelRecord, layout: Layout) -> Moments:
    moments = Moments.from_bytes(raw.tobytes(), "moments")
    if (moments.n_features, moments.target_shape) != (layout.read.size, record.target_shape):
        raise ValueError("moments do not go with the model")
    if moments.feature_names not in (None, layout.names_read):
        raise ValueError("moments are of other columns")
    return moments
