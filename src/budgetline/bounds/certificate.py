"""The certificate: how close a sequence is to optimal at every budget, and the proof of it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from budgetline.arrays import Array, Float, Mask, Positions
from budgetline.bounds.verifier import check_parts, verify
from budgetline.budgets import SLACK, affordable, check_stop
from budgetline.codec import AtLeast, Shape, from_bytes, to_bytes
from budgetline.evaluation.curve import BudgetCurve, timeliness
from budgetline.evaluation.displays import SOME_SETS, BudgetCurveDisplay
from budgetline.files import PathName, read, write_atomically
from budgetline.groups.feature_groups import StoredGroups, check_order
from budgetline.inputs import floats_of
from budgetline.messages import name_of, shown
from budgetline.moments.moments import Moments
from budgetline.tables import Tabular, html_table, rounded_down, text_table

KIND = "certificate"
HEADER = ("budget", "achieved", "bound", "certified")
SHOWN = (0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0)
"""Shares of the total cost that a printed certificate shows."""
MOST_NAMES = 3
"""In short texts this many groups are named, and the others counted."""
Number = Annotated[float, AtLeast(0)]


class Certified(NamedTuple):
    """What was achieved, a bound on what can be achieved, and their ratio: the certified share of the optimum."""

    achieved: float
    bound: float
    ratio: float


@dataclass(frozen=True, eq=False)
class Certificate(Tabular):
    """What a sequence explains on the training data at every budget, and a bound on what any set of groups can explain.

    The bounds are proven, and `verify` checks the proof. Values are in units of F, the reduction of the training risk.

    Attributes
    ----------
    feature_groups : FeatureGroups
        The groups, with their costs.
    order : int array
        The positions of the groups, in sequence order.
    values : float array
        The value of each prefix of the sequence: F, minus the penalties if there are any.
    alpha : float
        The ridge constant.
    budgets : float array of shape (B,)
        The budgets, in increasing order.
    achieved : float array of shape (B,)
        The value of the longest affordable prefix at each budget.
    bounds : float array of shape (B,)
        The bound on the value of any affordable set at each budget.
    everything : float
        F of all groups that are not excluded, minus the penalties of the included groups. If the columns are so close
        to linear dependence that F cannot be computed, R(∅) is used instead.
    null_value : float
        R(∅), the risk without any group.
    gamma : float
        γ of the theorems, the smallest eigenvalue of the whitened covariance.
    included, excluded : bool arrays of shape (J,)
        The groups that must, or must not, be in a set. For the certificate of a sequence, there are no such groups. For
        a plan, the bounds apply only to sets that contain every included group and no excluded group; other sets may
        explain more.
    blocks : float array
        The entries of the matrices Δ_1, …, Δ_J, one after another, with C − blockdiag(Δ_g) ⪰ 0. If the array is empty,
        there is no proof, and the only bound is F of all groups.
    duals : array of shape (duals, columns, targets)
        The dual vectors u for the standardised columns, ordered by group. The mathematics page defines them.
    leaf_budget : int array of shape (leaves,)
        For each leaf of the search tree, the position of its budget in ``budgets``.
    leaf_dual : int array of shape (leaves,)
        For each leaf, the position of its dual vector in ``duals``.
    leaf_included, leaf_excluded : bool arrays of shape (leaves, J)
        For each leaf, the groups that a set must, or must not, contain. The dual vector of the leaf gives a bound on
        the value of all such sets at its budget.
    weights : array, or None
        Penalty weights ω_d of the columns, ordered by group. The ridge penalty is alpha/2 Σ ω_d w_d². None means that
        all weights are 1.
    penalties : array of shape (J,), or None
        For each group, the amount that is subtracted from F of every set that contains it. All bounds then apply to F
        minus the penalties, and not to F itself. None means that nothing is subtracted.

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

    feature_groups: StoredGroups
    order: Annotated[Positions, Shape("stages")]
    values: Annotated[Float, Shape("stages")]
    alpha: Number
    budgets: Annotated[Float, Shape("budgets"), AtLeast(0)]
    achieved: Annotated[Float, Shape("budgets")]
    bounds: Annotated[Float, Shape("budgets")]
    everything: float
    null_value: Number
    gamma: Number
    included: Annotated[Mask, Shape("groups")]
    excluded: Annotated[Mask, Shape("groups")]
    blocks: Annotated[Float, Shape("*")]
    duals: Annotated[Float, Shape("duals columns targets")]
    leaf_budget: Annotated[Positions, Shape("leaves"), AtLeast(0)]
    leaf_dual: Annotated[Positions, Shape("leaves"), AtLeast(0)]
    leaf_included: Annotated[Mask, Shape("leaves groups")]
    leaf_excluded: Annotated[Mask, Shape("leaves groups")]
    weights: Annotated[Float | None, Shape("columns")] = None
    penalties: Annotated[Float | None, Shape("groups"), AtLeast(0)] = None

    @property
    def condition(self) -> str:
        """The sets to which the bounds apply, such as "with age and without blood"; "" means all sets."""
        return self._about(None)

    @property
    def ratios(self) -> Float:
        """The certified share of the optimum at each budget: achieved value divided by bound, or 1 if both are 0."""
        return _ratios(self.achieved, self.bounds)

    @property
    def total_cost(self) -> float:
        """The cost of all groups."""
        return self.feature_groups.prices.total

    def at(self, budget: float) -> Certified:
        """Return what the sequence achieves at a budget, the bound at this budget, and their ratio.

        Between two budgets of the certificate, the bound of the larger budget applies.
        """
        if not floats_of(budget) >= 0:
            raise ValueError(f"budget must be ≥ 0, got {shown(budget)}")
        achieved = float(np.append(0.0, self.achieved)[affordable(self.budgets, budget)])
        following = int(np.searchsorted(self.budgets * (1 + SLACK), budget, side="left"))
        bound = float(np.append(self.bounds, self.everything)[following])
        return Certified(achieved, bound, float(_ratios(achieved, bound)))

    def timeliness(self, stop: float | None = None) -> Certified:
        """Return the timeliness of the sequence, a bound on the timeliness of any sequence, and their ratio.

        Timeliness is the mean value over all budgets up to ``stop``, by default the cost of all groups. If groups are
        excluded, the bound applies to sequences without them. If groups are included, timeliness is not available,
        because every sequence starts without any groups.
        """
        if self.included.any():
            about = self._about()
            raise ValueError(f"a certificate for sets {about} has no timeliness: every sequence starts without groups")
        T = self.total_cost if stop is None else check_stop(stop)
        value, most = timeliness(self._sequence_curve(), T) / self._scale, timeliness(self.curve(), T)
        # just before the cost of a group, by a billionth, the bound is that of the group
        nothing = most <= 1e-6 * self.everything / self._scale
        return Certified(value, most, 1.0 if nothing else float(_ratios(value, most)))

    def curve(self) -> BudgetCurve:
        """Return the bound as a curve of explained shares F/R(∅), which can be drawn above the sequence's curve."""
        values = np.append(self.bounds, self.everything) / self._scale  # a bound holds up to its budget
        label = f"{SOME_SETS}{self._about()}" if self.condition else "bound"
        return BudgetCurve(np.append(0.0, self.budgets), values, label=label)

    def plot(self, ax: Any = None, **plot: Any) -> BudgetCurveDisplay:
        """Plot the sequence's training curve with the bound above it; parameters as in `BudgetCurveDisplay.plot`."""
        own = self._sequence_curve()
        training = replace(own, values=own.values / self._scale, metric="explained")
        return BudgetCurveDisplay(training).plot(ax, bound=self.curve(), **plot)

    def verify(self, moments: Moments) -> None:
        """Check every claim of the certificate against the moments of the training data.

        If a claim is wrong, a ValueError is raised that names the first such claim. The verifier shares no code with
        the search.
        """
        verify(self, moments)

    def save(self, path: PathName) -> None:
        """Write the certificate to a file at ``path``, completely or not at all."""
        write_atomically(path, to_bytes(KIND, self))

    @classmethod
    def load(cls, path: PathName) -> Certificate:
        """Read a certificate from the file at ``path``; do not rely on it before `verify` has checked it."""
        return from_bytes(KIND, cls, read(path), str(path), _checked)

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes on the limitations of the bounds, and the guarantee of Theorem 3.2."""
        found = []
        if self.condition:
            found.append(f"The bounds apply to sets {self.condition}: other sets may explain more.")
        if self.penalties is not None:
            found.append("The bounds apply to what sets explain minus a correction for noise.")
        if not self.blocks.size:
            most = "what all groups that are not excluded explain" if self.excluded.any() else "what all groups explain"
            found.append(
                f"The columns are too nearly dependent (alpha={self.alpha:g}) for the precision of the moments: the "
                f"only bound is {most}, or the whole risk. Raise alpha, or use moments of float64 data."
            )
        if not self.condition and self.penalties is None and (promise := self.greedy_promise) is not None:
            found.append(
                f"Theorem 3.2 (γ = {self.gamma:.3g}) guarantees {promise:.1%} of the optimum at every prefix of a "
                "greedy sequence by forward or omp."
            )
        return tuple(found)

    @property
    def greedy_promise(self) -> float | None:
        """1 − e^−γ, the share of the optimum that Theorem 3.2 guarantees for every prefix; None if costs are shared."""
        return -float(np.expm1(-self.gamma)) if self.feature_groups.prices.additive else None

    def to_dict(self) -> dict[str, list[float]]:
        """Return a dict of columns: budget, achieved and bound (values of F), and certified (their ratio)."""
        columns = (self.budgets, self.achieved, self.bounds, self.ratios)
        return {name: column.tolist() for name, column in zip(HEADER, columns, strict=True)}

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
            names = [name_of(self.feature_groups.names[g]) for g in np.flatnonzero(mask).tolist()]
            more = len(names) - len(names[:most])
            if names:
                parts.append(f"{word} {', '.join(names[:most])}" + (f" and {more} more" if more else ""))
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
        return BudgetCurve(np.append(0.0, costs), np.append(0.0, self.values), "gain", label="training")

    @property
    def _scale(self) -> float:
        """R(∅), by which F is divided; 1 where there is nothing to explain."""
        return self.null_value if self.null_value > 0 else 1.0


def no_proof(J: int) -> dict[str, Array]:
    """Return the fields of a proof that says nothing about J groups."""
    none, nothing = np.empty(0, dtype=np.intp), np.empty((0, J), dtype=bool)
    leaves = {"leaf_budget": none, "leaf_dual": none, "leaf_included": nothing, "leaf_excluded": nothing}
    return {"blocks": np.empty(0), "duals": np.empty((0, 0, 0)), **leaves}


def _checked(found: Certificate) -> Certificate:
    """Return a certificate from a file if its fields belong together; only ``verify`` checks the bounds."""
    check_order(found.order, found.feature_groups)
    check_parts(found)
    return found


def _ratios(achieved: ArrayLike, bounds: ArrayLike) -> Float:
    """Return achieved/bounds, no more than 1. Where the bound is not positive: 1 if it is achieved, otherwise 0."""
    most = np.asarray(bounds, dtype=np.float64)
    reached = np.asarray(np.asarray(achieved) >= most, dtype=np.float64)
    return np.clip(np.divide(achieved, most, out=reached, where=most > 0), 0.0, 1.0)
