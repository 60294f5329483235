"""The path of the cost-weighted group lasso: the paper's Sparse baseline.

For every λ of a decreasing grid, with C and b of standardised columns (``leastsquares/gram.py``),

    min_w  ½ tr(w'Cw) − tr(b'w) + λ Σ_g c_g ‖w_g‖_F,

each started from the previous solution (one λ: ``group_penalty``). The order in which groups enter is a sequence.

If X is wide, C of all columns is never formed. Each λ is solved over *working groups*: the nonzero ones and those about
to enter. A minimum over these is a minimum over all groups if no other group violates its condition ‖r_g‖ ≤ λ c_g. One
pass over X tells; the groups that do violate it are added.
"""

from __future__ import annotations

import math
from contextlib import nullcontext
from dataclasses import dataclass, replace

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from budgetline.arrays import Float, Mask, Positions
from budgetline.baselines.group_penalty import Minimum, Penalised, minimise, rounding
from budgetline.budgets import unit_of
from budgetline.leastsquares.gram import Gram, size_classes
from budgetline.leastsquares.rules import OrthogonalMatchingPursuit
from budgetline.messages import warn
from budgetline.moments.columns import StandardisedColumns
from budgetline.threads import one_blas_thread

LARGEST_PENALTY = 1e100
"""Gradients of targets of order one stay far below this: a group with at least this penalty never enters."""
FEWEST_ADDED = 20
"""At most this many groups are added at once, or as many as are nonzero if that is more."""
LARGE = 1000
"""With more columns than this, factorisations are large enough for all BLAS threads."""


@dataclass(frozen=True, eq=False)
class LassoPath:
    """Solutions along a grid of λ, in standardised columns, group after group.

    Attributes
    ----------
    lambdas : array of shape (L,)
        Decreasing.
    coefs : array of shape (L, P, D)
    gaps : array of shape (L,)
        Duality gaps, in the units of R(∅) = ½ Σ var(y_p).
    violations : array of shape (L,)
        Largest error of the optimality conditions, relative to λ c_g.
    entries : int array of shape (J,)
        Position in ``lambdas`` at which each group is first nonzero; −1 for free groups, L for groups that never enter.
    order : int array of shape (J,)
        Groups in the order of first entry: free groups first, by their gains ½ tr(b_g'C_g⁻¹b_g) on their own, then by
        ``entries``. Groups that enter at the same λ, and those that never do, are sorted by how close they were to
        entering: the highest ‖r_g‖/c_g at the previous λ, or at the last, comes first. Ties go to the smaller c_g.
    """

    lambdas: Float
    coefs: Float
    gaps: Float
    violations: Float
    entries: Positions
    order: Positions

    @property
    def entry_lambdas(self) -> Float:
        """The first λ at which each group is nonzero, shape (J,); infinite for free groups, NaN if it never enters."""
        return np.concatenate([self.lambdas, [np.nan, np.inf]])[self.entries]


def lasso_path(
    gram: Gram | WideGram,
    sizes: Positions,
    weights: Float,
    grid: tuple[int, float],
    tol: float = 1e-9,
    most: int | None = None,
) -> LassoPath:
    """Solve the group lasso for all λ, each started from the previous solution.

    ``sizes`` and ``weights`` c_g ≥ 0 have shape (J,). ``grid`` is the number of λ, evenly spaced on a log scale from
    the largest that matters, and the smallest over the largest. ``tol`` bounds the errors of the optimality conditions
    relative to λ c_g, and the duality gap relative to R(∅). The path ends when more than ``most`` groups have entered.
    """
    unit, size = _middle(weights), unit_of(float(np.sqrt(gram.target_variance.sum())))
    working = Working.of(gram.scaled(size), sizes, weights / unit)
    found = [working.start()]
    free = _free_gains(working)
    scaled = working.largest_lambda(found[0]) * grid[1] ** (np.arange(grid[0]) / max(grid[0] - 1, 1))
    lambdas = _in_user_units(scaled, unit, size)
    inside = found[0].inside
    for value, shown in zip(scaled, lambdas, strict=True):
        working, point = working.solved(found[-1], value, tol)
        if not point.minimum.converged:
            gap, violation = point.minimum.gap * size**2, point.minimum.violation
            warn(
                f"the group lasso did not converge at lambda={shown:.6g}: duality gap {gap:.3g}, optimality "
                f"conditions violated by {violation:.3g} of lambda·cost (tol={tol:g}). "
                "Raise alpha, tol, or the smallest lambda.",
                ConvergenceWarning,
            )
        found.append(point)
        inside = inside | point.inside
        if most is not None and np.count_nonzero(inside) > most:
            break
    entries, merit = _entries(found, weights / unit, free)
    order = np.lexsort((weights, -merit, entries))
    coefs = size * np.array([point.coef.T for point in found[1:]])
    gaps = size**2 * np.array([point.minimum.gap for point in found[1:]])
    violations = np.array([point.minimum.violation for point in found[1:]])
    return LassoPath(lambdas[: len(gaps)], coefs, gaps, violations, entries, order)


