"""The certificate: how good a sequence is beside the best that any budget could buy, and the proof of it."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from budgetline.budgets import SLACK, Interpolation, affordable, check_stop, floats_of, rate
from budgetline.evaluation.curve import BudgetCurve
from budgetline.evaluation.display import SOME_SETS, BudgetCurveDisplay
from budgetline.evaluation.timeliness import timeliness
from budgetline.groups import FeatureGroups
from budgetline.messages import shown
from budgetline.optimality.certificate_file import read_certificate, write_certificate
from budgetline.optimality.condition import MOST_NAMES, condition_of
from budgetline.optimality.proof import Proof
from budgetline.optimality.verifier import verify
from budgetline.statistics.moments import Moments
from budgetline.tables import Backend, frame_of, html_table, rounded_down, text_table

Float = NDArray[np.float64]

HEADER = ("budget", "achieved", "bound", "certified")
SHOWN = (0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0)
"""Shares of the total cost that a printed certificate shows."""


class Certified(NamedTuple):
    """A value that was achieved, the most that anything could have achieved, and their ratio."""

    achieved: float
    bound: float
    ratio: float


@dataclass(frozen=True, eq=False)
class Certificate:
    """At every budget, what a sequence explains on the training data, and a bound on what any set of groups could.

    The bounds are proven: :meth:`verify` checks them from the moments, without the code that found them.

    Attributes
    ----------
    feature_groups : FeatureGroups
    order : int array
        The sequence, as positions of groups.
    values : float array
        F of each of its prefixes.
    alpha : float
        The ridge constant.
    loss : str
        For other losses than "squared_error" the only bound is that of all groups.
    budgets, achieved, bounds : float arrays of shape (B,)
        Increasing budgets; F of the longest prefix that each pays for; the bound on F of any set that it pays for.
    everything : float
        F of all groups that may be bought; R(∅) where the columns are too nearly dependent to tell.
    null_value : float
        R(∅), the risk without any group.
    gamma : float
        γ, the smallest eigenvalue of the whitened covariance, which the theorems are about.
    included, excluded : bool arrays of shape (J,)
        Groups that must or must not be in; none for a sequence. Where there are any, all bounds are about the sets that
        hold all of the first and none of the second, and other sets may explain more.
    proof : Proof

    Examples
    --------
    >>> from budgetline import AnytimeRegressor
    >>> from budgetline.datasets import load_heart
    >>> heart = load_heart()
    >>> model = AnytimeRegressor(heart.feature_groups).fit(heart.data, heart.target)
    >>> certificate = model.certificate(time_limit=60)
    >>> round(certificate.at(80).ratio, 3), round(certificate.timeliness().ratio, 2)
    (0.974, 0.98)
    >>> certificate.verify(model.moments_)
    """

    feature_groups: FeatureGroups
    order: NDArray[np.intp]
    values: Float
    alpha: float
    loss: str
    budgets: Float
    achieved: Float
    bounds: Float
    everything: float
    null_value: float
    gamma: float
    included: NDArray[np.bool_]
    excluded: NDArray[np.bool_]
    proof: Proof

    @property
    def condition(self) -> str:
        """Which sets the bounds are about, such as "with age and without blood"; "" if about all."""
        return condition_of(self.feature_groups.names, self.included, self.excluded)

    @property
    def ratios(self) -> Float:
        """Achieved over bound at every budget: at least this share of the optimum was reached; 1 where both are 0."""
        return _ratios(self.achieved, self.bounds)

    @property
    def total_cost(self) -> float:
        """The cost of all groups."""
        return self.feature_groups.prices.total

    def at(self, budget: float) -> Certified:
        """Return what the sequence achieves at a budget, the bound there, and their ratio.

        Between two budgets of the certificate the bound is that of the larger one.

        Parameters
        ----------
        budget : float

        Examples
        --------
        >>> from budgetline import Moments, certify
        >>> moments = Moments.of([[1, 1], [1, -1], [-1, 1], [-1, -1.0]], [3, 1, -1, -3.0])
        >>> certificate = certify(moments, {"a": [0], "b": [1]}, {"a": 3, "b": 1}, alpha=0)
        >>> [round(certificate.at(budget).bound, 6) for budget in (1, 3, 4)]  # greedy buys a first, so not b for 1
        [0.5, 2.0, 2.5]
        >>> [round(certificate.at(budget).ratio, 3) for budget in (1, 3, 4)]
        [0.0, 1.0, 1.0]
        """
        if not floats_of(budget) >= 0:
            raise ValueError(f"budget must be ≥ 0, got {shown(budget)}")
        achieved, bound = self._achieved_at(budget), float(self._bound_at(np.array([budget]))[0])
        return Certified(achieved, bound, float(_ratios(np.array([achieved]), np.array([bound]))[0]))

    def timeliness(self, stop: float | None = None, interpolation: Interpolation = "step") -> Certified:
        """Return the timeliness of the sequence, a bound on that of any sequence, and their ratio.

        Where groups must not be in, the bound is about sequences without them. Where groups must be in, it is an error:
        the bounds then say nothing about the first groups of a sequence.

        Parameters
        ----------
        stop : float, optional
            The largest budget that counts; default: the cost of all groups.
        interpolation : {"step", "linear"}
            As in :func:`budgetline.timeliness`. For "linear" the bound is the least concave curve above the bounds.
        """
        if self.included.any():
            raise ValueError(
                f"a certificate about sets {self._short_condition} has no timeliness: a sequence begins without them"
            )
        T = self.total_cost if stop is None else check_stop(stop)
        scale = self.null_value if self.null_value > 0 else 1.0
        value = timeliness(self._sequence_curve(), T, interpolation=interpolation) / scale
        bound = self.curve()
        most = timeliness(bound if interpolation == "step" else _concave(bound), T, interpolation=interpolation)
        # on the last billionth before a group the bound is that of the group
        nothing = most <= 1e-6 * self.everything / scale
        return Certified(value, most, 1.0 if nothing else float(_ratios(np.array([value]), np.array([most]))[0]))

    def curve(self) -> BudgetCurve:
        """Return the bound as a curve of F/R(∅), to be drawn above that of the sequence."""
        scale = self.null_value if self.null_value > 0 else 1.0
        values = np.append(self.bounds, self.everything) / scale  # a bound holds up to its budget
        label = f"{SOME_SETS}{self._short_condition}" if self.condition else "bound"
        return BudgetCurve(np.concatenate([[0.0], self.budgets]), values, label=label)

    def plot(self, ax: Any = None, **plot: Any) -> BudgetCurveDisplay:
        """Draw what the sequence explains of the training data, and the bound above it.

        Parameters
        ----------
        ax : matplotlib axes, optional
        **plot
            As in :meth:`budgetline.BudgetCurveDisplay.plot`.
        """
        own, scale = self._sequence_curve(), self.null_value if self.null_value > 0 else 1.0
        training = replace(own, values=own.values / scale, metric="explained")
        return BudgetCurveDisplay(training).plot(ax, bound=self.curve(), **plot)

    def verify(self, moments: Moments) -> None:
        """Check every statement of the certificate from the moments; raise a ValueError that names what is wrong.

        Shares no code with what found the bounds: that C − Δ is positive semidefinite, one product per dual, and one
        sort per leaf.

        Parameters
        ----------
        moments : Moments
            Of the training data.
        """
        verify(self, moments)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the certificate to a file, in full or not at all.

        Parameters
        ----------
        path : path to the file
        """
        write_certificate(self, path)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Certificate:
        """Read a certificate from a file; it proves nothing before :meth:`verify` has checked it.

        Parameters
        ----------
        path : path to the file
        """
        return cls(**read_certificate(path))

    @property
    def notes(self) -> tuple[str, ...]:
        """What to know about the bounds, and what the theorems say beside them."""
        if self.loss != "squared_error":
            return (f"For loss {shown(self.loss)} the only bound known is that of all groups.",)
        found = []
        if self.condition:
            found.append(f"The bounds are about sets {self.condition}: other sets may explain more.")
        if not self.proof.blocks:
            most = "what all groups that may be in explain" if self.excluded.any() else "what all groups explain"
            found.append(
                f"The columns are too nearly dependent (alpha={self.alpha:g}) for the precision of the moments: the "
                f"only bound is {most}, or the whole risk. Raise alpha, or use moments of float64 data."
            )
        if self.condition:
            return tuple(found)  # the theorems are about all sets
        if not self.feature_groups.prices.additive:
            found.append("Costs are shared or groups required: Theorem 3.2 and the doubling bound do not apply.")
        else:
            found.append(
                f"Theorem 3.2 (γ = {self.gamma:.3g}) promises greedy sequences by fr or omp {self.greedy_promise:.1%} "
                f"of the optimum at every prefix; the doubling bound {self.doubling_promise(8):.1%} of the optimum at "
                "an eighth of the cost."
            )
        return tuple(found)

    @property
    def greedy_promise(self) -> float | None:
        """1 − e^−γ: the share of the optimum at its own cost that Theorem 3.2 promises; None where costs are shared."""
        return -float(np.expm1(-self.gamma)) if self.feature_groups.prices.additive else None

    def doubling_promise(self, factor: float) -> float | None:
        """Return 1 − exp(−γ(C0/2 − 2)), the share of the optimum at 1/C0 of the cost that doubling is promised.

        Parameters
        ----------
        factor : float
            C0, more than 4.
        """
        if not factor > 4:
            raise ValueError(f"factor must be more than 4, got {shown(factor)}")
        return -float(np.expm1(-self.gamma * (factor / 2 - 2))) if self.feature_groups.prices.additive else None

    def to_dict(self) -> dict[str, list[float]]:
        """Return the table as plain columns: budget, achieved, bound (both F), and certified, their ratio."""
        columns = (self.budgets, self.achieved, self.bounds, self.ratios)
        return {name: column.tolist() for name, column in zip(HEADER, columns, strict=True)}

    def to_frame(self, backend: Backend = "pandas") -> Any:
        """Return the table as a data frame.

        Which sets the bounds are about, if not all, is in ``attrs["condition"]`` of a pandas frame and in the metadata
        of a pyarrow table; polars frames have no place for it.

        Parameters
        ----------
        backend : {"pandas", "polars", "pyarrow"}
        """
        frame = frame_of(self.to_dict(), backend)
        if self.condition and backend == "pandas":
            frame.attrs["condition"] = self.condition
        if self.condition and backend == "pyarrow":
            return frame.replace_schema_metadata({"condition": self.condition})
        return frame

    def __str__(self) -> str:
        return "\n".join([text_table(self._header(), self._cells()), *self.notes])

    def __repr__(self) -> str:
        about = [f"{self.budgets.size} budget{'s' if self.budgets.size > 1 else ''}"]
        if self.condition:
            about.append(f"sets {self._short_condition}")
        if not self.included.any():
            timely = f"{rounded_down(self.timeliness().ratio):.1%}"
            about.append(f"timeliness at least {timely} of any" + (" such sequence" if self.condition else ""))
        return f"Certificate({', '.join(about)})\n{self}"

    def _repr_html_(self) -> str:
        return html_table(self._header(), self._cells())

    @property
    def _short_condition(self) -> str:
        return condition_of(self.feature_groups.names, self.included, self.excluded, MOST_NAMES)

    def _header(self) -> list[str]:
        """Return the header of the printed table: it names the sets that the bound is about."""
        return [f"{name} {self._short_condition}".rstrip() if name == "bound" else name for name in HEADER]

    def _cells(self) -> list[list[str]]:
        scale = self.null_value if self.null_value > 0 else 1.0
        rows = []
        for share in SHOWN:
            budget = share * self.total_cost
            found = self.at(budget)
            cells = f"{found.achieved / scale:.1%}", f"{found.bound / scale:.1%}", f"{rounded_down(found.ratio):.1%}"
            rows.append([f"{budget:.6g}", *cells])
        return rows

    def _sequence_curve(self) -> BudgetCurve:
        """Return F of the sequence at its own costs."""
        costs = np.cumsum(self.feature_groups.prices.steps(self.order))
        zero = np.zeros(1)
        return BudgetCurve(np.concatenate([zero, costs]), np.concatenate([zero, self.values]), "F", label="training")

    def _achieved_at(self, budget: float) -> float:
        k = int(affordable(self.budgets, budget))
        return float(self.achieved[k - 1]) if k else 0.0

    def _bound_at(self, budgets: Float) -> Float:
        """Return the bound at any budgets: that of the next larger one of the certificate."""
        k = np.searchsorted(self.budgets * (1 + SLACK), budgets, side="left")
        return np.append(self.bounds, self.everything)[k]


def _concave(curve: BudgetCurve) -> BudgetCurve:
    """Return the least concave curve above a curve that is read as steps."""
    hull: list[tuple[float, float]] = []
    for x, y in zip(curve.costs.tolist(), curve.values.tolist(), strict=True):
        if hull and x == hull[-1][0]:
            y = max(y, hull.pop()[1])
        while len(hull) > 1 and _slope(hull[-2], hull[-1]) <= _slope(hull[-1], (x, y)):
            hull.pop()
        hull.append((x, y))
    costs, values = np.array(hull).T
    return replace(curve, costs=costs, values=values)


def _slope(a: tuple[float, float], b: tuple[float, float]) -> tuple[float, float, float]:
    return rate(b[1] - a[1], b[0] - a[0])


def _ratios(achieved: Float, bounds: Float) -> Float:
    """Return achieved/bounds, 1 where the bound is 0, and no more than 1."""
    ratios = np.divide(achieved, bounds, out=np.ones_like(bounds), where=bounds > 0)
    return np.clip(ratios, 0.0, 1.0)
