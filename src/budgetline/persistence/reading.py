"""From the fields and arrays of a file to a fitted model; everything is checked before it is used."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from budgetline.baselines import GroupLassoPath
from budgetline.estimators import AnytimeClassifier
from budgetline.groups import Layout
from budgetline.groups.plain import groups_of
from budgetline.messages import shown
from budgetline.model.anytime import AnytimeModel
from budgetline.model.stages import StagedModel
from budgetline.model.subsets import LinearSubset, QuadraticSubset, Subset
from budgetline.objectives.factors import Factor
from budgetline.objectives.families import LOSSES, Family, Logistic, Softmax, SquaredError
from budgetline.objectives.glm import Expansion
from budgetline.persistence.parts import Parts, entries_of
from budgetline.persistence.settings import from_plain
from budgetline.persistence.writing import ESTIMATORS, LARGEST_RATIO, SMALL, Model, unfolded
from budgetline.sequencing.sequence import GroupSequence
from budgetline.statistics.moments import Moments

Float = NDArray[np.float64]


@dataclass(frozen=True)
class Frame:
    """What the sizes of all arrays follow from.

    Attributes
    ----------
    layout : Layout
    names : tuple of str, or None
        Column names of X.
    order : int array of shape (stages,)
    columns : int array of shape (T,)
        Columns of the sequence, counted among those that are in groups.
    ends : int array of shape (stages,)
        How many of them belong to the first j stages.
    target_shape : () or (P,)
    n_targets : int
    """

    layout: Layout
    names: tuple[str, ...] | None
    order: NDArray[np.intp]
    columns: NDArray[np.intp]
    ends: NDArray[np.intp]
    target_shape: tuple[int, ...]
    n_targets: int

    @property
    def used(self) -> NDArray[np.intp]:
        """Columns of X that are in groups, in the order of X."""
        return self.layout.read

    @property
    def stages(self) -> int:
        """Number of stages."""
        return self.order.size


def model_of(parts: Parts) -> Model:
    """Return the fitted estimator; raise a ValueError if parts are missing, do not fit together, or are not known."""
    name = parts.text("estimator")
    if name not in ESTIMATORS:
        raise ValueError(f"estimator {shown(name)} is not known, only {', '.join(ESTIMATORS)}")
    parts.text("version")
    settings = {key: from_plain(value) for key, value in parts.mapping("settings").items()}
    left_out = parts.list_of("left_out", str)
    if set(settings) & set(left_out) or {*settings, *left_out} != set(ESTIMATORS[name]._get_param_names()):
        raise ValueError(f"the settings are not those of {name}")
    estimator: Any = ESTIMATORS[name](**settings)
    estimator._validate_params()
    frame = _frame(parts)
    family = _family(parts, estimator, frame)
    staged = _staged(parts, frame, family)
    learned, alpha = _learned(parts, estimator, frame), float(getattr(estimator, "alpha", 0.0))
    classes = from_plain(parts.any("classes")) if isinstance(estimator, AnytimeClassifier) else None
    model = AnytimeModel(
        frame.layout,
        staged.embedded(frame.layout.read, frame.layout.n_features),
        family,
        frame.target_shape,
        learned.get("alpha_", alpha),
        classes,
        _moments(parts, family, frame),
        name,
        estimator.get_params(deep=False),
        learned,
    )
    parts.check_all_taken()
    loaded: Model = type(estimator).from_model(model)
    return loaded


def _frame(parts: Parts) -> Frame:
    """Read what the sizes follow from; refuse numbers of columns that nothing in the file accounts for."""
    groups = groups_of(parts.any("feature_groups"))
    n_features = parts.whole("n_features", 1)
    names = None if parts.any("feature_names") is None else tuple(parts.list_of("feature_names", str))
    if names is not None and len(names) != n_features:
        raise ValueError(f"feature_names has {len(names)} entries, n_features is {n_features}")
    stages, P = parts.array("intercept", "<f8", None, None).shape
    lambdas = len(parts.arrays["lambdas"]) if np.ndim(parts.arrays.get("lambdas", 0)) == 1 else 0
    size = sum(array.nbytes for array in parts.arrays.values())
    if unfolded(n_features, P, stages, lambdas) > max(SMALL, LARGEST_RATIO * size):
        raise ValueError(f"{n_features} features are too many for arrays of {size} bytes")
    n_columns = sum(map(len, groups.columns))
    if n_columns > n_features or (groups.remainder == "error" and n_columns < n_features):
        raise ValueError(f"the groups have {n_columns} columns, n_features is {n_features}")
    layout = groups.resolve(names, n_features)
    order = parts.array("order", "<i8", stages).astype(np.intp)
    if np.any(order < 0) or np.any(order >= len(groups)) or np.unique(order).size < stages:
        raise ValueError("order is not an order of the groups")
    if groups.prices.out_of_order(order.tolist()) is not None:
        raise ValueError("order has a group before one that it requires")
    chosen = [layout.columns[g] for g in order.tolist()]
    columns = np.searchsorted(layout.read, np.concatenate([np.empty(0, dtype=np.intp), *chosen]))
    ends = np.cumsum([c.size for c in chosen], dtype=np.intp)
    target_shape = tuple(parts.list_of("target_shape", int))
    if P < 1 or target_shape not in ((P,), *([()] if P == 1 else [])):
        raise ValueError(f"target_shape {target_shape} does not go with {P} targets")
    return Frame(layout, names, order, columns, ends, target_shape, P)


def _family(parts: Parts, model: Any, frame: Frame) -> Family:
    """Return the family that the estimator, its loss and its classes ask for, which must be the one that was saved."""
    plain = parts.any("classes")
    P, saved = frame.n_targets, parts.text("family")
    if isinstance(model, AnytimeClassifier):
        classes = from_plain(plain)
        if (
            not isinstance(classes, np.ndarray)
            or classes.ndim != 1
            or len(set(classes.tolist())) < max(2, len(classes))
        ):
            raise ValueError("classes is not an array of two or more different labels")
        if frame.target_shape != (() if len(classes) == 2 else (len(classes),)):
            raise ValueError(f"{len(classes)} classes do not go with {P} scores")
        if 8 * (len(classes) - 2) ** 2 > sum(array.nbytes for array in parts.arrays.values()):
            raise ValueError(f"{len(classes)} classes are too many for the arrays")  # a family is a matrix of them
        family: Family = Logistic() if len(classes) == 2 else Softmax(len(classes))
        if saved != type(family).__name__:
            raise ValueError(f"family {shown(saved)} does not go with {len(classes)} classes")
        return family
    known = {type(make()).__name__: make for make in LOSSES.values()}
    if plain is not None or saved not in known or (saved != "SquaredError" and not hasattr(model, "loss")):
        raise ValueError(f"family {shown(saved)} does not go with {type(model).__name__}")
    if saved != "SquaredError" and frame.target_shape:
        raise ValueError(f"family {shown(saved)} has one target")
    return known[saved]()


def _staged(parts: Parts, frame: Frame, family: Family) -> StagedModel:
    """Return the model over the columns that are in groups."""
    P, stages, used = frame.n_targets, frame.stages, frame.used
    coef = np.zeros((stages, P, used.size))
    stored = parts.array("coef", "<f8", stages, P, None)
    if stored.shape[-1] == frame.columns.size:
        coef[..., frame.columns] = stored
    elif stored.shape[-1] == frame.layout.n_features:
        coef[...] = stored[..., used]
    else:
        raise ValueError(f"coef has {stored.shape[-1]} columns, the sequence {frame.columns.size}")
    scale = parts.loose("scale", "<f8", used.size)
    if not np.all(scale > 0):
        raise ValueError("scale holds numbers that are not positive")
    groups = frame.layout.groups
    sequence = GroupSequence(
        frame.order,
        tuple(groups.names[g] for g in frame.order.tolist()),
        groups.prices.steps(frame.order),
        parts.array("gains", "<f8", stages).copy(),
        parts.number("null_value"),
    )
    return StagedModel(
        sequence,
        groups.names,
        coef,
        parts.array("intercept", "<f8", stages, P).copy(),
        parts.array("null_intercept", "<f8", P).copy(),
        _subset(parts, frame, family),
        parts.array("mean", "<f8", used.size),
        scale,
    )


def _subset(parts: Parts, frame: Frame, family: Family) -> Subset:
    """Return what answers for any subset: one factor, or quadratic models around some of the stages."""
    plain = parts.mapping("subset")
    if set(plain) != {"stages", "by_column"}:
        raise ValueError("subset is not as it was written")
    stages = entries_of("stages", plain["stages"], int)
    by_column = entries_of("by_column", plain["by_column"], bool)
    T, P = frame.columns.size, frame.n_targets
    if "U" in parts.arrays:
        kept = parts.array("kept", "|b1", T)
        k = int(kept.sum())
        U, z = parts.array("U", "<f8", k, T), parts.array("z", "<f8", k, P)
        row_ends = np.concatenate([[0], np.cumsum(kept, dtype=np.intp)])[frame.ends]
        if stages or by_column or type(family).__name__ != "SquaredError":
            raise ValueError("U is for squared error alone")
        return LinearSubset(
            Factor(U, z, frame.columns, kept, row_ends, frame.ends), parts.array("null_intercept", "<f8", P)
        )
    n_scores = P - 1 if isinstance(family, Softmax) else P
    width = n_scores * (1 + T)
    if len(by_column) != len(stages) or not stages or stages[-1] != frame.stages or stages[0] < 0:
        raise ValueError("stages of the quadratic models do not end with the last one")
    if any(a >= b for a, b in pairwise(stages)):
        raise ValueError("stages of the quadratic models are not in order")
    expansions = []
    for k, stage in enumerate(stages):
        H = parts.array(f"H{k}", "<f8", width, width)
        with np.errstate(all="ignore"):
            convex = np.all(np.diag(H) >= 0) and np.all(np.abs(H - H.T) <= 1e-6 * np.diag(H).max(initial=0.0))
        if not convex:
            raise ValueError(f"H{k} is not the second derivative of a convex function")
        theta, gradient = (parts.array(f"{name}{k}", "<f8", width) for name in ("theta", "gradient"))
        expansions.append(Expansion(stage, H.T if by_column[k] else H, theta, gradient))
    return QuadraticSubset(tuple(expansions), n_scores, frame.columns, frame.ends, family)


def _learned(parts: Parts, model: Any, frame: Frame) -> dict[str, Any]:
    """Return what only some estimators have."""
    found: dict[str, Any] = {}
    if parts.any("n_passes") is not None:
        found["n_passes_"] = parts.whole("n_passes", 1)
    if "alphas" in model.get_params(deep=False):
        found["alpha_"] = parts.number("alpha")
        found["cv_scores_"] = parts.loose("cv_scores", "<f8", None, None).copy()
    elif parts.any("alpha") is not None:
        raise ValueError(f"alpha is not for {type(model).__name__}")
    return found | _path(parts, frame) if isinstance(model, GroupLassoPath) else found


def _moments(parts: Parts, family: Family, frame: Frame) -> Moments | None:
    if not isinstance(family, SquaredError) or "moments" not in parts.arrays:
        return None
    moments = Moments.from_bytes(parts.array("moments", "|u1", None).tobytes(), "moments")
    if (moments.n_features, moments.target_shape) != (frame.used.size, frame.target_shape):
        raise ValueError("moments do not go with the model")
    if moments.feature_names not in (None, frame.layout.names_read):
        raise ValueError("moments are of other columns")
    return moments


def _path(parts: Parts, frame: Frame) -> dict[str, Any]:
    """Return the path of the lasso, over all columns of X."""
    lambdas = parts.array("lambdas", "<f8", None).copy()
    L, P = lambdas.size, frame.n_targets
    coef = np.zeros((L, P, frame.layout.n_features))
    coef[..., frame.used] = parts.array("path_coef", "<f8", L, P, frame.used.size)
    intercept = parts.array("path_intercept", "<f8", L, P).copy()
    single = not frame.target_shape
    return {
        "lambdas_": lambdas,
        "path_coef_": coef[:, 0] if single else coef,
        "path_intercept_": intercept[:, 0] if single else intercept,
        "dual_gaps_": parts.array("dual_gaps", "<f8", L).copy(),
        "entry_lambdas_": parts.loose("entry_lambdas", "<f8", len(frame.layout.groups)).copy(),
    }
