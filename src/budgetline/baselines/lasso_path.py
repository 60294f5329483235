"""The path of the cost-weighted group lasso, from moments alone: the paper's Sparse baseline.

For every λ of a decreasing grid, with standardised X, centred Y and C, b as in ``least_squares``,

    min_w  ½ tr(w'Cw) − tr(b'w) + λ Σ_g c_g ‖w_g‖_F,

each from the solution before (``group_penalty`` has the method). The order in which groups enter is a sequence.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from budgetline.baselines.group_penalty import Penalised, Solution, minimise
from budgetline.budgets import unit_of
from budgetline.objectives.least_squares import EPS
from budgetline.threads import one_blas_thread

Float = NDArray[np.float64]

LARGEST_PENALTY = 1e100
"""Of targets of the size of 1 no gradient is near it: a group of this penalty, or a larger one, stays out."""


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
        Position in ``lambdas`` at which each group is first nonzero; −1 for free groups, L for those that never are.
    order : int array of shape (J,)
        Groups in the order of first entry: free groups first, by their gains ½ tr(b_g'C_g⁻¹b_g) on their own, then by
        ``entries``. Of groups that enter at the same λ, and of those that never do, the one that was nearest to
        entering comes first: the highest ‖r_g‖/c_g at the λ before, or at the last. Ties go to the smaller c_g.
    """

    lambdas: Float
    coefs: Float
    gaps: Float
    violations: Float
    entries: NDArray[np.intp]
    order: NDArray[np.intp]

    @property
    def entry_lambdas(self) -> Float:
        """The first λ at which each group is nonzero, shape (J,); infinite for free groups, NaN if it never is."""
        return np.concatenate([self.lambdas, [np.nan, np.inf]])[self.entries]


def lambda_grid(largest: float, number: int, ratio: float) -> Float:
    """Return ``number`` values from ``largest`` down to ``ratio · largest``, in equal ratios."""
    return np.asarray(largest * ratio ** (np.arange(number) / max(number - 1, 1)))


def lasso_path(
    C: Float,
    b: Float,
    target_variance: Float,
    sizes: NDArray[np.intp],
    weights: Float,
    lambdas: Float | tuple[int, float],
    tol: float = 1e-9,
) -> LassoPath:
    """Solve the group lasso for all λ, each from the solution before.

    Parameters
    ----------
    C, b : arrays of shape (D, D) and (D, P)
        Columns group after group.
    target_variance : array of shape (P,)
    sizes : int array of shape (J,)
    weights : array of shape (J,)
        c_g ≥ 0.
    lambdas : decreasing array of shape (L,), or (number, ratio) of a geometric grid from the largest λ that matters
    tol : float
        Largest error of the optimality conditions relative to λ c_g, and largest duality gap relative to R(∅).
    """
    unit, size = _middle(weights), unit_of(float(np.sqrt(target_variance.sum())))
    with one_blas_thread():  # many small products
        problem = Penalised.of(C, b / size, target_variance / size**2, sizes, weights / unit)
        if isinstance(lambdas, tuple):
            scaled = lambda_grid(problem.largest_lambda, *lambdas)
            grid = _in_user_units(scaled, unit, size)
        else:
            scaled, grid = lambdas / size * unit, lambdas
        found: list[Solution] = []
        for value, shown in zip(scaled, grid, strict=True):
            start = found[-1].w if found else np.zeros_like(problem.b)
            with np.errstate(over="ignore"):  # no group comes in at such a penalty
                penalties = np.minimum(value * problem.weights, LARGEST_PENALTY)
            found.append(minimise(problem, penalties, start, tol))
            if not found[-1].converged:
                _warn(shown, found[-1].gap * size**2, found[-1].violation, tol)
        coefs = size * np.array([(problem.offset + problem.back @ s.w).T for s in found])
    entries, merit = np.full(sizes.size, -1, dtype=np.intp), _gains_alone(C, b, sizes)
    entries[problem.members], merit[problem.members] = _entries(problem, found)
    order = np.lexsort((weights, -merit, entries))
    gaps, violations = size**2 * np.array([s.gap for s in found]), np.array([s.violation for s in found])
    return LassoPath(grid, coefs, gaps, violations, entries, order)


def _middle(weights: Float) -> float:
    """Return a power of two in the middle of the weights that are not 0, so that in it none is too large or small."""
    _, exponents = np.frexp(weights[weights > 0])
    return math.ldexp(1.0, (int(exponents.min()) + int(exponents.max())) // 2) if exponents.size else 1.0


def _in_user_units(scaled: Float, unit: float, size: float) -> Float:
    """Return λ that go with the weights and targets as they were given."""
    with np.errstate(over="ignore"):
        grid = scaled / unit * size
    if not np.isfinite(grid).all() or np.any((grid < np.finfo(np.float64).tiny) & (scaled > 0)):
        raise ValueError("the penalties of the path are beyond the range of float64: choose another unit of the costs")
    return np.asarray(grid)


def _entries(problem: Penalised, found: list[Solution]) -> tuple[NDArray[np.intp], Float]:
    """Return at which solution each penalised group is first nonzero, and ‖r_g‖/c_g one λ before, both (G,)."""
    inside = np.array([problem.norms(s.w) > 0 for s in found])
    entries = np.where(inside.any(axis=0), inside.argmax(axis=0), len(found))
    # row k is the λ before solution k; the first is λ = ∞, where r = b
    near = np.array([problem.norms(r) / problem.weights for r in (problem.b, *(s.r for s in found))])
    return entries, near[entries, np.arange(entries.size)]


def _gains_alone(C: Float, b: Float, sizes: NDArray[np.intp]) -> Float:
    """Return ½ tr(b_g' C_g⁺ b_g) of every group, shape (J,)."""
    ends = np.cumsum(sizes)
    gains = np.empty(sizes.size)
    for g, (end, size) in enumerate(zip(ends, sizes, strict=True)):
        here = slice(end - size, end)
        gains[g] = 0.5 * np.sum(b[here] * (np.linalg.pinv(C[here, here], rcond=EPS * size, hermitian=True) @ b[here]))
    return gains


def _warn(value: float, gap: float, violation: float, tol: float) -> None:
    warnings.warn(
        f"the group lasso did not converge at lambda={value:.6g}: duality gap {gap:.3g}, optimality "
        f"conditions violated by {violation:.3g} of lambda·cost (tol={tol:g}). "
        "Raise alpha, tol, or the smallest lambda.",
        ConvergenceWarning,
        stacklevel=3,
    )
