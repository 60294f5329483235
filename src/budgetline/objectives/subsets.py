"""Models of any subset of the chosen columns, from what a fit leaves behind."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol, Self

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_solve

from budgetline.objectives.coefficients import subset_coefficients
from budgetline.objectives.families import Family
from budgetline.objectives.least_squares import Factor
from budgetline.objectives.newton import factored

Float = NDArray[np.float64]


class Subset(Protocol):
    """Answers for any subset of the chosen columns."""

    @property
    def columns(self) -> NDArray[np.intp]:
        """The chosen columns of X, in order, shape (T,)."""
        ...

    @property
    def column_ends(self) -> NDArray[np.intp]:
        """How many of them belong to the first j stages, shape (stages,)."""
        ...

    def solve(self, chosen: NDArray[np.bool_]) -> tuple[Float, Float]:
        """Return coefficients (P, T) of standardised columns, zero outside the subset, and levels (P,)."""
        ...

    def renamed(self, columns: NDArray[np.intp]) -> Self:
        """Return the same for columns of another table."""
        ...


@dataclass(frozen=True)
class LinearSubset:
    """Least squares: exact for every subset."""

    factor: Factor
    level: Float

    @property
    def columns(self) -> NDArray[np.intp]:
        """The chosen columns."""
        return self.factor.columns

    @property
    def column_ends(self) -> NDArray[np.intp]:
        """Where the stages end."""
        return self.factor.column_ends

    def solve(self, chosen: NDArray[np.bool_]) -> tuple[Float, Float]:
        """Solve U_A w ≈ z."""
        return subset_coefficients(self.factor, chosen), self.level

    def renamed(self, columns: NDArray[np.intp]) -> LinearSubset:
        """Return the same for columns of another table."""
        return replace(self, factor=replace(self.factor, columns=columns))


@dataclass(frozen=True)
class QuadraticSubset:
    """A GLM: the minimiser, over the subset, of the quadratic model of the risk around the last stage.

    With H the Hessian there and θ* the parameters, ½(θ − θ*)'H(θ − θ*) is minimised over θ that are zero outside the
    subset: H_A θ_A = (Hθ*)_A. Exact for the whole sequence and for squared error; otherwise an approximation, better
    the less is missing.

    Attributes
    ----------
    H : array of shape (Q(1 + T), Q(1 + T))
    theta : array of shape (1 + T, Q)
        The intercepts, then the coefficients of standardised columns, in internal scores.
    """

    H: Float
    theta: Float
    columns: NDArray[np.intp]
    column_ends: NDArray[np.intp]
    family: Family

    def solve(self, chosen: NDArray[np.bool_]) -> tuple[Float, Float]:
        """Solve for the subset and the intercept, which is always in."""
        free = np.repeat(np.concatenate([[True], chosen]), self.theta.shape[1])
        theta = np.zeros(free.size)
        target = self.H[free] @ self.theta.ravel()
        theta[free] = cho_solve(factored(self.H[np.ix_(free, free)]), target, check_finite=False)
        external = self.family.external(theta.reshape(self.theta.shape))
        return external[1:].T, external[0]

    def renamed(self, columns: NDArray[np.intp]) -> QuadraticSubset:
        """Return the same for columns of another table."""
        return replace(self, columns=columns)
