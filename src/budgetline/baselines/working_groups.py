"""Working groups: the part of a group lasso that is solved.

If C is known, these are all groups. If it is not, because X is wide, they are the nonzero groups and those that are
about to enter. A minimum over the working groups is one over all groups if no other group violates its condition
‖r_g‖ ≤ κ_g. One pass over X tells; those that do violate it are added.
"""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass, replace

import numpy as np

from budgetline.arrays import Float, Mask, Positions
from budgetline.baselines.group_penalty import Penalised, Solution, minimise, rounding
from budgetline.baselines.wide_gram import WideGram
from budgetline.objectives.gram import Gram
from budgetline.threads import one_blas_thread

LARGEST_PENALTY = 1e100
"""Gradients of targets of order one stay far below this: a group with at least this penalty never enters."""
FEWEST_ADDED = 20
"""So many groups may be added at once, or as many as are nonzero."""
LOOSE = 1e-2
"""Tolerance before it is known which groups enter."""
LARGE = 1000
"""From so many columns on, factorisations are large enough for all BLAS threads."""


@dataclass(frozen=True, eq=False)
class Point:
    """The solution at one λ, for all groups.

    Attributes
    ----------
    coef : array of shape (D, P)
    norms : array of shape (J,)
        ‖r_g‖; 0 for free groups.
    inside : mask of shape (J,)
        The groups that are nonzero, or free.
    gap, violation, converged
        As in ``Solution``.
    """

    coef: Float
    norms: Float
    inside: Mask
    gap: float
    violation: float
    converged: bool


@dataclass(frozen=True, eq=False)
class Working:
    """The working groups, free ones included, and the problem in them.

    Attributes
    ----------
    wide : WideGram, or None if all groups are working groups
    sizes, weights : arrays of shape (J,)
        Of all groups.
    groups, columns : int arrays
        The working groups and their columns.
    gram : Gram
        Of these columns.
    problem : Penalised
    """

    wide: WideGram | None
    sizes: Positions
    weights: Float
    groups: Positions
    columns: Positions
    gram: Gram
    problem: Penalised

    @classmethod
    def of(cls, gram: Gram | WideGram, sizes: Positions, weights: Float) -> Working:
        """Take all groups, or the free ones of a wide table."""
        if isinstance(gram, Gram):
            everything = np.arange(sizes.size), np.arange(len(gram.b))
            return cls(None, sizes, weights, *everything, gram, Penalised.of(gram, sizes, weights))
        none = np.empty(0, dtype=np.intp)
        empty = Gram(np.empty((0, 0)), gram.b[none], gram.target_variance)
        working = cls(gram, sizes, weights, none, none, empty, Penalised.of(empty, none, weights[none]))
        return working._holding(weights == 0)

    def start(self) -> Point:
        """Return the solution at λ = ∞."""
        return self._point(Solution(np.zeros_like(self.problem.b), self.problem.b, 0.0, 0.0, True))

    def largest_lambda(self, start: Point) -> float:
        """Return the smallest λ at which no penalised group is in the model; 0 if there is nothing to explain."""
        seen = start.norms > rounding(self.sizes, self.problem.total)
        return float(np.max(start.norms[seen] / self.weights[seen], initial=0.0))

    def solved(self, point: Point, value: float, tol: float) -> tuple[Working, Point]:
        """Return the solution at λ, from one at a larger λ, and the working groups in which it was found."""
        with np.errstate(over="ignore"):  # no group enters at such a penalty
            kappa = np.minimum(value * self.weights, LARGEST_PENALTY)
        limit = kappa + rounding(self.sizes, self.problem.total)
        late = self._late(point, limit)
        working = self._holding(point.inside | late) if late.any() else self
        for precision in (tol,) if self.wide is None else (max(tol, LOOSE), tol):
            point = working._minimum(point, kappa, precision)
            while (late := working._late(point, limit)).any():
                late[working.groups] = True  # none leaves before the next λ, else this might not end
                working = working._holding(late)
                point = working._minimum(point, kappa, precision)
        return working, point

    def _late(self, point: Point, limit: Float) -> Mask:
        """Mark the other groups with ‖r_g‖ above its limit, the worst of them if they are many."""
        late = point.norms > limit
        late[self.groups] = False
        most = max(FEWEST_ADDED, int(np.count_nonzero(point.inside)))
        if np.count_nonzero(late) > most:
            excess = np.divide(point.norms, limit, out=np.zeros_like(limit), where=late)
            late[np.argsort(-excess, kind="stable")[most:]] = False
        return late

    def _holding(self, wanted: Mask) -> Working:
        """Return these working groups (J,) instead; what is known of C is kept."""
        assert self.wide is not None
        kept, new = wanted[self.groups], wanted.copy()
        new[self.groups] = False
        groups = np.append(self.groups[kept], np.flatnonzero(new))
        sizes, ends = self.sizes[groups], np.cumsum(self.sizes[groups])
        shift = (np.cumsum(self.sizes) - self.sizes)[groups] - (ends - sizes)
        columns = np.arange(sizes.sum()) + np.repeat(shift, sizes)
        known = np.repeat(kept, self.sizes[self.groups])
        gram = self.wide.grown(replace(self.gram, C=self.gram.C[np.ix_(known, known)], b=self.gram.b[known]), columns)
        problem = Penalised.of(gram, sizes, self.weights[groups])
        return replace(self, groups=groups, columns=columns, gram=gram, problem=problem)

    def _minimum(self, start: Point, kappa: Float, tol: float) -> Point:
        """Return the minimum over the working groups."""
        problem = self.problem
        with one_blas_thread() if problem.group.size < LARGE else nullcontext():
            w = problem.rotated(start.coef[self.columns])
            found = minimise(problem, kappa[self.groups[problem.members]], w, tol)
        return self._point(found)

    def _point(self, found: Solution) -> Point:
        """Return a minimum over the working groups as one over all groups."""
        paid, inside = self.groups[self.problem.members], self.weights == 0
        if self.wide is None:
            coef, norms = self.problem.coefficients(found.w), np.zeros(inside.size)
        else:
            coef = np.zeros_like(self.wide.b)
            coef[self.columns] = self.problem.coefficients(found.w)
            r = self.wide.gradient(coef)
            norms = np.sqrt(np.add.reduceat(np.einsum("kp,kp->k", r, r), np.cumsum(self.sizes) - self.sizes))
        norms[inside], norms[paid] = 0.0, self.problem.norms(found.r)
        inside[paid] = self.problem.norms(found.w) > 0
        return Point(coef, norms, inside, found.gap, found.violation, found.converged)
