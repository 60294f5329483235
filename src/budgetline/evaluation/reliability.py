"""Displays of how far to trust predictions: reliability diagrams, and the coverage of intervals and sets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import column_or_1d

from budgetline.arrays import Array, Float, Mask
from budgetline.evaluation.displays import Artist, pyplot
from budgetline.evaluation.held_out import HeldOut
from budgetline.inputs import check_integer, check_number, check_weight
from budgetline.messages import shown, some
from budgetline.model.anytime import as_model, model_and_table
from budgetline.model.intervals import predict_interval, predict_set


class Reliability(NamedTuple):
    """Mean probabilities ``predicted``, shares ``observed`` of the class, and weights ``rows`` of bins, all (bins,)."""

    predicted: Float
    observed: Float
    rows: Float

    @property
    def ece(self) -> float:
        """The expected calibration error: the mean distance between the two over the rows."""
        return float(np.average(np.abs(self.predicted - self.observed), weights=self.rows))

    @property
    def bounds(self) -> Float:
        """Ends of an interval of one standard error around each observed share, (2, bins)."""
        return wilson(self.observed, self.rows)

    @classmethod
    def of(cls, positive: Array, probability: Float, weight: Float, n_bins: int) -> Reliability:
        """Divide rows (n,) by their probability into bins of about the same weight; equal ones stay together."""
        order = np.argsort(probability, kind="stable")
        p, hit, w = probability[order], positive[order], weight[order] / weight.mean()
        _, first, where = np.unique(p, return_index=True, return_inverse=True)
        bins = np.floor(n_bins * (np.cumsum(w) - w)[first] / p.size + 1e-9).astype(np.intp)[where]
        rows, said, came = (np.bincount(bins, w * part) for part in (np.ones(p.size), p, hit))
        kept = rows > 0
        return cls(said[kept] / rows[kept], came[kept] / rows[kept], np.asarray(rows[kept], dtype=np.float64))


def wilson(share: Float, n_rows: float | Float) -> Float:
    """Return the ends (2, K) of Wilson's interval of one standard error; it has a width even at shares 0 and 1."""
    middle, half = share + 0.5 / n_rows, np.sqrt(share * (1 - share) / n_rows + 0.25 / n_rows**2)
    return np.array([middle - half, middle + half]) / (1 + 1 / n_rows)


