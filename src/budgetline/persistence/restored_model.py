"""From the record of a model to the fitted estimator; its parts are checked to fit together."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast, get_args

import numpy as np
from sklearn.base import ClassifierMixin

from budgetline.baselines import GroupLassoPath
from budgetline.encoding.encoders import Encoder, NumberEncoder
from budgetline.encoding.table import Pair, TableEncoding
from budgetline.encoding.written import FORMS
from budgetline.estimators import (
    AnytimeClassifier,
    AnytimeClassifierCV,
    AnytimeRanker,
    AnytimeRankerCV,
    AnytimeRegressor,
    AnytimeRegressorCV,
    AnytimeSurvival,
    AnytimeSurvivalCV,
)
from budgetline.glm.families import LOSSES, Family, Logistic, Softmax, SquaredError
from budgetline.glm.set_families import SetFamily
from budgetline.groups.feature_groups import Layout, check_order
from budgetline.messages import shown
from budgetline.model.anytime import AnytimeModel
from budgetline.model.held_out_errors import EXCHANGEABLE, NORMAL
from budgetline.model.stages import StagedModel
from budgetline.model.subsets import GeneralisedSubset, LinearSubset, Subset
from budgetline.moments.moments import whole_moments
from budgetline.persistence.model_record import ModelRecord
from budgetline.sequencing.sequence import GroupSequence

LinearEstimator = (
    AnytimeRegressor | AnytimeRegressorCV | AnytimeClassifier | AnytimeClassifierCV | GroupLassoPath
    | AnytimeRanker | AnytimeRankerCV | AnytimeSurvival | AnytimeSurvivalCV
)  # fmt: skip
"""The estimators whose stages are linear models."""
RANK_ROWS = (AnytimeRanker, AnytimeRankerCV, AnytimeSurvival, AnytimeSurvivalCV)
"""Those whose losses are about sets of rows."""
ESTIMATORS: dict[str, Any] = {cls.__name__: cls for cls in get_args(LinearEstimator)}


def estimator_of(record: ModelRecord) -> LinearEstimator:
    """Return the fitted estimator; raise a ValueError if the parts of the record do not fit together."""
    name, names, groups = record.estimator, record.feature_names, record.feature_groups
    _require(name in ESTIMATORS, f"estimator {shown(name)} is not known, only {', '.join(ESTIMATORS)}")
    _require(names is None or len(names) == record.n_features, f"n_features is not {len(names or ())}")
    n_columns, D = sum(map(len, groups.columns)), record.n_features
    fits = n_columns == D if groups.remainder == "error" else n_columns <= D
    _require(fits, f"the groups have {n_columns} columns, n_features is {D}")
    check_order(record.order, groups)
    source = groups.resolve(names, record.n_features)
    encoding = None
    if record.encoders is not None:
        _check_encoding(source, record.encoders, record.pairs)
        encoding = TableEncoding(source, record.encoders, record.pairs)
    layout = source if encoding is None else encoding.layout
    settings = ESTIMATORS[name]().get_params(deep=False) | record.settings
    family = _family(record, settings)
    if (moments := record.moments) is not None:
        fits = moments.n_features == layout.read.size and moments.target_shape == record.target_shape
        _require(fits, "moments do not belong to the columns and targets of the model")
        whole_moments(moments)
    penalties = record.penalties
    _require(penalties is None or penalties.size == len(layout.groups), "penalties must be one per group")
    learned = {**record.numbers, **record.arrays}
    stages = _stages(record, layout, family)
    _check_certainty(record)
    certainty = (record.calibration, record.errors)
    about = (record.classes, record.moments, name, settings, learned, encoding, penalties, *certainty)
    model = AnytimeModel(layout, stages, family, record.target_shape, record.alpha, *about)
    return cast(LinearEstimator, ESTIMATORS[name].from_model(model))


def _require(condition: object, problem: str) -> None:
    if not condition:
        raise ValueError(problem)


def _family(record: ModelRecord, settings: Mapping[str, Any]) -> Family | SetFamily:
    """Return the family of the loss, if classes and targets can have it."""
    P, labels, shape = record.null_intercept.size, record.classes, record.target_shape
    _require(P >= 1 and shape in ((P,), () if P == 1 else (P,)), f"target_shape {shape} does not match {P} targets")
    if issubclass(ESTIMATORS[record.estimator], RANK_ROWS):
        _require(labels is None and not shape, f"classes or target_shape do not match {record.estimator}")
        found: SetFamily = ESTIMATORS[record.estimator](**settings).family()
        return found
    if not issubclass(ESTIMATORS[record.estimator], ClassifierMixin):
        loss = settings.get("loss", "squared_error")
        known = labels is None and loss in LOSSES and (not shape or loss == "squared_error")
        _require(known, f"classes or the loss {shown(loss)} do not match {record.estimator} and its targets")
        return LOSSES[loss]()
    several = isinstance(labels, np.ndarray) and labels.ndim == 1 and 2 <= labels.size == len(set(labels.tolist()))
    _require(several, "classes is not an array of two or more different labels")
    fits = shape == (() if labels.size == 2 else labels.shape)
    _require(fits, f"{labels.size} classes do not match target_shape {shape}")
    return Logistic() if labels.size == 2 else Softmax(labels.size)


def _stages(record: ModelRecord, layout: Layout, family: Family | SetFamily) -> StagedModel:
    groups, order, read = layout.groups, record.order.tolist(), layout.read
    fits = record.mean.size == read.size and np.all(record.scale > 0)
    _require(fits, f"mean and scale must have {read.size} entries, those of scale positive")
    columns = np.concatenate([np.empty(0, dtype=np.intp), *(layout.position[g] for g in order)])
    ends = np.cumsum([layout.columns[g].size for g in order], dtype=np.intp)
    fits = record.coef.shape[-1] == columns.size
    _require(fits, f"coef has {record.coef.shape[-1]} columns, the sequence {columns.size}")
    coef = np.zeros((*record.intercept.shape, read.size))
    coef[..., columns] = record.coef
    names, costs = tuple(groups.names[g] for g in order), groups.prices.steps(record.order)
    reached = record.arrays.get("fold_costs_")
    known = reached is None or (reached.ndim == 2 and reached.shape[1] == record.order.size)
    _require(known, "fold_costs_ must have a column for every group of the sequence")
    sequence = GroupSequence(record.order, names, costs, record.gains, record.null_value, reached)
    parts = (coef, record.intercept, record.null_intercept, columns, ends)
    subset = _subset(record, columns.size, family)
    spread = record.spread
    _require(spread is None or spread.fits(ends), "spread does not belong to the columns of the sequence")
    found = StagedModel(sequence, groups.names, *parts, subset, record.mean, record.scale, spread)
    return found.embedded(read, layout.n_features)


def _subset(record: ModelRecord, T: int, family: Family | SetFamily) -> Subset:
    """Return what predicts from any subset of the groups: by least squares, or from a population."""
    found, P = record.subset, record.null_intercept.size
    if isinstance(found, LinearSubset):
        kept, rank = (found.kept.shape == (T,), int(found.kept.sum()))
        fits = kept and found.U.shape == (rank, T) and found.z.shape == (rank, P)
        fits = fits and found.level.shape == (P,) == found.variance.shape
        linear = isinstance(family, SquaredError | SetFamily)
        _require(fits and linear, "subset does not belong to the columns of the sequence")
        return found
    Q, M = P - isinstance(family, Softmax), found.share.size
    fits = found.factor.shape[1:] == (T,) and found.mean.shape == (M, T) and found.slope.shape == (T, Q)
    sums = found.share.shape == (M,) and found.share.all() and abs(found.share.sum() - 1) <= 1e-6
    fits = (
        fits
        and bool(sums and found.share.min() > 0)
        and found.level.shape == (Q,)
        and found.variance >= 0
        and found.n_rows >= 1
    )
    whole = not isinstance(family, SquaredError | SetFamily)
    _require(fits and whole, "subset does not belong to the columns of the sequence")
    assert not isinstance(family, SetFamily)
    return GeneralisedSubset(found, family, record.alpha)


def _check_certainty(record: ModelRecord) -> None:
    """Check that calibration and held-out errors are of the stages and targets of the model."""
    K, P, (calibration, errors) = 1 + record.order.size, record.null_intercept.size, (record.calibration, record.errors)
    if calibration is not None:
        shape = (K, 2 if P == 1 else 1)
        fits = record.classes is not None and calibration.slopes.shape == shape and calibration.offsets.shape == (K,)
        _require(fits, "calibration does not belong to the stages and classes of the model")
    if errors is not None:
        wide, bins = (K, P if record.classes is None else 1), errors.centres.shape
        fits = errors.values.shape[:2] == wide == bins[:2] and min(errors.values.shape[2], bins[2]) > 0
        fits = fits and bins == errors.scales.shape and bool(np.all(np.diff(errors.values) >= 0))
        fits = fits and bool(np.all(np.diff(errors.centres) >= 0)) and errors.assumption in (EXCHANGEABLE, NORMAL)
        _require(fits, "errors do not belong to the stages and targets of the model")


def _check_encoding(source: Layout, encoders: tuple[Encoder, ...], pairs: tuple[Pair, ...]) -> None:
    fits: Any
    _require(0 < len(encoders) == source.read.size, f"encoders must be those of {source.read.size} columns")
    for k, encoder in enumerate(encoders):
        if isinstance(encoder, NumberEncoder):
            knots, pieces, form = encoder.curve.knots, encoder.curve.pieces, encoder.form
            if form is not None and FORMS.get(form.name) != form:
                raise ValueError(f"encoders[{k}].form is not known: {shown(form)}")
            curve = knots.ndim == 1 and knots.size and np.all(np.diff(knots) > 0) and pieces.ndim == 3
            fits = curve and pieces.shape[:2] == (knots.size + 1, 4) and encoder.warp.scale > 0
        else:
            reference = encoder.reference
            fits = len(set(encoder.categories)) == len(encoder.categories) and reference not in encoder.categories
            fits = fits and (reference is None or encoder.weights.size == 1)
        weights = encoder.weights
        fits = fits and encoder.width and weights.shape == (encoder.width,) and np.all(weights > 0)
        _require(fits, f"the parts of encoders[{k}] do not fit together")
    own = [columns.size for columns in source.columns]
    _require(own[len(own) - own.count(0) :] == [0] * len(pairs), "pairs must be those of the last groups")
    for k, pair in enumerate(pairs):
        shape = (2, pair.weights.size)
        fits = pair.weights.size and pair.terms.shape == shape == pair.centres.shape and np.all(pair.weights > 0)
        fits = fits and pair.terms.min() >= 0 and all(0 <= column < len(encoders) for column in pair.columns)
        widths = [encoders[column].width for column in pair.columns] if fits else [0, 0]
        _require(fits and np.all(pair.terms.max(axis=1) < widths), f"the parts of pairs[{k}] do not fit together")
