"""Displays of how far to trust predictions: reliability diagrams, and the coverage of intervals and sets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from budgetline.arrays import Array, Float
from budgetline.evaluation.displays import Artist, pyplot
from budgetline.evaluation.held_out import HeldOut
from budgetline.inputs import check_integer, check_number, check_weight
from budgetline.messages import shown, some
from budgetline.model.anytime import as_model, model_and_table
from budgetline.model.intervals import predict_interval, predict_set


class Reliability(NamedTuple):
    """Mean probabilities ``predicted`` of bins of rows, the shares ``observed`` of the class, and ``rows`` of each.

    All have the shape (bins,); rows are counted by their weights, whose mean is 1.
    """

    predicted: Float
    observed: Float
    rows: Float

    @property
    def ece(self) -> float:
        """The expected calibration error: the mean distance of the two over the rows."""
        return float(np.average(np.abs(self.predicted - self.observed), weights=self.rows))

    @property
    def errors(self) -> Float:
        """Standard errors of the observed shares."""
        return np.sqrt(self.observed * (1 - self.observed) / self.rows)

    @classmethod
    def of(cls, positive: Float, probability: Float, weight: Float | None, n_bins: int) -> Reliability:
        """Divide rows (n,) by their probability into bins of about the same weight; equal ones stay together."""
        weight = np.ones(positive.size) if weight is None else weight / weight.mean()
        order = np.argsort(probability, kind="stable")
        below = (np.cumsum(weight[order]) - weight[order]) / weight.sum()
        _, first, where = np.unique(probability[order], return_index=True, return_inverse=True)
        which = np.floor(n_bins * below[first] + 1e-9)[where]
        which = which.astype(np.intp)
        rows, said, came = (
            np.bincount(which, weight[order] * part[order]) for part in (np.ones(order.size), probability, positive)
        )
        kept = rows > 0
        return cls(said[kept] / rows[kept], came[kept] / rows[kept], np.asarray(rows[kept], dtype=np.float64))


class ReliabilityDisplay:
    """Reliability diagram: how often a class occurs where a probability is predicted. Needs matplotlib to plot.

    Parameters
    ----------
    curves : mapping name -> Reliability
        Made by `from_estimator` or `from_predictions`.

    Attributes
    ----------
    curves : dict name -> Reliability
        With ``predicted``, ``observed``, ``errors`` and ``rows`` of every bin, and ``ece``, the expected calibration
        error.
    ax_, figure_, lines_ : matplotlib axes, figure, and one container of error bars per curve

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
        cls,
        estimator: object,
        X: object,
        y: object,
        *,
        budgets: Sequence[float] | None = None,
        pos_label: object = None,
        n_bins: int = 10,
        sample_weight: object = None,
        **plot: object,
    ) -> ReliabilityDisplay:
        """Plot the probabilities of a fitted classifier on held-out rows, at one or more budgets.

        ``budgets`` are by default that of all groups. ``pos_label`` is the class, by default the second of two; each
        of the ``n_bins`` bins has about the same number of rows. ``estimator`` is the
        classifier; ``X``, ``y`` and ``sample_weight`` are the rows. Other arguments as in `plot`.
        """
        held = HeldOut.of(estimator, X, y, sample_weight)
        names, ends, classes = dict[int, str](), held.model.sequence, held.model.classes
        for budget in [None] if budgets is None else budgets:
            stage = len(ends) if budget is None else ends.stage_at(check_number("budgets", budget, ge=0))
            names.setdefault(stage, f"budget {float(ends.costs.sum()) if budget is None else budget:g}")
        if classes is None:
            raise TypeError("reliability diagrams are for classes: CoverageDisplay shows the intervals of a regression")
        k = _class_of(classes, pos_label)
        positive = np.asarray(held.y) == classes[k]
        found = {
            names[stage]: Reliability.of(positive, view.respond("predict_proba")[:, k], held.weight, _bins(n_bins))
            for stage, view in enumerate(held.views())
            if stage in names
        }
        return cls(found).plot(**plot)

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
        """Plot probabilities (n,) of a class, or several of them in a mapping name -> probabilities.

        ``y_true`` are the labels, ``sample_weight`` weights of the rows. ``pos_label`` is the class, by default the
        second of two; each of the ``n_bins`` bins has about the same number of rows. ``plot`` goes to the method
        ``plot``.
        """
        y = np.asarray(y_true)
        labels = np.unique(y)
        classes = labels if labels.size == 2 or pos_label is not None else np.array([0, 1])
        positive = y == classes[_class_of(classes, pos_label)]
        several = probabilities if isinstance(probabilities, Mapping) else {"predictions": probabilities}
        found = {}
        for name, each in several.items():
            p = np.asarray(each, dtype=np.float64)
            if p.shape != y.shape or not np.all((p >= 0) & (p <= 1)):
                raise ValueError(f"{shown(name)} must hold one number between 0 and 1 for each of the {y.size} rows")
            found[name] = Reliability.of(positive, p, check_weight(sample_weight, y.size), _bins(n_bins))
        return cls(found).plot(**plot)

    def plot(self, ax: Artist = None, **line: object) -> ReliabilityDisplay:
        """Draw the shares with their standard errors, and the diagonal, into ``ax`` or new axes.

        ``line`` goes to matplotlib's ``errorbar``.
        """
        if ax is None:
            _, ax = pyplot().subplots(layout="constrained")
        self.ax_, self.figure_ = ax, ax.figure
        ax.plot([0, 1], [0, 1], "--", color="0.6", linewidth=1)
        self.lines_ = [
            ax.errorbar(
                each.predicted,
                each.observed,
                each.errors,
                **{"fmt": "o-", "capsize": 2, "label": f"{name}: calibration error {each.ece:.3f}", **line},
            )
            for name, each in self.curves.items()
        ]
        ax.set(xlabel="predicted probability", ylabel="observed share", xlim=(-0.02, 1.02), ylim=(-0.02, 1.02))
        ax.legend()
        return self