class ReliabilityDisplay:
    """Reliability diagram: observed share of a class against its predicted probability. Plotting needs matplotlib.

    Parameters
    ----------
    curves : mapping name -> Reliability
        The curves, as created by `from_estimator` or `from_predictions`.

    Attributes
    ----------
    curves : dict name -> Reliability
        The curves by name. Each has the arrays ``predicted``, ``observed``, ``bounds`` and ``rows``, with one entry per
        bin, and ``ece``, the expected calibration error.
    ax_, figure_ : matplotlib axes and figure
        The axes and the figure that contain the curves.
    lines_ : list of matplotlib containers
        The error bars of each curve.

    Examples
    --------
    >>> from budgetline import ReliabilityDisplay
    >>> display = ReliabilityDisplay.from_predictions([0, 1, 0, 1], [0.2, 0.2, 0.6, 0.6], n_bins=2)
    >>> round(display.curves["predictions"].ece, 3)
    0.2
    """

    def __init__(self, curves: Mapping[str, Reliability]) -> None:
        self.curves = dict(curves)
        if not self.curves:
            raise ValueError("there are no curves to plot")

    @classmethod
    def from_estimator(
        cls, estimator: object, X: object, y: Any, *, budgets: Sequence[float] | None = None, **given: Any
    ) -> ReliabilityDisplay:
        """Plot the probabilities that a fitted classifier predicts for held-out rows at one or more budgets.

        ``estimator`` is the classifier, and ``X`` and ``y`` are the held-out rows. By default, ``budgets`` is the cost
        of all groups. Other keyword arguments (``**given``) are passed to `from_predictions`. With two classes,
        ``pos_label`` defaults to the second class.
        """
        held = HeldOut.of(estimator, X, y)
        names, order, classes = dict[int, str](), held.model.sequence, held.model.classes
        if classes is None:
            raise TypeError("reliability diagrams are for classifiers: CoverageDisplay is for regression")
        total = float(order.costs.sum())
        for budget in [total] if budgets is None else budgets:
            names.setdefault(order.stage_at(check_number("budgets", budget, ge=0)), f"budget {budget:g}")
        k = _class_of(classes, given.pop("pos_label", None))
        views = ((names[stage], view) for stage, view in enumerate(held.views()) if stage in names)
        found = {name: view.respond("predict_proba")[:, k] for name, view in views}
        own = held.targets[:, 0] > 0.5 if classes.size == 2 else held.targets[:, k] > 0.5
        return cls._of(own if classes.size > 2 or k else ~own, found, **given)

    @classmethod
    def from_predictions(
        cls,
        y_true: ArrayLike,
        probabilities: ArrayLike | Mapping[str, ArrayLike],
        *,
        pos_label: object = None,
        n_bins: int = 10,
        sample_weight: object = None,
        **plot: object,
    ) -> ReliabilityDisplay:
        """Plot predicted probabilities of a class, shape (n,), or several such arrays in a mapping name -> array.

        ``y_true`` contains the true labels, and ``sample_weight`` the sample weights. ``pos_label`` is the class to
        plot; with two classes, it defaults to the second class. Each of the ``n_bins`` bins has about the same number
        of rows. Other keyword arguments (``**plot``) are passed to the method ``plot``.
        """
        y = column_or_1d(y_true)
        labels = np.unique(y)
        several = probabilities if isinstance(probabilities, Mapping) else {"predictions": probabilities}
        positive = y == labels[_class_of(labels, pos_label)]
        return cls._of(positive, several, n_bins=n_bins, sample_weight=sample_weight, **plot)

    @classmethod
    def _of(
        cls,
        positive: Mask,
        several: Mapping[str, ArrayLike],
        *,
        n_bins: int = 10,
        sample_weight: object = None,
        **plot: object,
    ) -> ReliabilityDisplay:
        bins, n, found = check_integer("n_bins", n_bins, ge=1), positive.size, dict[str, Reliability]()
        weight = check_weight(sample_weight, n)
        for name, each in several.items():
            p = np.asarray(each, dtype=np.float64)
            if p.shape != positive.shape or not np.all((p >= 0) & (p <= 1)):
                raise ValueError(f"{shown(name)} must hold one number between 0 and 1 for each of the {n} rows")
            found[name] = Reliability.of(positive, p, np.ones(n) if weight is None else weight, bins)
        return cls(found).plot(**plot)

    def plot(self, ax: Artist = None, **line: object) -> ReliabilityDisplay:
        """Draw the observed shares with error bars of one standard error, and the diagonal, on ``ax`` or new axes.

        Keyword arguments (``**line``) are passed to matplotlib's ``errorbar``.
        """
        self.ax_ = ax = pyplot().subplots(layout="constrained")[1] if ax is None else ax
        self.figure_, self.lines_ = ax.figure, list[Artist]()
        ax.plot([0, 1], [0, 1], "--", color="0.6", linewidth=1)
        for name, each in self.curves.items():
            style = {"fmt": "o-", "capsize": 2, "label": f"{name}: calibration error {each.ece:.3f}", **line}
            reach = np.maximum(np.abs(each.bounds - each.observed), 0)
            self.lines_.append(ax.errorbar(each.predicted, each.observed, reach, **style))
        ax.set(xlabel="predicted probability", ylabel="observed share", xlim=(-0.02, 1.02), ylim=(-0.02, 1.02))
        ax.legend()
        return self


