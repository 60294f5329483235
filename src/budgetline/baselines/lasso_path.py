"""The path of the cost-weighted group lasso: the paper's Sparse baseline.

For every λ of a decreasing grid, with C and b of standardised columns (``leastsquares/gram.py``),

    min_w  ½ tr(w'Cw) − tr(b'w) + λ Σ_g c_g ‖w_g‖_F,

each started from the previous solution (one λ: ``group_penalty``). The order in which groups enter is a sequence.
"""

from __future__ import annotations

import math
from contextlib import nullcontext
from dataclasses import dataclass

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from budgetline.arrays import Float, Positions
from budgetline.baselines.group_penalty import Minimum, Penalised, minimise
from budgetline.budgets import unit_of
from budgetline.leastsquares.gram import Gram, size_classes
from budgetline.leastsquares.rules import OrthogonalMatchingPursuit
from budgetline.messages import warn
from budgetline.threads import one_blas_thread

LARGEST_PENALTY = 1e100
"""Gradients of targets of order one stay far below this: a group with at least this penalty never enters."""
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
    gram: Gram, sizes: Positions, weights: Float, grid: tuple[int, float], tol: float = 1e-9, most: int | None = None
) -> LassoPath:
    """Solve the group lasso for all λ, each started from the previous solution.

    ``sizes`` and ``weights`` c_g ≥ 0 have shape (J,). ``grid`` is the number of λ, evenly spaced on a log scale from
    the largest that matters, and the smallest over the largest. ``tol`` bounds the errors of the optimality conditions
    relative to λ c_g, and the duality gap relative to R(∅). The path ends when more than ``most`` groups have entered.
    """
    unit, size = _middle(weights), unit_of(float(np.sqrt(gram.target_variance.sum())))
    gram, costs = gram.scaled(size), weights / unit
    problem = Penalised.of(gram, sizes, costs)
    paid, free = costs[problem.members], weights.size - problem.members.size
    found = [Minimum(np.zeros_like(problem.b), problem.b, 0.0, 0.0, True)]  # at λ = ∞
    norms = problem.norms(problem.b)
    seen = norms > problem.floor
    largest = float(np.max(norms[seen] / paid[seen], initial=0.0))
    scaled = largest * grid[1] ** (np.arange(grid[0]) / max(grid[0] - 1, 1))
    lambdas = _in_user_units(scaled, unit, size)
    inside = np.zeros(paid.size, dtype=bool)
    for value, shown in zip(scaled, lambdas, strict=True):
        with np.errstate(over="ignore"):  # no group enters at such a penalty
            kappa = np.minimum(value * paid, LARGEST_PENALTY)
        with one_blas_thread() if problem.group.size < LARGE else nullcontext():
            found.append(minimise(problem, kappa, found[-1].w, tol))
        if not found[-1].converged:
            gap, violation = found[-1].gap * size**2, found[-1].violation
            warn(
                f"the group lasso did not converge at lambda={shown:.6g}: duality gap {gap:.3g}, optimality "
                f"conditions violated by {violation:.3g} of lambda·cost (tol={tol:g}). "
                "Raise alpha, tol, or the smallest lambda.",
                ConvergenceWarning,
            )
        inside |= problem.norms(found[-1].w) > 0
        if most is not None and free + np.count_nonzero(inside) > most:
            break
    entries, merit = _entries(problem, found, gram, sizes, costs)
    coefs = size * np.array([problem.coefficients(point.w).T for point in found[1:]])
    gaps = size**2 * np.array([point.gap for point in found[1:]])
    violations = np.array([point.violation for point in found[1:]])
    return LassoPath(lambdas[: len(gaps)], coefs, gaps, violations, entries, np.lexsort((weights, -merit, entries)))


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


def _entries(
    problem: Penalised, found: list[Minimum], gram: Gram, sizes: Positions, costs: Float
) -> tuple[Positions, Float]:
    """Return where in the path each group is first nonzero, and ‖r_g‖/c_g one λ before, or the gain if it is free."""
    entries, merit = np.full(costs.size, -1), np.zeros(costs.size)
    inside = np.array([problem.norms(point.w) > 0 for point in found])
    first = np.where(inside.any(axis=0), inside.argmax(axis=0), len(found)) - 1
    norms = np.array([problem.norms(point.r) for point in found])
    entries[problem.members] = first
    merit[problem.members] = norms[first, np.arange(first.size)] / costs[problem.members]
    columns = np.flatnonzero(~problem.paid)
    rule = OrthogonalMatchingPursuit(size_classes(sizes[costs == 0], lambda c: gram.blocks(columns[c])))
    merit[costs == 0] = rule.scores(gram.b[columns]) / 2
    return entries, merit
