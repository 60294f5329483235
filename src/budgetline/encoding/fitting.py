"""From summaries of raw columns to encoders."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from budgetline.arrays import Float
from budgetline.encoding.curves import line, smooth_curves
from budgetline.encoding.encoders import Encoder, LevelEncoder, NumberEncoder, Warp
from budgetline.encoding.raw import LARGEST, RawTable
from budgetline.encoding.settings import Encoding, given_knots
from budgetline.encoding.summaries import ColumnSummary, LevelSummary, NumberSummary, TableSummary
from budgetline.encoding.table import TableEncoding
from budgetline.groups import Layout
from budgetline.messages import shown

SPIKE, MOST_SPIKES = 0.1, 3
"""A number that makes up this share of a column is a spike: it gets a flag, and curves are of the other values."""
STEEPEST = 100.0
"""The ridge counts no curve more than this many times as much as the first that bends."""
FEW, ROWS_PER_VALUE = 32, 200
"""Up to so many different values, if there are so many rows for each, every value is a knot and none is a spike.

So many rows determine the effect of a value: more of them draw no more knots to it.
"""
PLENTY = 400
"""If every value is a knot and has more rows than this, the ridge holds their effects less to a smooth curve."""


def summary_of(table: RawTable, source: Layout, settings: Encoding, weight: Float | None) -> TableSummary:
    """Summarise the columns that are read."""
    found = []
    for d, label in zip(source.read.tolist(), source.labels(source.read), strict=True):
        as_levels = settings.of(d, None if source.names is None else label).numbers == "levels"
        found.append(ColumnSummary.of(table.column(d, label), weight, as_levels))
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
        return _levels(column.found, settings)
    if column.found is not None and 0 < (span := float(np.ptp(column.found.values))) < 1 / LARGEST:
        raise ValueError(f"column {shown(column.name)} spans only {span:g}, which is too small: rescale it")
    return _numbers(column.found or NumberSummary(np.zeros(1), np.ones(1)), settings)


def _numbers(found: NumberSummary, settings: Encoding) -> NumberEncoder:
    smooth = settings.numbers == "spline"
    spikes, body = _without_spikes(found) if smooth else ((), found)
    warp = _warp(body, settings)
    t, share = warp(body.values), body.weights / body.total
    mean = float(share @ t)
    spread = float(np.sqrt(share @ (t - mean) ** 2)) or 1.0
    knots = _knots(body, warp, settings) if smooth else t[:0]
    if knots.size > 2:
        curve, roughness = smooth_curves(knots, t, body.weights)
        rarest = body.weights.min() if np.array_equal(knots, t) else 0.0
        penalties = _curve_weights(roughness, float(rarest))
    else:  # two values are coded like levels
        scale = spread if t.size > 2 else float(np.ptp(t)) / 2 or 1.0
        curve, penalties = line(mean, scale), np.array([(scale / spread) ** 2])
    total = found.total + found.missing
    masses = [float(found.weights[found.values == spike][0]) for spike in spikes]
    flags = _flag_weights(np.array(masses + [found.missing] * (found.missing > 0)), total)
    weights = np.concatenate([penalties * total / body.total, flags])
    return NumberEncoder(warp, curve, weights, spikes, found.missing > 0)


def _levels(found: LevelSummary, settings: Encoding) -> LevelEncoder:
    ranked, total = found.ranked(), found.total + found.missing
    kept = [(level, weight) for level, weight in ranked[: settings.max_levels] if weight >= settings.min_rows]
    others = found.total - sum(weight for _, weight in kept)
    rare, missing = len(kept) < len(ranked) or found.lost > 0, found.missing > 0
    if len(kept) == 2 and not rare and not missing:  # one flag says all
        weights = _flag_weights(np.array([kept[1][1]]), total) / 2
        return LevelEncoder((kept[1][0],), weights, reference=kept[0][0])
    masses = [weight for _, weight in kept] + [others] * rare + [found.missing] * missing
    return LevelEncoder(tuple(level for level, _ in kept), _flag_weights(np.array(masses), total), rare, missing)


def _curve_weights(roughness: Float, rarest: float) -> Float:
    """Return penalty weights (m,) of curves, by their roughness relative to that of the first that bends.

    What they exceed 1 by shrinks as the rows of the rarest value grow beyond ``PLENTY``: the numbers may be codes,
    whose effects jump, and so many rows show it.
    """
    steep = np.append(1.0, np.minimum(roughness[1:] / roughness[1], STEEPEST))
    return np.asarray(steep - (steep - 1.0) * (1.0 - PLENTY / max(rarest, PLENTY)))


def _flag_weights(masses: Float, total: float) -> Float:
    """Return penalty weights of flags that are set in rows of these masses, once they are standardised.

    The ridge is to count the effects of all flags alike, as that of a flag that is set in half of the rows.
    """
    share = masses / total
    return np.asarray(1 / np.maximum(4 * share * (1 - share), 1e-9))


def _warp(body: NumberSummary, settings: Encoding) -> Warp:
    """Return the warp by the median and half the distance of the quartiles, three times as much for a line."""
    low, middle, high = body.quantiles(np.array([0.25, 0.5, 0.75])).tolist()
    mean = body.weights @ body.values / body.total
    spread = float(np.sqrt(body.weights @ (body.values - mean) ** 2 / body.total))
    return Warp(middle, ((high - low) / 2 or spread or 1.0) * (1.0 if settings.numbers == "spline" else 3.0))


def _without_spikes(found: NumberSummary) -> tuple[tuple[float, ...], NumberSummary]:
    """Return the spikes, and the summary of the other values, unless these are next to nothing."""
    heavy = np.sort(np.argsort(-found.weights, kind="stable")[:MOST_SPIKES])
    heavy = heavy[found.weights[heavy] > SPIKE * found.total]
    if found.values.size <= _few(found.total) or found.values.size - heavy.size < 2:
        return (), found
    others = np.delete(np.arange(found.values.size), heavy)
    body = NumberSummary(found.values[others], found.weights[others], error=found.error)
    return tuple(found.values[heavy].tolist()), body


def _n_knots(rows: float) -> int:
    """Return 5 knots for up to 1,000 rows, 7 for 5,000, 8 for 10,000, 10 for 30,000, at most 12."""
    return int(np.clip(round(1.25 * rows**0.2), 5, 12))


def _few(rows: float) -> int:
    return max(_n_knots(rows), min(FEW, int(rows) // ROWS_PER_VALUE))


def _knots(body: NumberSummary, warp: Warp, settings: Encoding) -> Float:
    """Return knots, in units of t: at quantiles of the rows, where no value counts as more than ROWS_PER_VALUE.

    So rare values have knots too if there are many rows. A sketch that was thinned out does not know single values.
    """
    if settings.knots is not None and not isinstance(settings.knots, int):
        return warp(given_knots(settings.knots))
    if body.values.size <= (settings.knots or _few(body.total)):
        return warp(body.values)
    shares = np.linspace(0, 1, settings.knots or _n_knots(body.total))
    even = body if body.error else replace(body, weights=np.minimum(body.weights, ROWS_PER_VALUE))
    return np.unique(warp(even.quantiles(shares)))
