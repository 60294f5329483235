"""What sets of groups explain, F(S) = ½ tr(b_S' C_S⁻¹ b_S), and what they cost: the problem that bounds are about."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular

from budgetline.groups import FeatureGroups
from budgetline.groups.prices import Mask, Prices
from budgetline.objectives.gram import EPS, Gram

Float = NDArray[np.float64]
Ints = NDArray[np.intp]

RANK = 1e-13
"""Eigenvalues of C_S below this are rounding noise: columns are standardised."""
ROUNDINGS = 16
"""C is off by so many roundings of its entries, times its width, at most."""
LEAST_ROUNDING, MOST_ROUNDING = 1e-9, 1e-2
"""Bounds are raised by this share at least; where more than the second would be needed, C says too little."""


@dataclass(frozen=True, eq=False)
class Quadratic:
    """F of every set of groups, from C and b of standardised columns, group after group.

    Attributes
    ----------
    C : array of shape (D, D)
        With the ridge constant on its diagonal.
    b : array of shape (D, P)
    sizes : int array of shape (J,)
    groups : FeatureGroups
    null_value : float
        R(∅).
    alpha : float
    eps : float
        Unit roundoff of C and b: that of float32 where products were taken in float32.
    """

    C: Float
    b: Float
    sizes: Ints
    groups: FeatureGroups
    null_value: float
    alpha: float
    eps: float = EPS

    @classmethod
    def of(cls, gram: Gram, sizes: Ints, groups: FeatureGroups, alpha: float, eps: float = EPS) -> Quadratic:
        """Return the problem of a Gram matrix whose columns are in group order."""
        return cls(gram.C, gram.b, sizes, groups, float(gram.target_variance.sum() / 2), alpha, eps)

    @property
    def prices(self) -> Prices:
        """What sets of groups cost."""
        return self.groups.prices

    @property
    def starts(self) -> Ints:
        """The first column of every group."""
        return np.asarray(np.cumsum(self.sizes) - self.sizes)

    @property
    def labels(self) -> Ints:
        """The group of every column."""
        return np.repeat(np.arange(self.sizes.size), self.sizes)

    @cached_property
    def spectrum(self) -> Float:
        """Eigenvalues of C, increasing."""
        return np.asarray(np.linalg.eigvalsh(self.C), dtype=np.float64)

    @cached_property
    def rounding(self) -> float | None:
        """The share by which rounding may change F of any set; None where it may change it by more than a percent.

        An error of E in C changes F by ½ tr w'Ew ≤ ‖E‖ F/λ_min(C).
        """
        least = float(self.spectrum[0])
        noise = ROUNDINGS * max(self.eps, EPS) * len(self.C)
        return max(LEAST_ROUNDING, noise / least) if least * MOST_ROUNDING > noise else None

    def columns(self, order: list[int]) -> Ints:
        """Return the columns of these groups, one group after the other."""
        starts = self.starts
        parts = [np.arange(starts[g], starts[g] + self.sizes[g]) for g in order]
        return np.concatenate(parts) if parts else np.empty(0, dtype=np.intp)

    def solution(self, mask: Mask) -> Float:
        """Return w(S), shape (D, P), zero outside the groups of the mask (J,)."""
        w = np.zeros_like(self.b)
        columns = np.flatnonzero(mask[self.labels])
        if columns.size:
            w[columns] = _solve(self.C[np.ix_(columns, columns)], self.b[columns])
        return w

    def value(self, mask: Mask) -> float:
        """Return F(S) of the groups of a mask (J,)."""
        return float(np.sum(self.b * self.solution(mask)) / 2)

    def prefix_values(self, order: list[int]) -> Float:
        """Return F of every prefix of an order, without the empty one, from one factorisation."""
        columns, ends = self.columns(order), np.cumsum(self.sizes[order])
        try:
            L = np.linalg.cholesky(self.C[np.ix_(columns, columns)])
        except np.linalg.LinAlgError:
            masks = np.tri(len(order), dtype=bool)
            return np.array([self.value(np.isin(np.arange(self.sizes.size), np.array(order)[m])) for m in masks])
        z = solve_triangular(L, self.b[columns], lower=True, check_finite=False)
        return np.asarray(np.cumsum((z**2).sum(axis=1))[ends - 1] / 2)

    def prefix_solutions(self, order: list[int], stages: list[int]) -> Iterator[Float]:
        """Yield w(G_j), shape (D, P), for some stages of an order, from one factorisation; C must not be singular."""
        columns, ends = self.columns(order), np.cumsum(self.sizes[order])
        L = np.linalg.cholesky(self.C[np.ix_(columns, columns)])
        z = solve_triangular(L, self.b[columns], lower=True, check_finite=False)
        for stage in stages:
            k = ends[stage - 1]
            w = np.zeros_like(self.b)
            w[columns[:k]] = solve_triangular(L[:k, :k], z[:k], lower=True, trans=1, check_finite=False)
            yield w


def _solve(C: Float, b: Float) -> Float:
    """Return C⁻¹b, or C⁺b where C is singular."""
    try:
        L = np.linalg.cholesky(C)
        if np.diag(L).min() ** 2 > RANK:
            z = solve_triangular(L, b, lower=True, check_finite=False)
            return np.asarray(solve_triangular(L, z, lower=True, trans=1, check_finite=False))
    except np.linalg.LinAlgError:
        pass
    spectrum, V = np.linalg.eigh(C)
    inverse = np.divide(1.0, spectrum, out=np.zeros_like(spectrum), where=spectrum > RANK * spectrum[-1])
    return np.asarray((V * inverse) @ (V.T @ b))
