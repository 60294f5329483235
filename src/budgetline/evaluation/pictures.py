"""Pictures of effects as SVG: curves with a rug, bars, and heat maps of pairs.

Colours are attributes: the style sheet of a page overrides them, and notebooks have no style sheet.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from html import escape

import numpy as np

from budgetline.arrays import Float
from budgetline.messages import cut, printable

WIDTH = 340
LETTER, LINE = 7.0, 12.0
"""Width of a letter and height of a line of text."""
SHADES = 8
"""Number of shades of a heat map, for each sign."""
MOST_BARS, MOST_ROWS = 14, 20
"""Most bars, and most rows or columns of a heat map."""
UP, DOWN, SOFT, FAINT = "#0b62a4", "#b8430a", "#545d68", "#c9c5bd"


@dataclass(frozen=True)
class Axis:
    """The points of a column: along a curve, then single numbers, then categories and missing values.

    ``rug`` shows where the data are: knots or quantiles of the column.
    """

    column: str
    numbers: tuple[float, ...] = ()
    spikes: tuple[float, ...] = ()
    categories: tuple[str, ...] = ()
    rug: tuple[float, ...] = ()

    def __len__(self) -> int:
        return len(self.numbers) + len(self.spikes) + len(self.categories)

    @property
    def labels(self) -> tuple[str, ...]:
        """All points as text."""
        return (*(f"{x:.10g}" for x in (*self.numbers, *self.spikes)), *self.categories)

    @property
    def short_labels(self) -> tuple[str, ...]:
        """All points as text, numbers to five digits."""
        return (*map(short_place, (*self.numbers, *self.spikes)), *self.categories)

    @property
    def all_numbers(self) -> tuple[float, ...]:
        """All points as numbers, NaN for categories and missing values."""
        return (*self.numbers, *self.spikes, *[np.nan] * len(self.categories))

    def points(self) -> Iterator[tuple[str, float]]:
        """Yield every point as text and as a number."""
        return zip(self.labels, self.all_numbers, strict=True)


@dataclass(frozen=True)
class ScoreEffect:
    """What a column, or a pair of columns, adds to one score.

    ``output`` names the score if there are several: a class (``of_class``) or a target. ``values`` are those at the
    points of the column; for a pair, those at the points of the second column for each point of the first. ``margins``
    say how far a pointwise band of 90 % reaches from them, if that is known.
    """

    group: str
    axes: tuple[Axis, ...]
    output: str
    of_class: bool
    values: tuple[float, ...]
    margins: tuple[float, ...] = ()

    @property
    def name(self) -> str:
        """The column, or both columns of a pair."""
        return " × ".join(axis.column for axis in self.axes)

    @property
    def caption(self) -> str:
        """The name, and how the picture shows the class, or the target."""
        if not self.output:
            return self.name
        shows = "blue" if len(self.axes) == 2 else "up" if self.axes[0].numbers else "right"
        return (
            f"{self.name}: {shows} means class {self.output}" if self.of_class else f"{self.name}, target {self.output}"
        )

    @property
    def grid(self) -> Float:
        """The values, shape (points,), or (points, points) for a pair."""
        return np.reshape(self.values, [len(axis) for axis in self.axes])

    @property
    def picture(self) -> str:
        """The effect as SVG."""
        return self.drawn(*self.reach)

    @property
    def reach(self) -> tuple[float, float]:
        """From where to where the values, their bands and 0 reach."""
        values, margins = self._values_and_margins
        return _range(np.append(values - margins, values + margins))

    def drawn(self, low: float, high: float) -> str:
        """Return the effect as SVG; curves and bars have an axis from ``low`` to ``high``."""
        if len(self.axes) == 2:
            return _heat_map(*self.axes, self.grid)
        draw = _curve if self.axes[0].numbers else _bars
        return draw(self.axes[0], *self._values_and_margins, low, high)

    @property
    def _values_and_margins(self) -> tuple[Float, Float]:
        return np.array(self.values), np.array(self.margins or [0.0] * len(self.values))


def pictures(effects: Sequence[ScoreEffect]) -> list[str]:
    """Return effects as SVG; curves and bars of the same score share one axis, so that they can be compared."""
    ends: dict[str, list[tuple[float, float]]] = {}
    for effect in effects:
        if len(effect.axes) == 1:
            ends.setdefault(effect.output, []).append(effect.reach)
    axes = {output: (min(low for low, _ in own), max(high for _, high in own)) for output, own in ends.items()}
    return [effect.drawn(*axes.get(effect.output, effect.reach)) for effect in effects]


def short(value: float) -> str:
    """Return a number to three digits, with a true minus sign; up to a million without an exponent."""
    text = f"{value:.3g}" if not 1e3 <= abs(value) < 1e6 else f"{float(f'{value:.3g}'):.0f}"
    return text.replace("e+0", "e").replace("-", "−") if value else "0"


def survival_picture(times: Sequence[float], groups: Iterable[tuple[str, Sequence[float], Sequence[float]]]) -> str:
    """Return survival functions of groups as SVG: name, values as observed, and values as predicted, dashed."""
    left, right, top, bottom = 40.0, WIDTH - 52.0, 10.0, 140.0

    def up(value: float) -> float:
        return bottom - (bottom - top) * value

    def line(values: Sequence[float], kind: str, dashes: str) -> str:
        xs = (left + (right - left) * t / times[-1] for t in times)
        points = " ".join(f"{x:.1f},{up(v):.1f}" for x, v in zip(xs, values, strict=True))
        return f'<polyline class="line line-{kind}" points="{points}" fill="none" stroke="{UP}"{dashes}/>'

    def parts() -> Iterator[str]:
        for value in (0.0, 0.5, 1.0):
            yield _line(left, up(value), right, up(value), "axis", FAINT)
            yield _text(left - 6, up(value) + 4, f"{value:.0%}", "end")
        for name, observed, predicted in groups:
            yield line(observed, "main", "")
            yield line(predicted, "training", ' stroke-dasharray="5 4"')
            yield _text(right + 4, up(observed[-1]) + 4, name)
        yield _text(left, bottom + 25, short_place(times[0]))
        yield _text(right, bottom + 25, short_place(times[-1]), "end")

    return _svg(bottom + 32, "risk on survival", parts())


def _svg(height: float, name: str, parts: Iterator[str]) -> str:
    label = escape(f"Effect of {printable(name)}")
    return f'<svg viewBox="0 0 {WIDTH} {height:g}" role="img" aria-label="{label}">{"".join(parts)}</svg>'


def _text(x: float, y: float, text: str, anchor: str = "start", most: int = 40) -> str:
    shown = escape(cut(printable(text), most))
    return f'<text x="{x:.1f}" y="{y:.1f}" font-size="12" fill="{SOFT}" text-anchor="{anchor}">{shown}</text>'


def _line(x1: float, y1: float, x2: float, y2: float, kind: str, colour: str) -> str:
    places = f'x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"'
    return f'<line class="{kind}" {places} stroke="{colour}"/>'


def _range(values: Float) -> tuple[float, float]:
    """Return the range of values and 0."""
    low, high = float(values.min(initial=0.0)), float(values.max(initial=0.0))
    return (low, high) if low < high else (-1.0, 1.0)


def _curve(axis: Axis, values: Float, margins: Float, low: float, high: float) -> str:
    """Return a curve with its band and its rug; values at single points are to the right of it, with whiskers."""
    left, top, bottom, slot = 52.0, 10.0, 140.0, 50.0
    aside, n = axis.short_labels[len(axis.numbers) :], len(axis.numbers)
    right = WIDTH - 8 - slot * len(aside)
    lower, upper = values - margins, values + margins
    start, stop = axis.numbers[0], axis.numbers[-1]

    def across(x: float) -> float:
        return left + (right - left) * ((x - start) / (stop - start) if stop > start else 0.5)

    def up(value: float) -> float:
        return bottom - (bottom - top) * (value - low) / (high - low)

    def parts() -> Iterator[str]:
        yield _line(left, up(0), WIDTH - 8, up(0), "axis", FAINT)
        for value in (low, 0.0, high):
            if value == 0 or abs(up(value) - up(0)) > 14:
                yield _text(left - 6, up(value) + 4, short(value), "end")
        there = (*zip(axis.numbers, upper[:n], strict=True), *zip(axis.numbers[::-1], lower[:n][::-1], strict=True))
        if margins[:n].any():
            corners = " ".join(f"{across(x):.1f},{up(v):.1f}" for x, v in there)
            yield f'<polygon class="band" points="{corners}" fill="{UP}" opacity="0.2"/>'
        points = " ".join(f"{across(x):.1f},{up(v):.1f}" for x, v in zip(axis.numbers, values[:n], strict=True))
        yield f'<polyline class="line line-main" points="{points}" fill="none" stroke="{UP}" stroke-width="2"/>'
        for x in axis.rug:
            if start <= x <= stop:
                yield _line(across(x), bottom + 4, across(x), bottom + 10, "rug", SOFT)
        yield _text(left, bottom + 25, short_place(start))
        yield _text(right, bottom + 25, short_place(stop), "end")
        for k, (label, value) in enumerate(zip(aside, values[n:], strict=True)):
            x = right + slot * (k + 0.5) + 4
            if margins[n + k]:
                yield _line(x, up(lower[n + k]), x, up(upper[n + k]), "whisker", UP)
            yield f'<circle class="mark-aside" cx="{x:.1f}" cy="{up(value):.1f}" r="4" fill="{UP}"/>'
            yield _text(x, bottom + 25, label.strip("()"), "middle", most=7)

    return _svg(bottom + 32, axis.column, parts())


def short_place(x: float) -> str:
    """Return a value of a column to five digits."""
    return str(float(f"{x:.5g}") + 0.0).removesuffix(".0").replace("-", "−")


def _bars(axis: Axis, values: Float, margins: Float, low: float, high: float) -> str:
    """Return one bar per point, with its margin: those with the largest effects, in their order."""
    kept = np.sort(np.argsort(-np.abs(values), kind="stable")[:MOST_BARS])
    left, right, step = 116.0, WIDTH - 52.0, 19.0
    zero, unit = left - (right - left) * low / (high - low), (right - left) / (high - low)

    def parts() -> Iterator[str]:
        for row, k in enumerate(kept.tolist()):
            y, end = 4 + step * row, zero + unit * values[k]
            kind, colour = ("bar-up", UP) if values[k] >= 0 else ("bar-down", DOWN)
            place = f'x="{min(zero, end):.1f}" y="{y:.1f}" width="{abs(end - zero):.1f}" height="{step - 5:g}"'
            yield _text(left - 8, y + 11, axis.short_labels[k], "end", most=16)
            yield f'<rect class="{kind}" {place} fill="{colour}"/>'
            if reach := unit * margins[k]:
                yield _line(end - reach, y + step / 2 - 2.5, end + reach, y + step / 2 - 2.5, "margin", SOFT)
            yield _text(WIDTH - 4, y + 11, short(values[k]), "end")
        bottom = 4 + step * kept.size
        yield _line(zero, 0, zero, bottom, "axis", FAINT)
        if kept.size < values.size:
            yield _text(left - 8, bottom + 12, f"… {values.size - kept.size:,} more", "end")

    return _svg(8 + step * (kept.size + (kept.size < values.size)), axis.column, parts())


def _heat_map(across: Axis, up: Axis, values: Float) -> str:
    """Return shaded cells: the first column from left to right, the second from bottom to top."""
    values = values[:MOST_ROWS, :MOST_ROWS]
    (n, m), left, top = values.shape, 84.0, 22.0
    xs = left + _edges(across, n, WIDTH - 8 - left, 50.0)
    bottom = top + max(170.0, 13.0 * m if up.categories else 0.0)
    ys = bottom - _edges(up, m, bottom - top, 18.0)

    def parts() -> Iterator[str]:
        yield from _shades(values, xs, ys)
        yield _text(2, 12, f"↑ {up.column}", most=26)
        yield _text(WIDTH - 4, bottom + 34, f"{across.column} →", "end", most=26)
        for k, label, *_ in _marked(up, -ys, LINE):
            yield _text(left - 6, (ys[k] + ys[k + 1]) / 2 + 4, label, "end", most=12)
        for k, label, anchor, room in _marked(across, xs, 5 * LETTER):
            x = {"start": xs[k], "middle": (xs[k] + xs[k + 1]) / 2, "end": xs[k + 1]}[anchor]
            yield _text(x, bottom + 16, label, anchor, most=int(room / LETTER))
        ends = ((DOWN, "shade-down", float(values.min())), (UP, "shade-up", float(values.max())))
        for k, (colour, kind, value) in enumerate(ends):
            place = f'x="{4 + 72 * k}" y="{bottom + 25:.1f}" width="10" height="10"'
            yield f'<rect class="{kind}" {place} fill="{colour}"/>'
            yield _text(18 + 72 * k, bottom + 34, short(value))

    return _svg(bottom + 40, f"{across.column} and {up.column}", parts())


def _edges(axis: Axis, n: int, length: float, least: float) -> Float:
    """Return the edges (n + 1,) of the cells of a heat map; cells of single points have room for a label."""
    C = min(len(axis.numbers), n)
    if C in (0, n):
        return np.linspace(0.0, length, n + 1)
    each = min(least, length / 2 / (n - C))
    return np.append(np.linspace(0.0, length - each * (n - C), C + 1), length - each * np.arange(n - C)[::-1])


def _shades(values: Float, xs: Float, ys: Float) -> Iterator[str]:
    """Yield the cells of every shade as one path."""
    largest = float(np.abs(values).max()) or 1.0
    shade = np.round(SHADES * values / largest).astype(int)
    for k in np.unique(shade[shade != 0]).tolist():
        cells = "".join(
            f"M{xs[i]:.1f} {ys[j]:.1f}H{xs[i + 1]:.1f}V{ys[j + 1]:.1f}H{xs[i]:.1f}z"
            for i, j in np.argwhere(shade == k).tolist()
        )
        kind, colour = ("shade-up", UP) if k > 0 else ("shade-down", DOWN)
        yield f'<path class="{kind}" d="{cells}" fill="{colour}" fill-opacity="{abs(k) / SHADES:g}"/>'


def _marked(axis: Axis, edges: Float, least: float) -> Iterator[tuple[int, str, str, float]]:
    """Yield cells with their label, its anchor and its room: both ends of a curve, and single points.

    If cells are smaller than ``least``, only every second, third, … has a label.
    """
    n = edges.size - 1
    C = min(len(axis.numbers), n)
    half = float(edges[C] - edges[0]) / 2
    if C:
        yield 0, short_place(axis.numbers[0]), "start", half
    if C > 1:
        yield C - 1, short_place(axis.numbers[C - 1]), "end", half
    if n > C:
        size = float(edges[C + 1] - edges[C])
        every = int(np.ceil(least / size))
        yield from ((k, axis.short_labels[k].strip("()"), "middle", every * size) for k in range(C, n, every))