class CoverageDisplay:
    """Plot of how often intervals, or sets of classes, hold the target, at every budget. Needs matplotlib to plot.

    Parameters
    ----------
    costs, covered, sizes : arrays of shape (K,)
        The budgets, the share of rows whose target is inside, and the mean width of the intervals or size of the sets.
    coverage : float
        The share that was asked for.
    n_rows : float
        Number of rows, for standard errors.

    Attributes
    ----------
    costs, covered, sizes, errors : arrays of shape (K,)
        With ``errors``, the standard errors of the shares.
    coverage : float
    ax_, figure_, line_, band_ : matplotlib axes, figure, line and collection

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
        self.errors = np.sqrt(self.covered * (1 - self.covered) / n_rows)

    @classmethod
    def from_estimator(
        cls,
        estimator: object,
        X: object,
        y: Any,
        *,
        coverage: float = 0.9,
        sample_weight: object = None,
        **plot: object,
    ) -> CoverageDisplay:
        """Plot the coverage of ``predict_interval`` or ``predict_set`` of a fitted model on held-out rows.

        ``estimator`` is the model; ``X``, ``y`` and ``sample_weight`` are the rows. ``plot`` goes to the method
        ``plot``.
        """
        model, seen = as_model(estimator), model_and_table(estimator, X)[1]
        predict = predict_interval if model.classes is None else predict_set
        stages = range(1 + model.n_stages)
        found = [predict(model, seen, coverage, None, stage, None) for stage in stages]
        costs = np.append(0.0, model.sequence.cumulative_costs)
        about: dict[str, Any] = {"classes": model.classes, "sample_weight": sample_weight}
        return cls.from_predictions(y, found, costs, coverage=coverage, **about, **plot)

    @classmethod
    def from_predictions(
        cls,
        y_true: ArrayLike,
        predictions: Sequence[Any],
        costs: ArrayLike,
        *,
        coverage: float = 0.9,
        classes: ArrayLike | None = None,
        sample_weight: object = None,
        **plot: object,
    ) -> CoverageDisplay:
        """Plot the coverage of given intervals, or sets, one for each cost.

        ``predictions`` holds one for each of the ``costs``. An interval is a pair of arrays, ``lower`` and ``upper``;
        a set, if there are ``classes`` (P,), is a bool array (n, P). ``y_true`` are the targets, ``sample_weight``
        weights of the rows. ``plot`` goes to the method ``plot``.
        """
        y, costs = np.asarray(y_true), np.asarray(costs, dtype=np.float64)
        if len(predictions) != costs.size:
            raise ValueError(f"there are {len(predictions)} predictions and {costs.size} costs")
        weight, covered, sizes = check_weight(sample_weight, len(y)), list[float](), list[float]()
        for each in predictions:
            if classes is None:
                lower, upper = (np.asarray(bound, dtype=np.float64) for bound in each)
                inside, size = (lower <= y) & (y <= upper), upper - lower
            else:
                members = np.asarray(each, dtype=bool)
                inside, size = (members & (y[:, None] == np.asarray(classes))).any(axis=1), members.sum(axis=1)
            covered.append(float(np.average(inside.reshape(len(y), -1).mean(axis=1), weights=weight)))
            sizes.append(float(np.average(size.reshape(len(y), -1).mean(axis=1), weights=weight)))
        n_rows = len(y) if weight is None else weight.sum() ** 2 / (weight @ weight)
        return cls(costs, covered, sizes, coverage, float(n_rows)).plot(**plot)

    def plot(self, ax: Artist = None, **line: object) -> CoverageDisplay:
        """Draw the measured coverage as steps with a band of one standard error, and the one that was asked for.

        ``ax`` are axes to draw into, ``line`` goes to matplotlib's ``plot``.
        """
        if ax is None:
            _, ax = pyplot().subplots(layout="constrained")
        self.ax_, self.figure_ = ax, ax.figure
        (self.line_,) = ax.plot(
            self.costs, self.covered, **{"drawstyle": "steps-post", "marker": "o", "label": "measured", **line}
        )
        shade = {"color": self.line_.get_color(), "alpha": 0.2, "linewidth": 0, "step": "post"}
        self.band_ = ax.fill_between(self.costs, self.covered - self.errors, self.covered + self.errors, **shade)
        ax.axhline(self.coverage, linestyle="--", color="0.45", linewidth=1.2, label=f"asked for: {self.coverage:g}")
        low = min(self.coverage, float((self.covered - self.errors).min()))
        ax.set(xlabel="cost", ylabel="share of targets inside", ylim=(max(0.0, 2 * low - 1), 1))
        ax.legend()
        return self


def _bins(n_bins: int) -> int:
    return check_integer("n_bins", n_bins, ge=1)


def _class_of(classes: Array, pos_label: object) -> int:
    """Return the position of the class that a diagram is about."""
    if pos_label is None and len(classes) == 2:
        return 1
    known = classes.tolist()
    if pos_label not in known:
        what = "is needed" if pos_label is None else f"{shown(pos_label)} is no class"
        raise ValueError(f"pos_label {what}: there are {some(map(str, known))}")
    return int(known.index(pos_label))
