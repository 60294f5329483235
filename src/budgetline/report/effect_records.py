"""The effects of a model as records: few enough for a page, with marks where the data are."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np
from scipy import sparse

from budgetline.arrays import Float
from budgetline.encoding.encoders import MOST_SHOWN
from budgetline.encoding.raw import known_table
from budgetline.evaluation import effects_of
from budgetline.evaluation.pictures import Axis, ScoreEffect
from budgetline.model.anytime import AnytimeModel, model_and_table

MOST_EFFECTS = 36
"""A report shows at most this many effects: those with the largest range."""
MARKS = 50
"""Number of marks in a rug plot. The marks are evenly spaced quantiles."""


def effect_records(model: AnytimeModel, budget: float | None = None) -> tuple[tuple[ScoreEffect, ...], int]:
    """Return the largest effects, in the order of the sequence, and the number of all. Without a budget: at the end."""
    every = (part for effect in effects_of(model, budget=budget) for part in effect.on_scores())
    # a column of rare categories says nothing
    parts = [part for part in every if np.isfinite(part.values).all() and np.any(part.values)]
    largest = np.sort(np.argsort([-np.ptp(part.values) for part in parts], kind="stable")[:MOST_EFFECTS])
    shown = (parts[k] for k in largest.tolist())
    return tuple(replace(each, values=_short(each.values), margins=_short(each.margins)) for each in shown), len(parts)


def with_rugs(effects: tuple[ScoreEffect, ...], fitted: object, X: object) -> tuple[ScoreEffect, ...]:
    """Replace the knots of curves by quantiles of the data; without an encoding, lines over few numbers by bars."""
    model, X = model_and_table(fitted, X)
    if not effects or sparse.issparse(X):
        return effects
    source, encoding = model.source, model.encoding if isinstance(model, AnytimeModel) else None
    table = known_table(X, source, source.read)
    position = dict(zip(source.labels(source.read), source.read.tolist(), strict=True))
    encoders = {} if encoding is None else dict(zip(position, encoding.encoders, strict=True))

    def with_rug(effect: ScoreEffect) -> ScoreEffect:
        axis = effect.axes[0]
        if len(effect.axes) == 2 or not axis.numbers:
            return effect
        form = getattr(encoders.get(axis.column), "form", None)
        x = table.columns[position[axis.column]].as_numbers(form=form)
        if not (x := x[~np.isnan(x)]).size:
            return effect
        if encoding is None and (few := np.unique(x)).size <= MOST_SHOWN:
            mean, bars = float(np.mean(axis.numbers)), Axis(axis.column, spikes=tuple(few.tolist()))
            parts = (_on_line(axis.numbers, part, few, mean) for part in (effect.values, effect.margins))
            values, margins = map(_short, parts)
            return replace(effect, axes=(bars,), values=values, margins=tuple(map(abs, margins)))
        marks = np.quantile(x, (np.arange(MARKS) + 0.5) / MARKS)
        return replace(effect, axes=(replace(axis, rug=tuple(sorted({float(f"{mark:.5g}") for mark in marks}))),))

    return tuple(map(with_rug, effects))


def _on_line(numbers: Sequence[float], values: Sequence[float], at: Float, mean: float) -> list[float]:
    """Return the effect, or its margin, at other numbers: both are straight, and 0 at the mean."""
    if not values:
        return []
    far = numbers[-1] - mean
    return list(values[-1] * (at - mean) / far if far else 0 * at)


def _short(values: Iterable[float]) -> tuple[float, ...]:
    return tuple(float(f"{value:.4g}") for value in values)
