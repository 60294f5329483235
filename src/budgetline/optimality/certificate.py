"""The certificate: how close a sequence is to optimal at every budget, and the proof of it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from budgetline.arrays import Float
from budgetline.budgets import SLACK, Interpolation, affordable, check_stop, rate
from budgetline.evaluation.curve import BudgetCurve, timeliness
from budgetline.evaluation.displays import SOME_SETS, BudgetCurveDisplay
from budgetline.files import PathName
from budgetline.inputs import check_number, floats_of
from budgetline.messages import name_of, shown
from budgetline.moments.moments import Moments
from budgetline.optimality.proof import Claims, Proof, read_certificate, write_certificate
from budgetline.optimality.verifier import verify
from budgetline.tables import Backend, Tabular, html_table, rounded_down, text_table

HEADER = ("budget", "achieved", "bound", "certified")
SHOWN = (0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0)
"""Shares of the total cost that a printed certificate shows."""
MOST_NAMES = 3
"""In short texts this many groups are named, and the others counted."""


class Certified(NamedTuple):
    """What was achieved, a bound on what can be achieved, and their ratio: the certified share of the optimum."""

    achieved: float
    bound: float
    ratio: float


@dataclass(frozen=True, eq=False)
class Certificate(Claims, Tabular):
    """At every budget, what a sequence explains on the training data, and a bound on what any set of groups can.

    The bounds are proven: :meth:`verify` checks them from the moments, without the code that found them.

    Attributes
    ----------
    feature_groups : FeatureGroups
    order, values : int array and float array
        The sequence, as positions of groups, and the value of each of its prefixes: F, less the penalties if there
        are any.
    alpha : float
        The ridge constant.
    loss : str
        "squared_error", "log_loss", "poisson", or "convex" for a :class:`budgetline.glm.ConvexLoss`. For losses
        other than squared error the only bound is that of all groups.
    budgets, achieved, bounds : float arrays of shape (B,)
        Increasing budgets; the value of the longest affordable prefix at each; the bound on that of any affordable set.
    everything : float
        F of all groups that are not excluded, less the penalties of those included; R(∅) takes the place of F if the
        columns are too nearly dependent to compute it.
    null_value, gamma : float
        R(∅), the risk without any group; γ of the theorems, the smallest eigenvalue of the whitened covariance.
    included, excluded : bool arrays of shape (J,)
        Groups that must or must not be in a set; none for a sequence. If there are any, all bounds are about sets that
        contain all of the first and none of the second; other sets may explain more.
    proof : Proof
    weights : array, or None
        Penalty weights of the columns, group after group: the ridge is alpha/2 Σ ω_d w_d². None: all 1.
    penalties : array of shape (J,), or None
        What is subtracted from F of every set that holds the group. All bounds are then about F less the penalties, and
        say nothing about F itself. None: nothing is subtracted.
    rivals : tuple of tuples of int
        Positions of rivals: a set holds at most one group of each tuple. If there are rivals, all bounds are about such
        sets.

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

    proof: Proof

    @property
    def condition(self) -> str:
        """Which sets the bounds are about, such as "with age and without blood"; "" for all sets."""
        return self._about(None)

    @property
    def ratios(self) -> Float:
        """Achieved over bound at every budget, the certified share of the optimum; 1 where both are 0."""
        return _ratios(self.achieved, self.bounds)

    @property
    def total_cost(self) -> float:
        """The cost of all groups."""
        return self.feature_groups.prices.total

    def at(self, budget: float) -> Certified:
        """Return what the sequence achieves at a budget, the bound there, and their ratio.

        Between two budgets of the certificate the bound is that of the larger one.
        """
        if not floats_of(budget) >= 0:
            raise ValueError(f"budget must be ≥ 0, got {shown(budget)}")
        achieved = float(np.append(0.0, self.achieved)[affordable(self.budgets, budget)])
        following = int(np.searchsorted(self.budgets * (1 + SLACK), budget, side="left"))
        bound = float(np.append(self.bounds, self.everything)[following])
        return Certified(achieved, bound, float(_ratios(achieved, bound)))

    def timeliness(self, stop: float | None = None, interpolation: Interpolation = "step") -> Certified:
        """Return the timeliness of the sequence, a bound on that of any sequence, and their ratio.

        Budgets count up to ``stop``, by default the cost of all groups; ``interpolation`` is as in
        :func:`budgetline.timeliness`: for "linear" the bound is the least concave curve above the bounds. If groups are
        excluded, the bound is about sequences without them. If groups must be included, this is an error: the bounds
        then say nothing about the first groups of a sequence.
        """
        if self.included.any():
            raise ValueError(
                f"a certificate about sets {self._about()} has no timeliness: a sequence begins without them"
            )
        T = self.total_cost if stop is None else check_stop(stop)
        value = timeliness(self._sequence_curve(), T, interpolation=interpolation) / self._scale
        bound = self.curve() if interpolation == "step" else _concave(self.curve())
        most = timeliness(bound, T, interpolation=interpolation)
        # just before the cost of a group, by a billionth, the bound is that of the group
        nothing = most <= 1e-6 * self.everything / self._scale
        return Certified(value, most, 1.0 if nothing else float(_ratios(value, most)))

    def curve(self) -> BudgetCurve:
        """Return the bound as a curve of F/R(∅), to be drawn above that of the sequence."""
        values = np.append(self.bounds, self.everything) / self._scale  # a bound holds up to its budget
        label = f"{SOME_SETS}{self._about()}" if self.condition else "bound"
        return BudgetCurve(np.append(0.0, self.budgets), values, label=label)

    def plot(self, ax: Any = None, **plot: Any) -> BudgetCurveDisplay:
        """Draw what the sequence explains of the training data, and the bound above it.

        Parameters are those of :meth:`budgetline.BudgetCurveDisplay.plot`.
        """
        own = self._sequence_curve()
        training = replace(own, values=own.values / self._scale, metric="explained")
        return BudgetCurveDisplay(training).plot(ax, bound=self.curve(), **plot)

    def verify(self, moments: Moments) -> None:
        """Check every statement from the moments of the training data; raise a ValueError that names what is wrong.

        The verifier shares no code with the search: it checks that C − Δ is positive semidefinite, and takes one
        product per dual and one sort per leaf.
        """
        verify(self, moments)

    def save(self, path: PathName) -> None:
        """Write the certificate to a file, completely or not at all."""
        write_certificate(self, path)

    @classmethod
    def load(cls, path: PathName) -> Certificate:
        """Read a certificate from a file; it proves nothing until :meth:`verify` has checked it."""
        return cls(**read_certificate(path))

    @property
    def notes(self) -> tuple[str, ...]:
        """Limitations of the bounds, and what the theorems promise."""
        if self.loss != "squared_error":
            return (f"For loss {shown(self.loss)} the only known bound is what all groups explain.",)
        found = []
        if self.condition:
            found.append(f"The bounds are about sets {self.condition}: other sets may explain more.")
        if self.penalties is not None:
            found.append(
                "The bounds are about what sets explain less a correction for noise, not about what they explain."
            )
        if not self.proof.blocks:
            most = "what all groups that are not excluded explain" if self.excluded.any() else "what all groups explain"
            found.append(
                f"The columns are too nearly dependent (alpha={self.alpha:g}) for the precision of the moments: the "
                f"only bound is {most}, or the whole risk. Raise alpha, or use moments of float64 data."
            )
        if self.condition or self.penalties is not None:
            return tuple(found)  # the theorems are about all sets, and about F
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
        """Return 1 − exp(−γ(C0/2 − 2)): the share of the optimum at 1/C0 of the cost that doubling guarantees.

        ``factor`` is C0, more than 4.
        """
        check_number("factor", factor, gt=4)
        return -float(np.expm1(-self.gamma * (factor / 2 - 2))) if self.feature_groups.prices.additive else None

    def to_dict(self) -> dict[str, list[float]]:
        """Return the table as plain columns: budget, achieved and bound (both F), and certified, their ratio."""
        columns = (self.budgets, self.achieved, self.bounds, self.ratios)
        return {name: column.tolist() for name, column in zip(HEADER, columns, strict=True)}

    def to_frame(self, backend: Backend = "pandas") -> Any:
        """Return the table as a data frame.

        If the bounds are not about all sets, ``attrs["condition"]`` of a pandas frame, or the metadata of a pyarrow
        table, says which; polars frames have no place for it.
        """
        frame = super().to_frame(backend)
        if self.condition and backend == "pandas":
            frame.attrs["condition"] = self.condition
        if self.condition and backend == "pyarrow":
            return frame.replace_schema_metadata({"condition": self.condition})
        return frame

    def __str__(self) -> str:
        return "\n".join([text_table(*self._table()), *self.notes])

    def __repr__(self) -> str:
        about = [f"{self.budgets.size} budget{'s' if self.budgets.size > 1 else ''}"]
        if self.condition:
            about.append(f"sets {self._about()}")
        if not self.included.any():
            timely = f"{rounded_down(self.timeliness().ratio):.1%}"
            about.append(f"timeliness at least {timely} of any" + (" such sequence" if self.condition else ""))
        return f"Certificate({', '.join(about)})\n{self}"

    def _repr_html_(self) -> str:
        return html_table(*self._table())

    def _about(self, most: int | None = MOST_NAMES) -> str:
        """Return "with a and without b, c", with no more than ``most`` names of each kind, the others counted."""
        parts = []
        for word, mask in (("with", self.included), ("without", self.excluded)):
            if mask.any():
                names = [name_of(self.feature_groups.names[g]) for g in np.flatnonzero(mask).tolist()]
                more = len(names) - len(names[:most])
                parts.append(f"{word} {', '.join(names[:most])}" + (f" and {more} more" if more else ""))
        for each in self.rivals:
            names = [name_of(self.feature_groups.names[g]) for g in each if not self.excluded[g]]
            if len(names) > 1:
                more = len(names) - len(names[:most])
                parts.append(f"with at most one of {', '.join(names[:most])}" + (f" and {more} more" if more else ""))
        return " and ".join(parts)

    def _table(self) -> tuple[list[str], list[list[str]]]:
        """Return the header, which names the sets that the bound is about, and the rows of the printed table."""
        rows = []
        for budget in (share * self.total_cost for share in SHOWN):
            found = self.at(budget)
            shares = found.achieved / self._scale, found.bound / self._scale, rounded_down(found.ratio)
            rows.append([f"{budget:.6g}", *(f"{share:.1%}" for share in shares)])
        return [f"{name} {self._about()}".rstrip() if name == "bound" else name for name in HEADER], rows

    def _sequence_curve(self) -> BudgetCurve:
        """Return F of the sequence at its own costs."""
        costs = np.cumsum(self.feature_groups.prices.steps(self.order))
        return BudgetCurve(np.append(0.0, costs), np.append(0.0, self.values), "F", label="training")

    @property
    def _scale(self) -> float:
        """R(∅), by which F is divided; 1 where there is nothing to explain."""
        return self.null_value if self.null_value > 0 else 1.0


def _concave(curve: BudgetCurve) -> BudgetCurve:
    """Return the least concave curve above a step curve."""
    hull: list[tuple[float, float]] = []
    for x, y in zip(curve.costs.tolist(), curve.values.tolist(), strict=True):
        if hull and x == hull[-1][0]:
            y = max(y, hull.pop()[1])
        while len(hull) > 1:
            (x0, y0), (x1, y1) = hull[-2:]
            if rate(y1 - y0, x1 - x0) > rate(y - y1, x - x1):
                break
            hull.pop()
        hull.append((x, y))
    costs, values = np.array(hull).T
    return replace(curve, costs=costs, values=values)


def _ratios(achieved: ArrayLike, bounds: ArrayLike) -> Float:
    """Return achieved/bounds, no more than 1. Where the bound is not positive: 1 if it is achieved, otherwise 0."""
    most = np.asarray(bounds, dtype=np.float64)
    reached = np.asarray(np.asarray(achieved) >= most, dtype=np.float64)
    return np.clip(np.divide(achieved, most, out=reached, where=most > 0), 0.0, 1.0)
