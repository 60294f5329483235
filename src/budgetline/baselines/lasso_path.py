"""The path of the cost-weighted group lasso, from moments alone: the paper's Sparse baseline.

For every λ of a decreasing grid, with C and b of standardised columns (``objectives.gram``),

    min_w  ½ tr(w'Cw) − tr(b'w) + λ Σ_g c_g ‖w_g‖_F,

each started from the previous solution (method: ``group_penalty``). The order in which groups enter is a sequence.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from budgetline.arrays import Float, Positions
from budgetline.baselines.wide_gram import WideGram
from budgetline.baselines.working_groups import Point, Working
from budgetline.budgets import unit_of
from budgetline.messages import warn
from budgetline.objectives.blocks import size_classes
from budgetline.objectives.gram import Gram
from budgetline.objectives.rules import OrthogonalMatchingPursuit


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


def lambda_grid(largest: float, number: int, ratio: float) -> Float:
    """Return ``number`` values from ``largest`` down to ``ratio · largest``, evenly spaced on a log scale."""
    return np.asarray(largest * ratio ** (np.arange(number) / max(number - 1, 1)))


def lasso_path(
    gram: Gram | WideGram,
    sizes: Positions,
    weights: Float,
    lambdas: Float | tuple[int, float],
    tol: float = 1e-9,
    most: int | None = None,
) -> LassoPath:
    """Solve the group lasso for all λ, each started from the previous solution.

    Parameters
    ----------
    gram : Gram or WideGram
    sizes : int array of shape (J,)
    weights : array of shape (J,)
        c_g ≥ 0.
    lambdas : decreasing array of shape (L,), or (number, ratio) of a geometric grid from the largest λ that matters
    tol : float
        Largest error of the optimality conditions relative to λ c_g, and largest duality gap relative to R(∅).
    most : int or None
        The path ends when more groups have entered.
    """
    unit, size = _middle(weights), unit_of(float(np.sqrt(gram.target_variance.sum())))
    working = Working.of(_in_unit(gram, size), sizes, weights / unit)
    found = [working.start()]
    free = _free_gains(working)
    if isinstance(lambdas, tuple):
        scaled = lambda_grid(working.largest_lambda(found[0]), *lambdas)
        grid = _in_user_units(scaled, unit, size)
    else:
        scaled, grid = lambdas / size * unit, lambdas
    inside = found[0].inside
    for value, shown in zip(scaled, grid, strict=True):
        working, point = working.solved(found[-1], value, tol)
        if not point.converged:
            _warn(shown, point.gap * size**2, point.violation, tol)
        found.append(point)
        inside = inside | point.inside
        if most is not None and np.count_nonzero(inside) > most:
            break
    entries, merit = _entries(found, weights / unit, free)
    order = np.lexsort((weights, -merit, entries))
    coefs = size * np.array([point.coef.T for point in found[1:]])
    gaps, violations = size**2 * np.array([p.gap for p in found[1:]]), np.array([p.violation for p in found[1:]])
    return LassoPath(grid[: len(gaps)], coefs, gaps, violations, entries, order)


def _middle(weights: Float) -> float:
    """Return a power of two in the middle of the positive weights, a unit in which they are of moderate size."""
    _, exponents = np.frexp(weights[weights > 0])
    return math.ldexp(1.0, (int(exponents.min()) + int(exponents.max())) // 2) if exponents.size else 1.0


def _in_unit(gram: Gram | WideGram, size: float) -> Gram | WideGram:
    """Return the normal equations of targets divided by their size."""
    found = replace(gram, b=gram.b / size, target_variance=gram.target_variance / size**2)
    return replace(found, targets=found.targets / size) if isinstance(found, WideGram) else found


def _in_user_units(scaled: Float, unit: float, size: float) -> Float:
    """Return λ in the units of the weights and targets as they were given."""
    with np.errstate(over="ignore"):
        grid = scaled / unit * size
    if not np.isfinite(grid).all() or np.any((grid < np.finfo(np.float64).tiny) & (scaled > 0)):
        raise ValueError("the penalties of the path are beyond the range of float64: choose another unit of the costs")
    return np.asarray(grid)


def _free_gains(working: Working) -> Float:
    """Return ½ tr(b_g'C_g⁻¹b_g) of the free groups."""
    gram, columns = working.gram, np.flatnonzero(~working.problem.paid)
    free = working.sizes[working.weights == 0]
    rule = OrthogonalMatchingPursuit(size_classes(free, lambda c: gram.blocks(columns[c])))
    return rule.scores(gram.b[columns]) / 2


def _entries(found: list[Point], weights: Float, free: Float) -> tuple[Positions, Float]:
    """Return at which solution each group is first nonzero, and ‖r_g‖/c_g one λ before, or the gain of free ones."""
    inside = np.array([point.inside for point in found])  # the first is λ = ∞, where only free groups are in
    entries = np.where(inside.any(axis=0), inside.argmax(axis=0), len(found)) - 1
    norms = np.array([point.norms for point in found])
    merit = np.divide(norms[entries, np.arange(weights.size)], weights, out=np.zeros_like(weights), where=weights > 0)
    merit[weights == 0] = free
    return entries, merit


def _warn(value: float, gap: float, violation: float, tol: float) -> None:
    warn(
        f"the group lasso did not converge at lambda={value:.6g}: duality gap {gap:.3g}, optimality "
        f"conditions violated by {violation:.3g} of lambda·cost (tol={tol:g}). "
        "Raise alpha, tol, or the smallest lambda.",
        ConvergenceWarning,
    )
