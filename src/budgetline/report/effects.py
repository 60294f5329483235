"""The effects of a model for its report: few enough for a page, with a rug from the data."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy import sparse

from budgetline.encoding.raw import RawTable, known_table
from budgetline.evaluation import effects_of
from budgetline.evaluation.pictures import Axis
from budgetline.model.anytime import AnytimeModel, model_and_table
from budgetline.report.content import Effect

MOST_EFFECTS = 36
"""A report shows so many effects, those with the largest range."""
MARKS = 50
"""Marks of a rug: quantiles at even shares of the rows."""
DIGITS = 4
"""Digits of effects in a report."""


def effects_in_report(model: AnytimeModel, budget: float | None = None) -> tuple[tuple[Effect, ...], int]:
    """Return the effects at a budget, None: at the last stage, in the order of the sequence, and how many they are."""
    parts = [
        (effect, output, values)
        for effect in effects_of(model, budget=budget)
        for output, values in effect.by_output()
        if np.isfinite(values).all()
    ]
    by_range = np.argsort([-float(np.ptp(values)) for _, _, values in parts], kind="stable")
    found = []
    for k in np.sort(by_range[:MOST_EFFECTS]).tolist():
        effect, output, values = parts[k]
        found.append(Effect(effect.group, effect.axes, output, tuple(_short(v) for v in values.ravel().tolist())))
    return tuple(found), len(parts)


def with_rugs(effects: tuple[Effect, ...], fitted: object, X: object) -> tuple[Effect, ...]:
    """Replace the knots of numbers by quantiles of the data."""
    model, X = model_and_table(fitted, X)
    if not effects or sparse.issparse(X):
        return effects
    source = model.source
    table = known_table(X, source.names, source.n_features, source.read.tolist())
    position = dict(zip(source.labels(source.read), source.read.tolist(), strict=True))
    axes = {axis: axis for effect in effects if len(effect.axes) == 1 for axis in effect.axes if axis.numbers}
    rugs = {axis: _with_rug(axis, table, position[axis.column]) for axis in axes}
    return tuple(replace(effect, axes=tuple(rugs.get(axis, axis) for axis in effect.axes)) for effect in effects)


def _with_rug(axis: Axis, table: RawTable, d: int) -> Axis:
    x = table.column(d, axis.column).numbers
    if x is None or not (known := x[np.isfinite(x)]).size:  # flags, which a model without encoding reads as numbers
        return axis
    marks = np.quantile(known, (np.arange(MARKS) + 0.5) / MARKS)
    return replace(axis, rug=tuple(sorted({float(f"{mark:.5g}") for mark in marks.tolist()})))


def _short(value: float) -> float:
    return float(f"{value:.{DIGITS}g}")
