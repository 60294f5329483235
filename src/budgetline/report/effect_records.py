"""The effects of a model as records: few enough for a page, with marks where the data are."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy import sparse

from budgetline.arrays import Float
from budgetline.encoding.encoders import MOST_SHOWN, NumberEncoder
from budgetline.encoding.raw import known_table
from budgetline.evaluation import effects_of
from budgetline.evaluation.pictures import Axis, caption, picture
from budgetline.model.anytime import AnytimeModel, model_and_table
from budgetline.report.content import EffectRecord

MOST_EFFECTS = 36
"""A report shows at most this number of effects, those with the largest range."""
MARKS = 50
"""Marks of a rug: quantiles at even shares of the rows."""
DIGITS = 4
"""Digits of effects in a report."""


def effect_records(model: AnytimeModel, budget: float | None = None) -> tuple[tuple[EffectRecord, ...], int]:
    """Return the largest effects, in the order of the sequence, and the number of all. Without a budget: at the end."""
    parts = [
        (effect, output, values)
        for effect in effects_of(model, budget=budget)
        for output, values in effect.by_output()
        if np.isfinite(values).all() and np.any(values)  # a column of rare categories says nothing
    ]
    by_range = np.argsort([-float(np.ptp(values)) for _, _, values in parts], kind="stable")
    found = []
    for k in np.sort(by_range[:MOST_EFFECTS]).tolist():
        effect, output, values = parts[k]
        found.append(EffectRecord(effect.group, effect.axes, output, tuple(_short(v) for v in values.ravel().tolist())))
    return tuple(found), len(parts)


def with_rugs(effects: tuple[EffectRecord, ...], fitted: object, X: object) -> tuple[EffectRecord, ...]:
    """Replace the knots of numbers by quantiles of the data; lines over few numbers by the values at these."""
    model, X = model_and_table(fitted, X)
    if not effects or sparse.issparse(X):
        return effects
    source = model.source
    table = known_table(X, source.names, source.n_features, source.read.tolist())
    position = dict(zip(source.labels(source.read), source.read.tolist(), strict=True))
    curves = {axis.column for effect in effects if len(effect.axes) == 1 for axis in effect.axes if axis.numbers}
    encoding = model.encoding if isinstance(model, AnytimeModel) else None
    known = zip(position, encoding.encoders, strict=True) if encoding is not None else ()
    forms = {name: encoder.form for name, encoder in known if isinstance(encoder, NumberEncoder)}
    columns = {name: table.column(position[name], name).as_numbers(form=forms.get(name)) for name in curves}
    numbers = {name: x[~np.isnan(x)] for name, x in columns.items()}
    return tuple(_with_rug(effect, numbers, encoding is None) for effect in effects)


def _with_rug(effect: EffectRecord, numbers: dict[str, Float], line: bool) -> EffectRecord:
    axis = effect.axes[0]
    if len(effect.axes) == 2 or not axis.numbers or not (x := numbers[axis.column]).size:
        return effect
    if line and (few := np.unique(x)).size <= MOST_SHOWN:
        slope, start = np.polyfit(axis.numbers, effect.values, 1) if len(axis.numbers) > 1 else (0.0, 0.0)
        bars = Axis(axis.column, spikes=tuple(few.tolist()))
        return replace(effect, axes=(bars,), values=tuple(_short(start + slope * v) for v in few.tolist()))
    marks = np.quantile(x, (np.arange(MARKS) + 0.5) / MARKS)
    rug = tuple(sorted({float(f"{mark:.5g}") for mark in marks.tolist()}))
    return replace(effect, axes=(replace(axis, rug=rug),))


def caption_of(effect: EffectRecord, classes: bool) -> str:
    """Return the column, or both columns of a pair, and the class that up means, or the target."""
    return caption(effect.name, effect.output, classes)


def picture_of(effect: EffectRecord) -> str:
    """Return an effect as SVG."""
    return picture(effect.axes, np.reshape(effect.values, [len(axis) for axis in effect.axes]))


def _short(value: float) -> float:
    return float(f"{value:.{DIGITS}g}")
