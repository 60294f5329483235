"""Plots with matplotlib, in the style of scikit-learn's displays: budget curves and effects."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any

import numpy as np

from budgetline.evaluation.budget_curves import budget_curve
from budgetline.evaluation.curve import BudgetCurve
from budgetline.evaluation.metrics import label_of
from budgetline.evaluation.pictures import DOWN, UP, ScoreEffect
from budgetline.messages import shown
from budgetline.packages import imported

Artist = Any
"""An object of matplotlib: axes, lines, collections."""
BOUND_LABEL = "bound: no set of groups can be above"
SOME_SETS = "bound on sets "
"""Labels of bounds on some sets of groups only start with this."""
FAR_ABOVE = 10.0
"""Explained shares end at 1: a region that ends this far above a bound reaches the top of any axes."""
ACROSS = 3
"""Most axes side by side in a new figure of effects."""
MOST_TICKS = 8
"""Most labels along each side of a heat map."""


class BudgetCurveDisplay:
    """Budget curve visualisation. Plotting needs matplotlib (the extra ``plot``).

    Create a display with `from_estimator` or from existing curves. `plot` draws it on new axes or on the axes of
    another display.

    Parameters
    ----------
    curves : BudgetCurve, or mapping name -> BudgetCurve
        The curves to plot. Curves with ``errors``, such as means over folds, are drawn with a band of one standard
        error.

    Attributes
    ----------
    curves : dict name -> BudgetCurve
        The curves by label.
    ax_, figure_ : matplotlib axes and figure
        The axes and the figure that contain the curves.
    lines_, bands_ : lists of matplotlib lines and collections
        One line per curve, and one band per curve with errors.
    bound_, beyond_ : matplotlib line and collection, or None
        The bound of a certificate, and the shaded region above it.

    Examples
    --------
    >>> from budgetline import BudgetCurve, BudgetCurveDisplay
    >>> display = BudgetCurveDisplay({"ours": BudgetCurve([0, 1, 4], [0.0, 0.5, 1.0])})
    >>> display.plot().ax_.get_xlabel()
    'cost'
    """

    def __init__(self, curves: BudgetCurve | Mapping[str, BudgetCurve]) -> None:
        if not isinstance(curves, BudgetCurve | Mapping):
            raise TypeError(f"a BudgetCurve or a mapping name -> BudgetCurve is needed, got {type(curves).__name__}")
        self.curves = {curves.label: curves} if isinstance(curves, BudgetCurve) else dict(curves)
        if not self.curves:
            raise ValueError("there are no curves to plot")
        if len(metrics := sorted({curve.metric for curve in self.curves.values()})) > 1:
            raise ValueError(f"curves of different metrics cannot share an axis: {', '.join(metrics)}")

    @classmethod
    def from_estimator(
        cls,
        estimator: object,
        X: object,
        y: object,
        *,
        metric: object = "explained",
        pos_label: object = None,
        sample_weight: object = None,
        qid: object = None,
        name: str | None = None,
        **plot: Any,
    ) -> BudgetCurveDisplay:
        """Plot the curve of a fitted model on held-out data, or of several models in a mapping name -> model.

        ``name`` is the label of the curve, by default the name of the estimator's class. Other parameters as in
        `budget_curve` and `plot`.
        """
        if isinstance(estimator, Mapping) and name is not None:
            raise ValueError(f"name={shown(name)} is for one estimator: a mapping has its own names")
        models = estimator if isinstance(estimator, Mapping) else {name or type(estimator).__name__: estimator}
        data = {"metric": metric, "pos_label": pos_label, "sample_weight": sample_weight, "qid": qid}
        return cls({label: budget_curve(model, X, y, **data) for label, model in models.items()}).plot(**plot)

    def plot(self, ax: Artist = None, *, bound: BudgetCurve | None = None, **line: Any) -> BudgetCurveDisplay:
        """Draw all curves as steps, and return the display.

        Parameters
        ----------
        ax : matplotlib axes, optional
            The axes to plot on, such as the axes of another display. If None, a new figure and axes are created.
        bound : BudgetCurve, optional
            A bound, such as ``certificate.curve()``. It is drawn as steps, and the region above it is shaded. The
            bound holds for "explained" on the training data, with the ridge penalty subtracted. Other curves may
            cross it.
        **line
            Keyword arguments passed to matplotlib's ``plot``.
        """
        bounds = [] if bound is None else [self._checked_bound(bound)]
        if ax is None:
            _, ax = pyplot().subplots(layout="constrained")
        self.ax_, self.figure_ = ax, ax.figure
        self.lines_: list[Artist] = []
        self.bands_: list[Artist] = []
        self.bound_ = self.beyond_ = None
        end = max(curve.total_cost for curve in (*self.curves.values(), *bounds))
        for name, curve in self.curves.items():
            self._draw(name, curve, end, line)
        for each in bounds:
            self._draw_bound(each, end)
        ax.set_xlim(left=0, auto=None)  # longer curves may be drawn into these axes later
        ax.set(xlabel="cost", ylabel=label_of(next(iter(self.curves.values())).metric).text)
        if ax.get_legend_handles_labels()[1]:
            ax.legend()
        return self

    def _draw(self, name: str, curve: BudgetCurve, end: float, line: dict[str, Any]) -> None:
        """Draw one curve, and extend it at its last value to the cost ``end``."""
        costs, values = np.append(curve.costs, end), np.append(curve.values, curve.values[-1])
        self.lines_ += self.ax_.plot(costs, values, **{"drawstyle": "steps-post", "label": name or None, **line})
        if curve.errors is not None:
            errors = np.append(curve.errors, curve.errors[-1])
            shade = {"color": self.lines_[-1].get_color(), "alpha": 0.2, "linewidth": 0}
            self.bands_.append(self.ax_.fill_between(costs, values - errors, values + errors, step="post", **shade))

    def _checked_bound(self, bound: object) -> BudgetCurve:
        """Return a bound if it is about the metric of the curves."""
        if not isinstance(bound, BudgetCurve):
            raise TypeError(f"bound must be a BudgetCurve, such as certificate.curve(), not {type(bound).__name__}")
        for metric in (bound.metric, *(curve.metric for curve in self.curves.values())):
            if metric != "explained":
                raise ValueError(f"a bound applies to metric 'explained', not to {shown(metric)}")
        return bound

    def _draw_bound(self, bound: BudgetCurve, end: float) -> None:
        """Draw a bound, and shade the region that no set of groups can reach."""
        costs, values = np.append(bound.costs, end), np.append(bound.values, bound.values[-1])
        label = f"{bound.label}: none of them can be above" if bound.label.startswith(SOME_SETS) else BOUND_LABEL
        if not all("training" in name for name in self.curves):
            label += " (training data)"
        style = {"drawstyle": "steps-post", "color": "0.45", "linestyle": "--", "linewidth": 1.2, "label": label}
        (self.bound_,) = self.ax_.plot(costs, values, **style)
        steps = np.column_stack([np.repeat(costs, 2)[1:], np.repeat(values, 2)[:-1]])
        corners = np.vstack([steps, [[end, values[-1] + FAR_ABOVE], [0.0, values[-1] + FAR_ABOVE]]])
        shade = {"facecolor": "0.45", "alpha": 0.12, "linewidth": 0}
        self.beyond_ = import_module("matplotlib.collections").PolyCollection([corners], **shade)
        self.ax_.add_collection(self.beyond_, autolim=False)  # it must not change the limits of the axes


def plot_effects(effects: Sequence[ScoreEffect], ax: Artist = None) -> list[Artist]:
    """Draw effects, each into its own axes; return the axes."""
    n = len(effects)
    if not n:
        raise ValueError("there are no effects to plot: no group is bought at this stage")
    if ax is None:
        rows, across = -(-n // ACROSS), min(n, ACROSS)
        size = (4.2 * across, 3.0 * rows)
        _, grid = pyplot().subplots(rows, across, figsize=size, layout="constrained", squeeze=False)
        for unused in grid.flat[n:]:
            unused.remove()
        ax = grid.flat[:n]
    places: list[Artist] = list(np.ravel(ax))
    if len(places) != n:
        raise ValueError(f"{n} effects need {n} axes, got {len(places)}")
    for each, effect in zip(places, effects, strict=True):
        _draw_effect(each, effect)
        each.set_title(effect.caption, fontsize="medium", loc="left", parse_math=False)
    return places


def _draw_effect(ax: Artist, effect: ScoreEffect) -> None:
    """Draw a heat map of a pair, a curve, or bars."""
    values, axis, n = effect.grid, effect.axes[0], len(effect.axes[0].numbers)
    margins = np.array(effect.margins or np.zeros(len(effect.values)))
    if len(effect.axes) == 2:
        most = float(np.abs(values).max()) or 1.0
        cells = ax.imshow(values.T, aspect="auto", origin="lower", cmap="RdBu", vmin=-most, vmax=most)
        ax.figure.colorbar(cells, ax=ax, label="effect")
        for each, side in zip(effect.axes, (ax.xaxis, ax.yaxis), strict=True):
            places = np.unique(np.linspace(0, len(each) - 1, min(len(each), MOST_TICKS)).round().astype(int)).tolist()
            side.set_ticks(places, [each.short_labels[k] for k in places], parse_math=False)
            side.set_label_text(each.column, parse_math=False)
        ax.xaxis.set_tick_params(rotation=30)
    elif not n:
        colours, reach = [UP if value >= 0 else DOWN for value in values], margins if margins.any() else None
        ax.barh(range(len(axis)), values, color=colours, xerr=reach, ecolor="0.5")
        ax.set_yticks(range(len(axis)), axis.short_labels, parse_math=False)
        ax.set_xlabel("effect")
        ax.invert_yaxis()
        ax.axvline(0, color="0.7", linewidth=1)
    else:
        ax.plot(axis.numbers, values[:n], color=UP)
        ax.fill_between(axis.numbers, (values - margins)[:n], (values + margins)[:n], color=UP, alpha=0.2, linewidth=0)
        ax.plot(axis.rug, np.zeros(len(axis.rug)), "|", color="0.4", transform=ax.get_xaxis_transform())
        alone = slice(n, n + len(axis.spikes))
        ax.errorbar(axis.spikes, values[alone], margins[alone], fmt="o", color=UP)
        ax.set_ylabel("effect")
        ax.axhline(0, color="0.7", linewidth=1)
        for label, value, reach in zip(axis.categories, values[alone.stop :], margins[alone.stop :], strict=True):
            ax.axhline(value, color=DOWN, linestyle=":", label=label)
            ax.axhspan(value - reach, value + reach, color=DOWN, alpha=0.1, linewidth=0)
            ax.legend()


def pyplot() -> Artist:
    """Import and return matplotlib's pyplot."""
    return imported("matplotlib.pyplot", "plots need matplotlib", "plot")
