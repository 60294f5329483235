"""EffectsDisplay: effects drawn by matplotlib, in the style of scikit-learn's displays."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from budgetline.arrays import Float
from budgetline.evaluation.display import Artist, pyplot
from budgetline.evaluation.pictures import DOWN, UP, Axis

ACROSS = 3
"""Most axes side by side in a new figure."""
MOST_TICKS = 8
"""Labels along each side of a heat map."""


class EffectsDisplay:
    """Plot of effects, made by :meth:`Effects.plot`.

    Parameters
    ----------
    parts : sequence of (caption, axes of the effect, values)

    Attributes
    ----------
    axes_ : list of matplotlib axes, one per part
    figure_ : matplotlib figure
    """

    def __init__(self, parts: Sequence[tuple[str, tuple[Axis, ...], Float]]) -> None:
        self.parts = parts

    def plot(self, ax: Artist = None) -> EffectsDisplay:
        """Draw every part into axes of its own, and return the display."""
        n = len(self.parts)
        if not n:
            raise ValueError("there are no effects to plot: no group is bought at this stage")
        if ax is None:
            rows, across = -(-n // ACROSS), min(n, ACROSS)
            size = (4.2 * across, 3.0 * rows)
            figure, ax = pyplot().subplots(rows, across, figsize=size, layout="constrained", squeeze=False)
            for unused in ax.flat[n:]:
                figure.delaxes(unused)
            ax = ax.flat[:n]
        self.axes_ = list(np.ravel(ax))
        if len(self.axes_) != n:
            raise ValueError(f"{n} effects need {n} axes, got {len(self.axes_)}")
        self.figure_ = self.axes_[0].figure
        for each, (caption, axes, values) in zip(self.axes_, self.parts, strict=True):
            _draw(each, axes, values)
            each.set_title(caption, fontsize="medium", loc="left", parse_math=False)
        return self


def _draw(ax: Artist, axes: tuple[Axis, ...], values: Float) -> None:
    """Draw a heat map of a pair, a curve, or bars."""
    if len(axes) == 2:
        most = float(np.abs(values).max()) or 1.0
        cells = ax.imshow(values.T, aspect="auto", origin="lower", cmap="RdBu", vmin=-most, vmax=most)
        ax.figure.colorbar(cells, ax=ax, label="effect")
        for axis, side in zip(axes, (ax.xaxis, ax.yaxis), strict=True):
            places = np.unique(np.linspace(0, len(axis) - 1, min(len(axis), MOST_TICKS)).round().astype(int)).tolist()
            side.set_ticks(places, [axis.short_labels[k] for k in places], parse_math=False)
            side.set_label_text(axis.column, parse_math=False)
            side.set_tick_params(rotation=30 if side is ax.xaxis else 0)
        return
    (axis,) = axes
    ax.set_ylabel("effect") if axis.numbers else ax.set_xlabel("effect")
    if not axis.numbers:
        colours = [UP if value >= 0 else DOWN for value in values]
        ax.barh(range(len(axis)), values, color=colours)
        ax.set_yticks(range(len(axis)), axis.short_labels, parse_math=False)
        ax.invert_yaxis()
        ax.axvline(0, color="0.7", linewidth=1)
        return
    n, m = len(axis.numbers), len(axis.spikes)
    ax.axhline(0, color="0.7", linewidth=1)
    ax.plot(axis.numbers, values[:n], color=UP)
    ax.plot(axis.rug, np.zeros(len(axis.rug)), "|", color="0.4", transform=ax.get_xaxis_transform())
    if m:
        ax.plot(axis.spikes, values[n : n + m], "o", color=UP)
    for label, value in zip(axis.levels, values[n + m :], strict=True):
        ax.axhline(value, color=DOWN, linestyle=":", label=label)
        ax.legend()
