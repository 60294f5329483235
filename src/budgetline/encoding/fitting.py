"""From summaries of raw columns to encoders."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from budgetline.arrays import Float
from budgetline.encoding.curves import level_beyond, line, smooth_curves
from budgetline.encoding.encoders import MOST_SHOWN, TIE, CategoryEncoder, Encoder, NumberEncoder, Warp
from budgetline.encoding.settings import Encoding
from budgetline.encoding.summaries import CategorySummary, NumberSummary, Summary, TableSummary
from budgetline.encoding.table import TableEncoding
from budgetline.encoding.written import LARGEST, Written
from budgetline.groups import Layout
from budgetline.messages import shown, warn

SPIKE, MOST_SPIKES = 0.1, 3
"""A number that makes up this share of a column is a spike: it gets a flag, and curves are of the other values."""
STEEPEST = 100.0
"""Largest weight of a curve in the ridge, relative to the first that bends."""
FEW, ROWS_PER_VALUE = 32, 200
"""Columns with up to 32 values, and 200 rows per value, have a knot at every value and no spikes.

200 rows determine the effect of a value: more of them draw no more knots to it.
"""
ROWS_PER_KNOT = 10
"""Rows that a knot needs, at it or on the way to the next one: a curve would pass through fewer."""
ROWS_OF_CURVE = 50
"""Rows that a curve needs besides spikes: with fewer the effect is a straight line."""
ROUNDING = 1e-12
"""Quartiles that differ by less than this part of the standard deviation agree."""
CLOSEST = 1e-3
"""Least distance of knots, relative to their span: nearer ones count as one."""
PLENTY = 400
"""If every value is a knot and has more rows than this, the ridge holds their effects less to a smooth curve."""


def encoding_from(summary: TableSummary, source: Layout, settings: Encoding) -> TableEncoding:
    """Return the encoding of a table from the summaries of its columns."""
    encoders = []
    for d, (name, column) in zip(source.read.tolist(), summary.in_rows.items(), strict=True):
        own, plain = settings.of(d, None if source.names is None else name), summary.columns[name]
        encoders.append(encoder_of(name, column, own))
        written = plain.written if isinstance(plain, CategorySummary) and own.numbers != "categories" else None
        if written is not None and (note := written.note(name)):
            warn(note, UserWarning)
    return TableEncoding(source, tuple(encoders))


def encoder_of(name: str, found: Summary, settings: Encoding) -> Encoder:
    """Return the encoder of a column; one that is missing wherever rows have weight becomes a constant."""
    form = None
    if isinstance(found, CategorySummary) and found.total:
        if settings.numbers == "categories" or not isinstance(found.written, Written):
            return _categories(found, settings)
        form = found.written.form
    numbers = found if isinstance(found, NumberSummary) else found.numbers
    if numbers is None or not numbers.values.size:
        return CategoryEncoder((), np.ones(1), missing=True)
    if 0 < (span := float(np.ptp(numbers.values))) < 1 / LARGEST:
        raise ValueError(f"column {shown(name)} spans only {span:g}, which is too small: rescale it")
    return replace(_numbers(numbers, settings), form=form)


def _numbers(found: NumberSummary, settings: Encoding) -> NumberEncoder:
    smooth = settings.numbers == "spline"
    found = _without_ties(found)
    spikes, body = _without_spikes(found) if smooth else ((), found)
    middle, scale = _middle_and_scale(body)
    warp = Warp(middle, scale if smooth else 3.0 * scale)
    t, share = warp(body.values), body.weights / body.total
    mean = float(share @ t)
    spread = float(np.sqrt(share @ (t - mean) ** 2)) or 1.0
    knots = _knots(body, warp, settings) if smooth else t[:0]
    if min(knots.size, t.size) > 2:
        curve, roughness = smooth_curves(knots, t, body.weights)
        rarest = body.weights.min() if np.array_equal(knots, t) else 0.0
        penalties = _curve_weights(roughness, float(rarest))
    else:  # two values are coded like categories
        unit = spread if t.size > 2 else float(np.ptp(t)) / 2 or 1.0
        curve, penalties = line(mean, unit), np.array([(unit / spread) ** 2])
    if smooth or t.size == 1:  # other numbers are the only one but for rounding, and must not count
        curve = level_beyond(curve, float(t[0]), float(t[-1]))
    total = found.total + found.missing
    masses = [float(found.weights[found.values == spike][0]) for spike in spikes]
    flags = _flag_weights(np.array(masses + [found.missing] * (found.missing > 0)), total)
    weights = np.concatenate([penalties * total / body.total, flags])
    values = tuple(found.values.tolist()) if found.values.size <= MOST_SHOWN else ()
    return NumberEncoder(warp, curve, weights, spikes, found.missing > 0, values=values)


def _categories(found: CategorySummary, settings: Encoding) -> CategoryEncoder:
    ranked, total = found.ranked(), found.total + found.missing
    kept = [(name, weight) for name, weight in ranked[: settings.max_categories] if weight >= settings.min_frequency]
    others = found.total - sum(weight for _, weight in kept)
    rare, missing = len(kept) < len(ranked) or found.lost > 0, found.missing > 0
    if len(kept) == 2 and not rare and not missing:  # one flag says all
        weights = _flag_weights(np.array([kept[1][1]]), total) / 2
        return CategoryEncoder((kept[1][0],), weights, reference=kept[0][0], text=found.text)
    masses = [weight for _, weight in kept] + [others] * rare + [found.missing] * missing
    categories, weights = tuple(category for category, _ in kept), _flag_weights(np.array(masses), total)
    return CategoryEncoder(categories, weights, rare, missing, text=found.text)


def _curve_weights(roughness: Float, rarest: float) -> Float:
    """Return penalty weights (m,) of curves, by their roughness relative to that of the first that bends.

    Their excess over 1 shrinks if the rarest value has more than ``PLENTY`` rows: effects of codes may jump.
    """
    steep = np.append(1.0, np.minimum(roughness[1:] / roughness[1:2], STEEPEST))
    return np.asarray(steep - (steep - 1.0) * (1.0 - PLENTY / max(rarest, PLENTY)))


def _flag_weights(masses: Float, total: float) -> Float:
    """Return penalty weights of standardised flags: effects count as that of a flag in half of the rows."""
    share = masses / total
    return np.asarray(1 / np.maximum(4 * share * (1 - share), 1e-9))


def _middle_and_scale(found: NumberSummary) -> tuple[float, float]:
    """Return the median, and half the distance of the quartiles, or the standard deviation if the quartiles agree."""
    low, middle, high = found.quantiles([0.25, 0.5, 0.75]).tolist()
    mean = found.weights @ found.values / found.total
    spread = float(np.sqrt(found.weights @ (found.values - mean) ** 2 / found.total))
    half = (high - low) / 2
    return middle, (half if half > ROUNDING * spread else spread) or 1.0


def _without_ties(found: NumberSummary) -> NumberSummary:
    """Return the summary with values that differ by rounding, such as .3 and .1 + .2, counted as the first of them."""
    warp = Warp(*_middle_and_scale(found))
    starts = np.flatnonzero(np.diff(warp(found.values), prepend=-np.inf) > warp.tie(found.values))
    if starts.size == found.values.size:
        return found
    return replace(found, values=found.values[starts], weights=np.add.reduceat(found.weights, starts))


def _without_spikes(found: NumberSummary) -> tuple[tuple[float, ...], NumberSummary]:
    """Return the spikes, and the summary of the other values, unless these are next to nothing."""
    heavy = np.sort(np.argsort(-found.weights, kind="stable")[:MOST_SPIKES])
    heavy = heavy[found.weights[heavy] > max(SPIKE * found.total, ROWS_PER_KNOT)]
    if _all_knots(found) or found.values.size - heavy.size < 2:
        return (), found
    others = np.delete(np.arange(found.values.size), heavy)
    body = NumberSummary(found.values[others], found.weights[others], error=found.error)
    return tuple(found.values[heavy].tolist()), body


def _n_knots(rows: float) -> int:
    """Return 5 knots for up to 1,000 rows, 7 for 5,000, 8 for 10,000, 10 for 30,000, at most 12."""
    return int(np.clip(round(1.25 * rows**0.2), 5, 12))


def _all_knots(found: NumberSummary) -> bool:
    """Return whether every value is a knot: there are few, with enough rows for each."""
    few = max(_n_knots(found.total), min(FEW, int(found.total) // ROWS_PER_VALUE))
    return found.values.size <= few and float(found.weights.min()) >= ROWS_PER_KNOT


def _knots(body: NumberSummary, warp: Warp, settings: Encoding) -> Float:
    """Return knots, in units of t: at quantiles of the rows, where no value counts as more than ROWS_PER_VALUE.

    So rare values have knots too if there are many rows. A sketch that was thinned out does not know single values.
    """
    if body.total < ROWS_OF_CURVE:
        return np.empty(0)
    if _all_knots(body) and (settings.knots is None or body.values.size <= settings.knots):
        return _apart(warp(body.values))
    most = settings.knots or _n_knots(body.total)
    even = body if body.error else replace(body, weights=np.minimum(body.weights, ROWS_PER_VALUE))
    return _apart(warp(_supported(body, even.quantiles(np.linspace(0, 1, most)))))


def _supported(body: NumberSummary, knots: Float) -> Float:
    """Return the knots with enough rows: at or beyond the outer ones, and from each knot to the next."""
    outer = body.quantiles(np.array([ROWS_PER_KNOT, body.total - ROWS_PER_KNOT]) / body.total)
    knots = np.unique(np.clip(knots, *outer))
    ends, kept = np.concatenate([[0.0], np.cumsum(body.weights)]), [float(knots[0])]
    below = ends[np.searchsorted(body.values, knots)]
    last = below[0]
    for knot, rows in zip(knots[1:-1].tolist(), below[1:-1].tolist(), strict=True):
        if rows - last >= ROWS_PER_KNOT and below[-1] - rows >= ROWS_PER_KNOT:
            kept.append(knot)
            last = rows
    return np.unique([*kept, knots[-1]])


def _apart(knots: Float) -> Float:
    """Return knots without those that nearly are the one before; the outer ones stay, unless all agree."""
    knots = np.unique(knots)
    if np.ptp(knots) <= TIE:
        return knots[:1]
    least, kept = CLOSEST * np.ptp(knots), knots[:1].tolist()
    for knot in knots[1:-1].tolist():
        if min(knot - kept[-1], knots[-1] - knot) > least:
            kept.append(knot)
    return np.unique([*kept, knots[-1]])