class CoverageDisplay:
    """Coverage plot: how often intervals, or sets of classes, contain the target at every budget. Needs matplotlib.

    Parameters
    ----------
    costs : array of shape (K,)
        The budgets.
    covered : array of shape (K,)
        The share of rows whose interval or set contains the target, at each budget.
    sizes : array of shape (K,)
        The mean width of the intervals, or the mean size of the sets, at each budget.
    coverage : float
        The requested coverage.
    n_rows : float
        The number of rows. It determines the attribute ``bounds`` of shape (2, K), which contains an interval of one
        standard error around each share.

    Attributes
    ----------
    ax_, figure_ : matplotlib axes and figure
        The axes and the figure that contain the plot.
    line_, band_ : matplotlib line and collection
        The measured coverage, and its band of one standard error.

    Examples
    --------
    >>> from budgetline import CoverageDisplay
    >>> display = CoverageDisplay.from_predictions([1.0, 2.0], [([0.0, 0.0], [3.0, 1.0])], [5.0], coverage=0.5)
    >>> display.covered.tolist(), display.sizes.tolist()
    ([0.5], [2.0])
    """

    def __init__(self, costs: ArrayLike, covered: ArrayLike, sizes: ArrayLike, coverage: float, n_rows: float) -> None:
        self.costs, self.covered, self.sizes = (np.asarray(part, dtype=np.float64) for part in (costs, covered, sizes))
        self.coverage = check_number("coverage", coverage, gt=0, lt=1)
        self.bounds = wilson(self.covered, n_rows)

    @classmethod
    def from_estimator(
        cls, estimator: object, X: object, y: Any, *, coverage: float = 0.9, **given: Any
    ) -> CoverageDisplay:
        """Plot the coverage of ``predict_interval`` or ``predict_set`` of a fitted model on held-out rows.

        ``estimator`` is the model, and ``X`` and ``y`` are the held-out rows. Other keyword arguments (``**given``) are
        passed to `from_predictions`.
        """
        model, seen = as_model(estimator), model_and_table(estimator, X)[1]
        predict = predict_interval if model.classes is None else predict_set
        found = [predict(model, seen, coverage, None, stage, None) for stage in range(1 + model.n_stages)]
        costs = np.append(0.0, model.sequence.cumulative_costs)
        return cls.from_predictions(y, found, costs, coverage=coverage, classes=model.classes, **given)

    @classmethod
    def from_predictions(
        cls,
        y_true: ArrayLike,
        predictions: Sequence[Any],
        costs: Sequence[float] | Float,
        *,
        coverage: float = 0.9,
        classes: ArrayLike | None = None,
        sample_weight: object = None,
        **plot: object,
    ) -> CoverageDisplay:
        """Plot the coverage of prediction intervals, or of sets of classes, at each cost.

        ``predictions`` has one entry for each of the ``costs``. For intervals, an entry is a pair of arrays, the lower
        and the upper bounds. For sets, pass the ``classes``, shape (P,); an entry is then a bool array of shape (n, P).
        ``y_true`` contains the true targets, and ``sample_weight`` the sample weights. Other keyword arguments
        (``**plot``) are passed to the method ``plot``.
        """
        y, found = np.asarray(y_true), list[list[float]]()
        known = None if classes is None else np.asarray(classes)
        if known is not None and (odd := np.setdiff1d(y, known)).size:
            raise ValueError(
                f"y_true holds {some(map(str, odd.tolist()))}, but the classes are {some(map(str, known))}"
            )
        if len(predictions) != len(costs):
            raise ValueError(f"there are {len(predictions)} predictions and {len(costs)} costs")
        weight = check_weight(sample_weight, len(y))
        weight = np.ones(len(y)) if weight is None else weight
        for each in predictions:
            if known is None:
                lower, upper = (_shaped(bound, y.shape, np.float64) for bound in each)
                inside, size = (lower <= y) & (y <= upper), upper - lower
            else:
                members = _shaped(each, (len(y), known.size), np.bool_)
                inside, size = (members & (y[:, None] == known)).any(axis=1), members.sum(axis=1)
            found.append([np.average(part.reshape(len(y), -1).mean(axis=1), weights=weight) for part in (inside, size)])
        covered, sizes = np.reshape(found, (-1, 2)).T
        return cls(costs, covered, sizes, coverage, float(weight.sum() ** 2 / (weight @ weight))).plot(**plot)

    def plot(self, ax: Artist = None, **line: object) -> CoverageDisplay:
        """Draw the measured coverage as steps with a band of one standard error, and the requested coverage as a line.

        ``ax`` are the axes to plot on; if None, new axes are created. Keyword arguments (``**line``) are passed to
        matplotlib's ``plot``.
        """
        self.ax_ = ax = pyplot().subplots(layout="constrained")[1] if ax is None else ax
        self.figure_, (lower, upper) = ax.figure, self.bounds
        style = {"drawstyle": "steps-post", "marker": "o", "label": "measured", **line}
        (self.line_,) = ax.plot(self.costs, self.covered, **style)
        shade = {"color": self.line_.get_color(), "alpha": 0.2, "linewidth": 0, "step": "post"}
        self.band_ = ax.fill_between(self.costs, lower, upper, **shade)
        ax.axhline(self.coverage, linestyle="--", color="0.45", linewidth=1.2, label=f"requested: {self.coverage:g}")
        low = min(self.coverage, float(lower.min()))
        ax.set(xlabel="cost", ylabel="share of targets inside", ylim=(max(0.0, 2 * low - 1), 1))
        ax.legend()
        return self


def _shaped(given: ArrayLike, shape: tuple[int, ...], kind: type) -> Array:
    """Return predictions as an array, of the shape that belongs to the targets."""
    found: Array = np.asarray(given, dtype=kind)
    if found.shape != shape:
        raise ValueError(f"predictions have shape {found.shape}, but the targets need {shape}")
    return found


def _class_of(classes: Array, pos_label: object) -> int:
    """Return the position of the class that a diagram is about."""
    known = classes.tolist()
    if pos_label is None and len(known) == 2:
        return 1
    if pos_label not in known:
        what = "is needed" if pos_label is None else f"{shown(pos_label)} is not a class"
        raise ValueError(f"pos_label {what}: the classes are {some(map(str, known))}")
    return int(known.index(pos_label))
