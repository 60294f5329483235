"""From summaries of raw columns to encoders."""

from __future__ import annotations

import numpy as np

from budgetline.arrays import Float
from budgetline.encoding.curves import line, smooth_curves
from budgetline.encoding.encoders import Encoder, LevelEncoder, NumberEncoder
from budgetline.encoding.raw import RawTable
from budgetline.encoding.settings import Encoding, given_knots
from budgetline.encoding.summaries import ColumnSummary, LevelSummary, NumberSummary, TableSummary
from budgetline.encoding.table import TableEncoding
from budgetline.groups import Layout

SPIKE = 0.1
"""A number that makes up this share of a column is a spike: knots are placed among the others, and it gets a flag."""


def summary_of(table: RawTable, source: Layout, settings: Encoding, weight: Float | None) -> TableSummary:
    """Summarise the columns that are read."""
    names = source.names
    found = []
    for d in source.read.tolist():
        name = None if names is None else names[d]
        as_levels = settings.of(d, name).numbers == "levels"
        column = table.column(d, str(d) if name is None else name)
        found.append(ColumnSummary.of(column, weight, as_levels))
    return TableSummary(tuple(found))


def encoding_from(summary: TableSummary, source: Layout, settings: Encoding) -> TableEncoding:
    """Return the encoding of a table from the summaries of its columns."""
    names = source.names
    own = (settings.of(d, None if names is None else names[d]) for d in source.read.tolist())
    encoders = tuple(encoder_of(column, each) for column, each in zip(summary.columns, own, strict=True))
    return TableEncoding(source, encoders)


def encoder_of(column: ColumnSummary, settings: Encoding) -> Encoder:
    """Return the encoder of a column; one that is missing everywhere becomes a constant."""
    if isinstance(column.found, LevelSummary):
        return _levels(column.found, column.missing > 0, settings)
    missing = column.missing > 0 and column.found is not None
    found = column.found or NumberSummary(np.zeros(1), np.ones(1))
    fill = float(found.weights @ found.values / found.total)
    straight = settings.numbers == "linear" or found.values.size <= 2
    spikes, rest = ((), found) if straight else _without_spikes(found)
    knots = np.empty(0) if straight else _knots(rest, settings)
    if knots.size < 2:
        curve, roughness = line(*_bounds(found)), np.zeros(1)
    else:
        curve, roughness = smooth_curves(knots, found.values, found.weights)
    weights = np.concatenate([_weights(roughness), np.ones(len(spikes) + missing)])
    return NumberEncoder(curve, fill, weights, spikes, missing)


def _weights(roughness: Float) -> Float:
    return np.ones(roughness.size)


def _levels(found: LevelSummary, missing: bool, settings: Encoding) -> LevelEncoder:
    ranked = found.ranked()
    kept = [level for level, weight in ranked[: settings.max_levels] if weight >= settings.min_rows]
    rare = len(kept) < len(ranked) or found.lost > 0
    if len(kept) == 2 and not rare and not missing:
        kept = kept[1:]
    return LevelEncoder(tuple(kept), rare, missing)


def _bounds(found: NumberSummary) -> tuple[float, float]:
    """Return where a straight line ends: at the extremes, or at the quantiles 1 % and 99 % if the tails are heavy."""
    low, high = found.values[[0, -1]]
    inner = found.quantiles(np.array([0.01, 0.99]))
    if inner[0] < inner[1] and high - low > 5 * (inner[1] - inner[0]):
        low, high = inner
    return float(low), float(high if high > low else low + 1.0)


def _without_spikes(found: NumberSummary) -> tuple[tuple[float, ...], NumberSummary]:
    spike = found.weights > SPIKE * found.total
    if found.values.size <= 10 or spike.sum() == spike.size:
        return (), found
    return tuple(found.values[spike].tolist()), NumberSummary(found.values[~spike], found.weights[~spike])


def _knots(found: NumberSummary, settings: Encoding) -> Float:
    if not isinstance(settings.knots, int):
        return given_knots(settings.knots)
    if found.values.size <= settings.knots:
        return found.values
    return np.unique(found.quantiles(np.linspace(0, 1, settings.knots)))