def _middle(weights: Float) -> float:
    """Return a power of two in the middle of the positive weights, a unit in which they are of moderate size."""
    _, exponents = np.frexp(weights[weights > 0])
    return math.ldexp(1.0, (int(exponents.min()) + int(exponents.max())) // 2) if exponents.size else 1.0


def _in_user_units(scaled: Float, unit: float, size: float) -> Float:
    """Return λ in the units of the weights and targets as they were given."""
    with np.errstate(over="ignore"):
        lambdas = scaled / unit * size
    if not np.isfinite(lambdas).all() or np.any((lambdas < np.finfo(np.float64).tiny) & (scaled > 0)):
        raise ValueError("the penalties of the path are beyond the range of float64: choose another unit of the costs")
    return np.asarray(lambdas)


def _free_gains(working: Working) -> Float:
    gram, columns = working.gram, np.flatnonzero(~working.problem.paid)
    free = working.sizes[working.weights == 0]
    rule = OrthogonalMatchingPursuit(size_classes(free, lambda c: gram.blocks(columns[c])))
    return rule.scores(gram.b[columns]) / 2


def _entries(found: list[PathPoint], weights: Float, free: Float) -> tuple[Positions, Float]:
    """Return where in the path each group is first nonzero, and ‖r_g‖/c_g one λ before, or the gain if it is free."""
    inside = np.array([point.inside for point in found])  # the first is λ = ∞, where only free groups are in
    entries = np.where(inside.any(axis=0), inside.argmax(axis=0), len(found)) - 1
    norms = np.array([point.norms for point in found])
    merit = np.divide(norms[entries, np.arange(weights.size)], weights, out=np.zeros_like(weights), where=weights > 0)
    merit[weights == 0] = free
    return entries, merit


# -- working groups -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class PathPoint:
    """The solution at one λ: coefficients (D, P), ‖r_g‖ (J,), 0 for free groups, and which groups are nonzero or free.

    ``minimum`` is over the working groups.
    """

    coef: Float
    norms: Float
    inside: Mask
    minimum: Minimum


@dataclass(frozen=True, eq=False)
class Working:
    """The problem in the working groups, free ones included; ``sizes`` and ``weights`` (J,) are of all groups.

    ``gram`` and ``problem`` have the ``columns`` of ``groups``. Without a wide table all groups are working groups.
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
        return working._with(weights == 0)

    def start(self) -> PathPoint:
        """Return the solution at λ = ∞."""
        return self._point(Minimum(np.zeros_like(self.problem.b), self.problem.b, 0.0, 0.0, True))

    def largest_lambda(self, start: PathPoint) -> float:
        """Return the smallest λ at which no penalised group is in the model; 0 if y is constant."""
        seen = start.norms > rounding(self.sizes, self.problem.total)
        return float(np.max(start.norms[seen] / self.weights[seen], initial=0.0))

    def solved(self, point: PathPoint, value: float, tol: float) -> tuple[Working, PathPoint]:
        """Return the solution at λ, from one at a larger λ, and the working groups in which it was found."""
        with np.errstate(over="ignore"):  # no group enters at such a penalty
            kappa = np.minimum(value * self.weights, LARGEST_PENALTY)
        limit = kappa + rounding(self.sizes, self.problem.total)
        working = self if not (late := self._late(point, limit)).any() else self._with(late)
        point = working._minimum(point, kappa, tol)
        while (late := working._late(point, limit)).any():
            working = working._with(late)
            point = working._minimum(point, kappa, tol)
        return working, point

    def _late(self, point: PathPoint, limit: Float) -> Mask:
        """Mark the other groups with ‖r_g‖ above its limit, the worst of them if they are many."""
        late = point.norms > limit
        late[self.groups] = False
        most = max(FEWEST_ADDED, int(np.count_nonzero(point.inside)))
        if np.count_nonzero(late) > most:
            excess = np.divide(point.norms, limit, out=np.zeros_like(limit), where=late)
            late[np.argsort(-excess, kind="stable")[most:]] = False
        return late

    def _with(self, more: Mask) -> Working:
        """Return these working groups and more (J,); known parts of C are kept."""
        assert self.wide is not None
        groups = np.append(self.groups, np.flatnonzero(more))
        columns = np.append(self.columns, np.flatnonzero(np.repeat(more, self.sizes)))
        gram = self.wide.grown(self.gram, columns)
        problem = Penalised.of(gram, self.sizes[groups], self.weights[groups])
        return replace(self, groups=groups, columns=columns, gram=gram, problem=problem)

    def _minimum(self, start: PathPoint, kappa: Float, tol: float) -> PathPoint:
        problem = self.problem
        with one_blas_thread() if problem.group.size < LARGE else nullcontext():
            w = problem.rotated(start.coef[self.columns])
            found = minimise(problem, kappa[self.groups[problem.members]], w, tol)
        return self._point(found)

    def _point(self, found: Minimum) -> PathPoint:
        """Return a minimum over the working groups as one over all groups."""
        paid, inside = self.groups[self.problem.members], self.weights == 0
        coef, norms = np.zeros((self.sizes.sum(), found.w.shape[1])), np.zeros(inside.size)
        coef[self.columns] = self.problem.coefficients(found.w)
        if self.wide is not None:
            r = self.wide.gradient(coef)
            norms = np.sqrt(np.add.reduceat(np.einsum("kp,kp->k", r, r), np.cumsum(self.sizes) - self.sizes))
        norms[inside], norms[paid] = 0.0, self.problem.norms(found.r)
        inside[paid] = self.problem.norms(found.w) > 0
        return PathPoint(coef, norms, inside, found)


# -- wide tables ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class WideGram:
    """b (D, P) of standardised columns and centred targets (n, P); C of chosen columns on demand.

    ``order`` (D,) are the columns of A, group after group; ``alpha`` is the ridge constant.
    """

    A: StandardisedColumns
    order: Positions
    alpha: float
    targets: Float
    b: Float
    target_variance: Float

    @classmethod
    def of(cls, A: StandardisedColumns, targets: Float, order: Positions, alpha: float) -> WideGram:
        """Return b of columns in an order, for targets (n, P)."""
        return cls(A, order, alpha, targets, A.project(targets).T[order], (targets**2).sum(axis=0))

    def scaled(self, size: float) -> WideGram:
        """Return the problem with the targets divided by a size."""
        targets, variance = self.targets / size, self.target_variance / size**2
        return replace(self, targets=targets, b=self.b / size, target_variance=variance)

    def gradient(self, coef: Float) -> Float:
        """Return b − A'A·coef, without the ridge, shape (D, P)."""
        used = np.flatnonzero(coef.any(axis=1))
        columns = self.order[used]
        w = coef[used] / self.A.scale[columns, None]
        fitted = self.A.X[:, columns] @ w - self.A.mean[columns] @ w
        return np.asarray(self.b - self.A.project(self.A.root[:, None] * fitted).T[self.order])

    def grown(self, known: Gram, columns: Positions) -> Gram:
        """Return C and b of columns (K,); those of the first columns are known."""
        taken, first = self.order[columns], len(known.b)
        held = self.A.columns(taken)
        new, fresh = held[:, first:], np.arange(first, columns.size)
        C, b = np.empty((columns.size, columns.size)), np.vstack([known.b, new.T @ self.targets])
        C[:first, :first], C[first:] = known.C, new.T @ held
        C[:first, first:] = C[first:, :first].T
        C[fresh, fresh] += np.where(np.isfinite(self.A.scale[taken[first:]]), 0.0, 1.0) + self.alpha  # as in Gram.of
        return Gram(C, b, self.target_variance)
